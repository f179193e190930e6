//! Values of an evaluation: numbers and lists of numbers, borrowed from columns or computed.

use super::lists::put;
use crate::array::{Column, Number};
use crate::error::{Error, Result};
use arrow_buffer::Buffer;
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;

/// Elements borrowed from a column, or computed.
pub enum Cells<'a, T> {
    /// Borrowed from a column.
    Borrowed(&'a [T]),
    /// Computed.
    Owned(Arc<Vec<T>>),
}

impl<T> Clone for Cells<'_, T> {
    fn clone(&self) -> Self {
        match self {
            Self::Borrowed(cells) => Self::Borrowed(cells),
            Self::Owned(cells) => Self::Owned(cells.clone()),
        }
    }
}

impl<T> Deref for Cells<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            Self::Borrowed(cells) => cells,
            Self::Owned(cells) => cells,
        }
    }
}

impl<T> From<Vec<T>> for Cells<'_, T> {
    fn from(cells: Vec<T>) -> Self {
        Self::Owned(Arc::new(cells))
    }
}

/// A number type for computations. Bools are bytes of a separate kind.
pub trait Element: Copy + Default + PartialOrd + 'static {
    /// The number type.
    const NUMBER: Number;
    /// Smallest value, or negative infinity.
    const LEAST: Self;
    /// Largest value, or infinity.
    const MOST: Self;
    fn wrap(cells: Cells<'_, Self>) -> Numbers<'_>;
    /// Converts numbers of any type; numbers of the same type are shared.
    fn of<'a>(numbers: &Numbers<'a>) -> Cells<'a, Self>;
    /// Converts a constant of an expression; a whole number to double precision before single precision, as
    /// `NumPy` does.
    fn constant(value: Constant) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Division rounded down, as in `NumPy`.
    fn floor_divided(self, other: Self) -> Self;
    /// Remainder with the sign of the divisor, as in `NumPy`.
    fn modulo(self, other: Self) -> Self;
    /// Whether the remainder is found by one subtraction: for a float, a magnitude below twice that of the divisor.
    fn is_within(self, other: Self) -> bool;
    /// [`Self::modulo`] if [`Self::is_within`] holds, without a jump.
    fn near_modulo(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
    fn double(self) -> f64;
    fn whole(value: i64) -> Self;
}

/// A constant of an expression, without a type of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Constant {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(f64),
}

