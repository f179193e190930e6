//! Checksums of the records of a file, kept in a file beside it: collected while records are written, compared when
//! they are read.
//!
//! The stored form, in little-endian numbers of 64 bits:
//!
//! ```text
//!   "SAPWSUM1"   size of the file   number of records   (offset, length, XXH3-64) of each record   XXH3-64 of all before
//! ```
//!
//! The records are in the order of their offsets. The first is the header of the file, the second that of the root
//! directory: every writer that changes the file changes one of them, so they tell whether the checksums belong to it.
//! Free segments have no checksum.

use super::RootFile;
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};
use crate::wire::{Cursor, Key};
use sapwood_io::Cause;
use std::collections::BTreeMap;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

const MAGIC: &[u8; 8] = b"SAPWSUM1";
/// Bytes before the records.
const LEAD: usize = 24;
/// Bytes of a record.
const EACH: usize = 24;
/// Bytes of the checksum at the end.
const END: usize = 8;
/// Bytes read at once.
const CHUNK: u64 = 256 << 10;
/// Bytes of a key up to its own position, in either width.
const HEAD: usize = 26;

/// A record and its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum {
    offset: u64,
    length: u64,
    hash: u64,
}

impl Sum {
    fn end(&self) -> u64 {
        self.offset + self.length
    }
    fn compare(&self, found: u64) -> Result<()> {
        let Self { offset, length, hash } = *self;
        if found == hash {
            return Ok(());
        }
        let message = format!(
            "the checksum of the {length} bytes of this record is {hash:016x}, but they give {found:016x}: the file is \
             damaged, or was changed after its checksums were written"
        );
        Err(Error::corrupt(message).at(offset))
    }
}

/// The checksums of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksums {
    /// Size of the file in bytes; 0 while it is written.
    size: u64,
    /// In the order of their offsets, without overlaps.
    records: Vec<Sum>,
}

impl Checksums {
    /// Computes the checksums of all records of a file; those that are known since they were written are taken over.
    ///
    /// # Errors
    /// When the file is cut off, or the records do not follow one another up to its end.
    pub fn of(file: &RootFile, written: &Written) -> Result<Self> {
        let (header, size) = (file.header(), file.source().size());
        if header.end > size {
            let text =
                format!("the header gives an end at byte {}, but the file has {size} bytes", header.end);
            return Err(Error::corrupt(text));
        }
        let free = free_segments(file)?;
        let mut window = Window::new(file);
        let mut records = vec![window.sum(0, header.begin)?];
        let mut at = header.begin;
        while at < header.end {
            if let Some(known) = written.records.get(&at).filter(|known| known.end() <= header.end) {
                records.try_push(*known)?;
                at = known.end();
                continue;
            }
            if let Some(&last) = free.get(&at) {
                at = last + 1;
                continue;
            }
            let length = i64::from(Cursor::new(window.exact::<4>(at)?, at).i32()?);
            let bytes = length.unsigned_abs();
            let is_record = length >= Key::SMALLEST as i64;
            if at + bytes > header.end || !(is_record || length <= -4) {
                return Err(Error::corrupt("no record begins here, although others should follow").at(at));
            }
            if is_record {
                records.try_push(window.sum(at, bytes)?)?;
            }
            at += bytes;
        }
        Ok(Self { size, records })
    }

