//! Columns as a stream of Arrow record batches, without an Arrow library on the Python side.

use crate::columns::to_column;
use crate::errors::raise;
use crate::runtime::{pool, with_files};
use crate::table::{PyTable, Slice};
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, LargeListArray, LargeStringArray, NullArray,
    PrimitiveArray, RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray, make_array, types,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, OffsetBuffer, ScalarBuffer};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use sapwood_io::Token;
use sapwood_root::array::{Column, Number, Type};
use sapwood_root::read::{LeftOut, Part, read_with};
use sapwood_root::table::Hidden;
use sapwood_root::wire::{cursor, grow};
use sapwood_root::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;

struct BatchReader {
    schema: SchemaRef,
    /// Slices, read when their batches are requested.
    pending: VecDeque<Slice>,
    /// Called with the values left out of a batch.
    warn: Py<PyAny>,
}

impl Iterator for BatchReader {
    type Item = std::result::Result<RecordBatch, ArrowError>;
    fn next(&mut self) -> Option<Self::Item> {
        let (table, fields, start, stop) = self.pending.pop_front()?;
        let left_out = LeftOut::default();
        let parts = [Part { table: &*table, fields: &fields, start, stop }];
        let pool = match pool() {
            Ok(pool) => pool,
            Err(error) => return Some(Err(ArrowError::ExternalError(Box::new(error)))),
        };
        let file = [table.source().as_ref()];
        let read = || read_with(&pool, &parts, None, Some(&left_out));
        let columns = Python::attach(|py| {
            with_files(py, &file, &Token::default(), read).map_err(|error| {
                let mut message = error.value(py).to_string();
                if error.is_instance_of::<PyKeyboardInterrupt>(py) {
                    "interrupted".clone_into(&mut message);
                    // The consumer replaces the exception: interrupt Python when it continues.
                    let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
                }
                ArrowError::ExternalError(message.into())
            })
        });
        let noted: Vec<String> = left_out.into_errors().iter().map(ToString::to_string).collect();
        if !noted.is_empty()
            && let Err(error) = Python::attach(|py| self.warn.call1(py, (noted,)))
        {
            return Some(Err(ArrowError::ExternalError(Box::new(error))));
        }
        let rows = (stop - start) as usize;
        let wrong = |error| ArrowError::ExternalError(Box::new(error));
        Some(columns.and_then(|columns| batch(&self.schema, columns, rows).map_err(wrong)))
    }
}

impl RecordBatchReader for BatchReader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

struct Once {
    schema: SchemaRef,
    batch: Option<RecordBatch>,
}

impl Iterator for Once {
    type Item = std::result::Result<RecordBatch, ArrowError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.batch.take().map(Ok)
    }
}

