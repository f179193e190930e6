//! Objects to bytes: streamer infos themselves, and any object whose class has one.

use super::builtin::BUILTIN;
use super::info::{Element, ElementClass, StreamerInfo};
use crate::error::{Error, Result, Within};
use crate::wire::writer::Writer;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A member's value. Numbers take the form that the class asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A pointer to nothing, or whatever a fresh object has.
    Null,
    /// An integer or a bool.
    Int(i64),
    /// A real number.
    Float(f64),
    /// Text.
    Text(String),
    /// Integers.
    Ints(Vec<i64>),
    /// Real numbers.
    Floats(Vec<f64>),
    /// An object, embedded or behind a pointer.
    Object(Object),
    /// The objects of a collection.
    List(Vec<Object>),
}

/// A class and the members that differ from zero, those of bases included. An array that is a base (`TArrayD` of a
/// `TH1D`) goes by its class name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Object {
    /// Class name.
    pub class: String,
    /// Members by ROOT's names.
    pub members: HashMap<String, Value>,
}

/// The infos of the classes named, and of all that their bases and members name.
pub fn with_dependencies<'a>(classes: impl IntoIterator<Item = &'a str>) -> Vec<Arc<StreamerInfo>> {
    let mut wanted: Vec<String> = classes.into_iter().map(str::to_owned).collect();
    wanted.reverse();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    while let Some(name) = wanted.pop() {
        let Some(info) = BUILTIN.latest(&name) else { continue };
        if !seen.insert(name) {
            continue;
        }
        found.push(Arc::clone(info));
        wanted.extend(info.elements.iter().rev().filter_map(class_of).map(str::to_owned));
    }
    found
}

/// The class of a base or of a member that is an object.
fn class_of(e: &Element) -> Option<&str> {
    match e.class {
        ElementClass::Base => Some(&e.name),
        ElementClass::Object
        | ElementClass::ObjectAny
        | ElementClass::ObjectPointer
        | ElementClass::ObjectAnyPointer => Some(e.typename.trim_end_matches('*')),
        ElementClass::String => Some("TString"),
        _ => None,
    }
}

/// The object of the record `StreamerInfo`: a `TList` of `TStreamerInfo`.
pub fn encode_infos(infos: &[Arc<StreamerInfo>], displacement: usize) -> Result<Vec<u8>> {
    let mut w = Writer::new(displacement);
    let list = w.open(5);
    w.object(0, 0);
    w.string("");
    w.put(infos.len() as u32);
    for info in infos {
        let (pointer, _) = w.open_pointer("TStreamerInfo");
        encode_info(&mut w, info).within(|| format!("class {}", info.name))?;
        w.close(pointer)?;
        w.put(0_u8);
    }
    w.close(list)?;
    Ok(w.into_bytes())
}

fn encode_info(w: &mut Writer, info: &StreamerInfo) -> Result<()> {
    /// `TVirtualStreamerInfo::kCanDelete`'s place in `fBits` as ROOT leaves it in files.
    const BITS: u32 = 0x0001_0000;
    let frame = w.open(10);
    w.named(&info.name, &info.title, BITS)?;
    w.put(info.checksum);
    w.put(info.version);
    let (pointer, _) = w.open_pointer("TObjArray");
    let array = open_array(w, info.elements.len());
    for e in &info.elements {
        let (pointer, _) = w.open_pointer(e.class.name());
        encode_element(w, e)?;
        w.close(pointer)?;
    }
    w.close(array)?;
    w.close(pointer)?;
    w.close(frame)
}

/// Starts a `TObjArray` of that many pointers.
pub fn open_array(w: &mut Writer, length: usize) -> crate::wire::writer::Frame {
    let frame = w.open(3);
    w.object(0, 0);
    w.string("");
    w.put(length as u32);
    w.put(0_u32);
    frame
}

