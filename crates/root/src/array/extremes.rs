//! Smallest and largest numbers of zones, and lengths of their longest lists.
#![allow(clippy::inline_always, reason = "so that they are compiled for the processor of their caller")]

use super::Number;
use super::wide::{self, Wide};
use crate::error::{Error, Result};
use arrow_buffer::{Buffer, ScalarBuffer};
use rayon::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Statistics of the numbers in each zone.
#[derive(Debug, Default)]
pub struct Extremes {
    /// The smallest number of each zone, in native bytes; 0 for an empty zone.
    pub low: Vec<u8>,
    /// The largest number of each zone.
    pub high: Vec<u8>,
    /// Number of NaN in each zone.
    pub nan: Vec<i64>,
}

/// Values with fewer bytes are processed by the calling thread.
pub const FEW: usize = 4 << 20;

/// Compares the numbers of each zone as signed or unsigned integers in the same order, which the processor does several
/// at a time. NaN is outside `$bounds`: a zone that contains any is processed again.
macro_rules! look {
    ($kind:ty, $key:ty, $values:expr, $edges:expr, $order:expr, $bounds:expr) => {{
        struct Look<'a> {
            cells: &'a [[u8; size_of::<$key>()]],
            found: &'a mut ($key, $key),
        }
        impl Wide for Look<'_> {
            #[inline(always)]
            fn work(self) {
                // Fewer would wait for each other; more would not fit in the registers.
                const LANES: usize = 128 / size_of::<$key>();
                let (mut low, mut high) = ([<$key>::MAX; LANES], [<$key>::MIN; LANES]);
                let (rows, rest) = self.cells.as_chunks::<LANES>();
                for row in rows {
                    for ((low, high), cell) in low.iter_mut().zip(&mut high).zip(row) {
                        let key = $order(<$key>::from_ne_bytes(*cell));
                        *low = key.min(*low);
                        *high = key.max(*high);
                    }
                }
                for (cell, (low, high)) in rest.iter().zip(low.iter_mut().zip(&mut high)) {
                    let key = $order(<$key>::from_ne_bytes(*cell));
                    *low = key.min(*low);
                    *high = key.max(*high);
                }
                let least = low.into_iter().fold(<$key>::MAX, <$key>::min);
                *self.found = (least, high.into_iter().fold(<$key>::MIN, <$key>::max));
            }
        }
        let (values, _) = $values.as_chunks::<{ size_of::<$key>() }>();
        let bounds: ($key, $key) = $bounds;
        let zone = |pair: &[i64]| -> Result<([u8; size_of::<$key>()], [u8; size_of::<$key>()], i64)> {
            let [start, stop] = *pair else { return Err(outside()) };
            let zone = usize::try_from(start).ok().zip(usize::try_from(stop).ok());
            let cells = zone.and_then(|(start, stop)| values.get(start..stop)).ok_or_else(outside)?;
            let mut found = (<$key>::MAX, <$key>::MIN);
            wide::run(Look { cells, found: &mut found });
            let mut nan = 0;
            if found.0 < bounds.0 || found.1 > bounds.1 {
                found = (<$key>::MAX, <$key>::MIN);
                for cell in cells {
                    let key = $order(<$key>::from_ne_bytes(*cell));
                    if key < bounds.0 || key > bounds.1 {
                        nan += 1;
                    } else {
                        found = (key.min(found.0), key.max(found.1));
                    }
                }
            }
            if found.0 > found.1 {
                return Ok((<$kind>::default().to_ne_bytes(), <$kind>::default().to_ne_bytes(), nan));
            }
            Ok(($order(found.0).to_ne_bytes(), $order(found.1).to_ne_bytes(), nan))
        };
        let zones: Vec<_> = if $values.len() < FEW {
            $edges.windows(2).map(zone).collect::<Result<_>>()?
        } else {
            $edges.par_windows(2).map(zone).collect::<Result<_>>()?
        };
        Extremes {
            low: zones.iter().flat_map(|zone| zone.0).collect(),
            high: zones.iter().flat_map(|zone| zone.1).collect(),
            nan: zones.iter().map(|zone| zone.2).collect(),
        }
    }};
}

