//! Reading: plan, few large requests, decompression and decoding in parallel.
//!
//! Baskets are taken in file order, in windows of some megabytes. A window's records come in by coalesced
//! requests; then its baskets are decompressed and decoded side by side. Values of fixed size go straight to their
//! final place, others are appended in the order of entries.

use super::basket::{self, BasketHeader, Values};
use super::{Framing, Layout, Place, Tree};
use crate::array::{Builder, Column, Number, Type, pool};
use crate::error::{Error, Result, Within};
use crate::streamer::decode::Decoder;
use crate::streamer::kind::{Kind, Programs};
use crate::wire::{Cursor, swap};
use arrow_buffer::Buffer;
use rayon::prelude::*;
use sapwood_io::counters::{Counters, clock, count};
use sapwood_io::{Range, Request, Source, coalesce};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

/// Entries `start` to `stop` of some branches of a tree.
pub struct Part<'a> {
    /// The tree.
    pub tree: &'a Tree,
    /// Branches, one for each column.
    pub branches: &'a [usize],
    /// First entry.
    pub start: u64,
    /// One past the last entry.
    pub stop: u64,
}

/// Compressed bytes of a window for each thread.
const WINDOW: u64 = 8 << 20;

/// Reads the same columns from each part and joins them in order.
///
/// Uses the current rayon pool. The memory beside the result is one window of records (two with several threads) and one
/// decompressed basket for each thread, and, with several threads, the decoded values of a window.
pub fn read(parts: &[Part<'_>]) -> Result<Vec<Column>> {
    let mut reader = Reader::plan(parts)?;
    reader.run()?;
    reader.targets.into_iter().map(Target::finish).collect()
}

/// No codec makes a byte into more: an RLE block of zstd, the densest, holds 128 KiB in four bytes.
const EXPANSION: u64 = 1 << 15;

/// One basket's share of a column.
struct Job {
    part: usize,
    column: usize,
    basket: usize,
    /// Entries of the basket that are wanted.
    from: usize,
    to: usize,
    range: Range,
}

struct Reader<'a> {
    parts: &'a [Part<'a>],
    layouts: Vec<Vec<Arc<Layout>>>,
    counts: Vec<Vec<Option<Counts>>>,
    jobs: Vec<Job>,
    /// Bytes that the baskets of each column take in the files.
    stored: Vec<u64>,
    targets: Vec<Target>,
}

/// Elements of each entry as a counter branch gives them, summed up.
struct Counts {
    first: u64,
    sums: Vec<u64>,
}

/// Where a column's values go.
enum Target {
    /// Numbers at places known beforehand; filled up to `done` bytes.
    Direct { of: Type, number: Number, each: usize, values: Vec<u8>, done: usize },
    /// Appended in order.
    Built(Builder),
}

impl Target {
    fn new(layout: &Layout, of: &Type, entries: u64, stored: u64) -> Result<Self> {
        if let (Framing::Fixed(_), Some((number, each))) = (layout.framing, flat(of)) {
            let bytes =
                usize::try_from(entries).ok().and_then(|n| n.checked_mul(each.checked_mul(number.size())?));
            let possible = bytes.filter(|&n| n as u64 <= stored.saturating_mul(EXPANSION));
            let bytes = possible.ok_or_else(|| {
                Error::corrupt(format!(
                    "{entries} entries of {each} numbers cannot be in baskets of {stored} bytes"
                ))
            })?;
            return Ok(Self::Direct { of: of.clone(), number, each, values: pool::filled(bytes)?, done: 0 });
        }
        Ok(Self::Built(Builder::new(of)))
    }
    fn finish(self) -> Result<Column> {
        match self {
            Self::Built(builder) => Ok(builder.finish()),
            Self::Direct { of, number, each, values, .. } => {
                let entries = values.len() / (number.size() * each).max(1);
                nest(&of, entries, number, pool::share(values))
            }
        }
    }
}

