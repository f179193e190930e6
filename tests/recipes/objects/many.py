"""Run inside ROOT: write many histograms into one file. many.py COUNT FILE."""

from __future__ import annotations

import sys

import ROOT

ROOT.gInterpreter.Declare("""
void write_many(int count, const char *path)
{
   TH1::AddDirectory(false);
   TFile file(path, "RECREATE", "", 101);
   TRandom3 random(1);
   for (int i = 0; i < count; ++i) {
      TH1F h(TString::Format("h%06d", i), TString::Format("histogram %d", i), 100, -3, 3);
      for (int j = 0; j < 20; ++j)
         h.Fill(random.Gaus());
      h.Write();
   }
}
""")
ROOT.write_many(int(sys.argv[1]), sys.argv[2])
