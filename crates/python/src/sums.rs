//! Sums of objects from several files, for merging.

use crate::errors::raise;
use crate::file::{PyDirectory, PyFile, PyKey};
use crate::runtime::pool;
use pyo3::prelude::*;
use sapwood_io::lock;
use sapwood_root::file::Key;
use sapwood_root::file::writer::{SharedSum, Sums};
use std::sync::{Arc, Mutex, MutexGuard};

/// A sum of objects with the same shape.
#[pyclass(frozen, name = "Sum", module = "sapwood._native")]
pub struct PySum {
    sum: SharedSum,
}

#[pymethods]
impl PySum {
    #[getter]
    fn is_additive(&self) -> bool {
        lock(&self.sum).is_additive()
    }
    #[getter]
    fn count(&self) -> usize {
        lock(&self.sum).count()
    }
}

/// Sums by the paths of their objects.
#[pyclass(frozen, name = "Sums", module = "sapwood._native")]
pub struct PySums {
    sums: Mutex<Sums>,
}

impl PySum {
    /// The sum itself.
    pub fn shared(&self) -> SharedSum {
        self.sum.clone()
    }
}

impl PySums {
    fn locked(&self) -> MutexGuard<'_, Sums> {
        lock(&self.sums)
    }
}

#[pymethods]
impl PySums {
    #[new]
    fn new(most: usize) -> Self {
        Self { sums: Mutex::new(Sums::new(most)) }
    }
    /// Reads objects; each starts a sum.
    fn start(&self, py: Python<'_>, file: &PyFile, keys: Vec<PyRef<'_, PyKey>>) -> PyResult<Vec<PySum>> {
        let file = file.file();
        let keys: Vec<Key> = keys.iter().map(|key| key.key().clone()).collect();
        let pool = pool()?;
        let started = py.detach(|| {
            let sums = self.locked();
            let sums: &Sums = &sums;
            pool.install(|| sums.start(&file, &keys))
        });
        let shared = |sum| PySum { sum: Arc::new(Mutex::new(sum)) };
        Ok(started.map_err(raise)?.into_iter().map(shared).collect())
    }
    /// Counts the memory of a sum that is kept.
    fn keep(&self, total: &PySum) {
        self.locked().keep(&lock(&total.sum));
    }
    /// Raises an error if there is no room for `more` bytes.
    fn check(&self, more: usize) -> PyResult<()> {
        self.locked().check(more).map_err(raise)
    }
    /// Inserts a sum for the objects of a path.
    fn insert(&self, path: String, total: &PySum) {
        self.locked().insert(path, total.shared());
    }
    /// Reads the objects of a directory that are similar to the sums of their paths; returns the indices of the other
    /// keys.
    fn read(&self, py: Python<'_>, directory: &PyDirectory, prefix: &str) -> PyResult<Vec<usize>> {
        let (file, directory) = directory.parts();
        let pool = pool()?;
        py.detach(|| {
            // Locked outside the pool, as in `Output::with`.
            let mut sums = self.locked();
            let sums: &mut Sums = &mut sums;
            pool.install(|| sums.read(file, directory, prefix))
        })
        .map_err(raise)
    }
    /// Adds the objects that were read.
    fn add(&self, py: Python<'_>) -> PyResult<()> {
        let pool = pool()?;
        py.detach(|| {
            let mut sums = self.locked();
            let sums: &mut Sums = &mut sums;
            pool.install(|| sums.add());
        });
        Ok(())
    }
    /// Drops the objects that were read.
    fn forget(&self) {
        self.locked().forget();
    }
}
