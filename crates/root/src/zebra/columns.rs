//! Reading the columns of an ntuple: plans, and decoding of buffers.

use super::buffers::StoredPlace;
use super::hbook::{Class, Description, Kind, NtupleColumn};
use super::ntuple::Ntuple;
use super::words::Order;
use crate::array::{Column, Number, Type, pool};
use crate::error::{Error, ErrorKind, Result};
use crate::table::{
    FieldPlan, FieldReader, Lane, LaneValues, Page, PageDecoder, PageOutput, PageSlice, PageWanted,
    PartsLeftOut, Table, Target, Unpacked, of_format,
};
use crate::wire::grow;
use crate::wire::swap;
use arrow_buffer::Buffer;
use std::sync::Arc;

/// A column compiled for reading.
pub struct ColumnReader {
    of: Result<Type>,
    typename: String,
    column: NtupleColumn,
    /// For a row-wise ntuple: index of the column in the row, and words in a row.
    row: Option<(usize, usize)>,
}

/// Number type of a column in memory.
fn number(column: &NtupleColumn) -> Number {
    match (column.kind, column.bytes) {
        (Kind::Real, 8) => Number::F64,
        (Kind::Real, _) => Number::F32,
        (Kind::Int, 8) => Number::I64,
        (Kind::Int, _) => Number::I32,
        (Kind::Unsigned, 8) => Number::U64,
        (Kind::Unsigned, _) => Number::U32,
        (Kind::Logical, _) => Number::Bool,
        (Kind::Text, _) => Number::U8,
    }
}

pub(super) fn reader(
    description: &Description,
    class: Class,
) -> impl Fn((usize, &NtupleColumn)) -> Arc<ColumnReader> {
    let width = description.columns.len();
    move |(place, column)| {
        let number = number(column);
        let mut of = if column.kind == Kind::Text { Type::Text } else { Type::Number(number) };
        let mut typename = match column.kind {
            Kind::Text => "char*".to_owned(),
            _ => number.short_name().to_owned(),
        };
        for &size in &column.dimensions {
            of = Type::FixedList { size, item: Box::new(of) };
        }
        if column.index.is_some() {
            of = Type::List(Box::new(of));
            typename.push_str("[]");
        }
        for size in column.dimensions.iter().rev() {
            typename.extend(["[", &size.to_string(), "]"]);
        }
        let row = (class == Class::RowWise).then_some((place, width));
        Arc::new(ColumnReader { of: Ok(of), typename, column: column.clone(), row })
    }
}

/// The slot of the values; the next is the slot of the ends of lists.
const VALUES: usize = 0;
const ENDS: usize = 1;

impl ColumnReader {
    /// Number of numbers in an item in memory.
    fn numbers(&self) -> usize {
        if self.column.kind == Kind::Text { self.column.bytes } else { 1 }
    }
    /// Returns the column of all elements, in lists of the fixed dimensions.
    fn nested(&self, values: Buffer) -> Result<Column> {
        let number = number(&self.column);
        let mut length = values.len() / (number.size() * self.numbers()).max(1);
        let mut column = if self.column.kind == Kind::Text {
            texts(&values, self.column.bytes)?
        } else {
            Column::Number { number, values }
        };
        for &size in &self.column.dimensions {
            length = length.checked_div(size).ok_or_else(|| Error::corrupt("a dimension has length 0"))?;
            column = Column::FixedList { length, size, values: Box::new(column) };
        }
        Ok(column)
    }
}

/// Returns texts of a fixed length, without trailing blanks and zeros.
fn texts(values: &[u8], bytes: usize) -> Result<Column> {
    let mut offsets: Vec<i64> = grow::with_room(values.len() / bytes.max(1) + 1)?;
    let mut all = grow::with_room(values.len())?;
    offsets.push(0);
    for text in values.chunks_exact(bytes.max(1)) {
        let end = text.iter().rposition(|&byte| byte != b' ' && byte != 0).map_or(0, |last| last + 1);
        all.extend_from_slice(text.get(..end).unwrap_or_default());
        offsets.push(all.len() as i64);
    }
    Ok(Column::Text { offsets: Buffer::from_vec(offsets), bytes: Buffer::from_vec(all) })
}

