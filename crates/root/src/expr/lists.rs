//! Operations on lists: reductions, selections, sorting, combinations.

use super::math::common;
use super::value::{Cells, Constant, Element, Numbers, Value, counts, pairs, same_lists, span, typed};
use crate::array::Number;
use crate::error::{Error, Result};
use std::cmp::Ordering;
use std::f64::consts::{PI, TAU};

/// Reductions of the innermost lists to one number each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "Awkward's names")]
pub enum Reduction {
    Sum,
    Any,
    All,
    Min,
    Max,
    Argmin,
    Argmax,
    Mean,
}

impl Reduction {
    /// All reductions, by their names in Python.
    pub const NAMES: &[(&str, Self)] = &[
        ("sum", Self::Sum),
        ("any", Self::Any),
        ("all", Self::All),
        ("min", Self::Min),
        ("max", Self::Max),
        ("argmin", Self::Argmin),
        ("argmax", Self::Argmax),
        ("mean", Self::Mean),
    ];
}

/// Maximum number of items in the combinations of one chunk.
pub(super) const MOST: usize = 1 << 23;

pub(super) fn not_lists() -> Error {
    Error::argument("a list is needed here")
}

pub(super) fn no_such(what: &str) -> Error {
    Error::unsupported(format!("the engine has no {what} of these values"))
}

/// Iterates over the items of each list.
fn each_list<'v, T>(offsets: &'v [i64], cells: &'v [T]) -> impl Iterator<Item = &'v [T]> {
    let base = offsets.first().copied().unwrap_or(0);
    pairs(offsets).map(move |(start, stop)| {
        cells.get((start - base) as usize..(stop - base) as usize).unwrap_or_default()
    })
}

/// Start of each list in its items, and its length.
pub(super) fn places(offsets: &[i64]) -> impl Iterator<Item = (usize, usize)> {
    let base = offsets.first().copied().unwrap_or(0);
    pairs(offsets).map(move |(start, stop)| ((start - base) as usize, (stop - start) as usize))
}

/// Reduces the innermost lists.
pub fn reduce<'a>(what: Reduction, value: &Value<'a>) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    match &**items {
        Value::Lists(..) => Ok(Value::Lists(offsets.clone(), Box::new(reduce(what, items)?))),
        Value::Numbers(numbers, None) => reduced(what, offsets, numbers),
        _ => Err(no_such("reduction")),
    }
}

/// Returns the sums of whole numbers before each item, and of all items. The sum of a list is a difference of two of
/// them, which avoids a loop over each short list.
fn running<T: Element>(cells: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut sums = vec![T::default(); cells.len() + 1];
    let mut sum = T::default();
    for (slot, cell) in sums.iter_mut().skip(1).zip(cells) {
        sum = sum.plus(cell);
        *slot = sum;
    }
    sums
}

/// Returns the sum of each list from the cumulative sums.
fn differences<T: Element>(offsets: &[i64], sums: &[T]) -> Vec<T> {
    let base = offsets.first().copied().unwrap_or(0);
    let at = |offset: i64| sums.get((offset - base) as usize).copied().unwrap_or_default();
    pairs(offsets).map(|(start, stop)| at(stop).minus(at(start))).collect()
}

fn whole<T: Element>(offsets: &[i64], numbers: &Numbers<'_>) -> Vec<T> {
    differences(offsets, &running(T::of(numbers).iter().copied()))
}

/// Counts the true items of each list. 32-bit counts need half the bytes.
fn true_items(offsets: &[i64], numbers: &Numbers<'_>) -> Result<Vec<u32>> {
    if numbers.len() >= u32::MAX as usize {
        return Err(no_such("number"));
    }
    Ok(differences(offsets, &running(numbers.truths().iter().map(|&cell| u32::from(cell != 0)))))
}

fn summed<T: Element>(offsets: &[i64], numbers: &Numbers<'_>) -> Vec<T> {
    each_list(offsets, &T::of(numbers))
        .map(|list| list.iter().fold(T::default(), |sum, &item| sum.plus(item)))
        .collect()
}

