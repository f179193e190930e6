"""Run inside ROOT: build the classes of this folder, write their file, and say what ROOT itself reads from it.

make.py FOLDER writes FOLDER/odd.root and FOLDER/odd.json: {tree/branch: [object of each entry in ROOT's JSON form]}.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "objects"))
warnings.simplefilter("ignore")
import ROOT  # noqa: E402
from reread import declare_json, trees_as_json  # noqa: E402


def main() -> None:
    """Write the file and what ROOT reads from it."""
    folder = Path(sys.argv[1]).resolve()
    root = Path(ROOT.__file__).parent
    dictionary = [f"{root}/bin/rootcling", "-f", "dict.cxx", "-rml", "libodd.so", "-rmf", "libodd.rootmap"]
    subprocess.run([*dictionary, f"-I{HERE}", "odd.h", f"{HERE}/linkdef.h"], cwd=folder, check=True)
    compile_ = ["g++", "-O0", "-std=c++20", "-w", "-fPIC", "-shared", "-I.", f"-I{HERE}", f"-I{root}/include"]
    libraries = [f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-lCore", "-lRIO", "-lTree"]
    sources = ["dict.cxx", f"{HERE}/write.cpp", "-o", "libodd.so"]
    subprocess.run([*compile_, *sources, *libraries], cwd=folder, check=True)
    ROOT.gInterpreter.AddIncludePath(str(HERE))
    ROOT.gSystem.AddDynamicPath(str(folder))
    if ROOT.gSystem.Load(str(folder / "libodd.so")) != 0:
        raise RuntimeError("cannot load libodd.so")
    ROOT.gInterpreter.Declare(f'#include "{HERE}/odd.h"')
    declare_json()
    ROOT.write_odd(str(folder / "odd.root"))
    (folder / "odd.json").write_text(json.dumps(trees_as_json(folder / "odd.root")))


if __name__ == "__main__":
    main()
