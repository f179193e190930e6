//! Trees: where entries are stored and how they become columns.
//!
//! A tree (`TTree`) has branches. A branch stores its values in baskets, each with some entries. [`Tree::read`] finds
//! them, and [`program`] compiles the decoding of a branch's entries. Trees implement [`crate::table::Table`] and are
//! read by [`crate::read`].

pub mod basket;
mod decode;
mod describe;
mod longest;
mod plan;
pub mod program;
mod shape;
pub mod writer;

pub use program::{BranchProgram, Framing};

use crate::error::{Error, ErrorKind, Result, Within};
use crate::file::{Key, RootFile};
use crate::streamer::compile::{Hidden, Programs};
use crate::streamer::name::Name;
use crate::streamer::{Classes, Object, ObjectReader, Value};
use crate::table::{Page, PageCache};
use crate::wire::Cursor;
use crate::wire::grow::{self, Grow};
use basket::Embedded;
use program::{BranchReader, Readers};
use sapwood_io::{Cause, lock};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock};

/// A tree, opened for reading.
pub struct Tree {
    /// The file that contains it.
    pub file: Arc<RootFile>,
    /// Name.
    pub name: String,
    /// Title.
    pub title: String,
    /// `TTree`, `TNtuple` or `TNtupleD`.
    pub classname: String,
    /// Entries (`fEntries`).
    pub entries: u64,
    /// Bytes of all baskets before compression (`fTotBytes`).
    pub total_bytes: u64,
    /// Bytes of all baskets after compression (`fZipBytes`).
    pub compressed_bytes: u64,
    /// Entries (positive) or bytes (negative) after which baskets are flushed (`fAutoFlush`).
    pub auto_flush: i64,
    /// Aliases, for use in expressions (`fAliases`).
    pub aliases: Vec<(String, String)>,
    /// Friend trees (`fFriends`).
    pub friends: Vec<Friend>,
    /// The two expressions of its index (`fTreeIndex`).
    pub index: Option<(String, String)>,
    /// Factor of its entries in histograms (`fWeight`).
    pub weight: f64,
    /// Branches, depth first, a parent before its children.
    pub branches: Vec<Branch>,
    clusters: Vec<(u64, u64)>,
    cluster_size: u64,
    classes: Arc<Classes>,
    /// Shared by trees of one shape that were compared.
    readers: OnceLock<Arc<Readers>>,
    /// Readers of the last read that left out objects of some classes.
    without: Mutex<Option<Arc<Readers>>>,
    page_cache: PageCache,
    /// Its key in the file.
    key: Option<Key>,
}

/// A friend: a tree whose entries belong to those of this tree (`TFriendElement`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Friend {
    /// Prefix for its branches (`fName`).
    pub name: String,
    /// Path or URL of its file at the time the friend was added (`fTitle`); empty for the file of the tree itself.
    pub file: String,
    /// Path of the tree in its file (`fTreeName`).
    pub tree: String,
}

/// A branch of a tree.
#[derive(Debug, Default)]
pub struct Branch {
    /// Name (`fName`).
    pub name: String,
    /// Title (`fTitle`).
    pub title: String,
    /// Class of the branch: `TBranch`, `TBranchElement`, …
    pub class: String,
    /// Index of the parent branch.
    pub parent: Option<usize>,
    /// Indices of the child branches.
    pub children: Vec<usize>,
    /// Its leaves.
    pub leaves: Vec<Leaf>,
    /// The branch that counts the elements of this one.
    pub counter: Option<usize>,
    /// Entries (`fEntries`).
    pub entries: u64,
    /// Bytes before compression (`fTotBytes`).
    pub total_bytes: u64,
    /// Bytes after compression (`fZipBytes`).
    pub compressed_bytes: u64,
    /// Compression setting (`fCompress`).
    pub compression: i64,
    /// Baskets in order of entries.
    pub baskets: Vec<Basket>,
    /// Members of a `TBranchElement`.
    pub element: Option<BranchElement>,
    /// The file that holds the baskets, if it is another one (`fFileName`).
    pub other_file: String,
    /// Largest number of elements of a split list (`fMaximum` of a `TBranchElement`).
    pub maximum: i64,
    /// Whether baskets omit the table of entry offsets; the counter determines them
    /// (`TIOFeatures::kGenerateOffsetMap`).
    pub offsets_from_counter: bool,
}

