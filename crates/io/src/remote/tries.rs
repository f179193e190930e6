//! Handling failed requests: retry, use another replica, or give up.

use super::Fault;
use std::io::{Error, ErrorKind};
use std::time::{Duration, Instant};

/// Number of retries with one replica while another one is untried.
pub const BEFORE_LEAVING: u32 = 3;

/// Number of retries of an opening that failed with this error. If the connection was refused, host or port may be
/// wrong.
pub fn retries_of_opening(error: &Error, retries: u32) -> u32 {
    if error.kind() == ErrorKind::ConnectionRefused { retries.min(BEFORE_LEAVING) } else { retries }
}

/// Pause before a retry.
pub fn pause_before(attempt: u32) -> Duration {
    Duration::from_millis(50 << attempt.min(7))
}

/// Returns the replica after a failed one among `ways`, skipping those that lead to another file.
pub fn next_in_turn(failed: usize, ways: usize, elsewhere: &[usize]) -> Option<usize> {
    (1..ways).map(|step| (failed + step) % ways).find(|way| !elsewhere.contains(way))
}

/// Consecutive requests for the same bytes, with several replicas.
pub struct Tries {
    /// Time allowed for each replica.
    patience: Duration,
    /// Deadline for the current replica.
    pub deadline: Instant,
    /// Number of the attempt with this replica, from 1; after all have failed, number of the attempt in turn.
    pub attempt: u32,
    /// Number of other replicas not used since bytes last arrived.
    pub others: usize,
    /// The last replica with a temporary failure.
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

    /// Records that bytes arrived.
    pub fn moved(&mut self, ways: usize) {
        (self.attempt, self.others, self.hope) = (1, ways.saturating_sub(1), None);
    }

    /// Whether a pause would exceed the deadline.
    fn late(&self, pause: Duration) -> bool {
        Instant::now() + pause >= self.deadline
    }

    /// Whether to send the request again after a pause: to the same replica, or in turn if all have failed.
    pub fn again(&mut self, fault: &Fault, way: usize, retries: u32, pause: Duration) -> bool {
        let again = if self.others > 0 {
            // A replica that hangs would use all the time.
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

    /// Returns the error after all attempts have failed.
    pub fn failed(&self, name: &str, fault: &Fault, pause: Duration) -> Error {
        let why = if self.late(pause) { " (out of time)" } else { "" };
        let times = match self.attempt {
            1 => String::new(),
            attempt => format!(", after {attempt} attempts"),
        };
        Error::new(fault.error.kind(), format!("{name}: {}{why}{times}", fault.error))
    }

    /// Switches to another replica, which has as much time.
    pub fn leave(&mut self) {
        self.others -= 1;
        (self.attempt, self.deadline) = (1, Instant::now() + self.patience);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sequence of replicas used for requests that always fail.
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
        // The other replica has another file; the first may recover.
        let mixed = |way| if way == 0 { passing(way) } else { lasting(way) };
        assert_eq!(fate(2, 1, &mixed), [0, 0, 1, 0]);
    }
}