macro_rules! whole {
    ($kind:ty, $values:expr, $edges:expr) => {
        look!($kind, $kind, $values, $edges, same, (<$kind>::MIN, <$kind>::MAX))
    };
}

fn same<T>(key: T) -> T {
    key
}

/// Maps the bits of a number to an integer in the same order, by inverting all bits except the sign of negative
/// numbers. The inverse is the same function.
fn rising_32(bits: i32) -> i32 {
    bits ^ ((bits >> 31) & i32::MAX)
}

fn rising_64(bits: i64) -> i64 {
    bits ^ ((bits >> 63) & i64::MAX)
}

/// The bits of infinity.
const INFINITE_32: i32 = f32::INFINITY.to_bits().cast_signed();
const INFINITE_64: i64 = f64::INFINITY.to_bits().cast_signed();

fn outside() -> Error {
    Error::argument("a zone ends outside of its column")
}

/// Returns the extremes of the numbers between each edge and the next. Bools are treated as bytes.
///
/// From [`FEW`] bytes on, the threads of the current pool process several zones at the same time.
pub fn extremes(number: Number, values: &[u8], edges: &[i64]) -> Result<Extremes> {
    Ok(match number {
        Number::Bool | Number::U8 => whole!(u8, values, edges),
        Number::I8 => whole!(i8, values, edges),
        Number::I16 => whole!(i16, values, edges),
        Number::U16 => whole!(u16, values, edges),
        Number::I32 => whole!(i32, values, edges),
        Number::U32 => whole!(u32, values, edges),
        Number::I64 => whole!(i64, values, edges),
        Number::U64 => whole!(u64, values, edges),
        Number::F32 => look!(f32, i32, values, edges, rising_32, (!INFINITE_32, INFINITE_32)),
        Number::F64 => look!(f64, i64, values, edges, rising_64, (!INFINITE_64, INFINITE_64)),
    })
}

/// The length of the longest of some lists with these offsets.
struct Longest<'a> {
    offsets: &'a [i64],
    found: &'a mut i64,
}

impl Wide for Longest<'_> {
    #[inline(always)]
    fn work(self) {
        const LANES: usize = 8;
        let ends = self.offsets.get(1..).unwrap_or_default();
        let starts = self.offsets.get(..ends.len()).unwrap_or_default();
        let mut most = [0; LANES];
        let ((starts, last_starts), (ends, last_ends)) =
            (starts.as_chunks::<LANES>(), ends.as_chunks::<LANES>());
        for (starts, ends) in starts.iter().zip(ends) {
            for ((most, start), end) in most.iter_mut().zip(starts).zip(ends) {
                *most = end.wrapping_sub(*start).max(*most);
            }
        }
        for ((most, start), end) in most.iter_mut().zip(last_starts).zip(last_ends) {
            *most = end.wrapping_sub(*start).max(*most);
        }
        *self.found = most.into_iter().fold(0, i64::max);
    }
}

/// Returns the length of the longest list between each edge and the next; `offsets` are those of all lists.
pub fn longest(offsets: &[i64], edges: &[i64]) -> Result<Vec<i64>> {
    let zone = |pair: &[i64]| {
        let [start, stop] = *pair else { return Some(0) };
        if start == stop {
            return Some(0);
        }
        let own = offsets.get(usize::try_from(start).ok()?..=usize::try_from(stop).ok()?)?;
        let mut found = 0;
        wide::run(Longest { offsets: own, found: &mut found });
        Some(found)
    };
    edges.windows(2).map(|pair| zone(pair).ok_or_else(outside)).collect()
}

/// A level of lists around numbers.
pub enum Level {
    /// Lists with these offsets.
    Lists(ScalarBuffer<i64>),
    /// Lists of this size.
    Fixed(usize),
}

/// Numbers within levels of lists, the outermost first.
pub struct Listed {
    /// The levels.
    pub levels: Vec<Level>,
    /// Type of the numbers.
    pub number: Number,
    /// The numbers.
    pub values: Buffer,
}