/// The number and how many of it, for a type that is numbers of fixed dimensions.
fn flat(of: &Type) -> Option<(Number, usize)> {
    match of {
        Type::Number(number) => Some((*number, 1)),
        Type::FixedList { size, item } => flat(item).map(|(number, n)| (number, n * size)),
        _ => None,
    }
}

fn nest(of: &Type, length: usize, number: Number, values: Buffer) -> Result<Column> {
    match of {
        Type::FixedList { size, item } => {
            let inner = nest(item, length.saturating_mul(*size), number, values)?;
            Ok(Column::FixedList { length, size: *size, values: Box::new(inner) })
        }
        _ => Ok(Column::Number { number, values }),
    }
}

impl<'a> Reader<'a> {
    fn plan(parts: &'a [Part<'a>]) -> Result<Self> {
        let mut reader = Self {
            parts,
            layouts: Vec::new(),
            counts: Vec::new(),
            jobs: Vec::new(),
            stored: Vec::new(),
            targets: Vec::new(),
        };
        let mut types: Vec<Type> = Vec::new();
        reader.stored.resize(parts.first().map_or(0, |part| part.branches.len()), 0);
        for (p, part) in parts.iter().enumerate() {
            if part.start > part.stop || part.stop > part.tree.entries {
                return Err(Error::argument(format!(
                    "entries {} to {} of a tree that has {}",
                    part.start, part.stop, part.tree.entries
                )));
            }
            let mut layouts = Vec::new();
            let mut counts = Vec::new();
            for (column, &branch) in part.branches.iter().enumerate() {
                let place = || {
                    format!(
                        "branch {} of tree {} in {}",
                        part.tree.path(branch),
                        part.tree.name,
                        part.tree.file.name()
                    )
                };
                let layout = part.tree.layout(branch)?;
                let of = layout.of.clone().within(place)?;
                match types.get(column) {
                    None if p == 0 => types.push(of),
                    Some(first) if *first == of => {}
                    _ => {
                        return Err(Error::argument("its type or place differs from that in the first file")
                            .within(place()));
                    }
                }
                let start = reader.jobs.len();
                let bytes = reader.add_jobs(p, column, branch).within(place)?;
                reader
                    .stored
                    .iter_mut()
                    .skip(column)
                    .take(1)
                    .for_each(|sum| *sum = sum.saturating_add(bytes));
                counts.push(reader.counts_for(part, branch, start).within(place)?);
                layouts.push(layout);
            }
            if layouts.len() != types.len() {
                return Err(Error::argument("the parts have different numbers of branches"));
            }
            reader.layouts.push(layouts);
            reader.counts.push(counts);
        }
        let entries = parts.iter().try_fold(0u64, |sum, part| sum.checked_add(part.stop - part.start));
        let entries = entries.ok_or_else(|| Error::limit("more entries than a number can hold"))?;
        if let Some(first) = reader.layouts.first() {
            for ((layout, of), &stored) in first.iter().zip(&types).zip(&reader.stored) {
                reader.targets.push(Target::new(layout, of, entries, stored)?);
            }
        }
        reader.reserve();
        reader.sort();
        Ok(reader)
    }

    /// Makes room in the columns that grow, by the size of their baskets.
    fn reserve(&mut self) {
        for ((column, target), stored) in self.targets.iter_mut().enumerate().zip(&self.stored) {
            let Target::Built(builder) = target else { continue };
            let share = |part: &Part<'_>| {
                let branch = part.tree.branches.get(*part.branches.get(column)?)?;
                let entries = u128::from(branch.entries.max(1));
                Some((u128::from(branch.total_bytes) * u128::from(part.stop - part.start) / entries) as usize)
            };
            // A file may claim any size: no room is made for more than its baskets are likely to hold.
            let likely = usize::try_from(stored.saturating_mul(8).saturating_add(1 << 16)).unwrap_or(0);
            builder.reserve(self.parts.iter().filter_map(share).fold(0, usize::saturating_add).min(likely));
        }
    }

    /// Adds the baskets that hold the wanted entries; gives the bytes they take in the file.
    fn add_jobs(&mut self, p: usize, column: usize, branch: usize) -> Result<u64> {
        let Some(part) = self.parts.get(p) else { return Ok(0) };
        let Some(found) = part.tree.branches.get(branch) else { return Ok(0) };
        let mut stored = 0u64;
        let size = part.tree.file.source().size();
        let mut covered = part.start;
        let first = found.baskets.partition_point(|b| b.first + b.entries <= part.start);
        for (basket, b) in found.baskets.iter().enumerate().skip(first) {
            if b.first >= part.stop || covered >= part.stop {
                break;
            }
            if b.first > covered {
                break;
            }
            let from = (covered - b.first) as usize;
            let to = (part.stop.min(b.first + b.entries) - b.first) as usize;
            let (range, bytes) = match &b.place {
                Place::File(offset, length) => (Range { offset: *offset, length: *length }, *length),
                Place::Tree(values) => (Range { offset: 0, length: 0 }, values.values().data.len() as u64),
            };
            stored = stored.saturating_add(bytes);
            if range.end() > size {
                return Err(Error::corrupt(format!(
                    "basket {basket} lies at bytes {} to {} of a file of {size}",
                    range.offset,
                    range.end()
                )));
            }
            covered = b.first + to as u64;
            self.jobs.push(Job { part: p, column, basket, from, to, range });
        }
        if covered < part.stop {
            return Err(Error::corrupt(format!(
                "entries {covered} to {} are in no basket (the branch has {} entries)",
                part.stop, found.entries
            )));
        }
        Ok(stored)
    }

    /// Reads the counter of a branch whose baskets have no table of offsets.
    fn counts_for(&self, part: &Part<'_>, branch: usize, start: usize) -> Result<Option<Counts>> {
        let Some(found) = part.tree.branches.get(branch) else { return Ok(None) };
        let Some(counter) = found.counter.filter(|_| found.offsets_from_counter) else { return Ok(None) };
        let jobs = self.jobs.get(start..).unwrap_or_default();
        let basket = |job: Option<&Job>| job.and_then(|j| found.baskets.get(j.basket));
        let (Some(first), Some(last)) = (basket(jobs.first()), basket(jobs.last())) else { return Ok(None) };
        let (start, stop) = (first.first, (last.first + last.entries).min(part.tree.entries));
        // A counter that is counted itself could lead in a circle.
        if !matches!(part.tree.layout(counter)?.framing, Framing::Fixed(_)) {
            return Err(Error::corrupt("its counter is no number"));
        }
        let columns = read(&[Part { tree: part.tree, branches: &[counter], start, stop }])?;
        let Some(Column::Number { number, values }) = columns.first() else {
            return Err(Error::corrupt("its counter is no number"));
        };
        let mut sums = vec![0u64];
        let mut sum = 0u64;
        for chunk in values.chunks_exact(number.size()) {
            let mut word = [0u8; 8];
            word.iter_mut().zip(chunk).for_each(|(w, c)| *w = *c);
            sum = sum.saturating_add(u64::from_le_bytes(word));
            sums.push(sum);
        }
        Ok(Some(Counts { first: start, sums }))
    }

    /// File order, unless a branch's baskets are not in the order of their entries there.
    fn sort(&mut self) {
        let in_order = |jobs: &[Job]| {
            let mut last: Vec<Option<(usize, u64)>> = vec![None; self.targets.len()];
            jobs.iter().all(|job| {
                let Some(slot) = last.get_mut(job.column) else { return true };
                let now = (job.part, job.basket as u64);
                let fine = slot.is_none_or(|before| before < now);
                *slot = Some(now);
                fine
            })
        };
        let mut jobs = std::mem::take(&mut self.jobs);
        jobs.sort_by_key(|j| (j.part, j.range.offset, j.column));
        if !in_order(&jobs) {
            jobs.sort_by_key(|j| {
                let branch =
                    self.parts.get(j.part).and_then(|p| p.tree.branches.get(*p.branches.get(j.column)?));
                let first = branch.and_then(|b| b.baskets.get(j.basket)).map_or(0, |b| b.first);
                (j.part, first, j.range.offset, j.column)
            });
        }
        self.jobs = jobs;
    }

    fn run(&mut self) -> Result<()> {
        let jobs = std::mem::take(&mut self.jobs);
        let threads = rayon::current_num_threads();
        let mut windows = windows(&jobs, WINDOW * threads as u64).peekable();
        let (mut now, mut next) = (Records::default(), Records::default());
        if let Some(first) = windows.peek() {
            now.fetch(self.parts, first)?;
        }
        while let Some(window) = windows.next() {
            let parts = self.parts;
            let Some(after) = windows.peek() else { return self.decode_window(window, &now) };
            if threads == 1 {
                self.decode_window(window, &now)?;
                now.fetch(parts, after)?;
            } else {
                // The next records come in while these are decoded.
                let (fetched, decoded) =
                    rayon::join(|| next.fetch(parts, after), || self.decode_window(window, &now));
                decoded?;
                fetched?;
                std::mem::swap(&mut now, &mut next);
            }
        }
        Ok(())
    }

    fn decode_window(&mut self, window: &[Job], records: &Records) -> Result<()> {
        let mut by_column: Vec<Vec<(&Job, &[u8])>> = Vec::new();
        by_column.resize_with(self.targets.len(), Vec::new);
        for (i, job) in window.iter().enumerate() {
            if let Some(jobs) = by_column.get_mut(job.column) {
                jobs.push((job, records.record(i)));
            }
        }
        let threads = rayon::current_num_threads();
        let used = by_column.iter().filter(|jobs| !jobs.is_empty()).count();
        let pieces = threads > 1 && used < 2 * threads;
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for (target, jobs) in self.targets.iter_mut().zip(by_column) {
            match target {
                Target::Direct { number, each, values, done, .. } => {
                    let mut rest = values.get_mut(*done..).unwrap_or_default();
                    for (job, record) in jobs {
                        let bytes = (job.to - job.from) * *each * number.size();
                        *done += bytes;
                        let (to, after) = rest.split_at_mut(bytes.min(rest.len()));
                        tasks.push(Task::Place { job, record, to });
                        rest = after;
                    }
                }
                Target::Built(_) if jobs.is_empty() => {}
                Target::Built(builder) => tasks.push(if pieces && jobs.len() > 1 {
                    let pieces = jobs.iter().map(|_| builder.like()).collect();
                    Task::Pieces { jobs, pieces, to: builder }
                } else {
                    Task::Append { jobs, to: builder }
                }),
            }
        }
        let context = Context { parts: self.parts, layouts: &self.layouts, counts: &self.counts };
        if threads == 1 {
            return tasks.into_iter().try_for_each(|task| task.run(&context));
        }
        tasks.into_par_iter().with_max_len(1).try_for_each(|task| task.run(&context))
    }
}

