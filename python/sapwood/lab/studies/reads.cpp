// ROOT's part of `sapwood trace root`: reads branches of a tree entry by entry and prints each read of the file, as
// TTreePerfStats recorded it. Usage:
//   reads FILE TREE CACHE BRANCH...
// CACHE is the size of the tree cache (-1: ROOT's own); without branches all are read. A line is a read: offset, bytes,
// entry, seconds since the first one began, seconds that it took. The last line is the number of entries.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "TFile.h"
#include "TGraphErrors.h"
#include "TTree.h"
#include "TTreePerfStats.h"

#include "start.h"

int main(int argc, char **argv)
{
   if (argc < 4)
      return 2;
   start(argv[1]);
   std::unique_ptr<TFile> file(TFile::Open(argv[1]));
   auto *tree = file && !file->IsZombie() ? file->Get<TTree>(argv[2]) : nullptr;
   if (!tree) {
      std::fprintf(stderr, "%s has no tree %s\n", argv[1], argv[2]);
      return 1;
   }
   if (std::atoll(argv[3]) >= 0)
      tree->SetCacheSize(std::atoll(argv[3]));
   if (argc > 4)
      tree->SetBranchStatus("*", false);
   for (int place = 4; place < argc; ++place)
      tree->SetBranchStatus(argv[place], true);
   TTreePerfStats noted("reads", tree);
   const long long entries = tree->GetEntries();
   for (long long entry = 0; entry < entries; ++entry)
      tree->GetEntry(entry);
   const auto *places = noted.GetGraphIO(), *times = noted.GetGraphTime();
   double first = 0;
   for (int read = 0; read < places->GetN(); ++read) { // its places are in 10^6 bytes, its sizes in 10^9
      const double took = times->GetEY()[read], began = times->GetY()[read] - took;
      first = read ? first : began;
      std::printf("%lld %lld %lld %.9f %.9f\n", std::llround(1e6 * places->GetY()[read]),
                  std::llround(1e9 * places->GetEY()[read]), std::llround(places->GetX()[read]), began - first, took);
   }
   std::printf("%lld\n", entries);
   std::fflush(stdout);
   std::_Exit(0);
}
