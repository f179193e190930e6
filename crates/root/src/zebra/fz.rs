//! FZ sequential files: physical records, and the logical records in them.

use super::alfa;
use super::bank::Structure;
use super::layout::{Layout, Run};
use super::words::{Order, Words};
use crate::error::{Error, Result, Within};
use crate::wire::grow::Grow;
use sapwood_io::{Cause, Range, Source};
use std::sync::Arc;

/// The first four words of a steering record.
pub const MAGIC: [u32; 4] = [0x0123_cdef, 0x8070_8070, 0x4321_abcd, 0x8061_8061];
/// Words of a steering record before its content.
pub const STEERING: usize = 8;
/// The bits of the fifth word that hold the length of a record.
pub const LENGTH_MASK: u32 = 0xff_ffff;
/// The bit of the fifth word that says that the writer gave up.
const EMERGENCY: u32 = 1 << 31;
/// Bytes fetched at a time.
const WINDOW: usize = 256 << 10;
/// The first pilot word.
pub const PILOT: f32 = 12345.0;
/// Types of logical records.
const RUN: u32 = 1;
const PADDING: [u32; 2] = [5, 6];

/// How the records of a file lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Physical records of one length, in words; `framed` by the lengths that Fortran adds.
    Exchange {
        /// Words of a physical record.
        words: usize,
        /// Bytes of a length before and behind each record: 0 or 4.
        frame: usize,
    },
    /// A Fortran record for each logical record or part of one.
    Native,
    /// Exchange records of 900 words as lines of text.
    Alfa,
}

/// An FZ file opened for reading.
pub struct FzFile {
    source: Arc<dyn Source>,
    mode: Mode,
    order: Order,
}

/// A logical record.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its type: 1 run, 2 start of an event, 3 more of an event.
    kind: u32,
    words: Words<'a>,
}

/// What a logical record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Start of the run of this number.
    Start(i32),
    /// End of a run.
    End,
    /// End of the file, as ZEBRA marks it.
    EndOfFile,
    /// A structure that starts an event.
    Event,
    /// A structure that belongs to the event before it.
    Continuation,
    /// The writer gave up; the record before it is not complete and is left out.
    EmergencyStop,
}

/// The parts of a record that holds a structure.
pub struct Pilot<'a> {
    /// The version of the writer, times 10000.
    pub version: u32,
    /// The user header.
    pub header: Words<'a>,
    /// The kinds of its words.
    pub header_runs: Vec<Run>,
    /// Names and sizes (in words) of segments.
    pub segments: Vec<(String, u32)>,
    /// The text vector.
    pub text: Words<'a>,
    table: Words<'a>,
    banks: Words<'a>,
    entry: u32,
}

fn order_of(bytes: [u8; 4]) -> Option<Order> {
    match (u32::from_be_bytes(bytes), u32::from_le_bytes(bytes)) {
        (word, _) if Some(&word) == MAGIC.first() => Some(Order::Big),
        (_, word) if Some(&word) == MAGIC.first() => Some(Order::Little),
        _ => None,
    }
}

/// Byte order and mode of the file that begins with these bytes; `None` if it is no FZ file.
pub fn recognise(first: &[u8]) -> Option<(Order, Mode)> {
    let word = |index: usize| first.get(4 * index..).and_then(|rest| rest.first_chunk::<4>()).copied();
    for start in [0, 1] {
        if let Some(order) = word(start).and_then(order_of) {
            let words = Words::new(first, order, 0);
            let length = (words.get(start + 4)? & LENGTH_MASK) as usize;
            let framed = start == 0 || words.get(0).map(|word| word as usize) == Some(4 * length);
            let other = word(0).map(|bytes| u32::from_le_bytes(bytes) as usize) == Some(4 * length);
            return (length > STEERING + 2 && (framed || other))
                .then_some((order, Mode::Exchange { words: length, frame: 4 * start }));
        }
    }
    if first.starts_with(b">>1") || first.starts_with(b">>0") {
        return Some((Order::Big, Mode::Alfa));
    }
    [Order::Little, Order::Big].into_iter().find_map(|order| {
        let words = Words::new(first, order, 0);
        let (length, count, kind) = (words.get(0)? as usize, words.get(1)? as usize, words.get(2)?);
        let is_run = kind == RUN && count <= 1000 && words.get(3)?.cast_signed() >= -1;
        let is_pilot = matches!(kind, 2 | 3) && words.get(3)? == PILOT.to_bits();
        let holds = length.is_multiple_of(4) && count.checked_mul(4)?.checked_add(8)? == length;
        ((is_run || is_pilot) && holds).then_some((order, Mode::Native))
    })
}

