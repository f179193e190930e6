//! A tree already in the file, to which entries or branches are added.
//!
//! Its object is kept, including everything unknown to this library. Only members that change are replaced. Byte counts
//! around them, and references around and after them, are adjusted.

use super::TreeWriter;
use super::basket::Basket;
use super::branch::{Branch, BranchKind, BranchSpec};
use super::cluster::{ClusterRange, ranges};
use super::index::ContinuedIndex;
use super::metadata::{self, MIN_BASKETS};
use crate::array::Number;
use crate::compress::encode::Compression;
use crate::error::{Error, Result, Within};
use crate::file::{Key, RootFile};
use crate::streamer::declare::{Class, Shape};
use crate::streamer::packed::range_text;
use crate::streamer::typename::{self, Cpp};
use crate::streamer::{Classes, ElementClass, Object, ObjectReader, SharedObject, StreamerInfo, Value};
use crate::tree::program::dimensions;
use crate::tree::{self, BasketPlace, Leaf, Tree};
use crate::wire::Cursor;
use crate::wire::cursor::{BYTE_COUNT_MASK, CLASS_MASK, MAP_OFFSET, NEW_CLASS_TAG};
use crate::wire::grow::{self, Grow};
use crate::wire::writer::Writer;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

/// Maximum nesting depth of classes.
const DEEPEST: usize = 20;

/// Positions of an object's members, by name.
type Positions = HashMap<String, usize>;

/// The object of a tree, with the positions of its parts.
pub struct Existing {
    payload: Vec<u8>,
    /// Reference number of its first byte.
    origin: usize,
    /// Positions of byte counts, and the ends of the bytes that they count.
    frames: BTreeMap<usize, usize>,
    /// Positions of references.
    references: Vec<usize>,
    tree: Positions,
    /// Members of the branches, in the order of [`Tree::branches`].
    branches: Vec<Positions>,
    /// Members of the leaves, by the references of the leaves.
    leaves: HashMap<u64, Positions>,
    /// The reference and class of the first leaf of each branch.
    first_leaves: Vec<(u64, String)>,
    /// Position of the pointer to its index, and the index, if it has one.
    index: Option<(Range<usize>, SharedObject)>,
}

/// The new state of a tree.
pub struct Grown<'a> {
    pub entries: u64,
    /// Ends of the clusters.
    pub clusters: &'a [u64],
    /// See [`super::TreeOptions::auto_flush`].
    pub auto_flush: i64,
    /// The branches, in the order of [`Tree::branches`].
    pub branches: Vec<GrownBranch<'a>>,
    /// Its index, if it has one.
    pub index: GrownIndex<'a>,
    /// Its name.
    pub name: &'a str,
}

/// The new state of an index.
pub enum GrownIndex<'a> {
    Same,
    New(&'a ContinuedIndex),
    /// It would lack the added entries.
    Lost,
}

/// The new state of a branch.
pub struct GrownBranch<'a> {
    pub name: &'a str,
    pub baskets: &'a [Basket],
    pub entries: u64,
    pub total_bytes: u64,
    pub zip_bytes: u64,
    /// Largest count of its leaf, or one more than the length of its longest string, if readers need it.
    pub maximum: Option<i64>,
    /// Entry number stored after the first entries of all baskets.
    pub last: u64,
    /// New compression from this point on, if it changes.
    pub codec: Option<u32>,
}

/// Replaces bytes by others. An insertion at the end of a frame belongs to the frame that begins at `within`, not to
/// inner frames with the same end.
struct Edit {
    range: Range<usize>,
    bytes: Vec<u8>,
    within: usize,
    /// Number of edits made before.
    number: usize,
}

