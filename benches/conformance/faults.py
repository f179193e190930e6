"""Faults of other readers: scripts of a few lines, each run to find out whether the fault still exists.

The page `docs/other-readers.md` has the faults that still exist; the others are only counted.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from stacks import CATCH, frames  # noqa: E402

SECONDS = 300
"""Processor time for a script."""
READ = """import { inspect } from 'node:util';
import { openFile } from 'jsroot/io';
import { TSelector, treeProcess } from 'jsroot/tree';
import { rntupleProcess } from 'jsroot/rntuple';
const [path, name = 't', column = 'value'] = process.argv.slice(2), selector = new TSelector();
selector.addBranch(column, 'one');
selector.Process = function () { console.log('got', inspect(this.tgtobj.one, { breakLength: Infinity })); };
try {
  const table = await (await openFile(path)).readObject(name);
  await (table._typename === 'TTree' ? treeProcess : rntupleProcess)(table, selector, { numentries: 3 });
} catch (error) { console.log('got', String(error)); }
"""


class Fault(NamedTuple):
    """A fault: the expected result, a pattern of the actual one, and the scripts that show it."""

    reader: str
    title: str
    expected: str
    got: str
    """A regular expression that matches the output, or the end of the process, if the fault exists."""
    code: str
    """Python, or for jsroot the arguments of the script `READ`."""
    make: str = ""
    """Python that writes the file before, with sapwood."""
    root: str = ""
    """The same with ROOT."""
    files: tuple[str, ...] = ()
    """Public files that it takes."""
    note: str = ""


class Seen(NamedTuple):
    """A fault and the actual result."""

    fault: Fault
    output: str
    there: bool


_WRONG = r"[\w.]*(Error|Exception|UnknownInterpretation|CannotBeAwkward)\b|FATAL|Error in"


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run(command: Sequence[str], folder: Path, stack: Path | None = None) -> str:
    """Run a script; return its last output, or the way in which it ended."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", preexec_fn=_limit)
    lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
    if done.returncode < 0:
        text = stack.read_text(errors="replace") if stack is not None and stack.exists() else ""
        return f"the process ends: {frames(text) or f'signal {-done.returncode}'}"
    told = [line for line in lines if re.match(r"got\b(?! =)", line)]
    wrong = [place for place, line in enumerate(lines) if re.match(_WRONG, line)]
    error = [" ".join(lines[wrong[-1] :])] if wrong else []
    return " / ".join([*told[:4], *error]) or (lines[-1] if lines else "nothing")


def see(faults: Iterable[Fault], python: str, jsroot: Path | None, folders: Sequence[Path]) -> list[Seen]:
    """Run the scripts of the faults; `python` has ROOT and uproot."""
    public = {path.name: path for folder in folders for path in folder.resolve().rglob("*.root")}
    seen = []
    for fault in faults:
        if (fault.reader == "jsroot" and jsroot is None) or any(name not in public for name in fault.files):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            for name in fault.files:
                (folder / name).symlink_to(public[name])
            said = ""
            if fault.make:
                said = _run([sys.executable, "-W", "ignore", "-c", f"import sapwood\n{fault.make}"], folder)
            if fault.root:
                said = _run([python, "-W", "ignore", "-c", f"import ROOT\n{fault.root}"], folder)
            stack = folder / "stack"
            if fault.reader == "jsroot":
                script = jsroot.resolve() / "read.mjs"
                script.write_text(READ)
                output = _run(["node", str(script), *fault.code.split()], folder)
            else:
                script = folder / "script.py"
                script.write_text(fault.code)
                child = [str(Path(__file__).resolve()), "--child", fault.reader, str(script), str(stack)]
                output = _run([python, "-W", "ignore", *child], folder, stack)
            output = output.replace(f"{folder}/", "")
        there = re.search(fault.got, output) is not None
        if not there:
            print(f"not seen: {fault.reader}: {fault.title}: {output[:300]} {said[:300]}", file=sys.stderr)
        seen.append(Seen(fault, output, there))
    return seen


def child(reader: str, script: str, stack: str) -> None:
    """Run a script with the handlers that write the stack."""
    import faulthandler

    place = Path(stack).open("w")  # noqa: SIM115 - for the handlers, to the end
    if reader == "ROOT":
        import ROOT

        ROOT.gROOT.SetBatch(True)
        ROOT.gInterpreter.Declare(CATCH)
        ROOT.catch_death(place.fileno())
    else:
        faulthandler.enable(place, all_threads=False)
    exec(compile(Path(script).read_text(), script, "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:5])
