//! Ntuples of HBOOK as tables of entries.
//!
//! Each column of a column-wise ntuple is a stored column whose items are its elements; buffers are its pages. All
//! columns of a row-wise ntuple lie in the same buffers, whose items are rows.

use super::bank::Structure;
use super::hbook::{Class, Description, Kind, NtupleColumn};
use super::rz::{Cycle, RzDirectory, RzFile, part};
use super::words::Order;
use crate::array::{Column, Number, Type, pool};
use crate::error::{Error, ErrorKind, Result, Within};
use crate::table::{
    FieldInfo, FieldPlan, FieldReader, Hidden, Lane, LaneValues, Output, Page, PageCache, PageDecoder,
    PageListed, PagePlace, PageSlice, PageWanted, PartsLeftOut, Table, Target, Unpacked,
};
use crate::wire::grow::{self, Grow};
use crate::wire::swap;
use arrow_buffer::Buffer;
use sapwood_io::{Range, Source};
use std::any::Any;
use std::sync::Arc;

/// Words of an object before the content of its only bank: table, bank.
const HEAD: usize = 15;
/// Entries of a cluster of a row-wise ntuple or of one whose columns have buffers of different lengths, about.
const CLUSTER_BYTES: u64 = 4 << 20;

/// A row-wise or column-wise ntuple, opened for reading.
pub struct Ntuple {
    file: Arc<RzFile>,
    name: String,
    class: Class,
    description: Description,
    entries: u64,
    /// Rows of each column.
    rows: Vec<u64>,
    stored: Vec<StoredColumn>,
    readers: Vec<Arc<ColumnReader>>,
    titles: Vec<String>,
    page_cache: PageCache,
}

/// The pages of a stored column.
#[derive(Default)]
struct StoredColumn {
    pages: Vec<StoredPage>,
    /// Bytes of all pages.
    bytes: u64,
    /// Words of an item, or items in a word.
    shape: Items,
}

/// How items lie in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Items {
    /// So many words each.
    Words(usize),
    /// So many bits each, as many in a word as fit.
    Bits(usize),
}

impl Default for Items {
    fn default() -> Self {
        Self::Words(1)
    }
}

impl Items {
    fn count(self, words: usize) -> usize {
        match self {
            Self::Words(each) => words / each.max(1),
            Self::Bits(bits) => words * (32 / bits.max(1)),
        }
    }
}

struct StoredPage {
    first: u64,
    items: usize,
    place: StoredPlace,
}

enum StoredPlace {
    File(Range),
    /// An item of which one part lies elsewhere than the other.
    Memory(Vec<u8>),
}

/// Collects the pages of a stored column.
struct Pages<'a> {
    file: &'a RzFile,
    column: StoredColumn,
    items: u64,
}

impl<'a> Pages<'a> {
    fn new(file: &'a RzFile, shape: Items) -> Self {
        Self { file, column: StoredColumn { shape, ..StoredColumn::default() }, items: 0 }
    }
    fn push(&mut self, items: usize, place: StoredPlace) {
        if items > 0 {
            self.column.bytes = self.column.bytes.saturating_add(match &place {
                StoredPlace::File(range) => range.length,
                StoredPlace::Memory(bytes) => bytes.len() as u64,
            });
            self.column.pages.push(StoredPage { first: self.items, items, place });
            self.items += items as u64;
        }
    }
    /// Adds words of a buffer, behind the first `skip`, `count` at most.
    fn buffer(&mut self, pieces: &[Range], skip: usize, count: usize) -> Result<()> {
        let (mut skip, mut left) = (4 * skip as u64, 4 * count as u64);
        let mut pieces = pieces.iter().filter_map(|piece| {
            let passed = skip.min(piece.length);
            skip -= passed;
            let length = (piece.length - passed).min(left) / 4 * 4;
            left -= length;
            (length > 0).then_some(Range { offset: piece.offset + passed, length })
        });
        let Some(mut piece) = pieces.next() else { return Ok(()) };
        let behind: Vec<Range> = pieces.collect();
        let mut behind = behind.into_iter();
        loop {
            let items = self.column.shape.count((piece.length / 4) as usize);
            let used = match self.column.shape {
                Items::Words(each) => 4 * (items * each) as u64,
                Items::Bits(_) => piece.length,
            };
            self.push(items, StoredPlace::File(Range { length: used, ..piece }));
            let Some(next) = behind.next() else { return Ok(()) };
            let rest = Range { offset: piece.offset + used, length: piece.length - used };
            piece = next;
            if let (Items::Words(each), true) = (self.column.shape, rest.length > 0) {
                let missing = 4 * each as u64 - rest.length;
                if piece.length < missing {
                    return Ok(());
                }
                let mut item = vec![0; 4 * each];
                let ranges = [rest, Range { length: missing, ..piece }];
                self.file.source().fetch(&ranges, &mut item, sapwood_io::Cause::Object)?;
                self.push(1, StoredPlace::Memory(item));
                piece = Range { offset: piece.offset + missing, length: piece.length - missing };
            }
        }
    }
}

