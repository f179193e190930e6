//! X.509: trusted authorities, and certificates of users, such as the proxies of the grid.

#![allow(clippy::disallowed_methods, reason = "certificates lie in files of their own")]

use crate::lock;
use crate::process::PerProcess;
use rustls::SignatureAlgorithm;
use rustls::crypto::{CryptoProvider, KeyProvider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{Signer, SigningKey};
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use ureq::tls::{Certificate, ClientCert, PemItem, parse_pem};

/// Trusted authorities: those of the system, and those of the grid's folder, if there is one.
pub fn authorities() -> Vec<CertificateDer<'static>> {
    let mut found = rustls_native_certs::load_native_certs().certs;
    if let Some(folder) = grid_folder() {
        found.extend(rustls_native_certs::load_certs_from_paths(None, Some(&folder)).certs);
    }
    found
}

/// The folder with the grid's authorities: the one that the user names, or the usual one if it exists.
pub fn grid_folder() -> Option<PathBuf> {
    let usual = Path::new("/etc/grid-security/certificates");
    std::env::var_os("X509_CERT_DIR").map(PathBuf::from).or_else(|| usual.is_dir().then(|| usual.to_owned()))
}

/// Reads a certificate, its chain and its private key from a file in PEM format.
pub fn read(path: &Path) -> Result<ClientCert> {
    let failed = |what: String| Error::new(ErrorKind::InvalidInput, format!("{}: {what}", path.display()));
    let text = std::fs::read(path).map_err(|e| Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    let (mut chain, mut key) = (Vec::new(), None);
    for item in parse_pem(&text) {
        match item.map_err(|e| failed(e.to_string()))? {
            PemItem::Certificate(one) => chain.push(one),
            PemItem::PrivateKey(one) => key = Some(one),
            _ => {}
        }
    }
    let key = key.ok_or_else(|| failed("no unencrypted private key".to_owned()))?;
    if chain.is_empty() {
        return Err(failed("no certificate".to_owned()));
    }
    let der = PrivateKeyDer::try_from(key.der().to_vec()).map_err(|e| failed(e.to_owned()))?;
    provider().key_provider.load_private_key(der).map_err(|e| failed(e.to_string()))?;
    Ok(ClientCert::new_with_certs(&chain, key))
}

/// Authorities in the form that the HTTP client takes.
type Roots = Arc<Vec<Certificate<'static>>>;
/// Values of the environment variables that name their files.
type Variables = Vec<Option<OsString>>;

/// Returns the authorities for the HTTP client. Those of the last call are kept, as reading them takes milliseconds.
pub fn roots() -> Roots {
    static LAST: PerProcess<Mutex<Option<(Variables, Roots)>>> = PerProcess::empty();
    let places = ["X509_CERT_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR"].map(std::env::var_os).to_vec();
    let mut last = lock(LAST.get(|_| Mutex::default()));
    if let Some((_, roots)) = last.as_ref().filter(|(of, _)| *of == places) {
        return Arc::clone(roots);
    }
    let every = authorities();
    let roots: Roots = Arc::new(every.iter().map(|one| Certificate::from_der(one).to_owned()).collect());
    *last = Some((places, Arc::clone(&roots)));
    roots
}

/// The cryptography for connections with a certificate of the user.
pub fn provider() -> CryptoProvider {
    CryptoProvider { key_provider: &Keys, ..rustls::crypto::ring::default_provider() }
}

/// Loads keys that are not compared with their certificate: a proxy has an extension that rustls refuses to parse. The
/// server checks the signature.
#[derive(Debug)]
struct Keys;

impl KeyProvider for Keys {
    fn load_private_key(
        &self,
        key: PrivateKeyDer<'static>,
    ) -> std::result::Result<Arc<dyn SigningKey>, rustls::Error> {
        Ok(Arc::new(Key(rustls::crypto::ring::default_provider().key_provider.load_private_key(key)?)))
    }
}

#[derive(Debug)]
struct Key(Arc<dyn SigningKey>);

impl SigningKey for Key {
    fn choose_scheme(&self, offered: &[rustls::SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.0.choose_scheme(offered)
    }
    fn algorithm(&self) -> SignatureAlgorithm {
        self.0.algorithm()
    }
}
