"""Reads what killed writers left, with ROOT.

Usage: survivors.py FOLDER COUNT. Prints the entries of `d/t` in each FOLDER/N.root, after comparing all of its values
with what `killed.py` writes. What ROOT has to say goes to standard error.
"""

from __future__ import annotations

import sys
import warnings

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

ROOT.gInterpreter.Declare(r"""
Long64_t check(const char *path) {
   TFile file(path);
   if (file.IsZombie() || file.TestBit(TFile::kRecovered)) return -1;
   auto *tree = file.Get<TTree>("d/t");
   if (!tree) return file.Get("d") ? 0 : -2;
   TTreeReader reader(tree);
   TTreeReaderValue<Long64_t> x(reader, "x");
   TTreeReaderArray<Long64_t> j(reader, "j");
   TTreeReaderValue<float> a(reader, "a");
   TTreeReaderValue<std::vector<Long64_t>> b(reader, "b");
   Long64_t i = 0;
   for (; reader.Next(); ++i) {
      if (*x != i || j.GetSize() != size_t(i % 5) || b->size() != size_t(i % 5) || *a != float(i)) return -3;
      for (auto one : j) if (one != i) return -4;
      for (auto one : *b) if (one != i) return -5;
   }
   return i == tree->GetEntries() ? i : -6;
}
""")
for i in range(int(sys.argv[2])):
    print(ROOT.check(f"{sys.argv[1]}/{i}.root"), flush=True)
