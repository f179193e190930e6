"""Says whether objects are as ROOT has them: `tests/recipes/objects` writes the files and what ROOT gives for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import uproot
from numpy.testing import assert_allclose, assert_array_equal

import sapwood
from sapwood.objects.model import Model, to_json

Expected = dict[str, Any]

# In the order of `TH1::GetStats`, save for profiles of two and three axes, which have those of the values at the end.
MOMENTS = [
    f"fTsumw{rest}" for rest in ("", "2", "x", "x2", "y", "y2", "xy", "z", "z2", "xz", "yz", "t", "t2")
]  # fmt: skip


def in_roots_order(cells: Any) -> np.ndarray[Any, Any]:
    """Return the cells of a histogram as ROOT numbers them: x runs fastest."""
    return np.asarray(cells).T.ravel()


def check_histogram(h: Any, want: Expected) -> None:
    """Contents, errors, axes and labels; of profiles effective entries."""
    assert_allclose(in_roots_order(h.values(flow=True)), want["contents"], rtol=1e-12)
    assert_allclose(in_roots_order(h.errors(flow=True)), want["errors"], rtol=1e-6, atol=1e-7)
    assert_allclose(h.variances(flow=True), np.square(h.errors(flow=True)))
    assert h.kind == ("MEAN" if "mode" in want else "COUNT")
    assert h.ndim == len(h.axes) == len(want["axes"])
    for number, (axis, expected) in enumerate(zip(h.axes, want["axes"], strict=True)):
        assert_allclose(axis.edges(), expected["edges"])
        assert axis.labels() == expected.get("labels")
        assert h.axis(number) == h.axis("xyz"[number]) == h.axis(number - h.ndim) == axis
    inner = (slice(1, -1),) * h.ndim
    assert_array_equal(h.values(), h.values(flow=True)[inner])
    assert_array_equal(h.errors(), h.errors(flow=True)[inner])
    if "mode" in want:
        assert h.error_mode == want["mode"]
        assert_allclose(in_roots_order(h.counts(flow=True)), want["effective"], rtol=1e-12)


def check_regions(h: Any, want: Expected) -> None:
    """Contents, errors and effective entries of bins that are polygons. ROOT has NaN as the error of empty bins."""
    assert_allclose(h.values(flow=True), want["contents"], rtol=1e-12)
    assert_allclose(h.errors(flow=True), [error or 0.0 for error in want["errors"]], rtol=1e-12)
    for what in ("values", "errors", "variances", "counts"):
        assert_array_equal(getattr(h, what)(), getattr(h, what)(flow=True)[9:])
    assert_allclose(h.variances(), np.square(h.errors()))
    assert h.kind == ("MEAN" if "effective" in want else "COUNT")
    if "effective" in want:
        assert_allclose(h.counts(), [number or 0.0 for number in want["effective"]], rtol=1e-12)


def check_buffered(h: Any, want: Expected) -> None:
    """Be as ROOT has it once it emptied the buffer in which the fills were written."""
    assert_allclose(in_roots_order(h.values(flow=True)), want["contents"], rtol=1e-12)
    assert_allclose(in_roots_order(h.errors(flow=True)), want["errors"], rtol=1e-6, atol=1e-6)
    for axis, edges in zip(h.axes, want["edges"], strict=True):
        assert_allclose(axis.edges(), edges, rtol=1e-14, atol=1e-14)
    assert h.weighted == want["sumw2"]
    assert h.filled.member("fEntries") == want["entries"]
    names = [name for name in MOMENTS if h.filled.has_member(name)]
    assert_allclose([h.filled.member(name) for name in names], want["moments"][: len(names)], rtol=1e-12, atol=1e-12)
    if "effective" in want:
        assert_allclose(in_roots_order(h.counts(flow=True)), want["effective"], rtol=1e-12)
    made = h.to_hist()
    assert_array_equal(made.values(flow=True), h.values(flow=True))
    assert_allclose(made.axes[0].edges, h.to_numpy()[1], atol=1e-12)


def check_polygons(h: Any, want: Expected) -> None:
    """Contents of the regions around the polygons, then of the polygons; errors of the latter."""
    assert_allclose(h.values(flow=True), want["contents"])
    assert_allclose(h.errors(), want["errors"])
    assert_array_equal(h.values(flow=True)[9:], h.values())


def check_efficiency(e: Any, want: Expected) -> None:
    """Efficiencies and their errors."""
    assert_allclose(in_roots_order(e.values(flow=True)), want["contents"], rtol=1e-12)
    for which in ("low", "high"):
        assert_allclose(in_roots_order(e.errors(which, flow=True)), want[which], atol=2e-9)


def check_many_dimensions(h: Any, want: Expected) -> None:
    """Cells by their coordinates."""
    assert h.shape == tuple(want["shape"])
    if h.ndim > 4:
        assert h.coordinates.tolist() == [cell for cell, _, _ in want["bins"]]
        assert h.contents.tolist() == [content for _, content, _ in want["bins"]]
        return
    values, variances = h.values(flow=True), h.variances(flow=True)
    for cell, content, variance in want["bins"]:
        assert_allclose((values[tuple(cell)], variances[tuple(cell)]), (content, variance), rtol=1e-6)
    assert_allclose(values.sum(), sum(content for _, content, _ in want["bins"]), rtol=1e-6)


def check_graph(g: Any, want: Expected) -> None:
    """Points and errors."""
    points = want["points"]
    assert len(g) == len(points["x"])
    for letter, found in zip(points, g.values(), strict=True):
        assert_array_equal(found, points[letter])
        assert_array_equal(g.values(letter), points[letter])
        low, high = want.get("errors", {}).get(letter, [np.zeros(len(g))] * 2)
        assert_allclose(g.errors("low", letter), low)
        assert_allclose(g.errors("high", letter), high)
        assert_allclose(g.errors("mean", letter), (np.asarray(low) + high) / 2)
        assert_allclose(g.errors("diff", letter), np.asarray(high) - low)


def check_function(f: Any, want: Expected) -> None:
    """Values at points, and parameters."""
    if "points" in want:
        assert_allclose([f(*point) for point in want["points"]], want["ys"])
        return
    saved = getattr(f, "formula", "") is None  # code, of which ROOT saved values
    assert_allclose(f(np.array(want["xs"])), want["ys"], rtol=1e-9 if not saved else 1e-6, atol=1e-12)
    assert_allclose(f(want["xs"][0]), want["ys"][0], rtol=1e-9 if not saved else 1e-6, atol=1e-12)
    if want["parameters"]:
        assert f.parameters == want["parameters"]


def check_curve(f: Any, want: Expected) -> None:
    """Values at many points, given and taken as arrays."""
    assert_allclose(f(*np.array(want["variables"])), want["values"], rtol=1e-9, atol=1e-12, err_msg=want["text"])


def check_versions(first: Path, second: Path) -> None:
    """Objects of two versions of a class, joined: all members, zero where there are none."""
    alone: list[dict[str, Any]] = []
    for path in (first, second):
        with sapwood.open(path) as file:
            alone += file["t/thing"].array().tolist()
    found = sapwood.concatenate([{path: "t"} for path in (first, second)], "thing").thing
    assert str(found.type) == (
        "6 * Thing[a: int32, b: float32, three: 3 * int32, flag: int32, gone: int32, parts: var * Part[q: float64, "
        "more: float32], part: Part[q: float64, more: float32], added: int64, text: string]"
    )
    for ours, one in zip(found.tolist(), alone, strict=True):
        for part in (*one["parts"], one["part"]):
            part.setdefault("more", 0.0)
        assert ours == {"gone": 0, "added": 0, "text": ""} | one
    assert found.a.tolist() == [10, 11, 12, 20, 21, 22]


def check_standard(thing: Any, name: str, want: Expected) -> None:
    """Compare an object of `standard.root` with what ROOT's methods give for it."""
    if name in CHECKS:
        CHECKS[name](thing, want)
    elif name == "poly":
        check_polygons(thing, want)
    elif name.startswith("efficiency"):
        check_efficiency(thing, want)
    elif "axes" in want:
        check_histogram(thing, want)
    elif "shape" in want:
        check_many_dimensions(thing, want)
    elif "points" in want and "ys" not in want:
        check_graph(thing, want)
    elif "ys" in want:
        check_function(thing, want)
    elif "elements" in want:
        assert_allclose(thing.to_numpy(), want["elements"])
        assert_allclose(np.asarray(thing), want["elements"])
    elif "value" in want:
        assert thing.value == want["value"]
        assert type(thing.value) is {"D": float, "F": float, "B": bool}.get(name[-1], int)
    else:
        raise AssertionError(f"nothing checks {name}")


