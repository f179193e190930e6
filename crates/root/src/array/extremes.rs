//! Smallest and largest numbers of the zones of a table, which are its clusters, and lengths of their longest lists.
#![allow(clippy::inline_always, reason = "so that they are compiled for the processor of their caller")]

use super::wide::{self, Wide};
use super::{Column, Number};
use crate::error::{Error, Result};
use crate::wire::grow::{self, Grow};
use arrow_buffer::Buffer;
use rayon::prelude::*;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of numbers that the cache of a processor holds beside their copies.
const PIECE: usize = 256 << 10;

/// Smallest and largest numbers, as integers in the same order, and the number of NaN.
///
/// Without numbers, `low` is larger than `high`.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    low: i128,
    high: i128,
    nan: i64,
}

/// Compares numbers as signed or unsigned integers in the same order, which the processor does several at a time. NaN
/// is outside `$bounds`: numbers with any are processed again.
macro_rules! bound {
    ($key:ty, $values:expr, $order:expr, $bounds:expr) => {{
        struct Look<'a> {
            cells: &'a [[u8; size_of::<$key>()]],
            found: &'a mut ($key, $key),
        }
        impl Wide for Look<'_> {
            #[inline(always)]
            fn work(self) {
                // Fewer would wait for each other; more would not fit in the registers.
                const LANES: usize = 128 / size_of::<$key>();
                let (mut low, mut high) = ([<$key>::MAX; LANES], [<$key>::MIN; LANES]);
                let (rows, rest) = self.cells.as_chunks::<LANES>();
                for row in rows {
                    for ((low, high), cell) in low.iter_mut().zip(&mut high).zip(row) {
                        let key = $order(<$key>::from_ne_bytes(*cell));
                        *low = key.min(*low);
                        *high = key.max(*high);
                    }
                }
                for (cell, (low, high)) in rest.iter().zip(low.iter_mut().zip(&mut high)) {
                    let key = $order(<$key>::from_ne_bytes(*cell));
                    *low = key.min(*low);
                    *high = key.max(*high);
                }
                let least = low.into_iter().fold(<$key>::MAX, <$key>::min);
                *self.found = (least, high.into_iter().fold(<$key>::MIN, <$key>::max));
            }
        }
        let (cells, _) = $values.as_chunks::<{ size_of::<$key>() }>();
        let bounds: ($key, $key) = $bounds;
        let mut found = (<$key>::MAX, <$key>::MIN);
        wide::run(Look { cells, found: &mut found });
        let mut nan = 0;
        if !cells.is_empty() && (found.0 < bounds.0 || found.1 > bounds.1) {
            found = (<$key>::MAX, <$key>::MIN);
            for cell in cells {
                let key = $order(<$key>::from_ne_bytes(*cell));
                if key < bounds.0 || key > bounds.1 {
                    nan += 1;
                } else {
                    found = (key.min(found.0), key.max(found.1));
                }
            }
        }
        Bounds { low: found.0.into(), high: found.1.into(), nan }
    }};
}

macro_rules! whole {
    ($kind:ty, $values:expr) => {
        bound!($kind, $values, same, (<$kind>::MIN, <$kind>::MAX))
    };
}

fn same<T>(key: T) -> T {
    key
}

/// Maps the bits of a number to an integer in the same order, by inverting all bits except the sign of negative
/// numbers. The inverse is the same function.
fn rising_32(bits: i32) -> i32 {
    bits ^ ((bits >> 31) & i32::MAX)
}

fn rising_64(bits: i64) -> i64 {
    bits ^ ((bits >> 63) & i64::MAX)
}

/// The bits of infinity.
const INFINITE_32: i32 = f32::INFINITY.to_bits().cast_signed();
const INFINITE_64: i64 = f64::INFINITY.to_bits().cast_signed();

impl Bounds {
    const NONE: Self = Self { low: i128::MAX, high: i128::MIN, nan: 0 };

    /// Returns the bounds of numbers in native bytes. Bools are treated as bytes.
    fn of(number: Number, values: &[u8]) -> Self {
        match number {
            Number::Bool | Number::U8 => whole!(u8, values),
            Number::I8 => whole!(i8, values),
            Number::I16 => whole!(i16, values),
            Number::U16 => whole!(u16, values),
            Number::I32 => whole!(i32, values),
            Number::U32 => whole!(u32, values),
            Number::I64 => whole!(i64, values),
            Number::U64 => whole!(u64, values),
            Number::F32 => bound!(i32, values, rising_32, (!INFINITE_32, INFINITE_32)),
            Number::F64 => bound!(i64, values, rising_64, (!INFINITE_64, INFINITE_64)),
        }
    }

