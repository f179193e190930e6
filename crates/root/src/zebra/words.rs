//! 32-bit words in one byte order, the unit of everything in these formats.

use crate::error::{Error, Result};
use crate::wire::{cursor, grow};

/// Byte order of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Exchange mode.
    Big,
    /// Native mode of the machines that wrote native files.
    Little,
}

/// A view of words; indices count from 0.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    bytes: &'a [u8],
    order: Order,
    /// Byte offset of the first word, for error messages.
    origin: u64,
}

impl<'a> Words<'a> {
    /// Creates a view of `bytes`; the first has the offset `origin`. Bytes after the last whole word are ignored.
    pub fn new(bytes: &'a [u8], order: Order, origin: u64) -> Self {
        Self { bytes, order, origin }
    }
    /// Number of words.
    pub fn len(&self) -> usize {
        self.bytes.len() / 4
    }
    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The byte order.
    pub fn order(&self) -> Order {
        self.order
    }
    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
    /// Byte offset of a word, for error messages.
    pub fn offset(&self, index: usize) -> u64 {
        self.origin.saturating_add(4u64.saturating_mul(index as u64))
    }
    /// Returns an error located at a word.
    pub fn corrupt(&self, index: usize, message: impl Into<String>) -> Error {
        Error::corrupt(message).at(self.offset(index))
    }
    #[inline]
    fn array<const N: usize>(&self, index: usize) -> Option<[u8; N]> {
        self.bytes.get(index.checked_mul(4)?..)?.first_chunk::<N>().copied()
    }
    /// Returns a word, if it exists.
    #[inline]
    pub fn get(&self, index: usize) -> Option<u32> {
        let bytes = self.array::<4>(index)?;
        Some(match self.order {
            Order::Big => u32::from_be_bytes(bytes),
            Order::Little => u32::from_le_bytes(bytes),
        })
    }
    /// Returns a word.
    #[inline]
    pub fn word(&self, index: usize) -> Result<u32> {
        self.get(index).ok_or_else(|| self.missing(index, 1))
    }
    #[cold]
    fn missing(&self, index: usize, count: usize) -> Error {
        self.corrupt(
            index,
            format!("expected {count} words at word {index}, but there are only {}", self.len()),
        )
        .short()
    }
    /// Returns a word as a signed integer.
    pub fn int(&self, index: usize) -> Result<i32> {
        Ok(self.word(index)?.cast_signed())
    }
    /// Returns a word as a float.
    pub fn float(&self, index: usize) -> Result<f32> {
        Ok(f32::from_bits(self.word(index)?))
    }
    /// Returns two words as a double.
    pub fn double(&self, index: usize) -> Result<f64> {
        let bytes = self.array::<8>(index).ok_or_else(|| self.missing(index, 2))?;
        Ok(match self.order {
            Order::Big => f64::from_be_bytes(bytes),
            Order::Little => f64::from_le_bytes(bytes),
        })
    }
    /// Returns a word as a count of words that follow the word `behind`; refuses a count beyond the available words.
    pub fn count(&self, index: usize, behind: usize) -> Result<usize> {
        let count = self.word(index)? as usize;
        if count > self.len().saturating_sub(behind) {
            let left = self.len().saturating_sub(behind);
            return Err(self.corrupt(
                index,
                format!("a count of {count} words is larger than the remaining {left} words"),
            ));
        }
        Ok(count)
    }
    /// Returns some of the words.
    pub fn slice(&self, start: usize, count: usize) -> Result<Words<'a>> {
        let range = start.checked_mul(4).zip(start.checked_add(count).and_then(|end| end.checked_mul(4)));
        let bytes = range.and_then(|(start, end)| self.bytes.get(start..end));
        let bytes = bytes.ok_or_else(|| self.missing(start, count))?;
        Ok(Words { bytes, order: self.order, origin: self.offset(start) })
    }
    /// Returns the words from an index to the end.
    #[must_use]
    pub fn from(&self, start: usize) -> Words<'a> {
        let bytes = self.bytes.get(start.saturating_mul(4)..).unwrap_or_default();
        Words { bytes, order: self.order, origin: self.offset(start) }
    }
    /// Iterates over all words.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + use<'a> {
        let order = self.order;
        self.bytes.as_chunks::<4>().0.iter().map(move |bytes| match order {
            Order::Big => u32::from_be_bytes(*bytes),
            Order::Little => u32::from_le_bytes(*bytes),
        })
    }
    /// Returns the words as floats.
    pub fn floats(&self) -> Result<Vec<f32>> {
        grow::collected(self.iter().map(f32::from_bits))
    }
    /// Returns the text of the words: four characters a word, in byte order, without trailing blanks and zeros.
    pub fn text(&self) -> Result<String> {
        hollerith(self.bytes)
    }
}

