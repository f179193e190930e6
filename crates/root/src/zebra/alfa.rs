//! ALFA: physical records as lines of text, for networks that carried text only.

use super::fz::MAGIC;
use crate::error::{Error, Result};

/// Words of a physical record.
const WORDS: usize = 900;
/// Maximum bytes of a record's lines: every word in seven characters, line ends, type codes.
pub const LONGEST: usize = 16 << 10;
/// Characters by their code.
const CODES: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-*/()$= ,.#'!:\"_]&@?[><\\^;%`";

fn code(byte: u8) -> Option<u32> {
    CODES.iter().position(|&known| known == byte).map(|place| place as u32)
}

/// The characters of one record, line by line.
struct Characters<'a> {
    text: &'a [u8],
    at: usize,
    /// End of the current line.
    end: usize,
    last: bool,
}

impl Characters<'_> {
    fn open_line(&mut self) -> Result<()> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        if length == 0 {
            return Err(Error::corrupt("the text record ends too early").short());
        }
        self.end = self.at + length;
        Ok(())
    }
    fn next(&mut self) -> Result<u8> {
        while self.at >= self.end {
            if self.last {
                return Err(Error::corrupt("the last line of the text record ends too early"));
            }
            self.at = self.end + 1;
            self.open_line()?;
            self.last = self.text.get(self.at) == Some(&b'<');
            self.at += 1;
        }
        let byte = self.text.get(self.at).copied().unwrap_or(b' ');
        self.at += 1;
        Ok(byte)
    }
    fn value(&mut self) -> Result<u32> {
        let byte = self.next()?;
        code(byte).filter(|&code| code < 32).ok_or_else(|| unexpected(byte))
    }
}

fn unexpected(byte: u8) -> Error {
    Error::corrupt(format!("expected a word, found the character {:?}", char::from(byte)))
}

fn small(characters: &mut Characters<'_>, count: u32) -> Result<u32> {
    let mut value = 0;
    for _ in 0..count {
        value = value << 5 | characters.value()?;
    }
    Ok(value)
}

/// Decodes a word that starts with a character.
fn word(characters: &mut Characters<'_>, byte: u8) -> Result<u32> {
    let c = code(byte).ok_or_else(|| unexpected(byte))?;
    Ok(match c {
        0..=19 => {
            let (upper, omitted) = (c / 5, c % 5);
            let value = small(characters, 6 - omitted)?;
            upper << 30 | (value << (5 * omitted) & 0x3fff_ffff)
        }
        20..=24 => small(characters, 5 - (c - 20))?,
        26..=35 => c - 26,
        36..=40 => {
            let count = 5 - (c - 36);
            small(characters, count)? | u32::MAX.checked_shl(5 * count).unwrap_or(0)
        }
        _ => return Err(unexpected(byte)),
    })
}

/// Decodes the lines of one record and returns their number of bytes; 0 at the end of the text.
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<usize> {
    out.clear();
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(0);
    }
    let mut characters = Characters { text, at: 0, end: 0, last: false };
    characters.open_line()?;
    let opening = (characters.next()?, characters.next()?, characters.next()?);
    let steering = match opening {
        (b'>' | b'<', b'>', b'1') => true,
        (b'>' | b'<', b'>', b'0') => false,
        _ => return Err(Error::corrupt("the line does not start a text record")),
    };
    characters.last = opening.0 == b'<';
    let mut sums = (0u32, 0u32);
    let mut count = |word: u32| {
        sums = (sums.0.wrapping_add(word >> 16), sums.1.wrapping_add(word & 0xffff));
    };
    let mut words: Vec<u32> = if steering { MAGIC.to_vec() } else { Vec::new() };
    let mut group: Option<u8> = None;
    loop {
        let byte = characters.next()?;
        match byte {
            b'<' if group.is_none() => break,
            b'[' if group.is_none() => group = Some(characters.next()?),
            b']' if group.is_some() => group = None,
            b'=' => {
                let start = characters.next()?;
                let times = word(&mut characters, start)?;
                count(times);
                let last =
                    *words.last().ok_or_else(|| Error::corrupt("a repetition without a word before it"))?;
                if times as usize >= WORDS.saturating_sub(words.len()) {
                    return Err(Error::corrupt(format!(
                        "a word is repeated {times} times, but a text record has {WORDS} words"
                    )));
                }
                words.extend(std::iter::repeat_n(last, times as usize + 1));
            }
            byte => {
                let value = match group {
                    // The type is given once for the group: the character is the first of the word's value.
                    Some(kind) => {
                        characters.at -= 1;
                        word(&mut characters, kind)?
                    }
                    None => word(&mut characters, byte)?,
                };
                count(value);
                words.push(value);
            }
        }
        if words.len() > WORDS {
            return Err(Error::corrupt(format!("the text record has more than {WORDS} words")));
        }
    }
    let mut sum = || {
        let start = characters.next()?;
        word(&mut characters, start)
    };
    let stored = (sum()?, sum()?);
    if stored != sums {
        return Err(Error::corrupt(format!(
            "the checksums of the text record are {sums:?}, expected {stored:?}"
        )));
    }
    words.resize(WORDS, 0);
    out.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    Ok((characters.end + 1).min(text.len()))
}
