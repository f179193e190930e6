//! Pages: the stored pieces of one column, and how they are decoded.

use crate::array::Builder;
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};
use sapwood_io::Range;

/// A page of which some items are wanted.
#[derive(Debug, Clone, Copy)]
pub struct PageWanted {
    /// Its number in its stored column.
    pub number: usize,
    /// Its first item, counted from the start of the column.
    pub first: u64,
    /// Items that it holds.
    pub items: usize,
    /// The first item that is wanted, counted from the first of the page.
    pub from: usize,
    /// One past the last item that is wanted.
    pub to: usize,
    /// Where it is.
    pub place: PagePlace,
}

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePlace {
    /// In the file.
    Stored(Range),
    /// In memory: it was part of the table's description.
    Memory,
    /// Nowhere: its items were never written, and have a value that is known without bytes.
    Absent,
}

impl PageWanted {
    /// The bytes to fetch; none if the page is not in the file.
    pub const fn range(&self) -> Range {
        match self.place {
            PagePlace::Stored(range) => range,
            PagePlace::Memory | PagePlace::Absent => Range { offset: 0, length: 0 },
        }
    }
    /// Items that are wanted.
    pub const fn wanted(&self) -> usize {
        self.to - self.from
    }
}

/// A page of a column's listing: what reading is planned with, and what reports show.
#[derive(Debug, Clone, Copy)]
pub struct PageListed {
    /// Its stored column.
    pub column: usize,
    /// Its number in that column.
    pub number: usize,
    /// Where it lies in the file.
    pub range: Range,
    /// The first entry that needs it.
    pub first: u64,
    /// Entries from there on that need it.
    pub entries: u64,
}

/// A decompressed page, or the end of one.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The values.
    pub data: &'a [u8],
    /// Where each item starts, as big-endian numbers of four bytes, if its items have lengths of their own.
    pub table: Option<&'a [u8]>,
    /// What to subtract from the numbers of the table.
    pub origin: usize,
    /// Items.
    pub items: usize,
    /// The table has the size of the item before instead of a start; its first number means nothing.
    pub sizes: bool,
    /// As in [`Unpacked`].
    pub joined: bool,
}

impl<'a> Page<'a> {
    /// A page without a table.
    pub const fn plain(data: &'a [u8], items: usize) -> Self {
        Self { data, table: None, origin: 0, items, sizes: false, joined: false }
    }

    /// Where an item starts, if there is a table.
    pub fn start(&self, item: usize) -> Option<usize> {
        let words = self.table?.as_chunks::<4>().0;
        if self.sizes {
            let before = words.get(..=item)?.iter().skip(1);
            return Some(before.map(|word| u32::from_be_bytes(*word) as usize).sum());
        }
        Some(u32::from_be_bytes(*words.get(item)?).wrapping_sub(self.origin as u32) as usize)
    }

    /// All starts in the table, not checked.
    fn all_starts(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (sizes, origin) = (self.sizes, self.origin as u32);
        let mut last = 0u32;
        self.table.unwrap_or_default().as_chunks::<4>().0.iter().enumerate().map(move |(i, word)| {
            let word = u32::from_be_bytes(*word);
            last = match (sizes, i) {
                (false, _) => word.wrapping_sub(origin),
                (true, 0) => 0,
                (true, _) => last.saturating_add(word),
            };
            last
        })
    }

    /// Where some items start; nothing if there is no table.
    pub fn starts(&self, items: std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let all = self.all_starts().map(|start| start as usize).enumerate();
        all.take(items.end).skip(items.start)
    }

    /// The items from one to another, as a page of these.
    pub fn of_items(&self, from: usize, to: usize) -> Result<Self> {
        let wrong = || Error::corrupt("starts of items do not rise within their page");
        let start = self.start(from).ok_or_else(wrong)?;
        let end = if to == self.items { self.data.len() } else { self.start(to).ok_or_else(wrong)? };
        let data = self.data.get(start..end).ok_or_else(wrong)?;
        let table = self.table.and_then(|table| table.get(from * 4..to * 4));
        Ok(Self { data, table, origin: self.origin + start, items: to - from, ..*self })
    }

