//! The streamer info of a file: a list of classes, each version with its members (`TStreamerInfo`).

use super::name::Name;
use super::typename::{self, Cpp};
use crate::array::Number;
use crate::error::{Error, Result, Within};
use crate::wire::Cursor;
use crate::wire::cursor::{ClassTag, Pointer};
use crate::wire::grow::{self, Grow};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The subclass of `TStreamerElement` that describes a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are ROOT's, without TStreamer")]
pub enum ElementClass {
    Base,
    BasicType,
    BasicPointer,
    Loop,
    Object,
    ObjectPointer,
    ObjectAny,
    ObjectAnyPointer,
    String,
    Stl,
    StlString,
    Artificial,
}

impl ElementClass {
    /// ROOT's name of the class.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "TStreamerBase",
            Self::BasicType => "TStreamerBasicType",
            Self::BasicPointer => "TStreamerBasicPointer",
            Self::Loop => "TStreamerLoop",
            Self::Object => "TStreamerObject",
            Self::ObjectPointer => "TStreamerObjectPointer",
            Self::ObjectAny => "TStreamerObjectAny",
            Self::ObjectAnyPointer => "TStreamerObjectAnyPointer",
            Self::String => "TStreamerString",
            Self::Stl => "TStreamerSTL",
            Self::StlString => "TStreamerSTLstring",
            Self::Artificial => "TStreamerArtificial",
        }
    }
    fn from_name(name: &str) -> Option<Self> {
        const ALL: [ElementClass; 12] = [
            ElementClass::Base,
            ElementClass::BasicType,
            ElementClass::BasicPointer,
            ElementClass::Loop,
            ElementClass::Object,
            ElementClass::ObjectPointer,
            ElementClass::ObjectAny,
            ElementClass::ObjectAnyPointer,
            ElementClass::String,
            ElementClass::Stl,
            ElementClass::StlString,
            ElementClass::Artificial,
        ];
        ALL.into_iter().find(|c| c.name() == name)
    }
}

/// A member or base of a class (`TStreamerElement` and its subclasses).
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// The subclass of `TStreamerElement`.
    pub class: ElementClass,
    /// Member name; for a base the class name.
    pub name: Name,
    /// The comment of the member, with ranges in brackets.
    pub title: String,
    /// Type code for streaming (`fType`, `TVirtualStreamerInfo::EReadWrite`).
    pub kind: i32,
    /// Bytes in memory (`fSize`).
    pub size: i32,
    /// Total number of elements of a fixed array (`fArrayLength`); 0 for a single value.
    pub array_length: i32,
    /// Number of dimensions of a fixed array (`fArrayDim`).
    pub array_dim: i32,
    /// Lengths of the dimensions (`fMaxIndex`); for a base, the first may hold the checksum.
    pub max_index: [i32; 5],
    /// C++ type (`fTypeName`).
    pub typename: String,
    /// Version of a base (`fBaseVersion`).
    pub base_version: i32,
    /// Member that counts a variable array (`fCountName`).
    pub count_name: String,
    /// Class of the counter (`fCountClass`).
    pub count_class: String,
    /// Version of that class (`fCountVersion`).
    pub count_version: i32,
    /// Kind of STL container (`fSTLtype`).
    pub stl_type: i32,
    /// Type code of its elements (`fCtype`).
    pub ctype: i32,
}

impl Element {
    /// Creates a member with the fields that all members have set to 0 or empty, and without those of some subclasses.
    pub fn new(class: ElementClass, name: Name, title: String) -> Self {
        Self {
            class,
            name,
            title,
            kind: 0,
            size: 0,
            array_length: 0,
            array_dim: 0,
            max_index: [0; 5],
            typename: String::new(),
            base_version: -1,
            count_name: String::new(),
            count_class: String::new(),
            count_version: 0,
            stl_type: 0,
            ctype: 0,
        }
    }
}

/// One version of a class.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamerInfo {
    /// Class name.
    pub name: Name,
    /// Title.
    pub title: String,
    /// Version (`fClassVersion`).
    pub version: i32,
    /// Checksum of the members (`fCheckSum`).
    pub checksum: u32,
    /// Bases and members in the order of streaming.
    pub elements: Vec<Element>,
}

