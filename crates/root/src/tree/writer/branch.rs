//! A branch being written: its type and its buffered entries.

use super::basket::Basket;
use super::item::{Item, View};
use crate::compress::effort::Effort;
use crate::compress::encode::Compression;
use crate::error::Result;
use crate::streamer::declare::Shape;
use crate::wire::grow::Grow;
use std::sync::Arc;

/// The content of a branch.
#[derive(Debug, Clone, PartialEq)]
pub enum BranchKind {
    /// One number, or an array of fixed dimensions, in each entry.
    Numbers {
        /// Element type: a number, packed or not.
        number: Shape,
        /// Lengths of the dimensions; empty for a single number.
        dims: Vec<usize>,
    },
    /// A variable number of numbers, or of arrays of fixed dimensions.
    Counted {
        /// Element type: a number, packed or not.
        number: Shape,
        /// Lengths of the dimensions after the first.
        dims: Vec<usize>,
        /// The branch that counts them; it must come earlier.
        counter: usize,
    },
    /// The number of elements of other branches; it is filled from those.
    Counter,
    /// A string.
    Text,
    /// Several numbers or arrays of fixed dimensions in one branch (a leaf list): records.
    Leaves(Vec<(String, Shape)>),
    /// A container, a string or an object of a class, in one branch or split.
    Object {
        /// Its type.
        shape: Shape,
        /// Number of levels of members with branches of their own (`fSplitLevel`); 0 for none.
        split_level: i32,
        /// Whether lists of unsplit objects are stored member-wise.
        member_wise: bool,
    },
}

/// The specification of a branch.
#[derive(Debug, Clone)]
pub struct BranchSpec {
    /// Name.
    pub name: String,
    /// Content.
    pub kind: BranchKind,
    /// Codec and level, if different from those of the file.
    pub compression: Option<Compression>,
}

/// A leaf (`TLeaf`).
#[derive(Debug, Clone)]
pub struct Leaf {
    pub class: &'static str,
    pub name: String,
    pub title: String,
    /// Number of elements in an entry, or in an item of a list (`fLen`).
    pub length: usize,
    /// Bytes of an element in memory (`fLenType`).
    pub width: usize,
    /// Offset in memory, after the leaves before it (`fOffset`).
    pub offset: usize,
    /// Whether it counts others (`fIsRange`).
    pub range: bool,
    pub unsigned: bool,
}

/// The additional members of a `TBranchElement`.
#[derive(Debug, Clone)]
pub struct Element {
    /// The class of the object, or the class whose member this is (`fClassName`).
    pub class: String,
    /// The class whose member this is (`fParentName`).
    pub parent: String,
    /// The class of the elements, if these have branches of their own (`fClonesName`).
    pub clones: String,
    /// Checksum of `class`.
    pub checksum: u32,
    /// Version of `class`.
    pub version: i32,
    /// Index of the member (`fID`); -1 for an unsplit object, -2 for a split one.
    pub id: i32,
    /// `fType`: 0, 2 (a split member), 4 (a split list), 41 (a member of its elements), -1 (a string).
    pub kind: i32,
    /// Type code of the member (`fStreamerType`); -1 if it is not a member.
    pub code: i32,
    /// Whether entries are objects (`TBranch::kBranchAny`).
    pub object: bool,
}

/// A branch being written.
pub struct Branch {
    pub name: String,
    pub title: String,
    pub compression: Option<Compression>,
    pub leaves: Vec<Leaf>,
    pub element: Option<Element>,
    pub split_level: i32,
    /// Index of the parent branch.
    pub parent: Option<usize>,
    /// Index of the branch that counts its elements.
    pub counter: Option<usize>,
    /// Index of the column, then of nested fields in it.
    pub column: usize,
    pub path: Vec<usize>,
    /// Layout of an entry; a split object has no entries of its own.
    pub item: Option<Arc<Item>>,
    /// Bytes of an entry, if this is fixed.
    pub fixed: Option<usize>,
    /// Bytes of the buffered entries.
    pub data: Vec<u8>,
    /// Start of each in `data`, if the size varies.
    pub starts: Vec<u64>,
    /// Baskets in the file.
    pub baskets: Vec<Basket>,
    /// Bytes of all baskets before compression, keys included (`fTotBytes`).
    pub total_bytes: u64,
    /// Bytes of all baskets in the file (`fZipBytes`).
    pub zip_bytes: u64,
    /// Largest basket before compression.
    pub largest: usize,
    /// Largest number of entries in a basket.
    pub most_entries: usize,
    /// Largest value of a counter; for text, one more than the longest length.
    pub maximum: u32,
    /// Level at which baskets are compressed.
    pub effort: Effort,
}

