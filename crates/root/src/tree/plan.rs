//! Planning how branches are read: the baskets, and the counters before them.

use super::decode::BranchDecoder;
use super::longest::longest_entry;
use super::program::{BranchProgram, BranchReader, Framing};
use super::{Basket, BasketPlace, Tree};
use crate::array::{Builder, Column, Number, Type};
use crate::compress::decode;
use crate::error::{Error, Result};
use crate::table::{
    FieldInfo, FieldPlan, FieldReader, Hidden, Lane, LaneValues, PageCache, PageListed, PagePlace,
    PageWanted, Table, Target, of_format,
};
use crate::wire::grow::{self, Grow};
use arrow_buffer::Buffer;
use sapwood_io::{Range, Source, lock};
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// The slot of a branch's values.
const VALUES: usize = 0;
/// The slot of the counter, if it is needed to decode the values.
const COUNTS: usize = 1;
/// The slot of the counter, to check baskets without bytes.
const CHECK: usize = 2;

/// Cumulative counts of a counter branch.
pub struct Counts {
    /// The first entry.
    pub first: u64,
    /// Number of elements before each entry.
    pub sums: Vec<u64>,
    /// Number of values in each element, if these are counted too.
    pub each: Vec<u64>,
}

impl Table for Tree {
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.title
    }
    fn classname(&self) -> &str {
        &self.classname
    }
    fn entries(&self) -> u64 {
        self.entries
    }
    fn aliases(&self) -> &[(String, String)] {
        &self.aliases
    }
    fn num_fields(&self) -> usize {
        self.branches.len()
    }
    fn field(&self, field: usize) -> Option<FieldInfo<'_>> {
        self.branches.get(field).map(|branch| FieldInfo {
            name: &branch.name,
            title: &branch.title,
            parent: branch.parent,
            children: &branch.children,
            entries: branch.entries,
        })
    }
    fn field_bytes(&self, field: usize) -> (u64, u64) {
        self.branches.get(field).map_or((0, 0), |branch| {
            // `fTotBytes` does not count a basket inside the tree object.
            let total = match branch.total_bytes {
                0 => branch.baskets.iter().map(Basket::bytes_inside).sum(),
                total => total,
            };
            (total, branch.compressed_bytes)
        })
    }
    fn path(&self, field: usize) -> String {
        Self::path(self, field)
    }
    fn reader(&self, field: usize, hidden: &Hidden) -> Result<Arc<dyn FieldReader>> {
        Ok(self.compiled_reader(field, hidden)?)
    }
    fn left_out(&self, field: usize) -> Result<Vec<String>> {
        let kept = lock(&self.without).clone();
        let readers = kept.as_deref().unwrap_or_else(|| self.readers());
        Ok(readers.get(self, field)?.program.left_out.clone())
    }
    fn cluster_borders(&self) -> Vec<u64> {
        Self::cluster_borders(self)
    }
    fn pages(&self, field: usize, start: u64, stop: u64, to: &mut Vec<PageListed>) {
        let own = to.len();
        self.list(field, start, stop, to);
        let counter = self.program(field).ok().and_then(|program| self.counter(field, program));
        if let Some((counter, _)) = counter {
            // The counter is read for all entries of the baskets that it counts.
            let own = to.get(own..).unwrap_or_default();
            let start = own.iter().map(|page| page.first).min().unwrap_or(0);
            let stop = own.iter().map(|page| page.first + page.entries).max().unwrap_or(0);
            self.list(counter, start, stop.min(self.entries), to);
        }
    }
    fn in_memory(&self, field: usize, take: &mut dyn FnMut(&[u8])) {
        for basket in self.branches.get(field).iter().flat_map(|branch| &branch.baskets) {
            if let BasketPlace::Tree(values) = &basket.place {
                let page = values.page();
                take(page.table.unwrap_or_default());
                take(page.data);
            }
        }
    }
    fn entries_touched(&self, field: usize, start: u64, stop: u64) -> u64 {
        let Some(branch) = self.branches.get(field) else { return 0 };
        let from = branch.baskets.partition_point(|b| b.first + b.entries <= start);
        let to = branch.baskets.partition_point(|b| b.first < stop);
        match branch.baskets.get(from..to).unwrap_or_default() {
            touched @ [first, ..] => touched.last().map_or(0, |last| last.first + last.entries - first.first),
            [] => 0,
        }
    }
    fn page_range(&self, column: usize, page: usize) -> Option<Range> {
        match self.branches.get(column)?.baskets.get(page)?.place {
            BasketPlace::File(offset, length) => Some(Range { offset, length }),
            _ => None,
        }
    }
    fn codec(&self, _column: usize, _page: usize, head: &[u8]) -> Option<u32> {
        codec(head)
    }
    fn longest_entry(&self, field: usize) -> Result<Option<u64>> {
        longest_entry(self, field)
    }
    fn same_shape(&self, other: &dyn Table) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| Self::same_shape(self, other))
    }
    fn source(&self) -> &Arc<dyn Source> {
        self.file.source()
    }
    fn verify(&self) -> Result<()> {
        self.file.verify_table(self.key.as_ref())
    }
    fn page_cache(&self) -> &PageCache {
        &self.page_cache
    }
    fn place(&self, field: usize) -> String {
        format!("branch {} of tree {} in {}", self.path(field), self.name, self.file.name())
    }
    fn page_place(&self, column: usize, page: &PageWanted) -> String {
        format!("basket {} (byte {}) of {}", page.number, page.range().offset, self.place(column))
    }
    fn column_name(&self, column: usize) -> String {
        self.path(column)
    }
}

