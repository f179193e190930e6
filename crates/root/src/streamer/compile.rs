//! Compiling type names and streamer info to programs.
//!
//! If only the data name a class (pointers, `TClonesArray`), its program is compiled at the first occurrence and kept
//! by [`Programs`].

use super::info::{Classes, Element, ElementClass, StreamerInfo, unknown_class};
use super::kind::{Class, Collection, Kind, Record, Skipped, Version, fixed, unreadable};
use super::packed::Packing;
use super::typename::{self, Cpp};
use crate::array::Number;
use crate::error::{Error, Result};
use sapwood_io::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

/// The classes of a file with their programs, compiled on demand.
#[derive(Debug)]
pub struct Programs {
    classes: Arc<Classes>,
    compiled: Mutex<HashMap<String, Arc<Class>>>,
    hidden: Hidden,
}

/// Classes whose objects cannot be decoded, with the reasons. A read that may leave something out skips them.
pub type Hidden = BTreeMap<String, Arc<str>>;

impl Programs {
    /// Creates the programs for the classes of a file.
    pub fn new(classes: Arc<Classes>) -> Self {
        Self { classes, compiled: Mutex::default(), hidden: Hidden::new() }
    }
    /// Returns the same programs, skipping the objects of some classes.
    #[must_use]
    pub fn without(&self, hidden: Hidden) -> Self {
        Self { classes: self.classes.clone(), compiled: Mutex::default(), hidden }
    }
    /// The skipped classes.
    pub fn hidden(&self) -> &Hidden {
        &self.hidden
    }
    /// Creates a compiler for the classes of the file.
    pub fn compiler(&self) -> Compiler<'_> {
        Compiler { hidden: self.hidden.clone(), ..Compiler::new(&self.classes) }
    }
    /// The classes.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }
    /// Returns the program of an object after a pointer or in a `TClonesArray`.
    pub fn object(&self, name: &str) -> Kind {
        let compiled = || lock(&self.compiled);
        if let Some(class) = compiled().get(name) {
            return Kind::Object(class.clone());
        }
        let kind = self.compiler().object(name);
        if let Kind::Object(class) = &kind {
            compiled().insert(name.to_owned(), class.clone());
        }
        kind
    }
}

/// Maximum nesting depth of classes; deeper ones are called unreadable.
const DEEPEST: usize = 24;

/// Maximum number of members in a program, counting those of nested classes each time. Classes that contain each other
/// twice at every level would have millions.
const MOST_MEMBERS: usize = 20_000;

/// Maximum number of variable arrays in a member: empty ones have no bytes that would limit their number.
const MOST_ROWS: usize = 10_000;

/// Compiles type names and members into programs.
pub struct Compiler<'a> {
    classes: &'a Classes,
    hidden: Hidden,
    inside: Vec<String>,
    members: usize,
    /// Skipped members, each with the reason.
    pub left_out: Vec<String>,
    /// Elements of containers that may not be decodable.
    pub doubts: Vec<String>,
}

impl<'a> Compiler<'a> {
    /// Creates a compiler for the classes of a file.
    pub fn new(classes: &'a Classes) -> Self {
        Self {
            classes,
            hidden: Hidden::new(),
            inside: Vec::new(),
            members: 0,
            left_out: Vec::new(),
            doubts: Vec::new(),
        }
    }

    /// Compiles a value of a type inside a container or as a whole: without a version header of its own, unless it is
    /// an object.
    pub fn value(&mut self, cpp: &Cpp) -> Kind {
        self.value_in(cpp, false)
    }

    /// The same, with enumerations of their own width.
    fn value_in(&mut self, cpp: &Cpp, own: bool) -> Kind {
        match cpp {
            Cpp::Number(number) => Kind::Number(*number),
            Cpp::Double32 => Kind::Packed(Packing::of(false, "")),
            Cpp::Float16 => Kind::Packed(Packing::of(true, "")),
            Cpp::Text => Kind::Text,
            Cpp::TString => Kind::TString,
            Cpp::Bits(_) => Kind::Bits,
            Cpp::List(item) => Kind::List(Box::new(self.element(item, own || item.is_container()))),
            Cpp::Map(key, value) => {
                let halves = self.classes.halves(key, value);
                let mut half = |cpp: &Cpp, number: Option<Number>| {
                    Box::new(number.map_or_else(|| self.half(cpp, own), Kind::Number))
                };
                Kind::Map(half(key, halves[0]), half(value, halves[1]))
            }
            Cpp::Pair(a, b) => {
                if let Some(name) = self.pair_class(cpp) {
                    return self.object(&name);
                }
                let steps = [("first", a), ("second", b)];
                let steps = steps.map(|(name, cpp)| (name.to_owned(), false, self.half(cpp, own)));
                Kind::Record(Arc::new(Record::new("pair", steps)))
            }
            Cpp::Pointer(_) => Kind::Pointer,
            Cpp::Class(name) => match self.classes.enumeration(name, own) {
                Some(number) => Kind::Number(number),
                None => self.object(name),
            },
        }
    }

