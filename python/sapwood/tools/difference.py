"""Compare two files: their structure, then the values and descriptions of tables and the members of objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import sapwood
from sapwood import columns
from sapwood.columns import Array, Column
from sapwood.errors import ArgumentError, LimitError, SapwoodError, first_line
from sapwood.files.hbook import Bank
from sapwood.files.kinds import DIRECTORIES, TABLES
from sapwood.files.tree import TTree
from sapwood.storage.locate import is_url
from sapwood.storage.sources import FOR_ANY_FILE
from sapwood.table.index import INDEX_SET

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_STEP = "64 MB"
_LINKS = frozenset({"fUniqueID", "fBits", "fDirectory"})
"""Members of objects that depend on the object's place, not on its content."""
_REALS = (float, np.floating, complex, np.complexfloating)


@dataclass(frozen=True)
class Difference:
    """One difference between two files.

    `kind` is ``"missing"`` (in the second file), ``"extra"``, ``"class"``, ``"entries"``, ``"type"``, ``"value"``,
    ``"layout"``, ``"description"`` or ``"unreadable"``. `path` is the key, with its cycle if it is not the newest, and
    the attribute set of an RNTuple if it is in one. `field` is the field of a table, the member of an object, or the
    part of the description: ``"title"``, ``"alias NAME"``, ``"friend NAME"``, ``"index"`` or ``"weight"``. `entry` is
    the first entry that differs.
    """

    kind: str
    path: str
    field: str | None
    entry: int | None
    first: str
    second: str

    def text(self) -> str:
        """Return the difference as one line."""
        place = self.path + (f":{self.field}" if self.field else "")
        entry = f", entry {self.entry}" if self.entry is not None else ""
        return f"{self.kind}: {place}{entry}: {self.first} | {self.second}"

    def described(self) -> dict[str, Any]:
        """Return the difference as a dictionary for JSON."""
        return asdict(self)


