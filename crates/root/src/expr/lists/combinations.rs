//! Combinations of the items of each list, and numbers computed from the sums of their members.

use super::super::value::{Cells, Element, Numbers, Value, same_lists, span, typed};
use super::{MOST, doubles, local_index, no_such, not_lists, places, put, put_same, too_many};
use crate::array::Number;
use crate::error::{Error, Result};
use std::sync::LazyLock;

/// Number of combinations of `n` items.
fn choices(items: usize, n: usize) -> usize {
    if n == 1 {
        return items;
    }
    // Longer lists have too many combinations.
    let items = items.min(1 << 16) as u64;
    let less = |i: u64| items.saturating_sub(i);
    match n {
        2 => (items * less(1) / 2) as usize,
        3 => (items * less(1) * less(2) / 6) as usize,
        _ if (items as usize) < n => 0,
        _ => (0..n as u128)
            .fold(1u128, |all, i| all.saturating_mul(u128::from(items) - i) / (i + 1))
            .min(MOST as u128 + 1) as usize,
    }
}

/// Lists with the numbers of their combinations.
struct Combined {
    /// Start of each list in its items, and its length.
    lists: Vec<(usize, usize)>,
    /// The offsets of the combinations of all lists.
    ends: Vec<i64>,
    /// Total number of combinations.
    total: usize,
}

impl Combined {
    fn of(offsets: &[i64], n: usize) -> Result<Self> {
        let (mut ends, mut total) = (Vec::with_capacity(offsets.len().max(1)), 0usize);
        let mut lists = vec![(0, 0); offsets.len()];
        let mut found = 0;
        ends.push(0i64);
        for (start, items) in places(offsets) {
            if let Some(slot) = lists.get_mut(found) {
                *slot = (start, items);
            }
            found += usize::from(items >= n);
            total += choices(items, n);
            if total > MOST {
                return Err(too_many());
            }
            ends.push(total as i64);
        }
        lists.truncate(found);
        Ok(Self { lists, ends, total })
    }
}

/// Calls `work` with the places of all combinations of `n` of the items, in order.
fn each_choice(items: usize, n: usize, mut work: impl FnMut(&[usize])) {
    if items < n || n == 0 {
        return;
    }
    let mut chosen: Vec<usize> = (0..n).collect();
    loop {
        work(&chosen);
        let least = items - n;
        let movable =
            chosen.iter().enumerate().rev().find(|(turn, at)| **at < least + turn).map(|(turn, _)| turn);
        let Some(turn) = movable else { break };
        let next = chosen.get(turn).map_or(0, |at| at + 1);
        chosen.iter_mut().skip(turn).zip(next..).for_each(|(slot, at)| *slot = at);
    }
}

/// Returns member `k` of all combinations of `n` items in each list.
fn members<T: Element>(cells: &[T], combined: &Combined, n: usize, k: usize) -> Vec<T> {
    let mut found = vec![T::default(); combined.total];
    let mut at = 0;
    for &(start, items) in &combined.lists {
        match (n, k) {
            (2, 0) => {
                for (place, &cell) in cells.get(start..start + items).unwrap_or_default().iter().enumerate() {
                    let n = items - 1 - place;
                    put_same(&mut found, at, cell, n);
                    at += n;
                }
            }
            (2, _) => {
                for place in 1..items {
                    put(&mut found, at, cells, start + place, items - place, |cell| cell);
                    at += items - place;
                }
            }
            _ => each_choice(items, n, |chosen| {
                let place = start + chosen.get(k).copied().unwrap_or_default();
                if let Some((slot, &cell)) = found.get_mut(at).zip(cells.get(place)) {
                    *slot = cell;
                }
                at += 1;
            }),
        }
    }
    found
}

/// Returns the places, in the outermost lists, of member `k` of all combinations of `n` of their items.
pub fn combinations<'a>(value: &Value<'a>, n: usize, k: usize) -> Result<Value<'a>> {
    combination_items(&local_index(value)?, value, n, k)
}

/// Returns member `k` of all combinations of `n` items of lists that have the lengths of other lists.
pub fn combination_items<'a>(value: &Value<'a>, of: &Value<'a>, n: usize, k: usize) -> Result<Value<'a>> {
    let (Value::Lists(offsets, items), Value::Lists(others, _)) = (value, of) else {
        return Err(not_lists());
    };
    if n == 0 || k >= n || n > 16 {
        return Err(no_such("combinations"));
    }
    if !same_lists(offsets, others) {
        return Err(Error::argument("the lists have different lengths"));
    }
    let combined = Combined::of(offsets, n)?;
    let found = match &**items {
        Value::Numbers(Numbers::Bool(cells), None) => Value::bools(members(cells, &combined, n, k)),
        Value::Numbers(numbers, None) => {
            typed!(numbers.number(), T => Value::all(members(&T::of(numbers), &combined, n, k)),
                else return Err(no_such("combinations")))
        }
        other => {
            let all: Vec<i64> = (0..span(offsets) as i64).collect();
            let places = members(&all, &combined, n, k);
            other.gather(&places.into_iter().map(|place| place as usize).collect::<Vec<_>>())
        }
    };
    Ok(Value::Lists(combined.ends.into(), Box::new(found)))
}

