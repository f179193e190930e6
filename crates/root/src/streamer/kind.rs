//! Programs: how a value lies in a buffer, compiled once from type names and streamer info.
//!
//! A [`Kind`] is a tree of typed steps. Decoding ([`super::decode`]) runs it over all entries of a basket and asks
//! nothing about names or versions again.

use super::info::{Classes, Element, ElementClass, StreamerInfo, unknown_class};
use super::packed::Packing;
use super::typename::{self, Cpp};
use crate::array::{Number, Type};
use crate::error::{Error, Result, Within};
use std::sync::Arc;

/// How one value is streamed.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A big-endian number.
    Number(Number),
    /// A `Float16_t` or `Double32_t`.
    Packed(Packing),
    /// `size` values end to end.
    Fixed {
        /// How many.
        size: usize,
        /// Of what.
        item: Box<Kind>,
    },
    /// One byte that says whether anything follows, then as many values as an earlier member of the record says.
    Counted {
        /// Place of the counter among the record's steps.
        counter: usize,
        /// Values for each count (an array of pointers to arrays).
        item: Box<Kind>,
    },
    /// Length (a byte, or 255 and four bytes) and bytes.
    Text,
    /// Length (four bytes) and bytes: a `char*`.
    LongText,
    /// Number of bits (four bytes) and a byte for each.
    Bits,
    /// Number of elements (four bytes) and the elements.
    List(Box<Kind>),
    /// Number of pairs (four bytes); key and value in turn.
    Map(Box<Kind>, Box<Kind>),
    /// A container with a version header before it, which also says whether it is streamed member-wise.
    Framed(Box<Kind>),
    /// Steps end to end, without a header.
    Record(Arc<Record>),
    /// An object with its version header; the version chooses the steps.
    Object(Arc<Class>),
    /// An object that is a whole branch: with its version header, or as the bare steps of the first version.
    Top(Arc<Class>),
    /// A `TRef`: gives a record with the unique id.
    Reference,
    /// The status bits of a `TObject`: four bytes, two more when the object is referenced.
    StatusBits,
    /// Bytes of no interest: a `TObject`.
    ObjectBits,
    /// A `TClonesArray` with its own header.
    Clones(Arc<Class>),
    /// Not decodable, and why.
    Unreadable(Arc<str>),
}

/// Steps of a class or anonymous structure, with the name of the field each fills.
#[derive(Debug)]
pub struct Record {
    /// Class name.
    pub name: String,
    /// Field names and how they are streamed; the field of a base is flattened into this record.
    pub steps: Vec<Step>,
}

/// One step of a record.
#[derive(Debug)]
pub struct Step {
    /// Member name; for a base, its class.
    pub name: String,
    /// Its fields become fields of the enclosing record.
    pub base: bool,
    /// How it is streamed.
    pub kind: Kind,
}

/// A class by name with the steps of each version the file describes.
#[derive(Debug)]
pub struct Class {
    /// Class name.
    pub name: String,
    /// Version, checksum and steps; the first gives the fields.
    pub versions: Vec<Version>,
}

/// One version of a class.
#[derive(Debug)]
pub struct Version {
    /// Class version.
    pub version: i32,
    /// Checksum of its members.
    pub checksum: u32,
    /// Its steps.
    pub record: Arc<Record>,
}

/// The number that a basic type code (`TVirtualStreamerInfo::kChar` …) stands for.
pub const fn basic_number(kind: i32) -> Option<Number> {
    Some(match kind {
        1 | 10 => Number::I8,
        2 => Number::I16,
        3 => Number::I32,
        4 | 16 => Number::I64,
        5 => Number::F32,
        8 => Number::F64,
        11 => Number::U8,
        12 => Number::U16,
        // A counter is an int in memory; readers of Python know it as unsigned in trees.
        6 | 13 | 15 => Number::U32,
        14 | 17 => Number::U64,
        18 => Number::Bool,
        _ => return None,
    })
}

