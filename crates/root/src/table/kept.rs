//! Bounded cache of decompressed pages for later reads.

use super::arena::{Arena, Piece};
use super::page::Page;
use crate::array::{pages, pool};
use sapwood_io::{PerProcess, lock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Maximum size of the page cache in bytes, over all tables of the process.
static MOST_CACHED: AtomicUsize = AtomicUsize::new(64 << 20);
/// Approximate memory of a page besides its bytes.
const OVERHEAD: usize = 256;

/// Smaller pages are left to the allocator.
const SMALLEST_PIECE: usize = 64 << 10;

/// Identifies a page: its table, the stored column, and its number there. Its position in the file does not: writers
/// store equal pages of different columns once, and each column decodes the bytes in its own way.
type Key = (u64, u64, u64);

/// Pages, or ends of pages, up to a total number of bytes.
pub struct Kept {
    most: usize,
    /// Bytes counted for each page in addition to its own.
    besides: usize,
    /// Bytes of the pages, and of those that will be stored in reserved room.
    used: usize,
    /// Each page with the number of the last read that used it.
    tails: BTreeMap<Key, (Arc<Tail>, u64)>,
    by_use: BTreeSet<(u64, Key)>,
    /// Memory of the large pages; if none, they have buffers of the pool.
    arena: Option<Arc<Mutex<Arena>>>,
}

/// The items of a page from a given item to its end.
#[allow(clippy::struct_excessive_bools, reason = "they are independent properties of a page, as in `Page`")]
pub struct Tail {
    /// Number of leading items of the page that are no longer here.
    pub dropped: usize,
    items: usize,
    origin: usize,
    sizes: bool,
    joined: bool,
    hollow: bool,
    /// The values, then the table of starts if there is one.
    bytes: Held,
    border: usize,
    table: bool,
}

/// Memory of a page.
enum Held {
    Buffer(Vec<u8>),
    Piece(Piece),
}

impl Held {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Buffer(bytes) => bytes,
            Self::Piece(piece) => piece.as_slice(),
        }
    }
}

impl Kept {
    /// Creates a cache of at most `most` bytes that counts `besides` bytes extra for each page.
    pub const fn new(most: usize, besides: usize) -> Self {
        Self { most, besides, used: 0, tails: BTreeMap::new(), by_use: BTreeSet::new(), arena: None }
    }
    /// Creates a cache whose large pages use the same memory again and again.
    fn with_arena(most: usize, besides: usize) -> Self {
        Self { arena: Some(Arc::new(Mutex::new(Arena::new(most)))), ..Self::new(most, besides) }
    }
    fn get(&mut self, key: Key, reading: u64) -> Option<Arc<Tail>> {
        let (tail, used) = self.tails.get_mut(&key)?;
        if *used < reading {
            self.by_use.remove(&(*used, key));
            self.by_use.insert((reading, key));
            *used = reading;
        }
        Some(tail.clone())
    }
    /// Removes a page and frees its room.
    fn remove(&mut self, key: Key) -> Option<Arc<Tail>> {
        let (tail, used) = self.tails.remove(&key)?;
        self.by_use.remove(&(used, key));
        self.used -= tail.bytes.as_slice().len() + self.besides;
        Some(tail)
    }
    /// Reserves room for this many bytes. If necessary, evicts the least recently used pages, but none used by this or
    /// a later read. If a read needs more than the total room, some of its pages therefore stay for the next read.
    fn reserve(&mut self, bytes: usize, reading: u64) -> bool {
        let bytes = bytes + self.besides;
        if bytes > self.most {
            return false;
        }
        while self.used + bytes > self.most {
            if !self.evict(reading) {
                return false;
            }
        }
        self.used += bytes;
        true
    }
    /// Changes the maximum size, and evicts what exceeds it.
    fn resize(&mut self, most: usize) {
        self.most = most;
        while self.used > most && self.evict(u64::MAX) {}
        // Pages that stay keep their memory.
        self.arena = Some(Arc::new(Mutex::new(Arena::new(most))));
    }
    /// Removes the least recently used page, unless this or a later read used it.
    fn evict(&mut self, reading: u64) -> bool {
        match self.by_use.first() {
            Some(&(used, key)) if used < reading => self.remove(key).is_some(),
            _ => false,
        }
    }
    /// Returns memory for a page whose room was reserved, or frees the room if there is none.
    fn memory(kept: &Mutex<Self>, bytes: usize, reading: u64) -> Option<Held> {
        let mut locked = lock(kept);
        let held = if let Some(arena) = locked.arena.clone().filter(|_| bytes >= SMALLEST_PIECE) {
            locked.piece(&arena, bytes, reading).map(Held::Piece)
        } else {
            drop(locked);
            let buffer: Vec<u8> = pool::with_capacity(bytes);
            locked = lock(kept);
            (buffer.capacity() >= bytes).then_some(Held::Buffer(buffer))
        };
        if held.is_none() {
            locked.used -= bytes + locked.besides;
        }
        held
    }
    /// Takes a piece of the arena. Pages are evicted until free pieces that are adjacent are large enough.
    fn piece(&mut self, arena: &Arc<Mutex<Arena>>, bytes: usize, reading: u64) -> Option<Piece> {
        loop {
            let piece = Arena::take(arena, bytes);
            if piece.is_some() || !self.evict(reading) {
                return piece;
            }
        }
    }
    /// Stores a page whose room was reserved.
    fn insert(&mut self, key: Key, tail: Arc<Tail>, reading: u64) {
        drop(self.remove(key));
        self.by_use.insert((reading, key));
        self.tails.insert(key, (tail, reading));
    }

