"""Check a file: every record, key, basket, page, cluster and free segment, and with `deep` every value."""

from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import os
import struct
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import sapwood
from sapwood import _native
from sapwood.errors import MissingFileError, SapwoodError, SapwoodWarning, UnsupportedError, one_line
from sapwood.files.kinds import DIRECTORIES, RNTUPLES, TREES, enter, root_native
from sapwood.files.segments import segments
from sapwood.storage.checksums import write as write_beside
from sapwood.storage.locate import local_target
from sapwood.storage.sources import user_path

if TYPE_CHECKING:
    from sapwood.columns import Foreign

CODES: dict[str, tuple[str, str]] = {
    "open": ("error", "The file cannot be opened: its header is damaged."),
    "truncated": ("error", "The header gives an end that lies beyond the last byte of the file."),
    "trailing-bytes": ("info", "Bytes follow the end that the header gives; nothing reads them."),
    "not-closed": ("warning", "The file was not closed. Its key list was rebuilt from its records."),
    "checksum": ("error", "A record differs from its checksum in the file beside this one."),
    "checksums": ("info", "All records agree with the checksums in the file beside this one."),
    "checksums-unused": ("warning", "The checksums beside the file are damaged, or do not belong to it as it is now."),
    "records": ("error", "A record has a length of zero, or a length that leads past the end of the file."),
    "record-key": ("error", "The key of a record cannot be parsed, or does not fit into the record."),
    "record-place": ("error", "The offset in the key of a record is not the offset of the record."),
    "directory": ("error", "A directory or its key list cannot be read, or two keys lead to it."),
    "key-place": ("error", "A key leads past the end of the file, or to no record."),
    "key-record": ("error", "A key differs from the key of the record that it leads to."),
    "key-overlap": ("error", "Two records share bytes."),
    "free-list": ("error", "The list of free segments cannot be read."),
    "free-segment": ("error", "A free segment overlaps a record that is in use, or lies outside the file."),
    "free-mark": (
        "info",
        "A free segment does not begin with its negative length, which is read only if the key list is lost.",
    ),
    "streamer-info": ("error", "The streamer info cannot be read."),
    "streamer-info-members": ("warning", "A class of trees is described with other members than ROOT has."),
    "object": ("error", "An object cannot be decompressed or decoded (deep)."),
    "class-unknown": ("info", "An object, or a part of it, is of a class that sapwood cannot decode (deep)."),
    "tree": ("error", "The description of a tree cannot be read."),
    "branch-entries": ("error", "A branch and its tree differ in the number of entries."),
    "branch-order": ("error", "The first entries of the baskets of a branch do not increase."),
    "basket-place": ("error", "A basket lies outside the file."),
    "basket-overlap": ("error", "Two baskets share bytes."),
    "basket-name": ("info", "The baskets of a branch have another name: it was renamed after they were written."),
    "basket-header": ("error", "The record is not a basket, belongs to another branch, or has another size."),
    "basket-entries": ("error", "A basket does not have the number of entries that the tree gives for it."),
    "basket-data": ("error", "A basket cannot be decompressed (deep)."),
    "basket-offsets": ("error", "The offsets of entries in a basket do not increase, or lead out of it (deep)."),
    "tree-values": ("error", "The values of a branch cannot be decoded (deep)."),
    "cluster": ("warning", "A cluster of the tree does not end at the end of a basket of each branch."),
    "ntuple": ("error", "The anchor, header or footer of an RNTuple is damaged."),
    "ntuple-page-list": ("error", "A page list of an RNTuple is damaged, or does not fit the schema or the footer."),
    "ntuple-elements": (
        "error",
        "A column of an RNTuple has a wrong first element or number of elements in a cluster.",
    ),
    "ntuple-page-place": ("error", "A page lies outside the file or its record, shares bytes, or has too many bytes."),
    "ntuple-checksum": ("error", "The checksum of a page is wrong (deep)."),
    "ntuple-values": ("error", "The values of a field of an RNTuple cannot be decoded (deep)."),
}
"""Severity and meaning of each kind of finding."""

