//! The record of a basket (`TBasket`): a key, five numbers, the values of some entries, and the start of each entry.

use crate::compress::decode;
use crate::error::{Error, Result};
use crate::file::{Key, RootFile};
use crate::streamer::Value;
use crate::streamer::name::Name;
use crate::table::{Page, Unpacked};
use crate::wire::{Cursor, grow};
use sapwood_io::Cause;

/// The uncompressed head of a basket's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasketHeader {
    /// Bytes of the record (`fNbytes`).
    pub total_bytes: usize,
    /// Bytes after decompression (`fObjlen`).
    pub object_bytes: usize,
    /// Bytes of the header (`fKeylen`).
    pub key_bytes: usize,
    /// Number of entries (`fNevBuf`).
    pub entries: usize,
    /// One past the last byte of values, counted from the start of the record (`fLast`).
    pub last: usize,
    /// Whether the table holds the sizes of entries instead of their offsets (`TIOFeatures::kGenerateOffsetMap`, if the
    /// offsets cannot be generated).
    pub sizes: bool,
}

impl BasketHeader {
    /// Parses the head of a record.
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
    /// Number of bytes of values; the rest of the object is the table of entry offsets.
    pub fn border(&self) -> usize {
        self.last - self.key_bytes
    }
}

/// Parses version, buffer sizes and flag of `TBasket::Streamer`; returns entries, last byte and I/O features.
fn numbers(c: &mut Cursor<'_>) -> Result<(usize, usize, u8)> {
    c.skip(6)?;
    let offsets = c.i32()?;
    // I/O features follow a size with its sign bit set.
    let bits = if offsets < 0 { c.u8()? } else { 0 };
    let entries = c.i32()?;
    let last = c.i32()?;
    match (usize::try_from(entries), usize::try_from(last)) {
        (Ok(entries), Ok(last)) => Ok((entries, last, bits)),
        _ => Err(c.corrupt(format!("a basket of {entries} entries that ends at byte {last}"))),
    }
}

/// Verifies and decompresses the object of a record, and splits it into values and offsets.
pub fn unpack(record: &[u8], offset: u64, scratch: &mut Vec<u8>) -> Result<Unpacked> {
    let header = BasketHeader::parse(&mut Cursor::new(record, offset))?;
    let BasketHeader { key_bytes, total_bytes, object_bytes, entries, .. } = header;
    let stored = record.get(key_bytes..total_bytes);
    let stored = stored
        .ok_or_else(|| Error::corrupt(format!("a basket of {total_bytes} bytes in {}", record.len())))?;
    let in_scratch = stored.len() != object_bytes;
    let start = if in_scratch { 0 } else { key_bytes };
    if in_scratch {
        decompress(stored, object_bytes, scratch)?;
    }
    let border = header.border();
    if border > object_bytes {
        return Err(Error::corrupt("a basket shorter than its values"));
    }
    // The table is an array after its length. The length may count one more than the entries.
    let table = (object_bytes - border).checked_sub(4).filter(|bytes| bytes / 4 >= entries);
    let table = table.map(|_| start + border + 4..start + border + 4 + entries * 4);
    Ok(Unpacked {
        in_scratch,
        data: start..start + border,
        table,
        origin: key_bytes,
        items: entries,
        sizes: header.sizes,
        joined: false,
        packed_bytes: stored.len(),
        bytes: object_bytes,
    })
}

fn decompress(stored: &[u8], bytes: usize, scratch: &mut Vec<u8>) -> Result<()> {
    decode::verify_size(stored, bytes)?;
    grow::check()?;
    if scratch.len() < bytes {
        if scratch.try_reserve(bytes - scratch.len()).is_err() {
            return Err(Error::limit(format!("no memory for a basket of {bytes} bytes")));
        }
        scratch.resize(bytes, 0);
    }
    decode::decompress(stored, scratch.get_mut(..bytes).unwrap_or_default())
}

