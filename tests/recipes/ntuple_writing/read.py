"""Prints all entries of RNTuples as ROOT reads them.

Usage: read.py FILE:NAME... A line of JSON for each: the entries, and the number of entries of each cluster. What ROOT
has to say goes to standard error.
"""

from __future__ import annotations

import json
import sys
import warnings

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

ROOT.gInterpreter.Declare(r"""
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RNTupleDescriptor.hxx>
#include <sstream>
std::string entries(const std::string &name, const std::string &path) {
   ROOT::RNTupleReadOptions options;
   auto reader = ROOT::RNTupleReader::Open(name, path, options);
   std::ostringstream out;
   out.precision(17);
   out << "[";
   for (auto i : *reader) {
      if (i) out << ",";
      reader->Show(i, out);
   }
   out << "]";
   return out.str();
}
std::vector<ULong64_t> clusters(const std::string &name, const std::string &path) {
   auto reader = ROOT::RNTupleReader::Open(name, path);
   std::vector<ULong64_t> found;
   for (const auto &cluster : reader->GetDescriptor().GetClusterIterable()) found.push_back(cluster.GetNEntries());
   return found;
}
""")

for argument in sys.argv[1:]:
    path, _, name = argument.rpartition(":")
    found = json.loads(str(ROOT.entries(name, path)), strict=False)
    print(json.dumps({"entries": found, "clusters": sorted(ROOT.clusters(name, path))}))