    fn join(&mut self, other: Self) {
        if other.low <= other.high {
            (self.low, self.high) = (self.low.min(other.low), self.high.max(other.high));
        }
        self.nan += other.nan;
    }
}

/// Appends the native bytes of the number with this key.
fn push_number(number: Number, key: i128, to: &mut Vec<u8>) {
    match number.size() {
        1 => to.extend((key as u8).to_ne_bytes()),
        2 => to.extend((key as u16).to_ne_bytes()),
        4 if number == Number::F32 => to.extend(rising_32(key as i32).to_ne_bytes()),
        4 => to.extend((key as u32).to_ne_bytes()),
        _ if number == Number::F64 => to.extend(rising_64(key as i64).to_ne_bytes()),
        _ => to.extend((key as u64).to_ne_bytes()),
    }
}

/// Statistics of the numbers in each zone.
#[derive(Debug, Default)]
pub struct Extremes {
    /// The smallest number of each zone, in native bytes; 0 for an empty zone.
    pub low: Vec<u8>,
    /// The largest number of each zone.
    pub high: Vec<u8>,
    /// Number of NaN in each zone.
    pub nan: Vec<i64>,
}

impl Extremes {
    fn of(number: Number, zones: &[Bounds]) -> Self {
        let mut found = Self::default();
        for zone in zones {
            let (low, high) = if zone.low > zone.high { (0, 0) } else { (zone.low, zone.high) };
            push_number(number, low, &mut found.low);
            push_number(number, high, &mut found.high);
            found.nan.push(zone.nan);
        }
        found
    }
}

fn outside() -> Error {
    Error::argument("a zone ends outside of its column")
}

/// Returns native 64-bit integers.
fn words(buffer: &Buffer) -> &[[u8; 8]] {
    buffer.as_chunks().0
}

/// The lengths of the shortest and the longest of some lists with these offsets.
struct Lengths<'a> {
    offsets: &'a [[u8; 8]],
    found: &'a mut (i64, i64),
}

impl Wide for Lengths<'_> {
    #[inline(always)]
    fn work(self) {
        const LANES: usize = 8;
        let ends = self.offsets.get(1..).unwrap_or_default();
        let starts = self.offsets.get(..ends.len()).unwrap_or_default();
        let (mut least, mut most) = ([i64::MAX; LANES], [0; LANES]);
        let ((starts, last_starts), (ends, last_ends)) =
            (starts.as_chunks::<LANES>(), ends.as_chunks::<LANES>());
        let mut look = |starts: &[[u8; 8]], ends: &[[u8; 8]]| {
            for (((least, most), start), end) in least.iter_mut().zip(&mut most).zip(starts).zip(ends) {
                let length = i64::from_ne_bytes(*end).wrapping_sub(i64::from_ne_bytes(*start));
                (*least, *most) = (length.min(*least), length.max(*most));
            }
        };
        for (starts, ends) in starts.iter().zip(ends) {
            look(starts, ends);
        }
        look(last_starts, last_ends);
        *self.found = (least.into_iter().fold(i64::MAX, i64::min), most.into_iter().fold(0, i64::max));
    }
}

/// Numbers whose statistics are collected, given by their place in the columns of a table.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The column.
    pub column: usize,
    /// The members of the records that contain them.
    pub path: Vec<usize>,
    /// A column whose lists have the same lengths. Only the offsets of that column are examined.
    pub like: usize,
    /// Whether the numbers are the lengths of the lists, as a counter stores them.
    pub lengths: bool,
}

/// A level of lists around numbers.
enum Level {
    /// Lists with these offsets.
    Lists(Buffer),
    /// Lists of this size.
    Fixed(usize),
}

impl Level {
    /// The item with which a list begins, given by its place.
    fn first(&self, list: usize) -> Option<usize> {
        match self {
            Self::Fixed(size) => list.checked_mul(*size),
            Self::Lists(offsets) => usize::try_from(i64::from_ne_bytes(*words(offsets).get(list)?)).ok(),
        }
    }
    /// Distinguishes levels, of which lists with the same offsets are one.
    fn key(&self) -> (usize, usize) {
        match self {
            Self::Fixed(size) => (0, *size),
            Self::Lists(offsets) => (offsets.as_ptr().addr(), offsets.len()),
        }
    }
}

/// The first item of an entry within levels of lists.
fn first_in(levels: &[Level], entry: usize) -> Option<usize> {
    levels.iter().try_fold(entry, |place, level| level.first(place))
}