impl Existing {
    /// Reads the tree of a key. Fails if some part of it would not survive the update.
    pub fn read(file: &Arc<RootFile>, key: &Key) -> Result<(Self, Tree)> {
        let payload = file.object(key)?;
        let origin = usize::from(key.key_bytes);
        let classes = file.classes()?;
        let tree = Tree::decode(file, &classes, &key.classname, &payload, origin as u64)?;
        let mut notes = Notes::default();
        let mut note = |class: &str, member: &str, cursor: &mut Cursor<'_>, _: &mut _| {
            notes.add(class, member, cursor.pos());
            false
        };
        let mut reader = ObjectReader::new(&classes, &payload, origin as u64);
        reader.instead = Some(&mut note);
        let object = reader.object(&key.classname)?;
        if reader.problems > 0 || reader.cursor.remaining() > 0 {
            return Err(Error::unsupported(
                "its description cannot be read in full, so it cannot be changed",
            ));
        }
        let references = grow::collected(reader.references.iter().map(|place| *place as usize - origin))?;
        drop(reader);
        let mut walk = Walk {
            payload: &payload,
            origin,
            frames: BTreeMap::new(),
            leaves: BTreeMap::new(),
            visited: HashSet::new(),
            depth: 0,
        };
        walk.object(&object)?;
        let Walk { frames, leaves: found, .. } = walk;
        let mut leaves = HashMap::new();
        for positions in notes.leaves {
            let at = positions.get("fLen").copied().unwrap_or(0);
            if let Some((_, (_, reference))) =
                found.range(..=at).next_back().filter(|(_, (end, _))| at < *end)
            {
                leaves.insert(*reference, positions);
            }
        }
        let first_leaves = tree
            .branches
            .iter()
            .map(|b| b.leaves.first().map_or((0, String::new()), |l| (l.reference, l.class.clone())));
        let first_leaves = grow::collected(first_leaves)?;
        let index = match object.get("fTreeIndex") {
            Some(Value::Object(index)) if index.reference > 1 => {
                let start = (index.reference as usize).saturating_sub(origin + MAP_OFFSET as usize);
                frames.get(&start).map(|end| (start..*end, index.clone()))
            }
            _ => None,
        };
        let Notes { tree: positions, branches, .. } = notes;
        let known = Self {
            payload,
            origin,
            frames,
            references,
            tree: positions,
            branches,
            leaves,
            first_leaves,
            index,
        };
        if !matches!(object.get("fBranchRef"), None | Some(Value::Null)) {
            return Err(Error::unsupported("it has a table of references between objects"));
        }
        known.check(&tree)?;
        Ok((known, tree))
    }

    /// Bytes of the object.
    pub fn size(&self) -> usize {
        self.payload.len()
    }

    fn check(&self, tree: &Tree) -> Result<()> {
        if self.branches.len() < tree.branches.len() {
            return Err(Error::unsupported("it has branches of classes that cannot be written"));
        }
        for (branch, positions) in tree.branches.iter().zip(&self.branches) {
            let fail = |why: &str| Err(Error::unsupported(why).within(format!("branch {}", branch.name)));
            if !branch.other_file.is_empty() {
                return fail("its baskets are in another file");
            }
            if branch.baskets.iter().any(|b| matches!(b.place, BasketPlace::Tree(_))) {
                return fail("a basket of it is in the tree's own object");
            }
            if self.number(positions, "fWriteBasket")? as usize != branch.baskets.len() {
                return fail("some of its baskets are missing");
            }
            if branch.entries != tree.entries && !branch.baskets.is_empty() {
                return fail(&format!(
                    "it has {} entries where the tree has {}",
                    branch.entries, tree.entries
                ));
            }
        }
        Ok(())
    }

    fn place(positions: &Positions, member: &str) -> Result<usize> {
        let place = positions.get(member).copied();
        place.ok_or_else(|| Error::unsupported(format!("its description has no {member}")))
    }
    /// Returns a 32-bit member.
    fn number(&self, positions: &Positions, member: &str) -> Result<u32> {
        let mut cursor = Cursor::new(&self.payload, self.origin as u64);
        cursor.seek(Self::place(positions, member)?)?;
        cursor.u32()
    }

    /// Whether it has an index (`TTreeIndex`).
    pub fn has_index(&self) -> bool {
        self.index.is_some()
    }
    /// Returns its index.
    pub fn index(&self) -> Option<&Object> {
        self.index.as_ref().map(|(_, index)| &***index)
    }

    /// Returns the tree's object with the added entries; its first byte will be byte `displacement` of its record.
    pub fn encode(&self, grown: &Grown<'_>, displacement: usize) -> Result<Vec<u8>> {
        let mut edits = Edits::default();
        let branches = grown.branches.iter().zip(self.branches.iter().zip(&self.first_leaves));
        for (branch, (positions, (leaf, class))) in branches {
            self.encode_branch(&mut edits, branch, positions).within(|| format!("branch {}", branch.name))?;
            // Readers allocate this size.
            let leaf = self.leaves.get(leaf);
            let width = match class.as_str() {
                "TLeafB" => 1,
                "TLeafS" => 2,
                "TLeafL" => 8,
                _ => 4,
            };
            let text = class == "TLeafC";
            for (positions, member, width) in [
                (leaf, "fMaximum", width),
                (leaf.filter(|_| text), "fLen", 4),
                (Some(positions), "fMaximum", 4),
            ] {
                let counts = matches!(
                    class.as_str(),
                    "TLeafB" | "TLeafS" | "TLeafI" | "TLeafL" | "TLeafC" | "TLeafElement"
                );
                if let Some(positions) = positions.filter(|p| counts && p.contains_key(member))
                    && let Some(maximum) = branch.maximum
                    && maximum > self.signed(positions, member, width)?
                {
                    let bytes = maximum.to_be_bytes();
                    edits.number(positions, member, bytes.get(8 - width..).unwrap_or_default())?;
                }
            }
        }
        let name = Self::place(&self.tree, "fName")?;
        let mut cursor = Cursor::new(&self.payload, self.origin as u64);
        cursor.seek(name)?;
        if cursor.string_bytes()? != grown.name.as_bytes() {
            let mut new = Writer::new(0);
            new.string(grown.name);
            edits.add(name..cursor.pos(), new.into_bytes()?, 0)?;
        }
        if let Some((range, index)) = &self.index {
            let bytes = match grown.index {
                GrownIndex::Same => None,
                GrownIndex::New(new) => Some(new.encode(index)?),
                GrownIndex::Lost => Some(vec![0; 4]),
            };
            bytes.map_or(Ok(()), |bytes| edits.add(range.clone(), bytes, 0))?;
        }
        let sum = |of: fn(&GrownBranch<'_>) -> u64| grown.branches.iter().map(of).sum::<u64>();
        self.encode_totals(&mut edits, [sum(|b| b.total_bytes), sum(|b| b.zip_bytes)], 0)?;
        edits.number(&self.tree, "fEntries", &grown.entries.to_be_bytes())?;
        let (ranges, auto_flush) = ranges(grown.clusters, grown.auto_flush)?;
        let old = self.number(&self.tree, "fNClusterRange")? as usize;
        edits.number(&self.tree, "fNClusterRange", &(ranges.len() as u32).to_be_bytes())?;
        edits.number(&self.tree, "fAutoFlush", &auto_flush.to_be_bytes())?;
        let last = |range: &ClusterRange| range.last;
        let size = |range: &ClusterRange| range.size;
        for (member, column) in [("fClusterRangeEnd", last as fn(&_) -> i64), ("fClusterSize", size)] {
            let mut bytes = grow::with_room(1 + 8 * ranges.len())?;
            bytes.push(u8::from(!ranges.is_empty()));
            bytes.extend(ranges.iter().flat_map(|range| column(range).to_be_bytes()));
            self.array(&mut edits, &self.tree, member, 8 * old, bytes)?;
        }
        self.apply(edits, displacement)
    }

    /// Returns a signed member of `width` bytes.
    fn signed(&self, positions: &Positions, member: &str, width: usize) -> Result<i64> {
        let mut cursor = Cursor::new(&self.payload, self.origin as u64);
        cursor.seek(Self::place(positions, member)?)?;
        Ok(match width {
            1 => cursor.i8()?.into(),
            2 => cursor.i16()?.into(),
            8 => cursor.i64()?,
            _ => cursor.i32()?.into(),
        })
    }

    /// Sets `fTotBytes` and `fZipBytes` of the tree: the sums over branches, plus others.
    fn encode_totals(&self, edits: &mut Edits, sums: [u64; 2], others: usize) -> Result<()> {
        for (member, sum) in ["fTotBytes", "fZipBytes"].into_iter().zip(sums) {
            let mut cursor = Cursor::new(&self.payload, self.origin as u64);
            cursor.seek(Self::place(&self.tree, member)?)?;
            let before = if others > 0 { cursor.u64()? } else { 0 };
            edits.number(&self.tree, member, &(before + sum).to_be_bytes())?;
        }
        Ok(())
    }

    fn encode_branch(
        &self,
        edits: &mut Edits,
        branch: &GrownBranch<'_>,
        positions: &Positions,
    ) -> Result<()> {
        let count = branch.baskets.len();
        let old = self.number(positions, "fMaxBaskets")? as usize;
        let room = (count + 1).max(MIN_BASKETS).max(old);
        edits.number(positions, "fMaxBaskets", &(room as u32).to_be_bytes())?;
        edits.number(positions, "fWriteBasket", &(count as u32).to_be_bytes())?;
        if let Some(codec) = branch.codec {
            edits.number(positions, "fCompress", &codec.to_be_bytes())?;
        }
        for (member, value) in [
            ("fEntryNumber", branch.entries),
            ("fEntries", branch.entries),
            ("fTotBytes", branch.total_bytes),
            ("fZipBytes", branch.zip_bytes),
        ] {
            edits.number(positions, member, &value.to_be_bytes())?;
        }
        let bytes = branch.baskets.iter().flat_map(|b| b.bytes.to_be_bytes());
        let firsts = branch.baskets.iter().map(|b| b.entry).chain([branch.last]).flat_map(u64::to_be_bytes);
        let seeks = branch.baskets.iter().flat_map(|b| b.seek.to_be_bytes());
        let filled = |bytes: &mut dyn Iterator<Item = u8>, width: usize| -> Result<Vec<u8>> {
            let mut all = grow::with_room(1 + width * room)?;
            all.push(1);
            all.extend(bytes);
            all.resize(1 + width * room, 0);
            Ok(all)
        };
        let (mut bytes, mut firsts, mut seeks) = (bytes, firsts, seeks);
        self.array(edits, positions, "fBasketBytes", 4 * old, filled(&mut bytes, 4)?)?;
        self.array(edits, positions, "fBasketEntry", 8 * old, filled(&mut firsts, 8)?)?;
        self.array(edits, positions, "fBasketSeek", 8 * old, filled(&mut seeks, 8)?)
    }

    /// Replaces an array after the byte that says whether the array is present.
    fn array(
        &self,
        edits: &mut Edits,
        positions: &Positions,
        member: &str,
        bytes: usize,
        new: Vec<u8>,
    ) -> Result<()> {
        let start = Self::place(positions, member)?;
        let end = start + 1 + if self.payload.get(start) == Some(&1) { bytes } else { 0 };
        edits.add(start..end, new, 0)
    }

    /// Returns the tree's object with more branches.
    pub fn encode_more(
        &self,
        writer: &TreeWriter,
        compression: Compression,
        displacement: usize,
    ) -> Result<Vec<u8>> {
        let mut edits = Edits::default();
        let sum = |of: fn(&Branch) -> u64| writer.branches.iter().map(of).sum::<u64>();
        self.encode_totals(&mut edits, [sum(|b| b.total_bytes), sum(|b| b.zip_bytes)], 1)?;
        let (count, end, start) = self.list("fBranches")?;
        let (bytes, leaves) = metadata::encode_branches(writer, compression, displacement + end)?;
        let top = writer.branches.iter().filter(|b| b.parent.is_none()).count();
        edits.list(start, count, end, self.count(count)? + top, bytes)?;
        let (count, end, start) = self.list("fLeaves")?;
        let mut words = grow::with_room(4 * leaves.len())?;
        words.extend(leaves.iter().flat_map(|leaf| leaf.to_be_bytes()));
        edits.list(start, count, end, self.count(count)? + leaves.len(), words)?;
        self.apply(edits, displacement)
    }

    fn count(&self, at: usize) -> Result<usize> {
        let mut cursor = Cursor::new(&self.payload, self.origin as u64);
        cursor.seek(at)?;
        Ok(cursor.u32()? as usize)
    }

    /// Returns the position of a `TObjArray`'s count, its end, and its start.
    fn list(&self, member: &str) -> Result<(usize, usize, usize)> {
        let start = Self::place(&self.tree, member)?;
        let mut cursor = Cursor::new(&self.payload, self.origin as u64);
        cursor.seek(start)?;
        let frame = cursor.frame()?;
        cursor.object_bits()?;
        cursor.string_bytes()?;
        let end =
            frame.end.ok_or_else(|| Error::unsupported(format!("{member} does not state its length")))?;
        Ok((cursor.pos(), end, start))
    }

    /// Applies the edits.
    fn apply(&self, Edits(mut edits): Edits, displacement: usize) -> Result<Vec<u8>> {
        edits.sort_unstable_by_key(|edit| (edit.range.start, edit.range.end, edit.number));
        let overlap = || Error::corrupt("members of the tree overlap");
        if edits.windows(2).any(|w| matches!(w, [a, b] if a.range.end > b.range.start)) {
            return Err(overlap());
        }
        // The shift of all bytes after each edit.
        let mut shift = 0_i64;
        let shifts = grow::collected(edits.iter().map(|edit| {
            shift += edit.bytes.len() as i64 - edit.range.len() as i64;
            (edit.range.end, shift)
        }))?;
        let moved = |at: usize| -> usize {
            let behind = shifts.partition_point(|(end, _)| *end <= at);
            let shift = behind.checked_sub(1).and_then(|i| shifts.get(i)).map_or(0, |(_, shift)| *shift);
            (at as i64 + shift) as usize
        };
        let mut out = grow::with_room((self.payload.len() as i64 + shift).max(0) as usize)?;
        let mut at = 0;
        for edit in &edits {
            out.extend_from_slice(self.payload.get(at..edit.range.start).ok_or_else(overlap)?);
            out.extend_from_slice(&edit.bytes);
            at = edit.range.end;
        }
        out.extend_from_slice(self.payload.get(at..).ok_or_else(overlap)?);
        let mut put = |at: usize, value: u32| -> Result<()> {
            out.get_mut(at..at + 4).ok_or_else(overlap)?.copy_from_slice(&value.to_be_bytes());
            Ok(())
        };
        // Replaced bytes lose their frames and references.
        let dropped = edits
            .iter()
            .map(|e| &e.range)
            .find(|range| self.index.as_ref().is_some_and(|(index, _)| index == *range));
        let replaced = |at: usize| dropped.is_some_and(|range| range.contains(&at));
        for (start, end) in self.frames.iter().filter(|(start, _)| !replaced(**start)) {
            let inserted = insertions(&edits, *end).iter().filter(|e| e.within < *start);
            let outside: usize = inserted.map(|e| e.bytes.len()).sum();
            let bytes = moved(*end) - outside - moved(*start) - 4;
            let bytes = u32::try_from(bytes).ok().filter(|b| *b < BYTE_COUNT_MASK);
            let bytes = bytes.ok_or_else(|| Error::limit("the tree's object has more than 1 GiB"))?;
            put(moved(*start), bytes | BYTE_COUNT_MASK)?;
        }
        for reference in self.references.iter().filter(|at| !replaced(**at)) {
            let value = self.count(*reference)? as u32;
            let target = (value & !CLASS_MASK) as usize;
            // 1 is the object itself.
            if target > 1 {
                let old = target.checked_sub(self.origin + MAP_OFFSET as usize).ok_or_else(overlap)?;
                let new = moved(old) + displacement + MAP_OFFSET as usize;
                put(moved(*reference), new as u32 | value & CLASS_MASK)?;
            }
        }
        Ok(out)
    }
}

