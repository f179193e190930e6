//! FZ sequential files: physical records, and the logical records in them.

use super::alfa;
use super::bank::Structure;
use super::layout::{BankLayout, Run};
use super::words::{Order, Words};
use crate::error::{Error, Result, Within};
use crate::wire::grow::{self, Grow};
use sapwood_io::{Cause, Source};
use std::ops::Range;
use std::sync::Arc;

/// The first four words of a steering record.
pub const MAGIC: [u32; 4] = [0x0123_cdef, 0x8070_8070, 0x4321_abcd, 0x8061_8061];
/// Words of a steering record before its content.
pub const STEERING: usize = 8;
/// Bits of the fifth word with the length of a record.
pub const LENGTH_MASK: u32 = 0xff_ffff;
/// Bit of the fifth word for an emergency stop of the writer.
const EMERGENCY: u32 = 1 << 31;
/// Bytes fetched at a time: few enough to stay in the processor's cache.
const WINDOW: usize = 256 << 10;
/// Size of a memory page in bytes. Copies by the system are fastest if memory and file have the same offset within a
/// page, and several times slower if the offsets differ by a few bytes.
pub(super) const PAGE: usize = 4096;
/// The first pilot word.
pub const PILOT: f32 = 12345.0;
/// Words of a pilot.
const PILOT_WORDS: usize = 10;
const NO_PILOT: &str = "the structure does not start with the pilot number 12345.0";
/// Types of logical records.
const RUN: u32 = 1;
const PADDING: [u32; 2] = [5, 6];

/// Arrangement of the records in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Physical records of a fixed length in words, with or without Fortran record lengths.
    Exchange {
        /// Words of a physical record.
        words: usize,
        /// Bytes of the record length before and after each record: 0 or 4.
        frame: usize,
    },
    /// One Fortran record for each logical record or part of one.
    Native,
    /// Exchange records of 900 words as lines of text.
    Alfa,
}

/// An FZ file, opened for reading.
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

/// The meaning of a logical record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Start of the run with this number.
    Start(i32),
    /// End of a run.
    End,
    /// End of the file, as marked by ZEBRA.
    EndOfFile,
    /// A structure that starts an event.
    Event,
    /// A structure that belongs to the event before it.
    Continuation,
    /// The writer stopped; the record before is incomplete and is left out.
    EmergencyStop,
}

/// The parts of a record with a structure.
pub struct Pilot<'a> {
    /// The version of the writer, times 10000.
    pub version: u32,
    /// The user header.
    pub header: Words<'a>,
    /// Kinds of the header words.
    pub header_runs: Vec<Run>,
    /// Names and sizes (in words) of the segments.
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

/// Detects byte order and mode of a file from its first bytes; `None` if it is not an FZ file.
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
    /// Opens a file and detects its mode.
    pub fn open(source: Arc<dyn Source>) -> Result<Self> {
        let mut first = vec![0; source.size().min(4096) as usize];
        let all = sapwood_io::Range { offset: 0, length: first.len() as u64 };
        source.fetch(&[all], &mut first, Cause::Header)?;
        let found = recognise(&first);
        let (order, mode) =
            found.ok_or_else(|| Error::corrupt("not a ZEBRA FZ file").at(0).within(source.name()))?;
        if let Mode::Exchange { words, .. } = mode
            && (words as u64).saturating_mul(4) > source.size()
        {
            let message =
                format!("a physical record has {words} words, but the file has {} bytes", source.size());
            return Err(Error::corrupt(message).at(16).within(source.name()));
        }
        Ok(Self { source, mode, order })
    }
    /// The arrangement of the records.
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
    pub fn reader(self: &Arc<Self>) -> FzReader {
        FzReader {
            file: self.clone(),
            window: Window::default(),
            next: 0,
            piece: 0..0,
            behind: 0,
            fast: 0,
            in_fast: false,
            current: Start::default(),
            left: 0,
            record: Vec::new(),
            stopped: false,
            failed: false,
            decoded: Vec::new(),
        }
    }
}

