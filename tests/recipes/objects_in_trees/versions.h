// Version 1 or 2 of classes that change, and a class that holds them in every way.
#ifndef SAPWOOD_VERSIONS_H
#define SAPWOOD_VERSIONS_H
#include <TObject.h>
#include <map>
#include <string>
#include <vector>

#if VERSION == 1
class Grown {
public:
   Int_t fStays = 1;
   Float_t fWidens = 2.5;
   Short_t fGoes = 3;
   Int_t fLater = 4;
   virtual ~Grown() {}
   ClassDef(Grown, 1)
};
struct Plain {
   Int_t a = 1;
   Float_t b = 2;
};
#else
class Added {
public:
   Int_t fAdded = 0;
   virtual ~Added() {}
   ClassDef(Added, 1)
};
class Grown : public Added {
public:
   Int_t fLater = 40;
   std::string fNew;
   Int_t fStays = 10;
   Double_t fWidens = 20.5;
   std::vector<int> fMore;
   ClassDefOverride(Grown, 2)
};
struct Plain {
   Double_t b = 20;
   Long64_t a = 10;
   Int_t c = 0;
};
#endif
class Grower : public TObject {
public:
   Grown fOne;
   std::vector<Grown> fSeveral;
   std::map<int, Grown> fByNumber;
   Grown *fPointer = nullptr;
   TObject *fNone = nullptr;
   Plain fPlain;
   std::vector<Plain> fPlains;
   Plain fRow[2];
   ClassDefOverride(Grower, 1)
};
#endif
