"""Run inside ROOT: write the RNTuples of `tests/golden/ntuple`.

`make.py FOLDER` writes FOLDER/types.root and, without compression, FOLDER/plain.root. Every value is a formula of its
entry, which `tests/python/test_ntuple_reading.py` knows, too. FOLDER/contract.root has the entries of
`tests/python/test_table_contract.py`. FOLDER/projected.root is what ROOT's importer makes of a tree with a counted
array: projected fields share the columns of its collection.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

CODE = r"""
#include <ROOT/RNTupleImporter.hxx>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RField.hxx>
#include <ROOT/RField/RFieldSequenceContainer.hxx>
#include <array>
#include <bitset>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <TFile.h>
#include <TTree.h>
#include <vector>

struct Place { float x = 0; float y = 0; };
struct Hit : Place { int id = 0; std::vector<short> samples; };
struct Old { int a = 0; std::vector<float> b; std::string c; };

std::string of_v(const std::string &) { return "v"; }

void write_types(const char *path, int compression) {
   auto model = ROOT::RNTupleModel::Create();
   model->SetDescription("values that are formulas of their entry");
   auto i32 = model->MakeField<std::int32_t>("i32", "entry less five");
   auto u64 = model->MakeField<std::uint64_t>("u64");
   auto flag = model->MakeField<bool>("flag");
   auto f = model->MakeField<float>("f");
   auto d = model->MakeField<double>("d");
   auto half = std::make_unique<ROOT::RField<float>>("half"); half->SetHalfPrecision();
   model->AddField(std::move(half));
   auto trunc = std::make_unique<ROOT::RField<float>>("trunc"); trunc->SetTruncated(20);
   model->AddField(std::move(trunc));
   auto quant = std::make_unique<ROOT::RField<double>>("quant"); quant->SetQuantized(-1., 1., 12);
   model->AddField(std::move(quant));
   auto s = model->MakeField<std::string>("s");
   auto v = model->MakeField<std::vector<float>>("v");
   auto vv = model->MakeField<std::vector<std::vector<std::int16_t>>>("vv");
   auto arr = model->MakeField<std::array<std::int32_t, 3>>("arr");
   auto bits = model->MakeField<std::bitset<10>>("bits");
   auto opt = model->MakeField<std::optional<float>>("opt");
   auto ptr = model->MakeField<std::unique_ptr<std::int32_t>>("ptr");
   auto var = model->MakeField<std::variant<std::int32_t, std::string>>("var");
   auto pr = model->MakeField<std::pair<std::int32_t, std::string>>("pr");
   auto tup = model->MakeField<std::tuple<std::int32_t, float, std::string>>("tup");
   auto set = model->MakeField<std::set<std::int32_t>>("set");
   auto hits = model->MakeField<std::vector<Hit>>("hits");
   model->AddField(std::make_unique<ROOT::RStreamerField>("old", "Old"));
   auto card = ROOT::RFieldBase::Create("nv", "ROOT::RNTupleCardinality<std::uint32_t>").Unwrap();
   model->AddProjectedField(std::move(card), of_v);
   auto half_p = model->GetDefaultEntry().GetPtr<float>("half");
   auto trunc_p = model->GetDefaultEntry().GetPtr<float>("trunc");
   auto quant_p = model->GetDefaultEntry().GetPtr<double>("quant");
   auto old = std::static_pointer_cast<Old>(model->GetDefaultEntry().GetPtr<void>("old"));
   ROOT::RNTupleWriteOptions options; options.SetCompression(compression);
   options.SetInitialUnzippedPageSize(16); options.SetMaxUnzippedPageSize(64);
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "types", path, options);
   std::shared_ptr<std::int32_t> late; std::shared_ptr<std::vector<float>> late_list;
   std::shared_ptr<std::string> late_text; std::shared_ptr<std::array<short, 2>> late_array;
   for (int i = 0; i < 20; ++i) {
      *i32 = i - 5; *u64 = std::uint64_t(i) << 40; *flag = i % 3 == 0; *f = i / 4.f; *d = 1. / (i + 1);
      *half_p = i / 8.f; *trunc_p = i * 0.1f; *quant_p = i / 20. - 0.5;
      *s = std::string(i % 4, 'a' + i); v->clear(); for (int k = 0; k < i % 5; ++k) v->push_back(i + k / 2.f);
      vv->clear(); for (int k = 0; k < i % 3; ++k) vv->push_back(std::vector<std::int16_t>(k + i % 2, i * 10 + k));
      for (int k = 0; k < 3; ++k) (*arr)[k] = i * k;
      *bits = std::bitset<10>(i * 37 % 1024);
      if (i % 2) *opt = i / 2.f; else opt->reset();
      if (i % 3) *ptr = std::make_unique<std::int32_t>(-i); else ptr->reset();
      if (i % 2) *var = i; else *var = std::string(i, 'x');
      *pr = {i, std::to_string(i)}; *tup = {i, i * 0.5f, "t" + std::to_string(i)};
      set->clear(); for (int k = 0; k < i % 4; ++k) set->insert(10 - k + i);
      hits->clear();
      for (int k = 0; k < i % 3; ++k) {
         Hit hit; hit.x = i; hit.y = -k; hit.id = 100 * i + k; hit.samples.assign(k, i); hits->push_back(hit);
      }
      old->a = i; old->b.assign(i % 3, i * 1.5f); old->c = std::string(i % 6, 'o');
      if (i >= 10) {
         *late = i * i; late_list->assign(i % 3, i); *late_text = "late" + std::to_string(i);
         *late_array = {short(i), short(-i)};
      }
      writer->Fill();
      if (i == 4 || i == 12) writer->CommitCluster(i == 12);
      if (i == 9) {
         auto updater = writer->CreateModelUpdater();
         updater->BeginUpdate();
         late = updater->MakeField<std::int32_t>("late");
         late_list = updater->MakeField<std::vector<float>>("late_list");
         late_text = updater->MakeField<std::string>("late_text");
         late_array = updater->MakeField<std::array<short, 2>>("late_array");
         updater->CommitUpdate();
      }
   }
}

