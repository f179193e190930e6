//! Updates of damaged files.

use crate::{opened, pool, small_tree};
use sapwood_io::sink::MemorySink;
use sapwood_root::array::Column;
use sapwood_root::compress::encode::{Algorithm, Compression};
use sapwood_root::file::writer::{CommitEvery, Options};
use sapwood_root::file::{Directory, Key, RootFile, kinds};
use sapwood_root::ntuple::NTuple;
use sapwood_root::output::OutputFile;
use sapwood_root::read::{Part, read};
use sapwood_root::table::Table;
use sapwood_root::tree::Tree;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Opens a file for update, adds a tree, a directory and maybe another tree, and closes it. What could be read before has
/// the same values afterwards; a file whose update is refused has the same bytes. The first byte says how it is updated.
pub fn update(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let Some(file) = opened(data) else { return };
    let before = contents(&file);
    let mut sink = MemorySink::new();
    sapwood_io::sink::Sink::write_at(&mut sink, 0, &[data]).expect("memory takes bytes");
    let compression =
        if choice & 1 == 0 { Compression::None } else { Compression::Level(Algorithm::Zlib, 1) };
    let options = Options {
        commit_every: if choice & 2 == 0 { CommitEvery::Never } else { CommitEvery::Cluster },
        uuid: Some([1; 16]),
        datime: Some(1),
        ..Options::default()
    };
    let mut deleted = None;
    match OutputFile::update(&file, Box::new(sink.clone()), Some(compression), options) {
        Err(_) => assert!(*sink.bytes() == data, "a file whose update is refused was changed"),
        Ok(mut out) => {
            let _ = small_tree(&mut out, 0, "added by the fuzzer");
            if choice & 4 != 0 {
                let _ = out.commit();
            }
            if choice & 8 != 0
                && let Some(listed) = out
                    .file
                    .list(0)
                    .unwrap_or_default()
                    .into_iter()
                    .find(|listed| !kinds::is_more_than_its_record(&listed.class))
                && out.file.delete(0, &listed.name, None).is_ok()
            {
                deleted = Some(listed.name);
            }
            if let Ok(directory) = out.file.mkdir(0, "made by the fuzzer", "") {
                let _ = small_tree(&mut out, directory, "t");
            }
            let _ = out.close();
        }
    }
    let bytes = sink.bytes().clone();
    let after = opened(&bytes).map(|file| contents(&file)).unwrap_or_default();
    for (place, values) in before {
        if deleted.as_ref().is_some_and(|name| place.starts_with(&format!("/{name};"))) {
            continue;
        }
        for (part, value) in values {
            let now = after.get(&place).and_then(|values| values.get(&part));
            assert!(now == Some(&value), "{place:?}, part {part}: an update changed what could be read");
        }
    }
}

/// Key for the bytes of an object, next to the keys of its fields.
const OBJECT: usize = usize::MAX;

/// The content that could be read: a hash of the bytes of each object, and of the values of each field.
type Contents = HashMap<String, HashMap<usize, u64>>;

fn contents(file: &Arc<RootFile>) -> Contents {
    let mut found = Contents::new();
    if let Ok(directory) = file.directory().as_ref() {
        walk(file, directory, "", 0, &mut found);
    }
    found
}

fn walk(file: &Arc<RootFile>, directory: &Directory, path: &str, depth: usize, found: &mut Contents) {
    for key in directory.keys.iter().take(64) {
        let place = format!("{path}/{};{} at {}", key.name, key.cycle, key.seek);
        if kinds::DIRECTORIES.contains(&key.classname.as_str()) {
            if depth < 3
                && let Ok(inner) = file.subdirectory(key)
            {
                walk(file, &inner, &place, depth + 1, found);
            }
            continue;
        }
        found.insert(place, values(file, key));
    }
}

/// The stored object, whether its class is known or not, and the fields of a table.
fn values(file: &Arc<RootFile>, key: &Key) -> HashMap<usize, u64> {
    let mut found = match (Tree::read(file, key), NTuple::read(file, key)) {
        (Ok(tree), _) => fields(&tree),
        (_, Ok(ntuple)) => fields(&ntuple),
        _ => HashMap::new(),
    };
    if let Ok(bytes) = file.object(key) {
        found.insert(OBJECT, digest(|hasher| bytes.hash(hasher)));
    }
    found
}

fn fields(table: &dyn Table) -> HashMap<usize, u64> {
    let stop = table.entries();
    let read = |field: usize| {
        let columns = read(pool(), &[Part { table, fields: &[field], start: 0, stop }]).ok()?;
        Some((field, digest(|hasher| columns.iter().for_each(|column| hash(column, hasher)))))
    };
    (0..table.num_fields().min(64)).filter_map(read).collect()
}

fn digest(take: impl FnOnce(&mut DefaultHasher)) -> u64 {
    let mut hasher = DefaultHasher::new();
    take(&mut hasher);
    hasher.finish()
}

/// Hashes the values of a column.
fn hash(column: &Column, hasher: &mut DefaultHasher) {
    column.len().hash(hasher);
    match column {
        Column::Number { values, .. } => values.as_slice().hash(hasher),
        Column::Text { offsets, bytes } => (offsets.as_slice(), bytes.as_slice()).hash(hasher),
        Column::FixedList { values, size, .. } => {
            size.hash(hasher);
            hash(values, hasher);
        }
        Column::List { offsets, values } | Column::Option { index: offsets, values } => {
            offsets.as_slice().hash(hasher);
            hash(values, hasher);
        }
        Column::Record { fields, .. } => fields.iter().for_each(|(name, field)| {
            name.hash(hasher);
            hash(field, hasher);
        }),
        Column::Union { tags, index, variants } => {
            (tags.as_slice(), index.as_slice()).hash(hasher);
            variants.iter().for_each(|variant| hash(variant, hasher));
        }
        Column::Empty => {}
    }
}