/// Finds objects by their keys.
struct Finder<'a> {
    file: &'a RzFile,
    directory: &'a RzDirectory,
    /// The numbers of keys, in the order of their words.
    order: Vec<usize>,
    /// Where in this order the last key was, and how far behind the one before it.
    last: std::cell::Cell<(usize, usize)>,
}

impl<'a> Finder<'a> {
    fn new(file: &'a RzFile, directory: &'a RzDirectory) -> Result<Self> {
        Ok(Self { file, directory, order: directory.sorted()?, last: std::cell::Cell::new((0, 1)) })
    }
    /// The number of a key. Those of the buffers of a column mostly have the same distance.
    fn number(&self, key: &[u32]) -> Option<usize> {
        let (last, distance) = self.last.get();
        let at = |place: usize| self.order.get(place).map(|&number| self.directory.key(number));
        let guess = last.saturating_add(distance);
        let before = guess.checked_sub(1).and_then(at);
        let place = if at(guess) == Some(key) && before != Some(key) {
            guess
        } else {
            self.order.partition_point(|&number| self.directory.key(number) < key)
        };
        if at(place) != Some(key) {
            return None;
        }
        self.last.set((place, place.checked_sub(last).unwrap_or(distance)));
        self.order.get(place).copied()
    }
    /// The cycle of a key with a buffer: the newest, or if there is one the newest hidden.
    fn cycle(&self, key: &[u32]) -> Option<Cycle> {
        let cycles = self.directory.cycles(self.number(key)?);
        cycles.iter().find(|cycle| cycle.hidden).or(cycles.first()).copied()
    }
    /// The description of a cycle of a column-wise ntuple, or where it does not know its rows that of the newest cycle.
    ///
    /// HBOOK writes the header once before the ntuple is filled, without rows, and again at the end. All cycles have
    /// the same buffers, and the last ones are padded.
    fn finished(&self, cycle: &Cycle, description: Description) -> Description {
        if description.rows.is_some() {
            return description;
        }
        let mut cycles = (0..self.directory.len()).map(|key| self.directory.cycles(key));
        let newest = cycles.find(|cycles| cycles.contains(cycle)).and_then(|cycles| cycles.first());
        // An older cycle can still be read where the newest is damaged.
        let read = |newest: &Cycle| {
            let bytes = self.file.object(newest).ok()?;
            let structure = self.file.structure(newest, &bytes).ok()?;
            Description::column_wise(&structure).ok()
        };
        newest
            .filter(|&newest| newest != cycle)
            .and_then(read)
            .filter(|newest| newest.rows.is_some() && newest.same_columns(&description))
            .unwrap_or(description)
    }
    /// Where the data of each bank in the chain of an object lie, in one range or two; of an object of one bank without reading it.
    fn banks(&self, cycle: &Cycle, words: usize) -> Result<Vec<Vec<Range>>> {
        let ranges = self.file.ranges(cycle)?;
        if cycle.words as usize == HEAD + words {
            return Ok(vec![part(&ranges, 4 * HEAD as u64, 4 * words as u64)]);
        }
        let bytes = self.file.object(cycle)?;
        let structure = self.file.structure(cycle, &bytes)?;
        let Some(first) = structure.entry else { return Ok(Vec::new()) };
        let behind = self.file.before(cycle, &structure);
        let piece = |&number: &usize| {
            let bank = structure.bank(number)?;
            Some(part(&ranges, behind + 4 * bank.data_start() as u64, 4 * u64::from(bank.data)))
        };
        Ok(structure.chain(first)?.iter().filter_map(piece).collect())
    }
}

impl Ntuple {
    /// Opens the ntuple of a key, whose object has these bytes.
    pub fn open(
        file: &Arc<RzFile>,
        directory: &RzDirectory,
        name: &str,
        cycle: &Cycle,
        bytes: &[u8],
    ) -> Result<Self> {
        let place = || format!("ntuple {name};{} of {}", cycle.number, file.source().name());
        Self::read(file, directory, name, cycle, bytes).within(place)
    }

    fn read(
        file: &Arc<RzFile>,
        directory: &RzDirectory,
        name: &str,
        cycle: &Cycle,
        bytes: &[u8],
    ) -> Result<Self> {
        let structure = file.structure(cycle, bytes)?;
        let class = Class::of(&structure);
        let finder = Finder::new(file, directory)?;
        let description = match class {
            Some(Class::RowWise) => Description::row_wise(&structure)?,
            Some(Class::ColumnWise) => finder.finished(cycle, Description::column_wise(&structure)?),
            _ => return Err(Error::corrupt("the object is not an ntuple")),
        };
        let class = class.unwrap_or(Class::RowWise);
        let behind = file.before(cycle, &structure);
        let stored = if class == Class::RowWise {
            let ranges = file.ranges(cycle)?;
            vec![row_pages(&finder, &description, &structure, &ranges, behind)?]
        } else {
            let columns = &description.columns;
            columns.iter().map(|column| column_pages(&finder, &description, column)).collect::<Result<_>>()?
        };
        let mut made = Self {
            file: file.clone(),
            name: name.to_owned(),
            class,
            entries: 0,
            rows: Vec::new(),
            readers: Vec::new(),
            titles: Vec::new(),
            stored,
            description: Description { columns: Vec::new(), ..description.clone() },
            page_cache: PageCache::default(),
        };
        made.description.columns.clone_from(&description.columns);
        for (number, column) in description.columns.iter().enumerate() {
            let known = description.blocks.get(column.block).and_then(|block| block.rows);
            let rows = match known.filter(|_| description.rows.is_some()) {
                Some(rows) => rows,
                // The writer did not come to its end.
                None => made.written_rows(number, column)?,
            };
            made.rows.push(rows);
        }
        let least = made.rows.iter().copied().min().unwrap_or(0);
        made.entries = description.rows.map_or(least, |rows| rows.min(least));
        made.readers = description.columns.iter().enumerate().map(reader(&description, class)).collect();
        made.titles = description.columns.iter().map(|column| title(&description, column)).collect();
        made.description = description;
        made.verify_sizes()?;
        let size = file.source().size();
        if let Some(column) = made.stored.iter().find(|column| column.bytes > size) {
            let message = format!("buffers of {} bytes, but the file has {size}: they overlap", column.bytes);
            return Err(Error::corrupt(message));
        }
        Ok(made)
    }

