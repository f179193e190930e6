//! Written trees, read back.

use super::*;
use crate::ErrorKind;
use crate::array::{self, Number};
use crate::compress::encode::Algorithm;
use crate::file::RootFile;
use crate::file::writer::{CommitEvery, Options};
use crate::output::OutputFile;
use crate::read::{Part, read};
use crate::streamer::declare::Shape;
use crate::tree::{Tree, describe};
use arrow_buffer::Buffer;
use sapwood_io::Memory;
use sapwood_io::sink::{MemorySink, Sink};
use std::io;
use std::sync::{Arc, Mutex};

fn output(room: usize, compression: Compression) -> (MemorySink, OutputFile) {
    output_that_commits(CommitEvery::Never, room, compression)
}

fn output_that_commits(
    commit_every: CommitEvery,
    room: usize,
    compression: Compression,
) -> (MemorySink, OutputFile) {
    let sink = MemorySink::limited(room as u64);
    let options = Options { compression, commit_every, ..Options::default() };
    let file = FileWriter::create(Box::new(sink.clone()), "x.root", options).unwrap();
    (sink, OutputFile::new(file))
}

fn make_tree(
    out: &mut OutputFile,
    directory: DirectoryId,
    name: &str,
    branches: &[BranchSpec],
    options: TreeOptions,
) -> Result<usize> {
    let tree = TreeWriter::new(&mut out.file, directory, name, branches, options)?;
    Ok(out.add(tree))
}

fn open(sink: &MemorySink) -> Tree {
    let bytes = sink.bytes().clone();
    let file = Arc::new(RootFile::open(Arc::new(Memory::new("shared", bytes))).unwrap());
    let key = file.directory().unwrap().keys[0].clone();
    let tree = Tree::read(&file, &key).unwrap();
    let as_objects = Tree::read_by(&file, &key, |_, _, _| None).unwrap();
    assert_eq!(format!("{:?}", tree.branches), format!("{:?}", as_objects.branches));
    let straight = Tree::read_by(&file, &key, |cursor, named, classes| {
        Some(describe::branches(cursor, named, classes).unwrap())
    });
    assert_eq!(straight.unwrap().branches.len(), tree.branches.len());
    tree
}

fn spec(name: &str, kind: BranchKind) -> BranchSpec {
    BranchSpec { name: name.to_owned(), kind, compression: None }
}

fn floats(dims: &[usize]) -> BranchKind {
    BranchKind::Numbers { number: Shape::Number(Number::F32), dims: dims.to_vec() }
}

fn float_column(values: impl IntoIterator<Item = f32>) -> Column {
    Column::Number { number: Number::F32, values: Buffer::from_vec(values.into_iter().collect::<Vec<_>>()) }
}

fn list_column(lengths: &[i64]) -> Column {
    let mut offsets = vec![0];
    offsets.extend(lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    }));
    let total = *offsets.last().unwrap();
    let values: Vec<i16> = (0..total as i16).collect();
    let values = Column::Number { number: Number::I16, values: Buffer::from_vec(values) };
    Column::List { offsets: Buffer::from_vec(offsets), values: Box::new(values) }
}

fn text_column(texts: &[&str]) -> Column {
    let mut offsets = vec![0_i64];
    offsets.extend(texts.iter().scan(0, |end, text| {
        *end += text.len() as i64;
        Some(*end)
    }));
    Column::Text { offsets: Buffer::from_vec(offsets), bytes: Buffer::from(texts.concat().as_bytes()) }
}

fn mixed() -> Vec<BranchSpec> {
    vec![
        spec("x", floats(&[])),
        spec("n", BranchKind::Counter),
        spec("j", BranchKind::Counted { number: Shape::Number(Number::I16), dims: vec![], counter: 1 }),
        spec("a", floats(&[2, 3])),
        spec("s", BranchKind::Text),
    ]
}

fn mixed_columns(rows: usize) -> Vec<Column> {
    let lengths: Vec<i64> = (0..rows as i64).map(|i| i % 4).collect();
    let long = "y".repeat(300);
    let texts: Vec<&str> = (0..rows).map(|i| ["", "abc", "ä", &long][i % 4]).collect();
    let arrays = Column::FixedList {
        length: rows * 2,
        size: 3,
        values: Box::new(float_column((0..rows * 6).map(|i| i as f32))),
    };
    vec![
        float_column((0..rows).map(|i| i as f32)),
        list_column(&lengths),
        Column::FixedList { length: rows, size: 2, values: Box::new(arrays) },
        text_column(&texts),
    ]
}

