//! Buffered columns: values are appended in the order of the fields and cut into pages.

use super::encode::encode;
use crate::array::{Column, Number};
use crate::compress::effort::Effort;
use crate::compress::encode::Compression;
use crate::error::{Error, Result};
use crate::ntuple::encoding::Encoding;
use crate::ntuple::envelope::checksum;
use crate::ntuple::schema::Schema;
use crate::ntuple::structure::{Stored, Structure};
use crate::wire::grow::{self, Grow};
use std::ops::Range;

/// A page that is ready to be written.
#[derive(Debug)]
pub struct Sealed {
    pub elements: usize,
    /// Uncompressed bytes of the page.
    pub length: usize,
    pub bytes: PageBytes,
    pub checksum: u64,
}

/// The bytes of a page as they are stored.
#[derive(Debug)]
pub enum PageBytes {
    /// Encoded and compressed.
    Made(Vec<u8>),
    /// A range of the buffered elements, which are stored as they are.
    Buffered(Range<usize>),
}

/// A column of the current cluster.
#[derive(Debug)]
pub struct Pending {
    /// The physical column.
    pub column: usize,
    pub encoding: Encoding,
    /// Type of the buffered numbers.
    memory: Number,
    /// The buffered elements.
    pub data: Vec<u8>,
    pub sealed: Vec<Sealed>,
    /// For offsets, the last one; for a switch, the elements of each type. Both count from the start of the cluster.
    pub counts: Vec<u64>,
    /// Number of elements in the clusters before.
    pub first_element: u64,
    /// Whether a cluster before has this column.
    pub started: bool,
    /// Number of buffered elements that sealed pages hold, or will hold when the pages of this step are sealed.
    pub taken: usize,
    /// Compression of the sealed pages, if they were copied.
    pub code: Option<u32>,
    /// Target of copied pages, if any.
    pub target: Option<CopiedTo>,
    /// Level at which pages are compressed.
    effort: Effort,
}

/// Target of the pages of a copied cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopiedTo {
    /// A physical column.
    Column(usize),
    /// None: the cluster was written before the column was added.
    Nothing,
}

