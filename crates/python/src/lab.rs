//! Benchmarks of a machine, and the events of a study.

use crate::columns;
use numpy::{Element, PyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sapwood_lab as lab;

#[pyfunction]
fn lab_probe(name: &str, size: usize, count: usize, folder: &str, seconds: f64) -> PyResult<Vec<f64>> {
    // The interpreter lock is kept: a probe that forks must not meet another thread.
    Ok(lab::run(name, size, count, folder, seconds)?)
}

#[pyfunction]
fn lab_forget() -> PyResult<()> {
    #[cfg(unix)]
    lab::system::forget()?;
    Ok(())
}

#[pyfunction]
fn lab_sources() -> Vec<(&'static str, &'static str)> {
    lab::SOURCES.to_vec()
}

#[pyfunction]
fn lab_starter() -> &'static [u8] {
    lab::STARTER
}

/// Columns by name: track `offsets`, `temperature`, `histogram`, `floats` (a list), `charge`, `npoint`, `valid`.
#[pyfunction]
fn lab_events(py: Python<'_>, start: u64, stop: u64) -> PyResult<Bound<'_, PyDict>> {
    fn array<T: Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyArray1<T>> {
        PyArray1::from_vec(py, values)
    }
    columns::load(py)?;
    let made = py.detach(|| lab::events::events(start, stop));
    let columns = PyDict::new(py);
    columns.set_item("offsets", array(py, made.offsets))?;
    columns.set_item("temperature", array(py, made.temperature))?;
    columns.set_item("histogram", array(py, made.histogram))?;
    columns.set_item("floats", made.floats.map(|values| array(py, values)))?;
    columns.set_item("charge", array(py, made.charge))?;
    columns.set_item("npoint", array(py, made.npoint))?;
    columns.set_item("valid", array(py, made.valid))?;
    Ok(columns)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(lab_probe, module)?)?;
    module.add_function(wrap_pyfunction!(lab_forget, module)?)?;
    module.add_function(wrap_pyfunction!(lab_events, module)?)?;
    module.add_function(wrap_pyfunction!(lab_sources, module)?)?;
    module.add_function(wrap_pyfunction!(lab_starter, module)?)
}
