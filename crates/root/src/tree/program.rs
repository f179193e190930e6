//! How the entries of a branch are decoded: from its leaves, or from the class that it belongs to.

use super::{Branch, BranchElement, Leaf, Tree};
use crate::array::{Number, Type};
use crate::error::{Error, Result};
use crate::streamer::compile::{Compiler, Hidden, Programs};
use crate::streamer::kind::{Kind, Record, fixed, unreadable};
use crate::streamer::packed::Packing;
use crate::streamer::typename;
use crate::streamer::{Element, ElementClass, StreamerInfo};
use std::sync::{Arc, OnceLock};

/// Arrangement of the entries in a basket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Each entry is one value of this many bytes.
    Fixed(usize),
    /// Each entry is a header of `skip` bytes, then any number of values of `bytes` each.
    Counted {
        /// Bytes before the values: 0 for a counted leaf, 1 for a pointer member, 10 for a vector.
        skip: usize,
        /// Bytes of a value.
        bytes: usize,
    },
    /// Each entry is one value of variable length.
    Whole,
    /// Each entry is the same member of any number of objects.
    Column,
    /// Like `Column`, for a member that is a variable array. The numbers of that branch count the values of each
    /// object.
    CountedColumn(usize),
    /// Like `Column`, for a member that is an array of objects.
    Rows(usize),
    /// Each entry is the members of a base class, for the number of objects in another branch.
    Objects,
}

/// The decoding program of a branch.
#[derive(Debug)]
pub struct BranchProgram {
    /// Arrangement of the entries in a basket.
    pub framing: Framing,
    /// Kind of one value.
    pub kind: Kind,
    /// The type of the column, or the reason why there is none.
    pub of: Result<Type>,
    /// C++ type name, as Python readers of ROOT files spell it.
    pub typename: String,
    /// Whether the branch only groups others.
    pub group: bool,
    /// Members that are left out, each with the reason.
    pub left_out: Vec<String>,
    /// Elements of containers that may not be decodable.
    pub doubts: Vec<String>,
}

/// A branch compiled for reading, with the programs of the classes in its values.
pub struct BranchReader {
    /// Its program.
    pub program: BranchProgram,
    /// Programs of classes, compiled on demand.
    pub programs: Arc<Programs>,
}

/// The readers of a tree's branches, without the objects of hidden classes.
pub struct Readers {
    programs: Arc<Programs>,
    readers: Vec<OnceLock<Arc<BranchReader>>>,
}

impl Readers {
    /// Creates the readers for a tree of `branches`.
    pub fn new(programs: Programs, branches: usize) -> Self {
        let mut readers = Vec::new();
        readers.resize_with(branches, OnceLock::new);
        Self { programs: Arc::new(programs), readers }
    }
    /// The programs that the readers use.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }
    /// The hidden classes.
    pub fn hidden(&self) -> &Hidden {
        self.programs.hidden()
    }
    /// Returns the reader of a branch; it is compiled at first use.
    pub fn get(&self, tree: &Tree, branch: usize) -> Result<&Arc<BranchReader>> {
        let missing = || Error::argument(format!("branch {branch} of {}", self.readers.len()));
        let slot = self.readers.get(branch).ok_or_else(missing)?;
        if let Some(reader) = slot.get() {
            return Ok(reader);
        }
        // Compiled before the slot is locked: the lock would stay in a process that is forked meanwhile.
        let program = compile(tree, self, branch);
        Ok(slot.get_or_init(|| Arc::new(BranchReader { program, programs: self.programs.clone() })))
    }
}

/// The class of a branch of pointers with a sub-branch for each class of objects.
pub(super) const POINTERS: &str = "TBranchSTL";

