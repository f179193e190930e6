//! A read or a write in which an allocation fails ends in an error, not in an abort. Each is repeated for every
//! allocation, which then fails: alone, with all later ones, or only if it is large ([`reserve::LARGE`]). A small one that
//! fails is taken from the reserve. After a write has failed, the file holds the entries that the error calls safe, and
//! takes further objects.
#![allow(unsafe_code, reason = "an allocator that fails")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "golden files")]

use arrow_buffer::Buffer;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sapwood_io::sink::{MemorySink, Sink};
use sapwood_io::{Memory, Reserve, lock, reserve};
use sapwood_root::array::{Column, Number};
use sapwood_root::compress::encode::{Algorithm, Compression};
use sapwood_root::error::{ErrorKind, Result};
use sapwood_root::file::writer::{CommitEvery, FileWriter, Options, Record, SharedSum, Sums};
use sapwood_root::file::{Directory, Key, RootFile};
use sapwood_root::ntuple::NTuple;
use sapwood_root::ntuple::writer::{FieldSpec, NTupleOptions, NTupleWriter};
use sapwood_root::output::OutputFile;
use sapwood_root::read::{Part, read};
use sapwood_root::streamer::Object;
use sapwood_root::streamer::declare::{Class, Shape};
use sapwood_root::streamer::object::{ObjectReader, Value};
use sapwood_root::table::Table;
use sapwood_root::table::writer::TableWriter;
use sapwood_root::tree::Tree;
use sapwood_root::tree::writer::{BranchKind, BranchSpec, TreeOptions, TreeWriter};
use sapwood_root::zebra::hbook::{self, Histogram};
use sapwood_root::zebra::ntuple::Ntuple;
use sapwood_root::zebra::rz::RzFile;
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

struct Failing;

/// Number of allocations that succeed before one fails; none fails while this is negative.
static LEFT: AtomicIsize = AtomicIsize::new(-1);
/// Whether all allocations after the one that failed fail, too.
static ALL: AtomicBool = AtomicBool::new(false);
/// Smaller allocations do not fail.
static LEAST: AtomicUsize = AtomicUsize::new(0);

/// Whether an allocation fails.
fn fails(size: usize) -> bool {
    if size < LEAST.load(Relaxed) {
        return false;
    }
    match LEFT.load(Relaxed) {
        0 if ALL.load(Relaxed) => true,
        left => left >= 0 && LEFT.fetch_sub(1, Relaxed) == 0,
    }
}

// SAFETY: everything else is handed on to the system's allocator; a null pointer says that there is no memory.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails(size) { std::ptr::null_mut() } else { unsafe { System.realloc(block, layout, size) } }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static FAILING: Reserve<Failing> = Reserve(Failing);

/// A file with a tree of numbers, lists, strings and lists of strings.
fn tree_file() -> Vec<u8> {
    let spec = |name: &str, kind| BranchSpec { name: name.into(), kind, compression: None };
    let object = |shape| BranchKind::Object { shape, split_level: 0, member_wise: false };
    let number = Shape::Number(Number::F32);
    let offsets = |each: usize| Buffer::from_vec((0..=ENTRIES).map(|i| (i * each) as i64).collect());
    let floats = |count: usize| {
        let values: Vec<f32> = (0..count).map(|i| (i % 100) as f32).collect();
        Column::Number { number: Number::F32, values: Buffer::from_vec(values) }
    };
    let list = |values| Column::List { offsets: offsets(3), values: Box::new(values) };
    let text = |count: usize| Column::Text {
        offsets: Buffer::from_vec((0..=count).map(|i| 4 * i as i64).collect()),
        bytes: Buffer::from_vec(b"text".repeat(count)),
    };
    let specs = [
        spec("x", BranchKind::Numbers { number: number.clone(), dims: vec![] }),
        spec("n", BranchKind::Counter),
        spec("j", BranchKind::Counted { number: number.clone(), dims: vec![], counter: 1 }),
        spec("s", BranchKind::Text),
        spec("v", object(Shape::Vector(Box::new(number)))),
        spec("vs", object(Shape::Vector(Box::new(Shape::Text)))),
    ];
    let columns = [
        floats(ENTRIES),
        list(floats(3 * ENTRIES)),
        text(ENTRIES),
        list(floats(3 * ENTRIES)),
        list(text(3 * ENTRIES)),
    ];
    written(&specs, &columns)
}

