//! Writing trees.
//!
//! Entries are buffered as big-endian bytes, one buffer for each branch, until a cluster is full. Each branch's bytes
//! are then cut into baskets (one, if they are not too many). The baskets are compressed in parallel and written in the
//! order of the branches. A cluster, or any consecutive branches in it, is therefore contiguous in the file.
//!
//! Memory: the uncompressed bytes of one cluster. While it is written, also one batch of baskets for each thread plus
//! two; unless larger baskets are requested, each batch takes at most twice 512 KiB (in one piece and compressed).

mod basket;
mod branch;
mod cluster;
mod existing;
mod index;
mod item;
mod joined;
mod layout;
mod metadata;
mod plan;
mod row;

use crate::array::Column;
use crate::array::extremes::Collecting;
use crate::compress::encode::Compression;
use crate::error::{Error, Result, Within};
use crate::file::writer::{DirectoryId, FileWriter, KeyId, KeyNumbers, Stretch};
use crate::file::{Key, RootFile};
use crate::streamer::Value;
use crate::streamer::encode::classes_of;
use crate::table::writer::TableWriter;
use crate::tree::BasketPlace;
use crate::wire::grow::{self, Grow};
use crate::wire::writer::Writer;
use basket::{Basket, BasketJob, Sizes, Slot};
use branch::Branch;
use existing::{Existing, Grown, GrownBranch, GrownIndex};
use index::ContinuedIndex;
use item::{Item, View};
use plan::TreePlan;
use rayon::prelude::*;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

pub use branch::{BranchKind, BranchSpec};
pub use cluster::ClusterRange;
pub use joined::JoinedTree;
pub use layout::{BranchData, BranchLayout, BranchNames, Destination, Lists, Records};
pub use metadata::Extras;
pub use plan::encode_value;

/// Uncompressed bytes of small baskets that are compressed and written together.
const BATCH: usize = 128 << 10;
/// Number of batches waiting to be written, in addition to one for each thread.
const AHEAD: usize = 2;
/// ROOT's setting for the size of clusters: this many compressed bytes (`fAutoFlush`).
pub const AUTO_FLUSH: i64 = -30_000_000;
/// Maximum ratio of uncompressed to compressed bytes, for a cluster measured in bytes.
const MOST_EXPANSION: u64 = 4;
/// Uncompressed bytes of a branch that are contiguous in a cluster, before the next branch follows.
const RUN: usize = 512 << 10;

/// Maximum bytes of an entry, and therefore of a basket, that a byte count can represent.
const MAX_ENTRY: usize = (1 << 30) - (1 << 20);

/// Options for the layout of a tree.
#[derive(Debug, Clone)]
pub struct TreeOptions {
    /// Title of the tree.
    pub title: String,
    /// Size of a cluster (`fAutoFlush`): entries if positive, compressed bytes if negative. A size in bytes is
    /// converted once to a number of entries, measured on the first entries. A cluster ends early if its uncompressed
    /// size exceeds four times that size.
    pub auto_flush: i64,
    /// Maximum uncompressed bytes of a basket, unless a single entry is larger. The default depends on the codec.
    pub max_basket: Option<usize>,
    /// Titles of branches by name, replacing the lists of their leaves.
    pub titles: HashMap<String, String>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { title: String::new(), auto_flush: AUTO_FLUSH, max_basket: None, titles: HashMap::new() }
    }
}

/// A written basket.
struct Written {
    branch: usize,
    entries: usize,
    basket: Basket,
    sizes: Sizes,
}

