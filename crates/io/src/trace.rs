//! Optional recording of every access.

use crate::counters;
use crate::lock;
use crate::plan::Range;
use crate::process::PerProcess;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Instant, SystemTime};

/// The reason for a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The header of the file.
    Header,
    /// A directory and its keys.
    Directory,
    /// The streamer info.
    Streamers,
    /// An object: a tree's own record, a histogram.
    Object,
    /// Pages, read when they were needed.
    Page,
    /// Pages, read ahead of need.
    Prefetch,
    /// Pages from prefetching storage that were not announced or did not arrive in time.
    Miss,
    /// The first bytes of pages, to determine their compression.
    Head,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::Header,
        Self::Directory,
        Self::Streamers,
        Self::Object,
        Self::Page,
        Self::Prefetch,
        Self::Miss,
        Self::Head,
    ];

    /// Returns the name in a trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Directory => "directory",
            Self::Streamers => "streamers",
            Self::Object => "object",
            Self::Page => "basket",
            Self::Prefetch => "prefetch",
            Self::Miss => "miss",
            Self::Head => "head",
        }
    }
}

/// Totals of the requests with one cause since the process began; always counted, with or without a trace.
#[derive(Debug, Default)]
pub struct Tally {
    /// Requests to storage.
    pub requests: AtomicU64,
    /// Ranges of these requests.
    pub ranges: AtomicU64,
    /// Bytes of the ranges.
    pub bytes: AtomicU64,
    /// Nanoseconds from sending a request to receiving it, summed.
    pub time: AtomicU64,
}

static TALLIES: [Tally; 8] = [const {
    Tally {
        requests: AtomicU64::new(0),
        ranges: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        time: AtomicU64::new(0),
    }
}; 8];

/// Returns the totals of each cause.
pub fn tallies() -> impl Iterator<Item = (Cause, &'static Tally)> {
    Cause::ALL.into_iter().zip(&TALLIES)
}

/// Counts a request that ends now, and adds it to the trace, if there is one.
pub fn request(file: &str, ranges: &[Range], cause: Cause, start: Instant) {
    if let Some((_, tally)) = tallies().find(|(one, _)| *one == cause) {
        counters::count(&tally.requests, 1);
        counters::count(&tally.ranges, ranges.len() as u64);
        counters::count(&tally.bytes, ranges.iter().map(|range| range.length).sum());
        counters::clock(&tally.time, start);
    }
    record(|trace| trace.request(file, ranges, cause, start));
}

/// One record of a trace: a byte range of a request to storage, or a decoded page.
#[derive(Debug, Clone)]
pub struct Row {
    /// Path or URL, as an index in the list of names.
    pub file: u32,
    /// Table, as an index in the list of names; the empty name for a request.
    pub table: u32,
    /// Field, as an index in the list of names.
    pub field: u32,
    /// Name of the cause; "decode" for a page.
    pub cause: &'static str,
    /// Index of the page; -1 for a request.
    pub page: i64,
    /// Index of the cluster in which the page begins; -1 for a request.
    pub cluster: i64,
    /// First wanted entry.
    pub entry_start: i64,
    /// One past the last wanted entry.
    pub entry_stop: i64,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub length: u64,
    /// Nanoseconds since the trace began.
    pub start: u64,
    /// Nanoseconds since the trace began.
    pub end: u64,
    /// Nanoseconds of decompression.
    pub decompression: u64,
    /// Nanoseconds of decoding.
    pub decoding: u64,
    /// Bytes after decompression.
    pub decompressed: u64,
    /// Bytes of the wanted entries in these.
    pub used: u64,
    /// Number of the request, shared by its ranges; 0 for a basket.
    pub request: u64,
    /// Number of the thread.
    pub thread: u32,
}

/// A recorded trace.
#[derive(Debug, Clone)]
pub struct Trace {
    began: Instant,
    /// Start time in nanoseconds since 1970.
    pub epoch: u64,
    /// Records in the order of their ends.
    pub rows: Vec<Row>,
    /// Names of files, trees and branches.
    pub names: Vec<String>,
    numbers: HashMap<String, u32>,
    requests: u64,
}

static ON: AtomicBool = AtomicBool::new(false);
static TRACE: PerProcess<Mutex<Option<Trace>>> = PerProcess::empty();

fn trace() -> MutexGuard<'static, Option<Trace>> {
    lock(TRACE.get(|_| Mutex::default()))
}

/// Whether accesses are being recorded; fast.
pub fn on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Starts recording; returns false if it is already on.
pub fn start() -> bool {
    let mut slot = trace();
    if slot.is_some() {
        return false;
    }
    let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    let mut begun = Trace {
        began: Instant::now(),
        epoch,
        rows: Vec::new(),
        names: Vec::new(),
        numbers: HashMap::new(),
        requests: 0,
    };
    begun.number("");
    *slot = Some(begun);
    ON.store(true, Ordering::Relaxed);
    true
}

/// Stops recording and returns the trace.
pub fn stop() -> Option<Trace> {
    let mut slot = trace();
    ON.store(false, Ordering::Relaxed);
    slot.take()
}

/// Returns a copy of the trace so far.
pub fn so_far() -> Option<Trace> {
    trace().clone()
}

/// Takes the records so far out of the trace, which continues.
pub fn take() -> Option<Trace> {
    let mut slot = trace();
    let running = slot.as_mut()?;
    let rows = std::mem::take(&mut running.rows);
    Some(Trace { rows, names: running.names.clone(), numbers: HashMap::new(), ..*running })
}

/// Adds to the trace, if there is one.
pub fn record(add: impl FnOnce(&mut Trace)) {
    if on()
        && let Some(trace) = trace().as_mut()
    {
        add(trace);
    }
}

impl Trace {
    /// Returns the index of a name.
    pub fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
    /// Nanoseconds since the start of the trace.
    pub fn since(&self, when: Instant) -> u64 {
        when.saturating_duration_since(self.began).as_nanos() as u64
    }
    /// Adds a request that ends now.
    fn request(&mut self, file: &str, ranges: &[Range], cause: Cause, start: Instant) {
        self.requests += 1;
        let (file, start, end) = (self.number(file), self.since(start), self.since(Instant::now()));
        for range in ranges {
            self.rows.push(Row {
                file,
                table: 0,
                field: 0,
                cause: cause.name(),
                page: -1,
                cluster: -1,
                entry_start: -1,
                entry_stop: -1,
                offset: range.offset,
                length: range.length,
                start,
                end,
                decompression: 0,
                decoding: 0,
                decompressed: 0,
                used: 0,
                request: self.requests,
                thread: thread(),
            });
        }
    }
}

/// Returns a number for the current thread.
pub fn thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local! {
        static NUMBER: u32 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
