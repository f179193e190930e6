//! The wire format: encoding requests, and splitting received bytes into answers.
//!
//! Source: the `XRootD` protocol specification, version 5.2. Numbers are big-endian. A request is a stream number, a
//! kind, 16 bytes of parameters, a length and a body. An answer is the stream number, a status, a length and a body.

use crate::ledger::said;
use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

/// Kinds of requests.
pub mod kind {
    pub const AUTH: u16 = 3000;
    pub const QUERY: u16 = 3001;
    pub const CLOSE: u16 = 3003;
    pub const DIRLIST: u16 = 3004;
    pub const PROTOCOL: u16 = 3006;
    pub const LOGIN: u16 = 3007;
    pub const OPEN: u16 = 3010;
    pub const READ: u16 = 3013;
    pub const STAT: u16 = 3017;
    pub const READV: u16 = 3025;
    pub const LOCATE: u16 = 3027;
    pub const PGREAD: u16 = 3030;
}

/// Status of an answer.
pub mod status {
    pub const OK: u16 = 0;
    pub const OK_SO_FAR: u16 = 4000;
    pub const ATTENTION: u16 = 4001;
    pub const AUTH_MORE: u16 = 4002;
    pub const ERROR: u16 = 4003;
    pub const REDIRECT: u16 = 4004;
    pub const WAIT: u16 = 4005;
    pub const WAIT_RESPONSE: u16 = 4006;
    pub const STATUS: u16 = 4007;
}

/// Actions of `kXR_attn`: an answer announced by `kXR_waitresp`, and two actions with which a server ends the session.
pub const ASYNC_RESPONSE: u32 = 5008;
pub const ASYNC_ENDS: [u32; 2] = [5000, 5001];

/// Default port.
pub const PORT: u16 = 1094;

/// Bytes of a request header, and of each `kXR_readv` element in requests and answers.
pub const REQUEST_HEAD: usize = 24;
pub const ELEMENT: usize = 16;

/// Bytes between the header of a `kXR_status` answer and its data: a checksum of the rest, the stream, the kind, and a
/// header like that of a `kXR_readv` element with the number of data bytes and their file offset.
const STATUS_BODY: usize = 8 + ELEMENT;
/// Bytes of a page of `kXR_pgread`, without the checksum before it.
pub const PAGE: u64 = 4096;
pub const CHECKSUM: usize = 4;

/// First bytes from a client.
pub const HANDSHAKE: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0x07, 0xdc];

/// Encodes a request.
pub fn request(stream: u16, kind: u16, parameters: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(REQUEST_HEAD + body.len());
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(parameters);
    bytes.resize(REQUEST_HEAD - 4, 0);
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Reads numbers from the start of a slice.
pub struct WireReader<'a>(pub &'a [u8]);

impl<'a> WireReader<'a> {
    pub fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let cut = || Error::new(ErrorKind::InvalidData, "the server sent an answer that is too short");
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(cut)?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_be_bytes)
    }
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_be_bytes)
    }
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_be_bytes)
    }
    /// Returns the rest as text, up to the first zero if there is one.
    pub fn text(&self) -> String {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(self.0.get(..end).unwrap_or_default()).into_owned()
    }
}

/// The header of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub stream: u16,
    pub status: u16,
    pub length: u32,
    /// Whether its data are pages with checksums after a header.
    pub paged: bool,
}

impl Head {
    pub const SIZE: usize = 8;

    pub fn parse(from: &mut WireReader<'_>) -> Result<Self> {
        let head = Self { stream: from.u16()?, status: from.u16()?, length: from.u32()?, paged: false };
        if i32::try_from(head.length).is_err() {
            return Err(Error::new(ErrorKind::InvalidData, "the server sent an answer of negative length"));
        }
        Ok(head)
    }
}

/// Returns the CRC32C of bytes.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Takes a piece of an answer: header, bytes, and whether they are the last.
pub type Put<'a> = dyn FnMut(Head, &[u8], bool) -> Result<()> + 'a;

/// Splits received bytes into answers, however they are divided; buffers none of the data.
#[derive(Default)]
pub struct Frames {
    begun: Vec<u8>,
    /// Bytes of a status body that belong to the header.
    status: usize,
    current: Option<Head>,
    /// Bytes of the current answer still to come.
    left: usize,
}