    /// Returns the name under which the file describes a pair; such a pair is streamed as an object, with a header.
    fn pair_class(&self, pair: &Cpp) -> Option<String> {
        if !matches!(pair, Cpp::Pair(..)) {
            return None;
        }
        self.classes.pair(pair).map(|info| info.name.to_string())
    }

    /// Compiles a key or value of a map, or half of a pair.
    fn half(&mut self, cpp: &Cpp, own: bool) -> Kind {
        self.element(cpp, own || matches!(cpp, Cpp::Class(_)))
    }

    /// Compiles an element of a container. An undescribed class is acceptable as long as containers are empty.
    fn element(&mut self, cpp: &Cpp, own: bool) -> Kind {
        match (cpp, self.value_in(cpp, own)) {
            (Cpp::Class(name), Kind::Unreadable(why))
                if !self.classes.contains(name) && !self.hidden.contains_key(name) =>
            {
                self.doubts.push(format!("{why}; if the data have no such objects, the rest is read"));
                Kind::Opaque(name.as_str().into(), self.classes.numbers_of_template(name))
            }
            (_, kind) => kind,
        }
    }

    /// Compiles a value of a type: containers have a version header.
    pub fn framed(&mut self, cpp: &Cpp) -> Kind {
        match cpp {
            cpp if cpp.is_container() => Kind::Framed(Box::new(self.value(cpp))),
            _ => self.value(cpp),
        }
    }

    /// Compiles an object of a class with its version header.
    pub fn object(&mut self, name: &str) -> Kind {
        if let Some(number) = Number::of_array(name) {
            return Kind::List(Box::new(Kind::Number(number)));
        }
        match name {
            "TObject" => return Kind::ObjectBits,
            "TRef" => return Kind::Reference,
            "TString" => return Kind::TString,
            "TDatime" => {
                let step = ("fDatime".to_owned(), false, Kind::Number(Number::U32));
                return Kind::Record(Arc::new(Record::new(name, [step])));
            }
            "TExMap" => return exmap(),
            // Its streamer writes nothing.
            "TQObject" => return Kind::Record(Arc::new(Record::new(name, []))),
            "TClonesArray" => return Kind::Clones,
            "TObjArray" => return Kind::Collection(Collection::Array),
            "TList" | "THashList" => return Kind::Collection(Collection::List),
            "TMap" => return Kind::Collection(Collection::Map),
            "TOrdCollection" => return Kind::Collection(Collection::Sequence),
            "TRefArray" => return Kind::References,
            _ => {}
        }
        if let Some(element) = name.strip_prefix("TMatrixTSym<").and_then(|rest| rest.strip_suffix('>')) {
            return self.symmetric(name, element.trim());
        }
        if let Some(kind) = self.collection_class(name) {
            return kind;
        }
        if typename::is_container(name) {
            return self.embedded(name);
        }
        if self.inside.iter().any(|n| n == name) {
            return Kind::Again(name.into());
        }
        match self.class(name, None) {
            Ok(class) => Kind::Object(class),
            Err(e) => unreadable(e.to_string()),
        }
    }

    /// Compiles a `TMatrixTSym`: its base, and the elements of the upper half row by row (`TMatrixTSym::Streamer`).
    fn symmetric(&mut self, name: &str, element: &str) -> Kind {
        let base = format!("TMatrixTBase<{element}>");
        let mut record = Record::new(name, []);
        let kind = self.object(&base);
        record.push(base, true, kind);
        match (record.field_of("fNrows"), Number::of_name(element)) {
            (Some(counter), Some(number)) => {
                let item = Box::new(Kind::Number(number));
                let kind = Kind::Counted { counter, rows: None, flagged: false, triangle: true, item };
                record.push("fElements".to_owned(), false, kind);
                Kind::Record(Arc::new(record))
            }
            _ => unreadable(format!("class {name} is not described in the file (no streamer info)")),
        }
    }

