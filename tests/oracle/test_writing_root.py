"""sapwood writes; ROOT reads every value as it was given, with not one word of warning, merges and goes on writing."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import boost_histogram as bh
import hist
import numpy as np
import pytest
import uproot

import sapwood
from recipes import run

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

CODECS = {
    "none": None,
    "zlib1": sapwood.ZLIB(1),
    "zlib6": sapwood.ZLIB(6),
    "lzma1": sapwood.LZMA(1),
    "lz4-1": sapwood.LZ4(1),
    "lz4-4": sapwood.LZ4(4),
    "zstd5": sapwood.ZSTD(5),
}
NUMBERS = [*(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool", "float32", "float64"]
Table = dict[str, Any]


class Read:
    """Files as ROOT reads them."""

    def __init__(self, python: Path, folder: Path, *names: str) -> None:
        out = folder / f"{names[0]}.npz"
        self.files = json.loads(run(python, "writing/read.py", out, *(folder / name for name in names)))
        self.arrays = np.load(out)
        for name in names:
            assert not self.files[name]["zombie"]
            assert not self.files[name]["recovered"]
            assert self.files[name]["end"] == self.files[name]["size"] == (folder / name).stat().st_size

    def check(self, file: str, tree: str, table: Table) -> dict[str, Any]:
        """Compare all values of a tree, bit for bit; give what else ROOT says of it."""
        found = self.files[file]["content"][tree]
        lengths = {len(values) for values in table.values()}
        assert {found["entries"]} == lengths
        for name, values in table.items():
            key = f"{file}/{tree}/{name}".replace("/", "|")
            counts, content = flat(values)
            np.testing.assert_array_equal(self.arrays[key + "#n"], counts, err_msg=name)
            assert self.arrays[key].tobytes() == content, name
            if is_jagged(values):
                counter = f"{file}/{tree}/n{name}".replace("/", "|")
                assert self.arrays[counter].tobytes() == ak.num(values).to_numpy().astype(np.int32).tobytes()
        branches = found["branches"].values()
        assert found["total_bytes"] == sum(branch["total_bytes"] for branch in branches)
        assert found["compressed_bytes"] == sum(branch["compressed_bytes"] for branch in branches)
        return found


def is_jagged(values: Any) -> bool:
    return isinstance(values, ak.Array) and values.ndim > 1


def flat(values: Any) -> tuple[np.ndarray[Any, Any], bytes]:
    """Return the number of elements of each entry, and the bytes of all of them."""
    if isinstance(values, list):
        texts = [text.encode() for text in values]
        return np.array([len(text) for text in texts]), b"".join(texts)
    if is_jagged(values):
        inner = ak.flatten(values, axis=1)
        each = int(np.prod(ak.to_numpy(inner).shape[1:]))
        return ak.num(values).to_numpy() * each, ak.to_numpy(inner).tobytes()
    array = np.asarray(values)
    return np.full(len(array), int(np.prod(array.shape[1:]))), array.tobytes()


def numbers(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return numbers of which no byte is always zero."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        found = rng.normal(size=shape).astype(dtype)
        if found.size > 3:
            found.reshape(-1)[:4] = (np.nan, np.inf, -0.0, np.finfo(dtype).smallest_subnormal)
        return found
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def everything(rng: np.random.Generator, entries: int) -> Table:
    """Return data of every type that a branch takes."""
    table: Table = {}
    for dtype in NUMBERS:
        table[f"one_{dtype}"] = numbers(rng, dtype, (entries,))
        table[f"fixed_{dtype}"] = numbers(rng, dtype, (entries, 3))
        counts = rng.poisson(1.5, entries)
        table[f"many_{dtype}"] = ak.unflatten(numbers(rng, dtype, (int(counts.sum()),)), counts)
    table["cube"] = numbers(rng, "float64", (entries, 2, 3, 2))
    counts = rng.poisson(0.7, entries)
    table["rows"] = ak.unflatten(
        ak.from_numpy(numbers(rng, "int16", (int(counts.sum()), 2, 2)), regulararray=True), counts
    )
    table["none"] = ak.unflatten(np.zeros(0, np.float32), np.zeros(entries, int))
    table["text"] = [["", "abc", "äöü€", "x" * 254, "y" * 255, "z" * 1000][i] for i in rng.integers(0, 6, entries)]
    table["same"] = np.zeros(entries, np.int32)
    table["größe_µ"] = np.arange(entries, dtype=np.float32)
    return table


def pieces(table: Table, *cuts: int) -> list[Table]:
    entries = len(next(iter(table.values())))
    borders = [0, *cuts, entries]
    return [{k: v[a:b] for k, v in table.items()} for a, b in pairwise(borders)]


def write(path: Path, tables: dict[str, Table], compression: Any, cuts: tuple[int, ...] = (), **layout: int) -> None:
    with sapwood.recreate(path, compression=compression) as file:
        for name, table in tables.items():
            first, *rest = pieces(table, *cuts)
            tree = file.mktree(name, first, title=f"title of {name}", **layout)
            for piece in rest:
                tree.extend(piece)


@pytest.fixture(scope="module")
def table() -> Table:
    return everything(np.random.default_rng(1), 2500)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("written")


@pytest.fixture(scope="module")
def matrix(table: Table, folder: Path, root_python: Path) -> Read:
    """Write every type with every codec, in clusters by entries, by bytes, and in one; read all with ROOT."""
    for name, compression in CODECS.items():
        cuts = (1, 2, 900, 901, 2400)
        write(folder / f"entries-{name}.root", {"t": table}, compression, cuts, auto_flush=700, basket_size=3000)
        write(folder / f"bytes-{name}.root", {"t": table}, compression, cuts, auto_flush=-200_000)
        write(folder / f"one-{name}.root", {"t": table}, compression)
    names = [f"{kind}-{name}.root" for kind in ("entries", "bytes", "one") for name in CODECS]
    return Read(root_python, folder, *names)


@pytest.mark.parametrize("codec", CODECS)
def test_clusters_by_entries(matrix: Read, table: Table, codec: str) -> None:
    found = matrix.check(f"entries-{codec}.root", "t;1", table)
    assert found["clusters"] == [700, 1400, 2100, 2500]
    assert found["auto_flush"] == 700
    assert found["title"] == "title of t"
    branches = found["branches"]
    assert branches["one_int8"]["baskets"] == 4
    assert branches["text"]["baskets"] > 20
    assert branches["rows"]["title"] == "rows[nrows][2][2]/S"
    assert branches["cube"]["title"] == "cube[2][3][2]/D"
    compression = CODECS[codec]
    assert {b["compression"] for b in branches.values()} == {compression.code if compression else 0}
    if codec == "none":
        assert found["total_bytes"] == found["compressed_bytes"]
    else:
        assert branches["same"]["compressed_bytes"] < branches["same"]["total_bytes"] / 4
        # What does not shrink is stored as it is.
        assert branches["one_uint64"]["compressed_bytes"] <= branches["one_uint64"]["total_bytes"]


def check_baskets(found: dict[str, Any], codec: str) -> None:
    """One a cluster, and more only where that is too large."""
    most, clusters = 2**19 if codec.startswith(("zstd", "lzma")) else 54_000, len(found["clusters"])
    for name, branch in found["branches"].items():
        count, full = branch["baskets"], branch["total_bytes"]
        # Keys count as bytes, and entries are not cut.
        assert max(clusters, full / (most + 5000)) <= count <= clusters + full // most, name


@pytest.mark.parametrize("codec", CODECS)
def test_clusters_by_bytes(matrix: Read, table: Table, codec: str) -> None:
    found = matrix.check(f"bytes-{codec}.root", "t;1", table)
    entries = found["auto_flush"]
    assert 0 < entries < 2500
    assert found["clusters"] == [*range(entries, 2500, entries), 2500]
    assert 0.5 < found["compressed_bytes"] / 2500 * entries / 200_000 < 2
    check_baskets(found, codec)


@pytest.mark.parametrize("codec", CODECS)
def test_one_cluster(matrix: Read, table: Table, codec: str) -> None:
    found = matrix.check(f"one-{codec}.root", "t;1", table)
    assert found["clusters"] == [2500]
    check_baskets(found, codec)


def test_shapes_of_trees(folder: Path, root_python: Path) -> None:
    rng = np.random.default_rng(2)
    wide = {f"branch_{i:04}": rng.normal(size=10) for i in range(1500)}
    long = {"n" * 300: np.arange(3), "x": np.zeros(3)}
    muon = ak.zip({"pt": ak.Array([[1.5, 2.5], [], [3.5]]), "charge": ak.Array([[1, -1], [], [1]])})
    large = {"x": ak.unflatten(np.arange(5_000_000, dtype=np.int64), [2_500_000, 0, 2_500_000])}
    with sapwood.recreate(folder / "shapes.root", compression=sapwood.ZLIB(1)) as file:
        file["wide"] = wide
        file["a/b/long"] = long
        file["muons"] = {"Muon": muon, "met": {"pt": np.arange(3.0), "phi": np.ones(3, np.float32)}}
        file.mktree("empty", {"x": "float32", "y": "var * int64", "s": "string", "a": ("int8", (2, 2))})
        file["large"] = large
        tree = file.mktree("ragged", {"x": "int32"}, auto_flush=100)
        for size in (30, 100, 250, 5):
            tree.extend({"x": np.full(size, size)})
            tree.flush()
        file["wide"] = {"x": np.arange(2)}
    found = Read(root_python, folder, "shapes.root")
    found.check("shapes.root", "wide;1", wide)
    found.check("shapes.root", "wide;2", {"x": np.arange(2)})
    found.check("shapes.root", "a/b/long;1", long)
    muons = {"Muon_pt": muon.pt, "Muon_charge": muon.charge}
    assert found.files["shapes.root"]["content"]["muons;1"]["branches"]["Muon_pt"]["title"] == "Muon_pt[nMuon]/D"
    for name, values in muons.items():
        assert found.arrays[f"shapes.root|muons;1|{name}"].tobytes() == flat(values)[1]
    assert found.arrays["shapes.root|muons;1|met_pt"].tobytes() == np.arange(3.0).tobytes()
    empty = found.files["shapes.root"]["content"]["empty;1"]
    assert (empty["entries"], empty["clusters"], len(empty["branches"])) == (0, [], 5)
    found.check("shapes.root", "large;1", large)
    ragged = np.repeat([30, 100, 250, 5], [30, 100, 250, 5]).astype(np.int32)
    assert found.check("shapes.root", "ragged;1", {"x": ragged})["clusters"] == [30, 130, 230, 330, 380, 385]


def test_data_frames(matrix: Read, table: Table, folder: Path, root_python: Path) -> None:
    branches = ["fixed_int16", "many_int8", "fixed_float64", "none"]
    found = json.loads(run(root_python, "writing/update.py", "sums", folder / "entries-lz4-4.root", "t", *branches))
    wanted = [float(ak.sum(ak.values_astype(table[name], np.float64))) for name in branches]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("codec", ["none", "zstd5", "lz4-4"])
def test_merging(folder: Path, root_python: Path, codec: str) -> None:
    rng = np.random.default_rng(3)
    parts = [everything(rng, 400), everything(rng, 150)]
    for i, part in enumerate(parts):
        write(folder / f"part{i}-{codec}.root", {"t": part}, CODECS[codec], auto_flush=120)
    merged = f"merged-{codec}.root"
    inputs = [folder / f"part{i}-{codec}.root" for i in range(2)]
    run(root_python, "writing/update.py", "merge", folder / merged, *inputs)
    together = {
        name: values + parts[1][name] if isinstance(values, list) else ak.concatenate([values, parts[1][name]])
        for name, values in parts[0].items()
    }
    together = {k: v.to_numpy() if isinstance(v, ak.Array) and not is_jagged(v) else v for k, v in together.items()}
    together |= {k: ak.to_numpy(v) for k, v in together.items() if k == "cube" or k.startswith("fixed")}
    found = Read(root_python, folder, merged).check(merged, "t;1", together)
    assert {branch["baskets"] for branch in found["branches"].values()} == {4 + 2}, "baskets were copied as they are"


def test_root_goes_on_with_the_file(folder: Path, root_python: Path) -> None:
    path = folder / "updated.root"
    x, j = np.arange(300, dtype=np.float32), ak.Array([[1.0], [], [2.0, 3.0]] * 100)
    with sapwood.recreate(path) as file:
        file.mktree("t", {"x": x, "j": j}, auto_flush=100)
        file["dir/kept"] = "text"
    run(root_python, "writing/update.py", "add", path)
    x = np.append(x, np.array([-1, -2], np.float32))
    j = ak.concatenate([j, ak.Array([[10.0], [20.0, 40.0]])])
    content = Read(root_python, folder, path.name)
    content.check(path.name, "t;1", {"x": x, "j": j})
    assert set(content.files[path.name]["content"]) == {"t;1", "dir/kept;1", "added;1"}
    with sapwood.open(path) as file:
        arrays = file["t"].arrays()
        assert ak.array_equal(arrays.x, x)
        assert ak.array_equal(arrays.j, j)


def test_past_two_gigabytes(folder: Path, root_python: Path) -> None:
    """The first bytes of the tree lie before 2 GB, the last ones past it; between them is a hole that takes no disk."""
    path = folder / "past2gb.root"
    x = np.arange(30_000, dtype=np.float64)
    with sapwood.recreate(path, compression=None) as file:
        file["before"] = "text"
        tree = file.mktree("t", {"x": x[:10_000]}, auto_flush=10_000)
        file.file.native.leave_gap(1_999_900_000 - file.file.native.end)
        tree.extend({"x": x[10_000:]})
        file["after/h"] = np.histogram(x)
    assert 2_000_000_000 < path.stat().st_size < 2_001_000_000
    assert path.stat().st_blocks * 512 < 10_000_000
    found = Read(root_python, folder, path.name)
    assert found.check(path.name, "t;1", {"x": x})["clusters"] == [10_000, 20_000, 30_000]
    assert set(found.files[path.name]["content"]) == {"before;1", "t;1", "after/h;1"}
    for opened in (sapwood.open(path), uproot.open(path)):
        assert opened["t"]["x"].array(library="np").tolist() == x.tolist()
    path.unlink()


def test_root_reads_as_rarely_as_its_own_files(folder: Path, root_python: Path) -> None:
    rng = np.random.default_rng(8)
    table = {f"x{i}": np.round(rng.gamma(2, 10, 400_000), 2).astype(np.float32) for i in range(40)}
    path = folder / "calls.root"
    with sapwood.recreate(path, compression=sapwood.ZLIB(1)) as file:
        file["t"] = table
        assert file["t"].num_baskets > 1
    ours, theirs = json.loads(run(root_python, "writing/update.py", "reads", path, "t", folder / "copy.root"))
    assert ours <= theirs


def histograms() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    x, y, z = rng.normal(0.5, 0.4, (3, 1000))
    weight = rng.random(1000)
    word = rng.choice(["up", "down", "other"], 1000)
    axes = (bh.axis.Regular(5, 0, 1), bh.axis.Variable([0, 0.1, 0.5, 1]), bh.axis.Integer(0, 3))
    return {
        "weighted": hist.Hist.new.Reg(10, 0, 1, name="x", label="x [GeV]").Weight().fill(x, weight=weight),
        "counted": bh.Histogram(axes[0], storage=bh.storage.Int64()).fill(x),
        "plane": bh.Histogram(*axes[:2], storage=bh.storage.Weight()).fill(x, y, weight=weight),
        "space": bh.Histogram(*axes).fill(x, y, (5 * z).astype(int)),
        "words": hist.Hist.new.StrCat(["up", "down"], name="word").Reg(4, 0, 1).Double().fill(word, x),
        "noflow": bh.Histogram(bh.axis.Regular(4, 0, 1, underflow=False, overflow=False)).fill(x),
        "half": bh.Histogram(bh.axis.Regular(4, 0, 1, underflow=False)).fill(x),
        "log": hist.Hist.new.Log(4, 0.01, 1).Double().fill(x),
    }


def with_flow(histogram: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return values and variances with flow bins on all sides, in ROOT's order."""
    pads = [(int(not axis.traits.underflow), int(not axis.traits.overflow)) for axis in histogram.axes]
    return tuple(np.pad(part(flow=True), pads).T.reshape(-1) for part in (histogram.values, histogram.variances))


