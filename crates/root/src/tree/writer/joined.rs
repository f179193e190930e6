//! Joining trees of several files into one: baskets are copied in their stored form.
//!
//! The object of the first tree becomes that of the joined tree, including everything unknown to this library. The
//! bytes of a basket are kept, except its position, the position of its directory, and the offset of its process
//! identifiers. If a codec is given, baskets are decompressed and recompressed. They are never decoded, so that every
//! class can be joined.

use super::existing::{Existing, Grown, GrownBranch, GrownIndex};
use super::metadata;
use super::row;
use super::{AHEAD, Basket};
use crate::compress::decode;
use crate::compress::encode::{Compression, compress};
use crate::error::{Error, ErrorKind, Result, Within};
use crate::file::writer::{DirectoryId, FileWriter, KeyId};
use crate::file::{Key, RootFile};
use crate::streamer::Classes;
use crate::tree::basket::BasketHeader;
use crate::tree::{self, BasketPlace, Tree};
use crate::wire::Cursor;
use crate::wire::grow::{self, Grow};
use sapwood_io::{Cause, Range, Token};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

/// Compressed bytes of remote files that are read at once, unless a single basket is larger.
const BATCH: u64 = 4 << 20;
/// The same for local files: small enough to stay in the processor's cache and to keep threads from waiting for each
/// other.
const NEAR_BATCH: u64 = 256 << 10;
/// Maximum gap in bytes between baskets that are read together.
const GAP: u64 = 32 << 10;
/// Position of a key's own position and its directory's position (`fSeekKey`, `fSeekPdir`).
const SEEKS: usize = 18;
/// Bits of the directory's position; the higher bits hold the offset of process identifiers (`TKey::fPidOffset`).
const PLACE_BITS: u32 = 48;

/// A tree to which the baskets of other trees are added.
pub struct JoinedTree {
    key: KeyId,
    name: String,
    seek_directory: u64,
    existing: Existing,
    tree: Tree,
    compression: Option<Compression>,
    entries: u64,
    clusters: Vec<u64>,
    branches: Vec<Totals>,
    /// Classes of the previous file, which the output describes.
    described: Option<Arc<Classes>>,
    /// Number of trees added, including failed attempts.
    added: usize,
    mark: Mark,
    changed: bool,
}

/// A state for rollback.
#[derive(Default)]
struct Mark {
    entries: u64,
    clusters: usize,
    /// For each branch: baskets, bytes before and after compression, and maximum.
    branches: Vec<(usize, u64, u64, i64)>,
}

/// The added state of a branch.
#[derive(Default)]
struct Totals {
    baskets: Vec<Basket>,
    total_bytes: u64,
    zip_bytes: u64,
    maximum: i64,
}

/// A basket to copy.
struct Piece {
    branch: usize,
    first: u64,
    entries: u64,
    seek: u64,
    bytes: u64,
}

impl Piece {
    /// Describes it for errors.
    fn place(&self, tree: &Tree) -> String {
        let branch = tree.branches.get(self.branch).map_or("", |b| b.name.as_str());
        format!("branch {branch}, the basket at byte {}", self.seek)
    }
}

/// The record of a basket in a batch.
struct Record {
    header: BasketHeader,
    /// Position in the buffer.
    at: usize,
    /// The whole record, if it was recompressed.
    packed: Option<Vec<u8>>,
}

impl Record {
    /// Its bytes in the buffer.
    fn range(&self) -> std::ops::Range<usize> {
        self.at..self.at + self.header.total_bytes
    }
    /// Number of bytes to write.
    fn bytes(&self) -> u64 {
        self.packed.as_ref().map_or(self.header.total_bytes, Vec::len) as u64
    }
}

/// Baskets that are read and written together.
#[derive(Default)]
struct Batch {
    buffer: Vec<u8>,
    records: Vec<Record>,
}

