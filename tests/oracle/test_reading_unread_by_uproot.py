"""Branches that uproot cannot turn into arrays: sapwood reads them, and ROOT agrees with the values."""

from __future__ import annotations

import json
import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from agreement import CannotJudgeError, difference, numbered, part_difference

import sapwood
from sapwood.errors import SapwoodError

pytestmark = [pytest.mark.oracle, pytest.mark.corpus, pytest.mark.timeout(900)]

RECIPE = Path(__file__).parent.parent / "recipes" / "branch_objects.py"
TREES = ("TTree", "TNtuple", "TNtupleD")
# Classes that ROOT generates and compiles from the file first, because it crashes or gives up without.
COMPILED = ("std-bitset.root", "std-containers-split00.root", "std-map-split0.root")
# Shares of the branches that hold data: read, and of these, judged by ROOT. They only ever go up.
READ = 0.99
JUDGED = 0.985
Top = tuple[str, str, int]


class Branch:
    """A branch that the corpus' expected values hold an error for."""

    def __init__(self, file: str, key: str, path: str, branch: Any) -> None:
        self.file, self.key, self.path = file, key, path
        chain = [branch]
        while not chain[0].top_level:
            chain.insert(0, chain[0].parent)
        self.names = [b.name for b in chain]
        self.places = [b.parent.branches.index(b) for b in chain]
        self.top: Top = (file, key, self.places[0])
        self.unordered = "unordered" in branch.cpp_class
        self.values: list[Any] | None = None
        self.error = ""
        self.verdict = ""

    def __str__(self) -> str:
        return f"{self.file} {self.key} {self.path}"


def unread(corpus: Path) -> list[Branch]:
    """Return the branches that hold data (baskets of their own) and that uproot cannot read."""
    expected = json.loads((corpus / "expected.json").read_text())
    found = []
    for name, file in sorted(expected.items()):
        trees = {key: tree for key, tree in file.get("trees", {}).items() if file["keys"][key] in TREES}
        if not any(isinstance(value, dict) for tree in trees.values() for value in tree["branches"].values()):
            continue
        with sapwood.open(corpus / "files" / name) as opened:
            for key, wanted in trees.items():
                tree = opened[key]
                listed: set[str] = set()
                for index, native in enumerate(tree.native.branches):
                    branch = tree.branch_at(index)
                    path = branch.path_in(tree)
                    if path in listed or not isinstance(wanted["branches"].get(path), dict):
                        continue
                    listed.add(path)
                    if branch.is_group or not holds_bytes(corpus / "files" / name, native):
                        continue
                    entry = Branch(name, key, path, branch)
                    try:
                        entry.values = ak.to_list(branch.array())
                    except SapwoodError as error:
                        entry.error = f"{type(error).__name__}: {error}".splitlines()[0]
                    found.append(entry)
    return found


def holds_bytes(path: Path, native: Any) -> bool:
    """Whether any basket has bytes of values: `fLast`, at the end of its header, is beyond the header."""
    with path.open("rb") as file:
        for seek in native.basket_seeks:
            if seek == 0:
                return True  # inside the tree
            file.seek(seek + 14)
            (header,) = struct.unpack(">h", file.read(2))
            file.seek(seek + header - 5)
            if struct.unpack(">i", file.read(4)) != (header,):
                return True
    return False


def ask(python: Path, corpus: Path, folder: Path, requests: list[Any], name: str, compiled: bool) -> list[Any]:
    """Let ROOT answer requests of one file."""
    (folder / f"{name}.requests").write_text(json.dumps(requests))
    command = [python, RECIPE, folder / f"{name}.requests", folder / f"{name}.answers"]
    if compiled:
        (folder / f"{name}.built").mkdir()
        command.append(folder / f"{name}.built")
    with (folder / f"{name}.log").open("w") as log:
        subprocess.run(command, check=True, stdout=log, stderr=log, timeout=600)
    answers = [json.loads(line) for line in (folder / f"{name}.answers").read_text().splitlines()]
    assert len(answers) == len(requests), name
    return answers


