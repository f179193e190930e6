//! How the elements of a column are stored in a page, and how they are decoded.

use crate::array::Number;
use crate::error::{Error, Result};
use crate::wire::grow;

/// The way the elements of a column are packed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Encoding {
    /// One bit each, lowest bit first.
    Bit,
    /// Little-endian numbers.
    Plain(Number),
    /// All first bytes, then all second bytes, and so on.
    Split(Number),
    /// Split signed numbers with the sign in the lowest bit.
    Zigzag(Number),
    /// Split differences to the element before.
    Delta(Number),
    /// Half precision.
    Half,
    /// Half precision, split.
    SplitHalf,
    /// The upper bits of single precision numbers.
    Truncated {
        /// Number of bits.
        bits: u32,
    },
    /// Equal steps in a range.
    Quantized {
        /// Bits of the step number.
        bits: u32,
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// Index and tag of a variant.
    Switch,
}

/// Names of the column types by number, with the smallest and the largest number of bits.
const NAMES: [(&str, u16, u16); 30] = [
    ("bit", 1, 1),
    ("byte", 8, 8),
    ("char", 8, 8),
    ("int8", 8, 8),
    ("uint8", 8, 8),
    ("int16", 16, 16),
    ("uint16", 16, 16),
    ("int32", 32, 32),
    ("uint32", 32, 32),
    ("int64", 64, 64),
    ("uint64", 64, 64),
    ("real16", 16, 16),
    ("real32", 32, 32),
    ("real64", 64, 64),
    ("index32", 32, 32),
    ("index64", 64, 64),
    ("switch", 96, 96),
    ("splitint16", 16, 16),
    ("splituint16", 16, 16),
    ("splitint32", 32, 32),
    ("splituint32", 32, 32),
    ("splitint64", 64, 64),
    ("splituint64", 64, 64),
    ("splitreal16", 16, 16),
    ("splitreal32", 32, 32),
    ("splitreal64", 64, 64),
    ("splitindex32", 32, 32),
    ("splitindex64", 64, 64),
    ("real32trunc", 10, 31),
    ("real32quant", 1, 32),
];

/// The name of a column type.
pub fn name(kind: u16) -> Option<&'static str> {
    NAMES.get(usize::from(kind)).map(|(name, ..)| *name)
}

