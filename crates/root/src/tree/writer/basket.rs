//! Baskets: parts of a branch, with their keys (`TBasket`).

use super::branch::Branch;
use crate::compress::encode::{Algorithm, Compression};
use crate::error::{Error, Result};
use crate::file::writer::{KeyNumbers, KeyText, encode_key};
use crate::wire::grow::{self, Grow};
use crate::wire::writer::Writer;
use std::ops::Range;

/// A written basket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Basket {
    /// Bytes of the record (`fBasketBytes`).
    pub bytes: u32,
    /// Its first entry (`fBasketEntry`).
    pub entry: u64,
    /// File offset (`fBasketSeek`).
    pub seek: u64,
}

/// A basket to be made from buffered entries.
pub struct BasketJob {
    /// Index of the branch.
    pub branch: usize,
    /// Index of the basket in its branch.
    pub number: usize,
    /// Range of the buffered entries.
    pub entries: Range<usize>,
    /// Range of bytes in the branch's data.
    pub data: Range<usize>,
}

/// Buffers of one basket before it is written; they are reused.
#[derive(Default)]
pub struct Slot {
    /// Data and offsets end to end, if both are needed in one piece.
    plain: Vec<u8>,
    /// The table of offsets.
    offsets: Vec<u8>,
    /// Output of the compression, in the first `used` bytes.
    packed: Vec<u8>,
    used: Option<usize>,
    key_bytes: usize,
}

/// Bytes of a basket's own members in its key.
const OWN: usize = 19;

/// Returns the key text for the baskets of a branch.
pub fn key_text(branch: &Branch, tree: &str) -> KeyText {
    KeyText { class: "TBasket".to_owned(), name: branch.name.clone(), title: tree.to_owned() }
}

/// Default maximum size of a basket in bytes:
///
/// * small enough to stay in a processor cache until it is decoded,
/// * larger for Zstandard, which switches to a faster search above 256 KiB, and for LZMA, which has a high setup cost,
/// * otherwise larger for a branch that already has a thousand baskets, because each commit lists them all.
pub fn usual_bytes(compression: Compression, baskets: usize) -> usize {
    match compression {
        Compression::Level(Algorithm::Zstd | Algorithm::Lzma, _) => 512 << 10,
        _ => 54_000 << (baskets / 1024).min(3),
    }
}

/// Bytes of this many entries, including the table of their offsets.
pub fn bytes(branch: &Branch, entries: usize) -> usize {
    branch.data.len() + if branch.varies() { 4 * entries } else { 0 }
}

/// Splits the buffered entries of a branch into baskets of about equal size, at most `most` bytes. An entry is never
/// split.
pub fn split(index: usize, branch: &Branch, entries: usize, most: usize) -> Result<Vec<BasketJob>> {
    if branch.item.is_none() {
        return Ok(Vec::new());
    }
    let total = bytes(branch, entries);
    let count = total.div_ceil(most.max(1)).clamp(1, entries.max(1));
    let entry_bytes = branch.entry_bytes();
    let start = |entry: usize| {
        if !branch.varies() {
            return entry * entry_bytes;
        }
        branch.starts.get(entry).map_or(branch.data.len(), |start| *start as usize)
    };
    let mut cuts = grow::collected((0..=count).map(|i| {
        if i == count {
            entries
        } else if branch.varies() {
            // Split by bytes, not by entries.
            let wanted = (branch.data.len() as u128 * i as u128 / count as u128) as u64;
            branch.starts.partition_point(|s| *s < wanted)
        } else {
            entries * i / count
        }
    }))?;
    cuts.dedup();
    let job = |(i, (from, to)): (usize, (&usize, &usize))| BasketJob {
        branch: index,
        number: branch.baskets.len() + i,
        entries: *from..*to,
        data: start(*from)..start(*to),
    };
    grow::collected(cuts.iter().zip(cuts.iter().skip(1)).enumerate().map(job))
}

