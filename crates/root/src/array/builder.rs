//! Growing columns.

use super::{Column, Number, Type, pages, pool};
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};
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
        /// Starts and final end.
        offsets: Vec<i64>,
        /// All strings end to end.
        bytes: Vec<u8>,
    },
    /// Lists of fixed size.
    FixedList {
        /// Number of lists so far.
        length: usize,
        /// Elements in each list.
        size: usize,
        /// The elements.
        values: Box<Builder>,
    },
    /// Lists.
    List {
        /// Starts and final end.
        offsets: Vec<i64>,
        /// The elements.
        values: Box<Builder>,
    },
    /// Records.
    Record {
        /// Number of records so far.
        length: usize,
        /// Class name.
        name: String,
        /// The fields.
        fields: Vec<(String, Builder)>,
    },
    /// Values whose type is given in the data.
    Dynamic(Dynamic),
}

/// Values of the classes that occur, or missing values.
#[derive(Debug, Default)]
pub struct Dynamic {
    /// The variant and place of each value; `None` as long as all values are of the first variant, in order.
    places: Option<Places>,
    variants: Vec<(String, Builder)>,
}

/// Locations of values.
#[derive(Debug, Default)]
struct Places {
    /// Variant number of each value; -1 for a missing one.
    tags: Vec<i32>,
    /// Place of each value in its variant.
    index: Vec<i64>,
}

impl Places {
    fn push(&mut self, tag: i32, index: i64) -> Result<()> {
        self.tags.try_push(tag)?;
        self.index.try_push(index)
    }
}

