//! Corrections: functions of numbers defined by tables, categories and formulas.
//!
//! A correction is a tree of [`Content`]. Children come before their parents; the last content is the root.

use super::fill::Edges;
use super::math::{acosh, asinh, both};
use super::value::{Cells, Element, Value, broadcast};
use crate::error::{Error, Result};
use twox_hash::XxHash64;

/// Treatment of numbers outside the bins.
#[derive(Debug, Clone, PartialEq)]
pub enum Flow {
    /// An error.
    Error,
    /// Use the nearest bin.
    Clamp,
    /// Wrap around.
    Wrap,
    /// Use another content.
    Content(usize),
}

/// A step of a formula, in postfix order.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A number.
    Number(f64),
    /// An input.
    Input(usize),
    /// A function of the last numbers on the stack.
    Call(Function),
}

/// A part of a correction.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A number.
    Value(f64),
    /// One content for each bin of the inputs; the last axis varies fastest.
    Bins(Vec<(usize, Edges)>, Vec<usize>, Flow),
    /// One content for each of some whole numbers, and optionally one for all others.
    Category(usize, Vec<(i64, usize)>, Option<usize>),
    /// A formula with the inputs as variables.
    Formula(Vec<Step>),
    /// A random number determined by the inputs alone. The flag marks inputs that are whole numbers.
    Random(Vec<(usize, bool)>, Distribution),
    /// Another content, with one input replaced by the value of a first content.
    Transform {
        /// The replaced input.
        input: usize,
        /// Whether the value is rounded.
        whole: bool,
        /// The content that computes the input.
        rule: usize,
        /// The content that computes the result.
        content: usize,
    },
}

/// Distribution of random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distribution {
    /// Uniform from 0 to 1.
    Flat,
    /// Normal, from two numbers of 53 bits.
    StandardNormal,
    /// Normal, from two numbers of 32 bits.
    Normal,
}

impl Distribution {
    /// All distributions, by their names in files.
    pub const NAMES: &[(&str, Self)] =
        &[("stdflat", Self::Flat), ("stdnormal", Self::StandardNormal), ("normal", Self::Normal)];

    /// Returns a number from the generator PCG32 with a seed.
    fn number(self, seed: u64) -> f64 {
        const INCREMENT: u64 = 1_442_695_040_888_963_407;
        let next = |state: u64| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(INCREMENT);
        let mut state = next(seed.wrapping_add(INCREMENT));
        let mut bits = || {
            let old = state;
            state = next(old);
            ((((old >> 18) ^ old) >> 27) as u32).rotate_right((old >> 59) as u32)
        };
        if self == Self::Normal {
            loop {
                let [x, y] = [(); 2].map(|()| f64::from(bits()) / f64::from(1u32 << 31) - 1.0);
                let square = x * x + y * y;
                if square < 1.0 && square != 0.0 {
                    return x * (-2.0 * square.ln() / square).sqrt();
                }
            }
        }
        let mut even = || {
            let low = f64::from(bits());
            let number = (low + f64::from(bits()) * TWO_32) / (TWO_32 * TWO_32);
            if number < 1.0 { number } else { 1.0f64.next_down() }
        };
        if self == Self::Flat {
            return even();
        }
        loop {
            let [x, y] = [(); 2].map(|()| 2.0 * even() - 1.0);
            let square = x * x + y * y;
            if square <= 1.0 && square != 0.0 {
                return y * (-2.0 * square.ln() / square).sqrt();
            }
        }
    }
}

/// Two to the power of 32.
const TWO_32: f64 = 4_294_967_296.0;

/// Maximum nesting depth of contents.
const MOST_DEPTH: usize = 100;
/// Maximum number of contents visited by one evaluation.
const MOST_VISITS: usize = 1 << 16;

/// A correction that is ready to be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Correction {
    name: String,
    inputs: Vec<String>,
    contents: Vec<Content>,
}

