"""Run inside ROOT: write a tree of objects of one of two versions of a class. `versions.py FILE VERSION`."""

from __future__ import annotations

import sys

import ROOT

PART = {1: "struct Part { int q = 3; };", 2: "struct Part { double q = 4.5; float more = 1; };"}
MEMBERS = {
    1: "int a = 1; float b = 2.5; short three[3] = {1, 2, 3}; bool flag = true; int gone = 9;",
    2: "float b = 0.5; int a = 2; int three[3] = {4, 5, 6}; int flag = 7; long long added = 77;"
    ' std::string text = "new";',
}


def main(path: str, version: int) -> None:
    """Write three entries."""
    ROOT.gInterpreter.Declare(
        f"#include <vector>\n#include <string>\n#include <TObject.h>\n{PART[version]}\n"
        f"class Thing {{ public: {MEMBERS[version]} std::vector<Part> parts; Part part;"
        f" ClassDefInline(Thing, {version}) }};"
    )
    file = ROOT.TFile(path, "recreate")
    tree = ROOT.TTree("t", "")
    thing = ROOT.Thing()
    tree.Branch("thing", thing, 32000, 0)
    for i in range(3):
        thing.a = 10 * version + i
        thing.parts.resize(i)
        tree.Fill()
    tree.Write()
    file.Close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
