//! Collecting the data of banks by name from many events.

use super::bank::Bank;
use super::fz::{FzReader, Meaning};
use super::words::{Order, Words};
use crate::array::pool;
use crate::error::{Result, Within};
use crate::wire::grow::Grow;
use crate::wire::swap;
use arrow_buffer::Buffer;

/// Words from the name of a bank to its status. Together with the first I/O word, they determine the lengths of its
/// parts.
const ABOUT: usize = 5;
/// Bytes of banks compared before conversion: few enough to stay in the first-level cache.
const BLOCK: usize = 8 << 10;

/// The collected banks of one name.
pub struct Collected {
    /// Start of the banks in each structure, then the end.
    pub offsets: Vec<i64>,
    /// Number of words in each bank, as 32-bit numbers.
    pub sizes: Buffer,
    /// All words, in native order.
    pub words: Buffer,
}

/// The banks of one name.
struct Column {
    offsets: Vec<i64>,
    /// Run lengths: number of words in a bank, and number of consecutive banks with it.
    sizes: Vec<(u32, usize)>,
    count: usize,
    data: Vec<u8>,
    whole: Whole,
}

/// The state of a column after the last complete structure.
#[derive(Clone, Copy, Default)]
struct Whole {
    /// Number of pairs in `sizes`, and the number of banks in the last pair.
    sizes: usize,
    last: usize,
    count: usize,
    data: usize,
}

/// Collects the data of banks with given names.
pub struct Collector {
    names: Vec<[u8; 4]>,
    columns: Vec<Column>,
    /// Form of the last bank.
    form: Option<Form>,
    /// First words of an incomplete bank, the position of the first, and the number of words needed.
    part: Vec<u8>,
    part_at: u64,
    needed: usize,
}

/// A bank form: banks with equal lengths of all parts are parsed only once.
#[derive(Clone, Copy)]
struct Form {
    first: [u8; 4],
    about: [u8; 4 * ABOUT],
    /// Byte offsets of the descriptive words, of the data, and of the next bank.
    about_at: usize,
    data_at: usize,
    length: usize,
    /// Column for its name.
    column: Option<usize>,
}

impl Form {
    fn of(words: &Words<'_>, bank: &Bank, length: usize, names: &[[u8; 4]]) -> Option<Self> {
        let bytes = words.bytes();
        let about_at = 4 * (bank.origin() + 4);
        let about: &[u8; 4 * ABOUT] = bytes.get(about_at..)?.first_chunk()?;
        let name = about.first_chunk();
        Some(Self {
            first: *bytes.first_chunk()?,
            about: *about,
            about_at,
            data_at: 4 * bank.data_start(),
            length: 4 * length,
            column: names.iter().position(|known| name == Some(known)),
        })
    }
    /// Whether a bank with these bytes, as long as this form, has this form.
    #[inline]
    fn fits(&self, bytes: &[u8]) -> bool {
        bytes.first_chunk() == Some(&self.first)
            && bytes.get(self.about_at..).and_then(|about| about.first_chunk()) == Some(&self.about)
    }
    /// Bytes of the data.
    fn size(&self) -> usize {
        self.length - self.data_at
    }
}

impl Column {
    /// Records that banks of `length` bytes were added.
    fn add(&mut self, length: usize, banks: usize) -> Result<()> {
        let size = (length / 4) as u32;
        self.count += banks;
        match self.sizes.last_mut() {
            Some((known, count)) if *known == size => *count += banks,
            _ => self.sizes.try_push((size, banks))?,
        }
        Ok(())
    }
    /// Records that a structure is complete.
    fn finish(&mut self) -> Result<()> {
        let last = self.sizes.last().map_or(0, |&(_, banks)| banks);
        self.whole = Whole { sizes: self.sizes.len(), last, count: self.count, data: self.data.len() };
        self.offsets.try_push(self.count as i64)
    }
    /// Drops everything after the last complete structure.
    fn undo(&mut self) {
        let Whole { sizes, last, count, data } = self.whole;
        self.sizes.truncate(sizes);
        if let Some((_, banks)) = self.sizes.last_mut() {
            *banks = last;
        }
        self.data.truncate(data);
        self.count = count;
    }
    fn into_collected(self) -> Result<Collected> {
        let mut sizes = pool::Filled::new(4 * self.count)?;
        let mut rest = sizes.bytes().as_chunks_mut::<4>().0;
        for (size, count) in self.sizes {
            let Some((here, behind)) = rest.split_at_mut_checked(count) else { break };
            here.fill(size.to_ne_bytes());
            rest = behind;
        }
        Ok(Collected { offsets: self.offsets, sizes: sizes.share(), words: pool::share(self.data) })
    }
}

