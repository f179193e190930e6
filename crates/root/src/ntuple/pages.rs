//! Clusters and page lists: the locations of the pages of each column.

use super::envelope::{EnvelopeReader, Locator};
use crate::error::{Error, Result, Within};
use crate::wire::grow::{self, Grow};
use std::ops::Range;

/// A cluster group: entries whose page list is one envelope.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClusterGroup {
    /// First entry.
    pub first_entry: u64,
    /// Number of entries.
    pub entries: u64,
    /// Number of clusters.
    pub clusters: u32,
    /// Bytes of the page list after decompression.
    pub length: u64,
    /// Location of the page list.
    pub locator: Locator,
}

impl ClusterGroup {
    /// Parses a cluster group record.
    pub fn parse(record: &mut EnvelopeReader<'_>) -> Result<Self> {
        let (first_entry, entries, clusters) = (record.u64()?, record.u64()?, record.u32()?);
        let (length, locator) = record.link()?;
        if first_entry.checked_add(entries).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Error::corrupt(format!("{entries} entries from entry {first_entry} on")));
        }
        Ok(Self { first_entry, entries, clusters, length, locator })
    }
}

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// One past its last element, counted from the first page of the cluster.
    pub end: u64,
    /// Location.
    pub locator: Locator,
    /// Whether a checksum follows the page.
    pub checksum: bool,
}

/// Bytes of the checksum after a page.
const CHECKSUM: u64 = 8;

impl Page {
    /// Byte range in the file, including the checksum.
    pub fn range(&self) -> Option<sapwood_io::Range> {
        let Locator::File { offset, bytes } = self.locator else { return None };
        let length = bytes.saturating_add(if self.checksum { CHECKSUM } else { 0 });
        Some(sapwood_io::Range { offset, length })
    }
}

/// The pages of one column in a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnRange {
    /// Whether the column is suppressed: the cluster uses another representation.
    pub suppressed: bool,
    /// Index of its first element, counted from the start of the RNTuple.
    pub first_element: u64,
    /// Indices of its pages in the page list.
    pub pages: Range<usize>,
    /// Compression of the pages, as ROOT's setting number.
    pub compression: u32,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// First entry.
    pub first_entry: u64,
    /// Number of entries.
    pub entries: u64,
    /// The pages of each column that was known when the cluster was written.
    pub columns: Vec<ColumnRange>,
}

impl Cluster {
    /// Returns the column that represents a field in this cluster, given the columns of its representations.
    pub fn representation(&self, choices: &[usize]) -> Option<usize> {
        let stored = |id: &&usize| self.columns.get(**id).is_some_and(|range| !range.suppressed);
        choices.iter().find(stored).copied()
    }
}

/// The clusters of a group, and their pages.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PageList {
    /// The clusters in order.
    pub clusters: Vec<Cluster>,
    pages: Vec<Page>,
}

/// Minimum bytes of a page in a page list: number of elements and locator.
const SMALLEST_PAGE: usize = 8;
/// Flag of clusters with only some of the columns; later versions of the format may use it.
const SHARDED: u64 = 1;

