//! Columns while they grow.

use super::{Column, Number, Type, pool};
use crate::error::{Error, Result};
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
    /// Values whose type the data name.
    Dynamic(Dynamic),
}

/// Values of the classes that occur, or none.
#[derive(Debug, Default)]
pub struct Dynamic {
    /// For each value the number of its variant, or -1 for none.
    tags: Vec<i32>,
    /// For each value its place in the variant.
    index: Vec<i64>,
    variants: Vec<(String, Builder)>,
}

impl Dynamic {
    /// Appends nothing.
    pub fn push_none(&mut self) {
        self.tags.push(-1);
        self.index.push(0);
    }
    /// The column for values of a class, made at its first occurrence; the caller appends `n` values to it.
    /// Nothing when there are too many classes.
    pub fn variant(&mut self, class: &str, n: usize, make: impl FnOnce() -> Builder) -> Option<&mut Builder> {
        let number = self.variants.iter().position(|(name, _)| name == class).unwrap_or(self.variants.len());
        if number == self.variants.len() {
            if number == MOST_VARIANTS {
                return None;
            }
            self.variants.push((class.to_owned(), make()));
        }
        let start = self.variants.get(number).map_or(0, |(_, b)| b.len()) as i64;
        self.tags.resize(self.tags.len() + n, number as i32);
        self.index.extend(start..start + n as i64);
        self.variants.get_mut(number).map(|(_, builder)| builder)
    }
    fn append(&mut self, other: &Dynamic) {
        let mut numbers = Vec::new();
        let mut starts = Vec::new();
        for (class, builder) in &other.variants {
            let found =
                self.variants.iter().position(|(name, _)| name == class).unwrap_or(self.variants.len());
            if found == self.variants.len() {
                self.variants.push((class.clone(), builder.like()));
            }
            if let Some((_, mine)) = self.variants.get_mut(found) {
                starts.push(mine.len() as i64);
                mine.append(builder);
            }
            numbers.push(found as i32);
        }
        for (&tag, &index) in other.tags.iter().zip(&other.index) {
            let at = usize::try_from(tag).ok();
            self.tags.push(at.and_then(|t| numbers.get(t)).copied().unwrap_or(-1));
            self.index.push(at.and_then(|t| starts.get(t)).map_or(0, |start| start + index));
        }
    }
    fn finish(mut self) -> Column {
        let some = self.tags.iter().any(|&t| t < 0);
        match self.variants.len() {
            0 if self.tags.is_empty() => Column::Empty,
            0 => Column::Option {
                index: Buffer::from_vec(vec![-1i64; self.tags.len()]),
                values: Box::new(Column::Empty),
            },
            1 => {
                let values = self.variants.pop().map_or(Column::Empty, |(_, b)| b.finish());
                if !some {
                    // Values were appended in order, so the index counts up.
                    return values;
                }
                let index: Vec<i64> =
                    self.tags.iter().zip(&self.index).map(|(&t, &i)| if t < 0 { -1 } else { i }).collect();
                Column::Option { index: Buffer::from_vec(index), values: Box::new(values) }
            }
            _ => {
                let mut variants: Vec<Column> = self.variants.into_iter().map(|(_, b)| b.finish()).collect();
                let mut tags: Vec<i8> = self.tags.iter().map(|&t| t.clamp(0, 127) as i8).collect();
                if some {
                    // None is a value of the first variant, made optional.
                    let first = variants.swap_remove(0);
                    let n = first.len() as i64;
                    let index = Buffer::from_vec((0..n).chain([-1]).collect::<Vec<i64>>());
                    variants.push(Column::Option { index, values: Box::new(first) });
                    let last = variants.len() - 1;
                    variants.swap(0, last);
                    for ((tag, index), &old) in tags.iter_mut().zip(&mut self.index).zip(&self.tags) {
                        if old < 0 {
                            *tag = 0;
                            *index = n;
                        }
                    }
                }
                Column::Union { tags: Buffer::from_vec(tags), index: Buffer::from_vec(self.index), variants }
            }
        }
    }
}

