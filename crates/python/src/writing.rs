//! Writing: `sapwood._native.Output`, a file and its trees.

use crate::borrow;
use crate::calls::{self, Call};
use crate::columns::{to_column, to_columns, type_of};
use crate::errors::{raise, raise_opening};
use crate::file::{PyFile, PyKey};
use crate::layout::{Branch, from_spec, to_compression, to_specs};
use crate::ntuple::PyNTuple;
use crate::rows::{self, ZonesFound};
use crate::runtime::{Deadline, interruptibly, pool};
use crate::shapes::to_shape;
use crate::sums::PySum;
use crate::tree::PyTree;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use sapwood_io::sink::{FileSink, Sink};
use sapwood_io::{Owner, Token, lock};
use sapwood_root::array::extremes::Measured;
use sapwood_root::compress::encode::Compression;
use sapwood_root::file::RootFile;
use sapwood_root::file::checksums::Written;
use sapwood_root::file::writer::{CommitEvery, FileWriter, Options, Record, SharedSum};
use sapwood_root::ntuple::writer::{FieldSpec, NTupleOptions, NTupleWriter, Projection};
use sapwood_root::output::OutputFile as Inner;
use sapwood_root::streamer::declare::Shape;
use sapwood_root::streamer::{Object, SharedObject, Value};
use sapwood_root::tree::Tree;
use sapwood_root::tree::writer::{Extras, TreeOptions, TreeWriter, encode_value};
use sapwood_root::wire::grow;
use sapwood_root::{Error, Result};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// The number of a table, and the names and types of its fields.
type NumberedFields<'py> = (usize, Vec<(String, Bound<'py, PyTuple>)>);

/// Name of a Python object that is written to, for messages.
const STREAM: &str = "the stream";

/// A Python object with `seek` and `write`.
struct ObjectSink {
    object: Py<PyAny>,
}

impl Sink for ObjectSink {
    fn write_at(&mut self, offset: u64, parts: &[&[u8]]) -> std::io::Result<()> {
        let _call = Call::of(&self.object);
        Python::attach(|py| {
            let object = self.object.bind(py);
            let is_raw = object.is_instance(&py.import("io")?.getattr("RawIOBase")?)?;
            object.call_method1("seek", (offset,))?;
            for part in parts {
                let mut rest = *part;
                while !rest.is_empty() {
                    let written = object.call_method1("write", (PyBytes::new(py, rest),))?;
                    rest = rest.get(taken(&written, rest.len(), is_raw)?..).unwrap_or_default();
                }
            }
            Ok(())
        })
    }
    fn finish(&mut self, length: u64) -> std::io::Result<()> {
        let _call = Call::of(&self.object);
        Python::attach(|py| {
            let object = self.object.bind(py);
            object.call_method1("truncate", (length,))?;
            object.call_method0("flush")?;
            Ok(())
        })
    }
    fn name(&self) -> &'static str {
        STREAM
    }
}

/// Returns how many of `given` bytes a stream has taken, from what its `write` returned: their number. Streams without
/// this number have taken all of them, but raw streams of Python none.
fn taken(written: &Bound<'_, PyAny>, given: usize, is_raw: bool) -> std::io::Result<usize> {
    if written.is_none() && !is_raw {
        return Ok(given);
    }
    match written.extract::<usize>() {
        Ok(count @ 1..) if count <= given => Ok(count),
        _ => {
            let text = format!("its write() returned {written} for {given} bytes");
            Err(std::io::Error::new(std::io::ErrorKind::WriteZero, text))
        }
    }
}

/// Size in bytes of a local file whose baskets are copied sooner than Ctrl-C needs an answer.
const SMALL: u64 = 16 << 20;

/// A file being written, with its tables.
#[pyclass(frozen)]
pub struct Output {
    inner: Mutex<Inner>,
    owner: Owner,
    /// Address of the stream that it is written to, if it is one.
    stream: Option<usize>,
}

