//! Mixing of rows: shuffled batches and padded lists.
//!
//! A window of clusters is mixed column by column, because one column often fits the cache of a processor and all
//! columns do not. Numbers come from that cache without waiting. Lists are longer, so the memory of the next lists is
//! requested while one is copied (`request`): of the first line and of the next one, which most copies reach.
//!
//! Lists are mostly short, and a copy of a length known at compile time is much cheaper than one of any length. A copy
//! therefore always has the length of a short list, and the next list overwrites the excess.

use super::Number;
use super::pool::{self, Filled};
use crate::error::{Error, Result};
use arrow_buffer::{Buffer, ScalarBuffer};
use rayon::prelude::*;

/// Bytes of a list copied at once.
const SHORT: usize = 32;
/// Number of rows after the current one whose memory is requested.
const AHEAD: usize = 32;

/// A column.
pub struct Source {
    /// Type of its numbers.
    pub number: Number,
    /// Its numbers.
    pub values: Buffer,
    /// Bytes of one entry, or of an item of a list.
    pub width: usize,
    /// Index of its offsets, for lists.
    pub lists: Option<usize>,
    /// Length to which its lists are padded.
    pub pad: Option<usize>,
}

/// Rows of all columns.
pub struct Mixed {
    /// Numbers of each column.
    pub values: Vec<Filled>,
    /// Offsets of the lists, from 0: 64-bit numbers.
    pub offsets: Vec<Filled>,
    /// Masks of padded lists.
    pub masks: Vec<Filled>,
}

/// Mixes the rows of columns, as a seed determines, or leaves them in their order.
///
/// `masks` are the indices of offsets and the lengths to which their lists are padded. Each column is mixed by one thread
/// of the current pool. In columns and masks with rows of equal length, row `aligned` is at an address divisible by 64.
pub fn mix(
    sources: &[Source],
    offsets: &[ScalarBuffer<i64>],
    masks: &[(usize, usize)],
    length: usize,
    seed: Option<u64>,
    aligned: usize,
) -> Result<Mixed> {
    let order = Order::new(length, seed)?;
    let lists = offsets.par_iter().map(|one| Lists::of(one, &order.0)).collect::<Result<Vec<_>>>()?;
    let lists_at = |place: usize| {
        lists.get(place).ok_or_else(|| Error::argument("a column names offsets that are not there"))
    };
    let values = |source: &Source| match (source.lists, source.pad) {
        (None, _) => fixed(&source.values, source.width, &order.0, aligned),
        (Some(place), None) => lists_at(place)?.items(&source.values, source.width),
        (Some(place), Some(pad)) => lists_at(place)?.padded(&source.values, source.width, pad, aligned),
    };
    let (values, masks) = rayon::join(
        || sources.par_iter().with_max_len(1).map(values).collect::<Result<_>>(),
        || masks.iter().map(|&(place, pad)| lists_at(place)?.mask(pad, aligned)).collect::<Result<_>>(),
    );
    Ok(Mixed { values: values?, masks: masks?, offsets: lists.into_iter().map(|one| one.offsets).collect() })
}

/// The original row of each mixed row.
struct Order(Vec<u32>);

impl Order {
    /// Creates a random order that is determined by `seed` alone; without a seed, rows keep their places.
    fn new(length: usize, seed: Option<u64>) -> Result<Self> {
        let count = u32::try_from(length)
            .map_err(|_| Error::limit(format!("at most {} entries can be mixed, not {length}", u32::MAX)))?;
        let mut found = Self(pool::with_capacity(length));
        let rows = &mut found.0;
        rows.try_reserve(length).map_err(|_| Error::limit(format!("no memory to mix {length} entries")))?;
        rows.extend(0..count);
        let Some(mut state) = seed else { return Ok(found) };
        let mut left = u64::from(count);
        while left >= 2 {
            // Each random number chooses twice.
            let random = next(&mut state);
            for half in [random >> 32, random & u64::from(u32::MAX)] {
                let chosen = (half * left) >> 32;
                left = left.saturating_sub(1);
                rows.swap(left as usize, chosen as usize);
            }
        }
        Ok(found)
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        pool::give_back(std::mem::take(&mut self.0));
    }
}

