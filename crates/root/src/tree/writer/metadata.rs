//! The tree's own object: `TTree` version 20 with its branches (`TBranch` version 13) and leaves.

use super::TreeWriter;
use super::branch::{Branch, Leaf};
use super::cluster::{ClusterRange, ranges};
use crate::compress::encode::Compression;
use crate::error::{Error, Result, Within};
use crate::streamer::Value;
use crate::streamer::encode::{encode_pointer, open_array};
use crate::wire::grow::{self, Grow};
use crate::wire::writer::Writer;

/// `TObject::kMustCleanup`.
const MUST_CLEANUP: u32 = 1 << 3;
/// `TCollection::kIsOwner`.
const IS_OWNER: u32 = 1 << 14;
/// `TBranch::kBranchAny`: entries are objects of classes that need not derive from `TObject`.
const BRANCH_ANY: u32 = 1 << 17;
/// `TBranch::kDoNotUseBufferMap`: entries hold no references between objects.
const NO_BUFFER_MAP: u32 = 1 << 22;
/// Checksum of `ROOT::TIOFeatures`, which has no version.
const IO_FEATURES: u32 = 0x1aa1_2f10;
/// Minimum number of basket slots in a branch.
pub const MIN_BASKETS: usize = 10;

/// Returns the classes whose streamer info a tree of these branches needs.
pub fn classes(branches: &[Branch]) -> Vec<&'static str> {
    let mut classes = vec!["TTree", "TBranch"];
    for branch in branches {
        let element = branch.element.as_ref().map(|_| "TBranchElement");
        for class in branch.leaves.iter().map(|leaf| leaf.class).chain(element) {
            if !classes.contains(&class) {
                classes.push(class);
            }
        }
    }
    classes
}

/// What a tree has besides its entries: null for each object that it lacks.
#[derive(Debug, Clone)]
pub struct Extras {
    /// Factor of its entries in histograms (`fWeight`).
    pub weight: f64,
    /// `TList` of `TNamed` (`fAliases`).
    pub aliases: Value,
    /// `TTreeIndex` (`fTreeIndex`).
    pub index: Value,
    /// `TList` of `TFriendElement` (`fFriends`).
    pub friends: Value,
    /// `TList` of objects (`fUserInfo`).
    pub user_info: Value,
}

impl Default for Extras {
    fn default() -> Self {
        let [aliases, index, friends, user_info] = [const { Value::Null }; 4];
        Self { weight: 1.0, aliases, index, friends, user_info }
    }
}

impl Extras {
    /// The objects, in the order in which the tree has them.
    pub const fn objects(&self) -> [&Value; 4] {
        [&self.aliases, &self.index, &self.friends, &self.user_info]
    }
    /// Writes the members of the tree that follow its branches and leaves.
    pub fn encode(&self, w: &mut Writer) -> Result<()> {
        let [aliases, index, friends, user_info] = self.objects();
        encode_pointer(w, aliases)?;
        // fIndexValues, fIndex: indexes of ROOT before 4.
        w.put_all([0_u32; 2]);
        for value in [index, friends, user_info] {
            encode_pointer(w, value)?;
        }
        // fBranchRef
        w.null();
        Ok(())
    }
}

fn empty_array(w: &mut Writer) -> Result<()> {
    let frame = open_array(w, 0);
    w.close(frame)
}

fn io_features(w: &mut Writer) -> Result<()> {
    let frame = w.open_checksum(IO_FEATURES);
    w.put(0_u8);
    w.close(frame)
}

/// Maximum bytes of a tree object, allowing for `more` baskets.
pub fn bytes_needed(branches: &[Branch], more: usize) -> usize {
    let of_branch = |b: &Branch| {
        let classes = b.element.as_ref().map_or(0, |e| e.class.len() + e.parent.len() + e.clones.len() + 100);
        let leaves: usize = b.leaves.iter().map(|l| 100 + l.name.len() + l.title.len()).sum();
        400 + 2 * b.name.len() + 2 * b.title.len() + classes + leaves + 20 * (b.baskets.len() + MIN_BASKETS)
    };
    1000 + 20 * more + branches.iter().map(of_branch).sum::<usize>()
}

