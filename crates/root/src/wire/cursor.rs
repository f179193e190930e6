//! A position in a buffer of big-endian data.

use super::grow;
use crate::error::{Error, Result};

/// Set in the first word of an object that is preceded by its byte count (`kByteCountMask`).
pub const BYTE_COUNT_MASK: u32 = 0x4000_0000;
/// Set in a tag that names a class (`kClassMask`).
pub const CLASS_MASK: u32 = 0x8000_0000;
/// The tag of a class that occurs for the first time (`kNewClassTag`).
pub const NEW_CLASS_TAG: u32 = 0xffff_ffff;
/// Added to positions before they serve as references (`kMapOffset`).
pub const MAP_OFFSET: u64 = 2;
/// Set in the version of a collection that is streamed member by member (`kStreamedMemberWise`).
pub const MEMBER_WISE: u16 = 1 << 14;

/// Reads forward through a buffer; never past its end.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    pos: usize,
    /// Added to `pos` to get the position that references and messages use.
    origin: u64,
}

/// Version header of an object, and where it ends when a byte count says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Class version, flags removed.
    pub version: u16,
    /// Streamed member by member.
    pub member_wise: bool,
    /// Position (of the cursor) one past the object, if it has a byte count.
    pub end: Option<usize>,
}

/// Content of a pointer on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pointer {
    /// A null pointer.
    Null,
    /// The object read before at this reference.
    Seen(u64),
    /// A new object: its class, the reference under which it will be known, and where it ends.
    New {
        /// Class name, or the reference of a class read before.
        class: ClassTag,
        /// Reference of the object (position of its tag plus `MAP_OFFSET`).
        reference: u64,
        /// Cursor position one past the object, when known.
        end: Option<usize>,
    },
}

/// How a new object names its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClassTag {
    /// By name, for the first time; later tags refer to `reference`.
    Named {
        /// Class name.
        name: String,
        /// Under which the class will be known.
        reference: u64,
    },
    /// By the reference of an earlier occurrence.
    Seen(u64),
}

