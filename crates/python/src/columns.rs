//! Columns as nested tuples of `NumPy` arrays, converted in both directions without copying.

#![allow(unsafe_code, reason = "NumPy arrays are made over buffers that their base object keeps alive")]

use crate::borrow;
use arrow_buffer::Buffer;
use numpy::npyffi::{
    self, NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE, PY_ARRAY_API, npy_intp,
};
use numpy::{PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple};
use sapwood_root::array::pool::Filled;
use sapwood_root::array::{Column, Number, Type};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::panic::resume_unwind;

/// Keeps a buffer alive while an array uses it.
#[pyclass(frozen)]
struct Owner(#[allow(dead_code, reason = "held, never read")] Buffer);

fn descriptor(py: Python<'_>, number: Number) -> Bound<'_, PyArrayDescr> {
    match number {
        Number::Bool => numpy::dtype::<bool>(py),
        Number::I8 => numpy::dtype::<i8>(py),
        Number::U8 => numpy::dtype::<u8>(py),
        Number::I16 => numpy::dtype::<i16>(py),
        Number::U16 => numpy::dtype::<u16>(py),
        Number::I32 => numpy::dtype::<i32>(py),
        Number::U32 => numpy::dtype::<u32>(py),
        Number::I64 => numpy::dtype::<i64>(py),
        Number::U64 => numpy::dtype::<u64>(py),
        Number::F32 => numpy::dtype::<f32>(py),
        Number::F64 => numpy::dtype::<f64>(py),
    }
}

/// Returns a one-dimensional read-only array over a buffer.
pub fn array(py: Python<'_>, number: Number, buffer: Buffer) -> PyResult<Bound<'_, PyAny>> {
    over(py, number, buffer, 0)
}

/// Returns a one-dimensional writable array.
pub fn writable(py: Python<'_>, number: Number, filled: Filled) -> PyResult<Bound<'_, PyAny>> {
    // This buffer is not shared.
    over(py, number, filled.share(), NPY_ARRAY_WRITEABLE)
}

/// Returns a writable array over the memory of a read-only one that was read, or nothing if another column uses that
/// memory, too. The caller makes sure that no other array over it is in use.
pub fn own<'py>(array: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = array.py();
    let mut base = array.getattr(intern!(py, "base"))?;
    let owner = loop {
        if let Ok(owner) = base.cast::<Owner>() {
            break owner.clone();
        }
        // The base of a view is an array.
        let Some(next) = base.getattr_opt(intern!(py, "base"))? else { return Ok(None) };
        base = next;
    };
    let whole = &owner.get().0;
    let (number, part) = borrow::numbers(array)?;
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr());
    let Some(start) = start.filter(|start| start.saturating_add(part.len()) <= whole.len()) else {
        return Ok(None);
    };
    if whole.strong_count() != 1 {
        return Ok(None);
    }
    over(py, number, whole.slice_with_length(start, part.len()), NPY_ARRAY_WRITEABLE).map(Some)
}

/// Returns a one-dimensional writable array of a copy of bytes.
pub fn copied<'py>(py: Python<'py>, number: Number, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    let buffer = match number {
        Number::Bool => bytes.iter().map(|&byte| u8::from(byte != 0)).collect::<Vec<_>>().into(),
        _ => Buffer::from_slice_ref(bytes),
    };
    over(py, number, buffer, NPY_ARRAY_WRITEABLE)
}

/// Imports `NumPy` and its C interface, which must be done before either is used: an interruption is an error here, but
/// would be a panic there.
///
/// Python code finds the interface. It runs in a thread of its own, because only the main thread is interrupted.
pub fn load(py: Python<'_>) -> PyResult<()> {
    static LOADED: PyOnceLock<()> = PyOnceLock::new();
    LOADED
        .get_or_try_init(py, || {
            py.import(intern!(py, "numpy"))?;
            let find = || Python::attach(|py| drop(PyArray1::from_vec(py, vec![0_u8]).readonly()));
            py.detach(|| match std::thread::Builder::new().spawn(find) {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(_) => find(), // no further thread can be started
            });
            py.check_signals()
        })
        .copied()
}

fn over(py: Python<'_>, number: Number, buffer: Buffer, flags: i32) -> PyResult<Bound<'_, PyAny>> {
    load(py)?;
    let length = buffer.len() / number.size();
    let data = buffer.as_ptr();
    let owner = Bound::new(py, Owner(buffer))?;
    let mut shape: [npy_intp; 1] = [length as npy_intp];
    // SAFETY: the reference to the descriptor is passed to NumPy. The memory holds `length` elements, whose bytes are
    // valid for every number type (bools were checked to be 0 or 1, or come from such bytes). The owner becomes the
    // base of the array and outlives it.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type),
            descriptor(py, number).into_dtype_ptr(),
            1,
            shape.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast_mut().cast(),
            NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | flags,
            std::ptr::null_mut(),
        );
        let bound = Bound::from_owned_ptr_or_err(py, array)?;
        PY_ARRAY_API.PyArray_SetBaseObject(py, array.cast(), owner.into_ptr());
        Ok(bound)
    }
}

/// Converts a column to the tuples described in `_native.pyi`.
pub fn column(py: Python<'_>, column: Column) -> PyResult<Bound<'_, PyTuple>> {
    Tuples::default().column(py, column)
}

/// Converts columns to tuples. Columns that have their offsets in common get the same array of them.
#[derive(Default)]
pub struct Tuples<'py> {
    /// Arrays of offsets by address and size.
    offsets: HashMap<(usize, usize), Bound<'py, PyAny>>,
}