/// Returns the insertions at a position; the edits are sorted by position.
fn insertions(edits: &[Edit], at: usize) -> &[Edit] {
    let from = edits.partition_point(|e| e.range.start < at);
    let behind = edits.get(from..).unwrap_or_default();
    // Insertions come before an edit that replaces bytes from the same position.
    let same = behind.partition_point(|e| e.range.start == at);
    let here = behind.get(..same).unwrap_or_default();
    here.get(..here.partition_point(|e| e.range.is_empty())).unwrap_or_default()
}

#[derive(Default)]
struct Edits(Vec<Edit>);

impl Edits {
    fn add(&mut self, range: Range<usize>, bytes: Vec<u8>, within: usize) -> Result<()> {
        let number = self.0.len();
        self.0.try_push(Edit { range, bytes, within, number })
    }
    /// Replaces a number by another of the same length.
    fn number(&mut self, positions: &Positions, member: &str, bytes: &[u8]) -> Result<()> {
        let start = Existing::place(positions, member)?;
        self.add(start..start + bytes.len(), bytes.to_vec(), 0)
    }
    /// Appends to a list.
    fn list(
        &mut self,
        start: usize,
        count: usize,
        end: usize,
        new_count: usize,
        bytes: Vec<u8>,
    ) -> Result<()> {
        let word = (new_count as u32).to_be_bytes().to_vec();
        self.add(count..count + 4, word, 0)?;
        self.add(end..end, bytes, start)
    }
}