thread_local! {
    /// The batch of a thread that copies local files: its memory serves for the next file.
    static KEPT: Cell<Batch> = Cell::default();
}

impl Batch {
    /// Reads baskets, and recompresses them if there is a codec.
    fn prepare(
        &mut self,
        source: &RootFile,
        tree: &Tree,
        pieces: &[Piece],
        codec: Option<Compression>,
    ) -> Result<()> {
        self.records.clear();
        let (ranges, places) = ranges(pieces)?;
        let size = source.source().size();
        if ranges.iter().any(|r| r.offset.checked_add(r.length).is_none_or(|end| end > size)) {
            return Err(Error::corrupt("a basket reaches past the end of the file"));
        }
        let bytes = ranges.iter().map(|range| range.length as usize).sum();
        if self.buffer.len() < bytes {
            let more = bytes - self.buffer.len();
            let no_room = |_| Error::limit(format!("no memory for {bytes} bytes"));
            self.buffer.try_reserve_exact(more).map_err(no_room)?;
            self.buffer.resize(bytes, 0);
        }
        let buffer = self.buffer.get_mut(..bytes).unwrap_or_default();
        source.source().fetch(&ranges, buffer, Cause::Page)?;
        let prepare = |(piece, at): (&Piece, &usize)| {
            let record = buffer.get(*at..at + piece.bytes as usize).unwrap_or_default();
            source.verify_records(piece.seek, record).within(|| piece.place(tree))?;
            let header = verify(record, piece, tree).within(|| piece.place(tree))?;
            let packed = codec.map(|codec| recompress(record, header, codec)).transpose();
            Ok(Record { header, at: *at, packed: packed.within(|| piece.place(tree))? })
        };
        // Only recompression is worth starting threads for.
        let pairs = grow::collected(pieces.iter().zip(&places))?;
        if codec.is_some() {
            self.records = grow::mapped(&pairs, || (), |(): &mut (), pair| prepare(*pair))?;
            return Ok(());
        }
        self.records.room(pairs.len())?;
        pairs.into_iter().try_for_each(|pair| {
            self.records.push(prepare(pair)?);
            Ok(())
        })
    }
}

/// Splits into parts of about `most` bytes.
fn batches(pieces: &[Piece], most: u64) -> Result<Vec<&[Piece]>> {
    let mut bytes = 0;
    let together = |piece: &Piece, next: &Piece| {
        bytes += piece.bytes;
        let fits = bytes + next.bytes <= most;
        bytes = if fits { bytes } else { 0 };
        fits
    };
    grow::collected(pieces.chunk_by(together))
}

/// Returns the ranges that hold some baskets, in the order of their positions, and the position of each basket in the
/// bytes of the ranges.
fn ranges(pieces: &[Piece]) -> Result<(Vec<Range>, Vec<usize>)> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut places = grow::with_room(pieces.len())?;
    let (mut bytes, mut end) = (0, 0);
    for piece in pieces {
        if piece.seek < end {
            let text = format!("two baskets share bytes at byte {}", piece.seek);
            return Err(Error::corrupt(text).at(piece.seek));
        }
        let gap = piece.seek - end;
        end = piece.seek.saturating_add(piece.bytes);
        match ranges.last_mut() {
            Some(last) if gap <= GAP => {
                last.length += gap + piece.bytes;
                bytes += gap as usize;
            }
            _ => ranges.try_push(Range { offset: piece.seek, length: piece.bytes })?,
        }
        places.push(bytes);
        bytes += piece.bytes as usize;
    }
    Ok((ranges, places))
}

