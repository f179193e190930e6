//! Where files are read from, as Python names it; and the trace of what was read.

use crate::columns;
use crate::errors::raise;
use pyo3::exceptions::{PyFileNotFoundError, PyPermissionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use sapwood_io::http::{self, Keys, Settings};
use sapwood_io::xrootd::{self, Identity};
use sapwood_io::{Counters, Fault, Memory, Options, Range, Remote, Source, Transport, trace};
use sapwood_root::Error;
use sapwood_root::array::{Column, Number};
use std::io::{Error as IoError, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How storage far away is read, as `sapwood.reading.locate` gives it.
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
    user: (String, String, u32),
}

impl Far {
    fn options(&self) -> PyResult<Options> {
        let timeout = Duration::try_from_secs_f64(self.timeout).ok().filter(|t| !t.is_zero());
        let timeout = timeout.ok_or_else(|| {
            raise(Error::argument(format!("a timeout is a number of seconds above 0, not {}", self.timeout)))
        })?;
        Ok(Options {
            timeout,
            retries: self.retries,
            ahead: self.prefetch,
            workers: self.workers.clamp(1, 64),
        })
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

/// Opens what Python means: a path, bytes, URLs, or an object that reads.
pub fn source(
    source: &Bound<'_, PyAny>,
    name: Option<String>,
    far: Option<&Far>,
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
        let options = far.options()?;
        let open = || {
            if urls.iter().any(|url| xrootd::takes(url)) {
                xrootd::open(&urls, &far.identity(), &options)
            } else {
                http::open(&urls, &far.settings(), &options)
            }
        };
        return py.detach(open).map_err(PyErr::from);
    }
    let size = source.getattr("size")?.extract()?;
    let name = name.unwrap_or_else(|| "<object>".to_owned());
    let object = Object { reader: source.clone().unbind(), name, size };
    match far {
        Some(far) => Ok(Arc::new(Remote::new(Arc::new(object), far.options()?, Vec::new()))),
        None => Ok(Arc::new(Near { object, counters: Counters::default() })),
    }
}

/// A Python object with `size` and `read_ranges`.
struct Object {
    reader: Py<PyAny>,
    name: String,
    size: u64,
}

impl Object {
    fn read(&self, ranges: &[Range], mut put: impl FnMut(&Range, &[u8])) -> Result<(), Fault> {
        let read = |py: Python<'_>| {
            let wanted: Vec<(u64, u64)> = ranges.iter().map(|r| (r.offset, r.length)).collect();
            let failed = |e: PyErr| {
                let kind = if e.is_instance_of::<PyFileNotFoundError>(py) {
                    ErrorKind::NotFound
                } else if e.is_instance_of::<PyPermissionError>(py) {
                    ErrorKind::PermissionDenied
                } else {
                    ErrorKind::Other
                };
                let again = kind == ErrorKind::Other && !e.is_instance_of::<PyValueError>(py);
                let error = IoError::new(kind, format!("reading failed: {e}"));
                if again { Fault::passing(error) } else { Fault::lasting(error) }
            };
            let found = self.reader.call_method1(py, "read_ranges", (wanted,)).map_err(failed)?;
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
        _limit: Duration,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), Fault> {
        self.read(ranges, |range, bytes| {
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
        let result = self.object.read(&[range], |_, bytes| out.copy_from_slice(bytes));
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
    let Some(trace) = trace::stop() else { return Ok(None) };
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
    let all: [(&str, Column); 16] = [
        ("cause", text(&|r| r.cause.to_owned())),
        ("file", text(&|r| name(r.file).to_owned())),
        ("tree", text(&|r| name(r.tree).to_owned())),
        ("branch", text(&|r| name(r.branch).to_owned())),
        ("basket", number(&|r| r.basket)),
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
        ("thread", number(&|r| i64::from(r.thread))),
    ];
    for (name, column) in all {
        columns.set_item(name, columns::column(py, column)?)?;
    }
    Ok(Some((trace.epoch, columns)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(start_trace, module)?)?;
    module.add_function(wrap_pyfunction!(stop_trace, module)?)
}

/// An incident as Python gets it: time in nanoseconds since 1970, offset, length, attempt, whether it was sent again, why.
pub fn ledger(source: &dyn Source) -> Vec<(u64, u64, u64, u32, bool, String)> {
    source.ledger().into_iter().map(|i| (i.time, i.offset, i.length, i.attempt, i.again, i.message)).collect()
}

/// Ranges as pairs of offset and length.
pub fn pairs(ranges: &[Range]) -> Vec<(u64, u64)> {
    ranges.iter().map(|r| (r.offset, r.length)).collect()
}
