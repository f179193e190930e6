//! Counters of the cost of reading, summed over threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// Sums since the owner was created; times are nanoseconds summed over threads.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[doc = $doc])* pub $name: AtomicU64),* }

        impl Counters {
            /// Returns names and values in a fixed order.
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Relaxed))),*]
            }
            /// Adds another set to this one.
            pub fn add(&self, other: &Counters) {
                $(self.$name.fetch_add(other.$name.load(Relaxed), Relaxed);)*
            }
        }
    };
}

counters! {
    /// Requests sent to storage.
    read_calls,
    /// Bytes that the decoder needed.
    bytes_requested,
    /// Bytes that storage delivered, including over-read.
    bytes_read,
    /// Bytes that the block cache delivered in place of storage.
    bytes_kept,
    /// Bytes of pages before decompression, without key headers.
    bytes_compressed,
    /// Bytes of pages after decompression.
    bytes_decompressed,
    /// Pages decoded, shown to users as baskets.
    baskets,
    /// Bytes of the wanted entries in these pages.
    bytes_used,
    /// Pages that remote storage had not prefetched.
    misses,
    /// Requests that were sent again.
    retries,
    /// Requests that failed permanently.
    failures,
    /// Nanoseconds in storage.
    time_storage_ns,
    /// Nanoseconds spent waiting for bytes in flight.
    time_waiting_ns,
    /// Nanoseconds in decompression.
    time_decompression_ns,
    /// Nanoseconds in decoding.
    time_decoding_ns,
}

impl Counters {
    /// Counters of the whole process.
    pub fn process() -> &'static Self {
        static PROCESS: std::sync::OnceLock<Counters> = std::sync::OnceLock::new();
        PROCESS.get_or_init(Counters::default)
    }
}

/// Adds `n` to a counter.
pub fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

/// Adds the time since `start` to a counter, in nanoseconds.
pub fn clock(counter: &AtomicU64, start: Instant) {
    counter.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
}
