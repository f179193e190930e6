//! Unpacking and decoding the pages of a column.

use super::encoding::{self, Encoding};
use super::envelope::checksum;
use super::table::ClusterPages;
use crate::array::{Number, pages};
use crate::compress::decode;
use crate::error::{Error, Result};
use crate::table::{Page, PageDecoder, PageOutput, PageSlice, PageWanted, PartsLeftOut, Unpacked};

/// Bytes of a switch element, which holds the type of a variant.
pub const SWITCH_BYTES: usize = 12;
/// Bits of a page number that hold the index of the page in its cluster; the higher bits hold the cluster.
pub const NUMBER_BITS: u32 = 32;
/// Number of a page that is not stored.
pub const NOT_STORED: usize = (1 << NUMBER_BITS) - 1;

/// A column in a cluster, for decoding.
pub struct StoredIn {
    /// Index of the cluster.
    pub number: usize,
    pub cluster: ClusterPages,
    pub column: usize,
    pub encoding: Encoding,
    /// Offset added to the ends of lists.
    pub base: u64,
}

impl StoredIn {
    /// Packing of the elements in an unpacked page.
    fn encoding_in(&self, page: &Page<'_>) -> Encoding {
        self.encoding.joined().filter(|_| page.joined).unwrap_or(self.encoding)
    }
}

/// Decoded form of the elements.
#[derive(Debug, Clone, Copy)]
pub enum Wanted {
    /// Numbers.
    Numbers(Number),
    /// Characters and bytes, not converted.
    Bytes,
    /// Type and index of variants, as they are stored.
    Switch,
    /// Ends of lists.
    Ends,
}

impl Wanted {
    /// The number type that an element decodes to, and how many numbers.
    pub fn numbers(self) -> (Number, usize) {
        match self {
            Self::Numbers(number) => (number, 1),
            Self::Bytes => (Number::U8, 1),
            Self::Switch => (Number::U8, SWITCH_BYTES),
            Self::Ends => (Number::I64, 1),
        }
    }
}

/// Decodes the pages of a lane.
pub struct ColumnDecoder {
    /// The columns of the clusters, in order.
    pub chosen: Vec<StoredIn>,
    pub wanted: Wanted,
}

impl ColumnDecoder {
    fn chosen(&self, page: usize) -> Option<&StoredIn> {
        let number = page >> NUMBER_BITS;
        self.chosen.get(self.chosen.partition_point(|c| c.number < number)).filter(|c| c.number == number)
    }
    fn of(&self, page: usize) -> Result<&StoredIn> {
        self.chosen(page).ok_or_else(|| Error::corrupt("the page belongs to no cluster"))
    }
    /// Bytes of an element if its page can be copied to memory unchanged.
    fn copied(&self, encoding: Encoding) -> Option<usize> {
        match self.wanted {
            Wanted::Bytes | Wanted::Switch => encoding.stored_bytes(1),
            Wanted::Numbers(number) => encoding.is_copied(number).then_some(number.size()),
            Wanted::Ends => encoding.is_copied(Number::I64).then_some(8),
        }
    }
}

