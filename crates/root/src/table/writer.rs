//! The common interface of tables that are being written.

use crate::array::Column;
use crate::array::extremes::Collecting;
use crate::compress::encode::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::file::writer::FileWriter;
use std::any::Any;

/// A table being written. Entries are buffered until a cluster is full; the file holds full clusters only.
pub trait TableWriter: Any + Send {
    /// Name.
    fn name(&self) -> &str;
    /// Number of entries taken so far.
    fn entries(&self) -> u64;
    /// Number of entries in the file, all in full clusters.
    fn entries_written(&self) -> u64;
    /// Number of pages in the file of the column with the most pages.
    fn pages(&self) -> usize;
    /// Sets codec and level of a field for later pages; `None` restores the setting of the file.
    fn set_compression(&mut self, field: usize, compression: Option<Compression>) -> Result<()>;
    /// Takes entries: one column for each field that takes data, all of equal length. The columns are copied or written
    /// before this returns. Takes nothing if the columns do not fit.
    fn extend(&mut self, file: &mut FileWriter, columns: &[Column]) -> Result<()> {
        self.extend_collecting(file, columns, &mut Collecting::default())
    }
    /// Takes entries as `extend` does, and collects their statistics on the way. Each cluster that is written ends a zone.
    fn extend_collecting(
        &mut self,
        file: &mut FileWriter,
        columns: &[Column],
        collecting: &mut Collecting,
    ) -> Result<()>;
    /// Writes the buffered entries as a cluster, however small.
    fn flush(&mut self, file: &mut FileWriter) -> Result<()>;
    /// Writes the description of all entries in the file. Readers see it after the next commit of the file.
    fn save(&mut self, file: &mut FileWriter) -> Result<()>;
    /// Schedules another write of the description before the last commit, if it is far from the end of the file.
    fn close(&mut self, file: &FileWriter);
    /// The error that ended the writing, if any.
    fn failure(&self) -> Option<&str>;
    /// Returns an error if an earlier error ended the writing.
    fn check_sound(&self) -> Result<()> {
        match self.failure() {
            Some(reason) => Err(Error::new(ErrorKind::Io, format!("an earlier write failed: {reason}"))),
            None => Ok(()),
        }
    }
}
