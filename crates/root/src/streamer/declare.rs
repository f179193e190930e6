//! Classes that are declared instead of read from a file: name, version, members and their types.

use super::info::{Element, ElementClass, StreamerInfo};
use super::typename;
use crate::array::Number;
use crate::error::{Error, Result};

/// The C++ type of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A number.
    Number(Number),
    /// `Long_t` (true) or `ULong_t`: 64 bits.
    Long(bool),
    /// `Float16_t` (true) or `Double32_t`, with the packing text in the brackets, if any.
    Packed(bool, String),
    /// `std::string`.
    Text,
    /// An array of fixed length.
    Array(usize, Box<Self>),
    /// `std::vector`.
    Vector(Box<Self>),
    /// `std::map`.
    Map(Box<Self>, Box<Self>),
    /// Another collection with the layout of this vector or map.
    Other(Collection, Box<Self>),
    /// A class with its members. Without a name it is a record without a class; trees cannot hold it.
    Class(Class),
    /// `std::optional`; trees cannot hold it.
    Optional(Box<Self>),
    /// `std::variant`; trees cannot hold it.
    Variant(Vec<Self>),
}

/// A collection of the standard library that is neither `std::vector` nor `std::map`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collection {
    /// Name of the template.
    pub name: &'static str,
    /// `ROOT::ESTLType`
    code: i32,
}

impl Collection {
    const ALL: [(&'static str, i32); 10] = [
        ("list", 2),
        ("deque", 3),
        ("multimap", 5),
        ("set", 6),
        ("multiset", 7),
        ("forward_list", 9),
        ("unordered_set", 10),
        ("unordered_multiset", 11),
        ("unordered_map", 12),
        ("unordered_multimap", 13),
    ];

    /// Returns the collection of that name.
    pub fn named(name: &str) -> Option<Self> {
        let (name, code) = Self::ALL.into_iter().find(|(known, _)| *known == name)?;
        Some(Self { name, code })
    }
    /// Whether its elements have keys.
    fn is_map(self) -> bool {
        self.name.ends_with("map")
    }
}

/// A declared class.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Name.
    pub name: String,
    /// Version, 1 or more.
    pub version: i16,
    /// Names and types of its members.
    pub members: Vec<(String, Shape)>,
}

impl Shape {
    /// Parses a C++ type name; returns `None` if its values cannot be written. `Float16_t` and `Double32_t` may include
    /// their packing: `Double32_t[0, 10, 16]`.
    pub fn parse(name: &str) -> Option<Self> {
        Self::parse_at(name, 0)
    }

    fn parse_at(name: &str, depth: usize) -> Option<Self> {
        let name = typename::simplify(name);
        match name {
            _ if depth > typename::DEEPEST => return None,
            "long" | "long int" | "Long_t" => return Some(Self::Long(true)),
            "unsigned long" | "unsigned long int" | "ULong_t" => return Some(Self::Long(false)),
            "string" => return Some(Self::Text),
            _ => {}
        }
        if let Some(number) = Number::of_name(name) {
            return Some(Self::Number(number));
        }
        for (packed, single) in [("Float16_t", true), ("Double32_t", false)] {
            if let Some(rest) = name.strip_prefix(packed) {
                let range = if rest.is_empty() { rest } else { rest.strip_prefix('[')?.strip_suffix(']')? };
                return Some(Self::Packed(single, range.replace(' ', "")));
            }
        }
        let (template, rest) = name.split_once('<')?;
        let arguments = typename::split(rest.strip_suffix('>')?).ok()?;
        let arguments = arguments.into_iter().map(|one| Self::parse_at(one, depth + 1));
        let mut arguments = arguments.collect::<Option<Vec<_>>>()?;
        let template = template.trim_end();
        if template == "variant" {
            return Some(Self::Variant(arguments));
        }
        let last = Box::new(arguments.pop()?);
        match (template, arguments.pop().map(Box::new)) {
            _ if !arguments.is_empty() => None,
            ("vector", None) => Some(Self::Vector(last)),
            ("optional", None) => Some(Self::Optional(last)),
            ("map", Some(key)) => Some(Self::Map(key, last)),
            ("pair", Some(first)) => Some(Self::pair(*first, *last)),
            (other, key) => {
                let collection = Collection::named(other)?;
                let like = match key {
                    Some(key) if collection.is_map() => Self::Map(key, last),
                    None if !collection.is_map() => Self::Vector(last),
                    _ => return None,
                };
                Some(Self::Other(collection, Box::new(like)))
            }
        }
    }

