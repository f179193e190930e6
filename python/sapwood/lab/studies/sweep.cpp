// ROOT's part of `sapwood lab sweep`: copies the first entries of a tree into several files at once, or reads such
// copies, and says what it took. Usage:
//   sweep write|read SOURCE TREE ENTRIES COMPRESSION AUTOFLUSH BASKET SUMMARY COPY...
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "TBranch.h"
#include "TFile.h"
#include "TLeaf.h"
#include "TTree.h"

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

void copy(const std::string &source, const std::string &name, long long entries, int codec, long long flush, int basket,
          bool summary, const std::vector<std::string> &paths)
{
   TFile from(source.c_str());
   auto *tree = from.Get<TTree>(name.c_str());
   if (!tree) {
      std::fprintf(stderr, "%s has no tree %s\n", source.c_str(), name.c_str());
      std::exit(1);
   }
   std::vector<std::unique_ptr<TFile>> files;
   std::vector<TTree *> copies;
   for (const auto &path : paths) {
      files.push_back(std::make_unique<TFile>(path.c_str(), "RECREATE", "", codec));
      auto *made = tree->CloneTree(0);
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
      }
   }
   const long long there = tree->GetEntries();
   for (long long entry = 0; entry < entries; ++entry) {
      tree->GetEntry(entry % there); // of a short tree several times
      for (auto *made : copies)
         made->Fill();
   }
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
            for (long long entry = 0; entry < tree->GetEntries(); ++entry)
               tree->GetEntry(entry);
   }
}

} // namespace

int main(int argc, char **argv)
{
   if (argc < 10)
      return 2;
   const std::vector<std::string> paths(argv + 9, argv + argc);
   start(argv[2]);
   rusage before, after;
   getrusage(RUSAGE_SELF, &before);
   const auto begin = std::chrono::steady_clock::now();
   if (argv[1] == std::string("write"))
      copy(argv[2], argv[3], std::atoll(argv[4]), std::atoi(argv[5]), std::atoll(argv[6]), std::atoi(argv[7]),
           std::atoi(argv[8]) != 0, paths);
   else
      read(paths);
   const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
   getrusage(RUSAGE_SELF, &after);
   std::printf("{\"wall\": %.6f, \"user\": %.6f, \"system\": %.6f, \"vsize\": %lld, \"rss\": %lld}\n", wall,
               seconds(after.ru_utime) - seconds(before.ru_utime), seconds(after.ru_stime) - seconds(before.ru_stime),
               status("VmPeak"), status("VmHWM"));
   std::fflush(stdout);
   std::_Exit(0);
}
