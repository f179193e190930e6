"""Datasets: the files of a run, their friends and entry lists, and the division of a tree into steps."""

from __future__ import annotations

import glob
import json
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    Discreet,
    MissingFileError,
    MissingPackageError,
    NotFoundError,
    SapwoodWarning,
    one_line,
    stacklevel,
)
from sapwood.files.kinds import TABLES
from sapwood.show.units import counted, memory_size
from sapwood.storage.locate import is_url, matches, split_path
from sapwood.storage.texts import read_text
from sapwood.table.steps import listed

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign
    from sapwood.objects.entries import TEntryList, TEventList

StepSize = int | str


def parse_size(text: str) -> int:
    """Convert ``"50 MB"`` (or kB, GB, kiB, MiB, ...) to bytes.

    Raises
    ------
    ArgumentError
        If it is not a positive number with such a unit.
    """
    try:
        size = memory_size(text)
    except (ArgumentError, TypeError):
        size = 0
    if size < 1:
        raise ArgumentError(f"{text!r} is not a size: a number and B, kB, MB, GB, TB (KiB, MiB, GiB), such as '50 MB'")
    return size


def memory_budget(given: Foreign) -> int | None:
    """Return the memory budget of a process in bytes, given as bytes, as a size, or as None (no budget).

    Raises
    ------
    ArgumentError
        If it is none of these.
    """
    if given is None or isinstance(given, str):
        return None if given is None else parse_size(given)
    if isinstance(given, bool) or not isinstance(given, (int, float, np.number)) or not given >= 1:
        raise ArgumentError(f"memory must be a number of bytes or a size such as '2 GB', not {given!r}")
    return int(given)


def parse_step_size(text: str) -> StepSize:
    """Convert a step size to a number of entries (``"5000"``), or return it unchanged if it is a size (``"50 MB"``).

    Raises
    ------
    ArgumentError
        If it is neither.
    """
    if re.fullmatch(r"\s*[0-9]+\s*", text) and int(text) > 0:
        return int(text)
    try:
        parse_size(text)
    except ArgumentError as error:
        raise ArgumentError(f"a step is a number of entries, such as 5000, or of bytes: {error}") from error
    return text


