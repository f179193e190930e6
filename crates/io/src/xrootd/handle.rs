//! An open file on a server: opening it and detecting changes.

use super::pages::Pages;
use super::session::{Ask, Endpoint, SMALL, Session};
use super::wire::{Address, Answer, Stat, Target, WireReader, kind};
use super::{History, Identity, lock, small};
use crate::remote::{Fault, Version};
use std::cell::Cell;
use std::io::{Error, ErrorKind};
use std::iter;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Options of `kXR_open`: open for reading, return the file status, and ignore cached locations.
const OPEN: u16 = 0x10 | 0x400;
const REFRESH: u16 = 0x80;

/// An open file.
pub struct Handle {
    pub session: Arc<Session>,
    pub id: [u8; 4],
    /// The requested path, with everything after it.
    pub path: String,
    pub watch: Mutex<Watch>,
    pub size: u64,
    pub version: Version,
    /// Whether a redirector named the server.
    pub redirected: bool,
    pub process: u32,
    /// The start of the file and the time, if it was requested together with opening.
    pub start: Option<(Instant, Vec<u8>)>,
}

/// How changes of an open file are detected: each read also requests the file status.
#[derive(Clone, Debug, PartialEq)]
pub enum Watch {
    /// By the path, so that a replacement by another file is noticed, too. `None` before the first answer.
    Path(Option<Stat>),
    /// By the handle, if a request by path would be redirected or is not answered.
    Handle(Option<Stat>),
    /// Not at all: neither is answered.
    Not,
}

impl Watch {
    /// Takes the answer to a request made in state `asked`; returns a description of any change.
    pub fn compare(&mut self, asked: &Self, now: Option<Stat>) -> Option<String> {
        if std::mem::discriminant(self) != std::mem::discriminant(asked) {
            return None;
        }
        let Some(now) = now else {
            *self = match self {
                Self::Path(None) => Self::Handle(None),
                Self::Handle(None) => Self::Not,
                // An earlier success will repeat: the path may be missing only temporarily.
                _ => return None,
            };
            return None;
        };
        let (Self::Path(before) | Self::Handle(before)) = self else { return None };
        let before = before.get_or_insert_with(|| now.clone());
        if now.size != before.size {
            Some(format!("it had {} bytes, now it has {}", before.size, now.size))
        } else if now != *before {
            Some("it is another file, or it was written to".to_owned())
        } else {
            None
        }
    }
}

impl Handle {
    /// Returns the request for the file status, if the server answers it.
    pub fn look(&self, watch: &Watch) -> Option<Ask> {
        let mut parameters = vec![0; 12];
        match watch {
            Watch::Path(_) => Some(ask(kind::STAT, &[], self.path.as_bytes(), SMALL)),
            Watch::Handle(_) => {
                parameters.extend_from_slice(&self.id);
                Some(ask(kind::STAT, &parameters, &[], SMALL))
            }
            Watch::Not => None,
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.process == std::process::id() && self.session.over().is_none() {
            // The answer is not needed.
            self.session.note_open(self.id, false);
            let _ = self.session.ask(ask(kind::CLOSE, &self.id, &[], SMALL));
        }
    }
}

pub fn ask(kind: u16, parameters: &[u8], body: &[u8], most: u64) -> Ask {
    Ask { kind, parameters: parameters.to_vec(), body: body.to_vec(), most }
}

/// Returns the request for one range of an open file, in pages with checksums.
pub fn ask_pages(id: [u8; 4], offset: u64, length: u64) -> Ask {
    Ask { kind: kind::PGREAD, most: Pages::most(length), ..ask_range(id, offset, length) }
}

/// Returns the request for one range of an open file.
pub fn ask_range(id: [u8; 4], offset: u64, length: u64) -> Ask {
    let parameters = [&id[..], &offset.to_be_bytes(), &(length as u32).to_be_bytes()].concat();
    ask(kind::READ, &parameters, &[], length)
}

/// Location from which a file is requested.
#[derive(Clone)]
pub struct Stop {
    pub endpoint: Endpoint,
    pub path: String,
    pub opaque: String,
    pub redirected: bool,
}

impl Stop {
    pub fn first(address: &Address, who: &Identity) -> Self {
        let user = address.user.clone().unwrap_or_else(|| who.user.clone());
        Self {
            endpoint: Endpoint {
                host: address.host.clone(),
                port: address.port,
                tls: address.tls,
                who: Identity { user, ..who.clone() },
                token: String::new(),
            },
            path: address.path.clone(),
            opaque: address.opaque.clone(),
            redirected: false,
        }
    }

