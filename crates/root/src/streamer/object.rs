//! Any object as a tree of values, read with the streamer info of its class.
//!
//! It is used for objects in keys and for the description of a tree; columns use programs ([`super::kind`]) instead.
//! An unreadable part becomes a value, too ([`Value::Unreadable`]): if a byte count gives its length, reading continues
//! after it. To bound the work,
//!
//! * nothing is read past the end of the enclosing object, so that every byte is read a bounded number of times,
//! * counts that exceed the remaining bytes are refused.

use super::containers::ElementOrder;
use super::info::{Classes, Element, ElementClass, StreamerInfo, unknown_class};
use super::name::Name;
use super::packed::Packing;
use super::typename::{self, Cpp};
use crate::array::Number;
use crate::error::{Error, Result, Within};
use crate::wire::cursor::{ClassTag, Frame, IS_REFERENCED, Pointer};
use crate::wire::grow::{self, Grow};
use crate::wire::{Cursor, swap};
use std::collections::HashMap;
use std::sync::Arc;

mod value;

pub use value::{ITEMS, OPTIONS, Object, SharedObject, Value};

/// The reference of the key's own object (`TBuffer::MapObject` of an empty buffer).
pub const TOP: u64 = 1;

/// Maximum nesting depth of objects; deeper files are treated as damaged.
const DEEPEST: usize = 200;
/// Maximum number of variable arrays in a member: empty ones have no bytes that would limit their number.
const MOST_ROWS: usize = 10_000;
/// Maximum number of unreadable parts: each takes more memory than it has bytes.
const MOST_PROBLEMS: usize = 10_000;

/// Maximum number of versions of a class that a message names: there may be as many messages as unreadable parts.
const MOST_NAMED: usize = 20;

/// Reads a member and returns true, or does nothing and returns false.
type Instead<'a> = &'a mut dyn FnMut(&str, &str, &mut Cursor<'a>, &mut HashMap<u64, Name>) -> bool;

/// Reads objects from one buffer. It keeps the classes and objects that later pointers refer to.
pub struct ObjectReader<'a> {
    /// Current position.
    pub cursor: Cursor<'a>,
    /// Number of unreadable parts that were skipped.
    pub problems: usize,
    /// Positions of references, in reference numbering.
    pub references: Vec<u64>,
    /// Selects the members to keep of a class's objects; `None` keeps all. Dropped members are still read.
    pub wanted: fn(&str) -> Option<&'static [&'static str]>,
    /// Reads a member of a class in another way (class, member, position, classes named before). Returns false and
    /// changes nothing if it does not apply.
    pub instead: Option<Instead<'a>>,
    pub(super) classes: &'a Classes,
    named: HashMap<u64, Name>,
    seen: HashMap<u64, SharedObject>,
    depth: usize,
    /// Number of further objects and bases allowed that need not have bytes of their own.
    free: usize,
}

impl<'a> ObjectReader<'a> {
    /// Creates a reader for the payload of a key. References count its first byte as byte `origin`.
    pub fn new(classes: &'a Classes, payload: &'a [u8], origin: u64) -> Self {
        let cursor = Cursor::new(payload, origin);
        Self {
            cursor,
            problems: 0,
            references: Vec::new(),
            wanted: |_| None,
            instead: None,
            classes,
            named: HashMap::new(),
            seen: HashMap::new(),
            depth: 0,
            free: payload.len().saturating_mul(2),
        }
    }

    /// Returns the objects read through pointers, by their references.
    pub fn into_seen(self) -> HashMap<u64, SharedObject> {
        self.seen
    }

