//! The record of a basket (`TBasket`): a key, five numbers, the values of some entries, and where each entry
//! starts.

use crate::array::Number;
use crate::compress::decode;
use crate::error::{Error, Result};
use crate::streamer::Value;
use crate::streamer::name::Name;
use crate::wire::Cursor;
use std::ops::Range;

/// The uncompressed start of a basket's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasketHeader {
    /// Bytes of the record (`fNbytes`).
    pub total_bytes: usize,
    /// Bytes after decompression (`fObjlen`).
    pub object_bytes: usize,
    /// Bytes of the header (`fKeylen`).
    pub key_bytes: usize,
    /// Entries (`fNevBuf`).
    pub entries: usize,
    /// One past the last byte of values, counted from the start of the record (`fLast`).
    pub last: usize,
    /// The table has the sizes of entries instead of their offsets (`TIOFeatures::kGenerateOffsetMap`, where they
    /// cannot be generated).
    pub sizes: bool,
}

impl BasketHeader {
    /// Parses the start of a record.
    pub fn parse(c: &mut Cursor<'_>) -> Result<Self> {
        let start = c.pos();
        let total = c.i32()?;
        let version = c.u16()?;
        let object = c.i32()?;
        c.skip(4)?;
        let key_bytes = usize::from(c.u16()?);
        c.skip(2 + if version > 1000 { 16 } else { 8 })?;
        for _ in 0..3 {
            c.string_bytes()?;
        }
        let (entries, last, bits) = numbers(c)?;
        let header = Self {
            total_bytes: usize::try_from(total).unwrap_or(0),
            object_bytes: usize::try_from(object).unwrap_or(0),
            key_bytes,
            entries,
            last,
            sizes: bits & 1 != 0,
        };
        let sound =
            total >= 0 && object >= 0 && key_bytes <= header.total_bytes && c.pos() - start <= key_bytes;
        if !sound || last < key_bytes || last - key_bytes > header.object_bytes {
            return Err(c.corrupt(format!(
                "a basket of {total} bytes, {key_bytes} of them its header, whose values end at {last} of {object}"
            )));
        }
        Ok(header)
    }
    /// Bytes of values (the rest of the object is the table of entry offsets).
    pub fn border(&self) -> usize {
        self.last - self.key_bytes
    }
}

/// Version, buffer sizes and the flag of `TBasket::Streamer`; gives entries, last byte and input-output features.
fn numbers(c: &mut Cursor<'_>) -> Result<(usize, usize, u8)> {
    c.skip(6)?;
    let offsets = c.i32()?;
    // Input-output features follow a size with its sign set.
    let bits = if offsets < 0 { c.u8()? } else { 0 };
    let entries = c.i32()?;
    let last = c.i32()?;
    match (usize::try_from(entries), usize::try_from(last)) {
        (Ok(entries), Ok(last)) => Ok((entries, last, bits)),
        _ => Err(c.corrupt(format!("a basket of {entries} entries that ends at byte {last}"))),
    }
}

/// A basket's values and entry offsets.
pub struct Values<'a> {
    /// The values.
    pub data: &'a [u8],
    /// Big-endian offsets of the entries from the start of the record, if there is a table.
    pub offsets: Option<&'a [u8]>,
    /// What to subtract from the offsets.
    pub key_bytes: usize,
    /// Entries.
    pub entries: usize,
    /// The table has the size of the entry before instead of an offset; the first word means nothing.
    pub sizes: bool,
}

impl<'a> Values<'a> {
    /// Splits a decompressed object at the border between values and offsets.
    pub fn split(header: &BasketHeader, object: &'a [u8]) -> Result<Self> {
        let (data, rest) = object
            .split_at_checked(header.border())
            .ok_or_else(|| Error::corrupt("a basket shorter than its values"))?;
        // The table is an array with its length before it; the length counts one more than the entries or not.
        let offsets = match rest.split_first_chunk::<4>() {
            Some((_, table)) if table.len() / 4 >= header.entries => table.get(..header.entries * 4),
            _ => None,
        };
        let BasketHeader { key_bytes, entries, sizes, .. } = *header;
        Ok(Self { data, offsets, key_bytes, entries, sizes })
    }

    /// Where an entry starts, if there is a table.
    pub fn start(&self, entry: usize) -> Option<usize> {
        let words = self.offsets?.as_chunks::<4>().0;
        if self.sizes {
            let before = words.get(..=entry)?.iter().skip(1);
            return Some(before.map(|word| u32::from_be_bytes(*word) as usize).sum());
        }
        Some(u32::from_be_bytes(*words.get(entry)?).wrapping_sub(self.key_bytes as u32) as usize)
    }

    /// Where some entries start; nothing if there is no table.
    pub fn starts(&self, entries: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let table = self.offsets.unwrap_or_default().as_chunks::<4>().0;
        let (sizes, key) = (self.sizes, self.key_bytes as u32);
        let mut last = 0u32;
        let all = table.iter().enumerate().map(move |(i, word)| {
            let word = u32::from_be_bytes(*word);
            last = match (sizes, i) {
                (false, _) => word.wrapping_sub(key),
                (true, 0) => 0,
                (true, _) => last.saturating_add(word),
            };
            (i, last as usize)
        });
        all.take(entries.end).skip(entries.start)
    }