/// Numbers within levels of lists.
struct Listed {
    /// The levels, the outermost first.
    levels: Arc<[Level]>,
    number: Number,
    /// The numbers. None for the lengths of the lists of the innermost level: the outer levels are then those around
    /// these numbers.
    values: Option<Buffer>,
    /// For optional numbers, the place of each in `values`; negative if it is missing.
    index: Option<Buffer>,
}

impl Listed {
    /// Finds the numbers of a part; None if the columns have other values there.
    fn find(part: &Measured, columns: &[Column]) -> Option<Self> {
        let mut levels = Vec::new();
        let mut members = part.path.iter();
        let mut column = columns.get(part.column)?;
        let (number, values, index) = loop {
            column = match column {
                Column::List { offsets, values } => {
                    let same = |other: &Buffer| {
                        other.len() == offsets.len() && words(other).first() == words(offsets).first()
                    };
                    let offsets = match columns.get(part.like) {
                        Some(Column::List { offsets: other, .. }) if levels.is_empty() && same(other) => {
                            other
                        }
                        _ => offsets,
                    };
                    levels.push(Level::Lists(offsets.clone()));
                    if part.lengths {
                        break (Number::I32, None, None);
                    }
                    values
                }
                Column::FixedList { size, values, .. } => {
                    levels.push(Level::Fixed(*size));
                    values
                }
                Column::Record { fields, .. } => &fields.get(*members.next()?)?.1,
                Column::Option { index, values } => match values.as_ref() {
                    Column::Number { number, values } => {
                        break (*number, Some(values.clone()), Some(index.clone()));
                    }
                    _ => return None,
                },
                Column::Number { number, values } => break (*number, Some(values.clone()), None),
                Column::Text { .. } | Column::Union { .. } | Column::Empty => return None,
            };
        };
        Some(Self { levels: levels.into(), number, values, index })
    }

    /// The levels around the numbers.
    fn around(&self) -> &[Level] {
        let inner = usize::from(self.values.is_none());
        self.levels.get(..self.levels.len().saturating_sub(inner)).unwrap_or_default()
    }

    /// The places of the numbers of some entries.
    fn range(&self, from: usize, to: usize) -> Option<Range<usize>> {
        Some(first_in(self.around(), from)?..first_in(self.around(), to)?)
    }

    /// Bytes of the numbers of some entries.
    fn bytes(&self, from: usize, to: usize) -> usize {
        let range = self.range(from, to).filter(|_| self.values.is_some()).unwrap_or_default();
        range.len().saturating_mul(self.number.size())
    }
}

/// Statistics of numbers in a zone.
#[derive(Clone, Copy, Debug)]
struct Zone {
    bounds: Bounds,
    /// Number of numbers, the missing ones included.
    count: i64,
    missing: i64,
    /// Length of the longest list, 0 without lists.
    longest: i64,
}

impl Zone {
    fn join(&mut self, other: &Self) {
        self.bounds.join(other.bounds);
        self.count += other.count;
        self.missing += other.missing;
        self.longest = self.longest.max(other.longest);
    }
}

/// Statistics of the numbers in all lists of each zone.
#[derive(Debug)]
pub struct Zones {
    /// Type of the numbers.
    pub number: Number,
    /// Smallest and largest numbers, and number of NaN.
    pub extremes: Extremes,
    /// Number of numbers, the missing ones included.
    pub counts: Vec<i64>,
    /// Number of missing numbers.
    pub missing: Vec<i64>,
    /// Length of the longest list, 0 without lists.
    pub longest: Vec<i64>,
}

/// Lists whose lengths are collected. Columns with the same offsets share them.
struct Lists {
    levels: Arc<[Level]>,
    /// The place of the lists among the levels.
    level: usize,
    /// The lengths of the shortest and the longest list of the zone.
    lengths: (i64, i64),
}

impl Lists {
    const NONE: (i64, i64) = (i64::MAX, 0);

    /// Processes the lists of some entries.
    fn look(&mut self, from: usize, to: usize) -> Result<()> {
        let outer = self.levels.get(..self.level).unwrap_or_default();
        let (Some(from), Some(to), Some(Level::Lists(offsets))) =
            (first_in(outer, from), first_in(outer, to), self.levels.get(self.level))
        else {
            return Err(outside());
        };
        let offsets = words(offsets).get(from..=to).ok_or_else(outside)?;
        let mut found = Self::NONE;
        wide::run(Lengths { offsets, found: &mut found });
        // Offsets that fall are those of no lists.
        if found.0 < 0 {
            return Err(outside());
        }
        self.lengths = (found.0.min(self.lengths.0), found.1.max(self.lengths.1));
        Ok(())
    }
}

/// The lengths of lists: the same for all, or those of some `Lists`.
enum Sizes {
    Same(i64),
    Of(Place),
}

