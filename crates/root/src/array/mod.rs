//! Columns in Arrow layout.

mod builder;
mod common;
pub mod extremes;
mod join;
#[cfg(target_os = "linux")]
pub mod mapped;
pub mod mix;
pub mod pages;
pub mod pool;
pub mod wide;

pub use crate::types::Number;
pub use builder::{Builder, Dynamic, missing_in};
pub use common::{CommonOffsets, Growing};
pub use join::join;

use crate::error::Result;
use crate::wire::grow;
use arrow_buffer::Buffer;

/// The type of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// One number in each entry.
    Number(Number),
    /// Text: UTF-8, unchecked.
    Text,
    /// Lists of `size` elements.
    FixedList {
        /// Elements in each list.
        size: usize,
        /// Element type.
        item: Box<Type>,
    },
    /// Lists of variable length.
    List(Box<Type>),
    /// Named fields.
    Record {
        /// Class name; empty for an anonymous record.
        name: String,
        /// Names and types in order.
        fields: Vec<(String, Type)>,
    },
    /// Optional values.
    Option(Box<Type>),
    /// Values of several types.
    Union(Vec<Type>),
    /// Types that depend on the data: objects behind pointers, elements of a `TClonesArray`.
    Dynamic,
}

impl Type {
    /// Returns the optional type. Options are not nested; in a union, the first type becomes optional.
    #[must_use]
    pub fn optional(self) -> Self {
        match self {
            Self::Option(_) => self,
            Self::Union(mut variants) => {
                if let Some(first) = variants.first_mut() {
                    *first = std::mem::replace(first, Self::Dynamic).optional();
                }
                Self::Union(variants)
            }
            other => Self::Option(Box::new(other)),
        }
    }
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
        /// Starts and final end, i64.
        offsets: Buffer,
        /// All strings end to end.
        bytes: Buffer,
    },
    /// Lists of fixed size.
    FixedList {
        /// Number of lists (needed when `size` is 0).
        length: usize,
        /// Elements in each list.
        size: usize,
        /// All elements end to end.
        values: Box<Column>,
    },
    /// Lists: `offsets` (i64, length + 1) into `values`.
    List {
        /// Starts and final end, i64.
        offsets: Buffer,
        /// All elements end to end.
        values: Box<Column>,
    },
    /// Records: fields of equal length.
    Record {
        /// Number of records (needed when there are no fields).
        length: usize,
        /// Class name; empty for an anonymous record.
        name: String,
        /// Names and columns in order.
        fields: Vec<(String, Column)>,
    },
    /// Optional values: `index` (i64, -1 for missing) into `values`.
    Option {
        /// Places of the values.
        index: Buffer,
        /// The values.
        values: Box<Column>,
    },
    /// Values of several types: `tags` (i8) selects the column, `index` (i64) the place in it.
    Union {
        /// Index of the column of each value.
        tags: Buffer,
        /// Place of each value in its column.
        index: Buffer,
        /// The columns.
        variants: Vec<Column>,
    },
    /// No values; the type never occurred.
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

    /// Bytes of the values, without those of names.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Number { values, .. } => values.len(),
            Self::Text { offsets, bytes } => offsets.len() + bytes.len(),
            Self::FixedList { values, .. } => values.bytes(),
            Self::List { offsets, values } => offsets.len() + values.bytes(),
            Self::Record { fields, .. } => fields.iter().map(|(_, field)| field.bytes()).sum(),
            Self::Option { index, values } => index.len() + values.bytes(),
            Self::Union { tags, index, variants } => {
                tags.len() + index.len() + variants.iter().map(Self::bytes).sum::<usize>()
            }
            Self::Empty => 0,
        }
    }

    /// Returns the value at each place, or a missing value for a negative place: a column of [`Type::optional`].
    ///
    /// # Errors
    /// When there is no memory.
    pub fn optional(self, mut places: Vec<i64>) -> Result<Self> {
        Ok(match self {
            Self::Option { index, values } => {
                places.iter_mut().for_each(|place| *place = word_at(&index, *place).unwrap_or(-1));
                Self::Option { index: Buffer::from_vec(places), values }
            }
            Self::Union { tags, index, variants } => {
                let mut variants = variants.into_iter();
                let (first, none) = variants.next().unwrap_or(Self::Empty).with_none()?;
                let tag = |place: i64| {
                    usize::try_from(place).ok().and_then(|at| tags.get(at)).map(|&tag| tag as i8)
                };
                let mut new_tags: Vec<i8> = grow::with_room(places.len())?;
                new_tags.extend(places.iter().map(|&place| tag(place).unwrap_or(0)));
                places.iter_mut().for_each(|place| *place = word_at(&index, *place).unwrap_or(none));
                let variants = std::iter::once(first).chain(variants).collect();
                Self::Union { tags: Buffer::from_vec(new_tags), index: Buffer::from_vec(places), variants }
            }
            values => Self::Option { index: Buffer::from_vec(places), values: Box::new(values) },
        })
    }

    /// Returns the same values plus a missing one, with its place: a column of [`Type::optional`].
    ///
    /// # Errors
    /// When there is no memory.
    pub fn with_none(self) -> Result<(Self, i64)> {
        let none = self.len() as i64;
        let mut places = grow::with_room(self.len() + 1)?;
        places.extend((0..none).chain([-1]));
        Ok((self.optional(places)?, none))
    }
}

/// Reads a 64-bit number.
fn word_at(words: &[u8], place: i64) -> Option<i64> {
    let words = words.as_chunks().0;
    usize::try_from(place).ok().and_then(|at| words.get(at)).map(|word| i64::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(values: &[i32]) -> Column {
        Column::Number { number: Number::I32, values: Buffer::from_vec(values.to_vec()) }
    }
    fn words(buffer: &Buffer) -> Vec<i64> {
        (0..buffer.len() as i64 / 8).filter_map(|i| word_at(buffer, i)).collect()
    }

    #[test]
    fn options_of_options_are_options() {
        let inner = numbers(&[5, 6]).optional(vec![0, -1, 1]).unwrap();
        let Column::Option { index, values } = inner.optional(vec![2, 1, -1]).unwrap() else {
            unreachable!()
        };
        assert_eq!((words(&index), values.len()), (vec![1, -1, -1], 2));
        let nested = Type::Option(Box::new(Type::Text));
        assert_eq!(nested.clone().optional(), nested);
    }

    #[test]
    fn a_union_has_its_none_in_the_first_type() {
        let tags = Buffer::from_vec(vec![1i8, 0]);
        let index = Buffer::from_vec(vec![0i64, 0]);
        let union = Column::Union { tags, index, variants: vec![numbers(&[5]), numbers(&[7])] };
        let Column::Union { tags, index, variants } = union.optional(vec![-1, 0, 1]).unwrap() else {
            unreachable!()
        };
        assert_eq!((tags.as_slice(), words(&index)), (&[0, 1, 0][..], vec![1, 0, 0]));
        let Column::Option { index, .. } = &variants[0] else { unreachable!() };
        assert_eq!(words(index), [0, -1]);
    }
}