/// Reads logical records in order.
pub struct FzReader {
    file: Arc<FzFile>,
    window: Window,
    /// Offset of the next physical record.
    next: u64,
    /// Unread content of the current physical record: the part available in `bytes()`, and the number of bytes after
    /// it.
    piece: Range<usize>,
    behind: usize,
    /// Number of fast records to come.
    fast: u32,
    in_fast: bool,
    /// The current logical record, and its number of unread bytes.
    current: Start,
    left: usize,
    /// A logical record assembled from several pieces.
    record: Vec<u8>,
    /// Whether there was an emergency stop.
    stopped: bool,
    failed: bool,
    /// A physical record decoded from lines of text.
    decoded: Vec<u8>,
}

/// Bytes of a file, with the same offsets within memory pages as in the pages of the file.
#[derive(Default)]
struct Window {
    buffer: Vec<u8>,
    /// Start of the bytes in the buffer, their number, and the offset of the first in the file.
    start: usize,
    length: usize,
    from: u64,
}

impl Window {
    /// Returns the range in the buffer of the available bytes from `offset` on.
    fn at(&self, offset: u64) -> Range<usize> {
        let place = offset.checked_sub(self.from).filter(|&place| place < self.length as u64);
        place.map_or(0..0, |place| self.start + place as usize..self.start + self.length)
    }
    /// Makes `length` bytes from `offset` on available, and more after them; available bytes are not fetched again.
    fn fetch(&mut self, source: &dyn Source, offset: u64, length: usize) -> Result<()> {
        let first = offset - offset % PAGE as u64;
        let least = length.saturating_add((offset - first) as usize);
        let want = (source.size() - first).min(least.max(WINDOW) as u64) as usize;
        let kept = self.at(first);
        if self.buffer.len() < want.saturating_add(PAGE) {
            let mut buffer = grow::filled(want.saturating_add(PAGE), 0)?;
            let start = buffer.as_ptr().align_offset(PAGE).min(PAGE);
            if let (Some(to), Some(from)) =
                (buffer.get_mut(start..start + kept.len()), self.buffer.get(kept.clone()))
            {
                to.copy_from_slice(from);
            }
            (self.buffer, self.start) = (buffer, start);
        } else {
            self.buffer.copy_within(kept.clone(), self.start);
        }
        (self.from, self.length) = (first, 0);
        let missing = self.start + kept.len()..self.start + want;
        let range = sapwood_io::Range { offset: first + kept.len() as u64, length: missing.len() as u64 };
        source.fetch(&[range], self.buffer.get_mut(missing).unwrap_or_default(), Cause::Object)?;
        self.length = want;
        Ok(())
    }
}

/// Control words of a logical record, and its position.
#[derive(Debug, Clone, Copy, Default)]
struct Start {
    kind: u32,
    offset: u64,
    /// Number of its bytes.
    length: usize,
}

impl Start {
    /// Returns the meaning of a record that begins with this word.
    fn meaning(&self, first: Option<u32>) -> Result<Meaning> {
        Ok(match (self.kind, first.map(u32::cast_signed)) {
            (RUN, Some(0)) => Meaning::End,
            (RUN, Some(-1)) => Meaning::EndOfFile,
            (RUN, Some(number)) => Meaning::Start(number),
            (2, _) => Meaning::Event,
            (3, _) => Meaning::Continuation,
            (u32::MAX, _) => Meaning::EmergencyStop,
            (kind, _) => {
                let message = format!("a logical record of type {kind} and {} words", self.length / 4);
                return Err(Error::corrupt(message).at(self.offset));
            }
        })
    }
}

