//! Mapping data to branches: the branches and counters for lists and records, and their data.

use super::branch::{BranchKind, BranchSpec};
use crate::error::{Error, Result};
use crate::streamer::datatype::{ClassNames, DataType};
use crate::streamer::declare::Shape;
use std::collections::HashMap;

/// Layout of lists of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lists {
    /// An array with a counter branch.
    Counted,
    /// `std::vector`
    Vectors,
}

/// Layout of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Records {
    /// A branch for each field.
    Branches,
    /// One branch with a leaf for each field.
    Leaves,
    /// Objects of a class.
    Objects,
}

/// Named data with its layout.
#[derive(Debug, Clone)]
pub struct BranchData {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: DataType,
    /// Layout of lists.
    pub lists: Lists,
    /// Layout of records.
    pub records: Records,
    /// See [`BranchKind::Object`].
    pub split_level: i32,
    /// See [`BranchKind::Object`].
    pub member_wise: bool,
}

/// Names of branches and classes.
pub struct BranchNames<'a> {
    /// Classes of records.
    pub classes: &'a ClassNames,
    /// Returns the name of the counter branch for lists of a given name.
    pub counter: &'a dyn Fn(&str) -> Result<String>,
    /// Returns the name of the branch for a field of records of a given name.
    pub field: &'a dyn Fn(&str, &str) -> Result<String>,
}

/// Destination of data.
#[derive(Debug, PartialEq, Eq)]
pub enum Destination {
    /// One branch.
    Branch(usize),
    /// Records, or lists of records: one or more branches for each field.
    Fields {
        /// Name of the records.
        name: String,
        /// Whether the data are lists of records.
        listed: bool,
        /// Fields by name.
        fields: Vec<(String, Destination)>,
    },
}

/// The branches for some data.
#[derive(Default)]
pub struct BranchLayout {
    /// The branches; each counter precedes the branches it counts.
    pub branches: Vec<BranchSpec>,
    /// The destination of the data of each name; data given for a counter have none.
    pub destinations: Vec<(String, Destination)>,
    by_name: HashMap<String, usize>,
    /// Whether each branch is a field of records.
    of_record: Vec<bool>,
}

impl BranchLayout {
    /// Plans the branches.
    pub fn new(data: &[BranchData], names: &BranchNames<'_>) -> Result<Self> {
        let mut layout = Self::default();
        for one in data {
            if let Some(found) = layout.destination(one, names, &one.name, &one.kind, false)? {
                layout.destinations.push((one.name.clone(), found));
            }
        }
        if layout.branches.is_empty() {
            return Err(Error::argument("a tree needs at least one branch"));
        }
        Ok(layout)
    }

    fn add(&mut self, name: &str, kind: BranchKind, of_record: bool) -> Result<Destination> {
        if let Some(known) = self.by_name.get(name) {
            let counter = self.branches.get(*known).is_some_and(|b| b.kind == BranchKind::Counter);
            let what = if counter { "a counter" } else { "another branch" };
            return Err(Error::argument(format!(
                "branch '{name}' has the name of {what}: rename one of them, or choose another counter_name or field_name"
            )));
        }
        self.by_name.insert(name.to_owned(), self.branches.len());
        self.branches.push(BranchSpec { name: name.to_owned(), kind, compression: None });
        self.of_record.push(of_record);
        Ok(Destination::Branch(self.branches.len() - 1))
    }