    /// Start of each item and end of the last, checked to rise and stay within the values.
    pub fn bounds(&self) -> Result<Option<Vec<u32>>> {
        let Some(table) = self.table else { return Ok(None) };
        let mut bounds = grow::with_room(table.len() / 4 + 1)?;
        let border = self.data.len() as u32;
        let mut wrong = false;
        let mut last = 0u32;
        for start in self.all_starts() {
            wrong |= start < last || start > border;
            last = start;
            bounds.push(start);
        }
        bounds.push(border);
        if wrong { Err(not_rising(border)) } else { Ok(Some(bounds)) }
    }

    /// Appends the ends of items `from` to `to`, which are lists of elements of this many bytes (a power of two), counted
    /// from `base` elements on; gives their bytes. Nothing is done if there is no table of starts.
    ///
    /// # Errors
    /// When the starts do not rise within the values, or a list is no multiple of its elements.
    pub fn ends(
        &self,
        (from, to): (usize, usize),
        each: usize,
        base: i64,
        ends: &mut Vec<i64>,
    ) -> Result<Option<&'a [u8]>> {
        let words = self.table.unwrap_or_default().as_chunks::<4>().0;
        let origin = self.origin as u32;
        let start = |word: &[u8; 4]| u32::from_be_bytes(*word).wrapping_sub(origin);
        let Some(first) = words.get(from).map(start).filter(|_| from < to) else { return Ok(None) };
        if self.sizes || !each.is_power_of_two() || words.len() != self.items || to > self.items {
            return Ok(None);
        }
        let border = self.data.len() as u32;
        let (shift, mask) = (each.trailing_zeros(), (each - 1) as u32);
        ends.room(to - from)?;
        // Loops without conditions, over so few starts that they stay in the nearest cache.
        let mut starts = [0u32; STARTS + 1];
        let (mut falls, mut odd, mut last) = (0, 0, first);
        for (block, words) in words.chunks(STARTS).enumerate() {
            let own = starts.get_mut(1..=words.len()).unwrap_or_default();
            own.iter_mut().zip(words).for_each(|(slot, word)| *slot = start(word));
            let before = starts.get(..words.len()).unwrap_or_default();
            let next = starts.get(1..=words.len()).unwrap_or_default();
            falls = before.iter().zip(next).fold(falls, |falls, (one, next)| falls | u32::from(next < one));
            let begin = block * STARTS;
            let (low, high) = ((from + 1).max(begin), (to + 1).min(begin + words.len()));
            let own = starts.get(low - begin + 1..=high.saturating_sub(begin)).unwrap_or_default();
            odd = own.iter().fold(odd, |odd, end| odd | (end.wrapping_sub(first) & mask));
            ends.extend(own.iter().map(|end| base + i64::from(end.wrapping_sub(first) >> shift)));
            last = own.last().copied().unwrap_or(last);
            let end = starts.get(words.len()).copied().unwrap_or_default();
            starts.first_mut().into_iter().for_each(|slot| *slot = end);
        }
        // The starts rise, so none of them is beyond the last.
        if falls != 0 || starts.first().is_some_and(|&end| end > border) {
            return Err(not_rising(border));
        }
        if to == self.items {
            last = border;
            odd |= (border - first) & mask;
            ends.push(base + i64::from((border - first) >> shift));
        }
        let bytes = self.data.get(first as usize..last as usize).filter(|_| odd == 0);
        bytes.map(Some).ok_or_else(|| Error::corrupt(format!("a list is no multiple of {each} bytes")))
    }
}

/// This many starts of items are looked at together.
const STARTS: usize = 512;

