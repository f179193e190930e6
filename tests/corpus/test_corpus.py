"""The corpus of real files: every value that is given is right, and most are given."""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = [pytest.mark.corpus, pytest.mark.timeout(900)]

# Shares of the expected items that must agree, or be exceptions that ROOT has proved. They only ever go up.
SHARES = {"key": 1.0, "branch": 1.0, "histogram": 1.0}
WORKERS = 2
Item = tuple[str, str, str, str]


@pytest.fixture(scope="module")
def checker(corpus: Path) -> ModuleType:
    """Return the corpus' own program."""
    spec = importlib.util.spec_from_file_location("corpus_checker", corpus / "corpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_apart(program: str, path: str, result: str) -> None:
    """Read one file as the corpus' program does; runs in a process of its own."""
    sys.path.insert(0, str(Path(program).parent))
    import corpus

    corpus.one("sapwood", path, result)


@pytest.fixture(scope="module")
def found(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Read every file, each in a process forked from one that has imported sapwood."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["numpy", "awkward", "sapwood"])
    results = tmp_path_factory.mktemp("digests")

    def read(path: Path) -> dict[str, Any]:
        result = results / f"{path.name}.json"
        process = context.Process(target=read_apart, args=(str(corpus / "corpus.py"), str(path), str(result)))
        process.start()
        process.join()
        # The exit code is no witness: with several threads, multiprocessing may lose it.
        if not result.exists():
            return {"error": f"the process ended without a result ({process.exitcode})"}
        return json.loads(result.read_text())

    # The largest first, so that none is left over at the end.
    paths = sorted((corpus / "files").glob("*.root"), key=lambda path: -path.stat().st_size)
    with ThreadPoolExecutor(WORKERS) as pool:
        read_files = dict(zip((path.name for path in paths), pool.map(read, paths), strict=True))
    return dict(sorted(read_files.items()))


@pytest.fixture(scope="module")
def wanted(corpus: Path, checker: ModuleType) -> dict[Item, str]:
    """Return the expected digest of each item."""
    return checker.items(json.loads((corpus / "expected.json").read_text()))


@pytest.fixture(scope="module")
def exceptions() -> dict[Item, dict[str, str]]:
    """Return the items in which sapwood is right against the expected values."""
    listed = json.loads((Path(__file__).parent / "exceptions.json").read_text())
    return {(e["file"], e["kind"], e["key"], e["name"]): e for e in listed}


def test_table(
    corpus: Path,
    checker: ModuleType,
    found: dict[str, Any],
    show: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
) -> None:
    """Show what `corpus.py check` prints."""
    monkeypatch.setattr(checker, "digests", lambda *_: found)
    monkeypatch.setattr(sys, "argv", ["corpus.py", "check", "sapwood", "files", str(corpus / "expected.json"), "0"])
    checker.main()
    show(capsys.readouterr().out)


def test_every_file_opens(found: dict[str, Any]) -> None:
    assert {name: file["error"] for name, file in found.items() if "error" in file} == {}


def test_every_given_value_is_right(
    checker: ModuleType,
    found: dict[str, Any],
    wanted: dict[Item, str],
    exceptions: dict[Item, dict[str, str]],
) -> None:
    got = checker.items(found)
    wrong = []
    for item, value in wanted.items():
        ours = got.get(item)
        if ours is not None and ours != value and exceptions.get(item, {}).get("digest") != ours:
            wrong.append(f"{' '.join(item)}: {ours}, not {value}")
    assert not wrong, f"{len(wrong)} wrong values\n" + "\n".join(wrong)


def test_exceptions_are_still_exceptions(
    checker: ModuleType,
    found: dict[str, Any],
    wanted: dict[Item, str],
    exceptions: dict[Item, dict[str, str]],
) -> None:
    got = checker.items(found)
    stale = [
        item for item, entry in exceptions.items() if got.get(item) != entry["digest"] or wanted[item] == got[item]
    ]
    assert stale == []


def test_refusals_are_errors_of_sapwood(found: dict[str, Any]) -> None:
    """What cannot be read says so with an error that is meant for the user."""
    errors = ("UnsupportedError", "CorruptError", "LimitError", "NotFoundError")
    other = []
    for name, file in found.items():
        for key, tree in file.get("trees", {}).items():
            if "RNTuple" in file["keys"][key]:
                continue
            refused = tree.get("branches", {"": tree}).items()
            texts = {branch: value["error"] for branch, value in refused if isinstance(value, dict)}
            other += [f"{name} {key} {b}: {text}" for b, text in texts.items() if not text.startswith(errors)]
    assert not other, f"{len(other)} other errors\n" + "\n".join(other[:50])


@pytest.mark.parametrize("kind", SHARES)
def test_share(
    checker: ModuleType,
    found: dict[str, Any],
    wanted: dict[Item, str],
    exceptions: dict[Item, dict[str, str]],
    kind: str,
) -> None:
    got = checker.items(found)
    of_kind = {item: value for item, value in wanted.items() if item[1] == kind}
    proved = {item: entry["digest"] for item, entry in exceptions.items()}
    missing = [
        " ".join(item) for item, value in of_kind.items() if got.get(item) not in (value, proved.get(item, value))
    ]
    assert len(missing) <= (1 - SHARES[kind]) * len(of_kind), "\n".join(missing)