def _check_list(items: Any, want: Expected) -> None:
    assert [one.name for one in items[: len(want["names"])]] == want["names"]
    assert list(items.options) == want["options"]


def _check_map(mapping: Any, want: Expected) -> None:
    assert {str(key): value.name for key, value in mapping.items()} == want["pairs"]
    assert mapping["first"].name == want["pairs"]["first"]
    assert len(mapping) == 2


def _check_canvas(canvas: Any, want: Expected) -> None:
    assert canvas.member("fTitle") == want["title"]
    pads = [one for one in canvas.member("fPrimitives") if one.classname == "TPad"]
    [drawn] = [one for one in pads[1].member("fPrimitives") if one.classname == "TH1F"]
    assert_array_equal(drawn.values(flow=True), want["drawn"])


def _check_fit(found: Any, want: Expected) -> None:
    assert found.status == want["status"]
    assert_allclose(found.minimum, want["minimum"])
    assert {one.name: one.value for one in found.parameters} == want["values"]
    assert {one.name: one.error for one in found.parameters} == want["errors"]
    assert found.parameters["mean"].unit == "" and float(found.parameters[0]) == found.parameters[0].value
    assert_allclose(found.covariance, want["covariance"])


def _check_points(points: Any, want: Expected) -> None:
    assert_array_equal(points.values("y"), want["contents"])
    assert_array_equal(points.errors("low", "y"), want["low"])
    assert_allclose(points.to_numpy()[1], want["edges"], atol=1e-9)
    assert_allclose(points.to_boost().values(), want["contents"])


