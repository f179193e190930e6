//! Expressions computed natively.

use crate::columns::{self, to_column};
use crate::errors::raise;
use crate::runtime::{pool, with_files};
use crate::table::PyTable;
use arrow_buffer::Buffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyList, PyTuple};
use sapwood_io::{Source, Token};
use sapwood_root::array::{Column, Number};
use sapwood_root::expr::corrections::{Content, Correction, Distribution, Flow, Function, Step};
use sapwood_root::expr::fill::{Axis, Bins, Edges, Fill, Storage};
use sapwood_root::expr::{
    self, Angular, Binary, Constant, Node, Op, Program, Quantity, Reduction, Test, Unary,
};
use sapwood_root::read::Part;
use std::sync::Arc;

#[pyclass(frozen, name = "Program", module = "sapwood._native")]
pub struct PyProgram {
    program: Program,
}

fn constant(value: &Bound<'_, PyAny>) -> PyResult<Constant> {
    if value.is_instance_of::<PyBool>() {
        return Ok(Constant::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Constant::Float(value.extract()?));
    }
    Ok(Constant::Int(value.extract()?))
}

fn named<T: Copy>(names: &[(&str, T)], name: &str) -> Option<T> {
    names.iter().find(|(known, _)| *known == name).map(|(_, what)| *what)
}