fn encode_element(w: &mut Writer, e: &Element) -> Result<()> {
    use ElementClass as C;
    let outer = w.open(match e.class {
        C::Base | C::Stl => 3,
        C::Artificial => 1,
        _ => 2,
    });
    let middle = (e.class == C::StlString).then(|| w.open(3));
    let inner = w.open(4);
    w.named(&e.name, &e.title, 0)?;
    w.put_all([e.kind, e.size, e.array_length, e.array_dim]);
    w.put_all(e.max_index);
    w.string(&e.typename);
    w.close(inner)?;
    match e.class {
        C::Base => w.put(e.base_version),
        C::BasicPointer | C::Loop => {
            w.put(e.count_version);
            w.string(&e.count_name);
            w.string(&e.count_class);
        }
        C::Stl | C::StlString => w.put_all([e.stl_type, e.ctype]),
        _ => {}
    }
    if let Some(middle) = middle {
        w.close(middle)?;
    }
    w.close(outer)
}

/// The bytes of an object as its key holds them; `displacement` is the key's length.
pub fn encode_object(object: &Object, displacement: usize) -> Result<Vec<u8>> {
    let mut w = Writer::new(displacement);
    encode_members(&mut w, &object.class, &object.members)?;
    Ok(w.into_bytes())
}

/// Every class that an object brings along: its own and those of the objects it points to.
pub fn classes_of(object: &Object, into: &mut Vec<String>) {
    if !into.contains(&object.class) {
        into.push(object.class.clone());
    }
    for value in object.members.values() {
        match value {
            Value::Object(inner) => classes_of(inner, into),
            Value::List(items) => items.iter().for_each(|inner| classes_of(inner, into)),
            _ => {}
        }
    }
}

type Members = HashMap<String, Value>;

/// Streams an object of a class. Classes that ROOT streams by hand come first, all others follow their info.
fn encode_members(w: &mut Writer, class: &str, members: &Members) -> Result<()> {
    match class {
        "TObject" => {
            let get = |name: &str| match members.get(name) {
                Some(Value::Int(bits)) => Some(*bits as u32),
                _ => None,
            };
            w.object(get("fUniqueID").unwrap_or(0), get("fBits").unwrap_or(0));
            return Ok(());
        }
        "TString" => {
            w.string(text(class, members.get("TString").unwrap_or(&Value::Null))?);
            return Ok(());
        }
        "TDatime" => {
            encode_number(w, 13, members.get("fDatime").unwrap_or(&Value::Null))?;
            return Ok(());
        }
        "TList" | "THashList" => {
            let items = list(class, members.get(class).unwrap_or(&Value::Null))?;
            let frame = w.open(5);
            encode_members(w, "TObject", members)?;
            w.string("");
            w.put(items.len() as u32);
            for item in items {
                encode_pointer(w, item)?;
                w.put(0_u8);
            }
            return w.close(frame);
        }
        "TObjArray" => {
            let items = list(class, members.get(class).unwrap_or(&Value::Null))?;
            let frame = open_array(w, items.len());
            for item in items {
                encode_pointer(w, item)?;
            }
            return w.close(frame);
        }
        _ => {}
    }
    if let Some(kind) = array_kind(class) {
        return encode_array(w, kind, members.get(class).unwrap_or(&Value::Null)).within(|| class.to_owned());
    }
    let info = BUILTIN
        .latest(class)
        .ok_or_else(|| Error::unsupported(format!("class {class} is not among the classes that can be written")))?;
    let frame = w.open(info.version as i16);
    for e in &info.elements {
        encode_member(w, info, e, members).within(|| format!("member {} of {class}", e.name))?;
    }
    w.close(frame)
}

fn encode_pointer(w: &mut Writer, object: &Object) -> Result<()> {
    let (pointer, _) = w.open_pointer(&object.class);
    encode_members(w, &object.class, &object.members)?;
    w.close(pointer)
}

/// Element code of the `TArray` classes, which have neither byte count nor version.
fn array_kind(class: &str) -> Option<i32> {
    Some(match class {
        "TArrayC" => 1,
        "TArrayS" => 2,
        "TArrayI" => 3,
        "TArrayL" | "TArrayL64" => 16,
        "TArrayF" => 5,
        "TArrayD" => 8,
        _ => return None,
    })
}

fn encode_array(w: &mut Writer, kind: i32, value: &Value) -> Result<()> {
    w.put(length(value)? as u32);
    encode_numbers(w, kind, value)
}

