//! Any object as a tree of values, read by the streamer info of its class.
//!
//! For objects by key and for the description of a tree; branches go through programs ([`super::kind`]) instead.

use super::info::{Classes, Element, ElementClass, StreamerInfo};
use super::typename::{self, Cpp};
use crate::array::Number;
use crate::error::{Error, ErrorKind, Result, Within};
use crate::wire::cursor::{ClassTag, Pointer};
use crate::wire::{Cursor, swap};
use std::collections::HashMap;
use std::sync::Arc;

/// A member's value.
#[derive(Debug, Clone)]
pub enum Value {
    /// A null pointer.
    Null,
    /// `bool`.
    Bool(bool),
    /// Any signed integer.
    Int(i64),
    /// Any unsigned integer.
    UInt(u64),
    /// `float`, `double` and their packed forms.
    Float(f64),
    /// Any string.
    Text(String),
    /// Numbers of one type, native byte order, with the lengths of the inner dimensions of a fixed array.
    Numbers(Number, Vec<u8>),
    /// Elements of a container or array.
    List(Vec<Value>),
    /// Keys and values of a map.
    Map(Vec<(Value, Value)>),
    /// An object; shared when several pointers lead to it.
    Object(Arc<Object>),
    /// A pointer to an object that is still being read, or that lies outside: its [`Object::reference`].
    Seen(u64),
}

/// An object: its class, its bases and its own members.
#[derive(Debug, Clone, Default)]
pub struct Object {
    /// Class name.
    pub class: String,
    /// Version it was streamed with.
    pub version: i32,
    /// Objects of the base classes, in order.
    pub bases: Vec<Arc<Object>>,
    /// Own members, in order.
    pub members: Vec<(String, Value)>,
    /// Under which pointers refer to it; 0 for one that was not read through a pointer.
    pub reference: u64,
    /// Why the object (or the rest of it) could not be read; its bytes were passed over.
    pub unreadable: Option<String>,
}

impl Object {
    /// A member of the object or of its bases.
    pub fn get(&self, name: &str) -> Option<&Value> {
        let own = self.members.iter().find(|(n, _)| n == name).map(|(_, v)| v);
        own.or_else(|| self.bases.iter().find_map(|b| b.get(name)))
    }
    /// An integer member.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Int(v) => Some(*v),
            Value::UInt(v) => i64::try_from(*v).ok(),
            Value::Bool(v) => Some(i64::from(*v)),
            _ => None,
        }
    }
    /// A string member.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(v) => Some(v),
            _ => None,
        }
    }
    /// Elements of a container member, or of a member that is a ROOT collection.
    pub fn list(&self, name: &str) -> &[Value] {
        match self.get(name) {
            Some(Value::List(items)) => items,
            Some(Value::Object(o)) => o.items(),
            _ => &[],
        }
    }
    /// Elements when the object itself is a collection.
    pub fn items(&self) -> &[Value] {
        match self.members.iter().find(|(n, _)| n == ITEMS) {
            Some((_, Value::List(items))) => items,
            _ => &[],
        }
    }
    /// Integers of an array member.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        match self.get(name) {
            Some(Value::Numbers(number, bytes)) => integers(*number, bytes),
            _ => Vec::new(),
        }
    }
}

/// Member that holds the elements of `TList`, `TObjArray`, `TClonesArray`, …
pub const ITEMS: &str = "@items";

fn integers(number: Number, bytes: &[u8]) -> Vec<i64> {
    macro_rules! each {
        ($type:ty) => {
            bytes
                .as_chunks::<{ size_of::<$type>() }>()
                .0
                .iter()
                .map(|c| <$type>::from_ne_bytes(*c) as i64)
                .collect()
        };
    }
    match number {
        Number::I8 => each!(i8),
        Number::Bool | Number::U8 => each!(u8),
        Number::I16 => each!(i16),
        Number::U16 => each!(u16),
        Number::I32 => each!(i32),
        Number::U32 => each!(u32),
        Number::I64 => each!(i64),
        Number::U64 => each!(u64),
        Number::F32 => each!(f32),
        Number::F64 => each!(f64),
    }
}

/// How deep objects may nest before a file is called damaged.
const DEEPEST: usize = 200;

/// Reads objects from one buffer, remembering classes and objects that later pointers refer to.
pub struct ObjectReader<'a> {
    /// Where reading goes on.
    pub cursor: Cursor<'a>,
    classes: &'a Classes,
    named: HashMap<u64, Arc<str>>,
    seen: HashMap<u64, Arc<Object>>,
    depth: usize,
}

