//! Sums of objects from several files, for merging.

use crate::errors::raise;
use crate::file::{PyDirectory, PyFile, PyKey};
use crate::runtime::pool;
use pyo3::prelude::*;
use rayon::prelude::*;
use sapwood_io::lock;
use sapwood_root::Result;
use sapwood_root::file::Key;
use sapwood_root::file::writer::{SharedSum, Sum, Sums};
use std::sync::{Arc, Mutex, MutexGuard};

/// A sum of objects with the same shape.
#[pyclass(frozen, name = "Sum", module = "sapwood._native")]
pub struct PySum {
    sum: SharedSum,
}

#[pymethods]
impl PySum {
    /// Reads objects; each starts a sum.
    #[staticmethod]
    fn read(py: Python<'_>, file: &PyFile, keys: Vec<PyRef<'_, PyKey>>) -> PyResult<Vec<Self>> {
        let file = file.file();
        let keys: Vec<Key> = keys.iter().map(|key| key.key().clone()).collect();
        let read = |key: &Key| Ok(Self { sum: Arc::new(Mutex::new(Sum::read(&file, key)?)) });
        let pool = pool()?;
        let work = || keys.par_iter().with_min_len(16).map(read).collect::<Result<_>>();
        py.detach(|| pool.install(work)).map_err(raise)
    }
    #[getter]
    fn is_additive(&self) -> bool {
        lock(&self.sum).is_additive()
    }
    #[getter]
    fn count(&self) -> usize {
        lock(&self.sum).count()
    }
    #[getter]
    fn bytes(&self) -> usize {
        lock(&self.sum).bytes()
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
    fn new() -> Self {
        Self { sums: Mutex::default() }
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
