//! Bulk conversion of big-endian numbers to native order.

#![allow(
    unsafe_code,
    clippy::inline_always,
    reason = "AVX2 code runs after asking the processor whether it has it, and must be inlined into what is compiled for it; appended bytes are written before they count"
)]

use crate::error::Result;
use crate::wire::grow::Grow;
use std::mem::MaybeUninit;

/// Copies `from` to `to`, reversing each group of `width` bytes (1, 2, 4 or 8). The lengths should be equal and a
/// multiple of `width`; a remainder is not changed.
#[inline]
pub fn copy(width: usize, from: &[u8], to: &mut [u8]) {
    match width {
        2 => dispatch::<2>(from, to),
        4 => dispatch::<4>(from, to),
        8 => dispatch::<8>(from, to),
        _ => {
            let n = from.len().min(to.len());
            if let (Some(to), Some(from)) = (to.get_mut(..n), from.get(..n)) {
                to.copy_from_slice(from);
            }
        }
    }
}

/// Appends `from` to `to`, reversing each group of `width` bytes; bytes left over are dropped.
#[inline]
pub fn extend(width: usize, from: &[u8], to: &mut Vec<u8>) -> Result<()> {
    match width {
        2 => extend_reversed::<2>(from, to),
        4 => extend_reversed::<4>(from, to),
        8 => extend_reversed::<8>(from, to),
        _ => to.try_extend(from),
    }
}

/// As [`extend`] with the first `length` bytes of `from`, or all of it if it is shorter. If `from` continues after
/// them, whole blocks are converted, so that short lists of different lengths take the same path.
#[inline]
pub fn extend_front(width: usize, from: &[u8], length: usize, to: &mut Vec<u8>) -> Result<()> {
    match width {
        2 => extend_blocks::<2>(from, length, to),
        4 => extend_blocks::<4>(from, length, to),
        8 => extend_blocks::<8>(from, length, to),
        _ => extend_blocks::<1>(from, length, to),
    }
}

/// Bytes converted at once.
const BLOCK: usize = 32;

#[inline]
fn extend_blocks<const N: usize>(from: &[u8], length: usize, to: &mut Vec<u8>) -> Result<()> {
    let blocks = length.div_ceil(BLOCK);
    let (sources, _) = from.as_chunks::<BLOCK>();
    let Some(sources) = sources.get(..blocks).filter(|_| blocks <= 8) else {
        return extend(N, from.get(..length).unwrap_or(from), to);
    };
    to.room(blocks * BLOCK)?;
    let (targets, _) = to.spare_capacity_mut().as_chunks_mut::<BLOCK>();
    for (target, source) in targets.iter_mut().zip(sources) {
        fill::<N>(source, target.as_chunks_mut::<N>().0);
    }
    // SAFETY: this many blocks were reserved and are in `sources`, so the loop has written at least `length` bytes,
    // provided that a block is a number of groups: N is 1, 2, 4 or 8.
    unsafe { to.set_len(to.len() + length / N * N) };
    Ok(())
}

/// Appends the bytes from `at` to `end` of each row of `stride` bytes, reversing each group of 4 bytes if `reversed`;
/// bytes after the last whole row are dropped.
pub fn extend_rows(
    from: &[u8],
    stride: usize,
    (at, end): (usize, usize),
    reversed: bool,
    to: &mut Vec<u8>,
) -> Result<()> {
    let (from, stride) = (from.as_chunks::<4>().0, stride / 4);
    let (at, end) = (at / 4, end / 4);
    let length = end.saturating_sub(at);
    let rows = from.len().checked_div(stride).unwrap_or(0);
    if rows == 0 || length == 0 || end > stride {
        return Ok(());
    }
    to.room(rows.saturating_mul(4 * length))?;
    let spare = to.spare_capacity_mut().as_chunks_mut::<4>().0;
    #[cfg(target_arch = "x86_64")]
    let written = if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the function has no other precondition.
        unsafe { fill_rows_avx2(from, stride, (at, end), reversed, spare) }
    } else {
        fill_rows(from, stride, (at, end), reversed, spare)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let written = fill_rows(from, stride, (at, end), reversed, spare);
    // SAFETY: the loop has written that many words, which lie in the spare capacity.
    unsafe { to.set_len(to.len() + 4 * written) };
    Ok(())
}

