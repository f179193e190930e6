"""What the guide says of objects: its examples run, and the classes it names have the methods it names."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import sapwood
from sapwood.objects.model import Model

ROOT = Path(__file__).parent.parent.parent
GUIDE = (ROOT / "docs" / "guide" / "objects.md").read_text(encoding="utf-8")
STANDARD = ROOT / "tests" / "golden" / "objects" / "standard.root"


def test_examples_run(tmp_path: Path) -> None:
    first, second = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    with sapwood.recreate(tmp_path / "plots.root") as file:
        file["folder/mass"] = np.ones(3), np.linspace(0.0, 1.0, 4)
    exec(first.replace("plots.root", str(tmp_path / "plots.root")), {})
    with sapwood.open(STANDARD.parent / "hidden.root") as file:
        names = {"tree": file["tree"]}
        exec(second, names)
        assert names["arrays"].fields == ["number", "last"]


def test_classes_have_their_methods() -> None:
    """Every method that a line of the table names belongs to an object of one of its classes."""
    lines = re.findall(r"^\| (`.*?) \| (.*?) \|$", GUIDE, re.MULTILINE)
    assert len(lines) == 15
    found = []
    for name in ("standard", "entry_lists", "polygons"):
        with sapwood.open(STANDARD.with_name(f"{name}.root")) as file:
            found += [model for model in file.values() if isinstance(model, Model)]
    for classes, methods in lines:
        patterns = [re.compile(name.replace("*", ".*")) for name in re.findall(r"`(\w+\*?)`", classes)]
        ours = [m for m in found if any(p.fullmatch(re.sub("<.*", "", m.classname)) for p in patterns)]
        assert ours, classes
        for name in re.findall(r"`(\w+)(?:\(|`)", methods):
            if name not in ("str", "to_boost", "hist"):
                assert any(hasattr(model, name) for model in ours), (classes, name)
        if "called like functions" in methods:
            assert all(callable(model) for model in ours)
