//! The codecs by which baskets are compressed.

use super::{Place, Tree};
use sapwood_io::{Cause, Range};

/// Bytes of a record that are looked at: the tag of its first block, and before it a header with three names.
const HEAD: u64 = 512;

/// ROOT's numbers of the codecs of baskets, each given by its branch and its number there; 0 for one that is stored as it
/// is.
///
/// A copy without decompression keeps the baskets, and gives the branch the setting of the new file. Nothing is said
/// where it cannot be told: a basket has no record, or none that can be read.
pub fn codecs(tree: &Tree, baskets: &[(usize, usize)]) -> Vec<Option<u32>> {
    let head = |&(branch, basket): &(usize, usize)| {
        let Place::File(offset, length) = tree.branches.get(branch)?.baskets.get(basket)?.place else {
            return None;
        };
        let head = Range { offset, length: length.min(HEAD) };
        (head.offset.checked_add(head.length)? <= tree.file.source().size()).then_some(head)
    };
    let wanted: Vec<Option<Range>> = baskets.iter().map(head).collect();
    let mut ranges: Vec<Range> = wanted.iter().flatten().copied().collect();
    ranges.sort_by_key(|range| range.offset);
    let mut heads = vec![0; ranges.iter().map(|range| range.length as usize).sum()];
    if tree.file.source().fetch(&ranges, &mut heads, Cause::Head).is_err() {
        return vec![None; baskets.len()];
    }
    let mut rest = heads.as_slice();
    let mut found: Vec<(Range, Option<u32>)> = Vec::with_capacity(ranges.len());
    for range in ranges {
        let (head, behind) = rest.split_at_checked(range.length as usize).unwrap_or_default();
        found.push((range, codec(head)));
        rest = behind;
    }
    let of = |range: Range| {
        let place = found.binary_search_by_key(&range.offset, |(known, _)| known.offset).ok()?;
        found.get(place)?.1
    };
    wanted.into_iter().map(|range| range.and_then(of)).collect()
}

/// The codec of a record that begins like this.
fn codec(head: &[u8]) -> Option<u32> {
    let word =
        |place: usize| head.get(place..place + 4)?.first_chunk::<4>().map(|four| u32::from_be_bytes(*four));
    let (total, object, key) = (word(0)?, word(6)?, word(12)? & 0xffff);
    if total.checked_sub(key)? == object {
        return Some(0);
    }
    match head.get(key as usize..key as usize + 2)? {
        b"ZL" => Some(1),
        b"XZ" => Some(2),
        b"CS" => Some(3),
        b"L4" => Some(4),
        b"ZS" => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::codec;

    fn record(object: u32, tag: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 20];
        head[..4].copy_from_slice(&40u32.to_be_bytes());
        head[6..10].copy_from_slice(&object.to_be_bytes());
        head[14..16].copy_from_slice(&20u16.to_be_bytes());
        head.extend_from_slice(tag);
        head
    }

    #[test]
    fn tags_tell_codecs() {
        for (tag, number) in [(b"ZL", 1), (b"XZ", 2), (b"CS", 3), (b"L4", 4), (b"ZS", 5)] {
            assert_eq!(codec(&record(100, tag)), Some(number));
        }
        assert_eq!(codec(&record(20, b"XZ")), Some(0)); // as many bytes as before: not compressed
        assert_eq!(codec(&record(100, b"??")), None);
        assert_eq!(codec(&record(100, b"")), None);
        assert_eq!(codec(&[]), None);
    }
}