impl FzReader {
    /// Returns the next logical record; `None` at the end and after an error.
    pub fn read(&mut self) -> Result<Option<Record<'_>>> {
        let found = self.attempt(|reader| {
            if !reader.begin()? {
                return Ok(None);
            }
            let found = reader.whole()?;
            if reader.stopped {
                reader.begin()?;
            }
            Ok(Some(found))
        })?;
        let Some(whole) = found else { return Ok(None) };
        let Start { kind, offset, .. } = self.current;
        let bytes = match whole {
            Some(range) => self.bytes().get(range).unwrap_or_default(),
            None => &self.record,
        };
        Ok(Some(Record { kind, words: Words::new(bytes, self.file.order, offset) }))
    }
    /// Moves to the next logical record, which may be read piece by piece, and returns its meaning; `None` at the end
    /// and after an error.
    pub fn pass(&mut self) -> Result<Option<Meaning>> {
        self.attempt(|reader| {
            if !reader.begin()? {
                return Ok(None);
            }
            let first = if reader.current.kind == RUN { reader.fixed::<1>()? } else { None };
            if reader.stopped {
                reader.begin()?;
            }
            reader.current.meaning(first.map(|[word]| word)).map(Some)
        })
    }
    /// Moves to the banks of a structure and returns their number of words; `None` if the writer stopped before them.
    pub fn banks(&mut self) -> Result<Option<usize>> {
        self.attempt(|reader| {
            let Some(pilot) = reader.fixed::<PILOT_WORDS>()? else { return Ok(None) };
            let Start { offset, length, .. } = reader.current;
            let [number, .., text, segments, table, banks, _, header] = pilot;
            if number != PILOT.to_bits() {
                return Err(Error::corrupt(NO_PILOT).at(offset));
            }
            let counts = [text, segments, table, header].map(|count| 4 * count as usize);
            let before = counts.into_iter().fold(0, usize::saturating_add);
            let banks = 4 * banks as usize;
            if before.saturating_add(banks) > length - 4 * PILOT_WORDS {
                let message = format!(
                    "the structure has {} words, but its parts have {}",
                    length / 4,
                    PILOT_WORDS + before.saturating_add(banks) / 4
                );
                return Err(Error::corrupt(message).at(offset));
            }
            reader.leave(before)?;
            Ok((!reader.stopped).then_some(banks / 4))
        })
    }
    /// Returns the next words of the current logical record: at most `most`, and only contiguous ones. Returns none at
    /// the end of the record, or if the writer stopped.
    pub fn piece(&mut self, most: usize) -> Result<Words<'_>> {
        let found = self.attempt(|reader| reader.advance(most.saturating_mul(4)).map(Some))?;
        let (place, range) = found.unwrap_or_default();
        Ok(Words::new(self.bytes().get(range).unwrap_or_default(), self.file.order, place))
    }
    /// The file.
    pub fn file(&self) -> &Arc<FzFile> {
        &self.file
    }

    fn attempt<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<Option<T>>) -> Result<Option<T>> {
        if self.failed {
            return Ok(None);
        }
        work(self).map_err(|error| {
            self.failed = true;
            error.within(self.file.source.name())
        })
    }
    /// Returns the bytes of `piece`.
    fn bytes(&self) -> &[u8] {
        match self.file.mode {
            Mode::Exchange { .. } => &self.window.buffer,
            Mode::Alfa => &self.decoded,
            Mode::Native => &self.record,
        }
    }
    /// Offset of the first unread byte of the current physical record.
    fn place(&self) -> u64 {
        match self.file.mode {
            Mode::Exchange { frame, .. } => {
                self.next.saturating_sub((frame + self.behind + self.piece.len()) as u64)
            }
            Mode::Alfa => self.next,
            Mode::Native => self.current.offset + (self.current.length - self.left) as u64,
        }
    }
    /// Makes `length` bytes from `offset` on available in the window; returns their range, or `None` at the end of the
    /// file.
    fn fill(&mut self, offset: u64, length: usize) -> Result<Option<Range<usize>>> {
        let size = self.file.source.size();
        if offset >= size {
            return Ok(None);
        }
        if length as u64 > size - offset {
            let message =
                format!("a physical record of {length} bytes, but the file ends after {}", size - offset);
            return Err(Error::corrupt(message).at(offset).short());
        }
        if self.window.at(offset).len() < length {
            self.window.fetch(self.file.source.as_ref(), offset, length)?;
        }
        let start = self.window.at(offset).start;
        Ok(Some(start..start + length))
    }
    /// Makes at least `least` bytes of the physical record available in the window, and as many more as there are.
    fn more(&mut self, least: usize) -> Result<()> {
        let (place, length) = (self.place(), self.piece.len() + self.behind);
        self.fill(place, least)?;
        self.enter(place, length);
        Ok(())
    }
    /// Sets the unread content of the current physical record to `length` bytes from `offset` on.
    fn enter(&mut self, offset: u64, length: usize) {
        let held = self.window.at(offset);
        self.piece = held.start..held.end.min(held.start + length);
        self.behind = length - self.piece.len();
    }
    /// Checks the record lengths that Fortran wrote before and after a record, and moves past the record.
    fn framed(&mut self) -> Result<Option<Range<usize>>> {
        let offset = self.next;
        let word = |reader: &Self, at: Range<usize>| {
            let bytes = reader.window.buffer.get(at).unwrap_or_default();
            Words::new(bytes, Order::Little, 0).get(0).unwrap_or(0)
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

    /// Moves to the next physical record of an exchange file; returns whether there is one. `pending`: number of unread
    /// words of a logical record.
    fn physical(&mut self, pending: usize) -> Result<bool> {
        let offset = self.next;
        (self.piece, self.behind) = (0..0, 0);
        // Position in the file, number of words, and range in memory if all of it is available.
        let (start, words, whole) = match self.file.mode {
            Mode::Exchange { words, frame: 0 } => {
                let left = self.file.source.size().saturating_sub(offset);
                let at_hand = if left < 4 * words as u64 { 4 * words } else { 4 * STEERING };
                if self.fill(offset, at_hand)?.is_none() {
                    return Ok(false);
                }
                self.next = offset + 4 * words as u64;
                (offset, words, None)
            }
            Mode::Exchange { words, .. } => {
                let Some(range) = self.framed()? else { return Ok(false) };
                if range.len() != 4 * words {
                    let message = format!(
                        "a record has {} bytes, but the records of this file have {words} words",
                        range.len()
                    );
                    return Err(Error::corrupt(message).at(offset));
                }
                (offset + 4, words, Some(range))
            }
            Mode::Alfa => {
                if !self.lines()? {
                    return Ok(false);
                }
                (offset, self.decoded.len() / 4, Some(0..self.decoded.len()))
            }
            Mode::Native => return Ok(false),
        };
        let first = if self.fast > 0 {
            self.fast -= 1;
            self.in_fast = true;
            0
        } else {
            self.in_fast = false;
            let at = whole.clone().unwrap_or_else(|| self.window.at(start));
            let record = Words::new(self.bytes().get(at).unwrap_or_default(), self.file.order, start);
            let (first, fast, stopped) = steering(&record, words, pending)?;
            self.fast = fast;
            self.stopped |= stopped;
            first
        };
        match whole {
            Some(range) => self.piece = range.start + 4 * first..range.end,
            None => self.enter(start + 4 * first as u64, 4 * (words - first)),
        }
        Ok(true)
    }
    /// Decodes the text lines of the next physical record; returns whether there is one.
    fn lines(&mut self) -> Result<bool> {
        let offset = self.next;
        let left = self.file.source.size().saturating_sub(offset);
        let Some(range) = self.fill(offset, left.min(alfa::LONGEST as u64) as usize)? else {
            return Ok(false);
        };
        let text = self.window.buffer.get(range).unwrap_or_default();
        let used = alfa::decode(text, &mut self.decoded).map_err(|error| error.at(offset))?;
        self.next = offset + used as u64;
        Ok(used > 0)
    }

    /// Moves to the next logical record; returns whether there is one.
    fn begin(&mut self) -> Result<bool> {
        self.leave(self.left)?;
        if std::mem::take(&mut self.stopped) {
            (self.piece, self.behind, self.left) = (0..0, 0, 0);
            self.current = Start { kind: u32::MAX, offset: self.next, length: 0 };
            return Ok(true);
        }
        let found = match self.file.mode {
            Mode::Native => self.native()?,
            Mode::Exchange { .. } | Mode::Alfa => self.exchange()?,
        };
        self.current = found.unwrap_or_default();
        self.left = self.current.length;
        Ok(found.is_some())
    }
    /// Takes at most `most` next bytes of the current logical record; returns their offset and range.
    fn advance(&mut self, most: usize) -> Result<(u64, Range<usize>)> {
        while self.piece.is_empty() && self.left > 0 {
            if self.behind > 0 {
                self.more(4)?;
            } else if !self.physical(self.left / 4)? {
                let words = self.current.length / 4;
                let message = format!("the file ends within a logical record of {words} words");
                return Err(Error::corrupt(message).at(self.current.offset).short());
            }
            if self.stopped {
                self.left = 0;
            }
        }
        let take = self.piece.len().min(self.left).min(most);
        let place = self.place();
        let taken = self.piece.start..self.piece.start + take;
        self.piece.start = taken.end;
        self.left -= take;
        Ok((place, taken))
    }
    /// Skips bytes of the current logical record; an error if it has fewer.
    fn leave(&mut self, bytes: usize) -> Result<()> {
        let rest = self.left.saturating_sub(bytes);
        while self.left > rest {
            self.advance(self.left - rest)?;
        }
        Ok(())
    }
    /// Returns the next words of the current logical record; `None` if the writer stopped.
    fn fixed<const N: usize>(&mut self) -> Result<Option<[u32; N]>> {
        let order = self.file.order;
        let mut words = [0; N];
        let mut rest = words.as_mut_slice();
        while !rest.is_empty() {
            let (place, range) = self.advance(4 * rest.len())?;
            if self.stopped {
                return Ok(None);
            }
            let found = Words::new(self.bytes().get(range).unwrap_or_default(), order, place);
            if found.is_empty() {
                let message = format!("{N} words expected, but the logical record has {}", N - rest.len());
                return Err(found.corrupt(0, message).short());
            }
            let (to, behind) = std::mem::take(&mut rest).split_at_mut(found.len());
            to.iter_mut().zip(found.iter()).for_each(|(to, from)| *to = from);
            rest = behind;
        }
        Ok(Some(words))
    }
    /// Reads all of the current logical record. Returns its range, or `None` if it was assembled in `record`.
    fn whole(&mut self) -> Result<Option<Range<usize>>> {
        if self.piece.len() < self.left && self.piece.len() + self.behind >= self.left && self.left <= WINDOW
        {
            self.more(self.left)?;
        }
        if self.piece.len() >= self.left {
            return self.advance(self.left).map(|(_, range)| Some(range));
        }
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        while self.left > 0 {
            let (_, range) = self.advance(self.left)?;
            record.try_extend(self.bytes().get(range).unwrap_or_default())?;
        }
        if self.stopped {
            record.clear();
        }
        self.record = record;
        Ok(None)
    }

    fn exchange(&mut self) -> Result<Option<Start>> {
        loop {
            if self.in_fast || self.piece.len() + self.behind < 8 {
                // The rest of a fast record is padding; so is a rest that is too short for a logical record.
                if !self.physical(0)? {
                    return Ok(None);
                }
                continue;
            }
            if self.piece.len() < 8 {
                self.more(8)?;
            }
            let offset = self.place();
            let piece = self.bytes().get(self.piece.clone()).unwrap_or_default();
            let words = Words::new(piece, self.file.order, offset);
            let (count, kind) = (words.word(0)?, words.word(1)?);
            if count == 0 || PADDING.contains(&kind) {
                (self.piece, self.behind) = (0..0, 0);
                continue;
            }
            let length = (count as usize).saturating_mul(4);
            let left = self.file.source.size().saturating_sub(offset);
            if kind > 8 || (length as u64 > left && self.file.mode != Mode::Alfa) {
                let message = format!(
                    "a logical record of type {kind} has {count} words, more than the remaining {left} bytes"
                );
                return Err(Error::corrupt(message).at(offset));
            }
            self.piece.start += 8;
            return Ok(Some(Start { kind, offset: offset + 8, length }));
        }
    }

    fn native(&mut self) -> Result<Option<Start>> {
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
                        Err(Error::corrupt("the last banks of the structure are missing").at(offset).short())
                    }
                };
            };
            let words = Words::new(self.window.buffer.get(range).unwrap_or_default(), order, start + 4);
            let (count, of_type) = (words.count(0, 2)?, words.word(1)?);
            let content = words.slice(2, count)?;
            match (kind, of_type) {
                (None, 1..=3) => {
                    offset = start + 12;
                    kind = Some(of_type);
                    self.record.try_extend(content.bytes())?;
                    let more = of_type != RUN && content.word(7)? > 0;
                    if !more && (of_type == RUN || pilot_words(&content)? <= content.len()) {
                        return Ok(Some(self.put_together(of_type, offset)));
                    }
                }
                (None, 5 | 6) => {}
                (Some(_), 4 | 7) => self.record.try_extend(content.bytes())?,
                (Some(kind), 8) => {
                    self.record.try_extend(content.bytes())?;
                    return Ok(Some(self.put_together(kind, offset)));
                }
                _ => return Err(words.corrupt(1, format!("unexpected record of type {of_type}"))),
            }
        }
    }
    /// Makes `record` the data to read.
    fn put_together(&mut self, kind: u32, offset: u64) -> Start {
        (self.piece, self.behind) = (0..self.record.len(), 0);
        Start { kind, offset, length: self.record.len() }
    }
}

