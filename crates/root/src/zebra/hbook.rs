//! HBOOK objects in RZ files: histograms and the descriptions of ntuples.

use super::bank::{Bank, Structure};
use super::rz::{Cycle, RzFile};
use super::words::Words;
use crate::error::{Error, Result};
use crate::wire::grow;

/// Bits of the first data word of a header.
mod flags {
    pub const TWO_D: u32 = 1 << 1;
    pub const TABLE: u32 = 1 << 2;
    pub const NTUPLE: u32 = 1 << 3;
    pub const AUTOMATIC: u32 = 1 << 4;
    pub const VARIABLE: u32 = 1 << 5;
    pub const STATISTICS: u32 = 1 << 6;
    pub const PROFILE: u32 = 1 << 7;
    pub const MAXIMUM: u32 = 1 << 19;
    pub const MINIMUM: u32 = 1 << 20;
}

/// Tag of the first key word in directories of HBOOK.
pub const TAG: &str = "HBOOK-ID";

/// Class of an object, from its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A histogram of one dimension.
    OneD,
    /// A histogram of two dimensions, or a table.
    TwoD,
    /// A profile.
    Profile,
    /// A row-wise ntuple.
    RowWise,
    /// A column-wise ntuple.
    ColumnWise,
    /// An array of data.
    Array,
}

/// Number of words read to determine the class of an object.
const FIRST_WORDS: usize = 8192;
/// Words of a bank from its address to its first data word.
const UP_TO_FLAGS: usize = 10;

impl Class {
    /// Returns the class of a structure from its entry bank, if this is a header.
    pub fn of(structure: &Structure<'_>) -> Option<Self> {
        let header = structure.entry?;
        Self::of_header(&structure.name(header), structure.data(header).ok()?.get(0)?)
    }
    fn of_header(name: &str, bits: u32) -> Option<Self> {
        match name {
            "HIDA" => Some(Self::Array),
            "HIDT" => Some(Self::ColumnWise),
            "HIDN" => Some(Self::RowWise),
            name if !name.starts_with("HID") || bits & flags::NTUPLE != 0 => None,
            _ if bits & flags::PROFILE != 0 => Some(Self::Profile),
            _ if bits & (flags::TWO_D | flags::TABLE) != 0 => Some(Self::TwoD),
            _ => Some(Self::OneD),
        }
    }
    /// Returns the class of an object in a file; `None` if it is not an HBOOK object. Of a large object, only the table
    /// and the header are read.
    pub fn read(file: &RzFile, cycle: &Cycle) -> Result<Option<Self>> {
        let first = file.object_part(cycle, 0, FIRST_WORDS)?;
        if cycle.words as usize <= FIRST_WORDS {
            return Ok(file.structure(cycle, &first).ok().as_ref().and_then(Self::of));
        }
        let Some(place) = entry_place(&file.words(cycle, &first)) else { return Ok(None) };
        let bytes = file.object_part(cycle, place, UP_TO_FLAGS)?;
        let header = file.words(cycle, &bytes);
        let flags = header.get(7).filter(|&words| words > 0).and(header.get(9));
        let name = header.slice(4, 1).ok().map(|name| name.text()).transpose()?;
        Ok(flags.zip(name).and_then(|(flags, name)| Self::of_header(&name, flags)))
    }
}

/// Returns the index of the word at the entry bank's address, if the first words contain the whole table.
fn entry_place(words: &Words<'_>) -> Option<usize> {
    let (table, entry) = (words.get(0)? as usize, words.get(2)?);
    if table == 0 {
        return Some(3 + Bank::head(words.get(3)?).checked_sub(9)?);
    }
    let mut at = table.checked_add(3)?;
    let ranges = words.slice(3, table).ok()?;
    for pair in 0..table / 2 {
        let (from, to) = (ranges.get(2 * pair)?, ranges.get(2 * pair + 1)?);
        if (from..to).contains(&entry) {
            return at.checked_add((entry - from) as usize);
        }
        at = at.checked_add(to.saturating_sub(from) as usize)?;
    }
    None
}

/// An axis.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// Number of bins, without underflow and overflow.
    pub bins: usize,
    /// Lower limit.
    pub low: f32,
    /// Upper limit.
    pub high: f32,
    /// The edges of all bins, if their widths differ.
    pub edges: Vec<f32>,
    /// Labels of bins, if any.
    pub labels: Vec<String>,
}

