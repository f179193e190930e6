"""Corrections in expressions: the values of correctionlib, and errors with their place."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, CorruptError, LimitError, NotFoundError, StorageError, UnsupportedError
from sapwood.table.corrections import Corrections
from sapwood.table.expressions import Language

correctionlib = pytest.importorskip("correctionlib", reason="needs correctionlib (pip install correctionlib)")

X, Y = {"name": "x", "type": "real"}, {"name": "y", "type": "real"}
N, S = {"name": "n", "type": "int"}, {"name": "s", "type": "string"}

FORMULAS = [
    "x + y", "-x^2", "2 - 3 - x", "2^x^0.5", "8 / 2 * x", "x > 1 == 1", "x - -y", "[0] + [1]*x + [2]*x*y",
    "max(x, y) - min(x, 2)", "sqrt(abs(x)) + exp(-x*x) + log(abs(y) + 1)", "pow(abs(x), 0.3) * atan2(y, x)",
    "sin(x) + cos(y) + tan(0.1*x) + erf(x)", "sinh(x/5) + cosh(y/5) + tanh(x) + asinh(x) + acosh(abs(x)+1)",
    "(x >= 1)*(x < 2) + (y != 0)*(y <= 3)", "1.5e-2*x + 0.5 + 3.0", "((((x))))", "log10(abs(x) + 1) + atan(y)",
    "-(x + y) * -2", "x*(x<1) + 4*(x>=1)",
]  # fmt: skip


def formula(text: str) -> dict[str, Any]:
    return {
        "nodetype": "formula", "expression": text, "parser": "TFormula", "variables": ["x", "y"],
        "parameters": [0.5, 1.5, -2.0],
    }  # fmt: skip


def binning(flow: Any, edges: Any = (-2.0, -0.5, 0.0, 1.0, 2.5), **more: Any) -> dict[str, Any]:
    n = edges["n"] if isinstance(edges, dict) else len(edges) - 1
    content = [float(place) for place in range(1, n)] + [formula("x*y")]
    edges = edges if isinstance(edges, dict) else list(edges)
    return {"nodetype": "binning", "input": "x", "edges": edges, "content": content, "flow": flow, **more}


def category(name: str, pairs: dict[Any, Any], default: Any = None) -> dict[str, Any]:
    items = [{"key": key, "value": value} for key, value in pairs.items()]
    found = {"nodetype": "category", "input": name, "content": items}
    return found if default is None else found | {"default": default}


UNIFORM = {"n": 7, "low": -2.0, "high": 2.9}
DATA: dict[str, tuple[list[dict[str, str]], Any]] = {
    **{f"formula {place}": ([X, Y], formula(text)) for place, text in enumerate(FORMULAS)},
    "constant": ([X], 3.5),
    "clamp": ([X, Y], binning("clamp")),
    "content": ([X, Y], binning(formula("x - y"))),
    "infinite": ([X, Y], binning("error", ["-inf", 0.0, 1.0, "inf"])),
    "uniform": ([X, Y], binning("clamp", UNIFORM)),
    "uniform content": ([X, Y], binning(-1.0, UNIFORM)),
    "multi": (
        [X, Y],
        {
            "nodetype": "multibinning", "inputs": ["x", "y"], "edges": [[-2.0, 0.0, 2.0], UNIFORM],
            "content": [float(place) for place in range(14)], "flow": "clamp",
        },
    ),
    "multi content": (
        [X, Y],
        {
            "nodetype": "multibinning", "inputs": ["y", "x"], "edges": [[-2.0, 0.0, 2.0], [-1.0, 1.0]],
            "content": [1.0, formula("x+1")], "flow": 9.0,
        },
    ),
    "whole": ([N, X], category("n", {1: 2.0, 2: category("n", {2: 5.0}), -3: 7.0}, 0.25)),
    "text": ([S, X, Y], category("s", {"up": binning("clamp"), "down": 0.5}, 8.0)),
    "reference": ([X, Y], {"nodetype": "formularef", "index": 0, "parameters": [2.0, 3.0, 4.0]}),
    "transform": (
        [X, Y],
        {"nodetype": "transform", "input": "x", "rule": formula("2*x"), "content": binning("clamp")},
    ),
    "random": ([N, X], {"nodetype": "hashprng", "inputs": ["n", "x"], "distribution": "stdflat"}),
    "random normal": ([X, Y], {"nodetype": "hashprng", "inputs": ["y"], "distribution": "stdnormal"}),
    "random cheap": ([X, Y], {"nodetype": "hashprng", "inputs": ["x", "y"], "distribution": "normal"}),
    "whole transform": (
        [N, X, Y],
        {"nodetype": "transform", "input": "n", "rule": formula("x"), "content": category("n", {1: 2.0}, -1.0)},
    ),
}  # fmt: skip


STACKS = [("*", "*"), ("+", "+"), ("/", "/"), ("+", "last")]


def document() -> dict[str, Any]:
    corrections = [
        {
            "name": name, "version": 1, "inputs": inputs, "output": {"name": "w", "type": "real"}, "data": data,
            "generic_formulas": [formula("[0]*x + [1]*y + [2]")] if Y in inputs else [],
        }
        for name, (inputs, data) in DATA.items()
    ]  # fmt: skip
    stacks = [
        {
            "name": f"stack {change} {join}", "output": {"name": "w", "type": "real"}, "inputs": [S, X, Y],
            "inputs_update": ["x"], "input_op": change, "output_op": join,
            "stack": ["uniform", "text", "multi", "text"],
        }
        for change, join in STACKS
    ]  # fmt: skip
    return {"schema_version": 2, "corrections": corrections, "compound_corrections": stacks}


def inputs_of(name: str) -> list[Any]:
    rng = np.random.default_rng(3)
    size = 400
    edges = np.array([-2.0, -0.5, 0.0, 1.0, 2.5, 2.9, -3.0, 1e9])
    values = {
        "x": np.concatenate([rng.normal(0, 1.5, size), edges]),
        "y": np.concatenate([rng.normal(0, 1.5, size), edges[::-1]]),
        "n": rng.integers(-4, 4, size + len(edges)),
        "s": "up",
    }
    return [values[one["name"]] for one in DATA[name][0]]


@pytest.fixture(scope="module")
def theirs() -> Any:
    return correctionlib.CorrectionSet.from_string(json.dumps(document()))


@pytest.mark.parametrize("name", list(DATA))
def test_values_are_those_of_correctionlib(name: str, theirs: Any) -> None:
    given = inputs_of(name)
    ours = Corrections(document())(name, *given)
    np.testing.assert_allclose(ours, theirs[name].evaluate(*given), rtol=1e-13, atol=1e-15)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("name", [f"stack {change} {join}" for change, join in STACKS])
def test_stacks_of_corrections_are_those_of_correctionlib(name: str, theirs: Any) -> None:
    x, y = inputs_of("uniform")
    x, y = x[(x != 0) & (y != 0)], y[(x != 0) & (y != 0)]
    right = theirs.compound[name].evaluate("up", x, y)
    np.testing.assert_allclose(Corrections(document())(name, "up", x, y), right, rtol=1e-13, atol=1e-15)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corrections")
    rng = np.random.default_rng(4)
    counts = rng.poisson(2, 3000)
    with sapwood.recreate(folder / "events.root") as file:
        file.mktree("t", {"met": "float32", "pt": "var * float32"}).extend(
            {
                "met": rng.normal(0, 2, 3000).astype(np.float32),
                "pt": ak.unflatten(rng.normal(0, 2, int(counts.sum())).astype(np.float32), counts),
            }
        )
    with gzip.open(folder / "sf.json.gz", "wt") as packed:
        json.dump(document(), packed)
    return folder


def test_corrections_are_declared_with_what_uses_them(file: Path, theirs: Any) -> None:
    from sapwood import train

    corrections = file / "sf.json.gz"
    text = "correction('text', 'up', pt, met)"
    with sapwood.open(f"{file}/events.root:t") as tree:
        data = tree.arrays(["pt", "met"])
        found = tree.arrays(text, corrections=corrections)[text]
        filled = tree.hist("pt", hist.axis.Regular(20, -5, 5), weight=text, corrections=str(corrections))
    flat = ak.flatten(data.pt)
    expected = theirs["text"].evaluate("up", flat, ak.flatten(ak.broadcast_arrays(data.met, data.pt)[0]))
    np.testing.assert_allclose(ak.flatten(found), expected, rtol=1e-13)
    assert ak.num(found).tolist() == ak.num(data.pt).tolist()
    by_hand = hist.Hist(hist.axis.Regular(20, -5, 5), storage=hist.storage.Weight()).fill(flat, weight=expected)
    np.testing.assert_allclose(filled.values(flow=True), by_hand.values(flow=True), rtol=1e-10)
    task = train.Declared(
        {"w": train.Hist("pt", hist.axis.Regular(20, -5, 5), weight="sf")}, name="task", aliases={"sf": text},
        vary={"down": {"sf": "correction('text', 'down', pt, met)"}}, corrections=corrections,
    )  # fmt: skip
    results: Any = train.run([task], f"{file}/events.root:t")["task"]["w"]
    assert results["nominal"].values().tolist() == pytest.approx(filled.values().tolist())
    plain = hist.Hist(hist.axis.Regular(20, -5, 5)).fill(flat)
    assert results["down"].values().tolist() == pytest.approx((0.5 * plain.values()).tolist())


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("correction('txt', met)", NotFoundError, "near it: text"),
        ("correction('text', met, met)", ArgumentError, r"takes s \(string\), x \(real\), y \(real\)"),
        ("correction('whole transform', 'a', met, met)", ArgumentError, r"takes n \(int\)"),
        ("correction('infinite', met / 0.0 - met / 0.0, met)", ArgumentError, r"(?s)no bin for the value NaN.*\^"),
        ("correction(met)", ArgumentError, "name of a correction first"),
        ("correction('strict', met)", NotFoundError, "unknown correction 'strict'"),
        ("sqrt('text')", ArgumentError, r"(?s)cannot hold this.*\^"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:invalid value", "ignore:divide by zero")
def test_errors_say_what_is_wrong(file: Path, text: str, kind: type[Exception], message: str) -> None:
    with sapwood.open(f"{file}/events.root:t") as tree, pytest.raises(kind, match=message) as raised:
        tree.arrays(text, corrections=file / "sf.json.gz")
    assert "^\n" in str(raised.value)


def one(data: Any, **more: Any) -> dict[str, Any]:
    correction = {"name": "c", "version": 1, "inputs": [X], "output": Y, "data": data} | more
    return {"schema_version": 2, "corrections": [correction]}


def bins(edges: Any) -> Any:
    return {"nodetype": "binning", "input": "x", "edges": edges, "content": [1.0, 2.0], "flow": "clamp"}


def deep(levels: int) -> Any:
    found: Any = 1.0
    for _ in range(levels):
        found = {"nodetype": "binning", "input": "x", "edges": [0.0, 1.0], "content": [found], "flow": "clamp"}
    return found


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"corrections": []}, ArgumentError, "not a set of corrections"),
        ({"schema_version": 1, "corrections": []}, ArgumentError, "version 1"),
        ({"schema_version": 2, "corrections": [{"name": 7}]}, ArgumentError, "a name that is not a string"),
        (one({"nodetype": "lwtnn"}), UnsupportedError, "lwtnn"),
        (one({"nodetype": "hashprng", "inputs": ["x"], "distribution": "odd"}), ArgumentError, "no such distribution"),
        (
            one({"nodetype": "hashprng", "inputs": ["z"], "distribution": "normal"}),
            ArgumentError,
            "'z' is not a numeric input",
        ),
        (one({"nodetype": "binning", "input": "x"}), ArgumentError, "cannot use the correction"),
        (one(deep(100)), LimitError, "nested more than"),
        (one(formula("(" * 500 + "x" + ")" * 500), inputs=[X, Y]), LimitError, "nested operations"),
        (one(formula("x +"), inputs=[X, Y]), ArgumentError, "unexpected end"),
        (one(formula("x + [7]"), inputs=[X, Y]), ArgumentError, r"unknown parameter \[7\]"),
        (one(formula("system(x)"), inputs=[X, Y]), ArgumentError, "unexpected 'system'"),
        (one(formula("x ; y"), inputs=[X, Y]), ArgumentError, "cannot read"),
        (one(bins([2.0, 1.0, 3.0])), ArgumentError, "must increase"),
        (one(bins([0.0, 0.0, 3.0])), ArgumentError, "must increase"),
        (one(bins([0.0, math.nan, 3.0])), ArgumentError, "must increase"),
        (one(bins({"n": 2, "low": 1.0, "high": 1.0})), ArgumentError, "must increase"),
    ],
)
def test_wrong_corrections_are_refused(given: Any, kind: type[Exception], message: str) -> None:
    x = np.ones(2)
    with pytest.raises(kind, match=message):
        corrections = Corrections(given)
        corrections("c", *([x] * len(given["corrections"][0]["inputs"])))


@pytest.mark.parametrize(
    "change",
    [
        {"stack": []}, {"stack": ["none"]}, {"stack": ["text"]}, {"inputs_update": ["q"]}, {"input_op": "-"},
        {"input_op": "last"}, {"inputs": []},
    ],
)  # fmt: skip
def test_wrong_stacks_are_refused(change: dict[str, Any]) -> None:
    given = document()
    given["compound_corrections"][0] |= {"inputs": [X, Y], "stack": ["uniform"]} | change
    with pytest.raises(ArgumentError, match=r"takes|cannot use the correction"):
        Corrections(given)("stack * *", np.ones(2), np.ones(2))


def test_text_is_read_by_corrections_alone() -> None:
    with pytest.raises(ArgumentError, match="cannot hold this"):
        Language().parse("sin('x')", ["x"], "")
    parsed = Language(corrections=document()).parse("correction('constant', x)", ["x"], "")
    assert parsed.evaluate(lambda name: np.zeros(3)).tolist() == [3.5, 3.5, 3.5]
    assert parsed.needs == ["x"]


def test_files_of_corrections_that_cannot_be_read_are_our_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageError, match="directory"):
        Corrections(tmp_path)
    path = tmp_path / "a.json.gz"
    whole = gzip.compress(json.dumps(document()).encode())
    for data in (whole[:-20], whole[:40] + b"\xff" * 20 + whole[60:]):
        path.write_bytes(data)
        with pytest.raises(CorruptError, match="cannot decompress"):
            Corrections(path)
    path.write_bytes(gzip.compress(b" " * 5000))
    monkeypatch.setattr("sapwood.table.corrections._MOST_BYTES", 4000)
    with pytest.raises(LimitError, match="more than 4000 bytes"):
        Corrections(path)
