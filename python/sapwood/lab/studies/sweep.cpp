// ROOT's part of `sapwood lab sweep`: copies the first entries of a tree into several files at once, or reads such
// copies, and says what it took. Usage:
//   sweep write|read SOURCE TREE ENTRIES COMPRESSION AUTOFLUSH BASKET SUMMARY SPLIT MEMBERWISE COPY...
// SPLIT is the split level of branches of objects, whose dictionary is linked in, or -1: as the tree has them.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "TBranch.h"
#include "TClass.h"
#include "TFile.h"
#include "TLeaf.h"
#include "TTree.h"
#include "TVirtualStreamerInfo.h"

#include "start.h"

namespace {

double seconds(const timeval &time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); }

long long status(const std::string &name)
{
   std::ifstream file("/proc/self/status");
   for (std::string word; file >> word;)
      if (word == name + ":") {
         long long kilobytes = 0;
         file >> kilobytes;
         return 1024 * kilobytes;
      }
   return 0;
}

// The peak of virtual memory since the start, sampled: the system's own peak counts what the interpreter took before.
long long virtual_peak = 0;

void look() { virtual_peak = std::max(virtual_peak, status("VmSize")); }

struct Object { // a branch of objects, and memory for one of them
   TBranch *branch;
   std::string type;
   void *where;
};

void skip(TBranch &branch, bool skipped)
{
   branch.SetBit(kDoNotProcess, skipped);
   for (auto *inner : *branch.GetListOfBranches())
      skip(*static_cast<TBranch *>(inner), skipped);
}

// The branches of objects are read whole, so that copies can split them in another way.
std::vector<Object> objects_of(TTree &tree)
{
   std::vector<Object> found;
   for (auto *one : *tree.GetListOfBranches()) {
      auto *branch = static_cast<TBranch *>(one);
      auto *type = TClass::GetClass(branch->GetClassName());
      if (type && *branch->GetClassName())
         found.push_back({branch, type->GetName(), type->New()});
   }
   for (auto &object : found)
      tree.SetBranchAddress(object.branch->GetName(), static_cast<void *>(&object.where));
   return found;
}

TTree *clone(TTree &tree, std::vector<Object> &objects, int split, int basket)
{
   for (auto &object : objects)
      skip(*object.branch, true);
   auto *made = tree.CloneTree(0);
   for (auto &object : objects) {
      skip(*object.branch, false);
      auto *where = static_cast<void *>(&object.where);
      if (!made->Branch(object.branch->GetName(), object.type.c_str(), where, basket, split)) {
         std::fprintf(stderr, "ROOT cannot make a branch of %s\n", object.type.c_str());
         std::exit(1);
      }
   }
   return made;
}

void copy(const std::string &source, const std::string &name, long long entries, int codec, long long flush, int basket,
          bool summary, int split, const std::vector<std::string> &paths)
{
   TFile from(source.c_str());
   auto *tree = from.Get<TTree>(name.c_str());
   if (!tree) {
      std::fprintf(stderr, "%s has no tree %s\n", source.c_str(), name.c_str());
      std::exit(1);
   }
   auto objects = split < 0 ? std::vector<Object>() : objects_of(*tree);
   tree->GetEntry(0); // so that arrays of objects know their class
   std::vector<std::unique_ptr<TFile>> files;
   std::vector<TTree *> copies;
   for (const auto &path : paths) {
      files.push_back(std::make_unique<TFile>(path.c_str(), "RECREATE", "", codec));
      auto *made = clone(*tree, objects, split, basket);
      made->SetName("T");
      made->SetAutoFlush(flush);
      made->SetBasketSize("*", basket);
      for (auto *leaf : *made->GetListOfLeaves())
         static_cast<TLeaf *>(leaf)->GetBranch()->SetCompressionSettings(codec);
      copies.push_back(made);
      if (summary) { // as sapwood's trains write it
         TTree record("FileSummary", "what went into this file");
         std::string task = "sweep", none;
         double luminosity = 0;
         bool complete = true;
         std::vector<std::string> inputs{source};
         std::vector<Long64_t> counts{entries};
         record.Branch("task", &task);
         record.Branch("output", &none);
         record.Branch("selection", &none);
         record.Branch("entries_read", &entries, "entries_read/L");
         record.Branch("entries_selected", &entries, "entries_selected/L");
         record.Branch("luminosity", &luminosity);
         record.Branch("complete", &complete);
         record.Branch("inputs", &inputs);
         record.Branch("input_entries", &counts);
         record.Fill();
         record.Write();
         look();
      }
   }
   const long long there = tree->GetEntries();
   for (long long entry = 0; entry < entries; ++entry) {
      tree->GetEntry(entry % there); // of a short tree several times
      for (auto *made : copies)
         made->Fill();
      if (entry % 100 == 0)
         look();
   }
   look();
   for (size_t place = 0; place < files.size(); ++place) {
      files[place]->cd();
      copies[place]->Write("", TObject::kOverwrite);
      delete copies[place];
      files[place]->Close();
   }
}

void read(const std::vector<std::string> &paths)
{
   for (const auto &path : paths) {
      TFile file(path.c_str());
      for (const char *name : {"T", "FileSummary"})
         if (auto *tree = file.Get<TTree>(name))
            for (long long entry = 0; entry < tree->GetEntries(); ++entry) {
               tree->GetEntry(entry);
               if (entry % 100 == 0)
                  look();
            }
   }
}

} // namespace

int main(int argc, char **argv)
{
   if (argc < 12)
      return 2;
   const std::vector<std::string> paths(argv + 11, argv + argc);
   TVirtualStreamerInfo::SetStreamMemberWise(std::atoi(argv[10]) != 0);
   start(argv[2]);
   std::ofstream("/proc/self/clear_refs") << 5; // resident memory: the peak begins here
   rusage before, after;
   getrusage(RUSAGE_SELF, &before);
   const auto begin = std::chrono::steady_clock::now();
   if (argv[1] == std::string("write"))
      copy(argv[2], argv[3], std::atoll(argv[4]), std::atoi(argv[5]), std::atoll(argv[6]), std::atoi(argv[7]),
           std::atoi(argv[8]) != 0, std::atoi(argv[9]), paths);
   else
      read(paths);
   const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
   getrusage(RUSAGE_SELF, &after);
   std::printf("{\"wall\": %.6f, \"user\": %.6f, \"system\": %.6f, \"vsize\": %lld, \"rss\": %lld}\n", wall,
               seconds(after.ru_utime) - seconds(before.ru_utime), seconds(after.ru_stime) - seconds(before.ru_stime),
               virtual_peak, status("VmHWM"));
   std::fflush(stdout);
   std::_Exit(0);
}