    /// Parses the stored form.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: &str| Error::corrupt(format!("it is damaged: {what}"));
        if bytes.get(..MAGIC.len()) != Some(MAGIC) {
            return Err(Error::corrupt("it is not a file of checksums"));
        }
        let (covered, sum) = bytes.split_last_chunk::<END>().ok_or_else(|| wrong("it is cut off"))?;
        if XxHash3_64::oneshot(covered) != u64::from_le_bytes(*sum) {
            return Err(wrong("its own checksum is wrong"));
        }
        let (lead, rest) = covered.split_at_checked(LEAD).ok_or_else(|| wrong("it is cut off"))?;
        let (size, count) = match lead.as_chunks::<8>().0 {
            [_, size, count] => (u64::from_le_bytes(*size), u64::from_le_bytes(*count)),
            _ => return Err(wrong("it is cut off")),
        };
        let (rows, odd) = rest.as_chunks::<EACH>();
        if rows.len() as u64 != count || !odd.is_empty() {
            return Err(wrong("it has another number of records than it states"));
        }
        let mut records = grow::with_room(rows.len())?;
        let mut end = 0;
        for row in rows {
            let [offset, length, hash] = row.as_chunks::<8>().0 else { return Err(wrong("a record")) };
            let [offset, length, hash] = [offset, length, hash].map(|number| u64::from_le_bytes(*number));
            let next = offset.checked_add(length).filter(|next| *next <= size);
            let Some(next) = next.filter(|_| offset >= end && length > 0) else {
                return Err(wrong("its records overlap or are outside of the file"));
            };
            end = next;
            records.push(Sum { offset, length, hash });
        }
        Ok(Self { size, records })
    }

    /// Returns the stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEAD + self.records.len() * EACH + END);
        bytes.extend(MAGIC);
        bytes.extend(self.size.to_le_bytes());
        bytes.extend((self.records.len() as u64).to_le_bytes());
        for Sum { offset, length, hash } in &self.records {
            [offset, length, hash].into_iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        }
        bytes.extend(XxHash3_64::oneshot(&bytes).to_le_bytes());
        bytes
    }

    /// Returns the reason why they do not belong to a file as it is now, if there is one.
    pub(super) fn stranger(&self, file: &RootFile) -> Result<Option<String>> {
        let size = file.source().size();
        if self.size != size {
            return Ok(Some(format!("they are for a file of {} bytes, this one has {size}", self.size)));
        }
        let [header, root, ..] = self.records.as_slice() else {
            return Ok(Some("they do not include the root directory".to_owned()));
        };
        let begin = file.header().begin;
        if (header.offset, header.length, root.offset) != (0, begin, begin) {
            return Ok(Some("they begin with another record".to_owned()));
        }
        let mut window = Window::new(file);
        for one in [header, root] {
            if window.sum(one.offset, one.length)? != *one {
                let what = "the header or the root directory of the file differs";
                return Ok(Some(format!(
                    "{what}: it was changed or replaced after they were written, or is damaged"
                )));
            }
        }
        Ok(None)
    }

    /// Compares all records of a file; returns their number, and the errors of those that differ.
    pub fn compare_all(&self, file: &RootFile) -> Result<(usize, Vec<Error>)> {
        let mut window = Window::new(file);
        let mut faults = Vec::new();
        for record in &self.records {
            if let Err(fault) = record.compare(window.sum(record.offset, record.length)?.hash) {
                faults.try_push(fault)?;
            }
        }
        Ok((self.records.len(), faults))
    }

    /// Length of the record at an offset, if it has a checksum.
    pub(super) fn length_at(&self, offset: u64) -> Option<u64> {
        let place = self.records.binary_search_by_key(&offset, |record| record.offset).ok()?;
        self.records.get(place).map(|record| record.length)
    }

    /// Compares the records that lie completely within some bytes of the file.
    pub(super) fn compare(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let first = self.records.partition_point(|record| record.offset < offset);
        for record in self.records.get(first..).unwrap_or_default() {
            let from = (record.offset - offset) as usize;
            let Some(own) = bytes.get(from..).and_then(|rest| rest.get(..record.length as usize)) else {
                break;
            };
            record.compare(XxHash3_64::oneshot(own))?;
        }
        Ok(())
    }
}

/// Checksums of records as they were passed to the storage, by their offsets.
#[derive(Debug, Default)]
pub struct Written {
    records: BTreeMap<u64, Sum>,
}

impl Written {
    /// Begins with the records of an existing file.
    pub fn of(checksums: &Checksums) -> Self {
        Self { records: checksums.records.iter().map(|record| (record.offset, *record)).collect() }
    }

    /// The hash of a record, given by its range, if it is known.
    pub fn hash_of(&self, offset: u64, length: u64) -> Option<u64> {
        self.records.get(&offset).filter(|record| record.length == length).map(|record| record.hash)
    }

    /// Returns the checksums of the records at offsets that pass a filter.
    pub fn filtered(&self, passes: impl Fn(u64) -> bool) -> Checksums {
        let records = self.records.values().filter(|record| passes(record.offset));
        Checksums { size: 0, records: records.copied().collect() }
    }