/// Type of the errors of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// Error of the mean.
    Mean,
    /// The spread itself (`S`).
    Spread,
    /// Error of the mean, for integers (`I`).
    Integer,
}

/// The additional contents of a profile.
#[derive(Debug, Clone)]
pub struct ProfileSums {
    /// Type of the errors.
    pub spread: Spread,
    /// Whether the squares are of deviations from the mean (option `P`).
    pub deviations: bool,
    /// Sums of weights, without flow bins.
    pub weights: Vec<f32>,
}

/// A histogram or profile.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Title.
    pub title: String,
    /// The word of flags.
    pub flags: u32,
    /// One axis or two.
    pub axes: Vec<Axis>,
    /// Number of entries.
    pub entries: u32,
    /// Bits of a stored channel; 32 for floats.
    pub bits: u32,
    /// Contents with flow bins; the x index varies fastest.
    pub contents: Vec<f32>,
    /// Sums of squared weights (of a profile: of squares of y), without flow bins; empty if not stored.
    pub squares: Vec<f32>,
    /// The additional contents of a profile.
    pub profile: Option<ProfileSums>,
    /// Sums of w, w², wx, wx² of in-range fills, if stored.
    pub statistics: Option<[f64; 4]>,
    /// Minimum and maximum for plots; for a profile, the limits of y.
    pub limits: (Option<f32>, Option<f32>),
    /// Normalisation for plots.
    pub normalisation: f32,
    /// A function: its first bin, its last bin, its values.
    pub function: Option<(i32, i32, Vec<f32>)>,
    /// Projections, slices and bands, by name.
    pub parts: Vec<(String, Histogram)>,
}

/// Unpacks channels that are packed in words.
fn unpack(words: &Words<'_>, bits: u32, count: usize, highest_first: bool) -> Result<Vec<f32>> {
    if bits == 32 || bits == 0 {
        return words.slice(0, count)?.floats();
    }
    if bits > 32 {
        return Err(words.corrupt(0, format!("the channels have an invalid width of {bits} bits")));
    }
    let each = 32 / bits;
    let packed: Vec<u32> = grow::collected(words.slice(0, count.div_ceil(each as usize))?.iter())?;
    let mask = (1u32 << bits) - 1;
    let channel = |index: usize| {
        let (word, place) = (index / each as usize, (index % each as usize) as u32);
        let place = if highest_first { each - 1 - place } else { place };
        packed.get(word).map_or(0, |word| word >> (place * bits) & mask) as f32
    };
    grow::collected((0..count).map(channel))
}

/// Reads a title, at most as long as the words that are present.
fn title(data: &Words<'_>, first: usize) -> Result<String> {
    let mut text = data.from(first - 1).text()?;
    if text.ends_with('$') {
        text.pop();
    }
    Ok(text)
}

fn bins(data: &Words<'_>, index: usize) -> Result<usize> {
    let bins = data.int(index)?;
    usize::try_from(bins)
        .ok()
        .filter(|&bins| bins > 0 && bins < 1 << 28)
        .ok_or_else(|| data.corrupt(index, format!("an axis has an invalid number of bins: {bins}")))
}

impl Histogram {
    /// Parses the histogram or profile whose header is the entry bank.
    pub fn parse(structure: &Structure<'_>) -> Result<Self> {
        let missing = || Error::corrupt("the histogram has no header bank");
        let header = structure.entry.ok_or_else(missing)?;
        let class = Class::of(structure);
        match class {
            Some(Class::OneD | Class::Profile) => Self::one(structure, header),
            Some(Class::TwoD) => Self::two(structure, header),
            _ => Err(Error::corrupt(format!(
                "the bank {} does not belong to a histogram",
                structure.name(header)
            ))),
        }
    }

