"""Expressions combine values of one entry. Those that combine entries use all that are read, or are refused."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import awkward as ak
import hist
import numpy as np
import pandas as pd
import pytest

import sapwood
from sapwood import train
from sapwood.cli import main
from sapwood.errors import ArgumentError
from sapwood.lab.advice import rewriting
from sapwood.table.expressions import Language
from sapwood.tools import drawing
from sapwood.tools.copying import Selection, copy

N = 40


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixing") / "events.root"
    counts = np.arange(N) % 4 + 1
    with sapwood.recreate(path, index=True) as file:
        lists = ak.unflatten(np.arange(counts.sum()) * 7 % 50 / 2, counts)
        data = {"x": np.arange(N) * 1.5, "i": np.arange(N)[::-1] % 7, "v": lists, "f": np.arange(3.0 * N).reshape(N, 3)}
        file.mktree("t", data, auto_flush=9)
        file.mkrntuple("n", data)
    return path


MIXED = [
    "x - ak.mean(x, axis=0)", "x / ak.sum(x, axis=-1)", "ak.sort(x)", "ak.argsort(x)", "ak.local_index(x)",
    "x[0]", "x[-1]", "x[::-1]", "x[i]", "x[x > 3]", "x[..., 0]", "x[[0, 1]]", "v[0]", "v[1:]", "v[:, i]",
    "v[i > 2]", "ak.sum(v, axis=0)", "ak.sum(v, axis=-2)", "ak.num(v, axis=0)", "f[f > 2]",
    "ak.max(f, axis=0)", "x - ak.std(x, 0, 0, 0)",
]  # fmt: skip
ALONE = [
    "x * 2 + i", "v[:, 0]", "v[:, :1]", "v[v > 2]", "v[..., 0]", "ak.sum(v, axis=1)", "ak.sum(v, axis=-1)",
    "ak.sort(v)", "v[ak.argsort(v)]", "v[ak.argmax(v, axis=1, keepdims=True)]", "ak.firsts(v)", "ak.num(v)",
    "where(x > 3, x, i)", "ak.is_none(ak.firsts(v))", "v - ak.mean(v, axis=1)", "f[:, 1]",
    "ak.max(f, axis=1)", "ak.local_index(v) + x", "v + x", "sum(v) / x", "v[ak.local_index(v) < 2]", "f * 2",
]  # fmt: skip


@pytest.mark.parametrize("expression", MIXED)
@pytest.mark.parametrize("library", ["ak", "np"])
def test_an_expression_that_combines_entries_is_refused_in_steps(path: Path, expression: str, library: str) -> None:
    with sapwood.open(path) as file:
        for table in (file["t"], file["n"]):
            with pytest.raises(ArgumentError, match="entries are read in steps, and the result would depend on"):
                list(table.iterate([expression], step_size=7, library=library))


@pytest.mark.parametrize("expression", ALONE)
def test_an_expression_of_each_entry_is_the_same_in_all_steps(path: Path, expression: str) -> None:
    with sapwood.open(path) as file:
        for table in (file["t"], file["n"]):
            whole = table.arrays([expression])
            for size in (1, 7, N):
                steps = list(table.iterate([expression], step_size=size))
                assert ak.array_equal(ak.concatenate(steps), whole, equal_nan=True), size


def test_arrays_combine_the_entries_that_they_read(path: Path) -> None:
    with sapwood.open(path) as file:
        x = file["t"]["x"].array()
        for start, stop in ((0, N), (5, 12)):
            found = file["t"].arrays(["x - ak.mean(x, axis=0)"], entry_start=start, entry_stop=stop)
            assert np.allclose(found[found.fields[0]], x[start:stop] - np.mean(x[start:stop]))


def test_an_index_does_not_change_what_is_combined(path: Path, tmp_path: Path) -> None:
    """Entries that fail the cut are not read, unless the others depend on them."""
    plain = tmp_path / "plain.root"
    plain.write_bytes(path.read_bytes())  # without the index beside it
    for cut in ("x > 40", "x > 1000"):
        found = []
        for one in (plain, path):
            with sapwood.open(one) as file:
                found.append(file["t"].arrays(["x - ak.mean(x, axis=0)", "ak.sort(x)"], cut).to_list())
        assert found[0] == found[1]


@pytest.mark.parametrize("cut", ["x > 40", "(x > 40) & (v[:, 0] > 3)", "(x > 40) & any(v[v > 3] < 9)"])
@pytest.mark.parametrize("expression", [*MIXED, *ALONE])
def test_an_index_does_not_change_what_an_expression_gives(
    path: Path, tmp_path: Path, expression: str, cut: str
) -> None:
    plain = tmp_path / "plain.root"
    plain.write_bytes(path.read_bytes())
    found: list[Any] = []
    for one in (plain, path):
        with sapwood.open(f"{one}:t") as table:
            try:
                found.append(str(table.arrays(expression, cut).to_list()))
            except ArgumentError as error:
                found.append(type(error))
            skipped = table.explain(expression, cut).entries_skipped
    assert found[0] == found[1]
    if "[" in expression:
        assert skipped == (27 if expression in ALONE and "[..." not in expression and "sort" not in expression
                           and "local" not in expression else 0)  # fmt: skip


@pytest.mark.parametrize("name", ["t", "n"])
def test_columns_of_copies_do_not_depend_on_chunks(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    out = str(tmp_path / "out.root")
    for selection in (Selection(define={"y": "x - ak.mean(x, axis=0)"}), Selection(cut="x > ak.mean(x, axis=0)")):
        with pytest.raises(ArgumentError, match=r"ak\.mean along axis 0 combines all entries"):
            copy(f"{path}:{name}", out, selection=selection)
        assert not Path(out).exists()
    assert main(["copy", f"{path}:{name}", out, "--define", "y=x[0]"]) == 2
    found: list[Any] = []
    for chunk in (1000, 100_000_000):
        monkeypatch.setitem(rewriting.write_tree.__kwdefaults__, "chunk", chunk)
        copy(f"{path}:{name}", out, selection=Selection(define={"y": "v - ak.mean(v, axis=1)"}), recreate=True)
        with sapwood.open(out) as file:
            found.append(file[name]["y"].array().to_list())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "words",
    [["scan", "T", "ak.sort(x)"], ["head", "T", "x[0]"], ["scan", "T", "x", "--cut", "x > x[0]"],
     ["hist", "T", "x[::-1]"], ["convert", "T", "OUT", "--cut", "x > ak.mean(x, axis=0)"]],
)  # fmt: skip
def test_commands_refuse_expressions_that_combine_entries(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    known = {"T": f"{path}:t", "OUT": str(tmp_path / "out.parquet")}
    assert main([known.get(word, word) for word in words]) == 2
    assert "entries are read in steps, and the result would depend on" in capsys.readouterr().err


def test_files_read_together_are_refused_as_steps_are(path: Path) -> None:
    with pytest.raises(ArgumentError, match="combines all entries"):
        sapwood.concatenate([f"{path}:t", f"{path}:t"], ["ak.sort(x)"])


def test_tasks_compute_each_entry_alone(path: Path, tmp_path: Path) -> None:
    class Centred(train.Task):
        branches = {"y": "x - ak.mean(x, axis=0)"}

        def process(self, events: Any) -> dict[str, int]:
            return {"n": len(events)}

    with pytest.raises(sapwood.SapwoodError, match="combines all entries"):
        train.run(Centred(), f"{path}:t", step_size=10, threads=1)


def test_a_weight_is_not_an_axis(path: Path) -> None:
    """The second argument of a mean is its weight: without an axis, it is one number for all entries."""
    with sapwood.open(path) as file:
        for expression in ("ak.mean(v, 1)", "ak.std(v, 1)"):
            with pytest.raises(ArgumentError, match="needs an axis"):
                file["t"].arrays([expression])


# Operands of different dimensions

_SMALL = 6
_KINDS: dict[str, str] = {"x": "", "i": "", "w": "3", "u": "2", "m": "23", "v": "v", "r": "v3", "l": "3v", "q": ""}
"""The dimensions of each column within an entry: sizes, and v for lists of different lengths."""


def _columns() -> dict[str, Any]:
    counts = [2, 0, 3, 1, 1, 4]
    items = ak.contents.RegularArray(ak.contents.NumpyArray(np.arange(33.0) * 5 % 13), 3)
    inner = ak.unflatten(np.arange(36.0) * 7 % 11, [1, 3, 2] * _SMALL)
    return {
        "x": np.arange(_SMALL) * 1.5 + 1, "i": np.arange(_SMALL)[::-1] % 4,
        "w": np.arange(3.0 * _SMALL).reshape(_SMALL, 3) * 3 % 10, "u": np.arange(2.0 * _SMALL).reshape(_SMALL, 2) - 4,
        "m": np.arange(6.0 * _SMALL).reshape(_SMALL, 2, 3) * 5 % 17, "v": ak.unflatten(np.arange(11.0) * 3 % 7, counts),
        "r": ak.unflatten(ak.Array(items), counts), "l": ak.to_regular(ak.unflatten(inner, 3), axis=1),
        "q": ak.Array([1.0, None, 3.0, None, 5.0, 6.0]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree and an RNTuple; the tree lacks the columns that it cannot have."""
    path = tmp_path_factory.mktemp("alignment") / "small.root"
    data = _columns()
    with sapwood.recreate(path, index=True) as file:
        file.mktree("t", {name: values for name, values in data.items() if name not in "lq"}, auto_flush=2)
        file.mkrntuple("n", data)
    (path.parent / "plain.root").write_bytes(path.read_bytes())  # without the index beside it
    return path


