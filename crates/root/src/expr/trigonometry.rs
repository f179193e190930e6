//! Sine, cosine and hyperbolic sine of many doubles at once: loops without branches or calls, which compilers turn into
//! vector instructions. Results are within two units in the last place; histograms use them.

/// Beyond this the reduction is not exact.
const MOST_ANGLE: f64 = 1e5;
/// Beyond this the exponential is computed by the standard library.
const MOST_EXPONENT: f64 = 700.0;
/// Adding it rounds to a whole number, which is then in the low bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0;
/// A quarter of a turn in three parts, of which the first two have 33 bits.
const QUARTER: [f64; 3] = [1.570_796_326_734_125_6, 6.077_100_506_303_966e-11, 2.022_266_248_711_166_5e-21];
/// The natural logarithm of two in two parts, of which the first has 32 bits.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
/// Coefficients of the sine within an eighth of a turn, from the highest power.
const SINE: [f64; 6] = [
    1.589_690_995_211_55e-10,
    -2.505_076_025_340_686_3e-8,
    2.755_731_370_707_006_8e-6,
    -1.984_126_982_985_795e-4,
    8.333_333_333_322_49e-3,
    -1.666_666_666_666_663_2e-1,
];
/// The same of the cosine.
const COSINE: [f64; 6] = [
    -1.135_964_755_778_819_5e-11,
    2.087_572_321_298_175e-9,
    -2.755_731_435_139_066_3e-7,
    2.480_158_728_947_673e-5,
    -1.388_888_888_887_411e-3,
    4.166_666_666_666_66e-2,
];

fn polynomial(coefficients: &[f64], x: f64) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// The sine of an angle and `turns` quarters of a turn.
#[inline]
fn wave(x: f64, turns: u64) -> f64 {
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUNDING;
    let n = shifted - ROUNDING;
    let quadrant = shifted.to_bits().wrapping_add(turns);
    let [first, second, third] = QUARTER;
    let rest = ((x - n * first) - n * second) - n * third;
    let square = rest * rest;
    let sine = rest + rest * square * polynomial(&SINE, square);
    let cosine = 1.0 - (0.5 * square - square * square * polynomial(&COSINE, square));
    let value = if quadrant & 1 == 0 { sine } else { cosine };
    f64::from_bits(value.to_bits() ^ ((quadrant & 2) << 62))
}

/// Computes all by a quick function, and those that are too large for it by another.
fn computed(cells: &[f64], most: f64, quick: impl Fn(f64) -> f64, exact: fn(f64) -> f64) -> Vec<f64> {
    let mut found: Vec<f64> = cells.iter().map(|&x| quick(x)).collect();
    let is_wild = |x: &f64| x.is_nan() || x.abs() >= most;
    if cells.iter().any(is_wild) {
        let wild = found.iter_mut().zip(cells).filter(|(_, x)| is_wild(x));
        wild.for_each(|(slot, &x)| *slot = exact(x));
    }
    found
}

/// One of the functions here.
pub type Function = fn(&[f64]) -> Vec<f64>;

/// Sines.
pub fn sin(cells: &[f64]) -> Vec<f64> {
    computed(cells, MOST_ANGLE, |x| wave(x, 0), f64::sin)
}

/// Cosines.
pub fn cos(cells: &[f64]) -> Vec<f64> {
    computed(cells, MOST_ANGLE, |x| wave(x, 1), f64::cos)
}

/// Taylor coefficients of sinh(x) / x in the square of x, from the highest.
const SMALL: [f64; 9] = [
    1.0 / 355_687_428_096_000.0,
    1.0 / 1_307_674_368_000.0,
    1.0 / 6_227_020_800.0,
    1.0 / 39_916_800.0,
    1.0 / 362_880.0,
    1.0 / 5_040.0,
    1.0 / 120.0,
    1.0 / 6.0,
    1.0,
];
/// Taylor coefficients of the exponential, from the highest.
const EXPONENTIAL: [f64; 14] = [
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
    0.5,
    1.0,
    1.0,
];

#[inline]
fn hyperbolic(x: f64) -> f64 {
    let small = x * polynomial(&SMALL, x * x);
    let of = x.abs();
    let shifted = of * std::f64::consts::LOG2_E + ROUNDING;
    let n = shifted - ROUNDING;
    let [first, second] = LN_2;
    let rest = (of - n * first) - n * second;
    let scale = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    let power = polynomial(&EXPONENTIAL, rest) * scale;
    let large = (0.5 * (power - 1.0 / power)).copysign(x);
    if of < 1.0 { small } else { large }
}

/// Hyperbolic sines.
pub fn sinh(cells: &[f64]) -> Vec<f64> {
    computed(cells, MOST_EXPONENT, hyperbolic, f64::sinh)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_of_the_standard_library() {
        let mut cells: Vec<f64> = (-40_000..40_000).map(|n| f64::from(n) * 1.234_567e-3).collect();
        let quarter = std::f64::consts::FRAC_PI_2;
        cells.extend((-2_000..2_000).map(|n| f64::from(n) * quarter));
        cells.extend([
            0.0, 5e-324, 1e-200, 1e-9, 0.999_999, 1.0, 99_999.0, 1e5, 1e15, 1e300, 699.9, 701.0, 720.0,
        ]);
        cells.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -1e-320, -700.0]);
        let ways: [Function; 3] = [sin, cos, sinh];
        for (ours, exact) in ways.into_iter().zip([f64::sin, f64::cos, f64::sinh]) {
            for (x, found) in cells.iter().zip(ours(&cells)) {
                let wanted = exact(*x);
                let ulp = (wanted.abs().next_up() - wanted.abs()).max(f64::MIN_POSITIVE);
                let same = found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan());
                assert!(same || (found - wanted).abs() <= 2.0 * ulp, "{x}: {found} {wanted}");
            }
        }
    }
}
