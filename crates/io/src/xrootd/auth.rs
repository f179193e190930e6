//! Authentication with the methods of servers: `unix`, `sss` and `ztn`.

#![allow(clippy::disallowed_methods, reason = "keys and tokens lie in files of their own")]

use crate::system;
use blowfish::Blowfish;
use blowfish::cipher::{Block, BlockCipherEncrypt, KeyInit};
use ring::rand::{SecureRandom, SystemRandom};
use std::env;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The identity of the user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The user's name.
    pub user: String,
    /// The name of the user's group.
    pub group: String,
    /// The numeric user ID.
    pub number: u32,
}

/// An authentication method offered by a server, with its parameters.
#[derive(Debug, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    parameters: String,
}

/// Parses the offers at login, a repetition of `&P=NAME[,PARAMETERS]`; without methods that the user excludes.
pub fn offers(text: &str) -> Vec<Offer> {
    let wanted = env::var("XrdSecPROTOCOL").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split([',', ' ', ':']).filter(|name| !name.is_empty()).collect();
    parse_offers(text)
        .into_iter()
        .filter(|o| wanted.is_empty() || wanted.contains(&o.name.as_str()))
        .collect()
}

fn parse_offers(text: &str) -> Vec<Offer> {
    let offer = |text: &str| {
        let (name, parameters) = text.split_once(',').unwrap_or((text, ""));
        Offer { name: name.to_owned(), parameters: parameters.to_owned() }
    };
    text.trim_end_matches('\0').split("&P=").skip(1).map(|one| offer(one.trim())).collect()
}

/// Environment that determines the identity. A session begun with one environment must not be used with another.
pub fn surroundings() -> Vec<Option<std::ffi::OsString>> {
    const NAMES: [&str; 8] = [
        "XrdSecPROTOCOL",
        "XrdSecSSSKT",
        "XrdSecsssKT",
        "HOME",
        "BEARER_TOKEN",
        "BEARER_TOKEN_FILE",
        "X509_CERT_DIR",
        "SSL_CERT_FILE",
    ];
    NAMES.iter().map(env::var_os).collect()
}

/// The method that sends only the user's name from the system.
pub const UNIX: &str = "unix";

/// Returns the `unix` method and its credentials.
pub fn unix(who: &Identity) -> (&'static str, Vec<u8>) {
    (UNIX, format!("unix\0{} {}\0", who.user, who.group).into_bytes())
}

/// Whether the user has no other credentials, neither keys nor a token, and does not exclude `unix`.
pub fn only_unix(who: &Identity) -> bool {
    let free = env::var_os("XrdSecPROTOCOL").is_none_or(|wanted| wanted.is_empty());
    free && matches!(token(who.number), Ok(None)) && Key::files().all(|path| !path.exists())
}

impl Offer {
    /// Returns the credentials for a server that offers this method; an error says why there are none.
    pub fn credentials(&self, who: &Identity, own_address: &str, tls: bool) -> Result<Vec<u8>, String> {
        match self.name.as_str() {
            UNIX => Ok(unix(who).1),
            "host" => Ok(b"host\0".to_vec()),
            "sss" => self.sss(who, own_address),
            "ztn" if !tls => Err("a token is only sent over TLS".to_owned()),
            "ztn" => self.ztn(who),
            _ => Err("not supported (supported are unix, sss and ztn)".to_owned()),
        }
    }

    /// Returns a token: `ztn`, version 0, `T`, then its length and the token with a terminating zero.
    fn ztn(&self, who: &Identity) -> Result<Vec<u8>, String> {
        let token = token(who.number)?.ok_or("there is no token (BEARER_TOKEN, BEARER_TOKEN_FILE)")?;
        let most = self.parameters.split(':').nth(1).and_then(|n| n.parse().ok()).unwrap_or(4096);
        if token.len() >= usize::min(most, usize::from(u16::MAX)) {
            return Err(format!(
                "the token has {} bytes, but the server accepts at most {most}",
                token.len()
            ));
        }
        let length = (token.len() as u16 + 1).to_be_bytes();
        Ok([b"ztn\0\0T\0\0", length.as_slice(), token.as_bytes(), b"\0"].concat())
    }