impl FzFile {
    /// Recognises the mode.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
        let mut first = vec![0; source.size().min(4096) as usize];
        source.fetch(&[Range { offset: 0, length: first.len() as u64 }], &mut first, Cause::Header)?;
        let found = recognise(&first);
        let (order, mode) =
            found.ok_or_else(|| Error::corrupt("not a ZEBRA FZ file").at(0).within(source.name()))?;
        if let Mode::Exchange { words, .. } = mode
            && (words as u64).saturating_mul(4) > source.size()
        {
            let message =
                format!("physical records of {words} words, but the file has {} bytes", source.size());
            return Err(Error::corrupt(message).at(16).within(source.name()));
        }
        Ok(Self { source, mode, order })
    }
    /// How the records lie.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// The byte order of its words.
    pub fn order(&self) -> Order {
        self.order
    }
    /// The storage.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }
    /// A reader at the start of the file.
    pub fn reader(self: &Arc<Self>) -> Reader {
        Reader {
            file: self.clone(),
            window: Vec::new(),
            from: 0,
            next: 0,
            piece: 0..0,
            fast: 0,
            in_fast: false,
            record: Vec::new(),
            stopped: false,
            failed: false,
            decoded: Vec::new(),
        }
    }
}

/// Reads one logical record after the other.
pub struct Reader {
    file: Arc<FzFile>,
    /// Bytes of the file from `from` on.
    window: Vec<u8>,
    from: u64,
    /// Offset of the next physical record.
    next: u64,
    /// Unread content of the current physical record: bytes of the window.
    piece: std::ops::Range<usize>,
    /// Fast records that are to come.
    fast: u32,
    in_fast: bool,
    /// A logical record that lies in several physical ones.
    record: Vec<u8>,
    /// An emergency stop was met.
    stopped: bool,
    failed: bool,
    /// A physical record that was lines of text.
    decoded: Vec<u8>,
}

/// Control words of a logical record, its place, and where its words lie.
struct Found {
    kind: u32,
    offset: u64,
    whole: Option<std::ops::Range<usize>>,
}

