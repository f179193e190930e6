//! The engine on a table in memory: lists of lists, in clusters and pages, as a columnar format stores them.

use super::{Carry, LeftOut, Part, read, read_with};
use crate::array::{Column, Number, Type};
use crate::error::{Error, ErrorKind, Result};
use crate::table::{
    FieldInfo, FieldPlan, FieldReader, Hidden, Lane, LaneValues, Page, PageCache, PageDecoder, PageListed,
    PageOutput, PagePlace, PageSlice, PageWanted, PartsLeftOut, Table, Target, Unpacked,
};
use rayon::{ThreadPool, ThreadPoolBuilder};
use sapwood_io::counters::Counters;
use sapwood_io::{Memory, Range, Source};
use std::any::Any;
use std::sync::Arc;

/// Items in a page.
const PAGE: usize = 3;
/// Stored columns: a number, the ends of the outer lists, the ends of the inner lists, and their items.
const COLUMNS: usize = 4;

type Entry = (i32, Vec<Vec<i32>>);

/// Field 0 is a number, field 1 a list of lists, field 2 the same with an undecodable class in it.
struct Fake {
    source: Arc<dyn Source>,
    /// For each cluster the first item of each column, and the end.
    clusters: Vec<[u64; COLUMNS]>,
    /// For each column its pages: cluster, first item, items, place.
    pages: [Vec<(usize, u64, usize, Range)>; COLUMNS],
    /// Whether plans request all items of whole clusters at once.
    knows: bool,
    /// Whether the slots are in reversed order.
    reversed: bool,
    cache: PageCache,
}

impl Fake {
    fn new(clusters: &[Vec<Entry>]) -> Self {
        let mut bytes = vec![0u8; 10];
        let mut firsts = vec![[0u64; COLUMNS]];
        let mut pages = [const { Vec::new() }; COLUMNS];
        for (cluster, entries) in clusters.iter().enumerate() {
            let mut columns: [Vec<i32>; COLUMNS] = Default::default();
            for (x, lists) in entries {
                columns[0].push(*x);
                for list in lists {
                    columns[3].extend(list);
                    let end = columns[3].len() as i32;
                    columns[2].push(end);
                }
                let end = columns[2].len() as i32;
                columns[1].push(end);
            }
            let start = firsts[cluster];
            let mut next = start;
            for (c, column) in columns.iter().enumerate() {
                for (i, page) in column.chunks(PAGE).enumerate() {
                    let range = Range { offset: bytes.len() as u64, length: page.len() as u64 * 4 };
                    pages[c].push((cluster, start[c] + (i * PAGE) as u64, page.len(), range));
                    page.iter().for_each(|v| bytes.extend_from_slice(&v.to_ne_bytes()));
                }
                next[c] += column.len() as u64;
            }
            firsts.push(next);
        }
        let source = Arc::new(Memory::new("fake", bytes));
        Self { source, clusters: firsts, pages, knows: false, reversed: false, cache: PageCache::default() }
    }
    fn wanted(&self, column: usize, from: u64, to: u64) -> Vec<PageWanted> {
        let pages = self.pages[column].iter().enumerate();
        let inside = pages.filter(|(_, (_, first, items, _))| *first < to && first + *items as u64 > from);
        let page = |(number, &(_, first, items, range)): (usize, &(usize, u64, usize, Range))| PageWanted {
            number,
            first,
            items,
            from: from.saturating_sub(first) as usize,
            to: (to - first).min(items as u64) as usize,
            place: PagePlace::Stored(range),
        };
        inside.map(page).collect()
    }
    fn slot(&self, column: usize) -> usize {
        let slot = column.saturating_sub(1);
        if self.reversed { 2 - slot } else { slot }
    }
    fn lane(&self, column: usize, start: u64, stop: u64) -> Lane<'_> {
        let ends = matches!(column, 1 | 2);
        let target = if ends {
            Target::Ends { lists: stop - start, bits: 32 }
        } else {
            Target::Direct { number: Number::I32, each: 1, items: stop - start, bits: 32 }
        };
        let border = self.clusters.iter().any(|firsts| firsts[column] == start);
        let mut pages = self.wanted(column, start - u64::from(ends && !border), stop);
        if ends && border {
            // Nothing is stored for the start of a cluster's first list.
            let place = PagePlace::Absent;
            pages.insert(0, PageWanted { number: 0, first: start, items: 1, from: 0, to: 1, place });
        }
        let decoder = Box::new(FakeDecoder { fake: self, column });
        Lane {
            slot: self.slot(column),
            column,
            target,
            pages,
            decoder,
            bytes: 0,
            shared: ends,
            counter: None,
        }
    }
}