macro_rules! numbers {
    ($($name:ident $type:ty),*) => {
        /// Numbers of one type.
        #[derive(Clone)]
        #[allow(missing_docs, reason = "as in `Number`")]
        pub enum Numbers<'a> { Bool(Cells<'a, u8>), $($name(Cells<'a, $type>)),* }

        /// Applies the same code to the cells of every number type.
        macro_rules! each {
            ($numbers:expr, $cells:ident => $work:expr) => {
                match $numbers {
                    Numbers::Bool($cells) => $work,
                    $(Numbers::$name($cells) => $work),*
                }
            };
        }
        /// Applies the same code to a number type; bools are excluded.
        macro_rules! typed {
            ($number:expr, $T:ident => $work:expr, else $other:expr) => {
                match $number {
                    $(Number::$name => { type $T = $type; $work })*
                    Number::Bool => $other,
                }
            };
        }

        impl<'a> Numbers<'a> {
            /// The number type.
            pub fn number(&self) -> Number {
                match self { Self::Bool(_) => Number::Bool, $(Self::$name(_) => Number::$name),* }
            }
            /// Returns elements `start` to `stop` of a buffer.
            pub fn of(number: Number, buffer: &'a Buffer, start: usize, stop: usize) -> Self {
                match number {
                    Number::Bool => Self::Bool(Cells::Borrowed(buffer.as_slice().get(start..stop).unwrap_or_default())),
                    $(Number::$name => Self::$name(Cells::Borrowed(
                        buffer.typed_data::<$type>().get(start..stop).unwrap_or_default(),
                    ))),*
                }
            }
            /// Returns the numbers at some places.
            pub fn gather(&self, places: &[usize]) -> Self {
                fn taken<'a, T: Copy + Default>(cells: &[T], places: &[usize]) -> Cells<'a, T> {
                    places.iter().map(|&place| cells.get(place).copied().unwrap_or_default()).collect::<Vec<T>>().into()
                }
                match self {
                    Self::Bool(cells) => Self::Bool(taken(cells, places)),
                    $(Self::$name(cells) => Self::$name(taken(cells, places))),*
                }
            }
            /// Returns the items of the lists at some places, `total` in all.
            fn of_lists(&self, offsets: &[i64], places: &[usize], total: usize) -> Self {
                fn taken<'a, T: Copy + Default>(
                    cells: &[T],
                    offsets: &[i64],
                    places: &[usize],
                    total: usize,
                ) -> Cells<'a, T> {
                    let (mut found, mut at) = (vec![T::default(); total], 0);
                    for (start, n) in stretches(offsets, places) {
                        put(&mut found, at, cells, start, n, |cell| cell);
                        at += n;
                    }
                    found.into()
                }
                match self {
                    Self::Bool(cells) => Self::Bool(taken(cells, offsets, places, total)),
                    $(Self::$name(cells) => Self::$name(taken(cells, offsets, places, total))),*
                }
            }
            /// Repeats each number until the end of its list.
            pub fn repeated(&self, offsets: &[i64]) -> Self {
                fn spread<'a, T: Copy>(cells: &[T], offsets: &[i64]) -> Cells<'a, T> {
                    let mut all = Vec::with_capacity(span(offsets));
                    for (&cell, count) in cells.iter().zip(counts(offsets)) {
                        all.extend(std::iter::repeat_n(cell, count));
                    }
                    all.into()
                }
                match self {
                    Self::Bool(cells) => Self::Bool(spread(cells, offsets)),
                    $(Self::$name(cells) => Self::$name(spread(cells, offsets))),*
                }
            }
            /// Appends the bytes of the numbers.
            pub fn append_to(&self, bytes: &mut Vec<u8>) {
                match self {
                    Self::Bool(cells) => bytes.extend_from_slice(cells),
                    $(Self::$name(cells) => cells.iter().for_each(|cell| bytes.extend_from_slice(&cell.to_ne_bytes()))),*
                }
            }
        }
    };
}

numbers!(I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64, F32 f32, F64 f64);

macro_rules! element {
    ($name:ident $type:ty, $least:expr, $most:expr, $($arithmetic:tt)*) => {
        impl Element for $type {
            const NUMBER: Number = Number::$name;
            const LEAST: Self = $least;
            const MOST: Self = $most;
            fn wrap(cells: Cells<'_, Self>) -> Numbers<'_> {
                Numbers::$name(cells)
            }
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one conversion for all types")]
            fn of<'a>(numbers: &Numbers<'a>) -> Cells<'a, Self> {
                if let Numbers::$name(cells) = numbers {
                    return cells.clone();
                }
                each!(numbers, cells => cells.iter().map(|&cell| cell as $type).collect::<Vec<_>>().into())
            }
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one conversion for all types")]
            fn constant(value: Constant) -> Self {
                match value {
                    Constant::Bool(value) => u8::from(value) as $type,
                    Constant::Int(value) => Self::whole(value),
                    Constant::Float(value) => value as $type,
                }
            }
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one conversion for all types")]
            fn double(self) -> f64 {
                self as f64
            }
            $($arithmetic)*
        }
    };
}

macro_rules! integers {
    ($($name:ident $type:ty),*) => {$(
        element!($name $type, <$type>::MIN, <$type>::MAX,
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[allow(unused_comparisons, reason = "for all types")]
            fn floor_divided(self, other: Self) -> Self {
                let Some(quotient) = self.checked_div(other) else {
                    return if other == 0 { 0 } else { self };
                };
                let rest = self.wrapping_rem(other);
                if rest != 0 && ((rest < 0) != (other < 0)) { quotient.wrapping_sub(1) } else { quotient }
            }
            #[allow(unused_comparisons, reason = "for all types")]
            fn modulo(self, other: Self) -> Self {
                let Some(rest) = self.checked_rem(other) else { return 0 };
                if rest != 0 && ((rest < 0) != (other < 0)) { rest.wrapping_add(other) } else { rest }
            }
            fn is_within(self, _: Self) -> bool { false }
            fn near_modulo(self, other: Self) -> Self { self.modulo(other) }
            fn is_nan(self) -> bool { false }
            #[allow(clippy::unnecessary_cast, reason = "one conversion for all types")]
            fn whole(value: i64) -> Self { value as $type }
        );
    )*};
}

