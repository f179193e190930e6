//! Writing trees.
//!
//! Entries wait, as big-endian bytes in one buffer a branch, until a cluster is full. Then each branch's bytes are cut
//! into baskets (one, if they are not too many), the baskets compressed in parallel and written one after another in
//! the order of the branches, so that a cluster, or any row of branches in it, is one stretch of the file.
//!
//! Memory: the uncompressed bytes of one cluster and [`GROUP`] bytes of baskets on their way to the file.

mod basket;
mod branch;
mod cluster;
mod metadata;

use crate::array::Column;
use crate::compress::encode::Compression;
use crate::error::{Error, ErrorKind, Result, Within};
use crate::file::writer::{DirectoryId, FileWriter, KeyId, KeyNumbers};
use crate::wire::writer::Writer;
use basket::{Basket, Job, Sizes, Slot};
use branch::{Branch, Input};
use rayon::prelude::*;
use std::collections::HashSet;

pub use branch::{BranchKind, BranchSpec};
pub use cluster::ClusterRange;

/// Uncompressed bytes of the baskets that are compressed together and then written.
pub const GROUP: usize = 8 << 20;
/// ROOT's setting for the size of clusters: this many compressed bytes (`fAutoFlush`).
pub const AUTO_FLUSH: i64 = -30_000_000;
/// A cluster measured in bytes takes at most so many times its compressed size before compression.
const MOST_EXPANSION: u64 = 4;
/// Uncompressed bytes of a basket at most, unless one entry has more.
pub const MAX_BASKET: usize = 1 << 20;

/// How a tree is laid out.
#[derive(Debug, Clone)]
pub struct TreeOptions {
    /// Title of the tree.
    pub title: String,
    /// Size of a cluster (`fAutoFlush`): entries if positive, compressed bytes if negative. Bytes are measured once,
    /// on the first entries, and turned into a number of entries; data that grow to more than four times as many
    /// uncompressed bytes end their cluster early.
    pub auto_flush: i64,
    /// Uncompressed bytes of a basket at most.
    pub max_basket: usize,
}

impl Default for TreeOptions {
    fn default() -> Self {
        Self { title: String::new(), auto_flush: AUTO_FLUSH, max_basket: MAX_BASKET }
    }
}

/// A basket that was written, with what it was made of.
type Written = (Job, Basket, Sizes);

/// A tree being written.
pub struct TreeWriter {
    name: String,
    key: KeyId,
    seek_directory: u64,
    options: TreeOptions,
    branches: Vec<Branch>,
    /// Entries of a cluster, once known.
    cluster_entries: Option<usize>,
    /// Ends of the clusters in the file.
    clusters: Vec<u64>,
    /// Entries in the file.
    entries_written: u64,
    /// Entries that wait.
    waiting: usize,
    waiting_bytes: u64,
    /// Compressed bytes of the first cluster (`fFlushedBytes`).
    flushed_bytes: u64,
    slots: Vec<Slot>,
    /// Entries were written or the tree is new since its object was last written.
    changed: bool,
    failed: Option<String>,
}

