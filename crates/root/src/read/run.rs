//! Threads that fetch, decompress and decode the planned pages.

use super::ahead::Ahead;
use super::early::{Early, EarlyPage};
use super::stages::{RunLane, announce};
use super::target::{Group, GroupValues};
use super::turns::{LargePage, Turn, Turns};
use super::{Keeps, Part, Reading};
use crate::array::{Builder, pool};
use crate::error::{Error, ErrorKind, Result, Within};
use crate::table::{
    Page, PageDecoder, PageOutput, PagePlace, PageSlice, PageWanted, PartsLeftOut, Tail, Target, Unpacked,
};
use crate::wire::grow;
use rayon::ThreadPool;
use rayon::prelude::*;
use sapwood_io::counters::{Counters, count};
use sapwood_io::{Cause, Range, Request, Token, lock, trace};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Number of bytes that the calling thread reads by itself: to wake a thread of the pool takes longer than to decode them.
const INLINE: u64 = 32 << 10;

/// A page to read.
pub struct PageJob {
    pub part: usize,
    /// Index of its lane among the lanes of this run.
    pub lane: usize,
    /// Index among the pages of its lane.
    pub index: usize,
    pub page: PageWanted,
    /// The tail of it in the page cache, if any.
    pub kept: Option<Arc<Tail>>,
}

impl PageJob {
    /// The byte range to read for it.
    fn needed(&self) -> Range {
        let range = self.page.range();
        Range { offset: range.offset, length: if self.kept.is_none() { range.length } else { 0 } }
    }
    /// Number of bytes to read for it.
    pub fn length(&self) -> u64 {
        self.needed().length
    }
}

/// One run: reads the pages of some lanes.
pub struct Run<'r, 'a> {
    reading: &'r Reading<'a>,
    ahead: Option<&'r Mutex<Ahead>>,
    lanes: &'r [RunLane<'a>],
    chunks: Mutex<Chunks<'r, 'a>>,
    early: Option<Early<'r>>,
    /// For each group; boxed because most groups have none.
    turns: Vec<Option<Box<Turns<'r>>>>,
    failed: AtomicBool,
    /// Number of reading threads.
    threads: usize,
    /// Number of bytes to read.
    bytes: u64,
    /// Whether no storage needs waiting for; the pool's threads then fetch the pages they decode.
    near: bool,
    token: Token,
    /// Cluster borders of each part, for a trace.
    borders: Vec<OnceLock<Vec<u64>>>,
    /// Numbers of file, table and column in a trace. The key is the start time of the trace, the part and the stored
    /// column.
    numbers: Mutex<HashMap<(u64, usize, usize), [u32; 3]>>,
}

/// The pages still to be read.
struct Chunks<'r, 'a> {
    lanes: &'r [RunLane<'a>],
    jobs: &'r [PageJob],
    most: u64,
    /// Bytes of the jobs.
    left: u64,
    /// For each group.
    goals: Vec<GroupGoal<'r>>,
    /// Number of chunks handed out.
    count: usize,
    /// Chunks that wait for their bytes and so have no thread of the pool yet.
    waiting: BTreeSet<usize>,
}

/// Jobs that are fetched together.
struct Chunk<'r> {
    number: usize,
    jobs: Vec<(&'r PageJob, Goal<'r>)>,
}

/// The part of a group still to be filled.
enum GroupGoal<'r> {
    /// The remaining places for values, and bytes an item.
    Places(&'r mut [u8], usize),
    /// Number of pages handed out, and their bytes in the files.
    Turns(usize, u64),
}

/// Destination of a page.
enum Goal<'r> {
    Place(&'r mut [u8]),
    Turn(Turn),
}