macro_rules! floats {
    ($($name:ident $type:ident),*) => {$(
        element!($name $type, $type::NEG_INFINITY, $type::INFINITY,
            fn plus(self, other: Self) -> Self { self + other }
            fn minus(self, other: Self) -> Self { self - other }
            fn times(self, other: Self) -> Self { self * other }
            #[allow(clippy::float_cmp, reason = "as NumPy computes it")]
            fn floor_divided(self, other: Self) -> Self {
                if other == 0.0 {
                    return self / other;
                }
                let rest = self % other;
                let mut quotient = (self - rest) / other;
                if rest != 0.0 && ((other < 0.0) != (rest < 0.0)) {
                    quotient -= 1.0;
                }
                if quotient == 0.0 {
                    return (0.0 as $type).copysign(self / other);
                }
                let floor = quotient.floor();
                if quotient - floor > 0.5 { floor + 1.0 } else { floor }
            }
            fn modulo(self, other: Self) -> Self {
                // A number smaller than the divisor is its own remainder.
                let rest = if self.abs() < other.abs() { self } else { self % other };
                if other == 0.0 {
                    rest
                } else if rest == 0.0 {
                    (0.0 as $type).copysign(other)
                } else if (other < 0.0) != (rest < 0.0) {
                    rest + other
                } else {
                    rest
                }
            }
            fn is_within(self, other: Self) -> bool { self.abs() < 2.0 * other.abs() }
            fn near_modulo(self, other: Self) -> Self {
                // The difference is exact, because numbers between one and two times the divisor are close to it.
                let less = self - other.abs().copysign(self);
                let rest = if self.abs() < other.abs() { self } else { less };
                let turned = rest + other;
                let inside = if (other < 0.0) == (rest < 0.0) { rest } else { turned };
                if rest == 0.0 { (0.0 as $type).copysign(other) } else { inside }
            }
            fn is_nan(self) -> bool { <$type>::is_nan(self) }
            #[allow(clippy::unnecessary_cast, reason = "one conversion for all types")]
            fn whole(value: i64) -> Self { value as f64 as $type }
        );
    )*};
}

integers!(I8 i8, U8 u8, I16 i16, U16 u16, I32 i32, U32 u32, I64 i64, U64 u64);
floats!(F32 f32, F64 f64);

pub(super) use {each, typed};

impl Numbers<'_> {
    /// Number of values.
    pub fn len(&self) -> usize {
        each!(self, cells => cells.len())
    }
    /// Returns whether each is not zero.
    pub fn truths(&self) -> Cells<'_, u8> {
        match self {
            Self::Bool(cells) => cells.clone(),
            other => {
                each!(other, cells => cells.iter().map(|&cell| u8::from(cell.double() != 0.0)).collect::<Vec<_>>().into())
            }
        }
    }
}

/// Start and end of each list.
pub fn pairs(offsets: &[i64]) -> impl Iterator<Item = (i64, i64)> {
    offsets.iter().copied().zip(offsets.iter().skip(1).copied())
}

/// The lengths of the lists.
pub fn counts(offsets: &[i64]) -> impl Iterator<Item = usize> {
    pairs(offsets).map(|(start, stop)| usize::try_from(stop - start).unwrap_or(0))
}

/// The total length of all lists.
pub fn span(offsets: &[i64]) -> usize {
    let ends = offsets.first().zip(offsets.last());
    ends.map_or(0, |(start, stop)| usize::try_from(stop - start).unwrap_or(0))
}

/// Returns the offsets of the lists at some places.
fn ends_of(offsets: &[i64], places: &[usize]) -> Arc<Vec<i64>> {
    let mut end = 0;
    let ends = stretches(offsets, places).map(|(_, n)| {
        end += n as i64;
        end
    });
    Arc::new(std::iter::once(0).chain(ends).collect())
}

/// Start in the items and length of the lists at some places.
fn stretches(offsets: &[i64], places: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    let base = offsets.first().copied().unwrap_or(0);
    places.iter().map(move |&place| match offsets.get(place..).unwrap_or_default() {
        &[start, stop, ..] => ((start - base) as usize, (stop - start) as usize),
        _ => (0, 0),
    })
}

/// Offsets of some lists of a chunk, by the address of the offsets of all its lists. Columns that share offsets also
/// share these.
pub type KnownEnds = RefCell<Vec<(usize, Arc<Vec<i64>>)>>;

