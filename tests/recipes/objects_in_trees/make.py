"""Run inside ROOT: build the libraries of this folder, write its files, and say what ROOT itself reads from them.

make.py FOLDER writes FOLDER/*.root and FOLDER/expected.json: {file: {tree: [object in ROOT's JSON form] or null}}. The
trees of one file may hold two versions of a class; the file of both was merged from them without unpacking.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SHAPES = HERE.parent / "objects"


def build(out: Path, name: str, headers: list[Path], linkdefs: list[Path], sources: list[Path], *flags: str) -> Path:
    """Compile classes with their dictionary and the functions that write them."""
    import ROOT

    root = Path(ROOT.__file__).parent
    out = out / name
    out.mkdir()
    includes = [*flags, f"-I{HERE}", f"-I{SHAPES}"]
    dictionary = [f"{root}/bin/rootcling", "-f", "dict.cxx", "-rml", f"{name}.so", "-rmf", f"{name}.rootmap"]
    (out / "linkdef.h").write_text("".join(path.read_text() for path in linkdefs))
    subprocess.run([*dictionary, *includes, *(path.name for path in headers), out / "linkdef.h"], cwd=out, check=True)
    compile_ = ["g++", "-O0", "-std=c++20", "-w", "-fPIC", "-shared", *includes, "-I.", f"-I{root}/include"]
    names = ("Core", "RIO", "Tree", "Hist", "Physics", "Matrix", "Smatrix", "ROOTVecOps")
    libraries = [f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", *(f"-l{library}" for library in names)]
    subprocess.run([*compile_, "dict.cxx", *sources, "-o", f"{name}.so", *libraries], cwd=out, check=True)
    return out / f"{name}.so"


def build_trees(out: Path) -> Path:
    """Compile the classes that stay as they are."""
    headers, sources = [SHAPES / "shapes.h", HERE / "more.h"], [SHAPES / "write.cpp", HERE / "write.cpp"]
    return build(out, "libmore", headers, [SHAPES / "linkdef.h", HERE / "linkdef.h"], sources)


def build_version(out: Path, version: int) -> Path:
    """Compile one version of the classes that change."""
    parts = [HERE / "versions.h"], [HERE / "versions_linkdef.h"], [HERE / "versions.cpp"]
    return build(out, f"libversion{version}", *parts, f"-DVERSION={version}")


def load(library: Path) -> Any:
    """Load what `build` made."""
    warnings.simplefilter("ignore")
    import ROOT

    ROOT.gROOT.SetBatch(True)
    for folder in (HERE, SHAPES):
        ROOT.gInterpreter.AddIncludePath(str(folder))
    if ROOT.gSystem.Load(str(library)) != 0:
        raise RuntimeError(f"cannot load {library}")
    ROOT.TBufferJSON.SetFloatFormat("%.9g")
    ROOT.TBufferJSON.SetDoubleFormat("%.17g")
    trees = library.stem == "libmore"
    declared = '#include "more.h"\n' if trees else f'#define VERSION {library.stem[-1]}\n#include "versions.h"\n'
    ROOT.gInterpreter.Declare(
        declared + "#include <TBranchElement.h>\n#include <TBranchObject.h>\n#include <TBufferJSON.h>\n"
        "void write_trees(const std::string &, bool);"
        "void write_versions(const std::string &, const std::string &, bool);"
        "std::string entry_as_json(TBranch *branch, Long64_t entry) {"
        " auto *element = dynamic_cast<TBranchElement *>(branch); void *object = nullptr;"
        " if (!element) branch->SetAddress(&object);"
        " branch->GetTree()->GetEntry(entry);"
        " if (element) object = element->GetObject();"
        " TClass *type = TClass::GetClass(branch->GetClassName());"
        ' if (!object || !type) return "null"; return TBufferJSON::ConvertToJSON(object, type, 3).Data(); }'
    )
    return ROOT


def count(root: Any, path: Path, name: str) -> int:
    """Return the number of entries of a tree."""
    file = root.TFile.Open(str(path))
    return int(file.Get(name).GetEntries())


def as_json(root: Any, path: Path) -> dict[str, list[Any]]:
    """Return every entry of every tree as ROOT's JSON, null for a tree on which ROOT crashes."""
    file = root.TFile.Open(str(path))
    names = [str(key.GetName()) for key in file.GetListOfKeys() if str(key.GetClassName()) == "TTree"]
    file.Close()
    found = {}
    for name in names:
        out = path.with_suffix(".entries")
        child = os.fork()
        if child == 0:
            root.gSystem.ResetSignals()
            entries = []
            for entry in range(count(root, path, name)):
                # Into new objects: ROOT adds to collections that are there from the entry before.
                file = root.TFile.Open(str(path))
                branch = next(iter(file.Get(name).GetListOfBranches()))
                entries.append(json.loads(str(root.entry_as_json(branch, entry))))
            out.write_text(json.dumps(entries))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        found[name] = json.loads(out.read_text()) if status == 0 else None
        out.unlink(missing_ok=True)
    return found


def main() -> None:
    """Write the files and what ROOT reads from them. A step runs in a process of its own: FOLDER STEP LIBRARY."""
    folder = Path(sys.argv[1]).resolve()
    if len(sys.argv) == 2:
        trees, old, new = build_trees(folder), build_version(folder, 1), build_version(folder, 2)
        expected: dict[str, Any] = {}
        for step, library in (("trees", trees), ("old", old), ("new", new), ("merged", new)):
            subprocess.run([sys.executable, __file__, folder, step, library], check=True)
            for name, found in json.loads((folder / f"{step}.json").read_text()).items():
                expected.setdefault(name, {}).update(found)
        (folder / "expected.json").write_text(json.dumps(expected))
        return
    step, library = sys.argv[2], Path(sys.argv[3])
    root = load(library)
    found = {}
    for kind, member_wise in (("memberwise", True), ("objectwise", False)):
        if step == "trees":
            path = folder / f"{kind}.root"
            root.write_trees(str(path), member_wise)
            found[path.name] = as_json(root, path)
        elif step in ("old", "new"):
            # Both versions in one file, and each in a file of its own.
            path = folder / f"versions-{kind}.root"
            root.write_versions(str(path), step, member_wise)
            # Both are compared with the newer one in memory.
            found[path.name] = as_json(root, path) if step == "new" else {}
            root.write_versions(str(folder / f"{step}-{kind}.root"), "tree", member_wise)
        else:
            path = folder / f"merged-{kind}.root"
            merger = root.TFileMerger(False)
            merger.OutputFile(str(path), "RECREATE")
            for part in ("new", "old"):
                merger.AddFile(str(folder / f"{part}-{kind}.root"))
            merger.Merge()
            found[path.name] = as_json(root, path)
            for part in ("new", "old"):
                (folder / f"{part}-{kind}.root").unlink()
    (folder / f"{step}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
