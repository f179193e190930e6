//! Histograms filled with computed values.

use super::value::{Cells, Element, Numbers, Value, broadcast, each, pairs, same_lists};
use crate::array::wide::{self, Wide};
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::rc::Rc;

/// The bins of one axis, as in Boost.Histogram.
#[derive(Debug, Clone, PartialEq)]
pub enum Edges {
    /// Bins of equal width.
    Regular {
        /// Number of bins.
        bins: usize,
        /// Lower edge of the first bin.
        low: f64,
        /// Upper edge of the last bin.
        high: f64,
    },
    /// Bins between edges.
    Variable(Vec<f64>),
    /// One bin for each whole number.
    Integer {
        /// Number of bins.
        bins: usize,
        /// The first number.
        first: i64,
    },
    /// One bin for each of the listed whole numbers.
    Category(Vec<i64>),
}

impl Edges {
    /// Number of bins.
    pub fn bins(&self) -> usize {
        match self {
            Self::Regular { bins, .. } | Self::Integer { bins, .. } => *bins,
            Self::Variable(edges) => edges.len().saturating_sub(1),
            Self::Category(known) => known.len(),
        }
    }
}

/// One axis of a histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Its bins.
    pub edges: Edges,
    /// Whether there is an underflow bin.
    pub under: bool,
    /// Whether there is an overflow bin, which also counts NaN.
    pub over: bool,
}

impl Axis {
    /// Number of bins including underflow and overflow.
    pub fn extent(&self) -> usize {
        self.edges.bins().saturating_add(usize::from(self.under)).saturating_add(usize::from(self.over))
    }
    /// Adds the bin of each value, times a stride, to its bin index.
    #[allow(
        clippy::float_cmp,
        clippy::neg_cmp_op_on_partial_ord,
        reason = "NaN goes where Boost.Histogram puts it"
    )]
    fn add(&self, numbers: &Numbers<'_>, stride: u32, places: &mut [u32]) -> Result<()> {
        let (bins, under, over) = (self.edges.bins() as i64, i64::from(self.under), self.over);
        let put = |bin: i64, place: &mut u32| {
            if (bin < 0 && under == 0) || (bin >= bins && !over) {
                *place |= NOWHERE;
            } else {
                *place += (bin + under) as u32 * stride;
            }
        };
        match &self.edges {
            &Edges::Regular { bins: n, low, high } if self.under && over => {
                each!(numbers, cells => wide::run(Evenly { cells, bins: n as i32, low, high, stride, places }));
            }
            &Edges::Regular { bins: n, low, high } => {
                let (width, size) = (high - low, n as f64);
                each!(numbers, cells => for (&cell, place) in cells.iter().zip(places) {
                    let value = Into::<Double>::into(cell).0;
                    let at = (value - low) / width;
                    let bin = if at < 1.0 {
                        if at >= 0.0 { (at * size) as i64 } else { -1 }
                    } else if !over && value == high { bins - 1 } else { bins };
                    put(bin, place);
                });
            }
            Edges::Variable(edges) => {
                each!(numbers, cells => for (&cell, place) in cells.iter().zip(places) {
                    let value = Into::<Double>::into(cell).0;
                    let mut bin = edges.partition_point(|&edge| !(value < edge)) as i64 - 1;
                    if !over && edges.last() == Some(&value) {
                        bin -= 1;
                    }
                    put(bin, place);
                });
            }
            Edges::Integer { .. } | Edges::Category(_)
                if matches!(numbers, Numbers::F32(_) | Numbers::F64(_) | Numbers::U64(_)) =>
            {
                return Err(Error::unsupported(
                    "an integer axis cannot be filled with floating-point numbers or uint64",
                ));
            }
            Edges::Category(known) => {
                for (&cell, place) in i64::of(numbers).iter().zip(places) {
                    let found = known.iter().position(|one| *one == cell);
                    put(found.map_or(bins, |bin| bin as i64), place);
                }
            }
            &Edges::Integer { first, .. } => {
                for (&cell, place) in i64::of(numbers).iter().zip(places) {
                    put(cell.saturating_sub(first).clamp(-1, bins), place);
                }
            }
        }
        Ok(())
    }
}

