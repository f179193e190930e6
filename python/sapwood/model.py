"""The class of objects that were read, and names of classes, in the module in which uproot has them."""

from __future__ import annotations

from sapwood.naming import classname_decode, classname_encode
from sapwood.objects.model import Model

__all__ = ["Model", "classname_decode", "classname_encode", "reset_classes"]


def reset_classes() -> None:
    """Do nothing: no classes are generated that could be forgotten."""
