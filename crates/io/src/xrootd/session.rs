//! A login on a server: one connection with many requests in flight, distinguished by their stream.

use super::auth::{self, Identity};
use super::link::Link;
use super::login::{FIRST_STREAM, HAS_PAGES, IS_SERVER, Login, Outcome, STANDS_BETWEEN};
use super::wire::{self, Answer, Frames, Head, WireReader, kind, status};
use crate::cancel::{self, LOOK};
use crate::ledger::said;
use crate::lock;
use crate::process::PerProcess;
use crate::remote::Fault;
use std::collections::{HashMap, HashSet};
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum bytes of an answer that is buffered completely.
pub(super) const MOST_BODY: usize = 1 << 20;
/// Maximum bytes of data in a small answer.
pub const SMALL: u64 = 64 << 10;
/// Bytes read from a connection at a time.
const PIECE: usize = 256 << 10;
/// Time to keep an unused connection.
const IDLE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_secs(5);

/// The location of a session, which identifies it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub tls: bool,
    pub who: Identity,
    /// Login token from a redirection.
    pub token: String,
}

impl Endpoint {
    /// Returns the server, for messages.
    pub fn server(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Maximum number and size of the ranges in a request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub elements: usize,
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { elements: 1024, bytes: (2 << 20) - wire::ELEMENT as u64 }
    }
}

impl Limits {
    /// Parses the answer to [`Limits::QUESTION`]: a number on each line, or a name that the server does not know.
    fn parse(text: &str) -> Self {
        let mut numbers = text.lines().map(|line| line.trim_matches('\0').trim().parse::<u64>().ok());
        let default = Self::default();
        let mut next = || numbers.next().flatten().filter(|n| *n > 0);
        let elements = next().map_or(default.elements, |n| n.min(1 << 16) as usize);
        Self { elements, bytes: next().map_or(default.bytes, |n| n.min(1 << 30)) }
    }
    const QUESTION: &str = "readv_iov_max readv_ior_max";
}

/// Events of a request.
enum Event {
    Data(Vec<u8>),
    Answer(Answer),
}

struct Slot {
    to: Sender<Event>,
    /// Sequence number of the request in the session.
    request: u64,
    /// Time of the last bytes for this request or an earlier one, because its answer may wait for those; in
    /// milliseconds since the start of the session.
    heard: Arc<AtomicU64>,
    /// Bytes of data that may still arrive.
    budget: u64,
    /// Whether the data are pages.
    paged: bool,
}

#[derive(Default)]
struct Streams {
    slots: HashMap<u16, Slot>,
    last: u16,
    /// Number of requests sent.
    requests: u64,
    /// The reason why no more requests can be sent, if any.
    over: Option<(ErrorKind, String)>,
}

impl Streams {
    /// Creates the slot for the answer to a request.
    fn begin(&mut self, session: &Arc<Session>, number: u16, ask: &Ask) -> Stream {
        let (to, receiver) = mpsc::channel();
        let heard = Arc::<AtomicU64>::default();
        let slot = Slot {
            to,
            request: self.requests,
            heard: heard.clone(),
            budget: ask.most,
            paged: ask.kind == kind::PGREAD,
        };
        self.slots.insert(number, slot);
        self.last = number;
        self.requests += 1;
        Stream { session: session.clone(), receiver, heard, until: None }
    }

    /// Whether an answer is awaited; some were lost, or are no longer needed.
    fn awaited(&self) -> bool {
        self.slots.values().any(|slot| Arc::strong_count(&slot.heard) > 1)
    }

    /// Records that bytes arrived for a request.
    fn hear(&self, stream: u16, now: u64) {
        let Some(request) = self.slots.get(&stream).map(|slot| slot.request) else { return };
        let behind = self.slots.values().filter(|slot| slot.request >= request);
        behind.for_each(|slot| slot.heard.store(now, Relaxed));
    }
}

