//! A file being written: header, directories, keys, free segments, streamer info.
//!
//! Records are only ever added or put into segments that no readable state of the file refers to. [`FileWriter::commit`]
//! then writes key lists, streamer info and free segments to new places, and last the small records that point to
//! them, the file's header at the very end. So a file is whole after each commit, whatever happens until the next.

use crate::compress::encode::{Compression, compress};
use crate::error::{Error, Result, Within};
use crate::streamer::encode::{append_infos, classes_of, encode_infos, encode_object, with_dependencies};
use crate::streamer::{Classes, Object, StreamerInfo};
use crate::wire::writer::Writer;
use sapwood_io::sink::Sink;
use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the first record lies (`fBEGIN`).
const BEGIN: u64 = 100;
/// Positions from this one on are written with 64 bits (`TFile::kStartBigFile`).
pub const START_BIG: u64 = 2_000_000_000;
/// ROOT version whose formats are written (`fVersion`).
const VERSION: u32 = 64_000;
/// Bytes of a directory's record: 30 and the UUID, and room to grow to 64-bit positions.
const DIRECTORY_BYTES: usize = 60;
/// Objects up to this size are not compressed, as ROOT does.
const SMALL: usize = 256;
/// Bytes that streamer info and free segments take when a file is closed, more than enough.
const CLOSING: usize = 64 << 10;
/// To the size of files beyond this one, some records more are nothing.
const LARGE: u64 = 4 << 20;
/// Who opens a remote file asks for some more than this of its end at once.
const NEAR: u64 = 128 << 10;

/// Class of records that no directory lists.
const BLOB: &str = "RBlob";

/// What holds for a whole file.
#[derive(Debug, Clone)]
pub struct Options {
    /// For objects, and for branches that say nothing else.
    pub compression: Compression,
    /// Title of the file.
    pub title: String,
    /// Identity; a random one if not given.
    pub uuid: Option<[u8; 16]>,
    /// Seconds that local time is ahead of UTC; ROOT's dates are local.
    pub utc_offset: i64,
    /// Date of all records, as ROOT packs it (`TDatime`), instead of the clock's.
    pub datime: Option<u32>,
    /// When clusters become part of the readable file.
    pub commit_every: CommitEvery,
    /// Nothing is kept of a file that could not be written in full.
    pub atomic: bool,
}

/// When the clusters that were written become part of the file that readers see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitEvery {
    /// After each.
    Cluster,
    /// After the first that ends so many bytes behind the last commit.
    Bytes(u64),
    /// When asked for, and at the end.
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

/// Names a directory of the file; 0 is the root directory.
pub type DirectoryId = usize;

/// Names a record: the directory and a number that stays when others are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(DirectoryId, u64);

#[derive(Debug)]
struct Entry {
    id: u64,
    text: KeyText,
    numbers: KeyNumbers,
    /// The key as another writer left it, and as it stays.
    raw: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Directory {
    /// Where its record lies (`fSeekDir`).
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
    /// Where the key list lies and how long it is.
    keys: (u64, usize),
    /// Bytes that its record has room for.
    room: usize,
    changed: bool,
    /// It was deleted with all that it held.
    gone: bool,
}

/// What a directory holds, for listings.
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

/// A place for a row of records.
#[derive(Debug)]
pub struct Stretch {
    /// Where it begins.
    pub start: u64,
    /// Where it ends so far.
    pub end: u64,
    /// Where it must end, if not at the end of the file.
    limit: Option<u64>,
}

/// Stands for the storage of a closed file.
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
    released: Vec<(u64, u64)>,
    directories: Vec<Directory>,
    classes: Vec<String>,
    /// Classes that are not ROOT's own.
    described: Vec<Arc<StreamerInfo>>,
    infos: (u64, usize),
    /// The streamer info that the file had.
    old_infos: Option<Record>,
    infos_changed: bool,
    /// What the file says of the ROOT that wrote it (`fVersion`).
    version: u32,
    /// Key, name and title before the root directory's record.
    lead: Vec<u8>,
    segments: (u64, usize),
    /// How many segments the record has.
    committed: usize,
    /// Bytes of clusters since the last commit.
    uncommitted: u64,
    /// Where the file ended when it was opened.
    opened: u64,
    /// Whether all that is written comes to its end, whatever is free before.
    closing: bool,
    next_id: u64,
    /// Bytes that records will take when they are written at last.
    needs: HashMap<KeyId, usize>,
    scratch: Vec<u8>,
}

