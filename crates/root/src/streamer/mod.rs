//! Classes and their versions, from the streamer info of the file.

pub mod builtin;
pub mod compile;
mod containers;
pub mod datatype;
pub mod declare;
pub mod decode;
pub mod encode;
pub mod info;
pub mod kind;
pub mod name;
pub mod object;
pub mod packed;
mod special;
pub mod typename;
mod values;

pub use info::{Classes, Element, ElementClass, StreamerInfo};
pub use object::{Object, ObjectReader, SharedObject, Value};
