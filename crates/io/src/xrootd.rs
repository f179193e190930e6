//! `XRootD`: `root://`, and `roots://` with TLS.
//!
//! This is a separate client, because two copies of the `XRootD` project's client in one process crash, and ROOT
//! includes one. Requests to one server share a connection, each on its own stream. Files are located through a
//! redirector, if there is one. When another server is requested, the redirector is told which one failed.

mod auth;
mod handle;
mod link;
mod list;
mod login;
mod pages;
mod read;
mod session;
mod wire;

pub use auth::Identity;
pub use list::list;

use crate::cancel;
use crate::checksum::Checksum;
use crate::ledger::Ledger;
use crate::lock;
use crate::plan::Range;
use crate::process::PerProcess;
use crate::remote::{
    BEFORE_LEAVING, END, Fault, Opening, Options, Remote, TOLD_APART, Transport, Version, next_in_turn,
    pause_before, retries_of_opening,
};
use crate::source::Source;
use crate::trace::Cause;
use handle::{Handle, Stop, ask};
use session::{Endpoint, SMALL, Stream};
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wire::{Address, Answer, Refusal, WireReader, kind};

/// Bytes of the first read at the start.
const FIRST: u64 = 64 << 10;
/// Maximum number of redirections until a file must be open.
const MOST_HOPS: usize = 16;
/// Parameters of `kXR_query` for the checksum of a file.
const CHECKSUM_OF: [u8; 2] = [0, 3];
/// Maximum number of failed servers remembered: a redirector gets all their names.
const MOST_TRIED: usize = 32;
/// Number of times that a failed server is skipped although it is named again, and the pause before another is
/// requested.
const PASSED_OVER: usize = 4;
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// Time without further attempts after a time-out.
const MOMENT: Duration = Duration::from_secs(1);
/// Shortest and longest pause before a request is repeated, whatever a server asks for.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Whether this module handles a URL.
pub fn takes(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| wire::encrypted(scheme).is_some())
}

/// Opens a file by its URL, or by several URLs of the same bytes. Problems are recorded in `ledger`, even if opening
/// fails.
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
        // The start was requested together with the login, too.
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
        let given_up = cancel::given_up();
        let again = fault.again && attempt < most && start.elapsed() < options.timeout && !given_up;
        ledger.ended(&file.name, &none, Cause::Header, began);
        ledger.note(&first, attempt + 1, again, &fault.error);
        if again {
            attempt += 1;
            cancel::sleep(pause_before(attempt));
            continue;
        }
        if others == 0 || given_up {
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
    /// File version when it was first opened, and its first bytes.
    version: Option<Version>,
    start: Vec<u8>,
    most_ranges: AtomicUsize,
    replica: AtomicUsize,
    /// Whether the server never answers a request for the file status, so that none are sent any more.
    unwatched: AtomicBool,
    /// Open handles belong to one process: a child neither uses nor closes them.
    state: PerProcess<State>,
}

#[derive(Default)]
struct State {
    /// The open file.
    current: Mutex<Option<Arc<Handle>>>,
    /// Earlier failures; locked by the thread that reopens the file.
    history: Mutex<History>,
    /// Remarks to list although the bytes arrived.
    remarks: Mutex<Vec<Error>>,
    /// Servers verified to have the file that was opened first.
    same: Mutex<Vec<String>>,
    /// URLs that lead to another file.
    elsewhere: Mutex<Vec<usize>>,
}

#[derive(Default)]
struct History {
    /// Failed servers with reasons, in the form for redirectors.
    tried: Vec<Tried>,
    /// Text of the last failure.
    trouble: Option<String>,
    /// Connections that ended at login and were made again.
    stumbled: Vec<Error>,
    /// File version at the last successful opening.
    version: Option<Version>,
    /// Time, kind and text of a failed opening, and whether it may be temporary: threads that waited for it need not
    /// repeat it.
    failed: Option<(Instant, ErrorKind, String, bool)>,
}

/// A failed server, the reason, and its name for redirectors.
struct Tried {
    host: String,
    server: String,
    reason: &'static str,
}

