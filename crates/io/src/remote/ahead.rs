//! Prefetching announced ranges, within the memory limit.

use super::lanes::{Lane, Piece, PieceState, State};
use super::{LARGEST, SMALLEST, Shared};
use crate::cancel::LOOK;
use crate::plan::Range;
use crate::trace::Cause;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Ranges that are prefetched as long as this exists.
pub struct Announced {
    shared: Arc<Shared>,
    ranges: Vec<Range>,
    /// The process that announced them.
    process: u32,
}

impl Announced {
    /// Starts to prefetch ranges in their order. `together`: none is of use before all have arrived.
    pub(super) fn new(shared: Arc<Shared>, ranges: Vec<Range>, together: bool) -> Self {
        shared.announce(&ranges, together);
        Self { shared, ranges, process: std::process::id() }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A forked child has none of the prefetching threads, and one of them may have held a lock.
            std::mem::forget(self.shared.clone());
            return;
        }
        let mut state = self.shared.state();
        for range in &self.ranges {
            let Some(piece) = state.pieces.get_mut(range) else { continue };
            piece.announced -= 1;
            piece.uses = piece.uses.min(piece.announced);
            if piece.announced == 0 {
                // A range in flight is dropped when it arrives.
                let held = matches!(piece.state, PieceState::Here(_) | PieceState::Flying(_));
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
        if state.pieces.is_empty() && state.workers > 0 {
            // Requests in progress are no longer needed.
            std::mem::take(&mut state.token).give_up();
            self.shared.let_go(&state);
        }
    }
}

impl Shared {
    /// Cancels the requests in flight, unless a thread waits for one of them.
    pub(super) fn let_go(&self, state: &State) {
        if state.pieces.is_empty() && state.direct == 0 {
            self.transport.interrupt();
        }
    }

    /// Whether another request is worth sending in addition to those in flight.
    ///
    /// If all requests share one line, a request that is sent early delays those needed sooner. It is therefore sent
    /// when the rest of these is about to arrive. Until the line is known, two requests run at the same time; or all
    /// that are allowed, if nothing is of use before everything has arrived.
    fn may_send(&self, state: &State, share: u64, together: bool) -> bool {
        let due = state.asked.saturating_sub(self.filled.load(Relaxed));
        match self.pace.shared() {
            _ if state.flying == 0 => true,
            // The first request has the line for itself until its bytes begin to arrive, if these are used at once.
            None => together || share <= SMALLEST || (state.flying < 2 && due <= 2 * self.flow(state)),
            Some(true) => due <= 2 * self.pace.line(),
            Some(false) => true,
        }
    }

    /// Bytes that arrive in one latency, estimated from the only request in flight; 0 while it has few bytes.
    fn flow(&self, state: &State) -> u64 {
        let came = self.filled.load(Relaxed).saturating_sub(state.landed);
        let since = Duration::from_nanos(self.flowing.load(Relaxed));
        let seconds = self.born.elapsed().saturating_sub(since).as_secs_f64();
        if came < 1 << 20 { 0 } else { (came as f64 / seconds * self.pace.latency().as_secs_f64()) as u64 }
    }

    fn announce(self: &Arc<Self>, ranges: &[Range], together: bool) {
        let mut state = self.state();
        state.lane += 1;
        let number = state.lane;
        let mut queue = VecDeque::new();
        for range in ranges {
            let new = || Piece { lane: number, announced: 0, uses: 0, taken: false, state: PieceState::Used };
            let piece = state.pieces.entry(*range).or_insert_with(new);
            piece.announced += 1;
            piece.uses += 1;
            // A range that failed before is requested again.
            if matches!(piece.state, PieceState::Used | PieceState::Gone | PieceState::Failed(..)) {
                (piece.state, piece.lane, piece.taken) = (PieceState::Queued, number, false);
                queue.push_back(*range);
            }
        }
        if !queue.is_empty() {
            self.queue(&mut state, queue, together);
        }
        self.staff(&mut state);
    }

    /// Adds a new lane.
    fn queue(&self, state: &mut State, queue: VecDeque<Range>, together: bool) {
        // If other requests are in flight, the first one need not be small.
        let sent = state.lanes.last().filter(|lane| !lane.queue.is_empty()).map_or(0, |lane| lane.sent);
        let (number, share) = (state.lane, self.share(&queue));
        state.lanes.push(Lane { number, queue, share, sent, together, ..Lane::default() });
    }

    /// Queued bytes for each thread.
    pub fn share(&self, queue: &VecDeque<Range>) -> u64 {
        let queued = queue.iter().map(|r| r.length).fold(0, u64::saturating_add);
        queued / self.options.workers.max(1) as u64
    }

