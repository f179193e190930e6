//! Sine, cosine and hyperbolic sine of many doubles, vectorized where the processor can.
//!
//! Results are within two units in the last place, like those of the system's library, but not always bit-identical to
//! them.
#![allow(clippy::inline_always, reason = "so that they are compiled for the processor of their caller")]

use super::value::{Element, Numbers};
use crate::array::wide::{self, Wide, is_wide};

/// Largest angle for which the remainder of π/2 is exact enough.
const MOST_ANGLE: f64 = 1e5;
/// Largest exponent for which the powers of two are exact.
const MOST_EXPONENT: f64 = 20.0;
/// Adding this number leaves the nearest whole number in the lowest bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;

/// π/2, with the parts that a double of it lacks.
const HALF_PI: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_17e-33];
/// The logarithm of 2 rounded to 32 fewer bits, and the rest.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];

/// Coefficients for the sine, from x³ on.
const SINE: [f64; 6] = [
    1.589_690_995_211_55e-10,
    -2.505_076_025_340_686_3e-8,
    2.755_731_370_707_006_8e-6,
    -1.984_126_982_985_795e-4,
    8.333_333_333_322_49e-3,
    -1.666_666_666_666_663_2e-1,
];
/// Coefficients for the cosine, from x⁴ on.
const COSINE: [f64; 6] = [
    -1.135_964_755_778_819_5e-11,
    2.087_572_321_298_175e-9,
    -2.755_731_435_139_066_3e-7,
    2.480_158_728_947_673e-5,
    -1.388_888_888_887_411e-3,
    4.166_666_666_666_66e-2,
];
/// Inverse factorials from 13 to 3, for the exponential function.
const EXPONENTIAL: [f64; 11] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
];

#[inline(always)]
fn polynomial<const N: usize>(x: f64, factors: &[f64; N]) -> f64 {
    factors.iter().fold(0.0, |sum: f64, &factor| sum.mul_add(x, factor))
}

/// The sine of an angle plus this many quarter turns.
#[inline(always)]
fn sine(angle: f64, quarters: u64) -> f64 {
    let rounded = angle.mul_add(std::f64::consts::FRAC_2_PI, ROUNDING);
    let whole = rounded - ROUNDING;
    let turn = rounded.to_bits().wrapping_add(quarters);
    // The first difference is exact; the rounding error of the second is kept.
    let near = (-whole).mul_add(HALF_PI[0], angle);
    let product = whole * HALF_PI[1];
    let lacking = whole.mul_add(HALF_PI[1], -product);
    let x = near - product;
    let back = x - near;
    let lost = (near - (x - back)) - (product + back);
    let rest = (-whole).mul_add(HALF_PI[2], lost - lacking);
    let square = x * x;
    let cube = square * x;
    let of_sine = polynomial(square, &SINE).mul_add(cube, (-0.5 * square).mul_add(rest, rest)) + x;
    let half = 0.5 * square;
    let first = 1.0 - half;
    let more = (polynomial(square, &COSINE) * square).mul_add(square, -x * rest);
    let of_cosine = first + ((1.0 - first - half) + more);
    let odd = (turn & 1).wrapping_neg();
    let chosen = (of_sine.to_bits() & !odd) | (of_cosine.to_bits() & odd);
    f64::from_bits(chosen ^ ((turn & 2) << 62))
}

/// The hyperbolic sine, from e^x - 1.
#[inline(always)]
fn hyperbolic(x: f64) -> f64 {
    let size = x.abs();
    let rounded = size.mul_add(std::f64::consts::LOG2_E, ROUNDING);
    let whole = rounded - ROUNDING;
    let r = (-whole).mul_add(LN_2[1], (-whole).mul_add(LN_2[0], size));
    let power = f64::from_bits((rounded.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    let square = r * r;
    let small = polynomial(r, &EXPONENTIAL).mul_add(square * r, 0.5 * square) + r;
    let less_one = power.mul_add(small, power - 1.0);
    (0.5 * (less_one + less_one / (less_one + 1.0))).copysign(x)
}

/// The function to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The sine.
    Sine,
    /// The cosine.
    Cosine,
    /// The hyperbolic sine.
    Hyperbolic,
}

impl Function {
    /// The functions that compute vector components, by the component names in Python.
    pub const NAMES: &[(&str, Self)] = &[("x", Self::Cosine), ("y", Self::Sine), ("z", Self::Hyperbolic)];

    fn one(self, x: f64) -> f64 {
        match self {
            Self::Sine => x.sin(),
            Self::Cosine => x.cos(),
            Self::Hyperbolic => x.sinh(),
        }
    }
}

/// A function of each number, times another number.
struct Products<'v, T, S> {
    what: Function,
    cells: &'v [T],
    sizes: S,
    found: &'v mut [f64],
}

