//! Attribute sets: RNTuples that describe ranges of entries of another. Its footer lists them.

use super::fields::FieldSpec;
use super::{NTupleOptions, NTupleWriter, describe, envelopes, sum_of};
use crate::array::{Column, Number};
use crate::error::{Error, Result, Within};
use crate::file::writer::{FileWriter, KeyId};
use crate::ntuple::envelope::Locator;
use crate::ntuple::table::{AttributeSet, NTuple};
use crate::streamer::declare::{Class, Shape};
use crate::table::writer::TableWriter;

/// Schema version of the attribute sets that are written.
const SCHEMA: (u16, u16) = (1, 0);
/// First entry of a range, its number of entries, and its attributes.
const FIELDS: [&str; 3] = ["_rangeStart", "_rangeLen", "_userData"];

/// An attribute set of an RNTuple that is being written.
pub(super) struct LinkedSet {
    /// Its description in the footer.
    pub about: AttributeSet,
    /// The writer; `None` if the set stays unchanged.
    writer: Option<Box<NTupleWriter>>,
    /// The record of its anchor.
    anchor: Option<(u64, u64)>,
}

impl LinkedSet {
    /// Opens a set in the file. It takes more entries if it can be read.
    pub fn stored(ntuple: &NTuple, about: &AttributeSet, key: KeyId, options: &NTupleOptions) -> Self {
        let stored = ntuple.attribute_set(&about.name);
        let writer = stored.and_then(|set| NTupleWriter::behind(&about.name, key, set, options));
        let writer = writer.ok().map(|writer| Box::new(NTupleWriter { linked_to: Some(0), ..writer }));
        Self { about: about.clone(), writer, anchor: None }
    }
    /// Maximum bytes of its description.
    pub fn bytes_needed(&self) -> usize {
        let own = self.writer.as_ref().map_or(0, |writer| writer.bytes_needed());
        256 + self.about.name.len() + own
    }
    /// Schedules another write of its description if that is far from the end of the file.
    pub fn close(&mut self, file: &FileWriter) {
        if let Some(writer) = &mut self.writer {
            writer.close(file);
            writer.changed |= self.anchor.is_some_and(|anchor| file.is_distant(anchor));
        }
    }
    /// Writes the buffered entries, and the description if it changed; returns whether it changed.
    fn save(&mut self, file: &mut FileWriter, needed: usize) -> Result<bool> {
        let Some(writer) = &mut self.writer else { return Ok(false) };
        writer.linked_to = Some(needed);
        writer.flush(file)?;
        if !writer.changed {
            return Ok(false);
        }
        let object = envelopes::anchor(&writer.write_description(file)?);
        writer.changed = false;
        let (record, offset) = file.write_blob(&object)?;
        if let Some(old) = self.anchor.replace(record) {
            file.release_record(old);
        }
        let length = object.len() as u64;
        (self.about.length, self.about.locator) = (length, Locator::File { offset, bytes: length });
        Ok(true)
    }
}

impl NTupleWriter {
    /// Adds an attribute set; its entries describe ranges of entries.
    pub fn add_set(&mut self, file: &FileWriter, name: &str, fields: &[FieldSpec]) -> Result<()> {
        let place = || format!("attribute set {name} of {}", self.place());
        // ROOT reserves these names.
        if name.is_empty() || name == "ROOT" || name.starts_with("ROOT.") {
            return Err(
                Error::argument(format!("{name:?} is not a valid name of an attribute set")).within(place())
            );
        }
        if self.sets.iter().any(|set| set.about.name == name) {
            return Err(Error::argument("an attribute set of this name exists already").within(place()));
        }
        if fields.is_empty() {
            return Err(Error::argument("an attribute set must have at least one field").within(place()));
        }
        let members = fields.iter().map(|field| (field.name.clone(), field.shape.clone())).collect();
        let number = || Shape::Number(Number::U64);
        let shapes = [number(), number(), Shape::Class(Class { name: String::new(), version: 0, members })];
        let fields = FIELDS.into_iter().zip(shapes);
        let spec = |(name, shape): (&str, _)| FieldSpec { name: name.to_owned(), shape, compression: None };
        let fields: Vec<FieldSpec> = fields.map(spec).collect();
        let options =
            NTupleOptions { projections: Vec::new(), description: String::new(), ..self.options.clone() };
        let (schema, header, tops) = describe(name, &fields, file.compression(), &options).within(place)?;
        let writer = Self::from_parts(name, self.key, schema, tops, sum_of(&header), header, options);
        let about = AttributeSet {
            name: name.to_owned(),
            version: SCHEMA,
            length: 0,
            locator: Locator::File { offset: 0, bytes: 0 },
        };
        let writer = Some(Box::new(Self { linked_to: Some(0), ..writer }));
        self.sets.push(LinkedSet { about, writer, anchor: None });
        Ok(())
    }

    /// Names of the attribute sets with the types of their attributes; no type for those that take no entries.
    pub fn sets(&self) -> Vec<(String, Option<crate::array::Type>)> {
        let kind = |set: &LinkedSet| Some(set.writer.as_ref()?.fields().pop()?.1);
        self.sets.iter().map(|set| (set.about.name.clone(), kind(set))).collect()
    }

    /// Adds entries to an attribute set: first entry and length of each range, and its attributes.
    pub fn extend_set(&mut self, file: &mut FileWriter, name: &str, columns: &[Column]) -> Result<()> {
        let needed = self.bytes_needed();
        let place = || format!("attribute set {name} of RNTuple {}", self.name);
        let set = self.sets.iter_mut().find(|set| set.about.name == name);
        let set = set.ok_or_else(|| Error::not_found("it does not exist").within(place()))?;
        let refused =
            || Error::unsupported("entries cannot be added to this kind of attribute set").within(place());
        let writer = set.writer.as_mut().ok_or_else(refused)?;
        writer.linked_to = Some(needed);
        writer.extend(file, columns).within(place)
    }

    /// Writes the buffered entries of the attribute sets, and their locations.
    pub(super) fn save_sets(&mut self, file: &mut FileWriter) -> Result<()> {
        let needed = self.bytes_needed();
        for set in &mut self.sets {
            self.changed |= set.save(file, needed)?;
        }
        Ok(())
    }
}
