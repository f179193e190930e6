//! Merging byte ranges into requests, without I/O.

/// A half-open range of bytes in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

impl Range {
    /// One past the last byte (saturating).
    pub fn end(self) -> u64 {
        self.offset.saturating_add(self.length)
    }
}

/// One read from storage, with the wanted ranges inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The range to read.
    pub range: Range,
    /// Indices of the ranges that it covers, in the list passed to [`coalesce`].
    pub wanted: Vec<usize>,
}

/// Merges ranges that are at most `gap` bytes apart, up to `largest` bytes for each request, in file order.
///
/// Every range is contained in exactly one request; a range larger than `largest` has a request of its own.
pub fn coalesce(ranges: &[Range], gap: u64, largest: u64) -> Vec<Request> {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_by_key(|&i| ranges.get(i).copied());
    let mut requests: Vec<Request> = Vec::new();
    for i in order {
        let Some(&range) = ranges.get(i) else { continue };
        if let Some(last) = requests.last_mut() {
            let end = last.range.end().max(range.end());
            if range.offset <= last.range.end().saturating_add(gap) && end - last.range.offset <= largest {
                last.range.length = end - last.range.offset;
                last.wanted.push(i);
                continue;
            }
        }
        requests.push(Request { range, wanted: vec![i] });
    }
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, length: u64) -> Range {
        Range { offset, length }
    }

    #[test]
    fn merges_neighbours_within_gap_and_size() {
        let ranges = [range(100, 10), range(0, 50), range(52, 8), range(300, 1000), range(1305, 5)];
        let got: Vec<(u64, u64, Vec<usize>)> = coalesce(&ranges, 5, 500)
            .into_iter()
            .map(|r| (r.range.offset, r.range.length, r.wanted))
            .collect();
        assert_eq!(
            got,
            vec![(0, 60, vec![1, 2]), (100, 10, vec![0]), (300, 1000, vec![3]), (1305, 5, vec![4])]
        );
    }

    #[test]
    fn overlapping_ranges_share_a_request_even_at_the_end_of_the_number_line() {
        let ranges = [range(u64::MAX - 4, 10), range(u64::MAX - 6, 3)];
        let got = coalesce(&ranges, 0, 100);
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].wanted, vec![1, 0]);
    }
}
