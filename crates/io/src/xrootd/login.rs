//! The initial exchange with a server: protocol, TLS, login and authentication.

use super::auth::{self, Identity};
use super::link::{Link, left};
use super::session::{Ask, Endpoint, MOST_BODY};
use super::wire::{self, Answer, Head, WireReader, kind, status};
use crate::remote::Fault;
use std::io::{Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// Protocol version, 5.2.0.
const VERSION: u32 = 0x520;
/// Flags of `kXR_protocol`: TLS is supported; TLS is wanted.
const ABLE_TLS: u8 = 2;
const WANT_TLS: u8 = 4;
/// Properties of a server: it stores files; it caches files, or is a proxy; it returns pages with checksums; it
/// supports TLS; it requires TLS from now on, or for some of the following steps.
pub(super) const IS_SERVER: u32 = 1;
pub(super) const STANDS_BETWEEN: u32 = 0x80 | 0x200;
pub(super) const HAS_PAGES: u32 = 0x0020_0000;
const HAS_TLS: u32 = 0x8000_0000;
const GOES_TLS: u32 = 0x4000_0000;
const NEEDS_TLS: u32 = GOES_TLS | 0x0800_0000 | 0x0400_0000 | 0x0100_0000;
/// Supported: full names, redirections of reads, delayed answers, and protocol 5.
const ABILITY: u8 = 1 | 4;
const CAPABILITY: u8 = 128 | 5;

/// The outcome of a login attempt.
pub(super) enum Outcome {
    In {
        link: Link,
        flags: u32,
        latency: Duration,
    },
    WantsTls,
    /// The server requires another authentication before any request.
    TooBold,
}

/// Streams of the login, and the first one after it.
const PROTOCOL: u16 = 1;
const LOGIN: u16 = 2;
const AUTH: u16 = 3;
pub(super) const FIRST_STREAM: u16 = 4;

/// The initial exchange with a server, one request after the other.
pub(super) struct Login<'a> {
    link: Link,
    deadline: Instant,
    who: &'a Identity,
}

impl<'a> Login<'a> {
    /// Logs in. Requests sent together with the login use the user name of the system; servers without authentication
    /// ignore it.
    pub(super) fn perform(
        link: Link,
        endpoint: &'a Endpoint,
        tls: bool,
        bold: &[&Ask],
        deadline: Instant,
    ) -> std::result::Result<Outcome, Fault> {
        let mut login = Self { link, deadline, who: &endpoint.who };
        let flags = if tls { ABLE_TLS | WANT_TLS } else { 0 };
        // Version, flags, and the announcement of a login.
        let mut parameters = VERSION.to_be_bytes().to_vec();
        parameters.extend_from_slice(&[flags, 3]);
        let mut first = wire::HANDSHAKE.to_vec();
        first.extend_from_slice(&wire::request(PROTOCOL, kind::PROTOCOL, &parameters, &[]));
        let mut greeting = Self::greeting(&endpoint.who, &endpoint.token);
        if !bold.is_empty() {
            let (name, credentials) = auth::unix(&endpoint.who);
            greeting.extend_from_slice(&Self::credentials(name, &credentials));
            for (number, ask) in (FIRST_STREAM..).zip(bold) {
                greeting.extend_from_slice(&ask.bytes(number));
            }
        }
        if !tls {
            // No exchange in between: send everything at once.
            first.extend_from_slice(&greeting);
        }
        let began = Instant::now();
        login.send(&first)?;
        login.body(0)?;
        let latency = began.elapsed();
        let about = login.body(PROTOCOL)?;
        let mut about = WireReader(&about);
        let _version = about.u32().map_err(Fault::passing)?;
        // Old servers report only their version.
        let flags = about.u32().unwrap_or(IS_SERVER);
        if tls {
            if flags & GOES_TLS == 0 {
                return Ok(Outcome::WantsTls);
            }
            login.link.encrypt(&endpoint.host, deadline).map_err(|error| match error.kind() {
                ErrorKind::PermissionDenied => Fault::lasting(error),
                _ => Fault::passing(error),
            })?;
            login.send(&greeting)?;
        } else if flags & NEEDS_TLS != 0 {
            return Ok(Outcome::WantsTls);
        }
        let said = match login.body(LOGIN) {
            Err(fault)
                if !tls && flags & HAS_TLS != 0 && fault.error.kind() == ErrorKind::PermissionDenied =>
            {
                return Ok(Outcome::WantsTls);
            }
            said => said?,
        };
        let offered = String::from_utf8_lossy(said.get(16..).unwrap_or_default());
        if !bold.is_empty() {
            let known = login.reply(AUTH).is_ok();
            if offered.contains("&P=") && !(known && login.prefers_unix(&offered)?) {
                return Ok(Outcome::TooBold);
            }
        } else if !login.authenticate(&offered, flags & HAS_TLS != 0)? {
            return Ok(Outcome::WantsTls);
        }
        Ok(Outcome::In { link: login.link, flags, latency })
    }

