// Trees of one version of the classes that change.
#include "versions.h"
#include "tree.h"
#include <TFile.h>
#include <TVirtualStreamerInfo.h>

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