    /// Compiles a class that represents a collection: its only element is itself as a container (`This`).
    fn collection_class(&mut self, name: &str) -> Option<Kind> {
        let info = self.classes.latest(name)?;
        let [only] = info.elements.as_slice() else { return None };
        if only.class != ElementClass::Stl || only.name != "This" {
            return None;
        }
        // The element type is in brackets before the comment (`TStreamerInfo::Build`), otherwise in its own name.
        let commented = only.title.strip_prefix('<').and_then(|title| title.rsplit_once('>'));
        let argument = || name.split_once('<').and_then(|(_, rest)| rest.strip_suffix('>'));
        let inner = commented.map(|(inner, _)| inner).or_else(argument).unwrap_or_default();
        let item = match typename::parse(inner.trim().trim_end_matches('*')) {
            Ok(cpp) => self.element(&cpp, false),
            Err(error) => unreadable(error.to_string()),
        };
        Some(Kind::Framed(Box::new(Kind::List(Box::new(item)))))
    }

    /// Compiles an object that is a whole value of a column, in the version, or with the checksum, given there.
    pub fn top(&mut self, cpp: &Cpp, version: i32, checksum: u32) -> Kind {
        let pair = self.pair_class(cpp);
        let ((Some(name), _) | (None, Cpp::Class(name))) = (&pair, cpp) else { return self.framed(cpp) };
        match self.object(name) {
            Kind::Object(_) => match self.class(name, Some((version, checksum))) {
                Ok(class) => Kind::Top(class),
                Err(e) => unreadable(e.to_string()),
            },
            other => other,
        }
    }

