//! Envelopes and their contents: little-endian numbers, strings, frames, locators.

use super::anchor::Blob;
use crate::compress::decode;
use crate::error::{Error, Result};
use crate::file::RootFile;
use crate::wire::grow::{self, Grow};
use sapwood_io::Cause;
use twox_hash::XxHash3_64;

/// The checksum of envelopes and pages.
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The type of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The schema.
    Header = 1,
    /// The extended schema and the cluster groups.
    Footer = 2,
    /// The pages of a cluster group.
    PageList = 3,
}

/// Feature flag 0: columns below a collection may be deferred.
const NESTED_DEFERRED_COLUMNS: u64 = 1;

/// A forward reader within an envelope; it never reads past the end.
#[derive(Debug, Clone)]
pub struct EnvelopeReader<'a> {
    bytes: &'a [u8],
    /// Position in the envelope of the first byte of `bytes`.
    origin: u64,
    pos: usize,
}

macro_rules! number {
    ($($name:ident: $type:ty),*) => {$(
        #[doc = concat!("Reads one `", stringify!($type), "`.")]
        pub fn $name(&mut self) -> Result<$type> {
            let bytes = self.take(size_of::<$type>())?;
            Ok(bytes.first_chunk().copied().map(<$type>::from_le_bytes).unwrap_or_default())
        }
    )*};
}

impl<'a> EnvelopeReader<'a> {
    /// Creates a reader at the start of some bytes of an envelope.
    pub fn new(bytes: &'a [u8], origin: u64) -> Self {
        Self { bytes, origin, pos: 0 }
    }
    /// Verifies an envelope; returns a reader of its content and the checksum.
    pub fn envelope(bytes: &'a [u8], kind: Kind) -> Result<(Self, u64)> {
        let mut head = Self::new(bytes, 0);
        let word = head.u64()?;
        if word & 0xffff != kind as u64 {
            return Err(Error::corrupt(format!(
                "found envelope type {}, expected {}",
                word & 0xffff,
                kind as u64
            ))
            .at(0));
        }
        if word >> 16 != bytes.len() as u64 {
            return Err(Error::corrupt(format!(
                "the envelope has {} bytes, its preamble says {}",
                bytes.len(),
                word >> 16
            ))
            .at(0));
        }
        let content = bytes.len().checked_sub(16).and_then(|n| bytes.get(8..8 + n));
        let content = content.ok_or_else(|| Error::corrupt("the envelope has no checksum").at(0))?;
        let place = bytes.len() - 8;
        let (covered, last) = bytes.split_at_checked(place).unwrap_or_default();
        let stored = Self::new(last, place as u64).u64()?;
        let found = checksum(covered);
        if stored != found {
            return Err(Error::corrupt(format!(
                "the checksum of the envelope is {stored:016x}, its bytes give {found:016x}"
            ))
            .at(place as u64));
        }
        Ok((Self::new(content, 8), stored))
    }
    /// Position in the envelope.
    pub fn place(&self) -> u64 {
        self.origin + self.pos as u64
    }
    /// Bytes left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.pos
    }
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        match self.bytes.get(self.pos..).and_then(|rest| rest.get(..n)) {
            Some(bytes) => {
                self.pos += n;
                Ok(bytes)
            }
            None => {
                Err(Error::corrupt(format!("{n} bytes expected, {} left", self.remaining())).at(self.place()))
            }
        }
    }
    number!(u16: u16, u32: u32, i32: i32, u64: u64, i64: i64, f64: f64);

    /// Reads a string: 32-bit length and bytes. Bytes that are not UTF-8 are read as Latin-1.
    pub fn string(&mut self) -> Result<String> {
        self.string_bytes().and_then(crate::wire::cursor::text)
    }
    /// The bytes of a string.
    pub fn string_bytes(&mut self) -> Result<&'a [u8]> {
        let n = self.u32()?;
        self.take(n as usize)
    }
    /// Reads feature flags; unknown ones are refused.
    pub fn feature_flags(&mut self) -> Result<()> {
        for word in 0u64.. {
            let place = self.place();
            let flags = self.u64()?;
            let known = if word == 0 { NESTED_DEFERRED_COLUMNS } else { 0 };
            let unknown = flags & !(1 << 63) & !known;
            if unknown != 0 {
                let flag = word * 64 + u64::from(unknown.trailing_zeros());
                return Err(Error::unsupported(format!(
                    "the RNTuple has feature flag {flag} set, which this version does not know"
                ))
                .at(place));
            }
            if flags >> 63 == 0 {
                break;
            }
        }
        Ok(())
    }
    /// Returns a reader of the content of a record frame. This reader then continues after the frame, however much of
    /// it is read.
    pub fn record(&mut self) -> Result<Self> {
        let place = self.place();
        match self.frame()? {
            (frame, None) => Ok(frame),
            (_, Some(_)) => Err(Error::corrupt("found a list frame, expected a record frame").at(place)),
        }
    }
    /// Returns a reader of the items of a list frame, and their number. Verifies that each item can have at least
    /// `item` bytes, so that the number is safe for an allocation.
    pub fn list(&mut self, item: usize) -> Result<(Self, usize)> {
        let place = self.place();
        match self.frame()? {
            (frame, Some(n)) => match usize::try_from(n) {
                Ok(n) if n.saturating_mul(item.max(1)) <= frame.remaining() => Ok((frame, n)),
                _ => {
                    Err(Error::corrupt(format!("a list frame of {n} items with {} bytes", frame.remaining()))
                        .at(place))
                }
            },
            (_, None) => Err(Error::corrupt("found a record frame, expected a list frame").at(place)),
        }
    }
    fn frame(&mut self) -> Result<(Self, Option<u32>)> {
        let start = self.pos;
        let place = self.place();
        let size = self.i64()?;
        let items = if size < 0 { Some(self.u32()?) } else { None };
        let header = self.pos - start;
        let content = usize::try_from(size.unsigned_abs()).ok().and_then(|size| size.checked_sub(header));
        let content = content.filter(|&n| n <= self.remaining()).ok_or_else(|| {
            Error::corrupt(format!("a frame of {} bytes with {} left", size.unsigned_abs(), self.remaining()))
                .at(place)
        })?;
        let origin = self.place();
        Ok((Self::new(self.take(content)?, origin), items))
    }
    /// A locator.
    pub fn locator(&mut self) -> Result<Locator> {
        let place = self.place();
        let head = self.i32()?;
        if head >= 0 {
            return Ok(Locator::File { offset: self.u64()?, bytes: head as u64 });
        }
        let head = head.unsigned_abs();
        let size = (head & 0xffff) as usize;
        let payload =
            size.checked_sub(4).ok_or_else(|| Error::corrupt("a locator shorter than its head").at(place))?;
        let mut payload = Self::new(self.take(payload)?, place + 4);
        Ok(match head >> 24 {
            1 => {
                let bytes = payload.u64()?;
                Locator::File { offset: payload.u64()?, bytes }
            }
            kind => Locator::Elsewhere(kind as u8),
        })
    }
    /// An envelope link.
    pub fn link(&mut self) -> Result<(u64, Locator)> {
        Ok((self.u64()?, self.locator()?))
    }
}

