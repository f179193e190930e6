//! Planning branches: names, leaves, types, and the layout of entries.

use super::branch::{Branch, BranchKind, BranchSpec, Element, Leaf};
use super::item::{Item, View};
use crate::array::Column;
use crate::error::{Error, Result, Within};
use crate::streamer::StreamerInfo;
use crate::streamer::declare::{Class, Shape};
use crate::streamer::packed::Packing;
use std::collections::HashSet;

/// Version that ROOT 6.40 writes for containers that are members or branches.
const CONTAINER: [u8; 2] = [0, 10];
/// Bit of that version for a list of objects stored member-wise (`TBufferFile::kStreamedMemberWise`).
const MEMBER_WISE: u8 = 0x40;
/// `fClassVersion` of branches of containers and of `std::string`.
const CONTAINER_CLASS: i32 = 6;
const STRING_CLASS: i32 = 2;
/// Type codes of members (`ROOT::kSTL`, `kAny`).
const STL: i32 = 300;
const ANY: i32 = 62;

/// Returns the leaf class of a number, its letter in leaf lists, and whether it is unsigned.
fn leaf_of(shape: &Shape) -> Result<(&'static str, char, bool)> {
    Ok(match shape {
        Shape::Number(number) => {
            let (class, letter) = number.leaf();
            (class, letter, number.is_unsigned())
        }
        Shape::Long(signed) => ("TLeafG", if *signed { 'G' } else { 'g' }, !signed),
        Shape::Packed(true, _) => ("TLeafF16", 'f', false),
        Shape::Packed(false, _) => ("TLeafD32", 'd', false),
        other => return Err(Error::argument(format!("a leaf holds numbers, not {}", other.cpp()))),
    })
}

fn brackets(dims: &[usize]) -> String {
    dims.iter().map(|dim| format!("[{dim}]")).collect()
}

/// Returns a packed number's type and range as written in titles: `/f[0,10,12]`.
fn suffix(shape: &Shape) -> String {
    match shape {
        Shape::Packed(single, range) if !range.is_empty() => {
            format!("/{}[{range}]", if *single { 'f' } else { 'd' })
        }
        _ => String::new(),
    }
}

/// Returns the layout of a number, or of a value inside a container.
fn value(shape: &Shape) -> Result<Item> {
    Ok(match shape {
        Shape::Number(number) => Item::Number(*number),
        Shape::Long(signed) => {
            Item::Number(if *signed { crate::array::Number::I64 } else { crate::array::Number::U64 })
        }
        Shape::Packed(single, range) => Item::Packed(packing(*single, range)?),
        Shape::Text => Item::Text,
        Shape::Array(size, item) => Item::Array(*size, Box::new(value(item)?)),
        Shape::Vector(item) => Item::List(Box::new(value(item)?)),
        Shape::Map(key, of) => Item::List(Box::new(Item::Record(vec![value(key)?, value(of)?]))),
        Shape::Other(_, like) => value(like)?,
        Shape::Class(class) => object(class, false)?,
        Shape::Optional(_) | Shape::Variant(_) => {
            return Err(Error::unsupported(format!("trees do not hold {}; RNTuples do", shape.cpp())));
        }
    })
}

fn packing(single: bool, range: &str) -> Result<Packing> {
    if range.is_empty() {
        return Ok(Packing::of(single, ""));
    }
    let packing = Packing::ranged(single, range).ok_or_else(|| {
        Error::argument(format!(
            "cannot pack numbers in [{range}]: expected [low, high], [low, high, bits] or [0, 0, bits]"
        ))
    })?;
    if let Some((low, high, _)) = packing.spec().filter(|(low, high, _)| low < high) {
        Packing::check_range(single, low, high)?;
    }
    Ok(packing)
}

/// Returns the layout of an object with its version.
fn object(class: &Class, member_wise: bool) -> Result<Item> {
    Ok(Item::Framed(class.version.to_be_bytes().to_vec(), Box::new(record(class, member_wise)?)))
}

/// Returns the layout of an object's members.
fn record(class: &Class, member_wise: bool) -> Result<Item> {
    let members = class.members.iter().map(|(name, shape)| {
        member(shape, member_wise).within(|| format!("member {name} of {}", class.name))
    });
    Ok(Item::Record(members.collect::<Result<_>>()?))
}

