//! C++ types as nested Python tuples, and the table of number types.

use crate::errors::raise;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sapwood_root::array::Number;
use sapwood_root::file::kinds;
use sapwood_root::streamer::datatype::{ClassNames, DataType};
use sapwood_root::streamer::declare::{Class, Collection, Shape};
use sapwood_root::streamer::packed::Packing;
use sapwood_root::zebra::hbook::Class as HbookClass;

/// Name of the records of keys and values in map columns; no class has such a name.
const MAP_ENTRY: &str = "<entry of a map>";

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("MAP_ENTRY", MAP_ENTRY)?;
    module.add("TREE_CLASSES", kinds::TREES)?;
    module.add("NTUPLE_CLASSES", [kinds::NTUPLE, kinds::EXPERIMENTAL_NTUPLE])?;
    module.add("HBOOK_CLASSES", [HbookClass::RowWise.name(), HbookClass::ColumnWise.name()])?;
    module.add_function(wrap_pyfunction!(shape_of, module)?)?;
    module.add_function(wrap_pyfunction!(number_types, module)?)?;
    module.add_function(wrap_pyfunction!(parse_shape, module)?)?;
    module.add_function(wrap_pyfunction!(packing_range, module)?)
}

/// Returns for each number type its name in `NumPy`, its names in C++ and ROOT, and its type codes. The first name and
/// the first code are used for writing.
#[pyfunction]
fn number_types() -> Vec<(&'static str, Vec<&'static str>, &'static [i32])> {
    Number::ALL.into_iter().map(|number| (number.dtype(), number.names().collect(), number.codes())).collect()
}

/// Returns the type of a C++ name, if it can be written.
#[pyfunction]
fn parse_shape<'py>(py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyTuple>>> {
    Shape::parse(name).map(|shape| from_shape(py, &shape)).transpose()
}

/// Returns the C++ type for the data of a field.
#[pyfunction]
fn shape_of<'py>(
    py: Python<'py>,
    kind: &Bound<'py, PyTuple>,
    name: &str,
    classes: ClassNames,
    nameless: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    from_shape(py, &to_data_type(kind)?.shape(name, &classes, nameless).map_err(raise)?)
}

/// Returns lowest and highest value of packed numbers, from the text inside the brackets of their type.
#[pyfunction]
fn packing_range(text: &str) -> Option<(f64, f64)> {
    Packing::range(text).map(|(low, high, _)| (low, high))
}

/// Converts a type to nested tuples.
pub fn from_shape<'py>(py: Python<'py>, shape: &Shape) -> PyResult<Bound<'py, PyTuple>> {
    let inner = |shape: &Shape| from_shape(py, shape);
    match shape {
        Shape::Number(number) => ("number", number.dtype()).into_pyobject(py),
        Shape::Long(signed) => ("long", *signed).into_pyobject(py),
        Shape::Packed(single, range) => ("packed", *single, range).into_pyobject(py),
        Shape::Text => ("text",).into_pyobject(py),
        Shape::Array(size, item) => ("array", *size, inner(item)?).into_pyobject(py),
        Shape::Vector(item) => ("vector", inner(item)?).into_pyobject(py),
        Shape::Map(key, value) => ("map", inner(key)?, inner(value)?).into_pyobject(py),
        Shape::Other(collection, like) => ("other", collection.name, inner(like)?).into_pyobject(py),
        Shape::Class(class) => {
            let members = class.members.iter().map(|(name, member)| Ok((name.clone(), inner(member)?)));
            let members: Vec<(String, Bound<'py, PyTuple>)> = members.collect::<PyResult<_>>()?;
            ("class", &class.name, class.version, members).into_pyobject(py)
        }
        Shape::Optional(item) => ("optional", inner(item)?).into_pyobject(py),
        Shape::Variant(items) => {
            ("variant", items.iter().map(inner).collect::<PyResult<Vec<_>>>()?).into_pyobject(py)
        }
    }
}