impl Encoding {
    /// Returns the encoding of a column type.
    pub fn of(kind: u16, bits: u16, range: Option<(f64, f64)>) -> Result<Self> {
        let Some(&(name, least, most)) = NAMES.get(usize::from(kind)) else {
            return Err(Error::unsupported(format!("column type {kind:#04x} is unknown to this version")));
        };
        if !(least..=most).contains(&bits) {
            return Err(Error::corrupt(format!(
                "a column of type {name} cannot have {bits} bits per element"
            )));
        }
        Ok(match kind {
            0x00 => Self::Bit,
            0x01 | 0x04 => Self::Plain(Number::U8),
            // `char` is signed on the platforms of ROOT.
            0x02 | 0x03 => Self::Plain(Number::I8),
            0x05 => Self::Plain(Number::I16),
            0x06 => Self::Plain(Number::U16),
            0x07 => Self::Plain(Number::I32),
            0x08 | 0x0e => Self::Plain(Number::U32),
            0x09 => Self::Plain(Number::I64),
            0x0a | 0x0f => Self::Plain(Number::U64),
            0x0b => Self::Half,
            0x0c => Self::Plain(Number::F32),
            0x0d => Self::Plain(Number::F64),
            0x10 => Self::Switch,
            0x11 => Self::Zigzag(Number::I16),
            0x12 => Self::Split(Number::U16),
            0x13 => Self::Zigzag(Number::I32),
            0x14 => Self::Split(Number::U32),
            0x15 => Self::Zigzag(Number::I64),
            0x16 => Self::Split(Number::U64),
            0x17 => Self::SplitHalf,
            0x18 => Self::Split(Number::F32),
            0x19 => Self::Split(Number::F64),
            0x1a => Self::Delta(Number::U32),
            0x1b => Self::Delta(Number::U64),
            0x1c => Self::Truncated { bits: bits.into() },
            _ => match range {
                Some((min, max)) if min.is_finite() && max.is_finite() && min <= max => {
                    Self::Quantized { bits: bits.into(), min, max }
                }
                Some((min, max)) => {
                    return Err(Error::corrupt(format!(
                        "a column has an invalid range of real numbers: {min} to {max}"
                    )));
                }
                None => return Err(Error::corrupt("a column of quantized numbers has no range")),
            },
        })
    }
    /// Bits of an element in a page.
    pub fn bits(self) -> u64 {
        match self {
            Self::Bit => 1,
            Self::Plain(number) | Self::Split(number) | Self::Zigzag(number) | Self::Delta(number) => {
                8 * number.size() as u64
            }
            Self::Half | Self::SplitHalf => 16,
            Self::Truncated { bits } | Self::Quantized { bits, .. } => u64::from(bits),
            Self::Switch => 96,
        }
    }
    /// Bytes that elements take in a decompressed page.
    pub fn stored_bytes(self, elements: u64) -> Option<usize> {
        usize::try_from(elements.checked_mul(self.bits())?.div_ceil(8)).ok()
    }
    /// The encoding after [`join`]: independent elements of the same size. `None` if the elements need no joining.
    pub fn joined(self) -> Option<Self> {
        match self {
            Self::Split(number) | Self::Zigzag(number) | Self::Delta(number) => Some(Self::Plain(number)),
            Self::SplitHalf => Some(Self::Half),
            _ => None,
        }
    }
    /// Bytes of an element, if each can be decoded on its own.
    pub fn element_bytes(self) -> Option<usize> {
        match self {
            Self::Plain(number) => Some(number.size()),
            Self::Half => Some(2),
            Self::Switch => Some(12),
            _ => None,
        }
    }
    /// The number type of the elements.
    pub fn natural(self) -> Number {
        match self {
            Self::Bit => Number::Bool,
            Self::Plain(number) | Self::Split(number) | Self::Zigzag(number) | Self::Delta(number) => number,
            Self::Half | Self::SplitHalf | Self::Truncated { .. } | Self::Quantized { .. } => Number::F32,
            Self::Switch => Number::U64,
        }
    }
    /// Whether elements may be read as numbers of a type, by ROOT's rules.
    pub fn reads_as(self, number: Number) -> bool {
        let real = |n| matches!(n, Number::F32 | Number::F64);
        self != Self::Switch && real(self.natural()) == real(number)
    }
    /// Whether the bytes of a page equal those in memory for numbers of that type.
    pub fn is_copied(self, number: Number) -> bool {
        cfg!(target_endian = "little")
            && (matches!(self, Self::Plain(own) if own == number)
                || (matches!(self, Self::Plain(Number::U64)) && number == Number::I64))
    }
}

/// Decodes all elements of a page to numbers of a type.
///
/// `page` holds the elements ([`Encoding::stored_bytes`]); `out` has room for the same number of numbers.
pub fn decode(encoding: Encoding, page: &[u8], number: Number, out: &mut [u8]) -> Result<()> {
    let n = out.len() / number.size().max(1);
    debug_assert_eq!(encoding.stored_bytes(n as u64), Some(page.len()));
    // An index is below 2^63; this is verified when the index is used.
    let same = encoding.natural() == number || (encoding.natural(), number) == (Number::U64, Number::I64);
    match encoding {
        Encoding::Quantized { bits, min, max } if number == Number::F64 => {
            let quantum = Quantum::new(bits, min, max);
            unpack_bits(page, bits, out.as_chunks_mut().0, |raw| quantum.value(raw).to_ne_bytes());
        }
        _ if same => native(encoding, page, out),
        _ => {
            let mut values = grow::filled(n * encoding.natural().size(), 0)?;
            native(encoding, page, &mut values);
            convert(encoding.natural(), &values, number, out)?;
        }
    }
    Ok(())
}