    /// Reads the whole payload of a key of a class; the class may be a container or a string.
    pub fn payload(&mut self, class: &str) -> Result<Value> {
        match self.classes.type_named(class, true)? {
            Cpp::Class(_) => {
                let mut object = self.object(class)?;
                object.reference = TOP;
                let left = self.cursor.remaining();
                if left > 0 && object.unreadable.is_none() {
                    object.unreadable = Some(self.leftover(left, "the object"));
                    self.problems += 1;
                }
                Ok(Value::Object(SharedObject::from(object)))
            }
            Cpp::Pair(a, b) => self.pair(&a, &b),
            // Containers and strings written on their own have no header.
            cpp => {
                let value = self.content(&cpp)?;
                match self.cursor.remaining() {
                    0 => Ok(value),
                    left => Err(self.leftover(left, class)),
                }
            }
        }
    }

    pub(super) fn info(&self, class: &str, version: i32) -> Option<Arc<StreamerInfo>> {
        let found = self.classes.find(class, version);
        found.or_else(|| super::builtin::classes().find(class, version)).cloned()
    }

    pub(super) fn any_info(&self, class: &str) -> Option<Arc<StreamerInfo>> {
        self.classes.latest(class).or_else(|| super::builtin::classes().latest(class)).cloned()
    }

    /// Returns the description of a class in the version of an object's header. For a class without a version of its
    /// own, reads the checksum that follows the version.
    pub(super) fn described(&mut self, class: &str, version: i32, framed: bool) -> Result<Arc<StreamerInfo>> {
        let unknown = |place: u64| {
            let mut known: Vec<String> =
                self.classes.versions(class).take(MOST_NAMED + 1).map(|i| i.version.to_string()).collect();
            if known.is_empty() {
                unknown_class(class).at(place)
            } else {
                known.iter_mut().skip(MOST_NAMED).for_each(|more| "…".clone_into(more));
                let known = known.join(", ");
                Error::unsupported(format!(
                    "version {version} of {class} is not described in the file, only {known}"
                ))
                .at(place)
            }
        };
        if version > 0 || !framed {
            return self.info(class, version).ok_or_else(|| unknown(self.cursor.place()));
        }
        // Version 0 is followed by a checksum, unless the version of the class is really 0.
        let checksum = self.cursor.clone().u32();
        if let Ok(checksum) = checksum
            && let Some(info) = self.classes.find_checksum(class, checksum).cloned()
        {
            self.cursor.skip(4)?;
            return Ok(info);
        }
        if let Some(info) = self.classes.find(class, version) {
            return Ok(info.clone());
        }
        let place = self.cursor.place();
        let checksum = self.cursor.u32()?;
        // A pair is identified by its name; so is the only version of a class.
        if self.classes.versions(class).count() == 1 {
            return self.any_info(class).ok_or_else(|| unknown(place));
        }
        if let Some(info) = self.classes.spelt_otherwise(class, checksum) {
            return Ok(info.clone());
        }
        if !self.classes.contains(class) {
            return Err(unknown(place));
        }
        let message = format!("no version of {class} in the file has the checksum {checksum:#x}");
        Err(Error::unsupported(message).at(place))
    }

    pub(super) fn leftover(&self, bytes: usize, what: &str) -> Error {
        Error::unsupported(format!(
            "{bytes} bytes follow what its streamer info says of {what}: its class has a streamer of its own"
        ))
        .at(self.cursor.place())
    }

    /// Runs `read` on the bytes of a frame only. If the frame has an end, a failure or unread bytes are skipped and
    /// become an unreadable value.
    pub(super) fn framed(
        &mut self,
        frame: Frame,
        read: impl FnOnce(&mut Self) -> Result<Value>,
    ) -> Result<Value> {
        self.bounded(frame.end, |reader| {
            let value = read(reader)?;
            match frame.end {
                Some(end) if reader.cursor.pos() < end => {
                    Err(reader.leftover(end - reader.cursor.pos(), "it"))
                }
                _ => Ok(value),
            }
        })
        .map(|result| result.unwrap_or_else(Value::Unreadable))
    }

