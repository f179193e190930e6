//! Comparing the shape of trees: files of one production have the same shape and can share compiled readers.

use super::{Branch, Leaf, Tree};

impl Tree {
    /// Whether the branches of the other tree have the same names, types and places, in files with equal class
    /// descriptions. The reader of a branch then decodes its counterpart: if this tree has no readers yet, it shares
    /// those of the other.
    pub fn same_shape(&self, other: &Self) -> bool {
        let alike = || {
            self.classname == other.classname
                && self.aliases == other.aliases
                && self.branches.len() == other.branches.len()
                && self.branches.iter().zip(&other.branches).all(|(a, b)| alike(a, b))
                && (std::ptr::eq(self.classes(), other.classes()) || self.classes() == other.classes())
        };
        if std::ptr::eq(self, other) {
            return true;
        }
        let alike = alike();
        if alike && self.readers.get().is_none() {
            let shared = other.readers().clone();
            self.readers.get_or_init(|| shared);
        }
        alike
    }
}

fn alike(a: &Branch, b: &Branch) -> bool {
    a.name == b.name
        && a.title == b.title
        && a.class == b.class
        && a.parent == b.parent
        && a.counter == b.counter
        && a.element == b.element
        && a.other_file == b.other_file
        && a.offsets_from_counter == b.offsets_from_counter
        && a.leaves.len() == b.leaves.len()
        && a.leaves.iter().zip(&b.leaves).all(|(a, b)| same_leaf(a, b))
}

/// Whether two leaves are equal apart from their location.
fn same_leaf(a: &Leaf, b: &Leaf) -> bool {
    a.class == b.class
        && a.name == b.name
        && a.title == b.title
        && a.length == b.length
        && a.width == b.width
        && a.unsigned == b.unsigned
        && a.counted == b.counted
        && a.kind == b.kind
        && a.named == b.named
}
