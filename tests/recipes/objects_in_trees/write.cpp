// Trees of objects of every kind, whole and split.
#include "more.h"
#include "tree.h"
#include <TFile.h>
#include <TVirtualStreamerInfo.h>

void Helix::Set(int n, int seed)
{
   Clear();
   fN = n;
   if (n) {
      fValues = new Float_t[n];
      fPacked = new Double32_t[n];
   }
   for (int i = 0; i < n; ++i) {
      fValues[i] = seed + 0.5f * i;
      fPacked[i] = (seed + i) % 10;
   }
   fHits.assign(n, seed);
   fSpots.assign(n % 3, Spot());
   fName = TString('t', seed % 5);
   fSpot.x = seed;
   fPair[1].y = -seed;
   fEnergy = seed % 100;
}

Mixed::Mixed(int entry) : fPlane("plane", "a plane", 2, 0, 1, 3, 0, 1), fGraph(entry)
{
   fWide = entry % 2 ? Wide::kHigh : Wide::kLow;
   fSmall = entry % 2 ? Small::kYes : Small::kNo;
   fDiamond.fTop = entry;
   fBox.fInside.value = 0.25 * entry;
   fBox.fMany.resize(entry);
   for (int i = 0; i < entry; ++i) fBox.fMany[i].value = i;
   fInts.fMany.resize(1);
   for (int i = 0; i < entry; ++i) static_cast<Helix *>(fTracks->ConstructedAt(i))->Set((entry + i) % 4, 10 * entry + i);
   for (int i = 0; i < entry % 3; ++i) {
      auto vertex = static_cast<Vertex *>(fVertices.ConstructedAt(i));
      vertex->fId = i;
      for (int k = 0; k <= i; ++k) static_cast<Right *>(vertex->fTracks.ConstructedAt(k))->fRight = k;
      vertex->fDeep = {{Both()}, {}};
   }
   fDouble32s = {0.5, double(entry)};
   fFlags = {{true, false}, {}, {entry % 2 == 0}};
   fObjects = {new TNamed("a", "named"), nullptr, new Right};
   fByNumber[entry] = {Both(), Both()};
   fHistogram = new TH1F("h", "a histogram", 4, 0, 1);
   fHistogram->SetDirectory(nullptr);
   fHistogram->Fill(0.3, entry);
   fPlane.SetDirectory(nullptr);
   fPlane.Fill(0.2, 0.6, entry);
   for (int i = 0; i < entry; ++i) fGraph.SetPoint(i, i, i * i);
   fSelf = this;
   fAny = entry % 2 ? static_cast<TObject *>(fHistogram) : new TObjString("any");
}

void OfNamed::Set(int n)
{
   SetNameTitle(TString('n', n % 3), "title");
   fI = n;
}
void OfLorentz::Set(int n)
{
   SetPxPyPzE(n, 1, 2, 3 * n);
   fI = -n;
}
void OfArray::Fill(int n)
{
   Set(n % 4);
   for (int i = 0; i < fN; ++i) fArray[i] = n + 0.5f * i;
   fI = n;
}
void Shelf::Set(int n)
{
   delete[] fNames;
   // None would be null in ROOT's JSON form.
   fN = 1 + n % 3;
   fNames = new OfNamed[fN];
   for (int i = 0; i < fN; ++i) fNames[i].Set(n + i);
   fLast = n;
}
void Rows::Set(int n)
{
   for (int i = 0; i < n; ++i) {
      static_cast<OfNamed *>(fNamed.ConstructedAt(i))->Set(n + i);
      static_cast<OfLorentz *>(fMomenta.ConstructedAt(i))->Set(n + i);
      static_cast<OfArray *>(fArrays.ConstructedAt(i))->Fill(n + i);
      static_cast<Shelf *>(fRows.ConstructedAt(i))->Set(n + i);
      fTiny[i] = i % 2 ? ETiny::kBelow : ETiny::kOne;
      fShort[i % 2 ? EShort::kOne : EShort::kMost] = i;
      fBoth[i % 2 ? ETiny::kBelow : ETiny::kOne] = EShort::kMost;
      fWords.push_back(i % 3 == 1 ? nullptr : new std::string(i, 'w'));
      fLists.push_back(new std::vector<int>(i, n));
   }
   fNames.resize(n);
   fVectors.resize(n);
   fAngles.resize(n);
   for (int i = 0; i < n; ++i) {
      fNames[i].Set(n + i);
      fVectors[i].Set(n + i);
      fAngles[i].fOdd[1] = 0.25 * i;
      fAngles[i].fFull = 0.5 * i;
   }
}

