//! Pairs of the items of two lists.

use super::super::value::{Element, Numbers, Value, same_lists, span, typed};
use super::{MOST, doubles, local_index, no_such, not_lists, places, put, put_same, too_many};
use crate::array::Number;
use crate::error::{Error, Result};
use std::f64::consts::{PI, TAU};

/// Pairs of the items of two lists: each item of the first list has an inner list as long as the second list.
struct Nested {
    /// For each entry: start and length of both lists.
    rows: Vec<[(usize, usize); 2]>,
    /// The offsets of the inner lists.
    ends: Vec<i64>,
    total: usize,
}

impl Nested {
    fn of(offsets: &[i64], others: &[i64]) -> Result<Self> {
        if offsets.len() != others.len() {
            return Err(Error::argument("the arrays have different numbers of lists"));
        }
        let (mut ends, mut total) = (vec![0i64; span(offsets) + 1], 0usize);
        let mut rows = Vec::with_capacity(offsets.len());
        let mut at = 1;
        for (mine, theirs) in places(offsets).zip(places(others)) {
            if mine.1.saturating_mul(theirs.1).saturating_add(total) > MOST {
                return Err(too_many());
            }
            let slots = ends.get_mut(at..at + mine.1).unwrap_or_default();
            for slot in slots {
                total += theirs.1;
                *slot = total as i64;
            }
            at += mine.1;
            rows.push([mine, theirs]);
        }
        ends.truncate(at);
        Ok(Self { rows, ends, total })
    }
    /// Returns, for each pair, the item of one of the two lists (`k`).
    fn items<T: Element>(&self, cells: &[T], k: usize) -> Vec<T> {
        let (mut found, mut at) = (vec![T::default(); self.total], 0);
        for &[(start, mine), (other, theirs)] in &self.rows {
            if theirs == 0 {
                continue;
            }
            for place in 0..mine {
                if k == 0 {
                    put_same(&mut found, at, cells.get(start + place).copied().unwrap_or_default(), theirs);
                } else {
                    put(&mut found, at, cells, other, theirs, |cell| cell);
                }
                at += theirs;
            }
        }
        found
    }
    /// Returns, for each pair, the difference of its items.
    fn differences(&self, mine: &[f64], theirs: &[f64]) -> Vec<f64> {
        let (mut found, mut at) = (vec![0.0; self.total], 0);
        for &[(start, many), (other, more)] in self.rows.iter().filter(|[_, (_, more)]| *more > 0) {
            for one in mine.get(start..start + many).unwrap_or_default() {
                put(&mut found, at, theirs, other, more, |other| one - other);
                at += more;
            }
        }
        found
    }
}

/// Returns, for each item of the first list, a list of places: its own place repeated (`k` 0), or the places of all
/// items of the second list.
pub fn nested<'a>(first: &Value<'a>, second: &Value<'a>, k: usize) -> Result<Value<'a>> {
    let of = local_index(if k == 0 { first } else { second })?;
    nested_items(&of, first, second, k)
}

/// Like [`nested`], with items instead of places; the items are in lists as long as these.
pub fn nested_items<'a>(
    value: &Value<'a>,
    first: &Value<'a>,
    second: &Value<'a>,
    k: usize,
) -> Result<Value<'a>> {
    let (Value::Lists(own, items), Value::Lists(offsets, _), Value::Lists(others, _)) =
        (value, first, second)
    else {
        return Err(not_lists());
    };
    let nested = Nested::of(offsets, others)?;
    if k > 1 || !same_lists(own, if k == 0 { offsets } else { others }) {
        return Err(Error::argument("the lists have different lengths"));
    }
    let found = match &**items {
        Value::Numbers(Numbers::Bool(cells), None) => Value::bools(nested.items(cells, k)),
        Value::Numbers(numbers, None) => {
            typed!(numbers.number(), T => Value::all(nested.items(&T::of(numbers), k)),
                else return Err(no_such("pairs")))
        }
        other => {
            let all: Vec<u64> = (0..span(own) as u64).collect();
            let places = nested.items(&all, k);
            other.gather(&places.into_iter().map(|place| place as usize).collect::<Vec<_>>())
        }
    };
    Ok(Value::Lists(offsets.clone(), Box::new(Value::Lists(nested.ends.into(), Box::new(found)))))
}

/// Returns the distance for a difference in eta and one in phi. `far`: the difference in phi may exceed a full turn.
#[inline]
pub fn distance(eta: f64, phi: f64, far: bool) -> f64 {
    let turned = phi.plus(PI);
    let angle = if far { turned.modulo(TAU) } else { turned.near_modulo(TAU) } - PI;
    (eta * eta + angle * angle).sqrt()
}

/// Returns the distances in eta and phi of each item of one list to all items of another.
pub fn nested_distances<'a>(parts: &[&Value<'a>]) -> Result<Value<'a>> {
    let Some((mine, theirs)) = parts.split_at_checked(2) else { return Err(not_lists()) };
    let ((offsets, mine), (others, theirs)) = (doubles(mine)?, doubles(theirs)?);
    let (&[eta, phi], &[other_eta, other_phi]) = (mine.as_slice(), theirs.as_slice()) else {
        return Err(not_lists());
    };
    let nested = Nested::of(offsets, others)?;
    let etas = nested.differences(eta, other_eta);
    let mut found = nested.differences(phi, other_phi);
    let far = !found.iter().all(|phi| phi.plus(PI).is_within(TAU));
    for (phi, eta) in found.iter_mut().zip(etas) {
        *phi = distance(eta, *phi, far);
    }
    let inner = Value::Lists(nested.ends.into(), Box::new(Value::all(found)));
    Ok(Value::Lists(offsets.clone(), Box::new(inner)))
}