@dataclass(frozen=True, repr=False)
class Source(Discreet):
    """One tree in one file, as requested by the user.

    - `tree`: path of the tree; None for the only tree of the file.
    - `dataset`: name of its dataset.
    - `replicas`: other paths of the same file.
    - `ranges`: half-open ranges of the requested entries (None: all).
    - `uuid`, `entries`: expected UUID and number of entries, from a description.
    - `options`: options of `sapwood.open` for remote files. Those of the column cache apply to local files too.
    """

    path: str
    tree: str | None = None
    dataset: str = ""
    replicas: tuple[str, ...] = ()
    ranges: tuple[tuple[int, int], ...] | None = None
    uuid: str | None = None
    entries: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)

    def check(self, uuid: str, entries: int) -> None:
        """Compare the UUID and number of entries of the file with the description.

        Raises
        ------
        ArgumentError
            The UUID or the number of entries differs, or a range ends after the last entry.
        """
        if self.uuid is not None and self.uuid.replace("-", "").lower() != uuid.replace("-", "").lower():
            raise ArgumentError(f"{self} has the UUID {uuid}, but {self.uuid} in its description")
        if self.entries is not None and self.entries != entries:
            raise ArgumentError(f"{self} has {entries} entries, but {self.entries} in its description")
        if self.ranges and self.ranges[-1][1] > entries:
            raise ArgumentError(f"{self} has {entries} entries, but the step {list(self.ranges[-1])} ends after them")

    def __str__(self) -> str:
        """Return ``file`` or ``file:tree``."""
        return self.path if self.tree is None else f"{self.path}:{self.tree}"

    @property
    def size(self) -> int | None:
        """Size of the file in bytes; None if it is unknown before the file is opened."""
        return self.stat()[0]

    def stat(self) -> tuple[int | None, int | None]:
        """Return the size in bytes and the time of the last change in nanoseconds; None for unknown values."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - a Path costs more than the call, and files are many
        except (OSError, ValueError):
            return None, None
        return found.st_size, found.st_mtime_ns

    def touched(self) -> int | None:
        """Return when the content or description of a local file was changed last, in nanoseconds; else None.

        Programs cannot set this time, except on Windows, where it is the time of the creation.
        """
        try:
            return os.stat(self.path).st_ctime_ns  # noqa: PTH116 - as above
        except (OSError, ValueError):
            return None


@dataclass(frozen=True)
class Friend:
    """Trees whose columns are added to those of a dataset, as ``name.column``.

    - Without `by`, entries are matched by number, counted across all files of both.
    - With `by` (one or two integer branches that both have), entries are matched by the values of these branches. An
      entry without a match gets None.
    - `dataset`: name of the only dataset that has this friend (None: all have it). Entries are then counted across the
      files of this dataset.
    - `names`: branches that all files of the friend have (None: not yet known).
    """

    name: str
    sources: tuple[Source, ...]
    by: tuple[str, ...] = ()
    dataset: str | None = None
    names: frozenset[str] | None = None

    def is_of(self, source: Source) -> bool:
        """Return whether a file has this friend."""
        return self.dataset is None or self.dataset == source.dataset


First = tuple[int, int]
"""The number of the first entry of a file, counted across all files, and across the files of its dataset."""


@dataclass(frozen=True)
class Chosen:
    """The selected entries.

    - `numbers`: entry numbers counted across the files of a dataset, by its name (None: across all files), ascending.
    - `of_files`: entry numbers in each file, ascending.
    - `datasets`: names of the datasets that the selection applies to (None: all). A file of these without selected
      entries is not read. Of other datasets all entries are read.
    - `trees`: paths of the trees that the entries belong to, for files that are given without the path of the tree.
    """

    numbers: Mapping[str | None, Array] = field(default_factory=dict[str | None, "Array"])
    of_files: Mapping[Source, Array] = field(default_factory=dict["Source", "Array"])
    datasets: frozenset[str | None] = frozenset([None])
    trees: Mapping[Source, str] = field(default_factory=dict["Source", str])

    def counts(self, source: Source) -> bool:
        """Return whether the entries of this file are selected by numbers that are counted across files."""
        return self._of(source) in self.numbers

    def of(self, source: Source, first: First, entries: int) -> Array | None:
        """Return the selected entries of a file, by number in the file (None: all); `first` is its first entry."""
        of = self._of(source)
        if of not in self.datasets:
            return None
        numbers = self.numbers.get(of)
        if numbers is None:
            found = self.of_files.get(source, _NONE)
            if len(found) and found[-1] >= entries:
                raise ArgumentError(f"the entry list has entry {found[-1]} of {source}, which has {entries}")
            return found
        begin = first[of is not None]
        start, stop = np.searchsorted(numbers, [begin, begin + entries])
        return numbers[start:stop] - begin

    def beside(self, other: Chosen) -> Chosen:
        """Return this selection combined with that of another dataset."""
        return Chosen(
            {**self.numbers, **other.numbers},
            {**self.of_files, **other.of_files},
            self.datasets | other.datasets,
            {**self.trees, **other.trees},
        )

    def check(self, source: Source, tree: str) -> None:
        """Compare the path of the only tree of a file with the one that the entries belong to.

        Raises
        ------
        ArgumentError
            They differ.
        """
        recorded = self.trees.get(source)
        if recorded is not None and not _is_of_tree(recorded, tree):
            raise ArgumentError(f"the entry list has entries of tree {recorded} of {source}, which has only {tree}")

    def _of(self, source: Source) -> str | None:
        return None if None in self.datasets else source.dataset


_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Dataset:
    """The files of a run, in the order in which their results are joined.

    `metadata` is the metadata of descriptions, by the name of the dataset. `chosen` is the selection of entries (None:
    all).
    """

    sources: tuple[Source, ...]
    metadata: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    friends: tuple[Friend, ...] = ()
    chosen: Chosen | None = None

    @staticmethod
    def of(
        inputs: Foreign,
        tree: str | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        allow_missing: bool = False,
    ) -> Dataset:
        """Find the files of `inputs`.

        Parameters
        ----------
        inputs
            One input or several. An input is:

            - a file or URL, or ``file.root:path/of/tree``;
            - a pattern with ``*``, ``?`` and ``**``;
            - a directory: all ``*.root`` files in it and below, except hidden ones (names that begin with a dot);
            - a text file ``list.txt`` or ``@list`` with one input per line. ``#`` starts a comment; paths are relative
              to the list's own folder;
            - a description (``.json``, ``.yaml``);
            - a dictionary: a description, a fileset of coffea, or trees by files.

            Files of a pattern or directory are sorted by name. All other inputs keep their order.
        tree
            Path of the tree inside files given without one.
        options
            Options of `sapwood.open` for remote files; those of the column cache apply to all files. They override the
            options of descriptions.
        allow_missing
            Keep files that do not exist; the error is then raised when they are read.

        Raises
        ------
        ArgumentError
            If there are no inputs, a pattern or directory has no file, or the same tree would be read twice.
        MissingFileError
            If a file, directory or list does not exist.
        """
        if isinstance(inputs, Dataset):
            return inputs
        found = _Found(tree, _options(options, "the data set"), allow_missing)
        given = [inputs] if isinstance(inputs, (str, Path, Mapping)) else list(inputs)
        for item in given:
            found.take(item, Path())
        if not found.sources:
            raise ArgumentError("no input files")
        _check_once(found.sources)
        found.check_names()
        dataset = Dataset(tuple(found.sources), found.metadata, _apart(found.friends))
        for name, entries in found.entry_lists.items():
            chosen = dataset._choose(entries, name)
            dataset = replace(dataset, chosen=chosen if dataset.chosen is None else dataset.chosen.beside(chosen))
        return dataset

    def with_friend(self, name: str, inputs: Foreign, tree: str | None = None, by: str | Sequence[str] = ()) -> Dataset:
        """Return the dataset with one more friend (see `Friend`); `inputs` and `tree` as in `of`."""
        keys = (by,) if isinstance(by, str) else tuple(by)
        return replace(self, friends=_apart([*self.friends, Friend(name, Dataset.of(inputs, tree).sources, keys)]))

    def with_entries(self, entries: Foreign) -> Dataset:
        """Return the dataset with only these entries.

        Parameters
        ----------
        entries
            Entry numbers, counted across all files, in any order; a boolean mask if the number of entries of all files
            is known from descriptions; or an entry list of ROOT: a `TEventList`, a `TEntryList`, or
            ``"file.root:name"`` of one. The parts of a `TEntryList` are matched to files by the path of the tree and
            the path of the file, or its name if the path does not match. Files without a part have no entries. Parts
            without a file are left out with a warning.

        Raises
        ------
        ArgumentError
            The list is empty, has negative entries, matches none of the files, or a part may belong to several files.
        ArgumentTypeError
            It is not a list of whole numbers, or a mask for files with an unknown number of entries.
        """
        return replace(self, chosen=self._choose(entries, None))

    def _choose(self, entries: Foreign, dataset: str | None) -> Chosen:
        """Find the entries of a list, for the files of a dataset (None: all files)."""
        which = "the entry list"
        if isinstance(entries, (str, Path)):
            which, entries = f"entry list {entries}", _read_list(str(entries))
        of = frozenset([dataset])
        sources = [source for source in self.sources if dataset in (None, source.dataset)]
        if hasattr(entries, "parts"):
            numbers, parts = _by_file(entries, sources)
            of_files = {source: part.entries for source, part in parts.items()}
            trees = {source: _plain(part.tree_name) for source, part in parts.items() if source.tree is None}
            chosen = Chosen({} if numbers is None else {dataset: numbers}, of_files, of, trees)
        else:
            known = [source.entries for source in sources if source.entries is not None]
            length = sum(known) if len(known) == len(sources) else None
            numbers = _entry_numbers(getattr(entries, "entries", entries), which, length)
            chosen = Chosen({dataset: numbers}, datasets=of)
        if not any(map(len, [*chosen.of_files.values(), *chosen.numbers.values()])):
            raise ArgumentError(f"{which} has no entries")
        return chosen

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self.sources)

    @cached_property
    def bytes(self) -> int:
        """Sum of the known file sizes, in bytes."""
        return sum(source.size or 0 for source in self.sources)


def _check_once(sources: Iterable[Source]) -> None:
    """Check that no tree of a file is given twice. Cycles of a tree count as one; no name means the only tree."""
    trees: dict[str, set[str | None]] = {}
    for source in sources:
        known = trees.setdefault(_real(source.path), set())
        name = None if source.tree is None else source.tree.strip("/").partition(";")[0]
        if name in known or (known and (name is None or None in known)):
            raise ArgumentError(f"{source} is given twice; its entries would be counted twice")
        known.add(name)


def _apart(friends: Sequence[Friend]) -> tuple[Friend, ...]:
    """Check that no file has two friends with the same name."""
    for place, friend in enumerate(friends):
        for other in friends[:place]:
            if friend.name == other.name and (
                friend.dataset == other.dataset or None in (friend.dataset, other.dataset)
            ):
                raise ArgumentError(f"two friends are called {friend.name!r}; give each its own name")
    return tuple(friends)


class _Found:
    """The files, metadata, friends and entry lists of the inputs so far."""

    def __init__(self, tree: str | None, options: Mapping[str, Any], allow_missing: bool) -> None:
        self.tree = tree
        self.options = options
        self.allow_missing = allow_missing
        self.sources: list[Source] = []
        self.metadata: dict[str, Mapping[str, Any]] = {}
        self.friends: list[Friend] = []
        self.names: Counter[str] = Counter()  # of datasets
        self.alone = False  # whether files are given without a description
        self.entry_lists: dict[str, Any] = {}  # by dataset

    def take(self, item: Foreign, folder: Path) -> None:
        if isinstance(item, Mapping):
            self._describe(item, folder, "the description")
            return
        text = str(item)
        name, tree = split_path(text)
        if tree is None and Path(name).suffix in _DESCRIPTIONS:
            place = Path(name) if is_url(name) else folder / name
            self._describe(_load(place), place.parent, str(place))
            return
        self.alone = True
        for path, own in _expand(text, folder, self.options, self.allow_missing):
            self.sources.append(Source(path, own or self.tree, options=self.options))

    def check_names(self) -> None:
        """Check that datasets with metadata, friends or an entry list have unique names."""
        said = [*self.metadata, *(friend.dataset or "" for friend in self.friends), *self.entry_lists]
        what = "metadata, friends or an entry list"
        for name in said:
            if self.names[name] > 1 and name:
                raise ArgumentError(f"two data sets with {what} are called {name!r}; give each its own name")
            if not name and self.names[name] + self.alone > 1:
                raise ArgumentError(f"a data set with {what} needs a name, because others have none")

    def _describe(self, described: Mapping[str, Any], folder: Path, place: str) -> None:
        """Add one description (it has ``files``), or several by name (a fileset of coffea)."""
        if "files" in described:
            self._one(str(described.get("name", "")), described, folder, place)
            return
        if not described:
            raise ArgumentError(f"{place} names no files")
        if words := [key for key in described if key in _OF_SETS]:
            raise ArgumentError(f"{place} has {words[0]!r}, but no 'files'")
        for name, value in described.items():
            if str(name).endswith(".root") and isinstance(value, (str, type(None))):  # a tree of a file, as in uproot
                self.alone = True
                self.sources += [
                    Source(path, own or value or self.tree)
                    for path, own in _expand(str(name), folder, {}, self.allow_missing)
                ]
                continue
            self._one(str(name), value if isinstance(value, Mapping) and "files" in value else {"files": value},
                      folder, place)  # fmt: skip

    def _one(self, name: str, described: Mapping[str, Any], folder: Path, place: str) -> None:
        place = f"{place}: data set {name!r}" if name else place
        _check_words(described, _OF_SETS, place)
        self.names[name] += 1
        tree = _text(described.get("tree") or described.get("treename"), f"{place}: tree") or self.tree
        options = {**_options(described.get("options"), place), **self.options}
        prefixes = [_near(text, folder) for text in _texts(described.get("replicas"), f"{place}: replicas")]
        if described.get("metadata"):
            self.metadata[name] = _metadata(described["metadata"], place)
        files = described["files"]
        if isinstance(files, Mapping):
            files = [{**_of_fileset(value), "path": str(path)} for path, value in files.items()]
        elif isinstance(files, (str, Path)):
            files = [files]
        for item in _list(files, f"{place}: files"):
            item = {"path": str(item)} if isinstance(item, (str, Path)) else item  # noqa: PLW2901 - the same in full
            self._file(item, name, tree, prefixes, options, folder, place)
        for friend in _list(described.get("friends") or (), f"{place}: friends"):
            self._friend(friend, name, folder, place)
        if (entries := described.get("entry_list")) is not None:
            self.entry_lists[name] = _near(entries, folder) if isinstance(entries, str) else entries

    def _friend(self, friend: Foreign, dataset: str, folder: Path, place: str) -> None:
        _check_words(friend, _OF_FRIENDS, f"{place}: a friend")
        name = _text(friend.get("name"), f"{place}: name of a friend")
        if not name or "files" not in friend:
            raise ArgumentError(f"{place}: a friend needs a name and files: {dict(friend)}")
        options = {**_options(friend.get("options"), place), **self.options}
        inner = _Found(_text(friend.get("tree"), f"{place}: tree of friend {name}"), options, allow_missing=False)
        for item in _texts(friend["files"], f"{place}: files of friend {name}"):
            inner.take(item, folder)
        by = _texts(friend.get("by"), f"{place}: by of friend {name}")
        self.friends.append(Friend(name, tuple(inner.sources), tuple(by), dataset))

    def _file(
        self,
        item: Mapping[str, Any],
        name: str,
        tree: str | None,
        prefixes: Sequence[str],
        options: Mapping[str, Any],
        folder: Path,
        place: str,
    ) -> None:
        _check_words(item, _OF_FILES, f"{place}: a file")
        text = _text(item.get("path"), f"{place}: path of a file")
        if text is None:
            raise ArgumentError(f"{place}: a file without a path: {dict(item)}")
        place = f"{place}: {text}"
        if item.get("format") not in (None, "root"):
            raise ArgumentError(f"{place}: its format is {item['format']!r}; only 'root' can be read")
        ranges = None if item.get("steps") is None else _ranges(item["steps"], place)
        others = [_near(text, folder) for text in _texts(item.get("replicas"), place)]
        own_tree = _text(item.get("object_path") or item.get("tree"), f"{place}: tree")
        try:
            entries = None if item.get("num_entries") is None else _whole(item["num_entries"])
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"{place}: num_entries must be a whole number, not {item['num_entries']!r}") from error
        try:
            found = list(_expand(text, folder, options, self.allow_missing))
        except MissingFileError:
            if not (others or prefixes) or text.startswith("@"):
                raise
            found = [split_path(str(folder / text))]  # the file has replicas
        uuid = None if item.get("uuid") is None else str(item["uuid"])
        for path, own in found:
            replicas = (*others, *(f"{p.rstrip('/')}/{Path(path).name}" for p in prefixes))
            self.sources.append(Source(path, own_tree or own or tree, name, replicas, ranges, uuid, entries, options))


_OF_COFFEA = ("format", "form", "saved_form", "compressed_form", "did", "lfn", "pfn")  # other keys of its filesets
_OF_SETS = (
    *("name", "files", "tree", "treename", "replicas", "metadata", "friends", "entry_list", "options"),
    *_OF_COFFEA,
)
_OF_FILES = ("path", "tree", "object_path", "steps", "replicas", "uuid", "num_entries", *_OF_COFFEA)
_OF_FRIENDS = ("name", "files", "tree", "by", "options")


def _options(given: Foreign, place: str) -> Mapping[str, Any]:
    """Return options of `sapwood.open` for remote files; `replicas` and `object_cache` are errors."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or {"replicas", "object_cache"} & given.keys():
        raise ArgumentError(f"{place}: expected options of sapwood.open, without 'replicas' and 'object_cache'")
    return {str(name): value for name, value in given.items()}


