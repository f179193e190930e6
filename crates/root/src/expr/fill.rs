//! Histograms that are filled with values of an evaluation.

use super::value::{Element, Numbers, Value, broadcast, each};
use crate::error::{Error, Result};

/// How values of one axis become bins, as in Boost.Histogram.
#[derive(Debug, Clone)]
pub enum Edges {
    /// Bins of one width.
    Regular {
        /// How many.
        bins: usize,
        /// Lower edge of the first.
        low: f64,
        /// Upper edge of the last.
        high: f64,
    },
    /// Bins between edges.
    Variable(Vec<f64>),
    /// A bin for each whole number.
    Integer {
        /// How many.
        bins: usize,
        /// The first.
        first: i64,
    },
}

/// One axis of a histogram.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Its bins.
    pub edges: Edges,
    /// Whether there is a bin for what lies below.
    pub under: bool,
    /// Whether there is a bin for what lies above, and for NaN.
    pub over: bool,
}

impl Axis {
    fn bins(&self) -> usize {
        match &self.edges {
            Edges::Regular { bins, .. } | Edges::Integer { bins, .. } => *bins,
            Edges::Variable(edges) => edges.len().saturating_sub(1),
        }
    }
    /// Bins with those of under- and overflow.
    pub fn extent(&self) -> usize {
        self.bins().saturating_add(usize::from(self.under)).saturating_add(usize::from(self.over))
    }
    /// Adds the bin of each value, times a stride, to its place.
    #[allow(
        clippy::float_cmp,
        clippy::neg_cmp_op_on_partial_ord,
        reason = "NaN goes where Boost.Histogram puts it"
    )]
    fn add(&self, numbers: &Numbers<'_>, stride: u32, places: &mut [u32]) -> Result<()> {
        let (bins, under, over) = (self.bins() as i64, i64::from(self.under), self.over);
        let put = |bin: i64, place: &mut u32| {
            if *place == NOWHERE || (bin < 0 && under == 0) || (bin >= bins && !over) {
                *place = NOWHERE;
            } else {
                *place += (bin + under) as u32 * stride;
            }
        };
        match &self.edges {
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
            &Edges::Integer { first, .. } => {
                if matches!(numbers, Numbers::F32(_) | Numbers::F64(_) | Numbers::U64(_)) {
                    return Err(Error::unsupported("an axis of whole numbers takes these"));
                }
                for (&cell, place) in i64::of(numbers).iter().zip(places) {
                    put(cell.saturating_sub(first).clamp(-1, bins), place);
                }
            }
        }
        Ok(())
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

const NOWHERE: u32 = u32::MAX;
/// The most bins of a histogram.
const MOST_BINS: usize = 1 << 28;

/// What is kept of each bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// The sum of weights.
    Sum,
    /// The same and the sum of their squares.
    Weight,
    /// The number, the mean and the sum of squared deviations of a sample.
    Mean,
}

/// A histogram that is to be filled: nodes of a program give its values.
#[derive(Debug, Clone)]
pub struct Fill {
    /// Axes, with their values.
    pub axes: Vec<(Axis, usize)>,
    /// Only where this is true.
    pub select: Option<usize>,
    /// With this weight.
    pub weight: Option<usize>,
    /// Of this.
    pub sample: Option<usize>,
    /// What is kept.
    pub storage: Storage,
}

/// The bins of a histogram: the last axis varies fastest.
#[derive(Debug, Clone)]
pub struct Bins {
    storage: Storage,
    /// Sums of weights, or numbers of samples.
    pub sums: Vec<f64>,
    /// Sums of squared weights, or means.
    pub squares: Vec<f64>,
    /// Sums of squared deviations.
    pub deviations: Vec<f64>,
}

impl Bins {
    /// Empty bins.
    pub fn new(fill: &Fill) -> Result<Self> {
        let sizes = fill.axes.iter().map(|(axis, _)| axis.extent());
        let bins = sizes.fold(1usize, usize::saturating_mul);
        if bins > MOST_BINS {
            return Err(Error::limit(format!("a histogram of {bins} bins; the limit is {MOST_BINS}")));
        }
        let none = if fill.storage == Storage::Sum { 0 } else { bins };
        let deviations = if fill.storage == Storage::Mean { bins } else { 0 };
        Ok(Self {
            storage: fill.storage,
            sums: vec![0.0; bins],
            squares: vec![0.0; none],
            deviations: vec![0.0; deviations],
        })
    }

    /// Adds those that were filled with other entries.
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

    /// Fills in values of a chunk of `length` entries; `of` gives those of a node.
    pub fn fill<'v, 'a: 'v>(
        &mut self,
        fill: &Fill,
        length: usize,
        of: impl Fn(usize) -> Result<&'v Value<'a>>,
    ) -> Result<()> {
        let nodes = [fill.select, fill.weight, fill.sample];
        let mut values: Vec<&Value<'a>> = Vec::new();
        for node in nodes.iter().flatten().chain(fill.axes.iter().map(|(_, node)| node)) {
            values.push(of(*node)?);
        }
        if values.iter().all(|value| value.len().is_none()) {
            // Nothing but constants: every entry counts.
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
                    .for_each(|(_, place)| *place = NOWHERE);
            }
        }
        let mut values = values.iter();
        if fill.select.is_some() {
            match values.next() {
                Some(Value::Numbers(numbers, _)) => {
                    let truths = numbers.truths();
                    let not = truths.iter().zip(&mut places).filter(|(truth, _)| **truth == 0);
                    not.for_each(|(_, place)| *place = NOWHERE);
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