impl Pending {
    fn new(column: usize, encoding: Encoding, memory: Number) -> Self {
        let (data, sealed, counts) = Default::default();
        Self {
            column,
            encoding,
            memory,
            data,
            sealed,
            counts,
            first_element: 0,
            started: false,
            taken: 0,
            code: None,
            target: None,
            effort: Effort::default(),
        }
    }
    /// Bytes of a buffered element.
    pub fn width(&self) -> usize {
        if self.encoding == Encoding::Switch { 12 } else { self.memory.size() }
    }
    /// Number of elements in the sealed pages.
    pub fn elements(&self) -> u64 {
        self.sealed.iter().map(|page| page.elements as u64).sum()
    }
    /// Starts the next cluster.
    pub fn begin_cluster(&mut self) {
        self.first_element += self.elements();
        self.started |= self.target != Some(CopiedTo::Nothing);
        self.sealed.clear();
        self.data.clear();
        self.counts.clear();
        (self.code, self.target, self.taken) = (None, None, 0);
    }
    /// Drops the elements that are in sealed pages.
    pub fn drain(&mut self) {
        let bytes = std::mem::take(&mut self.taken) * self.width();
        if bytes > 0 {
            self.data.drain(..bytes.min(self.data.len()));
        }
    }
    /// Returns the number of elements of each page to seal now: full pages, or all pages.
    pub fn cuts(&self, page_bytes: usize, all: bool) -> Result<Vec<usize>> {
        let most = (page_bytes / self.width()).max(1);
        let mut left = self.data.len() / self.width();
        let mut cuts = Vec::new();
        // Start a page only if it will be at least half full.
        while left >= most + most.div_ceil(2) && left > most {
            cuts.try_push(most)?;
            left -= most;
        }
        if all && left > most {
            cuts.try_push(left.div_ceil(2))?;
            left /= 2;
        }
        if all && left > 0 {
            cuts.try_push(left)?;
        }
        Ok(cuts)
    }
    /// Whether the buffered elements are stored as they are. They then stay in the buffer until the cluster is written.
    pub fn is_stored_as_is(&self, compression: Compression) -> bool {
        compression == Compression::None
            && self.encoding == Encoding::Plain(self.memory)
            && (cfg!(target_endian = "little") || self.memory.size() == 1)
    }
    /// Returns the stored bytes of a page.
    pub fn stored<'a>(&'a self, page: &'a Sealed) -> &'a [u8] {
        match &page.bytes {
            PageBytes::Made(bytes) => bytes,
            PageBytes::Buffered(range) => self.data.get(range.clone()).unwrap_or_default(),
        }
    }
    /// Chooses the level at which the elements that are taken now, and further ones, are compressed.
    pub fn measure(&mut self, compression: Compression) -> Result<()> {
        let width = self.width();
        self.effort.prepare(compression, self.taken * width, |range| {
            let whole = range.start / width * width..range.end / width * width;
            let mut page = Vec::new();
            encode(self.encoding, self.memory, self.data.get(whole).unwrap_or_default(), &mut page)?;
            Ok(page.into())
        })
    }
    /// Makes a page from elements.
    pub fn seal(
        &self,
        from: usize,
        to: usize,
        compression: Compression,
        room: &mut [Vec<u8>; 2],
    ) -> Result<Sealed> {
        let width = self.width();
        let range = from * width..to * width;
        let values = self.data.get(range.clone()).unwrap_or_default();
        if self.is_stored_as_is(compression) {
            let (checksum, length) = (checksum(values), range.len());
            return Ok(Sealed { elements: to - from, length, checksum, bytes: PageBytes::Buffered(range) });
        }
        let [page, packed] = room;
        page.clear();
        encode(self.encoding, self.memory, values, page)?;
        let used = self.effort.compress(compression, page, packed)?;
        let bytes = used.and_then(|used| packed.get(..used)).unwrap_or(page);
        let bytes = grow::copied(bytes)?;
        let (checksum, bytes) = (checksum(&bytes), PageBytes::Made(bytes));
        Ok(Sealed { elements: to - from, length: page.len(), checksum, bytes })
    }
}

/// Returns all columns of a field, whatever its type.
pub fn whole(
    schema: &Schema,
    field: usize,
    encoding: &impl Fn(usize) -> Result<Encoding>,
    to: &mut Vec<(usize, Pending)>,
) -> Result<()> {
    let Some(field) = schema.fields.get(field) else { return Ok(()) };
    for &column in field.representations.first().into_iter().flatten() {
        let encoding = encoding(column)?;
        to.push((to.len(), Pending::new(column, encoding, encoding.natural())));
    }
    field.children.iter().try_for_each(|&child| whole(schema, child, encoding, to))
}

