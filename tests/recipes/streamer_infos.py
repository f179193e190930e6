"""Writes the table of standard classes, `crates/root/src/streamer/builtin.tsv`, from an installed ROOT.

The table holds format facts alone: class names, versions, checksums and members, as ROOT writes them into its files.
Run it with a Python that has ROOT and uproot:
`python tests/recipes/streamer_infos.py > crates/root/src/streamer/builtin.tsv`.

One line a class: `=`, name, class version (`fClassVersion`), checksum (`fCheckSum`), title. Below it one line an
element: kind (the class of the element without `TStreamer`), `fName`, `fTitle`, `fType`, `fSize`, `fArrayLength`,
`fArrayDim`, `fMaxIndex` (comma separated), `fTypeName`, then what the kind adds: `Base`: `fBaseVersion`;
`BasicPointer` and `Loop`: `fCountVersion`, `fCountName`, `fCountClass`; `STL`: `fSTLtype`, `fCtype`.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from typing import Any

import uproot

warnings.simplefilter("ignore")
import ROOT  # noqa: E402

MORE = {
    "Base": ("fBaseVersion",),
    "BasicPointer": ("fCountVersion", "fCountName", "fCountClass"),
    "Loop": ("fCountVersion", "fCountName", "fCountClass"),
    "STL": ("fSTLtype", "fCtype"),
    "STLstring": ("fSTLtype", "fCtype"),
}

CLASSES = """
TObject TNamed TString TObjString TDatime TUUID TRef TRefArray TRefTable TProcessID TBits TMap
TCollection TSeqCollection TList THashList THashTable TObjArray TClonesArray TOrdCollection TSortedList
TArray TArrayC TArrayS TArrayI TArrayL TArrayL64 TArrayF TArrayD
TAttLine TAttFill TAttMarker TAttAxis TAttText TAttPad TAttBBox2D
TTree TNtuple TNtupleD TChain TChainElement TBranch TBranchElement TBranchObject TBranchClones TBranchSTL TBranchRef
TBasket ROOT::TIOFeatures TVirtualIndex TTreeIndex TFriendElement TEventList TEntryList TEntryListBlock
TLeaf TLeafB TLeafS TLeafI TLeafL TLeafG TLeafF TLeafD TLeafO TLeafC TLeafF16 TLeafD32 TLeafElement TLeafObject
TAxis TH1 TH1C TH1S TH1I TH1L TH1F TH1D TH2 TH2C TH2S TH2I TH2L TH2F TH2D TH3 TH3C TH3S TH3I TH3L TH3F TH3D TH1K
TAtt3D TProfile TProfile2D TProfile3D TH2Poly TH2PolyBin TProfile2Poly TEfficiency THStack
THnBase THn THnT<float> THnT<double> THnSparse THnSparseT<TArrayF> THnSparseT<TArrayD> THnSparseT<TArrayI>
THnSparseArrayChunk TNDArray TNDArrayT<float> TNDArrayT<double>
TGraph TGraphErrors TGraphAsymmErrors TGraphBentErrors TGraphMultiErrors TGraph2D TGraph2DErrors TMultiGraph TCutG
TGraphPolar TSpline TSpline3 TSplinePoly TSplinePoly3
TF1 TF2 TF3 TFormula TF1Parameters TF1AbsComposition TFitResult
TParameter<float> TParameter<double> TParameter<int> TParameter<Long64_t> TParameter<bool> TParameter<Long_t>
TVector2 TVector3 TLorentzVector TLorentzRotation TRotation TMatrixTBase<double> TMatrixT<double> TMatrixTSym<double>
TMatrixTBase<float> TMatrixT<float> TMatrixTSym<float> TVectorT<double> TVectorT<float>
TCut TMacro TFolder TTimeStamp TDirectory TDirectoryFile TKey TFile TStopwatch TLine TBox TPave TPaveText TText TLatex
TPaveStats TPaveLabel TLegend TLegendEntry TCanvas TPad TArrow TEllipse TMarker TPolyLine TPolyMarker
TPolyLine3D TPolyMarker3D TPoint TGeometry
TParticle TParticlePDG TDatabasePDG
TTime TSpline5 TSplinePoly5 TGraph2DAsymmErrors TMatrixTSparse<double> TMatrixTSparse<float>
ROOT::RNTuple
"""


def clean(text: str) -> str:
    """Keep a text on its line."""
    return text.replace("\t", " ").replace("\n", " ")


def wanted() -> dict[str, Any]:
    """Collect the classes and all that their members and bases name."""
    found: dict[str, Any] = {}
    names = CLASSES.split()[::-1]
    while names:
        name = names.pop()
        if name in found:
            continue
        cls = ROOT.TClass.GetClass(name)
        info = cls.GetStreamerInfo() if cls and not cls.GetCollectionProxy() and cls.GetClassInfo() else None
        if not info:
            print(f"no streamer info for {name}", file=sys.stderr)
            continue
        found[name] = info
        for element in info.GetElements():
            kind = element.IsA().GetName().removeprefix("TStreamer")
            target = element.GetClassPointer()
            if kind in ("Base", "Object", "ObjectAny", "ObjectPointer", "ObjectAnyPointer") and target:
                names.append(target.GetName())
    return found


def main() -> None:
    """Have ROOT write the infos to a file, since what it writes differs from what it holds, and print that."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/infos.root"
        file = ROOT.TFile(path, "RECREATE")
        for info in wanted().values():
            info.ForceWriteInfo(file, True)
        file.Close()
        streamers = uproot.open(path).file.streamers
    print(f"# Standard classes of ROOT {ROOT.gROOT.GetVersion()}, made by tests/recipes/streamer_infos.py")
    for name, versions in sorted(streamers.items()):
        for version, info in versions.items():
            print("=", name, version, info.member("fCheckSum"), clean(info.member("fTitle")), sep="\t")
            for element in info.member("fElements"):
                kind = element.classname.removeprefix("TStreamer")
                m = element.all_members
                row = [kind, m["fName"], clean(m["fTitle"]), m["fType"], m["fSize"], m["fArrayLength"], m["fArrayDim"]]
                row += [",".join(str(i) for i in m["fMaxIndex"]), m["fTypeName"]]
                row += [m[name] for name in MORE.get(kind, ())]
                print(*row, sep="\t")


main()