impl Tree {
    /// Lists the stored baskets of a branch for some entries.
    fn list(&self, branch: usize, start: u64, stop: u64, to: &mut Vec<PageListed>) {
        let Some(found) = self.branches.get(branch) else { return };
        let first = found.baskets.partition_point(|b| b.first + b.entries <= start);
        for (number, b) in found.baskets.iter().enumerate().skip(first).take_while(|(_, b)| b.first < stop) {
            if let BasketPlace::File(offset, length) = b.place {
                let range = Range { offset, length };
                to.push(PageListed { column: branch, number, range, first: b.first, entries: b.entries });
            }
        }
    }

    /// Returns the branch that must be read to read another, and whether it counts the values of each element.
    fn counter(&self, branch: usize, program: &BranchProgram) -> Option<(usize, bool)> {
        let found = self.branches.get(branch)?;
        match (program.framing, found.counter) {
            (Framing::CountedColumn(counter) | Framing::Rows(counter), _) => Some((counter, true)),
            (Framing::Objects, Some(counter)) => Some((counter, false)),
            (_, Some(counter)) if found.offsets_from_counter => Some((counter, false)),
            _ => None,
        }
    }

    /// Returns the baskets that hold some entries of a branch.
    fn baskets(&self, branch: usize, start: u64, stop: u64) -> Result<Vec<PageWanted>> {
        let Some(found) = self.branches.get(branch) else { return Ok(Vec::new()) };
        let end = found.baskets.last().map_or(0, |last| last.first + last.entries);
        if end > found.entries {
            // Reading the branch alone would leave out entries that a read of the tree returns.
            let message = format!("its baskets have {end} entries, but the branch {}", found.entries);
            return Err(Error::corrupt(message));
        }
        let mut covered = start;
        let first = found.baskets.partition_point(|b| b.first + b.entries <= start);
        let behind = found.baskets.partition_point(|b| b.first < stop);
        let mut pages = grow::with_room(behind.saturating_sub(first))?;
        for (number, b) in found.baskets.iter().enumerate().skip(first) {
            if b.first >= stop || covered >= stop || b.first > covered {
                break;
            }
            let from = (covered - b.first) as usize;
            let to = (stop.min(b.first + b.entries) - b.first) as usize;
            let place = match &b.place {
                BasketPlace::File(offset, length) => {
                    PagePlace::Stored(Range { offset: *offset, length: *length })
                }
                BasketPlace::Tree(_) => PagePlace::Memory,
                BasketPlace::Nowhere => PagePlace::Absent,
            };
            covered = b.first + to as u64;
            pages.try_push(PageWanted {
                number,
                first: b.first,
                items: b.entries as usize,
                from,
                to,
                place,
            })?;
        }
        if covered < stop {
            let message = format!(
                "entries {covered} to {stop} are in no basket (the branch has {} entries)",
                found.entries
            );
            // With ROOT, a program may fill some branches of a tree and not others.
            let short = found.entries <= covered;
            return Err(if short { Error::unsupported(message) } else { Error::corrupt(message) });
        }
        Ok(pages)
    }
}

