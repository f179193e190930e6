// Writes one file for each thing that a tree's bytes can look like. write_all(folder) makes them all.
#include "types.h"
#include <Compression.h>
#include <ROOT/TIOFeatures.hxx>
#include <TFile.h>
#include <TFileMerger.h>
#include <TFree.h>
#include <TNtuple.h>
#include <TNtupleD.h>
#include <TRandom3.h>
#include <TTree.h>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <unistd.h>

static std::unique_ptr<TFile> create(const std::string &folder, const char *name, int compression = 505)
{
   return std::unique_ptr<TFile>(TFile::Open((folder + "/" + name + ".root").c_str(), "RECREATE", "", compression));
}

// Values with every extreme, then random ones.
template <typename T>
static T value(int entry, int k, TRandom3 &random)
{
   using L = std::numeric_limits<T>;
   if constexpr (std::is_same_v<T, bool>) return random.Integer(2);
   else if constexpr (std::is_floating_point_v<T>) {
      const T special[] = {0, T(-0.0), L::max(), L::lowest(), L::min(), L::denorm_min(), L::infinity(), -L::infinity(), L::quiet_NaN(), T(1.5)};
      return entry < 10 && k == 0 ? special[entry] : T(random.Gaus(0, 100));
   } else {
      const T special[] = {0, 1, T(-1), L::max(), L::min()};
      return entry < 5 && k == 0 ? special[entry] : T(random.Integer(4294967295u)) ^ T(T(random.Integer(4294967295u)) << (sizeof(T) > 4 ? 32 : 0));
   }
}

// One leaf type as a scalar, arrays of one and two dimensions, and counted arrays of one and two dimensions.
template <typename T>
struct Leaf {
   std::string name, code;
   double low = 0, high = 0; // where a range is stored, values stay inside
   T scalar{}, line[3]{}, plane[2][4]{}, counted[8]{}, pairs[8][2]{};
   Leaf(TTree &tree, std::string n, std::string c, double l = 0, double h = 0) : name(n), code(c), low(l), high(h)
   {
      tree.Branch(name.c_str(), &scalar, (name + "/" + code).c_str());
      tree.Branch((name + "_line").c_str(), line, (name + "_line[3]/" + code).c_str());
      tree.Branch((name + "_plane").c_str(), plane, (name + "_plane[2][4]/" + code).c_str());
      tree.Branch((name + "_counted").c_str(), counted, (name + "_counted[n]/" + code).c_str());
      tree.Branch((name + "_pairs").c_str(), pairs, (name + "_pairs[n][2]/" + code).c_str());
   }
   void fill(int entry, TRandom3 &random)
   {
      auto next = [&](int k) { return high > low ? T(random.Uniform(low, high)) : value<T>(entry, k, random); };
      scalar = next(0);
      for (int k = 0; k < 3; ++k) line[k] = next(k);
      for (int k = 0; k < 8; ++k) plane[k / 4][k % 4] = next(k);
      for (int k = 0; k < 8; ++k) counted[k] = next(k);
      for (int k = 0; k < 16; ++k) pairs[k / 2][k % 2] = next(k);
   }
};