impl<'a> ObjectReader<'a> {
    /// Reads the payload of a key, whose first byte is byte `origin` in references.
    pub fn new(classes: &'a Classes, payload: &'a [u8], origin: u64) -> Self {
        let cursor = Cursor::new(payload, origin);
        Self { cursor, classes, named: HashMap::new(), seen: HashMap::new(), depth: 0 }
    }

    fn info(&self, class: &str, version: i32) -> Option<Arc<StreamerInfo>> {
        let found = self.classes.find(class, version);
        found.or_else(|| super::builtin::classes().find(class, version)).cloned()
    }

    fn any_info(&self, class: &str) -> Option<Arc<StreamerInfo>> {
        self.classes.latest(class).or_else(|| super::builtin::classes().latest(class)).cloned()
    }

    /// An object of a known class: version header, bases, members.
    pub fn object(&mut self, class: &str) -> Result<Object> {
        if self.depth >= DEEPEST {
            return Err(Error::limit(format!("objects nest deeper than {DEEPEST}")).at(self.cursor.place()));
        }
        self.depth += 1;
        let result = self.object_inside(class).within(|| class.to_owned());
        self.depth -= 1;
        result
    }

    fn object_inside(&mut self, class: &str) -> Result<Object> {
        if let Some(object) = self.hand_written(class)? {
            return Ok(object);
        }
        let start = self.cursor.pos();
        let frame = self.cursor.frame()?;
        let mut version = i32::from(frame.version as i16);
        let mut info = None;
        if version <= 0 && frame.end.is_some_and(|e| e >= self.cursor.pos() + 4) {
            // A class without a version number of its own is known by its checksum.
            let checksum = self.cursor.u32()?;
            info = self.classes.find_checksum(class, checksum).cloned();
            if let Some(info) = &info {
                version = info.version;
            } else {
                info = self.any_info(class).filter(|_| self.classes.versions(class).count() == 1);
            }
        }
        let info = info.or_else(|| self.info(class, version));
        let mut object = Object { class: class.to_owned(), version, ..Object::default() };
        let Some(info) = info else {
            let why = super::info::unknown_class(class);
            return match frame.end {
                Some(end) => {
                    self.cursor.seek(end)?;
                    object.unreadable = Some(format!("version {version}: {}", why.message()));
                    Ok(object)
                }
                None => Err(why.at(start as u64 + self.cursor.origin())),
            };
        };
        match self.members(&info, &mut object) {
            Ok(()) => self.cursor.finish(frame)?,
            Err(e) if e.kind() == ErrorKind::Unsupported && frame.end.is_some() => {
                object.unreadable = Some(e.to_string());
                // Never backwards: bytes read again at each level of nesting would take forever.
                self.cursor.finish(frame)?;
            }
            Err(e) => return Err(e),
        }
        Ok(object)
    }

    fn members(&mut self, info: &StreamerInfo, object: &mut Object) -> Result<()> {
        for element in &info.elements {
            if element.class == ElementClass::Base {
                let base = self.object(&element.name)?;
                object.bases.push(Arc::new(base));
            } else {
                let value = self.member(element, object).within(|| format!("member {}", element.name))?;
                object.members.push((element.name.clone(), value));
            }
        }
        Ok(())
    }

