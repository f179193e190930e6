//! `XRootD`: `root://`, and `roots://` with TLS.
//!
//! A client of our own: two copies of the `XRootD` project's client in one process crash, and ROOT brings one. Requests to
//! one server share a connection, each on a stream of its own. A file is found by way of a redirector, if there is one; a
//! server that fails is named to it when another is asked for.

mod auth;
mod link;
mod list;
mod session;
mod wire;

pub use auth::Identity;
pub use list::list;

use crate::ledger::Ledger;
use crate::plan::Range;
use crate::remote::{END, Fault, Opening, Options, Remote, Transport};
use crate::source::Source;
use crate::trace::Cause;
use session::{Ask, Place, SMALL, Session, Stream};
use std::cell::Cell;
use std::io::{Error, ErrorKind, Result};
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};
use wire::{Address, Answer, ELEMENT, Reader, Refusal, Target, kind};

/// What is read first of the start.
const FIRST: u64 = 64 << 10;
/// Bytes of a read of one range.
const LONGEST: u64 = 1 << 30;
/// Redirections from one server to the next, until a file must be open.
const MOST_HOPS: usize = 16;
/// Options of `kXR_open`: for reading, with what the file is; and not by what was remembered of it.
const OPEN: u16 = 0x10 | 0x400;
const REFRESH: u16 = 0x80;
/// How often a server is not asked that failed before, although it is named again; and the pause before another is asked for.
const PASSED_OVER: usize = 4;
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// How long nothing is tried again for which time ran out.
const MOMENT: Duration = Duration::from_secs(1);
/// The longest pause before the same is asked for again, whatever a server says.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Whether a URL is for this module.
pub fn takes(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| wire::encrypted(scheme).is_some())
}

/// Opens a file by its URL; by several, if they lead to the same bytes.
pub fn open(urls: &[String], who: &Identity, options: &Options) -> Result<Arc<dyn Source>> {
    let addresses = urls.iter().map(|url| address_of(url));
    let mut file = Xrootd {
        name: urls.first().cloned().unwrap_or_default(),
        addresses: addresses.collect::<Result<_>>()?,
        who: who.clone(),
        options: options.clone(),
        size: 0,
        most_ranges: AtomicUsize::new(session::Limits::default().elements),
        replica: AtomicUsize::new(0),
        state: RwLock::new((std::process::id(), Arc::default())),
    };
    let ledger = Ledger::default();
    let start = Instant::now();
    let mut attempt = 0;
    loop {
        let began = Instant::now();
        let deadline = began + options.timeout;
        let fault = match file.look(deadline) {
            Ok((opening, latency)) => {
                let remote = Remote::new(Arc::new(file), options.clone(), vec![opening], ledger);
                remote.answered_in(latency);
                return Ok(Arc::new(remote));
            }
            Err(fault) => fault,
        };
        let replica = file.replica();
        let again = fault.again && attempt < options.retries && start.elapsed() < options.timeout;
        let first = [Range { offset: 0, length: FIRST }];
        ledger.ended(&file.name, &first, 0, Cause::Header, began);
        ledger.note(&first, attempt + 1, again, &fault.error);
        if !again && !file.leave_replica(replica) {
            let url = urls.get(replica).map_or("", String::as_str);
            return Err(Error::new(fault.error.kind(), format!("{url}: {}", fault.error)));
        }
        attempt = if again { attempt + 1 } else { 0 };
        thread::sleep(Duration::from_millis(50 << attempt.min(7)));
    }
}

fn address_of(url: &str) -> Result<Address> {
    let wrong = || Error::new(ErrorKind::InvalidInput, format!("{url}: not root://HOST[:PORT]//PATH"));
    Address::parse(url).filter(|address| !address.path.is_empty()).ok_or_else(wrong)
}

/// A file on a server, or the same file on several.
struct Xrootd {
    name: String,
    addresses: Vec<Address>,
    who: Identity,
    options: Options,
    size: u64,
    most_ranges: AtomicUsize,
    replica: AtomicUsize,
    /// With the process that opened the file.
    state: RwLock<(u32, Arc<State>)>,
}

#[derive(Default)]
struct State {
    /// The open file.
    current: Mutex<Option<Arc<Handle>>>,
    /// What is known from before; held by the thread that opens the file anew.
    history: Mutex<History>,
}

