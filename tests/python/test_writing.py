"""What is written comes back, with sapwood and with uproot; what cannot be written says why."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import uproot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sapwood
from sapwood.errors import ArgumentError, NotFoundError, StorageError, UnsupportedError
from sapwood.writing.columns import NUMBERS
from sapwood.writing.types import to_type

CODECS = [None, sapwood.ZLIB(1), sapwood.ZLIB(9), sapwood.LZMA(1), sapwood.LZ4(1), sapwood.LZ4(9), sapwood.ZSTD(1)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.root"


def written(path: Path, data: Any, **options: Any) -> sapwood.TTree:
    """Write a tree and open it."""
    with sapwood.recreate(path) as file:
        file.mktree("t", data, **options)
    return sapwood.open(path)["t"]


def lists(tree: Any) -> dict[str, list[Any]]:
    return {name: tree[name].array().tolist() for name in tree.keys()}  # noqa: SIM118 - a tree has keys of its own


# Any data


# A length of 255 and more is stored otherwise.
TEXTS = st.one_of(st.text(max_size=5), st.sampled_from(["x" * 254, "x" * 255, "ä" * 128, "x" * 300]))


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Draw tables of every type that branches have."""
    entries = draw(st.integers(0, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table: dict[str, Any] = {}
    for i in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["one", "fixed", "many", "rows", "text"]))
        dtype = draw(st.sampled_from(sorted(NUMBERS)))
        if kind == "text":
            texts = draw(st.lists(TEXTS, min_size=entries, max_size=entries))
            table[f"b{i}"] = ak.Array(texts) if texts else ak.Array([""])[:0]
            continue
        counts = rng.integers(0, 4, entries)
        shape = {"one": (entries,), "fixed": (entries, 2, 3), "many": (counts.sum(),), "rows": (counts.sum(), 2)}[kind]
        raw = rng.integers(0, 256, (*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
        values = (raw[..., 0] < 128) if dtype == "bool" else raw.view(dtype)[..., 0]
        values = np.nan_to_num(values) if dtype.startswith("float") else values
        table[f"b{i}"] = (
            values if kind in ("one", "fixed") else ak.unflatten(ak.from_numpy(values, regulararray=True), counts)
        )
    return table


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.data(),
    codec=st.sampled_from(CODECS),
    auto_flush=st.sampled_from([1, 7, 1000, -200, -3000, -30_000_000]),
    basket_size=st.sampled_from([1, 64, 1 << 20]),
)
def test_any_table_comes_back(path: Path, data: st.DataObject, codec: Any, auto_flush: int, basket_size: int) -> None:
    table = data.draw(tables())
    entries = len(next(iter(table.values())))
    cuts = sorted(data.draw(st.lists(st.integers(0, entries), max_size=3)))
    with sapwood.recreate(path, compression=codec) as file:
        types = {
            name: ak.type(values) if isinstance(values, ak.Array) else (values.dtype, values.shape[1:])
            for name, values in table.items()
        }
        tree = file.mktree("t", types, auto_flush=auto_flush, basket_size=basket_size)
        for start, stop in zip([0, *cuts], [*cuts, entries], strict=True):
            tree.extend({name: values[start:stop] for name, values in table.items()})
        assert tree.num_entries == entries
    for opened in (sapwood.open(path), uproot.open(path)):
        tree = opened["t"]
        assert tree.num_entries == entries
        for name, values in table.items():
            assert ak.to_list(tree[name].array()) == ak.to_list(values), name
            if isinstance(values, ak.Array) and f"n{name}" in tree.keys():  # noqa: SIM118
                assert ak.to_list(tree[f"n{name}"].array()) == ak.to_list(ak.num(values))


# Forms of data


@pytest.mark.parametrize(
    "data",
    [
        {"x": [1, 2, 3], "s": ["a", "", "ä"]},
        {"x": np.array([1, 2, 3], ">i8"), "s": np.array(["a", "", "ä"])},
        {"x": (1, 2, 3), "s": np.array(["a", "", "ä"], object)},
        {"x": pd.Series([1, 2, 3]), "s": pd.Series(["a", "", "ä"])},
        {"x": pa.array([1, 2, 3]), "s": pa.chunked_array([["a"], ["", "ä"]])},
        {"x": pl.Series([1, 2, 3]), "s": pl.Series(["a", "", "ä"])},
        {"x": np.arange(6)[::-2][::-1] // 2 + 1, "s": ak.Array(["-", "a", "", "ä", "-"])[1:-1]},
        {"x": np.ma.masked_array([1, 2, 3]), "s": ak.Array(["a", None, "", "ä"])[[0, 2, 3]]},
        ak.Array({"x": [1, 2, 3], "s": ["a", "", "ä"]}),
        pl.DataFrame({"x": [1, 2, 3], "s": ["a", "", "ä"]}),
        pa.table({"x": [1, 2, 3], "s": ["a", "", "ä"]}),
        np.array([(1, "a"), (2, ""), (3, "ä")], [("x", "i8"), ("s", "U1")]),
    ],
)
def test_forms_of_tables(path: Path, data: Any) -> None:
    tree = written(path, data)
    assert lists(tree) == {"x": [1, 2, 3], "s": ["a", "", "ä"]}
    assert tree["x"].typename == "int64_t"


def test_pandas_writes_its_index(path: Path) -> None:
    frame = pd.DataFrame({"x": [1.5, 2.5], 7: [True, False]}, index=[10, 20])
    assert lists(written(path, frame)) == {"index": [10, 20], "x": [1.5, 2.5], "7": [True, False]}


def test_records_become_branches(path: Path) -> None:
    muons = ak.zip({"pt": [[1.5, 2.5], [], [3.5]], "charge": [[1, -1], [], [1]]})
    nested = np.array([(1, (2.5, 3)), (4, (5.5, 6)), (7, (8.5, 9))], [("a", "i4"), ("b", [("c", "f8"), ("d", "i2")])])
    tree = written(path, {"Muon": muons, "met": {"pt": [1, 2, 3], "phi": [0.5, 1.5, 2.5]}, "r": nested})
    assert lists(tree) == {
        "nMuon": [2, 0, 1],
        "Muon_pt": [[1.5, 2.5], [], [3.5]],
        "Muon_charge": [[1, -1], [], [1]],
        "met_pt": [1, 2, 3],
        "met_phi": [0.5, 1.5, 2.5],
        "r_a": [1, 4, 7],
        "r_b.c": [2.5, 5.5, 8.5],
        "r_b.d": [3, 6, 9],
    }
    assert tree["Muon_pt"].typename == "double[]"
    assert lists(written(path, muons)) == {
        "n": [2, 0, 1],
        "pt": [[1.5, 2.5], [], [3.5]],
        "charge": [[1, -1], [], [1]],
    }
    tree = written(
        path,
        {"Jet": muons},
        counter_name=lambda name: f"{name}_size",
        field_name=lambda outer, inner: f"{outer}.{inner}",
    )
    assert tree.keys() == ["Jet_size", "Jet.pt", "Jet.charge"]


def test_counters_are_shared_and_compared(path: Path) -> None:
    a, b = ak.Array([[1], [], [2, 3]]), ak.Array([[1.5], [], [2.5, 3.5]])
    shared: dict[str, Any] = {"counter_name": lambda _: "n"}
    assert lists(written(path, {"a": a, "b": b}, **shared)) == {"n": [1, 0, 2], "a": a.tolist(), "b": b.tolist()}
    # An integer by the counter's name is the counter.
    for data in ({"na": [1, 0, 2], "a": a}, {"a": a, "na": np.array([1, 0, 2], np.int64)}):
        tree = written(path, data)
        assert lists(tree)["na"] == [1, 0, 2]
        assert tree["na"].typename == "int32_t"
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"a": "var * int64", "b": "var * float64"}, **shared)
        tree.extend({"a": a, "b": b, "n": [1, 0, 2]})
        with pytest.raises(ArgumentError, match="counter 'n' was given"):
            tree.extend({"a": a, "b": b, "n": [1, 0, 3]})
        with pytest.raises(ArgumentError, match="share the counter n"):
            tree.extend({"a": a, "b": b[::-1]})
        assert tree.num_entries == 3
        with pytest.raises(ArgumentError, match="not a single integer"):
            file.mktree("u", {"na": "float32", "a": "var * int64"})
        with pytest.raises(ArgumentError, match="'na' has the name of a counter"):
            file.mktree("u", {"a": "var * int64", "na": "float32"})