/// The words that were written.
#[inline(always)]
fn fill_rows(
    from: &[[u8; 4]],
    stride: usize,
    (at, end): (usize, usize),
    reversed: bool,
    to: &mut [[MaybeUninit<u8>; 4]],
) -> usize {
    /// Words converted at once.
    const WORDS: usize = BLOCK / 4;
    let mut written = 0;
    let mut rest = to;
    let turn = |word: &[u8; 4]| {
        let word = u32::from_ne_bytes(*word);
        (if reversed { word.swap_bytes() } else { word }).to_ne_bytes().map(MaybeUninit::new)
    };
    for row in from.chunks_exact(stride) {
        let Some(source) = row.get(at..end) else { break };
        let Some((target, behind)) = rest.split_at_mut_checked(source.len()) else { break };
        let ((sources, source), (targets, target)) =
            (source.as_chunks::<WORDS>(), target.as_chunks_mut::<WORDS>());
        for (target, source) in targets.iter_mut().zip(sources) {
            *target = source.each_ref().map(turn);
        }
        for (target, source) in target.iter_mut().zip(source) {
            *target = turn(source);
        }
        written += end - at;
        rest = behind;
    }
    written
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_rows_avx2(
    from: &[[u8; 4]],
    stride: usize,
    part: (usize, usize),
    reversed: bool,
    to: &mut [[MaybeUninit<u8>; 4]],
) -> usize {
    fill_rows(from, stride, part, reversed, to)
}

/// Appends the first `width` bytes of each row, reversed; zeros for rows that are too short.
pub fn extend_each<'a>(
    width: usize,
    rows: impl ExactSizeIterator<Item = &'a [u8]>,
    to: &mut Vec<u8>,
) -> Result<()> {
    match width {
        2 => extend_firsts::<2>(rows, to),
        4 => extend_firsts::<4>(rows, to),
        8 => extend_firsts::<8>(rows, to),
        _ => extend_firsts::<1>(rows, to),
    }
}

fn extend_firsts<'a, const N: usize>(
    rows: impl ExactSizeIterator<Item = &'a [u8]>,
    to: &mut Vec<u8>,
) -> Result<()> {
    to.room(rows.len().saturating_mul(N))?;
    let mut written = 0;
    for (target, row) in to.spare_capacity_mut().as_chunks_mut::<N>().0.iter_mut().zip(rows) {
        let mut bytes = row.first_chunk().copied().unwrap_or([0; N]);
        bytes.reverse();
        *target = bytes.map(MaybeUninit::new);
        written += N;
    }
    // SAFETY: the loop has written these bytes, which lie in the spare capacity.
    unsafe { to.set_len(to.len() + written) };
    Ok(())
}

#[inline]
fn extend_reversed<const N: usize>(from: &[u8], to: &mut Vec<u8>) -> Result<()> {
    let length = from.len() / N * N;
    to.room(length)?;
    let (spare, _) = to.spare_capacity_mut().as_chunks_mut::<N>();
    #[cfg(target_arch = "x86_64")]
    if length >= 64 && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the function has no other precondition.
        unsafe { fill_avx2::<N>(from, spare) };
    } else {
        fill::<N>(from, spare);
    }
    #[cfg(not(target_arch = "x86_64"))]
    fill::<N>(from, spare);
    // SAFETY: `length` bytes were reserved, and the loop has written each of them: it stops with the shorter of
    // its sides, which is `from` with `length / N` groups.
    unsafe { to.set_len(to.len() + length) };
    Ok(())
}

