"""The native core: parsing, planning, reading, decompression and decoding. Users go through the package `sapwood`.

Columns and types are the nested tuples that `sapwood.columns` describes; their arrays are one-dimensional and
read-only. Errors are those of `sapwood.errors`. Reading and computing release the GIL.
"""

import builtins
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar, final

from sapwood.columns import Column, Foreign, Type
from sapwood.storage.sources import Far

_T = TypeVar("_T")

__version__: str

class _Readable(Protocol):
    """A source of bytes with a known size, readable at any offset."""

    @property
    def size(self) -> int:
        """The number of bytes."""

    def read_ranges(self, ranges: list[tuple[int, int]], /) -> Sequence[bytes]:
        """Read exactly the bytes of (offset, length) pairs."""

class _Writable(Protocol):
    """A target of bytes, writable at any offset."""

    def seek(self, offset: int, /) -> object:
        """Go to an offset."""

    def write(self, data: bytes, /) -> object:
        """Write bytes; may return the number of bytes that were written."""

    def truncate(self, size: int, /) -> object:
        """End the file there."""

    def flush(self) -> object:
        """Hand everything to the storage."""

@final
class File:
    """An open ROOT file: its header, and counters of what was read from it."""

    def __new__(
        cls,
        source: str | bytes | list[str] | _Readable,
        name: str | None = None,
        far: Far | None = None,
        prior: str | None = None,
    ) -> File:
        """Open a local path, bytes, URLs that lead to the same bytes, or an object.

        `name` is the name in errors. `far` has the options of remote storage. It is required for URLs; for an object it
        means that many ranges should be requested together. `prior` is the place to which the file is copied before it
        is read: "memory", "disk", "auto" (if that saves time) or None.

        Raises
        ------
        StorageError
            The bytes are not available.
        CorruptError
            It is not a ROOT file, or a damaged one.
        """
    @property
    def name(self) -> str:
        """The path, or the name given."""
    @property
    def version(self) -> int:
        """The version of ROOT that wrote it, like 63004 for 6.30/04 (`fVersion` without the mark of 64-bit headers)."""
    @property
    def is_64bit(self) -> bool:
        """Whether the header has 64-bit offsets."""
    @property
    def compression(self) -> int:
        """The compression setting (`fCompress`): algorithm * 100 + level."""
    @property
    def uuid(self) -> str:
        """The identifier (`fUUID`)."""
    @property
    def begin(self) -> int:
        """The offset of the first record, in bytes (`fBEGIN`)."""
    @property
    def end(self) -> int:
        """The offset after the last record, in bytes (`fEND`)."""
    @property
    def size(self) -> int:
        """The size of the file, in bytes."""
    def bytes(self, offset: int, length: int) -> builtins.bytes:
        """Read bytes of the file."""
    def places(self) -> tuple[int, int, int, int]:
        """Return offset and size of the list of free segments, and of the streamer info, from the header."""
    def check_baskets(self, baskets: Sequence[tuple[int, int, int, str]], deep: bool) -> list[tuple[str, str] | None]:
        """Check baskets: offset, size, entries and branch name of each. Return a code and a text for each with a fault.

        With `deep` they are decompressed, and the offsets of their entries are checked.
        """
    def use_checksums(self, stored: bytes) -> str | None:
        """Compare records with these checksums from now on; return the reason if they cannot be used."""
    def checksums(self, output: Output | None) -> bytes:
        """Compute the checksums of all records, except those that `output` has collected while it wrote the file.

        Raises
        ------
        CorruptError
            The file is cut off, or its records do not follow one another.
        """
    def compare_checksums(self) -> tuple[int, list[tuple[int | None, str]]]:
        """Compare all records with the checksums in use: return their number, and (offset, error) of the others."""
    def salvage(self, records: Sequence[tuple[int, int]], known: Sequence[int]) -> list[NTuple]:
        """Make RNTuples of the envelopes among records (first byte after the key, number of bytes).

        Those whose header lies at a known offset are left out.
        """
    def directory(self) -> Directory:
        """Read the directory at the top."""
    def streamers(self) -> list[tuple[str, int, int]]:
        """List the classes that the file describes: name, version and checksum of each."""
    def has_sets_or_maps(self) -> bool:
        """Return whether a class that the file describes has a member that is, or contains, a set or a map."""
    def classes(self) -> list[tuple[str, int, int, list[dict[str, Any]]]]:
        """List the classes with their members: name, version, checksum, and the members of each `TStreamerElement`."""
    def verify_classes(self) -> None:
        """Raise `CorruptError` if the file describes a class of trees with other members than ROOT in this version."""
    def counters(self) -> dict[str, int]:
        """Return the counters of the reads from this file so far, under the names of `counters`."""
    def close(self) -> None:
        """Close a file that was opened by its path; further reads are a `StorageError`."""
    def ledger(self) -> list[tuple[int, int, int, int, bool, str]]:
        """List failed requests: time in ns, offset, length, attempt, whether it was retried, and the reason."""
    def stored_version(self) -> tuple[str, str] | None:
        """Return the server that reported the version of the file, and the version.

        The version is an ETag or a date. For a local file it is the time of its last change in nanoseconds, and the
        server is empty.
        """
    def touched(self) -> tuple[int, int] | None:
        """Return when the content or the description of a local file was changed last, in nanoseconds.

        Programs cannot set this time. None if the system does not keep it, and for files that are not local.
        """

@final
class Key:
    """An entry of a directory (`TKey`)."""

    @property
    def name(self) -> str:
        """The name of the object (`fName`)."""
    @property
    def title(self) -> str:
        """The title of the object (`fTitle`)."""
    @property
    def classname(self) -> str:
        """The C++ class of the object (`fClassName`)."""
    @property
    def cycle(self) -> int:
        """The number that distinguishes objects of one name (`fCycle`)."""
    @property
    def seek(self) -> int:
        """The offset of the record, in bytes (`fSeekKey`)."""
    @property
    def object_bytes(self) -> int:
        """The size of the object before compression, in bytes (`fObjlen`)."""
    @property
    def total_bytes(self) -> int:
        """The size of the record, in bytes (`fNbytes`)."""
    @property
    def key_bytes(self) -> int:
        """The size of the key at the front of the record, in bytes (`fKeylen`)."""
    @property
    def datetime(self) -> int:
        """When the object was written, packed as in `TDatime` (`fDatime`)."""

