//! Expressions over columns, computed natively in chunks of entries that fit the processor's caches.
//!
//! ```text
//!   Python: text ──▶ syntax tree ──▶ nodes ──▶ [`Program`] ──▶ chunks of columns ──▶ columns, bins of histograms
//! ```
//!
//! A program is a list of nodes. Each node computes one operation for a whole chunk, with a loop over arrays of one
//! type (`math`, `lists`). Common subexpressions share one node. Result types follow `NumPy`. An operation that is not
//! supported here returns an error of the kind *unsupported*, and the caller computes it elsewhere.

pub mod corrections;
pub mod fill;
mod lists;
mod math;
mod near;
mod run;
mod trigonometry;
mod value;

pub use lists::{Quantity, Reduction};
pub use math::{Binary, Unary};
pub use near::Test;
pub use run::{columns, fill_columns, fill_tables, types};
pub use trigonometry::Function as Angular;
pub use value::Constant;

use crate::error::{Error, Result};
use corrections::Correction;
use std::sync::Arc;
use value::{KnownEnds, Value, View};

/// The operation of a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// A column; for records, the field at a path.
    Input(usize, Vec<String>),
    /// A constant of the expression.
    Constant(Constant),
    /// An operation with one operand.
    Unary(Unary),
    /// An operation with two operands.
    Binary(Binary),
    /// The first of two values if a condition is true, otherwise the second.
    Where,
    /// One number for each innermost list.
    Reduce(Reduction),
    /// Sums of the items selected by bools: a filter and a reduction in one.
    SumWhere,
    /// Lengths of lists.
    Count,
    /// First items of lists.
    First,
    /// Places that sort the items in ascending order.
    Argsort,
    /// Items of lists at given places.
    Take,
    /// One item of each list.
    At,
    /// Items selected by bools.
    Filter,
    /// A slice of each list.
    Slice(Option<i64>, Option<i64>, i64),
    /// The item of each list at a fixed place.
    Index(i64),
    /// Places of one member in all combinations of some items of each list: number of items, member.
    Combinations(usize, usize),
    /// Sums of the members of all combinations of two or three items of each list.
    CombinationSums(usize),
    /// A quantity of the four-vector sums in all combinations of two or three items of each list.
    CombinationVectors(usize, Quantity),
    /// One member in all combinations of some items, for lists with the lengths of other lists: number of items,
    /// member.
    CombinationItems(usize, usize),
    /// Like [`Op::CombinationVectors`], for one combination of each list at a given place.
    CombinationVectorAt(usize, Quantity),
    /// Places of one member in the Cartesian product of lists: member.
    Cartesian(usize),
    /// The same for two lists, with an inner list for each item of the first: member.
    Nested(usize),
    /// Items of such inner lists: member.
    NestedItems(usize),
    /// Distances of each item of a list to the items of another.
    NestedDistances,
    /// Whether the distances of an item to the items of another list pass a test. With a condition, only some items are
    /// tested.
    NestedTest(Test),
    /// A correction with several inputs.
    Correct(Arc<Correction>),
    /// A component of vectors in double precision: magnitude times a function of an angle.
    Component(Angular),
    /// Energies of vectors from mass and components.
    Energy,
    /// The place of each item in its list.
    LocalIndex,
    /// Items of several lists in one list.
    Concatenate,
    /// A constant in place of missing values.
    FillNone(Constant),
}

/// One operation with its arguments.
#[derive(Debug, Clone)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Indices of earlier nodes.
    pub args: Vec<usize>,
}

/// A program that is ready to be computed.
#[derive(Debug, Clone)]
pub struct Program {
    nodes: Vec<Node>,
    /// The last node that uses each node.
    last_use: Vec<usize>,
    /// Whether lists of fixed size are treated like other lists.
    regular: bool,
}

/// Maximum number of nodes in a program.
const MOST_NODES: usize = 1 << 16;
/// Maximum factor by which chunks shrink to make room for combinations.
const MOST_GROWTH: f64 = 256.0;

