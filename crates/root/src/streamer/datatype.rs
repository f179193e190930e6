//! Types of data to be written, and the C++ types that they become.

use super::declare::{Class, Shape};
use crate::array::Number;
use crate::error::{Error, Result};
use std::collections::HashMap;

/// The type of data: either the native type of the data, or a requested C++ type.
#[derive(Debug, Clone, PartialEq)]
pub enum DataType {
    /// A number.
    Number(Number),
    /// A string.
    Text,
    /// A C++ type.
    Shape(Shape),
    /// Lists of fixed size.
    FixedList(usize, Box<Self>),
    /// Lists of variable size.
    List(Box<Self>),
    /// Keys and values.
    Map(Box<Self>, Box<Self>),
    /// A class name, which may be empty, and fields.
    Record(String, Vec<(String, Self)>),
    /// Optional values.
    Option(Box<Self>),
    /// Values of several types.
    Union(Vec<Self>),
    /// A type that only the data determine, or that is not known at all.
    Unknown,
}

/// Class names and versions of records, by their field names joined by dots.
pub type ClassNames = HashMap<String, (String, i16)>;

impl DataType {
    /// Word for such data in errors.
    const fn word(&self) -> &'static str {
        match self {
            Self::Number(_) => "numbers",
            Self::Text => "strings",
            Self::Shape(_) => "values of this type",
            Self::FixedList(..) => "arrays of these values",
            Self::List(_) => "lists of these values",
            Self::Map(..) => "maps",
            Self::Record(..) => "records",
            Self::Option(_) => "missing values",
            Self::Union(_) => "values of several types",
            Self::Unknown => "values of unknown type",
        }
    }

    /// Returns the error for a field whose data no C++ type can hold.
    pub fn refused(&self, name: &str) -> Error {
        Error::unsupported(format!("field '{name}': {} cannot be written", self.word()))
    }

    /// Returns the fixed dimensions and the element type.
    pub fn dims(&self) -> (Vec<usize>, &Self) {
        let (mut dims, mut inner) = (Vec::new(), self);
        while let Self::FixedList(size, item) = inner {
            dims.push(*size);
            inner = item;
        }
        (dims, inner)
    }

    /// Returns the C++ type for a field of this name. The class of a record comes from `classes`, from the record
    /// itself, or from the field name, in this order. With `nameless`, a record that is not in `classes` has no class,
    /// where the format allows this.
    pub fn shape(&self, name: &str, classes: &ClassNames, nameless: bool) -> Result<Shape> {
        let inside = |item: &Self| item.shape(name, classes, false).map(Box::new);
        Ok(match self {
            Self::Shape(shape) => shape.clone(),
            Self::Number(number) => Shape::Number(*number),
            Self::Text => Shape::Text,
            Self::FixedList(size, item) => Shape::Array(*size, inside(item)?),
            Self::Option(item) => Shape::Optional(inside(item)?),
            Self::Union(items) => {
                let items = items.iter().enumerate().map(|(i, item)| {
                    // A variant can be empty by itself.
                    let item = if let Self::Option(inner) = item { inner } else { item };
                    item.shape(&format!("{name}.{i}"), classes, false)
                });
                Shape::Variant(items.collect::<Result<_>>()?)
            }
            Self::Map(key, value) => Shape::Map(inside(key)?, inside(value)?),
            Self::List(item) => {
                if let (Self::FixedList(size, _), false) = (&**item, nameless) {
                    return Err(Error::unsupported(format!(
                        "field '{name}': a vector cannot hold arrays of {size} elements"
                    )));
                }
                Shape::Vector(Box::new(item.shape(name, classes, nameless)?))
            }
            Self::Record(own, fields) => {
                let (class, version) = classes.get(name).cloned().unwrap_or_else(|| match own.as_str() {
                    _ if nameless => (String::new(), 1),
                    "" => (class_name(name), 1),
                    own => (own.to_owned(), 1),
                });
                let free = nameless && class.is_empty();
                let members = fields.iter().map(|(field, item)| {
                    Ok((field.clone(), item.shape(&format!("{name}.{field}"), classes, free)?))
                });
                Shape::Class(Class { name: class, version, members: members.collect::<Result<_>>()? })
            }
            Self::Unknown => return Err(self.refused(name)),
        })
    }
}

/// Converts a name to a class name: its words, each with a capital letter.
fn class_name(name: &str) -> String {
    let mut found = String::new();
    for word in name.split(|c: char| !c.is_alphanumeric() && c != '_') {
        let mut letters = word.chars();
        found.extend(letters.next().into_iter().flat_map(char::to_uppercase));
        found.push_str(letters.as_str());
    }
    if found.is_empty() { "Record".into() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(fields: &[(&str, DataType)]) -> DataType {
        DataType::Record(
            String::new(),
            fields.iter().map(|(name, kind)| ((*name).to_owned(), kind.clone())).collect(),
        )
    }

    #[test]
    fn records_have_the_class_that_is_given_or_are_called_after_their_field() {
        let kind = record(&[("in_side", record(&[("x", DataType::Number(Number::I32))]))]);
        let class_of = |shape: &Shape| match shape {
            Shape::Class(class) => (class.name.clone(), class.version, class.members.clone()),
            other => panic!("{other:?}"),
        };
        let none = ClassNames::new();
        let (name, version, members) = class_of(&kind.shape("my-event", &none, false).unwrap());
        assert_eq!((name.as_str(), version), ("MyEvent", 1));
        assert_eq!(class_of(&members[0].1).0, "MyEventIn_side");
        let classes = ClassNames::from([("e.in_side".into(), ("Inner".into(), 3))]);
        let (name, _, members) = class_of(&kind.shape("e", &classes, true).unwrap());
        assert_eq!(name, "");
        let (name, version, _) = class_of(&members[0].1);
        assert_eq!((name.as_str(), version), ("Inner", 3));
        assert_eq!(class_of(&record(&[]).shape("?", &none, false).unwrap()).0, "Record");
    }

    #[test]
    fn vectors_hold_no_arrays_except_in_rntuples() {
        let item = DataType::FixedList(3, Box::new(DataType::Number(Number::F32)));
        let kind = DataType::List(Box::new(item));
        assert!(kind.shape("x", &ClassNames::new(), false).is_err());
        assert_eq!(kind.shape("x", &ClassNames::new(), true).unwrap().cpp(), "vector<float[3]>");
    }
}
