"""Has ROOT work on RNTuples.

Usage: read.py JOB... What ROOT has to say goes to standard error. Jobs:

FILE:NAME
    Print a line of JSON: the entries of an RNTuple, and the number of entries of each cluster.
views:FILE:NAME
    Print a line of JSON: the values of all numbers, strings, lists of numbers, and sizes. ROOT 6.40 cannot print the
    entries of RNTuples with sizes.
variants:FILE:NAME:FIELD
    Print a line of JSON: the values of a variant of real numbers and strings, or of lists of integers and strings.
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
#include <variant>
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
template <typename T> std::enable_if_t<std::is_arithmetic_v<T>> put(std::ostream &out, T value) { out << +value; }
template <typename T> void put(std::ostream &out, ROOT::RNTupleCardinality<T> value) { out << T(value); }
void put(std::ostream &out, const std::string &value) { out << '"' << value << '"'; }
template <typename... T> void put(std::ostream &out, const std::variant<T...> &value) {
   std::visit([&](const auto &one) { put(out, one); }, value);
}
template <typename T> void put(std::ostream &out, const std::vector<T> &values);
template <typename T> void put(std::ostream &out, const ROOT::RVec<T> &values);
template <typename T> void put_list(std::ostream &out, const T &values) {
   out << "[";
   for (std::size_t i = 0; i < values.size(); ++i) {
      out << (i ? "," : "");
      put(out, static_cast<const typename T::value_type &>(values[i]));
   }
   out << "]";
}
template <typename T> void put(std::ostream &out, const std::vector<T> &values) { put_list(out, values); }
template <typename T> void put(std::ostream &out, const ROOT::RVec<T> &values) { put_list(out, values); }
template <typename T> std::string values(ROOT::RNTupleReader &reader, const std::string &field) {
   auto view = reader.GetView<T>(field);
   std::vector<T> found;
   for (auto i : reader) found.push_back(view(i));
   std::ostringstream out;
   out.precision(17);
   put(out, found);
   return out.str();
}
std::string variants(const std::string &path, const std::string &name, const std::string &field) {
   auto reader = ROOT::RNTupleReader::Open(name, path);
   using Number = std::variant<double, std::string>;
   using Item = std::variant<std::string, std::int64_t>;
   return field == "union" ? values<Number>(*reader, field) : values<std::vector<Item>>(*reader, field);
}
template <typename T> struct Kind { using type = T; };
template <typename Show> bool show_as(const std::string &kind, const Show &show) {
   if (kind == "bool") show(Kind<bool>());
   else if (kind == "std::uint8_t") show(Kind<std::uint8_t>());
   else if (kind == "std::int16_t") show(Kind<std::int16_t>());
   else if (kind == "std::uint16_t") show(Kind<std::uint16_t>());
   else if (kind == "std::int32_t") show(Kind<std::int32_t>());
   else if (kind == "std::uint32_t") show(Kind<std::uint32_t>());
   else if (kind == "std::int64_t") show(Kind<std::int64_t>());
   else if (kind == "std::uint64_t") show(Kind<std::uint64_t>());
   else if (kind == "float") show(Kind<float>());
   else if (kind == "double") show(Kind<double>());
   else if (kind == "std::string") show(Kind<std::string>());
   else if (kind == "ROOT::VecOps::RVec<std::int16_t>") show(Kind<ROOT::RVec<std::int16_t>>());
   else if (kind == "ROOT::VecOps::RVec<float>") show(Kind<ROOT::RVec<float>>());
   else if (kind == "ROOT::VecOps::RVec<double>") show(Kind<ROOT::RVec<double>>());
   else if (kind == "ROOT::RNTupleCardinality<std::uint32_t>") show(Kind<ROOT::RNTupleCardinality<std::uint32_t>>());
   else return false;
   return true;
}
std::string views(const std::string &path, const std::string &name) {
   auto reader = ROOT::RNTupleReader::Open(name, path);
   std::ostringstream out;
   out << "{";
   const char *comma = "";
   for (const auto &field : reader->GetDescriptor().GetTopLevelFields()) {
      const auto show = [&](auto kind) {
         using T = typename decltype(kind)::type;
         out << comma << '"' << field.GetFieldName() << "\":" << values<T>(*reader, field.GetFieldName());
         comma = ",";
      };
      show_as(field.GetTypeName(), show);
   }
   out << "}";
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
    if job == "views":
        print(ROOT.views(*rest))
        continue
    if job == "variants":
        print(ROOT.variants(*rest))
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
