"""RNTuples: values of every type, listed, selected, cut and joined."""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood

TYPES = Path(__file__).parent.parent / "golden" / "ntuple" / "types.root"


def single(value: float) -> float:
    return struct.unpack("f", struct.pack("f", value))[0]


def truncated(value: float) -> float:
    word = struct.unpack("<I", struct.pack("<f", value))[0] >> 12 << 12
    return struct.unpack("<f", struct.pack("<I", word))[0]


def quantized(value: float) -> float:
    return int(0.5 + (value + 1) * (4095 / 2)) * (2 / 4095) - 1


def hits(i: int) -> list[dict[str, Any]]:
    return [{"x": float(i), "y": float(-k), "id": 100 * i + k, "samples": [i] * k} for k in range(i % 3)]


EXPECTED: dict[str, Callable[[int], Any]] = {
    "i32": lambda i: i - 5,
    "u64": lambda i: i << 40,
    "flag": lambda i: i % 3 == 0,
    "f": lambda i: i / 4,
    "d": lambda i: 1 / (i + 1),
    "half": lambda i: i / 8,
    "trunc": lambda i: truncated(single(i * single(0.1))),
    "quant": lambda i: quantized(i / 20 - 0.5),
    "s": lambda i: chr(ord("a") + i) * (i % 4),
    "v": lambda i: [i + k / 2 for k in range(i % 5)],
    "vv": lambda i: [[i * 10 + k] * (k + i % 2) for k in range(i % 3)],
    "arr": lambda i: [0, i, 2 * i],
    "bits": lambda i: [bool(i * 37 % 1024 >> b & 1) for b in range(10)],
    "opt": lambda i: i / 2 if i % 2 else None,
    "ptr": lambda i: -i if i % 3 else None,
    "var": lambda i: i if i % 2 else "x" * i,
    "pr": lambda i: (i, str(i)),
    "tup": lambda i: (i, i / 2, f"t{i}"),
    "set": lambda i: sorted(10 - k + i for k in range(i % 4)),
    "hits": hits,
    "old": lambda i: {"a": i, "b": [i * 1.5] * (i % 3), "c": "o" * (i % 6)},
    "nv": lambda i: i % 5,
    "late": lambda i: i * i if i >= 10 else 0,
    "late_list": lambda i: [float(i)] * (i % 3) if i >= 10 else [],
    "late_text": lambda i: f"late{i}" if i >= 10 else "",
    "late_array": lambda i: [i, -i] if i >= 10 else [0, 0],
}


@pytest.fixture(scope="module")
def ntuple() -> Any:
    return sapwood.open(TYPES)["types"]


def test_every_field_is_listed_in_order(ntuple: Any) -> None:
    assert ntuple.keys(recursive=False) == list(EXPECTED)
    assert ntuple.num_entries == 20
    assert ntuple["hits"].keys() == ["x", "y", "id", "samples"]
    assert ntuple.typenames()["hits.samples"] == "std::vector<std::int16_t>"
    assert ntuple.description == "values that are formulas of their entry"
    assert ntuple["i32"].description == "entry less five"


@pytest.mark.parametrize("name", EXPECTED)
def test_values_are_those_that_root_wrote(ntuple: Any, name: str) -> None:
    assert ntuple[name].array().to_list() == [EXPECTED[name](i) for i in range(20)]


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (3, 4), (4, 6), (0, 13), (7, 20), (19, 20), (12, 14)])
@pytest.mark.parametrize("name", EXPECTED)
def test_any_range_of_entries_is_a_slice_of_all(ntuple: Any, name: str, start: int, stop: int) -> None:
    found = ntuple[name].array(entry_start=start, entry_stop=stop).to_list()
    assert found == [EXPECTED[name](i) for i in range(start, stop)]


def test_steps_of_any_size_join_to_all_entries(ntuple: Any) -> None:
    for size in (1, 3, 7, "1 kB"):
        steps = [step.to_list() for step in ntuple.iterate(step_size=size)]
        assert [entry for step in steps for entry in step] == ntuple.arrays().to_list()


