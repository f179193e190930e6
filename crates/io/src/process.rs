//! Locks, and values that belong to one process, including a process forked while other threads were running.
//!
//! A lock that another thread held during the fork is never released in the child. A child therefore never waits for
//! anything inherited: it creates the values that it needs again, behind a pointer, and leaves the old ones untouched.

#![allow(unsafe_code, reason = "a value that is never freed while it can be seen, found without any lock")]

use std::io::{Error, Result};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also if a thread panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A value of this process. A forked child gets another one.
pub struct PerProcess<T> {
    slot: AtomicPtr<Of<T>>,
    /// Can be shared among threads only if the value can.
    of: PhantomData<Of<T>>,
}

struct Of<T> {
    process: u32,
    value: T,
}

impl<T: Send + Sync> PerProcess<T> {
    /// Creates an empty slot; the value is created at first use.
    pub const fn empty() -> Self {
        Self { slot: AtomicPtr::new(ptr::null_mut()), of: PhantomData }
    }

    /// Creates a slot with the value of the current process.
    pub fn new(value: T) -> Self {
        let of = Box::into_raw(Box::new(Of { process: std::process::id(), value }));
        Self { slot: AtomicPtr::new(of), of: PhantomData }
    }

    /// Returns the value of this process. If there is none, `make` creates it from the inherited value, if any. Threads
    /// that do not exist here may hold the locks of the inherited value: `make` must not wait for them.
    pub fn get(&self, make: impl FnOnce(Option<&T>) -> T) -> &T {
        let process = std::process::id();
        let found = self.slot.load(Ordering::Acquire);
        // SAFETY: the pointer in the slot was made by `Box::into_raw`, and is freed with this object only.
        let inherited = unsafe { found.as_ref() };
        if let Some(of) = inherited.filter(|of| of.process == process) {
            return &of.value;
        }
        let value = make(inherited.map(|of| &of.value));
        let new = Box::into_raw(Box::new(Of { process, value }));
        match self.slot.compare_exchange(found, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as above; it is in the slot now.
            Ok(_) => unsafe { &(*new).value },
            Err(now) => {
                // SAFETY: the new value was never shared; another thread of this process has put its own into the slot.
                unsafe {
                    drop(Box::from_raw(new));
                    &(*now).value
                }
            }
        }
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let found = *self.slot.get_mut();
        // SAFETY: no one else has it now. An inherited value is leaked, because freeing it could wait for its
        // locks.
        unsafe {
            if found.as_ref().is_some_and(|of| of.process == std::process::id()) {
                drop(Box::from_raw(found));
            }
        }
    }
}

/// The process that opened something for writing. A forked child inherits the handle but must not use it.
#[derive(Debug, Clone, Copy)]
pub struct Owner(u32);

impl Owner {
    /// Returns this process as the owner.
    pub fn here() -> Self {
        Self(std::process::id())
    }
    /// Whether this process is the owner.
    pub fn is_here(self) -> bool {
        self.0 == std::process::id()
    }
    /// Returns an error in a forked child, which must not write.
    pub fn check(self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(Error::other(format!(
            "this file was opened for writing by process {}, before fork(); only that process can write to it",
            self.0
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    #[test]
    fn threads_that_come_together_get_one_value() {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let own: PerProcess<Box<usize>> = PerProcess::empty();
        let make = || **own.get(|_| Box::new(MADE.fetch_add(1, Ordering::Relaxed)));
        let found: Vec<usize> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|value| *value == make()));
    }

    #[test]
    fn what_another_process_made_is_only_looked_at() {
        let mut own = PerProcess::new(vec![1]);
        let inherited = *own.slot.get_mut();
        // SAFETY: it exists, and no one else has it.
        unsafe { (*inherited).process = 0 };
        assert_eq!(*own.get(|old| old.into_iter().flatten().chain(&[2]).copied().collect()), [1, 2]);
        assert_eq!(*own.get(|_| Vec::new()), [1, 2]);
        drop(own);
        // SAFETY: it was made by `Box::into_raw`, and is in the slot no more. A child leaks it.
        unsafe { drop(Box::from_raw(inherited)) };
    }
}
