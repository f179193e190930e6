//! One branch while it is written: what it takes, and the entries that wait for their cluster.

use super::basket::Basket;
use super::item::{Item, View};
use crate::compress::encode::Compression;
use crate::error::Result;
use crate::streamer::declare::Shape;
use std::sync::Arc;

/// What a branch holds.
#[derive(Debug, Clone, PartialEq)]
pub enum BranchKind {
    /// A number each entry, or an array of fixed dimensions.
    Numbers {
        /// Element type: a number, packed or not.
        number: Shape,
        /// Lengths of the dimensions, none for a single number.
        dims: Vec<usize>,
    },
    /// Any number of numbers, or of arrays of fixed dimensions.
    Counted {
        /// Element type: a number, packed or not.
        number: Shape,
        /// Lengths of the dimensions after the first.
        dims: Vec<usize>,
        /// The branch, an earlier one, that says how many.
        counter: usize,
    },
    /// Says how many elements other branches have; filled from those.
    Counter,
    /// A string.
    Text,
    /// Several numbers or arrays of fixed dimensions in one branch (a leaf list): records.
    Leaves(Vec<(String, Shape)>),
    /// A container, a string or an object of a class, in one branch or split.
    Object {
        /// Its type.
        shape: Shape,
        /// How many levels of members get branches of their own (`fSplitLevel`); 0 for none.
        split_level: i32,
        /// Whether lists of objects that are not split are laid out member by member.
        member_wise: bool,
    },
}

/// A branch to be made.
#[derive(Debug, Clone)]
pub struct BranchSpec {
    /// Name.
    pub name: String,
    /// What it holds.
    pub kind: BranchKind,
    /// Codec and level, if not those of the file.
    pub compression: Option<Compression>,
}

/// A leaf (`TLeaf`).
#[derive(Debug, Clone)]
pub struct Leaf {
    pub class: &'static str,
    pub name: String,
    pub title: String,
    /// Elements of an entry, or of an item of a list (`fLen`).
    pub length: usize,
    /// Bytes of an element in memory (`fLenType`).
    pub width: usize,
    /// Where it begins in memory, after the leaves before it (`fOffset`).
    pub offset: usize,
    /// It counts others (`fIsRange`).
    pub range: bool,
    pub unsigned: bool,
}

/// What a `TBranchElement` has that a `TBranch` has not.
#[derive(Debug, Clone)]
pub struct Element {
    /// The class of the object, or the one whose member this is (`fClassName`).
    pub class: String,
    /// The class whose member this is (`fParentName`).
    pub parent: String,
    /// The class of the elements, if these have branches of their own (`fClonesName`).
    pub clones: String,
    /// Of `class`.
    pub checksum: u32,
    /// Of `class`.
    pub version: i32,
    /// Which member (`fID`), -1 for an object of its own, -2 if it is split.
    pub id: i32,
    /// `fType`: 0, 2 (a split member), 4 (a split list), 41 (a member of its elements), -1 (a string).
    pub kind: i32,
    /// Type code of the member (`fStreamerType`), -1 if it is none.
    pub code: i32,
    /// Entries are objects (`TBranch::kBranchAny`).
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
    /// The branch that it is part of.
    pub parent: Option<usize>,
    /// The branch that counts its elements.
    pub counter: Option<usize>,
    /// Which of the columns, and which fields of it, one inside the other.
    pub column: usize,
    pub path: Vec<usize>,
    /// How an entry is laid out; a split object has no entries of its own.
    pub item: Option<Arc<Item>>,
    /// Bytes of an entry, if all have the same.
    pub fixed: Option<usize>,
    /// Bytes of the entries that wait.
    pub data: Vec<u8>,
    /// Where each of them starts in `data`, if that varies.
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
    /// Largest value of a counter; for text one more than the longest.
    pub maximum: u32,
}

/// Room is made for at most this many bytes ahead of need.
const MOST_AHEAD: usize = 256 << 20;

/// Makes room for more: for all of a cluster, of which the values with these are one part in `parts`, or else by a
/// quarter. What waits for a cluster is most of a writer's memory, and buffers that grow often leave holes in it.
fn grow<T>(values: &mut Vec<T>, more: usize, parts: f64) {
    if values.capacity() - values.len() < more {
        let whole = ((values.len() + more) as f64 * parts) as usize - values.len();
        let ahead = if parts > 1.0 { whole } else { values.capacity() / 4 };
        values.reserve_exact(more.max(ahead.min(MOST_AHEAD / size_of::<T>())));
    }
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
        }
    }
    /// Its entries are lists that another branch counts.
    pub fn count_by(&mut self, counter: Option<usize>) {
        let item = self.item.take().map(Arc::unwrap_or_clone);
        self.item = item.map(|item| Arc::new(Item::Bare(Box::new(item))));
        self.fixed = None;
        self.counter = counter;
    }
    /// Whether entries differ in size, so that baskets say where each begins.
    pub fn varies(&self) -> bool {
        self.item.is_some() && self.fixed.is_none()
    }
    /// Bytes of an entry if all have the same.
    pub fn entry_bytes(&self) -> usize {
        self.fixed.unwrap_or(0)
    }

    /// Takes entries `from..to` to those that wait; `parts` of as many as there are then make a cluster.
    pub fn append(&mut self, view: &View<'_>, from: usize, to: usize, parts: f64) -> Result<()> {
        grow(&mut self.data, view.bytes(from, to), parts);
        if self.fixed.is_some() {
            self.maximum = self.maximum.max(view.encode(from, to, &mut self.data)?);
            return Ok(());
        }
        grow(&mut self.starts, to - from, parts);
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

    /// Codec and level of the branch in a file.
    pub fn compression(&self, file: Compression) -> Compression {
        self.compression.unwrap_or(file)
    }
}
