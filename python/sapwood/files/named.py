"""C++ classes by their names, as Python classes: `NamedClass`."""

from __future__ import annotations

from typing import Any, cast

from sapwood.files.members import HasMembers
from sapwood.files.ntuple import RNTuple
from sapwood.files.tree import TBranch, TTree
from sapwood.naming import classname_decode, classname_encode, regular_classname
from sapwood.objects import standard
from sapwood.objects.model import Model, class_behaviors
from sapwood.schema.streamers import StreamerElement, StreamerInfo

__all__ = ["TABLE_CLASSES", "NamedClass", "behavior_of", "named_class", "standard"]

TABLE_CLASSES: dict[str, type] = {
    "TTree": TTree, "TNtuple": TTree, "TNtupleD": TTree, "TBranch": TBranch, "TBranchElement": TBranch,
    "TBranchObject": TBranch, "ROOT::RNTuple": RNTuple,
}  # fmt: skip


class NamedClass(type):
    """A C++ class, in one or all versions. `isinstance` compares class names."""

    classname: str
    """The C++ class."""
    class_version: int | None
    """The version; None for all."""

    def __instancecheck__(cls, instance: Any) -> bool:
        """Return whether an object is of the class or a derived one; with a version, of the class itself."""
        if not isinstance(instance, (Model, HasMembers, RNTuple, StreamerElement, StreamerInfo)):
            return False
        instance = cast("Any", instance)
        name = regular_classname(cls.classname)
        same = regular_classname(instance.classname) == name
        if cls.class_version is not None:
            return same and instance.class_version == cls.class_version
        return same or instance.is_instance(name)

    def __subclasscheck__(cls, subclass: type) -> bool:
        """Return whether another class is the same class."""
        return isinstance(subclass, NamedClass) and subclass.classname == cls.classname

    def __repr__(cls) -> str:
        """Show the name."""
        return f"<class {classname_encode(cls.classname, cls.class_version)!r}>"


_made: dict[tuple[str, int | None], NamedClass] = {}


def named_class(classname: str, version: int | None = None) -> NamedClass:
    """Return the class of a name, whether objects of it exist or not."""
    found = _made.get((classname, version))
    if found is None:
        base = behavior_of(classname) or Model
        # The class of trees implements `isinstance` itself.
        bases = (base,) if type(base) is type else ()
        values = {"classname": classname, "class_version": version, "__doc__": f"The C++ class `{classname}`."}
        found = _made[classname, version] = NamedClass(classname_encode(classname, version), bases, values)
    return found


def behavior_of(classname: str) -> type | None:
    """Return the Python class with the methods of a C++ class; None if it has none."""
    name = regular_classname(classname_decode(classname)[0] if classname.startswith("Model_") else classname)
    return TABLE_CLASSES.get(name) or class_behaviors.get(name) or class_behaviors.get(name.partition("<")[0] + "<")
