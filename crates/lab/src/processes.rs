//! Time that the system needs for calls, processes, signals, channels between processes, and files.
//!
//! Times are in µs. As lmbench does, what only carries the measurement (a pipe, the sending of a signal) is measured
//! alone and subtracted where the text says so.

use crate::kernels::least;
use crate::system::{self, Child, child};
use std::hint::black_box;
use std::io::{Error, Result};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Instant;

/// µs of one operation: the lower quartile of batches that are long against the clock. lmbench takes the median, which
/// other programs move more easily.
fn each(seconds: f64, mut operation: impl FnMut()) -> f64 {
    let mut count = 1u32;
    loop {
        let start = Instant::now();
        (0..count).for_each(|_| operation());
        if start.elapsed().as_secs_f64() > (seconds / 20.0).min(0.005) || count > 1 << 24 {
            break;
        }
        count *= 2;
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while times.len() < 11 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        (0..count).for_each(|_| operation());
        times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(count));
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 4).copied().unwrap_or_default()
}

/// The system call that does least.
pub fn null_call(seconds: f64) -> f64 {
    each(seconds, system::null_call)
}

/// Setting a signal's handler.
pub fn signal_install(seconds: f64) -> f64 {
    each(seconds, system::install)
}

/// Delivering a signal to its handler; sending alone is subtracted.
pub fn signal(seconds: f64) -> f64 {
    system::install();
    let sent = each(seconds / 2.0, || system::send(false));
    (each(seconds / 2.0, || system::send(true)) - sent).max(0.0)
}

const RING: usize = 16;

/// A switch from one of `count` processes to the next, each of which then sums `size` bytes of its own: they pass a
/// token round by pipes. Passing it through the same pipes within one process, with the sum, is subtracted.
pub fn switch(count: usize, size: usize, seconds: f64) -> Result<f64> {
    let count = count.clamp(2, RING);
    let pipes = (0..count).map(|_| system::pipe()).collect::<Result<Vec<_>>>()?;
    let mut ends = [(0, 0); RING]; // on the stack, where the children find them
    for (end, (from, to)) in ends.iter_mut().zip(&pipes) {
        *end = (from.as_raw_fd(), to.as_raw_fd());
    }
    let Some(ends) = ends.get(..count) else { return Ok(0.0) };
    let own = system::memory(size);
    let (Some((_, first)), Some((last, _))) = (ends.first(), ends.last()) else { return Ok(0.0) };

    let alone = each(seconds / 2.0, || {
        for (from, to) in ends {
            system::write(to, &[1; 4]);
            system::read(from, &mut [0; 4]);
            sum(own);
        }
    }) / count as f64;

    // Each child reads one pipe and writes the next; this process writes the first and reads the last.
    let mut ring: Vec<Child> = Vec::new();
    for pair in ends.windows(2) {
        let [(from, _), (_, to)] = pair else { continue };
        let (from, to) = (*from, *to);
        ring.push(child(|| {
            let own = system::memory(size);
            own.fill(1);
            while system::read(&from, &mut [0; 4]) > 0 {
                sum(own);
                if system::write(&to, &[1; 4]) == 0 {
                    return 1;
                }
            }
            0
        })?);
    }
    own.fill(1);
    let mut lost = false;
    let turn = || {
        sum(own);
        system::write(first, &[1; 4]);
        lost |= system::read(last, &mut [0; 4]) == 0;
    };
    let together = each(seconds / 2.0, turn) / count as f64;
    if lost { Err(Error::other("the ring of processes broke")) } else { Ok((together - alone).max(0.0)) }
}

fn sum(block: &[u64]) {
    black_box(black_box(block).iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
}

/// Two ways, there and back, between this process and another.
struct Channel {
    ours: (OwnedFd, OwnedFd),
    theirs: (OwnedFd, OwnedFd),
}

fn both(fd: impl Into<OwnedFd>) -> Result<(OwnedFd, OwnedFd)> {
    let fd: OwnedFd = fd.into();
    Ok((fd.try_clone()?, fd))
}

impl Channel {
    fn pipes() -> Result<Self> {
        let ((there_out, there_in), (back_out, back_in)) = (system::pipe()?, system::pipe()?);
        Ok(Self { ours: (back_out, there_in), theirs: (there_out, back_in) })
    }
    fn udp() -> Result<Self> {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        one.connect(other.local_addr()?)?;
        other.connect(one.local_addr()?)?;
        Ok(Self { ours: both(one)?, theirs: both(other)? })
    }
    fn tcp() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        #[expect(
            clippy::disallowed_methods,
            reason = "to this process itself: the system's sockets are measured"
        )]
        let one = TcpStream::connect(listener.local_addr()?)?;
        let (other, _) = listener.accept()?;
        one.set_nodelay(true)?;
        other.set_nodelay(true)?;
        Ok(Self { ours: both(one)?, theirs: both(other)? })
    }
}