/// Location of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locator {
    /// In the file.
    File {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// In storage of that kind, outside of the file.
    Elsewhere(u8),
}

impl Locator {
    /// Returns the error for bytes outside of the file.
    pub fn unreadable(kind: u8) -> Error {
        Error::unsupported(match kind {
            2 => "its data are in an object store (DAOS), not in this file".to_owned(),
            _ => format!("its data are located by a locator of unknown type {kind:#04x}, not in this file"),
        })
    }
    /// Returns the envelope at this location.
    pub fn blob(self, length: u64) -> Result<Blob> {
        match self {
            Self::File { offset, bytes } => Ok(Blob { offset, stored: bytes, length }),
            Self::Elsewhere(kind) => Err(Self::unreadable(kind)),
        }
    }
}

/// Reads and decompresses an envelope. Blobs larger than `max_key_size` are split over several keys.
pub fn fetch(file: &RootFile, blob: Blob, max_key_size: u64, cause: Cause) -> Result<Vec<u8>> {
    if blob.stored > file.source().size() {
        return Err(Error::corrupt(format!(
            "an envelope of {} bytes in a file of {}",
            blob.stored,
            file.source().size()
        ))
        .at(blob.offset));
    }
    let stored = if max_key_size == 0 || blob.stored <= max_key_size {
        file.bytes(blob.offset, blob.stored, cause)?
    } else {
        let pieces = Pieces::of(blob.stored, max_key_size);
        let pieces = pieces.ok_or_else(|| {
            Error::corrupt(format!("a blob of {} bytes in keys of {max_key_size} bytes", blob.stored))
                .at(blob.offset)
        })?;
        let mut bytes = file.bytes(blob.offset, max_key_size, cause)?;
        let places = bytes.split_off(pieces.first as usize);
        let mut places = EnvelopeReader::new(&places, 0);
        while (bytes.len() as u64) < blob.stored {
            let left = (blob.stored - bytes.len() as u64).min(max_key_size);
            bytes.try_extend(&file.bytes(places.u64()?, left, cause)?)?;
        }
        bytes
    };
    unpack(stored, blob.length).map_err(|error| error.at(blob.offset))
}