impl Output {
    /// Refuses calls that would wait for ever for a lock: of a forked child, where the thread that holds it may not
    /// exist, and of the stream that the file is written to, while it writes.
    fn check(&self) -> Result<()> {
        self.owner.check()?;
        self.check_stream()
    }
    fn check_stream(&self) -> Result<()> {
        match self.stream.filter(|stream| calls::is_called(*stream)) {
            Some(_) => Err(calls::error(STREAM)),
            None => Ok(()),
        }
    }
    /// Works on the file without holding the interpreter lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Inner) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check().map_err(raise)?;
        let pool = pool()?;
        // Locked outside the pool: a worker that waits for a part of its work may take up other work, which must not
        // wait for the same lock.
        py.detach(|| {
            let mut guard = lock(&self.inner);
            let inner: &mut Inner = &mut guard;
            pool.install(move || work(inner))
        })
        .map_err(raise)
    }
    /// Works on the file on this thread, without the pool, for work that takes less time than waking the pool.
    fn alone<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Inner) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check().map_err(raise)?;
        py.detach(|| work(&mut lock(&self.inner))).map_err(raise)
    }
    /// Works with the checksums that were collected so far.
    pub fn with_written<T>(&self, work: impl FnOnce(&Written) -> Result<T>) -> Result<T> {
        self.check()?;
        match lock(&self.inner).file.written() {
            Some(written) => work(written),
            None => work(&Written::default()),
        }
    }
    /// Works on the file as [`Self::with`] does. Ctrl-C stops the work, which checks for it, and its reads of `source`.
    fn copying<T: Send>(
        &self,
        py: Python<'_>,
        source: &RootFile,
        work: impl FnOnce(&mut Inner) -> Result<T> + Send,
    ) -> PyResult<T> {
        self.check().map_err(raise)?;
        let pool = pool()?;
        let token = Token::default();
        let theirs = token.clone();
        let work = || {
            let mut guard = lock(&self.inner);
            let inner: &mut Inner = &mut guard;
            pool.install(move || theirs.during(|| work(inner)))
        };
        let interrupt = || source.source().interrupt();
        interruptibly(py, Deadline::after(None), &token, interrupt, work)?.map_err(raise)
    }
}

impl Output {
    /// Adds an RNTuple; returns its number, and its fields that take data with their types.
    fn add_ntuple<'py>(
        &self,
        py: Python<'py>,
        make: impl FnOnce(&mut FileWriter) -> Result<NTupleWriter> + Send,
    ) -> PyResult<NumberedFields<'py>> {
        let (number, fields) = self.with(py, |inner| {
            let table = make(&mut inner.file)?;
            let fields = table.fields();
            Ok((inner.add(table), fields))
        })?;
        let fields = fields.into_iter().map(|(name, kind)| Ok((name, type_of(py, &kind)?)));
        Ok((number, fields.collect::<PyResult<_>>()?))
    }
}

/// A field of an RNTuple: name, shape, compression code.
type NamedShape<'py> = (String, Bound<'py, PyTuple>, Option<u32>);

#[pymethods]
impl Output {
    #[new]
    #[pyo3(signature = (target, name, overwrite, title, compression, uuid, utc_offset, datime, commit_every, atomic))]
    #[expect(clippy::too_many_arguments, reason = "called from one place, which names them")]
    fn new(
        py: Python<'_>,
        target: &Bound<'_, PyAny>,
        name: &str,
        overwrite: bool,
        title: String,
        compression: u32,
        uuid: Option<[u8; 16]>,
        utc_offset: i64,
        datime: Option<u32>,
        commit_every: Option<u64>,
        atomic: bool,
    ) -> PyResult<Self> {
        let commit_every = commit_when(commit_every);
        let options = Options {
            commit_every,
            compression: Compression::from_code(compression).map_err(raise)?,
            title,
            uuid,
            utc_offset,
            datime,
            atomic,
        };
        let mut stream = None;
        let sink: Box<dyn Sink> = if let Ok(path) = target.extract::<PathBuf>() {
            let sink = if overwrite { FileSink::recreate(&path) } else { FileSink::create(&path) }?;
            Box::new(if atomic { sink.flushing() } else { sink })
        } else {
            let object = target.clone().unbind();
            stream = Some(calls::address(&object));
            Box::new(ObjectSink { object })
        };
        let file = py.detach(|| FileWriter::create(sink, name, options)).map_err(raise)?;
        Ok(Self { inner: Mutex::new(Inner::new(file)), owner: Owner::here(), stream })
    }