/// Maximum number of bytes to reserve ahead of need.
const MOST_AHEAD: usize = 256 << 20;

/// Reserves room for more values. With these, the values are 1 / `parts` of a cluster, and room for the whole cluster
/// is reserved; if `parts` is at most 1, a quarter more. Buffered entries are most of a writer's memory, and growing
/// buffers often leave holes in it.
fn grow<T>(values: &mut Vec<T>, more: usize, parts: f64) -> Result<()> {
    if values.capacity() - values.len() < more {
        let whole = ((values.len() + more) as f64 * parts) as usize - values.len();
        let ahead = if parts > 1.0 { whole } else { values.capacity() / 4 };
        let ahead = more.max(ahead.min(MOST_AHEAD / size_of::<T>()));
        if values.try_reserve_exact(ahead).is_err() {
            values.room(more)?;
        }
    }
    Ok(())
}

impl Branch {
    pub fn new(name: String, title: String, item: Option<Item>, column: usize) -> Self {
        Self {
            name,
            title,
            compression: None,
            leaves: Vec::new(),
            element: None,
            split_level: 0,
            parent: None,
            counter: None,
            column,
            path: Vec::new(),
            fixed: item.as_ref().and_then(Item::fixed_bytes),
            item: item.map(Arc::new),
            data: Vec::new(),
            starts: Vec::new(),
            baskets: Vec::new(),
            total_bytes: 0,
            zip_bytes: 0,
            largest: 0,
            most_entries: 0,
            maximum: 0,
            effort: Effort::default(),
        }
    }
    /// Marks its entries as lists that another branch counts.
    pub fn count_by(&mut self, counter: Option<usize>) {
        let item = self.item.take().map(Arc::unwrap_or_clone);
        self.item = item.map(|item| Arc::new(Item::Bare(Box::new(item))));
        self.fixed = None;
        self.counter = counter;
    }
    /// Whether entries vary in size, so that baskets store the start of each.
    pub fn varies(&self) -> bool {
        self.item.is_some() && self.fixed.is_none()
    }
    /// Bytes of an entry, if this is fixed.
    pub fn entry_bytes(&self) -> usize {
        self.fixed.unwrap_or(0)
    }

    /// Reserves room for entries `from..to`. A full cluster has `parts` times the entries buffered then.
    pub fn grow(&mut self, view: &View<'_>, from: usize, to: usize, parts: f64) -> Result<()> {
        grow(&mut self.data, view.bytes(from, to), parts)?;
        if self.fixed.is_none() {
            grow(&mut self.starts, to - from, parts)?;
        }
        Ok(())
    }

    /// Buffers entries `from..to`.
    pub fn append(&mut self, view: &View<'_>, from: usize, to: usize) -> Result<()> {
        if self.fixed.is_some() {
            self.maximum = self.maximum.max(view.encode(from, to, &mut self.data)?);
            return Ok(());
        }
        if let Some(starts) = view.starts(from, to) {
            let base = self.data.len();
            self.starts.extend(starts.map(|start| (base + start) as u64));
            view.encode(from, to, &mut self.data)?;
            return Ok(());
        }
        for i in from..to {
            self.starts.push(self.data.len() as u64);
            self.maximum = self.maximum.max(view.encode(i, i + 1, &mut self.data)?);
        }
        Ok(())
    }

    /// Chooses the level at which the buffered entries, and further ones, are compressed.
    pub fn measure(&mut self, file: Compression) -> Result<()> {
        let compression = self.compression(file);
        self.effort.prepare(compression, self.data.len(), |range| {
            Ok(self.data.get(range).unwrap_or_default().into())
        })
    }

    /// Codec and level of the branch in a file.
    pub fn compression(&self, file: Compression) -> Compression {
        self.compression.unwrap_or(file)
    }
}