def _check_words(given: Foreign, known: Sequence[str], place: str) -> None:
    """Check that a part of a description has only known keys."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{place}: {given!r} is not a dictionary")
    if unknown := [key for key in given if key not in known]:
        words = ", ".join(sorted(set(known).difference(_OF_COFFEA)))
        raise ArgumentError(f"{place} has the unknown key {unknown[0]!r}; choose from {words}")


def _metadata(given: Foreign, place: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ArgumentError(f"{place}: metadata must be a dictionary, not {given!r}")
    light = given.get("luminosity")
    if light is not None and (isinstance(light, bool) or not isinstance(light, (int, float))):
        raise ArgumentError(f"{place}: luminosity must be a number, not {light!r}")
    return given


def _near(text: str, folder: Path) -> str:
    """Return a path relative to a folder; a URL stays as it is."""
    return text if is_url(text) else str(folder / text)


def _list(value: Foreign, place: str) -> list[Any]:
    if isinstance(value, Iterable) and not isinstance(value, (str, Mapping)):
        return list(value)
    raise ArgumentError(f"{place}: {value!r} is not a list")


def _whole(value: Foreign) -> int:
    """Return a whole number; reject strings, booleans and numbers with a fraction."""
    number = int(value)
    if isinstance(value, (str, bool)) or number != value:
        raise ValueError(value)
    return number


def _ranges(steps: Foreign, place: str) -> tuple[tuple[int, int], ...]:
    """Return sorted ranges of entries."""
    try:
        ranges = sorted((_whole(start), _whole(stop)) for start, stop in steps)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{place}: steps are not pairs of entries: {steps!r}") from error
    for start, stop in ranges:
        if not 0 <= start <= stop:
            raise ArgumentError(f"{place}: [{start}, {stop}] is not a range of entries")
    for one, other in pairwise(ranges):
        if other[0] < one[1]:
            raise ArgumentError(f"{place}: the steps {list(one)} and {list(other)} overlap")
    return tuple(ranges)


def _read_list(where: str) -> TEntryList | TEventList:
    """Read an entry list, given as ``file.root:name``."""
    import sapwood

    path, name = split_path(where)
    if name is None:
        raise ArgumentError(f"entry list {where!r} is not of the form FILE.root:NAME")
    with sapwood.open({path: None}) as file:
        found: Any = file[name]
    if getattr(found, "classname", "") not in ("TEntryList", "TEntryListArray", "TEventList"):
        raise ArgumentError(f"{where} is not an entry list")
    return found


def _by_file(entries: TEntryList, sources: Sequence[Source]) -> tuple[Array | None, dict[Source, TEntryList]]:
    """Return the parts of an entry list by file, or the entry numbers of a list that counts across all files.

    A part and a file match if their paths do. The others are compared by file name: files may have been moved.
    """
    parts = entries.parts
    if len(parts) == 1 and not parts[0].file_name:  # filled by hand: counted across all files
        return parts[0].entries, {}
    found: dict[Source, TEntryList] = {}
    left = list(parts)
    for names_of in (_paths, _filenames):
        named: dict[str, list[TEntryList]] = {}
        for part in left:
            for name in names_of(part.file_name):
                named.setdefault(name, []).append(part)
        owners: dict[int, Source] = {}
        for source in sources:
            if source in found:
                continue
            each = {id(part): part for name in names_of(source.path) for part in named.get(name, ())}
            same = [part for part in each.values() if _is_of_tree(part.tree_name, source.tree)]
            if len(same) > 1:
                names = " and ".join(map(_name_of_part, same[:2]))
                raise ArgumentError(f"entry list {entries.name} has several parts that may belong to {source}: {names}")
            for part in same:
                if (other := owners.setdefault(id(part), source)) is not source:
                    name = f"the part {_name_of_part(part)} of entry list {entries.name}"
                    raise ArgumentError(f"{name} may belong to {other} or to {source}")
                found[source] = part
        left = [part for part in left if id(part) not in owners]
    if not found:
        raise ArgumentError(f"entry list {entries.name} belongs to none of these files, but to {parts[0].file_name}")
    if lost := [part for part in left if len(part.entries)]:
        count = sum(len(part.entries) for part in lost)
        which = f"{counted(len(lost), 'part')}, such as {_name_of_part(lost[0])}"
        warnings.warn(
            f"{counted(count, 'entry')} of entry list {entries.name} left out: {which}, match none of the files",
            SapwoodWarning,
            stacklevel=stacklevel(),
        )
    return None, found


def _name_of_part(part: TEntryList) -> str:
    return f"{part.file_name}:{part.tree_name}"


def _paths(path: str) -> set[str]:
    """Return the full path of a file, and that of a URL as an entry list has it: without protocol and server."""
    return {urlsplit(path).path[1:]} if is_url(path) else {path, os.path.realpath(path)}


def _filenames(path: str) -> set[str]:
    return {_basename(urlsplit(path).path if is_url(path) else path)}


def _plain(tree: str) -> str:
    """Return the path of a tree without cycles."""
    return "/".join(name.partition(";")[0] for name in tree.strip("/").split("/"))


def _is_of_tree(recorded: str, tree: str | None) -> bool:
    """Return whether a part of an entry list belongs to a tree (None: to any). Of its directories it has the last."""
    return tree is None or _plain(recorded) in (_plain(tree), "/".join(_plain(tree).split("/")[-2:]))


def _entry_numbers(given: Foreign, which: str, entries: int | None) -> Array:
    """Return entry numbers as 64-bit integers, ascending and each once.

    Parameters
    ----------
    given
        A one-dimensional sequence of whole numbers, or a boolean mask.
    which
        Description of the list, for messages.
    entries
        Length of a mask; None if it is unknown.
    """
    wrong = f"{which} is not a list of entry numbers: {shorten(repr(given), 60, placeholder='...')}"
    try:
        if np.ma.is_masked(given) or (isinstance(given, (list, tuple)) and len(set(map(_is_boolean, given))) > 1):
            raise ValueError(given)
        found = np.asarray(given)
        if found.ndim != 1:
            raise ValueError(given)
        if found.dtype == np.bool_:
            return np.flatnonzero(_mask(found, which, entries))
        if not len(found):
            return _NONE
        numbers = np.unique(found)
        if found.dtype.kind not in "iuf" or (
            found.dtype.kind == "f" and not np.array_equal(numbers, np.floor(numbers))
        ):
            raise ValueError(given)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ArgumentError):
            raise
        raise ArgumentTypeError(wrong) from None
    for number in (numbers[0], numbers[-1]):
        if not 0 <= number < 1 << 63:
            raise ArgumentError(f"{which} has entry {number}")
    return numbers.astype(np.int64)


def _is_boolean(value: object) -> bool:
    return isinstance(value, (bool, np.bool_))


def _mask(mask: Array, which: str, entries: int | None) -> Array:
    if entries is None:
        raise ArgumentTypeError(
            f"{which} is a boolean mask, but the number of entries is not known before the files are opened: "
            "give the entry numbers, numpy.flatnonzero(mask)"
        )
    if len(mask) != entries:
        raise ArgumentError(f"{which} is a boolean mask of {len(mask)} entries, but the files have {entries}")
    return mask


def _real(path: str) -> str:
    return path if is_url(path) else os.path.realpath(path)


def _basename(path: str) -> str:
    return path.rpartition("/")[2]


_DESCRIPTIONS = {".json", ".yaml", ".yml"}


def _of_fileset(value: Foreign) -> dict[str, Any]:
    """Return a file's entry in a fileset of coffea (the path of the tree, or a dictionary) as a dictionary."""
    return dict(value) if isinstance(value, Mapping) else {"tree": value}


