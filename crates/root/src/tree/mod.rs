//! Where entries live, and how they become columns.

pub mod writer;
