//! ZEBRA's sequential (FZ) and direct-access (RZ) files, and what HBOOK keeps in the latter.
//!
//! Layers, each knowing only those above it in this list: [`words`] 32-bit words in one byte order; [`layout`] which
//! words of a bank are of what kind; [`bank`] banks and their links; [`fz`] and [`rz`] the two kinds of files;
//! [`hbook`] histograms and ntuples.

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
