//! Writing RNTuples.
//!
//! ```text
//!   types ─▶ fields, columns ─▶ values appended to each column ─▶ pages, compressed in parallel ─▶ cluster ─▶ file
//! ```
//!
//! Entries are appended to the columns, which are cut into pages and compressed as they fill up. When the pages reach
//! the size of a cluster, they are written column by column. A cluster, or a group of neighbouring columns in it, is
//! therefore contiguous in the file. Pages with the same bytes are written once. Page list, footer and anchor follow
//! and complete the file.
//!
//! Memory: the compressed pages of one cluster, plus the buffered values of all columns, at most
//! [`NTupleOptions::cluster_bytes`] together.

mod columns;
pub(in crate::ntuple) mod copy;
mod encode;
mod envelopes;
mod fields;
mod sets;

use super::anchor::{Anchor, Blob};
use super::envelope::{Locator, checksum};
use super::pages::{ClusterGroup, ColumnRange, Page, PageList};
use super::schema::Schema;
use super::structure::{Compiler, Structure};
use super::table::NTuple;
use crate::array::Column;
use crate::array::extremes::Collecting;
use crate::compress::encode::{Compression, compress};
use crate::error::{Error, Result, Within};
use crate::file::writer::{DirectoryId, FileWriter, KeyId, Stretch};
use crate::file::{Key, RootFile, kinds};
use crate::table::writer::TableWriter;
use crate::wire::grow::{self, Grow};
use columns::{CopiedTo, Pending, Sealed};
use rayon::prelude::*;
use sets::LinkedSet;
use std::collections::HashMap;
use std::sync::Arc;

pub use fields::{FieldSpec, Projection, typename};

/// Version of the format that is written.
const VERSION: [u16; 4] = [1, 0, 1, 0];
/// Blobs larger than this would be split over several keys (ROOT's default).
const MAX_KEY_SIZE: u64 = 1 << 30;
/// Maximum size of the pages in one key, in bytes.
const KEY_BYTES: u64 = 512 << 20;
/// Name of the writer in the header.
const WRITER: &str = concat!("sapwood ", env!("CARGO_PKG_VERSION"));
/// Uncompressed size of a page list above which further clusters go into a new one.
const PAGE_LIST: usize = 256 << 10;
/// Uncompressed bytes to append before full pages are compressed.
const STEP: usize = 16 << 20;
/// Maximum ratio of uncompressed to compressed bytes in a cluster.
const MOST_EXPANSION: u64 = 10;

/// The range of each column in a cluster, with its pages.
type ColumnPages = Vec<(ColumnRange, Vec<Page>)>;

/// Options for the layout of an RNTuple.
#[derive(Debug, Clone)]
pub struct NTupleOptions {
    /// Description of the RNTuple.
    pub description: String,
    /// Approximate compressed size of a cluster in bytes.
    pub cluster_bytes: u64,
    /// Maximum number of entries in a cluster.
    pub cluster_entries: Option<usize>,
    /// Maximum uncompressed size of a page in bytes.
    pub page_bytes: usize,
    /// Projected fields.
    pub projections: Vec<Projection>,
}

impl Default for NTupleOptions {
    /// Returns ROOT's defaults.
    fn default() -> Self {
        Self {
            description: String::new(),
            cluster_bytes: 128 << 20,
            cluster_entries: None,
            page_bytes: 1 << 20,
            projections: Vec::new(),
        }
    }
}

/// A top-level field being written.
struct Top {
    name: String,
    /// The mapping of values to columns, or the reason why there is none.
    structure: Result<Structure>,
    columns: Vec<Pending>,
    compression: Option<Compression>,
}

/// A record of the file, with its content.
#[derive(Debug, Clone, Copy)]
struct Written {
    record: (u64, u64),
    blob: Blob,
}

/// An RNTuple being written.
pub struct NTupleWriter {
    name: String,
    key: KeyId,
    options: NTupleOptions,
    schema: Schema,
    tops: Vec<Top>,
    /// The bytes of the header and their checksum.
    header: Vec<u8>,
    header_checksum: u64,
    /// The description records currently in the file.
    header_at: Option<Written>,
    footer_at: Option<Written>,
    list_at: Option<Written>,
    /// Complete cluster groups.
    groups: Vec<ClusterGroup>,
    /// The clusters of the current group.
    list: PageList,
    sets: Vec<LinkedSet>,
    /// For an attribute set: bytes needed to complete the description of the RNTuple it belongs to.
    linked_to: Option<usize>,
    version: [u16; 4],
    max_key_size: u64,
    pages: usize,
    entries_written: u64,
    safe: u64,
    waiting: usize,
    /// Bytes of the cluster's sealed pages, before and after compression.
    sealed: (u64, u64),
    changed: bool,
    failed: Option<String>,
}

