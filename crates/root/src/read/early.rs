//! A page that is decompressed before its turn.
//!
//! The pages of a read are not of one size: a column may have small pages first and end with one that takes as long as
//! all others of the last cluster. If it were decompressed in its turn, one thread would still be at work when the
//! others have nothing left to do. So a free thread decompresses it while the others read the pages before it.

use super::run::PageJob;
use crate::error::{Error, ErrorKind, Result};
use crate::table::{PagePlace, Unpacked};
use sapwood_io::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which a waiting thread checks whether the read has failed.
const LOOK: Duration = Duration::from_millis(10);

/// A decompressed page: the buffer, its parts in it, and the time that decompressing took.
pub type EarlyPage = (Arc<Vec<u8>>, Unpacked, Duration);

/// The largest page of a read.
pub struct Early<'r> {
    job: &'r PageJob,
    state: Mutex<State>,
    moved: Condvar,
}

enum State {
    /// No thread has begun.
    Open,
    /// A thread decompresses it before its turn.
    Begun,
    /// The page, and the time that decompressing took.
    Done(Result<EarlyPage>),
    /// Its turn has come.
    Gone,
}

impl<'r> Early<'r> {
    /// Returns the largest of the pages that are read from their start, if it has more than `most` bytes in the files.
    pub fn of(jobs: &'r [PageJob], most: u64) -> Option<Self> {
        let fits = |job: &&PageJob| {
            // The rest of a page may have been kept by the step before.
            let whole = job.page.from == 0 && matches!(job.page.place, PagePlace::Stored(_));
            whole && job.length() > most
        };
        let job = jobs.iter().filter(fits).max_by_key(|job| job.length())?;
        Some(Self { job, state: Mutex::new(State::Open), moved: Condvar::new() })
    }
    /// The page.
    pub fn job(&self) -> &'r PageJob {
        self.job
    }
    fn is(&self, job: &PageJob) -> bool {
        std::ptr::eq(self.job, job)
    }
    /// Whether the caller must decompress it now, because no thread has begun.
    pub fn begin(&self) -> bool {
        let mut state = lock(&self.state);
        let open = matches!(*state, State::Open);
        if open {
            *state = State::Begun;
        }
        open
    }
    /// Keeps the page until its turn.
    pub fn put(&self, page: Result<EarlyPage>) {
        *lock(&self.state) = State::Done(page);
        self.moved.notify_all();
    }
    /// Whether a page whose turn has come is this one and has been decompressed or will be; if so, call `take`.
    pub fn has(&self, job: &PageJob) -> bool {
        if !self.is(job) {
            return false;
        }
        let mut state = lock(&self.state);
        if matches!(*state, State::Open) {
            *state = State::Gone;
        }
        !matches!(*state, State::Gone)
    }
    /// Returns the page, once the thread that decompresses it is ready; None if it is another one.
    pub fn take(&self, job: &PageJob, failed: &AtomicBool) -> Option<Result<EarlyPage>> {
        if !self.is(job) {
            return None;
        }
        let mut state = lock(&self.state);
        loop {
            match std::mem::replace(&mut *state, State::Gone) {
                State::Done(page) => return Some(page),
                State::Begun if failed.load(Ordering::Relaxed) => {
                    return Some(Err(Error::new(ErrorKind::Io, "the read has failed elsewhere")));
                }
                State::Begun => *state = State::Begun,
                State::Open | State::Gone => return None,
            }
            (state, _) = self.moved.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