/// The additional members of a `TBranchElement`.
#[derive(Debug, Clone, PartialEq)]
pub struct BranchElement {
    /// The class that the branch holds, or whose member it holds (`fClassName`).
    pub class_name: String,
    /// Class of the elements of a `TClonesArray` (`fClonesName`).
    pub clones_name: String,
    /// Version of that class (`fClassVersion`).
    pub class_version: i32,
    /// Checksum of that class (`fCheckSum`).
    pub checksum: u32,
    /// Index of the member in the class; negative for the whole object (`fID`).
    pub id: i32,
    /// Type of the branch (`fType`): 0 leaf, 1 base, 2 object, 3 and 31 `TClonesArray` and its parts, 4 and 41 STL
    /// collection and its parts.
    pub kind: i32,
    /// Streamer type of the member (`fStreamerType`).
    pub streamer_type: i32,
}

/// A leaf of a branch.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Class: `TLeafI`, `TLeafElement`, …
    pub class: String,
    /// Name.
    pub name: String,
    /// Title, with the dimensions.
    pub title: String,
    /// Fixed number of elements in a value (`fLen`).
    pub length: i64,
    /// Bytes of an element (`fLenType`).
    pub width: i64,
    /// Unsigned (`fIsUnsigned`).
    pub unsigned: bool,
    /// Whether another leaf counts this one.
    pub counted: bool,
    /// Streamer type of a `TLeafElement` (`fType`).
    pub kind: i32,
    /// Whether the class name precedes each object of a `TLeafObject` (`fVirtual`).
    pub named: bool,
    /// Largest value of an integer leaf that counts others (`fMaximum`).
    pub maximum: i64,
    reference: u64,
    counter: u64,
}

/// A basket: some entries of a branch.
#[derive(Debug, Clone)]
pub struct Basket {
    /// First entry.
    pub first: u64,
    /// Number of entries.
    pub entries: u64,
    /// Location of the values.
    pub place: BasketPlace,
}

/// Location of a basket's values.
#[derive(Debug, Clone)]
pub enum BasketPlace {
    /// A record of the file: offset and length.
    File(u64, u64),
    /// Inside the tree object.
    Tree(Arc<Embedded>),
    /// Not stored: the branch did not exist yet, and nothing was to be written to it.
    Nowhere,
}

