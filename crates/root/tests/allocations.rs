//! Counts the allocations of reading fixed trees in memory on one thread, which are the same on every machine. The bounds
//! are a few per cent above the counts; a change that exceeds them needs a reason.
#![allow(unsafe_code, reason = "an allocator that counts")]
#![allow(clippy::unwrap_used, reason = "tests")]

use arrow_buffer::Buffer;
use rayon::{ThreadPool, ThreadPoolBuilder};
use sapwood_io::Memory;
use sapwood_io::sink::MemorySink;
use sapwood_root::array::{Column, Number};
use sapwood_root::compress::encode::{Algorithm, Compression};
use sapwood_root::file::RootFile;
use sapwood_root::file::writer::{CommitEvery, FileWriter, Options};
use sapwood_root::output::OutputFile;
use sapwood_root::read::{Part, read};
use sapwood_root::streamer::declare::Shape;
use sapwood_root::tree::Tree;
use sapwood_root::tree::writer::{BranchKind, BranchSpec, TreeOptions, TreeWriter};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn counted<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATIONS.load(Relaxed);
    let result = work();
    (result, ALLOCATIONS.load(Relaxed) - before)
}

fn file(
    compression: Compression,
    specs: &[BranchSpec],
    columns: &[Column],
    auto_flush: i64,
) -> Arc<RootFile> {
    let sink = MemorySink::new();
    let options = Options { compression, commit_every: CommitEvery::Never, ..Options::default() };
    let file = FileWriter::create(Box::new(sink.clone()), "x.root", options).unwrap();
    let mut out = OutputFile::new(file);
    let options = TreeOptions { auto_flush, ..TreeOptions::default() };
    let tree = TreeWriter::new(&mut out.file, 0, "t", specs, options).unwrap();
    let tree = out.add(tree);
    let (tree, file) = out.table_mut(tree).unwrap();
    tree.extend(file, columns).unwrap();
    out.close().unwrap();
    let bytes = sink.bytes().clone();
    Arc::new(RootFile::open(Arc::new(Memory::new("shared", bytes))).unwrap())
}

fn open(file: &Arc<RootFile>) -> Tree {
    let key = file.directory().unwrap().keys.first().unwrap().clone();
    Tree::read(file, &key).unwrap()
}

fn spec(name: String, kind: BranchKind) -> BranchSpec {
    BranchSpec { name, kind, compression: None }
}

fn floats(count: usize) -> Column {
    let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
    Column::Number { number: Number::F32, values: Buffer::from_vec(values) }
}

fn all(pool: &ThreadPool, tree: &Tree, branch: usize) -> Column {
    let part = Part { table: tree, fields: &[branch], start: 0, stop: tree.entries };
    read(pool, &[part]).unwrap().remove(0)
}

const BRANCHES: usize = 85_000;
const BASKETS: usize = 11_000;
const LISTS: usize = 400;

/// All in one, since tests of one process would count each other's allocations.
#[test]
fn reading_allocates_little() {
    let number = || BranchKind::Numbers { number: Shape::Number(Number::F32), dims: vec![] };
    let one = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    one.install(|| {
        // Ten thousand branches, less than ten allocations each.
        let specs: Vec<BranchSpec> = (0..10_000).map(|i| spec(format!("b{i}"), number())).collect();
        let wide = file(Compression::None, &specs, &vec![floats(2); specs.len()], 1000);
        let (tree, opening) = counted(|| open(&wide));
        assert_eq!(tree.branches.len(), 10_000);

        let zstd = Compression::Level(Algorithm::Zstd, 1);
        for compression in [Compression::None, zstd] {
            // Ten thousand baskets.
            let many = open(&file(compression, &[spec("x".into(), number())], &[floats(1_000_000)], 100));
            let (column, baskets) = counted(|| all(&one, &many, 0));
            assert_eq!(column.len(), 1_000_000);

            // A hundred thousand lists in a hundred baskets.
            let counted_list =
                BranchKind::Counted { number: Shape::Number(Number::F32), dims: vec![], counter: 0 };
            let specs = [spec("n".into(), BranchKind::Counter), spec("j".into(), counted_list)];
            let offsets: Vec<i64> = (0..=100_000).map(|i| i * 3).collect();
            let lists =
                Column::List { offsets: Buffer::from_vec(offsets), values: Box::new(floats(300_000)) };
            let jagged = open(&file(compression, &specs, &[lists], 1000));
            let (column, lists) = counted(|| all(&one, &jagged, 1));
            assert_eq!(column.len(), 100_000);
            assert!(baskets <= BASKETS, "{baskets} allocations for 10,000 baskets, {compression:?}");
            assert!(lists <= LISTS, "{lists} allocations for 100 baskets of lists, {compression:?}");
        }
        assert!(opening <= BRANCHES, "{opening} allocations for 10,000 branches");
    });
}
