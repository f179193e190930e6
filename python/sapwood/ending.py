"""Ending in order when a batch system or a person ends the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def until_told() -> Generator[None]:
    """Turn SIGTERM, which batch systems send to end a job, into an exception.

    Commands then remove their temporary files. A monitor writes its records, and a study can resume later.
    """

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():  # no handler can be set on other threads
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
