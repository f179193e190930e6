// ROOT's part of `sapwood lab event`: the same events, number by number, in the same branches, in compiled loops.
// Usage: event create|write|read|random|verify|fill FILE EVENTS COMPRESSION SPLIT MEMBERWISE; prints wall, processor
// time and a check. SPLIT is the split level of a vector of tracks, or -1 for an array of each member.
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
#include "TVirtualStreamerInfo.h"

#include "event.h"
#include "start.h"

namespace {

constexpr int kFloats = 14, kBins = 100, kLeast = 580, kMore = 41, kMost = kLeast + kMore, kHistograms = 20, kRandom = 100;
const char *const kNames[kFloats] = {"px", "py", "pz", "random", "mass2", "bx", "by", "mean_charge",
                                     "xfirst", "xlast", "yfirst", "ylast", "zfirst", "zlast"};
float Track::*const kMembers[kFloats] = {&Track::px, &Track::py, &Track::pz, &Track::random, &Track::mass2,
                                         &Track::bx, &Track::by, &Track::mean_charge, &Track::xfirst, &Track::xlast,
                                         &Track::yfirst, &Track::ylast, &Track::zfirst, &Track::zlast};

struct Chance { // xorshift64*: so cheap that the generator is not what is measured
   uint64_t state;
   explicit Chance(uint64_t seed) : state(seed | 1) {}
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
   std::vector<Track> tracks, *address = &tracks;
   bool objects;

   // The events of crates/lab/src/events.rs.
   void make(int entry)
   {
      Chance chance((uint64_t(entry) + 1) * 0x9e3779b97f4a7c15ull);
      run = 1;
      number = entry;
      date = 960312;
      flag = entry % 7;
      temperature = 20 + chance.flat();
      for (float &bin : histogram)
         bin = int(100 * chance.flat());
      ntracks = kLeast + int(chance.next() % kMore);
      if (objects)
         tracks.resize(ntracks);
      for (int member = 0; member < kFloats; ++member)
         for (int track = 0; track < ntracks; ++track)
            (objects ? tracks[track].*kMembers[member] : floats[member][track]) = chance.flat();
      for (int track = 0; track < ntracks; ++track) {
         const uint64_t bits = chance.next();
         (objects ? tracks[track].charge : charge[track]) = int(bits % 3) - 1;
         (objects ? tracks[track].npoint : npoint[track]) = 40 + int((bits >> 8) % 60);
         (objects ? tracks[track].valid : valid[track]) = short((bits >> 20) & 1);
      }
   }

   int count() const { return objects ? int(address->size()) : ntracks; }

   double sum() const
   {
      double total = 0;
      const int most = count();
      for (int track = 0; track < most; ++track)
         total += objects ? (*address)[track].px : floats[0][track];
      return total;
   }

   bool same(const Event &other) const
   {
      if (run != other.run || number != other.number || date != other.date || flag != other.flag ||
          temperature != other.temperature || count() != other.count())
         return false;
      for (int bin = 0; bin < kBins; ++bin)
         if (histogram[bin] != other.histogram[bin])
            return false;
      for (int track = 0; track < count(); ++track) {
         for (int member = 0; member < kFloats; ++member)
            if (objects ? (*address)[track].*kMembers[member] != (*other.address)[track].*kMembers[member]
                        : floats[member][track] != other.floats[member][track])
               return false;
         if (objects) {
            const Track &mine = (*address)[track], &theirs = (*other.address)[track];
            if (mine.charge != theirs.charge || mine.npoint != theirs.npoint || mine.valid != theirs.valid)
               return false;
         } else if (charge[track] != other.charge[track] || npoint[track] != other.npoint[track] ||
                    valid[track] != other.valid[track])
            return false;
      }
      return true;
   }
};

void connect(TTree &tree, Event &event, bool make, int split)
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
   if (event.objects) {
      if (make)
         tree.Branch("tracks", &event.tracks, 32000, split);
      else
         tree.SetBranchAddress("tracks", &event.address);
      return;
   }
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
   if (argc != 7)
      return 2;
   const std::string action = argv[1];
   const int events = std::atoi(argv[3]), split = std::atoi(argv[5]);
   TVirtualStreamerInfo::SetStreamMemberWise(std::atoi(argv[6]) != 0);
   auto event = std::make_unique<Event>(), wanted = std::make_unique<Event>();
   event->objects = wanted->objects = split >= 0;
   double check = 0;
   TH1::AddDirectory(false);
   start(argv[2]);

   const auto wall = std::chrono::steady_clock::now();
   const auto cpu = std::clock();
   if (action == "create") {
      for (int entry = 0; entry < events; ++entry) {
         event->make(entry);
         check += event->count();
      }
   } else if (action == "write") {
      TFile file(argv[2], "RECREATE", "", std::atoi(argv[4]));
      TTree tree("T", "events", 99, &file);
      connect(tree, *event, true, split);
      for (int entry = 0; entry < events; ++entry) {
         event->make(entry);
         check += event->count();
         tree.Fill();
      }
      file.Write();
   } else if (action == "read" || action == "random" || action == "verify") {
      TFile file(argv[2]);
      auto *tree = file.Get<TTree>("T");
      if (!tree)
         return 3;
      connect(*tree, *event, false, split);
      const int most = action == "random" ? kRandom : int(tree->GetEntries());
      for (int place = 0; place < most; ++place) {
         const Long64_t entry = action == "random" ? Long64_t(place) * 7919 % events : place;
         tree->GetEntry(entry);
         if (action == "verify") {
            wanted->make(int(entry));
            if (most != events || !event->same(*wanted)) {
               std::fprintf(stderr, "entry %lld of %s differs from what was written\n", entry, argv[2]);
               return 4;
            }
         }
         check += event->sum();
      }
   } else if (action == "fill") {
      std::vector<TH1F> histograms;
      for (int place = 0; place < kHistograms; ++place)
         histograms.emplace_back(("h" + std::to_string(place)).c_str(), "", 100, 0, 1);
      event->objects = false;
      event->make(0);
      for (int entry = 0; entry < events; ++entry)
         for (int place = 0; place < kHistograms; ++place) {
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
