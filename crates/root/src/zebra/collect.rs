//! The data of banks by their names, of many events together.

use super::bank::Bank;
use super::fz::{Meaning, Reader};
use super::words::{Order, Words};
use crate::array::pool;
use crate::error::Result;
use crate::wire::grow::Grow;
use crate::wire::swap;
use arrow_buffer::Buffer;

/// Words from the name of a bank to its status: with the first I/O word, all that says how long its parts are.
const ABOUT: usize = 5;

/// What was collected of the banks of one name.
pub struct Collected {
    /// Where the banks of each structure begin, and the last ends.
    pub offsets: Vec<i64>,
    /// The words of each bank, as 32-bit numbers.
    pub sizes: Buffer,
    /// All words, in native order.
    pub words: Buffer,
}

/// The banks of one name.
struct Column {
    offsets: Vec<i64>,
    /// How many banks follow each other with the same number of words.
    sizes: Vec<(u32, usize)>,
    count: usize,
    data: Vec<u8>,
}

/// Collects the data of banks of some names.
pub struct Collector {
    names: Vec<[u8; 4]>,
    columns: Vec<Column>,
}

/// A bank whose parts have their lengths: all of the same form are parsed once.
struct Form {
    first: [u8; 4],
    about: [u8; 4 * ABOUT],
    /// Bytes to the words about it, to its data, and to the next bank.
    about_at: usize,
    data_at: usize,
    length: usize,
}

impl Form {
    fn of(words: &Words<'_>, at: usize, bank: &Bank, length: usize) -> Option<Self> {
        let bytes = words.bytes().get(4 * at..)?;
        let about_at = 4 * (bank.origin() + 4 - at);
        Some(Self {
            first: *bytes.first_chunk()?,
            about: *bytes.get(about_at..)?.first_chunk()?,
            about_at,
            data_at: 4 * (bank.data_start() - at),
            length: 4 * length,
        })
    }
    /// Whether the bank of these bytes, as many as one of this form has, has this form.
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
    /// Notes that banks of `length` bytes were added.
    fn add(&mut self, length: usize, banks: usize) -> Result<()> {
        let size = (length / 4) as u32;
        self.count += banks;
        match self.sizes.last_mut() {
            Some((known, count)) if *known == size => *count += banks,
            _ => self.sizes.try_push((size, banks))?,
        }
        Ok(())
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
    /// For banks of these names, of four characters each; of each name about as many bytes are expected as `likely` says.
    pub fn new(names: &[String], likely: &[usize]) -> Self {
        let name = |name: &String| {
            let mut four = *b"    ";
            four.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
            four
        };
        let column = |place: usize| {
            let bytes = likely.get(place).copied().unwrap_or(0);
            let data = pool::with_capacity(bytes.saturating_add(bytes / 8));
            Column { offsets: vec![0], sizes: Vec::new(), count: 0, data }
        };
        Self { names: names.iter().map(name).collect(), columns: (0..names.len()).map(column).collect() }
    }
    /// Adds the banks of one structure.
    pub fn banks(&mut self, words: &Words<'_>) -> Result<()> {
        let all = words.bytes();
        let mut at = 0;
        while at < words.len() {
            let (bank, length) = Bank::parse(words, at)?;
            let Some(form) = bank.and_then(|bank| Form::of(words, at, &bank, length)) else {
                at += length;
                continue;
            };
            // Neighbours mostly have the same form.
            let name = form.about.first_chunk();
            let place = self.names.iter().position(|known| name == Some(known));
            let rest = all.get(4 * at..).unwrap_or_default();
            let count = 1 + rest.chunks_exact(form.length).skip(1).take_while(|bank| form.fits(bank)).count();
            if let Some(column) = place.and_then(|place| self.columns.get_mut(place)) {
                let same = rest.get(..count * form.length).unwrap_or_default();
                let part = (form.data_at, form.length);
                swap::extend_rows(same, form.length, part, words.order() == Order::Big, &mut column.data)?;
                column.add(form.size(), count)?;
            }
            at += count * length;
        }
        for column in &mut self.columns {
            column.offsets.try_push(column.count as i64)?;
        }
        Ok(())
    }
    /// Adds the banks of the next events of an FZ file; how many there were.
    pub fn events(&mut self, reader: &mut Reader, count: usize) -> Result<usize> {
        let mut found = 0;
        while found < count {
            let Some(record) = reader.read()? else { break };
            if matches!(record.meaning()?, Meaning::Event | Meaning::Continuation) {
                self.banks(&record.pilot()?.banks())?;
                found += 1;
            }
        }
        Ok(found)
    }
    /// Bytes of each name so far: what is likely the next time.
    pub fn bytes(&self) -> Vec<usize> {
        self.columns.iter().map(|column| column.data.len()).collect()
    }
    /// What was collected, for each name.
    pub fn into_columns(self) -> Result<Vec<Collected>> {
        self.columns.into_iter().map(Column::into_collected).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bank without links.
    fn bank(name: [u8; 4], status: u32, data: &[u32]) -> Vec<u32> {
        let head = [0x0002_000c, 0, 0, 0, 8, u32::from_be_bytes(name), 0, 0, data.len() as u32, status];
        [&head, data].concat()
    }

    #[test]
    fn banks_of_each_name_are_found_whatever_comes_before_them() {
        // Forms that differ in the name, in the status and in the number of words, a dead region, an empty bank.
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
        // One whose data are cut off has the form of the one before, and is an error.
        let cut = bytes.get(..bytes.len() - 4).unwrap();
        let mut collector = Collector::new(&["CCCC".to_owned()], &[]);
        assert!(collector.banks(&Words::new(cut, Order::Big, 0)).is_err());
    }
}