impl<'py> Tuples<'py> {
    fn offsets(&mut self, py: Python<'py>, buffer: Buffer) -> PyResult<Bound<'py, PyAny>> {
        match self.offsets.entry((buffer.as_ptr().addr(), buffer.len())) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(new) => Ok(new.insert(array(py, Number::I64, buffer)?).clone()),
        }
    }

    /// Converts a column.
    pub fn column(&mut self, py: Python<'py>, column: Column) -> PyResult<Bound<'py, PyTuple>> {
        match column {
            Column::Number { number, values } => {
                (intern!(py, "number"), array(py, number, values)?).into_pyobject(py)
            }
            Column::Text { offsets, bytes } => {
                ("text", self.offsets(py, offsets)?, array(py, Number::U8, bytes)?).into_pyobject(py)
            }
            Column::FixedList { length, size, values } => {
                ("fixed", length, size, self.column(py, *values)?).into_pyobject(py)
            }
            Column::List { offsets, values } => {
                (intern!(py, "list"), self.offsets(py, offsets)?, self.column(py, *values)?).into_pyobject(py)
            }
            Column::Record { length, name, fields } => {
                let list = PyList::empty(py);
                for (name, field) in fields {
                    list.append((name, self.column(py, field)?))?;
                }
                ("record", length, &*name, fields_of(&name, list)).into_pyobject(py)
            }
            Column::Option { index, values } => {
                ("option", array(py, Number::I64, index)?, self.column(py, *values)?).into_pyobject(py)
            }
            Column::Union { tags, index, variants } => {
                let list = PyList::empty(py);
                for variant in variants {
                    list.append(self.column(py, variant)?)?;
                }
                ("union", array(py, Number::I8, tags)?, array(py, Number::I64, index)?, list)
                    .into_pyobject(py)
            }
            Column::Empty => ("empty",).into_pyobject(py),
        }
    }
}

/// Returns the fields of a record: a list, or an empty tuple for a nameless record without fields, which is a tuple.
fn fields_of<'py>(name: &str, fields: Bound<'py, PyList>) -> Bound<'py, PyAny> {
    let is_tuple = name.is_empty() && fields.is_empty();
    if is_tuple { PyTuple::empty(fields.py()).into_any() } else { fields.into_any() }
}

/// Converts a type to tuples of the same shape.
pub fn type_of<'py>(py: Python<'py>, of: &Type) -> PyResult<Bound<'py, PyTuple>> {
    match of {
        Type::Number(number) => ("number", number.dtype()).into_pyobject(py),
        Type::Text => ("text",).into_pyobject(py),
        Type::FixedList { size, item } => ("fixed", size, type_of(py, item)?).into_pyobject(py),
        Type::List(item) => ("list", type_of(py, item)?).into_pyobject(py),
        Type::Record { name, fields } => {
            let list = PyList::empty(py);
            for (name, field) in fields {
                list.append((name, type_of(py, field)?))?;
            }
            ("record", name, fields_of(name, list)).into_pyobject(py)
        }
        Type::Option(item) => ("option", type_of(py, item)?).into_pyobject(py),
        Type::Union(items) => {
            let list = items.iter().map(|item| type_of(py, item)).collect::<PyResult<Vec<_>>>()?;
            ("union", list).into_pyobject(py)
        }
        Type::Dynamic => ("dynamic",).into_pyobject(py),
    }
}

/// Converts nested tuples to columns; arrays are borrowed, not copied.
pub fn to_columns(columns: &Bound<'_, PyList>) -> PyResult<Vec<Column>> {
    columns.iter().map(|column| to_column(column.cast::<PyTuple>()?)).collect()
}

/// Converts nested tuples to a column; arrays are borrowed, not copied.
pub fn to_column(column: &Bound<'_, PyTuple>) -> PyResult<Column> {
    let kind: String = column.get_item(0)?.extract()?;
    let inner = |index: usize| -> PyResult<Box<Column>> {
        Ok(Box::new(to_column(column.get_item(index)?.cast::<PyTuple>()?)?))
    };
    Ok(match kind.as_str() {
        "number" => {
            let (number, values) = borrow::numbers(&column.get_item(1)?)?;
            Column::Number { number, values }
        }
        "text" => Column::Text {
            offsets: borrow::array::<i64>(&column.get_item(1)?)?,
            bytes: borrow::array::<u8>(&column.get_item(2)?)?,
        },
        "fixed" => Column::FixedList {
            length: column.get_item(1)?.extract()?,
            size: column.get_item(2)?.extract()?,
            values: inner(3)?,
        },
        "list" => Column::List { offsets: borrow::array::<i64>(&column.get_item(1)?)?, values: inner(2)? },
        "record" => {
            let (length, name): (usize, String) =
                (column.get_item(1)?.extract()?, column.get_item(2)?.extract()?);
            let fields: Vec<(String, Bound<'_, PyTuple>)> = column.get_item(3)?.extract()?;
            let fields = fields.iter().map(|(name, field)| Ok((name.clone(), to_column(field)?)));
            Column::Record { length, name, fields: fields.collect::<PyResult<_>>()? }
        }
        "option" => Column::Option { index: borrow::array::<i64>(&column.get_item(1)?)?, values: inner(2)? },
        "union" => {
            let variants: Vec<Bound<'_, PyTuple>> = column.get_item(3)?.extract()?;
            Column::Union {
                tags: borrow::array::<i8>(&column.get_item(1)?)?,
                index: borrow::array::<i64>(&column.get_item(2)?)?,
                variants: variants.iter().map(to_column).collect::<PyResult<_>>()?,
            }
        }
        "empty" => Column::Empty,
        other => return Err(PyTypeError::new_err(format!("no column of kind {other:?}"))),
    })
}
