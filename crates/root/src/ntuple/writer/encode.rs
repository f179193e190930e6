//! Encoding numbers as the elements of a page: the inverse of [`decode`](crate::ntuple::encoding::decode).

use crate::array::Number;
use crate::error::{Error, Result};
use crate::ntuple::encoding::{Encoding, convert};
use crate::wire::grow::{self, Grow};

/// Encodes numbers as elements of a page and appends them to `out`.
///
/// `values` are native-endian numbers of type `memory`; for a switch, indices of 64 bits and tags of 32 bits.
pub fn encode(encoding: Encoding, memory: Number, values: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let natural = encoding.natural();
    let width = if encoding == Encoding::Switch { 12 } else { memory.size() };
    out.room(encoding.stored_bytes((values.len() / width) as u64).unwrap_or(usize::MAX))?;
    if encoding == Encoding::Switch {
        for element in values.as_chunks::<12>().0 {
            let index = element.first_chunk().copied().map_or(0, u64::from_ne_bytes);
            let tag = element.last_chunk().copied().map_or(0, u32::from_ne_bytes);
            out.extend(index.to_le_bytes());
            out.extend(tag.to_le_bytes());
        }
        return Ok(());
    }
    if let (Encoding::Quantized { bits, min, max }, Number::F64) = (encoding, memory) {
        return quantize(values.as_chunks().0.iter().map(|v| f64::from_ne_bytes(*v)), (bits, min, max), out);
    }
    if natural == memory || natural == Number::Bool {
        return encode_natural(encoding, values, out);
    }
    let mut converted = grow::filled(values.len() / memory.size() * natural.size(), 0)?;
    if (memory, natural) == (Number::F64, Number::F32) {
        // Precision is lost, as the column's type requires.
        for (to, from) in converted.as_chunks_mut().0.iter_mut().zip(values.as_chunks().0) {
            *to = (f64::from_ne_bytes(*from) as f32).to_ne_bytes();
        }
    } else {
        convert(memory, values, natural, &mut converted)?;
    }
    encode_natural(encoding, &converted, out)
}

fn encode_natural(encoding: Encoding, values: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match encoding {
        Encoding::Bit => out.extend(values.chunks(8).map(|eight| {
            let bits = eight.iter().enumerate();
            bits.fold(0, |byte, (place, value)| byte | u8::from(*value != 0) << place)
        })),
        Encoding::Plain(number) => little(number.size(), values, out),
        Encoding::Split(number) => split(number.size(), values, out),
        Encoding::Zigzag(number) => {
            macro_rules! fold {
                ($signed:ty) => {{
                    let mut folded = grow::copied(values)?;
                    for word in folded.as_chunks_mut().0 {
                        let value = <$signed>::from_ne_bytes(*word);
                        *word = (value << 1 ^ value >> (<$signed>::BITS - 1)).to_ne_bytes();
                    }
                    split(number.size(), &folded, out);
                }};
            }
            match number.size() {
                2 => fold!(i16),
                4 => fold!(i32),
                _ => fold!(i64),
            }
        }
        Encoding::Delta(number) => {
            macro_rules! differences {
                ($type:ty) => {{
                    let (mut steps, mut last) = (grow::copied(values)?, 0);
                    for word in steps.as_chunks_mut().0 {
                        let value = <$type>::from_ne_bytes(*word);
                        *word = value.wrapping_sub(last).to_ne_bytes();
                        last = value;
                    }
                    split(number.size(), &steps, out);
                }};
            }
            if number.size() == 4 { differences!(u32) } else { differences!(u64) }
        }
        Encoding::Half => out.extend(halves(values).flat_map(u16::to_le_bytes)),
        Encoding::SplitHalf => {
            out.extend(halves(values).map(|half| half as u8));
            out.extend(halves(values).map(|half| (half >> 8) as u8));
        }
        Encoding::Truncated { bits } => {
            let words = values.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word) >> (32 - bits));
            pack_bits(words, bits, out);
        }
        Encoding::Quantized { bits, min, max } => {
            let numbers = values.as_chunks().0.iter().map(|v| f64::from(f32::from_ne_bytes(*v)));
            quantize(numbers, (bits, min, max), out)?;
        }
        // Written by [`encode`] alone.
        Encoding::Switch => {}
    }
    Ok(())
}

