//! An RNTuple in a file.

use super::anchor::{Anchor, Blob};
use super::decode::{NOT_STORED, NUMBER_BITS};
use super::envelope::{self, EnvelopeReader, Kind};
use super::listing::{self, Listed};
use super::pages::{Cluster, ClusterGroup, PageList};
use super::plan::FieldColumns;
use super::schema::Schema;
use super::structure::{self, Compiler};
use crate::compress::decode;
use crate::error::{Error, ErrorKind, Result, Within};
use crate::file::kinds::{EXPERIMENTAL_NTUPLE, NTUPLE};
use crate::file::{Key, RootFile};
use crate::streamer::Classes;
use crate::streamer::compile::Programs;
use crate::table::{FieldInfo, FieldReader, Hidden, PageCache, PageListed, PageWanted, Table};
use crate::wire::{Cursor, cursor::Pointer};
use sapwood_io::{Cause, Range, Source, lock};
use std::any::Any;
use std::cell::OnceCell;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock};

/// An RNTuple, opened for reading.
pub struct NTuple {
    /// The file.
    pub file: Arc<RootFile>,
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// The program that wrote it.
    pub writer: String,
    /// The anchor.
    pub anchor: Anchor,
    /// Fields and columns.
    pub schema: Schema,
    /// Number of entries.
    pub entries: u64,
    /// Cluster groups in the order of their entries.
    pub groups: Vec<ClusterGroup>,
    /// Linked attribute sets.
    pub attributes: Vec<AttributeSet>,
    /// Checksum of the header.
    pub header_checksum: u64,
    /// Fields in listed order; the index is the field number.
    pub listed: Vec<Listed>,
    /// Columns that projected fields share.
    pub aliased: HashSet<usize>,
    /// Page lists, or the faults of their bytes. They are kept because each field needs them.
    page_lists: Vec<OnceLock<Result<Arc<PageList>>>>,
    /// The most recently requested clusters.
    last_clusters: Mutex<Option<ClustersBetween>>,
    readers: Vec<Mutex<Option<Arc<FieldColumns>>>>,
    programs: OnceLock<Arc<Programs>>,
    bytes: OnceLock<Vec<(u64, u64)>>,
    page_cache: PageCache,
    /// Its key in the file, unless it was salvaged or is an attribute set.
    key: Option<Key>,
}

/// The clusters between two entries, and the largest number of columns that one of them lists.
type ClustersBetween = (std::ops::Range<u64>, Arc<[ClusterPages]>, usize);

/// An attribute set: an RNTuple that describes ranges of entries of another.
#[derive(Debug, Clone, PartialEq)]
pub struct AttributeSet {
    /// Name.
    pub name: String,
    /// Version of its schema: major and minor.
    pub version: (u16, u16),
    /// Uncompressed size of its anchor in bytes.
    pub length: u64,
    /// Location of its anchor.
    pub locator: envelope::Locator,
}

fn fetch(file: &RootFile, anchor: &Anchor, blob: Blob, what: &str) -> Result<Vec<u8>> {
    envelope::fetch(file, blob, anchor.max_key_size, Cause::Object).within(|| format!("the {what}"))
}

impl NTuple {
    /// Opens the RNTuple in a key.
    pub fn read(file: &Arc<RootFile>, key: &Key) -> Result<Self> {
        let place = || format!("RNTuple {};{} of {}", key.name, key.cycle, file.name());
        if key.classname == EXPERIMENTAL_NTUPLE {
            return Err(Error::unsupported(format!(
                "class {EXPERIMENTAL_NTUPLE} is a format from before the first release of RNTuple; only ROOT versions of \
                 that time read it"
            ))
            .within(place()));
        }
        let anchor = file.object(key)?;
        let anchor = Anchor::parse(&anchor).within(|| "the anchor").within(place)?;
        Ok(Self { key: Some(key.clone()), ..Self::of_anchor(file, &anchor).within(place)? })
    }

    fn of_anchor(file: &Arc<RootFile>, anchor: &Anchor) -> Result<Self> {
        let Blob { offset, stored, .. } = anchor.footer;
        if stored <= anchor.max_key_size && offset.saturating_add(stored) <= file.source().size() {
            file.source().foresee(Range { offset, length: stored });
        }
        let mut ntuple = Self::begin(file, anchor)?;
        let footer = fetch(file, anchor, anchor.footer, "footer")?;
        let (mut reader, _) = EnvelopeReader::envelope(&footer, Kind::Footer).within(|| "the footer")?;
        ntuple.parse_footer(&mut reader).within(|| "the footer")?;
        ntuple.finish()
    }

