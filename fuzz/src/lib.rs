//! What the fuzzers call: each function takes any bytes and must return, whatever they are.

use rayon::{ThreadPool, ThreadPoolBuilder};
use sapwood_io::Memory;
use sapwood_root::compress::decode;
use sapwood_root::file::{Directory, RootFile};
use sapwood_root::streamer::Classes;
use sapwood_root::read::{Part, read};
use sapwood_root::tree::Tree;
use sapwood_root::table::Table;
use sapwood_root::zebra::collect::Collector;
use sapwood_root::zebra::fz::{FzFile, Meaning};
use sapwood_root::zebra::hbook::{Class, Histogram};
use sapwood_root::zebra::ntuple::Ntuple;
use sapwood_root::zebra::rz::{Cycle, RzDirectory, RzFile, table_and_banks};
use std::sync::{Arc, OnceLock};

/// The targets by name.
pub const TARGETS: [(&str, fn(&[u8])); 5] = [
    ("file", file),
    ("streamer_info", streamer_info),
    ("tree", tree),
    ("codecs", codecs),
    ("zebra", zebra),
];

/// A whole file: every directory, every tree, every branch.
pub fn file(data: &[u8]) {
    let Ok(file) = RootFile::open(Arc::new(Memory::new("fuzz", data))) else { return };
    let file = Arc::new(file);
    if let Ok(directory) = file.directory() {
        walk(&file, &directory, 0);
    }
}

fn walk(file: &Arc<RootFile>, directory: &Directory, depth: usize) {
    // A directory may claim to be inside itself.
    for key in directory.keys.iter().take(64) {
        if key.classname.starts_with("TDirectory") && depth < 3 {
            if let Ok(inner) = file.subdirectory(key) {
                walk(file, &inner, depth + 1);
            }
        } else if let Ok(tree) = Tree::read(file, key) {
            read_all(&tree);
        } else {
            let _ = file.object(key);
        }
    }
}

fn read_all(tree: &Tree) {
    tree.cluster_borders();
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    let pool = POOL.get_or_init(|| ThreadPoolBuilder::new().build().unwrap());
    for branch in 0..tree.branches.len().min(64) {
        let stop = tree.entries;
        let _ = read(pool, &[Part { table: tree, fields: &[branch], start: 0, stop }]);
        let _ = read(pool, &[Part { table: tree, fields: &[branch], start: stop / 3, stop: stop / 2 }]);
    }
}

/// The object of the streamer info's key.
pub fn streamer_info(data: &[u8]) {
    if let Ok(classes) = Classes::parse(data, 64) {
        for info in classes.iter() {
            classes.find(&info.name, info.version);
        }
    }
}

/// The object of a tree's key, in a file that has these same bytes where its baskets should be.
pub fn tree(data: &[u8]) {
    let mut bytes = header(data.len() as u32 + 100);
    bytes.extend_from_slice(data);
    let file = RootFile::open(Arc::new(Memory::new("fuzz", bytes))).expect("the header is sound");
    let classes = Arc::new(Classes::default());
    if let Ok(tree) = Tree::decode(&Arc::new(file), &classes, "TTree", data, 64) {
        read_all(&tree);
    }
}

/// The first 100 bytes of a file that ends at `end`.
fn header(end: u32) -> Vec<u8> {
    let mut out = b"root".to_vec();
    for number in [62_400, 100, end, 0, 0, 0, 0] {
        out.extend_from_slice(&number.to_be_bytes());
    }
    out.resize(100, 0);
    out
}

/// Blocks that should become as many bytes as the first two say (in sixteens).
pub fn codecs(data: &[u8]) {
    let Some(([high, low], blocks)) = data.split_first_chunk::<2>() else { return };
    let size = usize::from(u16::from_be_bytes([*high, *low])) * 16;
    if decode::verify_size(blocks, size).is_ok() {
        let _ = decode::decompress(blocks, &mut vec![0; size]);
    }
}

/// A whole FZ or RZ file: every record, bank, histogram and ntuple.
pub fn zebra(data: &[u8]) {
    let names = ["EHDR".to_owned(), "TRAK".to_owned()];
    if let Ok(file) = FzFile::open(Arc::new(Memory::new("fuzz", data))) {
        let file = Arc::new(file);
        let mut collector = Collector::new(&names, &[]);
        let _ = collector.events(&mut file.reader(), usize::MAX);
        let mut reader = file.reader();
        while let Ok(Some(record)) = reader.read() {
            if matches!(record.meaning(), Ok(Meaning::Event | Meaning::Continuation))
                && let Ok(structure) = record.pilot().and_then(|pilot| pilot.structure())
            {
                for bank in 0..structure.banks.len() {
                    let _ = structure.runs(bank);
                    structure.link(bank, 1);
                }
            }
        }
    }
    let Ok(file) = RzFile::open(Arc::new(Memory::new("fuzz", data))) else { return };
    let file = Arc::new(file);
    if let Ok(directory) = file.directory() {
        walk_rz(&file, &directory, 0);
    }
}

fn walk_rz(file: &Arc<RzFile>, directory: &RzDirectory, depth: usize) {
    for (_, record, _) in directory.directories.iter().take(16) {
        if depth < 3
            && let Ok(inner) = file.directory_at(*record)
        {
            walk_rz(file, &inner, depth + 1);
        }
    }
    let cycles: Vec<Cycle> = (0..directory.len()).filter_map(|index| directory.cycles(index).first()).copied().collect();
    let mut collector = Collector::new(&["TRAK".to_owned()], &[]);
    let _ = file.objects(&cycles, |words| collector.banks(&table_and_banks(words)?.1));
    for index in 0..directory.len().min(64) {
        let Some(cycle) = directory.cycles(index).first() else { continue };
        let Ok(bytes) = file.object(cycle) else { continue };
        let Ok(structure) = file.structure(cycle, &bytes) else { continue };
        for bank in 0..structure.banks.len() {
            let _ = structure.runs(bank);
        }
        if let Ok(histogram) = Histogram::parse(&structure) {
            let _ = sapwood_root::streamer::encode::encode_object(&histogram.object("h"), 0);
        }
        if matches!(Class::of(&structure), Some(Class::RowWise | Class::ColumnWise))
            && let Ok(table) = Ntuple::open(file, directory, "n", cycle, &bytes)
        {
            read_table(&table);
        }
    }
}

fn read_table(table: &dyn Table) {
    table.cluster_borders();
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    let pool = POOL.get_or_init(|| ThreadPoolBuilder::new().build().unwrap());
    for field in 0..table.num_fields().min(64) {
        let stop = table.entries();
        for (start, stop) in [(0, stop), (stop / 3, stop / 2)] {
            let _ = read(pool, &[Part { table, fields: &[field], start, stop }]);
        }
    }
}