def test_members_of_the_objects_in_a_list_are_lists(ntuple: Any) -> None:
    assert ntuple["hits.id"].array().to_list() == [[hit["id"] for hit in hits(i)] for i in range(20)]
    assert ntuple["hits.x"].array().to_list() == [[hit["x"] for hit in hits(i)] for i in range(20)]
    found = ntuple.arrays(filter_name="hits.s*")
    assert found.fields == ["hits"]
    assert found.hits.fields == ["samples"]
    assert found.hits.samples.to_list() == [[hit["samples"] for hit in hits(i)] for i in range(20)]
    assert ntuple.arrays(filter_name=["hits", "hits.*"]).fields == ["hits"]


def test_filters_expressions_cuts_and_aliases(ntuple: Any) -> None:
    assert ntuple.arrays(filter_typename="double").fields == ["d", "quant"]
    assert ntuple.arrays(filter_field=lambda field: field.name == "s").fields == ["s"]
    found = ntuple.arrays(["i32 + 5", "twice"], "flag & (i32 > 0)", aliases={"twice": "2 * f"})
    assert found["i32 + 5"].to_list() == [6, 9, 12, 15, 18]
    assert found["twice"].to_list() == [3.0, 4.5, 6.0, 7.5, 9.0]


def test_every_library_gives_the_same_numbers(ntuple: Any) -> None:
    wanted = [i - 5 for i in range(20)]
    assert ntuple["i32"].array(library="np").tolist() == wanted
    assert ntuple.arrays("i32", library="pd")["i32"].tolist() == wanted
    assert ntuple.arrays("i32", library="pa")["i32"].to_pylist() == wanted
    assert ntuple.arrays("i32", library="pl")["i32"].to_list() == wanted


def test_it_is_an_arrow_stream(ntuple: Any) -> None:
    pyarrow: Any = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    with pytest.warns(sapwood.SapwoodWarning, match=r"var: .* no form"):
        table = pyarrow.table(ntuple)
    assert table.column_names == [name for name in EXPECTED if name != "var"]
    assert table["v"].to_pylist() == [EXPECTED["v"](i) for i in range(20)]
    assert table["opt"].to_pylist() == [EXPECTED["opt"](i) for i in range(20)]


def test_virtual_arrays_have_the_form_and_the_values(ntuple: Any) -> None:
    virtual = ntuple.arrays(virtual=True)
    for name, value in EXPECTED.items():
        assert virtual[name].to_list() == [value(i) for i in range(20)], name
    form, path = ntuple.to_akform()
    assert (form.fields, path) == (list(EXPECTED), None)
    assert form.type == ntuple.arrays().layout.form.type


RECORDS: dict[str, list[Any]] = {
    "one": [{"x": 1, "y": 2.5}, {"x": 3, "y": 4.5}],
    "many": [[{"x": 1, "tup": (1, 2.0)}], [{"x": 2, "tup": (3, 4.0)}, {"x": 5, "tup": (6, 7.0)}]],
    "tup": [(1, 2.0), (3, 4.0)],
}


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = str(tmp_path_factory.mktemp("records") / "records.root")
    with sapwood.recreate(path) as file:
        file.mkrntuple("t", ak.Array(RECORDS))
    return sapwood.open(path)["t"]


@pytest.mark.parametrize(
    ("field", "filters", "form", "path"),
    [
        ("one", {}, "{one: {x: int64, y: float64}}", ["one"]),
        ("one.x", {}, "{x: int64}", ["x"]),
        ("one", {"filter_name": "y"}, "{one: {y: float64}}", ["one"]),
        ("many", {}, "{many: var * {x: int64, tup: (int64, float64)}}", ["many"]),
        ("many.x", {}, "{many: var * {x: int64}}", ["many", "x"]),
        ("many.tup.1", {}, "{many: var * {tup: (float64)}}", ["many", "tup", "1"]),
        (None, {"filter_name": "x"}, "{one: {x: int64}, many: var * {x: int64}}", None),
        (None, {"filter_name": "tup.0"}, "{tup: (int64)}", None),
        (None, {"filter_branch": lambda field: field.name == "y"}, "{one: {y: float64}}", None),
        (None, {"filter_name": "nothing"}, "{}", None),
    ],
)
def test_the_form_of_a_field_has_the_lists_around_it(
    records: Any, field: str | None, filters: dict[str, Any], form: str, path: list[str] | None
) -> None:
    found, where = (records if field is None else records[field]).to_akform(**filters)
    assert (str(found.type), where) == (form, path)