def _text(value: Foreign, place: str) -> str | None:
    if value is None or isinstance(value, (str, Path)):
        return None if value is None else str(value)
    raise ArgumentError(f"{place}: {value!r} is not a string")


def _texts(value: Foreign, place: str) -> list[str]:
    if value is None:
        return []
    if isinstance(value, (str, Path)):
        return [str(value)]
    if isinstance(value, Sequence) and all(isinstance(item, (str, Path)) for item in value):
        return [str(item) for item in value]
    raise ArgumentError(f"{place}: {value!r} is not a string or a list of strings")


def _load(path: Path) -> Mapping[str, Any]:
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFileError(f"description {path} cannot be read: {error}") from error
    described = parse_settings(text, path)
    if not isinstance(described, Mapping):
        raise ArgumentError(f"{path} is not a description: it has no names")
    return described


def parse_settings(text: str, path: Path) -> Foreign:
    """Parse JSON if the file's suffix is ``.json``, else YAML.

    Raises
    ------
    ArgumentError
        The text is invalid, or PyYAML is not installed.
    """
    try:
        if path.suffix == ".json":
            return json.loads(text)
        import yaml

        return yaml.safe_load(text)
    except ImportError as error:
        raise MissingPackageError(f"{path}: YAML needs PyYAML (pip install pyyaml); JSON works without") from error
    except Exception as error:  # parsers raise many types
        raise ArgumentError(f"{path} cannot be parsed: {one_line(error)}") from error