# Types


def test_lists_of_numbers_need_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    # Awkward makes its parser anew for each text: a tree of a thousand lists took half a minute.
    texts = {text + name: name for name in NUMBERS for text in ("var * ", " var*var * ")}
    parsed = {text: to_type(ak.types.from_datashape(text, highlevel=False)) for text in texts}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the parser was asked")

    monkeypatch.setattr(ak.types, "from_datashape", refuse)
    assert {text: to_type(text) for text in texts} == parsed


def test_types_in_all_spellings(path: Path) -> None:
    types = {
        "a": "float32",
        "b": np.dtype(">i2"),
        "c": bool,
        "d": ("int8", (2, 3)),
        "e": "var * int32",
        "f": "string",
        "g": ak.types.NumpyType("uint64"),
        "h": {"x": "f8", "y": "2 * int16"},
        "i": "var * {x: float32, y: int8}",
        "j": str,
    }
    tree = written(path, types)
    assert tree.num_entries == 0
    assert {name: tree[name].typename for name in tree.keys()} == {  # noqa: SIM118
        "a": "float", "b": "int16_t", "c": "bool", "d": "int8_t[2][3]", "ne": "int32_t", "e": "int32_t[]", "f": "char*",
        "g": "uint64_t", "h_x": "double", "h_y": "int16_t[2]", "ni": "int32_t", "i_x": "float[]", "i_y": "int8_t[]",
        "j": "char*",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ({"x": ["a", None]}, UnsupportedError, "missing values"),
        ({"x": ak.Array([1, None])}, UnsupportedError, "missing values"),
        ({"x": pd.Series([1, None], dtype="Int64")}, UnsupportedError, "missing values"),
        ({"x": np.ma.masked_array([1, 2], [0, 1])}, UnsupportedError, "masked"),
        ({"x": ak.Array([1, "a"])}, UnsupportedError, "union"),
        ({"x": np.array([1j])}, UnsupportedError, "complex"),
        ({"x": np.array(["2020-01-01"], "M8[D]")}, UnsupportedError, "datetime"),
        ({"x": np.zeros(1, np.float16)}, UnsupportedError, "float16"),
        ({"x": np.zeros((1, 0))}, UnsupportedError, "arrays of length 0"),
        ({"x": 1}, ArgumentError, "single value"),
        ({"x": [1, 2], "y": [1]}, ArgumentError, "branch y has 1 entries, but another branch has 2"),
        ({}, ArgumentError, "at least one branch"),
        ({1: [2]}, TypeError, "strings, not 1"),
        (7, TypeError, "not from int"),
        ({"x": "no such type"}, TypeError, "neither a NumPy dtype"),
        ({"x": "(no such, type)"}, TypeError, "neither a NumPy dtype"),
        ({"a": {"b": [1], "c": [1, 2]}}, ArgumentError, "different lengths"),
    ],
)
def test_what_cannot_be_a_tree(path: Path, data: Any, error: type[Exception], message: str) -> None:
    with sapwood.recreate(path) as file:
        with pytest.raises(error, match=message):
            file.mktree("t", data)
        file["t"] = {"x": [1]}
    assert sapwood.open(path)["t"].num_entries == 1


