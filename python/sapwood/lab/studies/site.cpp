// ROOT's part of `sapwood lab site`: reads branches entry by entry in a compiled loop, does one task or several with each
// entry, and says what it took. The first task fills a histogram of each of the first twenty branches, the second one of
// the next twenty, and so on, round and round. Its specification comes on standard input: the tree, the size of the tree
// cache (-1: ROOT's own), the numbers of the tasks, the branches (none: all), each of these lists with an empty line
// behind it, files, an empty line; then the word to go.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "TBranch.h"
#include "TEnv.h"
#include "TFile.h"
#include "TH1F.h"
#include "TLeaf.h"
#include "TTree.h"

#include "start.h"

namespace {

std::vector<std::string> lines()
{
   std::vector<std::string> found;
   for (std::string line; std::getline(std::cin, line) && !line.empty();)
      found.push_back(line);
   return found;
}

double seconds(const timeval &time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); }

// Seconds in which this process was ready to work but had no processor.
double queued()
{
   std::ifstream file("/proc/self/schedstat");
   double worked = 0, waited = 0;
   file >> worked >> waited;
   return 1e-9 * waited;
}

} // namespace

int main()
{
   std::string name, cache, word;
   std::getline(std::cin, name);
   std::getline(std::cin, cache);
   const auto tasks = lines(), branches = lines(), files = lines();
   TH1::AddDirectory(false);
   gEnv->SetValue("TFile.ForceRemote", 1); // a server on this machine is a server
   start(files.empty() ? "" : files[0]);
   std::printf("ready\n");
   std::fflush(stdout);
   if (!std::getline(std::cin, word))
      return 1;

   using Clock = std::chrono::steady_clock;
   const auto begin = Clock::now();
   rusage before, after;
   getrusage(RUSAGE_SELF, &before);
   double check = 0, open = 0;
   const double waited = queued();
   long long events = 0, bytes = 0;
   for (const auto &path : files) {
      const auto opened = std::clock(); // of the processor
      std::unique_ptr<TFile> file(TFile::Open(path.c_str()));
      auto *tree = file && !file->IsZombie() ? file->Get<TTree>(name.c_str()) : nullptr;
      if (!tree) {
         std::fprintf(stderr, "%s has no tree %s\n", path.c_str(), name.c_str());
         return 1;
      }
      if (std::stoll(cache) >= 0)
         tree->SetCacheSize(std::stoll(cache));
      if (!branches.empty()) {
         tree->SetBranchStatus("*", false);
         for (const auto &branch : branches)
            tree->SetBranchStatus(branch.c_str(), true);
      }
      std::vector<std::string> names;
      for (auto *branch : *tree->GetListOfBranches())
         if (tree->GetBranchStatus(branch->GetName()))
            names.push_back(branch->GetName());
      std::sort(names.begin(), names.end());
      std::vector<TLeaf *> leaves;
      std::vector<std::unique_ptr<TH1F>> histograms;
      for (const auto &task : tasks) {
         for (size_t place = 0; place < std::min<size_t>(names.size(), 20); ++place) {
            const auto &one = names[(std::stoul(task) * 20 + place) % names.size()];
            leaves.push_back(tree->GetBranch(one.c_str())->GetLeaf(one.c_str()));
            if (!leaves.back())
               leaves.back() = static_cast<TLeaf *>(tree->GetBranch(one.c_str())->GetListOfLeaves()->At(0));
            histograms.push_back(std::make_unique<TH1F>("", "", 100, -200, 200));
         }
      }
      open += double(std::clock() - opened) / CLOCKS_PER_SEC;
      const long long count = tree->GetEntries();
      for (long long entry = 0; entry < count; ++entry) {
         tree->GetEntry(entry);
         for (size_t place = 0; place < leaves.size(); ++place) {
            const int length = leaves[place]->GetLen();
            for (int i = 0; i < length; ++i) {
               const double value = leaves[place]->GetValue(i);
               histograms[place]->Fill(value);
               if (place == 0)
                  check += value;
            }
         }
      }
      events += count;
      bytes += file->GetBytesRead();
   }
   getrusage(RUSAGE_SELF, &after);
   const double wall = std::chrono::duration<double>(Clock::now() - begin).count();
   char sum[32] = "null"; // JSON knows no other numbers
   if (std::isfinite(check))
      std::snprintf(sum, sizeof sum, "%.17g", check);
   std::printf("{\"wall\": %.9g, \"user\": %.9g, \"system\": %.9g, \"queued\": %.9g, \"events\": %lld, \"bytes\": %lld, \"check\": %s, "
               "\"open\": %.9g}\n",
               wall, seconds(after.ru_utime) - seconds(before.ru_utime),
               seconds(after.ru_stime) - seconds(before.ru_stime), queued() - waited, events, bytes, sum, open);
   return 0;
}
