"""Write local files that are either complete or absent."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator
from pathlib import Path

from sapwood.errors import MissingFileError, StorageError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of writing. The system does not say which file they are about."""


@contextlib.contextmanager
def placed(path: str | os.PathLike[str]) -> Generator[Path]:
    """Yield a path beside a new file, with its suffix. The file written there replaces it at the end of the block.

    After an exception, nothing is left. Devices and pipes are written directly.

    Raises
    ------
    StorageError
        The storage is full or failed.
    MissingFileError
        The folder does not exist.
    """
    target = Path(path).resolve()
    special = target.exists() and not target.is_file()  # such as /dev/stdout
    if not target.parent.is_dir():
        raise MissingFileError(f"cannot write {path}: the folder {Path(path).parent} does not exist")
    beside = target if special else target.with_name(f".{target.stem}.{os.getpid()}{target.suffix}")
    try:
        yield beside
        if not special:
            beside.replace(target)
    except OSError as error:
        if isinstance(error, StorageError) or error.errno not in _FULL:
            raise
        raise StorageError(f"cannot write {path}: {os.strerror(error.errno)}") from error
    finally:
        if not special:
            beside.unlink(missing_ok=True)
