//! The record header of every object (`TKey`).

use super::Cursor;
use crate::error::Result;

/// The location and description of an object in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Bytes of the record, key included (`fNbytes`).
    pub total_bytes: u32,
    /// Bytes of the object when decompressed (`fObjlen`).
    pub object_bytes: u32,
    /// Date and time, as ROOT packs them (`fDatime`).
    pub datime: u32,
    /// Bytes of the key itself (`fKeylen`).
    pub key_bytes: u16,
    /// Counts objects of one name (`fCycle`).
    pub cycle: u16,
    /// Where the record lies (`fSeekKey`).
    pub seek: u64,
    /// The directory that holds it (`fSeekPdir`).
    pub seek_parent: u64,
    /// Class of the object.
    pub classname: String,
    /// Name.
    pub name: String,
    /// Title.
    pub title: String,
}

impl Key {
    /// Bytes of a key with empty strings.
    pub const SMALLEST: usize = 29;

    /// Returns the number of bytes of the key that begins with these bytes (`fKeylen`), if they are enough to tell.
    pub fn length_in(head: &[u8]) -> Option<u16> {
        head.get(14..)?.first_chunk().map(|bytes| u16::from_be_bytes(*bytes))
    }

    /// Parses a key; the cursor is left after it, at byte `key_bytes` or before (some records have more there).
    pub fn parse(c: &mut Cursor<'_>) -> Result<Self> {
        let total = c.i32()?;
        let version = c.u16()?;
        let object_bytes = c.i32()?;
        let datime = c.u32()?;
        let key_bytes = c.u16()?;
        let cycle = c.u16()?;
        let (seek, seek_parent) = if version > 1000 {
            // The upper bits of the parent's position hold flags in recent versions.
            (c.u64()?, c.u64()? & 0x0000_ffff_ffff_ffff)
        } else {
            (u64::from(c.u32()?), u64::from(c.u32()?))
        };
        if total < 0 || object_bytes < 0 {
            return Err(c.corrupt(format!("a key of {total} bytes with an object of {object_bytes}")));
        }
        Ok(Self {
            total_bytes: total as u32,
            object_bytes: object_bytes as u32,
            datime,
            key_bytes,
            cycle,
            seek,
            seek_parent,
            classname: c.string()?,
            name: c.string()?,
            title: c.string()?,
        })
    }
}
