//! ROOT files: header, keys, directories, free segments.
//!
//! A file is a sequence of records. Each record is a key ([`Key`], `TKey`) with its object. The header (`TFile`)
//! locates the root directory ([`Directory`], `TDirectoryFile`) and the streamer info.

mod changes;
pub mod checksums;
mod header;
pub mod kinds;
mod recover;
pub mod writer;

pub use crate::wire::Key;
pub use header::Header;

use crate::compress::decode;
use crate::error::{Error, Result, Within};
use crate::streamer::Classes;
use crate::wire::{Cursor, grow};
use checksums::Checksums;
use sapwood_io::{Cause, Range, Source};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

/// A ROOT file, opened for reading.
pub struct RootFile {
    source: Arc<dyn Source>,
    header: Header,
    classes: OnceLock<Arc<Classes>>,
    /// Keys of directories without a key list, collected once for all directories.
    recovered: OnceLock<recover::Found>,
    /// Checksums of its records, if there are any.
    checksums: OnceLock<Checksums>,
}

/// A directory and its keys.
#[derive(Debug, Clone)]
pub struct Directory {
    /// Name of the directory; for the root directory, name of the file.
    pub name: String,
    /// Title.
    pub title: String,
    /// Time of creation, in ROOT's packed form (`fDatimeC`).
    pub created: u32,
    /// Time of modification (`fDatimeM`).
    pub modified: u32,
    /// Identity (`fUUID`); empty in old versions.
    pub uuid: String,
    /// Position of its record (`fSeekDir`).
    pub seek: u64,
    /// Keys in the order of the file.
    pub keys: Vec<Key>,
    /// Whether the key list was lost and was rebuilt from the records of the file.
    pub recovered: bool,
}

/// The numbers at the start of a directory.
struct DirectoryHead {
    version: u16,
    created: u32,
    modified: u32,
    nbytes_keys: u32,
    seek_parent: u64,
    seek_keys: u64,
}

impl DirectoryHead {
    fn parse(c: &mut Cursor<'_>) -> Result<Self> {
        let version = c.u16()?;
        let created = c.u32()?;
        let modified = c.u32()?;
        let nbytes_keys = c.u32()?;
        c.skip(4)?;
        let wide = version > 1000;
        let mut position = || if wide { c.u64() } else { c.u32().map(u64::from) };
        let (_seek_dir, seek_parent, seek_keys) = (position()?, position()?, position()?);
        Ok(Self { version, created, modified, nbytes_keys, seek_parent, seek_keys })
    }
}

impl Directory {
    /// Parses a key list, which is the record at byte `seek`; `directory` as for [`list_key`].
    fn parse_keys(record: &[u8], seek: u64, directory: [u64; 2]) -> Result<Vec<Key>> {
        let mut cursor = Cursor::new(record, seek);
        list_key(&mut cursor, seek, directory).within(|| "the record of the key list")?;
        let count = cursor.count(Key::SMALLEST)?;
        let mut keys = grow::with_room(count)?;
        for i in 0..count {
            keys.push(Key::parse(&mut cursor).within(|| format!("key {i} of {count}"))?);
        }
        Ok(keys)
    }
}

/// Bytes of the first read: the header and, nearly always, the record of the root directory.
const FIRST_READ: u64 = 1024;

/// Bytes after the key of a record that [`RootFile::head`] returns.
const BEHIND_KEY: u64 = 2;

