//! Threads that fetch, decompress and decode what a plan wants.

use super::super::basket::{self, BasketHeader, Values};
use super::super::layout::Framing;
use super::kept::Tail;
use super::turns::{LargeBasket, LeftOut, Turn, Turns};
use super::values::{Output, Share};
use super::{Job, Keeps, Part, Place, Reader, Target};
use crate::array::Builder;
use crate::array::pool;
use crate::error::{Error, ErrorKind, Result, Within};
use crate::wire::Cursor;
use rayon::ThreadPool;
use rayon::prelude::*;
use sapwood_io::counters::{Counters, clock, count};
use sapwood_io::{Cause, Range, Request, Token, trace};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::iter;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Instant;

/// The reading of a plan.
pub struct Run<'a> {
    plan: &'a Reader<'a>,
    chunks: Mutex<Chunks<'a>>,
    turns: Vec<Option<Turns<'a>>>,
    failed: AtomicBool,
    /// How many threads read.
    threads: usize,
    /// Whether nothing has to be waited for, so that the pool's threads fetch what they decode.
    near: bool,
    token: Token,
    /// Where the clusters of each part begin, for a trace.
    borders: Vec<OnceLock<Vec<u64>>>,
    /// The numbers of file, tree and branch in a trace that began at a time, for a part and a column.
    numbers: Mutex<HashMap<(u64, usize, usize), [u32; 3]>>,
}

/// What is still to be read.
struct Chunks<'a> {
    jobs: &'a [Job],
    most: u64,
    lanes: Vec<Lane<'a>>,
    /// Chunks that were handed out.
    count: usize,
    /// Those of them that have no thread of the pool yet, since their bytes are waited for.
    waiting: BTreeSet<usize>,
}

/// Jobs that are fetched together.
struct Chunk<'a> {
    number: usize,
    jobs: Vec<(&'a Job, Goal<'a>)>,
}

/// What is still to be filled of a column.
enum Lane<'a> {
    /// The places of its values, and bytes of an entry.
    Places(&'a mut [u8], usize),
    /// How many baskets have been handed out, and their bytes in the files.
    Turns(usize, u64),
}

/// Where a basket goes.
enum Goal<'a> {
    Place(&'a mut [u8]),
    Turn(Turn),
}

impl<'a> Run<'a> {
    pub fn new(plan: &'a Reader<'a>, jobs: &'a [Job], targets: &'a mut [Target]) -> Self {
        let mut lanes = Vec::new();
        let mut turns = Vec::new();
        let mut stored = vec![0u64; targets.len()];
        for job in jobs {
            stored
                .iter_mut()
                .skip(job.column)
                .take(1)
                .for_each(|sum| *sum = sum.saturating_add(job.range.length));
        }
        for (target, stored) in targets.iter_mut().zip(stored) {
            match target {
                Target::Direct { number, each, values, .. } => {
                    lanes.push(Lane::Places(values.bytes(), number.size() * *each));
                    turns.push(None);
                }
                Target::Built(builder) => {
                    lanes.push(Lane::Turns(0, 0));
                    turns.push(Some(Turns::new(builder, stored)));
                }
            }
        }
        let bytes: u64 = jobs.iter().map(|job| job.needed().length).fold(0, u64::saturating_add);
        let near = plan.parts.iter().all(|part| part.tree.file.source().is_near());
        let threads = threads(plan.pool, near);
        let most = plan.parts.first().map_or(1, |part| part.tree.file.source().chunk(bytes, threads));
        // For a single chunk none is called.
        let threads = if bytes > most { threads } else { 1 };
        let chunks = Mutex::new(Chunks { jobs, most, lanes, count: 0, waiting: BTreeSet::new() });
        let borders = plan.parts.iter().map(|_| OnceLock::new()).collect();
        Self {
            plan,
            chunks,
            turns,
            failed: AtomicBool::new(false),
            threads,
            near,
            token: Token::current(),
            borders,
            numbers: Mutex::default(),
        }
    }

