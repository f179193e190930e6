//! Rows of columns for batches, statistics of zones for an index, and checksums of columns.

use crate::borrow;
use crate::columns::{array, writable};
use crate::errors::raise;
use crate::runtime::pool;
use arrow_buffer::{Buffer, ScalarBuffer};
use pyo3::prelude::*;
use sapwood_root::array::Number;
use sapwood_root::array::extremes::{self, Level, Listed, Zones};
use sapwood_root::array::rows::{Batches, Columns, Source};
use sapwood_root::ntuple::envelope;

type SourceGiven<'py> = (Bound<'py, PyAny>, usize, Option<usize>, Option<usize>);
type RowsTaken<'py> = (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>);

/// Columns whose rows are taken batch by batch, in the order of a permutation or in their own.
#[pyclass(frozen)]
struct RowSource(Batches);

#[pymethods]
impl RowSource {
    #[new]
    fn new(
        py: Python<'_>,
        columns: Vec<SourceGiven<'_>>,
        offsets: Vec<Bound<'_, PyAny>>,
        masks: Vec<(usize, usize)>,
        edges: Vec<usize>,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        let source = |(values, width, lists, pad): SourceGiven<'_>| {
            let (number, values) = borrow::numbers(&values)?;
            Ok(Source { number, values, width: width.saturating_mul(number.size()), lists, pad })
        };
        let columns = columns.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
        let offsets = offsets.iter().map(words).collect::<PyResult<Vec<_>>>()?;
        let length = edges.last().copied().unwrap_or_default();
        let columns = py.detach(|| Columns::new(columns, offsets, masks, length, seed)).map_err(raise)?;
        Ok(Self(Batches::new(columns, edges)))
    }

    /// Returns the numbers of the columns, the offsets and the masks of rows from `start` up to `stop`.
    fn rows<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<RowsTaken<'py>> {
        let pool = pool()?;
        let batch = py.detach(|| self.0.between(&pool, start, stop)).map_err(raise)?;
        let columns = self.0.columns().sources().iter().zip(batch.values);
        let columns = columns.map(|(source, values)| writable(py, source.number, values));
        let offsets = batch.lists.into_iter().map(|one| writable(py, Number::I64, one.into_offsets()));
        let masks = batch.masks.into_iter().map(|mask| writable(py, Number::Bool, mask));
        Ok((
            columns.collect::<PyResult<_>>()?,
            offsets.collect::<PyResult<_>>()?,
            masks.collect::<PyResult<_>>()?,
        ))
    }
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

#[pyfunction]
fn checksum(py: Python<'_>, data: Bound<'_, PyAny>) -> PyResult<u64> {
    let data = borrow::array::<u8>(&data)?;
    Ok(py.detach(|| envelope::checksum(&data)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RowSource>()?;
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(column_zones, module)?)
}
