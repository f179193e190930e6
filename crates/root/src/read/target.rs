//! Targets: one buffer or builder for the values of a slot in all parts.

use super::Budget;
use super::stages::RunLane;
use crate::array::pages::Room;
use crate::array::{Builder, Column, CommonOffsets, Growing, Number, pool};
use crate::error::{Error, Result};
use crate::table::{PagePlace, Target};
use arrow_buffer::Buffer;
use std::sync::Arc;

/// Maximum expansion by any codec. The densest is an RLE block of zstd: 128 KiB in four bytes.
const EXPANSION: u64 = 1 << 15;

/// Maximum number of unwritten items for each byte of the file. The file has some information on each of them.
const SPARSEST: u64 = 256;

/// Minimum size in bytes of a growing buffer with large pages; a smaller one is not adjacent to others.
const SMALLEST_GROWING: usize = 64 << 10;

/// Bytes of a list end.
pub const WORD: usize = size_of::<i64>();

/// The values of a slot.
pub struct Group {
    pub values: GroupValues,
    /// Each part's share, in order.
    pub shares: Vec<Share>,
    /// Bytes of its pages in the files.
    pub stored: u64,
}

/// A part's share of a group.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub part: usize,
    /// Its first item.
    pub first: usize,
    /// Items.
    pub items: usize,
    /// For ends: the items of the lists, in the numbering of the stored column.
    pub range: (u64, u64),
}

pub enum GroupValues {
    /// Numbers at known places.
    Direct { number: Number, each: usize, values: pool::Filled },
    /// Ends of lists. While they are read, shares count words; afterwards, lists after the first word.
    Ends { values: pool::Filled },
    /// Values appended in order.
    Built(Growing),
}

