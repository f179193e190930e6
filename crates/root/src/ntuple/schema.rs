//! The schema: fields, columns, and the columns that represent each field.

use super::encoding::Encoding;
use super::envelope::EnvelopeReader;
use crate::error::{Error, Result, Within};
use crate::wire::grow::{self, Grow};

/// The role of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Numbers, strings, and wrappers of another field.
    Leaf,
    /// Any number of items.
    Collection,
    /// Named subfields.
    Record,
    /// One of the subfields at a time.
    Variant,
    /// Objects serialized by their class streamers.
    Streamer,
    /// A role of a later version of the format.
    Unknown(u16),
}

/// A field as the schema describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Index of the parent field; `None` for a top-level field.
    pub parent: Option<usize>,
    /// Indices of its subfields, in order.
    pub children: Vec<usize>,
    /// Name.
    pub name: String,
    /// C++ type; empty for untyped collections and records.
    pub typename: String,
    /// The type name as the writer spelled it, if different.
    pub alias: String,
    /// Description.
    pub description: String,
    /// Version of the field.
    pub field_version: u32,
    /// Version of the class, if it has one.
    pub type_version: u32,
    /// Role.
    pub role: Role,
    /// Flags as stored.
    pub flags: u16,
    /// Length of an array or bitset.
    pub array_size: Option<u64>,
    /// The source field of a projection.
    pub source: Option<usize>,
    /// Checksum of the class.
    pub checksum: Option<u32>,
    /// The columns of each representation, in order.
    pub representations: Vec<Vec<usize>>,
    /// The error that prevents linking its columns.
    pub broken: Option<Error>,
}

impl Field {
    /// Number of values of a subfield for an entry, if fixed; `each` is that of this field.
    pub fn inside(&self, each: Option<u64>) -> Option<u64> {
        match self.role {
            Role::Leaf | Role::Record
                if self.representations.first().is_none_or(|columns| columns.len() < 2) =>
            {
                each?.checked_mul(self.array_size.unwrap_or(1))
            }
            _ => None,
        }
    }
}

/// A physical column.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Type as stored.
    pub kind: u16,
    /// Bits an element.
    pub bits: u16,
    /// The field that the column represents.
    pub field: usize,
    /// Flags as stored.
    pub flags: u16,
    /// Index of the representation that the column belongs to.
    pub representation: u16,
    /// First stored element of a deferred column.
    pub first_element: u64,
    /// Whether a deferred column is suppressed up to the cluster of that element.
    pub starts_suppressed: bool,
    /// Smallest and largest value, if given.
    pub range: Option<(f64, f64)>,
    /// Encoding of its pages, or the reason why it is not supported.
    pub encoding: Result<Encoding>,
}

impl Column {
    /// Whether elements are missing at the start; these are zero.
    pub fn is_deferred(&self) -> bool {
        self.flags & DEFERRED != 0
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

/// Field flag: an array or bitset.
pub const REPETITIVE: u16 = 1;
/// Field flag: a projection of another field.
pub const PROJECTED: u16 = 2;
const TYPE_CHECKSUM: u16 = 4;
/// Column flag: elements are missing at the start.
pub const DEFERRED: u16 = 1;
/// Column flag: a smallest and a largest value are given.
pub const RANGE: u16 = 2;
/// Type number of extra information that holds streamer info.
const STREAMER_INFO: u32 = 0;

/// Maximum nesting depth of fields.
pub const DEEPEST: usize = 64;

/// Fields and columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// All fields; the index is the field ID.
    pub fields: Vec<Field>,
    /// The physical columns; the index is the column ID.
    pub columns: Vec<Column>,
    /// Columns of projected fields: physical column and field.
    pub aliases: Vec<(usize, usize)>,
    /// The top-level fields in order.
    pub top: Vec<usize>,
    /// Streamed `TList`s of the classes of streamed fields.
    pub streamers: Vec<Vec<u8>>,
    /// Number of fields in the header; later fields were added while data were written.
    pub header_fields: usize,
    /// Number of columns in the header.
    pub header_columns: usize,
    /// Number of aliases in the header.
    pub header_aliases: usize,
    /// Number of streamer info lists in the header.
    pub header_streamers: usize,
    /// The result of [`Self::repeat`] for each column, after the fields were linked.
    repeats: Vec<u64>,
}

impl Schema {
    /// Reads a schema description: the end of the header, or the extension in the footer.
    pub fn extend(&mut self, reader: &mut EnvelopeReader<'_>) -> Result<()> {
        let (mut items, count) = reader.list(8).within(|| "the list of fields")?;
        for _ in 0..count {
            let place = self.fields.len();
            let field = items.record().and_then(|mut record| field(&mut record, place));
            self.fields.try_push(field.within(|| format!("field {place}"))?)?;
        }
        let (mut items, count) = reader.list(8).within(|| "the list of columns")?;
        for _ in 0..count {
            let place = self.columns.len();
            let column = items.record().and_then(|mut record| column(&mut record));
            self.columns.try_push(column.within(|| format!("column {place}"))?)?;
        }
        let (mut items, count) = reader.list(8).within(|| "the list of alias columns")?;
        for _ in 0..count {
            let mut record = items.record()?;
            self.aliases.try_push((record.u32()? as usize, record.u32()? as usize))?;
        }
        let (mut items, count) = reader.list(8).within(|| "the list of extra type information")?;
        for _ in 0..count {
            let mut record = items.record()?;
            let (kind, _version) = (record.u32()?, record.u32()?);
            let _typename = record.string_bytes()?;
            if kind == STREAMER_INFO {
                self.streamers.try_push(grow::copied(record.string_bytes()?)?)?;
            }
        }
        Ok(())
    }

