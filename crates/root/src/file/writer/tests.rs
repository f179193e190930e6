//! Written files, read back.

use super::*;
use crate::file::RootFile;
use crate::streamer::Value;
use sapwood_io::sink::{MemorySink, Sink};
use sapwood_io::{Cause, Memory};
use std::sync::Arc;

fn open(sink: &MemorySink) -> RootFile {
    RootFile::open(Arc::new(Memory::new("shared", sink.bytes().clone()))).unwrap()
}

fn text_object(text: &str) -> Object {
    let members = vec![("fString".into(), Value::Text(text.into()))];
    Object { class: "TObjString".into(), members, ..Object::default() }
}

fn names(file: &RootFile) -> Vec<String> {
    file.directory().unwrap().keys.iter().map(|k| format!("{};{} {}", k.name, k.cycle, k.classname)).collect()
}

#[test]
fn an_empty_file_is_readable() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    file.commit().unwrap();
    let back = open(&sink);
    assert_eq!(names(&back), Vec::<String>::new());
    assert_eq!(back.header().end, file.end());
    assert_eq!(back.header().compression, 505);
    assert!(!back.directory().unwrap().recovered);
}

#[test]
fn cycles_count_up_and_the_newest_comes_first() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    for text in ["one", "two"] {
        file.write_object(0, "s", "", &text_object(text)).unwrap();
    }
    file.write_object(0, "other", "title", &text_object(&"long ".repeat(200))).unwrap();
    file.commit().unwrap();
    assert_eq!(names(&open(&sink)), ["s;2 TObjString", "s;1 TObjString", "other;1 TObjString"]);
    assert!(open(&sink).classes().unwrap().contains("TObjString"));
}

#[test]
fn directories_nest_and_are_made_once() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    let a = file.mkdir(0, "a", "").unwrap();
    let b = file.mkdir(a, "b", "of a").unwrap();
    assert_eq!(file.mkdir(0, "a", "").unwrap(), a);
    file.write_object(b, "s", "", &text_object("x")).unwrap();
    assert!(file.write_object(0, "a", "", &text_object("x")).is_err());
    assert!(file.mkdir(b, "s", "").is_err());
    assert!(file.mkdir(0, "c/d", "").is_err());
    file.commit().unwrap();
    let back = open(&sink);
    let root = back.directory().unwrap();
    let a = back.subdirectory(&root.keys[0]).unwrap();
    let b = back.subdirectory(&a.keys[0]).unwrap();
    assert_eq!((b.name.as_str(), b.title.as_str(), b.keys[0].name.as_str()), ("b", "of a", "s"));
}

#[test]
fn every_state_between_two_commits_shows_the_first() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    let key = file.reserve(0, "TObjString", "s", "").unwrap();
    let encode = |text: String| move |keylen| encode_object(&text_object(&text), keylen);
    for round in 0..20 {
        file.write(key, encode(format!("{round}").repeat(round + 1))).unwrap();
        if round > 0 {
            assert_eq!(names(&open(&sink)).len(), round + 1, "round {round}");
        }
        file.write_object(0, &format!("more{round}"), "", &text_object("m")).unwrap();
        file.commit().unwrap();
        let back = open(&sink);
        let directory = back.directory().unwrap();
        assert_eq!(directory.keys.len(), round + 2);
        let key = &directory.keys[0];
        let bytes = back.bytes(key.seek, u64::from(key.total_bytes), Cause::Object).unwrap();
        let wanted = format!("{round}").repeat(round + 1);
        assert!(bytes.ends_with(wanted.as_bytes()));
    }
    // Segments released by one commit are reused by a later one.
    let total: u64 = file.free.iter().map(|(first, end)| end - first).sum();
    assert!(total < file.end() * 2 / 3, "{total} of {} bytes are free", file.end());
}

#[test]
fn free_segments_never_overlap_records() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    for round in 0..10 {
        file.write_object(0, "s", "", &text_object(&"y".repeat(round * 37))).unwrap();
        file.commit().unwrap();
    }
    let mut used: Vec<(u64, u64)> = file.free.iter().map(|(a, b)| (*a, *b)).collect();
    for key in &open(&sink).directory().unwrap().keys {
        used.push((key.seek, key.seek + u64::from(key.total_bytes)));
    }
    for (seek, size) in [file.infos, file.segments, file.directories[0].keys] {
        used.push((seek, seek + size as u64));
    }
    used.sort_unstable();
    assert!(used.windows(2).all(|w| w[0].1 <= w[1].0), "{used:?}");
    assert_eq!(used.last().unwrap().1, file.end());
}

