//! Banks and the structures they form: the positions of banks, and the targets of links.

use super::layout::{BankLayout, Run};
use super::words::Words;
use crate::error::Result;
use crate::wire::grow::{self, Grow};

/// Words of a bank before its data: the first I/O word, three links, and six words of status and sizes.
pub const BANK_WORDS: usize = 10;

/// A bank in its material.
#[derive(Debug, Clone, Copy)]
pub struct Bank {
    /// Index of its first I/O word.
    start: usize,
    /// Number of further I/O words.
    io: u32,
    /// Number of links (`NL`).
    pub links: u32,
    /// Number of structural links (`NS`), which come first.
    pub structural: u32,
    /// Number of data words (`ND`).
    pub data: u32,
    /// Its address in the memory of the program that wrote it; 0 if unknown.
    pub address: u32,
}

impl Bank {
    /// Number of words before a bank's data, given its first word; 1 for a region without a bank.
    pub fn head(first: u32) -> usize {
        (first as usize & 0xffff).checked_sub(12).map_or(1, |extra| BANK_WORDS + extra)
    }
    /// Parses the bank whose first I/O word is at `start`. For a region without a bank, returns `None` and its number
    /// of words. If `left` says that more words follow, only the words up to the data must be present.
    #[inline]
    pub fn parse(words: &Words<'_>, start: usize, left: usize) -> Result<(Option<Self>, usize)> {
        let first = words.word(start)? & 0xffff;
        let Some(extra) = (first as usize).checked_sub(12) else {
            let length = (first as usize).max(1);
            if length > left {
                return Err(words.corrupt(
                    start,
                    format!("an unused region of {length} words is longer than the remaining {left} words"),
                ));
            }
            return Ok((None, length));
        };
        // The position of the word with NL depends on the number of I/O words and links.
        let links = words.word(start + 1 + extra + 5)?;
        let status = words.word(start + 1 + extra + 8)?;
        let io = status >> 18 & 15;
        if (links as usize).checked_add(io as usize) != Some(extra) {
            let message =
                format!("a bank of {links} links and {io} I/O words says {extra} for both together");
            return Err(words.corrupt(start, message));
        }
        let structural = words.word(start + 1 + extra + 6)?;
        let data = words.word(start + 1 + extra + 7)?;
        let length = BANK_WORDS + extra;
        if data as usize > left.saturating_sub(length) {
            let message = format!(
                "a bank of {data} data words is longer than the remaining {} words",
                left.saturating_sub(length)
            );
            return Err(words.corrupt(start + 1 + extra + 7, message));
        }
        Ok((Some(Self { start, io, links, structural, data, address: 0 }), length + data as usize))
    }
    /// Index of the word at its address: the next link.
    pub fn origin(&self) -> usize {
        self.start + 1 + self.io as usize + self.links as usize
    }
    /// Index of its first data word.
    pub fn data_start(&self) -> usize {
        self.origin() + 9
    }
    /// Number of I/O words.
    pub fn io_count(&self) -> usize {
        self.io as usize + 1
    }
    /// Index of its first I/O word.
    pub fn start(&self) -> usize {
        self.start
    }
}

/// The target of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// None.
    Null,
    /// The bank with this index in [`Structure::banks`].
    Bank(usize),
    /// An address outside the written material.
    Outside,
}

/// Banks that were written together.
#[derive(Debug, Clone)]
pub struct Structure<'a> {
    words: Words<'a>,
    /// The banks in the order of the file.
    pub banks: Vec<Bank>,
    /// The entry bank given by the writing program, if any.
    pub entry: Option<usize>,
    /// Bank indices by address.
    by_address: Vec<(u32, usize)>,
}

