//! Big-endian output with byte counts, versions, strings and object references, as `TBufferFile` lays them out.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::wire::grow::Grow;

/// Marks a 32-bit word as a byte count (`kByteCountMask`).
const BYTE_COUNT: u32 = 0x4000_0000;
/// Announces a class name (`kNewClassTag`).
const NEW_CLASS: u32 = 0xffff_ffff;
/// Marks a reference to a class named before (`kClassMask`).
const CLASS: u32 = 0x8000_0000;
/// Offsets in references start at 2, so that none is the null reference (`kMapOffset`).
const MAP_OFFSET: usize = 2;

/// Where a byte count waits to be filled in.
#[derive(Debug)]
#[must_use = "a frame that is never closed leaves a zero byte count"]
pub struct Frame(usize);

/// A number that has a big-endian form.
pub trait BigEndian: Copy {
    /// Appends the bytes.
    fn append(self, to: &mut Vec<u8>);
}

macro_rules! big_endian {
    ($($t:ty),*) => {$(
        impl BigEndian for $t {
            fn append(self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}
big_endian!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl BigEndian for bool {
    fn append(self, to: &mut Vec<u8>) {
        to.push(u8::from(self));
    }
}

/// Bytes of the widest number.
const WIDEST: usize = 8;

/// A growing buffer. References count from the start of the key that will hold the bytes, hence `displacement`.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Bytes for which there was no memory. They are missing, so [`Writer::into_bytes`] ends in an error.
    lost: usize,
    displacement: usize,
    classes: HashMap<String, u32>,
}

impl Writer {
    /// Creates an empty buffer. Its first byte will be `displacement` bytes (the key's `fKeylen`) after the start of
    /// the record.
    pub fn new(displacement: usize) -> Self {
        Self { displacement, ..Self::default() }
    }
    /// The bytes so far.
    ///
    /// # Errors
    ///
    /// There was no memory for all of them.
    pub fn bytes(&self) -> Result<&[u8]> {
        match self.lost {
            0 => Ok(&self.bytes),
            lost => Err(Error::limit(format!("no memory for {} bytes", self.bytes.len() + lost))),
        }
    }
    /// Returns all bytes.
    ///
    /// # Errors
    ///
    /// As of [`Writer::bytes`].
    pub fn into_bytes(self) -> Result<Vec<u8>> {
        self.bytes()?;
        Ok(self.bytes)
    }
    /// Number of bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// Whether nothing is written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Appends one number.
    pub fn put(&mut self, value: impl BigEndian) {
        if self.bytes.room(WIDEST).is_ok() {
            value.append(&mut self.bytes);
        } else {
            self.lost += WIDEST;
        }
    }
    /// Appends numbers without a count.
    pub fn put_all<T: BigEndian>(&mut self, values: impl IntoIterator<Item = T>) {
        values.into_iter().for_each(|value| self.put(value));
    }
    /// Appends bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.bytes.try_extend(bytes).is_err() {
            self.lost += bytes.len();
        }
    }
    /// Appends a `TString`: one length byte, or 255 and four.
    pub fn string(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(short) if short < 255 => self.put(short),
            _ => {
                self.put(255_u8);
                self.put(text.len() as u32);
            }
        }
        self.raw(text.as_bytes());
    }
    /// Bytes that [`Writer::string`] takes for a text.
    pub const fn string_size(text: &str) -> usize {
        text.len() + if text.len() < 255 { 1 } else { 5 }
    }
    /// Overwrites a 32-bit word at `place`.
    fn patch(&mut self, place: usize, value: u32) {
        if let Some(word) = self.bytes.get_mut(place..place + 4) {
            word.copy_from_slice(&value.to_be_bytes());
        }
    }
    /// Opens a frame: a byte count to be filled in by [`Writer::close`], and a class version.
    pub fn open(&mut self, version: i16) -> Frame {
        let frame = Frame(self.bytes.len());
        self.put(0_u32);
        self.put(version);
        frame
    }
    /// Opens a frame of a class without version, known by its checksum: version 0, then the checksum.
    pub fn open_checksum(&mut self, checksum: u32) -> Frame {
        let frame = self.open(0);
        self.put(checksum);
        frame
    }
    /// Fills in the byte count. Counts hold 30 bits: larger objects are an error.
    pub fn close(&mut self, Frame(place): Frame) -> Result<()> {
        let count = self.bytes.len().saturating_sub(place + 4);
        let count = u32::try_from(count).ok().filter(|c| *c < BYTE_COUNT - 2);
        let count = count
            .ok_or_else(|| Error::limit("an object is larger than 1 GiB, which a byte count cannot say"))?;
        self.patch(place, count | BYTE_COUNT);
        Ok(())
    }
    /// Appends a `TObject`: version 1, `fUniqueID`, `fBits`.
    pub fn object(&mut self, unique_id: u32, bits: u32) {
        self.put(1_i16);
        self.put(unique_id);
        self.put(bits);
    }
    /// Appends a `TNamed` with the `fBits` of its `TObject`.
    pub fn named(&mut self, name: &str, title: &str, bits: u32) -> Result<()> {
        let frame = self.open(1);
        self.object(0, bits);
        self.string(name);
        self.string(title);
        self.close(frame)
    }
    /// Opens an object behind a pointer: byte count and class, by name the first time and by reference after that.
    /// Returns the frame and the reference by which later pointers refer to the same object.
    pub fn open_pointer(&mut self, class: &str) -> (Frame, u32) {
        let frame = Frame(self.bytes.len());
        let reference = (self.bytes.len() + self.displacement + MAP_OFFSET) as u32;
        self.put(0_u32);
        if let Some(known) = self.classes.get(class) {
            self.put(*known);
        } else {
            let place = (self.bytes.len() + self.displacement + MAP_OFFSET) as u32;
            self.classes.insert(class.to_owned(), place | CLASS);
            self.put(NEW_CLASS);
            self.raw(class.as_bytes());
            self.put(0_u8);
        }
        (frame, reference)
    }
    /// Appends a pointer to nothing.
    pub fn null(&mut self) {
        self.put(0_u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_switch_to_four_length_bytes_at_255() {
        for (length, head) in
            [(0, vec![0]), (254, vec![254]), (255, vec![255, 0, 0, 0, 255]), (300, vec![255, 0, 0, 1, 44])]
        {
            let text = "x".repeat(length);
            let mut writer = Writer::new(0);
            writer.string(&text);
            assert_eq!(&writer.bytes().unwrap()[..head.len()], head.as_slice());
            assert_eq!(writer.len(), Writer::string_size(&text));
        }
    }

    #[test]
    fn frames_count_what_follows_them() {
        let mut writer = Writer::new(0);
        let frame = writer.open(3);
        writer.put(7_i32);
        writer.close(frame).unwrap();
        assert_eq!(writer.bytes().unwrap(), [0x40, 0, 0, 6, 0, 3, 0, 0, 0, 7]);
    }

    #[test]
    fn a_class_is_named_once() {
        let mut writer = Writer::new(10);
        let (first, place) = writer.open_pointer("A");
        writer.close(first).unwrap();
        let (second, again) = writer.open_pointer("A");
        writer.close(second).unwrap();
        assert_eq!((place, again), (12, 22));
        let expected = [0x40, 0, 0, 6, 0xff, 0xff, 0xff, 0xff, b'A', 0, 0x40, 0, 0, 4, 0x80, 0, 0, 16];
        assert_eq!(writer.bytes().unwrap(), expected);
    }

    #[test]
    fn named_objects_carry_their_bits() {
        let mut writer = Writer::new(0);
        writer.named("n", "", 8).unwrap();
        let expected = [0x40, 0, 0, 15, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 8, 1, b'n', 0];
        assert_eq!(writer.bytes().unwrap(), expected);
    }
}
