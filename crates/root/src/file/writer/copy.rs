//! Copying objects unchanged from one file to another.

use super::{DirectoryId, FileWriter, KeyText};
use crate::error::{Error, Result, Within};
use crate::file::{Key, RootFile, kinds};
use crate::streamer::{Object, ObjectReader, StreamerInfo, Value};
use crate::wire::Cursor;
use crate::wire::grow;
use std::collections::HashSet;
use std::sync::Arc;

/// An object in stored form, with everything another file needs to hold it.
#[derive(Debug)]
pub struct Record {
    pub(super) class: String,
    pub(super) name: String,
    title: String,
    /// The object, decompressed.
    pub(super) payload: Vec<u8>,
    /// Bytes of its key; references count from the start of the key.
    pub(super) key_bytes: u64,
    /// Positions of references in the payload; `None` if unknown.
    references: Option<Arc<Vec<u64>>>,
    infos: Vec<Arc<StreamerInfo>>,
}

impl Record {
    /// Reads the object of a key.
    pub fn read(file: &RootFile, key: &Key) -> Result<Self> {
        Ok(Self::read_noting(file, key, &mut |_, _, _| ())?.0)
    }

    /// Reads the object of a key, and its value if it can be read completely. `note` gets the class, name and position
    /// of each member before it is read.
    pub(super) fn read_noting(
        file: &RootFile,
        key: &Key,
        note: &mut dyn FnMut(&str, &str, usize),
    ) -> Result<(Self, Option<Value>)> {
        let payload = file.object(key)?;
        let classes = file.classes()?;
        let mut reader = ObjectReader::new(&classes, &payload, key.key_bytes.into());
        let mut instead = |class: &str, member: &str, cursor: &mut Cursor<'_>, _: &mut _| {
            note(class, member, cursor.pos());
            false
        };
        reader.instead = Some(&mut instead);
        let value = match reader.payload(&key.classname) {
            Err(error) if error.is_no_memory() => return Err(error),
            value => value.ok().filter(|_| reader.problems == 0),
        };
        let references = value.is_some().then(|| Arc::new(std::mem::take(&mut reader.references)));
        drop(reader);
        let mut names = HashSet::from([&*key.classname]);
        match &value {
            Some(value) => collect(value, &mut names),
            // Its contents are unknown: they may contain any class of the file.
            None => names.extend(classes.iter().map(|info| &*info.name)),
        }
        let infos = classes.iter().filter(|info| names.contains(&*info.name)).cloned().collect();
        let record = Self {
            class: key.classname.clone(),
            name: key.name.clone(),
            title: key.title.clone(),
            payload,
            key_bytes: key.key_bytes.into(),
            references,
            infos,
        };
        Ok((record, value))
    }

    /// Name of its key.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the object contains a text.
    pub(super) fn holds(&self, text: &[u8]) -> bool {
        self.payload.windows(text.len()).any(|window| window == text)
    }

    /// Returns the object for a key of another length: references are shifted.
    pub(super) fn moved(&self, key_bytes: usize) -> Result<Vec<u8>> {
        let mut payload = grow::copied(&self.payload)?;
        let difference = key_bytes as i64 - self.key_bytes as i64;
        if difference == 0 {
            return Ok(payload);
        }
        let references = self.references.as_ref().ok_or_else(|| {
            Error::unsupported(format!(
                "the {} {} cannot be read in full, so it is copied under its own name alone",
                self.class, self.name
            ))
        })?;
        for place in references.iter() {
            let at = place.checked_sub(self.key_bytes).and_then(|at| usize::try_from(at).ok());
            let word = at.and_then(|at| payload.get_mut(at..at + 4)?.first_chunk_mut::<4>());
            let word = word.ok_or_else(|| Error::corrupt("a reference past the end of its object"))?;
            let value = u32::from_be_bytes(*word);
            // 1 is the object of the key itself, wherever it is.
            if value & 0x7fff_ffff > 1 {
                *word =
                    (i64::from(value) + difference).to_be_bytes().last_chunk().copied().unwrap_or_default();
            }
        }
        Ok(payload)
    }
}

/// Collects the classes of a value and of everything in it. Objects that several pointers share are visited once.
fn collect<'a>(value: &'a Value, names: &mut HashSet<&'a str>) {
    let mut visited = HashSet::new();
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(object) if object.reference == 0 || visited.insert(object.reference) => {
                classes(object, names, &mut left);
            }
            Value::List(items) => left.extend(items),
            Value::Map(pairs) => left.extend(pairs.iter().flat_map(|(key, value)| [key, value])),
            Value::Pair(pair) => left.extend([&pair.0, &pair.1]),
            _ => {}
        }
    }
}

/// Collects the classes of an object and its bases, and adds the values of their members to those left to visit.
fn classes<'a>(object: &'a Object, names: &mut HashSet<&'a str>, left: &mut Vec<&'a Value>) {
    names.insert(&object.class);
    object.bases.iter().for_each(|base| classes(base, names, left));
    left.extend(object.members.iter().map(|(_, value)| value));
}

impl FileWriter {
    /// Writes an object of a user class whose bytes hold no references, and describes its classes.
    pub fn write_value(
        &mut self,
        directory: DirectoryId,
        name: &str,
        title: &str,
        class: &str,
        bytes: &[u8],
        infos: Vec<StreamerInfo>,
    ) -> Result<()> {
        self.check_infos(&infos)?;
        let key = self.reserve(directory, class, name, title)?;
        for info in infos {
            self.describe(info)?;
        }
        self.write(key, |_| grow::copied(bytes))
    }

    /// Writes a copy of an object under a name, with the streamer info of its classes.
    pub fn copy(&mut self, directory: DirectoryId, name: &str, record: &Record) -> Result<()> {
        if kinds::is_more_than_its_record(&record.class) {
            return Err(Error::unsupported(format!(
                "cannot copy {} (a {}) as one record: write its data to a new one",
                record.name, record.class
            )));
        }
        self.check_infos(&record.infos)?;
        let text = KeyText::new(&record.class, name, &record.title);
        // Detect the error before the name is taken.
        record.moved(text.size(self.big(1 << 30))).within(|| record.name.clone())?;
        let key = self.reserve(directory, &record.class, name, &record.title)?;
        for info in &record.infos {
            self.describe(info.clone())?;
        }
        self.write(key, |key_bytes| record.moved(key_bytes))
    }
}