    /// Returns a class with the fields of the preferred version, or of the newest.
    fn class(&mut self, name: &str, prefer: Option<(i32, u32)>) -> Result<Arc<Class>> {
        if let Some(why) = self.hidden.get(name) {
            return Err(Error::unsupported(why.to_string()));
        }
        if self.inside.len() >= DEEPEST {
            return Err(Error::limit(format!("classes nested deeper than {DEEPEST}")));
        }
        // For equal versions, as in classes without a number, the later entry of the file's list comes first.
        let mut infos: Vec<&Arc<StreamerInfo>> = self.classes.versions(name).collect();
        infos.reverse();
        if infos.is_empty() {
            infos = super::builtin::classes().versions(name).collect();
        }
        if infos.is_empty() {
            return Err(unknown_class(name));
        }
        // Check the limit before compiling. Each version counts as a member, too.
        let members = infos.iter().map(|info| info.elements.len() + 1).sum();
        self.members = self.members.saturating_add(members);
        if self.members > MOST_MEMBERS {
            return Err(Error::limit(format!("classes of more than {MOST_MEMBERS} members in all")));
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
        let mut record = Record::new(info.name.to_string(), []);
        for element in &info.elements {
            self.push(&mut record, element, &info.name);
        }
        record
    }

    /// Compiles the columns of a base class of many objects: a record of its members.
    pub fn base(&mut self, element: &Element) -> Kind {
        let mut record = Record::new(element.name.to_string(), []);
        self.push(&mut record, element, &element.name);
        Kind::Record(Arc::new(record))
    }

    fn push(&mut self, record: &mut Record, element: &Element, class: &str) {
        let base = element.class == ElementClass::Base;
        let (left_out, doubts) = (self.left_out.len(), self.doubts.len());
        let kind = if base {
            self.object(&element.name)
        } else {
            let name = element.count_name.as_str();
            let counter = if name.is_empty() { None } else { record.field_of(name) };
            self.member(element, counter)
        };
        let kind = match kind.problem().map(str::to_owned).zip(byte_counts(element)) {
            Some((why, (times, shared))) => {
                // Its own members are missing with it.
                self.left_out.truncate(left_out);
                self.doubts.truncate(doubts);
                self.left_out.push(format!("member {} of {class}: {why}", element.name));
                Kind::Skipped(Arc::new(Skipped { why, times, shared }))
            }
            None => kind,
        };
        for doubt in self.doubts.iter_mut().skip(doubts).filter(|doubt| !doubt.starts_with("member ")) {
            *doubt = format!("member {} of {class}: {doubt}", element.name);
        }
        record.push(element.name.to_string(), base, kind);
        if let Some(step) = record.steps.last_mut().filter(|_| base) {
            // A `TNamed` has a type code of its own.
            step.whole = element.kind != 0;
            step.version = element.base_version;
        }
    }

    /// Compiles a member of a class; `counter` is the field that counts a variable array.
    pub fn member(&mut self, e: &Element, counter: Option<usize>) -> Kind {
        let n = e.array_length.max(0) as usize;
        let dims: Vec<usize> =
            e.max_index.iter().take(e.array_dim.clamp(0, 5) as usize).map(|&d| d.max(0) as usize).collect();
        let product = dims.iter().try_fold(1usize, |product, &d| product.checked_mul(d));
        let dims = if product == Some(n) && !dims.is_empty() { dims } else { vec![n] };
        let class = e.typename.trim_end_matches('*').trim();
        let counted = |counter: Option<usize>, make: &dyn Fn(usize) -> Kind| match counter {
            Some(counter) => make(counter),
            None => unreadable(format!(
                "{} is counted by {:?}, which is not an earlier member",
                e.name, e.count_name
            )),
        };
        match e.kind {
            7 => Kind::LongText,
            1..=19 => self.basic(e.kind, &e.title),
            21..=39 => fixed(&dims, self.basic(e.kind - 20, &e.title)),
            41..=59 if n > MOST_ROWS => {
                unreadable(format!("{} is declared as {n} variable arrays, more than {MOST_ROWS}", e.name))
            }
            41..=59 => {
                let item = self.basic(e.kind - 40, &e.title);
                counted(counter, &|counter| Kind::Counted {
                    counter,
                    rows: Some(n).filter(|&n| n > 0),
                    flagged: true,
                    triangle: false,
                    item: Box::new(item.clone()),
                })
            }
            65 => Kind::TString,
            // These arrays have a version header of their own (`TStreamerInfo::WriteBufferAux`).
            85 => Kind::Framed(Box::new(fixed(&dims, Kind::TString))),
            86 | 87 => Kind::Framed(Box::new(fixed(&dims, self.embedded(class)))),
            61..=63 | 66..=68 if n == 0 => self.embedded(class),
            61..=63 | 66..=68 | 81..=83 | 88 => fixed(&dims, self.embedded(class)),
            300 | 365 | 500 | 320 | 71 if matches!(e.class, ElementClass::Stl | ElementClass::StlString) => {
                // A pointer to a container is streamed as the container.
                let inner = match typename::parse(class) {
                    Ok(cpp) => self.value(&cpp),
                    Err(error) => unreadable(error.to_string()),
                };
                let inner = if n > 0 { fixed(&dims, inner) } else { inner };
                Kind::Framed(Box::new(inner))
            }
            64 | 69 if n == 0 => Kind::Pointer,
            64 | 69 | 84 | 89 => fixed(&dims, Kind::Pointer),
            501 => {
                // A pointer to pointers holds each object behind a pointer.
                let item = if e.typename.ends_with("**") { Kind::Pointer } else { self.embedded(class) };
                Kind::Loop { counter, item: Box::new(item) }
            }
            kind => unreadable(format!("{} is streamed by code of its class {class} (kind {kind})", e.name)),
        }
    }

    fn embedded(&mut self, class: &str) -> Kind {
        match typename::parse(class) {
            Ok(Cpp::Class(name)) => self.object(&name),
            // A container in place of an object, as in a `std::array`, has no header.
            Ok(cpp) => self.value(&cpp),
            Err(error) => unreadable(error.to_string()),
        }
    }

    /// Compiles a basic type from its code; for packed types, the comment has the range.
    pub fn basic(&self, kind: i32, title: &str) -> Kind {
        match (kind, Number::of_code(kind)) {
            (15, _) => Kind::StatusBits,
            (_, Some(number)) => Kind::Number(number),
            (9 | 19, _) => Kind::Packed(Packing::of(kind == 19, title)),
            _ => unreadable(format!("basic type code {kind}")),
        }
    }
}

/// Returns the number of byte counts in a member, and whether a single one covers all objects of a member-wise
/// container; `None` if there are none.
fn byte_counts(e: &Element) -> Option<(usize, bool)> {
    match e.kind {
        _ if e.class == ElementClass::Base => Some((1, false)),
        _ if matches!(e.class, ElementClass::Stl | ElementClass::StlString) => Some((1, true)),
        // Containers have none here, unless they are described.
        61..=63 | 66..=68 | 81..=83 | 88 if typename::is_container(&e.typename) => None,
        61..=63 | 66..=68 | 81..=83 | 88 => Some(((e.array_length.max(1)) as usize, false)),
        85..=87 | 500 | 501 => Some((1, e.kind != 501)),
        _ => None,
    }
}

/// Compiles a `TExMap`: the size of its table, then each entry with its place in it (`TExMap::Streamer`, version 3).
fn exmap() -> Kind {
    let step = |name: &str, number| (name.to_owned(), false, Kind::Number(number));
    let entry = [("slot", Number::I32), ("hash", Number::U64), ("key", Number::I64), ("value", Number::I64)];
    let entry = Kind::Record(Arc::new(Record::new("", entry.map(|(name, number)| step(name, number)))));
    let steps = [
        ("TObject".to_owned(), true, Kind::ObjectBits),
        step("fSize", Number::I32),
        ("fTable".to_owned(), false, Kind::List(Box::new(entry))),
    ];
    Kind::Framed(Box::new(Kind::Record(Arc::new(Record::new("TExMap", steps)))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Builder;
    use crate::streamer::decode::Decoder;
    use crate::wire::Cursor;

    /// Returns classes from `C0` to the last, each with two members of the next class.
    fn doubling(last: usize) -> Classes {
        let template = super::super::builtin::classes();
        let element = |name: &str, class: String| {
            let any = template.iter().flat_map(|i| &i.elements).next().cloned().unwrap();
            Element {
                class: ElementClass::ObjectAny,
                name: name.to_owned().into(),
                kind: 62,
                array_length: 0,
                typename: class,
                ..any
            }
        };
        Classes::new((0..last).map(|i| StreamerInfo {
            name: format!("C{i}").into(),
            title: String::new(),
            version: 1,
            checksum: 1,
            elements: vec![element("a", format!("C{}", i + 1)), element("b", format!("C{}", i + 1))],
        }))
        .unwrap()
    }

    /// Returns a class with members of the given types and codes.
    fn with_members(name: &str, members: &[(&str, i32, &str, ElementClass)]) -> StreamerInfo {
        let any = super::super::builtin::classes().iter().flat_map(|i| &i.elements).next().cloned().unwrap();
        let element = |&(name, kind, typename, class): &(&str, i32, &str, ElementClass)| Element {
            class,
            name: name.to_owned().into(),
            kind,
            array_length: 0,
            array_dim: 0,
            typename: typename.to_owned(),
            ..any.clone()
        };
        let elements = members.iter().map(element).collect();
        StreamerInfo { name: name.to_owned().into(), title: String::new(), version: 1, checksum: 1, elements }
    }

    #[test]
    fn members_of_unknown_classes_are_passed_over() {
        let members = [
            ("a", 3, "int", ElementClass::BasicType),
            ("b", 62, "Secret", ElementClass::ObjectAny),
            ("c", 300, "vector<Secret>", ElementClass::Stl),
            ("d", 3, "int", ElementClass::BasicType),
        ];
        let classes = Arc::new(Classes::new([with_members("Outer", &members)]).unwrap());
        let programs = Programs::new(classes);
        let mut compiler = programs.compiler();
        let kind = compiler.object("Outer");
        assert_eq!(
            compiler.left_out,
            ["member b of Outer: class Secret is not described in the file (no streamer info)"]
        );
        assert!(compiler.doubts[0].starts_with("member c of Outer: class Secret is not described"));
        let mut builder = Builder::new(&kind.type_of().unwrap());
        // Version header, 7, an object of three bytes, an empty container, 8.
        let bytes = [
            &[0x40, 0, 0, 29, 0, 1, 0, 0, 0, 7][..],
            &[0x40, 0, 0, 5, 0, 1, 1, 2, 3],
            &[0x40, 0, 0, 6, 0, 9, 0, 0, 0, 0],
            &[0, 0, 0, 8],
        ]
        .concat();
        let mut decoder = Decoder::new(&programs, true);
        decoder.decode(&kind, &mut Cursor::new(&bytes, 0), &mut builder, 1).unwrap();
        let left_out = decoder.left_out();
        assert_eq!(left_out.len(), 1);
        assert!(left_out[0].1.to_string().ends_with("(in member b of Outer, at byte 10)"));
        let Builder::Record { fields, .. } = &builder else { unreachable!() };
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["a", "c", "d"]);
        assert!(matches!(&fields[2].1, Builder::Number { values, .. } if *values == 8i32.to_ne_bytes()));
        // Without a list for notes this is an error, as it is if there is no byte count.
        let strict =
            Decoder::new(&programs, false).decode(&kind, &mut Cursor::new(&bytes, 0), &mut builder, 1);
        assert!(strict.unwrap_err().to_string().contains("in member b"));
        let mut bare = bytes.clone();
        bare[10] = 0;
        assert!(
            Decoder::new(&programs, true).decode(&kind, &mut Cursor::new(&bare, 0), &mut builder, 1).is_err()
        );
        // An unknown class is marked, and its container is skipped, too.
        let programs = programs.without(Hidden::from([("Secret".to_owned(), "why".into())]));
        let mut compiler = programs.compiler();
        let kind = compiler.object("Outer");
        assert_eq!(compiler.left_out, ["member b of Outer: why", "member c of Outer: why"]);
        let mut builder = Builder::new(&kind.type_of().unwrap());
        let mut decoder = Decoder::new(&programs, true);
        decoder.decode(&kind, &mut Cursor::new(&bytes, 0), &mut builder, 1).unwrap();
        assert_eq!(decoder.left_out().len(), 2);
        assert!(programs.without(Hidden::new()).compiler().object("Outer").type_of().is_ok());
    }

    /// A count of objects without members is limited, because no bytes of the file limit it.
    #[test]
    fn objects_without_members_are_limited() {
        let members = [("v", 300, "vector<TQObject>", ElementClass::Stl)];
        let infos = [with_members("Outer", &members)];
        let programs = Programs::new(Arc::new(Classes::new(infos).unwrap()));
        let kind = programs.object("Outer");
        let decode = |header: &[u8], count: u32| {
            let inner = [header, &count.to_be_bytes()].concat();
            let frame = |body: &[u8]| [&(0x4000_0000 | body.len() as u32).to_be_bytes(), body].concat();
            let bytes = frame(&[&[0, 1][..], &frame(&inner)].concat());
            let mut builder = Builder::new(&kind.type_of().unwrap());
            let result =
                Decoder::new(&programs, false).decode(&kind, &mut Cursor::new(&bytes, 0), &mut builder, 1);
            result.map_err(|error| error.kind())
        };
        for header in [&[0, 9][..], &[0x40, 9, 0, 1]] {
            assert_eq!(decode(header, 1000), Ok(()));
            assert_eq!(decode(header, 1 << 20), Ok(()));
            assert_eq!(decode(header, u32::MAX >> 1), Err(crate::error::ErrorKind::Limit));
        }
    }

    /// A flag of member-wise data in the header of a text is an error: what follows would be taken for a class version.
    #[test]
    fn texts_are_never_member_wise() {
        let programs = Programs::new(Arc::new(Classes::new([]).unwrap()));
        let kind = Kind::Framed(Box::new(Kind::Text));
        let decode = |version: u8| {
            let bytes = [0x40, 0, 0, 4, version, 9, 1, b'x'];
            let mut builder = Builder::new(&kind.type_of().unwrap());
            Decoder::new(&programs, false).column_to_end(&kind, &mut Cursor::new(&bytes, 0), &mut builder)
        };
        assert!(decode(0).is_ok());
        assert!(
            decode(0x40).unwrap_err().to_string().starts_with("member-wise data of a type without members")
        );
    }

    #[test]
    fn a_negative_count_is_an_error_with_its_place() {
        let members =
            [("n", 6, "int", ElementClass::BasicType), ("x", 45, "float*", ElementClass::BasicPointer)];
        let mut info = with_members("Counted", &members);
        info.elements[1].count_name = "n".to_owned();
        let programs = Programs::new(Arc::new(Classes::new([info]).unwrap()));
        let kind = programs.object("Counted");
        let mut builder = Builder::new(&kind.type_of().unwrap());
        let bytes = [0x40, 0, 0, 11, 0, 1, 255, 255, 255, 255, 1, 0, 0, 0, 0];
        let error = Decoder::new(&programs, true)
            .decode(&kind, &mut Cursor::new(&bytes, 100), &mut builder, 1)
            .unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Corrupt);
        assert_eq!(error.to_string(), "n counts -1 values (in class Counted, at byte 110)");
    }

    #[test]
    fn enumerations_are_numbers_wherever_they_are() {
        let members =
            [("a", 3, "Colour", ElementClass::BasicType), ("first", 11, "Small", ElementClass::BasicType)];
        let mut infos =
            vec![with_members("Holder", &members[..1]), with_members("pair<Small,int>", &members[1..])];
        infos.push(with_members("Known", &[]));
        // Classes of one template: with the same numbers, in a base, and with different ones.
        let key = ("key", 13, "unsigned int", ElementClass::BasicType);
        let index = ("index", 13, "unsigned int", ElementClass::BasicType);
        infos.push(with_members("Base", &[key, index]));
        for name in ["Link<A>", "Link<B>"] {
            infos.push(with_members(name, &[("Base", 0, "BASE", ElementClass::Base)]));
        }
        infos.push(with_members("Mixed<A>", &[key]));
        infos.push(with_members("Mixed<B>", &[key, index]));
        let classes = Classes::new(infos).unwrap();
        assert_eq!(classes.enumeration("Colour", true), Some(Number::I32));
        assert_eq!(classes.enumeration("Small", false), Some(Number::I32));
        assert_eq!(classes.enumeration("Small", true), Some(Number::U8));
        assert_eq!(classes.enumeration("Known", true), None);
        for (name, want) in [
            ("vector<Small>", "List(Number(I32))"),
            ("vector<vector<Small> >", "List(List(Number(U8)))"),
            ("map<Small,Colour>", "Map(Number(U8), Number(I32))"),
            ("map<int,vector<Small> >", "Map(Number(I32), List(Number(I32)))"),
            ("vector<Unknown>", "List(Opaque(\"Unknown\", []))"),
            ("vector<Link<Lost> >", "List(Opaque(\"Link<Lost>\", [(\"key\", U32), (\"index\", U32)]))"),
            ("vector<Mixed<Lost> >", "List(Opaque(\"Mixed<Lost>\", []))"),
        ] {
            let kind = Compiler::new(&classes).value(&typename::parse(name).unwrap());
            assert_eq!(format!("{kind:?}"), want, "{name}");
        }
    }

    #[test]
    fn classes_of_many_members_or_versions_are_refused_before_they_are_compiled() {
        let member = |i: usize| (format!("x{i}"), format!("vector<C{i}>"));
        let names: Vec<(String, String)> = (0..MOST_MEMBERS).map(member).collect();
        let members = |count: usize| -> Vec<(&str, i32, &str, ElementClass)> {
            let each = names.iter().take(count);
            each.map(|(name, class)| (name.as_str(), 3, class.as_str(), ElementClass::BasicType)).collect()
        };
        for (count, fits) in [(MOST_MEMBERS - 1, true), (MOST_MEMBERS, false)] {
            let classes = Classes::new([with_members("C", &members(count))]).unwrap();
            let kind = Compiler::new(&classes).object("C");
            let why = kind.problem().unwrap_or_default();
            assert_eq!(why.contains("classes of more than 20000 members in all"), !fits, "{count}: {why}");
        }
        let start = std::time::Instant::now();
        let version = |version| StreamerInfo { version, ..with_members("C", &[]) };
        let classes = Classes::new((0..200_000).map(version)).unwrap();
        assert_eq!(classes.versions("C").count(), 200_000);
        assert!(Compiler::new(&classes).object("C").problem().is_some());
        // Comparing all versions with each other would take a minute.
        assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
    }

    #[test]
    fn pointers_to_objects_seen_before_are_bounded_for_all_entries_together() {
        const MASK: u32 = 0x4000_0000;
        let text = [&[255][..], &1000_u32.to_be_bytes(), &[b'x'; 1000]].concat();
        let object = [&[0, 1, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0][..], &text].concat();
        let framed = [&(MASK | object.len() as u32).to_be_bytes()[..], &object].concat();
        let inside = [&[255; 4][..], b"TObjString\0", &framed].concat();
        let first = [&(MASK | inside.len() as u32).to_be_bytes()[..], &inside].concat();
        let programs = Programs::new(Arc::new(Classes::default()));
        let decode = |decoder: &mut Decoder<'_>, reference: u32, times: usize| {
            let data = [&first[..], &reference.to_be_bytes().repeat(times)].concat();
            let mut out = Builder::new(&crate::array::Type::Dynamic);
            decoder.next_entry();
            decoder.decode(&Kind::Pointer, &mut Cursor::new(&data, 0), &mut out, 1 + times)
        };
        let known = |reference: &u32| decode(&mut Decoder::new(&programs, false), *reference, 1).is_ok();
        let reference = (2..20).find(known).unwrap();
        let mut decoder = Decoder::new(&programs, false);
        decode(&mut decoder, reference, 500).unwrap();
        let more: Vec<_> =
            (0..5).map(|_| decode(&mut decoder, reference, 500).map_err(|e| e.kind())).collect();
        assert_eq!(more.last(), Some(&Err(crate::error::ErrorKind::Limit)), "{more:?}");
    }

