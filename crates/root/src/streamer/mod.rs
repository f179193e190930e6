//! Classes and their versions, as the file's streamer info describes them.

pub mod builtin;
pub mod encode;
pub mod info;
pub mod kind;

pub use info::{Classes, Element, ElementClass, StreamerInfo};