    /// Takes the rest of a page out, if it holds the items from `from` on.
    pub fn take(kept: &Mutex<Self>, key: Key, from: usize) -> Option<Arc<Tail>> {
        lock(kept).remove(key).filter(|tail| tail.dropped <= from)
    }

    /// Stores the items of a page after the first `skipped`, if there is room. Their bytes begin at `start`. `dropped`
    /// counts the items of the page that are not in `page`.
    pub fn keep(
        kept: &Mutex<Self>,
        key: Key,
        reading: u64,
        page: &Page<'_>,
        (start, skipped): (usize, usize),
        dropped: usize,
    ) {
        let data = page.data.get(start..).unwrap_or_default();
        let table = page.table.map(|table| table.get(skipped * 4..).unwrap_or_default());
        let bytes = data.len() + table.map_or(0, <[u8]>::len);
        if !lock(kept).reserve(bytes, reading) {
            return;
        }
        // Without memory, the page will be read again.
        let Some(mut held) = Self::memory(kept, bytes, reading) else { return };
        let table_bytes = table.unwrap_or_default();
        match &mut held {
            Held::Buffer(copy) => {
                copy.spare_capacity_mut().get_mut(..bytes).into_iter().for_each(pages::provide);
                copy.extend_from_slice(data);
                copy.extend_from_slice(table_bytes);
            }
            Held::Piece(piece) => {
                pages::provide(piece.bytes());
                let (values, starts) = piece.bytes().split_at_mut_checked(data.len()).unwrap_or_default();
                values.copy_from_slice(data);
                starts.copy_from_slice(table_bytes);
            }
        }
        let tail = Tail {
            dropped: dropped + skipped,
            items: page.items - skipped,
            origin: page.origin + start,
            sizes: page.sizes,
            joined: page.joined,
            hollow: page.hollow,
            bytes: held,
            border: data.len(),
            table: table.is_some(),
        };
        lock(kept).insert(key, Arc::new(tail), reading);
    }

    /// Stores a tail that was taken, unchanged, if there is room.
    pub fn put_back(kept: &Mutex<Self>, key: Key, reading: u64, tail: &Arc<Tail>) {
        let mut kept = lock(kept);
        if kept.reserve(tail.bytes.as_slice().len(), reading) {
            kept.insert(key, tail.clone(), reading);
        }
    }
}