/// Splits jobs into windows of at most `limit` bytes, or of one job that is larger.
fn windows(mut jobs: &[Job], limit: u64) -> impl Iterator<Item = &[Job]> {
    std::iter::from_fn(move || {
        let mut bytes = 0u64;
        let fits = |job: &&Job| {
            bytes = bytes.saturating_add(job.range.length);
            bytes <= limit
        };
        let n = jobs.iter().take_while(fits).count().max(1);
        let (window, rest) = jobs.split_at_checked(n)?;
        jobs = rest;
        Some(window)
    })
}

/// Records of a window, in buffers that the next window uses again.
#[derive(Default)]
struct Records {
    buffers: Vec<Vec<u8>>,
    /// Buffer, start and length of each job's record.
    places: Vec<(usize, usize, usize)>,
}

impl Records {
    fn fetch(&mut self, parts: &[Part<'_>], window: &[Job]) -> Result<()> {
        self.places.clear();
        self.places.resize(window.len(), (0, 0, 0));
        let mut requests: Vec<(usize, Request)> = Vec::new();
        let mut start = 0;
        for jobs in window.chunk_by(|a, b| a.part == b.part) {
            let Some(first) = jobs.first() else { continue };
            let Some(part) = parts.get(first.part) else { continue };
            let source = part.tree.file.source();
            // Baskets inside the tree object need no bytes.
            let wanted: Vec<usize> =
                (0..jobs.len()).filter(|&i| jobs.get(i).is_some_and(|j| j.range.length > 0)).collect();
            let ranges: Vec<Range> = wanted.iter().filter_map(|&i| jobs.get(i).map(|j| j.range)).collect();
            let needed = ranges.iter().map(|r| r.length).sum();
            for c in [source.counters(), Counters::process()] {
                count(&c.bytes_requested, needed);
            }
            for mut request in coalesce(&ranges, source.gap(), WINDOW) {
                for i in &mut request.wanted {
                    *i = start + wanted.get(*i).copied().unwrap_or_default();
                }
                requests.push((first.part, request));
            }
            start += jobs.len();
        }
        if self.buffers.len() < requests.len() {
            self.buffers.resize_with(requests.len(), Vec::new);
        }
        for (number, (_, request)) in requests.iter().enumerate() {
            for &i in &request.wanted {
                if let (Some(place), Some(job)) = (self.places.get_mut(i), window.get(i)) {
                    *place = (
                        number,
                        (job.range.offset - request.range.offset) as usize,
                        job.range.length as usize,
                    );
                }
            }
        }
        let load = |(buffer, (part, request)): (&mut Vec<u8>, &(usize, Request))| -> Result<()> {
            let Some(part) = parts.get(*part) else { return Ok(()) };
            let length = request.range.length as usize;
            if buffer.len() < length {
                pool::give_back(std::mem::take(buffer));
                *buffer = pool::filled(length)?;
            }
            let to = buffer.get_mut(..length).unwrap_or_default();
            Ok(part.tree.file.source().fetch(request.range.offset, to)?)
        };
        if rayon::current_num_threads() == 1 || requests.len() == 1 {
            self.buffers.iter_mut().zip(&requests).try_for_each(load)
        } else {
            self.buffers.par_iter_mut().zip(&requests).with_max_len(1).try_for_each(load)
        }
    }

    fn record(&self, job: usize) -> &[u8] {
        let Some(&(buffer, start, length)) = self.places.get(job) else { return &[] };
        self.buffers.get(buffer).and_then(|b| b.get(start..start + length)).unwrap_or_default()
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        self.buffers.drain(..).for_each(pool::give_back);
    }
}

struct Context<'a> {
    parts: &'a [Part<'a>],
    layouts: &'a [Vec<Arc<Layout>>],
    counts: &'a [Vec<Option<Counts>>],
}

