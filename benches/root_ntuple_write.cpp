// ROOT as the rival in writing RNTuples: its parallel writer, with a fill context for each thread.
//   root_ntuple_write KIND DATA OUT SETTING THREADS      KIND: flat or esd
// Reads all of DATA (raw columns, see writing.py) into memory, then times writing the RNTuple (`seconds`), without the
// time of the same loop without Fill, which is what it takes to hand over the values (`objects`). Prints a line of JSON.
#include <ROOT/RNTupleFillContext.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleParallelWriter.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <TROOT.h>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

int main(int, char **argv)
{
   const bool flat = std::string(argv[1]) == "flat";
   std::ifstream in(argv[2], std::ios::binary);
   const std::vector<char> raw(std::istreambuf_iterator<char>(in), {});
   const char *at = raw.data();
   auto take = [&at](size_t bytes) { auto *found = at; at += bytes; return found; };
   const auto *head = reinterpret_cast<const int64_t *>(take(16));
   const int64_t rows = head[0], columns = head[1];
   const int threads = std::atoi(argv[5]);
   std::vector<int64_t> offsets(rows + 1);
   const auto *counts = flat ? nullptr : reinterpret_cast<const int32_t *>(take(4 * rows));
   for (int64_t i = 0; i < rows; ++i) offsets[i + 1] = offsets[i] + (flat ? 1 : counts[i]);
   std::vector<const float *> values;
   for (int64_t c = 0; c < columns; ++c) values.push_back(reinterpret_cast<const float *>(take(4 * offsets[rows])));
   ROOT::EnableThreadSafety();

   double seconds[2];
   for (int fill = 0; fill < 2; ++fill) {
      const auto start = std::chrono::steady_clock::now();
      {
         std::unique_ptr<ROOT::RNTupleParallelWriter> writer;
         if (fill) {
            auto model = ROOT::RNTupleModel::CreateBare();
            for (int64_t c = 0; c < columns; ++c) {
               const std::string name = "x" + std::to_string(c);
               if (flat) model->MakeField<float>(name);
               else model->MakeField<std::vector<float>>(name);
            }
            ROOT::RNTupleWriteOptions options;
            options.SetCompression(std::atoi(argv[4]));
            writer = ROOT::RNTupleParallelWriter::Recreate(std::move(model), "t", argv[3], options);
         }
         auto work = [&](int64_t first, int64_t last) {
            std::vector<float> scalars(columns);
            std::vector<std::vector<float>> lists(flat ? 0 : columns);
            std::shared_ptr<ROOT::RNTupleFillContext> context;
            std::unique_ptr<ROOT::REntry> entry;
            if (fill) {
               context = writer->CreateFillContext();
               entry = context->GetModel().CreateBareEntry();
               for (int64_t c = 0; c < columns; ++c) {
                  const std::string name = "x" + std::to_string(c);
                  entry->BindRawPtr(name, flat ? static_cast<void *>(&scalars[c]) : &lists[c]);
               }
            }
            for (int64_t i = first; i < last; ++i) {
               for (int64_t c = 0; c < columns; ++c) {
                  if (flat) scalars[c] = values[c][i];
                  else lists[c].assign(values[c] + offsets[i], values[c] + offsets[i + 1]);
               }
               if (fill) context->Fill(*entry);
            }
         };
         std::vector<std::thread> pool;
         for (int t = 0; t < threads; ++t) pool.emplace_back(work, rows * t / threads, rows * (t + 1) / threads);
         for (auto &one : pool) one.join();
      }
      seconds[fill] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
   }
   std::printf("{\"seconds\": %.6f, \"objects\": %.6f}\n", seconds[1] - seconds[0], seconds[0]);
}
