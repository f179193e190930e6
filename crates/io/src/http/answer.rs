//! Interpreting a server's answer: bytes, redirection, version, checksum, error.

use super::address::server_of;
use super::{Settings, Way, date, s3};
use crate::cancel;
use crate::checksum::Checksum;
use crate::ledger::said;
use crate::plan::Range;
use crate::remote::{Fault, Version};
use std::io::{Error, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use ureq::http::{HeaderMap, Response, StatusCode};
use ureq::{Body, ResponseExt};

/// Bytes taken from the network at a time.
pub(super) const PIECE: usize = 64 << 10;
/// Longest pause accepted from a server.
const LONGEST_PAUSE: Duration = Duration::from_secs(86_400);

/// Returns the location of a redirection, or `None` if the answer is not a redirection.
pub(super) fn redirection(response: &Response<Body>) -> std::result::Result<Option<String>, Fault> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let to = response.headers().get("location").and_then(|to| to.to_str().ok());
    let hint = "set AWS_REGION if it is an S3 bucket of another region";
    let unknown = || Fault::lasting(Error::other(format!("it redirects without a target ({hint})")));
    to.map(|to| Some(to.to_owned())).ok_or_else(unknown)
}

/// Returns how the server has encoded the file, if it says so.
pub(super) fn encoding_of(response: &Response<Body>) -> Option<String> {
    let named = response.headers().get("content-encoding")?.to_str().ok()?;
    (!matches!(named.trim(), "" | "identity")).then(|| said(named))
}

/// Returns an error if the server compresses a file on the way, although it was asked not to. Some servers name an
/// encoding that a file does not have.
pub(super) fn not_packed(encoding: Option<&str>, start: &[u8]) -> std::result::Result<(), Fault> {
    let Some(encoding) = encoding else { return Ok(()) };
    let packed = match encoding.trim().to_ascii_lowercase().as_str() {
        "gzip" | "x-gzip" => start.starts_with(&[0x1f, 0x8b]),
        "deflate" => start.first().is_some_and(|first| first & 0x0f == 8),
        "zstd" => start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
        _ => !start.starts_with(b"root"),
    };
    if !packed {
        return Ok(());
    }
    Err(Fault::lasting(Error::new(
        ErrorKind::InvalidData,
        format!(
            "the server sends the file compressed (Content-Encoding: {encoding}), although it was asked not to"
        ),
    )))
}

