//! Decoding member-wise data: the same member of many objects together.

use super::super::kind::{Class, Kind, Record, Version};
use super::super::values::numbers;
use super::versions::{Header, by_header};
use super::{Decoder, Fields, blamed, end_at, field, last_counts, misfit, pair, sized, unreferenced};
use crate::array::Builder;
use crate::error::{Result, Within};
use crate::wire::Cursor;
use crate::wire::cursor::Frame;
use crate::wire::grow::Grow;

impl Decoder<'_> {
    /// Decodes `n` member-wise collections that fill a frame, after a class version that applies to all of them.
    ///
    /// The objects have no frames of their own. An error in their members counts as one of their class, as in
    /// other collections: whether the class can be decoded must not depend on how its objects are stored.
    pub(super) fn member_wise(
        &mut self,
        frame: Frame,
        kind: &Kind,
        c: &mut Cursor<'_>,
        out: &mut Builder,
        n: usize,
    ) -> Result<()> {
        let mut decode = || {
            let header = Header::read(c)?;
            (0..n).try_for_each(|_| self.member_wise_one(kind, header, c, out))?;
            end_at(c, frame, "a container")
        };
        let result = decode();
        result.map_err(|error| match class_of_items(kind) {
            Some(class) => blamed(error, frame, class, c),
            None => error,
        })
    }

    /// Decodes the same member of `n` objects: a container has one version header for all of them.
    pub fn column(&mut self, kind: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
        match kind {
            Kind::Framed(inner) if n > 0 => self.framed_column(inner, c, out, n),
            _ => self.decode(kind, c, out, n),
        }
    }

    pub(super) fn framed_column(
        &mut self,
        inner: &Kind,
        c: &mut Cursor<'_>,
        out: &mut Builder,
        n: usize,
    ) -> Result<()> {
        let frame = c.frame()?;
        if frame.member_wise {
            return self.member_wise(frame, inner, c, out, n);
        }
        self.decode(inner, c, out, n)?;
        end_at(c, frame, "a container")
    }

    /// Decodes the same member of as many objects as there are in the rest of the buffer.
    pub fn column_to_end(&mut self, kind: &Kind, c: &mut Cursor<'_>, out: &mut Builder) -> Result<()> {
        let (kind, header) = match kind {
            Kind::Framed(inner) if c.remaining() > 0 => {
                let frame = c.frame()?;
                if frame.member_wise && !has_members(inner) {
                    return Err(c.corrupt("member-wise data of a type without members"));
                }
                (inner.as_ref(), if frame.member_wise { Some(Header::read(c)?) } else { None })
            }
            other => (other, None),
        };
        let bytes = match kind {
            Kind::StatusBits => Some(4).filter(|_| unreferenced(c.rest())),
            other => other.fixed_bytes(),
        };
        if let (None, Some(bytes @ 1..)) = (header, bytes)
            && c.remaining().is_multiple_of(bytes)
        {
            return self.decode(kind, c, out, c.remaining() / bytes);
        }
        while c.remaining() > 0 {
            let before = c.pos();
            match header {
                None => self.decode(kind, c, out, 1)?,
                Some(header) => self.member_wise_one(kind, header, c, out)?,
            }
            if c.pos() == before {
                return Err(c.corrupt("a value without bytes"));
            }
        }
        Ok(())
    }

    /// Decodes one member-wise collection: its size and each member of all its elements.
    pub(super) fn member_wise_one(
        &mut self,
        kind: &Kind,
        header: Header,
        c: &mut Cursor<'_>,
        out: &mut Builder,
    ) -> Result<()> {
        if let (Kind::Fixed { size, item }, Builder::FixedList { length, values, .. }) = (kind, &mut *out) {
            (0..*size).try_for_each(|_| self.member_wise_one(item, header, c, values))?;
            *length += 1;
            return Ok(());
        }
        let Builder::List { offsets, values } = out else { return Err(misfit(kind, c)) };
        let count = c.count(0)?;
        let before = c.pos();
        match kind {
            Kind::List(item) => match item.as_ref() {
                Kind::Again(_) if count == 0 => {}
                Kind::Again(name) => {
                    let (Kind::Object(class), Builder::Dynamic(out)) = (self.program(name), values.as_mut())
                    else {
                        return Err(misfit(item, c));
                    };
                    let first = class.first()?.record.clone();
                    let into =
                        out.variant(name, count, || Ok(Builder::new(&Kind::Record(first).type_of()?)))?;
                    let chosen = by_header(&class, header, c)?;
                    self.deeper(c, |decoder, c| decoder.versioned_columns(&class, chosen, c, into, count))?;
                }
                Kind::Object(class) => {
                    let chosen = by_header(class, header, c)?;
                    self.versioned_columns(class, chosen, c, values, count)?;
                }
                Kind::Record(record) => self.columns(record, c, values, count)?,
                Kind::Opaque(..) => self.decode(item, c, values, count)?,
                other => return Err(misfit(other, c)),
            },
            Kind::Map(key, value) => {
                let (keys, items) = pair(values, count, c)?;
                self.half(key, c, keys, count)?;
                self.half(value, c, items, count)?;
            }
            other => return Err(misfit(other, c)),
        }
        self.allow_hollow(count, before, c)?;
        offsets.try_push(values.len() as i64)?;
        Ok(())
    }

    /// Decodes keys or values of a map, or halves of pairs, streamed member-wise. Containers and strings have one
    /// version header for all.
    pub(super) fn half(
        &mut self,
        kind: &Kind,
        c: &mut Cursor<'_>,
        out: &mut Builder,
        n: usize,
    ) -> Result<()> {
        match kind {
            Kind::List(_) | Kind::Map(..) | Kind::Text | Kind::Bits if n > 0 => {
                self.framed_column(kind, c, out, n)
            }
            _ => self.column(kind, c, out, n),
        }
    }

    pub(super) fn versioned_columns(
        &mut self,
        class: &Class,
        chosen: &Version,
        c: &mut Cursor<'_>,
        out: &mut Builder,
        n: usize,
    ) -> Result<()> {
        if std::ptr::eq(chosen, class.first()?) {
            return self.columns(&chosen.record, c, out, n);
        }
        let mut piece = self.piece(chosen)?;
        let start = c.pos();
        self.columns(&chosen.record, c, &mut piece, n)?;
        self.allow_zeros(out.missing_bytes(&piece), start, c)?;
        out.append_converted(&piece)?;
        self.pieces.push((std::ptr::from_ref(chosen), piece));
        Ok(())
    }

    /// Decodes the members of `n` objects, one member of all objects after the other.
    pub fn columns(
        &mut self,
        record: &Record,
        c: &mut Cursor<'_>,
        out: &mut Builder,
        n: usize,
    ) -> Result<()> {
        let Builder::Record { length, fields, .. } = out else {
            return Err(c.corrupt(format!("no record for class {}", record.name)));
        };
        self.columns_into(record, c, fields, n)?;
        *length += n;
        Ok(())
    }

    pub(super) fn columns_into(
        &mut self,
        record: &Record,
        c: &mut Cursor<'_>,
        fields: &mut Fields,
        n: usize,
    ) -> Result<()> {
        let halves = record.name == "pair";
        for step in &record.steps {
            let place = || format!("member {}", step.name);
            match &step.kind {
                Kind::ObjectBits if step.base => c.skip_object_bits(n)?,
                Kind::Skipped(skipped) => self.skip(skipped, step, &record.name, c, n).within(place)?,
                Kind::Opaque(..) if step.base => {}
                Kind::Object(class) if step.base => {
                    let inner = fields.get_mut(step.field..).unwrap_or_default();
                    if step.whole {
                        (0..n).try_for_each(|_| self.object(class, c, inner)).within(place)?;
                    } else {
                        self.base_columns(class, step.version, c, inner, n).within(place)?;
                    }
                }
                Kind::List(item) if step.base => {
                    array_columns(item, c, field(fields, step, c)?, n).within(place)?;
                }
                Kind::Counted { counter, .. } => {
                    let counts = last_counts(fields, *counter, n, c)?;
                    for count in counts {
                        self.counted(step, c, fields, count).within(place)?;
                    }
                }
                Kind::Loop { counter: Some(_), .. } if n == 0 => {}
                Kind::Loop { counter: Some(counter), item } => {
                    let counts = last_counts(fields, *counter, n, c)?;
                    self.rows(item, c, field(fields, step, c)?, counts.into_iter()).within(place)?;
                }
                kind => {
                    let field = field(fields, step, c)?;
                    if halves { self.half(kind, c, field, n) } else { self.column(kind, c, field, n) }
                        .within(place)?;
                }
            }
        }
        Ok(())
    }

    /// Decodes the members of a base class of `n` objects; the derived class determines its version.
    pub(super) fn base_columns(
        &mut self,
        class: &Class,
        version: i32,
        c: &mut Cursor<'_>,
        fields: &mut Fields,
        n: usize,
    ) -> Result<()> {
        let first = class.first()?;
        let chosen = class.versions.iter().find(|v| v.version == version).unwrap_or(first);
        if std::ptr::eq(chosen, first) {
            return self.columns_into(&first.record, c, fields, n);
        }
        let mut piece = self.piece(chosen)?;
        let start = c.pos();
        self.columns(&chosen.record, c, &mut piece, n)?;
        self.adopt(first, &piece, fields, n, start, c)?;
        self.pieces.push((std::ptr::from_ref(chosen), piece));
        Ok(())
    }

    /// Decodes arrays of objects (`TStreamerLoop`) after one header for all; `counts` holds the length of each array.
    pub fn rows(
        &mut self,
        item: &Kind,
        c: &mut Cursor<'_>,
        out: &mut Builder,
        counts: impl Iterator<Item = usize>,
    ) -> Result<()> {
        let Builder::List { offsets, values } = out else { return Err(misfit(item, c)) };
        let frame = c.frame()?;
        for count in counts {
            self.maybe_hollow(item, c, values, count)?;
            offsets.try_push(values.len() as i64)?;
        }
        end_at(c, frame, "a row of objects")
    }
}

