//! Small files without compression whose objects, class descriptions and baskets are edited as an input says. Lengths of
//! keys, byte counts and references around an edit are corrected, so that the damage reaches the decoders.

use crate::choices::{Choices, overwrite};
use crate::{opened, read_all, small_tree};
use sapwood_io::Memory;
use sapwood_io::sink::MemorySink;
use sapwood_root::compress::encode::Compression;
use sapwood_root::error::Result;
use sapwood_root::file::writer::{CommitEvery, FileWriter, Options, Record};
use sapwood_root::file::{RootFile, kinds};
use sapwood_root::output::OutputFile;
use sapwood_root::streamer::encode::encode_object;
use sapwood_root::streamer::{ObjectReader, Value};
use sapwood_root::tree::Tree;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Files of ROOT with trees and objects of many classes.
const FILES: [&[u8]; 8] = [
    include_bytes!("../../tests/golden/objects/plain.root"),
    include_bytes!("../../tests/golden/objects/memberwise.root"),
    include_bytes!("../../tests/golden/objects/objectwise.root"),
    include_bytes!("../../tests/golden/objects/hidden.root"),
    include_bytes!("../../tests/golden/objects/version1.root"),
    include_bytes!("../../tests/golden/objects/standard.root"),
    include_bytes!("../../tests/golden/objects/functions.root"),
    include_bytes!("../../tests/golden/reading/short.root"),
];
/// Objects in a file.
const OBJECTS: usize = 6;
/// Bytes of a key before its texts, with positions of 32 bits; and bytes of a basket after its texts.
const KEY: usize = 26;
const OF_BASKET: usize = 19;

/// A file with one tree, or with some objects.
struct Base {
    bytes: Vec<u8>,
    places: Vec<Place>,
}

/// A record that can be edited.
struct Place {
    seek: usize,
    /// Bytes that are edited.
    content: Range<usize>,
    listed: Listed,
}

enum Listed {
    /// As a copy of its key, at this place of a key list.
    Key(usize),
    /// In the header of the file.
    Streamers,
    /// In a tree, which is not changed.
    Tree,
}

fn bases() -> &'static [Base] {
    static BASES: OnceLock<Vec<Base>> = OnceLock::new();
    BASES.get_or_init(|| {
        let mut made: Vec<Base> = Base::of(|out| small_tree(out, 0, "t")).into_iter().collect();
        for bytes in FILES {
            let file =
                Arc::new(RootFile::open(Arc::new(Memory::new("golden", bytes))).expect("a golden file"));
            let mut records = Vec::new();
            for key in &file.directory().expect("its directory").keys {
                if kinds::is_tree(&key.classname) {
                    made.extend(Base::of(|out| {
                        let number = out.join_tree(0, &key.name, &file, key, Some(Compression::None))?;
                        let (tree, writer) = out.joined_mut(number)?;
                        tree.add(writer, &file, &Tree::read(&file, key)?, 0).map(drop)
                    }));
                } else {
                    records.extend(Record::read(&file, key));
                }
            }
            for some in records.chunks(OBJECTS) {
                made.extend(Base::of(|out| {
                    for record in some {
                        // Those that cannot be copied are left out.
                        let _ = out.file.copy(0, record.name(), record);
                    }
                    Ok(())
                }));
            }
        }
        made
    })
}

impl Base {
    fn of(fill: impl FnOnce(&mut OutputFile) -> Result<()>) -> Option<Self> {
        let sink = MemorySink::new();
        let options = Options {
            compression: Compression::None,
            commit_every: CommitEvery::Never,
            uuid: Some([1; 16]),
            datime: Some(1),
            ..Options::default()
        };
        let mut out = OutputFile::new(FileWriter::create(Box::new(sink.clone()), "base.root", options).ok()?);
        fill(&mut out).ok()?;
        out.close().ok()?;
        let bytes = sink.bytes().clone();
        let mut places = Vec::new();
        let header = opened(&bytes)?.header().clone();
        let mut at = header.begin as usize;
        while let Some(size) = number(&bytes, at).filter(|_| at + KEY < bytes.len()) {
            let total = size.cast_signed();
            if total > 0 {
                places.extend(Place::of(&bytes, at, total as usize, header.seek_info as usize));
            }
            at += (total.unsigned_abs() as usize).max(1);
        }
        (!places.is_empty()).then_some(Self { bytes, places })
    }
}

