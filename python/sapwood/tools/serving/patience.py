"""Connections that end if their clients are slow: otherwise a few hundred of them would keep all others out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

PATIENCE = 30.0
"""Seconds for which a client may neither complete a request nor take a part of the answer."""
_LOOKS = 10
"""Number of times that a connection is checked in this time."""


class Connection(H11Protocol):
    """A connection that is aborted after `PATIENCE`. The time in which a page is made does not count."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Begin to look at the connection from time to time."""
        super().connection_made(transport)
        self._seen: object = None
        self._idle = 0
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop checking the connection."""
        self._timer.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        waits = self.transport.get_write_buffer_size()
        answers = self.cycle is not None and not self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]
        seen = self.cycle, answers, waits
        self._idle = 0 if seen != self._seen or (answers and not waits) else self._idle + 1
        self._seen = seen
        if self._idle >= _LOOKS:
            self.transport.abort()
        self._timer = self.loop.call_later(PATIENCE / _LOOKS, self._look)