static void leaves(const std::string &folder)
{
   auto file = create(folder, "leaves");
   TTree tree("t", "every leaf type");
   tree.SetAutoFlush(70);
   Int_t n = 0;
   tree.Branch("n", &n, "n/I");
   Leaf<bool> o(tree, "o", "O");
   Leaf<Char_t> b(tree, "b", "B");
   Leaf<UChar_t> ub(tree, "ub", "b");
   Leaf<Short_t> s(tree, "s", "S");
   Leaf<UShort_t> us(tree, "us", "s");
   Leaf<Int_t> i(tree, "i", "I");
   Leaf<UInt_t> ui(tree, "ui", "i");
   Leaf<Long64_t> l(tree, "l", "L");
   Leaf<ULong64_t> ul(tree, "ul", "l");
   Leaf<Long_t> g(tree, "g", "G");
   Leaf<ULong_t> ug(tree, "ug", "g");
   Leaf<Float_t> f(tree, "f", "F");
   Leaf<Double_t> d(tree, "d", "D");
   // Float16_t and Double32_t: plain, with a range, with a range and bits, with bits of mantissa alone.
   Leaf<Float16_t> h(tree, "h", "f", -1e4, 1e4), hr(tree, "hr", "f[-5,5]", -5, 5), hb(tree, "hb", "f[0,10,10]", 0, 10), hm(tree, "hm", "f[0,0,8]", -1e3, 1e3);
   Leaf<Double32_t> t(tree, "t", "d", -1e4, 1e4), tr(tree, "tr", "d[-5,5]", -5, 5), tb(tree, "tb", "d[0,10,20]", 0, 10), tm(tree, "tm", "d[0,0,13]", -1e3, 1e3), tp(tree, "tp", "d[-pi,pi,9]", -3, 3);
   char text[400] = "";
   tree.Branch("text", text, "text/C");
   TRandom3 random(1);
   for (int entry = 0; entry < 200; ++entry) {
      n = entry % 8;
      o.fill(entry, random), b.fill(entry, random), ub.fill(entry, random), s.fill(entry, random), us.fill(entry, random);
      i.fill(entry, random), ui.fill(entry, random), l.fill(entry, random), ul.fill(entry, random), g.fill(entry, random);
      ug.fill(entry, random), f.fill(entry, random), d.fill(entry, random);
      h.fill(entry, random), hr.fill(entry, random), hb.fill(entry, random), hm.fill(entry, random);
      t.fill(entry, random), tr.fill(entry, random), tb.fill(entry, random), tm.fill(entry, random), tp.fill(entry, random);
      const int length = entry % 50 == 7 ? 300 : entry % 50 == 8 ? 254 : entry % 50 == 9 ? 255 : int(random.Integer(12));
      std::memset(text, 'a' + entry % 26, length);
      text[length] = 0;
      tree.Fill();
   }
   tree.Write();
}

// Leaf lists with several leaves; the members need no padding in memory, or do.
static void records(const std::string &folder)
{
   auto file = create(folder, "records", 101);
   TTree tree("t", "leaf lists");
   struct { Double_t x; Int_t a; Float_t b; } tight{};
   struct { Char_t c; Double_t x; Short_t s; Int_t i; UChar_t u; } loose{};
   struct { Float_t v[3]; Int_t k; Int_t m[2][2]; } arrays{};
   struct { Int_t i; Char_t name[12]; } text{};
   tree.Branch("tight", &tight, "x/D:a/I:b/F");
   tree.Branch("loose", &loose, "c/B:x/D:s/S:i/I:u/b");
   tree.Branch("arrays", &arrays, "v[3]/F:k/I:m[2][2]/I");
   tree.Branch("text", &text, "i/I:name/C");
   tree.Branch("same", &arrays, "v1/F:v2:v3");
   for (int entry = 0; entry < 100; ++entry) {
      tight = {entry * 0.25, entry, entry * 3.f};
      loose = {Char_t(entry), entry * 1.5, Short_t(-entry), entry * 1000003, UChar_t(200 + entry)};
      arrays = {{entry + .1f, entry + .2f, entry + .3f}, entry, {{entry, -entry}, {2 * entry, 3}}};
      text.i = entry;
      std::snprintf(text.name, sizeof text.name, "%.*s", entry % 11, "abcdefghijkl");
      tree.Fill();
   }
   tree.Write();
   TNtuple tuple("tuple", "a TNtuple", "px:py:pz");
   TNtupleD doubles("doubles", "a TNtupleD", "a:b");
   for (int entry = 0; entry < 1000; ++entry) tuple.Fill(entry, -entry, entry / 3.f), doubles.Fill(entry / 3., 1e300);
   tuple.Write();
   doubles.Write();
}

