//! Reading tables: stages of pages, few large requests, decompression and decoding in parallel.
//!
//! ```text
//!   parts (table, fields, entries) ──▶ stages ──▶ run ──▶ … next stage … ──▶ columns
//!                                       │          │
//!                                       │          └ chunks of pages in file order; a thread takes one, fetches it
//!                                       │            by coalesced requests, unpacks and decodes page after page
//!                                       └ pure data: which pages are wanted now ([`crate::table`])
//! ```
//!
//! Pages are taken in file order, in chunks that fit a thread's share of the caches. Values whose number is known go
//! straight to their final place, others are appended in order.
//!
//! What cannot be decoded is a matter of the reading alone: [`read_with`] hides classes from its own compiled readers,
//! and the table that others share stays as it is.

mod ahead;
mod carry;
mod codecs;
mod run;
mod stages;
mod target;
#[cfg(test)]
mod tests;
mod turns;

pub use ahead::{PagePlanned, planned};
pub use carry::Carry;
pub use codecs::codecs;

use crate::array::Column;
use crate::error::{Error, Result};
use crate::table::{FieldReader, Hidden, PageCache, Table};
use rayon::ThreadPool;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Entries `start` to `stop` of some fields of a table.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The table.
    pub table: &'a dyn Table,
    /// Fields, one for each column.
    pub fields: &'a [usize],
    /// First entry.
    pub start: u64,
    /// One past the last entry.
    pub stop: u64,
}

/// Reads the same columns from each part and joins them in order.
///
/// `pool` decompresses and decodes; remote storage is waited for outside of it, so this must not be called on one of its
/// threads. The memory beside the result is for each thread one chunk of pages and one decompressed page, and what other
/// threads have decoded of a column before it was their turn.
pub fn read(pool: &ThreadPool, parts: &[Part<'_>]) -> Result<Vec<Column>> {
    read_with(pool, parts, None, None)
}

/// As [`read`], as a step or with parts of values left out.
///
/// `carry`: the single part follows another. What is left of a page that reaches beyond the part's end goes to it, and
/// what the part before has left there is used.
///
/// `left_out`: members that cannot be decoded, only passed over, are left out and noted there. Which classes cannot be
/// decoded shows when they are: then the fields are compiled without them, and read again.
pub fn read_with(
    pool: &ThreadPool,
    parts: &[Part<'_>],
    carry: Option<&Carry>,
    left_out: Option<&LeftOut>,
) -> Result<Vec<Column>> {
    let ahead = carry.is_none_or(|carry| !carry.announced());
    // Parts without entries add nothing; one of them stands for all if there are no others.
    let filled: Vec<Part<'_>> = parts.iter().copied().filter(|part| part.start < part.stop).collect();
    let parts = if filled.is_empty() { parts.get(..1).unwrap_or_default() } else { &filled };
    let keeps = Keeps::of(parts, carry);
    let reading = Reading { pool, parts, ahead, keeps, left_out, budget: Budget::of(parts) };
    if left_out.is_none() {
        return reading.columns(&Hidden::new());
    }
    let mut hidden = carry.map(|carry| carry.hidden().clone()).unwrap_or_default();
    let mut errors: Vec<Error> = Vec::new();
    loop {
        let error = match reading.columns(&hidden) {
            Ok(columns) => {
                if let Some(carry) = carry {
                    *carry.hidden() = hidden;
                }
                return Ok(columns);
            }
            Err(error) => error,
        };
        let new = error.class().filter(|class| !hidden.contains_key(*class));
        let new = new.map(|class| (class.to_owned(), error.message().into()));
        errors.push(error);
        let Some((class, why)) = new else { break };
        hidden.insert(class, why);
    }
    // What was first found in the column that nothing helps says most of its place.
    let last = errors.last().cloned().unwrap_or_else(|| Error::corrupt("nothing could be read"));
    let alike = |error: &Error| error.column() == last.column() && error.kind() == last.kind();
    Err(errors.into_iter().find(alike).unwrap_or(last))
}

/// What was left out of the columns that were read.
#[derive(Default)]
pub struct LeftOut {
    found: Mutex<BTreeMap<(usize, String), Error>>,
}

impl LeftOut {
    fn add(&self, column: usize, what: String, error: Error) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.entry((column, what)).or_insert(error);
    }
    /// Each class or member, with the place of the first in its column.
    pub fn into_errors(self) -> Vec<Error> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }
}

/// What becomes of decompressed pages of which only some items are wanted.
#[derive(Clone, Copy)]
enum Keeps<'a> {
    /// They are forgotten.
    Nothing,
    /// What is left of them is for the next step.
    Steps(&'a Carry),
    /// The page cache has them, and gives them to the reading of this number.
    Cache(u64),
}

