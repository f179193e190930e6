//! Columns while they grow.

use super::{Column, Number, Type};
use arrow_buffer::Buffer;

/// A column that values are appended to.
#[derive(Debug)]
pub enum Builder {
    /// Numbers in native byte order.
    Number {
        /// Element type.
        number: Number,
        /// The elements.
        values: Vec<u8>,
    },
    /// Strings.
    Text {
        /// Starts and end.
        offsets: Vec<i64>,
        /// All strings end to end.
        bytes: Vec<u8>,
    },
    /// Lists of one size.
    FixedList {
        /// Lists so far.
        length: usize,
        /// Elements per list.
        size: usize,
        /// The elements.
        values: Box<Builder>,
    },
    /// Lists.
    List {
        /// Starts and end.
        offsets: Vec<i64>,
        /// The elements.
        values: Box<Builder>,
    },
    /// Records.
    Record {
        /// Records so far.
        length: usize,
        /// Class name.
        name: String,
        /// The fields.
        fields: Vec<(String, Builder)>,
    },
}

impl Builder {
    /// An empty column of a type.
    pub fn new(of: &Type) -> Self {
        match of {
            Type::Number(number) => Self::Number { number: *number, values: Vec::new() },
            Type::Text => Self::Text { offsets: vec![0], bytes: Vec::new() },
            Type::FixedList { size, item } => {
                Self::FixedList { length: 0, size: *size, values: Box::new(Self::new(item)) }
            }
            Type::List(item) => Self::List { offsets: vec![0], values: Box::new(Self::new(item)) },
            Type::Record { name, fields } => Self::Record {
                length: 0,
                name: name.clone(),
                fields: fields.iter().map(|(n, t)| (n.clone(), Self::new(t))).collect(),
            },
        }
    }

    /// An empty builder of the same type.
    #[must_use]
    pub fn like(&self) -> Self {
        match self {
            Self::Number { number, .. } => Self::Number { number: *number, values: Vec::new() },
            Self::Text { .. } => Self::Text { offsets: vec![0], bytes: Vec::new() },
            Self::FixedList { size, values, .. } => {
                Self::FixedList { length: 0, size: *size, values: Box::new(values.like()) }
            }
            Self::List { values, .. } => Self::List { offsets: vec![0], values: Box::new(values.like()) },
            Self::Record { name, fields, .. } => Self::Record {
                length: 0,
                name: name.clone(),
                fields: fields.iter().map(|(n, f)| (n.clone(), f.like())).collect(),
            },
        }
    }

    /// Values so far.
    pub fn len(&self) -> usize {
        match self {
            Self::Number { number, values } => values.len() / number.size(),
            Self::Text { offsets, .. } | Self::List { offsets, .. } => offsets.len() - 1,
            Self::FixedList { length, .. } | Self::Record { length, .. } => *length,
        }
    }

    /// Whether there are no values yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the values of a builder of the same type.
    pub fn append(&mut self, other: &Builder) {
        match (self, other) {
            (Self::Number { values, .. }, Self::Number { values: more, .. }) => values.extend_from_slice(more),
            (Self::Text { offsets, bytes }, Self::Text { offsets: more, bytes: text }) => {
                extend_offsets(offsets, more);
                bytes.extend_from_slice(text);
            }
            (Self::FixedList { length, values, .. }, Self::FixedList { length: n, values: more, .. }) => {
                *length += n;
                values.append(more);
            }
            (Self::List { offsets, values }, Self::List { offsets: more, values: items }) => {
                extend_offsets(offsets, more);
                values.append(items);
            }
            (Self::Record { length, fields, .. }, Self::Record { length: n, fields: more, .. }) => {
                *length += n;
                for ((_, field), (_, more)) in fields.iter_mut().zip(more) {
                    field.append(more);
                }
            }
            // Builders of one branch are made from one type.
            _ => debug_assert!(false, "builders of different types"),
        }
    }

    /// The finished column; buffers are handed over, not copied.
    pub fn finish(self) -> Column {
        match self {
            Self::Number { number, values } => Column::Number { number, values: Buffer::from_vec(values) },
            Self::Text { offsets, bytes } => {
                Column::Text { offsets: Buffer::from_vec(offsets), bytes: Buffer::from_vec(bytes) }
            }
            Self::FixedList { length, size, values } => {
                Column::FixedList { length, size, values: Box::new(values.finish()) }
            }
            Self::List { offsets, values } => {
                Column::List { offsets: Buffer::from_vec(offsets), values: Box::new(values.finish()) }
            }
            Self::Record { length, name, fields } => Column::Record {
                length,
                name,
                fields: fields.into_iter().map(|(n, f)| (n, f.finish())).collect(),
            },
        }
    }
}

fn extend_offsets(offsets: &mut Vec<i64>, more: &[i64]) {
    let last = offsets.last().copied().unwrap_or_default();
    offsets.extend(more.iter().skip(1).map(|o| last + o));
}