macro_rules! number {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!("Reads one `", stringify!($type), "`.")]
        #[inline]
        pub fn $name(&mut self) -> Result<$type> {
            self.array().map(<$type>::from_be_bytes)
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// At the start of `bytes`; `origin` is what the first byte is called in references and messages.
    pub fn new(bytes: &'a [u8], origin: u64) -> Self {
        Self { bytes, pos: 0, origin }
    }
    /// Position within the buffer.
    pub fn pos(&self) -> usize {
        self.pos
    }
    /// Position as references and messages use it.
    pub fn place(&self) -> u64 {
        self.pos as u64 + self.origin
    }
    /// Number of the first byte of the buffer in references and messages.
    pub fn origin(&self) -> u64 {
        self.origin
    }
    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }
    /// The bytes from here to the end.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.pos..).unwrap_or_default()
    }
    /// The whole buffer.
    pub fn buffer(&self) -> &'a [u8] {
        self.bytes
    }
    /// Ends the buffer at position `end`, or at the current position if that is later. Returns the whole buffer, for
    /// [`Cursor::widen`].
    pub fn narrow(&mut self, end: usize) -> &'a [u8] {
        let whole = self.bytes;
        self.bytes = whole.get(..end.max(self.pos)).unwrap_or(whole);
        whole
    }
    /// Undoes [`Cursor::narrow`].
    pub fn widen(&mut self, whole: &'a [u8]) {
        self.bytes = whole;
    }
    /// An error at this position.
    pub fn corrupt(&self, message: impl Into<String>) -> Error {
        Error::corrupt(message).at(self.place())
    }
    /// Moves to a position, which may lie before this one but not past the end.
    pub fn seek(&mut self, pos: usize) -> Result<()> {
        if pos > self.bytes.len() {
            return Err(
                self.corrupt(format!("position {pos} is outside the object of {} bytes", self.bytes.len()))
            );
        }
        self.pos = pos;
        Ok(())
    }
    /// The next `n` bytes.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.bytes.get(self.pos..).and_then(|rest| rest.get(..n)) {
            Some(slice) => {
                self.pos += n;
                Ok(slice)
            }
            None => Err(self.short(n)),
        }
    }
    /// The next `n` bytes and all bytes after them.
    #[inline]
    pub fn take_of_rest(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.bytes.get(self.pos..) {
            Some(rest) if rest.len() >= n => {
                self.pos += n;
                Ok(rest)
            }
            _ => Err(self.short(n)),
        }
    }
    #[cold]
    fn short(&self, n: usize) -> Error {
        self.corrupt(format!("{n} bytes expected, {} left", self.remaining())).short()
    }
    /// Passes over `n` bytes.
    #[inline]
    pub fn skip(&mut self, n: usize) -> Result<()> {
        self.take(n).map(|_| ())
    }
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.bytes.get(self.pos..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(chunk) => {
                self.pos += N;
                Ok(*chunk)
            }
            None => Err(self.short(N)),
        }
    }
    number!(u8: u8, i8: i8, u16: u16, i16: i16, u32: u32, i32: i32, u64: u64, i64: i64, f32: f32, f64: f64);

    /// A count that precedes `item` bytes each: checked against the bytes left, so that it may size an allocation.
    #[inline]
    pub fn count(&mut self, item: usize) -> Result<usize> {
        let n = self.i32()?;
        match usize::try_from(n) {
            Ok(n) if n.saturating_mul(item) <= self.remaining() => Ok(n),
            _ => Err(self.corrupt(format!("a count of {n} with {} bytes left", self.remaining()))),
        }
    }
    /// The bytes of a string as `TString` writes it: a length byte, or 255 and a 32-bit length.
    #[inline]
    pub fn string_bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.string_length()?;
        self.take(n)
    }
    /// A string as `TString` writes it; bytes that are not UTF-8 are read as Latin-1.
    pub fn string(&mut self) -> Result<String> {
        text(self.string_bytes()?)
    }
    /// The bytes up to a zero byte, which is passed over.
    pub fn c_string(&mut self) -> Result<&'a [u8]> {
        let rest = self.rest();
        match rest.iter().position(|&b| b == 0) {
            Some(n) => {
                self.pos += n + 1;
                Ok(rest.get(..n).unwrap_or_default())
            }
            None => Err(self.corrupt("a string without its final zero byte")),
        }
    }
    /// Length of a string as `TString` writes it.
    #[inline]
    pub fn string_length(&mut self) -> Result<usize> {
        Ok(match self.u8()? {
            255 => self.u32()? as usize,
            n => usize::from(n),
        })
    }
    /// A version header (`TBufferFile::ReadVersion`): byte count if there is one, and version.
    #[inline]
    pub fn frame(&mut self) -> Result<Frame> {
        let start = self.pos;
        let first = self.u32()?;
        if first & BYTE_COUNT_MASK != 0 && first != NEW_CLASS_TAG {
            let end = self.pos + (first & !BYTE_COUNT_MASK) as usize;
            if end > self.bytes.len() {
                return Err(Error::corrupt(format!(
                    "an object of {} bytes with {} left",
                    first & !BYTE_COUNT_MASK,
                    self.remaining()
                ))
                .at(start as u64 + self.origin));
            }
            let version = self.u16()?;
            if end < self.pos {
                return Err(
                    Error::corrupt("an object shorter than its version").at(start as u64 + self.origin)
                );
            }
            Ok(Frame {
                version: version & !MEMBER_WISE,
                member_wise: version & MEMBER_WISE != 0,
                end: Some(end),
            })
        } else {
            self.pos = start;
            let version = self.u16()?;
            Ok(Frame { version: version & !MEMBER_WISE, member_wise: version & MEMBER_WISE != 0, end: None })
        }
    }
    /// Moves to the end of a framed object, whatever was read of it; not backwards.
    pub fn finish(&mut self, frame: Frame) -> Result<()> {
        match frame.end {
            Some(end) if end < self.pos => Err(self.corrupt(format!(
                "an object should end at byte {}, but its members continue",
                end as u64 + self.origin
            ))),
            Some(end) => self.seek(end),
            None => Ok(()),
        }
    }
    /// A pointer (`TBufferFile::ReadObjectAny`) up to the object itself, which the caller reads or passes over.
    pub fn pointer(&mut self) -> Result<Pointer> {
        let begin = self.place();
        let first = self.u32()?;
        let (tag, reference, end) = if first & BYTE_COUNT_MASK == 0 || first == NEW_CLASS_TAG {
            (first, begin, None)
        } else {
            let end = self.pos + (first & !BYTE_COUNT_MASK) as usize;
            let reference = self.place();
            (self.u32()?, reference, Some(end))
        };
        let old = end.is_none();
        if let Some(end) = end
            && end > self.bytes.len()
        {
            return Err(Error::corrupt("an object reaches past the end of its buffer").at(begin));
        }
        if tag & CLASS_MASK == 0 {
            if let Some(end) = end {
                self.seek(end)?;
            }
            return Ok(if tag == 0 { Pointer::Null } else { Pointer::Seen(u64::from(tag)) });
        }
        let class = if tag == NEW_CLASS_TAG {
            let name = text(self.c_string()?);
            ClassTag::Named { name: name?, reference: if old { begin } else { reference + MAP_OFFSET } }
        } else {
            ClassTag::Seen(u64::from(tag & !CLASS_MASK))
        };
        Ok(Pointer::New { class, reference: begin + MAP_OFFSET, end })
    }
    /// The three words of a `TObject`; gives `fBits`.
    pub fn object_bits(&mut self) -> Result<u32> {
        let frame = self.frame()?;
        self.skip(4)?;
        let bits = self.u32()?;
        if bits & IS_REFERENCED != 0 {
            self.skip(2)?;
        }
        if frame.end.is_some() {
            self.finish(frame)?;
        }
        Ok(bits)
    }
    /// Passes over `n` times the words of a `TObject`.
    pub fn skip_object_bits(&mut self, n: usize) -> Result<()> {
        for _ in 0..n {
            match self.rest() {
                // No byte count before them and no process number after them.
                [version, _, _, _, _, _, _, _, _, bits, ..]
                    if version & 0x40 == 0 && u32::from(*bits) & IS_REFERENCED == 0 =>
                {
                    self.pos += 10;
                }
                _ => {
                    self.object_bits()?;
                }
            }
        }
        Ok(())
    }
    /// Name and title of a `TNamed`.
    pub fn named(&mut self) -> Result<(String, String)> {
        let frame = self.frame()?;
        self.object_bits()?;
        let name = self.string()?;
        let title = self.string()?;
        self.finish(frame)?;
        Ok((name, title))
    }
}