impl StreamerInfo {
    /// Whether another description has the same bases and members, of types that are streamed in the same way. Versions of
    /// ROOT and other writers describe some types differently: counters as plain integers, `bool` as a byte, and `long`
    /// as `long long`.
    fn streams_like(&self, other: &Self) -> bool {
        let plain = |kind: i32| match kind {
            6 => 3,
            15 => 13,
            16 => 4,
            17 => 14,
            18 => 11,
            kind => kind,
        };
        let number = |e: &Element| match e.class {
            ElementClass::Base => 0,
            ElementClass::BasicType => plain(e.kind % 20),
            ElementClass::BasicPointer => e.kind / 20 * 20 + plain(e.kind % 20),
            _ => e.kind,
        };
        let like = |a: &Element, b: &Element| {
            let objects = matches!(
                a.class,
                ElementClass::Object
                    | ElementClass::ObjectAny
                    | ElementClass::ObjectPointer
                    | ElementClass::ObjectAnyPointer
            );
            (a.class, &a.name, number(a), a.array_length, &a.count_name)
                == (b.class, &b.name, number(b), b.array_length, &b.count_name)
                && (!objects || a.typename == b.typename)
        };
        self.elements.len() == other.elements.len()
            && self.elements.iter().zip(&other.elements).all(|(a, b)| like(a, b))
    }
}

/// All classes of a file, every version.
#[derive(Debug, Default, PartialEq)]
pub struct Classes {
    infos: Vec<Arc<StreamerInfo>>,
    by_name: HashMap<String, Vec<usize>>,
    /// Indices of `std::pair` classes, by type.
    pairs: HashMap<Cpp, usize>,
    enumerations: HashMap<String, Enumeration>,
    /// A class of trees that the file describes with other members than ROOT has in this version, if there is one.
    unlike: Option<Name>,
}

/// How many classes are searched for those of one template, and how many of these and of their members are compared.
const MOST_COMPARED: usize = 4096;
const MOST_ALIKE: usize = 64;
/// How many versions of a class are searched for that of an object: each object is a search.
const MOST_VERSIONS: usize = 1000;

/// The stored form of an enumeration.
#[derive(Debug, PartialEq)]
struct Enumeration {
    /// As a member, and in a container that is a member: 32 bits, whatever it is in memory.
    number: Number,
    /// In pairs, maps and nested containers: its own width, if known.
    own: Option<Number>,
}

impl Classes {
    /// Creates a set of classes; of duplicates in name and version, the first is kept.
    pub fn new(infos: impl IntoIterator<Item = StreamerInfo>) -> Result<Self> {
        let mut classes = Self::default();
        let mut seen = HashSet::new();
        for info in infos {
            let twice = !grow::insert(&mut seen, (info.name.to_string(), info.version, info.checksum))?;
            if !twice {
                grow::place(&mut classes.by_name)?;
                let known = classes.by_name.entry(info.name.to_string()).or_default();
                let in_pair = info.name.starts_with("pair<");
                if in_pair {
                    grow::place(&mut classes.pairs)?;
                }
                if in_pair && let Ok(pair @ Cpp::Pair(..)) = typename::parse(&info.name) {
                    classes.pairs.entry(pair).or_insert(classes.infos.len());
                }
                for (element, (name, number)) in
                    info.elements.iter().filter_map(|e| Some((e, named_number(e)?)))
                {
                    grow::place(&mut classes.enumerations)?;
                    let found = classes.enumerations.entry(name);
                    let found = found.or_insert(Enumeration { number: Number::I32, own: None });
                    // Members are described as signed, even if they are not.
                    if number == Number::U32 {
                        found.number = number;
                    }
                    if in_pair || element.class == ElementClass::Stl {
                        found.own = Some(number);
                    }
                }
                known.try_push(classes.infos.len())?;
                classes.infos.try_push(Arc::new(info))?;
            }
        }
        Ok(classes)
    }

    /// Parses the object of the streamer info's key: a `TList` of `TStreamerInfo`.
    pub fn parse(object: &[u8], origin: u64) -> Result<Self> {
        let mut reader = InfoReader { cursor: Cursor::new(object, origin), classes: HashMap::new() };
        let ((mut infos, _), mut unlike) = (reader.list()?, None);
        // Like ROOT, read the classes of trees by its own descriptions.
        for info in infos.iter_mut().filter(|info| super::special::is_of_trees(&info.name)) {
            if let Some(own) = super::builtin::classes().find(&info.name, info.version)
                && !own.streams_like(info)
            {
                unlike = Some(info.name.clone());
                *info = StreamerInfo::clone(own);
            }
        }
        Ok(Self { unlike, ..Self::new(infos)? })
    }