impl Kind {
    /// Bytes of one value on disk when that is always the same.
    pub fn fixed_bytes(&self) -> Option<usize> {
        match self {
            Self::Number(number) => Some(number.size()),
            Self::Packed(packing) => Some(packing.disk_bytes()),
            Self::Fixed { size, item } => item.fixed_bytes()?.checked_mul(*size),
            Self::Record(record) => {
                record.steps.iter().try_fold(0usize, |sum, step| sum.checked_add(step.kind.fixed_bytes()?))
            }
            _ => None,
        }
    }

    /// The type of the column that it fills, or why there is none.
    pub fn type_of(&self) -> Result<Type> {
        Ok(match self {
            Self::Number(number) => Type::Number(*number),
            Self::Packed(packing) => Type::Number(packing.number()),
            Self::Fixed { size, item } => Type::FixedList { size: *size, item: Box::new(item.type_of()?) },
            Self::Counted { item, .. } | Self::List(item) => Type::List(Box::new(item.type_of()?)),
            Self::Text | Self::LongText => Type::Text,
            Self::Bits => Type::List(Box::new(Type::Number(Number::Bool))),
            Self::Map(key, value) => Type::List(Box::new(Type::Record {
                name: String::new(),
                fields: vec![("0".to_owned(), key.type_of()?), ("1".to_owned(), value.type_of()?)],
            })),
            Self::Framed(inner) => inner.type_of()?,
            Self::Record(record) => record.type_of()?,
            Self::Object(class) | Self::Top(class) => class.first()?.record.type_of()?,
            Self::Clones(class) => Type::List(Box::new(class.first()?.record.type_of()?)),
            Self::Reference => Type::Record {
                name: "TRef".to_owned(),
                fields: vec![("ref".to_owned(), Type::Number(Number::U32))],
            },
            Self::StatusBits => Type::Number(Number::U32),
            Self::ObjectBits => return Err(Error::unsupported("a TObject has no values of its own")),
            Self::Unreadable(why) => return Err(Error::unsupported(why.to_string())),
        })
    }
}

impl Record {
    fn type_of(&self) -> Result<Type> {
        let mut fields = Vec::new();
        self.add_fields(&mut fields)?;
        Ok(Type::Record { name: self.name.clone(), fields })
    }
    fn add_fields(&self, fields: &mut Vec<(String, Type)>) -> Result<()> {
        for step in &self.steps {
            match &step.kind {
                Kind::ObjectBits => {}
                Kind::Object(class) if step.base => class.first()?.record.add_fields(fields)?,
                kind => {
                    let found = kind.type_of().within(|| format!("member {} of {}", step.name, self.name))?;
                    fields.push((step.name.clone(), found));
                }
            }
        }
        Ok(())
    }
}

impl Class {
    /// The version whose members are the fields.
    pub fn first(&self) -> Result<&Version> {
        self.versions.first().ok_or_else(|| unknown_class(&self.name))
    }
}

/// How deep classes may contain each other before they are called unreadable.
const DEEPEST: usize = 24;

/// Compiles type names and members into programs.
pub struct Compiler<'a> {
    classes: &'a Classes,
    inside: Vec<String>,
}

impl<'a> Compiler<'a> {
    /// Uses the classes of a file.
    pub fn new(classes: &'a Classes) -> Self {
        Self { classes, inside: Vec::new() }
    }