fn pool() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap()
}

/// Returns the values of every branch except the counters.
fn values(tree: &Tree) -> Vec<Column> {
    let taken = |i: &usize| tree.branches[*i].leaves[0].class != "TLeafI";
    let branches: Vec<usize> = (0..tree.branches.len()).filter(taken).collect();
    read(&pool(), &[Part { table: tree, fields: &branches, start: 0, stop: tree.entries }]).unwrap()
}

/// Whether types are equal, ignoring the nesting of dimensions and the names of strings.
#[allow(clippy::many_single_char_names, reason = "pairs of parts")]
fn same(a: &Column, b: &Column) -> bool {
    match (a, b) {
        (Column::Number { number: x, values: a }, Column::Number { number: y, values: b }) => {
            x == y && a == b
        }
        (Column::Text { offsets: x, bytes: a }, Column::Text { offsets: y, bytes: b }) => x == y && a == b,
        (Column::List { offsets: x, values: a }, Column::List { offsets: y, values: b }) => {
            x == y && same(a, b)
        }
        (
            Column::FixedList { length: n, size: x, values: a },
            Column::FixedList { length: m, size: y, values: b },
        ) => (n, x) == (m, y) && same(a, b),
        _ => false,
    }
}

fn assert_same(got: &[Column], want: &[Column]) {
    assert_eq!(got.len(), want.len());
    for (index, (got, want)) in got.iter().zip(want).enumerate() {
        assert!(same(got, want), "column {index}: {} and {} entries", got.len(), want.len());
    }
}

fn slice(columns: &[Column], from: usize, to: usize) -> Vec<Column> {
    let cut = |column: &Column| match column {
        Column::Number { number, values } => {
            let width = number.size();
            Column::Number {
                number: *number,
                values: values.slice_with_length(from * width, (to - from) * width),
            }
        }
        Column::List { offsets, values } => Column::List {
            offsets: offsets.slice_with_length(from * 8, (to - from + 1) * 8),
            values: values.clone(),
        },
        Column::Text { offsets, bytes } => Column::Text {
            offsets: offsets.slice_with_length(from * 8, (to - from + 1) * 8),
            bytes: bytes.clone(),
        },
        other => other.clone(),
    };
    columns.iter().map(cut).collect()
}

#[test]
fn every_kind_comes_back_with_every_codec_cluster_and_basket_size() {
    let want = mixed_columns(1000);
    let codecs =
        [Compression::None, Compression::Level(Algorithm::Zlib, 1), Compression::Level(Algorithm::Zstd, 5)];
    for compression in codecs {
        for (auto_flush, max_basket) in [(-30_000_000, None), (300, None), (1, Some(100)), (-2000, Some(500))]
        {
            let (sink, mut out) = output(usize::MAX, compression);
            let options = TreeOptions { auto_flush, max_basket, ..TreeOptions::default() };
            let id = make_tree(&mut out, 0, "t", &mixed(), options).unwrap();
            let (tree, file) = out.table_mut(id).unwrap();
            tree.extend(file, &want).unwrap();
            out.close().unwrap();
            let tree = open(&sink);
            assert_eq!(tree.entries, 1000);
            assert_same(&values(&tree), &want);
            let counter = read(&pool(), &[Part { table: &tree, fields: &[1], start: 0, stop: 8 }]).unwrap();
            let counts: Vec<u8> = [0_i32, 1, 2, 3, 0, 1, 2, 3].iter().flat_map(|n| n.to_ne_bytes()).collect();
            assert!(matches!(&counter[0], Column::Number { values, .. } if values.as_slice() == counts));
        }
    }
}

#[test]
fn many_small_extensions_fill_the_same_clusters_as_one() {
    let specs = || vec![spec("x", floats(&[])), spec("n", BranchKind::Counter), mixed().swap_remove(2)];
    let mut files = Vec::new();
    for step in [1000, 7, 1] {
        let (sink, mut out) = output(usize::MAX, Compression::None);
        let options = TreeOptions { auto_flush: -4000, ..TreeOptions::default() };
        let id = make_tree(&mut out, 0, "t", &specs(), options).unwrap();
        let all = &mixed_columns(1000)[..2];
        for from in (0..1000).step_by(step) {
            let (tree, file) = out.table_mut(id).unwrap();
            tree.extend(file, &slice(all, from, 1000.min(from + step))).unwrap();
        }
        out.close().unwrap();
        assert!(out.writer::<TreeWriter>(id).unwrap().0.clusters().len() > 2);
        files.push((
            out.writer::<TreeWriter>(id).unwrap().0.clusters().to_vec(),
            open(&sink).cluster_borders(),
        ));
    }
    assert_eq!(files[0].0, files[1].0);
    assert_eq!(files[0].0, files[2].0);
    assert_eq!(files[0].1[1..], files[0].0);
}

