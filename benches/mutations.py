"""The table of mutations: the same damaged files read by sapwood, ROOT and uproot, each in processes of its own.

    mutations.py --root .venv-oracle/bin/python --mutations 20000 --state mutations.jsonl --seconds 60 FILE...

Every tree is read completely and every object once. Each damaged file counts once for each reader:

- crash: the process died; hang: no answer in ten seconds of processor time, or in a quarter of an hour;
- over memory: 2 GiB of address space did not suffice;
- detected: an error or a warning, or something in the intact file is missing under its name;
- same: the values of the intact file;
- different: other values without a message. Nobody can notice a change in bytes that hold plain numbers.

Mutation N damages file N modulo the number of files, so that any number of mutations covers all files equally. With
``--state`` each outcome is appended to a file, and a run continues after the last outcome in it. ROOT reads each
damaged file in a fork, because a damaged file can leave classes in the process that has read it. A second table groups
the crashes of ROOT by the functions in which they happened. ``--readers ROOT`` runs ROOT alone. With ``--checksums``
the checksums of the intact file are next to each damaged file, and sapwood compares with them.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(REPOSITORY / "tests" / "damage"), str(REPOSITORY / "benches")]

import mutate  # noqa: E402
from stacks import CATCH, frames  # noqa: E402

OUTCOMES = ("crash", "hang", "over memory", "detected", "same", "different")
MEMORY = 2 << 30
SECONDS, WALL = 10.0, 900.0
TREES = ("TTree", "TNtuple", "TNtupleD")
Found = dict[str, str]
"""A digest of each thing that was read, by its name."""


# In the children.


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def _array(array: Any) -> str:
    import awkward as ak
    import numpy as np

    if isinstance(array, np.ndarray) and array.dtype == object:
        return _digest(_plain(array, 0))
    form, length, buffers = ak.to_buffers(ak.to_packed(ak.without_parameters(array)))
    state = hashlib.sha256(f"{form.to_json()} {length}".encode())
    for name in sorted(buffers):
        state.update(buffers[name].tobytes())
    return state.hexdigest()[:16]


def _plain(value: Any, depth: int) -> Any:
    """Return uproot's objects as lists and dicts: their own representations contain addresses."""
    import numpy as np

    if depth > 20:
        return "deep"
    if isinstance(value, np.ndarray):
        return (str(value.dtype), value.shape, [_plain(one, depth + 1) for one in value.reshape(-1).tolist()])
    if isinstance(value, str):
        return "".join([value])  # a subclass has a text of its own
    if isinstance(value, bytes | int | float | bool | None):
        return value
    found: list[Any] = [type(value).__name__.partition("_v")[0]]
    if hasattr(value, "all_members"):
        members = value.all_members.items()
        found += [(name, _plain(member, depth + 1)) for name, member in members if not name.startswith("@")]
    if isinstance(value, Mapping):
        found += [(_plain(key, depth + 1), _plain(one, depth + 1)) for key, one in value.items()]
    elif isinstance(value, Sequence):
        found += [_plain(one, depth + 1) for one in value]
    return found


def read_sapwood(path: str, _number: int) -> Found:
    """Read with sapwood."""
    import sapwood
    from sapwood.objects.model import to_json

    found: Found = {}
    with sapwood.open(path) as file:
        for key, name in file.classnames(recursive=True, cycle=True).items():
            if name in TREES:
                tree = file[key]
                for branch in tree.keys(recursive=True, full_paths=True):
                    if tree[branch].reason is None and not tree[branch].is_group:
                        found[f"{key} {branch}"] = _array(tree[branch].array())
            elif name not in ("TDirectory", "TDirectoryFile"):
                found[key] = _digest(to_json(file[key]))
    return found


READABLE: dict[int, set[str]] = {}
"""The objects of each intact file that uproot reads; the rest is left out."""


