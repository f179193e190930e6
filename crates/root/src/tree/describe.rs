//! Parsing the branches of a tree directly from their bytes.
//!
//! Trees with ten thousand branches are common. Each branch has about fifty members, and few of them are needed. They
//! are located by a plan that is made once for each class, without a value for each member as in
//! [`crate::streamer::ObjectReader`]. For anything unusual (a branch class of its own, baskets inside the tree, damage)
//! the functions return `None`, and that reader takes over.

use super::{Branch, BranchElement, Leaf, baskets, unsigned};
use crate::error::Result;
use crate::streamer::name::Name;
use crate::streamer::{Classes, Element, ElementClass, StreamerInfo, builtin};
use crate::wire::Cursor;
use crate::wire::cursor::{ClassTag, Pointer, text};
use crate::wire::grow::Grow;
use std::collections::HashMap;
use std::sync::Arc;

/// Reads the member `fBranches` at the cursor and moves the cursor past it. Returns `None` for anything unusual.
///
/// `named` holds the classes already named, by reference; newly named classes are added.
pub fn branches(
    cursor: &mut Cursor<'_>,
    named: &mut HashMap<u64, Name>,
    classes: &Classes,
) -> Option<Vec<Branch>> {
    let mut reader = RecordReader {
        cursor: cursor.clone(),
        named: named.clone(),
        classes,
        plans: Vec::new(),
        branches: Vec::new(),
        early: HashMap::new(),
        spare: Vec::new(),
        depth: 0,
    };
    reader.list(Part::Branches, &mut Fields::default(), None)?;
    *cursor = reader.cursor;
    *named = reader.named;
    Some(reader.branches)
}

/// Maximum nesting depth of branches.
const DEEPEST: usize = 50;