    fn destination(
        &mut self,
        data: &BranchData,
        names: &BranchNames<'_>,
        name: &str,
        kind: &DataType,
        of_record: bool,
    ) -> Result<Option<Destination>> {
        let (dims, inner) = dimensions(name, kind)?;
        let found = match (kind, inner) {
            (DataType::Map(..), _) => self.object(data, names, name, kind)?,
            (DataType::Shape(shape), _) if !is_number(shape) && !matches!(shape, Shape::Array(..)) => {
                self.object(data, names, name, kind)?
            }
            (_, DataType::Number(_) | DataType::Shape(_)) => {
                let known = self.by_name.get(name).and_then(|known| self.branches.get(*known));
                if !of_record && counts(kind) && known.is_some_and(|b| b.kind == BranchKind::Counter) {
                    // The counter exists already; data given for it are compared with it.
                    return Ok(None);
                }
                let number = inner.shape(name, names.classes, false)?;
                self.add(name, BranchKind::Numbers { number, dims }, of_record)?
            }
            (DataType::Text, _) => self.add(name, BranchKind::Text, of_record)?,
            (DataType::Record(_, fields), _) => match data.records {
                Records::Leaves => {
                    let leaves = match kind.shape(name, names.classes, false)? {
                        Shape::Class(class) => class.members,
                        _ => Vec::new(),
                    };
                    self.add(name, BranchKind::Leaves(leaves), of_record)?
                }
                Records::Objects => self.object(data, names, name, kind)?,
                Records::Branches => {
                    let mut found = Vec::with_capacity(fields.len());
                    for (field, kind) in fields {
                        let full = (names.field)(name, field)?;
                        if let Some(inner) = self.destination(data, names, &full, kind, true)? {
                            found.push((field.clone(), inner));
                        }
                    }
                    Destination::Fields { name: name.to_owned(), listed: false, fields: found }
                }
            },
            (DataType::List(item), _) => match (&**item, data.records, data.lists) {
                (DataType::Record(_, fields), Records::Branches, _) => {
                    self.lists(data, names, name, fields)?
                }
                (DataType::Record(..), Records::Leaves, Lists::Counted) => {
                    return Err(Error::unsupported(format!(
                        "branch '{name}': leaf lists hold single records, not lists of records: use \"branches\" or \
                         \"class\""
                    )));
                }
                (DataType::Record(..), Records::Objects, _) | (_, _, Lists::Vectors) => {
                    self.object(data, names, name, kind)?
                }
                (item, ..) => self.counted(data, names, name, item, name)?,
            },
            _ => return Err(kind.refused(name)),
        };
        Ok(Some(found))
    }

    /// Plans the fields of lists of records.
    fn lists(
        &mut self,
        data: &BranchData,
        names: &BranchNames<'_>,
        name: &str,
        fields: &[(String, DataType)],
    ) -> Result<Destination> {
        let mut found = Vec::with_capacity(fields.len());
        for (field, item) in fields {
            let full = (names.field)(name, field)?;
            let inner = match data.lists {
                Lists::Vectors => self.object(data, names, &full, &DataType::List(Box::new(item.clone())))?,
                Lists::Counted => self.counted(data, names, &full, item, name)?,
            };
            found.push((field.clone(), inner));
        }
        Ok(Destination::Fields { name: name.to_owned(), listed: true, fields: found })
    }

    /// Plans a container or an object.
    fn object(
        &mut self,
        data: &BranchData,
        names: &BranchNames<'_>,
        name: &str,
        kind: &DataType,
    ) -> Result<Destination> {
        let shape = kind.shape(name, names.classes, false)?;
        let kind = BranchKind::Object { shape, split_level: data.split_level, member_wise: data.member_wise };
        self.add(name, kind, false)
    }

    /// Plans lists of items: arrays counted by the counter of `listed`, or vectors if the items are not numbers.
    fn counted(
        &mut self,
        data: &BranchData,
        names: &BranchNames<'_>,
        name: &str,
        item: &DataType,
        listed: &str,
    ) -> Result<Destination> {
        let (dims, inner) = dimensions(name, item)?;
        let number = match inner {
            DataType::Number(number) => Shape::Number(*number),
            DataType::Shape(shape) if is_number(shape) => shape.clone(),
            _ => return self.object(data, names, name, &DataType::List(Box::new(item.clone()))),
        };
        let counter = self.counter(&(names.counter)(listed)?, listed)?;
        self.add(name, BranchKind::Counted { number, dims, counter }, false)
    }

    fn counter(&mut self, name: &str, listed: &str) -> Result<usize> {
        let Some(known) = self.by_name.get(name).copied() else {
            self.add(name, BranchKind::Counter, false)?;
            return Ok(self.branches.len() - 1);
        };
        let of_record = self.of_record.get(known).copied().unwrap_or_default();
        let Some(branch) = self.branches.get_mut(known) else { return Ok(known) };
        match &branch.kind {
            BranchKind::Counter => {}
            BranchKind::Numbers { number, dims } if dims.is_empty() && is_integer(number) && !of_record => {
                // A branch of integers with that name becomes the counter.
                branch.kind = BranchKind::Counter;
                self.destinations.retain(|(one, _)| one != name);
            }
            _ => {
                return Err(Error::argument(format!(
                    "the counter '{name}' of branch '{listed}' has the name of a branch that is not a single integer: rename \
                     one of them, or choose another counter_name"
                )));
            }
        }
        Ok(known)
    }
}