impl<'r, 'a> Run<'r, 'a> {
    pub fn new(
        reading: &'r Reading<'a>,
        ahead: Option<&'r Mutex<Ahead>>,
        lanes: &'r [RunLane<'a>],
        jobs: &'r [PageJob],
        groups: &'r mut [Group],
    ) -> Result<Self> {
        let mut goals = grow::with_room(groups.len())?;
        let mut turns = grow::with_room(groups.len())?;
        for group in groups {
            let (size, stored) = (group.item_bytes().unwrap_or(0), group.stored);
            match &mut group.values {
                GroupValues::Direct { values, .. } | GroupValues::Ends { values } => {
                    goals.push(GroupGoal::Places(values.bytes(), size));
                    turns.push(None);
                }
                GroupValues::Built(values) => {
                    goals.push(GroupGoal::Turns(0, 0));
                    turns.push(Some(Box::new(Turns::new(values, stored, reading.budget))));
                }
            }
        }
        let bytes: u64 = jobs.iter().map(|job| job.needed().length).fold(0, u64::saturating_add);
        let near = reading.parts.iter().all(|part| part.table.source().is_near());
        let threads = threads(reading.pool, near);
        let most = reading.parts.first().map_or(1, |part| part.table.source().chunk(bytes, threads));
        // A single chunk needs no further thread.
        let threads = if bytes > most { threads } else { 1 };
        let early = if near && threads > 1 { Early::of(jobs, most) } else { None };
        let waiting = BTreeSet::new();
        let chunks = Mutex::new(Chunks { lanes, jobs, most, left: bytes, goals, count: 0, waiting });
        let borders = reading.parts.iter().map(|_| OnceLock::new()).collect();
        Ok(Self {
            reading,
            ahead,
            lanes,
            chunks,
            early,
            turns,
            failed: AtomicBool::new(false),
            threads,
            bytes,
            near,
            token: Token::current(),
            borders,
            numbers: Mutex::default(),
        })
    }

    /// Index of the cluster that holds an entry.
    fn cluster(&self, part: usize, entry: u64) -> usize {
        let (Some(slot), Some(part)) = (self.borders.get(part), self.reading.parts.get(part)) else {
            return 0;
        };
        let borders = slot.get_or_init(|| part.table.cluster_borders());
        borders.partition_point(|&border| border <= entry).saturating_sub(1)
    }

    /// Reads everything.
    pub fn all(&self) -> Result<()> {
        let work = || self.token.during(|| self.work());
        if self.near && self.threads == 1 && self.bytes <= INLINE {
            return work();
        }
        if self.near {
            return self.reading.pool.install(|| match self.threads {
                1 => work(),
                threads => (0..threads).into_par_iter().with_max_len(1).try_for_each(|_| work()),
            });
        }
        thread::scope(|scope| {
            let reader = || thread::Builder::new().name("sapwood-read".to_owned()).spawn_scoped(scope, work);
            // If no further thread can be started, this one reads alone.
            let others: Vec<_> = (1..self.threads).map_while(|_| reader().ok()).collect();
            let results = iter::once(work()).chain(
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))),
            );
            results.collect()
        })
    }

    /// The loop of each thread.
    fn work(&self) -> Result<()> {
        let _alarm = Alarm(&self.failed);
        let mut records = Records::default();
        while !self.failed.load(Ordering::Relaxed) {
            if self.token.is_given_up() {
                return Err(Error::new(ErrorKind::Io, "the read was cancelled"));
            }
            if let Some(early) = &self.early
                && lock(&self.chunks).left <= early.job().length().saturating_mul(self.threads as u64)
                && early.begin()
            {
                early.put(self.unpack_early(early.job()));
                continue;
            }
            let Some(chunk) = lock(&self.chunks).next(self.near) else { break };
            if let Some((job, _)) = chunk.jobs.last() {
                announce(self.ahead, self.reading, job.part);
            }
            let result = self.chunk(chunk, &mut records);
            if result.is_err() {
                self.failed.store(true, Ordering::Relaxed);
                return result;
            }
        }
        Ok(())
    }

    fn chunk(&self, chunk: Chunk<'r>, records: &mut Records) -> Result<()> {
        grow::check()?;
        let mut tails = Vec::new();
        let mut ranges = Vec::new();
        for (job, _) in &chunk.jobs {
            let tail = self.left(job).or_else(|| job.kept.clone());
            let Range { offset, length } = job.needed();
            let there = tail.is_some() || self.early.as_ref().is_some_and(|early| early.has(job));
            ranges.push((job.part, Range { offset, length: if there { 0 } else { length } }));
            tails.push(tail);
        }
        records.fetch(self.reading.parts, &ranges)?;
        let records = &*records;
        let decode = || {
            lock(&self.chunks).waiting.remove(&chunk.number);
            for (i, ((job, goal), tail)) in chunk.jobs.into_iter().zip(tails).enumerate() {
                self.page(chunk.number, job, &records.record(i), tail.as_ref(), goal)?;
            }
            Ok(())
        };
        if self.near { decode() } else { self.reading.pool.install(decode) }
    }

    /// Fetches and decompresses a page before its turn.
    fn unpack_early(&self, job: &PageJob) -> Result<EarlyPage> {
        let Some(lane) = self.lanes.get(job.lane) else { return Err(Error::corrupt("a page of no column")) };
        let mut records = Records::default();
        records.fetch(self.reading.parts, &[(job.part, job.needed())])?;
        let record = records.record(0);
        let (start, mut room) = (Instant::now(), Vec::new());
        let found = lane.lane.decoder.unpack(&job.page, record.bytes(), &mut room)?;
        let spent = start.elapsed();
        let (bytes, found) = if found.in_scratch {
            (Arc::new(room), found)
        } else {
            (record.buffer.clone(), found.moved(record.place.start))
        };
        Ok((bytes, found, spent))
    }

    /// The rest of a page that the step before has left.
    fn left(&self, job: &PageJob) -> Option<Arc<Tail>> {
        let Keeps::Steps(carry) = self.reading.keeps else { return None };
        let column = self.lanes.get(job.lane)?.lane.column;
        if job.page.from > 0 { carry.take(column, job.page.number, job.page.from) } else { None }
    }

    /// Whether a page of a chunk may wait for the pages before it: all earlier chunks have threads of the pool, so none
    /// of them waits for bytes or for a thread.
    fn may_wait(&self, chunk: usize) -> bool {
        self.threads > 1 && lock(&self.chunks).waiting.first().is_none_or(|&first| first > chunk)
    }

    fn page(
        &self,
        chunk: usize,
        job: &PageJob,
        record: &Record<'_>,
        tail: Option<&Arc<Tail>>,
        goal: Goal<'_>,
    ) -> Result<()> {
        let Some(lane) = self.lanes.get(job.lane) else { return Ok(()) };
        let page = &job.page;
        let dropped = tail.map_or(0, |tail| tail.dropped);
        let slice = PageSlice {
            number: page.number,
            first: page.first + dropped as u64,
            dropped,
            items: page.items - dropped,
            from: page.from - dropped,
            to: page.to - dropped,
            leave_out: self.reading.left_out.is_some(),
        };
        let counters = [lane.table.source().counters(), Counters::process()];
        let turns = self.turns.get(lane.new_group()).and_then(Option::as_deref);
        let one = PageRun { run: self, chunk, job, lane, tail, turns, slice, counters };
        let decoder = &lane.lane.decoder;
        let result = match (tail, page.place) {
            (Some(tail), _) => one.put(&tail.page(), goal, None),
            (None, PagePlace::Memory) => match decoder.in_memory(page) {
                Some(values) => {
                    one.unpacked(0, values.data.len());
                    one.put(&values, goal, Some((Instant::now(), values.data.len())))
                }
                None => Err(Error::corrupt("a page that is not in memory")),
            },
            (None, PagePlace::Stored(_)) => one.stored(record, goal),
            (None, PagePlace::Absent) => one.nothing(goal),
        };
        let place = || lane.table.page_place(lane.lane.column, page);
        let left_out = result.within(place).map_err(|error| error.of_column(lane.column))?;
        if let Some(all) = self.reading.left_out.filter(|_| !left_out.is_empty()) {
            for (what, error) in left_out {
                all.add(lane.column, what, error.within(place()));
            }
        }
        Ok(())
    }
}