Deep::Deep(int n) : fVector(n, 1, 2), fLorentz(1, 2, 3, n), fArray{{0.5 * n, 1}}, fGrid{{{{n, 1}}, {{2, -n}}}}
{
   Spot spot;
   spot.x = n;
   for (int i = 0; i < n; ++i) {
      fForward.push_front(i);
      fMultiset.insert(7);
      fMultimap.emplace(3, 0.5f * n);
      fWords.push_back(std::string(i, 'w'));
      fDeque.push_back(spot);
      fPairSet.emplace(n, i);
      fSets.push_back({i, n, -1});
      fMaps.push_back({{"a", i}, {std::string(i, 'b'), n}});
      fWordLists[std::string(i, 'k')] = {"one", std::string(n, 'x')};
      fMapMaps[i][n] = {spot, Spot()};
      fMapMaps[i][-n];
      fTStrings.push_back({"t", TString('s', i)});
      fSpotPairs.emplace_back(i, spot);
      fRVecs.push_back({0.5f * i, 1});
      fRVec.push_back(i);
      fVectors.emplace_back(i, n, 3);
      fLorentzes.emplace_back(i, n, 3, 4);
      fBits.push_back(std::bitset<4>(n));
      fNames.push_back({std::string(n, 'n'), {i, n}});
   }
}

void Enumerations::Set(int n)
{
   fPair = {kMinus, n};
   for (int i = 0; i < n; ++i) {
      const auto plain = i % 2 ? kMinus : kMuch;
      const auto byte = i % 2 ? EByte::kOne : EByte::kMost;
      const auto wide = i % 2 ? ELong::kOne : ELong::kFar;
      fPlain.push_back(plain);
      fMap[i] = plain;
      fKeys[byte] = i;
      fWords[std::string(i, 'w')] = wide;
      fPairs.emplace_back(i, plain);
      fNested.push_back({kMuch, plain});
      fLists[i] = {kMuch, plain, kNothing};
      fRow[i % 2].push_back(plain);
   }
}

void Widths::Set(int n)
{
   for (int i = 0; i < n; ++i) {
      fBytes.push_back(i % 2 ? EByte::kOne : EByte::kMost);
      fLongs.push_back(i % 2 ? ELong::kOne : ELong::kFar);
      fNestedBytes.push_back({EByte::kMost, fBytes.back()});
      fSet.insert(i % 2 ? kMinus : kMuch);
   }
}

void Pairs::Set(int n)
{
   fPair.first = n;
   fTexts = {std::string(n, 's'), TString('t', n)};
   fDeep.second = "deep";
   for (int i = 0; i < n; ++i) {
      fPair.second.push_back(i + 0.5f);
      fBoth.first.push_back(i);
      fBoth.second[i] = n;
      fDeep.first.second.push_back(i);
      fList.push_back({i, {1.f * i, 2.f}});
      fMap[i] = {i, {3.f, 1.f * n}};
   }
}

void Arrays::Set(int n)
{
   for (int i = 0; i < n; ++i) {
      fVectors[i % 3].push_back(i);
      fStrings[i % 2] += 'x';
      fGrid[i % 2][1].push_back(i);
      fPoints[1].n = i;
      fMaps[i % 2][i] = 0.5f * i;
      fWords[1] += "w";
      fPlane[1][0].x = n;
      fNames[0][1] = "name";
      fTable[i % 2][1] = {i, n};
   }
}

static void set_symmetric(TMatrixDSym &matrix, int n)
{
   matrix.ResizeTo(n, n);
   for (int row = 0; row < n; ++row)
      for (int column = 0; column < n; ++column) matrix(row, column) = 10 * std::max(row, column) + std::min(row, column);
}

void Matrices::Set(int n)
{
   set_symmetric(fSymmetric, n + 1);
   fSingle.ResizeTo(2, 2);
   fSingle(0, 0) = n;
   fFull.ResizeTo(2, 3);
   fFull(1, 2) = n;
   fVector.ResizeTo(n);
   if (n % 2) set_symmetric(*(fPointer = new TMatrixDSym), 2);
   for (int i = 0; i < n % 3; ++i) {
      TMatrixDSym matrix;
      set_symmetric(matrix, i + 1);
      fMany.push_back(matrix);
   }
   fPacked(1, 2) = n;
   fAfter = n;
}