def _local(text: str) -> str:
    """Return the path of a local URL (``file:///...``); other strings unchanged."""
    return text if "::" in text else re.sub(r"^(file|local)://", "", text, flags=re.IGNORECASE)


def _split(text: str) -> tuple[str, str | None]:
    """Split ``file.root:path/of/tree`` into the file and the path inside it (None if absent)."""
    return (text, None) if Path(text).exists() else split_path(text)


def _expand(
    text: str, folder: Path, options: Mapping[str, Any], allow_missing: bool
) -> Iterator[tuple[str, str | None]]:
    text = _local(text)
    if text.startswith("@"):
        yield from _listed(folder / text[1:], options, allow_missing)
        return
    name, tree = _split(text if is_url(text) else str(folder / text))
    path = Path(name)
    if is_url(name):
        found = matches(name, options)
        if not found:
            raise ArgumentError(f"no file matches {name}")
        yield from ((file, tree) for file in found)
    elif path.is_dir():
        inside = sorted(file for file in path.rglob("*.root") if _is_input(file) and not _is_hidden(file, path))
        if not inside:
            raise ArgumentError(f"directory {name} has no *.root files")
        yield from ((str(file), tree) for file in inside)
    elif path.is_file():
        yield from _listed(path, options, allow_missing) if path.suffix == ".txt" and tree is None else [(name, tree)]
    elif glob.has_magic(name):
        matching = sorted(file for file in glob.glob(name, recursive=True) if _is_input(Path(file)))  # noqa: PTH207 - absolute patterns
        if not matching:
            raise ArgumentError(f"no file matches {name}")
        yield from ((file, tree) for file in matching)
    elif allow_missing and path.suffix != ".txt":
        yield name, tree
    else:
        raise MissingFileError(f"no such file: {name}")


