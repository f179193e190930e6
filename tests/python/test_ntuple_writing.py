"""RNTuples are written: every type, pages and clusters of every size, continued, extended, and whole at all times."""

from __future__ import annotations

import dataclasses
import decimal
from pathlib import Path
from typing import Annotated, Any, Optional

import awkward as ak
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import uproot
from ntuple_columns import columns

import sapwood
from sapwood.errors import ArgumentError, UnsupportedError
from sapwood.tools.conversion import convert

ENTRIES = 300
N = range(ENTRIES)
TABLE: dict[str, Any] = {
    **columns(ENTRIES),
    "option_of_lists": ak.Array([None if i % 3 == 0 else [i] * (i % 4) for i in N]),
    "union": ak.Array([i if i % 2 else f"t{i}" for i in N]),
    "pairs": ak.to_regular(ak.Array([[[1.5 * i, 2.0]] for i in N]), axis=2),
}


def written(path: Path, data: Any, **options: Any) -> Any:
    with sapwood.recreate(path, compression=options.pop("file_compression", sapwood.ZSTD(5))) as file:
        file.mkrntuple("n", data, **options)
    return sapwood.open(path)["n"]


def check(found: Any, table: dict[str, Any], repeats: int = 1) -> None:
    arrays = found.arrays()
    assert arrays.fields == list(table)
    for name, values in table.items():
        assert ak.to_list(arrays[name]) == ak.to_list(values) * repeats, name


@pytest.mark.parametrize("codec", [None, sapwood.ZLIB(1), sapwood.LZ4(4), sapwood.LZMA(1), sapwood.ZSTD(5)])
@pytest.mark.parametrize(("page", "cluster"), [(1, 100), (64, 7), (1000, None), (1 << 20, 300)])
def test_every_type_comes_back(tmp_path: Path, codec: Any, page: int, cluster: int | None) -> None:
    table = (
        TABLE if (codec is None or page == 64) else {k: TABLE[k] for k in ("int32", "text", "hits", "options", "union")}
    )
    found = written(tmp_path / "a.root", table, file_compression=codec, page_size=page, cluster_entries=cluster)
    check(found, table)


def test_names_of_types_are_those_of_root(tmp_path: Path) -> None:
    kinds = {
        "a": "Long64_t",
        "b": "vector<vector<float>>",
        "c": "map<string, int>",
        "d": "set<short>",
        "e": "Double32_t",
        "f": "optional<float>",
        "g": "variant<int, string>",
        "h": "var * {x: float32, y: string}",
        "i": ("int32", (2,)),
        "j": "pair<int, double>",
    }
    found = written(tmp_path / "a.root", kinds)
    names = {name: found[name].typename for name in kinds}
    assert names == {
        "a": "std::int64_t",
        "b": "std::vector<std::vector<float>>",
        "c": "std::map<std::string,std::int32_t>",
        "d": "std::set<std::int16_t>",
        "e": "double",
        "f": "std::optional<float>",
        "g": "std::variant<std::int32_t,std::string>",
        "h": "",
        "i": "std::array<std::int32_t,2>",
        "j": "std::pair<std::int32_t,double>",
    }


def test_columns_are_split_only_where_they_are_compressed(tmp_path: Path) -> None:
    found = written(tmp_path / "a.root", {"x": np.arange(5.0), "y": np.arange(5)}, compression={"y": None})
    assert [column.type for column in found.column_records] == [0x19, 0x09]


def test_maps_and_packed_numbers(tmp_path: Path) -> None:
    data = {"m": [{"a": 1}, {}, {"b": 2, "c": 3}], "q": np.array([0.0, 0.5, 1.0]), "t": np.array([1.0, -2.0, 0.5])}
    kinds = {"m": "map<string, int>", "q": "Double32_t[0, 1, 16]", "t": "Float16_t"}
    found = written(tmp_path / "a.root", data, field_types=kinds).arrays()
    assert [dict(entry) for entry in found["m"].to_list()] == data["m"]
    assert np.allclose(found["q"], data["q"], atol=1e-5)
    assert found["t"].to_list() == data["t"].tolist()