impl Basket {
    /// Start of the record; 0 for a basket inside the tree object.
    pub fn seek(&self) -> u64 {
        if let BasketPlace::File(seek, _) = self.place { seek } else { 0 }
    }
    /// Bytes of the record.
    pub fn bytes(&self) -> u64 {
        if let BasketPlace::File(_, bytes) = self.place { bytes } else { 0 }
    }
    /// Bytes of key, values and offsets of a basket inside the tree object, else 0.
    pub fn bytes_inside(&self) -> u64 {
        if let BasketPlace::Tree(basket) = &self.place { basket.bytes() } else { 0 }
    }
    /// Fetches and decompresses the values; returns `None` for a basket that is not stored.
    pub fn with_page<T>(
        &self,
        file: &RootFile,
        work: impl FnOnce(&Page<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        match &self.place {
            BasketPlace::Nowhere => Ok(None),
            BasketPlace::Tree(values) => work(&values.page()).map(Some),
            BasketPlace::File(offset, length) => {
                let record = file.records(*offset, *length, Cause::Page)?;
                let mut scratch = Vec::new();
                let unpacked = basket::unpack(&record, *offset, &mut scratch)?;
                work(&unpacked.page(if unpacked.in_scratch { &scratch } else { &record })).map(Some)
            }
        }
    }
}

/// Reads the branches of a tree, or returns `None` to read them like other objects.
type Describe = fn(&mut Cursor<'_>, &mut HashMap<u64, Name>, &Classes) -> Option<Vec<Branch>>;

/// Refuses baskets that overlap too much to be in a file of `size` bytes. A small file could otherwise be read again
/// and again.
fn verify_places(branches: &[Branch], size: u64) -> Result<()> {
    let mut total = 0_u64;
    for branch in branches.iter().filter(|b| b.other_file.is_empty()) {
        for basket in &branch.baskets {
            let (seek, bytes) = (basket.seek(), basket.bytes());
            // In a truncated file, baskets past the end are missing.
            if seek.checked_add(bytes).is_some_and(|end| end <= size) {
                total = total.saturating_add(bytes);
            }
            if total > size {
                let text = format!(
                    "baskets overlap: those up to byte {seek} have more bytes than the file ({size})"
                );
                return Err(Error::corrupt(text).within(format!("branch {}", branch.name)).at(seek));
            }
        }
    }
    Ok(())
}

impl Tree {
    /// Reads the tree of a key.
    pub fn read(file: &Arc<RootFile>, key: &Key) -> Result<Self> {
        Self::read_by(file, key, describe::branches)
    }

    /// Reads the tree of a key; the branches by `describe`, if that returns any.
    fn read_by(file: &Arc<RootFile>, key: &Key, describe: Describe) -> Result<Self> {
        let place = || format!("tree {};{} of {}", key.name, key.cycle, file.name());
        let origin = u64::from(key.key_bytes);
        let classes = file.classes()?;
        let payload = file.object(key)?;
        let tree = Self::decode_by(file, &classes, &key.classname, &payload, origin, describe);
        Ok(Self { key: Some(key.clone()), ..tree.within(place)? })
    }

    /// Decodes the object of a tree's key. References count its first byte as byte `origin`.
    pub fn decode(
        file: &Arc<RootFile>,
        classes: &Arc<Classes>,
        class: &str,
        payload: &[u8],
        origin: u64,
    ) -> Result<Self> {
        Self::decode_by(file, classes, class, payload, origin, describe::branches)
    }

    fn decode_by(
        file: &Arc<RootFile>,
        classes: &Arc<Classes>,
        class: &str,
        payload: &[u8],
        origin: u64,
        describe: Describe,
    ) -> Result<Self> {
        let mut reader = ObjectReader::new(classes, payload, origin);
        reader.wanted = wanted;
        let mut branches = None;
        let mut instead =
            |class: &str, member: &str, cursor: &mut Cursor<'_>, named: &mut HashMap<u64, Name>| {
                if class != "TTree" || member != "fBranches" {
                    return false;
                }
                branches = describe(cursor, named, classes);
                branches.is_some()
            };
        reader.instead = Some(&mut instead);
        let object = reader.object(class)?;
        if let Some(why) = &object.unreadable {
            return Err(why.clone());
        }
        Self::parse(file.clone(), classes.clone(), &object, branches)
    }

    /// Extracts branches and baskets from a tree that was read as an object, unless the branches are known already.
    fn parse(
        file: Arc<RootFile>,
        classes: Arc<Classes>,
        object: &Object,
        branches: Option<Vec<Branch>>,
    ) -> Result<Self> {
        let members = ["fEntries", "fAutoFlush", "fClusterRangeEnd", "fClusterSize", "fAliases"];
        complete(object, &members)?;
        let known = branches.is_some();
        described(object, if known { &["fEntries"] } else { &["fEntries", "fBranches"] })?;
        let mut branches = branches.unwrap_or_default();
        if !known {
            let mut added = HashSet::new();
            for branch in parts(object, "fBranches")? {
                add_branch(&mut branches, &mut added, branch, None)?;
            }
        }
        link_counters(&mut branches)?;
        verify_places(&branches, file.source().size())?;
        let aliases = object.list("fAliases").iter().filter_map(|v| match v {
            Value::Object(o) => Some((o.text("fName")?.to_owned(), o.text("fTitle")?.to_owned())),
            _ => None,
        });
        let friends = object.list("fFriends").iter().filter_map(|v| match v {
            Value::Object(o) => Some(Friend {
                name: o.text("fName")?.to_owned(),
                file: o.text("fTitle")?.to_owned(),
                tree: o.text("fTreeName")?.to_owned(),
            }),
            _ => None,
        });
        let index = match object.get("fTreeIndex") {
            Some(Value::Object(o)) => o.text("fMajorName").zip(o.text("fMinorName")),
            _ => None,
        };
        let ends = object.ints("fClusterRangeEnd");
        let sizes = object.ints("fClusterSize");
        let auto_flush = object.int("fAutoFlush").unwrap_or(0);
        Ok(Self {
            name: object.text("fName").unwrap_or_default().to_owned(),
            title: object.text("fTitle").unwrap_or_default().to_owned(),
            classname: object.class.to_string(),
            entries: tree_entries(object)?,
            total_bytes: unsigned(object.int("fTotBytes").unwrap_or(0)),
            compressed_bytes: unsigned(object.int("fZipBytes").unwrap_or(0)),
            auto_flush,
            aliases: aliases.collect(),
            friends: friends.collect(),
            index: index.map(|(major, minor)| (major.to_owned(), minor.to_owned())),
            weight: object.get("fWeight").map_or(1.0, |weight| match weight {
                Value::Float(weight) => *weight,
                _ => 1.0,
            }),
            clusters: ends.iter().zip(&sizes).map(|(&e, &s)| (unsigned(e) + 1, unsigned(s))).collect(),
            cluster_size: unsigned(auto_flush),
            classes,
            readers: OnceLock::new(),
            without: Mutex::default(),
            branches,
            page_cache: PageCache::default(),
            key: None,
            file,
        })
    }

    /// Returns the first entry of each cluster, then the end. All branches have a basket border there.
    ///
    /// The borders come from the recorded cluster ranges (`fClusterRangeEnd`, `fClusterSize`, `fAutoFlush`). A tree
    /// without ranges has the borders that all its branches share.
    pub fn cluster_borders(&self) -> Vec<u64> {
        // Each branch has at least one basket in each cluster.
        let most = self.branches.iter().map(|b| b.baskets.len()).max().unwrap_or(0) as u64;
        let mut borders = vec![0];
        let mut start = 0;
        let ranges = self.clusters.iter().copied().chain([(self.entries, self.cluster_size)]);
        for (end, size) in ranges {
            let end = end.min(self.entries);
            let more = end.saturating_sub(start).checked_div(size);
            if more.is_none_or(|more| more.saturating_add(borders.len() as u64) > most.saturating_add(1)) {
                return self.shared_borders();
            }
            while start < end {
                start = start.saturating_add(size).min(end);
                borders.push(start);
            }
        }
        borders
    }

    fn shared_borders(&self) -> Vec<u64> {
        let mut counts: HashMap<u64, usize> = HashMap::new();
        let mut branches = 0;
        for branch in self.branches.iter().filter(|b| !b.baskets.is_empty()) {
            branches += 1;
            for basket in &branch.baskets {
                *counts.entry(basket.first).or_default() += 1;
            }
        }
        let shared = counts.into_iter().filter(|&(entry, n)| n == branches && entry < self.entries);
        let mut borders: Vec<u64> = shared.map(|(entry, _)| entry).chain([0]).collect();
        borders.sort_unstable();
        borders.dedup();
        if self.entries > 0 {
            borders.push(self.entries);
        }
        borders
    }

    /// Returns the decoding program of a branch; it is compiled at first use.
    pub fn program(&self, branch: usize) -> Result<&BranchProgram> {
        Ok(&self.readers().get(self, branch)?.program)
    }

    /// Returns the values of a basket. If a table gives them, also returns the starts of the entries and the end of the
    /// last one.
    pub fn contents(&self, branch: usize, number: usize) -> Result<(Vec<u8>, Option<Vec<u32>>)> {
        let missing = || Error::argument(format!("branch {branch} has no basket {number}"));
        let found = self.branches.get(branch).ok_or_else(missing)?;
        let basket = found.baskets.get(number).ok_or_else(missing)?;
        let why = |why: String| Error::unsupported(why).within(format!("branch {}", found.name));
        if !found.other_file.is_empty() {
            return Err(why(format!("its baskets are in another file, {}", found.other_file)));
        }
        let copied = basket.with_page(&self.file, |page| Ok((page.data.to_vec(), page.bounds()?)));
        let copied = copied.within(|| format!("basket {number} of branch {}", found.name))?;
        copied.ok_or_else(|| why(format!("basket {number} stands for entries that were never written")))
    }

    /// Returns a branch compiled without the objects of hidden classes.
    fn compiled_reader(&self, branch: usize, hidden: &Hidden) -> Result<Arc<BranchReader>> {
        if hidden.is_empty() {
            return self.readers().get(self, branch).cloned();
        }
        let mut kept = lock(&self.without);
        let readers = kept.as_ref().filter(|readers| readers.hidden() == hidden).cloned();
        let readers = readers.unwrap_or_else(|| {
            let programs = self.programs().without(hidden.clone());
            kept.insert(Arc::new(Readers::new(programs, self.branches.len()))).clone()
        });
        drop(kept);
        readers.get(self, branch).cloned()
    }

    /// Readers of its branches.
    fn readers(&self) -> &Arc<Readers> {
        let new = || Arc::new(Readers::new(Programs::new(self.classes.clone()), self.branches.len()));
        self.readers.get_or_init(new)
    }

    /// Classes of the file.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Programs of the classes of the file.
    pub fn programs(&self) -> &Programs {
        self.readers().programs()
    }

    /// Names from the top branch down, joined with slashes.
    pub fn path(&self, branch: usize) -> String {
        let Some(found) = self.branches.get(branch) else { return String::new() };
        match found.parent {
            Some(parent) => format!("{}/{}", self.path(parent), found.name),
            None => found.name.clone(),
        }
    }
}

/// The members used of the most frequent objects in a tree: trees of 10,000 branches are common.
fn wanted(class: &str) -> Option<&'static [&'static str]> {
    if class.starts_with("TBranch") {
        return Some(&[
            "fName",
            "fTitle",
            "fBranches",
            "fLeaves",
            "fBaskets",
            "fBasketBytes",
            "fBasketEntry",
            "fBasketSeek",
            "fWriteBasket",
            "fEntries",
            "fTotBytes",
            "fZipBytes",
            "fCompress",
            "fFileName",
            "fIOFeatures",
            "fClassName",
            "fClonesName",
            "fClassVersion",
            "fCheckSum",
            "fID",
            "fType",
            "fStreamerType",
            "fMaximum",
        ]);
    }
    let leaf = class.starts_with("TLeaf");
    leaf.then_some(&[
        "fName",
        "fTitle",
        "fLen",
        "fLenType",
        "fIsUnsigned",
        "fLeafCount",
        "fType",
        "fVirtual",
        "fMaximum",
    ])
}

