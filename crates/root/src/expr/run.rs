//! Running programs over columns and tables, in parallel.

use super::fill::{Bins, Fill, Fills};
use super::value::{Value, View, counts};
use super::{Program, Rows};
use crate::array::{Column, Number};
use crate::error::{Error, Result};
use crate::read::{Carry, Part, read_with};
use arrow_buffer::Buffer;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sapwood_io::{PerProcess, Token, lock};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;

/// Approximate maximum of numbers of each column in a chunk: a few such arrays fit a second-level cache. As doubles, an
/// array stays well below 64 KB. Larger blocks would be separate mappings, each costing system calls and fresh pages
/// for every operation of a chunk.
const CELLS: usize = 6 << 10;
/// Minimum number of numbers of each column in a chunk.
const LEAST_CELLS: usize = 1 << 10;
/// Maximum number of values in all kept nodes of a chunk.
const KEPT_CELLS: usize = 1 << 18;
/// Approximate uncompressed bytes that a thread reads at once from remote files, where requests are expensive.
const STEP_BYTES: f64 = (8 << 20) as f64;
/// The same for local files: small enough for columns to stay in the processor's caches until they are used.
const NEAR_STEP_BYTES: f64 = (1 << 20) as f64;
/// Minimum uncompressed bytes that justify another thread.
const LEAST_BYTES: f64 = (1 << 20) as f64;
/// Clusters above this size are read in steps.
const MOST_BYTES: f64 = (64 << 20) as f64;

/// Minimum number of stretches for each thread, if there are enough clusters; short stretches avoid a long wait for the
/// last one.
const STRETCHES: usize = 4;

/// Minimum number of entries in a share of columns.
const SHARE: usize = 1 << 16;
/// Maximum number of shares of columns.
const MOST_SHARES: usize = 32;
/// Maximum number of bins for filling in shares.
const MOST_SHARED: usize = 1 << 14;

/// Columns prepared for a program.
struct Inputs<'a> {
    views: Vec<View<'a>>,
    length: usize,
    /// Number of entries in a chunk.
    chunk: usize,
}

impl<'a> Inputs<'a> {
    fn of(program: &Program, columns: &'a [Column], length: usize) -> Result<Self> {
        let mut known = Vec::new();
        let mut views = Vec::with_capacity(columns.len());
        for column in columns {
            if column.len() != length {
                return Err(Error::argument("the columns have different lengths"));
            }
            views.push(View::of(column, program.regular, &mut known)?);
        }
        let cells = columns.iter().map(cells).max().unwrap_or(0).max(length).max(1);
        let growth = program.growth(cells as f64 / length.max(1) as f64);
        let most = (KEPT_CELLS / program.kept().max(1)).clamp(LEAST_CELLS, CELLS) as f64 / growth;
        let least = if program.grows() { 1 } else { 64 };
        let chunk = ((most * length as f64 / cells as f64) as usize).max(least);
        Ok(Self { views, length, chunk })
    }
    /// Splits a range of entries into chunks.
    fn chunks(&self, start: usize, stop: usize) -> impl Iterator<Item = (usize, usize)> {
        let stop = stop.min(self.length);
        (start..stop).step_by(self.chunk).map(move |from| (from, stop.min(from + self.chunk)))
    }
}

/// Largest number of elements in any buffer of a column.
fn cells(column: &Column) -> usize {
    match column {
        Column::List { values, .. } | Column::FixedList { values, .. } => cells(values),
        Column::Record { fields, .. } => fields.iter().map(|(_, field)| cells(field)).max().unwrap_or(0),
        other => other.len(),
    }
}

/// A column that grows chunk by chunk.
struct Growing {
    number: Number,
    /// Offsets for each level of lists.
    offsets: Vec<Vec<i64>>,
    bytes: Vec<u8>,
}