fn encode_member(w: &mut Writer, info: &StreamerInfo, e: &Element, members: &Members) -> Result<()> {
    let value = members.get(&e.name).unwrap_or(&Value::Null);
    match e.class {
        ElementClass::Base => encode_members(w, &e.name, members),
        ElementClass::String => {
            w.string(text(&e.name, value)?);
            Ok(())
        }
        ElementClass::BasicType => {
            if e.array_length > 0 {
                if *value == Value::Null {
                    return encode_numbers(w, e.kind - 20, &Value::Ints(vec![0; e.array_length as usize]));
                }
                if length(value)? != e.array_length as usize {
                    return Err(Error::argument(format!("{} values where {} belong", length(value)?, e.array_length)));
                }
                return encode_numbers(w, e.kind - 20, value);
            }
            let counted = info.elements.iter().find(|a| a.class == ElementClass::BasicPointer && a.count_name == e.name);
            match (value, counted.and_then(|a| members.get(&a.name))) {
                (Value::Null, Some(array)) => encode_number(w, e.kind, &Value::Int(length(array)? as i64)),
                _ => encode_number(w, e.kind, value),
            }
        }
        ElementClass::BasicPointer => {
            let count = match members.get(&e.count_name) {
                Some(Value::Int(count)) => *count as usize,
                _ => length(value)?,
            };
            if length(value)? != count {
                return Err(Error::argument(format!("{} values where {} says {count}", length(value)?, e.count_name)));
            }
            w.put(u8::from(count > 0));
            encode_numbers(w, e.kind - 40, value)
        }
        ElementClass::Object | ElementClass::ObjectAny => encode_embedded(w, e, value),
        // "->" in the comment: never null, so it is streamed in place.
        ElementClass::ObjectPointer | ElementClass::ObjectAnyPointer if matches!(e.kind, 63 | 68) => {
            encode_embedded(w, e, value)
        }
        ElementClass::ObjectPointer | ElementClass::ObjectAnyPointer => match value {
            Value::Null => {
                w.null();
                Ok(())
            }
            Value::Object(object) => encode_pointer(w, object),
            other => Err(Error::argument(format!("{other:?} is not an object"))),
        },
        _ if *value == Value::Null && e.class == ElementClass::Stl => {
            // An empty container: byte count, version of the class ROOT has for it, no elements.
            let frame = w.open(9);
            w.put(0_u32);
            w.close(frame)
        }
        _ => Err(Error::unsupported(format!("a member of type {} cannot be written", e.typename))),
    }
}

fn encode_embedded(w: &mut Writer, e: &Element, value: &Value) -> Result<()> {
    let class = e.typename.trim_end_matches('*');
    match value {
        Value::Object(object) => encode_members(w, class, &object.members),
        Value::Null => encode_members(w, class, &Members::new()),
        // Arrays and collections need no object around their elements.
        other => encode_members(w, class, &Members::from([(class.to_owned(), other.clone())])),
    }
}

fn text<'a>(name: &str, value: &'a Value) -> Result<&'a str> {
    match value {
        Value::Text(text) => Ok(text),
        Value::Null => Ok(""),
        other => Err(Error::argument(format!("{name} is a text, not {other:?}"))),
    }
}

fn list<'a>(name: &str, value: &'a Value) -> Result<&'a [Object]> {
    match value {
        Value::List(items) => Ok(items),
        Value::Null => Ok(&[]),
        other => Err(Error::argument(format!("{name} is a list of objects, not {other:?}"))),
    }
}

fn length(value: &Value) -> Result<usize> {
    match value {
        Value::Ints(values) => Ok(values.len()),
        Value::Floats(values) => Ok(values.len()),
        Value::Null => Ok(0),
        other => Err(Error::argument(format!("{other:?} is not an array"))),
    }
}

/// Appends an array without its length.
fn encode_numbers(w: &mut Writer, kind: i32, values: &Value) -> Result<()> {
    match values {
        Value::Ints(values) => values.iter().try_for_each(|v| encode_number(w, kind, &Value::Int(*v))),
        Value::Floats(values) => values.iter().try_for_each(|v| encode_number(w, kind, &Value::Float(*v))),
        _ => Ok(()),
    }
}

