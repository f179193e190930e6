//! A file on an XRootD server, whose answers an input describes.

use crate::choices::{Choices, overwrite};
use crate::servers::{Script, Server, content};
use sapwood_io::xrootd::{Identity, list, open};
use sapwood_io::{Ledger, Options};
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Users, one after the other: a session is kept for each until its connection ends.
const USERS: usize = 64;
/// Bytes of a page with a checksum.
const PAGE: usize = 4096;
const SO_FAR: u16 = 4000;
const ATTENTION: u16 = 4001;
const ERROR: u16 = 4003;
const REDIRECT: u16 = 4004;
const WAIT: u16 = 4005;
const LATER: u16 = 4006;
const STATUS: u16 = 4007;
/// The request for the servers that have a file.
const LOCATE: u64 = 3027;

/// Opens, reads and lists on a server. The bytes of a correct server are returned unchanged; other answers give errors
/// or bytes.
pub fn xrootd(data: &[u8]) {
    static SERVER: OnceLock<&Server> = OnceLock::new();
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let server = SERVER.get_or_init(|| Server::start(serve));
    let user = format!("u{}", NUMBER.fetch_add(1, Relaxed) % USERS);
    let who = Identity { user, group: "g".into(), number: 0x7fff_fff0 };
    let Some((kind, input)) = data.split_first() else { return };
    let options = Options {
        timeout: Duration::from_millis(150),
        retries: u32::from(kind % 16 == 15),
        workers: 2,
        ahead: 1 << 20,
        ..Options::default()
    };
    server.read(input, |port| {
        if kind % 8 == 7 {
            let _ = list(&format!("root://127.0.0.1:{port}//folder"), &who, &options);
            return None;
        }
        let urls = [format!("root://127.0.0.1:{port}//file.root?a=b")];
        open(&urls, &who, &options, Ledger::default()).ok()
    });
}

/// Answers the requests of a connection.
fn serve(script: &Script, mut stream: TcpStream) {
    let mut handshake = [0; 20];
    let Ok(mut from) = stream.try_clone() else { return };
    if from.read_exact(&mut handshake).is_ok() {
        let mut choices = script.choices(None, 0);
        let mut bytes = frame([0; 2], 0, &[0, 0, 5, 0x20, 0, 0, 0, 1]);
        script.damage(&mut bytes, &mut choices);
        let mut good = Script::send(&mut stream, &bytes, &mut choices).is_ok();
        while good && !script.is_over() {
            let mut head = [0; 24];
            if from.read_exact(&mut head).is_err() {
                break;
            }
            let length = u32::from_be_bytes([head[20], head[21], head[22], head[23]]) as usize;
            let mut body = vec![0; length.min(1 << 20)];
            if length > body.len() || from.read_exact(&mut body).is_err() {
                break;
            }
            let mut choices = script.choices(None, 0);
            let (bytes, more) = answer(script, &head, &body, &mut choices);
            good = Script::send(&mut stream, &bytes, &mut choices).is_ok() && more;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
}

fn frame(stream: [u8; 2], status: u16, body: &[u8]) -> Vec<u8> {
    [&stream[..], &status.to_be_bytes(), &(body.len() as u32).to_be_bytes(), body].concat()
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + N).unwrap_or_default().iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

/// Bytes of the file; fewer at its end.
fn part(offset: u64, length: u64) -> &'static [u8] {
    let size = content().len() as u64;
    let (first, last) = (offset.min(size), offset.saturating_add(length).min(size));
    &content()[first as usize..last as usize]
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(
            sum ^ u32::from(*byte),
            |sum, _| if sum & 1 == 0 { sum >> 1 } else { sum >> 1 ^ 0x82f6_3b78 },
        )
    })
}