/// Returns the layout of a value that is a member or branch of its own: containers and strings have a header.
fn member(shape: &Shape, member_wise: bool) -> Result<Item> {
    Ok(match shape {
        Shape::Vector(item) => match item.as_ref() {
            Shape::Class(class) if member_wise => {
                let [_, low] = CONTAINER;
                let mut header = vec![MEMBER_WISE, low];
                header.extend(class.version.to_be_bytes());
                let members = class.members.iter().map(|(_, shape)| grouped(shape));
                Item::Framed(header, Box::new(Item::Columns(members.collect::<Result<_>>()?)))
            }
            _ => Item::Framed(CONTAINER.to_vec(), Box::new(value(shape)?)),
        },
        Shape::Map(..) | Shape::Other(..) | Shape::Text => {
            Item::Framed(CONTAINER.to_vec(), Box::new(value(shape)?))
        }
        Shape::Class(class) => object(class, member_wise)?,
        _ => value(shape)?,
    })
}

/// Returns the layout of a member of the elements in a member-wise list: one header for all.
fn grouped(shape: &Shape) -> Result<Item> {
    Ok(match shape {
        Shape::Vector(_) | Shape::Map(..) | Shape::Other(..) | Shape::Text => {
            Item::Grouped(CONTAINER.to_vec(), Box::new(value(shape)?))
        }
        _ => value(shape)?,
    })
}

/// Returns the bytes of the object in a one-record column, and the classes that it needs.
pub fn encode_value(class: &Class, column: &Column) -> Result<(Vec<u8>, Vec<StreamerInfo>)> {
    let shape = Shape::Class(class.clone());
    let mut classes = Vec::new();
    shape.classes(&mut classes);
    let mut plan = TreePlan::default();
    classes.into_iter().try_for_each(|class| plan.declare(class))?;
    let item = object(class, false)?;
    let view = View::new(&item, column)?;
    if view.len() != 1 {
        return Err(Error::argument(format!("expected one object, found {} records", view.len())));
    }
    let mut bytes = Vec::new();
    view.encode(0, 1, &mut bytes)?;
    Ok((bytes, plan.infos))
}

/// Whether the elements of a list can have branches: no member is an object or a list of objects.
fn flat(class: &Class) -> bool {
    let mut inner = Vec::new();
    class.members.iter().for_each(|(_, member)| member.classes(&mut inner));
    inner.is_empty()
}

/// The source of a branch's data, and its splitting.
#[derive(Clone)]
struct BranchSource {
    column: usize,
    path: Vec<usize>,
    parent: Option<usize>,
    split: i32,
    member_wise: bool,
}

impl BranchSource {
    fn inside(&self, member: usize, parent: usize) -> Self {
        let path = [self.path.as_slice(), &[member]].concat();
        Self { path, parent: Some(parent), split: self.split - 1, ..self.clone() }
    }
}

/// Returns the element of the branch of a member of a class, with its index and `fType`.
fn member_element(class: &Class, checksum: u32, id: usize, kind: i32) -> Element {
    Element {
        class: class.name.clone(),
        parent: class.name.clone(),
        clones: String::new(),
        checksum,
        version: class.version.into(),
        id: id as i32,
        kind,
        code: STL,
        object: false,
    }
}

/// The branches of a tree, and the classes that they need.
#[derive(Default)]
pub struct TreePlan {
    pub branches: Vec<Branch>,
    pub infos: Vec<StreamerInfo>,
    /// Index of the branch made for each requested one.
    pub made: Vec<usize>,
    compression: Option<crate::compress::encode::Compression>,
}

impl TreePlan {
    /// Plans the branches. Checks that names are unique, that counters come first and that each counts something.
    pub fn new(specs: &[BranchSpec]) -> Result<Self> {
        let mut plan = Self::default();
        if specs.is_empty() {
            return Err(Error::argument("a tree needs at least one branch"));
        }
        let (mut names, mut column) = (HashSet::new(), 0);
        for spec in specs {
            if spec.name.is_empty() {
                return Err(Error::argument("a branch without a name"));
            }
            if !names.insert(spec.name.as_str()) {
                return Err(Error::argument(format!("two branches have the name {}", spec.name)));
            }
            plan.compression = spec.compression;
            plan.made.push(plan.branches.len());
            plan.branch(spec, column).within(|| format!("branch {}", spec.name))?;
            column += usize::from(spec.kind != BranchKind::Counter);
        }
        for (spec, index) in specs.iter().zip(&plan.made) {
            if spec.kind == BranchKind::Counter
                && plan.branches.get(*index).is_some_and(|b| b.column == usize::MAX)
            {
                return Err(Error::argument(format!("branch {} counts no other branch", spec.name)));
            }
        }
        let mut known: HashSet<&str> = HashSet::new();
        for branch in &plan.branches {
            if !known.insert(branch.name.as_str()) {
                return Err(Error::argument(format!(
                    "two branches have the name {}: a name that ends in a dot goes before the names of members",
                    branch.name
                )));
            }
        }
        Ok(plan)
    }

