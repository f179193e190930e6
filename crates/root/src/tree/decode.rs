//! Decoding the values of a basket into a column.

use super::plan::Counts;
use super::program::BranchReader;
use super::{BasketPlace, Framing, Tree, basket};
use crate::array::{Builder, Number, pages};
use crate::error::{Error, Result, Within};
use crate::streamer::decode::Decoder;
use crate::streamer::kind::Kind;
use crate::table::{Page, PageDecoder, PageOutput, PageSlice, PageWanted, PartsLeftOut, Unpacked};
use crate::wire::grow::{self, Grow};
use crate::wire::short::{self, Items, Lists};
use crate::wire::{Cursor, swap};
use sapwood_io::lock;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Decodes the baskets of a branch.
pub struct BranchDecoder<'a> {
    pub tree: &'a Tree,
    pub branch: usize,
    pub reader: Arc<BranchReader>,
    /// Values of its counter branch.
    pub counts: Option<Counts>,
    /// Receives the numbers of baskets without bytes.
    pub hollow: Arc<Mutex<BTreeSet<usize>>>,
}

impl PageDecoder for BranchDecoder<'_> {
    fn unpack(&self, page: &PageWanted, record: &[u8], scratch: &mut Vec<u8>) -> Result<Unpacked> {
        let offset = page.range().offset;
        self.tree.file.verify_records(offset, record)?;
        basket::unpack(record, offset, scratch)
    }

    fn in_memory(&self, page: &PageWanted) -> Option<Page<'_>> {
        match &self.tree.branches.get(self.branch)?.baskets.get(page.number)?.place {
            BasketPlace::Tree(values) => Some(values.page()),
            _ => None,
        }
    }

    fn start(&self, page: &Page<'_>, item: usize) -> Option<usize> {
        match self.reader.program.framing {
            Framing::Fixed(bytes) => item.checked_mul(bytes),
            _ => page.start(item),
        }
    }

    fn is_slow(&self) -> bool {
        matches!(self.reader.program.framing, Framing::Whole)
    }

    fn decode(&self, slice: &PageSlice, page: &Page<'_>, to: PageOutput<'_>) -> Result<PartsLeftOut> {
        let program = &self.reader.program;
        if page.hollow {
            lock(&self.hollow).insert(slice.number);
        }
        let counts = self.counts.as_ref();
        let share = Share {
            slice,
            counts: counts.and_then(|c| c.sums.get(slice.first.checked_sub(c.first)? as usize..)),
            each: counts.map_or(&[], |c| c.each.as_slice()),
        };
        // A program without the dictionary of a class writes the entries of its branches, but no bytes.
        let nothing = page.data.is_empty() && matches!(program.framing, Framing::Whole);
        share.decode(&self.reader, page, to).map_err(|error| {
            let why = "the basket has entries, but their bytes were never written";
            if nothing { Error::unsupported(why).at(page.origin as u64) } else { error }
        })
    }
}

/// Values other than the branch that decoding a basket depends on.
#[derive(Clone, Copy)]
struct Share<'a> {
    slice: &'a PageSlice,
    /// Number of elements before each entry, from the counter branch.
    counts: Option<&'a [u64]>,
    /// Number of values in each element from the first counted one on, if the elements are variable arrays.
    each: &'a [u64],
}

