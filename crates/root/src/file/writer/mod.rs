//! A file being written: header, directories, keys, free segments, streamer info.
//!
//! Records are only appended, or placed in segments that no readable state of the file refers to.
//! [`FileWriter::commit`] writes key lists, streamer info and free segments to new places. It then writes the small
//! records that point to them, the file's header last. The file is therefore valid after each commit, whatever happens
//! before the next one.

use crate::compress::encode::Compression;
use crate::error::{Error, Result, Within};
use crate::file::checksums::{Checksums, Written};
use crate::file::kinds::BLOB;
use crate::streamer::encode::{classes_of, encode_object};
use crate::streamer::{Object, StreamerInfo};
use crate::wire::grow::{self, Grow};
use crate::wire::writer::Writer;
use sapwood_io::Source;
use sapwood_io::sink::{MemorySink, Sink};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Position of the first record (`fBEGIN`).
const BEGIN: u64 = 100;
/// Positions from this one on are written with 64 bits (`TFile::kStartBigFile`).
pub const START_BIG: u64 = 2_000_000_000;
/// ROOT version in the header (`fVersion`), whose formats are written.
const VERSION: u32 = 64_000;
/// Bytes of a directory's record: 30, the UUID, and room to grow to 64-bit positions.
const DIRECTORY_BYTES: usize = 60;
/// Maximum size of an object that is not compressed, as in ROOT.
const SMALL: usize = 256;
/// Upper estimate of the bytes of streamer info and free segments at closing.
const CLOSING: usize = 64 << 10;
/// Files above this size can take some extra records without noticeable growth.
const LARGE: u64 = 4 << 20;
/// Distance from the end of the file that a reader of a remote file fetches with its first request, with a margin.
const NEAR: u64 = 128 << 10;

/// Settings of a whole file.
#[derive(Debug, Clone)]
pub struct Options {
    /// Compression of objects, and of fields without a setting of their own.
    pub compression: Compression,
    /// Title of the file.
    pub title: String,
    /// UUID; random if not given.
    pub uuid: Option<[u8; 16]>,
    /// Offset of local time from UTC in seconds; ROOT's dates are local.
    pub utc_offset: i64,
    /// Fixed date of all records in ROOT's packed form (`TDatime`), in place of the current time.
    pub datime: Option<u32>,
    /// When clusters become part of the readable file.
    pub commit_every: CommitEvery,
    /// Whether to keep nothing of a file that could not be written completely.
    pub atomic: bool,
}

/// When written clusters become visible to readers of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitEvery {
    /// After each cluster.
    Cluster,
    /// After the first cluster that ends this many bytes after the last commit.
    Bytes(u64),
    /// On request and at the end.
    Never,
}

impl Default for Options {
    fn default() -> Self {
        let compression = Compression::Level(crate::compress::encode::Algorithm::Zstd, 5);
        Self {
            compression,
            title: String::new(),
            uuid: None,
            utc_offset: 0,
            datime: None,
            commit_every: CommitEvery::Cluster,
            atomic: false,
        }
    }
}

/// Identifies a directory of the file; 0 is the root directory.
pub type DirectoryId = usize;

/// Identifies a record: the directory, and a number that does not change when other records are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(DirectoryId, u64);

#[derive(Debug)]
struct Entry {
    id: u64,
    text: KeyText,
    numbers: KeyNumbers,
    /// The key as another writer wrote it, to be kept.
    raw: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Directory {
    /// Position of its record (`fSeekDir`).
    seek: u64,
    parent: u64,
    /// Bytes from `seek` to the directory's own record (`fNbytesName`).
    nbytes_name: usize,
    text: KeyText,
    created: u32,
    uuid: [u8; 16],
    entries: Vec<Entry>,
    /// The last cycle of each name.
    cycles: HashMap<String, u16>,
    children: HashMap<String, DirectoryId>,
    /// Position and length of the key list.
    keys: (u64, usize),
    /// Bytes reserved for its record.
    room: usize,
    changed: bool,
    /// Whether it was deleted with its contents.
    gone: bool,
}

impl Directory {
    /// Creates an empty directory.
    fn new(seek: u64, parent: u64, nbytes_name: usize, text: KeyText, created: u32, uuid: [u8; 16]) -> Self {
        Self {
            seek,
            parent,
            nbytes_name,
            text,
            created,
            uuid,
            entries: Vec::new(),
            cycles: HashMap::new(),
            children: HashMap::new(),
            keys: (0, 0),
            room: DIRECTORY_BYTES,
            changed: true,
            gone: false,
        }
    }
}

/// A listed object of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Name.
    pub name: String,
    /// Cycle.
    pub cycle: u16,
    /// Class.
    pub class: String,
    /// Title.
    pub title: String,
}

