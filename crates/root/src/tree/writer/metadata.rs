//! The tree's own object: `TTree` version 20 with its branches (`TBranch` version 13) and leaves.

use super::TreeWriter;
use super::branch::{Branch, BranchKind, leaf_of};
use super::cluster::ranges;
use crate::compress::encode::Compression;
use crate::error::{Error, Result, Within};
use crate::streamer::encode::open_array;
use crate::wire::writer::Writer;

/// `TObject::kMustCleanup`.
const MUST_CLEANUP: u32 = 1 << 3;
/// `TCollection::kIsOwner`.
const IS_OWNER: u32 = 1 << 14;
/// `TBranch::kDoNotUseBufferMap`: entries hold no references between objects.
const NO_BUFFER_MAP: u32 = 1 << 22;
/// Checksum of `ROOT::TIOFeatures`, which has no version.
const IO_FEATURES: u32 = 0x1aa1_2f10;
/// Baskets that a branch has room for at least.
const MIN_BASKETS: usize = 10;

/// Leaf class, letter and signedness of a branch.
fn leaf(branch: &Branch) -> (&'static str, char, bool) {
    match &branch.spec.kind {
        BranchKind::Numbers { number, .. } | BranchKind::Counted { number, .. } => leaf_of(*number),
        BranchKind::Counter => ("TLeafI", 'I', false),
        BranchKind::Text => ("TLeafC", 'C', false),
    }
}

/// Classes whose streamer info a tree of these branches needs.
pub fn classes(branches: &[Branch]) -> Vec<&'static str> {
    let mut classes = vec!["TTree", "TBranch"];
    for branch in branches {
        let (class, ..) = leaf(branch);
        if !classes.contains(&class) {
            classes.push(class);
        }
    }
    classes
}

