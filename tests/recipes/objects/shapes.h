// One class for every way in which ROOT streams a member, for comparing what is read with what ROOT itself reads.
#ifndef SAPWOOD_SHAPES_H
#define SAPWOOD_SHAPES_H
#include <ROOT/RVec.hxx>
#include <TArrayD.h>
#include <TArrayI.h>
#include <TBits.h>
#include <TClonesArray.h>
#include <TDatime.h>
#include <TExMap.h>
#include <THashList.h>
#include <TLorentzVector.h>
#include <TMap.h>
#include <TNamed.h>
#include <TObjArray.h>
#include <TObjString.h>
#include <TOrdCollection.h>
#include <TRef.h>
#include <TRefArray.h>
#include <TString.h>
#include <TTimeStamp.h>
#include <array>
#include <bitset>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

enum EColour : int { kDull = -1, kLeaf = 1, kSky = 7 };

/// Without ClassDef: known by its checksum.
struct Spot {
   Float_t x = 0;
   Double_t y = 0;
   Short_t n[2] = {0, 0};
};

struct Named {
   std::string name;
   std::vector<int> numbers;
};

class Numbers {
public:
   Bool_t fBool = true;
   Char_t fChar = -5;
   UChar_t fUChar = 250;
   Short_t fShort = -30000;
   UShort_t fUShort = 60000;
   Int_t fInt = -2000000000;
   UInt_t fUInt = 4000000000u;
   Long_t fLong = -9000000000000000000l;
   ULong_t fULong = 18000000000000000000ul;
   Long64_t fLong64 = -9000000000000000001ll;
   ULong64_t fULong64 = 18000000000000000001ull;
   Float_t fFloat = 1.5f;
   Double_t fDouble = -2.25;
   Double32_t fD32 = 0.1;
   Double32_t fD32Range = 3.3; //[0,10,16]
   Float16_t fF16 = 0.7;       //[0,0,10]
   Float16_t fF16Plain = 0.7;
   EColour fColour = kSky;
   EColour fColours[2] = {kLeaf, kDull};
   Int_t fFlat[4] = {1, 2, 3, 4};
   Short_t fGrid[2][3] = {{1, 2, 3}, {4, 5, 6}};
   Double32_t fD32Array[3] = {1, 2, 3}; //[0,10,16]
   Char_t fText[8] = "abc";
   Bool_t fFlags[3] = {true, false, true};
   Int_t fCount = 0;
   Float_t *fSome = nullptr;    //[fCount]
   Double32_t *fPacked = nullptr; //[fCount][0,1,8]
   Int_t *fPairs[2] = {nullptr, nullptr}; //[fCount]
   Int_t fNone = 0;
   Double_t *fEmpty = nullptr; //[fNone]
   const char *fCString = nullptr;
   Numbers() {}
   Numbers(int);
   Numbers(const Numbers &) = delete;
   Numbers &operator=(const Numbers &) = delete;
   virtual ~Numbers() {}
   ClassDef(Numbers, 3)
};

class Left {
public:
   Int_t fLeft = 11;
   virtual ~Left() {}
   ClassDef(Left, 2)
};

class Right : public TObject {
public:
   Double_t fRight = 22.5;
   TString fLabel = "right";
   ClassDefOverride(Right, 4)
};

class Both : public Left, public Right {
public:
   Int_t fBoth = 33;
   ClassDefOverride(Both, 1)
};

/// Derived from a container.
class Row : public std::vector<double> {
public:
   Int_t fExtra = 5;
   virtual ~Row() {}
   ClassDef(Row, 1)
};

class Node : public TNamed {
public:
   Node *fNext = nullptr;
   Node *fFirst = nullptr;
   TObject *fAny = nullptr;
   Int_t fValue = 0;
   Node() {}
   Node(const char *name, int value) : TNamed(name, "node"), fValue(value) {}
   ClassDefOverride(Node, 1)
};

/// Pointers of every kind.
class Pointers : public TObject {
public:
   Left *fLeft = nullptr;
   Left *fSame = nullptr;
   Left *fNull = nullptr;
   Left *fAlways = nullptr; //->
   TObject *fAny = nullptr;
   TNamed *fNamedAlways = nullptr; //->
   TObject *fRow[3] = {nullptr, nullptr, nullptr};
   Left *fLefts[2] = {nullptr, nullptr};
   Left fEmbedded[2];
   TNamed fNamedArray[2];
   TString fWords[3];
   std::string fStrings[2];
   Int_t fN = 0;
   Spot *fLoop = nullptr;  //[fN]
   Right **fLoopPointers = nullptr; //[fN]
   std::vector<int> *fVector = nullptr;
   std::vector<int> *fNoVector = nullptr;
   std::unique_ptr<Left> fUnique;
   Pointers() {}
   Pointers(int);
   Pointers(const Pointers &) = delete;
   Pointers &operator=(const Pointers &) = delete;
   ClassDefOverride(Pointers, 2)
};

