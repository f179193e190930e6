//! Byte ranges between storage and memory.
