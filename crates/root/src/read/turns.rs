//! Columns to which pages are appended in order, whichever thread decodes them.
//!
//! A page that comes before its turn is decoded separately and appended later. A large page would go through memory
//! twice. Its thread waits for its turn instead. Meanwhile, it helps to decode the page that is being appended, piece
//! by piece.

use super::Budget;
use crate::array::pages::Room;
use crate::array::{Builder, Growing};
use crate::error::Result;
use crate::table::{Page, PageDecoder, PageOutput, PageSlice, PartsLeftOut, Unpacked};
use sapwood_io::lock;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Size of a piece in bytes: small enough to stay in the cache until it is appended.
const PIECE: usize = 256 << 10;
/// Assumed size of later pages relative to the first of their column, with a margin.
const FORESEEN: f64 = 1.02;
/// Interval at which waiting threads check whether the read has failed.
const LOOK: Duration = Duration::from_millis(10);

/// A growing column.
pub struct Turns<'a> {
    state: Mutex<State<'a>>,
    moved: Condvar,
    /// An empty builder of its type.
    like: Builder,
    /// Bytes in the files, of all its pages.
    stored: u64,
    budget: &'a Budget,
}

struct State<'a> {
    /// Index of the next page.
    next: usize,
    /// The column, unless a thread is appending to it.
    to: Option<&'a mut Growing>,
    /// Pages decoded before their turn.
    early: BTreeMap<usize, Builder>,
    /// The large page that is being appended.
    large: Option<Large<'a>>,
    /// Empty builders that keep the memory of earlier separate decoding.
    spare: Vec<Builder>,
    /// Bytes of the values in the column.
    done: usize,
    /// Free memory for the values after a position. The position counts bytes of pages in the files.
    room: (f64, Arc<[Room]>),
}

struct Large<'a> {
    page: Arc<LargePage<'a>>,
    /// Position among the pages of its column, in bytes in the files.
    stored: Range<f64>,
    /// Number of pieces that threads have taken.
    taken: usize,
    /// Pieces decoded by other threads for the appending thread.
    ready: BTreeMap<usize, Result<(Builder, PartsLeftOut)>>,
}

/// The position of a page in its column.
#[derive(Clone, Copy)]
pub struct Turn {
    /// Index.
    pub number: usize,
    /// Bytes in the files of the pages before.
    pub before: u64,
    /// Bytes in the files of the page.
    pub length: u64,
}

/// A decompressed page that several threads share.
pub struct LargePage<'a> {
    bytes: Arc<Vec<u8>>,
    unpacked: Unpacked,
    decoder: &'a dyn PageDecoder,
    slice: PageSlice,
    /// The first item of each piece, and the end.
    borders: Vec<usize>,
}

impl<'a> LargePage<'a> {
    /// Whether decoding a page in pieces pays off. It needs a table of item starts and slow decoding: lists of numbers
    /// are copied faster than a waiting thread wakes up.
    pub fn is_worth_it(page: &Page<'_>, decoder: &dyn PageDecoder, slice: &PageSlice) -> bool {
        page.data.len() >= 2 * PIECE && page.table.is_some() && page.items == slice.items && decoder.is_slow()
    }
    /// Creates it for a page that was unpacked to `bytes`.
    pub fn new(
        bytes: Arc<Vec<u8>>,
        unpacked: Unpacked,
        decoder: &'a dyn PageDecoder,
        slice: PageSlice,
    ) -> Self {
        let mut borders = vec![slice.from];
        let page = unpacked.page(&bytes);
        let mut end = page.start(slice.from).unwrap_or(0) + PIECE;
        // The starts of items are checked when these are decoded.
        for (item, start) in page.starts(slice.from..slice.to) {
            if start >= end {
                borders.push(item);
                end = start + PIECE;
            }
        }
        borders.push(slice.to);
        borders.dedup();
        Self { bytes, unpacked, decoder, slice, borders }
    }
    fn pieces(&self) -> usize {
        self.borders.len() - 1
    }
    /// The fraction of the wanted items before a piece.
    fn part(&self, piece: usize) -> f64 {
        let border = self.borders.get(piece).copied().unwrap_or(self.slice.to);
        (border - self.slice.from) as f64 / (self.slice.to - self.slice.from).max(1) as f64
    }
    /// Appends a piece; returns its bytes and the values that were left out.
    fn decode(&self, piece: usize, to: &mut Builder) -> Result<(usize, PartsLeftOut)> {
        let (Some(&from), Some(&end)) = (self.borders.get(piece), self.borders.get(piece + 1)) else {
            return Ok(Default::default());
        };
        let page = self.unpacked.page(&self.bytes).of_items(from, end)?;
        let slice = PageSlice {
            first: self.slice.first + from as u64,
            dropped: self.slice.dropped + from,
            items: end - from,
            from: 0,
            to: end - from,
            ..self.slice
        };
        let left_out = self.decoder.decode(&slice, &page, PageOutput::Append(to))?;
        Ok((page.data.len(), left_out))
    }
}