impl Growing {
    fn like(value: &Value<'_>) -> Result<Self> {
        let (number, depth, optional) = value.type_of()?;
        if optional {
            return Err(Error::unsupported("the engine cannot make columns with missing values"));
        }
        Ok(Self { number, offsets: vec![vec![0]; depth], bytes: Vec::new() })
    }
    fn add(&mut self, value: &Value<'_>) -> Result<()> {
        let mut value = value;
        for level in &mut self.offsets {
            let Value::Lists(offsets, items) = value else { return Err(changed()) };
            let end = level.last().copied().unwrap_or(0);
            let base = offsets.first().copied().unwrap_or(0);
            level.extend(offsets.iter().skip(1).map(|offset| offset - base + end));
            value = items;
        }
        match value {
            Value::Numbers(numbers, None) if numbers.number() == self.number => {
                numbers.append_to(&mut self.bytes);
                Ok(())
            }
            _ => Err(changed()),
        }
    }
    fn join(&mut self, other: Self) {
        for (level, more) in self.offsets.iter_mut().zip(other.offsets) {
            let end = level.last().copied().unwrap_or(0);
            level.extend(more.into_iter().skip(1).map(|offset| offset + end));
        }
        self.bytes.extend(other.bytes);
    }
    fn column(self) -> Column {
        let values = Column::Number { number: self.number, values: aligned(self.number, &self.bytes) };
        self.offsets.into_iter().rev().fold(values, |values, offsets| Column::List {
            offsets: Buffer::from_vec(offsets),
            values: Box::new(values),
        })
    }
}

fn changed() -> Error {
    Error::unsupported("the type of an expression differs between chunks")
}

/// Copies bytes to an address aligned for their numbers.
fn aligned(number: Number, bytes: &[u8]) -> Buffer {
    debug_assert!(bytes.len().is_multiple_of(number.size()));
    Buffer::from_slice_ref(bytes)
}

/// Computes columns of `kept` nodes from columns of `length` entries.
pub fn columns(
    pool: &ThreadPool,
    program: &Program,
    kept: &[usize],
    columns: &[Column],
    length: usize,
) -> Result<Vec<Column>> {
    let inputs = Inputs::of(program, columns, length)?;
    let run = |start: usize, stop: usize| -> Result<Vec<Growing>> {
        let mut found: Vec<Growing> = Vec::new();
        // The first chunk, even an empty one, determines the types.
        for (from, to) in std::iter::once((start, start)).chain(inputs.chunks(start, stop)) {
            let mut values = Vec::new();
            program.evaluate(&inputs.views, &Rows::of(from, to), None, &mut values)?;
            for (place, &node) in kept.iter().enumerate() {
                let value = value_of(&values, node)?;
                match found.get_mut(place) {
                    Some(column) => column.add(value)?,
                    None => found.push(Growing::like(value)?),
                }
            }
        }
        Ok(found)
    };
    let parts = pool.current_num_threads().min(length / (2 * inputs.chunk)).max(1);
    let found: Vec<Vec<Growing>> = if parts == 1 {
        vec![run(0, length)?]
    } else {
        let each = length.div_ceil(parts);
        pool.install(|| {
            (0..parts).into_par_iter().map(|part| run(part * each, (part + 1) * each)).collect::<Result<_>>()
        })?
    };
    let mut found = found.into_iter();
    let mut whole = found.next().unwrap_or_default();
    for more in found {
        whole.iter_mut().zip(more).for_each(|(column, more)| column.join(more));
    }
    Ok(whole.into_iter().map(Growing::column).collect())
}

fn value_of<'v, 'a>(values: &'v [Option<Value<'a>>], node: usize) -> Result<&'v Value<'a>> {
    values
        .get(node)
        .and_then(Option::as_ref)
        .ok_or_else(|| Error::argument("a value of the program is missing"))
}

/// Fills histograms from columns with a program: on this thread, or on those of a pool. The bins are equal, to the last
/// bit, for any number of threads.
pub fn fill_columns(
    pool: Option<&ThreadPool>,
    program: &Program,
    fills: &[Fill],
    columns: &[Column],
    length: usize,
) -> Result<Vec<Bins>> {
    let inputs = Inputs::of(program, columns, length)?;
    let (conditions, fills) = (Conditions::of(program, fills), Fills::of(fills));
    let mut bins = fills.empty()?;
    match pool {
        Some(pool) => {
            let size: usize = bins.iter().map(|bins| bins.sums.len()).sum();
            // The number of shares must not depend on the number of threads: sums of weights would differ.
            let shares = if size > MOST_SHARED { 1 } else { (length / SHARE).clamp(1, MOST_SHARES) };
            fill_shared(pool, shares, program, &conditions, &fills, &inputs, &mut bins)?;
        }
        None => fill_inputs(program, &conditions, &fills, &inputs, 0, length, &mut bins)?,
    }
    Ok(bins)
}

