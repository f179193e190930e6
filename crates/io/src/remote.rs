//! Storage far away: what is announced is fetched ahead, in few requests; what fails is tried again.

mod imagined;
mod pace;
mod scatter;
mod tries;

use crate::blocks::{self, Blocks};
use crate::cancel::{self, Token};
use crate::checksum::Checksum;
use crate::counters::Counters;
use crate::ledger::{Incident, Ledger};
use crate::plan::{Range, Request, coalesce};
use crate::prior;
use crate::process::PerProcess;
use crate::source::{self, Source};
use crate::trace::Cause;
pub use imagined::imagined;
use pace::Pace;
pub use pace::USUAL;
use scatter::Scatter;
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tries::Tries;
pub use tries::{BEFORE_LEAVING, next_in_turn, pause_before, retries_of_opening};

/// A way to storage: sends one request at a time from each thread that asks.
pub trait Transport: Send + Sync {
    /// Path or URL, for messages.
    fn name(&self) -> &str;
    /// Length in bytes.
    fn size(&self) -> u64;
    /// The most ranges that a request may ask for, as far as is known.
    fn most_ranges(&self) -> usize;
    /// Sends one request for `ranges`, which rise, and hands over what comes: where in the file, and bytes.
    ///
    /// It may be more or less than was asked for. Ends early when `take` gives false. `limit` is all the time it has.
    fn request(
        &self,
        ranges: &[Range],
        limit: Duration,
        take: &mut dyn FnMut(u64, &[u8]) -> bool,
    ) -> std::result::Result<(), Fault>;
    /// Which of several ways to the same bytes is taken now.
    fn replica(&self) -> usize {
        0
    }
    /// How many ways there are, those left out that were seen to lead to another file.
    fn replicas(&self) -> usize {
        1
    }
    /// Takes the way after `failed` from now on, in turn, if there is another one and that was not left already.
    fn leave_replica(&self, _failed: usize) {}
    /// Which version of the file it is, if storage says so.
    fn identity(&self) -> Option<Version> {
        None
    }
    /// Who is asked now: host and port.
    fn server(&self) -> Option<String> {
        None
    }
    /// What is to be listed of requests that brought their bytes all the same; once.
    fn remarks(&self) -> Vec<Error> {
        Vec::new()
    }
    /// What the bytes of the whole file come to, as storage says now; nothing if it has no such thing.
    fn promised(&self, _limit: Duration) -> std::result::Result<Option<Checksum>, Fault> {
        Ok(None)
    }
    /// Notes that a copy of the whole file was not what was promised: another server is asked, if there is one.
    fn mistrust(&self) {}
    /// Ends the requests that are under way, at once; they fail. Later ones are sent as ever.
    fn interrupt(&self) {}
    /// Gives up what a server holds open for the file: no more will be asked.
    fn close(&self) {}
}

/// The version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Who says so: each server numbers versions in its own way.
    pub of: String,
    /// An `ETag`, or a date of change, with a number if there is one.
    pub tag: String,
}

/// Why a request failed.
#[derive(Debug)]
pub struct Fault {
    /// Whether trying again may help.
    pub again: bool,
    /// Whether to wait before that.
    pub pause: bool,
    /// How long, if the server says it.
    pub after: Option<Duration>,
    /// What happened.
    pub error: Error,
}

impl Fault {
    /// One that may pass.
    pub fn passing(error: impl Into<Error>) -> Self {
        Self { again: true, pause: true, after: None, error: error.into() }
    }
    /// One that comes of the way of asking, which is another one from now on.
    pub fn learnt(message: impl Into<String>) -> Self {
        Self { again: true, pause: false, after: None, error: Error::other(message.into()) }
    }
    /// One that will not.
    pub fn lasting(error: impl Into<Error>) -> Self {
        Self { again: false, pause: false, after: None, error: error.into() }
    }
}

/// How storage far away is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// The longest wait for anything to come. A request as a whole, with those in its place, has twice this and the time of
    /// its bytes at 64 KiB/s.
    pub timeout: Duration,
    /// How often a request is sent again that brought nothing new.
    pub retries: u32,
    /// Bytes that may be fetched ahead.
    pub ahead: u64,
    /// Requests in flight for what is fetched ahead.
    pub workers: usize,
    /// How long an operation may take as a whole.
    pub deadline: Option<Duration>,
    /// Where blocks are kept for the next time.
    pub blocks: Option<Arc<blocks::Folder>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            retries: 8,
            ahead: 128 << 20,
            workers: 4,
            deadline: None,
            blocks: None,
        }
    }
}

