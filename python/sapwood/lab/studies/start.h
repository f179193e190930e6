// What ROOT makes once in each process before it can read or write a first tree: its interpreter, dictionaries, codecs,
// and the library for files far away. No study counts it, as none counts the start of Python and what that imports.
#pragma once

#include <memory>
#include <string>

#include "TMemFile.h"
#include "TPluginManager.h"
#include "TROOT.h"
#include "TTree.h"

inline void start(const std::string &path)
{
   if (auto *handler = gROOT->GetPluginManager()->FindHandler("TFile", path.c_str()))
      handler->LoadPlugin();
   TMemFile file("start.root", "RECREATE", "", 101);
   float values[2] = {};
   int count = 2;
   {
      TTree tree("T", "", 99, &file);
      tree.Branch("count", &count, "count/I");
      tree.Branch("numbers", values, "numbers[count]/F");
      for (int entry = 0; entry < 100; ++entry)
         tree.Fill();
      file.Write();
   }
   std::unique_ptr<TTree> tree(file.Get<TTree>("T"));
   tree->GetEntry(0);
}