impl<'a> Turns<'a> {
    /// Creates it for an empty column with pages of `stored` bytes in the files.
    pub fn new(to: &'a mut Growing, stored: u64, budget: &'a Budget) -> Self {
        let like = to.builder().like();
        let state = State {
            next: 0,
            to: Some(to),
            early: BTreeMap::new(),
            large: None,
            spare: Vec::new(),
            done: 0,
            room: (0.0, Arc::new([])),
        };
        Self { state: Mutex::new(state), moved: Condvar::new(), like, stored, budget }
    }

    /// Decodes values, and takes from the budget what they need beyond the `bytes` of their page.
    fn counted<T>(
        &self,
        bytes: usize,
        to: &mut Builder,
        decode: impl FnOnce(&mut Builder) -> Result<T>,
    ) -> Result<T> {
        let before = to.bytes();
        let found = decode(to)?;
        self.budget.take(to.bytes().saturating_sub(before).saturating_sub(bytes) as u64)?;
        Ok(found)
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        lock(&self.state)
    }

    /// Decodes a page of `bytes` to the end of the column if it is next; otherwise separately, until its turn comes.
    pub fn append(
        &self,
        turn: Turn,
        bytes: usize,
        decode: impl FnOnce(&mut Builder) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.lock();
        if state.next == turn.number
            && let Some(to) = state.to.take()
        {
            let done = state.done;
            state.done += bytes;
            drop(state);
            to.fill(|to| {
                to.prepare(bytes, share(bytes, done));
                self.counted(bytes, to, decode)
            })?;
            if turn.number == 0 && turn.length > 0 {
                self.foresee(to, turn.length as f64);
            }
            return self.pass_on(turn.number + 1, to);
        }
        state.done += bytes;
        let mut aside = self.aside(&mut state);
        let room = state.room.clone();
        drop(state);
        self.provide(&room, turn.before as f64..(turn.before + turn.length) as f64);
        aside.reserve(0, bytes);
        aside.prepare(bytes, 0.0);
        self.counted(bytes, &mut aside, decode)?;
        let mut state = self.lock();
        state.early.insert(turn.number, aside);
        let to = if state.next == turn.number { state.to.take() } else { None };
        drop(state);
        if let Some(to) = to {
            self.pass_on(turn.number, to)?;
        }
        Ok(())
    }

    /// Waits for the turn of a large page and decodes it to the end of the column. Returns the waiting time and the
    /// values that were left out; nothing if the read has failed elsewhere.
    pub fn append_large(
        &self,
        turn: Turn,
        page: LargePage<'a>,
        failed: &AtomicBool,
    ) -> Result<(Duration, PartsLeftOut)> {
        let start = Instant::now();
        let mut state = self.lock();
        let to = loop {
            if failed.load(Ordering::Relaxed) {
                return Ok(Default::default());
            }
            if state.next == turn.number
                && let Some(to) = state.to.take()
            {
                break to;
            }
            state = self.help(state);
        };
        let waited = start.elapsed();
        let stored = turn.before as f64..(turn.before + turn.length) as f64;
        let page = Arc::new(page);
        let ready = BTreeMap::new();
        state.large = Some(Large { page: page.clone(), stored, taken: 0, ready });
        drop(state);
        self.moved.notify_all();
        let result = self.append_pieces(turn, &page, to, failed);
        self.lock().large = None;
        let left_out = result?;
        self.pass_on(turn.number + 1, to)?;
        Ok((waited, left_out))
    }

