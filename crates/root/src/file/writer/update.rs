//! Opening an existing file to write more to it.
//!
//! Existing contents keep their place. New records go after them, or into free segments that are marked as free. Keys
//! that are kept are rewritten byte for byte. A file is refused if its header, directories or list of free segments
//! would cause records in use to be overwritten. Only records that say in their own keys what they are, where, and how
//! long are freed or rewritten in place.

use super::{
    BEGIN, DIRECTORY_BYTES, Directory, DirectoryId, Entry, FileWriter, KeyNumbers, KeyText, Options, Record,
};
use crate::compress::encode::Compression;
use crate::error::{Error, Result, Within};
use crate::file::{DirectoryHead, Key, RootFile, is_infos, kinds, list_key, record_key, same_record};
use crate::wire::Cursor;
use crate::wire::grow::{self, Grow};
use sapwood_io::Cause;
use sapwood_io::sink::Sink;
use std::collections::HashSet;

/// Bytes of a directory's record with its UUID and 32-bit positions.
const LEAST_ROOM: u64 = 48;
/// Maximum nesting depth of directories.
const DEEPEST: usize = 100;

/// Byte ranges that belong to the object of a key but not to its record, for example the pages of a table.
pub enum Held {
    /// The ranges: first byte and one past the last.
    Places(Vec<(u64, u64)>),
    /// The ranges are not listed, but all end at this byte or before it.
    Before(u64),
    /// They cannot be determined.
    Unknown,
}

/// Returns what belongs to the object of a key.
pub type Holdings<'a> = &'a dyn Fn(&Key) -> Result<Held>;

/// Byte ranges of a file that are in use.
#[derive(Default)]
struct InUse {
    /// First byte, one past the last, and the index of the owner in `names`.
    places: Vec<(u64, u64, usize)>,
    names: Vec<String>,
    /// The largest end among `places` up to each.
    ends: Vec<(u64, usize)>,
}

impl InUse {
    fn add(&mut self, name: impl Into<String>, places: impl IntoIterator<Item = (u64, u64)>) -> Result<()> {
        let number = self.names.len();
        self.names.try_push(name.into())?;
        let places = places.into_iter().filter(|(first, end)| first < end);
        places.map(|(first, end)| (first, end, number)).try_for_each(|place| self.places.try_push(place))
    }
    /// Must be called after the last [`InUse::add`] and before the first [`InUse::find`].
    fn sort(&mut self) -> Result<()> {
        self.places.sort_unstable();
        let mut last = (0, 0);
        let largest = |(at, (_, end, _)): (usize, &(u64, u64, usize))| {
            last = last.max((*end, at));
            last
        };
        self.ends = grow::collected(self.places.iter().enumerate().map(largest))?;
        Ok(())
    }
    /// Returns the ranges that belong to two owners or more, apart and in order. Must be called after [`InUse::sort`].
    fn shared(&self) -> Result<Vec<(u64, u64)>> {
        // The largest end so far with its owner, and the largest of all other owners.
        let ((mut largest, mut of), mut others) = ((0, usize::MAX), 0);
        let mut shared: Vec<(u64, u64)> = Vec::new();
        for &(first, end, owner) in &self.places {
            let other = if owner == of { others } else { largest };
            if first < other {
                match shared.last_mut() {
                    Some((_, to)) if first <= *to => *to = end.min(other).max(*to),
                    _ => shared.try_push((first, end.min(other)))?,
                }
            }
            if owner == of {
                largest = largest.max(end);
            } else if end > largest {
                others = largest;
                (largest, of) = (end, owner);
            } else {
                others = others.max(end);
            }
        }
        Ok(shared)
    }
    /// Returns the name of something at least partly in a segment.
    fn find(&self, first: u64, end: u64) -> Option<String> {
        let before = self.places.partition_point(|(from, _, _)| *from < end);
        let (_, at) = self.ends.get(before.checked_sub(1)?).filter(|(to, _)| *to > first)?;
        let (from, to, number) = self.places.get(*at)?;
        let name = self.names.get(*number)?;
        Some(format!("{name} at bytes {from} to {}", to - 1))
    }
}

/// The ranges in use that the writer does not track itself.
struct Survey<'a> {
    holdings: Holdings<'a>,
    used: InUse,
    /// Ranges held by older cycles; ROOT frees some of their bytes together with newer ones.
    older: InUse,
    /// A key whose byte ranges are unknown.
    unknown: Option<String>,
    /// The end of ranges that are not listed, and the key that has them.
    last: (u64, String),
    /// Keys already examined: place, class, and whether it is the newest of its name. Damaged keys may share a place.
    seen: HashSet<(u64, String, bool)>,
}

