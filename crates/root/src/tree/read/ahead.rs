//! What reading will need, for storage that fetches it ahead, and for who wants to know.

use super::super::{Place, Tree};
use super::{Part, counter_of, is_direct};
use crate::error::Result;
use sapwood_io::{Announced, Range};

/// A basket that will be read.
#[derive(Debug, Clone, Copy)]
pub struct Planned {
    /// Number of the cluster in which it is needed first.
    pub cluster: usize,
    /// Where it lies.
    pub range: Range,
    /// Its branch.
    pub branch: usize,
    /// Its number in the branch.
    pub basket: usize,
    /// Its first entry.
    pub first: u64,
    /// Its entries.
    pub entries: u64,
}

/// The baskets that reading a part needs, cluster by cluster, and in each in the order of the file; none that the basket
/// cache would give.
///
/// Counter branches are among them, as often as they are read.
pub fn planned(part: &Part<'_>) -> Result<Vec<Planned>> {
    let mut baskets = all(part)?;
    if is_direct(std::slice::from_ref(part)) {
        baskets.retain(|basket| !part.tree.basket_cache.holds(basket.range.offset));
    }
    Ok(baskets)
}

fn all(part: &Part<'_>) -> Result<Vec<Planned>> {
    let borders = part.tree.cluster_borders();
    let mut baskets = Vec::new();
    for &branch in part.branches {
        add(&mut baskets, part.tree, &borders, branch, (part.start, part.stop));
        if let Some((counter, _)) = counter_of(part.tree, branch)? {
            // It is read for all entries of the baskets that it counts.
            let own = baskets.iter().filter(|p| p.branch == branch);
            let start = own.clone().map(|p| p.first).min().unwrap_or(0);
            let stop = own.map(|p| p.first + p.entries).max().unwrap_or(0);
            add(&mut baskets, part.tree, &borders, counter, (start, stop.min(part.tree.entries)));
        }
    }
    baskets.sort_by_key(|p| (p.cluster, p.range.offset));
    Ok(baskets)
}

fn add(to: &mut Vec<Planned>, tree: &Tree, borders: &[u64], branch: usize, (start, stop): (u64, u64)) {
    let Some(found) = tree.branches.get(branch) else { return };
    let first = found.baskets.partition_point(|b| b.first + b.entries <= start);
    for (basket, b) in found.baskets.iter().enumerate().skip(first).take_while(|(_, b)| b.first < stop) {
        if let Place::File(offset, length) = b.place {
            let cluster = borders.partition_point(|&border| border <= b.first.max(start));
            to.push(Planned {
                cluster,
                range: Range { offset, length },
                branch,
                basket,
                first: b.first,
                entries: b.entries,
            });
        }
    }
}

/// Tells storage what will be fetched of parts of one tree, and whether it is used together only. What is wrong with them
/// shows when they are read.
pub fn announce(parts: &[Part<'_>], together: bool) -> Option<Announced> {
    // Steps have a cache of their own.
    let plan = if together { planned } else { all };
    let ranges = || parts.iter().flat_map(|part| plan(part).unwrap_or_default()).map(|p| p.range).collect();
    parts.first()?.tree.file.source().announce(&ranges, together)
}

/// The announcements of a reading: of the part that is read and its neighbours.
#[derive(Default)]
pub struct Ahead {
    next: usize,
    kept: Vec<Option<Announced>>,
}

impl Ahead {
    /// Part `p` is read now. The next one is announced with it; those of one tree that follow each other together.
    pub fn go_on(&mut self, parts: &[Part<'_>], p: usize) {
        while self.next <= p + 1 {
            let rest = parts.get(self.next..).unwrap_or_default();
            let Some(of) = rest.chunk_by(|a, b| std::ptr::eq(a.tree, b.tree)).next() else { break };
            self.next += of.len();
            // It is kept until the last of them was read.
            self.kept.resize_with(self.next - 1, || None);
            self.kept.push(announce(of, true));
        }
        for past in self.kept.iter_mut().take(p.saturating_sub(1)) {
            *past = None;
        }
    }
}
