//! Tables of any format, their fields, and reading them.

use crate::columns::{self, Tuples};
use crate::errors::raise;
use crate::runtime::{pool, with_files, with_table};
use crate::storage;
use crate::writing::Output;
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use sapwood_io::{Source, Token};
use sapwood_root::read::{Carry, LeftOut, PagePlanned, Part, codecs, planned, read_with};
use sapwood_root::table::{
    FieldInfo, FieldReader, Hidden, Table, content_hash, count_pages, known_hash, places_hash, whole,
};
use std::sync::Arc;

/// A table of entries, of any format.
#[pyclass(frozen, subclass, name = "Table", module = "sapwood._native")]
pub struct PyTable {
    table: Arc<dyn Table>,
}

impl PyTable {
    /// Wraps a table of any format.
    pub const fn of(table: Arc<dyn Table>) -> Self {
        Self { table }
    }
    /// The table itself.
    pub fn table(&self) -> Arc<dyn Table> {
        self.table.clone()
    }
}

#[pymethods]
impl PyTable {
    #[getter]
    fn name(&self) -> &str {
        self.table.name()
    }
    #[getter]
    fn title(&self) -> &str {
        self.table.title()
    }
    #[getter]
    fn classname(&self) -> &str {
        self.table.classname()
    }
    #[getter]
    fn num_entries(&self) -> u64 {
        self.table.entries()
    }
    #[getter]
    fn aliases<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, expression) in self.table.aliases() {
            dict.set_item(name, expression)?;
        }
        Ok(dict)
    }
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let field = |index| Py::new(py, PyField { table: self.table.clone(), index });
        PyList::new(py, (0..self.table.num_fields()).map(field).collect::<PyResult<Vec<_>>>()?)
    }
    fn field_bytes(&self) -> (Vec<u64>, Vec<u64>) {
        (0..self.table.num_fields()).map(|index| self.table.field_bytes(index)).unzip()
    }
    fn clusters(&self) -> Vec<u64> {
        self.table.cluster_borders()
    }
    fn same_shape(&self, other: PyRef<'_, Self>) -> bool {
        self.table.same_shape(&*other.table)
    }
    fn whole(&self, py: Python<'_>, parts: bool) -> PyResult<Option<(Vec<usize>, Vec<&str>)>> {
        with_table(py, &*self.table, || Ok(whole(&*self.table, parts)))
    }
    fn bytes_in(&self, py: Python<'_>, fields: Vec<usize>, ranges: Vec<(u64, u64)>) -> Vec<f64> {
        py.detach(|| self.table.bytes_in(&fields, &ranges))
    }
    fn shared_columns(&self, field: usize) -> Option<Vec<usize>> {
        self.table.shared_columns(field)
    }
    fn count_pages(&self, py: Python<'_>, field: usize) -> usize {
        py.detach(|| count_pages(&*self.table, field))
    }
    fn codecs(&self, py: Python<'_>, pages: Vec<(usize, usize)>) -> PyResult<Vec<Option<u32>>> {
        with_table(py, &*self.table, || Ok(codecs(&*self.table, &pages)))
    }
    fn places_hash(&self, py: Python<'_>, field: usize) -> u64 {
        py.detach(|| places_hash(&*self.table, field))
    }
    fn content_hash(&self, py: Python<'_>, field: usize, output: Option<&Output>) -> PyResult<u64> {
        let pool = pool()?;
        let table = &*self.table;
        with_table(py, table, || {
            let known =
                |output: &Output| output.with_written(|written| Ok(known_hash(table, field, written)));
            match output.map(known).transpose()?.flatten() {
                Some(hash) => Ok(hash),
                None => pool.install(|| content_hash(table, field)),
            }
        })
    }
    /// Returns the numbers of fields, given by their names from the top down, joined by dots.
    fn numbers_of(&self, py: Python<'_>, paths: Vec<String>) -> Vec<Option<usize>> {
        let table = &*self.table;
        let number = |path: &String| {
            let mut names = path.split('.');
            let is = |name: &str, index: usize| table.field(index).is_some_and(|field| field.name == name);
            let first = names.next()?;
            let at_top = |&index: &usize| table.field(index).is_some_and(|field| field.parent.is_none());
            let top = (0..table.num_fields()).filter(at_top).find(|&index| is(first, index))?;
            names.try_fold(top, |above, name| {
                table.field(above)?.children.iter().copied().find(|&index| is(name, index))
            })
        };
        py.detach(|| paths.iter().map(number).collect())
    }
    #[allow(clippy::type_complexity, reason = "two plain tables")]
    fn plan(
        &self,
        py: Python<'_>,
        fields: Vec<usize>,
        start: u64,
        stop: u64,
    ) -> PyResult<(Vec<(usize, usize, usize, u64, u64, u64, u64)>, Vec<Vec<(u64, u64)>>)> {
        let threads = pool()?.current_num_threads();
        Ok(py.detach(|| {
            let pages = planned(&Part { table: &*self.table, fields: &fields, start, stop });
            let ranges: Vec<_> = pages.iter().map(|planned| planned.page.range).collect();
            let requests = self.table.source().requests(&ranges, threads);
            let row = |planned: &PagePlanned| {
                let page = &planned.page;
                let (offset, length) = (page.range.offset, page.range.length);
                (planned.cluster, page.column, page.number, offset, length, page.first, page.entries)
            };
            (pages.iter().map(row).collect(), requests.iter().map(|r| storage::pairs(r)).collect())
        }))
    }
    fn __repr__(&self) -> String {
        format!("<{} {:?} of {} entries>", self.table.classname(), self.table.name(), self.table.entries())
    }
}

