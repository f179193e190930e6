//! A file that is there, opened to write more to it.
//!
//! What is in it stays where it is. New records go behind it, or into its free segments where these bear the mark of one
//! and overlap nothing that is known; keys that stay are written again byte for byte.

use super::{
    BEGIN, DIRECTORY_BYTES, Directory, DirectoryId, Entry, FileWriter, KeyNumbers, KeyText, Options, Record,
};
use crate::compress::encode::Compression;
use crate::error::{Error, Result, Within};
use crate::file::{Key, RootFile};
use crate::wire::Cursor;
use sapwood_io::Cause;
use sapwood_io::sink::Sink;
use std::collections::HashMap;

/// Bytes of a directory's record with its UUID and 32-bit positions.
const LEAST_ROOM: u64 = 48;
/// How many directories may nest.
const DEEPEST: usize = 100;

impl FileWriter {
    /// Goes on with a file. `file` reads what `sink` writes; it is not needed any more afterwards. Compression is that
    /// of the file, if the options leave it as it is.
    pub fn update(
        file: &RootFile,
        sink: Box<dyn Sink>,
        compression: Option<Compression>,
        options: Options,
    ) -> Result<Self> {
        let place = || file.name().to_owned();
        Self::read(file, sink, compression, options).within(place)
    }