    fn branch(&mut self, spec: &BranchSpec, column: usize) -> Result<()> {
        let name = spec.name.clone();
        match &spec.kind {
            BranchKind::Numbers { number, dims } => {
                let number = value(number).map(|item| (number, item))?;
                let title = name.clone() + &brackets(dims);
                self.leaf_branch(&name, title, number, dims, column)
            }
            BranchKind::Counted { number, dims, counter } => {
                let index = self.made.get(*counter).copied();
                let found = index
                    .and_then(|i| self.branches.get_mut(i))
                    .filter(|b| b.item.as_deref() == Some(&Item::Count));
                let Some(found) = found else {
                    return Err(Error::argument("its counter must come before it"));
                };
                if found.column == usize::MAX {
                    found.column = column;
                }
                let title = format!("{name}[{}]{}", found.name, brackets(dims));
                let inner = value(number)?;
                self.leaf_branch(&name, title, (number, inner), dims, column)?;
                if let Some(branch) = self.branches.last_mut() {
                    branch.count_by(index);
                }
                Ok(())
            }
            BranchKind::Counter => {
                // The column is set with the first branch that it counts.
                let branch = Branch::new(name.clone(), format!("{name}/I"), Some(Item::Count), usize::MAX);
                let leaf = Leaf { range: true, ..leaf("TLeafI", &name, &name, 1, 4) };
                self.push(Branch { leaves: vec![leaf], ..branch });
                Ok(())
            }
            BranchKind::Text => {
                let branch = Branch::new(name.clone(), format!("{name}/C"), Some(Item::Text), column);
                self.push(Branch { leaves: vec![leaf("TLeafC", &name, &name, 1, 1)], ..branch });
                Ok(())
            }
            BranchKind::Leaves(leaves) => self.leaf_list(name, leaves, column),
            BranchKind::Object { shape, split_level, member_wise } => {
                // Pairs in a list stay together, as in maps.
                let pairs =
                    matches!(shape, Shape::Vector(item) if matches!(&**item, Shape::Class(c) if c.is_pair()));
                let source = BranchSource {
                    column,
                    path: Vec::new(),
                    parent: None,
                    split: if pairs { 0 } else { *split_level },
                    member_wise: *member_wise,
                };
                let mut classes = Vec::new();
                shape.classes(&mut classes);
                for class in classes {
                    self.declare(class)?;
                }
                self.object(name, shape, &source)
            }
        }
    }

    fn push(&mut self, branch: Branch) -> usize {
        self.branches.push(Branch { compression: self.compression, ..branch });
        self.branches.len() - 1
    }

    fn declare(&mut self, class: &Class) -> Result<()> {
        let info = class.info()?;
        match self.infos.iter().find(|known| known.name == info.name) {
            None => self.infos.push(info),
            Some(known) if *known == info => {}
            Some(_) => return Err(Error::argument(format!("class {} has two sets of members", class.name))),
        }
        Ok(())
    }

    fn leaf_branch(
        &mut self,
        name: &str,
        title: String,
        (number, inner): (&Shape, Item),
        dims: &[usize],
        column: usize,
    ) -> Result<()> {
        let length = elements(dims)?;
        let (class, letter, unsigned) = leaf_of(number)?;
        let suffix = suffix(number);
        let full = if suffix.is_empty() { format!("{title}/{letter}") } else { title.clone() + &suffix };
        let branch = Branch::new(name.to_owned(), full, Some(Item::array(dims, inner)), column);
        // The leaf's title keeps the range, which readers need to unpack.
        let title = title + &suffix;
        let leaf = Leaf { unsigned, ..leaf(class, name, &title, length, number.memory()) };
        self.push(Branch { leaves: vec![leaf], ..branch });
        Ok(())
    }