/// Returns number type and count for a type of numbers with fixed dimensions.
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

impl BranchReader {
    /// Returns number type and count of its values, if they are decoded to known places.
    fn direct(&self) -> Option<(Number, usize)> {
        let of = self.program.of.as_ref().ok()?;
        flat(of).filter(|_| matches!(self.program.framing, Framing::Fixed(_)))
    }
}

impl FieldReader for BranchReader {
    fn of(&self) -> &Result<Type> {
        &self.program.of
    }
    fn typename(&self) -> &str {
        &self.program.typename
    }
    fn is_group(&self) -> bool {
        self.program.group
    }
    fn left_out(&self) -> &[String] {
        &self.program.left_out
    }
    fn doubts(&self) -> &[String] {
        &self.program.doubts
    }
    fn layout(&self, table: &dyn Table, field: usize) -> Option<String> {
        let tree: &Tree = of_format(table).ok()?;
        let counter =
            tree.counter(field, &self.program).map(|(counter, _)| tree.program(counter).map(|p| &p.of));
        Some(format!("tree {} {counter:?}", self.direct().is_some()))
    }
    fn plan<'a>(
        self: Arc<Self>,
        table: &'a dyn Table,
        field: usize,
        start: u64,
        stop: u64,
    ) -> Result<Box<dyn FieldPlan<'a> + 'a>> {
        let tree = of_format(table)?;
        let (state, hollow) = (State::Begun, Arc::default());
        Ok(Box::new(BranchPlan { tree, branch: field, reader: self, start, stop, state, hollow }))
    }
    fn finish(
        &self,
        entries: u64,
        take: &mut dyn FnMut(usize) -> Result<Column>,
        _room: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Column> {
        match (take(VALUES)?, &self.program.of, self.direct()) {
            (Column::Number { values, .. }, Ok(of), Some((number, _))) => {
                nest(of, entries as usize, number, values)
            }
            (column, ..) => Ok(column),
        }
    }
}

/// The plan for reading a branch.
struct BranchPlan<'a> {
    tree: &'a Tree,
    branch: usize,
    reader: Arc<BranchReader>,
    start: u64,
    stop: u64,
    state: State,
    /// Numbers of the baskets that turned out to have no bytes.
    hollow: Arc<Mutex<BTreeSet<usize>>>,
}

enum State {
    Begun,
    /// The counter is read, from this entry on.
    Counting {
        of_each: bool,
        first: u64,
        pages: Vec<PageWanted>,
    },
    /// The values are read.
    Reading,
    /// The counter is read, from this entry on, to check baskets without bytes.
    Checking {
        first: u64,
    },
    Done,
}

/// A basket without bytes.
struct Empty {
    number: usize,
    /// First wanted entry.
    first: u64,
    entries: usize,
}

