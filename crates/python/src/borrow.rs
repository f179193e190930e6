//! `NumPy` arrays as buffers, without copying.
#![allow(unsafe_code, reason = "a buffer points into an array that it keeps alive")]

use crate::columns;
use arrow_buffer::Buffer;
use numpy::{Element, PyReadonlyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use sapwood_root::array::Number;
use std::panic::AssertUnwindSafe;
use std::ptr::NonNull;
use std::sync::Arc;

/// Keeps an array alive while a buffer points into it.
struct Owner {
    _array: AssertUnwindSafe<Py<PyAny>>,
}

/// Returns the bytes of a one-dimensional contiguous array of `T`.
pub fn array<T: Element>(array: &Bound<'_, PyAny>) -> PyResult<Buffer> {
    columns::load(array.py())?;
    let view: PyReadonlyArray1<'_, T> = array.extract().map_err(|_| wrong(array))?;
    let slice = view.as_slice()?;
    let owner = Arc::new(Owner { _array: AssertUnwindSafe(array.clone().unbind()) });
    let pointer = NonNull::from(slice).cast::<u8>();
    // SAFETY: the slice is valid for `size_of_val` bytes while the array lives, which the owner ensures. If Python code
    // changes the array meanwhile, the written bytes change; this is documented for the caller.
    Ok(unsafe { Buffer::from_custom_allocation(pointer, size_of_val(slice), owner) })
}

/// Returns the bytes of an array of numbers, and their number type.
pub fn numbers(values: &Bound<'_, PyAny>) -> PyResult<(Number, Buffer)> {
    let dtype: String = values.getattr("dtype")?.getattr("name")?.extract()?;
    Ok(match dtype.as_str() {
        "bool" => (Number::Bool, array::<bool>(values)?),
        "int8" => (Number::I8, array::<i8>(values)?),
        "uint8" => (Number::U8, array::<u8>(values)?),
        "int16" => (Number::I16, array::<i16>(values)?),
        "uint16" => (Number::U16, array::<u16>(values)?),
        "int32" => (Number::I32, array::<i32>(values)?),
        "uint32" => (Number::U32, array::<u32>(values)?),
        "int64" => (Number::I64, array::<i64>(values)?),
        "uint64" => (Number::U64, array::<u64>(values)?),
        "float32" => (Number::F32, array::<f32>(values)?),
        "float64" => (Number::F64, array::<f64>(values)?),
        _ => return Err(wrong(values)),
    })
}

fn wrong(array: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("not a one-dimensional contiguous array of native numbers: {array:?}"))
}