impl Content {
    fn children(&self) -> Vec<usize> {
        match self {
            Self::Value(_) | Self::Formula(_) | Self::Random(..) => Vec::new(),
            Self::Bins(_, contents, flow) => {
                let beyond = if let Flow::Content(beyond) = flow { Some(*beyond) } else { None };
                contents.iter().copied().chain(beyond).collect()
            }
            Self::Category(_, keys, other) => keys.iter().map(|(_, child)| *child).chain(*other).collect(),
            Self::Transform { rule, content, .. } => vec![*rule, *content],
        }
    }

    /// Whether the content is consistent: its inputs exist, there are as many contents as bins, and each step of a
    /// formula has its operands.
    fn is_whole(&self, inputs: usize) -> bool {
        match self {
            Self::Value(_) => true,
            Self::Bins(axes, contents, _) => {
                let bins = axes.iter().fold(1usize, |all, (_, edges)| all.saturating_mul(edges.bins()));
                axes.iter().all(|(input, edges)| *input < inputs && edges.bins() > 0)
                    && bins == contents.len()
            }
            Self::Random(of, _) => of.iter().all(|(input, _)| *input < inputs),
            Self::Category(input, ..) | Self::Transform { input, .. } => *input < inputs,
            Self::Formula(steps) => {
                let mut height = 0usize;
                for step in steps {
                    let (taken, fits) = match step {
                        Step::Number(_) => (0, true),
                        Step::Input(input) => (0, *input < inputs),
                        Step::Call(function) => (function.takes(), true),
                    };
                    if !fits || height < taken {
                        return false;
                    }
                    height = height + 1 - taken;
                }
                height == 1
            }
        }
    }
}

impl Correction {
    /// Creates a correction from its contents.
    pub fn new(name: String, inputs: Vec<String>, contents: Vec<Content>) -> Result<Self> {
        let mut known: Vec<(usize, usize)> = Vec::with_capacity(contents.len());
        for content in &contents {
            let (mut depth, mut most, mut sum) = (1, 0, 1usize);
            for child in content.children() {
                let Some(&(inner, visits)) = known.get(child) else {
                    return Err(Error::argument("a content of the correction refers to a later content"));
                };
                depth = depth.max(inner + 1);
                most = most.max(visits);
                sum = sum.saturating_add(visits);
            }
            let visits = if matches!(content, Content::Transform { .. }) { sum } else { most + 1 };
            if depth > MOST_DEPTH || visits > MOST_VISITS {
                return Err(Error::limit(format!(
                    "the contents of the correction {name:?} are nested more than {MOST_DEPTH} levels deep"
                )));
            }
            if !content.is_whole(inputs.len()) {
                return Err(Error::argument(format!(
                    "a content of the correction {name:?} has inconsistent bins, inputs or steps"
                )));
            }
            known.push((depth, visits));
        }
        if contents.is_empty() {
            return Err(Error::argument(format!("the correction {name:?} has no content")));
        }
        Ok(Self { name, inputs, contents })
    }

    fn beyond(&self, input: usize, value: f64, what: &str) -> Error {
        let input = self.inputs.get(input).map_or("", String::as_str);
        Error::argument(format!(
            "the correction {:?} has no {what} for the value {value} of its input {input:?}",
            self.name
        ))
    }