#[test]
fn past_two_gigabytes_positions_have_64_bits() {
    let mut file =
        FileWriter::create(Box::new(MemorySink::starting_at(2_100_000_000)), "x.root", Options::default())
            .unwrap();
    file.leave_gap(2_100_000_000 - file.end());
    file.write_object(0, "s", "", &text_object("x")).unwrap();
    let directory = file.mkdir(0, "d", "").unwrap();
    file.write_object(directory, "t", "", &text_object("x")).unwrap();
    file.commit().unwrap();
    assert!(file.directories[0].entries.iter().all(|e| e.numbers.big && e.numbers.seek >= 2_100_000_000));
    assert!(file.end() > START_BIG);
}

#[test]
fn a_full_disk_is_an_error_that_names_the_place() {
    let sink = MemorySink::limited(500);
    let mut file = FileWriter::create(Box::new(sink), "x.root", Options::default()).unwrap();
    let error = file.write_object(0, "s", "", &text_object(&"z".repeat(200))).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Io);
    assert!(error.to_string().contains("memory"), "{error}");
}

#[test]
fn dates_are_packed_as_root_packs_them() {
    // 2026-11-20 15:20:14 is 0x7ee8f50e.. in local time of the file that ROOT wrote.
    assert_eq!(datime(1_795_188_014), 2_129_196_302);
    assert_eq!(datime(0), datime(788_918_400));
    assert_eq!(datime(788_918_400), 1 << 22 | 1 << 17);
    assert_eq!(datime(951_782_400) >> 17 & 31, 29);
}

#[test]
fn identities_are_random_and_of_version_four() {
    let (a, b) = (random_uuid(), random_uuid());
    assert_ne!(a, b);
    assert_eq!((a[6] >> 4, a[8] >> 6), (4, 2));
}

#[test]
fn directories_without_key_lists_cost_one_walk_through_the_file() {
    const COUNT: usize = 300;
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    for i in 0..COUNT {
        let directory = file.mkdir(0, &format!("d{i}"), "").unwrap();
        file.write_object(directory, "s", "", &text_object(&i.to_string())).unwrap();
    }
    file.commit().unwrap();
    let whole = open(&sink).directory().unwrap();
    for key in &whole.keys {
        // `fSeekKeys` of a directory's record.
        let place = key.seek as usize + usize::from(key.key_bytes) + 26;
        sink.bytes()[place..place + 4].fill(0);
    }
    let back = open(&sink);
    let root = back.directory().unwrap();
    let reads = || back.source().counters().snapshot()[0].1;
    back.subdirectory(&root.keys[0]).unwrap();
    let first = reads();
    for key in &root.keys {
        let directory = back.subdirectory(key).unwrap();
        let found: Vec<(u64, &str)> =
            directory.keys.iter().map(|key| (key.seek_parent, key.name.as_str())).collect();
        assert_eq!((found, directory.recovered), (vec![(key.seek, "s")], true));
    }
    assert_eq!(reads() - first, COUNT as u64);
    assert!(first < 10, "{first} reads");
}

/// Checks after each write that a reader finds a whole file, or an empty one.
struct Watched(MemorySink);

impl Sink for Watched {
    fn write_at(&mut self, offset: u64, parts: &[&[u8]]) -> std::io::Result<()> {
        self.0.write_at(offset, parts)?;
        open(&self.0).directory().map_err(std::io::Error::other)?;
        Ok(())
    }
    fn finish(&mut self, length: u64) -> std::io::Result<()> {
        self.0.finish(length)
    }
    fn name(&self) -> &'static str {
        "watched"
    }
}

#[test]
fn a_new_file_is_readable_after_its_first_write() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(Watched(sink.clone())), "x.root", Options::default()).unwrap();
    file.write_object(0, "s", "", &text_object("one")).unwrap();
    file.commit().unwrap();
    assert_eq!(names(&open(&sink)), ["s;1 TObjString"]);
}

#[test]
fn what_was_not_committed_is_undone() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    for name in ["kept", "gone"] {
        file.write_object(0, name, "", &text_object(&"z".repeat(200))).unwrap();
    }
    file.commit().unwrap();
    file.delete(0, "gone", None).unwrap();
    file.commit().unwrap();
    let before = sink.bytes().clone();
    file.write_object(0, "short", "", &text_object("in place of the other")).unwrap();
    for i in 0..20 {
        file.write_object(0, &format!("behind{i}"), "", &text_object(&"y".repeat(200))).unwrap();
    }
    assert!(sink.bytes().len() > before.len());
    file.roll_back().unwrap();
    assert_eq!(sink.bytes().len(), before.len());
    assert_eq!(names(&open(&sink)), ["kept;1 TObjString"]);
    // The next writer uses the free segments, which have their marks.
    let (end, room) = (file.end(), file.free.len());
    let source = open(&sink);
    let held = |_: &crate::file::Key| Ok(super::Held::Places(Vec::new()));
    let again = FileWriter::update(&source, Box::new(sink.clone()), None, Options::default(), &held).unwrap();
    assert!(again.end() < end);
    assert!(!again.free.is_empty() && room > 0);
}

