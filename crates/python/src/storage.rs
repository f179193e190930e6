//! Opening the sources that Python names.

use crate::errors::raise;
use crate::runtime::{Deadline, interruptible};
use crate::trace::snapshot;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use sapwood_io::blocks::Folder;
use sapwood_io::http::{self, Keys, Settings};
use sapwood_io::remote::imagined;
use sapwood_io::xrootd::{self, Identity};
use sapwood_io::{Cause, Incident, Ledger, Memory, Options, Prior, Range, Source, x509};
use sapwood_root::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options for remote storage, from `sapwood.storage.locate`.
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
    certificate: Option<PathBuf>,
}

/// The longest timeout.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Far {
    fn options(&self) -> PyResult<Options> {
        let timeout = Duration::try_from_secs_f64(self.timeout).ok().filter(|t| !t.is_zero());
        let timeout = timeout.ok_or_else(|| {
            raise(Error::argument(format!(
                "the timeout must be a number of seconds above 0, not {}",
                self.timeout
            )))
        })?;
        // Beyond the range of any clock is the same as no limit.
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
    /// Maximum time of an operation.
    pub fn deadline(&self) -> PyResult<Option<Duration>> {
        let deadline = self.deadline.map(Duration::try_from_secs_f64).transpose();
        deadline.map_err(|e| raise(Error::argument(format!("the deadline must be a number of seconds: {e}"))))
    }
    fn settings(&self) -> PyResult<Settings> {
        let keys =
            self.keys.clone().map(|(access, secret, token, region)| Keys { access, secret, token, region });
        let certificate = self.certificate.as_deref().map(x509::read).transpose()?;
        Ok(Settings {
            headers: self.headers.clone(),
            header_bytes: self.header_bytes,
            ranges: self.ranges,
            keys,
            certificate,
        })
    }
    fn identity(&self) -> Identity {
        let (user, group, number) = self.user.clone();
        Identity { user, group, number }
    }
}

/// Opens the source given in Python: a path, bytes, URLs, or an object with reading methods. Copies it first if `prior`
/// says so.
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
        // The limit is that of prefetching.
        Some("auto") => far.map_or(Prior::Never, |far| Prior::Auto(far.prefetch)),
        Some("memory") => Prior::Memory,
        Some("disk") => Prior::Disk,
        Some(other) => {
            let message = format!("prior must be 'memory', 'disk', 'auto' or None, not {other:?}");
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
        let (settings, identity, options) = (far.settings()?, far.identity(), far.options()?);
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
    crate::source::open(source, name, far.map(Far::options).transpose()?)
}

/// Returns the names in a folder of an `XRootD` server, and whether they are folders themselves.
#[pyfunction]
fn list_folder(py: Python<'_>, url: String, far: Far) -> PyResult<Vec<(String, bool)>> {
    let (identity, options) = (far.identity(), far.options()?);
    let deadline = Deadline::after(options.deadline);
    interruptible(py, deadline, || {}, move || xrootd::list(&url, &identity, &options))?.map_err(PyErr::from)
}

impl PyStorage {
    fn fetched(&self, py: Python<'_>, ranges: &[(u64, u64)]) -> PyResult<Vec<u8>> {
        let ranges: Vec<Range> = ranges.iter().map(|&(offset, length)| Range { offset, length }).collect();
        let source = &self.source;
        py.detach(|| {
            for range in &ranges {
                // Before memory is allocated for it.
                sapwood_io::source::check(*range, source.size(), source.name())?;
            }
            let total: u64 = ranges.iter().map(|range| range.length).sum();
            let mut bytes = vec![0; total as usize];
            source.fetch(&ranges, &mut bytes, Cause::Page).map(|()| bytes)
        })
        .map_err(|e| raise(Error::from(e)))
    }
}

/// Raw storage without a file structure: requests are sent exactly as given.
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
    /// Reads ranges with one request and discards them; returns their number of bytes.
    fn request(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<u64> {
        self.fetched(py, &ranges).map(|bytes| bytes.len() as u64)
    }
    /// Reads ranges with one request.
    fn read<'py>(&self, py: Python<'py>, ranges: Vec<(u64, u64)>) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let all = self.fetched(py, &ranges)?;
        let mut rest = all.as_slice();
        let lengths = ranges.iter().map(|&(_, length)| length as usize);
        let parts = lengths.map(|length| {
            let (part, behind) = rest.split_at_checked(length).unwrap_or_default();
            rest = behind;
            PyBytes::new(py, part)
        });
        Ok(parts.collect())
    }
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        snapshot(py, self.source.counters())
    }
    fn ledger(&self) -> Vec<Row> {
        ledger(self.source.as_ref())
    }
    fn close(&self) {
        self.source.close();
    }
}

/// Returns the requests with which ranges, wanted in this order, would be fetched from storage with known properties.
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
        .map_err(|e| raise(Error::argument(format!("the latency must be a number of seconds: {e}"))))?;
    let storage = imagined(size, most_ranges, latency, bandwidth as u64, options);
    Ok(storage.requests(&ranges, 1).iter().map(|request| pairs(request)).collect())
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(list_folder, module)?)?;
    module.add_class::<PyStorage>()?;
    module.add_function(wrap_pyfunction!(plan_requests, module)?)
}

/// An incident in Python: time in nanoseconds since 1970, offset, length, attempt, whether it was sent again,
/// description.
type Row = (u64, u64, u64, u32, bool, String);

fn rows(incidents: Vec<Incident>) -> Vec<Row> {
    incidents.into_iter().map(|i| (i.time, i.offset, i.length, i.attempt, i.again, i.message)).collect()
}

/// Returns the incidents of a file's requests.
pub fn ledger(source: &dyn Source) -> Vec<Row> {
    rows(source.ledger())
}

/// Adds earlier incidents to a storage error, because the caller may have no file object to query.
pub fn with_ledger(py: Python<'_>, error: PyErr, incidents: Vec<Incident>) -> PyErr {
    let set = || {
        let incident = py.import("sapwood.errors")?.getattr("Incident")?;
        let list: PyResult<Vec<_>> = rows(incidents).into_iter().map(|row| incident.call1(row)).collect();
        error.value(py).setattr("ledger", list?)
    };
    if error.is_instance_of::<PyOSError>(py) {
        // A failure to set it must not hide the exception.
        let _ = set();
    }
    error
}

/// Ranges as pairs of offset and length.
pub fn pairs(ranges: &[Range]) -> Vec<(u64, u64)> {
    ranges.iter().map(|r| (r.offset, r.length)).collect()
}
