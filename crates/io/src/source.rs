//! Where bytes come from: a local file, or memory.

#![allow(clippy::disallowed_methods, reason = "this module is the one door for reading files")]

use crate::counters::{self, Counters};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

/// Storage that delivers exact byte ranges; safe to use from many threads.
pub trait Source: Send + Sync {
    /// Path or URL, for messages.
    fn name(&self) -> &str;
    /// Length in bytes.
    fn size(&self) -> u64;
    /// Fills `out` from `offset`, or fails; never delivers less.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;
    /// Bytes worth reading beyond a need rather than sending a second request.
    fn gap(&self) -> u64 {
        16 << 10
    }
    /// The least and the most bytes that make a good request.
    fn request(&self) -> (u64, u64) {
        (128 << 10, 1 << 20)
    }
    /// Counters of this source.
    fn counters(&self) -> &Counters;
    /// Gives up what the system holds open for it; reading more fails, what is being read comes to its end.
    fn close(&self) {}

    /// As [`Source::read_at`], checked against the size and counted.
    fn fetch(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let length = out.len() as u64;
        if offset.checked_add(length).is_none_or(|end| end > self.size()) {
            return Err(Error::new(
                ErrorKind::UnexpectedEof,
                format!(
                    "{}: bytes {offset} to {} wanted, but the file has {}",
                    self.name(),
                    offset.saturating_add(length),
                    self.size()
                ),
            ));
        }
        let start = Instant::now();
        let result = self.read_at(offset, out);
        for c in [self.counters(), Counters::process()] {
            counters::count(&c.read_calls, 1);
            counters::count(&c.bytes_read, length);
            counters::clock(&c.time_storage_ns, start);
        }
        result
    }
}

/// Opens a local file.
pub fn open(path: &Path) -> Result<Arc<dyn Source>> {
    Ok(Arc::new(Local::open(path)?))
}

/// A local file, read with `pread`.
pub struct Local {
    /// None once it is closed.
    file: RwLock<Option<Arc<File>>>,
    name: String,
    size: u64,
    counters: Counters,
}

impl Local {
    /// Opens `path` for reading.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let fail = |e: Error| Error::new(e.kind(), format!("{name}: {e}"));
        // Asked before it is opened: opening a pipe would wait for somebody to write to it.
        if !std::fs::metadata(path).map_err(fail)?.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, format!("{name}: not a regular file")));
        }
        let file = File::open(path).map_err(fail)?;
        let size = file.metadata().map_err(fail)?.len();
        Ok(Self { file: RwLock::new(Some(Arc::new(file))), name, size, counters: Counters::default() })
    }
}

impl Source for Local {
    fn name(&self) -> &str {
        &self.name
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner).clone();
        let file = file.ok_or_else(|| Error::other(format!("the file is closed: {}", self.name)))?;
        file.read_exact_at(out, offset).map_err(|e| Error::new(e.kind(), format!("{}: {e}", self.name)))
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn close(&self) {
        self.file.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Bytes in memory.
pub struct Memory {
    bytes: Arc<[u8]>,
    name: String,
    counters: Counters,
}

impl Memory {
    /// Wraps `bytes`; `name` is for messages.
    pub fn new(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { bytes: bytes.into(), name: name.into(), counters: Counters::default() }
    }
}

impl Source for Memory {
    fn name(&self) -> &str {
        &self.name
    }
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let start = offset as usize;
        let bytes = self.bytes.get(start..start.saturating_add(out.len()));
        out.copy_from_slice(bytes.ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, self.name.clone()))?);
        Ok(())
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_exactly_or_not_at_all() {
        let source = Memory::new("m", vec![1u8, 2, 3, 4]);
        let mut out = [0; 2];
        source.fetch(1, &mut out).unwrap();
        assert_eq!(out, [2, 3]);
        assert_eq!(source.fetch(3, &mut out).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(source.fetch(u64::MAX, &mut out).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(source.counters().snapshot()[0], ("read_calls", 1));
    }
}
