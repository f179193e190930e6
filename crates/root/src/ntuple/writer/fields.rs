//! Mapping types to fields and columns.

use crate::array::Number;
use crate::compress::encode::Compression;
use crate::error::{Error, Result, Within};
use crate::ntuple::encoding::Encoding;
use crate::ntuple::schema::{Column, DEEPEST, Field, PROJECTED, RANGE, REPETITIVE, Role, Schema};
use crate::ntuple::structure::MOST_VARIANTS;
use crate::streamer::declare::{Class, Shape};
use crate::streamer::packed::Packing;
use std::collections::{HashSet, VecDeque};

/// A field to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldSpec {
    /// Name; in an RNTuple that exists, a path that ends in a new member of a record without a class.
    pub name: String,
    /// Type.
    pub shape: Shape,
    /// Compression of its pages; `None` for the compression of the file.
    pub compression: Option<Compression>,
}

/// A projected field: it has no columns of its own and shares those of another field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Projection {
    /// Name of the new field.
    pub name: String,
    /// Path of the source field: names from a top-level field down, joined by dots. The items of lists need not be
    /// named. The projection of a list shows its sizes. The projection of a field within lists has the same lists.
    pub source: String,
}

/// A column's type, bits per element, and range.
type Stored = (u16, u16, Option<(f64, f64)>);

/// The column types of numbers, plain and split.
const fn stored(number: Number, split: bool) -> Stored {
    let (plain, better, bits) = match number {
        Number::Bool => (0x00, 0x00, 1),
        Number::I8 => (0x03, 0x03, 8),
        Number::U8 => (0x04, 0x04, 8),
        Number::I16 => (0x05, 0x11, 16),
        Number::U16 => (0x06, 0x12, 16),
        Number::I32 => (0x07, 0x13, 32),
        Number::U32 => (0x08, 0x14, 32),
        Number::I64 => (0x09, 0x15, 64),
        Number::U64 => (0x0a, 0x16, 64),
        Number::F32 => (0x0c, 0x18, 32),
        Number::F64 => (0x0d, 0x19, 64),
    };
    (if split { better } else { plain }, bits, None)
}
const CHAR: Stored = (0x02, 8, None);
const SWITCH: Stored = (0x10, 96, None);

const fn index(split: bool) -> Stored {
    (if split { 0x1b } else { 0x0f }, 64, None)
}

/// The column type of numbers with reduced precision.
fn packed(single: bool, range: &str, split: bool) -> Result<Stored> {
    let single_column = (if split { 0x18 } else { 0x0c }, 32, None);
    if range.is_empty() {
        // `Float16_t` keeps 12 bits of the mantissa, sign and exponent; `Double32_t` is single precision.
        return Ok(if single { (0x1c, 21, None) } else { single_column });
    }
    let wrong = || Error::argument(format!("cannot pack numbers in [{range}]: invalid range"));
    let (low, high, bits) = Packing::range(range).ok_or_else(wrong)?;
    if low < high {
        Packing::check_range(single, low, high)?;
        let bits = bits.filter(|bits| (1..=32).contains(bits)).unwrap_or(32);
        return Ok((0x1d, bits as u16, Some((low, high))));
    }
    match bits {
        Some(bits @ 1..=22) => Ok((0x1c, 9 + bits as u16, None)),
        _ => Err(wrong()),
    }
}

/// Returns the RNTuple name of a type; empty if a part of it has none.
pub fn typename(shape: &Shape) -> String {
    let of = |template: &str, arguments: &[&Shape], last: &str| {
        let names: Vec<String> = arguments.iter().map(|one| typename(one)).collect();
        if names.iter().any(String::is_empty) {
            return String::new();
        }
        format!("std::{template}<{}{last}>", names.join(","))
    };
    match shape {
        Shape::Number(number) => match number {
            Number::Bool => "bool".into(),
            Number::F32 => "float".into(),
            Number::F64 => "double".into(),
            other => format!("std::{}_t", other.dtype()),
        },
        Shape::Long(signed) => if *signed { "std::int64_t" } else { "std::uint64_t" }.into(),
        Shape::Packed(single, _) => if *single { "float" } else { "double" }.into(),
        Shape::Text => "std::string".into(),
        Shape::Array(size, item) => of("array", &[item], &format!(",{size}")),
        Shape::Vector(item) => of("vector", &[item], ""),
        Shape::Map(key, value) => of("map", &[key, value], ""),
        Shape::Other(collection, like) => match like.as_ref() {
            Shape::Map(key, value) => of(collection.name, &[key, value], ""),
            Shape::Vector(item) => of(collection.name, &[item], ""),
            _ => String::new(),
        },
        Shape::Optional(item) => of("optional", &[item], ""),
        Shape::Variant(items) => of("variant", &items.iter().collect::<Vec<_>>(), ""),
        Shape::Class(class) => match plain(class) {
            Some(template) => of(template, &class.members.iter().map(|(_, m)| m).collect::<Vec<_>>(), ""),
            None => class.name.clone(),
        },
    }
}