impl Frames {
    /// Passes on pieces of answers.
    pub fn feed(&mut self, mut bytes: &[u8], put: &mut Put<'_>) -> Result<()> {
        loop {
            let head = if let Some(head) = self.current {
                head
            } else {
                let size = Head::SIZE + self.status;
                let (begin, rest) = bytes.split_at((size - self.begun.len()).min(bytes.len()));
                self.begun.extend_from_slice(begin);
                bytes = rest;
                if self.begun.len() < size {
                    return Ok(());
                }
                let mut head = Head::parse(&mut WireReader(&self.begun))?;
                self.left = head.length as usize;
                if head.status == status::STATUS {
                    if self.status == 0 {
                        self.status = STATUS_BODY;
                        continue;
                    }
                    let begun = std::mem::take(&mut self.begun);
                    self.status = 0;
                    let (mark, length, last) = pages_of(&begun)?;
                    self.left = length as usize;
                    head.status = if last { status::OK } else { status::OK_SO_FAR };
                    head.paged = true;
                    self.current = (length > 0).then_some(head);
                    put(head, mark, length == 0)?;
                    continue;
                }
                self.begun.clear();
                *self.current.insert(head)
            };
            if bytes.is_empty() && self.left > 0 {
                return Ok(());
            }
            let (piece, rest) = bytes.split_at(self.left.min(bytes.len()));
            bytes = rest;
            self.left -= piece.len();
            if self.left == 0 {
                self.current = None;
            }
            put(head, piece, self.left == 0)?;
        }
    }
}

/// Returns the page header in a `kXR_status` answer, the number of bytes that follow, and whether they are the last.
fn pages_of(begun: &[u8]) -> Result<(&[u8], u32, bool)> {
    let wrong = |what: &str| Error::new(ErrorKind::InvalidData, format!("a status {what}"));
    let mut from = WireReader(begun);
    let head = Head::parse(&mut from)?;
    if head.length as usize != STATUS_BODY {
        return Err(wrong("of unknown length"));
    }
    let sum = from.u32()?;
    if crc32c(from.0) != sum {
        return Err(wrong("with a wrong checksum"));
    }
    let (stream, kind) = (from.u16()?, from.take(2)?);
    let mark = from.0;
    from.take(4)?;
    let length = from.u32()?;
    match kind {
        // The kind of the request counts from the first one, kXR_auth.
        [asked, last] if stream == head.stream && u16::from(*asked) + kind::AUTH == kind::PGREAD => {
            i32::try_from(length).map_err(|_| wrong("of negative length"))?;
            Ok((mark, length, *last == 0))
        }
        _ => Err(wrong("of an unexpected kind")),
    }
}

/// An answer without data.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The answer is complete.
    Done,
    /// The request failed.
    Refused(Refusal),
    /// Send the request to another server.
    Redirect(Target),
    /// Repeat the request later.
    Wait(Duration, String),
    /// The answer follows later on its own.
    Later(Duration),
    /// The server requires more credentials.
    More(Vec<u8>),
}

impl Answer {
    pub fn parse(status: u16, body: &[u8]) -> Result<Self> {
        let mut from = WireReader(body);
        Ok(match status {
            status::OK => Self::Done,
            status::ERROR => Self::Refused(Refusal { code: from.u32()?, text: said(&from.text()) }),
            status::REDIRECT => Self::Redirect(Target::parse(from.u32()? as i32, &from.text())?),
            status::WAIT => Self::Wait(Duration::from_secs(from.u32()?.into()), said(&from.text())),
            status::WAIT_RESPONSE => Self::Later(Duration::from_secs(from.u32()?.into())),
            status::AUTH_MORE => Self::More(body.to_vec()),
            other => {
                return Err(Error::new(
                    ErrorKind::InvalidData,
                    format!("the server sent an answer of unknown kind {other}"),
                ));
            }
        })
    }
}

/// A server's refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub code: u32,
    pub text: String,
}

/// Names of errors, from 3000 on.
const NAMES: [&str; 36] = [
    "ArgInvalid",
    "ArgMissing",
    "ArgTooLong",
    "FileLocked",
    "FileNotOpen",
    "FSError",
    "InvalidRequest",
    "IOError",
    "NoMemory",
    "NoSpace",
    "NotAuthorized",
    "NotFound",
    "ServerError",
    "Unsupported",
    "noserver",
    "NotFile",
    "isDirectory",
    "Cancelled",
    "ItExists",
    "ChkSumErr",
    "inProgress",
    "overQuota",
    "SigVerErr",
    "DecryptErr",
    "Overloaded",
    "fsReadOnly",
    "BadPayload",
    "AttrNotFound",
    "TLSRequired",
    "noReplicas",
    "AuthFailed",
    "Impossible",
    "Conflict",
    "TooManyErrs",
    "ReqTimedOut",
    "TimerExpired",
];

