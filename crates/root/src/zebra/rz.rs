//! RZ direct-access files: records, directories, keys and their cycles.

use super::bank::Structure;
use super::fz::PAGE;
use super::words::{Order, Words, six_bit};
use crate::array::pool::Filled;
use crate::error::{Error, Result, Within};
use crate::wire::grow::{self, Grow};
use sapwood_io::{Cause, Range, Source, lock};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Words of a directory before the forms of its key words.
const HEADER: usize = 32;
/// Words of a subdirectory in the list.
const SUBDIRECTORY: usize = 7;
/// Bytes of objects read together.
const TOGETHER: u64 = 256 << 10;
/// Minimum words of a record; RZ itself requires 50.
const SHORTEST_RECORD: usize = 40;
/// Maximum number of record lengths to try if the first bytes of a file allow several.
const MOST_CANDIDATES: usize = 16;
/// Maximum words of a record.
const LARGEST_RECORD: usize = 1 << 16;

/// An RZ file, opened for reading.
pub struct RzFile {
    source: Arc<dyn Source>,
    order: Order,
    /// Words of a record.
    record: usize,
    /// The records of the directories read so far, each with the first record of its directory.
    owners: Mutex<HashMap<u32, u32>>,
}

/// Type of a key word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Bits.
    Bits,
    /// Signed integer.
    Int,
    /// Four characters, in the 6-bit code.
    Text,
}

/// A directory.
#[derive(Debug, Clone)]
pub struct RzDirectory {
    /// Its name.
    pub name: String,
    /// Its first record.
    pub record: u32,
    /// Dates of creation and last change, in RZ's packed form.
    pub created: u32,
    /// See `created`.
    pub modified: u32,
    /// Whether cycles have the new format.
    pub wide: bool,
    /// Types of its key words.
    pub forms: Vec<Form>,
    /// Tags of its key words.
    pub tags: Vec<String>,
    /// Subdirectories: name, first record, date.
    pub directories: Vec<(String, u32, u32)>,
    /// The words of all keys, end to end.
    words: Vec<u32>,
    /// The cycles of all keys, and the start of the cycles of each key (then the end).
    cycles: Vec<Cycle>,
    starts: Vec<usize>,
}

/// One version of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cycle {
    /// Its number.
    pub number: u32,
    /// Whether it is left out of listings.
    pub hidden: bool,
    /// 0 banks, 1 bits, 2 integers, 3 floats, 5 text.
    pub form: u32,
    /// Date of writing, in RZ's packed form.
    pub date: u32,
    /// Record and word (from 1) of its start, and the record where it continues.
    pub first_record: u32,
    /// See `first_record`.
    pub first_word: u32,
    /// See `first_record`; 0 if it does not continue.
    pub second_record: u32,
    /// Number of its words.
    pub words: u32,
}

/// Returns the possible byte orders and record lengths of an RZ file with these first bytes.
fn candidates(first: &[u8]) -> impl Iterator<Item = (Order, usize)> {
    [Order::Big, Order::Little].into_iter().flat_map(move |order| {
        let words = Words::new(first, order, 0);
        let lengths = SHORTEST_RECORD..words.len().min(LARGEST_RECORD);
        lengths.filter(move |&length| is_top(&words, length) == Some(true)).map(move |length| (order, length))
    })
}

/// Whether the top directory can start after one record of this length, judging by its first record.
fn is_top(words: &Words<'_>, length: usize) -> Option<bool> {
    let word = |index: usize| words.get((length - 1).checked_add(index)?).map(|word| word as usize);
    let (records, bitmap) = (word(24)?, word(25)?);
    if records < HEADER || records >= length || word(5)? != 0 {
        return Some(false);
    }
    let count = word(records)?;
    let ordered = bitmap.checked_sub(records)? > count
        && bitmap < word(26)?
        && word(26)? <= word(27)?
        && word(27)? <= word(28)?
        && word(28)? <= word(29)?;
    Some(
        ordered
            && count > 0
            && word(records + 1)? == 2
            && word(30)? == count.checked_mul(length)?
            && (bitmap >= length || word(bitmap + 1)? == length),
    )
}

