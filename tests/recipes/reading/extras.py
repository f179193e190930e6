"""Run inside ROOT: write a tree with aliases, friends, an index, a weight and user information. Argument: OUTPUT."""

from __future__ import annotations

import sys

import ROOT

ROOT.gInterpreter.Declare("""
TTree *made(const char *name, int entries, bool index) {
  auto tree = new TTree(name, "title");
  static int run, event;
  static float x;
  tree->Branch("run", &run, "run/I");
  tree->Branch("event", &event, "event/I");
  tree->Branch("x", &x, "x/F");
  for (int i = 0; i < entries; ++i) {
    run = i / 10;
    event = (i * 7) % 60;
    x = i;
    tree->Fill();
  }
  if (index) tree->BuildIndex("run", "event");
  return tree;
}
void write(const char *path) {
  TFile file(path, "recreate");
  made("by_index", 60, true)->Write();
  made("by_number", 60, false)->Write();
  auto tree = made("t", 60, true);
  tree->SetAlias("twice", "2*x");
  tree->SetAlias("four", "2*twice");
  tree->SetWeight(2.5);
  tree->GetUserInfo()->Add(new TNamed("lumi", "7"));
  tree->GetUserInfo()->Add(new TParameter<double>("scale", 0.5));
  auto histogram = new TH1F("h", "", 3, 0, 3);
  histogram->SetDirectory(nullptr);
  histogram->Fill(1.5);
  tree->GetUserInfo()->Add(histogram);
  tree->AddFriend("by_index");
  tree->AddFriend("by_number");
  tree->Write();
  file.Close();
}
""")
ROOT.write(sys.argv[1])