/// A column, and the place of what it collects.
type Place = (usize, usize);

/// Numbers whose statistics are collected.
struct Numbers {
    listed: Listed,
    /// The lengths of the lists of each level.
    sizes: Vec<Sizes>,
    /// Those of the zone.
    bounds: Bounds,
    missing: i64,
}

impl Numbers {
    /// Processes the numbers of some entries.
    fn look(&mut self, from: usize, to: usize) -> Result<()> {
        let Some(values) = &self.listed.values else { return Ok(()) };
        let (number, size) = (self.listed.number, self.listed.number.size());
        let range = self.listed.range(from, to).ok_or_else(outside)?;
        let Some(index) = &self.listed.index else {
            let bytes = range.start.checked_mul(size).zip(range.end.checked_mul(size));
            let bytes = bytes.and_then(|(from, to)| values.get(from..to)).ok_or_else(outside)?;
            self.bounds.join(Bounds::of(number, bytes));
            return Ok(());
        };
        let index = words(index).get(range).ok_or_else(outside)?;
        let mut present = Vec::with_capacity(index.len().saturating_mul(size));
        for place in index {
            match usize::try_from(i64::from_ne_bytes(*place)) {
                Err(_) => self.missing += 1,
                Ok(place) => {
                    let start = place.checked_mul(size).ok_or_else(outside)?;
                    present.extend_from_slice(values.get(start..start + size).ok_or_else(outside)?);
                }
            }
        }
        self.bounds.join(Bounds::of(number, &present));
        Ok(())
    }

    /// Returns the statistics of a zone between entries; `lengths` finds those of the lists of another column.
    fn zone(&self, from: usize, to: usize, lengths: impl Fn(Place) -> Option<(i64, i64)>) -> Result<Zone> {
        let range = self.listed.range(from, to).ok_or_else(outside)?;
        let count = range.len() as i64;
        let mut zone = Zone { bounds: self.bounds, count, missing: self.missing, longest: 0 };
        let around = self.listed.around().len();
        for (level, sizes) in self.sizes.iter().enumerate() {
            let (least, most) = match sizes {
                Sizes::Same(size) => (*size, *size),
                Sizes::Of(place) => lengths(*place).ok_or_else(outside)?,
            };
            if level < around {
                zone.longest = zone.longest.max(most);
            } else {
                zone.bounds = Bounds { low: least.into(), high: most.into(), nan: 0 };
            }
        }
        Ok(zone)
    }
}

/// Collects the statistics of the numbers in a column, entry by entry.
#[derive(Default)]
pub struct Collected {
    parts: Vec<Numbers>,
    lists: Vec<Lists>,
    /// Number of entries whose numbers the cache of the processor holds; None without numbers.
    piece: Option<usize>,
    /// Number of entries that were processed.
    done: usize,
}

impl Collected {
    /// Does `work` with entries in small pieces, and collects the statistics of each piece after it, while its numbers
    /// are in the cache of the processor. Without numbers, all entries are one piece.
    ///
    /// `work` comes first, because it writes: its writes overlap with its reads from memory, which the statistics alone
    /// would wait for.
    pub fn in_pieces(
        &mut self,
        from: usize,
        to: usize,
        mut work: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        let mut from = from;
        while from < to {
            let end = self.piece.map_or(to, |piece| from.saturating_add(piece).min(to));
            work(from, end)?;
            self.look(end)?;
            from = end;
        }
        Ok(())
    }

    /// Collects the statistics of the entries before `to` that were not processed yet.
    fn look(&mut self, to: usize) -> Result<()> {
        if self.done < to {
            let from = std::mem::replace(&mut self.done, to);
            self.lists.iter_mut().try_for_each(|lists| lists.look(from, to))?;
            self.parts.iter_mut().try_for_each(|part| part.look(from, to))?;
        }
        Ok(())
    }

    fn begin_zone(&mut self) {
        self.lists.iter_mut().for_each(|lists| lists.lengths = Lists::NONE);
        for part in &mut self.parts {
            (part.bounds, part.missing) = (Bounds::NONE, 0);
        }
    }
}

/// Collects the statistics of columns while they are written.
#[derive(Default)]
pub struct Collecting {
    columns: Vec<Collected>,
    /// Number of entries.
    rows: usize,
    /// The ends of the zones.
    ends: Vec<usize>,
    /// For each part, the type of its numbers, where they are, and the statistics of its zones; None if the columns have
    /// other values there.
    found: Vec<Option<(Number, Place, Vec<Zone>)>>,
}

