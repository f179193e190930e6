//! A file being written, with the tables that go into it, whatever their formats.

use crate::array::Column;
use crate::array::extremes::{Collector, Measured, Zones};
use crate::compress::encode::Compression;
use crate::error::{Error, ErrorKind, Result, Within};
use crate::file::writer::{DirectoryId, FileWriter, Held, Options};
use crate::file::{Key, RootFile, kinds};
use crate::ntuple::NTuple;
use crate::ntuple::anchor::Anchor;
use crate::ntuple::envelope::Locator;
use crate::ntuple::verify::verify;
use crate::streamer::{Classes, ElementClass};
use crate::table::writer::TableWriter;
use crate::tree::Tree;
use crate::tree::writer::JoinedTree;
use crate::wire::Cursor;
use crate::wire::grow;
use sapwood_io::Cause;
use sapwood_io::sink::Sink;
use std::any::Any;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Bytes of a basket that are read for its key.
const BASKET_KEY: u64 = 4096;

/// A file and the tables being written to it.
pub struct OutputFile {
    /// The file.
    pub file: FileWriter,
    /// None for those that are finished.
    tables: Vec<Option<Box<dyn TableWriter>>>,
    /// The statistics of tables that get an index.
    collectors: HashMap<usize, Collector>,
    /// Trees made of the baskets of others.
    joined: Vec<JoinedTree>,
    closed: bool,
}

fn finished() -> Error {
    Error::argument("this table was closed when branches were added to it; get it from the file again")
}

/// Where the baskets of a tree lie in its own file, and how long they are.
fn baskets(file: &Arc<RootFile>, key: &Key) -> Result<Vec<(u64, u64)>> {
    let tree = Tree::read(file, key)?;
    let own = tree.branches.iter().filter(|b| b.other_file.is_empty());
    grow::collected(own.flat_map(|b| &b.baskets).map(|b| (b.seek(), b.bytes())))
}

/// The data of a key's object in addition to its record.
fn holdings(file: &Arc<RootFile>, classes: &Classes, key: &Key) -> Result<Held> {
    if is_tree(classes, &key.classname) {
        return match baskets(file, key) {
            Ok(mut places) => {
                places.iter_mut().for_each(|(seek, end)| *end = seek.saturating_add(*end));
                Ok(Held::Places(places))
            }
            Err(error) if error.kind() == ErrorKind::Limit => Err(error),
            Err(_) => Ok(Held::Unknown),
        };
    }
    if !kinds::is_ntuple(&key.classname) {
        return Ok(Held::Places(Vec::new()));
    }
    // The pages of an RNTuple are described by records of its own, which are read only if there are bytes after the end
    // of the file: a writer that was killed leaves its last bytes there.
    let ended = file.header().end >= file.source().size();
    let end = || NTuple::read(file, key).ok().and_then(|ntuple| end_of(&ntuple, true));
    Ok(if ended { None } else { end() }.map_or(Held::Unknown, Held::Before))
}

/// The end of the last part of an RNTuple, its attribute sets included; none if that cannot be found out.
fn end_of(ntuple: &NTuple, with_sets: bool) -> Option<u64> {
    let found = verify(ntuple, false);
    let Anchor { header, footer, max_key_size, .. } = ntuple.anchor;
    // Parts larger than a key continue elsewhere.
    let mut stored = ntuple.groups.iter().map(|group| match group.locator {
        Locator::File { bytes, .. } => bytes,
        Locator::Elsewhere(_) => u64::MAX,
    });
    let split = |bytes: u64| max_key_size > 0 && bytes > max_key_size;
    if !found.faults.is_empty() || split(header.stored) || split(footer.stored) || stored.any(split) {
        return None;
    }
    let mut end = found.used.iter().map(|range| range.offset.saturating_add(range.length)).max().unwrap_or(0);
    for set in ntuple.attributes.iter().filter(|_| with_sets) {
        let Locator::File { offset, bytes } = set.locator else { return None };
        end =
            end.max(offset.saturating_add(bytes)).max(end_of(&ntuple.attribute_set(&set.name).ok()?, false)?);
    }
    Some(end)
}