/// The bytes of the file that is being written. They have room for it before allocations fail.
static KEPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A target that writes to them.
struct Target;

impl Target {
    /// Creates one whose file has these bytes so far.
    fn of(bytes: &[u8]) -> Self {
        let mut kept = lock(&KEPT);
        kept.clear();
        kept.reserve(32 << 20);
        kept.extend_from_slice(bytes);
        Self
    }
}

impl Sink for Target {
    fn write_at(&mut self, offset: u64, parts: &[&[u8]]) -> std::io::Result<()> {
        let mut kept = lock(&KEPT);
        let mut at = offset as usize;
        for part in parts {
            let end = at + part.len();
            if kept.len() < end {
                kept.resize(end, 0);
            }
            kept[at..end].copy_from_slice(part);
            at = end;
        }
        Ok(())
    }
    fn finish(&mut self, length: u64) -> std::io::Result<()> {
        lock(&KEPT).resize(length as usize, 0);
        Ok(())
    }
    fn name(&self) -> &'static str {
        "target"
    }
}

/// Whether two columns have the same values.
fn same(a: &Column, b: &Column) -> bool {
    match (a, b) {
        (Column::Number { values: a, .. }, Column::Number { values: b, .. }) => a == b,
        (Column::Text { offsets: a, bytes: x }, Column::Text { offsets: b, bytes: y }) => (a, x) == (b, y),
        (Column::List { offsets: a, values: x }, Column::List { offsets: b, values: y })
        | (Column::Option { index: a, values: x }, Column::Option { index: b, values: y }) => {
            a == b && same(x, y)
        }
        (Column::FixedList { values: a, .. }, Column::FixedList { values: b, .. }) => same(a, b),
        (Column::Record { fields: a, .. }, Column::Record { fields: b, .. }) => {
            a.len() == b.len() && a.iter().zip(b).all(|((_, a), (_, b))| same(a, b))
        }
        (Column::Union { tags: a, variants: x, .. }, Column::Union { tags: b, variants: y, .. }) => {
            a == b && x.iter().zip(y).all(|(x, y)| same(x, y))
        }
        _ => false,
    }
}

/// The table of a file, if it has one.
fn table(bytes: &[u8]) -> Option<Box<dyn Table>> {
    let file = Arc::new(RootFile::open(Arc::new(Memory::new("memory", bytes.to_vec()))).unwrap());
    file.directory().unwrap().keys.iter().find_map(|key| match key.classname.as_str() {
        "TTree" => Some(Box::new(Tree::read(&file, key).unwrap()) as Box<dyn Table>),
        "ROOT::RNTuple" => Some(Box::new(NTuple::read(&file, key).unwrap()) as Box<dyn Table>),
        _ => None,
    })
}

/// The first entries of a table.
fn entries(pool: &ThreadPool, table: &dyn Table, stop: u64) -> Vec<Column> {
    let fields: Vec<usize> = (0..table.num_fields()).collect();
    read(pool, &[Part { table, fields: &fields, start: 0, stop }]).unwrap()
}