impl Collecting {
    /// Adds a part. Lists that several parts share are processed once, with the first of them.
    fn add(&mut self, part: &Measured, columns: &[Column], known: &mut HashMap<Vec<(usize, usize)>, Place>) {
        let Some(listed) = Listed::find(part, columns) else { return self.found.push(None) };
        let Some(own) = self.columns.get_mut(part.column) else { return self.found.push(None) };
        let mut keys = Vec::with_capacity(listed.levels.len());
        let mut sizes = Vec::with_capacity(listed.levels.len());
        for (level, lists) in listed.levels.iter().enumerate() {
            keys.push(lists.key());
            sizes.push(match lists {
                Level::Fixed(size) => Sizes::Same(i64::try_from(*size).unwrap_or(i64::MAX)),
                Level::Lists(_) => Sizes::Of(*known.entry(keys.clone()).or_insert_with(|| {
                    let levels = Arc::clone(&listed.levels);
                    own.lists.push(Lists { levels, level, lengths: Lists::NONE });
                    (part.column, own.lists.len() - 1)
                })),
            });
        }
        self.found.push(Some((listed.number, (part.column, own.parts.len()), Vec::new())));
        own.parts.push(Numbers { listed, sizes, bounds: Bounds::NONE, missing: 0 });
    }

    /// Returns the collected statistics of each column, of `count` columns.
    pub fn columns(&mut self, count: usize) -> Result<&mut [Collected]> {
        self.columns.room(count.saturating_sub(self.columns.len()))?;
        if self.columns.len() < count {
            self.columns.resize_with(count, Collected::default);
        }
        Ok(&mut self.columns)
    }

    /// Ends a zone before an entry: the cluster with the entries before it was written.
    pub fn end_zone(&mut self, to: usize) -> Result<()> {
        // What the writer did not process.
        let left = |one: &&mut Collected| one.done < to && !(one.parts.is_empty() && one.lists.is_empty());
        let mut left = grow::collected(self.columns.iter_mut().filter(left))?;
        // Waking threads takes longer than a column.
        if left.len() > 1 {
            left.into_par_iter().try_for_each(|one| one.look(to))?;
        } else {
            left.iter_mut().try_for_each(|one| one.look(to))?;
        }
        let from = self.ends.last().copied().unwrap_or_default();
        let columns = &self.columns;
        let lengths =
            |(column, place): Place| columns.get(column)?.lists.get(place).map(|lists| lists.lengths);
        for (_, (column, place), zones) in self.found.iter_mut().flatten() {
            let numbers = columns.get(*column).and_then(|one| one.parts.get(*place)).ok_or_else(outside)?;
            zones.push(numbers.zone(from, to, lengths)?);
        }
        self.columns.iter_mut().for_each(Collected::begin_zone);
        self.ends.push(to);
        Ok(())
    }
}

/// Collects the statistics of a table that is being written. Its zones are its clusters.
pub struct Collector {
    parts: Vec<Measured>,
    /// Type and statistics of the numbers of each part; None if it had other values.
    found: Vec<Option<(Option<Number>, Vec<Zone>)>>,
    /// The first entry of each zone, and the end.
    edges: Vec<u64>,
}

impl Collector {
    /// Collects statistics from the first entry of a table.
    pub fn new(parts: Vec<Measured>) -> Self {
        Self { found: parts.iter().map(|_| Some((None, Vec::new()))).collect(), parts, edges: vec![0] }
    }

    /// Number of entries in the zones.
    pub fn entries(&self) -> u64 {
        self.edges.last().copied().unwrap_or_default()
    }

    /// Prepares for the next entries.
    pub fn begin(&self, columns: &[Column]) -> Result<Collecting> {
        let rows = columns.first().map_or(0, Column::len);
        let mut made = Collecting { rows, ..Collecting::default() };
        made.columns(columns.len())?;
        let mut known = HashMap::new();
        self.parts.iter().for_each(|part| made.add(part, columns, &mut known));
        for column in &mut made.columns {
            let bytes: usize = column.parts.iter().map(|part| part.listed.bytes(0, rows)).sum();
            column.piece = PIECE.saturating_mul(rows).checked_div(bytes).map(|piece| piece.max(1));
        }
        Ok(made)
    }

    /// Adds the statistics of entries that were written; they continue the last cluster, or begin one.
    pub fn add(&mut self, mut call: Collecting, continues: bool) -> Result<()> {
        if call.rows == 0 {
            return Ok(());
        }
        if call.ends.last().copied().unwrap_or_default() < call.rows {
            call.end_zone(call.rows)?;
        }
        let first = self.entries();
        let joined = usize::from(continues && self.edges.len() > 1);
        self.edges.truncate(self.edges.len() - joined);
        self.edges.room(call.ends.len())?;
        self.edges.extend(call.ends.iter().map(|end| first + *end as u64));
        for (own, found) in self.found.iter_mut().zip(call.found) {
            let Some(((known, zones), (number, _, more))) = own.as_mut().zip(found) else {
                *own = None;
                continue;
            };
            if *known.get_or_insert(number) != number {
                *own = None;
                continue;
            }
            if let Some((last, next)) = zones.last_mut().zip(more.first()).filter(|_| joined > 0) {
                last.join(next);
            }
            zones.extend(more.get(joined..).unwrap_or_default());
        }
        Ok(())
    }