/// Returns the template of a class that is a pair or a tuple.
fn plain(class: &Class) -> Option<&'static str> {
    let numbered = class.members.iter().enumerate().all(|(i, (name, _))| *name == i.to_string());
    match class.name.as_str() {
        _ if class.is_pair() => Some("pair"),
        "" if numbered && !class.members.is_empty() => Some("tuple"),
        _ => None,
    }
}

/// Adds fields and their columns to a schema, level by level. Compressed columns use encodings that compress well;
/// others store values as they are in memory. `default` is the compression of fields that set none.
pub fn add(schema: &mut Schema, specs: &[FieldSpec], default: Compression) -> Result<()> {
    let mut names: HashSet<(Option<usize>, String)> = HashSet::new();
    names.extend(schema.fields.iter().map(|field| (field.parent, field.name.clone())));
    let known = !schema.fields.is_empty();
    let mut queue: VecDeque<(Option<usize>, String, Shape, bool, usize)> = VecDeque::new();
    for spec in specs {
        let (parent, name, depth) = match spec.name.rsplit_once('.') {
            Some((above, name)) if known => {
                let (id, depth) = record(schema, above).within(|| format!("field {}", spec.name))?;
                (Some(id), name, depth + 1)
            }
            _ => (None, spec.name.as_str(), 1),
        };
        check_name(name)?;
        if !names.insert((parent, name.to_owned())) {
            return Err(Error::argument(if known {
                format!("a field named {} already exists", spec.name)
            } else {
                format!("two fields have the name {}", spec.name)
            }));
        }
        let split = spec.compression.unwrap_or(default) != Compression::None;
        queue.push_back((parent, name.to_owned(), spec.shape.clone(), split, depth));
    }
    while let Some((parent, name, shape, split, depth)) = queue.pop_front() {
        if depth > DEEPEST {
            return Err(Error::limit(format!("the fields are nested more than {DEEPEST} levels deep")));
        }
        let id = schema.fields.len();
        let place = || format!("field {name}");
        let (field, columns, children) = field(&shape, split).within(place)?;
        for (member, _) in &children {
            check_name(member).within(place)?;
        }
        for (kind, bits, range) in columns {
            schema.columns.push(Column {
                kind,
                bits,
                field: id,
                flags: if range.is_some() { RANGE } else { 0 },
                representation: 0,
                first_element: 0,
                starts_suppressed: false,
                range,
                encoding: Encoding::of(kind, bits, range),
            });
        }
        queue.extend(children.into_iter().map(|(n, s)| (Some(id), n, s, split, depth + 1)));
        schema.fields.push(Field { parent, name, ..field });
    }
    Ok(())
}

/// Finds a record that can have more members, by its path, in a schema that need not be linked; returns also its depth.
fn record(schema: &Schema, path: &str) -> Result<(usize, usize)> {
    let (mut found, mut depth) = (None, 0);
    for name in path.split('.') {
        let mut fields = schema.fields.iter().enumerate();
        let Some((id, field)) = fields.find(|(_, field)| field.parent == found && field.name == name) else {
            return Err(Error::argument(format!("there is no record {path}")));
        };
        if field.role != Role::Record || field.source.is_some() {
            let kind = if field.typename.is_empty() { "" } else { " of type " };
            return Err(Error::argument(format!(
                "cannot add members: {name}{kind}{} is not a record",
                field.typename
            )));
        }
        if !field.typename.is_empty() {
            return Err(Error::argument(format!(
                "cannot add members to {name}: the class {} has fixed members",
                field.typename
            )));
        }
        (found, depth) = (Some(id), depth + 1);
    }
    found.map(|id| (id, depth)).ok_or_else(|| Error::argument("the path has no names"))
}

