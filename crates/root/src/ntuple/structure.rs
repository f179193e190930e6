//! The structure of a field: the columns that make up its values.

use super::encoding::Encoding;
use super::listing::is_numbered;
use super::schema::{Field, Role, Schema};
use crate::array::{Number, Type};
use crate::error::{Error, Result, Within};
use crate::streamer::compile::Programs;
use crate::streamer::kind::Kind;
use crate::streamer::typename::{self, Cpp};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

/// A stored column, in each representation of its field.
#[derive(Debug, Clone, PartialEq)]
pub struct Stored {
    /// The physical columns, one for each representation.
    pub choices: Vec<usize>,
    /// Index among the columns of the structure.
    pub slot: usize,
    /// Number of elements that each entry has; zero if entries differ.
    pub each: u64,
}

/// How the values of a field are assembled.
#[derive(Debug, Clone)]
pub enum Structure {
    /// One number each.
    Number {
        /// The column.
        stored: Stored,
        /// Number type after reading.
        number: Number,
    },
    /// Strings.
    Text {
        /// The end of each.
        offsets: Stored,
        /// The characters.
        chars: Stored,
    },
    /// Lists.
    List {
        /// The end of each.
        offsets: Stored,
        /// The items.
        item: Arc<Structure>,
    },
    /// A value or none.
    Option {
        /// The end of each; a value has one item or none.
        offsets: Stored,
        /// The value.
        item: Arc<Structure>,
    },
    /// The sizes of lists.
    Sizes {
        /// The end of each.
        offsets: Stored,
        /// The items, which are not read.
        item: Option<Arc<Structure>>,
        /// Number type after reading.
        number: Number,
    },
    /// Lists of one size.
    Fixed {
        /// Items in each list.
        size: usize,
        /// The items.
        item: Arc<Structure>,
    },
    /// Named values.
    Record {
        /// Class name, empty for pairs, tuples and untyped records.
        name: String,
        /// The members in order.
        fields: Vec<(String, Arc<Structure>)>,
    },
    /// Values of several types.
    Variant {
        /// Type and index of each.
        switch: Stored,
        /// The types.
        items: Vec<Arc<Structure>>,
    },
    /// Objects serialized by their class.
    Streamed {
        /// The end of each.
        offsets: Stored,
        /// Their bytes.
        bytes: Stored,
        /// Their decoder.
        kind: Arc<Kind>,
        /// The type of their column.
        of: Type,
    },
}

/// Compiles fields.
pub struct Compiler<'a> {
    /// Fields and columns.
    pub schema: &'a Schema,
    /// Classes of streamed fields.
    pub programs: &'a dyn Fn() -> Result<Arc<Programs>>,
    slots: Cell<usize>,
}

impl<'a> Compiler<'a> {
    /// Creates a compiler for a schema; `programs` decode streamed fields.
    pub fn new(schema: &'a Schema, programs: &'a dyn Fn() -> Result<Arc<Programs>>) -> Self {
        Self { schema, programs, slots: Cell::new(0) }
    }

    /// Returns the structure of a field including the nesting of its parents: a member of list items becomes a list.
    pub fn along(&self, id: usize) -> Result<Structure> {
        let mut path = vec![id];
        while let Some(parent) = path.last().and_then(|&id| self.schema.fields.get(id)?.parent) {
            path.push(parent);
        }
        let top = path.pop().unwrap_or(id);
        self.part(top, &path)
    }

    /// Returns the structure of a field restricted to one descendant. `path` holds the fields on the way to it, the
    /// last one first.
    fn part(&self, id: usize, path: &[usize]) -> Result<Structure> {
        let Some((&next, path)) = path.split_last() else { return self.field(id) };
        let field = self.schema.fields.get(id).ok_or_else(|| Error::argument(format!("no field {id}")))?;
        let columns = field.representations.first().map_or(0, Vec::len);
        let part = || {
            if let Some(why) = &field.broken {
                return Err(why.clone());
            }
            Ok(match (field.role, field.array_size, columns) {
                (Role::Leaf, Some(_), 0) => {
                    Structure::Fixed { size: array_size(field)?, item: Arc::new(self.part(next, path)?) }
                }
                (Role::Leaf, None, 0) | (Role::Record, _, 0) => self.part(next, path)?,
                (Role::Collection, _, 1) => {
                    let offsets = self.offsets(id, 0)?;
                    let item = Arc::new(self.part(next, path)?);
                    if is_optional(field) {
                        Structure::Option { offsets, item }
                    } else {
                        Structure::List { offsets, item }
                    }
                }
                (Role::Variant, ..) => {
                    return Err(Error::unsupported("the types of a variant cannot be read one by one"));
                }
                _ => {
                    return Err(Error::corrupt(format!(
                        "a field of type {:?} cannot have subfields",
                        field.typename
                    )));
                }
            })
        };
        part().within(|| format!("field {}", field.name))
    }

