//! `NumPy` arrays as buffers, without copying.
#![allow(unsafe_code, reason = "a buffer points into an array that it keeps alive")]

use crate::columns;
use arrow_buffer::Buffer;
use numpy::{Element, PyArrayDescrMethods, PyReadonlyArray1, PyUntypedArray, PyUntypedArrayMethods};
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
    columns::load(values.py())?;
    let descr = values.cast::<PyUntypedArray>().map_err(|_| wrong(values))?.dtype();
    Ok(match (descr.kind(), descr.itemsize()) {
        (b'b', 1) => (Number::Bool, array::<bool>(values)?),
        (b'i', 1) => (Number::I8, array::<i8>(values)?),
        (b'u', 1) => (Number::U8, array::<u8>(values)?),
        (b'i', 2) => (Number::I16, array::<i16>(values)?),
        (b'u', 2) => (Number::U16, array::<u16>(values)?),
        (b'i', 4) => (Number::I32, array::<i32>(values)?),
        (b'u', 4) => (Number::U32, array::<u32>(values)?),
        (b'i', 8) => (Number::I64, array::<i64>(values)?),
        (b'u', 8) => (Number::U64, array::<u64>(values)?),
        (b'f', 4) => (Number::F32, array::<f32>(values)?),
        (b'f', 8) => (Number::F64, array::<f64>(values)?),
        _ => return Err(wrong(values)),
    })
}

fn wrong(array: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("not a one-dimensional contiguous array of native numbers: {array:?}"))
}
