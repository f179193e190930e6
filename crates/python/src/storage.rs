//! Where files are read from, as Python names it; and the trace of what was read.

use crate::columns;
use crate::errors::raise;
use pyo3::exceptions::{PyFileNotFoundError, PyOSError, PyPermissionError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use sapwood_io::blocks::Folder;
use sapwood_io::cancel;
use sapwood_io::http::{self, Keys, Settings};
use sapwood_io::remote::{SLOWEST, imagined};
use sapwood_io::xrootd::{self, Identity};
use sapwood_io::{
    Cause, Counters, Fault, Incident, Ledger, Memory, Options, Prior, Range, Remote, Source, Token,
    Transport, trace,
};
use sapwood_root::Error;
use sapwood_root::array::{Column, Number};
use std::io::{Error as IoError, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How storage far away is read, as `sapwood.storage.locate` gives it.
#[derive(FromPyObject)]
pub struct Far {
    timeout: f64,
    retries: u32,
    workers: usize,
    prefetch: u64,
    headers: Vec<(String, String)>,
    header_bytes: usize,
    ranges: usize,
    keys: Option<(String, String, Option<String>, String)>,
    deadline: Option<f64>,
    blocks: Option<(PathBuf, u64)>,
    user: (String, String, u32),
}

/// The longest timeout.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Far {
    fn options(&self) -> PyResult<Options> {
        let timeout = Duration::try_from_secs_f64(self.timeout).ok().filter(|t| !t.is_zero());
        let timeout = timeout.ok_or_else(|| {
            raise(Error::argument(format!("a timeout is a number of seconds above 0, not {}", self.timeout)))
        })?;
        // More than any clock can be set forward by is as good as none.
        let timeout = timeout.min(LONGEST);
        let deadline = self.deadline()?;
        let blocks = self.blocks.as_ref().map(|(folder, size)| Folder::open(folder, *size)).transpose()?;
        Ok(Options {
            timeout,
            retries: self.retries,
            ahead: self.prefetch,
            workers: self.workers.clamp(1, 64),
            deadline,
            blocks,
        })
    }
    /// How long an operation may take.
    pub fn deadline(&self) -> PyResult<Option<Duration>> {
        let deadline = self.deadline.map(Duration::try_from_secs_f64).transpose();
        deadline.map_err(|e| raise(Error::argument(format!("a deadline is a number of seconds: {e}"))))
    }
    fn settings(&self) -> Settings {
        let keys =
            self.keys.clone().map(|(access, secret, token, region)| Keys { access, secret, token, region });
        Settings { headers: self.headers.clone(), header_bytes: self.header_bytes, ranges: self.ranges, keys }
    }
    fn identity(&self) -> Identity {
        let (user, group, number) = self.user.clone();
        Identity { user, group, number }
    }
}

/// Opens what Python means: a path, bytes, URLs, or an object that reads; copies it first if `prior` says so.
pub fn source(
    source: &Bound<'_, PyAny>,
    name: Option<String>,
    far: Option<&Far>,
    prior: Option<&str>,
    deadline: Deadline,
) -> PyResult<Arc<dyn Source>> {
    let py = source.py();
    let prior = match prior {
        None => Prior::Never,
        // As much as may be fetched ahead.
        Some("auto") => far.map_or(Prior::Never, |far| Prior::Auto(far.prefetch)),
        Some("memory") => Prior::Memory,
        Some("disk") => Prior::Disk,
        Some(other) => {
            let message = format!("prior is 'memory', 'disk', 'auto' or None, not {other:?}");
            return Err(raise(Error::argument(message)));
        }
    };
    let source = direct(source, name, far, deadline)?;
    if prior == Prior::Never {
        return Ok(source);
    }
    let interrupted = source.clone();
    let copied = interruptible(
        py,
        deadline,
        || source.interrupt(),
        move || sapwood_io::prior::copied(interrupted, prior),
    );
    let copied = copied.and_then(|result| result.map_err(PyErr::from));
    copied.map_err(|error| with_ledger(py, error, source.ledger()))
}

/// By when something must be done, as a whole; or whenever it is.
#[derive(Clone, Copy, Default)]
pub struct Deadline {
    limit: Option<Duration>,
    end: Option<Instant>,
}

impl Deadline {
    /// So long from now.
    pub fn after(limit: Option<Duration>) -> Self {
        Self { limit, end: limit.and_then(|limit| Instant::now().checked_add(limit)) }
    }
}

/// Ends jobs, from another thread: what they wait for, and what would have them wait.
#[pyclass(frozen, name = "Stop", module = "sapwood._native")]
pub struct PyStop {
    token: Token,
}

#[pymethods]
impl PyStop {
    #[new]
    fn new() -> Self {
        Self { token: Token::default() }
    }
    /// Calls something that it may end.
    fn call<'py>(&self, work: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.token.during(|| work.call0())
    }
    fn give_up(&self) {
        self.token.give_up();
    }
}

