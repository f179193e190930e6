//! Vectors that grow with what a file says: without memory they end in an error, not in an abort.

use crate::error::{Error, Result};
use rayon::prelude::*;
use sapwood_io::memory_left;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

/// Containers that report an error if they cannot grow.
pub trait Grow<T> {
    /// Makes room for `more` values.
    fn room(&mut self, more: usize) -> Result<()>;
    /// Appends a value.
    fn try_push(&mut self, value: T) -> Result<()>;
    /// Appends copies of values.
    fn try_extend(&mut self, values: &[T]) -> Result<()>
    where
        T: Copy;
    /// Appends `more` copies of a value.
    fn try_fill(&mut self, more: usize, value: T) -> Result<()>
    where
        T: Copy;
}

impl<T> Grow<T> for Vec<T> {
    #[inline]
    fn room(&mut self, more: usize) -> Result<()> {
        if more > self.capacity() - self.len() { refill(self, more) } else { Ok(()) }
    }
    #[inline]
    fn try_push(&mut self, value: T) -> Result<()> {
        self.room(1)?;
        self.push(value);
        Ok(())
    }
    #[inline]
    fn try_extend(&mut self, values: &[T]) -> Result<()>
    where
        T: Copy,
    {
        self.room(values.len())?;
        self.extend_from_slice(values);
        Ok(())
    }
    fn try_fill(&mut self, more: usize, value: T) -> Result<()>
    where
        T: Copy,
    {
        self.room(more)?;
        self.resize(self.len() + more, value);
        Ok(())
    }
}

#[cold]
fn refill<T>(values: &mut Vec<T>, more: usize) -> Result<()> {
    let have = values.len();
    left(values.try_reserve(more).is_ok(), || have.saturating_add(more).saturating_mul(size_of::<T>()))
}

/// An error if a request was refused, or if the system has no memory: the request was then granted from the reserve.
fn left(granted: bool, bytes: impl FnOnce() -> usize) -> Result<()> {
    if granted && memory_left() {
        Ok(())
    } else {
        Err(Error::no_memory(format!("no memory for {} bytes", bytes())))
    }
}

/// An error if the system has no memory. Code that makes many small allocations calls it from time to time.
#[inline]
pub fn check() -> Result<()> {
    if memory_left() { Ok(()) } else { Err(Error::no_memory("no memory")) }
}

/// Makes room in a text for more bytes.
pub fn room_for_text(text: &mut String, bytes: usize) -> Result<()> {
    left(text.try_reserve_exact(bytes).is_ok(), || bytes)
}

/// A copy of a text.
pub fn text(text: &str) -> Result<String> {
    let mut out = String::new();
    room_for_text(&mut out, text.len())?;
    out.push_str(text);
    Ok(out)
}

/// Makes room for one more in a map.
pub fn place<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) -> Result<()> {
    left(map.try_reserve(1).is_ok(), || (map.len() + 1).saturating_mul(size_of::<(K, V)>()))
}

/// Puts a value into a set; returns whether it was not there.
pub fn insert<T: Eq + Hash, S: BuildHasher>(set: &mut HashSet<T, S>, value: T) -> Result<bool> {
    left(set.try_reserve(1).is_ok(), || (set.len() + 1).saturating_mul(size_of::<T>()))?;
    Ok(set.insert(value))
}

/// An empty vector with room for exactly this many values.
pub fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut out = Vec::new();
    left(out.try_reserve_exact(count).is_ok(), || count.saturating_mul(size_of::<T>()))?;
    Ok(out)
}

/// This many copies of a value.
pub fn filled<T: Copy>(count: usize, value: T) -> Result<Vec<T>> {
    let mut out = with_room(count)?;
    out.resize(count, value);
    Ok(out)
}

/// A copy of values.
pub fn copied<T: Copy>(values: &[T]) -> Result<Vec<T>> {
    let mut out = with_room(values.len())?;
    out.extend_from_slice(values);
    Ok(out)
}

/// The value of each item, computed on the pool. `begin` makes what several computations of a thread share.
pub fn mapped<T: Sync, S, U: Send>(
    items: &[T],
    begin: impl Fn() -> S + Send + Sync,
    compute: impl Fn(&mut S, &T) -> Result<U> + Send + Sync,
) -> Result<Vec<U>> {
    let mut found: Vec<Option<U>> = with_room(items.len())?;
    found.resize_with(items.len(), || None);
    let compute = |shared: &mut S, (item, to): (&T, &mut Option<U>)| {
        *to = Some(compute(shared, item)?);
        Ok::<_, Error>(())
    };
    items.par_iter().zip(&mut found).try_for_each_init(begin, compute)?;
    let mut out = with_room(items.len())?;
    out.extend(found.into_iter().flatten());
    Ok(out)
}

/// The values of an iterator.
pub fn collected<T>(values: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut out = Vec::new();
    for value in values {
        out.try_push(value)?;
    }
    Ok(out)
}
