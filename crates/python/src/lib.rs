//! The native module `sapwood._native`: argument and error conversion over `sapwood-root`.
#![allow(missing_docs, reason = "documented in python/sapwood/_native.pyi")]
#![allow(clippy::needless_pass_by_value, reason = "arguments of Python functions are extracted as values")]

mod arrow;
mod borrow;
mod calls;
mod columns;
mod compress;
mod errors;
mod expr;
mod file;
mod lab;
mod layout;
mod ntuple;
mod objects;
mod rows;
mod runtime;
mod shapes;
mod source;
mod storage;
mod sums;
mod table;
mod trace;
mod tree;
mod writing;
mod zebra;

use pyo3::prelude::*;

#[cfg(target_os = "linux")]
use sapwood_root::array::mapped::Mapped as Base;
#[cfg(not(target_os = "linux"))]
use std::alloc::System as Base;

#[global_allocator]
static ALLOCATOR: sapwood_io::Reserve<Base> = sapwood_io::Reserve(Base);

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    runtime::register(module)?;
    file::register(module)?;
    table::register(module)?;
    tree::register(module)?;
    expr::register(module)?;
    ntuple::register(module)?;
    rows::register(module)?;
    compress::register(module)?;
    shapes::register(module)?;
    layout::register(module)?;
    module.add_function(wrap_pyfunction!(arrow::arrow_stream, module)?)?;
    objects::register(module)?;
    storage::register(module)?;
    trace::register(module)?;
    lab::register(module)?;
    zebra::register(module)?;
    module.add_class::<sums::PySum>()?;
    module.add_class::<sums::PySums>()?;
    module.add_class::<writing::Output>()
}