/// Returns the class of the objects in a collection; of a map, that of its values or else of its keys.
fn class_of_items(kind: &Kind) -> Option<&str> {
    match kind {
        Kind::Fixed { item, .. } | Kind::List(item) => class_of_items(item),
        Kind::Map(key, value) => class_of_items(value).or_else(|| class_of_items(key)),
        Kind::Object(class) => Some(&class.name),
        Kind::Again(name) => Some(name),
        _ => None,
    }
}

/// Whether a kind can be stored member-wise: as a collection of objects.
fn has_members(kind: &Kind) -> bool {
    match kind {
        Kind::Fixed { item, .. } => has_members(item),
        Kind::List(item) => {
            matches!(item.as_ref(), Kind::Again(_) | Kind::Object(_) | Kind::Record(_) | Kind::Opaque(..))
        }
        Kind::Map(..) => true,
        _ => false,
    }
}

/// Decodes a `TArray` that is a base of `n` objects: all sizes, then for each object a byte that says whether numbers
/// follow, and the numbers.
fn array_columns(item: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
    let (Kind::Number(number), Builder::List { offsets, values }) = (item, out) else {
        return Err(misfit(item, c));
    };
    let Builder::Number { values, .. } = values.as_mut() else { return Err(misfit(item, c)) };
    let mut end = offsets.last().copied().unwrap_or_default();
    let counts: Vec<usize> = (0..n).map(|_| c.count(number.size())).collect::<Result<_>>()?;
    for count in counts {
        let count = if c.u8()? == 0 { 0 } else { count };
        numbers(*number, c.take(sized(c, count, number.size())?)?, values)?;
        end += count as i64;
        offsets.try_push(end)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Number;
    use crate::error::ErrorKind;
    use crate::streamer::Classes;
    use crate::streamer::compile::Programs;
    use std::sync::Arc;

    #[test]
    fn members_that_do_not_fit_their_frame_are_an_error_of_the_class() {
        let record = Arc::new(Record::new("In", [("a".to_owned(), false, Kind::Number(Number::I32))]));
        let class = Class { name: "In".into(), versions: vec![Version { version: 1, checksum: 7, record }] };
        let kind = Kind::Framed(Box::new(Kind::List(Box::new(Kind::Object(Arc::new(class))))));
        let programs = Programs::new(Arc::new(Classes::default()));
        // A member-wise collection of two objects, whose members have other bytes than the class describes.
        for (bytes, class) in [(8, None), (4, Some("In")), (12, Some("In"))] {
            let head = [0x4000_0000 | (8 + bytes as u32), 0x4009_0001, 2];
            let data: Vec<u8> = head.into_iter().flat_map(u32::to_be_bytes).chain(vec![1; bytes]).collect();
            let mut out = Builder::new(&kind.type_of().unwrap());
            let result = Decoder::new(&programs, true).decode(&kind, &mut Cursor::new(&data, 0), &mut out, 1);
            let error = result.err();
            assert_eq!(error.as_ref().and_then(|error| error.class()), class, "{bytes} bytes");
            assert_eq!(error.map(|error| error.kind()), class.map(|_| ErrorKind::Unsupported));
        }
    }
}