/// A tree being written.
pub struct TreeWriter {
    name: String,
    key: KeyId,
    seek_directory: u64,
    options: TreeOptions,
    branches: Vec<Branch>,
    /// Index of the branch made for each requested one.
    made: Vec<usize>,
    columns: usize,
    /// Entries in a cluster, once known.
    cluster_entries: Option<usize>,
    /// Ends of the clusters in the file.
    clusters: Vec<u64>,
    /// Number of entries in the file.
    entries_written: u64,
    /// Number of entries that are safe in the file.
    safe: u64,
    /// Number of buffered entries.
    waiting: usize,
    waiting_bytes: u64,
    /// Compressed bytes of the first cluster (`fFlushedBytes`).
    flushed_bytes: u64,
    /// Whether the tree is new or entries were written since its object was last written.
    changed: bool,
    failed: Option<String>,
    /// The tree that is continued.
    existing: Option<Existing>,
    /// Its index, if entries can be added to that.
    index: Option<ContinuedIndex>,
    /// What it has besides its entries, if it is new.
    extras: Extras,
    /// Maximum bytes of these in the file.
    extra_bytes: usize,
    /// When branches are added to that tree: the ends of its clusters.
    borders: Option<Vec<u64>>,
}

impl TreeWriter {
    /// Creates a tree with these branches in a directory. The tree is in the file after the first save.
    pub fn new(
        file: &mut FileWriter,
        directory: DirectoryId,
        name: &str,
        branches: &[BranchSpec],
        options: TreeOptions,
    ) -> Result<Self> {
        let plan = TreePlan::new(branches).within(|| format!("tree {name}"))?;
        if options.auto_flush == 0 {
            return Err(Error::argument(
                "auto_flush must not be 0: give a number of entries, or bytes as a negative number",
            ));
        }
        file.check_infos(&plan.infos)?;
        let key = file.reserve(directory, "TTree", name, &options.title)?;
        Self::describe(file, &plan)?;
        Ok(Self::from_plan(file, (directory, key), name, plan, branches, options))
    }

    /// Registers the classes of a tree to be described in the file.
    fn describe(file: &mut FileWriter, plan: &TreePlan) -> Result<()> {
        for class in metadata::classes(&plan.branches) {
            file.use_class(class);
        }
        plan.infos.iter().try_for_each(|info| file.describe(info.clone()))
    }

    fn from_plan(
        file: &FileWriter,
        (directory, key): (DirectoryId, KeyId),
        name: &str,
        plan: TreePlan,
        specs: &[BranchSpec],
        options: TreeOptions,
    ) -> Self {
        let TreePlan { mut branches, made, .. } = plan;
        for branch in &mut branches {
            if let Some(title) = options.titles.get(&branch.name) {
                branch.title.clone_from(title);
            }
        }
        let columns = specs.iter().filter(|b| b.kind != BranchKind::Counter).count();
        let cluster_entries = usize::try_from(options.auto_flush).ok().filter(|n| *n > 0);
        Self {
            name: name.to_owned(),
            key,
            seek_directory: file.seek_of(directory),
            options,
            branches,
            made,
            columns,
            cluster_entries,
            clusters: Vec::new(),
            entries_written: 0,
            safe: 0,
            waiting: 0,
            waiting_bytes: 0,
            flushed_bytes: 0,
            changed: true,
            failed: None,
            existing: None,
            index: None,
            extras: Extras::default(),
            extra_bytes: 0,
            borders: None,
        }
    }

