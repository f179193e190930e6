//! The additional methods of trees and their branches.

use crate::runtime::with_table;
use crate::table::{PyField, PyTable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use sapwood_root::streamer::packed::range_text;
use sapwood_root::tree::{Basket, BasketPlace, Branch, Tree};
use std::sync::Arc;

/// The additional methods of trees.
#[pyclass(frozen, extends = PyTable, name = "Tree", module = "sapwood._native")]
pub struct PyTree {
    tree: Arc<Tree>,
}

impl PyTree {
    /// Wraps an open tree.
    pub fn new(py: Python<'_>, tree: Tree) -> PyResult<Py<Self>> {
        let tree = Arc::new(tree);
        let table = PyTable::of(tree.clone());
        Py::new(py, PyClassInitializer::from(table).add_subclass(Self { tree }))
    }
    /// The tree itself.
    pub fn tree(&self) -> Arc<Tree> {
        self.tree.clone()
    }
}

#[pymethods]
impl PyTree {
    #[getter]
    fn total_bytes(&self) -> u64 {
        self.tree.total_bytes
    }
    #[getter]
    fn compressed_bytes(&self) -> u64 {
        self.tree.compressed_bytes
    }
    #[getter]
    fn auto_flush(&self) -> i64 {
        self.tree.auto_flush
    }
    #[getter]
    fn friends(&self) -> Vec<(&str, &str, &str)> {
        self.tree.friends.iter().map(|f| (f.name.as_str(), f.file.as_str(), f.tree.as_str())).collect()
    }
    #[getter]
    fn index(&self) -> Option<&(String, String)> {
        self.tree.index.as_ref()
    }
    #[getter]
    fn weight(&self) -> f64 {
        self.tree.weight
    }
    #[getter]
    fn branches<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let branch = |index| {
            let field = PyField::new(self.tree.clone(), index);
            let branch = PyBranch { tree: self.tree.clone(), index };
            Py::new(py, PyClassInitializer::from(field).add_subclass(branch))
        };
        PyList::new(py, (0..self.tree.branches.len()).map(branch).collect::<PyResult<Vec<_>>>()?)
    }
}

/// The additional methods of branches.
#[pyclass(frozen, extends = PyField, name = "Branch", module = "sapwood._native")]
pub struct PyBranch {
    tree: Arc<Tree>,
    index: usize,
}

impl PyBranch {
    fn branch(&self) -> PyResult<&Branch> {
        self.tree.branches.get(self.index).ok_or_else(|| PyValueError::new_err("no such branch"))
    }
}

#[pymethods]
impl PyBranch {
    #[getter]
    fn classname(&self) -> PyResult<&str> {
        Ok(self.branch()?.element.as_ref().map_or("", |e| e.class_name.as_str()))
    }
    #[getter]
    fn encoded_classname(&self) -> PyResult<&str> {
        Ok(&self.branch()?.class)
    }
    #[getter]
    fn leaves(&self) -> PyResult<Vec<(&str, &str, &str)>> {
        Ok(self
            .branch()?
            .leaves
            .iter()
            .map(|l| (l.class.as_str(), l.name.as_str(), l.title.as_str()))
            .collect())
    }
    #[getter]
    fn count_branch(&self) -> PyResult<Option<usize>> {
        Ok(self.branch()?.counter)
    }
    #[getter]
    fn num_baskets(&self) -> PyResult<usize> {
        Ok(self.branch()?.baskets.len())
    }
    #[getter]
    fn compression(&self) -> PyResult<i64> {
        Ok(self.branch()?.compression)
    }
    #[getter]
    fn basket_entries(&self) -> PyResult<Vec<u64>> {
        let baskets = &self.branch()?.baskets;
        let end = baskets.last().map_or(0, |b| b.first + b.entries);
        Ok(baskets.iter().map(|b| b.first).chain([end]).collect())
    }
    #[getter]
    fn basket_bytes(&self) -> PyResult<Vec<u64>> {
        Ok(self.branch()?.baskets.iter().map(Basket::bytes).collect())
    }
    #[getter]
    fn basket_seeks(&self) -> PyResult<Vec<u64>> {
        Ok(self.branch()?.baskets.iter().map(Basket::seek).collect())
    }
    /// Indices of the baskets inside the tree object.
    #[getter]
    fn embedded_baskets(&self) -> PyResult<Vec<usize>> {
        let baskets = self.branch()?.baskets.iter().enumerate();
        Ok(baskets
            .filter(|(_, basket)| matches!(basket.place, BasketPlace::Tree(_)))
            .map(|(i, _)| i)
            .collect())
    }
    /// Returns the values of a basket, the starts of its entries, and the end of the last one.
    fn basket<'py>(
        &self,
        py: Python<'py>,
        number: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Option<Vec<u32>>)> {
        let (data, bounds) = with_table(py, &*self.tree, || self.tree.contents(self.index, number))?;
        Ok((PyBytes::new(py, &data), bounds))
    }
    /// Text of the range in the title of its first leaf, without the brackets.
    #[getter]
    fn range_text(&self) -> PyResult<Option<&str>> {
        Ok(self.branch()?.leaves.first().and_then(|leaf| range_text(&leaf.title)))
    }
    /// Packing of its numbers: range and bits.
    #[getter]
    fn packing(&self) -> Option<(f64, f64, u32)> {
        self.tree.program(self.index).ok()?.kind.packing()?.spec()
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTree>()?;
    module.add_class::<PyBranch>()
}