def test_integers_lose_fractions_with_a_warning(path: Path) -> None:
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"i": "int16", "j": "var * int8"})
        with pytest.warns(sapwood.SapwoodWarning, match=r"'i' takes integers: 2 values .* the first is 1.7"):
            tree.extend({"i": [1.7, -2.9, 3.0], "j": [[1], [], [2]]})
        with pytest.warns(sapwood.SapwoodWarning, match="'j'"):
            tree.extend({"i": [4], "j": [[5.5, -6.5]]})
    assert lists(sapwood.open(path)["t"])["i"] == [1, -2, 3, 4]
    assert lists(sapwood.open(path)["t"])["j"] == [[1], [], [2], [5, -6]]


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
def test_integers_in_lists_are_never_rounded(path: Path, make: str) -> None:
    large = 2**63 + 1
    for number, (kind, data) in enumerate([
        ("uint64", [large, 1]), ("uint64", [1, large]), ("uint64", [np.uint64(large), 1]), ("2 * uint64", [[1, large]]),
    ]):  # fmt: skip
        with sapwood.recreate(path) as file:
            getattr(file, make)("typed", {"x": kind}).extend({"x": data})
            getattr(file, make)("untyped", {"x": data})
        with sapwood.open(path) as file:
            for name in ("typed", "untyped"):
                assert file[name]["x"].array().tolist() == data, number
    with sapwood.recreate(path) as file:
        for data in ([2**53 + 1, 1.0], [[2**53 + 1, 1.5], [3]], [{"a": 2**53 + 1}, {"a": 0.5}]):
            with pytest.raises(ArgumentError, match="9007199254740993 would be rounded"):
                getattr(file, make)("t", {"x": data})
        with pytest.raises(ArgumentError, match="no integer type holds all"):
            getattr(file, make)("t", {"x": [large, -1]})
        with pytest.raises(ArgumentError, match="9223372036854775809 has more than 63 bits"):
            getattr(file, make)("t", {"x": [[large], []]})


def test_numbers_are_converted_if_they_fit(path: Path) -> None:
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"i": "int16", "u": "uint8", "f": "float32", "b": "bool", "j": "var * int8"})
        tree.extend({"i": [1.0, -2.0], "u": np.array([0, 255]), "f": [0.1, 2], "b": [1, 0], "j": [[1], []]})
        tree.extend({"i": [], "u": [], "f": [], "b": [], "j": []})
        good = {"i": [1], "u": [1], "f": [1], "b": [True], "j": [[1]]}
        for name, values in {"i": [32768], "u": [-1], "b": [2], "j": [[-129]]}.items():
            with pytest.raises(ArgumentError, match=f"branch {name!r} takes"):
                tree.extend(good | {name: values})
        with pytest.raises(ArgumentError, match="cannot hold 9007199254740993"):
            file.mktree("more", {"d": "float64"}).extend({"d": np.array([1, 2**53 + 1])})
        with pytest.raises(ArgumentError, match=r"cannot hold 1e\+300"):
            file.mktree("large", {"f": "float32"}).extend({"f": np.array([np.inf, np.nan, 1e300])})
        with pytest.raises(ArgumentError, match=r"cannot hold -1.5"):
            tree.extend(good | {"u": [-1.5]})
        with pytest.raises(ArgumentError, match="cannot hold nan"):
            tree.extend(good | {"i": [float("nan")]})
        assert tree.num_entries == 2
    assert lists(sapwood.open(path)["t"]) == {
        "i": [1, -2], "u": [0, 255], "f": [np.float32(0.1), 2], "b": [True, False], "nj": [1, 0], "j": [[1], []],
    }  # fmt: skip


def test_extend_wants_what_the_tree_takes(path: Path) -> None:
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"x": "float32", "a": ("int8", 2), "s": "string", "m": {"y": "int32"}})
        good = {"x": [1], "a": [[1, 2]], "s": ["a"], "m": {"y": [1]}}
        tree.extend(good)
        for change, message in [
            ({"x": [[1]]}, "'x' takes float32, not 1 \\* int64"),
            ({"a": [[1, 2, 3]]}, "'a' takes 2 \\* int8"),
            ({"s": [1]}, "'s' takes strings"),
            ({"m": {"z": [1]}}, "records of \\['y'\\]"),
            ({"q": [1]}, "no branch takes 'q'"),
        ]:
            with pytest.raises(ArgumentError, match=message):
                tree.extend(good | change)
        with pytest.raises(ArgumentError, match="missing 's', 'm'"):
            tree.extend({"x": [1], "a": [[1, 2]]})
    assert sapwood.open(path)["t"].num_entries == 1


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
def test_lists_of_records_may_all_be_empty(path: Path, make: str) -> None:
    full = [[{"pt": 1.5, "q": 1}], [], [{"pt": 2.5, "q": -1}, {"pt": 3.5, "q": 1}]]
    with sapwood.recreate(path) as file:
        table = getattr(file, make)("t", {"x": "var * {pt: float32, q: int8}"})
        for some in ([], [[]], [[], []], np.zeros((2, 0)), ak.Array([]), ak.Array([[], []]), ak.Array(full)):
            table.extend({"x": some})
        with pytest.raises(ArgumentError, match=r"takes .*, not int64"):
            table.extend({"x": [[1, 2]]})
        assert table.num_entries == 10
    found = sapwood.open(path)["t"]
    records = found["x"].array() if make == "mkrntuple" else ak.zip({n: found[f"x_{n}"].array() for n in ("pt", "q")})
    assert records.to_list() == [[]] * 7 + full