    /// Opens an RNTuple whose anchor is lost from salvaged envelopes: the schema of a header and, if there is one, of a
    /// footer, and the clusters of page lists.
    pub(super) fn of_parts(
        file: &Arc<RootFile>,
        header: Blob,
        footer: Option<Blob>,
        groups: Vec<ClusterGroup>,
    ) -> Result<Self> {
        let anchor = Anchor {
            version: [1, 0, 0, 0],
            header,
            footer: footer.unwrap_or(Blob { offset: 0, stored: 0, length: 0 }),
            max_key_size: 0,
        };
        let mut ntuple = Self::begin(file, &anchor)?;
        if let Some(blob) = footer {
            let footer = fetch(file, &anchor, blob, "footer")?;
            let (mut reader, _) = EnvelopeReader::envelope(&footer, Kind::Footer).within(|| "the footer")?;
            ntuple.parse_extension(&mut reader).within(|| "the footer")?;
        }
        ntuple.entries = groups.last().map_or(0, |group| group.first_entry + group.entries);
        ntuple.groups = groups;
        ntuple.finish()
    }

    /// Reads the header.
    fn begin(file: &Arc<RootFile>, anchor: &Anchor) -> Result<Self> {
        let header = fetch(file, anchor, anchor.header, "header")?;
        let (mut reader, header_checksum) =
            EnvelopeReader::envelope(&header, Kind::Header).within(|| "the header")?;
        let mut ntuple = Self {
            file: file.clone(),
            name: String::new(),
            description: String::new(),
            writer: String::new(),
            anchor: anchor.clone(),
            schema: Schema::default(),
            entries: 0,
            groups: Vec::new(),
            attributes: Vec::new(),
            header_checksum,
            listed: Vec::new(),
            aliased: HashSet::new(),
            page_lists: Vec::new(),
            last_clusters: Mutex::default(),
            readers: Vec::new(),
            programs: OnceLock::new(),
            bytes: OnceLock::new(),
            page_cache: PageCache::default(),
            key: None,
        };
        ntuple.parse_header(&mut reader).within(|| "the header")?;
        Ok(ntuple)
    }

    /// Prepares for reading, after the schema and the groups were read.
    fn finish(mut self) -> Result<Self> {
        self.schema.link()?;
        self.page_lists = self.groups.iter().map(|_| OnceLock::new()).collect();
        self.aliased = self.schema.aliases.iter().map(|&(column, _)| column).collect();
        self.listed = listing::list(&self.schema)?;
        self.readers = self.listed.iter().map(|_| Mutex::default()).collect();
        Ok(self)
    }

    fn parse_header(&mut self, reader: &mut EnvelopeReader<'_>) -> Result<()> {
        reader.feature_flags()?;
        self.name = reader.string()?;
        self.description = reader.string()?;
        self.writer = reader.string()?;
        self.schema.extend(reader)?;
        self.schema.end_of_header();
        Ok(())
    }

    /// Parses the first part of a footer: the fields and columns that are not in the header.
    fn parse_extension(&mut self, reader: &mut EnvelopeReader<'_>) -> Result<()> {
        reader.feature_flags()?;
        let sum = reader.u64()?;
        if sum != self.header_checksum {
            return Err(Error::corrupt(format!(
                "it belongs to a header with checksum {sum:016x}, not {:016x}",
                self.header_checksum
            )));
        }
        let mut extension = reader.record()?;
        if extension.remaining() > 0 {
            self.schema.extend(&mut extension).within(|| "the schema extension")?;
        }
        Ok(())
    }

