//! Finding the longest entry of a branch.

use super::{Framing, Tree};
use crate::error::Result;
use crate::table::Page;

/// Maximum number of baskets to examine.
const MOST_BASKETS: usize = 64;

/// Returns the entry with the most bytes in the first basket whose entries differ in length. Returns `None` if all
/// examined entries have the same length.
///
/// # Errors
/// When a basket cannot be fetched or unpacked.
pub fn longest_entry(tree: &Tree, branch: usize) -> Result<Option<u64>> {
    let Some(found) = tree.branches.get(branch) else { return Ok(None) };
    if matches!(tree.program(branch)?.framing, Framing::Fixed(_)) {
        return Ok(None);
    }
    let mut shortest = None;
    for of in found.baskets.iter().take(MOST_BASKETS) {
        let longest = of.with_page(&tree.file, |page| longest(page, &mut shortest))?.flatten();
        if let Some(entry) =
            longest.map(|entry| of.first + entry as u64).filter(|&entry| entry < found.entries)
        {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// Returns the longest entry, if it is longer than the shortest so far.
fn longest(page: &Page<'_>, shortest: &mut Option<u32>) -> Result<Option<usize>> {
    let Some(bounds) = page.bounds()? else { return Ok(None) };
    let lengths = || bounds.windows(2).map(|pair| if let [a, b] = pair { b - a } else { 0 });
    let least = lengths().chain(*shortest).min();
    *shortest = least;
    let longest = lengths().enumerate().max_by_key(|&(entry, length)| (length, std::cmp::Reverse(entry)));
    Ok(longest.filter(|&(_, length)| Some(length) > least).map(|(entry, _)| entry))
}
