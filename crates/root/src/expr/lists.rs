//! Operations on lists: reductions, selections, sorting, combinations.

use super::math::common;
use super::value::{Cells, Constant, Element, Numbers, Value, counts, pairs, same_lists, span, typed};
use crate::array::Number;
use crate::error::{Error, Result};
use std::cmp::Ordering;

/// What makes one number of the innermost lists.
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
    /// All, by the names that Python gives them.
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

/// The most items that combinations of one chunk may have.
const MOST: usize = 1 << 23;

fn not_lists() -> Error {
    Error::argument("a list is needed here")
}

fn no_such(what: &str) -> Error {
    Error::unsupported(format!("the engine has no {what} of these values"))
}

/// The items of each list.
fn each_list<'v, T>(offsets: &'v [i64], cells: &'v [T]) -> impl Iterator<Item = &'v [T]> {
    let base = offsets.first().copied().unwrap_or(0);
    pairs(offsets).map(move |(start, stop)| {
        cells.get((start - base) as usize..(stop - base) as usize).unwrap_or_default()
    })
}

/// Where each list begins in its items, and how many it has.
fn places(offsets: &[i64]) -> impl Iterator<Item = (usize, usize)> {
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

/// Sums of whole numbers up to each item and beyond it. Those of lists are their differences, for which no loop over
/// a list of a few items is left.
fn running<T: Element>(cells: impl ExactSizeIterator<Item = T>) -> Vec<T> {
    let mut sums = vec![T::default(); cells.len() + 1];
    let mut sum = T::default();
    for (slot, cell) in sums.iter_mut().skip(1).zip(cells) {
        sum = sum.plus(cell);
        *slot = sum;
    }
    sums
}

/// For each list the sum of its items, of the sums up to them.
fn differences<T: Element>(offsets: &[i64], sums: &[T]) -> Vec<T> {
    let base = offsets.first().copied().unwrap_or(0);
    let at = |offset: i64| sums.get((offset - base) as usize).copied().unwrap_or_default();
    pairs(offsets).map(|(start, stop)| at(stop).minus(at(start))).collect()
}

fn whole<T: Element>(offsets: &[i64], numbers: &Numbers<'_>) -> Vec<T> {
    differences(offsets, &running(T::of(numbers).iter().copied()))
}

/// How many items of each list are true.
fn true_items(offsets: &[i64], numbers: &Numbers<'_>) -> Vec<i64> {
    differences(offsets, &running(numbers.truths().iter().map(|&cell| i64::from(cell != 0))))
}

fn summed<T: Element>(offsets: &[i64], numbers: &Numbers<'_>) -> Vec<T> {
    each_list(offsets, &T::of(numbers))
        .map(|list| list.iter().fold(T::default(), |sum, &item| sum.plus(item)))
        .collect()
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
            Number::Bool => Value::all(true_items(offsets, numbers)),
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
            Value::bools(true_items(offsets, numbers).iter().map(|&n| u8::from(n > 0)).collect())
        }
        Reduction::All => {
            let found = true_items(offsets, numbers);
            Value::bools(
                found.iter().zip(counts(offsets)).map(|(&n, all)| u8::from(n == all as i64)).collect(),
            )
        }
        Reduction::Min | Reduction::Max | Reduction::Argmin | Reduction::Argmax => {
            let there: Vec<u8> = counts(offsets).map(|n| u8::from(n > 0)).collect();
            let found = typed!(number, T => {
                let cells = T::of(numbers);
                let lists = each_list(offsets, &cells);
                let best = |list: &[T], less: fn(&T, &T) -> bool| {
                    let mut best = 0usize;
                    let mut of = list.first();
                    for (place, item) in list.iter().enumerate() {
                        if of.is_some_and(|of| less(item, of)) {
                            (best, of) = (place, Some(item));
                        }
                    }
                    best as i64
                };
                match what {
                    Reduction::Min => T::wrap(lists.map(|list| {
                        list.iter().fold(T::MOST, |least, &item| if item < least { item } else { least })
                    }).collect::<Vec<T>>().into()),
                    Reduction::Max => T::wrap(lists.map(|list| {
                        list.iter().fold(T::LEAST, |most, &item| if item > most { item } else { most })
                    }).collect::<Vec<T>>().into()),
                    Reduction::Argmin => i64::wrap(lists.map(|list| best(list, |a, b| a < b)).collect::<Vec<_>>().into()),
                    _ => i64::wrap(lists.map(|list| best(list, |a, b| a > b)).collect::<Vec<_>>().into()),
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

/// The first item of each list, none of an empty one.
pub fn first<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    let Value::Numbers(numbers, None) = &**items else { return Err(no_such("first item")) };
    let firsts: Vec<usize> =
        places(offsets).map(|(start, n)| if n > 0 { start } else { usize::MAX }).collect();
    let there: Vec<u8> = counts(offsets).map(|n| u8::from(n > 0)).collect();
    Ok(Value::Numbers(numbers.gather(&firsts), Some(there.into())))
}

/// The order in which items of a list ascend; NaN comes first.
fn order<T: Element>(a: T, b: T) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

/// Places of the items of the outermost lists in ascending order.
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

/// The items of each list at places in it; negative ones count from its end.
pub fn take<'a>(value: &Value<'a>, wanted: &Value<'a>) -> Result<Value<'a>> {
    let (Value::Lists(offsets, items), Value::Lists(ends, inner)) = (value, wanted) else {
        return Err(not_lists());
    };
    if let Value::Lists(within, inner) = &**inner {
        // Lists of places in each list: as places in one list, which is divided again.
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

/// One item of each list, at the place that is given for it; none where that is none.
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

/// The items of each list for which bools in lists of the same lengths are true, or those at places in lists.
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

/// A slice of each list, as in Python.
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

/// The item of each list at one place, which all of them have.
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

fn too_many() -> Error {
    Error::limit(format!("more than {MOST} combinations in a few entries"))
}

/// Places, in the outermost lists, of member `k` of all combinations of `n` of their items.
pub fn combinations<'a>(value: &Value<'a>, n: usize, k: usize) -> Result<Value<'a>> {
    let Value::Lists(offsets, _) = value else { return Err(not_lists()) };
    if n == 0 || k >= n || n > 16 {
        return Err(no_such("combinations"));
    }
    let (mut ends, mut found) = (Vec::with_capacity(offsets.len()), Vec::<i64>::new());
    ends.push(0i64);
    for items in counts(offsets) {
        let mut total = 1u128;
        for i in 0..n as u128 {
            total = total.saturating_mul((items as u128).saturating_sub(i)) / (i + 1);
        }
        if total.saturating_add(found.len() as u128) > MOST as u128 {
            return Err(too_many());
        }
        let items = items as i64;
        match (n, k) {
            (2, 0) => (0..items).for_each(|a| found.extend(std::iter::repeat_n(a, (items - 1 - a) as usize))),
            (2, _) => (0..items).for_each(|a| found.extend(a + 1..items)),
            _ if items >= n as i64 => {
                let mut chosen: Vec<i64> = (0..n as i64).collect();
                loop {
                    found.extend(chosen.get(k));
                    let least = items - n as i64;
                    let movable = chosen
                        .iter()
                        .enumerate()
                        .rev()
                        .find(|(turn, at)| **at < least + *turn as i64)
                        .map(|(turn, _)| turn);
                    let Some(turn) = movable else { break };
                    let next = chosen.get(turn).map_or(0, |at| at + 1);
                    chosen.iter_mut().skip(turn).zip(next..).for_each(|(slot, at)| *slot = at);
                }
            }
            _ => {}
        }
        ends.push(found.len() as i64);
    }
    Ok(Value::Lists(ends.into(), Box::new(Value::all(found))))
}

/// Sums of the members of all combinations of `n` items of the lists, in the order of [`combinations`].
pub fn combination_sums<'a>(value: &Value<'a>, n: usize) -> Result<Value<'a>> {
    let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
    let Value::Numbers(Numbers::F64(cells), None) = &**items else {
        return Err(no_such("sum of combinations"));
    };
    let (mut ends, mut found) = (Vec::with_capacity(offsets.len()), Vec::<f64>::new());
    ends.push(0i64);
    for list in each_list(offsets, cells) {
        if !match n {
            2 => add_pairs(0.0, true, list, &mut found),
            3 => list.iter().enumerate().all(|(a, &first)| {
                add_pairs(first, false, list.get(a + 1..).unwrap_or_default(), &mut found)
            }),
            _ => return Err(no_such("sum of combinations")),
        } {
            return Err(too_many());
        }
        ends.push(found.len() as i64);
    }
    Ok(Value::Lists(ends.into(), Box::new(Value::all(found))))
}

/// Adds sums of a number and each pair of items; `alone`: of each pair only. Returns whether there are not too many.
fn add_pairs(first: f64, alone: bool, list: &[f64], found: &mut Vec<f64>) -> bool {
    for (b, &second) in list.iter().enumerate() {
        let begun = if alone { second } else { first + second };
        found.extend(list.get(b + 1..).unwrap_or_default().iter().map(|third| begun + third));
        if found.len() > MOST {
            return false;
        }
    }
    true
}

/// Sums of the components of the members of combinations, for each a number that they give.
///
/// `parts` are the components of the items, of which [`Quantity`] says what is computed.
pub fn combination_vectors<'a>(parts: &[&Value<'a>], n: usize, what: Quantity) -> Result<Value<'a>> {
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
    let Some(offsets) = offsets else { return Err(not_lists()) };
    let (mut ends, mut found) = (Vec::with_capacity(offsets.len()), Vec::<f64>::new());
    ends.push(0i64);
    match (what, cells.as_slice()) {
        (Quantity::Mass, &[x, y, z, energy]) => {
            let square = |[x, y, z, energy]: [f64; 4]| energy * energy - (x * x + y * y + z * z);
            squares(offsets, [x, y, z, energy], n, square, &mut ends, &mut found)?;
            found.iter_mut().for_each(|square| *square = square.abs().sqrt().copysign(*square));
        }
        (Quantity::Pt, &[x, y]) => {
            squares(offsets, [x, y], n, |[x, y]| x * x + y * y, &mut ends, &mut found)?;
            found.iter_mut().for_each(|square| *square = square.sqrt());
        }
        _ => return Err(no_such("quantity of combinations")),
    }
    Ok(Value::Lists(ends.into(), Box::new(Value::all(found))))
}