    /// The number of the cluster that an entry is in.
    fn cluster(&self, part: usize, entry: u64) -> usize {
        let (Some(slot), Some(part)) = (self.borders.get(part), self.plan.parts.get(part)) else { return 0 };
        let borders = slot.get_or_init(|| part.tree.cluster_borders());
        borders.partition_point(|&border| border <= entry).saturating_sub(1)
    }

    /// Who a basket of a column waits for, if it is one that grows.
    fn turns(&self, job: &Job) -> Option<&Turns<'a>> {
        self.turns.get(job.column)?.as_ref()
    }

    /// Reads everything.
    pub fn all(&self) -> Result<()> {
        let work = || self.token.during(|| self.work());
        if self.near {
            return self.plan.pool.install(|| match self.threads {
                1 => work(),
                threads => (0..threads).into_par_iter().with_max_len(1).try_for_each(|_| work()),
            });
        }
        thread::scope(|scope| {
            let reader = || thread::Builder::new().name("sapwood-read".to_owned()).spawn_scoped(scope, work);
            // Where no further thread can be had, this one reads alone.
            let others: Vec<_> = (1..self.threads).map_while(|_| reader().ok()).collect();
            let results = iter::once(work()).chain(
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))),
            );
            results.collect()
        })
    }

    /// What each thread does.
    fn work(&self) -> Result<()> {
        let _alarm = Alarm(&self.failed);
        let mut records = Records::default();
        while !self.failed.load(Ordering::Relaxed) {
            if self.token.is_given_up() {
                return Err(Error::new(ErrorKind::Io, "the reading was given up"));
            }
            let Some(chunk) = lock(&self.chunks).next(self.near) else { break };
            if let Some((job, _)) = chunk.jobs.last() {
                self.plan.announce(job.part);
            }
            let result = self.chunk(chunk, &mut records);
            if result.is_err() {
                self.failed.store(true, Ordering::Relaxed);
                return result;
            }
        }
        Ok(())
    }

    fn chunk(&self, chunk: Chunk<'a>, records: &mut Records) -> Result<()> {
        let mut tails = Vec::new();
        let mut ranges = Vec::new();
        for (job, _) in &chunk.jobs {
            let tail = self.left(job).or_else(|| job.kept.clone());
            let Range { offset, length } = job.needed();
            ranges.push((job.part, Range { offset, length: if tail.is_none() { length } else { 0 } }));
            tails.push(tail);
        }
        records.fetch(self.plan.parts, &ranges)?;
        let records = &*records;
        let decode = || {
            lock(&self.chunks).waiting.remove(&chunk.number);
            for (i, ((job, goal), tail)) in chunk.jobs.into_iter().zip(tails).enumerate() {
                self.basket(chunk.number, job, &records.record(i), tail.as_deref(), goal)?;
            }
            Ok(())
        };
        if self.near { decode() } else { self.plan.pool.install(decode) }
    }

    /// What the step before has left of a basket.
    fn left(&self, job: &Job) -> Option<Arc<Tail>> {
        let Keeps::Steps(carry) = self.plan.keeps else { return None };
        let branch = *self.plan.parts.get(job.part)?.branches.get(job.column)?;
        if job.from > 0 { carry.take(branch, job.basket, job.from) } else { None }
    }

    /// Whether a basket of a chunk may wait for those before it: all of these have threads of the pool, none waits for bytes
    /// or for a thread.
    fn may_wait(&self, chunk: usize) -> bool {
        self.threads > 1 && lock(&self.chunks).waiting.first().is_none_or(|&first| first > chunk)
    }

    fn basket(
        &self,
        chunk: usize,
        job: &Job,
        record: &Record<'_>,
        tail: Option<&Tail>,
        goal: Goal<'_>,
    ) -> Result<()> {
        let Some(part) = self.plan.parts.get(job.part) else { return Ok(()) };
        let Some(&index) = part.branches.get(job.column) else { return Ok(()) };
        let Some(branch) = part.tree.branches.get(index) else { return Ok(()) };
        let Some(layout) = self.plan.layouts.get(job.part).and_then(|l| l.get(job.column)) else {
            return Ok(());
        };
        let Some(&programs) = self.plan.programs.get(job.part) else { return Ok(()) };
        let Some(found) = branch.baskets.get(job.basket) else { return Ok(()) };
        let counts = self.plan.counts.get(job.part).and_then(|c| c.get(job.column)).and_then(Option::as_ref);
        let dropped = tail.map_or(0, |tail| tail.dropped);
        let share = Share {
            programs,
            layout,
            dropped,
            from: job.from - dropped,
            to: job.to - dropped,
            entries: found.entries as usize - dropped,
            counts: counts.and_then(|c| c.sums.get((found.first - c.first) as usize + dropped..)),
            each: counts.map_or(&[], |c| c.each.as_slice()),
            leave_out: self.plan.left_out.is_some(),
        };
        let source = part.tree.file.source();
        let one = One {
            run: self,
            chunk,
            job,
            branch: index,
            dropped,
            share,
            counters: [source.counters(), Counters::process()],
        };
        let result = match (tail, &found.place) {
            (Some(tail), _) => one.put(&tail.values(), goal, None),
            (None, Place::Tree(values)) => {
                let values = values.values();
                one.unpacked(0, values.data.len());
                one.put(&values, goal, Some((Instant::now(), values.data.len())))
            }
            (None, Place::File(..)) => one.stored(record, goal),
            (None, Place::Nowhere) => one.nothing(goal),
        };
        let place = || {
            format!(
                "basket {} (byte {}) of branch {} of tree {} in {}",
                job.basket,
                found.seek(),
                part.tree.path(index),
                part.tree.name,
                part.tree.file.name()
            )
        };
        let left_out = result.within(place).map_err(|error| error.of_column(job.column))?;
        if let Some(all) = self.plan.left_out.filter(|_| !left_out.is_empty()) {
            for (what, error) in left_out {
                all.add(job.column, what, error.within(place()));
            }
        }
        Ok(())
    }
}