    /// Continues a tree in the file: `key` is the key of its newest state, which `source` reads. Also returns its
    /// branches.
    pub fn append(
        file: &mut FileWriter,
        directory: DirectoryId,
        source: &Arc<RootFile>,
        key: &Key,
    ) -> Result<(Self, Vec<BranchSpec>)> {
        let place = || format!("tree {}", key.name);
        let (existing, tree) = Existing::read(source, key).within(place)?;
        let specs = existing::specs(&tree).within(place)?;
        let plan = TreePlan::new(&specs).within(place)?;
        existing::compare(&tree, &plan.branches).within(place)?;
        let id = file.find_key(directory, &key.name, key.cycle)?;
        // A tree without a cluster size of its own gets the default from this point on.
        let auto_flush = if tree.auto_flush == 0 { AUTO_FLUSH } else { tree.auto_flush };
        let options = TreeOptions { title: tree.title.clone(), auto_flush, ..TreeOptions::default() };
        let writer = Self::from_plan(file, (directory, id), &key.name, plan, &specs, options);
        let mut branches = writer.branches;
        for (branch, found) in branches.iter_mut().zip(&tree.branches) {
            let basket = |b: &crate::tree::Basket| match b.place {
                BasketPlace::File(seek, bytes) => Some(Basket { bytes: bytes as u32, entry: b.first, seek }),
                // An absent basket stays absent.
                BasketPlace::Nowhere => Some(Basket { bytes: 0, entry: b.first, seek: 0 }),
                BasketPlace::Tree(_) => None,
            };
            branch.baskets = grow::collected(found.baskets.iter().filter_map(basket))?;
            (branch.total_bytes, branch.zip_bytes) = (found.total_bytes, found.compressed_bytes);
        }
        let clusters = grow::collected(tree.cluster_borders().into_iter().skip(1))?;
        let existing = Some(existing);
        let (entries_written, safe) = (tree.entries, tree.entries);
        let writer = Self { branches, clusters, entries_written, safe, changed: false, existing, ..writer };
        let stored = writer.existing.as_ref().and_then(Existing::index);
        let index = stored.map(|index| ContinuedIndex::new(index, &writer.branches, entries_written));
        Ok((Self { index: index.transpose()?.flatten(), ..writer }, specs))
    }
    /// Whether it has an index that further entries cannot be added to, so that it is left out once there are some.
    pub fn loses_index(&self) -> bool {
        self.index.is_none() && self.existing.as_ref().is_some_and(Existing::has_index)
    }

    /// Sets what a new tree has besides its entries.
    pub fn describe_as(&mut self, file: &mut FileWriter, extras: Extras) -> Result<()> {
        if self.existing.is_some() {
            return Err(Error::argument("only a new tree can be described").within(self.place()));
        }
        let mut w = Writer::new(0);
        extras.encode(&mut w).within(|| self.place())?;
        let mut classes = Vec::new();
        for value in extras.objects() {
            if let Value::Object(object) = value {
                classes_of(object, &mut classes);
            }
        }
        for class in &classes {
            file.use_class(class);
        }
        (self.extras, self.extra_bytes, self.changed) = (extras, w.len(), true);
        Ok(())
    }

    /// Adds branches to a tree in the file: with as many entries as the tree has, all at once.
    pub fn add_branches(
        file: &mut FileWriter,
        directory: DirectoryId,
        source: &Arc<RootFile>,
        key: &Key,
        (specs, max_basket): (&[BranchSpec], Option<usize>),
        columns: &[Column],
    ) -> Result<()> {
        let place = || format!("tree {}", key.name);
        let (existing, tree) = Existing::read(source, key).within(place)?;
        let plan = TreePlan::new(specs).within(place)?;
        if let Some(known) = plan.branches.iter().find(|b| tree.branches.iter().any(|k| k.name == b.name)) {
            return Err(
                Error::argument(format!("a branch named {} already exists", known.name)).within(place())
            );
        }
        let id = file.find_key(directory, &key.name, key.cycle)?;
        Self::describe(file, &plan).within(place)?;
        let options = TreeOptions { auto_flush: i64::MAX, max_basket, ..TreeOptions::default() };
        let mut writer = Self::from_plan(file, (directory, id), &key.name, plan, specs, options);
        writer.borders = Some(grow::collected(tree.cluster_borders().into_iter().skip(1))?);
        writer.existing = Some(existing);
        writer.extend(file, columns)?;
        writer.save(file)?;
        file.commit()
    }

