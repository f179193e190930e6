//! Expressions over columns, computed natively: a chunk of entries that fits the processor's caches at a time.
//!
//! ```text
//!   Python: text ──▶ syntax tree ──▶ nodes ──▶ [`Program`] ──▶ chunks of columns ──▶ columns, bins of histograms
//! ```
//!
//! A program is a list of nodes in order; each computes one operation for a whole chunk with a loop over arrays of one type
//! (`math`, `lists`). Common parts of expressions are one node. Types of results follow `NumPy`; what is
//! not computed here is an error of the kind *unsupported*, and the caller computes it elsewhere.

pub mod fill;
mod lists;
mod math;
mod run;
mod value;

pub use lists::{Quantity, Reduction};
pub use math::{Binary, Unary};
pub use run::{columns, fill_columns, fill_tables, types};
pub use value::Constant;

use crate::error::{Error, Result};
use value::{Value, View};

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
    /// Places of a member in the Cartesian product of lists: which.
    Cartesian(usize),
    /// The same of two lists, with a list for each item of the first.
    Nested(usize),
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

    /// How many times as large as the columns values are, about: combinations are more than the items of lists.
    fn growth(&self) -> usize {
        let of = |node: &Node| match node.op {
            Op::Combinations(..=2, _) | Op::CombinationSums(..=2) | Op::CombinationVectors(..=2, _) => 2,
            Op::Combinations(..)
            | Op::CombinationSums(_)
            | Op::CombinationVectors(..)
            | Op::Cartesian(_)
            | Op::Nested(_) => 4,
            _ => 1,
        };
        self.nodes.iter().map(of).max().unwrap_or(1)
    }

    /// Computes all nodes for entries `start` to `stop`. Values that are not asked for are dropped on the way.
    fn evaluate<'a>(
        &self,
        views: &'a [View<'a>],
        start: usize,
        stop: usize,
    ) -> Result<Vec<Option<Value<'a>>>> {
        let mut values: Vec<Option<Value<'a>>> = Vec::with_capacity(self.nodes.len());
        for (number, node) in self.nodes.iter().enumerate() {
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
                node.compute(views, &args, start, stop)?
            };
            values.push(Some(value));
            for &arg in &node.args {
                if self.last_use.get(arg) == Some(&number)
                    && let Some(slot) = values.get_mut(arg)
                {
                    *slot = None;
                }
            }
        }
        Ok(values)
    }
}

impl Node {
    fn compute<'a>(
        &self,
        views: &'a [View<'a>],
        args: &[&Value<'a>],
        start: usize,
        stop: usize,
    ) -> Result<Value<'a>> {
        match (&self.op, args) {
            (Op::Input(column, path), []) => {
                let view = views.get(*column).ok_or_else(|| Error::argument("there is no such column"))?;
                view.slice(path, start, stop)
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
            (Op::Cartesian(k), values) => lists::cartesian(values, *k),
            (Op::Nested(k), [first, second]) => lists::nested(first, second, *k),
            (Op::LocalIndex, [of]) => lists::local_index(of),
            (Op::Concatenate, values) => lists::concatenate(values),
            (Op::FillNone(with), [of]) => lists::fill_none(of, *with),
            _ => Err(Error::argument("an operation has a wrong number of arguments")),
        }
    }
}