class _Term:
    """An expression, its dimensions within an entry, and its value of an entry, computed with Python's loops."""

    def __init__(self, text: str, kind: str, value: Callable[[dict[str, Any]], Any]) -> None:
        self.text, self.kind, self.value = text, kind, value


def _each(function: Callable[..., Any], *values: Any) -> Any:
    """Apply a function to the items of lists of the same dimensions; those with fewer repeat their items."""
    lists = [value for value in values if isinstance(value, list)]
    if not lists:
        return None if None in values else function(*values)
    lengths = {len(value) for value in lists}
    assert len(lengths) == 1
    parts = [value if isinstance(value, list) else [value] * len(lists[0]) for value in values]
    return [_each(function, *items) for items in zip(*parts, strict=True)]


_OPERATIONS: list[tuple[str, Callable[..., Any]]] = [
    ("({} + {})", lambda a, b: a + b), ("({} - {})", lambda a, b: a - b), ("({} * {})", lambda a, b: a * b),
    ("hypot({}, {})", math.hypot), ("maximum({}, {})", max),
    ("where({} > 4, {}, {})", lambda c, a, b: a if c > 4 else b),
    ("ak.where(({1} < 3) && ({0} < 5), {1}, {0})", lambda a, b: b if b < 3 and a < 5 else a),
]  # fmt: skip