    fn read(
        file: &RootFile,
        sink: Box<dyn Sink>,
        compression: Option<Compression>,
        options: Options,
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
                "the file was not closed: read what is left of it and write that to a new one",
            ));
        }
        let compression = match compression {
            Some(compression) => compression,
            None => Compression::from_code(h.compression).unwrap_or(options.compression),
        };
        let lead = file.bytes(BEGIN, h.nbytes_name, Cause::Directory)?;
        let mut writer = Self {
            sink,
            options: Options { compression, ..options },
            end: h.end,
            free: std::collections::BTreeMap::new(),
            gaps: Vec::new(),
            released: Vec::new(),
            directories: Vec::new(),
            classes: Vec::new(),
            described: Vec::new(),
            infos: (h.seek_info, h.nbytes_info as usize),
            old_infos: None,
            infos_changed: false,
            version: h.version,
            lead,
            segments: (h.seek_free, h.nbytes_free as usize),
            committed: 0,
            uncommitted: 0,
            opened: h.end,
            closing: false,
            next_id: 0,
            needs: HashMap::new(),
            scratch: Vec::new(),
        };
        let classes = file.classes()?;
        writer.described = classes.iter().cloned().collect();
        if h.seek_info == 0 {
            writer.infos_changed = true;
        } else {
            let record = file.bytes(h.seek_info, u64::from(h.nbytes_info), Cause::Streamers)?;
            let key = Key::parse(&mut Cursor::new(&record, h.seek_info)).within(|| "the streamer info")?;
            writer.old_infos = Some(Record::read(file, &key)?);
        }
        let mut cursor = Cursor::new(&writer.lead, BEGIN);
        let key = Key::parse(&mut cursor).within(|| "the first key")?;
        let text = KeyText::new(&key.classname, &cursor.string()?, &cursor.string()?);
        writer.directory_of(file, &key, text, h.nbytes_name, 0)?;
        let segments = writer.read_segments(file)?;
        writer.committed = segments;
        Ok(writer)
    }

    /// Reads a directory and those in it; gives its number.
    fn directory_of(
        &mut self,
        file: &RootFile,
        key: &Key,
        text: KeyText,
        nbytes_name: u64,
        depth: usize,
    ) -> Result<DirectoryId> {
        if depth > DEEPEST || self.directories.iter().any(|known| known.seek == key.seek) {
            return Err(Error::corrupt("directories that hold each other").at(key.seek));
        }
        let room = u64::from(key.total_bytes).saturating_sub(nbytes_name);
        if room < LEAST_ROOM {
            return Err(Error::unsupported(format!(
                "the record of directory {} has room for {room} bytes, not for the {LEAST_ROOM} of a new one",
                text.name
            )));
        }
        let record = file.bytes(key.seek + nbytes_name, room, Cause::Directory)?;
        let mut c = Cursor::new(&record, key.seek + nbytes_name);
        let version = c.u16()?;
        let (created, _modified) = (c.u32()?, c.u32()?);
        let (nbytes_keys, nbytes_name) = (c.u32()?, c.u32()?);
        let wide = version > 1000;
        let mut position = || if wide { c.u64() } else { c.u32().map(u64::from) };
        let (_, parent, seek_keys) = (position()?, position()?, position()?);
        let mut uuid = [0; 16];
        if version % 1000 > 1 {
            c.skip(2)?;
            uuid.copy_from_slice(c.take(16)?);
        }
        let id = self.directories.len();
        self.directories.push(Directory {
            seek: key.seek,
            parent,
            nbytes_name: nbytes_name as usize,
            text,
            created,
            uuid,
            entries: Vec::new(),
            cycles: HashMap::new(),
            children: HashMap::new(),
            keys: (seek_keys, nbytes_keys as usize),
            room: (room as usize).min(DIRECTORY_BYTES),
            changed: false,
            gone: false,
        });
        let list = file.bytes(seek_keys, nbytes_keys.into(), Cause::Directory)?;
        let mut c = Cursor::new(&list, seek_keys);
        let own = Key::parse(&mut c).within(|| "the record of the key list")?;
        c.seek(own.key_bytes.into())?;
        let count = c.count(Key::SMALLEST)?;
        let mut inner = Vec::new();
        for i in 0..count {
            let start = c.pos();
            let key = Key::parse(&mut c).within(|| format!("key {i} of {count}"))?;
            let raw = list.get(start..c.pos()).unwrap_or_default().to_vec();
            self.keep(id, &key, raw);
            if matches!(key.classname.as_str(), "TDirectory" | "TDirectoryFile") {
                inner.push(key);
            }
        }
        // Of several cycles the newest, which comes first, is the one that has the name.
        for key in inner {
            let text = KeyText::new(&key.classname, &key.name, &key.title);
            let child = self
                .directory_of(file, &key, text, key.key_bytes.into(), depth + 1)
                .within(|| format!("directory {}", key.name))?;
            if let Some(directory) = self.directories.get_mut(id) {
                directory.children.entry(key.name).or_insert(child);
            }
        }
        Ok(id)
    }

    fn keep(&mut self, directory: DirectoryId, key: &Key, raw: Vec<u8>) {
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
            let last = directory.cycles.entry(key.name.clone()).or_insert(0);
            *last = (*last).max(key.cycle);
            directory.entries.push(Entry { id, text, numbers, raw: Some(raw) });
        }
    }

    /// Takes over the free segments; gives how many the file lists. One that bears no mark, or overlaps a known record,
    /// stays listed as it is and is left alone.
    fn read_segments(&mut self, file: &RootFile) -> Result<usize> {
        let (seek, bytes) = self.segments;
        let record = file.bytes(seek, bytes as u64, Cause::Directory)?;
        let mut c = Cursor::new(&record, seek);
        let key = Key::parse(&mut c).within(|| "the record of the free segments")?;
        c.seek(key.key_bytes.into())?;
        let known = self.known();
        let mut count = 0;
        while c.remaining() >= 10 {
            let version = c.u16()?;
            let (first, last) =
                if version > 1000 { (c.u64()?, c.u64()?) } else { (c.u32()?.into(), c.u32()?.into()) };
            count += 1;
            let end = last.saturating_add(1);
            if first >= self.end || first < BEGIN || end <= first {
                continue;
            }
            let end = end.min(self.end);
            let marked = end - first >= 4 && {
                let mark = file.bytes(first, 4, Cause::Directory)?;
                let word = mark.first_chunk::<4>().map_or(0, |word| i32::from_be_bytes(*word));
                i64::from(word) == -((end - first).min(i32::MAX as u64) as i64)
            };
            let apart = known.iter().all(|(from, to)| end <= *from || *to <= first);
            if marked && apart {
                self.free.insert(first, end);
            } else if apart {
                self.gaps.push((first, end));
            }
        }
        // Segments must not overlap each other either.
        let mut at = 0;
        let overlap = self.free.iter().any(|(first, end)| {
            let overlap = *first < at;
            at = *end;
            overlap
        });
        if overlap {
            self.free.clear();
        }
        Ok(count)
    }

    /// Frees records with the next commit, but for those that overlap something else that is known.
    pub fn release_records(&mut self, mut records: Vec<(u64, u64)>) {
        let mut known = self.known();
        known.extend(self.free.iter().map(|(first, end)| (*first, *end)));
        known.extend(self.gaps.iter().chain(&self.released));
        known.sort_unstable();
        records.sort_unstable();
        let mut known = known.into_iter().peekable();
        let mut at = 0;
        for (seek, bytes) in records {
            let end = seek.saturating_add(bytes);
            while known.next_if(|(_, end)| *end <= seek).is_some() {}
            let apart = known.peek().is_none_or(|(first, _)| end <= *first);
            if apart && seek >= at && end <= self.end {
                self.released.push((seek, end));
                at = end;
            }
        }
    }

    /// Where known records lie.
    fn known(&self) -> Vec<(u64, u64)> {
        let mut known = vec![(0, BEGIN + self.lead.len() as u64 + DIRECTORY_BYTES as u64)];
        for (seek, bytes) in [self.infos, self.segments] {
            known.push((seek, seek + bytes as u64));
        }
        for directory in &self.directories {
            known.push((directory.keys.0, directory.keys.0 + directory.keys.1 as u64));
            let entries = directory.entries.iter().map(|e| &e.numbers);
            known.extend(entries.map(|n| (n.seek, n.seek + n.total_bytes as u64)));
        }
        known
    }
}