_HEAD = 1024
_LEAST = 16
"""Bytes up to the length of the key of a record."""
_USUAL = 4096
"""Bytes in which most keys end."""
_CHUNK = 1 << 20
_DEEP_BYTES = 32_000_000
"""Number of uncompressed bytes decoded at a time."""


@dataclass(frozen=True)
class Finding:
    """A fault or oddity in a file; `code` is one of `CODES`."""

    code: str
    path: str
    text: str
    byte: int | None = None

    @property
    def severity(self) -> str:
        """``"error"``, ``"warning"`` or ``"info"``."""
        return CODES[self.code][0]

    def line(self) -> str:
        """Return the finding as one line."""
        place = f" (byte {self.byte})" if self.byte is not None else ""
        where = f"{self.path}: " if self.path else ""
        return f"{self.severity} {self.code}: {where}{self.text}{place}"

    def described(self) -> dict[str, Any]:
        """Return the finding as a dictionary for JSON."""
        return {"severity": self.severity, **asdict(self)}


class RecordHead(NamedTuple):
    """The start of a record: offset, length (negative for a free segment), and the content of its key."""

    offset: int
    length: int
    key_bytes: int
    object_bytes: int
    place: int
    parent: int
    classname: str
    name: str
    title: str


def check(path: str, *, deep: bool = False, options: Mapping[str, Any] | None = None) -> Iterator[Finding]:
    """Yield the findings about a file.

    Parameters
    ----------
    path
        A path or URL.
    deep
        Decompress and decode everything.
    options
        Options of `sapwood.open`.

    Raises
    ------
    UnsupportedError
        The file is not a ROOT file.
    MissingFileError
        The file does not exist.
    """
    options = options or {}
    try:
        with quiet():
            # Records are compared with checksums one by one, so that other findings do not depend on them.
            file = sapwood.ReadOnlyFile(path, **{**options, "checksums": False}).root_directory
    except MissingFileError:
        raise
    except SapwoodError as error:
        yield Finding("open", "", one_line(error))
        return
    with file:
        yield from _checksums(path, options)
        yield from _Check(file, root_native(file), deep).run()