/// Appends one number as the type code (`fType`) of its member asks.
fn encode_number(w: &mut Writer, kind: i32, value: &Value) -> Result<()> {
    let (int, float) = match value {
        Value::Null => (0, 0.0),
        Value::Int(i) => (*i, *i as f64),
        Value::Float(f) => (*f as i64, *f),
        other => return Err(Error::argument(format!("{other:?} is not a number"))),
    };
    let fits = |min: i64, max: i64| {
        let whole = matches!(value, Value::Int(_) | Value::Null) || float.to_bits() == (int as f64).to_bits();
        if whole && (min..=max).contains(&int) {
            Ok(int)
        } else {
            Err(Error::argument(format!("{value:?} does not fit a whole number from {min} to {max}")))
        }
    };
    match kind {
        1 => w.put(fits(i64::from(i8::MIN), i64::from(i8::MAX))? as i8),
        2 => w.put(fits(i64::from(i16::MIN), i64::from(i16::MAX))? as i16),
        3 | 6 => w.put(fits(i64::from(i32::MIN), i64::from(i32::MAX))? as i32),
        4 | 16 => w.put(fits(i64::MIN, i64::MAX)?),
        // A Double32_t without a range (9) is a float.
        5 | 9 => w.put(float as f32),
        8 => w.put(float),
        11 => w.put(fits(0, i64::from(u8::MAX))? as u8),
        12 => w.put(fits(0, i64::from(u16::MAX))? as u16),
        13 | 15 => w.put(fits(0, i64::from(u32::MAX))? as u32),
        14 | 17 => w.put(fits(0, i64::MAX)? as u64),
        18 => w.put(fits(0, 1)? as u8),
        other => return Err(Error::unsupported(format!("a number of type code {other} cannot be written"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streamer::Classes;

    #[test]
    fn infos_come_back_as_they_were() {
        let infos = with_dependencies(["TTree", "TLeafI", "TH3D", "TProfile", "TGraphAsymmErrors"]);
        let names: Vec<&str> = infos.iter().map(|i| i.name.as_str()).collect();
        for name in ["TTree", "TBranchRef", "TRefTable", "TH1", "TAxis", "THashList", "TString", "ROOT::TIOFeatures"] {
            assert_eq!(names.iter().filter(|n| **n == name).count(), 1, "{name}");
        }
        let bytes = encode_infos(&infos, 64).unwrap();
        let back = Classes::parse(&bytes, 64).unwrap();
        assert_eq!(back.iter().count(), infos.len());
        for (got, want) in back.iter().zip(&infos) {
            assert_eq!(got, want);
        }
    }

    #[test]
    fn members_not_given_are_zero_and_counters_follow_their_arrays() {
        let members = Members::from([
            ("fName".into(), Value::Text("g".into())),
            ("fX".into(), Value::Floats(vec![1.0, 2.0])),
            ("fY".into(), Value::Floats(vec![3.0, 4.0])),
        ]);
        let object = Object { class: "TGraph".into(), members };
        let bytes = encode_object(&object, 0).unwrap();
        let at = bytes.windows(4).position(|w| w == [0, 0, 0, 2]).unwrap();
        assert_eq!(bytes[at + 4], 1);
        assert_eq!(bytes[at + 5..at + 13], 1.0_f64.to_be_bytes());
        let mut short = object;
        short.members.insert("fNpoints".into(), Value::Int(3));
        assert!(encode_object(&short, 0).unwrap_err().to_string().contains("fNpoints says 3"));
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        for (kind, value) in [(1, Value::Int(128)), (12, Value::Int(-1)), (3, Value::Float(0.5)), (18, Value::Int(2))] {
            assert!(encode_number(&mut Writer::new(0), kind, &value).is_err(), "{kind} {value:?}");
        }
        let mut w = Writer::new(0);
        encode_number(&mut w, 2, &Value::Float(-2.0)).unwrap();
        assert_eq!(w.bytes(), [0xff, 0xfe]);
    }

    #[test]
    fn unknown_classes_and_members_of_the_wrong_kind_are_refused() {
        let object = Object { class: "Nothing".into(), ..Object::default() };
        assert!(encode_object(&object, 0).unwrap_err().to_string().contains("Nothing"));
        let members = Members::from([("fName".into(), Value::Int(1))]);
        let object = Object { class: "TNamed".into(), members };
        assert!(encode_object(&object, 0).unwrap_err().to_string().contains("member fName of TNamed"));
    }
}
