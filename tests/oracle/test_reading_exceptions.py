"""Where sapwood and the expected values of the corpus differ, ROOT agrees with sapwood."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import sapwood

pytestmark = [pytest.mark.oracle, pytest.mark.corpus, pytest.mark.timeout(600)]

TESTS = Path(__file__).parent.parent


def test_root_reads_what_sapwood_reads(root_python: Path, corpus: Path, tmp_path: Path) -> None:
    listed = json.loads((TESTS / "corpus" / "exceptions.json").read_text())
    asked = [(e, field, formula) for e in listed for field, formula in e["root"].items()]
    requests = [[str(corpus / "files" / e["file"]), e["key"].split(";")[0], formula] for e, _, formula in asked]
    (tmp_path / "requests.json").write_text(json.dumps(requests))
    recipe = TESTS / "recipes" / "values.py"
    subprocess.run([root_python, recipe, tmp_path / "requests.json", tmp_path / "answers.json"], check=True)
    answers = json.loads((tmp_path / "answers.json").read_text())
    wrong = []
    for (entry, field, formula), root in zip(asked, answers, strict=True):
        with sapwood.open(corpus / "files" / entry["file"]) as file:
            array = file[entry["key"]][entry["name"]].array()
        for part in field.split(".") if field else []:
            array = array[part]
        ours, theirs = np.asarray(ak.flatten(array, axis=None), dtype=np.float64), np.array(root)
        if "mask" in entry:
            ours, theirs = ours.astype(np.int64) & entry["mask"], theirs.astype(np.int64) & entry["mask"]
        if not np.array_equal(ours, theirs, equal_nan=True):
            wrong.append(f"{entry['file']} {formula}: {ours[:5]} of {ours.size}, ROOT {root[:5]} of {len(root)}")
    assert not wrong, "\n".join(wrong)


def test_each_is_explained() -> None:
    listed = json.loads((TESTS / "corpus" / "exceptions.json").read_text())
    page = (TESTS.parent / "docs" / "other-readers.md").read_text()
    assert {e["file"] for e in listed if f"`{e['file']}`" not in page} == set()
