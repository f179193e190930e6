//! Tests whether items of lists are near to items of other lists, to remove overlapping objects.
//!
//! `condition & all(deltaR(a, b) > 0.4)` is a single loop that computes no more distances than it needs. The results
//! equal those of the full distances ([`lists::nested_distances`]), to the last bit.

use super::lists::{self, MOST, no_such, not_lists, places, too_many};
use super::math::{self, Binary};
use super::value::{Cells, Element, Numbers, Value, same_lists};
use crate::error::{Error, Result};
use std::f64::consts::{PI, TAU};

/// A test of the distances from an item to all items of another list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Whether all distances must pass, or any.
    all: bool,
    /// `Greater`, `GreaterEqual`, `Less` or `LessEqual`.
    compared: Binary,
    with: f64,
    /// Operation that joins a condition with the result.
    joined: Binary,
}

impl Test {
    /// Creates a test of all distances or any, compared with a number; a condition is joined by `And` or `LogicalAnd`.
    pub fn new(all: bool, compared: Binary, with: f64, joined: Binary) -> Result<Self> {
        let known =
            matches!(compared, Binary::Greater | Binary::GreaterEqual | Binary::Less | Binary::LessEqual)
                && matches!(joined, Binary::And | Binary::LogicalAnd);
        if known {
            Ok(Self { all, compared, with, joined })
        } else {
            Err(Error::argument("the nodes are not a test of distances"))
        }
    }