/// The slowest transfer that is waited for, in bytes a second.
const SLOWEST: u64 = 64 << 10;
/// How often a thread that waits looks whether anybody still wants it to.
const LOOK: Duration = Duration::from_millis(50);
/// Bytes of a request, if no range alone is larger: what ROOT makes a cluster by default.
const LARGEST: u64 = 32 << 20;
/// Bytes of a request, if as many are wanted: smaller ones would only be more.
const SMALLEST: u64 = 4 << 20;
/// Bytes of a file's start that are compared before another way to it is believed: ROOT has a number of the file's own in
/// them (`fUUID`).
pub const TOLD_APART: usize = 512;
/// How often a file is copied again from the same place that was not what had been promised.
const MOST_COPIES: u32 = 1;
/// What is read around a record of the file's own: others often lie beside it.
const WINDOW: u64 = 256 << 10;
/// Windows that are kept.
const WINDOWS: usize = 6;
/// What of the end of a file is read with the first of its records, if it was not when it was opened: most of them lie there.
pub const END: u64 = 256 << 10;

/// A request by which a file was opened, and what it brought: bytes, with where they begin.
pub struct Opening {
    /// When it was sent.
    pub began: Instant,
    /// What it brought.
    pub pieces: Vec<(u64, Vec<u8>)>,
}

/// A file in storage far away.
pub struct Remote {
    shared: PerProcess<Arc<Shared>>,
    transport: Arc<dyn Transport>,
    options: Options,
    blocks: Option<Arc<Blocks>>,
    name: String,
    size: u64,
    counters: Arc<Counters>,
    /// Bytes that were announced so far.
    wanted: AtomicU64,
}

struct Shared {
    transport: Arc<dyn Transport>,
    options: Options,
    pace: Pace,
    state: Mutex<State>,
    changed: Condvar,
    ledger: Ledger,
    blocks: Option<Arc<Blocks>>,
    closed: AtomicBool,
    /// Bytes that came, whether wanted or not.
    came: AtomicU64,
    /// Bytes that came of those that were to be fetched ahead.
    filled: AtomicU64,
    born: Instant,
    /// When the newest request for such bytes began to come, in nanoseconds since then.
    flowing: AtomicU64,
}

#[derive(Default)]
struct State {
    /// What is announced.
    pieces: HashMap<Range, Piece>,
    /// What is to be asked for, waits to be used, or is on its way, of each announcement; the oldest first.
    lanes: Vec<Lane>,
    /// The number of the last lane.
    lane: u64,
    /// Threads that fetch ahead.
    workers: usize,
    /// Threads that fetch what they need themselves.
    direct: usize,
    /// Gives up what is being fetched ahead.
    token: Token,
    /// Requests in flight that fetch ahead.
    flying: usize,
    /// Bytes that these and those before them were sent for.
    asked: u64,
    /// The number of the last of them.
    flight: u64,
    /// Bytes that had come when it was sent.
    landed: u64,
    /// What was read around records, the newest last.
    windows: VecDeque<(u64, Arc<[u8]>)>,
    /// What will be wanted of the file's own records, and is read with the next of them.
    soon: Vec<Range>,
    /// What somebody has fetched already and is here for others; the oldest first.
    kept: VecDeque<Range>,
}

/// What one announcement is still to bring: each has its part of the memory, so that several trees of a file, or several
/// readings, do not keep each other waiting.
#[derive(Default)]
struct Lane {
    number: u64,
    /// What is still to be asked for.
    queue: VecDeque<Range>,
    /// Bytes for each thread, when the queue was made.
    share: u64,
    /// Requests that were sent already.
    sent: u32,
    /// Bytes that are in flight or wait to be used.
    held: u64,
    /// Nothing of it is of use before all of it is there.
    together: bool,
    /// Somebody waits for what is queued.
    wanted: bool,
}

impl State {
    /// The lane that the next request is for, if any may be sent: one that somebody waits for, or else the oldest that
    /// has not had its part of the memory, or else the oldest. Where others have all of it, one that has nothing at all
    /// gets a request nevertheless.
    fn next_lane(&self, memory: u64) -> Option<&Lane> {
        let held = self.lanes.iter().map(|lane| lane.held).fold(0, u64::saturating_add);
        let part = self.part(memory);
        let queued = || self.lanes.iter().filter(|lane| !lane.queue.is_empty());
        if held >= memory {
            return queued().find(|lane| lane.wanted && lane.held == 0);
        }
        let wanted = queued().find(|lane| lane.wanted);
        wanted.or_else(|| queued().find(|lane| lane.held < part)).or_else(|| queued().next())
    }

    /// What each lane may have of the memory.
    fn part(&self, memory: u64) -> u64 {
        memory / self.lanes.len().max(1) as u64
    }

