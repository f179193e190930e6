//! What any table of entries is: its schema, its clusters, its pages.
//!
//! A storage format implements three traits, and the engine ([`crate::read`]) does the rest. It never asks which format it
//! is.
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
//!   in another. Parts (files) that are joined have lanes of the same slots, and share the target of each slot.
//! * [`Target::Direct`] and [`Target::Ends`] know how many items come: these are decoded to their place, by any thread
//!   in any order. [`Target::Built`] takes values of any type, in order.
//! * A list is a lane of ends and, one stage later, a lane of its items from the first list's start to the last one's
//!   end: a field of n levels of lists has n + 1 stages. The engine runs a stage for all fields of all parts together.
//! * A page may lie in the file, be in memory already, or be nowhere: then [`PageDecoder::fill`] writes its items.
//! * Where whole clusters are read, a format may know all items beforehand, and ask for them in stage 0.
//!
//! Which page belongs to which cluster matters to the announcements and reports alone: [`Table::pages`] lists what
//! entries may need, without reading anything.

mod field;
mod kept;
mod page;
pub mod writer;

pub use field::{Ends, FieldInfo, FieldPlan, FieldReader, Lane, LaneValues, Target};
pub use kept::{Kept, PageCache, Tail};
pub use page::{
    Output, Page, PageDecoder, PageListed, PagePlace, PageSlice, PageWanted, PartsLeftOut, Unpacked,
};

pub use crate::streamer::compile::Hidden;

use crate::error::Result;
use sapwood_io::{Range, Source};
use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

/// The places and names of all fields at the top; nothing where one cannot be read or two have one name, or with `parts`
/// one has parts.
pub fn whole(table: &dyn Table, parts: bool) -> Option<(Vec<usize>, Vec<&str>)> {
    let mut places = Vec::with_capacity(table.num_fields());
    let mut names = Vec::with_capacity(table.num_fields());
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
    let mut seen = HashSet::with_capacity(names.len());
    names.iter().all(|name| seen.insert(*name)).then_some((places, names))
}

/// A table of entries, opened for reading.
///
/// Fields are numbered depth first, a parent before its children. Stored columns have numbers of their own, which may be
/// those of their fields.
pub trait Table: Any + Send + Sync {
    /// Name.
    fn name(&self) -> &str;
    /// Title or description.
    fn title(&self) -> &str;
    /// Class of the object in the file.
    fn classname(&self) -> &str;
    /// Entries.
    fn entries(&self) -> u64;
    /// Names for expressions.
    fn aliases(&self) -> &[(String, String)] {
        &[]
    }

    /// Number of fields.
    fn num_fields(&self) -> usize;
    /// What a field is called, and its size.
    fn field(&self, field: usize) -> Option<FieldInfo<'_>>;
    /// Bytes of all pages of a field, before and after compression.
    fn field_bytes(&self, field: usize) -> (u64, u64);
    /// Names from the top field down, joined as the format joins them.
    fn path(&self, field: usize) -> String;
    /// A field compiled for reading, by the table at first use. One that cannot be read is no error here: its type
    /// says why. Objects of `hidden` classes are passed over.
    fn reader(&self, field: usize, hidden: &Hidden) -> Result<Arc<dyn FieldReader>>;

    /// Members of a field that are left out, and why: those that its description tells, and those that readings so far
    /// have found.
    fn left_out(&self, field: usize) -> Result<Vec<String>> {
        Ok(self.reader(field, &Hidden::new())?.left_out().to_vec())
    }

    /// Entries at which clusters start, and the end.
    fn cluster_borders(&self) -> Vec<u64>;
    /// Adds the pages in the file that entries `start` to `stop` of a field need, or may need where only values tell; with
    /// those that must be read to read these.
    fn pages(&self, field: usize, start: u64, stop: u64, to: &mut Vec<PageListed>);
    /// Entries in the pages that must be decompressed for entries `start` to `stop` of a field.
    fn entries_touched(&self, field: usize, start: u64, stop: u64) -> u64;
    /// Where a page of a stored column lies in the file, if it does.
    fn page_range(&self, column: usize, page: usize) -> Option<Range>;
    /// ROOT's number of the codec of a page whose record starts with `head`; 0 for none.
    fn codec(&self, column: usize, page: usize, head: &[u8]) -> Option<u32>;
    /// The entry of a field with most bytes among the first pages whose entries differ in length, if they do.
    fn longest_entry(&self, field: usize) -> Result<Option<u64>>;

    /// Whether fields of the other table have the same names, types and places, so that the readers of this one
    /// decode them, too.
    fn same_shape(&self, other: &dyn Table) -> bool;
    /// Bytes before compression of some fields between two entries, in proportion.
    fn bytes_between(&self, fields: &[usize], start: u64, stop: u64) -> f64 {
        let share = |&index: &usize| {
            let field = self.field(index)?;
            let entries = stop.min(field.entries).saturating_sub(start);
            let (total, _) = self.field_bytes(index);
            (field.entries > 0).then(|| total as f64 * entries as f64 / field.entries as f64)
        };
        fields.iter().filter_map(share).sum()
    }

    /// The storage.
    fn source(&self) -> &Arc<dyn Source>;
    /// Verifies that the file is still the one that was opened.
    fn verify(&self) -> Result<()>;
    /// Its pages in the page cache.
    fn page_cache(&self) -> &PageCache;

    /// A field's place, for errors.
    fn place(&self, field: usize) -> String;
    /// A page's place, for errors.
    fn page_place(&self, column: usize, page: &PageWanted) -> String;
    /// What a stored column is called, for a trace.
    fn column_name(&self, column: usize) -> String;
}
