// What is declared in other ways than the file describes it, or not by the class that is read.
#ifndef SAPWOOD_ODD_H
#define SAPWOOD_ODD_H
#include <TObject.h>
#include <array>
#include <complex>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace odd {
enum class Narrow : signed char { kDown = -1, kUp = 100 };
enum class Wide : unsigned long long { kLow = 1, kHigh = 1ull << 60 };

struct Part {
   Float_t x = 0;
   Short_t n = 0;
};

/// Of classes and templates of C++ itself.
class Standard {
public:
   std::byte fMark{0};
   std::complex<double> fComplex;
   std::vector<std::complex<float>> fComplexes;
   std::tuple<int, std::string, std::vector<float>> fTuple;
   std::vector<std::tuple<int, float>> fTuples;
   std::array<Double32_t, 3> fNumbers = {{1, 2, 3}};
   Double32_t fPlain[3] = {4, 5, 6};
   std::array<std::vector<Part>, 2> fParts;
   std::array<std::map<std::string, Part>, 2> fMaps;
   virtual ~Standard() {}
   ClassDef(Standard, 2)
};

/// Enumerations that are no member of any class.
class Counted {
public:
   std::map<int, Narrow> fNarrow;
   std::map<Wide, int> fWide;
   std::map<int, std::map<Narrow, Wide>> fBoth;
};

/// Known by pointers alone.
struct Shape {
   Int_t sides = 0;
   virtual ~Shape() {}
};
struct Square : Shape {
   Double_t side = 0;
};
struct Circle : Shape {
   std::string name;
};

class Holder : public TObject {
public:
   Shape *fShape = nullptr;
   const Shape *fConst = nullptr;
   std::vector<Shape *> fShapes;
   ClassDefOverride(Holder, 1)
};
} // namespace odd

void write_odd(const char *path);
#endif
