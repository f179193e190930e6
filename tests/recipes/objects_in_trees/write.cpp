// Trees of objects of every kind, whole and split.
#include "more.h"
#include <TFile.h>
#include <TTree.h>
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

template <typename T, typename Make>
static void tree(const std::string &name, Int_t split, Make make, int entries)
{
   TTree tree((name + "_" + std::to_string(split)).c_str(), "");
   T *object = make(0);
   Int_t number = 0;
   tree.Branch("object", &object, 32000, split);
   tree.Branch("number", &number);
   tree.SetAutoFlush(4);
   for (number = 0; number < entries; ++number) {
      object = make(number);
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
   file.Close();
}

// One version of the classes that change, in trees named after it.
void write_versions(const std::string &path, const std::string &name, bool member_wise)
{
   TVirtualStreamerInfo::SetStreamMemberWise(member_wise);
   TFile file(path.c_str(), "UPDATE", "", 101);
   for (int split : {0, 1, 99}) {
      tree<Grower>(name, split, [](int i) {
         auto g = new Grower;
         g->fOne.fStays = i;
         g->fSeveral.resize(i);
         g->fByNumber[i].fWidens = i;
         g->fPointer = new Grown;
         g->fPlain.a = i;
         g->fPlains.resize(i);
#if VERSION == 2
         g->fOne.fAdded = 9;
         g->fOne.fNew = "new";
         g->fOne.fMore = {1, 2};
         g->fPlain.c = 30;
#endif
         return g; }, 5);
   }
   file.Close();
}
