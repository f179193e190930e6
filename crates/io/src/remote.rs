//! Remote storage: announced ranges are prefetched with few requests, and failed requests are retried.

mod ahead;
mod imagined;
mod lanes;
mod pace;
mod request;
mod scatter;
mod tries;

use crate::blocks::{self, Blocks};
use crate::cancel::{self, LOOK};
use crate::checksum::Checksum;
use crate::counters::Counters;
use crate::ledger::{Incident, Ledger};
use crate::lock;
use crate::plan::{Range, Request, coalesce};
use crate::prior;
use crate::process::PerProcess;
use crate::source::{self, Origin, Source};
use crate::trace::Cause;
pub use ahead::Announced;
pub use imagined::imagined;
use lanes::{Lane, State};
use pace::Pace;
pub use pace::USUAL;
use std::collections::{HashMap, HashSet};
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};
pub use tries::{BEFORE_LEAVING, next_in_turn, pause_before, retries_of_opening};

/// A connection to storage. Each calling thread sends one request at a time.
pub trait Transport: Send + Sync {
    /// Path or URL, for messages.
    fn name(&self) -> &str;
    /// Length in bytes.
    fn size(&self) -> u64;
    /// Maximum number of ranges in a request, as far as is known.
    fn most_ranges(&self) -> usize;
    /// Sends one request for `ranges`, in ascending order, and passes on the answer: file offset and bytes.
    ///
    /// The answer may have more or fewer bytes than requested. The request ends early if `take` returns false. `limit`
    /// is the total time allowed.
    fn request(
        &self,
        ranges: &[Range],
        limit: Duration,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<(), Fault>;
    /// Whether this thread is in one of its requests; see [`Origin::is_called`].
    fn is_called(&self) -> bool {
        false
    }
    /// Index of the replica in use.
    fn replica(&self) -> usize {
        0
    }
    /// Number of replicas, without those that lead to another file.
    fn replicas(&self) -> usize {
        1
    }
    /// Switches to the replica after `failed`, in turn, if there is another one and `failed` is still in use.
    fn leave_replica(&self, _failed: usize) {}
    /// Returns the version of the file, if storage reports it.
    fn identity(&self) -> Option<Version> {
        None
    }
    /// Returns host and port of the current server.
    fn server(&self) -> Option<String> {
        None
    }
    /// Returns, once, remarks to list about requests that succeeded nevertheless.
    fn remarks(&self) -> Vec<Error> {
        Vec::new()
    }
    /// Returns the whole-file checksum that storage reports now; `None` if it has none.
    fn promised(&self, _limit: Duration) -> std::result::Result<Option<Checksum>, Fault> {
        Ok(None)
    }
    /// Records that a copy of the whole file did not match its checksum: another server is used, if there is one.
    fn mistrust(&self) {}
    /// Cancels the requests in progress, which then fail. Later requests are sent as usual.
    fn interrupt(&self) {}
    /// Releases resources that a server holds for the file; no requests follow.
    fn close(&self) {}
}

/// The version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The source of the version: each server numbers versions in its own way.
    pub of: String,
    /// An `ETag`, or a modification time, with a number if there is one.
    pub tag: String,
}

/// The failure of a request.
#[derive(Debug)]
pub struct Fault {
    /// Whether a retry may help.
    pub again: bool,
    /// Whether to wait before the retry.
    pub pause: bool,
    /// Waiting time requested by the server.
    pub after: Option<Duration>,
    /// The error.
    pub error: Error,
}

impl Fault {
    /// Creates a failure that may be temporary.
    pub fn passing(error: impl Into<Error>) -> Self {
        Self { again: true, pause: true, after: None, error: error.into() }
    }
    /// Creates a failure caused by the form of the request, which has been adjusted.
    pub fn learnt(message: impl Into<String>) -> Self {
        Self { again: true, pause: false, after: None, error: Error::other(message.into()) }
    }
    /// Creates a permanent failure.
    pub fn lasting(error: impl Into<Error>) -> Self {
        Self { again: false, pause: false, after: None, error: error.into() }
    }
    /// Adds the name of the server.
    #[must_use]
    pub fn at(self, server: &str) -> Self {
        if server.is_empty() {
            return self;
        }
        Self { error: Error::new(self.error.kind(), format!("{server}: {}", self.error)), ..self }
    }
}