impl Survey<'_> {
    fn look(&mut self, key: &Key, newest: bool) -> Result<()> {
        let name = || format!("{};{} ({})", key.name, key.cycle, key.classname);
        if !grow::insert(&mut self.seen, (key.seek, key.classname.clone(), newest))? {
            return Ok(());
        }
        match (self.holdings)(key)? {
            Held::Places(places) if places.is_empty() => {}
            Held::Places(places) if newest => self.used.add(format!("a page of {}", name()), places)?,
            Held::Places(places) => self.older.add(format!("a page of {}", name()), places)?,
            Held::Before(end) if end >= self.last.0 => self.last = (end, name()),
            Held::Before(_) => {}
            Held::Unknown => self.unknown = Some(name()),
        }
        Ok(())
    }
}

impl FileWriter {
    /// Continues a file. `file` reads what `sink` writes and is not needed afterwards. If it compares records with
    /// checksums, a difference in a record that may be rewritten is an error. If the options set no compression, the
    /// file's is used.
    pub fn update(
        file: &RootFile,
        sink: Box<dyn Sink>,
        compression: Option<Compression>,
        options: Options,
        holdings: Holdings<'_>,
    ) -> Result<Self> {
        let h = file.header().clone();
        if h.begin != BEGIN {
            return Err(Error::unsupported(format!(
                "a file whose first record is at byte {} instead of {BEGIN}, as ROOT before 4 wrote them, cannot be updated",
                h.begin
            )));
        }
        let closed = h.seek_free != 0 && h.end <= file.source().size();
        if !closed || file.directory()?.recovered {
            return Err(Error::unsupported(
                "the file was not closed: write its intact parts to a new file (sapwood recover)",
            ));
        }
        let compression = match compression {
            Some(compression) => compression,
            None => Compression::from_code(h.compression).unwrap_or(options.compression),
        };
        let lead = file.bytes(BEGIN, h.nbytes_name, Cause::Directory)?;
        let mut writer = Self {
            end: h.end,
            infos: if h.seek_info == 0 { (0, 0) } else { (h.seek_info, h.nbytes_info as usize) },
            infos_changed: false,
            version: h.version,
            lead,
            segments: (h.seek_free, h.nbytes_free as usize),
            opened: h.end,
            before: Some(file.source().clone()),
            ..Self::empty(sink, Options { compression, ..options })
        };
        let classes = file.classes()?;
        writer.described = classes.iter().cloned().collect();
        if h.seek_info == 0 {
            writer.infos_changed = true;
        } else {
            let place = || "the streamer info";
            let record =
                file.records(h.seek_info, u64::from(h.nbytes_info), Cause::Streamers).within(place)?;
            let mut cursor = Cursor::new(&record, h.seek_info);
            let key = list_key(&mut cursor, h.seek_info, [BEGIN; 2]).within(place)?;
            if !is_infos(&key, h.seek_info, h.nbytes_info) {
                let message = format!(
                    "another record is there: the {} {} of {} bytes",
                    key.classname, key.name, key.total_bytes
                );
                return Err(Error::corrupt(message).at(h.seek_info).within(place()));
            }
            writer.old_infos = Some(Record::read(file, &key)?);
        }
        let mut cursor = Cursor::new(&writer.lead, BEGIN);
        let key = Key::parse(&mut cursor).within(|| "the first key")?;
        let text = KeyText::new(&key.classname, &cursor.string()?, &cursor.string()?);
        let named = cursor.pos() as u64;
        if key.seek != BEGIN || h.nbytes_name != named {
            return Err(Error::corrupt(format!(
                "the header places the root directory {} bytes after the first key at byte {BEGIN}; the key says that \
                 it is at byte {}, and ends with its names after {named} bytes",
                h.nbytes_name, key.seek
            )));
        }
        let (used, older) = (InUse::default(), InUse::default());
        let last = (0, String::new());
        let mut survey = Survey { holdings, used, older, unknown: None, last, seen: HashSet::new() };
        writer.directory_of(file, &key, text, h.nbytes_name, 0, &mut survey)?;
        // The root directory and the header are rewritten together.
        if let Some(root) = writer.heads.remove(&(BEGIN + h.nbytes_name)) {
            let header = file.bytes(0, BEGIN, Cause::Directory)?;
            writer.heads.insert(0, [header.as_slice(), &writer.lead, &root].concat());
        }
        writer.name_records(&mut survey.used)?;
        survey.used.sort()?;
        survey.older.sort()?;
        writer.shared = survey.used.shared()?;
        writer.check_apart()?;
        let size = file.source().size();
        if survey.last.0 > h.end {
            return Err(Error::corrupt(format!(
                "the header says that the file ends at byte {}, but bytes before byte {} belong to {}",
                h.end, survey.last.0, survey.last.1
            )));
        }
        if let Some(what) = survey.used.find(h.end, u64::MAX).or_else(|| survey.older.find(h.end, u64::MAX)) {
            return Err(Error::corrupt(format!(
                "the header says that the file ends at byte {}, but {what} is in use",
                h.end
            )));
        }
        if let Some(what) = survey.unknown.as_ref().filter(|_| h.end < size) {
            return Err(Error::unsupported(format!(
                "the header says that the file ends at byte {} of {size}, and the bytes after it may belong to {what}, \
                 which cannot be read",
                h.end
            )));
        }
        writer.read_segments(file, &survey)?;
        writer.last = Some((h.end, writer.free.clone()));
        Ok(writer)
    }