impl Share<'_> {
    fn decode(&self, reader: &BranchReader, values: &Page<'_>, out: PageOutput<'_>) -> Result<PartsLeftOut> {
        let (slice, program) = (self.slice, &reader.program);
        let kind = &program.kind;
        if values.items != slice.items {
            return Err(Error::corrupt(format!(
                "a basket of {} entries where the branch has {}",
                values.items, slice.items
            )));
        }
        if let Framing::Fixed(bytes) = program.framing
            && values.items.checked_mul(bytes) != Some(values.data.len())
        {
            return Err(Error::corrupt(format!(
                "{} bytes of values for {} entries of {bytes} bytes",
                values.data.len(),
                values.items
            )));
        }
        let to = match out {
            PageOutput::Append(to) => to,
            PageOutput::Place(to) => {
                return match program.framing {
                    Framing::Fixed(bytes) => {
                        place(kind, entry_bytes(values, slice, bytes)?, to).map(|()| Vec::new())
                    }
                    _ => Err(Error::unsupported("values of different sizes at fixed places")),
                };
            }
        };
        let mut decoder = Decoder::new(&reader.programs, slice.leave_out);
        match program.framing {
            Framing::Fixed(bytes) => {
                let mut c = Cursor::new(entry_bytes(values, slice, bytes)?, (slice.from * bytes) as u64);
                decoder.decode(kind, &mut c, to, slice.to - slice.from)?;
            }
            Framing::Counted { skip: 0, bytes }
                if plain_lists(&mut decoder, values, slice, kind, bytes, to)? => {}
            Framing::Counted { skip, bytes } => {
                let bounds = match (values.bounds()?, self.counts) {
                    (Some(bounds), _) => bounds,
                    (None, Some(counts)) => from_counts(values, counts, bytes)?,
                    (None, None) => one_entry(values)?,
                };
                counted(&mut decoder, values.data, &bounds, slice, kind, skip, bytes, to)?;
            }
            Framing::Whole => whole(&mut decoder, values, slice, kind, to)?,
            Framing::Column => column(&mut decoder, values, slice, kind, to)?,
            Framing::CountedColumn(_) => counted_column(&mut decoder, values, self, kind, to)?,
            Framing::Rows(_) => rows(&mut decoder, values, self, kind, to)?,
            Framing::Objects => objects(&mut decoder, values, self, kind, to)?,
        }
        Ok(decoder.left_out())
    }
}

/// Returns the borders of the only entry in a basket without a table.
fn one_entry(values: &Page<'_>) -> Result<Vec<u32>> {
    match values.items {
        1 => Ok(vec![0, values.data.len() as u32]),
        n => Err(Error::corrupt(format!("a basket of {n} entries without a table of their offsets"))),
    }
}

fn entry_bytes<'a>(values: &Page<'a>, slice: &PageSlice, bytes: usize) -> Result<&'a [u8]> {
    let found = slice
        .from
        .checked_mul(bytes)
        .zip(slice.to.checked_mul(bytes))
        .and_then(|(a, b)| values.data.get(a..b));
    found.ok_or_else(|| {
        Error::corrupt(format!(
            "{} bytes of values, where {} entries of {bytes} are expected",
            values.data.len(),
            slice.to
        ))
    })
}

/// Bytes decoded at once: few enough that newly cleared memory pages stay in the cache.
const PIECE: usize = 256 << 10;

/// Decodes numbers of fixed dimensions directly to their place.
fn place(kind: &Kind, from: &[u8], to: &mut [u8]) -> Result<()> {
    match kind {
        Kind::Number(number) => {
            for (to, from) in to.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
                pages::provide(to);
                if *number == Number::Bool {
                    to.iter_mut().zip(from).for_each(|(to, from)| *to = u8::from(*from != 0));
                } else {
                    swap::copy(number.size(), from, to);
                }
            }
        }
        Kind::Packed(packing) => {
            pages::provide(to);
            packing.decode(from, to);
        }
        Kind::Fixed { item, .. } => return place(item, from, to),
        _ => return Err(Error::unsupported("values that are not numbers at fixed places")),
    }
    Ok(())
}

fn from_counts(values: &Page<'_>, counts: &[u64], bytes: usize) -> Result<Vec<u32>> {
    let first = counts.first().copied().unwrap_or_default();
    let mut bounds = grow::with_room(values.items + 1)?;
    for i in 0..=values.items {
        let sum = counts.get(i).ok_or_else(|| Error::corrupt("its counter has fewer entries"))?;
        let bound = (sum - first).saturating_mul(bytes as u64);
        if bound > values.data.len() as u64 {
            return Err(Error::corrupt(format!("its counter gives {bound} bytes of {}", values.data.len())));
        }
        bounds.push(bound as u32);
    }
    match bounds.last() {
        Some(&last) if last as usize != values.data.len() => {
            Err(Error::corrupt(format!("its counter gives {last} bytes of {}", values.data.len())))
        }
        _ => Ok(bounds),
    }
}

