//! Identifies a field of a table for data outside of its file, by the places of its pages and by a hash of their bytes.

use super::Table;
use crate::error::{Error, Result};
use crate::file::checksums::Written;
use rayon::prelude::*;
use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Bytes that are read and hashed at once: they stay in the cache of a processor.
const PIECE: usize = 64 << 10;

/// Returns the number of pages of a field in the file. Pages that are stored once are one page.
pub fn count_pages(table: &dyn Table, field: usize) -> usize {
    let mut pages = Vec::new();
    table.pages(field, 0, table.entries(), &mut pages);
    let mut ranges: Vec<(u64, u64)> =
        pages.iter().map(|page| (page.range.offset, page.range.length)).collect();
    ranges.sort_unstable();
    ranges.dedup();
    ranges.len()
}

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
    let mut hash = XxHash3_64::new();
    for number in places(table, field).as_flattened() {
        hash.write(&number.to_le_bytes());
    }
    hash.finish()
}

/// Returns the [`content_hash`] of a field if the hashes of all its pages are known since they were written.
pub fn known_hash(table: &dyn Table, field: usize, written: &Written) -> Option<u64> {
    let pages = places(table, field);
    let hashes = pages.iter().map(|&[offset, length, ..]| written.hash_of(offset, length));
    Some(joined_hash(table, field, &hashes.collect::<Option<Vec<_>>>()?))
}

/// Returns a hash of all stored bytes of a field: of its pages in the file and in memory, of those that it needs to be
/// read, and of its description. Each page is read once, on all threads.
///
/// # Errors
/// When the file cannot be read.
pub fn content_hash(table: &dyn Table, field: usize) -> Result<u64> {
    let size = table.source().size();
    let hash_of = |buffer: &mut Vec<u8>, &[offset, length, ..]: &[u64; 4]| {
        buffer.resize(PIECE, 0);
        let mut hash = XxHash3_64::new();
        let end = offset.saturating_add(length).min(size);
        for start in (offset..end).step_by(PIECE) {
            let part = buffer.get_mut(..(end - start).min(PIECE as u64) as usize).unwrap_or_default();
            let read = table.source().read_at(start, part);
            read.map_err(|error| Error::from(error).within(table.place(field)))?;
            hash.write(part);
        }
        Ok(hash.finish())
    };
    let pages = places(table, field);
    let hashes: Vec<u64> = pages.par_iter().map_init(Vec::new, hash_of).collect::<Result<_>>()?;
    Ok(joined_hash(table, field, &hashes))
}

/// Joins the hashes of the pages of a field with its description and its pages in memory.
fn joined_hash(table: &dyn Table, field: usize, pages: &[u64]) -> u64 {
    let mut hash = XxHash3_64::new();
    hash.write(table.description(field).as_bytes());
    table.in_memory(field, &mut |bytes| hash.write(bytes));
    for page in pages {
        hash.write(&page.to_le_bytes());
    }
    hash.finish()
}