/// A field of a table, of any format.
#[pyclass(frozen, subclass, name = "Field", module = "sapwood._native")]
pub struct PyField {
    table: Arc<dyn Table>,
    index: usize,
}

impl PyField {
    /// Wraps a field of a table.
    pub fn new(table: Arc<dyn Table>, index: usize) -> Self {
        Self { table, index }
    }
    fn field(&self) -> PyResult<FieldInfo<'_>> {
        self.table.field(self.index).ok_or_else(|| PyValueError::new_err("no such field"))
    }
    fn reader(&self) -> PyResult<Arc<dyn FieldReader>> {
        self.table.reader(self.index, &Hidden::new()).map_err(raise)
    }
}

#[pymethods]
impl PyField {
    #[getter]
    fn index(&self) -> usize {
        self.index
    }
    #[getter]
    fn parent(&self) -> PyResult<Option<usize>> {
        Ok(self.field()?.parent)
    }
    #[getter]
    fn children(&self) -> PyResult<Vec<usize>> {
        Ok(self.field()?.children.to_vec())
    }
    #[getter]
    fn name(&self) -> PyResult<&str> {
        Ok(self.field()?.name)
    }
    #[getter]
    fn title(&self) -> PyResult<&str> {
        Ok(self.field()?.title)
    }
    /// The class name that the file gives for its values.
    #[getter]
    #[allow(clippy::unused_self, reason = "fields of trees have one")]
    const fn classname(&self) -> &'static str {
        ""
    }
    #[getter]
    fn typename(&self) -> PyResult<String> {
        Ok(self.reader()?.typename().to_owned())
    }
    #[getter]
    fn entries(&self) -> PyResult<u64> {
        Ok(self.field()?.entries)
    }
    #[getter]
    fn total_bytes(&self) -> u64 {
        self.table.field_bytes(self.index).0
    }
    #[getter]
    fn compressed_bytes(&self) -> u64 {
        self.table.field_bytes(self.index).1
    }
    #[getter(r#type)]
    fn column_type<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.reader()?.of().as_ref().ok().map(|of| columns::type_of(py, of)).transpose()
    }
    #[getter]
    fn reason(&self) -> PyResult<Option<String>> {
        let reader = self.reader()?;
        Ok(reader.of().as_ref().err().filter(|_| !reader.is_group()).map(ToString::to_string))
    }
    #[getter]
    fn left_out(&self) -> PyResult<Vec<String>> {
        self.table.left_out(self.index).map_err(raise)
    }
    #[getter]
    fn doubts(&self) -> PyResult<Vec<String>> {
        Ok(self.reader()?.doubts().to_vec())
    }
    #[getter]
    fn has_data(&self) -> PyResult<bool> {
        Ok(!self.reader()?.is_group())
    }
    /// The pages that are read for all entries.
    #[getter]
    fn num_pages(&self) -> usize {
        let mut pages = Vec::new();
        self.table.pages(self.index, 0, self.table.entries(), &mut pages);
        pages.len()
    }
    fn longest_entry(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        with_table(py, &*self.table, || self.table.longest_entry(self.index))
    }
    fn __repr__(&self) -> String {
        format!("<Field {:?}>", self.table.path(self.index))
    }
}