/// Containers of every kind.
class Containers {
public:
   std::string fString;
   std::vector<bool> fBools;
   std::vector<char> fChars;
   std::vector<unsigned short> fShorts;
   std::vector<int> fInts;
   std::vector<Long64_t> fLongs;
   std::vector<double> fDoubles;
   std::list<Double32_t> fDouble32s;
   std::vector<EColour> fColours;
   std::vector<std::string> fStrings;
   std::vector<TString> fTStrings;
   std::vector<std::vector<float>> fNested;
   std::vector<std::vector<std::string>> fNestedStrings;
   std::vector<std::vector<std::vector<int>>> fDeep;
   std::vector<Spot> fSpots;
   std::vector<Named> fNames;
   std::vector<Both> fBoths;
   std::vector<std::vector<Spot>> fNestedSpots;
   std::vector<Left *> fPointers;
   std::vector<TNamed> fTNamed;
   std::vector<std::pair<int, double>> fPairs;
   std::vector<std::pair<int, std::string>> fWordPairs;
   std::pair<int, double> fPair;
   std::pair<std::string, std::vector<int>> fWordPair;
   std::list<int> fList;
   std::deque<double> fDeque;
   std::set<int> fSet;
   std::set<std::string> fWordSet;
   std::multiset<int> fMultiset;
   std::unordered_set<int> fUnordered;
   std::map<int, double> fMap;
   std::map<std::string, int> fWordMap;
   std::map<int, std::vector<float>> fVectorMap;
   std::map<std::string, Spot> fSpotMap;
   std::map<int, Both> fBothMap;
   std::map<std::string, std::map<int, std::string>> fMapMap;
   std::multimap<int, int> fMultimap;
   std::unordered_map<int, double> fUnorderedMap;
   std::map<int, Left *> fPointerMap;
   std::map<std::pair<int, int>, double> fPairMap;
   std::bitset<12> fBits;
   std::array<int, 3> fArray = {{7, 8, 9}};
   std::vector<std::array<float, 2>> fArrays;
   ROOT::RVec<float> fRVec;
   std::vector<int> fVectors[2];
   std::map<int, int> fMaps[2];
   Containers() {}
   Containers(int);
   Containers(const Containers &) = delete;
   Containers &operator=(const Containers &) = delete;
   virtual ~Containers() {}
   ClassDef(Containers, 6)
};

/// ROOT's own collections and other classes with streamers of their own.
class Collections : public TObject {
public:
   TList fList;
   THashList fHashList;
   TObjArray fArray;
   TObjArray *fNoArray = nullptr;
   TOrdCollection fOrdered;
   TMap fMap;
   TClonesArray fClones = TClonesArray("Right");
   TClonesArray *fClonesPointer = nullptr; //->
   TRef fRef;
   TRefArray fRefs;
   TArrayD fDoubles;
   TArrayI fInts;
   TArrayI *fIntsPointer = nullptr;
   TDatime fDate;
   TTimeStamp fStamp;
   TBits fBitSet;
   TExMap fNumbers;
   TObjString fWord;
   TLorentzVector fVector;
   Collections() {}
   Collections(int bypass);
   Collections(const Collections &) = delete;
   Collections &operator=(const Collections &) = delete;
   ClassDefOverride(Collections, 1)
};

/// Its streamer writes other things than its members.
class Secret : public TObject {
public:
   Int_t fCode = 0;
   Secret(int code = 0) : fCode(code) {}
   ClassDefOverride(Secret, 2)
};

/// Readable around what is not.
class Holder : public TNamed {
public:
   Int_t fBefore = 1;
   Secret fSecret;
   Int_t fAfter = 2;
   TObjArray fItems;
   Secret *fPointer = nullptr;
   Double_t fLast = 4.5;
   Holder() {}
   Holder(int);
   Holder(const Holder &) = delete;
   Holder &operator=(const Holder &) = delete;
   ClassDefOverride(Holder, 1)
};

namespace detector {
enum class ELayer : int { kInner = 1, kOuter = 2 };
struct Cell {
   ELayer fLayer = ELayer::kInner;
   Float_t fEnergy[2] = {0, 0};
};
} // namespace detector

/// What an event holds many of.
class Track : public TObject {
public:
   Float_t fMomentum[3] = {0, 0, 0};
   Double32_t fMass = 0; //[0,1,12]
   Short_t fCharge = 0;
   EColour fColour = kDull;
   UInt_t fPoints = 0;
   Float_t *fPoint = nullptr; //[fPoints]
   std::vector<detector::Cell> fCells;
   Track() {}
   Track(int i);
   Track(const Track &) = delete;
   Track &operator=(const Track &) = delete;
   ClassDefOverride(Track, 3)
};

/// As experiments write them: several bases, a nested class and enumeration, objects in all kinds of containers.
class Event : public TNamed, public Left {
public:
   enum EKind { kNothing = 0, kCosmic = 3, kBeam = 5 };
   struct Header {
      Int_t fRun = 0;
      ULong64_t fTime = 0;
      EKind fKind = kNothing;
   };
   Header fHeader;
   Header fHistory[2];
   EKind fKind = kNothing;
   Float_t fMatrix[2][3] = {{0, 0, 0}, {0, 0, 0}};
   Char_t fWord[6] = "";
   Int_t fWeights = 0;
   Double_t *fWeight = nullptr; //[fWeights]
   TClonesArray *fTracks = nullptr; //->
   TObjArray fFound;
   Track *fLeading = nullptr;
   TRef fLast;
   TRefArray fGood;
   TLorentzVector fTotal;
   TDatime fDate;
   std::vector<Spot> fSpots;
   std::list<Named> fNames;
   std::map<std::string, std::vector<double>> fCalibrations;
   std::map<int, Spot> fNumbered;
   std::set<int> fTriggers;
   std::bitset<5> fBits;
   std::vector<detector::ELayer> fLayers;
   std::string fText;
   Event() {}
   Event(const Event &) = delete;
   Event &operator=(const Event &) = delete;
   void set(int i);
   ClassDefOverride(Event, 2)
};
#endif