/// Decodes lists without headers whose lengths follow from the table of entry starts; returns whether they are of this
/// kind.
fn plain_lists(
    decoder: &mut Decoder<'_>,
    page: &Page<'_>,
    slice: &PageSlice,
    kind: &Kind,
    bytes: usize,
    to: &mut Builder,
) -> Result<bool> {
    let Builder::List { offsets, values } = to else { return Ok(false) };
    let base = offsets.last().copied().unwrap_or_default();
    let Some(from) = page.ends((slice.from, slice.to), bytes, base, offsets)? else { return Ok(false) };
    let place = slice.from as u64;
    let start = page.start(slice.from).map_or(place, |start| start as u64);
    decoder.decode(kind, &mut Cursor::new(from, start), values, from.len() / bytes)?;
    Ok(true)
}

/// Bytes before the numbers of a vector: byte count, version, number of elements.
const VECTOR: usize = 10;

fn no_lists() -> Error {
    Error::unsupported("a list was found in a column without lists")
}

/// Returns the offsets of a column of lists, and the column of their items.
fn lists(to: &mut Builder) -> Result<(&mut Vec<i64>, &mut Builder)> {
    match to {
        Builder::List { offsets, values } => Ok((offsets, values.as_mut())),
        _ => Err(no_lists()),
    }
}

/// Decodes lists whose lengths follow from the entry starts.
#[allow(clippy::too_many_arguments, reason = "one caller, and a struct would only name them again")]
fn counted(
    decoder: &mut Decoder<'_>,
    data: &[u8],
    bounds: &[u32],
    slice: &PageSlice,
    kind: &Kind,
    skip: usize,
    bytes: usize,
    to: &mut Builder,
) -> Result<()> {
    let wrong =
        || Error::corrupt(format!("an entry is not a multiple of {bytes} bytes and a header of {skip}"));
    let (offsets, values) = lists(to)?;
    let bounds = bounds
        .get(slice.from..=slice.to)
        .ok_or_else(|| Error::corrupt("a table of entry offsets too short"))?;
    let bounds = match (kind, &mut *values) {
        (Kind::Number(number), Builder::Number { values, .. }) if skip == VECTOR => {
            let items = if *number == Number::Bool { Items::Bools } else { Items::Numbers(number.size()) };
            let short = short::entries(items, true, data, bounds, Lists { outer: None, offsets, values })?;
            bounds.get(short..).unwrap_or_default()
        }
        _ => bounds,
    };
    let (Some(&first), Some(&last)) = (bounds.first(), bounds.last()) else { return Ok(()) };
    offsets.room(bounds.len())?;
    let mut end = offsets.last().copied().unwrap_or_default();
    let mut uneven = false;
    // 32-bit division is faster.
    let (header, each) = (skip as u32, u32::try_from(bytes).unwrap_or(0));
    if each == 0 {
        return Err(Error::corrupt(format!("a list of elements of {bytes} bytes")));
    }
    for pair in bounds.windows(2) {
        if let [a, b] = pair {
            // Bounds rise; an entry shorter than its header is detected as uneven.
            let length = b - a;
            let n = length.saturating_sub(header) / each;
            uneven |= length != n * each + header;
            end += i64::from(n);
            offsets.try_push(end)?;
        }
    }
    if uneven {
        return Err(wrong());
    }
    let slice = |a: u32, b: u32| data.get(a as usize..b as usize).ok_or_else(wrong);
    if skip == 0 {
        let from = slice(first, last)?;
        return decoder.decode(kind, &mut Cursor::new(from, u64::from(first)), values, from.len() / bytes);
    }
    for pair in bounds.windows(2) {
        if let [a, b] = pair {
            let entry = slice(*a, *b)?;
            let (header, from) = entry.split_at_checked(skip).ok_or_else(wrong)?;
            let n = from.len() / bytes;
            if skip == VECTOR && header.last_chunk() != Some(&(n as u32).to_be_bytes()) {
                return Err(Error::corrupt(format!(
                    "a container of {n} elements by its length, another number by its header"
                ))
                .at(u64::from(*a)));
            }
            decoder.decode(kind, &mut Cursor::new(from, u64::from(*a)), values, n)?;
        }
    }
    Ok(())
}

