//! Rows of several columns, gathered batch by batch, and ahead of a consumer that is busy.

use super::Number;
use super::gather::{self, Lists, Permutation, Rows};
use super::pool::Filled;
use crate::error::{Error, Result};
use arrow_buffer::{Buffer, ScalarBuffer};
use rayon::ThreadPool;
use rayon::prelude::*;
use sapwood_io::{PerProcess, lock};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Batches with fewer bytes are gathered by one thread.
const FEW: usize = 8 << 20;

/// A column.
pub struct Source {
    /// Type of its numbers.
    pub number: Number,
    /// Its numbers.
    pub values: Buffer,
    /// Bytes of one entry, or of an item of a list.
    pub width: usize,
    /// Index of its offsets, for lists.
    pub lists: Option<usize>,
    /// Length to which its lists are padded.
    pub pad: Option<usize>,
}

impl Source {
    /// Returns the numbers of some rows.
    fn rows(&self, rows: Rows<'_>, lists: &[Lists]) -> Result<Filled> {
        let Some(place) = self.lists else { return gather::fixed(&self.values, self.width, rows) };
        let lists =
            lists.get(place).ok_or_else(|| Error::argument("a column names offsets that are not there"))?;
        match self.pad {
            Some(pad) => lists.padded(&self.values, self.width, pad),
            None => lists.items(&self.values, self.width),
        }
    }
}

/// Rows of all columns.
pub struct Batch {
    /// Numbers of each column.
    pub values: Vec<Filled>,
    /// Locations of the lists.
    pub lists: Vec<Lists>,
    /// Masks of padded lists.
    pub masks: Vec<Filled>,
}

/// Columns whose rows are taken, in the order of a permutation or in their own.
pub struct Columns {
    sources: Vec<Source>,
    offsets: Vec<ScalarBuffer<i64>>,
    masks: Vec<(usize, usize)>,
    order: Option<Permutation>,
    length: usize,
    row_bytes: usize,
}

impl Columns {
    /// Creates columns of `length` rows. `masks` are the indices of offsets and the lengths to which their lists are
    /// padded; a seed determines the order.
    pub fn new(
        sources: Vec<Source>,
        offsets: Vec<ScalarBuffer<i64>>,
        masks: Vec<(usize, usize)>,
        length: usize,
        seed: Option<u64>,
    ) -> Result<Self> {
        let order = seed.map(|seed| Permutation::new(length, seed)).transpose()?;
        let row = |source: &Source| match source.pad {
            Some(pad) => source.width.saturating_mul(pad),
            None => source.values.len() / length.max(1),
        };
        let row_bytes = sources.iter().map(row).fold(0, usize::saturating_add);
        Ok(Self { sources, offsets, masks, order, length, row_bytes })
    }
    /// The columns.
    #[must_use]
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Whether several threads gather these rows.
    fn is_large(&self, start: usize, stop: usize) -> bool {
        stop.saturating_sub(start).saturating_mul(self.row_bytes) >= FEW
    }

    /// Gathers the rows from `start` up to `stop`.
    pub fn gather(&self, start: usize, stop: usize) -> Result<Batch> {
        let all = self.order.as_ref().map_or(Rows::Range(0, self.length), |order| Rows::Chosen(order.rows()));
        let rows = all.between(start, stop);
        let rows = rows.ok_or_else(|| Error::argument("a batch ends outside of its window"))?;
        let lists = self.offsets.iter().map(|one| Lists::of(one, rows)).collect::<Result<Vec<_>>>()?;
        let values = |source: &Source| source.rows(rows, &lists);
        let mask = |&(place, pad): &(usize, usize)| {
            let lists = lists.get(place);
            lists.ok_or_else(|| Error::argument("a mask names offsets that are not there"))?.mask(pad)
        };
        let (values, masks) = if self.is_large(start, stop) {
            let values = self.sources.par_iter().map(values).collect::<Result<_>>()?;
            (values, self.masks.par_iter().map(mask).collect::<Result<_>>()?)
        } else {
            let values = self.sources.iter().map(values).collect::<Result<_>>()?;
            (values, self.masks.iter().map(mask).collect::<Result<_>>()?)
        };
        Ok(Batch { values, lists, masks })
    }
}

/// Batches of columns, in order. While the consumer is busy with one, a thread of the pool gathers the next.
///
/// A consumer that asks for the next batch sooner than it could be gathered has no use for that.
pub struct Batches {
    columns: Arc<Columns>,
    /// First row of each batch, and the number of rows.
    edges: Vec<usize>,
    last: PerProcess<Mutex<Option<Last>>>,
}

/// What is known after a batch.
struct Last {
    at: Instant,
    took: Duration,
    next: Option<Arc<Ahead>>,
}

/// A batch that a thread of the pool gathers.
struct Ahead {
    range: (usize, usize),
    work: Mutex<Work>,
    done: Condvar,
}

enum Work {
    /// No thread has begun: the consumer can gather the batch itself.
    Waiting,
    Begun,
    Done(Result<Batch>),
    Taken,
}

