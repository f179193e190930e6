//! Locating the buffers of an ntuple, which are the pages of its stored columns.

use super::bank::Structure;
use super::hbook::{Description, Kind, NtupleColumn};
use super::rz::{Cycle, RzDirectory, RzFile, part};
use crate::error::{Error, Result};
use sapwood_io::{Cause, Range};

/// Words of a single-bank object before its content: table and bank.
const HEAD: usize = 15;

/// The pages of a stored column.
#[derive(Default)]
pub(super) struct StoredColumn {
    pub(super) pages: Vec<StoredPage>,
    /// Total bytes of all pages.
    pub(super) bytes: u64,
    /// Words in an item, or items in a word.
    pub(super) shape: Items,
}

/// Packing of items in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Items {
    /// This many words in each item.
    Words(usize),
    /// This many bits in each item; as many items as fit in a word.
    Bits(usize),
}

impl Default for Items {
    fn default() -> Self {
        Self::Words(1)
    }
}

impl Items {
    fn count(self, words: usize) -> usize {
        match self {
            Self::Words(each) => words / each.max(1),
            Self::Bits(bits) => words * (32 / bits.max(1)),
        }
    }
}

pub(super) struct StoredPage {
    pub(super) first: u64,
    pub(super) items: usize,
    pub(super) place: StoredPlace,
}

pub(super) enum StoredPlace {
    File(Range),
    /// An item whose parts are not contiguous in the file.
    Memory(Vec<u8>),
}

/// Collects the pages of a stored column.
struct Pages<'a> {
    file: &'a RzFile,
    column: StoredColumn,
    items: u64,
}

impl<'a> Pages<'a> {
    fn new(file: &'a RzFile, shape: Items) -> Self {
        Self { file, column: StoredColumn { shape, ..StoredColumn::default() }, items: 0 }
    }
    fn push(&mut self, items: usize, place: StoredPlace) {
        if items > 0 {
            self.column.bytes = self.column.bytes.saturating_add(match &place {
                StoredPlace::File(range) => range.length,
                StoredPlace::Memory(bytes) => bytes.len() as u64,
            });
            self.column.pages.push(StoredPage { first: self.items, items, place });
            self.items += items as u64;
        }
    }
    /// Adds at most `count` words of a buffer, after the first `skip`.
    fn buffer(&mut self, pieces: &[Range], skip: usize, count: usize) -> Result<()> {
        let (mut skip, mut left) = (4 * skip as u64, 4 * count as u64);
        let mut pieces = pieces.iter().filter_map(|piece| {
            let passed = skip.min(piece.length);
            skip -= passed;
            let length = (piece.length - passed).min(left) / 4 * 4;
            left -= length;
            (length > 0).then_some(Range { offset: piece.offset + passed, length })
        });
        let Some(mut piece) = pieces.next() else { return Ok(()) };
        let behind: Vec<Range> = pieces.collect();
        let mut behind = behind.into_iter();
        loop {
            let items = self.column.shape.count((piece.length / 4) as usize);
            let used = match self.column.shape {
                Items::Words(each) => 4 * (items * each) as u64,
                Items::Bits(_) => piece.length,
            };
            self.push(items, StoredPlace::File(Range { length: used, ..piece }));
            let Some(next) = behind.next() else { return Ok(()) };
            let rest = Range { offset: piece.offset + used, length: piece.length - used };
            piece = next;
            if let (Items::Words(each), true) = (self.column.shape, rest.length > 0) {
                let missing = 4 * each as u64 - rest.length;
                if piece.length < missing {
                    return Ok(());
                }
                let mut item = vec![0; 4 * each];
                let ranges = [rest, Range { length: missing, ..piece }];
                self.file.source().fetch(&ranges, &mut item, Cause::Object)?;
                self.push(1, StoredPlace::Memory(item));
                piece = Range { offset: piece.offset + missing, length: piece.length - missing };
            }
        }
    }
}

