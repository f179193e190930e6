//! HTTP and HTTPS, and S3 through them.
//!
//! Ranges follow RFC 9110. A server may accept one range, ten or a thousand. It may answer with other ranges than
//! requested, or with the whole file. The limits of a server are learnt from its answers.

mod address;
mod answer;
mod date;
mod multipart;
mod proxy;
mod s3;

pub use s3::Keys;

use crate::lock;
use address::{is_secret, joined, origin, server_of, told};
use answer::{
    PIECE, WANTED, body, content_range, copy, encoding_of, fault, finish, forward, not_packed, promised,
    redirection, refused, version_of,
};
use proxy::Unusable;

use crate::cancel;
use crate::checksum::Checksum;
use crate::ledger::Ledger;
use crate::plan::Range;
use crate::process::PerProcess;
use crate::remote::{
    END, Fault, Opening, Options, Remote, SLOWEST, TOLD_APART, Transport, Version, next_in_turn,
    pause_before, retries_of_opening,
};
use crate::source::{self, Local, Source};
use crate::trace::Cause;
use crate::x509;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};
use ureq::http::{Response, StatusCode};
use ureq::tls::{ClientCert, RootCerts};
use ureq::{Agent, Body, ResponseExt};

/// Options for requesting files.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Headers of every request.
    pub headers: Vec<(String, String)>,
    /// Maximum bytes of the range header: servers refuse longer ones.
    pub header_bytes: usize,
    /// Maximum number of ranges in a request.
    pub ranges: usize,
    /// Keys for signing S3 requests.
    pub keys: Option<Keys>,
    /// Certificate for servers that request one.
    pub certificate: Option<ClientCert>,
}

impl Settings {
    /// Returns a server's words without the secrets of the request, which it may repeat.
    fn hidden(&self, words: String) -> String {
        let headers = self.headers.iter().filter(|(name, value)| is_secret(name, value));
        let values = headers.filter_map(|(_, value)| value.split_whitespace().last());
        let keys =
            self.keys.iter().flat_map(|keys| [Some(keys.secret.as_str()), keys.token.as_deref()]).flatten();
        let secrets = values.chain(keys).filter(|secret| secret.len() >= SHORTEST_SECRET);
        secrets.fold(words, |words, secret| words.replace(secret, "***"))
    }
}

impl Default for Settings {
    fn default() -> Self {
        // nginx and others accept 8 KiB for a line.
        Self { headers: Vec::new(), header_bytes: 7 << 10, ranges: 1000, keys: None, certificate: None }
    }
}

/// The error for a part of a file whose place is not stated, or contradicts itself.
const NO_RANGE: &str = "the answer has no valid Content-Range";
/// Minimum length of a secret that is looked for in a server's words: shorter ones may be parts of others.
const SHORTEST_SECRET: usize = 4;
/// Bytes of the first read, which also returns the file size.
const FIRST: u64 = 64 << 10;
/// Maximum bytes of a whole file from a server that does not report its size.
const ENDLESS: u64 = 1 << 30;
/// Maximum bytes that an answer may have between ranges.
const BETWEEN: u64 = 1 << 20;
/// Maximum number of redirections of a request.
const MOST_REDIRECTIONS: usize = 10;

