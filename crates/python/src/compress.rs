//! ROOT's blocks of compressed bytes.

use crate::borrow;
use crate::errors::raise;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use sapwood_root::Result;
use sapwood_root::compress::{decode, encode};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(compress, module)?)?;
    module.add_function(wrap_pyfunction!(decompress, module)?)
}

/// Compresses bytes into blocks; `None` if they would not be smaller.
#[pyfunction]
fn compress<'py>(
    py: Python<'py>,
    data: Bound<'py, PyAny>,
    code: u32,
) -> PyResult<Option<Bound<'py, PyArray1<u8>>>> {
    let data = borrow::array::<u8>(&data)?;
    let packed: Result<_> = py.detach(|| {
        let mut out = Vec::new();
        let length = encode::compress(encode::Compression::from_code(code)?, &data, &mut out)?;
        Ok(length.map(|length| {
            out.truncate(length);
            out
        }))
    });
    Ok(packed.map_err(raise)?.map(|packed| packed.into_pyarray(py)))
}

/// Decompresses a row of blocks that hold `size` bytes.
#[pyfunction]
fn decompress<'py>(
    py: Python<'py>,
    data: Bound<'py, PyAny>,
    size: usize,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let data = borrow::array::<u8>(&data)?;
    let unpacked: Result<_> = py.detach(|| {
        decode::verify_size(&data, size)?;
        let mut out = vec![0; size];
        decode::decompress(&data, &mut out)?;
        Ok(out)
    });
    Ok(unpacked.map_err(raise)?.into_pyarray(py))
}
