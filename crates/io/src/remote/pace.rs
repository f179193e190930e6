//! Measured latency and speed of storage, and the request sizes derived from them.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Measured latency and bandwidth.
#[derive(Default)]
pub struct Pace {
    /// Nanoseconds from a request to its first byte, smoothed; 0 while unknown.
    latency: AtomicU64,
    /// Bytes a second of one transfer, smoothed; 0 while unknown.
    bandwidth: AtomicU64,
    /// Bytes a second of a transfer without parallel transfers.
    alone: AtomicU64,
    /// Total bytes a second of parallel transfers.
    together: AtomicU64,
}

/// Minimum bytes of a transfer for measuring the bandwidth.
const SHORT: u64 = 1 << 20;
/// Assumed bytes a second until they are measured.
pub const USUAL: u64 = 100_000_000;

impl Pace {
    /// Adds a request to the statistics. It began at `start`, its first byte arrived at `first`, and it ends now. `all`
    /// are the bytes that arrived meanwhile, including those of other requests.
    pub fn measure(&self, start: Instant, first: Option<Instant>, bytes: u64, all: u64) {
        let smooth = |slot: &AtomicU64, now: u64| {
            let before = slot.load(Relaxed);
            slot.store(if before == 0 { now } else { (3 * before + now) / 4 }, Relaxed);
        };
        let Some(first) = first else { return };
        smooth(&self.latency, first.duration_since(start).as_nanos() as u64);
        let seconds = first.elapsed().as_secs_f64();
        if bytes >= SHORT && seconds > 0.0 {
            smooth(&self.bandwidth, (bytes as f64 / seconds) as u64);
            let slot = if all <= bytes + bytes / 8 { &self.alone } else { &self.together };
            smooth(slot, (all as f64 / seconds) as u64);
        }
    }

    /// Sets assumed values for quantities that are not measured yet.
    pub fn suppose(&self, latency: Duration, bandwidth: Option<u64>) {
        self.latency.store(latency.as_nanos() as u64, Relaxed);
        if let Some(bandwidth) = bandwidth {
            self.bandwidth.store(bandwidth, Relaxed);
        }
    }

    /// Time from a request to its first byte.
    pub fn latency(&self) -> Duration {
        Duration::from_nanos(self.latency.load(Relaxed))
    }

    /// Whether several transfers share one line, so that together they are no faster than one; `None` while unknown.
    pub fn shared(&self) -> Option<bool> {
        let (alone, together) = (self.alone.load(Relaxed), self.together.load(Relaxed));
        (alone > 0 && together > 0).then(|| together < alone + alone / 3)
    }

    /// Bytes that all transfers together could deliver in the time that a request takes to begin.
    pub fn line(&self) -> u64 {
        (self.latency.load(Relaxed) as f64 / 1e9 * self.together.load(Relaxed) as f64) as u64
    }

    /// Bytes that one transfer could deliver in the time that a request takes to begin.
    pub fn underway(&self) -> u64 {
        let bandwidth = Some(self.bandwidth.load(Relaxed)).filter(|known| *known > 0).unwrap_or(USUAL);
        (self.latency.load(Relaxed) as f64 / 1e9 * bandwidth as f64) as u64
    }

    /// Maximum bytes worth reading beyond a wanted range to avoid requesting another one. Another range in the same
    /// request costs its headers. Another request costs its latency, which is shared with those in flight.
    pub fn gap(&self, most_ranges: usize) -> u64 {
        if most_ranges > 1 { 4 << 10 } else { (self.underway() / 4).clamp(32 << 10, 1 << 20) }
    }

    /// Bytes worth a request: many times those that its latency costs; `None` while unknown.
    pub fn worth(&self) -> Option<u64> {
        (self.bandwidth.load(Relaxed) > 0).then(|| 8 * self.underway())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_storage_gets_larger_requests_and_gaps() {
        let pace = Pace::default();
        let gap = pace.gap(1);
        assert_eq!(pace.worth(), None);
        pace.latency.store(140_000_000, Relaxed);
        pace.bandwidth.store(100_000_000, Relaxed);
        assert!(pace.gap(1) > gap);
        assert_eq!((pace.gap(1), pace.worth()), (1 << 20, Some(112_000_000)));
        assert!(pace.gap(100) < gap);
    }

    #[test]
    fn a_line_is_shared_where_several_transfers_are_no_faster() {
        let pace = Pace::default();
        pace.alone.store(100, Relaxed);
        assert_eq!(pace.shared(), None);
        pace.together.store(110, Relaxed);
        assert_eq!(pace.shared(), Some(true));
        pace.together.store(200, Relaxed);
        assert_eq!(pace.shared(), Some(false));
    }
}