impl TreeWriter {
    /// Takes a name in a directory for a tree of these branches. The tree is in the file once it is saved.
    pub fn new(
        file: &mut FileWriter,
        directory: DirectoryId,
        name: &str,
        branches: Vec<BranchSpec>,
        options: TreeOptions,
    ) -> Result<Self> {
        check(&branches).within(|| format!("tree {name}"))?;
        if options.auto_flush == 0 {
            return Err(Error::argument("auto_flush is a number of entries, or of bytes below zero, not 0"));
        }
        let branches: Vec<Branch> = branches.into_iter().map(Branch::new).collect();
        let key = file.reserve(directory, "TTree", name, &options.title)?;
        for class in metadata::classes(&branches) {
            file.use_class(class);
        }
        let cluster_entries = usize::try_from(options.auto_flush).ok();
        Ok(Self {
            name: name.to_owned(),
            key,
            seek_directory: file.seek_of(directory),
            options,
            branches,
            cluster_entries,
            clusters: Vec::new(),
            entries_written: 0,
            waiting: 0,
            waiting_bytes: 0,
            flushed_bytes: 0,
            slots: Vec::new(),
            changed: true,
            failed: None,
        })
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Entries taken so far.
    pub fn entries(&self) -> u64 {
        self.entries_written + self.waiting as u64
    }
    /// Entries in the file: those of full clusters.
    pub fn entries_written(&self) -> u64 {
        self.entries_written
    }
    /// Baskets in the file, of the branch that has most.
    pub fn baskets(&self) -> usize {
        self.branches.iter().map(|b| b.baskets.len()).max().unwrap_or(0)
    }
    /// Ends of the clusters in the file.
    pub fn clusters(&self) -> &[u64] {
        &self.clusters
    }
    /// Names and kinds of the branches.
    pub fn branches(&self) -> impl Iterator<Item = &BranchSpec> {
        self.branches.iter().map(|b| &b.spec)
    }
    /// Changes codec and level of a branch for the baskets to come; without one those of the file.
    pub fn set_compression(&mut self, branch: usize, compression: Option<Compression>) -> Result<()> {
        let branch =
            self.branches.get_mut(branch).ok_or_else(|| Error::not_found(format!("no branch {branch}")))?;
        branch.spec.compression = compression;
        Ok(())
    }
    /// What `fAutoFlush` says: the entries of a cluster once one was full.
    fn auto_flush(&self) -> i64 {
        match self.cluster_entries {
            Some(entries) if self.options.auto_flush > 0 || !self.clusters.is_empty() => entries as i64,
            _ => self.options.auto_flush,
        }
    }

    /// Takes entries: one column of equal length for each branch that is not a counter, in the order of the branches.
    /// Columns are copied or written before this returns. Nothing is taken if the columns do not fit.
    pub fn extend(&mut self, file: &mut FileWriter, columns: &[Column]) -> Result<()> {
        if let Some(reason) = &self.failed {
            return Err(
                Error::new(ErrorKind::Io, format!("writing failed before: {reason}")).within(self.place())
            );
        }
        let inputs = self.inputs(columns).within(|| self.place())?;
        let sizes: Vec<usize> = self.branches.iter().map(Branch::entry_bytes).collect();
        let lengths = inputs.iter().zip(&sizes).map(|(input, size)| input.len(*size));
        let rows = lengths.clone().max().unwrap_or(0);
        for (length, branch) in lengths.zip(&self.branches) {
            if length != rows {
                return Err(Error::argument(format!(
                    "branch {} has {length} entries where another has {rows}",
                    branch.spec.name
                ))
                .within(self.place()));
            }
        }
        let bytes = |from: usize, to: usize| -> u64 {
            inputs.iter().zip(&sizes).map(|(input, size)| input.bytes(*size, from, to) as u64).sum()
        };
        let mut from = 0;
        while from < rows {
            let room = self.room();
            let left = self.cluster_entries.map_or(rows, |n| n.saturating_sub(self.waiting).max(1));
            let mut to = rows.min(from.saturating_add(left));
            if bytes(from, to) > room {
                // The first entry that fills the cluster, by bisection.
                let (mut below, mut above) = (from, to);
                while below + 1 < above {
                    let middle = below.midpoint(above);
                    if bytes(from, middle) > room { above = middle } else { below = middle }
                }
                to = above;
            }
            let result =
                self.take(&inputs, from, to, bytes(from, to)).and_then(|()| self.flush_if_full(file));
            if let Err(error) = result {
                return Err(self.fail(&error));
            }
            from = to;
        }
        Ok(())
    }

    /// Writes what waits as a cluster of its own, however small.
    pub fn flush(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.failed.is_some() || self.waiting == 0 {
            return Ok(());
        }
        self.write_cluster(file).map_err(|error| self.fail(&error))
    }

    /// Writes the tree's object for all entries in the file; entries that wait go on waiting. The file's next commit
    /// makes it the one that readers see.
    pub fn save(&mut self, file: &mut FileWriter) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        let compression = file.compression();
        file.write(self.key, |displacement| metadata::encode(self, compression, displacement))?;
        self.changed = false;
        Ok(())
    }

