//! A table of entries while it is written, whatever its format.

use crate::array::Column;
use crate::compress::encode::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::file::writer::FileWriter;
use std::any::Any;

/// A table being written. Entries wait until a cluster is full; the file has those of full clusters.
pub trait TableWriter: Any + Send {
    /// Name.
    fn name(&self) -> &str;
    /// Entries taken so far.
    fn entries(&self) -> u64;
    /// Entries in the file: those of full clusters.
    fn entries_written(&self) -> u64;
    /// Pages in the file, of the column that has most.
    fn pages(&self) -> usize;
    /// Changes codec and level of a field for the pages to come; without one those of the file.
    fn set_compression(&mut self, field: usize, compression: Option<Compression>) -> Result<()>;
    /// Takes entries: one column of equal length for each field that takes data. Columns are copied or written before
    /// this returns. Nothing is taken if the columns do not fit.
    fn extend(&mut self, file: &mut FileWriter, columns: &[Column]) -> Result<()>;
    /// Writes what waits as a cluster of its own, however small.
    fn flush(&mut self, file: &mut FileWriter) -> Result<()>;
    /// Writes the description of all entries in the file. The file's next commit makes it the one that readers see.
    fn save(&mut self, file: &mut FileWriter) -> Result<()>;
    /// Has the description written once more before the last commit, if it lies far from the end of the file.
    fn close(&mut self, file: &FileWriter);
    /// Why no more is written, after an error.
    fn failure(&self) -> Option<&str>;
    /// Refuses more entries after an error that ended the writing.
    fn check_sound(&self) -> Result<()> {
        match self.failure() {
            Some(reason) => Err(Error::new(ErrorKind::Io, format!("writing failed before: {reason}"))),
            None => Ok(()),
        }
    }
}