    fn parse_footer(&mut self, reader: &mut EnvelopeReader<'_>) -> Result<()> {
        self.parse_extension(reader)?;
        let (mut items, count) = reader.list(48).within(|| "the list of cluster groups")?;
        for number in 0..count {
            let group = items.record().and_then(|mut record| ClusterGroup::parse(&mut record));
            self.groups.push(group.within(|| format!("cluster group {number}"))?);
        }
        self.groups.sort_by_key(|group| (group.first_entry, group.entries));
        for group in &self.groups {
            if group.first_entry != self.entries {
                return Err(Error::corrupt(format!(
                    "no cluster group starts at entry {}, one does at {}",
                    self.entries, group.first_entry
                )));
            }
            self.entries += group.entries;
        }
        // Before version 1.0.1.0 the footer ended here.
        if reader.remaining() > 0 {
            let (mut items, count) = reader.list(32).within(|| "the list of attribute sets")?;
            for _ in 0..count {
                let mut record = items.record()?;
                let version = (record.u16()?, record.u16()?);
                let length = u64::from(record.u32()?);
                let locator = record.locator()?;
                self.attributes.push(AttributeSet { name: record.string()?, version, length, locator });
            }
        }
        Ok(())
    }

    /// Opens a linked attribute set. A set has no attribute sets itself.
    pub fn attribute_set(&self, name: &str) -> Result<Self> {
        let place = || format!("attribute set {name} of RNTuple {} in {}", self.name, self.file.name());
        let set = self.attributes.iter().find(|set| set.name == name);
        let set = set.ok_or_else(|| Error::not_found("it does not exist").within(place()))?;
        let open = || {
            if set.version.0 != 1 {
                let (major, minor) = set.version;
                return Err(Error::unsupported(format!("its schema has version {major}.{minor}")));
            }
            let object = envelope::fetch(&self.file, set.locator.blob(set.length)?, 0, Cause::Object)?;
            let anchor = Anchor::parse(&object).within(|| "the anchor")?;
            if anchor.header.offset == self.anchor.header.offset {
                return Err(Error::corrupt("its header is that of the RNTuple to which it is linked"));
            }
            let found = Self::of_anchor(&self.file, &anchor)?;
            if found.attributes.is_empty() {
                Ok(found)
            } else {
                Err(Error::corrupt("it has attribute sets itself"))
            }
        };
        open().within(place)
    }