impl Reader {
    /// The next logical record, or `None` at the end. After an error there are no more.
    pub fn read(&mut self) -> Result<Option<Record<'_>>> {
        if self.failed {
            return Ok(None);
        }
        let file = self.file.clone();
        let found = match file.mode {
            Mode::Native => self.native(),
            Mode::Exchange { .. } | Mode::Alfa => self.exchange(),
        };
        match found {
            Ok(None) => Ok(None),
            Ok(Some(Found { kind, offset, whole })) => {
                let bytes = match whole {
                    Some(range) => self.bytes().get(range).unwrap_or_default(),
                    None => &self.record,
                };
                Ok(Some(Record { kind, words: Words::new(bytes, file.order, offset) }))
            }
            Err(error) => {
                self.failed = true;
                Err(error.within(file.source.name()))
            }
        }
    }
    /// Goes on at a place where a physical record starts; logical records that began before it are left out.
    pub fn seek(&mut self, offset: u64) {
        self.next = offset;
        self.piece = 0..0;
        self.fast = 0;
        self.in_fast = false;
        self.failed = false;
    }
    /// Offset of the next physical record.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The bytes that `piece` means.
    fn bytes(&self) -> &[u8] {
        if self.file.mode == Mode::Alfa { &self.decoded } else { &self.window }
    }
    /// Makes `length` bytes from `offset` on lie in the window; where they lie, or `None` at the end of the file.
    fn fill(&mut self, offset: u64, length: usize) -> Result<Option<std::ops::Range<usize>>> {
        let size = self.file.source.size();
        if offset >= size {
            return Ok(None);
        }
        if length as u64 > size - offset {
            let message =
                format!("a physical record of {length} bytes, but the file ends after {}", size - offset);
            return Err(Error::corrupt(message).at(offset).short());
        }
        let held = self.from.saturating_add(self.window.len() as u64);
        if offset < self.from || offset.saturating_add(length as u64) > held {
            // Whole physical records: what is left of one would be fetched twice.
            let want = if length > 4 { WINDOW / length * length } else { WINDOW };
            let want = (size - offset).min(length.max(want) as u64);
            let more = (want as usize).saturating_sub(self.window.len());
            self.window.room(more)?;
            self.window.resize(want as usize, 0);
            self.from = offset;
            let fetched =
                self.file.source.fetch(&[Range { offset, length: want }], &mut self.window, Cause::Object);
            if let Err(error) = fetched {
                self.window.clear();
                return Err(error.into());
            }
        }
        let start = (offset - self.from) as usize;
        Ok(Some(start..start + length))
    }
    /// The length that Fortran wrote before and behind a record: checked, and the record passed.
    fn framed(&mut self) -> Result<Option<std::ops::Range<usize>>> {
        let offset = self.next;
        let word = |reader: &Self, at: std::ops::Range<usize>| {
            Words::new(reader.window.get(at).unwrap_or_default(), Order::Little, 0).get(0).unwrap_or(0)
        };
        let Some(at) = self.fill(offset, 4)? else { return Ok(None) };
        let stored = word(self, at);
        let little = stored.is_multiple_of(4) && u64::from(stored) + 8 <= self.file.source.size() - offset;
        let length = if little { stored } else { stored.swap_bytes() } as usize;
        let Some(whole) = self.fill(offset, length.saturating_add(8))? else { return Ok(None) };
        if word(self, whole.end - 4..whole.end) != stored {
            let message = format!("a Fortran record of {length} bytes that does not end with its length");
            return Err(Error::corrupt(message).at(offset));
        }
        self.next = offset + length as u64 + 8;
        Ok(Some(whole.start + 4..whole.end - 4))
    }

    /// Goes to the next physical record of an exchange file; whether there is one. `pending`: words of a logical record
    /// that have not been read.
    fn physical(&mut self, pending: usize) -> Result<bool> {
        let offset = self.next;
        let (words, range) = match self.file.mode {
            Mode::Exchange { words, frame: 0 } => {
                let Some(range) = self.fill(offset, 4 * words)? else { return Ok(false) };
                self.next = offset + 4 * words as u64;
                (words, range)
            }
            Mode::Exchange { words, .. } => {
                let Some(range) = self.framed()? else { return Ok(false) };
                if range.len() != 4 * words {
                    let message = format!("a record of {} bytes among records of {words} words", range.len());
                    return Err(Error::corrupt(message).at(offset));
                }
                (words, range)
            }
            Mode::Alfa => {
                if !self.lines()? {
                    return Ok(false);
                }
                (self.decoded.len() / 4, 0..self.decoded.len())
            }
            Mode::Native => return Ok(false),
        };
        if self.fast > 0 {
            self.fast -= 1;
            self.in_fast = true;
            self.piece = range;
            return Ok(true);
        }
        self.in_fast = false;
        let record = Words::new(self.bytes().get(range.clone()).unwrap_or_default(), self.file.order, offset);
        let magic = MAGIC.iter().enumerate().all(|(index, &word)| record.get(index) == Some(word));
        if !magic || (record.word(4)? & LENGTH_MASK) as usize != words {
            return Err(record.corrupt(0, "no steering record where one must be"));
        }
        let (flags, first, fast) = (record.word(4)?, record.word(6)? as usize, record.word(7)?);
        if first > words || (first > 0 && first < STEERING) {
            return Err(record.corrupt(6, format!("a logical record that starts at word {first} of {words}")));
        }
        let start = if pending > 0 {
            if flags & EMERGENCY != 0 {
                self.stopped = true;
            } else if first > 0 && first - STEERING < pending {
                let message = format!(
                    "a logical record of which {pending} words are missing, but the next one starts after {}",
                    first - STEERING
                );
                return Err(record.corrupt(6, message));
            }
            STEERING
        } else {
            // What belongs to a logical record that was not read is passed over.
            if first == 0 { words } else { first }
        };
        self.fast = fast;
        self.piece = range.start + 4 * start..range.end;
        Ok(true)
    }
    /// Decodes the lines of text of the next physical record; whether there is one.
    fn lines(&mut self) -> Result<bool> {
        let offset = self.next;
        let left = self.file.source.size().saturating_sub(offset);
        let Some(range) = self.fill(offset, left.min(alfa::LONGEST as u64) as usize)? else {
            return Ok(false);
        };
        let text = self.window.get(range).unwrap_or_default();
        let used = alfa::decode(text, &mut self.decoded).map_err(|error| error.at(offset))?;
        self.next = offset + used as u64;
        Ok(used > 0)
    }

    fn exchange(&mut self) -> Result<Option<Found>> {
        if std::mem::take(&mut self.stopped) {
            self.piece = 0..0;
            self.record.clear();
            return Ok(Some(Found { kind: u32::MAX, offset: self.next, whole: None }));
        }
        let order = self.file.order;
        loop {
            if self.in_fast || self.piece.len() < 8 {
                // The rest of a fast record is padding, and so are fewer words than a logical record takes.
                self.piece = 0..0;
                if !self.physical(0)? {
                    return Ok(None);
                }
                if self.in_fast {
                    continue;
                }
            }
            let words = Words::new(self.bytes().get(self.piece.clone()).unwrap_or_default(), order, 0);
            let (Some(count), Some(kind)) = (words.get(0), words.get(1)) else {
                self.piece = 0..0;
                continue;
            };
            if count == 0 || PADDING.contains(&kind) {
                self.piece = 0..0;
                continue;
            }
            let offset = self.next.saturating_sub(self.piece.len() as u64);
            let length = (count as usize).saturating_mul(4);
            let left = self.file.source.size().saturating_sub(offset);
            if kind > 8 || (length as u64 > left && self.file.mode != Mode::Alfa) {
                let message =
                    format!("a logical record of type {kind} and {count} words, but {left} bytes are left");
                return Err(Error::corrupt(message).at(offset));
            }
            self.piece.start += 8;
            if self.piece.len() >= length {
                let whole = self.piece.start..self.piece.start + length;
                self.piece.start = whole.end;
                return Ok(Some(Found { kind, offset: offset + 8, whole: Some(whole) }));
            }
            self.record.clear();
            loop {
                let take = self.piece.len().min(length - self.record.len());
                let piece = self.piece.start..self.piece.start + take;
                self.piece.start = piece.end;
                let from = if self.file.mode == Mode::Alfa { &self.decoded } else { &self.window };
                self.record.try_extend(from.get(piece).unwrap_or_default())?;
                let missing = length - self.record.len();
                if missing == 0 {
                    return Ok(Some(Found { kind, offset: offset + 8, whole: None }));
                }
                if !self.physical(missing / 4)? {
                    let message = format!("a logical record of {count} words, but the file ends before them");
                    return Err(Error::corrupt(message).at(offset).short());
                }
                if self.stopped {
                    return self.exchange();
                }
            }
        }
    }

    fn native(&mut self) -> Result<Option<Found>> {
        let order = self.file.order;
        self.record.clear();
        let mut kind = None;
        let mut offset = self.next;
        loop {
            let start = self.next;
            let Some(range) = self.framed()? else {
                return match kind {
                    None => Ok(None),
                    Some(_) => {
                        Err(Error::corrupt("a structure whose last banks are missing").at(offset).short())
                    }
                };
            };
            let words = Words::new(self.window.get(range).unwrap_or_default(), order, start + 4);
            let (count, of_type) = (words.count(0, 2)?, words.word(1)?);
            let content = words.slice(2, count)?;
            match (kind, of_type) {
                (None, 1..=3) => {
                    offset = start + 12;
                    kind = Some(of_type);
                    self.record.try_extend(content.bytes())?;
                    let more = of_type != RUN && content.word(7)? > 0;
                    if !more && (of_type == RUN || pilot_words(&content)? <= content.len()) {
                        return Ok(Some(Found { kind: of_type, offset, whole: None }));
                    }
                }
                (None, 5 | 6) => {}
                (Some(_), 4 | 7) => self.record.try_extend(content.bytes())?,
                (Some(kind), 8) => {
                    self.record.try_extend(content.bytes())?;
                    return Ok(Some(Found { kind, offset, whole: None }));
                }
                _ => return Err(words.corrupt(1, format!("a record of type {of_type} where none must be"))),
            }
        }
    }
}

