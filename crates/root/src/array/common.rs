//! Offsets that several columns have in common.
//!
//! Columns with one counter have equal lists, but each stores the lengths of its own. The column that comes first appends
//! its offsets to the common ones. The others compare theirs page by page, while they are in the cache, and drop them.
//! A column whose lists differ keeps its own offsets.

use super::builder::provide;
use super::pages::Room;
use super::{Builder, Column, pool};
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};
use arrow_buffer::Buffer;
use sapwood_io::lock;
use std::borrow::Cow;
use std::sync::{Arc, Mutex};

/// The offsets of columns of lists that are expected to be equal.
pub struct CommonOffsets {
    state: Mutex<State>,
    /// Empty buffers for the offsets of a page.
    spare: Mutex<Vec<Vec<i64>>>,
}

enum State {
    Growing(Vec<i64>),
    Finished(Buffer),
}

impl State {
    fn known(&self) -> &[i64] {
        match self {
            Self::Growing(offsets) => offsets,
            Self::Finished(buffer) => buffer.typed_data(),
        }
    }
}

impl CommonOffsets {
    /// Creates the offsets of no lists, with room for this many.
    pub fn new(lists: usize) -> Self {
        let mut offsets = pool::with_capacity(lists.saturating_add(1));
        offsets.push(0);
        Self { state: Mutex::new(State::Growing(offsets)), spare: Mutex::default() }
    }

    /// Moves the offsets of a column after the first `done` lists, of which only the last stays. If they differ from those
    /// of another column, the column gets all of its offsets instead. Returns whether they are equal.
    fn take(&self, done: usize, offsets: &mut Vec<i64>) -> Result<bool> {
        let mut state = lock(&self.state);
        let after = state.known().get(done..).ok_or_else(fewer)?;
        let same = after.len().min(offsets.len());
        let more = offsets.get(same..).unwrap_or_default();
        let equal = after.get(..same) == offsets.get(..same);
        match &mut *state {
            State::Growing(known) if equal => {
                known.room(more.len())?;
                provide(known, more.len());
                known.extend_from_slice(more);
            }
            State::Finished(_) if equal && more.is_empty() => {}
            _ => {
                let mut own = grow::with_room(done + offsets.len())?;
                own.extend_from_slice(state.known().get(..done).unwrap_or_default());
                own.extend_from_slice(offsets);
                *offsets = own;
                return Ok(false);
            }
        }
        drop(state);
        let last = offsets.last().copied().unwrap_or_default();
        let mut buffer = std::mem::replace(offsets, vec![last]);
        buffer.clear();
        lock(&self.spare).push(buffer);
        Ok(true)
    }

    /// Returns the offsets of this many lists; all columns share the memory.
    fn finish(&self, lists: usize) -> Buffer {
        let mut state = lock(&self.state);
        if let State::Growing(offsets) = &mut *state {
            *state = State::Finished(pool::share(std::mem::take(offsets)));
        }
        let State::Finished(all) = &*state else { return Buffer::default() };
        all.slice_with_length(0, all.len().min((lists + 1) * size_of::<i64>()))
    }
}

/// A column to which values are appended. It may have its offsets in common with others.
pub struct Growing {
    /// While the offsets are common, only the last one is here.
    builder: Builder,
    common: Option<Common>,
}

struct Common {
    offsets: Arc<CommonOffsets>,
    /// Number of lists of the column.
    lists: usize,
    /// Whether the other columns came later.
    is_first: bool,
}

impl Growing {
    /// Creates a column with offsets of its own.
    pub fn new(builder: Builder) -> Self {
        Self { builder, common: None }
    }

    /// Creates an empty column of lists whose offsets are expected to be equal to the common ones.
    pub fn with_common(builder: Builder, offsets: Arc<CommonOffsets>, is_first: bool) -> Self {
        Self { builder, common: Some(Common { offsets, lists: 0, is_first }) }
    }

    /// The values. While the offsets are common, only the last one is here.
    pub fn builder(&mut self) -> &mut Builder {
        &mut self.builder
    }

    /// The same, to be read.
    pub fn as_builder(&self) -> &Builder {
        &self.builder
    }

    /// Appends values with a function.
    pub fn fill<T>(&mut self, append: impl FnOnce(&mut Builder) -> Result<T>) -> Result<T> {
        if let (Some(common), Builder::List { offsets, .. }) = (&self.common, &mut self.builder)
            && let Some(mut buffer) = lock(&common.offsets.spare).pop()
        {
            // Columns take turns with buffers that are in the cache.
            buffer.try_extend(offsets)?;
            *offsets = buffer;
        }
        let result = append(&mut self.builder)?;
        self.settle()?;
        Ok(result)
    }

    /// Moves the offsets to the common ones.
    fn settle(&mut self) -> Result<()> {
        let (Some(common), Builder::List { offsets, .. }) = (&mut self.common, &mut self.builder) else {
            return Ok(());
        };
        let more = offsets.len().saturating_sub(1);
        if common.offsets.take(common.lists, offsets)? {
            common.lists += more;
        } else {
            self.common = None;
        }
        Ok(())
    }

