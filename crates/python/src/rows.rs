//! Rows of columns for batches, what an index keeps of the values of zones, and checksums of columns.

use crate::borrow;
use crate::columns::{array, writable};
use crate::errors::raise;
use crate::runtime::pool;
use arrow_buffer::{Buffer, ScalarBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rayon::prelude::*;
use sapwood_root::array::Number;
use sapwood_root::array::extremes;
use sapwood_root::array::gather::{self, Lists, Rows};
use sapwood_root::array::pool::Filled;
use sapwood_root::ntuple::envelope;
use sapwood_root::{Error, Result};

/// The arrays of a column.
type Arrays = Vec<(Number, Filled)>;

/// A column: its numbers, how many of them an entry (or an item of a list) has, which of the lists of offsets it has,
/// and the length to which its lists are padded.
struct Source {
    number: Number,
    values: Buffer,
    width: usize,
    lists: Option<usize>,
    pad: Option<usize>,
}

impl Source {
    /// The arrays of some rows: the values; of lists also their offsets before them, or the mask behind them.
    fn rows(&self, rows: Rows<'_>, lists: &[Lists]) -> Result<Arrays> {
        let item = self.number.size();
        let width = self.width.saturating_mul(item);
        let Some(place) = self.lists else {
            return Ok(vec![(self.number, gather::fixed(&self.values, width, rows)?)]);
        };
        let lists =
            lists.get(place).ok_or_else(|| Error::argument("a column names offsets that are not there"))?;
        if let Some(pad) = self.pad {
            let values = lists.padded(&self.values, width, item, pad)?;
            return Ok(vec![(self.number, values), (Number::Bool, lists.mask(pad)?)]);
        }
        let mut offsets = Filled::new(size_of_val(lists.offsets()))?;
        for (to, offset) in offsets.bytes().as_chunks_mut().0.iter_mut().zip(lists.offsets()) {
            *to = offset.to_ne_bytes();
        }
        Ok(vec![(Number::I64, offsets), (self.number, lists.items(&self.values, width)?)])
    }
}

type SourceGiven<'py> = (Bound<'py, PyAny>, usize, Option<usize>, Option<usize>);

#[pyfunction]
fn take_rows<'py>(
    py: Python<'py>,
    columns: Vec<SourceGiven<'py>>,
    offsets: Vec<Bound<'py, PyAny>>,
    edges: Vec<usize>,
    length: usize,
    seed: Option<u64>,
) -> PyResult<Bound<'py, PyList>> {
    let source = |(values, width, lists, pad): SourceGiven<'py>| {
        let (number, values) = borrow::numbers(&values)?;
        Ok(Source { number, values, width, lists, pad })
    };
    let columns = columns.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
    let offsets = offsets.iter().map(words).collect::<PyResult<Vec<_>>>()?;
    if edges.is_empty() || !edges.is_sorted() || edges.last() > Some(&length) {
        return Err(PyValueError::new_err("the edges of the pieces are not in order"));
    }
    let work = || -> Result<Vec<Vec<Arrays>>> {
        let chosen = seed.map(|seed| gather::permutation(length, seed)).transpose()?;
        let piece = |pair: &[usize]| {
            let (start, stop) = if let [start, stop] = *pair { (start, stop) } else { (0, 0) };
            let own = chosen.as_ref().and_then(|rows| rows.get(start..stop));
            let rows = own.map_or(Rows::Range(start, stop), Rows::Chosen);
            let lists = offsets.iter().map(|one| Lists::of(one, rows)).collect::<Result<Vec<_>>>()?;
            columns.iter().map(|column| column.rows(rows, &lists)).collect()
        };
        edges.par_windows(2).map(piece).collect()
    };
    let pool = pool()?;
    let found = py.detach(|| pool.install(work)).map_err(raise)?;
    let list = PyList::empty(py);
    for piece in found {
        let own = PyList::empty(py);
        for arrays in piece {
            let arrays = arrays.into_iter().map(|(number, filled)| writable(py, number, filled));
            own.append(arrays.collect::<PyResult<Vec<_>>>()?)?;
        }
        list.append(own)?;
    }
    Ok(list)
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
    let found = py.detach(|| extremes::extremes(number, &values, &edges)).map_err(raise)?;
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