    /// Returns the structure of a field, or the reason why it cannot be read.
    pub fn field(&self, id: usize) -> Result<Structure> {
        let field = self.schema.fields.get(id);
        let field = field.ok_or_else(|| Error::argument(format!("no field {id}")))?;
        let place = || format!("field {}", field.name);
        self.compile(id, field).within(place)
    }

    fn compile(&self, id: usize, field: &Field) -> Result<Structure> {
        if let Some(why) = &field.broken {
            return Err(why.clone());
        }
        let columns = field.representations.first().map_or(0, Vec::len);
        match (field.role, columns) {
            (Role::Leaf, _) => self.leaf(id, field, columns),
            (Role::Collection, 1) => {
                let offsets = self.offsets(id, 0)?;
                let item = Arc::new(self.only_child(field)?);
                let optional = is_optional(field);
                Ok(if optional {
                    Structure::Option { offsets, item }
                } else {
                    Structure::List { offsets, item }
                })
            }
            (Role::Record, 0) => {
                let fields = self.members(field)?;
                let template = field.typename.split('<').next().unwrap_or_default();
                // Pairs, tuples and objects without members have no name: they are tuples.
                let plain = fields.is_empty() || matches!(template, "std::pair" | "std::tuple");
                let name = if plain { String::new() } else { field.typename.clone() };
                Ok(Structure::Record { name, fields })
            }
            (Role::Variant, 1) => {
                let items = field.children.iter().map(|&child| self.field(child).map(Arc::new));
                let items = items.collect::<Result<Vec<_>>>()?;
                if !(1..=MOST_VARIANTS).contains(&items.len()) {
                    return Err(Error::corrupt(format!("a variant cannot have {} types", items.len())));
                }
                let switch = self.stored(id, 0, |encoding| encoding == Encoding::Switch)?;
                Ok(Structure::Variant { switch, items })
            }
            (Role::Streamer, 2) => {
                let programs = (self.programs)()?;
                let kind = class(field, &programs);
                let of = kind.type_of()?;
                Ok(Structure::Streamed {
                    offsets: self.offsets(id, 0)?,
                    bytes: self.stored(id, 1, is_byte)?,
                    kind: Arc::new(kind),
                    of,
                })
            }
            (Role::Unknown(role), _) => {
                Err(Error::unsupported(format!("structural role {role:#04x} is unknown to this version")))
            }
            (role, n) => Err(Error::corrupt(format!(
                "a {} field with {n} columns ({:?})",
                format!("{role:?}").to_lowercase(),
                field.typename
            ))),
        }
    }

    fn leaf(&self, id: usize, field: &Field, columns: usize) -> Result<Structure> {
        if field.array_size.is_some() {
            let size = array_size(field)?;
            let item = Arc::new(match columns {
                0 => self.only_child(field)?,
                1 => Structure::Number {
                    stored: self.stored(id, 0, |encoding| encoding == Encoding::Bit)?,
                    number: Number::Bool,
                },
                n => return Err(Error::corrupt(format!("an array cannot have {n} columns"))),
            });
            return Ok(Structure::Fixed { size, item });
        }
        match columns {
            // An atomic or an enumeration.
            0 => self.only_child(field),
            1 => {
                if let Some(argument) = cardinality(&field.typename) {
                    let number = number(argument).filter(|n| matches!(n, Number::U32 | Number::U64));
                    let number = number.ok_or_else(|| Error::corrupt(format!("sizes as {argument:?}")))?;
                    let source = field.source.and_then(|id| self.schema.fields.get(id));
                    let item = source.and_then(|list| self.only_child(list).ok()).map(Arc::new);
                    return Ok(Structure::Sizes { offsets: self.offsets(id, 0)?, item, number });
                }
                let known = number(&field.typename);
                let stored =
                    self.stored(id, 0, |encoding| known.is_none_or(|number| encoding.reads_as(number)))?;
                let number = match known {
                    Some(number) => number,
                    None => self.encoding(&stored)?.natural(),
                };
                Ok(Structure::Number { stored, number })
            }
            2 => Ok(Structure::Text { offsets: self.offsets(id, 0)?, chars: self.stored(id, 1, is_byte)? }),
            n => Err(Error::corrupt(format!("a leaf field with {n} columns ({:?})", field.typename))),
        }
    }

    fn only_child(&self, field: &Field) -> Result<Structure> {
        match field.children.as_slice() {
            [child] => self.field(*child),
            children => {
                Err(Error::corrupt(format!("the field has {} subfields instead of one", children.len())))
            }
        }
    }