    #[allow(clippy::float_cmp, reason = "a category is a whole number")]
    fn value(&self, number: usize, row: &mut [f64], stack: &mut Vec<f64>) -> Result<f64> {
        let of = |row: &[f64], input: usize| row.get(input).copied().unwrap_or_default();
        match self.contents.get(number) {
            Some(Content::Value(value)) => Ok(*value),
            Some(Content::Formula(steps)) => {
                stack.clear();
                for step in steps {
                    let found = match step {
                        Step::Number(number) => *number,
                        Step::Input(input) => of(row, *input),
                        Step::Call(Function::One(of)) => of(stack.pop().unwrap_or_default()),
                        Step::Call(Function::Two(of)) => {
                            let right = stack.pop().unwrap_or_default();
                            of(stack.pop().unwrap_or_default(), right)
                        }
                    };
                    stack.push(found);
                }
                Ok(stack.pop().unwrap_or_default())
            }
            Some(Content::Bins(axes, contents, flow)) => {
                let mut place = 0;
                for (input, edges) in axes {
                    let value = of(row, *input);
                    let inside = edges.bin_of(value).or_else(|| match flow {
                        Flow::Clamp => edges.nearest(value),
                        Flow::Wrap => edges.wrapped(value),
                        Flow::Error | Flow::Content(_) => None,
                    });
                    match (inside, flow) {
                        (Some(bin), _) => place = place * edges.bins() + bin,
                        (None, Flow::Content(beyond)) => return self.value(*beyond, row, stack),
                        (None, _) => return Err(self.beyond(*input, value, "bin")),
                    }
                }
                let chosen = contents.get(place).copied().unwrap_or(usize::MAX);
                self.value(chosen, row, stack)
            }
            Some(Content::Category(input, keys, other)) => {
                let value = of(row, *input);
                let key = keys.iter().find(|(key, _)| *key as f64 == value).map(|(_, content)| *content);
                let chosen = key.or(*other).ok_or_else(|| self.beyond(*input, value, "category"))?;
                self.value(chosen, row, stack)
            }
            Some(Content::Random(of_inputs, distribution)) => {
                let bits = |(input, whole): &(usize, bool)| {
                    let value = of(row, *input);
                    if *whole { (value as i64).to_le_bytes() } else { value.to_le_bytes() }
                };
                let bytes: Vec<u8> = of_inputs.iter().flat_map(bits).collect();
                Ok(distribution.number(XxHash64::oneshot(0, &bytes)))
            }
            Some(Content::Transform { input, whole, rule, content }) => {
                let made = self.value(*rule, row, stack)?;
                let before = of(row, *input);
                if let Some(slot) = row.get_mut(*input) {
                    *slot = if *whole { made.round() } else { made };
                }
                let found = self.value(*content, row, stack);
                if let Some(slot) = row.get_mut(*input) {
                    *slot = before;
                }
                found
            }
            None => Err(Error::argument("the correction has no content of this number")),
        }
    }

    /// Evaluates the correction for numbers, or for the items of lists.
    pub fn evaluate<'a>(&self, values: &[&Value<'a>]) -> Result<Value<'a>> {
        if values.len() != self.inputs.len() {
            return Err(Error::argument(format!(
                "the correction {:?} takes {} numbers, but {} were given",
                self.name,
                self.inputs.len(),
                values.len()
            )));
        }
        broadcast(values, &mut |values| {
            let Some(length) = values.iter().find_map(|value| value.len()) else {
                return Err(Error::unsupported("the engine cannot evaluate a correction of constants only"));
            };
            let mut there: Option<Cells<'a, u8>> = None;
            let mut columns: Vec<(Option<Cells<'_, f64>>, f64)> = Vec::with_capacity(values.len());
            for value in values {
                match value {
                    Value::Constant(constant) => columns.push((None, f64::constant(*constant))),
                    Value::Numbers(numbers, own) => {
                        there = both(there.as_ref(), own.as_ref());
                        columns.push((Some(f64::of(numbers)), 0.0));
                    }
                    Value::Lists(..) => {
                        return Err(Error::unsupported(
                            "the engine cannot evaluate a correction of lists of lists",
                        ));
                    }
                }
            }
            let (mut row, mut stack) = (vec![0.0; columns.len()], Vec::new());
            let mut found = Vec::with_capacity(length);
            for place in 0..length {
                if there.as_ref().is_some_and(|there| there.get(place) == Some(&0)) {
                    found.push(0.0);
                    continue;
                }
                for (slot, (cells, one)) in row.iter_mut().zip(&columns) {
                    *slot = cells.as_ref().map_or(*one, |cells| cells.get(place).copied().unwrap_or(0.0));
                }
                found.push(self.value(self.contents.len() - 1, &mut row, &mut stack)?);
            }
            Ok(Value::Numbers(f64::wrap(found.into()), there))
        })
    }
}