def read_uproot(path: str, number: int) -> Found:
    """Read with uproot; the first time, note what it can read."""
    import uproot

    found: Found = {}
    first = number not in READABLE
    readable = READABLE.setdefault(number, set())

    def add(name: str, read: Callable[[], str]) -> None:
        if not first and name not in readable:
            return
        with contextlib.suppress(*[Exception] * first):
            found[name] = read()
            readable.add(name)

    with uproot.open(path, object_cache=None, array_cache=None) as file:
        for key, name in file.classnames(recursive=True, cycle=True).items():
            if name in TREES:
                tree = file[key]
                for branch in tree.keys(recursive=True, full_paths=True):
                    add(f"{key} {branch}", lambda branch=branch, tree=tree: _array(tree[branch].array()))
            elif name not in ("TDirectory", "TDirectoryFile"):
                add(key, lambda key=key: _digest(_plain(file[key], 0)))
    return found


def read_root(path: str, _number: int) -> Found:
    """Read with ROOT."""
    import ROOT

    found: Found = {}
    file = ROOT.TFile.Open(path)
    if not file or file.IsZombie() or file.TestBit(ROOT.TFile.kRecovered):
        raise OSError("not opened, or recovered")

    def walk(directory: Any, prefix: str) -> None:
        for key in directory.GetListOfKeys():
            name = f"{prefix}{key.GetName()};{key.GetCycle()}"
            one = key.ReadObj()
            if not one:
                raise OSError(f"{name} cannot be read")
            if one.InheritsFrom("TDirectory"):
                walk(one, f"{prefix}{key.GetName()}/")
            elif one.InheritsFrom("TTree"):
                leaves = list(one.GetListOfLeaves())
                states = [hashlib.sha256() for _ in leaves]
                for entry in range(one.GetEntries()):
                    if one.GetEntry(entry) < 0:
                        raise OSError(f"entry {entry} of {name} cannot be read")
                    for leaf, state in zip(leaves, states, strict=True):
                        state.update(repr([leaf.GetValue(i) for i in range(leaf.GetLen())]).encode())
                for leaf, state in zip(leaves, states, strict=True):
                    found[f"{name} {leaf.GetBranch().GetFullName()}.{leaf.GetName()}"] = state.hexdigest()[:16]
            else:
                found[name] = _digest(str(ROOT.TBufferJSON.ToJSON(one)))

    walk(file, "")
    file.Close()
    return found


READERS = {"sapwood": read_sapwood, "ROOT": read_root, "uproot": read_uproot}
_SAID = re.compile(rb"^(?:\w*Error|Warning|Break|Fatal) in <", re.MULTILINE)


def _answer(reader: str, path: str, number: int) -> dict[str, Any]:
    """Read a file; return the values or the error, with the number of warnings."""
    import warnings

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            answer: dict[str, Any] = {"found": READERS[reader](path, number)}
        except MemoryError:
            answer = {"memory": True}
        except BaseException as error:  # noqa: BLE001 - whatever it is, it was noticed
            answer = {"error": f"{type(error).__name__}: {error}"[:200], "memory": "bad_alloc" in str(error)}
    return {**answer, "said": len(said)}


def _limit(cpu: bool) -> None:
    import resource

    with Path("/proc/self/status").open() as status:
        size = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    if cpu:
        resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS) + 1))


def _forked(path: str, number: int) -> dict[str, Any]:
    """Read with ROOT in a process that ends with it."""
    import ROOT

    out, into = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(out)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        ROOT.catch_death(2)  # ROOT's own handlers would start a debugger
        _limit(cpu=True)
        with os.fdopen(into, "w") as pipe:
            json.dump(_answer("ROOT", path, number), pipe)
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as pipe:
        text = pipe.read()
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        return {"hang": True} if os.WTERMSIG(status) == signal.SIGXCPU else {"crash": True}
    return json.loads(text) if text else {"crash": True}


