//! Counters, and the trace of accesses.

use crate::columns;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sapwood_io::{Counters, trace};
use sapwood_root::array::{Column, Number};
use std::sync::atomic::Ordering::Relaxed;

/// Counters by their names.
pub fn snapshot<'py>(py: Python<'py>, counters: &Counters) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in counters.snapshot() {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

#[pyfunction]
fn counters(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    snapshot(py, Counters::process())
}

#[pyfunction]
fn start_trace() -> bool {
    trace::start()
}

/// Stops the trace and returns its columns; `None` if there is none.
#[pyfunction]
fn stop_trace(py: Python<'_>) -> PyResult<Option<(u64, Bound<'_, PyDict>)>> {
    trace::stop().map(|trace| traced(py, &trace)).transpose()
}

/// Returns the columns of the trace so far.
#[pyfunction]
fn trace_so_far(py: Python<'_>) -> PyResult<Option<(u64, Bound<'_, PyDict>)>> {
    trace::so_far().map(|trace| traced(py, &trace)).transpose()
}

/// Takes the records so far out of the trace, which continues.
#[pyfunction]
fn take_trace(py: Python<'_>) -> PyResult<Option<(u64, Bound<'_, PyDict>)>> {
    trace::take().map(|trace| traced(py, &trace)).transpose()
}

/// Returns requests, ranges, bytes and nanoseconds of each cause since the process began.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "a plain table")]
fn requests() -> Vec<(&'static str, (u64, u64, u64, u64))> {
    trace::tallies()
        .map(|(cause, tally)| {
            let [requests, ranges, bytes, time] =
                [&tally.requests, &tally.ranges, &tally.bytes, &tally.time].map(|sum| sum.load(Relaxed));
            (cause.name(), (requests, ranges, bytes, time))
        })
        .collect()
}

fn traced<'py>(py: Python<'py>, trace: &trace::Trace) -> PyResult<(u64, Bound<'py, PyDict>)> {
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
    let all: [(&str, Column); 18] = [
        ("cause", text(&|r| r.cause.to_owned())),
        ("file", text(&|r| name(r.file).to_owned())),
        ("tree", text(&|r| name(r.table).to_owned())),
        ("branch", text(&|r| name(r.field).to_owned())),
        ("basket", number(&|r| r.page)),
        ("cluster", number(&|r| r.cluster)),
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
        ("bytes_used", number(&|r| r.used as i64)),
        ("thread", number(&|r| i64::from(r.thread))),
    ];
    for (name, column) in all {
        columns.set_item(name, columns::column(py, column)?)?;
    }
    Ok((trace.epoch, columns))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(counters, module)?)?;
    module.add_function(wrap_pyfunction!(start_trace, module)?)?;
    module.add_function(wrap_pyfunction!(stop_trace, module)?)?;
    module.add_function(wrap_pyfunction!(trace_so_far, module)?)?;
    module.add_function(wrap_pyfunction!(take_trace, module)?)?;
    module.add_function(wrap_pyfunction!(requests, module)?)
}