    /// Size of a request in bytes: large enough to be worth its latency, at most the thread's share, and not tiny. The
    /// first requests are smaller, so that bytes needed first do not share the line with many later ones.
    fn target(&self, share: u64, sent: u32) -> u64 {
        let first = self.pace.underway().clamp(SMALLEST, LARGEST);
        let worth = self.pace.worth().unwrap_or(LARGEST).min(share).min(first << sent.min(8));
        worth.clamp(SMALLEST, LARGEST)
    }

    /// Starts the threads needed for the requests that can be sent.
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

    /// The loop of a prefetching thread; it ends when there is nothing left to do.
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
                            piece.state = PieceState::Flying(flight);
                            lane.held += range.length;
                            *asked += range.length;
                        }
                    }
                }
                (group, state.token.clone(), flight)
            };
            let put = |range: Range, bytes: Vec<u8>| {
                // The range may have been dropped meanwhile, and even announced again.
                if let Some(piece) = self.state().pieces.get_mut(&range)
                    && matches!(piece.state, PieceState::Flying(_))
                {
                    piece.state = PieceState::Here(Arc::new(bytes));
                }
                self.changed.notify_all();
            };
            let wanted = || {
                let state = self.state();
                group.iter().rev().any(|range| {
                    state
                        .pieces
                        .get(range)
                        .is_some_and(|piece| matches!(piece.state, PieceState::Flying(by) if by == flight))
                })
            };
            let result = token.during(|| self.vector(group.clone(), Cause::Prefetch, &put, &wanted));
            let mut state = self.state();
            state.flying -= 1;
            if state.flying == 0 {
                // Dropped ranges did not arrive.
                state.asked = self.filled.load(Relaxed);
            }
            for range in &group {
                let Some(piece) = state.pieces.get_mut(range) else { continue };
                // A range that was dropped and announced again arrives with another request.
                if matches!(piece.state, PieceState::Flying(by) if by == flight) {
                    let lane = piece.lane;
                    let error = result.as_ref().err();
                    let message = error.map_or_else(|| "not delivered".to_owned(), ToString::to_string);
                    piece.state = PieceState::Failed(error.map_or(ErrorKind::Other, Error::kind), message);
                    state.release(lane, range.length);
                }
            }
            self.changed.notify_all();
        }
    }

    /// Takes the ranges of the next request: neighbours in the queue, as many as make a good request and fit into
    /// memory.
    pub fn group(&self, lane: &mut Lane, memory: u64) -> Vec<Range> {
        let most = self.transport.most_ranges();
        let gap = self.pace.gap(most);
        let mut target = self.target(lane.share, lane.sent).min(memory / 2).max(1);
        lane.sent += 1;
        // A small last request would cost a latency for little.
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

    /// Waits for announced bytes; returns `None` if this thread should fetch them itself.
    pub fn wait_for(self: &Arc<Self>, range: &Range) -> Result<Option<Arc<Vec<u8>>>> {
        let mut waited: Option<Instant> = None;
        let mut state = self.state();
        let result = loop {
            if let Err(error) = self.check() {
                break Err(error);
            }
            let Some(piece) = state.pieces.get_mut(range) else { break Ok(None) };
            match &piece.state {
                PieceState::Used => break Ok(None),
                PieceState::Failed(kind, message) => {
                    let error = Error::new(*kind, message.clone());
                    piece.state = PieceState::Used;
                    break Err(error);
                }
                PieceState::Gone => {
                    if let Some(queue) = state.fetch_again() {
                        self.queue(&mut state, queue, false);
                    }
                    continue;
                }
                PieceState::Here(bytes) => {
                    let bytes = bytes.clone();
                    piece.uses = piece.uses.saturating_sub(1);
                    let first = !std::mem::replace(&mut piece.taken, true);
                    if piece.uses == 0 {
                        piece.state = PieceState::Used;
                        let lane = piece.lane;
                        state.release(lane, range.length);
                    } else if first {
                        state.kept.push_back(*range);
                    }
                    self.staff(&mut state);
                    break Ok(Some(bytes));
                }
                PieceState::Flying(_) => {}
                PieceState::Queued => {
                    let number = piece.lane;
                    if let Some(lane) = state.lane(number) {
                        lane.wanted = true;
                    }
                    self.staff(&mut state);
                    if state.workers == 0 {
                        // Everything that may be prefetched has arrived, and this range is not part of it.
                        if let Some(lane) = state.lane(number) {
                            lane.queue.retain(|queued| queued != range);
                        }
                        state.release(number, 0);
                        if let Some(piece) = state.pieces.get_mut(range) {
                            piece.uses = piece.uses.saturating_sub(1);
                            piece.state = if piece.uses > 0 { PieceState::Gone } else { PieceState::Used };
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
}