/// Adds projections to a linked schema and links it again.
pub fn project(schema: &mut Schema, projections: &[Projection]) -> Result<()> {
    let names = schema.top.iter().filter_map(|&id| schema.fields.get(id)).map(|field| field.name.clone());
    let mut names: HashSet<String> = names.collect();
    let mut added = Added { first: schema.fields.len(), fields: Vec::new(), aliases: Vec::new() };
    for projection in projections {
        let place = || format!("field {}", projection.name);
        check_name(&projection.name)?;
        if !names.insert(projection.name.clone()) {
            return Err(Error::argument(format!("two fields have the name {}", projection.name)));
        }
        let path = resolve(schema, &projection.source).within(place)?;
        added.projection(schema, &projection.name, &path).within(place)?;
    }
    if projections.is_empty() {
        return Ok(());
    }
    schema.fields.extend(added.fields);
    schema.aliases.extend(added.aliases);
    schema.unlink();
    schema.link()
}

/// Returns the fields from the top down to the one of a path.
fn resolve(schema: &Schema, path: &str) -> Result<Vec<usize>> {
    let find = |among: &[usize], name: &str| {
        among.iter().copied().find(|&id| schema.fields.get(id).is_some_and(|field| field.name == name))
    };
    let missing = || Error::argument(format!("cannot project the field {path:?}: it does not exist"));
    let mut found: Vec<usize> = Vec::new();
    for name in path.split('.') {
        loop {
            let last = found.last().and_then(|&id| schema.fields.get(id));
            let among = last.map_or(schema.top.as_slice(), |field| field.children.as_slice());
            if let Some(id) = find(among, name) {
                found.push(id);
                break;
            }
            // The items of a list need not be named.
            let lists = last.is_some_and(|field| field.role == Role::Collection);
            found.push(among.first().copied().filter(|_| lists).ok_or_else(missing)?);
        }
    }
    Ok(found)
}

/// The additions of projections to a schema.
struct Added {
    first: usize,
    fields: Vec<Field>,
    aliases: Vec<(usize, usize)>,
}

impl Added {
    fn projection(&mut self, schema: &Schema, name: &str, path: &[usize]) -> Result<()> {
        let (&last, above) =
            path.split_last().ok_or_else(|| Error::argument("the projection has no field"))?;
        let get = |id: usize| schema.fields.get(id).ok_or_else(|| Error::argument(format!("no field {id}")));
        let source = get(last)?;
        let mut lists = Vec::new();
        for &id in above {
            let field = get(id)?;
            match field.role {
                Role::Record => {}
                Role::Collection if !field.typename.starts_with("std::optional<") => lists.push(id),
                _ => {
                    return Err(Error::unsupported(format!(
                        "cannot project a part of field {}: it is neither a record nor a list",
                        field.name
                    )));
                }
            }
        }
        if source.role == Role::Collection {
            if !lists.is_empty() {
                return Err(Error::unsupported("cannot project the sizes of lists in lists"));
            }
            let sizes = Field {
                role: Role::Leaf,
                typename: "ROOT::RNTupleCardinality<std::uint32_t>".to_owned(),
                alias: String::new(),
                type_version: 0,
                ..source.clone()
            };
            self.push(&sizes, last, None, name);
            return Ok(());
        }
        let mut typename = source.typename.clone();
        let mut wrapped = Vec::new();
        for &id in lists.iter().rev() {
            if !typename.is_empty() {
                typename = format!("ROOT::VecOps::RVec<{typename}>");
            }
            wrapped.push((id, typename.clone()));
        }
        let (mut parent, mut name) = (None, name);
        for (id, typename) in wrapped.into_iter().rev() {
            let list = Field { typename, alias: String::new(), type_version: 0, ..get(id)?.clone() };
            parent = Some(self.push(&list, id, parent, name));
            name = "_0";
        }
        self.mirror(schema, last, parent, name);
        Ok(())
    }
    /// Adds a field that shares the columns of a source; returns its ID.
    fn push(&mut self, like: &Field, source: usize, parent: Option<usize>, name: &str) -> usize {
        let id = self.first + self.fields.len();
        let columns = like.representations.iter().flatten();
        self.aliases.extend(columns.map(|&column| (column, id)));
        self.fields.push(Field {
            parent,
            name: name.to_owned(),
            flags: like.flags | PROJECTED,
            source: Some(source),
            children: Vec::new(),
            representations: Vec::new(),
            ..like.clone()
        });
        id
    }
    fn mirror(&mut self, schema: &Schema, source: usize, parent: Option<usize>, name: &str) {
        let Some(field) = schema.fields.get(source) else { return };
        let id = self.push(field, source, parent, name);
        for &child in &field.children {
            let name = schema.fields.get(child).map_or("", |child| &child.name);
            self.mirror(schema, child, Some(id), name);
        }
    }
}

