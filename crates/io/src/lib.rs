//! Byte ranges between storage and memory: the only crate that opens files or sockets.
//!
//! A [`Source`] hands out exact byte ranges and counts what it is asked for; [`coalesce`] merges many small
//! ranges into few large requests.

pub mod counters;
pub mod plan;
pub mod sink;
pub mod source;

pub use counters::Counters;
pub use plan::{Range, Request, coalesce};
pub use source::{Local, Memory, Source, open};