static void collections(const std::string &folder)
{
   auto file = create(folder, "collections", 404);
   TTree tree("t", "STL branches");
   tree.SetAutoFlush(33);
   std::vector<bool> vb;
   std::vector<char> vc;
   std::vector<unsigned char> vuc;
   std::vector<short> vs;
   std::vector<unsigned short> vus;
   std::vector<int> vi;
   std::vector<unsigned int> vui;
   std::vector<long> vl;
   std::vector<Long64_t> vll;
   std::vector<ULong64_t> vull;
   std::vector<float> vf;
   std::vector<double> vd;
   std::vector<std::string> vstr;
   std::vector<std::vector<float>> vvf;
   std::vector<std::vector<bool>> vvb;
   std::vector<std::vector<std::string>> vvstr;
   std::vector<std::vector<std::vector<int>>> vvvi;
   std::string str;
   std::map<int, double> map;
   tree.Branch("vb", &vb), tree.Branch("vc", &vc), tree.Branch("vuc", &vuc), tree.Branch("vs", &vs), tree.Branch("vus", &vus);
   tree.Branch("vi", &vi), tree.Branch("vui", &vui), tree.Branch("vl", &vl), tree.Branch("vll", &vll), tree.Branch("vull", &vull);
   tree.Branch("vf", &vf), tree.Branch("vd", &vd), tree.Branch("vstr", &vstr), tree.Branch("vvf", &vvf), tree.Branch("vvb", &vvb);
   tree.Branch("vvstr", &vvstr), tree.Branch("vvvi", &vvvi), tree.Branch("str", &str), tree.Branch("map", &map);
   TRandom3 random(3);
   for (int entry = 0; entry < 150; ++entry) {
      auto some = [&](auto &vector) {
         using T = typename std::decay_t<decltype(vector)>::value_type;
         vector.clear();
         for (int k = 0, n = random.Integer(6); k < n; ++k) vector.push_back(value<T>(entry, k, random));
      };
      auto word = [&] { return std::string(random.Integer(20) == 0 ? 254 + random.Integer(3) : random.Integer(9), char('A' + random.Integer(26))); };
      some(vb), some(vc), some(vuc), some(vs), some(vus), some(vi), some(vui), some(vl), some(vll), some(vull), some(vf), some(vd);
      str = word();
      vstr.resize(random.Integer(4));
      for (auto &w : vstr) w = word();
      vvf.resize(random.Integer(4));
      for (auto &v : vvf) some(v);
      vvb.resize(random.Integer(4));
      for (auto &v : vvb) some(v);
      vvstr.resize(random.Integer(3));
      for (auto &v : vvstr) {
         v.resize(random.Integer(3));
         for (auto &w : v) w = word();
      }
      vvvi.resize(random.Integer(3));
      for (auto &v : vvvi) {
         v.resize(random.Integer(3));
         for (auto &w : v) some(w);
      }
      map.clear();
      for (int k = 0, n = random.Integer(4); k < n; ++k) map[k * 7] = random.Rndm();
      tree.Fill();
   }
   tree.Write();
}

static void next_event(Event &event, int entry, TRandom3 &random)
{
   event.fBaseId = entry, event.fBaseValue = random.Uniform(-10, 10), event.fFlag = entry % 3 == 0, event.fLetter = Char_t(entry), event.fByte = UChar_t(255 - entry);
   event.fShort = Short_t(-entry), event.fUShort = UShort_t(65535 - entry), event.fUInt = 4294967295u - entry, event.fLong = -(1l << 40) * entry, event.fULong = ~0ul - entry;
   event.fKind = EKind(entry % 4 - 1);
   for (int k = 0; k < 6; ++k) event.fMatrix[k / 3][k % 3] = random.Gaus();
   std::snprintf(event.fType, 8, "t%d", entry);
   event.fPlain = random.Gaus(), event.fAngle = random.Uniform(-3, 3), event.fHalf = random.Gaus(), event.fRange = random.Rndm();
   delete[] event.fArray, delete[] event.fPacked;
   event.fCount = entry % 5;
   event.fArray = new Float_t[event.fCount], event.fPacked = new Double32_t[event.fCount];
   for (int k = 0; k < event.fCount; ++k) event.fArray[k] = random.Gaus(), event.fPacked[k] = random.Rndm();
   event.fName = std::string(entry % 40, 'n'), event.fRootText = TString('r', entry % 7);
   event.fFloats.assign(entry % 4, float(entry)), event.fInts.assign(entry % 3, -entry), event.fWords.assign(entry % 3, event.fName);
   event.fNested.assign(entry % 3, std::vector<double>(entry % 4, random.Rndm()));
   event.fPoints.resize(entry % 6);
   for (auto &p : event.fPoints) p.x = random.Gaus(), p.y = random.Gaus(), p.n[0] = entry, p.n[1] = random.Integer(9);
   event.fInner.fLong = Long64_t(entry) << 33, event.fInner.fUnsigned = ~0ull - entry, event.fInner.fText = "inner" + std::to_string(entry);
   event.fMap[entry % 5] = entry;
   event.fHits->Clear();
   for (int k = 0; k < entry % 7; ++k) {
      auto *hit = static_cast<Hit *>(event.fHits->ConstructedAt(k));
      hit->SetUniqueID(k), hit->fId = 100 * entry + k, hit->fLayer = UShort_t(k * 9999), hit->fX = random.Gaus(), hit->fEnergy = random.Uniform(0, 100), hit->fTime = random.Rndm(), hit->fGood = k % 2;
      for (int j = 0; j < 3; ++j) hit->fPosition[j] = Short_t(random.Integer(65536));
   }
}

