"""Wrong arguments of writers: each error names the argument or the column, and nothing is written elsewhere."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Optional, Union

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
import sapwood.new as new
from sapwood.errors import ArgumentError, SapwoodError, StorageError
from sapwood.tools import differences
from sapwood.writing import identify
from sapwood.writing.interpret import as_TGraph
from sapwood.writing.output import OutputFile

NO_COLUMNS = [None, object(), len, float, 2**70, 1, ak.Array([{"x": 1}])[0], {"x": None}, [1, object()], ["\ud800"]]


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize("values", NO_COLUMNS, ids=lambda value: type(value).__name__)
def test_a_column_that_cannot_be_written_is_named(tmp_path: Path, kind: str, values: Any) -> None:
    with sapwood.recreate(tmp_path / "a.root", format=kind) as file:
        with pytest.raises(SapwoodError, match=r"^'bad': "):
            file["t"] = {"good": [1.0], "bad": values}
        file["u"] = {"good": [1.0], "bad": [2.0]}
        table: Any = file["u"]
        with pytest.raises(SapwoodError, match=r"^'bad': "):
            table.extend({"good": [1.0], "bad": values})
    with sapwood.open(tmp_path / "a.root") as read:
        assert read["u"].arrays().to_list() == [{"good": 1.0, "bad": 2.0}]


@pytest.mark.parametrize("path", ["a\0b", "\ud800.root", "no\0folder/a.root"])
@pytest.mark.parametrize("do", [sapwood.recreate, sapwood.create, sapwood.update, sapwood.open])
def test_a_path_that_no_file_can_have(tmp_path: Path, path: str, do: Callable[[str], Any]) -> None:
    with pytest.raises(ArgumentError, match="is not the path of a file"):
        do(str(tmp_path / path))


@pytest.mark.parametrize(
    "do", [sapwood.recreate, sapwood.create, sapwood.update, sapwood.open, lambda path: list(sapwood.iterate(path))]
)
@pytest.mark.parametrize("path", ["n" * 300, "x/" * 3000 + "a.root"])
def test_a_path_that_is_too_long(
    tmp_path: Path, path: str, do: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match="too long"):
        do(path)


def test_a_home_folder_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sapwood.MissingFileError):
        sapwood.open("~no-such-user/a.root")
    with sapwood.recreate("~no-such-user/a.root") as file:
        file["t"] = {"x": [1]}
    assert (tmp_path / "~no-such-user/a.root").exists()


@pytest.mark.parametrize("url", ["s3://", "root://", "zip://x::y"])
def test_a_url_that_cannot_be_written_to_is_named(url: str) -> None:
    pytest.importorskip("s3fs", reason="needs s3fs (pip install s3fs)")
    pytest.importorskip("fsspec_xrootd", reason="needs fsspec-xrootd (pip install sapwood[xrootd])")
    with pytest.raises(SapwoodError, match=f"cannot write to {url}"):
        sapwood.recreate(url)


@pytest.mark.parametrize("name", ["a.root:t", " a.root", "a.root ", "  "])
def test_a_file_is_read_back_by_its_own_name(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name with a colon or with spaces is a name, not a file and an object in it."""
    monkeypatch.chdir(tmp_path)
    with sapwood.recreate("a.root") as other:
        other["t"] = {"x": [7, 8, 9]}
    with sapwood.recreate(name, index=True) as file:
        file["t"] = {"x": [1, 2]}
        file["text"] = "text"
        assert str(file["text"]) == "text"
    assert Path(f"{name}.sapwood-index").exists()
    assert sapwood.open(Path(name))["t"].arrays(cut="x > 1")["x"].tolist() == [2]


@pytest.mark.parametrize("name", ["a;-1", "a;1/b", "a;-1/b"])
def test_names_that_would_be_read_as_cycles_are_refused(tmp_path: Path, name: str) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        for write in (lambda: file.mkdir(name), lambda: file.__setitem__(name, "text")):
            with pytest.raises(ArgumentError, match="would be read as its cycle"):
                write()


@pytest.mark.parametrize(
    "wrong",
    [{"name": 3}, {"title": None}, {"branch_types": "f8"}, {"classes": [1]}, {"titles": 1}, {"auto_flush": "1 MB"}],
    ids=str,
)
def test_arguments_of_a_tree_of_the_wrong_kind_are_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    arguments: dict[str, Any] = {"name": "t", "branch_types_or_data": {"x": np.arange(3)}, **wrong}
    with sapwood.recreate(tmp_path / "a.root") as file, pytest.raises(TypeError, match=rf"\b{name}\b"):
        file.mktree(**arguments)