    /// Returns the type name as spelled by ROOT.
    pub fn cpp(&self) -> String {
        let closed = |name: String| if name.ends_with('>') { name + " >" } else { name + ">" };
        match self {
            Self::Number(number) => number.declared().into(),
            Self::Long(signed) => if *signed { "long" } else { "unsigned long" }.into(),
            Self::Packed(single, _) => if *single { "Float16_t" } else { "Double32_t" }.into(),
            Self::Text => "string".into(),
            Self::Array(size, item) => format!("{}[{size}]", item.cpp()),
            Self::Vector(item) => closed(format!("vector<{}", item.cpp())),
            Self::Map(key, value) => closed(format!("map<{},{}", key.cpp(), value.cpp())),
            Self::Other(collection, like) => {
                let like = like.cpp();
                collection.name.to_owned() + like.trim_start_matches(|c| c != '<')
            }
            Self::Class(class) => class.name.clone(),
            Self::Optional(item) => closed(format!("optional<{}", item.cpp())),
            Self::Variant(items) => {
                closed(format!("variant<{}", items.iter().map(Self::cpp).collect::<Vec<_>>().join(",")))
            }
        }
    }

    /// Returns a `std::pair`, which is a class like others.
    pub fn pair(first: Self, second: Self) -> Self {
        let end = second.cpp();
        let name = format!("pair<{},{end}{}>", first.cpp(), if end.ends_with('>') { " " } else { "" });
        Self::Class(Class {
            name,
            version: 1,
            members: vec![("first".into(), first), ("second".into(), second)],
        })
    }

    /// Whether it contains objects, including the pairs of maps. ROOT assumes that these may refer to other objects.
    pub fn has_objects(&self) -> bool {
        match self {
            Self::Map(..) | Self::Class(_) => true,
            Self::Array(_, item) | Self::Vector(item) | Self::Other(_, item) | Self::Optional(item) => {
                item.has_objects()
            }
            Self::Variant(items) => items.iter().any(Self::has_objects),
            Self::Number(_) | Self::Long(_) | Self::Packed(..) | Self::Text => false,
        }
    }

    /// Type code of a number (`TVirtualStreamerInfo::EReadWrite`).
    pub fn code(&self) -> Option<i32> {
        Some(match self {
            Self::Number(number) => number.code(),
            Self::Long(signed) => {
                if *signed {
                    4
                } else {
                    14
                }
            }
            Self::Packed(single, _) => {
                if *single {
                    19
                } else {
                    9
                }
            }
            _ => return None,
        })
    }

    /// Returns the fixed dimensions and the element type.
    pub fn dims(&self) -> (Vec<usize>, &Self) {
        let (mut dims, mut inner) = (Vec::new(), self);
        while let Self::Array(size, item) = inner {
            dims.push(*size);
            inner = item;
        }
        (dims, inner)
    }

    /// Bytes in memory, for 64-bit programs with the GNU library; 0 for classes.
    pub const fn memory(&self) -> usize {
        match self {
            Self::Number(number) => number.size(),
            Self::Long(_) => 8,
            Self::Packed(single, _) => {
                if *single {
                    4
                } else {
                    8
                }
            }
            Self::Text => 32,
            Self::Array(size, item) => *size * item.memory(),
            Self::Vector(_) => 24,
            Self::Map(..) => 48,
            Self::Other(_, like) => like.memory(),
            Self::Class(_) | Self::Optional(_) | Self::Variant(_) => 0,
        }
    }