    /// Returns the class `C` in version 1 with a number, and in version 2 also with an array of `size` numbers.
    fn grown(size: i32) -> Programs {
        let number = ("y", 3, "int", ElementClass::BasicType);
        let old = with_members("C", &[number]);
        let mut new = with_members("C", &[number, ("x", 28, "double", ElementClass::BasicType)]);
        (new.version, new.checksum) = (2, 2);
        let array = new.elements.last_mut().unwrap();
        (array.array_length, array.array_dim, array.max_index) = (size, 1, [size, 0, 0, 0, 0]);
        Programs::new(Arc::new(Classes::new([old, new]).unwrap()))
    }

    #[test]
    fn zeros_of_members_that_were_added_later_are_bounded_by_the_bytes_before() {
        let object = [0x40, 0, 0, 6, 0, 1, 0, 0, 0, 7];
        for (size, times, fits) in
            [(10, 1, true), (10, 100_000, true), (i32::MAX, 1, false), (4000, 4000, false)]
        {
            let programs = grown(size);
            let kind = programs.object("C");
            let mut out = Builder::new(&kind.type_of().unwrap());
            let bytes = object.repeat(times);
            let mut cursor = Cursor::new(&bytes, 0);
            let found = Decoder::new(&programs, false).decode(&kind, &mut cursor, &mut out, times);
            assert_eq!(found.map_err(|e| e.kind()).err(), (!fits).then_some(crate::error::ErrorKind::Limit));
        }
    }

