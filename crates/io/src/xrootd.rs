//! `XRootD`: `root://`, and `roots://` with TLS.
//!
//! A client of our own: two copies of the `XRootD` project's client in one process crash, and ROOT brings one. Requests to
//! one server share a connection, each on a stream of its own. A file is found by way of a redirector, if there is one; a
//! server that fails is named to it when another is asked for.

mod auth;
mod link;
mod list;
mod pages;
mod session;
mod wire;

pub use auth::Identity;
pub use list::list;

use crate::cancel;
use crate::checksum::Checksum;
use crate::ledger::Ledger;
use crate::plan::Range;
use crate::process::PerProcess;
use crate::remote::{
    BEFORE_LEAVING, END, Fault, Opening, Options, Remote, TOLD_APART, Transport, Version, next_in_turn,
    pause_before, retries_of_opening,
};
use crate::source::Source;
use crate::trace::Cause;
use pages::Pages;
use session::{Ask, Place, SMALL, Session, Stream};
use std::cell::Cell;
use std::io::{Error, ErrorKind, Result};
use std::iter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use wire::{Address, Answer, ELEMENT, Reader, Refusal, Stat, Target, kind};

/// What is read first of the start.
const FIRST: u64 = 64 << 10;
/// Bytes of a read of one range.
const LONGEST: u64 = 1 << 30;
/// Redirections from one server to the next, until a file must be open.
const MOST_HOPS: usize = 16;
/// Options of `kXR_open`: for reading, with what the file is; and not by what was remembered of it.
const OPEN: u16 = 0x10 | 0x400;
const REFRESH: u16 = 0x80;
/// What `kXR_query` asks for: the checksum of a file.
const CHECKSUM_OF: [u8; 2] = [0, 3];
/// How often a server is not asked that failed before, although it is named again; and the pause before another is asked for.
const PASSED_OVER: usize = 4;
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// How long nothing is tried again for which time ran out.
const MOMENT: Duration = Duration::from_secs(1);
/// How long it is waited for what a file is now, when its bytes are there.
const LISTEN: Duration = Duration::from_secs(5);
/// The longest pause before the same is asked for again, whatever a server says.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Whether a URL is for this module.
pub fn takes(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| wire::encrypted(scheme).is_some())
}