impl Program {
    /// Creates a program from nodes. `kept` are the nodes whose values are requested. `regular`: lists of fixed size
    /// are treated as lists.
    pub fn new(mut nodes: Vec<Node>, kept: &[usize], regular: bool) -> Result<Self> {
        if nodes.len() > MOST_NODES {
            return Err(Error::limit(format!(
                "the expressions have {} operations; the limit is {MOST_NODES}",
                nodes.len()
            )));
        }
        join(&mut nodes, kept);
        let mut last_use = vec![0; nodes.len()];
        for (number, node) in nodes.iter().enumerate() {
            for &arg in &node.args {
                match last_use.get_mut(arg).filter(|_| arg < number) {
                    Some(slot) => *slot = number,
                    None => return Err(Error::argument("a node of the program refers to a later node")),
                }
            }
        }
        for &node in kept {
            match last_use.get_mut(node) {
                Some(slot) => *slot = usize::MAX,
                None => return Err(Error::argument("a kept node is not in the program")),
            }
        }
        Ok(Self { nodes, last_use, regular })
    }

    /// Number of requested nodes.
    fn kept(&self) -> usize {
        self.last_use.iter().filter(|&&last| last == usize::MAX).count()
    }

    /// Estimated size of the values relative to the columns, for lists with `mean` items. Combinations are more
    /// numerous than the items; the estimate assumes Poisson-distributed list lengths.
    fn growth(&self, mean: f64) -> f64 {
        let times = self.nodes.iter().map(|node| match Self::members(&node.op) {
            0 | 1 => 1.0,
            2 => mean / 2.0,
            // Used for larger combinations, too, because their number is not known.
            _ => mean * mean / 6.0,
        });
        let pairs = self.nodes.iter().any(Node::is_product);
        times.fold(if pairs { mean } else { 1.0 }, f64::max).clamp(1.0, MOST_GROWTH)
    }

    /// Whether there may be more values than items.
    fn grows(&self) -> bool {
        self.nodes.iter().any(|node| node.is_product() || Self::members(&node.op) > 0)
    }

    /// Number of items that an operation combines.
    const fn members(op: &Op) -> usize {
        match op {
            Op::Combinations(n, _)
            | Op::CombinationItems(n, _)
            | Op::CombinationSums(n)
            | Op::CombinationVectors(n, _) => *n,
            _ => 0,
        }
    }