fn little(size: usize, values: &[u8], out: &mut Vec<u8>) {
    if cfg!(target_endian = "little") || size == 1 {
        out.extend_from_slice(values);
    } else {
        values.chunks_exact(size).for_each(|word| out.extend(word.iter().rev()));
    }
}

/// Writes all first bytes, then all second bytes, and so on.
fn split(size: usize, values: &[u8], out: &mut Vec<u8>) {
    match size {
        2 => part::<2>(values, out),
        4 => part::<4>(values, out),
        _ => part::<8>(values, out),
    }
}

fn part<const N: usize>(values: &[u8], out: &mut Vec<u8>) {
    let words = values.as_chunks::<N>().0;
    let start = out.len();
    out.resize(start + N * words.len(), 0);
    let rows = out.get_mut(start..).unwrap_or_default().chunks_exact_mut(words.len().max(1));
    for (row, bytes) in rows.enumerate() {
        let place = if cfg!(target_endian = "little") { row } else { N - 1 - row };
        for (to, word) in bytes.iter_mut().zip(words) {
            *to = word.get(place).copied().unwrap_or_default();
        }
    }
}

/// Packs numbers of up to 32 bits end to end, from the lowest bit up.
fn pack_bits(numbers: impl Iterator<Item = u32>, bits: u32, out: &mut Vec<u8>) {
    let (mut held, mut count) = (0u64, 0);
    for number in numbers {
        held |= u64::from(number) << count;
        count += bits;
        while count >= 8 {
            out.push(held as u8);
            held >>= 8;
            count -= 8;
        }
    }
    if count > 0 {
        out.push(held as u8);
    }
}

fn quantize(
    numbers: impl Iterator<Item = f64>,
    (bits, min, max): (u32, f64, f64),
    out: &mut Vec<u8>,
) -> Result<()> {
    let steps = ((1u64 << bits) - 1) as f64;
    let scale = if max > min { steps / (max - min) } else { 0.0 };
    let mut outside = None;
    let step = |value: f64| {
        if !(min..=max).contains(&value) {
            outside.get_or_insert(value);
        }
        (0.5 + (value - min) * scale).min(steps) as u32
    };
    pack_bits(numbers.map(step), bits, out);
    match outside {
        Some(value) => Err(Error::argument(format!("{value} is outside of the range from {min} to {max}"))),
        None => Ok(()),
    }
}

fn halves(values: &[u8]) -> impl Iterator<Item = u16> {
    values.as_chunks().0.iter().map(|word| float_to_half(f32::from_ne_bytes(*word)))
}