impl RootFile {
    /// Opens a file and reads its header.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
        let name = source.name().to_owned();
        let mut first = vec![0; source.size().min(FIRST_READ) as usize];
        source.fetch(&[Range { offset: 0, length: first.len() as u64 }], &mut first, Cause::Header)?;
        let header = Header::parse(&first, source.size()).within(|| name)?;
        if header.seek_info != 0 {
            source.foresee(Range { offset: header.seek_info, length: header.nbytes_info.into() });
        }
        Ok(Self {
            source,
            header,
            classes: OnceLock::new(),
            recovered: OnceLock::new(),
            checksums: OnceLock::new(),
        })
    }
    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }
    /// The storage.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    /// Path or URL.
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// Returns bytes of the file; errors name the file.
    pub fn bytes(&self, offset: u64, length: u64, cause: Cause) -> Result<Vec<u8>> {
        let size = self.source.size();
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(Error::corrupt(format!(
                "a record of {length} bytes at byte {offset} reaches past the end of the file ({size} bytes)"
            ))
            .within(self.name()));
        }
        let mut out = grow::filled(length as usize, 0).within(|| self.name().to_owned())?;
        self.source.fetch(&[Range { offset, length }], &mut out, cause)?;
        Ok(out)
    }

    /// Returns the first `usual` bytes of a record. If its key is longer, returns the whole key and the two bytes after it,
    /// or fewer at the end of the file.
    pub fn head(&self, offset: u64, usual: u64, cause: Cause) -> Result<Vec<u8>> {
        let head = self.bytes(offset, usual, cause)?;
        let left = self.source.size().saturating_sub(offset);
        let needed = Key::length_in(&head).map_or(0, |bytes| u64::from(bytes) + BEHIND_KEY).min(left);
        if needed <= usual { Ok(head) } else { self.bytes(offset, needed, cause) }
    }

    /// Compares records with checksums from now on. Returns the reason if the checksums do not belong to the file.
    pub fn use_checksums(&self, checksums: Checksums) -> Result<Option<String>> {
        let reason = checksums.stranger(self).within(|| self.name().to_owned())?;
        if reason.is_none() {
            self.checksums.get_or_init(|| checksums);
        }
        Ok(reason)
    }
    /// Compares records with the checksums that the writer of the file has, from now on.
    pub fn use_written(&self, checksums: Checksums) {
        self.checksums.get_or_init(|| checksums);
    }
    /// The checksums with which records are compared.
    pub fn checksums(&self) -> Option<&Checksums> {
        self.checksums.get()
    }
    /// Compares bytes at an offset with the checksums of the records that lie completely within them.
    pub fn verify_records(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.checksums.get().map_or(Ok(()), |checksums| checksums.compare(offset, bytes))
    }
    /// Like [`Self::bytes`], for records, which are compared with their checksums.
    pub fn records(&self, offset: u64, length: u64, cause: Cause) -> Result<Vec<u8>> {
        let bytes = self.bytes(offset, length, cause)?;
        self.verify_records(offset, &bytes)?;
        Ok(bytes)
    }

    /// The root directory.
    pub fn directory(&self) -> Result<Directory> {
        let h = &self.header;
        self.directory_at(h.begin, h.nbytes_name, true).within(|| self.name().to_owned())
    }

    /// Returns the directory of a key of class `TDirectory` or `TDirectoryFile`.
    pub fn subdirectory(&self, key: &Key) -> Result<Directory> {
        let place = || format!("directory {} of {}", key.name, self.name());
        let directory = self.directory_at(key.seek, u64::from(key.key_bytes), false).within(place)?;
        self.verify_record(key)?;
        Ok(directory)
    }

    fn directory_at(&self, seek: u64, skip: u64, root: bool) -> Result<Directory> {
        let start = seek.saturating_add(skip);
        let end = start.saturating_add(u64::from(self.header.is_64bit) * 24 + 80).min(self.source.size());
        let own = self.checksums.get().and_then(|checksums| checksums.length_at(seek)).unwrap_or(0);
        let record = self.records(seek, end.saturating_sub(seek).max(own), Cause::Directory)?;
        let mut cursor = Cursor::new(&record, seek);
        let key = Key::parse(&mut cursor).within(|| "its key")?;
        let (name, title) =
            if root { (cursor.string()?, cursor.string()?) } else { (key.name.clone(), key.title.clone()) };
        cursor.seek(usize::try_from(skip).map_err(|_| Error::corrupt("a name of that length"))?)?;
        let DirectoryHead { version, created, modified, nbytes_keys, seek_parent, seek_keys } =
            DirectoryHead::parse(&mut cursor)?;
        let uuid =
            if version % 1000 > 1 { header::uuid(&mut cursor).unwrap_or_default() } else { String::new() };
        let mut directory =
            Directory { name, title, created, modified, uuid, seek, keys: Vec::new(), recovered: false };
        let readable =
            seek_keys != 0 && seek_keys.saturating_add(u64::from(nbytes_keys)) <= self.source.size();
        if readable {
            directory.keys = self.keys(seek_keys, u64::from(nbytes_keys), [seek, seek_parent])?;
        } else if seek_keys != 0 && self.source.written_to() {
            return Err(Error::corrupt("the key list lies past the end").of_change());
        } else {
            // A file that was never closed has no key list, or one past its end. An empty directory may have none
            // either.
            let found = if let Some(found) = self.recovered.get() {
                found
            } else {
                let found = recover::keys(self)?;
                self.recovered.get_or_init(|| found)
            };
            directory.keys = found.get(&seek).cloned().unwrap_or_default();
            directory.recovered = root || seek_keys != 0 || !directory.keys.is_empty();
        }
        Ok(directory)
    }

    /// Reads a key list; `directory` as for [`list_key`].
    fn keys(&self, seek: u64, nbytes: u64, directory: [u64; 2]) -> Result<Vec<Key>> {
        let record = self.records(seek, nbytes, Cause::Directory).within(|| "the key list")?;
        Directory::parse_keys(&record, seek, directory)
    }

    /// Returns the decompressed object of a key, without the key. References count its first byte as byte `key_bytes`.
    pub fn object(&self, key: &Key) -> Result<Vec<u8>> {
        let Range { offset, length } = self.stored(key)?;
        let stored = if self.checksums.get().is_some() {
            let record = self.records(key.seek, key.total_bytes.into(), Cause::Object);
            record.map(|mut record| record.split_off(usize::from(key.key_bytes).min(record.len())))
        } else {
            self.bytes(offset, length, Cause::Object)
        };
        let stored = stored.within(|| self.place_of(key))?;
        self.verify_record(key)?;
        unpack(stored, key.object_bytes as usize).within(|| self.place_of(key))
    }

    /// Returns the byte range of a key's stored object.
    pub(crate) fn stored(&self, key: &Key) -> Result<Range> {
        if key.seek < self.header.begin {
            let message = "a key whose record would be in the header of the file";
            return Err(Error::corrupt(message).at(key.seek).within(self.place_of(key)));
        }
        let header = u64::from(key.key_bytes);
        let length = u64::from(key.total_bytes).checked_sub(header).ok_or_else(|| {
            Error::corrupt("a key longer than its record").at(key.seek).within(self.place_of(key))
        })?;
        Ok(Range { offset: key.seek.saturating_add(header), length })
    }

    /// Decompresses the object of a key into `object`, which has the size given in the key.
    pub(crate) fn unpack_into(&self, key: &Key, stored: &[u8], object: &mut [u8]) -> Result<()> {
        if stored.len() == object.len() {
            object.copy_from_slice(stored);
            return Ok(());
        }
        decode::decompress(stored, object).within(|| self.place_of(key))
    }

    fn place_of(&self, key: &Key) -> String {
        format!("{};{} ({}) of {}", key.name, key.cycle, key.classname, self.name())
    }

    /// Returns the classes that the file describes; they are read at first use. Missing classes come from the built-in
    /// table.
    pub fn classes(&self) -> Result<Arc<Classes>> {
        if let Some(classes) = self.classes.get() {
            return Ok(classes.clone());
        }
        let classes = self.read_classes()?;
        Ok(self.classes.get_or_init(|| classes).clone())
    }

    fn read_classes(&self) -> Result<Arc<Classes>> {
        let h = &self.header;
        if h.seek_info == 0 || h.seek_info.saturating_add(u64::from(h.nbytes_info)) > self.source.size() {
            return Ok(Arc::default());
        }
        let place = || format!("the streamer info of {}", self.name());
        let mut record =
            self.records(h.seek_info, u64::from(h.nbytes_info), Cause::Streamers).within(place)?;
        if self.source.written_to() {
            changes::as_in_use(&mut record, h.nbytes_info);
        }
        let mut cursor = Cursor::new(&record, h.seek_info);
        let key = Key::parse(&mut cursor).within(place)?;
        let expected = (h.seek_info, h.nbytes_info, "StreamerInfo");
        if (key.seek, key.total_bytes, key.name.as_str()) != expected && self.source.written_to() {
            return Err(Error::corrupt("another record is there").of_change().within(place()));
        }
        let stored = record.get(usize::from(key.key_bytes)..).unwrap_or_default();
        let like =
            |known: &Description| known.sizes == (key.key_bytes, key.object_bytes) && known.stored == stored;
        // Only `try_lock`: a process that forks may leave the lock held in its child.
        if let Ok(recent) = RECENT.try_lock()
            && let Some(known) = recent.iter().find(|known| like(known))
        {
            return Ok(known.classes.clone());
        }
        let object = unpack(grow::copied(stored).within(place)?, key.object_bytes as usize).within(place)?;
        let classes = Arc::new(Classes::parse(&object, u64::from(key.key_bytes)).within(place)?);
        if stored.len() <= LARGEST_KEPT
            && let Ok(stored) = grow::copied(stored)
            && let Ok(mut recent) = RECENT.try_lock()
        {
            recent.truncate(MOST_KEPT - 1);
            let sizes = (key.key_bytes, key.object_bytes);
            recent.push_front(Description { sizes, stored, classes: classes.clone() });
        }
        Ok(classes)
    }
}