/// Returns the place of the first item such that no other item is better.
fn best_place<T: Element>(list: &[T], better: impl Fn(T, T) -> bool) -> i64 {
    let Some(&first) = list.first() else { return 0 };
    let found = (0i64..).zip(list).skip(1).fold((0, first), |(place, best), (at, &item)| {
        if better(item, best) { (at, item) } else { (place, best) }
    });
    found.0
}

fn reduced<'a>(what: Reduction, offsets: &[i64], numbers: &Numbers<'a>) -> Result<Value<'a>> {
    let number = numbers.number();
    Ok(match what {
        Reduction::Sum => match number {
            Number::F32 => Value::all(summed::<f32>(offsets, numbers)),
            Number::F64 => Value::all(summed::<f64>(offsets, numbers)),
            Number::U8 | Number::U16 | Number::U32 | Number::U64 => {
                Value::all(whole::<u64>(offsets, numbers))
            }
            Number::Bool => {
                Value::all(true_items(offsets, numbers)?.into_iter().map(i64::from).collect::<Vec<_>>())
            }
            _ => Value::all(whole::<i64>(offsets, numbers)),
        },
        Reduction::Mean => {
            let sums = reduced(Reduction::Sum, offsets, numbers)?;
            let Value::Numbers(sums, _) = sums else { return Err(no_such("mean")) };
            Value::all(
                f64::of(&sums)
                    .iter()
                    .zip(counts(offsets))
                    .map(|(sum, n)| sum / n as f64)
                    .collect::<Vec<f64>>(),
            )
        }
        Reduction::Any => {
            Value::bools(true_items(offsets, numbers)?.iter().map(|&n| u8::from(n > 0)).collect())
        }
        Reduction::All => {
            let found = true_items(offsets, numbers)?;
            Value::bools(
                found.iter().zip(counts(offsets)).map(|(&n, all)| u8::from(n as usize == all)).collect(),
            )
        }
        Reduction::Min | Reduction::Max | Reduction::Argmin | Reduction::Argmax => {
            let there: Vec<u8> = counts(offsets).map(|n| u8::from(n > 0)).collect();
            let found = typed!(number, T => {
                let cells = T::of(numbers);
                let lists = each_list(offsets, &cells);
                match what {
                    Reduction::Min => T::wrap(lists.map(|list| {
                        list.iter().fold(T::MOST, |least, &item| if item < least { item } else { least })
                    }).collect::<Vec<T>>().into()),
                    Reduction::Max => T::wrap(lists.map(|list| {
                        list.iter().fold(T::LEAST, |most, &item| if item > most { item } else { most })
                    }).collect::<Vec<T>>().into()),
                    Reduction::Argmin => i64::wrap(lists.map(|list| best_place(list, |a, b| a < b)).collect::<Vec<_>>().into()),
                    _ => i64::wrap(lists.map(|list| best_place(list, |a, b| a > b)).collect::<Vec<_>>().into()),
                }
            }, else return Err(no_such("smallest or largest")));
            Value::Numbers(found, Some(there.into()))
        }
    })
}

/// Counts the items of the outermost lists.
pub fn count<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    let Value::Lists(offsets, _) = value else { return Err(not_lists()) };
    Ok(Value::all(counts(offsets).map(|n| n as i64).collect::<Vec<i64>>()))
}

/// Returns the first item of each list; missing for an empty list.
pub fn first<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    let Value::Numbers(numbers, None) = &**items else { return Err(no_such("first item")) };
    let firsts: Vec<usize> =
        places(offsets).map(|(start, n)| if n > 0 { start } else { usize::MAX }).collect();
    let there: Vec<u8> = counts(offsets).map(|n| u8::from(n > 0)).collect();
    Ok(Value::Numbers(numbers.gather(&firsts), Some(there.into())))
}

/// Ascending order of items in a list; NaN comes first.
fn order<T: Element>(a: T, b: T) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

/// Returns the places that sort the items of the outermost lists in ascending order.
pub fn argsort<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    let Value::Numbers(numbers, None) = &**items else { return Err(no_such("order")) };
    let mut all: Vec<i64> = Vec::with_capacity(span(offsets));
    typed!(numbers.number(), T => for list in each_list(offsets, &T::of(numbers)) {
        let begin = all.len();
        all.extend(0..list.len() as i64);
        if let Some(part) = all.get_mut(begin..) {
            let at = |place: &i64| list.get(*place as usize).copied().unwrap_or_default();
            part.sort_by(|a, b| order(at(a), at(b)));
        }
    }, else return Err(no_such("order")));
    Ok(Value::Lists(offsets.clone(), Box::new(Value::all(all))))
}

