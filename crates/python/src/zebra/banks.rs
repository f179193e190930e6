//! Banks that were written together: `sapwood._native.Structure`.

use crate::columns;
use crate::errors::raise;
use numpy::IntoPyArray;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use sapwood_root::Error;
use sapwood_root::zebra::bank::{Link, Structure};
use sapwood_root::zebra::layout::{Kind, Run};
use sapwood_root::zebra::words::{Order, Words};
use std::sync::Arc;

/// Words of one kind: the letter of the kind, and an array, a text or a number.
pub fn piece<'py>(
    py: Python<'py>,
    words: &Words<'_>,
    (kind, start, count): Run,
) -> PyResult<(char, Bound<'py, PyAny>)> {
    columns::load(py)?;
    let part = words.slice(start, count).map_err(raise)?;
    let data = match kind {
        Kind::Int => part.iter().map(u32::cast_signed).collect::<Vec<i32>>().into_pyarray(py).into_any(),
        Kind::Float => part.floats().map_err(raise)?.into_pyarray(py).into_any(),
        Kind::Double => {
            let doubles: Result<Vec<f64>, Error> =
                (0..count / 2).map(|place| part.double(2 * place)).collect();
            doubles.map_err(raise)?.into_pyarray(py).into_any()
        }
        Kind::Text => {
            let text: String = match std::str::from_utf8(part.bytes()) {
                Ok(text) => text.to_owned(),
                Err(_) => part.bytes().iter().map(|&byte| char::from(byte)).collect(),
            };
            PyString::new(py, &text).into_any()
        }
        Kind::Bits | Kind::Control | Kind::Unused => {
            part.iter().collect::<Vec<u32>>().into_pyarray(py).into_any()
        }
    };
    Ok((kind.letter(), data))
}

pub fn pieces<'py>(py: Python<'py>, words: &Words<'_>, runs: &[Run]) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for &run in runs {
        list.append(piece(py, words, run)?)?;
    }
    Ok(list)
}

/// Banks that were written together.
#[pyclass(frozen, name = "Structure", module = "sapwood._native")]
pub struct PyStructure {
    pub bytes: Arc<Vec<u8>>,
    pub parsed: Parsed,
    pub order: Order,
}

/// The descriptions of the banks in a structure.
pub struct Parsed {
    banks: Vec<ParsedBank>,
    entry: Option<usize>,
}

struct ParsedBank {
    name: String,
    number: i32,
    structural: u32,
    status: u32,
    links: Vec<i64>,
    io: Vec<u32>,
    /// Range of its data in the bytes.
    data: std::ops::Range<usize>,
    runs: Vec<Run>,
}

impl Parsed {
    /// Parses the banks; they begin after `before` bytes.
    pub fn of(structure: &Structure<'_>, before: usize) -> Self {
        let target = |link: Link| match link {
            Link::Null => -1,
            Link::Outside => -2,
            Link::Bank(number) => number as i64,
        };
        let bank = |number: usize| {
            let found = structure.bank(number).copied();
            let links = found.map_or(0, |bank| bank.links as usize);
            let ends = [structure.next(number)];
            let links = ends.into_iter().chain((1..=links).map(|link| structure.link(number, link)));
            let place = |word: usize| before + 4 * word;
            let data = found
                .map_or(0..0, |bank| place(bank.data_start())..place(bank.data_start() + bank.data as usize));
            ParsedBank {
                name: structure.name(number),
                number: structure.id(number),
                structural: found.map_or(0, |bank| bank.structural),
                status: structure.status(number),
                links: links.chain([structure.up(number)]).map(target).collect(),
                io: structure.io(number).map(|io| io.iter().collect()).unwrap_or_default(),
                data,
                runs: structure.runs(number).unwrap_or_default(),
            }
        };
        Self { banks: (0..structure.banks.len()).map(bank).collect(), entry: structure.entry }
    }
}

impl PyStructure {
    fn bank(&self, index: usize) -> PyResult<&ParsedBank> {
        self.parsed.banks.get(index).ok_or_else(|| PyIndexError::new_err(index))
    }
}

#[pymethods]
impl PyStructure {
    #[getter]
    fn entry(&self) -> Option<usize> {
        self.parsed.entry
    }
    fn __len__(&self) -> usize {
        self.parsed.banks.len()
    }
    /// Returns name, number, structural links, status and I/O words of a bank.
    fn about(&self, index: usize) -> PyResult<(&str, i32, u32, u32, Vec<u32>)> {
        let bank = self.bank(index)?;
        Ok((&bank.name, bank.number, bank.structural, bank.status, bank.io.clone()))
    }
    /// Returns the target bank of each link: next, 1 to the last, up; -1 for none, -2 for a bank that was not written.
    fn links(&self, index: usize) -> PyResult<Vec<i64>> {
        Ok(self.bank(index)?.links.clone())
    }
    fn data<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Bound<'py, PyList>> {
        let bank = self.bank(index)?;
        let bytes = self.bytes.get(bank.data.clone()).unwrap_or_default();
        pieces(py, &Words::new(bytes, self.order, 0), &bank.runs)
    }
}