#[pyclass(frozen, name = "Carry", module = "sapwood._native")]
pub struct PyCarry {
    carry: Carry,
}

#[pymethods]
impl PyCarry {
    #[new]
    fn new(room: usize) -> Self {
        Self { carry: Carry::new(room) }
    }
    fn announce(&self, py: Python<'_>, table: PyRef<'_, PyTable>, fields: Vec<usize>, start: u64, stop: u64) {
        let table = table.table();
        py.detach(|| self.carry.announce(&Part { table: &*table, fields: &fields, start, stop }));
    }
    #[getter]
    fn announced(&self) -> bool {
        self.carry.announced()
    }
    fn give_up(&self, py: Python<'_>) {
        py.detach(|| self.carry.give_up());
    }
}

/// A range of entries of some fields in a table.
pub type Slice = (Arc<dyn Table>, Vec<usize>, u64, u64);

#[pyfunction]
#[pyo3(signature = (parts, carry = None, left_out = None))]
fn read<'py>(
    py: Python<'py>,
    parts: Vec<(PyRef<'py, PyTable>, Vec<usize>, u64, u64)>,
    carry: Option<Py<PyCarry>>,
    left_out: Option<Bound<'py, PyList>>,
) -> PyResult<Bound<'py, PyList>> {
    let parts: Vec<Slice> =
        parts.into_iter().map(|(table, fields, start, stop)| (table.table(), fields, start, stop)).collect();
    let carry = carry.as_ref().map(Py::get);
    let noted = left_out.is_some().then(LeftOut::default);
    let carry = carry.filter(|_| parts.len() == 1).map(|carry| &carry.carry);
    let pool = pool()?;
    let work = || {
        let parts: Vec<Part<'_>> = parts
            .iter()
            .map(|(table, fields, start, stop)| Part { table: &**table, fields, start: *start, stop: *stop })
            .collect();
        read_with(&pool, &parts, carry, noted.as_ref())
    };
    let files: Vec<&dyn Source> = parts.iter().map(|part| part.0.source().as_ref()).collect();
    let token = carry.map_or_else(Token::default, |carry| carry.token().clone());
    let columns = with_files(py, &files, &token, work)?;
    let list = PyList::empty(py);
    if let (Some(left_out), Some(noted)) = (left_out, noted) {
        for error in noted.into_errors() {
            left_out.append(error.to_string())?;
        }
    }
    let made = without_garbage(py, columns.len(), || {
        let mut tuples = Tuples::default();
        columns.into_iter().try_for_each(|column| list.append(tuples.column(py, column)?))
    });
    made.map(|()| list)
}

/// Minimum number of objects that are created without garbage collection in between.
const MANY: usize = 100;

/// Creates objects that are all kept. Many objects are created without garbage collection, which would double the cost.
fn without_garbage<T>(py: Python<'_>, count: usize, make: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    if count < MANY {
        return make();
    }
    let gc = py.import(intern!(py, "gc"))?;
    if !gc.call_method0(intern!(py, "isenabled"))?.is_truthy()? {
        return make();
    }
    gc.call_method0(intern!(py, "disable"))?;
    let made = make();
    gc.call_method0(intern!(py, "enable"))?;
    made
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyTable>()?;
    module.add_class::<PyField>()?;
    module.add_class::<PyCarry>()?;
    module.add_function(wrap_pyfunction!(read, module)?)
}