impl Place {
    fn of(bytes: &[u8], seek: usize, total: usize, infos: usize) -> Option<Self> {
        let record = bytes.get(seek..seek + total)?;
        let key = usize::from(u16::from_be_bytes([record[14], record[15]]));
        let class = record.get(KEY + 1..KEY + 1 + usize::from(record[KEY]))?;
        let listed = if seek == infos {
            Listed::Streamers
        } else if class == b"TBasket" {
            Listed::Tree
        } else {
            let other =
                bytes.windows(key).enumerate().find(|(at, window)| *at != seek && *window == &record[..key]);
            Listed::Key(other?.0)
        };
        let begin = if matches!(listed, Listed::Tree) { key.checked_sub(OF_BASKET)? } else { key };
        Some(Self { seek, content: seek + begin..seek + total, listed })
    }

    /// Writes a record with a new content to the end of the file.
    fn move_to_end(&self, file: &mut Vec<u8>, content: &[u8]) {
        let (seek, end) = (self.seek, file.len() as u32);
        let key = self.content.start - seek;
        let total = (key + content.len()) as u32;
        let put =
            |file: &mut [u8], at: usize, value: u32| file[at..at + 4].copy_from_slice(&value.to_be_bytes());
        let numbers = |file: &mut [u8], at: usize| {
            put(file, at, total);
            put(file, at + 6, content.len() as u32);
            put(file, at + 18, end);
        };
        file.extend_from_within(seek..seek + key);
        file.extend_from_slice(content);
        numbers(file, end as usize);
        match self.listed {
            Listed::Key(at) => numbers(file, at),
            Listed::Streamers => {
                put(file, 37, end);
                put(file, 41, total);
            }
            Listed::Tree => {}
        }
        put(file, 12, end + total);
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Replaces bytes of an object by others. Corrects the byte counts around them, and the references to objects after
/// them.
fn splice(content: &mut Vec<u8>, key: usize, range: Range<usize>, new: &[u8]) {
    let difference = new.len().wrapping_sub(range.len()) as u32;
    let mut changes = Vec::new();
    for at in (0..content.len().saturating_sub(3)).filter(|at| at + 4 <= range.start || *at >= range.end) {
        let word = number(content, at).unwrap_or_default();
        let (count, target) = ((word & 0x3fff_ffff) as usize, (word & 0x7fff_ffff) as usize);
        let counts = word >> 30 == 1 && count > 1 && at + 4 + count <= content.len();
        let refers = word >> 31 == 1
            && target
                .checked_sub(key + 2)
                .is_some_and(|at| at >= range.end && number(content, at) == Some(u32::MAX));
        if (counts && at + 4 <= range.start && range.end <= at + 4 + count) || refers {
            changes.push((at, word.wrapping_add(difference)));
        }
    }
    for (at, word) in changes {
        content[at..at + 4].copy_from_slice(&word.to_be_bytes());
    }
    content.splice(range, new.iter().copied());
}

/// Edits a base and reads everything in it.
pub fn objects(data: &[u8]) {
    let mut choices = Choices(data);
    let bases = bases();
    let base = &bases[choices.below(bases.len())];
    let mut file = base.bytes.clone();
    let mut moved: Vec<Option<Vec<u8>>> = base.places.iter().map(|_| None).collect();
    for _ in 0..=choices.below(6) {
        let chosen = choices.below(base.places.len());
        let place = &base.places[chosen];
        if matches!(place.listed, Listed::Tree) {
            overwrite(&mut file[place.content.clone()], &mut choices);
            continue;
        }
        let content = moved[chosen].get_or_insert_with(|| base.bytes[place.content.clone()].to_vec());
        if content.is_empty() {
            continue;
        }
        let at = choices.word() % content.len();
        let most = content.len() - at;
        let key = place.content.start - place.seek;
        match choices.below(6) {
            0 => {
                let new = choices.below(16);
                let new = choices.raw(new);
                splice(content, key, at..at, new);
            }
            1 => splice(content, key, at..at + most.min(1 + choices.below(40)), &[]),
            2 => {
                // Again what is already there, as another element of a list.
                let again = content[at..at + most.min(1 + choices.below(80))].to_vec();
                splice(content, key, at..at, &again);
            }
            _ => overwrite(content, &mut choices),
        }
    }
    for (place, content) in base.places.iter().zip(moved) {
        if let Some(content) = content {
            place.move_to_end(&mut file, &content);
        }
    }
    let Some(file) = opened(&file) else { return };
    let (Ok(directory), Ok(classes)) = (file.directory(), file.classes()) else { return };
    for key in directory.keys.iter().take(2 * OBJECTS) {
        if kinds::is_tree(&key.classname) {
            if let Ok(tree) = Tree::read(&file, key) {
                read_all(&tree);
            }
            continue;
        }
        let Ok(object) = file.object(key) else { continue };
        if let Ok(Value::Object(object)) =
            ObjectReader::new(&classes, &object, key.key_bytes.into()).payload(&key.classname)
        {
            let _ = object.problems();
            let _ = encode_object(&object, 0);
        }
    }
}
