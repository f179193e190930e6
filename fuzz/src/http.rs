//! A file on a web server, whose heads, frames and parts an input describes.

use crate::choices::Choices;
use crate::servers::{Script, Server, content};
use sapwood_io::http::{Settings, open};
use sapwood_io::{Ledger, Options};
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::time::Duration;

/// Parts of the input for requests that are sent together: the start of the file, and its end.
const FIXED: usize = 2;

/// Reads a file from a server. The bytes of a correct server are returned unchanged; other answers give errors or
/// bytes.
pub fn http(data: &[u8]) {
    static SERVER: OnceLock<&Server> = OnceLock::new();
    let server = SERVER.get_or_init(|| Server::start(serve));
    let Some((first, input)) = data.split_first() else { return };
    let mut choices = Choices(std::slice::from_ref(first));
    let options = Options {
        timeout: Duration::from_millis(300),
        retries: u32::from(choices.rarely(16)),
        workers: 2,
        ahead: 1 << 20,
        ..Options::default()
    };
    server.read(input, |port| {
        let urls = [format!("http://127.0.0.1:{port}/file.root")];
        open(&urls, &Settings::default(), &options, Ledger::default()).ok()
    });
}

/// Answers requests until an answer closes the connection.
fn serve(script: &Script, mut stream: TcpStream) {
    let Ok(from) = stream.try_clone() else { return };
    let mut from = BufReader::new(from);
    while let Some(request) = request(&mut from).filter(|_| !script.is_over()) {
        let number = match request.ranges[..] {
            [(Some(0), _)] => Some(0),
            [(None, _)] => Some(1),
            _ => None,
        };
        let mut choices = script.choices(number, FIXED);
        let (bytes, more) = answer(script, &request, &mut choices);
        if Script::send(&mut stream, &bytes, &mut choices).is_err() || !more {
            break;
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

struct Request {
    head: bool,
    /// First and last byte; only the number of bytes at the end of the file.
    ranges: Vec<(Option<usize>, usize)>,
}

fn request(from: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut request = None;
    for _ in 0..100 {
        let mut line = Vec::new();
        from.by_ref().take(16 << 10).read_until(b'\n', &mut line).ok()?;
        let text = String::from_utf8_lossy(&line).trim_end().to_ascii_lowercase();
        let Some(request) = &mut request else {
            request = Some(Request { head: text.starts_with("head"), ranges: Vec::new() });
            continue;
        };
        if text.is_empty() {
            return (!line.is_empty())
                .then(|| Request { head: request.head, ranges: std::mem::take(&mut request.ranges) });
        }
        if let Some(ranges) = text.strip_prefix("range: bytes=") {
            let parsed = ranges.split(',').filter_map(|range| {
                let (first, last) = range.split_once('-')?;
                let most = content().len() - 1;
                Some((first.parse().ok(), last.parse().unwrap_or(most).min(most)))
            });
            request.ranges =
                parsed.filter(|(first, last)| first.is_none_or(|first| first <= *last)).collect();
        }
    }
    None
}

/// Whole bytes, as one piece or in chunks.
fn framed(script: &Script, head: &mut Vec<String>, body: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    match choices.below(8) {
        0..5 => head.push(format!("Content-Length: {}", body.len())),
        5 => head.push("Connection: close".into()),
        _ => {
            head.push("Transfer-Encoding: chunked".into());
            let mut out = Vec::new();
            let step = 1 + choices.word() * 8;
            for piece in body.chunks(step.max(body.len() / 50)) {
                let extension = choices.one(&["", "", "", ";a=b", " ", ";\u{7f}"]);
                let size = if choices.rarely(24) {
                    script.lie();
                    choices.one(&["", "-1", "ffffffffffffffff", "10000000000000000", "x", "0"]).to_owned()
                } else {
                    format!("{:x}", piece.len())
                };
                out.extend_from_slice(format!("{size}{extension}\r\n").as_bytes());
                out.extend_from_slice(piece);
                out.extend_from_slice(b"\r\n");
            }
            out.extend_from_slice(b"0\r\n");
            if choices.rarely(4) {
                out.extend_from_slice(b"Trailer: x\r\n");
            }
            out.extend_from_slice(b"\r\n");
            return out;
        }
    }
    body.to_vec()
}

/// An answer, and whether the connection stays open.
fn answer(script: &Script, request: &Request, choices: &mut Choices<'_>) -> (Vec<u8>, bool) {
    let (content, size) = (content(), content().len());
    if choices.rarely(24) {
        script.lie();
        return (harmless(choices.raw(4000), script.port), false);
    }
    let ranges: Vec<(usize, usize)> = request
        .ranges
        .iter()
        .map(|(first, last)| first.map_or((size.saturating_sub(*last), size - 1), |first| (first, *last)))
        .collect();
    let mut head = Vec::new();
    let mut status = 206;
    let mut body = Vec::new();
    match choices.below(16) {
        _ if request.head => {
            status = choices.one(&[200, 200, 405, 501, 404, 500]);
            head.push(format!("Content-Length: {size}"));
            head.push(choices.one(&DIGESTS).to_owned());
        }
        10 => {
            status = choices.one(&[416, 404, 403, 401, 400, 413, 414, 429, 431, 500, 501, 503]);
            let text: &[u8] = choices.one(&[
                b"",
                b"<Error><Code>SlowDown</Code><Message>a &amp; b</Message></Error>",
                b"<Error><Code>",
                b"<Error><Code>PermanentRedirect</Code><Region>x</Region></Error>",
            ]);
            head.push("Content-Type: application/xml".into());
            head.push(choices.one(&RETRIES).to_owned());
            body = framed(script, &mut head, text, choices);
        }
        11 => {
            status = choices.one(&[301, 302, 303, 307, 308]);
            let place =
                choices.one(&["/other.root", "file.root", "?x=y", "//127.0.0.1:", "", "#", "../../a b"]);
            // Only to this server.
            let place =
                if place.ends_with(':') { format!("{place}{}/f", script.port) } else { place.to_owned() };
            head.push(format!("Location: {place}"));
            head.push("Content-Length: 0".into());
        }
        12 => {
            status = 200;
            head.push(choices.one(&DIGESTS).to_owned());
            body = framed(script, &mut head, content, choices);
        }
        _ if ranges.is_empty() => {
            status = 200;
            body = framed(script, &mut head, content, choices);
        }
        13 => {
            // One range that covers all.
            let first = ranges.iter().map(|range| range.0).min().unwrap_or(0);
            let last = ranges.iter().map(|range| range.1).max().unwrap_or(0);
            head.push(place(script, first, last, choices));
            body = framed(script, &mut head, &content[first..=last], choices);
        }
        kind if ranges.len() == 1 && kind != 14 => {
            let (first, last) = ranges[0];
            head.push(place(script, first, last, choices));
            body = framed(script, &mut head, &content[first..=last], choices);
        }
        _ => {
            let border = choices.one(&[
                "edge",
                "a b",
                "\"edge\"",
                "--",
                "0123456789012345678901234567890123456789012345678901234567890123456789",
            ]);
            let plain = border.trim_matches('"');
            let mut parts = Vec::new();
            for (first, last) in ranges.iter().skip(usize::from(choices.rarely(12))) {
                let lines = choices.one(&["\r\n", "\r\n", "\r\n", "\n", "\r\n\r\n", ""]);
                let title = choices.one(&["Content-Range: ", "content-range:", "CONTENT-RANGE: "]);
                let place = place(script, *first, *last, choices);
                let range = place.split_once(": ").map_or("", |(_, range)| range);
                let other = choices.one(&["", "", "Content-Type: x/y\r\n", "odd line\r\n"]);
                parts.extend_from_slice(
                    format!("{lines}--{plain}\r\n{other}{title}{range}\r\n\r\n").as_bytes(),
                );
                let shorter = if choices.rarely(24) { choices.below(9) } else { 0 };
                if shorter > 0 {
                    script.lie();
                }
                parts.extend_from_slice(&content[*first..(*last + 1).saturating_sub(shorter).max(*first)]);
                if lines.is_empty() {
                    script.lie();
                }
            }
            parts.extend_from_slice(
                format!("\r\n--{plain}--{}", choices.one(&["\r\n", "", "\r\nmore"])).as_bytes(),
            );
            head.push(format!("Content-Type: multipart/byteranges; boundary={border}"));
            body = framed(script, &mut head, &parts, choices);
        }
    }
    let tag = choices.below(32);
    head.push(format!(
        "ETag: {}",
        if tag > 28 {
            "\"other\""
        } else if tag == 28 {
            "W/\"one\""
        } else {
            "\"one\""
        }
    ));
    if choices.rarely(12) {
        script.lie();
        head.push(choices.one(&ODD).to_owned());
    }
    // Chunks are of HTTP/1.1.
    let old = choices.rarely(16) && !head.iter().any(|line| line.starts_with("Transfer"));
    let mut bytes =
        format!("HTTP/1.{} {status} Fine\r\n{}\r\n\r\n", u8::from(!old), head.join("\r\n")).into_bytes();
    if request.head {
        body.clear();
    }
    let began = bytes.len();
    script.damage(&mut bytes, choices);
    let damaged = bytes.len() != began;
    let mut bytes = harmless(&bytes, script.port);
    script.damage(&mut body, choices);
    bytes.extend_from_slice(&body);
    (bytes, !damaged && !old && !head.iter().any(|line| line.starts_with("Connection")))
}

const DIGESTS: [&str; 6] = [
    "Accept-Ranges: bytes",
    "Digest: adler32=00000001",
    "Repr-Digest: crc32c=:AAAAAA==:, sha-256=:",
    "x-amz-checksum-crc32: AA==",
    "Digest: md5=x,adler32=zz,",
    "x-amz-checksum-crc64nvme: AAAAAAAAAAA=",
];
const RETRIES: [&str; 6] = [
    "Accept-Ranges: none",
    "Retry-After: 0",
    "Retry-After: 18446744073709551615",
    "Retry-After: Sun, 06 Nov 1994 08:49:37 GMT",
    "Retry-After: Sun, 99 Nov 99999 88:49:37 GMT",
    "x-amz-bucket-region: \u{1b}[31m",
];
const ODD: [&str; 8] = [
    "Content-Encoding: gzip",
    "Content-Length: 18446744073709551616",
    "Content-Length: -1",
    "Transfer-Encoding: gzip, chunked",
    "Content-Range: bytes 0-5/6",
    "Connection: upgrade",
    "Last-Modified: \u{ff}",
    "Content-Type: multipart/byteranges; boundary=",
];

/// The range of an answer, seldom another one.
fn place(script: &Script, first: usize, last: usize, choices: &mut Choices<'_>) -> String {
    let size = content().len();
    if choices.rarely(24) {
        script.lie();
        let odd = choices.word();
        return match choices.below(10) {
            0 => format!("Content-Range: bytes {}-{last}/{size}", first + odd),
            1 => format!("Content-Range: bytes {first}-{}/{size}", last + odd),
            2 => format!("Content-Range: bytes {first}-{}/{size}", last.saturating_sub(odd)),
            3 => format!("Content-Range: bytes {first}-{last}/{}", size + odd),
            4 => format!("Content-Range: bytes {first}-{last}/*"),
            5 => format!("Content-Range: bytes {first}-18446744073709551615/18446744073709551615"),
            6 => format!("Content-Range: bytes 18446744073709551615-{last}/{size}"),
            7 => format!("Content-Range: bytes -{last}/{size}"),
            8 => format!("Content-Range: bytes {first}-{last}/{last}"),
            _ => "X: y".to_owned(),
        };
    }
    format!("Content-Range: bytes {first}-{last}/{size}")
}

/// A head without the name of another server, to which it might redirect.
fn harmless(bytes: &[u8], port: u16) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let own = format!("//127.0.0.1:{port}/").into_bytes();
    for at in 1..bytes.len() {
        if bytes[at - 1] == b'/' && bytes[at] == b'/' && !bytes[at - 1..].starts_with(&own) {
            bytes[at] = b'x';
        }
    }
    bytes
}
