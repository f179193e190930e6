//! Objects laid out by hand, as `TBufferFile` would write them.

use super::*;
use crate::error::ErrorKind;
use crate::wire::writer::Writer;

fn element(class: ElementClass, name: &str, kind: i32, typename: &str) -> Element {
    Element {
        class,
        name: name.to_owned().into(),
        title: String::new(),
        kind,
        size: 0,
        array_length: 0,
        array_dim: 0,
        max_index: [0; 5],
        typename: typename.to_owned(),
        base_version: 1,
        count_name: String::new(),
        count_class: String::new(),
        count_version: 0,
        stl_type: 0,
        ctype: 0,
    }
}

fn int(name: &str) -> Element {
    element(ElementClass::BasicType, name, 3, "int")
}

fn base(name: &str) -> Element {
    element(ElementClass::Base, name, 0, "BASE")
}

fn object_member(name: &str, class: &str) -> Element {
    element(ElementClass::ObjectAny, name, 62, class)
}

fn pointer_member(name: &str, class: &str) -> Element {
    element(ElementClass::ObjectAnyPointer, name, 69, &format!("{class}*"))
}

fn stl(name: &str, typename: &str) -> Element {
    element(ElementClass::Stl, name, 500, typename)
}

fn class(name: &str, version: i32, checksum: u32, elements: Vec<Element>) -> StreamerInfo {
    StreamerInfo { name: name.to_owned().into(), title: String::new(), version, checksum, elements }
}

/// Writes a frame around the output of `content`.
fn frame(w: &mut Writer, version: i16, content: impl FnOnce(&mut Writer)) {
    let opened = w.open(version);
    content(w);
    w.close(opened).unwrap();
}

fn read(classes: &Classes, w: Writer, class: &str) -> (Result<Value>, usize) {
    let bytes = w.into_bytes().unwrap();
    let mut reader = ObjectReader::new(classes, &bytes, 0);
    (reader.payload(class), reader.problems)
}