impl FieldReader for ColumnReader {
    fn of(&self) -> &Result<Type> {
        &self.of
    }
    fn typename(&self) -> &str {
        &self.typename
    }
    fn layout(&self, _table: &dyn Table, _field: usize) -> Option<String> {
        let column = &self.column;
        Some(format!("ntuple {} {} {}", column.is_index, column.index.is_some(), self.numbers()))
    }
    fn plan<'a>(
        self: Arc<Self>,
        table: &'a dyn Table,
        field: usize,
        start: u64,
        stop: u64,
    ) -> Result<Box<dyn FieldPlan<'a> + 'a>> {
        let ntuple: &Ntuple = of_format(table)?;
        Ok(Box::new(ColumnPlan { ntuple, reader: self, field, start, stop, stage: 0 }))
    }
    fn finish(
        &self,
        _entries: u64,
        take: &mut dyn FnMut(usize) -> Result<Column>,
        room: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Column> {
        if self.column.is_index {
            let Column::Number { values, .. } = take(ENDS)? else { return Err(no_numbers()) };
            let ends = values.as_chunks::<8>().0;
            room(4 * ends.len() as u64)?;
            let mut counts = pool::Filled::new(4 * ends.len().saturating_sub(1))?;
            for (count, pair) in counts.bytes().as_chunks_mut::<4>().0.iter_mut().zip(ends.windows(2)) {
                if let [start, end] = pair {
                    *count = ((i64::from_ne_bytes(*end) - i64::from_ne_bytes(*start)) as i32).to_ne_bytes();
                }
            }
            return Ok(Column::Number { number: Number::I32, values: counts.share() });
        }
        let Column::Number { values, .. } = take(VALUES)? else { return Err(no_numbers()) };
        let values = self.nested(values)?;
        if self.column.index.is_none() {
            return Ok(values);
        }
        let Column::Number { values: offsets, .. } = take(ENDS)? else { return Err(no_numbers()) };
        Ok(Column::List { offsets, values: Box::new(values) })
    }
}

fn no_numbers() -> Error {
    Error::new(ErrorKind::Corrupt, "the column has no values")
}

/// The plan for reading some rows of a column.
struct ColumnPlan<'a> {
    ntuple: &'a Ntuple,
    reader: Arc<ColumnReader>,
    field: usize,
    start: u64,
    stop: u64,
    stage: u8,
}

impl<'a> ColumnPlan<'a> {
    fn lane(&self, slot: usize, field: usize, target: Target, items: (u64, u64)) -> Result<Lane<'a>> {
        let pages = self.ntuple.pages_of(field, items.0, items.1)?;
        let bytes = pages.iter().map(|page| {
            u64::try_from(u128::from(page.range().length) * page.wanted() as u128 / page.items.max(1) as u128)
                .unwrap_or(u64::MAX)
        });
        let bytes = bytes.fold(0, u64::saturating_add);
        let reader = self.ntuple.readers.get(field).unwrap_or(&self.reader).clone();
        let decoder = Box::new(ColumnDecoder {
            ntuple: self.ntuple,
            field,
            reader: if slot == VALUES { self.reader.clone() } else { reader },
            ends: slot == ENDS,
        });
        Ok(Lane { slot, column: field, target, pages, decoder, bytes, shared: slot == ENDS, counter: None })
    }
}

impl<'a> FieldPlan<'a> for ColumnPlan<'a> {
    fn stage(&mut self, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        let column = &self.reader.column;
        let stage = self.stage;
        self.stage += 1;
        let index = if column.is_index { Some(self.field) } else { column.index };
        let rows = self.stop.saturating_sub(self.start);
        let each = column.values();
        let items = match (stage, index) {
            (0, Some(index)) => {
                let target = Target::Ends { lists: rows, bits: 32 };
                lanes.push(self.lane(ENDS, index, target, (self.start, self.stop.saturating_add(1)))?);
                return Ok(());
            }
            (0, None) => (self.start, self.stop),
            (1, Some(_)) if !column.is_index => read.ends(ENDS).ok_or_else(no_numbers)?.items,
            _ => return Ok(()),
        };
        let items = (items.0.saturating_mul(each), items.1.saturating_mul(each));
        let bits = if self.reader.row.is_some() { 32 } else { column.bits };
        let target = Target::Direct {
            number: number(column),
            each: self.reader.numbers(),
            items: items.1.saturating_sub(items.0),
            bits,
        };
        lanes.push(self.lane(VALUES, self.field, target, items)?);
        Ok(())
    }
}

/// Decodes the buffers of a column.
struct ColumnDecoder<'a> {
    ntuple: &'a Ntuple,
    field: usize,
    reader: Arc<ColumnReader>,
    ends: bool,
}