impl<'a> Keeps<'a> {
    fn of(parts: &[Part<'_>], carry: Option<&'a Carry>) -> Self {
        match carry {
            Some(carry) => Self::Steps(carry),
            None if is_direct(parts) => Self::Cache(PageCache::reading()),
            None => Self::Nothing,
        }
    }
}

/// Whether parts are at most half of what is in the pages that must be decompressed for them, by entries: others are
/// likely to be wanted, too. Larger ones neither ask the page cache nor fill it.
fn is_direct(parts: &[Part<'_>]) -> bool {
    let (mut wanted, mut there) = (0u64, 0u64);
    for part in parts.iter().filter(|part| part.start < part.stop) {
        if part.start == 0 && part.stop >= part.table.entries() {
            return false;
        }
        for &field in part.fields {
            let touched = part.table.entries_touched(field, part.start, part.stop);
            if touched > 0 {
                wanted = wanted.saturating_add(part.stop - part.start);
                there = there.saturating_add(touched);
            }
        }
    }
    wanted > 0 && wanted <= there / 2
}

/// What is read, and how.
struct Reading<'a> {
    pool: &'a ThreadPool,
    parts: &'a [Part<'a>],
    /// Whether what is read is announced to storage here.
    ahead: bool,
    keeps: Keeps<'a>,
    left_out: Option<&'a LeftOut>,
    budget: Budget,
}

/// Bytes that a reading may make of a byte of its files.
const MOST_TIMES: u64 = 384;
/// The size in bytes that a smaller file counts as.
const LEAST_STORED: u64 = 1 << 20;

/// What a reading may still take of memory, by the size of its files.
struct Budget {
    stored: u64,
    taken: AtomicU64,
}

impl Budget {
    fn of(parts: &[Part<'_>]) -> Self {
        let mut sources: Vec<(*const (), u64)> = parts
            .iter()
            .map(|part| (Arc::as_ptr(part.table.source()).cast(), part.table.source().size()))
            .collect();
        sources.sort_unstable();
        sources.dedup();
        let stored = sources.iter().map(|&(_, size)| size.max(LEAST_STORED)).fold(0, u64::saturating_add);
        Self { stored, taken: AtomicU64::new(0) }
    }
    /// Forgets what was taken.
    fn restart(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }
    /// Takes bytes of the values, or of pages whose values are appended.
    fn take(&self, bytes: u64) -> Result<()> {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if taken <= self.stored.saturating_mul(MOST_TIMES) {
            return Ok(());
        }
        Err(Error::limit(format!(
            "the values take {taken} bytes or more, over {MOST_TIMES} times the {} bytes of their files: read fewer \
             entries at a time",
            self.stored
        )))
    }
}

impl Reading<'_> {
    /// The readers of each part's fields; of tables of one shape, the first one's are for all.
    fn readers(&self, hidden: &Hidden) -> Result<Vec<Vec<Arc<dyn FieldReader>>>> {
        let mut readers: Vec<Vec<Arc<dyn FieldReader>>> = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let model = self.parts.first().filter(|model| model.table.same_shape(part.table));
            if let Some((first, model)) = readers.first().zip(model)
                && first.len() == part.fields.len()
                && part.fields == model.fields
            {
                readers.push(first.clone());
                continue;
            }
            let mut found = Vec::with_capacity(part.fields.len());
            for (column, &field) in part.fields.iter().enumerate() {
                let reader = model.unwrap_or(part).table.reader(field, hidden)?;
                let place = || part.table.place(field);
                if let Err(error) = reader.of() {
                    return Err(error.clone().within(place()).of_column(column));
                }
                let first = readers.first().map(|first| first.get(column));
                if first.is_some_and(|first| {
                    !first.is_some_and(|first| first.of().as_ref().ok() == reader.of().as_ref().ok())
                }) {
                    return Err(Error::argument("its type or place differs from that in the first file")
                        .within(place()));
                }
                found.push(reader);
            }
            if readers.first().is_some_and(|first| first.len() != found.len()) {
                return Err(Error::argument("the parts have different numbers of fields"));
            }
            readers.push(found);
        }
        Ok(readers)
    }

    /// Verifies once that the files are those that were opened.
    fn verify(&self) -> Result<()> {
        let mut last = None;
        for part in self.parts {
            let source = Arc::as_ptr(part.table.source());
            if last.replace(source).is_none_or(|before| !std::ptr::addr_eq(before, source)) {
                part.table.verify()?;
            }
        }
        Ok(())
    }
}
