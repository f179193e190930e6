//! What is left of baskets between two steps of an iteration.

use super::super::Framing;
use super::super::basket::Values;
use super::Part;
use super::ahead::announce;
use crate::array::pool;
use sapwood_io::{Announced, Token};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Decompressed ends of baskets that reach into the next step, so that no basket is decompressed twice.
///
/// Holds a given number of bytes at most; what does not fit is read again.
pub struct Carry {
    kept: Mutex<Kept>,
    ahead: Mutex<Option<Announced>>,
    /// Gives up the steps.
    token: Token,
}

struct Kept {
    room: usize,
    tails: HashMap<(usize, usize), Tail>,
}

/// The entries of a basket from some entry on.
pub struct Tail {
    /// Entries of the basket that are not here any more.
    pub dropped: usize,
    entries: usize,
    key_bytes: usize,
    sizes: bool,
    data: Vec<u8>,
    offsets: Option<Vec<u8>>,
}

impl Carry {
    /// For so many bytes.
    pub fn new(room: usize) -> Self {
        let kept = Mutex::new(Kept { room, tails: HashMap::new() });
        Self { kept, ahead: Mutex::default(), token: Token::default() }
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
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes what is left of a basket of a branch, if it holds the entries from `from` on.
    pub fn take(&self, branch: usize, basket: usize, from: usize) -> Option<Tail> {
        let mut kept = self.kept();
        let tail = kept.tails.remove(&(branch, basket))?;
        kept.room += tail.bytes();
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
        let (start, skipped) = match framing {
            Framing::Fixed(bytes) => ((from - dropped) * bytes, from - dropped),
            _ => match values.start(from - dropped) {
                Some(start) => (start, from - dropped),
                // Without a table the entries before must be walked over.
                None => (0, 0),
            },
        };
        let data = values.data.get(start..).unwrap_or_default();
        let offsets = values.offsets.map(|table| table.get(skipped * 4..).unwrap_or_default());
        let bytes = data.len() + offsets.map_or(0, <[u8]>::len);
        {
            let mut kept = self.kept();
            if kept.room < bytes {
                return;
            }
            kept.room -= bytes;
        }
        let copy = |from: &[u8]| {
            let mut to = pool::with_capacity(from.len());
            to.extend_from_slice(from);
            to
        };
        let tail = Tail {
            dropped: dropped + skipped,
            entries: values.entries - skipped,
            key_bytes: values.key_bytes + start,
            sizes: values.sizes,
            data: copy(data),
            offsets: offsets.map(copy),
        };
        self.kept().tails.insert((branch, basket), tail);
    }
}

impl Tail {
    fn bytes(&self) -> usize {
        self.data.len() + self.offsets.as_ref().map_or(0, Vec::len)
    }
    /// As a basket that starts with the first entry here.
    pub fn values(&self) -> Values<'_> {
        Values {
            data: &self.data,
            offsets: self.offsets.as_deref(),
            key_bytes: self.key_bytes,
            entries: self.entries,
            sizes: self.sizes,
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        pool::give_back(std::mem::take(&mut self.data));
    }
}