    /// Returns the first entry of each zone and the end, and the statistics of each part.
    pub fn zones(&self) -> (&[u64], Vec<Option<Zones>>) {
        let made = |(number, zones): &(Option<Number>, Vec<Zone>)| {
            let number = (*number)?;
            let bounds: Vec<_> = zones.iter().map(|zone| zone.bounds).collect();
            Some(Zones {
                number,
                extremes: Extremes::of(number, &bounds),
                counts: zones.iter().map(|zone| zone.count).collect(),
                missing: zones.iter().map(|zone| zone.missing).collect(),
                longest: zones.iter().map(|zone| zone.longest).collect(),
            })
        };
        (&self.edges, self.found.iter().map(|found| found.as_ref().and_then(made)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(column: usize) -> Measured {
        Measured { column, path: Vec::new(), like: column, lengths: false }
    }

    fn zones(parts: Vec<Measured>, columns: &[Column], ends: &[usize]) -> Result<Vec<Zones>> {
        let mut collector = Collector::new(parts);
        let mut call = collector.begin(columns)?;
        ends.iter().try_for_each(|end| call.end_zone(*end))?;
        collector.add(call, false)?;
        Ok(collector.zones().1.into_iter().flatten().collect())
    }

    fn column(number: Number, values: &[u8]) -> Column {
        Column::Number { number, values: Buffer::from_slice_ref(values) }
    }

    fn list(offsets: &[i64], values: Column) -> Column {
        Column::List { offsets: Buffer::from_slice_ref(offsets), values: Box::new(values) }
    }

    fn counted(count: i32) -> Column {
        column(Number::I32, &(0..count).flat_map(i32::to_ne_bytes).collect::<Vec<_>>())
    }

    fn found(number: Number, values: &[u8], ends: &[usize]) -> Result<Extremes> {
        Ok(zones(vec![part(0)], &[column(number, values)], ends)?.remove(0).extremes)
    }

    /// Returns the extremes of numbers, which are one zone.
    fn extremes(number: Number, values: &[u8]) -> Extremes {
        Extremes::of(number, &[Bounds::of(number, values)])
    }

    fn numbers(bytes: &[u8]) -> Vec<i32> {
        bytes.as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes)).collect()
    }

    #[test]
    fn each_zone_has_its_own_extremes_and_nan_is_none_of_them() {
        let mut values: Vec<f32> = (0..100).map(|i| (i * 37 % 100) as f32).collect();
        values.extend([f32::NAN, f32::NAN, f32::NEG_INFINITY, -0.0]);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let zones = found(Number::F32, &bytes, &[1, 100, 102, 102, 104]).unwrap();
        let numbers = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
        };
        assert_eq!(numbers(&zones.low), [0.0, 1.0, 0.0, 0.0, f32::NEG_INFINITY]);
        assert_eq!(numbers(&zones.high), [0.0, 99.0, 0.0, 0.0, 0.0]);
        assert!(numbers(&zones.high)[4].is_sign_negative());
        assert_eq!(zones.nan, [0, 0, 2, 0, 0]);
        assert!(found(Number::F32, &bytes, &[105]).is_err());
    }

    #[test]
    fn bounds_are_those_of_a_plain_loop() {
        let values: Vec<f64> = (0..100_000).map(|i| ((i * 7919) % 10_007) as f64 - 5_000.0).collect();
        let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        bytes[8 * 70_000..][..8].copy_from_slice(&(-f64::NAN).to_ne_bytes());
        bytes[8 * 70_001..][..8].copy_from_slice(&f64::NAN.to_ne_bytes());
        let edges = [0, 65_536, 65_536, 71_075, 80_000, values.len()];
        let zones = found(Number::F64, &bytes, &edges[1..]).unwrap();
        assert_eq!(zones.nan, [0, 0, 2, 0, 0]);
        for (zone, pair) in edges.windows(2).enumerate() {
            let own = &bytes[8 * pair[0]..8 * pair[1]];
            let numbers = own.as_chunks().0.iter().map(|cell| f64::from_ne_bytes(*cell));
            let (low, high) = numbers
                .filter(|number| !number.is_nan())
                .fold((0f64, 0f64), |(low, high), number| (low.min(number), high.max(number)));
            assert_eq!(zones.low[8 * zone..][..8], low.to_ne_bytes());
            assert_eq!(zones.high[8 * zone..][..8], high.to_ne_bytes());
            let one = extremes(Number::F64, own);
            assert_eq!((one.low, one.high), (low.to_ne_bytes().to_vec(), high.to_ne_bytes().to_vec()));
        }
    }