def _joined(text: str, function: Callable[..., Any], terms: list[_Term], kind: str) -> _Term:
    made = text.format(*(term.text for term in terms))
    return _Term(made, kind, lambda entry: _each(function, *(term.value(entry) for term in terms)))


def _made(numbers: random.Random, names: str, depth: int) -> _Term:
    """Return a random expression whose operands fit together."""
    if depth == 0 or numbers.random() < 0.15:
        name = numbers.choice(names)
        return _Term(name, _KINDS[name], lambda entry: entry[name])
    while True:
        text, function = numbers.choice(_OPERATIONS)
        terms = [_made(numbers, names, depth - 1) for _ in range(3 if text.startswith("where") else 2)]
        longest = max((term.kind for term in terms), key=len)
        optional = any("q" in term.text for term in terms)
        if not all(longest.startswith(term.kind) for term in terms) or (optional and ("v" in longest or "wh" in text)):
            continue
        if text.startswith("ak.where") and len({term.kind for term in terms}) > 1 and "v" in longest:
            continue  # a number beside lists is a choice of another type
        return _joined(text, function, terms, longest)


def _plain(values: Any) -> Any:
    values = values.tolist() if hasattr(values, "tolist") else values
    return list(map(_plain, values)) if isinstance(values, list) else values


def _is_close(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(_is_close, found, wanted))
    if wanted is None or found is None:
        return wanted is None and (found is None or pd.isna(found))
    return math.isclose(found, wanted, abs_tol=1e-9)


