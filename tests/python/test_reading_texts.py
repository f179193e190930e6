"""Lists, descriptions and results that users name and that are no texts, or never end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.storage import texts

RUN = """
import contextlib, io, json, resource, shlex, sys
from sapwood.cli import main

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    for line in sys.stdin.read().splitlines():
        err = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
            code = main(shlex.split(line))
        print(json.dumps([line, code, err.getvalue()]))
"""
LINES = [
    "lab compare {} {}",
    "lab trend {} {} -o out",
    "lab export {} -o out.prom",
    "merge o.root @{}",
    "hadd -Ltype SkipListed -L {} o.root a.root",
    "run task.py -i @{} -o out",
    "run task.py -i {}.json -o out",
    "run task.py -i a.root -o out --site {}",
    "lab predict {} -o out",
    "advise a.root --used {}",
]


@pytest.mark.parametrize("name", ["zero", "binary", "latin"])
def test_what_is_no_text_is_an_error(tmp_path: Path, name: str) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mktree("t", {"n": np.arange(10)})
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "binary").write_bytes((tmp_path / "a.root").read_bytes())
    (tmp_path / "latin").write_bytes("été".encode("latin-1") * 10)
    (tmp_path / f"{name}.json").symlink_to(name)
    task = "from sapwood.train import Task\nclass C(Task):\n    branches = ['n']\n    def process(self, e): return {}\n"
    (tmp_path / "task.py").write_text(task)
    (tmp_path / "run.py").write_text(RUN)
    done = subprocess.run(
        [sys.executable, "run.py"], cwd=tmp_path, input="\n".join(line.replace("{}", name) for line in LINES),
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ends = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(ends) == len(LINES)
    for line, code, err in ends:
        assert code in (1, 2), (line, err)
        assert "Traceback" not in err, line
        assert name in err, (line, err)


def test_texts_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"a\r\nb\rc\n" * 100)
    assert texts.read_text(path) == path.read_text()
    monkeypatch.setattr(texts, "_MOST", 100)
    with pytest.raises(sapwood.LimitError, match=r"long\.txt is not read: it has more than 100 bytes"):
        texts.read_text(path)
