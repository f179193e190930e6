//! Fast path for consecutive objects of equal size: their headers are compared, and each member is gathered from all
//! objects.

use super::super::kind::{Class, Kind};
use super::super::values::gather;
use super::versions::choose;
use super::{Decoder, Fields};
use crate::array::Builder;
use crate::error::Result;
use crate::wire::Cursor;
use crate::wire::cursor::IS_REFERENCED;

/// Minimum number of objects for which looking for a run pays off.
pub(super) const FEWEST: usize = 4;
/// Maximum nesting depth of bases and members.
const DEEPEST: usize = 16;
/// Version, unique id and status bits of a `TObject` without byte count and process number.
const OBJECT_BITS: usize = 10;
/// Index of the byte in these with the bit for a following process number.
const REFERENCED: usize = 9;
/// Bit in the first byte of a version that has a byte count before it.
const COUNTED: u8 = 0x40;

impl Decoder<'_> {
    /// Decodes up to `n` next objects while they have the same layout; returns their number. It is 0 if the layouts
    /// differ or there are too few objects.
    pub(super) fn run(
        &mut self,
        class: &Class,
        c: &mut Cursor<'_>,
        fields: &mut Fields,
        n: usize,
    ) -> Result<usize> {
        let key = std::ptr::from_ref(class);
        let place = self.uniform.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            let layout = Uniform::of(class, c).filter(|layout| layout.fits(fields));
            self.uniform.push((key, layout));
            self.uniform.len() - 1
        });
        let Some((_, Some(layout))) = self.uniform.get(place) else { return Ok(0) };
        let bytes = c.rest();
        let count = layout.run(bytes, n);
        if count < FEWEST {
            return Ok(0);
        }
        let length = count * layout.size;
        layout.append(bytes.get(..length).unwrap_or_default(), fields, count)?;
        c.skip(length)?;
        Ok(count)
    }
}

/// Positions of the parts of an object, counted from its start.
pub(super) struct Uniform {
    /// Size of an object in bytes.
    size: usize,
    /// Headers: position and bytes.
    headers: Vec<(usize, Vec<u8>)>,
    /// Positions of the status bits that could announce two more bytes.
    bits: Vec<usize>,
    /// The members: path of fields, kind and position. `None` as kind marks an object that is a member.
    members: Vec<(Vec<usize>, Option<Kind>, usize)>,
}

impl Uniform {
    /// Returns the layout of the object at the cursor; `None` if its size depends on more than its headers.
    fn of(class: &Class, c: &Cursor<'_>) -> Option<Self> {
        let mut layout = Self { size: 0, headers: Vec::new(), bits: Vec::new(), members: Vec::new() };
        let mut c = c.clone();
        let start = c.pos();
        layout.object(class, &mut c, start, &[], 0, DEEPEST)?;
        layout.size = c.pos() - start;
        (layout.size > 0).then_some(layout)
    }

    /// Adds an object with its header. Its first field is `shift` after the field at the path.
    fn object(
        &mut self,
        class: &Class,
        c: &mut Cursor<'_>,
        start: usize,
        path: &[usize],
        shift: usize,
        deep: usize,
    ) -> Option<()> {
        let deeper = deep.checked_sub(1)?;
        let (begin, bytes) = (c.pos(), c.rest());
        let frame = c.frame().ok()?;
        let end = frame.end?;
        let chosen = choose(class, i32::from(frame.version as i16), frame.end, c).ok()?;
        if !std::ptr::eq(chosen, class.first().ok()?) {
            return None;
        }
        self.headers.push((begin - start, bytes.get(..c.pos() - begin)?.to_vec()));
        for step in &chosen.record.steps {
            let place = c.pos() - start;
            let to = |field: usize| [path, &[shift + field]].concat();
            match &step.kind {
                Kind::ObjectBits if step.base => {
                    let version = c.rest().first_chunk::<2>().filter(|[first, _]| first & COUNTED == 0)?;
                    self.headers.push((place, version.to_vec()));
                    c.skip(OBJECT_BITS).ok()?;
                    self.bits.push(place + REFERENCED);
                }
                Kind::Object(base) if step.base => {
                    self.object(base, c, start, path, shift + step.field, deeper)?;
                }
                Kind::Object(member) => {
                    self.members.push((to(step.field), None, place));
                    self.object(member, c, start, &to(step.field), 0, deeper)?;
                }
                kind if !step.base => {
                    c.skip(kind.fixed_bytes()?).ok()?;
                    self.members.push((to(step.field), Some(kind.clone()), place));
                }
                _ => return None,
            }
        }
        (c.pos() == end).then_some(())
    }

    /// Number of objects with this layout at the start of the bytes, up to a maximum.
    fn run(&self, bytes: &[u8], most: usize) -> usize {
        let alike = |object: &&[u8]| {
            self.headers
                .iter()
                .all(|(at, header)| object.get(*at..).is_some_and(|rest| rest.starts_with(header)))
                && self
                    .bits
                    .iter()
                    .all(|at| object.get(*at).is_some_and(|bits| u32::from(*bits) & IS_REFERENCED == 0))
        };
        bytes.chunks_exact(self.size).take(most).take_while(alike).count()
    }

