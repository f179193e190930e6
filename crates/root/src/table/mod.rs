//! The common interface of all tables of entries: schema, clusters and pages.
//!
//! A storage format implements three traits, and the engine ([`crate::read`]) does the rest. The engine is independent
//! of the format.
//!
//! ```text
//!   Table ──────────── reader(field) ───▶ FieldReader          compiled once, kept by the table
//!   schema, clusters,                       │ plan(start, stop)      for each part of a reading
//!   listing of pages                        ▼
//!                                        FieldPlan             pure data: no I/O
//!                                           │ stage(values so far)
//!                                           ▼
//!        stage 0:  Lane  Lane  Lane …    pages known from the description
//!                    │ pages, decoder, target
//!                    ▼
//!        engine:   ranges → few large requests → unpack ─▶ decode ─▶ target     (PageDecoder, on all threads)
//!                    │
//!        stage 1:  Lane  Lane …          pages known by the counts or offsets of stage 0
//!                    ⋮
//!        check, then FieldReader::finish: the targets of all parts become one Column
//! ```
//!
//! * A **lane** is a stored column on its way to one **target**. Its pages hold items: entries in one format, elements
//!   in another. Joined parts (files) have lanes with the same slots, and share the target of each slot.
//! * [`Target::Direct`] and [`Target::Ends`] know the number of items beforehand. Any thread decodes any page directly
//!   to its place, in any order. [`Target::Built`] takes values of any type, in order.
//! * A list is a lane of ends and, one stage later, a lane of its items, from the first list's start to the last list's
//!   end. A field with n levels of lists has n + 1 stages. The engine runs each stage for all fields of all parts
//!   together.
//! * A page is in the file, in memory, or absent. [`PageDecoder::fill`] writes the items of an absent page.
//! * For whole clusters, a format may know all items beforehand and request them in stage 0.
//!
//! Only announcements and reports need to know the cluster of a page. [`Table::pages`] lists the pages that entries may
//! need, without I/O.

mod arena;
mod field;
mod identity;
mod kept;
mod page;
pub mod writer;

pub use field::{Ends, FieldInfo, FieldPlan, FieldReader, Lane, LaneValues, ListOffsets, Target};
pub use identity::{content_hash, count_pages, known_hash, places_hash};
pub use kept::{Kept, PageCache, Tail, set_most_cached};
pub use page::{
    Page, PageDecoder, PageListed, PageOutput, PagePlace, PageSlice, PageWanted, PartsLeftOut, Unpacked,
};

pub use crate::streamer::compile::Hidden;

use crate::error::{Error, Result};
use crate::wire::grow;
use sapwood_io::{Range, Source};
use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

/// Returns the indices and names of all top-level fields. Returns nothing if one of them cannot be read or two have the
/// same name or, with `parts`, if one has parts.
pub fn whole(table: &dyn Table, parts: bool) -> Option<(Vec<usize>, Vec<&str>)> {
    let mut places = grow::with_room(table.num_fields()).ok()?;
    let mut names = grow::with_room(table.num_fields()).ok()?;
    let hidden = Hidden::new();
    for place in 0..table.num_fields() {
        let field = table.field(place)?;
        if field.parent.is_some() {
            continue;
        }
        if parts && !field.children.is_empty() {
            return None;
        }
        let reader = table.reader(place, &hidden).ok()?;
        if reader.of().is_err() || reader.is_group() {
            return None;
        }
        places.push(place);
        names.push(field.name);
    }
    let mut seen = HashSet::new();
    seen.try_reserve(names.len()).ok()?;
    names.iter().all(|name| seen.insert(*name)).then_some((places, names))
}

/// Returns a table as that of one format.
pub fn of_format<T: Table>(table: &dyn Table) -> Result<&T> {
    let any: &dyn Any = table;
    any.downcast_ref().ok_or_else(|| Error::argument("the field belongs to a table of another format"))
}

/// A table of entries, opened for reading.
///
/// Fields are numbered depth first, a parent before its children. Stored columns have their own numbers, which may
/// equal those of their fields.
pub trait Table: Any + Send + Sync {
    /// Name.
    fn name(&self) -> &str;
    /// Title or description.
    fn title(&self) -> &str;
    /// Class of the object in the file.
    fn classname(&self) -> &str;
    /// Number of entries.
    fn entries(&self) -> u64;
    /// Aliases, for use in expressions.
    fn aliases(&self) -> &[(String, String)] {
        &[]
    }