    /// Returns the offsets, if it is a column of lists.
    ///
    /// # Errors
    /// When there is no memory for a copy.
    pub fn offsets(&self) -> Result<Option<Cow<'_, [i64]>>> {
        Ok(match (&self.common, &self.builder) {
            (Some(common), _) => {
                let state = lock(&common.offsets.state);
                let own = state.known().get(..=common.lists).ok_or_else(fewer)?;
                Some(Cow::Owned(grow::copied(own)?))
            }
            (None, Builder::List { offsets, .. }) => Some(Cow::Borrowed(offsets)),
            _ => None,
        })
    }

    /// Returns the free memory at the end of each buffer.
    pub fn room(&mut self) -> Vec<Room> {
        let mut rooms = self.builder.room();
        if let Some(common) = self.common.as_ref().filter(|common| common.is_first)
            && let State::Growing(offsets) = &mut *lock(&common.offsets.state)
        {
            rooms.push(Room::of(offsets.spare_capacity_mut()));
        }
        rooms
    }

    /// Returns the finished column.
    pub fn finish(self) -> Column {
        match (self.builder.finish(), self.common) {
            (Column::List { values, .. }, Some(common)) => {
                Column::List { offsets: common.offsets.finish(common.lists), values }
            }
            (column, _) => column,
        }
    }
}

fn fewer() -> Error {
    Error::corrupt("fewer common lists than a column has")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Number;

    fn lists() -> Builder {
        let values = Box::new(Builder::Number { number: Number::U8, values: Vec::new() });
        Builder::List { offsets: vec![0], values }
    }

    /// Appends lists of these lengths.
    fn append(to: &mut Growing, lengths: &[usize]) {
        to.fill(|builder| {
            let Builder::List { offsets, values } = builder else { unreachable!() };
            for &length in lengths {
                values.append_default(length)?;
                offsets.push(values.len() as i64);
            }
            Ok(())
        })
        .unwrap();
    }

    fn offsets_of(column: &Column) -> &Buffer {
        let Column::List { offsets, .. } = column else { unreachable!() };
        offsets
    }

    #[test]
    fn equal_lists_have_one_buffer_of_offsets() {
        let common = Arc::new(CommonOffsets::new(5));
        let mut columns =
            [true, false, false].map(|first| Growing::with_common(lists(), common.clone(), first));
        // Their pages end at different lists, and any column may be ahead.
        append(&mut columns[0], &[2, 0]);
        append(&mut columns[1], &[2, 0, 3]);
        append(&mut columns[2], &[]);
        append(&mut columns[2], &[2]);
        append(&mut columns[0], &[3, 1, 4]);
        append(&mut columns[2], &[0, 3, 1]);
        append(&mut columns[1], &[1, 4]);
        append(&mut columns[2], &[4]);
        assert!(columns.iter().all(|column| column.offsets().unwrap().unwrap()[..] == [0, 2, 2, 5, 6, 10]));
        let columns = columns.map(Growing::finish);
        for column in &columns {
            assert_eq!(offsets_of(column).typed_data::<i64>(), [0, 2, 2, 5, 6, 10]);
            assert_eq!(offsets_of(column).as_ptr(), offsets_of(&columns[0]).as_ptr());
            let Column::List { values, .. } = column else { unreachable!() };
            assert_eq!(values.len(), 10);
        }
    }

    #[test]
    fn a_column_whose_lists_differ_has_offsets_of_its_own() {
        for (other, want) in [
            (&[&[2, 0][..], &[4, 1], &[1, 1]][..], &[0, 2, 2, 6, 7, 8, 9][..]),
            (&[&[2, 0, 3], &[9, 1, 1]], &[0, 2, 2, 5, 14, 15, 16]),
            (&[&[1, 1, 3], &[2, 2, 0]], &[0, 1, 2, 5, 7, 9, 9]),
        ] {
            let common = Arc::new(CommonOffsets::new(0));
            let [mut first, mut second, mut third] =
                [true, false, false].map(|is_first| Growing::with_common(lists(), common.clone(), is_first));
            append(&mut first, &[2, 0, 3, 2]);
            for lengths in other {
                append(&mut second, lengths);
            }
            append(&mut third, &[2, 0, 3, 2, 2, 0]);
            append(&mut first, &[2, 0]);
            assert_eq!(second.offsets().unwrap().unwrap()[..], *want);
            let [first, second, third] = [first, second, third].map(Growing::finish);
            assert_eq!(offsets_of(&second).typed_data::<i64>(), want);
            assert_eq!(offsets_of(&first).typed_data::<i64>(), [0, 2, 2, 5, 7, 9, 9]);
            assert_eq!(offsets_of(&first).as_ptr(), offsets_of(&third).as_ptr());
            assert_ne!(offsets_of(&first).as_ptr(), offsets_of(&second).as_ptr());
        }
    }
}
