//! Values and objects, and how their parts are found.

use super::super::info::StreamerInfo;
use super::super::name::Name;
use crate::array::Number;
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

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
    /// Numbers of one type, native byte order.
    Numbers(Number, Vec<u8>),
    /// The same with several dimensions, the outermost first.
    Array(Box<(Number, Vec<u8>, Vec<usize>)>),
    /// Elements of a container or array.
    List(Vec<Value>),
    /// Keys and values of a map, in the order of the file.
    Map(Vec<(Value, Value)>),
    /// A `std::pair`.
    Pair(Box<(Value, Value)>),
    /// An object; shared if several pointers refer to it.
    Object(SharedObject),
    /// A pointer to an object that is still being read, or was never read: its [`Object::reference`].
    Seen(u64),
    /// Unreadable, with the reason.
    Unreadable(Error),
}

/// The value in messages: numbers and texts as they are, of everything else what it is.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::UInt(value) => value.fmt(f),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Numbers(number, _) => write!(f, "an array of {}", number.dtype()),
            Self::Array(array) => write!(f, "an array of {}", array.0.dtype()),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a map"),
            Self::Pair(_) => f.write_str("a pair"),
            Self::Object(object) => write!(f, "a {}", object.class),
            Self::Seen(_) => f.write_str("a pointer"),
            Self::Unreadable(_) => f.write_str("an unreadable value"),
        }
    }
}

/// An object that several values may share. Chains of them have any length, so they are freed without recursion.
#[derive(Debug, Clone)]
pub struct SharedObject(Option<Arc<Object>>);

/// The object in place of one that is being freed.
static FREED: LazyLock<Arc<Object>> = LazyLock::new(Arc::default);

impl SharedObject {
    /// Returns the object if nothing else shares it.
    fn into_inner(mut self) -> Option<Object> {
        self.0.take().and_then(Arc::into_inner)
    }
}

impl From<Object> for SharedObject {
    fn from(object: Object) -> Self {
        Self(Some(Arc::new(object)))
    }
}

impl From<Arc<Object>> for SharedObject {
    fn from(object: Arc<Object>) -> Self {
        Self(Some(object))
    }
}

impl Deref for SharedObject {
    type Target = Arc<Object>;
    fn deref(&self) -> &Arc<Object> {
        self.0.as_ref().unwrap_or(&FREED)
    }
}

impl Drop for SharedObject {
    fn drop(&mut self) {
        let Some(object) = self.0.take().and_then(Arc::into_inner).filter(Object::holds_values) else {
            return;
        };
        let mut left = vec![object];
        while let Some(mut object) = left.pop() {
            for base in object.bases.drain(..) {
                free_later(Arc::into_inner(base), &mut left);
            }
            for (_, value) in object.members.drain(..) {
                free_value(value, &mut left);
            }
        }
    }
}

/// Moves an object to those that are freed next. Without memory for that it is freed now.
fn free_later(object: Option<Object>, left: &mut Vec<Object>) {
    if let Some(object) = object
        && left.try_reserve(1).is_ok()
    {
        left.push(object);
    }
}

fn free_value(value: Value, left: &mut Vec<Object>) {
    match value {
        Value::Object(object) => free_later(object.into_inner(), left),
        Value::List(items) => items.into_iter().for_each(|item| free_value(item, left)),
        Value::Map(pairs) => pairs.into_iter().for_each(|(key, value)| {
            free_value(key, left);
            free_value(value, left);
        }),
        Value::Pair(pair) => {
            let (first, second) = *pair;
            free_value(first, left);
            free_value(second, left);
        }
        _ => {}
    }
}

/// An object: its class, its bases and its own members.
#[derive(Debug, Clone, Default)]
pub struct Object {
    /// Class name.
    pub class: Name,
    /// Class version of the stored object.
    pub version: i32,
    /// Objects of the base classes, in order.
    pub bases: Vec<Arc<Object>>,
    /// Own members, in order.
    pub members: Vec<(Name, Value)>,
    /// Reference used by pointers to it; 0 for an object that was not read through a pointer.
    pub reference: u64,
    /// Position of its bytes, in reference numbering, and their number.
    pub place: (u64, u64),
    /// Reason why the object, or the rest of it, could not be read; its bytes were skipped.
    pub unreadable: Option<Error>,
    /// Members lost because they follow an unreadable one: all of the class from this index on.
    pub lost: Option<(Arc<StreamerInfo>, usize)>,
}

