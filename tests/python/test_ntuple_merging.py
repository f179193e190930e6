"""RNTuples are merged: clusters are copied as they are stored where that can be, and written again where not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, CorruptError
from sapwood.tools import merge
from sapwood.tools.checking import check

GOLDEN = Path(__file__).parent.parent / "golden" / "ntuple"


def table(start: int, count: int) -> dict[str, Any]:
    return {
        "x": np.arange(start, start + count, dtype=np.int32),
        "v": ak.Array([[i] * (i % 4) for i in range(start, start + count)]),
        "s": [f"s{i}" for i in range(start, start + count)],
    }


def written(path: Path, data: Any, **options: Any) -> Any:
    compression = options.pop("file_compression", sapwood.ZSTD(5))
    with sapwood.recreate(path, compression=compression) as file:
        file.mkrntuple("n", data, **options)
    return sapwood.open(path)["n"]


def test_clusters_are_copied_as_they_are_stored(tmp_path: Path) -> None:
    sources = [
        written(tmp_path / "a.root", table(0, 100), cluster_entries=30, page_size=64),
        written(tmp_path / "b.root", table(100, 50), file_compression=sapwood.LZ4(1)),
    ]
    with sapwood.recreate(tmp_path / "all.root", compression=None) as file:
        assert file.merge_rntuples("n", sources) == (150, 5)
    found = sapwood.open(tmp_path / "all.root")["n"]
    for name, values in table(0, 150).items():
        assert found[name].array().to_list() == ak.to_list(values)
    assert found.compressed_bytes == sum(source.compressed_bytes for source in sources)


def test_other_encodings_are_written_again(tmp_path: Path) -> None:
    sources = [
        written(tmp_path / "a.root", table(0, 100)),
        written(tmp_path / "b.root", table(100, 50), file_compression=None),
        written(tmp_path / "c.root", table(150, 10) | {"x": np.arange(150, 160, dtype=np.int16)}),
    ]
    with sapwood.recreate(tmp_path / "all.root") as file:
        assert file.merge_rntuples("n", sources) == (160, 1)
    found = sapwood.open(tmp_path / "all.root")["n"]
    for name, values in table(0, 160).items():
        assert found[name].array().to_list() == ak.to_list(values)


def test_fields_are_united_if_asked(tmp_path: Path) -> None:
    one, two = table(0, 5), table(5, 5)
    two["new"] = ak.Array([[None, 1.5]] * 5)
    del two["v"]
    sources = [written(tmp_path / "a.root", one), written(tmp_path / "b.root", two)]
    with sapwood.recreate(tmp_path / "all.root") as file:
        with pytest.raises(ArgumentError, match="'new' is new, 'v' is missing"):
            file.merge_rntuples("different", sources)
        assert file.merge_rntuples("n", sources, unite=True) == (10, 1)
    found = sapwood.open(tmp_path / "all.root")["n"].arrays()
    assert found["v"].to_list() == [*one["v"].to_list(), *[[]] * 5]
    assert found["new"].to_list() == [[]] * 5 + [[None, 1.5]] * 5


def test_an_rntuple_of_root_is_copied(tmp_path: Path) -> None:
    source = sapwood.open(GOLDEN / "contract.root")["t"]
    with sapwood.recreate(tmp_path / "copy.root") as file:
        file["t"] = source
    found = sapwood.open(tmp_path / "copy.root")["t"]
    assert found.typenames() == source.typenames()
    assert found.clusters == source.clusters
    assert found.compressed_bytes == source.compressed_bytes
    assert found.arrays().to_list() == source.arrays().to_list()


def test_late_and_streamed_fields_are_copied(tmp_path: Path) -> None:
    source = sapwood.open(GOLDEN / "types.root")
    name = source.keys(cycle=False)[0]
    with sapwood.recreate(tmp_path / "copy.root") as file:
        assert file.merge_rntuples(name, [source[name]]) == (20, 3)
    found = sapwood.open(tmp_path / "copy.root")[name]
    assert found.typenames() == source[name].typenames()
    assert found.arrays().to_list() == source[name].arrays().to_list()


def test_a_damaged_page_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    written(path, {"x": np.arange(1000)}, file_compression=None)
    bad = bytearray(path.read_bytes())
    place = bad.index(np.arange(100, 110).tobytes())
    bad[place] ^= 1
    path.write_bytes(bad)
    with sapwood.recreate(tmp_path / "all.root") as file, pytest.raises(CorruptError, match="checksum of a page"):
        file.merge_rntuples("n", [sapwood.open(path)["n"]])


def test_pages_are_compressed_again_without_being_decoded(tmp_path: Path) -> None:
    data = {"x": np.arange(5000) // 7, "v": ak.Array([[i % 5] * (i % 3) for i in range(5000)])}
    with sapwood.recreate(tmp_path / "a.root", compression=sapwood.ZLIB(1)) as file:
        file.mkrntuple("n", data, cluster_entries=900, page_size=1000)
    source = sapwood.open(tmp_path / "a.root")["n"]
    for codec in (None, sapwood.LZ4(4), sapwood.ZSTD(5), sapwood.ZLIB(1)):
        path = tmp_path / "b.root"
        with sapwood.recreate(path) as file:
            assert file.merge_rntuples("n", [source, source], compression=codec) == (10_000, 12)
        found = sapwood.open(path)["n"]
        assert found.arrays().to_list() == 2 * source.arrays().to_list()
        same = found.compressed_bytes == 2 * source.compressed_bytes
        assert same == (codec == sapwood.ZLIB(1))
        if codec is None:
            assert found.compressed_bytes == found.uncompressed_bytes


def test_clusters_and_pages_get_other_sizes(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("n", {"x": np.arange(1000), "s": [f"s{i}" for i in range(1000)]}, cluster_entries=10)
    source = sapwood.open(tmp_path / "a.root")["n"]
    with sapwood.recreate(tmp_path / "b.root") as file:
        assert file.merge_rntuples("n", [source, source], cluster_entries=800, step_size="4 kB") == (2000, 0)
    found = sapwood.open(tmp_path / "b.root")["n"]
    assert [one.num_entries for one in found.cluster_summaries] == [800, 800, 400]
    assert found.arrays().to_list() == 2 * source.arrays().to_list()


KINDS: dict[str, Any] = {
    "int32": lambda n: n,
    "float64": lambda n: n + 0.5,
    "bool": lambda n: n % 2 == 0,
    "string": lambda n: f"s{n}" * (n % 3),
    "?int32": lambda n: n if n % 3 else None,
    "var * int8": lambda n: [n % 100] * (n % 4),
    "var * var * float32": lambda n: [[0.5] * (n % 3)] * (n % 2),
    "var * string": lambda n: [f"{n}"] * (n % 3),
    "{a: int32, b: var * int16}": lambda n: {"a": n, "b": [n] * (n % 3)},
    "var * {a: int32, b: ?float32}": lambda n: [{"a": n, "b": 1.5 if n % 2 else None}] * (n % 3),
    "3 * int32": lambda n: [n, n + 1, n + 2],
}
BLANKS: dict[str, Any] = {
    "int32": 0, "float64": 0.0, "bool": False, "string": "", "?int32": None, "3 * int32": [0, 0, 0],
    "{a: int32, b: var * int16}": {"a": 0, "b": []},
}  # fmt: skip


def make_part(path: Path, fields: dict[str, str], random: np.random.Generator, options: dict[str, Any]) -> list[Any]:
    """Write an RNTuple with some of the fields, some of them added between clusters; return its entries."""
    chosen = [name for name in fields if random.random() < (0.2 if path.stem == "0" else 0.8)]
    late = [name for name in chosen if random.random() < 0.6]
    entries: list[Any] = []
    with sapwood.recreate(path, compression=[None, sapwood.ZSTD(1)][random.integers(2)]) as file:
        first = {"x": "int64"} | {name: fields[name] for name in chosen if name not in late}
        table = file.mkrntuple("n", first, **options)
        known = list(first)
        for added in [None, *late, None]:
            if added is not None:
                table.add_fields({added: fields[added]})
                known.append(added)
            if count := int(random.integers(0, 4)):
                start = len(entries)
                kinds = {"x": "int64"} | fields
                rows = [{name: KINDS.get(kinds[name], int)(start + place) for name in known} for place in range(count)]
                data = {name: ak.Array([row[name] for row in rows]) for name in known}
                fixed = [name for name in known if kinds[name] == "3 * int32"]
                table.extend(data | {name: ak.to_regular(data[name]) for name in fixed})
                if random.random() < 0.7:
                    table.flush()
                entries += rows
    return [row | {name: BLANKS.get(fields[name], []) for name in fields if name not in row} for row in entries]


@pytest.mark.parametrize("seed", range(40))
def test_random_unions_have_the_entries_of_their_parts(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    fields = {f"g{place}": str(kind) for place, kind in enumerate(random.choice(list(KINDS), 4))}
    options: dict[str, Any] = {"cluster_entries": 3, "page_size": 64} if seed % 2 else {}
    paths = [tmp_path / f"{place}.root" for place in range(3)]
    entries = [row for path in paths for row in make_part(path, fields, random, options)]
    with sapwood.recreate(tmp_path / "all.root", compression=sapwood.ZSTD(1)) as file:
        file.merge_rntuples("n", [sapwood.open(path)["n"] for path in paths], unite=True)
    found = sapwood.open(tmp_path / "all.root")["n"]
    there = ["x", *(name for name in fields if name in found.keys())]  # noqa: SIM118
    assert found.arrays(there).to_list() == [{name: row[name] for name in there} for row in entries]
    for name in there:
        assert [value for part in found.iterate([name], step_size=2) for value in part[name].to_list()] == [
            row[name] for row in entries
        ]
    assert [finding for finding in check(str(tmp_path / "all.root"), deep=True) if finding.severity != "info"] == []
    assert merge(tmp_path / "again.root", paths, union=True, verify=True).verified


def test_clusters_without_a_field_follow_each_other(tmp_path: Path) -> None:
    """The field is added late in each part: a copied cluster lacks it, and then the next one has it."""
    for place in range(2):
        with sapwood.recreate(tmp_path / f"{place}.root") as file:
            table = file.mkrntuple("n", {"x": "int32"})
            table.extend({"x": [1, 2, 3]})
            table.add_fields({"y": "int32", "z": "var * int32"})
            if place:
                table.extend({"x": [4], "y": [5], "z": [[6]]})
    with sapwood.recreate(tmp_path / "all.root") as file:
        sources = [sapwood.open(tmp_path / f"{place}.root")["n"] for place in range(2)]
        assert file.merge_rntuples("n", sources) == (7, 3)
    with sapwood.update(tmp_path / "all.root") as file:
        file["n"].extend({"x": [7], "y": [8], "z": [[]]})
    found = sapwood.open(tmp_path / "all.root")["n"]
    assert found["y"].array().to_list() == [0, 0, 0, 0, 0, 0, 5, 8]
    assert found["z"].array().to_list() == [[], [], [], [], [], [], [6], []]
    assert [finding for finding in check(str(tmp_path / "all.root"), deep=True) if finding.severity != "info"] == []


def test_a_source_is_an_open_rntuple(tmp_path: Path) -> None:
    written(tmp_path / "a.root", table(0, 3))
    with sapwood.recreate(tmp_path / "all.root") as file:
        for make in (file.merge_rntuples, lambda name, sources: file.mkrntuple_like(name, *sources)):
            with pytest.raises(ArgumentError, match=r"source is an RNTuple opened for reading, not '.*a\.root'"):
                make("n", [str(tmp_path / "a.root")])
        with pytest.raises(ArgumentError, match="source is an RNTuple opened for reading"):
            file.mkrntuple("m", {"x": "int32"}).add(str(tmp_path / "a.root"))


def test_the_time_of_a_merge_is_linear_in_the_fields(tmp_path: Path) -> None:
    path = tmp_path / "wide.root"
    with sapwood.recreate(path) as file:
        file.mkrntuple("t", {f"f{number}": np.arange(3, dtype=np.int16) for number in range(4000)})
    began = time.process_time()
    merge(tmp_path / "both.root", [path, path])
    assert time.process_time() - began < 10  # 0.2 s; quadratic, more than 25 s
    with sapwood.open(f"{tmp_path}/both.root:t") as table:
        assert table["f3999"].array().to_list() == [0, 1, 2, 0, 1, 2]
