"""The guarded process: reads whatever file it is told to, and says what came of it.

Takes one path a line on standard input and answers with one line of JSON: {"trees": {key: {"entries": n, "branches":
{name: digest}}}, "objects": {key: digest}} with null for each thing that was refused with an error of sapwood's, or
{"escaped": ...} for any other exception. Its address space may grow by the bytes given on the command line and no more.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import resource
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import awkward as ak

import sapwood
from sapwood.errors import SapwoodError
from sapwood.objects.model import to_json

warnings.simplefilter("ignore")


def digest(array: ak.Array) -> str:
    """Return a hash of the values, as they lie in memory: equal readings lay them out in the same way."""
    form, length, buffers = ak.to_buffers(array)
    state = hashlib.sha256(f"{form.to_json()} {length}".encode())
    for name in sorted(buffers):
        state.update(buffers[name].tobytes())
    return state.hexdigest()[:16]


def read_tree(tree: Any) -> dict[str, Any]:
    """Read every branch by itself, then all at once."""
    branches: dict[str, str | None] = {}
    for name in tree.keys(recursive=True, full_paths=True):
        try:
            branches[name] = digest(tree[name].array())
        except SapwoodError:
            branches[name] = None
    with contextlib.suppress(SapwoodError):
        tree.arrays()
    return {"entries": tree.num_entries, "branches": branches}


# What may be asked of an object without arguments, by any of the classes that have methods.
QUESTIONS = (
    "name", "title", "values", "variances", "errors", "counts", "axes", "to_numpy", "to_boost", "interval", "knots",
    "parameters", "coordinates", "contents", "keys", "items", "to_datetime", "value",
)  # fmt: skip
# What an object may answer whose members are no longer what its class expects: an axis without a number of bins, ...
ANSWERS = (SapwoodError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)


def read_object(found: Any) -> str:
    """Look at every member of an object, and ask it all there is to ask; give a hash of its members."""
    parts = found.unreadable() if isinstance(found, sapwood.Model) else []
    text = json.dumps([parts, to_json(found)], sort_keys=True, default=repr)
    for name in QUESTIONS:
        with contextlib.suppress(*ANSWERS):
            answer = getattr(found, name)
            if callable(answer):
                answer()
    with contextlib.suppress(*ANSWERS):
        for axis in found.axes:
            axis.edges()
            axis.labels()
    if callable(found):
        with contextlib.suppress(*ANSWERS):
            found(0.5)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read(path: str) -> dict[str, Any]:
    """Read all that a file offers."""
    trees: dict[str, Any] = {}
    others: dict[str, str | None] = {}
    try:
        with sapwood.open(path) as file:
            classes = file.classnames(recursive=True, cycle=True)
            for key, name in classes.items():
                if name in ("TTree", "TNtuple", "TNtupleD"):
                    try:
                        trees[key] = read_tree(file[key])
                    except SapwoodError:
                        trees[key] = None
                elif name not in ("TDirectory", "TDirectoryFile"):
                    try:
                        others[key] = read_object(file[key])
                    except SapwoodError:
                        others[key] = None
    except SapwoodError:
        return {"trees": None, "objects": None}
    return {"trees": trees, "objects": others}


def memory(field: str) -> int:
    """Return a size of this process from /proc, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise LookupError(field)


def main() -> None:
    """Answer until the input ends."""
    growth = int(sys.argv[1])
    # An intact file first: threads and modules are there now.
    print(json.dumps({**read(sys.argv[2]), "peak": memory("VmHWM")}), flush=True)
    limit = memory("VmSize") + growth
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        try:
            answer = read(line.rstrip("\n"))
        except BaseException:  # noqa: BLE001 - a panic, a MemoryError, an IndexError of ours: all are findings
            answer = {"escaped": traceback.format_exc()[-2000:]}
        answer["peak"] = memory("VmHWM")
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
