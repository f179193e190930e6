"""Fixtures and hooks of all tests: where the corpus and ROOT are, and a summary of the tests that did not run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest.mark.expression import Expression

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("sapwood", deadline=None)
hypothesis.settings.load_profile("sapwood")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell lets what it starts in the background ignore Ctrl-C, and the programs that tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT_DIR = Path(__file__).resolve().parent.parent


@cache
def corpus_folder() -> Path | None:
    """Give the folder with `corpus.py`, `expected.json` and `files/`, or None."""
    folder = Path(os.environ.get("SAPWOOD_CORPUS") or ROOT_DIR.parent / "shared" / "corpus")
    return folder.resolve() if (folder / "expected.json").is_file() else None


@cache
def oracle_python() -> Path | None:
    """Give a Python interpreter that can import ROOT, or None."""
    python = ROOT_DIR / (os.environ.get("SAPWOOD_ORACLE_PYTHON") or ".venv-oracle/bin/python")
    if not python.is_file():
        return None
    found = subprocess.run([python, "-c", "import importlib.util as u; raise SystemExit(not u.find_spec('ROOT'))"])
    return python if found.returncode == 0 else None


@cache
def peers_folder() -> Path | None:
    """Give the folder with the sources of the reference files' generator, or None."""
    folder = Path(os.environ.get("SAPWOOD_PEERS_SOURCE") or ROOT_DIR.parent / "shared" / "peers")
    return folder.resolve() if (folder / "build.sh").is_file() else None


# Marker: (where it is, how to get it).
NEEDS = {
    "corpus": (corpus_folder, "the corpus of real files: set SAPWOOD_CORPUS, or put it at ../shared/corpus"),
    "oracle": (oracle_python, "a Python with ROOT: make oracle, or set SAPWOOD_ORACLE_PYTHON"),
    "peers": (peers_folder, "the reference files' generator: set SAPWOOD_PEERS_SOURCE, or put it at ../shared/peers"),
}
# Tests that start servers, schedulers or processes. Those, and the tests that assert times, can fail because the
# machine was busy: one that fails is run once more, and the summary shows the failure even if the second run passed.
BUSY = re.compile(r"test_(reading_(remote|s3|xrootd)|tools_(remote|serve)|frames_dask|train_|lab_)")
_left_out: Counter[str] = Counter()


@cache
def _can_select(chosen: str, marks: frozenset[str]) -> bool:
    """Return whether an expression of `-m` is true for a test with some of these marks, or none."""
    expression = Expression.compile(chosen)
    some = [frozenset[str]()]
    for mark in marks:
        some += [one | {mark} for one in some]
    return any(expression.evaluate(lambda name, one=one, **_: name in one) for one in some)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out, without importing them, test files that have no test with the marks that `-m` requires."""
    chosen = config.getoption("markexpr")
    if not chosen or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    marks = re.findall(r"\bmark\.(\w+)", collection_path.read_text(encoding="utf-8"))
    return None if _can_select(chosen, frozenset(mark for mark in marks if mark in chosen)) else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests whose files or programs are absent, and mark those that are repeated after a failure."""
    for item in items:
        if " at 0x" in item.nodeid:  # an address: the names must be the same in all processes that share the tests
            raise pytest.UsageError(f"the name of {item.nodeid} differs between processes: give its parameters ids")
        if BUSY.match(item.path.name) or item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.flaky(reruns=1, reruns_delay=1))
        for name, (find, how) in NEEDS.items():
            if item.get_closest_marker(name) and find() is None:
                item.add_marker(pytest.mark.skip(reason=f"needs {how}"))


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the tests of each marker that were deselected."""
    _left_out.update(name for item in items for name in NEEDS if item.get_closest_marker(name))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the counts to the process that prints the summary, where tests run in several processes."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive the counts. All processes collect the same tests, so the counts are equal."""
    _left_out.update(Counter(node.workeroutput["left out"]) - _left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of tests, first failures, the deselected tests, and every skipped test with its reason."""
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for name, text in report.user_properties:
            if name == "shown" and report.when == "call":
                terminalreporter.write_line(f"\n{report.nodeid}\n{text}")
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.write_line(f"\nFAILED AT FIRST: {report.nodeid}\n{report.longreprtext}", red=True, bold=True)
    for name, count in _left_out.items():
        target = "oracle" if name == "peers" else name
        terminalreporter.write_line(f"left out here: {count} tests marked {name!r} (make {target})")
    skipped = Counter(str(report.longrepr[2]) for report in terminalreporter.getreports("skipped"))
    for reason, count in skipped.items():
        line = f"NOT RUN: {count} tests: {reason.removeprefix('Skipped: ')}"
        terminalreporter.write_line(line, red=True, bold=True)


@pytest.fixture
def show(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    """Give what takes a text to be printed at the end, whichever process the test runs in."""
    return lambda text: record_property("shown", text)


@pytest.fixture(scope="session", autouse=True)
def key_of_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the key that signs checkpoints out of the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_CHECKPOINT_KEY", str(tmp_path_factory.mktemp("key") / "checkpoint.key"))
        yield


@pytest.fixture(scope="module")
def forked_starts() -> Iterator[None]:
    """Start the Python programs of a test file as forks of a process that has imported the third-party packages."""
    from forks import forking

    with forking():
        yield


@pytest.fixture
def fresh_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the programs of a test as usual, in a file that uses `forked_starts`: the test is about imports."""
    import forks

    monkeypatch.setattr(subprocess, "Popen", forks.STARTS)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Give the corpus folder (for tests marked `corpus`)."""
    folder = corpus_folder()
    assert folder is not None
    return folder


@pytest.fixture(scope="session")
def corpus_if_present() -> Path | None:
    """Give the corpus folder, for tests that take its files as further samples."""
    return corpus_folder()


@pytest.fixture(scope="session")
def peers_source() -> Path:
    """Give the folder with the generator's sources (for tests marked `peers`)."""
    folder = peers_folder()
    assert folder is not None
    return folder


@pytest.fixture(scope="session")
def root_python() -> Path:
    """Give the interpreter with ROOT (for tests marked `oracle`); ROOT never enters the tests' own process."""
    python = oracle_python()
    assert python is not None
    return python


@pytest.fixture(scope="session")
def root_folder(root_python: Path) -> Path:
    """Return the folder of ROOT's installation."""
    find = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('ROOT').origin).parent)"
    return Path(subprocess.run([root_python, "-c", find], check=True, capture_output=True, text=True).stdout.strip())


@pytest.fixture
def rootsys(root_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the programs that tests start find ROOT."""
    monkeypatch.setenv("ROOTSYS", str(root_folder))