    /// Runs `read` on the bytes up to `end`, and moves to `end` if it fails; without an `end` the failure is returned.
    pub(super) fn bounded<T>(
        &mut self,
        end: Option<usize>,
        read: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<Result<T>> {
        let Some(end) = end else { return read(self).map(Ok) };
        if end < self.cursor.pos() {
            let end = end as u64 + self.cursor.origin();
            return Err(self
                .cursor
                .corrupt(format!("an object should end at byte {end}, which is within its header")));
        }
        let outer = self.cursor.narrow(end);
        let result = read(self);
        self.cursor.widen(outer);
        if let Err(error) = &result {
            if error.is_no_memory() {
                return result.map(Ok);
            }
            self.problems += 1;
            self.cursor.seek(end)?;
            if self.problems > MOST_PROBLEMS {
                let message = format!("more than {MOST_PROBLEMS} parts cannot be read");
                return result.map(Ok).map_err(|e| Error::limit(format!("{message}: {e}")));
            }
        }
        Ok(result)
    }

    /// Counts the nesting depth of objects and containers.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= DEEPEST {
            return Err(Error::limit(format!("objects nest deeper than {DEEPEST}")).at(self.cursor.place()));
        }
        grow::check()?;
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Counts objects that need not have bytes of their own.
    pub(super) fn spend(&mut self, count: usize, class: &str) -> Result<()> {
        self.free = self.free.checked_sub(count).ok_or_else(|| {
            let message = format!("more objects than bytes, {count} of them of class {class}");
            Error::limit(message).at(self.cursor.place())
        })?;
        Ok(())
    }

    /// Creates objects whose members are stored in columns; a class without members has no columns.
    pub(super) fn in_columns(&mut self, info: &StreamerInfo, count: usize) -> Result<Vec<Object>> {
        self.spend(count.max(1), &info.name)?;
        let fresh = || Object { class: info.name.clone(), version: info.version, ..Object::default() };
        grow::collected(std::iter::repeat_with(fresh).take(count))
    }

    /// Reads an object of a known class: version header, bases, members.
    pub fn object(&mut self, class: &str) -> Result<Object> {
        let start = self.cursor.place();
        let mut object = self.deeper(|reader| match reader.hand_written(class)? {
            Some(object) => Ok(object),
            None => match reader.stands_for_container(class) {
                Some(e) => reader.container_object(class, &e),
                None => reader.described_object(class),
            },
        })?;
        object.place = (start, self.cursor.place().saturating_sub(start));
        Ok(object)
    }

    /// Returns the only element of a class that is a container itself (`This`).
    fn stands_for_container(&self, class: &str) -> Option<Element> {
        match self.classes.latest(class)?.elements.as_slice() {
            [only] if only.name == "This" && is_stl(only) => Some(only.clone()),
            _ => None,
        }
    }

    fn container_object(&mut self, class: &str, e: &Element) -> Result<Object> {
        let frame = self.cursor.frame().within(|| class.to_owned())?;
        let value = self.framed(frame, |reader| {
            let shared = reader.shared(e, frame)?;
            reader.member_body(e, &Object::default(), &shared)
        });
        let members = vec![(ITEMS.into(), value.within(|| class.to_owned())?)];
        Ok(Object { class: class.to_owned().into(), members, ..Object::default() })
    }

    pub(super) fn described_object(&mut self, class: &str) -> Result<Object> {
        let start = self.cursor.pos();
        let frame = self.cursor.frame().within(|| class.to_owned())?;
        let mut object = Object {
            class: class.to_owned().into(),
            version: i32::from(frame.version as i16),
            ..Object::default()
        };
        if frame.end.is_none() && self.has_no_version(class, start) {
            self.cursor.seek(start)?;
            let info = self.any_info(class).ok_or_else(|| unknown_class(class).at(self.cursor.place()))?;
            object.version = info.version;
            self.members(&info, &mut object, false).within(|| class.to_owned())?;
            return Ok(object);
        }
        let result = self.bounded(frame.end, |reader| {
            match reader.described(class, object.version, frame.end.is_some()) {
                Ok(info) => {
                    object.version = info.version;
                    reader.members(&info, &mut object, frame.end.is_some())?;
                }
                Err(error) => reader.star_table(&mut object).ok_or(error)??,
            }
            match frame.end {
                Some(end) if reader.cursor.pos() < end => {
                    Err(reader.leftover(end - reader.cursor.pos(), "it"))
                }
                _ => Ok(()),
            }
        });
        object.unreadable = result.within(|| class.to_owned())?.err().map(|e| e.within(class.to_owned()));
        Ok(object)
    }