    /// Notes parts that are written one after another from `offset` on: the complete records in them, if they begin
    /// with one.
    pub fn note(&mut self, offset: u64, parts: &[&[u8]]) {
        let mut rest = Rest { parts, skipped: 0, left: parts.iter().map(|part| part.len() as u64).sum() };
        self.forget(offset, rest.left);
        let mut offset = offset;
        while let Some(length) = rest.record_at(offset) {
            let hash = rest.sum(length);
            self.records.insert(offset, Sum { offset, length, hash });
            offset += length;
        }
    }

    /// Forgets the records that have some of these bytes.
    pub fn forget(&mut self, offset: u64, length: u64) {
        let before = self.records.range(..offset).next_back().filter(|(_, record)| record.end() > offset);
        let behind = self.records.range(offset..offset.saturating_add(length));
        let gone: Vec<u64> = before.into_iter().chain(behind).map(|(offset, _)| *offset).collect();
        for offset in gone {
            self.records.remove(&offset);
        }
    }
}

/// The bytes of some parts that are still to be taken.
#[derive(Clone, Copy)]
struct Rest<'a> {
    parts: &'a [&'a [u8]],
    /// Bytes of the first part that were taken.
    skipped: usize,
    left: u64,
}

impl<'a> Rest<'a> {
    /// Takes up to `most` bytes that are in one part.
    fn take(&mut self, most: u64) -> Option<&'a [u8]> {
        while let Some((first, others)) = self.parts.split_first() {
            let rest = first.get(self.skipped..).unwrap_or_default();
            if rest.is_empty() {
                (self.parts, self.skipped) = (others, 0);
                continue;
            }
            let taken = rest.get(..usize::try_from(most).unwrap_or(usize::MAX)).unwrap_or(rest);
            self.skipped += taken.len();
            self.left -= taken.len() as u64;
            return Some(taken).filter(|taken| !taken.is_empty());
        }
        None
    }

    /// Returns the length of a complete record whose key gives this offset as its own.
    fn record_at(&self, offset: u64) -> Option<u64> {
        let mut rest = *self;
        let mut head = [0; HEAD];
        let mut room = head.as_mut_slice();
        while !room.is_empty() {
            let some = rest.take(room.len() as u64)?;
            let (to, behind) = room.split_at_mut_checked(some.len())?;
            to.copy_from_slice(some);
            room = behind;
        }
        let mut c = Cursor::new(&head, offset);
        let length = u64::try_from(c.i32().ok()?).ok().filter(|length| *length >= Key::SMALLEST as u64)?;
        let version = c.u16().ok()?;
        c.skip(12).ok()?;
        let own = if version > 1000 { c.u64().ok()? } else { u64::from(c.u32().ok()?) };
        (own == offset && length <= self.left).then_some(length)
    }

    /// Takes a record; returns its checksum.
    fn sum(&mut self, length: u64) -> u64 {
        let first = self.take(length).unwrap_or_default();
        if first.len() as u64 == length {
            return XxHash3_64::oneshot(first);
        }
        let mut hash = XxHash3_64::new();
        hash.write(first);
        let mut missing = length - first.len() as u64;
        while let Some(next) = self.take(missing) {
            hash.write(next);
            missing -= next.len() as u64;
        }
        hash.finish()
    }
}

/// Reads a file from start to end, a chunk at a time.
struct Window<'a> {
    file: &'a RootFile,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    fn new(file: &'a RootFile) -> Self {
        Self { file, start: 0, bytes: Vec::new() }
    }

    /// Returns the bytes from an offset on that were read already, but at most `most`.
    fn known(&self, offset: u64, most: u64) -> &[u8] {
        let from =
            offset.checked_sub(self.start).and_then(|from| self.bytes.get(usize::try_from(from).ok()?..));
        let from = from.unwrap_or_default();
        from.get(..usize::try_from(most).unwrap_or(usize::MAX)).unwrap_or(from)
    }

    /// Reads a chunk from an offset on, with `least` bytes or more.
    fn fill(&mut self, offset: u64, least: u64) -> Result<()> {
        let left = self.file.source().size().saturating_sub(offset);
        self.bytes = self.file.bytes(offset, CHUNK.min(left).max(least), Cause::Object)?;
        self.start = offset;
        Ok(())
    }

    /// Returns some bytes at an offset.
    fn exact<const N: usize>(&mut self, offset: u64) -> Result<&[u8]> {
        if self.known(offset, N as u64).len() < N {
            self.fill(offset, N as u64)?;
        }
        Ok(self.known(offset, N as u64))
    }

    /// Computes the checksum of a record.
    fn sum(&mut self, offset: u64, length: u64) -> Result<Sum> {
        let mut hash = XxHash3_64::new();
        let mut at = offset;
        let end = offset.saturating_add(length);
        while at < end {
            if self.known(at, 1).is_empty() {
                self.fill(at, 1)?;
            }
            let bytes = self.known(at, end - at);
            hash.write(bytes);
            at += bytes.len() as u64;
        }
        Ok(Sum { offset, length, hash: hash.finish() })
    }
}

