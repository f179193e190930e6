// A tree with one branch of objects and one of numbers, in clusters of four entries.
#ifndef SAPWOOD_TREE_H
#define SAPWOOD_TREE_H
#include <TTree.h>
#include <string>

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
#endif