@final
class Directory:
    """A directory and its keys."""

    @property
    def name(self) -> str:
        """The name."""
    @property
    def title(self) -> str:
        """The title."""
    @property
    def uuid(self) -> str:
        """The identifier (`fUUID`)."""
    @property
    def created(self) -> int:
        """When it was made, packed as in `TDatime` (`fDatimeC`)."""
    @property
    def modified(self) -> int:
        """When it was last changed, packed as in `TDatime` (`fDatimeM`)."""
    @property
    def seek(self) -> int:
        """The offset of its record (`fSeekDir`)."""
    @property
    def recovered(self) -> bool:
        """Whether its list of keys was lost and the keys were found by going through the records of the file."""
    @property
    def keys(self) -> list[Key]:
        """The keys, in the order of the file."""
    def listing(self) -> list[list[Any]]:
        """List the names, classes and cycles of the keys: three lists, in the order of the file."""
    def key(self, index: int) -> Key:
        """Return a key by its place."""
    def subdirectory(self, key: Key) -> Directory:
        """Read the directory of a key."""
    def ntuple(self, key: Key) -> NTuple:
        """Open the RNTuple of a key."""
    def tree(self, key: Key) -> Tree:
        """Read the tree of a key: the descriptions of its branches and baskets, not their data."""
    def object(self, key: Key, makers: _Makers) -> tuple[Any, list[tuple[str, str]]]:
        """Read the object of a key, of any class.

        Returns the Python object from the makers, and the parts that could not be read: (path through members, reason).

        Raises
        ------
        UnsupportedError
            No part of it can be read.
        CorruptError
            Its bytes contradict the format.
        """

# Functions that make Python objects: a model of an Object, a list of values, a mapping of (key, value) pairs, and the
# placeholder for an unreadable value, from the reason and whether the bytes are damaged.
_Makers: TypeAlias = tuple[
    Callable[[Object], Any],
    Callable[[builtins.list[Any]], Any],
    Callable[[builtins.list[tuple[Any, Any]]], Any],
    Callable[[str, bool], Any],
]

@final
class Object:
    """An object that was read: its class, bases and members. These become Python objects at their first use."""

    @property
    def classname(self) -> str:
        """The C++ class."""
    @property
    def version(self) -> int:
        """The version of the class with which it was written."""
    @property
    def reference(self) -> int:
        """The number by which pointers of the same key refer to it; 0 for a part of another object."""
    @property
    def place(self) -> tuple[int, int]:
        """Offset of its bytes in the uncompressed key, and their number."""
    @property
    def reason(self) -> str | None:
        """Why it, or the rest of it, could not be read."""
    def lineage(self) -> list[str]:
        """List its class and all its bases, each before its own bases."""
    def bases(self, makers: _Makers) -> list[Any]:
        """Make Python objects of its bases."""
    def owner(self, name: str) -> int | None:
        """Return the number of the base that has a member; -1 for the object itself, None where there is none."""
    def member(self, name: str, makers: _Makers) -> Any:
        """Make a Python object of one of its own members; numbers in arrays become NumPy arrays."""
    def members(self, known: dict[str, Any], makers: _Makers) -> dict[str, Any]:
        """Make Python objects of all of its own members; those in `known` are taken from there."""
    def problems(self) -> list[tuple[str, str]]:
        """List the parts that could not be read: (path through members, reason)."""

class Table:
    """A table of entries, of any format."""

    @property
    def name(self) -> str:
        """The name."""
    @property
    def title(self) -> str:
        """The title."""
    @property
    def classname(self) -> str:
        """The C++ class: `TTree`, `TNtuple`, ..."""
    @property
    def num_entries(self) -> int:
        """The number of entries."""
    @property
    def aliases(self) -> dict[str, str]:
        """Names and expressions that the table defines."""
    @property
    def fields(self) -> list[Field]:
        """All fields, depth first, a parent before its children."""
    def field_bytes(self) -> tuple[list[int], list[int]]:
        """Return the bytes of all pages of each field, before compression and in the file."""
    def clusters(self) -> list[int]:
        """List the entries at which clusters begin, and the end: 0, ..., `num_entries`."""

    def same_shape(self, other: Table, /) -> bool:
        """Return whether the other table has the same fields, aliases and classes."""

    def places_hash(self, field: int) -> int:
        """Return a hash of the places of all pages of a field and of those that it needs, and of their entries."""
    def content_hash(self, field: int, output: Output | None) -> int:
        """Return the hash of the stored bytes of all pages of a field and of its description.

        The pages are read, except those whose checksums `output` has collected while it wrote the file.
        """
    def numbers_of(self, paths: Sequence[str]) -> list[int | None]:
        """Return the numbers of fields, given by their names from the top down, joined by dots."""
    def plan(
        self, fields: Sequence[int], start: int, stop: int
    ) -> tuple[list[tuple[int, int, int, int, int, int, int]], list[list[tuple[int, int]]]]:
        """Return the pages and requests for reading some fields, without reading them.

        Returns
        -------
        Pages (cluster from 1, stored column, page, offset, length, first entry, entries); a page that several fields
        need is listed as often as it is read, and one that they show only once. And requests, each a list of (offset,
        length). In a tree, a stored column is a branch and a page a basket.
        """

    def whole(self, parts: bool) -> tuple[list[int], list[str]] | None:
        """Return the places and names of all fields at the top.

        None if one cannot be read, two share a name, or with `parts` one has parts.
        """
    def bytes_in(self, fields: Sequence[int], ranges: Sequence[tuple[int, int]]) -> list[float]:
        """Estimate the bytes of some fields (by their places) in memory, in each of several ranges of entries."""
    def count_pages(self, field: int) -> int:
        """Count the pages of a field in the file, each once."""
    def shared_columns(self, field: int) -> list[int] | None:
        """List the stored columns of a field, if they and its type determine its values and other fields show them."""
    def codecs(self, pages: Sequence[tuple[int, int]]) -> list[int | None]:
        """Read the codecs of pages, by ROOT's numbers; a page is a stored column and the number of its page.

        0 is none; None if it is unknown. In a tree, copied baskets may differ from the branch's `compression`.
        """