    /// Collects the classes in it, innermost first.
    pub fn classes<'a>(&'a self, into: &mut Vec<&'a Class>) {
        match self {
            Self::Array(_, item) | Self::Vector(item) | Self::Other(_, item) | Self::Optional(item) => {
                item.classes(into);
            }
            Self::Variant(items) => items.iter().for_each(|item| item.classes(into)),
            Self::Map(key, value) => {
                key.classes(into);
                value.classes(into);
            }
            Self::Class(class) => {
                class.members.iter().for_each(|(_, member)| member.classes(into));
                into.push(class);
            }
            _ => {}
        }
    }
}

impl Class {
    /// Whether it is a `std::pair`.
    pub fn is_pair(&self) -> bool {
        self.name.starts_with("pair<")
    }
    /// Returns the streamer info of the class.
    pub fn info(&self) -> Result<StreamerInfo> {
        if self.version < 1 {
            return Err(Error::argument(format!(
                "class {} has version {}, not 1 or more",
                self.name, self.version
            )));
        }
        check_name(&self.name)?;
        let elements: Result<Vec<Element>> =
            self.members.iter().map(|(name, shape)| element(name, shape)).collect();
        let elements = elements.map_err(|e| e.within(format!("class {}", self.name)))?;
        Ok(StreamerInfo {
            name: self.name.clone().into(),
            title: String::new(),
            version: self.version.into(),
            checksum: checksum(&self.name, &elements),
            elements,
        })
    }
}

/// Checks that a class name is an identifier, optionally with namespaces and template arguments.
fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_alphanumeric() || "_:<>, ".contains(c);
    if name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(good) {
        return Ok(());
    }
    Err(Error::argument(format!("{name:?} is not a valid class name")))
}

fn element(name: &str, shape: &Shape) -> Result<Element> {
    let (dims, inner) = shape.dims();
    let mut e = Element::new(ElementClass::BasicType, name.to_owned().into(), String::new());
    e.size =
        i32::try_from(shape.memory()).map_err(|_| Error::limit(format!("member {name} is too large")))?;
    e.array_length = if dims.is_empty() { 0 } else { dims.iter().product::<usize>() as i32 };
    e.array_dim = dims.len() as i32;
    e.typename = inner.cpp();
    if dims.len() > e.max_index.len() {
        return Err(Error::unsupported(format!("member {name} has {} dimensions, more than 5", dims.len())));
    }
    for (slot, dim) in e.max_index.iter_mut().zip(&dims) {
        *slot = *dim as i32;
    }
    match inner {
        Shape::Number(_) | Shape::Long(_) | Shape::Packed(..) => {
            e.kind = inner.code().unwrap_or(0) + if dims.is_empty() { 0 } else { 20 };
            if let Shape::Packed(_, range) = inner
                && !range.is_empty()
            {
                e.title = format!("[{range}]");
            }
        }
        _ if !dims.is_empty() => {
            return Err(Error::unsupported(format!(
                "member {name} is an array of {}: only arrays of numbers can be written",
                inner.cpp()
            )));
        }
        // `TStreamerSTL` and its string are stored with `kStreamer`; the second number is `ROOT::kSTLstring`.
        Shape::Text => (e.class, e.kind, e.stl_type, e.ctype) = (ElementClass::StlString, 500, 365, 365),
        Shape::Vector(item) => {
            // `ROOT::kSTLvector`; objects have `kObject`.
            (e.class, e.kind, e.stl_type) = (ElementClass::Stl, 500, 1);
            e.ctype = item.code().unwrap_or(61);
            if let Shape::Class(class) = item.as_ref() {
                e.title = format!(" ({})", class.name);
            }
        }
        // `ROOT::kSTLmap`
        Shape::Map(..) => (e.class, e.kind, e.stl_type, e.ctype) = (ElementClass::Stl, 500, 4, 61),
        Shape::Other(collection, like) => {
            let like = element(name, like)?;
            (e.class, e.kind, e.title) = (like.class, like.kind, like.title);
            (e.stl_type, e.ctype) = (collection.code, like.ctype);
        }
        Shape::Class(_) => (e.class, e.kind) = (ElementClass::ObjectAny, 62),
        Shape::Optional(_) | Shape::Variant(_) => {
            return Err(Error::unsupported(format!(
                "member {name} has the type {}, which cannot be a member of an object",
                inner.cpp()
            )));
        }
        Shape::Array(..) => {}
    }
    Ok(e)
}

