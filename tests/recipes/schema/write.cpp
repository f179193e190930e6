#include "odd.h"

#include <TFile.h>
#include <TTree.h>

using namespace odd;

static void set(Standard &to, int n)
{
   to.fMark = std::byte(n);
   to.fComplex = {1. * n, -2. * n};
   to.fTuple = {n, std::string(n, 't'), std::vector<float>(n, 0.5f)};
   for (int i = 0; i < n; ++i) {
      to.fComplexes.emplace_back(i, -i);
      to.fTuples.emplace_back(i, 1.5f * i);
      to.fNumbers[i % 3] += i;
      to.fPlain[i % 3] += 2 * i;
      to.fParts[i % 2].push_back({0.5f * i, Short_t(n)});
      to.fMaps[i % 2][std::string(i, 'm')] = {0.25f * i, Short_t(-n)};
   }
}

static void set(Counted &to, int n)
{
   for (int i = 0; i < n; ++i) {
      to.fNarrow[i] = i % 2 ? Narrow::kDown : Narrow::kUp;
      to.fWide[i % 2 ? Wide::kLow : Wide::kHigh] = i;
      to.fBoth[i] = {{Narrow::kDown, Wide::kHigh}, {Narrow::kUp, Wide::kLow}};
   }
}

static Shape *shape(int n)
{
   if (n % 3 == 0)
      return new Shape;
   if (n % 3 == 1) {
      auto *square = new Square;
      square->sides = 4;
      square->side = n;
      return square;
   }
   auto *circle = new Circle;
   circle->name = "circle";
   return circle;
}

static void set(Holder &to, int n)
{
   to.fShape = shape(n);
   to.fConst = shape(n + 1);
   for (int i = 0; i < n; ++i)
      to.fShapes.push_back(shape(i));
}

static void set(std::map<std::string, std::vector<Part>> &to, int n)
{
   for (int i = 0; i < n; ++i)
      to[std::string(i, 'k')].assign(i, {1.f * i, Short_t(n)});
}

template <typename T>
static void tree(const char *name)
{
   TTree tree(name, "");
   auto *object = new T;
   tree.Branch("object", &object, 32000, 0);
   for (int n = 0; n < 5; ++n) {
      object = new T;
      set(*object, n);
      tree.Fill();
   }
   tree.Write();
}

void write_odd(const char *path)
{
   TFile file(path, "recreate");
   tree<Standard>("standard");
   tree<Counted>("counted");
   tree<Holder>("holder");
   tree<std::map<std::string, std::vector<Part>>>("parts");
}