    fn one(structure: &Structure<'_>, header: usize) -> Result<Self> {
        let data = structure.data(header)?;
        let bits = data.word(0)?;
        let mut axis =
            Axis { bins: bins(&data, 2)?, low: data.float(3)?, high: data.float(4)?, ..Axis::default() };
        if bits & flags::VARIABLE != 0
            && let Some(limits) = structure.child(header, 2)
        {
            axis.edges = structure.data(limits)?.slice(0, axis.bins + 1)?.floats()?;
        }
        axis.labels = labels(structure, header, 8, axis.bins)?;
        let mut made = Self {
            title: title(&data, 10)?,
            flags: bits,
            limits: (Some(data.float(6)?), Some(data.float(7)?)),
            normalisation: data.float(8)?,
            ..Self::default()
        };
        if bits & flags::PROFILE == 0 {
            let set = |flag: u32, value: Option<f32>| value.filter(|_| bits & flag != 0);
            made.limits = (set(flags::MINIMUM, made.limits.0), set(flags::MAXIMUM, made.limits.1));
        }
        let content = structure.child(header, 1);
        let content = content.ok_or_else(|| data.corrupt(0, "the histogram has no contents"))?;
        made.contents(structure, content, &axis, bits & flags::STATISTICS != 0)?;
        if bits & flags::AUTOMATIC != 0 && structure.child(content, 2).is_some() {
            return Err(Error::unsupported(
                "HBOOK had not yet chosen the limits of the histogram, so its entries are not in bins",
            ));
        }
        if bits & flags::PROFILE != 0 {
            made.profile_sums(structure, content, axis.bins)?;
        }
        made.axes = vec![axis];
        Ok(made)
    }
    /// Reads a one-dimensional bank of contents, and the squares after it.
    fn contents(
        &mut self,
        structure: &Structure<'_>,
        bank: usize,
        axis: &Axis,
        statistics: bool,
    ) -> Result<()> {
        let data = structure.data(bank)?;
        self.bits = data.word(0)?;
        self.entries = data.word(1)?;
        if statistics {
            let w = (f64::from(data.float(2)?), f64::from(data.float(3)?));
            self.statistics = Some([w.0, w.1, data.double(4)?, data.double(6)?]);
        }
        self.contents = unpack(&data.from(8), self.bits, axis.bins + 2, false)?;
        if let super::bank::Link::Bank(squares) = structure.next(bank)
            && structure.name(squares) == "HI1E"
        {
            self.squares = structure.data(squares)?.slice(0, axis.bins)?.floats()?;
        }
        if let Some(function) = structure.child(bank, 1) {
            let data = structure.data(function)?;
            self.function = Some((data.int(0)?, data.int(1)?, data.from(2).floats()?));
        }
        Ok(())
    }
    fn profile_sums(&mut self, structure: &Structure<'_>, content: usize, bins: usize) -> Result<()> {
        let chain = structure.chain(content)?;
        let &[_, squares, weights, ..] = chain.as_slice() else {
            return Err(structure
                .data(content)?
                .corrupt(0, "the profile has no sums of squares and weights"));
        };
        let status = structure.status(squares);
        let spread = match status & 3 {
            1 => Spread::Spread,
            2 => Spread::Integer,
            _ => Spread::Mean,
        };
        self.squares = structure.data(squares)?.slice(0, bins)?.floats()?;
        let weights = structure.data(weights)?.slice(0, bins)?.floats()?;
        self.profile = Some(ProfileSums { spread, deviations: status & 4 != 0, weights });
        Ok(())
    }

