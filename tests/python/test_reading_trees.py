"""Trees and branches: names, filters, sizes, tables; uproot says what is right."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import uproot
from reading_samples import CLUSTER, ENTRIES, FakeBranch, fake_tree, write_sample

import sapwood
from sapwood.errors import ArgumentError
from sapwood.table.steps import entry_range, memory_size


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    path = write_sample(tmp_path_factory.mktemp("trees"))
    with sapwood.open(path) as mine, uproot.open(path) as theirs:
        yield mine["events"], theirs["events"]


FILTERS: list[dict[str, Any]] = [
    {},
    {"filter_name": "f4"},
    {"filter_name": "/f4"},
    {"filter_name": "f?"},
    {"filter_name": "jet_*"},
    {"filter_name": "[iu][12]"},
    {"filter_name": "/JET/i"},
    {"filter_name": "/^[iu]/"},
    {"filter_name": "/.*_(pt|eta)$/"},
    {"filter_name": ["f4", "/i[48]/", lambda name: name == "word"]},
    {"filter_name": lambda name: len(name) == 4},
    {"filter_name": None},
    {"filter_name": []},
    {"filter_typename": "float*"},
    {"filter_typename": ["int32_t", "/double/"]},
    {"filter_typename": "*[[]]"},
    {"filter_branch": lambda branch: branch.num_baskets > 3 and branch.typename == "bool"},
    {"filter_branch": None},
    {"filter_name": "*", "filter_typename": "char[*]"},
]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("full_paths", [True, False])
def test_names_agree_with_uproot(trees: tuple[Any, Any], filters: dict[str, Any], full_paths: bool) -> None:
    mine, theirs = trees
    options = {"full_paths": full_paths, **filters}
    assert mine.keys(**options) == theirs.keys(**options)
    assert list(mine.iterkeys(**options)) == theirs.keys(**options)
    assert mine.typenames(**options) == theirs.typenames(**options)
    assert list(mine.itertypenames(**options)) == list(theirs.itertypenames(**options))
    assert [name for name, _ in mine.items(**options)] == [name for name, _ in theirs.items(**options)]
    assert [b.name for b in mine.values(**filters)] == [b.name for b in theirs.values(**filters)]


@pytest.mark.parametrize(
    "wrong", [{"filter_name": 12}, {"filter_name": b"f4"}, {"filter_typename": [1.5]}, {"filter_branch": "f4"}]
)
def test_what_is_no_filter(trees: tuple[Any, Any], wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="filter"):
        trees[0].keys(**wrong)


def test_properties_agree_with_uproot(trees: tuple[Any, Any]) -> None:
    mine, theirs = trees
    for name in (
        "name",
        "title",
        "num_entries",
        "object_path",
        "uncompressed_bytes",
        "compressed_bytes",
        "compression_ratio",
        "aliases",
    ):
        assert getattr(mine, name) == getattr(theirs, name), name
    assert mine.classname == "TTree"
    assert mine.tree is mine
    assert mine.parent.fName == "events"
    assert mine.clusters == [*range(0, ENTRIES, CLUSTER), ENTRIES]
    assert len(mine) == len(theirs)
    assert [b.name for b in mine] == [b.name for b in mine.branches] == [b.name for b in theirs.branches]
    assert bool(mine)
    assert repr(mine).startswith("<TTree 'events' (19 branches) at 0x")
    assert mine.common_entry_offsets() == theirs.common_entry_offsets()


def test_properties_of_branches_agree_with_uproot(trees: tuple[Any, Any]) -> None:
    mine, theirs = trees
    names = (
        "name", "title", "typename", "num_entries", "num_baskets", "object_path", "uncompressed_bytes",
        "compressed_bytes", "compression_ratio", "classname", "index", "top_level", "entry_offsets", "cache_key",
    )  # fmt: skip
    for branch in mine.branches:
        other = theirs[branch.name]
        for name in names:
            assert getattr(branch, name) == getattr(other, name), (branch.name, name)
        assert repr(branch.compression) == repr(other.compression)
        assert branch.tree is branch.parent is mine
        assert branch.branches == []
        assert branch.reason is None
        for i in range(branch.num_baskets):
            assert branch.basket_entry_start_stop(i) == other.basket_entry_start_stop(i)
            assert branch.basket_compressed_bytes(i) == other.basket_compressed_bytes(i)
            assert branch.basket_seek(i) == other.member("fBasketSeek")[i]
        with pytest.raises(IndexError, match="7 baskets"):
            branch.basket_entry_start_stop(7)
        with pytest.raises(IndexError):
            branch.basket_compressed_bytes(-1)
        assert branch.common_entry_offsets() == other.common_entry_offsets()
    assert mine["jet_pt"].count_branch is mine["njet"]
    assert mine["f4"].count_branch is None
    assert mine["f4"].leaves == [("TLeafF", "f4", "f4")]
    assert repr(mine["f4"]).startswith("<TBranch 'f4' at 0x")


@pytest.mark.parametrize(
    ("name", "text", "dtype"),
    [
        ("f4", "float32", np.dtype("float32")),
        ("vec3", "3 * float32", np.dtype(("float32", (3,)))),
        ("mat", "2 * 3 * int64", np.dtype(("int64", (2, 3)))),
        ("jet_pt", "var * float32", np.dtype(object)),
        ("word", "string", np.dtype(object)),
    ],
)
def test_interpretation(trees: tuple[Any, Any], name: str, text: str, dtype: np.dtype[Any]) -> None:
    found = trees[0][name].interpretation
    assert found.describe() == text
    assert found.numpy_dtype == dtype
    assert found.typename == trees[1][name].interpretation.typename
    assert found.reason is None
    assert found.type == trees[0][name].type


def test_finding_branches(trees: tuple[Any, Any]) -> None:
    mine, theirs = trees
    assert mine["f4"] is mine["/f4"] is mine[mine["f4"].index] is mine.get("f4")
    assert mine[0].name == theirs[0].name
    assert mine[-1].name == theirs[-1].name
    assert "f4" in mine
    assert "f5" not in mine
    assert 3 not in mine
    assert mine.get("f5") is None
    assert mine.get("f5", "nothing") == "nothing"
    with pytest.raises(KeyError, match="no such branch: 'f5'"):
        mine["f5"]
    with pytest.raises(IndexError):
        mine[100]
    with pytest.raises(TypeError, match="by its name or number"):
        mine[1.5]
    assert mine != 1
    assert len({mine, mine["f4"], mine["f4"]}) == 2


def nested() -> Any:
    """Make a tree whose names hide each other."""
    one = ("number", np.arange(3))
    return fake_tree(
        [
            FakeBranch(
                "a",
                below=[FakeBranch("deep", below=[FakeBranch("x", one), FakeBranch("y", one)]), FakeBranch("x", one)],
            ),
            FakeBranch("b.", below=[FakeBranch("b.x", one), FakeBranch("y", one)]),
            FakeBranch("c/d", one),
            FakeBranch("x", one),
            FakeBranch("x", one),
            FakeBranch("a", below=[FakeBranch("only here", one)]),
        ],
        3,
    )


@pytest.mark.parametrize(
    ("where", "path"),
    [
        ("x", "x"),
        ("y", "a/deep/y"),
        ("a/x", "a/x"),
        ("a//x", "a/x"),
        ("deep/x", "a/deep/x"),
        ("/a/deep/x", "a/deep/x"),
        ("b.x", "b./b.x"),
        ("b./y", "b./y"),
        ("c/d", "c/d"),
        ("/y", None),
        ("deep/z", None),
        ("c", None),
        ("a/only here", "a/only here"),
        ("a/nowhere", None),
        ("", None),
    ],
)
def test_paths_among_branches(where: str, path: str | None) -> None:
    tree = nested()
    found = tree.find(where)
    assert (found and found.path_in(tree)) == path


def test_names_of_nested_branches() -> None:
    tree = nested()
    assert tree.keys() == [
        "a",
        "a/deep",
        "a/deep/x",
        "a/deep/y",
        "a/x",
        "b.",
        "b./b.x",
        "b./y",
        "c/d",
        "x",
        "x",
        "a",
        "a/only here",
    ]
    assert tree.keys(recursive=False) == ["a", "b.", "c/d", "x", "x", "a"]
    assert tree.keys(full_paths=False) == [
        "a",
        "deep",
        "x",
        "y",
        "x",
        "b.",
        "b.x",
        "y",
        "c/d",
        "x",
        "x",
        "a",
        "only here",
    ]
    assert tree.keys(full_paths=False, ignore_duplicates=True) == [
        "a",
        "deep",
        "x",
        "y",
        "b.",
        "b.x",
        "c/d",
        "only here",
    ]
    assert tree.keys(filter_name="deep/*") == []
    assert tree.keys(filter_name="a/deep/*") == ["a/deep/x", "a/deep/y"]
    assert tree.keys(filter_name="/a/deep/y") == ["a/deep/y"]
    assert tree["a"].keys() == ["deep", "deep/x", "deep/y", "x"]
    assert tree["a"].keys(filter_name="deep/x") == ["deep/x"]
    deep = tree["a/deep"]
    assert deep.object_path == "/fake;1:a/deep"
    assert not deep.top_level
    assert deep["x"].is_below(tree["a"])
    assert deep["x"].is_below(tree)
    assert not tree["a/x"].is_below(deep)
    assert [b.name for b in deep.parent.descendants()] == ["deep", "x", "y", "x"]


def table(tree: Any, **options: Any) -> list[str]:
    out = io.StringIO()
    tree.show(stream=out, **options)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    "options", [{}, {"name_width": 5, "typename_width": 9, "filter_name": "jet_*"}, {"filter_typename": "float*"}]
)
def test_show_agrees_with_uproot_but_for_the_last_column(trees: tuple[Any, Any], options: dict[str, Any]) -> None:
    mine, theirs = (table(tree, **options) for tree in trees)
    assert [line.rpartition(" | ")[0] for line in mine] == [line.rpartition(" | ")[0] for line in theirs]
    assert (mine[0], mine[1]) == (theirs[0], theirs[1])
    branch = [table(tree["jet_pt"]) for tree in trees]
    assert [line.rpartition(" | ")[0].rstrip() for line in branch[0]] == [
        line.rpartition(" | ")[0].rstrip() for line in branch[1]
    ]


def test_show_says_what_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    tree = fake_tree([FakeBranch("good", ("number", np.arange(3))), FakeBranch("bad", reason="it is odd")], 3)
    tree.show()
    assert capsys.readouterr().out.splitlines()[2:] == [
        "good                 | fake                     | int64",
        "bad                  | fake                     | unreadable: it is odd",
    ]
    with pytest.raises(ArgumentError, match="from 3 to"):
        tree.show(name_width=2)
    with pytest.raises(ArgumentError, match="10,000 characters wide"):
        tree.show(typename_width=1 << 63)


def test_lists_of_filters_that_contain_themselves_are_refused() -> None:
    tree = fake_tree([FakeBranch("x", ("number", np.arange(3)))], 3)
    endless: list[Any] = ["*"]
    endless.append(endless)
    with pytest.raises(ArgumentError, match="nested more than 20 levels"):
        tree.keys(filter_name=endless)
    assert tree.keys(filter_name=[["*"]]) == tree.keys()


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (12, 12),
        (np.int32(7), 7),
        ("1 kB", 1000),
        ("100 MB", 10**8),
        ("1.5GiB", 3 * 2**29),
        (" 2e3 b ", 2000),
        (".5 TB", 5 * 10**11),
    ],
)
def test_memory_sizes(size: Any, expected: int) -> None:
    assert memory_size(size) == expected
    assert uproot._util.memory_size(size) == expected or size == " 2e3 b "


@pytest.mark.parametrize("size", ["12", "12 XB", "MB", 1.5, None, True])
def test_what_is_no_memory_size(size: Any) -> None:
    with pytest.raises(TypeError, match="memory size"):
        memory_size(size)


@pytest.mark.parametrize("start", [None, 0, 3, 12, -1, -4, -20])
@pytest.mark.parametrize("stop", [None, 0, 3, 12, -1, -4, -20])
def test_entry_ranges_agree_with_uproot(start: int | None, stop: int | None) -> None:
    expected = uproot.behaviors.TBranch._regularize_entries_start_stop(10, start, stop)
    assert entry_range(10, start, stop) == expected


@pytest.mark.parametrize("size", ["1 kB", "20 kB", 5000, "100 MB"])
@pytest.mark.parametrize("filters", [{}, {"expressions": ["f4", "i8"]}, {"expressions": "f4 + f8", "cut": "i4 < 0"}])
def test_num_entries_for_is_near_uproot(trees: tuple[Any, Any], size: Any, filters: dict[str, Any]) -> None:
    mine, theirs = (tree.num_entries_for(size, **filters) for tree in trees)
    assert mine == pytest.approx(theirs, rel=0.1, abs=1)


def test_a_basket_without_entries_between_others_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "empty.root"
    with sapwood.recreate(path, compression=None) as file:
        tree = file.mktree("t", {"x": np.zeros(0, np.int32)}, auto_flush=10)
        tree.extend({"x": np.arange(30, dtype=np.int32)})
    stored = path.read_bytes()
    firsts = struct.pack(">4q", 0, 10, 20, 30)
    assert stored.count(firsts) == 1
    # The second basket gets the range 10 to 10, the third one 10 to 20.
    path.write_bytes(stored.replace(firsts, struct.pack(">4q", 0, 10, 10, 20)).replace(
        struct.pack(">q", 30), struct.pack(">q", 20)))  # fmt: skip
    expected = [*range(10), *range(20, 30)]
    with uproot.open({path: "t"}) as tree:
        assert tree["x"].basket_entry_start_stop(1) == (10, 10)
    with sapwood.open({path: "t"}) as tree:
        assert tree["x"].array().to_list() == expected
        assert tree["x"].array(entry_start=9, entry_stop=12).to_list() == expected[9:12]
        assert [step.x.to_list() for step in tree.iterate(step_size=15)] == [expected[:15], expected[15:]]


def test_a_branch_that_its_tree_does_not_list_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sapwood.recreate(tmp_path / "file.root") as file:
        file["t"] = {"x": np.arange(3)}
    with sapwood.open(tmp_path / "file.root") as file:
        tree = file["t"]
        for branches in (object(), []):
            other = SimpleNamespace(member=lambda _, branches=branches: branches)
            monkeypatch.setattr(type(tree), "model", property(lambda _, other=other: other))
            with pytest.raises(sapwood.CorruptError, match=r"'fBranches' of .* has no branch 0"):
                tree["x"].member("fName")