/// Opens a file by its URL, or by several URLs of the same bytes. Problems are recorded in `ledger`, even if opening
/// fails.
pub fn open(
    urls: &[String],
    settings: &Settings,
    options: &Options,
    ledger: Ledger,
) -> Result<Arc<dyn Source>> {
    let Some(name) = urls.first() else { return Err(Error::new(ErrorKind::InvalidInput, "no URL")) };
    let first = Range { offset: 0, length: FIRST };
    let mut trouble = Error::other("not tried");
    for attempt in 0..=options.retries {
        // An attempt that took too long has closed its connections.
        let client = Client::new(settings, options);
        let (mut passing, mut pause, mut most, mut again) = (false, None, 0, false);
        for (at, url) in urls.iter().enumerate() {
            let http = Http {
                urls: urls.to_vec(),
                state: PerProcess::new(Mutex::new(State {
                    way: Way { number: 0, replica: at, url: url.clone() },
                    versions: Vec::new(),
                    client: client.clone(),
                    same: vec![at],
                    elsewhere: Vec::new(),
                })),
                version: None,
                start: Vec::new(),
                first: at,
                settings: settings.clone(),
                options: options.clone(),
                size: 0,
                ranges: AtomicUsize::new(settings.ranges.max(1)),
                cuts: AtomicUsize::new(0),
            };
            let began = Instant::now();
            let failed = |range: Range, again: bool, fault: &Fault| {
                ledger.ended(name, &[Range { length: 0, ..range }], Cause::Header, began);
                ledger.note(&[range], attempt + 1, again, &fault.error);
            };
            let mut beside = None;
            let begun = http.look(first, &mut beside);
            let repeated = match &begun {
                // Missing bytes are requested when they are needed.
                Ok(Begun::Ranged { transport, .. }) => transport.size > first.length,
                Ok(Begun::Whole(..)) => true,
                Err(fault) => {
                    passing |= fault.again;
                    pause = fault.after.or(pause);
                    most = most.max(retries_of_opening(&fault.error, options.retries));
                    let waits = pause.is_none_or(|pause| pause <= options.timeout);
                    again = passing && attempt < most && waits && !cancel::given_up();
                    // A failing URL is skipped, until all have failed.
                    again && at + 1 == urls.len()
                }
            };
            if let Some(fault) = beside {
                let size = match &begun {
                    Ok(Begun::Ranged { transport, .. }) => transport.size,
                    _ => END,
                };
                failed(Range { offset: size.saturating_sub(END), length: size.min(END) }, repeated, &fault);
            }
            match begun {
                Ok(Begun::Ranged { transport, openings, latency }) => {
                    let remote = Remote::new(transport, options.clone(), openings, ledger);
                    remote.answered_in(latency);
                    return Ok(Arc::new(remote));
                }
                Ok(Begun::Whole(file, version)) => {
                    return Ok(Arc::new(Local::of(file, name.clone(), ledger)?.known_as(version)));
                }
                Err(fault) => {
                    failed(first, repeated, &fault);
                    trouble = Error::new(fault.error.kind(), told(url, &fault.error));
                }
            }
        }
        if !again {
            break;
        }
        cancel::sleep(pause.unwrap_or_else(|| pause_before(attempt)));
    }
    Err(trouble)
}

/// What sends requests.
#[derive(Clone)]
struct Client {
    agent: Agent,
    unusable: Option<Unusable>,
}

impl Client {
    fn new(settings: &Settings, options: &Options) -> Self {
        Self { agent: agent(settings, options), unusable: Unusable::find() }
    }
}