enum Task<'a> {
    Place { job: &'a Job, record: &'a [u8], to: &'a mut [u8] },
    Append { jobs: Vec<(&'a Job, &'a [u8])>, to: &'a mut Builder },
    Pieces { jobs: Vec<(&'a Job, &'a [u8])>, pieces: Vec<Builder>, to: &'a mut Builder },
}

impl Task<'_> {
    fn run(self, context: &Context<'_>) -> Result<()> {
        match self {
            Self::Place { job, record, to } => context.basket(job, record, Output::Place(to)),
            Self::Append { jobs, to } => {
                jobs.into_iter().try_for_each(|(job, record)| context.basket(job, record, Output::Append(to)))
            }
            Self::Pieces { jobs, mut pieces, to } => {
                pieces.par_iter_mut().zip(jobs).with_max_len(1).try_for_each(|(piece, (job, record))| {
                    context.basket(job, record, Output::Append(piece))
                })?;
                pieces.iter().for_each(|piece| to.append(piece));
                Ok(())
            }
        }
    }
}

enum Output<'a> {
    Place(&'a mut [u8]),
    Append(&'a mut Builder),
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A thread keeps its decompression buffer up to this size.
const KEEP: usize = 32 << 20;

impl Context<'_> {
    fn basket(&self, job: &Job, record: &[u8], out: Output<'_>) -> Result<()> {
        let Some(part) = self.parts.get(job.part) else { return Ok(()) };
        let Some(&index) = part.branches.get(job.column) else { return Ok(()) };
        let Some(branch) = part.tree.branches.get(index) else { return Ok(()) };
        let Some(layout) = self.layouts.get(job.part).and_then(|l| l.get(job.column)) else { return Ok(()) };
        let Some(found) = branch.baskets.get(job.basket) else { return Ok(()) };
        let counts = self.counts.get(job.part).and_then(|c| c.get(job.column)).and_then(Option::as_ref);
        let source = part.tree.file.source();
        let counts = counts.and_then(|c| c.sums.get((found.first - c.first) as usize..));
        let entries = found.entries as usize;
        let share = Share { programs: part.tree.programs(), layout, job, entries, counts };
        let result = match &found.place {
            Place::Tree(values) => {
                let values = values.values();
                for c in [source.counters(), Counters::process()] {
                    count(&c.baskets, 1);
                    count(&c.bytes_decompressed, values.data.len() as u64);
                }
                share.decode(&values, out)
            }
            Place::File(..) => share.stored(record, out, source.as_ref()),
        };
        result.within(|| {
            format!(
                "basket {} (byte {}) of branch {} of tree {} in {}",
                job.basket,
                found.seek(),
                part.tree.path(index),
                part.tree.name,
                part.tree.file.name()
            )
        })
    }
}

/// What decoding a basket needs to know.
struct Share<'a> {
    programs: &'a Programs,
    layout: &'a Layout,
    job: &'a Job,
    /// Entries of the basket, as the branch has them.
    entries: usize,
    counts: Option<&'a [u64]>,
}

impl Share<'_> {
    fn stored(&self, record: &[u8], out: Output<'_>, source: &dyn Source) -> Result<()> {
        let header = BasketHeader::parse(&mut Cursor::new(record, self.job.range.offset))?;
        let counters = [source.counters(), Counters::process()];
        let mut scratch = SCRATCH.take();
        let start = Instant::now();
        let result = basket::object(&header, record, &mut scratch).and_then(|object| {
            for c in counters {
                clock(&c.time_decompression_ns, start);
                count(&c.baskets, 1);
                count(&c.bytes_compressed, (header.total_bytes - header.key_bytes) as u64);
                count(&c.bytes_decompressed, header.object_bytes as u64);
            }
            let start = Instant::now();
            let result = self.decode(&Values::split(&header, object)?, out);
            for c in counters {
                clock(&c.time_decoding_ns, start);
            }
            result
        });
        if scratch.len() <= KEEP {
            SCRATCH.set(scratch);
        }
        result
    }

    fn decode(&self, values: &Values<'_>, out: Output<'_>) -> Result<()> {
        let job = self.job;
        let kind = &self.layout.kind;
        if values.entries != self.entries {
            return Err(Error::corrupt(format!(
                "a basket of {} entries where the branch has {}",
                values.entries, self.entries
            )));
        }
        if let Framing::Fixed(bytes) = self.layout.framing
            && values.entries.checked_mul(bytes) != Some(values.data.len())
        {
            return Err(Error::corrupt(format!(
                "{} bytes of values for {} entries of {bytes} bytes",
                values.data.len(),
                values.entries
            )));
        }
        let to = match out {
            Output::Append(to) => to,
            Output::Place(to) => {
                return match self.layout.framing {
                    Framing::Fixed(bytes) => place(kind, entry_bytes(values, job, bytes)?, to),
                    framing => Err(Error::unsupported(format!("{framing:?} values at fixed places"))),
                };
            }
        };
        let mut decoder = Decoder::new(self.programs);
        match self.layout.framing {
            Framing::Fixed(bytes) => {
                let mut c = Cursor::new(entry_bytes(values, job, bytes)?, (job.from * bytes) as u64);
                decoder.decode(kind, &mut c, to, job.to - job.from)
            }
            Framing::Counted { skip, bytes } => {
                let bounds = match (values.bounds()?, self.counts) {
                    (Some(bounds), _) => bounds,
                    (None, Some(counts)) => from_counts(values, counts, bytes)?,
                    (None, None) => one_entry(values)?,
                };
                counted(&mut decoder, values.data, &bounds, job, kind, skip, bytes, to)
            }
            Framing::Whole => whole(&mut decoder, values, job, kind, to),
            Framing::Column => column(&mut decoder, values, job, kind, to),
        }
    }
}

