"""Makes trees with ROOT to which sapwood adds; says what ROOT finds in trees.

Usage: append.py make FILE | append.py look FILE TREE... `look` prints as JSON, for each tree: entries, clusters, bytes
of entries read one by one, number and sum of the values of each leaf, and what hangs on to the tree. What ROOT has to
say goes to standard error.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

MAKE = r"""
void make(const char *path)
{
   TFile file(path, "RECREATE");
   TTree tree("tree", "with much that hangs on to it");
   int n = 0;
   float list[10], pair[2];
   short small = 0;
   unsigned char byte = 0;
   Long64_t large = 0;
   char text[300];
   struct { int a; float b; } both;
   std::vector<float> floats;
   std::string word;
   tree.Branch("n", &n, "n/I");
   tree.Branch("list", list, "list[n]/F");
   tree.Branch("pair", pair, "pair[2]/F");
   tree.Branch("small", &small);
   tree.Branch("byte", &byte);
   tree.Branch("large", &large);
   tree.Branch("text", text, "text/C");
   tree.Branch("floats", &floats);
   tree.Branch("word", &word);
   tree.Branch("both", (void *)&both, "a/I:b/F");
   tree.SetAlias("twice", "2 * small");
   tree.GetUserInfo()->Add(new TNamed("first", "one"));
   tree.GetUserInfo()->Add(new TNamed("second", "two"));
   tree.SetAutoFlush(100);
   for (int i = 0; i < 250; ++i) {
      n = i % 5;
      for (int k = 0; k < n; ++k) list[k] = i + k;
      pair[0] = i, pair[1] = -i, small = i, byte = i, large = 1000000000LL * i;
      snprintf(text, sizeof text, "entry %d", i);
      floats.assign(i % 4, i);
      word = std::string(i % 20, 'w');
      both.a = i, both.b = i / 2.;
      tree.Fill();
      if (i == 150) tree.Write();
   }
   tree.Write();
   file.mkdir("d")->cd();
   TNtuple ntuple("ntuple", "", "a:b");
   for (int i = 0; i < 50; ++i) ntuple.Fill(i, 2 * i);
   ntuple.Write();
   file.Close();
}
"""


def look(path: str, name: str) -> dict[str, Any]:
    file = ROOT.TFile(path)
    tree = file.Get(name)
    entries = tree.GetEntries()
    borders, iterator = [], tree.GetClusterIterator(0)
    while (start := iterator.Next()) < entries:
        borders.append(start)
    found: dict[str, Any] = {
        "entries": entries,
        "clusters": borders,
        "bytes": sum(tree.GetEntry(i) for i in range(entries)),
        "recovered": bool(file.TestBit(ROOT.TFile.kRecovered)),
        "user": [[one.GetName(), one.GetTitle()] for one in tree.GetUserInfo()],
        "aliases": [one.GetName() for one in (tree.GetListOfAliases() or [])],
    }
    for leaf in tree.GetListOfLeaves():
        branch = leaf.GetBranch()
        assert branch.GetEntries() == entries
        top = branch.GetMother().GetName()
        own = leaf.GetName() if branch.GetListOfLeaves().GetEntries() > 1 else ""
        full = f"{top}.{own}" if own else branch.GetName()
        text = leaf.GetTypeName() in ("Char_t", "string")
        many = tree.Draw(f"Length$({full})" if leaf.GetTypeName() == "Char_t" else full, "", "goff")
        total = 0 if text else sum(tree.GetV1()[i] for i in range(many))
        found[full] = [many, total]
    file.Close()
    return found


if sys.argv[1] == "make":
    ROOT.gInterpreter.Declare(MAKE)
    ROOT.make(sys.argv[2])
else:
    print(json.dumps({name: look(sys.argv[2], name) for name in sys.argv[3:]}))
