//! Pages: the stored pieces of one column, and how they are decoded.

use crate::array::Builder;
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};
use sapwood_io::Range;

/// A page with a range of wanted items.
#[derive(Debug, Clone, Copy)]
pub struct PageWanted {
    /// Index of the page in its stored column.
    pub number: usize,
    /// Index of its first item in the column.
    pub first: u64,
    /// Number of items in the page.
    pub items: usize,
    /// First wanted item, counted from the start of the page.
    pub from: usize,
    /// One past the last wanted item.
    pub to: usize,
    /// Location.
    pub place: PagePlace,
}

/// Location of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagePlace {
    /// In the file.
    Stored(Range),
    /// In memory, as part of the table's description.
    Memory,
    /// Not stored: its items were never written; their value is known.
    Absent,
}

impl PageWanted {
    /// Returns the byte range to fetch; it is empty if the page is not in the file.
    pub const fn range(&self) -> Range {
        match self.place {
            PagePlace::Stored(range) => range,
            PagePlace::Memory | PagePlace::Absent => Range { offset: 0, length: 0 },
        }
    }
    /// Number of wanted items.
    pub const fn wanted(&self) -> usize {
        self.to - self.from
    }
}

/// A page in the listing of a column; used for plans and reports.
#[derive(Debug, Clone, Copy)]
pub struct PageListed {
    /// Its stored column.
    pub column: usize,
    /// Index of the page in that column.
    pub number: usize,
    /// Byte range in the file.
    pub range: Range,
    /// The first entry that needs it.
    pub first: u64,
    /// Number of entries from there on that need it.
    pub entries: u64,
}

/// A decompressed page, or its end.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The values.
    pub data: &'a [u8],
    /// Start of each item as big-endian 32-bit numbers, if the items have variable lengths.
    pub table: Option<&'a [u8]>,
    /// Offset to subtract from the numbers of the table.
    pub origin: usize,
    /// Number of items.
    pub items: usize,
    /// Whether the table stores the size of the previous item instead of a start. The first number is then unused.
    pub sizes: bool,
    /// As in [`Unpacked`].
    pub joined: bool,
    /// Whether the whole page has no bytes of values, also if this is only a part of it.
    pub hollow: bool,
}

impl<'a> Page<'a> {
    /// Creates a page without a table.
    pub const fn plain(data: &'a [u8], items: usize) -> Self {
        Self { data, table: None, origin: 0, items, sizes: false, joined: false, hollow: data.is_empty() }
    }

    /// Start of an item, if there is a table.
    pub fn start(&self, item: usize) -> Option<usize> {
        let words = self.table?.as_chunks::<4>().0;
        if self.sizes {
            let before = words.get(..=item)?.iter().skip(1);
            return Some(before.map(|word| u32::from_be_bytes(*word) as usize).sum());
        }
        Some(u32::from_be_bytes(*words.get(item)?).wrapping_sub(self.origin as u32) as usize)
    }

    /// All starts in the table, unchecked.
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

    /// Starts of some items; empty if there is no table.
    pub fn starts(&self, items: std::ops::Range<usize>) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let all = self.all_starts().map(|start| start as usize).enumerate();
        all.take(items.end).skip(items.start)
    }

    /// Returns a range of the items as a page of its own.
    pub fn of_items(&self, from: usize, to: usize) -> Result<Self> {
        let wrong = || Error::corrupt("starts of items do not rise within their page");
        let start = self.start(from).ok_or_else(wrong)?;
        let end = if to == self.items { self.data.len() } else { self.start(to).ok_or_else(wrong)? };
        let data = self.data.get(start..end).ok_or_else(wrong)?;
        let table = self.table.and_then(|table| table.get(from * 4..to * 4));
        Ok(Self { data, table, origin: self.origin + start, items: to - from, ..*self })
    }

    /// Start of each item and end of the last. Checks that they rise and stay within the values.
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

    /// Appends the ends of items `from` to `to` and returns their bytes. The items are lists of elements of this many
    /// bytes (a power of two). The ends are counted from `base` elements on. Does nothing if there is no table of
    /// starts.
    ///
    /// # Errors
    /// When the starts do not rise within the values, or the length of a list is not a multiple of the element size.
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
        // Loops without conditions, over few enough starts to stay in the first-level cache.
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
        // The starts rise, so that none of them is beyond the last.
        if falls != 0 || starts.first().is_some_and(|&end| end > border) {
            return Err(not_rising(border));
        }
        if to == self.items {
            last = border;
            odd |= (border - first) & mask;
            ends.push(base + i64::from((border - first) >> shift));
        }
        let bytes = self.data.get(first as usize..last as usize).filter(|_| odd == 0);
        bytes.map(Some).ok_or_else(|| Error::corrupt(format!("a list is not a multiple of {each} bytes")))
    }
}