    /// Continues an existing file. `keeps`, called with the file before its records are read, attaches checksums to it,
    /// and returns whether to collect checksums of later writes.
    #[staticmethod]
    #[pyo3(signature = (path, compression, utc_offset, datime, commit_every, keeps))]
    fn update(
        py: Python<'_>,
        path: PathBuf,
        compression: Option<u32>,
        utc_offset: i64,
        datime: Option<u32>,
        commit_every: Option<u64>,
        keeps: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let compression = to_compression(compression)?;
        let commit_every = commit_when(commit_every);
        let options = Options { utc_offset, datime, commit_every, ..Options::default() };
        let (file, sink) = py
            .detach(|| {
                sapwood_io::open(&path)?; // for its errors: of a pipe, for example
                // From this point no other writer changes the file, so the data that are read now stay valid.
                let sink = FileSink::update(&path)?;
                let source = sapwood_io::open(&path)?;
                // Another program may have put another file there after the first was opened.
                sink.check_kept()?;
                Ok::<_, Error>((Arc::new(RootFile::open(source)?), sink))
            })
            .map_err(raise_opening)?;
        let keeps = keeps.call1((PyFile::from(file.clone()),))?.extract::<bool>()?;
        let inner = py
            .detach(|| {
                let mut inner = Inner::update(&file, Box::new(sink), compression, options)?;
                if keeps {
                    inner.file.keep_checksums(file.checksums().map(Written::of).unwrap_or_default());
                }
                Ok::<_, Error>(inner)
            })
            .map_err(raise_opening)?;
        Ok(Self { inner: Mutex::new(inner), owner: Owner::here(), stream: None })
    }

    /// Fails if this thread is in a call of the stream that the file is written to.
    fn check_free(&self) -> PyResult<()> {
        self.check_stream().map_err(raise)
    }
    /// Collects checksums of later writes, if they are not collected yet.
    fn keep_checksums(&self, py: Python<'_>) -> PyResult<()> {
        self.alone(py, |inner| {
            inner.file.keep_checksums(Written::default());
            Ok(())
        })
    }
    /// Lets a reader of the file compare records with the checksums that were collected so far.
    fn share_checksums(&self, py: Python<'_>, file: &PyFile) -> PyResult<()> {
        let file = file.file();
        self.alone(py, |inner| {
            if let Some(checksums) = inner.file.lasting_checksums() {
                file.use_written(checksums);
            }
            Ok(())
        })
    }
    /// Deletes one cycle of a name, or all.
    fn delete(&self, py: Python<'_>, directory: usize, name: &str, cycle: Option<u16>) -> PyResult<()> {
        self.with(py, |inner| inner.file.delete(directory, name, cycle))
    }
    /// Like `delete`, including the baskets of trees, given the keys that are removed and those that stay.
    #[expect(clippy::too_many_arguments, reason = "called from one place, which names them")]
    fn delete_trees(
        &self,
        py: Python<'_>,
        directory: usize,
        name: &str,
        cycle: Option<u16>,
        file: &PyFile,
        doomed: Vec<PyRef<'_, PyKey>>,
        kept: Vec<PyRef<'_, PyKey>>,
    ) -> PyResult<()> {
        let keys = |keys: Vec<PyRef<'_, PyKey>>| keys.iter().map(|key| key.key().clone()).collect::<Vec<_>>();
        let (file, doomed, kept) = (file.file(), keys(doomed), keys(kept));
        self.with(py, |inner| inner.delete(directory, name, cycle, &file, [&doomed, &kept]))
    }
    /// Copies the object of a key from another file.
    fn copy_key(
        &self,
        py: Python<'_>,
        directory: usize,
        name: &str,
        file: &PyFile,
        key: &PyKey,
    ) -> PyResult<()> {
        let (file, key) = (file.file(), key.key());
        // Outside the pool, because it may be remote.
        let record = py.detach(|| Record::read(&file, key)).map_err(raise)?;
        self.with(py, |inner| inner.file.copy(directory, name, &record))
    }