    fn leaf_list(&mut self, name: String, leaves: &[(String, Shape)], column: usize) -> Result<()> {
        if leaves.is_empty() {
            return Err(Error::argument("a leaf list without leaves"));
        }
        let (mut titles, mut made, mut items, mut offset) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for (field, shape) in leaves {
            let (dims, number) = shape.dims();
            let (class, letter, unsigned) = leaf_of(number).within(|| format!("leaf {field}"))?;
            let length = elements(&dims)?;
            let suffix = suffix(number);
            let title = field.clone() + &brackets(&dims);
            titles.push(if suffix.is_empty() {
                format!("{title}/{letter}")
            } else {
                title.clone() + &suffix
            });
            let leaf = leaf(class, field, &(title + &suffix), length, number.memory());
            made.push(Leaf { offset, unsigned, ..leaf });
            offset += length * number.memory();
            items.push(value(shape)?);
        }
        let branch = Branch::new(name, titles.join(":"), Some(Item::Record(items)), column);
        self.push(Branch { leaves: made, ..branch });
        Ok(())
    }

    /// Plans a container, string or object at the top of a tree.
    fn object(&mut self, name: String, shape: &Shape, source: &BranchSource) -> Result<()> {
        let mut element = Element {
            class: shape.cpp(),
            parent: String::new(),
            clones: String::new(),
            checksum: 0,
            version: CONTAINER_CLASS,
            id: -1,
            kind: 0,
            code: -1,
            object: false,
        };
        match shape {
            Shape::Class(class) => {
                element.object = true;
                element.version = class.version.into();
                element.checksum = class.info()?.checksum;
                if source.split < 1 {
                    let item = record(class, source.member_wise)?;
                    self.element(name.clone(), name, Some(item), element, source);
                    return Ok(());
                }
                element.id = -2;
                let prefix = if name.ends_with('.') { name.clone() } else { String::new() };
                let parent = self.element(name.clone(), name, None, element, source);
                self.members(&prefix, class, source, parent)
            }
            Shape::Vector(item) => {
                element.object = shape.has_objects();
                if let Shape::Class(class) = item.as_ref()
                    && source.split > 0
                    && flat(class)
                {
                    return self.split_list(&name, class, element, source);
                }
                let item = member(shape, source.member_wise)?;
                self.element(name.clone(), name, Some(item), element, source);
                Ok(())
            }
            Shape::Text => {
                (element.version, element.kind) = (STRING_CLASS, -1);
                self.element(name.clone(), name, Some(Item::Text), element, source);
                Ok(())
            }
            Shape::Map(..) | Shape::Other(..) => {
                element.object = shape.has_objects();
                self.element(name.clone(), name, Some(member(shape, false)?), element, source);
                Ok(())
            }
            other => Err(Error::argument(format!("{} is not an object", other.cpp()))),
        }
    }

    /// Adds a branch of a class or member, with a leaf that has no numbers.
    fn element(
        &mut self,
        name: String,
        title: String,
        item: Option<Item>,
        element: Element,
        source: &BranchSource,
    ) -> usize {
        let leaf = leaf("TLeafElement", &title, &title, 1, 0);
        let mut branch = Branch::new(name, title, item, source.column);
        if element.object && element.kind == 0 {
            // Readers derive the size of an object from the borders between entries, even if all sizes are equal.
            branch.fixed = None;
        }
        self.push(Branch {
            leaves: vec![leaf],
            element: Some(element),
            split_level: source.split.max(0),
            parent: source.parent,
            path: source.path.clone(),
            ..branch
        })
    }