@pytest.mark.parametrize("library", ["ak", "np", "pd"])
@pytest.mark.parametrize("name", ["t", "n"])
def test_operations_combine_values_of_one_entry(small: Path, name: str, library: str) -> None:
    numbers = random.Random(f"{name} {library}")
    names = "xiwumvr" if name == "t" else "xiwumvrlq"
    aliases = {f"a{place}": _made(numbers, names, 1) for place in range(2)}
    terms = [_made(numbers, names, 2) for _ in range(5)]
    for alias, term in aliases.items():
        other = numbers.choice([one for one in names if term.kind.startswith(_KINDS[one])])
        if "q" not in term.text + other:
            parts = [_Term(alias, term.kind, term.value), _Term(other, _KINDS[other], lambda e, name=other: e[name])]
            terms.append(_joined("{} * {}", lambda a, b: a * b, parts, term.kind))
    entries: list[dict[str, Any]] = cast("Any", ak.zip(_columns(), depth_limit=1)).to_list()
    texts = list({term.text: None for term in terms})
    given: dict[str, Any] = {
        "library": library,
        "how": dict,
        "aliases": {key: one.text for key, one in aliases.items()},
    }
    for cut, passes in ((None, lambda _: True), ("x * 1 > 4", lambda entry: entry["x"] > 4)):
        wanted = {term.text: [term.value(entry) for entry in entries if passes(entry)] for term in terms}
        for path in (small, small.parent / "plain.root")[: 1 if cut is None else 2]:
            with sapwood.open(path) as file:
                steps = [[file[name].arrays(texts, cut, **given)]]
                steps += [list(file[name].iterate(texts, cut, step_size=size, **given)) for size in (1, 2, 3, _SMALL)]
            for parts in steps:
                for text in texts:
                    found = [value for part in parts for value in _plain(part[text])]
                    assert _is_close(found, wanted[text]), (text, cut, path, found, wanted[text])


PER_ENTRY: list[tuple[str, Callable[[dict[str, Any]], Any]]] = [
    ("x * w", lambda e: [e["x"] * item for item in e["w"]]),
    ("x < w", lambda e: [e["x"] < item for item in e["w"]]),
    ("(x > 4) && (w > 2)", lambda e: [e["x"] > 4 and item > 2 for item in e["w"]]),
    ("where(x > 4, w, 0)", lambda e: [item if e["x"] > 4 else 0 for item in e["w"]]),
    ("where(x > 4, w, v)", lambda e: e["w"] if e["x"] > 4 else e["v"]),
    ("m * u", lambda e: [[a * e["u"][i] for a in row] for i, row in enumerate(e["m"])]),
    ("x[:, None] * w", lambda e: [e["x"] * item for item in e["w"]]),
    ("mass(vector(w, x, 0, 0), vector(x, 1, 2, 3)) > 5", lambda e: [_mass(item, e["x"]) > 5 for item in e["w"]]),
    ("deltaR(vector(1, w, 0, 0), vector(1, x, 0, 0))", lambda e: [abs(item - e["x"]) for item in e["w"]]),
    ("correction('sum', x, w)", lambda e: [e["x"] + item for item in e["w"]]),
    ("correction('stack', x, w)", lambda e: [2 * e["x"] + 2 * item for item in e["w"]]),
]
"""Expressions, and their values of an entry."""
_SUM = {
    "name": "sum", "version": 1, "inputs": [{"name": "a", "type": "real"}, {"name": "b", "type": "real"}],
    "output": {"name": "c", "type": "real"},
    "data": {"nodetype": "formula", "expression": "x+y", "parser": "TFormula", "variables": ["a", "b"]},
}  # fmt: skip
_CORRECTIONS = {
    "schema_version": 2, "corrections": [_SUM],
    "compound_corrections": [{
        "name": "stack", "inputs": _SUM["inputs"], "output": _SUM["output"], "inputs_update": ["a"], "input_op": "+",
        "output_op": "last", "stack": ["sum", "sum"],
    }],
}  # fmt: skip


def _mass(pt: float, other: float) -> float:
    """Return the mass of the sum of two vectors: (pt, x, 0, 0) and (x, 1, 2, 3), where x is `other`."""
    a = np.array([pt, 0.0, pt * math.sinh(other), pt * math.cosh(other)])
    b = other * np.array([math.cos(2), math.sin(2), math.sinh(1), math.sqrt(math.cosh(1) ** 2 + (3 / other) ** 2)])
    x, y, z, energy = a + b
    return math.sqrt(max(energy**2 - x**2 - y**2 - z**2, 0.0))


