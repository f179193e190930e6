//! Encoding objects to bytes: streamer infos themselves, and any object whose class has one.

use super::builtin;
use super::info::{Classes, Element, ElementClass, StreamerInfo};
use super::object::{ITEMS, Object, Value};
use super::special;
use crate::array::Number;
use crate::error::{Error, Result, Within};
use crate::wire::grow::{self, Grow};
use crate::wire::swap;
use crate::wire::writer::Writer;
use std::collections::HashSet;
use std::sync::Arc;

/// Returns the infos of the named classes and of all their bases and members.
pub fn with_dependencies<'a>(classes: impl IntoIterator<Item = &'a str>) -> Vec<Arc<StreamerInfo>> {
    let mut wanted: Vec<String> = classes.into_iter().map(str::to_owned).collect();
    wanted.reverse();
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    while let Some(name) = wanted.pop() {
        let Some(info) = builtin::classes().latest(&name) else { continue };
        if !seen.insert(name) {
            continue;
        }
        found.push(Arc::clone(info));
        wanted.extend(info.elements.iter().rev().filter_map(class_of).map(str::to_owned));
    }
    found
}

/// Returns the class of a base, or of a member that is an object.
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

/// Encodes the object of the record `StreamerInfo`: a `TList` of `TStreamerInfo`.
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
    w.into_bytes()
}

/// Appends infos to the entries of an existing object. Its bytes are kept, also those after its last entry.
pub fn append_infos(old: &[u8], infos: &[Arc<StreamerInfo>], displacement: usize) -> Result<Vec<u8>> {
    let corrupt = || Error::corrupt("the streamer info is not a list");
    let mut cursor = crate::wire::Cursor::new(old, displacement as u64);
    let frame = cursor.frame()?;
    cursor.object_bits()?;
    cursor.string()?;
    let place = cursor.pos();
    let count = cursor.u32()? as usize + infos.len();
    let entries_end = Classes::end_of_entries(old, displacement as u64)?;
    let end = frame.end.ok_or_else(corrupt)?;
    let mut w = Writer::new(displacement + entries_end);
    for info in infos {
        let (pointer, _) = w.open_pointer("TStreamerInfo");
        encode_info(&mut w, info).within(|| format!("class {}", info.name))?;
        w.close(pointer)?;
        w.put(0_u8);
    }
    let mut object = grow::copied(old.get(..entries_end).ok_or_else(corrupt)?)?;
    object.try_extend(&w.into_bytes()?)?;
    object.try_extend(old.get(entries_end..end).ok_or_else(corrupt)?)?;
    let bytes = (object.len() - 4) as u32 | 0x4000_0000;
    for (at, value) in [(0, bytes), (place, count as u32)] {
        let word = object.get_mut(at..at + 4).ok_or_else(corrupt)?;
        word.copy_from_slice(&value.to_be_bytes());
    }
    Ok(object)
}