/// Number of starts that are processed together.
const STARTS: usize = 512;

fn not_rising(border: u32) -> Error {
    Error::corrupt(format!("offsets of the entries of a page do not rise within its {border} bytes"))
}

/// Positions of the parts of a page after unpacking.
#[derive(Debug, Clone)]
pub struct Unpacked {
    /// Whether the parts are in the scratch buffer; otherwise they are in the record itself.
    pub in_scratch: bool,
    /// The values.
    pub data: std::ops::Range<usize>,
    /// The table of starts, if there is one.
    pub table: Option<std::ops::Range<usize>>,
    /// As in [`Page`].
    pub origin: usize,
    /// Number of items.
    pub items: usize,
    /// As in [`Page`].
    pub sizes: bool,
    /// The page was converted so that the bytes of each item are contiguous and items are independent of each other.
    pub joined: bool,
    /// Stored size of the page in bytes, without its header.
    pub packed_bytes: usize,
    /// Size after decompression in bytes.
    pub bytes: usize,
}

impl Unpacked {
    /// Shifts the positions for a buffer in which the record begins at `by`.
    #[must_use]
    pub fn moved(self, by: usize) -> Self {
        let moved = |range: std::ops::Range<usize>| range.start + by..range.end + by;
        Self { data: moved(self.data), table: self.table.map(moved), ..self }
    }
    /// Returns the page in the buffer that holds it.
    pub fn page<'a>(&self, buffer: &'a [u8]) -> Page<'a> {
        Page {
            data: buffer.get(self.data.clone()).unwrap_or_default(),
            table: self.table.clone().and_then(|table| buffer.get(table)),
            origin: self.origin,
            items: self.items,
            sizes: self.sizes,
            joined: self.joined,
            hollow: self.data.is_empty(),
        }
    }
}

/// The items of a page to decode.
#[derive(Debug, Clone, Copy)]
pub struct PageSlice {
    /// Index of the page.
    pub number: usize,
    /// First available item, counted from the start of the column.
    pub first: u64,
    /// Number of items of the page before the available ones.
    pub dropped: usize,
    /// Number of available items, according to the table's description.
    pub items: usize,
    /// First wanted item, counted from the first available one.
    pub from: usize,
    /// One past the last wanted item.
    pub to: usize,
    /// Whether to skip and record values that cannot be decoded.
    pub leave_out: bool,
}

/// Destination of the values of a page.
pub enum PageOutput<'a> {
    /// A known place of exactly the size of the wanted items.
    Place(&'a mut [u8]),
    /// Appended to the values before.
    Append(&'a mut Builder),
}

/// Values that were left out, each with the place of the first occurrence.
pub type PartsLeftOut = Vec<(String, Error)>;

/// Decodes the pages of one lane. Each method is called at most once a page, never for each entry.
pub trait PageDecoder: Send + Sync {
    /// Verifies and decompresses a page from its bytes in the file. `scratch` is reused for each page and may be longer
    /// than necessary.
    fn unpack(&self, page: &PageWanted, record: &[u8], scratch: &mut Vec<u8>) -> Result<Unpacked>;

    /// Returns a page that is in memory ([`PagePlace::Memory`]).
    fn in_memory(&self, _page: &PageWanted) -> Option<Page<'_>> {
        None
    }

    /// Byte position of an item, if it is known without decoding the items before. The rest of the page is kept from
    /// there on for the next step.
    fn start(&self, page: &Page<'_>, item: usize) -> Option<usize> {
        page.start(item)
    }

    /// Whether decoding is slow enough for several threads to decode pieces of a page with a table.
    fn is_slow(&self) -> bool {
        false
    }

    /// Decodes the wanted items; returns the values that were left out.
    fn decode(&self, slice: &PageSlice, page: &Page<'_>, to: PageOutput<'_>) -> Result<PartsLeftOut>;

    /// Writes the items of a page that is not stored ([`PagePlace::Absent`]): zeros and empty lists.
    fn fill(&self, page: &PageWanted, to: PageOutput<'_>) -> Result<()> {
        match to {
            PageOutput::Place(place) => place.fill(0),
            PageOutput::Append(builder) => builder.append_default(page.wanted())?,
        }
        Ok(())
    }

    /// Entries of the wanted items, for a trace.
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