    /// Returns where the last entry of the streamer info ends. The list itself may go on, if its number of entries is
    /// damaged.
    pub fn end_of_entries(object: &[u8], origin: u64) -> Result<usize> {
        let (_, end) = InfoReader { cursor: Cursor::new(object, origin), classes: HashMap::new() }.list()?;
        Ok(end)
    }

    /// Returns an error if the file describes a class of trees with other members than ROOT has in this version.
    pub fn verify(&self) -> Result<()> {
        match &self.unlike {
            None => Ok(()),
            Some(name) => Err(Error::corrupt(format!(
                "it describes {name} with other members than ROOT has in this version"
            ))),
        }
    }

    /// Iterates over all infos in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<StreamerInfo>> {
        self.infos.iter()
    }

    /// Whether any version of a class is described.
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the members of the described classes of a template if they all have the same numbers and nothing else;
    /// empty otherwise. They say what an undescribed class of the template looks like, of which there are no objects.
    pub fn numbers_of_template(&self, name: &str) -> Arc<[(String, Number)]> {
        let Some(end) = name.find('<') else { return Arc::default() };
        let alike = |info: &&Arc<StreamerInfo>| info.name.get(..=end) == name.get(..=end);
        let siblings = self.infos.iter().take(MOST_COMPARED).filter(alike).take(MOST_ALIKE);
        let mut found = siblings.map(|info| {
            let mut numbers = Vec::new();
            self.add_numbers(info, &mut numbers, &mut 0).map(|()| numbers)
        });
        match found.next() {
            Some(Some(first)) if found.all(|other| other.as_ref() == Some(&first)) => first.into(),
            _ => Arc::default(),
        }
    }

    /// Adds the numbers of a class and its bases; `None` if it has other members, or too many.
    fn add_numbers(
        &self,
        info: &StreamerInfo,
        numbers: &mut Vec<(String, Number)>,
        seen: &mut usize,
    ) -> Option<()> {
        for element in &info.elements {
            *seen += 1;
            match element.class {
                _ if *seen > MOST_ALIKE => return None,
                ElementClass::Base => self.add_numbers(self.latest(&element.name)?, numbers, seen)?,
                ElementClass::BasicType if element.array_length == 0 => {
                    numbers.push((element.name.to_string(), Number::of_code(element.kind)?));
                }
                _ => return None,
            }
        }
        Some(())
    }

    /// Iterates over the versions of a class.
    pub fn versions(&self, name: &str) -> impl Iterator<Item = &Arc<StreamerInfo>> {
        self.by_name.get(name).into_iter().flatten().filter_map(|&i| self.infos.get(i))
    }

    /// Returns a version of a class, if it is among the first `MOST_VERSIONS`.
    pub fn find(&self, name: &str, version: i32) -> Option<&Arc<StreamerInfo>> {
        self.versions(name).take(MOST_VERSIONS).find(|i| i.version == version)
    }

    /// Returns the version of a class with this checksum, which distinguishes the versions of classes without a version
    /// number.
    pub fn find_checksum(&self, name: &str, checksum: u32) -> Option<&Arc<StreamerInfo>> {
        self.versions(name).take(MOST_VERSIONS).find(|i| i.checksum == checksum)
    }

    /// Returns the version with this checksum of a class whose name is spelled with other spaces or namespaces.
    pub fn spelt_otherwise(&self, name: &str, checksum: u32) -> Option<&Arc<StreamerInfo>> {
        let plain = |name: &str| name.replace("std::", "").replace(' ', "");
        let wanted = plain(name);
        let mut alike = self.infos.iter().filter(|i| i.checksum == checksum).take(MOST_ALIKE);
        alike.find(|i| plain(&i.name) == wanted)
    }

    /// Parses a type name and replaces enumerations by their numbers. In a container that is a whole key, these have
    /// their own width.
    pub fn type_named(&self, name: &str, whole: bool) -> Result<Cpp> {
        typename::parse(name).map(|cpp| self.numbered(cpp, whole))
    }

    fn numbered(&self, cpp: Cpp, own: bool) -> Cpp {
        let half = |cpp: Box<Cpp>| {
            let own = own || matches!(*cpp, Cpp::Class(_));
            Box::new(self.numbered(*cpp, own))
        };
        match cpp {
            Cpp::List(item) => {
                let own = own || item.is_container();
                Cpp::List(Box::new(self.numbered(*item, own)))
            }
            Cpp::Map(key, value) => {
                let [first, second] = self.halves(&key, &value);
                let half = |cpp, number: Option<Number>| {
                    number.map_or_else(|| half(cpp), |number| Box::new(Cpp::Number(number)))
                };
                Cpp::Map(half(key, first), half(value, second))
            }
            Cpp::Pair(a, b) => Cpp::Pair(half(a), half(b)),
            Cpp::Class(name) => match self.enumeration(&name, own) {
                Some(number) => Cpp::Number(number),
                None => Cpp::Class(name),
            },
            other => other,
        }
    }

    /// Returns the file's description of a `std::pair`, however its name is spelled.
    pub fn pair(&self, pair: &Cpp) -> Option<&Arc<StreamerInfo>> {
        self.pairs.get(pair).and_then(|&at| self.infos.get(at))
    }

    /// Returns the numbers that represent enumerations in a map, if the file describes its pairs: an enumeration may
    /// have another width in another map.
    pub fn halves(&self, key: &Cpp, value: &Cpp) -> [Option<Number>; 2] {
        if !matches!(key, Cpp::Class(_)) && !matches!(value, Cpp::Class(_)) {
            return [None, None];
        }
        let pair = self.pair(&Cpp::Pair(Box::new(key.clone()), Box::new(value.clone())));
        let number = |at: usize, cpp: &Cpp| {
            let element = pair?.elements.get(at).filter(|_| matches!(cpp, Cpp::Class(_)))?;
            if element.class == ElementClass::BasicType { Number::of_code(element.kind) } else { None }
        };
        [number(0, key), number(1, value)]
    }

    /// Returns the number that represents an enumeration in the file. An enumeration is a name without a class whose
    /// number is known from members or containers. `own` requests its own width.
    pub fn enumeration(&self, name: &str, own: bool) -> Option<Number> {
        let found = self.enumerations.get(name).filter(|_| !self.contains(name))?;
        found.own.filter(|_| own).or(Some(found.number))
    }

    /// Returns the newest version of a class.
    pub fn latest(&self, name: &str) -> Option<&Arc<StreamerInfo>> {
        self.versions(name).max_by_key(|i| i.version)
    }
}

