//! Columns in Arrow layout, and the one table of element types.

mod builder;
pub mod pool;

pub use builder::{Builder, Dynamic};

use arrow_buffer::Buffer;

/// A fixed-width element as it lies in memory (native byte order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Number {
    /// One byte, 0 or 1.
    Bool,
    /// 8-bit signed.
    I8,
    /// 8-bit unsigned.
    U8,
    /// 16-bit signed.
    I16,
    /// 16-bit unsigned.
    U16,
    /// 32-bit signed.
    I32,
    /// 32-bit unsigned.
    U32,
    /// 64-bit signed.
    I64,
    /// 64-bit unsigned.
    U64,
    /// IEEE single precision.
    F32,
    /// IEEE double precision.
    F64,
}

impl Number {
    /// Bytes an element takes in memory.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// What a column holds, without its values.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// One number an entry.
    Number(Number),
    /// UTF-8 (or unchecked bytes of) text.
    Text,
    /// Always `size` elements.
    FixedList {
        /// Elements per list.
        size: usize,
        /// Of what.
        item: Box<Type>,
    },
    /// Any number of elements.
    List(Box<Type>),
    /// Named fields.
    Record {
        /// Class name, empty for an anonymous record.
        name: String,
        /// Names and types in order.
        fields: Vec<(String, Type)>,
    },
    /// What the data say: objects behind pointers, elements of a `TClonesArray`.
    Dynamic,
}

/// Values of one [`Type`], in Arrow layout. Buffers are native-endian and may be shared.
#[derive(Debug, Clone)]
pub enum Column {
    /// `values.len() / number.size()` elements.
    Number {
        /// Element type.
        number: Number,
        /// The elements.
        values: Buffer,
    },
    /// Text: `offsets` (i64, length + 1) into `bytes`.
    Text {
        /// Starts and end, i64.
        offsets: Buffer,
        /// All strings end to end.
        bytes: Buffer,
    },
    /// Lists of one size.
    FixedList {
        /// Number of lists (needed when `size` is 0).
        length: usize,
        /// Elements per list.
        size: usize,
        /// All elements end to end.
        values: Box<Column>,
    },
    /// Lists: `offsets` (i64, length + 1) into `values`.
    List {
        /// Starts and end, i64.
        offsets: Buffer,
        /// All elements end to end.
        values: Box<Column>,
    },
    /// Records: fields of equal length.
    Record {
        /// Number of records (needed when there are no fields).
        length: usize,
        /// Class name, empty for an anonymous record.
        name: String,
        /// Names and columns in order.
        fields: Vec<(String, Column)>,
    },
    /// Values or none: `index` (i64, -1 for none) into `values`.
    Option {
        /// Places of the values.
        index: Buffer,
        /// The values.
        values: Box<Column>,
    },
    /// Values of several types: `tags` (i8) choose the column, `index` (i64) the place in it.
    Union {
        /// Number of the column of each value.
        tags: Buffer,
        /// Place in that column.
        index: Buffer,
        /// The columns.
        variants: Vec<Column>,
    },
    /// No values, of a type that never occurred.
    Empty,
}

impl Column {
    /// Number of elements (lists count as one).
    pub fn len(&self) -> usize {
        match self {
            Self::Number { number, values } => values.len() / number.size(),
            Self::Text { offsets, .. } | Self::List { offsets, .. } => (offsets.len() / 8).saturating_sub(1),
            Self::FixedList { length, .. } | Self::Record { length, .. } => *length,
            Self::Option { index, .. } | Self::Union { index, .. } => index.len() / 8,
            Self::Empty => 0,
        }
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