/// Writes a file on the pool. If that fails, writes another object, closes the file and requires that it can be read
/// in full: with as many entries as the writer counted, which are those of the file that was written first.
fn writing(
    pool: &ThreadPool,
    found: &mut Found,
    write: impl FnOnce(&mut Option<OutputFile>) -> Result<()> + Send,
) -> Result<()> {
    static WHOLE: OnceLock<Vec<u8>> = OnceLock::new();
    let mut made = None;
    let result = pool.install(|| {
        write(&mut made)?;
        made.as_mut().map_or(Ok(()), OutputFile::close)
    });
    let left = LEFT.swap(-1, Relaxed);
    match &result {
        Ok(()) => {
            let kept = lock(&KEPT).clone();
            found.values = table(&kept).map_or(kept.len() / 1000, |table| table.entries() as usize);
            WHOLE.get_or_init(|| kept);
        }
        Err(error) => {
            if let Some(mut out) = made {
                if out.check_open().is_ok() {
                    out.file.write_value(0, "after", "", "Bytes", &[7; 1000], Vec::new()).unwrap();
                    out.close().unwrap();
                }
                // A table that did not fail has written what waited.
                let written = out.table(0).map_or(0, TableWriter::entries_written);
                let kept = lock(&KEPT).clone();
                match table(&kept) {
                    Some(table) if out.table(0).is_ok() => {
                        assert_eq!(table.entries(), written, "{error}");
                        let whole = crate::table(WHOLE.get().unwrap()).unwrap();
                        let all = entries(pool, &*whole, written);
                        let some = entries(pool, &*table, written);
                        assert!(all.len() == some.len() && all.iter().zip(&some).all(|(a, b)| same(a, b)));
                    }
                    _ => assert_eq!(written, 0, "{error}"),
                }
                root(pool, &Arc::from(kept), &mut Found::default()).unwrap();
            }
        }
    }
    LEFT.store(left, Relaxed);
    result
}

/// A file whose clusters are committed at the end.
fn create(compression: Compression) -> Result<OutputFile> {
    let options = Options { compression, commit_every: CommitEvery::Never, ..Options::default() };
    FileWriter::create(Box::new(Target::of(&[])), "x.root", options).map(OutputFile::new)
}

const ZSTD: Compression = Compression::Level(Algorithm::Zstd, 5);

/// Writes objects: of a user class, a text and a histogram.
fn write_objects(pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    // They are made before allocations fail.
    static MADE: OnceLock<[Object; 2]> = OnceLock::new();
    let [text, histogram] =
        MADE.get_or_init(|| [object("TObjString", "fString", Value::Text("x".repeat(300_000))), histogram()]);
    writing(pool, found, |made| {
        let out = made.insert(create(Compression::Level(Algorithm::Lz4, 1))?);
        out.file.write_value(0, "o", "", "Bytes", bytes, Vec::new())?;
        out.file.write_object(0, "s", "", text)?;
        out.file.write_object(0, "h", "", histogram)
    })
}

fn object(class: &'static str, member: &'static str, value: Value) -> Object {
    Object { class: class.into(), members: vec![(member.into(), value)], ..Object::default() }
}

/// A histogram with bins of different widths.
fn histogram() -> Object {
    let numbers = |count: usize| {
        Value::Numbers(Number::F64, (0..count).flat_map(|i| (i as f64).to_ne_bytes()).collect())
    };
    let axis = object("TAxis", "fXbins", numbers(20_001));
    let mut made = object("TH1D", "TArrayD", numbers(20_002));
    made.members.push(("fXaxis".into(), Value::Object(axis.into())));
    made.members.push(("fNcells".into(), Value::Int(20_002)));
    made
}

const ENTRIES: usize = 20_000;

