// Bases, rows of objects and enumerations where members are streamed one by one for many objects.
#ifndef SAPWOOD_ROWS_H
#define SAPWOOD_ROWS_H
#include <TArrayF.h>
#include <TClonesArray.h>
#include <TLorentzVector.h>
#include <TNamed.h>
#include <map>
#include <string>
#include <vector>

enum class ETiny : signed char { kBelow = -3, kOne = 1 };
enum class EShort : unsigned short { kOne = 1, kMost = 60000 };

class OfNamed : public TNamed {
public:
   Int_t fI = 0;
   void Set(int n);
   ClassDefOverride(OfNamed, 1)
};
class OfLorentz : public TLorentzVector {
public:
   Int_t fI = 0;
   void Set(int n);
   ClassDefOverride(OfLorentz, 1)
};
class OfArray : public TObject, public TArrayF {
public:
   Int_t fI = 0;
   void Fill(int n);
   ClassDefOverride(OfArray, 1)
};
class Shelf : public TObject {
public:
   Int_t fN = 0;
   OfNamed *fNames = nullptr; //[fN]
   Int_t fLast = 0;
   void Set(int n);
   ClassDefOverride(Shelf, 1)
};
class Angle {
public:
   Double32_t fOdd[2] = {0, 0}; //[2*pi, 4*pi, 32]
   Double32_t fFull = 0;        //[-pi, pi, 16]
   virtual ~Angle() {}
   ClassDef(Angle, 1)
};

class Rows : public TObject {
public:
   TClonesArray fNamed{"OfNamed"};
   TClonesArray fMomenta{"OfLorentz"};
   TClonesArray fArrays{"OfArray"};
   TClonesArray fRows{"Shelf"};
   std::vector<OfNamed> fNames;
   std::vector<OfLorentz> fVectors;
   std::vector<Angle> fAngles;
   std::map<int, ETiny> fTiny;
   std::map<EShort, int> fShort;
   std::map<ETiny, EShort> fBoth;
   std::vector<std::string *> fWords;
   std::vector<std::vector<int> *> fLists;
   void Set(int n);
   ClassDefOverride(Rows, 1)
};
#endif
