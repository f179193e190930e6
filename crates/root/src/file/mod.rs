//! Header, keys, directories, free segments.