/// Returns the name of an enumeration in a member, and the integer type that it is streamed as.
fn named_number(e: &Element) -> Option<(String, Number)> {
    let (name, code) = match e.class {
        ElementClass::BasicType if Number::of_name(&e.typename).is_none() => {
            (e.typename.clone(), e.kind % 20)
        }
        ElementClass::Stl if Number::of_code(e.ctype).is_some() => match typename::parse(&e.typename) {
            Ok(Cpp::List(item)) => match *item {
                Cpp::Class(name) => (name, e.ctype),
                _ => return None,
            },
            _ => return None,
        },
        _ => return None,
    };
    let number = Number::of_code(code).filter(|n| !matches!(n, Number::F32 | Number::F64))?;
    Some((name, number))
}

struct InfoReader<'a> {
    cursor: Cursor<'a>,
    classes: HashMap<u64, String>,
}

impl InfoReader<'_> {
    /// Returns the infos, and where the last entry ends.
    fn list(&mut self) -> Result<(Vec<StreamerInfo>, usize)> {
        let frame = self.cursor.frame()?;
        self.cursor.object_bits()?;
        self.cursor.string()?;
        let count = self.cursor.count(4)?;
        let mut infos = Vec::new();
        for i in 0..count {
            if let Some((class, end)) = self.object().within(|| format!("entry {i} of {count}"))? {
                if class == "TStreamerInfo" {
                    let info = self.info().within(|| format!("entry {i} of {count}"))?;
                    infos.try_push(info)?;
                }
                // Other entries are lists of schema evolution rules.
                self.cursor.seek(end)?;
            }
            let options = self.cursor.u8()?;
            self.cursor.skip(usize::from(options))?;
        }
        let end = self.cursor.pos();
        self.cursor.finish(frame)?;
        Ok((infos, end))
    }

    /// Returns the class of the next object and its end; `None` for a null pointer.
    fn object(&mut self) -> Result<Option<(String, usize)>> {
        match self.cursor.pointer()? {
            Pointer::Null | Pointer::Seen(_) => Ok(None),
            Pointer::New { class, end, .. } => {
                let name = match class {
                    ClassTag::Named { name, reference } => {
                        self.classes.insert(reference, name.clone());
                        name
                    }
                    ClassTag::Seen(reference) => self.classes.get(&reference).cloned().ok_or_else(|| {
                        self.cursor
                            .corrupt(format!("a reference to byte {reference}, where no class is named"))
                    })?,
                };
                let end = end.ok_or_else(|| self.cursor.corrupt(format!("a {name} without a byte count")))?;
                Ok(Some((name, end)))
            }
        }
    }

    fn info(&mut self) -> Result<StreamerInfo> {
        let frame = self.cursor.frame()?;
        let (name, title) = self.cursor.named()?;
        let checksum = self.cursor.u32()?;
        let version = self.cursor.i32()?;
        let elements = self.elements().within(|| format!("class {name}, version {version}"))?;
        self.cursor.finish(frame)?;
        Ok(StreamerInfo { name: name.into(), title, version, checksum, elements })
    }

    fn elements(&mut self) -> Result<Vec<Element>> {
        let Some((class, end)) = self.object()? else { return Ok(Vec::new()) };
        if class != "TObjArray" {
            return Err(self.cursor.corrupt(format!("members in a {class} instead of a TObjArray")));
        }
        let frame = self.cursor.frame()?;
        if frame.version > 2 {
            self.cursor.object_bits()?;
        }
        if frame.version > 1 {
            self.cursor.string()?;
        }
        let count = self.cursor.count(4)?;
        self.cursor.skip(4)?;
        let mut elements = grow::with_room(count)?;
        for i in 0..count {
            if let Some((class, end)) = self.object()? {
                let class = ElementClass::from_name(&class)
                    .ok_or_else(|| self.cursor.corrupt(format!("member {i} is described by a {class}")))?;
                let element = element(&mut self.cursor, class).within(|| format!("member {i} of {count}"))?;
                elements.push(element);
                self.cursor.seek(end)?;
            }
        }
        self.cursor.seek(end)?;
        Ok(elements)
    }
}