/// Returns the checksum of a class without bases (`TStreamerInfo::GetCheckSum`): names, types as spelled by ROOT,
/// dimensions and ranges, combined with a factor of three.
fn checksum(name: &str, elements: &[Element]) -> u32 {
    let mut sum = 0_u32;
    let mut add = |value: u32| sum = sum.wrapping_mul(3).wrapping_add(value);
    name.bytes().for_each(|c| add(c.into()));
    for e in elements {
        e.name.bytes().chain(e.typename.bytes()).for_each(|c| add(c.into()));
        e.max_index.iter().take(e.array_dim as usize).for_each(|dim| add(dim.unsigned_abs()));
        let range = e.title.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        range.into_iter().flat_map(|(range, _)| range.bytes()).for_each(|c| add(c.into()));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_root() {
        let int = || Shape::Number(Number::I32);
        let float = || Shape::Number(Number::F32);
        let inner = Class {
            name: "In".into(),
            version: 1,
            members: vec![("a".into(), int()), ("b".into(), float())],
        };
        let class = |name: &str, members: Vec<(&str, Shape)>| Class {
            name: name.to_owned(),
            version: 1,
            members: members.into_iter().map(|(n, s)| (n.to_owned(), s)).collect(),
        };
        // Values from ROOT 6.40 for dictionaries of these structures.
        assert_eq!(inner.info().unwrap().checksum, 22_386_809);
        let hit = class(
            "Hit",
            vec![
                ("x", float()),
                ("y", Shape::Number(Number::F64)),
                ("n", int()),
                ("v", Shape::Vector(Box::new(int()))),
                ("a", Shape::Array(3, Box::new(Shape::Number(Number::I16)))),
                ("s", Shape::Text),
            ],
        );
        assert_eq!(hit.info().unwrap().checksum, 3_516_695_606);
        let event = class(
            "Ev",
            vec![
                ("id", int()),
                ("in", Shape::Class(inner.clone())),
                ("ins", Shape::Vector(Box::new(Shape::Class(inner)))),
                ("vf", Shape::Vector(Box::new(float()))),
            ],
        );
        assert_eq!(event.info().unwrap().checksum, 508_304_082);
    }

    #[test]
    fn names_are_spelt_as_root_does() {
        let ints = || Box::new(Shape::Vector(Box::new(Shape::Number(Number::I32))));
        assert_eq!(Shape::Vector(ints()).cpp(), "vector<vector<int> >");
        assert_eq!(Shape::Map(Box::new(Shape::Text), ints()).cpp(), "map<string,vector<int> >");
        let list = Collection::named("list").unwrap();
        assert_eq!(Shape::Other(list, ints()).cpp(), "list<int>");
        assert_eq!(Shape::pair(Shape::Text, *ints()).cpp(), "pair<string,vector<int> >");
    }

    #[test]
    fn names_are_parsed_to_the_types_that_they_spell() {
        for name in [
            "bool",
            "unsigned long",
            "vector<vector<int> >",
            "map<string,vector<int> >",
            "unordered_multimap<int,string>",
            "pair<string,vector<int> >",
            "variant<int,string>",
            "optional<set<float> >",
        ] {
            assert_eq!(Shape::parse(name).unwrap().cpp(), name);
        }
        let packed = Shape::Packed(false, "0,10,16".into());
        assert_eq!(Shape::parse("Double32_t[0, 10, 16]"), Some(packed.clone()));
        assert_eq!(Shape::parse("std::vector< Double32_t[0,10,16] >"), Some(Shape::Vector(Box::new(packed))));
        assert_eq!(Shape::parse("Long64_t"), Some(Shape::Number(Number::I64)));
        assert_eq!(Shape::parse("std::uint8_t"), Some(Shape::Number(Number::U8)));
        for wrong in [
            "",
            "Muon",
            "vector<>",
            "vector<Muon>",
            "vector<int,int>",
            "map<int>",
            "set<int,int>",
            "Double32_t[0",
        ] {
            assert_eq!(Shape::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Shape::parse(&format!("{}int{}", "vector<".repeat(100), ">".repeat(100))), None);
    }
}