void write_contract(const char *path) {
   auto model = ROOT::RNTupleModel::Create();
   auto x = model->MakeField<double>("x");
   auto run = model->MakeField<std::int64_t>("run");
   auto pt = model->MakeField<std::vector<float>>("pt");
   ROOT::RNTupleWriteOptions options; options.SetCompression(0);
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "t", path, options);
   for (int i = 0, next = 0; i < 100; ++i) {
      *x = i / 4.; *run = i / 40;
      pt->clear(); for (int k = 0; k < i % 4; ++k) pt->push_back(next++);
      writer->Fill();
      if (i % 30 == 29) writer->CommitCluster();
   }
}

void write_projected(const char *path) {
   std::string in = std::string(path) + ".tree";
   {
      TFile file(in.c_str(), "RECREATE");
      TTree tree("t", "");
      int i, nx; float x[3];
      tree.Branch("i", &i); tree.Branch("nx", &nx); tree.Branch("x", x, "x[nx]/F");
      for (i = 0; i < 10; ++i) {
         nx = i % 4; for (int k = 0; k < nx; ++k) x[k] = i + k / 4.f;
         tree.Fill();
      }
      tree.Write();
   }
   auto importer = ROOT::Experimental::RNTupleImporter::Create(in, "t", path);
   ROOT::RNTupleWriteOptions options; options.SetCompression(0); importer->SetWriteOptions(options);
   importer->SetIsQuiet(true); importer->Import();
   std::remove(in.c_str());
}
"""


def main() -> None:
    """Write the files."""
    folder = Path(sys.argv[1])
    if not ROOT.gInterpreter.Declare(CODE):
        raise RuntimeError("the code cannot be compiled")
    ROOT.write_types(str(folder / "types.root"), 505)
    ROOT.write_types(str(folder / "plain.root"), 0)
    ROOT.write_contract(str(folder / "contract.root"))
    ROOT.write_projected(str(folder / "projected.root"))


if __name__ == "__main__":
    main()