@pytest.mark.parametrize(
    ("wanted", "type_"),
    [
        ("one.x", "{one: {x: int64}}"),
        (["one/y", "many.x"], "{one: {y: float64}, many: var * {x: int64}}"),
        (["many.tup.1", "one", "one.x"], "{many: var * {tup: (float64)}, one: {x: int64, y: float64}}"),
        (["one.x + 1", "tup.0"], '{"one.x + 1": int64, tup: (int64)}'),
    ],
)
def test_parts_of_fields_come_within_their_fields(records: Any, wanted: Any, type_: str) -> None:
    found = records.arrays(wanted)
    assert str(found.type) == f"2 * {type_}"
    whole = records.arrays().to_list()
    for name in (name for name in ("one.x", "many.x") if name in wanted):
        assert _at(found.to_list(), name) == _at(whole, name)
    flat = records.arrays(wanted, how=dict)
    assert list(flat) == ([wanted] if isinstance(wanted, str) else wanted)
    (step,) = records.iterate(wanted, step_size="1 MB")
    (several,) = sapwood.iterate(records, wanted)
    assert step.to_list() == several.to_list() == found.to_list() == sapwood.concatenate(records, wanted).to_list()
    assert records.arrays(wanted, entry_stop=0).fields == found.fields
    kept = records.arrays(wanted, cut="one.y > 1")
    assert kept.to_list() == [entry for entry, all_ in zip(found.to_list(), whole, strict=True) if all_["one"]["y"] > 1]


@pytest.mark.parametrize("wanted", ["one.x", "many.x", ["many.tup.1", "many.x"], ["one.*", "tup.0"], "many.tup"])
def test_parts_of_records_are_virtual_one_by_one(records: Any, wanted: str | list[str]) -> None:
    log: list[Any] = []
    found = records.arrays(filter_name=wanted, virtual=True, access_log=log)
    eager = records.arrays(filter_name=wanted)
    assert found.type == eager.type
    assert not log
    assert found.to_list() == eager.to_list()
    assert {access.branch for access in log} == set(records.keys(filter_name=wanted))


def test_looking_at_one_virtual_part_of_a_record_reads_no_other(records: Any) -> None:
    log: list[Any] = []
    found = records.arrays(filter_name=["one.x", "one.y"], virtual=True, access_log=log)
    assert found["one", "y"].to_list() == [2.5, 4.5]
    assert {access.branch for access in log} == {"one.y"}


def _at(entries: list[Any], path: str) -> list[Any]:
    name, _, rest = path.partition(".")
    inner = [entry[name] for entry in entries]
    if not rest:
        return inner
    return [_at(one, rest) if isinstance(one, list) else _at([one], rest)[0] for one in inner]


def test_one_field_can_be_virtual(records: Any) -> None:
    log: list[Any] = []
    for name in ("one", "one.x", "many", "many.x", "many.tup.1", "tup"):
        found = records[name].array(1, 2, virtual=True, access_log=log)
        assert not log, name
        assert found.to_list() == records[name].array(1, 2).to_list()
        assert log
        log.clear()
    with pytest.raises(sapwood.ArgumentError, match="library='np' cannot be used with 'virtual=True'"):
        records["one"].array(virtual=True, library="np")
    with pytest.raises(sapwood.ArgumentError, match="access_log cannot be used"):
        records["one"].array(access_log=[])


