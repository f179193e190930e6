"""ROOT as judge of expressions: numbers, lists and arrays of fixed size are combined as in `TTree::Draw`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]

JUDGE = """
import json, sys
import ROOT
file = ROOT.TFile(sys.argv[1])
tree = file.Get("t")
found = []
for expression, cut in json.load(sys.stdin):
    count = tree.Draw(expression, cut, "goff")
    found.append([[tree.GetV1()[place], tree.GetW()[place]] for place in range(count)])
print("FOUND", json.dumps(found))
"""

EXPRESSIONS = [
    "x * w", "w - x", "hypot(x, w)", "x < w", "m * x", "m * u", "u - m", "m + u * x", "w * w", "v * x", "(x > 2) * w",
    "(m > 4) && (u > 0)", "(u > 0) && (x > 1)",
]  # fmt: skip
WEIGHTED = [("w", "x"), ("x", "w"), ("m", "u"), ("u * x", "x > 1"), ("v", "x")]
"""Values and weights."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("expressions") / "t.root"
    with sapwood.recreate(path) as file:
        file.mktree("t", {
            "x": np.arange(3) * 1.5, "w": np.arange(9.0).reshape(3, 3) * 5 % 7, "u": np.arange(6.0).reshape(3, 2) - 2,
            "m": np.arange(18.0).reshape(3, 2, 3) * 5 % 11, "v": ak.Array([[1.0, 2.0], [], [3.0, 4.0, 5.0]]),
        })  # fmt: skip
    return path


def test_expressions_have_the_values_of_root(root_python: Path, path: Path) -> None:
    drawn = [(expression, "") for expression in EXPRESSIONS] + WEIGHTED
    command = [root_python, "-W", "ignore", "-c", JUDGE, path]
    done = subprocess.run(command, input=json.dumps(drawn), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    wanted = [np.array(rows) for rows in json.loads(done.stdout.rpartition("FOUND ")[2])]
    with sapwood.open(f"{path}:t") as tree:
        for expression, rows in zip(EXPRESSIONS, wanted, strict=False):
            for library in ("ak", "np"):
                found = tree.arrays([expression], library=library, how=list)[0]
                steps = [step for (step,) in tree.iterate([expression], step_size=2, library=library, how=list)]
                for one in ([found], steps):
                    flat = np.concatenate([ak.to_numpy(ak.ravel(ak.Array(list(part)))) for part in one])
                    assert np.allclose(flat, rows[:, 0]), expression
        for (value, weight), rows in zip(WEIGHTED, wanted[len(EXPRESSIONS) :], strict=True):
            axis = hist.axis.Regular(11, -2.25, 12.25)
            drawn_by_root = hist.Hist(axis, storage=hist.storage.Weight()).fill(rows[:, 0], weight=rows[:, 1])
            for storage in (hist.storage.Weight(), hist.storage.Unlimited()):  # the engine does not have the latter
                found = tree.hist(value, axis, weight=weight, storage=storage)
                assert np.allclose(found.values(flow=True), drawn_by_root.values(flow=True)), (value, weight)