/// Positions of the members: those of the tree, of each branch and of each leaf.
#[derive(Default)]
struct Notes {
    tree: Positions,
    branches: Vec<Positions>,
    /// Branches being read, the innermost last.
    open: Vec<usize>,
    last: usize,
    leaves: Vec<Positions>,
}

impl Notes {
    fn add(&mut self, class: &str, member: &str, at: usize) {
        let positions = match class {
            "TTree" => Some(&mut self.tree),
            // The tree's own name comes before all others.
            "TNamed" if member == "fName" => Some(&mut self.tree),
            "TBranch" => {
                if member == "fCompress" {
                    self.open.push(self.branches.len());
                    self.branches.push(Positions::new());
                }
                self.last = self.open.last().copied().unwrap_or(0);
                if member == "fFileName" {
                    self.open.pop();
                }
                self.branches.get_mut(self.last)
            }
            "TBranchElement" => self.branches.get_mut(self.last),
            "TLeaf" => {
                if member == "fLen" {
                    self.leaves.push(Positions::new());
                }
                self.leaves.last_mut()
            }
            "TLeafI" | "TLeafC" | "TLeafB" | "TLeafS" | "TLeafL" => self.leaves.last_mut(),
            _ => None,
        };
        // Only the first occurrence belongs to the tree.
        if let Some(positions) = positions {
            positions.entry(member.to_owned()).or_insert(at);
        }
    }
}