impl FileWriter {
    /// Whether nothing is kept of the file if it cannot be written in full.
    pub const fn is_atomic(&self) -> bool {
        self.options.atomic
    }
    /// Starts a file. `name` is what the file calls itself, by custom its path.
    pub fn create(sink: Box<dyn Sink>, name: &str, options: Options) -> Result<Self> {
        let mut file = Self {
            sink,
            end: BEGIN,
            free: BTreeMap::new(),
            gaps: Vec::new(),
            released: Vec::new(),
            directories: Vec::new(),
            classes: Vec::new(),
            described: Vec::new(),
            infos: (0, 0),
            old_infos: None,
            version: VERSION,
            lead: Vec::new(),
            infos_changed: true,
            segments: (0, 0),
            committed: 0,
            uncommitted: 0,
            opened: 0,
            closing: false,
            next_id: 0,
            needs: HashMap::new(),
            scratch: Vec::new(),
            options,
        };
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
        file.lead = lead.into_bytes();
        let uuid = file.options.uuid.unwrap_or_else(random_uuid);
        file.end += (key_bytes + object_bytes) as u64;
        file.directories.push(Directory {
            seek: BEGIN,
            parent: 0,
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
        });
        // From this point on there is a file that can be read, whatever happens.
        file.commit()?;
        Ok(file)
    }