/// Finds objects by their keys.
pub(super) struct Finder<'a> {
    file: &'a RzFile,
    directory: &'a RzDirectory,
    /// Indices of the keys, sorted by their words.
    order: Vec<usize>,
    /// Position of the last key found in this order, and its distance from the one before.
    last: std::cell::Cell<(usize, usize)>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(file: &'a RzFile, directory: &'a RzDirectory) -> Result<Self> {
        Ok(Self { file, directory, order: directory.sorted()?, last: std::cell::Cell::new((0, 1)) })
    }
    /// Returns the index of a key. The keys of a column's buffers are mostly equally spaced.
    fn number(&self, key: &[u32]) -> Option<usize> {
        let (last, distance) = self.last.get();
        let at = |place: usize| self.order.get(place).map(|&number| self.directory.key(number));
        let guess = last.saturating_add(distance);
        let before = guess.checked_sub(1).and_then(at);
        let place = if at(guess) == Some(key) && before != Some(key) {
            guess
        } else {
            self.order.partition_point(|&number| self.directory.key(number) < key)
        };
        if at(place) != Some(key) {
            return None;
        }
        self.last.set((place, place.checked_sub(last).unwrap_or(distance)));
        self.order.get(place).copied()
    }
    /// Returns the cycle of the buffer whose key begins with two words, or with the first of them: the newest hidden
    /// cycle, if there is one, otherwise the newest.
    fn buffer(&self, first: u32, second: u32) -> Option<Cycle> {
        let mut key = vec![0; self.directory.forms.len()];
        key.iter_mut().zip([first, second]).for_each(|(word, value)| *word = value);
        let cycles = self.directory.cycles(self.number(&key)?);
        cycles.iter().find(|cycle| cycle.hidden).or(cycles.first()).copied()
    }
    /// Returns the description of a cycle of a column-wise ntuple. If it lacks the number of rows, returns the
    /// description of the newest cycle.
    ///
    /// HBOOK writes the header before the ntuple is filled, without the number of rows, and again at the end. All
    /// cycles have the same buffers, and the last buffers are padded.
    pub(super) fn finished(&self, cycle: &Cycle, description: Description) -> Description {
        if description.rows.is_some() {
            return description;
        }
        let mut cycles = (0..self.directory.len()).map(|key| self.directory.cycles(key));
        let newest = cycles.find(|cycles| cycles.contains(cycle)).and_then(|cycles| cycles.first());
        // An older cycle is still readable if the newest is damaged.
        let read = |newest: &Cycle| {
            let bytes = self.file.object(newest).ok()?;
            let structure = self.file.structure(newest, &bytes).ok()?;
            Description::column_wise(&structure).ok()
        };
        newest
            .filter(|&newest| newest != cycle)
            .and_then(read)
            .filter(|newest| newest.rows.is_some() && newest.same_columns(&description))
            .unwrap_or(description)
    }
    /// Locates the data of each bank in the chain of an object, in one range or two. An object with a single bank is
    /// located without reading it.
    fn banks(&self, cycle: &Cycle, words: usize) -> Result<Vec<Vec<Range>>> {
        let ranges = self.file.ranges(cycle)?;
        if cycle.words as usize == HEAD + words {
            return Ok(vec![part(&ranges, 4 * HEAD as u64, 4 * words as u64)]);
        }
        let bytes = self.file.object(cycle)?;
        let structure = self.file.structure(cycle, &bytes)?;
        let Some(first) = structure.entry else { return Ok(Vec::new()) };
        let behind = self.file.before(cycle, &structure);
        let piece = |&number: &usize| {
            let bank = structure.bank(number)?;
            Some(part(&ranges, behind + 4 * bank.data_start() as u64, 4 * u64::from(bank.data)))
        };
        Ok(structure.chain(first)?.iter().filter_map(piece).collect())
    }
}

/// Returns the pages of a row-wise ntuple.
pub(super) fn row_pages(
    finder: &Finder<'_>,
    description: &Description,
    structure: &Structure<'_>,
    ranges: &[Range],
    behind: u64,
) -> Result<StoredColumn> {
    let width = description.columns.len();
    let whole = description.buffer / width * width;
    let mut pages = Pages::new(finder.file, Items::Words(width));
    if !description.in_memory {
        for extension in 1..=description.extensions {
            let one_word = extension.wrapping_mul(10_000).wrapping_add(description.id);
            let first = if finder.directory.forms.len() == 1 { one_word } else { description.id };
            let Some(cycle) = finder.buffer(first, extension) else {
                return Err(Error::corrupt(format!("its buffer {extension} is not in the directory")));
            };
            for bank in finder.banks(&cycle, description.buffer)?.iter().take(1) {
                pages.buffer(bank, 0, whole)?;
            }
        }
    }
    let header = structure.entry.and_then(|header| structure.child(header, 1));
    if let Some(first) = header {
        for number in structure.chain(first)? {
            let Some(bank) = structure.bank(number) else { continue };
            let start = behind + 4 * bank.data_start() as u64;
            pages.buffer(&part(ranges, start, 4 * u64::from(bank.data)), 0, whole)?;
        }
    }
    Ok(pages.column)
}

/// Returns the pages of a column in a column-wise ntuple.
pub(super) fn column_pages(
    finder: &Finder<'_>,
    description: &Description,
    column: &NtupleColumn,
) -> Result<StoredColumn> {
    let shape = match column.kind {
        Kind::Text => Items::Words(column.bytes / 4),
        _ if column.bits == 64 => Items::Words(2),
        _ if column.bits == 32 => Items::Words(1),
        _ => Items::Bits(column.bits),
    };
    let mut pages = Pages::new(finder.file, shape);
    let found =
        |buffer: u32| finder.buffer(description.id, buffer.wrapping_mul(10_000).wrapping_add(column.number));
    // The word before the items of a buffer is the sum so far. In the first buffer, it is itself an end of lists.
    let add = |pages: &mut Pages<'_>, buffer: &[Range]| {
        let first = pages.column.pages.is_empty() && column.is_index;
        let skip = usize::from(!first);
        // Take no more items than HBOOK puts into a buffer.
        let words = description.buffer.saturating_sub(skip);
        pages.buffer(buffer, skip, words)
    };
    if description.in_memory {
        if let Some(cycle) = found(column.buffers) {
            for buffer in finder.banks(&cycle, description.buffer)? {
                add(&mut pages, &buffer)?;
            }
        }
        return Ok(pages.column);
    }
    // An ntuple that was not completed does not know its last buffer.
    for buffer in 1u32.. {
        let Some(cycle) = found(buffer) else { break };
        for bank in finder.banks(&cycle, description.buffer)?.iter().take(1) {
            add(&mut pages, bank)?;
        }
    }
    Ok(pages.column)
}