def _checksums(path: str, options: Mapping[str, Any]) -> Iterator[Finding]:
    """Compare all records with the checksums beside a file, if there are any."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        file = sapwood.ReadOnlyFile(path, **options)
    with file:
        for one in caught:
            if str(one.message).startswith("the checksums "):
                yield Finding("checksums-unused", "", str(one.message))
        if file.has_checksums:
            count, faults = file.native.compare_checksums()
            for byte, text in faults:
                yield Finding("checksum", "", text, byte)
            if not faults:
                yield Finding("checksums", "", f"all {count} records agree with their checksums")


def write_checksums(path: str | os.PathLike[str]) -> str:
    """Write checksums of the records of a local file beside it; return their path.

    Errors in the file are not noticed unless its records cannot be followed: `check` it first.

    Parameters
    ----------
    path
        The file.

    Raises
    ------
    CorruptError
        It is not a ROOT file, is cut off, or its records do not follow one another.
    ArgumentError
        The file is remote.
    StorageError
        The file cannot be read, or the checksums cannot be written.
    """
    return str(write_beside(user_path(local_target(path))))


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Hide warnings about damage, which findings repeat."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        yield


def parse_head(data: bytes, offset: int) -> RecordHead | None:
    """Parse the start of a record; return None if it cannot be one."""
    try:
        length, version, object_bytes, _, key_bytes = struct.unpack_from(">iHiIH", data)
        if length < 0:
            return RecordHead(offset, length, 0, 0, offset, 0, "", "", "")
        place, parent = struct.unpack_from(">QQ" if version > 1000 else ">II", data, 18)
        at = 34 if version > 1000 else 26
        texts: list[str] = []
        for _ in range(3):
            size = data[at]
            at += 1
            if size == 255:
                (size,) = struct.unpack_from(">I", data, at)
                at += 4
            if at + size > len(data):
                return None
            texts.append(data[at : at + size].decode("utf-8", "replace"))
            at += size
    except (struct.error, IndexError):
        return None
    if version % 1000 > 10 or object_bytes < 0 or key_bytes < at or key_bytes > length:
        return None
    return RecordHead(offset, length, key_bytes, object_bytes, place, parent & (1 << 48) - 1, *texts)


def head_at(native: _native.File, offset: int, end: int, known: bytes = b"") -> RecordHead | None:
    """Parse the start of the record at an offset; return None if it cannot be one.

    Parameters
    ----------
    native
        The file.
    offset, end
        Offsets of the record, and of the first byte that cannot be part of it.
    known
        Its first bytes, if they were read already. More are read if its key is longer.
    """
    data = known if len(known) >= _LEAST else native.bytes(offset, min(_USUAL, end - offset))
    if len(data) >= _LEAST and data[0] < 128:
        needed = min(int.from_bytes(data[14:16], "big"), end - offset)
        if needed > len(data):
            data = native.bytes(offset, needed)
    return parse_head(data, offset)


def records(native: _native.File, start: int, end: int) -> Iterator[RecordHead | int]:
    """Yield the records from an offset on. At the first bytes that are not a record, yield their offset and stop."""
    chunk, first = b"", 0
    at = start
    while at < end:
        if not (first <= at and at + _HEAD <= first + len(chunk)) and first + len(chunk) < end:
            first = at
            chunk = native.bytes(at, min(_CHUNK if chunk else 8 * _HEAD, end - at))
        elif not first <= at < first + len(chunk):
            first = at
            chunk = native.bytes(at, min(_CHUNK, end - at))
        head = head_at(native, at, end, chunk[at - first : at - first + _USUAL])
        if head is None or head.length == 0 or -4 < head.length < 0 or at + abs(head.length) > end:
            yield at
            return
        yield head
        at += abs(head.length)


def _not_opened(path: str, error: Exception, offset: int) -> Finding:
    """Return the finding of an RNTuple or attribute set that cannot be opened."""
    return Finding("class-unknown" if isinstance(error, UnsupportedError) else "ntuple", path, one_line(error), offset)


class _Check:
    def __init__(self, file: Foreign, native: _native.File, deep: bool) -> None:
        self._file = file
        self._native = native
        self._deep = deep
        self._end = min(native.end, native.size)
        self._heads: dict[int, RecordHead] = {}
        self._used: list[tuple[int, int, str, bool]] = []
        """Offset, end and name of the records in use, and whether each is a basket."""
        self._entered: set[int] = set()
        """Offsets of the directories."""
        self._free: dict[int, int] = {}
        """First and last byte of the free segments in the file."""

    @functools.cached_property
    def _offsets(self) -> list[int]:
        """The offsets of all records that were found, in order."""
        return sorted(self._heads)

    def run(self) -> Iterator[Finding]:
        """Yield all findings."""
        native = self._native
        if native.end > native.size:
            yield Finding("truncated", "", f"the header gives {native.end} bytes, the file has {native.size}")
        elif native.size > native.end:
            yield Finding("trailing-bytes", "", f"{native.size - native.end} bytes", native.end)
        yield from self._free_list()
        yield from self._records()
        yield from self._infos()
        try:
            root = native.directory()
        except SapwoodError as error:
            yield Finding("directory", "/", one_line(error))
            return
        if root.recovered:
            yield Finding("not-closed", "", "the key list is missing")
        yield from self._directory("", root, self._native.begin)
        yield from self._overlaps()
        yield from self._segments()

    def _records(self) -> Iterator[Finding]:
        start = self._native.begin
        while start < self._end:
            for head in records(self._native, start, self._end):
                if isinstance(head, int):
                    break
                self._heads[head.offset] = head
                if head.length > 0 and head.place != head.offset:
                    text = f"a {head.classname} {head.name} gives byte {head.place} as its place"
                    yield Finding("record-place", "", text, head.offset)
            else:
                return
            # ROOT leaves the rest of a free segment without its length when a page of an RNTuple took the start.
            if head not in self._free:
                yield Finding("records", "", "no record begins here, though others should follow", head)
                return
            start = self._free[head] + 1

    def _infos(self) -> Iterator[Finding]:
        _, _, seek, size = self._native.places()
        if seek == 0:
            return
        head = self._heads.get(seek)
        if head is not None and head.length != size:
            yield Finding("streamer-info", "", f"its record has {head.length} bytes, but the header gives {size}", seek)
        self._used.append((seek, seek + size, "the streamer info", False))
        try:
            self._native.classes()
        except SapwoodError as error:
            yield Finding("streamer-info", "", one_line(error), seek)
            return
        try:
            self._native.verify_classes()
        except SapwoodError as error:
            yield Finding("streamer-info-members", "", one_line(error), seek)

    def _directory(self, prefix: str, directory: _native.Directory, place: int) -> Iterator[Finding]:
        names: dict[str, int] = {}
        for key in directory.keys:
            path = f"{prefix}{key.name};{key.cycle}"
            names[key.name] = names.get(key.name, 0) + 1
            fault = self._key(path, key, place)
            if fault is not None:
                yield fault
                continue
            if key.classname in DIRECTORIES:
                try:
                    enter(f"{prefix}{key.name}", key.seek, self._entered)
                    inner = directory.subdirectory(key)
                except SapwoodError as error:
                    yield Finding("directory", path, one_line(error), key.seek)
                    continue
                yield from self._directory(f"{prefix}{key.name}/", inner, key.seek)
            elif key.classname in TREES:
                yield from self._tree(path, directory, key)
            elif key.classname in RNTUPLES:
                yield from self._ntuple(path, directory, key)
            elif self._deep:
                yield from self._object(path, key)

    def _key(self, path: str, key: _native.Key, directory: int) -> Finding | None:
        """Compare a key with the record that it leads to."""
        end = key.seek + key.total_bytes
        if key.seek < self._native.begin or end > self._end:
            return Finding("key-place", path, f"bytes {key.seek} to {end} of a file that ends at {self._end}")
        self._used.append((key.seek, end, path, False))
        head = self._heads.get(key.seek) or head_at(self._native, key.seek, self._end)
        if head is None or head.length < 0:
            return Finding("key-place", path, "there is no record", key.seek)
        said = (key.total_bytes, key.object_bytes, key.key_bytes, key.classname, key.name, key.seek, directory)
        found = (head.length, head.object_bytes, head.key_bytes, head.classname, head.name, head.place, head.parent)
        # Some versions of ROOT write the records of directories with another class.
        if said != found and key.classname not in DIRECTORIES:
            names = (
                "bytes",
                "bytes of the object",
                "bytes of the key",
                "class",
                "name",
                "position",
                "directory's position",
            )
            differ = [
                f"{n}: {a} in the list, {b} in the record" for n, a, b in zip(names, said, found, strict=True) if a != b
            ]
            return Finding("key-record", path, "; ".join(differ), key.seek)
        return None

    def _object(self, path: str, key: _native.Key) -> Iterator[Finding]:
        try:
            with quiet():
                one = self._file[path]
        except (UnsupportedError, NotImplementedError) as error:
            yield Finding("class-unknown", path, one_line(error), key.seek)
            return
        except (SapwoodError, ValueError, TypeError) as error:
            yield Finding("object", path, one_line(error), key.seek)
            return
        listed: Any = getattr(one, "unreadable", None)
        found: dict[str, str] = dict(cast("Mapping[str, str]", listed())) if callable(listed) else {}
        for where, why in found.items():
            yield Finding("class-unknown", path, f"{where}: {why}", key.seek)

    def _tree(self, path: str, directory: _native.Directory, key: _native.Key) -> Iterator[Finding]:
        try:
            tree = directory.tree(key)
        except (SapwoodError, NotImplementedError) as error:
            code = "class-unknown" if isinstance(error, UnsupportedError) else "tree"
            yield Finding(code, path, one_line(error), key.seek)
            return
        shared: set[int] | None = None
        baskets: list[tuple[int, int, int, str]] = []
        for branch in tree.branches:
            seeks, sizes, firsts = branch.basket_seeks, branch.basket_bytes, branch.basket_entries
            if not seeks:
                continue
            where = f"{path}: branch {branch.name}"
            if any(a > b for a, b in itertools.pairwise(firsts)):
                yield Finding("branch-order", where, "the first entries of its baskets do not increase")
                continue
            if firsts[-1] != tree.num_entries:
                text = f"its baskets end at entry {firsts[-1]}, the tree at {tree.num_entries}"
                yield Finding("branch-entries", where, text)
            shared = set(firsts) if shared is None else shared & set(firsts)
            name = self._basket_name(branch.name, seeks)
            if name != branch.name:
                yield Finding("basket-name", where, f"its baskets are named {name}")
            for seek, size, (first, last) in zip(seeks, sizes, itertools.pairwise(firsts), strict=True):
                if seek:
                    baskets.append((seek, size, last - first, name))
                    self._used.append((seek, seek + size, f"{where}, entry {first}", True))
        if shared is not None:
            with quiet():
                clusters = self._file[path].clusters
            odd = [border for border in clusters if border not in shared and border < tree.num_entries]
            if odd:
                yield Finding(
                    "cluster", path, f"a cluster begins at entry {odd[0]}, where some branches have no new basket"
                )
        faulty = False
        for start in range(0, len(baskets), 512):
            part = baskets[start : start + 512]
            for one, fault in zip(part, self._native.check_baskets(part, self._deep), strict=True):
                if fault is not None:
                    faulty = True
                    yield Finding(fault[0], f"{path}: branch {one[3]}", one_line(Exception(fault[1])), one[0])
        if self._deep and not faulty:
            yield from self._values(path, "tree-values")

    def _basket_name(self, branch: str, seeks: Sequence[int]) -> str:
        """Return the expected name of the baskets of a branch: its own, unless all share one other name."""
        names: set[str] = set()
        for seek in seeks:
            head = self._heads.get(seek)
            if seek and (head is None or head.classname != "TBasket"):
                return branch
            if head is not None:
                names.add(head.name)
        return names.pop() if len(names) == 1 else branch

    def _ntuple(self, path: str, directory: _native.Directory, key: _native.Key) -> Iterator[Finding]:
        try:
            ntuple = directory.ntuple(key)
        except (SapwoodError, NotImplementedError) as error:
            yield _not_opened(path, error, key.seek)
            return
        faulty = yield from self._pages(path, ntuple)
        headers = set[int]()
        for name, _, _ in ntuple.attribute_sets:
            inside = f"{path}: {name}"
            try:
                one = ntuple.attribute_set(name)
            except (SapwoodError, NotImplementedError) as error:
                yield _not_opened(inside, error, key.seek)
                continue
            if one.header_offset in headers:
                yield Finding("ntuple", inside, "its header is that of another attribute set", one.header_offset)
                continue
            headers.add(one.header_offset)
            faulty |= yield from self._pages(inside, one)
        if self._deep and not faulty:
            yield from self._values(path, "ntuple-values")

    def _pages(self, name: str, ntuple: _native.NTuple) -> Generator[Finding, None, bool]:
        """Yield the findings in page lists and pages of an RNTuple or attribute set; return whether there are any."""
        faults, used = ntuple.verify(self._deep)
        faulty = bool(faults)
        for code, part, text, _ in faults:
            yield Finding(code, f"{name}: {part}", text)
        for start, end in used:
            self._used.append((start, end, f"{name}: pages", False))
            before = bisect.bisect_right(self._offsets, start)
            record = self._heads[self._offsets[before - 1]] if self._offsets else None
            # The records after a damaged one are unknown.
            if record is None or start >= record.offset + abs(record.length):
                continue
            first = record.offset + record.key_bytes
            if record.classname != "RBlob" or start < first or end > record.offset + record.length:
                faulty = True
                text = f"bytes {start} to {end} are not in one record of pages"
                yield Finding("ntuple-page-place", name, text, start)
        return faulty

    def _values(self, path: str, code: str) -> Iterator[Finding]:
        """Decode all fields, a few entries at a time; yield the first fault of each field.

        After an error, the fields are read again in halves, so that many good fields take few reads. Of fields of one
        type that show the same columns, only the first is read if it is good.
        """
        try:
            with quiet():
                table = self._file[path]
                fields = [name for name in table.keys() if not len(table[name])]  # noqa: SIM118
        except (SapwoodError, NotImplementedError) as error:
            yield Finding(code, path, one_line(error))
            return
        left: list[str] = []
        alike: dict[str, list[str]] = {}
        first_alike: dict[tuple[str, tuple[int, ...]], str] = {}
        for name in fields:
            field = table[name]
            if field.reason is not None:
                yield Finding("class-unknown", f"{path}: {name}", one_line(Exception(str(field.reason))))
                continue
            shared = table.native.shared_columns(field.number)
            known = name if shared is None else first_alike.setdefault((field.typename, tuple(shared)), name)
            (left if known == name else alike.setdefault(known, [])).append(name)
        first = 0
        while first < table.num_entries and left:
            last = min(table.num_entries, first + max(1, table.num_entries_for(_DEEP_BYTES, left)))
            parts, lost = [left], set[str]()
            while parts:
                names = parts.pop()
                try:
                    with quiet():
                        table.arrays(names, entry_start=first, entry_stop=last, how=dict)
                except SapwoodError as error:
                    if len(names) > 1:
                        middle = len(names) // 2
                        parts += [names[middle:], names[:middle]]
                        continue
                    lost.update(names)
                    if others := alike.pop(names[0], []):
                        left = [*left, *others]
                        parts.append(others)
                    kind = "class-unknown" if isinstance(error, UnsupportedError) else code
                    yield Finding(kind, f"{path}: {names[0]}", one_line(error))
            left = [name for name in left if name not in lost]
            first = last

    def _overlaps(self) -> Iterator[Finding]:
        before: tuple[int, int, str, bool] | None = None
        for one in sorted(self._used):
            # Cycles of one tree share their baskets.
            if before is not None and one[0] < before[1] and not (one[:2] == before[:2] and one[3] and before[3]):
                code = "basket-overlap" if one[3] and before[3] else "key-overlap"
                yield Finding(code, one[2], f"it shares bytes with {before[2]}", one[0])
            if before is None or one[1] > before[1]:
                before = one

    def _free_list(self) -> Iterator[Finding]:
        seek, size, _, _ = self._native.places()
        if seek == 0:
            return
        if seek + size > self._end or size < 26:
            yield Finding("free-list", "", f"{size} bytes at byte {seek} are not a list of free segments", seek)
            return
        record = self._native.bytes(seek, size)
        head = parse_head(record, seek)
        if head is None or head.length != size:
            yield Finding("free-list", "", "its key cannot be parsed, or has another length", seek)
            return
        self._used.append((seek, seek + size, "the list of free segments", False))
        try:
            for version, first, last in segments(record, head.key_bytes):
                if version % 1000 != 1 or first > last:
                    yield Finding("free-list", "", f"a segment from {first} to {last} of version {version}", seek)
                    return
                # The last segment is endless and begins after the file.
                if first < self._native.end:
                    self._free[first] = last
        except struct.error:
            yield Finding("free-list", "", "it ends inside a segment", seek)

    def _segments(self) -> Iterator[Finding]:
        used = sorted(self._used)
        starts = [one[0] for one in used]
        for first, last in self._free.items():
            yield from self._segment(first, last, used, starts)

    def _segment(
        self, first: int, last: int, used: list[tuple[int, int, str, bool]], starts: list[int]
    ) -> Iterator[Finding]:
        if first < self._native.begin:
            yield Finding("free-segment", "", f"bytes {first} to {last} are part of the header", first)
            return
        place = bisect.bisect_right(starts, first)
        for one in used[max(0, place - 1) : place + 1]:
            if one[0] <= last and one[1] > first:
                yield Finding("free-segment", one[2], f"bytes {first} to {last} are in use", first)
                return
        if last < self._end:
            (mark,) = struct.unpack(">i", self._native.bytes(first, 4))
            if mark != -(last - first + 1) and last - first + 1 < 1 << 31:
                yield Finding("free-mark", "", f"{last - first + 1} bytes are marked {mark}", first)
