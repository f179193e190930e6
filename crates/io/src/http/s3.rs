//! S3's additions to HTTP, as documented by AWS: signed requests (signature version 4) and error codes.

use super::date;
use crate::ledger::said;
use ring::{digest, hmac};
use std::io::{Error, ErrorKind, Read, Result};

/// Credentials and region.
#[derive(Clone)]
pub struct Keys {
    /// The public access key.
    pub access: String,
    /// The secret key.
    pub secret: String,
    /// The session token.
    pub token: Option<String>,
    /// The server's region.
    pub region: String,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keys({}, {})", self.access, self.region)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn hash(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn keyed(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

/// The hash of an empty body.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

impl Keys {
    /// Returns the headers that sign a request for `url` at the current time; `others` are its other headers.
    pub fn sign(
        &self,
        method: &str,
        url: &str,
        others: &[(&'static str, &str)],
    ) -> Result<Vec<(&'static str, String)>> {
        self.sign_at(method, url, others, date::now())
    }

    fn sign_at(
        &self,
        method: &str,
        url: &str,
        others: &[(&'static str, &str)],
        seconds: u64,
    ) -> Result<Vec<(&'static str, String)>> {
        let wrong = || Error::new(ErrorKind::InvalidInput, format!("not a URL: {url}"));
        let (_, rest) = url.split_once("://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').ok_or_else(wrong)?;
        let time = date::compact(seconds);
        let day = time.get(..8).unwrap_or_default();
        let mut headers = vec![
            ("host", host.to_owned()),
            ("x-amz-content-sha256", NOTHING.to_owned()),
            ("x-amz-date", time.clone()),
        ];
        headers.extend(self.token.clone().map(|token| ("x-amz-security-token", token)));
        // All headers of this kind must be signed.
        let kind = others.iter().filter(|(name, _)| name.starts_with("x-amz-"));
        let sent = headers.len();
        headers.extend(kind.map(|(name, value)| (*name, (*value).to_owned())));
        let own: Vec<&str> = headers.iter().take(sent).skip(1).map(|(name, _)| *name).collect();
        headers.sort();
        let listed: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let names = headers.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let request = format!("{method}\n/{path}\n\n{listed}\n{names}\n{NOTHING}");
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hash(&request));
        let mut key = keyed(format!("AWS4{}", self.secret).as_bytes(), day);
        for part in [self.region.as_str(), "s3", "aws4_request"] {
            key = keyed(key.as_ref(), part);
        }
        let signature = hex(keyed(key.as_ref(), &text).as_ref());
        let credential = format!("{}/{scope}", self.access);
        headers.retain(|(name, _)| own.contains(name));
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}");
        headers.push(("authorization", authorization));
        Ok(headers)
    }
}

/// Maximum bytes read of an error answer.
const LONGEST: u64 = 16 << 10;

/// The error answer of an S3 server.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// Error code: `NoSuchKey`.
    pub code: String,
    /// Message for people.
    pub message: String,
    /// The region of the bucket, if the request went to another one.
    pub region: Option<String>,
}

impl Refusal {
    /// Reads an error answer; returns `None` for other content.
    pub fn read(from: impl Read) -> Option<Self> {
        let mut bytes = Vec::new();
        // A truncated answer may still contain the code.
        let _ = from.take(LONGEST).read_to_end(&mut bytes);
        Self::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> Option<Self> {
        let (_, inside) = text.split_once("<Error>")?;
        let field = |name: &str| {
            let (_, rest) = inside.split_once(&format!("<{name}>"))?;
            rest.split_once(&format!("</{name}>")).map(|(value, _)| plain(value))
        };
        let message = field("Message").unwrap_or_default();
        Some(Self { code: field("Code")?, message, region: field("Region") })
    }

    /// Whether the same request may succeed later, whatever its status.
    pub fn passes(&self) -> bool {
        ["InternalError", "OperationAborted", "RequestTimeout", "ServiceUnavailable", "SlowDown"]
            .contains(&self.code.as_str())
    }
}

/// Returns text without XML tags, on one line.
fn plain(text: &str) -> String {
    let marks = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    said(&marks.iter().fold(text.to_owned(), |text, (mark, letter)| text.replace(mark, letter)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused() {
        let text = "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>No &lt;a&gt;\n &amp;amp; b.</Message>\
                    <Key>x</Key></Error>";
        let found = Refusal::parse(text).unwrap();
        assert_eq!((found.code.as_str(), found.message.as_str()), ("NoSuchKey", "No <a> &amp; b."));
        assert!(!found.passes() && found.region.is_none());
        let text = "<Error><Code>RequestTimeout</Code><Region>eu-west-1</Region></Error>";
        let found = Refusal::read(text.as_bytes()).unwrap();
        assert_eq!((found.passes(), found.region.as_deref()), (true, Some("eu-west-1")));
        for other in
            ["", "<html>404</html>", "<Error>", "<Error><Message>x</Message></Error>", "<Error><Code>x"]
        {
            assert_eq!(Refusal::parse(other), None, "{other}");
        }
    }

    #[test]
    fn signs_as_botocore_does() {
        let mut keys = Keys {
            access: "AKIDEXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG".to_owned(),
            token: None,
            region: "eu-west-1".to_owned(),
        };
        let signature = |keys: &Keys| {
            let headers = keys
                .sign_at("GET", "https://s3.host:9000/bucket/a%20b/c%2B1.root", &[], 1_369_357_323)
                .unwrap();
            let (name, value) = headers.last().unwrap();
            assert_eq!(*name, "authorization");
            value.rsplit('=').next().unwrap().to_owned()
        };
        assert_eq!(signature(&keys), "e1be45b590a749e9d167aa717c0711bc21f3e15cb9ecf6d56804c080b3d9980c");
        keys.token = Some("TOKEN/x==".to_owned());
        assert_eq!(signature(&keys), "5de4d295e67ce59feb1db2497252a5a2c7607424bd6dec4b2719b9bdc5f3163a");
        assert!(!format!("{keys:?}").contains("MDENG"));
    }
}