/// Returns the items of each list at places within it; negative places count from its end.
pub fn take<'a>(value: &Value<'a>, wanted: &Value<'a>) -> Result<Value<'a>> {
    let (Value::Lists(offsets, items), Value::Lists(ends, inner)) = (value, wanted) else {
        return Err(not_lists());
    };
    if let Value::Lists(within, inner) = &**inner {
        // Nested lists of places are flattened to one list of places, which is divided again.
        let base = within.first().copied().unwrap_or(0);
        let first = ends.first().copied().unwrap_or(0);
        let outer = ends.iter().map(|end| within.get((end - first) as usize).map_or(0, |inner| inner - base));
        let joined = Value::Lists(outer.collect::<Vec<i64>>().into(), inner.clone());
        let Value::Lists(_, items) = take(value, &joined)? else { return Err(not_lists()) };
        return Ok(Value::Lists(ends.clone(), Box::new(Value::Lists(within.clone(), items))));
    }
    let Value::Numbers(Numbers::I64(wanted), None) = &**inner else { return Err(no_such("places")) };
    if offsets.len() != ends.len() {
        return Err(Error::argument("the lists differ in number"));
    }
    let mut found = Vec::with_capacity(wanted.len());
    for ((start, n), wanted) in places(offsets).zip(each_list(ends, wanted)) {
        for &place in wanted {
            let place = if place < 0 { place + n as i64 } else { place };
            match usize::try_from(place) {
                Ok(place) if place < n => found.push(start + place),
                _ => return Err(Error::argument("a place beyond the end of its list")),
            }
        }
    }
    Ok(Value::Lists(ends.clone(), Box::new(items.gather(&found))))
}

/// Returns one item of each list, at the given place; missing if the place is missing.
pub fn at<'a>(value: &Value<'a>, wanted: &Value<'a>) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    let Value::Numbers(numbers, None) = &**items else { return Err(no_such("item at a place")) };
    let Value::Numbers(Numbers::I64(wanted), there) = wanted else { return Err(no_such("places")) };
    let mut found = Vec::with_capacity(wanted.len());
    let exists =
        |row: usize| there.as_ref().is_none_or(|there| there.get(row).is_some_and(|&cell| cell != 0));
    for (row, ((start, n), &place)) in places(offsets).zip(wanted.iter()).enumerate() {
        let place = if place < 0 { place + n as i64 } else { place };
        match usize::try_from(place) {
            Ok(place) if place < n => found.push(start + place),
            _ if exists(row) => return Err(Error::argument("a place beyond the end of its list")),
            _ => found.push(usize::MAX),
        }
    }
    Ok(Value::Numbers(numbers.gather(&found), there.clone()))
}

/// Filters the items of each list, either by bools in lists of the same lengths or by places in lists.
pub fn filter<'a>(value: &Value<'a>, mask: &Value<'a>) -> Result<Value<'a>> {
    let (Value::Lists(offsets, items), Value::Lists(ends, inner)) = (value, mask) else {
        return Err(no_such("selection"));
    };
    if matches!(**inner, Value::Numbers(Numbers::I64(_), None)) {
        return take(value, mask);
    }
    if !same_lists(offsets, ends) {
        return Err(Error::argument("the lists differ in length"));
    }
    if let (Value::Lists(..), Value::Lists(..)) = (&**items, &**inner) {
        return Ok(Value::Lists(offsets.clone(), Box::new(filter(items, inner)?)));
    }
    let Value::Numbers(Numbers::Bool(truths), None) = &**inner else { return Err(no_such("selection")) };
    if truths.iter().all(|&truth| truth != 0) {
        return Ok(value.clone());
    }
    let sums = running(truths.iter().map(|&cell| i64::from(cell != 0)));
    let base = offsets.first().copied().unwrap_or(0);
    let ends: Vec<i64> = offsets
        .iter()
        .map(|offset| sums.get((offset - base) as usize).copied().unwrap_or_default())
        .collect();
    let (mut found, mut n) = (vec![0usize; truths.len()], 0);
    for (place, &truth) in truths.iter().enumerate() {
        if let Some(slot) = found.get_mut(n) {
            *slot = place;
        }
        n += usize::from(truth != 0);
    }
    found.truncate(n);
    Ok(Value::Lists(ends.into(), Box::new(items.gather(&found))))
}

