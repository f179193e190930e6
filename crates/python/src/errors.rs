//! Errors of the Rust crates as exceptions of `sapwood.errors`.

use pyo3::prelude::*;
use sapwood_root::{Error, ErrorKind};

mod raised {
    pyo3::import_exception!(sapwood.errors, CorruptError);
    pyo3::import_exception!(sapwood.errors, CutOffError);
    pyo3::import_exception!(sapwood.errors, UnsupportedError);
    pyo3::import_exception!(sapwood.errors, LimitError);
    pyo3::import_exception!(sapwood.errors, ArgumentError);
    pyo3::import_exception!(sapwood.errors, NotFoundError);
    pyo3::import_exception!(sapwood.errors, StorageError);
    pyo3::import_exception!(sapwood.errors, ChangedFileError);
}

/// Returns the exception for an error of opening a file.
pub fn raise_opening(error: Error) -> PyErr {
    if error.kind() == ErrorKind::Corrupt && error.is_short() {
        return raised::CutOffError::new_err(error.to_string());
    }
    raise(error)
}

/// Returns the exception for an error.
pub fn raise(error: impl Into<Error>) -> PyErr {
    let error: Error = error.into();
    let message = error.to_string();
    match error.kind() {
        ErrorKind::Corrupt => raised::CorruptError::new_err(message),
        ErrorKind::Limit => raised::LimitError::new_err(message),
        ErrorKind::NotFound => raised::NotFoundError::new_err(message),
        ErrorKind::Argument => raised::ArgumentError::new_err(message),
        ErrorKind::Io => raised::StorageError::new_err(message),
        ErrorKind::Changed => raised::ChangedFileError::new_err(message),
        _ => {
            let raised = raised::UnsupportedError::new_err(message);
            if let Some(column) = error.column() {
                // An optional attribute: a failure to set it must not hide the exception.
                Python::attach(|py| raised.value(py).setattr("column", column).ok());
            }
            raised
        }
    }
}
