//! Reductions: one number for each list.

use super::super::value::{Element, Numbers, Value, counts, pairs, same_lists, typed};
use super::{each_list, no_such, not_lists};
use crate::array::Number;
use crate::error::Result;

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
pub(super) fn running<T: Element>(cells: impl ExactSizeIterator<Item = T>) -> Vec<T> {
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

/// Returns the sums of the items of each list that are selected by bools, as [`reduce`] sums those that
/// [`super::filter`] leaves.
pub fn sum_where<'a>(value: &Value<'a>, mask: &Value<'a>) -> Result<Value<'a>> {
    if let (Value::Lists(offsets, items), Value::Lists(ends, truths)) = (value, mask)
        && let (Value::Numbers(numbers, None), Value::Numbers(Numbers::Bool(truths), None)) =
            (&**items, &**truths)
        && same_lists(offsets, ends)
    {
        // Zeros change no sum that begins with zero. They are written in a loop of its own, which has no jumps.
        let kept = match numbers {
            Numbers::F32(cells) => Some(f32::wrap(zeroed(cells, truths).into())),
            Numbers::F64(cells) => Some(f64::wrap(zeroed(cells, truths).into())),
            _ => None,
        };
        if let Some(kept) = kept {
            return reduced(Reduction::Sum, offsets, &kept);
        }
    }
    reduce(Reduction::Sum, &super::filter(value, mask)?)
}

/// Returns the items, with zeros in place of those that are not selected.
fn zeroed<T: Element>(cells: &[T], truths: &[u8]) -> Vec<T> {
    let items = cells.iter().zip(truths);
    items.map(|(&cell, &truth)| if truth != 0 { cell } else { T::default() }).collect()
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
        // The sum of whole numbers, too, is computed in floating point: it may have more than 64 bits.
        Reduction::Mean => {
            let sums = summed::<f64>(offsets, numbers);
            Value::all(
                sums.into_iter().zip(counts(offsets)).map(|(sum, n)| sum / n as f64).collect::<Vec<f64>>(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_of_whole_numbers_are_computed_in_floating_point() {
        let items = Value::all(vec![1i64 << 62, 1 << 62, 1 << 62, 1]);
        let lists = Value::Lists(vec![0, 3, 4].into(), Box::new(items));
        let Value::Numbers(Numbers::F64(found), None) = reduce(Reduction::Mean, &lists).unwrap() else {
            unreachable!()
        };
        assert_eq!(found.to_vec(), [4_611_686_018_427_387_904.0, 1.0]);
    }

    #[test]
    fn sums_of_selected_items_are_those_of_filtered_lists() {
        let offsets = vec![0i64, 2, 2, 5, 20, 23];
        let cells: Vec<f32> = (0..23).map(|i| if i == 3 { f32::NAN } else { -0.1 * i as f32 }).collect();
        for seed in 0..200usize {
            let truths: Vec<u8> = (0..23).map(|i| u8::from((i * 7919 + seed * 104_729) % 11 > 4)).collect();
            let mask = Value::Lists(offsets.clone().into(), Box::new(Value::bools(truths)));
            let doubles = Value::all(cells.iter().map(|&cell| f64::from(cell)).collect::<Vec<_>>());
            let whole = Value::all(cells.iter().map(|&cell| cell as i32).collect::<Vec<_>>());
            for items in [Value::all(cells.clone()), doubles, whole] {
                let value = Value::Lists(offsets.clone().into(), Box::new(items));
                let expected = reduce(Reduction::Sum, &super::super::filter(&value, &mask).unwrap()).unwrap();
                let found = sum_where(&value, &mask).unwrap();
                let (Value::Numbers(found, None), Value::Numbers(expected, None)) = (&found, &expected)
                else {
                    unreachable!()
                };
                let bits = |numbers: &Numbers<'_>| -> Vec<u64> {
                    f64::of(numbers).iter().map(|cell| cell.to_bits()).collect()
                };
                assert_eq!(found.number(), expected.number());
                assert_eq!(bits(found), bits(expected), "{seed}");
            }
        }
    }
}