/// Opens a file by its URL; by several, if they lead to the same bytes. `ledger` has what did not go well, also if it fails.
pub fn open(urls: &[String], who: &Identity, options: &Options, ledger: Ledger) -> Result<Arc<dyn Source>> {
    let addresses = urls.iter().map(|url| address_of(url));
    let mut file = Xrootd {
        name: urls.first().cloned().unwrap_or_default(),
        addresses: addresses.collect::<Result<_>>()?,
        who: who.clone(),
        options: options.clone(),
        size: 0,
        version: None,
        start: Vec::new(),
        most_ranges: AtomicUsize::new(session::Limits::default().elements),
        replica: AtomicUsize::new(0),
        unwatched: AtomicBool::new(false),
        state: PerProcess::empty(),
    };
    let mut start = Instant::now();
    let (mut attempt, mut others) = (0, file.replicas() - 1);
    loop {
        let began = Instant::now();
        let deadline = began + options.timeout;
        let found = file.look(deadline);
        let (first, none) = ([Range { offset: 0, length: FIRST }], [Range { offset: 0, length: 0 }]);
        // The start was asked for with the login, too.
        for error in lock(&file.state().history).stumbled.drain(..) {
            ledger.ended(&file.name, &none, Cause::Header, began);
            ledger.note(&first, attempt + 1, true, &error);
        }
        let fault = match found {
            Ok((opening, latency)) => {
                let remote = Remote::new(Arc::new(file), options.clone(), vec![opening], ledger);
                remote.answered_in(latency);
                return Ok(Arc::new(remote));
            }
            Err(fault) => fault,
        };
        let replica = file.replica();
        let most = retries_of_opening(&fault.error, options.retries);
        let most = if others > 0 { most.min(BEFORE_LEAVING) } else { most };
        let again = fault.again && attempt < most && start.elapsed() < options.timeout;
        ledger.ended(&file.name, &none, Cause::Header, began);
        ledger.note(&first, attempt + 1, again, &fault.error);
        if again && !cancel::given_up() {
            attempt += 1;
            thread::sleep(pause_before(attempt));
            continue;
        }
        if others == 0 || cancel::given_up() {
            let url = urls.get(replica).map_or("", String::as_str);
            return Err(Error::new(fault.error.kind(), format!("{url}: {}", fault.error)));
        }
        file.leave_replica(replica);
        (attempt, others, start) = (0, others - 1, Instant::now());
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
    /// When it was opened first, and its first bytes.
    version: Option<Version>,
    start: Vec<u8>,
    most_ranges: AtomicUsize,
    replica: AtomicUsize,
    /// Whether nothing is answered at all to what the file is now, so that it is not asked for any more.
    unwatched: AtomicBool,
    /// What is open belongs to one process: a child neither uses nor closes it.
    state: PerProcess<State>,
}

#[derive(Default)]
struct State {
    /// The open file.
    current: Mutex<Option<Arc<Handle>>>,
    /// What is known from before; held by the thread that opens the file anew.
    history: Mutex<History>,
    /// What is to be listed though the bytes came.
    remarks: Mutex<Vec<Error>>,
    /// Who was seen to have the file that was opened first.
    same: Mutex<Vec<String>>,
    /// Which of the URLs lead to another one.
    elsewhere: Mutex<Vec<usize>>,
}

#[derive(Default)]
struct History {
    /// Servers that failed, and why, as redirectors want to be told.
    tried: Vec<Tried>,
    /// The last failure, in words.
    trouble: Option<String>,
    /// Connections that ended at login, and were made again.
    stumbled: Vec<Error>,
    /// What it was where it was open last.
    version: Option<Version>,
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
        self.version = Some(handle.version.clone());
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
    /// What was asked for, with all that is said behind the path.
    path: String,
    watch: Mutex<Watch>,
    size: u64,
    version: Version,
    /// Whether a redirector named the server.
    redirected: bool,
    process: u32,
    /// The start of the file, if it was asked for together with opening, and when.
    start: Option<(Instant, Vec<u8>)>,
}

/// How it is watched whether an open file is still what it was: each request asks along with it what the file is.
#[derive(Clone, Debug, PartialEq)]
enum Watch {
    /// By its path: so another file that takes its place is noticed, too. Nothing is known before the first answer.
    Path(Option<Stat>),
    /// Where that would be handed on to another server, or is not answered.
    Handle(Option<Stat>),
    /// Neither is answered.
    Not,
}

impl Watch {
    /// Takes an answer to what was asked for when it was as `asked`; says how the file differs from what it was.
    fn compare(&mut self, asked: &Self, now: Option<Stat>) -> Option<String> {
        if std::mem::discriminant(self) != std::mem::discriminant(asked) {
            return None;
        }
        let Some(now) = now else {
            *self = match self {
                Self::Path(None) => Self::Handle(None),
                Self::Handle(None) => Self::Not,
                // What was answered before will be again: the path may be there no more only for now.
                _ => return None,
            };
            return None;
        };
        let (Self::Path(before) | Self::Handle(before)) = self else { return None };
        let before = before.get_or_insert_with(|| now.clone());
        if now.size != before.size {
            Some(format!("it had {} bytes, now it has {}", before.size, now.size))
        } else if now != *before {
            Some("it is another one, or was written to".to_owned())
        } else {
            None
        }
    }
}

impl Handle {
    /// Asks what the file is now, if that is answered.
    fn look(&self, watch: &Watch) -> Option<Ask> {
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
            // Nobody waits for the answer.
            self.session.note_open(self.id, false);
            let _ = self.session.ask(ask(kind::CLOSE, &self.id, &[], SMALL));
        }
    }
}

fn ask(kind: u16, parameters: &[u8], body: &[u8], most: u64) -> Ask {
    Ask { kind, parameters: parameters.to_vec(), body: body.to_vec(), most }
}

