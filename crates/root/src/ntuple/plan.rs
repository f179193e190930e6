//! Selecting the pages for some entries of a field, and building the column from their values.

use super::assembly::{Assembly, unread, words};
use super::decode::{ColumnDecoder, NOT_STORED, NUMBER_BITS, StoredIn, Wanted};
use super::encoding::{self, Encoding};
use super::envelope::Locator;
use super::pages::ColumnRange;
use super::structure::{Stored, Structure};
use super::table::{ClusterPages, NTuple};
use crate::array::{Column, Number, Type};
use crate::error::{Error, Result};
use crate::streamer::compile::Programs;
use crate::table::{
    FieldPlan, FieldReader, Hidden, Lane, LaneValues, PagePlace, PageWanted, Table, Target, of_format,
};
use crate::wire::grow::{self, Grow};
use std::ops::Range;
use std::sync::Arc;

/// A field compiled for reading.
pub struct FieldColumns {
    structure: Result<Arc<Structure>>,
    /// The type of its column, or the error that prevents reading.
    of: Result<Type>,
    /// Its C++ type.
    typename: String,
    programs: Option<Arc<Programs>>,
    hidden: Hidden,
}

impl FieldColumns {
    /// Compiles a structure, or keeps the error if there is none. `programs` decode its streamed fields.
    pub fn new(
        structure: Result<Structure>,
        typename: &str,
        programs: Option<Arc<Programs>>,
        hidden: Hidden,
    ) -> Self {
        let of = structure.as_ref().map(Structure::type_of).map_err(Clone::clone);
        Self { structure: structure.map(Arc::new), of, typename: typename.to_owned(), programs, hidden }
    }

    /// The classes that are skipped.
    pub fn hidden(&self) -> &Hidden {
        &self.hidden
    }

    /// Plans entries `start` to `stop`.
    fn plan_entries<'a>(&self, ntuple: &'a NTuple, start: u64, stop: u64) -> Result<FieldEntries<'a>> {
        let structure = self.structure.clone()?;
        let (clusters, listed) = ntuple.clusters_and_columns(start, stop)?;
        let entries = Some((structure, start..stop));
        Ok(FieldEntries { ntuple, clusters, listed, entries, next: Vec::new(), waiting: Vec::new() })
    }
}

impl FieldReader for FieldColumns {
    fn of(&self) -> &Result<Type> {
        &self.of
    }
    fn typename(&self) -> &str {
        &self.typename
    }
    fn layout(&self, _table: &dyn Table, _field: usize) -> Option<String> {
        let mut layout = "RNTuple".to_owned();
        self.structure.as_ref().ok()?.describe_layout(&mut layout)?;
        Some(layout)
    }
    fn plan<'a>(
        self: Arc<Self>,
        table: &'a dyn Table,
        _field: usize,
        start: u64,
        stop: u64,
    ) -> Result<Box<dyn FieldPlan<'a> + 'a>> {
        Ok(Box::new(self.plan_entries(of_format(table)?, start, stop)?))
    }
    fn finish(
        &self,
        entries: u64,
        take: &mut dyn FnMut(usize) -> Result<Column>,
        room: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Column> {
        let structure = self.structure.clone()?;
        let length = usize::try_from(entries)
            .map_err(|_| Error::limit(format!("{entries} entries are too many for memory")))?;
        Assembly { take, room, programs: self.programs.as_deref() }.column(&structure, length)
    }
}

/// Items of a structure in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    /// Index among the clusters of the plan.
    cluster: usize,
    /// First item, counted from the start of the cluster.
    from: u64,
    /// One past the last item.
    to: u64,
    /// Items in the cluster, if that is known.
    total: Option<u64>,
}

/// Spans that the parts of a record share.
type Spans = Arc<Vec<Span>>;

/// A structure whose values are needed to plan its parts.
struct Waiting {
    structure: Arc<Structure>,
    spans: Spans,
    read: Read,
}

/// The values of a structure that were read.
enum Read {
    /// The switch: the type of each variant.
    Switch,
    /// The ends of lists, with the offset added to those of each span.
    Ends(Vec<u64>),
    /// The last end in each span, because no column of the items has their number.
    LastEnds,
}