    /// Reads a directory and its subdirectories; returns its number.
    fn directory_of(
        &mut self,
        file: &RootFile,
        key: &Key,
        text: KeyText,
        nbytes_name: u64,
        depth: usize,
        survey: &mut Survey<'_>,
    ) -> Result<DirectoryId> {
        if depth > DEEPEST || self.directories.iter().any(|known| known.seek == key.seek) {
            return Err(Error::corrupt("the directories contain each other").at(key.seek));
        }
        let room = u64::from(key.total_bytes).saturating_sub(nbytes_name);
        if room < LEAST_ROOM {
            return Err(Error::unsupported(format!(
                "the record of directory {} has room for {room} bytes, not for the {LEAST_ROOM} of a new one",
                text.name
            )));
        }
        let record = file.records(key.seek, key.total_bytes.into(), Cause::Directory)?;
        let mut c = Cursor::new(&record, key.seek);
        let own = Key::parse(&mut c).within(|| "the record of the directory")?;
        if !same_record(key, &own) {
            return Err(Error::corrupt(format!(
                "another record is at the place of the directory: the {} {} of {} bytes, at byte {} by its key",
                own.classname, own.name, own.total_bytes, own.seek
            ))
            .at(key.seek));
        }
        c.seek(usize::try_from(nbytes_name).map_err(|_| Error::corrupt("a name of that length"))?)?;
        // The length of the name is that with which the record was found, not the one in it, which may be damaged.
        let DirectoryHead { version, created, nbytes_keys, seek_parent: parent, seek_keys, .. } =
            DirectoryHead::parse(&mut c)?;
        let mut uuid = [0; 16];
        if version % 1000 > 1 {
            c.skip(2)?;
            uuid.copy_from_slice(c.take(16)?);
        }
        let id = self.directories.len();
        let room = (room as usize).min(DIRECTORY_BYTES);
        let head = record.get(nbytes_name as usize..).and_then(|rest| rest.get(..room)).unwrap_or_default();
        self.heads.insert(key.seek + nbytes_name, head.to_vec());
        self.directories.push(Directory {
            keys: if seek_keys == 0 { (0, 0) } else { (seek_keys, nbytes_keys as usize) },
            room,
            changed: false,
            ..Directory::new(key.seek, parent, nbytes_name as usize, text, created, uuid)
        });
        // ROOT writes no key list for an empty directory.
        if seek_keys == 0 {
            if !file.subdirectory(key)?.keys.is_empty() {
                return Err(Error::unsupported(
                    "the key list was lost: write the intact parts of the file to a new file (sapwood recover)",
                ));
            }
            return Ok(id);
        }
        let list = file.records(seek_keys, nbytes_keys.into(), Cause::Directory).within(|| "the key list")?;
        let mut c = Cursor::new(&list, seek_keys);
        let own =
            list_key(&mut c, seek_keys, [key.seek, parent]).and_then(|own| whole(own, nbytes_keys.into()));
        own.within(|| "the record of the key list")?;
        let count = c.count(Key::SMALLEST)?;
        let mut inner = Vec::new();
        let mut newest = HashSet::new();
        for i in 0..count {
            let start = c.pos();
            let key = Key::parse(&mut c).within(|| format!("key {i} of {count}"))?;
            let raw = list.get(start..c.pos()).unwrap_or_default().to_vec();
            self.keep(id, &key, raw)?;
            // The newest of several cycles comes first.
            survey.look(&key, grow::insert(&mut newest, key.name.clone())?)?;
            if kinds::DIRECTORIES.contains(&key.classname.as_str()) {
                inner.try_push(key)?;
            }
        }
        // Of several cycles, the newest has the name; it comes first.
        for key in inner {
            let text = KeyText::new(&key.classname, &key.name, &key.title);
            let child = self
                .directory_of(file, &key, text, key.key_bytes.into(), depth + 1, survey)
                .within(|| format!("directory {}", key.name))?;
            if let Some(directory) = self.directories.get_mut(id) {
                directory.children.entry(key.name).or_insert(child);
            }
        }
        Ok(id)
    }

