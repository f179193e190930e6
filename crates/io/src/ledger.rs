//! Counters of requests, and a list of those that had problems.

use crate::counters::{self, Counters};
use crate::lock;
use crate::plan::Range;
use crate::trace::{self, Cause};
use std::io::Error;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime};

/// A request that had a problem.
#[derive(Debug, Clone)]
pub struct Incident {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// First byte requested.
    pub offset: u64,
    /// Number of bytes requested, without gaps.
    pub length: u64,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Whether the request was repeated.
    pub again: bool,
    /// Description.
    pub message: String,
}

/// Maximum number of characters of a server message.
const LONGEST: usize = 500;

/// Returns one line of a server message for display: without terminal control characters, and with limited length.
pub fn said(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} ...", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// Maximum number of incidents kept.
const INCIDENTS: usize = 10_000;

/// The requests for a file, from the one that opened it: all are counted, and those with problems are listed. A clone
/// is the same ledger.
#[derive(Clone, Default)]
pub struct Ledger {
    counters: Arc<Counters>,
    incidents: Arc<Mutex<Vec<Incident>>>,
}

impl Ledger {
    /// Creates a ledger without incidents that uses existing counters.
    pub fn of(counters: Arc<Counters>) -> Self {
        Self { counters, incidents: Arc::default() }
    }

    /// Returns its counters.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Adds to a counter of the file and of the process.
    pub fn count(&self, which: impl Fn(&Counters) -> &AtomicU64, n: u64) {
        for c in [&*self.counters, Counters::process()] {
            counters::count(which(c), n);
        }
    }

    /// Adds the time since `start` to both, in nanoseconds.
    pub fn clock(&self, which: impl Fn(&Counters) -> &AtomicU64, start: Instant) {
        for c in [&*self.counters, Counters::process()] {
            counters::clock(which(c), start);
        }
    }

    /// Counts and traces a finished request, with the ranges received.
    pub fn ended(&self, name: &str, came: &[Range], cause: Cause, start: Instant) {
        self.count(|c| &c.read_calls, 1);
        self.count(|c| &c.bytes_read, came.iter().map(|range| range.length).sum());
        self.clock(|c| &c.time_storage_ns, start);
        trace::request(name, came, cause, start);
    }

    /// Counts and lists a request that had a problem.
    pub fn note(&self, spans: &[Range], attempt: u32, again: bool, error: &Error) {
        self.count(|c| if again { &c.retries } else { &c.failures }, 1);
        self.list(spans, attempt, again, error.to_string());
    }

    /// Lists an incident that is not a request for bytes, without counting it.
    pub fn list(&self, spans: &[Range], attempt: u32, again: bool, message: String) {
        let mut incidents = lock(&self.incidents);
        if incidents.len() < INCIDENTS {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            incidents.push(Incident {
                time: now.map_or(0, |t| t.as_nanos() as u64),
                offset: spans.first().map_or(0, |r| r.offset),
                length: spans.iter().map(|r| r.length).sum(),
                attempt,
                again,
                message,
            });
        }
    }

    /// Returns the incidents, oldest first.
    pub fn incidents(&self) -> Vec<Incident> {
        lock(&self.incidents).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_is_one_line() {
        assert_eq!(said("  no\r\n such\u{1b}[2Jfile\0 "), "no such [2Jfile");
        assert_eq!(said(&"ä".repeat(1 << 20)).chars().count(), LONGEST + 4);
    }
}