static OfTwo of_two(int n)
{
   OfTwo object;
   object.fFirst = n;
   object.fInts.assign(n % 4, n);
   object.fText = std::string(n % 5, 't');
   object.fPacked = Packed{3.3 * n, n - 0.7f, {0, 0.3}, 0.3f * n};
   return object;
}

void Family::Set(int n)
{
   fAge = n;
   fChildren.resize(n);
   for (int i = 0; i < n; ++i) fChildren[i].Set(n - 1 - i);
}

void Nests::Set(int n)
{
   for (int i = 0; i < n; ++i) {
      fPacked.push_back(of_two(i).fPacked);
      fPackedMap[i] = of_two(n).fPacked;
      fList.push_back(of_two(n + i));
      fByWord[std::string(i, 'w')] = {of_two(i), of_two(1)};
      fByNumbers[i][i] = {of_two(i)};
      fByNumbers[i][9];
      fNested.push_back({of_two(i), of_two(2)});
      fPair = {of_two(n), n};
      fPairs.push_back({"p", {of_two(i)}});
      fSets.insert({i, n});
      fMaps.push_back({{i, "x"}});
      fSwitches[i] = std::bitset<4>(i);
      fDeques.push_back({"q", std::string(i, 'r')});
      fPointers.push_back(i % 2 ? new OfTwo(of_two(i)) : new FirstBase);
      fOwned.emplace_back(i % 2 ? new OfTwo(of_two(i)) : new FirstBase);
   }
   if (n % 2) {
      fArray = new TObjArray;
      auto clones = new TClonesArray("TNamed");
      new ((*clones)[0]) TNamed("in", "clones");
      fArray->Add(clones);
      auto list = new TList;
      list->Add(new TObjString("deep"));
      fArray->Add(list);
      fMap = new TMap;
      fMap->Add(new TObjString("key"), fArray);
   }
}

// Of as many elements as the entry's number.
template <typename T>
static T *set_to(int entry)
{
   auto object = new T;
   object->Set(entry);
   return object;
}

// Pointers of several classes, split by class: ROOT keeps to the vector that it is given first.
static void write_by_class(int split)
{
   std::vector<FirstBase *> pointers, *object = &pointers;
   TTree tree(("byclass_" + std::to_string(split)).c_str(), "");
   tree.Branch("object", &object, 32000, split);
   for (int entry = 0; entry < 6; ++entry) {
      pointers.clear();
      for (int i = 0; i < entry; ++i) pointers.push_back(i % 2 ? new OfTwo(of_two(i)) : new FirstBase);
      tree.Fill();
   }
   tree.Write();
   tree.ResetBranchAddresses();
}

// Whole values and default ones in turn.
template <typename T>
static T *in_turn(int entry)
{
   return entry % 3 == 1 ? new T() : new T(1);
}

// The same under keys of their own.
static void write_objects(TFile &file)
{
   auto write = [&](const char *name, auto *object) {
      file.WriteObjectAny(object, TClass::GetClass(typeid(*object)), name);
   };
   write("enumerations", set_to<Enumerations>(3));
   write("widths", set_to<Widths>(3));
   write("matrices", set_to<Matrices>(2));
   write("bytes", new std::vector<EByte>{EByte::kMost, EByte::kOne});
   write("nested_bytes", new std::vector<std::vector<EByte>>{{EByte::kMost}, {}});
   write("longs", new std::vector<ELong>{ELong::kFar});
   write("plain", new std::map<int, EPlain>{{1, kMinus}});
   write("keys", new std::map<EByte, float>{{EByte::kMost, 1.5f}});
}

