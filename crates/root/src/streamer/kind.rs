//! Programs: the layout of a value in a buffer.
//!
//! A [`Kind`] is a tree of typed steps, compiled once ([`super::compile`]) from type names and streamer info. Decoding
//! ([`super::decode`]) runs it over all entries of a page and needs no names or versions.

use super::info::unknown_class;
use super::packed::Packing;
use crate::array::{Number, Type};
use crate::error::{Error, Result, Within};
use std::sync::Arc;

/// The layout of one streamed value.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A big-endian number.
    Number(Number),
    /// A `Float16_t` or `Double32_t`.
    Packed(Packing),
    /// `size` values end to end.
    Fixed {
        /// Number of values.
        size: usize,
        /// Their kind.
        item: Box<Kind>,
    },
    /// Values counted by an earlier field of the record.
    Counted {
        /// The counter field.
        counter: usize,
        /// Number of such lists, for an array of pointers.
        rows: Option<usize>,
        /// Whether a byte precedes the values; it is 0 if no values follow (a pointer member).
        flagged: bool,
        /// Whether the counter is the number of rows of a symmetric matrix, stored as its upper half.
        triangle: bool,
        /// Kind of the values.
        item: Box<Kind>,
    },
    /// A version header, then objects counted by an earlier field of the record (`TStreamerLoop`).
    Loop {
        /// The counter field; if `None`, objects follow up to the end of the header's byte count.
        counter: Option<usize>,
        /// The objects.
        item: Box<Kind>,
    },
    /// A `std::string`: length (a byte, or 255 and four bytes) and bytes.
    Text,
    /// A `TString`: the same, but never with a version header.
    TString,
    /// Like `Text`, but an empty string at the end of an entry takes no bytes (`TLeafC`).
    LeafText,
    /// Length (four bytes) and bytes: a `char*`.
    LongText,
    /// Number of bits (four bytes), then one byte for each bit.
    Bits,
    /// Number of elements (four bytes) and the elements.
    List(Box<Kind>),
    /// Number of pairs (four bytes); key and value in turn.
    Map(Box<Kind>, Box<Kind>),
    /// A container after a version header, which also says whether it is streamed member-wise.
    Framed(Box<Kind>),
    /// Steps end to end, without a header.
    Record(Arc<Record>),
    /// An object with its version header; the version selects the steps.
    Object(Arc<Class>),
    /// An object that is a whole value of a column: with its version header, or as the steps of the first version without one.
    Top(Arc<Class>),
    /// The same after the class name of the object.
    Named(Box<Kind>),
    /// A `TRef`, decoded to a record with the unique id.
    Reference,
    /// The status bits of a `TObject`: four bytes, plus two if the object is referenced.
    StatusBits,
    /// A whole `TObject`: unique id and status bits; as a base it adds no fields.
    ObjectBits,
    /// An object of an undescribed class: there must be none, or nothing after it. Its record has the numbers that all
    /// described classes of the same template have.
    Opaque(Arc<str>, Arc<[(String, Number)]>),
    /// A record of lists of the same length. It follows from the bytes of the whole entry; the number is the bytes of a
    /// row.
    Rows(Arc<Record>, usize),
    /// An object of a class that contains such objects in a container: its program is that of the class itself.
    Again(Arc<str>),
    /// A pointer: null, an object seen before, or a new object with its class.
    Pointer,
    /// A `TClonesArray`.
    Clones,
    /// A `TObjArray`, `TList` or similar.
    Collection(Collection),
    /// A `TRefArray`.
    References,
    /// An undecodable member that is skipped by its byte count.
    Skipped(Arc<Skipped>),
    /// Undecodable, with the reason.
    Unreadable(Arc<str>),
}

/// A skipped member.
#[derive(Debug)]
pub struct Skipped {
    /// Reason why it cannot be decoded.
    pub why: String,
    /// Number of values in a member, each with a byte count.
    pub times: usize,
    /// Whether, member-wise, one byte count covers the values of all objects.
    pub shared: bool,
}

/// ROOT's collections of pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
    /// `TObjArray`: the lower bound follows the size.
    Array,
    /// `TList`, `THashList`: an option string follows each object.
    List,
    /// `TOrdCollection`: the objects alone (`TCollection::Streamer`).
    Sequence,
    /// `TMap`: two pointers for each entry.
    Map,
}

