"""Classes with methods of their own, where uproot has them: `behaviors.TH1.TH1`, `behaviors.TBranch.HasBranches`, ...

Each C++ class of a histogram, graph or other object that has a Python class is a module here with that class in it, so
that `isinstance` and imports by these names work. One Python class may stand for several C++ classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sapwood.files.many import concatenate, iterate
from sapwood.files.ntuple import HasRFields, RField, RNTuple, check_backend
from sapwood.files.tree import HasBranches, TBranch, TTree
from sapwood.objects import standard
from sapwood.objects.histogram import Histogram
from sapwood.objects.model import class_behaviors
from sapwood.table.steps import Report

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


__all__ = ["standard"]
__path__: list[str] = []
"""Empty: the modules are made here."""


def _publish(name: str, members: dict[str, Any]) -> None:
    module = ModuleType(f"{__name__}.{name}", f"What `sapwood` has of uproot's module for {name}.")
    vars(module).update(members)
    sys.modules[module.__name__] = globals()[name] = module


def _decoding(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function accept the only valid `backend` and `interpreter`."""

    @wraps(function)
    def call(*arguments: Any, backend: str = "cpu", interpreter: str = "cpu", **keywords: Any) -> Any:
        check_backend(backend, interpreter)
        return function(*arguments, **keywords)

    return call


for _name, _class in class_behaviors.items():
    if _name.isidentifier():
        _publish(_name, {_name: _class})
_publish("TH1", {"Histogram": Histogram, "TH1": class_behaviors["TH1"]})
_publish("TTree", {"TTree": TTree})
_publish(
    "RNTuple",
    {
        "HasFields": HasRFields,
        "RField": RField,
        "RNTuple": RNTuple,
        "concatenate": _decoding(concatenate),
        "iterate": _decoding(iterate),
    },
)
_publish(
    "TBranch",
    {"HasBranches": HasBranches, "Report": Report, "TBranch": TBranch, "concatenate": concatenate, "iterate": iterate},
)
