// ROOT as the rival: reads every entry of a tree in one or several files, all branches or those named.
//   root_read getentry|imt|sums TREE FILE... [-- BRANCH...]
//   root_read formulas TREE FILE... -- FORMULA...
// getentry and imt (NT implicit threads) print one line of JSON. "wall" goes from opening the first file to the last
// entry of the last: starting ROOT itself (its interpreter, the classes of a file and a tree) is not counted, as imports
// are not counted for the rivals in Python; it is given apart as "start". sums prints {"branch": [elements, sum]}, which
// compares the values; formulas prints the same for expressions of TTreeFormula, where leaves hold whole objects.
#include <TClass.h>
#include <TFile.h>
#include <TLeaf.h>
#include <TROOT.h>
#include <TSystem.h>
#include <TTree.h>
#include <TTreeFormula.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

int main(int argc, char **argv)
{
   if (argc < 4) {
      std::fprintf(stderr, "usage: root_read getentry|imt|sums|formulas TREE FILE... [-- BRANCH...]\n");
      return 2;
   }
   const std::string mode = argv[1];
   std::vector<const char *> files, branches;
   bool named = false;
   for (int i = 3; i < argc; ++i)
      if (!named && !std::strcmp(argv[i], "--")) named = true;
      else (named ? branches : files).push_back(argv[i]);

   const auto start = std::chrono::steady_clock::now();
   for (auto name : {"TFile", "TTree", "TBranchElement", "TLeafF", "TBasket"}) TClass::GetClass(name);
   if (mode == "imt") ROOT::EnableImplicitMT(std::getenv("NT") ? std::atoi(std::getenv("NT")) : 2);

   const auto begin = std::chrono::steady_clock::now();
   const std::clock_t cpu = std::clock();
   Long64_t entries = 0, bytes = 0, read = 0, calls = 0;
   std::map<std::string, std::pair<Long64_t, double>> sums;
   for (auto name : files) {
      std::unique_ptr<TFile> file(TFile::Open(name));
      auto *tree = file ? file->Get<TTree>(argv[2]) : nullptr;
      if (!tree) return 1;
      if (mode == "formulas") {
         for (auto expression : branches) {
            TTreeFormula formula("formula", expression, tree);
            if (!formula.GetNdim()) return 1;
            auto &[count, sum] = sums[expression];
            for (Long64_t i = 0; i < tree->GetEntries(); ++i) {
               tree->LoadTree(i);
               const Int_t length = formula.GetNdata();
               count += length;
               for (Int_t k = 0; k < length; ++k) sum += formula.EvalInstance(k);
            }
         }
         continue;
      }
      if (!branches.empty()) {
         tree->SetBranchStatus("*", false);
         for (auto branch : branches) tree->SetBranchStatus(branch, true);
      }
      const Long64_t n = tree->GetEntries();
      std::vector<std::pair<Long64_t, Long64_t>> ranges;
      // RANGES=start:stop,... in the environment: these entries alone.
      if (const char *given = std::getenv("RANGES"); given && *given) {
         std::istringstream list(given);
         char colon, comma;
         for (Long64_t from, to; list >> from >> colon >> to; list >> comma) ranges.emplace_back(from, to);
      }
      if (ranges.empty()) ranges.emplace_back(0, n);
      for (auto [from, to] : ranges) for (Long64_t i = from; i < to; ++i) {
         const Int_t got = tree->GetEntry(i);
         if (got < 0) return 1;
         bytes += got;
         if (mode != "sums") continue;
         for (auto *object : *tree->GetListOfLeaves()) {
            auto *leaf = static_cast<TLeaf *>(object);
            if (!tree->GetBranchStatus(leaf->GetBranch()->GetName())) continue;
            auto &[count, sum] = sums[leaf->GetBranch()->GetName()];
            const Int_t length = leaf->GetLen();
            count += length;
            for (Int_t k = 0; k < length; ++k) sum += leaf->GetValue(k);
         }
      }
      for (auto [from, to] : ranges) entries += to - from;
      read += file->GetBytesRead();
      calls += file->GetReadCalls();
   }
   const auto seconds = [](auto from, auto to) { return std::chrono::duration<double>(to - from).count(); };
   const double wall = seconds(begin, std::chrono::steady_clock::now());
   if (mode == "sums" || mode == "formulas") {
      const char *separator = "{";
      for (auto &[name, value] : sums) {
         std::printf("%s\"%s\": [%lld, %.17g]", separator, name.c_str(), value.first, value.second);
         separator = ",\n";
      }
      std::printf("}\n");
      return 0;
   }
   std::printf("{\"wall\": %.6f, \"start\": %.6f, \"cpu\": %.6f, \"entries\": %lld, \"bytes\": %lld, \"bytes_read\": %lld, \"read_calls\": %lld, \"version\": \"%s\"}\n",
               wall, seconds(start, begin), double(std::clock() - cpu) / CLOCKS_PER_SEC, entries, bytes, read, calls, gROOT->GetVersion());
}
