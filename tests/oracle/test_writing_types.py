"""Containers, records and classes as sapwood writes them, read by ROOT, by uproot and by sapwood itself."""

from __future__ import annotations

import json
import subprocess
from itertools import product
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood
from recipes import run

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

ENTRIES = 40


def lists(rng: np.random.Generator, content: Any) -> Any:
    """Put all of the content into lists, some of them empty."""
    counts = rng.multinomial(len(content), np.ones(ENTRIES) / ENTRIES)
    return ak.unflatten(content, counts)


def table(rng: np.random.Generator) -> dict[str, Any]:
    """Return data for containers, objects and lists of objects."""
    many = ENTRIES * 2
    words = np.array(["", "abc", "äöü€", "y" * 255])[rng.integers(0, 4, many)].tolist()
    inner = ak.unflatten(ak.Array(rng.normal(size=200)), rng.multinomial(200, np.ones(many) / many))
    whole = ak.zip({"a": rng.integers(-9, 9, ENTRIES, np.int32), "b": rng.random(ENTRIES, np.float32)}, with_name="In")
    points = ak.zip({"x": rng.normal(size=many), "q": rng.integers(-1, 2, many, np.int8)}, with_name="Point")
    rich = ak.zip(
        {
            "e": rng.normal(size=many),
            "w": words,
            "ids": ak.values_astype(inner, np.int16),
            "p": rng.random((many, 3), np.float32),
        },
        depth_limit=1,
        with_name="Rich",
    )
    return {
        "vv": lists(rng, inner),
        "vvv": lists(rng, ak.unflatten(inner, np.full(many // 2, 2))),
        "vs": lists(rng, words),
        "vb": lists(rng, rng.random(many) < 0.5),
        "text": ak.Array(words[:ENTRIES]),
        "ev.": ak.zip(
            {
                "id": np.arange(ENTRIES),
                "flag": rng.random(ENTRIES) < 0.5,
                "in": whole,
                "v": lists(rng, rng.random(many, np.float32)),
                "points": lists(rng, points),
                "m": rng.integers(0, 99, (ENTRIES, 2, 2), np.uint16),
                "s": words[:ENTRIES],
            },
            depth_limit=1,
            with_name="Event",
        ),
        "points": lists(rng, points),
        "rich": lists(rng, rich),
        "leaves": ak.zip(
            {
                "a": rng.normal(size=ENTRIES),
                "b": rng.integers(0, 9, ENTRIES, np.uint8),
                "c": rng.integers(0, 9, (ENTRIES, 2), np.int32),
            },
            depth_limit=1,
        ),
    }


TYPES = {"text": "std::string"}
RECORDS = {"ev.": "class", "points": "class", "rich": "class", "leaves": "leaves"}
LISTS = {"vv": "vector", "vb": "vector"}
# What `TTree::Draw` calls them, and where they are.
EXPRESSIONS = {
    "ev.id": ("ev.", "id"),
    "ev.flag": ("ev.", "flag"),
    "ev.in.a": ("ev.", "in", "a"),
    "ev.in.b": ("ev.", "in", "b"),
    "ev.v": ("ev.", "v"),
    "ev.points.x": ("ev.", "points", "x"),
    "ev.points.q": ("ev.", "points", "q"),
    "ev.m": ("ev.", "m"),
    "points.x": ("points", "x"),
    "points.q": ("points", "q"),
    "rich.e": ("rich", "e"),
    "rich.ids": ("rich", "ids"),
    "rich.p": ("rich", "p"),
    "leaves.a": ("leaves", "a"),
    "leaves.b": ("leaves", "b"),
    "leaves.c": ("leaves", "c"),
}
NESTED = ("vv", "vvv", "vs", "vb", "text")


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return table(np.random.default_rng(1))


def flat(values: Any) -> list[float]:
    return ak.to_numpy(ak.flatten(values, axis=None)).astype(float).tolist()


def member(data: dict[str, Any], path: tuple[str, ...]) -> Any:
    values = data[path[0]]
    for name in path[1:]:
        values = values[name]
    return values


def plain(name: str, value: Any) -> Any:
    """Take the prefixes of split branches off the names of fields."""
    if isinstance(value, dict):
        short = {key.rpartition(".")[2].partition("[")[0]: plain(name, inner) for key, inner in value.items()}
        columns = list(short.values())
        listed = columns and all(isinstance(column, list) for column in columns) and name in ("points", "rich")
        if listed:
            return [dict(zip(short, row, strict=True)) for row in zip(*columns, strict=True)]
        return {key: plain(key, inner) for key, inner in short.items()}
    return [plain("", item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("split", "member_wise", "codec", "auto_flush"),
    [
        *product((0, 1, 99), (True, False), (None,), (7,)),
        *product((0, 99), (True,), (sapwood.ZSTD(5), sapwood.ZLIB(1), sapwood.LZ4(4), sapwood.LZMA(1)), (7, -3000)),
    ],
)
def test_matrix(
    data: dict[str, Any],
    tmp_path: Path,
    root_python: Path,
    split: int,
    member_wise: bool,
    codec: Any,
    auto_flush: int,
) -> None:
    path = tmp_path / "types.root"
    if split == 0:
        # Without a dictionary ROOT 6.40 frees strings in vectors of objects wrongly, also those that it wrote itself.
        data = {**data, "rich": data["rich"][["e", "ids", "p"]]}
    with sapwood.recreate(path, compression=codec) as file:
        tree = file.mktree(
            "t",
            {name: values[:11] for name, values in data.items()},
            branch_types=TYPES,
            records=RECORDS,
            lists=LISTS,
            split_level=split,
            member_wise=member_wise,
            auto_flush=auto_flush,
            basket_size=2000,
        )
        tree.extend({name: values[11:] for name, values in data.items()})
    found = json.loads(run(root_python, "writing/values.py", path, "t", *EXPRESSIONS, "--", *NESTED))
    for expression, place in EXPRESSIONS.items():
        assert found[expression] == flat(member(data, place)), expression
    for name in NESTED:
        assert found[name] == data[name].to_list(), name
    with sapwood.open(path) as file:
        tree = file["t"]
        for name, values in data.items():
            got = [plain(name, one) for one in tree[name].array().to_list()]
            assert got == values.to_list(), name
    with uproot.open(path) as file:
        tree = file["t"]
        for name in ("vv", "vvv", "vs", "vb", "text", "leaves"):
            assert tree[name].array().to_list() == data[name].to_list(), name
        if split:
            for name in ("ev.id", "ev.v", "points.x", "points.q", "rich.e"):
                assert tree[name].array().to_list() == member(data, EXPRESSIONS[name]).to_list(), name


def test_merging(data: dict[str, Any], tmp_path: Path, root_python: Path) -> None:
    parts = [tmp_path / f"part{i}.root" for i in range(2)]
    for i, part in enumerate(parts):
        with sapwood.recreate(part, compression=sapwood.ZLIB(1)) as file:
            given = data if i else {**data, "rich": data["rich"][["e", "ids", "p"]]}
            file.mktree("t", given, branch_types=TYPES, records=RECORDS, lists=LISTS, split_level=99 * i)
    # Both of one layout: what differs cannot be merged fast.
    for part in parts:
        merged = tmp_path / "merged.root"
        run(root_python, "writing/update.py", "merge", merged, part, part)
        found = json.loads(run(root_python, "writing/values.py", merged, "t", *EXPRESSIONS, "--", *NESTED))
        for expression, place in EXPRESSIONS.items():
            assert found[expression] == 2 * flat(member(data, place)), expression
        with sapwood.open(merged) as file:
            assert file["t/vvv"].array().to_list() == 2 * data["vvv"].to_list()


def test_packed_numbers_and_longs(tmp_path: Path, root_python: Path) -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(-10, 10, ENTRIES)
    types = {
        "f": "Float16_t",
        "f8": "Float16_t[0,0,8]",
        "fr": "Float16_t[-10,10,12]",
        "d": "Double32_t",
        "d12": "Double32_t[0, 0, 12]",
        "dr": "Double32_t[-10, 10]",
        "da": ("Double32_t[-10,10,20]", (2,)),
        "dj": "var * Double32_t[-10,10,16]",
        "long": "Long_t",
        "ulong": "ULong_t",
        "o": {"p": "Double32_t[-10,10,16]", "q": "Float16_t"},
    }
    pairs = np.stack([x, -x], axis=1)
    jagged = ak.unflatten(x, [3, 0, ENTRIES - 3, *[0] * (ENTRIES - 3)])
    data = {
        **dict.fromkeys(("f", "f8", "fr", "d", "d12", "dr"), x),
        "da": pairs,
        "dj": jagged,
        "long": np.arange(ENTRIES) - (1 << 40),
        "ulong": np.arange(ENTRIES, dtype=np.uint64) + (1 << 63),
        "o": {"p": x, "q": x},
    }
    path = tmp_path / "packed.root"
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", types, records={"o": "class"}, classes={"o": ("Packed", 3)})
        tree.extend(data)
    flatten = {**data, "p": x, "q": x}
    flatten.pop("o")
    names = [*flatten]
    tolerance = {"f": 1e-3, "f8": 0.05, "fr": 20 / 2**12, "d": 1e-6, "d12": 3e-3, "dr": 1e-8, "da": 20 / 2**20}
    tolerance |= {"dj": 20 / 2**16, "p": 20 / 2**16, "q": 1e-3}
    found = json.loads(run(root_python, "writing/values.py", path, "t", *names, "--"))
    with sapwood.open(path) as file:
        tree = file["t"]
        for name in names:
            exact = flat(ak.Array(flatten[name]))
            np.testing.assert_allclose(found[name], exact, atol=tolerance.get(name, 0), rtol=1e-15, err_msg=name)
            own = flat(tree["o/" + name if name in ("p", "q") else name].array())
            assert own == found[name], name
        for name in ("long", "ulong"):
            assert tree[name].array().to_list() == data[name].tolist()
        assert tree["f8"].typename == "Float16_t"


def test_maps(tmp_path: Path, root_python: Path) -> None:
    data = {
        "map": ak.Array([[(1, 2.5), (3, 4.5)], [], [(-1, 0.0)]]),
        "map2": ak.Array([[("a", [1, 2]), ("b", [])], [], [("c", [3])]]),
    }
    path = tmp_path / "maps.root"
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"map": "map<int,double>", "map2": "std::map<std::string, std::vector<int>>"})
        tree.extend(data)
    found = json.loads(run(root_python, "writing/values.py", path, "t", "--", "map", "map2"))
    with sapwood.open(path) as file:
        for name, values in data.items():
            assert [[tuple(pair) for pair in entry] for entry in found[name]] == values.to_list()
            assert file["t"][name].array().to_list() == values.to_list()


COLLECTIONS: dict[str, tuple[str, Any]] = {
    "set": ("set<int>", [[1, 2, 3], [], [4]]),
    "multiset": ("multiset<double>", [[1.5, 1.5], [], [2.0]]),
    "list": ("list<float>", [[3, 1], [], [2]]),
    "deque": ("deque<short>", [[3, 1], [], [2]]),
    "uset": ("unordered_set<int>", [[7], [], [9]]),
    "multimap": ("multimap<int,double>", [[(1, 2.5), (1, 3.5)], [], [(2, 1.0)]]),
    "umap": ("unordered_map<int,double>", [[(1, 2.5)], [], [(2, 1.0)]]),
    "pairs": ("vector<pair<int,double> >", [[(1, 2.5), (0, 3.5)], [], [(2, 1.0)]]),
}


def test_collections(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "collections.root"
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {name: kind for name, (kind, _) in COLLECTIONS.items()})
        tree.extend({name: values for name, (_, values) in COLLECTIONS.items()})
    code = (
        "import ROOT,sys,json,os; os.chdir(sys.argv[2])\n"
        "ROOT.gInterpreter.GenerateDictionary(sys.argv[3], 'vector;set;list;deque;map;unordered_set;unordered_map')\n"
        "t = (f := ROOT.TFile(sys.argv[1])).Get('t'); found = {}\n"
        "one = lambda v: [v.first, v.second] if hasattr(v, 'first') else v\n"
        "for i in range(t.GetEntries()):\n"
        "    assert t.GetEntry(i) > 0\n"
        "    for b in t.GetListOfBranches():\n"
        "        n = b.GetName(); found.setdefault(n, []).append([one(v) for v in getattr(t, n)])\n"
        "print(json.dumps([found, {b.GetName(): b.GetClassName() for b in t.GetListOfBranches()}]))"
    )
    names = ";".join(kind for kind, _ in COLLECTIONS.values())
    command = [root_python, "-W", "ignore", "-c", code, path, tmp_path, names]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    found, classes = json.loads(done.stdout)
    assert classes == {name: kind for name, (kind, _) in COLLECTIONS.items()}
    with sapwood.open(path) as file:
        for name, (_, values) in COLLECTIONS.items():
            assert found[name] == [[list(v) if isinstance(v, tuple) else v for v in entry] for entry in values], name
            own = file["t"][name].array().to_list()
            assert [[tuple(v.values()) if isinstance(v, dict) else v for v in entry] for entry in own] == values, name


def test_lists_of_lists_of_objects(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "nested.root"
    points = [[[{"x": 1.0 * (i + j)}] * 2 for j in range(i % 3)] for i in range(6)]
    data = ak.Array(points, with_name="Pt")
    with sapwood.recreate(path) as file:
        file.mktree("t", {"ll": data}, records="class", split_level=0, member_wise=False)
    code = (
        "import ROOT,sys; f = ROOT.TFile(sys.argv[1]); t = f.Get('t'); b = t.GetBranch('ll')\n"
        "print(b.GetClassName(), [i for i in (17, 22) if b.TestBit(1 << i)])\n"
        "print([t.GetEntry(i) > 0 for i in range(6)])"
    )
    command = [root_python, "-W", "ignore", "-c", code, path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("vector<vector<Pt> > [17]\n[True, True, True, True, True, True]")


def test_compression_of_branches(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "codecs.root"
    points = ak.zip({"x": ak.Array([[1.0], [2.0, 3.0]]), "y": ak.Array([[1.0], [2.0, 3.0]])})
    with sapwood.recreate(path, compression=sapwood.ZLIB(1)) as file:
        data = {"a": np.zeros(2), "b": np.zeros(2), "p": points, "o": points}
        codecs = {"a": None, "p": sapwood.LZMA(3), "o": sapwood.LZ4(2)}
        file.mktree("t", data, compression=codecs, records={"o": "class"})
    code = (
        "import ROOT,sys,json; f=ROOT.TFile(sys.argv[1]); t=f.Get('t');"
        "print(json.dumps({b.GetName(): b.GetCompressionSettings() for l in [t.GetListOfBranches(),"
        " t.GetBranch('o').GetListOfBranches()] for b in l}))"
    )
    done = subprocess.run([root_python, "-W", "ignore", "-c", code, path], capture_output=True, text=True, check=True)
    settings = json.loads(done.stdout)
    assert settings == {
        "a": 0,
        "b": 101,
        "np": 203,
        "p_x": 203,
        "p_y": 203,
        "o": 402,
        "o.x": 402,
        "o.y": 402,
    }
