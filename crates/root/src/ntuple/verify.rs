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
    /// First entries of the first and the last cluster that it concerns; `None` if it concerns a whole group.
    pub clusters: Option<(u64, u64)>,
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
                found.faults.push(Fault { code: LIST, part, clusters: None, error });
                columns.forget(&mut found.faults);
            }
        }
        before += group.clusters as usize;
    }
    columns.forget(&mut found.faults);
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
                    clusters: None,
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
    known: Vec<Known>,
}

/// Adjacent clusters: the first and the last.
struct Clusters {
    numbers: (usize, usize),
    first_entries: (u64, u64),
}

/// A column of a first representation.
struct Known {
    column: usize,
    /// Number of its elements for an entry, if fixed.
    each: Option<u64>,
    /// The columns of all representations.
    choices: Vec<usize>,
    /// The next element, if known.
    next: Option<u64>,
    /// The last clusters, if the column is missing there.
    missing: Option<Clusters>,
}

impl<'a> Columns<'a> {
    fn of(ntuple: &'a NTuple) -> Self {
        let tops = ntuple.listed.iter().enumerate().filter(|(_, listed)| listed.parent.is_none());
        let mut each: Vec<_> = tops.flat_map(|(field, _)| ntuple.columns_with_repetitions(field)).collect();
        each.sort_unstable();
        each.dedup_by_key(|(column, _)| *column);
        let known = |(column, each)| {
            let choices = ntuple.representations(column);
            Known { column, each, choices, next: None, missing: None }
        };
        Self { ntuple, known: each.into_iter().map(known).collect() }
    }

    /// Ends a run of clusters. Reports the columns that were missing at its end.
    fn forget(&mut self, faults: &mut Vec<Fault>) {
        for known in &mut self.known {
            known.next = None;
            known.report_missing(self.ntuple, faults);
        }
    }

    fn verify(&mut self, pages: &ClusterPages, deep: bool, faults: &mut Vec<Fault>, used: &mut Vec<Range>) {
        let Some(cluster) = pages.cluster() else { return };
        let (first, list) = (cluster.first_entry, pages.list());
        let known = self.ntuple.schema.columns.len();
        if cluster.columns.len() > known {
            let error = Error::corrupt(format!("{} columns of {known}", cluster.columns.len()));
            let part = format!("cluster {}", pages.number);
            faults.push(Fault { code: LIST, part, clusters: Some((first, first)), error });
        }
        for known in &mut self.known {
            known.verify(self.ntuple, pages, cluster, faults);
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
                        faults.push(Fault {
                            code: PLACE,
                            part: part(),
                            clusters: Some((first, first)),
                            error,
                        });
                    }
                }
            }
        }
        if deep {
            let of = |column| format!("column {}, cluster {}", self.name(column), pages.number);
            self.checksums(&ranges, &mut |column, error| {
                faults.push(Fault {
                    code: CHECKSUM,
                    part: of(column),
                    clusters: Some((first, first)),
                    error,
                });
            });
        }
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

impl Known {
    /// Compares the elements of the column with the entries of the cluster and with the clusters before.
    fn verify(&mut self, ntuple: &NTuple, pages: &ClusterPages, cluster: &Cluster, faults: &mut Vec<Fault>) {
        let schema = &ntuple.schema;
        let unstored = |id, first| schema.unstored(id, cluster.first_entry, first);
        let wanted = self.each.map(|each| each.saturating_mul(cluster.entries));
        let chosen = cluster.representation(&self.choices);
        let (number, first_entry) = (pages.number, cluster.first_entry);
        let one = Clusters { numbers: (number, number), first_entries: (first_entry, first_entry) };
        let Some((range, id)) = chosen.and_then(|id| Some((cluster.columns.get(id)?, id))) else {
            self.next = None;
            if wanted.is_some_and(|wanted| wanted > unstored(self.column, None)) {
                let before = self.missing.get_or_insert(one);
                (before.numbers.1, before.first_entries.1) = (number, first_entry);
            } else {
                self.report_missing(ntuple, faults);
            }
            return;
        };
        self.report_missing(ntuple, faults);
        let elements = pages.list().elements(range);
        let wrong = if self.next.is_some_and(|next| next != range.first_element) {
            let next = self.next.unwrap_or_default();
            Some(format!("it begins at element {}, not {next}", range.first_element))
        } else {
            let missing = wanted.map(|wanted| wanted.checked_sub(elements));
            let fits = missing.is_none_or(|missing| {
                missing.is_some_and(|missing| missing <= unstored(id, Some(range.first_element)))
            });
            let end = range.first_element.saturating_add(elements);
            let entries = cluster.first_entry.saturating_add(cluster.entries);
            let due = self.each.map_or(end, |each| each.saturating_mul(entries));
            if fits {
                (end != due).then(|| format!("it ends at element {end}, not {due}"))
            } else {
                Some(format!("{elements} elements for {} entries", cluster.entries))
            }
        };
        self.next = range.first_element.checked_add(elements);
        if let Some(text) = wrong {
            self.report(ntuple, &one, text, faults);
        }
    }

    /// Reports that the column is missing in the last clusters: one fault for all, as a file may claim any number.
    fn report_missing(&mut self, ntuple: &NTuple, faults: &mut Vec<Fault>) {
        if let Some(clusters) = self.missing.take() {
            self.report(ntuple, &clusters, "it is missing".to_owned(), faults);
        }
    }

    fn report(&self, ntuple: &NTuple, clusters: &Clusters, text: String, faults: &mut Vec<Fault>) {
        let (from, to) = clusters.numbers;
        let named = if from == to { format!("cluster {from}") } else { format!("clusters {from} to {to}") };
        let part = format!("column {}, {named}", ntuple.column_name(self.column));
        let clusters = Some(clusters.first_entries);
        faults.push(Fault { code: ELEMENTS, part, clusters, error: Error::corrupt(text) });
    }
}