/// Returns a slice of each list, as in Python.
pub fn slice<'a>(value: &Value<'a>, start: Option<i64>, stop: Option<i64>, step: i64) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    if step == 0 {
        return Err(Error::argument("the step of a slice cannot be 0"));
    }
    let (mut ends, mut found) = (Vec::with_capacity(offsets.len()), Vec::new());
    ends.push(0i64);
    for (begin, n) in places(offsets) {
        let n = n as i64;
        let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
        let bound = |given: Option<i64>, open: i64| match given {
            None => open,
            Some(place) if place < 0 => place.saturating_add(n).clamp(low, high),
            Some(place) => place.clamp(low, high),
        };
        let (mut place, end) =
            if step > 0 { (bound(start, 0), bound(stop, n)) } else { (bound(start, n - 1), bound(stop, -1)) };
        while if step > 0 { place < end } else { place > end } {
            found.push(begin + place as usize);
            place = place.saturating_add(step);
        }
        ends.push(found.len() as i64);
    }
    Ok(Value::Lists(ends.into(), Box::new(items.gather(&found))))
}

/// Returns the item of each list at a fixed place, which must exist in all of them.
pub fn index<'a>(value: &Value<'a>, place: i64) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    let mut found = Vec::with_capacity(offsets.len());
    for (begin, n) in places(offsets) {
        let place = if place < 0 { place + n as i64 } else { place };
        match usize::try_from(place) {
            Ok(place) if place < n => found.push(begin + place),
            _ => return Err(Error::argument("a list is too short")),
        }
    }
    Ok(items.gather(&found))
}

pub(super) fn too_many() -> Error {
    Error::limit(format!("more than {MOST} combinations in a few entries"))
}

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

/// Number of items written at once.
const BLOCK: usize = 4;

/// Writes the results of `work` for `n` items. It may write more, which the next write replaces. Short lists are thus
/// written without a loop.
#[inline]
pub(super) fn put<T: Copy, R>(
    found: &mut [R],
    at: usize,
    cells: &[T],
    start: usize,
    n: usize,
    work: impl Fn(T) -> R,
) {
    let mut done = 0;
    loop {
        let (from, to) = (start + done, at + done);
        let (Some(own), Some(slots)) = (cells.get(from..from + BLOCK), found.get_mut(to..to + BLOCK)) else {
            let cells = cells.get(from..start + n).unwrap_or_default();
            let slots = found.get_mut(to..at + n).unwrap_or_default();
            return slots.iter_mut().zip(cells).for_each(|(slot, &cell)| *slot = work(cell));
        };
        slots.iter_mut().zip(own).for_each(|(slot, &cell)| *slot = work(cell));
        done += BLOCK;
        // One block is always written, so that empty and short lists take the same path.
        if done >= n {
            return;
        }
    }
}