fn agent(settings: &Settings, options: &Options) -> Agent {
    let tls = ureq::tls::TlsConfig::builder();
    let tls = if settings.certificate.is_some() || x509::grid_folder().is_some() {
        tls.root_certs(RootCerts::Specific(x509::roots())).client_cert(settings.certificate.clone())
    } else {
        tls.root_certs(RootCerts::PlatformVerifier)
    };
    let tls = tls.unversioned_rustls_crypto_provider(Arc::new(x509::provider())).build();
    Agent::config_builder()
        .http_status_as_error(false)
        .tls_config(tls)
        .user_agent(concat!("sapwood/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        // Redirections are followed here, where secret headers are known.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(options.timeout))
        .timeout_recv_response(Some(options.timeout))
        .timeout_per_read(Some(options.timeout))
        .max_idle_connections_per_host(options.workers + 4)
        .input_buffer_size(PIECE)
        .max_response_header_size(64 << 10)
        .build()
        .new_agent()
}

/// A file on a server, or the same file on several.
struct Http {
    urls: Vec<String>,
    state: PerProcess<Mutex<State>>,
    /// File version when it was opened, its first bytes, and the index of the URL.
    version: Option<Version>,
    start: Vec<u8>,
    first: usize,
    settings: Settings,
    options: Options,
    size: u64,
    /// Number of ranges that the server is assumed to accept in one request.
    ranges: AtomicUsize,
    /// Consecutive requests of several ranges for which the server closed the connection.
    cuts: AtomicUsize,
}

struct State {
    way: Way,
    /// Versions by server, for those that reported one; the first is from the server that opened the file.
    versions: Vec<Version>,
    client: Client,
    /// URLs verified to lead to the opened file, and URLs that lead to another one.
    same: Vec<usize>,
    elsewhere: Vec<usize>,
}

/// The destination of requests. Each request keeps the one it was sent to; its redirection counts only until that
/// destination was left.
#[derive(Clone)]
struct Way {
    /// Sequence number.
    number: u64,
    /// Index of the URL that it began with.
    replica: usize,
    /// URL after redirections.
    url: String,
}

/// The end of a file.
struct End {
    offset: u64,
    size: u64,
    version: Option<Version>,
    bytes: Vec<u8>,
}

enum Begun {
    Ranged { transport: Arc<Http>, openings: Vec<Opening>, latency: Duration },
    Whole(std::fs::File, Option<Version>),
}

impl Http {
    fn state(&self) -> MutexGuard<'_, State> {
        // A child neither uses nor closes the connections of its parent.
        let fresh = || State {
            way: Way {
                number: 0,
                replica: self.first,
                url: self.urls.get(self.first).cloned().unwrap_or_default(),
            },
            versions: self.version.clone().into_iter().collect(),
            client: Client::new(&self.settings, &self.options),
            same: vec![self.first],
            elsewhere: Vec::new(),
        };
        lock(self.state.get(|_| Mutex::new(fresh())))
    }

    fn get(&self, way: &Way, ranges: &str, limit: Duration) -> std::result::Result<Response<Body>, Fault> {
        self.send("GET", way, &[("range", ranges)], limit)
    }

    fn send(
        &self,
        method: &str,
        way: &Way,
        headers: &[(&'static str, &str)],
        limit: Duration,
    ) -> std::result::Result<Response<Body>, Fault> {
        let (end, mut url) = (Instant::now() + limit, way.url.clone());
        for _ in 0..=MOST_REDIRECTIONS {
            let left = end.saturating_duration_since(Instant::now());
            let response = self.send_to(method, &url, headers, left)?;
            let Some(to) = redirection(&response).map_err(|fault| fault.at(&server_of(&url)))? else {
                return Ok(response);
            };
            url = joined(&url, &to);
            finish(&mut response.into_body().into_reader());
        }
        Err(Fault::lasting(Error::other("too many redirects")).at(&server_of(&url)))
    }

    /// Sends a request to one server. Secrets are sent only to the servers that the user named, not to redirection
    /// targets.
    fn send_to(
        &self,
        method: &str,
        url: &str,
        headers: &[(&'static str, &str)],
        limit: Duration,
    ) -> std::result::Result<Response<Body>, Fault> {
        let Client { agent, unusable } = self.state().client.clone();
        // This check must follow the clone: a cancellation sets the flag first, and then shuts down the current agent.
        if cancel::given_up() {
            return Err(Fault::lasting(Error::from(ErrorKind::Interrupted)));
        }
        if let Some(proxy) = unusable {
            proxy.check(url)?;
        }
        let mut request = if method == "HEAD" { agent.head(url) } else { agent.get(url) };
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mine = self.urls.iter().any(|given| origin(given) == origin(url));
        for (name, value) in self.settings.headers.iter().filter(|(n, v)| mine || !is_secret(n, v)) {
            request = request.header(name, value);
        }
        if let Some(keys) = self.settings.keys.as_ref().filter(|_| mine) {
            for (name, value) in keys.sign(method, url, headers).map_err(Fault::lasting)? {
                request = request.header(name, value);
            }
        }
        request
            .config()
            .timeout_global(Some(limit))
            .build()
            .call()
            .map_err(|error| fault(error).at(&server_of(url)))
    }

    /// Reads the first bytes, and with them the properties of the file. A parallel request, which may fail
    /// independently, reads the last bytes.
    fn look(mut self, first: Range, beside: &mut Option<Fault>) -> std::result::Result<Begun, Fault> {
        let limit = self.options.timeout;
        let way = self.way();
        let began = Instant::now();
        let (response, latency, end) = thread::scope(|scope| {
            // The block cache may have the end of the file.
            let ask = || thread::Builder::new().spawn_scoped(scope, || self.end(&way));
            let end = self.options.blocks.is_none().then(ask).and_then(Result::ok);
            let response = self.get(&way, &format!("bytes=0-{}", first.length - 1), limit);
            (response, began.elapsed(), end.and_then(|end| end.join().ok()))
        });
        let end = end.and_then(|end| {
            end.unwrap_or_else(|fault| {
                *beside = Some(fault);
                None
            })
        });
        let response = response?;
        let status = response.status();
        let version = version_of(&way, &response);
        let led = response.get_uri().to_string();
        let server = server_of(&led);
        let place = content_range(response.headers());
        if let Some((Range { offset: 0, .. }, size)) = place.filter(|_| status.is_success()) {
            let range = Range { offset: 0, length: size.min(first.length) };
            let encoding = encoding_of(&response);
            let start = body(response, range).map_err(|fault| fault.at(&server))?;
            not_packed(encoding.as_deref(), &start).map_err(|fault| fault.at(&server))?;
            self.start = start.get(..TOLD_APART.min(start.len())).unwrap_or_default().to_vec();
            let mut openings = vec![Opening { began, pieces: vec![(0, start)] }];
            let tag = |version: &Option<Version>| version.as_ref().map(|version| version.tag.clone());
            if let Some(end) = end.filter(|end| end.size == size && tag(&end.version) == tag(&version)) {
                openings.push(Opening { began, pieces: vec![(end.offset, end.bytes)] });
            }
            self.size = size;
            self.version.clone_from(&version);
            self.state().versions.extend(version);
            self.lead(&way, led);
            return Ok(Begun::Ranged { transport: Arc::new(self), openings, latency });
        }
        if status == StatusCode::OK || status == StatusCode::RANGE_NOT_SATISFIABLE {
            // The server accepts no ranges (or the file is empty): fetch the whole file once.
            return self.whole(&way, response);
        }
        if status == StatusCode::PARTIAL_CONTENT {
            return Err(Fault::lasting(Error::other(NO_RANGE)).at(&server));
        }
        Err(refused(response, &self.settings))
    }

    /// Copies a file that a server delivers only as a whole.
    fn whole(&self, way: &Way, response: Response<Body>) -> std::result::Result<Begun, Fault> {
        let length = response.body().content_length();
        let is_short = length.is_some_and(|length| length <= FIRST);
        let response = if response.status() == StatusCode::RANGE_NOT_SATISFIABLE || is_short {
            response
        } else {
            // The duration was not foreseen.
            drop(response);
            self.get_whole(way, length)?
        };
        let server = server_of(&response.get_uri().to_string());
        self.watched(|received| copied(way, response, length, received)).map_err(|fault| fault.at(&server))
    }

    /// Does work that counts the bytes that it receives. If these arrive too slowly, the connection is closed, which ends
    /// the work.
    fn watched<T>(
        &self,
        work: impl FnOnce(&AtomicU64) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<T, Fault> {
        let (begin, received, late) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(false));
        let watch = &|ended: Receiver<()>| {
            loop {
                let bytes = received.load(Ordering::Relaxed);
                let patience = 2 * self.options.timeout + Duration::from_secs(bytes / SLOWEST);
                let Some(left) = patience.checked_sub(begin.elapsed()) else { break };
                if ended.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
            late.store(true, Ordering::Relaxed);
            self.interrupt();
        };
        let result = thread::scope(|scope| {
            let (end, ended) = mpsc::channel();
            // If the system refuses a thread, the limit of the whole request counts.
            let _watcher = thread::Builder::new().spawn_scoped(scope, move || watch(ended));
            let result = work(&received);
            drop(end);
            result
        });
        // The end of a closed connection looks like that of a file without a length.
        if late.load(Ordering::Relaxed) {
            let bytes = received.load(Ordering::Relaxed);
            let text = format!("only {bytes} bytes came in {} s", begin.elapsed().as_secs());
            return Err(Fault::passing(Error::new(ErrorKind::TimedOut, text)));
        }
        result
    }

    /// Requests a whole file of this length, if it is known.
    fn get_whole(&self, way: &Way, length: Option<u64>) -> std::result::Result<Response<Body>, Fault> {
        let limit = self.options.timeout + Duration::from_secs(length.unwrap_or(ENDLESS) / SLOWEST);
        let response = self.send("GET", way, &[&[("range", "bytes=0-")], &WANTED[..]].concat(), limit)?;
        let is_whole = |(range, size): (Range, u64)| range.offset == 0 && range.length == size;
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::PARTIAL_CONTENT if content_range(response.headers()).is_some_and(is_whole) => {
                Ok(response)
            }
            StatusCode::PARTIAL_CONTENT => {
                let server = server_of(&response.get_uri().to_string());
                Err(Fault::passing(Error::other(NO_RANGE)).at(&server))
            }
            _ => Err(refused(response, &self.settings)),
        }
    }

    /// Reads the last bytes, wherever they begin. Returns `None` if the server does not deliver them on their own.
    fn end(&self, way: &Way) -> std::result::Result<Option<End>, Fault> {
        let response = self.get(way, &format!("bytes=-{END}"), self.options.timeout)?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK
            | StatusCode::BAD_REQUEST
            | StatusCode::RANGE_NOT_SATISFIABLE
            | StatusCode::NOT_IMPLEMENTED => return Ok(None),
            _ => return Err(refused(response, &self.settings)),
        }
        let alone = |(range, size): &(Range, u64)| range.end() == *size && range.length <= END;
        let Some((range, size)) = content_range(response.headers()).filter(alone) else { return Ok(None) };
        let version = version_of(way, &response);
        let server = server_of(&response.get_uri().to_string());
        let bytes = body(response, range).map_err(|fault| fault.at(&server))?;
        Ok(Some(End { offset: range.offset, size, version, bytes }))
    }

    fn way(&self) -> Way {
        self.state().way.clone()
    }

    /// Follows a redirection for all later requests.
    ///
    /// Signed requests are signed for their first destination, so that each is redirected on its own.
    fn lead(&self, way: &Way, to: String) {
        let mut state = self.state();
        if self.settings.keys.is_none() && state.way.number == way.number {
            state.way.url = to;
        }
    }

    /// Whether a redirection led there.
    fn led(&self, way: &Way, to: &str) -> bool {
        self.urls.get(way.replica).is_some_and(|begin| begin != to)
    }

    /// Returns to the start of a redirected destination.
    fn lead_back(&self, way: &Way) {
        let mut state = self.state();
        if self.led(way, &way.url)
            && state.way.number == way.number
            && let Some(begin) = self.urls.get(way.replica)
        {
            state.way.url.clone_from(begin);
            state.way.number += 1;
        }
    }

    /// Formats as many ranges as fit into a request header.
    fn header(&self, ranges: &[Range]) -> (String, usize) {
        let mut text = String::from("bytes=");
        let most = self.ranges.load(Ordering::Relaxed).max(1);
        let mut taken = 0;
        for range in ranges.iter().take(most) {
            let one = format!("{}-{}", range.offset, range.end().saturating_sub(1));
            if taken > 0 && text.len() + one.len() + 1 > self.settings.header_bytes {
                break;
            }
            if taken > 0 {
                text.push(',');
            }
            text.push_str(&one);
            taken += 1;
        }
        (text, taken)
    }

    /// Records that a server accepted fewer ranges than requested.
    fn fewer(&self, ranges: usize) {
        self.ranges.fetch_min(ranges.max(1), Ordering::Relaxed);
        self.cuts.store(0, Ordering::Relaxed);
    }

    /// Counts connections closed by the server. The first may have other reasons; after the second, the request itself
    /// is assumed to be refused.
    fn cut_off(&self, fault: Fault, asked: usize) -> Fault {
        let closed = fault.again && fault.error.kind() != ErrorKind::TimedOut && asked > 1;
        if closed && self.cuts.fetch_add(1, Ordering::Relaxed) > 0 {
            self.fewer(if asked > 10 { 10 } else { 1 });
            return Fault::learnt(format!("{}, {asked} ranges requested", fault.error));
        }
        fault
    }

    /// Verifies that it is still the same file.
    fn verify(&self, now: Option<&Version>, size: u64) -> std::result::Result<(), Fault> {
        let changed = |what: &str| {
            Fault::lasting(Error::other(format!("the file was changed while it was read ({what})")))
        };
        if size != self.size {
            return Err(changed(&format!("it had {} bytes, now it has {size}", self.size)));
        }
        let Some(now) = now else { return Ok(()) };
        let mut state = self.state();
        match state.versions.iter().find(|before| before.of == now.of) {
            Some(before) if before != now => {
                Err(changed(&format!("it was version {}, now it is {}", before.tag, now.tag)))
            }
            Some(_) => Ok(()),
            None => {
                state.versions.push(now.clone());
                Ok(())
            }
        }
    }

    /// Verifies by the first bytes that a destination has the opened file, before other bytes from there are used.
    fn compare(&self, way: &Way, limit: Duration) -> std::result::Result<(), Fault> {
        if self.state().same.contains(&way.replica) {
            return Ok(());
        }
        let wanted = Range { offset: 0, length: self.start.len() as u64 };
        let mut start = Vec::new();
        if wanted.length > 0 {
            self.exchange(way, &[wanted], limit, &mut |at, bytes| {
                if at == start.len() as u64 {
                    start.extend_from_slice(bytes);
                }
                start.len() < self.start.len()
            })?;
        }
        if start.len() < self.start.len() {
            return Err(Fault::passing(Error::new(
                ErrorKind::UnexpectedEof,
                "the answer is shorter than the request",
            )));
        }
        let same = start.starts_with(&self.start);
        let mut state = self.state();
        if same {
            state.same.push(way.replica);
            return Ok(());
        }
        state.elsewhere.push(way.replica);
        let error = Error::other("this is another file of the same name: its first bytes differ");
        Err(Fault::lasting(error).at(&server_of(&way.url)))
    }

    /// Implements [`Transport::request`] for one destination.
    fn exchange(
        &self,
        way: &Way,
        ranges: &[Range],
        limit: Duration,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<(), Fault> {
        let (header, asked) = self.header(ranges);
        let response = self.get(way, &header, limit).map_err(|fault| {
            let fault = self.cut_off(fault, asked);
            if self.led(way, &way.url) && !fault.again { Fault::passing(fault.error) } else { fault }
        })?;
        self.cuts.store(0, Ordering::Relaxed);
        let status = response.status();
        let led = response.get_uri().to_string();
        let server = server_of(&led);
        match status {
            StatusCode::PARTIAL_CONTENT | StatusCode::OK => {}
            // The header is too long, or has more ranges than the server accepts.
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::URI_TOO_LONG
            | StatusCode::RANGE_NOT_SATISFIABLE
            | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            | StatusCode::NOT_IMPLEMENTED
                if asked > 1 =>
            {
                self.fewer(if asked > 10 { 10 } else { 1 });
                return Err(Fault::learnt(format!("{asked} ranges: {status}")).at(&server));
            }
            _ => {
                let fault = refused(response, &self.settings);
                return Err(if self.led(way, &led) && !fault.again {
                    Fault::passing(fault.error)
                } else {
                    fault
                });
            }
        }
        self.lead(way, led);
        self.answered(way, response, (ranges, asked), take).map_err(|fault| fault.at(&server))
    }

    /// Takes the answer to the first `asked` of some ranges.
    fn answered(
        &self,
        way: &Way,
        response: Response<Body>,
        (ranges, asked): (&[Range], usize),
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<(), Fault> {
        let status = response.status();
        let version = version_of(way, &response);
        if let Some(boundary) = multipart::boundary(response.headers()) {
            let mut parts = 0;
            let mut body = multipart::Parts::new(response.into_body().into_reader(), &boundary);
            // The bytes between two ranges may be included.
            let most = ranges.iter().take(asked).map(|r| r.length).fold(BETWEEN, u64::saturating_add);
            let unclear = |error: Error| {
                if error.kind() == ErrorKind::InvalidData && asked > 1 {
                    self.fewer(1);
                    return Fault::learnt(format!("{asked} ranges: {error}"));
                }
                Fault::passing(error)
            };
            let mut bytes = Vec::new();
            while let Some((range, size)) = body.next_part().map_err(unclear)? {
                self.verify(version.as_ref().filter(|_| parts == 0), size)?;
                if range.length > most {
                    let text = format!(
                        "the server sent a part of {} bytes, but at most {most} were requested",
                        range.length
                    );
                    return Err(unclear(Error::new(ErrorKind::InvalidData, text)));
                }
                // Neighbours may be merged.
                let inside = |r: &&Range| range.offset <= r.offset && r.end() <= range.end();
                parts += ranges.iter().take(asked).filter(inside).count().max(1);
                let mut wanted = || take(range.offset, &[]);
                if !body.part(range, &mut bytes, &mut wanted).map_err(unclear)? || !take(range.offset, &bytes)
                {
                    return Ok(());
                }
            }
            finish(&mut body);
            // Ranges may be omitted.
            if parts < asked {
                self.fewer(parts);
            }
            return Ok(());
        }
        let length = response.body().content_length();
        let (range, size) = match content_range(response.headers()) {
            Some(place) => place,
            None if status == StatusCode::OK => {
                // The whole file. Take the wanted bytes, but send no more such requests.
                if asked > 1 {
                    self.fewer(if asked > 10 { 10 } else { 1 });
                }
                let size = length.unwrap_or(self.size);
                (Range { offset: 0, length: size }, size)
            }
            None => return Err(Fault::passing(Error::other(NO_RANGE))),
        };
        self.verify(version.as_ref(), size)?;
        if asked > 1 && status != StatusCode::OK && ranges.iter().take(asked).any(|r| r.end() > range.end()) {
            self.fewer(1);
        }
        if status == StatusCode::OK
            && asked > 1
            && range.length > 2 * ranges.iter().map(|r| r.length).sum::<u64>()
        {
            return Err(Fault::learnt(format!("{asked} ranges requested: the server sent the whole file")));
        }
        let mut body = response.into_body().into_reader();
        if forward(&mut body, range, take)? {
            finish(&mut body);
        }
        Ok(())
    }
}

/// Copies the file in an answer to a temporary file. The answer that a range is not satisfiable means an empty file.
fn copied(
    way: &Way,
    response: Response<Body>,
    length: Option<u64>,
    received: &AtomicU64,
) -> std::result::Result<Begun, Fault> {
    let mut file = source::temporary().map_err(Fault::lasting)?;
    let version = version_of(way, &response);
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        return Ok(Begun::Whole(file, version));
    }
    let promised = promised(response.headers());
    let encoding = encoding_of(&response);
    let mut from = response.into_body().into_reader().take(length.unwrap_or(ENDLESS).saturating_add(1));
    copy(&mut from, &mut file, received)?;
    let copied = received.load(Ordering::Relaxed);
    if length.is_some_and(|length| length != copied) {
        return Err(Fault::passing(Error::new(ErrorKind::UnexpectedEof, "the connection was cut")));
    }
    if copied > ENDLESS && length.is_none() {
        return Err(Fault::lasting(Error::other(format!(
            "the server supports no ranges, does not report the size of the file, and sent more than {ENDLESS} bytes"
        ))));
    }
    file.flush().map_err(Fault::lasting)?;
    let mut start = [0; 4];
    let read = file.read_exact_at(&mut start, 0);
    not_packed(encoding.as_deref(), read.map_or(&[], |()| &start[..]))?;
    if let Some(promised) = promised {
        let found = promised.of(|take| source::read_all(&mut file, take));
        promised.check(&found.map_err(Fault::lasting)?).map_err(Fault::passing)?;
    }
    Ok(Begun::Whole(file, version))
}

impl Transport for Http {
    fn name(&self) -> &str {
        self.urls.first().map_or("", String::as_str)
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn most_ranges(&self) -> usize {
        // Two file offsets, a dash and a comma for each range.
        let digits = self.size.max(1).ilog10() as usize + 1;
        self.ranges.load(Ordering::Relaxed).min(self.settings.header_bytes / (2 * digits + 2)).max(1)
    }
    fn request(
        &self,
        ranges: &[Range],
        limit: Duration,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<(), Fault> {
        let way = self.way();
        let result = self.compare(&way, limit).and_then(|()| self.exchange(&way, ranges, limit, take));
        if result.as_ref().is_err_and(|fault| fault.again && fault.pause) {
            // A redirection target may have been temporary, or no longer exist.
            self.lead_back(&way);
        }
        result
    }
    fn replica(&self) -> usize {
        self.state().way.replica
    }
    fn replicas(&self) -> usize {
        self.urls.len() - self.state().elsewhere.len().min(self.urls.len() - 1)
    }
    fn leave_replica(&self, failed: usize) {
        let mut state = self.state();
        let next = next_in_turn(failed, self.urls.len(), &state.elsewhere);
        if state.way.replica == failed
            && let Some(replica) = next
            && let Some(url) = self.urls.get(replica)
        {
            state.way = Way { number: state.way.number + 1, replica, url: url.clone() };
        }
    }
    fn identity(&self) -> Option<Version> {
        self.version.clone()
    }
    fn server(&self) -> Option<String> {
        Some(server_of(&self.way().url))
    }
    fn promised(&self, limit: Duration) -> std::result::Result<Option<Checksum>, Fault> {
        let way = self.way();
        let response = self.send("HEAD", &way, &WANTED, limit)?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => return Ok(None),
            _ => return Err(refused(response, &self.settings)),
        }
        let size = response.headers().get("content-length").and_then(|size| size.to_str().ok()?.parse().ok());
        // Errors about another version do not apply to this one.
        self.verify(version_of(&way, &response).as_ref(), size.unwrap_or(self.size))?;
        Ok(promised(response.headers()))
    }
    fn mistrust(&self) {
        // The redirection target may be one of many.
        self.lead_back(&self.way());
    }
    fn interrupt(&self) {
        let client = Client::new(&self.settings, &self.options);
        std::mem::replace(&mut self.state().client, client).agent.shutdown();
    }
}