/// A basket on its way to its column.
struct One<'r, 'a> {
    run: &'r Run<'a>,
    /// The number of its chunk.
    chunk: usize,
    job: &'r Job,
    /// Index in the tree.
    branch: usize,
    /// Entries at the start of the basket that are not there any more.
    dropped: usize,
    share: Share<'a>,
    counters: [&'r Counters; 2],
}

impl One<'_, '_> {
    /// Decompresses and decodes what is stored.
    fn stored(&self, record: &Record<'_>, goal: Goal<'_>) -> Result<LeftOut> {
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
    ) -> Result<LeftOut> {
        let header = BasketHeader::parse(&mut Cursor::new(record.bytes(), self.job.range.offset))?;
        let packed = header.total_bytes - header.key_bytes;
        let start = Instant::now();
        let values = {
            let room = Arc::get_mut(scratch).ok_or_else(|| Error::corrupt("a buffer in use"))?;
            let object = basket::object(&header, record.bytes(), room)?;
            self.count(|c| clock(&c.time_decompression_ns, start));
            self.unpacked(packed, header.object_bytes);
            Values::split(&header, object)?
        };
        let unpacked = Some((start, header.object_bytes));
        let (Goal::Turn(turn), Some(turns)) = (&goal, self.run.turns(self.job)) else {
            return self.put(&values, goal, unpacked);
        };
        if !LargeBasket::is_worth_it(&values, &self.share) || !self.run.may_wait(self.chunk) {
            return self.put(&values, goal, unpacked);
        }
        let (bytes, object) = if packed == header.object_bytes {
            let start = record.place.start + header.key_bytes;
            (record.buffer, start..start + header.object_bytes)
        } else {
            (&*scratch, 0..header.object_bytes)
        };
        let begin = Instant::now();
        let basket = LargeBasket::new(bytes.clone(), object.clone(), header, self.share)?;
        let (waited, left_out) = turns.append_large(*turn, basket, &self.run.failed)?;
        let values = Values::split(&header, bytes.get(object).unwrap_or_default())?;
        self.done(&values, unpacked, begin + waited);
        Ok(left_out)
    }