/// Adds bins of equal width, times a stride, to bin indices.
struct Evenly<'v, T> {
    cells: &'v [T],
    bins: i32,
    low: f64,
    high: f64,
    stride: u32,
    places: &'v mut [u32],
}

impl<T: Copy + Into<Double>> Wide for Evenly<'_, T> {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "so that it is compiled for the processor of its caller")]
    fn work(self) {
        // Without jumps, so that several values are computed at once.
        let (width, size) = (self.high - self.low, f64::from(self.bins));
        for (&cell, place) in self.cells.iter().zip(self.places) {
            let at = (Into::<Double>::into(cell).0 - self.low) / width;
            let outside = if at < 0.0 { -1 } else { self.bins };
            let bin = if (0.0..1.0).contains(&at) { (at * size) as i32 } else { outside };
            *place += (bin + 1) as u32 * self.stride;
        }
    }
}

/// A number as a double.
struct Double(f64);

macro_rules! doubles {
    ($($type:ty),*) => {$(
        impl From<$type> for Double {
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one conversion for all types")]
            fn from(value: $type) -> Self { Self(value as f64) }
        }
    )*};
}
doubles!(i8, u8, i16, u16, i32, u32, i64, u64, f32, f64);

/// Marks a value without a bin. The bins of further axes can be added to it without clearing the mark.
const NOWHERE: u32 = 1 << 31;
/// Maximum number of bins in a histogram.
const MOST_BINS: usize = 1 << 28;

/// The quantities stored for each bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// The sum of weights.
    Sum,
    /// The same of whole entries: a selection or a weight with lists is an error.
    Entries,
    /// The sum of weights and the sum of squared weights.
    Weight,
    /// The count, the mean and the sum of squared deviations of a sample.
    Mean,
}

/// Maximum number of bins for which counting uses separate tables.
const MOST_COUNTED: usize = 1 << 12;

/// Definition of a histogram to fill; its values are nodes of a program.
#[derive(Debug, Clone)]
pub struct Fill {
    /// Axes with the nodes of their values.
    pub axes: Vec<(Axis, usize)>,
    /// Node of the selection, if any.
    pub select: Option<usize>,
    /// Node of the weight, if any.
    pub weight: Option<usize>,
    /// Node of the sample, if any.
    pub sample: Option<usize>,
    /// Stored quantities.
    pub storage: Storage,
}

/// The histograms to fill, with the axes that they share.
pub struct Fills<'f> {
    fills: &'f [Fill],
    /// For each fill with a single axis, the index of that axis among the distinct axes.
    axes: Vec<usize>,
}

impl<'f> Fills<'f> {
    /// Creates it for a list of fills.
    pub fn of(fills: &'f [Fill]) -> Self {
        let mut known: Vec<&Axis> = Vec::new();
        let mut axes = Vec::with_capacity(fills.len());
        for fill in fills {
            let Some((axis, _)) = fill.axes.first() else {
                axes.push(usize::MAX);
                continue;
            };
            let found = known.iter().position(|other| *other == axis);
            axes.push(found.unwrap_or(known.len()));
            if found.is_none() {
                known.push(axis);
            }
        }
        Self { fills, axes }
    }

    /// Returns empty bins for each fill.
    pub fn empty(&self) -> Result<Vec<Bins>> {
        self.fills.iter().map(Bins::new).collect()
    }

    /// Fills in values of a chunk of `length` entries; `of` returns the values of a node.
    pub fn fill<'v, 'a: 'v>(
        &self,
        all: &mut [Bins],
        length: usize,
        of: impl Fn(usize) -> Result<&'v Value<'a>>,
    ) -> Result<()> {
        let mut shared = Shared::default();
        for ((fill, &axis), bins) in self.fills.iter().zip(&self.axes).zip(all) {
            if !shared.fill(bins, fill, axis, &of)? {
                bins.fill(fill, length, &of)?;
            }
        }
        Ok(())
    }
}

/// Values shared by the histograms of one chunk: bin indices and selected values.
#[derive(Default)]
struct Shared {
    /// Bin indices, by axis and node.
    bins: HashMap<(usize, usize), Rc<Vec<u32>>>,
    /// Selected places, by node. For the items of selected lists, the key includes the address of the offsets.
    rows: HashMap<(usize, usize), Rc<Vec<u32>>>,
}

