//! Classes of ROOT's own that a damaged file may fail to describe.

use super::Classes;
use std::sync::OnceLock;

/// The built-in classes.
pub fn classes() -> &'static Classes {
    static CLASSES: OnceLock<Classes> = OnceLock::new();
    CLASSES.get_or_init(Classes::default)
}