/// Fills histograms on the threads of a pool. Each thread takes shares of the entries; the bins of the shares are
/// joined in order.
fn fill_shared(
    pool: &ThreadPool,
    shares: usize,
    program: &Program,
    conditions: &Conditions,
    fills: &Fills<'_>,
    inputs: &Inputs<'_>,
    whole: &mut [Bins],
) -> Result<()> {
    let length = inputs.length;
    if shares == 1 {
        return fill_inputs(program, conditions, fills, inputs, 0, length, whole);
    }
    let each = length.div_ceil(shares);
    let share = |share: usize| {
        let mut bins = fills.empty()?;
        fill_inputs(program, conditions, fills, inputs, share * each, (share + 1) * each, &mut bins)?;
        Ok(bins)
    };
    let found: Vec<Vec<Bins>> =
        pool.install(|| (0..shares).into_par_iter().map(share).collect::<Result<_>>())?;
    join(whole, &found);
    Ok(())
}

/// A condition common to all histograms.
struct Condition {
    node: usize,
    /// The nodes to compute for it.
    needed: Vec<bool>,
    /// Maximum passing fraction of entries for which removing the others pays off.
    most: f64,
}

/// Conditions common to all histograms.
struct Conditions {
    /// Columns of lists with the minimum number of items of an entry, and the nodes to compute for them.
    items: Vec<(usize, usize, Vec<bool>)>,
    /// Other conditions, cheapest first.
    others: Vec<Condition>,
}

/// Cost of removing entries, as a fraction of all work.
const LEAVING_OUT: f64 = 0.15;
/// Maximum fraction of entries with enough items for which removing the others pays off. These entries have most of the
/// items.
const MOST_WITH_ITEMS: f64 = 0.5;

impl Conditions {
    fn of(program: &Program, fills: &[Fill]) -> Self {
        let mut shared: Option<Vec<usize>> = None;
        for fill in fills {
            let mut own = Vec::new();
            fill.select.into_iter().for_each(|select| program.conditions_of(select, &mut own));
            shared = Some(shared.map_or(own.clone(), |mut shared| {
                shared.retain(|node| own.contains(node));
                shared
            }));
        }
        let nodes = |fill: &Fill| -> Vec<usize> {
            let axes = fill.axes.iter().map(|(_, node)| *node);
            axes.chain(fill.select).chain(fill.weight).chain(fill.sample).collect()
        };
        let (_, all) = program.needed(&fills.iter().flat_map(nodes).collect::<Vec<_>>());
        let condition = |node: usize| {
            let (needed, work) = program.needed(&[node]);
            let most = 1.0 - f64::from(work) / f64::from(all.max(1)) - LEAVING_OUT;
            (most > 0.0).then_some(Condition { node, needed, most })
        };
        let mut found: Vec<Condition> =
            shared.unwrap_or_default().into_iter().filter_map(condition).collect();
        found.sort_by(|one, other| other.most.total_cmp(&one.most));
        Self { items: Self::items_of(program, fills), others: found }
    }

