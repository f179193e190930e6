//! Files, directories and keys.

use crate::errors::raise_opening;
use crate::ntuple::PyNTuple;
use crate::objects;
use crate::runtime::{Deadline, interruptible, pool, with_file};
use crate::storage::{self, Far};
use crate::trace::snapshot;
use crate::tree::PyTree;
use crate::writing::Output;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use rayon::prelude::*;
use sapwood_io::{Cause, Source};
use sapwood_root::Error;
use sapwood_root::error::Within;
use sapwood_root::file::checksums::{Checksums, Written};
use sapwood_root::file::{Directory, Key, RootFile};
use sapwood_root::ntuple::{NTuple, salvage};
use sapwood_root::tree::Tree;
use sapwood_root::tree::basket::verify_basket;
use std::sync::Arc;

#[pyclass(frozen, name = "File", module = "sapwood._native")]
pub struct PyFile {
    file: Arc<RootFile>,
}

impl From<Arc<RootFile>> for PyFile {
    fn from(file: Arc<RootFile>) -> Self {
        Self { file }
    }
}

impl PyFile {
    /// Opens a file and reads its header.
    pub fn open(py: Python<'_>, source: &Arc<dyn Source>, deadline: Deadline) -> PyResult<Self> {
        let theirs = source.clone();
        let file = if source.latency().is_some() {
            interruptible(py, deadline, || source.interrupt(), move || RootFile::open(theirs))
        } else {
            let changed = |error: Error| if source.written_to() { error.of_change() } else { error };
            Ok(py.detach(|| RootFile::open(theirs).map_err(changed)))
        };
        let file = file.and_then(|file| file.map_err(raise_opening));
        let file = file.map_err(|error| storage::with_ledger(py, error, source.ledger()))?;
        Ok(Self { file: Arc::new(file) })
    }
    /// The file itself.
    pub fn file(&self) -> Arc<RootFile> {
        self.file.clone()
    }
}