/// Placeholder for the storage of a closed file.
struct Released(String);

impl Sink for Released {
    fn write_at(&mut self, _: u64, _: &[&[u8]]) -> std::io::Result<()> {
        Err(std::io::Error::other("the file is closed"))
    }
    fn finish(&mut self, _: u64) -> std::io::Result<()> {
        Err(std::io::Error::other("the file is closed"))
    }
    fn name(&self) -> &str {
        &self.0
    }
}

/// A file open for writing.
pub struct FileWriter {
    sink: Box<dyn Sink>,
    options: Options,
    end: u64,
    /// Free segments: first byte to one past the last.
    free: BTreeMap<u64, u64>,
    /// Segments left out on purpose.
    gaps: Vec<(u64, u64)>,
    /// Segments that become free with the next commit.
    released: BTreeSet<(u64, u64)>,
    /// An updated file, for reading.
    before: Option<Arc<dyn Source>>,
    /// Ranges of an updated file that two records claim, because a length or position is damaged; never freed.
    shared: Vec<(u64, u64)>,
    directories: Vec<Directory>,
    classes: Vec<String>,
    /// Classes that are not ROOT's own.
    described: Vec<Arc<StreamerInfo>>,
    infos: (u64, usize),
    /// The streamer info that the file already had.
    old_infos: Option<Record>,
    infos_changed: bool,
    /// ROOT version in the file header (`fVersion`).
    version: u32,
    /// Key, name and title before the root directory's record.
    lead: Vec<u8>,
    segments: (u64, usize),
    /// Bytes of clusters since the last commit.
    uncommitted: u64,
    /// End of the file when it was opened.
    opened: u64,
    /// End of the file, and its free segments, at the last commit.
    last: Option<(u64, BTreeMap<u64, u64>)>,
    /// The records that commits rewrite in place, by position, as of the last commit: the header with the root
    /// directory, and the other directories.
    heads: BTreeMap<u64, Vec<u8>>,
    /// Positions of those that an unfinished commit has rewritten.
    rewritten: Vec<u64>,
    /// Whether everything is written to the end of the file, even if there are free segments.
    closing: bool,
    next_id: u64,
    /// Bytes needed by records that are written at the end.
    needs: HashMap<KeyId, usize>,
    /// Checksums of the written records, if they are requested.
    written: Option<Written>,
    scratch: Vec<u8>,
}

