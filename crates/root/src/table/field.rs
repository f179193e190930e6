//! Fields: compiled once, planned for each reading in stages.

use super::Table;
use super::page::{PageDecoder, PageWanted};
use crate::array::{Builder, Column, Number, Type};
use crate::error::Result;
use std::any::Any;
use std::sync::Arc;

/// What a table shows of a field without compiling it.
#[derive(Debug, Clone, Copy)]
pub struct FieldInfo<'a> {
    /// Name.
    pub name: &'a str,
    /// Title or description.
    pub title: &'a str,
    /// The field it is part of.
    pub parent: Option<usize>,
    /// Its parts.
    pub children: &'a [usize],
    /// Entries, which may be others than those of the table.
    pub entries: u64,
}

/// A field compiled for reading. Tables keep theirs, and tables of one shape share them.
pub trait FieldReader: Any + Send + Sync {
    /// The type of its column, or why there is none.
    fn of(&self) -> &Result<Type>;

    /// C++ type, as users of Python readers know it.
    fn typename(&self) -> &str;

    /// Whether it only groups other fields.
    fn is_group(&self) -> bool {
        false
    }

    /// Members that are left out, and why.
    fn left_out(&self) -> &[String] {
        &[]
    }

    /// Elements of containers that cannot be decoded, should there be any.
    fn doubts(&self) -> &[String] {
        &[]
    }

    /// Plans the entries from `start` to `stop` of a field of a table: the one that it was compiled for, or one of the
    /// same shape.
    fn plan<'a>(
        self: Arc<Self>,
        table: &'a dyn Table,
        field: usize,
        start: u64,
        stop: u64,
    ) -> Result<Box<dyn FieldPlan<'a> + 'a>>;

    /// Makes the column of `entries` from what was read of all parts, of which `take` gives each slot's, joined: numbers
    /// for [`Target::Direct`], 64-bit starts and end for [`Target::Ends`], the column itself for [`Target::Built`].
    fn finish(&self, entries: u64, take: &mut dyn FnMut(usize) -> Result<Column>) -> Result<Column>;
}

/// The reading of a field for some entries of one part: pure data, which never does I/O.
pub trait FieldPlan<'a>: Send {
    /// Adds the lanes that can be read now: in the first call those that are known from the table's description alone,
    /// in the next call those that are known by the values of the first, and so on. Nothing is added when nothing more
    /// is needed.
    fn stage(&mut self, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()>;

    /// Checks the values when all were read. Lanes that are added for that are read, and the check is called again;
    /// they are missing then if they cannot be read, which is no error.
    fn check(&mut self, _read: &dyn LaneValues, _lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        Ok(())
    }
}

/// A stored column of which some pages are read to one target.
pub struct Lane<'a> {
    /// Which of the field's targets this is. Parts that are joined have the same slots.
    pub slot: usize,
    /// The stored column: the table says what it is called.
    pub column: usize,
    /// Where the values go.
    pub target: Target,
    /// Pages in the order of their items, of which each has some wanted ones (`from` to `to`) that follow each other.
    pub pages: Vec<PageWanted>,
    /// Decodes them.
    pub decoder: Box<dyn PageDecoder + 'a>,
    /// Bytes that the wanted items take before compression, about.
    pub bytes: u64,
    /// Other fields are likely to need the same items, too: they are read once for all, and stay in the page cache.
    pub shared: bool,
}

/// Where the values of a lane go.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// Decoded to their places in the final buffer, since their number is known.
    Direct {
        /// What they are.
        number: Number,
        /// How many make an item.
        each: usize,
        /// Items.
        items: u64,
        /// Bits of an item before compression.
        bits: usize,
    },
    /// The same for the ends of lists, as 64-bit numbers: first the start of the first list, then the end of each, all
    /// in the numbering of the stored column. The engine checks that they rise, and has them begin with 0.
    Ends {
        /// Lists.
        lists: u64,
        /// Bits of an item before compression.
        bits: usize,
    },
    /// Appended in order to a column of a type.
    Built(Type),
}

impl Target {
    /// Whether values of the other one can follow those of this one.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Direct { number: a, each: n, .. }, Self::Direct { number: b, each: m, .. }) => {
                (a, n) == (b, m)
            }
            (Self::Ends { .. }, Self::Ends { .. }) => true,
            (Self::Built(a), Self::Built(b)) => a == b,
            _ => false,
        }
    }
}

/// What earlier stages have read for the plan that asks: its own part's share.
pub trait LaneValues {
    /// Numbers of a [`Target::Direct`].
    fn direct(&self, slot: usize) -> Option<&[u8]>;
    /// Ends of lists of a [`Target::Ends`].
    fn ends(&self, slot: usize) -> Option<Ends<'_>>;
    /// A [`Target::Built`], and which of its items are this part's.
    fn built(&self, slot: usize) -> Option<(&Builder, std::ops::Range<usize>)>;
    /// Numbers from item `first` on that some field of this part has read of a stored column to a [`Target::Direct`].
    fn known(&self, column: usize, first: u64, items: usize) -> Option<(Number, &[u8])>;
}

/// The ends of a part's lists.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Start of the first and end of each as native 64-bit numbers, where the lists of the parts before end.
    pub bytes: &'a [u8],
    /// First item of the first list and end of the last one, in the numbering of the stored column.
    pub items: (u64, u64),
}