@pytest.fixture(scope="module")
def judged(root_python: Path, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Branch]:
    """Return all branches with ROOT's verdict: "equal", "differs: ...", or why there is none."""
    branches = unread(corpus)
    folder = tmp_path_factory.mktemp("verdicts")
    by_file: dict[str, list[Branch]] = {}
    for branch in branches:
        if branch.values is not None:
            by_file.setdefault(branch.file, []).append(branch)

    def of_file(name: str) -> None:
        path = str(corpus / "files" / name)
        tops = list(dict.fromkeys(branch.top for branch in by_file[name]))
        answers = ask(
            root_python, corpus, folder, [[path, key, top, None] for _, key, top in tops], name, name in COMPILED
        )
        whole = dict(zip(tops, answers, strict=True))
        for branch in by_file[name]:
            branch.verdict = verdict(branch, whole[branch.top])
        # What ROOT cannot read as a whole object it may read member by member.
        rest = [b for b in by_file[name] if not decided(b.verdict) and len(b.names) > 1]
        parts = [[path, b.key, b.places[0], b.places[1:]] for b in rest]
        if rest:
            for branch, answer in zip(
                rest, ask(root_python, corpus, folder, parts, f"{name}.parts", False), strict=True
            ):
                branch.verdict = verdict(branch, answer)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(of_file, by_file))
    return branches


def decided(text: str) -> bool:
    return text.startswith(("equal", "differs"))


def verdict(branch: Branch, answer: dict[str, Any]) -> str:
    """Compare the entries that ROOT gave."""
    if "error" in answer:
        return answer["error"].splitlines()[0]
    assert branch.values is not None
    for entry, root in answer["entries"].items():
        try:
            if set(root) == {"leaves"} if isinstance(root, dict) else False:
                found = flat_difference(branch.values[int(entry)], root["leaves"])
            else:
                found = part_difference(branch.names, branch.unordered, branch.values[int(entry)], numbered(root))
        except CannotJudgeError as error:
            return f"{error}; {answer['messages']}".strip("; \n").replace("\n", "; ")
        if found:
            # ROOT tells that it left bytes unread: then it is no judge.
            said = answer["messages"].strip().splitlines()
            return f"ROOT: {said[0]}" if said else f"differs: entry {entry}: {found}"
    return "equal" if answer["entries"] else "no entries"


def flat_difference(ours: Any, leaves: list[list[float]]) -> str | None:
    """Compare the numbers of all leaves, end to end."""
    flat: list[Any] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, str):
            value = list(value.encode("latin-1"))
        if isinstance(value, (list, tuple)):
            for item in value:
                walk(item)
        else:
            flat.append(value)

    walk(ours)
    return difference(flat, [item for leaf in leaves for item in leaf])


def test_values_are_those_of_root(judged: list[Branch], show: Callable[[str], None]) -> None:
    read = [b for b in judged if b.values is not None]
    equal = [b for b in read if b.verdict == "equal"]
    differ = [b for b in read if b.verdict.startswith("differs")]
    silent = [b for b in read if not decided(b.verdict)]
    lines = [
        "branches that uproot cannot read and that hold data, by file",
        f"{'file':42} {'hold data':>9} {'read':>6} {'equal':>6} {'differ':>6} {'ROOT cannot':>11}",
    ]
    for name in [*dict.fromkeys(b.file for b in judged), ""]:
        rows = [[b for b in some if name in ("", b.file)] for some in (judged, read, equal, differ, silent)]
        counts = [len(row) for row in rows]
        lines.append(f"{name or 'all':42} {counts[0]:9} {counts[1]:6} {counts[2]:6} {counts[3]:6} {counts[4]:11}")
    causes = Counter(f"{b.file}: {b.verdict[:150]}" for b in silent)
    show("\n".join(lines + [f"  {count} × {why}" for why, count in causes.most_common()]))
    assert not differ, f"{len(differ)} differ\n" + "\n".join(f"{b}: {b.verdict[:300]}" for b in differ)
    assert len(read) >= READ * len(judged), f"{len(read)} of {len(judged)} read"
    assert len(equal) >= JUDGED * len(read), f"ROOT agrees with {len(equal)} of {len(read)}"


def test_what_is_refused_is_explained(judged: list[Branch]) -> None:
    page = (RECIPE.parent.parent.parent / "docs" / "correctness.md").read_text()
    refused = [b for b in judged if b.values is None]
    assert all(b.error.startswith(("UnsupportedError: ", "CorruptError: ")) for b in refused)
    silent = [str(b) for b in refused if b.file not in page or b.names[-1].split(".")[-1].split("::")[-1] not in page]
    assert not silent, "\n".join(silent)