    /// Returns the page list of a group; it is read at first use.
    pub fn page_list(&self, group: usize) -> Result<Arc<PageList>> {
        let slot = self.page_lists.get(group).zip(self.groups.get(group));
        let (slot, about) = slot.ok_or_else(|| Error::argument(format!("no cluster group {group}")))?;
        if let Some(list) = slot.get() {
            return list.clone();
        }
        let read = || {
            let blob = about.locator.blob(about.length)?;
            let bytes = envelope::fetch(&self.file, blob, self.anchor.max_key_size, Cause::Object)?;
            let (mut reader, _) = EnvelopeReader::envelope(&bytes, Kind::PageList)?;
            PageList::parse(&mut reader, self.header_checksum, about)
        };
        let list = read().within(|| format!("the page list of cluster group {group}"));
        let list = list.within(|| self.place()).map(Arc::new);
        match list {
            // Storage may deliver the bytes later, and memory may become free.
            Err(error) if !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported) => Err(error),
            list => slot.get_or_init(|| list).clone(),
        }
    }

    /// Returns the clusters with entries from `start` to `stop`.
    ///
    /// The last result is kept, because fields that are read together ask one after another.
    pub fn clusters(&self, start: u64, stop: u64) -> Result<Arc<[ClusterPages]>> {
        Ok(self.clusters_and_columns(start, stop)?.0)
    }

    /// Returns also the largest number of columns that one of the clusters lists. Columns with larger numbers were added
    /// later.
    pub fn clusters_and_columns(&self, start: u64, stop: u64) -> Result<(Arc<[ClusterPages]>, usize)> {
        let last = || lock(&self.last_clusters);
        if let Some((_, found, columns)) = last().as_ref().filter(|(range, ..)| *range == (start..stop)) {
            return Ok((found.clone(), *columns));
        }
        let mut found = Vec::new();
        let first = self.groups.partition_point(|group| group.first_entry + group.entries <= start);
        let mut before: usize = self.groups.iter().take(first).map(|group| group.clusters as usize).sum();
        for (number, group) in self.groups.iter().enumerate().skip(first) {
            if group.first_entry >= stop {
                break;
            }
            let list = self.page_list(number)?;
            let first = list.clusters.partition_point(|one| one.first_entry + one.entries <= start);
            let some = list.clusters.iter().enumerate().skip(first);
            let some = some.take_while(|(_, one)| one.first_entry < stop);
            found.extend(some.map(|(index, _)| ClusterPages::new(list.clone(), index, before + index)));
            before += group.clusters as usize;
        }
        let found: Arc<[ClusterPages]> = found.into();
        let columns = found.iter().filter_map(|pages| Some(pages.cluster()?.columns.len())).max();
        let columns = columns.unwrap_or(0);
        *last() = Some((start..stop, found.clone(), columns));
        Ok((found, columns))
    }

    /// Returns the compiled field; it is compiled at first use. Objects of `hidden` classes are skipped.
    fn compiled(&self, field: usize, hidden: &Hidden) -> Result<Arc<FieldColumns>> {
        let slot = self.readers.get(field).zip(self.listed.get(field));
        let (slot, listed) = slot.ok_or_else(|| Error::argument(format!("no field {field}")))?;
        if let Some(reader) = lock(slot).as_ref().filter(|reader| reader.hidden() == hidden) {
            return Ok(reader.clone());
        }
        // Compiled without the lock, which would stay in a process that is forked meanwhile.
        let used: OnceCell<Arc<Programs>> = OnceCell::new();
        let programs = || {
            let programs = self.programs()?;
            let programs =
                if hidden.is_empty() { programs } else { Arc::new(programs.without(hidden.clone())) };
            Ok(used.get_or_init(|| programs).clone())
        };
        let structure = Compiler::new(&self.schema, &programs).along(listed.field);
        let typename = self.schema.fields.get(listed.field).map_or("", |field| &field.typename);
        let reader = Arc::new(FieldColumns::new(structure, typename, used.get().cloned(), hidden.clone()));
        Ok(if hidden.is_empty() { lock(slot).get_or_insert(reader).clone() } else { reader })
    }

    /// Returns the programs of the classes of streamed fields.
    pub fn programs(&self) -> Result<Arc<Programs>> {
        if let Some(programs) = self.programs.get() {
            return Ok(programs.clone());
        }
        let mut infos = Vec::new();
        for list in &self.schema.streamers {
            let classes = streamed_list(list).within(|| "the streamer info of the RNTuple")?;
            infos.extend(classes.iter().map(|info| info.as_ref().clone()));
        }
        infos.extend(self.file.classes()?.iter().map(|info| info.as_ref().clone()));
        let programs = Arc::new(Programs::new(Arc::new(Classes::new(infos)?)));
        Ok(self.programs.get_or_init(|| programs).clone())
    }

    /// Bytes of each column before and after compression, in the clusters with entries from `start` to `stop`.
    pub fn column_bytes(&self, start: u64, stop: u64) -> Result<Vec<(u64, u64)>> {
        let mut bytes = vec![(0u64, 0u64); self.schema.columns.len()];
        for pages in self.clusters(start, stop)?.iter() {
            let Some(cluster) = pages.cluster() else { continue };
            for (column, (sums, range)) in bytes.iter_mut().zip(&cluster.columns).enumerate() {
                sums.0 = sums.0.saturating_add(self.unpacked_bytes(pages, column));
                for page in pages.list().pages(range) {
                    if let envelope::Locator::File { bytes, .. } = page.locator {
                        sums.1 = sums.1.saturating_add(bytes);
                    }
                }
            }
        }
        Ok(bytes)
    }

    /// Returns the columns of some fields, with the bytes that an element takes in memory. A column of several fields is
    /// read once, but the sizes of lists are numbers of their own in each field.
    fn columns_in_memory(&self, fields: &[usize]) -> Vec<(usize, f64)> {
        let mut columns: Vec<usize> = fields.iter().flat_map(|&field| self.columns_of(field)).collect();
        columns.sort_unstable();
        columns.dedup();
        let mut found: Vec<(usize, f64)> = columns
            .into_iter()
            .filter_map(|id| Some((id, structure::bytes_of(&self.schema, self.schema.columns.get(id)?))))
            .collect();
        for field in fields.iter().filter_map(|&field| self.schema.fields.get(self.listed.get(field)?.field))
        {
            let sizes = structure::bytes_of_sizes(field);
            let column = field.representations.first().and_then(|columns| columns.first());
            let place = column.and_then(|column| found.binary_search_by_key(column, |one| one.0).ok());
            if let Some((_, size)) = place.and_then(|place| found.get_mut(place)) {
                *size += sizes;
            }
        }
        found
    }

    /// Uncompressed bytes of a column in a cluster.
    fn unpacked_bytes(&self, pages: &ClusterPages, column: usize) -> u64 {
        let range = pages.cluster().and_then(|cluster| cluster.columns.get(column));
        let bits = self.schema.columns.get(column).map_or(0, |column| u64::from(column.bits));
        range.map_or(0, |range| pages.list().elements(range).saturating_mul(bits).div_ceil(8))
    }

    fn sum(&self, field: usize, columns: &[(u64, u64)]) -> (u64, u64) {
        let of = self.columns_of(field);
        let found = of.iter().filter_map(|&column| columns.get(column));
        found.fold((0, 0), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)))
    }

    /// Returns the columns of a listed field and of all its descendants.
    pub fn columns_of(&self, field: usize) -> Vec<usize> {
        let mut fields: Vec<usize> = self.listed.get(field).map(|listed| listed.field).into_iter().collect();
        let mut columns = Vec::new();
        while let Some(field) = fields.pop().and_then(|id| self.schema.fields.get(id)) {
            columns.extend(field.representations.iter().flatten());
            fields.extend(&field.children);
        }
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// Returns the location of a page: its cluster, the column that represents the field there, and its index among
    /// that column's pages. `column` is the one of the first representation.
    fn find_page(&self, column: usize, page: usize) -> Option<(ClusterPages, usize, usize)> {
        let (number, index) = (page >> NUMBER_BITS, page & NOT_STORED);
        let mut before = 0;
        let group = self.groups.iter().position(|group| {
            before += group.clusters as usize;
            number < before
        })?;
        let first = before - self.groups.get(group)?.clusters as usize;
        let pages = ClusterPages { list: self.page_list(group).ok()?, index: number - first, number };
        let chosen = pages.cluster()?.representation(&self.representations(column))?;
        Some((pages, chosen, index))
    }

    /// Returns the column of each representation of a field, given that of the first.
    pub(super) fn representations(&self, column: usize) -> Vec<usize> {
        let field = self.schema.columns.get(column).and_then(|column| self.schema.fields.get(column.field));
        let Some(field) = field else { return Vec::new() };
        let first = field.representations.first();
        let place = first.and_then(|first| first.iter().position(|&id| id == column));
        let Some(place) = place else { return Vec::new() };
        field.representations.iter().filter_map(|columns| columns.get(place).copied()).collect()
    }

    /// Returns the columns of the first representation of a listed field and of all its descendants. Each has its
    /// number of elements for an entry, if that number is fixed.
    pub(super) fn columns_with_repetitions(&self, field: usize) -> Vec<(usize, Option<u64>)> {
        let mut found = Vec::new();
        let Some(listed) = self.listed.get(field) else { return found };
        // From the top: the parents of the field determine its number of values and the place of its items.
        let mut above = vec![listed.field];
        while let Some(parent) = above.last().and_then(|&id| self.schema.fields.get(id)?.parent) {
            above.push(parent);
        }
        let mut each = Some(1u64);
        let mut next = Vec::new();
        while let Some(id) = above.pop() {
            if above.is_empty() {
                next.push((id, each));
                break;
            }
            let Some(field) = self.schema.fields.get(id) else { break };
            found.extend(field.representations.first().into_iter().flatten().map(|&id| (id, each)));
            each = field.inside(each);
        }
        while let Some((id, each)) = next.pop() {
            let Some(field) = self.schema.fields.get(id) else { continue };
            let inside = field.inside(each);
            let columns = field.representations.first().into_iter().flatten();
            for (place, &column) in columns.enumerate() {
                let array = field.array_size.is_some() || place > 0;
                found.push((column, if array { inside } else { each }));
            }
            next.extend(field.children.iter().map(|&child| (child, inside)));
        }
        found.sort_unstable();
        found.dedup_by_key(|(column, _)| *column);
        found
    }

    /// Describes its location for errors.
    pub fn place(&self) -> String {
        format!("RNTuple {} of {}", self.name, self.file.name())
    }
}