/// Fails if a member could not be read: a tree with a partly unreadable description would look like a smaller one.
fn complete(object: &Object, members: &[&str]) -> Result<()> {
    if let Some(why) = &object.unreadable {
        return Err(why.clone());
    }
    for base in &object.bases {
        complete(base, members)?;
    }
    for (name, value) in object.members.iter().filter(|(name, _)| members.contains(&&**name)) {
        let why = match value {
            Value::Unreadable(why) => Some(why),
            Value::Object(object) => object.unreadable.as_ref(),
            _ => None,
        };
        if let Some(why) = why {
            return Err(why.clone().within(format!("member {name}")));
        }
    }
    Ok(())
}

/// Maximum nesting depth of branches.
const DEEPEST_BRANCH: usize = 200;

/// Returns the branches or leaves in a member.
fn parts<'a>(object: &'a Object, member: &str) -> Result<Vec<&'a Arc<Object>>> {
    complete(object, &[member])?;
    let part = |(i, value): (usize, &'a Value)| match value {
        Value::Object(part) => Ok(&**part),
        Value::Unreadable(why) => Err(why.clone().within(format!("element {i} of {member}"))),
        _ => Err(Error::corrupt(format!("element {i} of {member} is not an object"))),
    };
    object.list(member).iter().enumerate().map(part).collect()
}