impl JoinedTree {
    /// Creates a tree in a directory with the layout of a tree in another file.
    pub fn new(
        file: &mut FileWriter,
        directory: DirectoryId,
        name: &str,
        source: &Arc<RootFile>,
        key: &Key,
        compression: Option<Compression>,
    ) -> Result<Self> {
        let place = || format!("tree {}", key.name);
        let (existing, tree) = Existing::read(source, key).within(place)?;
        let id = file.reserve(directory, &tree.classname, name, &tree.title)?;
        let branches = tree.branches.iter().map(|_| Totals::default()).collect();
        Ok(Self {
            key: id,
            name: name.to_owned(),
            seek_directory: file.seek_of(directory),
            existing,
            tree,
            compression,
            entries: 0,
            clusters: Vec::new(),
            branches,
            described: None,
            added: 0,
            mark: Mark::default(),
            changed: true,
        })
    }

    /// Whether baskets are copied as they are stored.
    pub fn keeps(&self) -> bool {
        self.compression.is_none()
    }
    /// Number of entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }
    /// Marks the state for [`Self::roll_back`].
    pub fn mark(&mut self) {
        let branches = self.branches.iter().map(|b| (b.baskets.len(), b.total_bytes, b.zip_bytes, b.maximum));
        self.mark =
            Mark { entries: self.entries, clusters: self.clusters.len(), branches: branches.collect() };
    }
    /// Reverts to the mark. The bytes of the added baskets stay in the file, unused.
    pub fn roll_back(&mut self) {
        self.entries = self.mark.entries;
        self.clusters.truncate(self.mark.clusters);
        let marks = self.mark.branches.iter().copied().chain(std::iter::repeat((0, 0, 0, 0)));
        for (branch, (baskets, total_bytes, zip_bytes, maximum)) in self.branches.iter_mut().zip(marks) {
            branch.baskets.truncate(baskets);
            (branch.total_bytes, branch.zip_bytes, branch.maximum) = (total_bytes, zip_bytes, maximum);
        }
        self.changed = true;
    }
    /// Whether the first tree has an index (`TTreeIndex`). It is invalid for several trees and is then left out.
    pub fn has_index(&self) -> bool {
        self.existing.has_index()
    }

    /// Adds all entries of a tree in a file and returns their number. Adds nothing if the trees differ.
    ///
    /// `processes` is the number of process identifiers (`TProcessID`) in the output before those of the tree's own
    /// file.
    pub fn add(
        &mut self,
        file: &mut FileWriter,
        source: &Arc<RootFile>,
        tree: &Tree,
        processes: u16,
    ) -> Result<u64> {
        let place = || format!("tree {} of {}", tree.name, source.name());
        // Count it even if it fails, because the description is that of the first tree.
        self.added += 1;
        let places = match_branches(&self.tree, tree).within(place)?;
        let classes = source.classes()?;
        if !self.described.as_ref().is_some_and(|known| Arc::ptr_eq(known, &classes)) {
            for info in classes.iter() {
                file.describe(info.clone()).within(place)?;
            }
            self.described = Some(classes);
        }
        let (mut pieces, mut nowhere) = (Vec::new(), Vec::new());
        for (branch, to) in tree.branches.iter().zip(&places) {
            for basket in &branch.baskets {
                let first = self.entries + basket.first;
                match basket.place {
                    BasketPlace::File(seek, bytes) => {
                        let entries = basket.entries;
                        pieces.try_push(Piece { branch: *to, first, entries, seek, bytes })?;
                    }
                    BasketPlace::Nowhere => {
                        nowhere.try_push((*to, Basket { bytes: 0, entry: first, seek: 0 }))?;
                    }
                    BasketPlace::Tree(_) => {}
                }
            }
        }
        let written = self.copy_all(file, source, pieces, processes).within(place)?;
        self.enter(written, nowhere, tree.entries, &tree.cluster_borders()).within(place)?;
        for (branch, to) in tree.branches.iter().zip(&places) {
            if let Some(totals) = self.branches.get_mut(*to) {
                totals.maximum = totals.maximum.max(maximum(branch));
            }
        }
        Ok(tree.entries)
    }

