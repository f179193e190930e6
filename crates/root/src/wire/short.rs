//! Entries that are one short list or string each, or a list of these: decoded in one loop for all entries of a page.
//!
//! Examining a list of a few bytes costs more than copying it. This loop decodes one kind of items, reserves room once
//! for each entry, and converts blocks of fixed size if the page and the room continue after the list.

#![allow(
    unsafe_code,
    clippy::inline_always,
    reason = "AVX2 code runs after asking the processor whether it has it, and must be inlined into what is compiled for it; appended bytes are written before they count"
)]

use super::cursor::{BYTE_COUNT_MASK, MEMBER_WISE};
use super::grow::Grow;
use crate::error::Result;
use std::mem::MaybeUninit;

/// The content of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Items {
    /// Numbers of this many bytes (1, 2, 4 or 8), after a 32-bit count.
    Numbers(usize),
    /// Bytes after a 32-bit count; each byte that is not zero is true.
    Bools,
    /// Characters as `TString` writes them: after a length byte, or 255 and a 32-bit length.
    Text,
}

/// Lists to which entries are appended.
pub struct Lists<'a> {
    /// Offsets of the outer lists, if each entry is a list of lists.
    pub outer: Option<&'a mut Vec<i64>>,
    /// Offsets of the lists of items.
    pub offsets: &'a mut Vec<i64>,
    /// The items in native byte order.
    pub values: &'a mut Vec<u8>,
}

/// Bytes of a version header with a byte count.
const FRAME: usize = 6;

/// Decodes entries of a page from the first on and appends them; returns their number. It stops before an entry that is
/// not exactly such a list, or whose version header (if `framed`) has no byte count or marks member-wise streaming. Such
/// an entry is left to the general decoder, which handles all cases and describes faults.
///
/// `bounds` are the start of each entry and the end of the last.
pub fn entries(items: Items, framed: bool, data: &[u8], bounds: &[u32], to: Lists<'_>) -> Result<usize> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the function has no other precondition.
        return unsafe { entries_avx2(items, framed, data, bounds, to) };
    }
    choose(items, framed, data, bounds, to)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn entries_avx2(items: Items, framed: bool, data: &[u8], bounds: &[u32], to: Lists<'_>) -> Result<usize> {
    choose(items, framed, data, bounds, to)
}

#[inline(always)]
fn choose(items: Items, framed: bool, data: &[u8], bounds: &[u32], to: Lists<'_>) -> Result<usize> {
    match items {
        Items::Numbers(1) => decode::<Number<1>>(framed, data, bounds, to),
        Items::Numbers(2) => decode::<Number<2>>(framed, data, bounds, to),
        Items::Numbers(4) => decode::<Number<4>>(framed, data, bounds, to),
        Items::Numbers(8) => decode::<Number<8>>(framed, data, bounds, to),
        Items::Numbers(_) => Ok(0),
        Items::Bools => decode::<Bool>(framed, data, bounds, to),
        Items::Text => decode::<Text>(framed, data, bounds, to),
    }
}

/// An item of lists.
trait Item {
    /// Bytes of an item.
    const WIDTH: usize;
    /// Bytes converted at once where lists are shorter.
    const BLOCK: usize = 64;
    /// Bytes before the items at the start of `from`, and the number of items.
    fn count(from: &[u8]) -> Option<(usize, usize)>;
    /// Converts items; the lengths are equal.
    fn convert(from: &[u8], to: &mut [MaybeUninit<u8>]);
}

struct Number<const N: usize>;
struct Bool;
struct Text;

#[inline(always)]
fn word(from: &[u8]) -> Option<usize> {
    from.first_chunk().map(|bytes| u32::from_be_bytes(*bytes) as usize)
}

impl<const N: usize> Item for Number<N> {
    const WIDTH: usize = N;
    #[inline(always)]
    fn count(from: &[u8]) -> Option<(usize, usize)> {
        word(from).map(|count| (4, count))
    }
    #[inline(always)]
    fn convert(from: &[u8], to: &mut [MaybeUninit<u8>]) {
        for (to, from) in to.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0) {
            let mut bytes = *from;
            bytes.reverse();
            *to = bytes.map(MaybeUninit::new);
        }
    }
}