    fn two(structure: &Structure<'_>, header: usize) -> Result<Self> {
        let data = structure.data(header)?;
        let bits = data.word(0)?;
        let mut x =
            Axis { bins: bins(&data, 2)?, low: data.float(3)?, high: data.float(4)?, ..Axis::default() };
        let mut y =
            Axis { bins: bins(&data, 6)?, low: data.float(7)?, high: data.float(8)?, ..Axis::default() };
        x.labels = labels(structure, header, 8, x.bins)?;
        y.labels = labels(structure, header, 9, y.bins)?;
        let limit = |flag: u32, index: usize| {
            if bits & flag == 0 { Ok(None) } else { data.float(index).map(Some) }
        };
        let mut made = Self {
            title: title(&data, 12)?,
            flags: bits,
            limits: (limit(flags::MINIMUM, 5)?, limit(flags::MAXIMUM, 9)?),
            ..Self::default()
        };
        let content = structure.child(header, 1);
        let content = content.ok_or_else(|| data.corrupt(0, "the histogram has no contents"))?;
        let cells = structure.data(content)?;
        (made.bits, made.entries) = (cells.word(0)?, cells.word(1)?);
        let (across, up) = (x.bins + 2, y.bins + 2);
        let count = across.checked_mul(up).filter(|&count| count < 1 << 32);
        let count = count.ok_or_else(|| {
            data.corrupt(2, format!("the histogram has too many cells: {across} times {up}"))
        })?;
        let stored = unpack(&cells.from(2), made.bits, count, true)?;
        // They are stored row by row from the top.
        made.contents = grow::collected(stored.chunks(across).rev().flatten().copied())?;
        if let super::bank::Link::Bank(squares) = structure.next(content)
            && structure.name(squares) == "HI2E"
        {
            made.squares = structure.data(squares)?.slice(0, x.bins * y.bins)?.floats()?;
        }
        made.projections(structure, header, &x, &y)?;
        made.axes = vec![x, y];
        Ok(made)
    }
    /// Reads projections, slices and bands.
    fn projections(&mut self, structure: &Structure<'_>, header: usize, x: &Axis, y: &Axis) -> Result<()> {
        let part = |bank: usize, axis: &Axis| -> Result<Self> {
            let mut made = Self { title: self.title.clone(), flags: 1, ..Self::default() };
            made.contents(structure, bank, axis, false)?;
            made.axes = vec![axis.clone()];
            Ok(made)
        };
        let mut parts = Vec::new();
        for (axis, letter, [projection, slices, bands]) in [(x, 'X', [2, 4, 6]), (y, 'Y', [3, 5, 7])] {
            if let Some(bank) = structure.child(header, projection) {
                parts.push((format!("PRO{letter}"), part(bank, axis)?));
            }
            if let Some(list) = structure.child(header, slices) {
                let count = structure.bank(list).map_or(0, |bank| bank.structural as usize);
                for slice in 1..=count.min(structure.banks.len()) {
                    if let Some(bank) = structure.child(list, slice) {
                        parts.push((format!("SLI{letter}{slice}"), part(bank, axis)?));
                    }
                }
            }
            if let Some(first) = structure.child(header, bands) {
                for (number, band) in structure.chain(first)?.into_iter().enumerate() {
                    if let Some(bank) = structure.child(band, 1) {
                        let limits = structure.data(band)?;
                        let name = format!("BAN{letter}{}", number + 1);
                        let mut made = part(bank, axis)?;
                        made.limits = (Some(limits.float(0)?), Some(limits.float(1)?));
                        parts.push((name, made));
                    }
                }
            }
        }
        self.parts = parts;
        Ok(())
    }
}

/// Returns the labels of the first bins of an axis; empty if it has none.
fn labels(structure: &Structure<'_>, header: usize, link: usize, bins: usize) -> Result<Vec<String>> {
    let Some(bank) = structure.child(header, link) else { return Ok(Vec::new()) };
    let data = structure.data(bank)?;
    let (each, count) = (data.word(0)? as usize / 4, data.word(1)? as usize);
    // The first and the last label are for underflow and overflow.
    let label = |index: usize| data.slice(2 + each.saturating_mul(index + 1), each)?.text();
    if each == 0 || each > 16 || count > bins {
        return Err(data.corrupt(0, format!("the axis has {bins} bins, but {count} labels of {each} words")));
    }
    (0..count).map(label).collect()
}

/// The type of an ntuple value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// IEEE number.
    Real,
    /// Signed integer.
    Int,
    /// Unsigned integer.
    Unsigned,
    /// Logical value.
    Logical,
    /// Text of a fixed length.
    Text,
}

/// A column of an ntuple.
#[derive(Debug, Clone, PartialEq)]
pub struct NtupleColumn {
    /// Name.
    pub name: String,
    /// Index of its block.
    pub block: usize,
    /// Type of its values.
    pub kind: Kind,
    /// Bytes of a value in the program that wrote it.
    pub bytes: usize,
    /// Bits of a value in the file.
    pub bits: usize,
    /// Fixed dimensions, the fastest first; without the dimension of the index variable.
    pub dimensions: Vec<usize>,
    /// The index variable: the column with the length of its lists.
    pub index: Option<usize>,
    /// Whether it is the index variable of other columns.
    pub is_index: bool,
    /// Smallest and largest value, if needed to unpack reals.
    pub range: Option<(f32, f32)>,
    /// The declared range as text.
    pub declared: String,
    /// Its number in keys.
    pub number: u32,
    /// Number of its last buffer.
    pub buffers: u32,
}

impl NtupleColumn {
    /// Number of values in a row, or in an element of its list.
    pub fn values(&self) -> u64 {
        self.dimensions.iter().map(|&size| size as u64).product()
    }
}

/// A block of columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Name.
    pub name: String,
    /// Number of rows; `None` if the writer did not store it.
    pub rows: Option<u64>,
}