    pub fn follow(&self, to: Target) -> Self {
        Self {
            endpoint: Endpoint {
                host: to.host,
                port: to.port,
                tls: self.endpoint.tls || to.tls,
                who: self.endpoint.who.clone(),
                token: to.token,
            },
            path: to.path.unwrap_or_else(|| self.path.clone()),
            opaque: joined(&[&self.opaque, &to.opaque]),
            redirected: true,
        }
    }

    /// Returns the path with everything after it.
    pub fn path_with(&self, more: &[&str]) -> String {
        let opaque = joined(&[&[self.opaque.as_str()], more].concat());
        if opaque.is_empty() { self.path.clone() } else { format!("{}?{opaque}", self.path) }
    }

    /// Opens the file on one server, and requests this many bytes of its start if this costs no extra time.
    pub fn open(
        &self,
        refresh: bool,
        naming: bool,
        history: &mut History,
        first: u64,
        deadline: Instant,
    ) -> std::result::Result<(Answer, Option<Handle>), Fault> {
        // Leave time for another server if this one does not answer.
        let patience =
            deadline.saturating_duration_since(Instant::now()) / if self.redirected { 2 } else { 1 };
        let until = Instant::now() + patience;
        let server = self.endpoint.server();
        let named = |error: Error| Error::new(error.kind(), format!("{server}: {error}"));
        let failed = |error: Error| Fault::passing(named(error));
        let tried = history.tried.iter().filter(|_| naming);
        let (hosts, reasons): (Vec<_>, Vec<_>) = tried.map(|t| (t.host.as_str(), t.reason)).unzip();
        let tried = match hosts.as_slice() {
            [] => String::new(),
            hosts => format!("tried={}&triedrc={}", hosts.join(","), reasons.join(",")),
        };
        let path = self.path_with(&[&tried]);
        let options = if refresh && !self.redirected { OPEN | REFRESH } else { OPEN };
        let mut parameters = vec![0, 0];
        parameters.extend_from_slice(&options.to_be_bytes());
        let guess = Cell::new([0; 4]);
        let asks = |id| {
            guess.set(id);
            let start = (first > 0).then(|| ask_range(id, 0, first));
            let open = ask(kind::OPEN, &parameters, path.as_bytes(), SMALL);
            iter::once(open).chain(start).collect()
        };
        let began = Instant::now();
        let (session, begun) = Session::asked(&self.endpoint, &asks, until)?;
        history.stumbled.extend(lock(&session.stumbled).take().filter(|_| first > 0).map(named));
        let mut begun = begun.into_iter();
        let opening = begun.next().ok_or_else(|| failed(Error::other("the request is empty")))?;
        let (answer, body) = small(opening, until, deadline).map_err(failed)?;
        if answer != Answer::Done {
            return Ok((answer, None));
        }
        let mut from = WireReader(&body);
        let mut id = [0; 4];
        id.copy_from_slice(from.take(4).map_err(failed)?);
        let watch = if session.stands_between { Watch::Handle(None) } else { Watch::Path(None) };
        let mut handle = Handle {
            session: session.clone(),
            id,
            path: self.path_with(&[]),
            watch: Mutex::new(watch),
            size: 0,
            version: Version { of: String::new(), tag: String::new() },
            redirected: self.redirected,
            process: std::process::id(),
            start: None,
        };
        session.note_open(id, true);
        if let Some(reading) = begun.next().filter(|_| id == guess.get())
            && let (Answer::Done, start) = small(reading, until, deadline).map_err(failed)?
        {
            handle.start = Some((began, start));
        }
        // Compression (which no server uses) and its type; then the file status.
        let said = from.take(8).ok().and_then(|_| Stat::parse(&from.text()));
        let found = if said.is_some() {
            said
        } else {
            let mut parameters = vec![0; 12];
            parameters.extend_from_slice(&id);
            let asked = session.ask(ask(kind::STAT, &parameters, &[], SMALL)).map_err(failed)?;
            match small(asked, until, deadline).map_err(failed)? {
                (Answer::Done, body) => Stat::parse(&WireReader(&body).text()),
                (answer, _) => return Ok((answer, None)),
            }
        };
        let strange = || {
            Fault::lasting(Error::new(
                ErrorKind::InvalidData,
                format!("{server}: the server did not report the size of the file"),
            ))
        };
        let Stat { id, size, changed } = found.ok_or_else(strange)?;
        // Copies on other servers differ in ID and modification time; so do the servers behind one host name. A proxy
        // reports the IDs of the servers behind it, or its own.
        handle.version = Version {
            of: format!("{server} {} {}", session.peer, self.path),
            tag: if session.stands_between { changed.to_string() } else { format!("{id} {changed}") },
        };
        handle.size = size;
        Ok((Answer::Done, Some(handle)))
    }
}

/// Joins parts of the query after the question mark.
pub fn joined(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| part.trim_matches('&')).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("&")
}