impl NTupleWriter {
    /// Creates an RNTuple with these fields in a directory. It is in the file after the first save.
    pub fn new(
        file: &mut FileWriter,
        directory: DirectoryId,
        name: &str,
        fields: &[FieldSpec],
        options: NTupleOptions,
    ) -> Result<Self> {
        let place = || format!("RNTuple {name}");
        if options.cluster_bytes == 0 || options.page_bytes == 0 || options.cluster_entries == Some(0) {
            return Err(Error::argument(
                "the sizes of pages and clusters must be at least one byte, and those of clusters at least one entry",
            ));
        }
        let (schema, header, tops) = describe(name, fields, file.compression(), &options).within(place)?;
        let key = file.reserve(directory, kinds::NTUPLE, name, "")?;
        Ok(Self::from_parts(name, key, schema, tops, sum_of(&header), header, options))
    }

    fn from_parts(
        name: &str,
        key: KeyId,
        schema: Schema,
        tops: Vec<Top>,
        header_checksum: u64,
        header: Vec<u8>,
        options: NTupleOptions,
    ) -> Self {
        Self {
            name: name.to_owned(),
            key,
            options,
            schema,
            tops,
            header_checksum,
            header,
            header_at: None,
            footer_at: None,
            list_at: None,
            groups: Vec::new(),
            list: PageList::default(),
            sets: Vec::new(),
            linked_to: None,
            version: VERSION,
            max_key_size: MAX_KEY_SIZE,
            pages: 0,
            entries_written: 0,
            safe: 0,
            waiting: 0,
            sealed: (0, 0),
            changed: true,
            failed: None,
        }
    }

    /// Continues an RNTuple in the file: `key` is the key of its newest state, which `source` reads.
    pub fn append(
        file: &mut FileWriter,
        directory: DirectoryId,
        source: &Arc<RootFile>,
        key: &Key,
        options: &NTupleOptions,
    ) -> Result<Self> {
        let ntuple = NTuple::read(source, key)?;
        let id = file.find_key(directory, &key.name, key.cycle)?;
        let sets = ntuple.attributes.iter().map(|about| LinkedSet::stored(&ntuple, about, id, options));
        let sets = sets.collect();
        Ok(Self { sets, ..Self::behind(&key.name, id, ntuple, options)? })
    }

    /// Continues after the last entry of an RNTuple.
    fn behind(name: &str, key: KeyId, ntuple: NTuple, options: &NTupleOptions) -> Result<Self> {
        let tops = tops(&ntuple.schema).within(|| format!("RNTuple {name}"))?;
        // New clusters continue each column after the last cluster that has it.
        let mut ends: HashMap<usize, u64> = HashMap::new();
        for group in 0..ntuple.groups.len() {
            let list = ntuple.page_list(group)?;
            for cluster in &list.clusters {
                for (id, column) in cluster.columns.iter().enumerate().filter(|(_, c)| !c.suppressed) {
                    let logical = ntuple.schema.first_choice(id);
                    ends.insert(logical, column.first_element + list.elements(column));
                }
            }
        }
        let options = NTupleOptions { description: ntuple.description, ..options.clone() };
        let mut made =
            Self::from_parts(name, key, ntuple.schema, tops, ntuple.header_checksum, Vec::new(), options);
        for pending in made.tops.iter_mut().flat_map(|top| &mut top.columns) {
            if let Some(end) = ends.get(&pending.column) {
                (pending.first_element, pending.started) = (*end, true);
            }
        }
        let mut made = Self {
            header_at: Some(Written { record: (0, 0), blob: ntuple.anchor.header }),
            groups: ntuple.groups,
            version: ntuple.anchor.version.max(VERSION),
            max_key_size: ntuple.anchor.max_key_size,
            entries_written: ntuple.entries,
            safe: ntuple.entries,
            changed: false,
            ..made
        };
        made.defer();
        Ok(made)
    }

