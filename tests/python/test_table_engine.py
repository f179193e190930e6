"""The native engine of expressions: the results of NumPy and Awkward, and histograms filled while tables are read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sapwood
from sapwood import columns, train
from sapwood.errors import ArgumentError, LimitError, NotFoundError
from sapwood.table.expressions import Language
from sapwood.table.histograms import Wants, fill_arrays, histogram_of, texts_of
from sapwood.table.native import add_bins, axis_of, storage_of
from sapwood.table.symbols import Record, Recorder, Symbol, is_plain

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
CASES = int(os.environ.get("SAPWOOD_EXPRESSIONS", "300"))
"""How many expressions are tried."""

NUMBERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


def computed(text: str, arrays: dict[str, Any], *, exact: bool = False) -> Any:
    """Compute an expression with the engine alone; None where that does not take it."""
    given_columns = {name: columns.from_awkward(ak.Array(array)) for name, array in arrays.items()}
    recorder = Recorder(exact=exact)
    symbols = {
        name: recorder.column(place, columns.type_of(column))
        for place, (name, column) in enumerate(given_columns.items())
    }
    expression = Language().parse(text, list(arrays), "")
    try:
        value = expression.evaluate(lambda name: symbols[name])
    except ArgumentError:
        raise
    except sapwood.SapwoodError:
        return None
    assert not isinstance(value, Record)
    if not isinstance(value, Symbol):
        return None
    length = len(next(iter(arrays.values())))
    try:
        (column,) = recorder.program([value.number]).columns([value.number], list(given_columns.values()), length)
    except sapwood.errors.UnsupportedError:
        return None
    return columns.to_awkward(column)


def expected(text: str, arrays: dict[str, Any]) -> Any:
    """Compute it with Awkward."""
    with np.errstate(all="ignore"):
        return Language().parse(text, list(arrays), "").evaluate(lambda name: ak.Array(arrays[name]))


def same(ours: Any, theirs: Any, *, exact: bool = True) -> None:
    theirs = ak.Array(theirs)
    if exact:
        assert str(ours.type) == str(theirs.type).replace("?", "")
        mine, other = columns.from_awkward(ours), columns.from_awkward(ak.drop_none(theirs))
        while mine[0] == "list":
            assert mine[0] == other[0]
            assert np.array_equal(mine[1], other[1])
            mine, other = mine[2], other[2]
        assert mine[1].dtype == other[1].dtype
        np.testing.assert_array_equal(mine[1], other[1])
    else:
        assert ak.num(ours, axis=0) == ak.num(theirs, axis=0)
        np.testing.assert_allclose(
            ak.to_numpy(ak.flatten(ours, axis=None)), ak.to_numpy(ak.flatten(theirs, axis=None)), rtol=2e-6, atol=1e-12
        )


@st.composite
def tables(draw: Any) -> dict[str, Any]:
    """Numbers of entries ``n`` and ``m``, lists ``x`` and ``y`` of the same lengths, lists of lists ``z``."""
    length = draw(st.integers(0, 6))
    counts = np.array(draw(st.lists(st.integers(0, 4), min_size=length, max_size=length)), dtype=np.int64)
    kinds = {name: draw(st.sampled_from(NUMBERS)) for name in "nmxyz"}
    inner = np.array(draw(st.lists(st.integers(0, 3), min_size=int(counts.sum()), max_size=int(counts.sum()))), int)

    def numbers(kind: str, size: int) -> Any:
        if kind.startswith("float"):
            items: Any = st.one_of(
                st.integers(-9, 9).map(float), st.floats(-1e6, 1e6, width=32), st.sampled_from([np.nan, np.inf, -0.0])
            )
        elif kind == "bool":
            items = st.booleans()
        else:
            limits = np.iinfo(kind)
            items = st.one_of(st.integers(0, 9), st.integers(int(limits.min), int(limits.max)))
        return np.array(draw(st.lists(items, min_size=size, max_size=size)), dtype=kind)

    total = int(counts.sum())
    return {
        "n": numbers(kinds["n"], length),
        "m": numbers(kinds["m"], length),
        "x": ak.unflatten(numbers(kinds["x"], total), counts),
        "y": ak.unflatten(numbers(kinds["y"], total), counts),
        "z": ak.unflatten(ak.unflatten(numbers(kinds["z"], int(inner.sum())), inner), counts),
    }


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("x ** 0.5", [-np.inf, -0.0, 4.0, np.nan, -1.0, np.inf]),
        ("x ** 0.5", np.array([-np.inf, -0.0, 4.0], np.float32)),
        ("x ** 0.5", np.array([4, 9, -1])),
        ("mean(x)", [[2**62, 2**62, 2**62], [], [1, 2]]),
        ("mean(x)", ak.unflatten(np.array([2**64 - 1, 2**64 - 1, 2**63], np.uint64), [2, 1])),
        ("mean(x)", ak.values_astype(ak.Array([[16777216, 1, 1], [0.1]]), np.float32)),
        ("mean(x)", [[True, False, True], []]),
    ],
)
def test_special_values_are_those_of_numpy(text: str, values: Any) -> None:
    with np.errstate(all="ignore"):
        wanted = ak.mean(values, axis=1) if text == "mean(x)" else np.asarray(values) ** 0.5
        assert np.array_equal(expected(text, {"x": values}), wanted, equal_nan=True)
    same(computed(text, {"x": values}), wanted)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("where(n > 0, x, 7)", [[7, 7], [], [3.5]]),
        ("where(n > 0, 0.5, x)", [[1.5, 2.5], [], [0.5]]),
        ("where(x > 2, n, x)", [[1.5, 0], [], [2]]),
        ("where(n > 0, n, x)", [[1.5, 2.5], [], [2]]),
    ],
)
def test_a_number_beside_lists_is_one_for_each_item(text: str, values: Any) -> None:
    arrays = {"n": np.array([0, 1, 2]), "x": ak.Array([[1.5, 2.5], [], [3.5]])}
    wanted = expected(text, arrays)
    assert wanted.to_list() == values
    same(computed(text, arrays), wanted)


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("function", ["arcsinh", "arccosh"])
def test_inverse_hyperbolic_functions_of_large_numbers_are_finite(function: str, kind: str) -> None:
    most = float(np.finfo(kind).max)
    x = np.array([1.0, 1.5, 1e8, 1e9, 1.1e9, 1e20, most / 2, most], kind)
    wanted = getattr(np, function)(x.astype(float))
    assert np.isfinite(wanted).all()
    np.testing.assert_allclose(computed(f"{function}(x)", {"x": x}), wanted, rtol=4 * np.finfo(kind).eps)


@pytest.mark.parametrize("text", ["x - {}", "{} - x", "x % {}", "x // {}", "x + {}", "arctanh(x % {})", "x >= {}"])
@pytest.mark.parametrize("number", [2**60 + 2**36 + 1, -(2**60) - 2**36 - 1, 2**53 + 1, 2**24 + 1, 2**61 - 2**35 - 1])
def test_whole_numbers_beside_single_precision_are_rounded_as_numpy_does(text: str, number: int) -> None:
    """First to double precision, so that they may be rounded twice."""
    x = np.array([0, -1.5, 2.0**24, 2.0**60, 2.0**60 + 2.0**37, -(2.0**61), 1e38], np.float32)
    same(computed(text.format(number), {"x": x}), expected(text.format(number), {"x": x}), exact="arctanh" not in text)


def test_functions_that_return_floats_have_the_types_of_numpy() -> None:
    limits = {kind: np.array([np.iinfo(kind).min, np.iinfo(kind).max], kind) for kind in ("int8", "uint8", "uint16")}
    for text in ("fabs(int8)", "arctan2(int8, uint8)", "hypot(int8, uint16)", "copysign(int8, uint16)"):
        found = computed(text, limits)
        if found is not None:
            same(found, expected(text, limits), exact=False)
            assert str(found.type) == str(expected(text, limits).type), text
    assert computed("fabs(int8)", limits) is None


@pytest.mark.parametrize("kind", ["int8", "uint8", "uint32", "float32"])
@pytest.mark.parametrize(
    "text",
    [
        "fill_none(first(x), -1)", "fill_none(first(x), 0.7)", "fill_none(max(x), 300) * 100", "where(x > 2, x, 0.7)",
        "where(x > 2, x, 7) * 100", "where(n > 0, -1, n)",
    ],
)  # fmt: skip
def test_constants_in_place_of_numbers_keep_their_values(text: str, kind: str) -> None:
    arrays = {"n": np.array([1, 0, 2], kind), "x": ak.unflatten(np.array([1, 100, 3], kind), [2, 0, 1])}
    same(computed(text, arrays), expected(text, arrays))


REDUCTIONS = ["sum", "any", "all", "count", "mean", "sort", "argsort", "local_index", "first", "min", "max"]
SLICES = [":2", "1:", "::-1", "-2:", ":-1", "::2", "0", "-1"]
BINARY = ["+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "&&", "||"]
UNARY = ["-", "~", "abs", "sqrt", "isfinite", "isnan", "logical_not", "rint", "floor", "ceil", "trunc"]
NAMES = st.sampled_from(["n", "m", "x", "y", "z", "2", "3.5", "0", "-1", "300"])


def _larger(inner: Any) -> Any:
    def made(form: str, *parts: Any) -> Any:
        return st.tuples(*parts).map(lambda given: form.format(*given))

    number = st.sampled_from(["2", "1"])
    return st.one_of(
        made("({} {} {})", inner, st.sampled_from(BINARY), inner),
        made("{}({})", st.sampled_from(UNARY), inner),
        made("{}({})", st.sampled_from(REDUCTIONS), inner),
        made("fill_none({}({}), {})", st.sampled_from(["min", "max", "argmin", "argmax", "first"]), inner, NAMES),
        made("fill_none({}, -1)", inner),
        made("({})[:, {}]", inner, st.sampled_from(SLICES)),
        made("({})[({}) > {}]", inner, inner, number),
        made("({})[argsort({})]", inner, inner),
        made("combinations({}, 2)['{}']", inner, st.sampled_from("01")),
        made("combinations({}, 3)['2']", inner),
        made("cartesian({}, {})['{}']", inner, inner, st.sampled_from("01")),
        made("nested({}, {})['{}']", inner, inner, st.sampled_from("01")),
        made("concatenate({}, {})", inner, inner),
        made("fill_none(at({}, {}({})), 1)", inner, st.sampled_from(["argmin", "argmax", "min"]), inner),
        made("where({} > {}, {}, {})", inner, number, inner, inner),
        made("random({}, {})", inner, st.sampled_from(["7", "n", "local_index(x)"])),
    )


@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(tables(), st.recursive(NAMES, _larger, max_leaves=6))
@pytest.mark.filterwarnings("ignore")
def test_what_the_engine_computes_is_what_awkward_computes(arrays: dict[str, Any], text: str) -> None:
    try:
        theirs = expected(text, arrays)
    except (sapwood.SapwoodError, ValueError, TypeError):
        theirs = None
    try:
        ours = computed(text, arrays, exact=True)
    except ArgumentError:
        # The data do not fit together, which Awkward must have found, too.
        assert theirs is None
        return
    if ours is not None and theirs is not None:
        same(ours, theirs)


EXPRESSIONS = st.recursive(NAMES, _larger, max_leaves=4)
SOME_AXES = st.sampled_from([
    hist.axis.Regular(10, -5, 5), hist.axis.Regular(3, 0, 300), hist.axis.Variable([-1, 0, 2.5, 9]),
    hist.axis.Integer(-2, 5), hist.axis.Regular(4, -2, 2, flow=False),
])  # fmt: skip


@settings(max_examples=CASES // 5, deadline=None, suppress_health_check=list(HealthCheck))
@given(tables(), EXPRESSIONS, st.none() | EXPRESSIONS, st.none() | EXPRESSIONS, SOME_AXES)
@pytest.mark.filterwarnings("ignore")
def test_what_the_engine_fills_is_what_python_fills(
    arrays: dict[str, Any], text: str, where: str | None, weight: str | None, axis: Any
) -> None:
    wanted = Wants([text], texts_of(where), texts_of(weight))
    ours, theirs = (histogram_of([axis], None, weighted=weight is not None, sampled=False) for _ in range(2))
    parsed = {name: Language().parse(name, list(arrays), "") for name in wanted.texts}
    data = {name: columns.from_awkward(ak.Array(array)) for name, array in arrays.items()}
    recorder = Recorder(regular=True)
    symbols = {
        name: recorder.column(place, columns.type_of(column)) for place, (name, column) in enumerate(data.items())
    }

    def number(of: str) -> int:
        value = parsed[of].evaluate(lambda name: symbols[name])
        return (value if isinstance(value, Symbol) else recorder.node("constant", (), value)).number

    try:
        given = [None if one is None else number(one) for one in (where, weight)]
        fill = [(*axis_of(axis), number(text))], *given, None, storage_of(ours, weighted=weight is not None)
        program = recorder.program([one for one in (fill[0][0][-1], *given) if one is not None])
        (bins,) = program.fill([fill], list(data.values()), len(arrays["n"]))
        values = {name: expected(name, arrays) for name in wanted.texts}
        length = len(arrays["n"])
        fill_arrays(
            theirs,
            wanted,
            {
                name: np.full(length, one) if is_plain(one) or getattr(one, "ndim", 1) == 0 else one
                for name, one in values.items()
            },
        )
    except (sapwood.SapwoodError, ValueError, TypeError):
        return
    add_bins(ours, bins, weighted=weight is not None)
    for name in theirs.view().dtype.names or [...]:
        mine, other = (np.asarray(one.view(flow=True)[name], np.float64) for one in (ours, theirs))
        largest = np.abs(other[np.isfinite(other)]).max(initial=1.0)
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9 * largest)


@pytest.fixture(scope="module")
def events() -> dict[str, Any]:
    rng = np.random.default_rng(5)
    n = 20_000
    counts = rng.poisson(2.5, n)
    total = int(counts.sum())
    return {
        "MET_pt": rng.exponential(30, n).astype(np.float32),
        "run": rng.integers(1, 4, n).astype(np.int32),
        "pt": ak.unflatten(rng.exponential(40, total).astype(np.float32), counts),
        "eta": ak.unflatten(rng.normal(0, 1.5, total).astype(np.float32), counts),
        "phi": ak.unflatten(rng.uniform(-3.14, 3.14, total).astype(np.float32), counts),
        "m": ak.unflatten(rng.uniform(0, 5, total).astype(np.float32), counts),
        "q": ak.unflatten(rng.choice([-1, 1], total).astype(np.int32), counts),
    }


@pytest.fixture(scope="module")
def table(events: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("engine") / "events.root"
    with sapwood.recreate(path) as file:
        tree = file.mktree("Events", {name: array[:0] for name, array in events.items()}, auto_flush=2_000)
        for start in range(0, 20_000, 4_000):
            tree.extend({name: array[start : start + 4_000] for name, array in events.items()})
    with sapwood.open(f"{path}:Events") as found:
        yield found


PAIRS = "nested(vector(pt, eta, phi, m), vector(m, phi, eta, pt))"
FUNCTIONS = [
    "sqrt(MET_pt**2 + 4)", "sin(pt) * exp(-abs(eta))", "hypot(pt, m) + arctan2(eta, phi)", "maximum(pt, MET_pt)",
    "where(pt > 30, eta, 0.0)", "pt[argsort(eta)]", "fill_none(at(pt, argmax(eta)), -1.0)",
    "pt[(pt > 20) & (abs(eta) < 2)]",
    "mass(vector(pt, eta, phi, m))", "mass(combinations(vector(pt, eta, phi, m), 2))",
    "deltaR(combinations(vector(pt, eta, phi, m), 2)['0'], combinations(vector(pt, eta, phi, m), 2)['1'])",
    "pt(combinations(vector(pt, eta, phi, m), 3))", "eta(combinations(vector(pt, eta, phi, m), 2))",
    "sum(pt[pt > 30]) / count(pt)", "combinations(pt, 4)['2']", "cartesian(pt, eta, m)['1']", "MET_pt > mean(pt)",
    "mass(combinations(vector(pt, eta, phi, m), 3))", "pt(combinations(vector(pt, eta, phi, m), 2))",
    "nested(pt, eta)['0'] - nested(pt, eta)['1']", "all(nested(pt, eta[eta > 0])['1'] > 0.5)",
    "pt[all(abs(nested(eta, phi)['0'] - nested(eta, phi)['1']) > 0.1)]", "concatenate(pt, q, eta[q > 0])",
    "concatenate(vector(pt, eta, phi, m), vector(m, phi, eta, pt)).mass",
    "pt[local_index(pt) != fill_none(argmax(pt), -1)]",
    "sinh(eta)", "cos(1e7 * phi)", "(10 * phi) % 2.5", "phi % -4", "(phi - m) % 100.0",
    f"deltaR({PAIRS}['0'], {PAIRS}['1'])",
    f"all(deltaR({PAIRS}['0'], {PAIRS}['1']) > 2)", f"(pt > 30) & any(deltaR({PAIRS}['0'], {PAIRS}['1']) <= 1.5)",
    f"all(deltaR({PAIRS}['0'], {PAIRS}['1']) < 9) & q", f"any(deltaR({PAIRS}['0'], {PAIRS}['1']) >= 3) & (MET_pt > 9)",
    "nested(pt, eta > 0)['1']", "combinations(eta > 0, 2)['0']", "combinations(nested(pt, eta)['1'], 2)['0']",
    "fill_none(at(pt(combinations(vector(pt, eta, phi, m), 3)), argmin(combinations(pt, 3)['1'])), -1)",
    "fill_none(at(mass(combinations(vector(pt, eta, phi, m), 2)), argmax(combinations(eta, 2)['1'])), -1)",
]  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
def test_functions_of_lists_and_vectors_agree(text: str, events: dict[str, Any]) -> None:
    part = {name: array[:2000] for name, array in events.items()}
    ours = computed(text, part)
    assert ours is not None
    same(ours, expected(text, part), exact=False)


def test_random_numbers_depend_on_what_is_given_alone(table: Any, events: dict[str, Any]) -> None:
    part = {name: array[:2000] for name, array in events.items()}
    part["event"] = np.arange(2000, dtype=np.int64) - 1000
    for text in ("random(event, 7)", "random(event, run, 7)", "random(event, local_index(pt))"):
        ours = computed(text, part, exact=True)
        same(ours, expected(text, part))
        flat = ak.to_numpy(ak.ravel(ours))
        assert 0 <= flat.min() < 0.01
        assert 0.99 < flat.max() < 1
        assert abs(flat.mean() - 0.5) < 0.03
        assert len(np.unique(flat)) == len(flat)
        assert ours.tolist() == computed(text, {name: array[:] for name, array in part.items()}).tolist()
    assert abs(np.corrcoef(computed("random(event, 7)", part), computed("random(event, 8)", part))[0, 1]) < 0.1
    for text in ("random(MET_pt)", "random(3)"):
        with pytest.raises(ArgumentError, match=r"(?s)whole number|column first.*\^"):
            table.arrays(text)


SHARED = hist.axis.Regular(30, 0, 150)


@pytest.mark.parametrize("threads", [1, 2])
def test_histograms_that_share_axes_and_cuts_are_filled_as_if_alone(
    table: Any, events: dict[str, Any], threads: int
) -> None:
    from sapwood.train import Declared, Hist, run

    cuts = {"hard": "MET_pt > 60", "jets": "count(pt) >= 3", "none": "MET_pt > 1e9"}
    results: dict[str, Hist] = {}
    for name, cut in cuts.items():
        results[f"met {name}"] = Hist("MET_pt", SHARED, where=cut)
        results[f"pt {name}"] = Hist("pt", SHARED, where=cut)
        results[f"items {name}"] = Hist("pt", SHARED, where=[cut, "eta > 0"])
        results[f"weighted {name}"] = Hist("MET_pt", SHARED, where=cut, weight="run")
    found: Any = run([Declared(results, name="all")], f"{table.file.file_path}:Events", threads=threads)["all"]
    masks = {"hard": events["MET_pt"] > 60, "jets": ak.to_numpy(ak.num(events["pt"])) >= 3, "none": events["run"] > 9}
    for name, mask in masks.items():
        assert found[f"met {name}"] == hist.Hist(SHARED).fill(events["MET_pt"][mask])
        assert found[f"pt {name}"] == hist.Hist(SHARED).fill(ak.flatten(events["pt"][mask]))
        items = events["pt"][mask][events["eta"][mask] > 0]
        assert found[f"items {name}"] == hist.Hist(SHARED).fill(ak.flatten(items))
        weighted = hist.Hist(SHARED, storage=hist.storage.Weight())
        assert found[f"weighted {name}"] == weighted.fill(events["MET_pt"][mask], weight=events["run"][mask])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("where", [
    "(count(pt) >= 4) & any(abs(eta) < 1) & (MET_pt > 20)", "(MET_pt > 60) & (eta > 0)", "(run & 1) & (count(pt) > 3)",
    "(fill_none(max(pt), 0) > 80) & (MET_pt > 1e9)", "max(pt) > 80",
])  # fmt: skip
def test_conditions_that_come_first_change_nothing(
    table: Any, events: dict[str, Any], where: str, threads: int
) -> None:
    text = "mass(combinations(vector(pt, eta, phi, m), 2))" if "(eta >" not in where else "pt * sin(phi)"
    before = sapwood.num_threads()
    sapwood.set_num_threads(threads)
    try:
        ours = table.hist(text, hist.axis.Regular(40, -100, 200), where=where, weight="MET_pt * 2")
    finally:
        sapwood.set_num_threads(before)
    theirs = hist.Hist(hist.axis.Regular(40, -100, 200), storage=hist.storage.Weight())
    wanted = Wants([text], (where,), ("MET_pt * 2",))
    fill_arrays(theirs, wanted, {name: expected(name, events) for name in wanted.texts})
    np.testing.assert_allclose(ours.values(flow=True), theirs.values(flow=True), rtol=1e-6)


def test_combinations_at_places_beyond_them_are_errors(table: Any) -> None:
    for place in ("count(pt)", "-count(pt) - 9"):
        with pytest.raises(ArgumentError, match=r"(?s)cannot compute.*\^"):
            table.hist(f"at(pt(combinations(vector(pt, eta, phi, m), 2)), {place})", SHARED)


@pytest.mark.parametrize("kind", ["int32", "uint32", "int64", "uint64"])
def test_integers_beyond_the_bins_are_counted_on_their_side(kind: str) -> None:
    limits = np.iinfo(kind)
    values = np.array([limits.min, limits.max, 2**31 - 1, 3], kind)
    for first, last in ((-5, 6), (-9, -3)):
        histogram = hist.Hist(hist.axis.Integer(first, last))
        fill_arrays(histogram, Wants(["v"]), {"v": values})
        counts = histogram.values(flow=True)
        assert counts[0] == np.sum(values < first)
        assert counts[-1] == np.sum(values >= last)


PARTS = st.sampled_from([
    *"xynm()[]{}&|^~+-*/%<>=!.,:'\"#\\ \n\0é", "**", "//", "<<", ">>", "&&", "||", "1e999", "9" * 30, "0x1f", "1j",
    "None", "combinations(", "cartesian(", "nested(", "concatenate(", "vector(", "sum(", "mass(", "at(", "get(",
    "correction(", "random(", "where(", "ak.num(", "ak.sum(", "np.sqrt(", "axis=", "[:, 0]", "['0']", ".pt",
    "__class__", "lambda", "if ", "10**400",
])  # fmt: skip


@settings(max_examples=CASES // 6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), st.one_of(st.text(max_size=40), st.lists(PARTS, max_size=16).map("".join)))
@pytest.mark.filterwarnings("ignore")
def test_no_text_does_more_than_fail(arrays: dict[str, Any], text: str) -> None:
    """Whatever an expression or the alias of a file says is a value or one of the package's errors."""
    names = list(arrays)
    try:
        parsed = Language().parse(text, names, "")
    except sapwood.SapwoodError:
        return
    with contextlib.suppress(sapwood.SapwoodError), np.errstate(all="ignore"):
        parsed.evaluate(lambda name: ak.Array(arrays[name]))
    with contextlib.suppress(sapwood.SapwoodError):
        computed(text, arrays)