    fn member(&mut self, e: &Element, owner: &Object) -> Result<Value> {
        let n = e.array_length as usize;
        match e.kind {
            1..=19 if e.kind != 7 => self.basic(e.kind, e),
            7 => {
                let length = self.cursor.count(1)?;
                Ok(Value::Text(crate::wire::cursor::text(self.cursor.take(length)?)))
            }
            21..=39 => self.numbers(e.kind - 20, n, e),
            41..=59 => {
                let flag = self.cursor.u8()?;
                if flag == 0 {
                    return Ok(Value::Null);
                }
                let count = owner.int(&e.count_name).unwrap_or(0);
                let count = usize::try_from(count)
                    .map_err(|_| self.cursor.corrupt(format!("counter {} is {count}", e.count_name)))?;
                let repeat = if e.array_length > 0 { n } else { 1 };
                // Branches of files near 2 GB were written with 64-bit basket positions under a 32-bit type.
                let kind = if flag == 2 && e.name == "fBasketSeek" { 16 } else { e.kind - 40 };
                self.numbers(kind, count.saturating_mul(repeat), e)
            }
            0 => self.object(&e.name).map(|o| Value::Object(Arc::new(o))),
            61..=63 | 66..=68 => {
                let class = e.typename.trim_end_matches('*').to_owned();
                self.embedded(&class)
            }
            64 | 69 => self.pointer(),
            65 => self.cursor.string().map(Value::Text),
            81..=83 | 86..=88 => {
                let class = e.typename.trim_end_matches('*').to_owned();
                (0..n).map(|_| self.embedded(&class)).collect::<Result<_>>().map(Value::List)
            }
            84 | 89 => (0..n).map(|_| self.pointer()).collect::<Result<_>>().map(Value::List),
            85 => {
                (0..n).map(|_| self.cursor.string().map(Value::Text)).collect::<Result<_>>().map(Value::List)
            }
            300 | 365 | 71 | 320 | 500 if matches!(e.class, ElementClass::Stl | ElementClass::StlString) => {
                let cpp = typename::parse(&e.typename)?;
                let frame = self.cursor.frame()?;
                let value = if e.array_length > 0 {
                    let list: Result<Vec<_>> =
                        (0..n).map(|_| self.content(&cpp, frame.member_wise)).collect();
                    Value::List(list?)
                } else {
                    self.content(&cpp, frame.member_wise)?
                };
                self.cursor.finish(frame)?;
                Ok(value)
            }
            501 => {
                self.cursor.skip(6)?;
                let count = owner.int(&e.count_name).unwrap_or(0).max(0) as usize;
                let class = e.typename.trim_end_matches('*').to_owned();
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push(self.embedded(&class)?);
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

    fn embedded(&mut self, class: &str) -> Result<Value> {
        if class == "TString" {
            return self.cursor.string().map(Value::Text);
        }
        if typename::is_container(class) {
            let cpp = typename::parse(class)?;
            let frame = self.cursor.frame()?;
            let value = self.content(&cpp, frame.member_wise)?;
            self.cursor.finish(frame)?;
            return Ok(value);
        }
        self.object(class).map(|o| Value::Object(Arc::new(o)))
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
                if bits & crate::wire::cursor::IS_REFERENCED != 0 {
                    c.skip(2)?;
                }
                Value::UInt(bits.into())
            }
            14 | 17 => Value::UInt(c.u64()?),
            18 => Value::Bool(c.u8()? != 0),
            9 | 19 => {
                let packing = super::packed::Packing::of(kind == 19, &e.title);
                let mut out = [0; 8];
                packing.decode(c.take(packing.disk_bytes())?, &mut out);
                Value::Float(packing.value(out))
            }
            _ => return Err(Error::unsupported(format!("basic type code {kind}")).at(c.place())),
        })
    }

    fn numbers(&mut self, kind: i32, count: usize, e: &Element) -> Result<Value> {
        if matches!(kind, 9 | 19) {
            let packing = super::packed::Packing::of(kind == 19, &e.title);
            let bytes = self.cursor.take(count.saturating_mul(packing.disk_bytes()))?;
            let number = packing.number();
            let mut out = vec![0; count * number.size()];
            packing.decode(bytes, &mut out);
            return Ok(Value::Numbers(number, out));
        }
        if kind == 7 {
            return (0..count)
                .map(|_| self.cursor.string().map(Value::Text))
                .collect::<Result<_>>()
                .map(Value::List);
        }
        let number = super::kind::basic_number(kind)
            .ok_or_else(|| Error::unsupported(format!("basic type code {kind}")).at(self.cursor.place()))?;
        let bytes = self.cursor.take(count.saturating_mul(number.size()))?;
        let mut out = vec![0; bytes.len()];
        swap::copy(number.size(), bytes, &mut out);
        Ok(Value::Numbers(number, out))
    }

    /// What follows a pointer tag.
    pub fn pointer(&mut self) -> Result<Value> {
        let (class, reference, end) = match self.cursor.pointer()? {
            Pointer::Null => return Ok(Value::Null),
            Pointer::Seen(reference) => {
                return Ok(self
                    .seen
                    .get(&reference)
                    .map_or(Value::Seen(reference), |o| Value::Object(o.clone())));
            }
            Pointer::New { class, reference, end } => (class, reference, end),
        };
        let name: Arc<str> = match class {
            ClassTag::Named { name, reference } => {
                let name: Arc<str> = name.into();
                self.named.insert(reference, name.clone());
                name
            }
            ClassTag::Seen(reference) => match self.named.get(&reference) {
                Some(name) => name.clone(),
                None => return Err(self.cursor.corrupt(format!("no class was named at byte {reference}"))),
            },
        };
        let mut object = self.object(&name)?;
        object.reference = reference;
        let object = Arc::new(object);
        if let Some(end) = end {
            if self.cursor.pos() > end {
                return Err(self.cursor.corrupt(format!("a {name} goes on past its {end} bytes")));
            }
            self.cursor.seek(end)?;
        }
        self.seen.insert(reference, object.clone());
        Ok(Value::Object(object))
    }

