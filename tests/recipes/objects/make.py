"""Run inside ROOT: build the library of this folder, write its files, and say what ROOT itself reads from them.

make.py FOLDER writes FOLDER/*.root, FOLDER/shapes.json: {file: {key: object in ROOT's JSON form, or null}}, and
FOLDER/events.json: {tree/branch: [object of each entry]} of events.root. The tree in hidden.root is not part of that.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

HERE = Path(__file__).resolve().parent


def build(out: Path) -> Path:
    """Compile the classes with their dictionary and the writer."""
    root = Path(ROOT.__file__).parent
    includes = ["-I.", f"-I{HERE}", f"-I{root}/include"]
    dictionary = [f"{root}/bin/rootcling", "-f", "dict.cxx", "-rml", "libshapes.so", "-rmf", "libshapes.rootmap"]
    subprocess.run([*dictionary, f"-I{HERE}", "shapes.h", f"{HERE}/linkdef.h"], cwd=out, check=True)
    compile_ = ["g++", "-O1", "-std=c++20", "-w", "-fPIC", "-shared", *includes, "-o", "libshapes.so", "dict.cxx"]
    libraries = [f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-lCore", "-lRIO", "-lPhysics", "-lTree"]
    subprocess.run([*compile_, f"{HERE}/write.cpp", *libraries], cwd=out, check=True)
    return out / "libshapes.so"


def load(library: Path) -> None:
    """Load what `build` made."""
    ROOT.gInterpreter.AddIncludePath(str(HERE))
    if ROOT.gSystem.Load(str(library)) != 0:
        raise RuntimeError(f"cannot load {library}")
    ROOT.gInterpreter.Declare(f'#include "{HERE}/shapes.h"')
    ROOT.gInterpreter.Declare(
        "void write_shapes(const std::string &, bool); void write_hidden(const std::string &);"
        "void write_events(const std::string &);"
    )
    declare_json()


def declare_json() -> None:
    """Tell ROOT how to give an object as JSON."""
    ROOT.TBufferJSON.SetFloatFormat("%.9g")
    ROOT.TBufferJSON.SetDoubleFormat("%.17g")
    ROOT.gInterpreter.Declare(
        '#include "TBranchElement.h"\n#include "TBufferJSON.h"\n#include "TKey.h"\n#include "TTree.h"\n'
        "std::string key_as_json(TKey *key) { TClass *c = TClass::GetClass(key->GetClassName());"
        " void *object = c ? key->ReadObjectAny(c) : nullptr;"
        ' if (!object) return "null"; return TBufferJSON::ConvertToJSON(object, c, 3).Data(); }'
        "std::string entry_as_json(TTree *tree, int at, Long64_t entry) {"
        " auto branch = dynamic_cast<TBranchElement *>(tree->GetListOfBranches()->At(at));"
        ' TClass *c = branch ? TClass::GetClass(branch->GetClassName()) : nullptr; if (!c) return "null";'
        ' branch->GetEntry(entry); if (!branch->GetObject()) return "null";'
        " return TBufferJSON::ConvertToJSON(branch->GetObject(), c, 3).Data(); }"
    )


def as_json(path: Path) -> dict[str, Any]:
    """Return every object of a file as ROOT's JSON."""
    file = ROOT.TFile.Open(str(path))
    keys = [key for key in file.GetListOfKeys() if str(key.GetClassName()) != "TTree"]
    return {str(key.GetName()): json.loads(str(ROOT.key_as_json(key))) for key in keys}


def trees_as_json(path: Path, only: str = "", entries: int = 10) -> dict[str, list[Any]]:
    """Return what the topmost branches of all trees, or one, hold at first as ROOT's JSON: {tree/branch: [...]}."""
    file = ROOT.TFile.Open(str(path))
    found = {}
    trees = [str(key.GetName()) for key in file.GetListOfKeys() if str(key.GetClassName()) == "TTree"]
    for name in [only] if only else trees:
        tree = file.Get(name)
        for at, branch in enumerate(tree.GetListOfBranches()):
            texts = [str(ROOT.entry_as_json(tree, at, i)) for i in range(min(entries, tree.GetEntries()))]
            found[f"{name}/{branch.GetName()}"] = [json.loads(text) for text in texts]
    return found


def main() -> None:
    """Write the files and what ROOT reads from them."""
    folder = Path(sys.argv[1]).resolve()
    load(build(folder))
    expected = {}
    for name, member_wise in (("memberwise", True), ("objectwise", False)):
        ROOT.write_shapes(str(folder / f"{name}.root"), member_wise)
        expected[f"{name}.root"] = as_json(folder / f"{name}.root")
    ROOT.write_hidden(str(folder / "hidden.root"))
    ROOT.write_events(str(folder / "events.root"))
    (folder / "events.json").write_text(json.dumps(trees_as_json(folder / "events.root")))
    (folder / "shapes.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