def _listed(path: Path, options: Mapping[str, Any], allow_missing: bool) -> Iterator[tuple[str, str | None]]:
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFileError(f"list of files {path} cannot be read: {error}") from error
    for line in lines:
        if text := line.partition("#")[0].strip():
            yield from _expand(text, path.parent, options, allow_missing)


def _is_input(path: Path) -> bool:
    """Return whether a path is a file or a broken link; a broken link is listed and reported as missing later."""
    return path.is_file() or (path.is_symlink() and not path.exists())


def _is_hidden(path: Path, folder: Path) -> bool:
    """Return whether a path in a folder is hidden, as the partial outputs of a killed run are."""
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


def step_bounds(
    offsets: Iterable[int], entries_per_step: int, entry_stop: int, where: str = "the tree"
) -> list[tuple[int, int]]:
    """Divide the entries of a tree into steps that follow its clusters.

    Parameters
    ----------
    offsets
        First entry of every cluster and the end of the last, ascending, starting with 0.
    entries_per_step
        Maximum length of a step. Clusters that fit are combined; a longer cluster is cut into equal parts.
    entry_stop
        End of the last step.
    where
        Description of the tree, for messages.

    Returns
    -------
    list[tuple[int, int]]
        First entry and end of every step.

    Raises
    ------
    LimitError
        There are more than `MOST_STEPS`.
    """
    bounds = [offset for offset in offsets if offset < entry_stop] + [entry_stop]
    return listed(_step_bounds(bounds, entries_per_step), where)


