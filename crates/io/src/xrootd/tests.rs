use super::handle::{Watch, joined};
use super::read::{VectorParts, elements};
use super::wire::{ELEMENT, Stat};
use super::*;

fn range(offset: u64, length: u64) -> Range {
    Range { offset, length }
}

#[test]
fn ranges_are_cut_to_what_is_taken() {
    let limits = session::Limits { elements: 3, bytes: 10 };
    let (body, most) = elements(&[range(0, 5), range(100, 25)], [1, 2, 3, 4], limits);
    let found: Vec<(u32, u64)> = body
        .chunks(ELEMENT)
        .map(|one| {
            let mut from = WireReader(&one[4..]);
            (from.u32().unwrap(), from.u64().unwrap())
        })
        .collect();
    assert_eq!(found, [(5, 0), (10, 100), (10, 110)]);
    assert_eq!(most, 25 + 3 * ELEMENT as u64);
}

#[test]
fn parts_of_any_division() {
    let mut bytes = Vec::new();
    for (offset, text) in [(7u64, "abc"), (99, ""), (1000, "defgh")] {
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&offset.to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    for step in 1..=bytes.len() {
        let (mut parts, mut found) = (VectorParts::default(), Vec::new());
        for piece in bytes.chunks(step) {
            let mut take = |at: u64, new: &[u8]| {
                found.extend(new.iter().enumerate().map(|(i, b)| (at + i as u64, *b)));
                true
            };
            assert!(parts.feed(piece, &mut take).unwrap());
        }
        let want: Vec<(u64, u8)> = (7..10).chain(1000..1005).zip(b'a'..=b'h').collect();
        assert_eq!(found, want);
    }
    let hostile = [0xff; ELEMENT];
    assert!(VectorParts::default().feed(&hostile, &mut |_, _| true).is_err());
}

#[test]
fn a_path_that_is_away_for_a_while_is_watched_on() {
    let stat = |id: &str| Some(Stat { id: id.to_owned(), size: 5, changed: 1 });
    let mut watch = Watch::Path(None);
    for (now, differs) in [("1", false), ("", false), ("1", false), ("", false), ("2", true)] {
        let asked = watch.clone();
        let found = watch.compare(&asked, stat(now).filter(|_| !now.is_empty()));
        assert_eq!(found.is_some(), differs, "{now}");
    }
    for (mut never, next) in [(Watch::Path(None), Watch::Handle(None)), (Watch::Handle(None), Watch::Not)] {
        assert_eq!(never.compare(&never.clone(), None), None);
        assert_eq!(never, next);
    }
}

#[test]
fn opaque_data_is_joined() {
    assert_eq!(joined(&["authz=x", "", "&a=b&", "tried=h"]), "authz=x&a=b&tried=h");
}