/// Verifies a basket. Returns a code for the kind of fault, with the details. `deep` also decompresses it and checks
/// its offsets.
pub fn verify_basket(
    file: &RootFile,
    (seek, bytes): (u64, u64),
    entries: u64,
    name: &str,
    deep: bool,
) -> std::result::Result<(), (&'static str, Error)> {
    let record = if deep {
        file.bytes(seek, bytes, Cause::Page)
    } else {
        file.head(seek, bytes.min(HEAD), Cause::Page)
    };
    let record = record.map_err(|e| ("basket-place", e))?;
    let key = Key::parse(&mut Cursor::new(&record, seek)).map_err(|e| ("basket-header", e))?;
    let header = BasketHeader::parse(&mut Cursor::new(&record, seek)).map_err(|e| ("basket-header", e))?;
    let fault = |code: &'static str, text: String| Err((code, Error::corrupt(text).at(seek)));
    if key.classname != "TBasket" || key.name != name {
        return fault("basket-header", format!("a {} named {}", key.classname, key.name));
    }
    if key.seek != seek {
        return fault("basket-header", format!("its key gives byte {} as its place", key.seek));
    }
    if header.total_bytes as u64 != bytes {
        let size = header.total_bytes;
        return fault("basket-header", format!("its key gives {size} bytes where the tree gives {bytes}"));
    }
    if header.entries as u64 != entries {
        let found = header.entries;
        return fault("basket-entries", format!("{found} entries where the tree gives {entries}"));
    }
    if !deep {
        return Ok(());
    }
    file.verify_records(seek, &record).map_err(|e| ("basket-data", e))?;
    let mut scratch = Vec::new();
    let found = unpack(&record, seek, &mut scratch).map_err(|e| ("basket-data", e))?;
    let plain = if found.in_scratch { &scratch } else { &record };
    let table = found.table.and_then(|table| plain.get(table));
    let (mut before, origin) = (0, header.key_bytes);
    for word in table.filter(|_| !header.sizes).map_or(&[][..], |table| table.as_chunks::<4>().0) {
        // The upper byte may hold flags.
        let offset = (u32::from_be_bytes(*word) & 0x00ff_ffff) as usize;
        let whole = u32::from_be_bytes(*word) as usize;
        let offset = if whole > header.last { offset } else { whole };
        if offset < before || offset < origin || offset > header.last {
            let last = header.last;
            let text = format!("an entry begins at byte {offset}, not in {}..={last}", before.max(origin));
            return fault("basket-offsets", text);
        }
        before = offset;
    }
    Ok(())
}

/// Bytes read of a basket's record for its key.
const HEAD: u64 = 4096;

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
    /// Converts the members of a `TBasket` object; `None` if the basket has no entries.
    pub fn from_members(members: &[(Name, Value)]) -> Result<Option<Self>> {
        let bytes = |name: &str| match members.iter().find(|(n, _)| *n == name) {
            Some((_, Value::Numbers(_, bytes))) => bytes.as_slice(),
            _ => &[],
        };
        let size = |name: &str| match members.iter().find(|(n, _)| *n == name) {
            Some((_, Value::Int(n))) => usize::try_from(*n).ok(),
            _ => None,
        };
        let sizes = size("fNevBuf").filter(|entries| *entries > 0).zip(size("fKeylen"));
        let found = sizes
            .and_then(|(entries, key_bytes)| Some((entries, key_bytes, bytes("fBuffer").get(key_bytes..)?)));
        let Some((entries, key_bytes, data)) = found else { return Ok(None) };
        let (offsets, data) = (grow::copied(bytes("fOffsets"))?, grow::copied(data)?);
        Ok(Some(Self { entries, key_bytes, offsets, data }))
    }
    /// Bytes of key, values and offsets, as `fTotBytes` counts other baskets.
    pub fn bytes(&self) -> u64 {
        (self.key_bytes + self.data.len() + self.offsets.len()) as u64
    }
    /// Returns values and offsets.
    pub fn page(&self) -> Page<'_> {
        let table = self.offsets.get(..self.entries * 4);
        let Self { entries, key_bytes, data, .. } = self;
        let hollow = data.is_empty();
        Page { data, table, origin: *key_bytes, items: *entries, sizes: false, joined: false, hollow }
    }
}