    /// Marks everything read so far as part of the header.
    pub fn end_of_header(&mut self) {
        self.header_fields = self.fields.len();
        self.header_columns = self.columns.len();
        self.header_aliases = self.aliases.len();
        self.header_streamers = self.streamers.len();
    }

    /// Links fields to their subfields and columns, after all were read.
    pub fn link(&mut self) -> Result<()> {
        let count = self.fields.len();
        for id in 0..count {
            let parent = self.fields.get(id).and_then(|field| field.parent);
            match parent {
                None => self.top.push(id),
                Some(parent) => match self.fields.get_mut(parent) {
                    Some(above) => above.children.push(id),
                    None => {
                        return Err(Error::corrupt(format!(
                            "field {id} is part of field {parent}, but there are {count} fields"
                        )));
                    }
                },
            }
        }
        for id in 0..count {
            let source = self.fields.get(id).and_then(|field| field.source);
            if let Some(source) = source
                && self.fields.get(source).is_none_or(|field| field.source.is_some())
            {
                self.spoil(id, format!("field {source}, of which it is a projection, does not exist"));
            }
        }
        // Visit each field once, from the top: unreachable fields are part of themselves.
        let mut reached = 0;
        let mut level: Vec<usize> = self.top.clone();
        let mut depth = 0;
        while !level.is_empty() {
            reached += level.len();
            depth += 1;
            if depth > DEEPEST {
                return Err(Error::limit(format!("fields nested deeper than {DEEPEST}")));
            }
            level =
                level.iter().filter_map(|&id| self.fields.get(id)).flat_map(|f| f.children.clone()).collect();
        }
        if reached != count {
            return Err(Error::corrupt(format!(
                "{} of {count} fields are part of themselves",
                count - reached
            )));
        }
        for id in 0..self.columns.len() {
            let Some(column) = self.columns.get(id) else { break };
            self.attach(id, column.field, column.representation);
        }
        for alias in 0..self.aliases.len() {
            let Some(&(physical, field)) = self.aliases.get(alias) else { break };
            match self.columns.get(physical) {
                Some(column) => self.attach(physical, field, column.representation),
                None => self.spoil(field, format!("column {physical}, which it shares, does not exist")),
            }
        }
        for id in 0..count {
            let Some(field) = self.fields.get(id) else { break };
            let first = field.representations.first().map_or(0, Vec::len);
            if field.representations.iter().any(|columns| columns.len() != first) {
                self.spoil(id, "its representations have different numbers of columns".to_owned());
            }
        }
        let repeats = (0..self.columns.len()).map(|column| self.count_repeat(column));
        self.repeats = grow::collected(repeats)?;
        Ok(())
    }

    /// Removes the links, so that the schema can be extended and linked again.
    pub fn unlink(&mut self) {
        self.top.clear();
        self.repeats.clear();
        for field in &mut self.fields {
            field.children.clear();
            field.representations.clear();
        }
    }

    /// Returns the corresponding column in the first representation of the field.
    pub fn first_choice(&self, column: usize) -> usize {
        let field = self.columns.get(column).and_then(|column| self.fields.get(column.field));
        let find = |field: &Field| {
            let place = field.representations.iter().find_map(|r| r.iter().position(|&id| id == column))?;
            field.representations.first()?.get(place).copied()
        };
        field.and_then(find).unwrap_or(column)
    }

    /// Returns the number of elements that each entry has in a column; zero if entries differ.
    pub fn repeat(&self, column: usize) -> u64 {
        self.repeats.get(column).copied().unwrap_or_else(|| self.count_repeat(column))
    }