/// The processing of one page.
struct PageRun<'s, 'r, 'a> {
    run: &'s Run<'r, 'a>,
    /// Index of its chunk.
    chunk: usize,
    job: &'s PageJob,
    lane: &'r RunLane<'a>,
    /// The rest of the page kept by the step before or by the page cache.
    tail: Option<&'s Arc<Tail>>,
    /// The turns of its column, if the column grows.
    turns: Option<&'s Turns<'r>>,
    slice: PageSlice,
    counters: [&'s Counters; 2],
}

impl<'r> PageRun<'_, 'r, '_> {
    /// Decompresses and decodes a stored page.
    fn stored(&self, record: &Record<'_>, goal: Goal<'_>) -> Result<PartsLeftOut> {
        let mut scratch = Arc::new(SCRATCH.take());
        let result = self.stored_by_way_of(&mut scratch, record, goal);
        if let Some(scratch) = Arc::into_inner(scratch).filter(|scratch| scratch.len() <= KEEP) {
            SCRATCH.set(scratch);
        }
        result
    }

    fn stored_by_way_of(
        &self,
        scratch: &mut Arc<Vec<u8>>,
        record: &Record<'_>,
        goal: Goal<'_>,
    ) -> Result<PartsLeftOut> {
        let early = self.run.early.as_ref().and_then(|early| early.take(self.job, &self.run.failed));
        if let Some(early) = early {
            let (bytes, found, spent) = early?;
            return self.decode(&bytes, &found, spent, goal);
        }
        let start = Instant::now();
        let room = Arc::get_mut(scratch).ok_or_else(|| Error::corrupt("a buffer in use"))?;
        let found = self.lane.lane.decoder.unpack(&self.job.page, record.bytes(), room)?;
        let spent = start.elapsed();
        if found.in_scratch {
            self.decode(scratch, &found, spent, goal)
        } else {
            self.decode(record.buffer, &found.moved(record.place.start), spent, goal)
        }
    }

