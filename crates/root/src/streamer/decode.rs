//! Running programs: decoding the values in a buffer into columns.

use super::compile::Programs;
use super::kind::{Class, Kind, Record, Skipped, Step, Version};
use super::special::HAS_UUID;
use super::values::{number_lists, numbers, strided, texts};
use crate::array::{Builder, Number, missing_in};
use crate::error::{Error, ErrorKind, Result, Within};
use crate::wire::cursor::{Frame, IS_REFERENCED};
use crate::wire::grow::Grow;
use crate::wire::{Cursor, swap};
use pointers::Seen;
use std::collections::HashMap;
use std::sync::Arc;
use versions::{choose, has_header};

mod columns;
mod pointers;
mod uniform;
mod versions;

/// Runs programs over the entries of a page. It keeps the classes and objects that pointers refer to.
pub struct Decoder<'a> {
    programs: &'a Programs,
    /// Programs used so far for this page.
    used: HashMap<String, Kind>,
    /// Columns for objects of older versions, before they are converted to the newest version; keyed by the version's
    /// address.
    pieces: Vec<(*const Version, Builder)>,
    /// Layouts of classes whose objects have a fixed size, `None` for other classes; keyed by the class's address.
    uniform: Vec<(*const Class, Option<uniform::Uniform>)>,
    named: HashMap<u64, Arc<str>>,
    seen: HashMap<u64, Seen>,
    depth: usize,
    nested: usize,
    /// Number and bytes of objects decoded again in this entry because a pointer refers to them.
    repeated: usize,
    /// Bytes decoded again because of pointers, in all entries.
    repeated_bytes: usize,
    /// Bytes of older versions, and bytes of the zeros that their objects get for members added later.
    older: (usize, usize),
    /// Number of values without bytes.
    hollow: usize,
    /// Position of the first pointer.
    began: Option<usize>,
    /// Furthest position of a pointer.
    reached: usize,
    /// Values skipped as undecodable, the first of each kind. If `None`, they are an error.
    left_out: Option<Vec<(String, Error)>>,
}

/// Limit for the zeros of members that objects of an older version do not have, in a page: this many bytes, plus
/// `MOST_ZEROS` times those of the objects.
const ZEROS: usize = 64 << 10;
const MOST_ZEROS: usize = 1024;

/// Limit for values without bytes, such as objects of classes without members, in a page: this many, plus `MOST_HOLLOW`
/// for each byte before them.
const HOLLOW: usize = 1 << 20;
const MOST_HOLLOW: usize = 16;

/// Maximum nesting depth of objects, including pointers; limited by a thread's stack.
const DEEPEST_OBJECT: usize = 300;

impl<'a> Decoder<'a> {
    /// Creates a decoder for one page. Undecodable values that can be skipped are left out if `leave_out` is set;
    /// otherwise they are an error.
    pub fn new(programs: &'a Programs, leave_out: bool) -> Self {
        Self {
            programs,
            used: HashMap::new(),
            pieces: Vec::new(),
            uniform: Vec::new(),
            named: HashMap::new(),
            seen: HashMap::new(),
            depth: 0,
            nested: 0,
            repeated: 0,
            repeated_bytes: 0,
            older: (0, 0),
            hollow: 0,
            began: None,
            reached: 0,
            left_out: leave_out.then(Vec::new),
        }
    }

    /// Returns the values that were left out, each with its first place.
    pub fn left_out(self) -> Vec<(String, Error)> {
        self.left_out.unwrap_or_default()
    }

    /// Records that something is left out, or returns an error.
    fn leave_out(&mut self, what: &str, why: &str, place: u64) -> Result<()> {
        let error = || Error::unsupported(why).at(place);
        let Some(left_out) = &mut self.left_out else { return Err(error()) };
        if !left_out.iter().any(|(known, _)| known == what) {
            left_out.push((what.to_owned(), error().within(what)));
        }
        Ok(())
    }

