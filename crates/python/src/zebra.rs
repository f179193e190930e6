//! ZEBRA files: FZ records, RZ directories, banks, and the histograms and ntuples of HBOOK.
#![allow(
    clippy::unused_self,
    clippy::unnecessary_literal_bound,
    reason = "files of all formats have the same methods"
)]

mod banks;
mod writing;

use crate::columns;
use crate::errors::raise;
use crate::file::PyFile;
use crate::objects;
use crate::runtime::{Deadline, with_files};
use crate::storage::{self, Far};
use crate::table::PyTable;
use crate::trace::snapshot;
use banks::{Parsed, PyStructure, piece, pieces};
use numpy::IntoPyArray;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use sapwood_io::{Source, Token, lock};
use sapwood_root::array::{Column, Number};
use sapwood_root::streamer::Object;
use sapwood_root::zebra::collect::{Collected, Collector};
use sapwood_root::zebra::fz::{FzFile, FzReader, Meaning, Mode};
use sapwood_root::zebra::hbook::{self, Histogram};
use sapwood_root::zebra::layout::Kind;
use sapwood_root::zebra::ntuple::Ntuple;
use sapwood_root::zebra::rz::{self, Cycle, RzDirectory, RzFile};
use sapwood_root::zebra::words::Order;
use sapwood_root::{Error, ErrorKind};
use std::sync::{Arc, Mutex};

/// The class of subdirectories.
const DIRECTORY: &str = "RZDirectory";
/// The class of vectors.
const VECTOR: &str = "Vector";

fn with_source<T: Send>(
    py: Python<'_>,
    source: &Arc<dyn Source>,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    with_files(py, &[source.as_ref()], &Token::default(), work)
}

/// Opens a file of any format in this module, detected from its first bytes.
#[pyfunction]
#[pyo3(signature = (source, name = None, far = None, prior = None))]
fn open_file<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    name: Option<String>,
    far: Option<Far>,
    prior: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
    let deadline = Deadline::after(far.as_ref().map(Far::deadline).transpose()?.flatten());
    let source = storage::source(source, name, far.as_ref(), prior, deadline)?;
    let root = PyFile::open(py, &source, deadline);
    let refused = match root {
        Ok(file) => return file.into_bound_py_any(py),
        Err(refused) => refused,
    };
    let mut first = vec![0; source.size().min(64) as usize];
    // The source may be an object of Python, read by other threads.
    let read = with_source(py, &source, || Ok(source.read_at(0, &mut first)?));
    let is_root = read.is_err() || first.starts_with(b"root");
    if is_root {
        return Err(refused);
    }
    if let Ok(file) = with_source(py, &source, || FzFile::open(source.clone())) {
        let file = PyFzFile { file: Arc::new(file) };
        let made = PyClassInitializer::from(PyZebraFile { source }).add_subclass(file);
        return Ok(Bound::new(py, made)?.into_any());
    }
    match with_source(py, &source, || RzFile::open(source.clone())) {
        Ok(file) => {
            let file = PyRzFile { file: Arc::new(file) };
            Ok(Bound::new(py, PyClassInitializer::from(PyZebraFile { source }).add_subclass(file))?
                .into_any())
        }
        Err(_) => Err(refused),
    }
}

/// Returns an identifier of a file in the form of a UUID.
fn identity(source: &dyn Source) -> String {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let version = source.version().map(|version| version.tag).unwrap_or_default();
    for byte in source.name().bytes().chain(source.size().to_le_bytes()).chain(version.bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    format!("{hash:032x}")
}

/// Methods common to both kinds of files.
#[pyclass(frozen, subclass, name = "ZebraFile", module = "sapwood._native")]
pub struct PyZebraFile {
    source: Arc<dyn Source>,
}

#[pymethods]
impl PyZebraFile {
    #[getter]
    fn name(&self) -> &str {
        self.source.name()
    }
    #[getter]
    fn uuid(&self) -> String {
        identity(self.source.as_ref())
    }
    #[getter]
    fn version(&self) -> u32 {
        0
    }
    #[getter]
    fn is_64bit(&self) -> bool {
        false
    }
    #[getter]
    fn compression(&self) -> u32 {
        0
    }
    #[getter]
    fn begin(&self) -> u64 {
        0
    }
    #[getter]
    fn end(&self) -> u64 {
        self.source.size()
    }
    #[getter]
    fn size(&self) -> u64 {
        self.source.size()
    }
    fn streamers(&self) -> Vec<(String, i32, u32)> {
        Vec::new()
    }
    fn has_sets_or_maps(&self) -> bool {
        false
    }
    fn classes<'py>(&self, py: Python<'py>) -> Bound<'py, PyList> {
        PyList::empty(py)
    }
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        snapshot(py, self.source.counters())
    }
    fn close(&self) {
        self.source.close();
    }
    fn ledger(&self) -> Vec<(u64, u64, u64, u32, bool, String)> {
        storage::ledger(self.source.as_ref())
    }
    fn stored_version(&self) -> Option<(String, String)> {
        self.source.version().map(|version| (version.of, version.tag))
    }
    /// Returns the number of a local file, and when its content or its description was changed last, in nanoseconds.
    fn touched(&self) -> Option<(u64, i64)> {
        self.source.touched()
    }
}

