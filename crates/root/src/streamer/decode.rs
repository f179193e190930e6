//! Running programs: values in a buffer become columns.

use super::kind::{Class, Kind, Record, Step, Version};
use crate::array::{Builder, Number, Type};
use crate::error::{Error, Result, Within};
use crate::wire::cursor::{BYTE_COUNT_MASK, IS_REFERENCED};
use crate::wire::{Cursor, swap};

/// Decodes `n` values of a kind that follow each other and appends them.
///
/// # Errors
/// When the bytes end early or contradict the kind; the builder then holds an unknown part of the values and must
/// not be used.
pub fn decode(kind: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
    match (kind, out) {
        (Kind::Number(number), Builder::Number { values, .. }) => {
            let bytes = c.take(sized(c, n, number.size())?)?;
            match number {
                // Any byte but 0 is true; NumPy and Arrow know 0 and 1 alone.
                Number::Bool => values.extend(bytes.iter().map(|&b| u8::from(b != 0))),
                _ => swap::extend(number.size(), bytes, values),
            }
        }
        (Kind::Packed(packing), Builder::Number { number, values }) => {
            let bytes = c.take(sized(c, n, packing.disk_bytes())?)?;
            let start = values.len();
            values.resize(start + n * number.size(), 0);
            packing.decode(bytes, values.get_mut(start..).unwrap_or_default());
        }
        (Kind::Fixed { size, item }, Builder::FixedList { length, values, .. }) => {
            decode(item, c, values, sized(c, n, *size)?)?;
            *length += n;
        }
        (Kind::Text, Builder::Text { offsets, bytes }) => {
            for _ in 0..n {
                bytes.extend_from_slice(c.string_bytes()?);
                offsets.push(bytes.len() as i64);
            }
        }
        (Kind::LongText, Builder::Text { offsets, bytes }) => {
            for _ in 0..n {
                let length = c.count(1)?;
                bytes.extend_from_slice(c.take(length)?);
                offsets.push(bytes.len() as i64);
            }
        }
        (Kind::Bits, Builder::List { offsets, values }) => {
            if let Builder::Number { values, .. } = values.as_mut() {
                for _ in 0..n {
                    let count = c.count(1)?;
                    values.extend(c.take(count)?.iter().map(|&b| u8::from(b != 0)));
                    offsets.push(values.len() as i64);
                }
            }
        }
        (Kind::List(item), Builder::List { offsets, values }) => {
            let smallest = smallest(item);
            for _ in 0..n {
                let count = c.count(smallest)?;
                decode(item, c, values, count)?;
                offsets.push(values.len() as i64);
            }
        }
        (Kind::Map(key, value), Builder::List { offsets, values }) => {
            for _ in 0..n {
                let count = c.count(1)?;
                decode_pairs(key, value, c, values, count)?;
                offsets.push(values.len() as i64);
            }
        }
        (Kind::Framed(inner), out) => {
            for _ in 0..n {
                let frame = c.frame()?;
                if frame.member_wise {
                    decode_member_wise(inner, c, out)?;
                } else {
                    decode(inner, c, out, 1)?;
                }
                c.finish(frame)?;
            }
        }
        (Kind::Record(record), out) => decode_record(record, c, out, n)?,
        (Kind::Object(class), out) => decode_objects(class, c, out, n)?,
        (Kind::Top(class), out) => {
            let first = c.clone().u32().unwrap_or_default();
            let framed = first == BYTE_COUNT_MASK | (c.remaining().saturating_sub(4)) as u32;
            if framed {
                decode_objects(class, c, out, n)?;
            } else {
                decode_record(&class.first()?.record, c, out, n)?;
            }
        }
        (Kind::Reference, Builder::Record { length, fields, .. }) => {
            if let [(_, Builder::Number { values, .. })] = fields.as_mut_slice() {
                for _ in 0..n {
                    c.skip(2)?;
                    let id = c.u32()?;
                    let bits = c.u32()?;
                    c.skip(if bits & IS_REFERENCED == 0 { 2 } else { 4 })?;
                    values.extend_from_slice(&id.to_ne_bytes());
                }
            }
            *length += n;
        }
        (Kind::StatusBits, Builder::Number { values, .. }) => {
            for _ in 0..n {
                let bits = c.u32()?;
                c.skip(if bits & IS_REFERENCED == 0 { 0 } else { 2 })?;
                values.extend_from_slice(&bits.to_ne_bytes());
            }
        }
        (Kind::ObjectBits, _) => {
            for _ in 0..n {
                c.object_bits()?;
            }
        }
        (Kind::Unreadable(why), _) => return Err(Error::unsupported(why.to_string()).at(c.place())),
        (kind, _) => {
            return Err(Error::unsupported(format!("{kind:?} does not fit its column")).at(c.place()));
        }
    }
    Ok(())
}