    fn lane(&mut self, number: u64) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.number == number)
    }

    /// Lets go of what is here for somebody who comes later, until more may be fetched for those who are ahead.
    fn make_room(&mut self, memory: u64) {
        while self.lanes.iter().map(|lane| lane.held).fold(0, u64::saturating_add) >= memory
            && let Some(range) = self.kept.pop_front()
        {
            let Some(piece) = self.pieces.get_mut(&range) else { continue };
            if piece.taken && matches!(piece.place, Place::Here(_)) {
                piece.place = Place::Gone;
                let lane = piece.lane;
                self.release(lane, range.length);
            }
        }
    }

    /// Queues again what was let go, for those who come later.
    fn fetch_again(&mut self) -> Option<VecDeque<Range>> {
        self.lane += 1;
        let number = self.lane;
        let gone = self.pieces.iter_mut().filter(|(_, piece)| matches!(piece.place, Place::Gone));
        let mut queue: Vec<Range> = gone
            .map(|(range, piece)| {
                (piece.place, piece.lane, piece.taken) = (Place::Queued, number, false);
                *range
            })
            .collect();
        queue.sort();
        (!queue.is_empty()).then(|| queue.into())
    }

    /// What was held is no longer.
    fn release(&mut self, number: u64, bytes: u64) {
        if let Some(lane) = self.lane(number) {
            lane.held -= bytes;
        }
        self.lanes.retain(|lane| lane.held > 0 || !lane.queue.is_empty());
    }

    /// Ranges that are still to be asked for.
    fn queued(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue.len()).sum()
    }
}

struct Piece {
    /// In which lane it was queued.
    lane: u64,
    /// How often it stands in announcements that are not dropped yet.
    announced: usize,
    /// How often it is still to be fetched.
    uses: usize,
    /// Whether anybody has fetched it since it came.
    taken: bool,
    place: Place,
}

enum Place {
    Queued,
    /// In the request of this number.
    Flying(u64),
    Here(Arc<Vec<u8>>),
    Failed(ErrorKind, String),
    Used,
    /// It was here, and had to make room before all had fetched it.
    Gone,
}

/// Ranges that are fetched ahead as long as this lives.
pub struct Announced {
    shared: Arc<Shared>,
    ranges: Vec<Range>,
    /// The process that announced them.
    process: u32,
}

impl Drop for Announced {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A fork has none of the threads that fetch, and a lock may be held by one of them.
            std::mem::forget(self.shared.clone());
            return;
        }
        let mut state = self.shared.state();
        for range in &self.ranges {
            let Some(piece) = state.pieces.get_mut(range) else { continue };
            piece.announced -= 1;
            piece.uses = piece.uses.min(piece.announced);
            if piece.announced == 0 {
                // One in flight is let go when it comes.
                let held = matches!(piece.place, Place::Here(_) | Place::Flying(_));
                let lane = piece.lane;
                state.pieces.remove(range);
                state.release(lane, if held { range.length } else { 0 });
            }
        }
        let State { lanes, pieces, kept, .. } = &mut *state;
        lanes.iter_mut().for_each(|lane| lane.queue.retain(|range| pieces.contains_key(range)));
        kept.retain(|range| pieces.contains_key(range));
        lanes.retain(|lane| lane.held > 0 || !lane.queue.is_empty());
        self.shared.changed.notify_all();
        if state.pieces.is_empty() && state.workers > 0 && state.direct == 0 {
            // What is under way is for nobody.
            std::mem::take(&mut state.token).give_up();
            self.shared.transport.interrupt();
        }
    }
}

impl Remote {
    /// Reads by way of `transport`, of which something was read already; `ledger` has what did not go well at that.
    pub fn new(
        transport: Arc<dyn Transport>,
        options: Options,
        openings: Vec<Opening>,
        ledger: Ledger,
    ) -> Self {
        let counters = ledger.counters().clone();
        let (name, size) = (transport.name().to_owned(), transport.size());
        let kept = options.blocks.as_ref().zip(transport.identity());
        // A folder that cannot be used is no reason not to read.
        let blocks =
            kept.and_then(|(folder, version)| folder.file(&name, &version.tag, size).ok()).map(Arc::new);
        let several = transport.most_ranges() > 1;
        let shared = Shared::new(transport.clone(), options.clone(), ledger, blocks.clone());
        let end = Range { offset: size.saturating_sub(END), length: size.min(END) };
        shared.state().soon.extend(Some(end).filter(|_| several));
        for Opening { began, pieces } in openings {
            let spans: Vec<Range> = pieces
                .iter()
                .map(|(offset, bytes)| Range { offset: *offset, length: bytes.len() as u64 })
                .filter(|span| span.length > 0)
                .collect();
            shared.ledger.ended(&name, &spans, Cause::Header, began);
            let mut state = shared.state();
            if spans.iter().any(|span| span.end() == size) {
                state.soon.clear();
            }
            let windows = pieces.into_iter().filter(|(_, bytes)| !bytes.is_empty());
            state.windows.extend(windows.map(|(start, bytes)| (start, bytes.into())));
        }
        let shared = PerProcess::new(Arc::new(shared));
        Self { shared, transport, options, blocks, name, size, counters, wanted: AtomicU64::new(0) }
    }

    /// Takes into account how long a request took that was sent before this was made.
    pub fn answered_in(&self, latency: Duration) {
        self.shared().pace.suppose(latency, None);
    }