#[pyclass(frozen, extends = PyZebraFile, name = "RzFile", module = "sapwood._native")]
pub struct PyRzFile {
    file: Arc<RzFile>,
}

#[pyclass(frozen, extends = PyZebraFile, name = "FzFile", module = "sapwood._native")]
pub struct PyFzFile {
    file: Arc<FzFile>,
}

#[pyclass(frozen, name = "RzKey", module = "sapwood._native")]
#[derive(Clone)]
pub struct PyRzKey {
    name: String,
    classname: String,
    seek: u64,
    /// The first record of a directory, or the cycle of an object.
    place: Result<Cycle, u32>,
    date: u32,
    words: Vec<u32>,
}

#[pymethods]
impl PyRzKey {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
    #[getter]
    fn title(&self) -> &str {
        ""
    }
    #[getter]
    fn classname(&self) -> &str {
        &self.classname
    }
    #[getter]
    fn cycle(&self) -> u32 {
        self.place.map_or(1, |cycle| cycle.number)
    }
    #[getter]
    fn seek(&self) -> u64 {
        self.seek
    }
    #[getter]
    fn object_bytes(&self) -> u64 {
        self.place.map_or(0, |cycle| 4 * u64::from(cycle.words))
    }
    #[getter]
    fn total_bytes(&self) -> u64 {
        self.object_bytes()
    }
    #[getter]
    fn key_bytes(&self) -> u16 {
        0
    }
    /// Date in ROOT's packed form, with negative years before 1995.
    #[getter]
    fn datetime(&self) -> i64 {
        let (year, month, day, hour, minute) = rz::date(self.date);
        let fields = month << 22 | day << 17 | hour << 12 | minute << 6;
        (i64::from(year) - 1995) << 26 | i64::from(fields)
    }
    /// The words of the key.
    #[getter]
    fn words(&self) -> Vec<u32> {
        self.words.clone()
    }
    fn __repr__(&self) -> String {
        format!("<RzKey {};{} ({})>", self.name, self.cycle(), self.classname)
    }
}

#[pyclass(frozen, name = "RzDirectory", module = "sapwood._native")]
pub struct PyRzDirectory {
    file: Arc<RzFile>,
    directory: Arc<RzDirectory>,
    keys: Vec<PyRzKey>,
    /// Bytes of the banks of each name found by the last call of `collect`.
    likely: Mutex<Vec<usize>>,
}

/// Returns the class name of an object; damage is reported when the object is read.
fn class_of(file: &RzFile, cycle: &Cycle) -> Result<&'static str, Error> {
    match hbook::Class::read(file, cycle) {
        Ok(class) => Ok(class.map_or("Banks", hbook::Class::name)),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok("Banks"),
        Err(error) => Err(error),
    }
}

impl PyRzKey {
    fn object(&self) -> Result<Cycle, Error> {
        self.place.map_err(|_| Error::argument(format!("{} is a directory, not an object", self.name)))
    }
}