    /// Counts the rows of a column in the buffers that were written.
    fn written_rows(&self, number: usize, column: &NtupleColumn) -> Result<u64> {
        let items = self.items(self.stored_of(number));
        let each: u64 = column.dimensions.iter().map(|&size| size as u64).product();
        Ok(match column.index {
            None if column.is_index => self.sums(number)?.len().saturating_sub(1) as u64,
            None => items / each.max(1),
            Some(index) => {
                let ends = self.sums(index)?;
                let most = (items / each.max(1)) as i64;
                ends.partition_point(|&end| end <= most).saturating_sub(1) as u64
            }
        })
    }
    /// The running sums of an index column that was written, as far as they are there: behind the last row of a buffer
    /// that is not full they rise no more.
    fn sums(&self, column: usize) -> Result<Vec<i64>> {
        let mut sums: Vec<i64> = Vec::new();
        for page in self.stored.get(column).map_or(&[][..], |stored| &stored.pages) {
            let StoredPlace::File(range) = page.place else { continue };
            let mut bytes = grow::filled(range.length as usize, 0)?;
            self.file.source().fetch(&[range], &mut bytes, sapwood_io::Cause::Object)?;
            let words = super::words::Words::new(&bytes, self.file.order(), range.offset);
            for sum in words.iter().map(i64::from) {
                if sums.last().is_some_and(|&last| sum < last) {
                    return Ok(sums);
                }
                sums.try_push(sum)?;
            }
        }
        Ok(sums)
    }
    fn items(&self, column: usize) -> u64 {
        let last = self.stored.get(column).and_then(|stored| stored.pages.last());
        last.map_or(0, |page| page.first + page.items as u64)
    }
    /// Fails where rows are claimed that no buffer holds.
    fn verify_sizes(&self) -> Result<()> {
        for (number, column) in self.description.columns.iter().enumerate() {
            let items = self.items(self.stored_of(number));
            let each: u64 = column.dimensions.iter().map(|&size| size as u64).product();
            let rows = self.rows(number);
            if column.index.is_none() && rows.saturating_mul(each) > items {
                let message = format!(
                    "{rows} rows of the column {:?} of {each} values, but its buffers hold {items} values",
                    column.name
                );
                return Err(Error::corrupt(message));
            }
        }
        Ok(())
    }
    fn rows(&self, field: usize) -> u64 {
        self.rows.get(field).copied().unwrap_or(0)
    }
    /// The description.
    pub fn description(&self) -> &Description {
        &self.description
    }
    /// The column that says how long the lists of another are.
    pub fn counter(&self, field: usize) -> Option<usize> {
        self.description.columns.get(field)?.index
    }
    fn counts(&self, field: usize) -> bool {
        self.description.columns.get(field).is_some_and(|column| column.is_index)
    }
    /// Buffers of a column.
    pub fn num_pages(&self, field: usize) -> usize {
        self.stored.get(self.stored_of(field)).map_or(0, |stored| stored.pages.len())
    }
    /// Rows at which the pages of a column start, as far as they are known without reading.
    pub fn page_rows(&self, field: usize) -> Vec<u64> {
        let mut listed = Vec::new();
        self.list(field, 0, u64::MAX, &mut listed);
        listed.iter().map(|page| page.first).collect()
    }
    fn stored_of(&self, field: usize) -> usize {
        if self.class == Class::RowWise { 0 } else { field }
    }
    fn each(&self, field: usize) -> u64 {
        let column = self.description.columns.get(field);
        let each: u64 =
            column.map_or(1, |column| column.dimensions.iter().map(|&size| size as u64).product());
        each.max(1)
    }
    /// Items of a stored column that are needed for some rows, as far as they are known without reading: of lists all
    /// that can be.
    fn item_range(&self, field: usize, start: u64, stop: u64) -> (u64, u64) {
        let Some(column) = self.description.columns.get(field) else { return (0, 0) };
        if column.index.is_some() {
            // About: lists are taken to be of one length.
            let (items, rows) = (u128::from(self.items(field)), u128::from(self.rows(field).max(1)));
            let at = |row: u64| u64::try_from(items * u128::from(row) / rows).unwrap_or(u64::MAX);
            return (at(start), at(stop.min(self.rows(field))).saturating_add(1));
        }
        let each = self.each(field);
        (start.saturating_mul(each), stop.saturating_mul(each).saturating_add(u64::from(column.is_index)))
    }
    fn list(&self, field: usize, start: u64, stop: u64, to: &mut Vec<PageListed>) {
        let (Some(stored), Some(column)) =
            (self.stored.get(self.stored_of(field)), self.description.columns.get(field))
        else {
            return;
        };
        let (from, until) = self.item_range(field, start, stop);
        let rows = self.rows(field);
        let items = self.items(self.stored_of(field)).max(1);
        let row = |item: u64| {
            if column.index.is_some() {
                u64::try_from(u128::from(item) * u128::from(rows) / u128::from(items)).unwrap_or(rows)
            } else {
                item / self.each(field)
            }
        };
        let first = stored.pages.partition_point(|page| page.first + page.items as u64 <= from);
        for (number, page) in
            stored.pages.iter().enumerate().skip(first).take_while(|(_, page)| page.first < until)
        {
            if let StoredPlace::File(range) = page.place {
                let begin = row(page.first).min(rows);
                let end = row(page.first + page.items as u64 - 1).saturating_add(1).min(rows).max(begin + 1);
                to.push(PageListed { column: field, number, range, first: begin, entries: end - begin });
            }
        }
    }
    /// Pages with the items from one to another.
    fn pages_of(&self, field: usize, start: u64, stop: u64) -> Result<Vec<PageWanted>> {
        let empty = StoredColumn::default();
        let stored = self.stored.get(self.stored_of(field)).unwrap_or(&empty);
        let mut pages = Vec::new();
        let mut covered = start;
        if stored.pages.is_empty() && (start, stop) == (0, 1) && self.counts(field) {
            // No list was ever written: the first one starts at 0.
            return Ok(vec![PageWanted {
                number: 0,
                first: 0,
                items: 1,
                from: 0,
                to: 1,
                place: PagePlace::Absent,
            }]);
        }
        let first = stored.pages.partition_point(|page| page.first + page.items as u64 <= start);
        for (number, page) in stored.pages.iter().enumerate().skip(first) {
            if covered >= stop {
                break;
            }
            let place = match &page.place {
                StoredPlace::File(range) => PagePlace::Stored(*range),
                StoredPlace::Memory(_) => PagePlace::Memory,
            };
            let from = (covered - page.first) as usize;
            let to = (stop.min(page.first + page.items as u64) - page.first) as usize;
            covered = page.first + to as u64;
            pages.push(PageWanted { number, first: page.first, items: page.items, from, to, place });
        }
        if covered < stop {
            let message = format!("values {covered} to {stop} are in none of its buffers");
            return Err(Error::corrupt(message));
        }
        Ok(pages)
    }
}