def test_entries_are_added_to_an_rntuple_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    written(path, TABLE, cluster_entries=70)
    for _ in range(2):
        with sapwood.update(path) as file:
            file["n"].extend(TABLE)
    found = sapwood.open(path)["n"]
    check(found, TABLE, 3)
    assert len(found.cluster_group_records) == 3
    assert found.arrays(entry_start=250, entry_stop=350)["text"].to_list() == (TABLE["text"] * 2)[250:350]


def test_fields_are_added_while_entries_are_written(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        out = file.mkrntuple("n", {"x": "int32"})
        out.extend({"x": [1, 2, 3]})
        out.add_fields({"y": "float64", "z": "var * int16", "a": ("int8", (2,))})
        out.extend({"x": [4], "y": [0.5], "z": [[7, 8]], "a": [[1, 2]]})
        with pytest.raises(ArgumentError, match="a field named y already exists"):
            out.add_fields({"y": "int8"})
        out.extend({"x": [5], "y": [1.5], "z": [[]], "a": [[3, 4]]})
    found = sapwood.open(tmp_path / "a.root")["n"].arrays()
    assert found.to_list() == [
        *({"x": x, "y": 0, "z": [], "a": [0, 0]} for x in (1, 2, 3)),
        {"x": 4, "y": 0.5, "z": [7, 8], "a": [1, 2]},
        {"x": 5, "y": 1.5, "z": [], "a": [3, 4]},
    ]
    with sapwood.update(tmp_path / "a.root") as file:
        file["n"].extend({"x": [6], "y": [2.5], "z": [[9]], "a": [[5, 6]]})
    found = sapwood.open(tmp_path / "a.root")["n"].arrays()
    assert found[-2:].to_list() == [{"x": 5, "y": 1.5, "z": [], "a": [3, 4]}, {"x": 6, "y": 2.5, "z": [9], "a": [5, 6]}]


def test_members_are_added_to_records(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    data = ak.Array([{"a": {"inner": {"z": 1.0}, "t": "u"}, "inner": {"v": [1, 2]}, "x": 5}] * 3)
    with sapwood.recreate(path, compression=sapwood.ZSTD(3)) as file:
        out = file.mkrntuple("n", data)
        out.add_fields({"inner.child": "float64", "a.inner.more": "string", "y": "int16", "inner.list": "var * int32"})
        row = {"a": {"inner": {"z": 2.0, "more": "m"}, "t": "w"}, "inner": {"v": [3], "child": 0.5, "list": [7]}}
        out.extend(ak.Array([{**row, "x": 6, "y": 1}]))
    with sapwood.update(path) as file:
        file["n"].add_fields({"a.inner.late": "bool"})
        row["a"]["inner"]["late"] = True
        file["n"].extend(ak.Array([{**row, "x": 7, "y": 2}]))
    first = {"a": {"inner": {"z": 1, "more": "", "late": False}, "t": "u"}}
    first["inner"] = {"v": [1, 2], "child": 0, "list": []}
    before = {**row, "a": {**row["a"], "inner": {**row["a"]["inner"], "late": False}}}
    expected = [{**first, "x": 5, "y": 0}] * 3 + [{**before, "x": 6, "y": 1}, {**row, "x": 7, "y": 2}]
    with sapwood.open(path) as ours, uproot.open(path) as theirs:
        assert ours["n"].arrays().to_list() == expected
        assert theirs["n"].arrays().to_list() == expected
        assert ours["n"]["a.inner"].keys() == ["z", "more", "late"]
        assert ours["n"].arrays(["a.inner.late"], entry_start=3)["a", "inner", "late"].to_list() == [False, True]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none.y", "there is no record none"),
        ("r.none.y", "there is no record r.none"),
        ("r.x", "a field named r.x already exists"),
        ("list.y", "list is not a record"),
        ("number.y", "number of type std::int64_t is not a record"),
        ("typed.y", "cannot add members to typed: the class Point has fixed members"),
        ("r.", "a field has no name"),
    ],
)
def test_members_are_not_added_to_what_is_no_open_record(tmp_path: Path, name: str, reason: str) -> None:
    data = ak.Array([{"r": {"x": 1}, "list": [{"x": 1}], "number": 1, "typed": {"x": 1}}])
    with sapwood.recreate(tmp_path / "a.root") as file:
        out = file.mkrntuple("n", data, classes={"typed": "Point"})
        with pytest.raises(ArgumentError, match=reason):
            out.add_fields({name: "int32"})
        out.extend(data)
    assert sapwood.open(tmp_path / "a.root")["n"].arrays().to_list() == data.to_list() * 2