/// The plan for reading some entries of a field.
pub struct FieldEntries<'a> {
    ntuple: &'a NTuple,
    clusters: Arc<[ClusterPages]>,
    /// The largest number of columns that a cluster lists.
    listed: usize,
    /// The whole field and the entries to read, until the first stage. All fields of a read are planned before.
    entries: Option<(Arc<Structure>, Range<u64>)>,
    next: Vec<(Arc<Structure>, Spans)>,
    waiting: Vec<Waiting>,
}

impl<'a> FieldPlan<'a> for FieldEntries<'a> {
    fn stage(&mut self, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        for waiting in std::mem::take(&mut self.waiting) {
            self.go_on(waiting, read, lanes)?;
        }
        if let Some((structure, entries)) = self.entries.take() {
            let late = structure.first_column().is_some_and(|column| column >= self.listed);
            let joined = if late { self.joined_entries(&entries) } else { None };
            let spans = joined.map_or_else(|| self.spans(&entries), |span| Ok(Arc::new(vec![span])))?;
            self.next.push((structure, spans));
        }
        while let Some((structure, spans)) = self.next.pop() {
            let spans = self.joined(&structure, spans)?;
            self.expand(&structure, spans, lanes)?;
        }
        Ok(())
    }
}

impl<'a> FieldEntries<'a> {
    /// Returns the span of each cluster for some entries.
    fn spans(&self, entries: &Range<u64>) -> Result<Spans> {
        let mut spans = grow::with_room(self.clusters.len())?;
        for (number, pages) in self.clusters.iter().enumerate() {
            let Some(cluster) = pages.cluster() else { continue };
            let end = cluster.first_entry + cluster.entries;
            spans.push(Span {
                cluster: number,
                from: entries.start.max(cluster.first_entry) - cluster.first_entry,
                to: entries.end.min(end) - cluster.first_entry,
                total: Some(cluster.entries),
            });
        }
        Ok(Arc::new(spans))
    }

    /// Returns one span for some entries, of which no cluster has any column.
    fn joined_entries(&self, entries: &Range<u64>) -> Option<Span> {
        let (first, last) = (self.clusters.first()?.cluster()?, self.clusters.last()?.cluster()?);
        let end = last.first_entry.checked_add(last.entries)?;
        Some(Span {
            cluster: 0,
            from: entries.start.max(first.first_entry) - first.first_entry,
            to: entries.end.min(end) - first.first_entry,
            total: Some(end - first.first_entry),
        })
    }

    /// Joins adjacent spans in whose clusters nothing of a structure is stored. A field that was added late then costs
    /// the same for any number of clusters before.
    fn joined(&self, structure: &Structure, spans: Spans) -> Result<Spans> {
        let stored = match structure {
            Structure::Number { stored, .. } => stored,
            Structure::Variant { switch, .. } => switch,
            Structure::Text { offsets, .. }
            | Structure::List { offsets, .. }
            | Structure::Option { offsets, .. }
            | Structure::Sizes { offsets, .. }
            | Structure::Streamed { offsets, .. } => offsets,
            // Their parts are joined.
            Structure::Fixed { .. } | Structure::Record { .. } => return Ok(spans),
        };
        let mut joined: Vec<Span> = Vec::new();
        let mut before = None;
        for span in spans.iter() {
            let mut column = self.column_not_stored(stored, span.cluster)?;
            if column.is_some() && self.items_extent(structure, span.cluster)?.is_some_and(|(_, n)| n > 0) {
                column = None;
            }
            let last = joined.last_mut().filter(|_| column.is_some() && column == before);
            let ends = last.and_then(|last| {
                let (to, total) = (last.total?, span.total?);
                let ends = (to.checked_add(span.to)?, to.checked_add(total)?);
                (last.to == to && span.from == 0).then_some((last, ends))
            });
            match ends {
                Some((last, (to, total))) => (last.to, last.total) = (to, Some(total)),
                None => joined.try_push(*span)?,
            }
            before = column;
        }
        Ok(if joined.len() < spans.len() { Arc::new(joined) } else { spans })
    }