    /// The content of a container or what a container holds, without a version header.
    fn content(&mut self, cpp: &Cpp, member_wise: bool) -> Result<Value> {
        if self.depth >= DEEPEST {
            return Err(Error::limit(format!("objects nest deeper than {DEEPEST}")).at(self.cursor.place()));
        }
        self.depth += 1;
        let result = self.content_inside(cpp, member_wise);
        self.depth -= 1;
        result
    }

    fn content_inside(&mut self, cpp: &Cpp, member_wise: bool) -> Result<Value> {
        match cpp {
            Cpp::Number(number) => {
                let mut out = vec![0; number.size()];
                swap::copy(number.size(), self.cursor.take(number.size())?, &mut out);
                Ok(match number {
                    Number::F64 => Value::Float(f64::from_ne_bytes(out.try_into().unwrap_or_default())),
                    Number::F32 => {
                        Value::Float(f32::from_ne_bytes(out.try_into().unwrap_or_default()).into())
                    }
                    Number::Bool => Value::Bool(out.first().is_some_and(|&b| b != 0)),
                    Number::U64 => Value::UInt(u64::from_ne_bytes(out.try_into().unwrap_or_default())),
                    _ => Value::Int(integers(*number, &out).first().copied().unwrap_or_default()),
                })
            }
            Cpp::Double32 => Ok(Value::Float(self.cursor.f32()?.into())),
            Cpp::Float16 => Err(Error::unsupported("Float16_t inside a container").at(self.cursor.place())),
            Cpp::Text | Cpp::TString => self.cursor.string().map(Value::Text),
            Cpp::Bits(_) => {
                let count = self.cursor.count(1)?;
                Ok(Value::Numbers(Number::Bool, self.cursor.take(count)?.to_vec()))
            }
            Cpp::List(item) if member_wise => self.member_wise_list(item),
            Cpp::List(item) => {
                if let Cpp::Number(number) = **item {
                    let count = self.cursor.count(number.size())?;
                    let bytes = self.cursor.take(count * number.size())?;
                    let mut out = vec![0; bytes.len()];
                    swap::copy(number.size(), bytes, &mut out);
                    return Ok(Value::Numbers(number, out));
                }
                let count = self.cursor.count(1)?;
                let mut items = Vec::new();
                for i in 0..count {
                    items.push(self.content(item, false).within(|| format!("element {i} of {count}"))?);
                }
                Ok(Value::List(items))
            }
            Cpp::Map(key, value) if member_wise => {
                let pair = Cpp::Pair(key.clone(), value.clone());
                let Value::List(pairs) = self.member_wise_list(&pair)? else { return Ok(Value::Null) };
                let split = |v: Value| match v {
                    Value::List(mut kv) if kv.len() == 2 => {
                        let value = kv.pop().unwrap_or(Value::Null);
                        (kv.pop().unwrap_or(Value::Null), value)
                    }
                    other => (other, Value::Null),
                };
                Ok(Value::Map(pairs.into_iter().map(split).collect()))
            }
            Cpp::Map(key, value) => {
                let count = self.cursor.count(1)?;
                let mut items = Vec::new();
                for _ in 0..count {
                    items.push((self.content(key, false)?, self.content(value, false)?));
                }
                Ok(Value::Map(items))
            }
            Cpp::Pair(a, b) => Ok(Value::List(vec![self.content(a, false)?, self.content(b, false)?])),
            Cpp::Pointer(_) => self.pointer(),
            Cpp::Class(name) => self.embedded(&name.clone()),
        }
    }