impl PageList {
    /// Parses the content of the page list envelope of a group.
    pub fn parse(
        reader: &mut EnvelopeReader<'_>,
        header_checksum: u64,
        group: &ClusterGroup,
    ) -> Result<Self> {
        let sum = reader.u64()?;
        if sum != header_checksum {
            return Err(Error::corrupt(format!(
                "the page list belongs to a header with checksum {sum:016x}, not {header_checksum:016x}"
            ))
            .at(8));
        }
        let mut list = Self::default();
        let (mut items, count) = reader.list(24)?;
        if count as u64 != u64::from(group.clusters) {
            return Err(Error::corrupt(format!(
                "the page list has {count} clusters, but its group has {}",
                group.clusters
            ))
            .at(items.place()));
        }
        for number in 0..count {
            let place = items.place();
            let mut record = items.record()?;
            let (first_entry, word) = (record.u64()?, record.u64()?);
            if word >> 56 & SHARDED != 0 {
                return Err(Error::unsupported(format!("cluster {number} is sharded")).at(place));
            }
            let entries = word & ((1 << 56) - 1);
            list.clusters.try_push(Cluster { first_entry, entries, columns: Vec::new() })?;
        }
        let (mut clusters, count) = reader.list(12)?;
        if count != list.clusters.len() {
            return Err(Error::corrupt(format!(
                "the page list has pages of {count} clusters, but its group has {}",
                list.clusters.len()
            ))
            .at(clusters.place()));
        }
        for number in 0..count {
            let columns = columns(&mut clusters, &mut list.pages)
                .within(|| format!("cluster {number} of the group"))?;
            if let Some(cluster) = list.clusters.get_mut(number) {
                cluster.columns = columns;
            }
        }
        list.clusters.sort_by_key(|cluster| (cluster.first_entry, cluster.entries));
        let mut next = group.first_entry;
        for cluster in &list.clusters {
            if cluster.first_entry != next {
                return Err(Error::corrupt(format!(
                    "no cluster of the group starts at entry {next}, one does at {}",
                    cluster.first_entry
                )));
            }
            next = next.saturating_add(cluster.entries);
        }
        if next != group.first_entry + group.entries {
            return Err(Error::corrupt(format!(
                "the clusters of the group end at entry {next} instead of {}",
                group.first_entry + group.entries
            )));
        }
        Ok(list)
    }
    /// Adds a cluster. `columns` holds the range and the pages of each column; `pages` of the range is filled in here.
    pub fn push(
        &mut self,
        first_entry: u64,
        entries: u64,
        columns: Vec<(ColumnRange, Vec<Page>)>,
    ) -> Result<()> {
        let mut ranges = grow::with_room(columns.len())?;
        self.pages.room(columns.iter().map(|(_, pages)| pages.len()).sum())?;
        self.clusters.room(1)?;
        for (range, pages) in columns {
            let start = self.pages.len();
            self.pages.extend(pages);
            ranges.push(ColumnRange { pages: start..self.pages.len(), ..range });
        }
        self.clusters.push(Cluster { first_entry, entries, columns: ranges });
        Ok(())
    }
    /// Removes the last cluster.
    pub fn pop(&mut self) {
        let first = self.clusters.pop().and_then(|cluster| cluster.columns.first().map(|c| c.pages.start));
        self.pages.truncate(first.unwrap_or(self.pages.len()));
    }
    /// The pages of a column.
    pub fn pages(&self, column: &ColumnRange) -> &[Page] {
        self.pages.get(column.pages.clone()).unwrap_or_default()
    }
    /// Number of pages of all columns.
    pub fn count(&self) -> usize {
        self.pages.len()
    }
    /// Number of stored elements of a column.
    pub fn elements(&self, column: &ColumnRange) -> u64 {
        self.pages(column).last().map_or(0, |page| page.end)
    }
}

fn columns(clusters: &mut EnvelopeReader<'_>, pages: &mut Vec<Page>) -> Result<Vec<ColumnRange>> {
    let (mut items, count) = clusters.list(20)?;
    let mut columns = grow::with_room(count)?;
    for number in 0..count {
        let column = column(&mut items, pages);
        columns.push(column.within(|| format!("column {number}"))?);
    }
    Ok(columns)
}

fn column(items: &mut EnvelopeReader<'_>, pages: &mut Vec<Page>) -> Result<ColumnRange> {
    let (mut inner, count) = items.list(SMALLEST_PAGE)?;
    let start = pages.len();
    let mut end = 0u64;
    for _ in 0..count {
        let elements = inner.i32()?;
        let locator = inner.locator()?;
        if elements != 0 {
            end += u64::from(elements.unsigned_abs());
            pages.try_push(Page { end, locator, checksum: elements < 0 })?;
        }
    }
    let place = inner.place();
    let first = inner.i64()?;
    let suppressed = first < 0;
    if suppressed && count > 0 {
        return Err(Error::corrupt("a suppressed column has pages").at(place));
    }
    Ok(ColumnRange {
        suppressed,
        first_element: if suppressed { 0 } else { first.unsigned_abs() },
        pages: start..pages.len(),
        compression: if suppressed { 0 } else { inner.u32()? },
    })
}

#[cfg(test)]
mod tests {
    use super::super::envelope::tests::{list, record};
    use super::*;