/// Like [`decode`], for elements `from` to `to` of a page of `items`.
pub fn decode_some(
    encoding: Encoding,
    page: &[u8],
    items: usize,
    (from, to): (usize, usize),
    number: Number,
    out: &mut [u8],
) -> Result<()> {
    // Eight elements end at a byte boundary, whatever their bits. Others that cannot be decoded one by one are decoded
    // together.
    let (first, end) = match encoding {
        Encoding::Bit | Encoding::Truncated { .. } | Encoding::Quantized { .. } => (from & !7, to),
        _ if encoding.element_bytes().is_some() => (from, to),
        _ => (0, items),
    };
    let bytes = encoding.stored_bytes(first as u64).zip(encoding.stored_bytes(end as u64));
    let page = bytes.and_then(|(first, end)| page.get(first..end)).ok_or_else(short)?;
    if (first, end) == (from, to) {
        return decode(encoding, page, number, out);
    }
    let mut values = grow::filled((end - first).saturating_mul(number.size()), 0)?;
    decode(encoding, page, number, &mut values)?;
    let some = values.get((from - first) * number.size()..(to - first) * number.size());
    let some = some.filter(|some| some.len() == out.len());
    out.copy_from_slice(some.ok_or_else(short)?);
    Ok(())
}

fn short() -> Error {
    Error::corrupt("the page is too short for its elements")
}

/// Converts the elements of a page to independent ones ([`Encoding::joined`]).
pub fn join(encoding: Encoding, page: &[u8], out: &mut [u8]) {
    match encoding {
        Encoding::SplitHalf => join2(page, out, |word| word),
        _ => native(encoding, page, out),
    }
    if cfg!(target_endian = "big") {
        out.chunks_exact_mut(encoding.bits() as usize / 8).for_each(<[u8]>::reverse);
    }
}

/// Decodes to the encoding's natural type.
fn native(encoding: Encoding, page: &[u8], out: &mut [u8]) {
    match encoding {
        Encoding::Bit => bits(page, out),
        Encoding::Plain(number) => plain(number.size(), page, out),
        Encoding::Split(number) => match number.size() {
            2 => join2(page, out, |word| word),
            4 => join4(page, out, |word| word),
            _ => join8(page, out, |word| word),
        },
        Encoding::Zigzag(number) => {
            macro_rules! undo {
                ($join:ident) => {
                    $join(page, out, |word| (word >> 1) ^ (word & 1).wrapping_neg())
                };
            }
            match number.size() {
                2 => undo!(join2),
                4 => undo!(join4),
                _ => undo!(join8),
            }
        }
        Encoding::Delta(number) => {
            macro_rules! sum {
                ($join:ident, $type:ty) => {{
                    $join(page, out, |word| word);
                    let mut sum: $type = 0;
                    for word in out.as_chunks_mut().0 {
                        sum = sum.wrapping_add(<$type>::from_ne_bytes(*word));
                        *word = sum.to_ne_bytes();
                    }
                }};
            }
            if number.size() == 4 { sum!(join4, u32) } else { sum!(join8, u64) }
        }
        Encoding::Half => {
            for (word, half) in out.as_chunks_mut().0.iter_mut().zip(page.as_chunks().0) {
                *word = half_to_float(u16::from_le_bytes(*half)).to_ne_bytes();
            }
        }
        Encoding::SplitHalf => {
            let (low, high) = page.split_at(page.len() / 2);
            for ((word, &low), &high) in out.as_chunks_mut().0.iter_mut().zip(low).zip(high) {
                *word = half_to_float(u16::from_le_bytes([low, high])).to_ne_bytes();
            }
        }
        Encoding::Truncated { bits } => {
            unpack_bits(page, bits, out.as_chunks_mut().0, |raw| (raw << (32 - bits)).to_ne_bytes());
        }
        Encoding::Quantized { bits, min, max } => {
            let quantum = Quantum::new(bits, min, max);
            unpack_bits(page, bits, out.as_chunks_mut().0, |raw| (quantum.value(raw) as f32).to_ne_bytes());
        }
        // Read by [`switch`] alone.
        Encoding::Switch => {}
    }
}

/// Returns index and tag of each element in a page of variants.
pub fn switch(page: &[u8]) -> impl Iterator<Item = (u64, u32)> {
    page.as_chunks::<12>().0.iter().map(|element| {
        let index = element.first_chunk().copied().map_or(0, u64::from_le_bytes);
        (index, element.last_chunk().copied().map_or(0, u32::from_le_bytes))
    })
}

fn bits(page: &[u8], out: &mut [u8]) {
    let (words, rest) = out.as_chunks_mut();
    for (word, &byte) in words.iter_mut().zip(page) {
        // Seven copies, each with one bit at the lowest place of its byte. The eighth copy would overlap the first.
        let byte = u64::from(byte);
        let spread = (byte & 0x7f).wrapping_mul(0x0002_0408_1020_4081) & 0x0001_0101_0101_0101;
        *word = (spread | byte >> 7 << 56).to_le_bytes();
    }
    let last = page.get(words.len()).copied().unwrap_or_default();
    for (i, value) in rest.iter_mut().enumerate() {
        *value = last >> i & 1;
    }
}

