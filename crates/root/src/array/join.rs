//! Joining finished columns end to end.

use super::{Column, pool};
use crate::error::{Error, Result};
use crate::wire::grow;
use arrow_buffer::Buffer;

/// Bytes of an offset.
const WORD: usize = size_of::<i64>();

/// Returns the values of all columns in order.
///
/// # Errors
/// When the columns have different types, or when there is no memory.
pub fn join(pieces: &[&Column]) -> Result<Column> {
    let pieces = grow::collected(pieces.iter().copied().filter(|one| !matches!(one, Column::Empty)))?;
    let Some((&first, more)) = pieces.split_first() else { return Ok(Column::Empty) };
    if more.is_empty() {
        return Ok(first.clone());
    }
    match first {
        Column::Number { number, .. } => {
            let values = each(&pieces, |one| match one {
                Column::Number { number: other, values } => (other == number).then_some(values),
                _ => None,
            })?;
            Ok(Column::Number { number: *number, values: joined(&values)? })
        }
        Column::Text { .. } => {
            let parts = each(&pieces, |one| match one {
                Column::Text { offsets, bytes } => Some((offsets, bytes)),
                _ => None,
            })?;
            let (offsets, bytes): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            Ok(Column::Text { offsets: joined_offsets(&offsets)?, bytes: joined(&bytes)? })
        }
        Column::FixedList { size, .. } => {
            let parts = each(&pieces, |one| match one {
                Column::FixedList { length, size: other, values } => {
                    (other == size).then_some((*length, &**values))
                }
                _ => None,
            })?;
            let (lengths, values): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            let values = Box::new(join(&values)?);
            Ok(Column::FixedList { length: lengths.iter().sum(), size: *size, values })
        }
        Column::List { .. } => {
            let parts = each(&pieces, |one| match one {
                Column::List { offsets, values } => Some((offsets, &**values)),
                _ => None,
            })?;
            let (offsets, values): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            Ok(Column::List { offsets: joined_offsets(&offsets)?, values: Box::new(join(&values)?) })
        }
        Column::Record { name, fields, .. } => {
            let parts = each(&pieces, |one| match one {
                Column::Record { length, fields: others, .. } => {
                    let names = fields.iter().map(|(name, _)| name);
                    names.eq(others.iter().map(|(name, _)| name)).then_some((*length, others))
                }
                _ => None,
            })?;
            let member = |place: usize| {
                let own: Vec<&Column> = parts.iter().filter_map(|(_, f)| Some(&f.get(place)?.1)).collect();
                join(&own)
            };
            let joined = fields.iter().enumerate().map(|(i, (name, _))| Ok((name.clone(), member(i)?)));
            let fields = joined.collect::<Result<_>>()?;
            Ok(Column::Record {
                length: parts.iter().map(|(length, _)| length).sum(),
                name: name.clone(),
                fields,
            })
        }
        Column::Option { .. } => {
            let parts = each(&pieces, |one| match one {
                Column::Option { index, values } => Some((index, &**values)),
                _ => None,
            })?;
            let mut places = grow::with_room(pieces.iter().map(|one| one.len()).sum())?;
            let mut base = 0i64;
            for (index, values) in &parts {
                places.extend(words(index).map(|place| if place < 0 { -1 } else { base + place }));
                base += values.len() as i64;
            }
            let values: Vec<_> = parts.into_iter().map(|(_, values)| values).collect();
            Ok(Column::Option { index: Buffer::from_vec(places), values: Box::new(join(&values)?) })
        }
        Column::Union { variants, .. } => join_unions(&pieces, variants.len()),
        Column::Empty => Ok(Column::Empty),
    }
}

/// Joins unions of `count` types.
fn join_unions(pieces: &[&Column], count: usize) -> Result<Column> {
    let parts = each(pieces, |one| match one {
        Column::Union { tags, index, variants: others } => {
            (others.len() == count).then_some((tags, index, others))
        }
        _ => None,
    })?;
    let mut places = grow::with_room(pieces.iter().map(|one| one.len()).sum())?;
    let mut bases = vec![0i64; count];
    for (tags, index, variants) in &parts {
        let place = |(&tag, place): (&u8, i64)| place + bases.get(usize::from(tag)).unwrap_or(&0);
        places.extend(tags.iter().zip(words(index)).map(place));
        let lengths = variants.iter().map(|one| one.len() as i64);
        bases.iter_mut().zip(lengths).for_each(|(base, length)| *base += length);
    }
    let variant = |place: usize| {
        let own: Vec<&Column> = parts.iter().filter_map(|(_, _, all)| all.get(place)).collect();
        join(&own)
    };
    let tags: Vec<&Buffer> = parts.iter().map(|(tags, ..)| *tags).collect();
    Ok(Column::Union {
        tags: joined(&tags)?,
        index: Buffer::from_vec(places),
        variants: (0..count).map(variant).collect::<Result<_>>()?,
    })
}

/// Returns parts of each column; fails where `part` has none because the types differ.
fn each<'a, T>(pieces: &[&'a Column], part: impl Fn(&'a Column) -> Option<T>) -> Result<Vec<T>> {
    let other = || Error::argument("its values have other types than those in the first file");
    pieces.iter().map(|&one| part(one).ok_or_else(other)).collect()
}

