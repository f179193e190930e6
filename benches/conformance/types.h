// The classes of the cases, with what compares them.
#ifndef CONFORMANCE_TYPES_H
#define CONFORMANCE_TYPES_H
#include <TClonesArray.h>
#include <TLorentzVector.h>
#include <TObject.h>
#include <TString.h>
#include <algorithm>
#include <array>
#include <bitset>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

enum Colour { red = 0, green = 7 };
enum Wide : long { small = 0, large = 1L << 40 };

struct Point {
   float x = 0;
   int i = 0;
};
struct Base {
   int b = 0;
};
struct Derived : Base {
   float x = 0;
   std::vector<int> v;
};
struct Texts {
   std::string s;
   TString t;
   std::vector<std::string> words;
};
struct Arrays {
   int n = 0;
   float *counted = nullptr; //[n]
   short fixed[2] = {0, 0};
};
struct Packed {
   Float16_t f = 0;
   Double32_t d = 0;
   Double32_t r = 0; //[-8,8,12]
};
struct Painted {
   Colour colour = red;
   int i = 0;
};
struct Owner {
   Point *p = nullptr;
   int i = 0;
};
struct Nested {
   int i = 0;
   Point p;
   std::vector<Point> points;
};
struct Pairs {
   int i = 0;
   std::map<int, float> m;
   std::pair<int, float> one;
};
struct Maybe {
   int i = 0;
   std::optional<float> o;
};
struct Wides {
   std::vector<Wide> wides;
};
struct Rich {
   double e = 0;
   std::string w;
};
class Hit : public TObject {
public:
   float x = 0;
   int i = 0;
   ClassDefOverride(Hit, 1)
};

inline bool operator==(const Point &a, const Point &b) { return a.x == b.x && a.i == b.i; }
inline bool operator==(const Derived &a, const Derived &b) { return a.b == b.b && a.x == b.x && a.v == b.v; }
inline bool operator==(const Texts &a, const Texts &b) { return a.s == b.s && a.t == b.t && a.words == b.words; }
inline bool operator==(const Arrays &a, const Arrays &b)
{
   return a.n == b.n && std::equal(a.counted, a.counted + a.n, b.counted) && std::equal(a.fixed, a.fixed + 2, b.fixed);
}
inline bool operator==(const Packed &a, const Packed &b) { return a.f == b.f && a.d == b.d && a.r == b.r; }
inline bool operator==(const Painted &a, const Painted &b) { return a.colour == b.colour && a.i == b.i; }
inline bool operator==(const Owner &a, const Owner &b)
{
   return a.i == b.i && !a.p == !b.p && (!a.p || *a.p == *b.p);
}
inline bool operator==(const Nested &a, const Nested &b)
{
   return a.i == b.i && a.p == b.p && a.points == b.points;
}
inline bool operator==(const Pairs &a, const Pairs &b) { return a.i == b.i && a.m == b.m && a.one == b.one; }

inline Arrays arrays(std::vector<float> counted, short first, short second)
{
   Arrays made;
   made.n = counted.size();
   made.counted = new float[counted.size() + 1];
   std::copy(counted.begin(), counted.end(), made.counted);
   made.fixed[0] = first, made.fixed[1] = second;
   return made;
}
inline Owner owner(int i) { return {nullptr, i}; }
inline Owner owner(int i, float x, int j) { return {new Point{x, j}, i}; }
#endif