class Field:
    """A field of a table, of any format."""

    @property
    def index(self) -> int:
        """The place in `Table.fields`."""
    @property
    def parent(self) -> int | None:
        """The place of the field above, None directly below the table."""
    @property
    def children(self) -> list[int]:
        """The places of the sub-fields."""
    @property
    def name(self) -> str:
        """The name."""
    @property
    def title(self) -> str:
        """The title."""
    @property
    def classname(self) -> str:
        """The class of its values in the file, or an empty string."""
    @property
    def typename(self) -> str:
        """The C++ type of its values: ``float``, ``int32_t[3]``, ``std::vector<float>``, ..."""
    @property
    def entries(self) -> int:
        """The number of entries."""
    @property
    def total_bytes(self) -> int:
        """The size of its pages before compression, in bytes."""
    @property
    def compressed_bytes(self) -> int:
        """The size of its pages as stored, in bytes."""
    @property
    def type(self) -> Type | None:
        """The type of its column; None if it cannot be read or has only sub-fields."""
    @property
    def reason(self) -> str | None:
        """The reason why it cannot be read; None if it can."""
    @property
    def left_out(self) -> list[str]:
        """The members that can only be skipped, not decoded, as far as this is known before reading, with reasons."""
    @property
    def doubts(self) -> list[str]:
        """Parts that cannot be read if they occur: elements of containers whose class the file does not describe."""
    @property
    def num_pages(self) -> int:
        """The number of pages that are read for all entries."""
    def longest_entry(self) -> int | None:
        """Find the longest entry of the first page whose entries differ in length; None if all have the same length."""
    @property
    def has_data(self) -> bool:
        """Whether it has values, not only subfields."""

@final
class RzKey:
    """An entry of an RZ directory: an object in one of its cycles, or a subdirectory."""

    @property
    def name(self) -> str:
        """The words of the key, with commas between them; of HBOOK's objects their number."""
    @property
    def title(self) -> str:
        """Empty: keys have no titles."""
    @property
    def classname(self) -> str:
        """The class: that of a histogram, ``RWNtuple``, ``CWNtuple``, ``Banks``, ``Vector`` or ``RZDirectory``."""
    @property
    def cycle(self) -> int:
        """The cycle."""
    @property
    def seek(self) -> int:
        """The byte offset of the object."""
    @property
    def object_bytes(self) -> int:
        """The bytes of the object."""
    @property
    def total_bytes(self) -> int:
        """The same."""
    @property
    def key_bytes(self) -> int:
        """0: keys are in the directory."""
    @property
    def datetime(self) -> int:
        """When it was written, as ROOT packs it; years before 1995 are below zero."""
    @property
    def words(self) -> list[int]:
        """The words of the key."""

@final
class RzDirectory:
    """A directory of an RZ file."""

    @property
    def name(self) -> str:
        """The name."""
    @property
    def title(self) -> str:
        """Empty: directories have no titles."""
    @property
    def uuid(self) -> str:
        """A number that stands for the file."""
    @property
    def created(self) -> int:
        """When it was made, as `RzKey.datetime`."""
    @property
    def modified(self) -> int:
        """When it was changed, as `RzKey.datetime`."""
    @property
    def recovered(self) -> bool:
        """Always False."""
    @property
    def tags(self) -> list[str]:
        """The names of the key words."""
    @property
    def keys(self) -> list[RzKey]:
        """Subdirectories, then the cycles of all keys."""
    def listing(self) -> tuple[list[str], list[str], list[int]]:
        """Return names, classes and cycles of all keys."""
    def key(self, index: int) -> RzKey:
        """Return one of `keys`."""
    def subdirectory(self, key: RzKey) -> RzDirectory:
        """Read a subdirectory."""
    def table(self, key: RzKey) -> Table:
        """Open an ntuple."""
    def object(self, key: RzKey, makers: _Makers) -> tuple[Any, list[tuple[str, str]]]:
        """Read a histogram, as `Directory.object`."""
    def structure(self, key: RzKey) -> Structure:
        """Read banks."""
    def vector(self, key: RzKey) -> Any:
        """Read a vector."""
    def collect(self, names: Sequence[str], keys: Sequence[int]) -> list[tuple[Any, Any, Any]]:
        """Read the data of banks by name from objects, as `FzReader.collect`."""

class ZebraFile:
    """The common members of FZ and RZ files, named as in `File`."""

    @property
    def name(self) -> str:
        """Path or URL."""
    @property
    def uuid(self) -> str:
        """A number that stands for the file."""
    @property
    def version(self) -> int:
        """0: not known."""
    @property
    def is_64bit(self) -> bool:
        """Always False."""
    @property
    def compression(self) -> int:
        """0: none."""
    @property
    def begin(self) -> int:
        """0."""
    @property
    def end(self) -> int:
        """The size."""
    @property
    def size(self) -> int:
        """Bytes of the file."""
    def streamers(self) -> list[tuple[str, int, int]]:
        """List no classes."""
    def has_sets_or_maps(self) -> bool:
        """Return False: there are no classes."""
    def classes(self) -> list[Any]:
        """List no classes."""
    def counters(self) -> dict[str, int]:
        """Count what was read."""
    def close(self) -> None:
        """Close the file."""
    def ledger(self) -> list[tuple[int, int, int, int, bool, str]]:
        """List the requests that did not go well."""
    def stored_version(self) -> tuple[str, str] | None:
        """Return who states the version of the file, and the version."""
    def touched(self) -> tuple[int, int] | None:
        """Return when the content or the description of a local file was changed last, in nanoseconds."""

@final
class RzFile(ZebraFile):
    """An open RZ file."""

    @property
    def record_words(self) -> int:
        """Words of a record."""
    @property
    def order(self) -> str:
        """``"big"`` or ``"little"``."""
    def directory(self) -> RzDirectory:
        """Read the top directory."""

@final
class FzFile(ZebraFile):
    """An open FZ file."""

    @property
    def mode(self) -> str:
        """``"exchange"``, ``"native"`` or ``"alfa"``."""
    @property
    def order(self) -> str:
        """``"big"`` or ``"little"``."""
    @property
    def record_words(self) -> int | None:
        """Words of a physical record, if they have one length."""
    def reader(self) -> FzReader:
        """Return a reader at the start of the file."""

@final
class FzReader:
    """Reads the logical records of an FZ file one after the other."""

    def read(
        self,
    ) -> tuple[str, int, int | None, list[tuple[str, Any]], list[tuple[str, int]], str, Structure | None] | None:
        """Return kind, offset, run number, user words, segments, text and banks of the next record; None at the end."""
    def skip(self) -> str | None:
        """Return the kind of the next record; None at the end."""
    def collect(self, names: Sequence[str], events: int) -> list[tuple[Any, Any, Any]] | None:
        """Read the banks of some names in the next events; None at the end.

        For each name: where the banks of each event begin and the last end, the words of each bank, and all words.
        """

