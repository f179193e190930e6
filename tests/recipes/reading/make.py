"""Run inside ROOT: build the library of this folder, write its files, and say what ROOT itself reads from them.

make.py FOLDER writes FOLDER/*.root and FOLDER/expected.json: {file: {tree path: {"entries": n, "branches": {path:
[value of each entry]}}}}. Arrays of over 100,000 elements an entry are given as the SHA-256 of their native bytes.
Branches that are whole objects are left out.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
import numpy as np  # noqa: E402
import ROOT  # noqa: E402

HERE = Path(__file__).resolve().parent
FLOATS = {"Float_t", "Double_t", "Float16_t", "Double32_t", "float", "double"}
NOT_IN_FILE = ("fBits",)  # TObject sets kIsOnHeap and kNotDeleted when it is read


def build(out: Path) -> Path:
    """Compile the classes with their dictionary and the writer."""
    root = Path(ROOT.__file__).parent
    includes = ["-I.", f"-I{HERE}", f"-I{root}/include"]
    dictionary = [f"{root}/bin/rootcling", "-f", "dict.cxx", "-rml", "libtypes.so", "-rmf", "libtypes.rootmap"]
    subprocess.run([*dictionary, f"-I{HERE}", "types.h", f"{HERE}/linkdef.h"], cwd=out, check=True)
    compile_ = ["g++", "-O1", "-std=c++20", "-w", "-fPIC", "-shared", *includes, "-o", "libtypes.so", "dict.cxx"]
    libraries = [f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-lCore", "-lRIO", "-lTree"]
    subprocess.run([*compile_, f"{HERE}/write.cpp", *libraries], cwd=out, check=True)
    return out / "libtypes.so"


def load(library: Path) -> None:
    """Load what `build` made."""
    ROOT.gInterpreter.AddIncludePath(str(HERE))
    if ROOT.gSystem.Load(str(library)) != 0:
        raise RuntimeError(f"cannot load {library}")
    ROOT.gInterpreter.Declare(f'#include "{HERE}/types.h"')
    ROOT.gInterpreter.Declare(
        "template <typename T> std::vector<int> as_numbers(const T &v) { return {v.begin(), v.end()}; }"
        "void write_all(const std::string &); void cut_off(const std::string &, const char *, const char *);"
    )


def plain(value: Any) -> Any:
    """Turn what PyROOT gives for a string, number or collection into lists."""
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value
    name = type(value).__name__
    if name.startswith(("string", "TString", "basic_string")):
        return str(value)
    if name.startswith(("vector<char>", "vector<unsigned char>")):
        return [int(item) for item in ROOT.as_numbers(value)]  # PyROOT would make text of them
    return [plain(item) for item in value]


def shape(branch: Any, leaf: Any) -> list[int]:
    """Return the fixed dimensions of a leaf."""
    title = branch.GetName() if isinstance(branch, ROOT.TBranchElement) else leaf.GetTitle()
    return [int(size) for size in re.findall(r"\[(\d+)\]", str(title))]


def counted(branch: Any, leaf: Any) -> bool:
    """Whether the number of elements differs from entry to entry."""
    return bool(leaf.GetLeafCount()) or (isinstance(branch, ROOT.TBranchElement) and branch.GetType() in (31, 41))


def leaf_value(branch: Any, leaf: Any) -> Any:
    """Return the value of a leaf in the entry that is loaded."""
    if leaf.ClassName() == "TLeafC":
        codes = [int(leaf.GetValue(k)) & 255 for k in range(leaf.GetLen())]
        return bytes([*codes, 0]).split(b"\0")[0].decode("latin-1")
    dims, jagged = shape(branch, leaf), counted(branch, leaf)
    length = leaf.GetLen() if dims or jagged else 1
    if str(leaf.GetTypeName()) in FLOATS:
        values = [float(leaf.GetValue(k)) for k in range(length)]
    else:
        values = [int(leaf.GetValueLong64(k)) for k in range(length)]
        if str(leaf.GetTypeName()) in ("Bool_t", "bool"):
            values = [bool(value) for value in values]
        elif leaf.IsUnsigned():
            values = [value % 2**64 for value in values]
    for size in reversed(dims if jagged else dims[1:]):
        values = [values[k : k + size] for k in range(0, len(values), size)]
    return values if dims or jagged else values[0]


def is_number(branch: Any, leaf: Any) -> bool:
    """Whether a leaf holds plain numbers (or, a TLeafC, text)."""
    if not isinstance(branch, ROOT.TBranchElement):
        return leaf.ClassName() != "TLeafElement"
    kind = branch.GetStreamerType()  # TStreamerInfo::EReadWrite: basic types, plus 20 for fixed arrays
    return 0 < kind < 40 and kind != 7


def counted_member(tree: Any, name: str, counter: str) -> list[float]:
    """Return a counted array of the object that ROOT has filled (its leaf finds no counter with a dotted name)."""
    values, count = member(tree, name), member(tree, counter)
    return [float(values[k]) for k in range(count)]


def member(tree: Any, name: str) -> Any:
    """Return a string or collection of the entry that is loaded, from the object that ROOT has filled."""
    top = next(iter(tree.GetListOfBranches()))
    if tree.GetBranch(name) and name in {str(b.GetName()) for b in tree.GetListOfBranches()}:
        return getattr(tree, name)
    value = getattr(tree, str(top.GetName()).rstrip("."))
    for part in name.removeprefix(str(top.GetName())).split("."):
        value = getattr(value, part)
    return value


def branches(holder: Any, path: str = "") -> Any:
    """Return (path, branch) of every branch that has no branches below it."""
    for branch in holder.GetListOfBranches():
        below = f"{path}{branch.GetName()}"
        if branch.GetListOfBranches().GetEntries():
            yield from branches(branch, below + "/")
        else:
            yield below, branch


def read_tree(tree: Any) -> dict[str, Any]:
    """Read every branch that has a simple value."""
    values: dict[str, Any] = {}
    found = {}
    for path, branch in branches(tree):
        name = str(branch.GetName())
        leaf = branch.GetListOfLeaves()[0]
        composed = isinstance(branch, ROOT.TBranchElement) and not is_number(branch, leaf)
        if name.endswith(NOT_IN_FILE) or (composed and str(branch.GetClassName()) in ("Event", "map<int,double>")):
            continue
        found[path] = (branch, composed)
        values[path] = []
    for entry in range(tree.GetEntries()):
        tree.GetEntry(entry)
        for path, (branch, composed) in found.items():
            name = str(branch.GetName())
            leaves = list(branch.GetListOfLeaves())
            if composed and 40 <= branch.GetStreamerType() < 60:
                counter = f"{name[: name.rindex('.') + 1] if '.' in name else ''}fCount"
                value = counted_member(tree, name, counter)
            elif composed:
                value = plain(member(tree, name))
            elif leaves[0].GetLen() > 100_000:
                value = hashlib.sha256(np.array(getattr(tree, path)).tobytes()).hexdigest()
            elif len(leaves) == 1:
                value = leaf_value(branch, leaves[0])
            else:
                value = {str(leaf.GetName()): leaf_value(branch, leaf) for leaf in leaves}
            values[path].append(value)
    return {"entries": int(tree.GetEntries()), "branches": values}


def trees(directory: Any, path: str = "") -> Any:
    """Return (path with cycle, tree) of every tree."""
    for key in directory.GetListOfKeys():
        if str(key.GetClassName()).startswith("TDirectory"):
            yield from trees(key.ReadObj(), f"{path}{key.GetName()}/")
        else:
            yield f"{path}{key.GetName()};{key.GetCycle()}", key.ReadObj()


def cut_off(library: Path, folder: Path, name: str, option: str) -> None:
    """Write a file in a process that ends without closing it."""
    code = f"import make, ROOT; make.load({str(library)!r}); ROOT.cut_off({str(folder)!r}, {name!r}, {option!r})"
    subprocess.run([sys.executable, "-c", code], cwd=HERE, check=True)


def main() -> None:
    """Write the files and what ROOT reads from them."""
    folder = Path(sys.argv[1]).resolve()
    library = build(folder)
    load(library)
    ROOT.write_all(str(folder))
    cut_off(library, folder, "cut-saved", "SaveSelf")
    cut_off(library, folder, "cut-recovered", "")
    expected: dict[str, Any] = {}
    for path in sorted(folder.glob("*.root")):
        file = ROOT.TFile.Open(str(path))
        # Of entries that the tree does not count, GetEntry of the tree knows nothing.
        counted = ((place, tree) for place, tree in trees(file) if tree.GetTitle() != "branches filled alone")
        expected[path.name] = {place: read_tree(tree) for place, tree in counted}
    (folder / "expected.json").write_text(json.dumps(expected))


if __name__ == "__main__":
    main()
