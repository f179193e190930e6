//! Distributing bytes from storage to the ranges that want them.

use crate::plan::Range;
use std::io::{Error, ErrorKind, Result};

/// Maximum bytes reserved for a range before they arrive.
const MOST_RESERVED: usize = 32 << 20;

/// Ranges that are being filled, each from its start.
pub struct Scatter {
    /// Sorted by offset.
    wanted: Vec<(Range, Vec<u8>)>,
    /// Length of the longest range.
    longest: u64,
    /// Number of incomplete ranges.
    open: usize,
    /// Bytes filled in all ranges.
    pub filled: u64,
}

impl Scatter {
    /// Creates it with empty ranges.
    pub fn new(mut ranges: Vec<Range>) -> Result<Self> {
        ranges.sort();
        ranges.dedup();
        if ranges.iter().any(|r| usize::try_from(r.length).is_err()) {
            return Err(Error::new(ErrorKind::OutOfMemory, "the range is too large for memory"));
        }
        let longest = ranges.iter().map(|r| r.length).max().unwrap_or(0);
        let open = ranges.iter().filter(|r| r.length > 0).count();
        let wanted = ranges.into_iter().map(|r| (r, Vec::new())).collect();
        Ok(Self { wanted, longest, open, filled: 0 })
    }

    /// Whether any bytes are missing.
    pub fn more(&self) -> bool {
        self.open > 0
    }

    /// Returns the missing parts of the ranges.
    pub fn missing(&self) -> Vec<Range> {
        self.wanted
            .iter()
            .filter_map(|(range, bytes)| {
                let offset = range.offset + bytes.len() as u64;
                (offset < range.end()).then(|| Range { offset, length: range.end() - offset })
            })
            .collect()
    }

    /// Takes bytes at `offset` in the file; passes on the ranges that they complete.
    pub fn put(&mut self, offset: u64, bytes: &[u8], done: &mut dyn FnMut(Range, Vec<u8>)) {
        let end = offset.saturating_add(bytes.len() as u64);
        let first = self.wanted.partition_point(|(r, _)| r.offset.saturating_add(self.longest) <= offset);
        for (range, have) in self.wanted.iter_mut().skip(first) {
            if range.offset >= end {
                break;
            }
            // Ranges that were passed on have length zero.
            if range.length == 0 {
                continue;
            }
            let next = range.offset + have.len() as u64;
            let Some(skip) = next.checked_sub(offset) else { continue };
            let most = (range.end() - next) as usize;
            let Some(new) = bytes.get(skip as usize..).filter(|new| !new.is_empty()) else { continue };
            if have.capacity() == 0 {
                // A failed reservation is not an error here: less may arrive than was promised.
                let _ = have.try_reserve_exact((range.length as usize).min(MOST_RESERVED));
            }
            let new = new.get(..most).unwrap_or(new);
            have.extend_from_slice(new);
            self.filled += new.len() as u64;
            if have.len() as u64 == range.length {
                self.open -= 1;
                done(*range, std::mem::take(have));
                range.length = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, length: u64) -> Range {
        Range { offset, length }
    }

    #[test]
    fn fills_ranges_from_whatever_comes_and_says_what_is_missing() {
        let mut done = Vec::new();
        let mut put = |r: Range, b: Vec<u8>| done.push((r.offset, b));
        let mut scatter = Scatter::new(vec![range(20, 4), range(0, 6), range(4, 4), range(4, 4)]).unwrap();
        scatter.put(2, &[9; 1], &mut put); // not the start of anything
        assert_eq!(scatter.filled, 0);
        scatter.put(0, &[0, 1, 2, 3, 4], &mut put);
        assert_eq!(scatter.missing(), [range(5, 1), range(5, 3), range(20, 4)]);
        scatter.put(3, &(3..30).collect::<Vec<u8>>(), &mut put);
        assert!(!scatter.more() && scatter.missing().is_empty());
        let want = vec![(0, vec![0, 1, 2, 3, 4, 5]), (4, vec![4, 5, 6, 7]), (20, vec![20, 21, 22, 23])];
        assert_eq!(done, want);
    }
}
