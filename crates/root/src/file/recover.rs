//! Recovers the keys of directories whose key list was never written, from the records of the file.

use super::{BEHIND_KEY, Key, RootFile, kinds};
use crate::error::Result;
use crate::wire::Cursor;
use sapwood_io::Cause;
use std::collections::HashMap;

/// Bytes read for the key of each record; a longer key is read again in full.
const WINDOW: u64 = 512;
/// Bytes read at once if records are small.
const CHUNK: u64 = 64 << 10;
/// Minimum size of a gap in bytes: the length field that marks it.
const GAP: u64 = 4;

/// The keys of each directory, by the position of the directory's record.
pub(super) type Found = HashMap<u64, Vec<Key>>;

/// Walks the records from the start and collects the keys of all directories, the newest cycle last.
///
/// Stops without an error where the records end or are invalid: the writer was interrupted there.
pub(super) fn keys(file: &RootFile) -> Result<Found> {
    let size = file.source().size();
    let mut found = Found::new();
    let mut places: HashMap<(u64, String, u16), usize> = HashMap::new();
    let mut pos = file.header().begin;
    let (mut chunk, mut start) = (Vec::new(), 0);
    while pos.saturating_add(Key::SMALLEST as u64) < size {
        let usual = WINDOW.min(size - pos);
        let inside = |chunk: &[u8], start: u64| {
            let at = usize::try_from(pos.checked_sub(start)?).ok()?;
            chunk.get(at..at.checked_add(usual as usize)?).map(<[u8]>::to_vec)
        };
        let window = if let Some(window) = inside(&chunk, start) {
            window
        } else {
            // If the last records were close together, the next ones may be, too.
            let near = !chunk.is_empty() && pos < start + 2 * CHUNK.min(chunk.len() as u64 + WINDOW);
            let more = if near { CHUNK } else { WINDOW };
            chunk = file.bytes(pos, more.min(size - pos), Cause::Directory)?;
            start = pos;
            inside(&chunk, start).unwrap_or_default()
        };
        let mut c = Cursor::new(&window, pos);
        let length = i64::from(c.i32()?);
        if length == 0 {
            break;
        }
        if length < 0 {
            // A gap; anything shorter than its own length field is invalid.
            if length.unsigned_abs() < GAP {
                break;
            }
            pos = pos.saturating_add(length.unsigned_abs());
            continue;
        }
        let window = if Key::length_in(&window).is_some_and(|bytes| u64::from(bytes) + BEHIND_KEY > usual) {
            file.head(pos, usual, Cause::Directory)?
        } else {
            window
        };
        let mut c = Cursor::new(&window, pos);
        let Ok(key) = Key::parse(&mut c) else { break };
        let whole = pos.saturating_add(u64::from(key.total_bytes)) <= size;
        let is_object = !matches!(key.classname.as_str(), "TBasket" | "TFile" | "" | "TFree" | kinds::BLOB);
        // The key lists of directories have the directory's class: a list has a count where a directory has its
        // version.
        let counted = key.classname.starts_with("TDirectory")
            && c.seek(key.key_bytes as usize).is_ok()
            && c.u16().is_ok_and(|version| version == 0);
        let is_list = counted || key.name == "StreamerInfo" || key.name == key.classname;
        if whole && is_object && !is_list && key.seek == pos && key.seek_parent != pos {
            let keys = found.entry(key.seek_parent).or_default();
            let place = *places.entry((key.seek_parent, key.name.clone(), key.cycle)).or_insert(keys.len());
            match keys.get_mut(place) {
                Some(older) => *older = key.clone(),
                None => keys.push(key.clone()),
            }
        }
        if (key.total_bytes as usize) < Key::SMALLEST {
            break;
        }
        pos = pos.saturating_add(u64::from(key.total_bytes));
    }
    Ok(found)
}
