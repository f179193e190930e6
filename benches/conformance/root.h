// What writes and reads the cases with ROOT. Each function that reads returns 1 if the values are those given.
#include "types.h"
#include <ROOT/REntry.hxx>
#include <ROOT/RField.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <ROOT/RVec.hxx>
#include <TBranch.h>
#include <TFile.h>
#include <TLeaf.h>
#include <TTree.h>
#include <TVirtualStreamerInfo.h>
#include <cmath>
#include <type_traits>

int same_values = 0;
double tolerance = 0;

template <class T> void in_tree(const char *path, std::vector<T> values, int split = 99, bool member_wise = true)
{
   TVirtualStreamerInfo::SetStreamMemberWise(member_wise);
   TFile file(path, "RECREATE");
   TTree tree("t", "t");
   T value{};
   tree.Branch("value", &value, 32000, split);
   for (const T &one : values) {
      value = one;
      tree.Fill();
   }
   tree.Write();
   TVirtualStreamerInfo::SetStreamMemberWise(true);
}
template <class T> void in_leaf(const char *path, std::vector<T> values, const char *leaves)
{
   TFile file(path, "RECREATE");
   TTree tree("t", "t");
   T value{};
   tree.Branch("value", &value, leaves);
   for (const T &one : values) {
      value = one;
      tree.Fill();
   }
   tree.Write();
}
void in_characters(const char *path, std::vector<std::string> values)
{
   TFile file(path, "RECREATE");
   TTree tree("t", "t");
   char value[1000];
   tree.Branch("value", value, "value/C");
   for (const auto &one : values) {
      one.copy(value, one.size());
      value[one.size()] = 0;
      tree.Fill();
   }
   tree.Write();
}
template <class T> void in_counted(const char *path, std::vector<std::vector<T>> values, const char *leaves)
{
   TFile file(path, "RECREATE");
   TTree tree("t", "t");
   int n = 0;
   T value[100];
   tree.Branch("n", &n, "n/I");
   tree.Branch("value", value, leaves);
   for (const auto &one : values) {
      n = one.size();
      std::copy(one.begin(), one.end(), value);
      tree.Fill();
   }
   tree.Write();
}
void in_clones(const char *path, std::vector<std::vector<Point>> values, int split)
{
   TFile file(path, "RECREATE");
   TTree tree("t", "t");
   auto *clones = new TClonesArray("Hit");
   tree.Branch("value", &clones, 32000, split);
   for (const auto &one : values) {
      clones->Clear();
      for (size_t k = 0; k < one.size(); ++k) {
         auto *hit = static_cast<Hit *>(clones->ConstructedAt(k));
         hit->x = one[k].x, hit->i = one[k].i;
      }
      tree.Fill();
   }
   tree.Write();
}
void in_pointers(const char *path, std::vector<std::vector<Point>> values, int split)
{
   TFile file(path, "RECREATE");
   TTree tree("t", "t");
   auto *pointers = new std::vector<Point *>;
   tree.Branch("value", &pointers, 32000, split);
   for (const auto &one : values) {
      pointers->clear();
      for (const auto &point : one) pointers->push_back(new Point(point));
      tree.Fill();
   }
   tree.Write();
}
template <class T> void in_ntuple(const char *path, std::vector<T> values)
{
   auto model = ROOT::RNTupleModel::Create();
   auto value = model->MakeField<T>("value");
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "t", path);
   for (const T &one : values) {
      *value = one;
      writer->Fill();
   }
}
template <class T, class Make> void in_field(const char *path, std::vector<T> values, Make make)
{
   auto model = ROOT::RNTupleModel::CreateBare();
   model->AddField(make());
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "t", path);
   auto entry = writer->CreateEntry();
   T value{};
   entry->template BindRawPtr<void>("value", &value);
   for (const T &one : values) {
      value = one;
      writer->Fill(*entry);
   }
}
void in_unique(const char *path, std::vector<std::optional<int>> values)
{
   auto model = ROOT::RNTupleModel::Create();
   auto value = model->MakeField<std::unique_ptr<int>>("value");
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "t", path);
   for (const auto &one : values) {
      value->reset(one ? new int(*one) : nullptr);
      writer->Fill();
   }
}