/// Pages with their checksums.
fn pages(offset: u64, length: u64) -> Vec<u8> {
    let (mut out, mut at, bytes) = (Vec::new(), offset, part(offset, length));
    let end = offset + bytes.len() as u64;
    while at < end {
        let page = part(at, (PAGE as u64 - at % PAGE as u64).min(end - at));
        out.extend_from_slice(&crc32c(page).to_be_bytes());
        out.extend_from_slice(page);
        at += page.len() as u64;
    }
    out
}

/// The answer that a correct server gives: a status and a body.
fn right(script: &Script, kind: u64, head: &[u8; 24], body: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let size = content().len();
    let (parameters, port) = (&head[4..20], script.port);
    match kind {
        // kXR_protocol: the version, and what the server is. With TLS it would have to read certificates each time.
        3006 => {
            let flags = choices.one(&[
                1u32,
                1,
                1,
                0x20_0001,
                0x20_0001,
                0x20_0001,
                0x281,
                0,
                2,
                0x8000_0001,
                0x20_0281,
            ]);
            [&0x520u32.to_be_bytes()[..], &flags.to_be_bytes()].concat()
        }
        3007 => [
            &[7; 16][..],
            choices.one(&["", "", "", "&P=unix", "&P=ztn,0:4096:&P=unix", "&P=sss,0.+1:", "&P=x"]).as_bytes(),
        ]
        .concat(),
        3001 if parameters[..2] == [0, 7] => choices
            .one(&["1024\n2097136\n", "1024\n2097136\n", "2\n20\n", "readv_iov_max\n-1", "0\n0\n"])
            .into(),
        3001 => choices.one(&["adler32 00000001", "crc32c x", "\0", "md5 00"]).into(),
        3010 => {
            let mut out = vec![choices.below(2) as u8, 0, 0, 0];
            if choices.below(4) > 0 {
                out.extend_from_slice(&[0; 8]);
                out.extend_from_slice(format!("17 {size} 48 1700000000\0").as_bytes());
            }
            out
        }
        3017 => format!("17 {size} 48 1700000000\0").into(),
        3013 => part(number::<8>(parameters, 4), number::<4>(parameters, 12)).to_vec(),
        3025 => {
            let parts = body.chunks_exact(16).flat_map(|element| {
                let bytes = part(number::<8>(element, 8), number::<4>(element, 4));
                [&element[..4], &(bytes.len() as u32).to_be_bytes(), &element[8..], bytes].concat()
            });
            parts.collect()
        }
        3004 => choices
            .one(&[".\n0 0 0 0\na\n1 5 16 9\nb\n2 4 19 9\0", "a\nb\0", "..\n.\n\n", ".\n\u{1b}\n"])
            .into(),
        LOCATE => match choices.below(8) {
            0 => choices.one(&["Sr", "", "S", "Sr[", "Sr[::1", "Sr:1", "Sr127.0.0.1:x", "\0 \n"]).into(),
            1 => format!("Sr127.0.0.1:{port} Mw[::127.0.0.1]:{port}\0").into(),
            _ => format!("Sr127.0.0.1:{port}\0").into(),
        },
        _ => Vec::new(),
    }
}