impl Edges {
    fn ends(&self) -> (f64, f64) {
        match self {
            Self::Regular { low, high, .. } => (*low, *high),
            Self::Variable(edges) => {
                (edges.first().copied().unwrap_or(0.0), edges.last().copied().unwrap_or(0.0))
            }
            Self::Integer { bins, first } => (*first as f64, (*first as f64) + *bins as f64),
            Self::Category(known) => (0.0, known.len() as f64),
        }
    }

    /// Returns the bin of a number; `None` outside the range and for NaN.
    fn bin_of(&self, value: f64) -> Option<usize> {
        let (low, high) = self.ends();
        if !(low..high).contains(&value) {
            return None;
        }
        Some(match self {
            Self::Regular { bins, .. } => {
                ((*bins as f64 * (value - low) / (high - low)) as usize).min(bins.saturating_sub(1))
            }
            Self::Integer { .. } | Self::Category(_) => (value - low) as usize,
            Self::Variable(edges) => edges.partition_point(|edge| *edge <= value).saturating_sub(1),
        })
    }

    fn nearest(&self, value: f64) -> Option<usize> {
        let (low, high) = self.ends();
        if value < low {
            Some(0)
        } else if value >= high {
            self.bins().checked_sub(1)
        } else {
            None
        }
    }

    fn wrapped(&self, value: f64) -> Option<usize> {
        let (low, high) = self.ends();
        let inside = low + (value - low).rem_euclid(high - low);
        // A number just below the first edge may be rounded to the last edge.
        self.bin_of(if inside >= high { low } else { inside })
    }
}

/// A function of one or two numbers.
#[derive(Debug, Clone, Copy)]
pub enum Function {
    /// Of one number.
    One(fn(f64) -> f64),
    /// Of two numbers.
    Two(fn(f64, f64) -> f64),
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::One(one), Self::One(other)) => std::ptr::fn_addr_eq(one, other),
            (Self::Two(one), Self::Two(other)) => std::ptr::fn_addr_eq(one, other),
            _ => false,
        }
    }
}

const fn truth(is: bool) -> f64 {
    if is { 1.0 } else { 0.0 }
}

impl Function {
    /// All functions, by their names and operators in formulas.
    #[allow(clippy::float_cmp, reason = "formulas compare")]
    pub const NAMES: &[(&str, Self)] = &[
        ("negative", Self::One(|x| -x)),
        ("!", Self::One(|x| truth(x == 0.0))),
        ("abs", Self::One(f64::abs)),
        ("sqrt", Self::One(f64::sqrt)),
        ("exp", Self::One(f64::exp)),
        ("log", Self::One(f64::ln)),
        ("log10", Self::One(f64::log10)),
        ("erf", Self::One(erf)),
        ("sin", Self::One(f64::sin)),
        ("cos", Self::One(f64::cos)),
        ("tan", Self::One(f64::tan)),
        ("asin", Self::One(f64::asin)),
        ("acos", Self::One(f64::acos)),
        ("atan", Self::One(f64::atan)),
        ("sinh", Self::One(f64::sinh)),
        ("cosh", Self::One(f64::cosh)),
        ("tanh", Self::One(f64::tanh)),
        ("asinh", Self::One(asinh)),
        ("acosh", Self::One(acosh)),
        ("atanh", Self::One(f64::atanh)),
        ("atan2", Self::Two(f64::atan2)),
        ("pow", Self::Two(f64::powf)),
        ("max", Self::Two(f64::max)),
        ("min", Self::Two(f64::min)),
        ("+", Self::Two(|x, y| x + y)),
        ("-", Self::Two(|x, y| x - y)),
        ("*", Self::Two(|x, y| x * y)),
        ("/", Self::Two(|x, y| x / y)),
        ("^", Self::Two(f64::powf)),
        ("==", Self::Two(|x, y| truth(x == y))),
        ("!=", Self::Two(|x, y| truth(x != y))),
        (">", Self::Two(|x, y| truth(x > y))),
        ("<", Self::Two(|x, y| truth(x < y))),
        (">=", Self::Two(|x, y| truth(x >= y))),
        ("<=", Self::Two(|x, y| truth(x <= y))),
    ];

