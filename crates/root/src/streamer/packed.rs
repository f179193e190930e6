//! `Float16_t` and `Double32_t`: numbers that take fewer bytes on disk than in memory.
//!
//! A member's comment may contain `[low, high, bits]`. With a range, a 32-bit integer on disk counts steps from `low`.
//! With bits only, an exponent byte and a truncated mantissa are stored (`TBufferFile::WriteFloat16`, `WriteDouble32`).

use crate::array::Number;
use crate::error::{Error, Result};
use crate::wire::grow::Grow;

/// The packing of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Packing {
    single: bool,
    form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Float,
    Truncated { bits: u32 },
    Steps { low: f64, high: f64, factor: f64, most: u32 },
}

impl Packing {
    /// Returns the packing of a `Float16_t` (`single`) or `Double32_t` member whose comment or title is `title`.
    pub fn of(single: bool, title: &str) -> Self {
        let range = bracket(title);
        let form = match range {
            None if single => Form::Truncated { bits: 12 },
            None => Form::Float,
            Some((low, high, bits)) => {
                let bits = bits.unwrap_or(32);
                let bits = if (2..=32).contains(&bits) { bits } else { 32 };
                if low < high {
                    let most = if bits < 32 { 1 << bits } else { u32::MAX };
                    Form::Steps { low, high, factor: f64::from(most) / (high - low), most }
                } else {
                    // If the lower end is not below the upper one, ROOT interprets it as a number of bits.
                    match if bits < 15 { bits } else { low as u32 } {
                        bits @ 1..=22 => Form::Truncated { bits },
                        _ if single => Form::Truncated { bits: 12 },
                        _ => Form::Float,
                    }
                }
            }
        };
        Self { single, form }
    }
    /// Parses the text inside the brackets as a packing.
    pub fn ranged(single: bool, range: &str) -> Option<Self> {
        let bracketed = format!("[{range}]");
        bracket(&bracketed)?;
        Some(Self::of(single, &bracketed))
    }
    /// Verifies that a float holds the ends of a range, its width, and the number of steps for each unit.
    pub fn check_range(single: bool, low: f64, high: f64) -> Result<()> {
        let limits = if single {
            (f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX))
        } else {
            (f64::MIN_POSITIVE, f64::MAX)
        };
        let is_held = |end: &f64| *end == 0.0 || (limits.0..=limits.1).contains(&end.abs());
        let (width, most) = (high - low, f64::from(u32::MAX));
        if [low, high].iter().all(is_held) && width.is_finite() && (most / width).is_finite() {
            return Ok(());
        }
        Err(Error::argument(format!("no float holds the steps of the range from {low:e} to {high:e}")))
    }
    /// Parses lowest value, highest value and number of bits from the text inside the brackets.
    pub fn range(range: &str) -> Option<(f64, f64, Option<u32>)> {
        bracket(&format!("[{range}]"))
    }
    /// Returns lowest value, highest value and number of bits as used for decoding. Without a range both values are 0.
    /// Returns `None` for a plain `float`.
    pub const fn spec(self) -> Option<(f64, f64, u32)> {
        match self.form {
            Form::Float => None,
            Form::Truncated { bits } => Some((0.0, 0.0, bits)),
            Form::Steps { low, high, most: u32::MAX, .. } => Some((low, high, 32)),
            Form::Steps { low, high, most, .. } => Some((low, high, most.trailing_zeros())),
        }
    }
    /// Bytes on disk.
    pub const fn disk_bytes(self) -> usize {
        match self.form {
            Form::Truncated { .. } => 3,
            Form::Float | Form::Steps { .. } => 4,
        }
    }
    /// Number type in memory.
    pub const fn number(self) -> Number {
        if self.single { Number::F32 } else { Number::F64 }
    }
    /// Unpacks numbers to native ones, up to the end of the shorter slice.
    pub fn decode(self, from: &[u8], to: &mut [u8]) {
        match self.form {
            Form::Truncated { bits } => {
                let (from, _) = from.as_chunks::<3>();
                self.store(from.iter().map(|c| f64::from(truncated(*c, bits))), to);
            }
            Form::Float => {
                let (from, _) = from.as_chunks::<4>();
                self.store(from.iter().map(|c| f64::from(f32::from_be_bytes(*c))), to);
            }
            Form::Steps { low, factor, .. } => {
                let (from, _) = from.as_chunks::<4>();
                self.store(from.iter().map(|c| f64::from(u32::from_be_bytes(*c)) / factor + low), to);
            }
        }
    }
    #[inline]
    fn store(self, values: impl Iterator<Item = f64>, to: &mut [u8]) {
        if self.single {
            let (to, _) = to.as_chunks_mut::<4>();
            for (to, value) in to.iter_mut().zip(values) {
                *to = (value as f32).to_ne_bytes();
            }
        } else {
            let (to, _) = to.as_chunks_mut::<8>();
            for (to, value) in to.iter_mut().zip(values) {
                *to = value.to_ne_bytes();
            }
        }
    }
    /// Packs native numbers and appends them; the inverse of [`Packing::decode`], up to rounding. Numbers outside a
    /// range are clamped to its ends.
    pub fn encode(self, from: &[u8], to: &mut Vec<u8>) -> Result<()> {
        to.room(from.len() / self.number().size() * self.disk_bytes())?;
        if self.single {
            let (from, _) = from.as_chunks::<4>();
            self.pack(from.iter().map(|c| f32::from_ne_bytes(*c).into()), to);
        } else {
            let (from, _) = from.as_chunks::<8>();
            self.pack(from.iter().map(|c| f64::from_ne_bytes(*c)), to);
        }
        Ok(())
    }
    fn pack(self, values: impl Iterator<Item = f64>, to: &mut Vec<u8>) {
        match self.form {
            Form::Truncated { bits } => values.for_each(|x| to.extend(truncate(x as f32, bits))),
            Form::Float => values.for_each(|x| to.extend((x as f32).to_be_bytes())),
            Form::Steps { low, factor, most, .. } => values.for_each(|x| {
                // The cast saturates at 0.
                let steps = (0.5 + factor * (x - low)) as u32;
                to.extend(steps.min(most).to_be_bytes());
            }),
        }
    }
    /// Converts one decoded number to a double.
    pub fn value(self, decoded: [u8; 8]) -> f64 {
        if self.single {
            let [a, b, c, d, ..] = decoded;
            f32::from_ne_bytes([a, b, c, d]).into()
        } else {
            f64::from_ne_bytes(decoded)
        }
    }
}

