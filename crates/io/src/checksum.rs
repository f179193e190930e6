//! Checksums of whole files, as reported by storage.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use md5::{Digest, Md5};
use std::io::{Error, ErrorKind, Result};

/// The checksum of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    kind: Kind,
    value: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Adler32,
    Crc32,
    Crc32c,
    Crc64Nvme,
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

impl Kind {
    /// Returns the kind with this name in `XRootD`, HTTP or S3.
    fn named(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "adler32" | "adler" => Self::Adler32,
            "crc32" => Self::Crc32,
            "crc32c" => Self::Crc32c,
            "crc64nvme" => Self::Crc64Nvme,
            "md5" => Self::Md5,
            "sha" | "sha1" => Self::Sha1,
            "sha256" | "sha-256" => Self::Sha256,
            "sha512" | "sha-512" => Self::Sha512,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Adler32 => "adler32",
            Self::Crc32 => "crc32",
            Self::Crc32c => "crc32c",
            Self::Crc64Nvme => "crc64nvme",
            Self::Md5 => "md5",
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn bytes(self) -> usize {
        match self {
            Self::Adler32 | Self::Crc32 | Self::Crc32c => 4,
            Self::Crc64Nvme => 8,
            Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl Checksum {
    /// Parses a checksum of this name from hexadecimal digits or base 64. Returns `None` if the kind or the length is
    /// unknown. Also returns `None` for zero and empty values, with which servers report that they do not know it.
    pub fn named(name: &str, value: &str) -> Option<Self> {
        let kind = Kind::named(name)?;
        let value = Some(value.trim()).filter(|value| !value.is_empty())?;
        let digits = if kind.bytes() <= 8 && value.len() < 2 * kind.bytes() && !value.ends_with('=') {
            // Some servers omit leading zeros.
            format!("{value:0>width$}", width = 2 * kind.bytes())
        } else {
            value.to_owned()
        };
        let value = match unhex(&digits) {
            Some(value) if value.len() == kind.bytes() => value,
            _ => STANDARD.decode(value).ok().filter(|value| value.len() == kind.bytes())?,
        };
        value.iter().any(|byte| *byte != 0).then_some(Self { kind, value })
    }

    /// Returns the first known checksum of a list: `sha-256=:BASE64:, adler=:BASE64:` of RFC 9530,
    /// `adler32=HEX,md5=BASE64` of RFC 3230.
    pub fn listed(text: &str) -> Option<Self> {
        text.split(',').find_map(|one| {
            let (name, value) = one.split_once('=')?;
            let value = value.split(';').next().unwrap_or_default().trim().trim_matches(':');
            Self::named(name, value)
        })
    }

    /// Computes the same kind of checksum over the bytes that `give` passes on.
    pub fn of(&self, give: impl FnOnce(&mut dyn FnMut(&[u8])) -> Result<()>) -> Result<Self> {
        let kind = self.kind;
        let crc = |algorithm| crc_fast::Digest::new(algorithm);
        let value = match kind {
            Kind::Adler32 => {
                let mut sum = libdeflater::Adler32::new();
                give(&mut |bytes| sum.update(bytes))?;
                sum.sum().to_be_bytes().to_vec()
            }
            Kind::Crc32 | Kind::Crc32c | Kind::Crc64Nvme => {
                let mut sum = crc(match kind {
                    Kind::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
                    Kind::Crc32c => CrcAlgorithm::Crc32Iscsi,
                    _ => CrcAlgorithm::Crc64Nvme,
                });
                give(&mut |bytes| sum.update(bytes))?;
                let all = sum.finalize().to_be_bytes();
                all.get(all.len() - kind.bytes()..).unwrap_or_default().to_vec()
            }
            Kind::Md5 => {
                let mut sum = Md5::new();
                give(&mut |bytes| sum.update(bytes))?;
                sum.finalize().to_vec()
            }
            Kind::Sha1 | Kind::Sha256 | Kind::Sha512 => {
                let mut sum = ring::digest::Context::new(match kind {
                    Kind::Sha1 => &ring::digest::SHA1_FOR_LEGACY_USE_ONLY,
                    Kind::Sha256 => &ring::digest::SHA256,
                    _ => &ring::digest::SHA512,
                });
                give(&mut |bytes| sum.update(bytes))?;
                sum.finish().as_ref().to_vec()
            }
        };
        Ok(Self { kind, value })
    }

    /// Returns an error if the computed checksum differs from this one, which storage reported.
    pub fn check(&self, found: &Self) -> Result<()> {
        if self == found {
            return Ok(());
        }
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let (name, promised, found) = (self.kind.name(), hex(&self.value), hex(&found.value));
        let message = format!(
            "wrong checksum of the whole file ({name}): the server reports {promised}, the received bytes have {found}"
        );
        Err(Error::new(ErrorKind::InvalidData, message))
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair.first()?)? * 16 + digit(pair.get(1)?)?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checksums of the digits 1 to 9, from the catalogue of CRCs, coreutils and Python's zlib.
    const DIGITS: [(&str, &str); 8] = [
        ("adler32", "091e01de"),
        ("crc32", "cbf43926"),
        ("CRC32C", "e3069283"),
        ("crc64nvme", "ae8b14860a799888"),
        ("md5", "25f9e794323b453885f5181f1b624d0b"),
        ("sha", "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        ("sha-256", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        (
            "SHA-512",
            "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274ad27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
        ),
    ];

    #[test]
    fn digits() {
        for (name, value) in DIGITS {
            let want = Checksum::named(name, value).unwrap();
            let found = want.of(|take| {
                take(b"1234");
                take(b"56789");
                Ok(())
            });
            want.check(&found.unwrap()).unwrap();
            let text = STANDARD.encode(unhex(value).unwrap());
            assert_eq!(Checksum::named(name, &text), Some(want.clone()));
            let other = want.of(|take| {
                take(b"123456780");
                Ok(())
            });
            let error = want.check(&other.unwrap()).unwrap_err().to_string();
            assert!(error.contains(value), "{error}");
        }
    }

    #[test]
    fn as_servers_write_them() {
        let adler = Checksum::named("adler32", "091e01de");
        assert_eq!(Checksum::named("adler32", "91e01de"), adler);
        assert_eq!(Checksum::listed("unixsum=:AA==:, adler=:CR4B3g==:, md5=:AA==:"), adler);
        assert_eq!(Checksum::listed("id-x=1, ADLER32=091e01de"), adler);
        for bad in
            ["", "adler32", "adler32=xyz", "adler=:CR4B3g:", "md5=091e01de", "sha-256=::", "crc32=091e01de00"]
        {
            assert_eq!(Checksum::listed(bad), None, "{bad}");
        }
        for unknown in ["adler32=", "adler32=00000000", "crc32=0", "crc32c=:AAAAAA==:", "crc64nvme="] {
            assert_eq!(Checksum::listed(unknown), None, "{unknown}");
            assert_eq!(Checksum::listed(&format!("{unknown}, adler32=091e01de")), adler);
        }
    }
}
