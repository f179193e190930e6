//! Byte ranges between storage and memory: the only crate that opens files or sockets.
//!
//! A [`Source`] delivers exact byte ranges and counts them. Sources in memory or on a local disk deliver at once. A
//! [`Remote`] source plans requests to a [`Transport`], prefetches announced ranges, and retries failed requests.

pub mod blocks;
pub mod cancel;
mod checksum;
pub mod counters;
pub mod http;
pub mod ledger;
pub mod plan;
pub mod prior;
mod process;
pub mod remote;
pub mod reserve;
pub mod sink;
pub mod source;
mod system;
pub mod trace;
pub mod x509;
pub mod xrootd;

pub use cancel::Token;
pub use checksum::Checksum;
pub use counters::Counters;
pub use ledger::{Incident, Ledger};
pub use plan::{Range, Request, coalesce};
pub use prior::Prior;
pub use process::{Owner, PerProcess, lock};
pub use remote::{Announced, Fault, Options, Remote, Transport, Version};
pub use reserve::{Reserve, memory_left};
pub use source::{Local, Memory, Origin, Source, open};
pub use trace::Cause;
