//! Rows of columns in another order: batches that are mixed, and lists that are padded.
//!
//! Each row is looked up once. Lists are mostly short, and a copy of a length that is known when the code is compiled
//! costs far less than one of any length: as much is copied as a short list may have, and what is too much is
//! overwritten by the next list.

use super::pool::Filled;
use crate::error::{Error, Result};

/// Bytes of a list that are copied at once.
const SHORT: usize = 32;

/// The numbers from 0 up to `length`, in an order that follows from `seed` alone.
pub fn permutation(length: usize, seed: u64) -> Result<Vec<u32>> {
    let count = u32::try_from(length)
        .map_err(|_| Error::limit(format!("at most {} entries can be mixed, not {length}", u32::MAX)))?;
    let mut rows: Vec<u32> = Vec::new();
    rows.try_reserve_exact(length).map_err(|_| Error::limit(format!("no memory to mix {length} entries")))?;
    rows.extend(0..count);
    let mut state = seed;
    for left in (2..=length).rev() {
        let chosen = (u128::from(next(&mut state)) * left as u128) >> 64;
        rows.swap(left - 1, chosen as usize);
    }
    Ok(rows)
}

/// The next number of the generator `SplitMix64`.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Which rows are taken.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// Those between two.
    Range(usize, usize),
    /// These, in this order.
    Chosen(&'a [u32]),
}

impl Rows<'_> {
    /// How many.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Range(start, stop) => stop.saturating_sub(start),
            Self::Chosen(rows) => rows.len(),
        }
    }
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

fn outside() -> Error {
    Error::argument("a row lies outside of its column")
}

fn too_large() -> Error {
    Error::limit("a batch would have more bytes than memory can have")
}

/// Rows of `width` bytes each.
pub fn fixed(values: &[u8], width: usize, rows: Rows<'_>) -> Result<Filled> {
    let mut out = Filled::new(rows.len().checked_mul(width).ok_or_else(too_large)?)?;
    match rows {
        Rows::Range(start, stop) => {
            let from = values.get(start.saturating_mul(width)..stop.saturating_mul(width));
            out.bytes().copy_from_slice(from.ok_or_else(outside)?);
        }
        Rows::Chosen(rows) => match width {
            0 => {}
            1 => cells::<1>(values, rows, out.bytes())?,
            2 => cells::<2>(values, rows, out.bytes())?,
            4 => cells::<4>(values, rows, out.bytes())?,
            8 => cells::<8>(values, rows, out.bytes())?,
            16 => cells::<16>(values, rows, out.bytes())?,
            _ => {
                for (to, &row) in out.bytes().chunks_exact_mut(width).zip(rows) {
                    let start = row as usize * width;
                    to.copy_from_slice(values.get(start..start + width).ok_or_else(outside)?);
                }
            }
        },
    }
    Ok(out)
}

fn cells<const WIDTH: usize>(values: &[u8], rows: &[u32], out: &mut [u8]) -> Result<()> {
    let (values, _) = values.as_chunks::<WIDTH>();
    for (to, &row) in out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(rows) {
        *to = *values.get(row as usize).ok_or_else(outside)?;
    }
    Ok(())
}

/// Where the lists of some rows lie: the first item of each, and their own offsets, of which the first is 0.
#[derive(Debug)]
pub struct Lists {
    starts: Vec<usize>,
    offsets: Vec<i64>,
}

impl Lists {
    /// Those of rows; `offsets` are those of the whole column. They are checked here.
    pub fn of(offsets: &[i64], rows: Rows<'_>) -> Result<Self> {
        let mut lists = Self { starts: Vec::new(), offsets: Vec::new() };
        let room = lists.starts.try_reserve_exact(rows.len());
        room.and_then(|()| lists.offsets.try_reserve_exact(rows.len() + 1)).map_err(|_| too_large())?;
        lists.offsets.push(0);
        let mut end = 0i64;
        let mut add = |from: i64, to: i64| -> Result<()> {
            let (Ok(start), true) = (usize::try_from(from), to >= from) else { return Err(outside()) };
            end = end.checked_add(to - from).ok_or_else(too_large)?;
            lists.starts.push(start);
            lists.offsets.push(end);
            Ok(())
        };
        match rows {
            Rows::Range(start, stop) if start < stop => {
                let own = offsets.get(start..=stop).ok_or_else(outside)?;
                own.windows(2)
                    .try_for_each(|pair| if let [from, to] = *pair { add(from, to) } else { Ok(()) })?;
            }
            Rows::Range(..) => {}
            Rows::Chosen(rows) => {
                for &row in rows {
                    let row = row as usize;
                    let (Some(&from), Some(&to)) = (offsets.get(row), offsets.get(row + 1)) else {
                        return Err(outside());
                    };
                    add(from, to)?;
                }
            }
        }
        Ok(lists)
    }