    fn place(&self) -> String {
        format!("tree {}", self.name)
    }

    /// Gives up waiting entries after an error that cannot be undone, and says what is safe.
    fn fail(&mut self, error: &Error) -> Error {
        let (written, lost) = (self.entries_written, self.waiting);
        self.failed = Some(error.message().to_owned());
        self.waiting = 0;
        self.waiting_bytes = 0;
        self.clear();
        Error::new(
            error.kind(),
            format!(
                "{error}: {written} entries of tree {} are safe, {lost} more were not written",
                self.name
            ),
        )
    }

    /// Checks columns against branches and gives counters their lengths.
    fn inputs<'a>(&self, columns: &'a [Column]) -> Result<Vec<Input<'a>>> {
        let takes = |b: &Branch| b.spec.kind != BranchKind::Counter;
        let wanted = self.branches.iter().filter(|b| takes(b)).count();
        if columns.len() != wanted {
            return Err(Error::argument(format!("{} columns for {wanted} branches", columns.len())));
        }
        let mut given = columns.iter();
        let mut inputs: Vec<Option<Input<'a>>> = Vec::with_capacity(self.branches.len());
        for branch in &self.branches {
            let column = if takes(branch) { given.next() } else { None };
            let input = column.map(|c| Input::new(&branch.spec.kind, c));
            inputs.push(input.transpose().within(|| format!("branch {}", branch.spec.name))?);
        }
        for (index, branch) in self.branches.iter().enumerate() {
            let BranchKind::Counted { counter, .. } = branch.spec.kind else { continue };
            let Some(own) = inputs.get(index).copied().flatten() else { continue };
            match inputs.get(counter).copied().flatten() {
                None => {
                    if let (Some(slot), Some(lengths)) = (inputs.get_mut(counter), own.lengths()) {
                        *slot = Some(Input::Lengths(lengths));
                    }
                }
                Some(Input::Lengths(lengths)) if own.same_lengths(lengths) => {}
                Some(_) => {
                    let counter = self.branches.get(counter).map_or("", |b| b.spec.name.as_str());
                    return Err(Error::argument(format!(
                        "lists of other lengths than those that share the counter {counter}"
                    ))
                    .within(format!("branch {}", branch.spec.name)));
                }
            }
        }
        let missing = || Error::argument("a counter that counts no branch");
        inputs.into_iter().map(|input| input.ok_or_else(missing)).collect()
    }

    /// Bytes that may still come before the cluster is full, or before it is time to measure.
    fn room(&self) -> u64 {
        if self.options.auto_flush > 0 {
            return u64::MAX;
        }
        let target = self.options.auto_flush.unsigned_abs();
        let most =
            if self.cluster_entries.is_some() { target.saturating_mul(MOST_EXPANSION) } else { target };
        most.saturating_sub(self.waiting_bytes)
    }

    fn take(&mut self, inputs: &[Input<'_>], from: usize, to: usize, bytes: u64) -> Result<()> {
        self.branches
            .par_iter_mut()
            .zip(inputs)
            .try_for_each(|(branch, input)| branch.append(*input, from, to))?;
        self.waiting += to - from;
        self.waiting_bytes += bytes;
        Ok(())
    }

    fn flush_if_full(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.cluster_entries.is_none() && self.room() == 0 {
            let target = self.options.auto_flush.unsigned_abs() as f64;
            let packed = cluster::estimate(&self.branches, file.compression())?.max(1.0);
            let most = target * MOST_EXPANSION as f64 / self.waiting_bytes.max(1) as f64;
            let factor = (target / packed).min(most).max(1.0);
            self.cluster_entries = Some((self.waiting as f64 * factor) as usize);
        }
        if self.cluster_entries.is_some_and(|n| self.waiting >= n) || self.room() == 0 {
            self.write_cluster(file)?;
        }
        Ok(())
    }

    /// Writes all that waits.
    fn write_cluster(&mut self, file: &mut FileWriter) -> Result<()> {
        let mut slots = std::mem::take(&mut self.slots);
        let written = self.write_baskets(file, &mut slots);
        self.slots = slots;
        let (end, baskets) = written?;
        let start = file.end();
        let need = metadata::bytes_needed(&self.branches, baskets.len());
        file.accept(end, self.key, need)?;
        for (job, basket, sizes) in baskets {
            if let Some(branch) = self.branches.get_mut(job.branch) {
                branch.baskets.push(basket);
                branch.total_bytes += sizes.total;
                branch.zip_bytes += sizes.zip;
                branch.largest = branch.largest.max(sizes.total as usize);
                branch.most_entries = branch.most_entries.max(job.entries.len());
            }
        }
        self.entries_written += self.waiting as u64;
        if self.clusters.is_empty() && self.cluster_entries.is_some() {
            self.flushed_bytes = end - start;
        }
        self.clusters.push(self.entries_written);
        self.waiting = 0;
        self.waiting_bytes = 0;
        self.changed = true;
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        for branch in &mut self.branches {
            branch.data.clear();
            branch.starts.clear();
        }
    }

    /// Compresses and writes the baskets of a cluster, group by group, after the end of the file. Gives the new end.
    fn write_baskets(&self, file: &mut FileWriter, slots: &mut Vec<Slot>) -> Result<(u64, Vec<Written>)> {
        let compression = file.compression();
        let texts: Vec<_> = self.branches.iter().map(|b| basket::key_text(b, &self.name)).collect();
        let jobs =
            self.branches.iter().enumerate().flat_map(|(index, branch)| {
                basket::split(index, branch, self.waiting, self.options.max_basket)
            });
        let mut jobs = jobs.peekable();
        let numbers =
            KeyNumbers { datime: file.datime(), seek_parent: self.seek_directory, ..KeyNumbers::default() };
        let mut end = file.end();
        let mut done = Vec::new();
        while jobs.peek().is_some() {
            let mut group = Vec::new();
            let mut bytes = 0;
            while let Some(job) = jobs.next_if(|_| bytes < GROUP) {
                bytes += job.data.len();
                group.push(job);
            }
            if slots.len() < group.len() {
                slots.resize_with(group.len(), Slot::default);
            }
            let known = |job: &Job| self.branches.get(job.branch).zip(texts.get(job.branch));
            group.par_iter().zip(slots.par_iter_mut()).with_max_len(1).try_for_each(|(job, slot)| {
                let Some((branch, text)) = known(job) else { return Ok(()) };
                slot.fill(job, branch, branch.compression(compression), basket::key_bytes(text))
                    .within(|| format!("branch {}", branch.spec.name))
            })?;
            let mut keys = Writer::new(0);
            let mut cuts = vec![0];
            let mut seek = end;
            let first = done.len();
            for (job, slot) in group.into_iter().zip(slots.iter()) {
                let Some((branch, text)) = known(&job) else { continue };
                let n = KeyNumbers { seek, cycle: job.number as u16, ..numbers };
                let sizes = slot.key(&mut keys, &job, branch, text, n)?;
                cuts.push(keys.len());
                let basket = Basket {
                    bytes: sizes.zip as u32,
                    entry: self.entries_written + job.entries.start as u64,
                    seek,
                };
                seek += sizes.zip;
                done.push((job, basket, sizes));
            }
            let mut parts = Vec::with_capacity(3 * cuts.len());
            for (((job, ..), slot), cut) in done.iter().skip(first).zip(slots.iter()).zip(cuts.windows(2)) {
                let Some((branch, _)) = known(job) else { continue };
                if let [from, to] = cut {
                    parts.push(keys.bytes().get(*from..*to).unwrap_or_default());
                }
                parts.extend(slot.parts(job, branch));
            }
            end = file.append(&parts, end)?;
        }
        Ok((end, done))
    }
}

