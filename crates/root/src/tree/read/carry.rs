//! What is left of baskets between two steps of an iteration.

use super::super::Framing;
use super::super::basket::Values;
use super::Part;
use super::ahead::announce;
use super::kept::{Kept, Tail, keep, lock};
use sapwood_io::{Announced, Token};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Decompressed ends of baskets that reach into the next step, so that no basket is decompressed twice.
///
/// Holds a given number of bytes at most; what does not fit is read again.
pub struct Carry {
    kept: Mutex<Kept>,
    ahead: Mutex<Option<Announced>>,
    /// Gives up the steps.
    token: Token,
}

impl Carry {
    /// For so many bytes.
    pub fn new(room: usize) -> Self {
        Self { kept: Mutex::new(Kept::new(room, 0)), ahead: Mutex::default(), token: Token::default() }
    }
    fn ahead(&self) -> MutexGuard<'_, Option<Announced>> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Tells storage of all that the steps will need together, once.
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
    /// Takes what is left of a basket of a branch, if it holds the entries from `from` on.
    pub fn take(&self, branch: usize, basket: usize, from: usize) -> Option<Arc<Tail>> {
        let tail = lock(&self.kept).remove((branch as u64, basket as u64))?;
        (tail.dropped <= from).then_some(tail)
    }
    /// Keeps the entries of a basket from `from` on, if there is room; `dropped` entries are not in `values`.
    pub fn keep(
        &self,
        (branch, basket): (usize, usize),
        values: &Values<'_>,
        framing: Framing,
        from: usize,
        dropped: usize,
    ) {
        let behind = match framing {
            Framing::Fixed(bytes) => ((from - dropped) * bytes, from - dropped),
            _ => match values.start(from - dropped) {
                Some(start) => (start, from - dropped),
                // Without a table the entries before must be walked over.
                None => (0, 0),
            },
        };
        // What is there will be wanted, too: none of it goes for this.
        keep(&self.kept, (branch as u64, basket as u64), 0, values, behind, dropped);
    }
}
