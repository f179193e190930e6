//! Fetching ranges with as many requests, attempts and replicas as necessary.

use super::scatter::Scatter;
use super::tries::{Tries, pause_before};
use super::{END, Fault, SLOWEST, Shared, WINDOW, WINDOWS};
use crate::cancel::{LOOK, Token};
use crate::lock;
use crate::plan::{Range, coalesce};
use crate::source;
use crate::trace::Cause;
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

impl Shared {
    /// Fetches ranges that this thread needs now.
    ///
    /// Another thread sends the requests. This thread can therefore return as soon as the ranges are no longer needed,
    /// even while the other one waits for a connection, a login or a Python file system.
    pub fn directly(self: &Arc<Self>, ranges: Vec<Range>, cause: Cause) -> Result<Vec<(Range, Vec<u8>)>> {
        let (sender, receiver) = mpsc::channel();
        let (shared, token) = (self.clone(), Token::current());
        let ask = Arc::new(move || {
            let found = Mutex::new(Vec::new());
            let put = |range, bytes| lock(&found).push((range, bytes));
            let result = token.during(|| shared.vector(ranges.clone(), cause, &put, &|| true));
            // The waiting thread may be gone.
            let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
            let _ = sender.send(result.map(|()| found));
        });
        let theirs = ask.clone();
        self.state().direct += 1;
        if thread::Builder::new().name("sapwood-fetch".to_owned()).spawn(move || theirs()).is_err() {
            // No further thread can be started.
            ask();
        }
        drop(ask);
        let result = loop {
            match receiver.recv_timeout(LOOK) {
                Ok(result) => break result,
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = self.check() {
                        break Err(error);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(Error::other("a worker thread ended before it had finished"));
                }
            }
        };
        let mut state = self.state();
        state.direct -= 1;
        if self.check().is_err() || state.workers > 0 {
            // Its own request may be in flight, or those of an announcement that has ended meanwhile.
            self.let_go(&state);
        }
        drop(state);
        result
    }

    /// Reads a record of the file itself, with the bytes around it.
    pub fn record(self: &Arc<Self>, range: Range, size: u64, to: &mut [u8], cause: Cause) -> Result<()> {
        // The start of an empty file.
        if to.is_empty() {
            return Ok(());
        }
        let inside = |start: u64, bytes: &[u8], to: &mut [u8]| {
            let from = range.offset.checked_sub(start).and_then(|from| usize::try_from(from).ok());
            let found = from.and_then(|from| bytes.get(from..)?.get(..to.len()));
            found.map(|found| to.copy_from_slice(found)).is_some()
        };
        if self.state().windows.iter().any(|(start, bytes)| inside(*start, bytes, to)) {
            return Ok(());
        }
        let length = range.length.max(WINDOW).min(size);
        let mut wanted = vec![Range { offset: range.offset.min(size - length), length }];
        {
            let mut state = self.state();
            let soon = std::mem::take(&mut state.soon);
            let here = |range: &Range| {
                let holds = |(start, bytes): &(u64, Arc<[u8]>)| {
                    *start <= range.offset && range.end() <= *start + bytes.len() as u64
                };
                state.windows.iter().any(holds)
            };
            wanted.extend(soon.into_iter().filter(|range| !here(range)));
        }
        let wanted = coalesce(&wanted, WINDOW / 4, u64::MAX).into_iter().map(|r| r.range).collect();
        let found = self.directly(wanted, cause)?;
        let found = found.into_iter().map(|(range, bytes)| (range.offset, bytes)).collect::<Vec<_>>();
        if !found.iter().any(|(start, bytes)| inside(*start, bytes, to)) {
            return Err(source::too_small());
        }
        let mut state = self.state();
        for (start, bytes) in found.into_iter().filter(|(_, bytes)| bytes.len() as u64 <= WINDOW + END) {
            state.windows.push_back((start, bytes.into()));
            if state.windows.len() > WINDOWS {
                state.windows.pop_front();
            }
        }
        Ok(())
    }

