"""The class of objects that were read, in the module in which uproot has it."""

from __future__ import annotations

from sapwood.objects.model import Model

__all__ = ["Model"]
