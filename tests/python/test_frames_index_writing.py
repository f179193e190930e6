"""The index that is made while writing has a zone for each cluster; an index beside a file goes when it is replaced."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood import cli
from sapwood.errors import ArgumentError, SapwoodWarning
from sapwood.storage.checksums import beside as checksums_beside
from sapwood.table import index
from sapwood.table.statistics import index_of, statistics
from sapwood.tools import copy, merge
from sapwood.tools.conversion import convert

KINDS = pytest.mark.parametrize("kind", ["ttree", "rntuple"])
N = 1000
RNG = np.random.default_rng(3)
COUNTS = RNG.integers(0, 4, N)
DATA: dict[str, Any] = {
    "x": np.arange(N, dtype=np.int32),
    "noise": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
    "lists": ak.unflatten(RNG.normal(size=int(COUNTS.sum())).astype(np.float32), COUNTS),
    "others": ak.unflatten(RNG.integers(0, 99, int(COUNTS.sum())), COUNTS),
    "pair": np.stack([np.arange(N), -np.arange(N)], axis=1),
}
TYPES = {"x": "int32", "noise": "float64", "lists": "var * float32", "others": "var * int64", "pair": "2 * int64"}


def beside(path: Path) -> Path:
    return Path(f"{path}{index.SUFFIX}")


def some(start: int, stop: int) -> dict[str, Any]:
    return {name: values[start:stop] for name, values in DATA.items()}


def make(file: Any, kind: str, types: dict[str, str] = TYPES, **options: Any) -> Any:
    if kind == "ttree":
        return file.mktree("t", types, **options)
    return file.mkrntuple("t", types, **options)


def looked_at(path: Path) -> index.Zones:
    """Return the index of a table, whose zones are its clusters, with the statistics of their values."""
    with sapwood.open(f"{path}:t") as table:
        found = index.find(table)
        assert found is not None and found.edges == table.clusters
        expected = index_of(table, [(one.path, zones) for one, zones in statistics(table)])
        for name in found.fields:
            for one, other in zip(found.fields[name].arrays(), expected.fields[name].arrays(), strict=True):
                assert one.tolist() == other.tolist(), name
        return found


def skipped(path: Path, cut: str) -> int:
    with sapwood.open(f"{path}:t") as table:
        return table.explain("x", cut).entries_skipped


@contextmanager
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "default": {"ttree": {}, "rntuple": {}},
    "bytes": {"ttree": {"auto_flush": -2000}, "rntuple": {"cluster_size": 4000}},
    "entries": {"ttree": {"auto_flush": 70}, "rntuple": {"cluster_entries": 70}},
}


@KINDS
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("pieces", [[N], [300, 301, 302, N], list(range(7, N + 7, 7))], ids=["one", "few", "many"])
@pytest.mark.parametrize("ends", ["", "flush", "commit", "read"])
def test_a_zone_is_a_cluster(tmp_path: Path, kind: str, size: str, pieces: list[int], ends: str) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, index=True) as file:
        table = make(file, kind, **SIZES[size][kind])
        for number, (start, stop) in enumerate(pairwise([0, *pieces])):
            table.extend(some(start, stop))
            if ends and number % 4 == 2:
                {"flush": table.flush, "commit": file.file.commit, "read": table.read}[ends]()
    found = looked_at(path)
    names = set(TYPES) | ({"nlists", "nothers"} if kind == "ttree" else set())
    assert set(found.fields) == names
    # Explicit ends of clusters are there, whatever the size.
    if ends and len(pieces) > 3:
        assert pieces[2] in found.edges
    if size == "entries" or (size == "bytes" and len(pieces) > 100):
        assert len(found.edges) > 4


@KINDS
def test_clusters_of_the_default_size_are_skipped(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, index=True) as file:
        table = make(file, kind)
        for start in range(0, N, 100):
            table.extend(some(start, start + 100))
            table.flush()
    assert skipped(path, "x < 10") == skipped(path, "pair > 5000") + 900 == 900


@KINDS
def test_small_calls_share_a_zone_and_large_ones_are_divided(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.root"
    values = np.arange(50, dtype=np.float32)
    with sapwood.recreate(path, index=True) as file:
        types = {"x": "float32", "packed": "Float16_t[0, 1, 4]"}
        table = make(file, kind, types, **({"auto_flush": 20} if kind == "ttree" else {"cluster_entries": 20}))
        table.extend({"x": values[:41], "packed": values[:41] / 100})
        for start in range(41, 50):
            table.extend({"x": values[start : start + 1], "packed": values[start : start + 1] / 100})
    zones = looked_at(path)
    assert zones.edges == [0, 20, 40, 50]
    # The bounds of rounded values are those of the stored values.
    assert set(zones.fields) == {"x", "packed"}
    assert (zones.fields["x"].low.tolist(), zones.fields["x"].high.tolist()) == ([0, 20, 40], [19, 39, 49])


@KINDS
def test_entries_of_several_threads_have_the_zones_of_their_values(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, index=True) as file:
        table = make(file, kind, {"x": "int64"}, **({"auto_flush": 10} if kind == "ttree" else {"cluster_entries": 10}))

        def extend(value: int) -> None:
            for _ in range(30):
                table.extend({"x": np.full(10, value)})

        threads = [threading.Thread(target=extend, args=(value,)) for value in (1, 2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert len(looked_at(path).edges) == 61
    assert skipped(path, "x == 1") == skipped(path, "x == 2") == 300


@KINDS
def test_entries_that_are_refused_leave_the_index_as_it_was(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, index=True) as file:
        table = make(file, kind)
        table.extend(some(0, 500))
        for wrong in ({**some(0, 10), "x": [1]}, {**some(0, 10), "x": ["text"] * 10}):
            with pytest.raises(ArgumentError):
                table.extend(wrong)
        table.extend(some(500, N))
    assert len(looked_at(path).edges) == 2


def test_fields_of_rntuples_that_may_be_missing_or_come_later(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    types = {
        "x": "int32", "maybe": "?float32", "inner": "var * ?int64", "whole": "?int16", "r": "{a: int8, b: var * uint8}",
        "pairs": "var * {q: float64}", "m": "map<int, float>",
    }  # fmt: skip
    with sapwood.recreate(path, index=True) as file:
        table = file.mkrntuple("t", types, cluster_entries=4)
        for start in range(0, 18, 3):
            n = np.arange(start, start + 3)
            maybe = ak.mask(ak.Array(n.astype(np.float32)), n % 4 != 0) if start else n.astype(np.float32)
            data: dict[str, Any] = {
                "x": n, "maybe": maybe, "whole": ak.mask(ak.Array(n), n > 90),
                "inner": ak.Array([[None, one, None][: one % 4] for one in n.tolist()]),
                "r": ak.Array([{"a": one, "b": [one] * (one % 3)} for one in n.tolist()]),
                "pairs": ak.Array([[{"q": one / 2}] * (one % 2) for one in n.tolist()]),
                "m": [{one: one / 3} for one in n.tolist()],
            }  # fmt: skip
            if start > 6:
                data["late"] = n
            table.extend(data, accept_new_fields=start == 9)
    found = looked_at(path)
    assert {"x", "maybe", "inner", "whole", "r.a", "r.b", "pairs.q", "late"} <= set(found.fields)
    assert found.fields["whole"].missing.tolist() == np.diff(found.edges).tolist()
    with sapwood.open(f"{path}:t") as table, no_warnings():
        # What the type of a field fixes is not stored.
        names = [name for name in table.attribute_set(index.INDEX_SET).keys(recursive=True) if "%" in name]
        kinds = {field: [name.partition("%")[2] for name in names if f".{field}%" in f".{name}"] for field in types}
        assert kinds["x"] == ["low", "high"] and kinds["maybe"] == ["low", "high", "count", "missing", "nan"]
        assert kinds["inner"] == ["low", "high", "count", "missing", "nan", "longest"]
        assert len(table.arrays("x", "maybe > 100")) == 0 and table.explain("x", "maybe > 16").entries_skipped > 10


@KINDS
@pytest.mark.parametrize("numbers", [True, False])
def test_an_index_has_the_same_fields_while_writing_and_afterwards(tmp_path: Path, kind: str, numbers: bool) -> None:
    path = tmp_path / "file.root"
    types = {
        "packed": "Double32_t[0, 1, 3]", "half": "Float16_t", "short": "Double32_t", "lists": "var * Float16_t[0, 8, 5]"
    }  # fmt: skip
    data = {
        "packed": np.linspace(0, 1, N), "half": np.linspace(0.001, 700, N), "short": np.linspace(0.1, 0.3, N),
        "lists": ak.unflatten(RNG.random(2 * N) * 8, np.full(N, 2)),
    }  # fmt: skip
    if numbers:
        types, data = {"x": "int32", **types}, {"x": DATA["x"], **data}
    options: dict[str, Any] = {"auto_flush": 100}
    if kind == "rntuple":
        options = {"cluster_entries": 100, "projections": {"same": "lists"}}
        types["r"] = "{a: Double32_t[0, 1, 3]}"
        data["r"] = ak.zip({"a": data["packed"]})
    with sapwood.recreate(path, index=True) as file:
        table = make(file, kind, types, **options)
        for start in range(0, N, 250):
            table.extend({name: values[start : start + 250] for name, values in data.items()})
    with sapwood.open(f"{path}:t") as table:
        assert set(looked_at(path).fields) == set(index.indexable(table)) >= types.keys() - {"r"}
        assert kind == "ttree" or {"same", "r.a"} <= set(index.indexable(table))
        assert table.explain("half", "packed >= 0.9").entries_skipped > 500


def test_clusters_that_are_written_again_have_an_index(tmp_path: Path) -> None:
    plain, path = tmp_path / "plain.root", tmp_path / "file.root"
    with sapwood.recreate(plain) as file:
        make(file, "rntuple", cluster_entries=300).extend(DATA)
    with sapwood.recreate(path, index=True) as file, sapwood.open(f"{plain}:t") as source:
        table = make(file, "rntuple", cluster_entries=200)
        table.add(source, recluster=True)
        table.extend(some(0, 10))
    assert looked_at(path).edges == [*range(0, N + 1, 200), N + 10]


# An index beside a file that is replaced


def make_index(path: Path, name: str = "t") -> Path:
    with sapwood.open(f"{path}:{name}") as table:
        return index.write(table, index_of(table, [(one.path, zones) for one, zones in statistics(table)]))


def write_plain(path: Path, kind: str = "ttree", stop: int = N, **options: Any) -> None:
    with sapwood.recreate(path, **options) as file:
        make(file, kind).extend(some(0, stop))


def test_an_index_in_an_rntuple_is_used_beside_a_stale_one(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    write_plain(path)
    make_index(path)
    stale = beside(path).read_bytes()
    write_plain(path, "rntuple", index=True)
    for data, why in (
        (stale, "changed after it was made"),
        (stale[:9], "damaged"),
        (b"SAPWIDX1" * 9, "earlier version"),
    ):
        beside(path).write_bytes(data)
        with pytest.warns(SapwoodWarning, match=why):
            assert skipped(path, "x > 5000") == N
    # The index of another table hides it no more.
    beside(path).unlink()
    with sapwood.update(path) as file:
        file["other"] = {"y": np.arange(10)}
    make_index(path, "other")
    with no_warnings():
        assert skipped(path, "x > 5000") == N


@KINDS
@pytest.mark.parametrize("atomic", [False, True])
@pytest.mark.parametrize("link", [False, True])
def test_a_file_that_is_replaced_takes_its_index_and_checksums_with_it(
    tmp_path: Path, kind: str, atomic: bool, link: bool
) -> None:
    real = path = tmp_path / "file.root"
    if link:
        path = tmp_path / "link.root"
        path.symlink_to(real)
    write_plain(real, checksums=True)
    make_index(real)
    with sapwood.recreate(path, atomic=atomic) as file:
        make(file, kind).extend(some(0, 10))
        assert beside(real).exists() == checksums_beside(real).exists() == atomic
    assert not beside(real).exists() and not checksums_beside(real).exists()
    with no_warnings():
        assert skipped(path, "x > 5000") == 0
    write_plain(path, kind, atomic=atomic, index=True)
    with no_warnings():
        assert skipped(real if atomic else path, "x > 5000") == N


def test_a_file_that_is_not_replaced_keeps_its_index(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    write_plain(path)
    make_index(path)
    with pytest.raises(KeyError), sapwood.recreate(path, atomic=True) as file:
        make(file, "ttree").extend(some(0, 10))
        raise KeyError
    with pytest.raises(FileExistsError):
        sapwood.create(path)
    with pytest.raises(sapwood.SapwoodError):
        convert(path, path)
    with pytest.raises(sapwood.SapwoodError):
        merge(path, [path, tmp_path / "none.root"])
    with no_warnings():
        assert skipped(path, "x > 5000") == N


def _joined(one: Path, path: Path) -> None:
    assert cli.main(["hadd", "-f", str(path), str(one), str(one)]) == 0


def _added(one: Path, path: Path) -> None:
    assert cli.main(["hadd", "-a", str(path), str(one)]) == 0


@pytest.mark.parametrize(
    "write",
    [
        lambda one, path: merge(path, [one, one]), lambda one, path: copy(one, path, recreate=True),
        convert, _joined, _added,
    ],
    ids=["merge", "copy", "convert", "hadd", "hadd-a"],
)  # fmt: skip
def test_tools_that_replace_a_file_remove_its_index(tmp_path: Path, write: Callable[[Path, Path], Any]) -> None:
    one, path = tmp_path / "one.root", tmp_path / "file.root"
    write_plain(one, stop=100)
    write_plain(path)
    make_index(path)
    write(one, path)
    assert not beside(path).exists()