def test_a_form_of_awkward_declares_fields(tmp_path: Path) -> None:
    data = ak.Array({"x": [1, 2], "t": [(1, 0.5), (2, 1.5)], "o": [None, "a"], "r": [[{"y": 1}], []]})
    with sapwood.recreate(tmp_path / "a.root", format="rntuple") as file:
        file.mkrntuple("n", data.layout.form).extend(data)
        file["assigned"] = data.layout.form
        file.mktree("t", data[["x", "r"]].layout.form).extend(data[["x", "r"]])
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["n"].arrays().to_list() == data.to_list()
        assert file["n"]["t"].typename == "std::tuple<std::int64_t,double>"
        assert file["assigned"].typenames() == file["n"].typenames()
        assert file["assigned"].num_entries == 0
        assert file["t"]["r_y"].array().to_list() == [[1], []]


def test_slashes_part_paths(tmp_path: Path) -> None:
    found = written(tmp_path / "a.root", {"r": ak.Array([{"x": 1, "s": {"y": 2}}])})
    assert found["r/s/y"] is found["r\\s\\y"] is found["/r/s/y"] is found["r.s.y"]
    assert "r/nothing" not in found


def test_text_is_added_while_entries_are_written(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        out = file.mkrntuple("n", {"x": "int32"})
        out.extend({"x": [1, 2]})
        out.add_fields({"t": "string"})
        out.extend({"x": [3], "t": ["abc"]})
        out.flush()
        out.extend({"x": [4], "t": ["de"]})
    found = sapwood.open(tmp_path / "a.root")["n"]
    assert found.arrays()["t"].to_list() == ["", "", "abc", "de"]
    assert [column.first_element_index for column in found.column_records][1:] == [2, 0]


def test_a_file_is_whole_after_every_cluster(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        out = file.mkrntuple("n", {"x": "int64"}, cluster_entries=10)
        for count in range(1, 30):
            out.extend({"x": np.arange(10 * (count - 1), 10 * count)})
            seen = sapwood.open(path)["n"]
            assert seen.arrays()["x"].to_list() == list(range(10 * count))
    assert len(sapwood.open(path)["n"].cluster_summaries) == 29


def test_pages_of_the_same_bytes_are_written_once(tmp_path: Path) -> None:
    zeros = np.zeros(100_000)
    one = written(tmp_path / "one.root", {"a": zeros}, file_compression=None)
    many = written(tmp_path / "many.root", {f"a{i}": zeros for i in range(20)}, file_compression=None)
    sizes = [Path(found.file.file_path).stat().st_size for found in (one, many)]
    assert sizes[1] < sizes[0] + 20_000
    assert (ak.to_numpy(many.arrays()["a7"]) == 0).all()


def test_assigning_a_table_makes_what_the_file_was_made_for(tmp_path: Path) -> None:
    for kind, name in (("ttree", "TTree"), ("rntuple", "ROOT::RNTuple")):
        with sapwood.recreate(tmp_path / f"{kind}.root", format=kind) as file:
            file["dir/t"] = pa.table({"x": [1, 2], "y": ["a", "b"]})
            file["chunks"] = iter([{"x": np.arange(3)}, {"x": np.arange(2)}])
        found = sapwood.open(tmp_path / f"{kind}.root")
        assert found.classnames(cycle=False)["dir/t"] == name
        assert found["dir/t"].arrays().to_list() == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]
        assert found["chunks"].arrays()["x"].to_list() == [0, 1, 2, 0, 1]
    with pytest.raises(ArgumentError, match="format must be 'ttree' or 'rntuple'"):
        sapwood.recreate(tmp_path / "x.root", format="csv")


def test_missing_values_of_every_library(tmp_path: Path) -> None:
    values = [1.5, None, 3.5]
    masked = np.ma.MaskedArray([1.5, 0, 3.5], [False, True, False])
    for number, data in enumerate((ak.Array(values), pa.array(values), masked, values)):
        found = written(tmp_path / f"{number}.root", {"x": data})
        assert found["x"].typename == "std::optional<double>"
        assert found.arrays()["x"].to_list() == values


def test_data_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        out = file.mkrntuple("n", {"x": "int8", "y": "var * int8"})
        out.extend({"x": [1], "y": [[2]]})
        for wrong in (
            {"x": [1]},
            {"x": [300], "y": [[1]]},
            {"x": ["a"], "y": [[1]]},
            {"x": [1, 2], "y": [[1]]},
            {"x": [1], "y": [[None]]},
            {"x": [1], "y": [[1]], "z": [1]},
        ):
            with pytest.raises((ArgumentError, UnsupportedError)):
                out.extend(wrong)
        out.extend({"x": [3], "y": [[]]})
    assert sapwood.open(tmp_path / "a.root")["n"].arrays().to_list() == [{"x": 1, "y": [2]}, {"x": 3, "y": []}]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        for data, words in (
            ({}, "at least one field"),
            ({"a.b": [1]}, "is not a valid name of a field"),
            ({"x": "list<int>"}, "std::list"),
            ({"x": np.array([1 + 2j])}, "complex"),
        ):
            with pytest.raises((ArgumentError, UnsupportedError), match=words):
                file.mkrntuple("n", data)
        assert file.keys() == []


def test_records_become_classes_by_name(tmp_path: Path) -> None:
    found = written(tmp_path / "a.root", {"hits": TABLE["hits"]}, classes={"hits": ("Hit", 3)})
    assert found["hits"].typename == "std::vector<Hit>"
    assert ak.to_list(found.arrays()["hits"]) == ak.to_list(TABLE["hits"])


def test_many_columns_take_little_memory_and_come_back(tmp_path: Path) -> None:
    table = {f"c{i}": np.full(50, i) for i in range(3000)}
    found = written(tmp_path / "a.root", table)
    assert found.num_entries == 50
    assert found["c2999"].array().to_list() == [2999] * 50


@dataclasses.dataclass
class Point:
    """An object of its own."""

    x: float
    y: float


def test_two_rntuples_and_a_tree_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        one = file.mkrntuple("one", {"x": "int32"}, cluster_entries=4)
        two = file.mktree("two", {"x": "int32"}, auto_flush=4)
        three = file.mkrntuple("dir/three", {"x": "int32"}, cluster_entries=3)
        for i in range(20):
            for out in (one, two, three):
                out.extend({"x": [i]})
        file["point"] = Point(1, 2)
    found = sapwood.open(path)
    for name in ("one", "two", "dir/three"):
        assert found[name].arrays()["x"].to_list() == list(range(20))


@dataclasses.dataclass
class Hit:
    """A part of an event."""

    x: float
    layer: Annotated[int, "int8"]


@dataclasses.dataclass
class Event:
    """An entry."""

    run: int
    name: str
    hits: list[Hit]
    weight: Optional[float]  # noqa: UP045 - both spellings are tried
    label: int | str
    layers: set[int]
    best: Hit | None
    cuts: dict[str, float]
    times: list[float | None]


def test_dataclasses_become_entries(tmp_path: Path) -> None:
    events = [
        Event(1, "a", [Hit(1.5, 2)], None, 7, {3, 1}, None, {"k": 0.5}, [1.0, None]),
        Event(2, "b", [], 2.5, "x", set(), Hit(0.5, -1), {}, []),
    ]
    with sapwood.recreate(tmp_path / "a.root") as file:
        table = file.mkrntuple("n", events)
        table.extend(events[:1])
    found = sapwood.open(tmp_path / "a.root")["n"]
    assert [kind for name, kind in found.typenames().items() if "." not in name] == [
        "std::int64_t",
        "std::string",
        "std::vector<Hit>",
        "std::optional<double>",
        "std::variant<std::int64_t,std::string>",
        "std::set<std::int64_t>",
        "std::optional<Hit>",
        "std::map<std::string,double>",
        "std::vector<std::optional<double>>",
    ]
    rows = found.arrays().to_list()
    want = [{**dataclasses.asdict(one), "layers": sorted(one.layers), "cuts": list(one.cuts.items())} for one in events]
    assert rows == [*want, want[0]]


def test_arrays_of_every_library_come_back(tmp_path: Path) -> None:
    nested = np.dtype([("a", "i4"), ("b", [("c", "f8"), ("d", "i2")])])
    cases: dict[str, tuple[Any, list[Any]]] = {
        "half": (np.array([1.5, -2], np.float16), [1.5, -2.0]),
        "masked": (np.ma.masked_array([[1, 2], [3, 4]], [[0, 1], [0, 0]]), [[1, None], [3, 4]]),
        "nested": (
            np.array([(1, (2.5, 3)), (2, (3.5, 4))], nested),
            [{"a": 1, "b": {"c": 2.5, "d": 3}}, {"a": 2, "b": {"c": 3.5, "d": 4}}],
        ),
        "maps": (pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int32())), [[("a", 1)], None]),
        "views": (pa.array(["ab", "c"], pa.string_view()), ["ab", "c"]),
        "runs": (pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([5, 6])), [5, 6]),
        "union": (
            pa.UnionArray.from_dense(
                pa.array([0, 1], pa.int8()), pa.array([0, 0], pa.int32()), [pa.array([1]), pa.array(["x"])]
            ),
            [1, "x"],
        ),
    }
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("n", {name: data for name, (data, _) in cases.items()})
    found = sapwood.open(tmp_path / "a.root")["n"]
    for name, (_, want) in cases.items():
        assert found[name].array().to_list() == want, name
    decimals = pa.array([decimal.Decimal("1.5")])
    with sapwood.recreate(tmp_path / "b.root") as file, pytest.raises(sapwood.UnsupportedError, match="decimal128"):
        file.mkrntuple("n", {"x": decimals})


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_dictionaries_and_views_of_arrow_and_polars_at_any_depth(tmp_path: Path, kind: str) -> None:
    long = "b" * 40  # not stored in the view itself
    texts = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.uint8()), pa.array(["a", long]))
    other = pa.DictionaryArray.from_arrays(pa.array([0], pa.uint8()), pa.array(["a"]))
    cases: dict[str, tuple[Any, list[Any]]] = {
        "texts": (texts, [long, "a"]),
        "numbers": (pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), pa.array([1.5, 2.5])), [2.5, 1.5]),
        "chunks": (pa.chunked_array([texts[:1], other]), [long, "a"]),
        "lists": (pa.array([["a", long], []], pa.list_(pa.dictionary(pa.uint8(), pa.string()))), [["a", long], []]),
        "views": (pa.array([["a", long], []], pa.list_(pa.string_view())), [["a", long], []]),
        "maps": (
            pa.array([[("a", long)], []], pa.map_(pa.string(), pa.dictionary(pa.int8(), pa.string()))),
            [[("a", long)], []],
        ),
        "enum": (pl.Series([long, "a"], dtype=pl.Enum(["a", long])), [long, "a"]),
        "enums": (pl.Series([["a"], [long, "a"]], dtype=pl.List(pl.Enum([long, "a"]))), [["a"], [long, "a"]]),
        "category": (pl.Series([long, "a"], dtype=pl.Categorical), [long, "a"]),
    }
    with sapwood.recreate(tmp_path / "a.root", format=kind) as file:
        file["t"] = {name: data for name, (data, _) in cases.items()}
    with sapwood.open(f"{tmp_path}/a.root:t") as found:
        for name, (_, want) in cases.items():
            assert found[name].array().to_list() == want, name
    records = pl.Series([{"e": "a"}, {"e": None}], dtype=pl.Struct({"e": pl.Enum(["a", "b"])}))
    missing = pa.DictionaryArray.from_arrays(pa.array([0, None], pa.uint8()), pa.array(["a"]))
    objects = np.array(["a", None], object)
    for data, want in ((records, [{"e": "a"}, {"e": None}]), (missing, ["a", None]), (objects, ["a", None])):
        with sapwood.recreate(tmp_path / "b.root") as file:
            with pytest.raises(sapwood.UnsupportedError, match="missing values"):
                file.mktree("t", {"x": data})
            file.mkrntuple("n", {"x": data})
        assert sapwood.open(tmp_path / "b.root")["n/x"].array().to_list() == want


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize("data", [pl.Series([object()], dtype=pl.Object), pl.Series([[1]], dtype=pl.List(pl.Int128))])
def test_values_of_polars_that_no_type_holds_are_refused(tmp_path: Path, kind: str, data: Any) -> None:
    with sapwood.recreate(tmp_path / "a.root", format=kind) as file:
        with pytest.raises(sapwood.errors.UnsupportedTypeError, match="'x': arrays of Polars' type"):
            file["t"] = {"x": data}
        assert file.keys() == []