/// Options for reading remote storage.
#[derive(Debug, Clone)]
pub struct Options {
    /// Maximum time without receiving anything. A request as a whole, including its retries, has twice this time plus
    /// the time of its bytes at 64 KiB/s.
    pub timeout: Duration,
    /// Maximum number of retries of a request that brings nothing new.
    pub retries: u32,
    /// Maximum bytes to prefetch.
    pub ahead: u64,
    /// Maximum number of prefetching requests in flight.
    pub workers: usize,
    /// Maximum time of an operation as a whole.
    pub deadline: Option<Duration>,
    /// Folder of the block cache.
    pub blocks: Option<Arc<blocks::Folder>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            retries: 8,
            ahead: 128 << 20,
            workers: 4,
            deadline: None,
            blocks: None,
        }
    }
}

/// Minimum transfer speed assumed for timeouts, in bytes a second.
pub const SLOWEST: u64 = 64 << 10;
/// Maximum bytes of a request, unless a single range is larger; the size of a ROOT cluster by default.
const LARGEST: u64 = 32 << 20;
/// Minimum bytes of a request, if that many are wanted: smaller ones only increase their number.
const SMALLEST: u64 = 4 << 20;
/// Bytes at the start of a file that are compared before another replica is trusted: ROOT stores an identifier of the
/// file in them (`fUUID`).
pub const TOLD_APART: usize = 512;
/// Maximum number of repeated copies from the same replica after a checksum mismatch.
const MOST_COPIES: u32 = 1;
/// Bytes read around a record of the file itself: other records are often next to it.
const WINDOW: u64 = 256 << 10;
/// Number of windows kept.
const WINDOWS: usize = 6;
/// Bytes at the end of a file that are read with its first record, unless they were read at opening: most records are
/// there.
pub const END: u64 = 256 << 10;

/// The request that opened a file, with the bytes it returned and their offsets.
pub struct Opening {
    /// Time when it was sent.
    pub began: Instant,
    /// Offsets and bytes received.
    pub pieces: Vec<(u64, Vec<u8>)>,
}

/// A file in remote storage.
pub struct Remote {
    shared: PerProcess<Arc<Shared>>,
    transport: Arc<dyn Transport>,
    options: Options,
    blocks: Option<Arc<Blocks>>,
    name: String,
    size: u64,
    counters: Arc<Counters>,
    /// Bytes announced so far.
    wanted: AtomicU64,
}

struct Shared {
    transport: Arc<dyn Transport>,
    options: Options,
    pace: Pace,
    state: Mutex<State>,
    changed: Condvar,
    ledger: Ledger,
    blocks: Option<Arc<Blocks>>,
    closed: AtomicBool,
    /// Bytes received, whether wanted or not.
    came: AtomicU64,
    /// Prefetched bytes received.
    filled: AtomicU64,
    born: Instant,
    /// Time when the newest prefetching request began to receive bytes, in nanoseconds since then.
    flowing: AtomicU64,
}

