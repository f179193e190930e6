//! Identifies a field of a table for data outside of its file, by the places of its pages and by a hash of their bytes.

use super::Table;
use crate::error::{Error, Result};
use crate::file::checksums::Written;
use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3Default;

/// Bytes that are read and hashed at once: they stay in the cache of a processor.
const PIECE: usize = 64 << 10;

/// Offset, length, first entry and number of entries of each page of a field, each once, in the order of the file.
fn places(table: &dyn Table, field: usize) -> Vec<[u64; 4]> {
    let mut pages = Vec::new();
    table.pages(field, 0, table.entries(), &mut pages);
    let place = |page: &super::PageListed| [page.range.offset, page.range.length, page.first, page.entries];
    let mut places: Vec<_> = pages.iter().map(place).collect();
    places.sort_unstable();
    places.dedup();
    places
}

/// Returns a hash of the places and entries of all pages of a field, and of the pages that it needs to be read.
pub fn places_hash(table: &dyn Table, field: usize) -> u64 {
    let mut hash = Xxh3Default::new();
    for number in places(table, field).as_flattened() {
        hash.update(&number.to_le_bytes());
    }
    hash.digest()
}

/// Returns a hash of all stored bytes of a field: of its pages in the file and in memory, of those that it needs to be
/// read, and of its description. Each page is read once, on all threads, unless its hash is known since it was written.
///
/// # Errors
/// When the file cannot be read.
pub fn content_hash(table: &dyn Table, field: usize, written: Option<&Written>) -> Result<u64> {
    let size = table.source().size();
    let hash_of = |buffer: &mut Vec<u8>, &[offset, length, ..]: &[u64; 4]| {
        if let Some(known) = written.and_then(|written| written.hash_of(offset, length)) {
            return Ok(known);
        }
        buffer.resize(PIECE, 0);
        let mut hash = Xxh3Default::new();
        let end = offset.saturating_add(length).min(size);
        for start in (offset..end).step_by(PIECE) {
            let part = buffer.get_mut(..(end - start).min(PIECE as u64) as usize).unwrap_or_default();
            let read = table.source().read_at(start, part);
            read.map_err(|error| Error::from(error).within(table.place(field)))?;
            hash.update(part);
        }
        Ok(hash.digest())
    };
    let pages = places(table, field);
    let hashes: Vec<u64> = pages.par_iter().map_init(Vec::new, hash_of).collect::<Result<_>>()?;
    let mut hash = Xxh3Default::new();
    hash.update(table.description(field).as_bytes());
    table.in_memory(field, &mut |bytes| hash.update(bytes));
    for one in hashes {
        hash.update(&one.to_le_bytes());
    }
    Ok(hash.digest())
}