    /// A value of a type, as it stands inside a container or as a whole: without a version header of its own,
    /// unless it is an object.
    pub fn value(&mut self, cpp: &Cpp) -> Kind {
        match cpp {
            Cpp::Number(number) => Kind::Number(*number),
            Cpp::Double32 => Kind::Packed(Packing::of(false, "")),
            Cpp::Float16 => Kind::Packed(Packing::of(true, "")),
            Cpp::Text => Kind::Text,
            Cpp::Bits(_) => Kind::Bits,
            Cpp::List(item) => Kind::List(Box::new(self.value(item))),
            Cpp::Map(key, value) => Kind::Map(Box::new(self.value(key)), Box::new(self.value(value))),
            Cpp::Pair(a, b) => {
                let steps = [("first", a), ("second", b)];
                let steps = steps.map(|(name, cpp)| Step { name: name.into(), base: false, kind: self.value(cpp) });
                Kind::Record(Arc::new(Record { name: "pair".into(), steps: steps.into() }))
            }
            Cpp::Pointer(to) => unreadable(format!("pointers to {to:?} inside containers are not decoded")),
            Cpp::Class(name) => self.object(name),
        }
    }

    /// A member or branch of that type: containers have a version header.
    pub fn framed(&mut self, cpp: &Cpp) -> Kind {
        match cpp {
            Cpp::List(_) | Cpp::Map(..) | Cpp::Bits(_) => Kind::Framed(Box::new(self.value(cpp))),
            _ => self.value(cpp),
        }
    }

    /// An object of a class with its version header.
    pub fn object(&mut self, name: &str) -> Kind {
        match name {
            "TObject" => return Kind::ObjectBits,
            "TRef" => return Kind::Reference,
            "TString" => return Kind::Text,
            "TDatime" => {
                let step = Step { name: "fDatime".into(), base: false, kind: Kind::Number(Number::U32) };
                return Kind::Record(Arc::new(Record { name: name.to_owned(), steps: vec![step] }));
            }
            "TArrayC" => return Kind::List(Box::new(Kind::Number(Number::I8))),
            "TArrayS" => return Kind::List(Box::new(Kind::Number(Number::I16))),
            "TArrayI" => return Kind::List(Box::new(Kind::Number(Number::I32))),
            "TArrayL" | "TArrayL64" => return Kind::List(Box::new(Kind::Number(Number::I64))),
            "TArrayF" => return Kind::List(Box::new(Kind::Number(Number::F32))),
            "TArrayD" => return Kind::List(Box::new(Kind::Number(Number::F64))),
            "TClonesArray" | "TObjArray" | "TList" | "TMap" | "TRefArray" | "THashList" => {
                return unreadable(format!("a {name} streamed whole is not decoded"));
            }
            _ => {}
        }
        match self.class(name, None) {
            Ok(class) => Kind::Object(class),
            Err(e) => unreadable(e.to_string()),
        }
    }

    /// An object that is a whole branch, of the version (or checksum) that the branch names.
    pub fn top(&mut self, name: &str, version: i32, checksum: u32) -> Kind {
        match self.object(name) {
            Kind::Object(_) => match self.class(name, Some((version, checksum))) {
                Ok(class) => Kind::Top(class),
                Err(e) => unreadable(e.to_string()),
            },
            other => other,
        }
    }

    /// The fields of a class are those of the preferred version, else of the newest.
    fn class(&mut self, name: &str, prefer: Option<(i32, u32)>) -> Result<Arc<Class>> {
        if self.inside.iter().any(|n| n == name) {
            return Err(Error::unsupported(format!("class {name} contains itself")));
        }
        if self.inside.len() >= DEEPEST {
            return Err(Error::limit(format!("classes nested deeper than {DEEPEST}")));
        }
        let mut infos: Vec<&Arc<StreamerInfo>> = self.classes.versions(name).collect();
        if infos.is_empty() {
            infos = super::builtin::classes().versions(name).collect();
        }
        if infos.is_empty() {
            return Err(unknown_class(name));
        }
        let preferred = |i: &StreamerInfo| match prefer {
            Some((_, checksum)) if checksum != 0 && i.checksum == checksum => 2,
            Some((version, _)) if i.version == version => 1,
            _ => 0,
        };
        infos.sort_by_key(|i| std::cmp::Reverse((preferred(i), i.version)));
        self.inside.push(name.to_owned());
        let versions = infos
            .into_iter()
            .map(|info| Version {
                version: info.version,
                checksum: info.checksum,
                record: Arc::new(self.record(info)),
            })
            .collect();
        self.inside.pop();
        Ok(Arc::new(Class { name: name.to_owned(), versions }))
    }