/// Rounds to IEEE half precision, to the nearest value, ties to even.
fn float_to_half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    if magnitude > 0x7f80_0000 {
        return sign | 0x7e00;
    }
    // Halfway between the largest number and the one that would follow it.
    if magnitude >= 0x477f_f000 {
        return sign | 0x7c00;
    }
    let exponent = (magnitude >> 23) as i32 - 112;
    let (mantissa, shift) = if exponent > 0 {
        ((exponent as u32) << 23 | magnitude & 0x7f_ffff, 13)
    } else {
        // Subnormal: the leading one is stored, too.
        (magnitude & 0x7f_ffff | 0x80_0000, (14 - exponent).min(31) as u32)
    };
    let kept = mantissa >> shift;
    let (rest, half) = (mantissa & ((1 << shift) - 1), 1 << (shift - 1));
    sign | (kept + u32::from(rest > half || rest == half && kept & 1 == 1)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ntuple::encoding::decode;

    fn round(kind: u16, bits: u16, number: Number, values: &[u8]) -> Vec<u8> {
        let encoding = Encoding::of(kind, bits, Some((-1.0, 1.0))).unwrap();
        let mut page = Vec::new();
        encode(encoding, number, values, &mut page).unwrap();
        let n = values.len() / number.size();
        assert_eq!(Some(page.len()), encoding.stored_bytes(n as u64));
        let mut out = vec![0xaa; values.len()];
        decode(encoding, &page, number, &mut out).unwrap();
        out
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let words: Vec<u64> = (0..37).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let sizes = [(Number::I16, 16), (Number::U16, 16), (Number::I32, 32), (Number::U32, 32)];
        let sizes = sizes.into_iter().chain([(Number::I64, 64), (Number::U64, 64)]);
        for (plain, (number, bits)) in (0x05..).zip(sizes) {
            assert_eq!(round(plain, bits, number, &bytes), bytes, "{number:?}");
        }
        for (kind, bits, number) in [
            (0x11, 16, Number::I16),
            (0x12, 16, Number::U16),
            (0x13, 32, Number::I32),
            (0x14, 32, Number::U32),
            (0x15, 64, Number::I64),
            (0x16, 64, Number::U64),
            (0x1a, 32, Number::U32),
            (0x1b, 64, Number::U64),
        ] {
            assert_eq!(round(kind, bits, number, &bytes), bytes, "{kind:#x}");
        }
        let flags: Vec<u8> = (0..19).map(|i| u8::from(i % 3 == 0)).collect();
        assert_eq!(round(0x00, 1, Number::Bool, &flags), flags);
    }

    #[test]
    fn reals_of_few_bits() {
        let reals: Vec<f32> = vec![0.5, -0.25, 1.0, -1.0, 0.0];
        let bytes: Vec<u8> = reals.iter().flat_map(|v| v.to_ne_bytes()).collect();
        for (kind, bits) in [(0x0b, 16), (0x17, 16), (0x18, 32), (0x0c, 32), (0x1c, 11)] {
            assert_eq!(round(kind, bits, Number::F32, &bytes), bytes, "{kind:#x}");
        }
        let doubles: Vec<u8> = reals.iter().flat_map(|v| f64::from(*v).to_ne_bytes()).collect();
        assert_eq!(round(0x18, 32, Number::F64, &doubles), doubles);
        let ends: Vec<u8> = [-1f64, 1.0].iter().flat_map(|v| v.to_ne_bytes()).collect();
        assert_eq!(round(0x1d, 9, Number::F64, &ends), ends);
        let encoding = Encoding::of(0x1d, 9, Some((-1.0, 1.0))).unwrap();
        assert!(encode(encoding, Number::F64, &1.5f64.to_ne_bytes(), &mut Vec::new()).is_err());
    }

    #[test]
    fn half_precision_rounds_to_the_nearest() {
        for (value, half) in [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.0, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (2f32.powi(-24), 1),
            (2f32.powi(-25), 0),
            (1.5 * 2f32.powi(-24), 2),
            (2f32.powi(-14), 0x400),
            (1023.5 * 2f32.powi(-24), 0x400),
            (1.0 + 2f32.powi(-11), 0x3c00),
            (1.0 + 3.0 * 2f32.powi(-11), 0x3c02),
            (1e-30, 0),
        ] {
            assert_eq!(float_to_half(value), half, "{value}");
        }
        assert_eq!(float_to_half(f32::NAN) & 0x7e00, 0x7e00);
    }

    #[test]
    fn numbers_that_do_not_fit_a_column_are_refused() {
        let encoding = Encoding::of(0x1a, 32, None).unwrap();
        let large = (1u64 << 40).to_ne_bytes();
        assert!(encode(encoding, Number::U64, &large, &mut Vec::new()).is_err());
    }
}
