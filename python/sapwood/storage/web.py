"""Web servers that `fsspec` talks to, with aiohttp: they pass on no secrets, and their answers have bounds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

_LARGEST_PAGE = 64 << 20
"""Maximum number of bytes in the page that lists a folder."""
_FOR_ALL = frozenset(
    ["accept", "accept-encoding", "content-length", "content-type", "if-match", "if-none-match", "if-range", "range",
     "user-agent"]
)  # fmt: skip
"""Headers that hold no secret, by their names in lower case."""


def web_options(url: str, options: Mapping[str, Any], *, lists: bool = False) -> dict[str, Any]:
    """Return the options for the file system of a URL of a web server; those for others are left as they are.

    Headers of the user go to the server in the URL, but not to others to which it redirects. With `lists`, each answer
    has 64 MiB at most.
    """
    if not url.lower().startswith(("http://", "https://")):
        return dict(options)
    try:
        tracing, bounded = _of_aiohttp()
    except ImportError:  # fsspec says what is missing
        return dict(options)
    own: Mapping[str, Any] = options.get("client_kwargs") or {}
    added: dict[str, Any] = {"trace_configs": [*(own.get("trace_configs") or []), tracing]}
    if lists:
        added["response_class"] = bounded
    return {**options, "client_kwargs": {**own, **added}}


@cache
def _of_aiohttp() -> tuple[Any, Any]:
    """Return the object that follows the requests of a session, and a class for answers of limited size.

    `fsspec` keeps one file system for equal options, so that both have to be the same each time.
    """
    import aiohttp

    # aiohttp sends the headers that are left with the next request.
    async def drop_headers(_session: object, _context: object, request: aiohttp.TraceRequestRedirectParams) -> None:
        target = request.response.headers.get("Location") or request.response.headers.get("URI")
        if target and request.url.join(type(request.url)(target)).origin() != request.url.origin():
            for name in [name for name in request.headers if name.lower() not in _FOR_ALL]:
                request.headers.popall(name, None)

    class Bounded(aiohttp.ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                body = bytearray()
                async for piece in self.content.iter_any():
                    body += piece
                    if len(body) > _LARGEST_PAGE:
                        self.close()
                        raise OSError(f"the page that lists the folder has more than {_LARGEST_PAGE} bytes")
                self._body = bytes(body)
            return self._body

    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(drop_headers)
    return tracing, Bounded
