// More classes, for trees: inheritance, templates, enums, objects in objects.
#ifndef SAPWOOD_MORE_H
#define SAPWOOD_MORE_H
#include "further.h"
#include "rows.h"
#include "shapes.h"
#include <TGraph.h>
#include <TH1F.h>
#include <TH2D.h>
#include <TVector3.h>

class Top {
public:
   Int_t fTop = 1;
   virtual ~Top() {}
   ClassDef(Top, 1)
};
class LeftOfTop : public virtual Top {
public:
   Int_t fLeftOfTop = 2;
   ClassDefOverride(LeftOfTop, 1)
};
class RightOfTop : public virtual Top {
public:
   Float_t fRightOfTop = 3;
   ClassDefOverride(RightOfTop, 1)
};
class Diamond : public LeftOfTop, public RightOfTop {
public:
   Double_t fDiamond = 4;
   ClassDefOverride(Diamond, 1)
};

enum class Small : unsigned char { kNo = 0, kYes = 200 };
enum class Wide : int { kLow = -2000000000, kHigh = 2000000000 };

template <typename T>
class Box {
public:
   struct Inside {
      T value = T();
      Short_t weight = 0;
   };
   Inside fInside;
   std::vector<Inside> fMany;
   virtual ~Box() {}
   ClassDef(Box, 1)
};

class Helix : public TObject {
public:
   Int_t fN = 0;
   Float_t *fValues = nullptr; //[fN]
   Double32_t *fPacked = nullptr; //[fN][0,10,12]
   std::vector<short> fHits;
   std::vector<Spot> fSpots;
   TString fName;
   Spot fSpot;
   Spot fPair[2];
   TRef fRef;
   Double32_t fEnergy = 0; //[0,100,14]
   Helix() {}
   ~Helix() override { Clear(); }
   void Clear(Option_t * = "") override
   {
      delete[] fValues;
      delete[] fPacked;
      fValues = nullptr, fPacked = nullptr, fN = 0;
   }
   void Set(int n, int seed);
   ClassDefOverride(Helix, 2)
};

class Vertex : public TObject {
public:
   Int_t fId = 0;
   TClonesArray fTracks = TClonesArray("Right", 2);
   std::vector<std::vector<Both>> fDeep;
   ClassDefOverride(Vertex, 1)
};

class Mixed : public TObject {
public:
   Small fSmall = Small::kYes;
   Wide fWide = Wide::kLow;
   Diamond fDiamond;
   Box<double> fBox;
   Box<int> fInts;
   TClonesArray *fTracks = new TClonesArray("Helix", 4);
   TClonesArray fVertices = TClonesArray("Vertex", 2);
   std::multiset<Double32_t> fDouble32s;
   std::vector<std::vector<bool>> fFlags;
   std::vector<TObject *> fObjects;
   std::map<int, std::vector<Both>> fByNumber;
   TH1F *fHistogram = nullptr;
   TH2D fPlane;
   TGraph fGraph;
   Mixed *fSelf = nullptr;
   TObject *fAny = nullptr;
   Mixed() {}
   Mixed(int entry);
   Mixed(const Mixed &) = delete;
   Mixed &operator=(const Mixed &) = delete;
   ClassDefOverride(Mixed, 1)
};

/// Containers in containers, and what physicists put in them.
class Deep {
public:
   std::forward_list<int> fForward;
   std::unordered_multiset<int> fMultiset;
   std::unordered_multimap<int, float> fMultimap;
   std::list<std::string> fWords;
   std::deque<Spot> fDeque;
   std::set<std::pair<int, int>> fPairSet;
   std::vector<std::set<int>> fSets;
   std::vector<std::map<std::string, int>> fMaps;
   std::map<std::string, std::vector<std::string>> fWordLists;
   std::map<int, std::map<int, std::vector<Spot>>> fMapMaps;
   std::vector<std::vector<TString>> fTStrings;
   std::vector<std::pair<int, Spot>> fSpotPairs;
   std::vector<ROOT::RVec<float>> fRVecs;
   ROOT::RVec<double> fRVec;
   TVector3 fVector;
   TLorentzVector fLorentz;
   std::vector<TVector3> fVectors;
   std::vector<TLorentzVector> fLorentzes;
   std::array<double, 2> fArray = {{0, 0}};
   std::array<std::array<int, 2>, 2> fGrid = {{{{0, 0}}, {{0, 0}}}};
   std::vector<std::bitset<4>> fBits;
   std::vector<Named> fNames;
   Deep(int n = 0);
   virtual ~Deep() {}
   ClassDef(Deep, 1)
};
#endif