/// What `combination_vectors` computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// The invariant mass, of x, y, z and energy.
    Mass,
    /// The transverse momentum, of x and y.
    Pt,
}

impl Quantity {
    /// All, by the names that Python gives them.
    pub const NAMES: &[(&str, Self)] = &[("mass", Self::Mass), ("pt", Self::Pt)];
}

fn squares<const D: usize>(
    offsets: &[i64],
    cells: [&[f64]; D],
    n: usize,
    square: impl Fn([f64; D]) -> f64,
    ends: &mut Vec<i64>,
    found: &mut Vec<f64>,
) -> Result<()> {
    fn plus<const D: usize>(mut one: [f64; D], other: &[f64; D]) -> [f64; D] {
        one.iter_mut().zip(other).for_each(|(sum, more)| *sum += more);
        one
    }
    let mut list: Vec<[f64; D]> = Vec::new();
    for (start, length) in places(offsets) {
        list.clear();
        list.extend(
            (start..start + length).map(|at| cells.map(|cells| cells.get(at).copied().unwrap_or(0.0))),
        );
        for (a, first) in list.iter().enumerate() {
            let rest = list.get(a + 1..).unwrap_or_default();
            match n {
                2 => found.extend(rest.iter().map(|second| square(plus(*first, second)))),
                3 => {
                    for (b, second) in rest.iter().enumerate() {
                        let two = plus(*first, second);
                        let others = rest.get(b + 1..).unwrap_or_default();
                        found.extend(others.iter().map(|third| square(plus(two, third))));
                        if found.len() > MOST {
                            return Err(too_many());
                        }
                    }
                }
                _ => return Err(no_such("sum of combinations")),
            }
            if found.len() > MOST {
                return Err(too_many());
            }
        }
        ends.push(found.len() as i64);
    }
    Ok(())
}

