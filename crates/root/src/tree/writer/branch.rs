//! One branch while it is written: what it takes, and the entries that wait for their cluster.

use super::basket::Basket;
use crate::array::{Column, Number};
use crate::compress::encode::Compression;
use crate::error::{Error, Result};
use crate::wire::swap;

/// What a branch holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchKind {
    /// A number each entry, or an array of fixed dimensions.
    Numbers {
        /// Element type.
        number: Number,
        /// Lengths of the dimensions, none for a single number.
        dims: Vec<usize>,
    },
    /// Any number of numbers, or of arrays of fixed dimensions.
    Counted {
        /// Element type.
        number: Number,
        /// Lengths of the dimensions after the first.
        dims: Vec<usize>,
        /// The branch, an earlier one, that says how many.
        counter: usize,
    },
    /// Says how many elements other branches have; filled from those.
    Counter,
    /// A string.
    Text,
}

/// A branch to be made.
#[derive(Debug, Clone)]
pub struct BranchSpec {
    /// Name.
    pub name: String,
    /// What it holds.
    pub kind: BranchKind,
    /// Codec and level, if not those of the file.
    pub compression: Option<Compression>,
}

/// The part of ROOT's table of leaf types that concerns numbers: class, letter of the leaf list, unsigned.
pub const fn leaf_of(number: Number) -> (&'static str, char, bool) {
    match number {
        Number::Bool => ("TLeafO", 'O', false),
        Number::I8 => ("TLeafB", 'B', false),
        Number::U8 => ("TLeafB", 'b', true),
        Number::I16 => ("TLeafS", 'S', false),
        Number::U16 => ("TLeafS", 's', true),
        Number::I32 => ("TLeafI", 'I', false),
        Number::U32 => ("TLeafI", 'i', true),
        Number::I64 => ("TLeafL", 'L', false),
        Number::U64 => ("TLeafL", 'l', true),
        Number::F32 => ("TLeafF", 'F', false),
        Number::F64 => ("TLeafD", 'D', false),
    }
}

/// Values of one branch, as they lie in a column.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// A fixed number of bytes each entry.
    Fixed(&'a [u8]),
    /// Items between offsets (native 64-bit), so many bytes an item.
    Listed { offsets: Offsets<'a>, values: &'a [u8], item: usize },
    /// The lengths between offsets.
    Lengths(Offsets<'a>),
    /// Bytes between offsets.
    Text { offsets: Offsets<'a>, bytes: &'a [u8] },
}

/// Native 64-bit offsets, checked: they start at 0 or more and never fall.
#[derive(Clone, Copy)]
pub struct Offsets<'a>(&'a [[u8; 8]]);

impl<'a> Offsets<'a> {
    fn new(bytes: &'a [u8], end: usize) -> Result<Self> {
        let (offsets, _) = bytes.as_chunks::<8>();
        let mut last = 0;
        for offset in offsets {
            let offset = i64::from_ne_bytes(*offset);
            if offset < last {
                return Err(Error::argument(format!("list offsets fall from {last} to {offset}")));
            }
            last = offset;
        }
        if last as u64 > end as u64 {
            return Err(Error::argument(format!("list offsets reach {last} where there are {end} elements")));
        }
        Ok(Self(offsets))
    }
    pub fn at(self, index: usize) -> usize {
        self.0.get(index).map_or(0, |offset| i64::from_ne_bytes(*offset) as usize)
    }
    pub fn len(self) -> usize {
        self.0.len().saturating_sub(1)
    }
    /// Whether two columns have lists of the same lengths.
    fn same_lengths(self, other: Self) -> bool {
        if std::ptr::eq(self.0, other.0) {
            return true;
        }
        let lengths = |o: Self| {
            o.0.windows(2).map(|w| match w {
                [a, b] => i64::from_ne_bytes(*b) - i64::from_ne_bytes(*a),
                _ => 0,
            })
        };
        self.0.len() == other.0.len() && lengths(self).eq(lengths(other))
    }
}

