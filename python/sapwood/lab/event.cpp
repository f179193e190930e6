// ROOT's part of `sapwood lab event`: the same events, in the same branches, in compiled loops.
// Usage: event create|write|read|random|fill FILE EVENTS COMPRESSION CHUNK; prints wall, processor time and a check.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "TFile.h"
#include "TH1F.h"
#include "TTree.h"

namespace {

constexpr int kFloats = 14, kBins = 100, kMost = 640;
const char *const kNames[kFloats] = {"px", "py", "pz", "random", "mass2", "bx", "by", "mean_charge",
                                     "xfirst", "xlast", "yfirst", "ylast", "zfirst", "zlast"};

struct Chance { // xorshift64*: so cheap that the generator is not what is measured
   uint64_t state = 88172645463325252ull;
   uint64_t next()
   {
      state ^= state >> 12;
      state ^= state << 25;
      state ^= state >> 27;
      return state * 2685821657736338717ull;
   }
   float flat() { return (next() >> 40) * 0x1p-24f; }
};

struct Event {
   int run, number, date, flag;
   float temperature, histogram[kBins];
   int ntracks;
   float floats[kFloats][kMost];
   int charge[kMost], npoint[kMost];
   short valid[kMost];

   void make(Chance &chance, int entry)
   {
      run = 1;
      number = entry;
      date = 960312;
      flag = entry % 7;
      temperature = 20 + chance.flat();
      for (float &bin : histogram)
         bin = int(100 * chance.flat());
      ntracks = 580 + int(41 * chance.flat());
      for (auto &column : floats)
         for (int track = 0; track < ntracks; ++track)
            column[track] = chance.flat();
      for (int track = 0; track < ntracks; ++track) {
         const uint64_t bits = chance.next();
         charge[track] = int(bits % 3) - 1;
         npoint[track] = 40 + int((bits >> 8) % 60);
         valid[track] = short((bits >> 20) & 1);
      }
   }
};

void connect(TTree &tree, Event &event, bool make)
{
   auto branch = [&](const char *name, void *where, const std::string &leaf) {
      if (make)
         tree.Branch(name, where, leaf.c_str());
      else
         tree.SetBranchAddress(name, where);
   };
   branch("run", &event.run, "run/I");
   branch("number", &event.number, "number/I");
   branch("date", &event.date, "date/I");
   branch("flag", &event.flag, "flag/I");
   branch("temperature", &event.temperature, "temperature/F");
   branch("histogram", event.histogram, "histogram[100]/F");
   branch("ntracks", &event.ntracks, "ntracks/I");
   for (int place = 0; place < kFloats; ++place)
      branch(kNames[place], event.floats[place], std::string(kNames[place]) + "[ntracks]/F");
   branch("charge", event.charge, "charge[ntracks]/I");
   branch("npoint", event.npoint, "npoint[ntracks]/I");
   branch("valid", event.valid, "valid[ntracks]/S");
}

} // namespace

int main(int argc, char **argv)
{
   if (argc != 6)
      return 2;
   const std::string action = argv[1];
   const int events = std::atoi(argv[3]);
   auto event = std::make_unique<Event>();
   Chance chance;
   double check = 0;
   TH1::AddDirectory(false);

   const auto wall = std::chrono::steady_clock::now();
   const auto cpu = std::clock();
   if (action == "create") {
      for (int entry = 0; entry < events; ++entry) {
         event->make(chance, entry);
         check += event->ntracks;
      }
   } else if (action == "write") {
      TFile file(argv[2], "RECREATE", "", std::atoi(argv[4]));
      TTree tree("T", "events", 99, &file);
      connect(tree, *event, true);
      for (int entry = 0; entry < events; ++entry) {
         event->make(chance, entry);
         check += event->ntracks;
         tree.Fill();
      }
      file.Write();
   } else if (action == "read" || action == "random") {
      TFile file(argv[2]);
      auto *tree = file.Get<TTree>("T");
      if (!tree)
         return 3;
      connect(*tree, *event, false);
      if (action == "read") {
         for (Long64_t entry = 0; entry < tree->GetEntries(); ++entry) {
            tree->GetEntry(entry);
            check += event->ntracks;
         }
      } else {
         for (int place = 0; place < 100; ++place) {
            tree->GetEntry(Long64_t(place) * 7919 % events);
            check += event->ntracks;
         }
      }
   } else if (action == "fill") {
      std::vector<TH1F> histograms;
      for (int place = 0; place < 20; ++place)
         histograms.emplace_back(("h" + std::to_string(place)).c_str(), "", 100, 0, 1);
      event->make(chance, 0);
      for (int entry = 0; entry < events; ++entry)
         for (int place = 0; place < 20; ++place) {
            const float *values = event->floats[place % kFloats];
            for (int track = 0; track < event->ntracks; ++track)
               histograms[place].Fill(values[track]);
         }
      check = histograms[3].GetEntries();
   } else {
      return 2;
   }
   const double cpu_seconds = double(std::clock() - cpu) / CLOCKS_PER_SEC;
   const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - wall).count();
   std::printf("{\"value\": %.6f, \"cpu\": %.6f, \"check\": %.17g}\n", seconds, cpu_seconds, check);
   std::fflush(stdout);
   std::_Exit(0); // what ROOT does at its end is not counted, and need not be waited for
}