impl Ahead {
    fn run(&self, gather: impl FnOnce() -> Result<Batch>) {
        let mut work = lock(&self.work);
        if !matches!(*work, Work::Waiting) {
            return;
        }
        *work = Work::Begun;
        drop(work);
        let found = gather();
        *lock(&self.work) = Work::Done(found);
        self.done.notify_all();
    }
    /// Returns the batch, None if no thread has begun.
    fn finish(&self) -> Option<Result<Batch>> {
        let mut work = lock(&self.work);
        while matches!(*work, Work::Begun) {
            work = self.done.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
        match std::mem::replace(&mut *work, Work::Taken) {
            Work::Done(found) => Some(found),
            _ => None,
        }
    }
}

impl Batches {
    /// Creates the batches of columns between these rows.
    #[must_use]
    pub fn new(columns: Columns, edges: Vec<usize>) -> Self {
        Self { columns: Arc::new(columns), edges, last: PerProcess::empty() }
    }
    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    fn last(&self) -> MutexGuard<'_, Option<Last>> {
        lock(self.last.get(|_| Mutex::default()))
    }

    /// Returns the batch of rows from `start` up to `stop`.
    pub fn between(&self, pool: &ThreadPool, start: usize, stop: usize) -> Result<Batch> {
        let last = self.last().take();
        let asked = Instant::now();
        let busy = last.as_ref().is_some_and(|last| asked.duration_since(last.at) > last.took);
        let mut took = last.as_ref().map_or(Duration::ZERO, |last| last.took);
        let ahead = last.and_then(|last| last.next).filter(|next| next.range == (start, stop));
        let found = if let Some(found) = ahead.and_then(|ahead| ahead.finish()) {
            found?
        } else {
            let gather = || self.columns.gather(start, stop);
            let begun = Instant::now();
            let found = if self.columns.is_large(start, stop) { pool.install(gather) } else { gather() }?;
            took = begun.elapsed();
            found
        };
        let next = if busy { self.ahead(pool, stop) } else { None };
        *self.last() = Some(Last { at: Instant::now(), took, next });
        Ok(found)
    }

    /// Lets the pool gather the batch that begins with a row, if there is one.
    fn ahead(&self, pool: &ThreadPool, start: usize) -> Option<Arc<Ahead>> {
        let place = self.edges.binary_search(&start).ok()?;
        let range = (start, *self.edges.get(place + 1)?);
        let ahead = Arc::new(Ahead { range, work: Mutex::new(Work::Waiting), done: Condvar::new() });
        let (own, columns) = (Arc::clone(&ahead), Arc::clone(&self.columns));
        pool.spawn(move || own.run(|| columns.gather(range.0, range.1)));
        Some(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(length: usize) -> Columns {
        let values = Buffer::from_vec((0..length as i64).collect::<Vec<_>>());
        let source = Source { number: Number::I64, values, width: 8, lists: None, pad: None };
        Columns::new(vec![source], Vec::new(), Vec::new(), length, Some(3)).unwrap()
    }

    fn numbers(batch: &Batch) -> Vec<i64> {
        let bytes = batch.values[0].as_slice().as_chunks().0.iter();
        bytes.map(|bytes| i64::from_ne_bytes(*bytes)).collect()
    }

    #[test]
    fn batches_gathered_ahead_are_those_gathered_when_asked_for() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let edges = [0, 3, 10, 17, 20];
        let batches = Batches::new(columns(20), edges.to_vec());
        let mut ahead = 0;
        for (start, stop) in edges.into_iter().zip(edges.into_iter().skip(1)) {
            let found = numbers(&batches.between(&pool, start, stop).unwrap());
            assert_eq!(found, numbers(&batches.columns().gather(start, stop).unwrap()));
            ahead += usize::from(batches.last().as_ref().is_some_and(|last| last.next.is_some()));
            std::thread::sleep(Duration::from_millis(5));
        }
        // The consumer is known to be busy after the first batch; none follows the last.
        assert_eq!(ahead, 2);
        // Another batch than the next one is gathered as well.
        for (start, stop) in [(0, 3), (10, 17), (0, 20)] {
            std::thread::sleep(Duration::from_millis(5));
            let found = numbers(&batches.between(&pool, start, stop).unwrap());
            assert_eq!(found, numbers(&batches.columns().gather(start, stop).unwrap()));
        }
        assert!(batches.between(&pool, 10, 21).is_err());
    }

    #[test]
    fn a_batch_that_no_thread_has_begun_is_left_to_the_consumer() {
        let ahead = Ahead { range: (0, 1), work: Mutex::new(Work::Waiting), done: Condvar::new() };
        assert!(ahead.finish().is_none());
        ahead.run(|| panic!("the consumer has gathered it"));
        let ahead = Ahead { range: (0, 1), work: Mutex::new(Work::Waiting), done: Condvar::new() };
        ahead.run(|| Err(Error::argument("no")));
        assert!(ahead.finish().unwrap().is_err());
    }
}