def _step_bounds(bounds: Sequence[int], entries_per_step: int) -> Iterator[tuple[int, int]]:
    start = 0
    for cluster_start, cluster_stop in pairwise(bounds):
        if cluster_stop - start <= entries_per_step:
            continue
        if cluster_start > start:
            yield start, cluster_start
            start = cluster_start
        length = cluster_stop - start
        if length > entries_per_step:
            parts = -(-length // entries_per_step)
            yield from pairwise(cluster_start + length * part // parts for part in range(parts + 1))
            start = cluster_stop
    if start < bounds[-1]:
        yield start, bounds[-1]


def find_tree(file: Foreign, source: Source) -> tuple[Any, str]:
    """Return the tree of a file and its path inside it.

    Raises
    ------
    NotFoundError
        If the file has no tree with this name, or no tree at all.
    ArgumentError
        If the file has several trees and the source names none, or the named object is not a tree.
    """
    if source.tree is not None:
        found = file[source.tree]
        if not hasattr(found, "num_entries"):
            raise ArgumentError(f"{source} is not a tree")
        return found, source.tree
    names = sorted({key.rpartition(";")[0] for key, kind in file.classnames().items() if kind in TABLES})
    if not names:
        raise NotFoundError(f"{source.path} has no tree")
    if len(names) > 1:
        raise ArgumentError(f"{source.path} has several trees; name one in the form FILE:TREE: {', '.join(names)}")
    return file[names[0]], names[0]
