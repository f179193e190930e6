//! Writing structures of banks: FZ in exchange mode, RZ with the new format of cycles.

use super::fz::{MAGIC, PILOT, STEERING};
use super::layout::{Kind, two_kinds};
use super::words::to_six_bit;
use crate::error::{Error, Result};
use sapwood_io::sink::Sink;

/// Version of the writer, in ZEBRA's own numbering.
const VERSION: u32 = 37_900;
/// Memory address of the first bank; only links refer to it.
const FIRST_ADDRESS: u32 = 1001;
/// Record flags for a start of run and an end of run.
const START: u32 = 1 << 29;
const END: u32 = 1 << 30;
const RUN: u32 = 1;
const EVENT: u32 = 2;
const PADDING: u32 = 5;
/// Bytes passed on at a time.
const CHUNK: usize = 1 << 20;
/// Date to write: midnight of the first day that RZ can represent.
const DATE: u32 = (1 + 31) * 1440;

/// The banks of a structure on one link of its top bank.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The name of the banks.
    pub name: [u8; 4],
    /// Kind and number of the first data words; kind of all others.
    pub kinds: (Option<(Kind, u32)>, Kind),
    /// Data words of each bank.
    pub words: usize,
    /// Name of the bank that links to all of them; `None` for a single bank directly on the link of the top bank.
    pub list: Option<[u8; 4]>,
}

/// The data of one structure: the top bank, then, for each shape, the words of all its banks.
pub struct Content<'a> {
    /// Integers of the top bank.
    pub top: &'a [u32],
    /// The words of the banks, end to end.
    pub parts: Vec<&'a [u32]>,
}

/// Builds the words of structures of one form.
pub struct Builder {
    name: [u8; 4],
    shapes: Vec<Shape>,
    /// The words of the last structure.
    words: Vec<u32>,
}

impl Builder {
    /// Creates a builder with a top bank of this name, which has one link for each shape.
    pub fn new(name: [u8; 4], shapes: Vec<Shape>) -> Self {
        Self { name, shapes, words: Vec::new() }
    }
    /// Returns the words of the table, the words of the banks, and the address of the top bank.
    fn structure(&mut self, content: &Content<'_>, number: u32) -> Result<(&[u32], [u32; 2], u32)> {
        let words = &mut self.words;
        words.clear();
        let links = self.shapes.len();
        let top =
            bank(words, two_kinds(None, Kind::Int, links)?, self.name, links, (number, 0, 0), content.top);
        for (place, (shape, &data)) in self.shapes.iter().zip(&content.parts).enumerate() {
            let each = shape.words.max(1);
            let link = place as u32 + 1;
            if !data.len().is_multiple_of(each) || (shape.list.is_none() && data.len() != each) {
                let name = String::from_utf8_lossy(&shape.name);
                return Err(Error::argument(format!(
                    "{} words are not a whole number of banks {name} of {each} words",
                    data.len()
                )));
            }
            let (mut above, mut child) = (top, link);
            let count = data.len() / each;
            if let Some(list) = shape.list {
                let form = two_kinds(None, Kind::Int, count)?;
                above = bank(words, form, list, count, (link, top, top - link), &[]);
                connect(words, top - link, above);
                child = 1;
            }
            let form = two_kinds(shape.kinds.0, shape.kinds.1, 0)?;
            for data in data.chunks_exact(each) {
                let made = bank(words, form, shape.name, 0, (child, above, above - child), data);
                connect(words, above - child, made);
                child += 1;
            }
        }
        let end = FIRST_ADDRESS + words.len() as u32;
        Ok((words, [FIRST_ADDRESS, end], top))
    }
}

/// Adds a bank and returns its address. `about`: its number, the address of the bank above, and the address of the link
/// to it.
fn bank(
    words: &mut Vec<u32>,
    form: u32,
    name: [u8; 4],
    links: usize,
    (number, up, origin): (u32, u32, u32),
    data: &[u32],
) -> u32 {
    words.push(form);
    words.resize(words.len() + links, 0);
    let address = FIRST_ADDRESS + words.len() as u32;
    let links = links as u32;
    words.extend([0, up, origin, number, u32::from_be_bytes(name), links, links, data.len() as u32, 0]);
    words.extend_from_slice(data);
    address
}