/// The borders of the only entry of a basket without a table of them.
fn one_entry(values: &Values<'_>) -> Result<Vec<u32>> {
    match values.entries {
        1 => Ok(vec![0, values.data.len() as u32]),
        n => Err(Error::corrupt(format!("a basket of {n} entries without a table of their offsets"))),
    }
}

fn entry_bytes<'a>(values: &Values<'a>, job: &Job, bytes: usize) -> Result<&'a [u8]> {
    let found =
        job.from.checked_mul(bytes).zip(job.to.checked_mul(bytes)).and_then(|(a, b)| values.data.get(a..b));
    found.ok_or_else(|| {
        Error::corrupt(format!(
            "{} bytes of values, where {} entries of {bytes} are wanted",
            values.data.len(),
            job.to
        ))
    })
}

/// Numbers of fixed dimensions, straight to their place.
fn place(kind: &Kind, from: &[u8], to: &mut [u8]) -> Result<()> {
    match kind {
        Kind::Number(Number::Bool) => {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = u8::from(*from != 0));
        }
        Kind::Number(number) => swap::copy(number.size(), from, to),
        Kind::Packed(packing) => packing.decode(from, to),
        Kind::Fixed { item, .. } => return place(item, from, to),
        other => return Err(Error::unsupported(format!("{other:?} at fixed places"))),
    }
    Ok(())
}