impl Remote {
    /// Creates a source that reads through `transport`. `openings` hold bytes that were read already, and `ledger`
    /// the problems so far.
    pub fn new(
        transport: Arc<dyn Transport>,
        options: Options,
        openings: Vec<Opening>,
        ledger: Ledger,
    ) -> Self {
        let counters = ledger.counters().clone();
        let (name, size) = (transport.name().to_owned(), transport.size());
        let kept = options.blocks.as_ref().zip(transport.identity());
        // A folder that cannot be used must not prevent reading.
        let blocks =
            kept.and_then(|(folder, version)| folder.file(&name, &version.tag, size).ok()).map(Arc::new);
        let several = transport.most_ranges() > 1;
        let shared = Shared::new(transport.clone(), options.clone(), ledger, blocks.clone());
        let end = Range { offset: size.saturating_sub(END), length: size.min(END) };
        shared.state().soon.extend(Some(end).filter(|_| several));
        for Opening { began, pieces } in openings {
            let spans: Vec<Range> = pieces
                .iter()
                .map(|(offset, bytes)| Range { offset: *offset, length: bytes.len() as u64 })
                .filter(|span| span.length > 0)
                .collect();
            shared.ledger.ended(&name, &spans, Cause::Header, began);
            let mut state = shared.state();
            if spans.iter().any(|span| span.end() == size) {
                state.soon.clear();
            }
            let windows = pieces.into_iter().filter(|(_, bytes)| !bytes.is_empty());
            state.windows.extend(windows.map(|(start, bytes)| (start, bytes.into())));
        }
        let shared = PerProcess::new(Arc::new(shared));
        Self { shared, transport, options, blocks, name, size, counters, wanted: AtomicU64::new(0) }
    }

    /// Records the latency of a request that was sent before this was created.
    pub fn answered_in(&self, latency: Duration) {
        self.shared().pace.suppose(latency, None);
    }

    /// Returns the state shared by threads. A forked child creates its own, because it has none of the threads and
    /// connections.
    fn shared(&self) -> Arc<Shared> {
        let fresh = || {
            let ledger = Ledger::of(self.counters.clone());
            Shared::new(self.transport.clone(), self.options.clone(), ledger, self.blocks.clone())
        };
        self.shared.get(|_| Arc::new(fresh())).clone()
    }
}