impl<'a> FieldPlan<'a> for BranchPlan<'a> {
    fn stage(&mut self, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Reading) {
            State::Begun => {
                let pages = self.tree.baskets(self.branch, self.start, self.stop)?;
                let counter = self.tree.counter(self.branch, &self.reader.program);
                let range = pages.first().zip(pages.last());
                let (Some((counter, of_each)), Some((first, last))) = (counter, range) else {
                    lanes.push(self.values(pages, None)?);
                    return Ok(());
                };
                let (first, stop) = (first.first, last.first + last.items as u64);
                // A counter with a counter could form a cycle.
                match self.tree.program(counter)?.framing {
                    Framing::Fixed(_) => {}
                    Framing::Counted { skip: 0, .. } if of_each => {}
                    _ => return Err(no_number()),
                }
                lanes.push(self.counts(COUNTS, counter, first, stop.min(self.tree.entries))?);
                self.state = State::Counting { of_each, first, pages };
            }
            State::Counting { of_each, first, pages } => {
                let counts = if of_each { each(read, first) } else { self.sums(read, first) };
                lanes.push(self.values(pages, Some(counts.ok_or_else(no_number)?))?);
            }
            state => self.state = state,
        }
        Ok(())
    }

    /// Fails if baskets without bytes should hold elements according to the counter branch.
    fn check(&mut self, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        let state = std::mem::replace(&mut self.state, State::Done);
        let Some(counter) = self.tree.branches.get(self.branch).and_then(|branch| branch.counter) else {
            return Ok(());
        };
        let empty = if matches!(state, State::Done) { Vec::new() } else { self.empty(read)? };
        let (Some(begin), Some(end)) = (empty.first(), empty.last()) else { return Ok(()) };
        let (first, stop) = (begin.first, end.first + end.entries as u64);
        let found = if let State::Checking { first } = state {
            self.number(counter).zip(read.direct(CHECK)).map(|(number, values)| (first, number, values))
        } else {
            let known = read.known(counter, first, (stop - first) as usize);
            // Errors in a counter that the read did not request are ignored here.
            if known.is_none()
                && self.number(counter).is_some()
                && let Ok(lane) = self.counts(CHECK, counter, first, stop)
            {
                lanes.push(lane);
                self.state = State::Checking { first };
            }
            known.map(|(number, values)| (first, number, values))
        };
        let Some((first, number, values)) = found else { return Ok(()) };
        for Empty { number: basket, first: entry, entries } in empty {
            let from = (entry - first) as usize * number.size();
            let some = values.get(from..from + entries * number.size()).unwrap_or_default();
            let elements = words(some, number.size()).fold(0, u64::saturating_add);
            if elements > 0 {
                let found = self.tree.branches.get(self.branch).and_then(|b| b.baskets.get(basket));
                let seek = found.map_or(0, super::Basket::seek);
                return Err(Error::unsupported(format!(
                    "basket {basket} (byte {seek}) holds no bytes, where its counter says {elements} elements"
                ))
                .at(seek));
            }
        }
        Ok(())
    }
}

impl<'a> BranchPlan<'a> {
    /// Returns the lane of the values.
    fn values(&self, pages: Vec<PageWanted>, counts: Option<Counts>) -> Result<Lane<'a>> {
        let lane = self.lane(VALUES, self.branch, self.reader.clone(), pages, counts, self.hollow.clone())?;
        Ok(Lane { counter: self.tree.branches.get(self.branch).and_then(|branch| branch.counter), ..lane })
    }

    /// Returns the lane of a counter.
    fn counts(&self, slot: usize, counter: usize, start: u64, stop: u64) -> Result<Lane<'a>> {
        let reader = self.tree.compiled_reader(counter, &Hidden::new())?;
        let pages = self.tree.baskets(counter, start, stop)?;
        let lane = self.lane(slot, counter, reader, pages, None, Arc::default())?;
        Ok(Lane { shared: true, ..lane })
    }

    fn lane(
        &self,
        slot: usize,
        branch: usize,
        reader: Arc<BranchReader>,
        pages: Vec<PageWanted>,
        counts: Option<Counts>,
        hollow: Arc<Mutex<BTreeSet<usize>>>,
    ) -> Result<Lane<'a>> {
        let items: u64 = pages.iter().map(|page| page.wanted() as u64).sum();
        let target = match (reader.direct(), &reader.program.of) {
            (Some((number, each)), _) => {
                let bits = number.size().checked_mul(each).and_then(|bytes| bytes.checked_mul(8));
                let bits = bits.ok_or_else(|| Error::corrupt(format!("entries of {each} numbers")))?;
                Target::Direct { number, each, items, bits }
            }
            (None, Ok(of)) => Target::Built(of.clone()),
            (None, Err(error)) => return Err(error.clone()),
        };
        let bytes = self.tree.branches.get(branch).map_or(0, |found| {
            u128::from(found.total_bytes) * u128::from(items) / u128::from(found.entries.max(1))
        });
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let decoder = Box::new(BranchDecoder { tree: self.tree, branch, reader, counts, hollow });
        Ok(Lane { slot, column: branch, target, pages, decoder, bytes, shared: false, counter: None })
    }

    /// Returns the number type of a counter.
    fn number(&self, counter: usize) -> Option<Number> {
        let reader = self.tree.compiled_reader(counter, &Hidden::new()).ok()?;
        reader.direct().filter(|(_, each)| *each == 1).map(|(number, _)| number)
    }

    /// Returns the cumulative counts of a counter of elements, from an entry on.
    fn sums(&self, read: &dyn LaneValues, first: u64) -> Option<Counts> {
        let (counter, _) = self.tree.counter(self.branch, &self.reader.program)?;
        let (number, values) = (self.number(counter)?, read.direct(COUNTS)?);
        let mut sums = grow::with_room(values.len() / number.size() + 1).ok()?;
        let mut sum = 0u64;
        sums.push(sum);
        sums.extend(words(values, number.size()).map(|n| {
            sum = sum.saturating_add(n);
            sum
        }));
        Some(Counts { first, sums, each: Vec::new() })
    }

    /// Returns the baskets without bytes whose elements another branch counts.
    fn empty(&self, read: &dyn LaneValues) -> Result<Vec<Empty>> {
        let program = &self.reader.program;
        let elements = matches!(program.framing, Framing::Column | Framing::Counted { skip: 0, .. })
            && program.kind.least_bytes() > 0;
        // Other baskets have the lengths of their entries themselves: there, the counter is not needed.
        let hollow = lock(&self.hollow);
        if hollow.is_empty() || !elements {
            return Ok(Vec::new());
        }
        let Some((offsets, share)) = read.offsets(VALUES)? else { return Ok(Vec::new()) };
        let mut at = share.start;
        let mut found = Vec::new();
        for page in self.tree.baskets(self.branch, self.start, self.stop).unwrap_or_default() {
            let entries = page.wanted();
            let ends = offsets.get(at).zip(offsets.get(at + entries));
            let empty = hollow.contains(&page.number) && ends.is_some_and(|(start, end)| start == end);
            if page.place != PagePlace::Absent && empty {
                found.push(Empty { number: page.number, first: page.first + page.from as u64, entries });
            }
            at += entries;
        }
        Ok(found)
    }
}

