//! Elements that are counted, but not there.

use super::{Column, Framing, Job, Part, Place, Reader, read, words};
use crate::error::{Error, Result};

/// A basket without bytes, whose elements another branch counts.
struct Empty<'a> {
    job: &'a Job,
    part: &'a Part<'a>,
    branch: usize,
    counter: usize,
    /// Its first entry in the columns that were read.
    entry: usize,
    /// Its first entry in the tree.
    first: u64,
}

impl Empty<'_> {
    fn entries(&self) -> usize {
        self.job.to - self.job.from
    }
}

/// Fails where baskets hold no bytes, but the branch that counts their elements says that there are some.
pub fn verify(reader: &Reader<'_>, jobs: &[Job], columns: &[Column]) -> Result<()> {
    let mut empty = empty(reader, jobs, columns);
    empty.sort_by_key(|one| (one.job.part, one.counter));
    for together in empty.chunk_by(|a, b| (a.job.part, a.counter) == (b.job.part, b.counter)) {
        let Some(one) = together.first() else { continue };
        let Part { tree, branches, .. } = one.part;
        let known = branches.iter().position(|&branch| branch == one.counter);
        if let Some(counts) = known.and_then(|column| columns.get(column)) {
            check(together, counts, |one| one.entry)?;
            continue;
        }
        let start = together.iter().map(|one| one.first).min().unwrap_or(0);
        let stop = together.iter().map(|one| one.first + one.entries() as u64).max().unwrap_or(0);
        // What is wrong with a counter that was not asked for is no matter here.
        let counts =
            read(reader.pool, &[Part { tree, branches: &[one.counter], start, stop }]).unwrap_or_default();
        if let [counts] = counts.as_slice() {
            check(together, counts, |one| (one.first - start) as usize)?;
        }
    }
    Ok(())
}

fn empty<'a>(reader: &Reader<'a>, jobs: &'a [Job], columns: &[Column]) -> Vec<Empty<'a>> {
    let mut start = 0;
    let mut starts = Vec::with_capacity(reader.parts.len());
    for part in reader.parts {
        starts.push(start);
        start += part.stop - part.start;
    }
    let found = |job: &'a Job| {
        let Column::List { offsets, .. } = columns.get(job.column)? else { return None };
        let part = reader.parts.get(job.part)?;
        let branch = *part.branches.get(job.column)?;
        let described = part.tree.branches.get(branch)?;
        let basket = described.baskets.get(job.basket)?;
        let layout = reader.layouts.get(job.part)?.get(job.column)?;
        let elements = matches!(layout.framing, Framing::Column | Framing::Counted { skip: 0, .. })
            && layout.kind.least_bytes() > 0
            && !matches!(basket.place, Place::Nowhere);
        let counter = described.counter.filter(|_| elements)?;
        let first = basket.first + job.from as u64;
        let entry = (starts.get(job.part)? + (first - part.start)) as usize;
        let at = |entry: usize| offsets.get(entry * 8..entry * 8 + 8);
        (at(entry)? == at(entry + job.to - job.from)?).then_some(Empty {
            job,
            part,
            branch,
            counter,
            entry,
            first,
        })
    };
    jobs.iter().filter_map(found).collect()
}

fn check(empty: &[Empty<'_>], counts: &Column, place: impl Fn(&Empty<'_>) -> usize) -> Result<()> {
    let Column::Number { number, values } = counts else { return Ok(()) };
    let size = number.size();
    for one in empty {
        let from = place(one) * size;
        let some = values.get(from..from + one.entries() * size).unwrap_or_default();
        let elements = words(some, size).fold(0, u64::saturating_add);
        if elements == 0 {
            continue;
        }
        let tree = one.part.tree;
        let basket = tree.branches.get(one.branch).and_then(|branch| branch.baskets.get(one.job.basket));
        let seek = basket.map_or(0, super::super::Basket::seek);
        let message = format!(
            "basket {} (byte {seek}) holds no bytes, where its counter says {elements} elements",
            one.job.basket
        );
        let place = format!("branch {} of tree {} in {}", tree.path(one.branch), tree.name, tree.file.name());
        return Err(Error::unsupported(message).at(seek).within(place).of_column(one.job.column));
    }
    Ok(())
}
