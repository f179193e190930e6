"""Columns and what they turn into."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import columns
from sapwood.columns import Column
from sapwood.errors import ArgumentError, UnsupportedError

OFFSETS = np.array([0, 2, 2, 3])
INDEX = np.array([2, -1, 0])
NUMBER: Column = ("number", np.array([1.5, 2.5, 3.5], dtype=np.float32))
TEXT: Column = ("text", np.array([0, 1, 1, 5]), np.frombuffer("añb!".encode(), dtype=np.uint8))
LIST: Column = ("list", OFFSETS, NUMBER)
FIXED: Column = ("fixed", 3, 2, ("number", np.arange(6)))

# Name, column, its type as Awkward writes it, its values.
TABLE: list[tuple[str, Column, str, list[Any]]] = [
    ("numbers", NUMBER, "float32", [1.5, 2.5, 3.5]),
    ("bools", ("number", np.array([True, False, True])), "bool", [True, False, True]),
    ("text", TEXT, "string", ["a", "", "ñb!"]),
    ("lists", LIST, "var * float32", [[1.5, 2.5], [], [3.5]]),
    ("lists of lists", ("list", OFFSETS, LIST), "var * var * float32", [[[1.5, 2.5], []], [], [[3.5]]]),
    ("lists of pairs", ("list", OFFSETS, FIXED), "var * 2 * int64", [[[0, 1], [2, 3]], [], [[4, 5]]]),
    ("lists of text", ("list", OFFSETS, TEXT), "var * string", [["a", ""], [], ["ñb!"]]),
    ("pairs", FIXED, "2 * int64", [[0, 1], [2, 3], [4, 5]]),
    ("no pairs", ("fixed", 0, 2, ("number", np.arange(0))), "2 * int64", []),
    ("pairs of nothing", ("fixed", 3, 0, ("number", np.arange(0))), "0 * int64", [[], [], []]),
    ("tables", ("fixed", 1, 3, FIXED), "3 * 2 * int64", [[[0, 1], [2, 3], [4, 5]]]),
    ("pairs of lists", ("fixed", 1, 3, LIST), "3 * var * float32", [[[1.5, 2.5], [], [3.5]]]),
    (
        "records",
        ("record", 3, "", [("x", NUMBER), ("pair", FIXED)]),
        "{x: float32, pair: 2 * int64}",
        [{"x": 1.5, "pair": [0, 1]}, {"x": 2.5, "pair": [2, 3]}, {"x": 3.5, "pair": [4, 5]}],
    ),
    (
        "named records",
        ("record", 3, "Thing", [("word", TEXT)]),
        "Thing[word: string]",
        [{"word": "a"}, {"word": ""}, {"word": "ñb!"}],
    ),
    (
        "tuples",
        ("record", 3, "", [("0", NUMBER), ("1", TEXT)]),
        "(float32, string)",
        [(1.5, "a"), (2.5, ""), (3.5, "ñb!")],
    ),
    ("records of nothing", ("record", 3, "", []), "{}", [{}, {}, {}]),
    ("options", ("option", INDEX, NUMBER), "?float32", [3.5, None, 1.5]),
    ("optional lists", ("option", INDEX, LIST), "option[var * float32]", [[3.5], None, [1.5, 2.5]]),
    (
        "unions",
        ("union", np.array([1, 0, 0], dtype=np.int8), np.array([0, 2, 1]), [NUMBER, TEXT]),
        "union[float32, string]",
        ["a", 3.5, 2.5],
    ),
]
EACH = pytest.mark.parametrize(("column", "kind", "values"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])


@EACH
def test_to_awkward(column: Column, kind: str, values: list[Any]) -> None:
    array = columns.to_awkward(column)
    assert ak.to_list(array) == values
    assert str(array.type) == f"{len(values)} * {kind}"
    assert ak.is_valid(array)
    assert columns.length_of(column) == len(values)


@EACH
def test_types_describe_themselves(column: Column, kind: str, values: list[Any]) -> None:
    assert columns.describe(columns.type_of(column)) == kind.replace("option[var * float32]", "?var * float32")


@EACH
def test_back_from_awkward(column: Column, kind: str, values: list[Any]) -> None:
    again = columns.from_awkward(columns.to_awkward(column))
    assert columns.type_of(again) == columns.type_of(column)
    assert ak.to_list(columns.to_awkward(again)) == values
    part = columns.from_awkward(columns.to_awkward(column)[1:])
    assert ak.to_list(columns.to_awkward(part)) == values[1:]
    assert columns.length_of(part) == max(0, len(values) - 1)
    shuffled = columns.from_awkward(columns.to_awkward(column)[::-1])
    assert ak.to_list(columns.to_awkward(shuffled)) == values[::-1]


@EACH
def test_forms_and_buffers_fit(column: Column, kind: str, values: list[Any]) -> None:
    form = columns.form_of(columns.type_of(column), "key")
    buffers = columns.buffers_of(column, "key")
    assert set(form.expected_from_buffers(buffer_key="{form_key}-{attribute}")) == set(buffers)
    array = ak.from_buffers(form, len(values), buffers, buffer_key="{form_key}-{attribute}")
    assert ak.to_list(array) == values
    assert array.type == columns.to_awkward(column).type


@EACH
def test_what_is_cut_out_is_a_slice(column: Column, kind: str, values: list[Any]) -> None:
    for start, stop in [(0, len(values)), (1, len(values)), (0, 1), (1, 2), (2, 2), (1, 1)]:
        cut = columns.cut_out(column, min(start, len(values)), min(stop, len(values)))
        assert ak.to_list(columns.to_awkward(cut)) == values[start:stop]
        assert columns.type_of(cut) == columns.type_of(column)


@EACH
def test_to_arrow(column: Column, kind: str, values: list[Any]) -> None:
    arrow = columns.to_arrow(column)
    arrow.validate(full=True)
    tuples = [dict(zip(("0", "1"), v, strict=True)) if isinstance(v, tuple) else v for v in values]
    assert arrow.to_pylist() == tuples


def plain(value: Any) -> Any:
    if isinstance(value, np.void):
        return {name: plain(value[name]) for name in value.dtype.names}
    return [plain(v) for v in value] if isinstance(value, np.ndarray) else getattr(value, "item", lambda: value)()


@EACH
def test_to_numpy(column: Column, kind: str, values: list[Any]) -> None:
    array = columns.to_numpy(column)
    assert len(array) == len(values)
    tuples = [dict(zip(("0", "1"), v, strict=True)) if isinstance(v, tuple) else v for v in values]
    assert [plain(value) for value in array] == tuples
    assert array.flags.writeable


def test_layouts_are_those_that_the_constructors_make() -> None:
    ours = columns.to_awkward(LIST).layout
    theirs = ak.contents.ListOffsetArray(ak.index.Index64(LIST[1]), ak.contents.NumpyArray(NUMBER[1]))
    for mine, made in ((ours, theirs), (ours.offsets, theirs.offsets), (ours.content, theirs.content)):
        assert type(mine) is type(made)
        assert vars(mine).keys() == vars(made).keys()
        for name, value in vars(made).items():
            assert isinstance(value, ak.contents.Content | ak.index.Index) or vars(mine)[name] is value


@pytest.mark.parametrize("parameters", [None, {"__record__": "Muon"}])
def test_records_are_those_that_the_constructor_makes(parameters: dict[str, str] | None) -> None:
    fields = [("a", NUMBER), ("b", NUMBER)]
    ours = columns.to_awkward(("record", len(NUMBER[1]), (parameters or {}).get("__record__", ""), fields)).layout
    contents = [ak.contents.NumpyArray(NUMBER[1]) for _ in fields]
    theirs = ak.contents.RecordArray(contents, ["a", "b"], len(NUMBER[1]), parameters=parameters)
    # Awkward keeps the names that it was asked for.
    assert ours.fields == theirs.fields
    assert vars(ours).keys() == vars(theirs).keys()
    same = {name for name in vars(theirs) if name != "_contents" and vars(ours)[name] == vars(theirs)[name]}
    assert same == vars(theirs).keys() - {"_contents"}
    assert ak.array_equal(ak.Array(ours), ak.Array(theirs), dtype_exact=True)
    assert ours.is_equal_to(theirs, all_parameters=True)


def test_a_constructor_is_used_where_a_copy_would_miss_something() -> None:
    class Counted:
        def __init__(self, values: list[int]) -> None:
            self.values = values
            self.count = len(values)

    class Kept:
        def __init__(self, values: list[int]) -> None:
            self.values = values
            self.kind = int

    assert columns._copier(Counted, ([],), ([1],)) is Counted  # pyright: ignore[reportPrivateUsage]
    copy = columns._copier(Kept, ([],), ([1],))  # pyright: ignore[reportPrivateUsage]
    assert copy is not Kept
    assert vars(copy([7, 8])) == vars(Kept([7, 8]))


def test_nothing_is_copied_that_need_not_be() -> None:
    array = columns.to_awkward(LIST)
    assert array.layout.content.data is LIST[2][1]
    assert columns.to_numpy(NUMBER) is NUMBER[1]
    assert columns.to_numpy(FIXED).base is FIXED[3][1].base or columns.to_numpy(FIXED).base is FIXED[3][1]
    assert np.shares_memory(columns.from_awkward(array)[2][1], NUMBER[1])
    assert np.shares_memory(columns.from_numpy(NUMBER[1])[1], NUMBER[1])
    fixed = np.array([1, 2, 3])
    fixed.flags.writeable = False
    assert columns.to_numpy(("number", fixed)) is not fixed
    assert columns.to_numpy(("number", fixed), copy=False) is fixed


def test_branches_with_one_counter_share_an_index() -> None:
    layouts = columns.Layouts()
    a, b = layouts.layout(LIST), layouts.layout(("list", OFFSETS, ("number", np.arange(3))))
    assert a.offsets is b.offsets
    assert a.offsets is not layouts.layout(("list", OFFSETS.copy(), NUMBER)).offsets


def test_parameters_reach_the_outermost_node() -> None:
    for _, column, _, _ in TABLE:
        array = columns.to_awkward(column, {"__doc__": "what it is"})
        assert array.layout.parameters["__doc__"] == "what it is"
    assert columns.to_awkward(TEXT, {"__doc__": "x"}).layout.parameters["__array__"] == "string"


@pytest.mark.parametrize(
    ("array", "kind", "values"),
    [
        (np.arange(3, dtype=">i2"), "int16", [0, 1, 2]),
        (np.arange(12).reshape(2, 3, 2), "3 * 2 * int64", [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]),
        (np.arange(6)[::2], "int64", [0, 2, 4]),
        (np.zeros((0, 3)), "3 * float64", []),
        (np.array([(1, 2.5)], dtype=[("a", ">i4"), ("b", "f8")]), "{a: int32, b: float64}", [{"a": 1, "b": 2.5}]),
        (np.array([[(1,)], [(2,)]], dtype=[("a", "i4")]), "1 * {a: int32}", [[{"a": 1}], [{"a": 2}]]),
        (np.array(["x", "yz"]), "string", ["x", "yz"]),
        (np.array(["x", "yz"], dtype=object), "string", ["x", "yz"]),
        (np.array([[1, 2], [3]], dtype=object), "var * int64", [[1, 2], [3]]),
    ],
)
def test_from_numpy(array: Any, kind: str, values: list[Any]) -> None:
    column = columns.from_numpy(array)
    assert columns.describe(columns.type_of(column)) == kind
    assert ak.to_list(columns.to_awkward(column)) == values


@pytest.mark.parametrize("array", [np.array(3), np.array([1j]), np.array(["2020-01-01"], dtype="M8[D]")])
def test_what_no_column_holds(array: Any) -> None:
    with pytest.raises(ArgumentError):
        columns.from_numpy(array)
    if array.ndim:
        with pytest.raises(ArgumentError):
            columns.from_awkward(ak.Array(array))


def test_what_is_no_column() -> None:
    for wrong in (("nothing", 1), 3, ()):
        functions = (
            columns.length_of,
            columns.type_of,
            columns.describe,
            columns.to_awkward,
            columns.to_arrow,
            columns.to_numpy,
        )
        for function in functions:
            with pytest.raises(ArgumentError, match="not a column"):
                function(wrong)


def test_records_that_numpy_has_no_type_for() -> None:
    one = ("number", np.arange(2))
    nameless = columns.to_numpy(("record", 2, "", [("", one), ("x", one)]))
    assert nameless.tolist() == [(0, 0), (1, 1)]
    none = ("fixed", 0, 1 << 40, ("fixed", 0, 1 << 40, ("number", np.zeros(0))))
    for wrong, message in [
        (("record", 2, "", [("x", one), ("x", one)]), "'x' occurs more than once"),
        (("record", 2, "C", [("x", one), ("x", one)]), "NumPy cannot hold C: field 'x' occurs more than once"),
        (none, "arrays of 1099511627776 elements each"),
    ]:
        with pytest.raises(UnsupportedError, match=message):
            columns.to_numpy(wrong)


def test_arrays_of_more_elements_than_arrow_has() -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    empty = ("record", 0, "", [])
    for column in (("fixed", 2, 1 << 40, empty), ("list", np.array([0, 2]), ("fixed", 2, 1 << 31, empty))):
        with pytest.raises(UnsupportedError, match="Arrow has no arrays of"):
            columns.to_arrow(column)


def test_a_name_with_a_zero_byte_has_no_arrow_form() -> None:
    with pytest.raises(UnsupportedError, match=r"[Nn]ull byte"):
        columns.ArrowStream(["a\0b"], [("number", np.arange(2))]).__arrow_c_stream__()
    inside = ("record", 2, "", [("a\0b", ("number", np.arange(2)))])
    with pytest.raises(UnsupportedError, match=r"[Nn]ull byte"):
        columns.ArrowStream(["a"], [inside]).__arrow_c_stream__()


def test_lists_that_are_all_of_size_zero_in_an_arrow_stream() -> None:
    polars = pytest.importorskip("polars", reason="needs polars (pip install sapwood[frames])")
    none = ("fixed", 3, 0, ("number", np.zeros(0)))
    assert polars.DataFrame(columns.ArrowStream(["a"], [none]))["a"].to_list() == [[], [], []]
    nested = ("list", np.array([0, 1, 3]), none)
    assert polars.DataFrame(columns.ArrowStream(["a"], [nested]))["a"].to_list() == [[[]], [[], []]]


def test_text_that_is_not_utf8_survives() -> None:
    column = ("text", np.array([0, 2]), np.array([255, 65], dtype=np.uint8))
    assert columns.to_numpy(column)[0].encode("utf-8", "surrogateescape") == b"\xffA"


@given(
    st.lists(st.lists(st.lists(st.integers(-5, 5) | st.none(), max_size=3), max_size=3), min_size=1, max_size=5),
    st.data(),
)
def test_any_selection_of_nested_lists_survives(values: list[Any], data: Any) -> None:
    array = ak.Array(values)
    picked = data.draw(st.lists(st.integers(0, len(values) - 1)))
    chosen = array[np.array(picked, dtype=np.int64)]
    assert ak.to_list(columns.to_awkward(columns.from_awkward(chosen))) == [values[i] for i in picked]


def test_names_of_templates_are_spelt_as_in_uproot() -> None:
    kind = ("record", "Link<Vector<Jet> >", [("x", ("number", "int32"))])
    assert columns.form_of(kind, "").parameters == {"__record__": "Link<Vector<Jet>>"}