# Files and directories


def test_directories_and_cycles(path: Path) -> None:
    with sapwood.recreate(path) as file:
        file["a/b/t"] = {"x": [1]}
        file["a/b/t"] = {"x": [1, 2]}
        file["text"] = "hello"
        inner = file.mkdir("a/c", "a title")
        inner["h"] = np.histogram([1, 2])
        assert file.mkdir("a/b").keys() == ["t;2", "t;1"]
        assert file.keys(recursive=False, cycle=False) == ["a", "text"]
        assert file.keys() == ["a;1", "a/b;1", "a/b/t;2", "a/b/t;1", "a/c;1", "a/c/h;1", "text;1"]
        assert file.keys(filter_classname="TH*") == ["a/c/h;1"]
        assert (len(file), "a/b/t" in file, "a/b/t;3" in file) == (7, True, False)
        assert file["a/b/t"].num_entries == 2
        assert file["a/b"]["t;1"].num_entries == 1
        with pytest.raises(NotFoundError, match="no object named 'a/z'"):
            file["a/z"]
        assert file["text"] == "hello" and inner["h"].values().sum() == 2
        with pytest.raises(ArgumentError, match="an object has that name"):
            file.mkdir("text")
        with pytest.raises(ArgumentError, match="a directory has that name"):
            file["a"] = "text"
        with pytest.raises(TypeError, match="cannot be stored in a ROOT file"):
            file["n"] = 7
        with pytest.raises(ArgumentError, match="is empty or has a slash"):
            file[""] = "text"
        keys = file.keys()
    with sapwood.open(path) as back:
        assert sorted(back.keys()) == sorted(keys)
        assert back["a/b/t;1"]["x"].array().tolist() == [1]
        assert back["a/b/t"]["x"].array().tolist() == [1, 2]
    assert uproot.open(path)["text"] == "hello"


def test_opening(path: Path) -> None:
    with sapwood.create(path) as file:
        assert (file.closed, file.file_path, file.object_path) == (False, str(path), "/")
    assert file.closed
    file.close()
    for act in (
        lambda: file.mktree("t", {"x": [1]}),
        lambda: file.mkdir("d"),
        lambda: file["a"],
        lambda: file.__setitem__("a", "b"),
    ):
        with pytest.raises(ValueError, match="closed file"):
            act()
    with pytest.raises(FileExistsError):
        sapwood.create(path)
    with pytest.raises((FileExistsError, NotADirectoryError)):
        sapwood.recreate(path / "none" / "x.root")  # in a file
    with pytest.raises(TypeError, match="compression"):
        sapwood.recreate(path, compression=5)
    assert path.stat().st_size > 0


def test_streams(path: Path) -> None:
    stream = io.BytesIO(b"old" * 1000)
    with sapwood.recreate(stream) as file:
        file["t"] = {"x": np.arange(10)}
    path.write_bytes(stream.getvalue())
    assert sapwood.open(path)["t"]["x"].array().tolist() == list(range(10))
    with path.open("wb", buffering=0) as raw, sapwood.recreate(raw) as file:
        file["t"] = {"x": np.arange(10)}
    assert sapwood.open(path)["t"].num_entries == 10


def test_an_exception_leaves_what_was_given(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), sapwood.recreate(path) as file:
        tree = file.mktree("t", {"x": np.arange(5)})
        tree.extend({"x": np.arange(5)})
        1 / 0  # noqa: B018
    assert sapwood.open(path)["t"].num_entries == 10


def test_a_file_that_nobody_closes_is_written(path: Path) -> None:
    sapwood.recreate(path)["t"] = {"x": [1, 2, 3]}
    gc.collect()
    assert sapwood.open(path)["t"].num_entries == 3
    script = f"import sapwood; f = sapwood.recreate({str(path)!r}); f['t'] = {{'x': [1]}}; f.mktree('u', {{'y': [2]}})"
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
    assert sapwood.open(path).keys() == ["t;1", "u;1"]


def test_arrays_may_be_changed_after_extend(path: Path) -> None:
    x = np.arange(1000, dtype=np.float32)
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"x": x})
        x[:] = -1
        tree.extend({"x": x})
        x[:] = -2
    assert sapwood.open(path)["t"]["x"].array().tolist() == [*range(1000), *[-1] * 1000]