/// The streamer info of a recently read file. Many files of one kind describe the same classes.
struct Description {
    /// Bytes of the key, and of the decompressed object.
    sizes: (u16, u32),
    stored: Vec<u8>,
    classes: Arc<Classes>,
}

static RECENT: Mutex<VecDeque<Description>> = Mutex::new(VecDeque::new());
/// Number of descriptions kept.
const MOST_KEPT: usize = 4;
/// Maximum stored bytes of a description that is kept.
const LARGEST_KEPT: usize = 256 << 10;

/// Parses the key of a list of keys or free segments at byte `seek`. The key of another record is an error. Class and
/// name are not compared: they are those of the program that wrote the list and of the path at that time. `directory` is where
/// the records of its directory and of the parent are: ROOT writes the former into the key, uproot the latter.
fn list_key(c: &mut Cursor<'_>, seek: u64, directory: [u64; 2]) -> Result<Key> {
    let key = Key::parse(c)?;
    let [own, parent] = directory;
    let holder = if key.seek_parent == parent { parent } else { own };
    let numbers = [
        ("position", key.seek, seek),
        ("position of its directory", key.seek_parent, holder),
        ("length of its key", key.key_bytes.into(), c.pos() as u64),
    ];
    for (what, found, expected) in numbers {
        if found != expected {
            let message =
                format!("another record is there: the {what} in its key is {found}, not {expected}");
            return Err(Error::corrupt(message).at(seek));
        }
    }
    if key.classname == kinds::BLOB {
        return Err(Error::corrupt("another record is there: one that no directory lists").at(seek));
    }
    Ok(key)
}