impl PageDecoder for ColumnDecoder<'_> {
    fn unpack(&self, page: &PageWanted, record: &[u8], _scratch: &mut Vec<u8>) -> Result<Unpacked> {
        Ok(Unpacked {
            in_scratch: false,
            data: 0..record.len(),
            table: None,
            origin: 0,
            items: page.items,
            sizes: false,
            joined: false,
            packed_bytes: record.len(),
            bytes: record.len(),
        })
    }
    fn in_memory(&self, page: &PageWanted) -> Option<Page<'_>> {
        let stored = self.ntuple.stored.get(self.ntuple.stored_of(self.field))?.pages.get(page.number)?;
        match &stored.place {
            StoredPlace::Memory(bytes) => Some(Page::plain(bytes, stored.items)),
            StoredPlace::File(_) => None,
        }
    }
    fn decode(&self, slice: &PageSlice, page: &Page<'_>, to: PageOutput<'_>) -> Result<PartsLeftOut> {
        let PageOutput::Place(place) = to else { return Err(no_numbers()) };
        let (from, to) = (slice.from, slice.to);
        let big = self.ntuple.file.order() == Order::Big;
        let short = || {
            Error::corrupt(format!(
                "the buffer has {} bytes, so its values {from} to {to} are missing",
                page.data.len()
            ))
        };
        let words = |each: usize| {
            from.checked_mul(4 * each)
                .zip(to.checked_mul(4 * each))
                .and_then(|(from, to)| page.data.get(from..to))
                .ok_or_else(short)
        };
        let column = &self.reader.column;
        let word = |bytes: [u8; 4]| if big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        if self.ends {
            let stored = words(1)?.as_chunks::<4>().0;
            for (end, bytes) in place.as_chunks_mut::<8>().0.iter_mut().zip(stored) {
                *end = i64::from(word(*bytes)).to_ne_bytes();
            }
            return Ok(Vec::new());
        }
        if let Some((column, width)) = self.reader.row {
            let rows = words(width)?.chunks_exact(4 * width.max(1));
            for (value, row) in place.as_chunks_mut::<4>().0.iter_mut().zip(rows) {
                let bytes =
                    row.get(4 * column..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(short)?;
                *value = word(*bytes).to_ne_bytes();
            }
            return Ok(Vec::new());
        }
        match (column.kind, column.bits) {
            (Kind::Text, _) => {
                let stored = words(column.bytes / 4)?;
                // The first character is in the highest byte.
                swap::copy(if big { 1 } else { 4 }, stored, place);
            }
            (Kind::Real, 64) => double_words(words(2)?, place, |high, low| (high, low), word),
            (_, 64) => double_words(words(2)?, place, |low, high| (high, low), word),
            (_, 32) => swap::copy(if big { 4 } else { 1 }, words(1)?, place),
            (kind, bits) => {
                let each = 32 / bits;
                let (first, last) = (from / each, to.div_ceil(each));
                let stored = page.data.get(4 * first..4 * last).ok_or_else(short)?;
                let stored = stored.as_chunks::<4>().0;
                let stored = stored.iter().map(|bytes| word(*bytes));
                unpack_bits(kind, bits, column.range, stored, from - first * each, place);
            }
        }
        Ok(Vec::new())
    }
    fn entries(&self, page: &PageWanted) -> std::ops::Range<u64> {
        let each = if self.ntuple.class == Class::RowWise { 1 } else { self.ntuple.each(self.field) };
        let (from, to) = (page.first + page.from as u64, page.first + page.to as u64);
        from / each..to.div_ceil(each)
    }
}

/// Decodes numbers of two words; `order` gives the position of the high word.
fn double_words(
    stored: &[u8],
    place: &mut [u8],
    order: impl Fn(u32, u32) -> (u32, u32),
    word: impl Fn([u8; 4]) -> u32,
) {
    for (value, words) in place.as_chunks_mut::<8>().0.iter_mut().zip(stored.as_chunks::<8>().0) {
        let [a, b, c, d, e, f, g, h] = *words;
        let (high, low) = order(word([a, b, c, d]), word([e, f, g, h]));
        *value = (u64::from(high) << 32 | u64::from(low)).to_ne_bytes();
    }
}

/// Unpacks values of fewer than 32 bits, as many in a word as fit, the first in the lowest bits; skips the first
/// `skip`.
fn unpack_bits(
    kind: Kind,
    bits: usize,
    range: Option<(f32, f32)>,
    words: impl Iterator<Item = u32>,
    skip: usize,
    place: &mut [u8],
) {
    let mask = (1u32 << bits) - 1;
    match kind {
        Kind::Logical => {
            spread(words, bits, skip, place.as_chunks_mut::<1>().0, |value| [(value & mask) as u8]);
        }
        Kind::Real => {
            let (low, high) = range.unwrap_or((0.0, 0.0));
            let (width, steps) = (high - low, mask as f32);
            let real = |value: u32| ((value & mask) as f32 * width / steps + low).to_ne_bytes();
            spread(words, bits, skip, place.as_chunks_mut::<4>().0, real);
        }
        Kind::Int => {
            let sign = 1u32 << (bits - 1);
            let int = |value: u32| {
                let magnitude = (value & (sign - 1)).cast_signed();
                if value & sign != 0 { -magnitude } else { magnitude }.to_ne_bytes()
            };
            spread(words, bits, skip, place.as_chunks_mut::<4>().0, int);
        }
        Kind::Unsigned | Kind::Text => {
            spread(words, bits, skip, place.as_chunks_mut::<4>().0, |value| (value & mask).to_ne_bytes());
        }
    }
}

/// Converts each value of the words. The bits above a value are those of the later values; `skip` is less than the
/// values in a word.
fn spread<const N: usize>(
    mut words: impl Iterator<Item = u32>,
    bits: usize,
    skip: usize,
    place: &mut [[u8; N]],
    convert: impl Fn(u32) -> [u8; N],
) {
    let each = 32 / bits;
    let (head, rest) = place.split_at_mut((each - skip).min(place.len()));
    for (values, skip) in std::iter::once((head, skip)).chain(rest.chunks_mut(each).map(|values| (values, 0)))
    {
        let word = words.next().unwrap_or(0) >> (skip * bits);
        for (number, value) in values.iter_mut().enumerate() {
            *value = convert(word >> (number * bits));
        }
    }
}