    /// Appends lists of nothing.
    fn nothing(&self, goal: Goal<'_>) -> Result<LeftOut> {
        let entries = self.job.to - self.job.from;
        match goal {
            Goal::Place(to) => to.fill(0),
            Goal::Turn(turn) => {
                if let Some(turns) = self.run.turns(self.job) {
                    turns.append(turn, 0, |to| {
                        to.append_default(entries);
                        Ok(())
                    })?;
                }
            }
        }
        Ok(Vec::new())
    }

    /// Decodes; gives what was left out. `unpacked`: since when the basket was decompressed, and its bytes; nothing for
    /// what a step before has left of it.
    fn put(
        &self,
        values: &Values<'_>,
        goal: Goal<'_>,
        unpacked: Option<(Instant, usize)>,
    ) -> Result<LeftOut> {
        let start = Instant::now();
        let Self { share, job, .. } = self;
        let mut left_out = Vec::new();
        // A program without the dictionary of a class writes the entries of its branches, but no bytes of them.
        let nothing = values.data.is_empty() && matches!(share.layout.framing, Framing::Whole);
        let unwritten = || {
            let why = "the basket has entries, but no byte of them was written";
            Error::unsupported(why).at(values.key_bytes as u64)
        };
        let explain = |error| if nothing { unwritten() } else { error };
        match goal {
            Goal::Place(to) => left_out = share.decode(values, Output::Place(to)).map_err(explain)?,
            Goal::Turn(turn) => {
                let decode = |to: &mut Builder| {
                    left_out = share.decode(values, Output::Append(to)).map_err(explain)?;
                    Ok(())
                };
                if let Some(turns) = self.run.turns(job) {
                    turns.append(turn, values.data.len(), decode)?;
                }
            }
        }
        self.done(values, unpacked, start);
        Ok(left_out)
    }

    /// Keeps what will be wanted next of a basket that was decoded since `start`, and counts.
    fn done(&self, values: &Values<'_>, unpacked: Option<(Instant, usize)>, start: Instant) {
        let Self { share, job, .. } = self;
        let in_part = share.from > 0 || share.to < share.entries;
        match (self.run.plan.keeps, self.run.plan.parts.get(job.part)) {
            (Keeps::Steps(carry), _) if share.to < share.entries => {
                carry.keep((self.branch, job.basket), values, share.layout.framing, job.to, self.dropped);
            }
            (Keeps::Cache { reading, counter }, Some(part))
                if job.needed().length > 0 && (counter || in_part) =>
            {
                part.tree.basket_cache.keep(job.range.offset, reading, values);
            }
            _ => {}
        }
        let used = share.used(values) as u64;
        self.count(|c| {
            count(&c.bytes_used, used);
            clock(&c.time_decoding_ns, start);
        });
        trace::record(|t| self.trace(t, unpacked, start, used));
    }