/// The description of an ntuple.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Title.
    pub title: String,
    /// Number of rows of the whole ntuple; `None` if the writer did not store it.
    pub rows: Option<u64>,
    /// Words of a buffer.
    pub buffer: usize,
    /// Whether its contents are stored with its description instead of in buffers.
    pub in_memory: bool,
    /// The identifier in the keys of its buffers.
    pub id: u32,
    /// Number of buffers with keys of their own, for row-wise ntuples.
    pub extensions: u32,
    /// Its blocks.
    pub blocks: Vec<Block>,
    /// Its columns.
    pub columns: Vec<NtupleColumn>,
}

fn rows(count: u32) -> Option<u64> {
    u64::try_from(count.cast_signed()).ok()
}

impl Description {
    /// Whether another ntuple has the same columns. Only the numbers of buffers may differ.
    pub fn same_columns(&self, other: &Self) -> bool {
        let of = |column: &NtupleColumn| NtupleColumn { buffers: 0, ..column.clone() };
        self.columns.len() == other.columns.len()
            && self.columns.iter().zip(&other.columns).all(|(a, b)| of(a) == of(b))
    }
    /// Parses the header of a row-wise ntuple.
    pub fn row_wise(structure: &Structure<'_>) -> Result<Self> {
        let header = structure.entry.ok_or_else(|| Error::corrupt("the ntuple has no header bank"))?;
        let data = structure.data(header)?;
        let place = |index: usize| -> Result<usize> {
            let place = data.word(index)? as usize;
            place.checked_sub(1).ok_or_else(|| data.corrupt(index, "an address is less than 1"))
        };
        let (width, buffer) = (data.word(1)? as usize, data.word(3)? as usize);
        if width == 0 || buffer < width {
            return Err(
                data.corrupt(1, format!("rows of {width} words do not fit into buffers of {buffer} words"))
            );
        }
        let tags = place(9)?;
        let columns = (0..width).map(|number| {
            Ok(NtupleColumn {
                name: data.slice(tags.saturating_add(2 * number), 2)?.text()?,
                block: 0,
                kind: Kind::Real,
                bytes: 4,
                bits: 32,
                dimensions: Vec::new(),
                index: None,
                is_index: false,
                range: None,
                declared: String::new(),
                number: 0,
                buffers: 0,
            })
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let title_words = data.word(7)? as usize;
        let title = if title_words > 0 { data.slice(place(8)?, title_words)?.text()? } else { String::new() };
        let rows = rows(data.word(2)?);
        Ok(Self {
            title: title.strip_suffix('$').map_or(title.clone(), str::to_owned),
            rows,
            buffer,
            in_memory: data.word(10)? == 0,
            id: structure.id(header).cast_unsigned(),
            extensions: data.word(5)?,
            blocks: vec![Block { name: String::new(), rows }],
            columns,
        })
    }

    /// Parses the header of a column-wise ntuple.
    pub fn column_wise(structure: &Structure<'_>) -> Result<Self> {
        let header = structure.entry.ok_or_else(|| Error::corrupt("the ntuple has no header bank"))?;
        let data = structure.data(header)?;
        let bank = |link: usize, what: &str| -> Result<Words<'_>> {
            let found = structure.child(header, link);
            structure
                .data(found.ok_or_else(|| data.corrupt(0, format!("the column-wise ntuple has no {what}")))?)
        };
        let (names, integers) = (bank(2, "names")?, bank(3, "integers")?);
        let reals = structure.child(header, 4).map(|bank| structure.data(bank)).transpose()?;
        let buffer = data.int(3)?;
        let title_words = data.word(7)? as usize;
        let first = (data.word(8)? as usize).max(1) - 1;
        let title = if title_words > 0 { data.slice(first, title_words)?.text()? } else { String::new() };
        let mut description = Self {
            title: title.strip_suffix('$').map_or(title.clone(), str::to_owned),
            rows: rows(data.word(2)?),
            buffer: buffer.unsigned_abs() as usize,
            in_memory: buffer < 0,
            id: data.word(11)?,
            extensions: 0,
            blocks: Vec::new(),
            columns: Vec::new(),
        };
        let Some(first) = structure.child(header, 1) else { return Ok(description) };
        for block in structure.chain(first)? {
            let about = structure.data(block)?;
            let number = description.blocks.len();
            description.blocks.push(Block { name: about.slice(7, 2)?.text()?, rows: rows(about.word(2)?) });
            let Some(list) = structure.child(block, 1) else { continue };
            let (list, count) = (structure.data(list)?, about.word(1)? as usize);
            let before = description.columns.len();
            for index in 0..count {
                let words = list.slice(index.saturating_mul(12), 12)?;
                let column = column(&words, &names, &integers, reals.as_ref(), number, before);
                description.columns.push(column?);
            }
        }
        for (place, column) in description.columns.iter().enumerate() {
            let index = column.index.and_then(|index| description.columns.get(index));
            if column.index.is_some()
                && index.is_none_or(|index| !index.is_index || index.block != column.block)
            {
                let message = format!("column {place}, {:?}, has a length that no column says", column.name);
                return Err(Error::corrupt(message));
            }
        }
        Ok(description)
    }
}

/// Parses one column of a block; the block's first column has the number `before`.
fn column(
    words: &Words<'_>,
    names: &Words<'_>,
    integers: &Words<'_>,
    reals: Option<&Words<'_>>,
    block: usize,
    before: usize,
) -> Result<NtupleColumn> {
    let about = words.word(0)?;
    let (bits, bytes, code, ranks) =
        ((about & 127) as usize, (about >> 7 & 63) as usize, about >> 13 & 15, (about >> 17 & 7) as usize);
    let kind = match code {
        1 => Kind::Real,
        2 => Kind::Int,
        3 => Kind::Unsigned,
        4 => Kind::Logical,
        5 => Kind::Text,
        _ => return Err(words.corrupt(0, format!("a column has the unknown type {code}"))),
    };
    let length = words.word(1)? as usize;
    let first = (words.word(2)? as usize).checked_sub(1);
    let first = first.ok_or_else(|| words.corrupt(2, "the address of a name is less than 1"))?;
    let name = names.slice(first, length.div_ceil(4))?;
    let name = super::words::hollerith(name.bytes().get(..length).unwrap_or_default())?;
    let bits = match kind {
        Kind::Text => 8 * bytes,
        Kind::Logical => 1,
        _ => bits,
    };
    let valid = match kind {
        Kind::Text => bytes > 0 && bytes.is_multiple_of(4),
        Kind::Logical => true,
        _ => (bytes == 4 && (1..=32).contains(&bits)) || (bytes == 8 && bits == 64),
    };
    if !valid {
        let message = format!("the column {name:?} of type {code}, {bytes} bytes and {bits} bits");
        return Err(words.corrupt(0, message));
    }
    let (mut dimensions, mut index) = (Vec::new(), None);
    let mut total = 1usize;
    for rank in 0..ranks {
        let at = (words.word(10)? as usize + rank).checked_sub(1);
        let at = at.ok_or_else(|| words.corrupt(10, "the address of the dimensions is less than 1"))?;
        let value = integers.int(at)?;
        if value < 0 {
            let size = value.unsigned_abs() as usize;
            total = total.saturating_mul(size);
            dimensions.push(size);
        } else if rank + 1 == ranks && value > 0 && (value - 1) % 12 == 0 {
            index = Some(before + (value as usize - 1) / 12);
        } else {
            return Err(
                integers.corrupt(at, format!("the column {name:?} has an invalid dimension: {value}"))
            );
        }
    }
    if total == 0 || total > 1 << 24 {
        return Err(words.corrupt(10, format!("the column {name:?} has too many values per row: {total}")));
    }
    let (mut range, mut declared) = (None, String::new());
    if let Some(at) = (words.word(3)? as usize).checked_sub(1) {
        if kind == Kind::Real {
            if let Some(reals) = reals {
                let (low, high) = (reals.float(at)?, reals.float(at + 1)?);
                range = Some((low, high));
                declared = format!("[{low},{high}]");
            }
        } else if matches!(kind, Kind::Int | Kind::Unsigned) {
            declared = format!("[{},{}]", integers.int(at)?, integers.int(at + 1)?);
        }
    }
    if kind == Kind::Real && bits < 32 && range.is_none() {
        return Err(words.corrupt(3, format!("the packed column {name:?} has no range")));
    }
    Ok(NtupleColumn {
        name,
        block,
        kind,
        bytes,
        bits,
        dimensions,
        index,
        is_index: about >> 27 & 1 != 0,
        range,
        declared,
        number: words.word(5)?,
        buffers: words.word(4)?,
    })
}
