//! The index (`TTreeIndex`) of a tree to which entries are added.

use super::branch::Branch;
use super::item::Item;
use crate::array::Number;
use crate::error::Result;
use crate::streamer::encode::encode_pointer;
use crate::streamer::{Object, SharedObject, Value};
use crate::wire::grow::{self, Grow};
use crate::wire::writer::Writer;

/// Name of a missing second value, which is zero for all entries.
const NOTHING: &str = "0";
const ARRAYS: [&str; 3] = ["fIndexValues", "fIndexValuesMinor", "fIndex"];

/// An index of branches that hold one whole number in each entry.
pub struct ContinuedIndex {
    /// Its branches; none for a value that is always zero.
    branches: [Option<usize>; 2],
    /// Both values of each entry, and the entry; sorted.
    entries: Vec<[i64; 3]>,
}

impl ContinuedIndex {
    /// Reads an index; none if it is not one of all entries, or its values are not those of branches.
    pub fn new(index: &Object, branches: &[Branch], entries: u64) -> Result<Option<Self>> {
        if index.class != "TTreeIndex" {
            return Ok(None);
        }
        let branch = |name| match index.text(name)? {
            NOTHING => Some(None),
            name => {
                let found = branches.iter().position(|b| b.name == name && b.parent.is_none())?;
                branches.get(found).and_then(number).map(|_| Some(found))
            }
        };
        let (Some(major), Some(minor)) = (branch("fMajorName"), branch("fMinorName")) else {
            return Ok(None);
        };
        let branches = [major, minor];
        let [major, minor, entry] = ARRAYS.map(|name| match index.get(name) {
            Some(Value::Numbers(Number::I64, bytes)) => bytes.as_chunks().0,
            _ => &[],
        });
        let lengths = [major.len(), minor.len(), entry.len()];
        if lengths.iter().any(|length| *length as u64 != entries) {
            return Ok(None);
        }
        let each = major.iter().zip(minor.iter()).zip(entry.iter());
        let each = each.map(|((major, minor), entry)| [*major, *minor, *entry].map(i64::from_ne_bytes));
        let mut entries = grow::with_room(major.len())?;
        entries.extend(each);
        Ok(Some(Self { branches, entries }))
    }

    /// Prepares to add buffered entries, of which `first` is the first: returns them sorted, for [`Self::add`].
    pub fn prepare(&mut self, branches: &[Branch], first: u64, count: usize) -> Result<Vec<[i64; 3]>> {
        let of = |branch: Option<usize>| match branch.and_then(|b| branches.get(b)) {
            Some(branch) => values(branch),
            None => grow::filled(count, 0),
        };
        let [major, minor] = self.branches;
        let (major, minor) = (of(major)?, of(minor)?);
        let entries = first as i64..;
        let each = major.into_iter().zip(minor).zip(entries).map(|((a, b), entry)| [a, b, entry]);
        let mut added = grow::with_room(count)?;
        added.extend(each);
        // Also by entry: of several entries with the same values, readers find the first.
        added.sort_unstable();
        self.entries.room(added.len())?;
        Ok(added)
    }

    /// Adds prepared entries.
    pub fn add(&mut self, added: &[[i64; 3]]) {
        // Both are in order: the larger of their last ones is the last of all, and so on.
        let (mut old, mut new) = (self.entries.len(), added.len());
        self.entries.extend_from_slice(added);
        while let Some(last) = new.checked_sub(1).and_then(|place| added.get(place)) {
            let before = old.checked_sub(1).and_then(|place| self.entries.get(place)).copied();
            let larger = before.filter(|before| before > last);
            if let Some(place) = self.entries.get_mut(old + new - 1) {
                *place = larger.unwrap_or(*last);
            }
            if larger.is_some() { old -= 1 } else { new -= 1 }
        }
    }

    /// Maximum bytes that the index needs in addition to those it had, after more entries.
    pub fn bytes_after(&self, more: usize) -> usize {
        24 * (self.entries.len() + more)
    }

    /// Returns a pointer to the index, given its earlier state.
    pub fn encode(&self, old: &Object) -> Result<Vec<u8>> {
        let mut members = grow::with_room(old.members.len())?;
        for (name, member) in &old.members {
            let value = match ARRAYS.iter().position(|known| name == *known) {
                Some(place) => {
                    let mut bytes = grow::with_room(8 * self.entries.len())?;
                    let values = self.entries.iter().filter_map(|entry| entry.get(place));
                    bytes.extend(values.flat_map(|value| value.to_ne_bytes()));
                    Value::Numbers(Number::I64, bytes)
                }
                None => member.clone(),
            };
            members.push((name.clone(), value));
        }
        let (class, bases) = (old.class.clone(), old.bases.clone());
        let index = Object { class, version: old.version, bases, members, ..Object::default() };
        let mut w = Writer::new(0);
        encode_pointer(&mut w, &Value::Object(SharedObject::from(index)))?;
        w.into_bytes()
    }
}

/// Returns the type of a branch with one number in each entry.
fn number(branch: &Branch) -> Option<Number> {
    match branch.item.as_deref() {
        Some(Item::Number(number)) => Some(*number),
        _ => None,
    }
}

/// Returns the buffered values of a branch as whole numbers, as ROOT does for an index.
fn values(branch: &Branch) -> Result<Vec<i64>> {
    let Some(number) = number(branch) else { return Ok(Vec::new()) };
    let whole = |bytes: &[u8]| {
        let mut wide = [0; 8];
        let size = number.size();
        if let Some(end) = wide.get_mut(8 - size..) {
            end.copy_from_slice(bytes);
        }
        let value = u64::from_be_bytes(wide);
        match number {
            Number::I8 => (value as i8).into(),
            Number::I16 => (value as i16).into(),
            Number::I32 => (value as i32).into(),
            // Those without a sign are shorter, or the same bits.
            Number::Bool | Number::U8 | Number::U16 | Number::U32 | Number::U64 | Number::I64 => value as i64,
            Number::F32 => f32::from_bits(value as u32) as i64,
            Number::F64 => f64::from_bits(value) as i64,
        }
    };
    grow::collected(branch.data.chunks_exact(number.size()).map(whole))
}