    /// Computes nodes for some entries: the `needed` nodes that are not known yet, or all. Values that are not
    /// requested are dropped on the way.
    fn evaluate<'a>(
        &self,
        views: &'a [View<'a>],
        rows: &Rows,
        needed: Option<&[bool]>,
        values: &mut Vec<Option<Value<'a>>>,
    ) -> Result<()> {
        values.resize_with(self.nodes.len(), || None);
        for (number, node) in self.nodes.iter().enumerate() {
            let known = values.get(number).is_some_and(Option::is_some);
            if known || needed.is_some_and(|needed| needed.get(number) != Some(&true)) {
                continue;
            }
            let value = {
                let mut args: Vec<&Value<'a>> = Vec::with_capacity(node.args.len());
                for &arg in &node.args {
                    args.push(
                        values
                            .get(arg)
                            .and_then(Option::as_ref)
                            .ok_or_else(|| Error::argument("a value of the program is missing"))?,
                    );
                }
                node.compute(views, &args, rows)?
            };
            if let Some(slot) = values.get_mut(number) {
                *slot = Some(value);
            }
            for &arg in &node.args {
                if needed.is_none()
                    && self.last_use.get(arg) == Some(&number)
                    && let Some(slot) = values.get_mut(arg)
                {
                    *slot = None;
                }
            }
        }
        Ok(())
    }

    /// Returns the nodes that must be computed for some nodes, and an estimate of their work.
    fn needed(&self, nodes: &[usize]) -> (Vec<bool>, u32) {
        let mut needed = vec![false; self.nodes.len()];
        for &node in nodes {
            if let Some(slot) = needed.get_mut(node) {
                *slot = true;
            }
        }
        let mut work = 0;
        for (number, node) in self.nodes.iter().enumerate().rev() {
            if needed.get(number) == Some(&true) {
                work += node.work();
                for &arg in &node.args {
                    if let Some(slot) = needed.get_mut(arg) {
                        *slot = true;
                    }
                }
            }
        }
        (needed, work)
    }

    /// Collects the conditions that must all be true where a node is true.
    fn conditions_of(&self, node: usize, found: &mut Vec<usize>) {
        let mut open = vec![node];
        while let Some(number) = open.pop() {
            match self.nodes.get(number) {
                Some(Node { op: Op::Binary(Binary::And | Binary::LogicalAnd), args }) => open.extend(args),
                _ => found.push(number),
            }
        }
    }

    /// Returns columns of lists with the minimum number of items that an entry needs to have a value at a node. These
    /// are columns for which the node has a value for each combination, or is true if any combination is.
    fn needed_items(&self, node: usize) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut open = match self.nodes.get(node) {
            Some(Node { op: Op::Reduce(Reduction::Any), args }) => args.clone(),
            _ => vec![node],
        };
        while let Some(Node { op, args }) = open.pop().and_then(|number| self.nodes.get(number)) {
            match op {
                Op::CombinationItems(n, _) | Op::CombinationVectors(n, _) | Op::CombinationSums(n) => {
                    for &arg in args {
                        self.columns_of(arg).into_iter().for_each(|column| found.push((column, *n)));
                    }
                }
                Op::Filter => open.extend(args.first()),
                Op::Unary(_) | Op::Binary(_) => open.extend(args),
                _ => {}
            }
        }
        found
    }

    /// Returns the columns of lists that are at least as long as the lists of a node.
    fn columns_of(&self, node: usize) -> Vec<usize> {
        let (mut found, mut open) = (Vec::new(), vec![node]);
        while let Some(number) = open.pop() {
            match self.nodes.get(number) {
                Some(Node { op: Op::Input(..), .. }) => found.push(number),
                Some(Node { op: Op::Filter, args }) => open.extend(args.first()),
                Some(Node { op: Op::Unary(_) | Op::Binary(_) | Op::Component(_) | Op::Energy, args }) => {
                    open.extend(args);
                }
                _ => {}
            }
        }
        found
    }
}

/// Makes one operation of two where nothing else uses the first.
fn join(nodes: &mut [Node], kept: &[usize]) {
    let mut uses = vec![0usize; nodes.len()];
    for &used in nodes.iter().flat_map(|node| &node.args).chain(kept) {
        if let Some(count) = uses.get_mut(used) {
            *count += 1;
        }
    }
    for number in 0..nodes.len() {
        let (before, rest) = nodes.split_at_mut(number);
        let Some(node) = rest.first_mut() else { break };
        let [arg] = *node.args else { continue };
        let Some(first) = before.get_mut(arg).filter(|_| uses.get(arg) == Some(&1)) else { continue };
        let joined = match (&node.op, &first.op) {
            (Op::Reduce(Reduction::Sum), Op::Filter) => Op::SumWhere,
            (Op::Unary(Unary::Absolute), Op::Binary(Binary::Subtract)) => Op::Binary(Binary::Apart),
            _ => continue,
        };
        *node = Node { op: joined, args: std::mem::take(&mut first.args) };
        first.op = Op::Constant(Constant::Int(0));
    }
}

/// The entries for which a program is computed: a range, or some entries of it.
struct Rows {
    start: usize,
    stop: usize,
    /// Indices counted from the start, or `None` for all.
    chosen: Option<Vec<usize>>,
    /// Known offsets of the lists of these entries.
    ends: KnownEnds,
}

impl Rows {
    fn of(start: usize, stop: usize) -> Self {
        Self { start, stop, chosen: None, ends: KnownEnds::default() }
    }
    fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.stop - self.start, Vec::len)
    }
    /// Returns those of the entries for which a value is true.
    fn where_true(&self, truths: &[u8]) -> Self {
        let mut chosen = vec![0; self.len()];
        let mut found = 0;
        for (place, &truth) in truths.iter().enumerate() {
            if let Some(slot) = chosen.get_mut(found) {
                *slot = self.chosen.as_ref().map_or(place, |old| old.get(place).copied().unwrap_or_default());
            }
            found += usize::from(truth != 0);
        }
        chosen.truncate(found);
        Self { chosen: Some(chosen), ends: KnownEnds::default(), ..*self }
    }
}