/// Checks that branches can be made: names differ, counters come first and count something.
fn check(branches: &[BranchSpec]) -> Result<()> {
    if branches.is_empty() {
        return Err(Error::argument("a tree has at least one branch"));
    }
    let mut names = HashSet::new();
    let mut counted = HashSet::new();
    for (index, branch) in branches.iter().enumerate() {
        if branch.name.is_empty() {
            return Err(Error::argument("a branch without a name"));
        }
        if !names.insert(branch.name.as_str()) {
            return Err(Error::argument(format!("two branches have the name {}", branch.name)));
        }
        if let BranchKind::Counted { counter, .. } = branch.kind {
            let right =
                counter < index && branches.get(counter).is_some_and(|c| c.kind == BranchKind::Counter);
            if !right {
                return Err(Error::argument(format!("branch {} has no counter before it", branch.name)));
            }
            counted.insert(counter);
        }
        let dims = match &branch.kind {
            BranchKind::Numbers { dims, .. } | BranchKind::Counted { dims, .. } => dims.as_slice(),
            _ => &[],
        };
        let size = dims.iter().try_fold(8_usize, |product, dim| product.checked_mul(*dim));
        if size.is_none_or(|size| size > i32::MAX as usize) {
            return Err(Error::limit(format!("branch {} has arrays of {dims:?} elements", branch.name)));
        }
        if dims.contains(&0) {
            return Err(Error::unsupported(format!(
                "branch {} has arrays of {dims:?} elements",
                branch.name
            )));
        }
    }
    for (index, branch) in branches.iter().enumerate() {
        if branch.kind == BranchKind::Counter && !counted.contains(&index) {
            return Err(Error::argument(format!("branch {} counts no other branch", branch.name)));
        }
    }
    Ok(())
}

