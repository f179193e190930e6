//! Adds histograms of several files, alone or inside other objects, without decoding them to values.
//!
//! Two objects may differ only in contents, squares of weights and statistics. Adding them then means adding numbers at
//! known positions of their bytes. [`Sum::add`] refuses all other objects.

use super::{DirectoryId, FileWriter, Record};
use crate::array::Number;
use crate::error::{Error, ErrorKind, Result, Within};
use crate::file::{Directory, Key, RootFile};
use crate::streamer::{Object, Value};
use crate::wire::Cursor;
use crate::wire::grow::{self, Grow};
use rayon::prelude::*;
use sapwood_io::{Cause, Range, lock};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// `TH1::kIsAverage`: adding such histograms averages them.
const IS_AVERAGE: u32 = 1 << 18;

/// A range of numbers to add.
#[derive(Debug)]
struct Span {
    /// Start in the payload.
    at: usize,
    number: Number,
    total: Totals,
}

#[derive(Debug)]
enum Totals {
    Real(Vec<f64>),
    Whole(Vec<i64>),
}

/// An object, and the sum of this and similar objects.
#[derive(Debug)]
pub struct Sum {
    record: Record,
    spans: Vec<Span>,
    /// Whether a part of the contents is in no span, such as buffered fills: other objects are added in another way.
    partial: bool,
    /// Number of objects added, including the first.
    count: usize,
}

impl Sum {
    /// Reads the object of a key. An object that is not additive has no spans.
    fn read(file: &RootFile, key: &Key, room: &Room) -> Result<Self> {
        let mut noted = Noted::default();
        let (record, value) =
            Record::read_noting(file, key, &mut |class, member, at| noted.note(class, member, at))?;
        let (spans, partial) = match value.map(|value| noted.spans(&record, value, room)) {
            Some(Err(error)) if error.kind() == ErrorKind::Limit => return Err(error),
            spans => spans.and_then(Result::ok).unwrap_or_default(),
        };
        Ok(Self { record, spans, partial, count: 1 })
    }

    /// Whether any part of the object can be added.
    pub fn is_additive(&self) -> bool {
        !self.spans.is_empty()
    }
    /// Number of objects added, including the first.
    pub fn count(&self) -> usize {
        self.count
    }
    /// Size of the object in bytes.
    fn object_bytes(&self) -> usize {
        self.record.payload.len()
    }
    /// Size in memory in bytes.
    fn bytes(&self) -> usize {
        let values = |span: &Span| match &span.total {
            Totals::Real(values) => values.len(),
            Totals::Whole(values) => values.len(),
        };
        self.object_bytes() + 8 * self.spans.iter().map(values).sum::<usize>()
    }

    /// Whether, judging by its key, an object may differ only in the added numbers.
    fn may_be_like(&self, key: &Key) -> bool {
        key.classname == self.record.class
            && u64::from(key.key_bytes) == self.record.key_bytes
            && key.object_bytes as usize == self.record.payload.len()
    }

    /// Adds an object; requires [`Self::is_alike`].
    fn add(&mut self, other: &[u8]) {
        self.spans.iter_mut().for_each(|span| span.add(other));
        self.count += 1;
    }

    /// Whether an object differs only in the added numbers.
    fn is_alike(&self, other: &[u8]) -> bool {
        if self.partial {
            return false;
        }
        let mut at = 0;
        let ours = &self.record.payload;
        let same = |from: usize, to: usize| ours.get(from..to) == other.get(from..to);
        for span in &self.spans {
            if !same(at, span.at) {
                return false;
            }
            at = span.end();
        }
        other.len() == ours.len() && same(at, ours.len())
    }

    /// Returns the sum as a record. Fails if it overflows the integers of the class.
    fn summed(&mut self) -> Result<&Record> {
        let Record { class, name, payload, .. } = &mut self.record;
        if self.count > 1 {
            for span in &self.spans {
                let room = payload.get_mut(span.at..span.end());
                let room = room.ok_or_else(|| Error::corrupt("a span past the end of its object"))?;
                span.put(room).within(|| format!("the sum of {class} {name}"))?;
            }
        }
        Ok(&self.record)
    }
}