    /// Whether an object without a byte count begins with its base, as ROOT assumes for classes known only from the
    /// file (`TBufferFile::ReadClassEmulated`): the version of a `TObject` is always 1.
    fn has_no_version(&self, class: &str, start: usize) -> bool {
        let first = self.classes.latest(class).and_then(|i| i.elements.first());
        let word = |at: usize| {
            let mut cursor = self.cursor.clone();
            cursor.seek(at).and_then(|()| cursor.u16()).unwrap_or(0)
        };
        first.is_some_and(|e| e.class == ElementClass::Base && e.name == "TObject")
            && word(start) == 1
            && word(start + 2) != 1
    }

    /// Reads the members of an object. If it is `framed`, all bytes up to the cursor's end belong to it.
    pub(super) fn members(
        &mut self,
        info: &Arc<StreamerInfo>,
        object: &mut Object,
        framed: bool,
    ) -> Result<()> {
        object.members.reserve_exact(info.elements.len());
        for (i, element) in info.elements.iter().enumerate() {
            let read = match element.class {
                // Not stored: members added by schema evolution rules, and bases that are not streamed.
                _ if element.class == ElementClass::Artificial || element.kind == -1 => Ok(()),
                ElementClass::Base
                    if !element.name.contains('<') || !typename::is_container(&element.name) =>
                {
                    self.object(&element.name).map(|base| object.bases.push(Arc::new(base)))
                }
                _ if self.instead.as_mut().is_some_and(|instead| {
                    instead(&info.name, &element.name, &mut self.cursor, &mut self.named)
                }) =>
                {
                    Ok(())
                }
                _ => self
                    .member(element, object)
                    .map(|value| object.members.push((element.name.clone(), value))),
            };
            if let Err(error) = read {
                let error = if framed && error.is_short() { error.of_own_streamer() } else { error };
                let error = error.within(format!("member {}", element.name));
                object.members.push((element.name.clone(), Value::Unreadable(error.clone())));
                // The positions of the members after it are unknown.
                object.lost = Some((info.clone(), i + 1));
                return Err(error);
            }
        }
        Ok(())
    }

