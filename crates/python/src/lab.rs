//! The probes of a machine.

use pyo3::prelude::*;
use sapwood_lab as lab;

#[pyfunction]
fn lab_probe(name: &str, size: usize, count: usize, folder: &str, seconds: f64) -> PyResult<Vec<f64>> {
    // The lock is kept: a probe that forks must not meet another thread.
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

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(lab_probe, module)?)?;
    module.add_function(wrap_pyfunction!(lab_forget, module)?)?;
    module.add_function(wrap_pyfunction!(lab_sources, module)?)
}
