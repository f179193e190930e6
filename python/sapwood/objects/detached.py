"""Metadata of the file of an object, which remain after the file is closed or the object copied or pickled."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sapwood.compression import Compression

_DEFAULTS: dict[str, Any] = {
    "file_path": "",
    "hex_uuid": "",
    "root_version_tuple": (0, 0, 0),
    "compression": None,
    "options": MappingProxyType[str, Any]({}),
    "is_64bit": False,
    "fVersion": 0,
    "fCompress": 0,
    "fBEGIN": 0,
    "fEND": 0,
}
"""Defaults for files of other formats than ROOT."""


@dataclass(frozen=True)
class DetachedFile:
    """Metadata of the file from which an object was read. It reads no data."""

    file_path: str
    """The path or URL by which the file was opened."""
    hex_uuid: str
    """The identifier of the file, in the usual form of a UUID."""
    root_version_tuple: tuple[int, int, int]
    """The version of ROOT that wrote the file, as (major, minor, patch)."""
    compression: Compression | None
    """The compression setting of the file."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """The options given to `open`; empty after unpickling."""
    is_64bit: bool = False
    """Whether the header has 64-bit offsets."""
    fVersion: int = 0  # noqa: N815
    """The stored version number: 1,000,000 more than ROOT's in a 64-bit header."""
    fCompress: int = 0  # noqa: N815
    """The stored compression setting of the file."""
    fBEGIN: int = 0  # noqa: N815
    """The offset of the first record, in bytes."""
    fEND: int = 0  # noqa: N815
    """The offset after the last record, in bytes."""

    @classmethod
    def of(cls, file: Any) -> DetachedFile | None:
        """Return the metadata of a file, or None without a file. Files of other formats have only some of them."""
        if file is None or isinstance(file, DetachedFile):
            return file
        return cls(**{name: getattr(file, name, default) for name, default in _DEFAULTS.items()})

    @property
    def uuid(self) -> uuid.UUID:
        """The identifier of the file."""
        return uuid.UUID(self.hex_uuid)

    @property
    def fUUID(self) -> bytes:  # noqa: N802
        """The identifier of the file, as 16 bytes."""
        return self.uuid.bytes

    @property
    def fUnits(self) -> int:  # noqa: N802
        """The size of an offset in the header, in bytes."""
        return 8 if self.is_64bit else 4

    @property
    def root_version(self) -> str:
        """The version of ROOT that wrote the file, like ``"6.30/04"``."""
        return "{}.{:02d}/{:02d}".format(*self.root_version_tuple)

    @property
    def closed(self) -> bool:
        """True: it reads no data."""
        return True

    def close(self) -> None:
        """Do nothing: no file is open."""

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the metadata without the options, which may hold any objects."""
        return self.__dict__ | {"options": {}}

    def streamer_named(self, classname: str, version: int | str = "max") -> None:
        """Return None: the classes of the file are not kept."""
        del classname, version
