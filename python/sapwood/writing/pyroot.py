"""Convert objects to and from PyROOT, through a file in memory on one side and a temporary file on the other."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, StorageError
from sapwood.files.file import open as open_file
from sapwood.new import NewObject
from sapwood.objects.model import Model
from sapwood.writing.file import recreate
from sapwood.writing.objects import to_object


def to_writable(obj: Foreign) -> Foreign:
    """Convert a histogram, a string or a PyROOT object to an object of a ROOT class.

    Objects that already have a ROOT class (read from a file, or made by `sapwood.new`) are returned unchanged.
    Assignment to a file, ``file["name"] = obj``, converts automatically, except for PyROOT objects.

    Raises
    ------
    TypeError
        No ROOT class can represent the object.
    """
    if isinstance(obj, (Model, NewObject)):
        return obj
    if _is_pyroot(obj):
        return from_pyroot(obj)
    title, (classname, members) = to_object(obj, "")
    return NewObject(classname, title, {name: value for name, value in members.items() if name not in _NAMES})


_NAMES = ("fName", "fTitle")


def from_pyroot(obj: Foreign) -> Foreign:
    """Convert a PyROOT object to the object that `sapwood.open` would read from a file.

    Raises
    ------
    ArgumentError
        The object is not a PyROOT object.
    StorageError
        ROOT cannot write the object.
    """
    if not _is_pyroot(obj):
        raise ArgumentError(f"{type(obj).__name__} is not a PyROOT object")
    root = _root()
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "object.root")
        file = root.TFile.Open(path, "RECREATE")
        name = str(obj.GetName()) if obj.InheritsFrom("TObject") else ""
        written = file.WriteTObject(obj, name or "object") if obj.InheritsFrom("TObject") else 0
        file.Close()
        if not written:
            raise StorageError(f"ROOT cannot write an object of class {obj.ClassName()}")
        return open_file(Path(path).read_bytes())[name or "object"]


def to_pyroot(obj: Foreign, name: str | None = None) -> Foreign:
    """Convert a histogram, or another object that sapwood reads or writes, to a PyROOT object.

    Parameters
    ----------
    obj
        An object that can be assigned to a name of a file.
    name
        Name in ROOT; by default the name of the object.
    """
    root = _root()
    its_name = getattr(obj, "name", None) if name is None else name
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "object.root")
        with recreate(path) as file:
            file["object"] = obj
        opened = root.TFile.Open(path)
        try:
            found: Any = opened.Get("object")
            if hasattr(found, "SetDirectory"):
                found.SetDirectory(root.nullptr)
            if its_name and hasattr(found, "SetName"):
                found.SetName(its_name)
            root.SetOwnership(found, True)
            return found
        finally:
            opened.Close()


def _is_pyroot(obj: Foreign) -> bool:
    return any(cls.__module__ == "cppyy" or cls.__module__.startswith("cppyy.") for cls in type(obj).__mro__)


def _root() -> Any:
    try:
        return import_module("ROOT")
    except ImportError as error:
        raise ArgumentError("this needs ROOT with its Python bindings: conda install -c conda-forge root") from error