    fn count_repeat(&self, column: usize) -> u64 {
        let field = self.columns.get(column).and_then(|found| self.fields.get(found.field));
        let Some(field) = field else { return 0 };
        let mut above = Vec::new();
        let mut next = field.parent;
        while let Some(parent) = next.and_then(|id| self.fields.get(id)).filter(|_| above.len() <= DEEPEST) {
            above.push(parent);
            next = parent.parent;
        }
        let each = above.iter().rev().try_fold(1, |each, parent| parent.inside(Some(each)));
        let is_first = field.representations.iter().any(|columns| columns.first() == Some(&column));
        let each = if field.array_size.is_none() && is_first { each } else { field.inside(each) };
        each.unwrap_or(0)
    }

    /// Returns the largest number of elements that may be missing at the start of a column in a cluster, because the column
    /// was added later. `first_entry` is that of the cluster, and `first_stored` the column's first element in it.
    pub fn unstored(&self, column: usize, first_entry: u64, first_stored: Option<u64>) -> u64 {
        let Some(first) =
            self.columns.get(column).filter(|one| one.is_deferred()).map(|one| one.first_element)
        else {
            return 0;
        };
        match self.repeat(column) {
            // Below a collection, nothing tells how many elements the clusters before have.
            0 => first_stored.map_or(u64::MAX, |stored| if stored > first { 0 } else { u64::MAX }),
            each => first.saturating_sub(each.saturating_mul(first_entry)),
        }
    }

    /// Defers a column that was added after the header to an element.
    pub fn defer(&mut self, column: usize, first_element: u64) {
        let added = column >= self.header_columns;
        if let Some(column) = self.columns.get_mut(column).filter(|_| added) {
            column.first_element = first_element;
            column.flags = if first_element > 0 { column.flags | DEFERRED } else { column.flags & !DEFERRED };
        }
    }

    fn attach(&mut self, column: usize, field: usize, representation: u16) {
        let Some(found) = self.fields.get_mut(field) else { return };
        let known = found.representations.len();
        match usize::from(representation) {
            r if r < known => found.representations.iter_mut().skip(r).take(1).for_each(|r| r.push(column)),
            r if r == known => found.representations.push(vec![column]),
            _ => {
                self.spoil(
                    field,
                    format!("its representations are not numbered from zero (column {column})"),
                );
            }
        }
    }

    fn spoil(&mut self, field: usize, why: String) {
        if let Some(field) = self.fields.get_mut(field) {
            field.broken.get_or_insert(Error::corrupt(why));
        }
    }

    /// Names from the top-level field down, joined with dots.
    pub fn path(&self, field: usize) -> String {
        let mut names = Vec::new();
        let mut next = Some(field);
        while let Some(found) = next.and_then(|id| self.fields.get(id)).filter(|_| names.len() <= DEEPEST) {
            names.push(found.name.as_str());
            next = found.parent;
        }
        names.reverse();
        names.join(".")
    }
}

fn field(record: &mut EnvelopeReader<'_>, id: usize) -> Result<Field> {
    let field_version = record.u32()?;
    let type_version = record.u32()?;
    let parent = record.u32()? as usize;
    let role = match record.u16()? {
        0 => Role::Leaf,
        1 => Role::Collection,
        2 => Role::Record,
        3 => Role::Variant,
        4 => Role::Streamer,
        other => Role::Unknown(other),
    };
    let flags = record.u16()?;
    let name = record.string()?;
    let typename = record.string()?;
    let alias = record.string()?;
    let description = record.string()?;
    Ok(Field {
        parent: (parent != id).then_some(parent),
        children: Vec::new(),
        name,
        typename,
        alias,
        description,
        field_version,
        type_version,
        role,
        flags,
        array_size: if flags & REPETITIVE != 0 { Some(record.u64()?) } else { None },
        source: if flags & PROJECTED != 0 { Some(record.u32()? as usize) } else { None },
        checksum: if flags & TYPE_CHECKSUM != 0 { Some(record.u32()?) } else { None },
        representations: Vec::new(),
        broken: None,
    })
}

fn column(record: &mut EnvelopeReader<'_>) -> Result<Column> {
    let kind = record.u16()?;
    let bits = record.u16()?;
    let field = record.u32()? as usize;
    let flags = record.u16()?;
    let representation = record.u16()?;
    let first = if flags & DEFERRED != 0 { record.i64()? } else { 0 };
    let range = if flags & RANGE != 0 { Some((record.f64()?, record.f64()?)) } else { None };
    Ok(Column {
        kind,
        bits,
        field,
        flags,
        representation,
        first_element: first.unsigned_abs(),
        starts_suppressed: first < 0,
        range,
        encoding: Encoding::of(kind, bits, range),
    })
}