/// Copies all bytes, until the read is cancelled, and counts them in `copied` as they arrive.
pub(super) fn copy(
    from: &mut impl Read,
    to: &mut impl Write,
    copied: &AtomicU64,
) -> std::result::Result<(), Fault> {
    let mut piece = vec![0; PIECE];
    loop {
        if cancel::given_up() {
            return Err(Fault::lasting(Error::from(ErrorKind::Interrupted)));
        }
        let n = from.read(&mut piece).map_err(Fault::passing)?;
        if n == 0 {
            return Ok(());
        }
        to.write_all(piece.get(..n).unwrap_or_default()).map_err(Fault::lasting)?;
        copied.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// Passes on the bytes of a range as they arrive; returns false if `take` wants no more.
pub(super) fn forward(
    from: &mut impl Read,
    range: Range,
    take: &mut dyn FnMut(u64, &[u8]) -> bool,
) -> std::result::Result<bool, Fault> {
    let mut piece = vec![0; PIECE];
    let mut offset = range.offset;
    while offset < range.end() {
        let most = ((range.end() - offset) as usize).min(PIECE);
        let n = from.read(piece.get_mut(..most).unwrap_or_default()).map_err(Fault::passing)?;
        let bytes = piece.get(..n).unwrap_or_default();
        if bytes.is_empty() {
            return Err(Fault::passing(Error::new(ErrorKind::UnexpectedEof, "the connection was cut")));
        }
        let more = take(offset, bytes);
        offset += n as u64;
        if !more && offset < range.end() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads all bytes of a range.
pub(super) fn body(response: Response<Body>, range: Range) -> std::result::Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let mut from = response.into_body().into_reader();
    forward(&mut from, range, &mut |_, new| {
        bytes.extend_from_slice(new);
        true
    })?;
    finish(&mut from);
    Ok(bytes)
}

/// Reads the rest of an answer, so that the connection can be reused.
pub(super) fn finish(from: &mut impl Read) {
    // Reading more would take longer than opening a new connection.
    for _ in 0..4 {
        if !matches!(from.read(&mut [0; 1 << 10]), Ok(1..)) {
            break;
        }
    }
}

/// Converts an error of the HTTP client, and decides whether a retry can help.
pub(super) fn fault(error: ureq::Error) -> Fault {
    match error {
        ureq::Error::Io(error) if is_of_certificate(&error) => {
            Fault::lasting(Error::new(ErrorKind::PermissionDenied, error))
        }
        ureq::Error::Io(error) => Fault::passing(error),
        ureq::Error::Timeout(what) => {
            Fault::passing(Error::new(ErrorKind::TimedOut, format!("timeout: {what}")))
        }
        ureq::Error::ConnectionFailed | ureq::Error::Protocol(_) => {
            Fault::passing(Error::other(error.to_string()))
        }
        ureq::Error::HostNotFound => Fault::lasting(Error::new(ErrorKind::NotConnected, error.to_string())),
        other => Fault::lasting(Error::other(other.to_string())),
    }
}

/// Whether the server's certificate was refused.
pub(super) fn is_of_certificate(error: &Error) -> bool {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(of_tls, Some(rustls::Error::InvalidCertificate(_)))
}

/// Converts an answer without bytes of the file into an error, which does not repeat secrets of the request.
pub(super) fn refused(response: Response<Body>, settings: &Settings) -> Fault {
    let (status, server) = (response.status(), server_of(&response.get_uri().to_string()));
    let after = retry_after(response.headers());
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    let is_xml = text("content-type").is_some_and(|kind| kind.contains("xml"));
    let region = text("x-amz-bucket-region").map(said);
    let why = is_xml.then(|| s3::Refusal::read(response.into_body().into_reader())).flatten();
    let passes = why.as_ref().is_some_and(s3::Refusal::passes);
    let mut message = status.to_string();
    if let Some(s3::Refusal { code, message: words, region: elsewhere }) = why {
        message = if words.is_empty() {
            format!("{message}: {code}")
        } else {
            format!("{message}: {code} ({words})")
        };
        if let Some(region) = elsewhere.or(region).filter(|_| !passes && status != StatusCode::NOT_FOUND) {
            message = format!("{message}; the bucket is in {region} (AWS_REGION)");
        }
    }
    let message = settings.hidden(message);
    let error = |kind| Error::new(kind, message.clone());
    let fault = match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => Fault::lasting(error(ErrorKind::NotFound)),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Fault::lasting(error(ErrorKind::PermissionDenied))
        }
        StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Fault { after, ..Fault::passing(error(ErrorKind::Other)) }
        }
        _ if status.is_server_error() || passes => Fault { after, ..Fault::passing(error(ErrorKind::Other)) },
        _ => Fault::lasting(error(ErrorKind::Other)),
    };
    fault.at(&server)
}

/// Reads `Retry-After`: seconds, or a date by the server's own clock.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let after = text("retry-after")?;
    let until = || {
        let now = text("date").and_then(date::parse).unwrap_or_else(date::now);
        Some(date::parse(after)?.saturating_sub(now))
    };
    let seconds = after.parse().ok().or_else(until)?;
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}

/// Returns the file version in an answer (`ETag`, otherwise `Last-Modified`).
pub(super) fn version_of(way: &Way, response: &Response<Body>) -> Option<Version> {
    let text = |name| response.headers().get(name).and_then(|v| v.to_str().ok());
    // A server may mark the same tag as weak in some answers, for example if it compresses others.
    let tag = text("etag").map(|tag| tag.strip_prefix("W/").unwrap_or(tag));
    let tag = tag.or_else(|| text("last-modified"))?.to_owned();
    let server = response.get_uri().authority().map_or_else(String::new, ToString::to_string);
    // Two URLs may lead to different files on one server.
    Some(Version { of: format!("{} {server}", way.replica), tag })
}

/// Headers that request a checksum of the whole file: RFC 3230, RFC 9530 and S3.
pub(super) const WANTED: [(&str, &str); 3] = [
    ("want-digest", "adler32, crc32c;q=0.9, md5;q=0.8, sha-256;q=0.7"),
    ("want-repr-digest", "crc32c=9, adler=8, md5=7, sha-256=6"),
    ("x-amz-checksum-mode", "ENABLED"),
];