    /// Computes the test from eta and phi of the items of two lists. Only items with a true value in `wanted` are
    /// tested.
    pub fn compute<'a>(&self, parts: &[&Value<'a>], wanted: Option<&[u8]>) -> Result<Value<'a>> {
        let [eta, phi, other_eta, other_phi] = parts else { return Err(not_lists()) };
        let (offsets, [eta, phi]) = pair(eta, phi)?;
        let (others, [other_eta, other_phi]) = pair(other_eta, other_phi)?;
        if offsets.len() != others.len() {
            return Err(Error::argument("the arrays have different numbers of lists"));
        }
        if places(offsets).zip(places(others)).any(|((_, n), (_, many))| n.saturating_mul(many) > MOST) {
            return Err(too_many());
        }
        let all = [eta, phi, other_eta, other_phi];
        let found =
            if let [Numbers::F32(eta), Numbers::F32(phi), Numbers::F32(other_eta), Numbers::F32(other_phi)] =
                all
            {
                self.found(offsets, others, [eta, phi], [other_eta, other_phi], wanted)
            } else {
                let [eta, phi, other_eta, other_phi] = all.map(f64::of);
                self.found(offsets, others, [&*eta, &*phi], [&*other_eta, &*other_phi], wanted)
            };
        Ok(Value::Lists(offsets.clone(), Box::new(Value::bools(found))))
    }

    /// The same for items with a true condition; the result is false elsewhere.
    pub fn where_true<'a>(&self, parts: &[&Value<'a>], condition: &Value<'a>) -> Result<Value<'a>> {
        if let (Some(Value::Lists(offsets, _)), Value::Lists(own, items)) = (parts.first(), condition)
            && let Value::Numbers(Numbers::Bool(truths), None) = &**items
            && same_lists(offsets, own)
        {
            return self.compute(parts, Some(truths));
        }
        math::binary(self.joined, condition, &self.compute(parts, None)?)
    }

    fn found<T: Element>(
        &self,
        offsets: &[i64],
        others: &[i64],
        [eta, phi]: [&[T]; 2],
        [other_eta, other_phi]: [&[T]; 2],
        wanted: Option<&[u8]>,
    ) -> Vec<u8> {
        if self.is_decided_afar() && [eta, phi, other_eta, other_phi].into_iter().all(is_tame) {
            return self.found_near(offsets, others, [eta, phi], [other_eta, other_phi], wanted);
        }
        let mut found = vec![0; eta.len()];
        for ((start, n), (begin, many)) in places(offsets).zip(places(others)) {
            let (Some(slots), Some(eta), Some(phi)) =
                (found.get_mut(start..start + n), eta.get(start..start + n), phi.get(start..start + n))
            else {
                continue;
            };
            let etas = other_eta.get(begin..begin + many).unwrap_or_default();
            let phis = other_phi.get(begin..begin + many).unwrap_or_default();
            for (place, ((slot, eta), phi)) in slots.iter_mut().zip(eta).zip(phi).enumerate() {
                if wanted.is_none_or(|wanted| wanted.get(start + place).is_some_and(|&truth| truth != 0)) {
                    let mut pairs = etas.iter().zip(phis).map(|(other_eta, other_phi)| {
                        self.passes(eta.double() - other_eta.double(), phi.double() - other_phi.double())
                    });
                    *slot = u8::from(if self.all {
                        pairs.all(|passes| passes)
                    } else {
                        pairs.any(|passes| passes)
                    });
                }
            }
        }
        found
    }

    /// Whether items that are far from each other in eta do not change the result.
    const fn is_decided_afar(&self) -> bool {
        self.with > LEAST
            && match self.compared {
                Binary::Greater | Binary::GreaterEqual => self.all,
                _ => !self.all,
            }
    }

    /// Does what `found` does. First collects the pairs that are near in eta, without a jump for each pair, and then
    /// computes the distances of these few.
    fn found_near<T: Element>(
        &self,
        offsets: &[i64],
        others: &[i64],
        [eta, phi]: [&[T]; 2],
        [other_eta, other_phi]: [&[T]; 2],
        wanted: Option<&[u8]>,
    ) -> Vec<u8> {
        let is_wanted = |place: usize| {
            u8::from(wanted.is_none_or(|wanted| wanted.get(place).is_some_and(|&truth| truth != 0)))
        };
        let mut found: Vec<u8> = (0..eta.len()).map(|place| u8::from(self.all) & is_wanted(place)).collect();
        let mut decide = |pairs: &[(usize, usize)]| {
            for &(place, other) in pairs {
                let own = (eta.get(place), phi.get(place), found.get_mut(place));
                let (Some(eta), Some(phi), Some(slot)) = own else { continue };
                let (Some(other_eta), Some(other_phi)) = (other_eta.get(other), other_phi.get(other)) else {
                    continue;
                };
                let passes =
                    self.passes(eta.double() - other_eta.double(), phi.double() - other_phi.double());
                if self.all {
                    *slot &= u8::from(passes);
                } else {
                    *slot |= u8::from(passes);
                }
            }
        };
        let mut near = [(0, 0); PAIRS];
        let mut count = 0;
        for ((start, n), (begin, many)) in places(offsets).zip(places(others)) {
            if many == 0 {
                continue;
            }
            let own = eta.get(start..start + n).unwrap_or_default();
            for first in (begin..begin + many).step_by(BLOCK) {
                // Nothing is near to what fills up the block.
                let mut block = [f64::INFINITY; BLOCK];
                let rest = other_eta.get(first..begin + many).unwrap_or_default();
                block.iter_mut().zip(rest).for_each(|(slot, eta)| *slot = eta.double());
                for (place, eta) in (start..).zip(own) {
                    let (eta, tested) = (eta.double(), is_wanted(place) != 0);
                    for (other, far) in (first..).zip(block.map(|other| (eta - other).abs() > self.with)) {
                        if let Some(slot) = near.get_mut(count) {
                            *slot = (place, other);
                        }
                        count += usize::from(!far & tested);
                    }
                    if count + BLOCK > PAIRS {
                        decide(near.get(..count).unwrap_or_default());
                        count = 0;
                    }
                }
            }
        }
        decide(near.get(..count).unwrap_or_default());
        found
    }

    /// Whether the distance for these differences passes.
    #[inline]
    fn passes(&self, eta: f64, phi: f64) -> bool {
        // The distance is at least the difference in eta, whose square does not underflow here.
        if eta.abs() > self.with && self.with > LEAST && phi.is_finite() {
            return matches!(self.compared, Binary::Greater | Binary::GreaterEqual);
        }
        let distance = lists::distance(eta, phi, !phi.plus(PI).is_within(TAU));
        match self.compared {
            Binary::Greater => distance > self.with,
            Binary::GreaterEqual => distance >= self.with,
            Binary::Less => distance < self.with,
            _ => distance <= self.with,
        }
    }
}

/// The square of any larger number is a normal number.
const LEAST: f64 = 1e-100;
/// Number of items that are compared at once.
const BLOCK: usize = 4;
/// Maximum number of pairs collected before their distances are computed.
const PAIRS: usize = 256;