/// Returns the bytes of a tree object.
pub fn encode(tree: &TreeWriter, compression: Compression, displacement: usize) -> Result<Vec<u8>> {
    let mut w = Writer::new(displacement);
    let frame = w.open(20);
    w.named(&tree.name, &tree.options.title, MUST_CLEANUP)?;
    // TAttLine, TAttFill, TAttMarker: ROOT's defaults for a new tree.
    let part = w.open(2);
    w.put_all([602_i16, 1, 1]);
    w.close(part)?;
    fill(&mut w)?;
    let part = w.open(3);
    w.put_all([1_i16, 1]);
    w.put(1.0_f32);
    w.close(part)?;
    let total: u64 = tree.branches.iter().map(|b| b.total_bytes).sum();
    let zip: u64 = tree.branches.iter().map(|b| b.zip_bytes).sum();
    let (ranges, auto_flush) = ranges(&tree.clusters, tree.auto_flush())?;
    w.put(tree.entries_written);
    w.put_all([total, zip]);
    // fSavedBytes, fFlushedBytes
    w.put_all([0_u64, tree.flushed_bytes]);
    w.put(tree.extras.weight);
    // fTimerInterval, fScanField, fUpdate, fDefaultEntryOffsetLen, fNClusterRange
    w.put_all([0_i32, 25, 0, 1000, ranges.len() as i32]);
    // fMaxEntries, fMaxEntryLoop, fMaxVirtualSize, fAutoSave
    w.put_all([1_000_000_000_000_i64, 1_000_000_000_000, 0, -300_000_000]);
    w.put_all([auto_flush, 1_000_000]);
    for column in [|r: &ClusterRange| r.last, |r: &ClusterRange| r.size] {
        w.put(u8::from(!ranges.is_empty()));
        w.put_all(ranges.iter().map(column));
    }
    io_features(&mut w)?;
    let mut out = Encoder::new(w, tree, compression)?;
    out.branches(0, IS_OWNER)?;
    let (mut w, leaves) = out.done()?;
    let array = open_array(&mut w, leaves.len());
    w.put_all(leaves);
    w.close(array)?;
    tree.extras.encode(&mut w)?;
    w.close(frame)?;
    w.into_bytes()
}

/// Writes a `TAttFill` with ROOT's defaults for trees and branches.
fn fill(w: &mut Writer) -> Result<()> {
    let part = w.open(2);
    w.put_all([0_i16, 1001]);
    w.close(part)
}

/// Encodes branches and records the positions of earlier ones, because later ones refer to them.
struct Encoder<'a> {
    w: Writer,
    tree: &'a TreeWriter,
    compression: Compression,
    /// The top-level branches of the tree (first), then those of each branch.
    children: Vec<Vec<usize>>,
    /// References to each branch and to its leaves.
    places: Vec<(Option<u32>, Vec<u32>)>,
}

/// Encodes the branches of a tree as elements of an existing array; returns also the references to their leaves.
pub fn encode_branches(
    tree: &TreeWriter,
    compression: Compression,
    displacement: usize,
) -> Result<(Vec<u8>, Vec<u32>)> {
    let mut out = Encoder::new(Writer::new(displacement), tree, compression)?;
    out.elements(0)?;
    let (w, leaves) = out.done()?;
    Ok((w.into_bytes()?, leaves))
}

impl<'a> Encoder<'a> {
    fn new(w: Writer, tree: &'a TreeWriter, compression: Compression) -> Result<Self> {
        let mut children: Vec<Vec<usize>> = grow::with_room(tree.branches.len() + 1)?;
        children.resize_with(tree.branches.len() + 1, Vec::new);
        for (index, branch) in tree.branches.iter().enumerate() {
            let parent = branch.parent.map_or(0, |parent| parent + 1);
            if let Some(list) = children.get_mut(parent) {
                list.try_push(index)?;
            }
        }
        let places = grow::collected(tree.branches.iter().map(|_| (None, Vec::new())))?;
        Ok(Self { w, tree, compression, children, places })
    }
    /// Returns the bytes written and the references to all leaves.
    fn done(self) -> Result<(Writer, Vec<u32>)> {
        let leaves = grow::collected(self.places.into_iter().flat_map(|(_, leaves)| leaves))?;
        Ok((self.w, leaves))
    }

    /// Writes the array of branches of the tree (0) or of a branch (its index plus one).
    fn branches(&mut self, of: usize, bits: u32) -> Result<()> {
        let count = self.children.get(of).map_or(0, Vec::len);
        let array = self.w.open(3);
        self.w.object(0, bits);
        self.w.string("");
        self.w.put_all([count as u32, 0]);
        self.elements(of)?;
        self.w.close(array)
    }

    /// Writes the elements of that array.
    fn elements(&mut self, of: usize) -> Result<()> {
        for index in self.children.get_mut(of).map(std::mem::take).unwrap_or_default() {
            let Some(branch) = self.tree.branches.get(index) else { continue };
            let class = if branch.element.is_some() { "TBranchElement" } else { "TBranch" };
            let (pointer, reference) = self.w.open_pointer(class);
            if let Some(place) = self.places.get_mut(index) {
                place.0 = Some(reference);
            }
            self.branch(index, branch).within(|| format!("branch {}", branch.name))?;
            self.w.close(pointer)?;
        }
        Ok(())
    }

    fn branch(&mut self, index: usize, branch: &Branch) -> Result<()> {
        let Some(element) = &branch.element else {
            return self.base(index, branch, NO_BUFFER_MAP);
        };
        let frame = self.w.open(10);
        let whole = element.object && branch.item.is_some() && element.kind == 0;
        let any = if element.object { BRANCH_ANY } else { 0 };
        self.base(index, branch, any | if whole { 0 } else { NO_BUFFER_MAP })?;
        for text in [&element.class, &element.parent, &element.clones] {
            self.w.string(text);
        }
        self.w.put(element.checksum);
        self.w.put(element.version as i16);
        let maximum = if element.kind == 4 { branch.maximum as i32 } else { 0 };
        self.w.put_all([element.id, element.kind, element.code, maximum]);
        // fBranchCount, fBranchCount2
        let counter = branch.counter.and_then(|counter| self.places.get(counter)?.0);
        self.w.put_all([counter.unwrap_or(0), 0]);
        self.w.close(frame)
    }