/// Bytes of memory that may still be taken, of those that all objects may take.
struct Room {
    left: AtomicUsize,
    most: usize,
}

impl Room {
    fn take(&self, bytes: usize) -> Result<()> {
        let rest = |room: usize| room.checked_sub(bytes);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest);
        taken.map(drop).map_err(|_| no_room(self.most))
    }
}

fn no_room(most: usize) -> Error {
    Error::limit(format!(
        "the objects to add take more than {most} bytes; raise max_memory, or merge some of them with only and drop"
    ))
}

impl Span {
    fn new(at: usize, number: Number, bytes: &[u8]) -> Result<Self> {
        let count = bytes.len() / number.size();
        let total = match number {
            Number::F32 | Number::F64 => Totals::Real(grow::filled(count, 0.0)?),
            _ => Totals::Whole(grow::filled(count, 0)?),
        };
        let mut span = Self { at, number, total };
        span.add_bytes(bytes);
        Ok(span)
    }
    fn end(&self) -> usize {
        let count = match &self.total {
            Totals::Real(values) => values.len(),
            Totals::Whole(values) => values.len(),
        };
        self.at + count * self.number.size()
    }
    fn add(&mut self, payload: &[u8]) {
        let bytes = payload.get(self.at..self.end()).unwrap_or_default();
        self.add_bytes(bytes);
    }
    fn add_bytes(&mut self, bytes: &[u8]) {
        macro_rules! each {
            ($type:ty, $values:expr, $wide:ty) => {
                for (total, chunk) in $values.iter_mut().zip(bytes.as_chunks::<{ size_of::<$type>() }>().0) {
                    *total += <$wide>::from(<$type>::from_be_bytes(*chunk));
                }
            };
        }
        match (&mut self.total, self.number) {
            (Totals::Real(values), Number::F32) => each!(f32, values, f64),
            (Totals::Real(values), _) => each!(f64, values, f64),
            (Totals::Whole(values), Number::I8) => each!(i8, values, i64),
            (Totals::Whole(values), Number::I16) => each!(i16, values, i64),
            (Totals::Whole(values), Number::I32) => each!(i32, values, i64),
            (Totals::Whole(values), _) => {
                for (total, chunk) in values.iter_mut().zip(bytes.as_chunks::<8>().0) {
                    *total = total.saturating_add(i64::from_be_bytes(*chunk));
                }
            }
        }
    }
    fn put(&self, room: &mut [u8]) -> Result<()> {
        macro_rules! each {
            ($type:ty, $values:expr) => {
                for (value, chunk) in $values.iter().zip(room.as_chunks_mut::<{ size_of::<$type>() }>().0) {
                    let fits = <$type>::try_from(*value);
                    let value = fits.map_err(|_| {
                        Error::argument(format!(
                            "{value} does not fit into its bins of type {}",
                            stringify!($type)
                        ))
                    })?;
                    *chunk = value.to_be_bytes();
                }
            };
        }
        match (&self.total, self.number) {
            (Totals::Real(values), Number::F32) => {
                for (value, chunk) in values.iter().zip(room.as_chunks_mut::<4>().0) {
                    *chunk = (*value as f32).to_be_bytes();
                }
            }
            (Totals::Real(values), _) => {
                for (value, chunk) in values.iter().zip(room.as_chunks_mut::<8>().0) {
                    *chunk = value.to_be_bytes();
                }
            }
            (Totals::Whole(values), Number::I8) => each!(i8, values),
            (Totals::Whole(values), Number::I16) => each!(i16, values),
            (Totals::Whole(values), Number::I32) => each!(i32, values),
            (Totals::Whole(values), _) => each!(i64, values),
        }
        Ok(())
    }
}

fn is_histogram(class: &str) -> bool {
    matches!(class, "TH1" | "TH2" | "TH3" | "TProfile" | "TProfile2D" | "TProfile3D")
}

/// Positions of histogram members in an object, found while it is read.
#[derive(Default)]
struct Noted {
    /// Positions of object names: the bits of each object (`fBits`) precede its name.
    names: Vec<usize>,
    statistics: Vec<usize>,
    arrays: Vec<(usize, Number)>,
}