impl Dynamic {
    fn len(&self) -> usize {
        match &self.places {
            Some(places) => places.tags.len(),
            None => self.variants.first().map_or(0, |(_, values)| values.len()),
        }
    }
    fn places(&mut self) -> Result<&mut Places> {
        if self.places.is_none() {
            let n = self.len();
            let (tags, index) = (grow::filled(n, 0)?, grow::collected(0..n as i64)?);
            self.places = Some(Places { tags, index });
        }
        Ok(self.places.get_or_insert_default())
    }
    fn find(&self, class: &str) -> usize {
        self.variants.iter().position(|(name, _)| name == class).unwrap_or(self.variants.len())
    }
    /// Appends a missing value.
    pub fn push_none(&mut self) -> Result<()> {
        self.places()?.push(-1, 0)
    }
    /// Returns the builder for values of a class, created at its first occurrence; the caller appends `n` values to it.
    ///
    /// # Errors
    /// When there are too many classes, or no column can represent the class.
    pub fn variant(
        &mut self,
        class: &str,
        n: usize,
        make: impl FnOnce() -> Result<Builder>,
    ) -> Result<&mut Builder> {
        let too_many = || Error::limit(format!("more than {MOST_VARIANTS} classes in one column"));
        let number = self.find(class);
        if number == self.variants.len() {
            if number == MOST_VARIANTS {
                return Err(too_many());
            }
            let made = make()?;
            if number > 0 {
                self.places()?;
            }
            self.variants.push((class.to_owned(), made));
        }
        let (_, values) = self.variants.get_mut(number).ok_or_else(too_many)?;
        if let Some(places) = &mut self.places {
            let start = values.len() as i64;
            places.tags.try_fill(n, number as i32)?;
            places.index.room(n)?;
            places.index.extend(start..start + n as i64);
        }
        Ok(values)
    }
    fn append(&mut self, other: &Dynamic) -> Result<()> {
        let alike = match (self.variants.as_slice(), other.variants.as_slice()) {
            ([], [_]) => true,
            ([(mine, _)], [(class, _)]) => mine == class,
            _ => false,
        };
        if !(alike && self.places.is_none() && other.places.is_none()) {
            self.places()?;
        }
        let mut numbers = Vec::new();
        let mut starts = Vec::new();
        for (class, builder) in &other.variants {
            let found = self.find(class);
            if found == self.variants.len() {
                self.variants.push((class.clone(), builder.like()));
            }
            if let Some((_, mine)) = self.variants.get_mut(found) {
                starts.push(mine.len() as i64);
                mine.append(builder)?;
            }
            numbers.push(found as i32);
        }
        let Some(places) = &mut self.places else { return Ok(()) };
        let mut push = |tag: i32, index: i64| {
            let at = usize::try_from(tag).ok();
            let number = at.and_then(|t| numbers.get(t)).copied().unwrap_or(-1);
            places.push(number, at.and_then(|t| starts.get(t)).map_or(0, |start| start + index))
        };
        match &other.places {
            Some(more) => more.tags.iter().zip(&more.index).try_for_each(|(&tag, &index)| push(tag, index)),
            None => (0..other.len() as i64).try_for_each(|index| push(0, index)),
        }
    }
    fn finish(mut self) -> Column {
        let Some(Places { tags, mut index }) = self.places.take() else {
            return self.variants.pop().map_or(Column::Empty, |(_, values)| values.finish());
        };
        let some = tags.iter().any(|&t| t < 0);
        match self.variants.len() {
            0 if tags.is_empty() => Column::Empty,
            0 => Column::Option {
                index: Buffer::from_vec(vec![-1i64; tags.len()]),
                values: Box::new(Column::Empty),
            },
            1 => {
                let values = self.variants.pop().map_or(Column::Empty, |(_, b)| b.finish());
                if !some {
                    // Values were appended in order, so that the index counts up.
                    return values;
                }
                tags.iter().zip(&mut index).filter(|(t, _)| **t < 0).for_each(|(_, i)| *i = -1);
                Column::Option { index: Buffer::from_vec(index), values: Box::new(values) }
            }
            _ => {
                let mut variants: Vec<Column> = self.variants.into_iter().map(|(_, b)| b.finish()).collect();
                let mut small: Vec<i8> = tags.iter().map(|&t| t.clamp(0, 127) as i8).collect();
                if some {
                    // A missing value belongs to the first variant, made optional.
                    let first = variants.swap_remove(0);
                    let n = first.len() as i64;
                    let optional = Buffer::from_vec((0..n).chain([-1]).collect::<Vec<i64>>());
                    variants.push(Column::Option { index: optional, values: Box::new(first) });
                    let last = variants.len() - 1;
                    variants.swap(0, last);
                    for ((tag, index), &old) in small.iter_mut().zip(&mut index).zip(&tags) {
                        if old < 0 {
                            *tag = 0;
                            *index = n;
                        }
                    }
                }
                Column::Union { tags: Buffer::from_vec(small), index: Buffer::from_vec(index), variants }
            }
        }
    }
}

/// Maximum number of classes in a column.
const MOST_VARIANTS: usize = 127;

/// Bytes of the zeros that `n` values of these fields get where the other fields do not have them.
pub fn missing_in(fields: &[(String, Builder)], more: &[(String, Builder)], n: usize) -> usize {
    fields.iter().fold(0, |sum, (name, field)| {
        let bytes = match more.iter().find(|(other, _)| other == name) {
            Some((_, value)) => field.missing_bytes(value),
            None => field.default_bytes(n),
        };
        sum.saturating_add(bytes)
    })
}