/// Steps of a class or an anonymous structure.
#[derive(Debug)]
pub struct Record {
    /// Class name.
    pub name: String,
    /// Its bases and members in order.
    pub steps: Vec<Step>,
    /// Number of fields filled by the steps.
    pub fields: usize,
    /// Reason why one of them cannot be decoded.
    problem: Option<Box<str>>,
}

/// One step of a record.
#[derive(Debug)]
pub struct Step {
    /// Member name; for a base, its class.
    pub name: String,
    /// Whether it is a base class, whose fields become fields of the record.
    pub base: bool,
    /// Whether it is a base that is an object with a header, even in member-wise data.
    pub whole: bool,
    /// Version of a base without a header.
    pub version: i32,
    /// First field that it fills, within its record.
    pub field: usize,
    /// Layout of the value.
    pub kind: Kind,
}

/// A class with the steps of each version that the file describes.
#[derive(Debug)]
pub struct Class {
    /// Class name.
    pub name: String,
    /// Version, checksum and steps; the first version defines the fields.
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

impl Kind {
    /// Bytes of one value on disk, if fixed.
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

    /// Packing of its numbers, if it consists of packed numbers only.
    pub fn packing(&self) -> Option<Packing> {
        match self {
            Self::Packed(packing) => Some(*packing),
            Self::Fixed { item, .. } => item.packing(),
            _ => None,
        }
    }

    /// Minimum bytes of one value.
    pub fn least_bytes(&self) -> usize {
        match self {
            Self::List(_)
            | Self::Map(..)
            | Self::Bits
            | Self::LongText
            | Self::Pointer
            | Self::StatusBits => 4,
            Self::Object(_) | Self::Again(_) | Self::Framed(_) | Self::Loop { .. } => 2,
            Self::ObjectBits => 10,
            Self::Skipped(_) => 6,
            Self::Text | Self::TString | Self::Counted { flagged: true, .. } => 1,
            // Objects of classes without members take no bytes; their count is checked elsewhere.
            Self::Fixed { size, item } => item.least_bytes().saturating_mul(*size),
            Self::Record(record) => {
                record.steps.iter().map(|s| s.kind.least_bytes()).fold(0, usize::saturating_add)
            }
            _ => self.fixed_bytes().unwrap_or(0),
        }
    }

    /// Returns the column type, or the error if there is none.
    pub fn type_of(&self) -> Result<Type> {
        let record = |name: &str, fields: &[(&str, Type)]| Type::Record {
            name: name.to_owned(),
            fields: fields.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect(),
        };
        Ok(match self {
            Self::Number(number) => Type::Number(*number),
            Self::Packed(packing) => Type::Number(packing.number()),
            Self::Fixed { size, item } => Type::FixedList { size: *size, item: Box::new(item.type_of()?) },
            Self::Counted { rows: Some(size), item, .. } => {
                Type::FixedList { size: *size, item: Box::new(Type::List(Box::new(item.type_of()?))) }
            }
            Self::Counted { item, .. } | Self::Loop { item, .. } | Self::List(item) => {
                Type::List(Box::new(item.type_of()?))
            }
            Self::Text | Self::TString | Self::LeafText | Self::LongText => Type::Text,
            Self::Bits => Type::List(Box::new(Type::Number(Number::Bool))),
            Self::Map(key, value) => {
                Type::List(Box::new(record("", &[("0", key.type_of()?), ("1", value.type_of()?)])))
            }
            Self::Framed(inner) | Self::Named(inner) => inner.type_of()?,
            Self::Record(record) | Self::Rows(record, _) => record.type_of()?,
            Self::Object(class) | Self::Top(class) => class.first()?.record.type_of()?,
            Self::Reference => record("TRef", &[("ref", Type::Number(Number::U32))]),
            Self::StatusBits => Type::Number(Number::U32),
            Self::ObjectBits => record(
                "TObject",
                &[("fUniqueID", Type::Number(Number::U32)), ("fBits", Type::Number(Number::U32))],
            ),
            Self::Opaque(name, fields) => Type::Record {
                name: name.to_string(),
                fields: fields.iter().map(|(name, number)| (name.clone(), Type::Number(*number))).collect(),
            },
            Self::Pointer | Self::Again(_) => Type::Dynamic,
            Self::Collection(Collection::Map) => {
                Type::List(Box::new(record("", &[("0", Type::Dynamic), ("1", Type::Dynamic)])))
            }
            Self::Clones | Self::Collection(_) => Type::List(Box::new(Type::Dynamic)),
            Self::References => record(
                "TRefArray",
                &[
                    ("fName", Type::Text),
                    ("fSize", Type::Number(Number::I32)),
                    ("refs", Type::List(Box::new(Type::Number(Number::I32)))),
                ],
            ),
            Self::Unreadable(why) => return Err(Error::unsupported(why.to_string())),
            Self::Skipped(skipped) => return Err(Error::unsupported(skipped.why.clone())),
        })
    }

