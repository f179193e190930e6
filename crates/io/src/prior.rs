//! Copying a whole file in one sequential sweep before it is read.

#![allow(clippy::disallowed_methods, reason = "the copy of a file is a file of our own")]

use crate::cancel::Token;
use crate::checksum::Checksum;
use crate::counters::Counters;
use crate::ledger::{Incident, Ledger};
use crate::lock;
use crate::plan::Range;
use crate::process::PerProcess;
use crate::remote::{Announced, USUAL, Version};
use crate::source::{self, Memory, Origin, Source};
use crate::trace::Cause;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result, Seek, Write};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Whether and where a file is copied before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prior {
    /// It is not copied.
    Never,
    /// Into memory if that pays. It does if
    ///
    /// * at least half of the last remote file was wanted,
    /// * this file has at most this many bytes,
    /// * and it arrives within one latency.
    Auto(u64),
    /// Into memory.
    Memory,
    /// To a temporary file, which is removed when it is closed.
    Disk,
}

/// Bytes announced together during a copy.
const PIECE: u64 = 4 << 20;
/// Maximum bytes of a file to copy: a server can report any size.
const LARGEST: u64 = 16 << 40;
/// Total time to wait for the checksums of one server after the copies are complete, in addition to one latency for
/// each: the first checksum may need a connection of its own.
const PATIENCE: Duration = Duration::from_millis(200);
/// The remaining time for each server; `None` for a server that did not answer and is not queried again.
static LEFT: PerProcess<Mutex<BTreeMap<String, Option<Duration>>>> = PerProcess::empty();

/// Fraction of the last remote file that was wanted, in thousandths.
static LATELY: AtomicU32 = AtomicU32::new(0);

/// Records how much of a remote file was wanted.
pub fn wanted(bytes: u64, size: u64) {
    LATELY.store((bytes.saturating_mul(1000) / size.max(1)).min(1000) as u32, Relaxed);
}

fn patience() -> MutexGuard<'static, BTreeMap<String, Option<Duration>>> {
    lock(LEFT.get(|_| Mutex::default()))
}

fn pays(size: u64, latency: Duration) -> bool {
    LATELY.load(Relaxed) >= 500 && size as f64 <= latency.as_secs_f64() * USUAL as f64
}

/// Copies a file if this is requested or pays.
pub fn copied(source: Arc<dyn Source>, prior: Prior) -> Result<Arc<dyn Source>> {
    let disk = match prior {
        Prior::Never => return Ok(source),
        Prior::Auto(most) => match source.latency() {
            Some(latency) if source.size() <= most && pays(source.size(), latency) => false,
            _ => return Ok(source),
        },
        Prior::Memory => false,
        Prior::Disk => true,
    };
    let began = Instant::now();
    let mut attempt = 1;
    loop {
        let asked = Asked::of(&source);
        let (copy, _announced) = copy(&source, disk)?;
        let Some(promised) = asked.and_then(|asked| asked.answer(&source, began)) else {
            return Ok(Arc::new(Copied { far: source, copy }));
        };
        let found = promised.of(|take| {
            let mut bytes = vec![0; PIECE.min(copy.size()) as usize];
            for piece in pieces(copy.size()) {
                let bytes = bytes.get_mut(..piece.length as usize).unwrap_or_default();
                copy.read_at(piece.offset, bytes)?;
                take(bytes);
            }
            Ok(())
        })?;
        let Err(error) = promised.check(&found) else {
            return Ok(Arc::new(Copied { far: source, copy }));
        };
        let error = Error::new(error.kind(), format!("{}: {error}", source.name()));
        if !source.miscopied(attempt, &error) {
            return Err(Error::new(
                error.kind(),
                format!("{error} (prior=None reads the file without this check)"),
            ));
        }
        attempt += 1;
    }
}

fn pieces(size: u64) -> impl Iterator<Item = Range> {
    (0..size).step_by(PIECE as usize).map(move |offset| Range { offset, length: PIECE.min(size - offset) })
}

/// A query for the checksum of the whole file during the copy. Dropping it ends the wait for the answer.
struct Asked {
    server: String,
    /// Time to wait for the answer beyond one latency.
    patience: Duration,
    answer: Receiver<Result<Option<Checksum>>>,
    token: Token,
}

impl Asked {
    /// Sends the query, unless the server failed to answer an earlier one.
    fn of(source: &Arc<dyn Source>) -> Option<Self> {
        let server = source.server()?;
        let known = patience().get(&server).copied();
        let Some(patience) = known.unwrap_or(Some(PATIENCE)) else {
            source.unchecked(&Error::other(format!("{server} did not answer an earlier query")));
            return None;
        };
        let (send, answer) = mpsc::channel();
        let (source, token) = (source.clone(), Token::default());
        let asked = Self { server, patience, answer, token: token.clone() };
        let asking = thread::Builder::new().name("sapwood-checksum".to_owned());
        let started = asking.spawn(move || drop(send.send(token.during(|| source.promised()))));
        started.is_ok().then_some(asked)
    }

