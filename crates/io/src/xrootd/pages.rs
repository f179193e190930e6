//! Pages with checksums, as returned by `kXR_pgread`.

use super::wire::{CHECKSUM, ELEMENT, PAGE, WireReader, crc32c};
use std::io::{Error, ErrorKind, Result};

/// The pages in an answer, however it is divided. A header gives their location. Each page has its CRC32C before it and
/// extends to the next multiple of the page size in the file.
#[derive(Default)]
pub struct Pages {
    /// Incomplete header or page.
    begun: Vec<u8>,
    /// Bytes still to come after the header.
    left: usize,
    /// File offset of the next page.
    offset: u64,
    /// Offset of the first page with a wrong checksum, and the number of such pages.
    bad: Option<(u64, usize)>,
}

impl Pages {
    /// Maximum bytes of an answer for this many bytes of the file.
    pub fn most(length: u64) -> u64 {
        length + (length / PAGE + 2) * (CHECKSUM + ELEMENT) as u64
    }

    /// Passes on good pages: file offset and bytes. Returns false if no more are wanted.
    pub fn feed(&mut self, mut bytes: &[u8], take: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<bool> {
        let strange = || Error::new(ErrorKind::InvalidData, "unexpected pages");
        while !bytes.is_empty() {
            let marked = self.left > 0;
            let size = if marked {
                let room = CHECKSUM + (PAGE - self.offset % PAGE) as usize;
                room.min(self.begun.len() + self.left)
            } else {
                ELEMENT
            };
            let (new, rest) = bytes.split_at((size - self.begun.len()).min(bytes.len()));
            bytes = rest;
            self.left -= if marked { new.len() } else { 0 };
            let mut whole = new;
            if new.len() < size {
                self.begun.extend_from_slice(new);
                if self.begun.len() < size {
                    break;
                }
                whole = &self.begun;
            }
            let mut from = WireReader(whole);
            let mut more = true;
            if marked {
                let sum = from.u32()?;
                let page = from.0;
                if page.is_empty() {
                    return Err(strange());
                }
                if crc32c(page) == sum {
                    more = take(self.offset, page);
                } else {
                    self.bad.get_or_insert((self.offset, 0)).1 += 1;
                }
                self.offset += page.len() as u64;
            } else {
                from.take(4)?;
                self.left = from.u32()? as usize;
                self.offset = from.u64()?;
                if i64::try_from(self.offset).is_err() {
                    return Err(strange());
                }
            }
            self.begun.clear();
            if !more {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns an error if a page did not match its checksum.
    pub fn checked(&self) -> Result<()> {
        let Some((offset, count)) = self.bad else { return Ok(()) };
        let message = format!("{count} pages with a wrong checksum (CRC32C), the first at byte {offset}");
        Err(Error::new(ErrorKind::InvalidData, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two frames of a file in which byte `i` is `i % 251`, from byte 4000 on.
    fn answer() -> (Vec<u8>, Vec<u8>) {
        let file: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
        let mut bytes = Vec::new();
        for frame in [vec![4000..4096, 4096..8192], vec![8192..12_288, 12_288..12_300]] {
            let length: usize = frame.iter().map(|page| page.len() + CHECKSUM).sum();
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&(length as u32).to_be_bytes());
            bytes.extend_from_slice(&(frame[0].start as u64).to_be_bytes());
            for page in frame {
                bytes.extend_from_slice(&crc32c(&file[page.clone()]).to_be_bytes());
                bytes.extend_from_slice(&file[page]);
            }
        }
        (file, bytes)
    }

    #[test]
    fn pages_of_any_division() {
        let (file, bytes) = answer();
        assert!(Pages::most(8300) >= bytes.len() as u64);
        for step in [1, 2, 3, 5, 17, 4095, 4100, 4101, 9000, bytes.len()] {
            let (mut pages, mut found) = (Pages::default(), Vec::new());
            for piece in bytes.chunks(step) {
                let mut take = |at: u64, new: &[u8]| {
                    assert_eq!(at, 4000 + found.len() as u64);
                    found.extend_from_slice(new);
                    true
                };
                assert!(pages.feed(piece, &mut take).unwrap());
            }
            assert_eq!(found, file[4000..12_300], "{step}");
            pages.checked().unwrap();
        }
    }

    #[test]
    fn damaged_pages_are_left_out() {
        let (file, mut bytes) = answer();
        bytes[16 + 4 + 96 + 4 + 100] ^= 1;
        let (mut pages, mut found) = (Pages::default(), Vec::new());
        let mut take = |at: u64, new: &[u8]| {
            assert_eq!(new, &file[at as usize..][..new.len()]);
            found.push((at, new.len()));
            true
        };
        assert!(pages.feed(&bytes, &mut take).unwrap());
        assert_eq!(found, [(4000, 96), (8192, 4096), (12_288, 12)]);
        assert_eq!(pages.bad, Some((4096, 1)));
        assert!(pages.checked().unwrap_err().to_string().contains("byte 4096"));
        assert!(Pages::default().feed(&[0xff; ELEMENT], &mut |_, _| true).is_err());
    }
}