/// A login on a server.
pub struct Session {
    pub endpoint: Endpoint,
    link: Link,
    streams: Mutex<Streams>,
    began: Instant,
    /// Time of the last bytes, in milliseconds since the start.
    heard: AtomicU64,
    /// The pending query for limits, and the limits.
    asked: Mutex<Option<Stream>>,
    limits: OnceLock<Limits>,
    /// Server handles of the open files.
    open: Mutex<HashSet<u32>>,
    /// The error that ended an earlier connection, on which requests were sent with the login.
    pub stumbled: Mutex<Option<Error>>,
    /// Latency of the first answer.
    pub latency: Duration,
    /// Whether the server has files of its own, and is not only a redirector.
    pub stores: bool,
    /// Whether it is a proxy that forwards requests to another server.
    pub stands_between: bool,
    /// Whether it returns pages with checksums and these are useful.
    pub has_pages: AtomicBool,
    /// Its address: one name may stand for several servers.
    pub peer: String,
}

/// A request, with the maximum bytes of data in its answer.
pub struct Ask {
    pub kind: u16,
    pub parameters: Vec<u8>,
    pub body: Vec<u8>,
    pub most: u64,
}

/// A request in progress. If it is dropped before its end, the answer is ignored.
pub struct Stream {
    session: Arc<Session>,
    receiver: Receiver<Event>,
    /// Shared with its slot.
    heard: Arc<AtomicU64>,
    until: Option<Instant>,
}

/// Sessions of this process, by location and identity.
type Key = (Endpoint, Vec<Option<std::ffi::OsString>>);
type Door = Arc<Mutex<Option<Arc<Session>>>>;
#[derive(Default)]
struct Pool {
    doors: Mutex<HashMap<Key, Door>>,
}

/// Returns the pool. A forked process has its own: neither threads nor connections are shared.
fn pool() -> &'static Pool {
    static POOL: PerProcess<Pool> = PerProcess::empty();
    POOL.get(|_| Pool::default())
}

impl Ask {
    pub(super) fn bytes(&self, stream: u16) -> Vec<u8> {
        wire::request(stream, self.kind, &self.parameters, &self.body)
    }
}

impl Session {
    /// Returns a session for a location: an existing or a new one.
    pub fn at(endpoint: &Endpoint, deadline: Instant) -> std::result::Result<Arc<Self>, Fault> {
        Self::asked(endpoint, &|_| Vec::new(), deadline).map(|(session, _)| session)
    }

    /// Like [`Self::at`], and sends requests together; for a new session with the login, if possible. `asks` receives
    /// the handle that the server is expected to assign to the next opened file.
    pub fn asked(
        endpoint: &Endpoint,
        asks: &dyn Fn([u8; 4]) -> Vec<Ask>,
        deadline: Instant,
    ) -> std::result::Result<(Arc<Self>, Vec<Stream>), Fault> {
        let (session, streams) = Self::find(endpoint, &asks([0; 4]), deadline)?;
        if !streams.is_empty() {
            return Ok((session, streams));
        }
        let streams = session.ask_together(&asks(session.next_id())).map_err(|error| {
            Fault::passing(Error::new(error.kind(), format!("{}: {error}", endpoint.server())))
        })?;
        Ok((session, streams))
    }

    fn find(
        endpoint: &Endpoint,
        ahead: &[Ask],
        deadline: Instant,
    ) -> std::result::Result<(Arc<Self>, Vec<Stream>), Fault> {
        let key = (endpoint.clone(), auth::surroundings());
        let door = lock(&pool().doors).entry(key).or_default().clone();
        let mut slot = lock(&door);
        if let Some(session) = slot.as_ref().filter(|session| session.over().is_none()) {
            return Ok((session.clone(), Vec::new()));
        }
        let (session, streams) = Self::begin(endpoint, ahead, deadline).map_err(|fault| Fault {
            error: Error::new(fault.error.kind(), format!("{}: {}", endpoint.server(), fault.error)),
            ..fault
        })?;
        Ok((slot.insert(session).clone(), streams))
    }