@final
class Structure:
    """Banks that were written together."""

    @property
    def entry(self) -> int | None:
        """The bank that the program named when it wrote."""
    def __len__(self) -> int: ...
    def about(self, index: int) -> tuple[str, int, int, int, list[int]]:
        """Return name, number, structural links, status and I/O words of a bank."""
    def links(self, index: int) -> list[int]:
        """Return the targets of next, links and up: a bank, none (-1), or a bank that was not written (-2)."""
    def data(self, index: int) -> list[tuple[str, Any]]:
        """Return the data, words of one kind together."""

@final
class ZebraWriter:
    """Writes structures of one form to an FZ or RZ file.

    A shape is (name, kind and number of the first words, kind of the others, words, name of the bank with the links).
    """

    def __new__(
        cls,
        path: str | Path,
        kind: str,
        record_words: int,
        top: str,
        shapes: Sequence[tuple[str, tuple[str, int] | None, str, int, str | None]],
    ) -> ZebraWriter: ...
    def start_run(self, number: int, user: Sequence[int]) -> None:
        """Start a run."""
    def end_run(self, user: Sequence[int]) -> None:
        """End a run."""
    def write(self, first: int, count: int, top: Any, parts: Sequence[tuple[Any, Any]]) -> None:
        """Write structures, numbered from `first`: words of top banks; for each shape offsets and words."""
    def close(self) -> None:
        """Complete the file."""

def open_file(
    source: str | bytes | list[str] | _Readable,
    name: str | None = None,
    far: Far | None = None,
    prior: str | None = None,
) -> File | RzFile | FzFile:
    """Open a file of any known format, which its first bytes determine."""

@final
class Correction:
    """A function of numbers that tables, categories and formulas define.

    A content is (kind, value); children come before their parents.
    """

    def __new__(cls, name: str, inputs: Sequence[str], contents: Sequence[tuple[str, Any]]) -> Correction: ...

@final
class Program:
    """Expressions, ready to be computed natively.

    A node is (operation, numbers of earlier nodes, value). A fill is (axes, select, weight, sample, storage): numbers
    of nodes, and of each axis (kind, numbers, underflow, overflow, node).
    """

    def __new__(cls, nodes: Sequence[tuple[str, list[int], Any]], kept: Sequence[int], regular: bool) -> Program: ...
    def columns(self, kept: Sequence[int], data: list[Any], length: int) -> list[Any]:
        """Compute the columns of nodes from columns of `length` entries."""
    def types(self, kept: Sequence[int], data: list[Any], length: int) -> list[tuple[str, int, bool]]:
        """Return for nodes the type of number, how deep in lists, and whether some may be None."""
    def fill(
        self, wanted: Sequence[Any], data: list[Any], length: int, shared: bool = False
    ) -> list[tuple[Any, Any, Any]]:
        """Fill bins with columns: sums, squares or means, squared deviations. `shared`: on all threads."""
    def fill_tables(
        self, wanted: Sequence[Any], parts: Sequence[tuple[Table, Sequence[int], int, int]]
    ) -> list[tuple[Any, Any, Any]]:
        """Fill bins with fields of tables while these are read, on all threads."""

@final
class Tree(Table):
    """A tree (`TTree`), with the properties that only trees have."""

    @property
    def total_bytes(self) -> int:
        """The size of all baskets before compression, in bytes (`fTotBytes`)."""
    @property
    def compressed_bytes(self) -> int:
        """The size of all baskets as stored, in bytes (`fZipBytes`)."""
    @property
    def auto_flush(self) -> int:
        """How often clusters were closed: in entries, or if negative in bytes (`fAutoFlush`)."""
    @property
    def friends(self) -> list[tuple[str, str, str]]:
        """Trees beside this one (`fFriends`): name, path of the file (empty: this file), path of the tree in it."""
    @property
    def index(self) -> tuple[str, str] | None:
        """The two expressions of the index by which entries are found (`fTreeIndex`), if there is one."""
    @property
    def weight(self) -> float:
        """The factor of its entries in histograms (`fWeight`)."""
    @property
    def branches(self) -> list[Branch]:
        """All branches, depth first, a parent before its children."""

@final
class NTuple(Table):
    """An RNTuple (`ROOT::RNTuple`), with the properties that only RNTuples have."""

    @property
    def writer(self) -> str:
        """The program that wrote it."""
    @property
    def version(self) -> list[int]:
        """The version of the format: epoch, major, minor, patch."""
    def column_bytes(self) -> tuple[int, int]:
        """Return the bytes of all pages of all columns, before compression and in the file."""
    def cluster_entries(self) -> list[tuple[int, int]]:
        """List the first entry and the number of entries of each cluster."""
    @property
    def header_offset(self) -> int:
        """The offset of the header in the file."""
    @property
    def header_checksum(self) -> int:
        """The checksum of the header."""
    @property
    def ntuple_fields(self) -> list[NTupleField]:
        """The fields, as `fields`, with the properties that only fields of RNTuples have."""
    def field_records(
        self,
    ) -> list[tuple[int, int, int, int, int, int, int | None, int | None, str, str, str, str]]:
        """List the schema's records of the fields, in the order of `sapwood.files.ntuple.FieldRecord`."""
    def column_records(
        self,
    ) -> list[tuple[int, str | None, int, int, int, int, int, tuple[float, float] | None]]:
        """List the schema's records of the columns, in the order of `sapwood.files.ntuple.ColumnRecord`."""
    def alias_records(self) -> list[tuple[int, int]]:
        """List the columns of projected fields: column and field."""
    def cluster_groups(self) -> list[tuple[int, int, int]]:
        """List the groups of clusters: first entry, entries, clusters."""
    def page_list(
        self, group: int
    ) -> list[tuple[int, int, list[tuple[bool, int, int, list[tuple[int, bool, tuple[int, int] | None]]]]]]:
        """List the clusters of a group: first entry, entries, and each column.

        Of a column: whether another one represents the field there, its first element, its compression as ROOT numbers
        it, and each page: elements, whether a checksum follows it, and its first byte and size (None where it is in an
        object store).
        """
    def verify(self, deep: bool) -> tuple[list[tuple[str, str, str, tuple[int, int] | None]], list[tuple[int, int]]]:
        """Compare clusters and pages with the schema and the page lists, and with `deep` verify checksums.

        Returns
        -------
        tuple
            Faults (code, part, text, first entries of the first and the last cluster), and the stretches in use: first
            byte and end.
        """
    @property
    def attribute_sets(self) -> list[tuple[str, int, int]]:
        """The linked attribute sets: name, major and minor version of the schema."""
    def attribute_set(self, name: str) -> NTuple:
        """Open a linked attribute set."""