#[derive(Default)]
struct History {
    /// Servers that failed, and why, as redirectors want to be told.
    tried: Vec<Tried>,
    /// The last failure, in words.
    trouble: Option<String>,
    /// Where the file was open, and when it had been changed.
    version: Option<(String, i64)>,
    /// When it could not be opened, and why, and whether that may pass: who waited for it need not try the same.
    failed: Option<(Instant, ErrorKind, String, bool)>,
}

/// A server that failed, why, and where redirectors look for it.
struct Tried {
    host: String,
    server: String,
    reason: &'static str,
}

impl History {
    /// Keeps what an open file tells of the file.
    fn note(&mut self, handle: &Handle, trouble: Option<String>, failed: Option<&'static str>) {
        let server = handle.session.place.server();
        self.trouble = trouble.map(|why| format!("{server}: {why}"));
        self.version = Some((server, handle.changed));
        if let Some(reason) = failed.filter(|_| handle.redirected) {
            self.add(&handle.session.place, reason);
        }
    }

    fn add(&mut self, place: &Place, reason: &'static str) {
        let (host, server) = (place.host.clone(), place.server());
        self.tried.retain(|t| t.server != server);
        self.tried.push(Tried { host, server, reason });
    }
}

/// An open file.
struct Handle {
    session: Arc<Session>,
    id: [u8; 4],
    size: u64,
    changed: i64,
    /// Whether a redirector named the server.
    redirected: bool,
    process: u32,
    /// The start of the file, if it was asked for together with opening, and when.
    start: Option<(Instant, Vec<u8>)>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.process == std::process::id() && self.session.over().is_none() {
            // Nobody waits for the answer.
            self.session.note_open(self.id, false);
            let _ = self.session.ask(ask(kind::CLOSE, &self.id, &[], SMALL));
        }
    }
}

fn ask(kind: u16, parameters: &[u8], body: &[u8], most: u64) -> Ask {
    Ask { kind, parameters: parameters.to_vec(), body: body.to_vec(), most }
}

/// One range of an open file.
fn ask_range(id: [u8; 4], offset: u64, length: u64) -> Ask {
    let parameters = [&id[..], &offset.to_be_bytes(), &(length as u32).to_be_bytes()].concat();
    ask(kind::READ, &parameters, &[], length)
}

/// Where a file is asked for.
#[derive(Clone)]
struct Stop {
    place: Place,
    path: String,
    opaque: String,
    redirected: bool,
}