    /// Adds baskets of a file whose tree has no description, or one that does not list them. Each has branch, position,
    /// length, first entry and number of entries; the first entry counts from the end of the tree so far.
    pub fn add_baskets(
        &mut self,
        file: &mut FileWriter,
        source: &RootFile,
        baskets: &[(usize, u64, u64, u64, u64)],
        entries: u64,
    ) -> Result<()> {
        let piece = |(branch, seek, bytes, first, entries): &(usize, u64, u64, u64, u64)| Piece {
            branch: *branch,
            first: self.entries + first,
            entries: *entries,
            seek: *seek,
            bytes: *bytes,
        };
        let pieces = grow::collected(baskets.iter().map(piece))?;
        let written = self.copy_all(file, source, pieces, 0)?;
        self.enter(written, Vec::new(), entries, &[0, entries])?;
        // The baskets are not a whole tree, so that an index does not apply to them.
        self.added += 2;
        for (branch, totals) in self.tree.branches.iter().zip(&mut self.branches) {
            totals.maximum = totals.maximum.max(maximum(branch));
        }
        Ok(())
    }

    /// Enters written baskets, and clusters with these borders, into the tree.
    fn enter(
        &mut self,
        written: Vec<(usize, Basket, u64)>,
        nowhere: Vec<(usize, Basket)>,
        entries: u64,
        borders: &[u64],
    ) -> Result<()> {
        let before = grow::collected(self.branches.iter().map(|totals| totals.baskets.len()))?;
        let mut counts = grow::filled(self.branches.len(), 0)?;
        let all = written.iter().map(|(branch, ..)| branch).chain(nowhere.iter().map(|(branch, _)| branch));
        for branch in all {
            counts.get_mut(*branch).into_iter().for_each(|count| *count += 1);
        }
        self.branches.iter_mut().zip(counts).try_for_each(|(totals, count)| totals.baskets.room(count))?;
        self.clusters.room(borders.len())?;
        for (branch, basket, total) in written {
            if let Some(totals) = self.branches.get_mut(branch) {
                totals.total_bytes += total;
                totals.zip_bytes += u64::from(basket.bytes);
                totals.baskets.push(basket);
            }
        }
        for (branch, basket) in nowhere {
            self.branches.get_mut(branch).into_iter().for_each(|totals| totals.baskets.push(basket));
        }
        for (totals, before) in self.branches.iter_mut().zip(before) {
            totals.baskets.get_mut(before..).unwrap_or_default().sort_unstable_by_key(|basket| basket.entry);
        }
        self.clusters.extend(borders.iter().skip(1).map(|border| self.entries + border));
        self.entries += entries;
        self.changed = true;
        Ok(())
    }

    /// Copies baskets in the order of their positions, one batch at a time.
    ///
    /// Unchanged bytes are copied between local files by one thread. In all other cases the pool reads and compresses
    /// batches while earlier ones are written.
    fn copy_all(
        &self,
        file: &mut FileWriter,
        source: &RootFile,
        mut pieces: Vec<Piece>,
        processes: u16,
    ) -> Result<Vec<(usize, Basket, u64)>> {
        pieces.sort_unstable_by_key(|piece| (piece.seek, piece.bytes));
        let mut written = grow::with_room(pieces.len())?;
        let (tree, codec) = (&self.tree, self.compression);
        let near = source.source().is_near();
        let batches = batches(&pieces, if near { NEAR_BATCH } else { BATCH })?;
        let operation = Token::current();
        let prepare = |pieces: &&[Piece], batch: &mut Batch| {
            if operation.is_given_up() {
                return Err(Error::new(ErrorKind::Io, "given up"));
            }
            operation.during(|| batch.prepare(source, tree, pieces, codec))
        };
        let mut write =
            |pieces: &&[Piece], batch: &mut Batch| self.write(file, pieces, batch, processes, &mut written);
        if codec.is_none() && near {
            let mut batch = KEPT.take();
            for pieces in &batches {
                prepare(pieces, &mut batch)?;
                write(pieces, &mut batch)?;
            }
            if batch.buffer.len() as u64 <= 2 * NEAR_BATCH {
                KEPT.set(batch);
            }
        } else {
            row::in_order(&batches, rayon::current_num_threads() + AHEAD, prepare, write)?;
        }
        Ok(written)
    }