/// Does work on another thread while this one listens for signals and looks at the clock.
///
/// After Ctrl-C or the deadline the work is given up: `interrupt` is called, and nobody waits for its end.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    deadline: Deadline,
    interrupt: impl FnOnce() + Send,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let token = Token::default();
    let (sender, receiver) = mpsc::channel();
    let theirs = token.clone();
    let worker = thread::Builder::new().name("sapwood-open".to_owned());
    worker.spawn(move || {
        let _ = sender.send(theirs.during(work));
    })?;
    let result = listen(py, deadline, &Mutex::new(receiver));
    if result.is_err() {
        token.give_up();
        py.detach(interrupt);
    }
    result
}

/// How often signals are looked for.
const LISTEN: Duration = Duration::from_millis(50);

/// Waits for a result, for a signal, for the deadline, or until the job is given up for which this thread works.
pub fn listen<T: Send>(py: Python<'_>, deadline: Deadline, from: &Mutex<Receiver<T>>) -> PyResult<T> {
    let Deadline { limit, end } = deadline;
    loop {
        let left = end.map_or(LISTEN, |end| end.saturating_duration_since(Instant::now()).min(LISTEN));
        match receive(py, from, left) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raise(Error::new(
                    sapwood_root::ErrorKind::Io,
                    "a thread has ended before its work",
                )));
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
        if cancel::given_up() {
            return Err(raise(Error::new(sapwood_root::ErrorKind::Io, "given up")));
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            let limit = limit.unwrap_or_default().as_secs_f64();
            return Err(raise(Error::new(
                sapwood_root::ErrorKind::Io,
                format!("not done within its deadline of {limit} s"),
            )));
        }
    }
}

/// Waits for a result while other Python threads run.
pub fn receive<T: Send>(
    py: Python<'_>,
    from: &Mutex<Receiver<T>>,
    limit: Duration,
) -> std::result::Result<T, RecvTimeoutError> {
    py.detach(|| from.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(limit))
}

fn direct(
    source: &Bound<'_, PyAny>,
    name: Option<String>,
    far: Option<&Far>,
    deadline: Deadline,
) -> PyResult<Arc<dyn Source>> {
    let py = source.py();
    if let Ok(path) = source.cast::<PyString>() {
        // Not every file name is UTF-8.
        let path: PathBuf = path.extract()?;
        return py.detach(|| sapwood_io::open(&path)).map_err(PyErr::from);
    }
    if let Ok(bytes) = source.cast::<PyBytes>() {
        let name = name.unwrap_or_else(|| "<bytes>".to_owned());
        return Ok(Arc::new(Memory::new(name, bytes.as_bytes().to_vec())));
    }
    if let (Ok(urls), Some(far)) = (source.cast::<PyList>(), far) {
        let urls: Vec<String> = urls.extract()?;
        let (settings, identity, options) = (far.settings(), far.identity(), far.options()?);
        let ledger = Ledger::default();
        let theirs = ledger.clone();
        let open = move || {
            if urls.iter().any(|url| xrootd::takes(url)) {
                xrootd::open(&urls, &identity, &options, theirs)
            } else {
                http::open(&urls, &settings, &options, theirs)
            }
        };
        let opened = interruptible(py, deadline, || {}, open);
        let opened = opened.and_then(|result| result.map_err(PyErr::from));
        return opened.map_err(|error| with_ledger(py, error, ledger.incidents()));
    }
    let size = source.getattr("size")?.extract()?;
    let name = name.unwrap_or_else(|| "<object>".to_owned());
    let options = far.map(Far::options).transpose()?;
    let patience = options.as_ref().map(|options| options.timeout);
    let object = Object { reader: source.clone().unbind(), name, size, patience };
    match options {
        Some(options) => Ok(Arc::new(Remote::new(Arc::new(object), options, Vec::new(), Ledger::default()))),
        None => Ok(Arc::new(Near { object, counters: Counters::default() })),
    }
}

