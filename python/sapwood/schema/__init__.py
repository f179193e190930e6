"""The classes that a file describes (its streamer info), also as C++ headers, Python dataclasses or JSON."""

from sapwood.schema.cpp import headers as headers
from sapwood.schema.cpp import is_own as is_own
from sapwood.schema.dataclasses import dataclasses as dataclasses
from sapwood.schema.streamers import (
    StreamerElement as StreamerElement,
)
from sapwood.schema.streamers import (
    StreamerInfo as StreamerInfo,
)
from sapwood.schema.streamers import (
    Streamers as Streamers,
)