impl<'a> Input<'a> {
    /// Checks a column against what the branch takes.
    pub fn new(kind: &BranchKind, column: &'a Column) -> Result<Self> {
        match (kind, column) {
            (BranchKind::Numbers { number, dims }, column) => {
                let values = numbers(column, *number, dims)?;
                Ok(Self::Fixed(values))
            }
            (BranchKind::Counted { number, dims, .. }, Column::List { offsets, values }) => {
                let item = number.size() * dims.iter().product::<usize>();
                let bytes = numbers(values, *number, dims)?;
                let offsets = Offsets::new(offsets, bytes.len().checked_div(item).unwrap_or(0))?;
                Ok(Self::Listed { offsets, values: bytes, item })
            }
            (BranchKind::Text, Column::Text { offsets, bytes }) => {
                Ok(Self::Text { offsets: Offsets::new(offsets, bytes.len())?, bytes })
            }
            (BranchKind::Counter, _) => {
                Err(Error::argument("a counter is filled from the branches it counts"))
            }
            (BranchKind::Counted { .. }, _) => Err(Error::argument("the branch takes lists")),
            (BranchKind::Text, _) => Err(Error::argument("the branch takes strings")),
        }
    }
    /// Entries.
    pub fn len(&self, entry_bytes: usize) -> usize {
        match self {
            Self::Fixed(values) => values.len().checked_div(entry_bytes).unwrap_or(0),
            Self::Listed { offsets, .. } | Self::Lengths(offsets) | Self::Text { offsets, .. } => {
                offsets.len()
            }
        }
    }
    /// Bytes that entries take in baskets, about.
    pub fn bytes(&self, entry_bytes: usize, from: usize, to: usize) -> usize {
        let between = |offsets: Offsets<'_>| offsets.at(to).saturating_sub(offsets.at(from));
        match self {
            Self::Fixed(_) => (to - from) * entry_bytes,
            Self::Lengths(_) => (to - from) * 4,
            Self::Listed { offsets, item, .. } => between(*offsets) * item + 4 * (to - from),
            Self::Text { offsets, .. } => between(*offsets) + 5 * (to - from),
        }
    }
    /// The lengths that a counter would hold for this column.
    pub fn lengths(&self) -> Option<Offsets<'a>> {
        match self {
            Self::Listed { offsets, .. } => Some(*offsets),
            _ => None,
        }
    }
    /// Whether a counter can count both columns.
    pub fn same_lengths(&self, lengths: Offsets<'_>) -> bool {
        self.lengths().is_some_and(|own| own.same_lengths(lengths))
    }
}

/// The bytes of a column of numbers with the given dimensions.
fn numbers<'a>(column: &'a Column, number: Number, dims: &[usize]) -> Result<&'a [u8]> {
    let (mut inner, mut product, mut entries) = (column, 1, None);
    while let Column::FixedList { length, size, values } = inner {
        entries.get_or_insert(*length);
        product *= size;
        inner = values;
    }
    let wanted = dims.iter().product::<usize>();
    match inner {
        Column::Number { number: got, values } if *got == number && product == wanted => {
            let bytes = values.as_slice();
            let expected = entries.map_or(bytes.len(), |n| n * wanted * number.size());
            if bytes.len() != expected || bytes.len() % number.size() != 0 {
                return Err(Error::argument(format!(
                    "{} bytes of values where {expected} belong",
                    bytes.len()
                )));
            }
            Ok(bytes)
        }
        Column::Number { number: got, .. } => Err(Error::argument(format!(
            "the branch takes {wanted} {number:?} each, the column has {product} {got:?}"
        ))),
        _ => Err(Error::argument(format!("the branch takes {number:?} with dimensions {dims:?}"))),
    }
}

/// Makes room for more. Grows by quarters, not by doubling: what waits for a cluster is most of a writer's memory.
fn grow<T>(values: &mut Vec<T>, more: usize) {
    if values.capacity() - values.len() < more {
        values.reserve_exact(more.max(values.capacity() / 4));
    }
}

/// A branch being written.
pub struct Branch {
    pub spec: BranchSpec,
    /// Big-endian bytes of the entries that wait.
    pub data: Vec<u8>,
    /// Where each of them starts in `data`, if that varies.
    pub starts: Vec<u64>,
    /// Baskets in the file.
    pub baskets: Vec<Basket>,
    /// Bytes of all baskets before compression, keys included (`fTotBytes`).
    pub total_bytes: u64,
    /// Bytes of all baskets in the file (`fZipBytes`).
    pub zip_bytes: u64,
    /// Largest basket before compression.
    pub largest: usize,
    /// Largest number of entries in a basket.
    pub most_entries: usize,
    /// Largest value of a counter; for text one more than the longest.
    pub maximum: u32,
}