    /// Returns the values of a record: those of its bases, then its own. If several bases have members of the same
    /// name, or a base has a member with the name of an own member, the base's name is added.
    fn members(&self, field: &Field) -> Result<Vec<(String, Arc<Structure>)>> {
        let children: Vec<(usize, &Field)> =
            field.children.iter().filter_map(|&id| Some((id, self.schema.fields.get(id)?))).collect();
        let numbered = is_numbered(&children);
        // Each member with its base.
        let mut members: Vec<(Option<&str>, String, Arc<Structure>)> = Vec::with_capacity(children.len());
        for (id, child) in children {
            let structure = self.field(id)?;
            match structure {
                Structure::Record { fields, .. } if is_base(child) => {
                    let own = |(name, member)| (Some(child.typename.as_str()), name, member);
                    members.extend(fields.into_iter().map(own));
                }
                _ if numbered => members.push((None, child.name.replacen('_', "", 1), Arc::new(structure))),
                _ => members.push((None, child.name.clone(), Arc::new(structure))),
            }
        }
        let mut counts: HashMap<String, usize> = HashMap::new();
        members.iter().for_each(|(_, name, _)| *counts.entry(name.clone()).or_default() += 1);
        let named = |(base, name, member): (Option<&str>, String, Arc<Structure>)| match base {
            Some(base) if counts.get(&name).is_some_and(|&n| n > 1) => (format!("{base}::{name}"), member),
            _ => (name, member),
        };
        Ok(members.into_iter().map(named).collect())
    }

    fn offsets(&self, id: usize, place: usize) -> Result<Stored> {
        self.stored(id, place, |encoding| {
            matches!(encoding, Encoding::Plain(Number::U32 | Number::U64) | Encoding::Delta(_))
        })
    }

    /// Returns the column at an index in each representation; all must have an encoding that fits.
    fn stored(&self, field: usize, place: usize, fits: impl Fn(Encoding) -> bool) -> Result<Stored> {
        let representations = self.schema.fields.get(field).map(|f| f.representations.as_slice());
        let mut choices = Vec::new();
        for columns in representations.unwrap_or_default() {
            let Some((&id, column)) =
                columns.get(place).and_then(|id| Some((id, self.schema.columns.get(*id)?)))
            else {
                return Err(Error::corrupt(format!("column {place} of the field is missing")));
            };
            let encoding = column.encoding.clone().within(|| format!("column {id}"))?;
            if !fits(encoding) {
                let name = super::encoding::name(column.kind).unwrap_or_default();
                return Err(Error::corrupt(format!("column {id} is of type {name}, which does not fit")));
            }
            choices.push(id);
        }
        let slot = self.slots.get();
        self.slots.set(slot + 1);
        let each = choices.first().map_or(0, |&column| self.schema.repeat(column));
        Ok(Stored { choices, slot, each })
    }

    fn encoding(&self, stored: &Stored) -> Result<Encoding> {
        let column = stored.choices.first().and_then(|&id| self.schema.columns.get(id));
        column.ok_or_else(|| Error::corrupt("the field has no columns"))?.encoding.clone()
    }
}

/// Maximum number of types in a variant.
pub const MOST_VARIANTS: usize = 125;

/// Returns the decoder for objects of a streamed field.
fn class(field: &Field, programs: &Programs) -> Kind {
    match typename::parse(&field.typename) {
        Ok(Cpp::Class(class)) => programs.object(&class),
        Ok(cpp) => programs.compiler().framed(&cpp),
        Err(error) => crate::streamer::kind::unreadable(error.to_string()),
    }
}

fn array_size(field: &Field) -> Result<usize> {
    let size = field.array_size.unwrap_or_default();
    usize::try_from(size).map_err(|_| Error::limit(format!("an array of {size} items is too large")))
}

fn is_optional(field: &Field) -> bool {
    matches!(field.typename.split('<').next(), Some("std::optional" | "std::unique_ptr"))
}

/// Whether a field holds a base class of its parent's class.
pub fn is_base(field: &Field) -> bool {
    field.name.starts_with(':')
}

fn is_byte(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::Plain(Number::I8 | Number::U8))
}

/// The argument of `ROOT::RNTupleCardinality<...>`.
fn cardinality(typename: &str) -> Option<&str> {
    let argument = typename.strip_prefix("ROOT::")?.strip_prefix("RNTupleCardinality<")?;
    argument.strip_suffix('>')
}