/// Returns numbers of entries, or of the items of lists with the returned offsets; `None` for other values.
fn flat<'v, 'a>(value: &'v Value<'a>) -> Option<(Option<&'v Cells<'a, i64>>, &'v Numbers<'a>)> {
    match value {
        Value::Numbers(numbers, None) => Some((None, numbers)),
        Value::Lists(offsets, items) => match &**items {
            Value::Numbers(numbers, None) => Some((Some(offsets), numbers)),
            _ => None,
        },
        _ => None,
    }
}

fn alike(one: Option<&Cells<'_, i64>>, other: Option<&Cells<'_, i64>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => same_lists(one, other),
        (None, None) => true,
        _ => false,
    }
}

impl Shared {
    /// Fills a histogram with a single axis and returns true. Returns false if its values are not of this simple form.
    fn fill<'v, 'a: 'v>(
        &mut self,
        bins: &mut Bins,
        fill: &Fill,
        number: usize,
        of: &impl Fn(usize) -> Result<&'v Value<'a>>,
    ) -> Result<bool> {
        let ([(axis, node)], None) = (fill.axes.as_slice(), fill.sample) else { return Ok(false) };
        let Some((lists, numbers)) = flat(of(*node)?) else { return Ok(false) };
        let length = numbers.len();
        if length >= NOWHERE as usize || lists.is_none() && length == 0 {
            return Ok(false);
        }
        let select = match fill.select {
            None => None,
            Some(select) => match flat(of(select)?) {
                Some((within, truths)) if alike(within, lists) && truths.len() == length => {
                    Some((select, None, truths))
                }
                Some((None, truths)) if lists.is_some_and(|ends| ends.len() == truths.len() + 1) => {
                    Some((select, lists, truths))
                }
                _ => return Ok(false),
            },
        };
        let weights = match fill.weight {
            None => None,
            Some(weight) => match flat(of(weight)?) {
                Some((within, weights)) if alike(within, lists) && weights.len() == length => {
                    Some(f64::of(weights))
                }
                _ => return Ok(false),
            },
        };
        let places = if let Some(known) = self.bins.get(&(number, *node)) {
            known.clone()
        } else {
            let mut places = vec![0u32; length];
            axis.add(numbers, 1, &mut places)?;
            let places = Rc::new(places);
            self.bins.insert((number, *node), places.clone());
            places
        };
        let Some((select, spread, truths)) = select else {
            bins.put_in(&places, weights.as_deref());
            return Ok(true);
        };
        let key = (select, spread.map_or(0, |offsets| offsets.as_ptr() as usize));
        let rows =
            self.rows.entry(key).or_insert_with(|| Rc::new(selected(&truths.truths(), spread))).clone();
        let at = |row: u32| places.get(row as usize).copied().unwrap_or(NOWHERE);
        let chosen: Vec<u32> = rows.iter().map(|&row| at(row)).collect();
        let weights = weights.map(|weights| {
            rows.iter().map(|&row| weights.get(row as usize).copied().unwrap_or(0.0)).collect::<Vec<f64>>()
        });
        bins.put_in(&chosen, weights.as_deref());
        Ok(true)
    }
}

/// Returns the places of true values; with offsets, the places of the items in selected lists.
fn selected(truths: &[u8], spread: Option<&Cells<'_, i64>>) -> Vec<u32> {
    if let Some(offsets) = spread {
        let base = offsets.first().copied().unwrap_or(0);
        let chosen = pairs(offsets).zip(truths).filter(|(_, truth)| **truth != 0);
        return chosen.flat_map(|((start, stop), _)| (start - base) as u32..(stop - base) as u32).collect();
    }
    let mut rows = vec![0u32; truths.len()];
    let mut found = 0;
    for (row, &truth) in (0u32..).zip(truths) {
        if let Some(slot) = rows.get_mut(found) {
            *slot = row;
        }
        found += usize::from(truth != 0);
    }
    rows.truncate(found);
    rows
}