    /// Returns the answer if it arrives with the copy, which began at `began`, or soon after. A missing answer must not
    /// prevent reading or exceed a deadline.
    fn answer(self, source: &Arc<dyn Source>, began: Instant) -> Option<Checksum> {
        let latency = source.latency().unwrap_or_default();
        let left = source.deadline().map_or(Duration::MAX, |limit| limit.saturating_sub(began.elapsed()) / 2);
        let copied = Instant::now();
        let answer = match self.answer.recv_timeout((latency + self.patience).min(left)) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                Err(Error::new(ErrorKind::TimedOut, "the server did not answer in time"))
            }
            Err(RecvTimeoutError::Disconnected) => Ok(None),
        };
        let over = copied.elapsed().saturating_sub(latency);
        let more = answer.is_ok().then(|| self.patience.saturating_sub(over));
        patience().insert(self.server.clone(), more);
        answer.unwrap_or_else(|why| {
            source.unchecked(&why);
            None
        })
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.token.give_up();
    }
}

/// Copies the file. While the returned announcement lives, storage does not cancel requests that no thread waits for: the
/// checksum query may be one of them.
fn copy(source: &Arc<dyn Source>, disk: bool) -> Result<(Arc<dyn Source>, Option<Announced>)> {
    let size = source.size();
    if size > LARGEST {
        let message = format!(
            "{}: {size} bytes are too many for a copy (prior=None reads the file without a copy)",
            source.name()
        );
        return Err(Error::other(message));
    }
    let mut bytes = Vec::new();
    if !disk {
        let room = usize::try_from(size).ok().and_then(|size| bytes.try_reserve_exact(size).ok());
        let message = || format!("{}: not enough memory to copy {size} bytes", source.name());
        room.ok_or_else(|| Error::new(ErrorKind::OutOfMemory, message()))?;
    }
    let pieces: Vec<Range> = pieces(size).collect();
    let announced = source.announce(&|| pieces.clone(), true);
    let copy: Arc<dyn Source> = if disk {
        let mut file = source::temporary()?;
        bytes.resize(PIECE.min(size) as usize, 0);
        for piece in &pieces {
            let bytes = bytes.get_mut(..piece.length as usize).unwrap_or_default();
            source.fetch(&[*piece], bytes, Cause::Prefetch)?;
            file.write_all(bytes)?;
        }
        file.rewind()?;
        Arc::new(source::Local::of(file, source.name().to_owned(), Ledger::default())?)
    } else {
        for piece in &pieces {
            // Memory is touched as bytes arrive, however many were promised.
            let start = bytes.len();
            bytes.resize(start + piece.length as usize, 0);
            source.fetch(&[*piece], bytes.get_mut(start..).unwrap_or_default(), Cause::Prefetch)?;
        }
        Arc::new(Memory::new(source.name(), bytes))
    };
    Ok((copy, announced))
}

/// A copied file. Its counters hold the cost of the copy; reads of the copy are not storage accesses.
struct Copied {
    far: Arc<dyn Source>,
    copy: Arc<dyn Source>,
}

impl Source for Copied {
    fn name(&self) -> &str {
        self.far.name()
    }
    fn size(&self) -> u64 {
        self.copy.size()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.copy.read_at(offset, out)
    }
    fn fetch(&self, ranges: &[Range], out: &mut [u8], _cause: Cause) -> Result<()> {
        let mut rest = out;
        for range in ranges {
            source::check(*range, self.size(), self.name())?;
            let (to, behind) =
                rest.split_at_mut_checked(range.length as usize).ok_or_else(source::too_small)?;
            self.copy.read_at(range.offset, to)?;
            rest = behind;
        }
        Ok(())
    }
    fn requests(&self, _ranges: &[Range], _threads: usize) -> Vec<Vec<Range>> {
        Vec::new()
    }
    fn counters(&self) -> &Counters {
        self.far.counters()
    }
    fn close(&self) {
        self.copy.close();
        self.far.close();
    }
}

impl Origin for Copied {
    fn announce(&self, ranges: &dyn Fn() -> Vec<Range>, _together: bool) -> Option<Announced> {
        if self.far.latency().is_some() {
            wanted(ranges().iter().map(|range| range.length).sum(), self.size());
        }
        None
    }
    fn ledger(&self) -> Vec<Incident> {
        self.far.ledger()
    }
    fn deadline(&self) -> Option<Duration> {
        self.far.deadline()
    }
    fn version(&self) -> Option<Version> {
        self.far.version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_gives_the_same_bytes_and_costs_no_more() {
        let bytes: Vec<u8> = (0..=255).cycle().take(9_000_000).collect();
        for prior in [Prior::Memory, Prior::Disk] {
            let far = Arc::new(Memory::new("m", bytes.clone()));
            let near = copied(far.clone(), prior).unwrap();
            let cost = far.counters().snapshot();
            let mut out = vec![0; 2000];
            near.fetch(&[Range { offset: 5_000_001, length: 2000 }], &mut out, Cause::Page).unwrap();
            assert_eq!(out, bytes[5_000_001..5_002_001]);
            assert_eq!(near.counters().snapshot(), cost);
            assert!(near.fetch(&[Range { offset: 8_999_999, length: 2 }], &mut out, Cause::Page).is_err());
        }
    }

    #[test]
    fn small_files_pay_where_latency_is_long() {
        let ms = Duration::from_millis;
        wanted(6, 10);
        assert!(pays(2_000_000, ms(50)) && !pays(2_000_000, ms(1)));
        wanted(4, 10);
        assert!(!pays(2_000_000, ms(50)));
    }
}