    /// Returns credentials for shared secrets. Parameters are `0.+13:KEYTAB`: cipher, whether key names are supported,
    /// time to live, and a possible location of the keys.
    fn sss(&self, who: &Identity, own_address: &str) -> Result<Vec<u8>, String> {
        let (cipher, rest) = self.parameters.split_once('.').unwrap_or_default();
        if cipher != "0" {
            return Err(format!("cipher {cipher:?} is not supported"));
        }
        let named = rest.starts_with('+');
        let offered = rest.split_once(':').map_or("", |(_, path)| path);
        let key = Key::find(Path::new(offered))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let mut random = [0; 128];
        SystemRandom::new().fill(&mut random).map_err(|_| "cannot get random numbers")?;
        let (salt, filling) = random.split_at(32);

        let mut data = salt.to_vec();
        data.extend_from_slice(&(now.saturating_sub(EPOCH) as u32).to_be_bytes());
        data.extend_from_slice(&[0; 4]);
        let mut item = |kind: u8, value: &[u8]| {
            data.push(kind);
            data.extend_from_slice(&(value.len() as u16 + 1).to_be_bytes());
            data.extend_from_slice(value);
            data.push(0);
        };
        item(0x20, own_address.as_bytes());
        item(0x01, who.user.as_bytes());
        item(0x04, who.group.as_bytes());
        // Old servers require this minimum length.
        let filling: Vec<u8> = filling.iter().map(|b| b | 1).collect();
        item(0x07, &filling);
        let sum = crc32(&data);
        data.extend_from_slice(&sum.to_be_bytes());
        encrypt(&key.secret, &mut data)?;

        let mut name = if named { key.name.into_bytes() } else { Vec::new() };
        if named {
            // At least one zero, up to a multiple of eight.
            name.resize((name.len() + 8) & !7, 0);
        }
        let length = u8::try_from(name.len()).map_err(|_| "the name of the key is too long")?;
        Ok([b"sss\0\0\0", &[length, b'0'][..], &key.number.to_be_bytes(), &name, &data].concat())
    }
}

/// Start of the `sss` clock, in seconds since 1970.
const EPOCH: u64 = 1_222_183_880;
/// Maximum bytes of a file with keys or a token.
const LARGEST: u64 = 1 << 20;

/// A shared secret.
#[derive(Debug, PartialEq, Eq)]
struct Key {
    name: String,
    number: u64,
    secret: Vec<u8>,
}

impl Key {
    /// The user's key files.
    fn files() -> impl Iterator<Item = PathBuf> {
        let said = ["XrdSecSSSKT", "XrdSecsssKT"].iter().find_map(env::var_os).map(PathBuf::from);
        let home = env::var_os("HOME").map(|home| Path::new(&home).join(".xrd/sss.keytab"));
        [said, home].into_iter().flatten()
    }

    /// Returns the first key that has not expired: from the location set by the user, from the home folder, or from the
    /// location given by the server.
    fn find(offered: &Path) -> Result<Self, String> {
        let found = Self::files().chain([offered.to_owned()]).find(|path| path.is_file());
        let path = found.ok_or("there is no keytab (XrdSecSSSKT, ~/.xrd/sss.keytab)")?;
        let group = path.extension().is_some_and(|e| e == "grp");
        let text = private(&path, if group { 0o037 } else { 0o077 }, LARGEST)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match Self::parse(line, now) {
                Some((key, false)) => return Ok(key),
                Some(_) => {}
                None => return Err(format!("{}: a line cannot be parsed as a key", path.display())),
            }
        }
        Err(format!("{}: all keys have expired", path.display()))
    }

    /// Parses a line such as `0 u:USER g:GROUP n:NAME N:NUMBER c:CREATED e:EXPIRES f:FLAGS k:HEX`; returns also whether
    /// it has expired.
    fn parse(line: &str, now: u64) -> Option<(Self, bool)> {
        let field = |name: &str| line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name));
        let expires: u64 = field("e:").map_or(Some(0), |e| e.parse().ok())?;
        let hex = field("k:")?.as_bytes();
        let digit = |b: &u8| char::from(*b).to_digit(16);
        let pairs = hex.chunks_exact(2);
        if !pairs.remainder().is_empty() || !(8..=112).contains(&hex.len()) {
            return None;
        }
        let secret: Option<Vec<u8>> =
            pairs.map(|pair| Some((digit(pair.first()?)? << 4 | digit(pair.last()?)?) as u8)).collect();
        let key = Self { name: field("n:")?.to_owned(), number: field("N:")?.parse().ok()?, secret: secret? };
        Some((key, expires != 0 && expires <= now))
    }
}