impl PyRzDirectory {
    fn read(file: &Arc<RzFile>, record: u32) -> Result<Self, Error> {
        let directory = file.directory_at(record)?;
        let of_hbook = directory.tags.first().is_some_and(|tag| tag == hbook::TAG);
        let seek = |record: u32| 4 * file.record_words() as u64 * u64::from(record.saturating_sub(1));
        let mut keys = Vec::new();
        for (name, record, date) in &directory.directories {
            keys.push(PyRzKey {
                name: name.clone(),
                classname: DIRECTORY.to_owned(),
                seek: seek(*record),
                place: Err(*record),
                date: *date,
                words: Vec::new(),
            });
        }
        for index in 0..directory.len() {
            let cycles = directory.cycles(index);
            if cycles.iter().any(|cycle| cycle.hidden) {
                continue;
            }
            let words = directory.key(index);
            let name = match words {
                [id] | [id, 0] if of_hbook => id.cast_signed().to_string(),
                _ => directory.key_text(index),
            };
            for cycle in cycles {
                let classname = match cycle.form {
                    0 if of_hbook => class_of(file, cycle)?,
                    0 => "Banks",
                    _ => VECTOR,
                };
                keys.push(PyRzKey {
                    name: name.clone(),
                    classname: classname.to_owned(),
                    seek: seek(cycle.first_record) + 4 * u64::from(cycle.first_word.saturating_sub(1)),
                    place: Ok(*cycle),
                    date: cycle.date,
                    words: words.to_vec(),
                });
            }
        }
        Ok(Self { file: file.clone(), directory: Arc::new(directory), keys, likely: Mutex::default() })
    }
    fn object_bytes(&self, key: &PyRzKey) -> Result<(Cycle, Vec<u8>), Error> {
        let cycle = key.object()?;
        let place = || format!("{};{} of {}", key.name, cycle.number, self.file.source().name());
        Ok((cycle, self.file.object(&cycle).map_err(|error| error.within(place()))?))
    }
    fn within(&self, key: &PyRzKey, error: Error) -> Error {
        error.within(format!("{};{} of {}", key.name, key.cycle(), self.file.source().name()))
    }
}

#[pymethods]
impl PyRzFile {
    fn directory(&self, py: Python<'_>) -> PyResult<PyRzDirectory> {
        with_source(py, self.file.source(), || PyRzDirectory::read(&self.file, 2))
    }
    #[getter]
    fn record_words(&self) -> usize {
        self.file.record_words()
    }
    #[getter]
    fn order(&self) -> &str {
        order_name(self.file.order())
    }
    fn __repr__(&self) -> String {
        format!("<RzFile {:?}>", self.file.source().name())
    }
}

fn kind_name(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Start(_) => "start of run",
        Meaning::End => "end of run",
        Meaning::EndOfFile => "end of file",
        Meaning::Event => "event",
        Meaning::Continuation => "continuation",
        Meaning::EmergencyStop => "emergency stop",
    }
}

fn order_name(order: Order) -> &'static str {
    match order {
        Order::Big => "big",
        Order::Little => "little",
    }
}