fn dimensions<'a>(name: &str, kind: &'a DataType) -> Result<(Vec<usize>, &'a DataType)> {
    let (dims, inner) = kind.dims();
    if dims.contains(&0) {
        return Err(Error::unsupported(format!("branch '{name}': arrays of length 0 cannot be written")));
    }
    Ok((dims, inner))
}

/// Whether a leaf can hold it.
const fn is_number(shape: &Shape) -> bool {
    matches!(shape, Shape::Number(_) | Shape::Long(_) | Shape::Packed(..))
}

fn is_integer(shape: &Shape) -> bool {
    match shape {
        Shape::Number(number) => number.dtype().contains("int"),
        other => matches!(other, Shape::Long(_)),
    }
}

/// Whether data may give the lengths of lists.
fn counts(kind: &DataType) -> bool {
    matches!(kind, DataType::Number(number) if is_integer(&Shape::Number(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Number;

    fn data(name: &str, kind: DataType, lists: Lists, records: Records) -> BranchData {
        BranchData { name: name.into(), kind, lists, records, split_level: 99, member_wise: true }
    }

    fn plan(data: &[BranchData]) -> Result<BranchLayout> {
        let names = BranchNames {
            classes: &ClassNames::new(),
            counter: &|counted| Ok(format!("n{counted}")),
            field: &|outer, inner| Ok(format!("{outer}_{inner}")),
        };
        BranchLayout::new(data, &names)
    }

    fn list(item: DataType) -> DataType {
        DataType::List(Box::new(item))
    }

    const FLOAT: DataType = DataType::Number(Number::F32);
    const INT: DataType = DataType::Number(Number::I64);

    #[test]
    fn fields_of_lists_of_records_share_a_counter() {
        let muons =
            list(DataType::Record(String::new(), vec![("pt".into(), FLOAT), ("hits".into(), list(INT))]));
        let layout = plan(&[data("Muon", muons.clone(), Lists::Counted, Records::Branches)]).unwrap();
        let names: Vec<&str> = layout.branches.iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names, ["nMuon", "Muon_pt", "Muon_hits"]);
        assert!(matches!(layout.branches[1].kind, BranchKind::Counted { counter: 0, .. }));
        // Lists in lists are vectors.
        assert!(matches!(layout.branches[2].kind, BranchKind::Object { shape: Shape::Vector(_), .. }));
        let Destination::Fields { listed: true, fields, .. } = &layout.destinations[0].1 else { panic!() };
        assert_eq!(fields[1], ("hits".into(), Destination::Branch(2)));
        let vectors = plan(&[data("Muon", muons.clone(), Lists::Vectors, Records::Branches)]).unwrap();
        assert_eq!(vectors.branches.len(), 2);
        let objects = plan(&[data("Muon", muons.clone(), Lists::Counted, Records::Objects)]).unwrap();
        assert_eq!(objects.branches.len(), 1);
        assert!(plan(&[data("Muon", muons, Lists::Counted, Records::Leaves)]).is_err());
    }

    #[test]
    fn integers_by_the_name_of_a_counter_are_the_counter_and_nothing_else_is() {
        let x = || data("x", list(FLOAT), Lists::Counted, Records::Branches);
        let n = |kind| data("nx", kind, Lists::Counted, Records::Branches);
        for order in [[x(), n(INT)], [n(INT), x()]] {
            let layout = plan(&order).unwrap();
            assert_eq!(layout.branches.len(), 2);
            assert_eq!(layout.destinations.len(), 1);
            assert!(layout.branches.iter().any(|b| b.name == "nx" && b.kind == BranchKind::Counter));
        }
        for order in [[x(), n(FLOAT)], [n(FLOAT), x()]] {
            assert!(plan(&order).is_err());
        }
    }

    #[test]
    fn what_no_branch_holds_is_refused() {
        let of = |size, item| DataType::FixedList(size, Box::new(item));
        for kind in [of(0, INT), of(2, DataType::Text), DataType::Option(Box::new(INT)), DataType::Unknown] {
            assert!(plan(&[data("x", kind, Lists::Counted, Records::Branches)]).is_err());
        }
        assert!(plan(&[]).is_err());
        let layout = plan(&[data("x", of(2, of(3, INT)), Lists::Counted, Records::Branches)]).unwrap();
        assert!(matches!(&layout.branches[0].kind, BranchKind::Numbers { dims, .. } if dims == &[2, 3]));
    }
}