/// Columns of all kinds, with the types for trees and for RNTuples.
fn kinds(of_tree: bool) -> Vec<(Shape, Column)> {
    let offsets = |count: usize, each: usize| {
        Buffer::from_vec((0..=count).map(|i| (i * each) as i64).collect::<Vec<_>>())
    };
    // Few repeats, so that large blocks remain after compression.
    let noise = |i: usize| (i as u32).wrapping_mul(2_654_435_761).rotate_left(13);
    let floats = |count: usize| {
        let values: Vec<f32> = (0..count).map(|i| noise(i) as f32).collect();
        Column::Number { number: Number::F32, values: Buffer::from_vec(values) }
    };
    let ints = |count: usize| {
        let values: Vec<i32> = (0..count).map(|i| noise(i) as i32).collect();
        Column::Number { number: Number::I32, values: Buffer::from_vec(values) }
    };
    let text = |count: usize| {
        let bytes: Vec<u8> = (0..4 * count).map(|i| b'a' + (noise(i) >> 20) as u8 % 26).collect();
        Column::Text { offsets: offsets(count, 4), bytes: Buffer::from_vec(bytes) }
    };
    let list = |values| Column::List { offsets: offsets(ENTRIES, 3), values: Box::new(values) };
    let float = || Shape::Number(Number::F32);
    let members = [("a", float(), 0), ("b", Shape::Number(Number::I32), 1), ("c", Shape::Text, 2)];
    let class = |name: &str| {
        let members = members.iter().map(|(name, shape, _)| ((*name).to_owned(), shape.clone())).collect();
        Shape::Class(Class { name: name.to_owned(), version: 1, members })
    };
    let record = |name: &str, count: usize| Column::Record {
        length: count,
        name: name.to_owned(),
        fields: vec![
            ("a".to_owned(), floats(count)),
            ("b".to_owned(), ints(count)),
            ("c".to_owned(), text(count)),
        ],
    };
    let mut kinds = vec![
        (float(), floats(ENTRIES)),
        (Shape::Number(Number::I32), ints(ENTRIES)),
        (Shape::Text, text(ENTRIES)),
        (
            Shape::Array(3, Box::new(float())),
            Column::FixedList { length: ENTRIES, size: 3, values: Box::new(floats(3 * ENTRIES)) },
        ),
        (Shape::Vector(Box::new(float())), list(floats(3 * ENTRIES))),
        (Shape::Vector(Box::new(Shape::Text)), list(text(3 * ENTRIES))),
        (Shape::Vector(Box::new(class("Hit"))), list(record("Hit", 3 * ENTRIES))),
    ];
    if !of_tree {
        let index: Vec<i64> = (0..ENTRIES).map(|i| if i % 2 == 0 { -1 } else { i as i64 }).collect();
        let places: Vec<i64> = (0..ENTRIES as i64).collect();
        let tags: Vec<u8> = (0..ENTRIES).map(|i| (i % 2) as u8).collect();
        let index = Buffer::from_vec(index);
        kinds.push((
            Shape::Optional(Box::new(float())),
            Column::Option { index, values: Box::new(floats(ENTRIES)) },
        ));
        kinds.push((
            Shape::Variant(vec![float(), Shape::Number(Number::I32)]),
            Column::Union {
                tags: Buffer::from_vec(tags),
                index: Buffer::from_vec(places),
                variants: vec![floats(ENTRIES), ints(ENTRIES)],
            },
        ));
    }
    kinds
}

/// The codecs that the columns of a table take in turn.
const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Level(Algorithm::Zlib, 1),
    ZSTD,
    Compression::Level(Algorithm::Lz4, 5),
    Compression::Level(Algorithm::Lz4, 1),
];

/// The branches of a tree with columns of all kinds, and the columns.
fn branches() -> &'static (Vec<BranchSpec>, Vec<Column>) {
    static MADE: OnceLock<(Vec<BranchSpec>, Vec<Column>)> = OnceLock::new();
    MADE.get_or_init(|| {
        let (mut specs, mut columns) = (Vec::new(), Vec::new());
        let mut add = |kind| {
            let compression = Some(CODECS[specs.len() % CODECS.len()]);
            specs.push(BranchSpec { name: format!("b{}", specs.len()), kind, compression });
        };
        for (shape, column) in kinds(true) {
            let object = |split_level, member_wise| BranchKind::Object {
                shape: shape.clone(),
                split_level,
                member_wise,
            };
            match shape {
                Shape::Number(_) => add(BranchKind::Numbers { number: shape, dims: vec![] }),
                Shape::Text => add(BranchKind::Text),
                Shape::Array(..) => {
                    add(BranchKind::Numbers { number: Shape::Number(Number::F32), dims: vec![3] });
                }
                Shape::Vector(ref inner) if matches!(**inner, Shape::Class(_)) => {
                    for (split_level, member_wise) in [(0, false), (0, true), (99, false)] {
                        add(object(split_level, member_wise));
                        columns.push(column.clone());
                    }
                    continue;
                }
                _ => add(object(0, false)),
            }
            columns.push(column);
        }
        (specs, columns)
    })
}

