//! Stretches: consecutive records that are written first and accepted into the file when complete.

use super::{CLOSING, CommitEvery, FileWriter, KeyId};
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};

/// A place for consecutive records.
#[derive(Debug)]
pub struct Stretch {
    /// First byte.
    pub start: u64,
    /// Current end.
    pub end: u64,
    /// Maximum end, unless it is at the end of the file.
    limit: Option<u64>,
}

impl FileWriter {
    /// Finds a place for consecutive records of at most `most` bytes: after all others, or in a segment that was free
    /// when the file was opened.
    pub fn begin_stretch(&mut self, most: u64) -> Stretch {
        let old = self.free.range(..self.opened).map(|(first, end)| (*first, end - first));
        match old.filter(|(_, room)| *room >= most + 8).min_by_key(|(_, room)| *room) {
            Some((first, room)) => {
                self.free.remove(&first);
                Stretch { start: first, end: first, limit: Some(first + room) }
            }
            None => Stretch { start: self.end, end: self.end, limit: None },
        }
    }
    /// Writes whole records unchanged at the end of a stretch. They belong to the file only after it accepts the stretch,
    /// so that the rest of a failed write is overwritten. The rest of a free segment is marked first, as when a record is
    /// allocated.
    pub fn append(&mut self, stretch: &mut Stretch, parts: &[&[u8]]) -> Result<()> {
        let end = stretch.end + parts.iter().map(|part| part.len() as u64).sum::<u64>();
        if stretch.limit.is_some_and(|limit| end + 8 > limit) {
            return Err(Error::limit("records are larger than planned"));
        }
        if let Some(limit) = stretch.limit {
            self.mark_free(end, limit)?;
        }
        self.put(stretch.end, parts)?;
        stretch.end = end;
        Ok(())
    }
    /// Gives up a stretch that could not be written.
    pub fn give_back(&mut self, stretch: &Stretch) {
        if let Some(limit) = stretch.limit {
            self.released.insert((stretch.start, limit));
        }
    }
    /// Accepts a stretch into the file if there is room after the file to complete it: `need` bytes for the record
    /// `key`, plus the needs that other records have registered. A full disk therefore loses only the data that do not
    /// fit. Returns whether a commit is due. If so, the room was not checked, because the commit itself does that.
    pub fn accept(&mut self, stretch: &Stretch, key: KeyId, need: usize) -> Result<bool> {
        const ZEROS: &[u8] = &[0; 1 << 16];
        self.needs.insert(key, need);
        let end = if stretch.limit.is_some() { self.end } else { stretch.end };
        let written = self.uncommitted + (stretch.end - stretch.start);
        let due = match self.options.commit_every {
            CommitEvery::Cluster => true,
            CommitEvery::Bytes(bytes) => written >= bytes,
            CommitEvery::Never => false,
        };
        // A file that is kept only if complete needs no room for completion.
        if !due && !self.options.atomic {
            let keys =
                self.directories.iter().flat_map(|d| d.entries.iter().map(|e| &e.text).chain([&d.text]));
            let keys: usize = keys.map(|text| text.size(true)).sum();
            let room = CLOSING + keys + self.needs.values().sum::<usize>();
            let mut parts = grow::filled(room / ZEROS.len(), ZEROS)?;
            parts.try_push(ZEROS.get(..room % ZEROS.len()).unwrap_or_default())?;
            self.put(end, &parts)?;
        }
        if let Some(limit) = stretch.limit {
            self.released.insert((stretch.end, limit));
        }
        self.uncommitted = written;
        self.end = end;
        Ok(due)
    }
}
