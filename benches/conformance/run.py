"""Compares how sapwood, ROOT, uproot and jsroot read the same files; `make conformance` writes the pages.

    run.py --root .venv-oracle/bin/python --jsroot build/jsroot --files FOLDER --keep

Types: ROOT and sapwood write each type as a tree and as an RNTuple, a file each, and the values of every reader are
compared with those that were written. Files: the columns (branches or fields) and objects that each reader can read in
real files, up to the first hundred entries, by the version of ROOT that wrote them. Faults: scripts that show faults of
other readers. A reader that is not given is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from cases import CASES
from faults import READ, Seen, see
from known import CAUSES, FAULTS, NOT_WRITTEN
from readers import ENTRIES, HERE, MEMORY, SECONDS, Reader, agrees, write_with_sapwood

TOP = HERE.parent.parent
PAGE = TOP / "docs" / "conformance.md"
OTHERS = TOP / "docs" / "other-readers.md"
READERS = ("sapwood", "ROOT", "uproot", "jsroot")
FORMATS = {"tree": "TTree", "ntuple": "RNTuple"}


def build_classes(python: str, folder: Path) -> None:
    """Compile the classes of the cases with their dictionary."""
    find = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('ROOT').origin).parent)"
    root = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    dictionary = [f"{root}/bin/rootcling", "-f", "dict.cxx", "-rml", "libtypes.so", "-rmf", "libtypes.rootmap"]
    subprocess.run([*dictionary, f"-I{HERE}", "types.h", f"{HERE}/linkdef.h"], cwd=folder, check=True)
    compile_ = ["g++", "-O0", "-std=c++20", "-w", "-fPIC", "-shared", "-I.", f"-I{HERE}", f"-I{root}/include"]
    libraries = [f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-lCore", "-lRIO", "-lTree", "-lPhysics"]
    subprocess.run([*compile_, "-o", "libtypes.so", "dict.cxx", *libraries], cwd=folder, check=True)


# Types.


class Types(NamedTuple):
    """The rows of the three tables of types, and the types that sapwood did not read."""

    rows: list[str]
    unwritten: list[str]
    faults: list[str]
    ours: list[str]
    read: int


def _write_with(root: Reader, folder: Path) -> dict[tuple[str, int], str]:
    """Write each type with ROOT; return why those that are missing were not written."""
    errors: dict[tuple[str, int], str] = {}
    for number, case in enumerate(CASES):
        for kind in FORMATS:
            template = case.root_tree if kind == "tree" else case.root_ntuple
            if not template.startswith("in_"):
                errors[kind, number] = template
                continue
            path = folder / f"ROOT-{kind}-{number}.root"
            got = root.ask({"path": str(path), "write": kind, "case": number})
            if got.get("answer") != "":
                errors[kind, number] = f"says: {got.get('said') or got.get('error') or got.get('answer')}"
                path.unlink(missing_ok=True)
    root.close()
    return errors


def types(readers: Sequence[Reader], folder: Path) -> Types:
    """Write and read all types."""
    root = next((one for one in readers if one.name == "ROOT"), None)
    unwritten = {"sapwood": write_with_sapwood(folder)}
    if root is not None:
        unwritten["ROOT"] = _write_with(root, folder)
    made = Types([], [], [], [], 0)
    reasons: dict[str, list[str]] = defaultdict(list)
    read = 0
    for number, case in enumerate(CASES):
        cells = []
        for kind, name in FORMATS.items():
            for writer in ("ROOT", "sapwood"):
                path = folder / f"{writer}-{kind}-{number}.root"
                if not path.exists():
                    why = unwritten.get(writer, {}).get((kind, number), "not tried").replace(f"{folder}/", "")
                    reasons[_cell(_explained(case.name, name, writer, why))].append(f"`{case.name}` ({name}, {writer})")
                    cells.append("–")
                    continue
                marks = []
                for reader, got in _ask(readers, {"path": str(path), "case": number, "kind": kind}):
                    read += 1
                    if "answer" in got and agrees(got["answer"], case, case.near if kind == "ntuple" else 0):
                        continue
                    what = got["error"] if "error" in got else f"gives {json.dumps(got['answer'])[:120]}"
                    marks.append(f"{'error' if 'error' in got else 'other'}: {reader.name}")
                    what = _cell(what.replace(f"{folder}/", ""))
                    made.faults.append(f"| `{case.name}` | {name} of {writer} | {reader.name} | {what} |")
                    if reader.name == "sapwood":
                        made.ours.append(f"`{case.name}` ({name} of {writer})")
                cells.append("; ".join(marks) or "all")
        made.rows.append(f"| `{case.name}` | {' | '.join(cells)} |")
    made.unwritten.extend(f"| {', '.join(which)} | {why} |" for why, which in reasons.items())
    return made._replace(read=read)


def _ask(readers: Sequence[Reader], request: dict[str, Any]) -> list[tuple[Reader, dict[str, Any]]]:
    """Ask all readers at the same time."""
    with ThreadPoolExecutor(len(readers)) as pool:
        return list(zip(readers, pool.map(lambda reader: reader.ask(request), readers), strict=True))


def _explained(case: str, kind: str, writer: str, why: str) -> str:
    """Return the reason why a type is not written, with its known cause."""
    for pattern, text in NOT_WRITTEN:
        if re.search(pattern, f"{writer} {kind} {case}: {why}"):
            return text
    return f"{writer} {why}" if why.startswith("says: ") else why


def _plain(text: str) -> str:
    """Return text without the addresses and folders that differ from run to run."""
    return re.sub(r"(file://)?/[\w./-]+/([\w.-]+)", r"\2", re.sub(r" at 0x[0-9a-f]+", "", text))


def _cell(text: str) -> str:
    parts = _plain(text).split("`")
    parts[::2] = [
        part.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").replace("[", "\\[") for part in parts[::2]
    ]
    return "`".join(parts).replace("|", "\\|") if len(parts) % 2 else _cell(text.replace("`", "'"))


# Files.


class Files(NamedTuple):
    """The rows of the tables of files."""

    rows: list[str]
    kinds: list[str]
    heads: list[str]
    less: list[str]
    died: list[str]
    ours: list[str]


KINDS = (
    ("RNTuple: all types", r"^RNTuple"),
    ("`Float16_t`, `Double32_t`", r"Float16_t|Double32_t"),
    ("`TClonesArray` and its members", r"TClonesArray"),
    ("pointers", r"\*(?<!char\*)$|unique_ptr|\*>"),
    ("containers in containers", r"<.*(vector|map|set|list|deque|RVec)<"),
    ("`std::vector` of numbers or `bool`",
     r"(vector|RVec)<\s*(unsigned )?(bool|float|double|\w*int\w*|short|long|char)\s*>"),
    ("`std::vector` of texts", r"vector<.*(string|TString)\s*>"),
    ("other containers of the standard library", r"(map|set|list|deque|array|pair|bitset|tuple)<"),
    ("`std::vector` of objects", r"(vector|RVec)<"),
    ("texts", r"string|TString|char\*"),
    ("leaf lists", r"\{|struct"),
    ("counted arrays, and numbers of split containers", r"\[\]"),
    ("fixed arrays", r"\[\d"),
    ("numbers", r"^TTree (unsigned )?(bool|float|double|u?int\w*|short|long|char|[UL]*\w*_t)$"),
    ("objects of classes", r""),
)  # fmt: skip
"""Types of columns, each by a pattern of its name; the first that fits counts."""
EPOCHS = ((4, 0, "4"), (5, 0, "5"), (6, 0, "6.00 to 6.08"), (6, 10, "6.10 to 6.18"), (6, 19, "6.19 to 6.28"),
          (6, 30, "6.30 to 6.38"), (6, 40, "6.40"))  # fmt: skip


def _version(path: Path) -> str:
    number = int.from_bytes(path.read_bytes()[4:8], "big") % 1_000_000
    return f"{number // 10000}.{number // 100 % 100:02d}"


def _epoch(version: str) -> str:
    major, minor = map(int, version.split("."))
    return [name for first, second, name in EPOCHS if (major, minor) >= (first, second)][-1]


def _kind(name: str) -> str:
    return next(kind for kind, pattern in KINDS if re.search(pattern, name))


def files(readers: Sequence[Reader], folders: Iterable[Path]) -> Files:
    """Read all files."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    number: Counter[str] = Counter()
    kinds: dict[str, dict[str, Counter[bool]]] = defaultdict(lambda: defaultdict(Counter))
    deaths: dict[tuple[str, str], list[str]] = defaultdict(list)
    made = Files([], [], [], [], [], [])
    # Absolute, because the child with ROOT has another working directory.
    for path in sorted(path for folder in folders for path in folder.resolve().rglob("*.root")):
        version = _version(path)
        number[version] += 1
        print(path.name, file=sys.stderr)
        for reader, got in _ask(readers, {"path": str(path)}):
            answer = got.get("answer", {"read": 0, "failed": 0, "reasons": {"the file": got.get("error", "")}})
            count = counts[version][reader.name]
            count["read"] += answer["read"]
            count["whole"] += "answer" in got and not answer["failed"]
            if reader.name == "sapwood":
                for name, good in answer.get("kinds", ()):
                    kinds[_kind(name)][_epoch(version)][good] += 1
            if got.get("died"):
                deaths[reader.name, got["error"]].append(path.name)
            if answer["reasons"]:
                name, why = next(iter(answer["reasons"].items()))
                why = _cell(f"{answer['failed'] or 'all'}; {name}: {why}".replace(f"{path.parent}/", ""))
                made.less.append(f"| `{path.name}` | {reader.name} | {why} |")
                if reader.name == "sapwood":
                    made.ours.append(f"`{path.name}`")
    for version in sorted(counts, key=lambda text: [int(part) for part in text.split(".")]):
        cells = [f"{counts[version][one.name]['whole']} ({counts[version][one.name]['read']:,})" for one in readers]
        made.rows.append(f"| {version} | {number[version]} | {' | '.join(cells)} |")
    sums = [sum((counts[version][one.name] for version in counts), Counter[str]()) for one in readers]
    whole = [f"{one['whole']} ({one['read']:,})" for one in sums]
    made.rows.append(f"| all | {sum(number.values())} | {' | '.join(whole)} |")
    made.heads.extend(name for _, _, name in EPOCHS if any(_epoch(version) == name for version in number))
    for kind, _ in KINDS:
        if kind in kinds:
            cells = [_of(kinds[kind][epoch]) for epoch in made.heads]
            made.kinds.append(f"| {kind} | {' | '.join(cells)} |")
    for (reader, why), names in sorted(deaths.items()):
        cause = next((text for pattern, text in CAUSES if re.search(pattern, f"{reader} {why}")), "not known")
        listed = ", ".join(f"`{name}`" for name in names)
        made.died.append(f"| {reader} | {_cell(why)} | {listed} | {cause} |")
    return made