impl RzFile {
    /// Bytes read to detect an RZ file.
    pub const FIRST: u64 = 4 * 2 * LARGEST_RECORD as u64;

    /// Opens a file; detects byte order and record length.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
        let mut file = Self { source, order: Order::Big, record: 0, owners: Mutex::default() };
        // Nearly all files have short records.
        for most in [16 << 10, Self::FIRST] {
            let mut first = grow::filled(file.source.size().min(most) as usize, 0)?;
            file.source.fetch(
                &[Range { offset: 0, length: first.len() as u64 }],
                &mut first,
                Cause::Header,
            )?;
            for (order, record) in candidates(&first).take(MOST_CANDIDATES) {
                (file.order, file.record) = (order, record);
                if file.confirms_length(&Words::new(&first, order, 0)) {
                    return Ok(file);
                }
            }
        }
        Err(Error::corrupt("not a ZEBRA RZ file").at(0).within(file.source.name()))
    }
    /// Whether the top directory confirms the assumed record length. The length follows the directory's list of
    /// records, which can be longer than its first record.
    fn confirms_length(&self, first: &Words<'_>) -> bool {
        let place = first.get(self.record + 24).unwrap_or(0) as usize;
        let said = || Words::new(&self.directory_bytes(2).ok()?.0, self.order, 0).get(place);
        place < self.record || said() == Some(self.record as u32)
    }
    /// The storage.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    /// The byte order of its words.
    pub fn order(&self) -> Order {
        self.order
    }
    /// Words of a record.
    pub fn record_words(&self) -> usize {
        self.record
    }
    fn record_offset(&self, record: u32) -> Option<u64> {
        u64::from(record).checked_sub(1)?.checked_mul(4 * self.record as u64)
    }
    fn read_ranges(&self, ranges: &[Range], cause: Cause) -> Result<Vec<u8>> {
        let mut bytes = grow::filled(self.total(ranges)?, 0)?;
        self.source.fetch(ranges, &mut bytes, cause)?;
        Ok(bytes)
    }
    /// Total bytes of ranges; an error if they are not in the file.
    fn total(&self, ranges: &[Range]) -> Result<usize> {
        let mut total = 0u64;
        for range in ranges {
            if range.end() > self.source.size() {
                let message = format!("bytes to {}, but the file has {}", range.end(), self.source.size());
                return Err(Error::corrupt(message).at(range.offset).short());
            }
            total = total.saturating_add(range.length);
        }
        // Ranges of one object do not overlap, so that they cannot exceed the file.
        if total > self.source.size() {
            return Err(Error::corrupt(format!(
                "the header declares {total} bytes, but the file has {}",
                self.source.size()
            )));
        }
        Ok(total as usize)
    }

    /// Returns the top directory.
    pub fn directory(&self) -> Result<RzDirectory> {
        self.directory_at(2)
    }
    /// Returns the directory that starts in a record.
    pub fn directory_at(&self, record: u32) -> Result<RzDirectory> {
        self.read_directory(record)
            .within(|| format!("the directory in record {record} of {}", self.source.name()))
    }
    fn read_directory(&self, record: u32) -> Result<RzDirectory> {
        let (bytes, records) = self.directory_bytes(record)?;
        self.claim(record, &records)?;
        let origin = self.record_offset(record).unwrap_or(0);
        RzDirectory::parse(&Words::new(&bytes, self.order, origin), record, self.record)
    }
    /// Claims records for a directory; fails if another directory has one of them. No file has more directories than
    /// records.
    fn claim(&self, directory: u32, records: &[u32]) -> Result<()> {
        let mut owners = lock(&self.owners);
        for &record in records {
            grow::place(&mut owners)?;
            let owner = *owners.entry(record).or_insert(directory);
            if owner != directory {
                let message = format!("record {record} is part of the directory in record {owner}, too");
                return Err(Error::corrupt(message).at(self.record_offset(record).unwrap_or(0)));
            }
        }
        Ok(())
    }
    /// Returns the words of a directory, and its records.
    fn directory_bytes(&self, record: u32) -> Result<(Vec<u8>, Vec<u32>)> {
        let length = 4 * self.record as u64;
        let range = |record: u32| -> Result<Range> {
            let offset = self.record_offset(record).filter(|&at| at < self.source.size());
            let offset = offset.ok_or_else(|| Error::corrupt(format!("there is no record {record}")))?;
            Ok(Range { offset, length: length.min(self.source.size() - offset) })
        };
        let first = range(record)?;
        let mut bytes = self.read_ranges(&[first], Cause::Directory)?;
        let mut records = vec![record];
        // The list of records can continue in the records that it lists.
        loop {
            let words = Words::new(&bytes, self.order, first.offset);
            // Words are counted from 1 in the format.
            let list = words.word(23)? as usize;
            if list < HEADER {
                return Err(
                    words.corrupt(23, format!("the list of records has an invalid position: word {list}"))
                );
            }
            let count = words.word(list - 1)? as usize;
            if count <= records.len() {
                return Ok((bytes, records));
            }
            if count as u64 > self.source.size() / length + 1 {
                return Err(words
                    .corrupt(list - 1, format!("the directory has an invalid number of records: {count}")));
            }
            if words.get(list) != Some(record) {
                let message = "a directory whose list of records does not begin with its own";
                return Err(words.corrupt(list, message));
            }
            let read = records.len();
            let known = count.min(words.len() - list);
            if known <= read || words.len() != read * self.record {
                let message = format!(
                    "the directory has an invalid number of records: {count}, of which {read} are whole"
                );
                return Err(words.corrupt(list - 1, message).short());
            }
            records.room(count - read)?;
            records.extend(words.slice(list + read, known - read)?.iter());
            let ranges: Vec<Range> =
                records.iter().skip(read).map(|&record| range(record)).collect::<Result<_>>()?;
            if let Some(cut) = ranges.iter().rev().skip(1).find(|range| range.length < length) {
                return Err(Error::corrupt("the file ends within a record of a directory")
                    .at(cut.offset)
                    .short());
            }
            let more = self.read_ranges(&ranges, Cause::Directory)?;
            bytes.try_extend(&more)?;
        }
    }

    /// Returns the byte ranges of an object, in order.
    pub fn ranges(&self, cycle: &Cycle) -> Result<Vec<Range>> {
        let (record, word) = (self.record as u64, u64::from(cycle.first_word));
        let start = self.record_offset(cycle.first_record);
        let Some(start) = start.filter(|_| word >= 1 && word <= record) else {
            let message = format!("an object at word {word} of record {}", cycle.first_record);
            return Err(Error::corrupt(message));
        };
        let (all, first) = (u64::from(cycle.words), (record + 1 - word).min(u64::from(cycle.words)));
        let mut ranges = vec![Range { offset: start.saturating_add(4 * (word - 1)), length: 4 * first }];
        if all > first {
            let second = self.record_offset(cycle.second_record);
            let offset = second.ok_or_else(|| {
                Error::corrupt(format!("the object has {all} words, but its only record holds {first}"))
            })?;
            let rest = Range { offset, length: 4 * (all - first) };
            match ranges.last_mut() {
                Some(last) if last.end() == offset => last.length = last.length.saturating_add(rest.length),
                _ => ranges.push(rest),
            }
        }
        if let Some(past) = ranges.iter().find(|range| range.end() > self.source.size()) {
            let message =
                format!("an object to byte {}, but the file has {}", past.end(), self.source.size());
            return Err(Error::corrupt(message).at(past.offset).short());
        }
        Ok(ranges)
    }
    /// Returns some words of an object, counted from 0, as far as it has them.
    pub fn object_part(&self, cycle: &Cycle, start: usize, count: usize) -> Result<Vec<u8>> {
        let ranges = part(&self.ranges(cycle)?, 4 * start as u64, 4 * count as u64);
        self.read_ranges(&ranges, Cause::Object)
    }
    /// Returns the bytes of an object.
    pub fn object(&self, cycle: &Cycle) -> Result<Vec<u8>> {
        self.read_ranges(&self.ranges(cycle)?, Cause::Object)
    }
    /// Reads objects and passes on their words, one object after the other. Neighbours in the file are read together.
    /// An error is returned with the index of its object in the list.
    pub fn objects(
        &self,
        cycles: &[Cycle],
        mut each: impl FnMut(Words<'_>) -> Result<()>,
    ) -> std::result::Result<(), (usize, Error)> {
        let most = TOGETHER.min(self.source.size());
        let (mut buffer, mut ranges, mut lengths) = (None, Vec::<Range>::new(), Vec::new());
        let mut first = 0;
        while first < cycles.len() {
            ranges.clear();
            lengths.clear();
            let mut total = 0;
            for (place, cycle) in cycles.iter().enumerate().skip(first) {
                let length = 4 * u64::from(cycle.words);
                if total > 0 && total + length > most {
                    break;
                }
                for range in self.ranges(cycle).map_err(|error| (place, error))? {
                    match ranges.last_mut() {
                        Some(last) if last.end() == range.offset => last.length += range.length,
                        _ => ranges.push(range),
                    }
                }
                lengths.push(length as usize);
                total += length;
            }
            let mut rest = self.together(&ranges, most, &mut buffer).map_err(|error| (first, error))?;
            for (cycle, &length) in cycles.iter().skip(first).zip(&lengths) {
                let (object, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
                each(self.words(cycle, object)).map_err(|error| (first, error))?;
                rest = behind;
                first += 1;
            }
        }
        Ok(())
    }
    /// Reads ranges into a buffer of at least `most` bytes; allocates it if the current one is too small.
    fn together<'a>(&self, ranges: &[Range], most: u64, buffer: &'a mut Option<Filled>) -> Result<&'a [u8]> {
        let total = self.total(ranges)?;
        let room = total.max(most as usize).saturating_add(PAGE);
        let buffer = match buffer.take().filter(|buffer| buffer.size() >= room) {
            Some(enough) => buffer.insert(enough),
            None => buffer.insert(Filled::new(room)?),
        };
        let first = ranges.first().map_or(0, |range| range.offset % PAGE as u64) as usize;
        let start = (first + buffer.as_slice().as_ptr().align_offset(PAGE).min(PAGE)) % PAGE;
        let bytes = buffer.bytes().get_mut(start..start + total).unwrap_or_default();
        self.source.fetch(ranges, bytes, Cause::Object)?;
        Ok(bytes)
    }
    /// Offset of the first byte of an object.
    fn origin(&self, cycle: &Cycle) -> u64 {
        let record = self.record_offset(cycle.first_record).unwrap_or(0);
        record.saturating_add(4 * u64::from(cycle.first_word.saturating_sub(1)))
    }
    /// Returns the words of an object, given its bytes.
    pub fn words<'a>(&self, cycle: &Cycle, bytes: &'a [u8]) -> Words<'a> {
        Words::new(bytes, self.order, self.origin(cycle))
    }
    /// Number of bytes in an object before its banks.
    pub fn before(&self, cycle: &Cycle, structure: &Structure<'_>) -> u64 {
        structure.words().offset(0).saturating_sub(self.origin(cycle))
    }
    /// Returns the banks of an object of form 0, given its bytes.
    pub fn structure<'a>(&self, cycle: &Cycle, bytes: &'a [u8]) -> Result<Structure<'a>> {
        let words = self.words(cycle, bytes);
        let (table, banks) = table_and_banks(words)?;
        Structure::parse(table, banks, words.word(2)?)
    }
}