impl RecordBatchReader for Once {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Returns the Arrow type of a column type; `None` if only the data determine it.
fn data_type(of: &Type) -> Option<DataType> {
    let field = |name: &str, of: &Type| Some(Arc::new(Field::new(name, data_type(of)?, true)));
    Some(match of {
        Type::Number(number) => number_type(*number),
        Type::Text => DataType::LargeUtf8,
        Type::FixedList { size: 0, item } | Type::List(item) => DataType::LargeList(field("item", item)?),
        Type::FixedList { size, item } => {
            DataType::FixedSizeList(field("item", item)?, i32::try_from(*size).ok()?)
        }
        Type::Record { fields, .. } => {
            DataType::Struct(fields.iter().map(|(name, of)| field(name, of)).collect::<Option<Fields>>()?)
        }
        Type::Option(item) => data_type(item)?,
        Type::Union(_) | Type::Dynamic => return None,
    })
}

const fn number_type(number: Number) -> DataType {
    match number {
        Number::Bool => DataType::Boolean,
        Number::I8 => DataType::Int8,
        Number::U8 => DataType::UInt8,
        Number::I16 => DataType::Int16,
        Number::U16 => DataType::UInt16,
        Number::I32 => DataType::Int32,
        Number::U32 => DataType::UInt32,
        Number::I64 => DataType::Int64,
        Number::U64 => DataType::UInt64,
        Number::F32 => DataType::Float32,
        Number::F64 => DataType::Float64,
    }
}

fn wrong(error: &ArrowError) -> Error {
    Error::corrupt(error.to_string())
}

/// Returns the numbers in a buffer. The buffer is copied in the rare case that its memory is not aligned.
fn scalars<T: ArrowNativeType>(buffer: Buffer) -> ScalarBuffer<T> {
    if buffer.as_ptr().align_offset(align_of::<T>()) == 0 {
        ScalarBuffer::from(buffer)
    } else {
        ScalarBuffer::from(Buffer::from_slice_ref(buffer.as_slice()))
    }
}

fn offsets(buffer: Buffer) -> Result<OffsetBuffer<i64>> {
    let starts: ScalarBuffer<i64> = scalars(buffer);
    if starts.first().is_none_or(|&first| first < 0)
        || starts.windows(2).any(|pair| pair.first() > pair.last())
    {
        return Err(Error::argument("the offsets of lists do not increase from zero"));
    }
    Ok(OffsetBuffer::new(starts))
}

/// Returns a text column. Arrow requires UTF-8: other bytes are read as Latin-1, as everywhere in the file.
fn text(starts: Buffer, bytes: Buffer) -> Result<LargeStringArray> {
    let starts = offsets(starts)?;
    if let Ok(array) = LargeStringArray::try_new(starts.clone(), bytes.clone(), None) {
        return Ok(array);
    }
    let outside = || Error::argument("the offsets of a text are outside its bytes");
    let mut ends = grow::with_room(starts.len())?;
    let mut all = String::new();
    ends.push(0);
    for pair in starts.windows(2) {
        let &[start, end] = pair else { continue };
        let text = cursor::text(bytes.get(start as usize..end as usize).ok_or_else(outside)?)?;
        all.try_reserve(text.len())
            .map_err(|_| Error::limit(format!("no memory for {} bytes", text.len())))?;
        all.push_str(&text);
        ends.push(all.len() as i64);
    }
    let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
    LargeStringArray::try_new(ends, Buffer::from_vec(all.into_bytes()), None).map_err(|e| wrong(&e))
}

fn array(column: Column) -> Result<ArrayRef> {
    macro_rules! primitive {
        ($type:ty, $values:expr) => {
            Arc::new(PrimitiveArray::<$type>::new(scalars($values), None))
        };
    }
    let item = |values: &ArrayRef| Arc::new(Field::new("item", values.data_type().clone(), true));
    Ok(match column {
        Column::Number { number, values } => match number {
            Number::Bool => {
                let bits =
                    BooleanBuffer::collect_bool(values.len(), |i| values.get(i).is_some_and(|&b| b != 0));
                Arc::new(BooleanArray::new(bits, None))
            }
            Number::I8 => primitive!(types::Int8Type, values),
            Number::U8 => primitive!(types::UInt8Type, values),
            Number::I16 => primitive!(types::Int16Type, values),
            Number::U16 => primitive!(types::UInt16Type, values),
            Number::I32 => primitive!(types::Int32Type, values),
            Number::U32 => primitive!(types::UInt32Type, values),
            Number::I64 => primitive!(types::Int64Type, values),
            Number::U64 => primitive!(types::UInt64Type, values),
            Number::F32 => primitive!(types::Float32Type, values),
            Number::F64 => primitive!(types::Float64Type, values),
        },
        Column::Text { offsets, bytes } => Arc::new(text(offsets, bytes)?),
        // Polars panics on lists of the fixed size zero. They become lists of variable size that are all empty.
        Column::FixedList { length, size: 0, values } => {
            let values = array(*values)?;
            let mut starts = Vec::new();
            let room = length.checked_add(1).and_then(|count| starts.try_reserve_exact(count).ok());
            room.ok_or_else(|| Error::limit(format!("no memory for {length} empty lists")))?;
            starts.resize(length + 1, 0);
            let starts = OffsetBuffer::new(ScalarBuffer::from(starts));
            Arc::new(LargeListArray::try_new(item(&values), starts, values, None).map_err(|e| wrong(&e))?)
        }
        Column::FixedList { length, size, values } => {
            let values = array(*values)?;
            let size = i32::try_from(size)
                .map_err(|_| Error::limit(format!("lists of {size} elements are too long for Arrow")))?;
            let list = FixedSizeListArray::try_new_with_length(item(&values), size, values, None, length);
            Arc::new(list.map_err(|e| wrong(&e))?)
        }
        Column::List { offsets: starts, values } => {
            let values = array(*values)?;
            let list = LargeListArray::try_new(item(&values), offsets(starts)?, values, None);
            Arc::new(list.map_err(|e| wrong(&e))?)
        }
        Column::Record { length, fields, .. } => {
            let mut names = Vec::new();
            let mut arrays = Vec::new();
            for (name, field) in fields {
                let values = array(field)?;
                names.push(Arc::new(Field::new(name, values.data_type().clone(), true)));
                arrays.push(values);
            }
            let record = StructArray::try_new_with_length(Fields::from(names), arrays, None, length);
            Arc::new(record.map_err(|e| wrong(&e))?)
        }
        Column::Option { index, values } => optional(&index, *values)?,
        Column::Union { .. } => {
            return Err(Error::unsupported("a column of objects of several classes has no Arrow form here"));
        }
        Column::Empty => Arc::new(NullArray::new(0)),
    })
}

/// Returns optional values as an Arrow array with nulls.
fn optional(index: &Buffer, values: Column) -> Result<ArrayRef> {
    let places: ScalarBuffer<i64> = scalars(index.clone());
    let values = array(values)?.to_data();
    let mut out = MutableArrayData::new(vec![&values], true, places.len());
    for &place in &places {
        match usize::try_from(place) {
            Ok(place) if place < values.len() => out.try_extend(0, place, place + 1),
            _ => out.try_extend_nulls(1),
        }
        .map_err(|e| wrong(&e))?;
    }
    Ok(make_array(out.freeze()))
}

fn batch(schema: &SchemaRef, columns: Vec<Column>, rows: usize) -> Result<RecordBatch> {
    let arrays = columns.into_iter().map(array).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(|e| wrong(&e))
}

fn whole(names: &[String], columns: Vec<Column>) -> Result<Once> {
    let rows = columns.first().map_or(0, Column::len);
    let arrays = columns.into_iter().map(array).collect::<Result<Vec<_>>>()?;
    let fields = names.iter().zip(&arrays).map(|(name, a)| Field::new(name, a.data_type().clone(), true));
    let schema: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(schema.clone(), arrays, &options).map_err(|e| wrong(&e))?;
    Ok(Once { schema, batch: Some(batch) })
}

fn lazily(names: &[String], parts: Vec<Slice>, warn: Py<PyAny>) -> Result<BatchReader> {
    let mut fields = Vec::new();
    if let Some((table, indexes, ..)) = parts.first() {
        for (name, &index) in names.iter().zip(indexes) {
            let reader = table.reader(index, &Hidden::new())?;
            let of = data_type(reader.of().as_ref().map_err(Clone::clone)?).ok_or_else(|| {
                Error::unsupported(format!("the type of {name} is known only from its data"))
            })?;
            fields.push(Field::new(name, of, true));
        }
    }
    Ok(BatchReader { schema: Arc::new(Schema::new(fields)), pending: parts.into(), warn })
}

#[pyfunction]
#[pyo3(signature = (names, data, warn = None))]
pub fn arrow_stream<'py>(
    py: Python<'py>,
    names: Vec<String>,
    data: Vec<Bound<'py, PyTuple>>,
    warn: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let parts: Option<Vec<Slice>> = data.iter().map(part).collect();
    let reader: Box<dyn RecordBatchReader + Send> = if let (Some(parts), Some(warn)) = (parts, warn) {
        Box::new(lazily(&names, parts, warn).map_err(raise)?)
    } else {
        let columns = data.iter().map(to_column).collect::<PyResult<Vec<_>>>()?;
        Box::new(py.detach(|| whole(&names, columns)).map_err(raise)?)
    };
    // A name with a zero byte has no Arrow form. The consumer would report this only later, with an error of its own.
    FFI_ArrowSchema::try_from(reader.schema().as_ref())
        .map_err(|error| raise(Error::unsupported(error.to_string())))?;
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(reader), c"arrow_array_stream")
}

fn part(item: &Bound<'_, PyTuple>) -> Option<Slice> {
    let (table, fields, start, stop): (PyRef<'_, PyTable>, Vec<usize>, u64, u64) = item.extract().ok()?;
    Some((table.table(), fields, start, stop))
}