def test_histograms(folder: Path, root_python: Path) -> None:
    given = histograms()
    rng = np.random.default_rng(5)
    x, y = rng.random((2, 500))
    with sapwood.recreate(folder / "histograms.root") as file:
        for name, histogram in given.items():
            file[f"dir/{name}"] = histogram
        file["numpy"] = np.histogram(x, 7)
        file["titled"] = (*np.histogram(x, [0, 0.2, 1.0]), "a title")
        file["numpy2"] = np.histogram2d(x, y, (3, 4))
        file["numpy3"] = np.histogramdd((x, y, x), (2, 3, 4))
        file["float32"] = (np.array([1.5, 2.5], np.float32), np.array([0.0, 1.0, 2.0]))
    read = Read(root_python, folder, "histograms.root").files["histograms.root"]["content"]
    for name, histogram in given.items():
        found = read[f"dir/{name};1"]
        values, variances = with_flow(histogram)
        assert found["class"] == f"TH{histogram.ndim}D"
        assert found["cells"] == values.tolist(), name
        weighted = histogram.storage_type is bh.storage.Weight
        assert found["sumw2"] == (variances.tolist() if weighted else []), name
        for axis, ours in zip(found["axes"], histogram.axes, strict=True):
            np.testing.assert_allclose(axis["edges"], np.arange(len(ours) + 1) if axis["labels"] else ours.edges, 1e-15)
        assert found["integral"] == pytest.approx(histogram.sum().value if weighted else histogram.sum())
    assert read["dir/weighted;1"]["axes"][0]["title"] == "x [GeV]"
    assert [a["regular"] for a in read["dir/plane;1"]["axes"]] == [True, False]
    assert read["dir/words;1"]["axes"][0]["labels"] == ["up", "down"]
    counts, edges = np.histogram(x, 7)
    found = read["numpy;1"]
    assert found["cells"] == [0, *counts.tolist(), 0]
    assert found["entries"] == 500
    centers = (edges[1:] + edges[:-1]) / 2
    mean = (counts * centers).sum() / counts.sum()
    assert found["mean"] == [pytest.approx(mean)]
    assert found["deviation"] == [pytest.approx(np.sqrt((counts * (centers - mean) ** 2).sum() / counts.sum()))]
    assert (read["titled;1"]["title"], read["titled;1"]["axes"][0]["edges"]) == ("a title", [0, 0.2, 1.0])
    for name, dim in (("numpy2", 2), ("numpy3", 3)):
        assert read[f"{name};1"]["integral"] == 500
        assert len(read[f"{name};1"]["axes"]) == dim
    assert (read["float32;1"]["class"], read["float32;1"]["cells"]) == ("TH1D", [0, 1.5, 2.5, 0])