/// Returns the free segments of a file (`TFree`): first and last byte of each.
fn free_segments(file: &RootFile) -> Result<BTreeMap<u64, u64>> {
    let (seek, bytes) = (file.header().seek_free, u64::from(file.header().nbytes_free));
    let mut segments = BTreeMap::new();
    if seek == 0 {
        return Ok(segments);
    }
    let record = file.bytes(seek, bytes, Cause::Object)?;
    let mut c = Cursor::new(&record, seek);
    let key = Key::parse(&mut c)?;
    c.seek(usize::from(key.key_bytes))?;
    while c.remaining() > 0 {
        let version = c.u16()?;
        // ROOT fills the record with zeros if it lies in what was one of the segments.
        if version == 0 {
            break;
        }
        let wide = version > 1000;
        let mut place = || if wide { c.u64() } else { c.u32().map(u64::from) };
        let (first, last) = (place()?, place()?);
        if first > last || last == u64::MAX {
            return Err(c.corrupt(format!("a free segment from byte {first} to {last}")));
        }
        segments.insert(first, last);
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::{Checksums, Sum, Written, XxHash3_64};
    use crate::file::RootFile;
    use crate::file::writer::{FileWriter, Options};
    use sapwood_io::Memory;
    use sapwood_io::sink::MemorySink;
    use std::sync::Arc;

    fn opened(bytes: &[u8]) -> RootFile {
        RootFile::open(Arc::new(Memory::new("m", bytes.to_vec()))).unwrap()
    }

    /// A file with directories, one of which was deleted, and the checksums that its writer has collected.
    fn written() -> (Vec<u8>, Written) {
        let sink = MemorySink::new();
        let options = Options { uuid: Some([7; 16]), datime: Some(1 << 22), ..Options::default() };
        let mut file = FileWriter::create(Box::new(sink.clone()), "name", options).unwrap();
        file.keep_checksums(Written::default());
        for name in ["first", "second", "third"] {
            file.mkdir(0, name, "title").unwrap();
            file.commit().unwrap();
        }
        file.delete(0, "second", None).unwrap();
        file.commit().unwrap();
        let known = Written { records: file.written().unwrap().records.clone() };
        file.keep_checksums(Written::default());
        assert_eq!(file.written().unwrap().records, known.records, "a second request discards nothing");
        let bytes = sink.bytes().clone();
        (bytes, known)
    }

    #[test]
    fn collected_checksums_are_those_of_the_file() {
        let (bytes, known) = written();
        let file = opened(&bytes);
        let found = Checksums::of(&file, &known).unwrap();
        assert_eq!(found, Checksums::of(&file, &Written::default()).unwrap());
        assert!(found.records.len() >= 6, "{found:?}");
        let collected = found.records.iter().filter(|one| known.records.get(&one.offset) == Some(one));
        assert!(collected.count() >= 2, "{known:?}");
        assert_eq!(Checksums::parse(&found.encode()).unwrap(), found);
        for Sum { offset, length, hash } in &found.records {
            assert_eq!(XxHash3_64::oneshot(&bytes[*offset as usize..(offset + length) as usize]), *hash);
        }
        // A reader of the whole file meets each record.
        assert_eq!(file.use_checksums(found.clone()).unwrap(), None);
        assert_eq!(file.directory().unwrap().keys.len(), 2);
        assert_eq!(file.checksums().unwrap().compare_all(&file).unwrap().1.len(), 0);
        let continued = Written::of(&found);
        assert_eq!(continued.records.len(), found.records.len());
    }

    #[test]
    fn each_changed_byte_of_a_record_is_an_error() {
        let (bytes, known) = written();
        let sums = Checksums::of(&opened(&bytes), &known).unwrap();
        for place in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[place] ^= 4;
            let Ok(file) = RootFile::open(Arc::new(Memory::new("m", damaged))) else { continue };
            let covered =
                sums.records.iter().position(|one| (one.offset..one.end()).contains(&(place as u64)));
            let reason = file.use_checksums(sums.clone()).unwrap();
            match covered {
                Some(0 | 1) => assert!(reason.is_some(), "{place}"),
                Some(number) => {
                    assert_eq!(reason, None);
                    let (count, faults) = file.checksums().unwrap().compare_all(&file).unwrap();
                    assert_eq!((count, faults.len()), (sums.records.len(), 1), "{place}");
                    assert_eq!(faults[0].offset(), Some(sums.records[number].offset));
                }
                None => assert_eq!(file.checksums().unwrap().compare_all(&file).unwrap().1.len(), 0),
            }
        }
    }

    #[test]
    fn damaged_and_false_checksums_are_refused() {
        let (bytes, known) = written();
        let file = opened(&bytes);
        let sums = Checksums::of(&file, &known).unwrap();
        let stored = sums.encode();
        for place in 0..stored.len() {
            let mut damaged = stored.clone();
            damaged[place] ^= 1;
            assert!(Checksums::parse(&damaged).is_err(), "{place}");
            assert!(Checksums::parse(&stored[..place]).is_err(), "{place}");
        }
        let far = u64::MAX - 3;
        for records in [
            vec![Sum { offset: far, length: 8, hash: 0 }],
            vec![Sum { offset: 0, length: far, hash: 0 }],
            vec![Sum { offset: 9, length: 0, hash: 0 }],
            vec![Sum { offset: 8, length: 9, hash: 0 }, Sum { offset: 16, length: 9, hash: 0 }],
            vec![Sum { offset: 8, length: 9, hash: 0 }, Sum { offset: 0, length: 8, hash: 0 }],
        ] {
            assert!(Checksums::parse(&Checksums { size: sums.size, records }.encode()).is_err());
        }
        for records in [Vec::new(), sums.records[..1].to_vec(), sums.records[1..].to_vec()] {
            let few = Checksums { size: sums.size, records };
            assert!(opened(&bytes).use_checksums(few).unwrap().is_some());
        }
        let longer = [&bytes[..], b"more"].concat();
        assert!(opened(&longer).use_checksums(sums).unwrap().unwrap().contains("bytes"));
    }

    #[test]
    fn records_are_found_in_parts_of_any_lengths() {
        let record = |offset: u32, length: u32| {
            let mut bytes = length.to_be_bytes().to_vec();
            bytes.extend([0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 30, 0, 1]);
            bytes.extend(offset.to_be_bytes());
            bytes.extend((bytes.len() as u32..length).map(|i| i as u8));
            bytes
        };
        let all = [record(1000, 40), record(1040, 100), record(1140, 31)].concat();
        let whole = |written: &Written| written.records.values().map(|one| one.length).collect::<Vec<_>>();
        for step in [1, 3, 26, 41, 200] {
            let parts: Vec<&[u8]> = all.chunks(step).flat_map(|part| [part, &[]]).collect();
            let mut written = Written::default();
            written.note(1000, &parts);
            assert_eq!(whole(&written), [40, 100, 31], "{step}");
            assert_eq!(written.records[&1040].hash, XxHash3_64::oneshot(&all[40..140]));
        }
        let mut written = Written::default();
        // Elsewhere these bytes are no records, and the last one is not complete here.
        written.note(2000, &[&all]);
        assert!(written.records.is_empty());
        written.note(1000, &[&all[..160]]);
        assert_eq!(whole(&written), [40, 100]);
        written.note(1139, &[b"x"]);
        assert_eq!(whole(&written), [40]);
        written.note(900, &[&[0; 101]]);
        assert!(written.records.is_empty());
    }
}
