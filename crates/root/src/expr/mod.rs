//! Expressions over columns, computed natively: a chunk of entries that fits the processor's caches at a time.
//!
//! ```text
//!   Python: text ──▶ syntax tree ──▶ nodes ──▶ [`Program`] ──▶ chunks of columns ──▶ columns, bins of histograms
//! ```
//!
//! A program is a list of nodes in order; each computes one operation for a whole chunk with a loop over arrays of one type
//! (`math`, `lists`). Common parts of expressions are one node. Types of results follow `NumPy`; what is
//! not computed here is an error of the kind *unsupported*, and the caller computes it elsewhere.

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

/// What a node computes of its arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// A column; of records the field that a path names.
    Input(usize, Vec<String>),
    /// A number of the expression.
    Constant(Constant),
    /// An operation of one operand.
    Unary(Unary),
    /// An operation of two operands.
    Binary(Binary),
    /// The first of two where a condition is true, else the second.
    Where,
    /// One number of each innermost list.
    Reduce(Reduction),
    /// Lengths of lists.
    Count,
    /// First items of lists.
    First,
    /// Places of items in ascending order.
    Argsort,
    /// Items of lists at places in them.
    Take,
    /// One item of each list.
    At,
    /// Items for which bools are true.
    Filter,
    /// A slice of each list.
    Slice(Option<i64>, Option<i64>, i64),
    /// The item of each list at one place.
    Index(i64),
    /// Places of a member of all combinations of some items of each list: how many, which.
    Combinations(usize, usize),
    /// Sums of the members of all combinations of two or three items of each list.
    CombinationSums(usize),
    /// A quantity of the sums of four-vectors in all combinations of two or three items of each list.
    CombinationVectors(usize, Quantity),
    /// A member of all combinations of some items of lists that are as long as others: how many, which.
    CombinationItems(usize, usize),
    /// The same as [`Op::CombinationVectors`] of one combination of each list, at a place.
    CombinationVectorAt(usize, Quantity),
    /// Places of a member in the Cartesian product of lists: which.
    Cartesian(usize),
    /// The same of two lists, with a list for each item of the first.
    Nested(usize),
    /// Items in these lists: which.
    NestedItems(usize),
    /// Distances of each item of a list to those of another.
    NestedDistances,
    /// Whether the distances of an item to those of another list pass a test; of some items only, if there is a condition.
    NestedTest(Test),
    /// A correction of several inputs.
    Correct(Arc<Correction>),
    /// A component of vectors in double precision: their size times a function of an angle.
    Component(Angular),
    /// Energies of vectors, of mass and components.
    Energy,
    /// The place of each item in its list.
    LocalIndex,
    /// Items of several lists in one.
    Concatenate,
    /// A constant in place of none.
    FillNone(Constant),
}

/// One operation, and the nodes that it takes.
#[derive(Debug, Clone)]
pub struct Node {
    /// The operation.
    pub op: Op,
    /// Numbers of earlier nodes.
    pub args: Vec<usize>,
}

/// Expressions, ready to be computed.
#[derive(Debug, Clone)]
pub struct Program {
    nodes: Vec<Node>,
    /// For each node the last one that takes it.
    last_use: Vec<usize>,
    /// Whether lists of one size are lists like others.
    regular: bool,
}

/// The most nodes of a program.
const MOST_NODES: usize = 1 << 16;
/// The most that chunks of entries become smaller for combinations.
const MOST_GROWTH: f64 = 256.0;

impl Program {
    /// A program of nodes. `kept` are those whose values are asked for. `regular`: lists of one size are taken as lists.
    pub fn new(nodes: Vec<Node>, kept: &[usize], regular: bool) -> Result<Self> {
        if nodes.len() > MOST_NODES {
            return Err(Error::limit(format!(
                "a program of {} operations; the limit is {MOST_NODES}",
                nodes.len()
            )));
        }
        let mut last_use = vec![0; nodes.len()];
        for (number, node) in nodes.iter().enumerate() {
            for &arg in &node.args {
                match last_use.get_mut(arg).filter(|_| arg < number) {
                    Some(slot) => *slot = number,
                    None => return Err(Error::argument("a node takes a later one")),
                }
            }
        }
        for &node in kept {
            match last_use.get_mut(node) {
                Some(slot) => *slot = usize::MAX,
                None => return Err(Error::argument("there is no such node")),
            }
        }
        Ok(Self { nodes, last_use, regular })
    }