impl Stop {
    fn first(address: &Address, who: &Identity) -> Self {
        let user = address.user.clone().unwrap_or_else(|| who.user.clone());
        Self {
            place: Place {
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

    fn follow(&self, to: Target) -> Self {
        Self {
            place: Place {
                host: to.host,
                port: to.port,
                tls: self.place.tls || to.tls,
                who: self.place.who.clone(),
                token: to.token,
            },
            path: to.path.unwrap_or_else(|| self.path.clone()),
            opaque: joined(&[&self.opaque, &to.opaque]),
            redirected: true,
        }
    }

    /// The path, with all that is said behind it.
    fn path_with(&self, more: &[&str]) -> String {
        let opaque = joined(&[&[self.opaque.as_str()], more].concat());
        if opaque.is_empty() { self.path.clone() } else { format!("{}?{opaque}", self.path) }
    }

    /// Asks one server for the file, and for so many bytes of its start where that costs no time.
    fn open(
        &self,
        refresh: bool,
        naming: bool,
        history: &History,
        first: u64,
        deadline: Instant,
    ) -> std::result::Result<(Answer, Option<Handle>), Fault> {
        // A server that does not answer must leave time to ask another one.
        let patience =
            deadline.saturating_duration_since(Instant::now()) / if self.redirected { 2 } else { 1 };
        let until = Instant::now() + patience;
        let server = self.place.server();
        let failed = |error: Error| Fault::passing(Error::new(error.kind(), format!("{server}: {error}")));
        let named = history.tried.iter().filter(|_| naming);
        let (hosts, reasons): (Vec<_>, Vec<_>) = named.map(|t| (t.host.as_str(), t.reason)).unzip();
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
        let (session, begun) = Session::asked(&self.place, &asks, until)?;
        let mut begun = begun.into_iter();
        let opening = begun.next().ok_or_else(|| failed(Error::other("nothing was asked for")))?;
        let (answer, body) = small(opening, until, deadline).map_err(failed)?;
        if answer != Answer::Done {
            return Ok((answer, None));
        }
        let mut from = Reader(&body);
        let mut id = [0; 4];
        id.copy_from_slice(from.take(4).map_err(failed)?);
        let mut handle = Handle {
            session: session.clone(),
            id,
            size: 0,
            changed: 0,
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
        // Compression, which no server has, and its kind; then what the file is.
        let said = from.take(8).ok().and_then(|_| wire::parse_stat(&from.text()));
        let found = if said.is_some() {
            said
        } else {
            let mut parameters = vec![0; 12];
            parameters.extend_from_slice(&id);
            let asked = session.ask(ask(kind::STAT, &parameters, &[], SMALL)).map_err(failed)?;
            match small(asked, until, deadline).map_err(failed)? {
                (Answer::Done, body) => wire::parse_stat(&Reader(&body).text()),
                (answer, _) => return Ok((answer, None)),
            }
        };
        let strange = || {
            Fault::lasting(Error::new(
                ErrorKind::InvalidData,
                format!("{server}: not told how long the file is"),
            ))
        };
        (handle.size, handle.changed) = found.ok_or_else(strange)?;
        Ok((Answer::Done, Some(handle)))
    }
}

/// Parts of what stands behind the question mark.
fn joined(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| part.trim_matches('&')).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("&")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn refused(no: Refusal) -> Fault {
    if no.lasting() || no.is(&["NotFound"]) { Fault::lasting(no) } else { Fault::passing(no) }
}

impl Xrootd {
    fn state(&self) -> Arc<State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Opens the file and reads its start, and its end with it if that was not under way before its size was known.
    fn look(&mut self, deadline: Instant) -> std::result::Result<(Opening, Duration), Fault> {
        let mut handle = self.find(&mut lock(&self.state().history), FIRST, deadline)?;
        let (size, latency) = (handle.size, handle.session.latency);
        let first = size.min(FIRST);
        let opening = match handle.start.take() {
            Some((began, start)) if start.len() as u64 == first => {
                Opening { began, pieces: vec![(0, start)] }
            }
            _ => {
                let began = Instant::now();
                let last = (size - first).min(END);
                let mut pieces = vec![(0, Vec::new()), (size - last, Vec::new())];
                let wanted =
                    [Range { offset: 0, length: first }, Range { offset: size - last, length: last }];
                let wanted: Vec<Range> = wanted.into_iter().filter(|range| range.length > 0).collect();
                self.read_into(&handle, &wanted, &mut pieces, deadline)?;
                Opening { began, pieces }
            }
        };
        self.size = size;
        self.keep(handle);
        Ok((opening, latency))
    }

    /// Reads ranges, each to where a piece begins.
    fn read_into(
        &self,
        handle: &Handle,
        ranges: &[Range],
        pieces: &mut [(u64, Vec<u8>)],
        deadline: Instant,
    ) -> std::result::Result<(), Fault> {
        if ranges.is_empty() {
            return Ok(());
        }
        let answer = self.read(handle, ranges, deadline, &mut |at, new| {
            let next = pieces.iter_mut().find(|(start, bytes)| *start + bytes.len() as u64 == at);
            if let Some((_, bytes)) = next {
                bytes.extend_from_slice(new);
            }
            true
        })?;
        match answer {
            None | Some(Answer::Done) => Ok(()),
            Some(Answer::Refused(no)) => Err(refused(no)),
            Some(_) => Err(Fault::passing(Error::other("the server puts off reading"))),
        }
    }

    fn keep(&self, handle: Handle) -> Arc<Handle> {
        let most = handle.session.limits(Instant::now() + self.options.timeout).elements;
        self.most_ranges.store(most, Ordering::Relaxed);
        let handle = Arc::new(handle);
        *lock(&self.state().current) = Some(handle.clone());
        handle
    }

    /// The open file; opened anew if it is not.
    fn handle(&self, deadline: Instant) -> std::result::Result<Arc<Handle>, Fault> {
        let state = self.state();
        let usable = |handle: &Arc<Handle>| handle.session.over().is_none();
        let asked = Instant::now();
        if let Some(handle) = lock(&state.current).clone().filter(usable) {
            return Ok(handle);
        }
        let mut history = lock(&state.history);
        let current = lock(&state.current).take();
        if let Some(handle) = current {
            if usable(&handle) {
                *lock(&state.current) = Some(handle.clone());
                return Ok(handle);
            }
            // Its connection ended, maybe while nothing was asked for.
            let (kind, why) = handle.session.over().unwrap_or((ErrorKind::Other, String::new()));
            history.note(&handle, Some(why), (kind == ErrorKind::TimedOut).then_some("srverr"));
        }
        // All the time that there was is spent on it once, not by one request after the other.
        if let Some((when, kind, why, again)) = &history.failed
            && (*when > asked || (!again && when.elapsed() < MOMENT))
        {
            return Err(Fault { again: *again, pause: true, error: Error::new(*kind, why.clone()) });
        }
        let handle = match self.find(&mut history, 0, deadline) {
            Ok(handle) => handle,
            Err(fault) => {
                let (kind, why) = (fault.error.kind(), fault.error.to_string());
                history.failed = Some((Instant::now(), kind, why, fault.again));
                return Err(fault);
            }
        };
        let changed = |what: String| {
            Err(Fault::lasting(Error::other(format!("the file was changed while it was read ({what})"))))
        };
        if handle.size != self.size {
            return changed(format!("it had {} bytes, now it has {}", self.size, handle.size));
        }
        let server = handle.session.place.server();
        if let Some((before, time)) = &history.version
            // Copies on other servers were made at another time.
            && *before == server
            && *time != handle.changed
        {
            return changed("at another time than before".to_owned());
        }
        Ok(self.keep(handle))
    }

    /// Gives up an open file; if its server failed, it will be the last one that is asked again.
    fn lose(&self, handle: &Arc<Handle>, failed: Option<(&'static str, &Error)>) {
        let state = self.state();
        let mut current = lock(&state.current);
        if !current.as_ref().is_some_and(|now| Arc::ptr_eq(now, handle)) {
            return;
        }
        current.take();
        drop(current);
        let mut history = lock(&state.history);
        history.note(handle, failed.map(|(_, error)| error.to_string()), failed.map(|(reason, _)| reason));
    }

    /// Finds the file and opens it, wherever the way leads.
    fn find(
        &self,
        history: &mut History,
        start: u64,
        deadline: Instant,
    ) -> std::result::Result<Handle, Fault> {
        let deadline = deadline.min(Instant::now() + self.options.timeout);
        let Some(address) = self.addresses.get(self.replica()) else {
            return Err(Fault::lasting(Error::other("no URL")));
        };
        let first = Stop::first(address, &self.who);
        let mut stop = first.clone();
        let (mut hops, mut refresh, mut naming, mut passed) = (0, false, true, 0);
        let mut pause = Duration::from_millis(100);
        // What may help later, or elsewhere, is waited for until time is out.
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = history.trouble.as_ref().map(|why| format!(" (last: {why})")).unwrap_or_default();
                // Trying again is what was done all the time.
                let error = Error::new(ErrorKind::TimedOut, format!("not opened in time{why}"));
                return Err(Fault::lasting(error));
            }
            let server = stop.place.server();
            let failed_before = stop.redirected && history.tried.iter().any(|t| t.server == server);
            if failed_before && passed < PASSED_OVER {
                // Redirectors name servers in turn: another one may be next.
                passed += 1;
                naming = !naming;
                (stop, hops) = (first.clone(), 0);
                thread::sleep(SHORT_PAUSE.min(left));
                continue;
            }
            let (fault, reason) = match stop.open(refresh, naming, history, start, deadline) {
                Ok((Answer::Done, Some(handle))) => {
                    history.trouble = None;
                    return Ok(handle);
                }
                Ok((Answer::Redirect(target), _)) => {
                    hops += 1;
                    if hops > MOST_HOPS {
                        return Err(Fault::lasting(Error::other("redirected without end")));
                    }
                    stop = stop.follow(target);
                    continue;
                }
                Ok((Answer::Wait(wait, why), _)) => {
                    let why = why.trim();
                    let said = if why.is_empty() { String::new() } else { format!(": {why}") };
                    history.trouble.get_or_insert(format!("{server} says to wait{said}"));
                    // It may take too many for those that failed, as all of one host.
                    naming = !naming || history.tried.is_empty();
                    if naming {
                        thread::sleep(wait.min(LONGEST_PAUSE).min(left));
                    }
                    continue;
                }
                Ok((Answer::Refused(no), _)) => {
                    let reason = no.reason();
                    (refused(no), reason)
                }
                Ok(_) => return Err(Fault::lasting(Error::other("an answer that makes no sense"))),
                Err(fault) => (fault, "srverr"),
            };
            if fault.error.kind() != ErrorKind::PermissionDenied {
                if stop.redirected {
                    // The server that was named does not do: the redirector names another one.
                    history.trouble = Some(format!("{server}: {}", plain(&fault.error, &server)));
                    history.add(&stop.place, reason);
                    if failed_before {
                        thread::sleep(pause.min(left));
                        pause = (2 * pause).min(LONGEST_PAUSE);
                    }
                    (stop, hops, refresh, naming, passed) = (first.clone(), 0, !failed_before, true, 0);
                    continue;
                }
                if naming && !history.tried.is_empty() {
                    // Nobody else has the file. Those that failed get another chance.
                    naming = false;
                    continue;
                }
            }
            let before = history.trouble.take().filter(|_| !history.tried.is_empty());
            let before = before.map(|why| format!(" (before: {why})")).unwrap_or_default();
            let error = Error::new(fault.error.kind(), format!("{}{before}", fault.error));
            return Err(Fault { error, ..fault });
        }
    }

    /// Reads ranges by one request.
    fn read(
        &self,
        handle: &Handle,
        ranges: &[Range],
        deadline: Instant,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<Option<Answer>, Fault> {
        let limits = handle.session.limits(Instant::now() + self.options.timeout);
        let quiet = Instant::now() + self.options.timeout;
        let failed = |error: Error| Fault::passing(error);
        if let [range] = ranges {
            let mut offset = range.offset;
            let length = range.length.min(LONGEST);
            let mut stream = handle.session.ask(ask_range(handle.id, offset, length)).map_err(failed)?;
            return stream
                .finish(quiet, deadline, &mut |bytes| {
                    let at = offset;
                    offset += bytes.len() as u64;
                    take(at, bytes)
                })
                .map_err(failed);
        }
        let (body, most) = elements(ranges, handle.id, limits);
        let mut stream = handle.session.ask(ask(kind::READV, &[], &body, most)).map_err(failed)?;
        let mut parts = Parts::default();
        let mut strange = None;
        let answer = stream.finish(quiet, deadline, &mut |bytes| match parts.feed(bytes, take) {
            Ok(more) => more,
            Err(error) => {
                strange = Some(error);
                false
            }
        });
        match strange {
            Some(error) => Err(Fault::passing(error)),
            None => answer.map_err(failed),
        }
    }
}

/// An answer with little data.
fn small(mut stream: Stream, quiet: Instant, deadline: Instant) -> Result<(Answer, Vec<u8>)> {
    let mut body = Vec::new();
    let answer = stream.finish(quiet, deadline, &mut |bytes| {
        body.extend_from_slice(bytes);
        true
    })?;
    Ok((answer.unwrap_or(Answer::Done), body))
}

/// An error without the server's name, if it begins with it.
fn plain(error: &Error, server: &str) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("{server}: ")).map_or(text.clone(), str::to_owned)
}

/// What `kXR_readv` asks for, and the most bytes that may come: ranges cut to what a server takes of each.
fn elements(ranges: &[Range], id: [u8; 4], limits: session::Limits) -> (Vec<u8>, u64) {
    let mut body = Vec::new();
    let mut most = 0;
    for range in ranges {
        let mut offset = range.offset;
        while offset < range.end() && body.len() < ELEMENT * limits.elements {
            let length = (range.end() - offset).min(limits.bytes);
            body.extend_from_slice(&id);
            body.extend_from_slice(&(length as u32).to_be_bytes());
            body.extend_from_slice(&offset.to_be_bytes());
            offset += length;
            most += length + ELEMENT as u64;
        }
    }
    (body, most)
}

/// The ranges in an answer to `kXR_readv`, each behind a head of its own, however it is divided.
#[derive(Default)]
struct Parts {
    head: Vec<u8>,
    offset: u64,
    left: usize,
}

impl Parts {
    /// Hands over where in the file, and bytes; false if no more are wanted.
    fn feed(&mut self, mut bytes: &[u8], take: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<bool> {
        while !bytes.is_empty() {
            if self.left == 0 {
                let (new, rest) = bytes.split_at((ELEMENT - self.head.len()).min(bytes.len()));
                self.head.extend_from_slice(new);
                bytes = rest;
                if self.head.len() < ELEMENT {
                    break;
                }
                let mut from = Reader(&self.head);
                from.take(4)?;
                self.left = from.u32()? as usize;
                self.offset = from.u64()?;
                self.head.clear();
                if i32::try_from(self.left).is_err() || i64::try_from(self.offset).is_err() {
                    return Err(Error::new(ErrorKind::InvalidData, "a range that makes no sense"));
                }
                continue;
            }
            let (new, rest) = bytes.split_at(self.left.min(bytes.len()));
            bytes = rest;
            let at = self.offset;
            self.left -= new.len();
            self.offset += new.len() as u64;
            if !take(at, new) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Transport for Xrootd {
    fn name(&self) -> &str {
        &self.name
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn most_ranges(&self) -> usize {
        self.most_ranges.load(Ordering::Relaxed)
    }
    fn request(
        &self,
        ranges: &[Range],
        limit: Duration,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<(), Fault> {
        let deadline = Instant::now() + limit;
        let handle = self.handle(deadline)?;
        let server = handle.session.place.server();
        let named = |error: &Error| Error::new(error.kind(), format!("{server}: {error}"));
        match self.read(&handle, ranges, deadline, take) {
            Ok(None | Some(Answer::Done)) => Ok(()),
            Ok(Some(Answer::Wait(wait, why))) => {
                thread::sleep(
                    wait.min(LONGEST_PAUSE).min(deadline.saturating_duration_since(Instant::now())),
                );
                Err(Fault::learnt(format!("{server} says to wait: {}", why.trim())))
            }
            Ok(Some(Answer::Redirect(target))) => {
                // Whoever is asked next knows where the file is now.
                self.lose(&handle, None);
                Err(Fault::learnt(format!("{server} sends to {}", target.host)))
            }
            Ok(Some(Answer::Refused(no))) => {
                let (lasting, reason) = (no.lasting(), no.reason());
                let plain = Error::from(no);
                let error = named(&plain);
                if lasting {
                    return Err(Fault::lasting(error));
                }
                self.lose(&handle, Some((reason, &plain)));
                Err(Fault::passing(error))
            }
            Ok(Some(_)) => Err(Fault::lasting(Error::new(
                ErrorKind::InvalidData,
                format!("{server}: an answer that makes no sense"),
            ))),
            Err(fault) => {
                self.lose(&handle, Some(("srverr", &fault.error)));
                Err(Fault { error: named(&fault.error), ..fault })
            }
        }
    }
    fn replica(&self) -> usize {
        self.replica.load(Ordering::Relaxed)
    }
    fn leave_replica(&self, failed: usize) -> bool {
        let next = failed + 1;
        if next >= self.addresses.len() {
            return self.replica() != failed;
        }
        let moved = self.replica.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
        if moved.is_ok() {
            let state = self.state();
            lock(&state.current).take();
            *lock(&state.history) = History::default();
        }
        true
    }
    fn identity(&self) -> Option<String> {
        lock(&self.state().current).as_ref().map(|handle| handle.changed.to_string())
    }
    fn forked(&self) {
        // What is open belongs to the parent: neither used nor closed here.
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::replace(&mut *state, (std::process::id(), Arc::default())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, length: u64) -> Range {
        Range { offset, length }
    }

    #[test]
    fn ranges_are_cut_to_what_is_taken() {
        let limits = session::Limits { elements: 3, bytes: 10 };
        let (body, most) = elements(&[range(0, 5), range(100, 25)], [1, 2, 3, 4], limits);
        let found: Vec<(u32, u64)> = body
            .chunks(ELEMENT)
            .map(|one| {
                let mut from = Reader(&one[4..]);
                (from.u32().unwrap(), from.u64().unwrap())
            })
            .collect();
        assert_eq!(found, [(5, 0), (10, 100), (10, 110)]);
        assert_eq!(most, 25 + 3 * ELEMENT as u64);
    }

    #[test]
    fn parts_of_any_division() {
        let mut bytes = Vec::new();
        for (offset, text) in [(7u64, "abc"), (99, ""), (1000, "defgh")] {
            bytes.extend_from_slice(&[0; 4]);
            bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
            bytes.extend_from_slice(&offset.to_be_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        for step in 1..=bytes.len() {
            let (mut parts, mut found) = (Parts::default(), Vec::new());
            for piece in bytes.chunks(step) {
                let mut take = |at: u64, new: &[u8]| {
                    found.extend(new.iter().enumerate().map(|(i, b)| (at + i as u64, *b)));
                    true
                };
                assert!(parts.feed(piece, &mut take).unwrap());
            }
            let want: Vec<(u64, u8)> = (7..10).chain(1000..1005).zip(b'a'..=b'h').collect();
            assert_eq!(found, want);
        }
        let hostile = [0xff; ELEMENT];
        assert!(Parts::default().feed(&hostile, &mut |_, _| true).is_err());
    }

    #[test]
    fn opaque_data_is_joined() {
        assert_eq!(joined(&["authz=x", "", "&a=b&", "tried=h"]), "authz=x&a=b&tried=h");
    }
}
