//! Announced ranges, and the part of them still to be requested.

use crate::cancel::Token;
use crate::plan::Range;
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;

/// The state of all announcements.
#[derive(Default)]
pub struct State {
    /// The announced ranges.
    pub pieces: HashMap<Range, Piece>,
    /// The ranges of each announcement that are queued, in flight or waiting to be used; the oldest announcement first.
    pub lanes: Vec<Lane>,
    /// The number of the last lane.
    pub lane: u64,
    /// Number of prefetching threads.
    pub workers: usize,
    /// Number of threads that wait for ranges that were not announced.
    pub direct: usize,
    /// Cancels prefetching.
    pub token: Token,
    /// Number of prefetching requests in flight.
    pub flying: usize,
    /// Bytes requested by these requests and all before them.
    pub asked: u64,
    /// Number of the last of these requests.
    pub flight: u64,
    /// Bytes that had arrived when it was sent.
    pub landed: u64,
    /// Bytes read around records, the newest last.
    pub windows: VecDeque<(u64, Arc<[u8]>)>,
    /// Ranges with the file's own records that will be needed; they are read with the next of these records.
    pub soon: Vec<Range>,
    /// Ranges that one user has fetched and that are kept for others; the oldest first.
    pub kept: VecDeque<Range>,
}

/// The rest of one announcement. Each lane has its part of the memory, so that several trees of a file, or several
/// reads, do not block each other.
#[derive(Default)]
pub struct Lane {
    pub number: u64,
    /// Ranges still to be requested.
    pub queue: VecDeque<Range>,
    /// Bytes for each thread, computed when the queue was created.
    pub share: u64,
    /// Number of requests already sent.
    pub sent: u32,
    /// Bytes in flight or waiting to be used.
    pub held: u64,
    /// Whether nothing is of use before all of it has arrived.
    pub together: bool,
    /// Whether a thread waits for a queued range.
    pub wanted: bool,
}

impl State {
    /// Returns the lane of the next request, if one may be sent. The order is:
    ///
    /// 1. a lane with a waiting thread,
    /// 2. the oldest lane below its part of the memory,
    /// 3. the oldest lane.
    ///
    /// If others use all of the memory, a lane that has nothing yet still gets a request.
    pub fn next_lane(&self, memory: u64) -> Option<&Lane> {
        let held = self.lanes.iter().map(|lane| lane.held).fold(0, u64::saturating_add);
        let part = self.part(memory);
        let queued = || self.lanes.iter().filter(|lane| !lane.queue.is_empty());
        if held >= memory {
            return queued().find(|lane| lane.wanted && lane.held == 0);
        }
        let wanted = queued().find(|lane| lane.wanted);
        wanted.or_else(|| queued().find(|lane| lane.held < part)).or_else(|| queued().next())
    }

    /// The part of the memory for each lane.
    pub fn part(&self, memory: u64) -> u64 {
        memory / self.lanes.len().max(1) as u64
    }

    pub fn lane(&mut self, number: u64) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.number == number)
    }

    /// Drops ranges kept for later users, until more may be fetched for users that are further ahead.
    pub fn make_room(&mut self, memory: u64) {
        while self.lanes.iter().map(|lane| lane.held).fold(0, u64::saturating_add) >= memory
            && let Some(range) = self.kept.pop_front()
        {
            let Some(piece) = self.pieces.get_mut(&range) else { continue };
            if piece.taken && matches!(piece.state, PieceState::Here(_)) {
                piece.state = PieceState::Gone;
                let lane = piece.lane;
                self.release(lane, range.length);
            }
        }
    }

    /// Queues dropped ranges again for later users.
    pub fn fetch_again(&mut self) -> Option<VecDeque<Range>> {
        self.lane += 1;
        let number = self.lane;
        let gone = self.pieces.iter_mut().filter(|(_, piece)| matches!(piece.state, PieceState::Gone));
        let mut queue: Vec<Range> = gone
            .map(|(range, piece)| {
                (piece.state, piece.lane, piece.taken) = (PieceState::Queued, number, false);
                *range
            })
            .collect();
        queue.sort();
        (!queue.is_empty()).then(|| queue.into())
    }

    /// Subtracts bytes that are no longer held.
    pub fn release(&mut self, number: u64, bytes: u64) {
        if let Some(lane) = self.lane(number) {
            lane.held -= bytes;
        }
        self.lanes.retain(|lane| lane.held > 0 || !lane.queue.is_empty());
    }

    /// Number of ranges still to be requested.
    pub fn queued(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue.len()).sum()
    }
}

pub struct Piece {
    /// The lane in which it was queued.
    pub lane: u64,
    /// Number of occurrences in current announcements.
    pub announced: usize,
    /// Number of times it will still be fetched.
    pub uses: usize,
    /// Whether it was fetched since it arrived.
    pub taken: bool,
    pub state: PieceState,
}

pub enum PieceState {
    Queued,
    /// In flight, in the request of this number.
    Flying(u64),
    Here(Arc<Vec<u8>>),
    Failed(ErrorKind, String),
    Used,
    /// Dropped to make room before all users had fetched it.
    Gone,
}
