"""C++ classes under the names that uproot has for their models: ``models.TH.Model_TH1F_v3`` is version 3 of `TH1F`.

`isinstance` compares the names of classes: see `sapwood.model.NamedClass`.
"""

from __future__ import annotations

import sys
from types import ModuleType

from sapwood import dynamic
from sapwood.files.ntuple import RField

_MODULES = (
    "RNTuple", "TArray", "TAtt", "TBasket", "TBranch", "TClonesArray", "TDatime", "TGraph", "TH", "THashList", "TLeaf",
    "TList", "TMatrixT", "TNamed", "TObjArray", "TObjString", "TObject", "TRef", "TString", "TTable", "TTime", "TTree",
)  # fmt: skip
__all__ = list(_MODULES)  # pyright: ignore[reportUnsupportedDunderAll]
__path__: list[str] = []
"""Empty: the modules are made here."""

for _name in _MODULES:
    _module = ModuleType(f"{__name__}.{_name}", f"Classes of C++ where uproot has those of {_name}.")
    vars(_module)["__getattr__"] = dynamic.__getattr__
    sys.modules[_module.__name__] = globals()[_name] = _module
vars(sys.modules[f"{__name__}.RNTuple"])["RField"] = RField