fn not_rising(border: u32) -> Error {
    Error::corrupt(format!("offsets of the entries of a page do not rise within its {border} bytes"))
}

/// Where the parts of a page are, after it was unpacked.
#[derive(Debug, Clone)]
pub struct Unpacked {
    /// Whether they are in the scratch buffer; else in the record itself.
    pub in_scratch: bool,
    /// The values.
    pub data: std::ops::Range<usize>,
    /// The table of starts, if there is one.
    pub table: Option<std::ops::Range<usize>>,
    /// As in [`Page`].
    pub origin: usize,
    /// Items.
    pub items: usize,
    /// As in [`Page`].
    pub sizes: bool,
    /// The bytes of each item lie together and no item depends on another, though the column is stored otherwise.
    pub joined: bool,
    /// Bytes of the page as it is stored, without its header.
    pub packed_bytes: usize,
    /// Bytes after decompression.
    pub bytes: usize,
}

impl Unpacked {
    /// The same in a buffer in which the record begins at `by`.
    #[must_use]
    pub fn moved(self, by: usize) -> Self {
        let moved = |range: std::ops::Range<usize>| range.start + by..range.end + by;
        Self { data: moved(self.data), table: self.table.map(moved), ..self }
    }
    /// The page in the buffer that it is in.
    pub fn page<'a>(&self, buffer: &'a [u8]) -> Page<'a> {
        Page {
            data: buffer.get(self.data.clone()).unwrap_or_default(),
            table: self.table.clone().and_then(|table| buffer.get(table)),
            origin: self.origin,
            items: self.items,
            sizes: self.sizes,
            joined: self.joined,
        }
    }
}

/// Which items of a page are decoded.
#[derive(Debug, Clone, Copy)]
pub struct PageSlice {
    /// Number of the page.
    pub number: usize,
    /// The first item that is here, counted from the start of the column.
    pub first: u64,
    /// Items of the page before those that are here.
    pub dropped: usize,
    /// Items that are here, as the table's description has it.
    pub items: usize,
    /// The first item wanted, counted from the first that is here.
    pub from: usize,
    /// One past the last item wanted.
    pub to: usize,
    /// Whether to pass over and note what cannot be decoded.
    pub leave_out: bool,
}

