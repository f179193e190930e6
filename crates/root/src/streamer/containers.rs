//! STL containers inside objects: streamed element by element, or member-wise (`TBufferFile::kStreamedMemberWise`).

use super::info::{Classes, Element, ElementClass, StreamerInfo, unknown_class};
use super::object::{Object, ObjectReader, Shared, SharedObject, Value, has_header};
use super::packed::Packing;
use super::typename::{self, Cpp};
use crate::array::Number;
use crate::error::{Error, Result, Within};
use crate::wire::Frame;
use std::sync::Arc;

/// First version of `TStreamerInfo` whose member-wise containers store the version of their element class.
const NAMES_VERSION: u16 = 8;
/// Last version whose empty member-wise containers still have columns.
const EMPTY_COLUMNS: u16 = 6;

/// Order of the elements in a container.
#[derive(Default)]
pub(super) enum ElementOrder {
    /// One element after the other.
    #[default]
    Elements,
    /// The first halves of all pairs, then the second halves.
    Halves,
    /// One member of all elements, then the next member. The flag marks versions whose empty containers have columns,
    /// too.
    Columns(Arc<StreamerInfo>, bool),
}

/// Returns the type of a container member.
pub(super) fn type_of(e: &Element, classes: &Classes) -> Result<Cpp> {
    let name = e.typename.trim_end_matches('*').trim_end();
    // A class that is a container has its type in its comment: `<Type> Used to call ...`.
    if e.name == "This"
        && !typename::is_container(name)
        && let Some(held) =
            e.title.strip_prefix('<').and_then(|t| t.split_once("> Used")).map(|(held, _)| held)
    {
        return Ok(Cpp::List(Box::new(classes.type_named(held, false)?)));
    }
    Ok(match classes.type_named(name, false)? {
        Cpp::Class(_) if e.class == ElementClass::StlString => Cpp::Text,
        cpp => cpp,
    })
}

