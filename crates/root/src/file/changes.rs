//! Files that are written to while they are read.

use super::{Directory, DirectoryHead, FIRST_READ, Header, Key, RootFile, same_record};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::{Cursor, grow};

/// Number of looks at a directory while its writer may be writing it.
const LOOKS: usize = 3;
/// Bytes of a directory after its name, up to the end of the position of its key list, or more.
const HEAD: u64 = 48;

impl RootFile {
    /// Checks that the file is still the one that was opened, if this can be determined at once.
    pub fn verify(&self) -> Result<()> {
        let how = self.source.changed();
        if how.is_none() && !self.source.written_to() {
            return Ok(());
        }
        // A writer that continues a file keeps the records in use, and writes the header last.
        let mut first = vec![0; self.source.size().min(FIRST_READ) as usize];
        let goes_on =
            |now: Header| now.uuid == self.header.uuid && (how.is_none() || now.end > self.header.end);
        let read = self.source.read_at(0, &mut first).is_ok();
        if read && Header::parse(&first, self.source.size()).is_ok_and(goes_on) {
            return Ok(());
        }
        Err(self.changed(&how.unwrap_or_else(|| "it is another file now".to_owned())))
    }

    /// Checks that the record of a key has not been replaced by another one since the file was opened. To be called after
    /// its bytes were read.
    pub(crate) fn verify_record(&self, key: &Key) -> Result<()> {
        if !self.source.written_to() {
            return Ok(());
        }
        let own = self.now(key.seek, key.key_bytes.into()).and_then(|mut bytes| {
            as_in_use(&mut bytes, key.total_bytes);
            Key::parse(&mut Cursor::new(&bytes, key.seek))
        });
        if own.is_ok_and(|own| same_record(&own, key) && own.name == key.name) {
            Ok(())
        } else {
            Err(self.replaced(key))
        }
    }

    /// Checks that the file is still the one that was opened, and that a table with this key is listed in its directory.
    /// The record of the table itself may have been replaced: a writer that adds entries keeps their pages.
    pub(crate) fn verify_table(&self, key: Option<&Key>) -> Result<()> {
        self.verify()?;
        let Some(key) = key.filter(|_| self.source.written_to()) else { return Ok(()) };
        let listed = (0..LOOKS).any(|_| self.is_listed(key).unwrap_or(false));
        if listed { Ok(()) } else { Err(self.replaced(key)) }
    }

    /// Whether the directory of a key lists its name and class now, or has no key list yet.
    fn is_listed(&self, key: &Key) -> Result<bool> {
        let seek = key.seek_parent;
        let skip = if seek == self.header.begin {
            self.header.nbytes_name
        } else {
            let start = self.now(seek, Key::SMALLEST as u64)?;
            Key::length_in(&start).map_or(0, u64::from)
        };
        let record = self.now(seek, skip.saturating_add(HEAD))?;
        let mut cursor = Cursor::new(&record, seek);
        cursor.seek(skip as usize)?;
        let head = DirectoryHead::parse(&mut cursor)?;
        if head.seek_keys == 0 {
            return Ok(true);
        }
        let list = self.now(head.seek_keys, head.nbytes_keys.into())?;
        let keys = Directory::parse_keys(&list, head.seek_keys, [seek, head.seek_parent])?;
        Ok(keys.iter().any(|one| (&one.name, &one.classname) == (&key.name, &key.classname)))
    }

    /// Returns bytes of the file as it is now, also of a part that was added.
    fn now(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        let mut out = grow::filled(usize::try_from(length).unwrap_or(usize::MAX), 0)?;
        self.source.read_at(offset, &mut out)?;
        Ok(out)
    }

    fn replaced(&self, key: &Key) -> Error {
        self.changed(&format!("{};{} was removed or replaced", key.name, key.cycle))
    }

    fn changed(&self, how: &str) -> Error {
        let message = format!("the file was changed while it was read ({how}): open it again");
        Error::new(ErrorKind::Changed, message).within(self.name())
    }
}

/// Restores the first number of a record, its length, if a writer has freed the record since. The rest of the record is
/// unchanged until another one is written there.
pub(super) fn as_in_use(record: &mut [u8], length: u32) {
    if let Some(first) = record.first_chunk_mut()
        && i32::from_be_bytes(*first) < 0
    {
        *first = length.to_be_bytes();
    }
}
