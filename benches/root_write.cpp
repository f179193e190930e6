// ROOT as the rival in writing. Compiled by ACLiC, since trees of objects need dictionaries:
//   root_write(kind, data, out, setting, split) with kind "flat", "esd" or "event"
// Reads all of `data` (raw columns, see benches/writing.py) into memory, then times writing the tree (`seconds`), and the
// same loop without Fill, which is what it takes to hand over or create the objects (`objects`). Prints one line of JSON.
//   root_read_all(path) times reading every entry of such a tree, and counts the calls.
#include <TFile.h>
#include <TTree.h>
#include <TTreeCache.h>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

struct Track {
   float px, py, pz, e, x, y, z, t, chi2, dedx;
   int charge, id, status, hits;
};
#ifdef __CLING__
#pragma link C++ class Track+;
#pragma link C++ class std::vector<Track>+;
#endif

// Rows, number of columns, then each column's values; lists come after their counts.
struct Raw {
   std::vector<char> bytes;
   const char *at;
   explicit Raw(const char *path)
   {
      std::ifstream in(path, std::ios::binary);
      bytes.assign(std::istreambuf_iterator<char>(in), {});
      at = bytes.data();
   }
   template <class T> const T *take(size_t n)
   {
      auto *found = reinterpret_cast<const T *>(at);
      at += n * sizeof(T);
      return found;
   }
};

void root_write(const char *kind, const char *data, const char *out, int setting, int split)
{
   Raw raw(data);
   const int64_t rows = *raw.take<int64_t>(1), columns = *raw.take<int64_t>(1);
   const bool flat = !std::strcmp(kind, "flat"), esd = !std::strcmp(kind, "esd");
   std::vector<const float *> values;
   const int32_t *counts = nullptr;
   int64_t total = rows;
   if (!flat) {
      counts = raw.take<int32_t>(rows);
      total = 0;
      for (int64_t i = 0; i < rows; ++i) total += counts[i];
   }
   for (int64_t c = 0; c < columns; ++c) values.push_back(raw.take<float>(total));

   double seconds[2];
   for (int fill = 0; fill < 2; ++fill) {
      TFile *file = fill ? TFile::Open(out, "RECREATE", "", setting) : nullptr;
      TTree *tree = fill ? new TTree("t", "t") : nullptr;
      std::vector<float> scalars(columns);
      std::vector<std::vector<float>> arrays(esd ? columns : 0, std::vector<float>(10000));
      std::vector<Track> tracks;
      int n = 0;
      if (fill) {
         for (int64_t c = 0; c < columns && flat; ++c) {
            const std::string name = "x" + std::to_string(c);
            tree->Branch(name.c_str(), &scalars[c], (name + "/F").c_str());
         }
         if (esd) tree->Branch("nj", &n, "nj/I");
         for (int64_t c = 0; c < columns && esd; ++c) {
            const std::string name = "j_x" + std::to_string(c);
            tree->Branch(name.c_str(), arrays[c].data(), (name + "[nj]/F").c_str());
         }
         if (!flat && !esd) tree->Branch("tracks", &tracks, 32000, split);
      }
      const auto start = std::chrono::steady_clock::now();
      int64_t offset = 0;
      for (int64_t i = 0; i < rows; ++i) {
         if (flat) {
            for (int64_t c = 0; c < columns; ++c) scalars[c] = values[c][i];
         } else {
            n = counts[i];
            if (esd) {
               for (int64_t c = 0; c < columns; ++c)
                  std::memcpy(arrays[c].data(), values[c] + offset, n * sizeof(float));
            } else {
               tracks.resize(n);
               for (int k = 0; k < n; ++k) {
                  auto &t = tracks[k];
                  const int64_t j = offset + k;
                  t = {values[0][j], values[1][j], values[2][j], values[3][j], values[4][j], values[5][j],
                       values[6][j], values[7][j], values[8][j], values[9][j], int(values[10][j]), int(values[11][j]),
                       int(values[12][j]), int(values[13][j])};
               }
            }
            offset += n;
         }
         if (fill) tree->Fill();
      }
      if (fill) {
         tree->Write();
         file->Close();
      }
      seconds[fill] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
   }
   std::printf("{\"seconds\": %.6f, \"objects\": %.6f}\n", seconds[1] - seconds[0], seconds[0]);
   std::fflush(stdout);
}

void root_read_all(const char *path)
{
   auto begin = std::chrono::steady_clock::now();
   std::unique_ptr<TFile> file(TFile::Open(path));
   auto *tree = file->Get<TTree>("t");
   tree->SetCacheSize(30000000);
   tree->AddBranchToCache("*", true);
   tree->StopCacheLearningPhase();
   Long64_t bytes = 0;
   for (Long64_t i = 0, n = tree->GetEntries(); i < n; ++i)
      bytes += tree->GetEntry(i);
   std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
   std::printf("{\"seconds\": %f, \"calls\": %d, \"bytes\": %lld}\n", took.count(), file->GetReadCalls(), bytes);
}