    fn begin(
        endpoint: &Endpoint,
        ahead: &[Ask],
        deadline: Instant,
    ) -> std::result::Result<(Arc<Self>, Vec<Stream>), Fault> {
        let mut tls = endpoint.tls;
        // The limits are requested together with the login, too.
        let limits = Ask {
            kind: kind::QUERY,
            parameters: vec![0, 7],
            body: Limits::QUESTION.as_bytes().to_vec(),
            most: SMALL,
        };
        let mut bold: Vec<&Ask> = Vec::new();
        if !ahead.is_empty() && auth::only_unix(&endpoint.who) {
            bold.push(&limits);
            bold.extend(ahead);
        }
        let mut stumbled = None;
        loop {
            let link = Link::connect(&endpoint.host, endpoint.port, deadline).map_err(Fault::passing)?;
            match Login::perform(link, endpoint, tls, &bold, deadline) {
                Ok(Outcome::In { link, flags, latency }) => {
                    let stores = flags & IS_SERVER != 0;
                    // TLS has its own checksums.
                    let has_pages = flags & HAS_PAGES != 0 && !link.encrypted();
                    let peer = link.peer_address().map_err(Fault::passing)?;
                    let session = Self {
                        endpoint: endpoint.clone(),
                        link,
                        streams: Mutex::default(),
                        began: Instant::now(),
                        heard: AtomicU64::new(0),
                        asked: Mutex::default(),
                        limits: OnceLock::new(),
                        open: Mutex::default(),
                        stumbled: Mutex::new(stumbled),
                        latency,
                        stores,
                        stands_between: flags & STANDS_BETWEEN != 0,
                        has_pages: AtomicBool::new(has_pages),
                        peer,
                    };
                    let ask = (stores && bold.is_empty()).then_some(&limits);
                    return Arc::new(session).start(&bold, ask).map_err(Fault::passing);
                }
                Ok(Outcome::WantsTls) if !tls => tls = true,
                Ok(Outcome::WantsTls) => {
                    let message = "the server requires TLS but does not support it";
                    return Err(Fault::lasting(Error::new(ErrorKind::PermissionDenied, message)));
                }
                Err(fault) if fault.error.kind() == ErrorKind::TimedOut || bold.is_empty() => {
                    return Err(fault);
                }
                Ok(Outcome::TooBold) => bold.clear(),
                // The combined requests may have been too much.
                Err(fault) => {
                    stumbled = Some(fault.error);
                    bold.clear();
                }
            }
        }
    }

    /// Starts the session. `sent` are requests already in progress, the first for the limits; if empty, the limits are
    /// requested now.
    fn start(self: Arc<Self>, sent: &[&Ask], limits: Option<&Ask>) -> Result<(Arc<Self>, Vec<Stream>)> {
        let session = self;
        session.link.limit(Some(TICK))?;
        let mut streams = Vec::new();
        for (number, ask) in (FIRST_STREAM..).zip(sent) {
            streams.push(session.streams().begin(&session, number, ask));
        }
        if !streams.is_empty() {
            *lock(&session.asked) = Some(streams.remove(0));
        }
        let reader = session.clone();
        thread::Builder::new().name("sapwood-xrootd".to_owned()).spawn(move || reader.listen())?;
        if let Some(ask) = limits {
            // The answer arrives by the time the first file is open.
            *lock(&session.asked) = session.ask_together(std::slice::from_ref(ask))?.pop();
        }
        Ok((session, streams))
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        lock(&self.streams)
    }

    /// Returns the reason why no more requests can be sent, if any.
    pub fn over(&self) -> Option<(ErrorKind, String)> {
        self.streams().over.clone()
    }

    /// Returns the limits of the server; waits a short time for the answer.
    pub fn limits(&self, deadline: Instant) -> Limits {
        // Other threads wait meanwhile, too: they must not request more than the limits.
        let mut asked = lock(&self.asked);
        let Some(stream) = asked.as_mut() else { return self.limits.get().copied().unwrap_or_default() };
        let mut text = Vec::new();
        let answer = stream.finish(deadline, deadline, &mut |bytes| {
            text.extend_from_slice(bytes);
            true
        });
        let limits = match answer {
            Ok(Some(Answer::Done)) => Limits::parse(&String::from_utf8_lossy(&text)),
            // Cancelled; the next caller continues to wait.
            Ok(None) => return Limits::default(),
            _ => Limits::default(),
        };
        asked.take();
        *self.limits.get_or_init(|| limits)
    }