    /// Writes a batch to the end of the file.
    fn write(
        &self,
        file: &mut FileWriter,
        pieces: &[Piece],
        batch: &mut Batch,
        processes: u16,
        written: &mut Vec<(usize, Basket, u64)>,
    ) -> Result<()> {
        let Batch { buffer, records } = batch;
        let mut stretch = file.begin_stretch(records.iter().map(Record::bytes).sum());
        let mut seek = stretch.end;
        for (record, piece) in records.iter_mut().zip(pieces) {
            let header = record.header;
            let stored = buffer.get_mut(record.range()).unwrap_or_default();
            let bytes = record.packed.as_mut().map_or(stored, Vec::as_mut_slice);
            readdress(bytes, seek, self.seek_directory, processes).within(|| piece.place(&self.tree))?;
            let basket = Basket { bytes: bytes.len() as u32, entry: piece.first, seek };
            written.push((piece.branch, basket, (header.key_bytes + header.object_bytes) as u64));
            seek += bytes.len() as u64;
        }
        // Unchanged baskets that lie next to each other are one part.
        let together =
            |a: &Record, b: &Record| a.packed.is_none() && b.packed.is_none() && a.range().end == b.at;
        let parts = grow::collected(records.chunk_by(together).map(|group| match group {
            [Record { packed: Some(packed), .. }] => packed.as_slice(),
            [first, .., last] => buffer.get(first.at..last.range().end).unwrap_or_default(),
            [one] => buffer.get(one.range()).unwrap_or_default(),
            [] => &[],
        }));
        let appended = parts.and_then(|parts| file.append(&mut stretch, &parts));
        if appended.is_err() {
            file.give_back(&stretch);
        }
        appended?;
        let baskets: usize = self.branches.iter().map(|b| b.baskets.len()).sum();
        let need = self.existing.size() + 20 * (baskets + written.len());
        file.accept(&stretch, self.key, need + metadata::MIN_BASKETS).map(|_| ())
    }

    /// Writes the tree's object for all entries so far.
    pub fn save(&mut self, file: &mut FileWriter) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        let codec = self.compression.map(Compression::code);
        let branches = self.tree.branches.iter().zip(&self.branches).map(|(branch, totals)| GrownBranch {
            name: &branch.name,
            baskets: &totals.baskets,
            total_bytes: totals.total_bytes,
            zip_bytes: totals.zip_bytes,
            maximum: Some(totals.maximum),
            last: if totals.baskets.is_empty() { 0 } else { self.entries },
            entries: self.entries,
            codec,
        });
        let grown = Grown {
            entries: self.entries,
            clusters: &self.clusters,
            auto_flush: self.tree.auto_flush,
            branches: grow::collected(branches)?,
            index: if self.added == 1 { GrownIndex::Same } else { GrownIndex::Lost },
            name: &self.name,
        };
        let existing = &self.existing;
        file.write(self.key, |displacement| existing.encode(&grown, displacement))
            .within(|| format!("tree {}", self.name))?;
        self.changed = false;
        Ok(())
    }
}

/// Returns the largest count of a branch's leaf, or the length of its longest string.
fn maximum(branch: &tree::Branch) -> i64 {
    branch.leaves.first().map_or(0, |leaf| match leaf.class.as_str() {
        "TLeafC" => leaf.length,
        _ => leaf.maximum.max(branch.maximum),
    })
}