/// Compiles a branch.
fn compile(tree: &Tree, readers: &Readers, index: usize) -> BranchProgram {
    let Some(branch) = tree.branches.get(index) else {
        return failed(format!("no branch {index}"), "unknown");
    };
    let class = whole_class(tree, branch);
    if branch.class == POINTERS && branch.other_file.is_empty() {
        // A `TIndArray`: header with checksum, size and flag. Then, for each object, the number (from 1) of the
        // sub-branch that holds the objects of its class; 0 for none.
        let framing = Framing::Counted { skip: 15, bytes: 1 };
        return finish(framing, Kind::Number(Number::U8), "uint8_t[]".to_owned());
    }
    if !branch.children.is_empty() && class.as_deref() != Some("TClonesArray") {
        let typename = class.unwrap_or_else(|| group_name(tree, readers, branch));
        let counts = branch.element.as_ref().is_some_and(|e| matches!(e.kind, 3 | 4));
        let program = if counts && branch.other_file.is_empty() {
            // The branch of a split collection holds the number of its elements, by which its parts are checked.
            finish(Framing::Fixed(4), Kind::Number(Number::I32), typename)
        } else {
            failed("the branch only groups others", &typename)
        };
        return BranchProgram { group: true, ..program };
    }
    if !branch.other_file.is_empty() {
        return failed(format!("its baskets are in another file, {}", branch.other_file), "unknown");
    }
    if !branch.children.is_empty() && branch.class == "TBranchObject" {
        return BranchProgram { group: true, ..failed("the branch only groups others", "TClonesArray") };
    }
    if !branch.children.is_empty() {
        // The branch of a split TClonesArray itself holds the number of objects.
        return finish(Framing::Fixed(4), Kind::Number(Number::I32), "int32_t".to_owned());
    }
    let leaves = branch.leaves.as_slice();
    match leaves {
        // A base without members of its own has no leaf, but has its headers.
        [] if branch.element.is_some() => described(tree, readers, branch, None),
        [] => failed("the branch has no leaf", "unknown"),
        [leaf] => match numeric(tree, branch, leaf) {
            Some(program) => program,
            None => described(tree, readers, branch, Some(leaf)),
        },
        _ => leaf_list(leaves),
    }
}

fn group_name(tree: &Tree, readers: &Readers, branch: &Branch) -> String {
    let part = |&i: &usize| {
        let child = tree.branches.get(i)?;
        Some(format!("{}:{}", child.name, readers.get(tree, i).ok()?.program.typename))
    };
    format!("group of {}", branch.children.iter().filter_map(part).collect::<Vec<_>>().join(", "))
}

fn failed(why: impl Into<Arc<str>>, typename: &str) -> BranchProgram {
    finish(Framing::Whole, unreadable(why), typename.to_owned())
}

fn finish(framing: Framing, kind: Kind, typename: String) -> BranchProgram {
    let of = kind.type_of().map(|of| match framing {
        Framing::Counted { .. } | Framing::Column | Framing::Objects => Type::List(Box::new(of)),
        Framing::CountedColumn(_) | Framing::Rows(_) => Type::List(Box::new(Type::List(Box::new(of)))),
        _ => of,
    });
    BranchProgram { framing, kind, of, typename, group: false, left_out: Vec::new(), doubts: Vec::new() }
}

/// Returns the class that the branch holds, if its own record or the members of its class say so.
fn whole_class(tree: &Tree, branch: &Branch) -> Option<String> {
    let element = branch.element.as_ref()?;
    if branch.parent.is_none() && !element.class_name.is_empty() {
        return Some(element.class_name.clone());
    }
    member(tree, branch, element).map(|e| e.typename.trim_end_matches('*').to_owned())
}

/// Returns the member of a class that a branch holds.
fn member(tree: &Tree, branch: &Branch, element: &BranchElement) -> Option<Element> {
    let info = info(tree, element)?;
    let last = branch.name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    let last = last.split_once('[').map_or(last, |(name, _)| name);
    let by_id = usize::try_from(element.id).ok().and_then(|id| info.elements.get(id));
    let found = by_id.filter(|e| e.name == last).or_else(|| info.elements.iter().find(|e| e.name == last));
    found.or(by_id).cloned()
}

fn info(tree: &Tree, element: &BranchElement) -> Option<Arc<StreamerInfo>> {
    // Parts of a TClonesArray may name the class of the elements separately.
    let names = [&element.class_name, &element.clones_name];
    let classes = tree.classes();
    names.into_iter().filter(|n| !n.is_empty()).find_map(|name| {
        let found = classes.find_checksum(name, element.checksum).filter(|_| element.checksum != 0);
        let found = found.or_else(|| classes.find(name, element.class_version));
        found.or_else(|| classes.latest(name)).cloned()
    })
}

/// Returns the dimensions in a title such as `x[n][3]/F`: the fixed lengths, and whether one is a name.
pub fn dimensions(leaf: &Leaf) -> (Vec<usize>, bool) {
    let mut dims = Vec::new();
    let mut named = false;
    let mut rest = leaf.title.as_str();
    while let Some((_, after)) = rest.split_once('[') {
        let Some((inside, after)) = after.split_once(']') else { break };
        match inside.parse::<usize>() {
            Ok(n) => dims.push(n),
            // The range of a packed number contains commas.
            Err(_) => named |= !inside.contains(','),
        }
        rest = after;
    }
    let length = usize::try_from(leaf.length).unwrap_or(1).max(1);
    // The stored length is the length in the basket, whatever the title says.
    let product = dims.iter().try_fold(1usize, |product, &d| product.checked_mul(d));
    if product != Some(length) {
        dims = if length > 1 { vec![length] } else { Vec::new() };
    }
    (dims, named)
}