#[pymethods]
impl PyFile {
    #[new]
    #[pyo3(signature = (source, name = None, far = None, prior = None))]
    fn new(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        name: Option<String>,
        far: Option<Far>,
        prior: Option<&str>,
    ) -> PyResult<Self> {
        // The deadline covers the whole opening: connection, copy, header.
        let deadline = Deadline::after(far.as_ref().map(Far::deadline).transpose()?.flatten());
        let source = storage::source(source, name, far.as_ref(), prior, deadline)?;
        Self::open(py, &source, deadline)
    }
    #[getter]
    fn name(&self) -> &str {
        self.file.name()
    }
    #[getter]
    fn version(&self) -> u32 {
        self.file.header().version
    }
    #[getter]
    fn is_64bit(&self) -> bool {
        self.file.header().is_64bit
    }
    #[getter]
    fn compression(&self) -> u32 {
        self.file.header().compression
    }
    #[getter]
    fn uuid(&self) -> &str {
        &self.file.header().uuid
    }
    #[getter]
    fn begin(&self) -> u64 {
        self.file.header().begin
    }
    #[getter]
    fn end(&self) -> u64 {
        self.file.header().end
    }
    #[getter]
    fn size(&self) -> u64 {
        self.file.source().size()
    }
    /// Returns bytes of the file.
    fn bytes<'py>(&self, py: Python<'py>, offset: u64, length: u64) -> PyResult<Bound<'py, PyBytes>> {
        let found = with_file(py, &self.file, || self.file.bytes(offset, length, Cause::Object))?;
        Ok(PyBytes::new(py, &found))
    }
    /// Position and length of the other records in the header: free segments, streamer info.
    fn places(&self) -> (u64, u64, u64, u64) {
        let h = self.file.header();
        (h.seek_free, h.nbytes_free.into(), h.seek_info, h.nbytes_info.into())
    }
    /// Returns the faults of baskets, given position, length, entries and branch name of each. `deep` also decompresses
    /// them.
    #[allow(clippy::type_complexity, reason = "a list of tuples")]
    fn check_baskets(
        &self,
        py: Python<'_>,
        baskets: Vec<(u64, u64, u64, String)>,
        deep: bool,
    ) -> PyResult<Vec<Option<(String, String)>>> {
        let pool = pool()?;
        let file = self.file.clone();
        let check = |(seek, bytes, entries, name): &(u64, u64, u64, String)| {
            let fault = verify_basket(&file, (*seek, *bytes), *entries, name, deep).err()?;
            Some((fault.0.to_owned(), fault.1.to_string()))
        };
        Ok(py.detach(|| pool.install(|| baskets.par_iter().map(check).collect())))
    }
    /// Compares records with checksums from now on. Returns the reason if the checksums cannot be used.
    fn use_checksums(&self, py: Python<'_>, stored: &[u8]) -> PyResult<Option<String>> {
        match py.detach(|| Checksums::parse(stored)) {
            Ok(checksums) => with_file(py, &self.file, || self.file.use_checksums(checksums)),
            Err(error) => Ok(Some(error.to_string())),
        }
    }
    /// Computes the checksums of all records, except those that a writer has collected.
    fn checksums<'py>(&self, py: Python<'py>, output: Option<&Output>) -> PyResult<Bound<'py, PyBytes>> {
        let of = |written: &Written| -> Result<Vec<u8>, Error> {
            let checksums = Checksums::of(&self.file, written).within(|| self.file.name().to_owned())?;
            Ok(checksums.encode())
        };
        let found = with_file(py, &self.file, || match output {
            Some(output) => output.with_written(of),
            None => of(&Written::default()),
        })?;
        Ok(PyBytes::new(py, &found))
    }
    /// Compares all records with the checksums in use: returns their number, and the differences with their offsets.
    #[allow(clippy::type_complexity, reason = "a plain table")]
    fn compare_checksums(&self, py: Python<'_>) -> PyResult<(usize, Vec<(Option<u64>, String)>)> {
        let (count, faults) = with_file(py, &self.file, || {
            self.file.checksums().map_or_else(|| Ok((0, Vec::new())), |sums| sums.compare_all(&self.file))
        })?;
        Ok((count, faults.into_iter().map(|fault| (fault.offset(), fault.message().to_owned())).collect()))
    }
    /// Reassembles RNTuples from records (first byte after the key, number of bytes). Skips those whose header is at a
    /// known offset.
    fn salvage(
        &self,
        py: Python<'_>,
        records: Vec<(u64, u64)>,
        known: Vec<u64>,
    ) -> PyResult<Vec<Py<PyNTuple>>> {
        let found = py.detach(|| salvage(&self.file, &records, &known));
        found.into_iter().map(|ntuple| PyNTuple::new(py, ntuple)).collect()
    }
    fn directory(&self, py: Python<'_>) -> PyResult<PyDirectory> {
        let directory = with_file(py, &self.file, || self.file.directory())?;
        Ok(PyDirectory { file: self.file.clone(), directory })
    }
    fn streamers(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, u32)>> {
        let classes = with_file(py, &self.file, || self.file.classes())?;
        Ok(classes.iter().map(|i| (i.name.to_string(), i.version, i.checksum)).collect())
    }
    fn has_sets_or_maps(&self, py: Python<'_>) -> PyResult<bool> {
        let classes = with_file(py, &self.file, || self.file.classes())?;
        let mut types = classes.iter().flat_map(|info| &info.elements).map(|element| &element.typename);
        Ok(types.any(|typename| typename.contains("set<") || typename.contains("map<")))
    }
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let classes = with_file(py, &self.file, || self.file.classes())?;
        objects::describe(py, &classes)
    }
    fn verify_classes(&self, py: Python<'_>) -> PyResult<()> {
        with_file(py, &self.file, || self.file.classes()?.verify())
    }
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        snapshot(py, self.file.source().counters())
    }
    fn close(&self) {
        self.file.source().close();
    }
    fn ledger(&self) -> Vec<(u64, u64, u64, u32, bool, String)> {
        storage::ledger(self.file.source().as_ref())
    }
    /// Returns the source of the file version, and the version.
    fn stored_version(&self) -> Option<(String, String)> {
        self.file.source().version().map(|version| (version.of, version.tag))
    }
    /// Returns the number of a local file, and when its content or its description was changed last, in nanoseconds.
    fn touched(&self) -> Option<(u64, i64)> {
        self.file.source().touched()
    }
    fn __repr__(&self) -> String {
        format!("<File {:?}>", self.file.name())
    }
}