    fn keep(&mut self, directory: DirectoryId, key: &Key, raw: Vec<u8>) -> Result<()> {
        let id = self.next_id;
        self.next_id += 1;
        let numbers = KeyNumbers {
            total_bytes: key.total_bytes as usize,
            object_bytes: key.object_bytes as usize,
            datime: key.datime,
            key_bytes: key.key_bytes.into(),
            cycle: key.cycle,
            seek: key.seek,
            seek_parent: key.seek_parent,
            big: false,
        };
        let text = KeyText::new(&key.classname, &key.name, &key.title);
        if let Some(directory) = self.directories.get_mut(directory) {
            grow::place(&mut directory.cycles)?;
            let last = directory.cycles.entry(key.name.clone()).or_insert(0);
            *last = (*last).max(key.cycle);
            directory.entries.try_push(Entry { id, text, numbers, raw: Some(raw) })?;
        }
        Ok(())
    }

    /// Adopts the free segments. A segment without a mark stays listed and unused; so do all segments if the ranges in use
    /// are unknown. If a segment begins with records, the rest is marked with the next commit. A segment that covers a
    /// range in use is an error.
    fn read_segments(&mut self, file: &RootFile, survey: &Survey<'_>) -> Result<()> {
        let (seek, bytes) = self.segments;
        let place = || "the record of the free segments";
        let record = file.records(seek, bytes as u64, Cause::Directory).within(place)?;
        let mut c = Cursor::new(&record, seek);
        list_key(&mut c, seek, [BEGIN; 2]).and_then(|key| whole(key, bytes as u64)).within(place)?;
        while c.remaining() >= 10 {
            let version = c.u16()?;
            let (first, last) =
                if version > 1000 { (c.u64()?, c.u64()?) } else { (c.u32()?.into(), c.u32()?.into()) };
            // ROOT fills the record with zeros if one of the segments was used for the record itself.
            if version == 0 {
                break;
            }
            if version % 1000 != 1 {
                return Err(c.corrupt(format!("a free segment of version {version}")).within(place()));
            }
            let end = last.saturating_add(1);
            if first >= self.end || end <= first {
                continue;
            }
            let end = end.min(self.end);
            if let Some(what) = survey.used.find(first, end) {
                return Err(Error::corrupt(format!(
                    "bytes {first} to {} are listed as free, but {what} is in use",
                    end - 1
                )));
            }
            let marked = end - first >= 4 && {
                let mark = file.bytes(first, 4, Cause::Directory)?;
                let word = mark.first_chunk::<4>().map_or(0, |word| i32::from_be_bytes(*word));
                i64::from(word) == -((end - first).min(i32::MAX as u64) as i64)
            };
            let listed = survey.unknown.is_none() && survey.last.1.is_empty();
            let unused = listed && survey.older.find(first, end).is_none();
            if marked && unused {
                self.free.insert(first, end);
                continue;
            }
            // A writer that was killed may have filled a part.
            let filled = if unused { end_of_records(file, first, end) } else { first };
            let rest = (first < filled && filled < end).then_some((filled, end));
            self.released.extend(rest);
            self.gaps.try_push((first, rest.map_or(end, |(start, _)| start)))?;
        }
        // Segments must not overlap each other.
        let listed = self.free.iter().map(|(first, end)| (*first, *end));
        let mut all = grow::collected(listed.chain(self.gaps.iter().copied()))?;
        all.sort_unstable();
        if all.windows(2).any(|pair| matches!(pair, [(_, end), (first, _)] if first < end)) {
            self.free.clear();
            self.gaps.clear();
        }
        Ok(())
    }

    /// Frees records (first bytes and lengths) with the next commit, except those that overlap other known ranges or
    /// `kept`.
    pub fn release_records(
        &mut self,
        mut records: Vec<(u64, u64)>,
        kept: impl IntoIterator<Item = (u64, u64)>,
    ) -> Result<()> {
        let mut own = InUse::default();
        self.name_records(&mut own)?;
        let own = own.places.into_iter().map(|(first, end, _)| (first, end));
        let kept = kept.into_iter().map(|(seek, bytes)| (seek, seek.saturating_add(bytes)));
        let free = self.free.iter().map(|(first, end)| (*first, *end));
        let others = self.gaps.iter().chain(&self.released).copied();
        let mut known = grow::collected(own.chain(kept).chain(free).chain(others))?;
        known.sort_unstable();
        records.sort_unstable();
        let mut known = known.into_iter().peekable();
        let mut at = 0;
        for (seek, bytes) in records {
            let end = seek.saturating_add(bytes);
            while known.next_if(|(_, end)| *end <= seek).is_some() {}
            let apart = known.peek().is_none_or(|(first, _)| end <= *first);
            if apart && seek >= at && end <= self.end {
                self.released.insert((seek, end));
                at = end;
            }
        }
        Ok(())
    }