    /// Fetches ranges, each passed on as soon as it is complete, with as many requests and attempts as necessary.
    pub fn vector(
        &self,
        ranges: Vec<Range>,
        cause: Cause,
        put: &dyn Fn(Range, Vec<u8>),
        wanted: &dyn Fn() -> bool,
    ) -> Result<()> {
        let bytes: u64 = ranges.iter().map(|r| r.length).fold(0, u64::saturating_add);
        // Enough time to request lost bytes once more; another replica gets as much again.
        let patience = 2 * self.options.timeout + Duration::from_secs(bytes / SLOWEST);
        let mut scatter = Scatter::new(ranges)?;
        if let Some(blocks) = &self.blocks {
            let missing = scatter.missing();
            let kept =
                blocks.read(&missing, &mut |offset, bytes| scatter.put(offset, bytes, &mut |r, b| put(r, b)));
            self.ledger.count(|c| &c.bytes_kept, kept);
        }
        let mut tries = Tries::new(self.transport.replicas(), patience);
        while scatter.more() {
            self.check()?;
            if !wanted() {
                return Ok(());
            }
            let spans = self.spans(scatter.missing());
            let (before, start) = (scatter.filled, Instant::now());
            let (mut served, mut first): (Vec<Range>, _) = (Vec::new(), None);
            let mut came = self.came.load(Relaxed);
            let mut whole = Vec::new();
            let deadline = tries.deadline;
            let limit = deadline.saturating_duration_since(start);
            let replica = self.transport.replica();
            let mut keeper = self.blocks.as_ref().map(|blocks| blocks.keeper());
            let result = self.transport.request(&spans, limit, &mut |offset, bytes| {
                if first.is_none() {
                    first = Some(Instant::now());
                    came = self.came.load(Relaxed);
                    if cause == Cause::Prefetch {
                        self.flowing.store(self.born.elapsed().as_nanos() as u64, Relaxed);
                    }
                }
                add(&mut served, Range { offset, length: bytes.len() as u64 });
                self.came.fetch_add(bytes.len() as u64, Relaxed);
                let filled = scatter.filled;
                scatter.put(offset, bytes, &mut |range, bytes| whole.push((range, bytes)));
                if cause == Cause::Prefetch {
                    self.filled.fetch_add(scatter.filled - filled, Relaxed);
                }
                if let Some(keeper) = &mut keeper {
                    keeper.take(offset, bytes);
                }
                if scatter.more() {
                    whole.drain(..).for_each(|(range, bytes)| put(range, bytes));
                }
                // The rest of a block is worth waiting for, to cache it.
                (scatter.more() || keeper.is_some()) && Instant::now() < deadline && wanted()
            });
            let bytes = served.iter().map(|range| range.length).sum();
            self.pace.measure(start, first, bytes, self.came.load(Relaxed) - came);
            if served.is_empty() {
                served.extend(spans.first().map(|span| Range { length: 0, ..*span }));
            }
            self.ledger.ended(self.transport.name(), &served, cause, start);
            for why in self.transport.remarks() {
                self.ledger.list(&[], tries.attempt, false, why.to_string());
            }
            // All bytes may be from a file that was changed meanwhile.
            let lasting = result.as_ref().is_err_and(|fault| !fault.again);
            if !lasting || scatter.more() {
                // The last ranges only now: their cost must be counted before the caller has all of them.
                whole.into_iter().for_each(|(range, bytes)| put(range, bytes));
                if !scatter.more() || !wanted() {
                    return Ok(());
                }
            }
            self.check()?;
            let moved = scatter.filled > before;
            let fault = match result {
                Ok(()) if moved && Instant::now() < deadline => continue,
                Ok(()) => Fault::passing(Error::new(
                    ErrorKind::UnexpectedEof,
                    "the answer is shorter than the request",
                )),
                Err(fault) => fault,
            };
            if moved {
                tries.moved(self.transport.replicas());
            }
            let pause = fault.after.unwrap_or_else(|| pause_before(tries.attempt));
            // If everything arrived, the error is ignored.
            let more = scatter.more();
            let again = more && tries.again(&fault, replica, self.options.retries, pause);
            self.ledger.note(&spans, tries.attempt, again, &fault.error);
            let turn = tries.others == 0;
            if again {
                if fault.pause && !moved {
                    self.pause(pause)?;
                }
                tries.attempt += 1;
            } else if more && !turn {
                tries.leave();
            } else {
                return Err(tries.failed(self.transport.name(), &fault, pause));
            }
            if turn || !again {
                self.transport.leave_replica(replica);
            }
        }
        Ok(())
    }

    /// Returns the spans of one request: the first missing ranges, with small gaps merged, extended to whole blocks if
    /// these are cached.
    fn spans(&self, mut missing: Vec<Range>) -> Vec<Range> {
        let most = self.transport.most_ranges().max(1);
        if let Some(blocks) = &self.blocks {
            missing.iter_mut().for_each(|range| *range = blocks.around(*range));
        }
        merged(&missing, self.pace.gap(most), most)
    }
}

/// Bytes of a span that is requested with others. A part of an answer can be used only when it is complete, and bytes
/// that are read first should not wait for bytes that are read much later.
const PART: u64 = 512 << 10;

/// Merges ranges with small gaps to at most `most` spans. One span has any length, because its bytes can be used as they
/// arrive.
fn merged(ranges: &[Range], gap: u64, most: usize) -> Vec<Range> {
    let merge = |largest: u64| -> Vec<Range> {
        coalesce(ranges, gap, largest).into_iter().map(|request| request.range).collect()
    };
    let mut spans = merge(u64::MAX);
    if spans.len() > 1 && spans.iter().any(|span| span.length > PART) {
        let bytes = spans.iter().map(|span| span.length).fold(0, u64::saturating_add);
        let parts = merge(PART.max(bytes / most as u64 * 2));
        if parts.len() <= most {
            spans = parts;
        }
    }
    spans.truncate(most);
    spans
}

