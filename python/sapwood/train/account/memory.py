"""Memory of this process: current and peak resident bytes (0 if the system does not report them), and kept memory."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

_STATM, _STATUS, _CLEAR = Path("/proc/self/statm"), Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> int:
    """Return the resident memory."""
    with suppress(OSError, ValueError, IndexError):
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def peak() -> int:
    """Return the peak resident memory of the process."""
    if _STATUS.exists():
        # On Linux, `getrusage` includes the peak of the process that started this one.
        return max(_before_reset, _high_water())
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


_before_reset = 0
"""The peak before the last reset of the system's high-water mark."""


def _high_water() -> int:
    with suppress(OSError):
        found = re.search(r"VmHWM:\s*(\d+) kB", _STATUS.read_text(encoding="ascii"))
        if found:
            return int(found[1]) * 1024
    return 0


_KEPT = 64 << 20
_keeps = False
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _LARGEST_MMAP = -1, -3, 32 << 20  # of glibc's malloc.h


def keep_freed() -> None:
    """Let the C library keep up to 64 MB of freed memory per thread (glibc), instead of about 100 kB.

    Every step needs the same memory again. Fresh pages from the system took as long as a light task computes,
    and threads wait for each other while they get them. The native core keeps the buffers of decoded steps: see
    `sapwood._native.HeldBuffers`.
    """
    global _keeps  # noqa: PLW0603  (one state for the process)
    with suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP)
        _keeps = True


def give_back() -> None:
    """Return freed memory to the system: kept buffers of columns, and memory kept by the C library (glibc)."""
    from sapwood import _native

    _native.set_kept_memory(_native.set_kept_memory(0))
    with suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.malloc_trim(0)
        if _keeps:
            # glibc trims the end of this thread's heap only when a large block is freed.
            library.malloc.restype, library.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            library.mallopt(_TRIM_THRESHOLD, 0)
            library.free(library.malloc(1 << 17))
            library.mallopt(_TRIM_THRESHOLD, _KEPT)


def fits(more: int, budget: int) -> bool:
    """Return whether this many more bytes are within a budget; if not, give freed memory back and check again."""
    if resident() + more <= budget:
        return True
    give_back()
    return resident() + more <= budget


class HighWater:
    """The peak resident memory since `reset`, if the system can reset its high-water mark (Linux)."""

    def __init__(self) -> None:
        self._start = 0

    def reset(self) -> bool:
        """Begin to measure; return whether the system supports it."""
        global _before_reset  # noqa: PLW0603  (the system has one such mark per process)
        self._start = resident()
        _before_reset = max(_before_reset, _high_water())
        try:
            _CLEAR.write_text("5", encoding="ascii")
        except OSError:
            return False
        return True

    def growth(self) -> int:
        """Return the largest growth of resident memory since `reset`."""
        return max(0, _high_water() - self._start)