/// The names in a folder of an `XRootD` server, and whether they are folders themselves.
#[pyfunction]
fn list_folder(py: Python<'_>, url: String, far: Far) -> PyResult<Vec<(String, bool)>> {
    let (identity, options) = (far.identity(), far.options()?);
    let deadline = Deadline::after(options.deadline);
    interruptible(py, deadline, || {}, move || xrootd::list(&url, &identity, &options))?.map_err(PyErr::from)
}

/// A Python object with `size` and `read_ranges`.
struct Object {
    reader: Py<PyAny>,
    name: String,
    size: u64,
    /// How long it may take, beside the time of its bytes; where it can be told that.
    patience: Option<Duration>,
}

impl Object {
    /// Reads ranges in so much time as is left.
    fn read(
        &self,
        ranges: &[Range],
        left: Duration,
        mut put: impl FnMut(&Range, &[u8]),
    ) -> Result<(), Fault> {
        let bytes = ranges.iter().map(|range| range.length).fold(0, u64::saturating_add);
        let limit = self.patience.map(|patience| (patience + Duration::from_secs(bytes / SLOWEST)).min(left));
        let read = |py: Python<'_>| {
            let wanted: Vec<(u64, u64)> = ranges.iter().map(|r| (r.offset, r.length)).collect();
            let failed = |e: PyErr| {
                let kind = if e.is_instance_of::<PyFileNotFoundError>(py) {
                    ErrorKind::NotFound
                } else if e.is_instance_of::<PyPermissionError>(py) {
                    ErrorKind::PermissionDenied
                } else if e.is_instance_of::<PyTimeoutError>(py) {
                    ErrorKind::TimedOut
                } else {
                    ErrorKind::Other
                };
                let again = matches!(kind, ErrorKind::Other | ErrorKind::TimedOut)
                    && !e.is_instance_of::<PyValueError>(py);
                let error = IoError::new(kind, format!("reading failed: {e}"));
                if again { Fault::passing(error) } else { Fault::lasting(error) }
            };
            let limit = limit.map(|limit| limit.as_secs_f64());
            let found = self.reader.call_method1(py, "read_ranges", (wanted, limit)).map_err(failed)?;
            for (range, bytes) in ranges.iter().zip(found.bind(py).try_iter().map_err(failed)?) {
                let bytes = bytes.map_err(failed)?;
                let bytes = bytes.cast::<PyBytes>().map_err(|e| failed(e.into()))?.as_bytes();
                if bytes.len() as u64 != range.length {
                    let Range { offset, length } = range;
                    let message = format!("{length} bytes wanted at byte {offset}, {} came", bytes.len());
                    return Err(Fault::passing(IoError::new(ErrorKind::UnexpectedEof, message)));
                }
                put(range, bytes);
            }
            Ok(())
        };
        // The interpreter may be on its way out.
        Python::try_attach(read).unwrap_or_else(|| Err(Fault::lasting(IoError::other("Python has ended"))))
    }
}