/// Fails if a record is not the basket that the tree describes.
fn verify(record: &[u8], piece: &Piece, tree: &Tree) -> Result<BasketHeader> {
    let key = Key::parse(&mut Cursor::new(record, piece.seek))?;
    let header = BasketHeader::parse(&mut Cursor::new(record, piece.seek))?;
    let name = tree.branches.get(piece.branch).map_or("", |branch| branch.name.as_str());
    if key.classname != "TBasket" || header.total_bytes != record.len() || key.name != name {
        return Err(Error::corrupt(format!(
            "a record {} of class {} with {} bytes is not a basket of {} bytes",
            key.name,
            key.classname,
            header.total_bytes,
            record.len()
        )));
    }
    if header.entries as u64 != piece.entries {
        return Err(Error::corrupt(format!(
            "{} entries in the basket where the tree has {}",
            header.entries, piece.entries
        )));
    }
    Ok(header)
}

/// Returns the record of a basket, recompressed with another codec.
fn recompress(record: &[u8], header: BasketHeader, compression: Compression) -> Result<Vec<u8>> {
    let (head, stored) = record.split_at_checked(header.key_bytes).unwrap_or_default();
    let mut plain = Vec::new();
    let body = if stored.len() == header.object_bytes {
        stored
    } else {
        decode::verify_size(stored, header.object_bytes)?;
        let no_room = |_| Error::limit(format!("no memory for {} bytes", header.object_bytes));
        plain.try_reserve_exact(header.object_bytes).map_err(no_room)?;
        plain.resize(header.object_bytes, 0);
        decode::decompress(stored, &mut plain)?;
        &plain
    };
    let mut packed = Vec::new();
    let used = compress(compression, body, &mut packed)?;
    let packed = used.and_then(|used| packed.get(..used)).unwrap_or(body);
    let mut out = grow::with_room(head.len() + packed.len())?;
    out.extend_from_slice(head);
    out.extend_from_slice(packed);
    Ok(out)
}

/// Writes the length, the position, the directory and the offset of process identifiers into the key of a record.
fn readdress(record: &mut [u8], seek: u64, seek_directory: u64, processes: u16) -> Result<()> {
    let length = i32::try_from(record.len()).map_err(|_| Error::limit("a basket of 2 GiB"))?;
    put(record, 0, &length.to_be_bytes())?;
    if is_big(record) {
        let mut old = Cursor::new(record, 0);
        old.seek(SEEKS + 8)?;
        let before = (old.u64()? >> PLACE_BITS) as u16;
        let offset = before
            .checked_add(processes)
            .ok_or_else(|| Error::limit("one file cannot have more than 65535 process identifiers"))?;
        let parent = seek_directory | u64::from(offset) << PLACE_BITS;
        put(record, SEEKS, &seek.to_be_bytes())?;
        return put(record, SEEKS + 8, &parent.to_be_bytes());
    }
    let narrow = |place: u64| u32::try_from(place).ok().filter(|_| processes == 0).ok_or_else(too_narrow);
    put(record, SEEKS, &narrow(seek)?.to_be_bytes())?;
    put(record, SEEKS + 4, &narrow(seek_directory)?.to_be_bytes())
}

/// Whether the key of a record has 64-bit positions.
fn is_big(record: &[u8]) -> bool {
    matches!(record.get(4..6), Some([high, low]) if u16::from_be_bytes([*high, *low]) > 1000)
}

fn too_narrow() -> Error {
    Error::unsupported(
        "a basket with 32-bit positions cannot be moved that far into the file: rewrite the tree instead",
    )
}

fn put(record: &mut [u8], at: usize, bytes: &[u8]) -> Result<()> {
    let place = record.get_mut(at..at + bytes.len());
    place.ok_or_else(|| Error::corrupt("a basket shorter than its key"))?.copy_from_slice(bytes);
    Ok(())
}