    /// Sends a request.
    pub fn ask(self: &Arc<Self>, ask: Ask) -> Result<Stream> {
        let stream = self.ask_together(&[ask])?.pop();
        stream.ok_or_else(|| Error::other("the request is empty"))
    }

    /// Sends requests back to back, with no other between them.
    pub fn ask_together(self: &Arc<Self>, asks: &[Ask]) -> Result<Vec<Stream>> {
        let mut bytes = Vec::new();
        let mut begun = Vec::new();
        for ask in asks {
            let mut streams = self.streams();
            if let Some((kind, why)) = &streams.over {
                return Err(Error::new(*kind, why.clone()));
            }
            let mut number = streams.last.wrapping_add(1);
            while streams.slots.contains_key(&number) {
                number = number.wrapping_add(1);
                if number == streams.last {
                    return Err(Error::other("too many requests are in progress"));
                }
            }
            bytes.extend_from_slice(&ask.bytes(number));
            begun.push(streams.begin(self, number, ask));
        }
        if let Err(error) = self.link.send(&bytes) {
            self.end(error.kind(), &error.to_string());
            return Err(error);
        }
        Ok(begun)
    }

    /// Predicts the handle of the next opened file: servers use the lowest free number.
    ///
    /// This is a guess. A read sent immediately after an opening reads from that file only if the guess is right.
    fn next_id(&self) -> [u8; 4] {
        let open = lock(&self.open);
        (0..=u32::MAX).find(|id| !open.contains(id)).unwrap_or(u32::MAX).to_le_bytes()
    }

    /// Records that a file is open, or no longer open.
    pub fn note_open(&self, id: [u8; 4], is: bool) {
        let (mut open, id) = (lock(&self.open), u32::from_le_bytes(id));
        if is {
            open.insert(id)
        } else {
            open.remove(&id)
        };
    }

    /// Ends the session; all waiting threads are notified.
    pub fn end(&self, kind: ErrorKind, why: &str) {
        let mut streams = self.streams();
        streams.over.get_or_insert_with(|| (kind, why.to_owned()));
        streams.slots.clear();
        drop(streams);
        self.link.shut();
        // The thread that holds it waits for the end.
        let unread = self.asked.try_lock().ok().and_then(|mut asked| asked.take());
        drop(unread);
    }