def test_commits_are_readable_while_writing_goes_on(path: Path) -> None:
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"x": "int32", "s": "string"}, auto_flush=100)
        for done in range(1, 6):
            tree.extend({"x": np.arange(130), "s": ["s"] * 130})
            file.commit()
            assert tree.num_entries_written == done * 130
            with sapwood.open(path) as back, uproot.open(path) as other:
                assert back["t"].num_entries == other["t"].num_entries == tree.num_entries_written
                assert back["t"]["s"].array().tolist() == ["s"] * tree.num_entries_written
        tree.extend({"x": np.arange(250), "s": ["s"] * 250})
        assert tree.num_entries_written == 850
        with sapwood.open(path) as back:
            assert back["t"].num_entries == 850
        tree.flush()
        assert tree.num_entries_written == 900
    assert sapwood.open(path)["t"].num_entries == 900


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk(path: Path) -> None:
    with pytest.raises(StorageError, match="No space left"):
        sapwood.recreate("/dev/full")["t"] = {"x": [1]}
    limit = 300_000
    script = f"""
import resource, signal, numpy as np, sapwood
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
with sapwood.recreate({str(path)!r}, compression=None) as file:
    tree = file.mktree("t", {{"x": "float64"}}, auto_flush=5000)
    try:
        for i in range(20):
            tree.extend({{"x": np.arange(1000.0 * i, 1000.0 * (i + 3))}})
    except sapwood.StorageError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "35000 entries of tree t are safe" in done.stdout
    assert sapwood.open(path)["t"].num_entries == 35_000
    assert path.stat().st_size <= limit


def test_compression_by_branch(path: Path) -> None:
    zeros = np.zeros(10_000)
    with sapwood.recreate(path, compression=sapwood.LZ4(1)) as file:
        tree = file.mktree("t", {"x": "float64", "y": "float64"})
        assert (tree.compression, file.compression) == (sapwood.LZ4(1), sapwood.LZ4(1))
        tree["y"].compression = None
        assert tree.compression == {"x": sapwood.LZ4(1), "y": None}
        tree.extend({"x": zeros, "y": zeros})
        file.compression = sapwood.ZLIB(3)
        file["u"] = {"x": zeros}
        tree.compression = {"x": sapwood.ZSTD(1), "y": None}
        assert tree["x"].compression == sapwood.ZSTD(1)
        with pytest.raises(TypeError, match="exactly the names"):
            tree.compression = {"x": None}
        with pytest.raises(NotFoundError):
            tree["z"]
    with uproot.open(path) as back:
        assert back["t"]["x"].compression == uproot.ZSTD(1)
        assert back["t"]["y"].compressed_bytes == back["t"]["y"].uncompressed_bytes
        assert back["u"]["x"].compression == uproot.ZLIB(3)
        assert back.file.compression == uproot.ZLIB(3)
        assert back["t"]["x"].array().tolist() == zeros.tolist()


def test_histograms_come_back_with_uproot(path: Path) -> None:
    rng = np.random.default_rng(1)
    histogram = hist.Hist.new.Reg(4, 0, 1, name="x", label="x [cm]").Var([0, 1, 5], name="y").Weight()
    histogram.fill(rng.random(100), 3 * rng.random(100), weight=rng.random(100))
    with sapwood.recreate(path) as file:
        file.update({"h": histogram, "n": (np.array([1, 2]), np.array([0.0, 1.0, 3.0]), "title")}, s="text")
    with uproot.open(path) as back:
        again = back["h"].to_hist()
        assert np.array_equal(again.view(flow=True), histogram.view(flow=True))
        assert back["n"].title == "title"
        assert back["n"].axis().edges().tolist() == [0, 1, 3]
        assert back["h"].axis(0).member("fTitle") == "x [cm]"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((np.array([1, 2]), np.array([0.0, 1.0])), "has one more"),
        ((np.array([1]), np.array([1.0, 0.0])), "each larger than the one before"),
        (hist.Hist.new.Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Double(), "1, 2 or 3"),
    ],
)
def test_histograms_that_cannot_be_written(path: Path, data: Any, message: str) -> None:
    with sapwood.recreate(path) as file:
        with pytest.raises((ArgumentError, UnsupportedError), match=message):
            file["h"] = data
        assert file.keys() == []


@pytest.mark.slow
def test_killed_at_any_moment(path: Path) -> None:
    """What was committed when the process was killed is there, whatever it was doing."""
    script = f"""
import numpy as np, sapwood
file = sapwood.recreate({str(path)!r}, compression=sapwood.LZ4(1))
tree = file.mktree("a/t", {{"x": "int64", "j": "var * int16"}}, auto_flush=50)
for i in range(100_000):
    x = np.arange(50 * i, 50 * (i + 1))
    tree.extend({{"x": x, "j": np.tile(x, 3).reshape(3, 50).T[:, : 1 + i % 3].tolist()}})
    if i % 5 == 0:
        file[f"text{{i}}"] = "x" * i
    file.commit()
    print(50 * (i + 1), flush=True)
"""
    rng = np.random.default_rng(7)
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            seen = [child.stdout.readline()]
            time.sleep(rng.uniform(0, 0.15))
            child.kill()
            seen += child.stdout.readlines()
        committed = int(seen[-1] if seen[-1].endswith("\n") else seen[-2])
        for opened in (sapwood.open(path), uproot.open(path)):
            tree = opened["a/t"]
            assert committed <= tree.num_entries <= committed + 50
            assert tree["x"].array(library="np").tolist() == list(range(tree.num_entries))
            assert ak.num(tree["j"].array()).tolist() == [1 + i // 50 % 3 for i in range(tree.num_entries)]


def test_threads_write_to_one_file(path: Path) -> None:
    with sapwood.recreate(path) as file, ThreadPoolExecutor(4) as pool:
        trees = [file.mktree(f"t{i}", {"x": "int64"}, auto_flush=1000) for i in range(4)]

        def fill(tree: sapwood.WritableTree) -> None:
            for start in range(0, 20_000, 300):
                tree.extend({"x": np.arange(start, min(start + 300, 20_000))})

        list(pool.map(fill, trees))
    with sapwood.open(path) as back:
        for i in range(4):
            assert np.array_equal(back[f"t{i}"]["x"].array(library="np"), np.arange(20_000))


def test_many_branches_and_threads(path: Path) -> None:
    data = {f"branch{i}": np.full(100, i, np.int32) for i in range(2000)}
    before = sapwood.num_threads()
    sizes = []
    try:
        for threads in (1, 4):
            sapwood.set_num_threads(threads)
            tree = written(path, data, auto_flush=30)
            assert (
                tree.arrays(["branch0", "branch1999"], entry_start=98).tolist()
                == [{"branch0": 0, "branch1999": 1999}] * 2
            )
            sizes.append(path.stat().st_size)
    finally:
        sapwood.set_num_threads(before)
    assert abs(sizes[0] - sizes[1]) < 50, "only dates and identities differ"


def test_an_atomic_file_is_there_when_it_is_whole(path: Path) -> None:
    with sapwood.recreate(path) as file:
        file["old"] = "text"
    with sapwood.recreate(path, atomic=True) as file:
        file["t"] = {"x": [1, 2]}
        assert sapwood.open(path).keys() == ["old;1"]
    assert sapwood.open(path).keys() == ["t;1"]
    with pytest.raises(KeyError), sapwood.recreate(path, atomic=True) as file:
        file["gone"] = "text"
        raise KeyError
    assert sapwood.open(path).keys() == ["t;1"]
    with pytest.raises(FileExistsError):
        sapwood.create(path, atomic=True)
    with pytest.raises(ArgumentError, match="needs a path"):
        sapwood.recreate(io.BytesIO(), atomic=True)
    assert list(path.parent.iterdir()) == [path]


def test_an_atomic_file_that_somebody_removed_is_a_storage_error(path: Path) -> None:
    file = sapwood.recreate(path, atomic=True)
    (beside,) = path.parent.iterdir()
    beside.unlink()
    with pytest.raises(sapwood.StorageError, match="partial"):
        file.close()
    file = sapwood.recreate(path, atomic=True)
    path.mkdir()
    with pytest.raises(sapwood.StorageError, match="directory"):
        file.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])  # by Ctrl-C; by SIGTERM, in a command
def test_nothing_is_kept_of_an_atomic_file_whose_closing_is_interrupted(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def interrupted(_: int) -> None:
        raise error

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(error), sapwood.recreate(path, atomic=True) as file:
        file["t"] = "text"
    assert not list(path.parent.iterdir())


def test_nothing_is_kept_of_an_atomic_file_that_had_no_room(path: Path) -> None:
    with sapwood.recreate(path) as file:
        file["old"] = "text"
    script = f"""