/// Returns the sums of the members of all combinations of `n` items, in the order of [`combinations`].
pub fn combination_sums<'a>(value: &Value<'a>, n: usize) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    let Value::Numbers(Numbers::F64(cells), None) = &**items else {
        return Err(no_such("sum of combinations"));
    };
    if n != 2 && n != 3 {
        return Err(no_such("sum of combinations"));
    }
    let combined = Combined::of(offsets, n)?;
    let found = squares(&combined, [cells], n, |[sum]| sum);
    Ok(Value::Lists(combined.ends.into(), Box::new(Value::all(found))))
}

/// Sums the components of the members of each combination and computes one number from the sums.
///
/// `parts` are the components of the items; [`Quantity`] selects the number.
pub fn combination_vectors<'a>(parts: &[&Value<'a>], n: usize, what: Quantity) -> Result<Value<'a>> {
    let (offsets, cells) = doubles(parts)?;
    if n != 2 && n != 3 {
        return Err(no_such("sum of combinations"));
    }
    let combined = Combined::of(offsets, n)?;
    let mut found = match (what, cells.as_slice()) {
        (Quantity::Mass, &[x, y, z, energy]) => squares(&combined, [x, y, z, energy], n, mass_square),
        (Quantity::Pt, &[x, y]) => squares(&combined, [x, y], n, pt_square),
        _ => return Err(no_such("quantity of combinations")),
    };
    // Square roots in a loop of their own, so that several are computed at once.
    match what {
        Quantity::Mass => found.iter_mut().for_each(|square| *square = mass(*square)),
        Quantity::Pt => found.iter_mut().for_each(|square| *square = square.sqrt()),
    }
    Ok(Value::Lists(combined.ends.into(), Box::new(Value::all(found))))
}

/// Like [`combination_vectors`], for one combination of each list: the last of `parts` holds its place.
pub fn combination_vector_at<'a>(parts: &[&Value<'a>], n: usize, what: Quantity) -> Result<Value<'a>> {
    let Some((Value::Numbers(Numbers::I64(wanted), there), parts)) = parts.split_last() else {
        return Err(no_such("places"));
    };
    let (offsets, cells) = doubles(parts)?;
    if (n != 2 && n != 3) || wanted.len() + 1 != offsets.len() {
        return Err(no_such("sum of combinations"));
    }
    if n == 2 {
        vector_at(offsets, &cells, wanted, there.as_ref(), what, pairs_listed())
    } else {
        vector_at(offsets, &cells, wanted, there.as_ref(), what, triples_listed())
    }
}

fn vector_at<'a, const N: usize>(
    offsets: &[i64],
    cells: &[&[f64]],
    wanted: &[i64],
    there: Option<&Cells<'a, u8>>,
    what: Quantity,
    listed: &Listed<N>,
) -> Result<Value<'a>> {
    let exists = there.map(|there| &**there);
    let found: Vec<f64> = match (what, cells) {
        (Quantity::Mass, &[x, y, z, energy]) => {
            let sums = sums_at::<4, N>(offsets, [x, y, z, energy], wanted, exists, listed)?;
            sums.into_iter().map(|sum| mass(mass_square(sum))).collect()
        }
        (Quantity::Pt, &[x, y]) => {
            let sums = sums_at::<2, N>(offsets, [x, y], wanted, exists, listed)?;
            sums.into_iter().map(|sum| pt_square(sum).sqrt()).collect()
        }
        _ => return Err(no_such("quantity of combinations")),
    };
    Ok(Value::Numbers(f64::wrap(found.into()), there.cloned()))
}

/// Returns, for each list, the sum of the members of one combination; zeros if there is none.
fn sums_at<const D: usize, const N: usize>(
    offsets: &[i64],
    cells: [&[f64]; D],
    wanted: &[i64],
    there: Option<&[u8]>,
    listed: &Listed<N>,
) -> Result<Vec<[f64; D]>> {
    let own = |place: usize| cells.map(|cells| cells.get(place).copied().unwrap_or(0.0));
    let mut found = Vec::with_capacity(wanted.len());
    for (row, ((start, items), &place)) in places(offsets).zip(wanted).enumerate() {
        let all = choices(items, N);
        let place = if place < 0 { place + all as i64 } else { place };
        let mut rest = match usize::try_from(place) {
            Ok(place) if place < all => place,
            _ if there.is_none_or(|there| there.get(row).is_some_and(|&cell| cell != 0)) => {
                return Err(Error::argument("an index is outside of its list"));
            }
            _ => {
                found.push([0.0; D]);
                continue;
            }
        };
        if let Some(places) = listed.get(items).and_then(|choices| choices.get(rest)) {
            let mut members = places.iter().map(|&place| own(start + usize::from(place)));
            let first = members.next().unwrap_or([0.0; D]);
            found.push(members.fold(first, |sum, member| plus(sum, &member)));
            continue;
        }
        let mut sum: Option<[f64; D]> = None;
        let mut item = 0;
        for left in (0..N).rev() {
            // Combinations of the following items begin with this item.
            while left > 0 && item < items && rest >= choices(items - item - 1, left) {
                rest -= choices(items - item - 1, left);
                item += 1;
            }
            if left == 0 {
                item += rest;
            }
            let member = own(start + item);
            sum = Some(sum.map_or(member, |sum| plus(sum, &member)));
            item += 1;
        }
        found.push(sum.unwrap_or([0.0; D]));
    }
    Ok(found)
}