/// Returns the columns of a structure by slot; `encodings` are those of the physical columns.
pub fn pending(
    structure: &Structure,
    encoding: &impl Fn(usize) -> Result<Encoding>,
    to: &mut Vec<(usize, Pending)>,
) -> Result<()> {
    let mut add = |stored: &Stored, memory: Option<Number>| {
        let column = stored.choices.first().copied();
        let column = column.ok_or_else(|| Error::corrupt("the field has no columns"))?;
        let encoding = encoding(column)?;
        let memory = memory.unwrap_or_else(|| encoding.natural());
        to.push((stored.slot, Pending::new(column, encoding, memory)));
        Ok::<_, Error>(())
    };
    match structure {
        Structure::Number { stored, number } => add(stored, Some(*number)),
        Structure::Text { offsets, chars } => {
            add(offsets, Some(Number::U64))?;
            add(chars, None)
        }
        Structure::List { offsets, item } | Structure::Option { offsets, item } => {
            add(offsets, Some(Number::U64))?;
            pending(item, encoding, to)
        }
        Structure::Fixed { item, .. } => pending(item, encoding, to),
        Structure::Record { fields, .. } => {
            fields.iter().try_for_each(|(_, field)| pending(field, encoding, to))
        }
        Structure::Variant { switch, items } => {
            add(switch, Some(Number::U64))?;
            items.iter().try_for_each(|item| pending(item, encoding, to))
        }
        Structure::Sizes { .. } | Structure::Streamed { .. } => {
            Err(Error::unsupported("cannot add values of a class that writes its own bytes"))
        }
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = i64> + Clone {
    bytes.as_chunks().0.iter().map(|word| i64::from_ne_bytes(*word))
}
fn word(bytes: &[u8], at: usize) -> i64 {
    bytes.as_chunks().0.get(at).map_or(0, |word| i64::from_ne_bytes(*word))
}

fn check_offsets(offsets: &[u8], end: usize) -> Result<()> {
    let mut last = 0;
    for offset in words(offsets) {
        if offset < last {
            return Err(Error::argument(format!("the offsets of lists decrease from {last} to {offset}")));
        }
        last = offset;
    }
    if last as u64 > end as u64 {
        return Err(Error::argument(format!(
            "the offsets of lists end at {last}, but there are {end} elements"
        )));
    }
    Ok(())
}

/// Checks that a column holds values of a structure.
pub fn check(structure: &Structure, column: &Column) -> Result<()> {
    let wrong = || Error::argument(format!("the field takes {}, not {}", takes(structure), kind_of(column)));
    match (structure, column) {
        (Structure::Number { number, .. }, Column::Number { number: got, values }) if number == got => {
            if values.len().is_multiple_of(number.size()) {
                return Ok(());
            }
            Err(Error::argument(format!(
                "{} bytes are not a whole number of values of {} bytes",
                values.len(),
                number.size()
            )))
        }
        (Structure::Text { .. }, Column::Text { offsets, bytes }) => check_offsets(offsets, bytes.len()),
        (Structure::List { item, .. }, Column::List { offsets, values }) => {
            check(item, values)?;
            check_offsets(offsets, values.len())
        }
        (Structure::Option { item, .. }, Column::Option { index, values }) => {
            check(item, values)?;
            let end = values.len() as i64;
            match words(index).find(|place| *place >= end) {
                Some(place) => {
                    Err(Error::argument(format!("an index is {place}, but there are {end} values")))
                }
                None => Ok(()),
            }
        }
        // Every value is present.
        (Structure::Option { item, .. }, _) => check(item, column),
        (Structure::Fixed { size, item }, Column::FixedList { length, size: got, values }) if size == got => {
            check(item, values)?;
            if length.checked_mul(*size).is_some_and(|want| want <= values.len()) {
                return Ok(());
            }
            Err(Error::argument(format!("{} values are too few for {length} arrays of {size}", values.len())))
        }
        (Structure::Record { fields, .. }, Column::Record { length, fields: got, .. })
            if fields.len() == got.len() =>
        {
            for ((name, member), (_, values)) in fields.iter().zip(got) {
                check(member, values).map_err(|e| e.within(format!("member {name}")))?;
                if values.len() < *length {
                    return Err(Error::argument(format!(
                        "member {name} has {} values, but there are {length} records",
                        values.len()
                    )));
                }
            }
            Ok(())
        }
        (Structure::Variant { items, .. }, Column::Union { tags, index, variants })
            if items.len() == variants.len() =>
        {
            for (item, values) in items.iter().zip(variants) {
                check(item, present(item, values))?;
            }
            if tags.len() * 8 != index.len() {
                return Err(Error::argument("the union has different numbers of tags and indexes"));
            }
            for (tag, place) in tags.iter().zip(words(index)) {
                let end = variants.get(usize::from(*tag)).map_or(0, Column::len);
                if place < 0 || place as u64 >= end as u64 {
                    return Err(Error::argument(format!(
                        "the index of a value of type {tag} is {place}, but there are {end} values of that type"
                    )));
                }
            }
            Ok(())
        }
        _ => Err(wrong()),
    }
}

/// Returns the values of a variant's type. A missing value makes the variant empty, unless the type itself is optional.
fn present<'c>(item: &Structure, values: &'c Column) -> &'c Column {
    match values {
        Column::Option { values, .. } if !matches!(item, Structure::Option { .. }) => values,
        _ => values,
    }
}