/// Returns the branch of the first tree for each branch of another tree, in the order of the other tree.
///
/// Fails if a branch is missing in one of them, if layouts differ, or if baskets cannot be copied.
fn match_branches(first: &Tree, other: &Tree) -> Result<Vec<usize>> {
    let places = places(first, other)?;
    for (index, (branch, to)) in other.branches.iter().zip(&places).enumerate() {
        let Some(like) = first.branches.get(*to) else { continue };
        let place = || format!("branch {}", other.path(index));
        let fail = |why: String| Err(Error::argument(why).within(place()));
        let counter = branch.counter.and_then(|counter| places.get(counter).copied());
        if (&branch.class, &branch.element) != (&like.class, &like.element)
            || !branch.leaves.iter().map(leaf_layout).eq(like.leaves.iter().map(leaf_layout))
            || counter != like.counter
            || branch.offsets_from_counter != like.offsets_from_counter
        {
            return fail(format!(
                "its layout differs from the first tree ({} {}, not {} {})",
                branch.class,
                leaf_text(branch),
                like.class,
                leaf_text(like)
            ));
        }
        if !branch.other_file.is_empty() {
            return fail(format!("its baskets are in another file, {}", branch.other_file));
        }
        if branch.baskets.iter().any(|b| matches!(b.place, BasketPlace::Tree(_))) {
            let why = "a basket of it is in the tree's own object, so it cannot be copied as it is";
            return Err(Error::unsupported(why).within(place()));
        }
        if branch.entries != other.entries && !branch.baskets.is_empty() {
            return fail(format!("it has {} entries where the tree has {}", branch.entries, other.entries));
        }
        let covered: u64 = branch.baskets.iter().map(|b| b.entries).sum();
        if !branch.baskets.is_empty() && covered != other.entries {
            return fail(format!("its baskets have {covered} of {} entries", other.entries));
        }
        if branch.baskets.is_empty() && !like.baskets.is_empty() && other.entries > 0 {
            return fail("it has no baskets".to_owned());
        }
    }
    Ok(places)
}

/// Returns the branch of the first tree with the name and the parent of each branch of another tree.
fn places(first: &Tree, other: &Tree) -> Result<Vec<usize>> {
    let same = |(a, b): (&tree::Branch, &tree::Branch)| a.parent == b.parent && a.name == b.name;
    if first.branches.len() == other.branches.len() && first.branches.iter().zip(&other.branches).all(same) {
        return Ok((0..first.branches.len()).collect());
    }
    let mut names: HashMap<(Option<usize>, &str), Vec<usize>> = HashMap::new();
    for (index, branch) in first.branches.iter().enumerate().rev() {
        names.entry((branch.parent, &branch.name)).or_default().push(index);
    }
    let mut places: Vec<usize> = Vec::with_capacity(other.branches.len());
    for (index, branch) in other.branches.iter().enumerate() {
        let parent = branch.parent.and_then(|parent| places.get(parent).copied());
        let found = names.get_mut(&(parent, branch.name.as_str())).and_then(Vec::pop);
        let found =
            found.ok_or_else(|| differ(format!("the first tree has no branch {}", other.path(index))))?;
        places.push(found);
    }
    match names.values().flatten().min() {
        Some(missing) => Err(differ(format!("there is no branch {}", first.path(*missing)))),
        None => Ok(places),
    }
}

/// Returns what the leaves of joined branches must have in common: class, title, length, width, sign, whether it counts
/// others, and streamer type. Strings may differ in length.
fn leaf_layout(leaf: &tree::Leaf) -> (&str, &str, i64, i64, bool, bool, i32) {
    let length = if leaf.class == "TLeafC" { 0 } else { leaf.length };
    (&leaf.class, &leaf.title, length, leaf.width, leaf.unsigned, leaf.counted, leaf.kind)
}

fn differ(text: String) -> Error {
    Error::argument(text + "; merge --union (union=True) takes the branches of all files")
}

fn leaf_text(branch: &tree::Branch) -> String {
    let class = branch.element.as_ref().map_or("", |e| e.class_name.as_str());
    let leaves: Vec<String> = branch.leaves.iter().map(|l| format!("{}:{}", l.class, l.title)).collect();
    format!("{class}[{}]", leaves.join(", "))
}