    /// Skips a member of `n` objects.
    fn skip(
        &mut self,
        skipped: &Skipped,
        step: &Step,
        class: &str,
        c: &mut Cursor<'_>,
        n: usize,
    ) -> Result<()> {
        let place = c.place();
        let times = if skipped.shared { 1 } else { sized(c, skipped.times, n)? };
        if n == 0 || times == 0 {
            return Ok(());
        }
        self.leave_out(&format!("member {} of {class}", step.name), &skipped.why, place)?;
        for _ in 0..times {
            let frame = c.frame()?;
            let end = frame.end.ok_or_else(|| Error::unsupported(skipped.why.clone()).at(place))?;
            c.seek(end)?;
        }
        Ok(())
    }

    /// Forgets the pointer targets of the entry before.
    pub fn next_entry(&mut self) {
        self.repeated = 0;
        if !self.named.is_empty() {
            self.named.clear();
        }
        if !self.seen.is_empty() {
            self.seen.clear();
        }
    }

    /// Decodes `n` consecutive values of a kind and appends them.
    ///
    /// # Errors
    /// When the bytes end early or contradict the kind; the builder then holds an unknown part of the values and
    /// must not be used.
    pub fn decode(&mut self, kind: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
        // The frequent and small cases first, so that nothing is prepared for the others.
        match (kind, out) {
            (Kind::Number(number), Builder::Number { values, .. }) => {
                numbers(*number, c.take(sized(c, n, number.size())?)?, values)
            }
            (Kind::Framed(inner), out) => self.framed(inner, c, out, n),
            (Kind::List(item), Builder::List { offsets, values }) => self.lists(item, c, offsets, values, n),
            (Kind::Text | Kind::TString, Builder::Text { offsets, bytes }) => texts(c, offsets, bytes, n),
            (kind, out) => self.decode_other(kind, c, out, n),
        }
    }

    fn framed(&mut self, inner: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
        for _ in 0..n {
            let frame = c.frame()?;
            if frame.member_wise {
                self.member_wise(frame, inner, c, out, 1)?;
                continue;
            }
            self.decode(inner, c, out, 1)?;
            end_at(c, frame, "a container")?;
        }
        Ok(())
    }

    fn lists(
        &mut self,
        item: &Kind,
        c: &mut Cursor<'_>,
        offsets: &mut Vec<i64>,
        values: &mut Builder,
        n: usize,
    ) -> Result<()> {
        if let (Kind::Number(number), Builder::Number { values, .. }) = (item, &mut *values) {
            return number_lists(*number, c, offsets, values, n);
        }
        let least = item.least_bytes();
        let mut end = offsets.last().copied().unwrap_or_default();
        for _ in 0..n {
            let count = c.count(least)?;
            if least == 0 {
                self.maybe_hollow(item, c, values, count)?;
            } else {
                self.decode(item, c, values, count)?;
            }
            end += count as i64;
            offsets.try_push(end)?;
        }
        Ok(())
    }

    /// Decodes `n` values that may have no bytes, which would limit their number.
    pub(super) fn maybe_hollow(
        &mut self,
        kind: &Kind,
        c: &mut Cursor<'_>,
        out: &mut Builder,
        n: usize,
    ) -> Result<()> {
        let before = c.pos();
        self.decode(kind, c, out, n)?;
        self.allow_hollow(n, before, c)
    }

