//! What is done about a request that fails: the same again, another way, or nothing.

use super::Fault;
use std::io::{Error, ErrorKind};
use std::time::{Duration, Instant};

/// How often a request is sent again by one way, as long as there is another that was not tried.
pub const BEFORE_LEAVING: u32 = 3;

/// How often an opening that failed so is tried again: where nobody listens, the name or the port may be wrong.
pub fn retries_of_opening(error: &Error, retries: u32) -> u32 {
    if error.kind() == ErrorKind::ConnectionRefused { retries.min(BEFORE_LEAVING) } else { retries }
}

/// How long is waited before what failed is sent again.
pub fn pause_before(attempt: u32) -> Duration {
    Duration::from_millis(50 << attempt.min(7))
}

/// Which of `ways` comes after one that failed, those passed over that lead elsewhere.
pub fn next_in_turn(failed: usize, ways: usize, elsewhere: &[usize]) -> Option<usize> {
    (1..ways).map(|step| (failed + step) % ways).find(|way| !elsewhere.contains(way))
}

/// Requests for the same bytes, one after the other, by several ways.
pub struct Tries {
    /// What a way has of time.
    patience: Duration,
    /// When that of the present one is over.
    pub deadline: Instant,
    /// Which attempt it is by this way; in turns by all ways once none is left, from 1.
    pub attempt: u32,
    /// Ways that were not gone since anything came, beside the present one.
    pub others: usize,
    /// The last way that failed so that it may do later.
    hope: Option<usize>,
}

impl Tries {
    pub fn new(ways: usize, patience: Duration) -> Self {
        Self {
            patience,
            deadline: Instant::now() + patience,
            attempt: 1,
            others: ways.saturating_sub(1),
            hope: None,
        }
    }

    /// Notes that something came.
    pub fn moved(&mut self, ways: usize) {
        (self.attempt, self.others, self.hope) = (1, ways.saturating_sub(1), None);
    }

    /// Whether a pause would be too long.
    fn late(&self, pause: Duration) -> bool {
        Instant::now() + pause >= self.deadline
    }

    /// Whether it is sent again after a pause: by the same way, or in turn where all have failed.
    pub fn again(&mut self, fault: &Fault, way: usize, retries: u32, pause: Duration) -> bool {
        let again = if self.others > 0 {
            // One that hangs would take all the time.
            let hangs = fault.error.kind() == ErrorKind::TimedOut;
            fault.again && !hangs && self.attempt <= retries.min(BEFORE_LEAVING)
        } else {
            (fault.again || self.hope.is_some_and(|other| other != way)) && self.attempt <= retries
        };
        if fault.again {
            self.hope = Some(way);
        }
        again && !self.late(pause)
    }

    /// What is said when all have failed.
    pub fn failed(&self, name: &str, fault: &Fault, pause: Duration) -> Error {
        let why = if self.late(pause) { " (out of time)" } else { "" };
        let times = match self.attempt {
            1 => String::new(),
            attempt => format!(", after {attempt} attempts"),
        };
        Error::new(fault.error.kind(), format!("{name}: {}{why}{times}", fault.error))
    }

    /// Goes another way, which has as much time.
    pub fn leave(&mut self) {
        self.others -= 1;
        (self.attempt, self.deadline) = (1, Instant::now() + self.patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of requests that fail by the way that is gone, as often as it is said.
    fn fate(ways: usize, retries: u32, fault: &dyn Fn(usize) -> Fault) -> Vec<usize> {
        let (mut tries, mut way, mut gone) = (Tries::new(ways, Duration::from_secs(60)), 0, Vec::new());
        loop {
            gone.push(way);
            let again = tries.again(&fault(way), way, retries, Duration::ZERO);
            let turn = tries.others == 0;
            match again {
                false if turn => return gone,
                false => tries.leave(),
                true => tries.attempt += 1,
            }
            if turn || !again {
                way = next_in_turn(way, ways, &[]).unwrap_or(way);
            }
        }
    }

    #[test]
    fn all_ways_are_gone_in_turn() {
        let passing = |_| Fault::passing(Error::other("503"));
        assert_eq!(fate(1, 2, &passing), [0, 0, 0]);
        assert_eq!(fate(2, 0, &passing), [0, 1]);
        assert_eq!(fate(2, 2, &passing), [0, 0, 0, 1, 0, 1]);
        assert_eq!(fate(2, 9, &passing)[..6], [0, 0, 0, 0, 1, 0]);
        let lasting = |_| Fault::lasting(Error::other("404"));
        assert_eq!(fate(3, 9, &lasting), [0, 1, 2]);
        let hanging = |_| Fault::passing(Error::from(ErrorKind::TimedOut));
        assert_eq!(fate(2, 1, &hanging), [0, 1, 0]);
        // The other has another file; the first may come again.
        let mixed = |way| if way == 0 { passing(way) } else { lasting(way) };
        assert_eq!(fate(2, 1, &mixed), [0, 0, 1, 0]);
    }
}
