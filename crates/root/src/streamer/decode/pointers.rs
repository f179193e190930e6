//! Pointers, and the objects whose classes are named in the data: those of pointers and of collections of pointers.

use super::super::kind::{Collection, Kind};
use super::versions::{Header, by_header};
use super::{Decoder, blamed, end_at, pair};
use crate::array::{Builder, Dynamic};
use crate::error::{Error, Result, Within};
use crate::wire::Cursor;
use crate::wire::cursor::{ClassTag, Pointer};
use std::sync::Arc;

/// An object that was read after a pointer.
#[derive(Clone)]
pub(super) enum Seen {
    /// An object of this class whose members are being read.
    Open(Arc<str>),
    /// Its class, the start of its members, and its end if there is a byte count.
    Done(Arc<str>, usize, Option<usize>),
}
const CYCLE: &str = "a pointer refers back to an object that contains it: cycles cannot be stored in columns";
const NEVER_MET: &str = "a pointer refers to the entry itself or to an object outside the decoded bytes";
/// Maximum depth of pointers within an entry.
const DEEPEST: usize = 100;
/// Maximum number of objects in an entry that are decoded again because pointers refer to them.
const MOST_REPEATED: usize = 10_000;
/// Limit for bytes decoded again because of pointers: this many, plus `MOST_TIMES` times those of the entries.
const REPEATED_BYTES: usize = 1 << 20;
const MOST_TIMES: usize = 16;
/// Minimum bytes that an object counts for.
const REPEATED_OBJECT: usize = 16;
/// Bit in a `TClonesArray` whose objects are streamed member-wise (`kBypassStreamer`).
const BYPASS: u32 = 1 << 12;
/// The same before version 4.
const BYPASS_BEFORE_4: u32 = 1 << 14;