    /// Counts `n` values if no bytes were read for them from `before` on.
    fn allow_hollow(&mut self, n: usize, before: usize, c: &Cursor<'_>) -> Result<()> {
        if c.pos() > before {
            return Ok(());
        }
        self.hollow = self.hollow.saturating_add(n);
        if self.hollow > HOLLOW.saturating_add(c.pos().saturating_mul(MOST_HOLLOW)) {
            let message = format!("{} values without bytes after {} bytes", self.hollow, c.pos());
            return Err(Error::limit(message).at(c.place()));
        }
        Ok(())
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind")]
    fn decode_other(&mut self, kind: &Kind, c: &mut Cursor<'_>, out: &mut Builder, n: usize) -> Result<()> {
        match (kind, out) {
            (Kind::Packed(packing), Builder::Number { number, values }) => {
                let bytes = c.take(sized(c, n, packing.disk_bytes())?)?;
                let start = values.len();
                values.try_fill(n * number.size(), 0)?;
                packing.decode(bytes, values.get_mut(start..).unwrap_or_default());
            }
            (Kind::Fixed { size, item }, Builder::FixedList { length, values, .. }) => {
                self.maybe_hollow(item, c, values, sized(c, n, *size)?)?;
                *length += n;
            }
            (Kind::LeafText, Builder::Text { offsets, bytes }) => {
                for _ in 0..n {
                    bytes.try_extend(if c.remaining() == 0 { &[] } else { c.string_bytes()? })?;
                    offsets.try_push(bytes.len() as i64)?;
                }
            }
            (Kind::LongText, Builder::Text { offsets, bytes }) => {
                for _ in 0..n {
                    let length = c.count(1)?;
                    bytes.try_extend(c.take(length)?)?;
                    offsets.try_push(bytes.len() as i64)?;
                }
            }
            (Kind::Bits, Builder::List { offsets, values }) => {
                if let Builder::Number { values, .. } = values.as_mut() {
                    number_lists(Number::Bool, c, offsets, values, n)?;
                }
            }
            (Kind::Map(key, value), Builder::List { offsets, values }) => {
                let least = key.least_bytes() + value.least_bytes();
                for _ in 0..n {
                    let count = c.count(least)?;
                    let (keys, items) = pair(values, count, c)?;
                    // Classes without members have no bytes, which would limit the number of pairs.
                    if key.fixed_bytes() == Some(0) && value.fixed_bytes() == Some(0) {
                        self.maybe_hollow(key, c, keys, count)?;
                        self.decode(value, c, items, count)?;
                        offsets.try_push(values.len() as i64)?;
                        continue;
                    }
                    for _ in 0..count {
                        self.decode(key, c, keys, 1)?;
                        self.decode(value, c, items, 1)?;
                    }
                    offsets.try_push(values.len() as i64)?;
                }
            }
            (Kind::Record(record), Builder::Record { length, fields, .. }) => {
                if let Some(stride) = kind.fixed_bytes() {
                    strided(record, c.take(sized(c, n, stride)?)?, stride, fields, n)?;
                } else {
                    for _ in 0..n {
                        self.record(record, c, fields)?;
                    }
                }
                *length += n;
            }
            (Kind::Rows(record, bytes), Builder::Record { length, fields, .. }) => {
                for _ in 0..n {
                    if !c.remaining().is_multiple_of(*bytes) {
                        return Err(c.corrupt(format!("{} bytes in rows of {bytes}", c.remaining())));
                    }
                    let rows = c.remaining() / bytes;
                    for step in &record.steps {
                        let (Kind::List(item), Builder::List { offsets, values }) =
                            (&step.kind, field(fields, step, c)?)
                        else {
                            return Err(misfit(kind, c));
                        };
                        self.decode(item, c, values, rows).within(|| format!("member {}", step.name))?;
                        offsets.try_push(values.len() as i64)?;
                    }
                }
                *length += n;
            }
            (Kind::Object(class), Builder::Record { length, fields, .. }) => {
                let mut i = 0;
                while i < n {
                    if n - i >= uniform::FEWEST {
                        i += self.run(class, c, fields, n - i)?;
                        if i == n {
                            break;
                        }
                    }
                    self.object(class, c, fields).within(|| {
                        let class = &class.name;
                        if n > 1 {
                            format!("object {i} of {n}, class {class}")
                        } else {
                            format!("class {class}")
                        }
                    })?;
                    i += 1;
                }
                *length += n;
            }
            (Kind::Top(_) | Kind::Opaque(..), _) if n == 0 => {}
            (Kind::Top(class), _) if n > 1 => {
                let message = format!("{n} objects of class {} without their borders", class.name);
                return Err(Error::unsupported(message).at(c.place()));
            }
            (Kind::Top(class), out) => {
                let framed = has_header(class, c);
                let Builder::Record { length, fields, .. } = out else { return Err(misfit(kind, c)) };
                if framed {
                    self.object(class, c, fields).within(|| format!("class {}", class.name))?;
                } else {
                    self.record(&class.first()?.record, c, fields)
                        .within(|| format!("class {}", class.name))?;
                }
                *length += 1;
            }
            (Kind::Named(inner), out) => {
                for _ in 0..n {
                    let length = usize::from(c.u8()?);
                    c.skip(length + 1)?;
                    self.decode(inner, c, out, 1)?;
                }
            }
            (Kind::Reference, Builder::Record { length, fields, .. }) => {
                for _ in 0..n {
                    c.skip(2)?;
                    let id = c.u32()?;
                    let bits = c.u32()?;
                    c.skip(if bits & IS_REFERENCED == 0 { 0 } else { 2 })?;
                    // The number of a process, or the identifier of an object in another file.
                    if bits & HAS_UUID == 0 {
                        c.skip(2)?;
                    } else {
                        c.string_bytes()?;
                    }
                    push(fields, 0, id.to_ne_bytes())?;
                }
                *length += n;
            }
            (Kind::StatusBits, Builder::Number { values, .. }) => {
                let bytes = c.rest().get(..n.saturating_mul(4)).filter(|bytes| unreferenced(bytes));
                if let Some(bytes) = bytes {
                    numbers(Number::U32, bytes, values)?;
                    return c.skip(bytes.len());
                }
                for _ in 0..n {
                    let bits = c.u32()?;
                    c.skip(if bits & IS_REFERENCED == 0 { 0 } else { 2 })?;
                    values.try_extend(&bits.to_ne_bytes())?;
                }
            }
            (Kind::ObjectBits, Builder::Record { length, fields, .. }) => {
                for _ in 0..n {
                    let mut peek = c.clone();
                    let bits = c.object_bits()?;
                    peek.frame()?;
                    let id = peek.u32()?;
                    push(fields, 0, id.to_ne_bytes())?;
                    push(fields, 1, bits.to_ne_bytes())?;
                }
                *length += n;
            }
            (Kind::Opaque(name, _), _) => {
                return Err(super::info::unknown_class(name).at(c.place()).of_class(name));
            }
            (Kind::Again(name), Builder::Dynamic(out)) if n > 0 => {
                self.deeper(c, |decoder, c| decoder.dynamic(name, c, out, n))?;
            }
            (Kind::Again(_), Builder::Dynamic(_)) => {}
            (Kind::Pointer, Builder::Dynamic(out)) => {
                for _ in 0..n {
                    self.pointer(c, out)?;
                }
            }
            (Kind::Clones, Builder::List { offsets, values }) => {
                for _ in 0..n {
                    self.clones(c, values).within(|| "TClonesArray")?;
                    offsets.try_push(values.len() as i64)?;
                }
            }
            (Kind::Collection(collection), Builder::List { offsets, values }) => {
                for _ in 0..n {
                    self.collection(*collection, c, values)?;
                    offsets.try_push(values.len() as i64)?;
                }
            }
            (Kind::Loop { item, .. }, Builder::List { offsets, values }) => {
                for _ in 0..n {
                    let frame = c.frame()?;
                    while frame.end.is_some_and(|end| c.pos() < end) {
                        let before = c.pos();
                        self.decode(item, c, values, 1)?;
                        if c.pos() == before {
                            return Err(c.corrupt("an object without bytes"));
                        }
                    }
                    end_at(c, frame, "a row of objects")?;
                    offsets.try_push(values.len() as i64)?;
                }
            }
            (Kind::References, Builder::Record { length, fields, .. }) => {
                for _ in 0..n {
                    references(c, fields)?;
                }
                *length += n;
            }
            (Kind::Unreadable(why), _) => return Err(Error::unsupported(why.to_string()).at(c.place())),
            (kind, _) => return Err(misfit(kind, c)),
        }
        Ok(())
    }

    fn record(&mut self, record: &Record, c: &mut Cursor<'_>, fields: &mut Fields) -> Result<()> {
        for step in &record.steps {
            match &step.kind {
                Kind::ObjectBits if step.base => c.skip_object_bits(1)?,
                Kind::Skipped(skipped) => {
                    let member = || format!("member {}", step.name);
                    self.skip(skipped, step, &record.name, c, 1).within(member)?;
                }
                Kind::Opaque(name, _) if step.base => {
                    return Err(super::info::unknown_class(name).at(c.place()).within("a base"));
                }
                Kind::Object(class) if step.base => {
                    let inner = fields.get_mut(step.field..).unwrap_or_default();
                    self.object(class, c, inner).within(|| format!("base {}", step.name))?;
                }
                Kind::Counted { counter, .. } => {
                    let count = last_counts(fields, *counter, 1, c)?.first().copied().unwrap_or(0);
                    self.counted(step, c, fields, count).within(|| format!("member {}", step.name))?;
                }
                Kind::Loop { counter: Some(counter), item } => {
                    let counts = last_counts(fields, *counter, 1, c)?;
                    self.rows(item, c, field(fields, step, c)?, counts.into_iter())
                        .within(|| format!("member {}", step.name))?;
                }
                kind => {
                    let field = field(fields, step, c)?;
                    self.decode(kind, c, field, 1).within(|| format!("member {}", step.name))?;
                }
            }
        }
        Ok(())
    }

    /// Decodes a variable array or loop of `count` values as one list; an array of pointers becomes that many lists.
    fn counted(&mut self, step: &Step, c: &mut Cursor<'_>, fields: &mut Fields, count: usize) -> Result<()> {
        let out = field(fields, step, c)?;
        let (rows, out) = match (&step.kind, out) {
            (Kind::Counted { rows: Some(rows), .. }, Builder::FixedList { length, values, .. }) => {
                *length += 1;
                (*rows, values.as_mut())
            }
            (_, out) => (1, out),
        };
        let Builder::List { offsets, values } = out else { return Err(misfit(&step.kind, c)) };
        match &step.kind {
            Kind::Counted { item, flagged, triangle, .. } => {
                let present = !*flagged || c.u8()? != 0;
                let count = if *triangle { sized(c, count, count + 1)? / 2 } else { count };
                for _ in 0..rows {
                    self.maybe_hollow(item, c, values, if present { count } else { 0 })?;
                    offsets.try_push(values.len() as i64)?;
                }
            }
            other => return Err(misfit(other, c)),
        }
        Ok(())
    }

    fn object(&mut self, class: &Class, c: &mut Cursor<'_>, fields: &mut Fields) -> Result<()> {
        if self.nested >= DEEPEST_OBJECT {
            return Err(Error::limit(format!("objects nest deeper than {DEEPEST_OBJECT}")).at(c.place()));
        }
        self.nested += 1;
        let result = self.object_inside(class, c, fields);
        self.nested -= 1;
        result
    }

    fn object_inside(&mut self, class: &Class, c: &mut Cursor<'_>, fields: &mut Fields) -> Result<()> {
        let frame = c.frame()?;
        let result = self.object_in(frame, class, c, fields);
        result.map_err(|error| blamed(error, frame, &class.name, c))
    }

    fn object_in(
        &mut self,
        frame: Frame,
        class: &Class,
        c: &mut Cursor<'_>,
        fields: &mut Fields,
    ) -> Result<()> {
        let version = i32::from(frame.version as i16);
        let chosen = choose(class, version, frame.end, c)?;
        if std::ptr::eq(chosen, class.first()?) {
            self.record(&chosen.record, c, fields)?;
        } else {
            self.evolve(class.first()?, chosen, c, fields).within(|| format!("version {version}"))?;
        }
        end_at(c, frame, &class.name)
    }

    /// Decodes an object of a version other than the one that defines the fields: members are matched to fields by
    /// name.
    fn evolve(
        &mut self,
        first: &Version,
        other: &Version,
        c: &mut Cursor<'_>,
        fields: &mut Fields,
    ) -> Result<()> {
        let mut piece = self.piece(other)?;
        let start = c.pos();
        if let Builder::Record { fields: found, .. } = &mut piece {
            self.record(&other.record, c, found)?;
        }
        self.adopt(first, &piece, fields, 1, start, c)?;
        self.pieces.push((std::ptr::from_ref(other), piece));
        Ok(())
    }

    /// Appends the members of `n` objects of another version, stored from `start` on, to the fields of the same name in
    /// the first version.
    fn adopt(
        &mut self,
        first: &Version,
        piece: &Builder,
        fields: &mut Fields,
        n: usize,
        start: usize,
        c: &Cursor<'_>,
    ) -> Result<()> {
        let Builder::Record { fields: found, .. } = piece else { return Ok(()) };
        let fields = fields.get_mut(..first.record.fields.min(fields.len())).unwrap_or_default();
        self.allow_zeros(missing_in(fields, found, n), start, c)?;
        for (name, field) in fields.iter_mut() {
            match found.iter().find(|(n, _)| n == name) {
                Some((_, value)) => field.append_converted(value).within(|| format!("member {name}"))?,
                // A member missing in the old version gets the zero of its type.
                None => field.append_default(n)?,
            }
        }
        Ok(())
    }

    /// Counts the zeros of members that objects of an older version, stored from `start` on, do not have: an array that
    /// was added later may be much larger than these objects.
    fn allow_zeros(&mut self, bytes: usize, start: usize, c: &Cursor<'_>) -> Result<()> {
        let (stored, zeros) = &mut self.older;
        *stored = stored.saturating_add(c.pos().saturating_sub(start));
        *zeros = zeros.saturating_add(bytes);
        if *zeros > ZEROS.saturating_add(stored.saturating_mul(MOST_ZEROS)) {
            let message =
                format!("members added later take {zeros} bytes of zeros for {stored} stored bytes");
            return Err(Error::limit(message).at(c.place()));
        }
        Ok(())
    }

    /// Returns an empty column for objects of a version.
    fn piece(&mut self, version: &Version) -> Result<Builder> {
        match self.pieces.iter().position(|(of, _)| std::ptr::eq(*of, version)) {
            Some(place) => {
                let (_, mut piece) = self.pieces.swap_remove(place);
                piece.clear();
                Ok(piece)
            }
            None => Ok(Builder::new(&Kind::Record(version.record.clone()).type_of()?)),
        }
    }
}

type Fields = [(String, Builder)];

/// Attributes an error in objects of a class to the class, if their frame allows skipping them.
fn blamed(error: Error, frame: Frame, class: &str, c: &Cursor<'_>) -> Error {
    let Some(end) = frame.end else { return error };
    match error.kind() {
        ErrorKind::Unsupported => error.of_class(class),
        // The frame is complete, but the members extend beyond it.
        ErrorKind::Corrupt if error.is_short() || c.pos() > end => error.of_own_streamer().of_class(class),
        _ => error,
    }
}

/// Whether no status bits announce a process number.
fn unreferenced(bits: &[u8]) -> bool {
    let all = bits.as_chunks().0.iter().fold(0, |all, word| all | u32::from_be_bytes(*word));
    all & IS_REFERENCED == 0
}

fn misfit(kind: &Kind, c: &Cursor<'_>) -> Error {
    Error::unsupported(format!("{kind:?} does not fit its column")).at(c.place())
}

/// Returns a product of counts, or an error if it overflows.
fn sized(c: &Cursor<'_>, n: usize, each: usize) -> Result<usize> {
    n.checked_mul(each).ok_or_else(|| c.corrupt(format!("{n} times {each} values")))
}

fn end_at(c: &Cursor<'_>, frame: Frame, what: &str) -> Result<()> {
    match frame.end {
        Some(end) if end > c.pos() => Err(Error::unsupported(format!(
            "{} bytes follow what its streamer info says of {what} (version {}): its class has a streamer of its own",
            end - c.pos(),
            frame.version
        ))
        .at(c.place())),
        Some(end) if end < c.pos() => Err(c.corrupt(format!(
            "{what} (version {}) should have ended at byte {}",
            frame.version,
            end as u64 + c.origin()
        ))),
        _ => Ok(()),
    }
}

fn push(fields: &mut Fields, field: usize, word: [u8; 4]) -> Result<()> {
    match fields.get_mut(field) {
        Some((_, Builder::Number { values, .. })) => values.try_extend(&word),
        _ => Ok(()),
    }
}

fn field<'a>(fields: &'a mut Fields, step: &Step, c: &Cursor<'_>) -> Result<&'a mut Builder> {
    match fields.get_mut(step.field) {
        Some((_, field)) => Ok(field),
        None => Err(c.corrupt(format!("no column for member {}", step.name))),
    }
}

/// Returns the keys and values of a list of pairs that grows by `n`.
fn pair<'a>(out: &'a mut Builder, n: usize, c: &Cursor<'_>) -> Result<(&'a mut Builder, &'a mut Builder)> {
    if let Builder::Record { length, fields, .. } = out
        && let [(_, keys), (_, values)] = fields.as_mut_slice()
    {
        *length += n;
        return Ok((keys, values));
    }
    Err(c.corrupt("no column for pairs"))
}