/// Requests the memory of a place, without waiting for it. Any place is allowed.
#[inline(always)]
fn request<T>(values: &[T], place: usize) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code, reason = "the standard library has no safe form of this instruction")]
    // SAFETY: the instruction changes no values, and an address without memory is ignored.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(values.as_ptr().wrapping_add(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, place);
}

/// Returns the next number of the generator `SplitMix64`.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn outside() -> Error {
    Error::argument("a row lies outside of its column")
}

fn too_large() -> Error {
    Error::limit("a batch would have more bytes than memory can have")
}

/// Creates a buffer of `count` rows of `width` bytes each, whose row `aligned` is at an address divisible by 64.
fn room(count: usize, width: usize, aligned: usize) -> Result<Filled> {
    Filled::aligned(count.checked_mul(width).ok_or_else(too_large)?, aligned.wrapping_mul(width))
}

/// Returns rows of `width` bytes each.
fn fixed(values: &[u8], width: usize, rows: &[u32], aligned: usize) -> Result<Filled> {
    let mut filled = room(rows.len(), width, aligned)?;
    let out = filled.bytes();
    match width {
        0 => {}
        1 => cells::<1>(values, rows, out)?,
        2 => cells::<2>(values, rows, out)?,
        4 => cells::<4>(values, rows, out)?,
        8 => cells::<8>(values, rows, out)?,
        16 => cells::<16>(values, rows, out)?,
        _ => {
            for (to, &row) in out.chunks_exact_mut(width).zip(rows) {
                let start = (row as usize).saturating_mul(width);
                to.copy_from_slice(values.get(start..start.saturating_add(width)).ok_or_else(outside)?);
            }
        }
    }
    Ok(filled)
}

fn cells<const WIDTH: usize>(values: &[u8], rows: &[u32], out: &mut [u8]) -> Result<()> {
    let (values, _) = values.as_chunks::<WIDTH>();
    for (to, &row) in out.as_chunks_mut::<WIDTH>().0.iter_mut().zip(rows) {
        *to = *values.get(row as usize).ok_or_else(outside)?;
    }
    Ok(())
}

/// Locations of the lists of some rows: the first item of each list, and the lists' own offsets, starting at 0.
///
/// Both are 64-bit numbers.
struct Lists {
    starts: Filled,
    offsets: Filled,
}

impl Lists {
    /// Creates the lists of some rows. `offsets` are those of the whole column and are checked here.
    fn of(offsets: &[i64], rows: &[u32]) -> Result<Self> {
        let bytes = rows.len().checked_mul(size_of::<i64>()).ok_or_else(too_large)?;
        let all = bytes.checked_add(size_of::<i64>()).ok_or_else(too_large)?;
        let mut lists = Self { starts: Filled::new(bytes)?, offsets: Filled::new(all)? };
        let (first, ends) = lists.offsets.bytes().split_first_chunk_mut::<8>().ok_or_else(outside)?;
        *first = 0i64.to_ne_bytes();
        place(offsets, rows, lists.starts.bytes().as_chunks_mut::<8>().0, ends.as_chunks_mut::<8>().0)?;
        Ok(lists)
    }

    /// First items of the lists.
    fn starts(&self) -> &[[u8; 8]] {
        self.starts.as_slice().as_chunks::<8>().0
    }

    /// Offsets of the lists.
    fn offsets(&self) -> &[[u8; 8]] {
        self.offsets.as_slice().as_chunks::<8>().0
    }

    /// Lengths of the lists.
    fn lengths(&self) -> impl Iterator<Item = usize> {
        let end = |end: &[u8; 8]| i64::from_ne_bytes(*end) as usize;
        self.offsets().iter().zip(self.offsets().get(1..).unwrap_or_default()).map(move |(from, to)| {
            // Ends rise, as was checked.
            end(to).wrapping_sub(end(from))
        })
    }

