//! What the fuzzers call: each function takes any bytes and must return, whatever they are.

mod choices;
mod http;
mod objects;
mod servers;
mod update;
mod xrootd;

use arrow_buffer::Buffer;
use choices::Choices;
pub use http::http;
pub use objects::objects;
pub use update::update;
pub use xrootd::xrootd;

use rayon::{ThreadPool, ThreadPoolBuilder};
use sapwood_io::Memory;
use sapwood_root::array::{Column, Number};
use sapwood_root::compress::decode;
use sapwood_root::error::Result;
use sapwood_root::expr::corrections::{Content, Correction, Flow, Function, Step};
use sapwood_root::expr::fill::{Axis, Bins, Edges, Fill, Storage};
use sapwood_root::expr::{self, Binary, Constant, Node, Op, Program, Quantity, Reduction, Unary};
use sapwood_root::file::writer::DirectoryId;
use sapwood_root::file::{Directory, Key, RootFile, kinds};
use sapwood_root::ntuple::NTuple;
use sapwood_root::ntuple::envelope::{Locator, checksum};
use sapwood_root::ntuple::verify::verify;
use sapwood_root::output::OutputFile;
use sapwood_root::read::{Carry, Part, read, read_with};
use sapwood_root::streamer::Classes;
use sapwood_root::streamer::declare::Shape;
use sapwood_root::table::Table;
use sapwood_root::tree::Tree;
use sapwood_root::tree::writer::{BranchKind, BranchSpec, TreeOptions, TreeWriter};
use sapwood_root::zebra::collect::Collector;
use sapwood_root::zebra::fz::{FzFile, Meaning};
use sapwood_root::zebra::hbook::{Class, Histogram};
use sapwood_root::zebra::ntuple::Ntuple;
use sapwood_root::zebra::rz::{Cycle, RzDirectory, RzFile, table_and_banks};
use std::sync::{Arc, OnceLock};

/// The targets by name.
pub const TARGETS: [(&str, fn(&[u8])); 11] = [
    ("file", file),
    ("streamer_info", streamer_info),
    ("tree", tree),
    ("ntuple", ntuple),
    ("codecs", codecs),
    ("zebra", zebra),
    ("expression", expression),
    ("objects", objects),
    ("update", update),
    ("http", http),
    ("xrootd", xrootd),
];

fn pool() -> &'static ThreadPool {
    static POOL: OnceLock<ThreadPool> = OnceLock::new();
    POOL.get_or_init(|| ThreadPoolBuilder::new().build().unwrap())
}

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
        } else if let Ok(ntuple) = NTuple::read(file, key) {
            read_ntuple(&ntuple, 1);
        } else {
            let _ = file.object(key);
        }
    }
}

fn read_all(tree: &Tree) {
    tree.cluster_borders();
    let pool = pool();
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
    if data.is_empty() {
        return; // the file would end with its header, which is an error
    }
    let mut bytes = header(data.len() as u32 + 100);
    bytes.extend_from_slice(data);
    let file = RootFile::open(Arc::new(Memory::new("fuzz", bytes))).expect("the header is sound");
    let classes = Arc::new(Classes::default());
    if let Ok(tree) = Tree::decode(&Arc::new(file), &classes, "TTree", data, 64) {
        read_all(&tree);
    }
}

/// A whole file with an RNTuple that is not compressed. Its checksums are computed again first, as far as what is read
/// before says where they are: else hardly a mutation would get past them.
pub fn ntuple(data: &[u8]) {
    let mut data = data.to_vec();
    let Some(key) = ntuple_key(&data) else { return };
    let object = (key.seek.saturating_add(u64::from(key.key_bytes)), u64::from(key.object_bytes));
    seal(&mut data, object, |data| NTuple::read(&opened(data)?, &key).ok());
    let Some(ntuple) = opened(&data).and_then(|file| NTuple::read(&file, &key).ok()) else { return };
    for set in ntuple.attributes.iter().take(4) {
        if let Locator::File { offset, .. } = set.locator {
            let open = |data: &[u8]| NTuple::read(&opened(data)?, &key).ok()?.attribute_set(&set.name).ok();
            seal(&mut data, (offset, set.length), open);
        }
    }
    if let Some(ntuple) = opened(&data).and_then(|file| NTuple::read(&file, &key).ok()) {
        read_ntuple(&ntuple, 1);
    }
}