impl Noted {
    fn note(&mut self, class: &str, member: &str, at: usize) {
        if class == "TNamed" && member == "fName" {
            self.names.push(at);
        } else if is_histogram(class) {
            match member {
                "fEntries" => self.statistics.push(at),
                "fSumw2" | "fBinEntries" | "fBinSumw2" => self.arrays.push((at, Number::F64)),
                other if other.starts_with("fTsumw") => self.statistics.push(at),
                _ => {}
            }
        }
    }

    /// Returns the positions of histogram numbers in an object, and whether other parts of it have contents; no positions
    /// if it cannot be added.
    fn spans(self, record: &Record, value: Value, room: &Room) -> Result<(Vec<Span>, bool)> {
        let (payload, origin) = (record.payload.as_slice(), record.key_bytes);
        let mut walk =
            Walk { origin, arrays: self.arrays, seen: HashSet::new(), old: false, partial: false, depth: 0 };
        walk.value(&value);
        drop(value);
        let averaged = self.names.iter().any(|at| {
            let bits = at.checked_sub(4).and_then(|bits| payload.get(bits..*at)?.first_chunk::<4>());
            bits.is_some_and(|bits| u32::from_be_bytes(*bits) & IS_AVERAGE != 0)
        });
        if averaged || walk.old || self.statistics.is_empty() {
            return Ok(Default::default());
        }
        let mut spans = Vec::new();
        for at in self.statistics {
            let bytes = payload.get(at..at + 8).ok_or_else(|| Error::corrupt("statistics past the end"))?;
            room.take(size_of::<f64>())?;
            spans.try_push(Span::new(at, Number::F64, bytes)?)?;
        }
        for (at, number) in walk.arrays {
            let mut cursor = Cursor::new(payload, origin);
            cursor.seek(at)?;
            let count = cursor.count(number.size())?;
            let bytes = cursor.take(count * number.size())?;
            room.take(count.saturating_mul(size_of::<f64>()))?;
            spans.try_push(Span::new(at + 4, number, bytes)?)?;
        }
        spans.sort_unstable_by_key(|span| span.at);
        if spans.windows(2).any(|w| matches!(w, [a, b] if a.end() > b.at)) {
            return Ok(Default::default());
        }
        Ok((spans, walk.partial))
    }
}

/// Stored bytes that are read and decompressed together.
const BATCH: u64 = 8 << 20;

/// The index of a key in its directory, the key, the sum of its path, and the byte range of its stored object.
type Candidate<'a> = (usize, &'a Key, &'a SharedSum, Range);

/// A sum with several owners.
pub type SharedSum = Arc<Mutex<Sum>>;

/// Sums by the paths of their objects, with the objects read from a file to be added.
pub struct Sums {
    /// Bytes that all objects may take in memory.
    most: usize,
    /// Bytes of the sums that are kept.
    kept: usize,
    /// Bytes of the largest object that is kept.
    largest: usize,
    known: HashMap<String, SharedSum>,
    /// Each sum with the range of its object in `room`.
    pending: Vec<(SharedSum, std::ops::Range<usize>)>,
    /// The objects read; the buffer is reused from file to file.
    room: Vec<u8>,
}

impl Sums {
    /// Creates an empty set of sums that take at most `most` bytes.
    pub fn new(most: usize) -> Self {
        let (kept, largest) = (0, 0);
        Self { most, kept, largest, known: HashMap::new(), pending: Vec::new(), room: Vec::new() }
    }

    /// Bytes that may still be taken.
    fn rest(&self) -> usize {
        self.most.saturating_sub(self.kept).saturating_sub(self.room.len())
    }

    /// Reads objects; each starts a sum. Fails before they and their numbers take too much memory.
    pub fn start(&self, file: &RootFile, keys: &[Key]) -> Result<Vec<Sum>> {
        let (mut total, mut largest) = (0_usize, 0);
        for key in keys {
            let size = key.object_bytes as usize;
            total = total.saturating_add(size);
            largest = largest.max(size);
        }
        // An object is in memory twice while it is decoded, and again while the result is written. The objects in `room`
        // are gone by then.
        let spare = self.largest.max(self.room.len().saturating_add(largest));
        let left = self.most.saturating_sub(self.kept).checked_sub(total.saturating_add(spare));
        let left = AtomicUsize::new(left.ok_or_else(|| no_room(self.most))?);
        let room = Room { left, most: self.most };
        keys.par_iter().with_min_len(16).map(|key| Sum::read(file, key, &room)).collect()
    }