import resource, signal, numpy as np, sapwood
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    with sapwood.recreate({str(path)!r}, compression=None, atomic=True) as file:
        tree = file.mktree("t", {{"x": "float64"}}, auto_flush=5000)
        try:
            tree.extend({{"x": np.arange(60_000.0)}})
        except sapwood.StorageError as error:
            print(error)
except sapwood.StorageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    extended, closed = done.stdout.splitlines()
    assert "0 entries of tree t are safe: the file was discarded, and the file at its path did not change" in extended
    assert closed.endswith("so the file was discarded")
    assert sapwood.open(path).keys() == ["old;1"]
    assert list(path.parent.iterdir()) == [path]


def test_maps_of_arrow(path: Path) -> None:
    maps = [[("a", 1), ("b", 2)], [], [("c", 3)]]
    one = pa.array(maps, pa.map_(pa.string(), pa.int32()))
    inner = pa.ListArray.from_arrays([0, 2, 2, 3], one)
    struct = pa.StructArray.from_arrays([one, pa.array([1, 2, 3])], ["m", "n"])
    table = pa.table({"m": one, "l": inner, "s": struct})
    with sapwood.recreate(path) as file:
        file["t"] = table
        file["r"] = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
    with sapwood.open(path) as file:
        for name in ("t", "r"):
            tree = file[name]
            assert tree["m"].typename == "std::map<std::string, int32_t>"
            assert tree["l"].typename == "std::vector<std::map<std::string, int32_t>>"
            assert tree["m"].array().to_list() == tree["s_m"].array().to_list() == maps
            assert tree["l"].array().to_list() == [maps[:2], [], maps[2:]]
    with sapwood.recreate(path) as file, pytest.raises(UnsupportedError, match="missing"):
        file["t"] = pa.table({"m": pa.array([None], one.type)})


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("of", ["map<int, float>", "multimap<int, float>"])
def test_maps_of_numbers_of_one_length(path: Path, make: str, of: str) -> None:
    for data in ([{1: 0.5}], [{1: 0.5}, {2: 1.5}], [{}], [[(1, 0.5)], [(2, 1.5)]]):
        with sapwood.recreate(path) as file:
            getattr(file, make)("t", {"m": of}).extend({"m": data})
        with sapwood.open(path) as file:
            pairs = [[*one.items()] if isinstance(one, dict) else one for one in data]
            assert file["t/m"].array().to_list() == pairs, data


def test_dicts_in_lists_are_maps_where_the_type_says_so(path: Path) -> None:
    data = [[{"a": 1.0}, {"b": 2.0, "c": 3.0}], [], [{}]]
    with sapwood.recreate(path) as file:
        file.mktree("t", {"m": "vector<map<string,double>>"}).extend({"m": data})
        file.mktree("u", {"m": data}, branch_types={"m": "vector<map<string,double>>"})
    with sapwood.open(path) as file:
        for name in ("t", "u"):
            found = file[name]["m"].array().to_list()
            assert found == [[list(one.items()) for one in entry] for entry in data]


def test_members_of_records_have_types_of_c(path: Path) -> None:
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"a": "var * {x: Double32_t[0,1,12], y: float32}", "b": "{k: Float16_t, n: int32}"})
        tree.extend({"a": [[{"x": 0.5, "y": 2.0}], []], "b": [{"k": 1.0, "n": 1}, {"k": 2.0, "n": 2}]})
    with sapwood.open(path) as file:
        assert file["t/a_x"].typename.startswith("Double32_t")
        assert file["t/a_x"].array().to_list() == [[0.5], []]
        assert file["t/b_k"].array().to_list() == [1.0, 2.0]


@pytest.mark.parametrize("size", [-1, 0, 1 << 70, {"x": 1000}, 1.5, True])
def test_sizes_of_baskets_are_checked(path: Path, size: Any) -> None:
    with sapwood.recreate(path) as file, pytest.raises(ArgumentError, match="basket_size"):
        file.mktree("t", {"x": "int32"}, basket_size=size)


def test_what_is_new_is_there_at_once() -> None:
    code = "import sapwood; print(sapwood.new.TNamed.__module__ if hasattr(sapwood.new, 'TNamed') else sapwood.new)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "sapwood.new" in done.stdout