/// Adds a tree of numbers, lists, texts and lists of texts to a file.
fn small_tree(out: &mut OutputFile, directory: DirectoryId, name: &str) -> Result<()> {
    const ENTRIES: usize = 12;
    let spec = |name: &str, kind| BranchSpec { name: name.into(), kind, compression: None };
    let object = |shape, split_level| BranchKind::Object { shape, split_level, member_wise: false };
    let number = Shape::Number(Number::F32);
    let offsets =
        |count: usize, each: usize| Buffer::from_vec((0..=count).map(|i| (i * each) as i64).collect());
    let floats = |count: usize| Column::Number {
        number: Number::F32,
        values: Buffer::from_vec((0..count).map(|i| i as f32).collect::<Vec<f32>>()),
    };
    let text = |count: usize| Column::Text {
        offsets: offsets(count, 4),
        bytes: Buffer::from_vec(b"text".repeat(count)),
    };
    let list = |values| Column::List { offsets: offsets(ENTRIES, 3), values: Box::new(values) };
    let specs = [
        spec("x", BranchKind::Numbers { number: number.clone(), dims: vec![] }),
        spec("n", BranchKind::Counter),
        spec("j", BranchKind::Counted { number: number.clone(), dims: vec![], counter: 1 }),
        spec("s", BranchKind::Text),
        spec("v", object(Shape::Vector(Box::new(number.clone())), 0)),
        spec("vs", object(Shape::Vector(Box::new(Shape::Text)), 0)),
        spec("vv", object(Shape::Vector(Box::new(Shape::Vector(Box::new(number)))), 0)),
    ];
    let nested = Column::List { offsets: offsets(3 * ENTRIES, 2), values: Box::new(floats(6 * ENTRIES)) };
    let columns = [
        floats(ENTRIES),
        list(floats(3 * ENTRIES)),
        text(ENTRIES),
        list(floats(3 * ENTRIES)),
        list(text(3 * ENTRIES)),
        list(nested),
    ];
    let options = TreeOptions { auto_flush: 5, ..TreeOptions::default() };
    let tree = TreeWriter::new(&mut out.file, directory, name, &specs, options)?;
    let tree = out.add(tree);
    let (tree, file) = out.table_mut(tree)?;
    tree.extend(file, &columns)
}

fn opened(data: &[u8]) -> Option<Arc<RootFile>> {
    RootFile::open(Arc::new(Memory::new("fuzz", data))).ok().map(Arc::new)
}

fn ntuple_key(data: &[u8]) -> Option<Key> {
    opened(data)?.directory().ok()?.keys.into_iter().find(|key| key.classname == kinds::NTUPLE)
}

fn part(data: &mut [u8], (offset, length): (u64, u64)) -> Option<&mut [u8]> {
    let end = offset.checked_add(length)?;
    data.get_mut(usize::try_from(offset).ok()?..usize::try_from(end).ok()?)
}

/// Puts the checksums right of the RNTuple whose anchor is there: of the anchor, the envelopes and the pages.
fn seal(data: &mut [u8], anchor: (u64, u64), open: impl Fn(&[u8]) -> Option<NTuple>) {
    // Byte count and version are before the members of the anchor, its checksum is after them.
    let Some(object) = part(data, anchor).filter(|object| object.len() >= 78) else { return };
    let end = object.len() - 8;
    let sum = checksum(&object[6..end]);
    object[end..].copy_from_slice(&sum.to_be_bytes());
    let number = |at: usize| u64::from_be_bytes(object[at..at + 8].try_into().unwrap_or_default());
    let (header, footer) = ((number(14), number(22)), (number(38), number(46)));
    let Some(sum) = seal_envelope(data, header, 1, None) else { return };
    // Behind the feature flags the footer has the checksum of the header.
    seal_envelope(data, footer, 2, Some((16, sum)));
    let groups = open(data).map(|ntuple| ntuple.groups).unwrap_or_default();
    for group in &groups {
        if let Locator::File { offset, bytes } = group.locator {
            seal_envelope(data, (offset, bytes), 3, Some((8, sum)));
        }
    }
    let Some(ntuple) = open(data) else { return };
    for group in 0..groups.len() {
        let Ok(list) = ntuple.page_list(group) else { continue };
        for range in list.clusters.iter().flat_map(|cluster| &cluster.columns) {
            for page in list.pages(range).iter().filter(|page| page.checksum) {
                let found = page.range().and_then(|range| part(data, (range.offset, range.length)));
                if let Some((packed, sum)) = found.and_then(|page| page.split_last_chunk_mut::<8>()) {
                    *sum = checksum(packed).to_le_bytes();
                }
            }
        }
    }
}

/// Corrects the type, the length and the checksum of an envelope, and the header's checksum in it; returns its own.
fn seal_envelope(data: &mut [u8], place: (u64, u64), kind: u64, header: Option<(usize, u64)>) -> Option<u64> {
    let envelope = part(data, place).filter(|envelope| envelope.len() >= 32)?;
    envelope[..8].copy_from_slice(&(kind | place.1 << 16).to_le_bytes());
    if let Some((at, sum)) = header {
        envelope[at..at + 8].copy_from_slice(&sum.to_le_bytes());
    }
    let (content, sum) = envelope.split_last_chunk_mut::<8>()?;
    *sum = checksum(content).to_le_bytes();
    Some(u64::from_le_bytes(*sum))
}