/// Returns how entries of a kind are decoded as short lists or strings, if they can be, and whether they have a header.
fn short_lists<'b>(kind: &Kind, to: &'b mut Builder) -> Option<(Items, bool, Lists<'b>)> {
    fn numbers(kind: &Kind) -> Option<Items> {
        match kind {
            Kind::Number(Number::Bool) => Some(Items::Bools),
            Kind::Number(number) => Some(Items::Numbers(number.size())),
            _ => None,
        }
    }
    fn list<'b>(kind: &Kind, to: &'b mut Builder) -> Option<(Items, Lists<'b>)> {
        let items = match kind {
            Kind::Text | Kind::TString => Items::Text,
            Kind::Bits => Items::Bools,
            Kind::List(item) => numbers(item)?,
            _ => return None,
        };
        let (offsets, values) = match to {
            Builder::Text { offsets, bytes } => (offsets, bytes),
            Builder::List { offsets, values } => match values.as_mut() {
                Builder::Number { values, .. } => (offsets, values),
                _ => return None,
            },
            _ => return None,
        };
        Some((items, Lists { outer: None, offsets, values }))
    }
    let (kind, framed) = match kind {
        Kind::Framed(inner) => (inner.as_ref(), true),
        kind => (kind, false),
    };
    let (items, lists) = match kind {
        Kind::List(item) if numbers(item).is_none() => {
            let Builder::List { offsets: outer, values } = to else { return None };
            let (items, lists) = list(item, values)?;
            (items, Lists { outer: Some(outer), ..lists })
        }
        kind => list(kind, to)?,
    };
    Some((items, framed, lists))
}

/// Decodes entries that are a single value each, of any length.
fn whole(
    decoder: &mut Decoder<'_>,
    values: &Page<'_>,
    slice: &PageSlice,
    kind: &Kind,
    to: &mut Builder,
) -> Result<()> {
    // References inside an entry count from the start of the record.
    let origin = values.origin as u64;
    let Some(bounds) = values.bounds()? else {
        let mut c = Cursor::new(values.data, origin);
        decoder.decode(kind, &mut c, &mut to.like(), slice.from)?;
        decoder.decode(kind, &mut c, to, slice.to - slice.from)?;
        if slice.to == slice.items && c.remaining() > 0 {
            return Err(c.corrupt(format!("{} bytes of the basket are left over", c.remaining())));
        }
        return Ok(());
    };
    let bounds = bounds
        .get(slice.from..=slice.to)
        .ok_or_else(|| Error::corrupt("a table of entry offsets too short"))?;
    let short = match short_lists(kind, to) {
        Some((items, framed, lists)) => short::entries(items, framed, values.data, bounds, lists)?,
        None => 0,
    };
    let bounds = bounds.get(short..).unwrap_or_default();
    // Most kinds find their own end; the others must not see the bytes after the entry.
    let narrow = !matches!(kind, Kind::Text | Kind::TString | Kind::Framed(_));
    let mut c = Cursor::new(values.data, origin);
    let mut entry = slice.from + short;
    let mut decode_all = || {
        for pair in bounds.windows(2) {
            let [start, end] = pair else { break };
            if narrow {
                c = Cursor::new(values.data.get(..*end as usize).unwrap_or_default(), origin);
            }
            c.seek(*start as usize)?;
            decoder.next_entry();
            decoder.decode(kind, &mut c, to, 1)?;
            let left = i64::from(*end) - c.pos() as i64;
            if left != 0 {
                return Err(c.corrupt(format!("{left} bytes of the entry are left over")));
            }
            entry += 1;
        }
        Ok(())
    };
    decode_all().within(|| format!("entry {} of the basket", slice.dropped + entry))
}

