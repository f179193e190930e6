"""Descriptions of classes under the names that uproot has for their models, for ``isinstance`` and imports."""

from __future__ import annotations

from sapwood.dynamic import __getattr__
from sapwood.schema.streamers import StreamerElement as Model_TStreamerElement
from sapwood.schema.streamers import StreamerInfo as Model_TStreamerInfo

__all__ = ["Model_TStreamerElement", "Model_TStreamerInfo", "__getattr__"]
