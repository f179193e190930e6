//! Verification of the clusters and pages of an RNTuple against its schema and page lists.

use super::envelope::Locator;
use super::pages::{Cluster, Page};
use super::table::{ClusterPages, NTuple};
use super::writer::copy::Blocks;
use crate::error::{Error, Result};
use crate::table::Table;
use sapwood_io::Range;

/// A page list cannot be read or is inconsistent.
const LIST: &str = "ntuple-page-list";
/// A column has the wrong number of elements in a cluster.
const ELEMENTS: &str = "ntuple-elements";
/// A page has an impossible location.
const PLACE: &str = "ntuple-page-place";
/// The checksum of a page is wrong.
const CHECKSUM: &str = "ntuple-checksum";

/// A fault in an RNTuple.
#[derive(Debug)]
pub struct Fault {
    /// Its kind.
    pub code: &'static str,
    /// The column, or the part of the RNTuple.
    pub part: String,
    /// First entry of the cluster; `None` if the fault concerns a whole group.
    pub cluster: Option<u64>,
    /// The error.
    pub error: Error,
}

/// Result of a verification.
#[derive(Debug, Default)]
pub struct Verified {
    /// The faults.
    pub faults: Vec<Fault>,
    /// Byte ranges of envelopes and pages, in order; adjacent ranges are joined.
    pub used: Vec<Range>,
}

/// Verifies all clusters against the schema and the page lists; with `deep`, also the checksums of pages.
pub fn verify(ntuple: &NTuple, deep: bool) -> Verified {
    let mut found = Verified::default();
    let mut used = Vec::new();
    let mut envelope = |offset, stored: u64| {
        // Larger blobs continue in other keys.
        let most = ntuple.anchor.max_key_size;
        let length = if most == 0 { stored } else { stored.min(most) };
        used.push(Range { offset, length });
    };
    envelope(ntuple.anchor.header.offset, ntuple.anchor.header.stored);
    envelope(ntuple.anchor.footer.offset, ntuple.anchor.footer.stored);
    for group in &ntuple.groups {
        if let Locator::File { offset, bytes } = group.locator {
            envelope(offset, bytes);
        }
    }
    let size = ntuple.file.source().size();
    used.retain(|range| range.offset.checked_add(range.length).is_some_and(|end| end <= size));
    let mut columns = Columns::of(ntuple);
    let mut before = 0;
    for (number, group) in ntuple.groups.iter().enumerate() {
        match ntuple.page_list(number) {
            Ok(list) => {
                for index in 0..list.clusters.len() {
                    let pages = ClusterPages::new(list.clone(), index, before + index);
                    columns.verify(&pages, deep, &mut found.faults, &mut used);
                }
            }
            Err(error) => {
                let part = format!("cluster group {number}");
                found.faults.push(Fault { code: LIST, part, cluster: None, error });
                columns.forget();
            }
        }
        before += group.clusters as usize;
    }
    used.sort_unstable_by_key(|range| (range.offset, range.length));
    // Equal pages may be stored once.
    used.dedup();
    for range in used {
        let end = range.offset + range.length;
        match found.used.last_mut() {
            Some(last) if range.offset < last.offset + last.length => {
                found.faults.push(Fault {
                    code: PLACE,
                    part: "pages".to_owned(),
                    cluster: None,
                    error: Error::corrupt(format!(
                        "{} bytes are shared with the page or envelope before",
                        last.offset + last.length - range.offset
                    ))
                    .at(range.offset),
                });
                last.length = last.length.max(end - last.offset);
            }
            Some(last) if range.offset == last.offset + last.length => last.length += range.length,
            _ => found.used.push(range),
        }
    }
    found
}

/// The columns, with their state after the clusters checked so far.
struct Columns<'a> {
    ntuple: &'a NTuple,
    /// Each column of a first representation, with its number of elements for an entry, if fixed.
    each: Vec<(usize, Option<u64>)>,
    /// For each of these the next element, if known.
    next: Vec<Option<u64>>,
}

impl<'a> Columns<'a> {
    fn of(ntuple: &'a NTuple) -> Self {
        let tops = ntuple.listed.iter().enumerate().filter(|(_, listed)| listed.parent.is_none());
        let mut each: Vec<_> = tops.flat_map(|(field, _)| ntuple.columns_with_repetitions(field)).collect();
        each.sort_unstable();
        each.dedup_by_key(|(column, _)| *column);
        let next = vec![None; each.len()];
        Self { ntuple, each, next }
    }

    fn forget(&mut self) {
        self.next.fill(None);
    }