impl Table for NTuple {
    fn name(&self) -> &str {
        &self.name
    }
    fn title(&self) -> &str {
        &self.description
    }
    fn classname(&self) -> &str {
        NTUPLE
    }
    fn entries(&self) -> u64 {
        self.entries
    }
    fn num_fields(&self) -> usize {
        self.listed.len()
    }
    fn field(&self, field: usize) -> Option<FieldInfo<'_>> {
        let listed = self.listed.get(field)?;
        Some(FieldInfo {
            name: &listed.name,
            title: &self.schema.fields.get(listed.field)?.description,
            parent: listed.parent,
            children: &listed.children,
            entries: self.entries,
        })
    }
    fn field_bytes(&self, field: usize) -> (u64, u64) {
        if let Some(bytes) = self.bytes.get() {
            return self.sum(field, bytes);
        }
        // Read before the lock is taken, which would stay in a process that is forked meanwhile.
        let bytes = self.column_bytes(0, self.entries).unwrap_or_default();
        self.sum(field, self.bytes.get_or_init(|| bytes))
    }
    fn path(&self, field: usize) -> String {
        let mut names = Vec::new();
        let mut next = self.listed.get(field);
        while let Some(listed) = next {
            names.push(listed.name.as_str());
            next = listed.parent.and_then(|parent| self.listed.get(parent));
        }
        names.reverse();
        names.join(".")
    }
    fn reader(&self, field: usize, hidden: &Hidden) -> Result<Arc<dyn FieldReader>> {
        Ok(self.compiled(field, hidden)?)
    }
    fn cluster_borders(&self) -> Vec<u64> {
        // Clusters that cannot be listed are an error when they are read.
        let clusters = self.clusters(0, self.entries).unwrap_or_default();
        let starts = clusters.iter().filter_map(ClusterPages::cluster).map(|cluster| cluster.first_entry);
        let mut borders: Vec<u64> = [0].into_iter().chain(starts).chain([self.entries]).collect();
        borders.dedup();
        borders
    }
    fn pages(&self, field: usize, start: u64, stop: u64, to: &mut Vec<PageListed>) {
        // Clusters that cannot be listed are an error when they are read.
        let (clusters, listed) = self.clusters_and_columns(start, stop).unwrap_or_default();
        for (column, each) in self.columns_with_repetitions(field) {
            let choices = self.representations(column);
            if choices.iter().all(|&id| id >= listed) {
                continue;
            }
            for pages in clusters.iter() {
                let Some(cluster) = pages.cluster() else { continue };
                let chosen = cluster.representation(&choices);
                let Some(range) = chosen.and_then(|id| cluster.columns.get(id)) else { continue };
                let mut first = 0;
                for (index, page) in pages.list().pages(range).iter().enumerate() {
                    let elements = std::mem::replace(&mut first, page.end)..page.end;
                    let entries = match each {
                        Some(each @ 1..) => elements.start / each..elements.end.div_ceil(each),
                        _ => 0..cluster.entries,
                    };
                    let (first, end) =
                        (entries.start + cluster.first_entry, entries.end + cluster.first_entry);
                    if let Some(range) = page.range().filter(|_| first < stop && start < end) {
                        let number = pages.number << NUMBER_BITS | index;
                        to.push(PageListed { column, number, range, first, entries: end - first });
                    }
                }
            }
        }
    }
    fn shared_columns(&self, field: usize) -> Option<Vec<usize>> {
        let columns = self.columns_with_repetitions(field).into_iter().map(|(column, _)| column);
        let columns: Vec<usize> = columns.collect();
        columns.iter().any(|column| self.aliased.contains(column)).then_some(columns)
    }
    fn description(&self, field: usize) -> String {
        let columns = self.columns_with_repetitions(field).into_iter();
        let fields =
            columns.filter_map(|(column, _)| self.schema.fields.get(self.schema.columns.get(column)?.field));
        let stored = fields.flat_map(|one| one.representations.iter().flatten());
        let stored = stored.filter_map(|&column| self.schema.columns.get(column));
        stored
            .map(|one| format!("{} {} {} {:?};", one.kind, one.bits, one.first_element, one.range))
            .collect()
    }
    fn entries_touched(&self, field: usize, start: u64, stop: u64) -> u64 {
        let mut pages = Vec::new();
        self.pages(field, start, stop, &mut pages);
        let first = pages.iter().map(|page| page.first).min().unwrap_or(0);
        pages.iter().map(|page| page.first + page.entries).max().unwrap_or(0) - first
    }
    fn page_range(&self, column: usize, page: usize) -> Option<Range> {
        let (pages, column, index) = self.find_page(column, page)?;
        pages.list().pages(pages.cluster()?.columns.get(column)?).get(index)?.range()
    }
    fn codec(&self, column: usize, page: usize, head: &[u8]) -> Option<u32> {
        let (pages, column, index) = self.find_page(column, page)?;
        let stored = pages.list().pages(pages.cluster()?.columns.get(column)?);
        let found = stored.get(index)?;
        let first = index.checked_sub(1).and_then(|before| stored.get(before)).map_or(0, |page| page.end);
        let encoding = self.schema.columns.get(column)?.encoding.as_ref().ok()?;
        let envelope::Locator::File { bytes, .. } = found.locator else { return None };
        if encoding.stored_bytes(found.end - first)? as u64 == bytes {
            return Some(0);
        }
        decode::codec(head)
    }
    fn longest_entry(&self, _field: usize) -> Result<Option<u64>> {
        Ok(None)
    }
    fn same_shape(&self, other: &dyn Table) -> bool {
        let other: &dyn Any = other;
        other
            .downcast_ref::<Self>()
            .is_some_and(|other| std::ptr::eq(self, other) || self.schema == other.schema)
    }
    fn bytes_in(&self, fields: &[usize], ranges: &[(u64, u64)]) -> Vec<f64> {
        let columns = self.columns_in_memory(fields);
        // Clusters do not list the columns that were added after them. They are zeros there.
        let mut added = Vec::with_capacity(columns.len() + 1);
        added.push(0.0);
        for &(column, size) in columns.iter().rev() {
            let late = self.schema.columns.get(column).is_some_and(|column| !column.starts_suppressed);
            let each = if late { self.schema.repeat(column) } else { 0 };
            added.push(added.last().unwrap_or(&0.0) + each as f64 * size);
        }
        let between = |&(start, stop): &(u64, u64)| {
            let mut sum = 0.0;
            for pages in self.clusters(start, stop).unwrap_or_default().iter() {
                let Some(cluster) = pages.cluster() else { continue };
                let end = cluster.first_entry + cluster.entries;
                let some = stop.min(end).saturating_sub(start.max(cluster.first_entry)) as f64;
                let (listed, others) =
                    columns.split_at(columns.partition_point(|&(column, _)| column < cluster.columns.len()));
                let bytes = listed.iter().filter_map(|&(column, size)| {
                    Some(pages.list().elements(cluster.columns.get(column)?) as f64 * size)
                });
                sum += bytes.sum::<f64>() * some / cluster.entries.max(1) as f64;
                sum += added.get(others.len()).unwrap_or(&0.0) * some;
            }
            sum
        };
        ranges.iter().map(between).collect()
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
        format!("field {} of {}", self.path(field), Self::place(self))
    }
    fn page_place(&self, column: usize, page: &PageWanted) -> String {
        let cluster = page.number >> NUMBER_BITS;
        let number = page.number & NOT_STORED;
        let offset = page.range().offset;
        format!(
            "page {number} (byte {offset}) of column {} in cluster {cluster} of {}",
            self.column_name(column),
            Self::place(self)
        )
    }
    fn column_name(&self, column: usize) -> String {
        match self.schema.columns.get(column) {
            Some(found) => format!("{column} of {}", self.schema.path(found.field)),
            None => column.to_string(),
        }
    }
}

/// Parses a `TList` of `TStreamerInfo` behind a pointer.
fn streamed_list(bytes: &[u8]) -> Result<Classes> {
    let mut c = Cursor::new(bytes, 0);
    match c.pointer()? {
        Pointer::New { .. } => Classes::parse(c.rest(), c.place()),
        _ => Err(Error::corrupt("the list of streamer info is missing").at(0)),
    }
}

/// A cluster and its pages.
#[derive(Clone)]
pub struct ClusterPages {
    list: Arc<PageList>,
    index: usize,
    /// Its index in the RNTuple.
    pub number: usize,
}

impl ClusterPages {
    /// Creates it for a cluster of a page list; `number` is its index in the RNTuple.
    pub(super) fn new(list: Arc<PageList>, index: usize, number: usize) -> Self {
        Self { list, index, number }
    }
    /// The page list that contains it.
    pub fn list(&self) -> &PageList {
        &self.list
    }
    /// The cluster.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.list.clusters.get(self.index)
    }
}