    /// Whether the record of a key may be freed. If the file had the key when it was opened, the record at its place must
    /// have the same.
    pub(super) fn owns(&self, entry: &Entry) -> bool {
        let (Some(before), Some(raw)) = (&self.before, &entry.raw) else { return true };
        let listed = Key::parse(&mut Cursor::new(raw, 0)).ok();
        listed.is_some_and(|key| record_key(before.as_ref(), &key).is_some_and(|own| same_record(&own, &key)))
    }

    /// Refuses a file in which a record that is freed overlaps another one, or in which the header or a directory, which
    /// are rewritten in place, overlap anything that is in use.
    fn check_apart(&self) -> Result<()> {
        let mut known = InUse::default();
        self.name_records(&mut known)?;
        known.sort()?;
        let records = known.shared()?;
        let freed = self.own_records();
        let head = freed.first().cloned();
        let directories = self.directories.iter().skip(1).map(|directory| {
            let end = directory.seek.saturating_add((directory.nbytes_name + directory.room) as u64);
            (format!("the record of directory {}", directory.text.name), directory.seek, end)
        });
        let freed = freed.into_iter().map(|record| (record, &records));
        let in_place = head.into_iter().chain(directories).map(|record| (record, &self.shared));
        for ((name, first, end), shared) in freed.chain(in_place) {
            let next = shared.partition_point(|(_, to)| *to <= first);
            if let Some((from, to)) = shared.get(next).filter(|(from, _)| *from < end) {
                return Err(Error::corrupt(format!(
                    "{name} at bytes {first} to {} overlaps something else at bytes {from} to {}",
                    end - 1,
                    to - 1
                )));
            }
        }
        Ok(())
    }

    /// The records of the file itself: name, first byte, one past the last.
    fn own_records(&self) -> Vec<(String, u64, u64)> {
        let record =
            |name: String, (seek, bytes): (u64, usize)| (name, seek, seek.saturating_add(bytes as u64));
        let room = self.directories.first().map_or(0, |root| root.room);
        let first = BEGIN as usize + self.lead.len() + room;
        let mut own = vec![
            record("the header with the root directory".to_owned(), (0, first)),
            record("the streamer info".to_owned(), self.infos),
            record("the list of free segments".to_owned(), self.segments),
        ];
        let lists = self.directories.iter();
        own.extend(lists.map(|d| record(format!("the key list of directory {}", d.text.name), d.keys)));
        own.retain(|(_, first, end)| first < end);
        own
    }

    fn name_records(&self, known: &mut InUse) -> Result<()> {
        for (name, first, end) in self.own_records() {
            known.add(name, [(first, end)])?;
        }
        for directory in &self.directories {
            for Entry { text, numbers: n, .. } in &directory.entries {
                let end = n.seek.saturating_add(n.total_bytes as u64);
                known.add(format!("{};{} ({})", text.name, n.cycle, text.class), [(n.seek, end)])?;
            }
        }
        Ok(())
    }
}

/// Returns where the records and marks that follow each other from `first` on end; `first` if they go beyond `end`.
fn end_of_records(file: &RootFile, first: u64, end: u64) -> u64 {
    let mut at = first;
    while at < end {
        let Ok(head) = file.bytes(at, (1 << 16).min(end - at), Cause::Directory) else { break };
        let word = head.first_chunk::<4>().map_or(0, |word| i32::from_be_bytes(*word));
        let is_record = word > 0 && Key::parse(&mut Cursor::new(&head, at)).is_ok_and(|key| key.seek == at);
        if word == 0 || word > 0 && !is_record {
            break;
        }
        at += u64::from(word.unsigned_abs());
    }
    if at > end { first } else { at }
}

/// Returns a key if its record has this many bytes.
fn whole(key: Key, bytes: u64) -> Result<Key> {
    let found = u64::from(key.total_bytes);
    if found == bytes {
        return Ok(key);
    }
    let message = format!("another record is there: the length in its key is {found}, not {bytes}");
    Err(Error::corrupt(message).at(key.seek))
}
