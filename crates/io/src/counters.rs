//! What reading cost, as sums over threads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// Sums since the owner was made; times are nanoseconds summed over threads.
        #[derive(Debug, Default)]
        pub struct Counters { $($(#[doc = $doc])* pub $name: AtomicU64),* }

        impl Counters {
            /// Names and values, in a fixed order.
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
    /// Bytes the decoder needed.
    bytes_requested,
    /// Bytes that storage delivered, over-read included.
    bytes_read,
    /// Bytes that the block cache delivered instead of storage.
    bytes_kept,
    /// Bytes of pages before decompression, key headers left out.
    bytes_compressed,
    /// Bytes of pages after decompression.
    bytes_decompressed,
    /// Pages decoded; users know them as baskets.
    baskets,
    /// Bytes of the wanted entries among these.
    bytes_used,
    /// Pages that remote storage had not fetched ahead.
    misses,
    /// Requests that were sent again.
    retries,
    /// Requests that failed for good.
    failures,
    /// Nanoseconds in storage.
    time_storage_ns,
    /// Nanoseconds in which bytes that were on their way were waited for.
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