/// Sets the link at an address.
fn connect(words: &mut [u32], link: u32, to: u32) {
    if let Some(word) = words.get_mut((link - FIRST_ADDRESS) as usize) {
        *word = to;
    }
}

/// Words to be written to a file.
struct Stream {
    sink: Box<dyn Sink>,
    bytes: Vec<u8>,
    offset: u64,
}

impl Stream {
    fn new(sink: Box<dyn Sink>, offset: u64) -> Self {
        Self { sink, bytes: Vec::with_capacity(CHUNK + (1 << 16)), offset }
    }
    fn put(&mut self, words: &[u32]) -> Result<()> {
        self.bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        if self.bytes.len() >= CHUNK { self.flush() } else { Ok(()) }
    }
    fn flush(&mut self) -> Result<()> {
        self.sink.write_at(self.offset, &[&self.bytes])?;
        self.offset += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
    /// Number of words so far.
    fn words(&self) -> u64 {
        self.offset / 4 + self.bytes.len() as u64 / 4
    }
}

/// Writes an FZ file in exchange mode.
pub struct FzWriter {
    stream: Stream,
    /// Words of a physical record.
    record: usize,
    /// The current physical record.
    current: Vec<u32>,
    /// Number of steering records so far.
    number: u32,
    flags: u32,
    /// Position of the first logical record that starts in this record; 0 if there is none.
    first: usize,
}

impl FzWriter {
    /// Creates a writer with physical records of this many words: a multiple of 30.
    pub fn new(sink: Box<dyn Sink>, record: usize) -> Result<Self> {
        if record < 60 || !record.is_multiple_of(30) || record > 0xff_ffff {
            let message =
                format!("physical records must have a multiple of 30 words, at least 60, not {record}");
            return Err(Error::argument(message));
        }
        let mut made = Self {
            stream: Stream::new(sink, 0),
            record,
            current: Vec::with_capacity(record),
            number: 0,
            flags: 0,
            first: 0,
        };
        made.begin();
        Ok(made)
    }
    fn begin(&mut self) {
        self.current.clear();
        self.current.resize(STEERING, 0);
        (self.flags, self.first) = (0, 0);
    }
    fn free(&self) -> usize {
        self.record - self.current.len()
    }
    /// Writes the full physical record.
    fn end(&mut self) -> Result<()> {
        let number = if self.flags == 0 { self.number } else { 0 };
        let head = [self.record as u32 | self.flags, number, self.first as u32, 0];
        for (word, value) in self.current.iter_mut().zip(MAGIC.into_iter().chain(head)) {
            *word = value;
        }
        self.number += 1;
        self.stream.put(&self.current)?;
        self.begin();
        Ok(())
    }
    /// Fills the rest of the physical record, unless it is empty.
    fn pad(&mut self) -> Result<()> {
        if self.current.len() == STEERING && self.first == 0 {
            return Ok(());
        }
        let free = self.free();
        if free > 0 {
            self.mark();
            if free > 1 {
                self.current.extend([free as u32 - 1, PADDING]);
            }
            self.current.resize(self.record, 0);
        }
        self.end()
    }
    /// Marks the start of a logical record.
    fn mark(&mut self) {
        if self.first == 0 {
            self.first = self.current.len();
        }
    }
    fn logical(&mut self, kind: u32, parts: &[&[u32]]) -> Result<()> {
        if self.free() < 4 {
            self.pad()?;
        }
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let length = u32::try_from(length).map_err(|_| Error::limit("the structure has more than 16 GB"))?;
        self.mark();
        self.current.extend([length, kind]);
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                if self.free() == 0 {
                    self.end()?;
                }
                let (here, behind) = rest.split_at(self.free().min(rest.len()));
                self.current.extend_from_slice(here);
                rest = behind;
            }
        }
        if self.free() == 0 {
            self.end()?;
        }
        Ok(())
    }
    fn run(&mut self, number: i32, flags: u32, user: &[i32]) -> Result<()> {
        self.pad()?;
        self.flags = flags;
        let words: Vec<u32> = std::iter::once(&number).chain(user).map(|word| word.cast_unsigned()).collect();
        self.logical(RUN, &[&words])
    }
    /// Starts a run.
    pub fn start_run(&mut self, number: i32, user: &[i32]) -> Result<()> {
        if number < 1 {
            return Err(Error::argument(format!("a run number must be at least 1, not {number}")));
        }
        self.run(number, START, user)
    }
    /// Ends a run.
    pub fn end_run(&mut self, user: &[i32]) -> Result<()> {
        self.run(0, END, user)?;
        self.pad()
    }
    /// Writes a structure as an event, with a user header of integers.
    pub fn event(
        &mut self,
        builder: &mut Builder,
        header: &[i32],
        content: &Content<'_>,
        number: u32,
    ) -> Result<()> {
        let (banks, table, entry) = builder.structure(content, number)?;
        let user: Vec<u32> = if header.is_empty() {
            Vec::new()
        } else {
            std::iter::once(2).chain(header.iter().map(|word| word.cast_unsigned())).collect()
        };
        let pilot = [
            PILOT.to_bits(),
            VERSION,
            0,
            0,
            0,
            0,
            table.len() as u32,
            banks.len() as u32,
            entry,
            user.len() as u32,
        ];
        self.logical(EVENT, &[&pilot, &user, &table, banks])
    }
    /// Writes the end mark and completes the file.
    pub fn finish(&mut self) -> Result<()> {
        let records = self.number.cast_signed();
        self.run(-1, END, &[0, 0, records])?;
        self.pad()?;
        self.stream.flush()?;
        self.stream.sink.finish(self.stream.offset)?;
        Ok(())
    }
}