/// `TObject::kIsReferenced`: a process id follows the bits.
pub const IS_REFERENCED: u32 = 1 << 4;

/// Text of bytes: UTF-8, or Latin-1 where it is not.
pub fn text(bytes: &[u8]) -> Result<String> {
    let mut out = String::new();
    if let Ok(text) = str::from_utf8(bytes) {
        grow::room_for_text(&mut out, text.len())?;
        out.push_str(text);
    } else {
        // A byte that is not ASCII has two in UTF-8.
        grow::room_for_text(&mut out, 2 * bytes.len())?;
        out.extend(bytes.iter().map(|&byte| char::from(byte)));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_strings_and_their_ends() {
        let mut c = Cursor::new(&[0, 0, 1, 2, 3, b'a', b'b', b'c', 9], 100);
        assert_eq!(c.u32().unwrap(), 258);
        assert_eq!(c.string().unwrap(), "abc");
        assert_eq!(c.place(), 108);
        assert!(c.u16().unwrap_err().to_string().contains("at byte 108"));
        assert_eq!(c.u8().unwrap(), 9);
    }

    #[test]
    fn frames_with_and_without_byte_count() {
        let mut c = Cursor::new(&[0x40, 0, 0, 6, 0x40, 3, 1, 2, 3, 4, 7], 0);
        let frame = c.frame().unwrap();
        assert_eq!(frame, Frame { version: 3, member_wise: true, end: Some(10) });
        c.finish(frame).unwrap();
        assert_eq!(c.u8().unwrap(), 7);
        let mut c = Cursor::new(&[0, 5, 1, 1], 0);
        assert_eq!(c.frame().unwrap(), Frame { version: 5, member_wise: false, end: None });
        let mut c = Cursor::new(&[0x40, 0, 0, 60, 0, 3], 0);
        assert!(c.frame().is_err());
        let mut c = Cursor::new(&[0x40, 0, 0, 1, 0, 3], 0);
        assert!(c.frame().is_err());
    }

    #[test]
    fn narrowing_keeps_what_was_passed() {
        let mut c = Cursor::new(&[1, 2, 3, 4], 0);
        c.skip(3).unwrap();
        let whole = c.narrow(1);
        assert_eq!(c.remaining(), 0);
        assert!(c.u8().is_err());
        c.widen(whole);
        assert_eq!(c.u8().unwrap(), 4);
    }

    #[test]
    fn counts_are_checked_against_what_is_left() {
        assert_eq!(Cursor::new(&[0, 0, 0, 2, 1, 1], 0).count(1).unwrap(), 2);
        assert!(Cursor::new(&[0, 0, 0, 2, 1, 1], 0).count(2).is_err());
        assert!(Cursor::new(&[255, 255, 255, 255], 0).count(0).is_err());
    }
}
