//! The smallest and largest numbers of zones, and the lengths of their longest lists.

use super::Number;
use crate::error::{Error, Result};

/// What is known of the numbers of each zone.
#[derive(Debug, Default)]
pub struct Extremes {
    /// The smallest of each, 0 where there is none; in the bytes of the number.
    pub low: Vec<u8>,
    /// The largest.
    pub high: Vec<u8>,
    /// How many are not numbers (NaN).
    pub nan: Vec<i64>,
}

/// How many numbers are compared at a time.
const LANES: usize = 16;

macro_rules! look {
    ($kind:ty, $values:expr, $edges:expr, $low:expr, $high:expr, $is_nan:expr) => {{
        let (values, _) = $values.as_chunks::<{ size_of::<$kind>() }>();
        let is_nan: fn($kind) -> bool = $is_nan;
        let mut found = Extremes::default();
        for pair in $edges.windows(2) {
            let [start, stop] = *pair else { continue };
            let zone = usize::try_from(start).ok().zip(usize::try_from(stop).ok());
            let zone = zone.and_then(|(start, stop)| values.get(start..stop)).ok_or_else(outside)?;
            let (mut low, mut high, mut nan) = ([$low; LANES], [$high; LANES], [0u32; LANES]);
            let mut nans = 0i64;
            // Few enough that the counts of lanes cannot overflow.
            for part in zone.chunks(1 << 20) {
                let (rows, rest) = part.as_chunks::<LANES>();
                for row in rows {
                    for (((low, high), nan), bytes) in low.iter_mut().zip(&mut high).zip(&mut nan).zip(row) {
                        let value = <$kind>::from_ne_bytes(*bytes);
                        *low = if value < *low { value } else { *low };
                        *high = if value > *high { value } else { *high };
                        *nan += u32::from(is_nan(value));
                    }
                }
                for bytes in rest {
                    let value = <$kind>::from_ne_bytes(*bytes);
                    let (low, high) = (&mut low[0], &mut high[0]);
                    *low = if value < *low { value } else { *low };
                    *high = if value > *high { value } else { *high };
                    nans += i64::from(is_nan(value));
                }
                nans += nan.iter().map(|&count| i64::from(count)).sum::<i64>();
                nan = [0; LANES];
            }
            let least = low.into_iter().fold($low, |a, b| if b < a { b } else { a });
            let most = high.into_iter().fold($high, |a, b| if b > a { b } else { a });
            let some = nans < zone.len() as i64;
            found.low.extend((if some { least } else { <$kind>::default() }).to_ne_bytes());
            found.high.extend((if some { most } else { <$kind>::default() }).to_ne_bytes());
            found.nan.push(nans);
        }
        found
    }};
}

macro_rules! whole {
    ($kind:ty, $values:expr, $edges:expr) => {
        look!($kind, $values, $edges, <$kind>::MAX, <$kind>::MIN, |_| false)
    };
}

macro_rules! float {
    ($kind:ty, $values:expr, $edges:expr) => {
        look!($kind, $values, $edges, <$kind>::INFINITY, <$kind>::NEG_INFINITY, <$kind>::is_nan)
    };
}

fn outside() -> Error {
    Error::argument("a zone ends outside of its column")
}

/// The extremes of numbers between each edge and the next. Bools are taken as bytes.
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
        Number::F32 => float!(f32, values, edges),
        Number::F64 => float!(f64, values, edges),
    })
}

/// The length of the longest list between each edge and the next; `offsets` are those of all lists.
pub fn longest(offsets: &[i64], edges: &[i64]) -> Result<Vec<i64>> {
    let zone = |pair: &[i64]| {
        let [start, stop] = *pair else { return Some(0) };
        if start == stop {
            return Some(0);
        }
        let own = offsets.get(usize::try_from(start).ok()?..=usize::try_from(stop).ok()?)?;
        let ends = own.get(1..)?;
        Some(own.iter().zip(ends).fold(0, |most, (from, to)| most.max(to.wrapping_sub(*from))))
    };
    edges.windows(2).map(|pair| zone(pair).ok_or_else(outside)).collect()
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
    }
}