/// The bins of a histogram; the last axis varies fastest.
#[derive(Debug, Clone)]
pub struct Bins {
    storage: Storage,
    /// Sums of weights, or sample counts.
    pub sums: Vec<f64>,
    /// Sums of squared weights, or means.
    pub squares: Vec<f64>,
    /// Sums of squared deviations.
    pub deviations: Vec<f64>,
}

impl Bins {
    /// Creates empty bins.
    pub fn new(fill: &Fill) -> Result<Self> {
        let sizes = fill.axes.iter().map(|(axis, _)| axis.extent());
        let bins = sizes.fold(1usize, usize::saturating_mul);
        if bins > MOST_BINS {
            return Err(Error::limit(format!("the histogram has {bins} bins; the limit is {MOST_BINS}")));
        }
        let none = if matches!(fill.storage, Storage::Sum | Storage::Entries) { 0 } else { bins };
        let deviations = if fill.storage == Storage::Mean { bins } else { 0 };
        Ok(Self {
            storage: fill.storage,
            sums: vec![0.0; bins],
            squares: vec![0.0; none],
            deviations: vec![0.0; deviations],
        })
    }

    /// Adds bins that were filled with other entries.
    pub fn join(&mut self, other: &Self) {
        if self.storage == Storage::Mean {
            let mine = self.sums.iter_mut().zip(&mut self.squares).zip(&mut self.deviations);
            let theirs = other.sums.iter().zip(&other.squares).zip(&other.deviations);
            for (((n, mean), deviation), ((&m, &more), &others)) in mine.zip(theirs) {
                if m > 0.0 {
                    let (before, old) = (*n, *mean);
                    *n += m;
                    *mean = (before * old + m * more) / *n;
                    *deviation += others + before * (*mean - old).powi(2) + m * (*mean - more).powi(2);
                }
            }
            return;
        }
        self.sums.iter_mut().zip(&other.sums).for_each(|(mine, more)| *mine += more);
        self.squares.iter_mut().zip(&other.squares).for_each(|(mine, more)| *mine += more);
    }