#[pymethods]
impl PyRzDirectory {
    #[getter]
    fn name(&self) -> &str {
        &self.directory.name
    }
    #[getter]
    fn title(&self) -> &str {
        ""
    }
    #[getter]
    fn uuid(&self) -> String {
        identity(self.file.source().as_ref())
    }
    #[getter]
    fn created(&self) -> i64 {
        PyRzKey { date: self.directory.created >> 8, ..self.as_key() }.datetime()
    }
    #[getter]
    fn modified(&self) -> i64 {
        PyRzKey { date: self.directory.modified >> 8, ..self.as_key() }.datetime()
    }
    #[getter]
    fn recovered(&self) -> bool {
        false
    }
    /// Tags of the key words.
    #[getter]
    fn tags(&self) -> Vec<String> {
        self.directory.tags.clone()
    }
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.keys.iter().cloned())
    }
    fn listing<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyList>; 3]> {
        Ok([
            PyList::new(py, self.keys.iter().map(|key| &key.name))?,
            PyList::new(py, self.keys.iter().map(|key| PyString::intern(py, &key.classname)))?,
            PyList::new(py, self.keys.iter().map(PyRzKey::cycle))?,
        ])
    }
    fn key(&self, index: usize) -> PyResult<PyRzKey> {
        self.keys.get(index).cloned().ok_or_else(|| PyIndexError::new_err(index))
    }
    fn subdirectory(&self, py: Python<'_>, key: &PyRzKey) -> PyResult<Self> {
        let Err(record) = key.place else { return Err(PyValueError::new_err("the key is not a directory")) };
        with_source(py, self.file.source(), || Self::read(&self.file, record))
    }
    /// Returns an ntuple.
    fn table(&self, py: Python<'_>, key: &PyRzKey) -> PyResult<PyTable> {
        let ntuple = with_source(py, self.file.source(), || {
            let (cycle, bytes) = self.object_bytes(key)?;
            Ntuple::open(&self.file, &self.directory, &key.name, &cycle, &bytes)
        })?;
        Ok(PyTable::of(Arc::new(ntuple)))
    }
    #[allow(clippy::type_complexity, reason = "a pair and the callables it is made with")]
    fn object<'py>(
        &self,
        py: Python<'py>,
        key: &PyRzKey,
        makers: (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>),
    ) -> PyResult<(Bound<'py, PyAny>, Vec<(String, String)>)> {
        let object: Object = with_source(py, self.file.source(), || {
            let (cycle, bytes) = self.object_bytes(key)?;
            let structure = self.file.structure(&cycle, &bytes);
            let histogram = structure.and_then(|structure| Histogram::parse(&structure));
            Ok(histogram.map_err(|error| self.within(key, error))?.object(&key.name))
        })?;
        objects::of_members(py, &object, makers)
    }
    /// Returns the banks of an object.
    fn structure(&self, py: Python<'_>, key: &PyRzKey) -> PyResult<PyStructure> {
        let (cycle, bytes) = with_source(py, self.file.source(), || self.object_bytes(key))?;
        let structure = self.file.structure(&cycle, &bytes);
        let structure = structure.map_err(|error| raise(self.within(key, error)))?;
        let parsed = Parsed::of(&structure, self.file.before(&cycle, &structure) as usize);
        Ok(PyStructure { bytes: Arc::new(bytes), parsed, order: self.file.order() })
    }
    /// Returns the words of a vector, as a piece of data.
    fn vector<'py>(&self, py: Python<'py>, key: &PyRzKey) -> PyResult<Bound<'py, PyAny>> {
        let (cycle, bytes) = with_source(py, self.file.source(), || self.object_bytes(key))?;
        let kind = match cycle.form {
            2 => Kind::Int,
            3 => Kind::Float,
            5 => Kind::Text,
            _ => Kind::Bits,
        };
        let words = self.file.words(&cycle, &bytes);
        let (_, data) = piece(py, &words, (kind, 0, words.len()))?;
        Ok(data)
    }
    /// Like `FzReader.collect`, for the objects of some keys.
    fn collect<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        keys: Vec<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let key =
            |&index: &usize| self.keys.get(index).ok_or_else(|| Error::argument(format!("no key {index}")));
        let columns = with_source(py, self.file.source(), || {
            let keys = keys.iter().map(key).collect::<Result<Vec<&PyRzKey>, Error>>()?;
            let cycles = keys.iter().map(|key| key.object()).collect::<Result<Vec<Cycle>, Error>>()?;
            let mut likely = lock(&self.likely);
            // No more than the bytes of the objects.
            let most = keys.iter().map(|key| key.object_bytes() as usize).fold(0, usize::saturating_add);
            likely.iter_mut().for_each(|bytes| *bytes = most.min(*bytes));
            let mut collector = Collector::new(&names, &likely);
            let read = self.file.objects(&cycles, |words| {
                let (_, banks) = rz::table_and_banks(words)?;
                collector.banks(&banks)
            });
            read.map_err(|(place, error)| match keys.get(place) {
                Some(key) => self.within(key, error),
                None => error,
            })?;
            *likely = collector.bytes();
            collector.into_columns()
        })?;
        collected(py, columns)
    }
    fn __repr__(&self) -> String {
        format!("<RzDirectory {:?} of {} keys>", self.directory.name, self.keys.len())
    }
}

impl PyRzDirectory {
    fn as_key(&self) -> PyRzKey {
        let (name, classname) = (self.directory.name.clone(), DIRECTORY.to_owned());
        PyRzKey { name, classname, seek: 0, place: Err(self.directory.record), date: 0, words: Vec::new() }
    }
}

#[pymethods]
impl PyFzFile {
    #[getter]
    fn mode(&self) -> &str {
        match self.file.mode() {
            Mode::Exchange { .. } => "exchange",
            Mode::Native => "native",
            Mode::Alfa => "alfa",
        }
    }
    #[getter]
    fn order(&self) -> &str {
        order_name(self.file.order())
    }
    #[getter]
    fn record_words(&self) -> Option<usize> {
        match self.file.mode() {
            Mode::Exchange { words, .. } => Some(words),
            Mode::Native => None,
            Mode::Alfa => Some(900),
        }
    }
    fn reader(&self) -> PyFzReader {
        let reader = Mutex::new((self.file.reader(), Vec::new()));
        PyFzReader { reader, source: self.file.source().clone() }
    }
    fn __repr__(&self) -> String {
        format!("<FzFile {:?}>", self.file.source().name())
    }
}

