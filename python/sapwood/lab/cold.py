"""Cold files: drop files from the page cache, and warn where the system or a server may still keep them in memory."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
from collections.abc import Sequence
from pathlib import Path


def forget(paths: Sequence[Path]) -> list[str]:
    """Ask the system to drop files from the page cache; return warning codes for files that may still be in memory."""
    forgotten = [drop(path) for path in paths]
    remote = any(served(path) for path in {path.parent for path in paths})
    return ["page-cache-not-dropped"] * (not all(forgotten)) + ["server-cache"] * remote


_SERVED = re.compile(
    r"nfs\d?|cifs|smb\d?|smbfs|lustre|ceph|beegfs|gpfs|afs|9p|virtiofs|panfs|pvfs2|orangefs|glusterfs|fuse(\..*)?"
)
"""Types of file systems on servers, which may keep files in their own memory."""


def served(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str | None:
    """Return the type of a folder's file system if it is on a server, such as ``lustre``; None otherwise."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    real, best, kind = folder.resolve(), -1, ""
    for line in lines:
        about, _, of_type = line.partition(" - ")
        place = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), about.split()[4])  # spaces are \040
        if real.is_relative_to(place) and len(place) >= best:  # later mounts hide earlier ones
            best, kind = len(place), of_type.split()[0]
    return kind if _SERVED.fullmatch(kind) is not None else None


def drop(path: Path) -> bool:
    """Ask the system to drop the pages of a file; return whether it did."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with path.open("rb") as file, contextlib.suppress(OSError):  # some file systems refuse this
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        pages = _pages(file.fileno())
        if pages and all(pages):  # the answer for users without write access, whatever is true
            return _waits(file.fileno())
        return pages is not None and not any(pages)
    return False


def _pages(file: int) -> bytes | None:
    """Return for each page of a file whether it is in memory (1), as far as the system reports it. Read no page."""
    size = os.fstat(file).st_size
    if not size:
        return b""
    with mmap.mmap(file, size, access=mmap.ACCESS_COPY) as mapped:
        start = ctypes.c_char.from_buffer(mapped)
        pages = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        failed = ctypes.CDLL(None).mincore(ctypes.byref(start), ctypes.c_size_t(size), pages)
        del start  # otherwise the mapping stays
    return None if failed else bytes(page & 1 for page in pages)


def _waits(file: int) -> bool:
    """Return whether most of a file has to be read from storage, by reads that may not wait.

    These reads start to fetch the pages, and fast storage answers at once. Therefore a few successful reads prove
    nothing.
    """
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # otherwise each read would make the system read ahead
    size, waited = os.fstat(file).st_size, 0
    for place in range(16):
        try:
            os.preadv(file, [bytearray(1)], size * place // 16, os.RWF_NOWAIT)
        except BlockingIOError:  # not in memory, as expected
            waited += 1
        except OSError:  # this file system cannot report it
            return False
    return waited > 8
