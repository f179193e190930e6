//! Classes and their versions.
