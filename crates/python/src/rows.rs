//! Rows of columns for batches, statistics of zones for an index, and checksums of columns.

use crate::borrow;
use crate::columns::{array, writable};
use crate::errors::raise;
use crate::runtime::pool;
use arrow_buffer::{Buffer, ScalarBuffer};
use pyo3::prelude::*;
use rayon::prelude::*;
use sapwood_root::array::Number;
use sapwood_root::array::extremes;
use sapwood_root::array::gather::{self, Lists, Rows};
use sapwood_root::array::pool::Filled;
use sapwood_root::ntuple::envelope;
use sapwood_root::{Error, Result};

/// Fewer bytes of a batch are taken by the calling thread.
const FEW: usize = 8 << 20;

/// A column: its numbers, the bytes of one entry (or of an item of a list), the index of its list of offsets, and the
/// length to which its lists are padded.
struct Source {
    number: Number,
    values: Buffer,
    width: usize,
    lists: Option<usize>,
    pad: Option<usize>,
}

impl Source {
    /// Returns the numbers of some rows.
    fn rows(&self, rows: Rows<'_>, lists: &[Lists]) -> Result<Filled> {
        let Some(place) = self.lists else { return gather::fixed(&self.values, self.width, rows) };
        let lists =
            lists.get(place).ok_or_else(|| Error::argument("a column names offsets that are not there"))?;
        match self.pad {
            Some(pad) => lists.padded(&self.values, self.width, pad),
            None => lists.items(&self.values, self.width),
        }
    }
}

type SourceGiven<'py> = (Bound<'py, PyAny>, usize, Option<usize>, Option<usize>);
type RowsTaken<'py> = (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>);

/// Columns whose rows are taken, in the order of a permutation or in their own.
#[pyclass(frozen)]
struct RowSource {
    columns: Vec<Source>,
    offsets: Vec<ScalarBuffer<i64>>,
    /// The offsets and lengths of the masks: one for all columns that share both.
    masks: Vec<(usize, usize)>,
    order: Option<Vec<u32>>,
    length: usize,
    row_bytes: usize,
}

#[pymethods]
impl RowSource {
    #[new]
    fn new(
        py: Python<'_>,
        columns: Vec<SourceGiven<'_>>,
        offsets: Vec<Bound<'_, PyAny>>,
        masks: Vec<(usize, usize)>,
        length: usize,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        let source = |(values, width, lists, pad): SourceGiven<'_>| {
            let (number, values) = borrow::numbers(&values)?;
            Ok(Source { number, values, width: width.saturating_mul(number.size()), lists, pad })
        };
        let columns = columns.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
        let offsets = offsets.iter().map(words).collect::<PyResult<Vec<_>>>()?;
        let order = seed.map(|seed| py.detach(|| gather::permutation(length, seed)).map_err(raise));
        let row = |column: &Source| match column.pad {
            Some(pad) => column.width.saturating_mul(pad),
            None => column.values.len() / length.max(1),
        };
        let row_bytes = columns.iter().map(row).fold(0, usize::saturating_add);
        Ok(Self { columns, offsets, masks, order: order.transpose()?, length, row_bytes })
    }

    /// Returns the numbers of the columns, the offsets and the masks of rows from `start` up to `stop`.
    fn rows<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<RowsTaken<'py>> {
        let all = self.order.as_deref().map_or(Rows::Range(0, self.length), Rows::Chosen);
        let rows = all.between(start, stop);
        let rows = rows.ok_or_else(|| raise(Error::argument("a batch ends outside of its window")))?;
        let all_lists = || self.offsets.iter().map(|one| Lists::of(one, rows)).collect::<Result<Vec<_>>>();
        let mask = |lists: &[Lists], (place, pad): (usize, usize)| {
            let lists =
                lists.get(place).ok_or_else(|| Error::argument("a mask names offsets that are not there"))?;
            lists.mask(pad)
        };
        let work = || -> Result<_> {
            let lists = all_lists()?;
            let taken = self.columns.iter().map(|one| one.rows(rows, &lists)).collect::<Result<Vec<_>>>()?;
            let masks = self.masks.iter().map(|&one| mask(&lists, one)).collect::<Result<Vec<_>>>()?;
            Ok((taken, lists, masks))
        };
        let shared_work = || -> Result<_> {
            let lists = all_lists()?;
            let taken =
                self.columns.par_iter().map(|one| one.rows(rows, &lists)).collect::<Result<Vec<_>>>()?;
            let masks = self.masks.par_iter().map(|&one| mask(&lists, one)).collect::<Result<Vec<_>>>()?;
            Ok((taken, lists, masks))
        };
        let done = if rows.len().saturating_mul(self.row_bytes) < FEW {
            py.detach(work)
        } else {
            let pool = pool()?;
            py.detach(|| pool.install(shared_work))
        };
        let (taken, lists, masks) = done.map_err(raise)?;
        let columns = self.columns.iter().zip(taken);
        let columns = columns.map(|(source, values)| writable(py, source.number, values));
        let offsets = lists.into_iter().map(|one| writable(py, Number::I64, one.into_offsets()));
        let masks = masks.into_iter().map(|mask| writable(py, Number::Bool, mask));
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

type ExtremesFound<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

#[pyfunction]
fn zone_extremes<'py>(
    py: Python<'py>,
    values: Bound<'py, PyAny>,
    edges: Bound<'py, PyAny>,
) -> PyResult<ExtremesFound<'py>> {
    let ((number, values), edges) = (borrow::numbers(&values)?, words(&edges)?);
    let pool = pool()?;
    let look = || extremes::extremes(number, &values, &edges);
    let found = py.detach(|| if values.len() < extremes::FEW { look() } else { pool.install(look) });
    let found = found.map_err(raise)?;
    let number = if number == Number::Bool { Number::U8 } else { number };
    Ok((
        array(py, number, Buffer::from_slice_ref(&found.low))?,
        array(py, number, Buffer::from_slice_ref(&found.high))?,
        array(py, Number::I64, Buffer::from_vec(found.nan))?,
    ))
}

#[pyfunction]
fn longest_lists<'py>(
    py: Python<'py>,
    offsets: Bound<'py, PyAny>,
    edges: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (offsets, edges) = (words(&offsets)?, words(&edges)?);
    let found = py.detach(|| extremes::longest(&offsets, &edges)).map_err(raise)?;
    array(py, Number::I64, Buffer::from_vec(found))
}

#[pyfunction]
fn checksum(py: Python<'_>, data: Bound<'_, PyAny>) -> PyResult<u64> {
    let data = borrow::array::<u8>(&data)?;
    Ok(py.detach(|| envelope::checksum(&data)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RowSource>()?;
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(zone_extremes, module)?)?;
    module.add_function(wrap_pyfunction!(longest_lists, module)?)
}