    fn items_of(program: &Program, fills: &[Fill]) -> Vec<(usize, usize, Vec<bool>)> {
        let mut shared: Option<Vec<(usize, usize)>> = None;
        for fill in fills {
            let mut nodes: Vec<usize> = fill.axes.iter().map(|(_, node)| *node).collect();
            fill.select.into_iter().for_each(|select| program.conditions_of(select, &mut nodes));
            let own: Vec<_> = nodes.into_iter().flat_map(|node| program.needed_items(node)).collect();
            let most = |column: usize| {
                own.iter().filter(|(other, _)| *other == column).map(|(_, items)| *items).max()
            };
            shared = Some(match shared {
                None => own,
                Some(before) => {
                    let both = before.into_iter();
                    both.filter_map(|(column, items)| Some((column, items.min(most(column)?)))).collect()
                }
            });
        }
        let mut found = shared.unwrap_or_default();
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|(column, items)| (column, items, program.needed(&[column]).0)).collect()
    }

    /// Returns the entries of a chunk that can fill anything, judging by the lengths of lists.
    fn with_items<'a>(&self, program: &Program, views: &'a [View<'a>], rows: Rows) -> Result<Rows> {
        for (column, least, needed) in &self.items {
            let mut values = Vec::new();
            program.evaluate(views, &rows, Some(needed), &mut values)?;
            let Value::Lists(offsets, _) = value_of(&values, *column)? else { continue };
            let enough: Vec<u8> = counts(offsets).map(|items| u8::from(items >= *least)).collect();
            let passing = rows.where_true(&enough);
            let is_worth = passing.len() as f64 <= MOST_WITH_ITEMS * rows.len() as f64;
            return Ok(if is_worth { passing } else { rows });
        }
        Ok(rows)
    }
}

fn fill_inputs(
    program: &Program,
    conditions: &Conditions,
    fills: &Fills<'_>,
    inputs: &Inputs<'_>,
    start: usize,
    stop: usize,
    bins: &mut [Bins],
) -> Result<()> {
    // An operation that the types do not have is an error, whichever entries pass the conditions before it.
    program.evaluate(&inputs.views, &Rows::of(start, start), None, &mut Vec::new())?;
    for (from, to) in inputs.chunks(start, stop) {
        let mut rows = conditions.with_items(program, &inputs.views, Rows::of(from, to))?;
        let mut values = Vec::new();
        for Condition { node, needed, most } in &conditions.others {
            program.evaluate(&inputs.views, &rows, Some(needed), &mut values)?;
            let Value::Numbers(numbers, there) = value_of(&values, *node)? else { continue };
            if numbers.len() != rows.len() || there.is_some() {
                continue;
            }
            let passing = rows.where_true(&numbers.truths());
            if passing.len() as f64 <= most * rows.len() as f64 {
                rows = passing;
                values.clear();
            }
        }
        if rows.len() > 0 {
            program.evaluate(&inputs.views, &rows, None, &mut values)?;
            fills.fill(bins, rows.len(), |node| value_of(&values, node))?;
        }
    }
    Ok(())
}

/// Entries that one thread reads and computes.
#[derive(Clone, Copy)]
struct Stretch {
    part: usize,
    start: u64,
    stop: u64,
    /// Number of steps.
    steps: u64,
}