/// Finds the byte counts of all objects and the positions of the leaves.
struct Walk<'a> {
    payload: &'a [u8],
    origin: usize,
    frames: BTreeMap<usize, usize>,
    /// Start of each leaf, with its end and reference.
    leaves: BTreeMap<usize, (usize, u64)>,
    visited: HashSet<u64>,
    depth: usize,
}

/// Maximum number of objects inside each other in a tree that is updated.
const DEEPEST_OBJECT: usize = 1000;

impl Walk<'_> {
    fn frame(&mut self, at: usize) {
        let word = self.payload.get(at..).and_then(|rest| rest.first_chunk::<4>());
        let word = word.map_or(0, |word| u32::from_be_bytes(*word));
        if word & BYTE_COUNT_MASK != 0 && word != NEW_CLASS_TAG {
            self.frames.insert(at, at + 4 + (word & !BYTE_COUNT_MASK) as usize);
        }
    }
    fn object(&mut self, object: &Object) -> Result<()> {
        let old = Err(Error::unsupported(format!(
            "its {} is of version {}, as ROOT before 6.06 wrote it",
            object.class, object.version
        )));
        match &*object.class {
            "TTree" if object.version < 19 => return old,
            "TBranch" if object.version < 12 => return old,
            _ => {}
        }
        let start = (object.place.0 as usize).saturating_sub(self.origin);
        if object.reference > 1 {
            if !self.visited.insert(object.reference) {
                return Ok(());
            }
            if object.is("TLeaf") {
                self.leaves.insert(start, (start + object.place.1 as usize, object.reference));
            }
            self.frame((object.reference as usize).saturating_sub(self.origin + MAP_OFFSET as usize));
        }
        self.frame(start);
        if self.depth > DEEPEST_OBJECT {
            return Err(Error::limit(format!("objects nest deeper than {DEEPEST_OBJECT}")));
        }
        self.depth += 1;
        object.bases.iter().try_for_each(|base| self.object(base))?;
        object.members.iter().try_for_each(|(_, value)| self.value(value))?;
        self.depth -= 1;
        Ok(())
    }
    fn value(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Object(object) => self.object(object),
            Value::List(items) => items.iter().try_for_each(|item| self.value(item)),
            _ => Ok(()),
        }
    }
}

