"""Run inside ROOT: write a file with collections of EDM4hep, and what it holds.

make.py FOLDER writes FOLDER/edm4hep.root and FOLDER/expected.json: numbers of some members for each event.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EVENTS = 60


def build(out: Path) -> Path:
    """Compile the classes with their dictionary, and the function that writes them."""
    import ROOT

    root = Path(ROOT.__file__).parent
    dictionary = [f"{root}/bin/rootcling", "-f", "dict.cxx", "-rml", "libedm.so", "-rmf", "libedm.rootmap"]
    subprocess.run([*dictionary, f"-I{HERE}", "edm4hep.h", HERE / "linkdef.h"], cwd=out, check=True)
    libraries = [
        f"-L{root}/lib",
        f"-Wl,-rpath,{root}/lib",
        *(f"-l{name}" for name in ("Core", "RIO", "Tree", "MathCore")),
    ]
    compile_ = ["g++", "-O0", "-std=c++20", "-w", "-fPIC", "-shared", f"-I{HERE}", f"-I{root}/include"]
    subprocess.run([*compile_, "dict.cxx", HERE / "write.cpp", "-o", "libedm.so", *libraries], cwd=out, check=True)
    return out / "libedm.so"


def main(out: Path) -> None:
    """Write the file and the numbers."""
    library = build(out)
    import ROOT

    root: Any = ROOT
    root.gROOT.SetBatch(True)
    root.gInterpreter.AddIncludePath(str(HERE))
    if root.gSystem.Load(str(library)) != 0:
        raise RuntimeError(f"cannot load {library}")
    root.gInterpreter.Declare("#include <string>\nstd::string write_events(const std::string &, int);")
    (out / "expected.json").write_text(str(root.write_events(str(out / "edm4hep.root"), EVENTS)))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