/// Values of entries, or of the items of lists.
#[derive(Clone)]
pub enum Value<'a> {
    /// The same constant for all.
    Constant(Constant),
    /// One number each; missing where the second is 0.
    Numbers(Numbers<'a>, Option<Cells<'a, u8>>),
    /// One list each: its items are between two offsets. The first offset need not be 0.
    Lists(Cells<'a, i64>, Box<Value<'a>>),
}

impl<'a> Value<'a> {
    /// Creates numbers without missing values.
    pub fn all<T: Element>(cells: Vec<T>) -> Self {
        Self::Numbers(T::wrap(cells.into()), None)
    }
    /// Bools.
    pub fn bools(cells: Vec<u8>) -> Self {
        Self::Numbers(Numbers::Bool(cells.into()), None)
    }
    /// Number of values; `None` for a constant.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Constant(_) => None,
            Self::Numbers(numbers, _) => Some(numbers.len()),
            Self::Lists(offsets, _) => Some(offsets.len().saturating_sub(1)),
        }
    }
    /// Returns the values at some places.
    pub fn gather(&self, places: &[usize]) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(*value),
            Self::Numbers(numbers, there) => {
                let taken = |there: &Cells<'a, u8>| -> Vec<u8> {
                    places.iter().map(|&place| there.get(place).copied().unwrap_or(0)).collect()
                };
                Self::Numbers(numbers.gather(places), there.as_ref().map(|there| taken(there).into()))
            }
            Self::Lists(offsets, items) => Self::lists_at(offsets, items, places, ends_of(offsets, places)),
        }
    }
    /// Like [`Self::gather`] for a column. Reuses known offsets of lists and adds new ones to `known`.
    pub fn gather_knowing(&self, places: &[usize], known: &KnownEnds) -> Self {
        let Self::Lists(offsets, items) = self else { return self.gather(places) };
        let key = offsets.as_ptr() as usize;
        let found = known.borrow().iter().find(|(address, _)| *address == key).map(|(_, ends)| ends.clone());
        let ends = found.unwrap_or_else(|| {
            let ends = ends_of(offsets, places);
            known.borrow_mut().push((key, ends.clone()));
            ends
        });
        Self::lists_at(offsets, items, places, ends)
    }
    fn lists_at(offsets: &[i64], items: &Self, places: &[usize], ends: Arc<Vec<i64>>) -> Self {
        let total = span(&ends);
        let items = if let Self::Numbers(numbers, None) = items {
            Self::Numbers(numbers.of_lists(offsets, places, total), None)
        } else {
            let inner = stretches(offsets, places).flat_map(|(start, n)| start..start + n);
            items.gather(&inner.collect::<Vec<_>>())
        };
        Self::Lists(Cells::Owned(ends), Box::new(items))
    }
    /// Repeats each value until the end of its list.
    pub fn repeated(&self, offsets: &[i64]) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(*value),
            Self::Numbers(numbers, None) => Self::Numbers(numbers.repeated(offsets), None),
            other => {
                let places = counts(offsets).enumerate().flat_map(|(place, n)| std::iter::repeat_n(place, n));
                other.gather(&places.collect::<Vec<_>>())
            }
        }
    }
    /// Returns number type, list depth and whether values may be missing.
    pub fn type_of(&self) -> Result<(Number, usize, bool)> {
        match self {
            Self::Constant(_) => Err(Error::unsupported("a constant has no column")),
            Self::Numbers(numbers, there) => Ok((numbers.number(), 0, there.is_some())),
            Self::Lists(_, items) => items.type_of().map(|(number, depth, some)| (number, depth + 1, some)),
        }
    }
}

/// Whether two offset arrays divide their items in the same way.
pub fn same_lists(one: &[i64], other: &[i64]) -> bool {
    if std::ptr::eq(one, other) {
        return true;
    }
    let (Some(&first), Some(&second)) = (one.first(), other.first()) else { return one.len() == other.len() };
    if first == second {
        return one == other;
    }
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a - first == b - second)
}

