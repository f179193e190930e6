"""Has ROOT work on RNTuples.

Usage: read.py JOB... What ROOT has to say goes to standard error. Jobs:

FILE:NAME
    Print a line of JSON: the entries of an RNTuple, and the number of entries of each cluster.
attributes:FILE:NAME:SET
    Print a line of JSON: the ranges of an attribute set, and what is said of each.
import:FILE:TREE:TARGET
    Import a tree, with ROOT's importer.
merge:TARGET:FILE:FILE
    Merge two files, as hadd does.
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
#include <ROOT/RNTupleAttrReading.hxx>
#include <ROOT/RNTupleImporter.hxx>
#include <TFileMerger.h>
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
std::string attributes(const std::string &name, const std::string &path, const std::string &set) {
   auto reader = ROOT::RNTupleReader::Open(name, path);
   auto attributes = reader->OpenAttributeSet(set);
   auto entry = attributes->CreateEntry();
   std::ostringstream out;
   out << "[";
   bool first = true;
   for (auto index : attributes->GetAttributes()) {
      auto range = attributes->LoadEntry(index, *entry);
      out << (first ? "" : ",") << "[" << range.GetStart() << "," << range.GetEnd() << ",{";
      first = false;
      bool inner = true;
      for (auto &value : *entry) {
         out << (inner ? "" : ",") << '"' << value.GetField().GetFieldName() << "\":";
         inner = false;
         auto type = value.GetField().GetTypeName();
         if (type == "bool") out << (value.GetRef<bool>() ? "true" : "false");
         else if (type == "std::int32_t") out << value.GetRef<int>();
         else if (type == "double") out << value.GetRef<double>();
         else if (type == "std::string") out << '"' << value.GetRef<std::string>() << '"';
         else out << "null";
      }
      out << "}]";
   }
   out << "]";
   return out.str();
}
void import_tree(const std::string &path, const std::string &tree, const std::string &target) {
   auto importer = ROOT::Experimental::RNTupleImporter::Create(path, tree, target);
   importer->SetIsQuiet(true);
   importer->Import();
}
bool merge(const std::string &target, const std::string &first, const std::string &second) {
   TFileMerger merger(false);
   merger.OutputFile(target.c_str());
   merger.AddFile(first.c_str());
   merger.AddFile(second.c_str());
   return merger.Merge();
}
std::vector<ULong64_t> clusters(const std::string &name, const std::string &path) {
   auto reader = ROOT::RNTupleReader::Open(name, path);
   std::vector<ULong64_t> found;
   for (const auto &cluster : reader->GetDescriptor().GetClusterIterable()) found.push_back(cluster.GetNEntries());
   return found;
}
""")

for argument in sys.argv[1:]:
    job, *rest = argument.split(":")
    if job == "attributes":
        print(ROOT.attributes(rest[1], rest[0], rest[2]))
        continue
    if job == "import":
        ROOT.import_tree(*rest)
        continue
    if job == "merge":
        assert ROOT.merge(*rest)
        continue
    path, _, name = argument.rpartition(":")
    found = json.loads(str(ROOT.entries(name, path)), strict=False)
    print(json.dumps({"entries": found, "clusters": sorted(ROOT.clusters(name, path))}))