def test_arguments_of_trees_and_of_other_backends(records: Any) -> None:
    assert records.keys(filter_branch=lambda field: field.name == "y") == ["one.y"]
    assert records.arrays(["one"], backend="cpu", interpreter="cpu").fields == ["one"]
    with pytest.raises(sapwood.ArgumentError, match="backend can only be 'cpu', not 'cuda'"):
        records.arrays(backend="cuda")
    with pytest.raises(sapwood.ArgumentError, match="backend can only be 'cpu', not 'cuda'"):
        records["one"].array(backend="cuda")
    for read in (
        sapwood.behaviors.RNTuple.concatenate,
        lambda *given, **options: next(sapwood.behaviors.RNTuple.iterate(*given, **options)),
    ):
        assert read(records, ["one"], backend="cpu", interpreter="cpu").fields == ["one"]
        with pytest.raises(sapwood.ArgumentError, match="interpreter can only be 'cpu', not 'cuda'"):
            read(records, ["one"], interpreter="cuda")
    with pytest.raises(sapwood.ArgumentError, match="another name for filter_field"):
        records.keys(filter_branch=lambda _: True, filter_field=lambda _: True)


def test_it_is_shown_as_a_tree(records: Any) -> None:
    text = io.StringIO()
    records.show(stream=text, filter_name=["many", "many.*", "tup"], max_width=30)
    assert text.getvalue().splitlines() == [
        "t (ROOT::RNTuple)",
        "├─ many ()",
        "│  ├─ x (std::int64_t)",
        "│  └─ tup (std::tuple<std::int",
        "│     ├─ 0 (std::int64_t)",
        "│     └─ 1 (double)",
        "└─ tup (std::tuple<std::int64_",
    ]


def test_the_anchor_has_members(ntuple: Any) -> None:
    assert [ntuple.member(f"fVersion{part}") for part in ("Epoch", "Major", "Minor")] == [1, 0, 2]
    assert ntuple.members["fLenHeader"] > ntuple.member("fNBytesHeader") > 0
    assert ntuple.footer.header_checksum == ntuple.header.checksum
    assert [record.field_name for record in ntuple.header.field_records] == ntuple.field_names


def test_files_are_joined() -> None:
    joined = sapwood.concatenate([f"{TYPES}:types"] * 3)
    for name, value in EXPECTED.items():
        assert joined[name].to_list() == [value(i) for i in range(20)] * 3, name


def test_metadata_is_that_of_the_schema(ntuple: Any) -> None:
    assert [tuple(one) for one in ntuple.cluster_summaries] == [(0, 5), (5, 8), (13, 7)]
    assert [tuple(one) for one in ntuple.cluster_group_records] == [(0, 13, 2), (13, 7, 1)]
    assert ntuple.clusters == [0, 5, 13, 20]
    assert ntuple.header.writer_identifier.startswith("ROOT v6")
    assert ntuple["u64"].record.type_name == "std::uint64_t"
    assert [column.name for column in ntuple["quant"].columns] == ["real32quant"]
    assert ntuple["quant"].columns[0].range == (-1.0, 1.0)
    assert ntuple["nv"].record.source_field_id == ntuple["v"].field_id
    deferred = [column.first_element_index for column in ntuple["late_array"].columns]
    assert deferred == [20]
    assert ntuple["d"].uncompressed_bytes == 160


def test_page_lists_are_those_that_uproot_shows(ntuple: Any) -> None:
    theirs = uproot.open(TYPES)["types"]
    assert len(ntuple.page_list_envelopes) == len(theirs.page_list_envelopes) == 2
    assert len(ntuple.page_link_list) == len(theirs.page_link_list) == 3
    for ours, other in zip(ntuple.page_list_envelopes, theirs.page_list_envelopes, strict=True):
        assert ours.header_checksum == other.header_checksum
        assert [one.num_entries for one in ours.cluster_summaries] == [
            one.num_entries for one in other.cluster_summaries
        ]
    for columns, others in zip(ntuple.page_link_list, theirs.page_link_list, strict=True):
        for column, other in zip(columns, others, strict=True):
            assert column.suppressed == other.suppressed
            assert column.compression_settings == other.compression_settings
            assert column.suppressed or column.element_offset == other.element_offset
            pages = [(one.num_elements, one.has_checksum, *one.locator) for one in column.pages]
            assert pages == [
                (one.num_elements, one.has_checksum, one.locator.offset, one.locator.num_bytes) for one in other.pages
            ]