    /// Number of fields.
    fn num_fields(&self) -> usize;
    /// Information about a field.
    fn field(&self, field: usize) -> Option<FieldInfo<'_>>;
    /// Size of all pages of a field in bytes, before and after compression.
    fn field_bytes(&self, field: usize) -> (u64, u64);
    /// Names from the top field down, joined as in the format.
    fn path(&self, field: usize) -> String;
    /// Returns the field compiled for reading; it is compiled at first use. A field that cannot be read is not an error
    /// here: the type of its reader holds the reason. Objects of `hidden` classes are skipped.
    fn reader(&self, field: usize, hidden: &Hidden) -> Result<Arc<dyn FieldReader>>;

    /// Returns the members of a field that are left out, with the reasons: those known from its description and those
    /// found by reads so far.
    fn left_out(&self, field: usize) -> Result<Vec<String>> {
        Ok(self.reader(field, &Hidden::new())?.left_out().to_vec())
    }

    /// Returns the first entry of each cluster, then the end.
    fn cluster_borders(&self) -> Vec<u64>;
    /// Adds the pages in the file that entries `start` to `stop` of a field need, and the pages needed to read those.
    /// Where this depends on values, adds all pages that they may need.
    fn pages(&self, field: usize, start: u64, stop: u64, to: &mut Vec<PageListed>);
    /// Returns the stored columns of a field, if they and its type determine its values and other fields show them, too.
    fn shared_columns(&self, _field: usize) -> Option<Vec<usize>> {
        None
    }
    /// Calls `take` with the bytes of each page of a field that is in memory.
    fn in_memory(&self, _field: usize, _take: &mut dyn FnMut(&[u8])) {}
    /// Describes how the values of a field are stored, as far as its pages do not tell: two fields with the same
    /// description and the same bytes have the same values.
    fn description(&self, field: usize) -> String {
        self.field(field).map_or("", |field| field.title).to_owned()
    }
    /// Number of entries in the pages that must be decompressed for entries `start` to `stop` of a field.
    fn entries_touched(&self, field: usize, start: u64, stop: u64) -> u64;
    /// Byte range of a page of a stored column, if the page is in the file.
    fn page_range(&self, column: usize, page: usize) -> Option<Range>;
    /// ROOT's codec number of a page whose record starts with `head`; 0 if it is not compressed.
    fn codec(&self, column: usize, page: usize, head: &[u8]) -> Option<u32>;
    /// Returns the entry of a field with the most bytes in the first pages whose entries differ in length, if there are
    /// such pages.
    fn longest_entry(&self, field: usize) -> Result<Option<u64>>;

    /// Whether the fields of the other table have the same names, types and indices; the readers of this table can then
    /// decode them.
    fn same_shape(&self, other: &dyn Table) -> bool;
    /// Estimated uncompressed bytes of some fields between two entries, in proportion to the entries.
    fn bytes_between(&self, fields: &[usize], start: u64, stop: u64) -> f64 {
        self.bytes_in(fields, &[(start, stop)]).first().copied().unwrap_or_default()
    }
    /// The same for each of several ranges of entries.
    fn bytes_in(&self, fields: &[usize], ranges: &[(u64, u64)]) -> Vec<f64> {
        let fields = fields.iter().filter_map(|&index| {
            let field = self.field(index).filter(|field| field.entries > 0)?;
            Some((self.field_bytes(index).0 as f64, field.entries))
        });
        let fields: Vec<_> = fields.collect();
        let between = |&(start, stop): &(u64, u64)| {
            let share = |&(total, entries): &(f64, u64)| {
                total * stop.min(entries).saturating_sub(start) as f64 / entries as f64
            };
            fields.iter().map(share).sum()
        };
        ranges.iter().map(between).collect()
    }

    /// The storage.
    fn source(&self) -> &Arc<dyn Source>;
    /// Verifies that the file has not changed since it was opened.
    fn verify(&self) -> Result<()>;
    /// The cached pages of this table.
    fn page_cache(&self) -> &PageCache;
    /// The column that identifies the pages of a stored column in the page cache; one for all that decode the same
    /// pages in the same form.
    fn cached_column(&self, column: usize) -> usize {
        column
    }

    /// Describes the location of a field for errors.
    fn place(&self, field: usize) -> String;
    /// Describes the location of a page for errors.
    fn page_place(&self, column: usize, page: &PageWanted) -> String;
    /// Name of a stored column, for traces.
    fn column_name(&self, column: usize) -> String;
}