def test_four_vectors_are_those_of_vector(events: dict[str, Any]) -> None:
    vector = pytest.importorskip("vector", reason="needs vector (pip install vector)")
    pairs = ak.combinations(
        ak.zip({name: ak.values_astype(events[key][:3000], np.float64)
                for name, key in [("pt", "pt"), ("eta", "eta"), ("phi", "phi"), ("mass", "m")]},
               with_name="Momentum4D", behavior=vector.backends.awkward.behavior), 2)  # fmt: skip
    a, b = ak.unzip(pairs)
    part = {name: array[:3000] for name, array in events.items()}
    pair = "combinations(vector(pt, eta, phi, m), 2)"
    for text, theirs in [
        (f"mass({pair})", (a + b).mass), (f"pt({pair})", (a + b).pt), (f"eta({pair})", (a + b).eta),
        (f"phi({pair})", (a + b).phi), (f"energy({pair})", (a + b).energy),
        (f"deltaR({pair}['0'], {pair}['1'])", a.deltaR(b)), (f"deltaphi({pair}['0'], {pair}['1'])", a.deltaphi(b)),
    ]:  # fmt: skip
        np.testing.assert_allclose(ak.flatten(computed(text, part)), ak.flatten(theirs), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("quantity", ["mass", "pt", "energy"])
def test_combinations_of_short_and_long_lists_agree(quantity: str, n: int) -> None:
    rng = np.random.default_rng(7)
    counts = np.concatenate([np.arange(16), rng.integers(0, 16, 60)])
    fields = {
        name: ak.unflatten(rng.uniform(0.1, 3, int(counts.sum())).astype(kind), counts)
        for name, kind in [("pt", np.float32), ("eta", np.float64), ("phi", np.float32), ("m", np.int32)]
    }
    pairs = f"combinations(vector(pt, eta, phi, m), {n})"
    for text in [f"{quantity}({pairs})", f"fill_none(at({quantity}({pairs}), argmax({quantity}({pairs}))), -1)"]:
        ours = computed(text, fields)
        assert ours is not None
        same(ours, expected(text, fields), exact=False)


FILLED = [
    [hist.axis.Regular(50, -2, 2)],
    [hist.axis.Variable([-1, 0, 0.25, 1]), hist.axis.Regular(9, 0, 3)],
    [hist.axis.Integer(-2, 3, underflow=False)],
    [hist.axis.IntCategory([2, -1, 7]), hist.axis.Regular(20, 0, 1)],
    [hist.axis.Regular(10, -1, 1, circular=True)],
    [hist.axis.Regular(5, 1, 20, transform=hist.axis.transform.log)],
    [hist.axis.StrCategory(["a", "b"]), hist.axis.Regular(20, 0, 1)],
]


@pytest.mark.parametrize("storage", ["Double", "Int64", "Weight", "Mean"])
@pytest.mark.parametrize("axes", FILLED)
def test_arrays_fill_histograms_as_their_method_does(axes: list[Any], storage: str) -> None:
    rng = np.random.default_rng(8)
    size = 100_000
    whole = type(axes[0]).__name__ in ("Integer", "IntCategory")
    first = rng.integers(-3, 9, size) if whole else rng.normal(0, 1, size).astype(np.float32)
    values = ["a" if isinstance(axes[0], hist.axis.StrCategory) else first, rng.exponential(1, size)][: len(axes)]
    options: dict[str, Any] = {"sample": rng.normal(3, 1, size)} if storage == "Mean" else {}
    made = [hist.Hist(*axes, storage=getattr(hist.storage, storage)()) for _ in range(2)]
    for _ in range(2):
        assert train.fill_histogram(made[0], *values, **options) is made[0]
        made[1].fill(*values, **options)
    if storage == "Mean":
        for name in ("count", "value", "_sum_of_deltas_squared"):
            np.testing.assert_allclose(*(one.view(flow=True)[name] for one in made), rtol=1e-9)
    else:
        assert made[0] == made[1]
        assert made[0].variances() is not None
    if storage in ("Double", "Weight"):
        for one, fill in zip(made, (train.fill_histogram, hist.Hist.fill), strict=True):
            fill(one, *values, weight=np.abs(rng.standard_normal(size)) * 0 + 0.3)
        np.testing.assert_allclose(made[0].values(flow=True), made[1].values(flow=True), rtol=1e-10)
        assert (made[0].variances() is None) == (made[1].variances() is None)


def test_lists_fill_each_of_their_items(events: dict[str, Any]) -> None:
    lists = ak.concatenate([events["pt"]] * 4)
    weight = ak.concatenate([events["MET_pt"]] * 4)
    ours = train.fill_histogram(hist.Hist(hist.axis.Regular(50, 0, 200), storage="Weight"), lists, weight=weight)
    theirs = hist.Hist(hist.axis.Regular(50, 0, 200), storage="Weight")
    theirs.fill(ak.flatten(lists), weight=ak.flatten(ak.broadcast_arrays(weight, lists)[0]))
    np.testing.assert_allclose(ours.values(flow=True), theirs.values(flow=True), rtol=1e-10)
    some = ak.mask(lists, lists > 30)
    ours = train.fill_histogram(hist.Hist(hist.axis.Regular(50, 0, 200)), some)
    assert ours == hist.Hist(hist.axis.Regular(50, 0, 200)).fill(ak.flatten(lists[lists > 30]))
    with pytest.raises(ArgumentError, match="cannot be filled"):
        train.fill_histogram(ours, np.ones(100_000), np.ones(100_000))


def test_large_arrays_are_filled_by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    histogram = hist.Hist(hist.axis.Regular(50, 0, 200))
    monkeypatch.setattr(hist.Hist, "fill", None)
    train.fill_histogram(histogram, np.ones(100_000), weight=2)
    assert histogram.sum() == 200_000


@pytest.mark.parametrize("threads", [1, 2])
def test_a_histogram_is_filled_while_the_table_is_read(table: Any, events: dict[str, Any], threads: int) -> None:
    before = sapwood.num_threads()
    sapwood.set_num_threads(threads)
    try:
        ours = table.hist("MET_pt", hist.axis.Regular(100, 0, 200), where="sum(pt > 40) >= 2")
    finally:
        sapwood.set_num_threads(before)
    theirs = hist.Hist(hist.axis.Regular(100, 0, 200))
    theirs.fill(events["MET_pt"][ak.to_numpy(ak.sum(events["pt"] > 40, axis=-1)) >= 2])
    assert isinstance(ours, hist.Hist)
    assert ours == theirs
    assert ours.sum() > 1000


AXES = [
    hist.axis.Regular(20, -3, 3), hist.axis.Regular(20, -3, 3, flow=False), hist.axis.Variable([-2, -1, 0, 0.5, 2]),
    hist.axis.Variable([-2, 0, 2], flow=False), hist.axis.Regular(20, -3, 3, underflow=False),
]  # fmt: skip


@pytest.mark.parametrize("axis", AXES)
def test_axes_have_the_bins_of_boost(table: Any, events: dict[str, Any], axis: Any) -> None:
    theirs = hist.Hist(axis, storage=hist.storage.Weight())
    theirs.fill(ak.flatten(events["eta"]), weight=ak.flatten(events["pt"]))
    ours = table.hist("eta", axis, weight="pt")
    np.testing.assert_allclose(ours.values(flow=True), theirs.values(flow=True), rtol=1e-12)
    np.testing.assert_allclose(ours.variances(flow=True), theirs.variances(flow=True), rtol=1e-12)


def test_edges_and_nan_fall_where_boost_puts_them(tmp_path: Path) -> None:
    values = np.array([0, 1, 10, -1e-300, np.nan, np.inf, -np.inf, 0.1, 0.2, 0.3, 9.999999999999999, 10.0])
    with sapwood.recreate(tmp_path / "edges.root") as file:
        file["t"] = {"x": values, "i": np.arange(len(values), dtype=np.int16)}
    axes = [
        hist.axis.Regular(100, 0, 10),
        hist.axis.Variable([0, 0.1, 0.2, 10]),
        hist.axis.Regular(7, 0, 10, flow=False),
    ]
    with sapwood.open(tmp_path / "edges.root") as file:
        for axis in axes:
            assert file["t"].hist("x", axis) == hist.Hist(axis).fill(values)
        integers = hist.axis.Integer(2, 7)
        assert file["t"].hist("i", integers) == hist.Hist(integers).fill(np.arange(len(values)))


LIMITS = [
    (100, 0, 200), (100, 15, 60), (7, -1, 3.3), (3, 0.1, 0.4), (1, 0, 1e-300), (10, 0, 1.7e308),
    (10, 1e15, 1e15 + 10), (4000, -1e-3, 1e5), (20, -5e-324, 5e-324),
]  # fmt: skip


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.filterwarnings("ignore")
def test_many_values_at_edges_and_beside_them_fall_where_boost_puts_them(limits: Any, kind: Any) -> None:
    bins, low, high = limits
    edges = low + (high / bins - low / bins) * np.arange(-2, bins + 3)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324, low, high, 1e308, -1e308]
    beside = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), special]
    random = np.random.default_rng(3).uniform(0, 1, 100_000) * (high / 2 - low / 2) * 2 + low
    for values in (np.resize(np.concatenate(beside), 100_000), random):
        cast = values.astype(kind)
        axis = hist.axis.Regular(bins, low, high)
        assert train.fill_histogram(hist.Hist(axis), cast) == hist.Hist(axis).fill(cast)
        plane = hist.axis.Integer(0, 1), axis
        zeros = np.zeros(100_000, np.int8)
        assert train.fill_histogram(hist.Hist(*plane), zeros, cast) == hist.Hist(*plane).fill(zeros, cast)