@final
class NTupleField(Field):
    """A field of an RNTuple, with the properties that only these have."""

    @property
    def field_id(self) -> int | None:
        """The ID in the schema."""
    @property
    def column_ids(self) -> list[int]:
        """The columns of the field and of all that it consists of."""

@final
class Branch(Field):
    """A branch (`TBranch` and derived classes), with the properties that only branches have."""

    @property
    def classname(self) -> str:
        """The C++ class of its values, if the branch names one (`TBranchElement::fClassName`), otherwise ""."""
    @property
    def encoded_classname(self) -> str:
        """The C++ class of the branch itself: `TBranch`, `TBranchElement`, ..."""
    @property
    def leaves(self) -> list[tuple[str, str, str]]:
        """The leaves: C++ class, name and title of each."""
    @property
    def count_branch(self) -> int | None:
        """The place of the branch that counts the items of this one, if there is one (`fLeafCount`)."""
    @property
    def num_baskets(self) -> int:
        """The number of baskets, in the file and inside the tree's record."""
    @property
    def compression(self) -> int:
        """The compression setting (`fCompress`): algorithm * 100 + level."""
    @property
    def basket_entries(self) -> list[int]:
        """The first entry of each basket, and the end (`fBasketEntry`)."""
    @property
    def basket_bytes(self) -> list[int]:
        """The size of each basket in the file, in bytes (`fBasketBytes`)."""
    @property
    def basket_seeks(self) -> list[int]:
        """The offset of each basket in the file, in bytes (`fBasketSeek`); 0 for one inside the tree's record."""
    @property
    def embedded_baskets(self) -> list[int]:
        """The numbers of the baskets that are inside the tree's record."""
    def basket(self, number: int) -> tuple[bytes, list[int] | None]:
        """Read a basket: its values, and where its entries begin and the last ends, if their sizes differ."""
    @property
    def range_text(self) -> str | None:
        """Text of the range in the title of its first leaf, without the brackets."""
    @property
    def packing(self) -> tuple[float, float, int] | None:
        """How its numbers are packed (`Double32_t`, `Float16_t`): the range (0 and 0 if there is none) and bits."""

@final
class Sum:
    """An object and others of the same shape, added."""

    @property
    def is_additive(self) -> bool:
        """Whether the object is a histogram or holds some. Another object takes only objects that are the same."""
    @property
    def count(self) -> int:
        """Number of objects added, the first included."""

@final
class Sums:
    """Sums by the paths of their objects, and the objects of a file that will be added to them.

    All objects together take at most `most` bytes, and more are refused before they are read.
    """

    def __new__(cls, most: int) -> Sums: ...
    def start(self, file: File, keys: Sequence[Key]) -> list[Sum]:
        """Read objects, each the first of a sum."""
    def keep(self, total: Sum) -> None:
        """Count the memory of a sum that is kept."""
    def check(self, more: int) -> None:
        """Raise an error if there is no room for `more` bytes."""
    def insert(self, path: str, total: Sum) -> None:
        """Use a sum for the objects of a path."""
    def read(self, directory: Directory, prefix: str) -> list[int]:
        """Read the objects of a directory that are like the sums of their paths, which begin with a prefix.

        Returns the places of the other keys. Older cycles are left out.
        """
    def add(self) -> None:
        """Add the objects that were read."""
    def forget(self) -> None:
        """Forget the objects that were read."""

