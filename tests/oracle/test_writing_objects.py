"""Graphs, names, parameters, lists, profiles and objects of Python dataclasses, as ROOT and uproot read them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

import boost_histogram as bh
import numpy as np
import pytest
import uproot

import sapwood
from recipes import run
from sapwood import new

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]


@dataclass
class Inner:
    """An object inside another."""

    n: int
    x: np.float32


@dataclass
class Settings:
    """An object of a class of its own."""

    class_version: ClassVar[int] = 3
    count: int
    scale: float
    on: bool
    label: str
    steps: list[float] = field(default_factory=list)
    inner: Inner = field(default_factory=lambda: Inner(7, np.float32(1.5)))
    small: Annotated[int, "int16"] = -3


def test_objects(tmp_path: Path, root_python: Path) -> None:
    x, y, z = np.arange(3.0), np.array([4.0, 5.0, 7.0]), np.array([1.0, 0.0, 2.0])
    low, high = np.full(3, 0.25), np.array([0.5, 0.75, 1.0])
    rng = np.random.default_rng(1)
    a, b, c, d = rng.random((4, 500))
    flat = bh.Histogram(bh.axis.Regular(3, 0, 1), bh.axis.Regular(2, 0, 1), storage=bh.storage.Mean())
    flat.fill(a, b, sample=c)
    cube = bh.Histogram(*(bh.axis.Regular(2, 0, 1),) * 3, storage=bh.storage.WeightedMean())
    cube.fill(a, b, c, sample=d, weight=a)
    path = tmp_path / "things.root"
    settings = Settings(5, 2.5, True, "käse", [1.0, 2.0])
    with sapwood.recreate(path) as file:
        file["graph"] = new.TGraph(x, y, title="a graph;x;y")
        file["errors"] = new.TGraph(x, y, ey=high)
        file["asymmetric"] = new.TGraph(x, y, ex=low, ey=(low, high))
        file["space"] = new.TGraph2D(x, y, z)
        file["space errors"] = new.TGraph2D(x, y, z, ez=high)
        file["space asymmetric"] = new.TGraph2D(x, y, z, ex=(low, high))
        file["bent"] = new.TGraph(x, y, ey=(low, high), bends=((x, y), (low, z)))
        file["graphs"] = new.TMultiGraph([new.TGraph(x, y), new.TGraph(y, x, ey=high)], title="two")
        file["name"] = new.TNamed("a title")
        file["text"] = new.TObjString("text")
        for dtype, value in (("bool", True), ("int32", -5), ("int64", 1 << 40), ("float32", 0.5), ("float64", 0.1)):
            file[f"parameter {dtype}"] = new.TParameter(value, dtype)
        file["list"] = new.TList([new.TNamed("one"), "two", new.TGraph(x, y), new.TNamed("four", name="called")])
        for kind in "CSIFD":
            file[f"h{kind}"] = new.TH(np.histogram(a[:200], 4), kind, "chosen")
            file[f"h2{kind}"] = new.TH(np.histogram2d(a, b, 3), kind)
        file["profile2"] = flat
        file["profile3"] = cube
        file["settings"] = settings
        with pytest.raises(sapwood.ArgumentError, match="cannot hold"):
            new.TH((np.array([0.5]), np.array([0.0, 1.0])), "I")
        with pytest.raises(sapwood.ArgumentError, match="one length"):
            new.TGraph(x, y[:2])
    found = json.loads(run(root_python, "writing/things.py", path))
    points = [x.tolist(), y.tolist()]
    nothing = [[0.0] * 3] * 4
    assert found["graph"][0] == "TGraph"
    assert found["graph"][1][:3] == ["a graph;x;y", *points]
    assert found["errors"] == ["TGraphErrors", ["", *points, *nothing[:2], high.tolist(), high.tolist()]]
    wanted = ["", *points, low.tolist(), low.tolist(), low.tolist(), high.tolist()]
    assert found["asymmetric"] == ["TGraphAsymmErrors", wanted]
    assert found["space"] == ["TGraph2D", ["", *points, z.tolist()]]
    assert found["space errors"] == ["TGraph2DErrors", ["", *points, z.tolist(), [0.0] * 3, [0.0] * 3, high.tolist()]]
    zeros = [0.0] * 3
    ends = [low.tolist(), high.tolist(), *[zeros] * 4]
    assert found["space asymmetric"] == ["TGraph2DAsymmErrors", ["", *points, z.tolist(), *ends]]
    bars = [zeros, zeros, low.tolist(), high.tolist(), *points, low.tolist(), z.tolist()]
    assert found["bent"] == ["TGraphBentErrors", ["", *points, *bars]]
    second = ["", y.tolist(), x.tolist(), zeros, zeros, high.tolist(), high.tolist()]
    assert found["graphs"][0] == "TMultiGraph" and found["graphs"][1][0] == "two"
    first, other = found["graphs"][1][1]
    assert first[:2] == ["TGraph", "graph0"] and first[2][1:3] == points
    assert other == ["TGraphErrors", "graph1", second]
    assert found["name"] == ["TNamed", ["name", "a title"]]
    assert found["text"] == ["TObjString", ["text", "Collectable string class"]]
    assert [found[f"parameter {dtype}"][1] for dtype in ("bool", "int32", "int64", "float32", "float64")] == [
        *(True, -5, 1 << 40, 0.5, 0.1)
    ]
    assert [item[:2] for item in found["list"][1]] == [
        ["TNamed", "item0"],
        ["TObjString", "two"],
        ["TGraph", "item2"],
        ["TNamed", "called"],
    ]
    counts = np.histogram(a[:200], 4)[0]
    for kind in "CSIFD":
        assert found[f"h{kind}"] == [f"TH1{kind}", ["chosen", [0, *counts.tolist(), 0]]]
        assert found[f"h2{kind}"][0] == f"TH2{kind}"
        assert sum(found[f"h2{kind}"][1][1]) == 500
    for name, histogram in (("profile2", flat), ("profile3", cube)):
        view = histogram.view(flow=True)
        entries = view["sum_of_weights" if name == "profile3" else "count"].T.reshape(-1)
        means = np.where(entries > 0, view["value"].T.reshape(-1), 0)
        assert found[name][0] == {"profile2": "TProfile2D", "profile3": "TProfile3D"}[name]
        np.testing.assert_allclose(found[name][1][0], means, rtol=1e-12)
        np.testing.assert_allclose(found[name][1][1], entries, rtol=1e-12)
    assert found["settings"][1] == "5 2.5 1 käse 1 2 7 1.5 -3"
    with uproot.open(path) as file:
        assert file["asymmetric"].errors("high", "y").tolist() == high.tolist()
        assert file["settings"].member("label") == "käse"
    with sapwood.open(path) as file:
        read = file["settings"]
        assert (read.classname, read.class_version) == ("Settings", 3)
        assert read.member("inner").member("n") == 7
        assert list(read.member("steps")) == [1.0, 2.0]
        assert file["list"][1] == "two"
        assert file["graph"].values("y").tolist() == y.tolist()