    /// Elements written member by member: class version, number of elements, then each member of all.
    fn member_wise_list(&mut self, item: &Cpp) -> Result<Value> {
        let version = self.cursor.u16()?;
        let checksum = if version == 0 { Some(self.cursor.u32()?) } else { None };
        let count = self.cursor.count(1)?;
        match item {
            Cpp::Pair(a, b) => {
                let first = self.column(a, count)?;
                let second = self.column(b, count)?;
                Ok(Value::List(first.into_iter().zip(second).map(|(a, b)| Value::List(vec![a, b])).collect()))
            }
            Cpp::Class(name) => {
                let info = match checksum {
                    Some(sum) => {
                        self.classes.find_checksum(name, sum).cloned().or_else(|| self.any_info(name))
                    }
                    None => self.info(name, i32::from(version)),
                };
                let info = info.ok_or_else(|| super::info::unknown_class(name).at(self.cursor.place()))?;
                let mut objects: Vec<Object> = Vec::new();
                for _ in 0..count {
                    objects.push(Object { class: name.clone(), version: info.version, ..Object::default() });
                }
                self.columns(&info, &mut objects)?;
                Ok(Value::List(objects.into_iter().map(|o| Value::Object(Arc::new(o))).collect()))
            }
            _ => {
                Err(Error::unsupported(format!("member-wise streaming of {item:?}")).at(self.cursor.place()))
            }
        }
    }

    /// Members of many objects, one member of all after the other.
    fn columns(&mut self, info: &StreamerInfo, objects: &mut [Object]) -> Result<()> {
        if self.depth >= DEEPEST {
            return Err(Error::limit(format!("objects nest deeper than {DEEPEST}")).at(self.cursor.place()));
        }
        self.depth += 1;
        let result = self.columns_inside(info, objects);
        self.depth -= 1;
        result
    }

    fn columns_inside(&mut self, info: &StreamerInfo, objects: &mut [Object]) -> Result<()> {
        for element in &info.elements {
            if element.class == ElementClass::Base && element.name != "TObject" {
                let base = self
                    .info(&element.name, element.base_version)
                    .or_else(|| self.any_info(&element.name))
                    .ok_or_else(|| super::info::unknown_class(&element.name).at(self.cursor.place()))?;
                let fresh = |_: &Object| Object {
                    class: element.name.clone(),
                    version: base.version,
                    ..Object::default()
                };
                let mut bases: Vec<Object> = objects.iter().map(fresh).collect();
                self.columns(&base, &mut bases)?;
                for (object, base) in objects.iter_mut().zip(bases) {
                    object.bases.push(Arc::new(base));
                }
                continue;
            }
            for object in objects.iter_mut() {
                if element.class == ElementClass::Base {
                    let base = self.object(&element.name)?;
                    object.bases.push(Arc::new(base));
                } else {
                    let value = self.member(element, object).within(|| format!("member {}", element.name))?;
                    object.members.push((element.name.clone(), value));
                }
            }
        }
        Ok(())
    }