impl Slot {
    /// Makes the bytes of a basket, compressed if this makes them fewer.
    pub fn fill(
        &mut self,
        job: &BasketJob,
        branch: &Branch,
        compression: Compression,
        key_bytes: usize,
    ) -> Result<()> {
        self.key_bytes = key_bytes;
        self.used = None;
        self.offsets.clear();
        self.plain.clear();
        let data = branch.data.get(job.data.clone()).unwrap_or_default();
        if branch.varies() {
            // `TBasket::fEntryOffset`: a count, then the start of each entry counted from the key, then a last slot
            // that ROOT leaves at 0.
            self.offsets.room(4 * job.entries.len() + 8)?;
            self.offsets.extend_from_slice(&(job.entries.len() as u32 + 1).to_be_bytes());
            let first = job.data.start as u64;
            for start in branch.starts.get(job.entries.clone()).unwrap_or_default() {
                let offset = (start - first) as u32 + key_bytes as u32;
                self.offsets.extend_from_slice(&offset.to_be_bytes());
            }
            self.offsets.extend_from_slice(&[0; 4]);
        }
        let size = data.len() + self.offsets.len();
        if size + key_bytes > i32::MAX as usize {
            return Err(Error::limit(format!("a basket of {size} bytes: one entry may take at most 2 GiB")));
        }
        if compression != Compression::None {
            let body = if self.offsets.is_empty() {
                data
            } else {
                self.plain.room(size)?;
                self.plain.extend_from_slice(data);
                self.plain.extend_from_slice(&self.offsets);
                &self.plain
            };
            self.used = branch.effort.compress(compression, body, &mut self.packed)?;
        }
        Ok(())
    }

    /// Compression factor.
    pub fn factor(&self, job: &BasketJob) -> f64 {
        let bytes = self.object_bytes(job);
        bytes as f64 / self.used.unwrap_or(bytes).max(1) as f64
    }

    /// Bytes before compression (`fObjlen`).
    fn object_bytes(&self, job: &BasketJob) -> usize {
        job.data.len() + self.offsets.len()
    }

    /// Returns the parts of the record (key, data and offsets; or key and compressed bytes), and its uncompressed size.
    pub fn parts<'a>(&'a self, job: &BasketJob, branch: &'a Branch) -> [&'a [u8]; 2] {
        match self.used.and_then(|used| self.packed.get(..used)) {
            Some(packed) => [packed, &[]],
            None => [branch.data.get(job.data.clone()).unwrap_or_default(), &self.offsets],
        }
    }

    /// Appends the basket's key, including its own members.
    pub fn key(
        &self,
        w: &mut Writer,
        job: &BasketJob,
        branch: &Branch,
        text: &KeyText,
        n: KeyNumbers,
    ) -> Result<Sizes> {
        let object_bytes = self.object_bytes(job);
        let body = self.used.unwrap_or(object_bytes);
        let numbers = KeyNumbers {
            total_bytes: self.key_bytes + body,
            object_bytes,
            key_bytes: self.key_bytes,
            big: true,
            ..n
        };
        encode_key(w, text, &numbers)?;
        w.put(3_i16);
        // `fBufferSize`, `fNevBufSize` (bytes of an entry, or slots for offsets), `fNevBuf`, `fLast`.
        w.put((object_bytes + self.key_bytes) as i32);
        let slots = if branch.varies() { job.entries.len() + 1 } else { branch.entry_bytes() };
        w.put(slots as i32);
        w.put(job.entries.len() as i32);
        w.put((self.key_bytes + job.data.len()) as i32);
        // Only the header: the entries follow as the key's object.
        w.put(0_u8);
        Ok(Sizes { total: (self.key_bytes + object_bytes) as u64, zip: numbers.total_bytes as u64 })
    }
}

/// Bytes of a basket with its key, before and after compression.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Before.
    pub total: u64,
    /// After.
    pub zip: u64,
}

/// Bytes of a basket's key; baskets always use 64-bit positions.
pub fn key_bytes(text: &KeyText) -> usize {
    text.size(true) + OWN
}
