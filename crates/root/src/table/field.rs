//! Fields: compiled once, then planned in stages for each read.

use super::Table;
use super::page::{PageDecoder, PageWanted};
use crate::array::{Builder, Column, Number, Type};
use crate::error::Result;
use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Information about a field that needs no compilation.
#[derive(Debug, Clone, Copy)]
pub struct FieldInfo<'a> {
    /// Name.
    pub name: &'a str,
    /// Title or description.
    pub title: &'a str,
    /// Index of the parent field.
    pub parent: Option<usize>,
    /// Indices of the child fields.
    pub children: &'a [usize],
    /// Number of entries; it can differ from that of the table.
    pub entries: u64,
}

/// A field compiled for reading. Each table keeps its readers; tables of the same shape share them.
pub trait FieldReader: Any + Send + Sync {
    /// The type of its column, or the reason why it cannot be read.
    fn of(&self) -> &Result<Type>;

    /// C++ type name, as Python readers of ROOT files spell it.
    fn typename(&self) -> &str;

    /// Whether the field only groups other fields.
    fn is_group(&self) -> bool {
        false
    }

    /// Members that are left out, each with the reason.
    fn left_out(&self) -> &[String] {
        &[]
    }

    /// Elements of containers that may not be decodable.
    fn doubts(&self) -> &[String] {
        &[]
    }

    /// Describes the slots that the values of a field of `table` need, and their targets, as far as they do not follow
    /// from the type. Fields of one type and layout are read into the same targets. Other fields are read apart and
    /// joined; so are fields without a layout if their tables have different shapes.
    fn layout(&self, table: &dyn Table, field: usize) -> Option<String>;

    /// Plans entries `start` to `stop` of a field of `table`: the table it was compiled for, or one of the same shape.
    fn plan<'a>(
        self: Arc<Self>,
        table: &'a dyn Table,
        field: usize,
        start: u64,
        stop: u64,
    ) -> Result<Box<dyn FieldPlan<'a> + 'a>>;

    /// Builds the column of `entries` from the values of all parts. `take` returns the joined values of a slot:
    ///
    /// * numbers for [`Target::Direct`],
    /// * 64-bit starts and end for [`Target::Ends`],
    /// * the column itself for [`Target::Built`].
    ///
    /// `room` is asked before bytes are allocated in addition to these values.
    fn finish(
        &self,
        entries: u64,
        take: &mut dyn FnMut(usize) -> Result<Column>,
        room: &dyn Fn(u64) -> Result<()>,
    ) -> Result<Column>;
}

/// The plan for reading some entries of a field from one part. It is pure data and never does I/O.
pub trait FieldPlan<'a>: Send {
    /// Adds the lanes that can be read now. The first call adds those known from the table's description. Each later
    /// call adds those that depend on the values of the call before. A call that adds nothing ends the plan.
    fn stage(&mut self, read: &dyn LaneValues, lanes: &mut Vec<Lane<'a>>) -> Result<()>;

    /// Checks the values after all were read. If the check adds lanes, these are read and the check is called again. A
    /// lane that cannot be read is then missing, which is not an error.
    fn check(&mut self, _read: &dyn LaneValues, _lanes: &mut Vec<Lane<'a>>) -> Result<()> {
        Ok(())
    }
}

/// A stored column, with the pages to read into one target.
pub struct Lane<'a> {
    /// Index of the target in the field. Joined parts use the same slots.
    pub slot: usize,
    /// The stored column; [`Table::column_name`] returns its name.
    pub column: usize,
    /// Destination of the values.
    pub target: Target,
    /// Pages in the order of their items. The wanted items of a page (`from` to `to`) are consecutive.
    pub pages: Vec<PageWanted>,
    /// The decoder of the pages.
    pub decoder: Box<dyn PageDecoder + 'a>,
    /// Approximate uncompressed size of the wanted items in bytes.
    pub bytes: u64,
    /// Whether other fields are likely to need the same items. These are then read once and stay in the page cache.
    pub shared: bool,
    /// The stored column that counts the lists of a [`Target::Built`]: lanes with the same one should have equal lists.
    /// Their offsets are then compared and kept once.
    pub counter: Option<usize>,
}

/// Destination of the values of a lane.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// The number of items is known: they are decoded directly to their places in the final buffer.
    Direct {
        /// Number type.
        number: Number,
        /// Numbers an item.
        each: usize,
        /// Number of items.
        items: u64,
        /// Uncompressed bits an item.
        bits: usize,
    },
    /// The same for the ends of lists, as 64-bit numbers: the start of the first list, then the end of each list, all
    /// in the numbering of the stored column. The engine checks that they rise and shifts them to begin with 0.
    Ends {
        /// Number of lists.
        lists: u64,
        /// Uncompressed bits an item.
        bits: usize,
    },
    /// Values are appended in order to a column of this type.
    Built(Type),
}

impl Target {
    /// Whether values for the other target can follow the values for this one.
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

/// Values read by earlier stages for the plan that asks, restricted to its own part.
pub trait LaneValues {
    /// Numbers of a [`Target::Direct`].
    fn direct(&self, slot: usize) -> Option<&[u8]>;
    /// Ends of lists of a [`Target::Ends`].
    fn ends(&self, slot: usize) -> Option<Ends<'_>>;
    /// Returns the builder of a [`Target::Built`] without [`Lane::counter`], and the range of its items that belongs to
    /// this part.
    fn built(&self, slot: usize) -> Option<(&Builder, Range<usize>)>;
    /// Returns the offsets of the lists of a [`Target::Built`].
    ///
    /// # Errors
    /// When there is no memory for a copy.
    fn offsets(&self, slot: usize) -> Result<Option<ListOffsets<'_>>>;
    /// Returns numbers, from item `first` on, that a field of this part has read from a stored column to a
    /// [`Target::Direct`].
    fn known(&self, column: usize, first: u64, items: usize) -> Option<(Number, &[u8])>;
}

/// The offsets of all lists of a column, and the range of those lists that belong to a part.
pub type ListOffsets<'a> = (Cow<'a, [i64]>, Range<usize>);

/// The ends of a part's lists.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// The start of the first list and the end of each, as native 64-bit numbers; counted on from the lists of the
    /// parts before.
    pub bytes: &'a [u8],
    /// First item of the first list and end of the last list, in the numbering of the stored column.
    pub items: (u64, u64),
}
