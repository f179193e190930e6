//! Writing FZ and RZ files: `sapwood._native.ZebraWriter`.

use crate::errors::raise;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use sapwood_io::lock;
use sapwood_io::sink::FileSink;
use sapwood_root::Error;
use sapwood_root::zebra::layout::Kind;
use sapwood_root::zebra::write::{Builder, Content, FzWriter, RzWriter, Shape};
use std::path::PathBuf;
use std::sync::Mutex;

/// The writer behind [`PyZebraWriter`].
enum Inner {
    Fz(FzWriter),
    Rz(RzWriter),
}

/// Writes structures of one form to an FZ or RZ file.
#[pyclass(frozen, name = "ZebraWriter", module = "sapwood._native")]
pub struct PyZebraWriter {
    inner: Mutex<Option<(Inner, Builder)>>,
    /// Words of each shape, and whether it has a list.
    sizes: Vec<(usize, bool)>,
}

fn four(name: &str) -> PyResult<[u8; 4]> {
    let bytes = name.as_bytes().first_chunk::<4>().filter(|_| name.len() == 4).copied();
    bytes.ok_or_else(|| {
        raise(Error::argument(format!("the name of a bank has four characters, not {name:?}")))
    })
}

fn kind_of(letter: char) -> PyResult<Kind> {
    Ok(match letter {
        'B' => Kind::Bits,
        'I' => Kind::Int,
        'F' => Kind::Float,
        other => {
            return Err(raise(Error::argument(format!(
                "the kind of words must be B, I or F, not {other:?}"
            ))));
        }
    })
}

/// A shape in Python: name, kind and number of the first words, kind of the others, words, name of the list.
type GivenShape = (String, Option<(char, u32)>, char, usize, Option<String>);

impl PyZebraWriter {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut (Inner, Builder)) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        py.detach(|| {
            let mut inner = lock(&self.inner);
            inner.as_mut().ok_or_else(|| Error::argument("the file is closed")).and_then(work)
        })
        .map_err(raise)
    }
    fn run(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut FzWriter) -> Result<(), Error> + Send,
    ) -> PyResult<()> {
        self.with(py, |(inner, _)| match inner {
            Inner::Fz(writer) => work(writer),
            Inner::Rz(_) => Err(Error::argument("only FZ files have runs")),
        })
    }
}

#[pymethods]
impl PyZebraWriter {
    #[new]
    fn new(
        path: PathBuf,
        kind: &str,
        record_words: usize,
        top: &str,
        shapes: Vec<GivenShape>,
    ) -> PyResult<Self> {
        let sizes = shapes.iter().map(|shape| (shape.3, shape.4.is_some())).collect();
        let shapes = shapes.into_iter().map(|(name, first, rest, words, list)| {
            let first = first.map(|(kind, count)| Ok::<_, PyErr>((kind_of(kind)?, count))).transpose()?;
            let list = list.as_deref().map(four).transpose()?;
            Ok(Shape { name: four(&name)?, kinds: (first, kind_of(rest)?), words, list })
        });
        let builder = Builder::new(four(top)?, shapes.collect::<PyResult<_>>()?);
        let sink = Box::new(FileSink::recreate(&path)?);
        let inner = match kind {
            "fz" => FzWriter::new(sink, record_words).map(Inner::Fz),
            "rz" => RzWriter::new(sink, record_words, top, "NUMBER").map(Inner::Rz),
            other => Err(Error::argument(format!("the format must be 'fz' or 'rz', not {other:?}"))),
        };
        Ok(Self { inner: Mutex::new(Some((inner.map_err(raise)?, builder))), sizes })
    }
    fn start_run(&self, py: Python<'_>, number: i32, user: Vec<i32>) -> PyResult<()> {
        self.run(py, |writer| writer.start_run(number, &user))
    }
    fn end_run(&self, py: Python<'_>, user: Vec<i32>) -> PyResult<()> {
        self.run(py, |writer| writer.end_run(&user))
    }
    /// Writes structures, given the words of their top banks and, for each shape, the starts of each structure's words
    /// and all words.
    fn write(
        &self,
        py: Python<'_>,
        first: i32,
        count: usize,
        top: PyReadonlyArray1<'_, u32>,
        parts: Vec<(Option<PyReadonlyArray1<'_, i64>>, PyReadonlyArray1<'_, u32>)>,
    ) -> PyResult<()> {
        let top = top.as_slice()?;
        let parts: Vec<(Option<&[i64]>, &[u32])> = parts
            .iter()
            .map(|(offsets, words)| {
                Ok((offsets.as_ref().map(|o| o.as_slice()).transpose()?, words.as_slice()?))
            })
            .collect::<PyResult<_>>()?;
        let sizes = &self.sizes;
        if parts.len() != sizes.len() {
            return Err(raise(Error::argument(format!(
                "expected {} kinds of banks, found {}",
                sizes.len(),
                parts.len()
            ))));
        }
        self.with(py, |(inner, builder)| {
            let each = top.len() / count.max(1);
            for event in 0..count {
                let short =
                    || Error::argument(format!("there are no words for structure {event} of {count}"));
                let mut content = Content {
                    top: top.get(each * event..each * (event + 1)).ok_or_else(short)?,
                    parts: Vec::new(),
                };
                for ((offsets, words), (size, _)) in parts.iter().zip(sizes) {
                    let (start, end) = match offsets {
                        None => (event, event + 1),
                        Some(offsets) => {
                            let bounds = offsets.get(event).zip(offsets.get(event + 1)).ok_or_else(short)?;
                            (*bounds.0 as usize, *bounds.1 as usize)
                        }
                    };
                    let range = start.checked_mul(*size).zip(end.checked_mul(*size));
                    let part = range.and_then(|(start, end)| words.get(start..end));
                    content.parts.push(part.ok_or_else(short)?);
                }
                let number = first.saturating_add(event as i32);
                match inner {
                    Inner::Fz(writer) => {
                        writer.event(builder, &[number], &content, number.cast_unsigned())?;
                    }
                    Inner::Rz(writer) => writer.put(number, builder, &content)?,
                }
            }
            Ok(())
        })
    }
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let taken = lock(&self.inner).take();
            match taken {
                Some((Inner::Fz(mut writer), _)) => writer.finish(),
                Some((Inner::Rz(mut writer), _)) => writer.finish(),
                None => Ok(()),
            }
        })
        .map_err(raise)
    }
}
