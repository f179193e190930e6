//! Objects in keys: a tree of values, converted to Python objects one level at a time.

use crate::columns;
use crate::errors::raise;
use crate::runtime::with_file;
use pyo3::exceptions::PyKeyError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use sapwood_root::array::Number;
use sapwood_root::file::{Key, RootFile};
use sapwood_root::streamer::encode::encode_object;
use sapwood_root::streamer::object::TOP;
use sapwood_root::streamer::{Classes, Object, ObjectReader, SharedObject, Value};
use sapwood_root::{Error, ErrorKind};
use std::collections::HashMap;
use std::sync::Arc;

/// The contents of one key.
struct Graph {
    seen: HashMap<u64, SharedObject>,
}

#[pyclass(frozen, name = "Object", module = "sapwood._native")]
pub struct PyObjectTree {
    graph: Arc<Graph>,
    object: Arc<Object>,
}

#[pymethods]
impl PyObjectTree {
    #[getter]
    fn classname(&self) -> &str {
        &self.object.class
    }
    #[getter]
    fn version(&self) -> i32 {
        self.object.version
    }
    #[getter]
    fn reference(&self) -> u64 {
        self.object.reference
    }
    #[getter]
    fn place(&self) -> (u64, u64) {
        self.object.place
    }
    #[getter]
    fn reason(&self) -> Option<String> {
        self.object.unreadable.as_ref().map(ToString::to_string)
    }
    /// Names of its class and of all its bases, each before its own bases.
    fn lineage(&self) -> Vec<&str> {
        fn add<'a>(object: &'a Object, to: &mut Vec<&'a str>) {
            to.push(&object.class);
            object.bases.iter().for_each(|base| add(base, to));
        }
        let mut names = Vec::new();
        add(&self.object, &mut names);
        names
    }
    /// Returns the objects of its base classes, created with the callables (model, sequence, mapping, unreadable).
    fn bases<'py>(&self, py: Python<'py>, makers: Makers<'py>) -> PyResult<Bound<'py, PyList>> {
        let maker = Maker::new(py, &self.graph, makers);
        let bases: PyResult<Vec<_>> = self.object.bases.iter().map(|base| maker.object(base)).collect();
        PyList::new(py, bases?)
    }
    /// Returns the index of the base that has a member; -1 for a member of the object itself, `None` if there is none.
    fn owner(&self, name: &str) -> Option<isize> {
        if self.object.has(name) {
            return Some(-1);
        }
        // As elsewhere, the last base with the member wins.
        let bases = self.object.bases.iter().enumerate().rev();
        bases.filter(|(_, base)| has_anywhere(base, name)).map(|(i, _)| i as isize).next()
    }
    /// Returns one of its own members; an error if there is none of that name.
    fn member<'py>(&self, py: Python<'py>, name: &str, makers: Makers<'py>) -> PyResult<Bound<'py, PyAny>> {
        let maker = Maker::new(py, &self.graph, makers);
        match self.object.own(name) {
            Some(value) => maker.value(value),
            None => match self.object.lost().find(|lost| *lost == name) {
                Some(_) => maker.lost(&self.object),
                None => Err(PyKeyError::new_err(name.to_owned())),
            },
        }
    }
    /// Returns all of its own members; those in `known` are reused.
    fn members<'py>(
        &self,
        py: Python<'py>,
        known: &Bound<'py, PyDict>,
        makers: Makers<'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let maker = Maker::new(py, &self.graph, makers);
        let members = PyDict::new(py);
        for (name, value) in &self.object.members {
            let name = PyString::intern(py, name);
            let value = known.get_item(&name)?.map_or_else(|| maker.value(value), Ok)?;
            members.set_item(name, value)?;
        }
        for name in self.object.lost() {
            let name = PyString::intern(py, name);
            let value = known.get_item(&name)?.map_or_else(|| maker.lost(&self.object), Ok)?;
            members.set_item(name, value)?;
        }
        Ok(members)
    }
    /// Returns the unreadable parts: (path of members, reason).
    fn problems(&self) -> PyResult<Vec<(String, String)>> {
        let found = self.object.problems().map_err(raise)?;
        Ok(found.into_iter().map(|(path, error)| (path, error.to_string())).collect())
    }
    fn __repr__(&self) -> String {
        format!("<Object of {}>", self.object.class)
    }
}

