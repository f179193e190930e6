//! Rows of columns for batches, statistics of zones for an index, and checksums of columns.

use crate::borrow;
use crate::columns::{self, array, writable};
use crate::errors::raise;
use crate::runtime::pool;
use arrow_buffer::{Buffer, ScalarBuffer};
use pyo3::prelude::*;
use pyo3::types::PyInt;
use sapwood_root::array::Number;
use sapwood_root::array::extremes::{self, Collector, Extremes, Level, Listed, Zones};
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
) -> PyResult<RowsTaken<'py>> {
    let source = |(values, width, lists, pad): SourceGiven<'_>| {
        let (number, values) = borrow::numbers(&values)?;
        Ok(Source { number, values, width: width.saturating_mul(number.size()), lists, pad })
    };
    let columns = columns.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
    let offsets = offsets.iter().map(words).collect::<PyResult<Vec<_>>>()?;
    let pool = pool()?;
    let mix = || pool.install(|| mix::mix(&columns, &offsets, &masks, length, seed));
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

/// Returns the smallest and largest number, and how many are NaN.
#[pyfunction]
fn extremes_of<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>, i64)> {
    let (number, values) = borrow::numbers(values)?;
    let found = py.detach(|| extremes::extremes(number, &values));
    let (low, high) = bounds(py, number, &found)?;
    Ok((low, high, found.nan.first().copied().unwrap_or_default()))
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

/// The place of a column, levels of lists (offsets or a size), and the numbers in them; None for the lengths of lists.
pub type ListedGiven<'py> = (Option<usize>, Vec<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);
/// The bytes of the smallest numbers of the zones of each part, followed by those of the largest; and in 64 bits, numbers of
/// values and of NaN, and lengths of the longest lists.
pub type ZonesFound<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Makes a collector of the statistics of columns between edges; also returns the types of the numbers.
pub fn collector<'py>(parts: &[ListedGiven<'py>], edges: &Bound<'py, PyAny>) -> PyResult<Collector> {
    let level = |given: &Bound<'py, PyAny>| {
        if given.is_instance_of::<PyInt>() {
            given.extract().map(Level::Fixed)
        } else {
            words(given).map(Level::Lists)
        }
    };
    let listed = |(place, levels, values): &ListedGiven<'py>| {
        let (number, values) = match values.as_ref().map(borrow::numbers).transpose()? {
            Some((number, values)) => (number, Some(values)),
            None => (Number::I32, None),
        };
        let levels = levels.iter().map(level).collect::<PyResult<Vec<_>>>()?.into();
        Ok((*place, Listed { levels, number, values }))
    };
    let parts = parts.iter().map(listed).collect::<PyResult<Vec<_>>>()?;
    Collector::new(parts, &words(edges)?).map_err(raise)
}

/// Returns collected statistics as arrays.
pub fn zones_found(py: Python<'_>, found: Vec<Zones>) -> PyResult<ZonesFound<'_>> {
    let mut bounds = Vec::new();
    let mut counts = Vec::new();
    for part in found {
        bounds.extend(part.extremes.low);
        bounds.extend(part.extremes.high);
        counts.extend(part.counts);
        counts.extend(part.extremes.nan);
        counts.extend(part.longest);
    }
    Ok((array(py, Number::U8, Buffer::from_vec(bounds))?, array(py, Number::I64, Buffer::from_vec(counts))?))
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
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(extremes_of, module)?)
}