    #[test]
    fn too_many_variable_arrays_in_a_member_are_refused() {
        let members =
            [("n", 6, "int", ElementClass::BasicType), ("x", 45, "float*", ElementClass::BasicPointer)];
        for (rows, fits) in [(3, true), (1_000_000_000, false)] {
            let mut info = with_members("Rows", &members);
            info.elements[1].count_name = "n".to_owned();
            info.elements[1].array_length = rows;
            let programs = Programs::new(Arc::new(Classes::new([info]).unwrap()));
            assert_eq!(programs.object("Rows").problem().is_none(), fits);
        }
    }

    #[test]
    fn references_to_objects_of_other_files_have_an_identifier() {
        let programs = Programs::new(Arc::new(Classes::default()));
        // Version, unique id, bits; a text instead of the number of a process.
        let far = [&[0, 1, 0, 0, 0, 7, 3, 0, 0, 0x20][..], &[3, b'a', b'b', b'c']].concat();
        let near = [0, 1, 0, 0, 0, 9, 3, 0, 0, 0, 0, 1];
        let bytes = [&far[..], &near].concat();
        let mut out = Builder::new(&Kind::Reference.type_of().unwrap());
        let mut cursor = Cursor::new(&bytes, 0);
        Decoder::new(&programs, false).decode(&Kind::Reference, &mut cursor, &mut out, 2).unwrap();
        assert_eq!(cursor.remaining(), 0);
        let Builder::Record { fields, .. } = &out else { unreachable!() };
        let ids = [7_u32.to_ne_bytes(), 9_u32.to_ne_bytes()].concat();
        assert!(matches!(&fields[0].1, Builder::Number { values, .. } if values[..] == ids[..]));
    }