impl PageDecoder for ColumnDecoder {
    fn unpack(&self, page: &PageWanted, record: &[u8], scratch: &mut Vec<u8>) -> Result<Unpacked> {
        let stored = self.of(page.number)?;
        let list = stored.cluster.list();
        let range = stored.cluster.cluster().and_then(|cluster| cluster.columns.get(stored.column));
        let found = range.and_then(|range| list.pages(range).get(page.number & NOT_STORED));
        let packed = if found.is_some_and(|found| found.checksum) {
            let (packed, sum) =
                record.split_last_chunk().ok_or_else(|| Error::corrupt("the page has no checksum"))?;
            let (sum, found) = (u64::from_le_bytes(*sum), checksum(packed));
            if sum != found {
                return Err(Error::corrupt(format!(
                    "the checksum of the page is {sum:016x}, its bytes give {found:016x}"
                )));
            }
            packed
        } else {
            record
        };
        let size = stored.encoding.stored_bytes(page.items as u64);
        let size = size.ok_or_else(|| {
            Error::limit(format!("the page has {} elements, too many for memory", page.items))
        })?;
        let compressed = packed.len() != size;
        if packed.len() > size {
            return Err(Error::corrupt(format!(
                "{} bytes are stored, but the page has {size}",
                packed.len()
            )));
        }
        // A page that is wanted in part is likely to be read again: convert it so that each part can be decoded on its
        // own.
        let joined = page.wanted() < page.items && stored.encoding.joined().is_some();
        let room = size * (usize::from(compressed) + usize::from(joined));
        if compressed {
            decode::verify_size(packed, size)?;
        }
        if scratch.len() < room {
            let more = room - scratch.len();
            scratch
                .try_reserve_exact(more)
                .map_err(|_| Error::limit(format!("no memory for a page of {size} bytes")))?;
            scratch.resize(room, 0);
        }
        let to = scratch.get_mut(..room).unwrap_or_default();
        match (compressed, joined) {
            (false, false) => {}
            (true, false) => decode::decompress(packed, to)?,
            (false, true) => encoding::join(stored.encoding, packed, to),
            (true, true) => {
                let (to, unpacked) = to.split_at_mut(size);
                decode::decompress(packed, unpacked)?;
                encoding::join(stored.encoding, unpacked, to);
            }
        }
        Ok(Unpacked {
            in_scratch: room > 0,
            data: 0..size,
            table: None,
            origin: 0,
            items: page.items,
            sizes: false,
            joined,
            packed_bytes: packed.len(),
            bytes: size,
        })
    }

    fn decode(&self, slice: &PageSlice, page: &Page<'_>, to: PageOutput<'_>) -> Result<PartsLeftOut> {
        let PageOutput::Place(out) = to else {
            return Err(Error::unsupported("elements in a growing column"));
        };
        let stored = self.of(slice.number)?;
        let (number, _) = self.wanted.numbers();
        pages::provide(out);
        let encoding = stored.encoding_in(page);
        if let Some(bytes) = self.copied(encoding) {
            let from =
                page.data.get(slice.from * bytes..slice.to * bytes).filter(|from| from.len() == out.len());
            out.copy_from_slice(
                from.ok_or_else(|| Error::corrupt("the page is too short for its elements"))?,
            );
        } else {
            encoding::decode_some(encoding, page.data, slice.items, (slice.from, slice.to), number, out)?;
        }
        if let Wanted::Ends = self.wanted {
            let base = stored.base as i64;
            let mut all = 0;
            for word in out.as_chunks_mut().0 {
                let end = i64::from_ne_bytes(*word);
                all |= end;
                *word = end.wrapping_add(base).to_ne_bytes();
            }
            if all >> 62 != 0 {
                return Err(Error::corrupt("the end of a list is too large"));
            }
        }
        Ok(PartsLeftOut::new())
    }

    fn start(&self, page: &Page<'_>, item: usize) -> Option<usize> {
        let first = self.chosen.first()?;
        let alike = self.chosen.iter().all(|chosen| chosen.encoding == first.encoding);
        let bytes = first.encoding_in(page).element_bytes().filter(|_| alike)?;
        item.checked_mul(bytes).filter(|&start| start <= page.data.len())
    }

    fn entries(&self, page: &PageWanted) -> std::ops::Range<u64> {
        let cluster = self.chosen(page.number).and_then(|stored| stored.cluster.cluster());
        cluster.map_or(0..0, |cluster| cluster.first_entry..cluster.first_entry + cluster.entries)
    }

    fn fill(&self, page: &PageWanted, to: PageOutput<'_>) -> Result<()> {
        let PageOutput::Place(out) = to else {
            return Err(Error::unsupported("elements in a growing column"));
        };
        out.fill(0);
        if let Wanted::Ends = self.wanted {
            let base = self.chosen(page.number).map_or(0, |stored| stored.base as i64);
            out.as_chunks_mut().0.iter_mut().for_each(|word| *word = base.to_ne_bytes());
        }
        Ok(())
    }
}