/// Reads the logical records of an FZ file in order.
#[pyclass(frozen, name = "FzReader", module = "sapwood._native")]
pub struct PyFzReader {
    /// The reader, and the bytes of the banks of each name collected by the last call.
    reader: Mutex<(FzReader, Vec<usize>)>,
    source: Arc<dyn Source>,
}

#[pymethods]
impl PyFzReader {
    /// Returns the next record: type, byte offset, run number, user words, segments, text, and banks.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let mut guard = lock(&self.reader);
        let (reader, _) = &mut *guard;
        let name = self.source.name().to_owned();
        let at = |error: Error| raise(error.within(name.clone()));
        let Some(record) = with_source(py, &self.source, || reader.read())? else { return Ok(None) };
        let (meaning, words) = (record.meaning().map_err(at)?, record.words());
        let offset = words.offset(0);
        let kind = kind_name(meaning);
        let run = if let Meaning::Start(run) = meaning { Some(run) } else { None };
        let none = py.None();
        let made = match meaning {
            Meaning::EmergencyStop => {
                (kind, offset, run, PyList::empty(py), Vec::<(String, u32)>::new(), String::new(), none)
                    .into_pyobject(py)?
            }
            Meaning::Start(_) | Meaning::End | Meaning::EndOfFile => {
                let user = record.user_words();
                let user = pieces(py, &user, &[(Kind::Int, 0, user.len())])?;
                (kind, offset, run, user, Vec::<(String, u32)>::new(), String::new(), none)
                    .into_pyobject(py)?
            }
            Meaning::Event | Meaning::Continuation => {
                let pilot = record.pilot().map_err(at)?;
                let header = pieces(py, &pilot.header, &pilot.header_runs)?;
                let structure = pilot.structure().map_err(at)?;
                let structure = PyStructure {
                    bytes: Arc::new(structure.words().bytes().to_vec()),
                    parsed: Parsed::of(&structure, 0),
                    order: words.order(),
                };
                let structure = structure.into_py_any(py)?;
                let text = pilot.text.text().map_err(at)?;
                (kind, offset, run, header, pilot.segments, text, structure).into_pyobject(py)?
            }
        };
        Ok(Some(made))
    }
    /// Skips the next record; returns its type.
    fn skip(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let mut guard = lock(&self.reader);
        let (reader, _) = &mut *guard;
        Ok(with_source(py, &self.source, || reader.pass())?.map(kind_name))
    }
    /// Collects the data of all banks of some names in the next events. Returns for each name the start of the banks in
    /// each event (then the end), the words of each bank, and all words. Returns `None` at the end of the file.
    fn collect<'py>(
        &self,
        py: Python<'py>,
        names: Vec<String>,
        events: usize,
    ) -> PyResult<Option<Bound<'py, PyList>>> {
        let mut guard = lock(&self.reader);
        let (reader, likely) = &mut *guard;
        let (found, columns) = with_source(py, &self.source, || {
            let mut collector = Collector::new(&names, likely);
            let found = collector.events(reader, events)?;
            *likely = collector.bytes();
            Ok((found, collector.into_columns()?))
        })?;
        if found == 0 { Ok(None) } else { collected(py, columns).map(Some) }
    }
}

fn collected(py: Python<'_>, found: Vec<Collected>) -> PyResult<Bound<'_, PyList>> {
    columns::load(py)?;
    let list = PyList::empty(py);
    for Collected { offsets, sizes, words } in found {
        let array = |values| columns::column(py, Column::Number { number: Number::U32, values })?.get_item(1);
        list.append((offsets.into_pyarray(py), array(sizes)?, array(words)?))?;
    }
    Ok(list)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyZebraFile>()?;
    module.add_class::<PyRzFile>()?;
    module.add_class::<PyRzKey>()?;
    module.add_class::<PyRzDirectory>()?;
    module.add_class::<PyFzFile>()?;
    module.add_class::<PyFzReader>()?;
    module.add_class::<PyStructure>()?;
    module.add_class::<writing::PyZebraWriter>()?;
    module.add_function(wrap_pyfunction!(open_file, module)?)
}