    fn page(elements: i32, bytes: i32, offset: u64) -> Vec<u8> {
        [&elements.to_le_bytes()[..], &bytes.to_le_bytes(), &offset.to_le_bytes()].concat()
    }
    /// The list frame of pages; its size includes the bytes that follow the pages.
    fn column(pages: &[Vec<u8>], first: i64, compression: Option<u32>) -> Vec<u8> {
        let mut tail = first.to_le_bytes().to_vec();
        tail.extend(compression.map_or(Vec::new(), |c| c.to_le_bytes().to_vec()));
        let content = [pages.concat(), tail].concat();
        let size = -(content.len() as i64 + 12);
        [&size.to_le_bytes()[..], &(pages.len() as u32).to_le_bytes(), &content].concat()
    }
    fn summary(first: u64, entries: u64) -> Vec<u8> {
        record(&[first.to_le_bytes(), entries.to_le_bytes()].concat())
    }
    fn group(first_entry: u64, entries: u64, clusters: u32) -> ClusterGroup {
        let locator = Locator::File { offset: 0, bytes: 0 };
        ClusterGroup { first_entry, entries, clusters, length: 0, locator }
    }
    fn parse(content: &[u8], group: &ClusterGroup) -> Result<PageList> {
        PageList::parse(&mut EnvelopeReader::new(content, 8), 77, group)
    }
    fn two_clusters() -> Vec<u8> {
        let pages = [page(-3, 12, 100), page(2, 8, 112)];
        let here = list(&[column(&pages, 10, Some(505)), column(&[], i64::MIN, None)]);
        let there = list(&[column(&[], i64::MIN, None), column(&[page(1, 4, 120)], 15, Some(0))]);
        let summaries = list(&[summary(10, 5), summary(15, 1)]);
        [&77u64.to_le_bytes()[..], &summaries, &list(&[here, there])].concat()
    }

    #[test]
    fn pages_of_two_representations() {
        let list = parse(&two_clusters(), &group(10, 6, 2)).unwrap();
        let [first, second] = &list.clusters[..] else { unreachable!() };
        assert_eq!((first.first_entry, first.entries, second.first_entry), (10, 5, 15));
        let [one, other] = &first.columns[..] else { unreachable!() };
        assert_eq!((one.first_element, one.compression, other.suppressed), (10, 505, true));
        let at = |offset, bytes| Locator::File { offset, bytes };
        let want = [
            Page { end: 3, locator: at(100, 12), checksum: true },
            Page { end: 5, locator: at(112, 8), checksum: false },
        ];
        assert_eq!(list.pages(one), want);
        assert_eq!((list.elements(one), list.elements(other), list.elements(&second.columns[1])), (5, 0, 1));
    }

    #[test]
    fn contradictions_are_found() {
        let good = two_clusters();
        assert!(parse(&good, &group(10, 7, 2)).is_err());
        assert!(parse(&good, &group(9, 6, 2)).is_err());
        assert!(parse(&good, &group(10, 6, 3)).is_err());
        for end in 0..good.len() {
            assert!(parse(&good[..end], &group(10, 6, 2)).is_err(), "{end} bytes");
        }
        let content = |summary: Vec<u8>, column: Vec<u8>| {
            [&77u64.to_le_bytes()[..], &list(&[summary]), &list(&[list(&[column])])].concat()
        };
        let sharded = content(summary(0, 1 | 1 << 56), column(&[], 0, Some(0)));
        assert!(parse(&sharded, &group(0, 1, 1)).unwrap_err().to_string().contains("sharded"));
        let with_pages = content(summary(0, 1), column(&[page(1, 4, 0)], -1, None));
        assert!(parse(&with_pages, &group(0, 1, 1)).is_err());
        let empty =
            parse(&content(summary(0, 1), column(&[page(0, 4, 0)], 0, Some(0))), &group(0, 1, 1)).unwrap();
        assert_eq!(empty.pages(&empty.clusters[0].columns[0]), []);
        let mut other_header = good;
        other_header[0] ^= 1;
        assert!(parse(&other_header, &group(10, 6, 2)).unwrap_err().to_string().contains("checksum"));
    }
}