def test_profiles_and_more_axes(table: Any, events: dict[str, Any]) -> None:
    axes = hist.axis.Regular(10, 0, 100), hist.axis.Integer(1, 4)
    theirs = hist.Hist(*axes).fill(
        ak.flatten(events["pt"]), ak.flatten(ak.broadcast_arrays(events["run"], events["pt"])[0])
    )
    assert table.hist(["pt", "run"], *axes) == theirs
    ours = table.hist("pt", axes[0], sample="eta")
    profile = hist.Hist(axes[0], storage=hist.storage.Mean())
    profile.fill(ak.flatten(events["pt"]), sample=ak.flatten(events["eta"]))
    np.testing.assert_allclose(ours.values(flow=True), profile.values(flow=True), rtol=1e-9)
    np.testing.assert_allclose(ours.counts(flow=True), profile.counts(flow=True))
    np.testing.assert_allclose(ours.variances(flow=True), profile.variances(flow=True), rtol=1e-6)


def test_a_range_of_entries_and_items_chosen_in_lists(table: Any, events: dict[str, Any]) -> None:
    axis = hist.axis.Regular(30, 0, 150)
    part = events["pt"][1_500:13_000]
    theirs = hist.Hist(axis).fill(ak.flatten(part[abs(events["eta"][1_500:13_000]) < 1]))
    assert table.hist("pt", axis, where="abs(eta) < 1", entry_start=1_500, entry_stop=13_000) == theirs
    assert table.hist("max(pt)", axis).sum(flow=True) == ak.sum(ak.num(events["pt"]) > 0)