/// A field without its name, its columns, and its subfields.
type FieldParts = (Field, Vec<Stored>, Vec<(String, Shape)>);

fn field(shape: &Shape, split: bool) -> Result<FieldParts> {
    let item = |shape: &Shape| vec![("_0".to_owned(), shape.clone())];
    let numbered = |shapes: &[&Shape]| -> Vec<(String, Shape)> {
        shapes.iter().enumerate().map(|(i, shape)| (format!("_{i}"), (*shape).clone())).collect()
    };
    let (role, columns, children) = match shape {
        Shape::Number(number) => (Role::Leaf, vec![stored(*number, split)], Vec::new()),
        Shape::Long(signed) => {
            let number = if *signed { Number::I64 } else { Number::U64 };
            (Role::Leaf, vec![stored(number, split)], Vec::new())
        }
        Shape::Packed(single, range) => (Role::Leaf, vec![packed(*single, range, split)?], Vec::new()),
        Shape::Text => (Role::Leaf, vec![index(split), CHAR], Vec::new()),
        Shape::Array(_, inner) => (Role::Leaf, Vec::new(), item(inner)),
        Shape::Vector(inner) | Shape::Optional(inner) => (Role::Collection, vec![index(split)], item(inner)),
        Shape::Map(key, value) => {
            let pair = Shape::pair(key.as_ref().clone(), value.as_ref().clone());
            (Role::Collection, vec![index(split)], item(&pair))
        }
        Shape::Other(collection, like) => {
            if matches!(collection.name, "list" | "deque" | "forward_list") {
                return Err(Error::unsupported(format!(
                    "RNTuples have no field type for std::{}",
                    collection.name
                )));
            }
            let (role, columns, children) = match like.as_ref() {
                Shape::Map(..) | Shape::Vector(_) => field(like, split).map(|(f, c, s)| (f.role, c, s))?,
                _ => return Err(Error::argument(format!("{} is not a collection", shape.cpp()))),
            };
            (role, columns, children)
        }
        Shape::Variant(items) => {
            if !(1..=MOST_VARIANTS).contains(&items.len()) {
                return Err(Error::unsupported(format!(
                    "a variant has {} types, not 1 to {MOST_VARIANTS}",
                    items.len()
                )));
            }
            (Role::Variant, vec![SWITCH], numbered(&items.iter().collect::<Vec<_>>()))
        }
        Shape::Class(class) => {
            let children = match plain(class) {
                Some(_) => numbered(&class.members.iter().map(|(_, member)| member).collect::<Vec<_>>()),
                None => class.members.clone(),
            };
            (Role::Record, Vec::new(), children)
        }
    };
    let typename = typename(shape);
    let whole = !typename.is_empty();
    if !whole && !matches!(shape, Shape::Vector(_) | Shape::Class(_)) {
        return Err(Error::unsupported(
            "records in an array, optional value, map, tuple or variant need a class name",
        ));
    }
    let array_size = if let Shape::Array(size, _) = shape { Some(*size as u64) } else { None };
    let alias = match shape {
        Shape::Long(true) => "long",
        Shape::Long(false) => "unsigned long",
        Shape::Packed(false, _) => "Double32_t",
        _ => "",
    };
    let type_version = match shape {
        Shape::Class(class) if plain(class).is_none() && whole => i32::from(class.version).cast_unsigned(),
        _ => 0,
    };
    let field = Field {
        parent: None,
        children: Vec::new(),
        name: String::new(),
        typename,
        alias: alias.to_owned(),
        description: String::new(),
        field_version: 0,
        type_version,
        role,
        flags: if array_size.is_some() { REPETITIVE } else { 0 },
        array_size,
        source: None,
        checksum: None,
        representations: Vec::new(),
        broken: None,
    };
    Ok((field, columns, children))
}

/// Checks that a name can be read back: dots separate the names of fields, and ROOT refuses the other characters.
fn check_name(name: &str) -> Result<()> {
    let wrong = |c: char| c == '.' || c == '/' || c == '\\' || c.is_control();
    if name.is_empty() {
        return Err(Error::argument("a field has no name"));
    }
    match name.chars().find(|c| wrong(*c)) {
        Some(c) => Err(Error::argument(format!("{name:?} is not a valid name of a field: it has {c:?}"))),
        None => Ok(()),
    }
}
