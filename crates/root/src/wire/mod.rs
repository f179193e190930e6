//! Bytes to numbers, strings and framed objects, and back.
//!
//! ROOT writes big-endian. An object starts with a byte count and a version (`TBufferFile::ReadVersion`), pointers
//! to objects with a tag that names a class or an object seen before (`TBufferFile::ReadObjectAny`).

pub mod cursor;
pub mod grow;
mod key;
pub mod short;
pub mod swap;
pub mod writer;

pub use cursor::{Cursor, Frame, Pointer};
pub use key::Key;
