//! Names of classes and members, shared by all objects with the same name.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A string that is cheap to copy.
#[derive(Clone)]
pub enum Name {
    /// Known at compile time.
    Fixed(&'static str),
    /// Read from a file.
    Shared(Arc<str>),
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        match self {
            Self::Fixed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::Fixed("")
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Self {
        Self::Fixed(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl From<Arc<str>> for Name {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Name {}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}