    #[test]
    fn whole_numbers_are_compared_by_their_sign() {
        let one = extremes(Number::I8, &[255, 1, 128]);
        assert_eq!((one.low, one.high), (vec![128], vec![1]));
        let one = extremes(Number::U8, &[255, 1, 128]);
        assert_eq!((one.low, one.high), (vec![1], vec![255]));
        let most = [u64::MAX; 40].map(u64::to_ne_bytes).concat();
        assert_eq!(extremes(Number::U64, &most).low, u64::MAX.to_ne_bytes());
        let least = [i64::MIN; 40].map(i64::to_ne_bytes).concat();
        assert_eq!(extremes(Number::I64, &least).high, i64::MIN.to_ne_bytes());
        for (number, size) in [(Number::I16, 2), (Number::U16, 2), (Number::I32, 4), (Number::U32, 4)] {
            let bytes: Vec<u8> = [vec![0; size], vec![255; size]].concat();
            let one = extremes(number, &bytes);
            let ends = (one.low[0], one.high[0]);
            let signed = matches!(number, Number::I16 | Number::I32);
            assert_eq!(ends, if signed { (255, 0) } else { (0, 255) }, "{number:?}");
        }
    }

    #[test]
    fn the_shortest_and_the_longest_list_of_each_zone_are_found() {
        let lengths = |offsets: &[i64], ends: &[usize]| {
            let items = vec![0u8; offsets.last().copied().unwrap_or(0).max(0) as usize];
            let lists = list(offsets, column(Number::U8, &items));
            let found = zones(vec![part(0), Measured { lengths: true, ..part(0) }], &[lists], ends)?;
            assert_eq!(found[1].longest, vec![0; ends.len()]);
            let starts = [0].iter().chain(ends);
            assert_eq!(
                found[1].counts,
                ends.iter().zip(starts).map(|(end, start)| (end - start) as i64).collect::<Vec<_>>()
            );
            let most = numbers(&found[1].extremes.high).into_iter().map(i64::from);
            assert_eq!(most.collect::<Vec<_>>(), found[0].longest);
            Ok::<_, Error>((numbers(&found[1].extremes.low), found[0].longest.clone()))
        };
        assert_eq!(lengths(&[0, 3, 3, 10, 11], &[2, 2, 4]).unwrap(), (vec![0, 0, 1], vec![3, 0, 7]));
        assert!(lengths(&[0, 3], &[2]).is_err());
        for place in 0..30 {
            let mut ends: Vec<i64> = (0..31).map(|i| 2 * i).collect();
            ends.iter_mut().skip(place + 1).for_each(|end| *end += 5);
            let (least, most) = lengths(&ends, &[place, place + 1, 30]).unwrap();
            assert_eq!((least[1], most[1]), (7, 7), "{place}");
            assert_eq!(lengths(&ends, &[30]).unwrap(), (vec![2], vec![7]), "{place}");
            if place > 0 {
                ends[place] = 1000;
                assert!(lengths(&ends, &[30]).is_err(), "{place}");
            }
        }
    }

    #[test]
    fn zones_of_lists_are_those_of_all_their_items() {
        let pairs = |values| Column::FixedList { length: 5, size: 2, values: Box::new(values) };
        let lists = |values| list(&[0, 2, 2, 5], values);
        let columns = [counted(3), lists(counted(5)), lists(pairs(counted(10)))];
        let all = || (0..3).map(part).collect::<Vec<_>>();
        let found = zones(all(), &columns, &[1, 3]).unwrap();
        let shown = found.iter().map(|one| {
            (numbers(&one.extremes.low), numbers(&one.extremes.high), one.counts.clone(), one.longest.clone())
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                (vec![0, 1], vec![0, 2], vec![1, 2], vec![0, 0]),
                (vec![0, 2], vec![1, 4], vec![2, 3], vec![2, 3]),
                (vec![0, 4], vec![3, 9], vec![4, 6], vec![2, 3]),
            ]
        );
        assert!(zones(all(), &columns, &[4]).is_err());
        let many = Column::FixedList { length: 1, size: usize::MAX, values: Box::new(counted(3)) };
        for wrong in [many, lists(counted(4)), list(&[i64::MIN, i64::MAX], counted(4))] {
            assert!(zones(vec![part(0)], &[wrong], &[1, 3]).is_err());
        }
    }

