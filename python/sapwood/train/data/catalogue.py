"""The catalogue: metadata of the trees of a dataset in one SQLite file, with which planning opens no files."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood import columns
from sapwood.errors import CorruptError, StorageError, one_line, without_secrets
from sapwood.files.file import open  # noqa: A004
from sapwood.storage.sources import FOR_ANY_FILE
from sapwood.train.data.dataset import Source, find_tree, is_url

if TYPE_CHECKING:
    from sapwood.columns import Array

VERSION = 1


@dataclass(frozen=True)
class Schema:
    """The branches of a tree: their paths, depth first, and types as Awkward writes them ("" for groups)."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """A string that is the same for the same branches."""
        return hashlib.sha256(json.dumps([self.names, self.types]).encode()).hexdigest()[:32]

    @cached_property
    def _places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for place in sorted(range(len(self.names)), key=lambda place: self.names[place].count("/")):
            name = self.names[place]
            places.setdefault(name, place)
            places.setdefault(name.rpartition("/")[2], place)
        return places

    @cached_property
    def _below(self) -> dict[int, list[int]]:
        """For each branch with branches below it, the places of these at any depth."""
        below: dict[int, list[int]] = {}
        places = {name: place for place, name in enumerate(self.names)}
        for place, name in enumerate(self.names):
            while "/" in name:
                name = name.rpartition("/")[0]  # noqa: PLW2901 - its parents, one by one
                if name in places:
                    below.setdefault(places[name], []).append(place)
        return below

    def __contains__(self, where: object) -> bool:
        """Return whether there is a branch with this path or name."""
        return where in self._places

    @property
    def all_names(self) -> frozenset[str]:
        """All paths and names of branches."""
        return frozenset(self._places)

    def is_group(self, name: str) -> bool:
        """Return whether a branch is a split object."""
        return self._places[name] in self._below

    def keys(self) -> list[str]:
        """Return the paths of all branches."""
        return list(self.names)

    def type_of(self, name: str) -> str:
        """Return the type of a branch; for a split object, the types of its members."""
        place = self._places[name]
        if place not in self._below:
            return self.types[place]
        start = len(self.names[place]) + 1
        members = (f"{self.names[inner][start:]}: {self.types[inner] or '{}'}" for inner in self._below[place])
        return f"{{{', '.join(members)}}}"

    def leaves(self, names: Iterable[str]) -> list[int]:
        """Return the places of branches, and of all branches below them."""
        found: dict[int, None] = {}
        for name in names:
            place = self._places[name]
            found.update(dict.fromkeys([place, *self._below.get(place, [])]))
        return list(found)


@dataclass(frozen=True)
class TreeInfo:
    """Metadata of one tree in one file, as needed for planning.

    - `uuid`, `size` (bytes), `modified` (nanoseconds): identify the file.
    - `clusters`: the first entry of each cluster, and the end of the last.
    - `bytes`, `stored`: sizes of all baskets of each branch, before compression and in the file.
    """

    uuid: str
    size: int | None
    modified: int | None
    tree: str
    entries: int
    clusters: Array
    schema: Schema
    bytes: Array
    stored: Array

    def fresh(self, source: Source) -> bool:
        """Return whether size and time of the file are unchanged.

        True if both are unknown, as for remote files: these are checked when they are opened. Files without entries are
        not opened later, and may have some by now.
        """
        size, modified = source.stat()
        return self.entries > 0 and (size is None or (size, modified) == (self.size, self.modified))


_LAST: list[tuple[Any, Schema]] = []  # the last tree and its schema: files of a dataset usually have the same


def look(source: Source, keep: Callable[[TreeInfo, Any, Any], bool] | None = None) -> TreeInfo:
    """Open a file and return the metadata of its tree; no data are read.

    `keep` receives the file and its tree, and returns whether it keeps them open; otherwise the file is closed.
    """
    size, modified = source.stat()
    file, kept = open_source(source), False
    try:
        tree, name = find_tree(file, source)
        known = _LAST[0] if _LAST else None
        if known is not None and known[0].same_shape(tree):
            schema = known[1]
        else:
            kinds = [None if field.is_group else field.type for field in tree.every_field]
            schema = Schema(
                tuple(field.path_in(tree) for field in tree.every_field),
                tuple("" if kind is None else columns.describe(kind) for kind in kinds),
            )
            _LAST[:] = [(tree, schema)]
        info = TreeInfo(
            file.file.hex_uuid, size, modified, name, tree.num_entries, np.asarray(tree.clusters, dtype=np.int64),
            schema, *(np.asarray(sizes, dtype=np.int64) for sizes in tree.field_bytes()),
        )  # fmt: skip
        kept = keep is not None and keep(info, file, tree)
        return info
    finally:
        if not kept:
            file.close()


def open_source(source: Source) -> Any:
    """Open the file of a source, or the first of its replicas that can be opened."""
    failures: list[StorageError | CorruptError] = []
    for path in (source.path, *source.replicas):
        options = {name: one for name, one in source.options.items() if name in FOR_ANY_FILE or is_url(path)}
        try:
            return open({path: None}, object_cache=None, **options)
        except (StorageError, CorruptError) as error:
            failures.append(error)
    if len(failures) > 1:
        raise StorageError("; ".join(one_line(error) for error in failures)) from failures[0]
    raise failures[0]


_TABLES = """
CREATE TABLE IF NOT EXISTS schema (digest TEXT PRIMARY KEY, names TEXT NOT NULL, types TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tree (
    path TEXT NOT NULL, asked TEXT NOT NULL, uuid TEXT NOT NULL, size INTEGER, modified INTEGER, tree TEXT NOT NULL,
    entries INTEGER NOT NULL, clusters BLOB NOT NULL, schema TEXT NOT NULL REFERENCES schema (digest),
    bytes BLOB NOT NULL, stored BLOB NOT NULL, PRIMARY KEY (path, asked)
) WITHOUT ROWID;
"""
_FIELDS = "path, asked, uuid, size, modified, tree, entries, clusters, schema, bytes, stored"


class Catalogue:
    """One SQLite file with a row for each tree of each file (see `TreeInfo`), and one for each set of branches.

    The keys of local files are their absolute paths. Each call of `put` is one transaction: a killed process leaves an
    intact catalogue.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._schemas: dict[str, Schema] = {}
        with self._used():
            self._base = sqlite3.connect(self.path, timeout=30, check_same_thread=False)
            version = self._base.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise StorageError(f"catalogue {path} has version {version}; this version of sapwood reads {VERSION}")
            self._base.executescript(_TABLES)
            self._base.execute(f"PRAGMA user_version = {VERSION}")
            self._base.commit()

    @contextmanager
    def _used(self) -> Generator[None]:
        """Raise errors of SQLite as `StorageError`."""
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise StorageError(f"catalogue {self.path} cannot be used: {error}") from error

    def find(self, sources: Sequence[Source]) -> dict[Source, TreeInfo]:
        """Return the metadata of sources that is still up to date (see `TreeInfo.fresh`).

        Raises
        ------
        StorageError
            The catalogue cannot be read, or is damaged.
        """
        found: dict[Source, TreeInfo] = {}
        with self._lock, self._used():
            if len(sources) > 500:  # reading the whole table is faster than single queries
                rows = {(row[0], row[1]): row for row in self._base.execute(f"SELECT {_FIELDS} FROM tree")}
            else:
                ask = f"SELECT {_FIELDS} FROM tree WHERE path = ? AND asked = ?"
                rows = {key: row for key in map(_key, sources) for row in self._base.execute(ask, key)}
            for source in sources:
                row = rows.get(_key(source))
                if row is not None and (info := self._info(row)).fresh(source):
                    found[source] = info
        return found

    def put(self, known: Mapping[Source, TreeInfo]) -> None:
        """Store metadata of trees; it replaces earlier metadata of the same trees.

        Raises
        ------
        StorageError
            The catalogue cannot be written.
        """
        with self._lock, self._used(), self._base:
            for source, info in known.items():
                schema = info.schema
                self._base.execute(
                    "INSERT OR IGNORE INTO schema VALUES (?, ?, ?)",
                    (schema.digest, json.dumps(schema.names), json.dumps(schema.types)),
                )
                self._base.execute(
                    f"INSERT OR REPLACE INTO tree ({_FIELDS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        *_key(source), info.uuid, info.size, info.modified, info.tree, info.entries,
                        info.clusters.tobytes(), schema.digest, info.bytes.tobytes(), info.stored.tobytes(),
                    ),
                )  # fmt: skip

    def __len__(self) -> int:
        """Return the number of trees."""
        with self._lock, self._used():
            return int(self._base.execute("SELECT count(*) FROM tree").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _info(self, row: tuple[Any, ...]) -> TreeInfo:
        """Return the metadata of a row.

        Raises
        ------
        StorageError
            The row is damaged: SQLite has no checksums.
        """
        path, _, uuid, size, modified, tree, entries, clusters, digest, sizes, stored = row
        try:
            info = TreeInfo(
                uuid, size, modified, tree, entries, np.frombuffer(clusters, np.int64), self._schema(digest),
                np.frombuffer(sizes, np.int64), np.frombuffer(stored, np.int64),
            )  # fmt: skip
            if not _is_sound(info):
                raise ValueError("its numbers contradict each other")
        except (ValueError, TypeError, RecursionError) as error:
            raise StorageError(
                f"catalogue {self.path} is damaged in its row of {path!r}: {one_line(error)}. Remove it: the next run "
                "makes another"
            ) from error
        return info

    def _schema(self, digest: str) -> Schema:
        if digest not in self._schemas:
            row = self._base.execute("SELECT names, types FROM schema WHERE digest = ?", (digest,)).fetchone()
            names, types = row or ("[]", "[]")
            schema = Schema(tuple(json.loads(names)), tuple(json.loads(types)))
            if schema.digest != digest:
                raise ValueError("its branches do not have the digest by which they were stored")
            self._schemas[digest] = schema
        return self._schemas[digest]


def _is_sound(info: TreeInfo) -> bool:
    """Return whether the numbers of a row have the right types and agree."""
    types: list[tuple[object, type | tuple[type, ...]]] = [
        (info.uuid, str), (info.tree, str), (info.entries, int),
        (info.size, (int, type(None))), (info.modified, (int, type(None))),
    ]  # fmt: skip
    if not all(isinstance(value, kind) for value, kind in types):
        return False
    borders, count = info.clusters, len(info.schema.names)
    if not len(borders) or (borders[0], borders[-1]) != (0, info.entries) or np.any(np.diff(borders) < 0):
        return False
    return all(len(sizes) == count and bool(np.all(sizes >= 0)) for sizes in (info.bytes, info.stored))


def _key(source: Source) -> tuple[str, str]:
    local = source.stat()[0] is not None
    # Others may read the file of a catalogue, and the token of the next run may be another.
    return str(Path(source.path).absolute()) if local else without_secrets(source.path), source.tree or ""