    const fn takes(self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Two(_) => 2,
        }
    }
}

/// The error function, from a series with positive terms only.
fn erf(x: f64) -> f64 {
    let size = x.abs();
    if x.is_nan() || size >= 6.0 {
        return if x.is_nan() { x } else { 1f64.copysign(x) };
    }
    let (mut term, mut sum, mut n) = (size, size, 1.0);
    while term > sum * 1e-17 {
        n += 2.0;
        term *= 2.0 * size * size / n;
        sum += term;
    }
    (std::f64::consts::FRAC_2_SQRT_PI * (-size * size).exp() * sum).copysign(x)
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "numbers that are exact")]
mod tests {
    use super::*;

    fn of(contents: Vec<Content>) -> Result<Correction> {
        Correction::new("c".into(), vec!["x".into()], contents)
    }

    #[test]
    fn contents_that_do_not_fit_are_refused() {
        let plus = Step::Call(Function::Two(|x, y| x + y));
        let edges = Edges::Variable(vec![0.0, 1.0, 2.0]);
        for content in [
            Content::Formula(vec![Step::Number(1.0), plus]),
            Content::Formula(vec![Step::Input(1)]),
            Content::Formula(Vec::new()),
            Content::Random(vec![(1, false)], Distribution::Flat),
            Content::Bins(vec![(0, edges.clone())], vec![0], Flow::Error),
            Content::Bins(vec![(1, edges)], vec![0, 0], Flow::Error),
            Content::Category(0, vec![(1, 1)], None),
        ] {
            assert!(of(vec![Content::Value(1.0), content]).is_err());
        }
        let mut deep = vec![Content::Value(1.0)];
        deep.extend((0..200).map(|inner| Content::Category(0, Vec::new(), Some(inner))));
        assert!(of(deep).is_err());
        let mut many = vec![Content::Value(1.0)];
        many.extend((0..50).map(|inner| Content::Transform {
            input: 0,
            whole: false,
            rule: inner,
            content: inner,
        }));
        assert!(of(many).is_err());
        assert!(of(Vec::new()).is_err());
    }

    #[test]
    fn numbers_outside_of_the_bins_follow_the_flow() {
        let bins = |flow| {
            let edges = Edges::Regular { bins: 2, low: 0.0, high: 4.0 };
            of(vec![
                Content::Value(1.0),
                Content::Value(2.0),
                Content::Bins(vec![(0, edges)], vec![0, 1], flow),
            ])
            .unwrap()
        };
        let at = |correction: &Correction, x: f64| correction.value(2, &mut [x], &mut Vec::new());
        let (error, clamp, wrap) = (bins(Flow::Error), bins(Flow::Clamp), bins(Flow::Wrap));
        assert_eq!([0.0, 1.9, 2.0, 3.9].map(|x| at(&error, x).unwrap()), [1.0, 1.0, 2.0, 2.0]);
        assert!([-0.1, 4.0, f64::NAN].into_iter().all(|x| at(&error, x).is_err()));
        assert_eq!([-9.0, 4.0, f64::INFINITY].map(|x| at(&clamp, x).unwrap()), [1.0, 2.0, 2.0]);
        assert_eq!([-1.0, 4.0, 7.0, -1e-300].map(|x| at(&wrap, x).unwrap()), [2.0, 1.0, 2.0, 1.0]);
        assert!(at(&clamp, f64::NAN).is_err() && at(&wrap, f64::NAN).is_err());
    }

    #[test]
    fn the_error_function_is_that_of_tables() {
        for (x, right) in
            [(0.5, 0.520_499_877_813_046_5), (2.0, 0.995_322_265_018_952_7), (-1.0, -0.842_700_792_949_714_9)]
        {
            assert!((erf(x) - right).abs() < 1e-15);
        }
        assert_eq!([erf(0.0), erf(9.0), erf(f64::NEG_INFINITY)], [0.0, 1.0, -1.0]);
    }
}
