//! One error type for the crate: what kind, what was wrong, and where.

use std::fmt;

/// Why an operation failed; each kind maps to one Python exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The storage could not deliver or take the bytes.
    Io,
    /// The file was written to while it was read.
    Changed,
    /// The bytes contradict the format.
    Corrupt,
    /// The bytes may be right, but this version of sapwood cannot read or write them.
    Unsupported,
    /// A stated limit on memory, depth or size would be passed.
    Limit,
    /// The requested name does not exist.
    NotFound,
    /// The caller's arguments do not fit together.
    Argument,
}

/// An error with its place: a trail of enclosing objects, innermost last, and a byte offset.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    offset: Option<u64>,
    trail: Vec<String>,
    class: Option<String>,
    column: Option<usize>,
    short: bool,
    memory: bool,
}

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            offset: None,
            trail: Vec::new(),
            class: None,
            column: None,
            short: false,
            memory: false,
        }))
    }
    /// The bytes contradict the format.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }
    /// Not readable or writable by this version.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }
    /// A stated limit would be passed.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Limit, message)
    }
    /// The system has no memory.
    pub fn no_memory(message: impl Into<String>) -> Self {
        let mut made = Self::limit(message);
        made.0.memory = true;
        made
    }
    /// Whether the system has no memory. Such an error says nothing about the file, so it is never put aside.
    pub fn is_no_memory(&self) -> bool {
        self.0.memory
    }
    /// The requested name does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }
    /// The caller's arguments do not fit.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Argument, message)
    }
    /// Adds the byte offset (in the file, or in the uncompressed object the trail names) unless one is known.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset.get_or_insert(offset);
        self
    }
    /// Adds an enclosing object to the trail, outermost called last.
    #[must_use]
    pub fn within(mut self, place: impl Into<String>) -> Self {
        self.0.trail.insert(0, place.into());
        self
    }
    /// Records the class whose objects can be skipped but not decoded, unless a class is recorded already.
    #[must_use]
    pub fn of_class(mut self, class: &str) -> Self {
        self.0.class.get_or_insert_with(|| class.to_owned());
        self
    }
    /// The class whose objects can be skipped but not decoded.
    pub fn class(&self) -> Option<&str> {
        self.0.class.as_deref()
    }
    /// Marks the error as caused by bytes that ended too early.
    #[must_use]
    pub fn short(mut self) -> Self {
        self.0.short = true;
        self
    }
    /// Whether the bytes ended too early.
    pub fn is_short(&self) -> bool {
        self.0.short
    }
    /// Turns the error into one for an object whose members exceed its known end: most likely its class writes other
    /// bytes than the file describes, so the object can be skipped.
    #[must_use]
    pub fn of_own_streamer(mut self) -> Self {
        self.0.kind = ErrorKind::Unsupported;
        self.0.short = false;
        self.0.message.push_str(": its class has a streamer of its own, or the file is damaged");
        self
    }
    /// Adds the index of the failing column among those read together.
    #[must_use]
    pub fn of_column(mut self, column: usize) -> Self {
        self.0.column.get_or_insert(column);
        self
    }
    /// Index of the failing column among those read together.
    pub fn column(&self) -> Option<usize> {
        self.0.column
    }
    /// Adds to a contradiction, or to a read beyond the end of the file, the reason that the file was written to since
    /// it was opened.
    #[must_use]
    pub fn of_change(mut self) -> Self {
        if self.0.kind == ErrorKind::Corrupt || (self.0.kind == ErrorKind::Io && self.0.short) {
            self.0.kind = ErrorKind::Changed;
            self.0.message.insert_str(0, "the file was written to while it was read: open it again; ");
        }
        self
    }
    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The byte offset of the fault, if it is known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }
    /// The message without its place.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        for (i, place) in self.0.trail.iter().rev().enumerate() {
            write!(f, "{}{place}", if i == 0 { " (in " } else { ", in " })?;
        }
        match (self.0.trail.is_empty(), self.0.offset) {
            (true, None) => Ok(()),
            (true, Some(o)) => write!(f, " (at byte {o})"),
            (false, None) => f.write_str(")"),
            (false, Some(o)) => write!(f, ", at byte {o})"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        let short = error.kind() == std::io::ErrorKind::UnexpectedEof;
        let made = Self::new(ErrorKind::Io, error.to_string());
        if short { made.short() } else { made }
    }
}

/// Adds a place to the error of a result.
pub trait Within<T> {
    /// As [`Error::within`], computed only when there is an error.
    fn within<S: Into<String>>(self, place: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<Error>> Within<T> for std::result::Result<T, E> {
    fn within<S: Into<String>>(self, place: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|e| e.into().within(place()))
    }
}