def test_structured_arrays_with_masks(tmp_path: Path) -> None:
    kind = np.dtype([("a", "i4"), ("b", "f8")])
    whole = np.ma.masked_array([(1, 2.5), (3, 4.5)], dtype=kind)
    some = np.ma.masked_array([(1, 2.5), (3, 4.5)], [(0, 1), (0, 0)], kind)
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"x": whole})
        file.mkrntuple("n", {"x": whole, "y": some})
        with pytest.raises(sapwood.UnsupportedError, match="masked"):
            file.mktree("u", {"y": some})
    found = sapwood.open(tmp_path / "a.root")
    assert found["t"].arrays().to_list() == [{"x_a": 1, "x_b": 2.5}, {"x_a": 3, "x_b": 4.5}]
    assert found["n/x"].array().to_list() == [{"a": 1, "b": 2.5}, {"a": 3, "b": 4.5}]
    assert found["n/y"].array().to_list() == [{"a": 1, "b": None}, {"a": 3, "b": 4.5}]


def test_arrow_unions_are_written_and_read(tmp_path: Path) -> None:
    tags = pa.array([5, 7, 5, 7], pa.int8())
    numbers, texts = pa.array([1, None, 3, 4]), pa.array(["a", "b", "c", "d"])
    sparse = pa.UnionArray.from_sparse(tags, [numbers, texts], ["x", "y"], [5, 7])
    places = pa.array([3, 0, 1, 0], pa.int32())
    dense = pa.UnionArray.from_dense(tags, places, [numbers, texts], ["x", "y"], [5, 7])
    lists = pa.ListArray.from_arrays(pa.array([0, 3, 3, 4, 4], pa.int32()), dense)
    cases = {
        "sparse": (sparse, [1, "b", 3, "d"]),
        "dense": (dense, [4, "a", None, "a"]),
        "lists": (lists, [[4, "a", None], [], ["a"], []]),
        "chunks": (pa.chunked_array([dense.slice(3), dense.slice(1, 2), dense.slice(0, 1)]), ["a", "a", None, 4]),
        "slice": (pa.concat_arrays([sparse.slice(1, 2), sparse.slice(2)]), ["b", 3, 3, "d"]),
        "records": (pa.StructArray.from_arrays([dense], ["u"]), [{"u": one} for one in (4, "a", None, "a")]),
    }
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("n", {name: data for name, (data, _) in cases.items()}, cluster_entries=3)
    found = sapwood.open(tmp_path / "a.root")["n"]
    for name, (_, want) in cases.items():
        assert found[name].array().to_list() == want, name
        arrow = found[name].array(library="pa")
        arrow.validate(full=True)
        assert arrow.to_pylist() == want, name
    # Arrow files, too.
    convert(f"{tmp_path}/a.root", f"{tmp_path}/a.arrow")
    convert(f"{tmp_path}/a.arrow", f"{tmp_path}/b.root", name="n", table_format="rntuple")
    again = sapwood.open(tmp_path / "b.root")["n"]
    for name, (_, want) in cases.items():
        assert again[name].array().to_list() == want, name
    with sapwood.recreate(tmp_path / "c.root") as file, pytest.raises(sapwood.UnsupportedError, match="union"):
        file.mktree("t", {"u": dense})