/// Converts nested tuples to a type.
pub fn to_shape(shape: &Bound<'_, PyTuple>) -> PyResult<Shape> {
    let kind: String = shape.get_item(0)?.extract()?;
    let inner = |index: usize| -> PyResult<Box<Shape>> {
        Ok(Box::new(to_shape(shape.get_item(index)?.cast::<PyTuple>()?)?))
    };
    Ok(match kind.as_str() {
        "number" => Shape::Number(to_number(&shape.get_item(1)?.extract::<String>()?)?),
        "long" => Shape::Long(shape.get_item(1)?.extract()?),
        "packed" => Shape::Packed(shape.get_item(1)?.extract()?, shape.get_item(2)?.extract()?),
        "text" => Shape::Text,
        "array" => Shape::Array(shape.get_item(1)?.extract()?, inner(2)?),
        "vector" => Shape::Vector(inner(1)?),
        "map" => Shape::Map(inner(1)?, inner(2)?),
        "other" => {
            let name: String = shape.get_item(1)?.extract()?;
            let collection = Collection::named(&name)
                .ok_or_else(|| PyTypeError::new_err(format!("no collection {name:?}")))?;
            Shape::Other(collection, inner(2)?)
        }
        "optional" => Shape::Optional(inner(1)?),
        "variant" => {
            let items: Vec<Bound<'_, PyTuple>> = shape.get_item(1)?.extract()?;
            Shape::Variant(items.iter().map(to_shape).collect::<PyResult<_>>()?)
        }
        "class" => {
            let members: Vec<(String, Bound<'_, PyTuple>)> = shape.get_item(3)?.extract()?;
            let members = members.into_iter().map(|(name, member)| Ok((name, to_shape(&member)?)));
            Shape::Class(Class {
                name: shape.get_item(1)?.extract()?,
                version: shape.get_item(2)?.extract()?,
                members: members.collect::<PyResult<_>>()?,
            })
        }
        other => return Err(PyTypeError::new_err(format!("no shape of kind {other:?}"))),
    })
}

/// Converts nested tuples to a type of data.
pub fn to_data_type(kind: &Bound<'_, PyTuple>) -> PyResult<DataType> {
    let head: String = kind.get_item(0)?.extract()?;
    let inner = |index: usize| -> PyResult<Box<DataType>> {
        Ok(Box::new(to_data_type(kind.get_item(index)?.cast::<PyTuple>()?)?))
    };
    Ok(match head.as_str() {
        "number" => DataType::Number(to_number(&kind.get_item(1)?.extract::<String>()?)?),
        "text" => DataType::Text,
        "shape" => DataType::Shape(to_shape(kind.get_item(1)?.cast::<PyTuple>()?)?),
        "fixed" => DataType::FixedList(kind.get_item(1)?.extract()?, inner(2)?),
        "list" => match *inner(1)? {
            DataType::Record(name, fields) if name == MAP_ENTRY => {
                let mut parts = fields.into_iter().map(|(_, part)| Box::new(part));
                let (Some(key), Some(value)) = (parts.next(), parts.next()) else {
                    return Err(PyTypeError::new_err("an entry of a map needs a key and a value"));
                };
                DataType::Map(key, value)
            }
            item => DataType::List(Box::new(item)),
        },
        "record" => {
            let fields: Vec<(String, Bound<'_, PyTuple>)> = kind.get_item(2)?.extract()?;
            let fields = fields.into_iter().map(|(name, field)| Ok((name, to_data_type(&field)?)));
            DataType::Record(kind.get_item(1)?.extract()?, fields.collect::<PyResult<_>>()?)
        }
        "option" => DataType::Option(inner(1)?),
        "union" => {
            let items: Vec<Bound<'_, PyTuple>> = kind.get_item(1)?.extract()?;
            DataType::Union(items.iter().map(to_data_type).collect::<PyResult<_>>()?)
        }
        _ => DataType::Unknown,
    })
}

fn to_number(name: &str) -> PyResult<Number> {
    Number::of_dtype(name).ok_or_else(|| PyTypeError::new_err(format!("no element type {name}")))
}