    /// The entries from one to another, as a basket of these.
    pub fn of_entries(&self, from: usize, to: usize) -> Result<Values<'a>> {
        let wrong = || Error::corrupt("entry offsets of a basket do not rise within its values");
        let start = self.start(from).ok_or_else(wrong)?;
        let end = if to == self.entries { self.data.len() } else { self.start(to).ok_or_else(wrong)? };
        let data = self.data.get(start..end).ok_or_else(wrong)?;
        let offsets = self.offsets.and_then(|table| table.get(from * 4..to * 4));
        Ok(Values { data, offsets, key_bytes: self.key_bytes + start, entries: to - from, sizes: self.sizes })
    }

    /// Start of each entry and end of the last, checked to rise and stay within the values.
    pub fn bounds(&self) -> Result<Option<Vec<u32>>> {
        let Some(table) = self.offsets else { return Ok(None) };
        let (table, _) = table.as_chunks::<4>();
        let mut bounds = Vec::with_capacity(table.len() + 1);
        let border = self.data.len() as u32;
        let key = self.key_bytes as u32;
        let mut wrong = false;
        let mut last = 0u32;
        for (i, word) in table.iter().enumerate() {
            let word = u32::from_be_bytes(*word);
            let start = match (self.sizes, i) {
                (false, _) => word.wrapping_sub(key),
                (true, 0) => 0,
                (true, _) => last.saturating_add(word),
            };
            wrong |= start < last || start > border;
            last = start;
            bounds.push(start);
        }
        bounds.push(border);
        if wrong {
            return Err(Error::corrupt(format!(
                "entry offsets of a basket do not rise within its {border} bytes"
            )));
        }
        Ok(Some(bounds))
    }
}

/// The object of a record: as stored, or decompressed into `scratch`.
pub fn object<'a>(header: &BasketHeader, record: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<&'a [u8]> {
    let stored = record.get(header.key_bytes..header.total_bytes).ok_or_else(|| {
        Error::corrupt(format!("a basket of {} bytes in {}", header.total_bytes, record.len()))
    })?;
    if stored.len() == header.object_bytes {
        return Ok(stored);
    }
    decode::verify_size(stored, header.object_bytes)?;
    if scratch.len() < header.object_bytes {
        let more = header.object_bytes - scratch.len();
        if scratch.try_reserve(more).is_err() {
            return Err(Error::limit(format!("no memory for a basket of {} bytes", header.object_bytes)));
        }
        scratch.resize(header.object_bytes, 0);
    }
    let out = scratch.get_mut(..header.object_bytes).unwrap_or_default();
    decode::decompress(stored, out)?;
    Ok(out)
}

/// A basket inside the tree object (the tree was written while it was filled): never compressed.
///
/// Gives the members that [`Embedded::from_members`] takes.
pub fn embedded(c: &mut Cursor<'_>) -> Result<Vec<(Name, Value)>> {
    let key_bytes = crate::file::Key::parse(c)?.key_bytes;
    c.skip(6)?;
    let nev_size = c.i32()?;
    let sizes = nev_size < 0 && c.u8()? & 1 != 0;
    let entries = c.count(0)?;
    let last = c.count(0)?;
    let mut flag = c.u8()?;
    let mut offsets = Vec::new();
    let generated = flag >= 80;
    if generated {
        flag -= 80;
    }
    if !generated && flag != 0 && flag % 10 != 2 {
        if entries > 0 {
            let n = c.count(4)?;
            offsets = c.take(n * 4)?.to_vec();
        }
        if sizes {
            let mut start = key_bytes.into();
            for (i, word) in offsets.as_chunks_mut::<4>().0.iter_mut().enumerate() {
                start = if i == 0 { start } else { u32::from_be_bytes(*word).saturating_add(start) };
                *word = start.to_be_bytes();
            }
        }
        if (21..40).contains(&flag) {
            for word in offsets.as_chunks_mut::<4>().0 {
                let [high, ..] = word;
                *high = 0;
            }
        }
        if flag > 40 {
            let n = c.count(4)?;
            c.skip(n * 4)?;
        }
    }
    let data = if flag == 1 || flag > 10 { c.take(last)?.to_vec() } else { Vec::new() };
    Ok(vec![
        ("fNevBuf".into(), Value::Int(entries as i64)),
        ("fKeylen".into(), Value::Int(key_bytes.into())),
        ("fOffsets".into(), Value::Numbers(Number::U8, offsets)),
        ("fBuffer".into(), Value::Numbers(Number::U8, data)),
    ])
}

/// A basket inside the tree object.
#[derive(Debug, Clone, Default)]
pub struct Embedded {
    /// Entries.
    pub entries: usize,
    key_bytes: usize,
    offsets: Vec<u8>,
    data: Vec<u8>,
}

impl Embedded {
    /// From what [`embedded`] gave; nothing when the basket has no entries.
    pub fn from_members(members: &[(Name, Value)]) -> Option<Self> {
        let bytes = |name: &str| match members.iter().find(|(n, _)| *n == name) {
            Some((_, Value::Numbers(_, bytes))) => bytes.as_slice(),
            _ => &[],
        };
        let size = |name: &str| match members.iter().find(|(n, _)| *n == name) {
            Some((_, Value::Int(n))) => usize::try_from(*n).ok(),
            _ => None,
        };
        let (entries, key_bytes) = (size("fNevBuf")?, size("fKeylen")?);
        let buffer = bytes("fBuffer");
        let data = buffer.get(key_bytes..)?.to_vec();
        let found = Self { entries, key_bytes, offsets: bytes("fOffsets").to_vec(), data };
        (entries > 0).then_some(found)
    }
    /// Values and offsets.
    pub fn values(&self) -> Values<'_> {
        let table = self.offsets.get(..self.entries * 4);
        let Self { entries, key_bytes, data, .. } = self;
        Values { data, offsets: table, key_bytes: *key_bytes, entries: *entries, sizes: false }
    }
}