    /// Ends of the clusters in the file.
    pub fn clusters(&self) -> &[u64] {
        &self.clusters
    }
    /// The value of `fAutoFlush`: the entries of a cluster, once one was full.
    fn auto_flush(&self) -> i64 {
        match self.cluster_entries {
            Some(entries) if self.options.auto_flush > 0 || !self.clusters.is_empty() => entries as i64,
            _ => self.options.auto_flush,
        }
    }

    /// Returns the new state of a tree that is continued.
    fn grown(&self) -> Result<Grown<'_>> {
        let entries = self.entries_written;
        let branches = self.branches.iter().map(|branch| GrownBranch {
            name: &branch.name,
            baskets: &branch.baskets,
            entries,
            total_bytes: branch.total_bytes,
            zip_bytes: branch.zip_bytes,
            maximum: Some(branch.maximum.into()),
            last: if branch.item.is_some() { entries } else { 0 },
            codec: None,
        });
        Ok(Grown {
            entries,
            clusters: &self.clusters,
            auto_flush: self.auto_flush(),
            branches: grow::collected(branches)?,
            index: match &self.index {
                Some(index) => GrownIndex::New(index),
                None => GrownIndex::Lost,
            },
            name: &self.name,
        })
    }

    fn place(&self) -> String {
        format!("tree {}", self.name)
    }

    /// Drops buffered entries after an unrecoverable error, and returns an error that states which entries are safe.
    fn fail(&mut self, file: &mut FileWriter, error: &Error) -> Error {
        let (written, lost) = (self.safe, self.entries() - self.safe);
        self.failed = Some(error.message().to_owned());
        self.waiting = 0;
        self.waiting_bytes = 0;
        self.clear();
        let kept = file.kept(&self.place(), written, lost);
        Error::new(error.kind(), format!("{error}: {kept}"))
    }

    /// Returns the column of each branch that has entries of its own.
    fn project<'a>(&self, columns: &'a [Column]) -> Result<Vec<Option<Cow<'a, Column>>>> {
        if columns.len() != self.columns {
            return Err(Error::argument(format!(
                "{} columns were given for {} branches",
                columns.len(),
                self.columns
            )));
        }
        let project = |branch: &Branch| {
            if branch.item.is_none() {
                return Ok(None);
            }
            let missing = || Error::argument("the counter belongs to no list");
            let column = columns.get(branch.column).ok_or_else(missing)?;
            branch
                .path
                .iter()
                .try_fold(Cow::Borrowed(column), |column, member| field(&column, *member))
                .map(Some)
        };
        let mut projected = grow::with_room(self.branches.len())?;
        for branch in &self.branches {
            projected.push(project(branch).within(|| format!("branch {}", branch.name))?);
        }
        Ok(projected)
    }

    /// Checks columns against branches.
    fn views<'a>(
        &self,
        items: &'a [Option<Arc<Item>>],
        columns: &'a [Option<Cow<'a, Column>>],
    ) -> Result<Vec<Option<View<'a>>>> {
        let mut views: Vec<Option<View<'a>>> = grow::with_room(self.branches.len())?;
        for (branch, (item, column)) in self.branches.iter().zip(items.iter().zip(columns)) {
            let pair = item.as_deref().zip(column.as_deref());
            let view = pair.map(|(item, column)| View::new(item, column)).transpose();
            views.push(view.within(|| format!("branch {}", branch.name))?);
        }
        let find = |index: usize| views.get(index).and_then(Option::as_ref);
        for (index, branch) in self.branches.iter().enumerate() {
            let Some(counter) = branch.counter else { continue };
            let same = find(counter).zip(find(index)).is_some_and(|(a, b)| a.same_lengths(b));
            if !same {
                let counter = self.branches.get(counter).map_or("", |b| b.name.as_str());
                return Err(Error::argument(format!(
                    "the lists have other lengths than those that share the counter {counter}"
                ))
                .within(format!("branch {}", branch.name)));
            }
        }
        Ok(views)
    }

    /// Bytes that may be added before the cluster is full, or before it is time to measure.
    fn room(&self) -> u64 {
        if self.options.auto_flush > 0 {
            return u64::MAX;
        }
        let target = self.options.auto_flush.unsigned_abs();
        let most =
            if self.cluster_entries.is_some() { target.saturating_mul(MOST_EXPANSION) } else { target };
        most.saturating_sub(self.waiting_bytes)
    }

    /// Entries that may be added before the cluster is full, once known.
    fn left(&self) -> Option<usize> {
        let next = |borders: &Vec<u64>| borders.iter().copied().find(|border| *border > self.entries_written);
        let entries = match &self.borders {
            Some(borders) => next(borders).map(|border| (border - self.entries_written) as usize),
            None => self.cluster_entries,
        };
        entries.map(|entries| entries.saturating_sub(self.waiting))
    }

    fn take(
        &mut self,
        views: &[Option<View<'_>>],
        from: usize,
        to: usize,
        bytes: u64,
        collecting: &mut Collecting,
    ) -> Result<()> {
        let have = self.waiting + to - from;
        let parts = self.left().map_or(1.0, |left| (self.waiting.saturating_add(left)) as f64 / have as f64);
        // The branch that holds all of a column collects its statistics.
        let mut free = grow::collected(collecting.columns(self.columns)?.iter_mut().map(Some))?;
        let mut claim = |branch: &Branch| {
            let whole = branch.path.is_empty() && branch.item.as_deref() != Some(&Item::Count);
            if whole { free.get_mut(branch.column).and_then(Option::take) } else { None }
        };
        let collected = grow::collected(self.branches.iter().map(&mut claim))?;
        // Without memory for all branches, none of them gets the entries.
        self.branches.par_iter_mut().zip(views).try_for_each(|(branch, view)| {
            view.as_ref().map_or(Ok(()), |view| branch.grow(view, from, to, parts.max(1.0)))
        })?;
        self.branches.par_iter_mut().zip(views).zip(collected).try_for_each(
            |((branch, view), collected)| {
                let Some(view) = view else { return Ok(()) };
                match collected {
                    Some(collected) => {
                        collected.in_pieces(from, to, |from, to| branch.append(view, from, to))
                    }
                    None => branch.append(view, from, to),
                }
            },
        )?;
        self.waiting += to - from;
        self.waiting_bytes += bytes;
        Ok(())
    }

    fn flush_if_full(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.cluster_entries.is_none() && self.room() == 0 {
            let target = self.options.auto_flush.unsigned_abs() as f64;
            let packed = cluster::estimate(&self.branches, self.waiting, file.compression())?.max(1.0);
            let most = target * MOST_EXPANSION as f64 / self.waiting_bytes.max(1) as f64;
            let factor = (target / packed).min(most).max(1.0);
            self.cluster_entries = Some((self.waiting as f64 * factor) as usize);
        }
        if self.left() == Some(0) || self.room() == 0 {
            self.write_cluster(file)?;
        }
        Ok(())
    }

    /// Writes all buffered entries.
    fn write_cluster(&mut self, file: &mut FileWriter) -> Result<()> {
        let compression = file.compression();
        self.branches.par_iter_mut().try_for_each(|branch| {
            branch.measure(compression).within(|| format!("branch {}", branch.name))
        })?;
        let (stretch, baskets) = self.write_baskets(file)?;
        let need = metadata::bytes_needed(&self.branches, baskets.len())
            + self.extra_bytes
            + self.existing.as_ref().map_or(0, Existing::size)
            + self.index.as_ref().map_or(0, |index| index.bytes_after(self.waiting));
        let added = self.prepare_for(&baskets).inspect_err(|_| file.give_back(&stretch))?;
        let due = file.accept(&stretch, self.key, need)?;
        for Written { branch, entries, basket, sizes } in baskets {
            if let Some(branch) = self.branches.get_mut(branch) {
                branch.baskets.push(basket);
                branch.total_bytes += sizes.total;
                branch.zip_bytes += sizes.zip;
                branch.largest = branch.largest.max(sizes.total as usize);
                branch.most_entries = branch.most_entries.max(entries);
            }
        }
        if let Some(index) = &mut self.index {
            index.add(&added);
        }
        self.entries_written += self.waiting as u64;
        if self.clusters.is_empty() && self.cluster_entries.is_some() {
            self.flushed_bytes = stretch.end - stretch.start;
        }
        self.clusters.push(self.entries_written);
        self.waiting = 0;
        self.waiting_bytes = 0;
        self.changed = true;
        self.clear();
        if due {
            self.save(file)?;
            file.commit()?;
        }
        self.safe = self.entries_written;
        Ok(())
    }

    /// Makes room for what a cluster adds to the description of the tree; returns what it adds to its index.
    fn prepare_for(&mut self, baskets: &[Written]) -> Result<Vec<[i64; 3]>> {
        let mut counts = grow::filled(self.branches.len(), 0)?;
        for written in baskets {
            counts.get_mut(written.branch).into_iter().for_each(|count| *count += 1);
        }
        self.branches.iter_mut().zip(counts).try_for_each(|(branch, count)| branch.baskets.room(count))?;
        self.clusters.room(1)?;
        let (branches, first, waiting) = (&self.branches, self.entries_written, self.waiting);
        let added = self.index.as_mut().map(|index| index.prepare(branches, first, waiting));
        added.unwrap_or_else(|| Ok(Vec::new()))
    }

    fn clear(&mut self) {
        for branch in &mut self.branches {
            branch.data.clear();
            branch.starts.clear();
        }
    }

    /// Compresses the baskets of a cluster and writes them contiguously; returns their byte range.
    fn write_baskets(&self, file: &mut FileWriter) -> Result<(Stretch, Vec<Written>)> {
        let compression = file.compression();
        let texts = grow::collected(self.branches.iter().map(|b| basket::key_text(b, &self.name)))?;
        let mut jobs: Vec<BasketJob> = Vec::new();
        for (index, branch) in self.branches.iter().enumerate() {
            let usual = || basket::usual_bytes(branch.compression(compression), branch.baskets.len());
            let most = self.options.max_basket.unwrap_or_else(usual).min(MAX_ENTRY);
            let split = basket::split(index, branch, self.waiting, most)?;
            jobs.room(split.len())?;
            jobs.extend(split);
        }
        // If branches have several baskets, the first basket of each comes first, because ROOT's cache learns from
        // these. Then follows a run of each branch.
        let first =
            |job: &BasketJob| self.branches.get(job.branch).is_some_and(|b| b.baskets.len() == job.number);
        jobs.sort_unstable_by_key(|job| (!first(job), job.data.start / RUN, job.branch, job.number));
        let mut batches: Vec<Vec<BasketJob>> = Vec::new();
        let mut bytes = BATCH;
        for job in jobs {
            if bytes >= BATCH {
                batches.try_push(Vec::new())?;
                bytes = 0;
            }
            bytes += job.data.len();
            if let Some(batch) = batches.last_mut() {
                batch.try_push(job)?;
            }
        }
        let known = |job: &BasketJob| self.branches.get(job.branch).zip(texts.get(job.branch));
        let fill = |batch: &Vec<BasketJob>, slots: &mut Vec<Slot>| {
            slots.room(batch.len().saturating_sub(slots.len()))?;
            slots.resize_with(slots.len().max(batch.len()), Slot::default);
            batch.iter().zip(slots).try_for_each(|(job, slot)| {
                let Some((branch, text)) = known(job) else { return Ok(()) };
                slot.fill(job, branch, branch.compression(compression), basket::key_bytes(text))
                    .within(|| format!("branch {}", branch.name))
            })
        };
        let numbers =
            KeyNumbers { datime: file.datime(), seek_parent: self.seek_directory, ..KeyNumbers::default() };
        let size = |job: &BasketJob| {
            let (branch, text) = known(job)?;
            let offsets = if branch.varies() { 4 * job.entries.len() + 8 } else { 0 };
            Some((job.data.len() + offsets + basket::key_bytes(text)) as u64)
        };
        let mut stretch = file.begin_stretch(batches.iter().flatten().filter_map(size).sum());
        let mut done: Vec<Written> = Vec::new();
        let write = |batch: &Vec<BasketJob>, slots: &mut Vec<Slot>| {
            let mut keys = Writer::new(0);
            let mut cuts = grow::with_room(batch.len() + 1)?;
            cuts.push(0);
            done.room(batch.len())?;
            let mut seek = stretch.end;
            for (job, slot) in batch.iter().zip(&*slots) {
                let Some((branch, text)) = known(job) else { continue };
                let n = KeyNumbers { seek, cycle: job.number as u16, ..numbers };
                let sizes = slot.key(&mut keys, job, branch, text, n)?;
                cuts.push(keys.len());
                let basket = Basket {
                    bytes: sizes.zip as u32,
                    entry: self.entries_written + job.entries.start as u64,
                    seek,
                };
                seek += sizes.zip;
                done.push(Written { branch: job.branch, entries: job.entries.len(), basket, sizes });
            }
            let keys = keys.bytes()?;
            let mut parts = grow::with_room(3 * batch.len())?;
            for ((job, slot), cut) in batch.iter().zip(&*slots).zip(cuts.windows(2)) {
                let Some((branch, _)) = known(job) else { continue };
                if let [from, to] = cut {
                    parts.push(keys.get(*from..*to).unwrap_or_default());
                }
                parts.extend(slot.parts(job, branch));
            }
            file.append(&mut stretch, &parts)
        };
        let written = row::in_order(&batches, rayon::current_num_threads() + AHEAD, fill, write);
        if written.is_err() {
            file.give_back(&stretch);
        }
        written.map(|()| (stretch, done))
    }
}