impl Tail {
    /// Returns it as a page that starts with the first item here.
    pub fn page(&self) -> Page<'_> {
        let (data, table) = self.bytes.as_slice().split_at_checked(self.border).unwrap_or_default();
        Page {
            data,
            table: self.table.then_some(table),
            origin: self.origin,
            items: self.items,
            sizes: self.sizes,
            joined: self.joined,
            hollow: self.hollow,
        }
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        if let Held::Buffer(buffer) = &mut self.bytes {
            pool::give_back(std::mem::take(buffer));
        }
    }
}

/// The cache of this process. A forked child gets a new one, because another thread may have held the inherited one.
fn cache() -> &'static Mutex<Kept> {
    static KEPT: PerProcess<Mutex<Kept>> = PerProcess::empty();
    KEPT.get(|_| Mutex::new(Kept::with_arena(MOST_CACHED.load(Ordering::Relaxed), OVERHEAD)))
}

/// Sets the maximum size of the page cache of the process in bytes; returns the previous one.
pub fn set_most_cached(bytes: usize) -> usize {
    let mut kept = lock(cache());
    let before = MOST_CACHED.swap(bytes, Ordering::Relaxed);
    if before != bytes {
        kept.resize(bytes);
    }
    before
}

static TABLES: AtomicU64 = AtomicU64::new(0);
static READINGS: AtomicU64 = AtomicU64::new(0);

/// The page cache of one table: it keeps pages that were read in part, for later reads.
pub struct PageCache {
    table: u64,
}

impl Default for PageCache {
    fn default() -> Self {
        Self { table: TABLES.fetch_add(1, Ordering::Relaxed) }
    }
}