/// Writes an item `n` times, possibly more, like [`put`].
#[inline]
fn put_same<T: Copy>(found: &mut [T], at: usize, cell: T, n: usize) {
    let mut done = 0;
    while done < n {
        match found.get_mut(at + done..at + done + BLOCK) {
            Some(found) => found.fill(cell),
            None => found.get_mut(at + done..at + n).unwrap_or_default().fill(cell),
        }
        done += BLOCK;
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
        return Err(Error::argument("the lists differ in length"));
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

/// Returns the doubles in lists of the same lengths, and their offsets.
fn doubles<'v, 'a>(parts: &[&'v Value<'a>]) -> Result<(&'v Cells<'a, i64>, Vec<&'v [f64]>)> {
    let mut offsets: Option<&Cells<'a, i64>> = None;
    let mut cells: Vec<&[f64]> = Vec::with_capacity(parts.len());
    for part in parts {
        let Value::Lists(own, items) = part else { return Err(not_lists()) };
        let Value::Numbers(Numbers::F64(items), None) = &**items else {
            return Err(no_such("sum of combinations"));
        };
        if offsets.is_some_and(|first| !same_lists(first, own)) {
            return Err(Error::argument("the lists differ in length"));
        }
        offsets = offsets.or(Some(own));
        cells.push(items);
    }
    Ok((offsets.ok_or_else(not_lists)?, cells))
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
        vector_at::<2>(offsets, &cells, wanted, there.as_ref(), what)
    } else {
        vector_at::<3>(offsets, &cells, wanted, there.as_ref(), what)
    }
}

fn vector_at<'a, const N: usize>(
    offsets: &[i64],
    cells: &[&[f64]],
    wanted: &[i64],
    there: Option<&Cells<'a, u8>>,
    what: Quantity,
) -> Result<Value<'a>> {
    let exists = there.map(|there| &**there);
    let found: Vec<f64> = match (what, cells) {
        (Quantity::Mass, &[x, y, z, energy]) => {
            let sums = sums_at::<4, N>(offsets, [x, y, z, energy], wanted, exists)?;
            sums.into_iter().map(|sum| mass(mass_square(sum))).collect()
        }
        (Quantity::Pt, &[x, y]) => {
            let sums = sums_at::<2, N>(offsets, [x, y], wanted, exists)?;
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
) -> Result<Vec<[f64; D]>> {
    let listed = listed::<N>();
    let own = |place: usize| cells.map(|cells| cells.get(place).copied().unwrap_or(0.0));
    let mut found = Vec::with_capacity(wanted.len());
    for (row, ((start, items), &place)) in places(offsets).zip(wanted).enumerate() {
        let all = choices(items, N);
        let place = if place < 0 { place + all as i64 } else { place };
        let mut rest = match usize::try_from(place) {
            Ok(place) if place < all => place,
            _ if there.is_none_or(|there| there.get(row).is_some_and(|&cell| cell != 0)) => {
                return Err(Error::argument("a place beyond the end of its list"));
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
fn listed<const N: usize>() -> Vec<Vec<[u8; N]>> {
    let of = |items: usize| {
        let mut found = Vec::new();
        each_choice(items, N, |chosen| {
            let mut places = [0; N];
            places.iter_mut().zip(chosen).for_each(|(slot, &place)| *slot = place as u8);
            found.push(places);
        });
        found
    };
    (0..=LISTED).map(of).collect()
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
    work: impl Fn([f64; D]) -> f64,
) -> Vec<f64> {
    let listed = listed::<N>();
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
    if n == 2 { of_sums::<D, 2>(combined, cells, work) } else { of_sums::<D, 3>(combined, cells, work) }
}

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
            return Err(Error::argument("the lists differ in number"));
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
        return Err(Error::argument("the lists differ in length"));
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
pub(super) fn distance(eta: f64, phi: f64, far: bool) -> f64 {
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

/// Returns the place of each item in its list.
pub fn local_index<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    let Value::Lists(offsets, _) = value else { return Err(not_lists()) };
    let mut found = Vec::with_capacity(span(offsets));
    counts(offsets).for_each(|n| found.extend(0..n as i64));
    Ok(Value::Lists(offsets.clone(), Box::new(Value::all(found))))
}

/// Concatenates, in each row, the items of several lists; returns the new offsets and items.
fn join<T: Copy + Default>(lists: &[(&[i64], Cells<'_, T>)]) -> (Vec<i64>, Vec<T>) {
    let mut found = vec![T::default(); lists.iter().map(|(_, cells)| cells.len()).sum()];
    let mut ends = vec![0; lists.first().map_or(0, |(offsets, _)| offsets.len())];
    let mut at = 0;
    if let [(one, first), (other, second)] = lists {
        let rows = ends.iter_mut().skip(1).zip(places(one)).zip(places(other));
        for ((end, (start, n)), (begin, more)) in rows {
            put(&mut found, at, first, start, n, |cell| cell);
            put(&mut found, at + n, second, begin, more, |cell| cell);
            at += n + more;
            *end = at as i64;
        }
        return (ends, found);
    }
    let mut all: Vec<_> = lists.iter().map(|(offsets, cells)| (places(offsets), cells)).collect();
    for end in ends.iter_mut().skip(1) {
        for (places, cells) in &mut all {
            let (start, n) = places.next().unwrap_or_default();
            put(&mut found, at, cells, start, n, |cell| cell);
            at += n;
        }
        *end = at as i64;
    }
    (ends, found)
}

/// Returns the items of the lists of each entry, one list after the other.
pub fn concatenate<'a>(values: &[&Value<'a>]) -> Result<Value<'a>> {
    let mut lists = Vec::with_capacity(values.len());
    let mut number: Option<Number> = None;
    for value in values {
        let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
        let Value::Numbers(numbers, None) = &**items else { return Err(no_such("concatenation")) };
        let own = numbers.number();
        number = Some(number.map_or(own, |before| common(before, own)));
        lists.push((&**offsets, numbers));
    }
    let (Some(number), Some((first, _))) = (number, lists.first()) else { return Err(not_lists()) };
    if lists.iter().any(|(offsets, _)| offsets.len() != first.len()) {
        return Err(Error::argument("the lists differ in number"));
    }
    let (ends, items) = typed!(number, T => {
        let cells = lists.iter().map(|(offsets, numbers)| (*offsets, T::of(numbers)));
        let (ends, items) = join::<T>(&cells.collect::<Vec<_>>());
        (ends, Value::all(items))
    }, else {
        let cells = lists.iter().map(|(offsets, numbers)| (*offsets, numbers.truths()));
        let (ends, items) = join(&cells.collect::<Vec<_>>());
        (ends, Value::bools(items))
    });
    Ok(Value::Lists(ends.into(), Box::new(items)))
}

/// Returns the places in list `k` of the members of the Cartesian product of several lists in each entry.
pub fn cartesian<'a>(values: &[&Value<'a>], k: usize) -> Result<Value<'a>> {
    let mut lists: Vec<Vec<usize>> = Vec::new();
    for value in values {
        let Value::Lists(offsets, _) = value else { return Err(not_lists()) };
        lists.push(counts(offsets).collect());
    }
    let length = lists.first().map_or(0, Vec::len);
    if lists.iter().any(|list| list.len() != length) || k >= lists.len() {
        return Err(Error::argument("the lists differ in number"));
    }
    let (mut ends, mut found) = (Vec::with_capacity(length + 1), Vec::<i64>::new());
    ends.push(0i64);
    for row in 0..length {
        let size = |list: &Vec<usize>| list.get(row).copied().unwrap_or(0);
        let product = |part: &[Vec<usize>]| part.iter().map(size).fold(1usize, usize::saturating_mul);
        let (before, after) = lists.split_at(k);
        let (outer, mine) = (product(before), after.first().map_or(0, size));
        let inner = product(after.get(1..).unwrap_or_default());
        if outer.saturating_mul(mine).saturating_mul(inner).saturating_add(found.len()) > MOST {
            return Err(too_many());
        }
        for _ in 0..outer {
            (0..mine as i64).for_each(|place| found.extend(std::iter::repeat_n(place, inner)));
        }
        ends.push(found.len() as i64);
    }
    Ok(Value::Lists(ends.into(), Box::new(Value::all(found))))
}

/// Replaces missing numbers by a constant.
pub fn fill_none<'a>(value: &Value<'a>, with: Constant) -> Result<Value<'a>> {
    match value {
        Value::Lists(offsets, items) => Ok(Value::Lists(offsets.clone(), Box::new(fill_none(items, with)?))),
        Value::Numbers(_, None) => Ok(value.clone()),
        Value::Numbers(numbers, Some(there)) => Ok(Value::Numbers(
            typed!(numbers.number(), T => {
            let cells = T::of(numbers);
            let with = T::constant(with);
            T::wrap(cells.iter().zip(there.iter()).map(|(&cell, &there)| if there != 0 { cell } else { with }).collect::<Vec<T>>().into())
        }, else return Err(no_such("filling"))),
            None,
        )),
        Value::Constant(_) => Err(no_such("filling")),
    }
}
