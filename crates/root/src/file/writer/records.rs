//! Records and their positions: allocation, free segments, and commits.

use super::{BEGIN, DirectoryId, FileWriter, KeyNumbers, KeyText, SMALL, START_BIG, encode_key};
use crate::compress::encode::compress;
use crate::error::{Error, Result, Within};
use crate::streamer::encode::{append_infos, encode_infos, with_dependencies};
use crate::streamer::{Classes, StreamerInfo};
use crate::wire::writer::Writer;
use std::collections::BTreeMap;

impl FileWriter {
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
        if self.infos_changed {
            self.write_infos()?;
        }
        // Everything new is written: now write the records that lead to it, the outermost last. Before those of
        // subdirectories the header gets the new end and classes. Nothing that the subdirectories still lead to is free
        // then, so that the file can be updated whatever ends the commit.
        if self.segments.0 != 0 && self.directories.iter().skip(1).any(|d| d.changed) {
            let released = std::mem::take(&mut self.released);
            let count = self.write_segments()?;
            self.released.extend(released);
            let header = self.header(self.segments, count)?;
            self.rewrite(0, &header)?;
        }
        let count = self.write_segments()?;
        let mut heads = Vec::new();
        for id in (1..self.directories.len()).rev() {
            if self.directories.get(id).is_some_and(|d| d.changed) {
                let (place, record) = self.directory_record(id)?;
                self.rewrite(place, &record)?;
                heads.push((place, record));
            }
        }
        // The root directory and the header lead to everything: they change in one write, within one page.
        let header = self.header(self.segments, count)?;
        let (_, record) = self.directory_record(0)?;
        let first = [header.as_slice(), &self.lead, &record].concat();
        self.rewrite(0, &first)?;
        self.sink.finish(self.end).within(|| self.sink.name().to_owned())?;
        heads.push((0, first));
        self.heads.extend(heads);
        self.rewritten.clear();
        for directory in &mut self.directories {
            directory.changed = false;
        }
        self.uncommitted = 0;
        let freed = self.free_released();
        self.last = Some((self.end, self.free.clone()));
        freed.map_err(|error| {
            let state = "all changes are in the file, but an unused part of it is not marked as such";
            Error::new(error.kind(), format!("{error}: {state}"))
        })
    }

    /// Rewrites a record in place.
    fn rewrite(&mut self, place: u64, record: &[u8]) -> Result<()> {
        self.rewritten.push(place);
        self.put(place, &[record])
    }

    pub(super) fn put(&mut self, offset: u64, parts: &[&[u8]]) -> Result<()> {
        if let Some(written) = &mut self.written {
            written.note(offset, parts);
        }
        let result = self.sink.write_at(offset, parts).map_err(|e| Error::from(e).at(offset));
        if let (Err(_), Some(written)) = (&result, &mut self.written) {
            written.forget(offset, parts.iter().map(|part| part.len() as u64).sum());
        }
        result.within(|| self.sink.name().to_owned())
    }
    /// Writes a record at a new place. If this fails, the place becomes free with the next commit: a reader that searches
    /// records could not go past it otherwise.
    pub(super) fn put_new(&mut self, place: u64, parts: &[&[u8]]) -> Result<()> {
        let result = self.put(place, parts);
        if result.is_err() {
            let bytes: usize = parts.iter().map(|part| part.len()).sum();
            self.released.insert((place, place + bytes as u64));
        }
        result
    }

    /// Whether a record of up to that size may need 64-bit positions.
    pub(super) fn big(&self, size: u64) -> bool {
        self.end + size > START_BIG
    }

    /// Allocates the smallest free segment that fits `size` bytes with a rest of none or at least eight; otherwise the
    /// end of the file. The rest of a segment is marked first: a writer that is killed leaves no place at which neither a
    /// record nor a mark begins.
    pub(super) fn allocate(&mut self, size: usize) -> Result<u64> {
        let size = size as u64;
        let fits = |(_, room): &(u64, u64)| *room == size || *room >= size + 8;
        let best = self
            .free
            .iter()
            .map(|(first, end)| (*first, end - first))
            .filter(fits)
            .min_by_key(|(_, room)| *room);
        if let Some((first, room)) = best.filter(|_| !self.closing) {
            if room > size {
                self.mark_free(first + size, first + room)?;
                self.free.insert(first + size, first + room);
            }
            self.free.remove(&first);
            return Ok(first);
        }
        let place = self.end;
        self.end += size;
        Ok(place)
    }

    /// Compresses an object and writes it with its key to a new place.
    pub(super) fn record(
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
        let seek = self.allocate(total_bytes)?;
        if growing && total_bytes > 1024 && self.end == seek + total_bytes as u64 {
            let more = (total_bytes / 2).max(8) as u64;
            self.put(self.end, &[&(-(more as i32)).to_be_bytes()]).inspect_err(|_| {
                self.released.insert((seek, self.end));
            })?;
            self.free.insert(self.end, self.end + more);
            self.end += more;
        }
        let numbers =
            KeyNumbers { total_bytes, object_bytes: object.len(), datime, key_bytes, seek, ..*numbers };
        let mut w = Writer::new(0);
        encode_key(&mut w, text, &numbers)?;
        self.put_new(seek, &[w.bytes()?, body])?;
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
        // Keys without a position were reserved but never written.
        let written = directory.entries.iter().filter(|e| e.numbers.seek != 0);
        w.put(written.clone().count() as u32);
        for entry in written {
            match &entry.raw {
                Some(raw) => w.raw(raw),
                None => encode_key(&mut w, &entry.text, &entry.numbers)?,
            }
        }
        let key_bytes = text.size(big);
        let list = w.bytes()?;
        let total_bytes = key_bytes + list.len();
        let datime = self.datime();
        let seek = self.allocate(total_bytes)?;
        let object_bytes = list.len();
        let numbers =
            KeyNumbers { total_bytes, object_bytes, datime, key_bytes, cycle: 1, seek, seek_parent, big };
        let mut key = Writer::new(0);
        encode_key(&mut key, &text, &numbers)?;
        self.put_new(seek, &[key.bytes()?, list])?;
        if old.0 != 0 {
            self.released.insert((old.0, old.0 + old.1 as u64));
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
            // The old contents are kept byte for byte, including schema evolution rules.
            Some(old) => {
                let key_bytes = text.size(big);
                match old.moved(key_bytes) {
                    Ok(old) => {
                        let known = Classes::parse(&old, key_bytes as u64)?;
                        infos.retain(|info| known.find(&info.name, info.version).is_none());
                        append_infos(&old, &infos, key_bytes)?
                    }
                    // With a key of another length everything is rewritten, unless the record holds more than classes.
                    Err(error) if old.holds(b"listOfRules") => return Err(error),
                    Err(_) => encode_infos(&infos, key_bytes)?,
                }
            }
            None => encode_infos(&infos, text.size(big))?,
        };
        let numbers = KeyNumbers { cycle: 1, seek_parent: BEGIN, big, ..KeyNumbers::default() };
        let numbers = self.record(&text, &numbers, &object, false)?;
        if self.infos.0 != 0 {
            self.released.insert((self.infos.0, self.infos.0 + self.infos.1 as u64));
        }
        self.infos = (numbers.seek, numbers.total_bytes);
        self.infos_changed = false;
        Ok(())
    }

    /// Writes the free segments (`TFree`) at the end of the file; returns their number.
    fn write_segments(&mut self) -> Result<usize> {
        // Free bytes at the end of the file are not part of it.
        while let Some((first, end)) = self.free.last_key_value().map(|(a, b)| (*a, *b)) {
            if end != self.end {
                break;
            }
            self.free.remove(&first);
            self.end = first;
        }
        if self.segments.0 != 0 {
            self.released.insert((self.segments.0, self.segments.0 + self.segments.1 as u64));
        }
        self.keep_shared();
        // Adjacent segments are merged, like their mark.
        let mut all = self.free.clone();
        all.extend(self.released.iter().copied());
        let mut segments = joined(&all);
        segments.extend(self.gaps.iter().copied());
        let root = self.directory(0)?.text.clone();
        let big = self.big(1 << 30);
        let key_bytes = root.size(big);
        // The last byte of a segment is inclusive. The last segment begins at the end of the file and is unbounded.
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
        self.put_new(seek, &[w.bytes()?])?;
        self.segments = (seek, total_bytes);
        Ok(count)
    }

    /// Returns a directory's own record (`TDirectoryFile`) and its position.
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
                "directory {} of a file that has outgrown 2 GB: its record cannot hold 64-bit positions",
                directory.text.name
            )));
        }
        Ok((directory.seek + directory.nbytes_name as u64, w.into_bytes()?))
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
        w.into_bytes()
    }

    /// Keeps released segments that partly belong to something else.
    fn keep_shared(&mut self) {
        let shared = &self.shared;
        self.released.retain(|(first, end)| {
            let next = shared.partition_point(|(_, to)| to <= first);
            shared.get(next).is_none_or(|(from, _)| from >= end)
        });
    }

    /// Adds released segments to the free ones, joins adjacent segments and marks each with its negative length. ROOT
    /// needs the marks to walk through the records.
    fn free_released(&mut self) -> Result<()> {
        self.keep_shared();
        if self.released.is_empty() {
            return Ok(());
        }
        self.free.extend(std::mem::take(&mut self.released));
        self.free = joined(&self.free);
        let marks = self.free.clone();
        marks.into_iter().try_for_each(|(first, end)| self.mark_free(first, end))
    }
    /// Writes the negative length of a free segment at its begin.
    pub(super) fn mark_free(&mut self, first: u64, end: u64) -> Result<()> {
        let length = i32::try_from(end - first).unwrap_or(i32::MAX);
        self.put(first, &[&(-length).to_be_bytes()])
    }
}

/// Returns the segments with adjacent ones joined.
fn joined(segments: &BTreeMap<u64, u64>) -> BTreeMap<u64, u64> {
    let mut joined: BTreeMap<u64, u64> = BTreeMap::new();
    for (first, end) in segments {
        match joined.last_entry() {
            Some(mut last) if last.get() == first => *last.get_mut() = *end,
            _ => {
                joined.insert(*first, *end);
            }
        }
    }
    joined
}