/// Places, for each item of the first of two lists, of itself (`k` 0) or of all items of the second: a list each.
pub fn nested<'a>(first: &Value<'a>, second: &Value<'a>, k: usize) -> Result<Value<'a>> {
    let (Value::Lists(offsets, _), Value::Lists(others, _)) = (first, second) else {
        return Err(not_lists());
    };
    if offsets.len() != others.len() || k > 1 {
        return Err(Error::argument("the lists differ in number"));
    }
    let mut found = Vec::<i64>::new();
    let mut ends = Vec::with_capacity(span(offsets) + 1);
    ends.push(0i64);
    for (mine, theirs) in counts(offsets).zip(counts(others)) {
        if mine.saturating_mul(theirs).saturating_add(found.len()) > MOST {
            return Err(too_many());
        }
        for place in 0..mine as i64 {
            if k == 0 {
                found.extend(std::iter::repeat_n(place, theirs));
            } else {
                found.extend(0..theirs as i64);
            }
            ends.push(found.len() as i64);
        }
    }
    let inner = Value::Lists(ends.into(), Box::new(Value::all(found)));
    Ok(Value::Lists(offsets.clone(), Box::new(inner)))
}

/// The place of each item in its list.
pub fn local_index<'a>(value: &Value<'a>) -> Result<Value<'a>> {
    let Value::Lists(offsets, _) = value else { return Err(not_lists()) };
    let mut found = Vec::with_capacity(span(offsets));
    counts(offsets).for_each(|n| found.extend(0..n as i64));
    Ok(Value::Lists(offsets.clone(), Box::new(Value::all(found))))
}

