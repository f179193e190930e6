// Enumerations, pairs, arrays and matrices in containers and the other way round; classes that hold themselves.
#ifndef SAPWOOD_FURTHER_H
#define SAPWOOD_FURTHER_H
#include <Math/SMatrix.h>
#include <TList.h>
#include <TMap.h>
#include <TMatrixD.h>
#include <TMatrixDSym.h>
#include <TMatrixFSym.h>
#include <TNamed.h>
#include <TObjArray.h>
#include <TVectorD.h>
#include <array>
#include <bitset>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

enum EPlain { kNothing = 0, kMinus = -3, kMuch = 70000 };
enum class EByte : unsigned char { kOne = 1, kMost = 200 };
enum class ELong : long long { kOne = 1, kFar = 5000000000ll };

struct Point {
   Float_t x = 0;
   Int_t n = 0;
};

/// Their own width counts in pairs, maps and containers of containers, not in others.
class Enumerations {
public:
   EByte fByte = EByte::kMost;
   std::vector<EPlain> fPlain;
   std::map<int, EPlain> fMap;
   std::map<EByte, float> fKeys;
   std::map<std::string, ELong> fWords;
   std::pair<EPlain, int> fPair = {kMinus, 1};
   std::vector<std::pair<int, EPlain>> fPairs;
   std::vector<std::vector<EPlain>> fNested;
   std::map<int, std::vector<EPlain>> fLists;
   std::vector<EPlain> fRow[2];
   virtual ~Enumerations() {}
   void Set(int n);
   ClassDef(Enumerations, 1)
};

/// ROOT's JSON form has no such members.
class Widths {
public:
   std::vector<EByte> fBytes;
   std::vector<ELong> fLongs;
   std::vector<std::vector<EByte>> fNestedBytes;
   std::set<EPlain> fSet;
   virtual ~Widths() {}
   void Set(int n);
   ClassDef(Widths, 1)
};

class Pairs {
public:
   std::pair<int, std::vector<float>> fPair;
   std::pair<std::vector<int>, std::map<int, float>> fBoth;
   std::pair<std::string, TString> fTexts;
   std::pair<std::pair<int, std::vector<short>>, std::string> fDeep;
   std::vector<std::pair<int, std::vector<float>>> fList;
   std::map<int, std::pair<int, std::vector<float>>> fMap;
   virtual ~Pairs() {}
   void Set(int n);
   ClassDef(Pairs, 1)
};

class Arrays {
public:
   std::array<std::vector<float>, 3> fVectors;
   std::array<std::string, 2> fStrings;
   std::array<std::array<std::vector<int>, 2>, 2> fGrid;
   std::array<Point, 2> fPoints;
   std::array<std::map<int, float>, 2> fMaps;
   std::array<TString, 2> fWords;
   Point fPlane[2][2];
   TString fNames[2][2];
   std::vector<int> fTable[2][2];
   virtual ~Arrays() {}
   void Set(int n);
   ClassDef(Arrays, 1)
};

class Matrices : public TObject {
public:
   TMatrixDSym fSymmetric;
   TMatrixFSym fSingle;
   TMatrixD fFull;
   TVectorD fVector;
   TMatrixDSym *fPointer = nullptr;
   std::vector<TMatrixDSym> fMany;
   ROOT::Math::SMatrix<double, 3, 3, ROOT::Math::MatRepSym<double, 3>> fPacked;
   Int_t fAfter = 7;
   void Set(int n);
   ClassDefOverride(Matrices, 1)
};

struct Packed {
   Double32_t a = 0; //[0,100,12]
   Float16_t b = 0;  //[-10,10,10]
   Double32_t c[2] = {0, 0}; //[0,1,8]
   Float16_t d = 0; //[0,0,8]
};
class FirstBase {
public:
   Int_t fFirst = 1;
   virtual ~FirstBase() {}
   ClassDef(FirstBase, 1)
};
class SecondBase {
public:
   std::vector<int> fInts;
   std::string fText;
   virtual ~SecondBase() {}
   ClassDef(SecondBase, 2)
};
class OfTwo : public FirstBase, public SecondBase {
public:
   Packed fPacked;
   ClassDefOverride(OfTwo, 3)
};

class Family {
public:
   Int_t fAge = 0;
   std::vector<Family> fChildren;
   virtual ~Family() {}
   void Set(int n);
   ClassDef(Family, 1)
};

/// Containers of objects with bases, and of containers of them.
class Nests {
public:
   std::vector<Packed> fPacked;
   std::map<int, Packed> fPackedMap;
   std::list<OfTwo> fList;
   std::map<std::string, std::vector<OfTwo>> fByWord;
   std::map<int, std::map<int, std::vector<OfTwo>>> fByNumbers;
   std::vector<std::vector<OfTwo>> fNested;
   std::pair<OfTwo, int> fPair;
   std::vector<std::pair<std::string, std::vector<OfTwo>>> fPairs;
   std::set<std::vector<int>> fSets;
   std::list<std::map<int, std::string>> fMaps;
   std::map<int, std::bitset<4>> fSwitches;
   std::vector<std::deque<std::string>> fDeques;
   std::vector<FirstBase *> fPointers;
   std::vector<std::unique_ptr<FirstBase>> fOwned;
   TObjArray *fArray = nullptr;
   TMap *fMap = nullptr;
   virtual ~Nests() {}
   void Set(int n);
   ClassDef(Nests, 1)
};
#endif
