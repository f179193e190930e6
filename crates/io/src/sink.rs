//! Destinations of written bytes. The only module that creates files.

use crate::lock;
use crate::process::Owner;
use crate::system;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, IoSlice, Seek, SeekFrom, Write};
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{Builder, JoinHandle};

/// Bytes passed to the disk at a time, if they are passed on before the end.
const AHEAD: u64 = 32 << 20;

/// Takes bytes at offsets. Bytes that were never written read as zero.
pub trait Sink: Send {
    /// Writes all of `parts`, one after another, from `offset` on.
    fn write_at(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()>;
    /// Sets the length of the storage to `length` bytes and flushes everything; called at the end and at commits.
    fn finish(&mut self, length: u64) -> io::Result<()>;
    /// Name for messages.
    fn name(&self) -> &str;
    /// Returns an error if another program removed, replaced or truncated the storage, so that written bytes are lost.
    fn check_kept(&self) -> io::Result<()> {
        Ok(())
    }
    /// Removes the storage, if it is a file: it will never be complete.
    fn discard(&mut self) {}
}

/// A local file, locked against other sinks if the file system has locks.
#[derive(Debug)]
pub struct FileSink {
    file: File,
    /// Absolute: the working directory may change.
    path: PathBuf,
    position: u64,
    /// The least length of the file, unless another process truncates it; 0 for a device.
    length: u64,
    regular: bool,
    name: String,
    owner: Owner,
    ahead: Option<Ahead>,
}

/// Writes to the disk in the background while more bytes arrive, for a file that will be synchronized at the end.
#[derive(Debug)]
struct Ahead {
    every: u64,
    waiting: u64,
    under_way: Option<JoinHandle<io::Result<()>>>,
}

impl Ahead {
    fn new(every: u64) -> Self {
        Self { every, waiting: 0, under_way: None }
    }
    /// Counts written bytes and starts to write them to the disk once there are enough.
    fn wrote(&mut self, bytes: u64, file: &File) -> io::Result<()> {
        self.waiting += bytes;
        if self.waiting < self.every || self.under_way.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        self.wait()?;
        let file = file.try_clone()?;
        self.waiting = 0;
        let thread = Builder::new().name("sapwood-flush".to_owned());
        // If no thread can be started, the system writes later.
        self.under_way = thread.spawn(move || file.sync_data()).ok();
        Ok(())
    }
    /// Waits for the write in progress. The system reports a disk error only once, so that it must not get lost.
    fn wait(&mut self) -> io::Result<()> {
        let thread = self.under_way.take().map(JoinHandle::join);
        thread.map_or(Ok(()), |done| {
            done.unwrap_or_else(|_| Err(io::Error::other("the flush of a file ended early")))
        })
    }
}

impl FileSink {
    /// Creates a file; fails if it exists.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().write(true).create_new(true))
    }
    /// Creates a file, replacing an existing one.
    pub fn recreate(path: &Path) -> io::Result<Self> {
        let mut sink = Self::open(path, OpenOptions::new().write(true).create(true).truncate(false))?;
        // Only after the lock ensures that no one else writes it.
        if sink.file.metadata()?.len() > 0 {
            sink.file.set_len(0)?;
        }
        sink.length = 0;
        Ok(sink)
    }
    /// Starts to write bytes to the disk early, so that the final flush takes less time.
    #[must_use]
    pub fn flushing(mut self) -> Self {
        self.ahead = Some(Ahead::new(AHEAD));
        self
    }
    /// Opens an existing file to change it.
    pub fn update(path: &Path) -> io::Result<Self> {
        Self::open(path, OpenOptions::new().write(true))
    }
    #[expect(clippy::disallowed_methods, reason = "the one place that opens files to write")]
    fn open(path: &Path, options: &OpenOptions) -> io::Result<Self> {
        let name = path.display().to_string();
        let file = options.open(path).map_err(|e| io::Error::new(e.kind(), format!("{name}: {e}")))?;
        let found = file.metadata()?;
        // Devices are not locked.
        if found.is_file() && matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            let text = format!("{name} is already open for writing; close the other writer first");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, text));
        }
        let length = if found.is_file() { found.len() } else { 0 };
        Ok(Self {
            file,
            path: path::absolute(path)?,
            position: 0,
            length,
            regular: found.is_file(),
            name,
            owner: Owner::here(),
            ahead: None,
        })
    }
    /// Returns an error if another program truncated the file. A write beyond its end would hide that: the lost bytes
    /// would read as zeros.
    fn check_length(&self, open: &Metadata) -> io::Result<()> {
        if open.len() < self.length { Err(self.lost("truncated")) } else { Ok(()) }
    }
    fn lost(&self, how: &str) -> io::Error {
        io::Error::other(format!("{}: the file was {how} while it was being written", self.name))
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        // A forked child shares the lock. Without an unlock by the owner it would keep the lock; with an unlock of its
        // own it would end it.
        if self.owner.is_here() {
            let _ = self.file.unlock();
        }
    }
}