impl Source for Remote {
    fn name(&self) -> &str {
        &self.name
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.fetch(&[Range { offset, length: out.len() as u64 }], out, Cause::Object)
    }
    /// Requests are planned when ranges are announced: here each range is its own request.
    fn plan(&self, ranges: &[Range]) -> Vec<Request> {
        coalesce(ranges, 0, 0)
    }
    fn fetch(&self, ranges: &[Range], out: &mut [u8], cause: Cause) -> Result<()> {
        let shared = self.shared();
        let mut rest = out;
        let mut missing = Vec::new();
        for range in ranges {
            source::check(*range, self.size, &self.name)?;
            let (to, behind) =
                rest.split_at_mut_checked(range.length as usize).ok_or_else(source::too_small)?;
            rest = behind;
            match shared.wait_for(range)? {
                Some(bytes) => to.copy_from_slice(bytes.get(..to.len()).ok_or_else(source::too_small)?),
                None => missing.push((*range, to)),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        if matches!(cause, Cause::Page | Cause::Head) {
            let miss = cause == Cause::Page;
            shared.ledger.count(|c| &c.misses, if miss { missing.len() as u64 } else { 0 });
            let wanted = missing.iter().map(|(range, _)| *range).collect();
            let found = shared.directly(wanted, if miss { Cause::Miss } else { cause })?;
            let found: HashMap<Range, Vec<u8>> = found.into_iter().collect();
            for (range, to) in missing {
                let bytes = found.get(&range);
                to.copy_from_slice(bytes.filter(|b| b.len() == to.len()).ok_or_else(source::too_small)?);
            }
            return Ok(());
        }
        for (range, to) in missing {
            shared.record(range, self.size, to, cause)?;
        }
        Ok(())
    }
    fn requests(&self, ranges: &[Range], _threads: usize) -> Vec<Vec<Range>> {
        let shared = self.shared();
        let mut seen = HashSet::new();
        let queue = ranges.iter().filter(|range| seen.insert(**range)).copied().collect();
        let mut lane = Lane { share: shared.share(&queue), queue, ..Lane::default() };
        let (most, gap) = (shared.transport.most_ranges(), shared.pace.gap(shared.transport.most_ranges()));
        let mut requests = Vec::new();
        while !lane.queue.is_empty() {
            let group = shared.group(&mut lane, shared.options.ahead);
            requests.extend(
                coalesce(&group, gap, u64::MAX)
                    .chunks(most)
                    .map(|spans| spans.iter().map(|request| request.range).collect()),
            );
        }
        requests
    }
    fn close(&self) {
        let shared = self.shared();
        // Under the lock: a waiting thread must not check before this and sleep after it.
        let state = shared.state();
        shared.closed.store(true, Relaxed);
        state.token.give_up();
        drop(state);
        shared.changed.notify_all();
        shared.transport.interrupt();
        shared.transport.close();
    }
}

impl Origin for Remote {
    fn announce(&self, ranges: &dyn Fn() -> Vec<Range>, together: bool) -> Option<Announced> {
        let shared = self.shared();
        let ranges: Vec<Range> =
            ranges().into_iter().filter(|r| r.length > 0 && r.end() <= self.size).collect();
        let bytes = ranges.iter().map(|range| range.length).sum::<u64>();
        prior::wanted(self.wanted.fetch_add(bytes, Relaxed).saturating_add(bytes), self.size);
        Some(Announced::new(shared, ranges, together))
    }
    fn latency(&self) -> Option<Duration> {
        Some(self.shared().pace.latency())
    }
    fn deadline(&self) -> Option<Duration> {
        self.shared().options.deadline
    }
    fn foresee(&self, range: Range) {
        let shared = self.shared();
        let known = range.end() <= self.size && range.length <= END;
        if known && shared.transport.most_ranges() > 1 {
            shared.state().soon.push(range);
        }
    }
    fn is_called(&self) -> bool {
        self.transport.is_called()
    }
    fn interrupt(&self) {
        self.shared().transport.interrupt();
    }
    fn ledger(&self) -> Vec<Incident> {
        self.shared().ledger.incidents()
    }
    fn version(&self) -> Option<Version> {
        self.shared().transport.identity()
    }
    fn promised(&self) -> Result<Option<Checksum>> {
        let shared = self.shared();
        let limit = shared.options.timeout + Duration::from_secs(self.size / SLOWEST);
        shared.transport.promised(limit).map_err(|fault| fault.error)
    }
    fn server(&self) -> Option<String> {
        self.shared().transport.server()
    }
    fn unchecked(&self, why: &Error) {
        let whole = Range { offset: 0, length: self.size };
        let message = format!("no checksum for the copy of the whole file: {why}");
        self.shared().ledger.list(&[whole], 1, false, message);
    }
    fn miscopied(&self, attempt: u32, error: &Error) -> bool {
        let shared = self.shared();
        let replica = shared.transport.replica();
        let most = shared.options.retries.min(MOST_COPIES);
        let again = attempt <= most;
        shared.ledger.note(&[Range { offset: 0, length: self.size }], attempt, again, error);
        if let Some(blocks) = &shared.blocks {
            blocks.clear();
        }
        shared.state().windows.clear();
        shared.transport.mistrust();
        // Then once from each of the other replicas.
        let others = attempt < most + shared.transport.replicas() as u32;
        if !again && others {
            shared.transport.leave_replica(replica);
        }
        again || others
    }
}

impl Shared {
    fn new(
        transport: Arc<dyn Transport>,
        options: Options,
        ledger: Ledger,
        blocks: Option<Arc<Blocks>>,
    ) -> Self {
        Self {
            transport,
            options,
            pace: Pace::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            ledger,
            blocks,
            closed: AtomicBool::new(false),
            came: AtomicU64::new(0),
            filled: AtomicU64::new(0),
            born: Instant::now(),
            flowing: AtomicU64::new(0),
        }
    }

    /// Returns an error if the bytes are no longer needed.
    fn check(&self) -> Result<()> {
        if self.closed.load(Relaxed) {
            return Err(Error::other(format!("the file is closed: {}", self.transport.name())));
        }
        if cancel::given_up() {
            let message = format!("{}: cancelled", self.transport.name());
            return Err(Error::new(ErrorKind::Interrupted, message));
        }
        Ok(())
    }

    /// Waits before a retry, unless it is cancelled.
    fn pause(&self, pause: Duration) -> Result<()> {
        let end = Instant::now() + pause;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.check()?;
            thread::sleep(left.min(LOOK));
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests;