    fn counter(&self, e: &Element, owner: &Object) -> Result<usize> {
        let count = owner.int(&e.count_name);
        count.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
            let found = count.map_or("not a number".into(), |count| count.to_string());
            self.cursor.corrupt(format!("member {} is counted by {}, which is {found}", e.name, e.count_name))
        })
    }

    fn member(&mut self, e: &Element, owner: &Object) -> Result<Value> {
        if !has_header(e) {
            return self.member_body(e, owner, &Shared::default());
        }
        let frame = self.cursor.frame()?;
        self.framed(frame, |reader| {
            let shared = reader.shared(e, frame)?;
            reader.member_body(e, owner, &shared)
        })
    }

    /// Reads a member without the version header that may precede it; member-wise containers have that header once for
    /// all objects.
    pub(super) fn member_body(&mut self, e: &Element, owner: &Object, shared: &Shared) -> Result<Value> {
        let n = e.array_length.max(0) as usize;
        let class = e.typename.trim_end_matches('*').trim_end();
        match e.kind {
            _ if is_stl(e) => match &shared.cpp {
                Some(cpp) if n == 0 => self.collection(cpp, &shared.order),
                Some(cpp) => self.repeat(n, e, |reader| reader.collection(cpp, &shared.order)),
                None => Err(Error::unsupported(format!("container {}", e.typename)).at(self.cursor.place())),
            },
            7 => {
                let length = self.cursor.count(1)?;
                Ok(Value::Text(crate::wire::cursor::text(self.cursor.take(length)?)?))
            }
            1..=19 => self.basic(e.kind, e),
            21..=39 => Ok(shaped(self.numbers(e.kind - 20, n, e)?, &dimensions(e))),
            41..=59 => self.counted(e, owner, n),
            0 => self.embedded(&e.name),
            61..=63 | 66..=68 if n == 0 => self.embedded(class),
            // An array of `->` pointers has the code of a single one.
            61..=63 | 66..=68 | 81..=83 | 86..=88 => self.repeat(n, e, |reader| reader.embedded(class)),
            64 | 69 | 70 if n == 0 => self.pointer(),
            64 | 69 | 70 | 84 | 89 | 90 => self.repeat(n, e, Self::pointer),
            65 => self.cursor.string().map(Value::Text),
            85 => self.repeat(n, e, |reader| reader.cursor.string().map(Value::Text)),
            501 | 521 => {
                let count = self.counter(e, owner)?.saturating_mul(n.max(1));
                let mut items = Vec::new();
                for i in 0..count {
                    let item = if e.typename.ends_with("**") { self.pointer() } else { self.embedded(class) };
                    items.try_push(item.within(|| format!("element {i} of {count}"))?)?;
                }
                Ok(Value::List(items))
            }
            kind => Err(Error::unsupported(format!(
                "type {} is streamed by code of its own ({} of kind {kind})",
                e.typename,
                e.class.name()
            ))
            .at(self.cursor.place())),
        }
    }

    /// Reads the version header that applies to all values of a member.
    pub(super) fn shared(&mut self, e: &Element, frame: Frame) -> Result<Shared> {
        if !is_stl(e) {
            return Ok(Shared::default());
        }
        let cpp = super::containers::type_of(e, self.classes)?;
        let order = self.order(&cpp, frame)?;
        Ok(Shared { cpp: Some(cpp), order })
    }

    /// Reads the elements of a fixed array.
    fn repeat(&mut self, n: usize, e: &Element, read: impl Fn(&mut Self) -> Result<Value>) -> Result<Value> {
        let mut items = Vec::new();
        for i in 0..n {
            items.push(read(self).within(|| format!("element {i} of {n}"))?);
        }
        Ok(nested(items, &dimensions(e)))
    }

    /// Reads a variable array: a byte that says whether it is present, then numbers counted by an earlier member.
    fn counted(&mut self, e: &Element, owner: &Object, n: usize) -> Result<Value> {
        if n > MOST_ROWS {
            let message = format!("member {} is declared as {n} variable arrays", e.name);
            return Err(self.cursor.corrupt(message));
        }
        let flag = self.cursor.u8()?;
        let count = if flag == 0 { 0 } else { self.counter(e, owner)? };
        // Files near 2 GB have 64-bit positions in this member, whose type has 32 bits.
        let kind = if flag == 2 && e.name == "fBasketSeek" { 16 } else { e.kind - 40 };
        let values = self.numbers(kind, count.saturating_mul(n.max(1)), e)?;
        Ok(if n == 0 { values } else { shaped(values, &[dimensions(e), vec![count]].concat()) })
    }

    pub(super) fn embedded(&mut self, class: &str) -> Result<Value> {
        match self.classes.type_named(class, false)? {
            // Neither `TString` nor `std::string` has a header of its own.
            Cpp::Text | Cpp::TString => self.cursor.string().map(Value::Text),
            Cpp::Pair(a, b) => self.pair(&a, &b),
            // A container in place of an object has no header, unlike one described by a `TStreamerSTL`.
            cpp @ (Cpp::List(_) | Cpp::Map(..) | Cpp::Bits(_)) => self.content(&cpp),
            _ => self.object(class).map(|o| Value::Object(SharedObject::from(o))),
        }
    }

    fn basic(&mut self, kind: i32, e: &Element) -> Result<Value> {
        let c = &mut self.cursor;
        Ok(match kind {
            1 | 10 => Value::Int(c.i8()?.into()),
            2 => Value::Int(c.i16()?.into()),
            3 | 6 => Value::Int(c.i32()?.into()),
            4 | 16 => Value::Int(c.i64()?),
            5 => Value::Float(c.f32()?.into()),
            8 => Value::Float(c.f64()?),
            11 => Value::UInt(c.u8()?.into()),
            12 => Value::UInt(c.u16()?.into()),
            13 => Value::UInt(c.u32()?.into()),
            15 => {
                let bits = c.u32()?;
                if bits & IS_REFERENCED != 0 {
                    c.skip(2)?;
                }
                Value::UInt(bits.into())
            }
            14 | 17 => Value::UInt(c.u64()?),
            18 => Value::Bool(c.u8()? != 0),
            9 | 19 => {
                let packing = Packing::of(kind == 19, &e.title);
                let mut out = [0; 8];
                packing.decode(c.take(packing.disk_bytes())?, &mut out);
                Value::Float(packing.value(out))
            }
            _ => return Err(Error::unsupported(format!("basic type code {kind}")).at(c.place())),
        })
    }

    fn numbers(&mut self, kind: i32, count: usize, e: &Element) -> Result<Value> {
        if matches!(kind, 9 | 19) {
            return self.packed(Packing::of(kind == 19, &e.title), count);
        }
        let number = match kind {
            // The values of a counter are signed, as in memory.
            6 => Some(Number::I32),
            _ => Number::of_code(kind),
        };
        let number = number
            .ok_or_else(|| Error::unsupported(format!("basic type code {kind}")).at(self.cursor.place()))?;
        self.plain(number, count)
    }

    pub(super) fn plain(&mut self, number: Number, count: usize) -> Result<Value> {
        let bytes = self.cursor.take(count.saturating_mul(number.size()))?;
        let mut out = grow::filled(bytes.len(), 0)?;
        swap::copy(number.size(), bytes, &mut out);
        if number == Number::Bool {
            out.iter_mut().for_each(|b| *b = u8::from(*b != 0));
        }
        Ok(Value::Numbers(number, out))
    }

    pub(super) fn packed(&mut self, packing: Packing, count: usize) -> Result<Value> {
        let bytes = self.cursor.take(count.saturating_mul(packing.disk_bytes()))?;
        let number = packing.number();
        let mut out = grow::filled(count.saturating_mul(number.size()), 0)?;
        packing.decode(bytes, &mut out);
        Ok(Value::Numbers(number, out))
    }

    /// Reads the object after a pointer tag.
    pub fn pointer(&mut self) -> Result<Value> {
        let start = self.cursor.place();
        // The tag follows a byte count, if there is one.
        let counted = |first: u32| first & 0x4000_0000 != 0 && first != u32::MAX;
        let tag = start + if self.cursor.clone().u32().is_ok_and(counted) { 4 } else { 0 };
        let (class, reference, end) = match self.cursor.pointer()? {
            Pointer::Null => return Ok(Value::Null),
            Pointer::Seen(reference) => {
                self.references.try_push(tag)?;
                return Ok(self
                    .seen
                    .get(&reference)
                    .map_or(Value::Seen(reference), |o| Value::Object(o.clone())));
            }
            Pointer::New { class, reference, end } => (class, reference, end),
        };
        let mut name = Name::default();
        let result = self.bounded(end, |reader| {
            name = match class {
                ClassTag::Named { name, reference } => {
                    let name = Name::from(name);
                    grow::place(&mut reader.named)?;
                    reader.named.insert(reference, name.clone());
                    name
                }
                ClassTag::Seen(reference) => {
                    reader.references.try_push(tag)?;
                    reader.named.get(&reference).cloned().ok_or_else(|| {
                        reader
                            .cursor
                            .corrupt(format!("a reference to byte {reference}, where no class is named"))
                    })?
                }
            };
            let mut object = reader.pointee(&name)?;
            let left = end.map_or(0, |end| end.saturating_sub(reader.cursor.pos()));
            if left > 0 && object.unreadable.is_none() {
                object.unreadable = Some(reader.leftover(left, &name));
                reader.problems += 1;
                reader.cursor.skip(left)?;
            }
            Ok(object)
        })?;
        let mut object = result.unwrap_or_else(|error| Object {
            class: name,
            unreadable: Some(error),
            ..Object::default()
        });
        object.reference = reference;
        if object.place.1 == 0 {
            object.place = (start, self.cursor.place().saturating_sub(start));
        }
        if let Some(names) = (self.wanted)(&object.class) {
            object.keep(names);
        }
        let object = SharedObject::from(object);
        grow::place(&mut self.seen)?;
        self.seen.insert(reference, object.clone());
        Ok(Value::Object(object))
    }

    /// Whether a reference is to the name of this class.
    pub(super) fn is_named(&self, reference: u64, class: &str) -> bool {
        self.named.get(&reference).is_some_and(|name| &**name == class)
    }

    /// Whether a reference is to an object of this class.
    pub(super) fn is_seen(&self, reference: u64, class: &str) -> bool {
        self.seen.get(&reference).is_some_and(|object| object.class == class)
    }

    /// Reads the target of a pointer. If it is a container, the object has it as its only member.
    fn pointee(&mut self, class: &str) -> Result<Object> {
        if let Cpp::Class(_) = typename::parse(class)? {
            return self.object(class);
        }
        let members = vec![(ITEMS.into(), self.embedded(class)?)];
        Ok(Object { class: class.to_owned().into(), members, ..Object::default() })
    }
}