    /// Plans the branches of the members of an object.
    fn members(&mut self, prefix: &str, class: &Class, source: &BranchSource, parent: usize) -> Result<()> {
        let checksum = class.info()?.checksum;
        for (id, (name, shape)) in class.members.iter().enumerate() {
            let source = source.inside(id, parent);
            let full = format!("{prefix}{name}");
            let element = member_element(class, checksum, id, 0);
            let split_list = match shape {
                Shape::Vector(item) => match item.as_ref() {
                    Shape::Class(inner) if source.split > 0 && flat(inner) => Some(inner),
                    _ => None,
                },
                _ => None,
            };
            if let Some(inner) = split_list {
                self.split_list(&full, inner, element, &source)?;
                continue;
            }
            match shape {
                Shape::Class(inner) if source.split > 0 => {
                    let element = Element { kind: 2, code: ANY, ..element };
                    let index = self.element(full.clone(), full.clone(), None, element, &source);
                    if let Some(branch) = self.branches.get_mut(index) {
                        branch.leaves.clear();
                    }
                    self.members(&format!("{full}."), inner, &source, index)?;
                }
                Shape::Class(_) => {
                    let item = member(shape, source.member_wise)?;
                    let element = Element { code: ANY, object: true, ..element };
                    self.element(full.clone(), full, Some(item), element, &source);
                }
                Shape::Vector(_) | Shape::Map(..) | Shape::Other(..) | Shape::Text => {
                    let item = member(shape, source.member_wise)?;
                    let element = Element { object: shape.has_objects(), ..element };
                    self.element(full.clone(), full, Some(item), element, &source);
                }
                _ => {
                    let (dims, number) = shape.dims();
                    let title = full.clone() + &brackets(&dims);
                    self.number_member(
                        title.clone(),
                        (full, title),
                        shape,
                        (&dims, number),
                        element,
                        &source,
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Plans a branch of a member that is a number or an array.
    fn number_member(
        &mut self,
        name: String,
        (leaf_name, title): (String, String),
        shape: &Shape,
        (dims, number): (&[usize], &Shape),
        element: Element,
        source: &BranchSource,
    ) -> Result<usize> {
        let code = number.code().unwrap_or(0) + if dims.is_empty() { 0 } else { 20 };
        let unsigned = leaf_of(number)?.2;
        let element = Element { code, ..element };
        let index = self.element(name, title, Some(value(shape)?), element, source);
        if let Some(leaf) = self.branches.get_mut(index).and_then(|b| b.leaves.first_mut()) {
            leaf.name = leaf_name;
            leaf.length = elements(dims)?;
            leaf.width = number.memory();
            leaf.unsigned = unsigned;
        }
        Ok(index)
    }

    /// Plans a list of objects whose members have branches; the first branch holds the counts.
    fn split_list(
        &mut self,
        name: &str,
        class: &Class,
        element: Element,
        source: &BranchSource,
    ) -> Result<()> {
        let counted = format!("{name}_");
        let range = source.parent.is_some();
        let element = Element { kind: 4, clones: class.name.clone(), ..element };
        let master = self.element(name.to_owned(), counted.clone(), Some(Item::Count), element, source);
        if let Some(leaf) = self.branches.get_mut(master).and_then(|b| b.leaves.first_mut()) {
            leaf.range = range;
        }
        let checksum = class.info()?.checksum;
        for (id, (member, shape)) in class.members.iter().enumerate() {
            let source = BranchSource { split: 0, ..source.inside(id, master) };
            let full = format!("{name}.{member}");
            let title = format!("{member}[{counted}]");
            let element = member_element(class, checksum, id, 41);
            let (dims, number) = shape.dims();
            let index = if number.code().is_some() {
                let branch = full.clone() + &brackets(&dims);
                self.number_member(branch, (full, title), shape, (&dims, number), element, &source)?
            } else {
                let index = self.element(full.clone(), title, Some(grouped(shape)?), element, &source);
                if let Some(leaf) = self.branches.get_mut(index).and_then(|b| b.leaves.first_mut()) {
                    leaf.name = full;
                }
                index
            };
            if let Some(branch) = self.branches.get_mut(index) {
                branch.count_by(Some(master));
            }
        }
        Ok(())
    }
}

fn leaf(class: &'static str, name: &str, title: &str, length: usize, width: usize) -> Leaf {
    Leaf {
        class,
        name: name.to_owned(),
        title: title.to_owned(),
        length,
        width,
        offset: 0,
        range: false,
        unsigned: false,
    }
}

/// Number of elements of an array; at least one, and its bytes fit 32 bits.
fn elements(dims: &[usize]) -> Result<usize> {
    let size = dims.iter().try_fold(8_usize, |product, dim| product.checked_mul(*dim));
    match size {
        Some(0) => Err(Error::unsupported(format!("arrays of {dims:?} elements"))),
        Some(size) if i32::try_from(size).is_ok() => Ok(size / 8),
        _ => Err(Error::limit(format!("arrays of {dims:?} elements"))),
    }
}