/// Where the values of a page go.
pub enum Output<'a> {
    /// To a place known beforehand, of exactly the size of the wanted items.
    Place(&'a mut [u8]),
    /// Behind the values before.
    Append(&'a mut Builder),
}

/// What was left out of the values, with the place of the first.
pub type PartsLeftOut = Vec<(String, Error)>;

/// Decodes the pages of one lane. There is at most one call of each method a page, never one an entry.
pub trait PageDecoder: Send + Sync {
    /// Verifies and decompresses a page from its bytes in the file. `scratch` may be longer than what is wanted; it is
    /// used again for the next page.
    fn unpack(&self, page: &PageWanted, record: &[u8], scratch: &mut Vec<u8>) -> Result<Unpacked>;

    /// A page that is in memory ([`PagePlace::Memory`]).
    fn in_memory(&self, _page: &PageWanted) -> Option<Page<'_>> {
        None
    }

    /// Byte at which an item starts, where it is known without decoding those before: the rest of a page is kept
    /// from there on for the next step.
    fn start(&self, page: &Page<'_>, item: usize) -> Option<usize> {
        page.start(item)
    }

    /// Whether several threads may decode pieces of a page that has a table, since this takes long.
    fn is_slow(&self) -> bool {
        false
    }

    /// Decodes the wanted items; returns what was left out.
    fn decode(&self, slice: &PageSlice, page: &Page<'_>, to: Output<'_>) -> Result<PartsLeftOut>;

    /// Writes the items of a page that is nowhere ([`PagePlace::Absent`]): zeros and empty lists.
    fn fill(&self, page: &PageWanted, to: Output<'_>) -> Result<()> {
        match to {
            Output::Place(place) => place.fill(0),
            Output::Append(builder) => builder.append_default(page.wanted())?,
        }
        Ok(())
    }

    /// The entries whose values are among the wanted items, for a trace.
    fn entries(&self, page: &PageWanted) -> std::ops::Range<u64> {
        page.first + page.from as u64..page.first + page.to as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{Page, STARTS};

    fn table(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn starts_and_sizes_say_the_same() {
        let (starts, sizes) = (table(&[70, 71, 71, 74]), table(&[99, 1, 0, 3]));
        let starts = Page { table: Some(&starts), origin: 70, ..Page::plain(b"abcdef", 4) };
        let sizes = Page { table: Some(&sizes), sizes: true, ..starts };
        for page in [starts, sizes] {
            assert_eq!(page.bounds().unwrap(), Some(vec![0, 1, 1, 4, 6]));
            assert_eq!(page.starts(1..4).collect::<Vec<_>>(), [(1, 1), (2, 1), (3, 4)]);
            assert_eq!((page.start(3), page.start(4)), (Some(4), None));
        }
        let middle = starts.of_items(1, 3).unwrap();
        assert_eq!((middle.data, middle.items, middle.origin), (&b"bcd"[..], 2, 71));
        assert_eq!(middle.bounds().unwrap(), Some(vec![0, 0, 3]));
        assert_eq!(starts.of_items(3, 4).unwrap().data, b"ef");
        assert_eq!(Page::plain(b"abc", 3).bounds().unwrap(), None);
    }

    #[test]
    fn ends_of_lists_follow_from_starts() {
        let items = 3 * STARTS + 17;
        let data = vec![0; 4 * 5 * items];
        let starts: Vec<u32> = (0..items as u32).map(|item| 70 + 4 * (item + item / 3)).collect();
        let bytes = table(&starts);
        let page = Page { table: Some(&bytes), origin: 70, ..Page::plain(&data, items) };
        let bounds = page.bounds().unwrap().unwrap();
        for (from, to) in [(0, items), (0, 1), (5, STARTS), (STARTS - 1, STARTS + 1), (STARTS, items - 1)] {
            let mut ends = vec![7];
            let bytes = page.ends((from, to), 4, 7, &mut ends).unwrap().unwrap();
            let (first, last) = (bounds[from], bounds[to]);
            let want = bounds[from..=to].iter().map(|bound| 7 + i64::from((bound - first) / 4));
            assert_eq!(ends, want.collect::<Vec<i64>>(), "{from} to {to}");
            assert_eq!(bytes.len(), (last - first) as usize);
        }
        let mut ends = Vec::new();
        for (items, each) in [((2, 2), 4), ((0, 1), 3), ((0, items + 1), 4)] {
            assert_eq!(page.ends(items, each, 0, &mut ends).unwrap(), None);
        }
        assert!(page.ends((0, items), 8, 0, &mut Vec::new()).is_err());
        let sizes = Page { sizes: true, ..page };
        assert_eq!(sizes.ends((0, 3), 4, 0, &mut ends).unwrap(), None);
        assert!(ends.is_empty());
    }

    #[test]
    fn starts_that_fall_or_lie_outside_are_refused() {
        for numbers in [[70, 73, 72], [70, 71, 77], [69, 70, 71]] {
            let bytes = table(&numbers);
            let page = Page { table: Some(&bytes), origin: 70, ..Page::plain(b"abcdef", 3) };
            assert!(page.bounds().is_err(), "{numbers:?}");
            assert!(page.ends((0, 3), 1, 0, &mut Vec::new()).is_err(), "{numbers:?}");
        }
        let bytes = table(&[70, 90, 71]);
        let page = Page { table: Some(&bytes), origin: 70, ..Page::plain(b"abcdef", 3) };
        assert!(page.of_items(1, 3).is_err() && page.of_items(0, 1).is_err());
    }
}