    /// Fills in values of a chunk of `length` entries; `of` returns the values of a node.
    fn fill<'v, 'a: 'v>(
        &mut self,
        fill: &Fill,
        length: usize,
        of: &impl Fn(usize) -> Result<&'v Value<'a>>,
    ) -> Result<()> {
        let nodes = [fill.select, fill.weight, fill.sample];
        let mut values: Vec<&Value<'a>> = Vec::new();
        for node in nodes.iter().flatten().chain(fill.axes.iter().map(|(_, node)| node)) {
            values.push(of(*node)?);
        }
        let per_entry = |value: &&Value<'_>| matches!(value, Value::Numbers(..) | Value::Constant(_));
        if fill.storage == Storage::Entries && !values.iter().all(per_entry) {
            return Err(Error::argument("counting entries requires cuts and weights without lists"));
        }
        if values.iter().all(|value| value.len().is_none()) {
            // Only constants: every entry counts.
            let entries = Value::all(vec![0u8; length]);
            values.push(&entries);
            return self.put(fill, &values);
        }
        self.put(fill, &values)
    }

    fn put(&mut self, fill: &Fill, values: &[&Value<'_>]) -> Result<()> {
        broadcast(values, &mut |values| {
            self.numbers(fill, values)?;
            Ok(Value::Constant(super::value::Constant::Int(0)))
        })
        .map(drop)
    }

    fn numbers(&mut self, fill: &Fill, values: &[&Value<'_>]) -> Result<()> {
        let Some(length) = values.iter().find_map(|value| value.len()) else { return Ok(()) };
        let mut places = vec![0u32; length];
        for value in values {
            if let Value::Numbers(_, Some(there)) = value {
                there
                    .iter()
                    .zip(&mut places)
                    .filter(|(there, _)| **there == 0)
                    .for_each(|(_, place)| *place |= NOWHERE);
            }
        }
        let mut values = values.iter();
        if fill.select.is_some() {
            match values.next() {
                Some(Value::Numbers(numbers, _)) => {
                    let truths = numbers.truths();
                    let not = truths.iter().zip(&mut places).filter(|(truth, _)| **truth == 0);
                    not.for_each(|(_, place)| *place |= NOWHERE);
                }
                Some(Value::Constant(value)) if f64::constant(*value) == 0.0 => return Ok(()),
                _ => {}
            }
        }
        let mut doubles = |wanted: bool| match values.next().filter(|_| wanted) {
            Some(Value::Numbers(numbers, _)) => Some(f64::of(numbers)),
            Some(Value::Constant(value)) => Some(vec![f64::constant(*value); length].into()),
            _ => None,
        };
        let weights = if fill.weight.is_some() { doubles(true) } else { None };
        let samples = if fill.sample.is_some() { doubles(true) } else { None };
        let mut stride = self.sums.len();
        for (axis, _) in &fill.axes {
            stride /= axis.extent().max(1);
            match values.next() {
                Some(Value::Numbers(numbers, _)) => axis.add(numbers, stride as u32, &mut places)?,
                Some(Value::Constant(value)) => {
                    axis.add(
                        &f64::wrap(vec![f64::constant(*value); length].into()),
                        stride as u32,
                        &mut places,
                    )?;
                }
                _ => {}
            }
        }
        self.add(&places, weights.as_deref(), samples.as_deref());
        Ok(())
    }

    /// Adds values at bin indices, with or without weights.
    fn put_in(&mut self, places: &[u32], weights: Option<&[f64]>) {
        let size = self.sums.len();
        if weights.is_some() || size > MOST_COUNTED || places.len() < 4 * size {
            return self.add(places, weights, None);
        }
        // Consecutive counts in the same bin would wait for each other: alternate between four tables.
        let mut counts = vec![[0u32; 4]; size + 1];
        let mut count = |lane: usize, place: u32| {
            let slot = counts.get_mut((place as usize).min(size));
            if let Some(count) = slot.and_then(|slot| slot.get_mut(lane)) {
                *count += 1;
            }
        };
        let mut quarters = places.chunks_exact(4);
        for quarter in &mut quarters {
            quarter.iter().enumerate().for_each(|(lane, &place)| count(lane, place));
        }
        quarters.remainder().iter().for_each(|&place| count(0, place));
        let totals = counts.iter().map(|lanes| lanes.iter().map(|&count| f64::from(count)).sum::<f64>());
        self.sums.iter_mut().zip(totals.clone()).for_each(|(sum, total)| *sum += total);
        self.squares.iter_mut().zip(totals).for_each(|(square, total)| *square += total);
    }

    fn add(&mut self, places: &[u32], weights: Option<&[f64]>, samples: Option<&[f64]>) {
        let Self { sums, squares, deviations, .. } = self;
        match (self.storage, weights, samples) {
            (Storage::Mean, _, Some(samples)) => {
                for (&place, &sample) in places.iter().zip(samples) {
                    let place = place as usize;
                    let bin = sums.get_mut(place).zip(squares.get_mut(place)).zip(deviations.get_mut(place));
                    if let Some(((n, mean), deviation)) = bin {
                        *n += 1.0;
                        let delta = sample - *mean;
                        *mean += delta / *n;
                        *deviation += delta * (sample - *mean);
                    }
                }
            }
            (Storage::Weight, Some(weights), _) => {
                for (&place, &weight) in places.iter().zip(weights) {
                    if let Some((sum, square)) =
                        sums.get_mut(place as usize).zip(squares.get_mut(place as usize))
                    {
                        *sum += weight;
                        *square += weight * weight;
                    }
                }
            }
            (Storage::Weight, None, _) => {
                for &place in places {
                    if let Some((sum, square)) =
                        sums.get_mut(place as usize).zip(squares.get_mut(place as usize))
                    {
                        *sum += 1.0;
                        *square += 1.0;
                    }
                }
            }
            (_, Some(weights), _) => {
                for (&place, &weight) in places.iter().zip(weights) {
                    if let Some(sum) = sums.get_mut(place as usize) {
                        *sum += weight;
                    }
                }
            }
            _ => {
                for &place in places {
                    if let Some(sum) = sums.get_mut(place as usize) {
                        *sum += 1.0;
                    }
                }
            }
        }
    }
}