    /// Name of the storage.
    pub fn name(&self) -> &str {
        self.sink.name()
    }
    /// Compression of what is written from now on.
    pub fn compression(&self) -> Compression {
        self.options.compression
    }
    /// Changes the compression of what is written from now on.
    pub fn set_compression(&mut self, compression: Compression) {
        self.options.compression = compression;
    }
    /// One past the last record (`fEND`).
    pub fn end(&self) -> u64 {
        self.end
    }
    /// The date that records carry now.
    pub fn datime(&self) -> u32 {
        self.options.datime.unwrap_or_else(|| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
            datime(now + self.options.utc_offset)
        })
    }
    /// Position of a directory (`fSeekDir`), the `fSeekPdir` of what it holds.
    pub fn seek_of(&self, directory: DirectoryId) -> u64 {
        self.directories.get(directory).map_or(BEGIN, |d| d.seek)
    }
    /// What a directory holds, in the order of its key list.
    pub fn list(&self, directory: DirectoryId) -> Vec<Listed> {
        let entries = self.directories.get(directory).map_or(&[][..], |d| &d.entries);
        let listed = |e: &Entry| Listed {
            name: e.text.name.clone(),
            cycle: e.numbers.cycle,
            class: e.text.class.clone(),
            title: e.text.title.clone(),
        };
        entries.iter().map(listed).collect()
    }
    /// A directory in a directory.
    pub fn find(&self, parent: DirectoryId, name: &str) -> Option<DirectoryId> {
        self.directories.get(parent)?.children.get(name).copied()
    }
    /// Has the streamer info of a class, and of all it needs, written with the file.
    pub fn use_class(&mut self, class: &str) {
        if !self.classes.iter().any(|known| known == class) {
            self.classes.push(class.to_owned());
            self.infos_changed = true;
        }
    }

    /// Has a class written with the file that is not one of ROOT's.
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
    /// Refuses a class that the file has in the same version with other members.
    pub fn check_infos(&self, infos: &[impl Borrow<StreamerInfo>]) -> Result<()> {
        let same = |a: &StreamerInfo, b: &StreamerInfo| (&a.name, a.version) == (&b.name, b.version);
        for info in infos {
            let info = info.borrow();
            if let Some(known) = self.described.iter().find(|known| same(known, info))
                && known.checksum != info.checksum
            {
                return Err(Error::argument(format!(
                    "the file has a class {} of version {} with other members: give it another version",
                    info.name, info.version
                )));
            }
        }
        Ok(())
    }

    /// Makes a directory in a directory, or gives the one that is there.
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
        let seek = self.allocate(key_bytes + DIRECTORY_BYTES);
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
        self.put(seek, &[w.bytes()])?;
        let id = self.directories.len();
        self.directories.push(Directory {
            seek,
            parent: seek_parent,
            nbytes_name: key_bytes,
            text: text.clone(),
            created,
            uuid: self.options.uuid.map_or_else(random_uuid, |uuid| nth_uuid(uuid, id)),
            entries: Vec::new(),
            cycles: HashMap::new(),
            children: HashMap::new(),
            keys: (0, 0),
            room: DIRECTORY_BYTES,
            changed: true,
            gone: false,
        });
        self.enter(parent, text, numbers)?;
        if let Some(holder) = self.directories.get_mut(parent) {
            holder.children.insert(name.to_owned(), id);
        }
        Ok(id)
    }

    /// Takes a name in a directory, and the next cycle of it, for a record that comes later.
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

    /// Writes the record of a reserved key, for the first time or in place of the last one. `encode` gets the length
    /// of the key, from whose start references in the object count.
    pub fn write(&mut self, key: KeyId, encode: impl FnOnce(usize) -> Result<Vec<u8>>) -> Result<()> {
        let big = self.big(1 << 30);
        let entry = self.entry(key)?;
        let (text, old) = (entry.text.clone(), entry.numbers);
        let object = encode(text.size(big)).within(|| format!("{} {}", text.class, text.name))?;
        // A record that is written again and again grows: it gets room for that, to find it free the time after next.
        let again = old.seek != 0;
        let growing = again && !self.closing;
        let numbers = self.record(&text, &KeyNumbers { big, ..old }, &object, growing)?;
        if again {
            self.released.push((old.seek, old.seek + old.total_bytes as u64));
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

    /// Writes an object under a name; one that has the name keeps its lower cycle.
    pub fn write_object(
        &mut self,
        directory: DirectoryId,
        name: &str,
        title: &str,
        object: &Object,
    ) -> Result<()> {
        // Found out before the name is taken: what cannot be encoded leaves no trace.
        encode_object(object, 0).within(|| format!("{} {name}", object.class))?;
        let key = self.reserve(directory, &object.class, name, title)?;
        let mut classes = Vec::new();
        classes_of(object, &mut classes);
        for class in &classes {
            self.use_class(class);
        }
        self.write(key, |displacement| encode_object(object, displacement))
    }

    /// Deletes the records of a name: one cycle of it, or all. A directory goes with all that it holds. Their bytes are
    /// free after the next commit; of a tree these are those of its description alone.
    pub fn delete(&mut self, directory: DirectoryId, name: &str, cycle: Option<u16>) -> Result<()> {
        let child = self.find(directory, name);
        let holder =
            self.directories.get_mut(directory).ok_or_else(|| Error::not_found("no such directory"))?;
        let wanted = |e: &Entry| e.text.name == name && cycle.is_none_or(|c| c == e.numbers.cycle);
        if !holder.entries.iter().any(wanted) {
            let cycle = cycle.map_or(String::new(), |c| format!(";{c}"));
            return Err(Error::not_found(format!("nothing is named {name}{cycle}")));
        }
        let gone: Vec<KeyNumbers> = holder.entries.iter().filter(|e| wanted(e)).map(|e| e.numbers).collect();
        holder.entries.retain(|e| !wanted(e));
        holder.changed = true;
        match holder.entries.iter().filter(|e| e.text.name == name).map(|e| e.numbers.cycle).max() {
            Some(last) => holder.cycles.insert(name.to_owned(), last),
            None => holder.cycles.remove(name),
        };
        if let Some(child) = child {
            holder.children.remove(name);
            let names: Vec<String> = self.list(child).into_iter().map(|listed| listed.name).collect();
            for inner in names {
                // Cycles of one name went with the first of them.
                if self.list(child).iter().any(|listed| listed.name == inner) {
                    self.delete(child, &inner, None)?;
                }
            }
            if let Some(child) = self.directories.get_mut(child) {
                child.gone = true;
                child.changed = false;
                let (seek, bytes) = std::mem::take(&mut child.keys);
                if seek != 0 {
                    self.released.push((seek, seek + bytes as u64));
                }
            }
        }
        let places = gone.into_iter().filter(|n| n.seek != 0);
        self.released.extend(places.map(|n| (n.seek, n.seek + n.total_bytes as u64)));
        Ok(())
    }

    /// Leaves out bytes before the next record; readers take them for a free segment. For alignment, and for tests
    /// of large files.
    pub fn leave_gap(&mut self, bytes: u64) {
        if bytes > 0 {
            self.gaps.push((self.end, self.end + bytes));
            self.end += bytes;
        }
    }

    /// Finds a place for a row of records of at most so many bytes: behind all others, or in a segment that was free when
    /// the file was opened.
    pub fn begin_stretch(&mut self, most: u64) -> Stretch {
        let old = self.free.range(..self.opened).map(|(first, end)| (*first, end - first));
        match old.filter(|(_, room)| *room >= most + 8).min_by_key(|(_, room)| *room) {
            Some((first, room)) => {
                self.free.remove(&first);
                Stretch { start: first, end: first, limit: Some(first + room) }
            }
            None => Stretch { start: self.end, end: self.end, limit: None },
        }
    }
    /// Writes parts as they are at the end of a stretch. The file has them only when it accepts the stretch, so what a
    /// failed write left behind is written over.
    pub fn append(&mut self, stretch: &mut Stretch, parts: &[&[u8]]) -> Result<()> {
        let end = stretch.end + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        if stretch.limit.is_some_and(|limit| end + 8 > limit) {
            return Err(Error::limit("records are larger than they were to be"));
        }
        self.put(stretch.end, parts)?;
        stretch.end = end;
        Ok(())
    }
    /// Forgets a stretch that could not be written.
    pub fn give_back(&mut self, stretch: &Stretch) {
        if let Some(limit) = stretch.limit {
            self.released.push((stretch.start, limit));
        }
    }
    /// Takes a stretch into the file, if there is room behind the file to make it whole: `need` bytes for the record
    /// `key`, and what other records have asked for in the same way. So a full disk never costs more than what does not
    /// fit. Gives whether it is time to commit; then the room was not looked for, as the commit itself finds out.
    pub fn accept(&mut self, stretch: &Stretch, key: KeyId, need: usize) -> Result<bool> {
        const ZEROS: &[u8] = &[0; 1 << 16];
        self.needs.insert(key, need);
        let end = if stretch.limit.is_some() { self.end } else { stretch.end };
        let written = self.uncommitted + (stretch.end - stretch.start);
        let due = match self.options.commit_every {
            CommitEvery::Cluster => true,
            CommitEvery::Bytes(bytes) => written >= bytes,
            CommitEvery::Never => false,
        };
        // Of a file that is not kept if it cannot be written in full, nothing needs to be made whole.
        if !due && !self.options.atomic {
            let keys =
                self.directories.iter().flat_map(|d| d.entries.iter().map(|e| &e.text).chain([&d.text]));
            let keys: usize = keys.map(|text| text.size(true)).sum();
            let room = CLOSING + keys + self.needs.values().sum::<usize>();
            let mut parts = vec![ZEROS; room / ZEROS.len()];
            parts.extend(ZEROS.get(..room % ZEROS.len()));
            self.put(end, &parts)?;
        }
        if let Some(limit) = stretch.limit {
            // The rest is free again once it bears its mark.
            self.released.push((stretch.end, limit));
        }
        self.uncommitted = written;
        self.end = end;
        Ok(due)
    }
    /// The next commit is the last one. What a large new file is opened with (key lists, trees, classes) comes to lie at
    /// its end: who opens it on remote storage has it by one request.
    pub fn begin_closing(&mut self) {
        self.options.commit_every = CommitEvery::Never;
        self.closing = self.opened == 0 && self.end > LARGE;
        self.infos_changed |= self.closing && self.infos.0 != 0 && self.end - self.infos.0 > NEAR;
    }
    /// Whether an object is to be written once more before the last commit, since it lies far from the end.
    pub fn is_far(&self, key: KeyId) -> bool {
        let numbers = self.entry(key).map(|entry| entry.numbers).unwrap_or_default();
        self.is_distant((numbers.seek, numbers.seek + numbers.total_bytes as u64))
    }
    /// The same of a record from its first byte to its end.
    pub fn is_distant(&self, (start, end): (u64, u64)) -> bool {
        self.closing && start != 0 && self.end - end > NEAR
    }

    /// Bytes of the key before a record that no directory lists.
    pub fn blob_key_bytes(&self) -> usize {
        KeyText::new(BLOB, "", "").size(true)
    }
    /// The key of a record that no directory lists, of so many bytes, which will lie at `seek`.
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
        Ok(w.into_bytes())
    }
    /// Writes a record that no directory lists to a new place; returns its range, and where its content begins.
    pub fn write_blob(&mut self, body: &[u8]) -> Result<((u64, u64), u64)> {
        let size = self.blob_key_bytes() + body.len();
        let seek = self.allocate(size);
        let key = self.blob_key(seek, body.len())?;
        self.put(seek, &[&key, body])?;
        Ok(((seek, seek + size as u64), seek + key.len() as u64))
    }
    /// Frees a record that no directory lists, from its first byte to its end, with the next commit.
    pub fn release_record(&mut self, record: (u64, u64)) {
        self.released.push(record);
    }
    /// What the file keeps of a table after an error that ended its writing.
    pub fn kept(&self, table: &str, written: u64, lost: u64) -> String {
        if self.options.atomic {
            return format!(
                "0 entries of {table} are safe: the file is not kept, and its path is as it was before"
            );
        }
        format!("{written} entries of {table} are safe, {lost} more were not written")
    }

    /// Makes all records written so far part of the readable file.
    pub fn commit(&mut self) -> Result<()> {
        if !self.infos_changed && !self.directories.iter().any(|d| d.changed) {
            return Ok(());
        }
        for id in 0..self.directories.len() {
            if self.directories.get(id).is_some_and(|d| !d.gone) {
                self.write_keys(id)?;
            }
        }
        let old = (self.segments, self.committed);
        let new_infos = self.infos_changed;
        if new_infos {
            self.write_infos()?;
        }
        let count = self.write_segments()?;
        // Everything new is in place: now the records that lead to it, the outermost last. Classes come before what
        // is of them.
        let inner = |file: &Self| file.directories.iter().skip(1).any(|d| d.changed);
        if new_infos && old.0.0 != 0 && inner(self) {
            let header = self.header(old.0, old.1)?;
            self.put(0, &[&header])?;
        }
        for id in (1..self.directories.len()).rev() {
            if self.directories.get(id).is_some_and(|d| d.changed) {
                let (place, record) = self.directory_record(id)?;
                self.put(place, &[&record])?;
            }
        }
        // The root directory and the header lead to everything: they change in one write, within one page.
        let header = self.header(self.segments, count)?;
        let (_, record) = self.directory_record(0)?;
        let first = [header.as_slice(), &self.lead, &record].concat();
        self.put(0, &[&first])?;
        for directory in &mut self.directories {
            directory.changed = false;
        }
        self.committed = count;
        self.uncommitted = 0;
        self.sink.finish(self.end).within(|| self.sink.name().to_owned())?;
        self.free_released()
    }

    /// Lets go of the storage, after which writing fails.
    pub fn release(&mut self) {
        self.sink = Box::new(Released(self.sink.name().to_owned()));
    }

    /// The record of a name and cycle in a directory.
    pub fn find_key(&self, directory: DirectoryId, name: &str, cycle: u16) -> Result<KeyId> {
        let entries = &self.directory(directory)?.entries;
        let found = entries.iter().find(|e| e.text.name == name && e.numbers.cycle == cycle);
        found
            .map(|e| KeyId(directory, e.id))
            .ok_or_else(|| Error::not_found(format!("nothing is named {name};{cycle}")))
    }

    fn directory(&self, id: DirectoryId) -> Result<&Directory> {
        self.directories.get(id).ok_or_else(|| Error::not_found(format!("no directory {id}")))
    }
    fn entry(&self, key: KeyId) -> Result<&Entry> {
        // What is asked for was mostly added last.
        let entries = &self.directory(key.0)?.entries;
        entries.iter().rfind(|e| e.id == key.1).ok_or_else(|| Error::not_found("no such key"))
    }
    /// Adds a key to a directory's list, before older cycles of its name as ROOT does.
    fn enter(&mut self, directory: DirectoryId, text: KeyText, numbers: KeyNumbers) -> Result<KeyId> {
        let id = self.next_id;
        self.next_id += 1;
        let holder = self
            .directories
            .get_mut(directory)
            .ok_or_else(|| Error::not_found(format!("no directory {directory}")))?;
        let place = match holder.cycles.insert(text.name.clone(), numbers.cycle) {
            Some(_) => holder.entries.iter().position(|e| e.text.name == text.name),
            None => None,
        };
        let place = place.unwrap_or(holder.entries.len());
        holder.entries.insert(place, Entry { id, text, numbers, raw: None });
        holder.changed = true;
        Ok(KeyId(directory, id))
    }

    fn put(&mut self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        self.sink
            .write_at(offset, parts)
            .map_err(|e| Error::from(e).at(offset))
            .within(|| self.sink.name().to_owned())
    }
    /// Whether a record of up to that size may need 64-bit positions.
    fn big(&self, size: u64) -> bool {
        self.end + size > START_BIG
    }

    /// Finds room: the smallest free segment that takes `size` bytes and leaves none or at least eight, else the end.
    fn allocate(&mut self, size: usize) -> u64 {
        let size = size as u64;
        let fits = |(_, room): &(u64, u64)| *room == size || *room >= size + 8;
        let best = self
            .free
            .iter()
            .map(|(first, end)| (*first, end - first))
            .filter(fits)
            .min_by_key(|(_, room)| *room);
        if let Some((first, room)) = best.filter(|_| !self.closing) {
            self.free.remove(&first);
            if room > size {
                self.free.insert(first + size, first + room);
            }
            return first;
        }
        let place = self.end;
        self.end += size;
        place
    }

    /// Compresses an object and writes it with its key to a new place.
    fn record(
        &mut self,
        text: &KeyText,
        numbers: &KeyNumbers,
        object: &[u8],
        growing: bool,
    ) -> Result<KeyNumbers> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let packed = if object.len() > SMALL {
            compress(self.options.compression, object, &mut scratch)?
        } else {
            None
        };
        let body = packed.and_then(|used| scratch.get(..used)).unwrap_or(object);
        let key_bytes = text.size(numbers.big);
        let total_bytes = key_bytes + body.len();
        let datime = self.datime();
        let seek = self.allocate(total_bytes);
        if growing && total_bytes > 1024 && self.end == seek + total_bytes as u64 {
            let more = (total_bytes / 2).max(8) as u64;
            self.free.insert(self.end, self.end + more);
            self.put(self.end, &[&(-(more as i32)).to_be_bytes()])?;
            self.end += more;
        }
        let numbers =
            KeyNumbers { total_bytes, object_bytes: object.len(), datime, key_bytes, seek, ..*numbers };
        let mut w = Writer::new(0);
        encode_key(&mut w, text, &numbers)?;
        self.put(seek, &[w.bytes(), body])?;
        self.scratch = scratch;
        Ok(numbers)
    }

    /// Writes the key list of a directory to a new place if it changed.
    fn write_keys(&mut self, id: DirectoryId) -> Result<()> {
        let big = self.big(1 << 30);
        let directory = self.directory(id)?;
        if !directory.changed {
            return Ok(());
        }
        let text = directory.text.clone();
        let (old, seek_parent) = (directory.keys, directory.seek);
        let mut w = Writer::new(0);
        // Keys without a place were reserved and never written.
        let written: Vec<&Entry> = directory.entries.iter().filter(|e| e.numbers.seek != 0).collect();
        w.put(written.len() as u32);
        for entry in written {
            match &entry.raw {
                Some(raw) => w.raw(raw),
                None => encode_key(&mut w, &entry.text, &entry.numbers)?,
            }
        }
        let key_bytes = text.size(big);
        let total_bytes = key_bytes + w.len();
        let datime = self.datime();
        let seek = self.allocate(total_bytes);
        let object_bytes = w.len();
        let numbers =
            KeyNumbers { total_bytes, object_bytes, datime, key_bytes, cycle: 1, seek, seek_parent, big };
        let mut key = Writer::new(0);
        encode_key(&mut key, &text, &numbers)?;
        self.put(seek, &[key.bytes(), w.bytes()])?;
        if old.0 != 0 {
            self.released.push((old.0, old.0 + old.1 as u64));
        }
        if let Some(directory) = self.directories.get_mut(id) {
            directory.keys = (seek, total_bytes);
        }
        Ok(())
    }

    fn write_infos(&mut self) -> Result<()> {
        let text = KeyText::new("TList", "StreamerInfo", "Doubly linked list");
        let big = self.big(1 << 30);
        let mut infos = with_dependencies(self.classes.iter().map(String::as_str));
        let same = |a: &StreamerInfo, b: &StreamerInfo| (&a.name, a.version) == (&b.name, b.version);
        infos.retain(|info| !self.described.iter().any(|known| same(known, info)));
        infos.extend(self.described.iter().cloned());
        let object = match &self.old_infos {
            // What was there stays byte for byte, schema evolution rules among it.
            Some(old) => {
                let key_bytes = text.size(big);
                match old.moved(key_bytes) {
                    Ok(old) => {
                        let known = Classes::parse(&old, key_bytes as u64)?;
                        infos.retain(|info| known.find(&info.name, info.version).is_none());
                        append_infos(&old, &infos, key_bytes)?
                    }
                    // Behind a key of another length all is written again, unless there is more than classes.
                    Err(error) if old.holds(b"listOfRules") => return Err(error),
                    Err(_) => encode_infos(&infos, key_bytes)?,
                }
            }
            None => encode_infos(&infos, text.size(big))?,
        };
        let numbers = KeyNumbers { cycle: 1, seek_parent: BEGIN, big, ..KeyNumbers::default() };
        let numbers = self.record(&text, &numbers, &object, false)?;
        if self.infos.0 != 0 {
            self.released.push((self.infos.0, self.infos.0 + self.infos.1 as u64));
        }
        self.infos = (numbers.seek, numbers.total_bytes);
        self.infos_changed = false;
        Ok(())
    }

    /// Writes the free segments (`TFree`) at the end of the file; gives their number.
    fn write_segments(&mut self) -> Result<usize> {
        // What is free at the end of the file is no part of it.
        while let Some((first, end)) = self.free.last_key_value().map(|(a, b)| (*a, *b)) {
            if end != self.end {
                break;
            }
            self.free.remove(&first);
            self.end = first;
        }
        if self.segments.0 != 0 {
            self.released.push((self.segments.0, self.segments.0 + self.segments.1 as u64));
        }
        // Neighbours are one, as their mark will be.
        let mut all = self.free.clone();
        all.extend(self.released.iter().copied());
        let mut segments: BTreeMap<u64, u64> = joined(&all).into_iter().collect();
        segments.extend(self.gaps.iter().copied());
        let root = self.directory(0)?.text.clone();
        let big = self.big(1 << 30);
        let key_bytes = root.size(big);
        // Segments have their last byte inclusive; the last segment begins at the end of the file and is endless.
        let wide = |last: u64| last > START_BIG;
        let size = |last: u64| if wide(last) { 18 } else { 10 };
        let known: usize = segments.values().map(|end| size(end - 1)).sum();
        let mut endless = START_BIG;
        while endless < self.end + (key_bytes + known + 18) as u64 {
            endless += 1_000_000_000;
        }
        let object_bytes = known + size(endless);
        let seek = self.end;
        let total_bytes = key_bytes + object_bytes;
        self.end += total_bytes as u64;
        let mut w = Writer::new(0);
        let datime = self.datime();
        let numbers = KeyNumbers {
            total_bytes,
            object_bytes,
            datime,
            key_bytes,
            cycle: 1,
            seek,
            seek_parent: BEGIN,
            big,
        };
        encode_key(&mut w, &root, &numbers)?;
        let last = std::iter::once((self.end, endless + 1));
        let mut count = 0;
        for (first, end) in segments.into_iter().chain(last) {
            if wide(end - 1) {
                w.put(1001_i16);
                w.put_all([first, end - 1]);
            } else {
                w.put(1_i16);
                w.put_all([first as u32, (end - 1) as u32]);
            }
            count += 1;
        }
        self.put(seek, &[w.bytes()])?;
        self.segments = (seek, total_bytes);
        Ok(count)
    }

    /// A directory's own record (`TDirectoryFile`), and where it belongs.
    fn directory_record(&self, id: DirectoryId) -> Result<(u64, Vec<u8>)> {
        let modified = self.datime();
        let directory = self.directory(id)?;
        let (seek_keys, nbytes_keys) = directory.keys;
        let positions = [directory.seek, directory.parent, seek_keys];
        let big = positions.iter().any(|p| *p > START_BIG);
        let mut w = Writer::new(0);
        w.put(if big { 1005_i16 } else { 5 });
        w.put_all([directory.created, modified, nbytes_keys as u32, directory.nbytes_name as u32]);
        if big {
            w.put_all(positions);
        } else {
            w.put_all(positions.map(|p| p as u32));
        }
        w.put(1_i16);
        w.raw(&directory.uuid);
        if !big && w.len() + 12 <= directory.room {
            w.raw(&[0; 12]);
        }
        if w.len() > directory.room {
            return Err(Error::unsupported(format!(
                "directory {} of a file that has outgrown 2 GB: its record has no room for 64-bit positions",
                directory.text.name
            )));
        }
        Ok((directory.seek + directory.nbytes_name as u64, w.into_bytes()))
    }

    fn header(&self, segments: (u64, usize), count: usize) -> Result<Vec<u8>> {
        let root = self.directory(0)?;
        let big = self.end > START_BIG;
        let mut w = Writer::new(0);
        w.raw(b"root");
        w.put(self.version + if big { 1_000_000 } else { 0 });
        w.put(BEGIN as u32);
        let position = |w: &mut Writer, value: u64| if big { w.put(value) } else { w.put(value as u32) };
        position(&mut w, self.end);
        position(&mut w, segments.0);
        w.put_all([segments.1 as u32, count as u32, root.nbytes_name as u32]);
        w.put(if big { 8_u8 } else { 4 });
        w.put(self.options.compression.code());
        position(&mut w, self.infos.0);
        w.put(self.infos.1 as u32);
        w.put(1_i16);
        w.raw(&root.uuid);
        let rest = (BEGIN as usize).saturating_sub(w.len());
        w.raw(&vec![0; rest]);
        Ok(w.into_bytes())
    }

    /// Takes released segments into the free ones, joins neighbours and marks each with its negative length, by
    /// which ROOT finds its way when it walks through the records.
    fn free_released(&mut self) -> Result<()> {
        if self.released.is_empty() {
            return Ok(());
        }
        self.free.extend(self.released.drain(..));
        let joined = joined(&self.free);
        self.free = joined.iter().copied().collect();
        for (first, end) in joined {
            let length = i32::try_from(end - first).unwrap_or(i32::MAX);
            self.put(first, &[&(-length).to_be_bytes()])?;
        }
        Ok(())
    }
}