    /// Appends the members of `n` objects.
    fn append(&self, bytes: &[u8], fields: &mut Fields, n: usize) -> Result<()> {
        for (path, kind, at) in &self.members {
            match (descend(fields, path), kind) {
                (Some(Builder::Record { length, .. }), None) => *length += n,
                (Some(field), Some(kind)) => gather(kind, bytes, *at, self.size, field, n)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether every member has a field.
    fn fits(&self, fields: &mut Fields) -> bool {
        self.members.iter().all(|(path, kind, _)| {
            descend(fields, path)
                .is_some_and(|field| kind.is_some() || matches!(field, Builder::Record { .. }))
        })
    }
}

/// Returns the field at a path.
fn descend<'a>(fields: &'a mut Fields, path: &[usize]) -> Option<&'a mut Builder> {
    let (first, rest) = path.split_first()?;
    let (_, field) = fields.get_mut(*first)?;
    if rest.is_empty() {
        return Some(field);
    }
    let Builder::Record { fields, .. } = field else { return None };
    descend(fields, rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::{Builder, Number};
    use crate::streamer::Classes;
    use crate::streamer::compile::Programs;
    use crate::streamer::kind::{Record, Version};
    use std::sync::Arc;

    fn class(name: &str, members: &[(&str, bool, Kind)]) -> Arc<Class> {
        let steps = members.iter().map(|(name, base, kind)| ((*name).to_owned(), *base, kind.clone()));
        let record = Arc::new(Record::new(name, steps));
        Arc::new(Class { name: name.into(), versions: vec![Version { version: 3, checksum: 7, record }] })
    }

    /// Returns a class with a `TObject` and another class as bases, and an object, an array and numbers as members.
    fn track() -> Arc<Class> {
        let point = class(
            "Point",
            &[("x", false, Kind::Number(Number::F32)), ("ok", false, Kind::Number(Number::Bool))],
        );
        let base =
            class("Base", &[("TObject", true, Kind::ObjectBits), ("id", false, Kind::Number(Number::I16))]);
        let pair = Kind::Fixed { size: 2, item: Box::new(Kind::Number(Number::F64)) };
        class(
            "Track",
            &[
                ("Base", true, Kind::Object(base)),
                ("at", false, Kind::Object(point)),
                ("pair", false, pair),
                ("n", false, Kind::Number(Number::U8)),
            ],
        )
    }

    fn framed(version: u16, body: &[u8]) -> Vec<u8> {
        let count = 0x4000_0000 | (body.len() as u32 + 2);
        [&count.to_be_bytes()[..], &version.to_be_bytes(), body].concat()
    }

    /// Returns an object of these classes, with or without a process number after its status bits.
    fn object(i: u8, referenced: bool) -> Vec<u8> {
        let bits: &[u8] = if referenced {
            &[0, 1, 0, 0, 0, 0, 3, 0, 0, 0x10, 0, 9]
        } else {
            &[0, 1, 0, 0, 0, 0, 3, 0, 0, 0]
        };
        let base = framed(3, &[bits, &[0, i]].concat());
        let point = framed(3, &[0x41, i, 0, 0, i % 3]);
        framed(3, &[&base[..], &point, &[i; 16], &[i]].concat())
    }

    /// Returns the decoded objects, decoded together or one by one.
    fn decoded(bytes: &[u8], n: usize, together: bool) -> Result<String> {
        let kind = Kind::Object(track());
        let programs = Programs::new(Arc::new(Classes::default()));
        let (mut decoder, mut out) = (Decoder::new(&programs, false), Builder::new(&kind.type_of()?));
        let mut c = Cursor::new(bytes, 0);
        if together {
            decoder.decode(&kind, &mut c, &mut out, n)?;
        } else {
            (0..n).try_for_each(|_| decoder.decode(&kind, &mut c, &mut out, 1))?;
        }
        assert_eq!(c.remaining(), 0);
        Ok(format!("{out:?}"))
    }

    #[test]
    fn objects_in_a_run_become_what_each_becomes_alone() {
        for odd in [None, Some(0), Some(5), Some(9)] {
            let bytes: Vec<u8> = (0..10).flat_map(|i| object(i, odd == Some(i))).collect();
            assert_eq!(decoded(&bytes, 10, true).unwrap(), decoded(&bytes, 10, false).unwrap(), "{odd:?}");
        }
    }

    #[test]
    fn a_run_is_taken_and_ends_where_an_object_differs() {
        let bytes: Vec<u8> = (0..10).flat_map(|i| object(i, i == 7)).collect();
        let kind = Kind::Object(track());
        let programs = Programs::new(Arc::new(Classes::default()));
        let mut decoder = Decoder::new(&programs, false);
        let Builder::Record { mut fields, .. } = Builder::new(&kind.type_of().unwrap()) else {
            unreachable!()
        };
        let mut c = Cursor::new(&bytes, 0);
        assert_eq!(decoder.run(&track(), &mut c, &mut fields, 10).unwrap(), 7);
        assert_eq!(c.pos(), 7 * object(0, false).len());
    }

    #[test]
    fn broken_objects_fail_as_they_do_alone() {
        let whole: Vec<u8> = (0..10).flat_map(|i| object(i, false)).collect();
        let size = whole.len() / 10;
        for (at, byte) in [(6 * size + 5, 9), (6 * size + 3, 1), (6 * size + 11, 9)] {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let errors = [true, false].map(|together| decoded(&bytes, 10, together).unwrap_err().to_string());
            assert_eq!(errors[0].replace("object 6 of 10, ", ""), errors[1]);
        }
        assert!(decoded(&whole[..whole.len() - 1], 10, true).is_err());
    }
}
