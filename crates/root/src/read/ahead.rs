//! What reading will need, for storage that fetches it ahead, and for reports.

use super::{Part, is_direct};
use crate::table::PageListed;
use sapwood_io::Announced;

/// A page that will be read.
#[derive(Debug, Clone, Copy)]
pub struct PagePlanned {
    /// Number of the cluster in which it is needed first.
    pub cluster: usize,
    /// The page.
    pub page: PageListed,
}

/// The pages that reading a part needs, cluster by cluster, and in each in the order of the file; none that the page
/// cache would give.
///
/// Pages that are read to read others are among them, as often as they are needed.
pub fn planned(part: &Part<'_>) -> Vec<PagePlanned> {
    let mut pages = all(part);
    if is_direct(std::slice::from_ref(part)) {
        let cache = part.table.page_cache();
        pages.retain(|planned| !cache.holds(planned.page.range.offset));
    }
    pages
}

fn all(part: &Part<'_>) -> Vec<PagePlanned> {
    let borders = part.table.cluster_borders();
    let mut pages = Vec::new();
    for &field in part.fields {
        part.table.pages(field, part.start, part.stop, &mut pages);
    }
    let cluster = |page: PageListed| {
        let needed = page.first.max(part.start);
        PagePlanned { cluster: borders.partition_point(|&border| border <= needed), page }
    };
    let mut pages: Vec<PagePlanned> = pages.into_iter().map(cluster).collect();
    pages.sort_by_key(|planned| (planned.cluster, planned.page.range.offset));
    pages
}

/// Announces to storage what will be fetched of parts of one table, and whether it is used together only. What is wrong
/// with them shows when they are read.
pub fn announce(parts: &[Part<'_>], together: bool) -> Option<Announced> {
    // Steps have a cache of their own.
    let plan = if together { planned } else { all };
    let ranges = || parts.iter().flat_map(plan).map(|planned| planned.page.range).collect();
    parts.first()?.table.source().announce(&ranges, together)
}

/// The announcements of a reading: of the part that is read and its neighbours.
#[derive(Default)]
pub struct Ahead {
    next: usize,
    kept: Vec<Option<Announced>>,
}

impl Ahead {
    /// Part `p` is read now. The next one is announced with it; those of one table that follow each other together.
    pub fn go_on(&mut self, parts: &[Part<'_>], p: usize) {
        while self.next <= p + 1 {
            let rest = parts.get(self.next..).unwrap_or_default();
            let Some(of) = rest.chunk_by(|a, b| std::ptr::addr_eq(a.table, b.table)).next() else { break };
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
