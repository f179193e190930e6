//! Identifies a field of a table for data outside of its file, by the places of its pages and by a hash of their bytes.

use super::Table;
use crate::error::{Error, Result};
use rayon::prelude::*;
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

/// Maximum bytes that are read and hashed at once: they stay in the cache of a processor.
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
/// read, and of its description. Each page is read once, on all threads.
///
/// # Errors
/// When the file cannot be read.
pub fn content_hash(table: &dyn Table, field: usize) -> Result<u64> {
    let size = table.source().size();
    let pieces: Vec<_> = places(table, field)
        .iter()
        .flat_map(|&[offset, length, ..]| {
            let end = offset.saturating_add(length).min(size);
            (offset..end).step_by(PIECE).map(move |start| (start, (end - start).min(PIECE as u64) as usize))
        })
        .collect();
    let hash_of = |buffer: &mut Vec<u8>, &(start, length): &(u64, usize)| {
        let part = buffer.get_mut(..length).unwrap_or_default();
        let read = table.source().read_at(start, part);
        read.map_err(|error| Error::from(error).within(table.place(field)))?;
        Ok(xxh3_64(part))
    };
    let hashes: Vec<u64> = pieces.par_iter().map_init(|| vec![0; PIECE], hash_of).collect::<Result<_>>()?;
    let mut hash = Xxh3Default::new();
    hash.update(table.description(field).as_bytes());
    table.in_memory(field, &mut |bytes| hash.update(bytes));
    for one in hashes {
        hash.update(&one.to_le_bytes());
    }
    Ok(hash.digest())
}
