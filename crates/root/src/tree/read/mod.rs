//! Reading: plan, few large requests, decompression and decoding in parallel.
//!
//! Baskets are taken in file order, in chunks that fit a thread's share of the caches. A thread takes a chunk, fetches
//! its records by coalesced requests, then decompresses and decodes them one after another. Values of fixed size go
//! straight to their final place, others are appended in the order of entries.

mod ahead;
mod carry;
mod codecs;
mod counted;
mod kept;
mod longest;
mod run;
mod turns;
mod values;

pub use ahead::{Planned, planned};
pub use carry::Carry;
pub use codecs::codecs;
pub(super) use kept::BasketCache;
pub use longest::longest_entry;

use super::{Framing, Layout, Place, Tree};
use crate::array::{Builder, Column, Number, Type, pool};
use crate::error::{Error, Result, Within};
use crate::file::RootFile;
use crate::streamer::kind::Programs;
use arrow_buffer::Buffer;
use kept::Tail;
use rayon::ThreadPool;
use sapwood_io::Range;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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

/// Reads the same columns from each part and joins them in order.
///
/// `pool` decompresses and decodes; storage far away is waited for outside of it, so this must not be called on one of its
/// threads. The memory beside the result is for each thread one chunk of records and one decompressed basket, and what
/// other threads have decoded of a column before it was their turn.
pub fn read(pool: &ThreadPool, parts: &[Part<'_>]) -> Result<Vec<Column>> {
    Reader::plan(pool, parts, true, Keeps::of(parts, None), None)?.read()
}

/// As [`read`], for a part that follows another: what is left of a basket that reaches beyond the part's end goes to
/// `carry`, and what the part before has left there is used.
pub fn read_on(pool: &ThreadPool, part: &Part<'_>, carry: &Carry) -> Result<Vec<Column>> {
    Reader::plan(pool, std::slice::from_ref(part), !carry.announced(), Keeps::Steps(carry), None)?.read()
}

/// As [`read`] or [`read_on`], but members that cannot be decoded, only passed over, are left out and noted.
///
/// Which classes cannot be decoded shows when they are: then the branches are compiled without them, and read again.
pub fn read_most(
    pool: &ThreadPool,
    parts: &[Part<'_>],
    carry: Option<&Carry>,
    left_out: &LeftOut,
) -> Result<Vec<Column>> {
    let changes = || parts.iter().map(|part| part.tree.programs().changes()).sum::<usize>();
    let mut hidden: Vec<String> = Vec::new();
    let mut errors: Vec<Error> = Vec::new();
    let ahead = carry.is_none_or(|carry| !carry.announced());
    let keeps = Keeps::of(parts, carry);
    loop {
        let before = changes();
        let planned = Reader::plan(pool, parts, ahead, keeps, Some(left_out));
        let error = match planned.and_then(Reader::read) {
            // Another thread may have hidden a class in the midst of it.
            Ok(_) if changes() != before => continue,
            Ok(columns) => return Ok(columns),
            Err(error) => error,
        };
        let class = error.class().map(str::to_owned);
        let new = class.filter(|class| {
            // Of all parts, not up to the first that is new.
            parts.iter().filter(|part| part.tree.hide(class, error.message())).count() > 0
        });
        errors.push(error);
        let Some(class) = new else { break };
        hidden.push(class);
    }
    // It did not help.
    for class in &hidden {
        parts.iter().for_each(|part| part.tree.show(class));
    }
    // What was first found in the column that nothing helps says most of its place.
    let last = errors.last().cloned().unwrap_or_else(|| Error::corrupt("nothing could be read"));
    let alike = |error: &Error| error.column() == last.column() && error.kind() == last.kind();
    Err(errors.into_iter().find(alike).unwrap_or(last))
}

/// What was left out of the columns that were read.
#[derive(Default)]
pub struct LeftOut {
    found: Mutex<BTreeMap<(usize, String), Error>>,
}

impl LeftOut {
    fn add(&self, column: usize, what: String, error: Error) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry((column, what)).or_insert(error);
    }
    /// Each class or member, with the place of the first in its column.
    pub fn into_errors(self) -> Vec<Error> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }
}

/// What becomes of decompressed baskets of which some entries are wanted only.
#[derive(Clone, Copy)]
enum Keeps<'a> {
    /// They are forgotten.
    Nothing,
    /// What is left of them is for the next step.
    Steps(&'a Carry),
    /// The basket cache has them, and gives them to the reading of this number; all of them, if it is the counter of
    /// another branch that is read.
    Cache { reading: u64, counter: bool },
}