struct FakeDecoder<'a> {
    fake: &'a Fake,
    column: usize,
}

impl PageDecoder for FakeDecoder<'_> {
    fn unpack(&self, page: &PageWanted, record: &[u8], _scratch: &mut Vec<u8>) -> Result<Unpacked> {
        let bytes = record.len();
        let (data, items) = (0..bytes, page.items);
        let plain = Unpacked {
            in_scratch: false,
            data,
            table: None,
            origin: 0,
            items,
            sizes: false,
            joined: false,
            packed_bytes: bytes,
            bytes,
        };
        Ok(plain)
    }
    fn start(&self, _page: &Page<'_>, item: usize) -> Option<usize> {
        Some(item * 4)
    }
    fn decode(&self, slice: &PageSlice, page: &Page<'_>, to: PageOutput<'_>) -> Result<PartsLeftOut> {
        assert_eq!(page.items, slice.items);
        let PageOutput::Place(to) = to else { unreachable!() };
        let values =
            page.data.as_chunks::<4>().0[slice.from..slice.to].iter().map(|v| i32::from_ne_bytes(*v));
        if matches!(self.column, 1 | 2) {
            let base = self.fake.clusters[self.fake.pages[self.column][slice.number].0][self.column + 1];
            for (to, value) in to.as_chunks_mut::<8>().0.iter_mut().zip(values) {
                *to = (base as i64 + i64::from(value)).to_ne_bytes();
            }
        } else {
            to.as_chunks_mut::<4>().0.iter_mut().zip(values).for_each(|(to, v)| *to = v.to_ne_bytes());
        }
        Ok(Vec::new())
    }
    fn fill(&self, page: &PageWanted, to: PageOutput<'_>) -> Result<()> {
        let PageOutput::Place(to) = to else { unreachable!() };
        let cluster = self.fake.clusters.iter().find(|firsts| firsts[self.column] == page.first).unwrap();
        to.copy_from_slice(&cluster[self.column + 1].to_ne_bytes());
        Ok(())
    }
}

struct FakeReader {
    field: usize,
    of: Result<Type>,
    reversed: bool,
    hidden: Hidden,
}

impl FieldReader for FakeReader {
    fn of(&self) -> &Result<Type> {
        &self.of
    }
    fn typename(&self) -> &'static str {
        "fake"
    }
    fn layout(&self, table: &dyn Table, _field: usize) -> Option<String> {
        let any: &dyn Any = table;
        Some(any.downcast_ref::<Fake>()?.reversed.to_string())
    }
    fn plan<'a>(
        self: Arc<Self>,
        table: &'a dyn Table,
        field: usize,
        start: u64,
        stop: u64,
    ) -> Result<Box<dyn FieldPlan<'a> + 'a>> {
        let any: &dyn Any = table;
        if self.field == 2 && !self.hidden.contains_key("Secret") {
            return Err(Error::unsupported("not described").of_class("Secret"));
        }
        Ok(Box::new(FakePlan { fake: any.downcast_ref().unwrap(), field, range: (start, stop), depth: 0 }))
    }
    fn finish(
        &self,
        _entries: u64,
        take: &mut dyn FnMut(usize) -> Result<Column>,
        _room: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Column> {
        let mut take = |slot| take(if self.reversed { 2 - slot } else { slot });
        if self.field == 0 {
            return take(0);
        }
        let mut offsets = |slot| match take(slot)? {
            Column::Number { values, .. } => Ok(values),
            _ => Err(Error::corrupt("no numbers")),
        };
        let (outer, inner) = (offsets(0)?, offsets(1)?);
        let inner = Column::List { offsets: inner, values: Box::new(take(2)?) };
        Ok(Column::List { offsets: outer, values: Box::new(inner) })
    }
}

struct FakePlan<'a> {
    fake: &'a Fake,
    field: usize,
    range: (u64, u64),
    depth: usize,
}