impl ObjectReader<'_> {
    /// Reads a container after its version header.
    pub(super) fn container(&mut self, cpp: &Cpp, frame: Frame) -> Result<Value> {
        let order = self.order(cpp, frame)?;
        self.collection(cpp, &order)
    }

    /// Reads the class version of the elements, which follows the version header of a member-wise container.
    pub(super) fn order(&mut self, cpp: &Cpp, frame: Frame) -> Result<ElementOrder> {
        if !frame.member_wise {
            return Ok(ElementOrder::Elements);
        }
        let named = frame.version >= NAMES_VERSION;
        match cpp {
            Cpp::Map(..) => {}
            Cpp::List(item) => match &**item {
                Cpp::Pair(..) => {}
                Cpp::Class(name) if named => {
                    let version = i32::from(self.cursor.u16()? as i16);
                    let info = self.described(name, version, true)?;
                    return Ok(ElementOrder::Columns(info, frame.version <= EMPTY_COLUMNS));
                }
                Cpp::Class(name) => {
                    let info =
                        self.any_info(name).ok_or_else(|| unknown_class(name).at(self.cursor.place()))?;
                    return Ok(ElementOrder::Columns(info, frame.version <= EMPTY_COLUMNS));
                }
                item => {
                    let why = format!("a member-wise container of {item}");
                    return Err(Error::unsupported(why).at(self.cursor.place()));
                }
            },
            cpp => return Err(Error::unsupported(format!("a member-wise {cpp}")).at(self.cursor.place())),
        }
        // The checksum of a pair need not distinguish it from other pairs: its name gives its halves.
        if named && self.cursor.u16()? == 0 {
            self.cursor.skip(4)?;
        }
        Ok(ElementOrder::Halves)
    }

    /// Reads one container: the number of elements, and the elements.
    pub(super) fn collection(&mut self, cpp: &Cpp, order: &ElementOrder) -> Result<Value> {
        match (cpp, order) {
            (_, ElementOrder::Elements) => self.content(cpp),
            (Cpp::Map(a, b), _) => self.halves(a, b).map(|halves| Value::Map(halves.collect())),
            (Cpp::List(item), ElementOrder::Halves) if matches!(**item, Cpp::Pair(..)) => match &**item {
                Cpp::Pair(a, b) => {
                    let pairs = self.halves(a, b)?;
                    Ok(Value::List(pairs.map(|pair| Value::Pair(Box::new(pair))).collect()))
                }
                _ => Ok(Value::Null),
            },
            (_, ElementOrder::Columns(info, even_empty)) => {
                let count = self.cursor.count(1)?;
                let mut objects = self.in_columns(info, count)?;
                if count > 0 || *even_empty {
                    self.columns(info, &mut objects)?;
                }
                Ok(Value::List(objects.into_iter().map(|o| Value::Object(SharedObject::from(o))).collect()))
            }
            _ => Err(Error::unsupported(format!("a member-wise {cpp}")).at(self.cursor.place())),
        }
    }

    fn halves(&mut self, a: &Cpp, b: &Cpp) -> Result<impl Iterator<Item = (Value, Value)> + use<>> {
        let count = self.cursor.count(1)?;
        let (first, second) = if count == 0 {
            (Vec::new(), Vec::new())
        } else {
            (self.column(a, count)?, self.column(b, count)?)
        };
        Ok(first.into_iter().zip(second))
    }

    /// Reads the same half of many pairs: containers and `std::string` have one version header for all.
    fn column(&mut self, cpp: &Cpp, count: usize) -> Result<Vec<Value>> {
        let framed = matches!(cpp, Cpp::List(_) | Cpp::Map(..) | Cpp::Bits(_) | Cpp::Text);
        let frame = if framed { Some(self.cursor.frame()?) } else { None };
        let order = match frame {
            Some(frame) => self.order(cpp, frame)?,
            None => ElementOrder::Elements,
        };
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.collection(cpp, &order)?);
        }
        if let Some(frame) = frame {
            self.cursor.finish(frame)?;
        }
        Ok(items)
    }

    /// Reads an object of a `std::pair`: version header, and the halves as members.
    pub(super) fn pair(&mut self, a: &Cpp, b: &Cpp) -> Result<Value> {
        self.deeper(|reader| {
            let frame = reader.cursor.frame()?;
            reader.framed(frame, |reader| {
                if frame.version == 0 && frame.end.is_some() {
                    reader.cursor.skip(4)?;
                }
                let first = reader.half(a).within(|| "member first")?;
                let second = reader.half(b).within(|| "member second")?;
                Ok(Value::Pair(Box::new((first, second))))
            })
        })
    }

    fn half(&mut self, cpp: &Cpp) -> Result<Value> {
        match cpp {
            Cpp::List(_) | Cpp::Map(..) | Cpp::Bits(_) | Cpp::Text => {
                let frame = self.cursor.frame()?;
                self.framed(frame, |reader| reader.container(cpp, frame))
            }
            _ => self.content(cpp),
        }
    }

    /// Reads a value inside a container: without a header of its own, unless it is an object.
    pub(super) fn content(&mut self, cpp: &Cpp) -> Result<Value> {
        self.deeper(|reader| reader.content_inside(cpp))
    }

    fn content_inside(&mut self, cpp: &Cpp) -> Result<Value> {
        match cpp {
            Cpp::Number(number) => self.number(*number),
            Cpp::Double32 => Ok(Value::Float(self.cursor.f32()?.into())),
            Cpp::Float16 => {
                let packing = Packing::of(true, "");
                let mut out = [0; 8];
                packing.decode(self.cursor.take(packing.disk_bytes())?, &mut out);
                Ok(Value::Float(packing.value(out)))
            }
            Cpp::Text | Cpp::TString => self.cursor.string().map(Value::Text),
            Cpp::Bits(_) => {
                let count = self.cursor.count(1)?;
                self.plain(Number::Bool, count)
            }
            Cpp::List(item) => match **item {
                Cpp::Number(number) => {
                    let count = self.cursor.count(number.size())?;
                    self.plain(number, count)
                }
                Cpp::Double32 | Cpp::Float16 => {
                    let packing = Packing::of(**item == Cpp::Float16, "");
                    let count = self.cursor.count(packing.disk_bytes())?;
                    self.packed(packing, count)
                }
                _ => {
                    let count = self.cursor.count(1)?;
                    let mut items = Vec::new();
                    for i in 0..count {
                        items.push(self.content(item).within(|| format!("element {i} of {count}"))?);
                    }
                    Ok(Value::List(items))
                }
            },
            Cpp::Map(key, value) => {
                let count = self.cursor.count(1)?;
                let mut items = Vec::new();
                for i in 0..count {
                    let key = self.content(key).within(|| format!("key {i} of {count}"))?;
                    let value = self.content(value).within(|| format!("value {i} of {count}"))?;
                    items.push((key, value));
                }
                Ok(Value::Map(items))
            }
            Cpp::Pair(a, b) => self.pair(a, b),
            Cpp::Pointer(_) => self.pointer(),
            Cpp::Class(name) => self.embedded(name),
        }
    }

    fn number(&mut self, number: Number) -> Result<Value> {
        let c = &mut self.cursor;
        Ok(match number {
            Number::Bool => Value::Bool(c.u8()? != 0),
            Number::I8 => Value::Int(c.i8()?.into()),
            Number::U8 => Value::UInt(c.u8()?.into()),
            Number::I16 => Value::Int(c.i16()?.into()),
            Number::U16 => Value::UInt(c.u16()?.into()),
            Number::I32 => Value::Int(c.i32()?.into()),
            Number::U32 => Value::UInt(c.u32()?.into()),
            Number::I64 => Value::Int(c.i64()?),
            Number::U64 => Value::UInt(c.u64()?),
            Number::F32 => Value::Float(c.f32()?.into()),
            Number::F64 => Value::Float(c.f64()?),
        })
    }

    /// Reads the members of many objects, one member of all objects after the other. A base class is stored as the
    /// columns of its members.
    pub(super) fn columns(&mut self, info: &StreamerInfo, objects: &mut [Object]) -> Result<()> {
        self.deeper(|reader| reader.columns_inside(info, objects))
    }

    fn columns_inside(&mut self, info: &StreamerInfo, objects: &mut [Object]) -> Result<()> {
        for e in &info.elements {
            if e.class == ElementClass::Artificial || e.kind == -1 {
                continue;
            }
            if e.class == ElementClass::Base && !typename::is_container(&e.name) {
                self.base_column(e, objects).within(|| format!("base {}", e.name))?;
                continue;
            }
            let frame = if has_header(e) { Some(self.cursor.frame()?) } else { None };
            let values = self.bounded(frame.and_then(|f| f.end), |reader| {
                let shared = match frame {
                    Some(frame) => reader.shared(e, frame)?,
                    None => Shared::default(),
                };
                let mut values = Vec::new();
                for object in objects.iter() {
                    values.push(reader.member_body(e, object, &shared)?);
                }
                match frame.and_then(|f| f.end) {
                    Some(end) if reader.cursor.pos() < end => {
                        Err(reader.leftover(end - reader.cursor.pos(), "the column"))
                    }
                    _ => Ok(values),
                }
            });
            match values.within(|| format!("member {}", e.name))? {
                Ok(values) => {
                    for (object, value) in objects.iter_mut().zip(values) {
                        object.members.push((e.name.clone(), value));
                    }
                }
                Err(error) => {
                    for object in objects.iter_mut() {
                        object.members.push((e.name.clone(), Value::Unreadable(error.clone())));
                    }
                }
            }
        }
        Ok(())
    }

    fn base_column(&mut self, e: &Element, objects: &mut [Object]) -> Result<()> {
        if let Some(number) = Number::of_array(&e.name) {
            return self.array_column(&e.name, number, objects);
        }
        // A `TObject` or `TNamed` is stored whole for each object, and so is a base with a streamer of its own.
        if e.kind != 0 || Self::is_hand_written(&e.name) {
            for object in objects.iter_mut() {
                let base = self.object(&e.name)?;
                object.bases.push(Arc::new(base));
            }
            return Ok(());
        }
        let [checksum, ..] = e.max_index;
        let base = match e.base_version {
            ..=0 => self.classes.find_checksum(&e.name, checksum as u32).cloned(),
            version => self.info(&e.name, version),
        };
        let base = base.or_else(|| self.any_info(&e.name));
        let base = base.ok_or_else(|| unknown_class(&e.name).at(self.cursor.place()))?;
        let mut bases = self.in_columns(&base, objects.len())?;
        self.columns(&base, &mut bases)?;
        for (object, base) in objects.iter_mut().zip(bases) {
            object.bases.push(Arc::new(base));
        }
        Ok(())
    }

    /// Reads a `TArray` that is a base of many objects: all sizes, then for each object a byte that says whether
    /// numbers follow, and the numbers.
    fn array_column(&mut self, class: &str, number: Number, objects: &mut [Object]) -> Result<()> {
        let mut counts = Vec::new();
        for _ in 0..objects.len() {
            counts.push(self.cursor.count(number.size())?);
        }
        for (object, count) in objects.iter_mut().zip(counts) {
            let count = if self.cursor.u8()? == 0 { 0 } else { count };
            let values = self.plain(number, count)?;
            let members = vec![("fN".into(), Value::Int(count as i64)), ("fArray".into(), values)];
            object.bases.push(Arc::new(Object {
                class: class.to_owned().into(),
                members,
                ..Object::default()
            }));
        }
        Ok(())
    }
}
