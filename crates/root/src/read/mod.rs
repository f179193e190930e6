//! Reading tables in stages: few large requests, parallel decompression and decoding.
//!
//! ```text
//!   parts (table, fields, entries) ──▶ stages ──▶ run ──▶ … next stage … ──▶ columns
//!                                       │          │
//!                                       │          └ chunks of pages in file order; a thread takes one, fetches it
//!                                       │            by coalesced requests, unpacks and decodes page after page
//!                                       └ pure data: which pages are wanted now ([`crate::table`])
//! ```
//!
//! Pages are read in file order, in chunks that fit a thread's share of the caches. Values with a known number of items
//! are decoded to their final place; other values are appended in order.
//!
//! Undecodable classes affect only the read that finds them: [`read_with`] hides the classes from its own compiled
//! readers. The shared table does not change.

mod ahead;
mod carry;
mod codecs;
mod early;
mod run;
mod stages;
mod target;
#[cfg(test)]
mod tests;
mod turns;

pub use ahead::{PagePlanned, planned};
pub use carry::Carry;
pub use codecs::codecs;

use crate::array::{self, Column};
use crate::error::{Error, Result, Within};
use crate::table::{FieldReader, Hidden, PageCache, Table};
use crate::wire::grow;
use rayon::ThreadPool;
use sapwood_io::lock;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Entries `start` to `stop` of some fields of a table.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The table.
    pub table: &'a dyn Table,
    /// Indices of the fields, one for each column.
    pub fields: &'a [usize],
    /// First entry.
    pub start: u64,
    /// One past the last entry.
    pub stop: u64,
}

/// Reads the same columns from each part and joins them in order. Adjacent parts of one layout are decoded straight into
/// the same columns; columns of other parts are copied to join them.
///
/// `pool` decompresses and decodes. Waits for remote storage happen outside the pool, so do not call this on one of its
/// threads. Memory in addition to the result, for each thread:
///
/// * one chunk of pages,
/// * one decompressed page,
/// * values decoded before their turn to be appended.
pub fn read(pool: &ThreadPool, parts: &[Part<'_>]) -> Result<Vec<Column>> {
    read_with(pool, parts, None, None)
}

/// Like [`read`], for a step of an iteration or with undecodable values left out.
///
/// `carry`: the single part follows another. The read uses the ends of pages that the part before has left there. It
/// leaves the ends of its own pages that reach beyond the part's end.
///
/// `left_out`: members that cannot be decoded but can be skipped are left out and recorded there. Undecodable classes
/// are found during decoding. The fields are then compiled without them and read again. A read of a part of the entries may
/// therefore have members that a read of all entries leaves out.
pub fn read_with(
    pool: &ThreadPool,
    parts: &[Part<'_>],
    carry: Option<&Carry>,
    left_out: Option<&LeftOut>,
) -> Result<Vec<Column>> {
    grow::check()?;
    let ahead = carry.is_none_or(|carry| !carry.announced());
    // Parts without entries add nothing. If there are no others, one of them is kept for the types.
    let filled: Vec<Part<'_>> = parts.iter().copied().filter(|part| part.start < part.stop).collect();
    let parts = if filled.is_empty() { parts.get(..1).unwrap_or_default() } else { &filled };
    let keeps = Keeps::of(parts, carry);
    let budget = Budget::of(parts);
    let reading = Reading { pool, parts, ahead, keeps, left_out, budget: &budget };
    if left_out.is_none() {
        return reading.all(&Hidden::new());
    }
    let mut hidden = carry.map(|carry| carry.hidden().clone()).unwrap_or_default();
    let mut errors: Vec<Error> = Vec::new();
    loop {
        let error = match reading.all(&hidden) {
            Ok(columns) => {
                if let Some(carry) = carry {
                    *carry.hidden() = hidden;
                }
                return Ok(columns);
            }
            Err(error) => error,
        };
        let new = error.class().filter(|class| !hidden.contains_key(*class));
        let new = new.map(|class| (class.to_owned(), format!("{}; {ELSEWHERE}", error.message()).into()));
        errors.push(error);
        let Some((class, why)) = new else { break };
        hidden.insert(class, why);
    }
    // The first error of the column that could not be repaired gives the most exact location.
    let last = errors.last().cloned().unwrap_or_else(|| Error::corrupt("nothing could be read"));
    let alike = |error: &Error| error.column() == last.column() && error.kind() == last.kind();
    Err(errors.into_iter().find(alike).unwrap_or(last))
}

/// The remark of a warning about a class that turned out to be undecodable: only decoding all entries shows this.
const ELSEWHERE: &str = "found while decoding: a read of other entries may have this part";

/// Values that were left out of the columns.
#[derive(Default)]
pub struct LeftOut {
    found: Mutex<BTreeMap<(usize, String), Error>>,
}

impl LeftOut {
    fn add(&self, column: usize, what: String, error: Error) {
        let mut found = lock(&self.found);
        found.entry((column, what)).or_insert(error);
    }
    /// Returns an error for each class or member, with its first place in its column.
    pub fn into_errors(self) -> Vec<Error> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }
}

/// Destination of partly used decompressed pages.
#[derive(Clone, Copy)]
enum Keeps<'a> {
    /// They are dropped.
    Nothing,
    /// Their rest is kept for the next step.
    Steps(&'a Carry),
    /// The page cache keeps them, under this read number.
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

/// Whether the parts have at most half of the entries in the pages that must be decompressed for them. The other
/// entries are likely to be needed later. Larger reads neither use nor fill the page cache.
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

/// A read and its settings.
struct Reading<'a> {
    pool: &'a ThreadPool,
    parts: &'a [Part<'a>],
    /// Whether the read itself announces its byte ranges to storage.
    ahead: bool,
    keeps: Keeps<'a>,
    left_out: Option<&'a LeftOut>,
    budget: &'a Budget,
}

