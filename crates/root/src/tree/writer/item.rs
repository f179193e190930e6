//! The layout of a branch's entry in a basket, and views of columns in this layout.

use crate::array::{Column, Number};
use crate::error::{Error, Result};
use crate::streamer::packed::Packing;
use crate::wire::grow::Grow;
use crate::wire::swap;

/// The layout of a value in a basket.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// A number.
    Number(Number),
    /// A `Float16_t` or `Double32_t`.
    Packed(Packing),
    /// A length (one byte, or 255 and four bytes) and the bytes.
    Text,
    /// This many values.
    Array(usize, Box<Self>),
    /// A count (four bytes) and the values.
    List(Box<Self>),
    /// Values counted by another branch.
    Bare(Box<Self>),
    /// The number of values of a list that other branches hold.
    Count,
    /// Members one after another.
    Record(Vec<Self>),
    /// A count of records, then all values of the first member, of the second, and so on (member-wise).
    Columns(Vec<Self>),
    /// A byte count, these bytes (version, checksum), and the value.
    Framed(Vec<u8>, Box<Self>),
    /// The same around all values of a member in a list of records; absent if the list is empty.
    Grouped(Vec<u8>, Box<Self>),
}

impl Item {
    /// Returns an array of these dimensions, the outermost first.
    pub fn array(dims: &[usize], inner: Self) -> Self {
        dims.iter().rev().fold(inner, |item, dim| Self::Array(*dim, Box::new(item)))
    }
    /// Bytes of a value, if this is fixed.
    pub fn fixed_bytes(&self) -> Option<usize> {
        match self {
            Self::Number(number) => Some(number.size()),
            Self::Packed(packing) => Some(packing.disk_bytes()),
            Self::Count => Some(4),
            Self::Array(size, item) => item.fixed_bytes()?.checked_mul(*size),
            Self::Record(members) => members.iter().try_fold(0, |sum, m| Some(sum + m.fixed_bytes()?)),
            Self::Framed(header, item) => Some(4 + header.len() + item.fixed_bytes()?),
            Self::Text | Self::List(_) | Self::Bare(_) | Self::Columns(_) | Self::Grouped(..) => None,
        }
    }
    /// Describes the accepted values for error messages.
    fn takes(&self) -> String {
        match self {
            Self::Number(number) => number.dtype().into(),
            Self::Packed(packing) => packing.number().dtype().into(),
            Self::Text => "strings".into(),
            Self::Array(size, item) => format!("arrays of {size} {}", item.takes()),
            Self::List(item) | Self::Bare(item) => format!("lists of {}", item.takes()),
            Self::Count | Self::Columns(_) => "lists".into(),
            Self::Record(members) => format!("records of {} members", members.len()),
            Self::Framed(_, item) | Self::Grouped(_, item) => item.takes(),
        }
    }
}

/// Native 64-bit offsets, checked to start at 0 or more and never to fall.
#[derive(Clone, Copy)]
pub struct Offsets<'a>(&'a [[u8; 8]]);

impl<'a> Offsets<'a> {
    fn new(bytes: &'a [u8], end: usize) -> Result<Self> {
        let (offsets, _) = bytes.as_chunks::<8>();
        let mut last = 0;
        for offset in offsets {
            let offset = i64::from_ne_bytes(*offset);
            if offset < last {
                return Err(Error::argument(format!(
                    "the offsets of lists decrease from {last} to {offset}"
                )));
            }
            last = offset;
        }
        if last as u64 > end as u64 {
            return Err(Error::argument(format!(
                "the offsets of lists end at {last}, but there are {end} elements"
            )));
        }
        Ok(Self(offsets))
    }
    fn at(self, index: usize) -> usize {
        self.0.get(index).map_or(0, |offset| i64::from_ne_bytes(*offset) as usize)
    }
    fn len(self) -> usize {
        self.0.len().saturating_sub(1)
    }
    /// Whether two columns have lists of the same lengths.
    fn same_lengths(self, other: Self) -> bool {
        if std::ptr::eq(self.0, other.0) {
            return true;
        }
        let lengths = |o: Self| {
            o.0.windows(2).map(|w| match w {
                [a, b] => i64::from_ne_bytes(*b) - i64::from_ne_bytes(*a),
                _ => 0,
            })
        };
        self.0.len() == other.0.len() && lengths(self).eq(lengths(other))
    }
}

