//! Bytes to numbers, strings and framed objects, and back.