    /// Decodes a page that was decompressed to `bytes`; `spent` is the time that this took.
    fn decode(
        &self,
        bytes: &Arc<Vec<u8>>,
        found: &Unpacked,
        spent: Duration,
        goal: Goal<'_>,
    ) -> Result<PartsLeftOut> {
        self.count(|c| count(&c.time_decompression_ns, spent.as_nanos() as u64));
        self.unpacked(found.packed_bytes, found.bytes);
        if self.turns.is_some() {
            self.run.reading.budget.take(found.bytes as u64)?;
        }
        let decoder: &'r dyn PageDecoder = &*self.lane.lane.decoder;
        let begin = Instant::now();
        let unpacked = Some((begin.checked_sub(spent).unwrap_or(begin), found.bytes));
        let page = found.page(bytes);
        let (Goal::Turn(turn), Some(turns)) = (&goal, self.turns) else {
            return self.put(&page, goal, unpacked);
        };
        if !LargePage::is_worth_it(&page, decoder, &self.slice) || !self.run.may_wait(self.chunk) {
            return self.put(&page, goal, unpacked);
        }
        let large = LargePage::new(bytes.clone(), found.clone(), decoder, self.slice);
        let (waited, left_out) = turns.append_large(*turn, large, &self.run.failed)?;
        self.done(&page, unpacked, begin + waited);
        Ok(left_out)
    }

    /// Writes items that are not stored.
    fn nothing(&self, goal: Goal<'_>) -> Result<PartsLeftOut> {
        let (decoder, page) = (&self.lane.lane.decoder, &self.job.page);
        match (goal, self.turns) {
            (Goal::Place(to), _) => decoder.fill(page, PageOutput::Place(to))?,
            (Goal::Turn(turn), Some(turns)) => {
                turns.append(turn, 0, |to| decoder.fill(page, PageOutput::Append(to)))?;
            }
            (Goal::Turn(_), None) => {}
        }
        Ok(Vec::new())
    }

    /// Decodes; returns the values that were left out. `unpacked` holds the start of the decompression and the page's
    /// size in bytes, or nothing for a rest that an earlier step has kept.
    fn put(
        &self,
        page: &Page<'_>,
        goal: Goal<'_>,
        unpacked: Option<(Instant, usize)>,
    ) -> Result<PartsLeftOut> {
        let start = Instant::now();
        let (decoder, slice) = (&self.lane.lane.decoder, &self.slice);
        let mut left_out = Vec::new();
        match (goal, self.turns) {
            (Goal::Place(to), _) => left_out = decoder.decode(slice, page, PageOutput::Place(to))?,
            (Goal::Turn(turn), Some(turns)) => turns.append(turn, page.data.len(), |to: &mut Builder| {
                left_out = decoder.decode(slice, page, PageOutput::Append(to))?;
                Ok(())
            })?,
            (Goal::Turn(_), None) => {}
        }
        self.done(page, unpacked, start);
        Ok(left_out)
    }

    /// Bytes of the wanted items, or of all items if that needs decoding.
    fn used(&self, page: &Page<'_>) -> usize {
        let (decoder, slice) = (&self.lane.lane.decoder, &self.slice);
        let end = if slice.to == slice.items { Some(page.data.len()) } else { decoder.start(page, slice.to) };
        let start = if slice.from == 0 { Some(0) } else { decoder.start(page, slice.from) };
        end.zip(start).map_or(page.data.len(), |(end, start)| end.saturating_sub(start))
    }

