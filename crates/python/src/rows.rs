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

/// A column: its numbers, how many of them are in an entry (or an item of a list), the index of its list of offsets,
/// and the length to which its lists are padded.
struct Source {
    number: Number,
    values: Buffer,
    width: usize,
    lists: Option<usize>,
    pad: Option<usize>,
}

impl Source {
    /// Returns the numbers of some rows and, for padded lists, which items are present.
    fn rows(&self, rows: Rows<'_>, lists: &[Lists]) -> Result<(Filled, Option<Filled>)> {
        let width = self.width.saturating_mul(self.number.size());
        let Some(place) = self.lists else { return Ok((gather::fixed(&self.values, width, rows)?, None)) };
        let lists =
            lists.get(place).ok_or_else(|| Error::argument("a column names offsets that are not there"))?;
        match self.pad {
            Some(pad) => Ok((lists.padded(&self.values, width, pad)?, Some(lists.mask(pad)?))),
            None => Ok((lists.items(&self.values, width)?, None)),
        }
    }
}

type SourceGiven<'py> = (Bound<'py, PyAny>, usize, Option<usize>, Option<usize>);
type RowsTaken<'py> = (Vec<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)>, Vec<Bound<'py, PyAny>>);

#[pyfunction]
fn take_rows<'py>(
    py: Python<'py>,
    columns: Vec<SourceGiven<'py>>,
    offsets: Vec<Bound<'py, PyAny>>,
    length: usize,
    seed: Option<u64>,
) -> PyResult<RowsTaken<'py>> {
    let source = |(values, width, lists, pad): SourceGiven<'py>| {
        let (number, values) = borrow::numbers(&values)?;
        Ok(Source { number, values, width, lists, pad })
    };
    let columns = columns.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
    let offsets = offsets.iter().map(words).collect::<PyResult<Vec<_>>>()?;
    let work = || -> Result<_> {
        let chosen = seed.map(|seed| gather::permutation(length, seed)).transpose()?;
        let rows = chosen.as_deref().map_or(Rows::Range(0, length), Rows::Chosen);
        let lists = offsets.par_iter().map(|one| Lists::of(one, rows)).collect::<Result<Vec<_>>>()?;
        let taken = columns.par_iter().map(|one| one.rows(rows, &lists)).collect::<Result<Vec<_>>>()?;
        Ok((taken, lists))
    };
    let pool = pool()?;
    let (taken, lists) = py.detach(|| pool.install(work)).map_err(raise)?;
    let column = |(source, (values, mask)): (&Source, (Filled, Option<Filled>))| {
        let mask = mask.map(|mask| writable(py, Number::Bool, mask)).transpose()?;
        Ok((writable(py, source.number, values)?, mask))
    };
    let taken = columns.iter().zip(taken).map(column).collect::<PyResult<Vec<_>>>()?;
    let offsets = lists.into_iter().map(|one| writable(py, Number::I64, one.into_offsets()));
    Ok((taken, offsets.collect::<PyResult<Vec<_>>>()?))
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
    module.add_function(wrap_pyfunction!(take_rows, module)?)?;
    module.add_function(wrap_pyfunction!(checksum, module)?)?;
    module.add_function(wrap_pyfunction!(zone_extremes, module)?)?;
    module.add_function(wrap_pyfunction!(longest_lists, module)?)
}
