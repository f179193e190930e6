"""Programs that tests start as forks (`tests/support/forks.py`) are like programs that start as usual."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forks import STARTS, Popen, forking

pytestmark = pytest.mark.usefixtures("forked_starts")
TOLD = """
import json, os, sys
found = {"arguments": sys.argv, "path": sys.path[0], "folder": os.getcwd(), "text": sys.stdin.read()}
found |= {"parent": os.getppid(), "imported": "numpy" in sys.modules, "sapwood": "sapwood" in sys.modules}
print(json.dumps({**found, "variables": sorted(os.environ)}))
print("at the end", file=sys.stderr)
"""


def test_a_fork_has_what_it_is_given(tmp_path: Path) -> None:
    said: list[dict[str, object]] = []
    for popen in (STARTS, Popen):
        with popen(
            [sys.executable, "-c", TOLD, "a b", "ü"], cwd=tmp_path, env={**os.environ, "ONLY_HERE": "1"}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as process:  # fmt: skip
            printed, errors = process.communicate("some text\nand more")
        assert (process.returncode, errors) == (0, "at the end\n")
        said.append(json.loads(printed))
    usual, forked = said
    assert usual.pop("imported") is False and forked.pop("imported") is True
    assert forked == usual and usual["parent"] == os.getpid() and usual["sapwood"] is False
    assert usual["arguments"] == ["-c", "a b", "ü"] and usual["text"] == "some text\nand more"


@pytest.mark.parametrize(
    ("program", "code"),
    [("raise SystemExit(7)", 7), ("import os; os.abort()", -6), ("1 / 0", 1), ("print('a'); open('none')", 1)],
)
def test_a_fork_ends_as_its_program_does(program: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    for words in (["-c", program], ["program.py"], ["-m", "program"]):
        done = [
            subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True) for _ in range(2)
        ]
        assert [(one.returncode, one.stdout) for one in done] == [(code, "a\n" * program.startswith("print"))] * 2
        assert all(("Traceback" in one.stderr) == (code == 1) for one in done)


def test_a_fork_is_a_child_that_can_be_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    assert type(process) is Popen and process.poll() is None
    begin = time.monotonic()
    process.terminate()
    assert process.wait(30) == -15 and time.monotonic() - begin < 30


def test_processes_start_as_usual_after_a_test_file() -> None:
    with forking():
        assert subprocess.Popen is Popen
    assert subprocess.Popen is STARTS
    subprocess.Popen = Popen  # for the other tests of this file


@pytest.mark.usefixtures("fresh_starts")
def test_tests_of_imports_start_as_usual() -> None:
    assert subprocess.Popen is STARTS
    done = subprocess.run(
        [sys.executable, "-c", "import sys; print('numpy' in sys.modules)"], capture_output=True, text=True
    )
    assert done.stdout == "False\n"