impl FileWriter {
    /// Whether nothing of the file is kept if it cannot be written completely.
    pub const fn is_atomic(&self) -> bool {
        self.options.atomic
    }
    /// From now on, keeps either everything that is written until the file is closed, or nothing of it.
    pub fn set_atomic(&mut self) {
        self.options.atomic = true;
        self.options.commit_every = CommitEvery::Never;
    }
    /// A file without any record.
    fn empty(sink: Box<dyn Sink>, options: Options) -> Self {
        Self {
            sink,
            end: BEGIN,
            free: BTreeMap::new(),
            gaps: Vec::new(),
            released: BTreeSet::new(),
            before: None,
            shared: Vec::new(),
            directories: Vec::new(),
            classes: Vec::new(),
            described: Vec::new(),
            infos: (0, 0),
            old_infos: None,
            version: VERSION,
            lead: Vec::new(),
            infos_changed: true,
            segments: (0, 0),
            uncommitted: 0,
            opened: 0,
            last: None,
            heads: BTreeMap::new(),
            rewritten: Vec::new(),
            closing: false,
            next_id: 0,
            needs: HashMap::new(),
            written: None,
            scratch: Vec::new(),
            options,
        }
    }
    /// Creates a file. `name` is the name stored in the file, by convention its path.
    pub fn create(sink: Box<dyn Sink>, name: &str, options: Options) -> Result<Self> {
        let mut file = Self::empty(sink, options);
        let text = KeyText::new("TFile", name, &file.options.title);
        let names = Writer::string_size(&text.name) + Writer::string_size(&text.title);
        let created = file.datime();
        let key_bytes = text.size(false);
        let object_bytes = names + DIRECTORY_BYTES;
        let nbytes_name = key_bytes + names;
        let numbers = KeyNumbers {
            total_bytes: key_bytes + object_bytes,
            object_bytes,
            datime: created,
            key_bytes,
            cycle: 1,
            seek: BEGIN,
            ..KeyNumbers::default()
        };
        let mut lead = Writer::new(0);
        encode_key(&mut lead, &text, &numbers)?;
        lead.string(&text.name);
        lead.string(&text.title);
        file.lead = lead.into_bytes()?;
        let uuid = file.options.uuid.unwrap_or_else(random_uuid);
        file.end += (key_bytes + object_bytes) as u64;
        file.directories.push(Directory::new(BEGIN, 0, nbytes_name, text, created, uuid));
        // From this point on, there is always a readable file. One write makes it: a reader sees no part of it.
        let memory = MemorySink::new();
        let sink = std::mem::replace(&mut file.sink, Box::new(memory.clone()));
        let committed = file.commit();
        file.sink = sink;
        committed?;
        file.put(0, &[memory.bytes().as_slice()])?;
        file.sink.finish(file.end).within(|| file.sink.name().to_owned())?;
        Ok(file)
    }