/// Returns a text without trailing blanks and zeros. Bytes that are not UTF-8 are read as Latin-1.
pub fn hollerith(bytes: &[u8]) -> Result<String> {
    let end = bytes.iter().rposition(|&byte| byte != b' ' && byte != 0).map_or(0, |last| last + 1);
    cursor::text(bytes.get(..end).unwrap_or_default())
}

/// The 6-bit characters of RZ names, tags and keys, by code.
const SIX_BITS: &[u8; 64] = b" ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-*/()$= ,.#'!:\"_]&@?[><\\^;";

/// Decodes a 6-bit name, four characters a word, without trailing blanks.
pub fn six_bit(words: impl Iterator<Item = u32>) -> String {
    let mut text = String::new();
    for word in words {
        for place in 0..4 {
            let code = (word >> (6 * place) & 63) as usize;
            text.push(SIX_BITS.get(code).copied().map_or('?', char::from));
        }
    }
    text.truncate(text.trim_end().len());
    text
}

/// Encodes a word in the 6-bit code.
pub fn to_six_bit(text: &[u8; 4]) -> u32 {
    let mut word = 0;
    for (place, byte) in text.iter().enumerate() {
        let byte = match byte.to_ascii_uppercase() {
            b'{' => b'(',
            b'|' => b')',
            b'}' => b'/',
            b'%' => b':',
            other => other,
        };
        let code = match byte {
            b' ' if place == 0 => 45,
            b' ' => 0,
            other => SIX_BITS.iter().rposition(|&known| known == other).unwrap_or(57),
        };
        word |= (code as u32) << (6 * place);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_both_orders_and_never_past_the_end() {
        let bytes = [0x3f, 0x80, 0, 0, 0, 0, 0, 2, 9];
        let big = Words::new(&bytes, Order::Big, 100);
        assert_eq!((big.len(), big.float(0).unwrap(), big.word(1).unwrap()), (2, 1.0, 2));
        assert_eq!(Words::new(&bytes, Order::Little, 0).word(1).unwrap(), 0x0200_0000);
        assert!(big.word(2).unwrap_err().to_string().ends_with("(at byte 108)"));
        assert!(big.double(1).is_err() && big.slice(1, 2).is_err() && big.slice(usize::MAX, 2).is_err());
        assert_eq!(big.slice(1, 1).unwrap().offset(0), 104);
        assert!(big.count(1, 1).is_err() && big.count(1, 0).is_ok());
    }

    #[test]
    fn names_in_six_bits_come_back() {
        for (name, back) in [("HBOO", "HBOO"), ("a_1-", "A_1-"), ("A", "A"), (" B", " B"), ("X{}%", "X(/:")] {
            let mut bytes = *b"    ";
            bytes[..name.len()].copy_from_slice(name.as_bytes());
            assert_eq!(six_bit([to_six_bit(&bytes)].into_iter()), back);
        }
        assert_eq!(to_six_bit(b"HBOO"), 8 | 2 << 6 | 15 << 12 | 15 << 18);
    }
}