macro_rules! fields {
    ($kind:ident: $($variant:ident = $name:literal),* $(,)?) => {
        #[derive(Clone, Copy)]
        enum $kind { $($variant),* }
        impl $kind {
            fn of(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

fields!(Number:
    Entries = "fEntries", TotBytes = "fTotBytes", ZipBytes = "fZipBytes", Compress = "fCompress",
    WriteBasket = "fWriteBasket", MaxBaskets = "fMaxBaskets", Id = "fID", Type = "fType",
    StreamerType = "fStreamerType", ClassVersion = "fClassVersion", CheckSum = "fCheckSum", IoBits = "fIOBits",
    Len = "fLen", LenType = "fLenType", IsUnsigned = "fIsUnsigned", Virtual = "fVirtual", Maximum = "fMaximum",
);
fields!(Text:
    Name = "fName", Title = "fTitle", FileName = "fFileName", ClassName = "fClassName", ClonesName = "fClonesName",
);
fields!(Array: Bytes = "fBasketBytes", Entry = "fBasketEntry", Seek = "fBasketSeek");
fields!(Part: Branches = "fBranches", Leaves = "fLeaves", Baskets = "fBaskets");

type Arrays = [Vec<i64>; Array::Seek as usize + 1];

/// The values read from a branch or leaf.
#[derive(Default)]
struct Fields<'a> {
    numbers: [Option<i64>; Number::Maximum as usize + 1],
    texts: [Option<&'a [u8]>; Text::ClonesName as usize + 1],
    arrays: Arrays,
    leaves: Vec<Leaf>,
    children: Vec<usize>,
    /// Reference of the counter leaf.
    counter: u64,
}

impl Fields<'_> {
    fn number(&self, which: Number) -> Option<i64> {
        self.numbers.get(which as usize).copied().flatten()
    }
    fn text(&self, which: Text) -> Result<String> {
        text(self.texts.get(which as usize).copied().flatten().unwrap_or_default())
    }
    fn array(&self, which: Array) -> &[i64] {
        self.arrays.get(which as usize).map_or(&[], Vec::as_slice)
    }
}

/// How to process the next bytes of a class.
enum Step {
    Skip(usize),
    Number(i32, Number),
    Text(Option<Text>),
    /// An array of numbers of a type code, counted by another member.
    Counted(i32, Number, Option<Array>),
    List(Part),
    /// Two 32-bit words, sometimes followed by 16 bits.
    TObject,
    /// A base or member with a version header.
    Object(Name),
    /// A pointer: to the counter leaf (`true`), or to an object that must have been read before.
    Pointer(bool),
}

struct ClassPlan {
    class: Name,
    /// Class version, or checksum.
    key: u64,
    steps: Arc<[Step]>,
}

struct RecordReader<'a, 'c> {
    cursor: Cursor<'a>,
    named: HashMap<u64, Name>,
    classes: &'c Classes,
    plans: Vec<ClassPlan>,
    branches: Vec<Branch>,
    /// Leaves that were read as the counter of others, before their own place.
    early: HashMap<u64, Leaf>,
    /// Empty arrays of earlier branches, for reuse.
    spare: Vec<Arrays>,
    depth: usize,
}

fn element(fields: &Fields<'_>) -> Option<BranchElement> {
    let number = |which| fields.number(which).unwrap_or(0);
    Some(BranchElement {
        class_name: fields.text(Text::ClassName).ok()?,
        clones_name: fields.text(Text::ClonesName).ok()?,
        class_version: number(Number::ClassVersion) as i32,
        checksum: number(Number::CheckSum) as u32,
        id: fields.number(Number::Id).unwrap_or(-1) as i32,
        kind: number(Number::Type) as i32,
        streamer_type: fields.number(Number::StreamerType).unwrap_or(-1) as i32,
    })
}

impl<'a> RecordReader<'a, '_> {
    /// Returns the plan for a class. The class version is in its header; without one, the checksum that follows
    /// identifies it.
    fn plan(&mut self, class: &str, version: u16) -> Option<Arc<[Step]>> {
        let checksum = if version == 0 { Some(self.cursor.u32().ok()?) } else { None };
        let key = checksum.map_or(u64::from(version), |sum| u64::from(sum) | 1 << 32);
        if let Some(plan) = self.plans.iter().find(|p| p.key == key && p.class == class) {
            return Some(plan.steps.clone());
        }
        let version = i32::from(version);
        let info = match checksum {
            Some(checksum) => self.classes.find_checksum(class, checksum)?,
            None => self.classes.find(class, version).or_else(|| builtin::classes().find(class, version))?,
        };
        let steps: Arc<[Step]> = plan(info)?.into();
        self.plans.push(ClassPlan { class: info.name.clone(), key, steps: steps.clone() });
        Some(steps)
    }

    /// Reads an object with its version header.
    fn object(&mut self, class: &str, to: &mut Fields<'a>, index: Option<usize>) -> Option<()> {
        let frame = self.cursor.frame().ok()?;
        let steps = self.plan(class, frame.version).filter(|_| !frame.member_wise)?;
        for step in steps.iter() {
            self.step(step, to, index)?;
        }
        (frame.end == Some(self.cursor.pos())).then_some(())
    }

    fn step(&mut self, step: &Step, to: &mut Fields<'a>, index: Option<usize>) -> Option<()> {
        match step {
            Step::Skip(bytes) => self.cursor.skip(*bytes).ok(),
            Step::Number(kind, field) => {
                let value = number(&mut self.cursor, *kind)?;
                *to.numbers.get_mut(*field as usize)? = Some(value);
                Some(())
            }
            Step::Text(field) => {
                let bytes = self.cursor.string_bytes().ok()?;
                if let Some(field) = field {
                    *to.texts.get_mut(*field as usize)? = Some(bytes);
                }
                Some(())
            }
            Step::Counted(kind, counter, field) => {
                let count = usize::try_from(to.number(*counter)?).ok()?;
                if self.cursor.u8().ok()? != 1 {
                    // Not set, or 64-bit positions where the type says 32 bits.
                    return None;
                }
                let bytes = self.cursor.take(count.checked_mul(size(*kind)?)?).ok()?;
                let Some(field) = field else { return Some(()) };
                // The slots after the written baskets are unused.
                let used = usize::try_from(to.number(Number::WriteBasket)?).ok()?.saturating_add(1);
                let mut values = Cursor::new(bytes, 0);
                let array = to.arrays.get_mut(*field as usize)?;
                array.clear();
                for _ in 0..count.min(used) {
                    array.push(number(&mut values, *kind)?);
                }
                Some(())
            }
            Step::List(part) => self.list(*part, to, index),
            Step::TObject => self.cursor.object_bits().ok().map(|_| ()),
            Step::Object(class) => self.object(class, to, index),
            Step::Pointer(counter) => match self.cursor.pointer().ok()? {
                Pointer::Null => Some(()),
                Pointer::Seen(reference) => {
                    if *counter {
                        to.counter = reference;
                    }
                    Some(())
                }
                Pointer::New { class, reference, end } if *counter => {
                    let leaf = self.leaf(class, reference, end)?;
                    self.early.insert(reference, leaf);
                    to.counter = reference;
                    Some(())
                }
                Pointer::New { .. } => None,
            },
        }
    }

    /// Reads a `TObjArray` of branches, of leaves, or of baskets (which must be empty).
    fn list(&mut self, part: Part, to: &mut Fields<'a>, index: Option<usize>) -> Option<()> {
        let frame = self.cursor.frame().ok()?;
        if frame.version != 3 {
            return None;
        }
        self.cursor.object_bits().ok()?;
        self.cursor.string_bytes().ok()?;
        let count = self.cursor.count(4).ok()?;
        self.cursor.skip(4).ok()?;
        for _ in 0..count {
            match (self.cursor.pointer().ok()?, part) {
                (Pointer::Null, Part::Baskets) => {}
                (Pointer::New { class, end, .. }, Part::Branches) => {
                    let child = self.branch(class, end, index)?;
                    to.children.try_push(child).ok()?;
                }
                (Pointer::New { class, reference, end }, Part::Leaves) => {
                    let leaf = self.leaf(class, reference, end)?;
                    to.leaves.try_push(leaf).ok()?;
                }
                (Pointer::Seen(reference), Part::Leaves) => to.leaves.push(self.early.remove(&reference)?),
                _ => return None,
            }
        }
        (frame.end == Some(self.cursor.pos())).then_some(())
    }

    fn class(&mut self, tag: ClassTag) -> Option<Name> {
        match tag {
            ClassTag::Named { name, reference } => {
                let name = Name::from(name);
                self.named.insert(reference, name.clone());
                Some(name)
            }
            ClassTag::Seen(reference) => self.named.get(&reference).cloned(),
        }
    }

    fn leaf(&mut self, tag: ClassTag, reference: u64, end: Option<usize>) -> Option<Leaf> {
        let class = self.class(tag).filter(|class| class.starts_with("TLeaf"))?;
        self.depth += 1;
        let mut fields = Fields::default();
        let read = self.depth < DEEPEST && self.object(&class, &mut fields, None).is_some();
        self.depth -= 1;
        let whole = read && end == Some(self.cursor.pos());
        if !whole {
            return None;
        }
        Some(Leaf {
            class: class.to_string(),
            name: fields.text(Text::Name).ok()?,
            title: fields.text(Text::Title).ok()?,
            length: fields.number(Number::Len).unwrap_or(1),
            width: fields.number(Number::LenType).unwrap_or(0),
            unsigned: fields.number(Number::IsUnsigned).unwrap_or(0) != 0,
            counted: fields.counter != 0,
            kind: fields.number(Number::Type).unwrap_or(-1) as i32,
            named: fields.number(Number::Virtual).unwrap_or(1) != 0,
            maximum: fields.number(Number::Maximum).unwrap_or(0),
            reference,
            counter: fields.counter,
        })
    }

    fn branch(&mut self, tag: ClassTag, end: Option<usize>, parent: Option<usize>) -> Option<usize> {
        let class = self.class(tag)?;
        let is_element = class == "TBranchElement";
        if !is_element && class != "TBranch" || self.depth >= DEEPEST {
            return None;
        }
        let index = self.branches.len();
        // A branch comes before its children.
        self.branches.try_push(Branch::default()).ok()?;
        self.depth += 1;
        let mut fields = Fields { arrays: self.spare.pop().unwrap_or_default(), ..Fields::default() };
        self.object(&class, &mut fields, Some(index))?;
        self.depth -= 1;
        if end != Some(self.cursor.pos()) {
            return None;
        }
        let (children, leaves) = (std::mem::take(&mut fields.children), std::mem::take(&mut fields.leaves));
        let number = |which| fields.number(which).unwrap_or(0);
        let entries = u64::try_from(number(Number::Entries)).ok()?;
        let found = baskets(
            [fields.array(Array::Entry), fields.array(Array::Bytes), fields.array(Array::Seek)],
            usize::try_from(number(Number::WriteBasket)).unwrap_or(0),
            entries,
            |_| Ok(None),
        );
        let branch = Branch {
            name: fields.text(Text::Name).ok()?,
            title: fields.text(Text::Title).ok()?,
            class: class.to_string(),
            parent,
            children,
            counter: None,
            entries,
            total_bytes: unsigned(number(Number::TotBytes)),
            compressed_bytes: unsigned(number(Number::ZipBytes)),
            compression: number(Number::Compress),
            baskets: found.ok()?,
            element: if is_element { Some(element(&fields)?) } else { None },
            other_file: fields.text(Text::FileName).ok()?,
            maximum: number(Number::Maximum),
            offsets_from_counter: number(Number::IoBits) & 1 != 0,
            leaves,
        };
        fields.arrays.iter_mut().for_each(Vec::clear);
        self.spare.push(fields.arrays);
        *self.branches.get_mut(index)? = branch;
        Some(index)
    }
}

/// Bytes of a basic type; status bits have a variable length.
fn size(kind: i32) -> Option<usize> {
    crate::types::Number::of_code(kind).filter(|_| kind != 15).map(crate::types::Number::size)
}

fn number(c: &mut Cursor<'_>, kind: i32) -> Option<i64> {
    match kind {
        1 | 10 => c.i8().ok().map(i64::from),
        2 => c.i16().ok().map(i64::from),
        3 | 6 => c.i32().ok().map(i64::from),
        4 | 16 => c.i64().ok(),
        5 => c.f32().ok().map(|v| v as i64),
        8 => c.f64().ok().map(|v| v as i64),
        11 => c.u8().ok().map(i64::from),
        12 => c.u16().ok().map(i64::from),
        13 => c.u32().ok().map(i64::from),
        14 | 17 => c.u64().ok().and_then(|v| i64::try_from(v).ok()),
        18 => c.u8().ok().map(|v| i64::from(v != 0)),
        _ => None,
    }
}

/// Returns the steps of a class if it has nothing unusual.
fn plan(info: &StreamerInfo) -> Option<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    for e in &info.elements {
        if e.class == ElementClass::Artificial || e.kind == -1 {
            continue;
        }
        let next = step(e)?;
        match (steps.last_mut(), next) {
            (Some(Step::Skip(before)), Step::Skip(bytes)) => *before += bytes,
            (_, next) => steps.push(next),
        }
    }
    Some(steps)
}

fn step(e: &Element) -> Option<Step> {
    let name = &*e.name;
    let length = usize::try_from(e.array_length).ok()?;
    Some(match e.kind {
        _ if e.class == ElementClass::Base && name == "TObject" => Step::TObject,
        _ if e.class == ElementClass::Base => Step::Object(e.name.clone()),
        65 => Step::Text(Text::of(name)),
        1..=18 => match Number::of(name) {
            // Only the size of packed numbers matters here.
            Some(Number::Maximum) if e.kind == 9 => Step::Skip(size(e.kind)?),
            Some(field) => size(e.kind).map(|_| Step::Number(e.kind, field))?,
            None => Step::Skip(size(e.kind)?),
        },
        21..=38 => Step::Skip(size(e.kind - 20)?.checked_mul(length)?),
        41..=58 if length == 0 => Step::Counted(e.kind - 40, Number::of(&e.count_name)?, Array::of(name)),
        61 | 62 if e.typename == "TObjArray" && length == 0 => Step::List(Part::of(name)?),
        61 | 62 if e.typename == "ROOT::TIOFeatures" && length == 0 => {
            Step::Object(e.typename.clone().into())
        }
        64 if length == 0 => Step::Pointer(name == "fLeafCount"),
        _ => return None,
    })
}