/// Returns the text of a file, which no one else may read.
fn private(path: &Path, forbidden: u32, most: u64) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let about: Metadata = fs::metadata(path).map_err(failed)?;
    let Some(permissions) = system::permissions(&about) else {
        return Err(format!(
            "{}: on this system, sapwood cannot tell who can read this file",
            path.display()
        ));
    };
    if permissions & forbidden != 0 {
        return Err(format!("{}: other users can read this file; use chmod 600", path.display()));
    }
    if about.len() > most {
        return Err(format!("{}: too large", path.display()));
    }
    fs::read_to_string(path).map_err(failed)
}

/// Returns a token from the locations defined by the WLCG: two variables and two files.
pub fn token(user: u32) -> Result<Option<String>, String> {
    let trimmed = |text: String| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    if let Some(token) = env::var("BEARER_TOKEN").ok().and_then(trimmed) {
        return Ok(Some(token));
    }
    let file = env::var_os("BEARER_TOKEN_FILE").map(PathBuf::from);
    let run = env::var_os("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join(format!("bt_u{user}")));
    let last = env::temp_dir().join(format!("bt_u{user}"));
    for path in [file, run, Some(last)].into_iter().flatten().filter(|path| path.is_file()) {
        if let Some(token) = trimmed(private(&path, 0o077, LARGEST)?) {
            return Ok(Some(token));
        }
    }
    Ok(None)
}

/// The CRC-32 of Ethernet and zip.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Blowfish with 8-byte cipher feedback, starting from zeros.
fn encrypt(key: &[u8], data: &mut [u8]) -> Result<(), String> {
    let cipher: Blowfish = Blowfish::new_from_slice(key).map_err(|_| "the key has the wrong length")?;
    let mut block = Block::<Blowfish>::default();
    for piece in data.chunks_mut(8) {
        cipher.encrypt_block(&mut block);
        for (byte, mask) in piece.iter_mut().zip(block.iter_mut()) {
            *byte ^= *mask;
            *mask = *byte;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_offer() {
        let names = |text| parse_offers(text).into_iter().map(|o| (o.name, o.parameters)).collect::<Vec<_>>();
        let want = [("ztn", "0:4096:"), ("sss", "0.+13:/etc/k"), ("unix", "")];
        assert_eq!(
            names("&P=ztn,0:4096:&P=sss,0.+13:/etc/k&P=unix\0"),
            want.map(|(a, b)| (a.to_owned(), b.to_owned()))
        );
        assert_eq!(names(""), []);
        assert_eq!(names("P=unix"), []);
    }

    #[test]
    fn keys() {
        let line = "0 u:alice g:users n:alicekey N:7 c:1 e:0 f:0 k:000102030405060708ff";
        let (key, expired) = Key::parse(line, 5).unwrap();
        assert!(!expired);
        assert_eq!((key.name.as_str(), key.number, key.secret.last()), ("alicekey", 7, Some(&0xff)));
        assert!(Key::parse("n:a N:1 e:4 k:00112233", 5).unwrap().1);
        for bad in ["n:a N:1 k:0", "n:a N:1 k:", "n:a N:x k:00112233", "n:a k:00112233", "n:a N:1 k:zz112233"]
        {
            assert_eq!(Key::parse(bad, 5), None, "{bad}");
        }
    }

    #[test]
    fn checksum_and_cipher() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let key =
            [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xf0, 0xe1, 0xd2, 0xc3, 0xb4, 0xa5, 0x96, 0x87];
        // Reference: `openssl enc -bf-cfb`.
        let mut text = *b"sapwood reads";
        encrypt(&key, &mut text).unwrap();
        let want = [0x74, 0x91, 0x8b, 0x59, 0xed, 0x60, 0xfc, 0x90, 0xba, 0x3d, 0x4c, 0x52, 0xf6];
        assert_eq!(text, want);
        assert!(encrypt(&[1], &mut text).is_err());
    }
}