    /// Whether the first usable method among the offers is the user's name.
    fn prefers_unix(&self, offered: &str) -> std::result::Result<bool, Fault> {
        let address = self.link.own_address().map_err(Fault::passing)?;
        let tls = self.link.encrypted();
        let usable = |offer: &&auth::Offer| offer.credentials(self.who, &address, tls).is_ok();
        Ok(auth::offers(offered).iter().find(usable).is_some_and(|offer| offer.name == auth::UNIX))
    }

    /// Builds `kXR_auth`: an authentication method and its credentials.
    fn credentials(name: &str, credentials: &[u8]) -> Vec<u8> {
        let mut parameters = vec![0; 12];
        parameters.extend(name.bytes().chain([0; 4]).take(4));
        wire::request(AUTH, kind::AUTH, &parameters, credentials)
    }

    /// Builds `kXR_login`: process, user, capabilities.
    fn greeting(who: &Identity, token: &str) -> Vec<u8> {
        let mut parameters = std::process::id().to_be_bytes().to_vec();
        parameters.extend(who.user.bytes().filter(u8::is_ascii_graphic).take(8));
        parameters.resize(12, 0);
        parameters.extend_from_slice(&[0, ABILITY, CAPABILITY, 0]);
        wire::request(LOGIN, kind::LOGIN, &parameters, token.as_bytes())
    }

    /// Authenticates with the first offered method that works; returns false if TLS is needed first.
    fn authenticate(&self, offered: &str, has_tls: bool) -> std::result::Result<bool, Fault> {
        let denied = |message: String| Fault::lasting(Error::new(ErrorKind::PermissionDenied, message));
        let offers = auth::offers(offered);
        if !offered.contains("&P=") {
            return Ok(true);
        }
        let address = self.link.own_address().map_err(Fault::passing)?;
        let mut trouble = Vec::new();
        let tls = self.link.encrypted();
        for offer in &offers {
            let name = &offer.name;
            if name == "ztn" && !tls && has_tls && matches!(auth::token(self.who.number), Ok(Some(_))) {
                return Ok(false);
            }
            let credentials = match offer.credentials(self.who, &address, tls) {
                Ok(credentials) => credentials,
                Err(why) => {
                    trouble.push(format!("{name}: {why}"));
                    continue;
                }
            };
            self.send(&Self::credentials(name, &credentials))?;
            match self.reply(AUTH) {
                Ok((status::OK, _)) => return Ok(true),
                Ok(_) => {
                    trouble.push(format!("{name}: the server requests more credentials than are available"));
                }
                Err(fault) if !fault.again => trouble.push(format!("{name}: {}", fault.error)),
                Err(fault) => return Err(fault),
            }
        }
        if offers.is_empty() {
            trouble.push(format!("XrdSecPROTOCOL excludes all logins that the server offers ({offered})"));
        }
        Err(denied(format!("login refused: {}", trouble.join("; "))))
    }

    fn send(&self, bytes: &[u8]) -> std::result::Result<(), Fault> {
        let limit = |d| self.link.limit(Some(d));
        left(self.deadline).and_then(limit).and_then(|()| self.link.send(bytes)).map_err(Fault::passing)
    }

    fn exactly(&self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut have = 0;
        while have < length {
            self.link.limit(Some(left(self.deadline)?))?;
            have += self.link.receive(bytes.get_mut(have..).unwrap_or_default())?;
        }
        Ok(bytes)
    }

    /// Returns the answer to a request: success, or a request for more credentials.
    fn reply(&self, stream: u16) -> std::result::Result<(u16, Vec<u8>), Fault> {
        loop {
            let head = self.exactly(Head::SIZE).and_then(|head| Head::parse(&mut WireReader(&head)));
            let strange = || Error::new(ErrorKind::InvalidData, "this is not an XRootD server");
            let head = head.map_err(|error| match error.kind() {
                ErrorKind::InvalidData => Fault::lasting(strange()),
                _ => Fault::passing(error),
            })?;
            if head.length as usize > MOST_BODY {
                return Err(Fault::lasting(strange()));
            }
            let body = self.exactly(head.length as usize).map_err(Fault::passing)?;
            if head.stream != stream {
                continue;
            }
            if head.status == status::OK {
                return Ok((head.status, body));
            }
            return match Answer::parse(head.status, &body).map_err(Fault::passing)? {
                Answer::Refused(no) if no.lasting() => Err(Fault::lasting(no)),
                Answer::Refused(no) => Err(Fault::passing(no)),
                Answer::More(_) => Ok((head.status, body)),
                Answer::Wait(_, why) => {
                    Err(Fault::passing(Error::other(format!("the server asks to wait: {why}"))))
                }
                _ => Err(Fault::passing(Error::other("the server sent an unexpected answer to the login"))),
            };
        }
    }

    fn body(&self, stream: u16) -> std::result::Result<Vec<u8>, Fault> {
        self.reply(stream).map(|(_, body)| body)
    }
}
