//! Signing of requests to S3 (signature version 4), as AWS documents it.

use ring::{digest, hmac};
use std::io::{Error, ErrorKind, Result};
use std::time::{SystemTime, UNIX_EPOCH};

/// Who asks, and where.
#[derive(Clone)]
pub struct Keys {
    /// The public half.
    pub access: String,
    /// The secret half.
    pub secret: String,
    /// Of a session.
    pub token: Option<String>,
    /// Of the server.
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

/// Seconds since 1970 as `20130524T000000Z`.
fn date(seconds: u64) -> String {
    let (days, rest) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days to civil date, in years that begin in March.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day = shifted.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (y, m, d) = (
        year + era * 400 + i64::from(month >= 10),
        if month < 10 { month + 3 } else { month - 9 },
        day - (153 * month + 2) / 5 + 1,
    );
    format!("{y:04}{m:02}{d:02}T{:02}{:02}{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// The hash of no bytes.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

impl Keys {
    /// The headers that sign a request for `url` now, which has others already.
    pub fn sign(
        &self,
        method: &str,
        url: &str,
        others: &[(&'static str, &str)],
    ) -> Result<Vec<(&'static str, String)>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        self.sign_at(method, url, others, now)
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
        let time = date(seconds);
        let day = time.get(..8).unwrap_or_default();
        let mut headers = vec![
            ("host", host.to_owned()),
            ("x-amz-content-sha256", NOTHING.to_owned()),
            ("x-amz-date", time.clone()),
        ];
        headers.extend(self.token.clone().map(|token| ("x-amz-security-token", token)));
        // All of this kind must be signed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(date(0), "19700101T000000Z");
        assert_eq!(date(951_782_399), "20000228T235959Z");
        assert_eq!(date(951_782_400), "20000229T000000Z");
        assert_eq!(date(1_369_353_600), "20130524T000000Z");
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