/// Decodes entries that hold the same member of several objects, up to the end of the entry's bytes.
fn column(
    decoder: &mut Decoder<'_>,
    values: &Page<'_>,
    slice: &PageSlice,
    kind: &Kind,
    to: &mut Builder,
) -> Result<()> {
    let (offsets, items) = lists(to)?;
    let bounds = match values.bounds()? {
        Some(bounds) => bounds,
        None => one_entry(values)?,
    };
    for entry in slice.from..slice.to {
        let (Some(&start), Some(&end)) = (bounds.get(entry), bounds.get(entry + 1)) else { break };
        let mut c = Cursor::new(values.data.get(..end as usize).unwrap_or_default(), values.origin as u64);
        c.seek(start as usize)?;
        decoder.next_entry();
        decoder
            .column_to_end(kind, &mut c, items)
            .within(|| format!("entry {} of the basket", slice.dropped + entry))?;
        offsets.try_push(items.len() as i64)?;
    }
    Ok(())
}

/// Decodes entries that hold a variable array of each of several objects: a byte that says whether the array is
/// present, and its values, counted by the counter branch (`TStreamerInfo::kOffsetP`).
fn counted_column(
    decoder: &mut Decoder<'_>,
    values: &Page<'_>,
    share: &Share<'_>,
    kind: &Kind,
    to: &mut Builder,
) -> Result<()> {
    let (offsets, arrays) = lists(to)?;
    let (ends, items) = lists(arrays)?;
    each_entry(values, share, |c, numbers| {
        for &count in share.each.get(numbers).ok_or_else(fewer)? {
            let count = if c.u8()? == 0 { 0 } else { count as usize };
            decoder.decode(kind, c, items, count)?;
            ends.try_push(items.len() as i64)?;
        }
        offsets.try_push(ends.len() as i64 - 1)?;
        Ok(())
    })
}

/// Decodes entries that hold an array of objects for each of several objects: a header, then the objects.
fn rows(
    decoder: &mut Decoder<'_>,
    values: &Page<'_>,
    share: &Share<'_>,
    kind: &Kind,
    to: &mut Builder,
) -> Result<()> {
    let (offsets, rows) = lists(to)?;
    each_entry(values, share, |c, numbers| {
        decoder.next_entry();
        let counts = share.each.get(numbers).ok_or_else(fewer)?;
        // The header is written even without objects, but not if there was nothing to write at all.
        if c.remaining() > 0 || !counts.is_empty() {
            decoder.rows(kind, c, rows, counts.iter().map(|&count| count as usize))?;
        }
        offsets.try_push(rows.len() as i64)?;
        Ok(())
    })
}

/// Decodes entries that hold the members of a base class, one after the other, for several objects.
fn objects(
    decoder: &mut Decoder<'_>,
    values: &Page<'_>,
    share: &Share<'_>,
    kind: &Kind,
    to: &mut Builder,
) -> Result<()> {
    let Kind::Record(record) = kind else { return Err(no_lists()) };
    let (offsets, items) = lists(to)?;
    each_entry(values, share, |c, objects| {
        decoder.next_entry();
        if !objects.is_empty() {
            decoder.columns(record, c, items, objects.len())?;
        }
        offsets.try_push(items.len() as i64)?;
        Ok(())
    })
}

fn fewer() -> Error {
    Error::corrupt("its counter has fewer entries")
}