/// Words of a directory's header, with one word of forms and two words of a tag for the single key word.
const DIRECTORY: usize = 32 + 3;
/// Words of a cycle.
const CYCLE: usize = 7;

/// Writes an RZ file with one directory; its keys are single integers.
pub struct RzWriter {
    stream: Stream,
    record: usize,
    name: [u8; 16],
    tag: [u8; 8],
    /// Keys, each with first record, first word, number of words.
    keys: Vec<(i32, u32, u32, u32)>,
}

impl RzWriter {
    /// Creates a writer with records of this many words.
    pub fn new(sink: Box<dyn Sink>, record: usize, name: &str, tag: &str) -> Result<Self> {
        if !(128..=1 << 13).contains(&record) {
            return Err(Error::argument(format!("records must have 128 to 8192 words, not {record}")));
        }
        let (mut sixteen, mut eight) = ([b' '; 16], [b' '; 8]);
        sixteen.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        eight.iter_mut().zip(tag.bytes()).for_each(|(to, from)| *to = from);
        // The lock and the directory come first.
        let stream = Stream::new(sink, 8 * record as u64);
        Ok(Self { stream, record, name: sixteen, tag: eight, keys: Vec::new() })
    }
    /// Writes a structure under a key.
    pub fn put(&mut self, key: i32, builder: &mut Builder, content: &Content<'_>) -> Result<()> {
        let (banks, table, entry) = builder.structure(content, 0)?;
        let length = u32::try_from(3 + table.len() + banks.len());
        let length = length.map_err(|_| Error::limit("the structure has more than 16 GB"))?;
        let start = self.stream.words();
        let record = start / self.record as u64 + 1;
        let record = u32::try_from(record).map_err(|_| Error::limit("the RZ file needs too many records"))?;
        let word = (start % self.record as u64) as u32 + 1;
        self.stream.put(&[table.len() as u32, banks.len() as u32, entry])?;
        self.stream.put(&table)?;
        self.stream.put(banks)?;
        self.keys.push((key, record, word, length));
        Ok(())
    }
    /// Writes the directory and completes the file.
    pub fn finish(&mut self) -> Result<()> {
        let size = self.record as u64;
        let last = self.stream.words().div_ceil(size);
        let filled = (last * size - self.stream.words()) as usize;
        self.stream.put(&vec![0; filled])?;
        // The number of records of the directory depends on its list of records and on the bitmap of all records.
        let mut records = 1u64;
        let mut bitmap;
        loop {
            bitmap = (last + records).div_ceil(32);
            let words =
                DIRECTORY as u64 + 1 + records + 3 + bitmap + self.keys.len() as u64 * (2 + CYCLE as u64);
            let needed = words.div_ceil(size);
            if needed <= records {
                break;
            }
            records = needed;
        }
        let list: Vec<u32> =
            std::iter::once(2).chain((last as u32 + 1..).take(records as usize - 1)).collect();
        let directory = self.directory(&list, last + records - 1, bitmap as usize)?;
        let (first, rest) = directory.split_at(self.record);
        self.stream.put(rest)?;
        self.stream.flush()?;
        let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        self.stream.sink.write_at(0, &[&bytes(&vec![0; self.record]), &bytes(first)])?;
        self.stream.sink.finish(self.stream.offset)?;
        Ok(())
    }
    fn directory(&self, list: &[u32], used: u64, bitmap: usize) -> Result<Vec<u32>> {
        let total = list.len() * self.record;
        let mut words: Vec<u32> = Vec::with_capacity(total);
        let six = |text: &[u8]| text.as_chunks::<4>().0.iter().map(to_six_bit).collect::<Vec<u32>>();
        words.extend(six(&self.name));
        words.resize(DIRECTORY - 3, 0);
        words.push(2); // the form of the key: an integer
        words.extend(six(&self.tag));
        let records_at = words.len() + 1;
        words.push(list.len() as u32);
        words.extend_from_slice(list);
        let bitmap_at = words.len() + 1;
        words.extend([bitmap as u32, self.record as u32, DATE << 8]);
        let bits = |word: usize| {
            let records = used.saturating_sub(32 * word as u64).min(32) as u32;
            u32::MAX.checked_shr(32 - records).unwrap_or(0)
        };
        words.extend((0..bitmap).map(bits));
        let keys_at = words.len() + 1;
        let cycles_at = total - CYCLE * self.keys.len() + 1;
        for (place, (key, ..)) in self.keys.iter().enumerate() {
            words.extend([(cycles_at + CYCLE * place) as u32, key.cast_unsigned()]);
        }
        let free_at = words.len() + 1;
        words.resize(cycles_at - 1, 0);
        for (key, record, word, length) in &self.keys {
            let here = self.record as u32 - (word - 1);
            let second = if *length > here { record + 1 } else { 0 };
            words.extend([0, DATE << 8, *record, word | 1 << 20, *length, second, key.cast_unsigned()]);
        }
        let name = self.name.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last as u32 + 1);
        let used_words: u64 = self.keys.iter().map(|(.., length)| u64::from(*length)).sum();
        let last = self.stream.words() / self.record as u64;
        let values = [
            (9, name | 1 << 11),
            (10, DATE << 8),
            (11, DATE << 8),
            (12, 32 * bitmap as u32),
            (13, used as u32),
            (14, (used_words % 1_000_000) as u32),
            (15, (used_words / 1_000_000) as u32),
            (16, 1),
            (19, last as u32 + 1),
            (20, 1),
            (22, (cycles_at - free_at) as u32),
            (24, records_at as u32),
            (25, bitmap_at as u32),
            (26, keys_at as u32),
            (27, keys_at as u32),
            (28, free_at as u32),
            (29, cycles_at as u32),
            (30, total as u32),
            (31, self.keys.len() as u32),
            (32, 1),
        ];
        for (place, value) in values {
            if let Some(word) = words.get_mut(place - 1) {
                *word = value;
            }
        }
        if bitmap_at > self.record {
            return Err(Error::limit("a directory needs too many records"));
        }
        Ok(words)
    }
}