/// An answer, and whether the connection stays open.
fn answer(script: &Script, head: &[u8; 24], body: &[u8], choices: &mut Choices<'_>) -> (Vec<u8>, bool) {
    let stream = [head[0], head[1]];
    let kind = number::<2>(head, 2);
    let port = u32::from(script.port);
    let login = matches!(kind, 3000 | 3006 | 3007);
    let way = if login { choices.below(12) + 20 } else { choices.below(32) };
    if kind == LOCATE {
        // Never damaged: it names servers.
        return (frame(stream, 0, &right(script, kind, head, body, choices)), true);
    }
    if way == 0 && choices.rarely(2) {
        script.lie();
        return (tame(choices.raw(400), port), choices.rarely(2));
    }
    let text = |number: u32, text: &str| [&number.to_be_bytes()[..], text.as_bytes()].concat();
    let mut out = match way {
        1 => {
            let code = 3000 + choices.below(40) as u32;
            frame(stream, ERROR, &text(code, choices.one(&["no\0", "", "a relative path\0", "\u{1b}[31m"])))
        }
        2 => frame(
            stream,
            REDIRECT,
            &text(port, choices.one(&["127.0.0.1", "127.0.0.1?x=y", "127.0.0.1?x?token", "[::127.0.0.1]"])),
        ),
        3 => frame(stream, REDIRECT, &text(u32::MAX, &format!("root://127.0.0.1:{port}//other.root?z"))),
        4 => frame(stream, WAIT, &text(0, choices.one(&["", "busy\0"]))),
        5 => {
            let later = frame(stream, 0, &right(script, kind, head, body, choices));
            let attention = [&text(5008, "\0\0\0\0")[..], &later].concat();
            [frame(stream, LATER, &text(1, "")), frame([0; 2], ATTENTION, &attention)].concat()
        }
        6 => {
            let attention = text(choices.one(&[5000, 5001, 5002, 5008, 0]), "the end\0");
            [
                frame([0; 2], ATTENTION, &attention),
                frame(stream, 0, &right(script, kind, head, body, choices)),
            ]
            .concat()
        }
        7 | 8 if kind != 3030 => {
            let whole = right(script, kind, head, body, choices);
            let (first, rest) = whole.split_at(choices.word() % whole.len().max(1));
            [frame(stream, SO_FAR, first), frame(stream, SO_FAR, &[]), frame(stream, 0, rest)].concat()
        }
        _ if kind == 3030 => {
            let (offset, length) = (number::<8>(head, 8), number::<4>(head, 16));
            let border = (offset + choices.word() as u64 * 7) / PAGE as u64 * PAGE as u64;
            if way < 20 && border > offset && border < offset + length {
                let first = status(script, stream, offset, border - offset, false, choices);
                [first, status(script, stream, border, offset + length - border, true, choices)].concat()
            } else {
                status(script, stream, offset, length, true, choices)
            }
        }
        _ => frame(stream, 0, &right(script, kind, head, body, choices)),
    };
    let mut damaged = choices.rarely(8);
    if damaged {
        script.lie();
        overwrite(&mut out[..8], choices);
    }
    damaged |= script.damage(&mut out, choices);
    (if damaged { tame(&out, port) } else { out }, !choices.rarely(16))
}

/// Pages after their `kXR_status` head.
fn status(
    script: &Script,
    stream: [u8; 2],
    offset: u64,
    length: u64,
    last: bool,
    choices: &mut Choices<'_>,
) -> Vec<u8> {
    let data = pages(offset, length);
    let size = (data.len() as u32).to_be_bytes();
    let mut about = [&stream[..], &[30, u8::from(!last)], &[0; 4], &size, &offset.to_be_bytes()].concat();
    if choices.rarely(16) {
        script.lie();
        overwrite(&mut about, choices);
    }
    let body = [&crc32c(&about).to_be_bytes()[..], &about].concat();
    [frame(stream, STATUS, &body), data].concat()
}

/// Bytes that do not redirect to another server than this.
fn tame(bytes: &[u8], port: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let own: [&[u8]; 3] = [b"127.0.0.1", b"[::127.0.0.1]", b"root://127.0.0.1:"];
    for at in 0..bytes.len().saturating_sub(1) {
        if bytes[at..at + 2] == REDIRECT.to_be_bytes() {
            let body = bytes.get(at + 6..).unwrap_or_default();
            let (number, host) = body.split_at(4.min(body.len()));
            let ends = |own: &&[u8]| {
                let behind = host.get(own.len()..).unwrap_or_default();
                let whole = format!("{port}/");
                if own.starts_with(b"root") {
                    behind.starts_with(whole.as_bytes()) && number == [255; 4]
                } else {
                    behind.first().is_none_or(|byte| *byte == b'?') && number == port.to_be_bytes()
                }
            };
            if !own.iter().any(|own| host.starts_with(own) && ends(own)) {
                bytes[at + 1] ^= 0x40;
            }
        }
    }
    bytes
}