/// Returns the number type of a C++ type, if it is one.
fn number(typename: &str) -> Option<Number> {
    thread_local! {
        // Neighbouring fields often have the same type, and a name has many spellings to compare with.
        static LAST: RefCell<(String, Option<Number>)> = const { RefCell::new((String::new(), None)) };
    }
    LAST.with_borrow_mut(|(name, number)| {
        if name != typename {
            *number = match typename {
                "std::byte" | "unsigned char" => Some(Number::U8),
                _ => match typename::parse(typename) {
                    Ok(Cpp::Number(number)) => Some(number),
                    Ok(Cpp::Double32) => Some(Number::F64),
                    Ok(Cpp::Float16) => Some(Number::F32),
                    _ => None,
                },
            };
            typename.clone_into(name);
        }
        *number
    })
}

/// Bytes that an element of a column takes in memory.
pub fn bytes_of(schema: &Schema, column: &super::schema::Column) -> f64 {
    let Ok(encoding) = column.encoding else { return f64::from(column.bits) / 8.0 };
    let typename = schema.fields.get(column.field).map_or("", |field| &field.typename);
    match (encoding, number(typename)) {
        (Encoding::Bit, _) => 1.0,
        (_, Some(number)) => number.size() as f64,
        // Characters, or the bytes of objects.
        (Encoding::Plain(number), None) if number.size() == 1 => 1.0,
        // Offsets, or types and places of variants.
        _ => 8.0,
    }
}

/// Bytes that a value of a field takes if it is the size of a list; otherwise 0.
pub fn bytes_of_sizes(field: &Field) -> f64 {
    let sizes = cardinality(&field.typename).and_then(number);
    sizes.map_or(0.0, |number| number.size() as f64)
}

impl Structure {
    /// Returns the first of the columns that represent it.
    pub fn first_column(&self) -> Option<usize> {
        let (stored, parts): (&[&Stored], &[Arc<Self>]) = match self {
            Self::Number { stored, .. } => (&[stored], &[]),
            Self::Text { offsets, chars: bytes } | Self::Streamed { offsets, bytes, .. } => {
                (&[offsets, bytes], &[])
            }
            Self::List { offsets, item } | Self::Option { offsets, item } => {
                (&[offsets], std::slice::from_ref(item))
            }
            Self::Sizes { offsets, item, .. } => (&[offsets], item.as_slice()),
            Self::Fixed { item, .. } => (&[], std::slice::from_ref(item)),
            Self::Record { fields, .. } => {
                return fields.iter().filter_map(|(_, field)| field.first_column()).min();
            }
            Self::Variant { switch, items } => (&[switch], items),
        };
        let own = stored.iter().flat_map(|stored| &stored.choices).copied();
        own.chain(parts.iter().filter_map(|part| part.first_column())).min()
    }

    /// Returns the column type of its values.
    pub fn type_of(&self) -> Type {
        match self {
            Self::Number { number, .. } | Self::Sizes { number, .. } => Type::Number(*number),
            Self::Text { .. } => Type::Text,
            Self::List { item, .. } => Type::List(Box::new(item.type_of())),
            Self::Option { item, .. } => item.type_of().optional(),
            Self::Fixed { size, item } => Type::FixedList { size: *size, item: Box::new(item.type_of()) },
            Self::Record { name, fields } => Type::Record {
                name: name.clone(),
                fields: fields.iter().map(|(name, field)| (name.clone(), field.type_of())).collect(),
            },
            // A variant without a value becomes a missing value of the first type.
            Self::Variant { items, .. } => Type::Union(
                items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| if i == 0 { item.type_of().optional() } else { item.type_of() })
                    .collect(),
            ),
            Self::Streamed { of, .. } => of.clone(),
        }
    }

    /// Appends the slots of its columns and their uses. `None` for objects serialized by their class: the description
    /// of the class in the file decodes them.
    pub fn describe_layout(&self, to: &mut String) -> Option<()> {
        let (kind, slots, parts): (_, &[&Stored], &[Arc<Self>]) = match self {
            Self::Number { stored, .. } => ("number", &[stored], &[]),
            Self::Text { offsets, chars } => ("text", &[offsets, chars], &[]),
            Self::List { offsets, item } => ("list", &[offsets], std::slice::from_ref(item)),
            Self::Option { offsets, item } => ("option", &[offsets], std::slice::from_ref(item)),
            Self::Sizes { offsets, .. } => ("sizes", &[offsets], &[]),
            Self::Fixed { item, .. } => ("fixed", &[], std::slice::from_ref(item)),
            Self::Record { fields, .. } => {
                return fields.iter().try_for_each(|(_, field)| field.describe_layout(to));
            }
            Self::Variant { switch, items } => ("variant", &[switch], items),
            Self::Streamed { .. } => return None,
        };
        to.extend([" ", kind]);
        to.extend(slots.iter().map(|stored| format!(" {}", stored.slot)));
        parts.iter().try_for_each(|part| part.describe_layout(to))
    }
}
