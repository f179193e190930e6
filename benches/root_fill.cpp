// ROOT as the rival in filling: root_fill FILE HISTOGRAMS CHUNK reads float64 values from a file into memory and fills each
// of so many TH1F (100 bins from -4 to 4) with all of them, value by value, CHUNK values of one histogram after another.
// Prints one line of JSON: seconds of processor time of the fills alone, and the contents of the first histogram.
#include <TH1F.h>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

int main(int argc, char **argv)
{
   if (argc != 4) return 2;
   std::ifstream file(argv[1], std::ios::binary | std::ios::ate);
   std::vector<double> values(file.tellg() / sizeof(double));
   file.seekg(0);
   file.read(reinterpret_cast<char *>(values.data()), values.size() * sizeof(double));
   const size_t chunk = std::atol(argv[3]);
   TH1::AddDirectory(false);
   std::vector<std::unique_ptr<TH1F>> histograms;
   for (int i = 0; i < std::atoi(argv[2]); ++i)
      histograms.push_back(std::make_unique<TH1F>(("h" + std::to_string(i)).c_str(), "", 100, -4, 4));

   const std::clock_t begin = std::clock();
   for (size_t from = 0; from < values.size(); from += chunk)
      for (auto &histogram : histograms)
         for (size_t i = from; i < std::min(from + chunk, values.size()); ++i) histogram->Fill(values[i]);
   const double seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;

   std::printf("{\"seconds\": %.6f, \"contents\": [", seconds);
   for (int bin = 0; bin < 102; ++bin) std::printf("%s%.0f", bin ? ", " : "", histograms[0]->GetBinContent(bin));
   std::printf("]}\n");
}