impl<'a> Keeps<'a> {
    fn of(parts: &[Part<'_>], carry: Option<&'a Carry>) -> Self {
        match carry {
            Some(carry) => Self::Steps(carry),
            None if is_direct(parts) => Self::Cache { reading: BasketCache::reading(), counter: false },
            None => Self::Nothing,
        }
    }
}

/// Whether parts are at most half of what is in the baskets that must be decompressed for them, by entries: others are
/// likely to be wanted, too. Larger ones neither ask the basket cache nor fill it.
fn is_direct(parts: &[Part<'_>]) -> bool {
    let (mut wanted, mut there) = (0u64, 0u64);
    for part in parts.iter().filter(|part| part.start < part.stop) {
        if part.start == 0 && part.stop >= part.tree.entries {
            return false;
        }
        for branch in part.branches.iter().filter_map(|&branch| part.tree.branches.get(branch)) {
            let from = branch.baskets.partition_point(|b| b.first + b.entries <= part.start);
            let to = branch.baskets.partition_point(|b| b.first < part.stop);
            let touched = branch.baskets.get(from..to).unwrap_or_default();
            if let [first, ..] = touched
                && let [.., last] = touched
            {
                wanted = wanted.saturating_add(part.stop - part.start);
                there = there.saturating_add(last.first + last.entries - first.first);
            }
        }
    }
    wanted > 0 && wanted <= there / 2
}

/// No codec makes a byte into more: an RLE block of zstd, the densest, holds 128 KiB in four bytes.
const EXPANSION: u64 = 1 << 15;

/// So many entries of fifteen bytes each, all alike, may have been compressed to one byte.
const SPARSEST: u64 = 256;

/// One basket's share of a column.
struct Job {
    part: usize,
    column: usize,
    basket: usize,
    /// Entries of the basket that are wanted.
    from: usize,
    to: usize,
    range: Range,
    /// What the basket cache has of it.
    kept: Option<Arc<Tail>>,
}

impl Job {
    /// What must be read for it.
    fn needed(&self) -> Range {
        let length = if self.kept.is_none() { self.range.length } else { 0 };
        Range { offset: self.range.offset, length }
    }
}

struct Reader<'a> {
    pool: &'a ThreadPool,
    parts: &'a [Part<'a>],
    layouts: Vec<Vec<Arc<Layout>>>,
    /// For each part the programs that its layouts are made for.
    programs: Vec<&'a Programs>,
    counts: Vec<Vec<Option<Counts>>>,
    jobs: Vec<Job>,
    /// Bytes that the baskets of each column take in the files.
    stored: Vec<u64>,
    targets: Vec<Target>,
    ahead: Option<Mutex<ahead::Ahead>>,
    keeps: Keeps<'a>,
    left_out: Option<&'a LeftOut>,
}

/// Elements of each entry as a counter branch gives them, summed up.
struct Counts {
    first: u64,
    sums: Vec<u64>,
    /// Values of each element, where they are counted too.
    each: Vec<u64>,
}

/// Where a column's values go.
enum Target {
    /// Numbers at places known beforehand.
    Direct { of: Type, number: Number, each: usize, values: pool::Filled },
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
            return Ok(Self::Direct { of: of.clone(), number, each, values: pool::Filled::new(bytes)? });
        }
        Ok(Self::Built(Builder::new(of)))
    }
    fn finish(self) -> Result<Column> {
        match self {
            Self::Built(builder) => Ok(builder.finish()),
            Self::Direct { of, number, each, values, .. } => {
                let entries = values.size() / (number.size() * each).max(1);
                nest(&of, entries, number, values.share())
            }
        }
    }
}

/// Unsigned numbers of some size.
fn words(values: &[u8], size: usize) -> impl Iterator<Item = u64> {
    values.chunks_exact(size).map(|chunk| {
        let mut word = [0u8; 8];
        word.iter_mut().zip(chunk).for_each(|(w, c)| *w = *c);
        u64::from_le_bytes(word)
    })
}

