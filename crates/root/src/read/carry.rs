//! Unused ends of pages, carried from one step of an iteration to the next.

use super::Part;
use super::ahead::announce;
use crate::table::{Hidden, Kept, Page, Tail};
use sapwood_io::{Announced, Token, lock};
use std::sync::{Arc, Mutex, MutexGuard};

/// Decompressed ends of pages that reach into the next step. No page is decompressed twice, except those that do not
/// fit.
///
/// Holds at most a given number of bytes; the rest is read again.
pub struct Carry {
    kept: Mutex<Kept>,
    ahead: Mutex<Option<Announced>>,
    /// Cancels the steps.
    token: Token,
    /// Classes that an earlier step could not decode.
    hidden: Mutex<Hidden>,
}

impl Carry {
    /// Creates a carry-over buffer of `room` bytes.
    pub fn new(room: usize) -> Self {
        Self {
            kept: Mutex::new(Kept::new(room, 0)),
            ahead: Mutex::default(),
            token: Token::default(),
            hidden: Mutex::default(),
        }
    }
    fn ahead(&self) -> MutexGuard<'_, Option<Announced>> {
        lock(&self.ahead)
    }
    /// Announces to storage, once, everything that the steps will need.
    pub fn announce(&self, part: &Part<'_>) {
        if !self.announced() && !self.token.is_given_up() {
            *self.ahead() = announce(std::slice::from_ref(part), false);
        }
    }
    /// Whether the announcement was made and the storage uses announcements.
    pub fn announced(&self) -> bool {
        self.ahead().is_some()
    }
    /// The token that cancels the steps.
    pub fn token(&self) -> &Token {
        &self.token
    }
    /// Cancels the current step, if any, and the later ones.
    pub fn give_up(&self) {
        self.token.give_up();
        let ahead = self.ahead().take();
        drop(ahead);
    }
    /// Classes that an earlier step could not decode.
    pub(super) fn hidden(&self) -> MutexGuard<'_, Hidden> {
        lock(&self.hidden)
    }
    /// Takes the rest of a page of a stored column out, if it holds the items from `from` on.
    pub(super) fn take(&self, column: usize, page: usize, from: usize) -> Option<Arc<Tail>> {
        Kept::take(&self.kept, (0, column as u64, page as u64), from)
    }
    /// Keeps the items of a page after `behind`, if there is room. Their bytes begin at `start`. If the start is
    /// unknown, the earlier items are kept, too, because finding it means to walk over them. `tail` is the rest kept by
    /// the step before, if `page` is that rest. It is kept unchanged until half of it is used, so that steps do not
    /// copy the rest of a page repeatedly.
    pub(super) fn keep(
        &self,
        (column, number): (usize, usize),
        page: &Page<'_>,
        behind: usize,
        start: Option<usize>,
        tail: Option<&Arc<Tail>>,
    ) {
        let key = (0, column as u64, number as u64);
        // Items of a table are walked over from the first on.
        let enough = |start: usize| page.table.is_none() && start <= page.data.len() / 2;
        // The carried entries will be needed, too: none is evicted for this.
        if let Some(tail) = tail.filter(|_| start.is_none_or(enough)) {
            return Kept::put_back(&self.kept, key, 0, tail);
        }
        let behind = start.map_or((0, 0), |start| (start, behind));
        Kept::keep(&self.kept, key, 0, page, behind, tail.map_or(0, |tail| tail.dropped));
    }
}