/// Segments with those that touch each other as one.
fn joined(segments: &BTreeMap<u64, u64>) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (first, end) in segments {
        match joined.last_mut() {
            Some((_, last)) if last == first => *last = *end,
            _ => joined.push((*first, *end)),
        }
    }
    joined
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains('/') {
        return Err(Error::argument(format!(
            "{name:?} cannot name an object: a name is not empty and has no slash"
        )));
    }
    Ok(())
}

/// ROOT's packed date (`TDatime`) of seconds since 1970: 6 bits years since 1995, 4 month, 5 day, 5 hour, 6 minute,
/// 6 second. Dates before 1995 are its first moment.
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

/// An identity for a directory that follows from the file's.
fn nth_uuid(uuid: [u8; 16], n: usize) -> [u8; 16] {
    (u128::from_be_bytes(uuid) ^ n as u128).to_be_bytes()
}

/// A random identity (version 4), from the keys that the standard library draws for its hash maps.
fn random_uuid() -> [u8; 16] {
    let draw = || std::hash::RandomState::new().build_hasher().finish();
    let random = (u128::from(draw()) << 64) | u128::from(draw());
    let (version, variant) = (0xf_u128 << 76, 0x3_u128 << 62);
    ((random & !version & !variant) | 0x4 << 76 | 0x2 << 62).to_be_bytes()
}

mod copy;
mod key;
mod sum;
mod update;

pub use copy::Record;
pub use key::{KeyNumbers, KeyText, encode_key};
pub use sum::{SharedSum, Sum, Sums, lock};
pub use update::Holdings;

#[cfg(test)]
mod tests;
