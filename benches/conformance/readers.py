"""Child processes that read and write with one library each, and the comparison of their answers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from cases import CASES, Case, Sapwood  # noqa: E402
from stacks import CATCH, frames  # noqa: E402

SECONDS = 60.0
"""Processor time for a file."""
ASLEEP = 90.0
"""Seconds without processor time after which a waiting child is taken to wait forever."""
MEMORY = 8 << 30
ENTRIES = 100
TREES = ("TTree", "TNtuple", "TNtupleD")
NTUPLE = "ROOT::RNTuple"
FOLDERS = ("TDirectory", "TDirectoryFile")
SAME = "same"
"""The answer of a reader that compared the values itself."""
PARTS = [("first", "second"), ("key", "value"), ("0", "1"), ("_0", "_1"), ("0", "1", "2"), ("_0", "_1", "_2")]
"""The names that readers give to the parts of a pair or tuple."""


def normal(value: Any, of: str = "") -> Any:
    """Return a value as lists, texts, numbers and members: readers give maps and pairs in their own forms."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return int(value)
    if "bitset" in of and isinstance(value, list) and len(value) == 10:
        return sum(int(bit) << place for place, bit in enumerate(value))
    if isinstance(value, int):
        return value if abs(value) <= 2**53 else str(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        if value.get("_typename") == "TClonesArray" and "arr" in value:
            return normal(value["arr"], of)
        members = {str(name): normal(one, of) for name, one in value.items() if name != "_typename"}
        for names in PARTS:
            if members.keys() == set(names):
                return [members[name] for name in names]
        lists = members and all(isinstance(one, list) for one in members.values())
        if lists and all(name.rpartition("/")[2].startswith("value.") for name in members):
            # A split collection, member by member.
            names = [name.rpartition("/")[2].removeprefix("value.") for name in members]
            rows = zip(*members.values(), strict=True)
            return [normal(dict(zip(names, row, strict=True)), of) for row in rows]
        if of.startswith(("std::map", "std::unordered_map", "std::multimap")):
            return sorted(([_key(name), one] for name, one in members.items()), key=repr)
        return members
    if isinstance(value, list | tuple | set | frozenset):
        found = [normal(one, of) for one in value]
        pairs = "map" in of and all(isinstance(one, list) and len(one) == 2 for one in found)
        return sorted(found, key=repr) if pairs or ("set<" in of and "vector" not in of) else found
    return value


def _key(name: str) -> Any:
    return int(name) if name.lstrip("-").isdigit() else name


def _member(found: Mapping[str, Any], name: str) -> Any:
    """Return a member of an object: readers put base classes around it or other names before it."""
    if name in found:
        return found[name]
    for key, one in found.items():
        if _last(key) == name:
            return one
    if below := {key: one for key, one in found.items() if re.split(r"[/.]", key)[0] == name}:
        return below
    for one in found.values():
        if isinstance(one, Mapping) and (inner := _member(one, name)) is not None:
            return inner
    return None


def _last(name: str) -> str:
    return re.split(r"[/.]", name)[-1].partition("[")[0]


def _listed(found: Mapping[str, Any], wanted: list[Any]) -> Any:
    """Return the members of a split collection as its items, or those of a pair as a list."""
    members = {_last(name): one for name, one in found.items()}
    names = next((names for names in PARTS if members.keys() == set(names)), None)
    columns = [members[name] for name in names] if names else list(members.values())
    if all(isinstance(one, list) for one in columns) and (not wanted or isinstance(wanted[0], list | Mapping)):
        rows = zip(*columns, strict=True)
        return [list(row) if names else dict(zip(members, row, strict=True)) for row in rows]
    return columns if names else found


def covers(found: Any, wanted: Any, near: float = 0) -> bool:
    """Whether the members and values that were written are in what was found; further members do not matter."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(covers(_member(found, k), one, near) for k, one in wanted.items())
    if isinstance(wanted, list):
        if isinstance(found, Mapping):
            found = _listed(found, wanted)
        same = isinstance(found, list) and len(found) == len(wanted)
        return same and all(covers(a, b, near) for a, b in zip(found, wanted, strict=True))
    if near and isinstance(wanted, int | float) and isinstance(found, int | float):
        return abs(found - wanted) <= near
    return type(found) in (int, float) and found == wanted if isinstance(wanted, int | float) else found == wanted


def agrees(found: Any, case: Case, near: float = 0) -> bool:
    """Whether what a reader found is what was written."""
    if found == SAME:
        return True
    wanted = [normal(value, case.cpp) for value in case.values]
    return covers([normal(value, case.cpp) for value in found] if isinstance(found, list) else found, wanted, near)


# In the children: each answers requests of one line of JSON each.


class Count:
    """The numbers of objects and columns of a file that were and were not read, with reasons and types of columns."""

    def __init__(self) -> None:
        self.read = self.failed = 0
        self.reasons: dict[str, str] = {}
        self.kinds: list[tuple[str, bool]] = []

    def attempt(self, name: str, read: Callable[[], object], kind: str = "") -> None:
        """Read something."""
        try:
            read()
        except Exception as error:  # noqa: BLE001 - whatever a reader raises is its answer
            self.fail(name, f"{type(error).__name__}: {error}")
            self.kinds.append((kind, False))
        else:
            self.read += 1
            self.kinds.append((kind, True))

    def fail(self, name: str, why: str) -> None:
        """Note that something was not read."""
        self.failed += 1
        self.reasons[name] = " ".join(why.split())[:160]

    def answer(self) -> dict[str, Any]:
        """Return all that as JSON."""
        kinds = [one for one in self.kinds if one[0]]
        return {"read": self.read, "failed": self.failed, "reasons": self.reasons, "kinds": kinds}


def column_values(column: Any) -> Any:
    """Return the values of a branch or field; of a group, if need be, the values of its members."""
    import awkward as ak

    parts = getattr(column, "branches", None)
    try:
        found = ak.to_list(column.array())
    except Exception:
        if not parts:
            raise
    else:
        # The branch of a split collection has the numbers of its items.
        if not parts or any(isinstance(one, list) or (one and isinstance(one, dict)) for one in found):
            return found
    members = {name: ak.to_list(column[name].array()) for name in column.keys(recursive=True) if leaf(column[name])}
    return [dict(zip(members, row, strict=True)) for row in zip(*members.values(), strict=True)]


def leaf(column: Any) -> bool:
    """Whether a branch or field has values of its own."""
    return not (getattr(column, "branches", None) or getattr(column, "is_group", False))


def with_uproot(library: Any, request: dict[str, Any]) -> Any:
    """Read with uproot or with sapwood, which has the same calls."""
    with library.open(request["path"]) as file:
        if "case" in request:
            return [normal(value, CASES[request["case"]].cpp) for value in column_values(file["t"]["value"])]
        found = Count()
        names = file.classnames(recursive=True, cycle=True)
        for key, name in names.items():
            if name in TREES or name == NTUPLE:
                table = file[key]
                for column in table.keys(recursive=name != NTUPLE):
                    field = table[column]
                    if leaf(field):
                        kind = f"{'RNTuple' if name == NTUPLE else 'TTree'} {field.typename}"
                        found.attempt(f"{key} {column}", lambda field=field: field.array(entry_stop=ENTRIES), kind)
            elif name not in FOLDERS:
                found.attempt(key, lambda key=key: file[key])
        return found.answer()


def _leaf_numbers(branch: Any) -> list[Any]:
    """Return the numbers in all leaves of a branch and of those below it, for the entry that was read."""
    found: list[Any] = []
    for one in branch.GetListOfLeaves():
        if one.GetName() in ("fUniqueID", "fBits") or one.GetName().endswith("_"):
            continue
        kind = one.GetTypeName()
        for place in range(one.GetLen()):
            if kind in ("Long64_t", "Long_t"):
                found.append(int(one.GetValueLong64(place)))
            elif kind in ("ULong64_t", "ULong_t"):
                found.append(int(one.GetValueLong64(place)) % 2**64)
            else:
                found.append(one.GetValue(place))
    for below in branch.GetListOfBranches():
        found += _leaf_numbers(below)
    return found


def numbers(value: Any) -> list[Any]:
    """Return the numbers of a value in the order in which leaves have them."""
    if isinstance(value, Mapping):
        return [number for one in value.values() for number in numbers(one)]
    if isinstance(value, list):
        return [number for one in value for number in numbers(one)]
    return [value]


def _same_leaves(path: str, case: Case) -> str:
    import ROOT

    file = ROOT.TFile(path)
    tree = file.Get("t")
    found = []
    for entry in range(tree.GetEntries()):
        if tree.GetEntry(entry) <= 0:
            raise OSError(f"entry {entry} cannot be read")
        found.append(_leaf_numbers(tree.GetBranch("value")))
    wanted = [numbers(value) for value in case.values]
    return SAME if found == wanted else f"gives {found}"


def _with_root(request: dict[str, Any]) -> Any:
    import ROOT

    if "case" in request:
        case, path, tree = CASES[request["case"]], request["path"], request["kind"] == "tree"
        if tree and not case.read_tree:
            return _same_leaves(path, case)
        ROOT.gInterpreter.ProcessLine(f"same_values = -1; tolerance = {0 if tree else case.near};")
        code = case.code(case.read_tree if tree else case.read_ntuple, path)
        ROOT.gInterpreter.ProcessLine(f"same_values = {code};")
        if ROOT.same_values < 0:
            raise OSError("not read")
        return SAME if ROOT.same_values else "other values"
    found = Count()
    file = ROOT.TFile.Open(request["path"])

    def read(tree: Any, branch: Any) -> None:
        for entry in range(min(tree.GetEntries(), ENTRIES)):
            if branch.GetEntry(entry) < 0:
                raise OSError(f"entry {entry} cannot be read")

    def walk(directory: Any) -> None:
        for key in directory.GetListOfKeys():
            name = f"{key.GetName()};{key.GetCycle()}"
            if key.GetClassName() == NTUPLE:
                reader = ROOT.RNTupleReader.Open(key.GetName(), request["path"])
                rows = min(reader.GetNEntries(), ENTRIES)
                for field in reader.GetDescriptor().GetTopLevelFields():

                    def view(field: Any = field, reader: Any = reader, rows: int = rows) -> None:
                        one = reader.GetView["void"](field.GetFieldName())
                        for entry in range(rows):
                            one(entry)

                    found.attempt(f"{name} {field.GetFieldName()}", view)
                continue
            try:
                one = key.ReadObj()
            except Exception as error:  # noqa: BLE001 - as above
                found.fail(name, f"{type(error).__name__}: {error}")
                continue
            if not one:
                found.fail(name, "no object")
            elif one.InheritsFrom("TDirectory"):
                walk(one)
            elif one.InheritsFrom("TTree"):
                seen = set()
                for leaf_ in one.GetListOfLeaves():
                    branch = leaf_.GetBranch()
                    if branch.GetFullName() not in seen:
                        seen.add(branch.GetFullName())
                        found.attempt(f"{name} {branch.GetFullName()}", lambda b=branch, t=one: read(t, b))
            else:
                found.read += 1

    walk(file)
    file.Close()
    return found.answer()


def _write_with_root(path: str, kind: str, case: Case) -> str:
    """Write a type as a tree or as an RNTuple; return the error, if any."""
    import ROOT

    ROOT.gInterpreter.ProcessLine(case.code(case.root_tree if kind == "tree" else case.root_ntuple, path) + ";")
    file = ROOT.TFile.Open(path) if Path(path).exists() else None
    if not file or not file.GetListOfKeys().Contains("t"):
        return "not written"
    made = kind == "ntuple" or (file.Get("t").GetBranch("value") and file.Get("t").GetEntries() == 3)
    return "" if made else "no branch"


def _start_root(folder: str, place: int) -> None:
    import ROOT

    ROOT.gROOT.SetBatch(True)
    os.chdir(folder)
    ROOT.gInterpreter.Declare(CATCH)
    ROOT.catch_death(place)
    # PyROOT's own would call Python without its lock.
    ROOT.gInterpreter.ProcessLine("SetErrorHandler(DefaultErrorHandler);")
    ROOT.gInterpreter.AddIncludePath(str(HERE))
    library = Path(folder).parent / "libtypes.so"
    if library.exists():
        ROOT.gSystem.Load(str(library))
        ROOT.gInterpreter.Declare(f'#include "{HERE}/root.h"')


def child(reader: str, folder: str) -> None:
    """Answer the requests of the parent."""
    import faulthandler
    import warnings

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    answers = os.fdopen(os.dup(1), "w")
    stack = Path(folder, f"{reader}.stack").open("w")  # noqa: SIM115 - for the handlers, to the end
    with Path(folder, f"{reader}.log").open("w+b") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        if reader == "ROOT":
            _start_root(folder, stack.fileno())
            read: Callable[[dict[str, Any]], Any] = _with_root
        else:
            faulthandler.enable(stack, all_threads=False)
            library = __import__(reader)
            read = lambda request: with_uproot(library, request)  # noqa: E731
        for line in sys.stdin:
            request = json.loads(line)
            log.seek(0)
            log.truncate(0)
            try:
                if "write" in request:
                    answer = {"answer": _write_with_root(request["path"], request["write"], CASES[request["case"]])}
                else:
                    answer = {"answer": read(request)}
            except Exception as error:  # noqa: BLE001 - as above
                answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]}
            if reader == "ROOT":
                answer["said"] = _said(log)
            print(json.dumps(answer), file=answers, flush=True)


def _said(log: Any) -> str:
    """Return the first error that ROOT printed."""
    log.seek(0)
    lines = log.read().decode("utf-8", "replace").splitlines()
    errors = [one for one in lines if one.startswith(("Error in", "Fatal in")) or "error:" in one or "caught" in one]
    return " ".join(errors[0].split())[:300] if errors else ""


# In the parent.

_HEAP = r"corrupted .*|double free.*|(?:free|malloc|realloc|munmap_chunk)\(\): .*"
_FATAL = rf"^(?:Fatal in .*|FATAL ERROR.*|\w*Error: .*|{_HEAP})"


class Reader:
    """A child process that reads with one library, started again when it has died."""

    def __init__(self, name: str, command: list[str], folder: Path) -> None:
        self.name, self._command, self._folder = name, command, folder
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], seconds: float = SECONDS) -> dict[str, Any]:
        """Return the answer, or the error."""
        if self._process is None:
            with Path(self._folder, f"{self.name}.errors").open("wb") as errors:
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                    start_new_session=True,
                )  # fmt: skip
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        line = self._answer(self._process, seconds)
        if line:
            return json.loads(line)
        if line is None:
            # The handlers of the child write where it is.
            os.kill(self._process.pid, signal.SIGABRT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
            where = self._where().removeprefix("SIGABRT").strip()
            error = f"no answer in {seconds:.0f} s of processor time {where}".strip()
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
            code = self._process.returncode
            where = self._where() or (f"signal {-code}" if code and code < 0 else f"exit code {code}")
            error = f"the process died: {where}"
        self.close()
        return {"error": error, "died": True}

    def _where(self) -> str:
        stack = Path(self._folder, f"{self.name}.stack")
        text = stack.read_text(errors="replace") if stack.exists() else ""
        stack.unlink(missing_ok=True)
        log = Path(self._folder, f"{self.name}.log")
        printed = log.read_text(errors="replace") if log.exists() else ""
        printed += Path(self._folder, f"{self.name}.errors").read_text(errors="replace")
        fatal = re.findall(_FATAL, printed, re.MULTILINE)
        script = re.findall(r"^\s+at (\S+).*\(.*/(\w+\.mjs:\d+)", printed, re.MULTILINE)
        where = frames(text) or " < ".join(f"{name} ({line})" for name, line in script[:3])
        return "; ".join(filter(None, [where, *fatal[:1]]))

    def _used(self) -> tuple[float, bool]:
        """Return the processor time of the child, and whether it waits for something."""
        assert self._process is not None
        with contextlib.suppress(OSError, IndexError):
            after = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK"), after[0] == "S"
        return 0.0, False

    def _answer(self, process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        """Return a line of the child: empty if it died, None if it takes too long."""
        assert process.stdout is not None
        before, awake = self._used()[0], time.monotonic()
        last = before
        while True:
            if select.select([process.stdout], [], [], 1)[0]:
                return process.stdout.readline()
            used, waits = self._used()
            if used > last or not waits:
                last, awake = used, time.monotonic()
            if used - before > seconds or time.monotonic() - awake > ASLEEP:
                return None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


# What sapwood writes.


def _given(case: Case, of: str) -> Any:
    """Return values in the form that sapwood accepts for a type."""
    import awkward as ak
    import numpy as np

    if case.data is not None:
        return case.data
    if (of.isidentifier() and "int" in of) or of in ("bool", "float32", "float64"):
        return np.array(case.values, of)
    if of in ("Long_t",):
        return np.array(case.values, "int64")
    if "map<" in of:
        return [dict(value) for value in case.values]
    if of.startswith("pair"):
        return ak.Array([{"first": first, "second": second} for first, second in case.values])
    if of.startswith(("(", "tuple")):
        return ak.Array([tuple(value) for value in case.values])
    if "var * 2" in of or "array" in of:
        return ak.to_regular(ak.Array(case.values), axis=2)
    return case.values


def write_with_sapwood(folder: Path) -> dict[tuple[str, int], str]:
    """Write each type as a tree and as an RNTuple; return why those that are missing were not written."""
    import sapwood

    errors: dict[tuple[str, int], str] = {}
    for number, case in enumerate(CASES):
        for kind, asked in (("tree", case.tree), ("ntuple", case.ntuple)):
            if not isinstance(asked, Sapwood):
                errors[kind, number] = asked
                continue
            path = folder / f"sapwood-{kind}-{number}.root"
            try:
                with sapwood.recreate(path) as file:
                    make = file.mktree if kind == "tree" else file.mkrntuple
                    make("t", {"value": asked.of}, **asked.options).extend({"value": _given(case, str(asked.of))})
            except (sapwood.SapwoodError, TypeError, ValueError) as error:
                errors[kind, number] = f"says: {' '.join(str(error).split())[:200]}"
                path.unlink(missing_ok=True)
    return errors


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2])