fn leaf_kind(leaf: &Leaf, title: &str) -> Option<Kind> {
    match leaf.class.as_str() {
        "TLeafC" => Some(Kind::LeafText),
        "TLeafF16" | "TLeafD32" => Some(Kind::Packed(Packing::of(leaf.class == "TLeafF16", title))),
        "TLeafElement" => {
            let kind = if (21..40).contains(&leaf.kind) { leaf.kind - 20 } else { leaf.kind };
            match kind {
                9 | 19 => Some(Kind::Packed(Packing::of(kind == 19, title))),
                // Status bits have a variable length; the member of the class decides.
                15 => None,
                _ => Number::of_code(kind).map(Kind::Number),
            }
        }
        class => Number::of_leaf(class, leaf.unsigned).map(Kind::Number),
    }
}

fn number_name(kind: &Kind) -> String {
    match kind {
        Kind::Number(number) => number.short_name().to_owned(),
        Kind::Packed(packing) if packing.number() == Number::F32 => "Float16_t".to_owned(),
        Kind::Packed(_) => "Double32_t".to_owned(),
        Kind::LeafText => "char*".to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn brackets(dims: &[usize]) -> String {
    dims.iter().map(|d| format!("[{d}]")).collect()
}

fn numeric(tree: &Tree, branch: &Branch, leaf: &Leaf) -> Option<BranchProgram> {
    // The range of a packed member is in the comment of the class's member; the range of a leaf is in its title.
    let comment = branch.element.as_ref().and_then(|e| member(tree, branch, e)).map(|e| e.title);
    let item = leaf_kind(leaf, comment.as_deref().unwrap_or(&leaf.title))?;
    let (dims, named) = dimensions(leaf);
    let name = number_name(&item) + &brackets(&dims);
    let kind = fixed(&dims, item);
    let bytes = kind.fixed_bytes().filter(|&b| b > 0)?;
    let collected = branch.element.as_ref().is_some_and(|e| matches!(e.kind, 31 | 41));
    Some(if leaf.counted || collected {
        let name = match name.split_once('[') {
            Some((base, dims)) => format!("{base}[][{dims}"),
            None => format!("{name}[]"),
        };
        finish(Framing::Counted { skip: 0, bytes }, kind, name)
    } else if named {
        failed(format!("leaf {} has a variable length and no counter", leaf.title), &name)
    } else {
        finish(Framing::Fixed(bytes), kind, name)
    })
}

/// Several leaves in one branch, all counted by the same leaf of another branch: a record of lists.
fn leaf_rows(leaves: &[Leaf]) -> Option<BranchProgram> {
    let first = leaves.first()?;
    let elsewhere = first.counted && leaves.iter().all(|leaf| leaf.reference != first.counter);
    if !elsewhere || leaves.iter().any(|leaf| !leaf.counted || leaf.counter != first.counter) {
        return None;
    }
    let mut steps = Vec::new();
    let mut names = Vec::new();
    let mut bytes = 0usize;
    for leaf in leaves {
        let item = leaf_kind(leaf, &leaf.title)?;
        let dims = dimensions(leaf).0;
        names.push(format!("{} {}[]{};", number_name(&item), leaf.name, brackets(&dims)));
        let item = fixed(&dims, item);
        bytes = bytes.checked_add(item.fixed_bytes()?)?;
        steps.push((leaf.name.clone(), false, Kind::List(Box::new(item))));
    }
    let kind = Kind::Rows(Arc::new(Record::new("", steps)), bytes);
    let framing = (bytes > 0).then_some(Framing::Whole)?;
    Some(finish(framing, kind, format!("struct {{{}}}", names.join(" "))))
}

/// Several leaves in one branch: a record, its members end to end without padding. A leaf may count a later one.
fn leaf_list(leaves: &[Leaf]) -> BranchProgram {
    if let Some(program) = leaf_rows(leaves) {
        return program;
    }
    let mut steps = Vec::new();
    let mut names = Vec::new();
    for leaf in leaves {
        let Some(item) = leaf_kind(leaf, &leaf.title) else {
            return failed(format!("leaf {} of a list of leaves is a {}", leaf.name, leaf.class), "unknown");
        };
        // The length of a string's leaf is that of the longest string.
        let dims = if matches!(item, Kind::LeafText) { Vec::new() } else { dimensions(leaf).0 };
        let mut kind = fixed(&dims, item.clone());
        if leaf.counted {
            let Some(counter) = leaves.iter().take(steps.len()).position(|l| leaf.counter == l.reference)
            else {
                return failed(
                    format!("leaf {} is counted by a leaf of another branch", leaf.name),
                    "unknown",
                );
            };
            kind =
                Kind::Counted { counter, rows: None, flagged: false, triangle: false, item: Box::new(kind) };
        }
        let variable = if leaf.counted { "[]" } else { "" };
        names.push(format!("{} {}{variable}{};", number_name(&item), leaf.name, brackets(&dims)));
        steps.push((leaf.name.clone(), false, kind));
    }
    let kind = Kind::Record(Arc::new(Record::new("", steps)));
    let name = format!("struct {{{}}}", names.join(" "));
    match kind.fixed_bytes() {
        Some(bytes) => finish(Framing::Fixed(bytes), kind, name),
        None => finish(Framing::Whole, kind, name),
    }
}

fn described(tree: &Tree, readers: &Readers, branch: &Branch, leaf: Option<&Leaf>) -> BranchProgram {
    let mut compiler = readers.programs().compiler();
    let mut program = by_class(tree, branch, leaf, &mut compiler);
    if program.of.is_ok() {
        program.left_out = compiler.left_out;
        program.doubts = compiler.doubts;
        for notes in [&mut program.left_out, &mut program.doubts] {
            notes.sort_unstable();
            notes.dedup();
        }
    }
    program
}

fn by_class(tree: &Tree, branch: &Branch, leaf: Option<&Leaf>, compiler: &mut Compiler<'_>) -> BranchProgram {
    let leaf_class = leaf.map_or("no leaf", |leaf| leaf.class.as_str());
    if leaf_class == "TLeafC" {
        return finish(Framing::Whole, Kind::LeafText, "char*".to_owned());
    }
    let Some(element) = &branch.element else {
        return failed(format!("a {} with a {leaf_class} is not decoded", branch.class), "unknown");
    };
    if branch.class == "TBranchObject" {
        let kind = compiler.object(&element.class_name);
        let kind = if leaf.is_some_and(|l| l.named) { Kind::Named(Box::new(kind)) } else { kind };
        return finish(Framing::Whole, kind, element.class_name.clone());
    }
    if branch.class != "TBranchElement" {
        return failed(format!("a {} is not decoded", branch.class), &element.class_name);
    }
    if matches!(element.kind, 3 | 4) && leaf_class == "TLeafElement" {
        // The branch of a split collection holds the number of its elements, whether parts follow or not.
        return finish(Framing::Fixed(4), Kind::Number(Number::I32), "int32_t".to_owned());
    }
    let collected = matches!(element.kind, 31 | 41);
    if element.streamer_type == 65 {
        let (framing, brackets) = if collected { (Framing::Column, "[]") } else { (Framing::Whole, "") };
        return finish(framing, Kind::TString, format!("TString{brackets}"));
    }
    let of_pointers = branch.parent.and_then(|p| tree.branches.get(p)).is_some_and(|b| b.class == POINTERS);
    if element.id < 0 && (branch.parent.is_none() || of_pointers) {
        let name = element.class_name.clone();
        return match typename::parse(&name) {
            Ok(cpp) => {
                whole(compiler.top(&cpp, element.class_version, element.checksum), typename::usual(&name))
            }
            Err(error) => failed(error.to_string(), &name),
        };
    }
    let Some(member) = member(tree, branch, element) else {
        return failed(
            format!(
                "class {} version {} is not described in the file",
                element.class_name, element.class_version
            ),
            "unknown",
        );
    };
    let name = typename::usual(&member.typename);
    if (41..60).contains(&member.kind) && member.array_length > 0 {
        return failed(format!("{} is an array of variable arrays in a split object", member.name), &name);
    }
    if (41..60).contains(&member.kind) && collected {
        let kind = compiler.basic(member.kind - 40, &member.title);
        return match counting_brother(tree, branch, &member) {
            Ok(counter) => finish(Framing::CountedColumn(counter), kind, format!("{name}[][]")),
            Err(why) => failed(why, &name),
        };
    }
    if (41..60).contains(&member.kind) {
        // A member `x[n]` of a split class: a byte that says whether the array is present, then the values.
        let kind = compiler.basic(member.kind - 40, &member.title);
        return match kind.fixed_bytes() {
            Some(bytes) => finish(Framing::Counted { skip: 1, bytes }, kind, name),
            None => failed(format!("variable array {} of {}", member.name, member.typename), &name),
        };
    }
    let kind = if member.class == ElementClass::Base {
        compiler.object(&member.name)
    } else {
        compiler.member(&member, None)
    };
    if collected
        && member.class == ElementClass::Base
        && member.kind == 0
        && matches!(kind, Kind::Object(_) | Kind::List(_))
    {
        return finish(Framing::Objects, compiler.base(&member), format!("{name}[]"));
    }
    if let Kind::Loop { item, .. } = &kind
        && collected
    {
        return match counting_brother(tree, branch, &member) {
            Ok(counter) => finish(Framing::Rows(counter), item.as_ref().clone(), format!("{name}[][]")),
            Err(why) => failed(why, &name),
        };
    }
    if collected { finish(Framing::Column, kind, format!("{name}[]")) } else { whole(kind, name) }
}

/// Returns the sibling branch that holds the number of the branch's values.
fn counting_brother(tree: &Tree, branch: &Branch, member: &Element) -> Result<usize, String> {
    let parent = branch.parent.and_then(|parent| tree.branches.get(parent));
    let mut brothers = parent.map(|b| b.children.as_slice()).unwrap_or_default().iter().copied();
    let counts = |&i: &usize| {
        tree.branches.get(i).is_some_and(|b| b.name.rsplit('.').next() == Some(member.count_name.as_str()))
    };
    let found = brothers.find(counts);
    found.ok_or_else(|| format!("no branch holds {}, which counts {}", member.count_name, member.name))
}

/// Entries that are a single value each; a container of numbers is decoded from its length alone.
fn whole(kind: Kind, name: String) -> BranchProgram {
    if let Kind::Framed(inner) = &kind
        && let Kind::List(item) = inner.as_ref()
        && let Some(bytes) = item.fixed_bytes().filter(|&b| b > 0)
        && matches!(item.as_ref(), Kind::Number(_))
    {
        // Byte count, version, number of elements.
        return finish(Framing::Counted { skip: 10, bytes }, item.as_ref().clone(), name);
    }
    finish(Framing::Whole, kind, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(class: &str, name: &str, title: &str, length: i64) -> Leaf {
        Leaf {
            class: class.into(),
            name: name.into(),
            title: title.into(),
            length,
            width: 4,
            unsigned: false,
            counted: false,
            kind: 0,
            named: false,
            maximum: 0,
            reference: 0,
            counter: 0,
        }
    }

    #[test]
    fn dimensions_are_those_of_the_title_if_they_make_up_the_stored_length() {
        for (title, length, want) in [
            ("x", 1, (vec![], false)),
            ("x[3][2]", 6, (vec![3, 2], false)),
            ("x[n]", 1, (vec![], true)),
            ("x[n][4]", 4, (vec![4], true)),
            ("x[3]", 5, (vec![5], false)),
            ("x[0,10,16]/d", 1, (vec![], false)),
            ("x[2][0,10,16]/d", 2, (vec![2], false)),
            ("x[9999999999][9999999999]", 2, (vec![2], false)),
            ("x[3", -1, (vec![], false)),
        ] {
            assert_eq!(dimensions(&leaf("TLeafF", "x", title, length)), want, "{title}");
        }
    }

    #[test]
    fn leaves_of_one_branch_are_a_record() {
        let counter = || Leaf { reference: 7, ..leaf("TLeafI", "n", "n", 1) };
        let counted =
            |reference| Leaf { counted: true, counter: reference, ..leaf("TLeafF", "x", "x[n]", 1) };
        let text = leaf("TLeafC", "s", "s", 20);
        for (leaves, framing, name) in [
            (
                vec![leaf("TLeafF", "a", "a[2]", 2), Leaf { unsigned: true, ..leaf("TLeafB", "b", "b", 1) }],
                Framing::Fixed(9),
                "struct {float a[2]; uint8_t b;}",
            ),
            (vec![counter(), text], Framing::Whole, "struct {int32_t n; char* s;}"),
            (vec![counter(), counted(7)], Framing::Whole, "struct {int32_t n; float x[];}"),
            // Counted by a leaf of another branch: a record of lists.
            (vec![counted(9), counted(9)], Framing::Whole, "struct {float x[]; float x[];}"),
        ] {
            let program = leaf_list(&leaves);
            assert_eq!((program.framing, program.typename.as_str()), (framing, name));
            assert!(program.of.is_ok(), "{name}");
        }
        for wrong in [vec![counted(7), counter()], vec![leaf("TLeafObject", "o", "o", 1), counter()]] {
            assert!(leaf_list(&wrong).of.is_err());
        }
    }
}