def _of(count: Counter[bool]) -> str:
    if not count:
        return ""
    return f"{count[True]:,}" if not count[False] else f"{count[True]:,} of {count.total():,}"


# Pages.

OF_TYPES = """## Types

ROOT and sapwood wrote each type as a tree and as an RNTuple, with three values.

- *all*: every reader returned the values that were written. Otherwise, the cell names the readers that raised an error
  or returned other values.
- A dash: the writer did not write this type; the next table has the reasons.
- *split*: each member has a separate branch. RNTuples always have a field for each member.
- Numbers with few bits (`[-8,8,12]`) in RNTuples may differ by 0.01, because they are multiplied by a factor that is
  not a power of two.

Only one version of ROOT writes these files. [Files](#files) has files of older versions.

| type | TTree, by ROOT | TTree, by sapwood | RNTuple, by ROOT | RNTuple, by sapwood |
|---|---|---|---|---|
"""
OF_KINDS = """### Types in these files

The table has the number of columns of trees and RNTuples that sapwood read without an error, by type and by the version
of ROOT that wrote the file.

"""
OF_FILES = f"""## Files

The table has public files, by the version of ROOT in their headers. For each reader, it has the number of files of
which every column (first {ENTRIES} entries) and every object was read without an error, and in brackets the number of
columns and objects that were read. Values are not compared. Readers divide objects into columns in different ways, so
the numbers in brackets differ. If a process died, or gave no answer in {SECONDS:.0f} s of processor time, its file
counts as not read. Python readers and ROOT have {MEMORY >> 30} GiB of address space.

"""
OF_LESS = """### Files that were not read as a whole

The last column has the number of columns and objects that were not read, and the first error.
[Where processes died](other-readers.md#where-processes-died) has the causes of deaths.

| file | reader | not read |
|---|---|---|
"""
OF_DEATHS = """## Where processes died

The table has public files that ended the process of a reader, or with which it did not end. "Where" has the innermost
functions (`A < B`: B called A), without those of the C and C++ libraries. Most of these files have classes of
experiments without dictionaries, which ROOT emulates.

| reader | where | files | cause, as far as the functions show |
|---|---|---|---|
"""


