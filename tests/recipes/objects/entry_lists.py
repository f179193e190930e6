"""Writes tests/golden/objects/entry_lists.root: a list of entries, and one of events.

Usage: python entry_lists.py OUTPUT.root (with ROOT)
"""

from __future__ import annotations

import sys

import ROOT

file = ROOT.TFile(sys.argv[1], "RECREATE")
chosen = ROOT.TEntryList("chosen", "of a tree", "t", "one.root")
for entry in (1, 5, 70_000):
    chosen.Enter(entry)
chosen.Write()
events = ROOT.TEventList("events", "x > 3")
for entry in (2, 4, 9):
    events.Enter(entry)
events.Write()
file.Close()