def test_it_survives_pickling(ntuple: Any) -> None:
    assert pickle.loads(pickle.dumps(ntuple)).num_entries == 20
    assert pickle.loads(pickle.dumps(ntuple["hits.id"])).path == "hits.id"


def test_a_missing_field_is_named_with_what_is_like_it(ntuple: Any) -> None:
    with pytest.raises(sapwood.NotFoundError, match=r"no such field: 'late_lists'(.|\n)*late_list"):
        ntuple["late_lists"]


def test_numpy_has_the_same_numbers_as_awkward(ntuple: Any) -> None:
    assert np.array_equal(ntuple["arr"].array(library="np"), ak.to_numpy(ntuple["arr"].array()))


def test_arrays_of_a_field_are_records_of_it(tmp_path: Path) -> None:
    path = tmp_path / "nested.root"
    inner = [{"i": i, "sub": {"i": i, "v": [i] * i}} for i in range(4)]
    data = ak.Array({"a": inner, "hits": [[{"x": 1, "y": 2.5}] * i for i in range(4)]})
    with sapwood.recreate(path) as file:
        file.mkrntuple("n", data)
    ours, theirs = sapwood.open(path)["n"], uproot.open(path)["n"]
    cases = [("a", None), ("a", "sub"), ("a", "i"), ("a.sub", None), ("hits", None), ("hits", "x"), ("a.sub.i", None)]
    for name, names in cases:
        expected = theirs[name].arrays(filter_name=names)
        assert ak.array_equal(ours[name].arrays(filter_name=names), expected), (name, names)
        assert ak.array_equal(ak.concatenate(list(ours[name].iterate(filter_name=names, step_size=2))), expected)
    assert ours["a"].arrays(library="np").keys() == {"i", "sub"}


NESTED = {
    "strings": [["x"], [], ["x", "yz"], ["y"]],
    "lists": [[[1]], [], [[], [2, 3]], [[4]]],
    "optional lists": [[[1]], [], [None, [2, 3]], [[4]]],
    "records": [[{"v": [1]}], [], [{"v": []}, {"v": [2]}], [{"v": [3, 4]}]],
}


@pytest.mark.parametrize("values", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize(
    "ranges", [[(1, 2), (3, 4)], [(1, 2), (2, 4)], [(1, 2), (1, 2), (0, 1)], [(0, 1), (1, 2), (2, 3)]]
)
def test_ranges_of_entries_of_which_some_have_no_inner_lists(
    tmp_path: Path, values: list[Any], ranges: list[tuple[int, int]]
) -> None:
    path = tmp_path / "n.root"
    with sapwood.recreate(path) as file:
        file.mkrntuple("n", {"v": ak.Array(values)}, cluster_entries=1)
    steps = {path: {"object_path": "n", "steps": [list(one) for one in ranges]}}
    found = sapwood.concatenate(steps, ["v"]).v.to_list()
    assert found == [value for start, stop in ranges for value in values[start:stop]]


def test_an_index_that_leaves_ranges_without_inner_lists(tmp_path: Path) -> None:
    path = tmp_path / "n.root"
    with sapwood.recreate(path, index=True) as file:
        table = {"run": np.array([0, 1, 0, 1], np.int32), "v": ak.Array(NESTED["strings"])}
        file.mkrntuple("n", table, cluster_entries=1)
    with sapwood.open(path) as file:
        assert file["n"].arrays(["v"], "run == 1").v.to_list() == [[], ["y"]]