@final
class Output:
    """A ROOT file being written, with its tables. Directories and tables go by numbers; the root directory is 0."""

    def __new__(
        cls,
        target: str | _Writable,
        name: str,
        overwrite: bool,
        title: str,
        compression: int,
        uuid: bytes | None,
        utc_offset: int,
        datime: int | None,
        commit_every: int | None,
        atomic: bool,
    ) -> Output:
        """Make a file.

        Parameters
        ----------
        target
            A local path, or an object.
        name
            The name in the file's header.
        overwrite
            Whether to replace an existing file; otherwise it is a FileExistsError.
        title
            Its title.
        compression
            The setting (`fCompress`): algorithm * 100 + level.
        uuid
            Its identifier, 16 bytes; a random one if None.
        utc_offset
            Seconds that local time is ahead of UTC.
        datime
            The date of all records as ROOT packs it, instead of the clock's.
        commit_every
            Commit after the first cluster that ends this many bytes after the last commit (0: after each cluster), or
            only by `commit` (None).
        atomic
            Whether the file is discarded, and errors say so, if it cannot be written completely.
        """
    @staticmethod
    def update(
        path: str,
        compression: int | None,
        utc_offset: int,
        datime: int | None,
        commit_every: int | None,
        keeps: Callable[[File], bool],
    ) -> Output:
        """Continue an existing file; `compression` None keeps its setting.

        `keeps` is called with the file before its records are read: it can attach checksums, and returns whether to
        collect checksums of later writes. Other arguments are as for a new file.
        """
    def keep_checksums(self) -> None:
        """Collect checksums of later writes, if they are not collected yet."""
    def share_checksums(self, file: File) -> None:
        """Let a reader of the file compare records with the checksums that were collected so far."""
    def check_free(self) -> None:
        """Raise an error if this thread is in a call of the stream that the file is written to."""
    def delete(self, directory: int, name: str, cycle: int | None) -> None:
        """Delete one cycle of a name, or all; a directory with its content."""
    def delete_trees(
        self, directory: int, name: str, cycle: int | None, file: File, doomed: Sequence[Key], kept: Sequence[Key]
    ) -> None:
        """Delete objects with the baskets of their trees, except baskets that remaining trees use."""
    def copy_key(self, directory: int, name: str, file: File, key: Key) -> None:
        """Copy the object of a key of another file as it is, with the streamer info of its classes."""
    def write_sums(self, directory: int, sums: Sequence[tuple[str, Sum]]) -> None:
        """Write sums of objects under their names, with the streamer info of their classes."""
    def join_tree(self, directory: int, name: str, file: File, key: Key, compression: int | None) -> tuple[int, bool]:
        """Begin a tree made of the baskets of others, laid out like that of a key.

        Returns its number, and whether the tree has an index. The index is kept if no other tree is added. Baskets are
        stored with `compression`, or as they are if None.
        """
    def join_more(self, tree: int, file: File, key: Key, processes: int, known: Tree | None = None) -> int:
        """Add the baskets of a tree; returns its entries.

        `processes` is the number of process identifiers of other files that were written before those of this file;
        `known` is the tree of the key if it was read before.
        """
    def join_baskets(
        self, tree: int, file: File, baskets: Sequence[tuple[int, int, int, int, int]], entries: int
    ) -> None:
        """Add baskets that no description lists, and their entries, as one cluster.

        Of each basket: place of its branch, offset and size in the file, first entry counted from the end of the joined
        tree, and number of entries.
        """
    def mark_joined(self, back: bool) -> None:
        """Record the state of the joined trees, or return to the state that was recorded last."""
    @property
    def compression(self) -> int:
        """The compression setting of later writes; can be set."""
    @compression.setter
    def compression(self, value: int, /) -> None: ...
    @property
    def end(self) -> int:
        """The offset after the last record, in bytes (`fEND`)."""
    def list(self, directory: int) -> builtins.list[tuple[str, int, str, str]]:
        """List the objects of a directory: name, cycle, class and title of each."""
    def find(self, parent: int, name: str) -> int | None:
        """Find a directory in a directory."""
    def mkdir(self, parent: int, name: str, title: str) -> int:
        """Make a directory, or find it."""
    def write_object(self, directory: int, name: str, title: str, written: tuple[str, dict[str, Any]]) -> None:
        """Write an object: its class, and its members by ROOT's names."""
    def write_value(self, directory: int, name: str, title: str, shape: tuple[Any, ...], column: Column) -> None:
        """Write a column of one record as an object of its own class."""
    def leave_gap(self, size: int) -> None:
        """Leave out this many bytes before the next record."""
    def set_atomic(self) -> None:
        """Keep either everything that is written from now on until the file is closed, or nothing of it."""
    def abandon(self) -> None:
        """Release the file without writing pending data."""
    def roll_back(self) -> None:
        """Release the file without what was written since its last commit."""
    def commit(self) -> None:
        """Make all full clusters and all objects part of the file that readers see."""
    def close(self) -> None:
        """Write pending data, and complete the file."""
    def make_tree(
        self,
        directory: int,
        name: str,
        title: str,
        branches: Sequence[tuple[str, str, tuple[Any, ...], Sequence[int], int, int, bool, int | None]],
        auto_flush: int,
        max_basket: int | None,
        titles: Mapping[str, str],
    ) -> int:
        """Make a tree.

        Parameters
        ----------
        directory, name, title
            Where, and what it is called.
        branches
            Of each its name, its kind ("numbers", "counted", "counter", "text", "leaves", "object"), its shape (or that
            of its elements) as `sapwood.writing.shapes` describes it, dimensions, the place of its counter, its split
            level, whether lists of objects are laid out member by member, and its compression setting.
        auto_flush
            Size of a cluster: entries, or compressed bytes if negative.
        max_basket
            Bytes of a basket before compression, at most.
        titles
            Titles of branches by name, instead of the lists of their leaves.
        """
    def append_tree(
        self, directory: int, file: File, key: Key
    ) -> tuple[
        int, builtins.list[tuple[str, str, tuple[Any, ...], builtins.list[int], int, int, bool, int | None]], bool
    ]:
        """Continue the tree of a key of the same file.

        Return its number, branches as `make_tree` takes them, and whether it has an index that is left out once there
        are more entries.
        """
    def describe_tree(self, tree: int, weight: float, objects: tuple[Any, Any, Any, Any]) -> None:
        """Set the weight of a new tree, and its aliases, index, friends and user information: objects or None."""
    def add_branches(
        self,
        directory: int,
        file: File,
        key: Key,
        branches: Sequence[tuple[str, str, tuple[Any, ...], Sequence[int], int, int, bool, int | None]],
        max_basket: int | None,
        columns: builtins.list[Column],
    ) -> None:
        """Add branches, with all their entries, to the tree of a key of the same file."""
    def make_ntuple(
        self,
        directory: int,
        name: str,
        description: str,
        fields: Sequence[tuple[str, tuple[Any, ...], int | None]],
        cluster_bytes: int | None,
        cluster_entries: int | None,
        page_bytes: int | None,
        projections: Sequence[tuple[str, str]],
    ) -> int:
        """Make an RNTuple.

        Parameters
        ----------
        directory, name, description
            Where, and what it is called.
        fields
            Of each its name, its shape as `sapwood.writing.shapes` describes it, and its compression setting.
        cluster_bytes
            Approximate compressed bytes of a cluster; None: ROOT's default.
        cluster_entries
            Maximum number of entries of a cluster.
        page_bytes
            Maximum number of bytes of a page before compression; None: ROOT's default.
        projections
            Names of fields that show others, and the paths of these.
        """
    def append_ntuple(
        self, directory: int, file: File, key: Key
    ) -> tuple[int, builtins.list[tuple[str, tuple[Any, ...]]]]:
        """Continue the RNTuple of a key of the same file; return its number and its fields with their types."""
    def make_ntuple_like(
        self,
        directory: int,
        name: str,
        source: NTuple,
        cluster_bytes: int | None,
        cluster_entries: int | None,
        page_bytes: int | None,
    ) -> tuple[int, builtins.list[tuple[str, tuple[Any, ...]]]]:
        """Make an RNTuple with the fields and columns of another; return as `append_ntuple` does."""
    def copy_cluster(self, table: int, source: NTuple, first_entry: int, compression: int | None) -> bool:
        """Copy the cluster that begins at an entry; return False, with nothing done, if its columns differ.

        Pages are compressed with the setting `compression`, or stay as they are stored if it is None.
        """
    def add_fields(self, table: int, fields: Sequence[tuple[str, tuple[Any, ...], int | None]]) -> None:
        """Add fields for later entries to an RNTuple; they are given as for `make_ntuple`."""
    def add_attribute_set(
        self, table: int, name: str, fields: Sequence[tuple[str, tuple[Any, ...], int | None]]
    ) -> None:
        """Add an attribute set to an RNTuple; its fields are given as for `make_ntuple`."""
    def attribute_sets(self, table: int) -> builtins.list[tuple[str, tuple[Any, ...] | None]]:
        """Return names of attribute sets, and types of their records; None if they take no entries."""
    def extend_attribute_set(self, table: int, name: str, columns: builtins.list[Column]) -> None:
        """Add entries to an attribute set: first entries, lengths, and records."""
    def extend(self, table: int, columns: builtins.list[Column]) -> None:
        """Add entries: one column for each branch except counters, in order. The columns are not changed or kept."""
    def collect(self, table: int, parts: Sequence[tuple[int, Sequence[int], int, bool]]) -> None:
        """Collect statistics of numbers of a table without entries, for an index.

        Parameters
        ----------
        parts
            Of each the place of its column, the places of the members of the records that contain the numbers, the
            place of a column whose lists have the same lengths, and whether the numbers are the lengths of the lists.
        """
    def zones(self, table: int) -> tuple[builtins.list[int], builtins.list[builtins.list[Foreign] | None]] | None:
        """Return the first entry of each cluster and the end, and the statistics of each part in the clusters.

        The statistics are the smallest and the largest numbers, the numbers of values, of missing values and of NaN,
        and the lengths of the longest lists; None if they are not known. NaN is neither the smallest nor the largest;
        where there are no others, both are 0. Bools are bytes. The result is None if the statistics are not those of
        all entries. Entries that are buffered are the last cluster.
        """
    def flush(self, table: int) -> None:
        """Write the pending entries as a cluster."""
    def finish(self, table: int) -> None:
        """Write the pending entries and make them part of the readable file; the table then takes no more."""
    def table_counts(self, table: int) -> tuple[int, int, int]:
        """Return the numbers of added entries, of entries in the file, and the largest number of pages of a column."""
    def set_field_compression(self, table: int, field: int, code: int | None) -> None:
        """Set the compression setting of later pages; None for the file's."""

