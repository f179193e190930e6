//! Calls of Python objects that files are stored in. While such an object reads or writes for a file, it cannot use that
//! file itself: its call may hold locks that the use would wait for.

use pyo3::prelude::*;
use sapwood_root::{Error, ErrorKind};
use std::cell::RefCell;

thread_local! {
    /// Addresses of the objects whose calls this thread is in.
    static CALLED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The address by which an object is known here.
pub fn address(object: &Py<PyAny>) -> usize {
    object.as_ptr().addr()
}

/// Whether this thread is in a call of the object with this address.
pub fn is_called(address: usize) -> bool {
    CALLED.with_borrow(|called| called.contains(&address))
}

/// Returns the error for the use of a file by the object that it is stored in.
pub fn error(name: &str) -> Error {
    let text = "the object with the bytes of this file used the file during its own read() or write(): open the file \
                again for that, from another object";
    Error::new(ErrorKind::Io, text).within(name)
}

/// A call of an object, until it is dropped.
pub struct Call;

impl Call {
    /// Begins a call on this thread; `None` if there is one already.
    pub fn of(object: &Py<PyAny>) -> Option<Self> {
        let address = address(object);
        CALLED.with_borrow_mut(|called| {
            let is_first = !called.contains(&address);
            called.extend(is_first.then_some(address));
            is_first.then_some(Self)
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        CALLED.with_borrow_mut(Vec::pop);
    }
}
