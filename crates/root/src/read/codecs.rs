//! Finding the codecs of compressed pages.

use crate::table::Table;
use sapwood_io::{Cause, Range};

/// Bytes read of each page: the tag of its first block and any header before it.
const HEAD: u64 = 512;

/// Returns ROOT's codec number of each page, or 0 for a page that is not compressed. A page is given by its stored
/// column and its index there.
///
/// A copy without decompression keeps the codec of each page, whatever the setting of the new file. The result is
/// `None` for a page that is not in the file or cannot be read.
pub fn codecs(table: &dyn Table, pages: &[(usize, usize)]) -> Vec<Option<u32>> {
    let source = table.source();
    let head = |&(column, page): &(usize, usize)| {
        let range = table.page_range(column, page)?;
        let head = Range { offset: range.offset, length: range.length.min(HEAD) };
        (head.offset.checked_add(head.length)? <= source.size()).then_some(head)
    };
    let wanted: Vec<Option<Range>> = pages.iter().map(head).collect();
    let mut ranges: Vec<Range> = wanted.iter().flatten().copied().collect();
    ranges.sort_unstable_by_key(|range| (range.offset, range.length));
    let mut heads = vec![0; ranges.iter().map(|range| range.length as usize).sum()];
    if source.fetch(&ranges, &mut heads, Cause::Head).is_err() {
        return vec![None; pages.len()];
    }
    let mut rest = heads.as_slice();
    let mut found: Vec<(u64, &[u8])> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let (head, behind) = rest.split_at_checked(range.length as usize).unwrap_or_default();
        found.push((range.offset, head));
        rest = behind;
    }
    let of = |(range, &(column, page)): (Option<Range>, &(usize, usize))| {
        let place = found.binary_search_by_key(&range?.offset, |(offset, _)| *offset).ok()?;
        table.codec(column, page, found.get(place)?.1)
    };
    wanted.into_iter().zip(pages).map(of).collect()
}
