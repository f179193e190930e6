"""Run inside ROOT: give what branches hold, as ROOT's own JSON form. Arguments: REQUESTS.json ANSWERS [LIBRARY].

Requests: [[file, tree, top-level branch], ...]; ANSWERS gets a line for each: {"entries": {entry: value}} with the
objects (TBufferJSON) or the leaves' values of the first and the last entries, or {"error": why}. Each branch is read in
a process of its own, because ROOT crashes on some. LIBRARY is loaded first.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

FIRST_ENTRIES = 12
SECONDS = 30
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
#include <TError.h>
#include <set>
#include <string>
// What ROOT says while it reads counts: it may leave members out with no more than a message.
static std::set<std::string> said;
void remember(int level, Bool_t, const char *place, const char *text)
{
   if (level >= kWarning) said.insert(std::string(place) + ": " + text);
}
void begin_listening() { SetErrorHandler(remember); gErrorIgnoreLevel = kWarning; }
std::string heard() { std::string all; for (auto &m : said) all += m + "\n"; return all; }
std::string object_text(TBranch *branch, Long64_t entry)
{
   if (branch->GetEntry(entry) < 0) return "error: GetEntry fails";
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
   // Not ConvertToJSON: that asks the object for its class, and objects of classes that are only described (by the
   // file's streamer info) have no virtual functions.
   TBufferJSON buffer;
   buffer.SetCompact(3);
   return buffer.StoreObject(object, type).Data();
}
""")


def leaf_values(branch: Any) -> list[list[float]]:
    """Give the values of each leaf."""
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


def answer(tree: Any, name: str) -> dict[str, Any]:
    """Give the values of a branch in some entries."""
    branch = next((b for b in tree.GetListOfBranches() if str(b.GetName()) == name), None)
    if branch is None:
        return {"error": "ROOT lists no such branch"}
    count = int(tree.GetEntries())
    entries: dict[int, Any] = {}
    size = 0
    for entry in sorted({*range(min(FIRST_ENTRIES, count)), count - 1} - {-1}):
        if branch.InheritsFrom("TBranchElement") or branch.InheritsFrom("TBranchObject"):
            text = str(ROOT.object_text(branch, entry))
            if text.startswith("error: "):
                return {"error": text[7:]}
            size += len(text)
            entries[entry] = parsed(text)
        else:
            branch.GetEntry(entry)
            entries[entry] = {"leaves": leaf_values(branch)}
        if size > MOST_BYTES:
            break
    return {"entries": entries, "messages": str(ROOT.heard())}


def apart(tree: Any, name: str) -> str:
    """Give the answer of a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        ROOT.begin_listening()
        try:
            text = json.dumps(answer(tree, name))
        except Exception as error:  # noqa: BLE001 - whatever it is, this branch has no answer
            text = json.dumps({"error": f"{type(error).__name__}: {error}"[:200]})
        with os.fdopen(writing, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    if status or not text:
        died = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
        return json.dumps({"error": f"ROOT ends with {died}"})
    return text


def main() -> None:
    """Answer every request."""
    if len(sys.argv) > 3:
        ROOT.gSystem.Load(sys.argv[3])
    requests = json.loads(Path(sys.argv[1]).read_text())
    opened: tuple[str, str] | None = None
    tree: Any = None
    file: Any = None
    with Path(sys.argv[2]).open("w") as answers:
        for path, place, name in requests:
            if opened != (path, place):
                file = ROOT.TFile.Open(path)
                tree = file.Get(place)
                opened = (path, place)
            answers.write(apart(tree, name) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
