//! Memory for pages of different sizes, used again without being returned to the system.
//!
//! Freed buffers of other sizes are useless for a new page: it would get new memory, which the system clears page by
//! page. An arena is one range of addresses. Pages take pieces of it, one after another. Freed pieces that are adjacent
//! are joined, so that a large page fits where several small ones were.

use crate::array::pool;
use bytes::{Bytes, BytesMut};
use sapwood_io::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A range of memory of a fixed size.
#[derive(Default)]
pub struct Arena {
    size: usize,
    /// Free pieces by address. None while nothing is in use: then there is no memory.
    free: BTreeMap<usize, BytesMut>,
    /// Bytes in use.
    used: usize,
    /// End of the last piece taken.
    last: usize,
}

/// A piece of an arena. It returns there when it is dropped.
pub struct Piece {
    bytes: BytesMut,
    arena: Arc<Mutex<Arena>>,
}

impl Arena {
    /// Creates an arena of this many bytes.
    pub fn new(size: usize) -> Self {
        Self { size, ..Self::default() }
    }

    /// Takes a piece from an arena; `None` if no free piece is large enough, or if there is no memory.
    pub fn take(arena: &Arc<Mutex<Self>>, bytes: usize) -> Option<Piece> {
        let bytes = lock(arena).cut(bytes)?;
        Some(Piece { bytes, arena: arena.clone() })
    }

    fn cut(&mut self, bytes: usize) -> Option<BytesMut> {
        if self.used == 0 && self.free.is_empty() {
            // Memory pages that are not touched cost nothing.
            let whole = Bytes::from(pool::zeroed(self.size).ok()?).try_into_mut().ok()?;
            self.free.insert(whole.as_ptr().addr(), whole);
        }
        let fits = |(_, piece): &(&usize, &BytesMut)| piece.len() >= bytes;
        // The oldest pages, which are freed first, are behind the newest.
        let behind = self.free.range(self.last..).find(fits);
        let place = *behind.or_else(|| self.free.range(..self.last).find(fits))?.0;
        let mut piece = self.free.remove(&place)?;
        let taken = piece.split_to(bytes);
        self.last = place + bytes;
        if !piece.is_empty() {
            self.free.insert(self.last, piece);
        }
        self.used += bytes;
        Some(taken)
    }

    fn give_back(&mut self, mut piece: BytesMut) {
        self.used -= piece.len();
        if self.used == 0 {
            self.free.clear();
            return;
        }
        let mut place = piece.as_ptr().addr();
        if let Some(next) = self.free.remove(&(place + piece.len())) {
            piece.unsplit(next);
        }
        if let Some(before) =
            self.free.range(..place).next_back().map(|(&start, before)| (start, before.len()))
            && before.0 + before.1 == place
            && let Some(mut before) = self.free.remove(&before.0)
        {
            place = before.as_ptr().addr();
            before.unsplit(piece);
            piece = before;
        }
        self.free.insert(place, piece);
    }
}

impl Piece {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }
    /// The bytes, to be written.
    pub fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        lock(&self.arena).give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(piece: &Piece) -> usize {
        piece.as_slice().as_ptr().addr()
    }

    #[test]
    fn pieces_of_freed_neighbours_are_joined() {
        let arena = Arc::new(Mutex::new(Arena::new(1000)));
        let mut pieces: Vec<Option<Piece>> = (0..10).map(|_| Arena::take(&arena, 100)).collect();
        assert!(Arena::take(&arena, 1).is_none(), "all is in use");
        let start = place(pieces[0].as_ref().unwrap());
        for i in [3, 5, 4] {
            pieces[i] = None;
        }
        assert!(Arena::take(&arena, 301).is_none());
        let mut joined = Arena::take(&arena, 300).unwrap();
        assert_eq!(place(&joined), start + 300);
        joined.bytes().fill(7);
        assert!(pieces.iter().flatten().all(|piece| piece.as_slice() == [0; 100]), "pieces do not overlap");
        assert_eq!(joined.as_slice(), [7; 300]);
    }

    #[test]
    fn the_next_piece_is_behind_the_last_one() {
        let arena = Arc::new(Mutex::new(Arena::new(1000)));
        let mut pieces: Vec<Option<Piece>> = (0..5).map(|_| Arena::take(&arena, 200)).collect();
        let start = place(pieces[0].as_ref().unwrap());
        (pieces[0], pieces[1], pieces[3]) = (None, None, None);
        let next = [150, 150, 150].map(|bytes| Arena::take(&arena, bytes).unwrap());
        assert_eq!(next.each_ref().map(|piece| place(piece) - start), [0, 150, 600]);
    }

    #[test]
    fn memory_is_returned_when_no_piece_is_in_use() {
        let arena = Arc::new(Mutex::new(Arena::new(1 << 20)));
        let (a, b) = (Arena::take(&arena, 10).unwrap(), Arena::take(&arena, 20).unwrap());
        let state = || {
            let arena = lock(&arena);
            (arena.used, arena.free.len())
        };
        drop(a);
        assert_eq!(state(), (20, 2));
        drop(b);
        assert_eq!(state(), (0, 0));
        assert!(Arena::take(&arena, 1 << 20).is_some());
        assert!(Arena::take(&arena, (1 << 20) + 1).is_none());
        assert!(Arena::take(&Arc::new(Mutex::new(Arena::new(usize::MAX / 2))), 1).is_none(), "no memory");
    }

    #[test]
    fn any_order_of_taking_and_freeing_leaves_all_pieces_apart() {
        let arena = Arc::new(Mutex::new(Arena::new(10_000)));
        let mut state = 1_u64;
        let mut held: Vec<(u8, Piece)> = Vec::new();
        for round in 0..3000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let random = (state >> 33) as usize;
            if random.is_multiple_of(2) && !held.is_empty() {
                held.swap_remove(random / 2 % held.len());
            } else if let Some(mut piece) = Arena::take(&arena, 1 + random / 2 % 3000) {
                piece.bytes().fill(round as u8);
                held.push((round as u8, piece));
            }
            assert!(held.iter().all(|(value, piece)| piece.as_slice().iter().all(|byte| byte == value)));
            let arena = lock(&arena);
            let free: usize = arena.free.values().map(BytesMut::len).sum();
            assert!(held.is_empty() || free + arena.used == 10_000);
            let ends = arena.free.iter().map(|(start, piece)| start + piece.len());
            assert!(
                ends.zip(arena.free.keys().skip(1)).all(|(end, next)| end < *next),
                "neighbours are joined"
            );
        }
    }
}