impl Transport for Object {
    fn name(&self) -> &str {
        &self.name
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn most_ranges(&self) -> usize {
        usize::MAX
    }
    fn request(
        &self,
        ranges: &[Range],
        limit: Duration,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), Fault> {
        self.read(ranges, limit, |range, bytes| {
            take(range.offset, bytes);
        })
    }
}

/// An object that reads one range at a time, and not from far away as far as is known.
struct Near {
    object: Object,
    counters: Counters,
}

impl Source for Near {
    fn name(&self) -> &str {
        &self.object.name
    }
    fn size(&self) -> u64 {
        self.object.size
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let range = Range { offset, length: out.len() as u64 };
        let result = self.object.read(&[range], Duration::MAX, |_, bytes| out.copy_from_slice(bytes));
        result.map_err(|f| IoError::new(f.error.kind(), format!("{}: {}", self.object.name, f.error)))
    }
    /// A call of Python may stand for a request to a server.
    fn chunk(&self, _bytes: u64, _threads: usize) -> u64 {
        8 << 20
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

#[pyfunction]
fn start_trace() -> bool {
    trace::start()
}

/// The columns of the trace, or nothing if there is none.
#[pyfunction]
fn stop_trace(py: Python<'_>) -> PyResult<Option<(u64, Bound<'_, PyDict>)>> {
    trace::stop().map(|trace| traced(py, &trace)).transpose()
}

/// The same of what was recorded so far.
#[pyfunction]
fn trace_so_far(py: Python<'_>) -> PyResult<Option<(u64, Bound<'_, PyDict>)>> {
    trace::so_far().map(|trace| traced(py, &trace)).transpose()
}

/// The same, and takes it out: the trace goes on without it.
#[pyfunction]
fn take_trace(py: Python<'_>) -> PyResult<Option<(u64, Bound<'_, PyDict>)>> {
    trace::take().map(|trace| traced(py, &trace)).transpose()
}

/// Requests, ranges, bytes and nanoseconds of each cause since the process began.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a plain table")]
fn requests() -> Vec<(&'static str, (u64, u64, u64, u64))> {
    trace::tallies()
        .map(|(cause, tally)| {
            let [requests, ranges, bytes, time] =
                [&tally.requests, &tally.ranges, &tally.bytes, &tally.time].map(|sum| sum.load(Relaxed));
            (cause.name(), (requests, ranges, bytes, time))
        })
        .collect()
}

fn traced<'py>(py: Python<'py>, trace: &trace::Trace) -> PyResult<(u64, Bound<'py, PyDict>)> {
    let columns = PyDict::new(py);
    let name = |number: u32| trace.names.get(number as usize).map_or("", String::as_str);
    let text = |of: &dyn Fn(&trace::Row) -> String| {
        let (mut offsets, mut bytes) = (vec![0i64], Vec::new());
        for row in &trace.rows {
            bytes.extend_from_slice(of(row).as_bytes());
            offsets.push(bytes.len() as i64);
        }
        Column::Text { offsets: offsets.into(), bytes: bytes.into() }
    };
    let number = |of: &dyn Fn(&trace::Row) -> i64| Column::Number {
        number: Number::I64,
        values: trace.rows.iter().map(of).collect::<Vec<i64>>().into(),
    };
    let all: [(&str, Column); 18] = [
        ("cause", text(&|r| r.cause.to_owned())),
        ("file", text(&|r| name(r.file).to_owned())),
        ("tree", text(&|r| name(r.tree).to_owned())),
        ("branch", text(&|r| name(r.branch).to_owned())),
        ("basket", number(&|r| r.basket)),
        ("cluster", number(&|r| r.cluster)),
        ("entry_start", number(&|r| r.entry_start)),
        ("entry_stop", number(&|r| r.entry_stop)),
        ("offset", number(&|r| r.offset as i64)),
        ("length", number(&|r| r.length as i64)),
        ("request", number(&|r| r.request as i64)),
        ("start_ns", number(&|r| r.start as i64)),
        ("end_ns", number(&|r| r.end as i64)),
        ("decompression_ns", number(&|r| r.decompression as i64)),
        ("decoding_ns", number(&|r| r.decoding as i64)),
        ("bytes_decompressed", number(&|r| r.decompressed as i64)),
        ("bytes_used", number(&|r| r.used as i64)),
        ("thread", number(&|r| i64::from(r.thread))),
    ];
    for (name, column) in all {
        columns.set_item(name, columns::column(py, column)?)?;
    }
    Ok((trace.epoch, columns))
}

/// Storage as such, without a file's structure: requests are sent as they are given.
#[pyclass(frozen, name = "Storage", module = "sapwood._native")]
pub struct PyStorage {
    source: Arc<dyn Source>,
}

#[pymethods]
impl PyStorage {
    #[new]
    #[pyo3(signature = (source, name = None, far = None))]
    fn new(source: &Bound<'_, PyAny>, name: Option<String>, far: Option<Far>) -> PyResult<Self> {
        let deadline = Deadline::after(far.as_ref().map(Far::deadline).transpose()?.flatten());
        Ok(Self { source: direct(source, name, far.as_ref(), deadline)? })
    }
    #[getter]
    fn size(&self) -> u64 {
        self.source.size()
    }
    /// Reads ranges by one request, and forgets them; gives their bytes.
    fn request(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<u64> {
        let ranges: Vec<Range> =
            ranges.into_iter().map(|(offset, length)| Range { offset, length }).collect();
        let source = &self.source;
        py.detach(|| {
            for range in &ranges {
                // Before room is made for it.
                sapwood_io::source::check(*range, source.size(), source.name())?;
            }
            let total = ranges.iter().map(|range| range.length).sum();
            let mut bytes = vec![0; total as usize];
            source.fetch(&ranges, &mut bytes, Cause::Basket).map(|()| total)
        })
        .map_err(|e| raise(Error::from(e)))
    }
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        crate::reading::snapshot(py, self.source.counters())
    }
    fn ledger(&self) -> Vec<Row> {
        ledger(self.source.as_ref())
    }
    fn close(&self) {
        self.source.close();
    }
}

/// The requests by which ranges, wanted in this order, would be fetched from storage of which so much is known.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a plain table")]
fn plan_requests(
    ranges: Vec<(u64, u64)>,
    prefetch: u64,
    workers: usize,
    latency: f64,
    bandwidth: f64,
    most_ranges: usize,
) -> PyResult<Vec<Vec<(u64, u64)>>> {
    let ranges: Vec<Range> = ranges.into_iter().map(|(offset, length)| Range { offset, length }).collect();
    let size = ranges.iter().map(|range| range.end()).max().unwrap_or(0);
    let options = Options { ahead: prefetch, workers: workers.max(1), ..Options::default() };
    let latency = Duration::try_from_secs_f64(latency)
        .map_err(|e| raise(Error::argument(format!("a latency is a number of seconds: {e}"))))?;
    let storage = imagined(size, most_ranges, latency, bandwidth as u64, options);
    Ok(storage.requests(&ranges, 1).iter().map(|request| pairs(request)).collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(list_folder, module)?)?;
    module.add_function(wrap_pyfunction!(start_trace, module)?)?;
    module.add_function(wrap_pyfunction!(stop_trace, module)?)?;
    module.add_function(wrap_pyfunction!(trace_so_far, module)?)?;
    module.add_function(wrap_pyfunction!(take_trace, module)?)?;
    module.add_function(wrap_pyfunction!(requests, module)?)?;
    module.add_class::<PyStorage>()?;
    module.add_class::<PyStop>()?;
    module.add_function(wrap_pyfunction!(plan_requests, module)?)
}

/// An incident as Python gets it: time in nanoseconds since 1970, offset, length, attempt, whether it was sent again, why.
type Row = (u64, u64, u64, u32, bool, String);

fn rows(incidents: Vec<Incident>) -> Vec<Row> {
    incidents.into_iter().map(|i| (i.time, i.offset, i.length, i.attempt, i.again, i.message)).collect()
}

/// What did not go well of a file's requests.
pub fn ledger(source: &dyn Source) -> Vec<Row> {
    rows(source.ledger())
}

/// An error of storage, with what did not go well before: whoever gets it may have no file to ask.
pub fn with_ledger(py: Python<'_>, error: PyErr, incidents: Vec<Incident>) -> PyErr {
    let set = || {
        let incident = py.import("sapwood.files.file")?.getattr("Incident")?;
        let list: PyResult<Vec<_>> = rows(incidents).into_iter().map(|row| incident.call1(row)).collect();
        error.value(py).setattr("ledger", list?)
    };
    if error.is_instance_of::<PyOSError>(py) {
        // That it cannot be said is no reason to lose what was raised.
        let _ = set();
    }
    error
}

/// Ranges as pairs of offset and length.
pub fn pairs(ranges: &[Range]) -> Vec<(u64, u64)> {
    ranges.iter().map(|r| (r.offset, r.length)).collect()
}