/// Adds a received range to the earlier ones.
fn add(served: &mut Vec<Range>, new: Range) {
    match served.last_mut() {
        Some(last) if last.end() == new.offset => last.length += new.length,
        _ => served.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counters;
    use crate::ledger::Ledger;
    use crate::remote::{Options, Remote, Transport};
    use crate::source::{Origin, Source};
    use std::sync::Condvar;

    /// A server that answers nothing: each request ends when it is interrupted.
    #[derive(Default)]
    struct Silent {
        /// Number of requests in flight, and of interruptions.
        state: Mutex<(usize, usize)>,
        changed: Condvar,
    }

    impl Silent {
        /// Waits until `done` is true of the number of requests in flight; false if this takes too long.
        fn until(&self, done: impl Fn(usize) -> bool) -> bool {
            let state = lock(&self.state);
            let limit = Duration::from_secs(10);
            self.changed
                .wait_timeout_while(state, limit, |state| !done(state.0))
                .is_ok_and(|(s, _)| done(s.0))
        }
    }

    impl Transport for Silent {
        fn name(&self) -> &'static str {
            "silent"
        }
        fn size(&self) -> u64 {
            1 << 30
        }
        fn most_ranges(&self) -> usize {
            10
        }
        fn request(
            &self,
            _ranges: &[Range],
            _limit: Duration,
            _take: &mut dyn FnMut(u64, &[u8]) -> bool,
        ) -> std::result::Result<(), Fault> {
            let mut state = lock(&self.state);
            let before = state.1;
            state.0 += 1;
            self.changed.notify_all();
            state = self
                .changed
                .wait_while(state, |state| state.1 == before)
                .unwrap_or_else(PoisonError::into_inner);
            state.0 -= 1;
            self.changed.notify_all();
            Err(Fault::passing(Error::from(ErrorKind::ConnectionReset)))
        }
        fn interrupt(&self) {
            lock(&self.state).1 += 1;
            self.changed.notify_all();
        }
    }

    #[test]
    fn long_spans_are_cut_if_there_are_several() {
        let page = |offset: u64, length: u64| Range { offset, length };
        let row = |start: u64, count: u64, each: u64| (0..count).map(move |i| page(start + i * each, each));
        let lengths = |ranges: &[Range], most| -> Vec<u64> {
            merged(ranges, 10, most).iter().map(|span| span.length).collect()
        };
        // One span is read as it arrives.
        let near: Vec<Range> = row(0, 40, PART / 4).collect();
        assert_eq!(lengths(&near, 100), [10 * PART]);
        // Of several, none is longer than necessary, and pages are whole.
        let apart: Vec<Range> = row(0, 10, PART / 4).chain(row(10 * PART, 3, PART / 3)).collect();
        assert_eq!(lengths(&apart, 100), [PART, PART, PART / 2, PART / 3 * 3]);
        let large: Vec<Range> = [page(0, 5 * PART), page(9 * PART, 100)].into();
        assert_eq!(lengths(&large, 100), [5 * PART, 100]);
        // No more spans than allowed.
        assert_eq!(lengths(&apart, 3), [9 * PART / 4, PART / 4, PART / 3 * 3]);
        assert_eq!(lengths(&apart, 2), [5 * PART / 2, PART / 3 * 3]);
        let many: Vec<Range> = (0..9).map(|i| page(i * 100, 50)).collect();
        assert_eq!(lengths(&many, 4), [50; 4]);
        for most in 2..40 {
            let spans = merged(&apart, 10, most);
            assert!(
                spans.len() <= most
                    && apart.iter().all(|page| {
                        spans.iter().any(|span| span.offset <= page.offset && page.end() <= span.end())
                    })
            );
        }
    }

    #[test]
    fn no_bytes_need_no_request() {
        let ledger = Ledger::of(Arc::new(Counters::default()));
        let remote = Remote::new(Arc::new(Silent::default()), Options::default(), Vec::new(), ledger);
        remote.fetch(&[Range { offset: 0, length: 0 }], &mut [], Cause::Header).unwrap();
    }

    #[test]
    fn nothing_stays_in_flight_when_a_reading_is_cancelled() {
        let ledger = || Ledger::of(Arc::new(Counters::default()));
        let announced = Range { offset: 1 << 20, length: 1 << 20 };
        let other = Range { offset: 1 << 25, length: 100 };
        // An announcement may end before or after the read that waits beside it.
        for first in [true, false] {
            let silent = Arc::new(Silent::default());
            let remote = Remote::new(silent.clone(), Options::default(), Vec::new(), ledger());
            let announcement = remote.announce(&|| vec![announced], false);
            assert!(silent.until(|flying| flying == 1));
            let token = Token::default();
            let ended = thread::scope(|scope| {
                let read = || token.during(|| remote.fetch(&[other], &mut [0; 100], Cause::Page));
                let reader = scope.spawn(read);
                assert!(silent.until(|flying| flying == 2));
                let last = if first {
                    drop(announcement);
                    None
                } else {
                    Some(announcement)
                };
                token.give_up();
                let ended = reader.join();
                drop(last);
                ended
            });
            assert!(ended.is_ok_and(|result| result.is_err()));
            assert!(silent.until(|flying| flying == 0));
        }
    }
}
