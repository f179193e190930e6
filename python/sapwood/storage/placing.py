"""Write local files that are either complete or absent, and remove what belonged to the files that they replace."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Generator
from pathlib import Path

from sapwood.errors import ArgumentError, MissingFileError, StorageError
from sapwood.storage.sources import real_path, user_path

INDEX = ".sapwood-index"
CHECKSUMS = ".sapwood-checksums"
"""The suffixes that files with an index and with checksums add to the name of the file that they belong to."""


def forget(path: str | os.PathLike[str]) -> None:
    """Remove the index and the checksums of the file that was replaced at a local path."""
    for name in {os.fspath(path), os.path.realpath(path)}:
        for suffix in (INDEX, CHECKSUMS):
            with contextlib.suppress(OSError):  # readers notice that they do not belong to the new file
                Path(f"{name}{suffix}").unlink(missing_ok=True)


@contextlib.contextmanager
def placed(path: str | os.PathLike[str]) -> Generator[Path]:
    """Yield a path beside a new file, with its suffix. The file written there replaces it at the end of the block.

    After an exception, nothing is left. Devices and pipes are written directly.

    Raises
    ------
    StorageError
        The storage is full, read-only or failed.
    MissingFileError
        The folder does not exist.
    """
    target = real_path(path)
    special = target.exists() and not target.is_file()  # such as /dev/stdout
    if not target.parent.is_dir():
        raise MissingFileError(f"cannot write {path}: the folder {Path(path).parent} does not exist")
    own = f"{os.getpid()}-{threading.get_native_id()}"
    beside = target if special else target.with_name(f".{target.stem}.{own}{target.suffix}")
    try:
        yield beside
        if not special:
            beside.replace(target)
            forget(target)
    except OSError as error:
        if type(error) is not OSError or error.errno is None:  # errors of a subclass have clear messages
            raise
        raise StorageError(f"cannot write {path}: {os.strerror(error.errno)}") from error
    finally:
        if not special:
            with contextlib.suppress(OSError):  # the earlier error has more details
                beside.unlink(missing_ok=True)


@contextlib.contextmanager
def placed_page(path: str | os.PathLike[str], *inputs: str | os.PathLike[str]) -> Generator[Path]:
    """As `placed`, for a page or a listing, which replaces neither a ROOT file nor an input.

    Raises
    ------
    ArgumentError
        It would replace one of these.
    """
    if any(same_file(one, path) for one in inputs):
        raise ArgumentError(f"{path} is the input")
    if Path(path).is_file():
        with Path(path).open("rb") as file:
            if file.read(4) == b"root":
                raise ArgumentError(f"{path} is a ROOT file, and would be replaced by a text; choose another name")
    with placed(path) as beside:
        yield beside


def same_file(path: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two local files, paths or URLs ``file://``, exist and are the same, also through links."""
    first, second = (Path(re.sub(r"(?i)^(file|local)://", "", os.fspath(one))) for one in (path, other))
    try:
        return first.samefile(second)
    except (OSError, ValueError):  # one does not exist, or is no path of a file
        return False


def identity(path: str) -> object:
    """Return what all paths of a local file, also URLs ``file://``, have in common; the URL of another file."""
    plain = re.sub(r"(?i)^(file|local)://", "", path)
    if "://" in plain:
        return plain
    try:
        about = user_path(plain).stat()
    except (OSError, ValueError):
        return real_path(user_path(plain))
    return about.st_dev, about.st_ino