/// Returns the checksum of the whole file, if the server sends it.
pub(super) fn promised(headers: &HeaderMap) -> Option<Checksum> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let listed = ["repr-digest", "digest"].iter().find_map(|name| Checksum::listed(text(name)?));
    let parts = text("x-amz-checksum-type").is_some_and(|kind| kind.eq_ignore_ascii_case("COMPOSITE"));
    let of_s3 = || {
        // The checksum of a multipart object ends with the number of parts, so that its length is invalid.
        let kinds = ["crc64nvme", "crc32c", "crc32", "sha256", "sha1"].iter();
        kinds
            .filter(|_| !parts)
            .find_map(|kind| Checksum::named(kind, text(&format!("x-amz-checksum-{kind}"))?))
    };
    listed.or_else(of_s3)
}

pub(super) fn content_range(headers: &HeaderMap) -> Option<(Range, u64)> {
    parse_content_range(headers.get("content-range")?.to_str().ok()?)
}

/// Parses `bytes 0-99/1234`: the range, and the size of the file.
pub(super) fn parse_content_range(text: &str) -> Option<(Range, u64)> {
    let (range, size) = text.trim().strip_prefix("bytes")?.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last, size): (u64, u64, u64) =
        (first.trim().parse().ok()?, last.trim().parse().ok()?, size.trim().parse().ok()?);
    let length = last.checked_sub(first)?.checked_add(1)?;
    (last < size).then_some((Range { offset: first, length }, size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_servers() {
        let told = |headers: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            promised(&map)
        };
        let adler = Checksum::named("adler32", "091e01de");
        assert_eq!(told(&[("digest", "adler32=091e01de"), ("etag", "\"x\"")]), adler);
        assert_eq!(told(&[("repr-digest", "sha-999=:AA==:, adler=:CR4B3g==:")]), adler);
        let crc = Checksum::named("crc32c", "e3069283");
        assert_eq!(told(&[("x-amz-checksum-crc32c", "4waSgw==")]), crc);
        assert_eq!(told(&[("x-amz-checksum-crc32c", "4waSgw==-3")]), None);
        assert_eq!(
            told(&[("x-amz-checksum-crc32c", "4waSgw=="), ("x-amz-checksum-type", "COMPOSITE")]),
            None
        );
        assert_eq!(told(&[("etag", "\"25f9e794323b453885f5181f1b624d0b\"")]), None);
    }

    #[test]
    fn servers_say_when_to_come_again() {
        let after = |pairs: &[(&'static str, &'static str)]| {
            let mut map = HeaderMap::new();
            pairs.iter().for_each(|(name, value)| drop(map.insert(*name, value.parse().unwrap())));
            retry_after(&map).map(|pause| pause.as_secs())
        };
        assert_eq!(after(&[("retry-after", " 7 ")]), Some(7));
        // Beyond the range of the clock.
        assert_eq!(after(&[("retry-after", "18446744073709551615")]), Some(LONGEST_PAUSE.as_secs()));
        // By the server's own clock, whatever the local time.
        let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(after(&[("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT"), date]), Some(23));
        assert_eq!(after(&[("retry-after", "Sun, 06 Nov 1994 08:40:00 GMT"), date]), Some(0));
        assert_eq!(after(&[("retry-after", "Sun, 06 Nov 1994 08:40:00 GMT")]), Some(0));
        for none in ["", "-5", "soon"] {
            assert_eq!(after(&[("retry-after", none)]), None, "{none}");
        }
    }

    #[test]
    fn content_ranges() {
        let range = |offset, length, size| Some((Range { offset, length }, size));
        for (text, want) in [
            ("bytes 0-99/1234", range(0, 100, 1234)),
            ("bytes 5-5/6", range(5, 1, 6)),
            ("bytes 5-6/6", None),
            ("bytes 6-5/9", None),
            ("bytes */6", None),
            ("bytes 0-5/*", None),
            ("bytes 0-18446744073709551615/1", None),
        ] {
            assert_eq!(parse_content_range(text), want, "{text}");
        }
    }
}
