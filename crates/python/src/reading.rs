//! Files, directories, keys, trees and branches.

use crate::columns;
use crate::errors::raise;
use crate::ntuple::PyNTuple;
use crate::objects;
use crate::storage::{self, Deadline, Far};
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use sapwood_io::counters::Counters;
use sapwood_io::{PerProcess, Source, Token};
use sapwood_root::Error;
use sapwood_root::array::pool::Hold;
use sapwood_root::file::{Directory, Key, RootFile};
use sapwood_root::ntuple::NTuple;
use sapwood_root::read::{Carry, LeftOut, PagePlanned, Part, codecs, planned, read_with};
use sapwood_root::table::{FieldInfo, FieldReader, Hidden, Table};
use sapwood_root::tree::{Branch, Tree};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

#[pyclass(frozen, name = "File", module = "sapwood._native")]
pub struct PyFile {
    file: Arc<RootFile>,
}

impl PyFile {
    /// Reads the header.
    pub fn open(py: Python<'_>, source: &Arc<dyn Source>, deadline: Deadline) -> PyResult<Self> {
        let theirs = source.clone();
        let file = if source.latency().is_some() {
            storage::interruptible(py, deadline, || source.interrupt(), move || RootFile::open(theirs))
        } else {
            Ok(py.detach(|| RootFile::open(theirs)))
        };
        let file = file.and_then(|file| file.map_err(raise));
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
        // Of all that opening takes: the way there, copying, the header.
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
    fn directory(&self, py: Python<'_>) -> PyResult<PyDirectory> {
        let directory = with_file(py, &self.file, || self.file.directory())?;
        Ok(PyDirectory { file: self.file.clone(), directory })
    }
    fn streamers(&self, py: Python<'_>) -> PyResult<Vec<(String, i32, u32)>> {
        let classes = with_file(py, &self.file, || self.file.classes())?;
        Ok(classes.iter().map(|i| (i.name.to_string(), i.version, i.checksum)).collect())
    }
    fn classes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let classes = with_file(py, &self.file, || self.file.classes())?;
        objects::describe(py, &classes)
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
    /// Who says which version of the file it is, and which.
    fn stored_version(&self) -> Option<(String, String)> {
        self.file.source().version().map(|version| (version.of, version.tag))
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
    fn recovered(&self) -> bool {
        self.directory.recovered
    }
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.directory.keys.iter().map(|key| PyKey { key: key.clone() }))
    }
    /// Names, classes and cycles of all keys.
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
    fn bytes_between(&self, fields: Vec<usize>, start: u64, stop: u64) -> f64 {
        self.table.bytes_between(&fields, start, stop)
    }
    fn codecs(&self, py: Python<'_>, pages: Vec<(usize, usize)>) -> PyResult<Vec<Option<u32>>> {
        with_table(py, &*self.table, || Ok(codecs(&*self.table, &pages)))
    }
    #[allow(clippy::type_complexity, reason = "two plain tables")]
    fn plan(
        &self,
        py: Python<'_>,
        fields: Vec<usize>,
        start: u64,
        stop: u64,
    ) -> PyResult<(Vec<(usize, usize, usize, u64, u64, u64, u64)>, Vec<Vec<(u64, u64)>>)> {
        let threads = num_threads()?;
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
    /// Of its number.
    pub fn of(table: Arc<dyn Table>, index: usize) -> Self {
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
    /// The class that the file names of its values.
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
    fn longest_entry(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        with_table(py, &*self.table, || self.table.longest_entry(self.index))
    }
    fn __repr__(&self) -> String {
        format!("<Field {:?}>", self.table.path(self.index))
    }
}

/// What only trees have.
#[pyclass(frozen, extends = PyTable, name = "Tree", module = "sapwood._native")]
pub struct PyTree {
    tree: Arc<Tree>,
}

impl PyTree {
    fn new(py: Python<'_>, tree: Tree) -> PyResult<Py<Self>> {
        let tree = Arc::new(tree);
        let table = PyTable { table: tree.clone() };
        Py::new(py, PyClassInitializer::from(table).add_subclass(Self { tree }))
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
    fn branches<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let branch = |index| {
            let field = PyField { table: self.tree.clone(), index };
            let branch = PyBranch { tree: self.tree.clone(), index };
            Py::new(py, PyClassInitializer::from(field).add_subclass(branch))
        };
        PyList::new(py, (0..self.tree.branches.len()).map(branch).collect::<PyResult<Vec<_>>>()?)
    }
}

/// What only branches have.
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
        Ok(self.branch()?.baskets.iter().map(sapwood_root::tree::Basket::bytes).collect())
    }
    #[getter]
    fn basket_seeks(&self) -> PyResult<Vec<u64>> {
        Ok(self.branch()?.baskets.iter().map(sapwood_root::tree::Basket::seek).collect())
    }
}