    /// Defers the columns that no cluster has yet to the next cluster: entries before it have no elements.
    fn defer(&mut self) {
        for pending in
            self.tops.iter_mut().flat_map(|top| &mut top.columns).filter(|pending| !pending.started)
        {
            let id = pending.column;
            pending.first_element = self.entries_written.saturating_mul(self.schema.repeat(id));
            self.schema.defer(id, pending.first_element);
        }
    }

    /// Returns names and types of the top-level fields that take data.
    pub fn fields(&self) -> Vec<(String, crate::array::Type)> {
        let kind = |top: &Top| top.structure.as_ref().map_or(crate::array::Type::Dynamic, Structure::type_of);
        self.tops.iter().map(|top| (top.name.clone(), kind(top))).collect()
    }

    /// Adds fields that start with the next cluster; earlier entries read as zero or empty. A name with dots adds a
    /// member to a record.
    pub fn add_fields(&mut self, file: &mut FileWriter, fields: &[FieldSpec]) -> Result<()> {
        self.flush(file)?;
        let mut schema = self.schema.clone();
        schema.unlink();
        fields::add(&mut schema, fields, file.compression()).within(|| self.place())?;
        schema.link().within(|| self.place())?;
        let mut made = tops(&schema).within(|| self.place())?;
        // Fields that exist keep their places, settings and columns, and records get columns for their new members.
        let settings = self.tops.iter().map(|top| top.compression);
        let news = fields.iter().filter(|field| !field.name.contains('.')).map(|field| field.compression);
        made.iter_mut().zip(settings.chain(news)).for_each(|(top, code)| top.compression = code);
        let columns = self.tops.drain(..).flat_map(|top| top.columns);
        let mut columns: HashMap<usize, Pending> = columns.map(|pending| (pending.column, pending)).collect();
        for pending in made.iter_mut().flat_map(|top| &mut top.columns) {
            if let Some(known) = columns.remove(&pending.column) {
                *pending = known;
            }
        }
        self.tops = made;
        self.schema = schema;
        self.defer();
        self.changed = true;
        Ok(())
    }

    fn place(&self) -> String {
        format!("RNTuple {}", self.name)
    }

    fn take(
        &mut self,
        file: &mut FileWriter,
        columns: &[Column],
        rows: usize,
        collecting: &mut Collecting,
    ) -> Result<()> {
        let bytes: usize = columns.iter().map(Column::bytes).sum();
        let step = STEP.min((self.options.cluster_bytes / 4).max(1) as usize).max(64 << 10);
        let step = (step as f64 / (bytes.max(1) as f64 / rows.max(1) as f64)).max(1.0) as usize;
        let mut from = 0;
        while from < rows {
            let left = self.options.cluster_entries.map_or(usize::MAX, |most| most - self.waiting);
            let to = rows.min(from.saturating_add(step.min(left)));
            let collected = collecting.columns(columns.len())?;
            let pending = self.tops.iter().flat_map(|top| &top.columns);
            let before = grow::collected(pending.map(|one| (one.data.len(), one.counts.clone())))?;
            let appended = self.tops.par_iter_mut().zip(columns).zip(collected).try_for_each(
                |((top, column), collected)| {
                    let Ok(structure) = &top.structure else { return Ok(()) };
                    collected.in_pieces(from, to, |from, to| {
                        columns::append(structure, &mut top.columns, column, from, to)
                    })
                },
            );
            if appended.is_err() {
                let pending = self.tops.iter_mut().flat_map(|top| &mut top.columns);
                for (one, (length, counts)) in pending.zip(before) {
                    one.data.truncate(length);
                    one.counts = counts;
                }
            }
            appended?;
            self.waiting += to - from;
            self.seal(file, Seal::Full)?;
            if self.is_full(file.compression()) {
                self.write_cluster(file)?;
                collecting.end_zone(to)?;
            }
            from = to;
        }
        Ok(())
    }