class Carry:
    """Decompressed ends of baskets that reach into the next step of an iteration, up to a number of bytes."""

    def __new__(cls, room: int) -> Carry: ...  # noqa: PYI034
    def announce(self, table: Table, fields: Sequence[int], start: int, stop: int) -> None:
        """Announce the pages of all steps to remote storage, so that they are fetched ahead."""
    @property
    def announced(self) -> bool:
        """Whether the pages were announced; local storage ignores announcements."""
    def give_up(self) -> None:
        """Cancel the read that uses this, if there is one, and release the bytes that were fetched ahead."""

class HeldBuffers:
    """Keeps all large buffers of deleted arrays for the next arrays until it is closed, not only 64 MB of them."""

    def __new__(cls) -> HeldBuffers: ...  # noqa: PYI034
    def close(self) -> None:
        """Free the buffers beyond the usual limit."""

class Stop:
    """Cancels, from another thread, the current and later waits of jobs in the native part."""

    def __new__(cls) -> Stop: ...  # noqa: PYI034
    def call(self, work: Callable[[], _T]) -> _T:
        """Call a function that can be cancelled; it then raises a `StorageError`."""
    def give_up(self) -> None:
        """Cancel the function."""

def read(
    parts: Sequence[tuple[Table, Sequence[int], int, int]],
    carry: Carry | None = None,
    left_out: list[str] | None = None,
) -> list[Column]:
    """Read branches.

    Parameters
    ----------
    parts
        Trees, the places of the branches wanted, and a range of entries. All parts name branches of the same types in
        the same order.
    carry
        Pages that steps of the same iteration leave for each other; only with a single part.
    left_out
        A list that gets the members and objects that can only be skipped: their name, the first place, and the reason.
        They are left out; without a list they are an error.

    Returns
    -------
    One column for each place in the list of branches: those of all parts, joined.

    Raises
    ------
    ArgumentError
        The parts have different types, or a range is outside of the tree.
    UnsupportedError
        A branch cannot be read.
    CorruptError, LimitError, StorageError
        The bytes are damaged, would need too much memory, or are not available.
    """

def arrow_stream(
    names: Sequence[str],
    data: Sequence[Column] | Sequence[tuple[Table, Sequence[int], int, int]],
    warn: Callable[[list[str]], object] | None = None,
) -> Foreign:
    """Make an Arrow C stream (a capsule named ``arrow_array_stream``).

    Parameters
    ----------
    names
        The names of the columns.
    data
        The columns, for a stream of one batch; or parts as in `read`, each read when its batch is requested.
    warn
        With parts: called with the parts that were left out of a batch.
    """

def mix_rows(
    columns: Sequence[tuple[Foreign, int, int | None, int | None]],
    offsets: Sequence[Foreign],
    masks: Sequence[tuple[int, int]],
    length: int,
    seed: int | None,
    aligned: int,
) -> tuple[list[Foreign], list[Foreign], list[Foreign]]:
    """Mix the rows of columns, or leave them in their order, and pad lists.

    Parameters
    ----------
    columns
        Of each the numbers, how many of them an entry (or an item of a list) has, the place of the offsets of its
        lists, and the length to which these are padded.
    offsets
        The offsets of lists.
    masks
        The places of offsets, and the lengths to which their lists are padded.
    length
        The number of rows.
    seed
        The number that determines the order; None for the order of the columns.
    aligned
        The row whose address is divisible by 64, in columns and masks with rows of equal length.

    Returns
    -------
    The numbers of each column, the offsets of the lists, and the masks. All are one-dimensional and may be changed.
    """

def own_array(array: Foreign) -> Foreign:
    """Return a writable array over the memory of a read-only array of `read`, which must not be used afterwards.

    None if another column uses the memory, too, or if the array is not one of `read`.
    """

def compress(data: Foreign, code: int) -> Foreign:
    """Compress an array of bytes into ROOT's blocks, with ROOT's number of a codec and a level.

    Returns
    -------
    An array of bytes; None if it would not be smaller.
    """

def decompress(data: Foreign, size: int) -> Foreign:
    """Decompress an array of ROOT's blocks, which hold this many bytes."""

def checksum(data: Foreign) -> int:
    """Return the XXH3 checksum of an array of bytes."""

def set_num_threads(n: int) -> None:
    """Set how many threads decompress and decode; the default is SAPWOOD_NUM_THREADS, or one for each CPU."""

def num_threads() -> int:
    """Return how many threads decompress and decode."""

def set_kept_memory(limit: int) -> int:
    """Set the maximum size of the buffers of deleted arrays that are kept for reuse; the default is 256 MiB.

    A buffer that is not reused is returned to the system after 3 to 6 seconds. Buffers in use and kept buffers together
    never exceed the largest size that was in use at one time. 0 keeps none. Returns the previous limit.
    """