    fn trace(&self, trace: &mut trace::Trace, from: Option<(Instant, usize)>, unpacked: Instant, used: u64) {
        let Some(part) = self.run.plan.parts.get(self.job.part) else { return };
        let (start, decompressed) = from.unwrap_or((unpacked, 0));
        let tree = part.tree;
        let found = tree.branches.get(self.branch).and_then(|b| b.baskets.get(self.job.basket));
        let first = found.map_or(0, |b| b.first) as i64;
        let end = Instant::now();
        let key = (trace.epoch, self.job.part, self.job.column);
        let [file, name, branch] = *lock(&self.run.numbers).entry(key).or_insert_with(|| {
            [tree.file.name(), &tree.name, &tree.path(self.branch)].map(|name| trace.number(name))
        });
        let row = trace::Row {
            file,
            tree: name,
            branch,
            cause: if from.is_some() { "decode" } else { "carried" },
            basket: self.job.basket as i64,
            cluster: self.run.cluster(self.job.part, first as u64) as i64,
            entry_start: first + self.job.from as i64,
            entry_stop: first + self.job.to as i64,
            offset: self.job.range.offset,
            length: if from.is_some() { self.job.range.length } else { 0 },
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

    /// Counts a basket.
    fn unpacked(&self, from: usize, to: usize) {
        self.count(|c| {
            count(&c.baskets, 1);
            count(&c.bytes_compressed, from as u64);
            count(&c.bytes_decompressed, to as u64);
        });
    }
}

/// How many threads read: no more than there are processors, or twice as many where some may wait for storage; still
/// more would only stand in each other's way.
fn threads(pool: &ThreadPool, near: bool) -> usize {
    static FOUND: OnceLock<usize> = OnceLock::new();
    let processors =
        *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(usize::MAX, NonZero::get));
    pool.current_num_threads().min(if near { processors } else { processors.saturating_mul(2) })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Chunks<'a> {
    /// The next jobs, of `most` bytes together or one that is larger, each with the place of its values.
    fn next(&mut self, near: bool) -> Option<Chunk<'a>> {
        let mut bytes = 0u64;
        let fits = |job: &&Job| {
            bytes = bytes.saturating_add(job.needed().length);
            bytes <= self.most
        };
        let n = self.jobs.iter().take_while(fits).count().max(1);
        let (chunk, rest) = self.jobs.split_at_checked(n)?;
        self.jobs = rest;
        let mut goals = Vec::with_capacity(n);
        for job in chunk {
            let goal = match self.lanes.get_mut(job.column)? {
                Lane::Places(places, each) => {
                    let bytes = ((job.to - job.from) * *each).min(places.len());
                    let (place, behind) = std::mem::take(places).split_at_mut(bytes);
                    *places = behind;
                    Goal::Place(place)
                }
                Lane::Turns(number, stored) => {
                    let goal =
                        Goal::Turn(Turn { number: *number, before: *stored, length: job.range.length });
                    *number += 1;
                    *stored = stored.saturating_add(job.range.length);
                    goal
                }
            };
            goals.push((job, goal));
        }
        let number = self.count;
        self.count += 1;
        if !near {
            self.waiting.insert(number);
        }
        Some(Chunk { number, jobs: goals })
    }
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A thread keeps its decompression buffer up to this size.
const KEEP: usize = 32 << 20;

/// Lets no thread wait for one that has panicked.
struct Alarm<'r>(&'r AtomicBool);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// A basket as it is stored.
struct Record<'r> {
    buffer: &'r Arc<Vec<u8>>,
    place: std::ops::Range<usize>,
}

impl<'r> Record<'r> {
    fn bytes(&self) -> &'r [u8] {
        self.buffer.get(self.place.clone()).unwrap_or_default()
    }
}

/// Records of a chunk, in a buffer that the next chunk uses again.
#[derive(Default)]
struct Records {
    buffer: Arc<Vec<u8>>,
    /// Start and length of each job's record in the buffer.
    places: Vec<(usize, usize)>,
}

impl Records {
    /// Fetches byte ranges, each of the file of a part; those of no bytes need none.
    fn fetch(&mut self, parts: &[Part<'_>], wanted: &[(usize, Range)]) -> Result<()> {
        self.places.clear();
        self.places.resize(wanted.len(), (0, 0));
        let mut requests: Vec<(usize, Request)> = Vec::new();
        let mut start = 0;
        for of_part in wanted.chunk_by(|a, b| a.0 == b.0) {
            let Some(part) = of_part.first().and_then(|&(part, _)| parts.get(part)) else { continue };
            let source = part.tree.file.source();
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
            // Chunks differ a little: the buffer is not exchanged for each that is the largest so far.
            self.buffer = Arc::new(pool::Filled::new(total.next_multiple_of(256 << 10))?.into_inner());
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
                part.tree.file.source().fetch(&ranges, to, Cause::Basket)?;
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
