//! Cancelling operations that are in progress.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Interval at which a waiting thread checks for cancellation.
pub const LOOK: Duration = Duration::from_millis(50);

/// Tells the threads of one operation that its result is no longer needed.
#[derive(Debug, Clone, Default)]
pub struct Token(Arc<AtomicBool>);

thread_local! {
    static CURRENT: RefCell<Option<Token>> = const { RefCell::new(None) };
}

impl Token {
    /// Cancels the operation.
    pub fn give_up(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
    /// Whether the operation was cancelled.
    pub fn is_given_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
    /// Does work for the operation on this thread.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = CURRENT.replace(Some(self.clone()));
        let result = work();
        CURRENT.set(before);
        result
    }
    /// Returns the token of the operation for which this thread works.
    pub fn current() -> Self {
        CURRENT.with_borrow(|token| token.clone().unwrap_or_default())
    }
}

/// Whether the operation for which this thread works was cancelled.
pub fn given_up() -> bool {
    CURRENT.with_borrow(|token| token.as_ref().is_some_and(Token::is_given_up))
}

/// Sleeps for a time, or until the operation for which this thread works is cancelled.
pub fn sleep(time: Duration) {
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero())
        && !given_up()
    {
        thread::sleep(left.min(LOOK));
    }
}