    fn is_full(&self, usual: Compression) -> bool {
        if self.options.cluster_entries.is_some_and(|most| self.waiting >= most) {
            return true;
        }
        let (raw, packed) = self.sealed;
        // Assume that buffered data compress like the pages so far, or to half if there are none.
        let ratio = if raw > 0 { packed as f64 / raw as f64 } else { 0.5 };
        let (mut as_is, mut others) = (0, 0);
        for top in &self.tops {
            let compression = top.compression.unwrap_or(usual);
            for column in &top.columns {
                let bytes = if column.is_stored_as_is(compression) { &mut as_is } else { &mut others };
                *bytes += column.data.len() as u64;
            }
        }
        packed + as_is + (others as f64 * ratio) as u64 >= self.options.cluster_bytes
            || raw + as_is + others >= self.options.cluster_bytes.saturating_mul(MOST_EXPANSION)
    }

    /// Compresses pages: full pages, and more if too much is buffered, or all.
    fn seal(&mut self, file: &FileWriter, which: Seal) -> Result<()> {
        let mut page_bytes = self.options.page_bytes;
        let usual = file.compression();
        let mut jobs = Vec::new();
        loop {
            jobs.clear();
            let mut left = 0;
            for (top, found) in self.tops.iter_mut().enumerate() {
                let compression = found.compression.unwrap_or(usual);
                for (column, pending) in found.columns.iter_mut().enumerate() {
                    let as_is = pending.is_stored_as_is(compression);
                    if as_is && which == Seal::Full {
                        continue;
                    }
                    let mut start = 0;
                    for elements in pending.cuts(page_bytes, which == Seal::All)? {
                        jobs.try_push((top, column, start, start + elements))?;
                        start += elements;
                    }
                    left += pending.data.len() - start * pending.width();
                    pending.taken = if as_is { 0 } else { start };
                }
            }
            // The columns together buffer too much: use smaller pages.
            if left as u64 <= self.options.cluster_bytes || page_bytes <= SMALLEST_PAGE {
                break;
            }
            page_bytes /= 2;
        }
        self.tops.par_iter_mut().try_for_each(|top| {
            let compression = top.compression.unwrap_or(usual);
            let mut columns = top.columns.iter_mut();
            columns
                .try_for_each(|column| column.measure(compression))
                .within(|| format!("field {}", top.name))
        })?;
        let tops = &self.tops;
        let seal = |room: &mut [Vec<u8>; 2], &(top, column, from, to): &(usize, usize, usize, usize)| {
            let top = tops.get(top).ok_or_else(|| Error::argument("the field does not exist"))?;
            let pending =
                top.columns.get(column).ok_or_else(|| Error::argument("the column does not exist"))?;
            pending
                .seal(from, to, top.compression.unwrap_or(usual), room)
                .within(|| format!("field {}", top.name))
        };
        let pages = grow::mapped(&jobs, Default::default, seal)?;
        for ((top, column, ..), page) in jobs.iter().zip(pages) {
            self.sealed.0 += page.length as u64;
            let pending = self.tops.get_mut(*top).and_then(|top| top.columns.get_mut(*column));
            if let Some(pending) = pending {
                self.sealed.1 += pending.stored(&page).len() as u64;
                pending.sealed.try_push(page)?;
            }
        }
        for pending in self.tops.iter_mut().flat_map(|top| &mut top.columns) {
            pending.drain();
        }
        Ok(())
    }

    /// Writes all buffered entries.
    fn write_cluster(&mut self, file: &mut FileWriter) -> Result<()> {
        self.seal(file, Seal::All)?;
        let (stretch, columns) = self.write_pages(file)?;
        let pages = columns.iter().map(|(_, pages)| pages.len()).max().unwrap_or(0);
        let listed = self.list.push(self.entries_written, self.waiting as u64, columns);
        listed.inspect_err(|_| file.give_back(&stretch))?;
        let need = self.bytes_needed() + self.linked_to.unwrap_or_default();
        let due = file.accept(&stretch, self.key, need).inspect_err(|_| self.list.pop())?;
        self.pages += pages;
        self.entries_written += self.waiting as u64;
        self.waiting = 0;
        self.sealed = (0, 0);
        self.changed = true;
        for pending in self.tops.iter_mut().flat_map(|top| &mut top.columns) {
            pending.begin_cluster();
        }
        self.defer();
        // An attribute set is saved together with the RNTuple it belongs to.
        if due && self.linked_to.is_none() {
            self.save(file)?;
            file.commit()?;
        }
        self.safe = self.entries_written;
        Ok(())
    }

