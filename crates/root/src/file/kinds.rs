//! Classes of objects with data outside their own record: directories and tables of entries.

/// Directories.
pub const DIRECTORIES: [&str; 2] = ["TDirectory", "TDirectoryFile"];
/// Trees.
pub const TREES: [&str; 3] = ["TTree", "TNtuple", "TNtupleD"];
/// The anchor of an RNTuple.
pub const NTUPLE: &str = "ROOT::RNTuple";
/// The anchor in files from before the format was final; its format differs.
pub const EXPERIMENTAL_NTUPLE: &str = "ROOT::Experimental::RNTuple";
/// Class of the parts of an RNTuple, which no directory lists.
pub const BLOB: &str = "RBlob";

/// Whether objects of a class are trees.
pub fn is_tree(class: &str) -> bool {
    TREES.contains(&class)
}

/// Whether objects of a class are RNTuples, of the final or an earlier format.
pub fn is_ntuple(class: &str) -> bool {
    class == NTUPLE || class == EXPERIMENTAL_NTUPLE
}

/// Whether objects of a class are directories or tables.
pub fn is_more_than_its_record(class: &str) -> bool {
    DIRECTORIES.contains(&class) || is_tree(class) || is_ntuple(class)
}