/// Fails at the n-th write or flush from now: once, or from then on.
struct Failing {
    sink: MemorySink,
    left: usize,
    once: bool,
}

impl Failing {
    fn count(&mut self) -> std::io::Result<()> {
        if self.left == 0 {
            self.left = if self.once { usize::MAX } else { 0 };
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.left -= 1;
        Ok(())
    }
}

impl Sink for Failing {
    fn write_at(&mut self, offset: u64, parts: &[&[u8]]) -> std::io::Result<()> {
        self.count()?;
        self.sink.write_at(offset, parts)
    }
    fn finish(&mut self, length: u64) -> std::io::Result<()> {
        self.count()?;
        self.sink.finish(length)
    }
    fn name(&self) -> &'static str {
        "failing"
    }
}

#[test]
fn a_commit_that_fails_at_any_write_is_undone_or_says_in_which_state_the_file_is() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    let d = file.mkdir(0, "d", "").unwrap();
    let e = file.mkdir(d, "e", "").unwrap();
    for directory in [0, d, e] {
        for name in ["kept", "gone", "other"] {
            file.write_object(directory, name, "", &text_object(&"z".repeat(200))).unwrap();
        }
    }
    file.commit().unwrap();
    file.delete(d, "other", None).unwrap();
    file.commit().unwrap();
    let before = sink.bytes().clone();
    let every_name = |sink: &MemorySink| {
        let file = open(sink);
        let (mut todo, mut found) = (vec![file.directory().unwrap().clone()], Vec::new());
        while let Some(directory) = todo.pop() {
            assert!(!directory.recovered);
            for key in &directory.keys {
                found.push(format!("{};{}", key.name, key.cycle));
                if key.classname == "TDirectory" {
                    todo.push(file.subdirectory(key).unwrap());
                } else {
                    file.object(key).unwrap();
                }
            }
        }
        found
    };
    let old = every_name(&sink);
    let held = |_: &crate::file::Key| Ok(super::Held::Places(Vec::new()));
    for once in [true, false] {
        let (mut undone, mut states) = (0, HashSet::new());
        for left in 0.. {
            sink.bytes().clone_from(&before);
            let source = open(&sink);
            let failing = Box::new(Failing { sink: sink.clone(), left, once });
            let mut file = FileWriter::update(&source, failing, None, Options::default(), &held).unwrap();
            let mut change = || {
                for directory in [0, d, e] {
                    file.write_object(directory, "new", "", &text_object(&"y".repeat(90)))?;
                    file.delete(directory, "gone", None)?;
                }
                file.commit()
            };
            let Err(error) = change() else { break };
            let back = file.roll_back();
            let text =
                format!("{error} {}", back.as_ref().map_or_else(ToString::to_string, |()| String::new()));
            if text.contains("all changes are in the file") {
                assert!(every_name(&sink).contains(&"new;1".to_owned()), "{text}");
                states.insert("new");
            } else if text.contains("could not be restored") {
                assert!(!once, "{text}");
                every_name(&sink);
                states.insert("either");
            } else {
                assert_eq!(every_name(&sink), old, "{left} {text}");
                undone += 1;
                assert_eq!(back.is_ok(), once);
                if once {
                    assert_eq!(sink.bytes().len(), before.len());
                } else {
                    assert!(text.contains("objects of the file are as they were"), "{text}");
                }
            }
        }
        assert!(undone > 5 && states.contains("new"), "{undone} {states:?}");
    }
}

#[test]
fn the_place_of_a_record_that_could_not_be_written_becomes_free() {
    let sink = MemorySink::new();
    let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
    file.write_object(0, "kept", "", &text_object("one")).unwrap();
    file.commit().unwrap();
    drop(file);
    let source = open(&sink);
    let held = |_: &crate::file::Key| Ok(super::Held::Places(Vec::new()));
    let failing = Box::new(Failing { sink: sink.clone(), left: 0, once: true });
    let mut file = FileWriter::update(&source, failing, None, Options::default(), &held).unwrap();
    file.write_object(0, "lost", "", &text_object(&"z".repeat(200))).unwrap_err();
    file.write_object(0, "after", "", &text_object("two")).unwrap();
    file.commit().unwrap();
    assert_eq!(names(&open(&sink)), ["kept;1 TObjString", "after;1 TObjString"]);
    // The records follow each other; the lengths of free places are negative.
    let (bytes, mut place, mut free) = (sink.bytes().clone(), BEGIN as usize, Vec::new());
    while let Some(word) = bytes.get(place..place + 4) {
        let length = i32::from_be_bytes(word.try_into().unwrap());
        assert_ne!(length, 0, "byte {place}");
        free.extend((length < 0).then_some(length));
        place += length.unsigned_abs() as usize;
    }
    assert!(free.iter().any(|length| *length <= -200), "{free:?}");
}

