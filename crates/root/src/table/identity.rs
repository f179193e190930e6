//! Identifies a field of a table for data outside of its file, by the places of its pages and samples of their bytes.

use super::Table;
use crate::error::{Error, Result};
use xxhash_rust::xxh3::Xxh3Default;

/// Maximum number of pages of a field in its sample.
const PAGES: usize = 64;
/// Bytes of a piece of a page in a sample. The first piece has the checksum of LZ4, even after a key; the last piece
/// has the checksum of zlib or LZMA, or of the page itself.
const PIECE: usize = 256;

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

/// Returns a hash of the pages in memory, and of the beginning, middle and end of pages of a field in the file: of all,
/// or of many that lie evenly in the file.
///
/// # Errors
/// When the file cannot be read.
pub fn sample_hash(table: &dyn Table, field: usize) -> Result<u64> {
    let places = places(table, field);
    let mut hash = Xxh3Default::new();
    table.in_memory(field, &mut |bytes| hash.update(bytes));
    let mut piece = [0; PIECE];
    let last = places.len().saturating_sub(1);
    let count = places.len().min(PAGES);
    for number in 0..count {
        let place = places.get(number * last / count.saturating_sub(1).max(1));
        let Some(&[offset, length, ..]) = place else { continue };
        let end = offset.saturating_add(length);
        for start in [offset, offset.saturating_add(length / 2), end.saturating_sub(PIECE as u64).max(offset)]
        {
            let room = end.saturating_sub(start).min(PIECE as u64) as usize;
            let Some(part) = piece.get_mut(..room) else { continue };
            table
                .source()
                .read_at(start, part)
                .map_err(|error| Error::from(error).within(table.place(field)))?;
            hash.update(part);
        }
    }
    Ok(hash.digest())
}
