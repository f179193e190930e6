//! What is announced, and what of it is still to be asked for.

use crate::cancel::Token;
use crate::plan::Range;
use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::sync::Arc;

/// What is known of what was announced.
#[derive(Default)]
pub struct State {
    /// What is announced.
    pub pieces: HashMap<Range, Piece>,
    /// What is to be asked for, waits to be used, or is on its way, of each announcement; the oldest first.
    pub lanes: Vec<Lane>,
    /// The number of the last lane.
    pub lane: u64,
    /// Threads that fetch ahead.
    pub workers: usize,
    /// Threads that wait for what was not announced.
    pub direct: usize,
    /// Gives up what is being fetched ahead.
    pub token: Token,
    /// Requests in flight that fetch ahead.
    pub flying: usize,
    /// Bytes that these and those before them were sent for.
    pub asked: u64,
    /// The number of the last of them.
    pub flight: u64,
    /// Bytes that had come when it was sent.
    pub landed: u64,
    /// What was read around records, the newest last.
    pub windows: VecDeque<(u64, Arc<[u8]>)>,
    /// What will be wanted of the file's own records, and is read with the next of them.
    pub soon: Vec<Range>,
    /// What somebody has fetched already and is here for others; the oldest first.
    pub kept: VecDeque<Range>,
}

/// What one announcement is still to bring: each has its part of the memory, so that several trees of a file, or several
/// readings, do not keep each other waiting.
#[derive(Default)]
pub struct Lane {
    pub number: u64,
    /// What is still to be asked for.
    pub queue: VecDeque<Range>,
    /// Bytes for each thread, when the queue was made.
    pub share: u64,
    /// Requests that were sent already.
    pub sent: u32,
    /// Bytes that are in flight or wait to be used.
    pub held: u64,
    /// Nothing of it is of use before all of it is there.
    pub together: bool,
    /// Somebody waits for what is queued.
    pub wanted: bool,
}

impl State {
    /// The lane that the next request is for, if any may be sent: one that somebody waits for, or else the oldest that
    /// has not had its part of the memory, or else the oldest. Where others have all of it, one that has nothing at all
    /// gets a request nevertheless.
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

    /// What each lane may have of the memory.
    pub fn part(&self, memory: u64) -> u64 {
        memory / self.lanes.len().max(1) as u64
    }

    pub fn lane(&mut self, number: u64) -> Option<&mut Lane> {
        self.lanes.iter_mut().find(|lane| lane.number == number)
    }

    /// Lets go of what is here for somebody who comes later, until more may be fetched for those who are ahead.
    pub fn make_room(&mut self, memory: u64) {
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
    pub fn fetch_again(&mut self) -> Option<VecDeque<Range>> {
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
    pub fn release(&mut self, number: u64, bytes: u64) {
        if let Some(lane) = self.lane(number) {
            lane.held -= bytes;
        }
        self.lanes.retain(|lane| lane.held > 0 || !lane.queue.is_empty());
    }

    /// Ranges that are still to be asked for.
    pub fn queued(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue.len()).sum()
    }
}

pub struct Piece {
    /// In which lane it was queued.
    pub lane: u64,
    /// How often it stands in announcements that are not dropped yet.
    pub announced: usize,
    /// How often it is still to be fetched.
    pub uses: usize,
    /// Whether anybody has fetched it since it came.
    pub taken: bool,
    pub place: Place,
}

pub enum Place {
    Queued,
    /// In the request of this number.
    Flying(u64),
    Here(Arc<Vec<u8>>),
    Failed(ErrorKind, String),
    Used,
    /// It was here, and had to make room before all had fetched it.
    Gone,
}
