"""Expressions: what they compute, what they refuse, and where they say it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
import uproot
from uproot.language.python import PythonLanguage

import sapwood
from sapwood.errors import ArgumentError, LimitError, NotFoundError
from sapwood.table.expressions import FUNCTIONS, Language

VALUES: dict[str, Any] = {
    "x": np.array([1.0, 2.5, -3.0]),
    "y": np.array([4, 5, 6]),
    "muon.pt": np.array([7.0, 8.0, 9.0]),
    "muon/eta": np.array([0.5, 0.25, 0.125]),
    "lists": ak.Array([[1, 2, 3], [], [4, 5]]),
    "rec": np.array([(1, 2.0), (3, 4.0), (5, 6.0)], dtype=[("a", "i4"), ("b", "f8")]),
    "m": ak.Array([{"pt": 1.0, "deep": {"z": 9}}]),
}


def compute(text: str, language: Language | None = None) -> Any:
    return (language or Language()).parse(text, VALUES, "in a test").evaluate(VALUES.__getitem__)


@pytest.mark.parametrize(
    "text",
    [
        "x", "x + y", "x - 2*y", "-x", "+x", "~y", "x / y", "y // 2", "y % 4", "x ** 2", "2 ** y", "y << 1", "y >> 1",
        "(x > 0) & (y < 6)", "(x > 0) | (y == 6)", "(x > 0) ^ (y >= 5)", "x != y", "x <= y", "sqrt(abs(x))",
        "hypot(x, y)",
        "where(x > 0, x, y)", "muon.pt * 2", "get('muon/eta') + x", "arctan2(y, x)", "x[x > 0]", "x[::-1]", "x[1:]",
        "x[-1]",
        "x[:, None]", "1.5", "True", "round(x)", "log1p(y)", "fmin(x, 0)", "2j * y",
    ],
)  # fmt: skip
def test_values_agree_with_python(text: str) -> None:
    names = {**FUNCTIONS, "get": VALUES.__getitem__}
    code = text.replace("muon.pt", "get('muon.pt')")
    for name in ("x", "y"):
        names[name] = VALUES[name]
    assert np.array_equal(compute(text), eval(code, {"__builtins__": {}}, names))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("number", [-(2**70), -1, 300, 2**63, 2**63 + 1025, 2**64 - 1, 2**64, 2**70, 2**2000],
                         ids=lambda number: str(number)[:24])  # fmt: skip
def test_numbers_of_any_size_are_compared_as_numpy_compares_them(kind: str, number: int) -> None:
    limits = np.iinfo(kind) if "int" in kind else None
    ends = [0, 1, int(limits.max), int(limits.min)] if limits else [0.0, -(2.0**70), 2.0**63, 2.0**64, np.inf, np.nan]
    array = np.array(ends, kind)
    names = {"x": ak.Array(array), "lists": ak.unflatten(array, [1, 0, len(array) - 1])}
    for operation in ("<", "<=", "==", "!=", ">", ">="):
        # NumPy compares no floats with integers beyond their range.
        text = "inf" if limits is None and number == 2**2000 else str(number)
        wanted = eval(f"x {operation} {text}", {"x": array, "inf": np.inf})
        for name in names:
            parsed = Language().parse(f"{name} {operation} {number}", names, "")
            assert ak.ravel(parsed.evaluate(names.__getitem__)).tolist() == wanted.tolist(), operation


def test_unsigned_numbers_of_64_bits_are_computed_with_constants_beyond_63_bits() -> None:
    names = {"u": ak.Array(np.array([2**64 - 1, 2**63, 1], np.uint64)), "i": ak.Array(np.array([1]))}
    for text, wanted in [
        ("u & 9223372036854775808", [2**63, 2**63, 0]), ("u - 9223372036854775808", [2**63 - 1, 0, 2**63 + 1]),
    ]:  # fmt: skip
        found = Language().parse(text, names, "").evaluate(names.__getitem__)
        assert found.tolist() == wanted and str(found.type) == "3 * uint64"
    with pytest.raises(ArgumentError, match="cannot compute"):
        Language().parse("i & 9223372036854775808", names, "").evaluate(names.__getitem__)


@pytest.mark.parametrize("name", ["a||b", "a&&b", 'q"||', "'&&", "\\&&"])
def test_operators_of_c_in_names_stay_as_they_are(name: str) -> None:
    values = {name: np.array([0, 1, 2]), "x": np.array([1, 1, 0])}
    for text, wanted in [
        (f"get({name!r}) + 1", [1, 2, 3]),
        (f"get({name!r}) > 0 && x > 0", [False, True, False]),
        (f"x > 0||get({name!r}) > 1", [True, True, True]),
    ]:
        assert Language().parse(text, values, "").evaluate(values.__getitem__).tolist() == wanted
    with pytest.raises(ArgumentError, match="combined with"):
        Language().parse(f"get({name!r}) and x", values, "")


def test_unfinished_texts_take_no_time() -> None:
    for text in ('"' + '\\"' * 30_000, "'\\" * 20_000, '"\\' * 20_000):
        with pytest.raises(ArgumentError):
            Language().parse(text, VALUES, "")


def test_lists_and_records() -> None:
    assert compute("lists * 2").tolist() == [[2, 4, 6], [], [8, 10]]
    assert compute("lists[lists > 1]").tolist() == [[2, 3], [], [4, 5]]
    assert compute("lists[:, :1]").tolist() == [[1], [], [4]]
    assert compute("lists + y").tolist() == [[5, 6, 7], [], [10, 11]]
    assert compute("rec.a + rec['b']").tolist() == [3, 7, 11]
    assert compute("get('rec').b").tolist() == [2, 4, 6]
    assert compute("m.deep.z").tolist() == [9]
    assert compute("where(lists > 2, 1, 0)").tolist() == [[0, 0, 1], [], [1, 1]]
    assert compute("rec[['a', 'b']]").dtype.names == ("a", "b")


@pytest.mark.parametrize("name", sorted(set(PythonLanguage.default_functions) & set(FUNCTIONS)))
def test_functions_agree_with_uproot(name: str) -> None:
    theirs, mine = PythonLanguage.default_functions[name], FUNCTIONS[name]
    values = (
        np.array([0.5, 1.5, 2.0, 4.0])
        if name in ("factorial", "gamma", "tgamma", "lgamma")
        else np.array([-1.0, -0.4, 0.0, 0.3, 1.0, 2.0])
    )
    two = name in ("arctan2", "atan2", "copysign", "fmax", "fmin", "hypot", "logical_and", "logical_or", "nextafter")
    arguments = (values, values[::-1]) if two else (values > 0, values, -values) if name == "where" else (values,)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(mine(*arguments), theirs(*arguments), rtol=1e-6, atol=1e-6)


def test_every_function_of_uproot_is_there() -> None:
    assert set(PythonLanguage.default_functions) <= set(FUNCTIONS)


@pytest.mark.parametrize(
    ("x", "expected"),
    [(1.0, 0.0), (2.0, 0.0), (0.5, 0.5723649429247001), (10.0, 12.801827480081469), (1e5, 1051287.7089736538)],
)
def test_the_logarithm_of_gamma(x: float, expected: float) -> None:
    assert FUNCTIONS["lgamma"](np.array([x]))[0] == pytest.approx(expected, rel=1e-11, abs=1e-11)


def test_needs_are_the_names_in_order() -> None:
    found = Language().parse("sqrt(y) + get('muon/eta') * x - muon.pt + y + rec.a", VALUES, "in a test")
    assert found.needs == ["y", "muon/eta", "x", "muon.pt", "rec"]


def test_functions_of_ones_own() -> None:
    language = Language({"double": lambda x: 2 * x, "x": lambda v: v + 1}, getter="branch")
    assert compute("double(y)", language).tolist() == [8, 10, 12]
    assert compute("x(x)", language).tolist() == [2, 3.5, -2]
    assert compute("branch('y')", language).tolist() == [4, 5, 6]
    with pytest.raises(NotFoundError, match="'sqrt' is not a function"):
        compute("sqrt(x)", language)


@pytest.mark.parametrize(
    ("text", "found"),
    [("combinations(x, 2)", [(1, 2)]), ("cartesian(x, x)", [(1, 1), (1, 2), (2, 1), (2, 2)]),
     ("nested(x, x)", [[(1, 1), (1, 2)], [(2, 1), (2, 2)]])],
)  # fmt: skip
def test_none_in_place_of_lists_has_no_combinations(text: str, found: list[Any]) -> None:
    for lists, wanted in [([None, [1, 2]], [None, found]), ([None, None], [None, None])]:
        given = ak.Array([None, [1, 2]])[[0, lists.index(lists[1])]]
        value = Language().parse(text, ["x"], "").evaluate(lambda _, given=given: given)
        assert value.tolist() == wanted


@pytest.mark.parametrize(
    ("text", "kind", "message", "column"),
    [
        ("x + z", NotFoundError, "'z' is neither a branch nor an alias", 4),
        ("x + muon.eta", NotFoundError, r"'muon\.eta' is neither .*near it: muon/eta", 4),
        ("get('muon/et')", NotFoundError, "near it: muon/eta", 0),
        ("rec.c", NotFoundError, r"no field 'c' here \(fields: a, b\)", 0),
        ("x.real", NotFoundError, "no field 'real' here", 0),
        ("nosuch(x)", NotFoundError, "'nosuch' is not a function", 0),
        ("sqrt", ArgumentError, "needs arguments", 0),
        ("Muon_*", ArgumentError, "pass a pattern as filter_name", 0),
        ("x +", ArgumentError, "invalid syntax", None),
        ("", ArgumentError, "invalid syntax", None),
        ("x = 3", ArgumentError, "invalid syntax", 2),
        ("x; y", ArgumentError, "invalid syntax", 1),
        ("x\0", ArgumentError, "null bytes", None),
        ("0 < x < 2", ArgumentError, "one comparison at a time", 0),
        ("x in (3, 4)", ArgumentError, r"compare with each value, \(x == 3\) \| \(x == 4\)", 0),
        ("x not in [3]", ArgumentError, "there is no 'in'", 0),
        ("x > 0 and y > 0", ArgumentError, "combined with & | ~", 0),
        ("not x", ArgumentError, "combined with & | ~", 0),
        ("x if y else x", ArgumentError, "cannot hold this", 0),
        ("sqrt(x=3)", ArgumentError, "keyword", 5),
        ("sqrt(x, y)", ArgumentError, "takes at most 1 values", 0),
        ("1 + np.hypot(x, y, y)", ArgumentError, "takes at most 2 values", 4),
        ("get(x)", ArgumentError, "takes one name", 0),
        ("x + 'text'", ArgumentError, "cannot hold this", 4),
        ("x + y[:2]", ArgumentError, "cannot compute this", 0),
        ("1 / 0", ArgumentError, "cannot compute this", 0),
        ("lists + 18446744073709551615", ArgumentError, "cannot compute this", 0),
    ],
)
def test_errors_mark_the_place(text: str, kind: type[Exception], message: str, column: int | None) -> None:
    with pytest.raises(kind, match=message) as error:
        compute(text)
    lines = str(error.value).splitlines()
    assert lines[-1] == "in a test"
    if column is not None:
        assert lines[-3] == "    " + text.strip()
        assert lines[-2] == "    " + " " * column + "^"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__base__.__subclasses__()",
        "x.__class__",
        "get('rec').__class__",
        "x.tobytes()",
        "lists.__array__()",
        "rec._private",
        "(lambda: 1)()",
        "[c for c in (1, 2)]",
        "{x: 1}",
        "f'{x}'",
        "x.dtype.type",
        "x[__import__('os')]",
        "where.__globals__",
        "get('x').__init__.__globals__",
        "eval('1')",
        "open('/etc/passwd')",
        "(y := 3)",
        "*x",
        "await x",
        "x @ y",
        "x is y",
        "x in y",
    ],
)
def test_nothing_but_arithmetic_runs(text: str) -> None:
    with pytest.raises((ArgumentError, NotFoundError)):
        compute(text)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "1 << 10**10",
        "(2**4000)**4000",
        "(" * 5000 + "x" + ")" * 5000,
        "-" * 100_000 + "x",
        "x" + "+x" * 100_000,
    ],
)
def test_expressions_cannot_exhaust_the_machine(text: str) -> None:
    with pytest.raises((ArgumentError, LimitError)):
        compute(text)


def test_numbers_may_still_be_large() -> None:
    assert compute("2**64 - 1") == 2**64 - 1
    assert compute("x * 10.0**300").tolist() == [1e300, 2.5e300, -3e300]


def test_agrees_with_uproot_on_its_own_language() -> None:
    assert uproot.language.python.python_language.getter == Language().getter


def test_operators_of_c_bind_less_tightly_than_comparisons() -> None:
    assert compute("x > 0 && y < 5 || y == 6").tolist() == [True, False, True]
    assert compute("y && x - 1").tolist() == [False, True, True]
    with pytest.raises(ArgumentError, match="write parentheses"):
        compute("x > 0 & y < 6")
    with pytest.raises(ArgumentError, match="not with 'and'"):
        compute("x > 0 and y < 6")


def test_the_negation_of_c_is_true_for_zero() -> None:
    for text, wanted in [
        ("!(x > 0)", [False, False, True]), ("!y", [False] * 3), ("!(y - 4)", [True, False, False]),
        ("!!y", [True] * 3), ("!(x > 0) && y > 4", [False, False, True]), ("!(x > 0 && y > 4)", [True, False, True]),
        ("!y == 0", [True] * 3), ("! (x > 0) | !(y != 5)", [False, True, True]), ("!~(x > 0)", [True, True, False]),
        ("~!(x > 0)", [True, True, False]), ("!any(lists > 2)", [False, True, False]),
        ("x != 1 && ~y < -4", [False, True, True]), ("(y - 4 > 0) * !(x < 0)", [0, 1, 0]),
        ("1.0 - !(y - 5)", [1, 0, 1]), ("!(lists > 2)", [[True, True, False], [], [False, False]]),
    ]:  # fmt: skip
        found = compute(text)
        assert found.tolist() == wanted, text
    for text in ("x ! y", "x !", "!", "x =! y", "!not x", "x > 1 and !y", "x # !", "!=x"):
        with pytest.raises(ArgumentError):
            compute(text)


def test_functions_of_numpy_and_awkward_by_their_modules() -> None:
    assert compute("np.sqrt(y)").tolist() == np.sqrt(VALUES["y"]).tolist()
    assert compute("ak.num(lists)").tolist() == [3, 0, 2]
    assert compute("ak.sum(lists, axis=1)").tolist() == [6, 0, 9]
    assert compute("ak.any(lists > 2, axis=-1)").tolist() == [True, False, True]
    with pytest.raises(ArgumentError, match="needs an axis"):
        compute("ak.sum(lists)")
    for text in ("np.load(x)", "ak.pad_none(lists, 5)", "os.system(x)", "x.sum()"):
        with pytest.raises(NotFoundError, match="not a function"):
            compute(text)
    with pytest.raises(ArgumentError, match="keyword"):
        compute("ak.num(lists, highlevel=False)")


def test_one_name_twice_is_in_a_tuple_twice(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "t.root") as file:
        file["t"] = {"a": np.arange(3), "b": np.arange(3.0)}
    with sapwood.open({tmp_path / "t.root": "t"}) as tree:
        first, _, last = tree.arrays(["a", "b", "a"], how=tuple, library="np")
        assert first.tolist() == last.tolist() == [0, 1, 2]
        assert tree.arrays(["a", "b", "a"]).fields == ["a", "b"]
        kind = tree["a"].interpretation
        assert tree["b"].array(tree["b"].interpretation).tolist() == [0.0, 1.0, 2.0]
        assert tree.arrays({"a": kind}).a.tolist() == [0, 1, 2]
        assert kind.awkward_form(None).primitive == "int64"
        assert tree["b"].array(kind).tolist() == np.arange(3.0).view(np.int64).tolist()


@pytest.mark.parametrize("library", ["ak", "np", "pd", "pa", "pl"])
@pytest.mark.parametrize("text", ["-9223372036854775808 - 1", "2**64", "1 << 100"])
def test_a_number_of_more_than_64_bits_has_no_column(tmp_path: Path, text: str, library: str) -> None:
    with sapwood.recreate(tmp_path / "file.root") as file:
        file["t"] = {"x": np.arange(3)}
    with sapwood.open(tmp_path / "file.root") as file, pytest.raises(ArgumentError, match="more than 64 bits"):
        file["t"].arrays(text, library=library)


def test_a_histogram_without_an_axis_for_each_expression_is_an_error(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["t"] = {"x": np.arange(3)}
    axis = hist.axis.Regular(3, 0, 3)
    with sapwood.open(tmp_path / "a.root") as file:
        for axes in ((), (axis, axis)):
            with pytest.raises(ArgumentError, match=rf"expressions: 1, axes: {len(axes)}; give an axis for each"):
                file["t"].hist("x", *axes)
        for wrong in (10, "x", (10, 0, 1)):
            with pytest.raises(ArgumentError, match="an axis is an object such as"):
                file["t"].hist("x", wrong)


def test_ranges_of_entries_are_no_truth_values(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["t"] = {"x": np.arange(3)}
    with sapwood.open(tmp_path / "a.root") as file:
        for wrong in (True, np.True_, np.array([True, False, True]), 0.5, float("nan"), "1"):
            for ends in ({"entry_start": wrong}, {"entry_stop": wrong}):
                with pytest.raises(ArgumentError, match="entry_start and entry_stop are whole numbers or None"):
                    file["t"].arrays(**ends)