    /// The offsets of the rows.
    #[must_use]
    pub fn offsets(&self) -> &[i64] {
        &self.offsets
    }

    fn lengths(&self) -> impl Iterator<Item = usize> {
        self.offsets.windows(2).map(|pair| if let [from, to] = *pair { (to - from) as usize } else { 0 })
    }

    /// The items of all lists, of `width` bytes each, end to end.
    pub fn items(&self, values: &[u8], width: usize) -> Result<Filled> {
        let items = self.offsets.last().map_or(0, |&end| end as usize);
        let mut filled = Filled::new(items.checked_mul(width).ok_or_else(too_large)?)?;
        let out = filled.bytes();
        let mut place = 0;
        for (&start, length) in self.starts.iter().zip(self.lengths()) {
            let (start, bytes) = (start.saturating_mul(width), length.saturating_mul(width));
            let from = values.get(start..).and_then(|rest| rest.first_chunk::<SHORT>());
            let to = out.get_mut(place..).and_then(|rest| rest.first_chunk_mut::<SHORT>());
            match (from, to) {
                (Some(from), Some(to)) if bytes <= SHORT => *to = *from,
                _ if bytes == 0 => {}
                _ => {
                    let from = values.get(start..start.saturating_add(bytes)).ok_or_else(outside)?;
                    out.get_mut(place..place + bytes).ok_or_else(outside)?.copy_from_slice(from);
                }
            }
            place += bytes;
        }
        Ok(filled)
    }

    /// The first `pad` items of each list, with zeros in place of those that are missing.
    pub fn padded(&self, values: &[u8], width: usize, item: usize, pad: usize) -> Result<Filled> {
        let row = pad.checked_mul(width).ok_or_else(too_large)?;
        let mut filled = Filled::new(self.starts.len().checked_mul(row).ok_or_else(too_large)?)?;
        match item {
            _ if row == 0 => {}
            1 => self.pad::<1>(values, width, row, filled.bytes())?,
            2 => self.pad::<2>(values, width, row, filled.bytes())?,
            4 => self.pad::<4>(values, width, row, filled.bytes())?,
            _ => self.pad::<8>(values, width, row, filled.bytes())?,
        }
        Ok(filled)
    }

    /// Pads rows of numbers of `ITEM` bytes; an item of a list has `width` bytes, a row of the result `row`.
    fn pad<const ITEM: usize>(&self, values: &[u8], width: usize, row: usize, out: &mut [u8]) -> Result<()> {
        for ((to, &start), length) in out.chunks_exact_mut(row).zip(&self.starts).zip(self.lengths()) {
            let (start, bytes) = (start.saturating_mul(width), length.saturating_mul(width).min(row));
            if let Some(from) = values.get(start..start.saturating_add(row)) {
                let (from, to) = (from.as_chunks::<ITEM>().0, to.as_chunks_mut::<ITEM>().0);
                let there = (bytes / ITEM) as u32;
                for ((number, to), from) in (0u32..).zip(to).zip(from) {
                    *to = if number < there { *from } else { [0; ITEM] };
                }
            } else {
                let from = values.get(start..start.saturating_add(bytes)).ok_or_else(outside)?;
                let (given, rest) = to.split_at_mut(bytes);
                given.copy_from_slice(from);
                rest.fill(0);
            }
        }
        Ok(())
    }

