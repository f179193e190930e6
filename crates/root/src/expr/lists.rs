//! Operations on lists: reductions, selections, sorting, combinations.

use super::value::{Constant, Element, Numbers, Value, counts, pairs, same_lists, span, typed};
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
const MOST: usize = 1 << 26;

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
                Value::all(summed::<u64>(offsets, numbers))
            }
            Number::Bool => {
                let Numbers::Bool(cells) = numbers else { return Err(no_such("sum")) };
                Value::all(
                    each_list(offsets, cells)
                        .map(|list| list.iter().map(|&cell| i64::from(cell)).sum())
                        .collect::<Vec<i64>>(),
                )
            }
            _ => Value::all(summed::<i64>(offsets, numbers)),
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
            let truths = numbers.truths();
            Value::bools(
                each_list(offsets, &truths)
                    .map(|list| u8::from(list.iter().any(|&cell| cell != 0)))
                    .collect(),
            )
        }
        Reduction::All => {
            let truths = numbers.truths();
            Value::bools(
                each_list(offsets, &truths)
                    .map(|list| u8::from(list.iter().all(|&cell| cell != 0)))
                    .collect(),
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
    let (mut ends, mut found) = (Vec::with_capacity(offsets.len()), Vec::new());
    ends.push(0i64);
    for (start, n) in places(offsets) {
        let part = truths.get(start..start + n).unwrap_or_default();
        found.extend(
            part.iter().enumerate().filter(|(_, truth)| **truth != 0).map(|(place, _)| start + place),
        );
        ends.push(found.len() as i64);
    }
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
