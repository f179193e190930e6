// Writes files of objects (containers member by member where ROOT does so, or object by object), and a tree.
#include "shapes.h"
#include <TBuffer.h>
#include <TBufferFile.h>
#include <TFile.h>
#include <TParameter.h>
#include <TTree.h>
#include <TVirtualStreamerInfo.h>

ClassImp(Numbers) ClassImp(Left) ClassImp(Right) ClassImp(Both) ClassImp(Row) ClassImp(Node) ClassImp(Pointers)
ClassImp(Containers) ClassImp(Collections) ClassImp(Secret) ClassImp(Holder) ClassImp(Track)
ClassImp(Event)

void Secret::Streamer(TBuffer &b)
{
   UInt_t start, count;
   if (b.IsReading()) {
      b.ReadVersion(&start, &count);
      TObject::Streamer(b);
      Short_t low, high;
      b >> low >> high;
      fCode = low + 1000 * high;
      UChar_t more;
      b >> more;
      b.CheckByteCount(start, count, IsA());
   } else {
      count = b.WriteVersion(Secret::Class(), true);
      TObject::Streamer(b);
      b << Short_t(fCode % 1000) << Short_t(fCode / 1000) << UChar_t(255);
      b.SetByteCount(count, true);
   }
}

Numbers::Numbers(int) : fCount(3), fCString("hello")
{
   fSome = new Float_t[3]{1.5, 2.5, 3.5};
   fPacked = new Double32_t[3]{0, 0.5, 1};
   fPairs[0] = new Int_t[3]{1, 2, 3};
   fPairs[1] = new Int_t[3]{4, 5, 6};
}

Pointers::Pointers(int)
{
   fLeft = new Both;
   fSame = fLeft;
   fAlways = new Left;
   fAlways->fLeft = 77;
   fAny = new TNamed("any", "thing");
   fNamedAlways = new TNamed("always", "there");
   fRow[0] = new TObjString("zero");
   fRow[2] = fAny;
   fLefts[1] = new Left;
   fNamedArray[0].SetName("first");
   fNamedArray[1].SetTitle("second");
   fEmbedded[1].fLeft = 3;
   fWords[0] = "a";
   fWords[2] = TString('x', 300);
   fStrings[1] = "std";
   fN = 2;
   fLoop = new Spot[2];
   fLoop[1].x = 5;
   fLoopPointers = new Right *[2] { new Right, new Right };
   fLoopPointers[1]->fRight = -1;
   fVector = new std::vector<int>{1, 2, 3};
   fUnique = std::make_unique<Left>();
}

static Spot spot(float x) { Spot s; s.x = x; s.y = 2 * x; s.n[0] = 1; s.n[1] = 2; return s; }
static Both both(int i) { Both b; b.fBoth = i; b.fLeft = 10 * i; b.fRight = 0.5 * i; b.fLabel = TString::Format("b%d", i); return b; }

Containers::Containers(int)
{
   fString = "text with \xc3\xa9 and\nmore";
   fBools = {true, false, true};
   fChars = {'a', 'b'};
   fShorts = {1, 65535};
   fInts = {1, -2, 3};
   fLongs = {-1, 1ll << 60};
   fDoubles = {0.5, 1.5};
   fDouble32s = {0.25, 0.75};
   fColours = {kLeaf, kSky, kDull};
   fStrings = {"a", "", std::string(300, 'z')};
   fTStrings = {"t", "u"};
   fNested = {{1, 2}, {}, {3}};
   fNestedStrings = {{"a"}, {}, {"b", "c"}};
   fDeep = {{{1}, {}}, {}, {{2, 3}}};
   fSpots = {spot(1), spot(2)};
   fNames = {{"one", {1}}, {"two", {1, 2}}, {"none", {}}};
   fBoths = {both(1), both(2), both(3)};
   fNestedSpots = {{spot(1)}, {}, {spot(2), spot(3)}};
   fPointers = {new Both, nullptr, new Left};
   fTNamed = {TNamed("a", "b"), TNamed("c", "d")};
   fPairs = {{1, 1.5}, {2, 2.5}};
   fWordPairs = {{1, "x"}, {2, "yy"}};
   fPair = {4, 4.5};
   fWordPair = {"w", {1, 2}};
   fList = {3, 2, 1};
   fDeque = {1.25, 2.25};
   fSet = {5, 1, 3};
   fWordSet = {"q", "p"};
   fMultiset = {2, 2, 1};
   fUnordered = {42};
   fMap = {{1, 1.5}, {-1, 2.5}};
   fWordMap = {{"b", 2}, {"a", 1}};
   fVectorMap = {{1, {1, 2}}, {2, {}}};
   fSpotMap = {{"s", spot(1)}, {"t", spot(2)}};
   fBothMap = {{1, both(1)}, {2, both(2)}};
   fMapMap = {{"m", {{1, "one"}}}, {"n", {}}};
   fMultimap = {{1, 1}, {1, 2}, {2, 3}};
   fUnorderedMap = {{9, 9.5}};
   fPointerMap = {{1, new Both}, {2, nullptr}};
   fPairMap = {{{1, 2}, 0.5}, {{3, 4}, 1.5}};
   fBits = std::bitset<12>("100000000011");
   fArrays = {{{1, 2}}, {{3, 4}}};
   fRVec = {1.5, 2.5};
   fVectors[0] = {1};
   fVectors[1] = {2, 3};
   fMaps[1] = {{1, 2}};
}