    /// Which of the items of [`Lists::padded`] are there, a byte each.
    pub fn mask(&self, pad: usize) -> Result<Filled> {
        let mut filled = Filled::new(self.starts.len().checked_mul(pad).ok_or_else(too_large)?)?;
        if pad > 0 {
            for (to, length) in filled.bytes().chunks_exact_mut(pad).zip(self.lengths()) {
                let there = u32::try_from(length).unwrap_or(u32::MAX);
                for (number, to) in (0u32..).zip(to) {
                    *to = u8::from(number < there);
                }
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_ne_bytes()).collect()
    }
    fn read(filled: &Filled) -> Vec<f32> {
        filled.as_slice().as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
    }

    #[test]
    fn a_permutation_has_each_number_once_and_follows_from_its_seed() {
        for length in [0, 1, 2, 1000] {
            let mut rows = permutation(length, 7).unwrap();
            assert_eq!(rows, permutation(length, 7).unwrap());
            assert!(length < 3 || rows != permutation(length, 8).unwrap());
            rows.sort_unstable();
            assert_eq!(rows, (0..length as u32).collect::<Vec<_>>());
        }
        // Each number comes to each place as often.
        let mut counts = [[0u32; 4]; 4];
        for seed in 0..40_000 {
            for (place, number) in permutation(4, seed).unwrap().into_iter().enumerate() {
                counts[place][number as usize] += 1;
            }
        }
        assert!(counts.iter().flatten().all(|count| count.abs_diff(10_000) < 500), "{counts:?}");
        assert!(permutation(1 << 32, 0).is_err());
    }

    #[test]
    fn rows_of_any_width_are_taken() {
        let values: Vec<u8> = (0..240).collect();
        for width in [1, 2, 3, 4, 8, 12, 16, 24] {
            let row = |number: usize| values[number * width..][..width].to_vec();
            let found = fixed(&values, width, Rows::Chosen(&[9, 0, 3])).unwrap();
            assert_eq!(found.as_slice(), [row(9), row(0), row(3)].concat());
            assert_eq!(
                fixed(&values, width, Rows::Range(2, 4)).unwrap().as_slice(),
                [row(2), row(3)].concat()
            );
            assert!(fixed(&values, width, Rows::Chosen(&[240 / width as u32])).is_err());
            assert!(fixed(&values, width, Rows::Range(0, 240 / width + 1)).is_err());
        }
        assert_eq!(fixed(&[], 0, Rows::Chosen(&[5])).unwrap().size(), 0);
    }

    #[test]
    fn lists_are_joined_or_padded_whatever_their_lengths() {
        let lengths = [0, 3, 1, 20, 0, 8, 9, 2];
        let mut offsets = vec![0i64];
        offsets.extend(lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end)
        }));
        let numbers: Vec<f32> = (0..43).map(|i| i as f32).collect();
        let list = |row: usize| numbers[offsets[row] as usize..offsets[row + 1] as usize].to_vec();
        let values = floats(&numbers);
        for rows in [vec![], vec![7, 0, 3], vec![3, 3], vec![1, 2, 4, 5, 6, 7, 0], vec![0, 4]] {
            let lists = Lists::of(&offsets, Rows::Chosen(&rows)).unwrap();
            let expected: Vec<Vec<f32>> = rows.iter().map(|&row| list(row as usize)).collect();
            assert_eq!(read(&lists.items(&values, 4).unwrap()), expected.concat());
            let ends = expected.iter().scan(0, |end, one| {
                *end += one.len() as i64;
                Some(*end)
            });
            assert_eq!(lists.offsets(), [vec![0], ends.collect()].concat());
            for pad in [0, 1, 3, 8, 30] {
                let pads = |one: &Vec<f32>| {
                    let mut one = one.clone();
                    one.resize(pad, 0.0);
                    one
                };
                let padded: Vec<f32> = expected.iter().flat_map(pads).collect();
                assert_eq!(read(&lists.padded(&values, 4, 4, pad).unwrap()), padded);
                let mask = expected.iter().flat_map(|one| (0..pad).map(|i| u8::from(i < one.len())));
                assert_eq!(lists.mask(pad).unwrap().as_slice(), mask.collect::<Vec<_>>());
            }
        }
        let lists = Lists::of(&offsets, Rows::Range(2, 6)).unwrap();
        assert_eq!(read(&lists.items(&values, 4).unwrap()), numbers[3..32]);
    }

    #[test]
    fn lists_outside_of_their_items_are_errors() {
        for offsets in [vec![0, -1], vec![-1, 0], vec![3, 2], vec![0]] {
            assert!(Lists::of(&offsets, Rows::Chosen(&[0])).is_err(), "{offsets:?}");
        }
        let long = Lists::of(&[0, 1 << 40], Rows::Range(0, 1)).unwrap();
        assert!(long.items(&[0; 64], 4).is_err() && long.padded(&[0; 64], 4, 4, 100).is_err());
        assert!(long.padded(&[0; 64], 4, 4, usize::MAX / 2).is_err() && long.mask(usize::MAX).is_err());
        let beyond = Lists::of(&[100, 101], Rows::Range(0, 1)).unwrap();
        assert!(beyond.items(&[0; 64], 4).is_err() && beyond.padded(&[0; 64], 4, 4, 1).is_err());
        assert!(Lists::of(&[0, 1], Rows::Range(0, 2)).is_err());
    }
}