    fn column(&mut self, cpp: &Cpp, count: usize) -> Result<Vec<Value>> {
        let frame = if matches!(cpp, Cpp::List(_) | Cpp::Map(..)) && count > 0 {
            Some(self.cursor.frame()?)
        } else {
            None
        };
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.content(cpp, frame.is_some_and(|f| f.member_wise))?);
        }
        if let Some(frame) = frame {
            self.cursor.finish(frame)?;
        }
        Ok(items)
    }

    /// Classes whose streamers are code in ROOT, not described by their members.
    fn hand_written(&mut self, class: &str) -> Result<Option<Object>> {
        let mut object = Object { class: class.to_owned(), ..Object::default() };
        match class {
            "TObject" => {
                let bits = self.cursor.object_bits()?;
                object.members.push(("@fBits".into(), Value::UInt(bits.into())));
            }
            "TString" => object.members.push(("fString".into(), Value::Text(self.cursor.string()?))),
            "TQObject" => {}
            "TDatime" => object.members.push(("fDatime".into(), Value::UInt(self.cursor.u32()?.into()))),
            "TRef" => {
                self.cursor.skip(2)?;
                let id = self.cursor.u32()?;
                let bits = self.cursor.u32()?;
                self.cursor.skip(if bits & crate::wire::cursor::IS_REFERENCED == 0 { 2 } else { 4 })?;
                object.members.push(("ref".into(), Value::UInt(id.into())));
            }
            "TArrayC" | "TArrayS" | "TArrayI" | "TArrayL" | "TArrayL64" | "TArrayF" | "TArrayD" => {
                let number = match class {
                    "TArrayC" => Number::I8,
                    "TArrayS" => Number::I16,
                    "TArrayI" => Number::I32,
                    "TArrayF" => Number::F32,
                    "TArrayD" => Number::F64,
                    _ => Number::I64,
                };
                let count = self.cursor.count(number.size())?;
                let bytes = self.cursor.take(count * number.size())?;
                let mut out = vec![0; bytes.len()];
                swap::copy(number.size(), bytes, &mut out);
                object.members.push(("fN".into(), Value::Int(count as i64)));
                object.members.push(("fArray".into(), Value::Numbers(number, out)));
            }
            "TList" | "THashList" | "TSortedList" | "TObjArray" | "TRefArray" | "TMap" | "TClonesArray"
            | "TOrdCollection" | "THashTable" | "TBasket" => {
                return self.collection(class).map(Some);
            }
            _ => return Ok(None),
        }
        Ok(Some(object))
    }

    fn collection(&mut self, class: &str) -> Result<Object> {
        let mut object = Object { class: class.to_owned(), ..Object::default() };
        if class == "TBasket" {
            return super::super::tree::basket::embedded(&mut self.cursor).map(|members| {
                object.members = members;
                object
            });
        }
        let frame = self.cursor.frame()?;
        object.version = i32::from(frame.version);
        if frame.version > 2 || class != "TObjArray" {
            let bits = self.cursor.object_bits()?;
            object.members.push(("@fBits".into(), Value::UInt(bits.into())));
        }
        object.members.push(("fName".into(), Value::Text(self.cursor.string()?)));
        let mut items = Vec::new();
        match class {
            "TObjArray" => {
                let count = self.cursor.count(4)?;
                object.members.push(("fLowerBound".into(), Value::Int(self.cursor.i32()?.into())));
                for i in 0..count {
                    items.push(self.pointer().within(|| format!("element {i} of {count}"))?);
                }
            }
            "TRefArray" => {
                let count = self.cursor.count(4)?;
                object.members.push(("fLowerBound".into(), Value::Int(self.cursor.i32()?.into())));
                self.cursor.skip(2)?;
                for _ in 0..count {
                    items.push(Value::UInt(self.cursor.u32()?.into()));
                }
            }
            "TMap" => {
                let count = self.cursor.count(8)?;
                let mut pairs = Vec::new();
                for _ in 0..count {
                    pairs.push((self.pointer()?, self.pointer()?));
                }
                object.members.push((ITEMS.into(), Value::Map(pairs)));
            }
            "TClonesArray" => {
                items = self.clones(&mut object)?;
            }
            _ => {
                let count = self.cursor.count(4)?;
                for i in 0..count {
                    items.push(self.pointer().within(|| format!("element {i} of {count}"))?);
                    if matches!(class, "TList" | "THashList" | "TSortedList") {
                        // The option a histogram or graph was drawn with.
                        self.cursor.string_bytes()?;
                    }
                }
            }
        }
        if class != "TMap" {
            object.members.push((ITEMS.into(), Value::List(items)));
        }
        self.cursor.finish(frame)?;
        Ok(object)
    }

    fn clones(&mut self, object: &mut Object) -> Result<Vec<Value>> {
        let text = self.cursor.string()?;
        let (class, version) = text.rsplit_once(';').ok_or_else(|| {
            self.cursor.corrupt(format!("a TClonesArray of {text:?}, where CLASS;VERSION is expected"))
        })?;
        let version: i32 = version.parse().unwrap_or(0);
        let count = self.cursor.i32()?.unsigned_abs() as usize;
        let lower = self.cursor.i32()?;
        object.members.push(("fLowerBound".into(), Value::Int(lower.into())));
        object.members.push(("@class".into(), Value::Text(class.to_owned())));
        if count > self.cursor.remaining() {
            return Err(self.cursor.corrupt(format!("{count} objects in {} bytes", self.cursor.remaining())));
        }
        let bypass = matches!(object.get("@fBits"), Some(Value::UInt(bits)) if bits & (1 << 12) != 0);
        if !bypass {
            let mut items = Vec::new();
            for _ in 0..count {
                let present = self.cursor.u8()? != 0;
                items.push(if present { self.embedded(class)? } else { Value::Null });
            }
            return Ok(items);
        }
        let info = self
            .info(class, version)
            .ok_or_else(|| super::info::unknown_class(class).at(self.cursor.place()))?;
        let mut objects: Vec<Object> = Vec::new();
        for _ in 0..count {
            objects.push(Object { class: class.to_owned(), version, ..Object::default() });
        }
        self.columns(&info, &mut objects)?;
        Ok(objects.into_iter().map(|o| Value::Object(Arc::new(o))).collect())
    }
}