    /// What threads share; made anew in a forked process, which has none of the threads and none of the connections.
    fn shared(&self) -> Arc<Shared> {
        let anew = || {
            let ledger = Ledger::of(self.counters.clone());
            Shared::new(self.transport.clone(), self.options.clone(), ledger, self.blocks.clone())
        };
        self.shared.get(|_| Arc::new(anew())).clone()
    }
}

impl Source for Remote {
    fn name(&self) -> &str {
        &self.name
    }
    fn size(&self) -> u64 {
        self.size
    }
    fn counters(&self) -> &Counters {
        &self.counters
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.fetch(&[Range { offset, length: out.len() as u64 }], out, Cause::Object)
    }
    /// Requests are planned when ranges are announced: here each stands for itself.
    fn plan(&self, ranges: &[Range]) -> Vec<Request> {
        coalesce(ranges, 0, 0)
    }
    fn fetch(&self, ranges: &[Range], out: &mut [u8], cause: Cause) -> Result<()> {
        let shared = self.shared();
        let mut rest = out;
        let mut missing = Vec::new();
        for range in ranges {
            source::check(*range, self.size, &self.name)?;
            let (to, behind) =
                rest.split_at_mut_checked(range.length as usize).ok_or_else(source::too_small)?;
            rest = behind;
            match shared.wait_for(range)? {
                Some(bytes) => to.copy_from_slice(bytes.get(..to.len()).ok_or_else(source::too_small)?),
                None => missing.push((*range, to)),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        if matches!(cause, Cause::Basket | Cause::Head) {
            let miss = cause == Cause::Basket;
            shared.ledger.count(|c| &c.misses, if miss { missing.len() as u64 } else { 0 });
            let wanted = missing.iter().map(|(range, _)| *range).collect();
            let found = Mutex::new(HashMap::new());
            let put = |range, bytes| {
                found.lock().unwrap_or_else(PoisonError::into_inner).insert(range, bytes);
            };
            shared.directly(wanted, if miss { Cause::Miss } else { cause }, &put)?;
            let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
            for (range, to) in missing {
                let bytes: Option<&Vec<u8>> = found.get(&range);
                to.copy_from_slice(bytes.filter(|b| b.len() == to.len()).ok_or_else(source::too_small)?);
            }
            return Ok(());
        }
        for (range, to) in missing {
            shared.record(range, self.size, to, cause)?;
        }
        Ok(())
    }
    fn announce(&self, ranges: &dyn Fn() -> Vec<Range>, together: bool) -> Option<Announced> {
        let shared = self.shared();
        let ranges: Vec<Range> =
            ranges().into_iter().filter(|r| r.length > 0 && r.end() <= self.size).collect();
        let bytes = ranges.iter().map(|range| range.length).sum::<u64>();
        prior::wanted(self.wanted.fetch_add(bytes, Relaxed).saturating_add(bytes), self.size);
        shared.announce(&ranges, together);
        Some(Announced { shared, ranges, process: std::process::id() })
    }
    fn requests(&self, ranges: &[Range], _threads: usize) -> Vec<Vec<Range>> {
        let shared = self.shared();
        let mut seen = HashSet::new();
        let queue = ranges.iter().filter(|range| seen.insert(**range)).copied().collect();
        let mut lane = Lane { share: shared.share(&queue), queue, ..Lane::default() };
        let (most, gap) = (shared.transport.most_ranges(), shared.pace.gap(shared.transport.most_ranges()));
        let mut requests = Vec::new();
        while !lane.queue.is_empty() {
            let group = shared.group(&mut lane, shared.options.ahead);
            requests.extend(
                coalesce(&group, gap, u64::MAX)
                    .chunks(most)
                    .map(|spans| spans.iter().map(|request| request.range).collect()),
            );
        }
        requests
    }
    fn latency(&self) -> Option<Duration> {
        Some(self.shared().pace.latency())
    }
    fn deadline(&self) -> Option<Duration> {
        self.shared().options.deadline
    }
    fn foresee(&self, range: Range) {
        let shared = self.shared();
        let known = range.end() <= self.size && range.length <= END;
        if known && shared.transport.most_ranges() > 1 {
            shared.state().soon.push(range);
        }
    }
    fn interrupt(&self) {
        self.shared().transport.interrupt();
    }
    fn close(&self) {
        let shared = self.shared();
        // Under the lock: who waits must not look before and sleep after.
        let state = shared.state();
        shared.closed.store(true, Relaxed);
        state.token.give_up();
        drop(state);
        shared.changed.notify_all();
        shared.transport.interrupt();
        shared.transport.close();
    }
    fn ledger(&self) -> Vec<Incident> {
        self.shared().ledger.incidents()
    }
    fn version(&self) -> Option<Version> {
        self.shared().transport.identity()
    }
    fn promised(&self) -> Result<Option<Checksum>> {
        let shared = self.shared();
        let limit = shared.options.timeout + Duration::from_secs(self.size / SLOWEST);
        shared.transport.promised(limit).map_err(|fault| fault.error)
    }
    fn server(&self) -> Option<String> {
        self.shared().transport.server()
    }
    fn unchecked(&self, why: &Error) {
        let whole = Range { offset: 0, length: self.size };
        let message = format!("no checksum for the copy of the whole file: {why}");
        self.shared().ledger.list(&[whole], 1, false, message);
    }
    fn miscopied(&self, attempt: u32, error: &Error) -> bool {
        let shared = self.shared();
        let replica = shared.transport.replica();
        let most = shared.options.retries.min(MOST_COPIES);
        let again = attempt <= most;
        shared.ledger.note(&[Range { offset: 0, length: self.size }], attempt, again, error);
        if let Some(blocks) = &shared.blocks {
            blocks.clear();
        }
        shared.state().windows.clear();
        shared.transport.mistrust();
        // Then once from each of the others.
        let others = attempt < most + shared.transport.replicas() as u32;
        if !again && others {
            shared.transport.leave_replica(replica);
        }
        again || others
    }
}

impl Shared {
    fn new(
        transport: Arc<dyn Transport>,
        options: Options,
        ledger: Ledger,
        blocks: Option<Arc<Blocks>>,
    ) -> Self {
        Self {
            transport,
            options,
            pace: Pace::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            ledger,
            blocks,
            closed: AtomicBool::new(false),
            came: AtomicU64::new(0),
            filled: AtomicU64::new(0),
            born: Instant::now(),
            flowing: AtomicU64::new(0),
        }
    }

    /// Whether another request is worth sending beside those in flight.
    ///
    /// Where all share one line, one that is sent early makes those that are needed sooner come later. It is sent when
    /// what is still to come of these is about to end. As long as nothing is known, two go beside each other, and all that
    /// may where nothing is of use before everything is there.
    fn may_send(&self, state: &State, share: u64, together: bool) -> bool {
        let due = state.asked.saturating_sub(self.filled.load(Relaxed));
        match self.pace.shared() {
            _ if state.flying == 0 => true,
            // The first one has the line for itself until it begins to come, if what it brings is used at once.
            None => together || share <= SMALLEST || (state.flying < 2 && due <= 2 * self.flow(state)),
            Some(true) => due <= 2 * self.pace.line(),
            Some(false) => true,
        }
    }

    /// Bytes that come in one latency, by what came so far of the only request in flight; none while that is little.
    fn flow(&self, state: &State) -> u64 {
        let came = self.filled.load(Relaxed).saturating_sub(state.landed);
        let since = Duration::from_nanos(self.flowing.load(Relaxed));
        let seconds = self.born.elapsed().saturating_sub(since).as_secs_f64();
        if came < 1 << 20 { 0 } else { (came as f64 / seconds * self.pace.latency().as_secs_f64()) as u64 }
    }

    /// Fails where nobody waits for bytes any more.
    fn check(&self) -> Result<()> {
        if self.closed.load(Relaxed) {
            return Err(Error::other(format!("the file is closed: {}", self.transport.name())));
        }
        if cancel::given_up() {
            let message = format!("{}: given up", self.transport.name());
            return Err(Error::new(ErrorKind::Interrupted, message));
        }
        Ok(())
    }

    /// Waits before a request is sent again, unless it is given up.
    fn pause(&self, pause: Duration) -> Result<()> {
        let end = Instant::now() + pause;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            self.check()?;
            thread::sleep(left.min(LOOK));
        }
        Ok(())
    }

    /// Has ranges delivered to the thread that needs them.
    fn directly(&self, ranges: Vec<Range>, cause: Cause, put: &dyn Fn(Range, Vec<u8>)) -> Result<()> {
        self.state().direct += 1;
        let result = self.vector(ranges, cause, put, &|| true);
        self.state().direct -= 1;
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn announce(self: &Arc<Self>, ranges: &[Range], together: bool) {
        let mut state = self.state();
        state.lane += 1;
        let number = state.lane;
        let mut queue = VecDeque::new();
        for range in ranges {
            let new = || Piece { lane: number, announced: 0, uses: 0, taken: false, place: Place::Used };
            let piece = state.pieces.entry(*range).or_insert_with(new);
            piece.announced += 1;
            piece.uses += 1;
            // What failed before is tried anew for whoever asks now.
            if matches!(piece.place, Place::Used | Place::Gone | Place::Failed(..)) {
                (piece.place, piece.lane, piece.taken) = (Place::Queued, number, false);
                queue.push_back(*range);
            }
        }
        if !queue.is_empty() {
            self.queue(&mut state, queue, together);
        }
        self.staff(&mut state);
    }

    /// Adds the newest lane.
    fn queue(&self, state: &mut State, queue: VecDeque<Range>, together: bool) {
        // Where others are under way, the first request need not be small.
        let sent = state.lanes.last().filter(|lane| !lane.queue.is_empty()).map_or(0, |lane| lane.sent);
        let (number, share) = (state.lane, self.share(&queue));
        state.lanes.push(Lane { number, queue, share, sent, together, ..Lane::default() });
    }

    /// Bytes for each thread, of what is queued.
    fn share(&self, queue: &VecDeque<Range>) -> u64 {
        let queued = queue.iter().map(|r| r.length).fold(0, u64::saturating_add);
        queued / self.options.workers.max(1) as u64
    }

    /// Bytes of a request: enough to be worth its latency, not more than the thread's share, but no crumbs. The first
    /// ones are smaller, so that what is needed first does not share the line with much that comes later.
    fn target(&self, share: u64, sent: u32) -> u64 {
        let first = self.pace.underway().clamp(SMALLEST, LARGEST);
        let worth = self.pace.worth().unwrap_or(LARGEST).min(share).min(first << sent.min(8));
        worth.clamp(SMALLEST, LARGEST)
    }

    /// Sees to it that there are threads for what can be asked for.
    fn staff(self: &Arc<Self>, state: &mut State) {
        state.make_room(self.options.ahead);
        while state.workers < self.options.workers
            && state.queued() > state.workers
            && state.next_lane(self.options.ahead).is_some()
        {
            let shared = self.clone();
            let thread = thread::Builder::new().name("sapwood-fetch".to_owned());
            if thread.spawn(move || shared.work()).is_err() {
                break;
            }
            state.workers += 1;
        }
    }

    /// What a thread does that fetches ahead; it ends when there is nothing to do.
    fn work(self: Arc<Self>) {
        loop {
            let (group, token, flight) = {
                let mut state = self.state();
                state.make_room(self.options.ahead);
                let Some((number, share, together)) =
                    state.next_lane(self.options.ahead).map(|lane| (lane.number, lane.share, lane.together))
                else {
                    state.workers -= 1;
                    self.changed.notify_all();
                    return;
                };
                if !self.may_send(&state, share, together) {
                    drop(self.changed.wait_timeout(state, LOOK / 10));
                    continue;
                }
                state.flying += 1;
                state.flight += 1;
                state.landed = self.filled.load(Relaxed);
                let flight = state.flight;
                let part = state.part(self.options.ahead);
                let State { lanes, pieces, asked, .. } = &mut *state;
                let mut group = Vec::new();
                if let Some(lane) = lanes.iter_mut().find(|lane| lane.number == number) {
                    group = self.group(lane, part);
                    lane.wanted = false;
                    for range in &group {
                        if let Some(piece) = pieces.get_mut(range) {
                            piece.place = Place::Flying(flight);
                            lane.held += range.length;
                            *asked += range.length;
                        }
                    }
                }
                (group, state.token.clone(), flight)
            };
            let put = |range: Range, bytes: Vec<u8>| {
                // It may have been let go meanwhile, and even announced again.
                if let Some(piece) = self.state().pieces.get_mut(&range)
                    && matches!(piece.place, Place::Flying(_))
                {
                    piece.place = Place::Here(Arc::new(bytes));
                }
                self.changed.notify_all();
            };
            let wanted = || {
                let state = self.state();
                group.iter().rev().any(|range| {
                    state
                        .pieces
                        .get(range)
                        .is_some_and(|piece| matches!(piece.place, Place::Flying(by) if by == flight))
                })
            };
            let result = token.during(|| self.vector(group.clone(), Cause::Prefetch, &put, &wanted));
            let mut state = self.state();
            state.flying -= 1;
            if state.flying == 0 {
                // What was let go did not come.
                state.asked = self.filled.load(Relaxed);
            }
            for range in &group {
                let Some(piece) = state.pieces.get_mut(range) else { continue };
                // One that was let go and announced again comes by another request.
                if matches!(piece.place, Place::Flying(by) if by == flight) {
                    let lane = piece.lane;
                    let error = result.as_ref().err();
                    let message = error.map_or_else(|| "not delivered".to_owned(), ToString::to_string);
                    piece.place = Place::Failed(error.map_or(ErrorKind::Other, Error::kind), message);
                    state.release(lane, range.length);
                }
            }
            self.changed.notify_all();
        }
    }

    /// Takes what the next request is for: neighbours in the queue, as many as make a good one and fit into the memory.
    fn group(&self, lane: &mut Lane, memory: u64) -> Vec<Range> {
        let most = self.transport.most_ranges();
        let gap = self.pace.gap(most);
        let mut target = self.target(lane.share, lane.sent).min(memory / 2).max(1);
        lane.sent += 1;
        // A last one that is small would be a latency for little.
        let most_left = target + target / 2;
        let left = lane.queue.iter().try_fold(0u64, |sum, range| {
            Some(sum.saturating_add(range.length)).filter(|sum| *sum <= most_left)
        });
        target = left.map_or(target, |left| left.max(target));
        let mut group: Vec<Range> = Vec::new();
        let (mut bytes, mut spans) = (0u64, 0);
        while let Some(&range) = lane.queue.front() {
            let near = group.last().is_some_and(|last: &Range| {
                range.offset >= last.offset && range.offset <= last.end().saturating_add(gap)
            });
            spans += usize::from(!near);
            bytes = bytes.saturating_add(range.length);
            if !group.is_empty() && (bytes > target || spans > most) {
                break;
            }
            lane.queue.pop_front();
            group.push(range);
        }
        group
    }

    /// Bytes that were announced, as soon as they are there; nothing for what this thread had better fetch itself.
    fn wait_for(self: &Arc<Self>, range: &Range) -> Result<Option<Arc<Vec<u8>>>> {
        let mut waited: Option<Instant> = None;
        let mut state = self.state();
        let result = loop {
            if let Err(error) = self.check() {
                break Err(error);
            }
            let Some(piece) = state.pieces.get_mut(range) else { break Ok(None) };
            match &piece.place {
                Place::Used => break Ok(None),
                Place::Failed(kind, message) => {
                    let error = Error::new(*kind, message.clone());
                    piece.place = Place::Used;
                    break Err(error);
                }
                Place::Gone => {
                    if let Some(queue) = state.fetch_again() {
                        self.queue(&mut state, queue, false);
                    }
                    continue;
                }
                Place::Here(bytes) => {
                    let bytes = bytes.clone();
                    piece.uses = piece.uses.saturating_sub(1);
                    let first = !std::mem::replace(&mut piece.taken, true);
                    if piece.uses == 0 {
                        piece.place = Place::Used;
                        let lane = piece.lane;
                        state.release(lane, range.length);
                    } else if first {
                        state.kept.push_back(*range);
                    }
                    self.staff(&mut state);
                    break Ok(Some(bytes));
                }
                Place::Flying(_) => {}
                Place::Queued => {
                    let number = piece.lane;
                    if let Some(lane) = state.lane(number) {
                        lane.wanted = true;
                    }
                    self.staff(&mut state);
                    if state.workers == 0 {
                        // Everything that may be fetched ahead is there, and this is not among it.
                        if let Some(lane) = state.lane(number) {
                            lane.queue.retain(|queued| queued != range);
                        }
                        state.release(number, 0);
                        if let Some(piece) = state.pieces.get_mut(range) {
                            piece.uses = piece.uses.saturating_sub(1);
                            piece.place = if piece.uses > 0 { Place::Gone } else { Place::Used };
                        }
                        break Ok(None);
                    }
                }
            }
            waited.get_or_insert_with(Instant::now);
            state = self.changed.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        };
        drop(state);
        if let Some(start) = waited {
            self.ledger.clock(|c| &c.time_waiting_ns, start);
        }
        result
    }

    /// Reads a record of the file itself, with what is around it.
    fn record(&self, range: Range, size: u64, to: &mut [u8], cause: Cause) -> Result<()> {
        let inside = |start: u64, bytes: &[u8], to: &mut [u8]| {
            let from = range.offset.checked_sub(start).and_then(|from| usize::try_from(from).ok());
            let found = from.and_then(|from| bytes.get(from..)?.get(..to.len()));
            found.map(|found| to.copy_from_slice(found)).is_some()
        };
        if self.state().windows.iter().any(|(start, bytes)| inside(*start, bytes, to)) {
            return Ok(());
        }
        let length = range.length.max(WINDOW).min(size);
        let mut wanted = vec![Range { offset: range.offset.min(size - length), length }];
        {
            let mut state = self.state();
            let soon = std::mem::take(&mut state.soon);
            let here = |range: &Range| {
                let holds = |(start, bytes): &(u64, Arc<[u8]>)| {
                    *start <= range.offset && range.end() <= *start + bytes.len() as u64
                };
                state.windows.iter().any(holds)
            };
            wanted.extend(soon.into_iter().filter(|range| !here(range)));
        }
        let wanted = coalesce(&wanted, WINDOW / 4, u64::MAX).into_iter().map(|r| r.range).collect();
        let found = Mutex::new(Vec::new());
        let put = |range: Range, bytes: Vec<u8>| {
            found.lock().unwrap_or_else(PoisonError::into_inner).push((range.offset, bytes));
        };
        self.directly(wanted, cause, &put)?;
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !found.iter().any(|(start, bytes)| inside(*start, bytes, to)) {
            return Err(source::too_small());
        }
        let mut state = self.state();
        for (start, bytes) in found.into_iter().filter(|(_, bytes)| bytes.len() as u64 <= WINDOW + END) {
            state.windows.push_back((start, bytes.into()));
            if state.windows.len() > WINDOWS {
                state.windows.pop_front();
            }
        }
        Ok(())
    }

    /// Has ranges delivered, each as soon as it is whole, by as many requests and attempts as it takes.
    fn vector(
        &self,
        ranges: Vec<Range>,
        cause: Cause,
        put: &dyn Fn(Range, Vec<u8>),
        wanted: &dyn Fn() -> bool,
    ) -> Result<()> {
        let bytes: u64 = ranges.iter().map(|r| r.length).fold(0, u64::saturating_add);
        // So much that what is lost once can be asked for again; by another way as much again.
        let patience = 2 * self.options.timeout + Duration::from_secs(bytes / SLOWEST);
        let mut scatter = Scatter::new(ranges)?;
        if let Some(blocks) = &self.blocks {
            let missing = scatter.missing();
            let kept =
                blocks.read(&missing, &mut |offset, bytes| scatter.put(offset, bytes, &mut |r, b| put(r, b)));
            self.ledger.count(|c| &c.bytes_kept, kept);
        }
        let mut tries = Tries::new(self.transport.replicas(), patience);
        while scatter.more() {
            self.check()?;
            if !wanted() {
                return Ok(());
            }
            let spans = self.spans(scatter.missing());
            let (before, start) = (scatter.filled, Instant::now());
            let (mut served, mut first): (Vec<Range>, _) = (Vec::new(), None);
            let mut came = self.came.load(Relaxed);
            let mut whole = Vec::new();
            let deadline = tries.deadline;
            let limit = deadline.saturating_duration_since(start);
            let replica = self.transport.replica();
            let mut keeper = self.blocks.as_ref().map(|blocks| blocks.keeper());
            let result = self.transport.request(&spans, limit, &mut |offset, bytes| {
                if first.is_none() {
                    first = Some(Instant::now());
                    came = self.came.load(Relaxed);
                    if cause == Cause::Prefetch {
                        self.flowing.store(self.born.elapsed().as_nanos() as u64, Relaxed);
                    }
                }
                add(&mut served, Range { offset, length: bytes.len() as u64 });
                self.came.fetch_add(bytes.len() as u64, Relaxed);
                let filled = scatter.filled;
                scatter.put(offset, bytes, &mut |range, bytes| whole.push((range, bytes)));
                if cause == Cause::Prefetch {
                    self.filled.fetch_add(scatter.filled - filled, Relaxed);
                }
                if let Some(keeper) = &mut keeper {
                    keeper.take(offset, bytes);
                }
                if scatter.more() {
                    whole.drain(..).for_each(|(range, bytes)| put(range, bytes));
                }
                // The rest of a block is worth waiting for, to keep it.
                (scatter.more() || keeper.is_some()) && Instant::now() < deadline && wanted()
            });
            let bytes = served.iter().map(|range| range.length).sum();
            self.pace.measure(start, first, bytes, self.came.load(Relaxed) - came);
            if served.is_empty() {
                served.extend(spans.first().map(|span| Range { length: 0, ..*span }));
            }
            self.ledger.ended(self.transport.name(), &served, cause, start);
            for why in self.transport.remarks() {
                self.ledger.list(&[], tries.attempt, false, why.to_string());
            }
            // All may have come of a file that was changed meanwhile.
            let lasting = result.as_ref().is_err_and(|fault| !fault.again);
            if !lasting || scatter.more() {
                // The last ones only now: who has them all must find their cost counted.
                whole.into_iter().for_each(|(range, bytes)| put(range, bytes));
                if !scatter.more() || !wanted() {
                    return Ok(());
                }
            }
            self.check()?;
            let moved = scatter.filled > before;
            let fault = match result {
                Ok(()) if moved && Instant::now() < deadline => continue,
                Ok(()) => {
                    Fault::passing(Error::new(ErrorKind::UnexpectedEof, "less came than was asked for"))
                }
                Err(fault) => fault,
            };
            if moved {
                tries.moved(self.transport.replicas());
            }
            let pause = fault.after.unwrap_or_else(|| pause_before(tries.attempt));
            // Where all came, it is not believed.
            let more = scatter.more();
            let again = more && tries.again(&fault, replica, self.options.retries, pause);
            self.ledger.note(&spans, tries.attempt, again, &fault.error);
            let turn = tries.others == 0;
            if again {
                if fault.pause && !moved {
                    self.pause(pause)?;
                }
                tries.attempt += 1;
            } else if more && !turn {
                tries.leave();
            } else {
                return Err(tries.failed(self.transport.name(), &fault, pause));
            }
            if turn || !again {
                self.transport.leave_replica(replica);
            }
        }
        Ok(())
    }

    /// What one request asks for: the first of what is missing, with small gaps between, and in whole blocks if these are kept.
    fn spans(&self, mut missing: Vec<Range>) -> Vec<Range> {
        let most = self.transport.most_ranges().max(1);
        if let Some(blocks) = &self.blocks {
            missing.iter_mut().for_each(|range| *range = blocks.around(*range));
        }
        let mut spans: Vec<Range> =
            coalesce(&missing, self.pace.gap(most), u64::MAX).into_iter().map(|r| r.range).collect();
        spans.truncate(most);
        spans
    }
}

/// Adds what came to what had come before.
fn add(served: &mut Vec<Range>, new: Range) {
    match served.last_mut() {
        Some(last) if last.end() == new.offset => last.length += new.length,
        _ => served.push(new),
    }
}

#[cfg(test)]
mod tests;
