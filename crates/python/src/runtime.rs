//! The execution of work and its cancellation: thread pool, Ctrl-C, deadlines.

use crate::calls;
use crate::errors::raise;
use crate::storage;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sapwood_io::{PerProcess, Source, Token, cancel, lock};
use sapwood_root::array::pool::{self as buffers, Hold};
use sapwood_root::file::RootFile;
use sapwood_root::table::{Table, set_most_cached};
use sapwood_root::{Error, ErrorKind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// The pool for reading and writing; it is replaced when the number of threads changes. A forked child inherits none of
/// its threads and creates its own pool of the same size.
fn slot() -> MutexGuard<'static, Option<Arc<rayon::ThreadPool>>> {
    static POOL: PerProcess<Mutex<Option<Arc<rayon::ThreadPool>>>> = PerProcess::empty();
    lock(POOL.get(|_| Mutex::default()))
}

/// Number of its threads; 0 before the first pool.
static THREADS: AtomicUsize = AtomicUsize::new(0);

fn make_pool(threads: usize) -> PyResult<Arc<rayon::ThreadPool>> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("sapwood-{i}")).build();
    pool.map(Arc::new).map_err(|error| refused(threads, &error))
}

/// Returns the error for threads that the system does not start.
fn refused(threads: usize, error: &dyn std::error::Error) -> PyErr {
    raise(Error::limit(format!(
        "cannot start a thread ({threads} requested): {error}; raise the limit of processes (ulimit -u), or set \
         SAPWOOD_NUM_THREADS to fewer"
    )))
}

/// Returns the pool.
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
            if slot().as_ref().is_some_and(|pool| pool.current_num_threads() == threads) {
                return Ok(());
            }
            let before = slot().replace(make_pool(threads)?);
            THREADS.store(threads, Relaxed);
            // Outside the lock, because this waits for its threads to end.
            drop(before);
            Ok(())
        }
        _ => Err(raise(Error::argument(format!("the number of threads must be from 1 to 4096, not {n}")))),
    }
}

#[pyfunction]
fn num_threads() -> PyResult<usize> {
    Ok(pool()?.current_num_threads())
}

fn memory_limit(limit: i64) -> PyResult<usize> {
    usize::try_from(limit).map_err(|_| {
        raise(Error::argument(format!("the memory limit must not be negative, but is {limit} bytes")))
    })
}

#[pyfunction]
fn set_kept_memory(limit: i64, py: Python<'_>) -> PyResult<usize> {
    let bytes = memory_limit(limit)?;
    Ok(py.detach(|| buffers::set_most_kept(bytes)))
}

#[pyfunction]
fn set_basket_cache(limit: i64, py: Python<'_>) -> PyResult<usize> {
    let bytes = memory_limit(limit)?;
    Ok(py.detach(|| set_most_cached(bytes)))
}

#[pyfunction]
fn kept_memory() -> usize {
    buffers::kept()
}

/// Deadline of a whole operation, if any.
#[derive(Clone, Copy, Default)]
pub struct Deadline {
    limit: Option<Duration>,
    end: Option<Instant>,
}

impl Deadline {
    /// Returns a deadline after this time.
    pub fn after(limit: Option<Duration>) -> Self {
        Self { limit, end: limit.and_then(|limit| Instant::now().checked_add(limit)) }
    }
}

/// Stops jobs from another thread, including those that wait or are about to wait.
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
    /// Calls a function that this can stop.
    fn call<'py>(&self, work: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.token.during(|| work.call0())
    }
    fn give_up(&self) {
        self.token.give_up();
    }
}

/// Runs work on another thread while this one watches for signals and the deadline.
///
/// Ctrl-C and the deadline cancel the work: `interrupt` is called, and its end is not awaited.
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
    let started = worker.spawn(move || {
        let _ = sender.send(theirs.during(work));
    });
    started.map_err(|error| refused(1, &error))?;
    let result = listen(py, deadline, &Mutex::new(receiver));
    if result.is_err() {
        token.give_up();
        py.detach(interrupt);
    }
    result
}

/// Interval for checking signals.
const LISTEN: Duration = Duration::from_millis(50);

/// Waits for a result, a signal, the deadline, or the cancellation of the job for which this thread works.
fn listen<T: Send>(py: Python<'_>, deadline: Deadline, from: &Mutex<Receiver<T>>) -> PyResult<T> {
    let Deadline { limit, end } = deadline;
    loop {
        let left = end.map_or(LISTEN, |end| end.saturating_duration_since(Instant::now()).min(LISTEN));
        match receive(py, from, left) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(raise(Error::new(ErrorKind::Io, "a worker thread ended before it had finished")));
            }
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
        if cancel::given_up() {
            return Err(raise(Error::new(ErrorKind::Io, "cancelled")));
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            let limit = limit.unwrap_or_default().as_secs_f64();
            return Err(raise(Error::new(
                ErrorKind::Io,
                format!("not finished within the deadline of {limit} s"),
            )));
        }
    }
}

/// Waits for a result while other Python threads run.
fn receive<T: Send>(
    py: Python<'_>,
    from: &Mutex<Receiver<T>>,
    limit: Duration,
) -> std::result::Result<T, RecvTimeoutError> {
    py.detach(|| lock(from).recv_timeout(limit))
}

/// Runs work that Ctrl-C and the deadline can stop. The calling thread only listens.
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
        let worker = thread::Builder::new().name("sapwood-file".to_owned());
        let started = worker.spawn_scoped(scope, || {
            let _ = sender.send(token.during(work));
        });
        if let Err(error) = started {
            result = Some(Err(refused(1, &error)));
            return;
        }
        let heard = listen(py, deadline, &receiver);
        if heard.is_err() {
            token.give_up();
            py.detach(&interrupt);
            // The work borrows from this thread; once cancelled, it ends at once.
            let _ = receive(py, &receiver, Duration::MAX);
        }
        result = Some(heard);
    });
    result.unwrap_or_else(|| Err(PyValueError::new_err("no result")))
}

/// Runs work on a file. If the file is remote, Ctrl-C and the deadline can stop it.
pub fn with_file<T: Send>(
    py: Python<'_>,
    file: &RootFile,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    with_files(py, &[file.source().as_ref()], &Token::default(), work)
}

/// Like [`with_file`], for the file of a table.
pub fn with_table<T: Send>(
    py: Python<'_>,
    table: &dyn Table,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    with_files(py, &[table.source().as_ref()], &Token::default(), work)
}

/// Like [`with_file`], for several files.
pub fn with_files<T: Send>(
    py: Python<'_>,
    files: &[&dyn Source],
    token: &Token,
    work: impl FnOnce() -> Result<T, Error> + Send,
) -> PyResult<T> {
    if let Some(file) = files.iter().find(|file| file.is_called()) {
        return Err(raise(calls::error(file.name())));
    }
    let work = move || {
        work().map_err(
            |error| {
                if files.iter().any(|file| file.written_to()) { error.of_change() } else { error }
            },
        )
    };
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
        let hold = lock(&self.hold).take();
        py.detach(|| drop(hold));
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStop>()?;
    module.add_class::<PyHeldBuffers>()?;
    module.add_function(wrap_pyfunction!(set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_kept_memory, module)?)?;
    module.add_function(wrap_pyfunction!(set_basket_cache, module)?)?;
    module.add_function(wrap_pyfunction!(kept_memory, module)?)
}