    fn record(&mut self, info: &StreamerInfo) -> Record {
        let mut steps: Vec<Step> = Vec::with_capacity(info.elements.len());
        for element in &info.elements {
            let base = element.class == ElementClass::Base;
            let kind = if base {
                self.object(&element.name)
            } else {
                let counter = steps.iter().position(|s| !s.base && s.name == element.count_name);
                self.member(element, counter)
            };
            steps.push(Step { name: element.name.clone(), base, kind });
        }
        Record { name: info.name.clone(), steps }
    }

    /// A member of a class; `counter` is the place of the member that counts a variable array.
    pub fn member(&mut self, e: &Element, counter: Option<usize>) -> Kind {
        let n = e.array_length.max(0) as usize;
        let dims: Vec<usize> =
            e.max_index.iter().take(e.array_dim.clamp(0, 5) as usize).map(|&d| d.max(0) as usize).collect();
        let dims = if dims.iter().product::<usize>() == n && !dims.is_empty() { dims } else { vec![n] };
        let class = e.typename.trim_end_matches('*').trim();
        match e.kind {
            7 => Kind::LongText,
            1..=19 => self.basic(e.kind, &e.title),
            21..=39 => fixed(&dims, self.basic(e.kind - 20, &e.title)),
            41..=59 => match counter {
                Some(counter) => {
                    let item = self.basic(e.kind - 40, &e.title);
                    let item = if n > 0 { fixed(&dims, item) } else { item };
                    Kind::Counted { counter, item: Box::new(item) }
                }
                None => unreadable(format!("array {} is counted by {:?}, which is no earlier member", e.name, e.count_name)),
            },
            65 => Kind::Text,
            85 => fixed(&dims, Kind::Text),
            61..=63 | 66..=68 => self.embedded(class),
            81..=83 | 86..=88 => fixed(&dims, self.embedded(class)),
            300 | 365 | 500 | 320 | 71 if matches!(e.class, ElementClass::Stl | ElementClass::StlString) => {
                let inner = match typename::parse(&e.typename) {
                    Ok(cpp) => self.value(&cpp),
                    Err(error) => unreadable(error.to_string()),
                };
                let inner = if n > 0 { fixed(&dims, inner) } else { inner };
                Kind::Framed(Box::new(inner))
            }
            64 | 69 | 84 | 89 => unreadable(format!("pointer {} to {class} is not decoded", e.name)),
            kind => unreadable(format!("{} is streamed by code of its class {class} (kind {kind})", e.name)),
        }
    }

    fn embedded(&mut self, class: &str) -> Kind {
        match typename::parse(class) {
            Ok(Cpp::Class(name)) => self.object(&name),
            Ok(cpp) => self.framed(&cpp),
            Err(error) => unreadable(error.to_string()),
        }
    }

    /// A basic type by its code; the comment gives the range of packed ones.
    pub fn basic(&self, kind: i32, title: &str) -> Kind {
        match (kind, basic_number(kind)) {
            (15, _) => Kind::StatusBits,
            (_, Some(number)) => Kind::Number(number),
            (9 | 19, _) => Kind::Packed(Packing::of(kind == 19, title)),
            _ => unreadable(format!("basic type code {kind}")),
        }
    }
}

/// An array of fixed dimensions.
pub fn fixed(dims: &[usize], item: Kind) -> Kind {
    dims.iter().rev().fold(item, |item, &size| Kind::Fixed { size, item: Box::new(item) })
}

/// A kind that says why it cannot be decoded.
pub fn unreadable(why: impl Into<Arc<str>>) -> Kind {
    Kind::Unreadable(why.into())
}
