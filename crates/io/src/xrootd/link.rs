//! A connection, with or without TLS. One thread reads while others write.

#![allow(clippy::disallowed_methods, reason = "the one place where sockets of this protocol are opened")]

use crate::lock;
use crate::x509;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A connection to a server.
pub struct Link {
    socket: TcpStream,
    /// The TLS state, if any. The lock also keeps requests from mixing.
    tls: Mutex<Option<Box<ClientConnection>>>,
    encrypted: bool,
}

/// Returns the time left until `deadline`; an error if there is none.
pub fn left(deadline: Instant) -> Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(Error::new(ErrorKind::TimedOut, "out of time")) } else { Ok(left) }
}

/// Resolves a host. The system call has no time limit and therefore runs in a thread of its own.
fn resolve(host: &str, port: u16, deadline: Instant) -> Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(plain(address), port)]);
    }
    let (send, receive) = mpsc::channel();
    let asked = host.to_owned();
    thread::Builder::new().name("sapwood-resolve".to_owned()).spawn(move || {
        // The caller may no longer be waiting.
        let _ = send.send((asked.as_str(), port).to_socket_addrs().map(Iterator::collect));
    })?;
    let found: Result<Vec<_>> = receive.recv_timeout(left(deadline)?).unwrap_or_else(|_| {
        Err(Error::new(ErrorKind::TimedOut, format!("looking up the address of {host} took too long")))
    });
    found.map_err(|e| Error::new(e.kind(), format!("no address found for {host}: {e}")))
}

/// Converts an IPv4 address that a server wrote as IPv6: `[::127.0.0.1]`.
fn plain(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if v6 != Ipv6Addr::LOCALHOST && v6 != Ipv6Addr::UNSPECIFIED => {
            v6.to_ipv4().map_or(address, IpAddr::V4)
        }
        _ => address,
    }
}

impl Link {
    pub fn connect(host: &str, port: u16, deadline: Instant) -> Result<Self> {
        let addresses = resolve(host, port, deadline)?;
        let mut trouble = Error::new(ErrorKind::NotConnected, format!("no address found for {host}"));
        for (at, address) in addresses.iter().enumerate() {
            let share = left(deadline)? / (addresses.len() - at) as u32;
            match TcpStream::connect_timeout(address, share.max(Duration::from_millis(1))) {
                Ok(socket) => {
                    socket.set_nodelay(true)?;
                    return Ok(Self { socket, tls: Mutex::new(None), encrypted: false });
                }
                Err(error) => trouble = error,
            }
        }
        Err(trouble)
    }

    /// Starts TLS; the server's certificate must be for `host`.
    pub fn encrypt(&mut self, host: &str, deadline: Instant) -> Result<()> {
        let failed =
            |what: String| Error::new(ErrorKind::PermissionDenied, format!("TLS with {host}: {what}"));
        let name = match host.parse::<IpAddr>() {
            Ok(address) => ServerName::IpAddress(plain(address).into()),
            Err(_) => ServerName::try_from(host.to_owned()).map_err(|e| failed(e.to_string()))?,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| failed(e.to_string()))?
            .with_root_certificates(authorities().map_err(failed)?)
            .with_no_client_auth();
        let mut tls = ClientConnection::new(Arc::new(config), name).map_err(|e| failed(e.to_string()))?;
        let io = |e: Error| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => late(e),
            kind => Error::new(kind, format!("TLS with {host}: {e}")),
        };
        // Step by step, because a server may send its part byte by byte.
        while tls.is_handshaking() || tls.wants_write() {
            self.limit(Some(left(deadline)?))?;
            if tls.wants_write() {
                tls.write_tls(&mut self.socket).map_err(io)?;
                continue;
            }
            closed(tls.read_tls(&mut self.socket).map_err(io)?)?;
            if let Err(error) = tls.process_new_packets() {
                // Tell the server why.
                let _ = tls.write_tls(&mut self.socket);
                return Err(failed(error.to_string()));
            }
        }
        self.tls = Mutex::new(Some(Box::new(tls)));
        self.encrypted = true;
        Ok(())
    }

    pub fn encrypted(&self) -> bool {
        self.encrypted
    }

    fn tls(&self) -> MutexGuard<'_, Option<Box<ClientConnection>>> {
        lock(&self.tls)
    }

    /// Sets the time limit of a read or a write.
    pub fn limit(&self, most: Option<Duration>) -> Result<()> {
        self.socket.set_read_timeout(most)?;
        self.socket.set_write_timeout(most)
    }

    pub fn send(&self, bytes: &[u8]) -> Result<()> {
        let mut socket = &self.socket;
        let mut guard = self.tls();
        let Some(tls) = guard.as_mut() else { return socket.write_all(bytes).map_err(late) };
        // No more at a time than the buffer holds.
        for piece in bytes.chunks(16 << 10) {
            tls.writer().write_all(piece)?;
            while tls.wants_write() {
                tls.write_tls(&mut socket).map_err(late)?;
            }
        }
        Ok(())
    }

    /// Returns some bytes as soon as there are any; for the reading thread only.
    pub fn receive(&self, out: &mut [u8]) -> Result<usize> {
        let mut socket = &self.socket;
        if !self.encrypted {
            return closed(socket.read(out).map_err(late)?);
        }
        loop {
            if let Some(tls) = self.tls().as_mut() {
                match tls.reader().read(out) {
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    other => return closed(other?),
                }
            }
            // Others may write during this wait.
            closed(socket.peek(&mut [0]).map_err(late)?)?;
            if let Some(tls) = self.tls().as_mut() {
                tls.read_tls(&mut socket).map_err(late)?;
                let broken = |e: rustls::Error| Error::new(ErrorKind::InvalidData, format!("TLS: {e}"));
                tls.process_new_packets().map_err(broken)?;
                while tls.wants_write() {
                    tls.write_tls(&mut socket).map_err(late)?;
                }
            }
        }
    }

    /// The local address, as servers see it.
    pub fn own_address(&self) -> Result<String> {
        let own = self.socket.local_addr()?;
        Ok(match own.ip() {
            IpAddr::V4(v4) => format!("[::ffff:{v4}]:{}", own.port()),
            IpAddr::V6(v6) => format!("[{v6}]:{}", own.port()),
        })
    }

    /// The address of the peer.
    pub fn peer_address(&self) -> Result<String> {
        Ok(self.socket.peer_addr()?.ip().to_string())
    }

    /// Closes the connection; the reading thread is notified.
    pub fn shut(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn closed(n: usize) -> Result<usize> {
    if n == 0 {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
    }
    Ok(n)
}

/// Converts a socket's time-out to a single error kind.
fn late(error: Error) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::new(ErrorKind::TimedOut, "timeout"),
        _ => error,
    }
}

/// Returns the trusted authorities.
fn authorities() -> std::result::Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(x509::authorities());
    if store.is_empty() {
        return Err(
            "no certificates of certificate authorities found: set X509_CERT_DIR or SSL_CERT_FILE".to_owned()
        );
    }
    Ok(store)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_version_4_in_disguise() {
        for (text, want) in [
            ("::127.0.0.1", "127.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::1", "::1"),
            ("fe80::1", "fe80::1"),
            ("1.2.3.4", "1.2.3.4"),
        ] {
            assert_eq!(plain(text.parse().unwrap()).to_string(), want);
        }
    }
}