/// Groups whole clusters into stretches of about `most` bytes.
fn stretches(parts: &[Part<'_>], most: f64) -> Vec<Stretch> {
    let mut found = Vec::new();
    for (part, of) in parts.iter().enumerate() {
        let bytes = |start: u64, stop: u64| of.table.bytes_between(of.fields, start, stop);
        let mut start = of.start;
        let borders = of.table.cluster_borders();
        let mut ends =
            borders.into_iter().filter(|&end| end > of.start && end < of.stop).chain([of.stop]).peekable();
        while let Some(end) = ends.next() {
            let next = ends.peek().copied();
            if next.is_some_and(|next| bytes(start, next) <= most) || end <= start {
                continue;
            }
            let steps = (bytes(start, end) / MOST_BYTES).ceil().clamp(1.0, (end - start) as f64) as u64;
            found.push(Stretch { part, start, stop: end, steps });
            start = end;
        }
    }
    found
}

/// Fills histograms from the fields of tables with a program. Each thread reads whole clusters, computes, and fills
/// bins of its own, which are joined at the end. If there are too few clusters, all threads share each cluster.
///
/// Must not be called on a thread of `pool`.
pub fn fill_tables(
    pool: &ThreadPool,
    parts: &[Part<'_>],
    program: &Program,
    fills: &[Fill],
) -> Result<Vec<Bins>> {
    let conditions = &Conditions::of(program, fills);
    let fills = &Fills::of(fills);
    let mut whole = fills.empty()?;
    let near = parts.iter().all(|part| part.table.source().is_near());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let bytes: f64 =
        parts.iter().map(|part| part.table.bytes_between(part.fields, part.start, part.stop)).sum();
    let worth = (bytes / LEAST_BYTES).clamp(1.0, 1e6) as usize;
    let threads = pool.current_num_threads().min(if near { cores.min(worth) } else { usize::MAX });
    let most = if near { NEAR_STEP_BYTES } else { STEP_BYTES };
    let most = if threads == 1 { most } else { most.min(bytes / (STRETCHES * threads) as f64) };
    let stretches = stretches(parts, most);
    if threads == 1 || stretches.len() < 2 * threads {
        let mut all = || {
            stretches.iter().try_for_each(|stretch| {
                steps(parts, *stretch, pool, |columns, length| {
                    let inputs = Inputs::of(program, columns, length)?;
                    let shares = threads.min(length / (2 * inputs.chunk)).max(1);
                    fill_shared(pool, shares, program, conditions, fills, &inputs, &mut whole)
                })
            })
        };
        // The same thread reads and computes, so that the data are in its caches.
        if near && threads == 1 { pool.install(all) } else { all() }?;
        return Ok(whole);
    }
    let (next, failed, token) = (AtomicUsize::new(0), AtomicBool::new(false), Token::current());
    let work = |own: &ThreadPool| -> Result<Vec<Bins>> {
        let mut bins = fills.empty()?;
        while !failed.load(Ordering::Relaxed) {
            let Some(stretch) = stretches.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let done = steps(parts, *stretch, own, |columns, length| {
                let inputs = Inputs::of(program, columns, length)?;
                fill_inputs(program, conditions, fills, &inputs, 0, length, &mut bins)
            });
            if let Err(error) = done {
                failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(bins)
    };
    let worker = || -> Result<Vec<Bins>> {
        let own = OwnPool::take()?;
        let Some(own) = &own.0 else { return Err(Error::argument("the thread pool has no threads")) };
        let run = || token.during(|| work(own));
        // Waits for storage happen outside the pool.
        if near { own.install(run) } else { run() }
    };
    let found: Vec<Result<Vec<Bins>>> = thread::scope(|scope| {
        // If no further thread can be started, those that were work alone.
        let start = |_| thread::Builder::new().spawn_scoped(scope, worker).ok();
        let others: Vec<_> = (1..threads).map_while(start).collect();
        let mine = worker();
        std::iter::once(mine)
            .chain(others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic))))
            .collect()
    });
    join(&mut whole, &found.into_iter().collect::<Result<Vec<_>>>()?);
    Ok(whole)
}

/// A pool of one thread, kept for reuse: starting a thread takes as long as reading 100 kB.
struct OwnPool(Option<ThreadPool>);

/// Maximum number of pools kept.
const MOST_POOLS: usize = 64;

impl OwnPool {
    fn kept() -> MutexGuard<'static, Vec<ThreadPool>> {
        static POOLS: PerProcess<Mutex<Vec<ThreadPool>>> = PerProcess::empty();
        lock(POOLS.get(|_| Mutex::default()))
    }
    fn take() -> Result<Self> {
        let kept = Self::kept().pop();
        let made = kept.map_or_else(|| ThreadPoolBuilder::new().num_threads(1).build(), Ok);
        made.map(|pool| Self(Some(pool)))
            .map_err(|error| Error::limit(format!("cannot start a thread: {error}")))
    }
}

impl Drop for OwnPool {
    fn drop(&mut self) {
        let mut kept = Self::kept();
        if kept.len() < MOST_POOLS {
            kept.extend(self.0.take());
        }
    }
}

fn join(whole: &mut [Bins], found: &[Vec<Bins>]) {
    for bins in found {
        whole.iter_mut().zip(bins).for_each(|(mine, more)| mine.join(more));
    }
}