fn is_tree(classes: &Classes, class: &str) -> bool {
    let (mut todo, mut seen) = (vec![class], HashSet::new());
    while let Some(class) = todo.pop() {
        if kinds::is_tree(class) {
            return true;
        }
        if let Some(info) = classes.latest(class).filter(|_| seen.insert(class)) {
            let bases = info.elements.iter().filter(|e| e.class == ElementClass::Base);
            todo.extend(bases.map(|base| &*base.name));
        }
    }
    false
}

impl OutputFile {
    /// Around a fresh file.
    pub fn new(file: FileWriter) -> Self {
        Self { file, tables: Vec::new(), collectors: HashMap::new(), joined: Vec::new(), closed: false }
    }
    /// Continues a file, as [`FileWriter::update`] does.
    pub fn update(
        file: &Arc<RootFile>,
        sink: Box<dyn Sink>,
        compression: Option<Compression>,
        options: Options,
    ) -> Result<Self> {
        let place = || file.name().to_owned();
        let classes = file.classes().within(place)?;
        let holdings = |key: &Key| holdings(file, &classes, key);
        FileWriter::update(file, sink, compression, options, &holdings).map(Self::new).within(place)
    }
    /// Adds a table; returns its number.
    pub fn add(&mut self, table: impl TableWriter) -> usize {
        self.tables.push(Some(Box::new(table)));
        self.tables.len() - 1
    }
    /// Begins a tree that is made of the baskets of others, laid out like that of a key; returns its number.
    pub fn join_tree(
        &mut self,
        directory: DirectoryId,
        name: &str,
        source: &Arc<RootFile>,
        key: &Key,
        compression: Option<Compression>,
    ) -> Result<usize> {
        let tree = JoinedTree::new(&mut self.file, directory, name, source, key, compression)?;
        self.joined.push(tree);
        Ok(self.joined.len() - 1)
    }
    /// Notes the state of all such trees, or goes back to it.
    pub fn mark_joined(&mut self, back: bool) {
        let each = self.joined.iter_mut();
        each.for_each(|tree| if back { tree.roll_back() } else { tree.mark() });
    }
    /// Such a tree and the file it goes to.
    pub fn joined_mut(&mut self, tree: usize) -> Result<(&mut JoinedTree, &mut FileWriter)> {
        let found =
            self.joined.get_mut(tree).ok_or_else(|| Error::not_found(format!("no joined tree {tree}")))?;
        Ok((found, &mut self.file))
    }
    /// Deletes the records of a name as [`FileWriter::delete`] does, and with them the baskets of the trees among them,
    /// which `doomed` are the keys of. Those stay that a tree of `kept` has, too, as older cycles of one name do.
    pub fn delete(
        &mut self,
        directory: DirectoryId,
        name: &str,
        cycle: Option<u16>,
        source: &Arc<RootFile>,
        [doomed, kept]: [&[Key]; 2],
    ) -> Result<()> {
        let kept: Result<Vec<_>> = kept.iter().map(|key| baskets(source, key)).collect();
        // A tree that cannot be read may have any of them.
        let (found, kept): (BTreeSet<(u64, u64)>, Vec<_>) = match kept {
            Ok(kept) => {
                let found = doomed.iter().filter_map(|key| baskets(source, key).ok()).flatten();
                (found.collect(), kept)
            }
            Err(_) => Default::default(),
        };
        let is_basket = |(seek, bytes): &(u64, u64)| {
            let head = source.head(*seek, (*bytes).min(BASKET_KEY), Cause::Directory).unwrap_or_default();
            Key::parse(&mut Cursor::new(&head, *seek)).is_ok_and(|key| {
                key.classname == "TBasket" && key.seek == *seek && u64::from(key.total_bytes) == *bytes
            })
        };
        let records = grow::collected(found.into_iter().filter(is_basket))?;
        self.file.delete(directory, name, cycle)?;
        self.file.release_records(records, kept.into_iter().flatten())
    }
    /// A table by its number.
    pub fn table(&self, table: usize) -> Result<&dyn TableWriter> {
        self.tables.get(table).and_then(Option::as_deref).ok_or_else(finished)
    }
    /// Refuses a file that was closed, maybe by another thread: what a table took would never be written.
    pub fn check_open(&self) -> Result<()> {
        if self.closed { Err(Error::argument("cannot write to a closed file")) } else { Ok(()) }
    }
    /// A table and the file it goes to.
    pub fn table_mut(&mut self, table: usize) -> Result<(&mut dyn TableWriter, &mut FileWriter)> {
        let found = self.tables.get_mut(table).and_then(Option::as_deref_mut).ok_or_else(finished)?;
        Ok((found, &mut self.file))
    }
    /// The same of a table of one format.
    pub fn writer<T: TableWriter>(&mut self, table: usize) -> Result<(&mut T, &mut FileWriter)> {
        let (found, file) = self.table_mut(table)?;
        let found: &mut dyn Any = found;
        let found = found.downcast_mut();
        Ok((found.ok_or_else(|| Error::argument("a table of another format"))?, file))
    }
    /// Adds entries to a table, as [`TableWriter::extend`] does.
    pub fn extend(&mut self, table: usize, columns: &[Column]) -> Result<()> {
        self.check_open()?;
        let found = self.tables.get_mut(table).and_then(Option::as_deref_mut).ok_or_else(finished)?;
        let (entries, written) = (found.entries(), found.entries_written());
        // Copied clusters were not examined.
        let Some(collector) = self.collectors.get_mut(&table).filter(|one| one.entries() == entries) else {
            return found.extend(&mut self.file, columns);
        };
        let mut collecting = collector.begin(columns)?;
        found.extend_collecting(&mut self.file, columns, &mut collecting)?;
        collector.add(collecting, written < entries)
    }
    /// Collects the statistics of a table that has no entries yet.
    pub fn collect(&mut self, table: usize, parts: Vec<Measured>) {
        self.collectors.insert(table, Collector::new(parts));
    }
    /// Returns the first entry of each cluster of a table and the end, and the statistics of each part in the clusters;
    /// None if they are not those of all entries. Entries that wait are the last cluster.
    pub fn zones(&self, table: usize) -> Option<(&[u64], Vec<Option<Zones>>)> {
        let entries = self.table(table).ok()?.entries();
        self.collectors.get(&table).filter(|one| one.entries() == entries).map(Collector::zones)
    }
    /// Writes all that waits of a table, makes it part of the readable file, and takes no more.
    pub fn finish(&mut self, table: usize) -> Result<()> {
        let (found, file) = self.table_mut(table)?;
        found.flush(file)?;
        self.save()?;
        if let Some(found) = self.tables.get_mut(table) {
            *found = None;
        }
        Ok(())
    }
    /// Makes all that was given part of the readable file: what waits becomes a cluster, however small.
    pub fn commit(&mut self) -> Result<()> {
        for table in self.tables.iter_mut().flatten() {
            table.flush(&mut self.file)?;
        }
        self.save()
    }
    /// Makes all full clusters part of the readable file.
    fn save(&mut self) -> Result<()> {
        for table in self.tables.iter_mut().flatten() {
            table.save(&mut self.file)?;
        }
        for tree in &mut self.joined {
            tree.save(&mut self.file)?;
        }
        self.file.commit()
    }
    /// Releases the storage without writing; pending data are lost.
    pub fn abandon(&mut self) {
        self.closed = true;
        self.file.release();
    }
    /// Releases the storage as of its last commit.
    pub fn roll_back(&mut self) -> Result<()> {
        self.closed = true;
        let undone = self.file.roll_back();
        self.file.release();
        undone
    }
    /// Writes all that waits and makes it part of the readable file. An error comes after everything that could be
    /// saved is.
    pub fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        self.file.begin_closing();
        let mut first = Ok(());
        let failed = self.tables.iter().flatten().find_map(|table| table.failure());
        if let Some(reason) = failed.filter(|_| self.file.is_atomic()) {
            let text = format!("an earlier write failed ({reason}), so the file was discarded");
            first = Err(Error::new(ErrorKind::Io, text));
        }
        for table in self.tables.iter_mut().flatten() {
            let flushed = table.flush(&mut self.file);
            first = first.and(flushed);
            table.close(&self.file);
        }
        let nothing = first.is_err() && self.file.is_atomic();
        let committed = if nothing { self.file.roll_back() } else { self.save() };
        self.file.release();
        first.and(committed)
    }
}