impl Item for Bool {
    const WIDTH: usize = 1;
    #[inline(always)]
    fn count(from: &[u8]) -> Option<(usize, usize)> {
        word(from).map(|count| (4, count))
    }
    #[inline(always)]
    fn convert(from: &[u8], to: &mut [MaybeUninit<u8>]) {
        to.iter_mut().zip(from).for_each(|(to, from)| *to = MaybeUninit::new(u8::from(*from != 0)));
    }
}

impl Item for Text {
    const WIDTH: usize = 1;
    const BLOCK: usize = 16;
    #[inline(always)]
    fn count(from: &[u8]) -> Option<(usize, usize)> {
        match from.split_first()? {
            (255, rest) => word(rest).map(|count| (5, count)),
            (count, _) => Some((1, usize::from(*count))),
        }
    }
    #[inline(always)]
    fn convert(from: &[u8], to: &mut [MaybeUninit<u8>]) {
        Number::<1>::convert(from, to);
    }
}

#[inline(always)]
fn decode<I: Item>(framed: bool, data: &[u8], bounds: &[u32], to: Lists<'_>) -> Result<usize> {
    let Lists { outer, offsets, values } = to;
    match outer {
        Some(outer) => lists::<I>(framed, data, bounds, outer, offsets, values),
        None => single::<I>(framed, data, bounds, offsets, values),
    }
}

/// The bytes of an entry after its version header, followed by those of the entries after it; and how many of them
/// are its own.
#[inline(always)]
fn body<'a>(framed: bool, data: &'a [u8], bounds: &[u32]) -> Option<(&'a [u8], usize)> {
    let [start, end] = bounds else { return None };
    let (from, length) = (data.get(*start as usize..)?, end.checked_sub(*start)? as usize);
    if length > from.len() {
        return None;
    }
    if !framed {
        return Some((from, length));
    }
    let (header, from) = from.split_first_chunk::<FRAME>()?;
    let version = header.last_chunk().map(|bytes| u16::from_be_bytes(*bytes))?;
    let plain =
        word(header)? == length.wrapping_sub(4) | BYTE_COUNT_MASK as usize && version & MEMBER_WISE == 0;
    Some((from, length.checked_sub(FRAME)?)).filter(|_| plain)
}

/// Converts `bytes` of items from one place to another; returns whether all of them are there.
#[inline(always)]
fn convert<I: Item>(from: (&[u8], usize), to: (&mut [MaybeUninit<u8>], usize), bytes: usize) -> bool {
    let ((from, start), (to, at)) = (from, to);
    if bytes <= I::BLOCK
        && let (Some(from), Some(to)) = (from.get(start..start + I::BLOCK), to.get_mut(at..at + I::BLOCK))
    {
        I::convert(from, to);
        return true;
    }
    let (Some(from), Some(to)) = (from.get(start..start + bytes), to.get_mut(at..at + bytes)) else {
        return false;
    };
    I::convert(from, to);
    true
}

/// Each entry is one list.
#[inline(always)]
fn single<I: Item>(
    framed: bool,
    data: &[u8],
    bounds: &[u32],
    offsets: &mut Vec<i64>,
    values: &mut Vec<u8>,
) -> Result<usize> {
    offsets.room(bounds.len())?;
    let mut end = offsets.last().copied().unwrap_or_default();
    let mut done = 0;
    for pair in bounds.windows(2) {
        let Some((from, length)) = body(framed, data, pair) else { break };
        let Some((header, count)) = I::count(from) else { break };
        let bytes = count * I::WIDTH;
        if header + bytes != length {
            break;
        }
        values.room(bytes + I::BLOCK)?;
        if !convert::<I>((from, header), (values.spare_capacity_mut(), 0), bytes) {
            break;
        }
        // SAFETY: these bytes of the spare capacity were written; they are a multiple of an item's width.
        unsafe { values.set_len(values.len() + bytes) };
        end += count as i64;
        offsets.push(end);
        done += 1;
    }
    Ok(done)
}

