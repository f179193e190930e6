"""Checksums of the records of a file, in a file beside it.

They are XXH3-64 hashes of each record as it is stored: of the header, directories and lists of keys, descriptions of
classes, objects, and pages of data. Programs that do not know the file beside can ignore it. It belongs to a file of
its size, header and top directory, wherever that is, so a copy of both files can be verified. It needs no trust: false
checksums can only cause errors.
"""

from __future__ import annotations

import os
import re
import stat
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import ArgumentTypeError, SapwoodError, SapwoodWarning, StorageError, stacklevel, without_secrets
from sapwood.storage.placing import CHECKSUMS as SUFFIX
from sapwood.storage.placing import placed
from sapwood.storage.sources import Found, source_of

if TYPE_CHECKING:
    from sapwood import _native

_REST = 1024
_ONE_FILE = frozenset({"replicas", "checksums", "column_cache", "column_cache_size", "prior"})
"""Options for the file itself."""


def beside(path: str | os.PathLike[str]) -> Path:
    """Return the path of the checksums of a local file."""
    return Path(f"{os.fspath(path)}{SUFFIX}")


def attach(native: Any, found: Found, options: Mapping[str, Any]) -> bool:
    """Compare the records of an open file with the checksums beside it, if there are any; return whether there are.

    Parameters
    ----------
    native
        The open file.
    found
        Its source.
    options
        Options of `open`. Without ``checksums``, the checksums of a local file are used if they exist; with True, also
        those of a remote file, and a warning says if there are none; with False none are used.

    Raises
    ------
    ArgumentTypeError
        The option is not a boolean.
    """
    asked = options.get("checksums")
    if asked is not None and not isinstance(asked, bool):
        raise ArgumentTypeError(f"checksums is True, False or None, not {asked!r}")
    if asked is False:
        return False
    if not hasattr(native, "use_checksums"):
        return asked is not None and _not_used(found.name, "only ROOT files have checksums")
    local = isinstance(found.source, str)
    if not asked and not local:
        return False
    name = f"{found.source}{SUFFIX}" if local else url_beside(found.name)
    try:
        stored = _read(name, native.size) if local else _fetch(found, name, native.size, options)
        reason = native.use_checksums(stored)
    except FileNotFoundError:
        return asked is not None and _not_used(name, "the file does not exist")
    except (OSError, SapwoodError) as error:
        reason = str(error)
    return reason is None or _not_used(name, reason)


def _not_used(name: str, why: str) -> bool:
    shown = name.encode(errors="replace").decode()
    text = without_secrets(f"the checksums {shown} are not used: {why}")
    warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())
    return False


def _limit(size: int) -> int:
    """Return the largest number of bytes that the checksums of a file of this size can take.

    A record takes 29 bytes or more, and its checksum 24.
    """
    return size + _REST


def _read(path: str, size: int) -> bytes:
    """Read the checksums of a local file.

    Raises
    ------
    OSError
        They cannot be read, or the file does not contain checksums.
    """
    about = os.stat(path)  # noqa: PTH116 - each opening of a file waits for it
    if not stat.S_ISREG(about.st_mode):
        raise OSError("not a regular file")
    if about.st_size > _limit(size):
        raise OSError("it has more bytes than the file")
    with Path(path).open("rb") as file:
        return file.read(_limit(size))


def url_beside(url: str) -> str:
    """Return the URL of the checksums of a remote file."""
    return re.sub(r"\A([^?]*)", rf"\1{SUFFIX}", url, count=1)


def _fetch(found: Found, url: str, size: int, options: Mapping[str, Any]) -> bytes:
    """Fetch the checksums of a remote file.

    Raises
    ------
    StorageError
        They cannot be fetched, or the file does not contain checksums.
    """
    if found.address is None:
        raise StorageError("only files that are opened by their path or URL have checksums")
    own = {name: value for name, value in options.items() if name not in _ONE_FILE}
    storage = source_of(url, own).storage()
    try:
        if storage.size > _limit(size):
            raise StorageError("it has more bytes than the file")
        return storage.read([(0, storage.size)])[0]
    finally:
        storage.close()


def write(path: str | os.PathLike[str], output: _native.Output | None = None) -> Path:
    """Write the checksums of a complete local file beside it; return the path.

    Parameters
    ----------
    path
        The file.
    output
        The closed writer of the file, which has collected the checksums of the records that it wrote. The other records
        are read.

    Raises
    ------
    CorruptError
        The file is cut off, or its records do not follow one another.
    StorageError, OSError
        The file cannot be read, or the checksums cannot be written.
    """
    from sapwood import _native

    native = _native.File(str(path))
    try:
        stored = native.checksums(output)
    finally:
        native.close()
    target = beside(path)
    with placed(target, path) as place:
        place.write_bytes(stored)
    return target