    fn verify(&mut self, pages: &ClusterPages, deep: bool, faults: &mut Vec<Fault>, used: &mut Vec<Range>) {
        let Some(cluster) = pages.cluster() else { return };
        let (first, list) = (cluster.first_entry, pages.list());
        let known = self.ntuple.schema.columns.len();
        if cluster.columns.len() > known {
            let error = Error::corrupt(format!("{} columns of {known}", cluster.columns.len()));
            let part = format!("cluster {}", pages.number);
            faults.push(Fault { code: LIST, part, cluster: Some(first), error });
        }
        for place in 0..self.each.len() {
            self.elements(place, pages, cluster, faults);
        }
        let mut ranges: Vec<(&Page, usize)> = Vec::new();
        for (column, range) in cluster.columns.iter().enumerate() {
            let part = || format!("column {}, cluster {}", self.name(column), pages.number);
            let mut before = 0;
            for page in list.pages(range) {
                let elements = std::mem::replace(&mut before, page.end)..page.end;
                match self.page(column, page, elements.end - elements.start) {
                    Ok(Some(bytes)) => {
                        used.push(bytes);
                        ranges.push((page, column));
                    }
                    Ok(None) => {}
                    Err(error) => {
                        faults.push(Fault { code: PLACE, part: part(), cluster: Some(first), error });
                    }
                }
            }
        }
        if deep {
            let of = |column| format!("column {}, cluster {}", self.name(column), pages.number);
            self.checksums(&ranges, &mut |column, error| {
                faults.push(Fault { code: CHECKSUM, part: of(column), cluster: Some(first), error });
            });
        }
    }

    /// Compares the elements of a column with the entries of the cluster and with the clusters before.
    fn elements(&mut self, place: usize, pages: &ClusterPages, cluster: &Cluster, faults: &mut Vec<Fault>) {
        let Some((&(column, each), next)) = self.each.get(place).zip(self.next.get_mut(place)) else {
            return;
        };
        let chosen = self.ntuple.representing(column, cluster);
        let found = chosen.and_then(|id| Some((cluster.columns.get(id)?, id)));
        let schema = &self.ntuple.schema;
        let unstored = |id, first| schema.unstored(id, cluster.first_entry, first);
        let wanted = each.map(|each| each.saturating_mul(cluster.entries));
        let Some((range, id)) = found else {
            *next = None;
            if wanted.is_some_and(|wanted| wanted > unstored(column, None)) {
                self.report(column, pages, cluster, "it is missing".to_owned(), faults);
            }
            return;
        };
        let elements = pages.list().elements(range);
        let wrong = if next.is_some_and(|next| next != range.first_element) {
            Some(format!("it begins at element {}, not {}", range.first_element, next.unwrap_or_default()))
        } else {
            let missing = wanted.map(|wanted| wanted.checked_sub(elements));
            let fits = missing.is_none_or(|missing| {
                missing.is_some_and(|missing| missing <= unstored(id, Some(range.first_element)))
            });
            let end = range.first_element.saturating_add(elements);
            let entries = cluster.first_entry.saturating_add(cluster.entries);
            let due = each.map_or(end, |each| each.saturating_mul(entries));
            if fits {
                (end != due).then(|| format!("it ends at element {end}, not {due}"))
            } else {
                Some(format!("{elements} elements for {} entries", cluster.entries))
            }
        };
        *next = range.first_element.checked_add(elements);
        if let Some(text) = wrong {
            self.report(column, pages, cluster, text, faults);
        }
    }

    fn report(
        &self,
        column: usize,
        pages: &ClusterPages,
        cluster: &Cluster,
        text: String,
        faults: &mut Vec<Fault>,
    ) {
        let part = format!("column {}, cluster {}", self.ntuple.column_name(column), pages.number);
        let cluster = Some(cluster.first_entry);
        faults.push(Fault { code: ELEMENTS, part, cluster, error: Error::corrupt(text) });
    }

    /// Verifies the location of a page and returns its byte range; `None` if it is not stored.
    fn page(&self, column: usize, page: &Page, elements: u64) -> Result<Option<Range>> {
        let (offset, bytes) = match page.locator {
            Locator::File { offset, bytes } => (offset, bytes),
            Locator::Elsewhere(kind) => return Err(Locator::unreadable(kind)),
        };
        let range = page.range().filter(|range| range.length > 0);
        let Some(range) = range else { return Ok(None) };
        let end = range.offset.checked_add(range.length);
        let size = self.ntuple.file.source().size();
        if end.is_none_or(|end| end > size) {
            let text = format!("a page of {} bytes in a file of {size}", range.length);
            return Err(Error::corrupt(text).at(offset));
        }
        let encoding =
            self.ntuple.schema.columns.get(column).and_then(|column| column.encoding.as_ref().ok());
        let plain = encoding.and_then(|encoding| encoding.stored_bytes(elements));
        if let Some(plain) = plain.filter(|&plain| bytes > plain as u64) {
            let text = format!("{bytes} bytes are stored for a page of {plain}");
            return Err(Error::corrupt(text).at(offset));
        }
        Ok(Some(range))
    }

    /// Verifies the checksums of the pages of a cluster.
    fn checksums(&self, pages: &[(&Page, usize)], fault: &mut dyn FnMut(usize, Error)) {
        let stored: Vec<(&Page, usize)> = pages.iter().filter(|(page, _)| page.checksum).copied().collect();
        match Blocks::read(self.ntuple, stored.iter().map(|(page, _)| *page)) {
            Ok(blocks) => {
                for (page, column) in stored {
                    if let Err(error) = blocks.page(page) {
                        fault(column, error);
                    }
                }
            }
            Err(error) => {
                if let Some((_, column)) = stored.first() {
                    fault(*column, error);
                }
            }
        }
    }

    fn name(&self, column: usize) -> String {
        self.ntuple.column_name(column)
    }
}