    /// Returns the reason why it cannot be decoded, if any.
    pub(super) fn problem(&self) -> Option<&str> {
        match self {
            Self::Unreadable(why) => Some(why),
            Self::Fixed { item, .. } | Self::Counted { item, .. } | Self::Loop { item, .. } => item.problem(),
            Self::List(inner) | Self::Framed(inner) | Self::Named(inner) => inner.problem(),
            Self::Map(key, value) => key.problem().or_else(|| value.problem()),
            Self::Record(record) => record.problem(),
            Self::Object(class) | Self::Top(class) => class.versions.first()?.record.problem(),
            _ => None,
        }
    }
}

impl Step {
    /// Returns the class of a base whose fields become fields of the record.
    fn flattened(&self) -> Option<&Arc<Class>> {
        match &self.kind {
            Kind::Object(class) if self.base => Some(class),
            _ => None,
        }
    }
}

impl Record {
    /// Creates a record of steps, in order.
    pub fn new(name: impl Into<String>, steps: impl IntoIterator<Item = (String, bool, Kind)>) -> Self {
        let mut record = Self { name: name.into(), steps: Vec::new(), fields: 0, problem: None };
        for (name, base, kind) in steps {
            record.push(name, base, kind);
        }
        record
    }
    pub(super) fn push(&mut self, name: String, base: bool, kind: Kind) {
        if self.problem.is_none() {
            self.problem =
                kind.problem().map(|why| format!("{why} (in member {name} of {})", self.name).into());
        }
        let step = Step { name, base, whole: false, version: 0, field: self.fields, kind };
        self.fields += match (&step.kind, step.flattened()) {
            (_, Some(class)) => class.versions.first().map_or(0, |v| v.record.fields),
            (Kind::ObjectBits | Kind::Opaque(..), _) if base => 0,
            (Kind::Skipped(_), _) => 0,
            _ => 1,
        };
        self.steps.push(step);
    }
    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
    /// Returns the field of a member, for counters.
    pub(super) fn field_of(&self, name: &str) -> Option<usize> {
        self.steps.iter().find_map(|s| match s.flattened() {
            None if !s.base && s.name == name && !matches!(s.kind, Kind::Skipped(_)) => Some(s.field),
            Some(class) => class.versions.first().and_then(|v| v.record.field_of(name)).map(|f| f + s.field),
            None => None,
        })
    }
    fn type_of(&self) -> Result<Type> {
        let mut fields = Vec::with_capacity(self.fields);
        self.add_fields(&mut fields)?;
        Ok(Type::Record { name: self.name.clone(), fields })
    }
    fn add_fields(&self, fields: &mut Vec<(String, Type)>) -> Result<()> {
        for step in &self.steps {
            match (&step.kind, step.flattened()) {
                (_, Some(class)) => class.first()?.record.add_fields(fields)?,
                (Kind::ObjectBits | Kind::Opaque(..), _) if step.base => {}
                (Kind::Skipped(_), _) => {}
                (kind, _) => {
                    let found = kind.type_of().within(|| format!("member {} of {}", step.name, self.name))?;
                    // The numbers of a `TArray` base.
                    let name = if step.base { "fArray" } else { step.name.as_str() };
                    fields.push((name.to_owned(), found));
                }
            }
        }
        Ok(())
    }
}

impl Class {
    /// Returns the version whose members define the fields.
    pub fn first(&self) -> Result<&Version> {
        self.versions.first().ok_or_else(|| unknown_class(&self.name))
    }
}

/// Returns an array of fixed dimensions.
pub fn fixed(dims: &[usize], item: Kind) -> Kind {
    dims.iter().rev().fold(item, |item, &size| Kind::Fixed { size, item: Box::new(item) })
}

/// Returns an undecodable kind with the reason.
pub fn unreadable(why: impl Into<Arc<str>>) -> Kind {
    Kind::Unreadable(why.into())
}