    fn append_pieces(
        &self,
        turn: Turn,
        page: &LargePage<'a>,
        to: &mut Growing,
        failed: &AtomicBool,
    ) -> Result<PartsLeftOut> {
        let mut left_out = Vec::new();
        let mut piece = 0;
        let mut state = self.lock();
        while piece < page.pieces() && !failed.load(Ordering::Relaxed) {
            let Some(large) = &mut state.large else { break };
            if let Some(ready) = large.ready.remove(&piece) {
                drop(state);
                let (mut aside, more) = ready?;
                to.fill(|to| to.append(&aside))?;
                left_out.extend(more);
                aside.clear();
                state = self.lock();
                state.spare.push(aside);
            } else if large.taken == piece {
                large.taken += 1;
                let done = state.done;
                drop(state);
                let (bytes, more) = to.fill(|to| {
                    to.prepare(PIECE, share(PIECE, done));
                    self.counted(PIECE, to, |to| page.decode(piece, to))
                })?;
                left_out.extend(more);
                if turn.number == 0 && piece == 0 && turn.length > 0 {
                    self.foresee(to, turn.length as f64 * page.part(1));
                }
                state = self.lock();
                state.done += bytes;
            } else {
                state = self.help(state);
                continue;
            }
            piece += 1;
        }
        Ok(left_out)
    }

    /// Decodes a piece of the large page that is being appended, or waits for a change of state.
    fn help<'s>(&'s self, mut state: MutexGuard<'s, State<'a>>) -> MutexGuard<'s, State<'a>> {
        let Some(large) = state.large.as_mut().filter(|large| large.taken < large.page.pieces()) else {
            let (state, _) = self.moved.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner);
            return state;
        };
        let piece = large.taken;
        large.taken += 1;
        let page = large.page.clone();
        let place = |piece| large.stored.start + (large.stored.end - large.stored.start) * page.part(piece);
        let stored = place(piece)..place(piece + 1);
        let mut aside = self.aside(&mut state);
        let room = state.room.clone();
        drop(state);
        self.provide(&room, stored);
        let result = self.counted(PIECE, &mut aside, |to| page.decode(piece, to));
        // The appending thread needs the memory back.
        drop(page);
        let mut state = self.lock();
        let bytes = result.as_ref().map_or(0, |(bytes, _)| *bytes);
        state.done += bytes;
        if let Some(large) = &mut state.large {
            large.ready.insert(piece, result.map(|(_, left_out)| (aside, left_out)));
        }
        self.moved.notify_all();
        state
    }

    fn aside(&self, state: &mut State<'a>) -> Builder {
        state.spare.pop().unwrap_or_else(|| self.like.like())
    }

    /// Reserves room for the values after the first, which take this many bytes in the files.
    fn foresee(&self, to: &mut Growing, first: f64) {
        to.builder().foresee(FORESEEN * self.stored as f64 / first);
        self.lock().room = (first, to.builder().room().into());
    }

    /// Prepares the memory where values will be appended, so that the appending thread need not wait for it.
    fn provide(&self, (first, room): &(f64, Arc<[Room]>), stored: Range<f64>) {
        let behind = (FORESEEN * self.stored as f64 - first).max(1.0);
        room.iter()
            .for_each(|room| room.provide((stored.start - first) / behind, (stored.end - first) / behind));
    }

    /// Appends the early pages from `next` on. Then releases the column for the thread with the page after them.
    fn pass_on(&self, mut next: usize, to: &'a mut Growing) -> Result<()> {
        let mut state = self.lock();
        while let Some(mut aside) = state.early.remove(&next) {
            drop(state);
            to.fill(|to| to.append(&aside))?;
            aside.clear();
            next += 1;
            state = self.lock();
            state.spare.push(aside);
        }
        state.next = next;
        state.to = Some(to);
        drop(state);
        self.moved.notify_all();
        Ok(())
    }
}

/// Returns `bytes` as a fraction of the bytes done.
fn share(bytes: usize, done: usize) -> f64 {
    if done > 0 { bytes as f64 / done as f64 } else { 0.0 }
}
