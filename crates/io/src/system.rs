//! Functions for which the standard library differs between systems: reads and writes at offsets, and what the system
//! knows of a file. Windows is only compiled: nothing was run there.

pub use here::{is_alone, is_at, permissions, read_exact_at, space, touched, write_all_at};

#[cfg(unix)]
mod here {
    use std::fs::{File, Metadata};
    use std::io::Result;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::Path;

    /// Fills `out` with the bytes of a file from `offset` on.
    pub fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> Result<()> {
        file.read_exact_at(out, offset)
    }
    /// Writes all of `bytes` to a file from `offset` on.
    pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> Result<()> {
        file.write_all_at(bytes, offset)
    }
    /// Bytes that a file takes in storage.
    pub fn space(about: &Metadata) -> u64 {
        about.blocks().saturating_mul(512)
    }
    /// Whether the path names the open file with the metadata `about`.
    pub fn is_at(path: &Path, _file: &File, about: &Metadata) -> Result<bool> {
        let named = path.metadata()?;
        Ok((named.dev(), named.ino()) == (about.dev(), about.ino()))
    }
    /// Whether the path is the only name of the open file with the metadata `about`, and no link to it.
    pub fn is_alone(path: &Path, about: &Metadata) -> Result<bool> {
        let named = path.symlink_metadata()?;
        Ok(named.is_file() && named.nlink() == 1 && (named.dev(), named.ino()) == (about.dev(), about.ino()))
    }
    /// The number of a file (`st_ino`), and when its content or its description was changed last, in nanoseconds of the
    /// system's clock, if the system keeps a time that programs cannot set (`st_ctime`).
    #[expect(clippy::unnecessary_wraps, reason = "Windows has none")]
    pub fn touched(about: &Metadata) -> Option<(u64, i64)> {
        Some((about.ino(), about.ctime().saturating_mul(1_000_000_000).saturating_add(about.ctime_nsec())))
    }
    /// The permission bits of a file, if the system has them.
    #[expect(clippy::unnecessary_wraps, reason = "Windows has none")]
    pub fn permissions(about: &Metadata) -> Option<u32> {
        Some(about.mode())
    }
}

#[cfg(windows)]
mod here {
    use same_file::Handle;
    use std::fs::{File, Metadata};
    use std::io::{ErrorKind, Result};
    use std::os::windows::fs::FileExt;
    use std::path::Path;

    /// Fills `out` with the bytes of a file from `offset` on. Moves the position of the file.
    pub fn read_exact_at(file: &File, out: &mut [u8], offset: u64) -> Result<()> {
        let (mut rest, mut at) = (out, offset);
        while !rest.is_empty() {
            let count = some(file.seek_read(rest, at), ErrorKind::UnexpectedEof)?;
            rest = rest.get_mut(count..).unwrap_or_default();
            at += count as u64;
        }
        Ok(())
    }
    /// Writes all of `bytes` to a file from `offset` on. Moves the position of the file.
    pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> Result<()> {
        let (mut rest, mut at) = (bytes, offset);
        while !rest.is_empty() {
            let count = some(file.seek_write(rest, at), ErrorKind::WriteZero)?;
            rest = rest.get(count..).unwrap_or_default();
            at += count as u64;
        }
        Ok(())
    }
    /// Returns the bytes of a read or a write: none is an error, except after an interruption.
    fn some(count: Result<usize>, none: ErrorKind) -> Result<usize> {
        match count {
            Ok(0) => Err(none.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(0),
            other => other,
        }
    }
    /// Bytes that a file takes in storage. Only files that were declared sparse have holes, and ours are not.
    pub fn space(about: &Metadata) -> u64 {
        about.len()
    }
    /// Whether the path is no link. Other names of the file are not noticed.
    pub fn is_alone(path: &Path, _about: &Metadata) -> Result<bool> {
        Ok(path.symlink_metadata()?.is_file())
    }
    /// Whether the path names the open file.
    pub fn is_at(path: &Path, file: &File, _about: &Metadata) -> Result<bool> {
        Ok(Handle::from_path(path)? == Handle::from_file(file.try_clone()?)?)
    }
    /// Programs can set all times of a file.
    pub fn touched(_about: &Metadata) -> Option<(u64, i64)> {
        None
    }
    /// There are no permission bits: the system has lists of users.
    pub fn permissions(_about: &Metadata) -> Option<u32> {
        None
    }
}