def test_clusters_are_committed(path: Path) -> None:
    def seen() -> int:
        with sapwood.open(path) as file:
            return file["t"].num_entries if "t" in file else 0

    table = {"x": np.arange(100)}
    for every, after in (("cluster", [100, 200, 300]), (None, [0, 0, 0]), (1500, [0, 200, 200])):
        with sapwood.recreate(path, compression=None, commit_every=every) as file:
            assert sapwood.open(path).keys() == []
            tree = file.mktree("t", {"x": "int64"}, auto_flush=100)
            for wanted in after:
                tree.extend(table)
                assert seen() == wanted
        assert seen() == 300
    with pytest.raises(ArgumentError, match="commit_every"):
        sapwood.recreate(path, commit_every="never")


@pytest.mark.parametrize("clusters", [3, 16])
def test_what_opening_asks_for_is_at_the_end(path: Path, clusters: int) -> None:
    """So that a file far away opens by one request; committed first with the first cluster."""
    chance = np.random.default_rng(3)
    columns = {f"x{number}": chance.random(20_000) for number in range(2)}
    with sapwood.recreate(path, compression=None) as file:
        tree = file.mktree("events", dict.fromkeys(columns, "float64"), auto_flush=20_000)
        for _ in range(clusters):
            tree.extend(columns)
    with uproot.open(path) as file:
        header, names = file.file, file.file.streamers
        assert ("TTree" in names) and file["events"].num_entries == clusters * 20_000
        assert file["events/x1"].array(library="np").tolist() == columns["x1"].tolist() * clusters
        places = [header.fSeekInfo, header.fSeekFree, file.key("events").fSeekKey]
    size = path.stat().st_size
    # Not in files of which all is near the end.
    assert (min(places) > size - (64 << 10)) == (size > 4 << 20)
    with sapwood.update(path) as file:
        file["more"] = "text"
    assert sapwood.open(path)["events/x0"].array().to_list() == columns["x0"].tolist() * clusters


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    def write(path: Path, **more: Any) -> bytes:
        with sapwood.recreate(path, reproducible=True, **more) as file:
            file.mktree("d/t", {"x": np.arange(10_000), "j": ak.Array([[1, 2], []] * 5000)}, auto_flush=3000)
            file["h"] = np.histogram(np.arange(10))
        return path.read_bytes()

    (tmp_path / "b").mkdir()
    first = write(tmp_path / "a.root")
    time.sleep(1.1)
    before = sapwood.num_threads()
    sapwood.set_num_threads(1)
    try:
        assert write(tmp_path / "b" / "a.root") == first
    finally:
        sapwood.set_num_threads(before)
    assert write(tmp_path / "a.root", uuid_function=lambda: uuid.UUID(int=7)) != first


def test_a_closed_pipe() -> None:
    class Pipe(io.BytesIO):
        room = 100_000

        def write(self, data: Any) -> int:
            if self.tell() + len(data) > self.room:
                raise BrokenPipeError(32, "Broken pipe")
            return super().write(data)

    pipe = Pipe()
    table = {"x": np.arange(1000)}
    message = r"Broken pipe.*: \d+000 entries of tree t are safe"
    with pytest.raises(StorageError, match=message), sapwood.recreate(pipe, compression=None) as file:
        tree = file.mktree("t", {"x": "int64"}, auto_flush=1000)
        for _ in range(100):
            tree.extend(table)
    entries = tree.num_entries_written
    assert entries > 5000
    assert sapwood.open(io.BytesIO(pipe.getvalue()))["t"].num_entries in (entries, entries - 1000)


def test_eight_thousand_branches_take_four_times_as_much_as_two_thousand(path: Path) -> None:
    sizes: list[int] = []
    for number in (2000, 8000):
        table = {f"branch_{i}": np.arange(20, dtype=np.float32) for i in range(number)}
        with sapwood.recreate(path) as file:
            file.mktree("t", table, auto_flush=10)
        sizes.append(path.stat().st_size)
    assert sizes[1] < 4.1 * sizes[0]
    with sapwood.open(path) as file:
        tree = file["t"]
        assert len(tree.keys()) == 8000
        assert tree["branch_7999"].array().tolist() == list(range(20))


def test_dicts_are_maps_where_the_branch_holds_maps(tmp_path: Path) -> None:
    data = [{"a": 1.0}, {}, {"b": 2, "c": 3}]
    with sapwood.recreate(tmp_path / "maps.root") as file:
        tree = file.mktree("typed", {"m": "map<string, double>"})
        tree.extend({"m": data})
        tree.extend({"m": [{}]})
        file.mktree("given", {"m": data, "x": [1, 2, 3]}, branch_types={"m": "map<string, double>"})
    with sapwood.update(tmp_path / "maps.root") as file:
        file["typed"].extend({"m": data})
    with sapwood.open(tmp_path / "maps.root") as file:
        assert [dict(entry) for entry in file["typed/m"].array().tolist()] == [*data, {}, *data]
        assert [dict(entry) for entry in file["given/m"].array().tolist()] == data