    /// Maximum bytes of header, page list, footer and anchor.
    fn bytes_needed(&self) -> usize {
        let list = self.list.clusters.iter().map(|c| 64 + 40 * c.columns.len()).sum::<usize>();
        4096 + self.header.len()
            + list
            + 20 * self.list.count()
            + 64 * self.groups.len()
            + self.sets.iter().map(LinkedSet::bytes_needed).sum::<usize>()
            + 128 * (self.schema.fields.len() - self.schema.header_fields)
    }

    /// Writes the pages of a cluster, column by column. Pages with the same bytes are written once.
    fn write_pages(&self, file: &mut FileWriter) -> Result<(Stretch, ColumnPages)> {
        let suppressed = ColumnRange { suppressed: true, ..ColumnRange::default() };
        let mut ranges: ColumnPages =
            grow::collected(self.schema.columns.iter().map(|_| (suppressed.clone(), Vec::new())))?;
        let mut unique: Vec<(&Sealed, &[u8])> = Vec::new();
        let mut known: HashMap<(u64, usize), usize> = HashMap::new();
        // Pages by column, as indices of unique pages.
        let mut places: Vec<(&Pending, u32, Vec<usize>)> = Vec::new();
        let usual = file.compression();
        for top in &self.tops {
            for pending in &top.columns {
                let code = pending.code.unwrap_or_else(|| top.compression.unwrap_or(usual).code());
                let mut numbers = grow::with_room(pending.sealed.len())?;
                for page in &pending.sealed {
                    let (next, bytes) = (unique.len(), pending.stored(page));
                    grow::place(&mut known)?;
                    let number = *known.entry((page.checksum, bytes.len())).or_insert(next);
                    numbers.push(match unique.get(number) {
                        Some((_, same)) if *same == bytes => number,
                        _ => {
                            unique.try_push((page, bytes))?;
                            next
                        }
                    });
                }
                places.try_push((pending, code, numbers))?;
            }
        }
        let mut keys: Vec<std::ops::Range<usize>> = Vec::new();
        let mut bytes = KEY_BYTES;
        for (number, (_, page)) in unique.iter().enumerate() {
            let size = page.len() as u64 + 8;
            match keys.last_mut() {
                Some(key) if bytes + size <= KEY_BYTES => {
                    key.end += 1;
                    bytes += size;
                }
                _ => {
                    keys.try_push(number..number + 1)?;
                    bytes = size;
                }
            }
        }
        let total =
            |pages: &[(&Sealed, &[u8])]| pages.iter().map(|(_, bytes)| bytes.len() as u64 + 8).sum::<u64>();
        let key_bytes = file.blob_key_bytes();
        let mut offsets = grow::with_room(unique.len())?;
        let mut stretch = file.begin_stretch(total(&unique) + (keys.len() * key_bytes) as u64);
        let mut append = |key| {
            let pages = unique.get(key).unwrap_or_default();
            let head = file.blob_key(stretch.end, total(pages) as usize)?;
            let mut at = stretch.end + head.len() as u64;
            let sums = grow::collected(pages.iter().map(|(page, _)| page.checksum.to_le_bytes()))?;
            let mut parts: Vec<&[u8]> = grow::with_room(1 + 2 * pages.len())?;
            parts.push(&head);
            for ((_, bytes), sum) in pages.iter().zip(&sums) {
                offsets.push(at);
                at += bytes.len() as u64 + 8;
                parts.extend([*bytes, sum]);
            }
            file.append(&mut stretch, &parts)
        };
        let appended = keys.into_iter().try_for_each(&mut append);
        let entered = appended.and_then(|()| {
            places.iter().try_for_each(|(pending, compression, numbers)| {
                let column = match pending.target {
                    Some(CopiedTo::Nothing) => None,
                    Some(CopiedTo::Column(column)) => Some(column),
                    None => Some(pending.column),
                };
                let Some(range) = column.and_then(|column| ranges.get_mut(column)) else { return Ok(()) };
                let mut end = 0;
                let pages = numbers.iter().zip(&pending.sealed).map(|(number, sealed)| {
                    end += sealed.elements as u64;
                    let offset = offsets.get(*number).copied().unwrap_or_default();
                    let locator = Locator::File { offset, bytes: pending.stored(sealed).len() as u64 };
                    Page { end, locator, checksum: true }
                });
                let about = ColumnRange {
                    suppressed: false,
                    first_element: pending.first_element,
                    pages: 0..0,
                    compression: *compression,
                };
                *range = (about, grow::collected(pages)?);
                Ok(())
            })
        });
        if entered.is_err() {
            file.give_back(&stretch);
        }
        entered?;
        // Columns that were added later come last. A cluster has all columns of the header.
        let known = ranges.iter().rposition(|(range, _)| !range.suppressed).map_or(0, |last| last + 1);
        let absent = self
            .tops
            .iter()
            .flat_map(|top| &top.columns)
            .any(|column| column.target == Some(CopiedTo::Nothing));
        if absent {
            ranges.truncate(known.max(self.schema.header_columns));
        }
        Ok((stretch, ranges))
    }