pub fn snapshot<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in counters.snapshot() {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

#[pyfunction]
fn counters(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    snapshot(py, Counters::process())
}

/// The pool that reading and writing use; replaced as a whole when the number of threads changes. A fork takes over none
/// of its threads, and has one of its own with as many.
fn slot() -> MutexGuard<'static, Option<Arc<rayon::ThreadPool>>> {
    static POOL: PerProcess<Mutex<Option<Arc<rayon::ThreadPool>>>> = PerProcess::empty();
    POOL.get(|_| Mutex::default()).lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many threads it has; 0 before the first one.
static THREADS: AtomicUsize = AtomicUsize::new(0);

fn make_pool(threads: usize) -> PyResult<Arc<rayon::ThreadPool>> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("sapwood-{i}")).build();
    pool.map(Arc::new).map_err(|e| PyValueError::new_err(e.to_string()))
}

/// The pool.
pub fn pool() -> PyResult<Arc<rayon::ThreadPool>> {
    let mut slot = slot();
    if let Some(pool) = &*slot {
        return Ok(pool.clone());
    }
    let threads = match THREADS.load(Relaxed) {
        0 => default_threads()?,
        threads => threads,
    };
    THREADS.store(threads, Relaxed);
    Ok(slot.insert(make_pool(threads)?).clone())
}

/// Does work that Ctrl-C and the deadline end. The thread that asks listens, and does not work itself.
pub fn interruptibly<T: Send>(
    py: Python<'_>,
    deadline: Deadline,
    token: &Token,
    interrupt: impl Fn() + Sync,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    let receiver = Mutex::new(receiver);
    let mut result = None;
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = sender.send(token.during(work));
        });
        let heard = storage::listen(py, deadline, &receiver);
        if heard.is_err() {
            token.give_up();
            py.detach(&interrupt);
            // The work borrows what this thread has; given up, it is done at once.
            let _ = storage::receive(py, &receiver, Duration::MAX);
        }
        result = Some(heard);
    });
    result.unwrap_or_else(|| Err(PyValueError::new_err("no result")))
}

/// Does work on a file, which Ctrl-C and the deadline end where it is far away.
pub fn with_file<T: Send>(
    py: Python<'_>,
    file: &RootFile,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    with_files(py, &[file.source().as_ref()], &Token::default(), work)
}

/// The same on the file of a table.
fn with_table<T: Send>(
    py: Python<'_>,
    table: &dyn Table,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    with_files(py, &[table.source().as_ref()], &Token::default(), work)
}

/// The same with several.
pub fn with_files<T: Send>(
    py: Python<'_>,
    files: &[&dyn Source],
    token: &Token,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    let far: Vec<&dyn Source> = files.iter().copied().filter(|source| source.latency().is_some()).collect();
    if far.is_empty() {
        return py.detach(work).map_err(raise);
    }
    let deadline = Deadline::after(far.iter().filter_map(|source| source.deadline()).min());
    let interrupt = || far.iter().for_each(|source| source.interrupt());
    let result = interruptibly(py, deadline, token, interrupt, work);
    result.and_then(|result| result.map_err(raise)).map_err(|error| {
        let incidents = far.iter().flat_map(|source| source.ledger()).collect();
        storage::with_ledger(py, error, incidents)
    })
}

fn default_threads() -> PyResult<usize> {
    match std::env::var("SAPWOOD_NUM_THREADS") {
        Ok(text) if !text.trim().is_empty() => match text.trim().parse() {
            Ok(n) if (1..=4096).contains(&n) => Ok(n),
            _ => Err(raise(Error::argument(format!(
                "SAPWOOD_NUM_THREADS is {text:?}, not a number from 1 to 4096"
            )))),
        },
        _ => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
    }
}

#[pyfunction]
fn set_num_threads(n: i64) -> PyResult<()> {
    match usize::try_from(n) {
        Ok(threads @ 1..=4096) => {
            let before = slot().replace(make_pool(threads)?);
            THREADS.store(threads, Relaxed);
            // Outside the lock: its threads come to their end.
            drop(before);
            Ok(())
        }
        _ => Err(raise(Error::argument(format!("{n} threads: a number from 1 to 4096 is wanted")))),
    }
}

#[pyfunction]
fn num_threads() -> PyResult<usize> {
    Ok(pool()?.current_num_threads())
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

#[pyclass(frozen, name = "HeldBuffers", module = "sapwood._native")]
pub struct PyHeldBuffers {
    hold: Mutex<Option<Hold>>,
}

#[pymethods]
impl PyHeldBuffers {
    #[new]
    fn new() -> Self {
        Self { hold: Mutex::new(Some(Hold::new())) }
    }
    fn close(&self, py: Python<'_>) {
        let hold = self.hold.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| drop(hold));
    }
}

/// Entries from one to another of some fields of a table.
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
    for column in columns {
        list.append(columns::column(py, column)?)?;
    }
    Ok(list)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyFile>()?;
    module.add_class::<PyKey>()?;
    module.add_class::<PyDirectory>()?;
    module.add_class::<PyTable>()?;
    module.add_class::<PyField>()?;
    module.add_class::<PyTree>()?;
    module.add_class::<PyBranch>()?;
    module.add_class::<PyCarry>()?;
    module.add_class::<PyHeldBuffers>()?;
    module.add_function(wrap_pyfunction!(counters, module)?)?;
    module.add_function(wrap_pyfunction!(set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(read, module)?)
}