/// A file and the trees being written to it.
pub struct Output {
    /// The file.
    pub file: FileWriter,
    trees: Vec<TreeWriter>,
    closed: bool,
}

impl Output {
    /// Around a fresh file.
    pub fn new(file: FileWriter) -> Self {
        Self { file, trees: Vec::new(), closed: false }
    }
    /// Adds a tree; gives its number.
    pub fn make_tree(
        &mut self,
        directory: DirectoryId,
        name: &str,
        branches: Vec<BranchSpec>,
        options: TreeOptions,
    ) -> Result<usize> {
        let tree = TreeWriter::new(&mut self.file, directory, name, branches, options)?;
        self.trees.push(tree);
        Ok(self.trees.len() - 1)
    }
    /// A tree by its number.
    pub fn tree(&self, tree: usize) -> Result<&TreeWriter> {
        self.trees.get(tree).ok_or_else(|| Error::not_found(format!("no tree {tree}")))
    }
    /// A tree and the file it goes to.
    pub fn tree_mut(&mut self, tree: usize) -> Result<(&mut TreeWriter, &mut FileWriter)> {
        let found = self.trees.get_mut(tree).ok_or_else(|| Error::not_found(format!("no tree {tree}")))?;
        Ok((found, &mut self.file))
    }
    /// Makes all full clusters part of the readable file.
    pub fn commit(&mut self) -> Result<()> {
        for tree in &mut self.trees {
            tree.save(&mut self.file)?;
        }
        self.file.commit()
    }
    /// Writes all that waits and makes it part of the readable file. An error comes after everything that could be
    /// saved is.
    pub fn close(&mut self) -> Result<()> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        let mut first = Ok(());
        for tree in &mut self.trees {
            let flushed = tree.flush(&mut self.file);
            first = first.and(flushed);
        }
        let committed = self.commit();
        self.file.release();
        first.and(committed)
    }
}

#[cfg(test)]
mod tests;
