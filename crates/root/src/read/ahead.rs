//! The pages that a read will need, for prefetching and for reports.

use super::{Part, is_direct};
use crate::table::PageListed;
use sapwood_io::Announced;
use std::collections::HashSet;

/// A page that will be read.
#[derive(Debug, Clone, Copy)]
pub struct PagePlanned {
    /// Index of the first cluster that needs it.
    pub cluster: usize,
    /// The page.
    pub page: PageListed,
}

/// Returns the pages that reading a part needs, cluster by cluster, in file order within each cluster. Pages in the
/// page cache are excluded.
///
/// Pages that are only read to locate others are included, as often as a field needs them. Pages that several fields show
/// are included once.
pub fn planned(part: &Part<'_>) -> Vec<PagePlanned> {
    let mut pages = all(part);
    if is_direct(std::slice::from_ref(part)) {
        let cache = part.table.page_cache();
        let held = |page: &PageListed| cache.holds((part.table.cached_column(page.column), page.number));
        pages.retain(|planned| !held(&planned.page));
    }
    pages
}

fn all(part: &Part<'_>) -> Vec<PagePlanned> {
    let borders = part.table.cluster_borders();
    let mut pages = Vec::new();
    let (mut shown, mut listed) = (HashSet::new(), HashSet::new());
    for &field in part.fields {
        let shared = part.table.shared_columns(field);
        if shared.as_ref().is_some_and(|columns| shown.contains(columns)) {
            continue;
        }
        let from = pages.len();
        part.table.pages(field, part.start, part.stop, &mut pages);
        if let Some(columns) = shared {
            let mut own = pages.split_off(from);
            own.retain(|page| !listed.contains(&(page.column, page.number)));
            listed.extend(own.iter().map(|page| (page.column, page.number)));
            pages.append(&mut own);
            shown.insert(columns);
        }
    }
    let cluster = |page: PageListed| {
        let needed = page.first.max(part.start);
        PagePlanned { cluster: borders.partition_point(|&border| border <= needed), page }
    };
    let mut pages: Vec<PagePlanned> = pages.into_iter().map(cluster).collect();
    pages.sort_unstable_by_key(|planned| {
        (planned.cluster, planned.page.range.offset, planned.page.range.length)
    });
    pages
}

/// Announces to storage the byte ranges that parts of one table will need, and whether they are used together only.
/// Faults in the table are not reported here but when it is read.
pub fn announce(parts: &[Part<'_>], together: bool) -> Option<Announced> {
    // Steps have a cache of their own.
    let plan = if together { planned } else { all };
    let ranges = || parts.iter().flat_map(plan).map(|planned| planned.page.range).collect();
    parts.first()?.table.source().announce(&ranges, together)
}

/// The announcements of a read: the current part and its neighbours.
#[derive(Default)]
pub struct Ahead {
    next: usize,
    kept: Vec<Option<Announced>>,
}

impl Ahead {
    /// Moves on to part `p`. Announces the next part with it; consecutive parts of one table are announced together.
    pub fn go_on(&mut self, parts: &[Part<'_>], p: usize) {
        while self.next <= p + 1 {
            let rest = parts.get(self.next..).unwrap_or_default();
            let Some(of) = rest.chunk_by(|a, b| std::ptr::addr_eq(a.table, b.table)).next() else { break };
            self.next += of.len();
            // The announcement is kept until the last of these parts was read.
            self.kept.resize_with(self.next - 1, || None);
            self.kept.push(announce(of, true));
        }
        for past in self.kept.iter_mut().take(p.saturating_sub(1)) {
            *past = None;
        }
    }
}
