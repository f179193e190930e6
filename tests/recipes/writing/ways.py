"""Reads the tree `t` of files in all the ways that ROOT has, merges each file with itself, and goes on with it.

Usage: ways.py FOLDER FILE... Prints as JSON, for each file: sums by TTreeReader, by RDataFrame, by RDataFrame of the
merged file, the number of baskets of the file and of the merged one. What ROOT has to say goes to standard error.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

# Compiled once: expressions in text would be compiled for each file.
ROOT.gInterpreter.Declare(r"""
#include <ROOT/RDataFrame.hxx>
#include <TTreeReader.h>
#include <TTreeReaderArray.h>
#include <TTreeReaderValue.h>
using Floats = ROOT::RVec<float>;
using Lists = std::vector<std::vector<float>>;

std::vector<double> by_reader(const char *path, bool split)
{
   TFile file(path);
   TTreeReader reader("t", &file);
   TTreeReaderValue<double> x(reader, "x");
   TTreeReaderValue<bool> b(reader, "b");
   TTreeReaderValue<short> n(reader, "n");
   TTreeReaderArray<float> j(reader, "j");
   TTreeReaderArray<int> fixed(reader, "fixed");
   TTreeReaderValue<Lists> vv(reader, "vv");
   std::unique_ptr<TTreeReaderArray<double>> y;
   if (split) y.reset(new TTreeReaderArray<double>(reader, "points.y"));
   std::vector<double> sums(7);
   while (reader.Next()) {
      sums[0] += *x, sums[1] += *b, sums[2] += *n;
      for (auto one : j) sums[3] += one;
      for (auto one : fixed) sums[4] += one;
      for (auto &list : *vv) for (auto one : list) sums[5] += one;
      if (y) for (auto one : *y) sums[6] += one;
   }
   if (reader.GetEntryStatus() != TTreeReader::kEntryBeyondEnd) throw std::runtime_error("reading stopped");
   return sums;
}

std::vector<double> by_frame(const char *path, bool split)
{
   ROOT::RDataFrame frame("t", path);
   auto sum = [](const auto &values) { double all = 0; for (auto one : values) all += one; return all; };
   auto floats = [=](const Floats &values) { return sum(values); };
   auto ints = [=](const ROOT::RVec<int> &values) { return sum(values); };
   auto doubles = [=](const ROOT::RVec<double> &values) { return sum(values); };
   auto lists = [=](const Lists &values) { double all = 0; for (auto &one : values) all += sum(one); return all; };
   std::vector<ROOT::RDF::RResultPtr<double>> results{
      frame.Sum<double>("x"),
      frame.Define("db", [](bool b) { return double(b); }, {"b"}).Sum<double>("db"),
      frame.Define("dn", [](short n) { return double(n); }, {"n"}).Sum<double>("dn"),
      frame.Define("dj", floats, {"j"}).Sum<double>("dj"),
      frame.Define("df", ints, {"fixed"}).Sum<double>("df"),
      frame.Define("dv", lists, {"vv"}).Sum<double>("dv")};
   if (split) results.push_back(frame.Define("dy", doubles, {"points.y"}).Sum<double>("dy"));
   std::vector<double> sums;
   for (auto &one : results) sums.push_back(*one);
   sums.resize(7);
   return sums;
}
""")


def baskets(path: str) -> int:
    file = ROOT.TFile(path)
    count = sum(branch.GetWriteBasket() for branch in file.Get("t").GetListOfBranches())
    file.Close()
    return count


def look(path: str, folder: Path) -> dict[str, Any]:
    split = "split0" not in path
    found: dict[str, Any] = {
        "reader": list(ROOT.by_reader(path, split)),
        "frame": list(ROOT.by_frame(path, split)),
        "baskets": baskets(path),
    }
    file = ROOT.TFile(path)
    ROOT.gROOT.ProcessLine(".> /dev/null")
    tree = file.Get("t")
    tree.SetScanField(0)
    tree.Scan("x:b:n:j:fixed:text:vv" + (":points.y:points.k" if split else ""), "", "", 20)
    ROOT.gROOT.ProcessLine(".>")
    merged = str(folder / "merged.root")
    merger = ROOT.TFileMerger(False)
    merger.SetFastMethod(True)
    merger.OutputFile(merged, "RECREATE", file.GetCompressionSettings())
    file.Close()
    for _ in range(2):
        merger.AddFile(path, False)
    if not merger.Merge():
        raise SystemExit(f"{path} cannot be merged")
    found["merged"] = list(ROOT.by_frame(merged, split))
    found["merged_baskets"] = baskets(merged)
    file = ROOT.TFile(path, "UPDATE")
    tree = file.Get("t")
    tree.SetAlias("twice", "2 * x")
    tree.Write("", ROOT.TObject.kOverwrite)
    ROOT.TNamed("by_root", "afterwards").Write()
    file.Close()
    return found


folder, *paths = sys.argv[1:]
print(json.dumps({Path(path).name: look(path, Path(folder)) for path in paths}))