/// Name and dimensions as the leaf's title has them: `x[n][3]`.
fn leaf_title(branch: &Branch, branches: &[Branch]) -> String {
    let mut title = branch.spec.name.clone();
    let dims = match &branch.spec.kind {
        BranchKind::Numbers { dims, .. } => dims.as_slice(),
        BranchKind::Counted { dims, counter, .. } => {
            let counter = branches.get(*counter).map_or("", |b| b.spec.name.as_str());
            title.extend(["[", counter, "]"]);
            dims.as_slice()
        }
        _ => &[],
    };
    for dim in dims {
        title.extend(["[", &dim.to_string(), "]"]);
    }
    title
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

/// Bytes that a tree takes at most, with some baskets more than now.
pub fn bytes_needed(branches: &[Branch], more: usize) -> usize {
    let of_branch = |b: &Branch| 400 + 8 * b.spec.name.len() + 20 * (b.baskets.len() + MIN_BASKETS);
    1000 + 20 * more + branches.iter().map(of_branch).sum::<usize>()
}

/// The bytes of a tree.
pub fn encode(tree: &TreeWriter, compression: Compression, displacement: usize) -> Result<Vec<u8>> {
    let mut w = Writer::new(displacement);
    let frame = w.open(20);
    w.named(&tree.name, &tree.options.title, MUST_CLEANUP)?;
    // TAttLine, TAttFill, TAttMarker: what ROOT gives to a fresh tree.
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
    let (ranges, auto_flush) = ranges(&tree.clusters, tree.auto_flush());
    w.put(tree.entries_written);
    w.put_all([total, zip]);
    // fSavedBytes, fFlushedBytes
    w.put_all([0_u64, tree.flushed_bytes]);
    w.put(1.0_f64);
    // fTimerInterval, fScanField, fUpdate, fDefaultEntryOffsetLen, fNClusterRange
    w.put_all([0_i32, 25, 0, 1000, ranges.len() as i32]);
    // fMaxEntries, fMaxEntryLoop, fMaxVirtualSize, fAutoSave
    w.put_all([1_000_000_000_000_i64, 1_000_000_000_000, 0, -300_000_000]);
    w.put_all([auto_flush, 1_000_000]);
    for column in [ranges.iter().map(|r| r.last).collect::<Vec<_>>(), ranges.iter().map(|r| r.size).collect()]
    {
        w.put(u8::from(!column.is_empty()));
        w.put_all(column);
    }
    io_features(&mut w)?;
    let leaves = encode_branches(&mut w, tree, compression)?;
    let array = open_array(&mut w, leaves.len());
    w.put_all(leaves);
    w.close(array)?;
    // fAliases, fIndexValues, fIndex, fTreeIndex, fFriends, fUserInfo, fBranchRef: none.
    w.put_all([0_u32; 7]);
    w.close(frame)?;
    Ok(w.into_bytes())
}

/// A `TAttFill` as ROOT gives it to trees and branches.
fn fill(w: &mut Writer) -> Result<()> {
    let part = w.open(2);
    w.put_all([0_i16, 1001]);
    w.close(part)
}

/// The array of branches; gives references to the leaves.
fn encode_branches(w: &mut Writer, tree: &TreeWriter, compression: Compression) -> Result<Vec<u32>> {
    let array = w.open(3);
    w.object(0, IS_OWNER);
    w.string("");
    w.put_all([tree.branches.len() as u32, 0]);
    let mut leaves = Vec::with_capacity(tree.branches.len());
    for branch in &tree.branches {
        let (pointer, _) = w.open_pointer("TBranch");
        let leaf = encode_branch(w, branch, tree, compression, &leaves)
            .within(|| format!("branch {}", branch.spec.name))?;
        leaves.push(leaf);
        w.close(pointer)?;
    }
    w.close(array)?;
    Ok(leaves)
}

fn encode_branch(
    w: &mut Writer,
    branch: &Branch,
    tree: &TreeWriter,
    compression: Compression,
    leaves: &[u32],
) -> Result<u32> {
    let frame = w.open(13);
    let (_, letter, _) = leaf(branch);
    let title = leaf_title(branch, &tree.branches);
    w.named(&branch.spec.name, &format!("{title}/{letter}"), NO_BUFFER_MAP)?;
    fill(w)?;
    let room = (branch.baskets.len() + 1).max(MIN_BASKETS);
    // Rounded up as ROOT does; 32000 is what it begins with.
    let basket_size = if branch.largest == 0 { 32_000 } else { branch.largest.next_multiple_of(512) };
    let offsets = match (branch.varies(), branch.most_entries) {
        (false, _) => 0,
        (true, 0) => 1000,
        (true, most) => 4 * most,
    };
    // fCompress, fBasketSize, fEntryOffsetLen, fWriteBasket
    w.put(branch.compression(compression).code());
    for value in [basket_size, offsets, branch.baskets.len()] {
        w.put(i32::try_from(value).unwrap_or(i32::MAX));
    }
    w.put(tree.entries_written);
    io_features(w)?;
    // fOffset, fMaxBaskets, fSplitLevel
    w.put_all([0_i32, room as i32, 0]);
    // fEntries, fFirstEntry, fTotBytes, fZipBytes
    w.put_all([tree.entries_written, 0, branch.total_bytes, branch.zip_bytes]);
    empty_array(w)?;
    let array = open_array(w, 1);
    let reference = encode_leaf(w, branch, &title, leaves)?;
    w.close(array)?;
    empty_array(w)?;
    let missing = room - branch.baskets.len();
    w.put(1_u8);
    w.put_all(branch.baskets.iter().map(|b| b.bytes));
    w.put_all(std::iter::repeat_n(0_u32, missing));
    w.put(1_u8);
    w.put_all(branch.baskets.iter().map(|b| b.entry));
    w.put(tree.entries_written);
    w.put_all(std::iter::repeat_n(0_u64, missing - 1));
    w.put(1_u8);
    w.put_all(branch.baskets.iter().map(|b| b.seek));
    w.put_all(std::iter::repeat_n(0_u64, missing));
    // fFileName
    w.string("");
    w.close(frame)?;
    Ok(reference)
}

/// The leaf of a branch, with a reference to the leaf that counts it; gives its own reference.
fn encode_leaf(w: &mut Writer, branch: &Branch, title: &str, leaves: &[u32]) -> Result<u32> {
    let (class, _, unsigned) = leaf(branch);
    let (pointer, reference) = w.open_pointer(class);
    let outer = w.open(1);
    let inner = w.open(2);
    w.named(&branch.spec.name, title, 0)?;
    let is_text = branch.spec.kind == BranchKind::Text;
    let length = if is_text { branch.maximum.max(1) as usize } else { branch.items() };
    let length = i32::try_from(length).map_err(|_| Error::limit(format!("an array of {length} elements")))?;
    // fLen, fLenType, fOffset, fIsRange, fIsUnsigned
    w.put_all([length, branch.width() as i32, 0]);
    w.put(branch.spec.kind == BranchKind::Counter);
    w.put(unsigned);
    match &branch.spec.kind {
        BranchKind::Counted { counter, .. } => {
            w.put(
                *leaves
                    .get(*counter)
                    .ok_or_else(|| Error::argument("a counter comes after what it counts"))?,
            );
        }
        _ => w.null(),
    }
    w.close(inner)?;
    // fMinimum and fMaximum; only counters and strings use the second.
    let maximum = branch.maximum;
    match class {
        "TLeafC" | "TLeafI" => w.put_all([0, maximum]),
        _ => w.raw(&vec![0; 2 * branch.width()]),
    }
    w.close(outer)?;
    w.close(pointer)?;
    Ok(reference)
}