/// The items of lists that begin and end at places, of one kind of list after the other in each row.
fn join<T: Copy>(cells: &[Cells<'_, T>], starts: &[Vec<i64>], rows: usize) -> Vec<T> {
    let mut found = Vec::with_capacity(cells.iter().map(|cells| cells.len()).sum());
    for row in 0..rows {
        for (cells, starts) in cells.iter().zip(starts) {
            if let Some(&[start, stop]) = starts.get(row..row + 2) {
                found.extend_from_slice(cells.get(start as usize..stop as usize).unwrap_or_default());
            }
        }
    }
    found
}

/// The items of the lists of each entry, one list after the other.
pub fn concatenate<'a>(values: &[&Value<'a>]) -> Result<Value<'a>> {
    let mut lists = Vec::with_capacity(values.len());
    let mut number: Option<Number> = None;
    for value in values {
        let Value::Lists(offsets, items) = value else { return Err(not_lists()) };
        let Value::Numbers(numbers, None) = &**items else { return Err(no_such("concatenation")) };
        let own = numbers.number();
        number = Some(number.map_or(own, |before| common(before, own)));
        lists.push((offsets, numbers));
    }
    let (Some(number), Some((first, _))) = (number, lists.first()) else { return Err(not_lists()) };
    if lists.iter().any(|(offsets, _)| offsets.len() != first.len()) {
        return Err(Error::argument("the lists differ in number"));
    }
    let starts =
        |offsets: &[i64]| offsets.iter().map(|end| end - offsets.first().copied().unwrap_or(0)).collect();
    let starts: Vec<Vec<i64>> = lists.iter().map(|(offsets, _)| starts(offsets)).collect();
    let rows = first.len().saturating_sub(1);
    let ends: Vec<i64> =
        (0..first.len()).map(|row| starts.iter().filter_map(|ends| ends.get(row)).sum()).collect();
    let items = typed!(number, T => {
        let cells: Vec<Cells<'_, T>> = lists.iter().map(|(_, numbers)| T::of(numbers)).collect();
        Value::all(join(&cells, &starts, rows))
    }, else {
        let cells: Vec<Cells<'_, u8>> = lists.iter().map(|(_, numbers)| numbers.truths()).collect();
        Value::bools(join(&cells, &starts, rows))
    });
    Ok(Value::Lists(ends.into(), Box::new(items)))
}

/// Places, in list `k` of several of each entry, of its member in their Cartesian product.
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

/// Numbers with another one in place of none.
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
