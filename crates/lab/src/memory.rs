//! Bandwidth and latency of memory by the size of the working set, which shows the caches.

use crate::kernels::{Chance, least};
use std::hint::black_box;

/// At least this many bytes are worked on between two looks at the clock.
const BATCH: usize = 4 << 20;

fn rate(size: usize, seconds: f64, mut pass: impl FnMut()) -> f64 {
    let passes = (BATCH / size.max(1)).max(1);
    let best = least(seconds, || (0..passes).for_each(|_| pass()));
    (size * passes) as f64 / best / 1e6
}

fn words(size: usize) -> Vec<u64> {
    vec![1; (size / 8).max(1)]
}

/// MB/s of summing all words of a block.
pub fn read(size: usize, seconds: f64) -> f64 {
    let block = words(size);
    rate(size, seconds, || {
        black_box(black_box(&block).iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
    })
}

/// MB/s of storing all words of a block.
pub fn write(size: usize, seconds: f64) -> f64 {
    let mut block = words(size);
    rate(size, seconds, || {
        // A value that is not known keeps this a loop of stores: `memset` goes round the caches.
        block.fill(black_box(0x0102_0304_0506_0708));
        black_box(&mut block);
    })
}

/// MB/s of copying a block by the system's library, each byte counted once.
pub fn copy(size: usize, seconds: f64) -> f64 {
    let (from, mut to) = (words(size), words(size));
    rate(size, seconds, || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    })
}

/// Nanoseconds of a load that must wait for the one before: a walk over all cache lines of a block, in random order.
pub fn latency(size: usize, seconds: f64) -> f64 {
    const LINE: usize = 8; // words
    const STEPS: u32 = 200_000;
    let lines = (size / 8 / LINE).max(2);
    let mut order: Vec<usize> = (0..lines).collect();
    let mut chance = Chance::new(5);
    for last in (1..lines).rev() {
        order.swap(last, chance.bits() as usize % last); // one cycle through all (Sattolo)
    }
    let mut next = vec![0usize; lines * LINE];
    for (line, to) in order.into_iter().enumerate() {
        if let Some(word) = next.get_mut(line * LINE) {
            *word = to * LINE;
        }
    }
    let mut place = 0;
    let best = least(seconds, || {
        for _ in 0..STEPS {
            place = next.get(place).copied().unwrap_or_default();
        }
        black_box(place);
    });
    best * 1e9 / f64::from(STEPS)
}