def _ours(types_: Types, real: Files) -> str:
    """Return the cases in which sapwood fails."""
    text = f"Sapwood {_list(types_.ours, 'gives the values of all types that were written', 'does not read')}."
    if real.rows:
        text += f" It {_list(real.ours, 'reads all files as a whole', 'does not read as a whole')}"
        text += "; [the table](#files-that-were-not-read-as-a-whole) has the errors." if real.ours else "."
    return text


def _list(names: Sequence[str], none: str, some: str) -> str:
    return f"{some} {', '.join(names)}" if names else none


def page(names: Sequence[str], versions: str, types_: Types, real: Files) -> str:
    """Return the page of types and files."""
    lines = [
        f"# Conformance\n\nMade by `make conformance`; do not edit. {versions}\n",
        "[Other readers](other-readers.md) describes the faults of ROOT, uproot and jsroot.\n",
        f"{_ours(types_, real)}\n",
        OF_TYPES.rstrip(),
        *types_.rows,
        "\n### What is not written, and why\n\n| type | reason |\n|---|---|",
        *types_.unwritten,
        "\n### What the readers said\n\n| type | file | reader | error or other values |\n|---|---|---|---|",
        *types_.faults,
    ]
    if real.rows:
        lines += [
            f"\n{OF_FILES.rstrip()}\n\n| ROOT | files | {' | '.join(names)} |\n|---|---:|{'---:|' * len(names)}",
            *real.rows,
            f"\n{OF_KINDS.rstrip()}\n\n| type | {' | '.join(real.heads)} |\n|---|{'---:|' * len(real.heads)}",
            *real.kinds,
            f"\n{OF_LESS.rstrip()}",
            *real.less,
        ]
    return "\n".join(lines) + "\n"