/// Statistics of the numbers in all lists of each zone.
#[derive(Debug)]
pub struct Zones {
    /// Smallest and largest numbers, and number of NaN.
    pub extremes: Extremes,
    /// Number of numbers.
    pub counts: Vec<i64>,
    /// Length of the longest list, 0 without lists.
    pub longest: Vec<i64>,
}

/// The lengths of the longest lists of some offsets between edges, and the edges in the items.
type Known = HashMap<(usize, usize, Vec<i64>), (Vec<i64>, Vec<i64>)>;

/// Returns the statistics of columns in zones between edges. Offsets that columns share are looked at once.
///
/// From [`FEW`] bytes on, the threads of the current pool share the work.
pub fn zones(columns: &[Listed], edges: &[i64]) -> Result<Vec<Zones>> {
    let mut known = Known::new();
    let mut placed = Vec::with_capacity(columns.len());
    for column in columns {
        let mut inside = edges.to_vec();
        let mut most = vec![0; edges.len().saturating_sub(1)];
        for level in &column.levels {
            let lengths = match level {
                Level::Fixed(size) => {
                    let size = i64::try_from(*size).map_err(|_| outside())?;
                    for edge in &mut inside {
                        *edge = edge.checked_mul(size).ok_or_else(outside)?;
                    }
                    vec![size; most.len()]
                }
                Level::Lists(offsets) => {
                    let lengths;
                    (lengths, inside) = match known.entry((offsets.as_ptr().addr(), offsets.len(), inside)) {
                        Entry::Occupied(found) => found.get().clone(),
                        Entry::Vacant(place) => {
                            let edges = &place.key().2;
                            let found = (longest(offsets, edges)?, ends_at(offsets, edges)?);
                            place.insert(found).clone()
                        }
                    };
                    lengths
                }
            };
            most.iter_mut().zip(lengths).for_each(|(most, length)| *most = length.max(*most));
        }
        placed.push((column, inside, most));
    }
    let look = |(column, inside, longest): (&Listed, Vec<i64>, Vec<i64>)| -> Result<Zones> {
        // The edges are within the values now, in order.
        let extremes = extremes(column.number, &column.values, &inside)?;
        let counts = inside.iter().zip(inside.iter().skip(1)).map(|(start, stop)| stop - start).collect();
        Ok(Zones { extremes, counts, longest })
    };
    if columns.iter().map(|column| column.values.len()).sum::<usize>() < FEW {
        return placed.into_iter().map(look).collect();
    }
    placed.into_par_iter().map(look).collect()
}