impl Refusal {
    fn name(&self) -> &'static str {
        let at = self.code.checked_sub(3000).and_then(|at| NAMES.get(at as usize));
        at.copied().unwrap_or("unknown error")
    }
    pub fn is(&self, names: &[&str]) -> bool {
        names.contains(&self.name())
    }
    /// Whether the request itself is at fault, so that neither time nor another server helps.
    pub fn lasting(&self) -> bool {
        self.is(&[
            "ArgInvalid",
            "ArgMissing",
            "ArgTooLong",
            "InvalidRequest",
            "NotAuthorized",
            "NotFile",
            "isDirectory",
            "SigVerErr",
            "TLSRequired",
            "AuthFailed",
            "Unsupported",
        ])
    }
    /// Returns the reason to report to other servers.
    pub fn reason(&self) -> &'static str {
        match self.name() {
            "NotFound" => "enoent",
            "FSError" => "fserr",
            "IOError" => "ioerr",
            _ => "srverr",
        }
    }
}

impl From<Refusal> for Error {
    fn from(no: Refusal) -> Self {
        let kind = match no.name() {
            "NotFound" => ErrorKind::NotFound,
            "NotAuthorized" | "AuthFailed" | "TLSRequired" | "SigVerErr" => ErrorKind::PermissionDenied,
            _ => ErrorKind::Other,
        };
        let hint = match no.name() {
            "SigVerErr" => " (this server requires signed requests, which are not supported)",
            _ if no.text.contains("relative path") => " (an absolute path has two slashes after the host)",
            _ => "",
        };
        Self::new(kind, format!("[{} {}] {}{hint}", no.code, no.name(), no.text))
    }
}

/// The target of a redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub host: String,
    pub port: u16,
    /// Whether it is known to support TLS.
    pub tls: bool,
    /// The new path, if it differs.
    pub path: Option<String>,
    /// Text to add to the path.
    pub opaque: String,
    /// Login token.
    pub token: String,
}

impl Target {
    /// Parses `HOST[?OPAQUE[?TOKEN]]` and a port; a negative port marks a URL.
    fn parse(port: i32, text: &str) -> Result<Self> {
        let wrong = || {
            // The text after the host may be secret.
            let place = said(text.split('?').next().unwrap_or_default());
            Error::new(ErrorKind::InvalidData, format!("a redirection to {place:?}, port {port}"))
        };
        if port < 0 {
            let address = Address::parse(text).ok_or_else(wrong)?;
            return Ok(Self {
                host: address.host,
                port: address.port,
                tls: address.tls,
                path: (!address.path.is_empty()).then_some(address.path),
                opaque: address.opaque,
                token: String::new(),
            });
        }
        let mut parts = text.splitn(3, '?');
        let mut part = || parts.next().unwrap_or_default().to_owned();
        let (host, opaque, token) = (part(), part(), part());
        let (host, own) = host_and_port(&host).ok_or_else(wrong)?;
        let port = if port == 0 { own.unwrap_or(PORT) } else { u16::try_from(port).map_err(|_| wrong())? };
        Ok(Self { host, port, tls: false, path: None, opaque, token })
    }
}

/// A URL's parts: `root://[user[:password]@]host[:port]/path[?opaque]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub tls: bool,
    pub user: Option<String>,
    pub host: String,
    pub port: u16,
    /// The requested path; an absolute path follows two slashes in the URL.
    pub path: String,
    pub opaque: String,
}

impl Address {
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let tls = encrypted(scheme)?;
        let (server, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, server) = server.rsplit_once('@').map_or((None, server), |(user, server)| {
            (Some(user.split(':').next().unwrap_or_default().to_owned()), server)
        });
        let (host, port) = host_and_port(server)?;
        let (path, opaque) = path.split_once('?').unwrap_or((path, ""));
        Some(Self {
            tls,
            user: user.filter(|user| !user.is_empty()),
            host,
            port: port.unwrap_or(PORT),
            path: path.to_owned(),
            opaque: opaque.to_owned(),
        })
    }
}

/// Whether a scheme of this protocol requires TLS; `None` for other schemes.
pub fn encrypted(scheme: &str) -> Option<bool> {
    match scheme.to_ascii_lowercase().as_str() {
        "root" | "xroot" => Some(false),
        "roots" | "xroots" => Some(true),
        _ => None,
    }
}

/// Parses `host`, `host:port`, `[address]`, `[address]:port`; returns the host without brackets.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, behind) = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match behind.strip_prefix(':') {
        Some("") => None,
        Some(port) => Some(port.parse().ok()?),
        None if behind.is_empty() => None,
        None => return None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Parses a location returned by `kXR_locate`, such as `Sr[::127.0.0.1]:1094`: server type, access mode, address.
pub fn parse_location(text: &str) -> Option<(String, u16)> {
    let (host, port) = host_and_port(text.get(2..)?)?;
    Some((host, port.unwrap_or(PORT)))
}

/// The status of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Identifies the file among others with the same name.
    pub id: String,
    pub size: u64,
    /// Modification time.
    pub changed: i64,
}