/// Applies a function to values of the same lists. Values of entries are repeated for the items of the lists.
pub fn broadcast<'a>(
    values: &[&Value<'a>],
    work: &mut dyn FnMut(&[&Value<'a>]) -> Result<Value<'a>>,
) -> Result<Value<'a>> {
    let mut lists: Option<&Cells<'a, i64>> = None;
    for value in values {
        if let Value::Lists(offsets, _) = value {
            if lists.is_some_and(|first| !same_lists(first, offsets)) {
                return Err(Error::argument("the lists have different lengths"));
            }
            lists = lists.or(Some(offsets));
        }
    }
    let Some(offsets) = lists else {
        let mut lengths = values.iter().filter_map(|value| value.len());
        let first = lengths.next();
        if lengths.any(|length| Some(length) != first) {
            return Err(Error::argument("the columns have different lengths"));
        }
        return work(values);
    };
    let mut spread: Vec<Value<'a>> = Vec::with_capacity(values.len());
    for value in values {
        if matches!(value, Value::Numbers(..)) && value.len() != Some(offsets.len().saturating_sub(1)) {
            return Err(Error::argument("the columns have different lengths"));
        }
        spread.push(match value {
            Value::Lists(_, items) => (**items).clone(),
            other => other.repeated(offsets),
        });
    }
    let inner: Vec<&Value<'a>> = spread.iter().collect();
    Ok(Value::Lists(offsets.clone(), Box::new(broadcast(&inner, work)?)))
}

/// A column prepared for slicing. Columns with equal lists share one view of their offsets.
pub enum View<'a> {
    Numbers(Number, &'a Buffer),
    Lists(Cells<'a, i64>, Box<View<'a>>),
    Record(Vec<(&'a str, View<'a>)>),
}

impl<'a> View<'a> {
    /// Creates the view of a column. `regular`: lists of fixed size are treated like other lists.
    pub fn of(column: &'a Column, regular: bool, known: &mut Vec<Cells<'a, i64>>) -> Result<Self> {
        Ok(match column {
            Column::Number { number, values } => Self::Numbers(*number, values),
            Column::List { offsets, values } => {
                let mut found: Cells<'a, i64> = Cells::Borrowed(offsets.typed_data());
                let same = known.iter().find(|other| ***other == *found);
                let ordered = same.is_some() || pairs(&found).all(|(start, stop)| start <= stop);
                let length = values.len() as i64;
                let outside =
                    found.first().is_some_and(|&o| o < 0) || found.last().is_some_and(|&o| o > length);
                if !ordered || outside {
                    return Err(Error::argument("the offsets of lists do not match the number of items"));
                }
                match same {
                    Some(same) => found = same.clone(),
                    None => known.push(found.clone()),
                }
                Self::Lists(found, Box::new(Self::of(values, regular, known)?))
            }
            Column::FixedList { length, size, values } if regular => {
                let offsets: Vec<i64> =
                    (0..=*length).map(|place| place.saturating_mul(*size) as i64).collect();
                Self::Lists(offsets.into(), Box::new(Self::of(values, regular, known)?))
            }
            Column::Record { fields, .. } => {
                let views =
                    fields.iter().map(|(name, field)| Ok((name.as_str(), Self::of(field, regular, known)?)));
                Self::Record(views.collect::<Result<_>>()?)
            }
            _ => {
                return Err(Error::unsupported("the engine computes only with numbers and lists of numbers"));
            }
        })
    }
    /// Returns elements `start` to `stop`; for records, of the field at a path.
    pub fn slice(&'a self, path: &[String], start: usize, stop: usize) -> Result<Value<'a>> {
        match self {
            Self::Numbers(number, values) if path.is_empty() => {
                Ok(Value::Numbers(Numbers::of(*number, values, start, stop), None))
            }
            Self::Lists(offsets, items) => {
                let part = offsets.get(start..=stop).unwrap_or_default();
                let (from, to) = part.first().zip(part.last()).map_or((0, 0), |(from, to)| (*from, *to));
                Ok(Value::Lists(
                    Cells::Borrowed(part),
                    Box::new(items.slice(path, from as usize, to as usize)?),
                ))
            }
            Self::Record(fields) => {
                let found = path.split_first().and_then(|(name, rest)| {
                    fields.iter().find(|(field, _)| field == name).map(|(_, view)| (view, rest))
                });
                let Some((view, rest)) = found else {
                    return Err(Error::unsupported("a record is not a number"));
                };
                view.slice(rest, start, stop)
            }
            Self::Numbers(..) => Err(Error::unsupported("a number has no fields")),
        }
    }
}