/// Returns the offsets at some edges.
fn ends_at(offsets: &[i64], edges: &[i64]) -> Result<Vec<i64>> {
    let end = |&edge: &i64| offsets.get(usize::try_from(edge).ok()?).copied();
    edges.iter().map(|edge| end(edge).ok_or_else(outside)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_zone_has_its_own_extremes_and_nan_is_none_of_them() {
        let mut values: Vec<f32> = (0..100).map(|i| (i * 37 % 100) as f32).collect();
        values.extend([f32::NAN, f32::NAN, f32::NEG_INFINITY, -0.0]);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let found = extremes(Number::F32, &bytes, &[0, 1, 100, 102, 102, 104]).unwrap();
        let numbers = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
        };
        assert_eq!(numbers(&found.low), [0.0, 1.0, 0.0, 0.0, f32::NEG_INFINITY]);
        assert_eq!(numbers(&found.high), [0.0, 99.0, 0.0, 0.0, 0.0]);
        assert_eq!(found.nan, [0, 0, 2, 0, 0]);
        assert!(extremes(Number::F32, &bytes, &[0, 105]).is_err());
        assert!(
            extremes(Number::F32, &bytes, &[-1, 5]).is_err()
                && extremes(Number::F32, &bytes, &[5, 4]).is_err()
        );
    }

    #[test]
    fn zones_of_many_bytes_are_those_of_few() {
        let values: Vec<f64> = (0..FEW / 8).map(|i| ((i * 7919) % 10_007) as f64 - 5_000.0).collect();
        let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        bytes[8 * 70_000..][..8].copy_from_slice(&(-f64::NAN).to_ne_bytes());
        bytes[8 * 70_001..][..8].copy_from_slice(&f64::NAN.to_ne_bytes());
        let edges = [0, 65_536, 65_536, 131_075, 200_000, values.len() as i64];
        let found = extremes(Number::F64, &bytes, &edges).unwrap();
        assert_eq!(found.nan, [0, 0, 2, 0, 0]);
        for (zone, pair) in edges.windows(2).enumerate() {
            let own = &bytes[8 * pair[0] as usize..8 * pair[1] as usize];
            let numbers = own.as_chunks().0.iter().map(|cell| f64::from_ne_bytes(*cell));
            let (low, high) = numbers
                .filter(|number| !number.is_nan())
                .fold((0f64, 0f64), |(low, high), number| (low.min(number), high.max(number)));
            assert_eq!(found.low[8 * zone..][..8], low.to_ne_bytes());
            assert_eq!(found.high[8 * zone..][..8], high.to_ne_bytes());
            let few = extremes(Number::F64, own, &[0, pair[1] - pair[0]]).unwrap();
            assert_eq!((few.low, few.high), (low.to_ne_bytes().to_vec(), high.to_ne_bytes().to_vec()));
        }
    }

    #[test]
    fn whole_numbers_are_compared_by_their_sign() {
        let found = extremes(Number::I8, &[255, 1, 128], &[0, 3]).unwrap();
        assert_eq!((found.low, found.high), (vec![128], vec![1]));
        let found = extremes(Number::U8, &[255, 1, 128], &[0, 3]).unwrap();
        assert_eq!((found.low, found.high), (vec![1], vec![255]));
        let most = [u64::MAX; 40].map(u64::to_ne_bytes).concat();
        assert_eq!(extremes(Number::U64, &most, &[0, 40]).unwrap().low, u64::MAX.to_ne_bytes());
    }

    #[test]
    fn the_longest_list_of_each_zone_is_found() {
        assert_eq!(longest(&[0, 3, 3, 10, 11], &[0, 2, 2, 4]).unwrap(), [3, 0, 7]);
        assert!(longest(&[0, 3], &[0, 2]).is_err());
        for place in 0..30 {
            let mut ends: Vec<i64> = (0..31).map(|i| 2 * i).collect();
            ends.iter_mut().skip(place + 1).for_each(|end| *end += 5);
            assert_eq!(longest(&ends, &[0, place as i64, place as i64 + 1, 30]).unwrap()[1], 7, "{place}");
            assert_eq!(longest(&ends, &[0, 30]).unwrap(), [7], "{place}");
        }
    }

    #[test]
    fn zones_of_lists_are_those_of_all_their_items() {
        let offsets = ScalarBuffer::from(vec![0i64, 2, 2, 5]);
        let column = |levels: Vec<Level>, count: i32| Listed {
            levels,
            number: Number::I32,
            values: Buffer::from_vec((0..count).collect::<Vec<_>>()),
        };
        let numbers = |bytes: &[u8]| -> Vec<i32> {
            bytes.as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes)).collect()
        };
        let lists = || Level::Lists(offsets.clone());
        let columns =
            [column(vec![], 3), column(vec![lists()], 5), column(vec![lists(), Level::Fixed(2)], 10)];
        let found = zones(&columns, &[0, 1, 3]).unwrap();
        let shown = found.iter().map(|one| {
            (numbers(&one.extremes.low), numbers(&one.extremes.high), one.counts.clone(), one.longest.clone())
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 0]),
                (vec![0, 2], vec![1, 4], vec![2, 3], vec![2, 3]),
                (vec![0, 4], vec![3, 9], vec![4, 6], vec![2, 3]),
            ]
        );
        assert!(zones(&columns, &[0, 4]).is_err() && zones(&columns, &[-1, 2]).is_err());
        assert!(zones(&[column(vec![Level::Fixed(usize::MAX)], 3)], &[0, 1]).is_err());
        assert!(zones(&[column(vec![lists()], 4)], &[0, 3]).is_err());
        let wrong = Level::Lists(vec![i64::MIN, i64::MAX].into());
        assert!(zones(&[column(vec![wrong], 4)], &[0, 1]).is_err());
    }
}