impl TableWriter for TreeWriter {
    fn name(&self) -> &str {
        &self.name
    }
    fn entries(&self) -> u64 {
        self.entries_written + self.waiting as u64
    }
    fn entries_written(&self) -> u64 {
        self.entries_written
    }
    fn pages(&self) -> usize {
        self.branches.iter().map(|b| b.baskets.len()).max().unwrap_or(0)
    }
    fn set_compression(&mut self, branch: usize, compression: Option<Compression>) -> Result<()> {
        let missing = || Error::not_found(format!("no branch {branch}"));
        let first = self.made.get(branch).copied().ok_or_else(missing)?;
        let end = self.made.get(branch + 1).copied().unwrap_or(self.branches.len());
        for branch in self.branches.get_mut(first..end).unwrap_or_default() {
            branch.compression = compression;
        }
        Ok(())
    }
    fn extend_collecting(
        &mut self,
        file: &mut FileWriter,
        columns: &[Column],
        collecting: &mut Collecting,
    ) -> Result<()> {
        self.check_sound().within(|| self.place())?;
        let projected = self.project(columns).within(|| self.place())?;
        let items = grow::collected(self.branches.iter().map(|b| b.item.clone()))?;
        let views = self.views(&items, &projected).within(|| self.place())?;
        let lengths = views.iter().zip(&self.branches);
        let lengths = lengths.filter_map(|(view, branch)| view.as_ref().map(|v| (v.len(), branch)));
        let rows = lengths.clone().map(|(length, _)| length).max().unwrap_or(0);
        for (length, branch) in lengths {
            if length != rows {
                return Err(Error::argument(format!(
                    "branch {} has {length} entries, but another branch has {rows}",
                    branch.name
                ))
                .within(self.place()));
            }
        }
        let known = self.borders.as_ref().map(|borders| borders.last().copied().unwrap_or(0));
        if let Some(entries) = known.filter(|entries| *entries != rows as u64) {
            return Err(
                Error::argument(format!("{rows} entries where the tree has {entries}")).within(self.place())
            );
        }
        for (view, branch) in views.iter().zip(&self.branches) {
            let Some(view) = view.as_ref().filter(|view| view.bytes(0, rows) > MAX_ENTRY) else { continue };
            if let Some(entry) = (0..rows).find(|i| view.bytes(*i, i + 1) > MAX_ENTRY) {
                let size = view.bytes(entry, entry + 1);
                return Err(Error::limit(format!("entry {entry} has {size} bytes, more than {MAX_ENTRY}"))
                    .within(format!("branch {}", branch.name))
                    .within(self.place()));
            }
        }
        let varies = grow::collected(self.branches.iter().map(|b| if b.varies() { 4 } else { 0 }))?;
        let bytes = |from: usize, to: usize| -> u64 {
            let each = views.iter().zip(&varies);
            let sizes =
                each.filter_map(|(v, more)| v.as_ref().map(|v| v.bytes(from, to) + more * (to - from)));
            sizes.map(|size| size as u64).sum()
        };
        let mut from = 0;
        while from < rows {
            let room = self.room();
            let left = self.left().unwrap_or(rows).max(1);
            let mut to = rows.min(from.saturating_add(left));
            if bytes(from, to) > room {
                // Bisect for the first entry that fills the cluster.
                let (mut below, mut above) = (from, to);
                while below + 1 < above {
                    let middle = below.midpoint(above);
                    if bytes(from, middle) > room { above = middle } else { below = middle }
                }
                to = above;
            }
            let taken = self
                .take(&views, from, to, bytes(from, to), collecting)
                .and_then(|()| self.flush_if_full(file))
                .and_then(|()| if self.waiting == 0 { collecting.end_zone(to) } else { Ok(()) });
            if let Err(error) = taken {
                return Err(self.fail(file, &error));
            }
            from = to;
        }
        Ok(())
    }