#[test]
fn a_cluster_is_one_stretch_of_the_file_in_the_order_of_branches() {
    let long = [spec("a", floats(&[])), spec("b", floats(&[]))];
    let long_columns =
        [float_column((0..300_000).map(|i| i as f32)), float_column((0..300_000).map(|i| -i as f32))];
    for (branches, columns, entries, cluster, most) in [
        (&mixed()[..], &mixed_columns(1000)[..], 1000, 400, 1000),
        (&long, &long_columns, 300_000, 200_000, 100_000),
    ] {
        let (sink, mut out) = output(usize::MAX, Compression::None);
        let options = TreeOptions { auto_flush: cluster, max_basket: Some(most), ..TreeOptions::default() };
        let id = make_tree(&mut out, 0, "t", branches, options).unwrap();
        let (tree, file) = out.table_mut(id).unwrap();
        tree.extend(file, columns).unwrap();
        out.close().unwrap();
        let tree = open(&sink);
        assert_eq!(tree.entries, entries);
        let mut baskets = Vec::new();
        for (index, branch) in tree.branches.iter().enumerate() {
            for basket in &branch.baskets {
                let (number, entry) = (basket.first / cluster as u64, basket.first % cluster as u64);
                // The first basket, then runs of half a mebibyte of each branch. Clusters with this many entries have
                // 4-byte entries.
                let run = 4 * entry / (512 << 10);
                baskets.push((number, (entry > 0, run), index, entry, basket.seek(), basket.bytes()));
            }
        }
        baskets.sort_unstable();
        let mut pairs = baskets.windows(2);
        assert!(pairs.all(|w| w[0].4 < w[1].4), "in another order");
        let mut pairs = baskets.windows(2);
        assert!(pairs.all(|w| w[0].0 != w[1].0 || w[0].4 + w[0].5 == w[1].4), "gaps between baskets");
        assert!(baskets.len() > 15);
    }
}

#[test]
fn the_first_cluster_is_measured_by_what_it_compresses_to() {
    for (compression, least, most) in
        [(Compression::None, 2490, 2510), (Compression::Level(Algorithm::Zstd, 1), 9990, 10_010)]
    {
        let (_, mut out) = output(usize::MAX, compression);
        let options = TreeOptions { auto_flush: -10_000, ..TreeOptions::default() };
        let id = make_tree(&mut out, 0, "t", &[spec("x", floats(&[]))], options).unwrap();
        let (tree, file) = out.table_mut(id).unwrap();
        tree.extend(file, &[float_column((0..40_000).map(|_| 1.0))]).unwrap();
        let clusters = out.writer::<TreeWriter>(id).unwrap().0.clusters();
        assert!((least..=most).contains(&clusters[0]), "{compression:?}: {clusters:?}");
        assert_eq!(clusters[1], 2 * clusters[0]);
    }
}

#[test]
fn no_entries_and_no_elements_are_written_as_such() {
    let (sink, mut out) = output(usize::MAX, Compression::None);
    make_tree(&mut out, 0, "t", &mixed(), TreeOptions::default()).unwrap();
    out.close().unwrap();
    let tree = open(&sink);
    assert_eq!((tree.entries, tree.branches.len()), (0, 5));
    assert_eq!(values(&tree).iter().map(Column::len).collect::<Vec<_>>(), [0; 4]);

    let (sink, mut out) = output(usize::MAX, Compression::None);
    let specs = vec![spec("n", BranchKind::Counter), spec("s", BranchKind::Text)];
    let mut list = mixed().swap_remove(2);
    list.kind = BranchKind::Counted { number: Shape::Number(Number::I16), dims: vec![], counter: 0 };
    let id = make_tree(&mut out, 0, "t", &[specs, vec![list]].concat(), TreeOptions::default()).unwrap();
    let (tree, file) = out.table_mut(id).unwrap();
    let columns = [text_column(&["", "", ""]), list_column(&[0, 0, 0])];
    tree.extend(file, &columns).unwrap();
    out.close().unwrap();
    assert_same(&values(&open(&sink)), &columns);
}