def _check_curve(curve: Any, want: Expected) -> None:
    assert curve.curve_type == "VALUES"
    assert_allclose(curve.interpolate(want["xs"]), want["ys"])


def _check_named(thing: Any, want: Expected) -> None:
    assert thing.title == want["title"]


CHECKS: dict[str, Any] = {
    "string": lambda thing, want: _same(str(thing), want["text"]),
    "named": _check_named,
    "list": _check_list,
    "map": _check_map,
    "multigraph": _check_list,
    "stack": _check_list,
    "date": lambda thing, want: _same(thing.to_datetime().isoformat(), want["date"]),
    "canvas": _check_canvas,
    "fit_result": _check_fit,
    "points": _check_points,
    "curve": _check_curve,
}


def _same(got: object, want: object) -> None:
    assert got == want


MISSING = "missing"
_SECRET = "class Secret is not described in the file (no streamer info)"
_MAP = [{"$pair": "pair", "first": 2, "second": 3}]
_UNREADABLE = {
    f".{member}.{name}": one
    for member in ("fSecret", "fItems.arr[1]", "fPointer")
    for name, one in (("_blob", MISSING), ("_unreadable", lambda why: why.startswith(_SECRET)))
}

# Where ROOT's JSON leaves something out, shows it as it lies in memory, or shows a map of one pair as its pair, the
# values are those that `write.cpp` fills in: by object, by member.
AS_FILLED: dict[str, dict[str, Any]] = {
    "numbers": {".fPairs": [[1, 2, 3], [4, 5, 6]]},
    "unset": {".fPairs": [[], []]},
    "containers": {".fMapMap[0][1]": [[1, "one"]]},
    "collections": {".fNumbers._blob": MISSING, ".fNumbers.name": "TExMap", ".fNumbers.arr": [[2, 3]]},
    "row": {".fVector": MISSING, ".vector<double>": [1.5, 2.5]},
    "holder": _UNREADABLE,
}
# References are numbers that ROOT gives out as objects are written; its JSON shows what they lead to.
for _name in ("collections", "bypassed"):
    AS_FILLED[_name] = {**AS_FILLED["collections"], **{f".fRefs.arr[{i}]": lambda n: n > 0 for i in range(2)}}