/// Parses the steering words of a physical record of `words` words, with `pending` words missing from a logical record
/// that began before. Returns the start of the first logical record, the number of fast records that follow, and
/// whether the writer abandoned the pending record.
fn steering(record: &Words<'_>, words: usize, pending: usize) -> Result<(usize, u32, bool)> {
    let magic = MAGIC.iter().enumerate().all(|(index, &word)| record.get(index) == Some(word));
    if !magic || (record.word(4)? & LENGTH_MASK) as usize != words {
        return Err(record.corrupt(0, "expected a steering record"));
    }
    let (flags, first, fast) = (record.word(4)?, record.word(6)? as usize, record.word(7)?);
    if first > words || (first > 0 && first < STEERING) {
        return Err(record.corrupt(
            6,
            format!("a logical record starts at word {first}, but the physical record has {words} words"),
        ));
    }
    if pending == 0 {
        // Skip the rest of a logical record that was not read.
        return Ok((if first == 0 { words } else { first }, fast, false));
    }
    let stopped = flags & EMERGENCY != 0;
    if !stopped && first > 0 && first - STEERING < pending {
        let message = format!(
            "{pending} words of a logical record are missing, but the next record starts after {}",
            first - STEERING
        );
        return Err(record.corrupt(6, message));
    }
    Ok((STEERING, fast, stopped))
}