    /// Collects checksums of the records that are written from now on, besides those known already. Does nothing if
    /// they are collected.
    pub fn keep_checksums(&mut self, known: Written) {
        self.written.get_or_insert(known);
    }
    /// The checksums collected so far.
    pub fn written(&self) -> Option<&Written> {
        self.written.as_ref()
    }
    /// Checksums for readers of the file while it is written, if they are collected. The header and the records of
    /// directories have none, because they are rewritten in place.
    pub fn lasting_checksums(&self) -> Option<Checksums> {
        let rewritten: HashSet<u64> = self.directories.iter().map(|directory| directory.seek).collect();
        let lasting = |offset: u64| offset >= BEGIN && !rewritten.contains(&offset);
        self.written.as_ref().map(|written| written.filtered(lasting))
    }
    /// Name of the storage.
    pub fn name(&self) -> &str {
        self.sink.name()
    }
    /// Compression of later writes.
    pub fn compression(&self) -> Compression {
        self.options.compression
    }
    /// Sets the compression of later writes.
    pub fn set_compression(&mut self, compression: Compression) {
        self.options.compression = compression;
    }
    /// One past the last record (`fEND`).
    pub fn end(&self) -> u64 {
        self.end
    }
    /// Current date for records.
    pub fn datime(&self) -> u32 {
        self.options.datime.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
            datime(now + self.options.utc_offset)
        })
    }
    /// Position of a directory (`fSeekDir`), which is the `fSeekPdir` of its contents.
    pub fn seek_of(&self, directory: DirectoryId) -> u64 {
        self.directories.get(directory).map_or(BEGIN, |d| d.seek)
    }
    /// Lists the contents of a directory in the order of its key list.
    pub fn list(&self, directory: DirectoryId) -> Result<Vec<Listed>> {
        let entries = self.directories.get(directory).map_or(&[][..], |d| &d.entries);
        let listed = |e: &Entry| Listed {
            name: e.text.name.clone(),
            cycle: e.numbers.cycle,
            class: e.text.class.clone(),
            title: e.text.title.clone(),
        };
        grow::collected(entries.iter().map(listed))
    }
    /// Finds a subdirectory.
    pub fn find(&self, parent: DirectoryId, name: &str) -> Option<DirectoryId> {
        self.directories.get(parent)?.children.get(name).copied()
    }
    /// Registers the streamer info of a ROOT class, and of all classes it needs, to be written with the file.
    pub fn use_class(&mut self, class: &str) {
        if !self.classes.iter().any(|known| known == class) {
            self.classes.push(class.to_owned());
            self.infos_changed = true;
        }
    }

    /// Registers a class that is not ROOT's own to be written with the file.
    pub fn describe(&mut self, info: impl Into<Arc<StreamerInfo>>) -> Result<()> {
        let info = info.into();
        if self.described.iter().any(|known| Arc::ptr_eq(known, &info)) {
            return Ok(());
        }
        self.check_infos(std::slice::from_ref(&info))?;
        if !self.described.contains(&info) {
            self.described.push(info);
            self.infos_changed = true;
        }
        Ok(())
    }
    /// Refuses a class that the file already has in the same version with other members.
    pub fn check_infos(&self, infos: &[impl Borrow<StreamerInfo>]) -> Result<()> {
        let same = |a: &StreamerInfo, b: &StreamerInfo| (&a.name, a.version) == (&b.name, b.version);
        for info in infos {
            let info = info.borrow();
            if let Some(known) = self.described.iter().find(|known| same(known, info))
                && known.checksum != info.checksum
            {
                return Err(Error::argument(format!(
                    "the file has a class {} of version {} with other members; choose another version",
                    info.name, info.version
                )));
            }
        }
        Ok(())
    }

    /// Creates a subdirectory, or returns the existing one.
    pub fn mkdir(&mut self, parent: DirectoryId, name: &str, title: &str) -> Result<DirectoryId> {
        check_name(name)?;
        if let Some(known) = self.find(parent, name) {
            return Ok(known);
        }
        let holder = self.directory(parent)?;
        let seek_parent = holder.seek;
        if holder.cycles.contains_key(name) {
            return Err(Error::argument(format!(
                "cannot make a directory {name:?}: an object has that name"
            )));
        }
        let text = KeyText::new("TDirectory", name, title);
        let big = self.big(0);
        let key_bytes = text.size(big);
        let seek = self.allocate(key_bytes + DIRECTORY_BYTES)?;
        let created = self.datime();
        let numbers = KeyNumbers {
            total_bytes: key_bytes + DIRECTORY_BYTES,
            object_bytes: DIRECTORY_BYTES,
            datime: created,
            key_bytes,
            cycle: 1,
            seek,
            seek_parent,
            big,
        };
        let mut w = Writer::new(0);
        encode_key(&mut w, &text, &numbers)?;
        w.raw(&[0; DIRECTORY_BYTES]);
        let bytes = w.bytes()?;
        self.directories.room(1)?;
        self.put_new(seek, &[bytes])?;
        let id = self.directories.len();
        let uuid = self.options.uuid.map_or_else(random_uuid, |uuid| nth_uuid(uuid, id));
        self.directories.push(Directory::new(seek, seek_parent, key_bytes, text.clone(), created, uuid));
        self.enter(parent, text, numbers)?;
        if let Some(holder) = self.directories.get_mut(parent) {
            holder.children.insert(name.to_owned(), id);
        }
        Ok(id)
    }

    /// Reserves a name in a directory, with its next cycle, for a later record.
    pub fn reserve(&mut self, directory: DirectoryId, class: &str, name: &str, title: &str) -> Result<KeyId> {
        check_name(name)?;
        if self.find(directory, name).is_some() {
            return Err(Error::argument(format!(
                "cannot write a {class} {name:?}: a directory has that name"
            )));
        }
        let text = KeyText::new(class, name, title);
        let cycle = self.directory(directory)?.cycles.get(name).copied().unwrap_or(0);
        let cycle = cycle.checked_add(1).filter(|c| *c < 0x8000);
        let cycle = cycle.ok_or_else(|| Error::limit(format!("more than 32767 cycles of {name:?}")))?;
        let seek_parent = self.seek_of(directory);
        let numbers = KeyNumbers { cycle, seek_parent, ..KeyNumbers::default() };
        self.use_class(class);
        self.enter(directory, text, numbers)
    }

    /// Writes the record of a reserved key, or replaces its last one. `encode` gets the length of the key; references
    /// in the object count from the start of the key.
    pub fn write(&mut self, key: KeyId, encode: impl FnOnce(usize) -> Result<Vec<u8>>) -> Result<()> {
        let big = self.big(1 << 30);
        let entry = self.entry(key)?;
        let (text, old) = (entry.text.clone(), entry.numbers);
        let owned = old.seek != 0 && self.owns(entry);
        let object = encode(text.size(big)).within(|| format!("{} {}", text.class, text.name))?;
        // A record that is rewritten repeatedly grows. Spare room makes its segment reusable two writes later.
        let again = old.seek != 0;
        let growing = again && !self.closing;
        let numbers = self.record(&text, &KeyNumbers { big, ..old }, &object, growing)?;
        if owned {
            self.released.insert((old.seek, old.seek + old.total_bytes as u64));
        }
        if let Some(directory) = self.directories.get_mut(key.0) {
            directory.changed = true;
            if let Some(entry) = directory.entries.iter_mut().rfind(|e| e.id == key.1) {
                entry.numbers = numbers;
                entry.raw = None;
            }
        }
        Ok(())
    }

    /// Writes an object under a name. An existing object of that name keeps its lower cycle.
    pub fn write_object(
        &mut self,
        directory: DirectoryId,
        name: &str,
        title: &str,
        object: &Object,
    ) -> Result<()> {
        // Detect an error before the name is taken, so that a failed object leaves no trace.
        encode_object(object, 0).within(|| format!("{} {name}", object.class))?;
        let key = self.reserve(directory, &object.class, name, title)?;
        let mut classes = Vec::new();
        classes_of(object, &mut classes);
        for class in &classes {
            self.use_class(class);
        }
        self.write(key, |displacement| encode_object(object, displacement))
    }

    /// Deletes the records of a name: one cycle or all cycles. A directory is deleted with its contents. The bytes
    /// become free with the next commit. For a tree, only those of its description become free.
    pub fn delete(&mut self, directory: DirectoryId, name: &str, cycle: Option<u16>) -> Result<()> {
        let child = self.find(directory, name);
        let holder =
            self.directories.get_mut(directory).ok_or_else(|| Error::not_found("no such directory"))?;
        let wanted = |e: &Entry| e.text.name == name && cycle.is_none_or(|c| c == e.numbers.cycle);
        if !holder.entries.iter().any(wanted) {
            let cycle = cycle.map_or(String::new(), |c| format!(";{c}"));
            return Err(Error::not_found(format!("there is no object {name}{cycle}")));
        }
        let count = holder.entries.iter().filter(|e| wanted(e)).count();
        let mut gone: Vec<Entry> = grow::with_room(count)?;
        gone.extend(holder.entries.extract_if(.., |e| wanted(e)));
        holder.changed = true;
        match holder.entries.iter().filter(|e| e.text.name == name).map(|e| e.numbers.cycle).max() {
            Some(last) => holder.cycles.insert(name.to_owned(), last),
            None => holder.cycles.remove(name),
        };
        if let Some(child) = child {
            holder.children.remove(name);
            // All cycles of a name are deleted together.
            while let Some(inner) = self.directory(child)?.entries.last().map(|entry| entry.text.name.clone())
            {
                self.delete(child, &inner, None)?;
            }
            if let Some(child) = self.directories.get_mut(child) {
                child.gone = true;
                child.changed = false;
                let (seek, bytes) = std::mem::take(&mut child.keys);
                if seek != 0 {
                    self.released.insert((seek, seek + bytes as u64));
                }
            }
        }
        for entry in gone {
            if entry.numbers.seek != 0 && self.owns(&entry) {
                let n = entry.numbers;
                self.released.insert((n.seek, n.seek + n.total_bytes as u64));
            }
        }
        Ok(())
    }

    /// Leaves a gap before the next record; readers see it as a free segment. Used for alignment, and for tests of
    /// large files.
    pub fn leave_gap(&mut self, bytes: u64) {
        if bytes > 0 {
            self.gaps.push((self.end, self.end + bytes));
            self.end += bytes;
        }
    }

    /// Announces that the next commit is the last one. In a large new file, everything needed to open it (key lists,
    /// trees, classes) is then placed at the end, so that one request from remote storage returns it.
    pub fn begin_closing(&mut self) {
        self.options.commit_every = CommitEvery::Never;
        self.closing = self.opened == 0 && self.end > LARGE;
        self.infos_changed |= self.closing && self.infos.0 != 0 && self.end - self.infos.0 > NEAR;
    }
    /// Whether an object should be rewritten before the last commit because it is far from the end.
    pub fn is_far(&self, key: KeyId) -> bool {
        let numbers = self.entry(key).map(|entry| entry.numbers).unwrap_or_default();
        self.is_distant((numbers.seek, numbers.seek + numbers.total_bytes as u64))
    }
    /// The same for a record, given its first byte and its end.
    pub fn is_distant(&self, (start, end): (u64, u64)) -> bool {
        self.closing && start != 0 && self.end - end > NEAR
    }

    /// Bytes of the key of a record that no directory lists.
    pub fn blob_key_bytes(&self) -> usize {
        KeyText::new(BLOB, "", "").size(true)
    }
    /// Returns the key of a record at `seek` that no directory lists and that has this many bytes.
    pub fn blob_key(&self, seek: u64, bytes: usize) -> Result<Vec<u8>> {
        let text = KeyText::new(BLOB, "", "");
        let key_bytes = text.size(true);
        let numbers = KeyNumbers {
            total_bytes: key_bytes + bytes,
            object_bytes: bytes,
            datime: self.datime(),
            key_bytes,
            cycle: 1,
            seek,
            seek_parent: BEGIN,
            big: true,
        };
        let mut w = Writer::new(0);
        encode_key(&mut w, &text, &numbers)?;
        w.into_bytes()
    }
    /// Writes a record that no directory lists to a new place; returns its range and the position of its content.
    pub fn write_blob(&mut self, body: &[u8]) -> Result<((u64, u64), u64)> {
        let size = self.blob_key_bytes() + body.len();
        let seek = self.allocate(size)?;
        let key = self.blob_key(seek, body.len())?;
        self.put_new(seek, &[&key, body])?;
        Ok(((seek, seek + size as u64), seek + key.len() as u64))
    }
    /// Frees a record that no directory lists, from its first byte to its end, with the next commit.
    pub fn release_record(&mut self, record: (u64, u64)) {
        self.released.insert(record);
    }
    /// Describes what the file keeps of a table after an error that ended its writing. A new file that keeps nothing is
    /// removed.
    pub fn kept(&mut self, table: &str, written: u64, lost: u64) -> String {
        if self.options.atomic {
            let kept = if self.opened > 0 {
                "the changes were discarded, and the file is as it was before them"
            } else {
                self.sink.discard();
                "the file was discarded, and the file at its path did not change"
            };
            return format!("0 entries of {table} are safe: {kept}");
        }
        if self.sink.check_kept().is_err() {
            return format!("{written} entries of {table} had been written, {lost} more were not");
        }
        format!("{written} entries of {table} are safe, {lost} more were not written")
    }

    /// Undoes what was written since the last commit: restores the records that were rewritten in place, cuts off what
    /// lies after its end, and marks the segments that were free then as free again.
    pub fn roll_back(&mut self) -> Result<()> {
        let Some((end, free)) = self.last.take() else { return Ok(()) };
        // The header, which leads to all others, was rewritten last.
        while let Some(place) = self.rewritten.pop() {
            // A new directory has no earlier record.
            let Some(record) = self.heads.get(&place).cloned() else { continue };
            self.put(place, &[&record]).map_err(|error| {
                let state = "the earlier state of the file could not be restored: it may have some of the changes. \
                             Write its intact parts to a new file (sapwood recover)";
                Error::new(error.kind(), format!("{error}: {state}"))
            })?;
        }
        let marked = free.into_iter().try_for_each(|(first, end)| self.mark_free(first, end));
        let cut = self.sink.finish(end).within(|| self.sink.name().to_owned());
        marked.and(cut).map_err(|error| {
            let state =
                "the objects of the file are as they were before the changes, but unused bytes remain in it";
            Error::new(error.kind(), format!("{error}: {state}"))
        })
    }
    /// Whether a record was written for a reserved key.
    pub fn is_written(&self, key: KeyId) -> bool {
        self.entry(key).is_ok_and(|entry| entry.numbers.seek != 0)
    }
    /// Releases the storage; later writes fail.
    pub fn release(&mut self) {
        self.sink = Box::new(Released(self.sink.name().to_owned()));
    }

    /// Finds the record of a name and cycle in a directory.
    pub fn find_key(&self, directory: DirectoryId, name: &str, cycle: u16) -> Result<KeyId> {
        let entries = &self.directory(directory)?.entries;
        let found = entries.iter().find(|e| e.text.name == name && e.numbers.cycle == cycle);
        found
            .map(|e| KeyId(directory, e.id))
            .ok_or_else(|| Error::not_found(format!("there is no object {name};{cycle}")))
    }

    fn directory(&self, id: DirectoryId) -> Result<&Directory> {
        self.directories.get(id).ok_or_else(|| Error::not_found(format!("no directory {id}")))
    }
    fn entry(&self, key: KeyId) -> Result<&Entry> {
        // The requested key is usually a recent one.
        let entries = &self.directory(key.0)?.entries;
        entries.iter().rfind(|e| e.id == key.1).ok_or_else(|| Error::not_found("no such key"))
    }
    /// Adds a key to a directory's list, before older cycles of its name as in ROOT.
    fn enter(&mut self, directory: DirectoryId, text: KeyText, numbers: KeyNumbers) -> Result<KeyId> {
        let id = self.next_id;
        self.next_id += 1;
        let holder = self
            .directories
            .get_mut(directory)
            .ok_or_else(|| Error::not_found(format!("no directory {directory}")))?;
        holder.entries.room(1)?;
        grow::place(&mut holder.cycles)?;
        let place = match holder.cycles.insert(text.name.clone(), numbers.cycle) {
            Some(_) => holder.entries.iter().position(|e| e.text.name == text.name),
            None => None,
        };
        let place = place.unwrap_or(holder.entries.len());
        holder.entries.insert(place, Entry { id, text, numbers, raw: None });
        holder.changed = true;
        Ok(KeyId(directory, id))
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('/') {
        return Err(Error::argument(format!(
            "{name:?} is not a valid name of an object: it is empty or has a slash"
        )));
    }
    Ok(())
}

