//! The anchor: the object in a key of class `ROOT::RNTuple`.

use super::envelope::checksum;
use crate::error::{Error, Result};
use crate::wire::Cursor;

/// Location of the header and the footer of an RNTuple (`ROOT::RNTuple`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// Epoch, major, minor and patch version of the format.
    pub version: [u16; 4],
    /// The header.
    pub header: Blob,
    /// The footer.
    pub footer: Blob,
    /// Blobs larger than this are split over several keys (`fMaxKeySize`); 0 for no limit.
    pub max_key_size: u64,
}

/// A stored envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blob {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub stored: u64,
    /// Bytes after decompression.
    pub length: u64,
}

/// Bytes before the members: byte count and class version.
const PREFIX: usize = 6;
/// Bytes of the checksum after the object.
const CHECKSUM: usize = 8;

impl Anchor {
    /// Parses the object of the key. Positions in errors are counted from its first byte.
    pub fn parse(object: &[u8]) -> Result<Self> {
        let members =
            object.len().checked_sub(PREFIX + CHECKSUM).and_then(|n| object.get(PREFIX..PREFIX + n));
        let members = members
            .ok_or_else(|| Error::corrupt(format!("the anchor has {} bytes, too few", object.len())))?;
        // The byte count ends before the checksum. Later versions of the class may append members.
        let mut c = Cursor::new(object, 0);
        let frame = c.frame()?;
        if frame.end != Some(object.len() - CHECKSUM) {
            return Err(Error::corrupt(format!(
                "the byte count of an anchor of {} bytes does not end before its checksum",
                object.len()
            ))
            .at(0));
        }
        let stored = Cursor::new(object.get(object.len() - CHECKSUM..).unwrap_or_default(), 0).u64()?;
        let found = checksum(members);
        if stored != found {
            return Err(Error::corrupt(format!(
                "the checksum of the anchor is {stored:016x}, its bytes give {found:016x}"
            ))
            .at((object.len() - CHECKSUM) as u64));
        }
        let version = [c.u16()?, c.u16()?, c.u16()?, c.u16()?];
        if version[0] != 1 {
            let [epoch, major, minor, patch] = version;
            return Err(Error::unsupported(format!(
                "RNTuple format version {epoch}.{major}.{minor}.{patch}; only epoch 1 is readable"
            )));
        }
        let mut blob = || Ok::<_, Error>(Blob { offset: c.u64()?, stored: c.u64()?, length: c.u64()? });
        let (header, footer) = (blob()?, blob()?);
        Ok(Self { version, header, footer, max_key_size: c.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchor(extra: &[u8]) -> Vec<u8> {
        let mut members: Vec<u8> = [1u16, 0, 2, 0].iter().flat_map(|v| v.to_be_bytes()).collect();
        members.extend([100u64, 10, 20, 200, 30, 40, 1 << 30].iter().flat_map(|v| v.to_be_bytes()));
        members.extend(extra);
        let mut object = (0x4000_0000u32 + members.len() as u32 + 2).to_be_bytes().to_vec();
        object.extend([0, 2]);
        object.extend(&members);
        object.extend(checksum(&members).to_be_bytes());
        object
    }

    #[test]
    fn the_checksum_lies_outside_of_the_byte_count() {
        let parsed = Anchor::parse(&anchor(&[])).unwrap();
        assert_eq!(parsed.version, [1, 0, 2, 0]);
        assert_eq!(parsed.header, Blob { offset: 100, stored: 10, length: 20 });
        assert_eq!(parsed.footer, Blob { offset: 200, stored: 30, length: 40 });
        assert_eq!(parsed.max_key_size, 1 << 30);
        // A later class version has more members.
        assert_eq!(Anchor::parse(&anchor(&[1, 2, 3])).unwrap(), parsed);
    }

    #[test]
    fn damage_is_found() {
        let good = anchor(&[]);
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x10;
            // The class version is neither checked nor covered by the checksum.
            assert_eq!(Anchor::parse(&bad).is_err(), !(4..6).contains(&place), "byte {place}");
        }
        assert!(Anchor::parse(&good[..10]).is_err());
    }
}
