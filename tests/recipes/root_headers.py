"""Writes the table of ROOT's own classes and their headers, `python/sapwood/schema/root_headers.txt`.

Run it with a Python that has ROOT: `python tests/recipes/root_headers.py > python/sapwood/schema/root_headers.txt`.
A line is a class whose header has its name (``TH1F``: ``TH1F.h``), or a class, a tab and a header. A name that ends in
``<`` stands for all classes made of that template.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

# Libraries that need a display, a Python of their own or a network; none holds classes that are found in files.
LEFT_OUT = ("PyROOT", "cppyy", "CPyCppyy", "Gui", "GQt", "Eve", "Cling", "WebGui", "CefDisplay", "X3d", "TPython")
NOT_PERSISTENT = ("ROOT::Internal", "ROOT::Detail", "ROOT::Deprecated", "TMVA::", "std::", "ROOT::Meta")


def class_names() -> list[str]:
    """List every class that has a dictionary."""
    ROOT.gErrorIgnoreLevel = ROOT.kFatal
    for library in sorted((Path(ROOT.__file__).parent / "lib").glob("lib*.so")):
        if not any(part in library.name for part in LEFT_OUT):
            ROOT.gSystem.Load(str(library))
    ROOT.gInterpreter.Declare(
        '#include "TClassTable.h"\n'
        "std::vector<std::string> all_classes() { std::vector<std::string> found; TClassTable::Init();"
        " while (char *name = TClassTable::Next()) found.push_back(name); return found; }"
    )
    return sorted({str(name) for name in ROOT.all_classes()})


def main() -> None:
    """Print the table."""
    found: dict[str, str] = {}
    for name in class_names():
        if name.startswith(NOT_PERSISTENT):
            continue
        described = ROOT.TClass.GetClass(name, True, True)
        header = str(described.GetDeclFileName() or "") if described else ""
        if not header or header.startswith(("/", "TMVA")) or not header.endswith((".h", ".hxx")):
            continue
        short = name.split("<")[0] + "<" if "<" in name else name
        if ROOT.TClassEdit.IsSTLCont(name) == 0:
            found.setdefault(short, header)
    for name, header in sorted(found.items()):
        print(name if header == f"{name}.h" else f"{name}\t{header}")


if __name__ == "__main__":
    sys.exit(main())