@pytest.mark.parametrize("wrong", [{"description": 1}, {"field_types": 1}, {"classes": 1}, {"projections": 1}], ids=str)
def test_arguments_of_an_rntuple_of_the_wrong_kind_are_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with sapwood.recreate(tmp_path / "a.root") as file, pytest.raises(TypeError, match=rf"^{name} is "):
        file.mkrntuple("t", {"x": np.arange(3)}, **wrong)


@pytest.mark.parametrize("wrong", [{"title": 1}, {"uuid_function": 1}, {"uuid_function": int}], ids=str)
def test_arguments_of_a_file_of_the_wrong_kind_are_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(TypeError, match=name):
        sapwood.recreate(tmp_path / "a.root", **wrong)
    assert not (tmp_path / "a.root").exists()


def test_a_file_whose_name_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "\udcff.root"
    for _ in range(2):
        with sapwood.recreate(path, atomic=True) as file:
            file["t"] = {"x": [1]}
    with sapwood.update(path) as file:
        file["text"] = "text"
    assert sapwood.open(path).keys(cycle=False) == ["t", "text"]


@pytest.mark.parametrize("command", ["merge out.root", "convert", "recover", "serve --port 0"])
def test_a_loop_of_links_is_an_error_of_one_line(tmp_path: Path, command: str) -> None:
    (tmp_path / "loop.root").symlink_to("loop.root")
    words = [*command.split(), "loop.root", *(["out.root"] if command in ("convert", "recover") else [])]
    done = subprocess.run([sys.executable, "-m", "sapwood", *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode and done.stderr.count("\n") == 1 and "ymbolic link" in done.stderr
    assert not (tmp_path / "out.root").exists()


def test_a_histogram_is_not_compared_with_a_file(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["h"] = np.histogram([1.0, 2.0])
    pair = f"{tmp_path / 'a.root'}:h", str(tmp_path / "a.root")
    for first, second in (pair, pair[::-1]):
        with pytest.raises(ArgumentError, match=r"a.root:h is a TH1D: files, directories and tables"):
            list(differences(first, second))


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
def test_a_file_that_another_thread_closed_takes_no_entries(
    tmp_path: Path, make: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check of the writer and its work, another thread may close the file."""
    file = sapwood.recreate(tmp_path / "a.root")
    table = getattr(file, make)("t", {"x": "float64"})
    file.close()
    monkeypatch.setattr(OutputFile, "check_open", lambda *_: None)
    with pytest.raises(ArgumentError, match="closed file"):
        table.extend({"x": [1.0]})


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
def test_every_call_on_a_closed_file_is_one_kind_of_error(tmp_path: Path, make: str) -> None:
    file = sapwood.recreate(tmp_path / "a.root")
    table = getattr(file, make)("t", {"x": "float64"})
    file.close()
    for call in (lambda: table.extend({"x": [1.0]}), table.flush, table.finish, lambda: file.mkdir("d"), file.commit):
        with pytest.raises(ArgumentError, match=r"closed file: .*a\.root"):
            call()


@pytest.mark.parametrize("option", ["index", "atomic", "reproducible", "title", "uuid_function"])
def test_an_option_of_new_files_for_an_update(tmp_path: Path, option: str) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1.0]}
    before = path.read_bytes()
    options: dict[str, Any] = {option: True}
    with pytest.raises(ArgumentError, match=f"only new files take {option}: pass it to recreate or create"):
        sapwood.update(path, **options)
    if option == "index":
        with pytest.raises(ArgumentError, match="make the index of the updated file with sapwood stats --index"):
            sapwood.update(path, **options)
    assert path.read_bytes() == before


ODD_PARAMETERS: list[tuple[Any, Any]] = [
    (2**40, "int32"), (1.5, "int32"), (float("nan"), "int32"), (float("inf"), "int64"), (float("nan"), "bool"),
    (2, "bool"), (-1, "bool"), (2**53 + 1, "float64"), (1e300, "float32"), (2**63, None), (2**64, None),
    (2**64, "int64"), ("1", "int32"), (b"1", "int32"), ("", "bool"), (None, "float64"), (1j, "float64"), ([1, 2], None),
    ([[1], [1, 2]], None), ([1], "int32"), (np.datetime64("2020-01-01"), "int64"), (object(), "int32"), (1, ["x"]),
    (1, "int8"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "dtype"), ODD_PARAMETERS)
def test_a_parameter_holds_its_value_or_is_refused(value: Any, dtype: Any) -> None:
    with pytest.raises(ArgumentError, match=r"TParameter|parameters are of"):
        new.TParameter(value, dtype)


@pytest.mark.parametrize(
    ("value", "dtype", "kind"),
    [
        (True, None, "bool"),
        (1, "bool", "bool"),
        (2.0, "int32", "int"),
        (-(2**63), None, "long"),
        (0.1, "float32", "float"),
    ],
)
def test_a_parameter_of_each_type(value: Any, dtype: Any, kind: str) -> None:
    made = new.TParameter(value, dtype)
    assert made.classname == f"TParameter<{kind}>"
    assert made.model.member("fVal") == (np.float32(value) if kind == "float" else value)


ODD_POINTS: list[Any] = [
    [1j, 2], ["a", "b"], ["1", "2"], [None, 1], np.array([1, "a"], object), 1, None, [[1], [1, 2]], [[1, 2]], [1],
    [2**53 + 1, 1], [10**400, 1], np.ma.array([1, 2], mask=[True, False]), np.array(["2020", "2021"], "M8[Y]"), {},
]  # fmt: skip


@pytest.mark.parametrize("points", ODD_POINTS, ids=repr)
def test_points_of_graphs_are_numbers_that_doubles_hold(points: Any) -> None:
    two = [1.0, 2.0]
    makers: list[Callable[[], Any]] = [
        lambda: new.TGraph(points, two), lambda: new.TGraph(two, points), lambda: new.TGraph2D(two, two, points),
        lambda: as_TGraph({"x": two, "y": points}),
    ]  # fmt: skip
    if points is not None:
        makers += [
            lambda: new.TGraph(two, two, ex=points), lambda: new.TGraph(two, two, ey=(two, points)),
            lambda: new.TGraph2D(two, two, two, ez=points), lambda: new.TGraph(two, two, bends=((two, two), points)),
        ]  # fmt: skip
    for make in makers:
        with pytest.raises(ArgumentError, match="of a graph"):
            make()


@pytest.mark.parametrize(
    "options", [{"ex": ([1.0],)}, {"ex": ([1.0], [1.0], [1.0])}, {"bends": 1}, {"bends": (1, 2, 3)}, {"title": 5}]
)
def test_errors_of_graphs_are_pairs(options: Any) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        new.TGraph([1.0], [1.0], **options)


@pytest.mark.parametrize("items", [5, None, [5], [None], ["a"], [np.array([1])], new.TGraph([1.0], [1.0])], ids=repr)
def test_sets_of_graphs_have_graphs(items: Any) -> None:
    with pytest.raises(ArgumentError, match="TMultiGraph"):
        new.TMultiGraph(items)
    with pytest.raises(ArgumentError, match="TMultiGraph"):
        new.TMultiGraph([new.TObjString("a")])  # pyright: ignore[reportArgumentType]


LONE = "a\ud800"


def _tree(file: Any, **options: Any) -> None:
    file.mktree("t", {"x": "int32"}, **options)


PLACES: list[Callable[[Any], Any]] = [
    lambda file: file.update({"a": new.NewObject(LONE, "", {})}),
    lambda file: file.update({"a": new.NewObject("TNamed", "", {LONE: 1})}),
    lambda file: file.pop(LONE, None) or file.__delitem__(LONE),
    lambda file: file.mkrntuple("n", {"x": "int32"}, projections={LONE: "x"}),
    lambda file: file.mkrntuple("n", {"x": "int32"}, projections={"y": LONE}),
    lambda file: file.mkrntuple("n", {"x": {"y": "int32"}}, classes={"x": LONE}),
    lambda file: file.mktree("n", {"x": {"y": "int32"}}, classes={"x": (LONE, 1)}),
    lambda file: file.update({"a": LONE}),
    lambda file: file.update({LONE: "a"}),
    lambda file: file.update({"a": new.TNamed(LONE)}),
    lambda file: file.update({"a": new.TNamed("a", LONE)}),
    lambda file: file.update({"a": new.TList([LONE])}),
    lambda file: file.update({"a": new.TList([new.TNamed("a", LONE)])}),
    lambda file: file.update({"a": new.TGraph([1.0], [1.0], title=LONE)}),
    lambda file: file.update({"a": new.TMultiGraph([], title=LONE)}),
    lambda file: file.update({"a": new.TH(np.histogram([1.0]), "D", LONE)}),
    lambda file: file.update({"a": (*np.histogram([1.0]), LONE)}),
    lambda file: file.update({"a": hist.Hist(hist.axis.Regular(2, 0, 1, label=LONE))}),
    lambda file: file.update({"a": hist.Hist(hist.axis.Regular(2, 0, 1), name=LONE)}),
    lambda file: file.update({"a": as_TGraph({"x": [1.0], "y": [1.0]}, xAxisLabel=LONE)}),
    lambda file: file.update({"a": identify.to_TAxis("x", LONE, 1, 0, 1)}),
    lambda file: file.mkdir("a", LONE),
    lambda file: file.mkdir(LONE),
    lambda file: _tree(file, title=LONE),
    lambda file: _tree(file, titles={"x": LONE}),
    lambda file: file.mktree("t", {LONE: "int32"}),
    lambda file: file.mktree("t", {"x": LONE}),
    lambda file: file.mkrntuple("t", {"x": "int32"}, description=LONE),
    lambda file: file.mkrntuple("t", {LONE: "int32"}),
    lambda file: file.mkrntuple("t", {"x": LONE}),
    lambda file: file.mkrntuple("t", {"r": {LONE: "int8"}}),
    lambda file: file.mkrntuple("t", {"r": "{a: int8}"}, classes={LONE: "A"}),
    lambda file: sapwood.recreate(io.BytesIO(), title=LONE),
]


@pytest.mark.parametrize("write", PLACES, ids=range(len(PLACES)))
def test_texts_with_lone_surrogates_are_refused(tmp_path: Path, write: Callable[[Any], Any]) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        with pytest.raises(ArgumentError, match=r"\\ud800"):
            write(file)
        assert file.keys() == []


def test_an_added_field_with_lone_surrogates_is_refused(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        tree = file.mktree("t", {"x": "int8"})
        with pytest.raises(ArgumentError, match=r"\\ud800"):
            tree.add_fields({LONE: "int8"})
        tree.extend({"x": [1]})
    assert sapwood.open(f"{tmp_path}/a.root:t").keys() == ["x"]


@pytest.mark.parametrize("version", [-2, 1 << 15, 1 << 40, 1.5, True, "1"])
def test_versions_of_classes_are_those_that_root_has(tmp_path: Path, version: Any) -> None:
    with (
        sapwood.recreate(tmp_path / "a.root") as file,
        pytest.raises(ArgumentError, match=r"from -1 \(none\) to 32767"),
    ):
        file.mkrntuple("n", {"r": "{a: int8}"}, classes={"r": ("A", version)})


@pytest.mark.parametrize("name", [None, 1, b"x", ("a",)], ids=repr)
def test_names_of_objects_are_strings(tmp_path: Path, name: Any) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        calls: list[Callable[[], Any]] = [
            lambda: file.update({name: "a"}), lambda: file.update({name: new.TNamed("a")}), lambda: file[name],
            lambda: file.__delitem__(name), lambda: file.mkdir(name), lambda: file.mktree(name, {"x": "int32"}),
            lambda: file.mkrntuple(name, {"x": "int32"}),
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(ArgumentError, match="the name of an object is a string"):
                call()
        with pytest.raises(ArgumentError, match="source is a directory of an open file"):
            file.copy_from(name)


@pytest.mark.parametrize("members", [{"fEntries": 1j}, {"fEntries": 2**70}, {"fEntries": [object()]}])
def test_members_of_histograms_have_types_of_their_class(members: Any) -> None:
    sums: dict[str, Any] = dict.fromkeys(("fEntries", "fTsumw", "fTsumw2", "fTsumwx", "fTsumwx2"), 0.0)
    others: dict[str, Any] = {"fSumw2": None, "fXaxis": identify.to_TAxis("x", "", 2, 0, 1)}
    with pytest.raises(SapwoodError):
        file = sapwood.recreate(io.BytesIO())
        file["h"] = identify.to_TH1x("h", "", np.zeros(4), **{**sums, **others, **members})
    with pytest.raises(ArgumentError, match="the contents of a TH1"):
        identify.to_TH1x("h", "", [1j, 2, 3, 4], **{**sums, **others})  # pyright: ignore[reportArgumentType]


@dataclasses.dataclass
class Inner:
    """A class of one field."""

    k: int


FIELDS: list[tuple[Any, Any]] = [
    (dict[int, int], {1.5: 1}), (dict[int, int], {1: 1.5}), (list[int], [1, 2.5]), (list[list[int]], [[1.5]]),
    (set[int], {1.5}), (frozenset[int], frozenset({1.5})), (set[int], [1, 1]), (set[str], {1}), (set[Any], {(1, 2)}),
    (dict[str, list[int]], {"a": [1.5]}), (list[dict[int, int]], [{1.5: 1}]), (Inner, Inner(1.5)),  # pyright: ignore[reportArgumentType]
    (list[Inner], [Inner(1), 5]), (Inner, None), (int, 1.5), (int, 2**64), (int, float("nan")), (int, "1"), (int, None),
    (bool, 2), (bool, "x"), (float, "1.5"), (float, None), (float, 1j), (float, 2**53 + 1),
    (list[float], [2**53 + 1, 0.5]),
    (str, 5), (str, None), (str, b"a"), (str, LONE), (list[int], None), (list[int], 5), (list[int], "ab"),
    (list[str], "ab"), (list[str], [5]), (list[int], [None]), (list[int], [[1], [2]]), (list[list[int]], [1]),
    (dict[int, int], [1]), (dict[int, int], None), (dict[str, int], {1: 1}), (np.int32, 2**40), (np.int32, 1.5),
    (np.float32, 1e300), (Annotated[int, "int8"], 300), (Annotated[float, "Double32_t[0, 1, 8]"], 2.0),
    (Annotated[int, "bogus"], 1), ("nope", 1), (np.ndarray, ["a"]), (object, 1),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), FIELDS, ids=repr)
def test_fields_of_dataclasses_hold_their_values_or_are_refused(tmp_path: Path, kind: Any, value: Any) -> None:
    made: Any = dataclasses.make_dataclass("A", [("m", kind)])
    with sapwood.recreate(tmp_path / "a.root") as file:
        for write in (lambda: file.update({"a": made(value)}), lambda: file.mkrntuple("t", [made(value)])):
            with pytest.raises(SapwoodError, match=r"^(branch ')?A"):
                write()
        assert file.keys() == []


@pytest.mark.parametrize("value", [1.5, "1.5"])
def test_variants_keep_values_that_one_of_their_types_holds(tmp_path: Path, value: Any) -> None:
    made: Any = dataclasses.make_dataclass("A", [("m", Union[int, float, str])])  # noqa: UP007
    some: Any = dataclasses.make_dataclass("B", [("m", Optional[int])])  # noqa: UP045
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("t", [made(1), made(value)])
        with pytest.raises(ArgumentError, match=r"B\.m"):
            file.mkrntuple("u", [some(value)])
    with sapwood.open(tmp_path / "a.root") as read:
        assert read["t"]["m"].array().to_list() == [1, value]


@pytest.mark.parametrize("kind", ["map<int, int>", "set<int>"])
def test_keys_and_items_of_sets_do_not_lose_their_fractions(tmp_path: Path, kind: str) -> None:
    values = [[(1.5, 1)]] if kind.startswith("map") else [[1.5]]
    with sapwood.recreate(tmp_path / "a.root") as file:
        tree = file.mktree("t", {"m": kind})
        with pytest.raises(ArgumentError, match=r"cannot hold 1\.5"):
            tree.extend({"m": values})


def test_a_filter_that_is_no_regular_expression_is_named(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["a"] = "b"
    with sapwood.open(tmp_path / "a.root") as read, pytest.raises(ArgumentError, match="not a regular expression"):
        read.keys(filter_name="/(/")


@pytest.mark.parametrize("name", [LONE, "a\0b", 5, None, "", "ROOT", "sapwood_index"], ids=repr)
def test_attribute_sets_have_names_that_can_be_read_back(tmp_path: Path, name: Any) -> None:
    """The index of sapwood is stored as an attribute set."""
    with sapwood.recreate(tmp_path / "a.root") as file:
        table = file.mkrntuple("n", {"x": "int32"})
        with pytest.raises(ArgumentError, match=r"name"):
            table.add_attribute_set(name, {"y": "int32"})
        assert table.attribute_sets == []
        for field in (LONE, "a\0b"):
            with pytest.raises(ArgumentError, match="is not a valid name of a field"):
                table.add_attribute_set("set", {field: "int32"})


def test_names_of_classes_have_no_zero_bytes(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        for make in (file.mktree, file.mkrntuple):
            with pytest.raises(ArgumentError, match="is not a valid name of a class"):
                make("n", {"x": {"y": "int32"}}, classes={"x": "a\0b"})
