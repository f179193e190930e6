//! Python objects as file sources.

use crate::calls::{self, Call};
use pyo3::exceptions::{PyFileNotFoundError, PyPermissionError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use sapwood_io::remote::SLOWEST;
use sapwood_io::{Counters, Fault, Ledger, Options, Origin, Range, Remote, Source, Transport};
use std::io::{Error as IoError, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Opens a Python object with `size` and `read_ranges`; with options, as remote storage.
pub fn open(
    object: &Bound<'_, PyAny>,
    name: Option<String>,
    options: Option<Options>,
) -> PyResult<Arc<dyn Source>> {
    let size = object.getattr("size")?.extract()?;
    let name = name.unwrap_or_else(|| "<object>".to_owned());
    let patience = options.as_ref().map(|options| options.timeout);
    let object = Object { reader: object.clone().unbind(), name, size, patience };
    match options {
        Some(options) => Ok(Arc::new(Remote::new(Arc::new(object), options, Vec::new(), Ledger::default()))),
        None => Ok(Arc::new(Near { object, counters: Counters::default() })),
    }
}

/// A Python object with `size` and `read_ranges`.
struct Object {
    reader: Py<PyAny>,
    name: String,
    size: u64,
    /// Time limit, in addition to the time for its bytes; `None` if the object takes no limit.
    patience: Option<Duration>,
}

impl Object {
    /// Reads ranges within the remaining time.
    fn read(
        &self,
        ranges: &[Range],
        left: Duration,
        mut put: impl FnMut(&Range, &[u8]),
    ) -> Result<(), Fault> {
        let Some(_call) = Call::of(&self.reader) else {
            let error = calls::error(&self.name);
            return Err(Fault::lasting(IoError::other(error.message().to_owned())));
        };
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
            let mut parts = found.bind(py).try_iter().map_err(failed)?;
            for range in ranges {
                let Some(bytes) = parts.next() else {
                    let message = format!("{} ranges requested, fewer received", ranges.len());
                    return Err(Fault::passing(IoError::new(ErrorKind::UnexpectedEof, message)));
                };
                let bytes = bytes.map_err(failed)?;
                let bytes = bytes.cast::<PyBytes>().map_err(|e| failed(e.into()))?.as_bytes();
                if bytes.len() as u64 != range.length {
                    let Range { offset, length } = range;
                    let message =
                        format!("{length} bytes requested at byte {offset}, {} received", bytes.len());
                    if bytes.len() as u64 > *length {
                        let message =
                            format!("{message}: the server may send whole or compressed files only");
                        return Err(Fault::lasting(IoError::new(ErrorKind::InvalidData, message)));
                    }
                    return Err(Fault::passing(IoError::new(ErrorKind::UnexpectedEof, message)));
                }
                put(range, bytes);
            }
            Ok(())
        };
        // The interpreter may be shutting down.
        Python::try_attach(read)
            .unwrap_or_else(|| Err(Fault::lasting(IoError::other("the Python interpreter has shut down"))))
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
    fn is_called(&self) -> bool {
        calls::is_called(calls::address(&self.reader))
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

/// An object that reads one range at a time and is not known to be remote.
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
    /// A Python call may be a request to a server.
    fn chunk(&self, _bytes: u64, _threads: usize) -> u64 {
        8 << 20
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Origin for Near {
    fn is_called(&self) -> bool {
        self.object.is_called()
    }
}
