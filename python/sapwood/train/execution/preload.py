"""What Dask loads first in the scheduler and the nannies of a cluster that was started here."""

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
"""Milliseconds between looks for the client."""
_CLOSES = 10.0
"""Seconds that closing can take."""


def script() -> str:
    """Return the text of what Dask loads: it names the process that starts the others, which may be gone by then."""
    return f"import sapwood.train.execution.preload as preload; dask_setup = preload.setup_for({os.getpid()})"


def setup_for(client: int) -> Callable[[Foreign], None]:
    """Return what Dask calls."""
    return partial(_setup, client)


def _setup(client: int, server: Foreign) -> None:
    """Let a process end when the one that started it is gone, and leave Ctrl-C to that.

    A terminal sends Ctrl-C to all processes of a group: the cluster would end before the client has what is done.
    """
    with suppress(AttributeError, OSError):
        os.setpgid(0, 0)
    if type(server).__name__ == "Scheduler":
        # Its messages go into a pipe that nobody reads once it has started, and when that is full it would stand still.
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - nothing but a descriptor is wanted
            os.dup2(nowhere.fileno(), 2)

    def look() -> None:
        if os.getppid() != client:
            callback.stop()
            server.loop.add_callback(server.close)
            # Closing can wait forever for a worker that was lost at the same moment.
            server.loop.call_later(_CLOSES, partial(os._exit, 1))

    callback = import_module("tornado.ioloop").PeriodicCallback(look, _LOOKS)
    callback.start()