/// A product of counts, refused where the buffer cannot hold that many.
fn sized(c: &Cursor<'_>, n: usize, each: usize) -> Result<usize> {
    n.checked_mul(each).ok_or_else(|| c.corrupt(format!("{n} times {each} values")))
}

/// The least bytes that one value takes.
fn smallest(kind: &Kind) -> usize {
    match kind {
        Kind::List(_) | Kind::Map(..) | Kind::Bits | Kind::LongText => 4,
        Kind::Object(_) | Kind::Framed(_) => 2,
        Kind::Text => 1,
        _ => kind.fixed_bytes().unwrap_or(1),
    }
}

fn decode_pairs(key: &Kind, value: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
    let Builder::Record { length, fields, .. } = out else { return Ok(()) };
    if let [(_, keys), (_, values)] = fields.as_mut_slice() {
        for _ in 0..n {
            decode(key, c, keys, 1)?;
            decode(value, c, values, 1)?;
        }
    }
    *length += n;
    Ok(())
}

/// A collection streamed member by member: class version, count, then each member of all elements.
fn decode_member_wise(kind: &Kind, c: &mut Cursor<'_>, out: &mut Builder) -> Result<()> {
    let version = c.u16()?;
    let checksum = if version == 0 { Some(c.u32()?) } else { None };
    let count = c.count(1)?;
    let Builder::List { offsets, values } = out else {
        return Err(Error::unsupported("member-wise streaming of something that is no list").at(c.place()));
    };
    match kind {
        Kind::List(item) => match item.as_ref() {
            Kind::Object(class) => {
                let found = class.versions.iter().find(|v| match checksum {
                    Some(sum) => v.checksum == sum,
                    None => v.version == i32::from(version),
                });
                let chosen = found.or(class.versions.first().filter(|_| class.versions.len() == 1));
                let chosen = chosen.ok_or_else(|| {
                    c.corrupt(format!("class {} has no version {version} in the file", class.name))
                })?;
                let first = class.first()?;
                if std::ptr::eq(chosen, first) {
                    decode_columns(&chosen.record, c, values, count)?;
                } else {
                    let mut piece = Builder::new(&Kind::Record(chosen.record.clone()).type_of()?);
                    decode_columns(&chosen.record, c, &mut piece, count)?;
                    values.append_converted(&piece)?;
                }
            }
            Kind::Record(record) => decode_columns(record, c, values, count)?,
            other => {
                return Err(Error::unsupported(format!("member-wise streaming of {other:?}")).at(c.place()));
            }
        },
        Kind::Map(key, value) => {
            if let Builder::Record { length, fields, .. } = values.as_mut()
                && let [(_, keys), (_, items)] = fields.as_mut_slice()
            {
                decode_half(key, c, keys, count)?;
                decode_half(value, c, items, count)?;
                *length += count;
            }
        }
        other => return Err(Error::unsupported(format!("member-wise streaming of {other:?}")).at(c.place())),
    }
    offsets.push(values.len() as i64);
    Ok(())
}