impl Node {
    /// Whether it makes pairs of items from two lists.
    const fn is_product(&self) -> bool {
        matches!(self.op, Op::Cartesian(_) | Op::Nested(_) | Op::NestedItems(_) | Op::NestedDistances)
    }

    /// Relative cost of the operation.
    const fn work(&self) -> u32 {
        match self.op {
            Op::Input(..) | Op::Constant(_) => 0,
            Op::CombinationVectors(..)
            | Op::CombinationSums(_)
            | Op::NestedDistances
            | Op::NestedTest(_)
            | Op::Correct(_) => 8,
            Op::Combinations(..)
            | Op::Cartesian(_)
            | Op::CombinationItems(..)
            | Op::Argsort
            | Op::Component(_)
            | Op::Energy => 4,
            Op::Nested(_)
            | Op::NestedItems(_)
            | Op::Unary(_)
            | Op::Take
            | Op::Filter
            | Op::SumWhere
            | Op::Concatenate => 2,
            _ => 1,
        }
    }

    fn compute<'a>(&self, views: &'a [View<'a>], args: &[&Value<'a>], rows: &Rows) -> Result<Value<'a>> {
        match (&self.op, args) {
            (Op::Input(column, path), []) => {
                let view = views
                    .get(*column)
                    .ok_or_else(|| Error::argument("a column of the program is missing"))?;
                let value = view.slice(path, rows.start, rows.stop)?;
                Ok(match &rows.chosen {
                    Some(chosen) => value.gather_knowing(chosen, &rows.ends),
                    None => value,
                })
            }
            (Op::Constant(value), []) => Ok(Value::Constant(*value)),
            (Op::Unary(what), [of]) => math::unary(*what, of),
            (Op::Binary(what), [left, right]) => math::binary(*what, left, right),
            (Op::Where, [condition, yes, no]) => math::choose(condition, yes, no),
            (Op::Reduce(what), [of]) => lists::reduce(*what, of),
            (Op::SumWhere, [of, mask]) => lists::sum_where(of, mask),
            (Op::Count, [of]) => lists::count(of),
            (Op::First, [of]) => lists::first(of),
            (Op::Argsort, [of]) => lists::argsort(of),
            (Op::Take, [of, places]) => lists::take(of, places),
            (Op::At, [of, places]) => lists::at(of, places),
            (Op::Filter, [of, mask]) => lists::filter(of, mask),
            (Op::Slice(start, stop, step), [of]) => lists::slice(of, *start, *stop, *step),
            (Op::Index(place), [of]) => lists::index(of, *place),
            (Op::Combinations(n, k), [of]) => lists::combinations(of, *n, *k),
            (Op::CombinationSums(n), [of]) => lists::combination_sums(of, *n),
            (Op::CombinationVectors(n, what), parts) => lists::combination_vectors(parts, *n, *what),
            (Op::CombinationItems(n, k), [items, of]) => lists::combination_items(items, of, *n, *k),
            (Op::CombinationVectorAt(n, what), parts) => lists::combination_vector_at(parts, *n, *what),
            (Op::NestedItems(k), [items, first, second]) => lists::nested_items(items, first, second, *k),
            (Op::NestedDistances, parts) => lists::nested_distances(parts),
            (Op::NestedTest(test), [parts @ .., condition]) if parts.len() == 4 => {
                test.where_true(parts, condition)
            }
            (Op::NestedTest(test), parts) => test.compute(parts, None),
            (Op::Cartesian(k), values) => lists::cartesian(values, *k),
            (Op::Nested(k), [first, second]) => lists::nested(first, second, *k),
            (Op::Correct(correction), inputs) => correction.evaluate(inputs),
            (Op::Component(what), [size, angle]) => math::component(*what, size, angle),
            (Op::Energy, parts) => math::energy(parts),
            (Op::LocalIndex, [of]) => lists::local_index(of),
            (Op::Concatenate, values) => lists::concatenate(values),
            (Op::FillNone(with), [of]) => lists::fill_none(of, *with),
            _ => Err(Error::argument("an operation has the wrong number of arguments")),
        }
    }
}