@pytest.mark.parametrize("weighted", [False, True])
def test_profile(folder: Path, root_python: Path, weighted: bool) -> None:
    rng = np.random.default_rng(6)
    x, y, weight = rng.normal(0.5, 0.4, 500), rng.normal(3, 1, 500), rng.random(500)
    profile = bh.Histogram(
        bh.axis.Regular(4, 0, 1), storage=bh.storage.WeightedMean() if weighted else bh.storage.Mean()
    )
    profile.fill(x, sample=y, **({"weight": weight} if weighted else {}))
    path = folder / f"profile{weighted}.root"
    with sapwood.recreate(path) as file:
        file["p"] = profile
    found = Read(root_python, folder, path.name).files[path.name]["content"]["p;1"]
    view = profile.view(flow=True)
    assert found["class"] == "TProfile"
    np.testing.assert_allclose(found["cells"], view["value"], 1e-12)
    np.testing.assert_allclose(found["bin_entries"], view["sum_of_weights" if weighted else "count"], 1e-12)
    weights = weight if weighted else np.ones(500)
    cell = np.digitize(x, [0, 0.25, 0.5, 0.75, 1])
    for i in range(6):
        w, inside = weights[cell == i], y[cell == i]
        mean = np.average(inside, weights=w)
        spread = np.sqrt(np.average((inside - mean) ** 2, weights=w))
        # ROOT's error of the mean: spread over the root of the effective entries.
        assert found["bin_errors"][i] == pytest.approx(spread / np.sqrt(w.sum() ** 2 / (w**2).sum()))