    /// Keeps the rest of a page for later use and updates the counters. `start` is the start of the decoding.
    fn done(&self, page: &Page<'_>, unpacked: Option<(Instant, usize)>, start: Instant) {
        let Self { slice, job, lane, tail, .. } = self;
        let in_part = slice.from > 0 || slice.to < slice.items;
        match self.run.reading.keeps {
            Keeps::Steps(carry) if slice.to < slice.items => {
                // The first list of the next step starts where the last list of this step ends.
                let ends = matches!(lane.lane.target, Target::Ends { .. });
                let behind = slice.to.saturating_sub(usize::from(ends));
                let start = lane.lane.decoder.start(page, behind);
                carry.keep((lane.lane.column, job.page.number), page, behind, start, *tail);
            }
            Keeps::Cache(reading) if job.needed().length > 0 && (lane.lane.shared || in_part) => {
                let column = lane.table.cached_column(lane.lane.column);
                lane.table.page_cache().keep((column, job.page.number), reading, page);
            }
            _ => {}
        }
        let (used, spent) = (self.used(page) as u64, start.elapsed().as_nanos() as u64);
        self.count(|c| {
            count(&c.bytes_used, used);
            count(&c.time_decoding_ns, spent);
        });
        trace::record(|t| self.trace(t, unpacked, start, used));
    }

    fn trace(&self, trace: &mut trace::Trace, from: Option<(Instant, usize)>, unpacked: Instant, used: u64) {
        let (page, lane) = (&self.job.page, self.lane);
        let (start, decompressed) = from.unwrap_or((unpacked, 0));
        let end = Instant::now();
        let key = (trace.epoch, lane.part, lane.lane.column);
        let [file, table, column] = *lock(&self.run.numbers).entry(key).or_insert_with(|| {
            let column = lane.table.column_name(lane.lane.column);
            [lane.table.source().name(), lane.table.name(), &column].map(|name| trace.number(name))
        });
        let entries = lane.lane.decoder.entries(page);
        let range = page.range();
        let row = trace::Row {
            file,
            table,
            field: column,
            cause: if from.is_some() { "decode" } else { "carried" },
            page: page.number as i64,
            cluster: self.run.cluster(lane.part, entries.start) as i64,
            entry_start: entries.start as i64,
            entry_stop: entries.end as i64,
            offset: range.offset,
            length: if from.is_some() { range.length } else { 0 },
            start: trace.since(start),
            end: trace.since(end),
            decompression: unpacked.duration_since(start).as_nanos() as u64,
            decoding: end.duration_since(unpacked).as_nanos() as u64,
            decompressed: decompressed as u64,
            used,
            request: 0,
            thread: trace::thread(),
        };
        trace.rows.push(row);
    }

    fn count(&self, what: impl Fn(&Counters)) {
        self.counters.into_iter().for_each(what);
    }

    /// Counts a decompressed page.
    fn unpacked(&self, from: usize, to: usize) {
        self.count(|c| {
            count(&c.baskets, 1);
            count(&c.bytes_compressed, from as u64);
            count(&c.bytes_decompressed, to as u64);
        });
    }
}

/// Number of reading threads: at most the number of processors, or twice that if some may wait for storage. More
/// threads would only compete.
fn threads(pool: &ThreadPool, near: bool) -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let processors =
        *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(usize::MAX, NonZero::get));
    pool.current_num_threads().min(if near { processors } else { processors.saturating_mul(2) })
}

impl<'r> Chunks<'r, '_> {
    /// Returns the next jobs, each with the place of its values: at most `most` bytes together, or one larger job.
    fn next(&mut self, near: bool) -> Option<Chunk<'r>> {
        let mut bytes = 0u64;
        let fits = |job: &&PageJob| {
            bytes = bytes.saturating_add(job.needed().length);
            bytes <= self.most
        };
        let n = self.jobs.iter().take_while(fits).count().max(1);
        let (chunk, rest) = self.jobs.split_at_checked(n)?;
        self.jobs = rest;
        self.left = chunk.iter().fold(self.left, |left, job| left.saturating_sub(job.length()));
        let mut jobs = Vec::with_capacity(n);
        for job in chunk {
            let group = self.lanes.get(job.lane)?.new_group();
            let goal = match self.goals.get_mut(group)? {
                GroupGoal::Places(places, each) => {
                    let bytes = (job.page.wanted() * *each).min(places.len());
                    let (place, behind) = std::mem::take(places).split_at_mut(bytes);
                    *places = behind;
                    Goal::Place(place)
                }
                GroupGoal::Turns(number, stored) => {
                    let length = job.page.range().length;
                    let goal = Goal::Turn(Turn { number: *number, before: *stored, length });
                    *number += 1;
                    *stored = stored.saturating_add(length);
                    goal
                }
            };
            jobs.push((job, goal));
        }
        let number = self.count;
        self.count += 1;
        if !near {
            self.waiting.insert(number);
        }
        Some(Chunk { number, jobs })
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Maximum size of the decompression buffer that a thread keeps.
const KEEP: usize = 32 << 20;