#[test]
fn columns_that_do_not_fit_are_refused_and_leave_no_trace() {
    let (sink, mut out) = output(usize::MAX, Compression::None);
    let id = make_tree(&mut out, 0, "t", &mixed(), TreeOptions::default()).unwrap();
    let (tree, file) = out.table_mut(id).unwrap();
    let good = mixed_columns(8);
    let replaced = |index: usize, column: Column| {
        let mut columns = good.clone();
        columns[index] = column;
        columns
    };
    let falling =
        Column::List { offsets: Buffer::from_vec(vec![0_i64, 2, 1]), values: Box::new(float_column([1.0])) };
    let numbers = Column::Number { number: Number::F64, values: Buffer::from_vec(vec![1.0_f64; 8]) };
    for (columns, message) in [
        (good[..3].to_vec(), "3 columns were given for 4 branches"),
        (replaced(0, float_column([1.0])), "branch x has 1 entries, but another branch has 8"),
        (replaced(0, numbers), "takes float32, not float64"),
        (replaced(1, falling), "offsets of lists decrease"),
        (replaced(1, list_column(&[0; 7])), "has 7 entries"),
        (replaced(3, good[0].clone()), "takes strings"),
    ] {
        let error = tree.extend(file, &columns).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().contains(message), "{error} does not say {message:?}");
    }
    tree.extend(file, &good).unwrap();
    out.close().unwrap();
    assert_same(&values(&open(&sink)), &good);
}

#[test]
fn lists_that_share_a_counter_have_equal_lengths() {
    let (_, mut out) = output(usize::MAX, Compression::None);
    let counted = |name| {
        spec(name, BranchKind::Counted { number: Shape::Number(Number::I16), dims: vec![], counter: 0 })
    };
    let specs = vec![spec("n", BranchKind::Counter), counted("a"), counted("b")];
    let id = make_tree(&mut out, 0, "t", &specs, TreeOptions::default()).unwrap();
    let (tree, file) = out.table_mut(id).unwrap();
    tree.extend(file, &[list_column(&[1, 2]), list_column(&[1, 2])]).unwrap();
    let error = tree.extend(file, &[list_column(&[1, 2]), list_column(&[2, 1])]).unwrap_err();
    assert!(error.to_string().contains("share the counter n"), "{error}");
    assert_eq!(tree.entries(), 2);
}

#[test]
fn branches_that_cannot_be_are_refused() {
    let (_, mut out) = output(usize::MAX, Compression::None);
    let counted = |counter| {
        spec("j", BranchKind::Counted { number: Shape::Number(Number::I16), dims: vec![], counter })
    };
    for (specs, message) in [
        (vec![], "at least one branch"),
        (vec![spec("", floats(&[]))], "without a name"),
        (vec![spec("x", floats(&[])), spec("x", floats(&[]))], "two branches"),
        (vec![counted(0)], "its counter must come before it"),
        (vec![spec("n", BranchKind::Counter)], "counts no other branch"),
        (vec![spec("x", floats(&[0]))], "arrays of [0]"),
        (vec![spec("x", floats(&[1 << 20, 1 << 20]))], "arrays of"),
    ] {
        let error = make_tree(&mut out, 0, "t", &specs, TreeOptions::default()).unwrap_err();
        assert!(error.to_string().contains(message), "{error} does not say {message:?}");
    }
    assert!(out.file.list(0).unwrap().is_empty());
}

