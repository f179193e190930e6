//! The first bytes of a file (`TFile::WriteHeader`).

use crate::error::{Error, Result};
use crate::wire::Cursor;
use std::fmt::Write;

/// The contents of the file header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// ROOT version of the writer (`fVersion` without the 1,000,000 of 64-bit headers): 62400 is 6.24/00.
    pub version: u32,
    /// Whether positions are 64-bit.
    pub is_64bit: bool,
    /// Position of the first record (`fBEGIN`).
    pub begin: u64,
    /// One past the last record (`fEND`).
    pub end: u64,
    /// Position of the list of free segments (`fSeekFree`).
    pub seek_free: u64,
    /// Its length (`fNbytesFree`).
    pub nbytes_free: u32,
    /// Bytes of key, name and title before the root directory's record (`fNbytesName`).
    pub nbytes_name: u64,
    /// Compression setting: algorithm × 100 + level (`fCompress`).
    pub compression: u32,
    /// Position of the streamer info (`fSeekInfo`).
    pub seek_info: u64,
    /// Its length (`fNbytesInfo`).
    pub nbytes_info: u32,
    /// Identity (`fUUID`), in the usual notation.
    pub uuid: String,
}

impl Header {
    /// Parses the header of a file of `size` bytes.
    pub fn parse(bytes: &[u8], size: u64) -> Result<Self> {
        let mut c = Cursor::new(bytes, 0);
        match c.take(4) {
            Ok(b"root") => {}
            Ok(other) => {
                return Err(Error::corrupt(format!(
                    "not a ROOT file: it starts with {:?} instead of \"root\"",
                    String::from_utf8_lossy(other)
                ))
                .at(0));
            }
            Err(_) => {
                return Err(Error::corrupt(format!("not a ROOT file: it has only {size} bytes"))
                    .at(0)
                    .short());
            }
        }
        // Signed: in some copied files, the mark of 64-bit headers was subtracted from a version without it.
        let raw = c.u32()?.cast_signed();
        let is_64bit = raw >= 1_000_000;
        let begin = u64::from(c.u32()?);
        let position = |c: &mut Cursor<'_>| if is_64bit { c.u64() } else { c.u32().map(u64::from) };
        let end = position(&mut c)?;
        let seek_free = position(&mut c)?;
        let nbytes_free = c.u32()?;
        c.skip(4)?;
        let nbytes_name = u64::from(c.u32()?);
        c.skip(1)?;
        let compression = c.u32()?;
        let seek_info = position(&mut c)?;
        let nbytes_info = c.u32()?;
        let uuid = uuid(&mut c).unwrap_or_default();
        if begin < 64 || begin >= size {
            let error =
                Error::corrupt(format!("the header places the first record at byte {begin} of {size}")).at(8);
            return Err(if begin < 64 { error } else { error.short() });
        }
        Ok(Self {
            version: raw.rem_euclid(1_000_000) as u32,
            is_64bit,
            begin,
            end,
            seek_free,
            nbytes_free,
            nbytes_name,
            compression,
            seek_info,
            nbytes_info,
            uuid,
        })
    }
}

/// A `TUUID`: version and sixteen bytes.
pub(super) fn uuid(c: &mut Cursor<'_>) -> Result<String> {
    c.skip(2)?;
    let mut out = String::with_capacity(36);
    for (i, byte) in c.take(16)?.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    Ok(out)
}