#[pyclass(frozen, name = "Key", module = "sapwood._native")]
#[derive(Clone)]
pub struct PyKey {
    key: Key,
}

impl PyKey {
    /// The key itself.
    pub fn key(&self) -> &Key {
        &self.key
    }
}

#[pymethods]
impl PyKey {
    #[getter]
    fn name(&self) -> &str {
        &self.key.name
    }
    #[getter]
    fn title(&self) -> &str {
        &self.key.title
    }
    #[getter]
    fn classname(&self) -> &str {
        &self.key.classname
    }
    #[getter]
    fn cycle(&self) -> u16 {
        self.key.cycle
    }
    #[getter]
    fn seek(&self) -> u64 {
        self.key.seek
    }
    #[getter]
    fn object_bytes(&self) -> u32 {
        self.key.object_bytes
    }
    #[getter]
    fn total_bytes(&self) -> u32 {
        self.key.total_bytes
    }
    #[getter]
    fn key_bytes(&self) -> u16 {
        self.key.key_bytes
    }
    #[getter]
    fn datetime(&self) -> u32 {
        self.key.datime
    }
    fn __repr__(&self) -> String {
        format!("<Key {};{} ({})>", self.key.name, self.key.cycle, self.key.classname)
    }
}

#[pyclass(frozen, name = "Directory", module = "sapwood._native")]
pub struct PyDirectory {
    file: Arc<RootFile>,
    directory: Directory,
}

impl PyDirectory {
    /// The file and the directory.
    pub fn parts(&self) -> (&Arc<RootFile>, &Directory) {
        (&self.file, &self.directory)
    }
}

#[pymethods]
impl PyDirectory {
    #[getter]
    fn name(&self) -> &str {
        &self.directory.name
    }
    #[getter]
    fn title(&self) -> &str {
        &self.directory.title
    }
    #[getter]
    fn uuid(&self) -> &str {
        &self.directory.uuid
    }
    #[getter]
    fn created(&self) -> u32 {
        self.directory.created
    }
    #[getter]
    fn modified(&self) -> u32 {
        self.directory.modified
    }
    #[getter]
    fn seek(&self) -> u64 {
        self.directory.seek
    }
    #[getter]
    fn recovered(&self) -> bool {
        self.directory.recovered
    }
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.directory.keys.iter().map(|key| PyKey { key: key.clone() }))
    }
    /// Returns names, classes and cycles of all keys.
    fn listing<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyList>; 3]> {
        let keys = &self.directory.keys;
        Ok([
            PyList::new(py, keys.iter().map(|key| &key.name))?,
            PyList::new(py, keys.iter().map(|key| PyString::intern(py, &key.classname)))?,
            PyList::new(py, keys.iter().map(|key| key.cycle))?,
        ])
    }
    fn key(&self, index: usize) -> PyResult<PyKey> {
        let key = self.directory.keys.get(index).cloned();
        key.map(|key| PyKey { key }).ok_or_else(|| PyIndexError::new_err(index))
    }
    fn subdirectory(&self, py: Python<'_>, key: &PyKey) -> PyResult<PyDirectory> {
        let directory = with_file(py, &self.file, || self.file.subdirectory(&key.key))?;
        Ok(PyDirectory { file: self.file.clone(), directory })
    }
    fn tree(&self, py: Python<'_>, key: &PyKey) -> PyResult<Py<PyTree>> {
        PyTree::new(py, with_file(py, &self.file, || Tree::read(&self.file, &key.key))?)
    }
    fn ntuple(&self, py: Python<'_>, key: &PyKey) -> PyResult<Py<PyNTuple>> {
        PyNTuple::new(py, with_file(py, &self.file, || NTuple::read(&self.file, &key.key))?)
    }
    #[allow(clippy::type_complexity, reason = "a pair and the callables it is made with")]
    fn object<'py>(
        &self,
        py: Python<'py>,
        key: &PyKey,
        makers: (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>),
    ) -> PyResult<(Bound<'py, PyAny>, Vec<(String, String)>)> {
        objects::read(py, &self.file, &key.key, makers)
    }
    fn __repr__(&self) -> String {
        format!("<Directory {:?} of {} keys>", self.directory.name, self.directory.keys.len())
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFile>()?;
    module.add_class::<PyKey>()?;
    module.add_class::<PyDirectory>()
}