impl Collector {
    /// Creates a collector for banks of these names, of four characters each. `likely` holds the expected bytes for
    /// each name.
    pub fn new(names: &[String], likely: &[usize]) -> Self {
        let name = |name: &String| {
            let mut four = *b"    ";
            four.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
            four
        };
        let column = |place: usize| {
            let bytes = likely.get(place).copied().unwrap_or(0);
            let data = pool::with_capacity(bytes.saturating_add(bytes / 8));
            Column { offsets: vec![0], sizes: Vec::new(), count: 0, data, whole: Whole::default() }
        };
        Self {
            names: names.iter().map(name).collect(),
            columns: (0..names.len()).map(column).collect(),
            form: None,
            part: Vec::new(),
            part_at: 0,
            needed: 0,
        }
    }
    /// Adds the banks of one structure.
    pub fn banks(&mut self, words: &Words<'_>) -> Result<()> {
        self.add(words, words.len())?;
        self.finish()
    }
    fn finish(&mut self) -> Result<()> {
        self.columns.iter_mut().try_for_each(Column::finish)
    }
    /// Adds the banks in the next words of a structure; `left` words remain from the first of these on.
    fn add(&mut self, words: &Words<'_>, left: usize) -> Result<()> {
        let (mut words, mut left) = (*words, left);
        while !self.part.is_empty() && !words.is_empty() {
            let have = self.part.len() / 4;
            let more = words.slice(0, self.needed.saturating_sub(have).min(words.len()))?;
            self.part.try_extend(more.bytes())?;
            if have + more.len() < self.needed {
                return Ok(());
            }
            let part = std::mem::take(&mut self.part);
            let taken = self.alike(&Words::new(&part, words.order(), self.part_at), left + have)?;
            self.part = part;
            if taken > 0 {
                self.part.clear();
            }
            words = words.from(more.len());
            left -= more.len();
        }
        while !words.is_empty() {
            let taken = self.alike(&words, left)?;
            if taken == 0 {
                self.part_at = words.offset(0);
                return self.part.try_extend(words.bytes());
            }
            words = words.from(taken);
            left -= taken;
        }
        Ok(())
    }
    /// Adds the first banks if they share one form, and returns their number of words; 0 if the first bank needs
    /// `needed` words that are not all present.
    #[inline]
    fn alike(&mut self, words: &Words<'_>, left: usize) -> Result<usize> {
        let bytes = words.bytes();
        let known = self.form.filter(|form| form.length <= bytes.len() && form.fits(bytes));
        let form = match known {
            Some(form) => form,
            None => match self.parse(words, left)? {
                Ok(form) => *self.form.insert(form),
                Err(taken) => return Ok(taken),
            },
        };
        // Consecutive banks mostly have the same form.
        let most = (BLOCK / form.length).max(1);
        let others = bytes.chunks_exact(form.length).take(most).skip(1);
        let count = 1 + others.take_while(|bank| form.fits(bank)).count();
        if let Some(column) = form.column.and_then(|place| self.columns.get_mut(place)) {
            let same = bytes.get(..count * form.length).unwrap_or_default();
            let part = (form.data_at, form.length);
            swap::extend_rows(same, form.length, part, words.order() == Order::Big, &mut column.data)?;
            column.add(form.size(), count)?;
        }
        Ok(count * form.length / 4)
    }
    /// Returns the form of the first bank; for other regions, the number of words as in [`Self::alike`].
    fn parse(&mut self, words: &Words<'_>, left: usize) -> Result<std::result::Result<Form, usize>> {
        self.needed = Bank::head(words.word(0)?).min(left);
        if words.len() < self.needed {
            return Ok(Err(0));
        }
        let (bank, length) = Bank::parse(words, 0, left)?;
        self.needed = length;
        if words.len() < length {
            return Ok(Err(0));
        }
        let form = bank.and_then(|bank| Form::of(words, &bank, length, &self.names));
        Ok(form.ok_or(length))
    }
    /// Adds the banks of the next events in an FZ file; returns the number of events.
    pub fn events(&mut self, reader: &mut FzReader, count: usize) -> Result<usize> {
        let mut found = 0;
        while found < count {
            let Some(meaning) = reader.pass()? else { break };
            if matches!(meaning, Meaning::Event | Meaning::Continuation) && self.structure(reader)? {
                found += 1;
            }
        }
        Ok(found)
    }
    /// Adds the banks of the reader's current structure, piece by piece as they are in the file; returns whether the
    /// structure is complete.
    fn structure(&mut self, reader: &mut FzReader) -> Result<bool> {
        let Some(mut left) = reader.banks()? else { return Ok(false) };
        let file = reader.file().clone();
        self.part.clear();
        while left > 0 {
            let words = reader.piece(left)?;
            if words.is_empty() {
                self.columns.iter_mut().for_each(Column::undo);
                return Ok(false);
            }
            let count = words.len();
            self.add(&words, left).within(|| file.source().name())?;
            left -= count;
        }
        self.finish()?;
        Ok(true)
    }
    /// Bytes of each name so far, as an estimate for the next time.
    pub fn bytes(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.data.len()).collect()
    }
    /// Returns the collected banks of each name.
    pub fn into_columns(self) -> Result<Vec<Collected>> {
        self.columns.into_iter().map(Column::into_collected).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a bank without links.
    fn bank(name: [u8; 4], status: u32, data: &[u32]) -> Vec<u32> {
        let head = [0x0002_000c, 0, 0, 0, 8, u32::from_be_bytes(name), 0, 0, data.len() as u32, status];
        [&head, data].concat()
    }

    #[test]
    fn banks_of_each_name_are_found_whatever_comes_before_them() {
        // Forms with different name, status and number of words, a dead region, and an empty bank.
        let banks = [
            bank(*b"AAAA", 0, &[1, 2]),
            bank(*b"AAAA", 0, &[3, 4]),
            bank(*b"BBBB", 0, &[9, 9]),
            bank(*b"AAAA", 5, &[5, 6]),
            vec![2, 0],
            bank(*b"AAAA", 5, &[]),
            bank(*b"CCCC", 5, &[7; 100]),
            bank(*b"AAAA", 5, &[7; 100]),
        ]
        .concat();
        let bytes: Vec<u8> = banks.iter().flat_map(|word| word.to_be_bytes()).collect();
        let mut collector = Collector::new(&["AAAA".to_owned(), "CCCC".to_owned()], &[]);
        for _ in 0..2 {
            collector.banks(&Words::new(&bytes, Order::Big, 0)).unwrap();
        }
        assert_eq!(collector.bytes(), [2 * 106 * 4, 2 * 400]);
        let columns = collector.into_columns().unwrap();
        let words = |buffer: &Buffer| -> Vec<u32> {
            buffer.as_chunks::<4>().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
        };
        let one = [&[1, 2, 3, 4, 5, 6][..], &[7; 100]].concat();
        assert_eq!(words(&columns[0].words), [one.clone(), one].concat());
        assert_eq!(words(&columns[0].sizes), [2, 2, 2, 0, 100, 2, 2, 2, 0, 100]);
        assert_eq!(
            (columns[0].offsets.as_slice(), columns[1].offsets.as_slice()),
            (&[0, 5, 10][..], &[0, 1, 2][..])
        );
        assert_eq!(words(&columns[1].words), [7; 200]);
        // A bank with truncated data has the form of the one before, and is an error.
        let cut = bytes.get(..bytes.len() - 4).unwrap();
        let mut collector = Collector::new(&["CCCC".to_owned()], &[]);
        assert!(collector.banks(&Words::new(cut, Order::Big, 0)).is_err());
    }
}
