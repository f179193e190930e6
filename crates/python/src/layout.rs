//! Mapping data to branches, and branches to nested Python tuples.

use crate::errors::raise;
use crate::shapes::{from_shape, to_data_type, to_shape};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sapwood_root::array::Number;
use sapwood_root::compress::encode::Compression;
use sapwood_root::streamer::datatype::ClassNames;
use sapwood_root::streamer::declare::{Class, Shape};
use sapwood_root::tree::writer::{
    BranchData, BranchKind, BranchLayout, BranchNames, BranchSpec, Destination, Lists, Records,
};
use sapwood_root::{Error, Result};
use std::cell::RefCell;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(plan_branches, module)?)
}

/// A branch: name, kind (`"numbers"`, `"counted"`, `"counter"`, `"text"`, `"leaves"`, `"object"`), shape, dimensions,
/// index of the counter, split level, whether member-wise, compression code.
pub type Branch<'py> = (String, String, Bound<'py, PyTuple>, Vec<usize>, usize, i32, bool, Option<u32>);

/// Data of one name: type, layout of lists, layout of records, split level, whether member-wise.
type NamedData<'py> = (String, Bound<'py, PyTuple>, String, String, i32, bool);

/// Branches, and the destination of the data of each name.
type PlannedBranches<'py> = (Vec<Branch<'py>>, Vec<(String, PyDestination)>);

/// Destination of data: the index of a branch; or the name of records, whether they are lists, and their fields.
#[derive(IntoPyObject)]
enum PyDestination {
    Branch(usize),
    Fields(String, bool, Vec<(String, PyDestination)>),
}

impl From<Destination> for PyDestination {
    fn from(found: Destination) -> Self {
        match found {
            Destination::Branch(index) => Self::Branch(index),
            Destination::Fields { name, listed, fields } => Self::Fields(
                name,
                listed,
                fields.into_iter().map(|(name, field)| (name, field.into())).collect(),
            ),
        }
    }
}

/// Returns the branches for data, and the destination of the data of each name.
#[pyfunction]
fn plan_branches<'py>(
    py: Python<'py>,
    data: Vec<NamedData<'py>>,
    classes: ClassNames,
    counter_name: &Bound<'py, PyAny>,
    field_name: &Bound<'py, PyAny>,
) -> PyResult<PlannedBranches<'py>> {
    let data = data.into_iter().map(|(name, kind, lists, records, split_level, member_wise)| {
        let lists = if lists == "vector" { Lists::Vectors } else { Lists::Counted };
        let records = match records.as_str() {
            "leaves" => Records::Leaves,
            "class" => Records::Objects,
            _ => Records::Branches,
        };
        Ok(BranchData { name, kind: to_data_type(&kind)?, lists, records, split_level, member_wise })
    });
    let data: Vec<BranchData> = data.collect::<PyResult<_>>()?;
    // An exception raised by a naming function is passed on unchanged.
    let raised = RefCell::new(None);
    let named = |name: PyResult<Bound<'py, PyAny>>| -> Result<String> {
        name.and_then(|name| name.extract()).map_err(|error| {
            raised.replace(Some(error));
            Error::argument("a branch has no name")
        })
    };
    let counter = |name: &str| named(counter_name.call1((name,)));
    let field = |name: &str, field: &str| named(field_name.call1((name, field)));
    let names = BranchNames { classes: &classes, counter: &counter, field: &field };
    let layout = BranchLayout::new(&data, &names);
    if let Some(error) = raised.take() {
        return Err(error);
    }
    let layout = layout.map_err(raise)?;
    let branches = layout.branches.into_iter().map(|spec| from_spec(py, spec));
    let found = layout.destinations.into_iter().map(|(name, found)| (name, found.into()));
    Ok((branches.collect::<PyResult<_>>()?, found.collect()))
}

pub fn to_compression(code: Option<u32>) -> PyResult<Option<Compression>> {
    code.map(Compression::from_code).transpose().map_err(raise)
}

pub fn to_specs(branches: Vec<Branch<'_>>) -> PyResult<Vec<BranchSpec>> {
    branches.into_iter().map(to_spec).collect()
}

fn to_spec(branch: Branch<'_>) -> PyResult<BranchSpec> {
    let (name, kind, shape, dims, counter, split_level, member_wise, compression) = branch;
    let shape = to_shape(&shape)?;
    let kind = match (kind.as_str(), shape) {
        ("numbers", number) => BranchKind::Numbers { number, dims },
        ("counted", number) => BranchKind::Counted { number, dims, counter },
        ("counter", _) => BranchKind::Counter,
        ("text", _) => BranchKind::Text,
        ("leaves", Shape::Class(class)) => BranchKind::Leaves(class.members),
        ("object", shape) => BranchKind::Object { shape, split_level, member_wise },
        (other, _) => return Err(raise(Error::argument(format!("branch {name}: no kind {other}")))),
    };
    Ok(BranchSpec { name, kind, compression: to_compression(compression)? })
}

pub fn from_spec(py: Python<'_>, spec: BranchSpec) -> PyResult<Branch<'_>> {
    let nothing = || Shape::Number(Number::I32);
    let (kind, shape, dims, counter, split_level, member_wise) = match spec.kind {
        BranchKind::Numbers { number, dims } => ("numbers", number, dims, 0, 0, true),
        BranchKind::Counted { number, dims, counter } => ("counted", number, dims, counter, 0, true),
        BranchKind::Counter => ("counter", nothing(), Vec::new(), 0, 0, true),
        BranchKind::Text => ("text", nothing(), Vec::new(), 0, 0, true),
        BranchKind::Leaves(members) => {
            let class = Class { name: spec.name.clone(), version: 1, members };
            ("leaves", Shape::Class(class), Vec::new(), 0, 0, true)
        }
        BranchKind::Object { shape, split_level, member_wise } => {
            ("object", shape, Vec::new(), 0, split_level, member_wise)
        }
    };
    let code = spec.compression.map(Compression::code);
    Ok((spec.name, kind.to_owned(), from_shape(py, &shape)?, dims, counter, split_level, member_wise, code))
}