    /// Writes the `TBranch` part.
    fn base(&mut self, index: usize, branch: &Branch, bits: u32) -> Result<()> {
        let frame = self.w.open(13);
        self.w.named(&branch.name, &branch.title, bits)?;
        fill(&mut self.w)?;
        let room = (branch.baskets.len() + 1).max(MIN_BASKETS);
        // Rounded up as in ROOT, which starts at 32000.
        let basket_size = if branch.largest == 0 { 32_000 } else { branch.largest.next_multiple_of(512) };
        let offsets = match (branch.varies(), branch.most_entries) {
            (false, _) => 0,
            (true, 0) => 1000,
            (true, most) => 4 * most,
        };
        // fCompress, fBasketSize, fEntryOffsetLen, fWriteBasket
        self.w.put(branch.compression(self.compression).code());
        for value in [basket_size, offsets, branch.baskets.len()] {
            self.w.put(i32::try_from(value).unwrap_or(i32::MAX));
        }
        let entries = self.tree.entries_written;
        self.w.put(entries);
        io_features(&mut self.w)?;
        // fOffset, fMaxBaskets, fSplitLevel
        self.w.put_all([0_i32, room as i32, branch.split_level]);
        // fEntries, fFirstEntry, fTotBytes, fZipBytes
        self.w.put_all([entries, 0, branch.total_bytes, branch.zip_bytes]);
        self.branches(index + 1, 0)?;
        let array = open_array(&mut self.w, branch.leaves.len());
        self.leaves(index, branch)?;
        self.w.close(array)?;
        empty_array(&mut self.w)?;
        let missing = room - branch.baskets.len();
        let w = &mut self.w;
        w.put(1_u8);
        w.put_all(branch.baskets.iter().map(|b| b.bytes));
        w.put_all(std::iter::repeat_n(0_u32, missing));
        w.put(1_u8);
        w.put_all(branch.baskets.iter().map(|b| b.entry));
        w.put(if branch.item.is_some() { entries } else { 0 });
        w.put_all(std::iter::repeat_n(0_u64, missing - 1));
        w.put(1_u8);
        w.put_all(branch.baskets.iter().map(|b| b.seek));
        w.put_all(std::iter::repeat_n(0_u64, missing));
        // fFileName
        w.string("");
        w.close(frame)
    }

    /// Writes pointers to the leaves of a branch. The first pointer to a leaf has the full object; this may be the
    /// pointer from a leaf that it counts.
    fn leaves(&mut self, index: usize, branch: &Branch) -> Result<()> {
        let known = self.places.get(index).map(|place| place.1.clone()).unwrap_or_default();
        if !known.is_empty() {
            self.w.put_all(known);
            return Ok(());
        }
        for leaf in &branch.leaves {
            let reference = self.leaf(branch, leaf)?;
            if let Some(place) = self.places.get_mut(index) {
                place.1.push(reference);
            }
        }
        Ok(())
    }

    fn leaf(&mut self, branch: &Branch, leaf: &Leaf) -> Result<u32> {
        let (pointer, reference) = self.w.open_pointer(leaf.class);
        let packed = matches!(leaf.class, "TLeafF16" | "TLeafD32");
        let outer = self.w.open(if packed { 2 } else { 1 });
        let inner = self.w.open(2);
        self.w.named(&leaf.name, &leaf.title, 0)?;
        let length = if leaf.class == "TLeafC" { branch.maximum.max(1) as usize } else { leaf.length };
        // fLen, fLenType, fOffset, fIsRange, fIsUnsigned
        for value in [length, leaf.width, leaf.offset] {
            let value = i32::try_from(value);
            self.w.put(value.map_err(|_| Error::limit(format!("an array of {length} elements")))?);
        }
        self.w.put(leaf.range);
        self.w.put(leaf.unsigned);
        match branch.counter.and_then(|i| Some((i, self.tree.branches.get(i)?))) {
            Some((index, counter)) => self.leaves(index, counter)?,
            None => self.w.null(),
        }
        self.w.close(inner)?;
        // fMinimum and fMaximum; only counters and strings use fMaximum.
        let maximum = branch.maximum;
        match leaf.class {
            "TLeafElement" => {
                let (id, code) = branch.element.as_ref().map_or((0, 0), |e| (e.id, e.code));
                self.w.put_all([id, code]);
            }
            "TLeafC" => self.w.put_all([0, maximum]),
            "TLeafI" if leaf.range => self.w.put_all([0, maximum]),
            "TLeafF16" => self.w.raw(&[0; 6]),
            "TLeafD32" => self.w.raw(&[0; 8]),
            _ => self.w.raw(&vec![0; 2 * leaf.width]),
        }
        self.w.close(outer)?;
        self.w.close(pointer)?;
        Ok(reference)
    }
}