def set_basket_cache(limit: int) -> int:
    """Set the maximum size of the cache of decompressed baskets, which small reads use; the default is 64 MiB.

    All open files of the process share the cache. Baskets above the new limit are dropped at once; 0 keeps none.
    Returns the previous limit.
    """

def kept_memory() -> int:
    """Return the present size of the kept buffers of deleted arrays, in bytes."""

def counters() -> dict[str, int]:
    """Return the counters of all reads of this process so far.

    Times are in nanoseconds, summed over threads.
    """

def list_folder(url: str, far: Far) -> list[tuple[str, bool]]:
    """List the names in a folder of an XRootD server, in their order, and whether they are folders themselves."""

def start_trace() -> bool:
    """Start recording every access of this process; return False if a recording runs already."""

def stop_trace() -> tuple[int, dict[str, Column]] | None:
    """Stop recording; return the start (ns since 1970) and the columns of `sapwood.storage.trace`."""

def trace_so_far() -> tuple[int, dict[str, Column]] | None:
    """Return start and columns of the recording up to now."""

def take_trace() -> tuple[int, dict[str, Column]] | None:
    """Return start and columns of the recording up to now, and remove these rows from it."""

def requests() -> list[tuple[str, tuple[int, int, int, int]]]:
    """Count requests to storage of this process so far, with or without a trace.

    Of each cause: requests, ranges, bytes, nanoseconds.
    """

@final
class Storage:
    """Plain storage: requests are sent unchanged, and the bytes are not interpreted."""

    def __new__(
        cls, source: str | bytes | list[str] | _Readable, name: str | None = None, far: Far | None = None
    ) -> Storage:
        """Open what `File` opens."""
    @property
    def size(self) -> int:
        """Bytes of the file."""
    def request(self, ranges: Sequence[tuple[int, int]]) -> int:
        """Read (offset, length) ranges, by one request if the storage allows it; return the number of bytes."""
    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Read (offset, length) ranges in the same way; return the bytes of each."""
    def counters(self) -> dict[str, int]:
        """Return the counters of all reads."""
    def ledger(self) -> list[tuple[int, int, int, int, bool, str]]:
        """List failed requests, as `File.ledger` does."""
    def close(self) -> None:
        """Close the storage."""

def plan_requests(
    ranges: Sequence[tuple[int, int]],
    prefetch: int,
    workers: int,
    latency: float,
    bandwidth: float,
    most_ranges: int,
) -> list[list[tuple[int, int]]]:
    """Return the requests by which (offset, length) ranges, wanted in this order, would be fetched from storage.

    Parameters
    ----------
    prefetch
        Bytes that may be fetched ahead.
    workers
        Requests in flight.
    latency, bandwidth
        Seconds from a request to its first byte, and bytes a second then.
    most_ranges
        Maximum number of ranges in a request.
    """

def number_types() -> list[tuple[str, list[str], list[int]]]:
    """Return NumPy's name, the names in C++ and ROOT, and the type codes of each number type.

    The first name and the first code are those that are written.
    """

TREE_CLASSES: list[str]
"""The classes of trees."""
NTUPLE_CLASSES: list[str]
"""The classes of RNTuples: of the final format, and of the experimental one."""
HBOOK_CLASSES: list[str]
"""The names that HBOOK's ntuples have as classes: row-wise and column-wise."""
MAP_ENTRY: str
"""Names the records of keys and values in columns of maps; no class has such a name."""

def plan_branches(
    data: Sequence[tuple[str, Type, str, str, int, bool]],
    classes: Mapping[str, tuple[str, int]],
    counter_name: Callable[[str], str],
    field_name: Callable[[str, str], str],
) -> tuple[
    list[tuple[str, str, tuple[Any, ...], list[int], int, int, bool, int | None]],
    list[tuple[str, int | tuple[str, bool, list[tuple[str, Any]]]]],
]:
    """Plan the branches of a tree.

    Parameters
    ----------
    data
        Of each name: its type, the form of lists (``"counted"``, ``"vector"``), the form of records (``"branches"``,
        ``"leaves"``, ``"class"``), split level, and whether vectors of objects are laid out member by member.
    classes
        Names and versions of the classes of records, by the names of branches and fields joined by dots.
    counter_name, field_name
        As for `sapwood.writing.tables.TableDirectory.mktree`.

    Returns
    -------
    tuple
        The branches as `Output.make_tree` takes them; and the destination of each name: the index of a branch, or the
        name of records, whether they are lists, and the destination of each of their fields.
    """

def shape_of(kind: Type, name: str, classes: Mapping[str, tuple[str, int]], nameless: bool) -> tuple[Any, ...]:
    """Return the C++ type for the data of a field, as `sapwood.writing.shapes` describes it.

    Parameters
    ----------
    kind, name
        Type and name of the field.
    classes
        Names and versions of the classes of records, by the names of fields joined by dots.
    nameless
        Whether records without a class name are stored without a class, where RNTuples allow it.
    """

def parse_shape(name: str) -> tuple[Any, ...] | None:
    """Return the type of a C++ name, as `sapwood.writing.shapes` describes it; None if it cannot be written."""

def packing_range(text: str) -> tuple[float, float] | None:
    """Return the lowest and the highest value of packed numbers, by the text in the brackets of their type."""

def lab_probe(name: str, size: int, count: int, folder: str, seconds: float) -> list[float]:
    """Run a probe of this machine for about this many seconds; some of them fork.

    Parameters
    ----------
    name
        Name of the probe: see ``crates/lab/src/lib.rs``.
    size
        Number of bytes that it works on.
    count
        Number of processes or files.
    folder
        Folder for its files.
    seconds
        Duration.
    """

def lab_forget() -> None:
    """Let the children of probes start with little memory; afterwards this process cannot be used for other work."""

def lab_events(start: int, stop: int) -> dict[str, Any]:
    """Make the events of `sapwood lab event`, from `start` to `stop`.

    Returns
    -------
    dict[str, Any]
        NumPy arrays: ``offsets`` of the tracks, ``temperature``, ``histogram`` (100 bins for each event), ``floats``
        (a list of arrays, one for each member of the tracks), ``charge``, ``npoint``, ``valid``.
    """

def lab_sources() -> list[tuple[str, str]]:
    """Return the sources of the kernels, names and texts; the last is the program."""

def lab_starter() -> bytes:
    """Return a program that starts processes: ``crates/lab/src/start.rs``; empty where it could not be built."""