    /// Drops buffered entries after an unrecoverable error, and returns an error that states which entries are safe.
    fn fail(&mut self, file: &mut FileWriter, error: &Error) -> Error {
        let (written, lost) = (self.safe, self.entries() - self.safe);
        self.failed = Some(error.message().to_owned());
        self.waiting = 0;
        for pending in self.tops.iter_mut().flat_map(|top| &mut top.columns) {
            pending.begin_cluster();
        }
        let kept = file.kept(&self.place(), written, lost);
        Error::new(error.kind(), format!("{error}: {kept}"))
    }

    /// Writes the changed parts of header, page list and footer; returns the anchor for them.
    fn write_description(&mut self, file: &mut FileWriter) -> Result<Anchor> {
        let header = match self.header_at {
            Some(header) if !file.is_distant(header.record) => header,
            old => Self::write_envelope(file, &self.header, old)?,
        };
        self.header_at = Some(header);
        let mut groups = grow::copied(&self.groups)?;
        let clusters = self.list.clusters.len() as u32;
        if let Some(first) = self.list.clusters.first() {
            let bytes = envelopes::page_list(self.header_checksum, &self.list)?;
            let written = Self::write_envelope(file, &bytes, self.list_at)?;
            self.list_at = Some(written);
            let locator = Locator::File { offset: written.blob.offset, bytes: written.blob.stored };
            let (first_entry, length) = (first.first_entry, written.blob.length);
            let entries = self.entries_written - first_entry;
            let group = ClusterGroup { first_entry, entries, clusters, length, locator };
            groups.try_push(group)?;
            if bytes.len() >= PAGE_LIST {
                self.groups.try_push(group)?;
                self.list = PageList::default();
                self.list_at = None;
            }
        }
        let sets: Vec<_> = self.sets.iter().map(|set| &set.about).collect();
        let footer = envelopes::footer(self.header_checksum, &self.schema, &groups, &sets)?;
        let footer = Self::write_envelope(file, &footer, self.footer_at)?;
        self.footer_at = Some(footer);
        Ok(Anchor {
            version: self.version,
            header: header.blob,
            footer: footer.blob,
            max_key_size: self.max_key_size,
        })
    }

    fn write_envelope(file: &mut FileWriter, bytes: &[u8], old: Option<Written>) -> Result<Written> {
        let mut packed = Vec::new();
        let used = compress(file.compression(), bytes, &mut packed)?;
        let body = used.and_then(|used| packed.get(..used)).unwrap_or(bytes);
        let (record, offset) = file.write_blob(body)?;
        if let Some(old) = old.filter(|old| old.record.1 > old.record.0) {
            file.release_record(old.record);
        }
        Ok(Written { record, blob: Blob { offset, stored: body.len() as u64, length: bytes.len() as u64 } })
    }
}

/// Minimum uncompressed page size for many columns, in bytes.
const SMALLEST_PAGE: usize = 1 << 10;

/// The buffered elements to make pages from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seal {
    Full,
    All,
}

/// Returns the schema of an RNTuple, its header, and the top-level fields that take data.
fn describe(
    name: &str,
    fields: &[FieldSpec],
    compression: Compression,
    options: &NTupleOptions,
) -> Result<(Schema, Vec<u8>, Vec<Top>)> {
    if fields.is_empty() {
        return Err(Error::argument("an RNTuple must have at least one field"));
    }
    let mut schema = Schema::default();
    fields::add(&mut schema, fields, compression)?;
    schema.link()?;
    fields::project(&mut schema, &options.projections)?;
    schema.end_of_header();
    let header = envelopes::header(name, &options.description, WRITER, &schema)?;
    let mut tops = tops(&schema)?;
    set_compression(&mut tops, fields);
    Ok((schema, header, tops))
}

