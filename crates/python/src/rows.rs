//! Rows of columns for batches, statistics of zones for an index, and checksums of columns.

use crate::borrow;
use crate::columns::{self, array, writable};
use crate::errors::raise;
use crate::runtime::pool;
use arrow_buffer::{Buffer, ScalarBuffer};
use pyo3::prelude::*;
use sapwood_root::array::Number;
use sapwood_root::array::extremes::{Extremes, Zones};
use sapwood_root::array::mix::{self, Source};
use sapwood_root::ntuple::envelope;

type SourceGiven<'py> = (Bound<'py, PyAny>, usize, Option<usize>, Option<usize>);
type RowsTaken<'py> = (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>);

/// Returns the numbers of columns, the offsets and the masks, of all rows in the order of a seed or in their own.
#[pyfunction]
fn mix_rows<'py>(
    py: Python<'py>,
    columns: Vec<SourceGiven<'py>>,
    offsets: Vec<Bound<'py, PyAny>>,
    masks: Vec<(usize, usize)>,
    length: usize,
    seed: Option<u64>,
    aligned: usize,
) -> PyResult<RowsTaken<'py>> {
    let source = |(values, width, lists, pad): SourceGiven<'_>| {
        let (number, values) = borrow::numbers(&values)?;
        Ok(Source { number, values, width: width.saturating_mul(number.size()), lists, pad })
    };
    let columns = columns.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
    let offsets = offsets.iter().map(words).collect::<PyResult<Vec<_>>>()?;
    let pool = pool()?;
    let mix = || pool.install(|| mix::mix(&columns, &offsets, &masks, length, seed, aligned));
    let found = py.detach(mix).map_err(raise)?;
    let array = |number, filled| writable(py, number, filled);
    Ok((
        columns
            .iter()
            .zip(found.values)
            .map(|(one, values)| array(one.number, values))
            .collect::<PyResult<_>>()?,
        found.offsets.into_iter().map(|one| array(Number::I64, one)).collect::<PyResult<_>>()?,
        found.masks.into_iter().map(|one| array(Number::Bool, one)).collect::<PyResult<_>>()?,
    ))
}

fn words(given: &Bound<'_, PyAny>) -> PyResult<ScalarBuffer<i64>> {
    Ok(ScalarBuffer::from(borrow::array::<i64>(given)?))
}

fn bounds<'py>(
    py: Python<'py>,
    number: Number,
    found: &Extremes,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let number = if number == Number::Bool { Number::U8 } else { number };
    let array = |bytes: &[u8]| array(py, number, Buffer::from_slice_ref(bytes));
    Ok((array(&found.low)?, array(&found.high)?))
}

/// Smallest and largest numbers of the zones of a part, numbers of values, of missing values and of NaN, and lengths of the
/// longest lists.
type PartFound<'py> = [Bound<'py, PyAny>; 6];
/// The first entry of each zone and the end, and the statistics of each part; None if they are not known.
pub type ZonesFound<'py> = (Vec<u64>, Vec<Option<PartFound<'py>>>);

/// Returns collected statistics as arrays.
pub fn zones(py: Python<'_>, found: Vec<Option<Zones>>) -> PyResult<Vec<Option<PartFound<'_>>>> {
    let counts = |counts: Vec<i64>| array(py, Number::I64, Buffer::from_vec(counts));
    let arrays = |part: Zones| {
        let (low, high) = bounds(py, part.number, &part.extremes)?;
        let [count, missing] = [counts(part.counts)?, counts(part.missing)?];
        Ok([low, high, count, missing, counts(part.extremes.nan)?, counts(part.longest)?])
    };
    found.into_iter().map(|part| part.map(arrays).transpose()).collect()
}

/// Returns a writable array over the memory of a read-only one, or None if another column uses that memory, too.
#[pyfunction]
fn own_array(array: Bound<'_, PyAny>) -> PyResult<Option<Bound<'_, PyAny>>> {
    columns::own(&array)
}

#[pyfunction]
fn checksum(py: Python<'_>, data: Bound<'_, PyAny>) -> PyResult<u64> {
    let data = borrow::array::<u8>(&data)?;
    Ok(py.detach(|| envelope::checksum(&data)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(mix_rows, module)?)?;
    module.add_function(wrap_pyfunction!(own_array, module)?)?;
    module.add_function(wrap_pyfunction!(checksum, module)?)
}