def test_fields_show_parts_of_others(tmp_path: Path) -> None:
    muons = ak.Array([[{"pt": i + k / 2, "v": [i, k]} for k in range(i % 3)] for i in range(50)])
    shown = {"Muon_pt": "Muon.pt", "nMuon": "Muon", "Muon_v": "Muon._0.v", "id": "event"}
    with sapwood.recreate(tmp_path / "a.root") as file:
        with pytest.raises(sapwood.ArgumentError, match=r"cannot project the field \"Muon\.eta\": it does not exist"):
            file.mkrntuple("n", {"Muon": muons}, projections={"eta": "Muon.eta"})
        with pytest.raises(sapwood.ArgumentError, match="two fields"):
            file.mkrntuple("n", {"Muon": muons}, projections={"Muon": "Muon.pt"})
        with pytest.raises(sapwood.UnsupportedError, match="lists in lists"):
            file.mkrntuple("n", {"Muon": muons}, projections={"Muon_v": "Muon.v"})
        del shown["Muon_v"]
        table = file.mkrntuple("n", {"Muon": muons, "event": np.arange(50)}, cluster_entries=20, projections=shown)
        assert table.keys() == ["Muon", "event"]
    found = sapwood.open(tmp_path / "a.root")["n"]
    kinds = found.typenames()
    assert kinds["nMuon"] == "ROOT::RNTupleCardinality<std::uint32_t>"
    assert kinds["Muon_pt"] == "ROOT::VecOps::RVec<double>"
    assert found["Muon_pt"].array().to_list() == muons["pt"].to_list()
    assert found["nMuon"].array().to_list() == ak.num(muons).to_list()
    assert found["id"].array().to_list() == list(range(50))
    assert len(found.column_records) == 5
    # Copies keep them.
    with sapwood.recreate(tmp_path / "b.root") as file:
        assert file.merge_rntuples("n", [found, found]) == (100, 6)
    again = sapwood.open(tmp_path / "b.root")["n"]
    assert again["Muon_pt"].array().to_list() == 2 * muons["pt"].to_list()
    assert again.list_counters == {"Muon_pt": "nMuon"}