    /// Counts the memory of a sum that is kept.
    pub fn keep(&mut self, sum: &Sum) {
        self.kept = self.kept.saturating_add(sum.bytes());
        self.largest = self.largest.max(sum.object_bytes());
    }

    /// Fails if there is no room for `more` bytes.
    pub fn check(&self, more: usize) -> Result<()> {
        if more > self.rest() { Err(no_room(self.most)) } else { Ok(()) }
    }

    /// Inserts a sum for the objects of a path.
    pub fn insert(&mut self, path: String, sum: SharedSum) {
        self.known.insert(path, sum);
    }

    /// Reads the objects of a directory that are similar to the sums of their paths, which begin with `prefix`. Returns
    /// the indices of all other keys. Older cycles are skipped.
    pub fn read(&mut self, file: &RootFile, directory: &Directory, prefix: &str) -> Result<Vec<usize>> {
        let keys = &directory.keys;
        let mut newest: HashMap<&str, usize> = HashMap::new();
        for (index, key) in keys.iter().enumerate() {
            let cycle = |index: &usize| keys.get(*index).map(|key| key.cycle);
            grow::place(&mut newest)?;
            let known = newest.entry(&key.name).or_insert(index);
            if cycle(known) < Some(key.cycle) {
                *known = index;
            }
        }
        let (mut left, mut wanted): (Vec<usize>, Vec<Candidate<'_>>) = Default::default();
        let (mut path, size) = (prefix.to_owned(), file.source().size());
        for (index, key) in
            keys.iter().enumerate().filter(|(index, key)| newest.get(&*key.name) == Some(index))
        {
            path.truncate(prefix.len());
            path.push_str(&key.name);
            // Where records have checksums, they are read one by one.
            let sum = self.known.get(&path).filter(|_| file.checksums().is_none());
            let sum = sum.filter(|sum| lock(sum).may_be_like(key));
            match (sum, file.stored(key)) {
                (Some(sum), Ok(range)) if range.end() <= size => wanted.try_push((index, key, sum, range))?,
                _ => left.try_push(index)?,
            }
        }
        wanted.sort_unstable_by_key(|(index, .., range)| (*range, *index));
        let mut stored = Vec::new();
        let mut rest = wanted.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |(.., range): &&Candidate<'_>| {
                bytes += range.length;
                bytes <= BATCH
            };
            let (batch, more) = rest.split_at(rest.iter().take_while(fits).count().max(1));
            rest = more;
            let ranges = grow::collected(batch.iter().map(|(.., range)| *range))?;
            let requests = file.source().plan(&ranges);
            // Start of each object in the bytes read.
            let mut places = grow::filled(batch.len(), 0)?;
            let mut length = 0_usize;
            for request in &requests {
                for index in &request.wanted {
                    if let Some((place, range)) = places.get_mut(*index).zip(ranges.get(*index)) {
                        *place = length + (range.offset - request.range.offset) as usize;
                    }
                }
                length += request.range.length as usize;
            }
            stored.clear();
            stored.try_fill(length, 0)?;
            let fetched = grow::collected(requests.iter().map(|request| request.range))?;
            file.source().fetch(&fetched, &mut stored, Cause::Object)?;
            let start = self.room.len();
            let sizes = batch.iter().map(|(_, key, ..)| key.object_bytes as usize);
            let total = sizes.clone().sum();
            self.check(total)?;
            self.room.try_fill(total, 0)?;
            let mut room = self.room.get_mut(start..).unwrap_or_default();
            let mut slots = grow::with_room(batch.len())?;
            for size in sizes {
                let (slot, behind) = room.split_at_mut_checked(size).unwrap_or_default();
                slots.push(slot);
                room = behind;
            }
            let like = |((one, place), slot): ((&Candidate<'_>, &usize), &mut [u8])| {
                let (_, key, sum, range) = one;
                let object = stored.get(*place..*place + range.length as usize).unwrap_or_default();
                file.verify_record(key)?;
                file.unpack_into(key, object, slot)?;
                Ok(lock(sum).is_alike(slot))
            };
            let work = batch.par_iter().zip(&places).zip(slots).with_min_len(16);
            let alike = work.map(like).collect::<Result<Vec<bool>>>()?;
            let mut at = start;
            for ((index, key, sum, _), alike) in batch.iter().zip(alike) {
                let end = at + key.object_bytes as usize;
                if alike {
                    self.pending.try_push(((*sum).clone(), at..end))?;
                } else {
                    left.try_push(*index)?;
                }
                at = end;
            }
        }
        left.sort_unstable();
        Ok(left)
    }