    fn expand(&mut self, structure: &Arc<Structure>, spans: Spans, lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        match &**structure {
            Structure::Number { stored, number } => {
                lanes.push(self.lane(stored, Wanted::Numbers(*number), &spans)?);
            }
            Structure::Fixed { size, item } => {
                let size = *size as u64;
                let times = |n: u64| n.checked_mul(size);
                let grow = |span: &Span| {
                    let (from, to) = times(span.from).zip(times(span.to))?;
                    Some(Span { from, to, total: span.total.and_then(times), ..*span })
                };
                let spans = spans.iter().map(grow).collect::<Option<Vec<_>>>();
                let spans = spans.ok_or_else(|| {
                    Error::limit(format!("arrays of {size} items are too large for memory"))
                })?;
                self.next.push((item.clone(), Arc::new(spans)));
            }
            Structure::Record { fields, .. } => {
                self.next.extend(fields.iter().map(|(_, field)| (field.clone(), spans.clone())));
            }
            Structure::Variant { switch, .. } => {
                lanes.push(self.lane(switch, Wanted::Switch, &spans)?);
                self.waiting.push(Waiting { structure: structure.clone(), spans, read: Read::Switch });
            }
            Structure::Text { offsets, .. }
            | Structure::List { offsets, .. }
            | Structure::Option { offsets, .. }
            | Structure::Sizes { offsets, .. }
            | Structure::Streamed { offsets, .. } => {
                if let Some(bases) = self.bases(structure, &spans)? {
                    return self.lists(structure, offsets, spans, bases, lanes);
                }
                let last: Vec<Span> =
                    spans.iter().map(|span| Span { from: span.to.max(1) - 1, ..*span }).collect();
                let stored = Stored { slot: offsets.slot | LAST_ENDS, ..offsets.clone() };
                lanes.push(self.lane(&stored, Wanted::Numbers(Number::I64), &last)?);
                self.waiting.push(Waiting { structure: structure.clone(), spans, read: Read::LastEnds });
            }
        }
        Ok(())
    }

    fn lists(
        &mut self,
        structure: &Arc<Structure>,
        offsets: &Stored,
        spans: Spans,
        bases: Vec<u64>,
        lanes: &mut Vec<Lane<'a>>,
    ) -> Result<()> {
        lanes.push(self.ends(offsets, &spans, &bases)?);
        if !matches!(&**structure, Structure::Sizes { .. }) {
            let structure = structure.clone();
            self.waiting.push(Waiting { structure, spans, read: Read::Ends(bases) });
        }
        Ok(())
    }