/// Converts seconds since 1970 to ROOT's packed date (`TDatime`): 6 bits for years since 1995, 4 month, 5 day, 5 hour,
/// 6 minute, 6 second. Dates before 1995 become its first moment.
pub fn datime(seconds: i64) -> u32 {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) as u32);
    // Civil date from days, in eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    if year < 1995 {
        return datime(788_918_400);
    }
    let fields = [((year - 1995) as u32, 26), (month as u32, 22), (day, 17), (second / 3600, 12)];
    let fields = fields.into_iter().chain([(second / 60 % 60, 6), (second % 60, 0)]);
    fields.fold(0, |packed, (value, shift)| packed | value << shift)
}

/// Derives the UUID of a directory from that of the file.
fn nth_uuid(uuid: [u8; 16], n: usize) -> [u8; 16] {
    (u128::from_be_bytes(uuid) ^ n as u128).to_be_bytes()
}

/// Returns a random UUID (version 4), from the keys that the standard library draws for its hash maps.
fn random_uuid() -> [u8; 16] {
    let draw = || std::hash::RandomState::new().build_hasher().finish();
    let random = (u128::from(draw()) << 64) | u128::from(draw());
    let (version, variant) = (0xf_u128 << 76, 0x3_u128 << 62);
    ((random & !version & !variant) | 0x4 << 76 | 0x2 << 62).to_be_bytes()
}

mod copy;
mod key;
mod records;
mod stretch;
mod sum;
mod update;

pub use copy::Record;
pub use key::{KeyNumbers, KeyText, encode_key};
pub use stretch::Stretch;
pub use sum::{SharedSum, Sum, Sums};
pub use update::{Held, Holdings};

#[cfg(test)]
mod tests;