/// The pages of a row-wise ntuple.
fn row_pages(
    finder: &Finder<'_>,
    description: &Description,
    structure: &Structure<'_>,
    ranges: &[Range],
    behind: u64,
) -> Result<StoredColumn> {
    let width = description.columns.len();
    let whole = description.buffer / width * width;
    let mut pages = Pages::new(finder.file, Items::Words(width));
    if !description.in_memory {
        for extension in 1..=description.extensions {
            let key = if finder.directory.forms.len() == 1 {
                vec![extension.wrapping_mul(10_000).wrapping_add(description.id)]
            } else {
                let mut key = vec![0; finder.directory.forms.len()];
                key.iter_mut().zip([description.id, extension]).for_each(|(word, value)| *word = value);
                key
            };
            let cycle = finder.cycle(&key);
            let Some(cycle) = cycle else {
                return Err(Error::corrupt(format!("its buffer {extension} is not in the directory")));
            };
            for bank in finder.banks(&cycle, description.buffer)?.iter().take(1) {
                pages.buffer(bank, 0, whole)?;
            }
        }
    }
    let header = structure.entry.and_then(|header| structure.child(header, 1));
    if let Some(first) = header {
        for number in structure.chain(first)? {
            let Some(bank) = structure.bank(number) else { continue };
            let start = behind + 4 * bank.data_start() as u64;
            pages.buffer(&part(ranges, start, 4 * u64::from(bank.data)), 0, whole)?;
        }
    }
    Ok(pages.column)
}