impl<'a> FieldPlan<'a> for FakePlan<'a> {
    fn stage(&mut self, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        let (start, stop) = self.range;
        let at = |entry: u64| self.fake.clusters.iter().find(|firsts| firsts[0] == entry);
        if self.field == 0 {
            lanes.extend((self.depth == 0).then(|| self.fake.lane(0, start, stop)));
        } else if self.depth == 0
            && self.fake.knows
            && let (Some(first), Some(last)) = (at(start), at(stop))
        {
            lanes.extend([1, 2, 3].map(|column| self.fake.lane(column, first[column], last[column])));
            self.depth = 3;
        } else if self.depth < 3 {
            let before = (self.depth > 0).then(|| self.fake.slot(self.depth));
            let ends = before.map(|slot| read.ends(slot).unwrap().items);
            let (start, stop) = ends.unwrap_or((start, stop));
            lanes.push(self.fake.lane(self.depth + 1, start, stop));
        }
        self.depth += 1;
        Ok(())
    }
}

impl Table for Fake {
    fn name(&self) -> &'static str {
        "events"
    }
    fn title(&self) -> &'static str {
        ""
    }
    fn classname(&self) -> &'static str {
        "Fake"
    }
    fn entries(&self) -> u64 {
        self.clusters.last().unwrap()[0]
    }
    fn num_fields(&self) -> usize {
        3
    }
    fn field(&self, field: usize) -> Option<FieldInfo<'_>> {
        let name = *["x", "lists", "secret"].get(field)?;
        let entries = self.entries();
        Some(FieldInfo { name, title: "", parent: None, children: &[], entries })
    }
    fn field_bytes(&self, _: usize) -> (u64, u64) {
        (0, 0)
    }
    fn path(&self, field: usize) -> String {
        self.field(field).unwrap().name.to_owned()
    }
    fn reader(&self, field: usize, hidden: &Hidden) -> Result<Arc<dyn FieldReader>> {
        let number = Type::Number(Number::I32);
        let list = |of| Type::List(Box::new(of));
        let of = Ok(if field == 0 { number } else { list(list(number)) });
        Ok(Arc::new(FakeReader { field, of, reversed: self.reversed, hidden: hidden.clone() }))
    }
    fn cluster_borders(&self) -> Vec<u64> {
        self.clusters.iter().map(|firsts| firsts[0]).collect()
    }
    fn pages(&self, field: usize, start: u64, stop: u64, to: &mut Vec<PageListed>) {
        for page in self.wanted(field.min(1), start, stop) {
            let entries = page.items as u64;
            to.push(PageListed {
                column: field,
                number: page.number,
                range: page.range(),
                first: page.first,
                entries,
            });
        }
    }
    fn entries_touched(&self, _field: usize, _start: u64, _stop: u64) -> u64 {
        0
    }
    fn page_range(&self, _column: usize, _page: usize) -> Option<Range> {
        None
    }
    fn codec(&self, _column: usize, _page: usize, _head: &[u8]) -> Option<u32> {
        None
    }
    fn longest_entry(&self, _field: usize) -> Result<Option<u64>> {
        Ok(None)
    }
    fn same_shape(&self, other: &dyn Table) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| other.reversed == self.reversed)
    }
    fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    fn verify(&self) -> Result<()> {
        Ok(())
    }
    fn page_cache(&self) -> &PageCache {
        &self.cache
    }
    fn place(&self, field: usize) -> String {
        format!("field {field}")
    }
    fn page_place(&self, column: usize, page: &PageWanted) -> String {
        format!("page {} of column {column}", page.number)
    }
    fn column_name(&self, column: usize) -> String {
        column.to_string()
    }
}

/// Two clusters of eight and five entries; the values depend on `seed`.
fn entries(seed: i32) -> Vec<Vec<Entry>> {
    let mut next = 0;
    let mut entry = |i: i32| {
        let list = |length: i32| {
            next += length;
            (next - length..next).collect::<Vec<i32>>()
        };
        (i, (0..(i + seed) % 4).map(|k| (i * 7 + k * seed) % 5).map(list).collect())
    };
    vec![(0..8).map(&mut entry).collect(), (8..13).map(&mut entry).collect()]
}

fn pool() -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

fn words(offsets: &[u8]) -> Vec<usize> {
    offsets.as_chunks::<8>().0.iter().map(|w| i64::from_ne_bytes(*w) as usize).collect()
}

fn numbers(column: &Column) -> Vec<i32> {
    let Column::Number { values, .. } = column else { panic!("{column:?}") };
    values.as_chunks::<4>().0.iter().map(|w| i32::from_ne_bytes(*w)).collect()
}

