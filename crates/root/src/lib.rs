//! The ROOT file formats, read and written without ROOT.
//!
//! Layers; each knows only those before it in this list:
//! [`types`] the table of number types; [`wire`] bytes to numbers, strings and framed objects; [`compress`] the block codecs;
//! [`mod@array`] columns in Arrow layout; [`streamer`] classes and their versions; [`mod@file`] header, keys, directories, free segments;
//! [`table`] what any table of entries is; [`read`] the engine that reads them; [`expr`] expressions over
//! what it reads; [`tree`] the tables called trees; [`ntuple`] those called RNTuples; [`output`] a file with the tables that are written to it.
//!
//! Untrusted bytes: no input makes this crate panic, loop without end, or allocate more than a small multiple of
//! the input plus the requested output. Damage is an [`Error`] with its place, never a partial result.

pub mod array;
pub mod compress;
pub mod error;
pub mod expr;
pub mod file;
pub mod ntuple;
pub mod output;
pub mod read;
pub mod streamer;
pub mod table;
pub mod tree;
pub mod types;
pub mod wire;
pub mod zebra;

pub use error::{Error, ErrorKind, Result};