/// Returns specifications that would create the branches of a tree.
pub fn specs(tree: &Tree) -> Result<Vec<BranchSpec>> {
    let top: Vec<usize> = (0..tree.branches.len())
        .filter(|i| tree.branches.get(*i).is_some_and(|b| b.parent.is_none()))
        .collect();
    let counters: HashSet<usize> = tree
        .branches
        .iter()
        .filter(|b| b.leaves.iter().any(|l| l.counted))
        .filter_map(|b| b.counter)
        .collect();
    let each = top.iter().filter_map(|i| Some((*i, tree.branches.get(*i)?)));
    each.map(|(index, branch)| {
        let kind = kind(tree, branch, &top, counters.contains(&index));
        let compression = Compression::from_code(u32::try_from(branch.compression).unwrap_or(0)).ok();
        Ok(BranchSpec {
            name: branch.name.clone(),
            kind: kind.within(|| format!("branch {}", branch.name))?,
            compression,
        })
    })
    .collect()
}

fn kind(tree: &Tree, branch: &tree::Branch, top: &[usize], counts: bool) -> Result<BranchKind> {
    let unknown = || Error::unsupported(format!("a {} that cannot be written", branch.class));
    match (branch.class.as_str(), &branch.element, branch.leaves.as_slice()) {
        ("TBranch", None, [leaf]) if leaf.class == "TLeafC" => Ok(BranchKind::Text),
        ("TBranch", None, [leaf]) if counts => match number(leaf) {
            Some(Shape::Number(Number::I32)) => Ok(BranchKind::Counter),
            _ => Err(Error::unsupported("it counts other branches and is not an int")),
        },
        ("TBranch", None, [leaf]) => {
            let number = number(leaf).ok_or_else(unknown)?;
            let dims = dimensions(leaf).0;
            if !leaf.counted {
                return Ok(BranchKind::Numbers { number, dims });
            }
            let counter =
                branch.counter.and_then(|c| top.iter().position(|i| *i == c)).ok_or_else(unknown)?;
            Ok(BranchKind::Counted { number, dims, counter })
        }
        ("TBranch", None, leaves) => {
            let each = leaves.iter().map(|leaf| {
                let number = number(leaf).filter(|_| !leaf.counted).ok_or_else(unknown)?;
                let sizes = dimensions(leaf).0;
                Ok((
                    leaf.name.clone(),
                    sizes.iter().rev().fold(number, |of, n| Shape::Array(*n, Box::new(of))),
                ))
            });
            Ok(BranchKind::Leaves(each.collect::<Result<_>>()?))
        }
        ("TBranchElement", Some(element), _) => {
            let shape = shape(&typename::parse(&element.class_name)?, tree.classes(), 0)?;
            let split_level = if branch.children.is_empty() { 0 } else { 99 };
            Ok(BranchKind::Object { shape, split_level, member_wise: true })
        }
        _ => Err(unknown()),
    }
}

