//! The index (`TTreeIndex`) of a tree to which entries are added.

use super::branch::Branch;
use super::item::Item;
use crate::array::Number;
use crate::error::Result;
use crate::streamer::encode::encode_pointer;
use crate::streamer::{Object, SharedObject, Value};
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
    pub fn new(index: &Object, branches: &[Branch], entries: u64) -> Option<Self> {
        if index.class != "TTreeIndex" {
            return None;
        }
        let branch = |name| match index.text(name)? {
            NOTHING => Some(None),
            name => {
                let found = branches.iter().position(|b| b.name == name && b.parent.is_none())?;
                branches.get(found).and_then(number).map(|_| Some(found))
            }
        };
        let branches = [branch("fMajorName")?, branch("fMinorName")?];
        let [major, minor, entry] = ARRAYS.map(|name| index.ints(name));
        let lengths = [major.len(), minor.len(), entry.len()];
        if lengths.iter().any(|length| *length as u64 != entries) {
            return None;
        }
        let each = major.iter().zip(minor.iter()).zip(entry.iter());
        let entries = each.map(|((major, minor), entry)| [*major, *minor, *entry]).collect();
        Some(Self { branches, entries })
    }

    /// Adds buffered entries, of which `first` is the first.
    #[expect(clippy::stable_sort_primitive, reason = "this sort is fast if most entries are in order")]
    pub fn add(&mut self, branches: &[Branch], first: u64, count: usize) {
        let [major, minor] = self.branches.map(|branch| match branch.and_then(|b| branches.get(b)) {
            Some(branch) => values(branch),
            None => vec![0; count],
        });
        let entries = first as i64..;
        self.entries.extend(major.into_iter().zip(minor).zip(entries).map(|((a, b), entry)| [a, b, entry]));
        // Also by entry: of several entries with the same values, readers find the first.
        self.entries.sort();
    }

    /// Maximum bytes that the index needs in addition to those it had, after more entries.
    pub fn bytes_after(&self, more: usize) -> usize {
        24 * (self.entries.len() + more)
    }

    /// Returns a pointer to the index, given its earlier state.
    pub fn encode(&self, old: &Object) -> Result<Vec<u8>> {
        let mut index = old.clone();
        for (place, name) in ARRAYS.into_iter().enumerate() {
            let values = self.entries.iter().filter_map(|entry| entry.get(place));
            let values = Value::Numbers(Number::I64, values.flat_map(|value| value.to_ne_bytes()).collect());
            if let Some((_, member)) = index.members.iter_mut().find(|(known, _)| known == name) {
                *member = values;
            }
        }
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
fn values(branch: &Branch) -> Vec<i64> {
    let Some(number) = number(branch) else { return Vec::new() };
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
    branch.data.chunks_exact(number.size()).map(whole).collect()
}