fn from_counts(values: &Values<'_>, counts: &[u64], bytes: usize) -> Result<Vec<u32>> {
    let first = counts.first().copied().unwrap_or_default();
    let mut bounds = Vec::with_capacity(values.entries + 1);
    for i in 0..=values.entries {
        let sum = counts.get(i).ok_or_else(|| Error::corrupt("its counter has fewer entries"))?;
        let bound = (sum - first).saturating_mul(bytes as u64);
        if bound > values.data.len() as u64 {
            return Err(Error::corrupt(format!("its counter gives {bound} bytes of {}", values.data.len())));
        }
        bounds.push(bound as u32);
    }
    Ok(bounds)
}

/// Lists whose lengths follow from where entries start.
#[allow(clippy::too_many_arguments, reason = "one caller, and a struct would only name them again")]
fn counted(
    decoder: &mut Decoder<'_>,
    data: &[u8],
    bounds: &[u32],
    job: &Job,
    kind: &Kind,
    skip: usize,
    bytes: usize,
    to: &mut Builder,
) -> Result<()> {
    let wrong = || Error::corrupt(format!("an entry is no multiple of {bytes} bytes and a header of {skip}"));
    let Builder::List { offsets, values } = to else {
        return Err(Error::unsupported("a list in a column of no lists"));
    };
    let bounds =
        bounds.get(job.from..=job.to).ok_or_else(|| Error::corrupt("a table of entry offsets too short"))?;
    let (Some(&first), Some(&last)) = (bounds.first(), bounds.last()) else { return Ok(()) };
    offsets.reserve(bounds.len());
    let mut end = offsets.last().copied().unwrap_or_default();
    let mut uneven = false;
    for pair in bounds.windows(2) {
        if let [a, b] = pair {
            // Bounds rise; an entry shorter than its header shows as uneven.
            let length = (*b - *a) as usize;
            uneven |= length < skip || !(length.wrapping_sub(skip)).is_multiple_of(bytes);
            end += (length.saturating_sub(skip) / bytes) as i64;
            offsets.push(end);
        }
    }
    if uneven {
        return Err(wrong());
    }
    let slice = |a: u32, b: u32| data.get(a as usize..b as usize).ok_or_else(wrong);
    if skip == 0 {
        let from = slice(first, last)?;
        return decoder.decode(kind, &mut Cursor::new(from, u64::from(first)), values, from.len() / bytes);
    }
    for pair in bounds.windows(2) {
        if let [a, b] = pair {
            let entry = slice(*a, *b)?;
            let (header, from) = entry.split_at_checked(skip).ok_or_else(wrong)?;
            let n = from.len() / bytes;
            if skip == 10 && header.get(6..) != Some((n as u32).to_be_bytes().as_slice()) {
                return Err(Error::corrupt(format!(
                    "a container of {n} elements by its length, another number by its header"
                ))
                .at(u64::from(*a)));
            }
            decoder.decode(kind, &mut Cursor::new(from, u64::from(*a)), values, n)?;
        }
    }
    Ok(())
}