/// The records and marks that follow each other to the end of the file: the names of the records.
fn walk(sink: &MemorySink) -> Vec<String> {
    let (file, bytes) = (open(sink), sink.bytes().clone());
    let (mut place, mut found) = (u64::from(BEGIN as u32), Vec::new());
    while place < file.header().end {
        let at = place as usize;
        let length = i32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_ne!(length, 0, "byte {place} after {found:?}");
        if length > 0 {
            let key = crate::file::Key::parse(&mut crate::wire::Cursor::new(&bytes[at..], place)).unwrap();
            assert_eq!(key.seek, place);
            found.push(key.name);
        }
        place += u64::from(length.unsigned_abs());
    }
    assert_eq!(place, file.header().end);
    found
}

#[test]
fn a_file_whose_writer_was_killed_at_any_write_can_be_updated() {
    for described in [true, false] {
        let sink = MemorySink::new();
        let mut file = FileWriter::create(Box::new(sink.clone()), "x.root", Options::default()).unwrap();
        let d = file.mkdir(0, "d", "").unwrap();
        let e = file.mkdir(d, "e", "").unwrap();
        for directory in [0, d, e] {
            for name in ["kept", "gone", "other"] {
                if described {
                    file.write_object(directory, name, "", &text_object(&"z".repeat(800))).unwrap();
                } else {
                    let bytes = file.write_value(directory, name, "", "Bytes", &[7; 800], Vec::new());
                    bytes.unwrap();
                }
            }
        }
        // Text that codecs cannot make short leaves a long free segment.
        let long: String = (0..1000_u32).map(|i| char::from(33 + (i * i * 7919 / 13 % 89) as u8)).collect();
        file.write_object(0, "long", "", &text_object(&long)).unwrap();
        file.commit().unwrap();
        for name in ["other", "long"] {
            file.delete(0, name, None).unwrap();
            file.commit().unwrap();
        }
        drop(file);
        walk(&sink);
        let before = sink.bytes().clone();
        let held = |_: &crate::file::Key| Ok(super::Held::Places(Vec::new()));
        let mut states = 0;
        for left in 0..1000 {
            sink.bytes().clone_from(&before);
            let source = open(&sink);
            let killed = Box::new(Failing { sink: sink.clone(), left, once: false });
            let mut file = FileWriter::update(&source, killed, None, Options::default(), &held).unwrap();
            let mut change = || {
                let table = file.reserve(0, "Bytes", "table", "")?;
                let mut stretch = file.begin_stretch(250);
                assert!(stretch.start < file.opened);
                for _ in 0..2 {
                    let key = file.blob_key(stretch.end, 50)?;
                    file.append(&mut stretch, &[&key, &[1; 50]])?;
                }
                file.accept(&stretch, table, 0)?;
                for directory in [0, e, d] {
                    file.write_object(directory, "new", "", &text_object(&"y".repeat(90)))?;
                    file.describe(StreamerInfo {
                        name: format!("Mine{directory}").into(),
                        title: String::new(),
                        version: 1,
                        checksum: 1,
                        elements: Vec::new(),
                    })?;
                    file.commit()?;
                    file.delete(directory, "gone", None)?;
                }
                file.commit()
            };
            if change().is_ok() {
                break;
            }
            drop(file);
            states += 1;
            let names = walk(&sink);
            assert!(names.iter().any(|one| one == "kept"), "killed after {left} writes: {names:?}");
            let source = open(&sink);
            let sink = Box::new(sink.clone());
            let again = FileWriter::update(&source, sink.clone(), None, Options::default(), &held);
            let mut file = again.unwrap_or_else(|error| panic!("killed after {left} writes: {error}"));
            file.write_object(0, "after", "", &text_object("two")).unwrap();
            file.commit().unwrap();
            let names = walk(&sink);
            for name in ["after", "kept"] {
                assert!(names.iter().any(|one| one == name), "killed after {left} writes: {names:?}");
            }
        }
        assert!((16..1000).contains(&states), "{states}");
    }
}