/// Whether no difference of two of these numbers is infinite or NaN.
fn is_tame<T: Element>(cells: &[T]) -> bool {
    cells.iter().all(|cell| cell.double().abs() < 1e300)
}

/// Returns the offsets and items of two values with the same lists.
fn pair<'v, 'a>(
    one: &'v Value<'a>,
    other: &'v Value<'a>,
) -> Result<(&'v Cells<'a, i64>, [&'v Numbers<'a>; 2])> {
    let (Value::Lists(offsets, items), Value::Lists(same, more)) = (one, other) else {
        return Err(not_lists());
    };
    let (Value::Numbers(items, None), Value::Numbers(more, None)) = (&**items, &**more) else {
        return Err(no_such("distances"));
    };
    if !same_lists(offsets, same) {
        return Err(Error::argument("the lists have different lengths"));
    }
    Ok((offsets, [items, more]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(offsets: &[i64], cells: &[f32]) -> Value<'static> {
        Value::Lists(offsets.to_vec().into(), Box::new(Value::all(cells.to_vec())))
    }
    fn truths(value: &Value<'_>) -> Vec<u8> {
        let Value::Lists(_, items) = value else { unreachable!() };
        let Value::Numbers(Numbers::Bool(truths), None) = &**items else { unreachable!() };
        truths.to_vec()
    }

    #[test]
    fn tests_decided_afar_equal_those_of_all_distances() {
        // Numbers from -4 to 4 that follow from their place.
        let number = |seed: usize| (seed * 2_654_435_761 % 8001) as f32 / 1000.0 - 4.0;
        // More pairs than are collected at once, lists longer than a block, and empty ones.
        let (mut offsets, mut others) = (vec![0i64], vec![0i64]);
        for entry in 0..300 {
            offsets.push(offsets[entry] + (entry % 5) as i64);
            others.push(others[entry] + if entry == 150 { 400 } else { (entry % 7) as i64 });
        }
        let (n, m) = (offsets[300] as usize, others[300] as usize);
        let mut columns: [Vec<f32>; 4] = [
            (0..n).map(|i| number(i + 1)).collect(),
            (0..n).map(|i| number(i + 10_000)).collect(),
            (0..m).map(|i| number(i + 20_000)).collect(),
            (0..m).map(|i| number(i + 30_000)).collect(),
        ];
        let wanted: Vec<u8> = (0..n).map(|i| u8::from(i % 3 > 0)).collect();
        for round in 0..2 {
            // Then with numbers that have no distance.
            if round == 1 {
                columns[0][5] = f32::NAN;
                columns[3][7] = f32::INFINITY;
            }
            let [eta, phi, other_eta, other_phi] = &columns;
            let parts = [
                lists(&offsets, eta),
                lists(&offsets, phi),
                lists(&others, other_eta),
                lists(&others, other_phi),
            ];
            let parts: Vec<&Value<'_>> = parts.iter().collect();
            for (all, compared) in [true, false].into_iter().flat_map(|all| {
                [Binary::Greater, Binary::GreaterEqual, Binary::Less, Binary::LessEqual].map(|one| (all, one))
            }) {
                let test = Test::new(all, compared, 0.4, Binary::And).unwrap();
                let expected = |place: usize| {
                    let entry = offsets.partition_point(|&offset| offset <= place as i64) - 1;
                    let mut pairs = (others[entry] as usize..others[entry + 1] as usize).map(|other| {
                        let eta = f64::from(eta[place]) - f64::from(other_eta[other]);
                        let phi = f64::from(phi[place]) - f64::from(other_phi[other]);
                        let distance = lists::distance(eta, phi, true);
                        match compared {
                            Binary::Greater => distance > 0.4,
                            Binary::GreaterEqual => distance >= 0.4,
                            Binary::Less => distance < 0.4,
                            _ => distance <= 0.4,
                        }
                    });
                    u8::from(if all { pairs.all(|one| one) } else { pairs.any(|one| one) })
                };
                let expected: Vec<u8> = (0..n).map(expected).collect();
                assert_eq!(
                    truths(&test.compute(&parts, None).unwrap()),
                    expected,
                    "{all} {compared:?} {round}"
                );
                let some: Vec<u8> = expected.iter().zip(&wanted).map(|(one, wanted)| one & wanted).collect();
                assert_eq!(truths(&test.compute(&parts, Some(&wanted)).unwrap()), some);
            }
        }
    }
}
