"""Preload script for the scheduler and the nannies of a Dask cluster that sapwood starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_LOOKS = 1000.0
"""Milliseconds between checks for the client."""
_CLOSES = 10.0
"""Maximum seconds for closing."""


def script() -> str:
    """Return the preload script for Dask. It names the client's process, which may have ended when the script runs."""
    return f"import sapwood.train.execution.preload as preload; dask_setup = preload.setup_for({os.getpid()})"


def setup_for(client: int) -> Callable[[Foreign], None]:
    """Return the `dask_setup` function that Dask calls."""
    return partial(_setup, client)


def _setup(client: int, server: Foreign) -> None:
    """End a process when the client that started it is gone, and let only the client handle Ctrl-C.

    A terminal sends Ctrl-C to all processes of a group: the cluster would end before the client has the results so far.
    """
    with suppress(AttributeError, OSError):
        os.setpgid(0, 0)
    if type(server).__name__ == "Scheduler":
        # The pipe of its messages is not read after the start; the scheduler would hang when the pipe is full.
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - only a descriptor is needed
            os.dup2(nowhere.fileno(), 2)

    def look() -> None:
        if os.getppid() != client:
            callback.stop()
            server.loop.add_callback(server.close)
            # Closing could wait forever for a worker that was lost at the same time.
            server.loop.call_later(_CLOSES, partial(os._exit, 1))

    callback = import_module("tornado.ioloop").PeriodicCallback(look, _LOOKS)
    callback.start()
