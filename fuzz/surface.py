"""Fuzzing of the Python package: mutated files, and every public call that reads them.

    surface.py --seed 1 --mutations 2000         # replays the same inputs each time
    surface.py --seed 7 --seconds 3600 FILE...   # other seeds and files
    surface.py --replay 1:17                     # one input again: seed and number

Of files with compressed objects, a second form has these objects again without compression, with right keys and
lengths. There, only what the objects say is damaged. A copy of each file is also updated: the tables that could be read
before must have the same values afterwards.

Each file is read in a child process with a limit of memory and of time. A call may return, or raise a `SapwoodError`
or one of the errors in `ALLOWED`. Anything else is a finding: another exception, a crash, a hang, or a control
character in what a command prints. A finding is written to fuzz/artifacts/ as a file, cut down to the steps it needs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import pickle
import re
import shutil
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "damage"))

import guard as guards  # noqa: E402
import mutate  # noqa: E402

ARTIFACTS = HERE / "artifacts"
OPENED: dict[str, int] = {}
"""Where the objects begin that are damaged, in files of which nothing else is."""
GOLDEN = HERE.parent / "tests" / "golden"
MEMORY = 1 << 30
SECONDS = 30.0
# What text for people may not hold: control characters but for the end of a line, and marks of direction.
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


# In the child.


class Surface:
    """Makes the calls, and keeps the findings."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.calls = 0
        self.refused = 0

    def call(self, name: str, function: Callable[..., Any], *arguments: Any, allowed: tuple[type[Exception], ...] = (),
             **options: Any) -> Any:  # fmt: skip
        """Make one call; None where it raises an error that it may raise."""
        from sapwood.errors import SapwoodError

        self.calls += 1
        try:
            return function(*arguments, **options)
        except SapwoodError as error:
            self.refused += 1
            self._check(f"error of {name}", str(error))
        except allowed:
            self.refused += 1
        except Exception:  # noqa: BLE001 - the findings
            self.findings.append(f"{name}: {traceback.format_exc()[-3000:]}")
        return None

    def _check(self, name: str, text: str) -> None:
        if found := UNSAFE.search(text):
            self.findings.append(f"{name} has {found[0]!r}: {text[max(0, found.start() - 60) : found.end() + 60]!r}")

    def shown(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        """Call what gives a text for people, and look at the text."""
        text = self.call(name, function, *arguments)
        if isinstance(text, str):
            self._check(name, text)

    def command(self, *words: str) -> None:
        """Run a subcommand, and look at what it prints."""
        from sapwood.cli import main

        out, err = io.StringIO(), io.StringIO()
        show = warnings.showwarning
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                self.call(f"sapwood {words[0]}", main, words)
        finally:
            warnings.showwarning = show
        self._check(f"output of sapwood {' '.join(words[:-1])}", out.getvalue() + err.getvalue())

    def walk(self, name: str, found: Any, names: Iterable[str]) -> None:
        """Ask an object for properties, and call methods without arguments."""
        for one in names:
            answer = self.call(f"{name}.{one}", getattr, found, one)
            if callable(answer):
                self.call(f"{name}.{one}()", answer)

    def file(self, path: str) -> None:
        """Make every call that a file allows."""
        import sapwood

        top = self.call("open", sapwood.open, path)
        if top is None:
            return
        self.shown("repr(directory)", repr, top)
        self.walk("file", top.file, public(top.file, leave=("close",)))
        self.walk("directory", top, public(top, leave=("close", "file", "parent")))
        classes = self.call("classnames", top.classnames, recursive=True, cycle=True) or {}
        streamers = self.call("streamers", lambda: top.file.streamers)
        if streamers is not None:
            self.schema(streamers)
        for key, classname in list(classes.items())[:200]:
            entry = self.call("key", top.key, key)
            if entry is not None:
                self.shown("repr(key)", repr, entry)
                self.walk("key", entry, public(entry, leave=("get", "file", "parent")))
            found = self.call(f"get {classname}", top.get, key)
            if found is not None and getattr(found, "table", None) is found:
                self.tree(found)
            elif isinstance(found, sapwood.ReadOnlyDirectory):
                self.walk("directory", found, public(found, leave=("close", "file", "parent")))
            elif found is not None:
                self.object(found)
        self.commands(path, [key for key, name in classes.items() if name in ("TTree", "TNtuple", "TNtupleD")])
        self.update(path)

    def tables(self, path: str) -> dict[str, Any]:
        """Read the tables of a file that can be read as a whole, by name and cycle."""
        import sapwood

        found: dict[str, Any] = {}
        with contextlib.suppress(sapwood.SapwoodError), sapwood.open(path) as top:
            for name, classname in list(top.classnames(recursive=True, cycle=True).items())[:30]:
                if classname in ("TTree", "TNtuple", "TNtupleD", "ROOT::RNTuple"):
                    with contextlib.suppress(sapwood.SapwoodError):
                        table = top[name]
                        if 0 < table.num_entries < 10_000:
                            found[name] = [table[field].array(library="ak").to_list() for field in table.keys()[:40]]
        return found

    def update(self, path: str) -> None:
        """Update a copy of a file: what could be read before has the same values afterwards."""
        import sapwood

        copy = f"{path}.updated"
        shutil.copy(path, copy)
        before = self.call("read before", self.tables, copy) or {}

        def change() -> None:
            for turn in range(2):
                with sapwood.update(copy) as file:
                    file[f"made by the fuzzer {turn}"] = "text" * 200
                    file[f"made too {turn}"] = {"x": list(range(500))}

        self.call("update", change)
        after = self.call("read after", self.tables, copy) or {}
        # NaN is no other value here.
        lost = [name for name, values in before.items() if repr(after.get(name)) != repr(values)]
        if lost:
            self.findings.append(f"update changed the values of {lost}")

    def schema(self, streamers: Any) -> None:
        """Show the classes in every form."""
        from sapwood.schema import dataclasses, headers

        out = io.StringIO()
        self.call("streamers.show", streamers.show, out, checksum=True)
        self._check("streamers.show", out.getvalue())
        self.call("headers", headers, streamers)
        self.call("dataclasses", dataclasses, streamers)
        self.call("streamers.to_dicts", lambda: json.dumps(streamers.to_dicts()))
        self.call("streamers.tojson", lambda: json.dumps([info.tojson() for info in streamers.infos()]))

    def commands(self, path: str, trees: list[str]) -> None:
        """Run the commands that read files."""
        self.command("ls", "-l", "-R", path)
        self.command("ls", "--check", path)
        self.command("ls", "--json", path)
        self.command("schema", "--cpp", path)
        self.command("advise", "--no-trials", path)
        for tree in trees[:2]:
            self.command("show", "-n", "3", f"{path}:{tree}")

    def tree(self, tree: Any) -> None:
        """Read a tree in every library and way."""
        self.shown("repr(tree)", repr, tree)
        self.walk("tree", tree, public(tree, leave=("close", "file", "parent", "arrays", "show", "tree")))
        out = io.StringIO()
        self.call("show", tree.show, stream=out)
        self._check("tree.show", out.getvalue())
        stop = 1000
        for library in ("ak", "np", "pd", "pa", "pl"):
            self.call(f"arrays {library}", tree.arrays, library=library, entry_stop=stop)
        for how in (tuple, list, dict, "zip"):
            self.call(f"arrays how={how}", tree.arrays, how=how, entry_stop=stop)
        self.call("iterate", lambda: [len(step) for _, step in zip(range(20), tree.iterate(step_size=7), strict=False)])
        self.call("iterate in bytes", lambda: [len(step) for _, step in zip(range(5), tree.iterate(), strict=False)])
        self.call("pickle tree", lambda: pickle.loads(pickle.dumps(tree)))
        branches = (self.call("itervalues", lambda: list(tree.itervalues(recursive=True))) or [])[:100]
        for branch in branches:
            self.shown("repr(branch)", repr, branch)
            self.walk(
                "branch", branch, public(branch, leave=("close", "file", "parent", "tree", "array", "arrays", "show"))
            )
            for library in ("ak", "np"):
                self.call(f"array {library}", branch.array, library=library, entry_stop=stop)
        for name in list(self.call("aliases", lambda: tree.aliases) or ())[:20]:
            self.call("alias", tree.arrays, name, entry_stop=stop)
        for branch in branches[:3]:
            name = self.call("name", lambda branch=branch: branch.name)
            self.call("expression", tree.arrays, f"get({name!r}) * 2", f"get({name!r}) > 0", entry_stop=stop)

    def object(self, found: Any) -> None:
        """Look at every member of an object, and call everything that it has."""
        from sapwood.files.hbook import Banks
        from sapwood.objects.histogram import Histogram
        from sapwood.objects.model import Model, to_json
        from sapwood.pages.run import figure
        from sapwood.show.chart import charts_of

        self.shown("repr(object)", repr, found)
        self.call("to_json", lambda: json.dumps(to_json(found), default=repr))
        if not isinstance(found, Banks):
            self.call("pickle object", lambda: pickle.loads(pickle.dumps(found)))
        if not isinstance(found, Model):
            return
        kind = type(found).__name__
        self.walk(kind, found, public(found, leave=("close", "file", "parent", "to_dict")))
        if isinstance(found, Histogram):
            for name in ("values", "variances", "errors", "counts", "to_numpy"):
                self.call(f"{kind}.{name}(flow)", getattr(found, name), flow=True)
            self.call(f"chart of {kind}", lambda: [figure(one, "") for one in charts_of("", found.to_hist())])
        for axis in self.call(f"{kind}.axes", lambda: getattr(found, "axes", ())) or ():
            if isinstance(axis, Model):
                self.walk("axis", axis, public(axis, leave=("close", "file", "parent", "to_dict")))
                self.call("len(axis)", len, axis)
                self.call("list(axis)", lambda axis=axis: list(axis))
        self.call(f"{kind} == itself", lambda: found == found)
        if hasattr(type(found), "__len__"):
            self.call(f"len({kind})", len, found)
        if hasattr(type(found), "__iter__"):
            self.call(f"list({kind})", lambda: [one for _, one in zip(range(1000), found, strict=False)])
        if callable(found):
            self.call(f"{kind}(0.5)", found, 0.5)


def public(found: Any, leave: Iterable[str] = ()) -> Iterator[str]:
    """Name the public attributes of an object's class."""
    for name in dir(type(found)):
        if not name.startswith("_") and name not in leave and not (isinstance(found, str) and hasattr(str, name)):
            yield name


NEEDS_ARGUMENTS = re.compile(r"missing \d+ required (positional|keyword-only) arguments?")


def child() -> None:
    """Read the files named on standard input, one a line; answer each with a line of JSON."""
    import resource

    import reader

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def answer(path: str) -> dict[str, Any]:
        surface = Surface()
        try:
            surface.file(path)
        except BaseException:  # noqa: BLE001 - panics are no `Exception`
            surface.findings.append(traceback.format_exc()[-3000:])
        found = [one for one in surface.findings if not NEEDS_ARGUMENTS.search(one)]
        return {"trees": True, "calls": surface.calls, "refused": surface.refused, "findings": found}

    print(json.dumps({**answer(sys.argv[3]), "peak": 0}), file=answers, flush=True)
    limit = reader.memory("VmSize") + int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        print(json.dumps(answer(line.rstrip("\n"))), file=answers, flush=True)


# In the parent.


def sample(path: Path) -> None:
    """Write a file without compression that has a branch of every shape, two trees, and names of all kinds."""
    import awkward as ak
    import numpy as np

    import sapwood

    n = 40
    lists = ak.unflatten(np.arange(60, dtype=np.float32), [i % 4 for i in range(n)])
    with sapwood.recreate(path, compression=None) as file:
        file["t"] = {
            "i": np.arange(n, dtype=np.int32),
            "x": np.linspace(0, 1, 2 * n).reshape(n, 2),
            "b": np.arange(n) % 3 == 0,
            "v": lists,
            "s": [f"text {i}" for i in range(n)],
            "r": ak.zip({"pt": lists, "q": lists}),
            "vv": ak.Array([[[1, 2], []], [[3]]] * (n // 2)),
        }
        file["folder/u"] = {"k": np.arange(5, dtype=np.int16)}
        file["folder/text"] = "some text"
        file["h"] = np.histogram(np.arange(10.0), bins=5)
        file["hh"] = np.histogram2d(np.arange(10.0), np.arange(10.0), bins=3)


def opened(data: bytes) -> tuple[bytes, int]:
    """Append the zlib-compressed objects of a file again, without compression, and let its keys refer to them.

    Returns the file and the offset of the first of them. The class descriptions are one of them; baskets are not.
    """
    out = bytearray(data)
    at, seek_info = struct.unpack(">i", data[8:12])[0], struct.unpack(">i", data[37:41])[0]
    while data[:4] == b"root" and at + 26 < len(data):
        length, version, size, _, header = struct.unpack(">ihiih", data[at : at + 16])
        name = data[at + 27 : at + 27 + data[at + 26]]
        packed = data[at + header : at + length]
        if length > 0 and version < 1000 and packed[:2] == b"ZL" and name != b"TBasket":
            content, place = b"", 0
            while len(content) < size:
                end = place + 9 + int.from_bytes(packed[place + 3 : place + 6], "little")
                content, place = content + zlib.decompress(packed[place + 9 : end]), end
            head = bytearray(data[at : at + header])
            head[:4], head[18:22] = (header + size).to_bytes(4, "big"), len(out).to_bytes(4, "big")
            listed = data.find(data[at : at + 26], at + 26)
            if at == seek_info:
                out[37:45] = head[18:22] + head[:4]
            elif listed > 0:
                out[listed : listed + 22] = head[:22]
            if at == seek_info or listed > 0:
                out += head + content
        at += max(abs(length), 1)
    out[12:16] = len(out).to_bytes(4, "big")
    return bytes(out), len(data)


def samples(folder: Path, given: list[Path]) -> dict[str, bytes]:
    """Return the files to mutate by name: those given, or the sample and the golden files."""
    if given:
        found = {path.name: path.read_bytes() for path in given}
    else:
        path = folder / "sample.root"
        sample(path)
        found = {"sample": path.read_bytes()}
        for golden in sorted([*GOLDEN.glob("*/*.root"), *GOLDEN.glob("*/*.rz")]):
            found[f"{golden.parent.name}/{golden.stem}"] = golden.read_bytes()
    for name, data in list(found.items()):
        content, first = opened(data)
        if len(content) > first:
            found[f"{name}, opened"] = content
            OPENED[f"{name}, opened"] = first
    return found


def steps_of(seed: int, number: int, contents: dict[str, bytes]) -> tuple[str, list[mutate.Step]]:
    """Choose a file and its damage; files without compression, in which more is hit, are taken more often."""
    names = list(contents)
    favoured = [name for name in ("sample", "objects/plain", "ntuple/plain") if name in contents]
    name = favoured[number // 2 % len(favoured)] if favoured and number % 2 else names[number // 2 % len(names)]
    other = names[(number * 7 + 1) % len(names)]
    data, seed = contents[name], seed * 1_000_003 + number
    first = OPENED.get(name)
    if first is None:
        return name, mutate.steps(data, contents[other], seed)
    # Nothing is inserted or cut out, so that all lengths stay right.
    found = mutate.steps(data[first:], contents[other], seed)
    same = [mutate.Step(first + one.at, len(one.new), one.new) for one in found if one.new]
    return name, [one for one in same if one.at + one.length <= len(data)]


def reason(finding: str) -> str:
    """Return what tells findings apart: the last place in the package, and the error without its numbers."""
    places = re.findall(r'sapwood/([\w/]+\.py)", line (\d+)', finding)
    last = finding.strip().splitlines()[-1]
    return f"{':'.join(places[-1]) if places else ''} {re.sub(r'[0-9]+', 'N', last)[:80]}"


def main() -> int:
    """Mutate and read until the number or the time is reached; the exit code is 1 if anything was found."""
    parser = argparse.ArgumentParser(description="Mutate files and make every public call that reads them.")
    parser.add_argument("files", nargs="*", type=Path, help="files to mutate (default: a sample and the golden files)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=1 << 62, help="stop after this many")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--replay", metavar="SEED:NUMBER", help="read one input again, and print what it finds")
    chosen = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        contents = samples(folder, chosen.files)
        intact = folder / "intact.root"
        intact.write_bytes(next(iter(contents.values())))
        worker = guards.Guard(intact, folder / "mutated.root", MEMORY, SECONDS, [__file__, "--child"])
        if chosen.replay:
            seed, number = map(int, chosen.replay.split(":"))
            name, steps = steps_of(seed, number, contents)
            print(name, steps)
            answer = worker.read(mutate.apply(contents[name], steps))
            print("\n".join(wrong(answer)) or "no findings")
            worker.end()
            return bool(wrong(answer))
        found: dict[str, int] = {}
        number = calls = refused = 0
        while number < chosen.mutations and time.monotonic() - begin < chosen.seconds:
            name, steps = steps_of(chosen.seed, number, contents)
            answer = worker.read(mutate.apply(contents[name], steps))
            calls, refused = calls + answer.get("calls", 0), refused + answer.get("refused", 0)
            for one in wrong(answer):
                why = reason(one)
                found[why] = found.get(why, 0) + 1
                if found[why] == 1:
                    keep(worker, contents[name], steps, why, f"{chosen.seed}-{number}")
                    print(f"--- {chosen.seed}:{number} {name}\n{one}", flush=True)
            number += 1
        worker.end()
    print(f"{number} mutated files, {calls} calls, {refused} of them refused with an error of sapwood")
    for why, count in sorted(found.items(), key=lambda one: -one[1]):
        print(f"{count:6} {why}")
    return bool(found)


def wrong(answer: dict[str, Any]) -> list[str]:
    """List what is wrong with an answer."""
    return [answer["escaped"]] if "escaped" in answer else answer["findings"]


def keep(worker: guards.Guard, data: bytes, steps: list[mutate.Step], why: str, name: str) -> None:
    """Write a finding to a file, without the steps that it does not need."""
    for step in list(steps):
        fewer = [one for one in steps if one is not step]
        if fewer and any(reason(one) == why for one in wrong(worker.read(mutate.apply(data, fewer)))):
            steps = fewer
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / f"surface-{name}.root").write_bytes(mutate.apply(data, steps))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child()
    else:
        sys.exit(main())