def test_what_was_written_is_read_from_the_file_that_is_written(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["folder/h"] = np.histogram([1.0, 2.0, 2.0], bins=2)
        tree = file.mktree("t", {"x": np.int32})
        tree.extend({"x": np.arange(5, dtype=np.int32)})
        assert file["folder/h"].values().tolist() == file["folder"]["h"].values().tolist() == [1, 2]
        assert file["t"].arrays().x.to_list() == [0, 1, 2, 3, 4]
        tree.extend({"x": np.arange(5, 8, dtype=np.int32)})
        assert tree.arrays(entry_start=4).x.to_list() == [4, 5, 6, 7]
        text = io.StringIO()
        tree.show(stream=text)
        assert "int32_t" in text.getvalue()
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["t"]["x"].array().to_list() == list(range(8))


def test_folders_and_urls_of_files_are_made(tmp_path: Path) -> None:
    for target in (tmp_path / "a" / "b.root", f"{tmp_path}/c/d/e.root", f"file://{tmp_path}/f/g.root"):
        with sapwood.recreate(target) as file:
            file["text"] = "here"
    for path in ("a/b.root", "c/d/e.root", "f/g.root"):
        with sapwood.open(tmp_path / path) as file:
            assert file["text"] == "here"
    with pytest.raises(ArgumentError, match="only URLs take options of storage: profile"):
        sapwood.recreate(tmp_path / "h.root", profile="x")
    with pytest.raises(FileExistsError):
        sapwood.create(f"file://{tmp_path}/f/g.root")


def test_urls_are_written_when_the_file_is_closed_and_not_after_an_exception(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    memory, url = fsspec.filesystem("memory"), "memory://sapwood/new/file.root"
    file = sapwood.recreate(url)
    file["t"] = {"x": [1, 2, 3]}
    assert file["t"].arrays().x.to_list() == [1, 2, 3]
    assert not memory.exists(url)
    file.close()
    first = memory.cat(url)
    with sapwood.open(first) as read:
        assert read["t"]["x"].array().to_list() == [1, 2, 3]
    with pytest.raises(RuntimeError), sapwood.recreate(url) as file:
        file["text"] = "lost"
        raise RuntimeError
    assert memory.cat(url) == first
    with pytest.raises(FileExistsError):
        sapwood.create(url)
    assert list(tmp_path.iterdir()) == []

    def full(*_: object, **__: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(type(memory), "put_file", full)
    monkeypatch.setattr("sapwood.writing.output.PAUSES", ())
    file = sapwood.recreate(url)
    file["text"] = "kept"
    with pytest.raises(StorageError, match="no space; the file was kept as"):
        file.close()
    (kept,) = tmp_path.iterdir()
    with sapwood.open(kept) as read:
        assert read["text"] == "kept"


def test_a_file_whose_writer_nobody_refers_to_can_be_made_again(tmp_path: Path) -> None:
    def left() -> None:
        file = sapwood.recreate(tmp_path / "a.root")
        file["t"] = {"x": [1]}
        raise RuntimeError

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(RuntimeError):
            left()
        with sapwood.recreate(tmp_path / "a.root") as file:
            file["text"] = "again"
    finally:
        gc.enable()
    with sapwood.open(tmp_path / "a.root") as file:
        assert file.keys() == ["text;1"]


def test_branches_have_the_titles_that_are_given(tmp_path: Path) -> None:
    titles = {"x": "position / cm", "nv": "how many"}
    with sapwood.recreate(tmp_path / "t.root") as file:
        file.mktree("t", {"x": np.arange(5.0), "v": ak.Array([[1, 2], [], [3], [], []])}, titles=titles)
        with pytest.raises(ArgumentError, match="'y'"):
            file.mktree("u", {"x": np.arange(5.0)}, titles={"y": "none"})
    with sapwood.open({tmp_path / "t.root": "t"}) as tree:
        assert {branch.name: branch.title for branch in tree} == {**titles, "v": "v[nv]/L"}
        assert tree.arrays(["v", "x"]).v.to_list() == [[1, 2], [], [3], [], []]
    with sapwood.update(tmp_path / "t.root") as file:
        file["t"].extend({"x": [9.0], "v": [[7]]})
    with sapwood.open({tmp_path / "t.root": "t"}) as tree:
        assert tree["x"].title == titles["x"] and tree["x"].array().to_list() == [0, 1, 2, 3, 4, 9]


def test_a_file_being_written_lists_its_objects(tmp_path: Path) -> None:
    made = sapwood.to_writable(np.histogram([0.5, 1.5, 1.5], bins=2, range=(0, 2)))
    assert made.classname == "TH1D"
    with sapwood.recreate(tmp_path / "o.root") as file:
        file["text"], file["h"] = "words", made
        assert [name for name, _ in file.items()] == list(file.iterkeys()) == ["text;1", "h;1"]
        assert file.get("none", 7) == 7 and file.get("h").values().tolist() == [1.0, 2.0]
        found = file.values()[1]
        assert sapwood.to_writable(found) is found


def test_options_and_errors_that_scripts_for_uproot_expect(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "x.root"
    with sapwood.create(path, auto_mkdir=True) as file:
        for make in (file.mktree, file.mkrntuple):
            with pytest.raises(TypeError, match="complex64"):
                make("t", {"x": np.dtype("complex64")})
        with pytest.raises(TypeError, match="cannot be written"):
            file.mktree("t", {"x": ak.Array([1, "two", [3.0]])})
    with sapwood.update(path, auto_mkdir=True) as file:
        file["said"] = "hello"
    with pytest.raises(TypeError, match="handler is"):
        sapwood.open(path, handler="nothing")
    assert sapwood.open(path).keys() == ["said;1"]


def test_a_matrix_of_numpy_is_written_as_its_rows() -> None:
    held = io.BytesIO()
    with sapwood.recreate(held) as file:
        file["t"] = {"x": np.array([[1, 2], [3, 4]]).view(np.matrix)}
    assert sapwood.open(held.getvalue())["t/x"].array().to_list() == [[1, 2], [3, 4]]


def test_contents_of_histograms_that_doubles_cannot_hold_are_refused() -> None:
    with sapwood.recreate(io.BytesIO()) as file, pytest.raises(ArgumentError, match="cannot hold 9007199254740993"):
        file["h"] = (np.array([2**53 + 1]), np.array([0.0, 1.0]))