/// One range of an open file, in pages with checksums.
fn ask_pages(id: [u8; 4], offset: u64, length: u64) -> Ask {
    Ask { kind: kind::PGREAD, most: Pages::most(length), ..ask_range(id, offset, length) }
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
        history: &mut History,
        first: u64,
        deadline: Instant,
    ) -> std::result::Result<(Answer, Option<Handle>), Fault> {
        // A server that does not answer must leave time to ask another one.
        let patience =
            deadline.saturating_duration_since(Instant::now()) / if self.redirected { 2 } else { 1 };
        let until = Instant::now() + patience;
        let server = self.place.server();
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
        let (session, begun) = Session::asked(&self.place, &asks, until)?;
        history.stumbled.extend(lock(&session.stumbled).take().filter(|_| first > 0).map(named));
        let mut begun = begun.into_iter();
        let opening = begun.next().ok_or_else(|| failed(Error::other("nothing was asked for")))?;
        let (answer, body) = small(opening, until, deadline).map_err(failed)?;
        if answer != Answer::Done {
            return Ok((answer, None));
        }
        let mut from = Reader(&body);
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
        // Compression, which no server has, and its kind; then what the file is.
        let said = from.take(8).ok().and_then(|_| Stat::parse(&from.text()));
        let found = if said.is_some() {
            said
        } else {
            let mut parameters = vec![0; 12];
            parameters.extend_from_slice(&id);
            let asked = session.ask(ask(kind::STAT, &parameters, &[], SMALL)).map_err(failed)?;
            match small(asked, until, deadline).map_err(failed)? {
                (Answer::Done, body) => Stat::parse(&Reader(&body).text()),
                (answer, _) => return Ok((answer, None)),
            }
        };
        let strange = || {
            Fault::lasting(Error::new(
                ErrorKind::InvalidData,
                format!("{server}: not told how long the file is"),
            ))
        };
        let Stat { id, size, changed } = found.ok_or_else(strange)?;
        // Copies on other servers have another number, and were made at another time; so it is with the servers that one
        // name stands for. One that stands between has numbers of the servers behind it, or of its own.
        handle.version = Version {
            of: format!("{server} {} {}", session.peer, self.path),
            tag: if session.stands_between { changed.to_string() } else { format!("{id} {changed}") },
        };
        handle.size = size;
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
    fn state(&self) -> &State {
        self.state.get(|_| State::default())
    }

    /// Opens the file and reads its start, and its end with it if that was not under way before its size was known.
    fn look(&mut self, deadline: Instant) -> std::result::Result<(Opening, Duration), Fault> {
        let mut handle = self.find(self.replica(), &mut lock(&self.state().history), FIRST, deadline)?;
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
        self.version = Some(handle.version.clone());
        let start = opening.pieces.first().map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
        self.start = start.get(..TOLD_APART.min(start.len())).unwrap_or_default().to_vec();
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
            let error = Error::new(*kind, why.clone());
            return Err(Fault { again: *again, ..Fault::passing(error) });
        }
        let replica = self.replica();
        let handle = match self.find(replica, &mut history, 0, deadline) {
            Ok(handle) => handle,
            Err(fault) => {
                let (kind, why) = (fault.error.kind(), fault.error.to_string());
                history.failed = Some((Instant::now(), kind, why, fault.again));
                return Err(fault);
            }
        };
        if handle.size != self.size {
            return Err(changed(&format!("it had {} bytes, now it has {}", self.size, handle.size)));
        }
        let now = &handle.version;
        if let Some(before) = history.version.as_ref().or(self.version.as_ref())
            && before.of == now.of
            && before.tag != now.tag
        {
            return Err(changed(&format!("it was version {}, now it is {}", before.tag, now.tag)));
        }
        self.compare(&handle, replica, &mut history, deadline)?;
        Ok(self.keep(handle))
    }

    /// Sees whether a server has the file that was opened first, by its first bytes, before others of it are believed.
    fn compare(
        &self,
        handle: &Handle,
        replica: usize,
        history: &mut History,
        deadline: Instant,
    ) -> std::result::Result<(), Fault> {
        let (state, of) = (self.state(), &handle.version.of);
        if self.version.as_ref().is_some_and(|first| first.of == *of) || lock(&state.same).contains(of) {
            return Ok(());
        }
        let mut pieces = [(0, Vec::new())];
        self.read_into(
            handle,
            &[Range { offset: 0, length: self.start.len() as u64 }],
            &mut pieces,
            deadline,
        )?;
        let [(_, start)] = pieces;
        if start.len() < self.start.len() {
            return Err(Fault::passing(Error::new(ErrorKind::UnexpectedEof, "less came than was asked for")));
        }
        if start.starts_with(&self.start) {
            lock(&state.same).push(of.clone());
            return Ok(());
        }
        let server = handle.session.place.server();
        let error = Error::other(format!("{server} has another file by this name: it begins otherwise"));
        if handle.redirected {
            // Whoever named it may name another one.
            history.add(&handle.session.place, "ioerr");
            return Err(Fault::passing(error));
        }
        lock(&state.elsewhere).push(replica);
        Err(Fault::lasting(error))
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
        replica: usize,
        history: &mut History,
        start: u64,
        deadline: Instant,
    ) -> std::result::Result<Handle, Fault> {
        let deadline = deadline.min(Instant::now() + self.options.timeout);
        let Some(address) = self.addresses.get(replica) else {
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

    /// Reads ranges by one request: by pages with checksums, if it is one range and the server gives them.
    fn read(
        &self,
        handle: &Handle,
        ranges: &[Range],
        deadline: Instant,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<Option<Answer>, Fault> {
        let has_pages = &handle.session.has_pages;
        let paged = ranges.len() == 1 && has_pages.load(Ordering::Relaxed);
        let answer = self.read_so(handle, ranges, paged, deadline, take)?;
        let no = match answer {
            Some(Answer::Refused(no)) if paged && no.lasting() => no,
            answer => return Ok(answer),
        };
        // Some servers say that they give pages, and do not.
        let answer = self.read_so(handle, ranges, false, deadline, take)?;
        if matches!(answer, None | Some(Answer::Done)) && has_pages.swap(false, Ordering::Relaxed) {
            let server = handle.session.place.server();
            let why = format!("{server} gives no pages with checksums: {}", Error::from(no));
            lock(&self.state().remarks).push(Error::other(why));
        }
        Ok(answer)
    }

    /// Reads ranges by one request, one range as pages or not.
    fn read_so(
        &self,
        handle: &Handle,
        ranges: &[Range],
        paged: bool,
        deadline: Instant,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<Option<Answer>, Fault> {
        let limits = handle.session.limits(Instant::now() + self.options.timeout);
        let quiet = Instant::now() + self.options.timeout;
        let failed = |error: Error| Fault::passing(error);
        let (asked, mut form) = if let [range] = ranges {
            let (offset, length) = (range.offset, range.length.min(LONGEST));
            if paged {
                (ask_pages(handle.id, offset, length), Form::Pages(Pages::default()))
            } else {
                (ask_range(handle.id, offset, length), Form::Plain(offset))
            }
        } else {
            let (body, most) = elements(ranges, handle.id, limits);
            (ask(kind::READV, &[], &body, most), Form::Parts(Parts::default()))
        };
        let watch = lock(&handle.watch).clone();
        let look = handle.look(&watch).filter(|_| !self.unwatched.load(Ordering::Relaxed));
        let asks: Vec<Ask> = iter::once(asked).chain(look).collect();
        let mut streams = handle.session.ask_together(&asks).map_err(failed)?.into_iter();
        let mut stream = streams.next().ok_or_else(|| failed(Error::other("nothing was asked for")))?;
        let mut strange = None;
        let mut left = ranges.iter().map(|range| range.length).fold(0, u64::saturating_add);
        let mut count = |at: u64, bytes: &[u8]| {
            left = left.saturating_sub(bytes.len() as u64);
            take(at, bytes)
        };
        let answer = stream.finish(quiet, deadline, &mut |bytes| match form.feed(bytes, &mut count) {
            Ok(more) => more,
            Err(error) => {
                strange = Some(error);
                false
            }
        });
        if let Some(error) = strange {
            return Err(failed(error));
        }
        let answer = answer.map_err(failed)?;
        // Who has all that was wanted need not wait for the end of the answer.
        let whole = answer == Some(Answer::Done) || (answer.is_none() && left == 0);
        if let Some(look) = streams.next().filter(|_| whole) {
            let until = Instant::now() + LISTEN.min(self.options.timeout / 2);
            // That this one answer does not come ends no session.
            match small(look, until + self.options.timeout, until) {
                Ok((answer, body)) => {
                    let now = Stat::parse(&Reader(&body).text()).filter(|_| answer == Answer::Done);
                    if !cancel::given_up()
                        && let Some(what) = lock(&handle.watch).compare(&watch, now)
                    {
                        return Err(changed(&what));
                    }
                }
                Err(error) if error.kind() == ErrorKind::TimedOut && handle.session.over().is_none() => {
                    if !self.unwatched.swap(true, Ordering::Relaxed) {
                        let server = handle.session.place.server();
                        let why = format!("{server} does not answer what the file is now; it is not watched");
                        lock(&self.state().remarks).push(Error::new(ErrorKind::TimedOut, why));
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        if let Form::Pages(pages) = &form {
            pages.checked().map_err(failed)?;
        }
        Ok(answer)
    }
}

/// What the data of an answer are.
enum Form {
    /// The file's bytes, from here on.
    Plain(u64),
    Parts(Parts),
    Pages(Pages),
}

impl Form {
    /// Hands over where in the file, and bytes; false if no more are wanted.
    fn feed(&mut self, bytes: &[u8], take: &mut dyn FnMut(u64, &[u8]) -> bool) -> Result<bool> {
        match self {
            Self::Plain(offset) => {
                let at = *offset;
                *offset += bytes.len() as u64;
                Ok(take(at, bytes))
            }
            Self::Parts(parts) => parts.feed(bytes, take),
            Self::Pages(pages) => pages.feed(bytes, take),
        }
    }
}

fn changed(what: &str) -> Fault {
    Fault::lasting(Error::other(format!("the file was changed while it was read ({what})")))
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
                if fault.again {
                    self.lose(&handle, Some(("srverr", &fault.error)));
                }
                Err(Fault { error: named(&fault.error), ..fault })
            }
        }
    }
    fn replica(&self) -> usize {
        self.replica.load(Ordering::Relaxed)
    }
    fn replicas(&self) -> usize {
        self.addresses.len() - lock(&self.state().elsewhere).len().min(self.addresses.len() - 1)
    }
    fn leave_replica(&self, failed: usize) {
        let state = self.state();
        let next = next_in_turn(failed, self.addresses.len(), &lock(&state.elsewhere));
        let Some(next) = next else { return };
        let moved = self.replica.compare_exchange(failed, next, Ordering::Relaxed, Ordering::Relaxed);
        if moved.is_ok() {
            lock(&state.current).take();
            *lock(&state.history) = History::default();
        }
    }
    fn identity(&self) -> Option<Version> {
        self.version.clone()
    }
    fn server(&self) -> Option<String> {
        let current = lock(&self.state().current).clone();
        let first = || Some(Stop::first(self.addresses.get(self.replica())?, &self.who).place.server());
        current.map(|handle| handle.session.place.server()).or_else(first)
    }
    fn remarks(&self) -> Vec<Error> {
        std::mem::take(&mut lock(&self.state().remarks))
    }
    fn promised(&self, limit: Duration) -> std::result::Result<Option<Checksum>, Fault> {
        let deadline = Instant::now() + limit;
        let handle = self.handle(deadline)?;
        let ask = ask(kind::QUERY, &CHECKSUM_OF, handle.path.as_bytes(), SMALL);
        let asked = handle.session.ask(ask).map_err(Fault::passing)?;
        let (answer, body) = small(asked, deadline, deadline).map_err(Fault::passing)?;
        let text = Reader(&body).text();
        match answer {
            Answer::Done => {
                Ok(text.trim().split_once(' ').and_then(|(name, value)| Checksum::named(name, value)))
            }
            // It has none.
            Answer::Refused(no) if no.is(&["ArgInvalid", "InvalidRequest", "Unsupported"]) => Ok(None),
            Answer::Refused(no) => Err(refused(no)),
            _ => Err(Fault::passing(Error::other("the server puts off a checksum"))),
        }
    }
    fn mistrust(&self) {
        let current = lock(&self.state().current).clone();
        if let Some(handle) = current {
            let error = Error::new(ErrorKind::InvalidData, "a copy with a wrong checksum");
            self.lose(&handle, Some(("ioerr", &error)));
        }
    }
    fn close(&self) {
        lock(&self.state().current).take();
    }
}

#[cfg(test)]
mod tests;