/// The words that a pilot and what belongs to it take.
fn pilot_words(words: &Words<'_>) -> Result<usize> {
    let mut total = 10usize;
    for index in [4, 5, 6, 7, 9] {
        total = total.saturating_add(words.word(index)? as usize);
    }
    Ok(total)
}

impl<'a> Record<'a> {
    /// What it is.
    pub fn meaning(&self) -> Result<Meaning> {
        Ok(match self.kind {
            1 => match self.words.int(0)? {
                0 => Meaning::End,
                -1 => Meaning::EndOfFile,
                number => Meaning::Start(number),
            },
            2 => Meaning::Event,
            3 => Meaning::Continuation,
            u32::MAX => Meaning::EmergencyStop,
            kind => return Err(self.words.corrupt(0, format!("a logical record of type {kind}"))),
        })
    }
    /// The words.
    pub fn words(&self) -> Words<'a> {
        self.words
    }
    /// The user words of the start or end of a run, or of the end of the file.
    pub fn user_words(&self) -> Words<'a> {
        self.words.from(1)
    }
    /// The pilot and what it describes.
    pub fn pilot(&self) -> Result<Pilot<'a>> {
        let words = self.words;
        if words.word(0)? != PILOT.to_bits() {
            return Err(words.corrupt(0, "a structure without the pilot number 12345.0"));
        }
        let mut at = 10usize;
        let count = |index: usize| words.count(index, 10);
        let (text, segments, table, banks, header) = (count(4)?, count(5)?, count(6)?, count(7)?, count(9)?);
        let mut take = |count: usize| {
            let part = words.slice(at, count);
            at += count;
            part
        };
        let described = take(header)?;
        let (header, header_runs) = user_header(described)?;
        let described = take(segments)?;
        let count = described.len() / 3;
        let segments = (0..count)
            .map(|index| Ok((described.slice(2 * index, 2)?.text(), described.word(2 * count + index)?)))
            .collect::<Result<_>>()?;
        let (text, table, banks) = (take(text)?, take(table)?, take(banks)?);
        Ok(Pilot {
            version: words.word(1)?,
            header,
            header_runs,
            segments,
            text,
            table,
            banks,
            entry: words.word(8)?,
        })
    }
}

impl<'a> Pilot<'a> {
    /// The banks.
    pub fn structure(&self) -> Result<Structure<'a>> {
        Structure::parse(self.table, self.banks, self.entry)
    }
    /// The words of the banks.
    pub fn banks(&self) -> Words<'a> {
        self.banks
    }
}

/// Takes the I/O characteristic off a user header.
fn user_header(words: Words<'_>) -> Result<(Words<'_>, Vec<Run>)> {
    if words.is_empty() {
        return Ok((words, Vec::new()));
    }
    let first = words.word(0)?;
    let io = if first < 8 { 1 } else { (first >> 6 & 31) as usize };
    let layout = Layout::parse(words.slice(0, io.max(1)).within(|| "the user header")?);
    let header = words.from(io.max(1));
    let runs = layout.runs(header);
    Ok((header, runs))
}
