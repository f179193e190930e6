//! Smallest and largest numbers of zones, and lengths of their longest lists.
#![allow(clippy::inline_always, reason = "so that they are compiled for the processor of their caller")]

use super::Number;
use super::wide::{self, Wide};
use crate::error::{Error, Result};
use arrow_buffer::{Buffer, ScalarBuffer};
use rayon::prelude::*;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
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

/// Returns the extremes of numbers, which are one zone. Bools are treated as bytes.
pub fn extremes(number: Number, values: &[u8]) -> Extremes {
    Extremes::of(number, &[Bounds::of(number, values)])
}

fn outside() -> Error {
    Error::argument("a zone ends outside of its column")
}

/// The lengths of the shortest and the longest of some lists with these offsets.
struct Lengths<'a> {
    offsets: &'a [i64],
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
        let mut look = |starts: &[i64], ends: &[i64]| {
            for (((least, most), start), end) in least.iter_mut().zip(&mut most).zip(starts).zip(ends) {
                let length = end.wrapping_sub(*start);
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

/// A level of lists around numbers.
pub enum Level {
    /// Lists with these offsets.
    Lists(ScalarBuffer<i64>),
    /// Lists of this size.
    Fixed(usize),
}

impl Level {
    /// The item with which a list begins, given by its place.
    fn first(&self, list: usize) -> Option<usize> {
        match self {
            Self::Fixed(size) => list.checked_mul(*size),
            Self::Lists(offsets) => offsets.get(list).and_then(|offset| usize::try_from(*offset).ok()),
        }
    }
}

/// Numbers within levels of lists.
pub struct Listed {
    /// The levels, the outermost first.
    pub levels: Arc<[Level]>,
    /// Type of the numbers.
    pub number: Number,
    /// The numbers. None for the lengths of the lists of the innermost level, as counters hold them: the outer levels
    /// are then those around these numbers.
    pub values: Option<Buffer>,
}

impl Listed {
    /// The levels around the numbers.
    fn around(&self) -> &[Level] {
        let inner = usize::from(self.values.is_none());
        self.levels.get(..self.levels.len().saturating_sub(inner)).unwrap_or_default()
    }
}

/// Statistics of the numbers in all lists of each zone.
#[derive(Debug)]
pub struct Zones {
    /// Smallest and largest numbers, and number of NaN.
    pub extremes: Extremes,
    /// Number of numbers.
    pub counts: Vec<i64>,
    /// Length of the longest list, 0 without lists.
    pub longest: Vec<i64>,
}

/// Lists whose lengths are collected. Columns with the same offsets share them.
struct Lists {
    levels: Arc<[Level]>,
    /// The place of the lists among the levels.
    level: usize,
    /// The lengths of the shortest and the longest list of each zone.
    lengths: Vec<(i64, i64)>,
}

impl Lists {
    /// Processes the lists of some entries, all of one zone.
    fn look(&mut self, zone: usize, from: usize, to: usize) -> Result<()> {
        let outer = self.levels.get(..self.level).unwrap_or_default();
        let (Some(from), Some(to), Some(Level::Lists(offsets))) =
            (first_in(outer, from), first_in(outer, to), self.levels.get(self.level))
        else {
            return Err(outside());
        };
        let offsets = offsets.get(from..=to).ok_or_else(outside)?;
        let mut found = (i64::MAX, 0);
        wide::run(Lengths { offsets, found: &mut found });
        // Offsets that fall are those of no lists.
        let known = self.lengths.get_mut(zone).filter(|_| found.0 >= 0).ok_or_else(outside)?;
        *known = (found.0.min(known.0), found.1.max(known.1));
        Ok(())
    }
}

/// The first item of an entry within levels of lists.
fn first_in(levels: &[Level], entry: usize) -> Option<usize> {
    levels.iter().try_fold(entry, |place, level| level.first(place))
}

/// The lengths of lists: the same for all, or those of some `Lists`, given by their holder and their place in it.
enum Sizes {
    Same(i64),
    Of(Holder, usize),
}

/// The column that collects, None for numbers that are in no column.
type Holder = Option<usize>;

/// Numbers whose statistics are collected.
struct Numbers {
    listed: Listed,
    /// The first number of each zone, and the end.
    inside: Vec<i64>,
    /// The lengths of the lists of each level.
    sizes: Vec<Sizes>,
    found: Vec<Bounds>,
}

impl Numbers {
    /// Processes the numbers of some entries, all of one zone.
    fn look(&mut self, zone: usize, from: usize, to: usize) -> Result<()> {
        let Some(values) = &self.listed.values else { return Ok(()) };
        let size = self.listed.number.size();
        let bytes = first_in(&self.listed.levels, from)
            .zip(first_in(&self.listed.levels, to))
            .and_then(|(from, to)| values.get(from.checked_mul(size)?..to.checked_mul(size)?));
        let found = Bounds::of(self.listed.number, bytes.ok_or_else(outside)?);
        self.found.get_mut(zone).ok_or_else(outside)?.join(found);
        Ok(())
    }

    /// Returns the statistics; `held` finds those that have collected the lengths of lists.
    fn zones<'a>(&self, held: impl Fn(Holder) -> Option<&'a Collected>) -> Result<Zones> {
        let mut found = self.found.clone();
        let mut longest = vec![0; found.len()];
        let around = self.listed.around().len();
        for (level, sizes) in self.sizes.iter().enumerate() {
            let lengths = match sizes {
                Sizes::Same(size) => &vec![(*size, *size); found.len()],
                Sizes::Of(holder, place) => {
                    let lists = held(*holder).and_then(|held| held.lists.get(*place));
                    &lists.ok_or_else(outside)?.lengths
                }
            };
            if level < around {
                longest.iter_mut().zip(lengths).for_each(|(most, (_, own))| *most = (*own).max(*most));
            } else {
                let bounds =
                    |(low, high): &(i64, i64)| Bounds { low: (*low).into(), high: (*high).into(), nan: 0 };
                found = lengths.iter().map(bounds).collect();
            }
        }
        let ends = self.inside.iter().skip(1);
        Ok(Zones {
            extremes: Extremes::of(self.listed.number, &found),
            counts: ends.zip(&self.inside).map(|(end, start)| end - start).collect(),
            longest,
        })
    }
}

/// Collects the statistics of the numbers in a column, entry by entry.
#[derive(Default)]
pub struct Collected {
    parts: Vec<Numbers>,
    lists: Vec<Lists>,
    edges: Arc<[i64]>,
    /// Number of entries that were processed.
    done: usize,
}

impl Collected {
    /// Collects the statistics of entries in small pieces, and does `work` with each of these after it, while their
    /// numbers are in the cache of the processor. Without numbers, all entries are one piece.
    pub fn in_pieces(
        &mut self,
        from: usize,
        to: usize,
        mut work: impl FnMut(usize, usize) -> Result<()>,
    ) -> Result<()> {
        let numbers = self.parts.iter().filter_map(|part| part.listed.values.as_ref()).map(Buffer::len);
        let bytes: usize = numbers.sum();
        let entries = self.edges.last().map_or(0, |last| usize::try_from(*last).unwrap_or_default());
        let piece = PIECE.saturating_mul(entries).checked_div(bytes).map_or(usize::MAX, |piece| piece.max(1));
        let mut from = from;
        while from < to {
            let end = from.saturating_add(piece).min(to);
            self.look(end)?;
            work(from, end)?;
            from = end;
        }
        Ok(())
    }

    /// Collects the statistics of the entries before `to` that were not processed yet.
    fn look(&mut self, to: usize) -> Result<()> {
        let mut zone = self.edges.partition_point(|edge| *edge <= self.done as i64).max(1) - 1;
        while self.done < to && !(self.parts.is_empty() && self.lists.is_empty()) {
            let end = self.edges.get(zone + 1).and_then(|end| usize::try_from(*end).ok());
            let end = end.ok_or_else(outside)?.min(to);
            self.lists.iter_mut().try_for_each(|lists| lists.look(zone, self.done, end))?;
            self.parts.iter_mut().try_for_each(|part| part.look(zone, self.done, end))?;
            self.done = end;
            zone += 1;
        }
        Ok(())
    }
}

/// Places of lists that are collected and the first item of each zone, by their offsets and the first list of each zone.
type Known = HashMap<(usize, usize, Vec<i64>), (Holder, usize, Vec<i64>)>;

/// Collects the statistics of columns in zones between edges while the columns are written.
#[derive(Default)]
pub struct Collector {
    columns: Vec<Collected>,
    /// Numbers that are in no column.
    others: Collected,
    edges: Arc<[i64]>,
    /// For each given part, its holder and its place there.
    order: Vec<(Holder, usize)>,
}

impl Collector {
    /// Prepares for zones between `edges`, which begin with 0. Each part belongs to the column with this place, or to
    /// none that is written.
    pub fn new(parts: Vec<(Option<usize>, Listed)>, edges: &[i64]) -> Result<Self> {
        if edges.first() != Some(&0) || !edges.is_sorted() {
            return Err(outside());
        }
        let edges: Arc<[i64]> = edges.into();
        let others = Collected { edges: Arc::clone(&edges), ..Collected::default() };
        let mut made = Self { others, edges, ..Self::default() };
        let mut known = Known::new();
        for (holder, listed) in parts {
            made.add(holder, listed, &mut known)?;
        }
        Ok(made)
    }

    /// Adds a part. Lists that several parts share are processed once, with the first of them.
    fn add(&mut self, holder: Holder, listed: Listed, known: &mut Known) -> Result<()> {
        let edges = Arc::clone(&self.edges);
        let zones = edges.len().saturating_sub(1);
        let own = match holder {
            Some(column) => self.columns(column + 1).get_mut(column).ok_or_else(outside)?,
            None => &mut self.others,
        };
        let mut inside = edges.to_vec();
        let mut sizes = Vec::with_capacity(listed.levels.len());
        for (level, lists) in listed.levels.iter().enumerate() {
            let mut ends = inside.clone();
            match lists {
                Level::Fixed(size) => {
                    let size = i64::try_from(*size).map_err(|_| outside())?;
                    for edge in &mut ends {
                        *edge = edge.checked_mul(size).ok_or_else(outside)?;
                    }
                    sizes.push(Sizes::Same(size));
                }
                Level::Lists(offsets) => {
                    let found = known.entry((offsets.as_ptr().addr(), offsets.len(), ends));
                    let place;
                    (place, ends) = match found {
                        Entry::Occupied(found) => {
                            (Sizes::Of(found.get().0, found.get().1), found.get().2.clone())
                        }
                        Entry::Vacant(found) => {
                            let ends = ends_at(offsets, &found.key().2)?;
                            let levels = Arc::clone(&listed.levels);
                            own.lists.push(Lists { levels, level, lengths: vec![(i64::MAX, 0); zones] });
                            let place = own.lists.len() - 1;
                            found.insert((holder, place, ends.clone()));
                            (Sizes::Of(holder, place), ends)
                        }
                    };
                    sizes.push(place);
                }
            }
            if level < listed.around().len() {
                inside = ends;
            }
        }
        let count = listed.values.as_ref().map(|values| (values.len() / listed.number.size()) as i64);
        let ends = inside.last().copied().unwrap_or_default();
        if !inside.is_sorted()
            || inside.first().is_some_and(|first| *first < 0)
            || count.is_some_and(|count| ends > count)
        {
            return Err(outside());
        }
        let place = own.parts.len();
        own.parts.push(Numbers { listed, inside, sizes, found: vec![Bounds::NONE; zones] });
        self.order.push((holder, place));
        Ok(())
    }

    /// Returns the collected statistics of each column, of `count` columns.
    pub fn columns(&mut self, count: usize) -> &mut [Collected] {
        if self.columns.len() < count {
            let more = || Collected { edges: Arc::clone(&self.edges), ..Collected::default() };
            self.columns.resize_with(count, more);
        }
        &mut self.columns
    }

    /// Collects what the writer did not process, and returns the statistics of each given part.
    pub fn finish(mut self) -> Result<Vec<Zones>> {
        let end = self.edges.last().map_or(0, |end| usize::try_from(*end).unwrap_or_default());
        let left = |one: &&mut Collected| one.done < end && !(one.parts.is_empty() && one.lists.is_empty());
        let mut left: Vec<_> = self.columns.iter_mut().chain([&mut self.others]).filter(left).collect();
        // Waking threads takes longer than a column.
        if left.len() > 1 {
            left.into_par_iter().try_for_each(|one| one.look(end))?;
        } else {
            left.iter_mut().try_for_each(|one| one.look(end))?;
        }
        let held = |holder: Holder| match holder {
            Some(column) => self.columns.get(column),
            None => Some(&self.others),
        };
        let part = |(holder, place): &(Holder, usize)| held(*holder)?.parts.get(*place);
        self.order.iter().map(|place| part(place).ok_or_else(outside)?.zones(held)).collect()
    }
}

/// Returns the offsets at some edges.
fn ends_at(offsets: &[i64], edges: &[i64]) -> Result<Vec<i64>> {
    let end = |&edge: &i64| offsets.get(usize::try_from(edge).ok()?).copied();
    edges.iter().map(|edge| end(edge).ok_or_else(outside)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones(columns: Vec<Listed>, edges: &[i64]) -> Result<Vec<Zones>> {
        Collector::new(columns.into_iter().map(|column| (None, column)).collect(), edges)?.finish()
    }

    fn listed(number: Number, values: &[u8], levels: Vec<Level>) -> Listed {
        Listed { levels: levels.into(), number, values: Some(Buffer::from_slice_ref(values)) }
    }

    fn found(number: Number, values: &[u8], edges: &[i64]) -> Result<Extremes> {
        let mut found = zones(vec![listed(number, values, Vec::new())], edges)?;
        Ok(found.remove(0).extremes)
    }

    fn numbers(bytes: &[u8]) -> Vec<i32> {
        bytes.as_chunks().0.iter().map(|bytes| i32::from_ne_bytes(*bytes)).collect()
    }

    #[test]
    fn each_zone_has_its_own_extremes_and_nan_is_none_of_them() {
        let mut values: Vec<f32> = (0..100).map(|i| (i * 37 % 100) as f32).collect();
        values.extend([f32::NAN, f32::NAN, f32::NEG_INFINITY, -0.0]);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let zones = found(Number::F32, &bytes, &[0, 1, 100, 102, 102, 104]).unwrap();
        let numbers = |bytes: &[u8]| -> Vec<f32> {
            bytes.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
        };
        assert_eq!(numbers(&zones.low), [0.0, 1.0, 0.0, 0.0, f32::NEG_INFINITY]);
        assert_eq!(numbers(&zones.high), [0.0, 99.0, 0.0, 0.0, 0.0]);
        assert!(numbers(&zones.high)[4].is_sign_negative());
        assert_eq!(zones.nan, [0, 0, 2, 0, 0]);
        for wrong in [&[0, 105][..], &[-1, 5], &[0, 5, 4], &[1, 5]] {
            assert!(found(Number::F32, &bytes, wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn bounds_are_those_of_a_plain_loop() {
        let values: Vec<f64> = (0..100_000).map(|i| ((i * 7919) % 10_007) as f64 - 5_000.0).collect();
        let mut bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        bytes[8 * 70_000..][..8].copy_from_slice(&(-f64::NAN).to_ne_bytes());
        bytes[8 * 70_001..][..8].copy_from_slice(&f64::NAN.to_ne_bytes());
        let edges = [0, 65_536, 65_536, 71_075, 80_000, values.len() as i64];
        let zones = found(Number::F64, &bytes, &edges).unwrap();
        assert_eq!(zones.nan, [0, 0, 2, 0, 0]);
        for (zone, pair) in edges.windows(2).enumerate() {
            let own = &bytes[8 * pair[0] as usize..8 * pair[1] as usize];
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
        let lengths = |offsets: &[i64], edges: &[i64]| {
            let lists = || Arc::from([Level::Lists(offsets.to_vec().into())]);
            let values =
                Some(Buffer::from_vec(vec![0u8; offsets.last().copied().unwrap_or(0).max(0) as usize]));
            let items = Listed { levels: lists(), number: Number::U8, values };
            let counter = Listed { levels: lists(), number: Number::I32, values: None };
            let found = zones(vec![items, counter], edges)?;
            assert_eq!(found[1].longest, vec![0; edges.len() - 1]);
            assert_eq!(found[1].counts, edges.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>());
            let most = numbers(&found[1].extremes.high).into_iter().map(i64::from);
            assert_eq!(most.collect::<Vec<_>>(), found[0].longest);
            Ok::<_, Error>((numbers(&found[1].extremes.low), found[0].longest.clone()))
        };
        assert_eq!(lengths(&[0, 3, 3, 10, 11], &[0, 2, 2, 4]).unwrap(), (vec![0, 0, 1], vec![3, 0, 7]));
        assert!(lengths(&[0, 3], &[0, 2]).is_err());
        for place in 0..30 {
            let mut ends: Vec<i64> = (0..31).map(|i| 2 * i).collect();
            ends.iter_mut().skip(place + 1).for_each(|end| *end += 5);
            let (least, most) = lengths(&ends, &[0, place as i64, place as i64 + 1, 30]).unwrap();
            assert_eq!((least[1], most[1]), (7, 7), "{place}");
            assert_eq!(lengths(&ends, &[0, 30]).unwrap(), (vec![2], vec![7]), "{place}");
            if place > 0 {
                ends[place] = 1000;
                assert!(lengths(&ends, &[0, 30]).is_err(), "{place}");
            }
        }
    }

    #[test]
    fn zones_of_lists_are_those_of_all_their_items() {
        let offsets = ScalarBuffer::from(vec![0i64, 2, 2, 5]);
        let column = |levels: Vec<Level>, count: i32| Listed {
            levels: levels.into(),
            number: Number::I32,
            values: Some(Buffer::from_vec((0..count).collect::<Vec<_>>())),
        };
        let lists = || Level::Lists(offsets.clone());
        let columns =
            || vec![column(vec![], 3), column(vec![lists()], 5), column(vec![lists(), Level::Fixed(2)], 10)];
        let found = zones(columns(), &[0, 1, 3]).unwrap();
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
        assert!(zones(columns(), &[0, 4]).is_err() && zones(columns(), &[-1, 2]).is_err());
        assert!(zones(vec![column(vec![Level::Fixed(usize::MAX)], 3)], &[0, 1]).is_err());
        assert!(zones(vec![column(vec![lists()], 4)], &[0, 3]).is_err());
        let wrong = Level::Lists(vec![i64::MIN, i64::MAX].into());
        assert!(zones(vec![column(vec![wrong], 4)], &[0, 1]).is_err());
    }

    #[test]
    fn statistics_that_are_collected_in_pieces_are_those_of_all() {
        let values: Vec<u8> =
            (0..600_000i64).flat_map(|i| ((i * 7919 % 600_011) as i32).to_ne_bytes()).collect();
        let offsets: Vec<i64> = (0..=100_000).map(|i| i * 6 - i % 2).collect();
        let offsets = ScalarBuffer::from(offsets);
        let lists = || listed(Number::I32, &values, vec![Level::Lists(offsets.clone())]);
        let plain = || listed(Number::I32, &values, Vec::new());
        let edges = [0, 1, 30_000, 99_999, 100_000];
        let whole = zones(vec![lists(), plain()], &edges).unwrap();
        let levels = || Arc::from([Level::Lists(offsets.clone())]);
        let counter = Listed { levels: levels(), number: Number::I32, values: None };
        let shared = listed(Number::I32, &values, vec![Level::Lists(offsets.clone())]);
        let mut collector = Collector::new(
            vec![(Some(1), lists()), (None, shared), (Some(0), plain()), (None, counter)],
            &edges,
        )
        .unwrap();
        let mut pieces = Vec::new();
        for (from, to) in [(0, 10), (10, 70_000), (70_000, 90_000)] {
            let columns = collector.columns(3);
            assert_eq!(columns.len(), 3);
            let push = |from, to| {
                pieces.push((from, to));
                Ok(())
            };
            columns[1].in_pieces(from, to, push).unwrap();
            columns[2]
                .in_pieces(from, to, |begin, end| {
                    assert_eq!((begin, end), (from, to), "a column without numbers is one piece");
                    Ok(())
                })
                .unwrap();
        }
        assert!(pieces.len() > 5 && pieces.iter().all(|(from, to)| 24 * (to - from) <= 2 * PIECE));
        assert!(pieces.windows(2).all(|pair| pair[0].1 == pair[1].0) && pieces.last().unwrap().1 == 90_000);
        let found = collector.finish().unwrap();
        assert_eq!(numbers(&found[3].extremes.high), [5, 7, 7, 7]);
        for (one, same) in found.iter().zip([&whole[0], &whole[0], &whole[1]]) {
            assert_eq!(numbers(&one.extremes.low), numbers(&same.extremes.low));
            assert_eq!(numbers(&one.extremes.high), numbers(&same.extremes.high));
            assert_eq!((&one.counts, &one.longest), (&same.counts, &same.longest));
        }
    }
}