/// Whether an object or one of its bases has a member.
fn has_anywhere(object: &Object, name: &str) -> bool {
    object.has(name) || object.bases.iter().any(|base| has_anywhere(base, name))
}

type Makers<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Converts values to Python objects.
struct Maker<'a, 'py> {
    py: Python<'py>,
    graph: &'a Arc<Graph>,
    model: Bound<'py, PyAny>,
    sequence: Bound<'py, PyAny>,
    mapping: Bound<'py, PyAny>,
    unreadable: Bound<'py, PyAny>,
}

impl<'a, 'py> Maker<'a, 'py> {
    fn new(py: Python<'py>, graph: &'a Arc<Graph>, makers: Makers<'py>) -> Self {
        let (model, sequence, mapping, unreadable) = makers;
        Self { py, graph, model, sequence, mapping, unreadable }
    }

    fn object(&self, object: &Arc<Object>) -> PyResult<Bound<'py, PyAny>> {
        self.model.call1((PyObjectTree { graph: self.graph.clone(), object: object.clone() },))
    }

    /// Returns the placeholder for members after an unreadable one.
    fn lost(&self, object: &Object) -> PyResult<Bound<'py, PyAny>> {
        match object.members.last() {
            Some((name, Value::Unreadable(error))) => {
                let why = format!("it follows member {name}, which cannot be read: {error}");
                self.unreadable.call1((why, error.kind() == ErrorKind::Corrupt))
            }
            _ => self.unreadable.call1(("it follows a member that cannot be read", false)),
        }
    }

    fn error(&self, error: &Error) -> PyResult<Bound<'py, PyAny>> {
        self.unreadable.call1((error.to_string(), error.kind() == ErrorKind::Corrupt))
    }

    fn list(&self, items: &[Value]) -> PyResult<Bound<'py, PyList>> {
        let items: PyResult<Vec<_>> = items.iter().map(|v| self.value(v)).collect();
        PyList::new(self.py, items?)
    }

    fn pair(&self, first: &Value, second: &Value) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(self.py, [self.value(first)?, self.value(second)?])
    }

    fn value(&self, value: &Value) -> PyResult<Bound<'py, PyAny>> {
        let py = self.py;
        Ok(match value {
            Value::Null => py.None().into_bound(py),
            Value::Bool(v) => PyBool::new(py, *v).to_owned().into_any(),
            Value::Int(v) => PyInt::new(py, *v).into_any(),
            Value::UInt(v) => PyInt::new(py, *v).into_any(),
            Value::Float(v) => PyFloat::new(py, *v).into_any(),
            Value::Text(v) => PyString::new(py, v).into_any(),
            Value::Numbers(number, bytes) => numbers(py, *number, bytes, None)?,
            Value::Array(array) => {
                let (number, bytes, dims) = &**array;
                numbers(py, *number, bytes, Some(dims))?
            }
            Value::List(items) => self.sequence.call1((self.list(items)?,))?,
            Value::Map(pairs) => {
                let pairs: PyResult<Vec<_>> = pairs.iter().map(|(k, v)| self.pair(k, v)).collect();
                self.mapping.call1((PyList::new(py, pairs?)?,))?
            }
            Value::Pair(pair) => self.pair(&pair.0, &pair.1)?.into_any(),
            Value::Object(object) => self.object(object)?,
            Value::Seen(reference) => {
                if let Some(object) = self.graph.seen.get(reference) {
                    self.object(object)?
                } else {
                    let why = format!("a pointer refers to byte {reference}, but no object begins there");
                    self.unreadable.call1((why, true))?
                }
            }
            Value::Unreadable(error) => self.error(error)?,
        })
    }
}

fn numbers<'py>(
    py: Python<'py>,
    number: Number,
    bytes: &[u8],
    dims: Option<&[usize]>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = columns::copied(py, number, bytes)?;
    match dims {
        Some(dims) => array.call_method1(intern!(py, "reshape"), (dims,)),
        None => Ok(array),
    }
}