template <class A, class B> bool equal(const A &a, const B &b)
{
   if constexpr (std::is_floating_point_v<A> && std::is_floating_point_v<B>) return std::abs(a - b) <= tolerance;
   else if constexpr (std::is_same_v<A, B>) return a == b;
   else return B(a) == b;
}
template <class T> bool equal(const ROOT::RVec<T> &a, const ROOT::RVec<T> &b)
{
   return std::equal(a.begin(), a.end(), b.begin(), b.end());
}
template <class T> int same_objects(const char *path, std::vector<T> values)
{
   TFile file(path);
   auto tree = file.Get<TTree>("t");
   T *found = nullptr;
   if (tree->SetBranchAddress("value", &found) < 0) return -1;
   if (tree->GetEntries() != Long64_t(values.size())) return 0;
   for (size_t i = 0; i < values.size(); i++)
      if (tree->GetEntry(i) <= 0 || !equal(*found, values[i])) return 0;
   return 1;
}
int same_texts(const char *path, std::vector<std::string> values)
{
   TFile file(path);
   auto tree = file.Get<TTree>("t");
   static char found[1000];
   tree->SetBranchAddress("value", found);
   if (tree->GetEntries() != Long64_t(values.size())) return 0;
   for (size_t i = 0; i < values.size(); i++)
      if (tree->GetEntry(i) < 0 || values[i] != found) return 0;
   return 1;
}
int same_clones(const char *path, std::vector<std::vector<Point>> values)
{
   TFile file(path);
   auto tree = file.Get<TTree>("t");
   TClonesArray *found = nullptr;
   tree->SetBranchAddress("value", &found);
   if (tree->GetEntries() != Long64_t(values.size())) return 0;
   for (size_t i = 0; i < values.size(); i++) {
      if (tree->GetEntry(i) <= 0 || found->GetEntriesFast() != int(values[i].size())) return 0;
      for (size_t k = 0; k < values[i].size(); k++) {
         auto *hit = dynamic_cast<Hit *>(found->At(k));
         if (!hit || hit->x != values[i][k].x || hit->i != values[i][k].i) return 0;
      }
   }
   return 1;
}
int same_pointers(const char *path, std::vector<std::vector<Point>> values)
{
   TFile file(path);
   auto tree = file.Get<TTree>("t");
   std::vector<Point *> *found = nullptr;
   if (tree->SetBranchAddress("value", &found) < 0) return -1;
   if (tree->GetEntries() != Long64_t(values.size())) return 0;
   for (size_t i = 0; i < values.size(); i++) {
      if (tree->GetEntry(i) <= 0 || found->size() != values[i].size()) return 0;
      for (size_t k = 0; k < values[i].size(); k++)
         if (!(*(*found)[k] == values[i][k])) return 0;
   }
   return 1;
}
template <class T> int same_in_ntuple(const char *path, std::vector<T> values)
{
   auto reader = ROOT::RNTupleReader::Open("t", path);
   auto view = reader->GetView<T>("value");
   if (reader->GetNEntries() != values.size()) return 0;
   for (size_t i = 0; i < values.size(); i++)
      if (!equal(view(i), T(values[i]))) return 0;
   return 1;
}
int same_unique(const char *path, std::vector<std::optional<int>> values)
{
   auto reader = ROOT::RNTupleReader::Open("t", path);
   auto view = reader->GetView<std::unique_ptr<int>>("value");
   if (reader->GetNEntries() != values.size()) return 0;
   for (size_t i = 0; i < values.size(); i++) {
      const auto &one = view(i);
      if (bool(one) != values[i].has_value() || (one && *one != *values[i])) return 0;
   }
   return 1;
}
