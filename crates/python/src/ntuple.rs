//! RNTuples and their fields.

use crate::runtime::with_file;
use crate::table::{PyField, PyTable};
use pyo3::prelude::*;
use pyo3::types::PyList;
use sapwood_root::ntuple::envelope::Locator;
use sapwood_root::ntuple::pages::{ColumnRange, PageList};
use sapwood_root::ntuple::schema::{Field, Role};
use sapwood_root::ntuple::verify::verify;
use sapwood_root::ntuple::{ClusterPages, NTuple, encoding};
use std::sync::Arc;

/// The additional methods of RNTuples.
#[pyclass(frozen, extends = PyTable, name = "NTuple", module = "sapwood._native")]
pub struct PyNTuple {
    ntuple: Arc<NTuple>,
}

impl PyNTuple {
    /// Wraps an open RNTuple.
    pub fn new(py: Python<'_>, ntuple: NTuple) -> PyResult<Py<Self>> {
        let ntuple = Arc::new(ntuple);
        let table = PyTable::of(ntuple.clone());
        Py::new(py, PyClassInitializer::from(table).add_subclass(Self { ntuple }))
    }
    /// The RNTuple.
    pub fn ntuple(&self) -> Arc<NTuple> {
        self.ntuple.clone()
    }
}

/// The description of a field in the schema, in the order of its record.
type FieldRecord<'a> =
    (u32, u32, usize, u16, u16, u64, Option<usize>, Option<u32>, &'a str, &'a str, &'a str, &'a str);

/// A page: number of elements, whether a checksum follows, and its location in the file (first byte and length).
type PageRecord = (u64, bool, Option<(u64, u64)>);
/// A column in a cluster: whether it is suppressed, its first element, its compression, its pages.
type ColumnPages = (bool, u64, u32, Vec<PageRecord>);

