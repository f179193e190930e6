//! Writing keys.

use crate::error::{Error, Result};
use crate::wire::writer::Writer;

/// A key whose position is not known yet.
#[derive(Debug, Clone)]
pub struct KeyText {
    /// Class of the object.
    pub class: String,
    /// Name.
    pub name: String,
    /// Title.
    pub title: String,
}

impl KeyText {
    pub(super) fn new(class: &str, name: &str, title: &str) -> Self {
        Self { class: class.to_owned(), name: name.to_owned(), title: title.to_owned() }
    }
    /// Bytes of the key (`fKeylen`), with or without 64-bit positions.
    pub fn size(&self, big: bool) -> usize {
        let fixed = if big { 34 } else { 26 };
        fixed
            + [&self.class, &self.name, &self.title]
                .map(|text| Writer::string_size(text))
                .iter()
                .sum::<usize>()
    }
}

/// The numbers of a key.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyNumbers {
    /// Bytes of the record (`fNbytes`).
    pub total_bytes: usize,
    /// Bytes of the object before compression (`fObjlen`).
    pub object_bytes: usize,
    /// Date (`fDatime`).
    pub datime: u32,
    /// Bytes of the key (`fKeylen`), for pages, whose keys have additional members.
    pub key_bytes: usize,
    /// Cycle number among objects of the same name (`fCycle`).
    pub cycle: u16,
    /// Position of the record (`fSeekKey`).
    pub seek: u64,
    /// Position of its directory's record (`fSeekPdir`).
    pub seek_parent: u64,
    /// Whether positions have 64 bits.
    pub big: bool,
}

/// Appends a key (`TKey`).
pub fn encode_key(w: &mut Writer, text: &KeyText, n: &KeyNumbers) -> Result<()> {
    let too_large = |what: &str, size: usize| {
        Error::limit(format!("{} {}: {what} of {size} bytes", text.class, text.name))
    };
    w.put(i32::try_from(n.total_bytes).map_err(|_| too_large("a record", n.total_bytes))?);
    w.put(if n.big { 1004_i16 } else { 4 });
    w.put(i32::try_from(n.object_bytes).map_err(|_| too_large("an object", n.object_bytes))?);
    w.put(n.datime);
    w.put(i16::try_from(n.key_bytes).map_err(|_| too_large("a key", n.key_bytes))?);
    w.put(n.cycle);
    if n.big {
        w.put_all([n.seek, n.seek_parent]);
    } else {
        w.put_all([n.seek as u32, n.seek_parent as u32]);
    }
    w.string(&text.class);
    w.string(&text.name);
    w.string(&text.title);
    Ok(())
}
