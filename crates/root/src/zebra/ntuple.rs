//! HBOOK ntuples as tables of entries.
//!
//! In a column-wise ntuple, each column is a stored column with its elements as items and its buffers as pages. In a
//! row-wise ntuple, all columns share the same buffers, whose items are rows.

use super::buffers::{Finder, StoredColumn, StoredPlace, column_pages, row_pages};
use super::columns::{ColumnReader, reader};
use super::hbook::{Class, Description, Kind, NtupleColumn};
use super::rz::{Cycle, RzDirectory, RzFile};
use crate::error::{Error, ErrorKind, Result, Within};
use crate::table::{FieldInfo, FieldReader, Hidden, PageCache, PageListed, PagePlace, PageWanted, Table};
use crate::wire::grow::{self, Grow};
use sapwood_io::{Range, Source};
use std::any::Any;
use std::sync::Arc;

/// Approximate bytes of a cluster, for row-wise ntuples and for those whose columns have buffers of different lengths.
const CLUSTER_BYTES: u64 = 4 << 20;

/// A row-wise or column-wise ntuple, opened for reading.
pub struct Ntuple {
    pub(super) file: Arc<RzFile>,
    name: String,
    pub(super) class: Class,
    description: Description,
    entries: u64,
    /// Number of rows of each column.
    rows: Vec<u64>,
    pub(super) stored: Vec<StoredColumn>,
    pub(super) readers: Vec<Arc<ColumnReader>>,
    titles: Vec<String>,
    page_cache: PageCache,
}

impl Ntuple {
    /// Opens the ntuple in a key, given the bytes of its object.
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
            description: description.clone(),
            page_cache: PageCache::default(),
        };
        for (number, column) in description.columns.iter().enumerate() {
            let known = description.blocks.get(column.block).and_then(|block| block.rows);
            let rows = match known.filter(|_| description.rows.is_some()) {
                Some(rows) => rows,
                // The writer did not finish.
                None => made.written_rows(number, column)?,
            };
            made.rows.push(rows);
        }
        let least = made.rows.iter().copied().min().unwrap_or(0);
        made.entries = description.rows.map_or(least, |rows| rows.min(least));
        made.readers = description.columns.iter().enumerate().map(reader(&description, class)).collect();
        made.titles = description.columns.iter().map(|column| title(&description, column)).collect();
        made.verify_sizes()?;
        let size = file.source().size();
        if let Some(column) = made.stored.iter().find(|column| column.bytes > size) {
            let message = format!("buffers of {} bytes, but the file has {size}: they overlap", column.bytes);
            return Err(Error::corrupt(message));
        }
        Ok(made)
    }

    /// Counts the rows of a column in its written buffers.
    fn written_rows(&self, number: usize, column: &NtupleColumn) -> Result<u64> {
        let items = self.items(self.stored_of(number));
        let each = column.values();
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
    /// Returns the running sums of an index column, as far as they were written: after the last row of an incomplete
    /// buffer they stop rising.
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
    /// Fails if there are more rows than the buffers hold.
    fn verify_sizes(&self) -> Result<()> {
        for (number, column) in self.description.columns.iter().enumerate() {
            let items = self.items(self.stored_of(number));
            let each = column.values();
            let rows = self.rows(number);
            if column.index.is_none() && rows.saturating_mul(each) > items {
                let message = format!(
                    "the column {:?} has {rows} rows of {each} values, but its buffers hold {items} values",
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
    /// Returns the column with the list lengths of another.
    pub fn counter(&self, field: usize) -> Option<usize> {
        self.description.columns.get(field)?.index
    }
    fn counts(&self, field: usize) -> bool {
        self.description.columns.get(field).is_some_and(|column| column.is_index)
    }
    /// Number of buffers of a column.
    pub fn num_pages(&self, field: usize) -> usize {
        self.stored.get(self.stored_of(field)).map_or(0, |stored| stored.pages.len())
    }
    pub(super) fn stored_of(&self, field: usize) -> usize {
        if self.class == Class::RowWise { 0 } else { field }
    }
    pub(super) fn each(&self, field: usize) -> u64 {
        let column = self.description.columns.get(field);
        column.map_or(1, NtupleColumn::values).max(1)
    }
    /// Returns the range of items of a stored column needed for some rows, as far as it is known without reading. For
    /// lists, these are all items that may be needed.
    fn item_range(&self, field: usize, start: u64, stop: u64) -> (u64, u64) {
        let Some(column) = self.description.columns.get(field) else { return (0, 0) };
        if column.index.is_some() {
            // An estimate: it assumes lists of equal length.
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
    /// Returns the pages that contain a range of items.
    pub(super) fn pages_of(&self, field: usize, start: u64, stop: u64) -> Result<Vec<PageWanted>> {
        let empty = StoredColumn::default();
        let stored = self.stored.get(self.stored_of(field)).unwrap_or(&empty);
        let mut pages = Vec::new();
        let mut covered = start;
        if stored.pages.is_empty() && (start, stop) == (0, 1) && self.counts(field) {
            // No list was ever written: the first list starts at 0.
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

/// Returns the declaration of a column, with its block.
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
            None => Err(Error::argument(format!("the ntuple has no column {field}"))),
        }
    }
    fn cluster_borders(&self) -> Vec<u64> {
        // Columns have buffers of their own, which end at different rows.
        let bytes: u64 = (0..self.num_fields()).map(|field| self.field_bytes(field).0).sum();
        let each = (bytes / self.entries.max(1)).max(1);
        let step = (CLUSTER_BYTES / each).max(1);
        let mut borders = vec![0];
        // The bytes are in the file, so that its size limits the number of clusters.
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
            std::ptr::eq(self, other)
                || (self.class == other.class && self.description.same_columns(&other.description))
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
    fn cached_column(&self, column: usize) -> usize {
        self.stored_of(column)
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