def test_what_the_engine_lacks_is_filled_in_python(table: Any, events: dict[str, Any]) -> None:
    axis = hist.axis.Regular(30, 1, 150, transform=hist.axis.transform.log)
    assert table.hist("MET_pt", axis) == hist.Hist(axis).fill(events["MET_pt"])
    ours = table.hist("round(MET_pt)", hist.axis.Regular(30, 0, 150))
    assert ours == hist.Hist(hist.axis.Regular(30, 0, 150)).fill(np.round(events["MET_pt"]))


def test_both_ways_of_filling_agree(events: dict[str, Any], table: Any) -> None:
    wants = Wants(["pt"], ("eta > 0", "MET_pt > 10"), ("m",))
    arrays = {text: Language().parse(text, list(events), "").evaluate(lambda name: ak.Array(events[name]))
              for text in wants.texts}  # fmt: skip
    theirs = hist.Hist(hist.axis.Regular(30, 0, 150), storage=hist.storage.Weight())
    fill_arrays(theirs, wants, arrays)
    ours = table.hist("pt", hist.axis.Regular(30, 0, 150), where="(eta > 0) & (MET_pt > 10)", weight="m")
    np.testing.assert_allclose(ours.values(flow=True), theirs.values(flow=True), rtol=1e-9)


@pytest.mark.parametrize(
    "axis", [hist.axis.Integer(0, 4), hist.axis.Integer(-1, 9, flow=False), hist.axis.IntCategory([1, 3])]
)
@pytest.mark.parametrize("kind", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_whole_numbers_beyond_32_bits_are_in_no_bin_of_integers(axis: Any, kind: str, tmp_path: Path) -> None:
    limits = np.iinfo(kind)
    values = np.array([0, 1, 1, 3, 100, int(limits.max), int(limits.min)], kind)
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["t"] = {"x": values}
    with sapwood.open(f"{tmp_path}/a.root:t") as found:
        native, filled = found.hist("x", axis), found.hist("x << 0", axis)  # the engine has no shifts
    assert np.array_equal(native.view(flow=True), filled.view(flow=True))


def test_axes_may_be_a_list(table: Any) -> None:
    axes = [hist.axis.Regular(10, 0, 100), hist.axis.Integer(0, 6)]
    texts = ["MET_pt", "count(pt)"]
    assert table.hist(texts, axes) == table.hist(texts, *axes) == table.hist(texts, table.hist(texts, axes).axes)


@pytest.mark.parametrize("given", [2.5, ["MET_pt", 2], b"MET_pt"])
def test_weights_and_cuts_that_are_no_expressions_are_errors(table: Any, given: Any) -> None:
    for options in ({"weight": given}, {"where": given}):
        with pytest.raises(ArgumentError, match="is not an expression: write it as a string"):
            table.hist("MET_pt", SHARED, **options)


def test_cuts_of_records_are_errors(table: Any) -> None:
    for cut in ("combinations(pt, 2)", "vector(pt, eta, phi, m)"):
        with pytest.raises(ArgumentError, match=r"the cut .* needs bools or numbers"):
            table.arrays(["MET_pt"], cut)


def test_cuts_and_weights_may_be_several(table: Any, events: dict[str, Any]) -> None:
    ours = table.hist("pt", SHARED, where=["eta > 0", "MET_pt > 10"], weight=("m", "run"))
    theirs = table.hist("pt", SHARED, where="(eta > 0) & (MET_pt > 10)", weight="m * run")
    assert ours.sum().value > 0
    np.testing.assert_allclose(ours.values(flow=True), theirs.values(flow=True), rtol=1e-6)


def test_lists_that_do_not_fit_and_axes_of_other_values_are_errors(table: Any) -> None:
    with pytest.raises(ArgumentError, match="lists of different lengths"):
        table.hist(["pt", "pt[pt > 40]"], SHARED, SHARED)
    with pytest.raises(ArgumentError, match="cannot be filled"):
        table.hist("run", hist.axis.StrCategory(["a"]))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "text", ["mass(three)", "mass(three)[three['0'].pt > 30]", "MET_pt", "sum(pt)", "max(mass(three))"]
)
def test_entries_without_combinations_are_left_out_where_nothing_is_filled(table: Any, text: str, threads: int) -> None:
    aliases = {"three": "combinations(vector(pt[pt > 20], eta[pt > 20], phi[pt > 20], m[pt > 20]), 3)"}
    before = sapwood.num_threads()
    sapwood.set_num_threads(threads)
    axis = hist.axis.Regular(40, -10, 400)
    wanted = Wants([text], () if "three" in text else ("any(mass(three) > 100)",))
    try:
        ours = table.hist(text, axis, where=wanted.where, aliases=aliases)
    finally:
        sapwood.set_num_threads(before)
    arrays = table.arrays(wanted.texts, aliases=aliases)
    theirs = hist.Hist(axis)
    fill_arrays(theirs, wanted, {name: arrays[name] for name in wanted.texts})
    assert ours.sum(flow=True) > 100
    np.testing.assert_allclose(ours.values(flow=True), theirs.values(flow=True))