    /// Writes sums of objects under their names.
    fn write_sums(
        &self,
        py: Python<'_>,
        directory: usize,
        sums: Vec<(String, PyRef<'_, PySum>)>,
    ) -> PyResult<()> {
        let sums: Vec<(String, SharedSum)> =
            sums.into_iter().map(|(name, total)| (name, total.shared())).collect();
        self.with(py, |inner| inner.file.write_sums(directory, &sums))
    }
    /// Creates a tree from the baskets of others; returns its number and whether the first tree has an index.
    fn join_tree(
        &self,
        py: Python<'_>,
        directory: usize,
        name: &str,
        file: &PyFile,
        key: &PyKey,
        compression: Option<u32>,
    ) -> PyResult<(usize, bool)> {
        let (file, key) = (file.file(), key.key());
        let compression = to_compression(compression)?;
        self.with(py, |inner| {
            let tree = inner.join_tree(directory, name, &file, key, compression)?;
            Ok((tree, inner.joined_mut(tree)?.0.has_index()))
        })
    }
    /// Adds the baskets of a tree to a joined tree; returns its number of entries. `known` is the tree if it was
    /// already read.
    #[pyo3(signature = (tree, file, key, processes, known=None))]
    fn join_more(
        &self,
        py: Python<'_>,
        tree: usize,
        file: &PyFile,
        key: &PyKey,
        processes: u16,
        known: Option<&PyTree>,
    ) -> PyResult<u64> {
        let (source, key) = (file.file(), key.key());
        let known = known.map(PyTree::tree);
        let small = source.source().is_near() && source.source().size() <= SMALL;
        let soon = small && self.alone(py, |inner| Ok(inner.joined_mut(tree)?.0.keeps()))?;
        let work = |inner: &mut Inner| {
            let (tree, file) = inner.joined_mut(tree)?;
            let known = known.map_or_else(|| Tree::read(&source, key).map(Arc::new), Ok)?;
            tree.add(file, &source, &known, processes)
        };
        if soon { self.alone(py, work) } else { self.copying(py, &source, work) }
    }

    /// Adds baskets that no description lists: branch, position, length, first entry and number of entries of each.
    fn join_baskets(
        &self,
        py: Python<'_>,
        tree: usize,
        file: &PyFile,
        baskets: Vec<(usize, u64, u64, u64, u64)>,
        entries: u64,
    ) -> PyResult<()> {
        let source = file.file();
        self.copying(py, &source, |inner| {
            let (tree, file) = inner.joined_mut(tree)?;
            tree.add_baskets(file, &source, &baskets, entries)
        })
    }
    /// Marks the state of the joined trees, or reverts to the mark.
    fn mark_joined(&self, py: Python<'_>, back: bool) -> PyResult<()> {
        self.alone(py, |inner| {
            inner.mark_joined(back);
            Ok(())
        })
    }

    #[getter]
    fn compression(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |inner| Ok(inner.file.compression().code()))
    }
    #[setter]
    fn set_compression(&self, py: Python<'_>, code: u32) -> PyResult<()> {
        self.with(py, |inner| {
            inner.file.set_compression(Compression::from_code(code)?);
            Ok(())
        })
    }
    #[getter]
    fn end(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |inner| Ok(inner.file.end()))
    }
    fn list(&self, py: Python<'_>, directory: usize) -> PyResult<Vec<(String, u16, String, String)>> {
        self.with(py, |inner| {
            let listed = inner.file.list(directory)?;
            Ok(listed.into_iter().map(|key| (key.name, key.cycle, key.class, key.title)).collect())
        })
    }
    fn find(&self, py: Python<'_>, parent: usize, name: &str) -> PyResult<Option<usize>> {
        self.with(py, |inner| Ok(inner.file.find(parent, name)))
    }
    fn mkdir(&self, py: Python<'_>, parent: usize, name: &str, title: &str) -> PyResult<usize> {
        self.with(py, |inner| inner.file.mkdir(parent, name, title))
    }
    fn write_object(
        &self,
        py: Python<'_>,
        directory: usize,
        name: &str,
        title: &str,
        written: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let object = to_object(written)?;
        self.with(py, |inner| inner.file.write_object(directory, name, title, &object))
    }
    fn write_value(
        &self,
        py: Python<'_>,
        directory: usize,
        name: &str,
        title: &str,
        shape: &Bound<'_, PyTuple>,
        column: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        let (shape, column) = (to_shape(shape)?, to_column(column)?);
        let result = self.with(py, |inner| {
            let Shape::Class(class) = &shape else {
                return Err(Error::argument("a single object must belong to a class"));
            };
            let (bytes, infos) = encode_value(class, &column)?;
            inner.file.write_value(directory, name, title, &class.name, &bytes, infos)
        });
        drop(column);
        result
    }
    fn leave_gap(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |inner| {
            inner.file.leave_gap(size);
            Ok(())
        })
    }
    /// Keeps either everything that is written from now on until the file is closed, or nothing of it.
    fn set_atomic(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |inner| {
            inner.file.set_atomic();
            Ok(())
        })
    }
    /// Releases the file without writing buffered data.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        if !self.owner.is_here() {
            return Ok(());
        }
        self.with(py, |inner| {
            inner.abandon();
            Ok(())
        })
    }
    /// Releases the file without what was written since its last commit.
    fn roll_back(&self, py: Python<'_>) -> PyResult<()> {
        if !self.owner.is_here() {
            return Ok(());
        }
        self.with(py, Inner::roll_back)
    }
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Inner::commit)
    }
    /// Does nothing in a forked child.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.owner.is_here() {
            return Ok(());
        }
        self.with(py, Inner::close)
    }

    #[expect(clippy::too_many_arguments, reason = "called from one place, which names them")]
    fn make_tree(
        &self,
        py: Python<'_>,
        directory: usize,
        name: &str,
        title: String,
        branches: Vec<Branch<'_>>,
        auto_flush: i64,
        max_basket: Option<usize>,
        titles: HashMap<String, String>,
    ) -> PyResult<usize> {
        let branches = to_specs(branches)?;
        let options = TreeOptions { title, auto_flush, max_basket, titles };
        self.with(py, |inner| {
            let tree = TreeWriter::new(&mut inner.file, directory, name, &branches, options)?;
            Ok(inner.add(tree))
        })
    }
    /// Continues the tree of a key in the same file; returns its number, its branches, and whether it has an index that
    /// is left out once there are more entries.
    fn append_tree<'py>(
        &self,
        py: Python<'py>,
        directory: usize,
        file: &PyFile,
        key: &PyKey,
    ) -> PyResult<(usize, Vec<Branch<'py>>, bool)> {
        let (file, key) = (file.file(), key.key());
        let (number, specs, loses_index) = self.with(py, |inner| {
            let (tree, specs) = TreeWriter::append(&mut inner.file, directory, &file, key)?;
            let loses_index = tree.loses_index();
            Ok((inner.add(tree), specs, loses_index))
        })?;
        let branches = specs.into_iter().map(|spec| from_spec(py, spec));
        Ok((number, branches.collect::<PyResult<_>>()?, loses_index))
    }
    /// Sets what a new tree has besides its entries: its weight, and the objects or None for aliases, index, friends
    /// and user information.
    fn describe_tree(
        &self,
        py: Python<'_>,
        tree: usize,
        weight: f64,
        objects: [Option<Bound<'_, PyTuple>>; 4],
    ) -> PyResult<()> {
        let value = |object: Option<Bound<'_, PyTuple>>| match object {
            Some(object) => Ok::<_, PyErr>(Value::Object(SharedObject::from(to_object(&object)?))),
            None => Ok(Value::Null),
        };
        let [aliases, index, friends, user_info] = objects.map(value);
        let extras =
            Extras { weight, aliases: aliases?, index: index?, friends: friends?, user_info: user_info? };
        self.with(py, |inner| {
            let (tree, file) = inner.writer::<TreeWriter>(tree)?;
            tree.describe_as(file, extras)
        })
    }
    /// Adds branches, with all their entries, to the tree of a key in the same file.
    #[expect(clippy::too_many_arguments, reason = "called from one place, which names them")]
    fn add_branches(
        &self,
        py: Python<'_>,
        directory: usize,
        file: &PyFile,
        key: &PyKey,
        branches: Vec<Branch<'_>>,
        max_basket: Option<usize>,
        columns: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let (source, key) = (file.file(), key.key());
        let branches = to_specs(branches)?;
        let columns = to_columns(columns)?;
        let result = self.with(py, |inner| {
            TreeWriter::add_branches(
                &mut inner.file,
                directory,
                &source,
                key,
                (&branches, max_basket),
                &columns,
            )
        });
        drop(columns);
        result
    }
    #[expect(clippy::too_many_arguments, reason = "called from one place, which names them")]
    fn make_ntuple(
        &self,
        py: Python<'_>,
        directory: usize,
        name: &str,
        description: String,
        fields: Vec<NamedShape<'_>>,
        cluster_bytes: Option<u64>,
        cluster_entries: Option<usize>,
        page_bytes: Option<usize>,
        projections: Vec<(String, String)>,
    ) -> PyResult<usize> {
        let specs = to_fields(fields)?;
        let projections = projections.into_iter().map(|(name, source)| Projection { name, source }).collect();
        let sizes = ntuple_sizes(cluster_bytes, cluster_entries, page_bytes);
        let options = NTupleOptions { description, projections, ..sizes };
        self.with(py, |inner| {
            let table = NTupleWriter::new(&mut inner.file, directory, name, &specs, options)?;
            Ok(inner.add(table))
        })
    }
    /// Continues the RNTuple of a key in the same file; returns its fields that take data, with their types.
    fn append_ntuple<'py>(
        &self,
        py: Python<'py>,
        directory: usize,
        file: &PyFile,
        key: &PyKey,
    ) -> PyResult<NumberedFields<'py>> {
        let (file, key) = (file.file(), key.key());
        self.add_ntuple(py, |file_writer| {
            NTupleWriter::append(file_writer, directory, &file, key, &NTupleOptions::default())
        })
    }
    /// Creates an RNTuple with the fields and columns of another; returns its fields that take data, with their types.
    #[expect(clippy::too_many_arguments, reason = "called from one place, which names them")]
    fn make_ntuple_like<'py>(
        &self,
        py: Python<'py>,
        directory: usize,
        name: &str,
        source: &Bound<'py, PyNTuple>,
        cluster_bytes: Option<u64>,
        cluster_entries: Option<usize>,
        page_bytes: Option<usize>,
    ) -> PyResult<NumberedFields<'py>> {
        let source = source.get().ntuple();
        let options = ntuple_sizes(cluster_bytes, cluster_entries, page_bytes);
        self.add_ntuple(py, |file| NTupleWriter::like(file, directory, name, &source, options))
    }
    /// Copies the cluster of another RNTuple that begins at an entry; recompresses its pages if a code is given.
    /// Returns whether this was possible.
    fn copy_cluster(
        &self,
        py: Python<'_>,
        table: usize,
        source: &Bound<'_, PyNTuple>,
        first_entry: u64,
        compression: Option<u32>,
    ) -> PyResult<bool> {
        let source = source.get().ntuple();
        self.with(py, |inner| {
            let (table, file) = inner.writer::<NTupleWriter>(table)?;
            let compression = compression.map(Compression::from_code).transpose()?;
            table.copy_cluster(file, &source, first_entry, compression)
        })
    }
    /// Adds fields to an RNTuple that is being written, for later entries.
    fn add_fields(&self, py: Python<'_>, table: usize, fields: Vec<NamedShape<'_>>) -> PyResult<()> {
        let specs = to_fields(fields)?;
        self.with(py, |inner| {
            let (table, file) = inner.writer::<NTupleWriter>(table)?;
            table.add_fields(file, &specs)
        })
    }
    /// Adds an attribute set to an RNTuple that is being written.
    fn add_attribute_set(
        &self,
        py: Python<'_>,
        table: usize,
        name: &str,
        fields: Vec<NamedShape<'_>>,
    ) -> PyResult<()> {
        let specs = to_fields(fields)?;
        self.with(py, |inner| {
            let (table, file) = inner.writer::<NTupleWriter>(table)?;
            table.add_set(file, name, &specs)
        })
    }
    /// Returns names and attribute types of the attribute sets of an RNTuple that is being written.
    fn attribute_sets<'py>(
        &self,
        py: Python<'py>,
        table: usize,
    ) -> PyResult<Vec<(String, Option<Bound<'py, PyTuple>>)>> {
        let sets = self.with(py, |inner| Ok(inner.writer::<NTupleWriter>(table)?.0.sets()))?;
        let sets = sets.into_iter();
        sets.map(|(name, kind)| Ok((name, kind.map(|kind| type_of(py, &kind)).transpose()?))).collect()
    }
    /// Adds entries to an attribute set: first entries, lengths, records of attributes.
    fn extend_attribute_set(
        &self,
        py: Python<'_>,
        table: usize,
        name: &str,
        columns: &Bound<'_, PyList>,
    ) -> PyResult<()> {
        let columns = to_columns(columns)?;
        let result = self.with(py, |inner| {
            inner.check_open()?;
            let (table, file) = inner.writer::<NTupleWriter>(table)?;
            table.extend_set(file, name, &columns)
        });
        drop(columns);
        result
    }
    fn extend(&self, py: Python<'_>, table: usize, columns: &Bound<'_, PyList>) -> PyResult<()> {
        let columns = to_columns(columns)?;
        let result = self.with(py, |inner| inner.extend(table, &columns));
        // The borrowed arrays are released here, where the interpreter lock is held again.
        drop(columns);
        result
    }
    /// Collects statistics of numbers from now on: of each part its column, the members of records on the way to it, a
    /// column with lists of the same lengths, and whether the lengths of the lists are meant.
    fn collect(
        &self,
        py: Python<'_>,
        table: usize,
        parts: Vec<(usize, Vec<usize>, usize, bool)>,
    ) -> PyResult<()> {
        let part = |(column, path, like, lengths)| Measured { column, path, like, lengths };
        let parts = parts.into_iter().map(part).collect();
        self.alone(py, |inner| {
            inner.collect(table, parts);
            Ok(())
        })
    }
    /// Returns the first entry of each cluster and the end, and the statistics of each part in the clusters.
    fn zones<'py>(&self, py: Python<'py>, table: usize) -> PyResult<Option<ZonesFound<'py>>> {
        let found =
            self.alone(py, |inner| Ok(inner.zones(table).map(|(edges, found)| (edges.to_vec(), found))))?;
        found.map(|(edges, found)| Ok((edges, rows::zones(py, found)?))).transpose()
    }
    fn flush(&self, py: Python<'_>, table: usize) -> PyResult<()> {
        self.with(py, |inner| {
            let (table, file) = inner.table_mut(table)?;
            table.flush(file)
        })
    }
    fn finish(&self, py: Python<'_>, table: usize) -> PyResult<()> {
        self.with(py, |inner| inner.finish(table))
    }
    /// Returns the entries taken, the entries in the file, and the pages of the column with the most pages.
    fn table_counts(&self, py: Python<'_>, table: usize) -> PyResult<(u64, u64, usize)> {
        self.with(py, |inner| {
            let table = inner.table(table)?;
            Ok((table.entries(), table.entries_written(), table.pages()))
        })
    }
    fn set_field_compression(
        &self,
        py: Python<'_>,
        table: usize,
        field: usize,
        code: Option<u32>,
    ) -> PyResult<()> {
        self.with(py, |inner| {
            let compression = code.map(Compression::from_code).transpose()?;
            inner.table_mut(table)?.0.set_compression(field, compression)
        })
    }
}