/// Returns the last `n` numbers of a counter.
fn last_counts(fields: &Fields, counter: usize, n: usize, c: &Cursor<'_>) -> Result<Vec<usize>> {
    let wrong = || c.corrupt("the counter of a variable array is not a number");
    let Some((name, Builder::Number { number, values })) = fields.get(counter) else { return Err(wrong()) };
    let size = number.size();
    let start = values.len().checked_sub(n * size).ok_or_else(wrong)?;
    let words = values.get(start..).unwrap_or_default().chunks_exact(size);
    words
        .map(|word| {
            let mut bytes = [if word.last().is_some_and(|b| b & 0x80 != 0) { 0xff } else { 0 }; 8];
            bytes.iter_mut().zip(word).for_each(|(b, w)| *b = *w);
            let count = i64::from_le_bytes(bytes);
            usize::try_from(count).map_err(|_| c.corrupt(format!("{name} counts {count} values")))
        })
        .collect()
}

/// Decodes a `TRefArray`: name, size and the referenced unique ids.
fn references(c: &mut Cursor<'_>, fields: &mut Fields) -> Result<()> {
    let frame = c.frame()?;
    c.object_bits()?;
    let name = c.string_bytes()?;
    let count = c.count(4)?;
    c.skip(6)?;
    let ids = c.take(count * 4)?;
    if let [(_, Builder::Text { offsets, bytes }), (_, Builder::Number { values: sizes, .. }), (_, refs)] =
        fields
    {
        bytes.try_extend(name)?;
        offsets.try_push(bytes.len() as i64)?;
        sizes.try_extend(&(count as i32).to_ne_bytes())?;
        if let Builder::List { offsets, values } = refs {
            if let Builder::Number { values, .. } = values.as_mut() {
                swap::extend(4, ids, values)?;
            }
            offsets.try_push(values.len() as i64)?;
        }
    }
    end_at(c, frame, "a TRefArray")
}