/// Decodes the wanted entries one by one, each with its range of counted elements. All bytes of an entry must be used.
fn each_entry(
    values: &Page<'_>,
    share: &Share<'_>,
    mut decode: impl FnMut(&mut Cursor<'_>, std::ops::Range<usize>) -> Result<()>,
) -> Result<()> {
    let bounds = match values.bounds()? {
        Some(bounds) => bounds,
        None => one_entry(values)?,
    };
    let counts = share.counts.unwrap_or_default();
    for entry in share.slice.from..share.slice.to {
        let range = bounds.get(entry).zip(bounds.get(entry + 1));
        let counted = counts.get(entry).zip(counts.get(entry + 1));
        let (Some((&start, &end)), Some((&first, &last))) = (range, counted) else { return Err(fewer()) };
        let mut c = Cursor::new(values.data.get(..end as usize).unwrap_or_default(), values.origin as u64);
        c.seek(start as usize)?;
        decode(&mut c, first as usize..last as usize)
            .within(|| format!("entry {} of the basket", share.slice.dropped + entry))?;
        if c.remaining() > 0 {
            return Err(c.corrupt(format!("{} bytes of entry {entry} are left over", c.remaining())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streamer::Classes;
    use crate::streamer::compile::Programs;
    use crate::table::PageSlice;

    const SLICE: PageSlice =
        PageSlice { number: 0, first: 0, dropped: 0, items: 3, from: 0, to: 3, leave_out: false };

    fn lists() -> Builder {
        let values = Box::new(Builder::Number { number: Number::I16, values: Vec::new() });
        Builder::List { offsets: vec![0], values }
    }

    /// Decodes lists of 16-bit numbers after a header; returns the column or the error.
    fn decoded(data: &[u8], bounds: &[u32], slice: &PageSlice, skip: usize) -> Result<(Vec<i64>, usize)> {
        let programs = Programs::new(Arc::new(Classes::default()));
        let mut to = lists();
        let kind = Kind::Number(Number::I16);
        counted(&mut Decoder::new(&programs, false), data, bounds, slice, &kind, skip, 2, &mut to)?;
        let Builder::List { offsets, values } = to else { unreachable!() };
        Ok((offsets, values.len()))
    }

    #[test]
    fn lengths_of_lists_follow_from_their_bounds() {
        let data = [0; 12];
        for (bounds, skip, want) in [
            ([0, 2, 2, 12], 0, Some(vec![0, 1, 1, 6])),
            ([0, 3, 4, 9], 1, Some(vec![0, 1, 1, 3])),
            // Not a multiple of an item, shorter than its header, or beyond the page.
            ([0, 3, 4, 12], 0, None),
            ([0, 0, 1, 2], 1, None),
            ([0, 2, 2, 14], 0, None),
        ] {
            let found = decoded(&data, &bounds, &SLICE, skip).ok();
            assert_eq!(found.as_ref().map(|(offsets, _)| offsets), want.as_ref(), "{bounds:?}");
            assert_eq!(found.map(|(_, n)| n as i64), want.and_then(|w| w.last().copied()), "{bounds:?}");
        }
        let middle = PageSlice { from: 1, to: 2, ..SLICE };
        assert_eq!(decoded(&data, &[0, 2, 8, 12], &middle, 0).unwrap(), (vec![0, 3], 3));
        let programs = Programs::new(Arc::new(Classes::default()));
        let kind = Kind::Number(Number::I16);
        let (mut decoder, mut to) = (Decoder::new(&programs, false), lists());
        for bytes in [0, 1 << 32] {
            counted(&mut decoder, &data, &[0, 2, 2, 12], &SLICE, &kind, 0, bytes, &mut to).unwrap_err();
        }
    }

    /// Decodes entries that are lists of lists of 16-bit numbers; returns the offsets of both, and the values.
    fn nested(entries: &[Vec<u8>]) -> Result<(Vec<i64>, Vec<i64>, Vec<u8>)> {
        let kind =
            Kind::Framed(Box::new(Kind::List(Box::new(Kind::List(Box::new(Kind::Number(Number::I16)))))));
        let starts = entries
            .iter()
            .scan(0, |start, entry| Some(std::mem::replace(start, *start + entry.len() as u32)));
        let table: Vec<u8> = starts.flat_map(u32::to_be_bytes).collect();
        let data = entries.concat();
        let page = Page { table: Some(&table), ..Page::plain(&data, entries.len()) };
        let slice = PageSlice { items: entries.len(), to: entries.len(), ..SLICE };
        let programs = Programs::new(Arc::new(Classes::default()));
        let mut to = Builder::new(&kind.type_of()?);
        whole(&mut Decoder::new(&programs, false), &page, &slice, &kind, &mut to)?;
        let Builder::List { offsets: outer, values } = to else { unreachable!() };
        let Builder::List { offsets, values } = *values else { unreachable!() };
        let Builder::Number { values, .. } = *values else { unreachable!() };
        Ok((outer, offsets, values))
    }

    #[test]
    fn entries_other_than_short_lists_are_decoded_among_them() {
        let lists = [0, 0, 0, 2, 0, 0, 0, 1, 9, 8, 0, 0, 0, 0];
        let framed = [&[0x40, 0, 0, 16, 0, 9], &lists[..]].concat();
        let bare = [&[0, 9], &lists[..]].concat();
        for odd in [None, Some(0), Some(1), Some(3)] {
            let entries: Vec<_> =
                (0..4).map(|i| if odd == Some(i) { bare.clone() } else { framed.clone() }).collect();
            let (outer, offsets, values) = nested(&entries).unwrap();
            assert_eq!(outer, [0, 2, 4, 6, 8], "{odd:?}");
            assert_eq!(offsets, [0, 1, 1, 2, 2, 3, 3, 4, 4], "{odd:?}");
            assert_eq!(values, 0x0908i16.to_ne_bytes().repeat(4), "{odd:?}");
        }
        // A list that is longer than its entry.
        let broken = [&framed[..13], &[2], &framed[14..]].concat();
        let error = nested(&[framed.clone(), framed, broken]).unwrap_err().to_string();
        assert!(error.contains("entry 2 of the basket"), "{error}");
    }

    #[test]
    fn no_bytes_are_left_over_in_a_basket_without_a_table() {
        let programs = Programs::new(Arc::new(Classes::default()));
        let read = |data: &[u8], to| {
            let (page, slice) = (Page::plain(data, 2), PageSlice { items: 2, to, ..SLICE });
            let mut texts = Builder::new(&Kind::Text.type_of()?);
            whole(&mut Decoder::new(&programs, false), &page, &slice, &Kind::Text, &mut texts)
        };
        read(b"\x01a\x01b", 2).unwrap();
        assert!(read(b"\x01a\x01bc", 2).unwrap_err().to_string().contains("left over"));
        read(b"\x01a\x01bc", 1).unwrap();
    }

    #[test]
    fn counters_give_bounds_within_the_page() {
        let page = Page::plain(&[0; 12], 3);
        assert_eq!(from_counts(&page, &[5, 7, 7, 8], 4).unwrap(), [0, 8, 8, 12]);
        assert!(from_counts(&page, &[5, 7, 7, 9], 4).is_err());
        // With one element less, later entries would get the values of their neighbours.
        assert!(from_counts(&page, &[5, 6, 6, 7], 4).is_err());
        assert!(from_counts(&page, &[5, 7, 7], 4).is_err());
        assert_eq!(one_entry(&Page::plain(b"ab", 1)).unwrap(), [0, 2]);
        assert!(one_entry(&page).is_err());
    }

    #[test]
    fn numbers_are_turned_on_their_way_to_their_place() {
        let mut to = [0; 4];
        let kind = Kind::Fixed { size: 2, item: Box::new(Kind::Number(Number::I16)) };
        place(&kind, &[1, 2, 3, 4], &mut to).unwrap();
        assert_eq!(to, [[1u8, 2], [3, 4]].map(|b| i16::from_be_bytes(b).to_ne_bytes()).concat()[..]);
        place(&Kind::Number(Number::Bool), &[0, 7, 1, 255], &mut to).unwrap();
        assert_eq!(to, [0, 1, 1, 1]);
        assert!(place(&Kind::Text, &[], &mut []).is_err());
    }
}