@pytest.mark.parametrize(
    ("text", "where", "error", "mark"),
    [
        ("pt + combinations(pt, 2)['0']", None, ArgumentError, "^"),
        ("sum(MET_pt)", None, ArgumentError, "^"),
        ("MET_pt", "nothing > 2", NotFoundError, "^"),
        ("mass(pt)", None, ArgumentError, "^"),
        ("MET_pt * 10**400", None, ArgumentError, "^"),
    ],
)
def test_errors_mark_their_place(table: Any, text: str, where: str | None, error: type[Exception], mark: str) -> None:
    with pytest.raises(error) as raised:
        table.hist(text, hist.axis.Regular(10, 0, 1), where=where)
    assert mark in str(raised.value)


def test_combinations_are_bounded(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "long.root") as file:
        file["t"] = {"x": ak.Array([np.arange(30_000, dtype=np.float64)])}
    with sapwood.open(tmp_path / "long.root") as file:
        with pytest.raises(LimitError):
            file["t"].arrays("sum(combinations(x, 3)['0'])")
        with pytest.raises(LimitError):
            file["t"].hist("combinations(x, 3)['0']", hist.axis.Regular(10, 0, 1))


def test_cuts_and_expressions_of_arrays_use_the_engine(table: Any, events: dict[str, Any], monkeypatch: Any) -> None:
    from sapwood.table.native import Exact

    made: list[int] = []
    columns_of = Exact.columns

    def noted(self: Any, data: Any, length: int) -> Any:
        found = columns_of(self, data, length)
        made.append(len(found))
        return found

    monkeypatch.setattr(Exact, "columns", noted)
    arrays = table.arrays(["pt / MET_pt", "sin(pt)", "MET_pt"], "(sum(pt > 40) >= 2) & (MET_pt > 5)", library="ak")
    keep = (ak.sum(events["pt"] > 40, axis=-1) >= 2) & (events["MET_pt"] > 5)
    assert made == [2]
    assert ak.array_equal(arrays["pt / MET_pt"], (events["pt"] / events["MET_pt"])[keep])
    assert ak.array_equal(arrays["sin(pt)"], np.sin(events["pt"])[keep])
    assert arrays["MET_pt"].to_list() == events["MET_pt"][keep].tolist()


def test_four_vectors_may_be_records(events: dict[str, Any]) -> None:
    members = {"pt": "pt", "eta": "eta", "phi": "phi", "mass": "m"}
    muons = ak.zip({name: events[key][:500] for name, key in members.items()})
    text = "mass(combinations(muon, 2))"
    ours = computed(text, {"muon": muons})
    same(ours, expected(text, {"muon": muons}), exact=False)
    assert ak.sum(ours) > 0


@pytest.mark.parametrize("name", ["plain", "types"])
def test_rntuples_fill_histograms(name: str) -> None:
    axis = hist.axis.Regular(50, -10, 40)
    with sapwood.open(GOLDEN / "ntuple" / f"{name}.root") as file:
        (table,) = (file[key] for key in file.keys(cycle=False))
        numbers = 0
        for field in table.keys(recursive=False):
            kind = table[field].type
            while kind is not None and kind[0] in ("list", "fixed"):
                kind = kind[-1]
            if kind is None or kind[0] != "number":
                continue
            numbers += 1
            values = ak.to_numpy(ak.ravel(table[field].array()))
            assert table.hist(field, axis) == hist.Hist(axis).fill(values.astype(np.float64))
    assert numbers >= 2