    #[test]
    fn arrays_of_clones_have_another_bit_for_columns_before_version_4() {
        let number = ("a", 3, "int", ElementClass::BasicType);
        let programs = Programs::new(Arc::new(Classes::new([with_members("P", &[number])]).unwrap()));
        for (version, bits) in [(3, 1 << 14), (4, 1 << 12)] {
            // A `TObject` with the bit, no name, class and version, two objects, and a column of their numbers.
            let bits: u32 = bits;
            let head = [&[0, version, 0, 1, 0, 0, 0, 0][..], &bits.to_be_bytes(), &[0, 3], b"P;1"].concat();
            let body = [&head[..], &[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6]].concat();
            let bytes = [&[0x40, 0, 0, body.len() as u8][..], &body].concat();
            let mut out = Builder::new(&Kind::Clones.type_of().unwrap());
            let mut cursor = Cursor::new(&bytes, 0);
            Decoder::new(&programs, false).decode(&Kind::Clones, &mut cursor, &mut out, 1).unwrap();
            assert_eq!(cursor.remaining(), 0);
        }
    }

    #[test]
    fn classes_that_double_at_every_level_end_somewhere() {
        let few = doubling(5);
        let mut compiler = Compiler::new(&few);
        let kind = compiler.object("C0");
        assert!(kind.type_of().is_ok() && compiler.left_out.len() == 32);
        assert!(compiler.left_out.iter().all(|why| why.contains("class C5 is not described")));
        // Without the limit this would be a program of four million members.
        let many = doubling(22);
        let mut compiler = Compiler::new(&many);
        compiler.object("C0");
        assert!(compiler.left_out.iter().any(|why| why.contains("classes of more than 20000 members")));
        assert!(compiler.members < 2 * MOST_MEMBERS, "{} members", compiler.members);
    }
}