static void classes(const std::string &folder)
{
   auto file = create(folder, "classes", 101);
   Event event;
   auto *pointer = &event;
   auto *points = &event.fPoints;
   TTree dotted("dotted", "split, with the name before each member"), plain("plain", "split, names alone"), whole("whole", "not split");
   dotted.Branch("event.", &pointer, 4000, 99);
   plain.Branch("event", &pointer, 4000, 99);
   plain.Branch("points", &points, 4000, 99);
   whole.Branch("event", &pointer, 32000, 0);
   int number = 0;
   whole.Branch("number", &number, "number/I");
   TRandom3 random(5);
   for (int entry = 0; entry < 120; ++entry) {
      next_event(event, entry, random);
      number = entry;
      dotted.Fill(), plain.Fill(), whole.Fill();
   }
   file->Write();
}

// The same tree with every codec and level; in each, one branch whose baskets are over 16 MB, several blocks each.
static void codecs(const std::string &folder)
{
   for (int setting : {0, 1, 6, 9, 101, 109, 201, 207, 301, 306, 401, 404, 409, 501, 505}) {
      auto file = create(folder, ("codec-" + std::to_string(setting)).c_str(), setting);
      TTree tree("t", "codec");
      tree.SetAutoFlush(0);
      Float_t f = 0;
      Int_t n = 0, ids[10];
      tree.Branch("f", &f, "f/F", 1000), tree.Branch("n", &n, "n/I", 1000), tree.Branch("ids", ids, "ids[n]/I", 1000);
      TRandom3 random(setting + 1);
      for (int entry = 0; entry < 3000; ++entry) {
         f = random.Gaus(), n = random.Integer(10);
         for (auto &id : ids) id = random.Integer(20);
         tree.Fill();
      }
      tree.Write();
   }
   const int size = 2500000; // 20 MB an entry
   std::vector<Double_t> big(size);
   for (int setting : {0, 101, 201, 301, 404, 501}) {
      auto file = create(folder, ("big-" + std::to_string(setting)).c_str(), setting);
      TTree tree("t", "baskets over 16 MB");
      tree.SetAutoFlush(0);
      tree.Branch("big", big.data(), ("big[" + std::to_string(size) + "]/D").c_str(), 1 << 26);
      for (int entry = 0; entry < 3; ++entry) {
         for (int k = 0; k < size; ++k) big[k] = (k / 64) * 0.5 + entry;
         tree.Fill();
      }
      tree.Write();
   }
}