/// Returns the index of a value among the [`present`] values of its variant type; `None` if the variant is empty.
fn present_at(item: &Structure, values: &Column, place: usize) -> Option<usize> {
    match (item, values) {
        (Structure::Option { .. }, _) => Some(place),
        (_, Column::Option { index, .. }) => usize::try_from(word(index, place)).ok(),
        (Structure::Variant { items, .. }, Column::Union { tags, index, variants }) => {
            let tag = usize::from(*tags.get(place)?);
            present_at(items.get(tag)?, variants.get(tag)?, word(index, place) as usize).map(|_| place)
        }
        _ => Some(place),
    }
}

/// Appends the values `start` to `stop` of a column that passed [`check`].
///
/// # Errors
///
/// There is no memory; some columns have more elements then.
pub fn append(
    structure: &Structure,
    to: &mut [Pending],
    column: &Column,
    start: usize,
    end: usize,
) -> Result<()> {
    match (structure, column) {
        (Structure::Number { stored, number }, Column::Number { values, .. }) => {
            let size = number.size();
            if let (Some(pending), Some(values)) =
                (to.get_mut(stored.slot), values.get(start * size..end * size))
            {
                pending.data.try_extend(values)?;
            }
        }
        (Structure::Text { offsets: stored, chars }, Column::Text { offsets, bytes }) => {
            let (first, last) = push_ends(to, stored, offsets, start, end)?;
            if let (Some(pending), Some(text)) = (to.get_mut(chars.slot), bytes.get(first..last)) {
                pending.data.try_extend(text)?;
            }
        }
        (Structure::List { offsets: stored, item }, Column::List { offsets, values }) => {
            let (first, last) = push_ends(to, stored, offsets, start, end)?;
            append(item, to, values, first, last)?;
        }
        (Structure::Option { offsets, item }, Column::Option { index, values }) => {
            let places = words(index).skip(start).take(end - start);
            push_counts(to, offsets, places.clone().map(|place| u64::from(place >= 0)))?;
            for (first, last) in runs(places.filter(|place| *place >= 0))? {
                append(item, to, values, first, last)?;
            }
        }
        (Structure::Option { offsets, item }, Column::Union { .. }) => {
            let places = (start..end).map(|at| present_at(item, column, at).map_or(-1, |at| at as i64));
            push_counts(to, offsets, places.clone().map(|place| u64::from(place >= 0)))?;
            for (first, last) in runs(places.filter(|place| *place >= 0))? {
                append(item, to, column, first, last)?;
            }
        }
        (Structure::Option { offsets, item }, _) => {
            push_counts(to, offsets, std::iter::repeat_n(1, end - start))?;
            append(item, to, column, start, end)?;
        }
        (Structure::Fixed { size, item }, Column::FixedList { values, .. }) => {
            append(item, to, values, start * size, end * size)?;
        }
        (Structure::Record { fields, .. }, Column::Record { fields: values, .. }) => {
            for ((_, member), (_, values)) in fields.iter().zip(values) {
                append(member, to, values, start, end)?;
            }
        }
        (Structure::Variant { switch, items }, Column::Union { tags, index, variants }) => {
            let mut places: Vec<Vec<i64>> = vec![Vec::new(); items.len()];
            let Some(pending) = to.get_mut(switch.slot) else { return Ok(()) };
            pending.data.room(16 * (end - start))?;
            pending.counts.resize(items.len(), 0);
            for (tag, place) in tags.iter().zip(words(index)).skip(start).take(end - start) {
                let tag = usize::from(*tag);
                let of = items.get(tag).zip(variants.get(tag));
                let place = of.and_then(|(item, values)| present_at(item, values, place as usize));
                let (element, number) = match (pending.counts.get_mut(tag), places.get_mut(tag), place) {
                    (Some(count), Some(places), Some(place)) => {
                        places.try_push(place as i64)?;
                        *count += 1;
                        (*count - 1, tag as u32 + 1)
                    }
                    _ => (0, 0),
                };
                pending.data.extend(element.to_ne_bytes());
                pending.data.extend(number.to_ne_bytes());
            }
            for ((item, values), places) in items.iter().zip(variants).zip(places) {
                for (first, last) in runs(places.into_iter())? {
                    append(item, to, present(item, values), first, last)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Appends the ends of lists; returns the range of their elements.
fn push_ends(
    to: &mut [Pending],
    stored: &Stored,
    offsets: &[u8],
    start: usize,
    end: usize,
) -> Result<(usize, usize)> {
    let (first, last) = (word(offsets, start), word(offsets, end));
    if let Some(pending) = to.get_mut(stored.slot) {
        pending.counts.resize(1, 0);
        let before = pending.counts.first().copied().unwrap_or_default();
        let base = before.wrapping_sub(first as u64);
        pending.data.room(8 * (end - start))?;
        for offset in words(offsets.get(8 * (start + 1)..8 * (end + 1)).unwrap_or_default()) {
            pending.data.extend(base.wrapping_add(offset as u64).to_ne_bytes());
        }
        pending.counts.fill(base.wrapping_add(last as u64));
    }
    Ok((first as usize, last as usize))
}

/// Appends the ends of lists of these lengths.
fn push_counts(to: &mut [Pending], stored: &Stored, lengths: impl Iterator<Item = u64>) -> Result<()> {
    let Some(pending) = to.get_mut(stored.slot) else { return Ok(()) };
    let mut end = pending.counts.first().copied().unwrap_or_default();
    for length in lengths {
        end += length;
        pending.data.try_extend(&end.to_ne_bytes())?;
    }
    pending.counts = vec![end];
    Ok(())
}

/// Merges consecutive places into ranges.
fn runs(places: impl Iterator<Item = i64>) -> Result<Vec<(usize, usize)>> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for place in places {
        let place = place as usize;
        match runs.last_mut() {
            Some((_, end)) if *end == place => *end += 1,
            _ => runs.try_push((place, place + 1))?,
        }
    }
    Ok(runs)
}

fn takes(structure: &Structure) -> String {
    match structure {
        Structure::Number { number, .. } => number.dtype().into(),
        Structure::Text { .. } => "strings".into(),
        Structure::List { item, .. } => format!("lists of {}", takes(item)),
        Structure::Option { item, .. } => format!("{} or missing", takes(item)),
        Structure::Fixed { size, item } => format!("arrays of {size} {}", takes(item)),
        Structure::Record { fields, .. } => format!("records of {} members", fields.len()),
        Structure::Variant { items, .. } => format!("unions of {} types", items.len()),
        Structure::Sizes { .. } | Structure::Streamed { .. } => "nothing".into(),
    }
}

fn kind_of(column: &Column) -> String {
    match column {
        Column::Number { number, .. } => number.dtype().into(),
        Column::Text { .. } => "strings".into(),
        Column::FixedList { size, values, .. } => format!("arrays of {size} {}", kind_of(values)),
        Column::List { values, .. } => format!("lists of {}", kind_of(values)),
        Column::Record { fields, .. } => format!("records of {} members", fields.len()),
        Column::Option { values, .. } => format!("{} or missing", kind_of(values)),
        Column::Union { variants, .. } => format!("unions of {} types", variants.len()),
        Column::Empty => "nothing".into(),
    }
}