fn plain(size: usize, page: &[u8], out: &mut [u8]) {
    if let Some(out) = out.get_mut(..page.len()) {
        out.copy_from_slice(page);
    }
    if cfg!(target_endian = "big") {
        out.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
}

/// Number of elements joined at a time: few enough for intermediate results to stay in the first-level cache.
const BLOCK: usize = 256;

/// Splits a page into the first bytes of all elements, the second bytes, and so on.
fn parts<const N: usize>(page: &[u8]) -> [&[u8]; N] {
    let size = page.len() / N;
    std::array::from_fn(|i| page.get(i * size..(i + 1) * size).unwrap_or_default())
}

/// Joins the split bytes of each element and maps it.
fn join2(page: &[u8], out: &mut [u8], map: impl Fn(u16) -> u16) {
    let [low, high] = parts(page);
    for ((word, &low), &high) in out.as_chunks_mut().0.iter_mut().zip(low).zip(high) {
        *word = map(u16::from_le_bytes([low, high])).to_ne_bytes();
    }
}

/// Like [`join2`]. Loops over pairs are vectorized on every processor; loops over more parts are not.
fn join4(page: &[u8], out: &mut [u8], map: impl Fn(u32) -> u32) {
    let [a, b, c, d] = parts(page);
    let (mut low, mut high) = ([0; BLOCK], [0; BLOCK]);
    for (number, block) in out.chunks_mut(4 * BLOCK).enumerate() {
        let first = number * BLOCK;
        pairs(behind(a, first), behind(b, first), &mut low);
        pairs(behind(c, first), behind(d, first), &mut high);
        for ((word, &low), &high) in block.as_chunks_mut().0.iter_mut().zip(&low).zip(&high) {
            *word = map(u32::from(low) | u32::from(high) << 16).to_ne_bytes();
        }
    }
}

/// Like [`join4`].
fn join8(page: &[u8], out: &mut [u8], map: impl Fn(u64) -> u64) {
    let [a, b, c, d, e, f, g, h] = parts(page);
    let (mut low, mut high) = ([0; BLOCK], [0; BLOCK]);
    for (number, block) in out.chunks_mut(8 * BLOCK).enumerate() {
        let first = number * BLOCK;
        let upper = [e, f, g, h].map(|part| behind(part, first));
        quads([a, b, c, d].map(|part| behind(part, first)), &mut low);
        // Most integers and ends of lists are small.
        if upper.iter().all(|part| part.iter().take(BLOCK).fold(0, |all, byte| all | byte) == 0) {
            high = [0; BLOCK];
        } else {
            quads(upper, &mut high);
        }
        for ((word, &low), &high) in block.as_chunks_mut().0.iter_mut().zip(&low).zip(&high) {
            *word = map(u64::from(low) | u64::from(high) << 32).to_ne_bytes();
        }
    }
}

fn behind(part: &[u8], first: usize) -> &[u8] {
    part.get(first..).unwrap_or_default()
}

fn pairs(low: &[u8], high: &[u8], out: &mut [u16; BLOCK]) {
    for ((word, &low), &high) in out.iter_mut().zip(low).zip(high) {
        *word = u16::from(low) | u16::from(high) << 8;
    }
}

fn quads([a, b, c, d]: [&[u8]; 4], out: &mut [u32; BLOCK]) {
    let (mut low, mut high) = ([0; BLOCK], [0; BLOCK]);
    pairs(a, b, &mut low);
    pairs(c, d, &mut high);
    for ((word, &low), &high) in out.iter_mut().zip(&low).zip(&high) {
        *word = u32::from(low) | u32::from(high) << 16;
    }
}

/// Numbers of up to 32 bits, packed end to end from the lowest bit up.
fn unpack_bits<const N: usize>(page: &[u8], bits: u32, out: &mut [[u8; N]], value: impl Fn(u32) -> [u8; N]) {
    let mask = if bits >= 32 { u32::MAX } else { (1 << bits) - 1 };
    let mut held = 0u64;
    let mut count = 0;
    let mut words = page.chunks(4).map(|chunk| {
        let mut word = [0u8; 4];
        word.iter_mut().zip(chunk).for_each(|(w, c)| *w = *c);
        u64::from(u32::from_le_bytes(word))
    });
    for out in out {
        if count < bits {
            held |= words.next().unwrap_or_default() << count;
            count += 32;
        }
        *out = value(held as u32 & mask);
        held >>= bits;
        count -= bits;
    }
}

/// The values of the steps in a range, computed as in ROOT.
struct Quantum {
    scale: f64,
    min: f64,
    max: f64,
}

impl Quantum {
    fn new(bits: u32, min: f64, max: f64) -> Self {
        Self { scale: (max - min) / ((1u64 << bits) - 1) as f64, min, max }
    }
    fn value(&self, step: u32) -> f64 {
        (f64::from(step) * self.scale + self.min).min(self.max)
    }
}

/// Converts IEEE half precision exactly.
fn half_to_float(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let exponent = u32::from(half >> 10 & 0x1f);
    let mantissa = u32::from(half & 0x3ff);
    let magnitude = match (exponent, mantissa) {
        (0, m) => return f32::from_bits(sign | (m as f32 / 16_777_216.0).to_bits()),
        (31, m) => 0x7f80_0000 | m << 13,
        (e, m) => (e + 112) << 23 | m << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Converts numbers. A number that does not fit is an error, as in ROOT.
pub fn convert(from: Number, values: &[u8], to: Number, out: &mut [u8]) -> Result<()> {
    macro_rules! each {
        ($from:ty, |$v:ident| $value:expr) => {{
            for (out, word) in out.chunks_exact_mut(to.size()).zip(values.as_chunks().0) {
                let $v = <$from>::from_ne_bytes(*word);
                out.copy_from_slice(&$value.to_ne_bytes());
            }
            Ok(())
        }};
    }
    macro_rules! integers {
        ($from:ty) => {
            match to {
                Number::Bool => each!($from, |v| u8::from(v != 0)),
                Number::I8 => each!($from, |v| i8::try_from(v).map_err(|_| unfit(v, "int8"))?),
                Number::U8 => each!($from, |v| u8::try_from(v).map_err(|_| unfit(v, "uint8"))?),
                Number::I16 => each!($from, |v| i16::try_from(v).map_err(|_| unfit(v, "int16"))?),
                Number::U16 => each!($from, |v| u16::try_from(v).map_err(|_| unfit(v, "uint16"))?),
                Number::I32 => each!($from, |v| i32::try_from(v).map_err(|_| unfit(v, "int32"))?),
                Number::U32 => each!($from, |v| u32::try_from(v).map_err(|_| unfit(v, "uint32"))?),
                Number::I64 => each!($from, |v| i64::try_from(v).map_err(|_| unfit(v, "int64"))?),
                Number::U64 => each!($from, |v| u64::try_from(v).map_err(|_| unfit(v, "uint64"))?),
                Number::F32 | Number::F64 => Err(mismatch()),
            }
        };
    }
    match (from, to) {
        (Number::Bool | Number::U8, _) => integers!(u8),
        (Number::I8, _) => integers!(i8),
        (Number::I16, _) => integers!(i16),
        (Number::U16, _) => integers!(u16),
        (Number::I32, _) => integers!(i32),
        (Number::U32, _) => integers!(u32),
        (Number::I64, _) => integers!(i64),
        (Number::U64, _) => integers!(u64),
        (Number::F32, Number::F64) => each!(f32, |v| f64::from(v)),
        (Number::F64, Number::F32) => each!(f64, |v| {
            let single = v as f32;
            if single.classify() != v.classify() {
                return Err(Error::limit(format!("the stored value {v} does not fit into float32")));
            }
            single
        }),
        (Number::F32 | Number::F64, _) => Err(mismatch()),
    }
}

fn unfit(value: impl std::fmt::Display, kind: &str) -> Error {
    Error::limit(format!("the stored value {value} does not fit into {kind}"))
}

fn mismatch() -> Error {
    Error::unsupported("real numbers cannot be read as integers, nor integers as real numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: u16, bits: u16, page: &[u8], number: Number, n: usize) -> Result<Vec<u8>> {
        let encoding = Encoding::of(kind, bits, Some((-1.0, 1.0)))?;
        let mut out = vec![0xaa; n * number.size()];
        decode(encoding, page, number, &mut out).map(|()| out)
    }
    fn bytes<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&v| bytes(v)).collect()
    }
    fn split(size: usize, plain: &[u8]) -> Vec<u8> {
        (0..size).flat_map(|i| plain.iter().skip(i).step_by(size).copied()).collect()
    }

    #[test]
    fn split_numbers_of_every_length() {
        // Lengths below, at and above the number of elements joined at a time.
        for n in [0, 1, 17, 255, 256, 257, 1000] {
            // The elements of a block in the middle are small.
            let large = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let value = |i| if (256..512).contains(&i) { large(i) >> 40 } else { large(i) };
            let values: Vec<u64> = (0..n).map(value).collect();
            let two = bytes(&values, |v| (v as u16).to_le_bytes());
            let four = bytes(&values, |v| (v as u32).to_le_bytes());
            let eight = bytes(&values, u64::to_le_bytes);
            assert_eq!(read(0x12, 16, &split(2, &two), Number::U16, n as usize).unwrap(), two);
            assert_eq!(read(0x14, 32, &split(4, &four), Number::U32, n as usize).unwrap(), four);
            assert_eq!(read(0x16, 64, &split(8, &eight), Number::U64, n as usize).unwrap(), eight);
        }
    }

    #[test]
    fn zigzag_and_delta() {
        let stored = [0u32, 1, 2, 3, u32::MAX - 1, u32::MAX];
        let page = split(4, &bytes(&stored, u32::to_le_bytes));
        let want = bytes(&[0i32, -1, 1, -2, i32::MAX, i32::MIN], i32::to_le_bytes);
        assert_eq!(read(0x13, 32, &page, Number::I32, 6).unwrap(), want);
        let page = split(8, &bytes(&[5u64, 0, 3], u64::to_le_bytes));
        assert_eq!(read(0x1b, 64, &page, Number::I64, 3).unwrap(), bytes(&[5i64, 5, 8], i64::to_le_bytes));
        let page = split(4, &bytes(&[5u32, 0, 3], u32::to_le_bytes));
        assert_eq!(read(0x1a, 32, &page, Number::I64, 3).unwrap(), bytes(&[5i64, 5, 8], i64::to_le_bytes));
    }

    #[test]
    fn bits_are_lowest_first() {
        assert_eq!(read(0, 1, &[0b101, 0b10], Number::Bool, 10).unwrap(), [1, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(read(0, 1, &[0b10], Number::U16, 2).unwrap(), [0, 0, 1, 0]);
        for byte in 0..=u8::MAX {
            let want: Vec<u8> = (0..8).map(|i| byte >> i & 1).collect();
            assert_eq!(read(0, 1, &[byte], Number::Bool, 8).unwrap(), want);
        }
    }

    #[test]
    fn packed_real_numbers() {
        // Three elements of ten bits: sign, exponent and one bit of the mantissa.
        let raw: Vec<u32> = [1.5f32, -2.0, 0.0].iter().map(|v| v.to_bits() >> 22).collect();
        let all = raw[0] | raw[1] << 10 | raw[2] << 20;
        let want = bytes(&[1.5f32, -2.0, 0.0], f32::to_le_bytes);
        assert_eq!(read(0x1c, 10, &all.to_le_bytes(), Number::F32, 3).unwrap(), want);
        let want = bytes(&[1.5f64, -2.0, 0.0], f64::to_le_bytes);
        assert_eq!(read(0x1c, 10, &all.to_le_bytes(), Number::F64, 3).unwrap(), want);
        // Eight steps from -1 to 1; the bits of an element may span two words.
        let steps: Vec<u32> = (0..24).map(|i| i % 8).collect();
        let mut page = vec![0u8; 9];
        steps.iter().enumerate().for_each(|(i, s)| {
            (0..3).for_each(|b| page[(3 * i + b) / 8] |= ((s >> b & 1) as u8) << ((3 * i + b) % 8));
        });
        let scale = 2.0 / 7.0;
        let want: Vec<f64> = steps.iter().map(|&s| (f64::from(s) * scale - 1.0).min(1.0)).collect();
        assert_eq!(read(0x1d, 3, &page, Number::F64, 24).unwrap(), bytes(&want, f64::to_le_bytes));
        let single = bytes(&want, |v| (v as f32).to_le_bytes());
        assert_eq!(read(0x1d, 3, &page, Number::F32, 24).unwrap(), single);
        let full = bytes(&[0u32, u32::MAX], u32::to_le_bytes);
        assert_eq!(read(0x1d, 32, &full, Number::F64, 2).unwrap(), bytes(&[-1f64, 1.0], f64::to_le_bytes));
    }

    #[test]
    fn half_precision() {
        let halves = [0u16, 1, 0x3ff, 0x400, 0x3c00, 0xc000, 0x7bff, 0x7c00, 0xfc00, 0x8000];
        let want = [
            0.0,
            2f32.powi(-24),
            1023.0 * 2f32.powi(-24),
            2f32.powi(-14),
            1.0,
            -2.0,
            65504.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            -0.0,
        ];
        let page = bytes(&halves, u16::to_le_bytes);
        assert_eq!(read(0x0b, 16, &page, Number::F32, 10).unwrap(), bytes(&want, f32::to_le_bytes));
        assert_eq!(
            read(0x17, 16, &split(2, &page), Number::F32, 10).unwrap(),
            bytes(&want, f32::to_le_bytes)
        );
        assert!(half_to_float(0x7e00).is_nan());
    }

    #[test]
    fn some_elements_of_a_page_are_those_among_all() {
        let kinds = NAMES.iter().zip(0..).filter(|((name, ..), _)| *name != "switch");
        for ((name, least, most), kind) in kinds {
            let encoding = Encoding::of(kind, (least + most) / 2, Some((-3.0, 5.0))).unwrap();
            let natural = encoding.natural();
            let items = 301;
            let size = encoding.stored_bytes(items as u64).unwrap();
            let page: Vec<u8> = (0..size).map(|i| (i * i + 7 * i) as u8).collect();
            let mut all = vec![0; items * natural.size()];
            decode(encoding, &page, natural, &mut all).unwrap();
            let mut joined = page.clone();
            if encoding.joined().is_some() {
                join(encoding, &page, &mut joined);
            }
            for (from, to) in [(0, items), (0, 1), (7, 8), (8, 300), (255, 258), (items, items)] {
                let want = &all[from * natural.size()..to * natural.size()];
                for (encoding, page) in [(encoding, &page), (encoding.joined().unwrap_or(encoding), &joined)]
                {
                    let mut some = vec![0; want.len()];
                    decode_some(encoding, page, items, (from, to), natural, &mut some).unwrap();
                    assert_eq!(some, want, "{name} {from}..{to}");
                }
            }
            assert!(decode_some(encoding, &page[..size - 1], items, (8, items), natural, &mut all).is_err());
        }
    }

    #[test]
    fn every_integer_is_read_as_every_other_or_refused() {
        let page = bytes(&[-1i32, 100], i32::to_le_bytes);
        assert_eq!(read(0x07, 32, &page, Number::I64, 2).unwrap(), bytes(&[-1i64, 100], i64::to_le_bytes));
        assert_eq!(read(0x07, 32, &page, Number::I8, 2).unwrap(), [255, 100]);
        assert_eq!(read(0x07, 32, &page, Number::Bool, 2).unwrap(), [1, 1]);
        let error = read(0x07, 32, &page, Number::U8, 2).unwrap_err();
        assert!(error.to_string().contains("-1 does not fit into uint8"), "{error}");
        assert!(read(0x07, 32, &page, Number::F32, 2).is_err());
        let large = bytes(&[1e300f64], f64::to_le_bytes);
        assert!(read(0x0d, 64, &large, Number::F32, 1).is_err());
    }

    #[test]
    fn wrong_column_types_are_refused() {
        assert!(Encoding::of(0x1e, 8, None).unwrap_err().to_string().contains("unknown"));
        assert!(Encoding::of(0x07, 31, None).is_err());
        assert!(Encoding::of(0x1c, 9, None).is_err());
        assert!(Encoding::of(0x1d, 8, None).is_err());
        assert!(Encoding::of(0x1d, 8, Some((f64::NAN, 1.0))).is_err());
        assert!(Encoding::of(0x1d, 8, Some((1.0, 0.0))).is_err());
    }
}
