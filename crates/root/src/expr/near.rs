//! Which items of lists are near to those of other lists: objects that are taken for the same.
//!
//! `condition & all(deltaR(a, b) > 0.4)` is one loop that looks at no more distances than it needs. Results are those of
//! the distances themselves ([`lists::nested_distances`]), to the last bit.

use super::lists::{self, MOST, no_such, not_lists, places, too_many};
use super::math::{self, Binary};
use super::value::{Cells, Element, Numbers, Value, same_lists};
use crate::error::{Error, Result};
use std::f64::consts::{PI, TAU};

/// What is asked of the distances of an item to all items of another list.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Test {
    /// Whether all of them must pass, or any.
    all: bool,
    /// `Greater`, `GreaterEqual`, `Less` or `LessEqual`.
    compared: Binary,
    with: f64,
    /// How a condition is joined with the result.
    joined: Binary,
}

impl Test {
    /// Of all distances or any, which are compared with a number; a condition is joined by `And` or `LogicalAnd`.
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

    /// Eta and phi of the items of two lists; only those items are looked at for which something is true.
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

    /// The same where a condition of each item is true, and false elsewhere.
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

    /// Whether the distance of these differences passes.
    #[inline]
    fn passes(&self, eta: f64, phi: f64) -> bool {
        // No distance is less than the difference in eta, whose square is not rounded to zero.
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

/// The square of what is larger is an ordinary number.
const LEAST: f64 = 1e-100;

/// The offsets and items of two values of the same lists.
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