/// Returns a count, with zero for a negative one.
fn unsigned(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}

/// Returns an error if the description of a class names none of its members like this.
fn described(object: &Object, members: &[&str]) -> Result<()> {
    match members.iter().find(|member| object.get(member).is_none()) {
        Some(member) => {
            Err(Error::corrupt(format!("{} is described without its member {member}", object.class)))
        }
        None => Ok(()),
    }
}

fn tree_entries(object: &Object) -> Result<u64> {
    let entries = match object.get("fEntries") {
        // Old versions stored counts as doubles.
        Some(Value::Float(v)) => *v as i64,
        _ => object.int("fEntries").unwrap_or(0),
    };
    u64::try_from(entries).map_err(|_| Error::corrupt(format!("a tree with {entries} entries")))
}

/// Adds a branch and those below it; returns its index. `added` holds the references of all branches so far: a branch
/// that is listed again is left out, because the copies of those below it could be without number.
fn add_branch(
    branches: &mut Vec<Branch>,
    added: &mut HashSet<u64>,
    object: &Arc<Object>,
    parent: Option<usize>,
) -> Result<Option<usize>> {
    if object.reference != 0 && !added.insert(object.reference) {
        return Ok(None);
    }
    let index = branches.len();
    let name = object.text("fName").unwrap_or_default().to_owned();
    let place = || format!("branch {name}");
    let above = |place: &Option<usize>| branches.get((*place)?)?.parent.map(Some);
    if std::iter::successors(Some(parent), above).nth(DEEPEST_BRANCH).is_some() {
        return Err(Error::limit(format!("branches nest deeper than {DEEPEST_BRANCH}")).within(place()));
    }
    let members = ["fEntries", "fBaskets", "fBasketEntry", "fBasketBytes", "fBasketSeek", "fWriteBasket"];
    complete(object, &members).within(place)?;
    described(object, &["fName", "fEntries", "fLeaves", "fBasketSeek"]).within(place)?;
    let leaves = parts(object, "fLeaves").and_then(|found| found.into_iter().map(leaf).collect());
    let leaves: Vec<Leaf> = leaves.within(place)?;
    let is_element = object.get("fClassName").is_some();
    let element = is_element.then(|| BranchElement {
        class_name: object.text("fClassName").unwrap_or_default().to_owned(),
        clones_name: object.text("fClonesName").unwrap_or_default().to_owned(),
        class_version: object.int("fClassVersion").unwrap_or(0) as i32,
        checksum: object.int("fCheckSum").unwrap_or(0) as u32,
        id: object.int("fID").unwrap_or(-1) as i32,
        kind: object.int("fType").unwrap_or(0) as i32,
        streamer_type: object.int("fStreamerType").unwrap_or(-1) as i32,
    });
    let int = |name: &str| match object.get(name) {
        Some(Value::Float(v)) => *v as i64,
        _ => object.int(name).unwrap_or(0),
    };
    let count = |name: &str| unsigned(int(name));
    let entries = int("fEntries");
    let entries = u64::try_from(entries)
        .map_err(|_| Error::corrupt(format!("a branch with {entries} entries")).within(place()))?;
    let inside = object.list("fBaskets");
    let found = baskets(
        [&object.ints("fBasketEntry"), &object.ints("fBasketBytes"), &object.ints("fBasketSeek")],
        usize::try_from(object.int("fWriteBasket").unwrap_or(0)).unwrap_or(0),
        entries,
        |i| match inside.get(i) {
            Some(Value::Object(basket)) => Embedded::from_members(&basket.members).map(Some),
            _ => Ok(None),
        },
    );
    let mut found = found.within(place)?;
    let mut entries = entries;
    // A sub-branch of pointers is created with the first object of its class.
    let mut up = parent.and_then(|p| branches.get(p));
    while let Some(above) = up.filter(|above| above.class != program::POINTERS) {
        up = above.parent.and_then(|p| branches.get(p));
    }
    if let (Some(_), Some(first)) = (up, found.first().map(|b| b.first).filter(|&first| first > 0)) {
        found.insert(0, Basket { first: 0, entries: first, place: BasketPlace::Nowhere });
        entries = entries.saturating_add(first);
    }
    let branch = Branch {
        title: object.text("fTitle").unwrap_or_default().to_owned(),
        class: object.class.to_string(),
        parent,
        children: Vec::new(),
        leaves,
        counter: None,
        entries,
        total_bytes: count("fTotBytes"),
        compressed_bytes: count("fZipBytes"),
        compression: int("fCompress"),
        baskets: found,
        element,
        other_file: object.text("fFileName").unwrap_or_default().to_owned(),
        maximum: object.int("fMaximum").unwrap_or(0),
        offsets_from_counter: matches!(object.get("fIOFeatures"), Some(Value::Object(f)) if f.int("fIOBits").unwrap_or(0) & 1 != 0),
        name,
    };
    branches.try_push(branch)?;
    for child in parts(object, "fBranches")
        .within(|| format!("branch {}", object.text("fName").unwrap_or_default()))?
    {
        let child = add_branch(branches, added, child, Some(index))?;
        if let Some(branch) = branches.get_mut(index) {
            branch.children.room(1)?;
            branch.children.extend(child);
        }
    }
    Ok(Some(index))
}

