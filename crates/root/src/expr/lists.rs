//! Operations on lists: reductions, selections, sorting, combinations.

use super::math::{common, replaced};
use super::value::{Cells, Constant, Element, Numbers, Value, counts, pairs, same_lists, span, typed};
use crate::array::Number;
use crate::error::{Error, Result};
use std::cmp::Ordering;

mod combinations;
mod pairs;
mod reductions;

pub use combinations::{
    Quantity, combination_items, combination_sums, combination_vector_at, combination_vectors, combinations,
};
pub use pairs::{distance, nested, nested_distances, nested_items};
use reductions::running;
pub use reductions::{Reduction, reduce, sum_where};

/// Maximum number of items in the combinations of one chunk.
pub(super) const MOST: usize = 1 << 23;

pub(super) fn not_lists() -> Error {
    Error::argument("expected lists, found numbers")
}

pub(super) fn no_such(what: &str) -> Error {
    Error::unsupported(format!("the engine has no {what} for these values"))
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
        return Err(Error::argument("the arrays have different numbers of lists"));
    }
    let mut found = Vec::with_capacity(wanted.len());
    for ((start, n), wanted) in places(offsets).zip(each_list(ends, wanted)) {
        for &place in wanted {
            let place = if place < 0 { place + n as i64 } else { place };
            match usize::try_from(place) {
                Ok(place) if place < n => found.push(start + place),
                _ => return Err(Error::argument("an index is outside of its list")),
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
            _ if exists(row) => return Err(Error::argument("an index is outside of its list")),
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
        return Err(Error::argument("the lists have different lengths"));
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
        return Err(Error::argument("the step of a slice must not be 0"));
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
            _ => return Err(Error::argument("a list has no item at the requested place")),
        }
    }
    Ok(items.gather(&found))
}

pub(super) fn too_many() -> Error {
    Error::limit(format!("a few entries have more than {MOST} combinations"))
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
            return Err(Error::argument("the lists have different lengths"));
        }
        offsets = offsets.or(Some(own));
        cells.push(items);
    }
    Ok((offsets.ok_or_else(not_lists)?, cells))
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
        return Err(Error::argument("the arrays have different numbers of lists"));
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
        return Err(Error::argument("the arrays have different numbers of lists"));
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
        Value::Numbers(Numbers::Bool(_), Some(_)) | Value::Constant(_) => Err(no_such("filling")),
        Value::Numbers(numbers, Some(there)) => Ok(Value::Numbers(
            typed!(replaced(numbers.number(), with), T => {
            let cells = T::of(numbers);
            let with = T::constant(with);
            T::wrap(cells.iter().zip(there.iter()).map(|(&cell, &there)| if there != 0 { cell } else { with }).collect::<Vec<T>>().into())
        }, else return Err(no_such("filling"))),
            None,
        )),
    }
}