/// The inverse of [`truncated`] (`TBufferFile::WriteWithNbits`): the mantissa is rounded without carry.
fn truncate(value: f32, bits: u32) -> [u8; 3] {
    let word = value.to_bits();
    let kept = ((1 << (bits + 1)) - 1) & (word >> (22 - bits));
    let rounded = ((kept + 1) >> 1).min((1 << bits) - 1);
    let sign = if value < 0.0 { 1 << (bits + 1) } else { 0 };
    let [high, low] = ((rounded | sign) as u16).to_be_bytes();
    [(word << 1 >> 24) as u8, high, low]
}

/// Decodes an exponent byte, then sign and the upper bits of the mantissa, rounded.
fn truncated([exponent, high, low]: [u8; 3], bits: u32) -> f32 {
    let mantissa = u32::from(u16::from_be_bytes([high, low]));
    let word = u32::from(exponent) << 23 | (mantissa & ((1 << (bits + 1)) - 1)).wrapping_shl(23 - bits);
    let value = f32::from_bits(word);
    if mantissa & 1 << (bits + 1) == 0 { value } else { -value }
}

/// Whether a comment contains a range or a number of bits.
pub fn has_range(title: &str) -> bool {
    bracket(title).is_some()
}

/// Returns the text inside the first `[low, high]` or `[low, high, bits]` of a comment or title; array lengths do not
/// count. Titles of leaves have it with the type and name (`x/d[0,10,30]`) or, from ROOT 6.20, without the name.
pub fn range_text(title: &str) -> Option<&str> {
    let mut rest = title;
    while let Some((_, after)) = rest.split_once('[') {
        let (inside, after) = after.split_once(']')?;
        if matches!(inside.split(',').count(), 2 | 3) {
            return Some(inside);
        }
        rest = after;
    }
    None
}