/// Information from a version header for all values that follow it.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) cpp: Option<Cpp>,
    pub(super) order: ElementOrder,
}

fn is_stl(e: &Element) -> bool {
    matches!(e.class, ElementClass::Stl | ElementClass::StlString)
}

/// Whether a version header with byte count precedes a member. It does for containers, arrays of `TString`, `TObject`
/// and `TNamed`, variable arrays of objects, and members with a custom streamer.
pub(super) fn has_header(e: &Element) -> bool {
    is_stl(e) || matches!(e.kind, 85..=87 | 500 | 501 | 521)
}

/// Returns the lengths of the dimensions of a fixed array.
fn dimensions(e: &Element) -> Vec<usize> {
    let n = e.array_length.max(0) as usize;
    let dims = e.max_index.iter().take(e.array_dim.clamp(0, 5) as usize);
    let dims: Vec<usize> = dims.map(|&d| d.max(0) as usize).collect();
    let product = dims.iter().try_fold(1_usize, |n, &d| n.checked_mul(d));
    if product == Some(n) && !dims.is_empty() { dims } else { vec![n] }
}

fn shaped(values: Value, dims: &[usize]) -> Value {
    match values {
        Value::Numbers(number, bytes) if dims.len() > 1 => {
            Value::Array(Box::new((number, bytes, dims.to_vec())))
        }
        values => values,
    }
}

fn nested(items: Vec<Value>, dims: &[usize]) -> Value {
    let mut items = items;
    for &size in dims.iter().skip(1).rev() {
        let mut rows = Vec::new();
        let mut rest = items.into_iter().peekable();
        while size > 0 && rest.peek().is_some() {
            rows.push(Value::List(rest.by_ref().take(size).collect()));
        }
        items = rows;
    }
    Value::List(items)
}

#[cfg(test)]
mod tests;