/// A column viewed as values of an [`Item`].
pub enum View<'a> {
    /// Numbers of this many bytes, in native order.
    Numbers { width: usize, values: &'a [u8] },
    /// Numbers to be packed.
    Packed { packing: Packing, values: &'a [u8] },
    /// Strings.
    Text { offsets: Offsets<'a>, bytes: &'a [u8] },
    /// Arrays of fixed size.
    Array { length: usize, size: usize, inner: Box<Self> },
    /// Lists with their counts.
    List { offsets: Offsets<'a>, inner: Box<Self> },
    /// Lists without counts.
    Bare { offsets: Offsets<'a>, inner: Box<Self> },
    /// Counts of lists.
    Counts(Offsets<'a>),
    /// Records.
    Record { length: usize, members: Vec<Self> },
    /// Lists of records, member-wise.
    Columns { offsets: Offsets<'a>, members: Vec<Self> },
    /// Values with a header.
    Framed { header: &'a [u8], inner: Box<Self> },
    /// Values with one header for all.
    Grouped { header: &'a [u8], inner: Box<Self> },
}

impl<'a> View<'a> {
    /// Creates the view; checks that the column holds such values.
    pub fn new(item: &'a Item, column: &'a Column) -> Result<Self> {
        let wrong = || Error::argument(format!("the branch takes {}, not {}", item.takes(), kind_of(column)));
        let members = |items: &'a [Item], length: usize, fields: &'a [(String, Column)]| {
            if items.len() != fields.len() {
                return Err(wrong());
            }
            let pairs = items.iter().zip(fields);
            let views = pairs.map(|(item, (name, field))| {
                let view = Self::new(item, field).map_err(|e| e.within(format!("member {name}")))?;
                if view.len() < length {
                    return Err(Error::argument(format!(
                        "member {name} has {} values, but there are {length} records",
                        view.len()
                    )));
                }
                Ok(view)
            });
            views.collect::<Result<Vec<Self>>>()
        };
        Ok(match (item, column) {
            (Item::Framed(header, inner), _) => {
                Self::Framed { header, inner: Box::new(Self::new(inner, column)?) }
            }
            (Item::Grouped(header, inner), _) => {
                Self::Grouped { header, inner: Box::new(Self::new(inner, column)?) }
            }
            (Item::Number(number), Column::Number { number: got, values }) if number == got => {
                Self::Numbers { width: number.size(), values: whole(values, number.size())? }
            }
            (Item::Packed(packing), Column::Number { number, values }) if packing.number() == *number => {
                Self::Packed { packing: *packing, values: whole(values, number.size())? }
            }
            (Item::Text, Column::Text { offsets, bytes }) => {
                Self::Text { offsets: Offsets::new(offsets, bytes.len())?, bytes }
            }
            (Item::Array(size, item), Column::FixedList { length, size: got, values }) if size == got => {
                let inner = Self::new(item, values)?;
                if inner.len() != length * size {
                    return Err(Error::argument(format!(
                        "{} values where {} arrays of {size} belong",
                        inner.len(),
                        length
                    )));
                }
                Self::Array { length: *length, size: *size, inner: Box::new(inner) }
            }
            (Item::List(item), Column::List { offsets, values }) => {
                let inner = Box::new(Self::new(item, values)?);
                Self::List { offsets: Offsets::new(offsets, inner.len())?, inner }
            }
            (Item::Bare(item), Column::List { offsets, values }) => {
                let inner = Box::new(Self::new(item, values)?);
                Self::Bare { offsets: Offsets::new(offsets, inner.len())?, inner }
            }
            (Item::Count, Column::List { offsets, values }) => {
                Self::Counts(Offsets::new(offsets, values.len())?)
            }
            (Item::Record(items), Column::Record { length, fields, .. }) => {
                Self::Record { length: *length, members: members(items, *length, fields)? }
            }
            (Item::Columns(items), Column::List { offsets, values }) => {
                let Column::Record { length, fields, .. } = values.as_ref() else { return Err(wrong()) };
                Self::Columns {
                    offsets: Offsets::new(offsets, *length)?,
                    members: members(items, *length, fields)?,
                }
            }
            _ => return Err(wrong()),
        })
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers { width, values } => values.len() / width,
            Self::Packed { packing, values } => values.len() / packing.number().size(),
            Self::Text { offsets, .. }
            | Self::List { offsets, .. }
            | Self::Bare { offsets, .. }
            | Self::Columns { offsets, .. }
            | Self::Counts(offsets) => offsets.len(),
            Self::Array { length, .. } | Self::Record { length, .. } => *length,
            Self::Framed { inner, .. } | Self::Grouped { inner, .. } => inner.len(),
        }
    }

    /// Bytes of the values in baskets: exact except for strings of 255 bytes and more.
    pub fn bytes(&self, from: usize, to: usize) -> usize {
        let n = to - from;
        match self {
            Self::Numbers { width, .. } => n * width,
            Self::Packed { packing, .. } => n * packing.disk_bytes(),
            Self::Text { offsets, .. } => n + offsets.at(to) - offsets.at(from),
            Self::Array { size, inner, .. } => inner.bytes(from * size, to * size),
            Self::List { offsets, inner } => 4 * n + inner.bytes(offsets.at(from), offsets.at(to)),
            Self::Bare { offsets, inner } => inner.bytes(offsets.at(from), offsets.at(to)),
            Self::Counts(_) => 4 * n,
            Self::Record { members, .. } => members.iter().map(|m| m.bytes(from, to)).sum(),
            Self::Columns { offsets, members } => {
                let (from, to) = (offsets.at(from), offsets.at(to));
                4 * n + members.iter().map(|m| m.bytes(from, to)).sum::<usize>()
            }
            Self::Framed { header, inner } => n * (4 + header.len()) + inner.bytes(from, to),
            Self::Grouped { header, inner } => 4 + header.len() + inner.bytes(from, to),
        }
    }

    /// The lengths of lists, for comparison with other columns of lists.
    pub fn lengths(&self) -> Option<Offsets<'a>> {
        match self {
            Self::Bare { offsets, .. } | Self::Counts(offsets) => Some(*offsets),
            Self::Framed { inner, .. } => inner.lengths(),
            _ => None,
        }
    }
    /// Whether one counter can count both.
    pub fn same_lengths(&self, other: &Self) -> bool {
        matches!((self.lengths(), other.lengths()), (Some(a), Some(b)) if a.same_lengths(b))
    }

    /// Starts of the values, counted from the first, if they are simple to compute.
    pub fn starts(&self, from: usize, to: usize) -> Option<impl Iterator<Item = usize>> {
        let Self::Bare { offsets, inner } = self else { return None };
        let width = inner.fixed_bytes()?;
        let (offsets, first) = (*offsets, offsets.at(from));
        Some((from..to).map(move |i| (offsets.at(i) - first) * width))
    }
    fn fixed_bytes(&self) -> Option<usize> {
        match self {
            Self::Numbers { width, .. } => Some(*width),
            Self::Packed { packing, .. } => Some(packing.disk_bytes()),
            Self::Array { size, inner, .. } => Some(size * inner.fixed_bytes()?),
            _ => None,
        }
    }

    /// Appends values in the format of baskets. Returns the greatest length of a list or string among them, which a
    /// counter needs for its maximum.
    pub fn encode(&self, from: usize, to: usize, out: &mut Vec<u8>) -> Result<u32> {
        match self {
            Self::Numbers { width, values } => {
                swap::extend(*width, values.get(from * width..to * width).unwrap_or_default(), out)?;
            }
            Self::Packed { packing, values } => {
                let width = packing.number().size();
                packing.encode(values.get(from * width..to * width).unwrap_or_default(), out)?;
            }
            Self::Text { offsets, bytes } => {
                let mut longest = 0;
                for i in from..to {
                    let text = bytes.get(offsets.at(i)..offsets.at(i + 1)).unwrap_or_default();
                    longest = longest.max(count(text.len() + 1, "a string")?);
                    out.room(text.len() + if text.len() < 255 { 1 } else { 5 })?;
                    match u8::try_from(text.len()) {
                        Ok(short) if short < 255 => out.push(short),
                        _ => {
                            out.push(255);
                            out.extend_from_slice(&(text.len() as u32).to_be_bytes());
                        }
                    }
                    out.extend_from_slice(text);
                }
                return Ok(longest);
            }
            Self::Array { size, inner, .. } => {
                inner.encode(from * size, to * size, out)?;
            }
            Self::Bare { offsets, inner } => {
                inner.encode(offsets.at(from), offsets.at(to), out)?;
            }
            Self::List { offsets, inner } => {
                for i in from..to {
                    let (start, end) = (offsets.at(i), offsets.at(i + 1));
                    out.try_extend(&count(end - start, "a list")?.to_be_bytes())?;
                    inner.encode(start, end, out)?;
                }
            }
            Self::Counts(offsets) => {
                let mut longest = 0;
                for i in from..to {
                    let length = count(offsets.at(i + 1) - offsets.at(i), "a list")?;
                    longest = longest.max(length);
                    out.try_extend(&length.to_be_bytes())?;
                }
                return Ok(longest);
            }
            Self::Record { members, .. } => {
                for i in from..to {
                    for member in members {
                        member.encode(i, i + 1, out)?;
                    }
                }
            }
            Self::Columns { offsets, members } => {
                for i in from..to {
                    let (start, end) = (offsets.at(i), offsets.at(i + 1));
                    out.try_extend(&count(end - start, "a list")?.to_be_bytes())?;
                    for member in members {
                        member.encode(start, end, out)?;
                    }
                }
            }
            Self::Framed { header, inner } => {
                for i in from..to {
                    framed(header, inner, i, i + 1, out)?;
                }
            }
            Self::Grouped { header, inner } if from < to => framed(header, inner, from, to, out)?,
            Self::Grouped { .. } => {}
        }
        Ok(0)
    }
}

fn framed(header: &[u8], inner: &View<'_>, from: usize, to: usize, out: &mut Vec<u8>) -> Result<()> {
    let place = out.len();
    out.try_extend(&[0; 4])?;
    out.try_extend(header)?;
    inner.encode(from, to, out)?;
    let bytes = u32::try_from(out.len() - place - 4).ok().filter(|b| *b < 0x4000_0000);
    let bytes = bytes.ok_or_else(|| Error::limit("a value has more than 1 GiB"))?;
    if let Some(at) = out.get_mut(place..place + 4) {
        // `kByteCountMask`
        at.copy_from_slice(&(bytes | 0x4000_0000).to_be_bytes());
    }
    Ok(())
}

fn count(length: usize, what: &str) -> Result<u32> {
    let fits = i32::try_from(length).ok();
    fits.map(i32::unsigned_abs)
        .ok_or_else(|| Error::limit(format!("{what} has {length} elements, more than 32 bits can count")))
}

fn whole(values: &[u8], width: usize) -> Result<&[u8]> {
    if values.len().is_multiple_of(width) {
        return Ok(values);
    }
    Err(Error::argument(format!("{} bytes are not a whole number of {width}-byte numbers", values.len())))
}

fn kind_of(column: &Column) -> String {
    match column {
        Column::Number { number, .. } => number.dtype().into(),
        Column::Text { .. } => "strings".into(),
        Column::FixedList { size, values, .. } => format!("arrays of {size} {}", kind_of(values)),
        Column::List { values, .. } => format!("lists of {}", kind_of(values)),
        Column::Record { fields, .. } => format!("records of {} members", fields.len()),
        Column::Option { .. } => "values that may be missing".into(),
        Column::Union { .. } => "values of several types".into(),
        Column::Empty => "nothing".into(),
    }
}