impl History {
    /// Records the properties of an opened file.
    fn note(&mut self, handle: &Handle, trouble: Option<String>, failed: Option<&'static str>) {
        let server = handle.session.endpoint.server();
        self.trouble = trouble.map(|why| format!("{server}: {why}"));
        self.version = Some(handle.version.clone());
        if let Some(reason) = failed.filter(|_| handle.redirected) {
            self.add(&handle.session.endpoint, reason);
        }
    }

    fn add(&mut self, endpoint: &Endpoint, reason: &'static str) {
        let (host, server) = (endpoint.host.clone(), endpoint.server());
        self.tried.retain(|t| t.server != server);
        if self.tried.len() >= MOST_TRIED {
            self.tried.remove(0);
        }
        self.tried.push(Tried { host, server, reason });
    }
}

fn refused(no: Refusal) -> Fault {
    if no.lasting() || no.is(&["NotFound"]) { Fault::lasting(no) } else { Fault::passing(no) }
}

impl Xrootd {
    fn state(&self) -> &State {
        self.state.get(|_| State::default())
    }

    /// Opens the file and reads its start. Also reads its end, unless that was requested before the size was known.
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

    /// Reads ranges into pieces, each at its offset.
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
            Some(_) => Err(Fault::passing(Error::other("the server keeps delaying the read"))),
        }
    }

    fn keep(&self, handle: Handle) -> Arc<Handle> {
        let most = handle.session.limits(Instant::now() + self.options.timeout).elements;
        self.most_ranges.store(most, Ordering::Relaxed);
        let handle = Arc::new(handle);
        *lock(&self.state().current) = Some(handle.clone());
        handle
    }

    /// Returns the open file; reopens it if necessary.
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
            // Its connection ended, perhaps while it was idle.
            let (kind, why) = handle.session.over().unwrap_or((ErrorKind::Other, String::new()));
            history.note(&handle, Some(why), (kind == ErrorKind::TimedOut).then_some("srverr"));
        }
        // One opening uses all the available time; later requests do not repeat it one after the other.
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
                if !cancel::given_up() {
                    let (kind, why) = (fault.error.kind(), fault.error.to_string());
                    history.failed = Some((Instant::now(), kind, why, fault.again));
                }
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

    /// Verifies by the first bytes that a server has the file that was opened first, before other bytes from it are
    /// used.
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
            return Err(Fault::passing(Error::new(
                ErrorKind::UnexpectedEof,
                "the answer is shorter than the request",
            )));
        }
        if start.starts_with(&self.start) {
            lock(&state.same).push(of.clone());
            return Ok(());
        }
        let server = handle.session.endpoint.server();
        let error =
            Error::other(format!("{server} has another file of the same name: its first bytes differ"));
        if handle.redirected {
            // The redirector may name another server.
            history.add(&handle.session.endpoint, "ioerr");
            return Err(Fault::passing(error));
        }
        lock(&state.elsewhere).push(replica);
        Err(Fault::lasting(error))
    }

    /// Gives up an open file; if its server failed, it is tried last.
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

    /// Locates the file and opens it, following redirections.
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
        // Retry temporary failures and other servers until the time is out.
        loop {
            if cancel::given_up() {
                return Err(Fault::lasting(Error::new(ErrorKind::Interrupted, "cancelled")));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = history.trouble.as_ref().map(|why| format!(" (last: {why})")).unwrap_or_default();
                // Retries were made all the time.
                let error = Error::new(ErrorKind::TimedOut, format!("the file was not opened in time{why}"));
                return Err(Fault::lasting(error));
            }
            let server = stop.endpoint.server();
            let failed_before = stop.redirected && history.tried.iter().any(|t| t.server == server);
            if failed_before && passed < PASSED_OVER {
                // Redirectors name servers in turn: the next may be another one.
                passed += 1;
                naming = !naming;
                (stop, hops) = (first.clone(), 0);
                cancel::sleep(SHORT_PAUSE.min(left));
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
                        return Err(Fault::lasting(Error::other("too many redirects")));
                    }
                    stop = stop.follow(target);
                    continue;
                }
                Ok((Answer::Wait(wait, why), _)) => {
                    let said = if why.is_empty() { String::new() } else { format!(": {why}") };
                    history.trouble.get_or_insert(format!("{server} asks to wait{said}"));
                    // The list of failed servers may cover too many, for example all of one host.
                    naming = !naming || history.tried.is_empty();
                    if naming {
                        cancel::sleep(wait.clamp(SHORTEST_PAUSE, LONGEST_PAUSE).min(left));
                    }
                    continue;
                }
                Ok((Answer::Refused(no), _)) => {
                    let reason = no.reason();
                    (refused(no), reason)
                }
                Ok(_) => return Err(Fault::lasting(Error::other("the server sent an unexpected answer"))),
                Err(fault) => (fault, "srverr"),
            };
            if fault.error.kind() != ErrorKind::PermissionDenied {
                if stop.redirected {
                    // The named server fails: ask the redirector for another one.
                    history.trouble = Some(format!("{server}: {}", plain(&fault.error, &server)));
                    history.add(&stop.endpoint, reason);
                    if failed_before {
                        cancel::sleep(pause.min(left));
                        pause = (2 * pause).min(LONGEST_PAUSE);
                    }
                    (stop, hops, refresh, naming, passed) = (first.clone(), 0, !failed_before, true, 0);
                    continue;
                }
                if naming && !history.tried.is_empty() {
                    // No other server has the file. The failed ones get another chance.
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
}

fn changed(what: &str) -> Fault {
    Fault::lasting(Error::other(format!("the file was changed while it was read ({what})")))
}

/// Returns an answer with little data.
fn small(mut stream: Stream, quiet: Instant, deadline: Instant) -> Result<(Answer, Vec<u8>)> {
    let mut body = Vec::new();
    let answer = stream.finish(quiet, deadline, &mut |bytes| {
        body.extend_from_slice(bytes);
        true
    })?;
    Ok((answer.unwrap_or(Answer::Done), body))
}

/// Returns the text of an error without the server's name at its start.
fn plain(error: &Error, server: &str) -> String {
    let text = error.to_string();
    text.strip_prefix(&format!("{server}: ")).map_or(text.clone(), str::to_owned)
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
        let server = handle.session.endpoint.server();
        let named = |error: &Error| Error::new(error.kind(), format!("{server}: {error}"));
        match self.read(&handle, ranges, deadline, take) {
            Ok(None | Some(Answer::Done)) => Ok(()),
            Ok(Some(Answer::Wait(wait, why))) => {
                let left = deadline.saturating_duration_since(Instant::now());
                cancel::sleep(wait.clamp(SHORTEST_PAUSE, LONGEST_PAUSE).min(left));
                Err(Fault::learnt(format!("{server} asks to wait: {why}")))
            }
            Ok(Some(Answer::Redirect(target))) => {
                // The next server that is queried knows the current location of the file.
                self.lose(&handle, None);
                Err(Fault::learnt(format!("{server} redirects to {}", target.host)))
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
                format!("{server} sent an unexpected answer"),
            ))),
            Err(fault) => {
                if fault.again {
                    self.lose(&handle, Some(("srverr", &fault.error)));
                }
                Err(fault.at(&server))
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
        let first = || Some(Stop::first(self.addresses.get(self.replica())?, &self.who).endpoint.server());
        current.map(|handle| handle.session.endpoint.server()).or_else(first)
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
        let text = WireReader(&body).text();
        match answer {
            Answer::Done => {
                Ok(text.trim().split_once(' ').and_then(|(name, value)| Checksum::named(name, value)))
            }
            // The server has no checksum.
            Answer::Refused(no) if no.is(&["ArgInvalid", "InvalidRequest", "Unsupported"]) => Ok(None),
            Answer::Refused(no) => Err(refused(no)),
            _ => Err(Fault::passing(Error::other("the server keeps delaying the checksum"))),
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