/// Unreadable parts: path and reason.
type Problems = Vec<(String, String)>;

/// Returns the object of a key, created with the callables that [`PyObjectTree::load`] takes, and its unreadable parts.
pub fn read<'py>(
    py: Python<'py>,
    file: &RootFile,
    key: &Key,
    makers: Makers<'py>,
) -> PyResult<(Bound<'py, PyAny>, Problems)> {
    let (value, seen, problems) = with_file(py, file, || read_value(file, key))?;
    let graph = Arc::new(Graph { seen });
    let value = Maker::new(py, &graph, makers).value(&value)?;
    Ok((value, problems))
}

/// Returns an object that has all members itself, as for writing, in the form of an object read from a file.
pub fn of_members<'py>(
    py: Python<'py>,
    object: &Object,
    makers: Makers<'py>,
) -> PyResult<(Bound<'py, PyAny>, Problems)> {
    let classes = Classes::default();
    let (value, seen) = py
        .detach(|| {
            let payload = encode_object(object, 0)?;
            let mut reader = ObjectReader::new(&classes, &payload, 0);
            let value = reader.payload(&object.class)?;
            let mut seen = reader.into_seen();
            if let Value::Object(object) = &value {
                seen.insert(TOP, object.clone());
            }
            Ok::<_, Error>((value, seen))
        })
        .map_err(raise)?;
    let value = Maker::new(py, &Arc::new(Graph { seen }), makers).value(&value)?;
    Ok((value, Vec::new()))
}

type Read = (Value, HashMap<u64, SharedObject>, Vec<(String, String)>);

fn read_value(file: &RootFile, key: &Key) -> Result<Read, Error> {
    let payload = file.object(key)?;
    let classes = file.classes()?;
    let place = || format!("{};{} ({}) of {}", key.name, key.cycle, key.classname, file.name());
    let mut reader = ObjectReader::new(&classes, &payload, u64::from(key.key_bytes));
    let value = reader.payload(&key.classname).map_err(|e| e.within(place()))?;
    let troubled = reader.problems > 0;
    let mut seen = reader.into_seen();
    let mut problems = Vec::new();
    if let Value::Object(object) = &value {
        if let Some(error) = &object.unreadable
            && object.bases.is_empty()
            && !object.members.iter().any(|(_, v)| !matches!(v, Value::Unreadable(_)))
        {
            return Err(error.clone().within(place()));
        }
        if troubled {
            let found = object.problems().map_err(|e| e.within(place()))?;
            problems = found.into_iter().map(|(path, error)| (path, error.to_string())).collect();
        }
        seen.insert(TOP, object.clone());
    }
    if let Value::Unreadable(error) = value {
        return Err(error.within(place()));
    }
    Ok((value, seen, problems))
}

/// Returns all classes of a file: (name, version, checksum, elements); each element is a dict of ROOT's members.
pub fn describe<'py>(py: Python<'py>, classes: &Classes) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for info in classes.iter() {
        let elements = PyList::empty(py);
        for e in &info.elements {
            let element = PyDict::new(py);
            element.set_item("class", e.class.name())?;
            element.set_item("fName", &*e.name)?;
            element.set_item("fTitle", &e.title)?;
            element.set_item("fType", e.kind)?;
            element.set_item("fSize", e.size)?;
            element.set_item("fArrayLength", e.array_length)?;
            element.set_item("fArrayDim", e.array_dim)?;
            element.set_item("fMaxIndex", e.max_index)?;
            element.set_item("fTypeName", &e.typename)?;
            element.set_item("fBaseVersion", e.base_version)?;
            element.set_item("fCountName", &e.count_name)?;
            element.set_item("fCountClass", &e.count_class)?;
            element.set_item("fCountVersion", e.count_version)?;
            element.set_item("fSTLtype", e.stl_type)?;
            element.set_item("fCtype", e.ctype)?;
            elements.append(element)?;
        }
        list.append((&*info.name, info.version, info.checksum, elements))?;
    }
    Ok(list)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyObjectTree>()
}
