"""Records as stored in the file: keys of objects and baskets, and the numbers of header and directories."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from sapwood.errors import CorruptError, UnsupportedError

_KEY = struct.Struct(">ihiIhh")
_LARGE = 1000
"""Offset added to the version of a record with 64-bit offsets."""


class KeyRecord(NamedTuple):
    """The key before an object or a basket in the file (`TKey`). Members have ROOT's names; sizes are in bytes."""

    fNbytes: int  # noqa: N815
    fVersion: int  # noqa: N815
    fObjlen: int  # noqa: N815
    fDatime: int  # noqa: N815
    fKeylen: int  # noqa: N815
    fCycle: int  # noqa: N815
    fSeekKey: int  # noqa: N815
    fSeekPdir: int  # noqa: N815
    fClassName: str  # noqa: N815
    fName: str  # noqa: N815
    fTitle: str  # noqa: N815

    @property
    def is_64bit(self) -> bool:
        """Whether its offsets have 64 bits."""
        return self.fVersion > _LARGE

    @property
    def data_uncompressed_bytes(self) -> int:
        """The size of the data before compression."""
        return self.fObjlen

    @property
    def data_compressed_bytes(self) -> int:
        """The size of the data as stored."""
        return self.fNbytes - self.fKeylen

    @property
    def is_compressed(self) -> bool:
        """Whether the data are compressed."""
        return self.data_compressed_bytes != self.fObjlen


def with_records(file: Any) -> Any:
    """Return a native file if it has ROOT records.

    Raises
    ------
    UnsupportedError
        The file is a ZEBRA file.
    """
    if not hasattr(file, "places"):
        raise UnsupportedError(f"a ZEBRA file has no records of ROOT\nin file {file.name}")
    return file


def read_key(file: Any, seek: int, expected: int, where: str) -> KeyRecord:
    """Read the key at an offset of a native file.

    Raises
    ------
    CorruptError
        There is no key at the offset, or its record has an unexpected size.
    """
    file = with_records(file)
    start = file.bytes(seek, min(_KEY.size + 16, max(file.size - seek, 0)))
    if len(start) < _KEY.size + 16:
        raise CorruptError(f"{where}: its key at byte {seek} is cut off")
    numbers = _KEY.unpack_from(start)
    places = struct.Struct(">qq" if numbers[1] > _LARGE else ">ii")
    above = places.unpack_from(start, _KEY.size)[1]
    wrong = numbers[0] != expected or not 0 < numbers[4] <= numbers[0] or numbers[2] < 0
    texts = [] if wrong else _texts(file.bytes(seek, min(numbers[4], file.size - seek)), _KEY.size + places.size)
    if len(texts) != 3:
        raise CorruptError(f"{where}: expected a key of {expected} bytes at byte {seek}, found the numbers {numbers}")
    return KeyRecord._make((*numbers, seek, above, *texts))


def _texts(data: bytes, place: int) -> list[str]:
    """Return three consecutive strings, each after its length; fewer if the data end."""
    found: list[str] = []
    for _ in range(3):
        size = data[place : place + 1]
        if size == b"\xff":
            size, place = data[place + 1 : place + 5], place + 4
        end = place + 1 + int.from_bytes(size, "big")
        if not size or end > len(data):
            break
        found.append(data[place + 1 : end].decode(errors="surrogateescape"))
        place = end
    return found


class DirectoryRecord(NamedTuple):
    """The numbers of a directory (`TDirectory`); members have ROOT's names, sizes are in bytes."""

    fVersion: int  # noqa: N815
    fDatimeC: int  # noqa: N815
    fDatimeM: int  # noqa: N815
    fNbytesKeys: int  # noqa: N815
    fNbytesName: int  # noqa: N815
    fSeekDir: int  # noqa: N815
    fSeekParent: int  # noqa: N815
    fSeekKeys: int  # noqa: N815

    @property
    def is_64bit(self) -> bool:
        """Whether its offsets have 64 bits."""
        return self.fVersion > _LARGE


def read_directory(file: Any, offset: int) -> DirectoryRecord:
    """Read the numbers of a directory at an offset of a native file."""
    start = with_records(file).bytes(offset, min(42, file.size - offset))
    try:
        numbers = struct.unpack_from(">hIIii", start)
        large = numbers[0] > _LARGE
        places = struct.unpack_from(">qqq" if large else ">iii", start, 18)
    except struct.error:
        raise CorruptError(f"the record of a directory at byte {offset} is cut off") from None
    return DirectoryRecord._make((*numbers, *places))


class HeaderRecord(NamedTuple):
    """Numbers of the header of a file that only writers need; members have ROOT's names."""

    nfree: int
    fNbytesName: int  # noqa: N815
    fUnits: int  # noqa: N815


def read_header(file: Any) -> HeaderRecord:
    """Read numbers of the header of a native file."""
    offset = 32 if file.is_64bit else 24
    return HeaderRecord._make(struct.unpack(">iiB", with_records(file).bytes(offset, 9)))
