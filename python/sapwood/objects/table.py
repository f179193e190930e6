"""Tables of the STAR experiment."""

from __future__ import annotations

from typing import Any

import numpy as np

from sapwood.errors import UnsupportedError
from sapwood.objects.model import Model, behavior

# TTable::EColumnType: the type codes of columns.
_TYPES = {1: "f4", 2: "i4", 3: "i8", 4: "i2", 5: "f8", 6: "u4", 7: "u8", 8: "u2", 9: "u1", 10: "i1", 12: "?"}
# A row of a TTableDescriptor (tableDescriptor_st).
_DESCRIPTOR = np.dtype(
    [("name", "S32"), ("index", ">u4", 3), ("offset", ">u4"), ("size", ">u4"), ("type_size", ">u4"), ("dims", ">u4"),
     ("type", ">i4")]
)  # fmt: skip


@behavior("TTable")
class TTable(Model):
    """A table: rows of numbers, with a description of its columns beside them."""

    @property
    def name(self) -> str:
        """The name of the table."""
        return self.member("fName")

    @property
    def data(self) -> np.ndarray[Any, Any]:
        """The rows as a read-only structured array, big-endian as they are stored."""
        descriptor = self.member("@descriptor")
        columns = np.frombuffer(descriptor.member("@items").tobytes(), dtype=_DESCRIPTOR)
        formats: list[Any] = []
        for column in columns:
            code = _TYPES.get(int(column["type"]))
            if code is None:
                raise UnsupportedError(f"column {column['name']!r} of {self!r} has the type code {column['type']}")
            each = np.dtype(f">{code}")
            count = int(column["size"]) // each.itemsize
            formats.append((each, (count,)) if column["dims"] else each)
        row = np.dtype(
            {
                "names": [column["name"].decode() for column in columns],
                "formats": formats,
                "offsets": [int(column["offset"]) for column in columns],
                "itemsize": self.member("fSize"),
            }
        )
        return np.frombuffer(self.member("@items").tobytes(), dtype=row)

    def __len__(self) -> int:
        """Count the rows."""
        return self.member("fMaxIndex")