/// Returns the number of words of a pilot and its parts.
fn pilot_words(words: &Words<'_>) -> Result<usize> {
    let mut total = PILOT_WORDS;
    for index in [4, 5, 6, 7, 9] {
        total = total.saturating_add(words.word(index)? as usize);
    }
    Ok(total)
}

impl<'a> Record<'a> {
    /// Returns the meaning of the record.
    pub fn meaning(&self) -> Result<Meaning> {
        let offset = self.words.offset(0);
        Start { kind: self.kind, offset, length: 4 * self.words.len() }.meaning(self.words.get(0))
    }
    /// The words.
    pub fn words(&self) -> Words<'a> {
        self.words
    }
    /// Returns the user words of a run start, run end or end of file.
    pub fn user_words(&self) -> Words<'a> {
        self.words.from(1)
    }
    /// Returns the pilot and the parts it describes.
    pub fn pilot(&self) -> Result<Pilot<'a>> {
        let words = self.words;
        if words.word(0)? != PILOT.to_bits() {
            return Err(words.corrupt(0, NO_PILOT));
        }
        let mut at = PILOT_WORDS;
        let count = |index: usize| words.count(index, PILOT_WORDS);
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
            .map(|index| Ok((described.slice(2 * index, 2)?.text()?, described.word(2 * count + index)?)))
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
    /// Returns the structure of the banks.
    pub fn structure(&self) -> Result<Structure<'a>> {
        Structure::parse(self.table, self.banks, self.entry)
    }
    /// Returns the words of the banks.
    pub fn banks(&self) -> Words<'a> {
        self.banks
    }
}

/// Removes the I/O characteristic from a user header.
fn user_header(words: Words<'_>) -> Result<(Words<'_>, Vec<Run>)> {
    if words.is_empty() {
        return Ok((words, Vec::new()));
    }
    let first = words.word(0)?;
    let io = if first < 8 { 1 } else { (first >> 6 & 31) as usize };
    let layout = BankLayout::parse(words.slice(0, io.max(1)).within(|| "the user header")?);
    let header = words.from(io.max(1));
    let runs = layout.runs(header);
    Ok((header, runs))
}