    /// Plans the parts of a structure, given its values.
    fn go_on(&mut self, waiting: Waiting, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        let Waiting { structure, spans, read: of } = waiting;
        match (&*structure, of) {
            (Structure::Variant { switch, items }, Read::Switch) => {
                let bytes = read.direct(switch.slot).ok_or_else(unread)?;
                let parts = self.variants(&spans, bytes, items.len())?;
                self.next.extend(items.iter().cloned().zip(parts.into_iter().map(Arc::new)));
            }
            (
                Structure::Text { offsets, .. }
                | Structure::List { offsets, .. }
                | Structure::Option { offsets, .. }
                | Structure::Sizes { offsets, .. }
                | Structure::Streamed { offsets, .. },
                Read::LastEnds,
            ) => {
                let last = read.direct(offsets.slot | LAST_ENDS).ok_or_else(unread)?;
                let mut last = words(last);
                let mut base = 0u64;
                let mut bases = Vec::with_capacity(spans.len());
                for span in spans.iter() {
                    bases.push(base);
                    let end = if span.to > 0 { last.next().ok_or_else(unread)? } else { 0 };
                    base = base.saturating_add(end);
                }
                if bases.last().is_some_and(|&base| base >> 62 != 0) {
                    return Err(Error::corrupt("the end of a list is too large"));
                }
                let offsets = offsets.clone();
                self.lists(&structure, &offsets, spans, bases, lanes)?;
            }
            (Structure::List { offsets, item } | Structure::Option { offsets, item }, Read::Ends(bases)) => {
                let spans = self.items(offsets, &spans, &bases, read)?;
                self.next.push((item.clone(), Arc::new(spans)));
            }
            (
                Structure::Text { offsets, chars: bytes } | Structure::Streamed { offsets, bytes, .. },
                Read::Ends(bases),
            ) => {
                let spans = self.items(offsets, &spans, &bases, read)?;
                lanes.push(self.lane(bytes, Wanted::Bytes, &spans)?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the spans of the items of lists, given their ends.
    fn items(
        &self,
        offsets: &Stored,
        spans: &[Span],
        bases: &[u64],
        read: &dyn LaneValues,
    ) -> Result<Vec<Span>> {
        let ends = read.ends(offsets.slot).ok_or_else(unread)?;
        let words = ends.bytes.as_chunks().0;
        let word = |list: u64| Some(u64::from_ne_bytes(*words.get(usize::try_from(list).ok()?)?));
        let start = word(0).ok_or_else(unread)?;
        let mut items = Vec::with_capacity(spans.len());
        let mut lists = 0u64;
        for (i, (span, &base)) in spans.iter().zip(bases).enumerate() {
            lists += span.to - span.from;
            let end = word(lists).and_then(|end| ends.items.0.checked_add(end.checked_sub(start)?));
            let end = end.ok_or_else(unread)?;
            let from = if i == 0 { ends.items.0.checked_sub(base).ok_or_else(unread)? } else { 0 };
            let to = end.checked_sub(base).ok_or_else(|| self.wrong(span, "ends of lists do not rise"))?;
            if bases.get(i + 1).is_some_and(|&next| next != end) {
                return Err(self.wrong(span, "the lists do not cover all items"));
            }
            let total = (span.total == Some(span.to)).then_some(to);
            items.push(Span { cluster: span.cluster, from, to, total });
        }
        Ok(items)
    }

    /// Returns the spans of the values of each variant type.
    fn variants(&self, spans: &[Span], bytes: &[u8], types: usize) -> Result<Vec<Vec<Span>>> {
        let mut parts = vec![Vec::new(); types];
        let mut elements = encoding::switch(bytes);
        for (i, span) in spans.iter().enumerate() {
            let mut ranges: Vec<Option<(u64, u64)>> = vec![None; types];
            for (index, tag) in elements.by_ref().take((span.to - span.from) as usize) {
                let Some(tag) = (tag as usize).checked_sub(1) else { continue };
                let Some(range) = ranges.get_mut(tag) else {
                    return Err(self.wrong(span, format!("type {} of a variant of {types}", tag + 1)));
                };
                let (_, end) = range.get_or_insert((index, index));
                if *end != index {
                    return Err(self.wrong(span, format!("value {index} of a variant where {end} is next")));
                }
                *end = index.checked_add(1).ok_or_else(unread)?;
            }
            for (part, range) in parts.iter_mut().zip(ranges) {
                let Some((from, to)) = range else { continue };
                if from > 0 && (i > 0 || span.from == 0) {
                    return Err(self.wrong(span, "the first values of a variant's type are skipped"));
                }
                let total = (span.total == Some(span.to)).then_some(to);
                part.push(Span { cluster: span.cluster, from, to, total });
            }
        }
        Ok(parts)
    }

    fn wrong(&self, span: &Span, what: impl Into<String>) -> Error {
        Error::corrupt(what).within(self.cluster_place(span.cluster))
    }

    fn cluster_place(&self, cluster: usize) -> String {
        let number = self.clusters.get(cluster).map_or(0, |cluster| cluster.number);
        format!("cluster {number} of {}", self.ntuple.place())
    }

    /// Returns the offset to add to the ends of lists in each span: the number of items in the clusters before. Returns
    /// `None` if no column of the items has their number.
    fn bases(&self, structure: &Structure, spans: &[Span]) -> Result<Option<Vec<u64>>> {
        let mut bases = Vec::with_capacity(spans.len());
        let mut next = None;
        for span in spans {
            let offsets = match structure {
                Structure::Text { offsets, .. }
                | Structure::Streamed { offsets, .. }
                | Structure::List { offsets, .. }
                | Structure::Option { offsets, .. }
                | Structure::Sizes { offsets, item: Some(_), .. } => Some(offsets),
                _ => None,
            };
            let extent = self.items_extent(structure, span.cluster)?;
            // Nothing holds the number of items that were added later, unless their lists were added with them.
            let late = extent.is_none()
                && offsets
                    .is_some_and(|one| matches!(self.column_not_stored(one, span.cluster), Ok(Some(_))));
            let extent = if late { Some((0, 0)) } else { extent };
            if extent.is_none() && spans.len() > 1 {
                return Ok(None);
            }
            let (first, count) = extent.unwrap_or_default();
            let base: u64 = next.unwrap_or(first);
            bases.push(base);
            next = Some(base.saturating_add(count));
            if base >> 62 != 0 {
                return Err(self.wrong(span, format!("its items are counted from {base} on")));
            }
        }
        Ok(Some(bases))
    }

    /// Returns the extent of the items of a list in a cluster, as far as their columns tell.
    fn items_extent(&self, structure: &Structure, cluster: usize) -> Result<Option<(u64, u64)>> {
        match structure {
            Structure::Text { chars: bytes, .. } | Structure::Streamed { bytes, .. } => {
                self.extent_of(bytes, cluster)
            }
            Structure::List { item, .. }
            | Structure::Option { item, .. }
            | Structure::Sizes { item: Some(item), .. } => self.extent(item, cluster),
            _ => Ok(None),
        }
    }

    /// Returns the first item and the number of items of a structure in a cluster, as far as its columns tell.
    fn extent(&self, structure: &Structure, cluster: usize) -> Result<Option<(u64, u64)>> {
        Ok(match structure {
            Structure::Number { stored, .. } => self.extent_of(stored, cluster)?,
            Structure::Text { offsets, .. }
            | Structure::List { offsets, .. }
            | Structure::Option { offsets, .. }
            | Structure::Sizes { offsets, .. }
            | Structure::Streamed { offsets, .. } => self.extent_of(offsets, cluster)?,
            Structure::Variant { switch, .. } => self.extent_of(switch, cluster)?,
            Structure::Fixed { size, item } => {
                let size = *size as u64;
                self.extent(item, cluster)?
                    .and_then(|(first, count)| Some((first.checked_div(size)?, count.checked_div(size)?)))
            }
            Structure::Record { fields, .. } => {
                for (_, field) in fields {
                    if let Some(extent) = self.extent(field, cluster)? {
                        return Ok(Some(extent));
                    }
                }
                None
            }
        })
    }

    fn extent_of(&self, stored: &Stored, cluster: usize) -> Result<Option<(u64, u64)>> {
        let Some(pages) = self.clusters.get(cluster) else { return Ok(None) };
        let id = self.representation(stored, cluster)?;
        let range = pages.cluster().and_then(|cluster| cluster.columns.get(id));
        Ok(range.map(|range| (range.first_element, pages.list().elements(range))))
    }

    /// Returns the column that represents a field in a cluster, if the cluster was written before the column was added.
    fn column_not_stored(&self, stored: &Stored, cluster: usize) -> Result<Option<usize>> {
        let id = self.representation(stored, cluster)?;
        let pages = self.clusters.get(cluster);
        let there = pages.and_then(ClusterPages::cluster).is_some_and(|cluster| cluster.columns.len() > id);
        Ok((!there).then_some(id))
    }

    /// Returns the ID of the column that represents a field in a cluster.
    fn representation(&self, stored: &Stored, cluster: usize) -> Result<usize> {
        let of = self.clusters.get(cluster).and_then(ClusterPages::cluster);
        if let Some(id) = of.and_then(|of| of.representation(&stored.choices)) {
            return Ok(id);
        }
        // The field was added later: the first representation is all zeros here. A cluster has all columns of the header.
        let columns = of.map_or(0, |of| of.columns.len());
        let header_columns = self.ntuple.schema.header_columns;
        let added = |&&id: &&usize| {
            let column = self.column(id).filter(|column| id >= header_columns || column.is_deferred());
            id >= columns && column.is_some_and(|column| !column.starts_suppressed)
        };
        stored.choices.iter().find(added).copied().ok_or_else(|| {
            let some = stored.choices.get(..SHOWN).unwrap_or(&stored.choices);
            let more = stored.choices.len() - some.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            Error::corrupt(format!("columns {some:?}{more} of the field are all suppressed or missing"))
                .within(self.cluster_place(cluster))
        })
    }

    /// Returns the column that represents a field in a cluster.
    fn choose(&self, stored: &Stored, cluster: usize) -> Result<Chosen> {
        let id = self.representation(stored, cluster)?;
        let pages = self.clusters.get(cluster);
        let column = self.column(id).ok_or_else(|| Error::corrupt(format!("no column {id}")))?;
        let entries =
            pages.and_then(ClusterPages::cluster).map_or((0, 0), |one| (one.first_entry, one.entries));
        let end = entries.0.saturating_add(entries.1).saturating_mul(stored.each);
        let range = pages.and_then(ClusterPages::cluster).and_then(|cluster| cluster.columns.get(id));
        let first_stored = range.map(|range| range.first_element);
        Ok(Chosen {
            id,
            encoding: column.encoding.clone()?,
            unstored: self.ntuple.schema.unstored(id, entries.0, first_stored),
            end: (stored.each > 0 && first_stored.is_some()).then_some(end),
        })
    }

    fn column(&self, id: usize) -> Option<&super::schema::Column> {
        self.ntuple.schema.columns.get(id)
    }

    /// Returns a lane of the elements of a column.
    fn lane(&self, stored: &Stored, wanted: Wanted, spans: &[Span]) -> Result<Lane<'a>> {
        let mut pages = grow::with_room(spans.len())?;
        let mut chosen = grow::with_room(spans.len())?;
        for span in spans {
            let column = self.choose(stored, span.cluster)?;
            self.pages(&column, span, span.from, &mut pages)?;
            chosen.extend(self.stored_in(column, span, 0));
        }
        let (number, each) = wanted.numbers();
        let items: u64 = pages.iter().map(|page| page.wanted() as u64).sum();
        let bits = chosen.first().map_or(8 * number.size() * each, |c| c.encoding.bits() as usize);
        Ok(Lane {
            slot: stored.slot,
            column: stored.choices.first().copied().unwrap_or_default(),
            target: Target::Direct { number, each, items, bits },
            bytes: items.saturating_mul(bits as u64) / 8,
            pages,
            decoder: Box::new(ColumnDecoder { chosen, wanted }),
            shared: stored.choices.iter().any(|id| self.ntuple.aliased.contains(id)),
            counter: None,
        })
    }

    /// Returns a lane of the ends of lists.
    fn ends(&self, stored: &Stored, spans: &[Span], bases: &[u64]) -> Result<Lane<'a>> {
        let mut pages = grow::with_room(spans.len() + 1)?;
        let mut chosen = grow::with_room(spans.len())?;
        let mut lists = 0;
        let first = spans.first().copied();
        if first.is_none_or(|span| span.from == 0) {
            // The first list starts where the cluster starts.
            let cluster = first.and_then(|span| self.clusters.get(span.cluster)).map_or(0, |c| c.number);
            pages.push(absent(cluster, 1, 0, 1));
        }
        for (i, (span, &base)) in spans.iter().zip(bases).enumerate() {
            let column = self.choose(stored, span.cluster)?;
            if i > 0 && span.from > 0 {
                return Err(self.wrong(span, "the first lists are skipped"));
            }
            lists += span.to - span.from;
            self.pages(&column, span, span.from.saturating_sub(1), &mut pages)?;
            chosen.extend(self.stored_in(column, span, base));
        }
        let bits = chosen.first().map_or(64, |c| c.encoding.bits() as usize);
        Ok(Lane {
            slot: stored.slot,
            column: stored.choices.first().copied().unwrap_or_default(),
            target: Target::Ends { lists, bits },
            bytes: lists.saturating_mul(bits as u64) / 8,
            pages,
            decoder: Box::new(ColumnDecoder { chosen, wanted: Wanted::Ends }),
            shared: true,
            counter: None,
        })
    }

    fn stored_in(&self, column: Chosen, span: &Span, base: u64) -> Option<StoredIn> {
        let cluster = self.clusters.get(span.cluster)?.clone();
        Some(StoredIn { number: cluster.number, cluster, column: column.id, encoding: column.encoding, base })
    }

    /// Adds the pages of a column that hold elements of a span, from `from` on.
    fn pages(&self, column: &Chosen, span: &Span, from: u64, to: &mut Vec<PageWanted>) -> Result<()> {
        let Some(cluster) = self.clusters.get(span.cluster) else { return Ok(()) };
        let range = column.range(cluster);
        let stored = range.map_or(&[][..], |range| cluster.list().pages(range));
        let there = stored.last().map_or(0, |page| page.end);
        if from >= span.to {
            return Ok(());
        }
        // Elements from before the column was added are zero.
        let missing = match span.total {
            Some(total) if column.unstored > 0 => total.saturating_sub(there),
            None if column.unstored > 0 && there == 0 => span.to,
            _ => 0,
        };
        if span.to > there.saturating_add(missing) || missing > column.unstored {
            return Err(self.wrong(
                span,
                format!("column {} has {there} elements where {} are expected", column.id, span.to),
            ));
        }
        let first_element = range.map_or(0, |range| range.first_element);
        let found = first_element.saturating_add(there);
        if let Some(end) = column.end.filter(|&end| end != found) {
            return Err(self.wrong(span, format!("column {} ends at element {found}, not {end}", column.id)));
        }
        if from < missing {
            let zeros = usize::try_from(missing)
                .map_err(|_| Error::limit(format!("{missing} missing values are too many for memory")))?;
            if missing > MOST_ZEROS.saturating_mul(self.ntuple.file.source().size()) {
                return Err(Error::limit(format!("{missing} elements that are not stored"))
                    .within(self.cluster_place(span.cluster)));
            }
            to.push(absent(cluster.number, zeros, from as usize, span.to.min(missing) as usize));
        }
        let (from, end) = (from.saturating_sub(missing), span.to.saturating_sub(missing));
        let mut number = stored.partition_point(|page| page.end <= from);
        let mut start =
            number.checked_sub(1).and_then(|before| stored.get(before)).map_or(0, |page| page.end);
        while let Some(page) = stored.get(number).filter(|_| start < end) {
            let range = match (page.range(), page.locator) {
                (Some(range), _) => range,
                (None, Locator::Elsewhere(kind)) => {
                    return Err(Locator::unreadable(kind).within(self.cluster_place(span.cluster)));
                }
                (None, Locator::File { .. }) => break,
            };
            to.try_push(PageWanted {
                number: cluster.number << NUMBER_BITS | number,
                first: first_element.saturating_add(start),
                items: (page.end - start) as usize,
                from: (from.max(start) - start) as usize,
                to: (end.min(page.end) - start) as usize,
                place: PagePlace::Stored(range),
            })?;
            start = page.end;
            number += 1;
        }
        Ok(())
    }
}

/// Maximum number of unstored zero elements for each byte of the file.
const MOST_ZEROS: u64 = 1 << 15;
/// Maximum number of columns that an error names.
const SHOWN: usize = 8;
/// Bit of a slot number that marks the last ends of lists.
const LAST_ENDS: usize = 1 << 30;

/// Returns a page of zeros.
fn absent(cluster: usize, items: usize, from: usize, to: usize) -> PageWanted {
    let number = cluster << NUMBER_BITS | NOT_STORED;
    PageWanted { number, first: 0, items, from, to, place: PagePlace::Absent }
}

/// The column that represents a field in a cluster.
#[derive(Clone, Copy)]
struct Chosen {
    id: usize,
    encoding: Encoding,
    /// The largest number of elements that may be missing at the start. These are zero.
    unstored: u64,
    /// One past the last element of the cluster, if the number of its entries tells it.
    end: Option<u64>,
}

impl Chosen {
    fn range<'c>(&self, pages: &'c ClusterPages) -> Option<&'c ColumnRange> {
        pages.cluster()?.columns.get(self.id)
    }
}