impl Stat {
    /// Parses `id size flags mtime ...`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let id = words.next()?.to_owned();
        Some(Self { id, size: words.next()?.parse().ok()?, changed: words.nth(1)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let bytes = request(7, kind::READ, &[1, 2, 3, 4], b"xy");
        assert_eq!(bytes.len(), 26);
        assert_eq!(bytes[..8], [0, 7, 0x0b, 0xc5, 1, 2, 3, 4]);
        assert_eq!(bytes[20..], [0, 0, 0, 2, b'x', b'y']);
    }

    #[test]
    fn frames_of_any_division() {
        let mut stream = Vec::new();
        for (number, status, body) in [(1u16, 0u16, "abc"), (2, 4000, ""), (3, 4003, "0123456789")] {
            stream.extend_from_slice(&number.to_be_bytes());
            stream.extend_from_slice(&status.to_be_bytes());
            stream.extend_from_slice(&(body.len() as u32).to_be_bytes());
            stream.extend_from_slice(body.as_bytes());
        }
        for step in 1..=stream.len() {
            let (mut frames, mut found) = (Frames::default(), Vec::new());
            let mut body = Vec::new();
            for piece in stream.chunks(step) {
                frames
                    .feed(piece, &mut |head, bytes, last| {
                        body.extend_from_slice(bytes);
                        if last {
                            let text = String::from_utf8(std::mem::take(&mut body)).unwrap();
                            found.push((head.stream, head.status, text));
                        }
                        Ok(())
                    })
                    .unwrap();
            }
            let want = [(1, 0, "abc"), (2, 4000, ""), (3, 4003, "0123456789")];
            assert_eq!(found, want.map(|(n, s, t)| (n, s, t.to_owned())), "{step}");
        }
        let negative = [0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff];
        assert!(Frames::default().feed(&negative, &mut |_, _, _| Ok(())).is_err());
    }

    #[test]
    fn answers_and_cut_ones() {
        let number = |n: u32, text: &str| [&n.to_be_bytes(), text.as_bytes()].concat();
        let cases = [
            (status::ERROR, number(3011, "no such file\0"), "NotFound"),
            (status::WAIT, number(5, "later"), "5s"),
            (status::WAIT_RESPONSE, number(9, ""), "9s"),
            (status::REDIRECT, number(1095, "host?a=b?secret"), "token: \"secret\""),
            (status::REDIRECT, number(0, "[::1]:77"), "port: 77"),
            (status::REDIRECT, number(u32::MAX, "roots://u@h:9//p?x=y"), "path: Some(\"/p\")"),
        ];
        for (status, body, want) in cases {
            let answer = Answer::parse(status, &body).unwrap();
            let text = match &answer {
                Answer::Refused(no) => Error::from(no.clone()).to_string(),
                other => format!("{other:?}"),
            };
            assert!(text.contains(want), "{text}");
            for cut in 0..4 {
                assert!(Answer::parse(status, &body[..cut]).is_err());
            }
        }
        for (port, text) in [(1, ""), (1, "?a"), (70_000, "host"), (u32::MAX, "http://x/"), (1, "[::1")] {
            assert!(Answer::parse(status::REDIRECT, &number(port, text)).is_err(), "{port} {text}");
        }
        assert!(Answer::parse(4242, b"").is_err());
        let lost = Answer::parse(status::REDIRECT, &number(70_000, "host?authz=secret?secret")).unwrap_err();
        assert!(lost.to_string().contains("host") && !lost.to_string().contains("secret"));
        let long = number(3011, &"x".repeat(1 << 20));
        assert!(
            matches!(Answer::parse(status::ERROR, &long), Ok(Answer::Refused(no)) if no.text.len() < 1000)
        );
        assert!(Refusal { code: 7, text: String::new() }.name().contains("unknown"));
    }

    #[test]
    fn addresses() {
        let a = |text| Address::parse(text);
        let full = a("root://me:pw@host:99//store/f.root?authz=x&y=z").unwrap();
        assert_eq!((full.tls, full.user.as_deref(), full.port), (false, Some("me"), 99));
        assert_eq!((full.host.as_str(), full.path.as_str()), ("host", "/store/f.root"));
        assert_eq!(full.opaque, "authz=x&y=z");
        let v6 = a("roots://[::1]//f").unwrap();
        assert_eq!((v6.tls, v6.host.as_str(), v6.port), (true, "::1", PORT));
        for bad in ["host", "http://h/f", "root:///f", "root://h:x//f", "root://[::1//f", "root://[::1]x//f"]
        {
            assert_eq!(a(bad), None, "{bad}");
        }
    }

    #[test]
    fn stats() {
        let want = Stat { id: "140".to_owned(), size: 1234, changed: 1_700_000_000 };
        assert_eq!(Stat::parse("140 1234 51 1700000000 1 2 0644 a b"), Some(want));
        for bad in ["", "1", "1 2", "1 2 3", "1 -2 3 4", "1 x 3 4"] {
            assert_eq!(Stat::parse(bad), None, "{bad}");
        }
    }
}