static void fill(TClonesArray &array)
{
   for (int i = 0; i < 4; ++i) {
      if (i == 2)
         continue;
      auto right = static_cast<Right *>(array.ConstructedAt(i));
      right->fRight = i;
      right->fLabel = TString::Format("clone %d", i);
   }
}

Collections::Collections(int bypass)
{
   fList.SetName("things");
   fList.Add(new TNamed("a", "first"), "draw option");
   fList.Add(new TObjString("second"));
   fList.Add(fList.First());
   fHashList.Add(new TNamed("h", "hashed"));
   fArray.AddAtAndExpand(new TNamed("x", "y"), 2);
   fOrdered.Add(new TObjString("ordered"));
   fMap.Add(new TObjString("key"), new TParameter<double>("value", 2.5));
   fMap.Add(new TObjString("nothing"), static_cast<TObject *>(nullptr));
   fClonesPointer = new TClonesArray("Right");
   for (auto array : {&fClones, fClonesPointer}) {
      array->BypassStreamer(bypass);
      fill(*array);
      if (bypass) // member by member there can be no gaps
         array->Compress();
   }
   auto named = new TNamed("referenced", "");
   fArray.Add(named);
   fRef = named;
   fRefs.Add(named);
   fRefs.Add(fArray[2]);
   fDoubles.Set(2);
   fDoubles[1] = 1.5;
   fInts.Set(3);
   fInts[2] = -3;
   fIntsPointer = new TArrayI(2);
   fDate.Set(2020, 2, 29, 12, 34, 56);
   fStamp = TTimeStamp(1600000000, 5);
   fBitSet.SetBitNumber(9);
   fNumbers.Add(1, 2, 3);
   fWord.SetString("word");
   fVector.SetPxPyPzE(1, 2, 3, 4);
}

Holder::Holder(int) : TNamed("holder", "of a secret"), fSecret(12345)
{
   fItems.Add(new TNamed("kept", "readable"));
   fItems.Add(new Secret(7));
   fItems.Add(new TObjString("kept too"));
   fPointer = new Secret(9);
}

template <typename T>
static void put(TFile &file, T *object, const char *name)
{
   file.WriteObject(object, name);
}

void write_shapes(const std::string &path, bool member_wise)
{
   TVirtualStreamerInfo::SetStreamMemberWise(member_wise);
   TFile file(path.c_str(), "RECREATE", "", 101);
   put(file, new Numbers(1), "numbers");
   put(file, new Numbers(), "unset");
   put(file, new Both, "both");
   put(file, new Pointers(1), "pointers");
   put(file, new Containers(1), "containers");
   put(file, new Containers(), "empty");
   put(file, new Collections(0), "collections");
   put(file, new Collections(1), "bypassed");
   auto row = new Row;
   row->assign({1.5, 2.5});
   put(file, row, "row");
   auto first = new Node("first", 1), second = new Node("second", 2), third = new Node("third", 3);
   first->fNext = second;
   second->fNext = third;
   third->fFirst = first;
   second->fFirst = first;
   third->fAny = second;
   second->fAny = second;
   put(file, first, "cycle");
   put(file, new Holder(1), "holder");
   put(file, new Secret(4321), "secret");
   std::vector<int> numbers{1, 2, 3};
   file.WriteObject(&numbers, "vector");
   std::string text = "a string by itself";
   file.WriteObject(&text, "string");
   std::map<std::string, int> counts{{"a", 1}, {"b", 2}};
   file.WriteObject(&counts, "map");
   std::vector<Spot> spots{spot(1), spot(2)};
   file.WriteObject(&spots, "spots");
   Spot one = spot(9);
   file.WriteObject(&one, "spot");
   file.Write();
   file.Close();
}