/// The fields of an RNTuple with columns of all kinds, and the columns.
fn fields() -> &'static (Vec<FieldSpec>, Vec<Column>) {
    static MADE: OnceLock<(Vec<FieldSpec>, Vec<Column>)> = OnceLock::new();
    MADE.get_or_init(|| {
        let field = |(i, (shape, column)): (usize, (Shape, Column))| {
            let compression = Some(CODECS[i % CODECS.len()]);
            (FieldSpec { name: format!("f{i}"), shape, compression }, column)
        };
        kinds(false).into_iter().enumerate().map(field).unzip()
    })
}

fn write_tree(pool: &ThreadPool, _: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    let (specs, columns) = branches();
    writing(pool, found, |made| {
        let out = made.insert(create(ZSTD)?);
        let options = TreeOptions { auto_flush: 8000, ..TreeOptions::default() };
        let tree = TreeWriter::new(&mut out.file, 0, "t", specs, options)?;
        let tree = out.add(tree);
        out.extend(tree, columns)
    })
}

fn write_ntuple(pool: &ThreadPool, _: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    let (specs, columns) = fields();
    writing(pool, found, |made| {
        let out = made.insert(create(ZSTD)?);
        let options = NTupleOptions { cluster_entries: Some(8000), ..NTupleOptions::default() };
        let ntuple = NTupleWriter::new(&mut out.file, 0, "n", specs, options)?;
        let ntuple = out.add(ntuple);
        out.extend(ntuple, columns)
    })
}

/// Writes many objects and deletes every second.
fn write_many(pool: &ThreadPool, _: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    writing(pool, found, |made| {
        let out = made.insert(create(ZSTD)?);
        let name = |i: usize| format!("an object with a name that is not short {i}");
        for i in 0..2000 {
            out.file.write_value(0, &name(i), "", "Bytes", &[7; 20], Vec::new())?;
        }
        out.commit()?;
        (0..2000).step_by(2).try_for_each(|i| out.file.delete(0, &name(i), None))
    })
}

/// A file with two tables and a histogram.
fn tables_file() -> Vec<u8> {
    let mut out = create(ZSTD).unwrap();
    let (specs, columns) = branches();
    let options = TreeOptions { auto_flush: 8000, ..TreeOptions::default() };
    let tree = TreeWriter::new(&mut out.file, 0, "t", specs, options).unwrap();
    let tree = out.add(tree);
    out.extend(tree, columns).unwrap();
    let (specs, columns) = fields();
    let options = NTupleOptions { cluster_entries: Some(8000), ..NTupleOptions::default() };
    let ntuple = NTupleWriter::new(&mut out.file, 0, "n", specs, options).unwrap();
    let ntuple = out.add(ntuple);
    out.extend(ntuple, columns).unwrap();
    out.file.write_object(0, "h", "", &histogram()).unwrap();
    out.close().unwrap();
    lock(&KEPT).clone()
}

fn opened(bytes: &Arc<[u8]>) -> Result<(Arc<RootFile>, Directory)> {
    let file = Arc::new(RootFile::open(Arc::new(Memory::new("memory", bytes.clone())))?);
    let directory = file.directory()?;
    Ok((file, directory))
}

fn key<'a>(directory: &'a Directory, name: &str) -> &'a Key {
    directory.keys.iter().find(|key| key.name == name).unwrap()
}

/// Adds a histogram to itself.
fn write_sums(pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    writing(pool, found, |made| {
        let (file, directory) = opened(bytes)?;
        let mut sums = Sums::new(usize::MAX);
        let started = sums.start(&file, &[key(&directory, "h").clone()])?.pop().unwrap();
        assert!(started.is_additive());
        sums.keep(&started);
        let sum: SharedSum = Arc::new(Mutex::new(started));
        sums.insert("h".to_owned(), sum.clone());
        sums.read(&file, &directory, "")?;
        sums.add();
        let out = made.insert(create(ZSTD)?);
        out.file.write_sums(0, &[("h".to_owned(), sum)])
    })
}

