// Classes that ROOT writes split and unsplit, for comparing what is read with what ROOT itself reads.
#ifndef SAPWOOD_TYPES_H
#define SAPWOOD_TYPES_H
#include <TClonesArray.h>
#include <TObject.h>
#include <TString.h>
#include <array>
#include <map>
#include <string>
#include <vector>

struct Point {
   Float_t x = 0;
   Double_t y = 0;
   Int_t n[2] = {0, 0};
};

class Base {
public:
   Int_t fBaseId = 0;
   Double32_t fBaseValue = 0; //[-10,10,14]
   virtual ~Base() {}
   ClassDef(Base, 2)
};

class Hit : public TObject {
public:
   Int_t fId = 0;
   UShort_t fLayer = 0;
   Float_t fX = 0;
   Double32_t fEnergy = 0; //[0,100,12]
   Float16_t fTime = 0;    //[0,0,9]
   Short_t fPosition[3] = {0, 0, 0};
   Bool_t fGood = false;
   ClassDefOverride(Hit, 3)
};

class Inner {
public:
   Long64_t fLong = 0;
   ULong64_t fUnsigned = 0;
   std::string fText;
   virtual ~Inner() {}
   ClassDef(Inner, 1)
};

enum EKind : int { kUnknownKind = -1, kFirstKind = 1, kSecondKind = 2 };

class Event : public Base {
public:
   Bool_t fFlag = false;
   Char_t fLetter = 0;
   UChar_t fByte = 0;
   Short_t fShort = 0;
   UShort_t fUShort = 0;
   UInt_t fUInt = 0;
   Long_t fLong = 0;
   ULong_t fULong = 0;
   EKind fKind = kUnknownKind;
   Float_t fMatrix[2][3] = {};
   Char_t fType[8] = {};
   Double32_t fPlain = 0;
   Double32_t fAngle = 0;  //[-pi,pi,10]
   Float16_t fHalf = 0;
   Float16_t fRange = 0;   //[0,1]
   Int_t fCount = 0;
   Float_t *fArray = nullptr;     //[fCount]
   Double32_t *fPacked = nullptr; //[fCount][0,1,8]
   std::string fName;
   std::vector<float> fFloats;
   std::vector<int> fInts;
   std::vector<std::string> fWords;
   std::vector<std::vector<double>> fNested;
   std::vector<Point> fPoints;
   Inner fInner;
   TString fRootText;
   std::map<int, double> fMap;
   TClonesArray *fHits = new TClonesArray("Hit", 4); //->
   Event() {}
   Event(const Event &) = delete;
   Event &operator=(const Event &) = delete;
   ~Event() override
   {
      delete[] fArray;
      delete[] fPacked;
      delete fHits;
   }
   ClassDefOverride(Event, 5)
};
#endif