/// Sets the compression of fields from their specifications.
fn set_compression(tops: &mut [Top], fields: &[FieldSpec]) {
    tops.iter_mut().zip(fields).for_each(|(top, field)| top.compression = field.compression);
}

fn sum_of(envelope: &[u8]) -> u64 {
    envelope.last_chunk().copied().map_or_else(|| checksum(envelope), u64::from_le_bytes)
}

/// Returns the top-level fields that take data, with their columns.
fn tops(schema: &Schema) -> Result<Vec<Top>> {
    let programs = || {
        Err(Error::unsupported(
            "objects of a class that writes its own bytes can be copied, but not extended",
        ))
    };
    let mut tops = Vec::with_capacity(schema.top.len());
    for &id in &schema.top {
        let Some(field) = schema.fields.get(id).filter(|field| field.source.is_none()) else { continue };
        let place = || format!("field {}", field.name);
        let structure = Compiler::new(schema, &programs).field(id);
        let mut columns = Vec::new();
        let encoding = |id: usize| {
            let column =
                schema.columns.get(id).ok_or_else(|| Error::argument("the column does not exist"))?;
            column.encoding.clone()
        };
        match &structure {
            Ok(structure) => columns::pending(structure, &encoding, &mut columns).within(place)?,
            // Values cannot be appended, but the columns can be copied.
            Err(_) => columns::whole(schema, id, &encoding, &mut columns).within(place)?,
        }
        columns.sort_by_key(|(slot, _)| *slot);
        let columns = columns.into_iter().map(|(_, pending)| pending).collect();
        tops.push(Top { name: field.name.clone(), structure, columns, compression: None });
    }
    Ok(tops)
}

impl TableWriter for NTupleWriter {
    fn name(&self) -> &str {
        &self.name
    }
    fn entries(&self) -> u64 {
        self.entries_written + self.waiting as u64
    }
    fn entries_written(&self) -> u64 {
        self.entries_written
    }
    fn pages(&self) -> usize {
        self.pages
    }
    fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }
    fn set_compression(&mut self, field: usize, compression: Option<Compression>) -> Result<()> {
        let top = self.tops.get_mut(field);
        top.ok_or_else(|| Error::not_found(format!("no field {field}")))?.compression = compression;
        Ok(())
    }
    fn extend_collecting(
        &mut self,
        file: &mut FileWriter,
        columns: &[Column],
        collecting: &mut Collecting,
    ) -> Result<()> {
        let place = self.place();
        self.check_sound().within(|| place.clone())?;
        if columns.len() != self.tops.len() {
            let text = format!("{} columns were given for {} fields", columns.len(), self.tops.len());
            return Err(Error::argument(text).within(place));
        }
        let rows = columns.first().map_or(0, Column::len);
        for (top, column) in self.tops.iter().zip(columns) {
            top.structure
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|structure| columns::check(structure, column))
                .within(|| format!("field {}", top.name))
                .within(|| place.clone())?;
            if column.len() != rows {
                let text =
                    format!("field {} has {} entries, but another field has {rows}", top.name, column.len());
                return Err(Error::argument(text).within(place));
            }
        }
        self.take(file, columns, rows, collecting).map_err(|error| self.fail(file, &error))
    }
    fn flush(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.failed.is_some() || self.waiting == 0 {
            return Ok(());
        }
        self.write_cluster(file).map_err(|error| self.fail(file, &error))
    }
    fn save(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.failed.is_some() && self.entries_written() == 0 && !file.is_written(self.key) {
            // Without entries, it would only hide an older cycle.
            return Ok(());
        }
        self.save_sets(file)?;
        if self.changed {
            let anchor = self.write_description(file)?;
            file.write(self.key, |_| Ok(envelopes::anchor(&anchor)))?;
        }
        self.changed = false;
        Ok(())
    }
    fn close(&mut self, file: &FileWriter) {
        self.sets.iter_mut().for_each(|set| set.close(file));
        self.changed |= self.footer_at.is_some_and(|footer| file.is_distant(footer.record))
            || self.header_at.is_some_and(|header| file.is_distant(header.record));
    }
}
