//! A read, or the writing of an object, in which an allocation fails ends in an error, not in an abort. Each read is repeated for every allocation,
//! which then fails: alone, with all later ones, or only if it is large. A small one that fails is taken from the
//! reserve.
#![allow(unsafe_code, reason = "an allocator that fails")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "golden files")]

use arrow_buffer::Buffer;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sapwood_io::sink::{MemorySink, Sink};
use sapwood_io::{Memory, Reserve, reserve};
use sapwood_root::array::{Column, Number};
use sapwood_root::compress::encode::{Algorithm, Compression};
use sapwood_root::error::{ErrorKind, Result};
use sapwood_root::file::writer::{CommitEvery, FileWriter, Options};
use sapwood_root::file::{Directory, RootFile};
use sapwood_root::ntuple::NTuple;
use sapwood_root::output::OutputFile;
use sapwood_root::read::{Part, read};
use sapwood_root::streamer::Object;
use sapwood_root::streamer::declare::Shape;
use sapwood_root::streamer::object::{ObjectReader, Value};
use sapwood_root::table::Table;
use sapwood_root::tree::Tree;
use sapwood_root::tree::writer::{BranchKind, BranchSpec, TreeOptions, TreeWriter};
use sapwood_root::zebra::hbook::{Class, Histogram};
use sapwood_root::zebra::ntuple::Ntuple;
use sapwood_root::zebra::rz::RzFile;
use std::alloc::{GlobalAlloc, Layout, System};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

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
    const ENTRIES: usize = 20_000;
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

/// A target that keeps nothing, because others need memory.
struct Nothing;

impl Sink for Nothing {
    fn write_at(&mut self, _offset: u64, _parts: &[&[u8]]) -> std::io::Result<()> {
        Ok(())
    }
    fn finish(&mut self, _length: u64) -> std::io::Result<()> {
        Ok(())
    }
    fn name(&self) -> &'static str {
        "nothing"
    }
}

/// Writes objects.
fn written_again(_pool: &ThreadPool, bytes: &Arc<[u8]>, found: &mut Found) -> Result<()> {
    // It is made before allocations fail.
    static TEXT: OnceLock<Object> = OnceLock::new();
    let text = TEXT.get_or_init(|| {
        let members = vec![("fString".into(), Value::Text("x".repeat(300_000)))];
        Object { class: "TObjString".into(), members, ..Object::default() }
    });
    let compression = Compression::Level(Algorithm::Lz4, 1);
    let options = Options { compression, ..Options::default() };
    let mut file = FileWriter::create(Box::new(Nothing), "x.root", options)?;
    file.write_value(0, "o", "", "Bytes", bytes, Vec::new())?;
    file.write_object(0, "s", "", text)?;
    file.commit()?;
    found.values = 2;
    Ok(())
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
                "ROOT::RNTuple" => whole(pool, &NTuple::read(file, key)?, found)?,
                class => {
                    let (classes, object) = (file.classes()?, file.object(key)?);
                    let object = ObjectReader::new(&classes, &object, key.key_bytes.into()).payload(class)?;
                    if let Value::Object(object) = object {
                        let problems = object.problems()?;
                        let refused =
                            problems.iter().find(|(_, error)| error.message().contains("no memory"));
                        if let Some((_, error)) = refused {
                            return Err(error.clone());
                        }
                        found.values += object.members.len();
                        found.lost += problems.len();
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
        match Class::of(&structure) {
            Some(Class::RowWise | Class::ColumnWise) => {
                whole(pool, &Ntuple::open(&file, &directory, "n", cycle, &bytes)?, found)?;
            }
            Some(Class::OneD | Class::TwoD | Class::Profile) => {
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

const WRITING: Reading = ("objects that are written", || vec![7; 400_000], written_again);

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
    match READINGS.iter().chain([&WRITING]).find(|(known, _, _)| *known == name) {
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
fn a_large_allocation_that_fails_while_objects_are_written_is_an_error() {
    let (allocations, errors) = failing("large", &[WRITING]);
    assert!(allocations > 3 && errors > 3, "{allocations} allocations, {errors} errors");
}