fn number(leaf: &Leaf) -> Option<Shape> {
    let range = || range_text(&leaf.title).unwrap_or_default().to_owned();
    match leaf.class.as_str() {
        "TLeafG" => Some(Shape::Long(!leaf.unsigned)),
        "TLeafF16" => Some(Shape::Packed(true, range())),
        "TLeafD32" => Some(Shape::Packed(false, range())),
        class => Number::of_leaf(class, leaf.unsigned).map(Shape::Number),
    }
}

/// Converts a declared type.
fn shape(cpp: &Cpp, classes: &Classes, depth: usize) -> Result<Shape> {
    if depth > DEEPEST {
        return Err(Error::limit("types nest too deep"));
    }
    let inner = |cpp: &Cpp| shape(cpp, classes, depth + 1).map(Box::new);
    Ok(match cpp {
        Cpp::Number(number) => Shape::Number(*number),
        Cpp::Double32 => Shape::Packed(false, String::new()),
        Cpp::Float16 => Shape::Packed(true, String::new()),
        Cpp::Text => Shape::Text,
        Cpp::List(item) => Shape::Vector(inner(item)?),
        Cpp::Map(key, value) => Shape::Map(inner(key)?, inner(value)?),
        Cpp::Class(name) => {
            let info = classes
                .latest(name)
                .ok_or_else(|| Error::unsupported(format!("class {name} is not known")))?;
            Shape::Class(class(info, classes, depth + 1)?)
        }
        other => return Err(Error::unsupported(format!("values of type {other} cannot be written"))),
    })
}

