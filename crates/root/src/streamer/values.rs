//! Decoding values without classes, many at a time: numbers, strings, lists and records of numbers.

use super::kind::{Kind, Record};
use crate::array::{Builder, Number};
use crate::error::Result;
use crate::wire::grow::{self, Grow};
use crate::wire::{Cursor, swap};

/// Decodes consecutive numbers.
#[inline]
pub fn numbers(number: Number, bytes: &[u8], values: &mut Vec<u8>) -> Result<()> {
    match number {
        // Any non-zero byte is true; NumPy and Arrow allow only 0 and 1.
        Number::Bool => {
            values.room(bytes.len())?;
            values.extend(bytes.iter().map(|&b| u8::from(b != 0)));
            Ok(())
        }
        _ => swap::extend(number.size(), bytes, values),
    }
}

/// Decodes `n` lists of numbers, each after its length.
pub fn number_lists(
    number: Number,
    c: &mut Cursor<'_>,
    offsets: &mut Vec<i64>,
    values: &mut Vec<u8>,
    n: usize,
) -> Result<()> {
    let size = number.size();
    let mut end = offsets.last().copied().unwrap_or_default();
    for _ in 0..n {
        let count = c.count(size)?;
        let bytes = count * size;
        let from = c.take_of_rest(bytes)?;
        match number {
            Number::Bool => numbers(number, from.get(..bytes).unwrap_or_default(), values)?,
            _ => swap::extend_front(size, from, bytes, values)?,
        }
        end += count as i64;
        offsets.try_push(end)?;
    }
    Ok(())
}

/// Decodes `n` strings, each after its length.
pub fn texts(c: &mut Cursor<'_>, offsets: &mut Vec<i64>, bytes: &mut Vec<u8>, n: usize) -> Result<()> {
    for _ in 0..n {
        let length = c.string_length()?;
        swap::extend_front(1, c.take_of_rest(length)?, length, bytes)?;
        offsets.try_push(bytes.len() as i64)?;
    }
    Ok(())
}

/// Decodes records of fixed length: each field is gathered from all of them.
pub fn strided(
    record: &Record,
    bytes: &[u8],
    stride: usize,
    fields: &mut [(String, Builder)],
    n: usize,
) -> Result<()> {
    let mut offset = 0;
    for step in &record.steps {
        if let Some((_, field)) = fields.get_mut(step.field) {
            gather(&step.kind, bytes, offset, stride, field, n)?;
        }
        offset += step.kind.fixed_bytes().unwrap_or(0);
    }
    Ok(())
}

/// Gathers values of a kind from rows of bytes, at the same offset in each row.
pub fn gather(
    kind: &Kind,
    bytes: &[u8],
    offset: usize,
    stride: usize,
    out: &mut Builder,
    n: usize,
) -> Result<()> {
    match (kind, out) {
        (Kind::Record(record), Builder::Record { length, fields, .. }) => {
            let mut inner = offset;
            for step in &record.steps {
                if let Some((_, field)) = fields.get_mut(step.field) {
                    gather(&step.kind, bytes, inner, stride, field, n)?;
                }
                inner += step.kind.fixed_bytes().unwrap_or(0);
            }
            *length += n;
        }
        (Kind::Number(number), Builder::Number { values, .. }) if *number != Number::Bool => {
            let rows = bytes.chunks_exact(stride.max(1)).map(|row| row.get(offset..).unwrap_or_default());
            swap::extend_each(number.size(), rows, values)?;
        }
        (kind, out) => {
            let width = kind.fixed_bytes().unwrap_or(0);
            let mut column = grow::with_room(n.saturating_mul(width))?;
            for row in bytes.chunks_exact(stride.max(1)) {
                column.try_extend(row.get(offset..offset + width).unwrap_or_default())?;
            }
            append_fixed(kind, &column, out, n)?;
        }
    }
    Ok(())
}

/// Decodes consecutive numbers of fixed dimensions, or records of these.
fn append_fixed(kind: &Kind, bytes: &[u8], out: &mut Builder, n: usize) -> Result<()> {
    match (kind, out) {
        (Kind::Fixed { size, item }, Builder::FixedList { length, values, .. }) => {
            append_fixed(item, bytes, values, n * size)?;
            *length += n;
        }
        (Kind::Record(record), Builder::Record { length, fields, .. }) => {
            strided(record, bytes, kind.fixed_bytes().unwrap_or(0), fields, n)?;
            *length += n;
        }
        (Kind::Number(number), Builder::Number { values, .. }) => numbers(*number, bytes, values)?,
        (Kind::Packed(packing), Builder::Number { number, values }) => {
            let start = values.len();
            values.try_fill(n * number.size(), 0)?;
            packing.decode(bytes, values.get_mut(start..).unwrap_or_default());
        }
        _ => {}
    }
    Ok(())
}