def child(reader: str) -> None:
    """Answer each `NUMBER PATH` on standard input with what was read, or with the kind of error.

    The first lines are the intact files, ended by an empty one.
    """
    import resource

    answers = os.fdopen(os.dup(1), "w")
    messages = tempfile.TemporaryFile()  # noqa: SIM115 - it takes what libraries print, to the end
    os.dup2(messages.fileno(), 1)
    os.dup2(messages.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if reader == "ROOT":
        import ROOT

        ROOT.gROOT.SetBatch(True)
        ROOT.gInterpreter.Declare(CATCH)
        ROOT.catch_death(2)
    read: Callable[[str, int], dict[str, Any]] = lambda path, number: _answer(reader, path, number)  # noqa: E731
    for line in sys.stdin:
        number, _, path = line.rstrip("\n").partition(" ")
        if not number:
            if reader == "ROOT":
                read = _forked
            else:
                _limit(cpu=False)
            continue
        messages.seek(0)
        messages.truncate(0)
        answer = read(path, int(number))
        messages.seek(0)
        said = messages.read()
        if reader == "ROOT":
            answer["said"] = answer.get("said", 0) + len(_SAID.findall(said))
            if answer.get("crash") and (b"bad_alloc" in said or b"out of memory" in said):
                answer["memory"] = True
            if answer.get("crash"):
                answer["where"] = frames(said.decode("utf-8", "replace"))
        print(json.dumps(answer), file=answers, flush=True)


# In the parent.


class Reader:
    """A child process that reads with one library, started again when it has died."""

    def __init__(self, name: str, python: str, files: Sequence[Path]) -> None:
        self.name, self.python, self.files = name, python, files
        self.process: subprocess.Popen[bytes] | None = None
        self.expected: list[dict[str, Any]] = []
        self.where = ""
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            [self.python, __file__, "--child", self.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        for number, path in enumerate(self.files):
            self.send(number, path)
            if not self._receive(60, 600):
                raise SystemExit(f"{self.name} cannot read {path}")
        self._write("\n")
        if self.expected:
            return
        # From this point, the limits apply and all classes are known: the values read now are the expected ones.
        for number, path in enumerate(self.files):
            twice: list[dict[str, Any]] = []
            for _ in range(2):
                self.send(number, path)
                twice.append(self._receive(60, 600) or {})
            if not twice[0].get("found") or twice[0] != twice[1]:
                raise SystemExit(f"{self.name} cannot read {path}, or reads it differently again: {str(twice)[:600]}")
            self.expected.append(twice[0])

    def _write(self, text: str) -> None:
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def _cpu(self) -> float:
        assert self.process is not None
        with contextlib.suppress(OSError, IndexError):
            after = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def send(self, number: int, path: Path) -> None:
        """Have a file read."""
        if self.process is None:
            self._start()
        self.before, self.began = self._cpu(), time.monotonic()
        with contextlib.suppress(BrokenPipeError):
            self._write(f"{number} {path}\n")

    def _receive(self, seconds: float = SECONDS, wall: float = WALL) -> dict[str, Any] | None:
        """Return the answer: None if it takes too long, empty if the process died."""
        assert self.process is not None and self.process.stdout is not None
        while True:
            ready, _, _ = select.select([self.process.stdout], [], [], 0.5)
            if ready:
                line = self.process.stdout.readline()
                return json.loads(line) if line else {}
            if self._cpu() - self.before > seconds or time.monotonic() - self.began > wall:
                return None

    def close(self) -> None:
        """End the process, and what it has forked."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None

    def outcome(self, number: int) -> str:
        """Classify the outcome of the file that was sent."""
        answer = self._receive()
        self.where = (answer or {}).get("where", "")
        if not answer:
            self.close()
            return "hang" if answer is None else "crash"
        for what in ("memory", "hang", "crash"):
            if answer.get(what):
                return {"memory": "over memory"}.get(what, what)
        expected = self.expected[number]
        if "error" in answer or answer["said"] > expected["said"]:
            return "detected"
        found, intact = answer["found"], expected["found"]
        if any(found[name] != intact[name] for name in intact if name in found):
            return "different"
        # Who asks for what is not there gets an error.
        if not found.keys() >= intact.keys():
            return "detected"
        return "same" if found == intact else "different"


def _checksums(contents: Sequence[bytes], damaged: Path) -> tuple[Path, list[bytes]]:
    """Return the path of the checksums of a file, and those of intact files."""
    from sapwood.storage.checksums import beside, write

    found: list[bytes] = []
    for data in contents:
        damaged.write_bytes(data)
        found.append(write(damaged).read_bytes())
    return beside(damaged), found


def _done(state: Path | None, about: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the outcomes of former runs; those of other files or another seed are refused."""
    if state is None or not state.exists():
        return []
    first, *lines = state.read_text().splitlines()
    if json.loads(first) != about:
        raise SystemExit(f"{state} has the outcomes of other files or of another seed")
    return [json.loads(line) for line in lines]


def _print_table(outcomes: Sequence[dict[str, Any]], files: Sequence[str], names: Sequence[str]) -> None:
    print(f"| {len(outcomes)} damaged files | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * len(OUTCOMES)}")
    for name in names:
        of = Counter(outcome[name] for outcome in outcomes)
        print(f"| {name} | {' | '.join(f'{of[one]:,}' for one in OUTCOMES)} |")
    print(f"\n| different without a word | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for place, file in enumerate(files):
        of = Counter(n for outcome in outcomes if outcome["n"] % len(files) == place
                     for n in names if outcome[n] == "different")  # fmt: skip
        print(f"| `{file}` | {' | '.join(str(of[name]) for name in names)} |")

    where = Counter(outcome.get("where", "") for outcome in outcomes if outcome.get("ROOT") == "crash")
    print("\n| crashes of ROOT | number |\n|---|---:|")
    for name, times in where.most_common():
        print(f"| `{name}` | {times} |")


def main() -> None:
    """Damage the files, have them read, and print the table."""
    parser = argparse.ArgumentParser(description="Read damaged files with sapwood, ROOT and uproot.")
    parser.add_argument("files", nargs="+", type=Path, help="the files to damage, which all readers can read")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=1000, help="number over all files (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--root", metavar="PYTHON", help="a Python with ROOT and uproot")
    parser.add_argument("--readers", default=",".join(READERS), help="the readers to run (default %(default)s)")
    parser.add_argument("--state", type=Path, help="append the outcomes to this file, and continue after those in it")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for files that sapwood missed or died of")
    parser.add_argument("--checksums", action="store_true", help="write the checksums of the intact file next to each")
    chosen = parser.parse_args()
    begin = time.monotonic()
    files: list[Path] = [path.resolve() for path in chosen.files]
    pythons = {"sapwood": sys.executable}
    if chosen.root:
        pythons |= {"ROOT": chosen.root, "uproot": chosen.root}
    pythons = {name: python for name, python in pythons.items() if name in chosen.readers.split(",")}
    about = {"seed": chosen.seed, "files": [path.name for path in files], "readers": list(pythons)}
    if chosen.checksums:
        about["checksums"] = True
    outcomes = _done(chosen.state, about)
    if chosen.state and not chosen.state.exists():
        chosen.state.write_text(json.dumps(about) + "\n")
    contents = [path.read_bytes() for path in files]
    scratch = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    if len(outcomes) < chosen.mutations:
        readers = [Reader(name, python, files) for name, python in pythons.items()]
        with tempfile.TemporaryDirectory(dir=scratch) as folder, contextlib.ExitStack() as stack:
            for reader in readers:
                stack.callback(reader.close)
            log = stack.enter_context(chosen.state.open("a")) if chosen.state else None
            damaged = Path(folder) / "damaged.root"
            sums = _checksums(contents, damaged) if chosen.checksums else None
            for number in range(len(outcomes), chosen.mutations):
                if time.monotonic() - begin > chosen.seconds:
                    break
                place, other = number % len(files), contents[(number // len(files)) % len(files)]
                steps = mutate.steps(contents[place], other, chosen.seed * 1_000_003 + number)
                data = mutate.apply(contents[place], steps)
                damaged.write_bytes(data)
                if sums is not None:
                    sums[0].write_bytes(sums[1][place])
                for reader in readers:
                    reader.send(place, damaged)
                outcome = {"n": number, **{reader.name: reader.outcome(place) for reader in readers}}
                if where := next((reader.where for reader in readers if reader.where), ""):
                    outcome["where"] = where
                outcomes.append(outcome)
                if log is not None:
                    print(json.dumps(outcome), file=log, flush=True)
                if chosen.keep and outcome.get("sapwood", "same") not in ("detected", "same"):
                    chosen.keep.mkdir(parents=True, exist_ok=True)
                    (chosen.keep / f"{number}-{outcome['sapwood'].replace(' ', '-')}.root").write_bytes(data)
    _print_table(outcomes, [path.name for path in files], list(pythons))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main()