impl Sink for FileSink {
    fn write_at(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        self.owner.check()?;
        self.check_length(&self.file.metadata()?)?;
        if self.position != offset {
            // After an error the position is unknown: no later write may rely on the old one.
            self.position = u64::MAX;
            self.file.seek(SeekFrom::Start(offset))?;
        }
        self.position = u64::MAX;
        let total = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut rest = slices.as_mut_slice();
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match self.file.write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut rest, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.position = offset + total;
        if self.regular {
            self.length = self.length.max(self.position);
        }
        self.ahead.as_mut().map_or(Ok(()), |ahead| ahead.wrote(total, &self.file))
    }
    fn finish(&mut self, length: u64) -> io::Result<()> {
        self.owner.check()?;
        self.ahead.as_mut().map_or(Ok(()), Ahead::wait)?;
        self.check_kept()?;
        self.file.set_len(length)?;
        self.length = length;
        Ok(())
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn check_kept(&self) -> io::Result<()> {
        if !self.regular {
            return Ok(());
        }
        let open = self.file.metadata()?;
        match system::is_at(&self.path, &self.file, &open) {
            Ok(true) => self.check_length(&open),
            Ok(false) => Err(self.lost("replaced by another file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.lost("removed")),
            Err(error) => Err(error),
        }
    }
    fn discard(&mut self) {
        // Not the file of the process that this one was forked from, and not one that another program put there.
        if self.regular && self.owner.is_here() && self.check_kept().is_ok() {
            // After an error it is removed when it is closed.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A sink in memory, for tests. Its clones share the bytes.
#[derive(Debug, Clone, Default)]
pub struct MemorySink {
    bytes: Arc<Mutex<Vec<u8>>>,
    start: u64,
    room: Option<u64>,
}

impl MemorySink {
    /// Creates an empty sink.
    pub fn new() -> Self {
        Self::default()
    }
    /// Creates a sink that drops all bytes before `start`, which simulates a large file.
    pub fn starting_at(start: u64) -> Self {
        Self { start, ..Self::default() }
    }
    /// Creates a sink that is full after `room` bytes.
    pub fn limited(room: u64) -> Self {
        Self { room: Some(room), ..Self::default() }
    }
    /// The written bytes.
    pub fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        lock(&self.bytes)
    }
}

impl Sink for MemorySink {
    fn write_at(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
        let mut bytes = self.bytes();
        let mut offset = offset;
        for part in parts {
            let end = offset + part.len() as u64;
            if self.room.is_some_and(|room| end > room) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let skip = usize::try_from(self.start.saturating_sub(offset)).unwrap_or(usize::MAX);
            if let Some(kept) = part.get(skip..).filter(|kept| !kept.is_empty()) {
                let stop = usize::try_from(end - self.start).map_err(io::Error::other)?;
                if bytes.len() < stop {
                    bytes.resize(stop, 0);
                }
                if let Some(place) = bytes.get_mut(stop - kept.len()..stop) {
                    place.copy_from_slice(kept);
                }
            }
            offset = end;
        }
        Ok(())
    }
    fn finish(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length.saturating_sub(self.start)).map_err(io::Error::other)?;
        self.bytes().resize(length, 0);
        Ok(())
    }
    fn name(&self) -> &'static str {
        "memory"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_keeps_gaps_as_zeros() {
        let mut sink = MemorySink::new();
        sink.write_at(4, &[b"ab", b"", b"c"]).unwrap();
        sink.write_at(0, &[b"x"]).unwrap();
        sink.finish(8).unwrap();
        assert_eq!(*sink.bytes(), b"x\0\0\0abc\0");
    }

    #[test]
    fn memory_forgets_what_lies_before_its_start() {
        let mut sink = MemorySink::starting_at(10);
        sink.write_at(8, &[b"abcd"]).unwrap();
        sink.write_at(0, &[b"head"]).unwrap();
        sink.write_at(13, &[b"z"]).unwrap();
        assert_eq!(*sink.bytes(), b"cd\0z");
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "reads back what was written")]
    fn files_are_written_at_offsets_and_cut() {
        let path = std::env::temp_dir().join(format!("sapwood-sink-{}", std::process::id()));
        let mut sink = FileSink::recreate(&path).unwrap();
        sink.write_at(2, &[b"cd", b"ef"]).unwrap();
        sink.write_at(6, &[b"gh"]).unwrap();
        sink.write_at(0, &[b"ab"]).unwrap();
        sink.finish(7).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdefg");
        assert!(FileSink::create(&path).is_err());
        for second in [FileSink::recreate, FileSink::update] {
            assert_eq!(second(&path).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        }
        assert_eq!(std::fs::read(&path).unwrap(), b"abcdefg");
        drop(sink);
        let mut sink = FileSink::recreate(&path).unwrap();
        sink.ahead = Some(Ahead::new(2));
        for (place, letter) in [b"a", b"b", b"c", b"d"].into_iter().enumerate() {
            sink.write_at(place as u64, &[letter]).unwrap();
        }
        sink.finish(4).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"abcd");
        drop(sink);
        FileSink::recreate(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "does what another program may do")]
    fn a_file_that_others_remove_replace_or_truncate_is_an_error() {
        let path = std::env::temp_dir().join(format!("sapwood-kept-{}", std::process::id()));
        let other = path.with_extension("other");
        let harm: [(&str, &dyn Fn()); 3] = [
            ("removed", &|| std::fs::remove_file(&path).unwrap()),
            ("replaced", &|| {
                std::fs::write(&other, b"other").unwrap();
                std::fs::rename(&other, &path).unwrap();
            }),
            ("truncated", &|| std::fs::write(&path, b"").unwrap()),
        ];
        for (word, harm) in harm {
            let mut sink = FileSink::recreate(&path).unwrap();
            sink.write_at(0, &[b"abcd"]).unwrap();
            sink.finish(4).unwrap();
            harm();
            let error = sink.finish(4).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
        let mut sink = FileSink::recreate(&path).unwrap();
        sink.write_at(0, &[b"abcd"]).unwrap();
        std::fs::write(&path, b"ab").unwrap();
        for place in [0, 4, 8] {
            let error = sink.write_at(place, &[b"efgh"]).unwrap_err();
            assert!(error.to_string().contains("truncated"), "{error}");
        }
        assert!(sink.finish(8).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"ab");
        drop(sink);
        let mut sink = FileSink::recreate(&path).unwrap();
        sink.write_at(0, &[b"abcd"]).unwrap();
        sink.finish(2).unwrap();
        sink.finish(2).unwrap();
        sink.discard();
        assert!(!path.exists());
        std::fs::write(&path, b"of another program").unwrap();
        sink.discard();
        assert!(path.exists());
        drop(sink);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "needs a file that cannot be flushed")]
    fn an_error_of_the_disk_is_not_lost() {
        let device = OpenOptions::new().write(true).open("/dev/null").unwrap();
        let mut ahead = Ahead::new(2);
        ahead.wrote(1, &device).unwrap();
        ahead.wait().unwrap();
        ahead.wrote(1, &device).unwrap();
        assert_eq!(ahead.wait().unwrap_err().kind(), io::ErrorKind::InvalidInput);
        ahead.wait().unwrap();
    }
}