    /// Requests the memory of a list after the current one.
    #[allow(
        clippy::inline_always,
        reason = "it is a part of two loops that copy a list in a few instructions"
    )]
    #[inline(always)]
    fn request_behind(&self, number: usize, values: &[u8], width: usize) {
        if let Some(&start) = self.starts().get(number + AHEAD) {
            request(values, byte(start, width));
            request(values, byte(start, width).saturating_add(SHORT - 1));
        }
    }

    /// Returns the items of all lists, of `width` bytes each, end to end.
    fn items(&self, values: &[u8], width: usize) -> Result<Filled> {
        let items = self.offsets().last().map_or(0, |&end| i64::from_ne_bytes(end) as usize);
        let mut filled = Filled::new(items.checked_mul(width).ok_or_else(too_large)?)?;
        let out = filled.bytes();
        let mut place = 0;
        for (number, (start, length)) in self.starts().iter().zip(self.lengths()).enumerate() {
            self.request_behind(number, values, width);
            let (start, bytes) = (byte(*start, width), length.saturating_mul(width));
            let from = values.get(start..).and_then(|rest| rest.first_chunk::<SHORT>());
            let to = out.get_mut(place..).and_then(|rest| rest.first_chunk_mut::<SHORT>());
            match (from, to) {
                (Some(from), Some(to)) if bytes <= SHORT => {
                    // Copied as 128-bit numbers: byte copies would become function calls, or run byte by byte.
                    for (to, from) in to.as_chunks_mut::<16>().0.iter_mut().zip(from.as_chunks::<16>().0) {
                        *to = u128::from_ne_bytes(*from).to_ne_bytes();
                    }
                }
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

    /// Returns the first `pad` items of each list, with zeros for missing items.
    fn padded(&self, values: &[u8], width: usize, pad: usize, aligned: usize) -> Result<Filled> {
        let row = pad.checked_mul(width).ok_or_else(too_large)?;
        let mut filled = room(self.starts().len(), row, aligned)?;
        let out = filled.bytes();
        let mut place = 0;
        for (number, (start, length)) in self.starts().iter().zip(self.lengths()).enumerate() {
            self.request_behind(number, values, width);
            let (start, given) = (byte(*start, width), length.saturating_mul(width).min(row));
            let wide = values.get(start..).and_then(|rest| rest.first_chunk::<SHORT>());
            let room = out.get_mut(place..).and_then(|rest| rest.first_chunk_mut::<SHORT>());
            match (wide, room, first_of(&KEPT, given)) {
                (Some(wide), Some(room), Some(kept)) if row <= SHORT => {
                    let (wide, kept) = (wide.as_chunks::<16>().0, kept.as_chunks::<16>().0);
                    for ((to, from), kept) in room.as_chunks_mut::<16>().0.iter_mut().zip(wide).zip(kept) {
                        *to = (u128::from_ne_bytes(*from) & u128::from_ne_bytes(*kept)).to_ne_bytes();
                    }
                }
                _ => {
                    let room = out.get_mut(place..place + row).ok_or_else(outside)?;
                    let (there, missing) = room.split_at_mut(given);
                    if given > 0 {
                        let from = values.get(start..start.saturating_add(given)).ok_or_else(outside)?;
                        there.copy_from_slice(from);
                    }
                    missing.fill(0);
                }
            }
            place += row;
        }
        Ok(filled)
    }

    /// Returns which items of [`Lists::padded`] are present, one byte each.
    fn mask(&self, pad: usize, aligned: usize) -> Result<Filled> {
        let mut filled = room(self.starts().len(), pad, aligned)?;
        let out = filled.bytes();
        let mut place = 0;
        for length in self.lengths() {
            let given = length.min(pad);
            let rest = out.get_mut(place..).unwrap_or_default();
            match (rest.first_chunk_mut::<SHORT>(), first_of(&ONES, given)) {
                (Some(to), Some(ones)) if pad <= SHORT => *to = *ones,
                _ => {
                    let (there, missing) = rest.split_at_mut(given);
                    there.fill(1);
                    missing.get_mut(..pad - given).unwrap_or_default().fill(0);
                }
            }
            place += pad;
        }
        Ok(filled)
    }
}

/// Writes the first items of rows and the ends of their lists, counted from 0.
fn place(offsets: &[i64], rows: &[u32], starts: &mut [[u8; 8]], ends: &mut [[u8; 8]]) -> Result<()> {
    let mut end = 0i64;
    for (number, ((&row, first), last)) in rows.iter().zip(starts).zip(ends).enumerate() {
        if let Some(&row) = rows.get(number + AHEAD) {
            request(offsets, row as usize);
        }
        let row = row as usize;
        let (Some(&from), Some(&to)) = (offsets.get(row), offsets.get(row + 1)) else {
            return Err(outside());
        };
        if from < 0 || to < from {
            return Err(outside());
        }
        end = end.checked_add(to - from).ok_or_else(too_large)?;
        *first = from.to_ne_bytes();
        *last = end.to_ne_bytes();
    }
    Ok(())
}

/// First byte of an item.
fn byte(item: [u8; 8], width: usize) -> usize {
    (i64::from_ne_bytes(item) as usize).saturating_mul(width)
}

/// Mask bytes: first those that keep their operand, then those that clear it.
const KEPT: [u8; 2 * SHORT] = halves(0xff);
/// Mask bytes: first those that mark an item, then those that mark none.
const ONES: [u8; 2 * SHORT] = halves(1);

const fn halves(first: u8) -> [u8; 2 * SHORT] {
    let mut bytes = [0; 2 * SHORT];
    let (given, _) = bytes.split_at_mut(SHORT);
    let mut rest: &mut [u8] = given;
    while let Some((one, behind)) = rest.split_first_mut() {
        *one = first;
        rest = behind;
    }
    bytes
}

/// Returns a block with this many bytes from the first half.
fn first_of(halves: &[u8; 2 * SHORT], count: usize) -> Option<&[u8; SHORT]> {
    halves.get(SHORT.checked_sub(count)?..)?.first_chunk()
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
    fn order(length: usize, seed: u64) -> Vec<u32> {
        Order::new(length, Some(seed)).unwrap().0.clone()
    }

    #[test]
    fn an_order_has_each_row_once_and_follows_from_its_seed() {
        for length in [0, 1, 2, 3, 4, 999, 1000] {
            let own: Vec<u32> = (0..length as u32).collect();
            assert_eq!(Order::new(length, None).unwrap().0, own);
            let mut rows = order(length, 7);
            assert_eq!(rows, order(length, 7));
            assert!(length < 5 || rows != order(length, 8));
            rows.sort_unstable();
            assert_eq!(rows, own);
        }
        assert!(Order::new(1 << 32, Some(0)).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "many orders take minutes")]
    fn each_row_is_equally_frequent_at_each_place() {
        for length in [4, 5] {
            let mut counts = vec![vec![0u32; length]; length];
            for seed in 0..40_000 {
                for (place, row) in order(length, seed).into_iter().enumerate() {
                    counts[place][row as usize] += 1;
                }
            }
            let expected = 40_000 / length as u32;
            assert!(counts.iter().flatten().all(|count| count.abs_diff(expected) < 500), "{counts:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri refuses crossbeam-epoch, which thread pools use")]
    fn columns_are_mixed_alike() {
        let source = |number, values, width, lists, pad| Source { number, values, width, lists, pad };
        let (rows, offsets) = (Buffer::from_vec(vec![0i64, 1, 2]), ScalarBuffer::from(vec![0i64, 1, 3, 6]));
        let items = Buffer::from_vec(vec![0f32, 1.0, 1.5, 2.0, 2.5, 2.75]);
        let sources = [
            source(Number::I64, rows, 8, None, None),
            source(Number::F32, items.clone(), 4, Some(0), None),
            source(Number::F32, items, 4, Some(0), Some(1)),
        ];
        for seed in [None, Some(1), Some(2), Some(3)] {
            let found = mix(&sources, std::slice::from_ref(&offsets), &[(0, 1)], 3, seed, 1).unwrap();
            let bytes = found.values[0].as_slice().as_chunks().0.iter();
            let rows: Vec<f32> = bytes.map(|bytes| i64::from_ne_bytes(*bytes) as f32).collect();
            assert_eq!(read(&found.values[2]), rows);
            let whole: Vec<f32> =
                read(&found.values[1]).into_iter().filter(|value| value.fract() == 0.0).collect();
            assert_eq!(whole, rows);
            assert_eq!((found.offsets[0].size(), found.masks[0].as_slice()), (32, [1u8; 3].as_slice()));
            let rows = [(&found.values[0], 8), (&found.values[2], 4), (&found.masks[0], 1)];
            assert!(rows.iter().all(|(one, width)| (one.as_slice().as_ptr().addr() + width) % 64 == 0));
        }
        let lost = source(Number::F32, Buffer::default(), 4, Some(1), None);
        assert!(
            mix(&[lost], &[offsets], &[], 3, None, 0).is_err()
                && mix(&[], &[], &[(0, 1)], 1, None, 0).is_err()
        );
    }

    #[test]
    fn rows_of_any_width_are_taken() {
        let values: Vec<u8> = (0..240).collect();
        for width in [1, 2, 3, 4, 8, 12, 16, 24] {
            let row = |number: usize| values[number * width..][..width].to_vec();
            let found = fixed(&values, width, &[9, 0, 3], 0).unwrap();
            assert_eq!(found.as_slice(), [row(9), row(0), row(3)].concat());
            assert!(fixed(&values, width, &[240 / width as u32], 0).is_err());
        }
        assert_eq!(fixed(&[], 0, &[5], 0).unwrap().size(), 0);
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
            let lists = Lists::of(&offsets, &rows).unwrap();
            let expected: Vec<Vec<f32>> = rows.iter().map(|&row| list(row as usize)).collect();
            assert_eq!(read(&lists.items(&values, 4).unwrap()), expected.concat());
            let ends = expected.iter().scan(0, |end, one| {
                *end += one.len() as i64;
                Some(*end)
            });
            let offsets = [vec![0], ends.collect()].concat();
            for pad in [0, 1, 3, 8, 30, 100] {
                let pads = |one: &Vec<f32>| {
                    let mut one = one.clone();
                    one.resize(pad, 0.0);
                    one
                };
                let padded: Vec<f32> = expected.iter().flat_map(pads).collect();
                assert_eq!(read(&lists.padded(&values, 4, pad, 1).unwrap()), padded);
                let mask = expected.iter().flat_map(|one| (0..pad).map(|i| u8::from(i < one.len())));
                assert_eq!(lists.mask(pad, 1).unwrap().as_slice(), mask.collect::<Vec<_>>());
            }
            let found = lists.offsets;
            let found = found.as_slice().as_chunks().0.iter().map(|bytes| i64::from_ne_bytes(*bytes));
            assert_eq!(found.collect::<Vec<_>>(), offsets);
        }
        let lists = Lists::of(&offsets, &[2, 3, 4, 5]).unwrap();
        assert_eq!(read(&lists.items(&values, 4).unwrap()), numbers[3..32]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it asks for 4 TiB, which Miri does not refuse")]
    fn lists_outside_of_their_items_are_errors() {
        for offsets in [vec![0, -1], vec![-1, 0], vec![3, 2], vec![0]] {
            assert!(Lists::of(&offsets, &[0]).is_err(), "{offsets:?}");
        }
        let long = Lists::of(&[0, 1 << 40], &[0]).unwrap();
        assert!(long.items(&[0; 64], 4).is_err() && long.padded(&[0; 64], 4, 100, 0).is_err());
        assert!(long.padded(&[0; 64], 4, usize::MAX / 2, 0).is_err() && long.mask(usize::MAX, 0).is_err());
        let beyond = Lists::of(&[100, 101], &[0]).unwrap();
        assert!(beyond.items(&[0; 64], 4).is_err() && beyond.padded(&[0; 64], 4, 1, 0).is_err());
        assert!(Lists::of(&[0, 1], &[0, 1]).is_err());
    }
}