    fn flush(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.failed.is_some() || self.waiting == 0 {
            return Ok(());
        }
        self.write_cluster(file).map_err(|error| self.fail(file, &error))
    }

    fn save(&mut self, file: &mut FileWriter) -> Result<()> {
        let partly = |borders: &Vec<u64>| borders.last().is_some_and(|last| self.entries_written < *last);
        if !self.changed || self.borders.as_ref().is_some_and(partly) {
            return Ok(());
        }
        if self.failed.is_some() && self.entries_written == 0 && !file.is_written(self.key) {
            // Without entries, it would only hide an older cycle.
            return Ok(());
        }
        let compression = file.compression();
        file.write(self.key, |displacement| match (&self.existing, &self.borders) {
            (None, _) => metadata::encode(self, compression, displacement),
            (Some(tree), None) => tree.encode(&self.grown()?, displacement),
            (Some(tree), Some(_)) => tree.encode_more(self, compression, displacement),
        })?;
        self.changed = false;
        Ok(())
    }
    fn close(&mut self, file: &FileWriter) {
        self.changed |= file.is_far(self.key);
    }
    fn failure(&self) -> Option<&str> {
        self.failed.as_deref()
    }
}

/// Returns a field of records, or of lists of records.
fn field<'a>(column: &Cow<'a, Column>, member: usize) -> Result<Cow<'a, Column>> {
    let of = |column: &Column| match column {
        Column::Record { fields, .. } => fields.get(member).map(|(_, field)| field.clone()),
        Column::List { offsets, values } => match values.as_ref() {
            Column::Record { fields, .. } => fields
                .get(member)
                .map(|(_, field)| Column::List { offsets: offsets.clone(), values: Box::new(field.clone()) }),
            _ => None,
        },
        _ => None,
    };
    of(column).map(Cow::Owned).ok_or_else(|| Error::argument(format!("records have no member {member}")))
}

#[cfg(test)]
mod tests;