fn commit_when(commit_every: Option<u64>) -> CommitEvery {
    match commit_every {
        None => CommitEvery::Never,
        Some(0) => CommitEvery::Cluster,
        Some(bytes) => CommitEvery::Bytes(bytes),
    }
}

fn ntuple_sizes(
    cluster_bytes: Option<u64>,
    cluster_entries: Option<usize>,
    page_bytes: Option<usize>,
) -> NTupleOptions {
    let default = NTupleOptions::default();
    NTupleOptions {
        cluster_bytes: cluster_bytes.unwrap_or(default.cluster_bytes),
        cluster_entries,
        page_bytes: page_bytes.unwrap_or(default.page_bytes),
        ..default
    }
}

fn to_fields(fields: Vec<NamedShape<'_>>) -> PyResult<Vec<FieldSpec>> {
    let spec = |(name, shape, code): NamedShape<'_>| {
        Ok(FieldSpec { name, shape: to_shape(&shape)?, compression: to_compression(code)? })
    };
    fields.into_iter().map(spec).collect()
}

/// Converts `(class, {member: value})` to an object.
fn to_object(object: &Bound<'_, PyTuple>) -> PyResult<Object> {
    let (class, members): (String, Bound<'_, PyDict>) = object.extract()?;
    let mut values = Vec::with_capacity(members.len());
    for (name, value) in members.iter() {
        values.push((name.extract::<String>()?.into(), to_value(&value)?));
    }
    Ok(Object { class: class.into(), members: values, ..Object::default() })
}

fn to_value(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        return value.extract().map(Value::Int).or_else(|_| value.extract().map(Value::UInt));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(Value::Float(value.extract()?));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return grow::text(text.to_str()?).map(Value::Text).map_err(raise);
    }
    if let Ok(object) = value.cast::<PyTuple>() {
        return Ok(Value::Object(SharedObject::from(to_object(object)?)));
    }
    if let Ok(items) = value.cast::<PyList>() {
        return Ok(Value::List(items.iter().map(|item| to_value(&item)).collect::<PyResult<_>>()?));
    }
    let (number, bytes) = borrow::numbers(value)?;
    let bytes = grow::copied(bytes.as_slice()).map_err(raise)?;
    Ok(Value::Numbers(number, bytes))
}