/// The pages of a column of a column-wise ntuple.
fn column_pages(
    finder: &Finder<'_>,
    description: &Description,
    column: &NtupleColumn,
) -> Result<StoredColumn> {
    let shape = match column.kind {
        Kind::Text => Items::Words(column.bytes / 4),
        _ if column.bits == 64 => Items::Words(2),
        _ if column.bits == 32 => Items::Words(1),
        _ => Items::Bits(column.bits),
    };
    let mut pages = Pages::new(finder.file, shape);
    let key = |buffer: u32| -> Vec<u32> {
        let mut key = vec![0; finder.directory.forms.len()];
        let number = buffer.wrapping_mul(10_000).wrapping_add(column.number);
        key.iter_mut().zip([description.id, number]).for_each(|(word, value)| *word = value);
        key
    };
    // The word before the items of a buffer is the sum so far; of the first buffer it is an end of lists itself.
    let add = |pages: &mut Pages<'_>, buffer: &[Range]| {
        let first = pages.column.pages.is_empty() && column.is_index;
        let skip = usize::from(!first);
        // As many items as HBOOK puts into a buffer, and no more.
        let words = description.buffer.saturating_sub(skip);
        pages.buffer(buffer, skip, words)
    };
    if description.in_memory {
        if let Some(cycle) = finder.cycle(&key(column.buffers)) {
            for buffer in finder.banks(&cycle, description.buffer)? {
                add(&mut pages, &buffer)?;
            }
        }
        return Ok(pages.column);
    }
    // One that was not written to its end does not know its last buffer.
    for buffer in 1u32.. {
        let Some(cycle) = finder.cycle(&key(buffer)) else { break };
        for bank in finder.banks(&cycle, description.buffer)?.iter().take(1) {
            add(&mut pages, bank)?;
        }
    }
    Ok(pages.column)
}

/// What a column is declared to be, with the block that it is in.
fn title(description: &Description, column: &NtupleColumn) -> String {
    let letter = match column.kind {
        Kind::Real => 'R',
        Kind::Int => 'I',
        Kind::Unsigned => 'U',
        Kind::Logical => 'L',
        Kind::Text => 'C',
    };
    let mut dimensions: Vec<String> = column.dimensions.iter().map(ToString::to_string).collect();
    dimensions.extend(
        column.index.and_then(|index| description.columns.get(index)).map(|index| index.name.clone()),
    );
    let dimensions =
        if dimensions.is_empty() { String::new() } else { format!("({})", dimensions.join(",")) };
    let packed =
        matches!(column.kind, Kind::Real | Kind::Int | Kind::Unsigned) && column.bits < 8 * column.bytes;
    let bits = if packed { format!(":{}", column.bits) } else { String::new() };
    let range = if column.declared.is_empty() { String::new() } else { format!(":{}", column.declared) };
    let block = description.blocks.get(column.block).map_or("", |block| block.name.as_str());
    let block = if block.is_empty() { String::new() } else { format!("{block}/") };
    format!("{block}{}{dimensions}:{letter}*{}{bits}{range}", column.name, column.bytes)
}

/// A column compiled for reading.
pub struct ColumnReader {
    of: Result<Type>,
    typename: String,
    column: NtupleColumn,
    /// Its number in the row of a row-wise ntuple, and the words of a row.
    row: Option<(usize, usize)>,
}

/// What the numbers of a column are in memory.
fn number(column: &NtupleColumn) -> Number {
    match (column.kind, column.bytes) {
        (Kind::Real, 8) => Number::F64,
        (Kind::Real, _) => Number::F32,
        (Kind::Int, 8) => Number::I64,
        (Kind::Int, _) => Number::I32,
        (Kind::Unsigned, 8) => Number::U64,
        (Kind::Unsigned, _) => Number::U32,
        (Kind::Logical, _) => Number::Bool,
        (Kind::Text, _) => Number::U8,
    }
}

fn reader(description: &Description, class: Class) -> impl Fn((usize, &NtupleColumn)) -> Arc<ColumnReader> {
    let width = description.columns.len();
    move |(place, column)| {
        let number = number(column);
        let mut of = if column.kind == Kind::Text { Type::Text } else { Type::Number(number) };
        let mut typename = match column.kind {
            Kind::Text => "char*".to_owned(),
            Kind::Logical => "bool".to_owned(),
            _ => {
                let name = match number {
                    Number::F32 => "float",
                    Number::F64 => "double",
                    Number::I64 => "int64_t",
                    Number::U64 => "uint64_t",
                    Number::U32 => "uint32_t",
                    _ => "int32_t",
                };
                name.to_owned()
            }
        };
        for &size in &column.dimensions {
            of = Type::FixedList { size, item: Box::new(of) };
        }
        if column.index.is_some() {
            of = Type::List(Box::new(of));
            typename.push_str("[]");
        }
        for size in column.dimensions.iter().rev() {
            typename.extend(["[", &size.to_string(), "]"]);
        }
        let row = (class == Class::RowWise).then_some((place, width));
        Arc::new(ColumnReader { of: Ok(of), typename, column: column.clone(), row })
    }
}

/// The slot of values, and that of the ends of lists.
const VALUES: usize = 0;
const ENDS: usize = 1;

impl ColumnReader {
    /// Numbers of an item in memory.
    fn numbers(&self) -> usize {
        if self.column.kind == Kind::Text { self.column.bytes } else { 1 }
    }
    /// The column of all elements, in lists of the fixed dimensions.
    fn nested(&self, values: Buffer) -> Result<Column> {
        let number = number(&self.column);
        let mut length = values.len() / (number.size() * self.numbers()).max(1);
        let mut column = if self.column.kind == Kind::Text {
            texts(&values, self.column.bytes)?
        } else {
            Column::Number { number, values }
        };
        for &size in &self.column.dimensions {
            length = length.checked_div(size).ok_or_else(|| Error::corrupt("a dimension of no values"))?;
            column = Column::FixedList { length, size, values: Box::new(column) };
        }
        Ok(column)
    }
}

