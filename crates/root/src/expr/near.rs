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
            Err(Error::argument("no test of distances"))
        }
    }

    /// Computes the test from eta and phi of the items of two lists. Only items with a true value in `wanted` are
    /// tested.
    pub fn compute<'a>(&self, parts: &[&Value<'a>], wanted: Option<&[u8]>) -> Result<Value<'a>> {
        let [eta, phi, other_eta, other_phi] = parts else { return Err(not_lists()) };
        let (offsets, [eta, phi]) = pair(eta, phi)?;
        let (others, [other_eta, other_phi]) = pair(other_eta, other_phi)?;
        if offsets.len() != others.len() {
            return Err(Error::argument("the lists differ in number"));
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
            }?;
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
    ) -> Result<Vec<u8>> {
        let mut found = vec![0; eta.len()];
        for ((start, n), (begin, many)) in places(offsets).zip(places(others)) {
            if n.saturating_mul(many) > MOST {
                return Err(too_many());
            }
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
        Ok(found)
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
        return Err(Error::argument("the lists differ in length"));
    }
    Ok((offsets, [items, more]))
}