fn element(c: &mut Cursor<'_>, class: ElementClass) -> Result<Element> {
    let outer = c.frame()?;
    let middle = if class == ElementClass::StlString { Some(c.frame()?) } else { None };
    let inner = c.frame()?;
    let (name, title) = c.named()?;
    let mut e = Element::new(class, name.into(), title);
    e.kind = c.i32()?;
    e.size = c.i32()?;
    e.array_length = c.i32()?;
    e.array_dim = c.i32()?;
    // Version 1 has a count before the array.
    let dims = if inner.version == 1 { c.count(4)? } else { 5 };
    for i in 0..dims {
        let n = c.i32()?;
        if let Some(slot) = e.max_index.get_mut(i) {
            *slot = n;
        }
    }
    e.typename = c.string()?;
    c.finish(inner)?;
    match class {
        ElementClass::Base if outer.version >= 2 => e.base_version = c.i32()?,
        ElementClass::BasicPointer | ElementClass::Loop => {
            e.count_version = c.i32()?;
            e.count_name = c.string()?;
            e.count_class = c.string()?;
        }
        ElementClass::Stl | ElementClass::StlString => {
            e.stl_type = c.i32()?;
            e.ctype = c.i32()?;
        }
        _ => {}
    }
    if let Some(middle) = middle {
        c.finish(middle)?;
    }
    c.finish(outer)?;
    if e.array_length < 0 {
        return Err(c.corrupt(format!("member {} is an array of {} elements", e.name, e.array_length)));
    }
    Ok(e)
}

impl std::fmt::Display for StreamerInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} version {}", self.name, self.version)
    }
}

/// Returns the error for a class that neither the file nor the built-in table describes.
pub fn unknown_class(name: &str) -> Error {
    Error::unsupported(format!("class {name} is not described in the file (no streamer info)"))
}