impl<T: Element, S: Iterator<Item = f64>> Wide for Products<'_, T, S> {
    #[inline(always)]
    fn work(self) {
        let each = self.found.iter_mut().zip(self.cells).zip(self.sizes);
        match self.what {
            Function::Sine => each.for_each(|((slot, x), size)| *slot = size * sine(x.double(), 0)),
            Function::Cosine => each.for_each(|((slot, x), size)| *slot = size * sine(x.double(), 1)),
            Function::Hyperbolic => each.for_each(|((slot, x), size)| *slot = size * hyperbolic(x.double())),
        }
    }
}

fn products<T: Element>(what: Function, cells: &[T], sizes: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let mut found = vec![0.0; cells.len()];
    if !is_wide() {
        let each = found.iter_mut().zip(cells).zip(sizes);
        each.for_each(|((slot, x), size)| *slot = size * what.one(x.double()));
        return found;
    }
    wide::run(Products { what, cells, sizes: sizes.clone(), found: &mut found });
    let most = if what == Function::Hyperbolic { MOST_EXPONENT } else { MOST_ANGLE };
    // The sign of zero is not preserved, either.
    let outside = |x: f64| x.is_nan() || x.abs() > most || x == 0.0;
    if cells.iter().any(|x| outside(x.double())) {
        let far = found.iter_mut().zip(cells).zip(sizes).filter(|((_, x), _)| outside(x.double()));
        far.for_each(|((slot, x), size)| *slot = size * what.one(x.double()));
    }
    found
}

/// A function of each number.
pub fn each(what: Function, cells: &[f64]) -> Vec<f64> {
    products(what, cells, std::iter::repeat(1.0))
}

/// Returns a component of vectors: magnitude times a function of an angle, in double precision.
pub fn component(what: Function, sizes: &Numbers<'_>, angles: &Numbers<'_>) -> Vec<f64> {
    match (sizes, angles) {
        (Numbers::F32(sizes), Numbers::F32(angles)) => {
            products(what, angles, sizes.iter().map(|size| size.double()))
        }
        _ => products(what, &f64::of(angles), f64::of(sizes).iter().copied()),
    }
}

/// Energies of vectors with these masses and components.
struct Energies<'v, M> {
    masses: M,
    parts: [&'v [f64]; 3],
    found: &'v mut [f64],
}

impl<M: Iterator<Item = f64>> Wide for Energies<'_, M> {
    #[inline(always)]
    fn work(self) {
        let [x, y, z] = self.parts;
        let each = self.found.iter_mut().zip(self.masses).zip(x).zip(y).zip(z);
        each.for_each(|((((slot, mass), x), y), z)| {
            let square = mass * mass.abs() + (x * x + y * y + z * z);
            let above = if square > 0.0 || square.is_nan() { square } else { 0.0 };
            *slot = above.sqrt();
        });
    }
}

fn energies_of(masses: impl Iterator<Item = f64>, parts: [&[f64]; 3]) -> Vec<f64> {
    let mut found = vec![0.0; parts.iter().map(|part| part.len()).min().unwrap_or(0)];
    wide::run(Energies { masses, parts, found: &mut found });
    found
}

/// Returns the energies of vectors; negative masses are treated as in `vector`.
pub fn energies(masses: &Numbers<'_>, parts: [&[f64]; 3]) -> Vec<f64> {
    match masses {
        Numbers::F32(masses) => energies_of(masses.iter().map(|mass| mass.double()), parts),
        other => energies_of(f64::of(other).iter().copied(), parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of doubles between two.
    fn between(one: f64, other: f64) -> u64 {
        let order = |x: f64| if x < 0.0 { -(x.abs().to_bits() as i64) } else { x.to_bits() as i64 };
        order(one).abs_diff(order(other))
    }

    #[test]
    fn functions_are_within_two_units_of_the_library() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
        };
        let mut cells: Vec<f64> = Vec::new();
        for scale in [1e-300, 1e-9, 0.1, 1.0, 3.2, 10.0, 25.0, 1e4, 2e5, 1e300] {
            cells.extend((0..20_000).map(|_| scale * random()));
        }
        let exact = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e5, 20.0, -20.0];
        cells.extend(exact);
        cells.extend((-2000..2000).map(|turns| f64::from(turns) * std::f64::consts::FRAC_PI_2));
        for what in [Function::Sine, Function::Cosine, Function::Hyperbolic] {
            let mut worst = 0;
            for (&x, found) in cells.iter().zip(each(what, &cells)) {
                let right = what.one(x);
                let same = found.is_nan() && right.is_nan();
                let off = if same { 0 } else { between(found, right) };
                assert!(off <= 2, "{what:?}({x:e}) is {found:e}, not {right:e}");
                worst = worst.max(off);
            }
            println!("{what:?}: {worst}");
        }
        assert_eq!(each(Function::Sine, &[-0.0]).first().map(|x| x.to_bits()), Some((-0.0f64).to_bits()));
    }
}