fn object(value: Result<Value>) -> Arc<Object> {
    match value.unwrap() {
        Value::Object(object) => Arc::clone(&object),
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_of_all_bases_and_versions() {
    let classes = Classes::new([
        class("A", 1, 1, vec![int("old")]),
        class("A", 2, 2, vec![int("new")]),
        class("B", 1, 3, vec![int("b")]),
        class("C", 1, 4, vec![base("A"), base("B"), int("c")]),
    ])
    .unwrap();
    for (version, member) in [(1, "old"), (2, "new")] {
        let mut w = Writer::new(0);
        frame(&mut w, 1, |w| {
            frame(w, version, |w| w.put(10_i32));
            frame(w, 1, |w| w.put(11_i32));
            w.put(12_i32);
        });
        let (value, problems) = read(&classes, w, "C");
        let c = object(value);
        assert_eq!((c.int(member), c.int("b"), c.int("c"), problems), (Some(10), Some(11), Some(12), 0));
        assert!(c.is("A") && c.is("B") && !c.is("D"));
        assert_eq!((c.place, c.reference), ((0, 30), TOP));
    }
}

#[test]
fn classes_without_a_version_are_known_by_their_checksum() {
    let classes =
        Classes::new([class("A", 1, 0xaaaa, vec![int("a")]), class("A", 2, 0xbbbb, vec![int("b")])]).unwrap();
    let written = |checksum: u32| {
        let mut w = Writer::new(0);
        let opened = w.open_checksum(checksum);
        w.put(5_i32);
        w.close(opened).unwrap();
        read(&classes, w, "A").0
    };
    assert_eq!(object(written(0xbbbb)).int("b"), Some(5));
    assert_eq!(object(written(0xaaaa)).int("a"), Some(5));
    let why = object(written(0xcccc)).unreadable.clone().unwrap();
    assert_eq!(why.kind(), ErrorKind::Unsupported);
    assert!(
        why.to_string().contains("no version of A in the file has the checksum 0xcccc (in A, at byte 6)")
    );
}

#[test]
fn a_part_that_cannot_be_read_leaves_the_rest() {
    let odd = |kind| element(ElementClass::ObjectAny, "odd", kind, "Odd");
    let classes = |kind| {
        Classes::new([
            class("Outer", 1, 1, vec![int("first"), object_member("inner", "Inner"), int("last")]),
            class("Inner", 1, 2, vec![int("known"), odd(kind), int("after"), int("later")]),
        ])
        .unwrap()
    };
    let inner = |outer: &Object| match outer.get("inner") {
        Some(Value::Object(inner)) => inner.clone(),
        other => panic!("{other:?}"),
    };
    let mut w = Writer::new(0);
    frame(&mut w, 1, |w| {
        w.put(1_i32);
        frame(w, 1, |w| {
            w.put(2_i32);
            frame(w, 1, |w| w.raw(&[9; 3]));
            w.put_all([5_i32, 6]);
        });
        w.put(3_i32);
    });
    let bytes = w.into_bytes().unwrap();

    // A member with a byte count: the bytes after it are read.
    let with_count = classes(500);
    let outer = object(ObjectReader::new(&with_count, &bytes, 0).payload("Outer"));
    let found = inner(&outer);
    assert_eq!(
        (found.int("after"), found.int("later"), found.unreadable.is_some()),
        (Some(5), Some(6), false)
    );
    let [(path, why)] = &outer.problems().unwrap()[..] else { panic!("{outer:?}") };
    assert_eq!(path, ".inner.odd");
    assert_eq!(
        why.to_string(),
        "type Odd is streamed by code of its own (TStreamerObjectAny of kind 500) (at byte 26)"
    );

    // Without a byte count, everything up to the end of the object is lost.
    let without = classes(99);
    let outer = object(ObjectReader::new(&without, &bytes, 0).payload("Outer"));
    assert_eq!((outer.int("first"), outer.int("last")), (Some(1), Some(3)));
    let found = inner(&outer);
    assert_eq!((found.int("known"), found.int("after")), (Some(2), None));
    assert!(matches!(found.get("odd"), Some(Value::Unreadable(_))));
    assert_eq!(found.lost().map(ToString::to_string).collect::<Vec<_>>(), ["after", "later"]);
    assert!(
        found.unreadable.as_ref().unwrap().to_string().ends_with("(in member odd, in Inner, at byte 20)")
    );
}

#[test]
fn bytes_that_no_member_accounts_for_are_told() {
    let classes = Classes::new([
        class("Outer", 1, 1, vec![object_member("inner", "Inner"), int("last")]),
        class("Inner", 1, 2, vec![int("known")]),
    ])
    .unwrap();
    let mut w = Writer::new(0);
    frame(&mut w, 1, |w| {
        frame(w, 1, |w| w.raw(&[0, 0, 0, 2, 9, 9]));
        w.put(3_i32);
    });
    let outer = object(read(&classes, w, "Outer").0);
    assert_eq!(outer.int("last"), Some(3));
    let [(path, why)] = &outer.problems().unwrap()[..] else { panic!("{outer:?}") };
    assert_eq!(path, ".inner");
    assert!(why.to_string().starts_with("2 bytes follow what its streamer info says of it"), "{why}");

    // After the object itself.
    let mut w = Writer::new(0);
    frame(&mut w, 1, |w| w.put(2_i32));
    w.put(0_u8);
    let (value, problems) = read(&classes, w, "Inner");
    let inner = object(value);
    assert_eq!((inner.int("known"), problems), (Some(2), 1));
    assert!(inner.unreadable.as_ref().unwrap().to_string().starts_with("1 bytes follow"));
}

#[test]
fn a_member_cannot_reach_past_the_object_it_is_in() {
    let classes = Classes::new([
        class("Outer", 1, 1, vec![object_member("inner", "Inner"), int("last")]),
        class("Inner", 1, 2, vec![int("a"), int("b")]),
    ])
    .unwrap();
    let mut w = Writer::new(0);
    frame(&mut w, 1, |w| {
        frame(w, 1, |w| w.put(1_i32));
        w.put(3_i32);
    });
    let outer = object(read(&classes, w, "Outer").0);
    assert_eq!(outer.int("last"), Some(3));
    let [(path, why)] = &outer.problems().unwrap()[..] else { panic!("{outer:?}") };
    assert_eq!((path.as_str(), why.kind()), (".inner.b", ErrorKind::Unsupported));
    assert!(why.to_string().contains("4 bytes expected, 0 left"), "{why}");
}

#[test]
fn pointers_find_what_was_read_before_and_the_object_of_the_key() {
    let classes = Classes::new([
        class("Node", 1, 1, vec![int("id"), pointer_member("next", "Node")]),
        class("Top", 1, 2, ["a", "b", "me", "none", "before"].map(|n| pointer_member(n, "Node")).to_vec()),
    ])
    .unwrap();
    let mut w = Writer::new(64);
    let mut node = 0;
    frame(&mut w, 1, |w| {
        let (opened, reference) = w.open_pointer("Node");
        node = reference;
        frame(w, 1, |w| {
            w.put(7_i32);
            w.put(reference); // a circle of one
        });
        w.close(opened).unwrap();
        w.put(reference);
        w.put(TOP as u32);
        w.null();
        w.put(0x1234_u32);
    });
    let bytes = w.into_bytes().unwrap();
    let mut reader = ObjectReader::new(&classes, &bytes, 64);
    let top = object(reader.payload("Top"));
    assert_eq!(top.reference, TOP);
    let (Some(Value::Object(a)), Some(Value::Object(b))) = (top.get("a"), top.get("b")) else {
        panic!("{top:?}")
    };
    assert!(Arc::ptr_eq(a, b));
    assert!(matches!(a.get("next"), Some(Value::Seen(r)) if *r == u64::from(node) && *r == a.reference));
    assert!(matches!(top.get("me"), Some(Value::Seen(TOP))));
    assert!(matches!(top.get("none"), Some(Value::Null)));
    assert!(matches!(top.get("before"), Some(Value::Seen(0x1234))));
    assert!(reader.into_seen().contains_key(&u64::from(node)));
}

#[test]
fn an_object_of_an_unknown_class_is_passed_over() {
    let classes =
        Classes::new([class("Top", 1, 2, vec![pointer_member("p", "Known"), int("last")])]).unwrap();
    let mut w = Writer::new(0);
    frame(&mut w, 1, |w| {
        let (opened, _) = w.open_pointer("Unknown");
        frame(w, 3, |w| w.raw(&[1; 20]));
        w.close(opened).unwrap();
        w.put(3_i32);
    });
    let top = object(read(&classes, w, "Top").0);
    assert_eq!(top.int("last"), Some(3));
    let Some(Value::Object(p)) = top.get("p") else { panic!("{top:?}") };
    assert_eq!((&*p.class, p.version), ("Unknown", 3));
    assert!(p.unreadable.as_ref().unwrap().to_string().contains("Unknown"));
}

#[test]
fn member_wise_containers_are_columns() {
    let classes = Classes::new([
        class("Base", 1, 1, vec![int("b")]),
        class("Hit", 3, 2, vec![base("Base"), int("id"), stl("words", "vector<string>")]),
        class("Top", 1, 3, vec![stl("hits", "vector<Hit>"), stl("map", "map<int,float>"), int("last")]),
    ])
    .unwrap();
    let member_wise = |version: i16| version | 0x4000;
    let mut w = Writer::new(0);
    frame(&mut w, 1, |w| {
        frame(w, member_wise(9), |w| {
            w.put(3_i16); // version of Hit
            w.put(2_i32); // hits
            w.put_all([1_i32, 2]); // b
            w.put_all([3_i32, 4]); // id
            frame(w, 9, |w| {
                w.put(1_i32);
                w.string("one");
                w.put(0_i32);
            });
        });
        frame(w, member_wise(9), |w| {
            w.put(0_i16);
            w.put(0x1234_u32); // checksum of the pair
            w.put(2_i32);
            w.put_all([5_i32, 6]);
            w.put_all([0.5_f32, 1.5]);
        });
        w.put(8_i32);
    });
    let (value, problems) = read(&classes, w, "Top");
    let top = object(value);
    assert_eq!((top.int("last"), problems), (Some(8), 0), "{top:?}");
    let hits: Vec<_> = top
        .list("hits")
        .iter()
        .map(|hit| match hit {
            Value::Object(hit) => (hit.version, hit.int("b"), hit.int("id"), hit.list("words").len()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(hits, [(3, Some(1), Some(3), 1), (3, Some(2), Some(4), 0)]);
    let Some(Value::Map(map)) = top.get("map") else { panic!("{top:?}") };
    assert!(matches!(map[..], [(Value::Int(5), Value::Float(a)), (Value::Int(6), Value::Float(b))]
        if (a, b) == (0.5, 1.5)));
}

#[test]
fn symmetric_matrices_are_upper_triangles() {
    let mut w = Writer::new(0);
    frame(&mut w, 5, |w| {
        w.object(0, 0);
        w.put_all([2_i32, 2, 0, 0, 4]); // fNrows, fNcols, fRowLwb, fColLwb, fNelems
        w.put(0.0_f64); // fTol
    });
    w.put_all([1.0_f64, 2.0, 3.0]);
    let mut elements: Vec<_> = ["fNrows", "fNcols", "fRowLwb", "fColLwb", "fNelems"].map(int).to_vec();
    elements.insert(0, element(ElementClass::Base, "TObject", 66, "BASE"));
    elements.push(element(ElementClass::BasicType, "fTol", 8, "double"));
    let classes = Classes::new([class("TMatrixTBase<double>", 5, 0, elements)]).unwrap();
    let matrix = object(read(&classes, w, "TMatrixTSym<double>").0);
    let Some(Value::Numbers(Number::F64, bytes)) = matrix.get("fElements") else { panic!("{matrix:?}") };
    let values: Vec<f64> = bytes.as_chunks().0.iter().map(|c| f64::from_ne_bytes(*c)).collect();
    assert_eq!(values, [1.0, 2.0, 3.0]);
}

#[test]
fn counts_are_checked_against_the_bytes_left() {
    let mut counted = element(ElementClass::BasicPointer, "values", 43, "int*");
    counted.count_name = "n".into();
    let mut loops = element(ElementClass::Loop, "objects", 501, "TQObject*");
    loops.count_name = "n".into();
    let mut fixed = int("fixed");
    (fixed.kind, fixed.array_length, fixed.array_dim) = (23, i32::MAX, 5);
    fixed.max_index = [i32::MAX; 5];
    for member in [counted, loops, fixed, stl("list", "vector<vector<int>>"), stl("text", "string")] {
        let name = member.name.clone();
        let classes = Classes::new([class("A", 1, 1, vec![int("n"), member])]).unwrap();
        let mut w = Writer::new(0);
        frame(&mut w, 1, |w| {
            w.put(i32::MAX);
            w.raw(&[1]);
            w.put_all([0x7fff_ffff_u32; 4]);
        });
        let a = object(read(&classes, w, "A").0);
        assert_eq!(a.int("n"), Some(i64::from(i32::MAX)));
        assert!(a.unreadable.is_some(), "{name}");
    }
}

#[test]
fn objects_without_bytes_are_counted() {
    // A class with nothing but bases, two at each level: 2^60 of them in zero bytes.
    let infos = (0..60).map(|i| {
        let next = format!("L{}", i + 1);
        class(&format!("L{i}"), 1, i, vec![base(&next), base(&next)])
    });
    let end = [class("L60", 1, 60, Vec::new()), class("Top", 1, 61, vec![stl("all", "vector<L0>")])];
    let classes = Classes::new(infos.chain(end)).unwrap();
    let mut w = Writer::new(0);
    frame(&mut w, 1, |w| {
        frame(w, 9 | 0x4000, |w| {
            w.put(1_i16);
            w.put(4_i32);
            w.raw(&[0; 8]);
        });
    });
    let top = object(read(&classes, w, "Top").0);
    let [(_, why)] = &top.problems().unwrap()[..] else { panic!("{top:?}") };
    assert_eq!(why.kind(), ErrorKind::Limit);
    assert!(why.to_string().contains("more objects than bytes"), "{why}");
}

#[test]
fn depth_is_limited() {
    let classes = Classes::new([class("Node", 1, 1, vec![pointer_member("next", "Node")])]).unwrap();
    let nested = |depth: usize| {
        let mut w = Writer::new(0);
        let opened = w.open(1);
        let mut frames = vec![opened];
        for _ in 0..depth {
            frames.push(w.open_pointer("Node").0);
            frames.push(w.open(1));
        }
        w.null();
        for opened in frames.into_iter().rev() {
            w.close(opened).unwrap();
        }
        read(&classes, w, "Node")
    };
    assert_eq!(nested(100).1, 0);
    let (value, problems) = nested(5000);
    assert!(problems > 0);
    let top = object(value);
    let [(_, why)] = &top.problems().unwrap()[..] else { panic!() };
    assert_eq!(why.kind(), ErrorKind::Limit);
}

#[test]
fn too_many_unreadable_parts_make_the_whole_unreadable() {
    let classes = Classes::new([class("Top", 1, 1, vec![stl("all", "vector<Unknown>")])]).unwrap();
    let of = |count: usize| {
        let mut w = Writer::new(0);
        frame(&mut w, 1, |w| {
            frame(w, 9, |w| {
                w.put(count as i32);
                for _ in 0..count {
                    frame(w, 1, |w| w.put(0_u8));
                }
            });
        });
        read(&classes, w, "Top").0
    };
    assert_eq!(object(of(100)).problems().unwrap().len(), 100);
    let error = of(MOST_PROBLEMS + 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn any_bytes_give_a_value_or_an_error() {
    let mut counted = element(ElementClass::BasicPointer, "values", 48, "double*");
    counted.count_name = "n".into();
    let classes = Classes::new([
        class("Base", 1, 1, vec![element(ElementClass::Base, "TNamed", 67, "BASE"), int("b")]),
        class("Hit", 3, 2, vec![base("Base"), stl("words", "map<string,vector<Hit>>")]),
        class(
            "Top",
            1,
            3,
            vec![
                int("n"),
                counted,
                stl("hits", "vector<Hit>"),
                pointer_member("p", "Top"),
                object_member("list", "TList"),
            ],
        ),
    ])
    .unwrap();
    // A random number generator (Knuth's MMIX). Most numbers are small, to hit counts and tags.
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    for _ in 0..3000 {
        let mut w = Writer::new(0);
        let opened = w.open(1);
        for _ in 0..next() % 60 {
            match next() % 6 {
                0 => w.put(0x4000_0000 | (next() % 64) as u32),
                1 => w.put((next() % 8) as i32),
                2 => w.put(0x4009_u16),
                3 => w.put(0xffff_ffff_u32),
                4 => w.raw(b"Hit\0"),
                _ => w.put((next() & 0xff) as u8),
            }
        }
        if next() % 4 != 0 {
            w.close(opened).unwrap();
        }
        let bytes = w.into_bytes().unwrap();
        for name in
            ["Top", "Hit", "TList", "TClonesArray", "vector<Hit>", "TRefArray", "TH1D", "TMatrixTSym<float>"]
        {
            let mut reader = ObjectReader::new(&classes, &bytes, 0);
            if let Ok(Value::Object(object)) = reader.payload(name) {
                assert_eq!(
                    object.problems().unwrap().is_empty(),
                    reader.problems == 0,
                    "{name} {bytes:?} {object:?}"
                );
            }
        }
    }
}
