//! ZEBRA's sequential (FZ) and direct-access (RZ) files, and HBOOK objects in RZ files.
//!
//! The layers; each uses only those above it in this list:
//!
//! * [`words`]: 32-bit words in one byte order,
//! * [`layout`]: the kinds of the words in a bank,
//! * [`bank`]: banks and their links,
//! * [`fz`] and [`rz`]: the two kinds of files,
//! * [`hbook`]: histograms and ntuples.

pub mod alfa;
pub mod bank;
mod buffers;
pub mod collect;
mod columns;
pub mod fz;
pub mod hbook;
pub mod layout;
pub mod models;
pub mod ntuple;
pub mod rz;
pub mod words;
pub mod write;
