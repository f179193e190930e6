"""RNTuples are merged: clusters are copied as they are stored where that can be, and written again where not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, CorruptError

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