fn leaf(o: &Arc<Object>) -> Result<Leaf> {
    match complete(o, &["fLeafCount"]) {
        // An unknown class of leaves affects its own branch only.
        Err(why) if why.kind() != ErrorKind::Unsupported => return Err(why),
        _ => {}
    }
    let counter = match o.get("fLeafCount") {
        Some(Value::Object(counter)) => counter.reference,
        Some(Value::Seen(reference)) => *reference,
        _ => 0,
    };
    Ok(Leaf {
        class: o.class.to_string(),
        name: o.text("fName").unwrap_or_default().to_owned(),
        title: o.text("fTitle").unwrap_or_default().to_owned(),
        length: o.int("fLen").unwrap_or(1),
        width: o.int("fLenType").unwrap_or(0),
        unsigned: o.int("fIsUnsigned").unwrap_or(0) != 0,
        counted: counter != 0,
        kind: o.int("fType").unwrap_or(-1) as i32,
        named: o.int("fVirtual").unwrap_or(1) != 0,
        maximum: o.int("fMaximum").unwrap_or(0),
        reference: o.reference,
        counter,
    })
}

fn link_counters(branches: &mut [Branch]) -> Result<()> {
    let mut leaves: HashMap<u64, usize> = HashMap::new();
    for (index, branch) in branches.iter().enumerate() {
        for leaf in branch.leaves.iter().filter(|l| l.reference != 0) {
            grow::place(&mut leaves)?;
            leaves.insert(leaf.reference, index);
        }
    }
    for index in 0..branches.len() {
        let Some(branch) = branches.get(index) else { continue };
        let by_leaf = branch.leaves.iter().find(|l| l.counted).and_then(|l| leaves.get(&l.counter).copied());
        let part = branch.element.as_ref().is_some_and(|e| matches!(e.kind, 31 | 41));
        // A part of a collection is counted by the branch of the collection, which is one of its ancestors.
        let mut up = branch.parent.filter(|_| part);
        while let Some(parent) = up.and_then(|p| branches.get(p)) {
            if parent.element.as_ref().is_some_and(|e| matches!(e.kind, 3 | 4)) {
                break;
            }
            up = parent.parent;
        }
        if let Some(branch) = branches.get_mut(index) {
            branch.counter = by_leaf.or(up);
        }
    }
    Ok(())
}