fn words(buffer: &[u8]) -> impl Iterator<Item = i64> {
    buffer.as_chunks::<WORD>().0.iter().map(|word| i64::from_ne_bytes(*word))
}

fn joined(pieces: &[&Buffer]) -> Result<Buffer> {
    let mut filled = pool::Filled::new(pieces.iter().map(|one| one.len()).sum())?;
    let mut rest = filled.bytes();
    for piece in pieces {
        let (own, more) = rest.split_at_mut(piece.len());
        own.copy_from_slice(piece);
        rest = more;
    }
    Ok(filled.share())
}

/// Joins offsets, each of which begin with 0.
fn joined_offsets(pieces: &[&Buffer]) -> Result<Buffer> {
    let lists: usize = pieces.iter().map(|one| (one.len() / WORD).saturating_sub(1)).sum();
    let mut filled = pool::Filled::new((lists + 1) * WORD)?;
    let mut to = filled.bytes().as_chunks_mut::<WORD>().0.iter_mut();
    if let Some(start) = to.next() {
        *start = 0i64.to_ne_bytes();
    }
    let mut base = 0i64;
    for piece in pieces {
        let start = base;
        for (end, to) in words(piece).skip(1).zip(&mut to) {
            base = start + end;
            *to = base.to_ne_bytes();
        }
    }
    Ok(filled.share())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Number;

    fn numbers(values: &[i32]) -> Column {
        Column::Number { number: Number::I32, values: Buffer::from_vec(values.to_vec()) }
    }
    fn ends(values: &[i64]) -> Buffer {
        Buffer::from_vec(values.to_vec())
    }

    #[test]
    fn columns_of_every_type_are_joined() {
        let piece = |n: i32| {
            let list =
                Column::List { offsets: ends(&[0, 1, 3]), values: Box::new(numbers(&[n, n + 1, n + 2])) };
            let text = Column::Text { offsets: ends(&[0, 0, 2]), bytes: Buffer::from_vec(b"ab".to_vec()) };
            let values = Box::new(numbers(&[n; 4]));
            let fixed = Column::FixedList { length: 2, size: 2, values };
            let option = Column::Option { index: ends(&[-1, 0]), values: Box::new(numbers(&[n])) };
            let union = Column::Union {
                tags: Buffer::from_vec(vec![1u8, 0]),
                index: ends(&[0, 0]),
                variants: vec![
                    numbers(&[n]),
                    Column::Text { offsets: ends(&[0, 0]), bytes: Buffer::default() },
                ],
            };
            let fields = [list, text, fixed, option, union].into_iter().map(|one| (String::new(), one));
            Column::Record { length: 2, name: "R".into(), fields: fields.collect() }
        };
        let joined = join(&[&piece(10), &Column::Empty, &piece(20)]).unwrap();
        let expected = "Record { length: 4, name: \"R\"";
        assert!(format!("{joined:?}").starts_with(expected));
        let Column::Record { fields, .. } = joined else { unreachable!() };
        let all = |buffer: &Buffer| words(buffer).collect::<Vec<_>>();
        let ints = |column: &Column| match column {
            Column::Number { values, .. } => {
                values.as_chunks::<4>().0.iter().map(|v| i32::from_ne_bytes(*v)).collect::<Vec<_>>()
            }
            _ => unreachable!(),
        };
        let Column::List { offsets, values } = &fields[0].1 else { unreachable!() };
        assert_eq!((all(offsets), ints(values)), (vec![0, 1, 3, 4, 6], vec![10, 11, 12, 20, 21, 22]));
        let Column::Text { offsets, bytes } = &fields[1].1 else { unreachable!() };
        assert_eq!((all(offsets), bytes.as_slice()), (vec![0, 0, 2, 2, 4], &b"abab"[..]));
        let Column::FixedList { length: 4, size: 2, values } = &fields[2].1 else { unreachable!() };
        assert_eq!(ints(values), [10, 10, 10, 10, 20, 20, 20, 20]);
        let Column::Option { index, values } = &fields[3].1 else { unreachable!() };
        assert_eq!((all(index), ints(values)), (vec![-1, 0, -1, 1], vec![10, 20]));
        let Column::Union { tags, index, variants } = &fields[4].1 else { unreachable!() };
        assert_eq!((tags.as_slice(), all(index)), (&[1, 0, 1, 0][..], vec![0, 0, 1, 1]));
        assert_eq!((ints(&variants[0]), variants[1].len()), (vec![10, 20], 2));
    }

    #[test]
    fn columns_of_different_types_are_refused() {
        let list = Column::List { offsets: ends(&[0, 1]), values: Box::new(numbers(&[1])) };
        assert!(join(&[&numbers(&[1]), &list]).is_err() && join(&[&list, &numbers(&[1])]).is_err());
        assert_eq!(join(&[]).unwrap().len(), 0);
        assert_eq!(join(&[&list]).unwrap().len(), 1);
    }
}