/// Keeps threads from waiting for one that has panicked.
struct Alarm<'r>(&'r AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// The stored bytes of a page.
struct Record<'r> {
    buffer: &'r Arc<Vec<u8>>,
    place: std::ops::Range<usize>,
}

impl<'r> Record<'r> {
    fn bytes(&self) -> &'r [u8] {
        self.buffer.get(self.place.clone()).unwrap_or_default()
    }
}

/// Records of a chunk, in a buffer that is reused for the next chunk.
#[derive(Default)]
struct Records {
    buffer: Arc<Vec<u8>>,
    /// Start and length of each job's record in the buffer.
    places: Vec<(usize, usize)>,
}

impl Records {
    /// Fetches byte ranges, each from the file of a part. Empty ranges are not fetched.
    fn fetch(&mut self, parts: &[Part<'_>], wanted: &[(usize, Range)]) -> Result<()> {
        self.places.clear();
        self.places.resize(wanted.len(), (0, 0));
        let mut requests: Vec<(usize, Request)> = Vec::new();
        let mut start = 0;
        for of_part in wanted.chunk_by(|a, b| a.0 == b.0) {
            let Some(part) = of_part.first().and_then(|&(part, _)| parts.get(part)) else { continue };
            let source = part.table.source();
            let needed: Vec<usize> =
                (0..of_part.len()).filter(|&i| of_part.get(i).is_some_and(|w| w.1.length > 0)).collect();
            let ranges: Vec<Range> = needed.iter().filter_map(|&i| of_part.get(i).map(|w| w.1)).collect();
            let bytes = ranges.iter().map(|r| r.length).sum();
            for c in [source.counters(), Counters::process()] {
                count(&c.bytes_requested, bytes);
            }
            for mut request in source.plan(&ranges) {
                for i in &mut request.wanted {
                    *i = start + needed.get(*i).copied().unwrap_or_default();
                }
                requests.push((of_part.first().map_or(0, |w| w.0), request));
            }
            start += of_part.len();
        }
        let total = requests.iter().map(|(_, request)| request.range.length as usize).sum();
        if self.buffer.len() < total || Arc::get_mut(&mut self.buffer).is_none() {
            self.give_back();
            // Chunks differ a little in size; rounding up saves reallocating the buffer for each new maximum.
            let room = if total < pool::SMALLEST { total } else { total.next_multiple_of(256 << 10) };
            self.buffer = Arc::new(pool::Filled::new(room)?.into_inner());
        }
        let mut rest = Arc::get_mut(&mut self.buffer).map(Vec::as_mut_slice).unwrap_or_default();
        let mut filled = 0;
        for of_part in requests.chunk_by(|a, b| a.0 == b.0) {
            let mut ranges = Vec::with_capacity(of_part.len());
            let mut bytes = 0;
            for (_, request) in of_part {
                for &i in &request.wanted {
                    if let (Some(place), Some((_, range))) = (self.places.get_mut(i), wanted.get(i)) {
                        let start = filled + bytes + (range.offset - request.range.offset) as usize;
                        *place = (start, range.length as usize);
                    }
                }
                ranges.push(request.range);
                bytes += request.range.length as usize;
            }
            let (to, behind) = rest.split_at_mut_checked(bytes).unwrap_or_default();
            if let Some(part) = of_part.first().and_then(|&(part, _)| parts.get(part)) {
                part.table.source().fetch(&ranges, to, Cause::Page)?;
            }
            rest = behind;
            filled += bytes;
        }
        Ok(())
    }

    fn record(&self, job: usize) -> Record<'_> {
        let (start, length) = self.places.get(job).copied().unwrap_or_default();
        Record { buffer: &self.buffer, place: start..start + length }
    }
}

impl Records {
    fn give_back(&mut self) {
        Arc::into_inner(std::mem::take(&mut self.buffer)).into_iter().for_each(pool::give_back);
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.give_back();
    }
}
