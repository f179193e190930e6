//! Clusters: their number of entries, and how a tree records their ends.

use super::basket::{self, Slot};
use super::branch::Branch;
use crate::compress::encode::Compression;
use crate::error::Result;
use crate::wire::grow::{self, Grow};

/// A range of clusters of one size (`fClusterRangeEnd` and `fClusterSize`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterRange {
    /// Last entry of the range, inclusive.
    pub last: i64,
    /// Entries of each cluster; the last cluster of a range may be shorter.
    pub size: i64,
}

/// Converts the ends of clusters to ranges, and returns the value of `fAutoFlush` for the clusters after the ranges.
///
/// `auto_flush` is the setting: entries if positive, bytes if negative. Clusters that it already describes need no
/// range.
pub fn ranges(ends: &[u64], auto_flush: i64) -> Result<(Vec<ClusterRange>, i64)> {
    let mut ranges: Vec<ClusterRange> = Vec::new();
    let (mut start, mut open) = (0_u64, false);
    for end in ends {
        let size = (end - start) as i64;
        match ranges.last_mut() {
            Some(range) if open && size <= range.size => {
                range.last = *end as i64 - 1;
                open = size == range.size;
            }
            _ => {
                ranges.try_push(ClusterRange { last: *end as i64 - 1, size })?;
                open = true;
            }
        }
        start = *end;
    }
    // ROOT extends `fAutoFlush` past all ranges: the last range is redundant if its size is that setting.
    let before_last = ranges.len().checked_sub(2).and_then(|i| ranges.get(i)).map_or(0, |r| r.last + 1);
    if let Some(last) = ranges.last() {
        let single = last.last + 1 - before_last <= last.size;
        if auto_flush > 0 && (last.size == auto_flush || single && last.size < auto_flush) {
            ranges.pop();
        } else if auto_flush < 0 && ranges.len() == 1 && single {
            // A single cluster: readers take a tree without ranges as one cluster.
            ranges.pop();
        }
    }
    Ok((ranges, auto_flush))
}

/// Compresses a sample of each branch's buffered entries and estimates the compressed size of all.
pub fn estimate(branches: &[Branch], entries: usize, file: Compression) -> Result<f64> {
    let size = |(): &mut (), branch: &Branch| {
        let bytes = basket::bytes(branch, entries);
        let jobs = basket::split(0, branch, entries, (bytes / 16).clamp(4096, 262_144))?;
        let Some(job) = jobs.get(jobs.len() / 2) else { return Ok(0.0) };
        let mut slot = Slot::default();
        slot.fill(job, branch, branch.compression(file), 0)?;
        Ok(bytes as f64 / slot.factor(job))
    };
    Ok(grow::mapped(branches, || (), size)?.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(last: i64, size: i64) -> ClusterRange {
        ClusterRange { last, size }
    }

    #[test]
    fn regular_clusters_need_no_range() {
        for (ends, auto_flush) in [
            (&[][..], 100),
            (&[100][..], 100),
            (&[100, 200, 250][..], 100),
            (&[60][..], 100),
            (&[60][..], -1000),
        ] {
            assert_eq!(ranges(ends, auto_flush).unwrap(), (vec![], auto_flush), "{ends:?} {auto_flush}");
        }
    }

    #[test]
    fn irregular_clusters_are_listed() {
        for (ends, auto_flush, want) in [
            // A short cluster in the middle ends its range.
            (&[100, 200, 250, 350, 400][..], 100, vec![range(249, 100)]),
            (&[70, 170, 270][..], 100, vec![range(69, 70)]),
            (&[10, 30, 60][..], 100, vec![range(9, 10), range(29, 20)]),
            (&[10, 20, 30][..], 100, vec![range(29, 10)]),
            (&[50, 100][..], -1000, vec![range(99, 50)]),
            (&[100, 150, 180][..], 100, vec![range(149, 100)]),
        ] {
            assert_eq!(ranges(ends, auto_flush).unwrap().0, want, "{ends:?} {auto_flush}");
        }
    }

    /// Expands ranges as `TTree::GetClusterIterator` does.
    fn expand(ranges: &[ClusterRange], auto_flush: i64, entries: i64) -> Vec<u64> {
        let (mut ends, mut at) = (Vec::new(), 0);
        for (size, last) in ranges.iter().map(|r| (r.size, r.last + 1)).chain([(auto_flush, entries)]) {
            while at < last {
                at = if size > 0 { (at + size).min(last) } else { last };
                ends.push(at as u64);
            }
        }
        ends
    }

    #[test]
    fn ranges_say_exactly_where_clusters_end() {
        let mut state = 1_u64;
        for _ in 0..2000 {
            let mut ends = Vec::new();
            let mut at = 0;
            for _ in 0..(state >> 33) % 7 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                at += [1, 2, 3, 3, 3][(state >> 40) as usize % 5];
                ends.push(at);
            }
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            for auto_flush in [1, 2, 3, 5, -1000] {
                let (found, flush) = ranges(&ends, auto_flush).unwrap();
                assert_eq!(expand(&found, flush, at as i64), ends, "{ends:?} {auto_flush} {found:?}");
            }
        }
    }
}