/// Entries that are one value each, of any length.
fn whole(
    decoder: &mut Decoder<'_>,
    values: &Values<'_>,
    job: &Job,
    kind: &Kind,
    to: &mut Builder,
) -> Result<()> {
    // References inside an entry count from the start of the record.
    let origin = values.key_bytes as u64;
    let Some(bounds) = values.bounds()? else {
        let mut c = Cursor::new(values.data, origin);
        decoder.decode(kind, &mut c, &mut to.like(), job.from)?;
        return decoder.decode(kind, &mut c, to, job.to - job.from);
    };
    for entry in job.from..job.to {
        let (Some(&start), Some(&end)) = (bounds.get(entry), bounds.get(entry + 1)) else { break };
        let place = || format!("entry {entry} of the basket");
        let mut c = Cursor::new(values.data.get(..end as usize).unwrap_or_default(), origin);
        c.seek(start as usize)?;
        decoder.next_entry();
        decoder.decode(kind, &mut c, to, 1).within(place)?;
        if c.remaining() != 0 {
            return Err(c
                .corrupt(format!("{} bytes of the entry are left over", c.remaining()))
                .within(place()));
        }
    }
    Ok(())
}

/// Entries that are the same member of any number of objects: until the entry's bytes are used up.
fn column(
    decoder: &mut Decoder<'_>,
    values: &Values<'_>,
    job: &Job,
    kind: &Kind,
    to: &mut Builder,
) -> Result<()> {
    let Builder::List { offsets, values: items } = to else {
        return Err(Error::unsupported("a list in a column of no lists"));
    };
    let bounds = match values.bounds()? {
        Some(bounds) => bounds,
        None => one_entry(values)?,
    };
    for entry in job.from..job.to {
        let (Some(&start), Some(&end)) = (bounds.get(entry), bounds.get(entry + 1)) else { break };
        let mut c = Cursor::new(values.data.get(..end as usize).unwrap_or_default(), values.key_bytes as u64);
        c.seek(start as usize)?;
        decoder.next_entry();
        decoder.column_to_end(kind, &mut c, items).within(|| format!("entry {entry} of the basket"))?;
        offsets.push(items.len() as i64);
    }
    Ok(())
}