/// Returns the part of consecutive ranges from a byte on.
pub fn part(ranges: &[Range], mut skip: u64, mut length: u64) -> Vec<Range> {
    let mut pieces = Vec::new();
    for range in ranges {
        let passed = skip.min(range.length);
        skip -= passed;
        let here = (range.length - passed).min(length);
        length -= here;
        if here > 0 {
            pieces.push(Range { offset: range.offset + passed, length: here });
        }
    }
    pieces
}

/// Splits an object of form 0 into its relocation table and its banks.
pub fn table_and_banks(words: Words<'_>) -> Result<(Words<'_>, Words<'_>)> {
    let table = words.count(0, 3)?;
    let banks = words.count(1, 3 + table)?;
    Ok((words.slice(3, table)?, words.slice(3 + table, banks)?))
}

impl RzDirectory {
    /// Parses a directory from the words of all its records.
    fn parse(words: &Words<'_>, record: u32, record_words: usize) -> Result<Self> {
        // Indices of the format count from 1.
        let at = |index: usize| words.word(index - 1);
        let place = |index: usize| -> Result<usize> {
            let value = at(index)? as usize;
            if value == 0 || value > words.len() + 1 {
                return Err(words.corrupt(
                    index - 1,
                    format!("word {value} is outside of the directory of {} words", words.len()),
                ));
            }
            Ok(value)
        };
        let name = six_bit(words.slice(0, 4)?.iter());
        let wide = match at(16)? {
            0 => false,
            1 => true,
            version => {
                return Err(Error::unsupported(format!("cycles of format {version} are not supported"))
                    .at(words.offset(15)));
            }
        };
        let width = at(32)? as usize;
        let (lists, keys, start, end) = (place(26)?, place(27)?, place(29)?, place(30)?);
        if width == 0 || width > 100 || end > words.len() || start > end + 1 {
            let message = format!("keys of {width} words and cycles from word {start} to {end}");
            return Err(words.corrupt(28, message));
        }
        let forms = (0..width).map(|index| {
            let form = at(33 + index / 10)? >> (3 * (index % 10)) & 7;
            Ok(match form {
                1 => Form::Bits,
                2 => Form::Int,
                _ => Form::Text,
            })
        });
        let forms = forms.collect::<Result<_>>()?;
        let tags_at = HEADER + width.div_ceil(10);
        let tags = (0..width)
            .map(|index| Ok(six_bit(words.slice(tags_at + 2 * index, 2)?.iter())))
            .collect::<Result<_>>()?;
        let count = at(23)? as usize;
        let listed = words.slice(lists - 1, count.saturating_mul(SUBDIRECTORY))?;
        let directories = (0..count)
            .map(|index| {
                let entry = listed.slice(SUBDIRECTORY * index, SUBDIRECTORY)?;
                let record = entry.word(5)? & if wide { u32::MAX } else { 0x3_ffff };
                Ok((six_bit(entry.slice(0, 4)?.iter()), record, entry.word(6)?))
            })
            .collect::<Result<_>>()?;
        let mut directory = Self {
            name,
            record,
            created: at(10)?,
            modified: at(11)?,
            wide,
            forms,
            tags,
            directories,
            words: Vec::new(),
            cycles: Vec::new(),
            starts: vec![0],
        };
        let count = at(31)? as usize;
        let listed = words.slice(keys - 1, count.saturating_mul(1 + width))?;
        directory.words.room(count * width)?;
        directory.starts.room(count)?;
        for index in 0..count {
            let key = listed.slice((1 + width) * index, 1 + width)?;
            directory.words.extend(key.from(1).iter());
            directory.read_cycles(words, (start, end), key.word(0)?, record_words)?;
            directory.starts.push(directory.cycles.len());
        }
        Ok(directory)
    }
    /// Reads the cycles of a key, newest first.
    fn read_cycles(
        &mut self,
        words: &Words<'_>,
        (start, end): (usize, usize),
        newest: u32,
        record_words: usize,
    ) -> Result<()> {
        let size = if self.wide { 7 } else { 4 };
        let mut at = newest as usize;
        while at != 0 && at as u32 != u32::MAX {
            // Keys share no cycles, so that their number is limited by the area.
            if at < start || at + size > end + 1 || self.cycles.len() * size > end.saturating_sub(start) {
                let message = format!("a cycle at word {at}, or one too many, between {start} and {end}");
                return Err(words.corrupt(at.saturating_sub(1), message));
            }
            let word = |index: usize| words.word(at - 1 + index);
            let about = word(1)?;
            let (previous, mut cycle) = if self.wide {
                let cycle = Cycle {
                    number: word(3)? >> 20,
                    first_record: word(2)?,
                    first_word: word(3)? & 0xf_ffff,
                    second_record: word(5)?,
                    words: word(4)?,
                    hidden: false,
                    form: 0,
                    date: 0,
                };
                (word(0)?, cycle)
            } else {
                let cycle = Cycle {
                    number: word(3)? >> 20,
                    first_record: word(2)? >> 16,
                    first_word: word(2)? & 0xffff,
                    second_record: word(0)? >> 16,
                    words: word(3)? & 0xf_ffff,
                    hidden: false,
                    form: 0,
                    date: 0,
                };
                let deleted = word(0)? == u32::MAX;
                (if deleted { 0 } else { word(0)? & 0xffff }, cycle)
            };
            cycle.form = about & 7;
            cycle.hidden = about & 8 != 0;
            cycle.date = about >> 8;
            if word(0)? != u32::MAX {
                if cycle.first_word as usize > record_words {
                    let message = format!("an object at word {} of a record", cycle.first_word);
                    return Err(words.corrupt(at - 1, message));
                }
                self.cycles.push(cycle);
            }
            at = previous as usize;
        }
        Ok(())
    }
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }
    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the words of a key.
    pub fn key(&self, index: usize) -> &[u32] {
        let width = self.forms.len();
        self.words.get(index.saturating_mul(width)..).and_then(|rest| rest.get(..width)).unwrap_or_default()
    }
    /// Returns the cycles of a key, newest first.
    pub fn cycles(&self, index: usize) -> &[Cycle] {
        let bounds = self.starts.get(index).zip(self.starts.get(index + 1));
        bounds.and_then(|(&start, &end)| self.cycles.get(start..end)).unwrap_or_default()
    }
    /// Formats a key: its words, separated by commas.
    pub fn key_text(&self, index: usize) -> String {
        let word = |(&word, form): (&u32, &Form)| match form {
            Form::Text => six_bit(std::iter::once(word)),
            Form::Int => word.cast_signed().to_string(),
            Form::Bits => word.to_string(),
        };
        self.key(index).iter().zip(&self.forms).map(word).collect::<Vec<String>>().join(",")
    }
    /// Returns the indices of all keys, sorted by their words; equal keys keep their order.
    pub fn sorted(&self) -> Result<Vec<usize>> {
        let mut order = grow::collected(0..self.len())?;
        order.sort_unstable_by(|&a, &b| self.key(a).cmp(self.key(b)).then(a.cmp(&b)));
        Ok(order)
    }
}

/// Returns year, month, day, hour and minute of a date in RZ's packed form (24 bits).
pub fn date(packed: u32) -> (u32, u32, u32, u32, u32) {
    let (minute, hour, days) = (packed % 60, packed / 60 % 24, packed / 1440);
    let day = if days % 31 == 0 { 31 } else { days % 31 };
    let months = days.saturating_sub(day) / 31;
    let month = if months % 12 == 0 { 12 } else { months % 12 };
    (1986 + months.saturating_sub(month) / 12, month, day, hour, minute)
}