/// The branch that must be read to read another, and whether it counts the values of each element.
fn counter_of(tree: &Tree, branch: usize) -> Result<Option<(usize, bool)>> {
    let Some(found) = tree.branches.get(branch) else { return Ok(None) };
    Ok(match (tree.layout(branch)?.framing, found.counter) {
        (Framing::CountedColumn(counter) | Framing::Rows(counter), _) => Some((counter, true)),
        (Framing::Objects, Some(counter)) => Some((counter, false)),
        (_, Some(counter)) if found.offsets_from_counter => Some((counter, false)),
        _ => None,
    })
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
    /// `ahead`: whether what is read is announced to storage here.
    fn plan(
        pool: &'a ThreadPool,
        parts: &'a [Part<'a>],
        ahead: bool,
        keeps: Keeps<'a>,
        left_out: Option<&'a LeftOut>,
    ) -> Result<Self> {
        let mut reader = Self {
            pool,
            parts,
            layouts: Vec::new(),
            programs: Vec::new(),
            counts: Vec::new(),
            jobs: Vec::new(),
            stored: Vec::new(),
            targets: Vec::new(),
            ahead: ahead.then(Mutex::default),
            keeps,
            left_out,
        };
        reader.announce(0);
        let mut types: Vec<Type> = Vec::new();
        reader.stored.resize(parts.first().map_or(0, |part| part.branches.len()), 0);
        for (p, part) in parts.iter().enumerate() {
            // Branches filled without their tree have entries that it does not count.
            let filled =
                part.branches.iter().filter_map(|&b| part.tree.branches.get(b)).map(|b| b.entries).min();
            let entries = part.tree.entries.max(filled.unwrap_or(0));
            if part.start > part.stop || part.stop > entries {
                return Err(Error::argument(format!(
                    "entries {} to {} of a tree that has {entries}",
                    part.start, part.stop
                )));
            }
            // Of trees that are alike, the first one's branches are compiled for all.
            let model = parts.first().filter(|first| first.tree.same_shape(part.tree)).unwrap_or(part);
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
                let layout = model.tree.layout(branch)?;
                let of = layout.of.clone().within(place).map_err(|error| error.of_column(column))?;
                match types.get(column) {
                    None if p == 0 => types.push(of),
                    Some(first) if *first == of => {}
                    _ => {
                        return Err(Error::argument("its type or place differs from that in the first file")
                            .within(place()));
                    }
                }
                let start = reader.jobs.len();
                let bytes = reader
                    .add_jobs(p, column, branch)
                    .within(place)
                    .map_err(|error| error.of_column(column))?;
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
            reader.programs.push(model.tree.programs());
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

    /// Tells storage that part `p` is read now, and that the next one follows.
    fn announce(&self, p: usize) {
        if let Some(ahead) = &self.ahead {
            ahead.lock().unwrap_or_else(PoisonError::into_inner).go_on(self.parts, p);
        }
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
                // The branch that says so for each entry is in the file.
                Place::Nowhere if b.entries / SPARSEST > size => {
                    let message = format!("{} entries before the first basket, in {size} bytes", b.entries);
                    return Err(Error::corrupt(message));
                }
                Place::Nowhere => (Range { offset: 0, length: 0 }, 0),
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
            self.jobs.push(Job { part: p, column, basket, from, to, range, kept: None });
        }
        if covered < part.stop {
            let message = format!(
                "entries {covered} to {} are in no basket (the branch has {} entries)",
                part.stop, found.entries
            );
            // ROOT fills some branches of a tree and not others, if it is told to.
            let short = found.entries <= covered;
            return Err(if short { Error::unsupported(message) } else { Error::corrupt(message) });
        }
        Ok(stored)
    }

    /// Reads the counter of a branch whose baskets have no table of offsets, or whose elements are variable arrays.
    fn counts_for(&self, part: &Part<'_>, branch: usize, start: usize) -> Result<Option<Counts>> {
        let Some(found) = part.tree.branches.get(branch) else { return Ok(None) };
        let Some((counter, of_each)) = counter_of(part.tree, branch)? else { return Ok(None) };
        let jobs = self.jobs.get(start..).unwrap_or_default();
        let basket = |job: Option<&Job>| job.and_then(|j| found.baskets.get(j.basket));
        let (Some(first), Some(last)) = (basket(jobs.first()), basket(jobs.last())) else { return Ok(None) };
        let (start, stop) = (first.first, (last.first + last.entries).min(part.tree.entries));
        let wrong = || Error::corrupt("its counter is no number");
        // A counter that is counted itself could lead in a circle.
        match part.tree.layout(counter)?.framing {
            Framing::Fixed(_) => {}
            Framing::Counted { skip: 0, .. } if of_each => {}
            _ => return Err(wrong()),
        }
        // Its baskets are announced with those of the branch.
        let counter = [Part { tree: part.tree, branches: &[counter], start, stop }];
        let keeps = match self.keeps {
            Keeps::Cache { reading, .. } => Keeps::Cache { reading, counter: true },
            _ => Keeps::Nothing,
        };
        let columns = Reader::plan(self.pool, &counter, false, keeps, None)?.read()?;
        let mut counts = Counts { first: start, sums: vec![0], each: Vec::new() };
        match columns.first() {
            Some(Column::Number { number, values }) if !of_each => {
                let mut sum = 0u64;
                counts.sums.extend(words(values, number.size()).map(|n| {
                    sum = sum.saturating_add(n);
                    sum
                }));
            }
            Some(Column::List { offsets, values }) if of_each => {
                let Column::Number { number, values } = values.as_ref() else { return Err(wrong()) };
                counts.sums = words(offsets, 8).collect();
                counts.each = words(values, number.size()).collect();
            }
            _ => return Err(wrong()),
        }
        Ok(Some(counts))
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

    fn read(mut self) -> Result<Vec<Column>> {
        let mut last: Option<&RootFile> = None;
        for file in self.parts.iter().map(|part| &*part.tree.file) {
            if last.replace(file).is_none_or(|before| !std::ptr::eq(before, file)) {
                file.verify()?;
            }
        }
        let mut jobs = std::mem::take(&mut self.jobs);
        if let Keeps::Cache { reading, .. } = self.keeps {
            for job in jobs.iter_mut().filter(|job| job.range.length > 0) {
                let part = self.parts.get(job.part);
                job.kept = part.and_then(|part| part.tree.basket_cache.get(job.range.offset, reading));
            }
        }
        let mut targets = std::mem::take(&mut self.targets);
        run::Run::new(&self, &jobs, &mut targets).all()?;
        let columns: Vec<Column> = targets.into_iter().map(Target::finish).collect::<Result<_>>()?;
        counted::verify(&self, &jobs, &columns)?;
        Ok(columns)
    }
}