fn class(info: &StreamerInfo, classes: &Classes, depth: usize) -> Result<Class> {
    let member = |e: &crate::streamer::Element| {
        let unknown = || Error::unsupported(format!("member {} of {} cannot be written", e.name, info.name));
        let dims = e.max_index.iter().take(usize::try_from(e.array_dim).unwrap_or(0));
        let sizes: Option<Vec<usize>> = dims.map(|d| usize::try_from(*d).ok()).collect();
        let code = if e.array_dim > 0 { e.kind - 20 } else { e.kind };
        let range = || range_text(&e.title).unwrap_or_default();
        let of = match (e.class, code) {
            (ElementClass::BasicType, 4) => Ok(Shape::Long(true)),
            (ElementClass::BasicType, 9) => Ok(Shape::Packed(false, range().to_owned())),
            (ElementClass::BasicType, 14) => Ok(Shape::Long(false)),
            (ElementClass::BasicType, 19) => Ok(Shape::Packed(true, range().to_owned())),
            (ElementClass::BasicType, code) => {
                // Counters and status bits have codes of their own.
                let number = Number::of_code(code).filter(|number| number.code() == code);
                number.map(Shape::Number).ok_or_else(unknown)
            }
            (ElementClass::Stl | ElementClass::StlString | ElementClass::ObjectAny, _) => {
                shape(&typename::parse(&e.typename)?, classes, depth)
            }
            _ => Err(unknown()),
        }?;
        let sizes = sizes.ok_or_else(unknown)?;
        Ok((e.name.to_string(), sizes.iter().rev().fold(of, |of, n| Shape::Array(*n, Box::new(of)))))
    };
    let version = i16::try_from(info.version).unwrap_or(0);
    let members = info.elements.iter().map(member).collect::<Result<_>>()?;
    Ok(Class { name: info.name.to_string(), version, members })
}

/// Fails if the planned branches differ from those of a tree.
pub fn compare(tree: &Tree, planned: &[Branch]) -> Result<()> {
    let other = |name: &str| {
        Error::unsupported("branches of this layout cannot be written").within(format!("branch {name}"))
    };
    for (found, plan) in tree.branches.iter().zip(planned) {
        let leaves = found.leaves.len() == plan.leaves.len()
            && found.leaves.iter().zip(&plan.leaves).all(|(a, b)| {
                a.class == b.class
                    && a.unsigned == b.unsigned
                    && (a.length == b.length as i64 || b.class == "TLeafC")
                    && (b.class == "TLeafElement" || a.width == b.width as i64)
            });
        let element = match (&found.element, &plan.element) {
            (None, None) => true,
            (Some(a), Some(b)) => {
                (a.id, a.kind, a.streamer_type) == (b.id, b.kind, b.code)
                    && a.class_name == b.class
                    && a.clones_name == b.clones
                    // ROOT has checksums for containers, too; they add nothing to the names.
                    && (b.checksum == 0 || (a.checksum, a.class_version) == (b.checksum, b.version))
            }
            _ => false,
        };
        let same = found.name == plan.name && (found.parent, found.counter) == (plan.parent, plan.counter);
        if !leaves || !element || !same {
            return Err(other(&found.name));
        }
    }
    let (found, plan) = (tree.branches.len(), planned.len());
    if found != plan {
        return Err(Error::unsupported(format!("{found} branches, of which {plan} could be written")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_frame_meets_only_the_insertions_there() {
        let edit = |range: Range<usize>| Edit { range, bytes: vec![0; 3], within: 0, number: 0 };
        let mut edits: Vec<Edit> = (0..10_000).map(|i| edit(10 * i..10 * i + 4)).collect();
        edits.extend([edit(70..70), edit(75..75), edit(75..75)]);
        edits.sort_unstable_by_key(|edit| (edit.range.start, edit.range.end, edit.number));
        let visited = |at: usize| insertions(&edits, at).len();
        assert_eq!((visited(70), visited(75), visited(80), visited(200_000)), (1, 2, 0, 0));
        // A tree has about as many frames as edits: the number of visits must not be their product.
        assert_eq!((0..100_000).map(visited).sum::<usize>(), 3);
    }
}