/// Copies a tree, an RNTuple and an object: with their pages as they are, or compressed in another way.
fn copy(pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found, codec: Option<Compression>) -> Result<()> {
    writing(pool, found, |made| {
        let (file, directory) = opened(bytes)?;
        let out = made.insert(create(ZSTD)?);
        let record = Record::read(&file, key(&directory, "h"))?;
        out.file.copy(0, "h", &record)?;
        let source = NTuple::read(&file, key(&directory, "n"))?;
        let ntuple = NTupleWriter::like(&mut out.file, 0, "n", &source, NTupleOptions::default())?;
        let ntuple = out.add(ntuple);
        let key = key(&directory, "t");
        let tree = out.join_tree(0, "t", &file, key, codec)?;
        let (joined, to) = out.joined_mut(tree)?;
        joined.add(to, &file, &Tree::read(&file, key)?, 0)?;
        for first in [0, 8000, 16_000] {
            let (writer, to) = out.writer::<NTupleWriter>(ntuple)?;
            writer.copy_cluster(to, &source, first, codec)?;
        }
        Ok(())
    })
}

fn write_copy(pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    copy(pool, bytes, found, None)
}

fn write_compressed_copy(pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    copy(pool, bytes, found, Some(Compression::Level(Algorithm::Zstd, 1)))
}

/// Adds to the tables of a file, and deletes an object.
fn write_update(pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    writing(pool, found, |made| {
        let (file, directory) = opened(bytes)?;
        let out = OutputFile::update(&file, Box::new(Target::of(bytes)), None, Options::default())?;
        let out = made.insert(out);
        out.file.delete(0, "h", None)?;
        let (tree, _) = TreeWriter::append(&mut out.file, 0, &file, key(&directory, "t"))?;
        let tree = out.add(tree);
        let ntuple =
            NTupleWriter::append(&mut out.file, 0, &file, key(&directory, "n"), &NTupleOptions::default())?;
        let ntuple = out.add(ntuple);
        out.extend(tree, &branches().1)?;
        out.extend(ntuple, &fields().1)
    })
}

/// A file with a tree of many branches.
fn wide_file() -> Vec<u8> {
    let number = Shape::Number(Number::F32);
    let spec = |i: usize| BranchSpec {
        name: format!("branch{i}"),
        kind: BranchKind::Numbers { number: number.clone(), dims: vec![] },
        compression: None,
    };
    let specs: Vec<BranchSpec> = (0..1500).map(spec).collect();
    let column =
        |i: usize| Column::Number { number: Number::F32, values: Buffer::from_vec(vec![i as f32; 2]) };
    written(&specs, &(0..1500).map(column).collect::<Vec<_>>())
}

/// A file with a tree.
fn written(specs: &[BranchSpec], columns: &[Column]) -> Vec<u8> {
    let sink = MemorySink::new();
    let compression = Compression::Level(Algorithm::Zstd, 1);
    let options = Options { compression, commit_every: CommitEvery::Never, ..Options::default() };
    let file = FileWriter::create(Box::new(sink.clone()), "x.root", options).unwrap();
    let mut out = OutputFile::new(file);
    let options = TreeOptions { auto_flush: 5000, ..TreeOptions::default() };
    let tree = TreeWriter::new(&mut out.file, 0, "t", specs, options).unwrap();
    let tree = out.add(tree);
    let (tree, file) = out.table_mut(tree).unwrap();
    tree.extend(file, columns).unwrap();
    out.close().unwrap();
    let bytes = sink.bytes();
    bytes.clone()
}

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../../tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// The content that was read: values of the columns and objects, and objects that could not be read.
#[derive(Clone, Copy, Default, PartialEq)]
struct Found {
    values: usize,
    lost: usize,
}