impl Branch {
    pub fn new(spec: BranchSpec) -> Self {
        Self {
            spec,
            data: Vec::new(),
            starts: Vec::new(),
            baskets: Vec::new(),
            total_bytes: 0,
            zip_bytes: 0,
            largest: 0,
            most_entries: 0,
            maximum: 0,
        }
    }
    /// Bytes of an element.
    pub fn width(&self) -> usize {
        match &self.spec.kind {
            BranchKind::Numbers { number, .. } | BranchKind::Counted { number, .. } => number.size(),
            BranchKind::Counter => 4,
            BranchKind::Text => 1,
        }
    }
    /// Elements of an entry, or of an item of a list (`fLen`).
    pub fn items(&self) -> usize {
        match &self.spec.kind {
            BranchKind::Numbers { dims, .. } | BranchKind::Counted { dims, .. } => dims.iter().product(),
            BranchKind::Counter | BranchKind::Text => 1,
        }
    }
    /// Whether entries differ in size, so that baskets say where each begins.
    pub fn varies(&self) -> bool {
        matches!(self.spec.kind, BranchKind::Counted { .. } | BranchKind::Text)
    }
    /// Bytes of an entry if all have the same.
    pub fn entry_bytes(&self) -> usize {
        if self.varies() { 0 } else { self.width() * self.items() }
    }

    /// Takes entries `from..to` of the input to those that wait.
    pub fn append(&mut self, input: Input<'_>, from: usize, to: usize) -> Result<()> {
        let (width, entry_bytes) = (self.width(), self.entry_bytes());
        match input {
            Input::Fixed(values) => {
                let bytes = values.get(from * entry_bytes..to * entry_bytes).unwrap_or_default();
                self.append_numbers(width, bytes);
            }
            Input::Listed { offsets, values, item } => {
                let first = offsets.at(from);
                let base = self.data.len();
                grow(&mut self.starts, to - from);
                self.starts.extend((from..to).map(|i| (base + (offsets.at(i) - first) * item) as u64));
                let bytes = values.get(first * item..offsets.at(to) * item).unwrap_or_default();
                self.append_numbers(width, bytes);
            }
            Input::Lengths(offsets) => {
                grow(&mut self.data, 4 * (to - from));
                for i in from..to {
                    let length = offsets.at(i + 1) - offsets.at(i);
                    let length = i32::try_from(length).map_err(|_| {
                        Error::limit(format!("a list of {length} elements in a 32-bit counter"))
                    })?;
                    self.maximum = self.maximum.max(length.unsigned_abs());
                    self.data.extend_from_slice(&length.to_be_bytes());
                }
            }
            Input::Text { offsets, bytes } => {
                grow(&mut self.starts, to - from);
                grow(&mut self.data, offsets.at(to) - offsets.at(from) + to - from);
                for i in from..to {
                    let text = bytes.get(offsets.at(i)..offsets.at(i + 1)).unwrap_or_default();
                    let length = i32::try_from(text.len() + 1)
                        .map_err(|_| Error::limit(format!("a string of {} bytes", text.len())))?;
                    self.maximum = self.maximum.max(length.unsigned_abs());
                    self.starts.push(self.data.len() as u64);
                    match u8::try_from(text.len()) {
                        Ok(short) if short < 255 => self.data.push(short),
                        _ => {
                            self.data.push(255);
                            self.data.extend_from_slice(&(text.len() as u32).to_be_bytes());
                        }
                    }
                    self.data.extend_from_slice(text);
                }
            }
        }
        Ok(())
    }

    fn append_numbers(&mut self, width: usize, bytes: &[u8]) {
        let start = self.data.len();
        grow(&mut self.data, bytes.len());
        self.data.resize(start + bytes.len(), 0);
        swap::copy(width, bytes, self.data.get_mut(start..).unwrap_or_default());
    }

    /// Codec and level of the branch in a file.
    pub fn compression(&self, file: Compression) -> Compression {
        self.spec.compression.unwrap_or(file)
    }
}