impl Decoder<'_> {
    fn class_name(&mut self, tag: ClassTag, c: &Cursor<'_>) -> Result<Arc<str>> {
        match tag {
            ClassTag::Named { name, reference } => {
                let name: Arc<str> = name.into();
                self.named.insert(reference, name.clone());
                Ok(name)
            }
            ClassTag::Seen(reference) => {
                let found = self.named.get(&reference).cloned();
                found.ok_or_else(|| {
                    c.corrupt(format!("a reference to byte {reference}, where no class is named"))
                })
            }
        }
    }

    pub(super) fn pointer(&mut self, c: &mut Cursor<'_>, out: &mut Dynamic) -> Result<()> {
        self.deeper(c, |decoder, c| decoder.pointer_inside(c, out))
    }

    /// Counts the depth of pointers and of objects that contain objects of their own class.
    pub(super) fn deeper<'c>(
        &mut self,
        c: &mut Cursor<'c>,
        decode: impl FnOnce(&mut Self, &mut Cursor<'c>) -> Result<()>,
    ) -> Result<()> {
        if self.depth >= DEEPEST {
            let message =
                format!("pointers, or objects of one class within each other, nest deeper than {DEEPEST}");
            return Err(Error::limit(message).at(c.place()));
        }
        self.depth += 1;
        let result = decode(self, c);
        self.depth -= 1;
        result
    }

    fn pointer_inside(&mut self, c: &mut Cursor<'_>, out: &mut Dynamic) -> Result<()> {
        self.began.get_or_insert(c.pos());
        match c.pointer()? {
            Pointer::Null => out.push_none()?,
            Pointer::Seen(reference) => match self.seen.get(&reference).cloned() {
                Some(Seen::Done(class, start, end)) => {
                    self.repeated += 1;
                    if self.repeated > MOST_REPEATED {
                        let message = format!(
                            "more than {MOST_REPEATED} pointers of one entry refer to objects decoded before"
                        );
                        return Err(Error::limit(message).at(c.place()));
                    }
                    let mut again = c.clone();
                    again.seek(start)?;
                    self.pointee(&class, end, &mut again, out).within(|| format!("class {class}"))?;
                    let bytes = again.pos().saturating_sub(start).saturating_add(REPEATED_OBJECT);
                    self.repeated_bytes = self.repeated_bytes.saturating_add(bytes);
                    self.reached = self.reached.max(c.pos());
                    let stored = self.reached - self.began.unwrap_or(self.reached).min(self.reached);
                    if self.repeated_bytes > REPEATED_BYTES.saturating_add(stored.saturating_mul(MOST_TIMES))
                    {
                        let message = format!(
                            "pointers in {stored} bytes refer to {} bytes decoded before",
                            self.repeated_bytes
                        );
                        return Err(Error::limit(message).at(c.place()));
                    }
                }
                Some(Seen::Open(class)) => {
                    self.leave_out(&format!("pointers to class {class}"), CYCLE, c.place())?;
                    out.push_none()?;
                }
                None => {
                    self.leave_out("pointers", NEVER_MET, c.place())?;
                    out.push_none()?;
                }
            },
            Pointer::New { class, reference, end } => {
                let class = self.class_name(class, c)?;
                let start = c.pos();
                self.seen.insert(reference, Seen::Open(class.clone()));
                self.pointee(&class, end, c, out).within(|| format!("class {class}"))?;
                self.seen.insert(reference, Seen::Done(class.clone(), start, end));
                if let Some(end) = end
                    && c.pos() != end
                {
                    return Err(c.corrupt(format!(
                        "a {class} should have ended {} bytes away",
                        end as i64 - c.pos() as i64
                    )));
                }
            }
        }
        Ok(())
    }

    /// Decodes the object that a pointer refers to; an undecodable object becomes a record without fields.
    fn pointee(
        &mut self,
        class: &str,
        end: Option<usize>,
        c: &mut Cursor<'_>,
        out: &mut Dynamic,
    ) -> Result<()> {
        if let (Some(end), Kind::Unreadable(why)) = (end, self.program(class)) {
            self.leave_out(&format!("class {class}"), &why, c.place())?;
            Self::empty_records(class, 1, out, c)?;
            return c.seek(end);
        }
        self.dynamic(class, c, out, 1)
    }

    fn empty_records(class: &str, n: usize, out: &mut Dynamic, c: &Cursor<'_>) -> Result<()> {
        let name = class.to_owned();
        let make = || Ok(Builder::Record { length: 0, name, fields: Vec::new() });
        match out.variant(class, n, make)? {
            Builder::Record { length, fields, .. } if fields.is_empty() => *length += n,
            _ => return Err(c.corrupt(format!("no column for objects of class {class}"))),
        }
        Ok(())
    }

    /// Decodes `n` objects of a class named in the data.
    pub(super) fn dynamic(
        &mut self,
        class: &str,
        c: &mut Cursor<'_>,
        out: &mut Dynamic,
        n: usize,
    ) -> Result<()> {
        let kind = self.program(class);
        let into = out.variant(class, n, || Ok(Builder::new(&kind.type_of()?)))?;
        self.decode(&kind, c, into, n)
    }

    pub(super) fn program(&mut self, class: &str) -> Kind {
        if let Some(kind) = self.used.get(class) {
            return kind.clone();
        }
        let kind = self.programs.object(class);
        self.used.insert(class.to_owned(), kind.clone());
        kind
    }

    pub(super) fn clones(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<()> {
        let Builder::Dynamic(out) = out else { return Err(c.corrupt("no column for a TClonesArray")) };
        let frame = c.frame()?;
        let bits = if frame.version > 2 { c.object_bits()? } else { 0 };
        let flag = if frame.version == 3 { BYPASS_BEFORE_4 } else { BYPASS };
        if frame.version > 1 {
            c.string_bytes()?;
        }
        let text = c.string()?;
        let (class, version) = text.rsplit_once(';').unwrap_or((&text, "0"));
        let version: i32 = version.parse().unwrap_or(0);
        let count = c.i32()?.unsigned_abs() as usize;
        c.skip(4)?;
        if count > c.remaining() {
            return Err(c.corrupt(format!("{count} objects in {} bytes", c.remaining())));
        }
        let unreadable = match (count, frame.end) {
            (1.., Some(end)) => Some(end).zip(match self.program(class) {
                Kind::Unreadable(why) => Some(why),
                _ => None,
            }),
            _ => None,
        };
        if let Some((end, why)) = unreadable {
            self.leave_out(&format!("class {class}"), &why, c.place())?;
            Self::empty_records(class, count, out, c)?;
            c.seek(end)?;
        } else if bits & flag == 0 {
            for _ in 0..count {
                if c.u8()? == 0 {
                    out.push_none()?;
                } else {
                    self.dynamic(class, c, out, 1)?;
                }
            }
        } else if let (0, Some(end)) = (count, frame.end) {
            // The headers of containers are present even without objects.
            c.seek(end)?;
        } else if count > 0 {
            let kind = self.program(class);
            let into = out.variant(class, count, || Ok(Builder::new(&kind.type_of()?)))?;
            let mut decode = || {
                match &kind {
                    Kind::Object(known) => {
                        let chosen = by_header(known, Header { version, checksum: None }, c)?;
                        self.versioned_columns(known, chosen, c, into, count)?;
                    }
                    other => self.decode(other, c, into, count)?,
                }
                end_at(c, frame, "a TClonesArray")
            };
            let result = decode();
            return result.map_err(|error| blamed(error, frame, class, c));
        }
        end_at(c, frame, "a TClonesArray")
    }

    pub(super) fn collection(
        &mut self,
        kind: Collection,
        c: &mut Cursor<'_>,
        out: &mut Builder,
    ) -> Result<()> {
        let frame = c.frame()?;
        if frame.version > 2 || kind != Collection::Array {
            c.object_bits()?;
        }
        if frame.version > 1 {
            c.string_bytes()?;
        }
        let count = c.count(4)?;
        match (kind, out) {
            (Collection::Map, out) => {
                let (keys, values) = pair(out, count, c)?;
                if let (Builder::Dynamic(keys), Builder::Dynamic(values)) = (keys, values) {
                    for _ in 0..count {
                        self.pointer(c, keys)?;
                        self.pointer(c, values)?;
                    }
                }
            }
            (_, Builder::Dynamic(out)) => {
                if kind == Collection::Array {
                    c.skip(4)?;
                }
                for _ in 0..count {
                    self.pointer(c, out)?;
                    if kind == Collection::List {
                        // The draw option of a histogram or graph.
                        c.string_bytes()?;
                    }
                }
            }
            _ => return Err(c.corrupt("no column for a collection")),
        }
        end_at(c, frame, "a collection")
    }
}
