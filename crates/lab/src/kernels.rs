//! Kernels of computing, with their inputs: they need nothing but the standard library, and are compiled alone, too.

use std::hint::black_box;
use std::time::Instant;

/// Runs for about this many seconds; returns a rate.
pub type Kernel = fn(f64) -> f64;

/// Names, units and functions.
pub const KERNELS: [(&str, &str, Kernel); 4] = [
    ("integer", "M steps/s", integer),
    ("float", "M steps/s", float),
    ("histogram filling", "M fills/s", histogram),
    ("track finding", "events/s", tracks),
];

/// Returns the seconds of the quickest of many runs, at least three.
pub fn least(seconds: f64, mut work: impl FnMut()) -> f64 {
    work(); // The first run maps memory and fills caches.
    let (begin, mut best, mut runs) = (Instant::now(), f64::INFINITY, 0);
    while runs < 3 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
        runs += 1;
    }
    best.max(1e-9)
}

/// A generator of numbers (xorshift64*).
pub struct Chance(u64);

impl Chance {
    /// Begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// A number from 0 to 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Shifts, sums, a multiplication and a branch that cannot be foretold, each step upon the last.
fn integer(seconds: f64) -> f64 {
    const STEPS: u32 = 1_000_000;
    let best = least(seconds, || {
        let (mut chance, mut sum) = (Chance::new(black_box(42)), 0u64);
        for _ in 0..STEPS {
            let bits = chance.bits();
            sum = if bits & 0x40 == 0 { sum.rotate_left(5) ^ bits } else { sum.wrapping_add(bits / 7) };
        }
        black_box(sum);
    });
    f64::from(STEPS) / best / 1e6
}

/// A charged particle in a magnetic field that varies, by Runge-Kutta steps of fourth order.
fn float(seconds: f64) -> f64 {
    const STEPS: u32 = 100_000;
    type Vector = [f64; 3];
    fn slope([x, y, z]: Vector, [u, v, w]: Vector) -> Vector {
        let field = [0.05 * x * z, 0.05 * y * z, 2.0 - 0.05 * (x * x + y * y) / (1.0 + z * z)];
        let [a, b, c] = field;
        [0.3 * (v * c - w * b), 0.3 * (w * a - u * c), 0.3 * (u * b - v * a)]
    }
    fn moved([x, y, z]: Vector, [a, b, c]: Vector, by: f64) -> Vector {
        [x + by * a, y + by * b, z + by * c]
    }
    let best = least(seconds, || {
        let h = black_box(0.01);
        let (mut place, mut way): (Vector, Vector) = ([0.1, 0.2, 0.3], [0.6, 0.64, 0.48]);
        for _ in 0..STEPS {
            let k1 = slope(place, way);
            let k2 = slope(moved(place, way, h / 2.0), moved(way, k1, h / 2.0));
            let k3 = slope(moved(place, way, h / 2.0), moved(way, k2, h / 2.0));
            let k4 = slope(moved(place, way, h), moved(way, k3, h));
            let mean = moved(moved(moved(k1, k2, 2.0), k3, 2.0), k4, 1.0);
            place = moved(place, way, h);
            way = moved(way, mean, h / 6.0);
            let [a, b, c] = way;
            let length = (a * a + b * b + c * c).sqrt();
            way = [a / length, b / length, c / length];
        }
        black_box((place, way));
    });
    f64::from(STEPS) / best / 1e6
}

/// Single values into 20 histograms of 100 bins, with underflow and overflow.
fn histogram(seconds: f64) -> f64 {
    let mut chance = Chance::new(7);
    let values: Vec<f32> = (0..200_000).map(|_| (chance.unit() * 1.1 - 0.05) as f32).collect();
    let mut bins = vec![0.0f64; 20 * 102];
    let best = least(seconds, || {
        for (histogram, values) in bins.chunks_exact_mut(102).zip(black_box(&values).chunks_exact(10_000)) {
            for value in values {
                let place = (f64::from(*value) * 100.0).floor().clamp(-1.0, 100.0) + 1.0;
                if let Some(bin) = histogram.get_mut(place as usize) {
                    *bin += 1.0;
                }
            }
        }
        black_box(&mut bins);
    });
    values.len() as f64 / best / 1e6
}

/// Straight tracks through ten planes: each pair of hits of the first and the last plane is a candidate, which takes
/// the nearest hit of every plane between; a track has eight of ten.
fn tracks(seconds: f64) -> f64 {
    let mut chance = Chance::new(3);
    let planes = detector(&mut chance, 60);
    let best = least(seconds, || {
        black_box(find(black_box(&planes)));
    });
    1.0 / best
}

type Plane = Vec<(f64, f64)>;

/// Hits of straight tracks with 10 % lost, and a third as many of noise; sorted by their first coordinate.
fn detector(chance: &mut Chance, tracks: usize) -> Vec<Plane> {
    let mut planes = vec![Plane::new(); 10];
    for _ in 0..tracks {
        let line: [f64; 4] = std::array::from_fn(|_| chance.unit() - 0.5);
        let [x, y, a, b] = line;
        for (z, plane) in planes.iter_mut().enumerate() {
            if z == 0 || z == 9 || chance.unit() < 0.9 {
                let mut blur = || (chance.unit() - 0.5) * 2e-3;
                plane.push((x + a * z as f64 / 9.0 + blur(), y + b * z as f64 / 9.0 + blur()));
            }
        }
    }
    for plane in &mut planes {
        plane.extend((0..tracks / 3).map(|_| (2.0 * chance.unit() - 1.0, 2.0 * chance.unit() - 1.0)));
        plane.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    planes
}

fn find(planes: &[Plane]) -> usize {
    const ROAD: f64 = 4e-3;
    let ([first, .., last], Some(between)) = (planes, planes.get(1..planes.len() - 1)) else { return 0 };
    let mut found = 0;
    for start in first {
        for stop in last {
            let mut hits = 2;
            for (z, plane) in between.iter().enumerate() {
                let part = (z + 1) as f64 / (between.len() + 1) as f64;
                let (x, y) = (start.0 + part * (stop.0 - start.0), start.1 + part * (stop.1 - start.1));
                let near = plane.partition_point(|hit| hit.0 < x - ROAD);
                let road = plane.iter().skip(near).take_while(|hit| hit.0 <= x + ROAD);
                hits += usize::from(road.into_iter().any(|hit| (hit.1 - y).abs() < ROAD));
                if hits + between.len() - 1 - z < 8 {
                    break;
                }
            }
            found += usize::from(hits >= 8);
        }
    }
    found
}

/// STREAM's kernels on three arrays of this many numbers: MB/s of copy, scale, add and triad, each at its quickest.
pub fn stream(length: usize, seconds: f64) -> [f64; 4] {
    let scalar = black_box(3.0);
    let (mut a, mut b, mut c) = (vec![1.0f64; length], vec![2.0f64; length], vec![0.0f64; length]);
    let mut best = [f64::INFINITY; 4];
    let (begin, mut runs) = (Instant::now(), 0);
    while runs < 4 || begin.elapsed().as_secs_f64() < seconds {
        let mut times = [0.0; 4];
        let [copy, scale, add, triad] = &mut times;
        let timed = |time: &mut f64, work: &mut dyn FnMut()| {
            let start = Instant::now();
            work();
            *time = start.elapsed().as_secs_f64();
        };
        timed(copy, &mut || {
            c.copy_from_slice(&a);
            black_box(&mut c);
        });
        timed(scale, &mut || {
            b.iter_mut().zip(&c).for_each(|(b, c)| *b = scalar * c);
            black_box(&mut b);
        });
        timed(add, &mut || {
            c.iter_mut().zip(&a).zip(&b).for_each(|((c, a), b)| *c = a + b);
            black_box(&mut c);
        });
        timed(triad, &mut || {
            a.iter_mut().zip(&b).zip(&c).for_each(|((a, b), c)| *a = b + scalar * c);
            black_box(&mut a);
        });
        if runs > 0 {
            // As STREAM: the first does not count.
            best.iter_mut().zip(times).for_each(|(best, time)| *best = best.min(time.max(1e-9)));
        }
        runs += 1;
    }
    let [copy, scale, add, triad] = best.map(|time| length as f64 * 8e-6 / time);
    [2.0 * copy, 2.0 * scale, 3.0 * add, 3.0 * triad]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracks_are_found() {
        let planes = detector(&mut Chance::new(3), 60);
        let found = find(&planes);
        assert!((50..90).contains(&found), "{found}");
        let noise: Vec<Plane> = detector(&mut Chance::new(3), 0);
        assert_eq!(find(&noise), 0);
    }

    #[test]
    fn the_quickest_run_counts() {
        let mut runs = 0;
        let best = least(0.0, || runs += 1);
        assert_eq!(runs, 4);
        assert!(best > 0.0 && best < 1.0);
    }
}
