//! Sources of bytes: the interface, local files and memory.

#![allow(clippy::disallowed_methods, reason = "this module is the one door for reading files")]

use crate::cancel;
use crate::checksum::Checksum;
use crate::counters::{self, Counters};
use crate::ledger::{Incident, Ledger};
use crate::plan::{Range, Request, coalesce};
use crate::process::PerProcess;
use crate::remote::{Announced, Version};
use crate::system;
use crate::trace::{self, Cause};
use ring::rand::SystemRandom;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

/// Storage that delivers exact byte ranges; thread-safe.
pub trait Source: Origin {
    /// Path or URL, for messages.
    fn name(&self) -> &str;
    /// Length in bytes.
    fn size(&self) -> u64;
    /// Fills `out` from `offset`, or fails; never delivers less.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()>;
    /// Merges ranges that are wanted together into the best ranges for [`Source::fetch`].
    fn plan(&self, ranges: &[Range]) -> Vec<Request> {
        coalesce(ranges, 16 << 10, 1 << 20)
    }
    /// Best number of bytes to fetch at a time when `threads` fetch `bytes` together: enough chunks for all threads,
    /// but each worth a request.
    fn chunk(&self, bytes: u64, threads: usize) -> u64 {
        (bytes / (4 * threads as u64).max(1)).clamp(128 << 10, 1 << 20)
    }
    /// Whether reads hardly ever have to wait.
    fn is_near(&self) -> bool {
        false
    }
    /// Counters of this source.
    fn counters(&self) -> &Counters;
    /// Releases the system resources. Later reads fail; reads in progress finish.
    fn close(&self) {}

    /// Fills `out` with the bytes of `ranges`, end to end. The ranges are checked against the size, and counted.
    fn fetch(&self, ranges: &[Range], out: &mut [u8], cause: Cause) -> Result<()> {
        let mut rest = out;
        for range in ranges {
            check(*range, self.size(), self.name())?;
            let (to, behind) = rest.split_at_mut_checked(range.length as usize).ok_or_else(too_small)?;
            rest = behind;
            let start = Instant::now();
            let result = self.read_at(range.offset, to);
            for c in [self.counters(), Counters::process()] {
                counters::count(&c.read_calls, 1);
                counters::count(&c.bytes_read, range.length);
                counters::clock(&c.time_storage_ns, start);
            }
            trace::request(self.name(), &[*range], cause, start);
            result?;
        }
        Ok(())
    }
    /// Returns the requests with which `threads` would fetch ranges, each of one or several ranges.
    fn requests(&self, ranges: &[Range], threads: usize) -> Vec<Vec<Range>> {
        let mut ranges = ranges.to_vec();
        ranges.sort();
        ranges.dedup();
        let most = self.chunk(ranges.iter().map(|r| r.length).fold(0, u64::saturating_add), threads);
        let mut requests = Vec::new();
        let mut rest = ranges.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0u64;
            let fits = |range: &&Range| {
                bytes = bytes.saturating_add(range.length);
                bytes <= most
            };
            let (chunk, behind) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = behind;
            requests.extend(self.plan(chunk).into_iter().map(|request| vec![request.range]));
        }
        requests
    }
}

/// The stored file behind a source: its state, and operations of remote storage. By default nothing is known.
pub trait Origin: Send + Sync {
    /// Announces ranges that will be fetched, in this order and exactly as given. Remote storage prefetches them and
    /// keeps them until they were fetched or the result is dropped. Other storage does not call `ranges`. `together`:
    /// no range is of use before all have arrived, so that their order hardly matters.
    fn announce(&self, _ranges: &dyn Fn() -> Vec<Range>, _together: bool) -> Option<Announced> {
        None
    }
    /// Announces a record of the file itself: remote storage reads it together with the next record that is needed.
    fn foresee(&self, _range: Range) {}
    /// Latency of remote storage, as far as is known.
    fn latency(&self) -> Option<Duration> {
        None
    }
    /// Maximum time of an operation.
    fn deadline(&self) -> Option<Duration> {
        None
    }
    /// Whether this thread is in a call that reads from the storage, and must not read more until it has returned.
    fn is_called(&self) -> bool {
        false
    }
    /// Ends the requests in progress; those still needed are sent again.
    fn interrupt(&self) {}
    /// Describes how the file differs from the opened one, if this can be determined at once; growth is not a
    /// difference.
    fn changed(&self) -> Option<String> {
        None
    }
    /// Whether a local file was written to since it was opened; not an error as long as the bytes read are consistent.
    fn written_to(&self) -> bool {
        false
    }
    /// Returns the version of the file, if storage reports it.
    fn version(&self) -> Option<Version> {
        None
    }
    /// Returns the number of a local file, and when its content or its description was changed last, in nanoseconds, if
    /// the system keeps a time that programs cannot set.
    fn touched(&self) -> Option<(u64, i64)> {
        None
    }
    /// The whole-file checksum that remote storage reports now, if it does. Queried once.
    fn promised(&self) -> Result<Option<Checksum>> {
        Ok(None)
    }
    /// Host and port of the server that reports the checksum, for remote storage.
    fn server(&self) -> Option<String> {
        None
    }
    /// Lists a copy of the whole file that could not be verified, because no checksum was reported.
    fn unchecked(&self, _why: &Error) {}
    /// Lists a copy of the whole file that did not match its checksum; returns whether to copy it again.
    fn miscopied(&self, _attempt: u32, _error: &Error) -> bool {
        false
    }
    /// Returns the incidents, whether the requests were repeated or not.
    fn ledger(&self) -> Vec<Incident> {
        Vec::new()
    }
}