/// Maximum number of bytes in memory for each byte of the files.
const MOST_TIMES: u64 = 384;
/// Minimum file size assumed for the budget, in bytes.
const LEAST_STORED: u64 = 1 << 20;

/// Memory that a read may still take, limited by the size of its files.
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
    /// Resets the budget.
    fn restart(&self) {
        self.taken.store(0, Ordering::Relaxed);
    }
    /// Takes bytes from the budget, for values, for pages whose values are appended, or for the plan of pages.
    fn take(&self, bytes: u64) -> Result<()> {
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if taken <= self.stored.saturating_mul(MOST_TIMES) {
            return grow::check();
        }
        Err(Error::limit(format!(
            "the values and their pages take {taken} bytes or more, over {MOST_TIMES} times the {} bytes of their files: read fewer \
             entries at a time",
            self.stored
        )))
    }
}

/// The readers of the fields of a part.
type Readers = Vec<Arc<dyn FieldReader>>;

impl Reading<'_> {
    /// Reads all columns, without the objects of hidden classes.
    fn all(&self, hidden: &Hidden) -> Result<Vec<Column>> {
        self.budget.restart();
        let readers = self.readers(hidden)?;
        let mut pieces = Vec::with_capacity(1);
        let mut start = 0;
        while start < self.parts.len() {
            let alike = (start + 1..self.parts.len()).take_while(|&p| self.follows(&readers, p)).count();
            let run = start..start + 1 + alike;
            let parts = self.parts.get(run.clone()).unwrap_or_default();
            pieces.push(Reading { parts, ..*self }.columns(readers.get(run.clone()).unwrap_or_default())?);
            start = run.end;
        }
        if pieces.len() < 2 {
            return Ok(pieces.pop().unwrap_or_default());
        }
        let join = |column: usize| {
            let own: Vec<&Column> = pieces.iter().filter_map(|piece| piece.get(column)).collect();
            let field = self.parts.first().and_then(|part| Some((part, *part.fields.get(column)?)));
            let place = || field.map_or_else(String::new, |(part, field)| part.table.place(field));
            let room = || self.budget.take(own.iter().map(|one| one.bytes() as u64).sum());
            room().and_then(|()| array::join(&own)).within(place).map_err(|error| error.of_column(column))
        };
        (0..pieces.first().map_or(0, Vec::len)).map(join).collect()
    }

    /// Whether the fields of a part can be read into the same targets as those of the part before.
    fn follows(&self, readers: &[Readers], p: usize) -> bool {
        let of = |p: usize| Some((self.parts.get(p)?, readers.get(p)?));
        let Some(((part, own), (before, others))) = of(p).zip(of(p.wrapping_sub(1))) else { return false };
        if own.iter().zip(others).all(|(a, b)| std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))) {
            return true;
        }
        let mut columns = own.iter().zip(part.fields).zip(others.iter().zip(before.fields));
        columns.all(|((a, &field), (b, &other))| {
            a.layout(part.table, field).is_some_and(|found| Some(found) == b.layout(before.table, other))
        })
    }

    /// Returns the readers of each part's fields. Tables of the same shape share the readers of the first one.
    fn readers(&self, hidden: &Hidden) -> Result<Vec<Readers>> {
        let mut readers: Vec<Readers> = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let model = self.parts.first().filter(|model| model.table.same_shape(part.table));
            if let Some((first, model)) = readers.first().zip(model)
                && first.len() == part.fields.len()
                && part.fields == model.fields
            {
                readers.push(first.clone());
                continue;
            }
            let mut found = grow::with_room(part.fields.len())?;
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
                    return Err(
                        Error::argument("its type differs from that in the first file").within(place())
                    );
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

    /// Verifies once that the files have not changed since they were opened.
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