#[test]
fn a_full_disk_leaves_the_clusters_before_it() {
    let (sink, mut out) = output(90_000, Compression::None);
    let options = TreeOptions { auto_flush: 1000, ..TreeOptions::default() };
    let id = make_tree(&mut out, 0, "t", &[spec("x", floats(&[]))], options).unwrap();
    let (tree, file) = out.table_mut(id).unwrap();
    let column = || [float_column((0..10_000).map(|i| i as f32))];
    let error = tree.extend(file, &column()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(
        error.to_string().contains("5000 entries of tree t are safe, 1000 more were not written"),
        "{error}"
    );
    assert!(tree.extend(file, &column()).unwrap_err().to_string().contains("an earlier write failed"));
    out.close().unwrap();
    let tree = open(&sink);
    assert_eq!(tree.entries, 5000);
    assert_same(&values(&tree), &[float_column((0..5000).map(|i| i as f32))]);
}

#[test]
fn a_full_disk_leaves_the_clusters_that_were_committed() {
    for room in (10_000..60_000).step_by(1777) {
        for commit_every in [CommitEvery::Cluster, CommitEvery::Bytes(8000)] {
            let (sink, mut out) = output_that_commits(commit_every, room, Compression::None);
            let options = TreeOptions { auto_flush: 500, ..TreeOptions::default() };
            let id = make_tree(&mut out, 0, "t", &[spec("x", floats(&[]))], options).unwrap();
            let (tree, file) = out.table_mut(id).unwrap();
            let Err(error) = tree.extend(file, &[float_column((0..20_000).map(|i| i as f32))]) else {
                panic!("80,000 bytes in {room}")
            };
            let text = error.to_string();
            let (said, _) = text.split_once(" entries of tree t are safe").unwrap();
            let safe: u64 = said.rsplit_once(' ').unwrap().1.parse().unwrap();
            // The end may or may not find room.
            let _ = out.close();
            let bytes = sink.bytes().clone();
            let file = RootFile::open(Arc::new(Memory::new("shared", bytes))).unwrap();
            if safe == 0 && file.directory().unwrap().keys.is_empty() {
                continue;
            }
            let tree = open(&sink);
            assert!(tree.entries >= safe, "{text}");
            let wanted = (0..tree.entries).map(|i| i as f32);
            assert_same(&values(&tree), &[float_column(wanted)]);
        }
    }
}

#[test]
fn every_write_leaves_a_whole_file_with_all_commits() {
    /// Records every state of the storage.
    struct Recorder(MemorySink, Arc<Mutex<Vec<Vec<u8>>>>);
    impl Sink for Recorder {
        fn write_at(&mut self, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
            self.0.write_at(offset, parts)?;
            self.1.lock().unwrap().push(self.0.bytes().clone());
            Ok(())
        }
        fn finish(&mut self, length: u64) -> io::Result<()> {
            self.0.finish(length)?;
            self.1.lock().unwrap().push(self.0.bytes().clone());
            Ok(())
        }
        fn name(&self) -> &'static str {
            "recorder"
        }
    }
    let states: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let shared = MemorySink::new();
    let file = FileWriter::create(
        Box::new(Recorder(shared.clone(), states.clone())),
        "x.root",
        Options { compression: Compression::None, ..Options::default() },
    );
    let mut out = OutputFile::new(file.unwrap());
    // Before that, there is no file yet.
    let first = states.lock().unwrap().len() - 1;
    let directory = out.file.mkdir(0, "d", "").unwrap();
    let options = TreeOptions { auto_flush: 100, ..TreeOptions::default() };
    let id = make_tree(&mut out, directory, "t", &mixed(), options).unwrap();
    let mut marks = vec![(0, 0)];
    for round in 1..=8_u64 {
        let (tree, file) = out.table_mut(id).unwrap();
        tree.extend(file, &mixed_columns(100)).unwrap();
        marks.push((states.lock().unwrap().len(), round * 100));
    }
    out.close().unwrap();
    let states = states.lock().unwrap();
    assert!(states.len() > 40);
    for (i, state) in states.iter().enumerate().skip(first) {
        let least = marks.iter().rfind(|(states, _)| *states <= i + 1).unwrap().1;
        let file = Arc::new(RootFile::open(Arc::new(Memory::new("state", state.clone()))).unwrap());
        let root = file.directory().unwrap();
        assert!(!root.recovered);
        let Some(key) = root.keys.first() else {
            assert_eq!(least, 0);
            continue;
        };
        let inner = file.subdirectory(key).unwrap();
        let Some(key) = inner.keys.first() else {
            assert_eq!(least, 0);
            continue;
        };
        let tree = Tree::read(&file, key).unwrap();
        assert!(tree.entries >= least, "state {i} has {} entries of {least}", tree.entries);
        let rows = tree.entries as usize;
        let wanted: Vec<Column> = mixed_columns(100);
        assert_eq!(values(&tree)[0].len(), rows);
        assert_same(
            &[slice(&values(&tree)[..1], 0, 100.min(rows)).remove(0)],
            &slice(&wanted[..1], 0, 100.min(rows)),
        );
    }
}