/// Returns the lists of lists of a column; asserts that they use all items.
fn lists(column: &Column) -> Vec<Vec<Vec<i32>>> {
    let Column::List { offsets: outer, values } = column else { panic!("{column:?}") };
    let Column::List { offsets: inner, values } = values.as_ref() else { panic!("{column:?}") };
    let (outer, inner, values) = (words(outer), words(inner), numbers(values));
    assert_eq!((outer.first(), inner.first()), (Some(&0), Some(&0)));
    assert_eq!((outer.last(), inner.last()), (Some(&(inner.len() - 1)), Some(&values.len())));
    let inner: Vec<Vec<i32>> = inner.windows(2).map(|w| values[w[0]..w[1]].to_vec()).collect();
    outer.windows(2).map(|w| inner[w[0]..w[1]].to_vec()).collect()
}

fn part<'a>(table: &'a Fake, fields: &'a [usize], start: u64, stop: u64) -> Part<'a> {
    Part { table, fields, start, stop }
}

fn counter(fake: &Fake, name: &str) -> u64 {
    let all = Counters::snapshot(fake.source.counters());
    all.iter().find(|(found, _)| *found == name).unwrap().1
}

#[test]
fn any_entries_of_two_clusters_come_back() {
    let all: Vec<Entry> = entries(3).concat();
    for knows in [false, true] {
        let fake = Fake { knows, ..Fake::new(&entries(3)) };
        for (start, stop) in (0..=13).flat_map(|start| (start..=13).map(move |stop| (start, stop))) {
            let columns = read(&pool(), &[part(&fake, &[0, 1], start, stop)]).unwrap();
            let want = &all[start as usize..stop as usize];
            assert_eq!(numbers(&columns[0]), want.iter().map(|e| e.0).collect::<Vec<_>>());
            let found = lists(&columns[1]);
            assert_eq!(found, want.iter().map(|e| e.1.clone()).collect::<Vec<_>>(), "{start} to {stop}");
        }
    }
}

#[test]
fn parts_with_other_numbers_of_items_are_joined() {
    let tables = [entries(3), entries(5), entries(2)];
    // Some plans request all at once, others stage by stage.
    let fakes: Vec<Fake> =
        tables.iter().enumerate().map(|(i, e)| Fake { knows: i != 1, ..Fake::new(e) }).collect();
    let ranges = [(0, 8), (3, 11), (5, 5), (8, 13)];
    let parts: Vec<Part<'_>> =
        ranges.iter().zip([0, 1, 1, 2]).map(|(&(a, b), t)| part(&fakes[t], &[1, 0], a, b)).collect();
    let columns = read(&pool(), &parts).unwrap();
    let of = |t: usize, a: usize, b: usize| tables[t].concat()[a..b].to_vec();
    let want = [of(0, 0, 8), of(1, 3, 11), of(2, 8, 13)].concat();
    assert_eq!(lists(&columns[0]), want.iter().map(|e| e.1.clone()).collect::<Vec<_>>());
    assert_eq!(numbers(&columns[1]), want.iter().map(|e| e.0).collect::<Vec<_>>());
}

#[test]
fn parts_of_other_layouts_are_joined() {
    let tables = [entries(3), entries(5), entries(2)];
    let fakes: Vec<Fake> =
        tables.iter().enumerate().map(|(i, e)| Fake { reversed: i == 1, ..Fake::new(e) }).collect();
    for order in [&[0, 1][..], &[1, 0], &[0, 1, 0, 2], &[0, 2, 1, 1]] {
        let parts: Vec<Part<'_>> = order.iter().map(|&t| part(&fakes[t], &[1, 0], 2, 12)).collect();
        let columns = read(&pool(), &parts).unwrap();
        let want = order.iter().flat_map(|&t| tables[t].concat()[2..12].to_vec()).collect::<Vec<_>>();
        assert_eq!(lists(&columns[0]), want.iter().map(|e| e.1.clone()).collect::<Vec<_>>());
        assert_eq!(numbers(&columns[1]), want.iter().map(|e| e.0).collect::<Vec<_>>());
    }
}

