//! What is left of pages between two steps of an iteration.

use super::Part;
use super::ahead::announce;
use crate::table::{Hidden, Kept, Page, Tail};
use sapwood_io::{Announced, Token};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Decompressed ends of pages that reach into the next step, so that no page is decompressed twice.
///
/// Holds a given number of bytes at most; what does not fit is read again.
pub struct Carry {
    kept: Mutex<Kept>,
    ahead: Mutex<Option<Announced>>,
    /// Gives up the steps.
    token: Token,
    /// Classes that a step before found not to be decodable.
    hidden: Mutex<Hidden>,
}

impl Carry {
    /// For `room` bytes.
    pub fn new(room: usize) -> Self {
        Self {
            kept: Mutex::new(Kept::new(room, 0)),
            ahead: Mutex::default(),
            token: Token::default(),
            hidden: Mutex::default(),
        }
    }
    fn ahead(&self) -> MutexGuard<'_, Option<Announced>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Announces to storage all that the steps will need together, once.
    pub fn announce(&self, part: &Part<'_>) {
        if !self.announced() && !self.token.is_given_up() {
            *self.ahead() = announce(std::slice::from_ref(part), false);
        }
    }
    /// Whether that was done, and the storage wants to know.
    pub fn announced(&self) -> bool {
        self.ahead().is_some()
    }
    /// What gives up the steps that use this.
    pub fn token(&self) -> &Token {
        &self.token
    }
    /// Gives up the step that is read now, if any, and those after it.
    pub fn give_up(&self) {
        self.token.give_up();
        let ahead = self.ahead().take();
        drop(ahead);
    }
    /// Classes that a step before found not to be decodable.
    pub(super) fn hidden(&self) -> MutexGuard<'_, Hidden> {
        self.hidden.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes what is left of a page of a stored column, if it holds the items from `from` on.
    pub(super) fn take(&self, column: usize, page: usize, from: usize) -> Option<Arc<Tail>> {
        Kept::take(&self.kept, (column as u64, page as u64), from)
    }
    /// Keeps the items behind `behind` of a page, which begin at byte `start`, if there is room. Where that is not
    /// known, the items before must be walked over, and are kept, too. `tail`: what the step before had kept, if `page` is
    /// that; it stays as it is until half of it is used, so that steps do not copy the rest of a page again and again.
    pub(super) fn keep(
        &self,
        (column, number): (usize, usize),
        page: &Page<'_>,
        behind: usize,
        start: Option<usize>,
        tail: Option<&Arc<Tail>>,
    ) {
        let key = (column as u64, number as u64);
        // Items of a table are walked over from the first on.
        let enough = |start: usize| page.table.is_none() && start <= page.data.len() / 2;
        // What is there will be wanted, too: none of it goes for this.
        if let Some(tail) = tail.filter(|_| start.is_none_or(enough)) {
            return Kept::put_back(&self.kept, key, 0, tail);
        }
        let behind = start.map_or((0, 0), |start| (start, behind));
        Kept::keep(&self.kept, key, 0, page, behind, tail.map_or(0, |tail| tail.dropped));
    }
}
