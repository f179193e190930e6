"""Write local files that are either complete or absent, and remove what belonged to the files that they replace."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO, Literal

from sapwood.errors import ArgumentError, MissingFileError, StorageError
from sapwood.storage.sources import real_path, user_path

INDEX = ".sapwood-index"
CHECKSUMS = ".sapwood-checksums"
"""The suffixes that files with an index and with checksums add to the name of the file that they belong to."""
PARTIAL = ".partial"
"""The suffix of most files that are being written beside their path."""
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_ACL = "system.posix_acl_access"
"""Linux's name of the access control list of a file."""


def opened(path: str | os.PathLike[str], mode: Literal["rb", "ab"] = "rb") -> BinaryIO:
    """Open a file, but no symbolic link; if it is a pipe, without waiting for the other end."""
    more = _NO_LINK | getattr(os, "O_NONBLOCK", 0)
    return open(path, mode, opener=lambda name, flags: os.open(name, flags | more, 0o666))


def made_beside(
    target: str | os.PathLike[str],
    *,
    mode: int | None = None,
    suffix: str | None = None,
    note: Callable[[Path], object] | None = None,
) -> Path:
    """Create an empty file beside a path, to be moved there by `put`; return its path.

    Other users cannot guess its name, and it is never a file or link that was there before.

    Parameters
    ----------
    target
        The path that the file will get.
    mode
        The mode of the file, before the umask. By default, only this user may access a file that replaces another one,
        until `put` gives it the mode of that file.
    suffix
        If given, the file is hidden and its name ends like this. By default the name ends with ``.partial``.
    note
        Called with the path before the file is created.
    """
    target = Path(target)
    if mode is None:
        mode = 0o600 if target.exists() else 0o666
    number = secrets.token_hex(8)
    name = f"{target.name}.{number}{PARTIAL}" if suffix is None else f".{target.stem}.{number}{suffix}"
    beside = target.with_name(name)
    if note is not None:
        note(beside)
    os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, mode))
    return beside


def claim(path: Path, mode: int) -> None:
    """Create an empty file at a path that other users can guess, unless this user has a file there.

    Links and files of other users are removed first.

    Raises
    ------
    OSError
        They cannot be removed.
    """
    while True:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, mode))
        except FileExistsError:
            pass
        else:
            return
        with contextlib.suppress(FileNotFoundError):
            about = path.lstat()
            if stat.S_ISREG(about.st_mode) and about.st_nlink == 1 and (os.name == "nt" or about.st_uid == os.getuid()):
                return
            path.unlink()


def protect(path: str | os.PathLike[str], like: str | os.PathLike[str], allowed: int = 0o777) -> None:
    """Let nobody access a file who may not access another one.

    The file gets the mode (as far as `allowed`), the group and the access control list of the other one, and, if root
    calls this, its owner. Without the right to set the group or the list, the group may do only what everybody may.
    """
    if os.name == "nt":
        return
    about = Path(like).stat()
    mode = stat.S_IMODE(about.st_mode) & allowed
    everybody = mode & (~0o070 | mode << 3)  # the group may do what all others may
    number = os.open(path, os.O_RDONLY | _NO_LINK)
    try:
        with contextlib.suppress(OSError):
            os.fchown(number, about.st_uid if os.geteuid() == 0 else -1, about.st_gid)
        if os.fstat(number).st_gid != about.st_gid:
            mode = everybody
        if not _share_list(number, like):
            mode = everybody
        os.fchmod(number, mode)
    finally:
        os.close(number)


def _share_list(file: int, like: str | os.PathLike[str]) -> bool:
    """Give an open file the access control list of another one, or none; return whether that succeeded."""
    if not hasattr(os, "getxattr"):
        return True
    try:
        stored = os.getxattr(like, _ACL)
    except OSError:  # it has none, or the file system has no lists
        with contextlib.suppress(OSError):
            os.removexattr(file, _ACL)  # from the folder
        return True
    try:
        os.setxattr(file, _ACL, stored)
    except OSError:
        return False
    return True


def put(beside: Path, target: str | os.PathLike[str], like: str | os.PathLike[str] | None = None) -> None:
    """Move a complete file to its path.

    It keeps the access rights of the file that it replaces. A file with data of another one, such as its index, gets
    the rights of that (`like`).
    """
    if like is not None:
        protect(beside, like, 0o666)
    elif Path(target).is_file():
        protect(beside, target)
    beside.replace(target)


def forget(path: str | os.PathLike[str]) -> None:
    """Remove the index and the checksums of the file that was replaced at a local path."""
    for name in {os.fspath(path), os.path.realpath(path)}:
        for suffix in (INDEX, CHECKSUMS):
            with contextlib.suppress(OSError):  # readers notice that they do not belong to the new file
                Path(f"{name}{suffix}").unlink(missing_ok=True)


@contextlib.contextmanager
def placed(path: str | os.PathLike[str], like: str | os.PathLike[str] | None = None) -> Generator[Path]:
    """Yield a file beside a path, with its suffix. At the end of the block it is moved to the path, as by `put`.

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
    beside = target
    try:
        if not special:
            beside = made_beside(target, mode=None if like is None else 0o600, suffix=target.suffix)
        yield beside
        if not special:
            put(beside, target, like)
            forget(target)
    except OSError as error:
        if type(error) is not OSError or error.errno is None:  # errors of a subclass have clear messages
            raise
        raise StorageError(f"cannot write {path}: {os.strerror(error.errno)}") from error
    finally:
        if beside is not target:
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