    #[test]
    fn statistics_that_are_collected_in_pieces_are_those_of_all() {
        let values: Vec<u8> =
            (0..600_000i64).flat_map(|i| ((i * 7919 % 600_011) as i32).to_ne_bytes()).collect();
        let offsets: Vec<i64> = (0..=100_000).map(|i| i * 6 - i % 2).collect();
        let lists = list(&offsets, column(Number::I32, &values));
        let columns = [column(Number::I32, &values[..400_000]), lists.clone(), lists];
        let parts = || vec![part(1), part(2), part(0), Measured { lengths: true, ..part(1) }];
        let ends = [1, 30_000, 99_999, 100_000];
        let whole = zones(parts(), &columns, &ends).unwrap();
        let mut collector = Collector::new(parts());
        let mut call = collector.begin(&columns).unwrap();
        let mut pieces = Vec::new();
        for (from, to) in [(0, 1), (1, 10), (10, 30_000), (30_000, 90_000)] {
            let columns = call.columns(4).unwrap();
            let push = |from, to| {
                pieces.push((from, to));
                Ok(())
            };
            columns[1].in_pieces(from, to, push).unwrap();
            let one = |begin, end| {
                assert_eq!((begin, end), (from, to), "a column without numbers is one piece");
                Ok(())
            };
            columns[3].in_pieces(from, to, one).unwrap();
            if ends.contains(&to) {
                call.end_zone(to).unwrap();
            }
        }
        assert!(pieces.len() > 5 && pieces.iter().all(|(from, to)| 24 * (to - from) <= 2 * PIECE));
        assert!(pieces.windows(2).all(|pair| pair[0].1 == pair[1].0) && pieces.last().unwrap().1 == 90_000);
        call.end_zone(99_999).unwrap();
        collector.add(call, false).unwrap();
        let (edges, found) = collector.zones();
        assert_eq!(edges, [0, 1, 30_000, 99_999, 100_000]);
        assert_eq!(numbers(&found[3].as_ref().unwrap().extremes.high), [5, 7, 7, 7]);
        for (one, same) in found.iter().flatten().zip(&whole) {
            assert_eq!(numbers(&one.extremes.low), numbers(&same.extremes.low));
            assert_eq!(numbers(&one.extremes.high), numbers(&same.extremes.high));
            assert_eq!((&one.counts, &one.longest), (&same.counts, &same.longest));
        }
    }

    #[test]
    fn entries_of_several_calls_that_share_a_cluster_are_one_zone() {
        let mut collector = Collector::new(vec![part(0), part(1), Measured { path: vec![1], ..part(2) }]);
        // A cluster ends after the third entry, and one after the fourth.
        for (number, continues) in [false, true, false, true].into_iter().enumerate() {
            let first = 10 * number as i32;
            let bytes: Vec<u8> = [first, first + 5].iter().flat_map(|value| value.to_ne_bytes()).collect();
            let index = [[1i64, -1], [-1, -1], [0, 1], [-1, 0]][number];
            let maybe = Column::Option {
                index: Buffer::from_slice_ref(index),
                values: Box::new(column(Number::I32, &bytes)),
            };
            let member = |name: &str, values| (name.to_owned(), values);
            let record = Column::Record {
                length: 2,
                name: String::new(),
                fields: vec![member("a", counted(2)), member("b", maybe)],
            };
            let last = if number == 2 { Number::U32 } else { Number::I32 };
            let columns =
                [list(&[0, 1, 2 + i64::from(number == 0)], counted(3)), column(last, &bytes), record];
            let mut call = collector.begin(&columns).unwrap();
            if number == 1 {
                call.end_zone(1).unwrap();
            }
            collector.add(call, continues).unwrap();
            // No entries change nothing.
            collector.add(collector.begin(&[]).unwrap(), true).unwrap();
        }
        let (edges, found) = collector.zones();
        assert_eq!(edges, [0, 3, 4, 8]);
        let (lists, maybe) = (found[0].as_ref().unwrap(), found[2].as_ref().unwrap());
        assert_eq!((&lists.longest, &lists.counts), (&vec![2, 1, 1], &vec![4, 1, 4]));
        assert!(found[1].is_none(), "the numbers have had two types");
        assert_eq!((&maybe.counts, &maybe.missing), (&vec![3, 1, 4], &vec![2, 1, 1]));
        assert_eq!(numbers(&maybe.extremes.low), [5, 0, 20]);
        assert_eq!(numbers(&maybe.extremes.high), [5, 0, 30]);
    }
}