fn encode_info(w: &mut Writer, info: &StreamerInfo) -> Result<()> {
    /// `fBits` with `TVirtualStreamerInfo::kCanDelete`, as ROOT leaves it in files.
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

/// Starts a `TObjArray` with this many pointers.
pub fn open_array(w: &mut Writer, length: usize) -> crate::wire::writer::Frame {
    let frame = w.open(3);
    w.object(0, 0);
    w.string("");
    w.put(length as u32);
    w.put(0_u32);
    frame
}

/// `TStreamerElement::kHasRange`
const HAS_RANGE: u32 = 1 << 6;

fn encode_element(w: &mut Writer, e: &Element) -> Result<()> {
    use ElementClass as C;
    let outer = w.open(match e.class {
        C::Base | C::Stl => 3,
        C::ObjectAnyPointer => 1,
        C::Artificial => 0,
        _ => 2,
    });
    let middle = (e.class == C::StlString).then(|| w.open(3));
    let inner = w.open(4);
    let ranged = matches!(e.kind % 20, 9 | 19) && super::packed::has_range(&e.title);
    w.named(&e.name, &e.title, if ranged { HAS_RANGE } else { 0 })?;
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

/// Returns the bytes of an object as stored in its key; `displacement` is the key's length.
///
/// Members that neither the object nor its bases have get the value of a new object: zero, empty or null. The object
/// may hold all members itself, without objects for its bases. A base that is an array or a collection is then a member
/// with the name of its class (`TArrayD` of a `TH1D`).
pub fn encode_object(object: &Object, displacement: usize) -> Result<Vec<u8>> {
    let mut w = Writer::new(displacement);
    encode_as(&mut w, &object.class, object)?;
    w.into_bytes()
}

/// Collects the classes of an object: its own and those of the objects it points to.
pub fn classes_of(object: &Object, into: &mut Vec<String>) {
    fn of_value(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(inner) => classes_of(inner, into),
            Value::List(items) => items.iter().for_each(|item| of_value(item, into)),
            _ => {}
        }
    }
    if !into.iter().any(|known| object.class == *known) {
        into.push(object.class.to_string());
    }
    object.bases.iter().for_each(|base| classes_of(base, into));
    object.members.iter().for_each(|(_, value)| of_value(value, into));
}

/// Streams an object, or its part for a base class. Classes with hand-written streamers in ROOT come first; all others
/// follow their info.
fn encode_as(w: &mut Writer, class: &str, whole: &Object) -> Result<()> {
    let base = if whole.class == class { None } else { whole.bases.iter().find(|base| base.class == class) };
    let object = base.map_or(whole, Arc::as_ref);
    let own =
        |name: &str| object.get(if object.class == class { name } else { class }).unwrap_or(&Value::Null);
    match class {
        "TObject" => {
            let bits = object.int("@fBits").unwrap_or(0);
            w.object(object.int("fUniqueID").unwrap_or(0) as u32, bits as u32);
            return Ok(());
        }
        "TString" => {
            w.string(text(own("fString"))?);
            return Ok(());
        }
        "TDatime" => return encode_number(w, 13, own("fDatime")),
        special::INDEX => return encode_index(w, object),
        "TList" | "THashList" | "TObjArray" => {
            let items = list(own(ITEMS))?;
            let frame = w.open(if class == "TObjArray" { 3 } else { 5 });
            encode_as(w, "TObject", object)?;
            w.string(if object.class == class { object.text("fName").unwrap_or("") } else { "" });
            w.put(items.len() as u32);
            if class == "TObjArray" {
                w.put(0_u32);
            }
            for item in items {
                encode_pointer(w, item)?;
                if class != "TObjArray" {
                    // No option.
                    w.put(0_u8);
                }
            }
            return w.close(frame);
        }
        _ => {}
    }
    if let Some(number) = Number::of_array(class) {
        return encode_array(w, number, own("fArray")).within(|| class.to_owned());
    }
    let info = builtin::classes().latest(class).ok_or_else(|| {
        Error::unsupported(format!("class {class} is not among the classes that can be written"))
    })?;
    let frame = w.open(info.version as i16);
    for e in &info.elements {
        encode_member(w, info, e, object).within(|| format!("member {} of {class}", e.name))?;
    }
    w.close(frame)
}

/// Writes an index of entries. Its arrays have neither counts of their own nor bytes that say whether they are present.
fn encode_index(w: &mut Writer, object: &Object) -> Result<()> {
    let frame = w.open(2);
    encode_as(w, "TVirtualIndex", object)?;
    for name in ["fMajorName", "fMinorName"] {
        w.string(object.text(name).unwrap_or(""));
    }
    let arrays = ["fIndexValues", "fIndexValuesMinor", "fIndex"];
    let arrays = arrays.map(|name| object.get(name).unwrap_or(&Value::Null));
    let lengths = arrays.iter().map(|values| length(values)).collect::<Result<Vec<_>>>()?;
    let entries = lengths.first().copied().unwrap_or(0);
    if lengths.iter().any(|length| *length != entries) {
        return Err(Error::argument(format!("the arrays of an index have different lengths: {lengths:?}")));
    }
    w.put(entries as i64);
    for values in arrays {
        encode_numbers(w, Number::I64.code(), values)?;
    }
    w.close(frame)
}

/// Appends a pointer: null, or an object.
pub fn encode_pointer(w: &mut Writer, value: &Value) -> Result<()> {
    match value {
        Value::Null => {
            w.null();
            Ok(())
        }
        Value::Object(object) => {
            let (pointer, _) = w.open_pointer(&object.class);
            encode_as(w, &object.class, object)?;
            w.close(pointer)
        }
        other => Err(Error::argument(format!("{other} is not an object"))),
    }
}

fn encode_member(w: &mut Writer, info: &StreamerInfo, e: &Element, object: &Object) -> Result<()> {
    let value = object.get(&e.name).unwrap_or(&Value::Null);
    match e.class {
        ElementClass::Base => encode_as(w, &e.name, object),
        ElementClass::String => {
            w.string(text(value)?);
            Ok(())
        }
        ElementClass::BasicType if e.array_length > 0 => {
            let wanted = e.array_length as usize;
            match length(value)? {
                0 => encode_numbers(w, e.kind - 20, &Value::Numbers(Number::U8, vec![0; wanted])),
                got if got == wanted => encode_numbers(w, e.kind - 20, value),
                got => Err(Error::argument(format!("expected {wanted} values, found {got}"))),
            }
        }
        ElementClass::BasicType => {
            let counted = info
                .elements
                .iter()
                .find(|a| a.class == ElementClass::BasicPointer && e.name == a.count_name);
            match (value, counted.and_then(|array| object.get(&array.name))) {
                (Value::Null, Some(array)) => encode_number(w, e.kind, &Value::Int(length(array)? as i64)),
                _ => encode_number(w, e.kind, value),
            }
        }
        ElementClass::BasicPointer => {
            let got = length(value)?;
            let count = object.int(&e.count_name).map_or(got, |count| count as usize);
            if got != count {
                return Err(Error::argument(format!("found {got} values, but {} is {count}", e.count_name)));
            }
            w.put(u8::from(count > 0));
            encode_numbers(w, e.kind - 40, value)
        }
        ElementClass::Object | ElementClass::ObjectAny => encode_embedded(w, e, value),
        // "->" in the comment: never null, therefore streamed in place.
        ElementClass::ObjectPointer | ElementClass::ObjectAnyPointer if matches!(e.kind, 63 | 68) => {
            encode_embedded(w, e, value)
        }
        ElementClass::ObjectPointer | ElementClass::ObjectAnyPointer => encode_pointer(w, value),
        _ => Err(Error::unsupported(format!("a member of type {} cannot be written", e.typename))),
    }
}

fn encode_embedded(w: &mut Writer, e: &Element, value: &Value) -> Result<()> {
    let class = e.typename.trim_end_matches('*');
    let members = match (value, Number::of_array(class)) {
        (Value::Object(object), _) => return encode_as(w, class, object),
        (Value::Null, _) => Vec::new(),
        // Arrays and collections need no object around their elements.
        (values, Some(number)) => return encode_array(w, number, values).within(|| class.to_owned()),
        (items, None) => vec![(ITEMS.into(), items.clone())],
    };
    encode_as(w, class, &Object { class: class.to_owned().into(), members, ..Object::default() })
}

fn text(value: &Value) -> Result<&str> {
    match value {
        Value::Text(text) => Ok(text),
        Value::Null => Ok(""),
        other => Err(Error::argument(format!("{other} is not a string"))),
    }
}

fn list(value: &Value) -> Result<&[Value]> {
    match value {
        Value::List(items) => Ok(items),
        Value::Null => Ok(&[]),
        other => Err(Error::argument(format!("{other} is not a list of objects"))),
    }
}

fn length(value: &Value) -> Result<usize> {
    match value {
        Value::Numbers(number, bytes) => Ok(bytes.len() / number.size()),
        Value::Null => Ok(0),
        other => Err(Error::argument(format!("{other} is not an array of numbers"))),
    }
}

/// Appends an array and its length.
fn encode_array(w: &mut Writer, number: Number, values: &Value) -> Result<()> {
    w.put(length(values)? as u32);
    encode_numbers(w, number.code(), values)
}

/// Appends an array without its length.
fn encode_numbers(w: &mut Writer, kind: i32, values: &Value) -> Result<()> {
    let Value::Numbers(number, bytes) = values else { return Ok(()) };
    if Number::of_code(kind) == Some(*number) {
        let mut swapped = grow::filled(bytes.len(), 0)?;
        swap::copy(number.size(), bytes, &mut swapped);
        w.raw(&swapped);
        return Ok(());
    }
    macro_rules! each {
        ($type:ty, $as:ident, $wide:ty) => {{
            let (chunks, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
            chunks.iter().try_for_each(|c| {
                encode_number(w, kind, &Value::$as(<$wide>::from(<$type>::from_ne_bytes(*c))))
            })
        }};
    }
    match number {
        Number::I8 => each!(i8, Int, i64),
        Number::Bool | Number::U8 => each!(u8, UInt, u64),
        Number::I16 => each!(i16, Int, i64),
        Number::U16 => each!(u16, UInt, u64),
        Number::I32 => each!(i32, Int, i64),
        Number::U32 => each!(u32, UInt, u64),
        Number::I64 => each!(i64, Int, i64),
        Number::U64 => each!(u64, UInt, u64),
        Number::F32 => each!(f32, Float, f64),
        Number::F64 => each!(f64, Float, f64),
    }
}

fn misfit(value: &Value, kind: &str) -> Error {
    Error::argument(format!("{value} does not fit into {kind}"))
}

/// Appends one number according to the type code (`fType`) of its member.
fn encode_number(w: &mut Writer, kind: i32, value: &Value) -> Result<()> {
    let (whole, real) = match value {
        Value::Null => (Some(0), 0.0),
        Value::Bool(b) => (Some(i128::from(*b)), f64::from(u8::from(*b))),
        Value::Int(i) => (Some(i128::from(*i)), *i as f64),
        Value::UInt(u) => (Some(i128::from(*u)), *u as f64),
        Value::Float(f) => (Some(*f as i128).filter(|i| (*i as f64).to_bits() == f.to_bits()), *f),
        other => return Err(Error::argument(format!("{other} is not a number"))),
    };
    // Real numbers are rounded to the precision of the member, integers are not.
    let is_integer = matches!(value, Value::Int(_) | Value::UInt(_));
    macro_rules! put {
        ($type:ty, $name:literal) => {{
            let fits = whole.and_then(|whole| <$type>::try_from(whole).ok());
            w.put(fits.ok_or_else(|| misfit(value, $name))?);
        }};
    }
    match kind {
        1 | 10 => put!(i8, "int8"),
        2 => put!(i16, "int16"),
        3 | 6 => put!(i32, "int32"),
        4 | 16 => put!(i64, "int64"),
        // A Double32_t without a range (9) is a float.
        5 | 9 => {
            let short = real as f32;
            if is_integer && whole != Some(short as i128) || short.is_infinite() && real.is_finite() {
                return Err(misfit(value, "float32"));
            }
            w.put(short);
        }
        8 => {
            if is_integer && whole != Some(real as i128) {
                return Err(misfit(value, "float64"));
            }
            w.put(real);
        }
        11 => put!(u8, "uint8"),
        12 => put!(u16, "uint16"),
        13 | 15 => put!(u32, "uint32"),
        14 | 17 => put!(u64, "uint64"),
        18 => match whole {
            Some(bit @ (0 | 1)) => w.put(bit == 1),
            _ => return Err(Error::argument(format!("{value} is not a bool"))),
        },
        other => return Err(Error::unsupported(format!("a number of type code {other} cannot be written"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::object::SharedObject;
    use super::*;
    use crate::streamer::ObjectReader;

    fn object(class: &str, members: &[(&str, Value)]) -> Object {
        let members =
            members.iter().map(|(name, value)| ((*name).to_owned().into(), value.clone())).collect();
        Object { class: class.to_owned().into(), members, ..Object::default() }
    }

    fn reals(values: &[f64]) -> Value {
        Value::Numbers(Number::F64, values.iter().flat_map(|v| v.to_ne_bytes()).collect())
    }

    #[test]
    fn infos_come_back_as_they_were() {
        let infos = with_dependencies(["TTree", "TLeafI", "TH3D", "TProfile", "TGraphAsymmErrors"]);
        let names: Vec<&str> = infos.iter().map(|i| &*i.name).collect();
        for name in
            ["TTree", "TBranchRef", "TRefTable", "TH1", "TAxis", "THashList", "TString", "ROOT::TIOFeatures"]
        {
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
    fn infos_are_appended_to_the_entries_that_are_read() {
        let first = with_dependencies(["TAttLine"]);
        let mut added = with_dependencies(["TGraphAsymmErrors"]);
        added.retain(|info| !first.contains(info));
        let mut damaged = encode_infos(&first, 64).unwrap();
        // The list goes on after its last entry.
        damaged.extend([0xff; 40]);
        let frame = (damaged.len() - 4) as u32 | 0x4000_0000;
        damaged[..4].copy_from_slice(&frame.to_be_bytes());
        let longer = append_infos(&damaged, &added, 64).unwrap();
        let classes = Classes::parse(&longer, 64).unwrap();
        assert!(classes.iter().eq(first.iter().chain(&added)));
        assert!(longer.ends_with(&[0xff; 40]));
    }

    #[test]
    fn members_not_given_are_zero_and_counters_follow_their_arrays() {
        let graph =
            [("fName", Value::Text("g".into())), ("fX", reals(&[1.0, 2.0])), ("fY", reals(&[3.0, 4.0]))];
        let mut graph = object("TGraph", &graph);
        let bytes = encode_object(&graph, 0).unwrap();
        let classes = Classes::default();
        let back = ObjectReader::new(&classes, &bytes, 0).object("TGraph").unwrap();
        assert_eq!(
            (back.int("fNpoints"), back.text("fName"), back.text("fTitle")),
            (Some(2), Some("g"), Some(""))
        );
        assert!(
            matches!(back.get("fY"), Some(Value::Numbers(Number::F64, b)) if b[8..] == 4.0_f64.to_ne_bytes())
        );
        graph.members.push(("fNpoints".into(), Value::Int(3)));
        assert!(encode_object(&graph, 0).unwrap_err().to_string().contains("fNpoints is 3"));
    }

    #[test]
    fn what_was_read_can_be_written_again() {
        let label =
            object("TObjString", &[("fString", Value::Text("bin".into())), ("fUniqueID", Value::Int(1))]);
        let axis = object(
            "TAxis",
            &[(
                "fLabels",
                Value::Object(SharedObject::from(object(
                    "THashList",
                    &[(ITEMS, Value::List(vec![Value::Object(SharedObject::from(label))]))],
                ))),
            )],
        );
        let histogram = [
            ("fXaxis", Value::Object(SharedObject::from(axis))),
            ("fSumw2", reals(&[1.0])),
            ("TArrayF", reals(&[0.5])),
        ];
        let bytes = encode_object(&object("TH1F", &histogram), 30).unwrap();
        let classes = Classes::default();
        let back = ObjectReader::new(&classes, &bytes, 30).object("TH1F").unwrap();
        assert!(back.unreadable.is_none());
        let again = encode_object(&back, 30).unwrap();
        // The reader does not keep object identities.
        let differ = bytes.iter().zip(&again).filter(|(a, b)| a != b).count();
        assert_eq!((bytes.len(), differ), (again.len(), 1));
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let cases = [
            (1, Value::Int(128), "128 does not fit into int8"),
            (12, Value::Int(-1), "-1 does not fit into uint16"),
            (3, Value::Float(0.5), "0.5 does not fit into int32"),
            (18, Value::Int(2), "2 is not a bool"),
            (5, Value::Float(1e300), "1e300 does not fit into float32"),
            (9, Value::Float(-1e39), "-1e39 does not fit into float32"),
            (5, Value::Int((1 << 24) + 1), "16777217 does not fit into float32"),
            (8, Value::Int((1 << 53) + 1), "9007199254740993 does not fit into float64"),
            (8, Value::UInt(u64::MAX), "18446744073709551615 does not fit into float64"),
            (8, Value::Text("x".into()), "\"x\" is not a number"),
        ];
        for (kind, value, message) in cases {
            let error = encode_number(&mut Writer::new(0), kind, &value).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
        for value in [0.1, f64::INFINITY, f64::NAN, f64::from(f32::MAX)] {
            encode_number(&mut Writer::new(0), 5, &Value::Float(value)).unwrap();
        }
        encode_number(&mut Writer::new(0), 8, &Value::Int(1 << 62)).unwrap();
        let mut w = Writer::new(0);
        encode_number(&mut w, 2, &Value::Float(-2.0)).unwrap();
        encode_number(&mut w, 17, &Value::UInt(u64::MAX)).unwrap();
        assert_eq!(w.bytes().unwrap(), [&[0xff, 0xfe][..], &[0xff; 8]].concat());
    }

    #[test]
    fn unknown_classes_and_members_of_the_wrong_kind_are_refused() {
        assert!(encode_object(&object("Nothing", &[]), 0).unwrap_err().to_string().contains("Nothing"));
        let named = object("TNamed", &[("fName", Value::Int(1))]);
        assert!(encode_object(&named, 0).unwrap_err().to_string().contains("member fName of TNamed"));
    }
}
