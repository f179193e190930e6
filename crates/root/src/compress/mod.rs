//! The block codecs.
