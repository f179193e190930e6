"""What an object keeps of its file after it was copied or pickled."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from sapwood.compression import Compression


@dataclass(frozen=True)
class DetachedFile:
    """The facts of a file from which an object was read. It reads no data."""

    file_path: str
    """The path or URL by which the file was opened."""
    hex_uuid: str
    """The identifier of the file, in the usual form of a UUID."""
    root_version_tuple: tuple[int, int, int]
    """The version of ROOT that wrote the file, as (major, minor, patch)."""
    compression: Compression | None
    """The compression setting of the file."""

    @classmethod
    def of(cls, file: Any) -> DetachedFile | None:
        """Take the facts of a file; None where there is none."""
        if file is None or isinstance(file, DetachedFile):
            return file
        return cls(file.file_path, file.hex_uuid, file.root_version_tuple, file.compression)

    @property
    def uuid(self) -> uuid.UUID:
        """The identifier of the file."""
        return uuid.UUID(self.hex_uuid)

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

    def streamer_named(self, classname: str, version: int | str = "max") -> None:
        """Return None: the classes of the file are not kept."""
        del classname, version