#[test]
fn each_stage_is_one_request_for_all_fields() {
    let fake = Fake::new(&entries(3));
    read(&pool(), &[part(&fake, &[0, 1], 0, 13)]).unwrap();
    assert_eq!(counter(&fake, "read_calls"), 3);
    let pages: usize = fake.pages.iter().map(Vec::len).sum();
    assert_eq!(counter(&fake, "baskets"), pages as u64);
    let knows = Fake { knows: true, ..Fake::new(&entries(3)) };
    read(&pool(), &[part(&knows, &[0, 1], 0, 13)]).unwrap();
    assert_eq!(counter(&knows, "read_calls"), 1);
}

#[test]
fn ends_that_fields_share_are_read_once() {
    let fake = Fake::new(&entries(3));
    let columns = read(&pool(), &[part(&fake, &[1, 1], 2, 12)]).unwrap();
    assert_eq!(lists(&columns[0]), lists(&columns[1]));
    let once = fake.wanted(1, 1, 12).len() + fake.pages[2].len();
    assert!(counter(&fake, "baskets") as usize <= once + 2 * fake.pages[3].len());
}

#[test]
fn steps_decompress_a_page_once() {
    let fake = Fake::new(&entries(3));
    let carry = Carry::new(1 << 20);
    let mut found = Vec::new();
    for start in 0..13 {
        let columns = read_with(&pool(), &[part(&fake, &[0], start, start + 1)], Some(&carry), None);
        found.extend(numbers(&columns.unwrap()[0]));
    }
    assert_eq!(found, (0..13).collect::<Vec<i32>>());
    assert_eq!(counter(&fake, "baskets"), fake.pages[0].len() as u64);
}

#[test]
fn what_is_hidden_from_a_reading_is_not_hidden_from_others() {
    let fake = Fake::new(&entries(3));
    let wanted = [part(&fake, &[0, 2], 0, 13)];
    let strict = |parts: &[Part<'_>]| read(&pool(), parts).unwrap_err();
    assert_eq!((strict(&wanted).class(), strict(&wanted).column()), (Some("Secret"), Some(1)));
    let columns = read_with(&pool(), &wanted, None, Some(&LeftOut::default())).unwrap();
    assert_eq!(lists(&columns[1]).len(), 13);
    assert_eq!(strict(&wanted).class(), Some("Secret"));
}

#[test]
fn damage_is_an_error_with_its_place() {
    let damaged = |change: &dyn Fn(&mut Fake)| {
        let mut fake = Fake::new(&entries(3));
        change(&mut fake);
        read(&pool(), &[part(&fake, &[0, 1], 0, 13)]).unwrap_err()
    };
    let outside = damaged(&|fake| fake.pages[0][1].3.offset = 1 << 40);
    assert_eq!(outside.kind(), ErrorKind::Corrupt);
    assert!(outside.to_string().contains("page 1 of column 0"), "{outside}");
    // Ends of the second page in place of those of the first.
    let falling = damaged(&|fake| fake.pages[1][0].3 = fake.pages[1][1].3);
    assert!(falling.to_string().contains("do not rise (in field 1"), "{falling}");
    // More entries than the pages hold, and more than their bytes can hold.
    let mut fake = Fake::new(&entries(3));
    fake.clusters.last_mut().unwrap()[0] = 1 << 50;
    for message in ["pages of 13 items where 1125899906842624 are expected", "cannot be in pages of"] {
        let many = read(&pool(), &[part(&fake, &[0], 0, 1 << 50)]).unwrap_err();
        assert_eq!(many.kind(), ErrorKind::Corrupt);
        assert!(many.to_string().contains(message), "{many}");
        let (_, first, items, _) = fake.pages[0].last_mut().unwrap();
        *items = (1 << 50) - *first as usize;
    }
    let beyond = read(&pool(), &[part(&Fake::new(&entries(3)), &[0], 0, 14)]).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::Argument);
}

#[test]
fn all_values_of_a_reading_are_bounded_by_the_bytes_of_its_files() {
    let mut fake = Fake::new(&[(0..5000).map(|x| (x, Vec::new())).collect()]);
    let range = Range { offset: 10, length: 20_000 };
    // A page that a codec could expand to this size; in total, and in one column.
    for (fields, items) in [(&[0, 0][..], 51 << 20), (&[0][..], 101 << 20)] {
        fake.pages[0] = vec![(0, 0, items, range)];
        fake.clusters.last_mut().unwrap()[0] = items as u64;
        let error = read(&pool(), &[part(&fake, fields, 0, items as u64)]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains("read fewer entries at a time (in field 0"), "{error}");
    }
}