/// Texts of a fixed length, without blanks and zeros at their ends.
fn texts(values: &[u8], bytes: usize) -> Result<Column> {
    let mut offsets: Vec<i64> = grow::with_room(values.len() / bytes.max(1) + 1)?;
    let mut all = grow::with_room(values.len())?;
    offsets.push(0);
    for text in values.chunks_exact(bytes.max(1)) {
        let end = text.iter().rposition(|&byte| byte != b' ' && byte != 0).map_or(0, |last| last + 1);
        all.extend_from_slice(text.get(..end).unwrap_or_default());
        offsets.push(all.len() as i64);
    }
    Ok(Column::Text { offsets: Buffer::from_vec(offsets), bytes: Buffer::from_vec(all) })
}

impl FieldReader for ColumnReader {
    fn of(&self) -> &Result<Type> {
        &self.of
    }
    fn typename(&self) -> &str {
        &self.typename
    }
    fn plan<'a>(
        self: Arc<Self>,
        table: &'a dyn Table,
        field: usize,
        start: u64,
        stop: u64,
    ) -> Result<Box<dyn FieldPlan<'a> + 'a>> {
        let any: &dyn Any = table;
        let ntuple: &Ntuple =
            any.downcast_ref().ok_or_else(|| Error::argument("a column of something else than an ntuple"))?;
        Ok(Box::new(ColumnPlan { ntuple, reader: self, field, start, stop, stage: 0 }))
    }
    fn finish(&self, _entries: u64, take: &mut dyn FnMut(usize) -> Result<Column>) -> Result<Column> {
        if self.column.is_index {
            let Column::Number { values, .. } = take(ENDS)? else { return Err(no_numbers()) };
            let ends = values.as_chunks::<8>().0;
            let mut counts = pool::Filled::new(4 * ends.len().saturating_sub(1))?;
            for (count, pair) in counts.bytes().as_chunks_mut::<4>().0.iter_mut().zip(ends.windows(2)) {
                if let [start, end] = pair {
                    *count = ((i64::from_ne_bytes(*end) - i64::from_ne_bytes(*start)) as i32).to_ne_bytes();
                }
            }
            return Ok(Column::Number { number: Number::I32, values: counts.share() });
        }
        let Column::Number { values, .. } = take(VALUES)? else { return Err(no_numbers()) };
        let values = self.nested(values)?;
        if self.column.index.is_none() {
            return Ok(values);
        }
        let Column::Number { values: offsets, .. } = take(ENDS)? else { return Err(no_numbers()) };
        Ok(Column::List { offsets, values: Box::new(values) })
    }
}

fn no_numbers() -> Error {
    Error::new(ErrorKind::Corrupt, "a column without values")
}

/// The reading of a column for some rows.
struct ColumnPlan<'a> {
    ntuple: &'a Ntuple,
    reader: Arc<ColumnReader>,
    field: usize,
    start: u64,
    stop: u64,
    stage: u8,
}

impl<'a> ColumnPlan<'a> {
    fn lane(&self, slot: usize, field: usize, target: Target, items: (u64, u64)) -> Result<Lane<'a>> {
        let pages = self.ntuple.pages_of(field, items.0, items.1)?;
        let bytes = pages.iter().map(|page| {
            u64::try_from(u128::from(page.range().length) * page.wanted() as u128 / page.items.max(1) as u128)
                .unwrap_or(u64::MAX)
        });
        let bytes = bytes.fold(0, u64::saturating_add);
        let reader = self.ntuple.readers.get(field).unwrap_or(&self.reader).clone();
        let decoder = Box::new(ColumnDecoder {
            ntuple: self.ntuple,
            field,
            reader: if slot == VALUES { self.reader.clone() } else { reader },
            ends: slot == ENDS,
        });
        Ok(Lane { slot, column: field, target, pages, decoder, bytes, shared: slot == ENDS })
    }
}

impl<'a> FieldPlan<'a> for ColumnPlan<'a> {
    fn stage(&mut self, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        let column = &self.reader.column;
        let stage = self.stage;
        self.stage += 1;
        let index = if column.is_index { Some(self.field) } else { column.index };
        let rows = self.stop.saturating_sub(self.start);
        let each: u64 = column.dimensions.iter().map(|&size| size as u64).product();
        let items = match (stage, index) {
            (0, Some(index)) => {
                let target = Target::Ends { lists: rows, bits: 32 };
                lanes.push(self.lane(ENDS, index, target, (self.start, self.stop.saturating_add(1)))?);
                return Ok(());
            }
            (0, None) => (self.start, self.stop),
            (1, Some(_)) if !column.is_index => read.ends(ENDS).ok_or_else(no_numbers)?.items,
            _ => return Ok(()),
        };
        let items = (items.0.saturating_mul(each), items.1.saturating_mul(each));
        let bits = if self.reader.row.is_some() { 32 } else { column.bits };
        let target = Target::Direct {
            number: number(column),
            each: self.reader.numbers(),
            items: items.1.saturating_sub(items.0),
            bits,
        };
        lanes.push(self.lane(VALUES, self.field, target, items)?);
        Ok(())
    }
}