    fn listen(self: Arc<Self>) {
        let mut buffer = vec![0; PIECE];
        let mut frames = Frames::default();
        let mut body = Vec::new();
        let mut used = Instant::now();
        let why = loop {
            let result = self.link.receive(&mut buffer).and_then(|n| {
                self.heard.store(self.now(), Relaxed);
                let new = buffer.get(..n).unwrap_or_default();
                frames.feed(new, &mut |head, bytes, last| self.put(head, bytes, last, &mut body))
            });
            match result {
                Ok(()) => used = Instant::now(),
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    if self.streams().awaited() {
                        used = Instant::now();
                    } else if used.elapsed() > IDLE {
                        break Error::other("the connection was not used");
                    }
                }
                Err(error) => break error,
            }
        };
        self.end(why.kind(), &why.to_string());
        self.forget();
    }

    /// Makes others start a new session for the same location.
    fn forget(self: &Arc<Self>) {
        let pool = pool();
        let doors: Vec<Door> = lock(&pool.doors).values().cloned().collect();
        for door in doors {
            let mut slot = lock(&door);
            if slot.as_ref().is_some_and(|session| Arc::ptr_eq(session, self)) {
                slot.take();
            }
        }
    }

    /// Takes a piece of an answer; `body` collects an answer that is processed as a whole.
    fn put(&self, head: Head, bytes: &[u8], last: bool, body: &mut Vec<u8>) -> Result<()> {
        if matches!(head.status, status::OK | status::OK_SO_FAR) {
            return self.data(head, bytes, last);
        }
        if body.len() + bytes.len() > MOST_BODY {
            return Err(Error::new(ErrorKind::InvalidData, "the server sent an answer that is too long"));
        }
        body.extend_from_slice(bytes);
        if !last {
            return Ok(());
        }
        let body = std::mem::take(body);
        if head.status != status::ATTENTION {
            return self.answer(head, &body);
        }
        let mut from = WireReader(&body);
        match from.u32()? {
            wire::ASYNC_RESPONSE => {
                from.u32()?;
                let head = Head::parse(&mut from)?;
                let inner = from.take(head.length as usize)?;
                match head.status {
                    status::OK | status::OK_SO_FAR => self.data(head, inner, true),
                    status::ATTENTION => Err(Error::new(
                        ErrorKind::InvalidData,
                        "the server sent an answer inside of another answer",
                    )),
                    _ => self.answer(head, inner),
                }
            }
            end if wire::ASYNC_ENDS.contains(&end) => Err(Error::new(
                ErrorKind::ConnectionAborted,
                format!("the server ends the session: {}", said(&from.text())),
            )),
            _ => Ok(()),
        }
    }

    /// Milliseconds since the start of the session.
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn data(&self, head: Head, bytes: &[u8], last: bool) -> Result<()> {
        let mut streams = self.streams();
        streams.hear(head.stream, self.now());
        let Some(slot) = streams.slots.get_mut(&head.stream) else { return Ok(()) };
        if head.paged != slot.paged {
            return Err(Error::new(
                ErrorKind::InvalidData,
                "the server sent data of another kind than requested",
            ));
        }
        slot.budget = slot
            .budget
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| Error::new(ErrorKind::InvalidData, "the answer is longer than the request"))?;
        if !bytes.is_empty() {
            // The requesting thread may be gone.
            let _ = slot.to.send(Event::Data(bytes.to_vec()));
        }
        if last && head.status == status::OK {
            let _ = slot.to.send(Event::Answer(Answer::Done));
            streams.slots.remove(&head.stream);
        }
        Ok(())
    }

    fn answer(&self, head: Head, body: &[u8]) -> Result<()> {
        let answer = Answer::parse(head.status, body)?;
        let mut streams = self.streams();
        streams.hear(head.stream, self.now());
        let Some(slot) = streams.slots.get(&head.stream) else { return Ok(()) };
        let more = matches!(answer, Answer::Later(_));
        let _ = slot.to.send(Event::Answer(answer));
        if !more {
            streams.slots.remove(&head.stream);
        }
        Ok(())
    }
}

impl Stream {
    /// Waits for the answer and passes on its data as it arrives. Returns `None` if `take` wants no more.
    ///
    /// Returns an error if nothing arrives by `quiet`, neither for this request nor for earlier ones, or for as long
    /// again after the last bytes; or at `deadline`. If nothing at all arrived, the session has ended.
    pub fn finish(
        &mut self,
        quiet: Instant,
        deadline: Instant,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<Option<Answer>> {
        let patience = quiet.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let mut since = Instant::now();
        loop {
            let until = self.until.unwrap_or(since + patience).min(deadline);
            let left = until.saturating_duration_since(Instant::now());
            match self.receiver.recv_timeout(left.min(LOOK)) {
                Ok(Event::Data(bytes)) => {
                    since = Instant::now();
                    if !take(&bytes) {
                        return Ok(None);
                    }
                }
                Ok(Event::Answer(Answer::Later(wait))) => self.until = Some(Instant::now() + wait + patience),
                Ok(Event::Answer(answer)) => return Ok(Some(answer)),
                Err(RecvTimeoutError::Disconnected) => {
                    let (kind, why) =
                        self.session.over().unwrap_or((ErrorKind::Other, "no answer".to_owned()));
                    return Err(Error::new(kind, why));
                }
                Err(RecvTimeoutError::Timeout) if cancel::given_up() => return Ok(None),
                Err(RecvTimeoutError::Timeout) if left > LOOK => {}
                Err(RecvTimeoutError::Timeout) => {
                    let at =
                        |heard: &AtomicU64| self.session.began + Duration::from_millis(heard.load(Relaxed));
                    let heard = at(&self.heard);
                    if heard > since && Instant::now() < deadline {
                        since = heard;
                        continue;
                    }
                    if at(&self.session.heard) + patience <= Instant::now() {
                        self.session.end(ErrorKind::TimedOut, "timeout: no data arrived");
                    }
                    return Err(Error::new(ErrorKind::TimedOut, "timeout: no data arrived in time"));
                }
            }
        }
    }
}