/// Decompresses the stored bytes of an envelope. Equal length means not compressed; more stored bytes are an error.
pub fn unpack(stored: Vec<u8>, length: u64) -> Result<Vec<u8>> {
    let wrong = || Error::corrupt(format!("{} bytes stored for {length}", stored.len()));
    let length = usize::try_from(length).map_err(|_| wrong())?;
    match stored.len() {
        n if n == length => Ok(stored),
        n if n > length => Err(wrong()),
        _ => {
            decode::verify_size(&stored, length)?;
            let mut bytes = grow::filled(length, 0)?;
            decode::decompress(&stored, &mut bytes)?;
            Ok(bytes)
        }
    }
}

/// The parts of a large blob.
#[derive(Debug, PartialEq, Eq)]
struct Pieces {
    /// Bytes of the blob in the first key; the positions of the other keys follow them there.
    first: u64,
}

impl Pieces {
    /// Returns `None` if the positions do not fit into the first key.
    fn of(bytes: u64, largest: u64) -> Option<Self> {
        const PLACE: u64 = 8;
        let tail = bytes % largest;
        let spare = if tail > 0 { largest - tail } else { 0 };
        let others = bytes.div_ceil(largest) - 1;
        let others = if others.checked_mul(PLACE)? > spare { others + 1 } else { others };
        let first = largest.checked_sub(others.checked_mul(PLACE)?)?;
        (first > 0).then_some(Self { first })
    }
}

#[cfg(test)]
pub mod tests {
    //! Tests, and helpers that build envelopes for other tests.

    use super::*;

    /// Builds an envelope with this content.
    pub fn envelope(kind: u64, content: &[u8]) -> Vec<u8> {
        let mut bytes = (kind | (content.len() as u64 + 16) << 16).to_le_bytes().to_vec();
        bytes.extend(content);
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }
    /// Builds a record frame.
    pub fn record(content: &[u8]) -> Vec<u8> {
        [&(content.len() as i64 + 8).to_le_bytes()[..], content].concat()
    }
    /// Builds a list frame.
    pub fn list(items: &[Vec<u8>]) -> Vec<u8> {
        let content = items.concat();
        let size = -(content.len() as i64 + 12);
        [&size.to_le_bytes()[..], &(items.len() as u32).to_le_bytes(), &content].concat()
    }

    /// Lengths and checksums, computed with the reference implementation.
    const KNOWN_SUMS: [(usize, u64); 31] = [
        (0, 0x2d06_8005_38d3_94c2),
        (1, 0xc44b_dff4_074e_ecdb),
        (2, 0xd664_5fc3_051a_9457),
        (3, 0x5f42_99fc_161c_9cbb),
        (4, 0x60da_b036_a582_11f2),
        (5, 0xb075_753a_84ca_0fbe),
        (7, 0x0cd2_084a_6240_6b69),
        (8, 0x3a1c_2d7c_85af_88f8),
        (9, 0xe961_2598_145b_b9dc),
        (12, 0x5ace_6a51_1c10_894b),
        (16, 0x8355_e3a6_f617_70db),
        (17, 0x9ef3_41a9_9de3_7328),
        (31, 0x4f36_db8e_4df3_78fd),
        (32, 0x3523_581f_e96e_4c05),
        (33, 0xe68c_56ba_8899_1e58),
        (64, 0x6187_eb90_89b0_ed55),
        (65, 0x6928_c76c_e904_22d0),
        (128, 0x85c6_174c_7ff4_c46b),
        (129, 0xec76_42b4_31ba_3e5a),
        (160, 0x5bea_9075_ec94_01b8),
        (239, 0x972b_14e3_c46f_214b),
        (240, 0x375a_384d_957f_e865),
        (241, 0x02e8_cd95_421c_6d02),
        (255, 0xb85f_d37a_0a05_0e63),
        (256, 0x9408_a443_3b95_2d71),
        (257, 0xd02c_2570_4c5c_ee8a),
        (512, 0x1059_105a_d19b_fa09),
        (1023, 0x26a0_a01d_1c92_5c06),
        (1024, 0xa870_f929_8439_8d22),
        (1025, 0x78c8_6e91_ee93_9852),
        (2048, 0xdd42_0471_ff96_bd00),
    ];