impl<'a> Structure<'a> {
    /// Parses a relocation table and the banks after it.
    ///
    /// `entry` is the address of the entry bank. Without a table, the banks are a chain, and the first one is the
    /// entry.
    pub fn parse(table: Words<'_>, words: Words<'a>, entry: u32) -> Result<Self> {
        let mut banks = Vec::new();
        let mut at = 0;
        let ranges: Vec<(u32, u32)> = {
            let table: Vec<u32> = grow::collected(table.iter())?;
            grow::collected(table.as_chunks::<2>().0.iter().map(|&[first, end]| (first, end)))?
        };
        // Start of the current range in the material, and its end.
        let (mut range, mut begin, mut end) = (0, 0usize, 0usize);
        let mut first = 0;
        let mut open = |at: usize| -> u32 {
            while at >= end {
                let Some(&(from, to)) = ranges.get(range) else { return 0 };
                range += 1;
                begin = end;
                first = from;
                end = begin.saturating_add(to.saturating_sub(from) as usize);
            }
            first.wrapping_add((at - begin) as u32)
        };
        while at < words.len() {
            let address = open(at);
            let (bank, length) = Bank::parse(&words, at, words.len() - at)?;
            if let Some(mut bank) = bank {
                if !ranges.is_empty() {
                    bank.address = address.wrapping_add((bank.origin() - at) as u32);
                }
                banks.try_push(bank)?;
            }
            at += length;
        }
        let mut by_address = Vec::new();
        let mut entry_bank = (!banks.is_empty()).then_some(0);
        if !ranges.is_empty() {
            by_address =
                grow::collected(banks.iter().enumerate().map(|(number, bank)| (bank.address, number)))?;
            if !by_address.is_sorted() {
                by_address.sort_unstable();
            }
        }
        let mut structure = Self { words, banks, entry: None, by_address };
        if !ranges.is_empty() {
            entry_bank = match structure.find(entry) {
                Link::Bank(number) => Some(number),
                Link::Null => None,
                Link::Outside => {
                    return Err(words
                        .corrupt(0, format!("there is no bank at {entry}, the address of the entry bank")));
                }
            };
        }
        structure.entry = entry_bank;
        Ok(structure)
    }
    /// Returns the words of the banks.
    pub fn words(&self) -> &Words<'a> {
        &self.words
    }
    fn find(&self, address: u32) -> Link {
        if address == 0 {
            return Link::Null;
        }
        match self.by_address.binary_search_by_key(&address, |&(known, _)| known) {
            Ok(place) => self.by_address.get(place).map_or(Link::Outside, |&(_, number)| Link::Bank(number)),
            Err(_) => Link::Outside,
        }
    }
    /// Returns a bank by its index.
    pub fn bank(&self, number: usize) -> Option<&Bank> {
        self.banks.get(number)
    }
    fn linked(&self, number: usize, bank: &Bank, up: usize) -> Link {
        if self.by_address.is_empty() {
            // Without a table, only the order of the banks is known.
            let next = up == 0 && number + 1 < self.banks.len();
            return if next { Link::Bank(number + 1) } else { Link::Null };
        }
        self.words.get(bank.origin() + up).map_or(Link::Null, |address| self.find(address))
    }
    /// Returns the link to the next bank in the chain.
    pub fn next(&self, number: usize) -> Link {
        self.bank(number).map_or(Link::Null, |bank| self.linked(number, bank, 0))
    }
    /// Returns the link to the bank above.
    pub fn up(&self, number: usize) -> Link {
        self.bank(number).map_or(Link::Null, |bank| self.linked(number, bank, 1))
    }
    /// Returns a link by its number, from 1.
    pub fn link(&self, number: usize, link: usize) -> Link {
        let Some(bank) = self.bank(number) else { return Link::Null };
        if link == 0 || link > bank.links as usize || self.by_address.is_empty() {
            return Link::Null;
        }
        self.words.get(bank.origin() - link).map_or(Link::Null, |address| self.find(address))
    }
    /// Returns the target bank of a link.
    pub fn child(&self, number: usize, link: usize) -> Option<usize> {
        match self.link(number, link) {
            Link::Bank(child) => Some(child),
            _ => None,
        }
    }
    /// Returns a bank and the banks that follow it by next links; an error if they form a cycle.
    pub fn chain(&self, first: usize) -> Result<Vec<usize>> {
        let mut chain = vec![first];
        let mut at = first;
        while let Link::Bank(next) = self.next(at) {
            if chain.len() > self.banks.len() {
                return Err(self.words.corrupt(0, "a chain of banks forms a cycle"));
            }
            chain.push(next);
            at = next;
        }
        Ok(chain)
    }
    /// Returns the four characters of a bank's name.
    pub fn name(&self, number: usize) -> String {
        let name = self.bank(number).and_then(|bank| self.words.slice(bank.origin() + 4, 1).ok());
        let name = name.map(|name| String::from_utf8_lossy(name.bytes()).into_owned());
        name.unwrap_or_default().trim_end_matches([' ', '\0']).to_owned()
    }
    /// Its numeric identifier.
    pub fn id(&self, number: usize) -> i32 {
        self.bank(number).and_then(|bank| self.words.get(bank.origin() + 3)).unwrap_or(0).cast_signed()
    }
    /// Its status word.
    pub fn status(&self, number: usize) -> u32 {
        self.bank(number).and_then(|bank| self.words.get(bank.origin() + 8)).unwrap_or(0)
    }
    /// Its I/O words.
    pub fn io(&self, number: usize) -> Result<Words<'a>> {
        match self.bank(number) {
            Some(bank) => self.words.slice(bank.start(), bank.io_count()),
            None => self.words.slice(0, 0),
        }
    }
    /// Its data words.
    pub fn data(&self, number: usize) -> Result<Words<'a>> {
        match self.bank(number) {
            Some(bank) => self.words.slice(bank.data_start(), bank.data as usize),
            None => self.words.slice(0, 0),
        }
    }
    /// Returns the kinds of its data words.
    pub fn runs(&self, number: usize) -> Result<Vec<Run>> {
        Ok(BankLayout::parse(self.io(number)?).runs(self.data(number)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zebra::words::Order;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn links_lead_to_banks_through_the_table() {
        let name = u32::from_be_bytes(*b"ABCD");
        // A bank of one link and one data word at 100.., a dead region of two words, a bank without links at 200..
        let first = [0x0002_000d, 201, 0, 0, 0, 7, name, 1, 1, 1, 0, 42];
        let second = [0x0002_000c, 201, 102, 0, 8, name, 0, 0, 0, 0];
        let material = bytes(&[&first[..], &[2, 0], &second].concat());
        let table = bytes(&[100, 114, 200, 210]);
        let words = Words::new(&material, Order::Big, 0);
        let parsed = Structure::parse(Words::new(&table, Order::Big, 0), words, 201).unwrap();
        assert_eq!((parsed.banks.len(), parsed.entry), (2, Some(1)));
        assert_eq!(
            (parsed.link(0, 1), parsed.next(0), parsed.up(1)),
            (Link::Bank(1), Link::Null, Link::Bank(0))
        );
        assert_eq!((parsed.name(1), parsed.id(1)), ("ABCD".to_owned(), 8));
        assert_eq!(parsed.data(0).unwrap().word(0).unwrap(), 42);
        assert_eq!(
            (parsed.link(0, 2), parsed.link(0, 0), parsed.link(9, 1)),
            (Link::Null, Link::Null, Link::Null)
        );
        // A chain with a cycle is an error; so is a missing entry.
        assert_eq!(parsed.chain(0).unwrap(), [0]);
        assert!(parsed.chain(1).is_err());
        assert!(Structure::parse(Words::new(&table, Order::Big, 0), words, 77).is_err());
    }

    #[test]
    fn a_bank_that_claims_more_words_than_there_are_is_an_error() {
        let name = u32::from_be_bytes(*b"ABCD");
        for (place, value) in [(8, 5), (0, 0x0002_ffff), (6, 3), (8, u32::MAX)] {
            let mut words = [0x0002_000c, 0, 0, 0, 8, name, 0, 0, 1, 0, 1];
            words[place] = value;
            let material = bytes(&words);
            let words = Words::new(&material, Order::Big, 0);
            assert!(Structure::parse(Words::new(&[], Order::Big, 0), words, 0).is_err(), "word {place}");
        }
    }
}