fn operation(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Op> {
    Ok(match name {
        "input" => {
            let (column, path) = value.extract()?;
            Op::Input(column, path)
        }
        "constant" => Op::Constant(constant(value)?),
        "where" => Op::Where,
        "count" => Op::Count,
        "first" => Op::First,
        "argsort" => Op::Argsort,
        "take" => Op::Take,
        "at" => Op::At,
        "filter" => Op::Filter,
        "slice" => {
            let (start, stop, step): (Option<i64>, Option<i64>, Option<i64>) = value.extract()?;
            Op::Slice(start, stop, step.unwrap_or(1))
        }
        "index" => Op::Index(value.extract()?),
        "combinations" => {
            let (n, k) = value.extract()?;
            Op::Combinations(n, k)
        }
        "combination_sums" => Op::CombinationSums(value.extract()?),
        "combination_items" => {
            let (n, k) = value.extract()?;
            Op::CombinationItems(n, k)
        }
        "combination_vectors" | "combination_vector_at" => {
            let (n, what): (usize, String) = value.extract()?;
            let what = named(Quantity::NAMES, &what);
            let what = what.ok_or_else(|| PyValueError::new_err("no such quantity"))?;
            if name == "combination_vectors" {
                Op::CombinationVectors(n, what)
            } else {
                Op::CombinationVectorAt(n, what)
            }
        }
        "cartesian" => Op::Cartesian(value.extract()?),
        "nested" => Op::Nested(value.extract()?),
        "nested_items" => Op::NestedItems(value.extract()?),
        "nested_distances" => Op::NestedDistances,
        "nested_test" => {
            let (all, compared, with, joined): (bool, String, f64, String) = value.extract()?;
            let of = |name: &str| {
                named(Binary::NAMES, name)
                    .ok_or_else(|| PyValueError::new_err(format!("no operation {name:?}")))
            };
            Op::NestedTest(Test::new(all, of(&compared)?, with, of(&joined)?).map_err(raise)?)
        }
        "correct" => Op::Correct(value.cast::<PyCorrection>()?.get().correction.clone()),
        "component" => {
            let what: String = value.extract()?;
            let what = named(Angular::NAMES, &what);
            Op::Component(what.ok_or_else(|| PyValueError::new_err("no such component"))?)
        }
        "energy" => Op::Energy,
        "local_index" => Op::LocalIndex,
        "concatenate" => Op::Concatenate,
        "fill_none" => Op::FillNone(constant(value)?),
        _ => {
            let found = named(Unary::NAMES, name).map(Op::Unary);
            let found = found.or_else(|| named(Binary::NAMES, name).map(Op::Binary));
            let found = found.or_else(|| named(Reduction::NAMES, name).map(Op::Reduce));
            return found.ok_or_else(|| PyValueError::new_err(format!("no operation {name:?}")));
        }
    })
}

#[pyclass(frozen, name = "Correction", module = "sapwood._native")]
pub struct PyCorrection {
    correction: Arc<Correction>,
}

#[pymethods]
impl PyCorrection {
    #[new]
    fn new(name: String, inputs: Vec<String>, contents: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Self> {
        let contents = contents.iter().map(|(kind, given)| content(kind, given)).collect::<PyResult<_>>()?;
        Ok(Self { correction: Arc::new(Correction::new(name, inputs, contents).map_err(raise)?) })
    }
}

/// Inputs with bin types and edges, the contents of the bins, and the treatment of values outside of them.
type BinsGiven = (Vec<(usize, String, Vec<f64>)>, Vec<usize>, (String, usize));

fn content(kind: &str, given: &Bound<'_, PyAny>) -> PyResult<Content> {
    Ok(match kind {
        "value" => Content::Value(given.extract()?),
        "bins" => {
            let (axes, contents, (flow, beyond)): BinsGiven = given.extract()?;
            let flow = match flow.as_str() {
                "error" => Flow::Error,
                "clamp" => Flow::Clamp,
                "wrap" => Flow::Wrap,
                _ => Flow::Content(beyond),
            };
            let axis =
                |(input, kind, numbers): (usize, String, Vec<f64>)| Ok((input, edges(&kind, &numbers)?));
            Content::Bins(axes.into_iter().map(axis).collect::<PyResult<_>>()?, contents, flow)
        }
        "category" => {
            let (input, keys, other) = given.extract()?;
            Content::Category(input, keys, other)
        }
        "formula" => {
            let steps: Vec<(String, f64)> = given.extract()?;
            let step = |(what, number): (String, f64)| match what.as_str() {
                "number" => Ok(Step::Number(number)),
                "input" => Ok(Step::Input(number as usize)),
                name => named(Function::NAMES, name)
                    .map(Step::Call)
                    .ok_or_else(|| PyValueError::new_err(format!("formulas have no {name:?}"))),
            };
            Content::Formula(steps.into_iter().map(step).collect::<PyResult<_>>()?)
        }
        "random" => {
            let (inputs, distribution): (_, String) = given.extract()?;
            let distribution = named(Distribution::NAMES, &distribution);
            let no_such = || PyValueError::new_err("no such distribution");
            Content::Random(inputs, distribution.ok_or_else(no_such)?)
        }
        "transform" => {
            let (input, whole, rule, content) = given.extract()?;
            Content::Transform { input, whole, rule, content }
        }
        _ => return Err(PyValueError::new_err(format!("corrections have no {kind:?}"))),
    })
}

/// Bin type, its numbers, whether there is an underflow and an overflow bin, and the node of the values.
type AxisGiven = (String, Vec<f64>, bool, bool, usize);
/// Axes; the nodes of selection, weight and sample; and the storage type of the bins.
type FillGiven = (Vec<AxisGiven>, Option<usize>, Option<usize>, Option<usize>, String);

fn edges(kind: &str, numbers: &[f64]) -> PyResult<Edges> {
    Ok(match (kind, numbers) {
        ("regular", &[bins, low, high]) => Edges::Regular { bins: bins as usize, low, high },
        ("integer", &[first, bins]) => Edges::Integer { bins: bins as usize, first: first as i64 },
        ("category", known) => Edges::Category(known.iter().map(|&one| one as i64).collect()),
        ("variable", edges) if edges.len() > 1 => Edges::Variable(edges.to_vec()),
        _ => return Err(PyValueError::new_err(format!("no axis {kind:?} of {} numbers", numbers.len()))),
    })
}

fn axis((kind, numbers, under, over, node): AxisGiven) -> PyResult<(Axis, usize)> {
    Ok((Axis { edges: edges(&kind, &numbers)?, under, over }, node))
}

fn fills(given: Vec<FillGiven>) -> PyResult<Vec<Fill>> {
    let fill = |(axes, select, weight, sample, storage): FillGiven| {
        let storage = match storage.as_str() {
            "sum" => Storage::Sum,
            "entries" => Storage::Entries,
            "weight" => Storage::Weight,
            "mean" => Storage::Mean,
            other => return Err(PyValueError::new_err(format!("no storage {other:?}"))),
        };
        let axes = axes.into_iter().map(axis).collect::<PyResult<_>>()?;
        Ok(Fill { axes, select, weight, sample, storage })
    };
    given.into_iter().map(fill).collect()
}

/// Returns the arrays of bins: sums, squares or means, and deviations.
fn arrays(py: Python<'_>, bins: Vec<Bins>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for bins in bins {
        let array = |values: Vec<f64>| {
            let column = Column::Number { number: Number::F64, values: Buffer::from_vec(values) };
            columns::column(py, column)?.get_item(1)
        };
        list.append((array(bins.sums)?, array(bins.squares)?, array(bins.deviations)?))?;
    }
    Ok(list)
}

fn given(data: &Bound<'_, PyList>) -> PyResult<Vec<Column>> {
    data.iter().map(|column| to_column(column.cast::<PyTuple>()?)).collect()
}

#[pymethods]
impl PyProgram {
    #[new]
    fn new(
        nodes: Vec<(String, Vec<usize>, Bound<'_, PyAny>)>,
        kept: Vec<usize>,
        regular: bool,
    ) -> PyResult<Self> {
        let nodes =
            nodes.into_iter().map(|(name, args, value)| Ok(Node { op: operation(&name, &value)?, args }));
        let program = Program::new(nodes.collect::<PyResult<_>>()?, &kept, regular).map_err(raise)?;
        Ok(Self { program })
    }

    fn columns<'py>(
        &self,
        py: Python<'py>,
        kept: Vec<usize>,
        data: Bound<'py, PyList>,
        length: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        let (data, pool) = (given(&data)?, pool()?);
        let found = py.detach(|| expr::columns(&pool, &self.program, &kept, &data, length)).map_err(raise)?;
        let list = PyList::empty(py);
        for column in found {
            list.append(columns::column(py, column)?)?;
        }
        Ok(list)
    }

    #[pyo3(signature = (wanted, data, length, shared = false))]
    fn fill<'py>(
        &self,
        py: Python<'py>,
        wanted: Vec<FillGiven>,
        data: Bound<'py, PyList>,
        length: usize,
        shared: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let (data, fills) = (given(&data)?, fills(wanted)?);
        let pool = if shared { Some(pool()?) } else { None };
        let work = || expr::fill_columns(pool.as_deref(), &self.program, &fills, &data, length);
        arrays(py, py.detach(work).map_err(raise)?)
    }

    fn fill_tables<'py>(
        &self,
        py: Python<'py>,
        wanted: Vec<FillGiven>,
        parts: Vec<(PyRef<'py, PyTable>, Vec<usize>, u64, u64)>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (fills, pool) = (fills(wanted)?, pool()?);
        let parts: Vec<_> = parts
            .into_iter()
            .map(|(table, fields, start, stop)| (table.table(), fields, start, stop))
            .collect();
        let work = || {
            let parts: Vec<Part<'_>> = parts
                .iter()
                .map(|(table, fields, start, stop)| Part {
                    table: &**table,
                    fields,
                    start: *start,
                    stop: *stop,
                })
                .collect();
            expr::fill_tables(&pool, &parts, &self.program, &fills)
        };
        let files: Vec<&dyn Source> = parts.iter().map(|part| part.0.source().as_ref()).collect();
        arrays(py, with_files(py, &files, &Token::default(), work)?)
    }

    fn types(
        &self,
        kept: Vec<usize>,
        data: Bound<'_, PyList>,
        length: usize,
    ) -> PyResult<Vec<(&'static str, usize, bool)>> {
        let found = expr::types(&self.program, &kept, &given(&data)?, length).map_err(raise)?;
        Ok(found.into_iter().map(|(number, depth, optional)| (number.dtype(), depth, optional)).collect())
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCorrection>()?;
    module.add_class::<PyProgram>()
}