    #[test]
    fn checksums_are_right_at_every_kind_of_length() {
        let bytes: Vec<u8> = (0..2048u32).map(|i| i as u8).collect();
        for (length, sum) in KNOWN_SUMS {
            assert_eq!(checksum(&bytes[..length]), sum, "{length} bytes");
        }
    }

    #[test]
    fn envelopes_are_verified() {
        let good = envelope(2, &[1, 2, 3]);
        let (mut reader, _) = EnvelopeReader::envelope(&good, Kind::Footer).unwrap();
        assert_eq!(reader.take(3).unwrap(), [1, 2, 3]);
        assert!(reader.take(1).is_err());
        assert!(EnvelopeReader::envelope(&good, Kind::Header).is_err());
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            assert!(EnvelopeReader::envelope(&bad, Kind::Footer).is_err(), "byte {place}");
        }
        for length in 0..good.len() {
            assert!(EnvelopeReader::envelope(&good[..length], Kind::Footer).is_err());
        }
    }

    #[test]
    fn frames_are_passed_by_their_size() {
        let bytes = [record(&[1, 2, 3, 4, 9, 9, 9]), list(&[vec![5], vec![6]]), vec![7]].concat();
        let mut reader = EnvelopeReader::new(&bytes, 0);
        assert_eq!(reader.record().unwrap().u32().unwrap(), 0x0403_0201);
        let (mut items, n) = reader.list(1).unwrap();
        assert_eq!((n, items.take(2).unwrap()), (2, &[5, 6][..]));
        assert_eq!(reader.take(1).unwrap(), [7]);
        assert!(EnvelopeReader::new(&bytes, 0).list(1).is_err());
        // More items than bytes, and a frame beyond the end.
        let mut many = list(&[vec![5]]);
        many[8] = 9;
        assert!(EnvelopeReader::new(&many, 0).list(1).is_err());
        assert!(EnvelopeReader::new(&record(&[1])[..8], 0).record().is_err());
        assert!(EnvelopeReader::new(&i64::MIN.to_le_bytes(), 0).record().is_err());
    }

    #[test]
    fn locators_of_every_kind() {
        let read = |bytes: &[u8]| {
            let mut reader = EnvelopeReader::new(bytes, 0);
            reader.locator().map(|locator| (locator, reader.remaining()))
        };
        let small = [&7i32.to_le_bytes()[..], &9u64.to_le_bytes(), &[1]].concat();
        assert_eq!(read(&small).unwrap(), (Locator::File { offset: 9, bytes: 7 }, 1));
        let special = |kind: i32, payload: &[u8]| {
            [&(-((4 + payload.len() as i32) | (kind << 24))).to_le_bytes()[..], payload].concat()
        };
        let large = special(1, &[&(1u64 << 40).to_le_bytes()[..], &8u64.to_le_bytes()].concat());
        assert_eq!(read(&large).unwrap(), (Locator::File { offset: 8, bytes: 1 << 40 }, 0));
        assert_eq!(read(&special(2, &[0; 12])).unwrap(), (Locator::Elsewhere(2), 0));
        assert_eq!(read(&special(0x7e, &[0; 3])).unwrap(), (Locator::Elsewhere(0x7e), 0));
        assert!(read(&special(1, &[0; 3])).is_err());
        assert!(read(&(-3i32).to_le_bytes()).is_err());
        assert!(Locator::unreadable(2).to_string().contains("object store"));
    }

    #[test]
    fn unknown_features_are_refused() {
        let read = |words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            EnvelopeReader::new(&bytes, 0).feature_flags().map_err(|e| e.to_string())
        };
        assert_eq!(read(&[0]), Ok(()));
        assert_eq!(read(&[1]), Ok(()));
        assert_eq!(read(&[1 << 63, 0]), Ok(()));
        assert!(read(&[2]).unwrap_err().contains("flag 1 "));
        assert!(read(&[1 << 63, 1]).unwrap_err().contains("flag 64 "));
        assert!(read(&[1 << 63]).is_err());
    }

    #[test]
    fn large_blobs_are_split_as_root_does() {
        let first = |bytes, largest| Pieces::of(bytes, largest).map(|p| p.first);
        // 100 bytes in keys of 64: the second key has room for one position.
        assert_eq!(first(100, 64), Some(56));
        // 128 bytes fill two keys, so that a third is needed.
        assert_eq!(first(128, 64), Some(48));
        assert_eq!(first(125, 64), Some(48));
        assert_eq!(first(1000, 8), None);
    }
}
