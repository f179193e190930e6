//! Rows of columns for batches, statistics of zones for an index, and checksums of columns.

use crate::borrow;
use crate::columns::{self, array, writable};
use crate::errors::raise;
use crate::runtime::pool;
use arrow_buffer::{Buffer, ScalarBuffer};
use pyo3::prelude::*;
use sapwood_root::array::Number;
use sapwood_root::array::extremes::{self, Level, Listed, Zones};
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

/// Levels of lists (offsets or a size) and the numbers in them.
type ListedGiven<'py> = (Vec<Bound<'py, PyAny>>, Bound<'py, PyAny>);
/// Smallest and largest numbers, numbers of values and of NaN, and lengths of the longest lists.
type ZonesFound<'py> =
    (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

#[pyfunction]
fn column_zones<'py>(
    py: Python<'py>,
    columns: Vec<ListedGiven<'py>>,
    edges: Bound<'py, PyAny>,
) -> PyResult<Vec<ZonesFound<'py>>> {
    let level = |given: &Bound<'py, PyAny>| {
        given.extract().map(Level::Fixed).or_else(|_| words(given).map(Level::Lists))
    };
    let listed = |(levels, values): &ListedGiven<'py>| {
        let (number, values) = borrow::numbers(values)?;
        Ok(Listed { levels: levels.iter().map(level).collect::<PyResult<_>>()?, number, values })
    };
    let (columns, edges) = (columns.iter().map(listed).collect::<PyResult<Vec<_>>>()?, words(&edges)?);
    let pool = pool()?;
    let look = || extremes::zones(&columns, &edges);
    let bytes: usize = columns.iter().map(|column| column.values.len()).sum();
    let found = py.detach(|| if bytes < extremes::FEW { look() } else { pool.install(look) });
    let made = |(column, found): (&Listed, Zones)| {
        let number = if column.number == Number::Bool { Number::U8 } else { column.number };
        let counts = |numbers: Vec<i64>| array(py, Number::I64, Buffer::from_vec(numbers));
        Ok((
            array(py, number, Buffer::from_slice_ref(&found.extremes.low))?,
            array(py, number, Buffer::from_slice_ref(&found.extremes.high))?,
            counts(found.counts)?,
            counts(found.extremes.nan)?,
            counts(found.longest)?,
        ))
    };
    columns.iter().zip(found.map_err(raise)?).map(made).collect()
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
    module.add_function(wrap_pyfunction!(column_zones, module)?)
}