#[test]
fn every_commit_shows_what_was_written() {
    let (sink, mut out) = output(usize::MAX, Compression::Level(Algorithm::Lz4, 1));
    let options = TreeOptions { auto_flush: 100, ..TreeOptions::default() };
    let id = make_tree(&mut out, 0, "t", &mixed(), options).unwrap();
    for round in 1..=5 {
        let (tree, file) = out.table_mut(id).unwrap();
        tree.extend(file, &mixed_columns(144)).unwrap();
        out.commit().unwrap();
        // Bytes past the commit do not matter.
        let (tree, file) = out.table_mut(id).unwrap();
        tree.extend(file, &mixed_columns(6)).unwrap();
        assert_eq!(open(&sink).entries, 150 * round - 6);
    }
    out.close().unwrap();
    let tree = open(&sink);
    assert_eq!(tree.entries, 750);
    assert_eq!(values(&tree)[0].len(), 750);
}

#[test]
fn a_counter_that_counts_itself_is_refused() {
    let (sink, mut out) = output(usize::MAX, Compression::None);
    let id = make_tree(&mut out, 0, "t", &mixed(), TreeOptions::default()).unwrap();
    let (tree, file) = out.table_mut(id).unwrap();
    tree.extend(file, &mixed_columns(10)).unwrap();
    out.close().unwrap();
    let mut tree = open(&sink);
    let counted = tree.branches.iter().position(|b| b.counter.is_some()).unwrap();
    tree.branches[counted].counter = Some(counted);
    tree.branches[counted].offsets_from_counter = true;
    let part = Part { table: &tree, fields: &[counted], start: 0, stop: 10 };
    let error = read(&pool(), &[part]).unwrap_err();
    assert!(error.to_string().contains("its counter is not a number"), "{error}");
}

#[test]
fn trees_with_and_without_stored_offsets_are_joined() {
    let (sink, mut out) = output(usize::MAX, Compression::None);
    let id = make_tree(&mut out, 0, "t", &mixed(), TreeOptions::default()).unwrap();
    let (tree, file) = out.table_mut(id).unwrap();
    tree.extend(file, &mixed_columns(10)).unwrap();
    out.close().unwrap();
    let (stored, mut generated) = (open(&sink), open(&sink));
    let counted = stored.branches.iter().position(|b| b.counter.is_some()).unwrap();
    generated.branches[counted].offsets_from_counter = true;
    for trees in [[&stored, &generated], [&generated, &stored]] {
        let fields = [counted];
        let parts = trees.map(|table| Part { table, fields: &fields, start: 0, stop: 10 });
        let each = parts.map(|part| read(&pool(), &[part]).unwrap().remove(0));
        let columns = read(&pool(), &parts).unwrap();
        assert_same(&columns, &[array::join(&[&each[0], &each[1]]).unwrap()]);
    }
}

#[test]
fn clusters_are_no_more_than_baskets() {
    let (sink, mut out) = output(usize::MAX, Compression::None);
    let options = TreeOptions { auto_flush: 5, ..TreeOptions::default() };
    let id = make_tree(&mut out, 0, "t", &mixed(), options).unwrap();
    let (tree, file) = out.table_mut(id).unwrap();
    tree.extend(file, &mixed_columns(20)).unwrap();
    out.close().unwrap();
    let mut tree = open(&sink);
    assert_eq!(tree.cluster_borders(), [0, 5, 10, 15, 20]);
    // Cluster sizes whose borders would take 400 GB.
    tree.entries = 1 << 60;
    tree.clusters = (1..=1000).map(|i| (i << 50, 1 << 25)).collect();
    assert_eq!(tree.cluster_borders(), [0, 5, 10, 15, 1 << 60]);
}

#[test]
fn baskets_that_have_more_bytes_than_the_file_are_refused() {
    let (sink, mut out) = output(usize::MAX, Compression::None);
    let options = TreeOptions { auto_flush: 1000, ..TreeOptions::default() };
    let id = make_tree(&mut out, 0, "t", &[spec("x", floats(&[]))], options).unwrap();
    let (tree, file) = out.table_mut(id).unwrap();
    tree.extend(file, &[float_column((0..20_000).map(|i| i as f32))]).unwrap();
    out.close().unwrap();
    let size = sink.bytes().len() as u64;
    let mut branches = open(&sink).branches;
    crate::tree::verify_places(&branches, size).unwrap();
    for basket in &mut branches[0].baskets {
        basket.place = BasketPlace::File(100, size / 10);
    }
    let error = crate::tree::verify_places(&branches, size).unwrap_err().to_string();
    assert!(error.contains("baskets overlap") && error.contains("branch x"), "{error}");
    // Baskets past the end of a truncated file do not count.
    crate::tree::verify_places(&branches, 99).unwrap();
}