/// Each entry is a list of lists.
#[inline(always)]
fn lists<I: Item>(
    framed: bool,
    data: &[u8],
    bounds: &[u32],
    outer: &mut Vec<i64>,
    offsets: &mut Vec<i64>,
    values: &mut Vec<u8>,
) -> Result<usize> {
    outer.room(bounds.len())?;
    let mut done = 0;
    for pair in bounds.windows(2) {
        let Some((from, length)) = body(framed, data, pair) else { break };
        let Some(count) = word(from).filter(|&count| length >= 4 && count <= length) else { break };
        // More room than is needed: each list has a header in the page.
        values.room(length + I::BLOCK)?;
        offsets.room(count)?;
        let mut end = offsets.last().copied().unwrap_or_default();
        let spare = values.spare_capacity_mut();
        // Positions in the entry, and in the room.
        let (mut pos, mut at, mut written) = (4, 0, 0);
        for slot in offsets.spare_capacity_mut().iter_mut().take(count) {
            let Some((header, items)) = I::count(from.get(pos..).unwrap_or_default()) else { break };
            let (start, bytes) = (pos + header, items * I::WIDTH);
            if start + bytes > length || !convert::<I>((from, start), (spare, at), bytes) {
                break;
            }
            pos = start + bytes;
            at += bytes;
            end += items as i64;
            slot.write(end);
            written += 1;
        }
        if written != count || pos != length {
            break;
        }
        // SAFETY: the loop has written that many offsets, and `at` bytes: a multiple of an item's width for each list.
        unsafe {
            offsets.set_len(offsets.len() + written);
            values.set_len(values.len() + at);
        }
        outer.push(offsets.len() as i64 - 1);
        done += 1;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTED: u32 = BYTE_COUNT_MASK;

    /// An entry: its bytes after a version header, or without one.
    fn entry(framed: bool, body: &[u8]) -> Vec<u8> {
        let header = [&(COUNTED | (body.len() as u32 + 2)).to_be_bytes()[..], &[0, 9]].concat();
        [if framed { &header[..] } else { &[] }, body].concat()
    }

    /// A list of `n` items as stored, and the items as in memory.
    fn list(items: Items, n: usize, seed: usize) -> (Vec<u8>, Vec<u8>) {
        let bytes = |n: usize| (0..n).map(|i| (seed + i * 7) as u8).collect::<Vec<_>>();
        let count = (n as u32).to_be_bytes().to_vec();
        match items {
            Items::Numbers(width) => {
                let raw = bytes(n * width);
                let turned = raw.chunks(width).flat_map(|word| word.iter().rev().copied()).collect();
                ([count, raw].concat(), turned)
            }
            Items::Bools => {
                ([count, bytes(n)].concat(), bytes(n).iter().map(|b| u8::from(*b != 0)).collect())
            }
            Items::Text if n < 255 => ([vec![n as u8], bytes(n)].concat(), bytes(n)),
            Items::Text => ([vec![255], count, bytes(n)].concat(), bytes(n)),
        }
    }

    const ALL: [Items; 6] = [
        Items::Numbers(1),
        Items::Numbers(2),
        Items::Numbers(4),
        Items::Numbers(8),
        Items::Bools,
        Items::Text,
    ];

    /// Entries and their expected lists.
    #[derive(Default)]
    struct Sample {
        data: Vec<u8>,
        bounds: Vec<u32>,
        outer: Vec<i64>,
        offsets: Vec<i64>,
        values: Vec<u8>,
    }

    fn sample(items: Items, framed: bool, nested: bool) -> Sample {
        let mut all = Sample {
            bounds: vec![3],
            data: vec![7; 3],
            outer: vec![0],
            offsets: vec![0],
            ..Default::default()
        };
        let lengths = [0usize, 1, 3, 8, 9, 16, 17, 31, 254, 255, 300, 2, 0];
        for (i, &n) in lengths.iter().enumerate() {
            // Miri takes minutes for long lists; only strings store lengths from 255 on in another way.
            let n = if cfg!(miri) && items != Items::Text { n.min(33) } else { n };
            let mut body = if nested { (i as u32 % 4).to_be_bytes().to_vec() } else { Vec::new() };
            for k in 0..if nested { i % 4 } else { 1 } {
                let (stored, values) = list(items, n + k, i);
                body.extend(stored);
                all.values.extend(values);
                all.offsets.push(all.offsets.last().unwrap() + (n + k) as i64);
            }
            all.outer.push(all.offsets.len() as i64 - 1);
            all.data.extend(entry(framed, &body));
            all.bounds.push(all.data.len() as u32);
        }
        all
    }

    /// The number of decoded entries, and the offsets and values.
    fn decoded(
        items: Items,
        framed: bool,
        nested: bool,
        (data, bounds): (&[u8], &[u32]),
    ) -> (usize, Vec<i64>, Vec<i64>, Vec<u8>) {
        let (mut outer, mut offsets, mut values) = (vec![0], vec![0], Vec::new());
        let to = Lists { outer: nested.then_some(&mut outer), offsets: &mut offsets, values: &mut values };
        let done = entries(items, framed, data, bounds, to).unwrap();
        (done, outer, offsets, values)
    }

    #[test]
    fn lists_and_strings_of_every_length_are_decoded() {
        for items in ALL {
            for (framed, nested) in [(false, false), (true, false), (false, true), (true, true)] {
                let all = sample(items, framed, nested);
                for behind in [0, 100] {
                    let data = [&all.data[..], &vec![1; behind]].concat();
                    let (done, outer, offsets, values) = decoded(items, framed, nested, (&data, &all.bounds));
                    assert_eq!(done, all.bounds.len() - 1, "{items:?} {framed} {nested}");
                    assert_eq!(offsets, all.offsets, "{items:?} {framed} {nested}");
                    assert!(values == all.values, "{items:?} {framed} {nested}");
                    assert!(!nested || outer == all.outer, "{items:?} {framed}");
                }
            }
        }
    }

    #[test]
    fn it_stops_before_an_entry_that_is_anything_else() {
        for items in ALL {
            for nested in [false, true] {
                let all = sample(items, true, nested);
                let at = all.bounds[5] as usize;
                let count = if items == Items::Text && !nested { at + FRAME } else { at + FRAME + 3 };
                // The byte count, the flag in it, the member-wise flag, and the number of items or lists.
                for (place, bit) in [(at + 3, 1), (at, 0x40), (at + 4, 0x40), (count, 1), (count, 2)] {
                    let mut data = all.data.clone();
                    data[place] ^= bit;
                    let (done, outer, offsets, values) = decoded(items, true, nested, (&data, &all.bounds));
                    assert_eq!(done, 5, "{items:?} {nested} {place} {bit}");
                    let lists = if nested { all.outer[5] as usize } else { 5 };
                    assert_eq!(offsets, all.offsets[..=lists]);
                    let bytes =
                        offsets[lists] as usize * if let Items::Numbers(width) = items { width } else { 1 };
                    assert!(values == all.values[..bytes]);
                    assert!(!nested || outer == all.outer[..6]);
                }
                // Bounds that reach beyond the page, or fall.
                for bounds in [vec![3, all.data.len() as u32 + 1], vec![9, 3], vec![3, 3], vec![3, 5]] {
                    let (done, _, offsets, values) = decoded(items, true, nested, (&all.data, &bounds));
                    assert_eq!((done, offsets.len(), values.len()), (0, 1, 0), "{bounds:?}");
                }
            }
        }
        let to = Lists { outer: None, offsets: &mut vec![0], values: &mut Vec::new() };
        assert_eq!(entries(Items::Numbers(3), false, &[0; 4], &[0, 4], to).unwrap(), 0);
    }
}
