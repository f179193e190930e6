"""Run inside ROOT: give what branches hold, as ROOT's own JSON form. Arguments: REQUESTS.json ANSWERS [FOLDER].

Requests: [[file, tree, top-level branch, sub-branch or null], ...], with branches by their place among those beside
them (names may occur twice) and a sub-branch as the list of places that leads to it: then it alone is read, into an
object of the top-level branch. ANSWERS gets a line for each: {"entries": {entry: value}, "messages": what ROOT said}
with the objects (TBufferJSON) or the leaves' values of the first and the last entries, or {"error": why}. Branches are
read in processes of their own, because ROOT crashes on some.

By default ROOT knows the classes by the file's streamer info alone. With FOLDER, ROOT first generates and compiles
there the classes of the (one) file, and the dictionaries of the containers of standard types that its branches hold.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

FIRST_ENTRIES = 12
SECONDS = 60
MOST_BYTES = 30_000_000
UNKNOWN = '"?unknown?"'

ROOT.gROOT.SetBatch(True)
ROOT.gErrorIgnoreLevel = ROOT.kFatal
for number in (ROOT.kSigSegmentationViolation, ROOT.kSigBus, ROOT.kSigIllegalInstruction, ROOT.kSigFloatingException):
    ROOT.gSystem.ResetSignal(number)
ROOT.gSystem.ResetSignal(ROOT.kSigAbort)
ROOT.TBufferJSON.SetFloatFormat("%.9g")
ROOT.TBufferJSON.SetDoubleFormat("%.17g")
ROOT.gInterpreter.Declare(r"""
#include <TBranchElement.h>
#include <TBranchObject.h>
#include <TBufferJSON.h>
#include <TClonesArray.h>
#include <TError.h>
#include <TVirtualCollectionProxy.h>
#include <set>
#include <string>
#include <vector>
// What ROOT says while it reads counts: it may leave members out with no more than a message.
static std::set<std::string> said;
void remember(int level, Bool_t, const char *place, const char *text)
{
   if (level >= kWarning) said.insert(std::string(place) + ": " + text);
}
void begin_listening() { said.clear(); SetErrorHandler(remember); gErrorIgnoreLevel = kWarning; }
std::string heard() { std::string all; for (auto &m : said) all += m + "\n"; return all; }
std::string list_text(const std::vector<void *> &items, TClass *type)
{
   std::string all = "[";
   for (auto *item : items) {
      TBufferJSON buffer;
      buffer.SetCompact(3);
      all += (all.size() > 1 ? "," : "") + std::string(item ? buffer.StoreObject(item, type).Data() : "null");
   }
   return all + "]";
}
std::string object_text(TBranch *branch, TBranch *part, Long64_t entry)
{
   if (part->GetEntry(entry) < 0) return "error: GetEntry fails";
   TClass *type = nullptr;
   void *object = nullptr;
   if (auto *element = dynamic_cast<TBranchElement *>(branch)) {
      type = TClass::GetClass(element->GetClassName());
      object = element->GetObject();
   } else if (auto *whole = dynamic_cast<TBranchObject *>(branch)) {
      type = TClass::GetClass(whole->GetClassName());
      object = *reinterpret_cast<void **>(whole->GetAddress());
   }
   if (!type) return "error: no class";
   if (!object) return "error: no object";
   // Elements one by one, as objects of the class that the collection names.
   if (auto *proxy = type->GetCollectionProxy(); proxy && proxy->GetValueClass()) {
      TVirtualCollectionProxy::TPushPop here(proxy, object);
      std::vector<void *> items;
      for (UInt_t i = 0; i < proxy->Size(); ++i) {
         void *item = proxy->At(i);
         items.push_back(proxy->HasPointers() ? *reinterpret_cast<void **>(item) : item);
      }
      return list_text(items, proxy->GetValueClass());
   }
   if (type == TClonesArray::Class()) {
      auto *clones = reinterpret_cast<TClonesArray *>(object);
      std::vector<void *> items;
      for (Int_t i = 0; i < clones->GetEntriesFast(); ++i) items.push_back(clones->UncheckedAt(i));
      return list_text(items, clones->GetClass());
   }
   // Not ConvertToJSON: that asks the object for its class, and objects of classes that are only described (by the
   // file's streamer info) have no virtual functions.
   TBufferJSON buffer;
   buffer.SetCompact(3);
   return buffer.StoreObject(object, type).Data();
}
""")


def leaf_values(branch: Any) -> list[list[float]]:
    """Return the values of each leaf."""
    found = []
    for leaf in branch.GetListOfLeaves():
        floating = str(leaf.GetTypeName()) in ("Float_t", "Double_t", "Float16_t", "Double32_t")
        get = leaf.GetValue if floating else leaf.GetValueLong64
        values = [get(k) for k in range(leaf.GetLen())]
        if leaf.ClassName() == "TLeafC":
            values = [int(value) & 255 for value in values]
            values = values[: values.index(0)] if 0 in values else values
        elif leaf.IsUnsigned() and not floating:
            values = [int(value) % 2**64 for value in values]
        found.append([float(value) if floating else int(value) for value in values])
    return found


def parsed(text: str) -> Any:
    """Parse what ROOT gives: for a class without dictionary it writes an empty list and then null."""
    return json.loads(text.replace("[]null", UNKNOWN).replace("{}null", UNKNOWN))


def answer(tree: Any, top: int, path: list[int] | None) -> dict[str, Any]:
    """Return the values of a branch in some entries."""
    part = branch = tree.GetListOfBranches()[top]
    for place in path or []:
        part = part.GetListOfBranches()[place]
    composed = branch.InheritsFrom("TBranchElement") or branch.InheritsFrom("TBranchObject")
    if composed and path:
        branch.SetupAddresses()
    count = int(tree.GetEntries())
    entries: dict[int, Any] = {}
    size = 0
    wanted = {*range(min(FIRST_ENTRIES, count)), count - 1} - {-1}
    # Without a table of entry offsets ROOT finds its place only when it comes from the entry before.
    for entry in range(count) if not composed else sorted(wanted):
        if composed:
            text = str(ROOT.object_text(branch, part, entry))
            if text.startswith("error: "):
                return {"error": text[7:]}
            size += len(text)
            entries[entry] = parsed(text)
        else:
            tree.GetEntry(entry)
            if entry in wanted:
                entries[entry] = {"leaves": leaf_values(branch)}
        if size > MOST_BYTES:
            break
    return {"entries": entries, "messages": str(ROOT.heard())}


def read_until_crash(requests: list[Any], out: Any) -> None:
    """Answer requests, a line each."""
    opened: tuple[str, str] | None = None
    tree: Any = None
    file: Any = None
    for path, place, top, part in requests:
        signal.alarm(SECONDS)
        if opened != (path, place):
            file = ROOT.TFile.Open(path)
            tree = file.Get(place)
            opened = (path, place)
        ROOT.begin_listening()
        try:
            text = json.dumps(answer(tree, top, part))
        except Exception as error:  # noqa: BLE001 - whatever it is, this branch has no answer
            text = json.dumps({"error": f"{type(error).__name__}: {error}"[:200]})
        out.write(text + "\n")
        out.flush()


def build(path: str, containers: list[str], folder: Path) -> None:
    """Generate, compile and load the classes of a file and dictionaries of containers."""
    root = Path(ROOT.__file__).parent
    os.environ["PATH"] = f"{root}/bin:{os.environ['PATH']}"
    if containers:
        headers = ("array", "bitset", "deque", "list", "map", "set", "string", "vector", "TString.h")
        (folder / "types.h").write_text("".join(f"#include <{header}>\n" for header in headers))
        links = [f"#pragma link C++ class {name}+;\n" for name in containers]
        (folder / "linkdef.h").write_text("".join(links))
        dictionary = [f"{root}/bin/rootcling", "-f", "dict.cxx", "-rml", "libtypes.so", "-rmf", "libtypes.rootmap"]
        subprocess.run([*dictionary, "types.h", "linkdef.h"], cwd=folder, check=True)
        compile_ = ["g++", "-O0", "-std=c++20", "-w", "-fPIC", "-shared", "-I.", f"-I{root}/include", "dict.cxx"]
        libraries = ["-o", "libtypes.so", f"-L{root}/lib", f"-Wl,-rpath,{root}/lib", "-lCore", "-lRIO"]
        subprocess.run([*compile_, *libraries], cwd=folder, check=True)
        ROOT.gSystem.Load(str(folder / "libtypes.so"))
    ROOT.TFile.Open(path).MakeProject(str(folder / "project"), "*", "recreate++")


def standard(name: str) -> bool:
    """Whether a class is a container of numbers, strings and such containers."""
    words = {"vector", "map", "set", "list", "deque", "multimap", "multiset", "pair", "bitset", "string", "TString"}
    numbers = {"bool", "char", "short", "int", "long", "float", "double", "unsigned", "Long64_t", "ULong64_t"}
    return "<" in name and set(re.findall(r"[A-Za-z_:]\w*", name)) <= words | numbers


def main() -> None:
    """Answer every request."""
    requests = json.loads(Path(sys.argv[1]).read_text())
    if len(sys.argv) > 3:
        path = requests[0][0]
        file = ROOT.TFile.Open(path)
        types = set()
        for _, place, top, _ in requests:
            branch = file.Get(place).GetListOfBranches()[top]
            if branch.InheritsFrom("TBranchElement"):
                types.add(str(branch.GetClassName()))
        infos = file.GetStreamerInfoList()
        for info in infos:
            # The list also holds rules.
            for element in info.GetElements() if info.InheritsFrom("TVirtualStreamerInfo") else ():
                types.add(str(element.GetTypeName()))
        build(path, sorted(filter(standard, types)), Path(sys.argv[3]).resolve())
    with Path(sys.argv[2]).open("w") as answers:
        while requests:
            answers.flush()
            before = answers.tell()
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                read_until_crash(requests, answers)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            with Path(sys.argv[2]).open() as so_far:
                so_far.seek(before)
                done = so_far.read().count("\n")
            answers.seek(0, os.SEEK_END)
            requests = requests[done:]
            if requests:
                died = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
                answers.write(json.dumps({"error": f"ROOT ends with {died}"}) + "\n")
                requests = requests[1:]
    os._exit(0)  # the end of ROOT would touch what was only described


if __name__ == "__main__":
    main()