@pytest.mark.parametrize(("text", "value"), PER_ENTRY, ids=[text for text, _ in PER_ENTRY])
def test_a_number_beside_an_array_of_fixed_size_is_one_for_all_items(
    small: Path, text: str, value: Callable[[dict[str, Any]], Any]
) -> None:
    """In `arrays`, also where the number of entries is the number of items; and in steps."""
    entries: list[dict[str, Any]] = cast("Any", ak.zip(_columns(), depth_limit=1)).to_list()
    more: dict[str, Any] = {"corrections": _CORRECTIONS}
    for name in ("t", "n"):
        for library in ("ak", "np"):
            with sapwood.open(f"{small}:{name}") as table:
                for stop in (2, 3, _SMALL):
                    found = table.arrays([text], entry_stop=stop, library=library, how=list, **more)[0]
                    assert _is_close(_plain(found), list(map(value, entries[:stop])))
                steps = table.iterate([text], step_size=3, library=library, how=list, **more)
                assert _is_close([one for (step,) in steps for one in _plain(step)], list(map(value, entries)))


def test_missing_arrays_of_fixed_size_are_aligned_by_entry() -> None:
    content = ak.from_numpy(np.arange(9.0).reshape(3, 3), regulararray=True).layout
    places = ak.index.Index64(np.array([0, -1, 1, 2]))
    known = {"o": ak.Array(ak.contents.IndexedOptionArray(places, content)), "x": ak.Array([1.0, 2.0, 3.0, 4.0])}
    for text, wanted in {
        "x * o": [[0, 1, 2], None, [9, 12, 15], [24, 28, 32]],
        "where(x > 3, o, -o)": [[0, -1, -2], [None] * 3, [-3, -4, -5], [6, 7, 8]],
    }.items():
        assert Language().parse(text, known, "").evaluate(known.__getitem__).to_list() == wanted


def test_operands_that_combine_entries_keep_the_alignment_of_numpy(small: Path) -> None:
    w, x = (np.asarray(_columns()[name]) for name in "wx")
    with sapwood.open(f"{small}:t") as tree:
        for text, wanted in {
            "w - ak.mean(w, axis=0)": w - w.mean(axis=0),
            "w * w[0]": w * w[0],
            "(x - ak.mean(x, axis=0)) * w": (x - x.mean())[:, None] * w,
            "where(x > 4, w, ak.max(w, axis=0))": np.where((x > 4)[:, None], w, w.max(axis=0)),
            "w / (ak.sum(w, axis=0) * w[1] + 1)": w / (w.sum(axis=0) * w[1] + 1),
        }.items():
            for library in ("ak", "np"):
                assert np.allclose(tree.arrays([text], library=library, how=list)[0], wanted), text


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("m * w", "2 × 3 and 3"), ("w + u", "3 and 2"), ("hypot(w, u)", "3 and 2"), ("where(w > 1, u, x)", "3 and 2"),
     ("(w > 1) && (u > 1)", "3 and 2")],
)  # fmt: skip
def test_arrays_of_other_sizes_do_not_fit_together(small: Path, text: str, sizes: str) -> None:
    for library in ("ak", "np"):
        with sapwood.open(f"{small}:t") as tree:
            for stop in (2, 3, _SMALL):
                with pytest.raises(ArgumentError, match=f"arrays of {sizes} in each entry do not fit together"):
                    tree.arrays([text], entry_stop=stop, library=library)
                with pytest.raises(ArgumentError, match="the lists of an entry differ in length"):
                    tree.arrays(["w * v"], entry_stop=stop, library=library)
            with pytest.raises(ArgumentError, match=f"arrays of {sizes} in each entry do not fit together"):
                next(tree.iterate([text], step_size=3, library=library))


def _filled(values: Any, weights: Any) -> Any:
    histogram = hist.Hist(hist.axis.Regular(9, -3, 15), storage=hist.storage.Weight())
    return histogram.fill(np.ravel(values), weight=np.ravel(weights)).values()


