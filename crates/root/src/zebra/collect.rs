//! The data of banks by their names, of many events together.

use super::bank::Bank;
use super::fz::{Meaning, Reader};
use super::words::{Order, Words};
use crate::error::Result;
use crate::wire::swap;
use arrow_buffer::Buffer;

/// Where the banks of each structure begin and the last ends, the words of each bank, and all words.
pub type Collected = (Vec<i64>, Vec<u32>, Buffer);

/// Collects the data of banks of some names.
pub struct Collector {
    names: Vec<[u8; 4]>,
    columns: Vec<(Vec<i64>, Vec<u32>, Vec<u8>)>,
}

impl Collector {
    /// For banks of these names, of four characters each.
    pub fn new(names: &[String]) -> Self {
        let name = |name: &String| {
            let mut four = *b"    ";
            four.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
            four
        };
        Self {
            names: names.iter().map(name).collect(),
            columns: names.iter().map(|_| (vec![0], Vec::new(), Vec::new())).collect(),
        }
    }
    /// Adds the banks of one structure.
    pub fn banks(&mut self, words: &Words<'_>) -> Result<()> {
        let mut at = 0;
        // Banks of one name mostly lie together.
        let mut last = 0;
        while at < words.len() {
            let (bank, length) = Bank::parse(words, at)?;
            at += length;
            let Some(bank) = bank else { continue };
            let origin = 4 * (bank.origin() + 4);
            let Some(name) = words.bytes().get(origin..origin + 4) else { continue };
            if self.names.get(last).is_none_or(|known| known != name) {
                let Some(found) = self.names.iter().position(|known| known == name) else { continue };
                last = found;
            }
            let Some((_, sizes, data)) = self.columns.get_mut(last) else { continue };
            sizes.push(bank.data);
            let start = 4 * bank.data_start();
            let bytes = words.bytes().get(start..start + 4 * bank.data as usize).unwrap_or_default();
            match words.order() {
                Order::Big => swap::extend(4, bytes, data),
                Order::Little => data.extend_from_slice(bytes),
            }
        }
        for (offsets, sizes, _) in &mut self.columns {
            offsets.push(sizes.len() as i64);
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
    /// What was collected, for each name.
    pub fn into_columns(self) -> Vec<Collected> {
        let column = |(offsets, sizes, data)| (offsets, sizes, Buffer::from_vec::<u8>(data));
        self.columns.into_iter().map(column).collect()
    }
}