/// The quantity computed by `combination_vectors`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// The invariant mass, from x, y, z and energy.
    Mass,
    /// The transverse momentum, from x and y.
    Pt,
}

impl Quantity {
    /// All quantities, by their names in Python.
    pub const NAMES: &[(&str, Self)] = &[("mass", Self::Mass), ("pt", Self::Pt)];
}

fn mass_square([x, y, z, energy]: [f64; 4]) -> f64 {
    energy * energy - (x * x + y * y + z * z)
}

fn mass(square: f64) -> f64 {
    square.abs().sqrt().copysign(square)
}

fn pt_square([x, y]: [f64; 2]) -> f64 {
    x * x + y * y
}

fn plus<const D: usize>(mut one: [f64; D], other: &[f64; D]) -> [f64; D] {
    one.iter_mut().zip(other).for_each(|(sum, more)| *sum += more);
    one
}

/// Maximum number of items in a list whose combinations are looked up.
const LISTED: usize = 8;

/// The places of all combinations of `N` items, by list length up to [`LISTED`].
type Listed<const N: usize> = [Vec<[u8; N]>; LISTED + 1];

fn listed<const N: usize>() -> Listed<N> {
    std::array::from_fn(|items| {
        let mut found = Vec::new();
        each_choice(items, N, |chosen| {
            let mut places = [0; N];
            places.iter_mut().zip(chosen).for_each(|(slot, &place)| *slot = place as u8);
            found.push(places);
        });
        found
    })
}

fn pairs_listed() -> &'static Listed<2> {
    static KNOWN: LazyLock<Listed<2>> = LazyLock::new(listed);
    &KNOWN
}

fn triples_listed() -> &'static Listed<3> {
    static KNOWN: LazyLock<Listed<3>> = LazyLock::new(listed);
    &KNOWN
}

/// Returns the sum of the rows at these places.
fn sum_of<const D: usize, const N: usize>(rows: &[[f64; D]; LISTED], places: [u8; N]) -> [f64; D] {
    let row = |place: u8| rows.get(usize::from(place) % LISTED).copied().unwrap_or([0.0; D]);
    let Some((&first, others)) = places.split_first() else { return [0.0; D] };
    others.iter().fold(row(first), |sum, &other| plus(sum, &row(other)))
}

/// Calls `work` with the sums of `before` and `n` of the rows, in the order of [`each_choice`].
fn each_sum<const D: usize>(
    list: &[[f64; D]],
    before: Option<[f64; D]>,
    n: usize,
    work: &mut impl FnMut([f64; D]),
) {
    let with = |row: &[f64; D]| before.map_or(*row, |sum| plus(sum, row));
    if n == 1 {
        return list.iter().for_each(|row| work(with(row)));
    }
    for (place, row) in list.iter().enumerate() {
        each_sum(list.get(place + 1..).unwrap_or_default(), Some(with(row)), n - 1, work);
    }
}

/// Computes, for each combination, a number from the sum of its `N` members.
fn of_sums<const D: usize, const N: usize>(
    combined: &Combined,
    cells: [&[f64]; D],
    listed: &Listed<N>,
    work: impl Fn([f64; D]) -> f64,
) -> Vec<f64> {
    let mut list: Vec<[f64; D]> = Vec::new();
    let mut found = vec![0.0; combined.total];
    let mut at = 0;
    let item = |place: usize| cells.map(|cells| cells.get(place).copied().unwrap_or(0.0));
    for &(start, length) in &combined.lists {
        if let Some(choices) = listed.get(length) {
            let mut rows = [[0.0; D]; LISTED];
            rows.iter_mut().zip(start..start + length).for_each(|(row, place)| *row = item(place));
            let slots = found.get_mut(at..at + choices.len()).unwrap_or_default();
            slots.iter_mut().zip(choices).for_each(|(slot, places)| *slot = work(sum_of(&rows, *places)));
            at += choices.len();
            continue;
        }
        list.clear();
        list.extend((start..start + length).map(item));
        each_sum(&list, None, N, &mut |sum| {
            if let Some(slot) = found.get_mut(at) {
                *slot = work(sum);
            }
            at += 1;
        });
    }
    found
}

/// The same for two or three members.
fn squares<const D: usize>(
    combined: &Combined,
    cells: [&[f64]; D],
    n: usize,
    work: impl Fn([f64; D]) -> f64,
) -> Vec<f64> {
    if n == 2 {
        of_sums(combined, cells, pairs_listed(), work)
    } else {
        of_sums(combined, cells, triples_listed(), work)
    }
}
