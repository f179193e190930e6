//! Salvage of RNTuples whose anchor is lost, from the envelopes in a file.
//!
//! An envelope holds its type and ends with its checksum. Page lists and footers hold the checksum of their header. The
//! parts of an RNTuple are therefore known without the anchor. Without a footer, fields that were added later are lost.

use super::anchor::Blob;
use super::envelope::{EnvelopeReader, Kind, Locator, unpack};
use super::pages::ClusterGroup;
use super::table::NTuple;
use crate::compress::decode;
use crate::error::Result;
use crate::file::RootFile;
use sapwood_io::Cause;
use std::sync::Arc;

/// Size limit for envelopes, in bytes.
const LARGEST: u64 = 256 << 20;
/// Bytes before a compressed block: codec, compressed and uncompressed size.
const BLOCK: usize = 9;

/// An intact envelope.
struct Found {
    kind: Kind,
    blob: Blob,
    /// Checksum of its header (or its own, if it is a header).
    header: u64,
    /// Entries and clusters of a page list, in the form of a cluster group.
    group: Option<ClusterGroup>,
    /// Bytes of the schema extension of a footer.
    extension: usize,
}

/// Reassembles RNTuples from records (first byte after the key, number of bytes). Skips RNTuples whose header is at one
/// of the offsets `known`.
///
/// Of several footers with the same header, the one with the longest extension is used. Of several page lists with
/// common entries, the one with the most entries is used.
pub fn salvage(file: &Arc<RootFile>, records: &[(u64, u64)], known: &[u64]) -> Vec<NTuple> {
    let found: Vec<Found> =
        records.iter().filter_map(|(offset, stored)| look(file, *offset, *stored).ok().flatten()).collect();
    let mut ntuples = Vec::new();
    let mut done: Vec<u64> = Vec::new();
    for header in found.iter().filter(|one| matches!(one.kind, Kind::Header)) {
        if known.contains(&header.blob.offset) || done.contains(&header.header) {
            continue;
        }
        done.push(header.header);
        let own = || found.iter().filter(|one| one.header == header.header);
        let footers = own().filter(|one| matches!(one.kind, Kind::Footer));
        let footer = footers.max_by_key(|one| one.extension).map(|one| one.blob);
        let mut groups: Vec<ClusterGroup> = Vec::new();
        let mut lists: Vec<&Found> = own().filter(|one| one.group.is_some()).collect();
        lists.sort_by_key(|one| one.group.as_ref().map_or(0, |group| group.entries));
        for group in lists.into_iter().rev().filter_map(|one| one.group.as_ref()) {
            let end = group.first_entry + group.entries;
            let shared = |other: &ClusterGroup| {
                group.first_entry < other.first_entry + other.entries && other.first_entry < end
            };
            if group.entries > 0 && !groups.iter().any(shared) {
                groups.push(*group);
            }
        }
        groups.sort_by_key(|group| group.first_entry);
        let made = NTuple::of_parts(file, header.blob, footer, groups.clone());
        ntuples.extend(made.or_else(|_| NTuple::of_parts(file, header.blob, None, groups)));
    }
    ntuples
}

/// Returns the envelope in a record, if there is one.
fn look(file: &RootFile, offset: u64, stored: u64) -> Result<Option<Found>> {
    if !(16..=LARGEST).contains(&stored) {
        return Ok(None);
    }
    let head = file.bytes(offset, stored.min(BLOCK as u64), Cause::Object)?;
    let Some(&[a, b, c, d, e, f, g, h, i]) = head.first_chunk::<BLOCK>() else { return Ok(None) };
    let size = |x: u8, y: u8, z: u8| u64::from(x) | u64::from(y) << 8 | u64::from(z) << 16;
    let word = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let plain = (1..=3).contains(&(word & 0xffff)) && word >> 16 == stored;
    // One block, or the first of several. Each page has its own checksum.
    let packed = decode::codec(&head).is_some()
        && (BLOCK as u64 + size(d, e, f) == stored || size(g, h, i) == 0x00ff_ffff);
    if !plain && !packed {
        return Ok(None);
    }
    let bytes = file.bytes(offset, stored, Cause::Object)?;
    let length = if plain { stored } else { unpacked_size(&bytes) };
    if length > LARGEST {
        return Ok(None);
    }
    let bytes = unpack(bytes, length)?;
    let kind = match bytes.first() {
        Some(1) => Kind::Header,
        Some(2) => Kind::Footer,
        _ => Kind::PageList,
    };
    let (mut reader, sum) = EnvelopeReader::envelope(&bytes, kind)?;
    let mut found =
        Found { kind, blob: Blob { offset, stored, length }, header: sum, group: None, extension: 0 };
    match kind {
        Kind::Header => {}
        Kind::Footer => {
            reader.feature_flags()?;
            found.header = reader.u64()?;
            found.extension = reader.record()?.remaining();
        }
        Kind::PageList => {
            found.header = reader.u64()?;
            let (mut items, count) = reader.list(24)?;
            let (mut first, mut entries) = (u64::MAX, 0_u64);
            for _ in 0..count {
                let mut record = items.record()?;
                let (start, word) = (record.u64()?, record.u64()?);
                first = first.min(start);
                entries = entries.saturating_add(word & ((1 << 56) - 1));
            }
            if first.checked_add(entries).is_some_and(|end| i64::try_from(end).is_ok()) {
                let locator = Locator::File { offset, bytes: stored };
                let clusters = count as u32;
                found.group = Some(ClusterGroup { first_entry: first, entries, clusters, length, locator });
            }
        }
    }
    Ok(Some(found))
}

/// Uncompressed size of consecutive compressed blocks, from their headers.
fn unpacked_size(mut blocks: &[u8]) -> u64 {
    let mut total = 0;
    while let Some(&[_, _, _, a, b, c, d, e, f]) = blocks.first_chunk::<BLOCK>() {
        let packed = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
        total += u64::from(d) | u64::from(e) << 8 | u64::from(f) << 16;
        blocks = blocks.get(BLOCK + packed..).unwrap_or_default();
    }
    total
}