fn read_ntuple(ntuple: &NTuple, depth: usize) {
    read_table(ntuple);
    let _ = ntuple.column_bytes(0, ntuple.entries);
    let _ = verify(ntuple, true);
    for set in ntuple.attributes.iter().take(if depth > 0 { 4 } else { 0 }) {
        if let Ok(set) = ntuple.attribute_set(&set.name) {
            read_ntuple(&set, depth - 1);
        }
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
    let cycles: Vec<Cycle> =
        (0..directory.len()).filter_map(|index| directory.cycles(index).first()).copied().collect();
    let mut collector = Collector::new(&["TRAK".to_owned()], &[]);
    let _ = file.objects(&cycles, |words| collector.banks(&table_and_banks(words)?.1));
    for cycle in (0..directory.len()).flat_map(|index| directory.cycles(index).iter().take(2)).take(64) {
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
    let pool = pool();
    for field in 0..table.num_fields().min(64) {
        let stop = table.entries();
        for (start, stop) in [(0, stop), (stop / 3, stop / 2)] {
            let _ = read(pool, &[Part { table, fields: &[field], start, stop }]);
        }
        // Steps that use what is left of pages.
        let carry = Carry::new(1 << 20);
        for step in 0..4 {
            let part = Part { table, fields: &[field], start: stop / 4 * step, stop: stop / 4 * (step + 1) };
            let _ = read_with(pool, &[part], Some(&carry), None);
        }
    }
}

const NUMBERS: [Number; 11] = [
    Number::Bool,
    Number::I8,
    Number::U8,
    Number::I16,
    Number::U16,
    Number::I32,
    Number::U32,
    Number::I64,
    Number::U64,
    Number::F32,
    Number::F64,
];

/// Numbers, lists of them, or records of such; the offsets of lists may be any.
fn column(choices: &mut Choices<'_>, length: usize, depth: usize) -> Column {
    match if depth < 3 { choices.below(5) } else { 0 } {
        1 | 2 => {
            let hostile = choices.byte() == 255;
            let mut offsets = vec![0i64];
            for _ in 0..length {
                let step = choices.byte();
                let step =
                    if hostile { i64::from(step as i8) << (8 * (step & 7)) } else { i64::from(step & 7) };
                offsets.push(offsets.last().unwrap().wrapping_add(step));
            }
            let items = usize::try_from(*offsets.last().unwrap()).unwrap_or(3).min(1 << 10);
            let values = Box::new(column(choices, items, depth + 1));
            Column::List { offsets: Buffer::from_vec(offsets), values }
        }
        3 => {
            let size = choices.below(4);
            let values = Box::new(column(choices, length * size, depth + 1));
            Column::FixedList { length, size, values }
        }
        _ => {
            let number = NUMBERS[choices.below(NUMBERS.len())];
            let mut bytes = vec![0u8; length * number.size()];
            bytes.iter_mut().for_each(|byte| *byte = choices.byte());
            if number == Number::Bool {
                bytes.iter_mut().for_each(|byte| *byte &= 1);
            }
            Column::Number { number, values: Buffer::from_slice_ref(&bytes) }
        }
    }
}

/// A correction of any contents that fit each other, and how many inputs it has.
fn correction(choices: &mut Choices<'_>) -> (Op, usize) {
    let inputs = 1 + choices.below(3);
    let mut contents = vec![Content::Value(1.0)];
    for _ in 0..choices.below(12) {
        let made = contents.len();
        let flow = match choices.below(4) {
            0 => Flow::Error,
            1 => Flow::Clamp,
            2 => Flow::Wrap,
            _ => Flow::Content(choices.below(made)),
        };
        let edge = f64::from(choices.byte() as i8);
        contents.push(match choices.below(5) {
            0 => Content::Bins(
                vec![(choices.below(4), Edges::Variable(vec![edge, edge + 2.0]))],
                vec![choices.below(made)],
                flow,
            ),
            1 => {
                let edges = Edges::Regular {
                    bins: choices.below(3),
                    low: edge,
                    high: f64::from(choices.byte() as i8),
                };
                Content::Bins(vec![(0, edges)], vec![choices.below(made); choices.below(3)], flow)
            }
            2 => Content::Category(
                choices.below(4),
                vec![(edge as i64, choices.below(made))],
                Some(choices.below(made)),
            ),
            3 => {
                let step = |choices: &mut Choices<'_>| match choices.below(3) {
                    0 => Step::Number(edge),
                    1 => Step::Input(choices.below(3)),
                    _ => Step::Call(choices.of(Function::NAMES)),
                };
                Content::Formula((0..choices.below(5)).map(|_| step(choices)).collect())
            }
            _ => Content::Transform {
                input: choices.below(3),
                whole: choices.byte() & 1 == 0,
                rule: choices.below(made),
                content: choices.below(made),
            },
        });
    }
    let names = (0..inputs).map(|input| input.to_string()).collect();
    let plain = || Correction::new("c".into(), Vec::new(), vec![Content::Value(1.0)]).unwrap();
    match Correction::new("c".into(), names, contents) {
        Ok(made) => (Op::Correct(Arc::new(made)), inputs),
        Err(_) => (Op::Correct(Arc::new(plain())), 0),
    }
}

/// A program of any operations over a few small columns, and a histogram of its last value.
pub fn expression(data: &[u8]) {
    let mut choices = Choices(data);
    let length = choices.below(24);
    let columns: Vec<Column> = (0..=choices.below(3)).map(|_| column(&mut choices, length, 0)).collect();
    let mut nodes: Vec<Node> =
        (0..columns.len()).map(|at| Node { op: Op::Input(at, Vec::new()), args: Vec::new() }).collect();
    for _ in 0..choices.below(24) {
        let constant = match choices.below(3) {
            0 => Constant::Bool(choices.byte() != 0),
            1 => Constant::Int(i64::from(choices.byte() as i8) << choices.below(56)),
            _ => Constant::Float(f64::from(choices.byte() as i8) / 3.0),
        };
        let (op, args) = match choices.below(20) {
            0 => (Op::Constant(constant), 0),
            1 => (Op::Unary(choices.of(Unary::NAMES)), 1),
            2..5 => (Op::Binary(choices.of(Binary::NAMES)), 2),
            5 => (Op::Where, 3),
            6 | 7 => (Op::Reduce(choices.of(Reduction::NAMES)), 1),
            8 => (Op::Count, 1),
            9 => (Op::First, 1),
            10 => (Op::Argsort, 1),
            11 => (Op::Take, 2),
            12 => (Op::At, 2),
            13 => (Op::Filter, 2),
            14 => (Op::Slice(choices.bound(), choices.bound(), choices.bound().unwrap_or(1)), 1),
            15 => (Op::Index(i64::from(choices.byte() as i8)), 1),
            16 => (Op::Combinations(choices.below(18), choices.below(18)), 1),
            17 => (Op::Cartesian(choices.below(3)), 1 + choices.below(3)),
            18 => match choices.below(10) {
                0 => (Op::Nested(choices.below(3)), 2),
                1 => (Op::LocalIndex, 1),
                2 => (Op::Concatenate, 1 + choices.below(3)),
                3 => (Op::CombinationSums(choices.below(5)), 1),
                4 => (Op::CombinationItems(choices.below(18), choices.below(18)), 2),
                5 => (
                    Op::CombinationVectorAt(choices.below(5), choices.of(Quantity::NAMES)),
                    3 + 2 * choices.below(2),
                ),
                6 => (Op::NestedItems(choices.below(3)), 3),
                7 => (Op::NestedDistances, 4),
                8 => correction(&mut choices),
                _ => (
                    Op::CombinationVectors(choices.below(5), choices.of(Quantity::NAMES)),
                    2 + 2 * choices.below(2),
                ),
            },
            _ => (Op::FillNone(constant), 1),
        };
        let args = (0..args).map(|_| choices.below(nodes.len())).collect();
        nodes.push(Node { op, args });
    }
    let last = nodes.len() - 1;
    let select = choices.bound().map(|_| choices.below(nodes.len()));
    let kept: Vec<usize> = select.into_iter().chain([last]).collect();
    let Ok(program) = Program::new(nodes, &kept, choices.byte() & 1 == 0) else { return };
    let _ = expr::columns(pool(), &program, &[last], &columns, length);
    let _ = expr::types(&program, &kept, &columns, length);
    let edges = match choices.below(3) {
        0 => Edges::Regular { bins: choices.below(30), low: -3.0, high: 40.0 },
        1 => Edges::Variable(vec![-1.0, 0.0, 2.5]),
        _ => Edges::Integer { bins: choices.below(30), first: i64::from(choices.byte() as i8) },
    };
    let axis = Axis { edges, under: choices.byte() & 1 == 0, over: choices.byte() & 1 == 0 };
    let fill = Fill { axes: vec![(axis, last)], select, weight: None, sample: None, storage: Storage::Sum };
    if let Ok(mut bins) = Bins::new(&fill) {
        let fills = [fill.clone(), fill];
        let _ = expr::fill_columns(None, &program, &fills, &columns, length);
        let _ = expr::fill_columns(Some(pool()), &program, &fills, &columns, length);
        bins.join(&bins.clone());
    }
}