impl Builder {
    /// Creates an empty builder of a type.
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
            Type::Option(_) | Type::Union(_) | Type::Dynamic => Self::Dynamic(Dynamic::default()),
        }
    }

    /// Reserves room for this many items with about this many bytes on disk, in the buffers that will hold most of
    /// them.
    pub fn reserve(&mut self, items: usize, bytes: usize) {
        match self {
            Self::Number { values, .. } if values.is_empty() => *values = pool::with_capacity(bytes),
            Self::List { offsets, values } => {
                if offsets.len() == 1 && items > 0 {
                    *offsets = pool::with_capacity(items.saturating_add(1));
                    offsets.push(0);
                }
                values.reserve(0, bytes);
            }
            Self::FixedList { values, .. } => values.reserve(0, bytes),
            _ => {}
        }
    }

    /// Reserves room for `times` the current values. Columns whose size depends on the values are then not moved
    /// repeatedly while they grow.
    pub fn foresee(&mut self, times: f64) {
        self.each_buffer(&mut Foresee(times));
    }

    /// Prepares the memory for the next values, which have `bytes` on disk. `share` is the ratio of these bytes to
    /// those of the current values; it estimates the memory needed.
    pub fn prepare(&mut self, bytes: usize, share: f64) {
        match self {
            Self::Number { values, .. } => provide(values, bytes),
            Self::List { offsets, values } => {
                provide(offsets, (offsets.len() as f64 * share) as usize);
                values.prepare(bytes, share);
            }
            Self::FixedList { values, .. } => values.prepare(bytes, share),
            other => other.each_buffer(&mut Prepare(share)),
        }
    }

    /// Returns the free memory at the end of each buffer.
    pub fn room(&mut self) -> Vec<pages::Room> {
        let mut found = Rooms(Vec::new());
        self.each_buffer(&mut found);
        found.0
    }

    /// Bytes of the values so far.
    pub fn bytes(&mut self) -> usize {
        let mut found = Bytes(0);
        self.each_buffer(&mut found);
        found.0
    }

    fn each_buffer(&mut self, visit: &mut impl Visit) {
        match self {
            Self::Number { values, .. } => visit.bytes(values),
            Self::Text { offsets, bytes } => {
                visit.words(offsets);
                visit.bytes(bytes);
            }
            Self::List { offsets, values } => {
                visit.words(offsets);
                values.each_buffer(visit);
            }
            Self::FixedList { values, .. } => values.each_buffer(visit),
            Self::Record { fields, .. } => fields.iter_mut().for_each(|(_, field)| field.each_buffer(visit)),
            Self::Dynamic(d) => {
                if let Some(places) = &mut d.places {
                    visit.words(&mut places.tags);
                    visit.words(&mut places.index);
                }
                d.variants.iter_mut().for_each(|(_, values)| values.each_buffer(visit));
            }
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

    /// Number of values so far.
    pub fn len(&self) -> usize {
        match self {
            Self::Number { number, values } => values.len() / number.size(),
            Self::Text { offsets, .. } | Self::List { offsets, .. } => offsets.len() - 1,
            Self::FixedList { length, .. } | Self::Record { length, .. } => *length,
            Self::Dynamic(d) => d.len(),
        }
    }

    /// Whether there are no values yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all values and keeps the memory; a column of several classes keeps the classes, too.
    pub fn clear(&mut self) {
        match self {
            Self::Number { values, .. } => values.clear(),
            Self::Text { offsets, bytes } => {
                offsets.truncate(1);
                bytes.clear();
            }
            Self::FixedList { length, values, .. } => {
                *length = 0;
                values.clear();
            }
            Self::List { offsets, values } => {
                offsets.truncate(1);
                values.clear();
            }
            Self::Record { length, fields, .. } => {
                *length = 0;
                fields.iter_mut().for_each(|(_, field)| field.clear());
            }
            Self::Dynamic(d) => {
                d.variants.iter_mut().for_each(|(_, values)| values.clear());
                d.places = (d.variants.len() > 1).then(Places::default);
            }
        }
    }

    /// Appends the values of a builder of the same type.
    pub fn append(&mut self, other: &Builder) -> Result<()> {
        match (self, other) {
            (Self::Number { values, .. }, Self::Number { values: more, .. }) => {
                provide(values, more.len());
                values.try_extend(more)?;
            }
            (Self::Text { offsets, bytes }, Self::Text { offsets: more, bytes: text }) => {
                extend_offsets(offsets, more)?;
                provide(bytes, text.len());
                bytes.try_extend(text)?;
            }
            (Self::FixedList { length, values, .. }, Self::FixedList { length: n, values: more, .. }) => {
                *length += n;
                values.append(more)?;
            }
            (Self::List { offsets, values }, Self::List { offsets: more, values: items }) => {
                extend_offsets(offsets, more)?;
                values.append(items)?;
            }
            (Self::Record { length, fields, .. }, Self::Record { length: n, fields: more, .. }) => {
                *length += n;
                for ((_, field), (_, more)) in fields.iter_mut().zip(more) {
                    field.append(more)?;
                }
            }
            (Self::Dynamic(mine), Self::Dynamic(more)) => mine.append(more)?,
            // Builders of one field are created from the same type.
            _ => debug_assert!(false, "builders of different types"),
        }
        Ok(())
    }

    /// Appends `n` zeros, empty strings or empty lists.
    pub fn append_default(&mut self, n: usize) -> Result<()> {
        match self {
            Self::Number { number, values } => values.try_fill(n.saturating_mul(number.size()), 0)?,
            Self::Text { offsets, .. } | Self::List { offsets, .. } => {
                let last = offsets.last().copied().unwrap_or_default();
                offsets.try_fill(n, last)?;
            }
            Self::FixedList { length, size, values } => {
                values.append_default(n.saturating_mul(*size))?;
                *length += n;
            }
            Self::Record { length, fields, .. } => {
                fields.iter_mut().try_for_each(|(_, field)| field.append_default(n))?;
                *length += n;
            }
            Self::Dynamic(d) => (0..n).try_for_each(|_| d.push_none())?,
        }
        Ok(())
    }

    /// Bytes that [`Self::append_default`] appends for `n` values.
    fn default_bytes(&self, n: usize) -> usize {
        match self {
            Self::Number { number, .. } => n.saturating_mul(number.size()),
            Self::Text { .. } | Self::List { .. } | Self::Dynamic(_) => n.saturating_mul(size_of::<i64>()),
            Self::FixedList { size, values, .. } => values.default_bytes(n.saturating_mul(*size)),
            Self::Record { fields, .. } => {
                fields.iter().fold(0, |sum, (_, field)| sum.saturating_add(field.default_bytes(n)))
            }
        }
    }

    /// Bytes of the zeros that [`Self::append_converted`] appends for fields that the other builder does not have.
    pub fn missing_bytes(&self, other: &Builder) -> usize {
        match (self, other) {
            (Self::FixedList { values, .. }, Self::FixedList { values: more, .. })
            | (Self::List { values, .. }, Self::List { values: more, .. }) => values.missing_bytes(more),
            (Self::Record { fields, .. }, Self::Record { length, fields: more, .. }) => {
                missing_in(fields, more, *length)
            }
            _ => 0,
        }
    }

    /// Appends the values of a builder of another type. Numbers are converted. Fields are matched by name; missing
    /// fields become zero.
    ///
    /// # Errors
    /// When values of one type cannot be converted to the other.
    pub fn append_converted(&mut self, other: &Builder) -> Result<()> {
        match (self, other) {
            (Self::Number { number, values }, Self::Number { number: from, values: more }) => {
                if number == from {
                    values.try_extend(more)?;
                } else {
                    values.room(more.len() / from.size() * number.size())?;
                    convert(*number, *from, more, values);
                }
            }
            (Self::Text { offsets, bytes }, Self::Text { offsets: more, bytes: text }) => {
                extend_offsets(offsets, more)?;
                bytes.try_extend(text)?;
            }
            (
                Self::FixedList { length, size, values },
                Self::FixedList { length: n, size: m, values: more },
            ) if size == m => {
                *length += n;
                values.append_converted(more)?;
            }
            (Self::List { offsets, values }, Self::List { offsets: more, values: items }) => {
                extend_offsets(offsets, more)?;
                values.append_converted(items)?;
            }
            (Self::Record { length, fields, .. }, Self::Record { length: n, fields: more, .. }) => {
                for (name, field) in fields.iter_mut() {
                    match more.iter().find(|(other, _)| other == name) {
                        Some((_, value)) => field.append_converted(value)?,
                        None => field.append_default(*n)?,
                    }
                }
                *length += n;
            }
            (Self::Dynamic(mine), Self::Dynamic(more)) => mine.append(more)?,
            _ => {
                return Err(Error::unsupported(
                    "a member changed its type in a way that cannot be converted",
                ));
            }
        }
        Ok(())
    }

    /// Returns the finished column; buffers are moved, not copied.
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
                Column::List { offsets: pool::share(offsets), values: Box::new(values.finish()) }
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

/// An operation on each buffer of a column.
trait Visit {
    fn bytes(&mut self, values: &mut Vec<u8>);
    fn words<T>(&mut self, values: &mut Vec<T>);
}

/// Reserves room for this many times the current size.
struct Foresee(f64);

impl Foresee {
    fn wanted<T>(&self, values: &[T]) -> usize {
        (values.len() as f64 * self.0) as usize
    }
}

impl Visit for Foresee {
    fn bytes(&mut self, values: &mut Vec<u8>) {
        let wanted = self.wanted(values);
        if wanted > values.capacity() {
            let mut larger = pool::with_capacity(wanted);
            // A failed reservation is not an error here, as below.
            if larger.capacity() >= values.len() {
                larger.extend_from_slice(values);
                pool::give_back(std::mem::replace(values, larger));
            }
        }
    }
    fn words<T>(&mut self, values: &mut Vec<T>) {
        // A failed reservation is not an error here: the estimate may be too large, and growing reports its own
        // failure.
        let _ = values.try_reserve_exact(self.wanted(values).saturating_sub(values.len()));
    }
}

/// Prepares memory for this fraction of the current values.
struct Prepare(f64);

impl Visit for Prepare {
    fn bytes(&mut self, values: &mut Vec<u8>) {
        self.words(values);
    }
    fn words<T>(&mut self, values: &mut Vec<T>) {
        let more = (values.len() as f64 * self.0) as usize;
        provide(values, more);
    }
}

/// Counts the bytes of the values.
struct Bytes(usize);

impl Visit for Bytes {
    fn bytes(&mut self, values: &mut Vec<u8>) {
        self.words(values);
    }
    fn words<T>(&mut self, values: &mut Vec<T>) {
        self.0 += size_of_val(values.as_slice());
    }
}

/// Collects the free memory.
struct Rooms(Vec<pages::Room>);

impl Visit for Rooms {
    fn bytes(&mut self, values: &mut Vec<u8>) {
        self.words(values);
    }
    fn words<T>(&mut self, values: &mut Vec<T>) {
        self.0.push(pages::Room::of(values.spare_capacity_mut()));
    }
}

/// Memory is prepared in blocks of this many bytes, because many pages hold less.
const BLOCK: usize = 64 << 10;

/// Prepares the memory of the blocks that begin within the next `more` values, as far as there is room for them.
pub(super) fn provide<T>(values: &mut Vec<T>, more: usize) {
    let block = BLOCK / size_of::<T>();
    let from = values.len().next_multiple_of(block);
    let to = values.len().saturating_add(more).next_multiple_of(block);
    let before = from - values.len();
    let spare = values.spare_capacity_mut();
    let to = (before + (to - from)).min(spare.len());
    pages::provide(spare.get_mut(before..to).unwrap_or_default());
}

fn extend_offsets(offsets: &mut Vec<i64>, more: &[i64]) -> Result<()> {
    let last = offsets.last().copied().unwrap_or_default();
    offsets.room(more.len())?;
    provide(offsets, more.len());
    offsets.extend(more.iter().skip(1).map(|o| last + o));
    Ok(())
}

/// Converts numbers of one type to another, as in C++.
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
        list.append(&make(&[1, 3])).unwrap();
        let Builder::List { offsets, values } = &list else { unreachable!() };
        assert_eq!(offsets, &[0, 2, 2, 3, 6]);
        assert_eq!(values.len(), 6);
        list.clear();
        list.append(&make(&[4])).unwrap();
        let Builder::List { offsets, values } = list else { unreachable!() };
        assert_eq!((offsets, values.len()), (vec![0, 4], 4));
    }
}