def as_root(value: Any) -> Any:
    """Bring ROOT's JSON and ours to one form: arrays in full, pairs as lists, empty slots of arrays left out."""
    if isinstance(value, dict):
        if value.get("_typename", "").startswith("pair") or "$pair" in value:
            return [as_root(value["first"]), as_root(value["second"])]
        if "$arr" in value:
            stored = value.get("v", [])
            filled = stored if isinstance(stored, list) else [stored] * value.get("n", 1)
            head = [0] * value.get("p", 0) + filled
            return [as_root(one) for one in head + [0] * (value["len"] - len(head))]
        if value.get("_typename") in ("TObjArray", "TClonesArray"):
            value = {**value, "arr": [one for one in value["arr"] if one is not None]}
        return {key: as_root(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_root(one) for one in value]
    return int(value) if isinstance(value, bool) else value


def differences(want: Any, got: Any, path: str = "") -> dict[str, tuple[Any, Any]]:
    """Return where two values of JSON differ, and what they are there. ROOT writes a float with a few digits."""
    if isinstance(want, dict) and isinstance(got, dict):
        pairs = {f".{key}": (want.get(key, MISSING), got.get(key, MISSING)) for key in (*want, *got)}
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        pairs = {f"[{i}]": pair for i, pair in enumerate(zip(want, got, strict=True))}
    else:
        if isinstance(want, str) and isinstance(got, list) and all(isinstance(code, int) for code in got):
            got = "".join(chr(code & 255) for code in got).split("\0")[0]
        numbers = isinstance(want, (int, float)) and isinstance(got, (int, float)) and isinstance(want + got, float)
        same = np.isclose(want, got, rtol=1e-6, atol=0) if numbers else want == got
        return {} if same else {path: (want, got)}
    return {where: two for step, pair in pairs.items() for where, two in differences(*pair, path + step).items()}


def check_shape(thing: Any, name: str, want: Any) -> None:
    """Compare an object of the recipe's own classes with ROOT's JSON of it."""
    found = differences(as_root(want), as_root(to_json(thing)))
    for where, filled in AS_FILLED.get(name, {}).items():
        _, got = found.pop(where)
        assert filled(got) if callable(filled) else got == filled, where
    assert found == {}


def compare_members(mine: Any, found: Any, seen: set[int] | None = None) -> int:
    """Compare the plain members of a model, and of all it leads to, with uproot's; give how many there were."""
    seen = set() if seen is None else seen
    if id(found) in seen or isinstance(found, uproot.model.UnknownClass):
        return 0
    seen.add(id(found))
    assert mine.classname == uproot.model.classname_regularize(found.classname).replace("std::", "")
    assert found.class_version in (mine.class_version, None)
    compared = 0
    pairs = [(name, mine.member(name), theirs) for name, theirs in found.all_members.items() if name != "fClass"]
    if found.classname in ("TList", "TObjArray", "THashList"):
        assert len(mine) == len(found)
        pairs += [("", ours, theirs) for ours, theirs in zip(mine, found, strict=True)]
    for member, ours, theirs in pairs:
        if isinstance(theirs, np.ndarray) and theirs.dtype != object:
            assert_array_equal(np.ravel(ours), np.ravel(theirs.astype(theirs.dtype.newbyteorder("="))))
        elif member == "@fBits":  # uproot adds the bit of an object that was allocated (kIsOnHeap)
            assert ours | 1 << 24 == theirs
        elif isinstance(theirs, (int, float, str)):
            assert ours == theirs or (ours != ours and theirs != theirs), member
        elif isinstance(theirs, uproot.Model) and isinstance(ours, Model):
            compared += compare_members(ours, theirs, seen)
            continue
        else:  # containers of other shape, and None for what uproot cannot follow
            continue
        compared += 1
    return compared