/// Returns the baskets of a branch from their first entries, sizes and places (`fBasketEntry`, `fBasketBytes`,
/// `fBasketSeek`). `written` of them are in the file; `embedded` are inside the tree object.
fn baskets(
    [firsts, sizes, seeks]: [&[i64]; 3],
    written: usize,
    entries: u64,
    embedded: impl Fn(usize) -> Result<Option<Option<Embedded>>>,
) -> Result<Vec<Basket>> {
    let mut found: Vec<Basket> = Vec::new();
    for i in 0..firsts.len().min(written.saturating_add(1)) {
        let seek = seeks.get(i).copied().unwrap_or(0);
        let bytes = sizes.get(i).copied().unwrap_or(0);
        let place = match embedded(i)?.filter(|_| seek == 0) {
            Some(Some(basket)) => BasketPlace::Tree(Arc::new(basket)),
            None if seek > 0 && bytes > 0 && i < written => BasketPlace::File(seek as u64, bytes as u64),
            _ => continue,
        };
        let first = firsts.get(i).and_then(|&f| u64::try_from(f).ok());
        let first = first.ok_or_else(|| Error::corrupt(format!("basket {i} starts at a negative entry")))?;
        let next = firsts.get(i + 1).filter(|_| i < written).and_then(|&f| u64::try_from(f).ok());
        let end = match (&place, next) {
            (BasketPlace::Tree(basket), _) => first.saturating_add(basket.entries as u64),
            (_, Some(next)) if next > first => next,
            // A basket without entries, as some merges leave: it is skipped.
            (_, Some(next)) if next == first && i + 1 < written => continue,
            _ => entries,
        };
        if found.last().is_some_and(|l| l.first + l.entries > first) || end < first {
            return Err(Error::corrupt(format!("basket {i} holds entries {first} to {end}, out of order")));
        }
        found.try_push(Basket { first, entries: end - first, place })?;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streamer::object::ITEMS;

    /// Returns a branch with others below it.
    fn branch(reference: u64, below: &[&Arc<Object>]) -> Arc<Object> {
        let items = below.iter().map(|&branch| Value::Object(branch.clone().into())).collect();
        let members = vec![(ITEMS.into(), Value::List(items))];
        let list = Object { class: "TObjArray".into(), members, ..Object::default() };
        let mut members = vec![("fBranches".into(), Value::Object(list.into()))];
        members
            .extend(["fName", "fEntries", "fLeaves", "fBasketSeek"].map(|name| (name.into(), Value::Null)));
        Arc::new(Object { class: "TBranch".into(), reference, members, ..Object::default() })
    }

    fn added(top: &Arc<Object>) -> Result<usize> {
        let mut branches = Vec::new();
        add_branch(&mut branches, &mut HashSet::new(), top, None).map(|_| branches.len())
    }

    #[test]
    fn a_branch_is_part_of_one_branch() {
        let (one, other) = (branch(5, &[]), branch(6, &[]));
        assert_eq!(added(&branch(7, &[&one, &other])).unwrap(), 3);
        // Each of 60 branches twice would be 2^60 branches.
        let top = (6..66).fold(one, |last, reference| branch(reference, &[&last, &last]));
        assert_eq!(added(&top).unwrap(), 61);
    }

    #[test]
    fn branches_below_branches_are_bounded() {
        for (depth, fits) in [(100, true), (100_000, false)] {
            let top = (6..6 + depth).fold(branch(5, &[]), |last, reference| branch(reference, &[&last]));
            assert_eq!(added(&top).map_err(|e| e.kind()).err(), (!fits).then_some(ErrorKind::Limit));
        }
    }
}