impl Object {
    /// Returns a member of the object itself.
    pub fn own(&self, name: &str) -> Option<&Value> {
        self.members.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }
    /// Whether the object itself has a member, including a lost one.
    pub fn has(&self, name: &str) -> bool {
        self.own(name).is_some() || self.lost().any(|lost| lost == name)
    }
    /// Returns a member of the object or of its bases.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.own(name).or_else(|| self.bases.iter().find_map(|b| b.get(name)))
    }
    /// Whether it or a base has members that may hold objects.
    fn holds_values(&self) -> bool {
        let holds = |value: &Value| {
            matches!(value, Value::Object(_) | Value::List(_) | Value::Map(_) | Value::Pair(_))
        };
        self.members.iter().any(|(_, value)| holds(value))
            || self.bases.iter().any(|base| base.holds_values())
    }
    /// Keeps only these members, of the object and of its bases.
    pub(super) fn keep(&mut self, names: &[&str]) {
        for base in std::mem::take(&mut self.bases) {
            let mut base = Arc::unwrap_or_clone(base);
            base.keep(names);
            self.members.append(&mut base.members);
            self.unreadable = self.unreadable.take().or(base.unreadable);
        }
        self.members.retain(|(name, _)| names.contains(&&**name));
        self.members.shrink_to_fit();
    }
    /// Returns an integer member.
    pub fn int(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Int(v) => Some(*v),
            Value::UInt(v) => i64::try_from(*v).ok(),
            Value::Bool(v) => Some(i64::from(*v)),
            _ => None,
        }
    }
    /// Returns a string member.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            Value::Text(v) => Some(v),
            _ => None,
        }
    }
    /// Returns the elements of a container member, or of a member that is a ROOT collection.
    pub fn list(&self, name: &str) -> &[Value] {
        match self.get(name) {
            Some(Value::List(items)) => items,
            Some(Value::Object(o)) => o.items(),
            _ => &[],
        }
    }
    /// Returns the elements if the object itself is a collection.
    pub fn items(&self) -> &[Value] {
        match self.members.iter().find(|(n, _)| n == ITEMS) {
            Some((_, Value::List(items))) => items,
            _ => &[],
        }
    }
    /// Returns the integers of an array member.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        match self.get(name) {
            Some(Value::Numbers(number, bytes)) => integers(*number, bytes),
            _ => Vec::new(),
        }
    }
    /// Iterates over the names of the members and bases after an unreadable one.
    pub fn lost(&self) -> impl Iterator<Item = &Name> {
        let lost = self.lost.iter().flat_map(|(info, from)| info.elements.iter().skip(*from));
        lost.map(|element| &element.name)
    }
    /// Whether it is of a class or derives from it.
    pub fn is(&self, class: &str) -> bool {
        self.class == class || self.bases.iter().any(|b| b.is(class))
    }
    /// Returns the unreadable parts of it and of everything in it: the path of members, and the error.
    pub fn problems(&self) -> Result<Vec<(String, Error)>> {
        let mut walk = Problems { path: Vec::new(), visited: HashSet::new(), found: Vec::new() };
        walk.object(self)?;
        Ok(walk.found)
    }
}

/// Maximum number of objects inside each other that are searched. Objects are read to a smaller depth; only pointers to
/// objects in an unreadable member lead further.
const DEEPEST_SEARCH: usize = 1000;

/// Collects unreadable parts.
struct Problems {
    path: Vec<String>,
    visited: HashSet<u64>,
    found: Vec<(String, Error)>,
}

impl Problems {
    fn object(&mut self, object: &Object) -> Result<()> {
        if self.path.len() > DEEPEST_SEARCH
            || object.reference != 0 && !grow::insert(&mut self.visited, object.reference)?
        {
            return Ok(());
        }
        let before = self.found.len();
        for base in &object.bases {
            self.object(base)?;
        }
        for (name, value) in &object.members {
            self.path.push(if name == ITEMS { String::new() } else { format!(".{name}") });
            self.value(value)?;
            self.path.pop();
        }
        if let Some(error) = &object.unreadable
            && self.found.len() == before
        {
            self.found.try_push((self.path.concat(), error.clone()))?;
        }
        Ok(())
    }
    fn value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Unreadable(error) => self.found.try_push((self.path.concat(), error.clone())),
            Value::Object(object) => self.object(object),
            Value::Pair(pair) => {
                self.value(&pair.0)?;
                self.value(&pair.1)
            }
            Value::List(items) => self.items(items.iter()),
            Value::Map(pairs) => self.items(pairs.iter().flat_map(|(k, v)| [k, v])),
            _ => Ok(()),
        }
    }
    fn items<'v>(&mut self, items: impl Iterator<Item = &'v Value>) -> Result<()> {
        for (i, item) in items.enumerate() {
            self.path.push(format!("[{i}]"));
            self.value(item)?;
            self.path.pop();
        }
        Ok(())
    }
}

/// Name of the member that holds the elements of `TList`, `TObjArray`, `TClonesArray`, …
pub const ITEMS: &str = "@items";
/// Name of the member that holds the option of each element in a `TList`.
pub const OPTIONS: &str = "@options";

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an object with two pointers to the one before, which has two to the one before it, and so on.
    fn chain(length: u64) -> SharedObject {
        let mut last = SharedObject::from(Object::default());
        for reference in 2..length {
            let members = ["a", "b"].map(|name| (name.into(), Value::Object(last.clone())));
            let items = Value::List(vec![Value::Pair(Box::new((Value::Object(last), Value::Null)))]);
            let members = members.into_iter().chain([("c".into(), items)]).collect();
            last = SharedObject::from(Object { members, reference, ..Object::default() });
        }
        last
    }

    #[test]
    fn chains_of_objects_are_freed_without_recursion() {
        drop(chain(1_000_000));
        let kept = chain(1_000_000);
        let inner = kept.get("a").cloned();
        drop(kept);
        assert!(matches!(inner, Some(Value::Object(object)) if object.reference == 999_998));
    }

    #[test]
    fn the_search_for_unreadable_parts_ends() {
        assert!(chain(100_000).problems().unwrap().is_empty());
    }
}
