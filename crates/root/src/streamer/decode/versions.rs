//! Determining the class version of a stored object.

use super::super::kind::{Class, Kind, Version};
use crate::error::{Error, Result};
use crate::wire::Cursor;
use crate::wire::cursor::BYTE_COUNT_MASK;

/// Whether an object that is a whole entry has a header. Without one it is only the members of its class, as ROOT
/// writes it when the class has no streamer of its own. Even then, the header of the first base may span the entry.
pub(super) fn has_header(class: &Class, c: &Cursor<'_>) -> bool {
    let spanning = |c: &Cursor<'_>| {
        c.clone().u32().ok() == Some(BYTE_COUNT_MASK | c.remaining().saturating_sub(4) as u32)
    };
    let mut c = c.clone();
    if !spanning(&c) {
        return false;
    }
    let Ok(frame) = c.frame() else { return false };
    if frame.version == 0
        && let Ok(sum) = c.clone().u32()
    {
        return class.versions.iter().any(|v| v.checksum == sum);
    }
    // Then the headers of all first bases span the entry, or only those below the class.
    let mut record = class.versions.first().map(|v| &v.record);
    while let Some((first, rest)) = record.and_then(|r| r.steps.split_first()) {
        let Kind::Object(base) = &first.kind else { break };
        if rest.iter().any(|step| step.kind.least_bytes() > 0) {
            break;
        }
        if !spanning(&c) {
            return false;
        }
        match c.frame() {
            Ok(frame) if frame.version == 0 && c.skip(4).is_err() => return false,
            Ok(_) => {}
            Err(_) => return false,
        }
        record = base.versions.first().map(|v| &v.record);
    }
    true
}

/// Returns the version given by an object's header. Version 0 is that of a class without a number and is followed by
/// its checksum. Some classes have the number 0 and no checksum.
pub(super) fn choose<'a>(
    class: &'a Class,
    version: i32,
    end: Option<usize>,
    c: &mut Cursor<'_>,
) -> Result<&'a Version> {
    if version <= 0 && end.is_some_and(|end| end >= c.pos() + 4) {
        let sum = c.clone().u32()?;
        if let Some(found) = class.versions.iter().find(|v| v.checksum == sum) {
            c.skip(4)?;
            return Ok(found);
        }
    }
    by_header(class, Header { version, checksum: None }, c)
}

/// The class version before member-wise data, or the checksum of a class without a number.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) version: i32,
    pub(super) checksum: Option<u32>,
}

impl Header {
    pub(super) fn read(c: &mut Cursor<'_>) -> Result<Self> {
        let version = i32::from(c.u16()?);
        Ok(Self { version, checksum: if version == 0 { Some(c.u32()?) } else { None } })
    }
}

pub(super) fn by_header<'a>(class: &'a Class, header: Header, c: &Cursor<'_>) -> Result<&'a Version> {
    let Header { version, checksum } = header;
    let found = class.versions.iter().find(|v| match checksum {
        Some(sum) => v.checksum == sum,
        None => v.version == version,
    });
    let one = if let [one] = class.versions.as_slice() { Some(one) } else { None };
    found.or(one.filter(|_| version <= 0)).ok_or_else(|| {
        let name = &class.name;
        let which =
            checksum.map_or_else(|| format!("version {version}"), |sum| format!("checksum {sum:#010x}"));
        let message = format!("class {name} was written with {which}, which the file does not describe");
        Error::unsupported(message).at(c.place())
    })
}
