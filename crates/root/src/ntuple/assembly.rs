//! Assembling the column of a field from its lanes.

use super::decode::SWITCH_BYTES;
use super::encoding;
use super::structure::{Stored, Structure};
use crate::array::{Builder, Column, Number};
use crate::error::{Error, Result, Within};
use crate::streamer::compile::Programs;
use crate::streamer::decode::Decoder;
use crate::wire::{Cursor, grow};
use arrow_buffer::Buffer;
use std::sync::Arc;

/// Assembles a column.
pub struct Assembly<'t> {
    pub take: &'t mut dyn FnMut(usize) -> Result<Column>,
    /// Asked before bytes are allocated.
    pub room: &'t dyn Fn(u64) -> Result<()>,
    pub programs: Option<&'t Programs>,
}

impl Assembly<'_> {
    /// Returns the column of a structure with `length` values.
    pub fn column(&mut self, structure: &Structure, length: usize) -> Result<Column> {
        let column = match structure {
            Structure::Number { stored, .. } => (self.take)(stored.slot)?,
            Structure::Text { offsets, chars } => {
                Column::Text { offsets: self.buffer(offsets)?, bytes: self.buffer(chars)? }
            }
            Structure::List { offsets, item } => {
                let offsets = self.buffer(offsets)?;
                let items = words(&offsets).last().unwrap_or_default();
                Column::List { values: Box::new(self.column(item, items as usize)?), offsets }
            }
            Structure::Option { offsets, item } => {
                let offsets = self.buffer(offsets)?;
                let items = words(&offsets).last().unwrap_or_default();
                let mut index = self.with_room(length)?;
                let starts = words(&offsets);
                for (start, end) in starts.zip(words(&offsets).skip(1)) {
                    index.push(match end - start {
                        0 => -1i64,
                        1 => start as i64,
                        n => return Err(Error::corrupt(format!("{n} values instead of one or none"))),
                    });
                }
                let values = self.column(item, items as usize)?;
                self.room_for_none(&values, length)?;
                values.optional(index)?
            }
            Structure::Sizes { offsets, number, .. } => {
                let offsets = self.buffer(offsets)?;
                let sizes = words(&offsets).zip(words(&offsets).skip(1)).map(|(start, end)| end - start);
                let mut values: Vec<u8> = self.with_room(length.saturating_mul(number.size()))?;
                for size in sizes {
                    if *number == Number::U64 {
                        values.extend(size.to_ne_bytes());
                    } else {
                        let size = u32::try_from(size);
                        let size = size.map_err(|_| Error::limit("a size does not fit into 32 bits"))?;
                        values.extend(size.to_ne_bytes());
                    }
                }
                Column::Number { number: *number, values: Buffer::from_vec(values) }
            }
            Structure::Fixed { size, item } => {
                let items = length.checked_mul(*size);
                let items = items.ok_or_else(|| Error::limit(format!("{length} arrays of {size} items")))?;
                Column::FixedList { length, size: *size, values: Box::new(self.column(item, items)?) }
            }
            Structure::Record { name, fields } => {
                let mut columns = Vec::with_capacity(fields.len());
                for (name, field) in fields {
                    columns.push((name.clone(), self.column(field, length)?));
                }
                Column::Record { length, name: name.clone(), fields: columns }
            }
            Structure::Variant { switch, items } => {
                let bytes = self.buffer(switch)?;
                self.variants(&bytes, items)?
            }
            Structure::Streamed { offsets, bytes, kind, of } => {
                let offsets = self.buffer(offsets)?;
                let bytes = self.buffer(bytes)?;
                let programs = self.programs.ok_or_else(unread)?;
                let mut decoder = Decoder::new(programs, false);
                let mut builder = Builder::new(of);
                let mut known = 0;
                for (entry, (start, end)) in words(&offsets).zip(words(&offsets).skip(1)).enumerate() {
                    let object = bytes.get(start as usize..end as usize).unwrap_or_default();
                    let mut c = Cursor::new(object, 0);
                    decoder.next_entry();
                    let place = || format!("object {entry}");
                    decoder.decode(kind, &mut c, &mut builder, 1).within(place)?;
                    if c.remaining() > 0 {
                        return Err(c
                            .corrupt(format!("{} bytes are left over", c.remaining()))
                            .within(place()));
                    }
                    let size = builder.bytes();
                    (self.room)(size.saturating_sub(known) as u64)?;
                    known = size;
                }
                builder.finish()
            }
        };
        if column.len() != length {
            return Err(Error::corrupt(format!("{} values for {length} entries", column.len())));
        }
        Ok(column)
    }

    fn with_room<T>(&self, count: usize) -> Result<Vec<T>> {
        (self.room)((count as u64).saturating_mul(size_of::<T>() as u64))?;
        grow::with_room(count)
    }

    /// Asks for the room that [`Column::optional`] needs for `length` places in addition to the places themselves.
    fn room_for_none(&self, values: &Column, length: usize) -> Result<()> {
        let Column::Union { variants, .. } = values else { return Ok(()) };
        (self.room)(length as u64)?;
        variants.first().map_or(Ok(()), |first| self.room_for_places(first))
    }

    /// Asks for the room that [`Column::with_none`] needs.
    fn room_for_places(&self, values: &Column) -> Result<()> {
        (self.room)((values.len() as u64 + 1).saturating_mul(size_of::<i64>() as u64))?;
        self.room_for_none(values, values.len() + 1)
    }

    fn buffer(&mut self, stored: &Stored) -> Result<Buffer> {
        match (self.take)(stored.slot)? {
            Column::Number { values, .. } => Ok(values),
            _ => Err(unread()),
        }
    }

    /// The values of each type are consecutive, so that counting gives the place of each.
    fn variants(&mut self, bytes: &[u8], items: &[Arc<Structure>]) -> Result<Column> {
        let mut counts = vec![0i64; items.len()];
        let length = bytes.len() / SWITCH_BYTES;
        let mut tags = self.with_room(length)?;
        let mut index = self.with_room(length)?;
        for (_, tag) in encoding::switch(bytes) {
            let tag = (tag as usize).checked_sub(1).and_then(|tag| Some((tag, counts.get_mut(tag)?)));
            let (tag, place) = tag.map_or((-1, 0), |(tag, count)| {
                *count += 1;
                (tag as i8, *count - 1)
            });
            tags.push(tag);
            index.push(place);
        }
        let mut variants = Vec::with_capacity(items.len());
        for (item, &count) in items.iter().zip(&counts) {
            variants.push(self.column(item, count as usize)?);
        }
        if let Some(first) = variants.first_mut() {
            self.room_for_places(first)?;
            let (optional, none) = std::mem::replace(first, Column::Empty).with_none()?;
            *first = optional;
            for (tag, index) in tags.iter_mut().zip(&mut index).filter(|(tag, _)| **tag < 0) {
                *tag = 0;
                *index = none;
            }
        }
        Ok(Column::Union { tags: Buffer::from_vec(tags), index: Buffer::from_vec(index), variants })
    }
}

/// Iterates over 64-bit numbers.
pub fn words(bytes: &[u8]) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word))
}

pub fn unread() -> Error {
    Error::corrupt("values of the stage before are missing")
}