/// A message to another process and its answer; `rpc` ones are calls of ONC RPC (RFC 5531): headers in XDR, and over
/// TCP the length before them.
pub fn round_trip(how: &str, seconds: f64) -> Result<f64> {
    let channel = match how {
        "pipe" => Channel::pipes()?,
        "udp" | "rpc udp" => Channel::udp()?,
        _ => Channel::tcp()?,
    };
    let marked = how == "rpc tcp";
    let answer: fn(&[u8], &mut [u8], bool) -> usize = if how.starts_with("rpc") { replied } else { same };
    let call = called(marked);
    let message: &[u8] = if how.starts_with("rpc") { &call } else { &[1] };

    let Channel { ours: (from, to), theirs: (their_from, their_to) } = channel;
    let server = child(|| {
        let (mut request, mut reply) = ([0; 256], [0; 256]);
        loop {
            let got = system::read(&their_from, &mut request);
            let length = answer(request.get(..got).unwrap_or_default(), &mut reply, marked);
            if length == 0 || system::write(&their_to, reply.get(..length).unwrap_or_default()) != length {
                return 1;
            }
        }
    })?;
    drop((their_from, their_to));
    let mut reply = [0; 256];
    let mut turn = || system::write(&to, message) == message.len() && system::read(&from, &mut reply) > 0;
    if !turn() {
        return Err(Error::other(format!("no answer by {how}")));
    }
    let time = each(seconds, || {
        black_box(turn());
    });
    drop(server);
    Ok(time)
}

fn same(request: &[u8], reply: &mut [u8], _: bool) -> usize {
    reply.iter_mut().zip(request).for_each(|(to, from)| *to = *from);
    request.len()
}

/// A call of a procedure that takes nothing: transaction, call, version 2, program, version, procedure, no
/// credentials, no verifier; one word as its argument.
fn called(marked: bool) -> Vec<u8> {
    let words: [u32; 11] = [17, 0, 2, 404_040, 1, 1, 0, 0, 0, 0, 42];
    let mark = marked.then_some(0x8000_0000 | (words.len() * 4) as u32);
    mark.into_iter().chain(words).flat_map(u32::to_be_bytes).collect()
}

/// The reply: its transaction, reply, accepted, no verifier, success, and the word. Nothing if it is another call.
fn replied(request: &[u8], reply: &mut [u8], marked: bool) -> usize {
    let word = |place: usize| {
        let at = (place + usize::from(marked)) * 4;
        request.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes)
    };
    let (Some(transaction), Some(argument)) = (word(0), word(10)) else { return 0 };
    if [word(1), word(2), word(3)] != [Some(0), Some(2), Some(404_040)] {
        return 0;
    }
    let words = [0x8000_001c, transaction, 1, 0, 0, 0, 0, argument];
    let skipped = usize::from(!marked);
    let (mut length, mut places) = (0, reply.chunks_exact_mut(4));
    for (place, word) in places.by_ref().zip(words.iter().skip(skipped)) {
        place.copy_from_slice(&word.to_be_bytes());
        length += 4;
    }
    length
}

/// MB/s through a pipe, in pieces of 64 KiB.
pub fn pipe_bandwidth(seconds: f64) -> Result<f64> {
    static PIECE: [u8; 1 << 16] = [1; 1 << 16];
    const TOTAL: usize = 16 << 20;
    let (from, to) = system::pipe()?;
    let source = child(|| {
        while system::write(&to, &PIECE) > 0 {}
        0
    })?;
    drop(to);
    let mut piece = vec![0; PIECE.len()];
    let mut ended = false;
    let best = least(seconds, || {
        let mut got = 0;
        while got < TOTAL && !ended {
            let more = system::read(&from, &mut piece);
            ended = more == 0;
            got += more;
        }
    });
    drop(source);
    if ended { Err(Error::other("the pipe ended")) } else { Ok(TOTAL as f64 / best / 1e6) }
}

/// Files of `size` bytes made and removed in a folder of their own: each in 1/s.
pub fn files(folder: &Path, count: usize, size: usize) -> Result<[f64; 2]> {
    let folder = folder.join(format!("files-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let (names, content) =
        ((0..count.max(1)).map(|n| folder.join(n.to_string())).collect::<Vec<_>>(), vec![1; size]);
    let rates = || -> Result<[f64; 2]> {
        let start = Instant::now();
        for name in &names {
            #[expect(clippy::disallowed_methods, reason = "the making of files is what is measured")]
            std::fs::write(name, &content)?;
        }
        let made = start.elapsed().as_secs_f64();
        let start = Instant::now();
        for name in &names {
            std::fs::remove_file(name)?;
        }
        Ok([made, start.elapsed().as_secs_f64()].map(|time| names.len() as f64 / time.max(1e-9)))
    };
    let found = rates();
    std::fs::remove_dir_all(&folder)?;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_answered() {
        for marked in [false, true] {
            let (call, mut reply) = (called(marked), [0; 64]);
            let length = replied(&call, &mut reply, marked);
            assert_eq!(length, 28 + 4 * usize::from(marked));
            let body = &reply[4 * usize::from(marked)..length];
            assert_eq!(body[..8], [0, 0, 0, 17, 0, 0, 0, 1]);
            assert_eq!(body[24..], [0, 0, 0, 42]);
            assert_eq!(replied(&call[..8], &mut reply, marked), 0);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(files(Path::new("/none/such"), 1, 0).is_err());
    }
}