void write_hidden(const std::string &path)
{
   TFile file(path.c_str(), "RECREATE", "", 101);
   TTree tree("tree", "some of its branches cannot be read");
   Int_t number = 0;
   Double_t last = 0;
   auto secret = new Secret;
   auto items = new TObjArray;
   auto holder = new Holder(1);
   tree.Branch("number", &number);
   tree.Branch("secret", "Secret", &secret, 32000, 0);
   tree.Branch("items", "TObjArray", &items, 32000, 0);
   tree.Branch("holder", "Holder", &holder, 32000, 0);
   tree.Branch("last", &last);
   for (; number < 6; ++number) {
      last = number / 2.;
      items->Clear();
      if (number > 0)
         items->Add(new TNamed("kept", "readable"));
      if (number == 4)
         items->Add(new Secret(7));
      tree.Fill();
   }
   tree.Write();
   file.Close();
}

Track::Track(int i) : fMass(i / 16.), fCharge(i % 3 - 1), fColour(i % 2 ? kLeaf : kSky), fPoints(i % 4)
{
   for (int j = 0; j < 3; ++j)
      fMomentum[j] = i + j / 4.f;
   fPoint = new Float_t[fPoints];
   for (unsigned j = 0; j < fPoints; ++j)
      fPoint[j] = 10 * i + j;
   fCells.resize(i % 3);
   for (auto &cell : fCells) {
      cell.fLayer = i % 2 ? detector::ELayer::kOuter : detector::ELayer::kInner;
      cell.fEnergy[1] = i;
   }
}

void Event::set(int i)
{
   SetNameTitle(TString::Format("event %d", i), "made for a test");
   fLeft = 100 + i;
   fHeader.fRun = i;
   fHeader.fTime = 10000000000ull * i;
   fHeader.fKind = fHistory[1].fKind = fKind = i % 2 ? kCosmic : kBeam;
   fHistory[0].fRun = -i;
   for (int j = 0; j < 6; ++j)
      fMatrix[j / 3][j % 3] = i + j;
   snprintf(fWord, sizeof(fWord), "e%d", i);
   delete[] fWeight;
   fWeights = i;
   fWeight = new Double_t[i];
   for (int j = 0; j < i; ++j)
      fWeight[j] = j / 2.;
   if (!fTracks)
      fTracks = new TClonesArray("Track");
   fTracks->Clear("C");
   fFound.Clear();
   fGood.Clear();
   for (int j = 0; j < 2 * i; ++j) {
      auto track = new ((*fTracks)[j]) Track(j);
      if (j % 2)
         fGood.Add(track);
      fLast = track;
   }
   if (i % 2) {
      fFound.Add(new TNamed("found", "something"));
      fFound.Add(new Node("node", i));
      fLeading = new Track(i);
   } else {
      fLeading = nullptr;
   }
   fTotal.SetPxPyPzE(i, 2 * i, 3 * i, 4 * i);
   fDate.Set(2024, 1 + i, 3, 4, 5, 6);
   fSpots.assign(i, Spot{float(i), 2. * i, {short(i), short(-i)}});
   fNames.assign(i % 3, Named{"name " + std::to_string(i), std::vector<int>(i, i)});
   fCalibrations = {{"gain", std::vector<double>(i, .5)}, {"noise " + std::to_string(i), {}}};
   fNumbered = {{i, Spot{1, 2, {3, 4}}}, {i + 1, Spot{}}};
   fTriggers = {i, 7 * i};
   fBits = i;
   fLayers.assign(i, detector::ELayer::kOuter);
   fText = std::string(i, 'x');
}

void write_events(const std::string &path)
{
   TFile file(path.c_str(), "RECREATE", "", 101);
   auto event = new Event;
   event->set(0);
   for (int split : {0, 1, 99}) {
      TTree tree(TString::Format("split%d", split), "events");
      tree.Branch("event", "Event", &event, 32000, split);
      for (int i = 0; i < 5; ++i) {
         event->set(i);
         tree.Fill();
      }
      tree.Write();
   }
   file.Close();
}