/// Classes that one column can tell apart.
pub const MOST_VARIANTS: usize = 127;

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
            Type::Dynamic => Self::Dynamic(Dynamic::default()),
        }
    }

    /// Makes room for values that take about so many bytes on disk, in the one buffer that will hold most of them.
    pub fn reserve(&mut self, bytes: usize) {
        match self {
            Self::Number { values, .. } if values.is_empty() => *values = pool::with_capacity(bytes),
            Self::List { values, .. } | Self::FixedList { values, .. } => values.reserve(bytes),
            _ => {}
        }
    }

    /// Has the memory ready that the next values will take, which are `bytes` on disk.
    pub fn expect(&mut self, bytes: usize) {
        match self {
            Self::Number { values, .. } => {
                let spare = values.spare_capacity_mut();
                let n = bytes.min(spare.len());
                pool::provide(spare.split_at_mut(n).0);
            }
            Self::List { values, .. } | Self::FixedList { values, .. } => values.expect(bytes),
            _ => {}
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
            Self::Dynamic(_) => Self::Dynamic(Dynamic::default()),
        }
    }

    /// Values so far.
    pub fn len(&self) -> usize {
        match self {
            Self::Number { number, values } => values.len() / number.size(),
            Self::Text { offsets, .. } | Self::List { offsets, .. } => offsets.len() - 1,
            Self::FixedList { length, .. } | Self::Record { length, .. } => *length,
            Self::Dynamic(d) => d.tags.len(),
        }
    }

    /// Whether there are no values yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the values of a builder of the same type.
    pub fn append(&mut self, other: &Builder) {
        match (self, other) {
            (Self::Number { values, .. }, Self::Number { values: more, .. }) => {
                values.extend_from_slice(more);
            }
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
            (Self::Dynamic(mine), Self::Dynamic(more)) => mine.append(more),
            // Builders of one branch are made from one type.
            _ => debug_assert!(false, "builders of different types"),
        }
    }

    /// Appends `n` zeros, empty strings, empty lists.
    pub fn append_default(&mut self, n: usize) {
        match self {
            Self::Number { number, values } => values.resize(values.len() + n * number.size(), 0),
            Self::Text { offsets, .. } | Self::List { offsets, .. } => {
                let last = offsets.last().copied().unwrap_or_default();
                offsets.resize(offsets.len() + n, last);
            }
            Self::FixedList { length, size, values } => {
                values.append_default(n * *size);
                *length += n;
            }
            Self::Record { length, fields, .. } => {
                fields.iter_mut().for_each(|(_, field)| field.append_default(n));
                *length += n;
            }
            Self::Dynamic(d) => (0..n).for_each(|_| d.push_none()),
        }
    }

    /// Appends the values of a builder of another type: numbers are converted, fields are found by name, those not
    /// found are zero.
    ///
    /// # Errors
    /// When values of one type have no meaning in the other.
    pub fn append_converted(&mut self, other: &Builder) -> Result<()> {
        match (self, other) {
            (Self::Number { number, values }, Self::Number { number: from, values: more }) => {
                if number == from {
                    values.extend_from_slice(more);
                } else {
                    convert(*number, *from, more, values);
                }
            }
            (Self::Text { offsets, bytes }, Self::Text { offsets: more, bytes: text }) => {
                extend_offsets(offsets, more);
                bytes.extend_from_slice(text);
            }
            (
                Self::FixedList { length, size, values },
                Self::FixedList { length: n, size: m, values: more },
            ) if size == m => {
                *length += n;
                values.append_converted(more)?;
            }
            (Self::List { offsets, values }, Self::List { offsets: more, values: items }) => {
                extend_offsets(offsets, more);
                values.append_converted(items)?;
            }
            (Self::Record { length, fields, .. }, Self::Record { length: n, fields: more, .. }) => {
                for (name, field) in fields.iter_mut() {
                    match more.iter().find(|(other, _)| other == name) {
                        Some((_, value)) => field.append_converted(value)?,
                        None => field.append_default(*n),
                    }
                }
                *length += n;
            }
            (Self::Dynamic(mine), Self::Dynamic(more)) => mine.append(more),
            _ => {
                return Err(Error::unsupported(
                    "a member changed its type in a way that cannot be converted",
                ));
            }
        }
        Ok(())
    }

    /// The finished column; buffers are handed over, not copied.
    pub fn finish(self) -> Column {
        match self {
            Self::Number { number, values } => Column::Number { number, values: pool::share(values) },
            Self::Text { offsets, bytes } => {
                Column::Text { offsets: Buffer::from_vec(offsets), bytes: pool::share(bytes) }
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
            Self::Dynamic(d) => d.finish(),
        }
    }
}