    /// How many nodes are asked for.
    fn kept(&self) -> usize {
        self.last_use.iter().filter(|&&last| last == usize::MAX).count()
    }

    /// How many times as large as the columns values are, about, where lists have `mean` items: combinations are more
    /// than these, by as much as for lists whose lengths are distributed as Poisson's.
    fn growth(&self, mean: f64) -> f64 {
        let times = self.nodes.iter().map(|node| match Self::members(&node.op) {
            0 | 1 => 1.0,
            2 => mean / 2.0,
            // Also of more: their number is not known.
            _ => mean * mean / 6.0,
        });
        let pairs = self.nodes.iter().any(Node::is_product);
        times.fold(if pairs { mean } else { 1.0 }, f64::max).clamp(1.0, MOST_GROWTH)
    }

    /// Whether there may be more values than items.
    fn grows(&self) -> bool {
        self.nodes.iter().any(|node| node.is_product() || Self::members(&node.op) > 0)
    }

    /// Of how many items an operation makes combinations.
    const fn members(op: &Op) -> usize {
        match op {
            Op::Combinations(n, _)
            | Op::CombinationItems(n, _)
            | Op::CombinationSums(n)
            | Op::CombinationVectors(n, _) => *n,
            _ => 0,
        }
    }

    /// Computes nodes for some entries: those that are `needed` and not known yet, or else all. Of all nodes, values
    /// that are not asked for are dropped on the way.
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
                            .ok_or_else(|| Error::argument("no such value"))?,
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

    /// What must be computed for some nodes, and about how much work that is.
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

    /// The conditions that must all hold where a node is true.
    fn conditions_of(&self, node: usize, found: &mut Vec<usize>) {
        let mut open = vec![node];
        while let Some(number) = open.pop() {
            match self.nodes.get(number) {
                Some(Node { op: Op::Binary(Binary::And | Binary::LogicalAnd), args }) => open.extend(args),
                _ => found.push(number),
            }
        }
    }

    /// Columns of lists of which an entry must have some items to have any value at a node, and how many: those of
    /// which the node has a value for each combination, or that are true for any of these.
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

    /// Columns of lists that are as long as those of a node, or longer.
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

/// Entries for which a program is computed: all of a range, or some of them.
struct Rows {
    start: usize,
    stop: usize,
    /// Counted from the start.
    chosen: Option<Vec<usize>>,
    /// Offsets of the lists of those.
    ends: KnownEnds,
}

impl Rows {
    fn of(start: usize, stop: usize) -> Self {
        Self { start, stop, chosen: None, ends: KnownEnds::default() }
    }
    fn len(&self) -> usize {
        self.chosen.as_ref().map_or(self.stop - self.start, Vec::len)
    }
    /// Those of them for which something is true.
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
    /// Whether it makes pairs of items of two lists.
    const fn is_product(&self) -> bool {
        matches!(self.op, Op::Cartesian(_) | Op::Nested(_) | Op::NestedItems(_) | Op::NestedDistances)
    }

    /// About how much work it is, beside others.
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
            Op::Nested(_) | Op::NestedItems(_) | Op::Unary(_) | Op::Take | Op::Filter | Op::Concatenate => 2,
            _ => 1,
        }
    }

    fn compute<'a>(&self, views: &'a [View<'a>], args: &[&Value<'a>], rows: &Rows) -> Result<Value<'a>> {
        match (&self.op, args) {
            (Op::Input(column, path), []) => {
                let view = views.get(*column).ok_or_else(|| Error::argument("there is no such column"))?;
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
            _ => Err(Error::argument("an operation has a wrong number of arguments")),
        }
    }
}
