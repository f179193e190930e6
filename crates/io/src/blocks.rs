//! The block cache: blocks of remote files in a local folder, shared by any number of processes.
//!
//! A remote file has two files in the cache: a sparse file with each block at its own offset, and an index with a
//! digest of each block. Both are named by a digest of URL, version and size, so that a changed file gets new ones. A
//! block is written before its digest and is valid only if both agree. No lock is therefore needed, and damaged or
//! partly written blocks count as missing. The least recently used files are removed, always as a whole.

#![allow(clippy::disallowed_methods, reason = "the files of the block cache are our own")]

use crate::plan::Range;
use crate::system;
use ring::digest::{SHA256, digest};
use std::fs::{File, OpenOptions};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

/// Bytes of a block.
pub const BLOCK: u64 = 64 << 10;

/// Version of the layout, which is a part of the file names.
const LAYOUT: &str = "1";

/// A folder of blocks.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Maximum bytes of all files together.
    limit: u64,
    /// Bytes written since the files were last counted.
    written: AtomicU64,
    /// Whether the cache is full and has no file to remove.
    full: AtomicBool,
}

impl Folder {
    /// Opens a cache of at most this many bytes in a folder, which is created if it is missing.
    pub fn open(path: &Path, limit: u64) -> Result<Arc<Self>> {
        std::fs::create_dir_all(path)
            .map_err(|e| Error::new(e.kind(), format!("block cache {}: {e}", path.display())))?;
        Ok(Arc::new(Self {
            path: path.to_owned(),
            limit,
            written: AtomicU64::new(u64::MAX),
            full: AtomicBool::new(false),
        }))
    }

    /// Bytes that may be written before the files are counted again.
    fn slack(&self) -> u64 {
        self.limit / 16
    }

    /// Whether there is room for some bytes. Removes the least recently used files if necessary, except those of
    /// `keep`.
    fn has_room(&self, bytes: u64, keep: &str) -> bool {
        let before = self.written.load(Relaxed);
        if before.saturating_add(bytes) > self.slack() {
            self.written.store(0, Relaxed);
            let most = self.limit.saturating_sub(self.slack()).saturating_sub(bytes);
            self.full.store(!self.shrink(most, keep).is_ok_and(|fits| fits), Relaxed);
        }
        let room = !self.full.load(Relaxed);
        if room {
            self.written.fetch_add(bytes, Relaxed);
        }
        room
    }

    /// Removes files until the others take at most `most` bytes; returns whether that succeeded.
    fn shrink(&self, most: u64, keep: &str) -> Result<bool> {
        let mut files: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        let mut total = 0u64;
        for entry in std::fs::read_dir(&self.path)? {
            let path = entry?.path();
            let size = |path: &Path| path.metadata().map_or(0, |m| system::space(&m));
            if path.extension().is_some_and(|e| e == "index") {
                let bytes = size(&path).saturating_add(size(&path.with_extension("blocks")));
                total = total.saturating_add(bytes);
                let used = path.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((used, path, bytes));
            }
        }
        files.sort();
        for (_, index, bytes) in files {
            if total <= most {
                break;
            }
            if index.file_stem().is_some_and(|name| name == keep) {
                continue;
            }
            // Another process may have removed it, or may continue to use it as an open, unlinked file.
            let _ = std::fs::remove_file(&index);
            let _ = std::fs::remove_file(index.with_extension("blocks"));
            total = total.saturating_sub(bytes);
        }
        Ok(total <= most)
    }

    /// Returns the blocks of a file, identified by its URL, version and size.
    pub fn file(self: &Arc<Self>, url: &str, version: &str, size: u64) -> Result<Blocks> {
        let name = hex(digest(&SHA256, format!("{LAYOUT}\n{url}\n{version}\n{size}").as_bytes()).as_ref());
        let open = |ending| {
            let path = self.path.join(&name).with_extension(ending);
            // A link that others put there would lead the writes to another file.
            let refused = || Error::other(format!("block cache {}: not a file of the cache", path.display()));
            if path.symlink_metadata().is_ok_and(|about| !about.is_file()) {
                return Err(refused());
            }
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
            if system::is_alone(&path, &file.metadata()?)? { Ok(file) } else { Err(refused()) }
        };
        let (data, index) = (open("blocks")?, open("index")?);
        // The modification time determines which files are removed.
        index.set_modified(SystemTime::now())?;
        Ok(Blocks { folder: self.clone(), name, size, data, index })
    }
}

/// The blocks of a file.
#[derive(Debug)]
pub struct Blocks {
    folder: Arc<Folder>,
    name: String,
    size: u64,
    data: File,
    index: File,
}

impl Blocks {
    /// Extends a range to whole blocks.
    pub fn around(&self, range: Range) -> Range {
        let offset = range.offset / BLOCK * BLOCK;
        let end = range.end().div_ceil(BLOCK).saturating_mul(BLOCK).min(self.size);
        Range { offset, length: end - offset }
    }

    /// Passes on the cached blocks of ranges, in file order; returns their number of bytes.
    pub fn read(&self, ranges: &[Range], put: &mut dyn FnMut(u64, &[u8])) -> u64 {
        let mut next = 0;
        let mut bytes = vec![0; BLOCK as usize];
        let mut total = 0;
        for range in ranges {
            for number in (range.offset / BLOCK).max(next)..range.end().div_ceil(BLOCK) {
                next = number + 1;
                let length = BLOCK.min(self.size.saturating_sub(number * BLOCK)) as usize;
                let Some(block) = bytes.get_mut(..length) else { continue };
                let mut want = [0; 8];
                let here = system::read_exact_at(&self.index, &mut want, number * 8).is_ok()
                    && want != [0; 8]
                    && system::read_exact_at(&self.data, block, number * BLOCK).is_ok()
                    && self.digest(number, block) == want;
                if here {
                    put(number * BLOCK, block);
                    total += length as u64;
                }
            }
        }
        total
    }

