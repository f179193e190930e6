// Classes whose objects lead back to themselves, or whose bytes are not what the file says of them.
#include <TBuffer.h>
#include <TObject.h>

#include <vector>

/// Leads to more of its kind, and maybe back.
struct Chain : public TObject {
   Int_t fNumber = 0;
   Chain *fNext = nullptr;
   Chain *fOther = nullptr;
   ClassDefOverride(Chain, 1)
};

/// Writes less than its members.
struct Brief : public TObject {
   Int_t fCode = 0;
   Float_t fWeight = 0;
   ClassDefOverride(Brief, 4)
};

/// Readable around what is not.
struct Around : public TObject {
   Int_t fBefore = 1;
   Brief fBrief;
   Int_t fBetween = 2;
   std::vector<Brief> fMany;
   Brief *fPointer = nullptr;
   Brief *fSame = nullptr;
   Int_t fLast = 3;
   ClassDefOverride(Around, 1)
};

void Brief::Streamer(TBuffer &b)
{
   if (b.IsReading()) {
      UInt_t start, count;
      b.ReadVersion(&start, &count);
      b >> fCode;
      b.CheckByteCount(start, count, IsA());
   } else {
      const UInt_t count = b.WriteVersion(IsA(), true);
      b << fCode;
      b.SetByteCount(count, true);
   }
}

#ifdef __CLING__
#pragma link C++ struct Chain+;
#pragma link C++ struct Brief-;
#pragma link C++ struct Around+;
#pragma link C++ class std::vector<Brief>+;
#endif