OF_OTHERS = """# Faults of other readers

Made by `make conformance`, which runs each script again; do not edit. {versions}

These faults were found by comparing the readers ([Conformance](conformance.md), [Correctness](correctness.md)). Each
has a script that shows it, the expected result and the actual result, so that it can be reported. The public files are
in scikit-hep-testdata, in the tests of go-hep, or in the validation files of RNTuple. Crashes of ROOT with damaged
files are in [Correctness](correctness.md#damaged-files-beside-root-and-uproot). {unseen}
"""


def others(versions: str, seen: Sequence[Seen], died: Sequence[str]) -> str:
    """Return the page of faults."""
    gone = [one for one in seen if not one.there]
    unseen = f"{len(gone)} faults of earlier versions were not seen again and are left out." if gone else ""
    lines = [OF_OTHERS.format(versions=versions, unseen=unseen).strip()]
    for reader in ("ROOT", "uproot", "jsroot"):
        lines.append(f"\n## {reader}")
        if reader == "jsroot":
            lines.append(f"\n`node read.mjs FILE NAME COLUMN` runs this script:\n\n```js\n{READ.strip()}\n```")
        lines += [_described(one) for one in seen if one.fault.reader == reader and one.there]
    if died:
        lines += [f"\n{OF_DEATHS.rstrip()}", *died]
    return "\n".join(lines) + "\n"


def _described(one: Seen) -> str:
    fault = one.fault
    text = [f"\n### {reader_title(fault.title)}\n"]
    if fault.note:
        text.append(f"{fault.note}\n")
    if fault.files:
        text.append(f"The script reads the public file {', '.join(f'`{name}`' for name in fault.files)}.\n")
    if fault.make:
        text.append(f"The file is written with sapwood:\n\n```python\nimport sapwood\n{fault.make.strip()}\n```\n")
    if fault.root:
        text.append(f"The file is written with ROOT:\n\n```python\nimport ROOT\n{fault.root.strip()}\n```\n")
    if fault.reader == "jsroot":
        text.append(f"```sh\nnode read.mjs {fault.code}\n```\n")
    else:
        text.append(f"```python\n{fault.code.strip()}\n```\n")
    got = _plain(one.output)[:300].replace("`", "'")
    text.append(f"Expected: {fault.expected}. Result: `{got}`.")
    return "\n".join(text)