#[pymethods]
impl PyNTuple {
    #[getter]
    fn writer(&self) -> &str {
        &self.ntuple.writer
    }
    #[getter]
    fn version(&self) -> [u16; 4] {
        self.ntuple.anchor.version
    }
    fn column_bytes(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let each = with_file(py, &self.ntuple.file, || self.ntuple.column_bytes(0, self.ntuple.entries))?;
        let add = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
        Ok(each.into_iter().fold((0, 0), add))
    }
    /// Returns first entry and number of entries of each cluster.
    fn cluster_entries(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64)>> {
        let clusters = with_file(py, &self.ntuple.file, || self.ntuple.clusters(0, self.ntuple.entries))?;
        let each = clusters.iter().filter_map(ClusterPages::cluster);
        Ok(each.map(|cluster| (cluster.first_entry, cluster.entries)).collect())
    }
    /// Location of its header.
    #[getter]
    fn header_offset(&self) -> u64 {
        self.ntuple.anchor.header.offset
    }
    #[getter]
    fn header_checksum(&self) -> u64 {
        self.ntuple.header_checksum
    }
    #[getter]
    fn ntuple_fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let field = |index| {
            let field = PyField::new(self.ntuple.clone(), index);
            Py::new(
                py,
                PyClassInitializer::from(field)
                    .add_subclass(PyNTupleField { ntuple: self.ntuple.clone(), index }),
            )
        };
        PyList::new(py, (0..self.ntuple.listed.len()).map(field).collect::<PyResult<Vec<_>>>()?)
    }
    fn field_records(&self) -> Vec<FieldRecord<'_>> {
        self.ntuple.schema.fields.iter().enumerate().map(|(id, field)| record(id, field)).collect()
    }
    #[allow(clippy::type_complexity, reason = "a plain table")]
    fn column_records(
        &self,
    ) -> Vec<(u16, Option<&'static str>, u16, usize, u16, u16, i64, Option<(f64, f64)>)> {
        let columns = self.ntuple.schema.columns.iter();
        columns
            .map(|column| {
                let first = column.first_element as i64;
                (
                    column.kind,
                    encoding::name(column.kind),
                    column.bits,
                    column.field,
                    column.flags,
                    column.representation,
                    if column.starts_suppressed { -first } else { first },
                    column.range,
                )
            })
            .collect()
    }
    fn alias_records(&self) -> Vec<(usize, usize)> {
        self.ntuple.schema.aliases.clone()
    }
    /// Returns first entry, number of entries and number of clusters of each group.
    fn cluster_groups(&self) -> Vec<(u64, u64, u32)> {
        self.ntuple.groups.iter().map(|group| (group.first_entry, group.entries, group.clusters)).collect()
    }
    /// Returns the clusters of a group: first entry, number of entries, and the pages of each column.
    fn page_list(&self, py: Python<'_>, group: usize) -> PyResult<Vec<(u64, u64, Vec<ColumnPages>)>> {
        let list = with_file(py, &self.ntuple.file, || self.ntuple.page_list(group))?;
        let column = |range| column_pages(&list, range);
        let clusters = list.clusters.iter();
        Ok(clusters
            .map(|one| (one.first_entry, one.entries, one.columns.iter().map(column).collect()))
            .collect())
    }
    #[getter]
    fn attribute_sets(&self) -> Vec<(&str, u16, u16)> {
        let sets = self.ntuple.attributes.iter();
        sets.map(|set| (set.name.as_str(), set.version.0, set.version.1)).collect()
    }
    /// Verifies clusters and pages against their description. Returns the faults (code, part, text, first entries of the
    /// first and the last cluster), and first byte and end of each byte range in use.
    #[allow(clippy::type_complexity, reason = "a plain table")]
    fn verify(
        &self,
        py: Python<'_>,
        deep: bool,
    ) -> (Vec<(&'static str, String, String, Option<(u64, u64)>)>, Vec<(u64, u64)>) {
        let found = py.detach(|| verify(&self.ntuple, deep));
        let faults = found.faults.into_iter();
        let used = found.used.iter().map(|range| (range.offset, range.offset + range.length));
        (
            faults.map(|fault| (fault.code, fault.part, fault.error.to_string(), fault.clusters)).collect(),
            used.collect(),
        )
    }
    fn attribute_set(&self, py: Python<'_>, name: &str) -> PyResult<Py<Self>> {
        Self::new(py, with_file(py, &self.ntuple.file, || self.ntuple.attribute_set(name))?)
    }
}

fn column_pages(list: &PageList, range: &ColumnRange) -> ColumnPages {
    let mut start = 0;
    let mut pages = Vec::new();
    for page in list.pages(range) {
        let place = match page.locator {
            Locator::File { offset, bytes } => Some((offset, bytes)),
            Locator::Elsewhere(_) => None,
        };
        pages.push((page.end - start, page.checksum, place));
        start = page.end;
    }
    (range.suppressed, range.first_element, range.compression, pages)
}

fn record(id: usize, field: &Field) -> FieldRecord<'_> {
    let role = match field.role {
        Role::Leaf => 0,
        Role::Collection => 1,
        Role::Record => 2,
        Role::Variant => 3,
        Role::Streamer => 4,
        Role::Unknown(role) => role,
    };
    (
        field.field_version,
        field.type_version,
        field.parent.unwrap_or(id),
        role,
        field.flags,
        field.array_size.unwrap_or(0),
        field.source,
        field.checksum,
        &field.name,
        &field.typename,
        &field.alias,
        &field.description,
    )
}

/// The additional methods of RNTuple fields.
#[pyclass(frozen, extends = PyField, name = "NTupleField", module = "sapwood._native")]
pub struct PyNTupleField {
    ntuple: Arc<NTuple>,
    index: usize,
}

#[pymethods]
impl PyNTupleField {
    #[getter]
    fn field_id(&self) -> Option<usize> {
        self.ntuple.listed.get(self.index).map(|listed| listed.field)
    }
    #[getter]
    fn column_ids(&self) -> Vec<usize> {
        self.ntuple.columns_of(self.index)
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyNTuple>()?;
    module.add_class::<PyNTupleField>()
}