fn extend_offsets(offsets: &mut Vec<i64>, more: &[i64]) {
    let last = offsets.last().copied().unwrap_or_default();
    offsets.extend(more.iter().skip(1).map(|o| last + o));
}

/// Numbers of one type as numbers of another, as C++ converts them.
fn convert(to: Number, from: Number, bytes: &[u8], out: &mut Vec<u8>) {
    enum Any {
        Int(i128),
        Float(f64),
    }
    for word in bytes.chunks_exact(from.size()) {
        macro_rules! read {
            ($type:ty) => {
                <$type>::from_ne_bytes(word.first_chunk().copied().unwrap_or_default())
            };
        }
        let value = match from {
            Number::I8 => Any::Int(read!(i8).into()),
            Number::Bool | Number::U8 => Any::Int(read!(u8).into()),
            Number::I16 => Any::Int(read!(i16).into()),
            Number::U16 => Any::Int(read!(u16).into()),
            Number::I32 => Any::Int(read!(i32).into()),
            Number::U32 => Any::Int(read!(u32).into()),
            Number::I64 => Any::Int(read!(i64).into()),
            Number::U64 => Any::Int(read!(u64).into()),
            Number::F32 => Any::Float(read!(f32).into()),
            Number::F64 => Any::Float(read!(f64)),
        };
        macro_rules! write {
            ($type:ty) => {
                out.extend_from_slice(
                    &match value {
                        Any::Int(v) => v as $type,
                        Any::Float(v) => v as $type,
                    }
                    .to_ne_bytes(),
                )
            };
        }
        match to {
            Number::Bool => out.push(u8::from(match value {
                Any::Int(v) => v != 0,
                Any::Float(v) => v != 0.0,
            })),
            Number::I8 => write!(i8),
            Number::U8 => write!(u8),
            Number::I16 => write!(i16),
            Number::U16 => write!(u16),
            Number::I32 => write!(i32),
            Number::U32 => write!(u32),
            Number::I64 => write!(i64),
            Number::U64 => write!(u64),
            Number::F32 => write!(f32),
            Number::F64 => write!(f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<T: Copy>(number: Number, values: &[T], bytes: impl Fn(T) -> Vec<u8>) -> Builder {
        Builder::Number { number, values: values.iter().flat_map(|&v| bytes(v)).collect() }
    }

    #[test]
    fn members_are_converted_by_name() {
        let ints = numbers(Number::I32, &[-3i32, 7], |v| v.to_ne_bytes().to_vec());
        let old = Builder::Record { length: 2, name: "A".into(), fields: vec![("b".into(), ints)] };
        let field = |number| Builder::Number { number, values: Vec::new() };
        let fields = vec![("a".into(), field(Number::U16)), ("b".into(), field(Number::F64))];
        let mut new = Builder::Record { length: 0, name: "A".into(), fields };
        new.append_converted(&old).unwrap();
        let Builder::Record { length: 2, fields, .. } = new else { unreachable!() };
        let Builder::Number { values, .. } = &fields[0].1 else { unreachable!() };
        assert_eq!(values, &[0; 4]);
        let Builder::Number { values, .. } = &fields[1].1 else { unreachable!() };
        assert_eq!(values, &[(-3f64).to_ne_bytes(), 7f64.to_ne_bytes()].concat());
    }

    #[test]
    fn lists_append_with_shifted_offsets() {
        let make = |lengths: &[i64]| {
            let mut offsets = vec![0i64];
            lengths.iter().for_each(|n| offsets.push(offsets[offsets.len() - 1] + n));
            let total = offsets[offsets.len() - 1] as usize;
            let values = Box::new(Builder::Number { number: Number::U8, values: vec![1; total] });
            Builder::List { offsets, values }
        };
        let mut list = make(&[2, 0]);
        list.append(&make(&[1, 3]));
        let Builder::List { offsets, values } = list else { unreachable!() };
        assert_eq!(offsets, [0, 2, 2, 3, 6]);
        assert_eq!(values.len(), 6);
    }
}