#[inline(always)]
fn fill<const N: usize>(from: &[u8], to: &mut [[MaybeUninit<u8>; N]]) {
    let (from, _) = from.as_chunks::<N>();
    for (to, from) in to.iter_mut().zip(from) {
        let mut bytes = *from;
        bytes.reverse();
        *to = bytes.map(MaybeUninit::new);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_avx2<const N: usize>(from: &[u8], to: &mut [[MaybeUninit<u8>; N]]) {
    fill::<N>(from, to);
}

#[inline]
fn dispatch<const N: usize>(from: &[u8], to: &mut [u8]) {
    #[cfg(target_arch = "x86_64")]
    if from.len() >= 64 && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2; the function has no other precondition.
        return unsafe { reverse_avx2::<N>(from, to) };
    }
    reverse::<N>(from, to);
}

#[inline(always)]
fn reverse<const N: usize>(from: &[u8], to: &mut [u8]) {
    let (from, _) = from.as_chunks::<N>();
    let (to, _) = to.as_chunks_mut::<N>();
    for (to, from) in to.iter_mut().zip(from) {
        let mut bytes = *from;
        bytes.reverse();
        *to = bytes;
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn reverse_avx2<const N: usize>(from: &[u8], to: &mut [u8]) {
    reverse::<N>(from, to);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_rows_are_appended_in_both_orders() {
        let from: Vec<u8> = (0..1000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for (stride, at, end) in
            [(4, 0, 4), (108, 40, 108), (40, 4, 40), (40, 4, 36), (400, 0, 396), (1004, 0, 4)]
        {
            for reversed in [false, true] {
                let part = |row: &[u8]| {
                    let words = row[at..end].chunks(4).map(<[u8]>::to_vec);
                    words
                        .map(|word| if reversed { word.into_iter().rev().collect() } else { word })
                        .collect::<Vec<_>>()
                };
                let want: Vec<u8> = from.chunks_exact(stride).flat_map(part).flatten().collect();
                let mut to = vec![9];
                extend_rows(&from, stride, (at, end), reversed, &mut to).unwrap();
                assert_eq!(to.split_first(), Some((&9, &want[..])), "{at}..{end} of {stride} bytes");
            }
        }
        // Nothing to take, and a part that reaches beyond its row.
        for (stride, at, end) in [(0, 0, 0), (8, 4, 4), (8, 4, 12)] {
            let mut to = Vec::new();
            extend_rows(&from, stride, (at, end), true, &mut to).unwrap();
            assert!(to.is_empty());
        }
    }

    #[test]
    fn every_width_and_length_agrees_with_the_plain_loop() {
        for width in [1usize, 2, 4, 8] {
            for count in [0usize, 1, 3, 31, 32, 33, if cfg!(miri) { 70 } else { 1000 }] {
                let from: Vec<u8> = (0..count * width).map(|i| (i * 7 + i / 256) as u8).collect();
                let want: Vec<u8> = from.chunks(width).flat_map(|c| c.iter().rev().copied()).collect();
                let mut to = vec![0; from.len()];
                copy(width, &from, &mut to);
                assert_eq!(to, want, "width {width}, {count} numbers");
                let mut appended = vec![9];
                extend(width, &from, &mut appended).unwrap();
                assert_eq!(appended.split_first(), Some((&9, &want[..])), "width {width}, {count} numbers");
                for behind in [0usize, 1, 40] {
                    let longer = [from.as_slice(), &vec![7; behind]].concat();
                    let mut appended = vec![9];
                    extend_front(width, &longer, from.len(), &mut appended).unwrap();
                    assert_eq!(appended.split_first(), Some((&9, &want[..])), "{behind} bytes behind");
                }
                let rows: Vec<Vec<u8>> = from.chunks(width).map(|row| [row, &[1]].concat()).collect();
                let mut appended = vec![9];
                extend_each(width, rows.iter().map(Vec::as_slice), &mut appended).unwrap();
                assert_eq!(appended.split_first(), Some((&9, &want[..])), "rows of {width} bytes and one");
            }
        }
    }
}