def differences(
    first: str,
    second: str,
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
    layout: bool = False,
    cycles: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Iterator[Difference]:
    """Yield the differences of two files: missing keys first, then the content of each key.

    For each field, the first entry that differs is reported. NaN equals NaN, and -0 equals 0. Of tables, the titles are
    compared too, of trees also aliases, friends, index and weight, and of RNTuples the attribute
    sets, except the index that sapwood keeps in one.

    Parameters
    ----------
    first, second
        Files, or ``file:path`` for one directory or table in each.
    relative, absolute
        Tolerance of finite floating-point values: they are equal if
        ``|a - b| <= absolute + relative * max(|a|, |b|)``. Integers are compared exactly, and an infinity is equal to
        itself only.
    layout
        Also compare clusters and compressed sizes of tables.
    cycles
        Also compare older cycles: the newest of each name with the newest, the one before it with the one before it.
        Otherwise only the newest cycles are compared.
    options
        Options of `sapwood.open`.
    """
    if not (relative >= 0 and absolute >= 0):
        raise ArgumentError(f"tolerances must not be negative: {relative!r}, {absolute!r}")
    given = dict(options or {})
    for_local = {name: value for name, value in given.items() if name in FOR_ANY_FILE}
    mixed = is_url(first) != is_url(second)  # options of remote storage are then for one of them
    own = [for_local if mixed and not is_url(one) else given for one in (first, second)]
    own = [{"object_cache": None, **one} for one in own]  # each object is read once
    with sapwood.open(first, **own[0]) as a, sapwood.open(second, **own[1]) as b:
        if _is_table(a) or _is_table(b):
            if not (_is_table(a) and _is_table(b)):
                yield Difference("class", first, None, None, _class_of(a), _class_of(b))
                return
            yield from _tables(_plain(a.object_path), a, b, (relative, absolute), layout)
            return
        if wrong := next((one for one in (a, b) if not hasattr(one, "classnames")), None):
            path = first if wrong is a else second
            raise ArgumentError(f"{path} is a {_class_of(wrong)}: files, directories and tables can be compared")
        keys = [_keys(one, cycles) for one in (a, b)]
        for key, (path, kind) in keys[0].items():
            if key not in keys[1]:
                yield Difference("missing", path, None, None, kind, "not there")
        for key, (path, kind) in keys[1].items():
            if key not in keys[0]:
                yield Difference("extra", path, None, None, "not there", kind)
        for key, (path, kind) in keys[0].items():
            if key not in keys[1] or kind in DIRECTORIES:
                continue
            other_path, other_kind = keys[1][key]
            if kind != other_kind:
                yield Difference("class", path, None, None, kind, other_kind)
                if not TABLES.issuperset((kind, other_kind)):
                    continue
            try:
                one, other = a[path], b[other_path]
            except (SapwoodError, NotImplementedError) as error:
                yield Difference("unreadable", path, None, None, first_line(error), "")
                continue
            if _is_table(one):
                yield from _tables(path, one, other, (relative, absolute), layout)
            else:
                yield from _objects(path, one, other, (relative, absolute))


def _keys(file: Foreign, cycles: bool) -> dict[tuple[str, int], tuple[str, str]]:
    """Return path and class of each key, by its path without cycle and its place behind the newest cycle."""
    if not cycles:
        return {(path, 0): (path, kind) for path, kind in file.classnames(recursive=True, cycle=False).items()}
    found: dict[str, list[tuple[int, str]]] = {}
    for full, kind in file.classnames(recursive=True, cycle=True).items():
        path, _, cycle = full.rpartition(";")
        found.setdefault(path, []).append((int(cycle), kind))
    return {
        (path, place): (f"{path};{cycle}" if place else path, kind)
        for path, listed in found.items()
        for place, (cycle, kind) in enumerate(sorted(listed, reverse=True))
    }


def _plain(path: str) -> str:
    return path.strip("/").rsplit(";", 1)[0]


def _is_table(one: Foreign) -> bool:
    return hasattr(one, "num_entries") and hasattr(one, "iterate")


def _class_of(one: Foreign) -> str:
    return str(getattr(one, "classname", type(one).__name__))


def _tables(path: str, a: Foreign, b: Foreign, tolerance: tuple[float, float], layout: bool) -> Iterator[Difference]:
    if a.num_entries != b.num_entries:
        yield Difference("entries", path, None, None, str(a.num_entries), str(b.num_entries))
    yield from _descriptions(path, a, b)
    types = [one.typenames(full_paths=True) for one in (a, b)]
    for name, kind in types[0].items():
        if name not in types[1]:
            yield Difference("missing", path, name, None, kind, "not there")
    for name, kind in types[1].items():
        if name not in types[0]:
            yield Difference("extra", path, name, None, "not there", kind)
    shared: list[str] = []
    for name, kind in types[0].items():
        if name not in types[1]:
            continue
        if a[name].type != b[name].type:
            yield Difference("type", path, name, None, kind, types[1][name])
        elif a[name].reason is not None:
            yield Difference("unreadable", path, name, None, str(a[name].reason), str(b[name].reason))
        elif not len(a[name]):
            shared.append(name)
    if layout:
        for what, value in _layout(a).items():
            if value != _layout(b)[what]:
                yield Difference("layout", path, what, None, value, _layout(b)[what])
    found: dict[str, Difference] = {}
    stop = min(a.num_entries, b.num_entries)
    start = 0
    while start < stop:
        # Fields with a known difference are not read further.
        left = [name for name in shared if name not in found]
        if not left:
            break
        end = min(stop, start + max(1, a.num_entries_for(_STEP, left)))
        ours, theirs = (one.arrays(left, entry_start=start, entry_stop=end, how=dict) for one in (a, b))
        for name in left:
            place = first_difference(columns.from_awkward(ours[name]), columns.from_awkward(theirs[name]), tolerance)
            if place is not None:
                values = [_short(one[name][place]) for one in (ours, theirs)]
                found[name] = Difference("value", path, name, start + place, *values)
        start = end
    yield from found.values()
    sets = [[name for name in getattr(one, "attribute_sets", ()) if name != INDEX_SET] for one in (a, b)]
    for name in dict.fromkeys(sets[0] + sets[1]):
        inside = f"{path}: {name}"
        if name not in sets[1]:
            yield Difference("missing", inside, None, None, "attribute set", "not there")
        elif name not in sets[0]:
            yield Difference("extra", inside, None, None, "not there", "attribute set")
        else:
            yield from _tables(inside, a.attribute_set(name), b.attribute_set(name), tolerance, layout)


def _descriptions(path: str, a: Foreign, b: Foreign) -> Iterator[Difference]:
    """Yield the differences of two tables beside their fields; of tables of different formats only the titles."""
    parts = [_description(one) if type(a) is type(b) else {"title": one.title} for one in (a, b)]
    for name in dict.fromkeys([*parts[0], *parts[1]]):
        one, other = (part.get(name) for part in parts)
        if one != other:
            texts = ("not there" if text is None else _short(text) for text in (one, other))
            yield Difference("description", path, name, None, *texts)


def _description(table: Foreign) -> dict[str, str]:
    found = {"title": table.title, **{f"alias {name}": text for name, text in table.aliases.items()}}
    if isinstance(table, TTree):
        native = table.native
        found |= {f"friend {name}": f"{file}:{inside}" if file else inside for name, file, inside in native.friends}
        found |= {"index": ", ".join(native.index)} if native.index else {}
        found["weight"] = repr(native.weight)
    return found


def _layout(table: Foreign) -> dict[str, str]:
    full, stored = table.field_bytes()
    return {
        "clusters": " ".join(map(str, table.clusters)),
        "compressed bytes": str(sum(stored)),
        "uncompressed bytes": str(sum(full)),
    }


def _short(value: Foreign) -> str:
    value = value.to_list() if hasattr(value, "to_list") else value
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 200 else text[:197] + "..."


def first_difference(a: Column, b: Column, tolerance: tuple[float, float] = (0.0, 0.0)) -> int | None:
    """Return the index of the first element in which two columns of equal length differ; None if there is none."""
    n = min(columns.length_of(a), columns.length_of(b))
    more = None if columns.length_of(a) == columns.length_of(b) else n
    inner = _first(a, b, tolerance)
    found = [place for place in (more, inner) if place is not None]
    return min(found, default=None)


def _first(a: Column, b: Column, tolerance: tuple[float, float]) -> int | None:
    if (a[0] == "option") != (b[0] == "option"):
        # A column without missing elements may have lost its option type.
        a, b = (c if c[0] == "option" else ("option", np.arange(columns.length_of(c)), c) for c in (a, b))
    if a[0] != b[0]:
        return 0 if min(columns.length_of(a), columns.length_of(b)) else None
    match a, b:
        case ("number", x), ("number", y):
            n = min(len(x), len(y))
            return _where(_unequal(x[:n], y[:n], tolerance))
        case ("text", xo, xb), ("text", yo, yb):
            place, n = _lengths(xo, yo)
            inner = _where(xb[xo[0] : xo[n]] != yb[yo[0] : yo[n]])
            return _outer(xo - xo[0], inner, place)
        case ("list", xo, xc), ("list", yo, yc):
            place, n = _lengths(xo, yo)
            x, y = (_between(c, o[0], o[n]) for c, o in ((xc, xo), (yc, yo)))
            return _outer(xo - xo[0], _first(x, y, tolerance), place)
        case ("fixed", _, size, x), ("fixed", _, _, y):
            inner = _first(x, y, tolerance)
            return None if inner is None else inner // max(1, size)
        case ("record", _, _, xf), ("record", _, _, yf):
            others = dict(yf)
            found = [_first(c, others[name], tolerance) for name, c in xf if name in others]
            return min((place for place in found if place is not None), default=None)
        case ("option", xi, x), ("option", yi, y):
            n = min(len(xi), len(yi))
            place = _where((xi[:n] < 0) != (yi[:n] < 0))
            n = n if place is None else place
            there = np.flatnonzero(xi[:n] >= 0)
            inner = _first(_taken(x, xi[there]), _taken(y, yi[there]), tolerance)
            return place if inner is None else int(there[inner])
        case ("empty",), ("empty",):
            return None
        case _:
            pairs = enumerate(zip(_objects_of(a), _objects_of(b), strict=False))
            return next((i for i, (x, y) in pairs if not _same(x, y, tolerance, set())), None)


def _where(mask: Array) -> int | None:
    place = int(mask.argmax()) if len(mask) else 0
    return place if len(mask) and mask[place] else None


def _unequal(x: Array, y: Array, tolerance: tuple[float, float]) -> Array:
    differ = x != y
    if "f" not in (kinds := {x.dtype.kind, y.dtype.kind}) and "c" not in kinds:
        return differ
    differ &= ~(np.isnan(x) & np.isnan(y))
    relative, absolute = tolerance
    if (relative or absolute) and differ.any():
        # In double precision: half-precision numbers would round the tolerance.
        wide = np.complex128 if "c" in kinds else np.float64
        x, y = x.astype(wide), y.astype(wide)
        with np.errstate(invalid="ignore", over="ignore"):
            near = np.abs(x - y) <= absolute + relative * np.maximum(np.abs(x), np.abs(y))
        # An infinity is not near to any other number: the tolerance would be infinite.
        differ &= ~(near & np.isfinite(x) & np.isfinite(y))
    return differ


def _lengths(x: Array, y: Array) -> tuple[int | None, int]:
    """Return the first list whose length differs, and the number of lists compared before it."""
    n = min(len(x), len(y)) - 1
    place = _where(np.diff(x[: n + 1]) != np.diff(y[: n + 1]))
    return place, n if place is None else place


def _outer(offsets: Array, inner: int | None, place: int | None) -> int | None:
    return place if inner is None else int(np.searchsorted(offsets, inner, "right")) - 1


def _between(column: Column, start: int, stop: int) -> Column:
    import awkward as ak

    if start == 0 and stop == columns.length_of(column):
        return column
    return columns.from_awkward(ak.Array(columns.Layouts().layout(column))[int(start) : int(stop)])


def _taken(column: Column, places: Array) -> Column:
    import awkward as ak

    return columns.from_awkward(ak.Array(columns.Layouts().layout(column))[places])


def _objects_of(column: Column) -> list[Any]:
    import awkward as ak

    return ak.Array(columns.Layouts().layout(column)).to_list()


def _objects(path: str, a: Foreign, b: Foreign, tolerance: tuple[float, float]) -> Iterator[Difference]:
    members = [dict(_members(one)) for one in (a, b)]
    known: set[tuple[int, int]] = set()

    def same(value: Foreign, other: Foreign) -> bool:
        try:
            return _same(value, other, tolerance, known)
        except RecursionError as error:
            raise LimitError(f"{path} nests too deep to be compared") from error

    for name, value in members[0].items():
        if name in _LINKS:
            continue
        if name not in members[1]:
            yield Difference("missing", path, name, None, _short(value), "not there")
        elif not same(value, members[1][name]):
            yield Difference("value", path, name, None, _short(value), _short(members[1][name]))
    for name, value in members[1].items():
        if name not in members[0] and name not in _LINKS:
            yield Difference("extra", path, name, None, "not there", _short(value))


def _members(one: Foreign) -> Mapping[str, Any]:
    found = getattr(one, "all_members", None)
    if found is None:
        return {"value": one}
    return found


def _same(a: Foreign, b: Foreign, tolerance: tuple[float, float], known: set[tuple[int, int]]) -> bool:
    """Return whether two members are equal; `known` has the pairs of objects that were compared before."""
    if all(isinstance(one, _REALS) for one in (a, b)):
        return not _unequal(np.asarray([a]), np.asarray([b]), tolerance)[0]
    if type(a) is not type(b):
        return isinstance(a, (int, float)) and isinstance(b, (int, float)) and a == b
    if isinstance(a, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.names:
            return all(_same(a[name], b[name], tolerance, known) for name in a.dtype.names)
        if a.dtype.kind == "O":
            return _same(a.tolist(), b.tolist(), tolerance, known)
        return not _unequal(a, b, tolerance).any() if a.dtype.kind in "biufc" else bool((a == b).all())
    if hasattr(a, "all_members"):
        # Objects that contain themselves, or that many pointers share, are compared once.
        if (id(a), id(b)) in known:
            return True
        known.add((id(a), id(b)))
        mine, theirs = dict(a.all_members), dict(b.all_members)
        names = (mine.keys() | theirs.keys()) - _LINKS
        return all(
            name in mine and name in theirs and _same(mine[name], theirs[name], tolerance, known) for name in names
        )
    if isinstance(a, Bank):
        mine, theirs = (
            [one.name, one.number, one.structural, one.status, one.io_words, one.link_places, one.pieces]
            for one in (a, b)
        )
        return _same(mine, theirs, tolerance, known)
    if isinstance(a, Mapping) and any(hasattr(key, "all_members") and not isinstance(key, str) for key in a):
        return _same(list(a.items()), list(b.items()), tolerance, known)  # objects as keys are equal by their members
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key], tolerance, known) for key in a)
    if isinstance(a, Sequence) and not isinstance(a, (str, bytes)):
        return len(a) == len(b) and all(_same(x, y, tolerance, known) for x, y in zip(a, b, strict=True))
    return bool(a == b)