/// Decodes the buffers of a column.
struct ColumnDecoder<'a> {
    ntuple: &'a Ntuple,
    field: usize,
    reader: Arc<ColumnReader>,
    ends: bool,
}

impl PageDecoder for ColumnDecoder<'_> {
    fn unpack(&self, page: &PageWanted, record: &[u8], _scratch: &mut Vec<u8>) -> Result<Unpacked> {
        Ok(Unpacked {
            in_scratch: false,
            data: 0..record.len(),
            table: None,
            origin: 0,
            items: page.items,
            sizes: false,
            joined: false,
            packed_bytes: record.len(),
            bytes: record.len(),
        })
    }
    fn in_memory(&self, page: &PageWanted) -> Option<Page<'_>> {
        let stored = self.ntuple.stored.get(self.ntuple.stored_of(self.field))?.pages.get(page.number)?;
        match &stored.place {
            StoredPlace::Memory(bytes) => Some(Page::plain(bytes, stored.items)),
            StoredPlace::File(_) => None,
        }
    }
    fn decode(&self, slice: &PageSlice, page: &Page<'_>, to: Output<'_>) -> Result<PartsLeftOut> {
        let Output::Place(place) = to else { return Err(no_numbers()) };
        let (from, to) = (slice.from, slice.to);
        let big = self.ntuple.file.order() == Order::Big;
        let short = || {
            Error::corrupt(format!("a buffer of {} bytes without its values {from} to {to}", page.data.len()))
        };
        let words = |each: usize| {
            from.checked_mul(4 * each)
                .zip(to.checked_mul(4 * each))
                .and_then(|(from, to)| page.data.get(from..to))
                .ok_or_else(short)
        };
        let column = &self.reader.column;
        let word = |bytes: [u8; 4]| if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        if self.ends {
            let stored = words(1)?.as_chunks::<4>().0;
            for (end, bytes) in place.as_chunks_mut::<8>().0.iter_mut().zip(stored) {
                *end = i64::from(word(*bytes)).to_ne_bytes();
            }
            return Ok(Vec::new());
        }
        if let Some((column, width)) = self.reader.row {
            let rows = words(width)?.chunks_exact(4 * width.max(1));
            for (value, row) in place.as_chunks_mut::<4>().0.iter_mut().zip(rows) {
                let bytes =
                    row.get(4 * column..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(short)?;
                *value = word(*bytes).to_ne_bytes();
            }
            return Ok(Vec::new());
        }
        match (column.kind, column.bits) {
            (Kind::Text, _) => {
                let stored = words(column.bytes / 4)?;
                // The first character is in the highest byte.
                swap::copy(if big { 1 } else { 4 }, stored, place);
            }
            (Kind::Real, 64) => double_words(words(2)?, place, |high, low| (high, low), word),
            (_, 64) => double_words(words(2)?, place, |low, high| (high, low), word),
            (_, 32) => swap::copy(if big { 4 } else { 1 }, words(1)?, place),
            (kind, bits) => {
                let each = 32 / bits;
                let (first, last) = (from / each, to.div_ceil(each));
                let stored = page.data.get(4 * first..4 * last).ok_or_else(short)?;
                let stored = stored.as_chunks::<4>().0;
                let stored = stored.iter().map(|bytes| word(*bytes));
                unpack_bits(kind, bits, column.range, stored, from - first * each, place);
            }
        }
        Ok(Vec::new())
    }
    fn entries(&self, page: &PageWanted) -> std::ops::Range<u64> {
        let each = if self.ntuple.class == Class::RowWise { 1 } else { self.ntuple.each(self.field) };
        let (from, to) = (page.first + page.from as u64, page.first + page.to as u64);
        from / each..to.div_ceil(each)
    }
}

/// Numbers of two words, of which `order` says which is the high one.
fn double_words(
    stored: &[u8],
    place: &mut [u8],
    order: impl Fn(u32, u32) -> (u32, u32),
    word: impl Fn([u8; 4]) -> u32,
) {
    for (value, words) in place.as_chunks_mut::<8>().0.iter_mut().zip(stored.as_chunks::<8>().0) {
        let [a, b, c, d, e, f, g, h] = *words;
        let (high, low) = order(word([a, b, c, d]), word([e, f, g, h]));
        *value = (u64::from(high) << 32 | u64::from(low)).to_ne_bytes();
    }
}

/// Values of fewer than 32 bits, as many in a word as fit, the first in the lowest bits; without the first `skip`.
fn unpack_bits(
    kind: Kind,
    bits: usize,
    range: Option<(f32, f32)>,
    words: impl Iterator<Item = u32>,
    skip: usize,
    place: &mut [u8],
) {
    let mask = (1u32 << bits) - 1;
    match kind {
        Kind::Logical => {
            spread(words, bits, skip, place.as_chunks_mut::<1>().0, |value| [(value & mask) as u8]);
        }
        Kind::Real => {
            let (low, high) = range.unwrap_or((0.0, 0.0));
            let (width, steps) = (high - low, mask as f32);
            let real = |value: u32| ((value & mask) as f32 * width / steps + low).to_ne_bytes();
            spread(words, bits, skip, place.as_chunks_mut::<4>().0, real);
        }
        Kind::Int => {
            let sign = 1u32 << (bits - 1);
            let int = |value: u32| {
                let magnitude = (value & (sign - 1)).cast_signed();
                if value & sign != 0 { -magnitude } else { magnitude }.to_ne_bytes()
            };
            spread(words, bits, skip, place.as_chunks_mut::<4>().0, int);
        }
        Kind::Unsigned | Kind::Text => {
            spread(words, bits, skip, place.as_chunks_mut::<4>().0, |value| (value & mask).to_ne_bytes());
        }
    }
}

