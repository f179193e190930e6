//! The standard classes of ROOT 6.40, for files that are written and for files that lost their streamer info.

use super::info::{Classes, Element, ElementClass, StreamerInfo};
use std::sync::OnceLock;

/// Made by `tests/recipes/streamer_infos.py`, which also says what the fields mean.
const TABLE: &str = include_str!("builtin.tsv");

/// The standard classes, the version that ROOT 6.40 writes of each.
pub fn classes() -> &'static Classes {
    static CLASSES: OnceLock<Classes> = OnceLock::new();
    CLASSES.get_or_init(|| Classes::new(parse(TABLE)).unwrap_or_default())
}

fn parse(table: &str) -> Vec<StreamerInfo> {
    let mut infos: Vec<StreamerInfo> = Vec::new();
    for line in table.lines() {
        let mut fields = line.split('\t');
        match fields.next() {
            Some("=") => infos.extend(class(fields)),
            Some(kind) => {
                if let (Some(info), Some(element)) = (infos.last_mut(), element(kind, fields)) {
                    info.elements.push(element);
                }
            }
            None => {}
        }
    }
    infos
}

fn class<'a>(mut fields: impl Iterator<Item = &'a str>) -> Option<StreamerInfo> {
    let name = fields.next()?.to_owned();
    // Classes that never declared a version (-1 in memory) are written as version 1.
    let version = fields.next()?.parse::<i32>().ok()?.max(-1);
    let version = if version < 0 { 1 } else { version };
    let checksum = fields.next()?.parse().ok()?;
    Some(StreamerInfo {
        name: name.into(),
        title: fields.next()?.to_owned(),
        version,
        checksum,
        elements: Vec::new(),
    })
}

fn element<'a>(kind: &str, mut fields: impl Iterator<Item = &'a str>) -> Option<Element> {
    let class = match kind {
        "Base" => ElementClass::Base,
        "BasicType" => ElementClass::BasicType,
        "BasicPointer" => ElementClass::BasicPointer,
        "Loop" => ElementClass::Loop,
        "Object" => ElementClass::Object,
        "ObjectPointer" => ElementClass::ObjectPointer,
        "ObjectAny" => ElementClass::ObjectAny,
        "ObjectAnyPointer" => ElementClass::ObjectAnyPointer,
        "String" => ElementClass::String,
        "STL" => ElementClass::Stl,
        "STLstring" => ElementClass::StlString,
        _ => return None,
    };
    let mut text = || fields.next();
    let mut e = Element {
        class,
        name: text()?.to_owned().into(),
        title: text()?.to_owned(),
        kind: text()?.parse().ok()?,
        size: text()?.parse().ok()?,
        array_length: text()?.parse().ok()?,
        array_dim: text()?.parse().ok()?,
        max_index: [0; 5],
        typename: String::new(),
        base_version: -1,
        count_name: String::new(),
        count_class: String::new(),
        count_version: 0,
        stl_type: 0,
        ctype: 0,
    };
    for (slot, value) in e.max_index.iter_mut().zip(text()?.split(',')) {
        *slot = value.parse().ok()?;
    }
    text()?.clone_into(&mut e.typename);
    match class {
        ElementClass::Base => e.base_version = text()?.parse().ok()?,
        ElementClass::BasicPointer | ElementClass::Loop => {
            e.count_version = text()?.parse().ok()?;
            text()?.clone_into(&mut e.count_name);
            text()?.clone_into(&mut e.count_class);
        }
        ElementClass::Stl | ElementClass::StlString => {
            e.stl_type = text()?.parse().ok()?;
            e.ctype = text()?.parse().ok()?;
        }
        _ => {}
    }
    Some(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_the_table_is_lost() {
        let (count, elements) = TABLE.lines().fold((0, 0), |(c, e), line| match line.split('\t').next() {
            Some("=") => (c + 1, e),
            Some(first) if !first.starts_with('#') => (c, e + 1),
            _ => (c, e),
        });
        assert_eq!(classes().iter().count(), count);
        assert_eq!(classes().iter().map(|info| info.elements.len()).sum::<usize>(), elements);
    }

    #[test]
    fn the_classes_of_a_tree_are_those_of_root() {
        let versions = [("TTree", 20), ("TBranch", 13), ("TBranchElement", 10), ("TLeaf", 2), ("TBasket", 3)];
        let more = [("TH1", 8), ("TAxis", 10), ("TObject", 1), ("TNamed", 1), ("ROOT::TIOFeatures", 1)];
        for (name, version) in versions.into_iter().chain(more) {
            let info = classes().latest(name).unwrap();
            assert_eq!(info.version, version, "{name}");
        }
        let tree = classes().latest("TTree").unwrap();
        assert_eq!(tree.elements[0].class, ElementClass::Base);
        let ends = tree.elements.iter().find(|e| e.name == "fClusterRangeEnd").unwrap();
        assert_eq!((ends.kind, ends.count_name.as_str(), ends.count_version), (56, "fNClusterRange", 20));
    }
}