impl Group {
    /// Creates the group of lanes that share a slot, in the order of their parts. `common` are the offsets of lists that
    /// it has in common with other groups; the first of these creates them.
    pub fn new(
        lanes: &[RunLane<'_>],
        budget: &Budget,
        common: Option<&mut Option<Arc<CommonOffsets>>>,
    ) -> Result<Self> {
        let mut shares = Vec::with_capacity(lanes.len());
        let (mut first, mut stored, mut packed, mut unpacked) = (0usize, 0u64, 0u64, 0u64);
        let mut bits = 0u64;
        for lane in lanes {
            let items = lane.items()?;
            shares.push(Share { part: lane.part, first, items, range: (0, 0) });
            first = first.checked_add(items).ok_or_else(too_many)?;
            for page in &lane.lane.pages {
                packed = packed.saturating_add(page.range().length);
                stored = stored.saturating_add(match page.place {
                    PagePlace::Stored(range) => range.length,
                    PagePlace::Memory => {
                        lane.lane.decoder.in_memory(page).map_or(0, |page| page.data.len() as u64)
                    }
                    PagePlace::Absent => 0,
                });
            }
            unpacked = unpacked.saturating_add(lane.lane.bytes);
            bits = bits.saturating_add(lane.stored_bits());
        }
        let target = lanes.first().map(|lane| &lane.lane.target);
        let size = match target {
            Some(Target::Direct { number, each, .. }) => number.size().checked_mul(*each),
            Some(Target::Ends { .. }) => Some(WORD),
            _ => None,
        };
        let filled = |size: usize| {
            let bytes = first.checked_mul(size).filter(|_| bits / 8 <= stored.saturating_mul(EXPANSION));
            let bytes = bytes.ok_or_else(|| {
                Error::corrupt(format!("{first} values of {size} bytes cannot be in pages of {stored} bytes"))
            })?;
            budget.take(bytes as u64)?;
            pool::Filled::among_others(bytes)
        };
        let values = match (target, size) {
            (Some(Target::Direct { number, each, .. }), Some(size)) => {
                GroupValues::Direct { number: *number, each: *each, values: filled(size)? }
            }
            (Some(Target::Ends { .. }), Some(size)) => GroupValues::Ends { values: filled(size)? },
            (Some(Target::Built(of)), _) => {
                let mut builder = Builder::new(of);
                // A file may claim any size: allocate no more than its pages are likely to hold.
                let likely = stored.saturating_mul(8).saturating_add(1 << 16).min(unpacked);
                let likely = usize::try_from(likely).unwrap_or(0);
                let lists = first.min(likely);
                let common = common.filter(|_| matches!(builder, Builder::List { .. }));
                builder.reserve(if common.is_some() { 0 } else { lists }, likely);
                GroupValues::Built(if let Some(common) = common {
                    let is_first = common.is_none();
                    let offsets = common.get_or_insert_with(|| Arc::new(CommonOffsets::new(lists)));
                    Growing::with_common(builder, offsets.clone(), is_first)
                } else {
                    Growing::new(builder)
                })
            }
            _ => return Err(too_many()),
        };
        Ok(Self { values, shares, stored: packed })
    }

    /// The share of a part.
    pub fn share(&self, part: usize) -> Option<&Share> {
        let at = self.shares.binary_search_by_key(&part, |share| share.part).ok()?;
        self.shares.get(at)
    }

    /// Bytes of an item that is decoded to a known place.
    pub fn item_bytes(&self) -> Option<usize> {
        match &self.values {
            GroupValues::Direct { number, each, .. } => Some(number.size() * each),
            GroupValues::Ends { .. } => Some(WORD),
            GroupValues::Built(_) => None,
        }
    }

    /// Completes the ends of lists after they were read. Verifies that they rise. Shifts them so that the first list
    /// begins at 0 and each part's lists follow those of the part before.
    pub fn settle(&mut self) -> Result<()> {
        let GroupValues::Ends { values } = &mut self.values else { return Ok(()) };
        let bytes = values.bytes();
        let (mut lists, mut base, mut is_first) = (0usize, 0i64, true);
        for share in &mut self.shares {
            let words = bytes.get(share.first * WORD..(share.first + share.items) * WORD).unwrap_or_default();
            let (words, _) = words.as_chunks::<WORD>();
            let (Some(&start), Some(&end)) = (words.first(), words.last()) else { continue };
            let (start, end) = (i64::from_ne_bytes(start), i64::from_ne_bytes(end));
            let mut falls = start < 0;
            let mut last = start;
            for word in words {
                let word = i64::from_ne_bytes(*word);
                falls |= word < last;
                last = word;
            }
            if falls {
                return Err(Error::corrupt("the ends of lists do not rise"));
            }
            let own = words.len() - 1;
            // Its first word shares the place of the last word of the part before.
            if lists != share.first {
                bytes.copy_within(
                    (share.first + 1) * WORD..(share.first + 1 + own) * WORD,
                    (lists + 1) * WORD,
                );
            }
            let delta = base - start;
            if delta != 0 {
                // The first word belongs to the first part, even if that has no lists.
                let from = if is_first { 0 } else { lists + 1 };
                let moved = bytes.get_mut(from * WORD..(lists + 1 + own) * WORD).unwrap_or_default();
                for word in moved.as_chunks_mut::<WORD>().0 {
                    *word = (i64::from_ne_bytes(*word) + delta).to_ne_bytes();
                }
            }
            *share = Share { first: lists, items: own, range: (start as u64, end as u64), ..*share };
            lists += own;
            is_first = false;
            base = base.checked_add(end - start).ok_or_else(too_many)?;
        }
        Ok(())
    }

    /// Adds the new memory of its values to that which will be filled, or to that which will grow.
    pub fn rooms(&mut self, filled: &mut Vec<Room>, growing: &mut Vec<Room>) {
        match &mut self.values {
            GroupValues::Direct { values, .. } | GroupValues::Ends { values } => filled.extend(values.room()),
            GroupValues::Built(values) => {
                growing.extend(values.room().into_iter().filter(|room| room.bytes() >= SMALLEST_GROWING));
            }
        }
    }

    /// Returns the column of all values.
    pub fn finish(self) -> Column {
        match self.values {
            GroupValues::Built(values) => values.finish(),
            GroupValues::Direct { number, values, .. } => Column::Number { number, values: values.share() },
            GroupValues::Ends { values } => {
                let lists = self.shares.last().map_or(0, |share| share.first + share.items);
                let words = values.share();
                let bytes = words.len().min((lists + 1) * WORD);
                let values: Buffer = words.slice_with_length(0, bytes);
                Column::Number { number: Number::I64, values }
            }
        }
    }
}

impl RunLane<'_> {
    /// Number of items that its pages hold for the target; refuses impossible pages.
    fn items(&self) -> Result<usize> {
        let size = self.source_size;
        let mut items = 0u64;
        let mut absent = 0u64;
        for page in &self.lane.pages {
            let wanted = page.to.checked_sub(page.from).filter(|_| page.to <= page.items);
            let wanted =
                wanted.ok_or_else(|| Error::corrupt("a page ends before the requested items"))? as u64;
            items = items.saturating_add(wanted);
            match page.place {
                PagePlace::Stored(range) if range.end() > size => {
                    return Err(Error::corrupt(format!(
                        "it lies at bytes {} to {} of a file of {size}",
                        range.offset,
                        range.end()
                    ))
                    .within(self.table.page_place(self.lane.column, page)));
                }
                PagePlace::Absent => absent = absent.saturating_add(wanted),
                _ => {}
            }
        }
        if absent / SPARSEST > size {
            return Err(Error::corrupt(format!("{absent} entries that were never written, in {size} bytes")));
        }
        match self.lane.target {
            Target::Direct { items: all, .. } if all != items => {
                Err(Error::corrupt(format!("pages of {items} items where {all} are expected")))
            }
            Target::Ends { lists, .. } if lists.checked_add(1) != Some(items) => {
                Err(Error::corrupt(format!("pages of {items} items for the ends of {lists} lists")))
            }
            _ => usize::try_from(items).map_err(|_| too_many()),
        }
    }

    /// Uncompressed bits of its items, without those that were never written.
    fn stored_bits(&self) -> u64 {
        let (Target::Direct { bits, .. } | Target::Ends { bits, .. }) = self.lane.target else { return 0 };
        let written = self.lane.pages.iter().filter(|page| page.place != PagePlace::Absent);
        written.map(|page| page.wanted() as u64).sum::<u64>().saturating_mul(bits as u64)
    }
}

fn too_many() -> Error {
    Error::limit("too many values")
}