/// Reads the fields of a table: all together, then each.
fn whole(pool: &ThreadPool, table: &dyn Table, found: &mut Found) -> Result<()> {
    let fields: Vec<usize> = (0..table.num_fields()).collect();
    match read(pool, &[Part { table, fields: &fields, start: 0, stop: table.entries() }]) {
        Ok(columns) => found.values += columns.iter().map(count).sum::<usize>(),
        Err(error) if error.kind() == ErrorKind::Unsupported => found.lost += 1,
        Err(error) => return Err(error),
    }
    for field in 0..table.num_fields() {
        match read(pool, &[Part { table, fields: &[field], start: 0, stop: table.entries() }]) {
            Ok(columns) => found.values += columns.iter().map(count).sum::<usize>(),
            Err(error) if error.kind() == ErrorKind::Unsupported => found.lost += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The values of a column, with those of its parts.
fn count(column: &Column) -> usize {
    let inside = match column {
        Column::List { values, .. } | Column::FixedList { values, .. } | Column::Option { values, .. } => {
            count(values)
        }
        Column::Text { bytes, .. } => bytes.len(),
        Column::Record { fields, .. } => fields.iter().map(|(_, field)| count(field)).sum(),
        Column::Union { variants, .. } => variants.iter().map(count).sum(),
        _ => 0,
    };
    column.len() + inside
}

/// Reads all that a file of ROOT holds.
fn root(pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    fn walk(pool: &ThreadPool, file: &Arc<RootFile>, directory: &Directory, found: &mut Found) -> Result<()> {
        for key in &directory.keys {
            match key.classname.as_str() {
                "TDirectory" | "TDirectoryFile" => walk(pool, file, &file.subdirectory(key)?, found)?,
                "TTree" => whole(pool, &Tree::read(file, key)?, found)?,
                // A class that the files do not describe.
                "Bytes" => found.values += file.object(key)?.len(),
                "ROOT::RNTuple" => whole(pool, &NTuple::read(file, key)?, found)?,
                class => {
                    let (classes, object) = (file.classes()?, file.object(key)?);
                    let object = ObjectReader::new(&classes, &object, key.key_bytes.into()).payload(class)?;
                    if let Value::Object(object) = object {
                        found.values += object.members.len();
                        found.lost += object.problems()?.len();
                    }
                }
            }
        }
        Ok(())
    }
    let file = Arc::new(RootFile::open(Arc::new(Memory::new("memory", bytes.clone())))?);
    walk(pool, &file, &file.directory()?, found)
}

/// Reads all that a file of HBOOK holds.
fn hbook(pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    let file = Arc::new(RzFile::open(Arc::new(Memory::new("memory", bytes.clone())))?);
    let directory = file.directory()?;
    for cycle in (0..directory.len()).filter_map(|index| directory.cycles(index).first()) {
        let bytes = file.object(cycle)?;
        let structure = file.structure(cycle, &bytes)?;
        match hbook::Class::of(&structure) {
            Some(hbook::Class::RowWise | hbook::Class::ColumnWise) => {
                whole(pool, &Ntuple::open(&file, &directory, "n", cycle, &bytes)?, found)?;
            }
            Some(hbook::Class::OneD | hbook::Class::TwoD | hbook::Class::Profile) => {
                found.values += Histogram::parse(&structure)?.contents.len();
            }
            _ => {}
        }
    }
    Ok(())
}

type Read = fn(&ThreadPool, &Arc<[u8]>, &mut Found) -> Result<()>;
type Reading = (&'static str, fn() -> Vec<u8>, Read);

const READINGS: [Reading; 7] = [
    ("tree", tree_file, root),
    ("wide tree", wide_file, root),
    ("trees of objects", || golden("objects/plain.root"), root),
    ("objects", || golden("objects/standard.root"), root),
    ("ntuple", || golden("ntuple/plain.root"), root),
    ("ntuple of all types", || golden("ntuple/types.root"), root),
    ("hbook", || golden("zebra/hbook.rz"), hbook),
];

const WRITINGS: [Reading; 8] = [
    ("write objects", || vec![7; 400_000], write_objects),
    ("write a tree", Vec::new, write_tree),
    ("write an RNTuple", Vec::new, write_ntuple),
    ("write many objects", Vec::new, write_many),
    ("write sums", tables_file, write_sums),
    ("copy", tables_file, write_copy),
    ("copy and compress", tables_file, write_compressed_copy),
    ("update", tables_file, write_update),
];

/// Each of the first allocations, up to this number, fails in turn. Of later ones, a sample fails: the distance from
/// one to the next is one per cent of its number. With `SAPWOOD_EVERY` in the environment, each of them fails.
const FIRST: isize = 600;

/// Repeats a read in which allocations fail, and compares what it returns. Prints the number of each that fails, which
/// remains if the process is aborted.
fn repeat(pool: &ThreadPool, bytes: &Arc<[u8]>, reading: Read) {
    let every = std::env::var_os("SAPWOOD_EVERY").is_some();
    let mut expected = Found::default();
    reading(pool, bytes, &mut expected).unwrap();
    let (mut number, mut refused) = (0, 0);
    loop {
        eprintln!("{number}");
        let mut found = Found::default();
        LEFT.store(number, Relaxed);
        let result = reading(pool, bytes, &mut found);
        let failed = LEFT.swap(-1, Relaxed) <= 0;
        match result {
            Ok(()) => assert!(found == expected, "{} values instead of {}", found.values, expected.values),
            Err(error) if error.kind() == ErrorKind::Limit && failed => refused += 1,
            Err(error) => panic!("{error}"),
        }
        if !failed {
            println!("{number} allocations, {refused} errors");
            return;
        }
        number += if every || number < FIRST { 1 } else { number / 100 };
    }
}

#[test]
fn child() {
    let Ok(name) = std::env::var("SAPWOOD_FAILING") else { return };
    let which = std::env::var("SAPWOOD_WHICH").unwrap_or_default();
    ALL.store(which == "all", Relaxed);
    LEAST.store(if which == "large" { reserve::LARGE } else { 0 }, Relaxed);
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    match READINGS.iter().chain(&WRITINGS).find(|(known, _, _)| *known == name) {
        Some((_, make, reading)) => repeat(&pool, &Arc::from(make()), *reading),
        None => repeat(&pool, &Arc::from(std::fs::read(name).unwrap()), root),
    }
}

/// Repeats each read in a child process; returns the number of allocations that failed, and of errors.
fn failing(which: &str, readings: &[Reading]) -> (usize, usize) {
    let (mut allocations, mut errors) = (0, 0);
    for (name, _, _) in readings {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["child", "--exact", "--nocapture", "--test-threads=1"]);
        child.env("SAPWOOD_FAILING", name).env("SAPWOOD_WHICH", which).env_remove("RUST_BACKTRACE");
        let done = child.stdin(Stdio::null()).output().unwrap();
        let (said, wrong) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        let from = wrong.char_indices().rev().nth(3000).map_or(0, |(place, _)| place);
        assert!(done.status.success(), "{name}: {}\n{}\n{said}", done.status, &wrong[from..]);
        let line = said.lines().find(|line| line.ends_with(" errors")).unwrap();
        println!("{name}: {line}");
        let mut numbers = line.split(' ').filter_map(|word| word.parse::<usize>().ok());
        allocations += numbers.next().unwrap();
        errors += numbers.next().unwrap();
    }
    (allocations, errors)
}

#[test]
fn a_large_allocation_that_fails_is_an_error() {
    let (allocations, errors) = failing("large", &READINGS);
    assert!(allocations > 30 && errors > 15, "{allocations} allocations, {errors} errors");
}

#[test]
fn a_small_allocation_that_fails_is_served_by_the_reserve() {
    let (allocations, _) = failing("one", &READINGS);
    assert!(allocations > 10_000, "{allocations} allocations");
}

#[test]
fn without_any_memory_a_read_ends_in_an_error() {
    let (_, errors) = failing("all", &READINGS);
    assert!(errors > 1000, "{errors} errors");
}

#[test]
fn a_large_allocation_that_fails_in_a_write_is_an_error() {
    let (allocations, errors) = failing("large", &WRITINGS);
    assert!(allocations > 200 && errors > 180, "{allocations} allocations, {errors} errors");
}