fn bracket(title: &str) -> Option<(f64, f64, Option<u32>)> {
    let mut parts = range_text(title)?.split(',');
    let (low, high) = (number(parts.next()?)?, number(parts.next()?)?);
    Some((low, high, parts.next().and_then(|bits| bits.trim().parse().ok())))
}

/// Parses an end of a range. ROOT knows five multiples of `pi` and no other arithmetic (`TStreamerElement::GetRange`).
/// Any other text with `pi` in it counts as `pi`; in text without it, the number at the beginning counts.
fn number(text: &str) -> Option<f64> {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI, TAU};
    let text = text.trim();
    if text.contains("pi") {
        let has = |part: &str| text.contains(part);
        let value = match () {
            () if has("2pi") || has("2*pi") || has("twopi") => TAU,
            () if has("pi/2") => FRAC_PI_2,
            () if has("pi/4") => FRAC_PI_4,
            () => PI,
        };
        return Some(if has("-") { -value } else { value });
    }
    let is_part = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    text.split(|c| !is_part(c)).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_in_comments() {
        assert_eq!(bracket("[3] a range [0, 10, 12] of it"), Some((0.0, 10.0, Some(12))));
        assert_eq!(bracket("[-pi,pi/2]"), Some((-std::f64::consts::PI, std::f64::consts::FRAC_PI_2, None)));
        assert_eq!(
            bracket("[-2*pi, twopi, 8]"),
            Some((-std::f64::consts::TAU, std::f64::consts::TAU, Some(8)))
        );
        assert_eq!(bracket("[4*pi, 1/2]"), Some((std::f64::consts::PI, 1.0, None)));
        assert_eq!(bracket("[n] nothing"), None);
    }

    #[test]
    fn what_is_packed_comes_back() {
        for (single, title, tolerance) in [
            (true, "", 1.0 / 4096.0),
            (true, "[0,0,8]", 1.0 / 256.0),
            (true, "[-10,10,16]", 20.0 / 65536.0),
            (false, "", 1e-6),
            (false, "[0,0,14]", 1.0 / 8192.0),
            (false, "[-10,10]", 20.0 / 4e9),
            (false, "[-10,10,4]", 20.0 / 16.0),
        ] {
            let packing = Packing::of(single, title);
            for value in [0.0_f64, 1.5, -1.5, 3.999_999, -9.99, 10.0, 1.0 / 3.0] {
                let mut packed = Vec::new();
                let native: Vec<u8> =
                    if single { (value as f32).to_ne_bytes().into() } else { value.to_ne_bytes().into() };
                packing.encode(&native, &mut packed).unwrap();
                assert_eq!(packed.len(), packing.disk_bytes());
                let mut back = [0; 8];
                packing.decode(&packed, &mut back);
                let difference: f64 = packing.value(back) - value;
                assert!(difference.abs() <= tolerance * value.abs().max(1.0), "{title} {value} {difference}");
            }
        }
        let mut packed = Vec::new();
        Packing::of(false, "[0,1,8]")
            .encode(&[(-7.0_f64).to_ne_bytes(), 9.0_f64.to_ne_bytes()].concat(), &mut packed)
            .unwrap();
        assert_eq!(packed, [0, 0, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn forms() {
        let mut out = [0; 8];
        let steps = Packing::of(false, "[0,16,4]");
        steps.decode(&3u32.to_be_bytes(), &mut out);
        assert!((steps.value(out) - 3.0).abs() < 1e-12);
        let plain = Packing::of(false, "");
        plain.decode(&1.5f32.to_be_bytes(), &mut out);
        assert_eq!(plain.value(out).to_bits(), 1.5f64.to_bits());
        let half = Packing::of(true, "");
        assert_eq!(half.disk_bytes(), 3);
        // 1.5 = exponent 127, mantissa 0.5: bit 11 of 12; the sign is bit 13.
        half.decode(&[127, 0x08, 0x00], &mut out);
        assert_eq!(half.value(out).to_bits(), 1.5f64.to_bits());
        half.decode(&[127, 0x28, 0x00], &mut out);
        assert_eq!(half.value(out).to_bits(), (-1.5f64).to_bits());
    }
}