impl PageCache {
    /// Returns a number for a read, greater than all before.
    pub fn reading() -> u64 {
        READINGS.fetch_add(1, Ordering::Relaxed)
    }
    fn key(&self, (column, number): (usize, usize)) -> Key {
        (self.table, column as u64, number as u64)
    }
    /// Returns a page, given its stored column and its number there.
    pub fn get(&self, page: (usize, usize), reading: u64) -> Option<Arc<Tail>> {
        lock(cache()).get(self.key(page), reading)
    }
    /// Whether the cache holds the page.
    pub fn holds(&self, page: (usize, usize)) -> bool {
        lock(cache()).tails.contains_key(&self.key(page))
    }
    /// Stores a page.
    pub fn keep(&self, number: (usize, usize), reading: u64, page: &Page<'_>) {
        Kept::keep(cache(), self.key(number), reading, page, (0, 0), 0);
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let mut kept = lock(cache());
        let mine = kept.tails.range((self.table, 0, 0)..=(self.table, u64::MAX, u64::MAX));
        let mine: Vec<Key> = mine.map(|(&key, _)| key).collect();
        for key in mine {
            drop(kept.remove(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(kept: &Mutex<Kept>, page: u64, bytes: usize, reading: u64) {
        let values = vec![page as u8; bytes - OVERHEAD];
        Kept::keep(kept, (0, 0, page), reading, &Page::plain(&values, 1), (0, 0), 0);
    }

    fn held(kept: &Mutex<Kept>) -> Vec<u64> {
        held_beside(kept, 0)
    }

    /// The pages that are kept while this many bytes are reserved.
    fn held_beside(kept: &Mutex<Kept>, reserved: usize) -> Vec<u64> {
        let kept = lock(kept);
        let used: usize = kept.tails.values().map(|(tail, _)| tail.bytes.as_slice().len() + OVERHEAD).sum();
        assert_eq!((used + reserved, kept.tails.len()), (kept.used, kept.by_use.len()));
        assert!(kept.used <= kept.most);
        kept.tails.keys().map(|key| key.2).collect()
    }

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let kept = Mutex::new(Kept::new(4000, OVERHEAD));
        (0..4).for_each(|page| put(&kept, page, 1000, page));
        assert_eq!(held(&kept), [0, 1, 2, 3]);
        assert_eq!(lock(&kept).get((0, 0, 0), 4).map(|tail| tail.page().data.to_vec()), Some(vec![0; 744]));
        put(&kept, 4, 2000, 5);
        assert_eq!(held(&kept), [0, 3, 4]);
        // The same page again takes no more room.
        put(&kept, 4, 1000, 6);
        assert_eq!(held(&kept), [0, 4]);
        put(&kept, 9, 4001, 7);
        assert_eq!(held(&kept), [0, 4]);
    }

    #[test]
    fn large_pages_of_any_size_use_the_same_memory_again() {
        let kept = Mutex::new(Kept::with_arena(16 << 20, OVERHEAD));
        let addresses = || {
            let kept = lock(&kept);
            let pages = kept.tails.values().map(|(tail, _)| tail.page().data.as_ptr().addr());
            pages.collect::<Vec<usize>>()
        };
        let sizes = [3 << 20, 600 << 10, 5 << 20, 130 << 10, 70 << 10];
        let (mut first, mut last, mut most) = (usize::MAX, 0, 0);
        for page in 0..300_u64 {
            let bytes = sizes[(7 * page + page / 3) as usize % sizes.len()];
            put(&kept, page, bytes, page);
            assert!(held(&kept).contains(&page), "{page}");
            assert!(lock(&kept).tails[&(0, 0, page)].0.page().data.iter().all(|byte| *byte == page as u8));
            for address in addresses() {
                (first, last) = (first.min(address), last.max(address));
            }
            most = most.max(lock(&kept).used);
        }
        assert!(last - first < 16 << 20, "all pages are in one range of 16 MiB");
        assert!(most > 12 << 20, "little room is lost between pages: {most}");
        // Small pages are not in that range.
        put(&kept, 300, 1000, 300);
        let small = lock(&kept).tails[&(0, 0, 300)].0.page().data.as_ptr().addr();
        assert!(!(first..=last).contains(&small));
        // A page that is read stays whole when it is evicted.
        let read = lock(&kept).get((0, 0, 299), 301).unwrap();
        (302..320).for_each(|page| put(&kept, page, 3 << 20, page));
        assert!(!held(&kept).contains(&299) && read.page().data.iter().all(|byte| *byte == 299_u64 as u8));
    }

    #[test]
    fn a_smaller_cache_evicts_the_pages_used_longest_ago() {
        let kept = Mutex::new(Kept::with_arena(4 << 20, OVERHEAD));
        (0..4).for_each(|page| put(&kept, page, 1 << 20, page));
        assert!(lock(&kept).reserve(10_000, 4));
        lock(&kept).resize((2 << 20) + 50_000);
        assert_eq!(held_beside(&kept, 10_000 + OVERHEAD), [2, 3]);
        put(&kept, 5, 600 << 10, 5);
        assert_eq!(held_beside(&kept, 10_000 + OVERHEAD), [3, 5]);
        lock(&kept).used -= 10_000 + OVERHEAD;
        let read = lock(&kept).get((0, 0, 5), 6).unwrap();
        lock(&kept).resize(0);
        put(&kept, 6, 1000, 7);
        assert_eq!(held(&kept), [0_u64; 0]);
        assert!(read.page().data.iter().all(|byte| *byte == 5), "a page that is read stays whole");
        lock(&kept).resize(4 << 20);
        (0..6).for_each(|page| put(&kept, page, 1 << 20, 8 + page));
        assert_eq!(held(&kept), [2, 3, 4, 5]);
    }

    #[test]
    fn a_page_without_memory_takes_no_room() {
        let kept = Mutex::new(Kept::with_arena(1 << 20, OVERHEAD));
        put(&kept, 0, 600 << 10, 1);
        let read = lock(&kept).get((0, 0, 0), 1);
        // The page is evicted, but its memory is in use.
        put(&kept, 1, 700 << 10, 2);
        assert_eq!(held(&kept), [0_u64; 0]);
        drop(read);
        put(&kept, 1, 700 << 10, 3);
        assert_eq!(held(&kept), [1]);
    }

    #[test]
    fn a_reading_that_is_too_large_keeps_a_part() {
        let kept = Mutex::new(Kept::new(4000, OVERHEAD));
        for reading in 1..4 {
            for page in 0..10 {
                let known = lock(&kept).get((0, 0, page), reading).is_some();
                assert_eq!(known, reading > 1 && page < 4, "{reading} {page}");
                if !known {
                    put(&kept, page, 1000, reading);
                }
            }
        }
    }
}
