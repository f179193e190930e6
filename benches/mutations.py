"""The table of mutations: the same damaged files read by sapwood, ROOT and uproot, each in child processes.

    mutations.py --seed 1 --mutations 3000 --root .venv-oracle/bin/python [FILE...]

Every tree is read whole and every object once. Each damaged file counts once for each reader:

- crash: the process died; hang: no answer in ten seconds; over memory: 2 GiB of address space did not suffice;
- detected: an error or a warning; same: the values of the intact file;
- different: other values without a word. In bytes that hold plain numbers nobody can notice a change.

A file that one of the readers cannot read before it is damaged is left out, and named.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "damage"))

import mutate  # noqa: E402

OUTCOMES = ("crash", "hang", "over memory", "detected", "same", "different")
MEMORY = 2 << 30
SECONDS = 10.0
TREES = ("TTree", "TNtuple", "TNtupleD")


# In the children. Each gives {"name of what was read": digest}, and says whether anything was reported.


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


def _array(array: Any) -> str:
    import awkward as ak

    form, length, buffers = ak.to_buffers(ak.to_packed(ak.without_parameters(array)))
    state = hashlib.sha256(f"{form.to_json()} {length}".encode())
    for name in sorted(buffers):
        state.update(buffers[name].tobytes())
    return state.hexdigest()[:16]


def read_sapwood(path: str) -> dict[str, str]:
    """Read with sapwood; a warning counts as an error."""
    import warnings

    import sapwood
    from sapwood.objects.model import to_json

    found: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error", sapwood.SapwoodWarning)
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


def read_uproot(path: str) -> dict[str, str]:
    """Read with uproot."""
    import uproot

    found: dict[str, str] = {}
    with uproot.open(path, object_cache=None, array_cache=None) as file:
        for key, name in file.classnames(recursive=True, cycle=True).items():
            if name in TREES:
                tree = file[key]
                for branch in tree.keys(recursive=True, full_paths=True):
                    if branch in READABLE:
                        found[f"{key} {branch}"] = _array(tree[branch].array())
            elif name not in ("TDirectory", "TDirectoryFile") and key in READABLE:
                found[key] = _digest(file[key].all_members)
    return found


READABLE: set[str] = set()


def _readable_by_uproot(path: str) -> None:
    """Note what uproot reads of the intact file; the rest is left out."""
    import uproot

    with uproot.open(path, object_cache=None, array_cache=None) as file:
        for key, name in file.classnames(recursive=True, cycle=True).items():
            with contextlib.suppress(Exception):
                if name in TREES:
                    tree = file[key]
                    for branch in tree.keys(recursive=True, full_paths=True):
                        with contextlib.suppress(Exception):
                            tree[branch].array()
                            READABLE.add(branch)
                elif name not in ("TDirectory", "TDirectoryFile"):
                    _digest(file[key].all_members)
                    READABLE.add(key)


def read_root(path: str) -> dict[str, str]:
    """Read with ROOT; its messages of errors count as errors."""
    import ROOT

    found: dict[str, str] = {}
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
                state = hashlib.sha256(str(one.GetEntries()).encode())
                for entry in range(min(one.GetEntries(), 200)):
                    if one.GetEntry(entry) < 0:
                        raise OSError(f"entry {entry} of {name} cannot be read")
                    for leaf in one.GetListOfLeaves():
                        state.update(repr([leaf.GetValue(i) for i in range(min(leaf.GetLen(), 1000))]).encode())
                found[name] = state.hexdigest()[:16]
            else:
                found[name] = _digest(str(ROOT.TBufferJSON.ToJSON(one)))

    walk(file, "")
    file.Close()
    return found


READERS = {"sapwood": read_sapwood, "ROOT": read_root, "uproot": read_uproot}


def child(reader: str) -> None:
    """Answer each path on standard input with what was read, or with the kind of error."""
    import resource

    answers = os.fdopen(os.dup(1), "w")
    messages = tempfile.TemporaryFile()  # noqa: SIM115 - it takes what libraries print, to the end
    os.dup2(messages.fileno(), 1)
    os.dup2(messages.fileno(), 2)
    if reader == "ROOT":
        import ROOT

        ROOT.gROOT.SetBatch(True)
    intact = sys.stdin.readline().rstrip("\n")
    if reader == "uproot":
        _readable_by_uproot(intact)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lines, limited = [intact], False
    while lines:
        for path in lines:
            messages.seek(0)
            messages.truncate(0)
            try:
                answer: dict[str, Any] = {"found": READERS[reader](path)}
            except MemoryError:
                answer = {"memory": True}
            except BaseException as error:  # noqa: BLE001 - whatever it is, it was noticed
                answer = {"error": f"{type(error).__name__}: {error}"[:200], "memory": "bad_alloc" in str(error)}
            messages.seek(0)
            said = messages.read()
            answer["said"] = said.count(b"Error in <") if reader == "ROOT" else 0
            print(json.dumps(answer), file=answers, flush=True)
        if not limited:
            limited = True
            with Path("/proc/self/status").open() as status:
                size = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmSize"))
            resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        lines = [line.rstrip("\n") for line in [sys.stdin.readline()] if line]


# In the parent.


class Reader:
    """A child process that reads with one library, started again when it has died."""

    def __init__(self, name: str, python: str, intact: Path) -> None:
        self.name, self.python, self.intact = name, python, intact
        self.process: subprocess.Popen[bytes] | None = None
        self.expected = self._start()

    def _start(self) -> dict[str, Any]:
        self.process = subprocess.Popen(
            [self.python, __file__, "--child", self.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        answer = self._ask(self.intact, 300)
        if answer is None or "found" not in answer:
            raise RuntimeError(f"{self.name} cannot read {self.intact}: {answer}")
        return answer

    def _ask(self, path: Path, seconds: float) -> dict[str, Any] | None:
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{path}\n".encode())
        self.process.stdin.flush()
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {}

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def outcome(self, path: Path) -> str:
        """Read a damaged file, and class what came of it."""
        if self.process is None:
            self._start()
        answer = self._ask(path, SECONDS)
        if not answer:
            self.close()
            return "hang" if answer is None else "crash"
        if answer.get("memory"):
            return "over memory"
        if "error" in answer or answer["said"] > self.expected["said"]:
            return "detected"
        return "same" if answer["found"] == self.expected["found"] else "different"


def main() -> None:
    """Damage the files, have them read, and print the table."""
    parser = argparse.ArgumentParser(description="Read damaged files with sapwood, ROOT and uproot.")
    parser.add_argument("files", nargs="*", type=Path, help="the files to damage (default: the golden files)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=1000, help="how many, over all files (default %(default)s)")
    parser.add_argument("--root", metavar="PYTHON", help="a Python with ROOT and uproot")
    parser.add_argument("--output", type=Path, help="write the counts there, as JSON")
    chosen = parser.parse_args()
    files = chosen.files or sorted((REPOSITORY / "tests" / "golden").glob("*/*.root"))
    pythons = {"sapwood": sys.executable}
    if chosen.root:
        pythons |= {"ROOT": chosen.root, "uproot": chosen.root}
    counts = {name: dict.fromkeys(OUTCOMES, 0) for name in pythons}
    contents = [path.read_bytes() for path in files]
    read = 0
    with tempfile.TemporaryDirectory() as folder:
        damaged = Path(folder) / "damaged.root"
        for place, path in enumerate(files):
            readers: list[Reader] = []
            for name, python in pythons.items():
                try:
                    readers.append(Reader(name, python, path))
                except RuntimeError as error:
                    print(error, file=sys.stderr)
            # The limit of memory is set by now; the whole file must still be read as before.
            unsteady = [reader.name for reader in readers if reader.outcome(path) != "same"]
            if unsteady:
                print(f"{path} is read differently the second time by {', '.join(unsteady)}", file=sys.stderr)
            elif len(readers) == len(pythons):
                for number in range(place, chosen.mutations, len(files)):
                    steps = mutate.steps(
                        contents[place], contents[number % len(files)], chosen.seed * 1_000_003 + number
                    )
                    damaged.write_bytes(mutate.apply(contents[place], steps))
                    read += 1
                    for reader in readers:
                        counts[reader.name][reader.outcome(damaged)] += 1
            for reader in readers:
                reader.close()
            print(f"{place + 1} of {len(files)} files, {read} mutations: {json.dumps(counts)}", file=sys.stderr)
            result = {"date": time.strftime("%Y-%m-%d"), "seed": chosen.seed, "mutations": read, "counts": counts}
            if chosen.output:
                chosen.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"| {read} damaged files | {' | '.join(OUTCOMES)} |\n|---|{'---:|' * len(OUTCOMES)}")
    for name, of in counts.items():
        print(f"| {name} | {' | '.join(str(of[one]) for one in OUTCOMES)} |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2])
    else:
        main()