/// Converts each value of the words, with the bits of those behind it in front; `skip` are less than a word's.
fn spread<const N: usize>(
    mut words: impl Iterator<Item = u32>,
    bits: usize,
    skip: usize,
    place: &mut [[u8; N]],
    convert: impl Fn(u32) -> [u8; N],
) {
    let each = 32 / bits;
    let (head, rest) = place.split_at_mut((each - skip).min(place.len()));
    for (values, skip) in std::iter::once((head, skip)).chain(rest.chunks_mut(each).map(|values| (values, 0)))
    {
        let word = words.next().unwrap_or(0) >> (skip * bits);
        for (number, value) in values.iter_mut().enumerate() {
            *value = convert(word >> (number * bits));
        }
    }
}

impl Table for Ntuple {
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.description.title
    }
    fn classname(&self) -> &str {
        self.class.name()
    }
    fn entries(&self) -> u64 {
        self.entries
    }
    fn num_fields(&self) -> usize {
        self.readers.len()
    }
    fn field(&self, field: usize) -> Option<FieldInfo<'_>> {
        let column = self.description.columns.get(field)?;
        Some(FieldInfo {
            name: &column.name,
            title: self.titles.get(field)?,
            parent: None,
            children: &[],
            entries: self.rows(field),
        })
    }
    fn field_bytes(&self, field: usize) -> (u64, u64) {
        let Some(stored) = self.stored.get(self.stored_of(field)) else { return (0, 0) };
        let mut bytes = stored.bytes;
        if self.class == Class::RowWise {
            bytes /= self.readers.len().max(1) as u64;
        }
        (bytes, bytes)
    }
    fn path(&self, field: usize) -> String {
        self.description.columns.get(field).map(|column| column.name.clone()).unwrap_or_default()
    }
    fn reader(&self, field: usize, _hidden: &Hidden) -> Result<Arc<dyn FieldReader>> {
        match self.readers.get(field) {
            Some(reader) => Ok(reader.clone()),
            None => Err(Error::argument(format!("an ntuple without a column {field}"))),
        }
    }
    fn cluster_borders(&self) -> Vec<u64> {
        // Columns have buffers of their own, which end at different rows.
        let bytes: u64 = (0..self.num_fields()).map(|field| self.field_bytes(field).0).sum();
        let each = (bytes / self.entries.max(1)).max(1);
        let step = (CLUSTER_BYTES / each).max(1);
        let mut borders = vec![0];
        // The bytes are in the file, so that there are no more clusters than it has room for.
        borders.extend((1..self.entries.div_ceil(step)).map(|cluster| cluster * step));
        borders.push(self.entries);
        borders.dedup();
        borders
    }
    fn pages(&self, field: usize, start: u64, stop: u64, to: &mut Vec<PageListed>) {
        self.list(field, start, stop, to);
        if let Some(index) = self.counter(field) {
            self.list(index, start, stop, to);
        }
    }
    fn entries_touched(&self, field: usize, start: u64, stop: u64) -> u64 {
        let mut listed = Vec::new();
        self.list(field, start, stop, &mut listed);
        let end = listed.last().map(|page| page.first + page.entries);
        listed.first().zip(end).map_or(0, |(first, end)| end - first.first)
    }
    fn page_range(&self, column: usize, page: usize) -> Option<Range> {
        match self.stored.get(self.stored_of(column))?.pages.get(page)?.place {
            StoredPlace::File(range) => Some(range),
            StoredPlace::Memory(_) => None,
        }
    }
    fn codec(&self, _column: usize, _page: usize, _head: &[u8]) -> Option<u32> {
        Some(0)
    }
    fn longest_entry(&self, _field: usize) -> Result<Option<u64>> {
        Ok(None)
    }
    fn same_shape(&self, other: &dyn Table) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<Self>().is_some_and(|other| {
            self.class == other.class && self.description.same_columns(&other.description)
        })
    }
    fn source(&self) -> &Arc<dyn Source> {
        self.file.source()
    }
    fn verify(&self) -> Result<()> {
        match self.source().changed() {
            None => Ok(()),
            Some(how) => {
                let message = format!("the file was changed while it was read ({how})");
                Err(Error::new(ErrorKind::Io, message).within(self.source().name()))
            }
        }
    }
    fn page_cache(&self) -> &PageCache {
        &self.page_cache
    }
    fn place(&self, field: usize) -> String {
        format!("column {} of ntuple {} in {}", self.path(field), self.name, self.source().name())
    }
    fn page_place(&self, column: usize, page: &PageWanted) -> String {
        format!("buffer {} (byte {}) of {}", page.number, page.range().offset, self.place(column))
    }
    fn column_name(&self, column: usize) -> String {
        self.path(column)
    }
}