def test_variants_of_one_type_and_of_variants_come_back(tmp_path: Path) -> None:
    inner = pa.UnionArray.from_dense(
        pa.array([1, 0, 1], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([7]), pa.array(["a", "b"])]
    )
    outer = pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 0, 1], pa.int8()), pa.array([0, 0, 1, 2, 1], pa.int32()), [inner, pa.array([["x"], []])]
    )
    single = pa.UnionArray.from_dense(
        pa.array([0] * 5, pa.int8()), pa.array(range(4, -1, -1), pa.int32()), [pa.array([1, None, 3, 4, 5])]
    )
    nested, one = ["a", ["x"], 7, "b", []], [5, 4, 3, None, 1]
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("n", {"nested": outer, "one": single}, cluster_entries=2)
    found = sapwood.open(tmp_path / "a.root")["n"]
    assert found["nested"].typename.startswith("std::variant<std::variant<")
    for name, want in (("nested", nested), ("one", one)):
        assert found[name].array().to_list() == want
        assert found[name].array(library="pa").to_pylist() == want
        assert list(found[name].array(library="np")) == want
        assert found.arrays(virtual=True)[name].to_list() == want
        assert [value for step in found.iterate([name], step_size=1) for value in step[name].to_list()] == want
    with sapwood.recreate(tmp_path / "b.root") as file:
        file.merge_rntuples("n", [found], cluster_entries=5)
    assert sapwood.open(tmp_path / "b.root")["n"].arrays().to_list() == found.arrays().to_list()


def test_missing_values_in_and_of_variants_are_where_they_are_declared(tmp_path: Path) -> None:
    types = {
        "of": "std::optional<std::variant<int64_t,std::string>>",
        "within": "std::variant<std::optional<int64_t>,std::string>",
    }
    values = ak.Array([1, None, "a", None])
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("n", dict.fromkeys(types, values), field_types=types)
    found = sapwood.open(tmp_path / "a.root")["n"]
    pages = found.page_link_list[0]
    kinds = {
        (found.field_records[column.field_id].type_name, column.name): i
        for i, column in enumerate(found.column_records)
    }
    elements = {kind: sum(page.num_elements for page in pages[i].pages) for kind, i in kinds.items()}
    # Of the first, two values exist; the second is a variant for each entry, of which three hold an optional number.
    assert elements["std::variant<std::int64_t,std::string>", "switch"] == 2
    assert elements["std::variant<std::optional<std::int64_t>,std::string>", "switch"] == 4
    assert elements["std::optional<std::int64_t>", "splitindex64"] == 3
    for name in types:
        assert found[name].array().to_list() == [1, None, "a", None]