static void layouts(const std::string &folder)
{
   auto file = create(folder, "layouts");
   Int_t n = 0, late = 0;
   Float_t x[20];
   {
      TTree empty("empty", "no entries"), bare("bare", "no branches");
      empty.Branch("n", &n, "n/I"), empty.Branch("x", x, "x[n]/F");
      empty.Write(), bare.Write();
   }
   {
      file->mkdir("deep/deeper")->cd();
      TTree uneven("uneven", "branches with baskets of unlike sizes, never aligned");
      uneven.SetAutoFlush(0);
      uneven.Branch("n", &n, "n/I", 300), uneven.Branch("x", x, "x[n]/F", 700), uneven.Branch("same/name", &late, "late/I", 10000);
      for (int entry = 0; entry < 2000; ++entry) {
         n = entry % 20, late = entry;
         for (int k = 0; k < n; ++k) x[k] = entry + k;
         uneven.Fill();
      }
      uneven.Write();
      file->cd();
   }
   {
      TTree offsets("offsets", "offsets generated, not stored");
      ROOT::TIOFeatures features;
      features.Set(ROOT::Experimental::EIOFeatures::kGenerateOffsetMap);
      offsets.SetIOFeatures(features);
      offsets.SetAutoFlush(100);
      offsets.Branch("n", &n, "n/I"), offsets.Branch("x", x, "x[n]/F");
      // Where offsets cannot be generated, sizes are stored.
      std::string word;
      char text[32];
      offsets.Branch("word", &word), offsets.Branch("text", text, "text/C");
      for (int entry = 0; entry < 500; ++entry) {
         n = (entry * 7) % 20;
         word.assign((entry * 5) % 9, 'a' + entry % 26);
         std::snprintf(text, sizeof text, "%.*s", n, "what the basket holds");
         for (int k = 0; k < n; ++k) x[k] = entry - k;
         offsets.Fill();
      }
      offsets.Write();
   }
   {
      TTree cycles("cycles", "two cycles of one name"), partner("partner", "a friend");
      cycles.Branch("n", &n, "n/I"), partner.Branch("late", &late, "late/I");
      for (int entry = 0; entry < 30; ++entry) n = late = entry, cycles.Fill(), partner.Fill();
      cycles.Write("cycles");
      cycles.AddFriend(&partner);
      for (int entry = 30; entry < 50; ++entry) n = late = entry, cycles.Fill(), partner.Fill();
      cycles.Write("cycles"), partner.Write();
   }
   {
      TTree loose("loose", "branches filled alone");
      auto *branch = loose.Branch("n", &n, "n/I");
      loose.Branch("late", &late, "late/I");
      for (n = 0; n < 3; ++n) branch->Fill();
      loose.Write();
   }
}

// Merged byte for byte, so that cluster sizes change in the middle.
static void merged(const std::string &folder)
{
   std::vector<std::string> parts;
   for (int part = 0; part < 3; ++part) {
      const std::string name = "part" + std::to_string(part);
      auto file = create(folder, name.c_str(), part == 1 ? 404 : 101);
      TTree tree("t", "to be merged");
      tree.SetAutoFlush(50 + 30 * part);
      Int_t n = 0, ids[6];
      tree.Branch("n", &n, "n/I"), tree.Branch("ids", ids, "ids[n]/I");
      for (int entry = 0; entry < 170; ++entry) {
         n = entry % 6;
         for (auto &id : ids) id = 1000 * part + entry;
         tree.Fill();
      }
      tree.Write();
      parts.push_back(folder + "/" + name + ".root");
   }
   TFileMerger merger(false);
   merger.SetFastMethod(true);
   merger.OutputFile((folder + "/merged.root").c_str(), "RECREATE", 505);
   for (auto &part : parts) merger.AddFile(part.c_str());
   merger.Merge();
}

// Beyond 2 GB: keys, baskets and directories change to 64-bit positions in the middle of the file, which has a hole.
static void large(const std::string &folder)
{
   auto file = create(folder, "large", 101);
   TTree tree("t", "across 2 GB");
   tree.SetAutoFlush(100);
   Int_t n = 0, ids[6];
   tree.Branch("n", &n, "n/I"), tree.Branch("ids", ids, "ids[n]/I");
   for (int entry = 0; entry < 600; ++entry) {
      if (entry == 300) static_cast<TFree *>(file->GetListOfFree()->Last())->SetFirst(2200000000ll);
      n = entry % 6;
      for (auto &id : ids) id = entry;
      tree.Fill();
   }
   file->mkdir("beyond")->cd();
   tree.Write();
}

// Cut off without closing: the process ends here. The last baskets are inside the tree object that AutoSave wrote.
void cut_off(const std::string &folder, const char *name, const char *option)
{
   auto *file = create(folder, name, 101).release();
   auto *tree = new TTree("t", "cut off");
   tree->SetAutoFlush(100), tree->SetAutoSave(0);
   Int_t n = 0, ids[6];
   std::vector<float> vf;
   tree->Branch("n", &n, "n/I"), tree->Branch("ids", ids, "ids[n]/I"), tree->Branch("vf", &vf);
   for (int entry = 0; entry < 350; ++entry) {
      n = entry % 6;
      for (auto &id : ids) id = entry;
      vf.assign(entry % 4, entry);
      tree->Fill();
      if (entry == 259) tree->AutoSave(option);
   }
   file->Flush();
   _exit(0);
}

void write_all(const std::string &folder)
{
   leaves(folder), records(folder), collections(folder), classes(folder), codecs(folder), layouts(folder), merged(folder), large(folder);
}