/// Returns the counts of a counter of each element's values, from an entry on.
fn each(read: &dyn LaneValues, first: u64) -> Option<Counts> {
    let (Builder::List { offsets, values }, share) = read.built(COUNTS)? else { return None };
    let Builder::Number { number, values } = values.as_ref() else { return None };
    let sums = offsets.get(share.start..=share.end)?.iter().map(|&end| end as u64).collect();
    Some(Counts { first, sums, each: words(values, number.size()).collect() })
}

/// Reads unsigned numbers of some size.
fn words(values: &[u8], size: usize) -> impl Iterator<Item = u64> {
    values.chunks_exact(size).map(|chunk| {
        let mut word = [0u8; 8];
        word.iter_mut().zip(chunk).for_each(|(w, c)| *w = *c);
        u64::from_le_bytes(word)
    })
}

fn no_number() -> Error {
    Error::corrupt("its counter is not a number")
}

/// Returns the codec of a record from its first bytes.
fn codec(head: &[u8]) -> Option<u32> {
    let word =
        |place: usize| head.get(place..place + 4)?.first_chunk::<4>().map(|four| u32::from_be_bytes(*four));
    let (total, object, key) = (word(0)?, word(6)?, word(12)? & 0xffff);
    if total.checked_sub(key)? == object {
        return Some(0);
    }
    decode::codec(head.get(key as usize..)?)
}

#[cfg(test)]
mod tests {
    use super::codec;

    fn record(object: u32, tag: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 20];
        head[..4].copy_from_slice(&40u32.to_be_bytes());
        head[6..10].copy_from_slice(&object.to_be_bytes());
        head[14..16].copy_from_slice(&20u16.to_be_bytes());
        head.extend_from_slice(tag);
        head
    }

    #[test]
    fn tags_tell_codecs() {
        for (tag, number) in [(b"ZL", 1), (b"XZ", 2), (b"CS", 3), (b"L4", 4), (b"ZS", 5)] {
            assert_eq!(codec(&record(100, tag)), Some(number));
        }
        assert_eq!(codec(&record(20, b"XZ")), Some(0)); // as many bytes as before: not compressed
        assert_eq!(codec(&record(100, b"??")), None);
        assert_eq!(codec(&record(100, b"")), None);
        assert_eq!(codec(&[]), None);
    }
}