void write_trees(const std::string &path, bool member_wise)
{
   TVirtualStreamerInfo::SetStreamMemberWise(member_wise);
   TH1::AddDirectory(false);
   TFile file(path.c_str(), "RECREATE", "", 101);
   for (int split : {0, 1, 99}) {
      tree<Numbers>("numbers", split, in_turn<Numbers>, 7);
      // ROOT cannot read it whole: TObject is not its first base.
      if (split > 1) tree<Both>("both", split, [](int i) { auto b = new Both; b->fBoth = i; return b; }, 7);
      tree<Pointers>("pointers", split, [](int) { return new Pointers(1); }, 5);
      tree<Containers>("containers", split, in_turn<Containers>, 7);
      tree<Collections>("collections", split, [split](int i) { return new Collections(split || i % 2); }, 7);
      // ROOT misplaces the members of virtual bases when it splits.
      if (!split) tree<Diamond>("diamond", split, [](int i) { auto d = new Diamond; d->fTop = i; return d; }, 5);
      tree<Mixed>("mixed", split, [](int i) { return new Mixed(i); }, 7);
      tree<Deep>("deep", split, [](int i) { return new Deep(i); }, 6);
      tree<Node>("cycle", split, [](int i) {
         auto a = new Node("a", i), b = new Node("b", i + 1);
         a->fNext = b, b->fFirst = a, b->fAny = b;
         return a; }, 5);
      tree<Enumerations>("enumerations", split, set_to<Enumerations>, 5);
      tree<Widths>("widths", split, set_to<Widths>, 5);
      tree<Pairs>("pairs", split, set_to<Pairs>, 5);
      tree<Arrays>("arrays", split, set_to<Arrays>, 5);
      tree<Matrices>("matrices", split, set_to<Matrices>, 5);
      tree<Family>("family", split, set_to<Family>, 4);
      tree<Nests>("nests", split, set_to<Nests>, 5);
      // A split TClonesArray is filled from where it was first.
      tree<Rows>("rows", split, [split](int i) {
         static std::map<int, Rows *> kept;
         auto &rows = kept[split];
         if (!rows) return rows = new Rows;
         for (auto array : {&rows->fNamed, &rows->fMomenta, &rows->fArrays, &rows->fRows}) array->Delete();
         rows->fTiny.clear(), rows->fShort.clear(), rows->fBoth.clear(), rows->fWords.clear(), rows->fLists.clear();
         rows->Set(i);
         return rows; }, 5);
      tree<TClonesArray>("histograms", split, [](int i) {
         static auto array = new TClonesArray("TH1F");
         array->Delete();
         for (int k = 0; k < i; ++k) {
            auto h = static_cast<TH1F *>(array->ConstructedAt(k));
            h->SetBins(2 + k, 0, 1);
            h->Fill(0.2, i + k);
         }
         return array; }, 4);
      tree<std::pair<int, std::vector<float>>>("pair", split, [](int i) {
         return new std::pair<int, std::vector<float>>(i, std::vector<float>(i, 0.5f)); }, 4);
      tree<std::vector<EByte>>("bytes", split, [](int i) { return new std::vector<EByte>(i, EByte::kMost); }, 4);
      tree<std::map<int, EPlain>>("plain", split, [](int i) {
         return new std::map<int, EPlain>{{i, kMinus}, {-1, kMuch}}; }, 4);
      tree<TMatrixDSym>("symmetric", split, [](int i) {
         auto matrix = new TMatrixDSym; set_symmetric(*matrix, i + 1); return matrix; }, 4);
      tree<TMatrixD>("full", split, [](int i) {
         auto matrix = new TMatrixD(i + 1, 2); (*matrix)(0, 1) = i; return matrix; }, 4);
      tree<std::vector<Both>>("boths", split, [](int i) { return new std::vector<Both>(i); }, 5);
      tree<std::vector<Left *>>("lefts", split, [](int i) {
         return new std::vector<Left *>{new Left, new Both, i % 2 ? nullptr : new Left}; }, 5);
      tree<std::vector<std::vector<Spot>>>("nested", split, [](int i) {
         return new std::vector<std::vector<Spot>>(i, std::vector<Spot>(2)); }, 5);
      tree<std::vector<std::vector<EColour>>>("colours", split, [](int i) {
         return new std::vector<std::vector<EColour>>(i, {kLeaf, kSky}); }, 3);
      tree<std::map<std::string, Spot>>("map", split, [](int i) {
         return new std::map<std::string, Spot>{{"a", Spot()}, {std::string(i, 'b'), Spot()}}; }, 5);
      tree<TClonesArray>("clones", split, [](int i) {
         // A split one stays where it is.
         static auto array = new TClonesArray("Helix");
         array->Clear("C");
         for (int k = 0; k < i; ++k) static_cast<Helix *>(array->ConstructedAt(k))->Set((i + k) % 3, 5 * i + k);
         return array; }, 6);
      tree<TObjArray>("array", split, [](int i) {
         auto array = new TObjArray;
         for (int k = 0; k < i; ++k) array->Add(k % 2 ? static_cast<TObject *>(new Right) : new TNamed("n", "t"));
         return array; }, 5);
      tree<TH1F>("histogram", split, [](int i) {
         auto h = new TH1F("h", "t", 3, 0, 1); h->Fill(0.5, i); return h; }, 5);
      tree<TLorentzVector>("lorentz", split, [](int i) { return new TLorentzVector(i, 1, 2, 3); }, 5);
   }
   write_by_class(101);
   write_by_class(199);
   write_objects(file);
   file.Close();
}