/// The same member of `n` elements: a container writes its version header once for all of them.
pub fn decode_column(kind: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
    match kind {
        Kind::Framed(inner) if n > 0 => {
            let frame = c.frame()?;
            if frame.member_wise {
                for _ in 0..n {
                    decode_member_wise(inner, c, out)?;
                }
            } else {
                decode(inner, c, out, n)?;
            }
            c.finish(frame)
        }
        _ => decode(kind, c, out, n),
    }
}

/// Keys or values of a map streamed member-wise: containers and strings have one version header for all.
fn decode_half(kind: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
    match kind {
        Kind::List(_) | Kind::Map(..) | Kind::Text | Kind::Bits if n > 0 => {
            let frame = c.frame()?;
            if frame.member_wise {
                for _ in 0..n {
                    decode_member_wise(kind, c, out)?;
                }
            } else {
                decode(kind, c, out, n)?;
            }
            c.finish(frame)
        }
        _ => decode_column(kind, c, out, n),
    }
}

/// Members of `n` elements, one member of all after the other.
pub fn decode_columns(record: &Record, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
    let Builder::Record { length, fields, .. } = out else { return Ok(()) };
    let mut fields = fields.iter_mut();
    columns_into(record, c, &mut fields, n)?;
    *length += n;
    Ok(())
}

type Fields<'a> = std::slice::IterMut<'a, (String, Builder)>;

fn columns_into(record: &Record, c: &mut Cursor<'_>, fields: &mut Fields<'_>, n: usize) -> Result<()> {
    for step in &record.steps {
        match &step.kind {
            Kind::ObjectBits => {
                for _ in 0..n {
                    c.object_bits()?;
                }
            }
            Kind::Object(class) if step.base => columns_into(&class.first()?.record, c, fields, n)?,
            Kind::Counted { .. } => {
                return Err(Error::unsupported(format!("variable array {} streamed member-wise", step.name))
                    .at(c.place()));
            }
            kind => {
                let field = next_field(fields, step, c)?;
                decode_column(kind, c, field, n).within(|| format!("member {}", step.name))?;
            }
        }
    }
    Ok(())
}

fn next_field<'a>(fields: &mut Fields<'a>, step: &Step, c: &Cursor<'_>) -> Result<&'a mut Builder> {
    match fields.next() {
        Some((_, field)) => Ok(field),
        None => Err(c.corrupt(format!("no column for member {}", step.name))),
    }
}

fn decode_record(record: &Record, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
    let Builder::Record { length, fields, .. } = out else {
        return Err(c.corrupt(format!("no record for class {}", record.name)));
    };
    for _ in 0..n {
        let mut places = fields.iter_mut();
        record_into(record, c, &mut places)?;
    }
    *length += n;
    Ok(())
}

fn record_into(record: &Record, c: &mut Cursor<'_>, fields: &mut Fields<'_>) -> Result<()> {
    // Counters of variable arrays are read back from the bytes they were decoded from.
    let mut starts: Vec<usize> = Vec::new();
    let counted = record.steps.iter().any(|s| matches!(s.kind, Kind::Counted { .. }));
    for step in &record.steps {
        if counted {
            starts.push(c.pos());
        }
        match &step.kind {
            Kind::ObjectBits => {
                c.object_bits()?;
            }
            Kind::Object(class) if step.base => {
                object_into(class, c, fields).within(|| format!("base {}", step.name))?;
            }
            Kind::Counted { counter, item } => {
                let field = next_field(fields, step, c)?;
                let Builder::List { offsets, values } = field else { return Ok(()) };
                if c.u8()? != 0 {
                    let count = counter_value(record, *counter, &starts, c)?;
                    decode(item, c, values, count).within(|| format!("member {}", step.name))?;
                }
                offsets.push(values.len() as i64);
            }
            kind => {
                let field = next_field(fields, step, c)?;
                decode(kind, c, field, 1).within(|| format!("member {}", step.name))?;
            }
        }
    }
    Ok(())
}