    /// Adds the objects that were read.
    pub fn add(&mut self) {
        let add = |(sum, at): &(SharedSum, std::ops::Range<usize>)| {
            lock(sum).add(self.room.get(at.clone()).unwrap_or_default());
        };
        self.pending.par_iter().with_min_len(64).for_each(add);
        self.forget();
    }

    /// Drops the objects that were read.
    pub fn forget(&mut self) {
        self.pending.clear();
        self.room.clear();
        self.room.shrink_to(BATCH as usize);
    }
}

/// Whether a histogram has fills in its buffer that are not in its bins yet: the first number counts them.
fn has_fills(histogram: &Object) -> bool {
    match histogram.own("fBuffer") {
        Some(Value::Numbers(Number::F64, bytes)) => {
            bytes.first_chunk().is_some_and(|first| f64::from_ne_bytes(*first) > 0.0)
        }
        _ => false,
    }
}

/// Maximum number of objects inside each other in which histograms are looked for.
const DEEPEST: usize = 1000;

/// Finds the contents of histograms, which are their array base classes.
struct Walk {
    origin: u64,
    arrays: Vec<(usize, Number)>,
    seen: HashSet<u64>,
    /// A histogram from before ROOT 3, or one with more than these classes; or objects that nest too deep.
    old: bool,
    /// Contents outside of the arrays: fills in a buffer, bins that are objects.
    partial: bool,
    depth: usize,
}

impl Walk {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(object) => self.object(object),
            Value::List(items) => items.iter().for_each(|item| self.value(item)),
            Value::Map(pairs) => pairs.iter().for_each(|(key, value)| {
                self.value(key);
                self.value(value);
            }),
            Value::Pair(pair) => {
                self.value(&pair.0);
                self.value(&pair.1);
            }
            _ => {}
        }
    }
    fn object(&mut self, object: &Object) {
        if object.reference > 1 && !self.seen.insert(object.reference) {
            return;
        }
        self.old |= object.class == "TH1" && object.version < 3 || self.depth > DEEPEST;
        if self.depth > DEEPEST {
            return;
        }
        self.depth += 1;
        self.partial |= object.class == "TH2PolyBin" || object.class == "TH1" && has_fills(object);
        // The axes of a graph are a histogram, which is not added.
        self.old |= (object.is("TGraph") || object.is("TGraph2D") || object.is("TMultiGraph"))
            && matches!(object.get("fHistogram"), Some(Value::Object(_)));
        let holds = object.bases.iter().any(|base| base.is("TH1"));
        for base in &object.bases {
            match Number::of_array(&base.class) {
                Some(number) if holds => {
                    let at = usize::try_from(base.place.0.saturating_sub(self.origin)).unwrap_or(usize::MAX);
                    self.arrays.push((at, number));
                }
                _ => self.object(base),
            }
        }
        object.members.iter().for_each(|(_, value)| self.value(value));
        self.depth -= 1;
    }
}

impl FileWriter {
    /// Writes sums under their names, with the streamer info of their classes.
    pub fn write_sums(&mut self, directory: DirectoryId, sums: &[(String, SharedSum)]) -> Result<()> {
        for (name, sum) in sums {
            self.copy(directory, name, lock(sum).summed()?)?;
        }
        Ok(())
    }
}