/// Reads a stretch step by step; no page is read twice.
fn steps(
    parts: &[Part<'_>],
    stretch: Stretch,
    pool: &ThreadPool,
    mut work: impl FnMut(&[Column], usize) -> Result<()>,
) -> Result<()> {
    let Some(part) = parts.get(stretch.part) else { return Ok(()) };
    let carry = (stretch.steps > 1).then(|| Carry::new(MOST_BYTES as usize));
    let entries = (stretch.stop - stretch.start).div_ceil(stretch.steps);
    let mut start = stretch.start;
    while start < stretch.stop {
        let stop = stretch.stop.min(start + entries);
        let columns = read_with(pool, &[Part { start, stop, ..*part }], carry.as_ref(), None)?;
        work(
            &columns,
            usize::try_from(stop - start)
                .map_err(|_| Error::limit("a step has too many entries for this machine"))?,
        )?;
        start = stop;
    }
    Ok(())
}

/// Returns the result types of nodes, whether they are in lists, and whether values may be missing. They are found by
/// computing zero entries.
pub fn types(
    program: &Program,
    kept: &[usize],
    columns: &[Column],
    length: usize,
) -> Result<Vec<(Number, usize, bool)>> {
    let inputs = Inputs::of(program, columns, length)?;
    let mut values = Vec::new();
    program.evaluate(&inputs.views, &Rows::of(0, 0), None, &mut values)?;
    kept.iter().map(|&node| value_of(&values, node)?.type_of()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Constant;
    use crate::expr::fill::{Axis, Edges, Storage};
    use crate::expr::{Binary, Node, Op, Reduction};

    fn node(op: Op, args: &[usize]) -> Node {
        Node { op, args: args.to_vec() }
    }
    fn jets() -> Column {
        let values = Column::Number {
            number: Number::F32,
            values: Buffer::from_vec(vec![50f32, 45.0, 10.0, 60.0, 30.0]),
        };
        Column::List { offsets: Buffer::from_vec(vec![0i64, 3, 3, 5]), values: Box::new(values) }
    }
    fn above_forty() -> Vec<Node> {
        vec![
            node(Op::Input(0, Vec::new()), &[]),
            node(Op::Constant(Constant::Int(40)), &[]),
            node(Op::Binary(Binary::Greater), &[0, 1]),
            node(Op::Reduce(Reduction::Sum), &[2]),
        ]
    }

    #[test]
    fn items_of_lists_are_counted() {
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let program = Program::new(above_forty(), &[3], false).unwrap();
        let found = columns(&pool, &program, &[3], &[jets()], 3).unwrap();
        let [Column::Number { number: Number::I64, values }] = &found[..] else { unreachable!() };
        assert_eq!(values.typed_data::<i64>(), [2, 0, 1]);
    }

    #[test]
    fn lists_of_other_lengths_are_refused() {
        let nodes = vec![
            node(Op::Input(0, Vec::new()), &[]),
            node(Op::Input(1, Vec::new()), &[]),
            node(Op::Binary(Binary::Add), &[0, 1]),
        ];
        let mut other = jets();
        if let Column::List { offsets, .. } = &mut other {
            *offsets = Buffer::from_vec(vec![0i64, 2, 3, 5]);
        }
        let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let program = Program::new(nodes, &[2], false).unwrap();
        assert!(columns(&pool, &program, &[2], &[jets(), other], 3).is_err());
    }

    #[test]
    fn bins_have_flow_and_joined_means_are_those_of_all() {
        let axis = Axis { edges: Edges::Regular { bins: 2, low: 0.0, high: 50.0 }, under: true, over: true };
        let fill = Fill {
            axes: vec![(axis, 0)],
            select: None,
            weight: None,
            sample: Some(0),
            storage: Storage::Mean,
        };
        let program = Program::new(above_forty(), &[0], false).unwrap();
        let bins = fill_columns(None, &program, std::slice::from_ref(&fill), &[jets()], 3).unwrap();
        let mut bins = bins.into_iter().next().unwrap();
        assert_eq!(bins.sums, [0.0, 1.0, 2.0, 2.0]);
        assert_eq!(bins.squares, [0.0, 10.0, 37.5, 55.0]);
        let half = bins.clone();
        bins.join(&half);
        assert_eq!((bins.sums[3], bins.squares[3], bins.deviations[3]), (4.0, 55.0, 100.0));
    }
}