    /// Drops all cached blocks of the file.
    pub fn clear(&self) {
        // Blocks without digests are not valid.
        let _ = self.index.set_len(0);
    }

    /// Returns a keeper, which takes bytes as they arrive and caches the blocks that they complete.
    pub fn keeper(&self) -> Keeper<'_> {
        Keeper { blocks: self, start: 0, bytes: Vec::new() }
    }

    /// Caches a block if there is room. A failed write is ignored.
    fn keep(&self, number: u64, block: &[u8]) {
        if self.folder.has_room(block.len() as u64, &self.name)
            && system::write_all_at(&self.data, block, number * BLOCK).is_ok()
        {
            let _ = system::write_all_at(&self.index, &self.digest(number, block), number * 8);
        }
    }

    fn digest(&self, number: u64, block: &[u8]) -> [u8; 8] {
        let mut context = ring::digest::Context::new(&SHA256);
        context.update(self.name.as_bytes());
        context.update(&number.to_le_bytes());
        context.update(block);
        let mut short = [0; 8];
        short.iter_mut().zip(context.finish().as_ref()).for_each(|(s, d)| *s = *d);
        short
    }
}

/// Collects arriving bytes into blocks.
pub struct Keeper<'a> {
    blocks: &'a Blocks,
    /// Offset of the bytes, always the start of a block.
    start: u64,
    bytes: Vec<u8>,
}

impl Keeper<'_> {
    /// Takes bytes at `offset`.
    pub fn take(&mut self, offset: u64, bytes: &[u8]) {
        if self.bytes.is_empty() || offset != self.start + self.bytes.len() as u64 {
            self.bytes.clear();
            self.start = offset.div_ceil(BLOCK).saturating_mul(BLOCK);
        }
        let skipped = self.start.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let skipped = if self.bytes.is_empty() { skipped } else { 0 };
        self.bytes.extend_from_slice(bytes.get(skipped..).unwrap_or_default());
        loop {
            let length = BLOCK.min(self.blocks.size.saturating_sub(self.start)) as usize;
            let Some(block) = self.bytes.get(..length).filter(|block| !block.is_empty()) else { break };
            self.blocks.keep(self.start / BLOCK, block);
            self.bytes.drain(..length);
            self.start += length as u64;
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_whole_blocks_believes_no_damaged_one_and_stays_in_bounds() {
        let path = std::env::temp_dir().join(format!("sapwood-blocks-{}", std::process::id()));
        let folder = Folder::open(&path, 1 << 20).unwrap();
        let size = 3 * BLOCK + 100;
        let bytes: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let file = folder.file("u", "1", size).unwrap();
        let all = [Range { offset: 0, length: size }];
        let found = |file: &Blocks, ranges: &[Range]| {
            let mut found = Vec::new();
            file.read(ranges, &mut |offset, block| {
                assert_eq!(block, &bytes[offset as usize..][..block.len()]);
                found.push(offset / BLOCK);
            });
            found
        };
        let mut keeper = file.keeper();
        for start in (10..2 * BLOCK).step_by(1000) {
            let stop = (start + 1000).min(2 * BLOCK);
            keeper.take(start, &bytes[start as usize..stop as usize]);
        }
        keeper.take(3 * BLOCK, &bytes[3 * BLOCK as usize..]);
        // The first block is incomplete.
        assert_eq!(found(&file, &all), [1, 3]);
        assert_eq!(
            found(&folder.file("u", "1", size).unwrap(), &[Range { offset: BLOCK + 5, length: 1 }]),
            [1]
        );
        assert_eq!(found(&folder.file("u", "2", size).unwrap(), &all), [0; 0]);
        system::write_all_at(&file.data, &[7], BLOCK + 77).unwrap();
        assert_eq!(found(&file, &all), [3]);
        assert_eq!(
            file.around(Range { offset: 70_000, length: 3 * BLOCK }),
            Range { offset: BLOCK, length: 2 * BLOCK + 100 }
        );
        for url in 0..40 {
            folder.file(&url.to_string(), "1", BLOCK).unwrap().keeper().take(0, &bytes[..BLOCK as usize]);
        }
        let taken: u64 =
            std::fs::read_dir(&path).unwrap().map(|e| system::space(&e.unwrap().metadata().unwrap())).sum();
        assert!(taken <= 1 << 20, "{taken}");
        assert_eq!(
            found(&folder.file("39", "1", BLOCK).unwrap(), &[Range { offset: 0, length: BLOCK }]),
            [0]
        );
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    #[cfg(unix)]
    fn follows_no_link_that_others_put_into_the_folder() {
        let path = std::env::temp_dir().join(format!("sapwood-links-{}", std::process::id()));
        let folder = Folder::open(&path, 1 << 20).unwrap();
        let name = folder.file("u", "1", BLOCK).unwrap().name;
        let (target, blocks) = (path.join("target"), path.join(name).with_extension("blocks"));
        for make in [
            |from: &Path, to: &Path| std::os::unix::fs::symlink(from, to),
            |from: &Path, to: &Path| {
                std::fs::write(from, "others").and_then(|()| std::fs::hard_link(from, to))
            },
        ] {
            std::fs::remove_file(&blocks).unwrap();
            make(&target, &blocks).unwrap();
            let refused = folder.file("u", "1", BLOCK).unwrap_err();
            assert!(refused.to_string().ends_with("not a file of the cache"), "{refused}");
        }
        assert_eq!(std::fs::read(&target).unwrap(), b"others");
        std::fs::remove_dir_all(&path).unwrap();
    }
}