@pytest.mark.parametrize(("value", "weight"), [("w", "x"), ("x", "w"), ("m", "u"), ("w * x", "x")])
@pytest.mark.parametrize("storage", [hist.storage.Weight, hist.storage.Unlimited])
def test_a_weight_of_an_entry_counts_for_all_its_items(small: Path, value: str, weight: str, storage: Any) -> None:
    """Histograms with unlimited storage are filled in Python, the others by the engine."""
    data = _columns()
    given = [np.asarray(data[name]) for name in (value[0], weight)]
    depth = max(array.ndim for array in given)
    given = [array.reshape(array.shape + (1,) * (depth - array.ndim)) for array in given]
    if "*" in value:
        given[0] = given[0] * given[1]
    wanted = _filled(*np.broadcast_arrays(*given))
    axis = hist.axis.Regular(9, -3, 15)
    task = train.Declared({"h": train.Hist(value, axis, weight=weight, storage=storage())})
    with sapwood.open(f"{small}:t") as tree:
        empty = tree.hist(value, axis, weight=weight, storage=storage(), entry_stop=0)
        assert np.allclose(tree.hist(value, axis, weight=weight, storage=storage()).values(), wanted)
    for size in (2, 3, 100):
        assert np.allclose(
            train.run(task, f"{small}:t", step_size=size, threads=1).tasks[0].results["h"].values(), wanted
        )
    if "*" not in value:
        arrays = [data[name] for name in (value, weight)]
        for own in (arrays, list(map(ak.Array, arrays))):
            assert np.allclose(train.fill_histogram(empty.copy(), own[0], weight=own[1]).values(), wanted)
    drawn = drawing.histogram_of(f"{small}:t", value, weight=weight, bins=9, limits=(-3, 15))
    assert np.allclose(drawn.values(), wanted)


def test_totals_count_an_entry_for_all_its_items(small: Path) -> None:
    """The engine does not have `nextafter`: these totals are computed in Python."""
    w, x, u = (np.asarray(_columns()[name]) for name in "wxu")
    totals = {
        "weight": train.Total("nextafter(w, w)", weight="x"),
        "where": train.Total("nextafter(x, x)", where="w > 3"),
        "both": train.Total("nextafter(u, u)", where="x > 4", weight="i"),
    }
    wanted = {
        "weight": (w * x[:, None]).sum(), "where": ((w > 3) * x[:, None]).sum(),
        "both": (u * ((x > 4) * _columns()["i"])[:, None]).sum(),
    }  # fmt: skip
    for size in (2, 3, 100):
        found = train.run(train.Declared(totals), f"{small}:t", step_size=size, threads=1)
        assert found.tasks[0].results == pytest.approx(wanted)


@pytest.mark.parametrize("name", ["t", "n"])
def test_tasks_and_copies_combine_values_of_one_entry(small: Path, tmp_path: Path, name: str) -> None:
    class Products(train.Task):
        branches = {"y": "x * w"}

        def process(self, events: Any) -> dict[str, float]:
            return {"y": float(ak.sum(events.y, axis=None))}

    w, x = (np.asarray(_columns()[column]) for column in "wx")
    for size in (2, 3, 100):
        found = train.run(Products(), f"{small}:{name}", step_size=size, threads=1)
        assert found.tasks[0].results["y"] == pytest.approx((w * x[:, None]).sum())
    out = str(tmp_path / "out.root")
    copy(f"{small}:{name}", out, selection=Selection(define={"y": "x * w"}, cut="any(w * x > 60)"))
    with sapwood.open(out) as file:
        kept = (w * x[:, None] > 60).any(axis=1)
        assert 0 < kept.sum() < _SMALL
        assert np.allclose(file[name]["y"].array(library="np"), (w * x[:, None])[kept])
    with sapwood.open(f"{small}:{name}") as table:
        assert table.arrays(["x"], "any(w * x > 60)")["x"].to_list() == x[kept].tolist()
        assert table.arrays(["w"], "w * x > 60")["w"].to_list() == [
            [item for item in row if item * number > 60] for row, number in zip(w, x, strict=True)
        ]
        joined = sapwood.concatenate([f"{small}:{name}"] * 2, ["x * w"], library="np", how=list)[0]
        assert np.allclose(joined, np.concatenate([w * x[:, None]] * 2))