def reader_title(title: str) -> str:
    """Return the title of a fault as a heading."""
    return title[0].upper() + title[1:]


ANEW = {("types", PAGE): "\n## Files\n", ("faults", OTHERS): "\n## Where processes died\n"}
"""Parts that can be kept alone: the heading from which the old page stays, up to its end."""


def _with_new_part(old: str, new: str, until: str) -> str:
    """Return a page with the new text up to a heading, and the old text from there on."""
    rest = old.partition(until)
    about_files = re.search(r" It (does not read as a whole|reads all files).*", old)
    begin = new.partition(until)[0]
    if about_files and "\n## Types\n" in begin:
        head, types_, tail = begin.partition("\n\n## Types\n")
        begin = f"{head.rstrip()}{about_files[0]}{types_}{tail}"
    return f"{begin.rstrip()}\n{rest[1]}{rest[2]}"


def main() -> None:
    """Read everything and print or keep the pages."""
    parser = argparse.ArgumentParser(description="Compare what readers read of the same files.")
    parser.add_argument("--root", metavar="PYTHON", help="a Python with ROOT and uproot")
    parser.add_argument("--jsroot", type=Path, help="a folder in which `npm install jsroot` was run")
    parser.add_argument(
        "--files", type=Path, action="append", default=[], metavar="FOLDER", help="public files; may be repeated"
    )
    parser.add_argument("--only", choices=["types", "files", "faults"], help="run this part alone")
    parser.add_argument("--keep", action="store_true", help=f"write {PAGE.relative_to(TOP)}, {OTHERS.relative_to(TOP)}")
    chosen = parser.parse_args()
    python = str(Path(chosen.root).absolute()) if chosen.root else ""
    child = str(HERE / "readers.py")
    types_, real, seen = Types([], [], [], [], 0), Files([], [], [], [], [], []), []
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        folder = Path(scratch)
        commands = {"sapwood": [sys.executable, child, "sapwood"]}
        if python:
            commands |= {name: [python, child, name] for name in ("ROOT", "uproot")}
            if chosen.only in (None, "types"):
                build_classes(python, folder)
        if chosen.jsroot:
            script = chosen.jsroot / "conformance.mjs"
            script.write_text((HERE / "jsroot.mjs").read_text())
            commands["jsroot"] = ["node", str(script)]
        names = [name for name in READERS if name in commands]

        def start(part: str) -> list[Reader]:
            place = folder / part
            place.mkdir()
            readers = [Reader(name, [*commands[name], str(place)], place) for name in names]
            for reader in readers:
                stack.callback(reader.close)
            return readers

        parts: dict[str, Callable[[], Any]] = {"types": lambda: types(start("types"), folder)}
        if chosen.files:
            parts["files"] = lambda: files(start("files"), chosen.files)
        if python:
            parts["faults"] = lambda: see(FAULTS, python, chosen.jsroot, chosen.files)
        with ThreadPoolExecutor(len(parts)) as pool:
            going = {name: pool.submit(part) for name, part in parts.items() if chosen.only in (None, name)}
        types_ = going["types"].result() if "types" in going else types_
        real = going["files"].result() if "files" in going else real
        seen = going["faults"].result() if "faults" in going else seen
    told = ", ".join(f"{name} {_release(name, chosen)}" for name in names)
    today = datetime.datetime.now(tz=datetime.timezone.utc).date()
    versions = f"Versions: {told}; {today}."
    pages = {PAGE: page(names, versions, types_, real), OTHERS: others(versions, seen, real.died)}
    for path, text in pages.items():
        if not chosen.keep:
            print(text)
        elif not chosen.only:
            path.write_text(text)
        elif (chosen.only, path) in ANEW:
            path.write_text(_with_new_part(path.read_text(), text, ANEW[chosen.only, path]))


def _release(name: str, chosen: argparse.Namespace) -> str:
    if name == "jsroot":
        found: dict[str, Any] = json.loads((chosen.jsroot / "node_modules" / "jsroot" / "package.json").read_text())
        return found["version"]
    python = sys.executable if name == "sapwood" else chosen.root
    code = (
        "import ROOT; print(ROOT.gROOT.GetVersion())" if name == "ROOT" else f"import {name}; print({name}.__version__)"
    )
    return subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True).stdout.split()[-1]


if __name__ == "__main__":
    main()