/// Whether a key is that of the streamer info at byte `seek`.
fn is_infos(key: &Key, seek: u64, bytes: u32) -> bool {
    (key.seek, key.total_bytes) == (seek, bytes) && (&*key.classname, &*key.name) == ("TList", "StreamerInfo")
}

/// Reads the key at the place of the record that a listed key names.
fn record_key(source: &dyn Source, listed: &Key) -> Option<Key> {
    let mut bytes = vec![0; listed.key_bytes.into()];
    source.read_at(listed.seek, &mut bytes).ok()?;
    Key::parse(&mut Cursor::new(&bytes, listed.seek)).ok()
}

/// Whether two keys are those of one record. The name may differ: ROOT can rename a listed key.
fn same_record(a: &Key, b: &Key) -> bool {
    let numbers = |key: &Key| (key.seek, key.total_bytes, key.object_bytes, key.key_bytes, key.cycle);
    numbers(a) == numbers(b) && a.classname == b.classname
}

/// Decompresses the stored bytes of an object: equal length means not compressed.
fn unpack(stored: Vec<u8>, size: usize) -> Result<Vec<u8>> {
    if stored.len() == size {
        return Ok(stored);
    }
    decode::verify_size(&stored, size)?;
    let mut object = grow::filled(size, 0)?;
    decode::decompress(&stored, &mut object)?;
    Ok(object)
}