/// Returns an error for a range outside a file of `size` bytes.
pub fn check(range: Range, size: u64, name: &str) -> Result<()> {
    if range.offset.checked_add(range.length).is_some_and(|end| end <= size) {
        return Ok(());
    }
    let Range { offset, .. } = range;
    let message = format!("{name}: bytes {offset} to {} requested, but the file has {size}", range.end());
    Err(Error::new(ErrorKind::UnexpectedEof, message))
}

pub(crate) fn too_small() -> Error {
    Error::new(ErrorKind::InvalidInput, "the buffer is smaller than the range")
}

/// Creates an unnamed file, which is removed when it is closed. Until then, only this user can open it.
pub(crate) fn temporary() -> Result<File> {
    // Nobody can guess the name, and so create the file first.
    let number = ring::rand::generate::<[u8; 16]>(&SystemRandom::new())
        .map_err(|_| Error::other("no random numbers"))?
        .expose();
    let path = std::env::temp_dir().join(format!("sapwood-{:032x}", u128::from_ne_bytes(number)));
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Passes on a file from start to end, and returns to the start.
pub(crate) fn read_all(file: &mut File, take: &mut dyn FnMut(&[u8])) -> Result<()> {
    let mut bytes = vec![0; 1 << 20];
    file.rewind()?;
    loop {
        match file.read(&mut bytes)? {
            0 => return file.rewind(),
            n => take(bytes.get(..n).unwrap_or_default()),
        }
    }
}

/// Bytes of a page of memory.
const PAGE: usize = 4096;
/// Distance in bytes, within a page, between a memory address and its file offset below which some processors copy five
/// times slower.
const SLOW: usize = 32;
/// Bytes read at a time for copying to such addresses; fewer bytes are read directly.
const ASIDE: usize = 128 << 10;

/// Reads from `offset` on. Slow addresses are filled through a buffer that is half a page apart.
fn read_exact(file: &File, offset: u64, out: &mut [u8]) -> Result<()> {
    let in_page = (offset % PAGE as u64) as usize;
    let further = out.as_ptr().addr().wrapping_sub(in_page) % PAGE;
    let mut aside = Vec::new();
    if out.len() < ASIDE || !(1..SLOW).contains(&further) || aside.try_reserve_exact(ASIDE + PAGE).is_err() {
        return system::read_exact_at(file, out, offset);
    }
    aside.resize(ASIDE + PAGE, 0u8);
    let start = (in_page + PAGE / 2).wrapping_sub(aside.as_ptr().addr()) % PAGE;
    let mut at = offset;
    for part in out.chunks_mut(ASIDE) {
        let bytes = aside.get_mut(start..start + part.len()).ok_or_else(too_small)?;
        system::read_exact_at(file, bytes, at)?;
        part.copy_from_slice(bytes);
        at += part.len() as u64;
    }
    Ok(())
}

/// Pauses in milliseconds to wait for an empty file to be filled.
const EMPTY_PAUSES: [u64; 5] = [2, 4, 8, 16, 32];

/// Opens a local file.
pub fn open(path: &Path) -> Result<Arc<dyn Source>> {
    Ok(Arc::new(Local::open(path)?))
}

/// A local file, read with `pread`.
pub struct Local {
    /// `None` after it was closed.
    file: PerProcess<RwLock<Option<Arc<File>>>>,
    name: String,
    size: u64,
    /// Modification time when it was opened, if the system reports it.
    written: Option<SystemTime>,
    /// Reported version: the origin of a copy, otherwise the modification time.
    version: Option<Version>,
    ledger: Ledger,
}

impl Local {
    /// Opens `path` for reading.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let fail = |e: Error| Error::new(e.kind(), format!("{name}: {e}"));
        // Checked before opening: opening a pipe would wait for a writer.
        if !std::fs::metadata(path).map_err(fail)?.is_file() {
            return Err(Error::new(ErrorKind::InvalidInput, format!("{name}: not a regular file")));
        }
        let file = File::open(path).map_err(fail)?;
        // A writer that recreates the file leaves it empty for a moment.
        for pause in EMPTY_PAUSES {
            if file.metadata().map_err(fail)?.len() > 0 {
                break;
            }
            cancel::sleep(Duration::from_millis(pause));
        }
        Self::of(file, name.clone(), Ledger::default()).map_err(fail)
    }
    /// Wraps an open file under another name; `ledger` holds the problems of fetching it.
    pub fn of(file: File, name: String, ledger: Ledger) -> Result<Self> {
        let about = file.metadata()?;
        let (size, written) = (about.len(), about.modified().ok());
        let since = written.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        let version = since.map(|since| Version { of: String::new(), tag: since.as_nanos().to_string() });
        let file = PerProcess::new(RwLock::new(Some(Arc::new(file))));
        Ok(Self { file, name, size, written, version, ledger })
    }
    fn slot(&self) -> &RwLock<Option<Arc<File>>> {
        let inherited = |old: &RwLock<Option<Arc<File>>>| old.try_read().ok().and_then(|file| file.clone());
        self.file.get(|old| RwLock::new(old.and_then(inherited)))
    }
    fn open_file(&self) -> Option<Arc<File>> {
        self.slot().read().unwrap_or_else(PoisonError::into_inner).clone()
    }
    /// Marks it as a copy of a remote file of this version.
    #[must_use]
    pub fn known_as(self, version: Option<Version>) -> Self {
        Self { version, ..self }
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
        let file = self.open_file();
        let file = file.ok_or_else(|| Error::other(format!("the file is closed: {}", self.name)))?;
        read_exact(&file, offset, out).map_err(|e| Error::new(e.kind(), format!("{}: {e}", self.name)))
    }
    fn is_near(&self) -> bool {
        true
    }
    fn counters(&self) -> &Counters {
        self.ledger.counters()
    }
    fn close(&self) {
        self.slot().write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Origin for Local {
    fn changed(&self) -> Option<String> {
        let file = self.open_file()?;
        let now = file.metadata().ok()?;
        if now.len() < self.size {
            return Some(format!("it had {} bytes, now it has {}", self.size, now.len()));
        }
        let later = now.len() == self.size && now.modified().ok() != self.written;
        later.then(|| "it was written to".to_owned())
    }
    fn written_to(&self) -> bool {
        let now = self.open_file().and_then(|file| file.metadata().ok());
        now.is_some_and(|now| now.len() != self.size || now.modified().ok() != self.written)
    }
    fn version(&self) -> Option<Version> {
        self.version.clone()
    }
    fn touched(&self) -> Option<(u64, i64)> {
        // A copy of a remote file has the version of the original, whenever it was made.
        self.version.as_ref().filter(|version| version.of.is_empty())?;
        system::touched(&self.open_file()?.metadata().ok()?)
    }
    fn ledger(&self) -> Vec<Incident> {
        self.ledger.incidents()
    }
}

/// Bytes in memory.
pub struct Memory {
    bytes: Arc<[u8]>,
    name: String,
    counters: Counters,
}

impl Memory {
    /// Wraps `bytes`; `name` is used in messages.
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
    fn is_near(&self) -> bool {
        true
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Origin for Memory {}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_temporary_file_is_for_this_user_only() {
        use std::os::unix::fs::PermissionsExt;
        let mode = super::temporary().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }

    #[test]
    fn a_file_that_is_begun_anew_is_waited_for() {
        let path = std::env::temp_dir().join(format!("sapwood-empty-{}", std::process::id()));
        std::fs::write(&path, b"").unwrap();
        let writer = std::thread::spawn({
            let path = path.clone();
            move || {
                std::thread::sleep(Duration::from_millis(10));
                std::fs::write(path, b"whole").unwrap();
            }
        });
        let size = Local::open(&path).unwrap().size();
        writer.join().unwrap();
        assert_eq!(size, 5);
        std::fs::write(&path, b"").unwrap();
        assert_eq!(Local::open(&path).unwrap().size(), 0);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn bytes_arrive_at_addresses_of_any_alignment() {
        let path = std::env::temp_dir().join(format!("sapwood-aligned-{}", std::process::id()));
        let bytes: Vec<u8> = (0..3 * ASIDE as u32).map(|i| (i * 7 + i / 256) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let source = Local::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut room = vec![0; bytes.len() + 2 * PAGE];
        let page = room.as_ptr().align_offset(PAGE);
        for (offset, length) in [(0, 2 * ASIDE + 77), (4091, ASIDE), (4100, ASIDE - 1)] {
            for shift in [0, 1, SLOW - 1, SLOW, PAGE - 1] {
                let start = page + (offset + shift) % PAGE;
                room.fill(0);
                source.read_at(offset as u64, &mut room[start..start + length]).unwrap();
                assert_eq!(room[start..start + length], bytes[offset..offset + length], "{offset} + {shift}");
                assert!(room[..start].iter().chain(&room[start + length..]).all(|&byte| byte == 0));
            }
        }
        assert!(source.read_at(4096, &mut room[page + 16..][..3 * ASIDE]).is_err());
    }

    #[test]
    fn reads_exactly_or_not_at_all() {
        let source = Memory::new("m", vec![1u8, 2, 3, 4]);
        let mut out = [0; 2];
        let mut fetch = |offset| {
            let result = source.fetch(&[Range { offset, length: 2 }], &mut out, Cause::Object);
            result.map(|()| out).map_err(|e| e.kind())
        };
        assert_eq!(fetch(1), Ok([2, 3]));
        assert_eq!(fetch(3), Err(ErrorKind::UnexpectedEof));
        assert_eq!(fetch(u64::MAX), Err(ErrorKind::UnexpectedEof));
        assert_eq!(source.counters().snapshot()[0], ("read_calls", 1));
    }
}