fn counter_value(record: &Record, counter: usize, starts: &[usize], c: &Cursor<'_>) -> Result<usize> {
    let mut peek = c.clone();
    peek.seek(starts.get(counter).copied().unwrap_or_default())?;
    let count = match record.steps.get(counter).map(|s| &s.kind) {
        Some(Kind::Number(number)) => match number.size() {
            1 => i64::from(peek.i8()?),
            2 => i64::from(peek.i16()?),
            4 => i64::from(peek.i32()?),
            _ => peek.i64()?,
        },
        _ => return Err(c.corrupt("the counter of a variable array is no number")),
    };
    usize::try_from(count).map_err(|_| c.corrupt(format!("a variable array of {count} elements")))
}

fn decode_objects(class: &Class, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
    let Builder::Record { length, fields, .. } = out else {
        return Err(c.corrupt(format!("no record for class {}", class.name)));
    };
    for i in 0..n {
        let mut places = fields.iter_mut();
        object_into(class, c, &mut places).within(|| {
            if n > 1 { format!("object {i} of {n}, class {}", class.name) } else { format!("class {}", class.name) }
        })?;
    }
    *length += n;
    Ok(())
}

fn object_into(class: &Class, c: &mut Cursor<'_>, fields: &mut Fields<'_>) -> Result<()> {
    let frame = c.frame()?;
    let version = i32::from(frame.version as i16);
    let chosen = choose(class, version, frame.end, c)?;
    let first = class.first()?;
    if std::ptr::eq(chosen, first) {
        record_into(&chosen.record, c, fields)?;
    } else {
        evolve(first, chosen, c, fields).within(|| format!("version {version}"))?;
    }
    match frame.end {
        Some(end) if end != c.pos() => Err(c.corrupt(format!(
            "class {} version {version} was to end at byte {} and ended at {}",
            class.name,
            end as u64 + c.origin(),
            c.place()
        ))),
        _ => Ok(()),
    }
}

/// The version that an object's header names. Version 0 is that of a class without a number, whose checksum
/// follows; some classes have the number 0 and no checksum.
fn choose<'a>(class: &'a Class, version: i32, end: Option<usize>, c: &mut Cursor<'_>) -> Result<&'a Version> {
    if version <= 0 && end.is_some_and(|end| end >= c.pos() + 4) {
        let sum = c.clone().u32()?;
        if let Some(found) = class.versions.iter().find(|v| v.checksum == sum) {
            c.skip(4)?;
            return Ok(found);
        }
    }
    let found = class.versions.iter().find(|v| v.version == version);
    let one = if let [one] = class.versions.as_slice() { Some(one) } else { None };
    found.or(one.filter(|_| version <= 0)).ok_or_else(|| {
        Error::unsupported(format!(
            "class {} was written with version {version}, which the file does not describe",
            class.name
        ))
        .at(c.place())
    })
}

/// An object of another version than the one that gives the fields: members go to the fields of their name.
fn evolve(first: &Version, other: &Version, c: &mut Cursor<'_>, fields: &mut Fields<'_>) -> Result<()> {
    let Type::Record { fields: wanted, .. } = Kind::Record(first.record.clone()).type_of()? else { return Ok(()) };
    let mut piece = Builder::new(&Kind::Record(other.record.clone()).type_of()?);
    decode_record(&other.record, c, &mut piece, 1)?;
    let Builder::Record { fields: found, .. } = piece else { return Ok(()) };
    for (name, _) in wanted {
        let Some((_, field)) = fields.next() else { return Ok(()) };
        match found.iter().find(|(n, _)| *n == name) {
            Some((_, value)) => field.append_converted(value).within(|| format!("member {name}"))?,
            // A member that the old version lacks has its type's zero.
            None => field.append_default(1),
        }
    }
    Ok(())
}
