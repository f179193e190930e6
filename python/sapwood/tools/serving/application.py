"""The web application: its routes, and the server around it."""

from __future__ import annotations

import base64
import hashlib
import http
import ipaddress
import re
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import (
    ArgumentError,
    MissingFileError,
    MissingPackageError,
    NotFoundError,
    SapwoodError,
    StorageError,
)
from sapwood.tools.serving.folder import ROOT_FILES, TABLE_FILES, TYPES, Folder, url_of

try:
    import anyio
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingPackageError(f"serving needs Starlette and uvicorn (pip install 'sapwood[serve]'): {error}") from None

from sapwood.lab.studies.page import SORT
from sapwood.tools.serving import plots, views
from sapwood.tools.serving.guard import LOOPBACK, POLICY, Guard
from sapwood.tools.serving.patience import Connection

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

_STATIC = Path(__file__).resolve().parent / "static"
_ASSETS = {
    "jsroot.min.js": "text/javascript",
    "draw.js": "text/javascript",
    "serve.css": "text/css",
    "base/zstd.mjs": "text/javascript",
    "base/lzma.mjs": "text/javascript",
    "LICENSE.txt": "text/plain",
}
_DRAWING_POLICY = POLICY.format(more=" 'wasm-unsafe-eval'")
_AT_ONCE, _WAITING = 2, 200
"""Maximum number of pages made concurrently, and of requests that wait for one."""
_CONNECTIONS = 512


def _hash_of(script: str) -> str:
    inside = re.sub(r"</?script>", "", script)
    return f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"


_REPORT_POLICY = (
    f"default-src 'none'; script-src {_hash_of(SORT)}; style-src 'unsafe-inline'; img-src 'self' data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""The policy for pages stored in the folder: only the script of the laboratory's tables may run."""


class _File(FileResponse):
    """A file, or ranges of it, sent in pieces."""

    max_ranges = 256


class _Pages:
    """The request handlers of the application."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def _made(self, make: Callable[[], Response | str]) -> Response:
        """Return a page made on a thread; the number of concurrent pages is limited."""
        if self._limiter.statistics().tasks_waiting >= _WAITING:
            raise HTTPException(503, "Too many pages are being made. Try again in a moment.", {"Retry-After": "5"})
        made = await anyio.to_thread.run_sync(make, limiter=self._limiter)
        return made if isinstance(made, Response) else HTMLResponse(made)

    def _file(self, request: Request) -> tuple[Path, str]:
        name: str = request.path_params["path"]
        path = self._folder.find(name)
        if name.endswith("/") or path.is_dir() or path.suffix.lower() not in TABLE_FILES:
            raise NotFoundError(f"no file {name!r} with keys here")
        return path, name

    async def files(self, request: Request) -> Response:
        """Answer with a folder's listing, or with a file."""
        name: str = request.path_params["path"]
        path = self._folder.find(name)
        if path.is_dir():
            if name and not name.endswith("/"):
                return RedirectResponse(url_of("files", f"{name}/"))
            return await self._made(partial(views.folder_page, self._folder, name, path, _first(request)))
        if name.endswith("/"):
            raise NotFoundError(f"{name!r} does not exist in this folder")
        kind = TYPES[path.suffix.lower()]
        headers = {} if kind == "application/octet-stream" else {"content-security-policy": _REPORT_POLICY}
        return _File(path, headers=headers, media_type=kind, stat_result=path.stat())

    async def keys(self, request: Request) -> Response:
        """Answer with the keys of a file."""
        path, name = self._file(request)
        at = request.query_params.get("at", "").strip("/")
        return await self._made(partial(views.keys_page, path, name, at, _first(request)))

    async def draw(self, request: Request) -> Response:
        """Answer with the page on which jsroot draws. It reads only ROOT files; sapwood draws others."""
        path, name = self._file(request)
        key = _key(request)
        if path.suffix.lower() not in ROOT_FILES:
            return await self._made(lambda: views.figure_page(name, key, plots.stored(path, key)))
        answer = HTMLResponse(views.draw_page(name, key, request.query_params.get("of", "")))
        answer.headers["content-security-policy"] = _DRAWING_POLICY
        return answer

    async def table(self, request: Request) -> Response:
        """Answer with the fields of a table."""
        path, name = self._file(request)
        key, first = _key(request), _first(request)
        return await self._made(lambda: views.table_page(path, name, key, first, plots.layout(path, key)))

    async def plot(self, request: Request) -> Response:
        """Answer with a histogram."""
        path, name = self._file(request)
        key, given = _key(request), dict(request.query_params)

        def make() -> Response:
            plots.check(path, key)
            try:
                figure, status = plots.plot(path, key, given), 200
            except SapwoodError as error:  # the form stays so that the user can correct the expression
                text = views.error_text(self._folder.without_place(str(error)))
                figure, status = f'<div class="notice">{text}</div>', 422
            return HTMLResponse(views.plot_page(name, key, given, figure), status)

        return await self._made(make)

    async def failed(self, _: Request, error: Exception) -> Response:
        """Answer with the page of an error."""
        headers = None
        if isinstance(error, HTTPException):
            status, text, headers = error.status_code, error.detail, error.headers
        elif isinstance(error, (MissingFileError, NotFoundError)):
            status, text = 404, str(error)
        elif isinstance(error, ArgumentError):
            status, text = 400, str(error)
        elif isinstance(error, (StorageError, OSError)):
            status, text = 404, "This file cannot be read."
        elif isinstance(error, SapwoodError):
            status, text = 422, str(error)
        else:
            status, text = 500, "This page cannot be made."
        if text == http.HTTPStatus(status).phrase:
            text = {404: "There is no such page."}.get(status, text)
        return HTMLResponse(views.error_page(status, self._folder.without_place(text)), status, headers)


def _key(request: Request) -> str:
    key = request.query_params.get("key", "").strip("/")
    if not key:
        raise ArgumentError("the URL names no key")
    return key


def _first(request: Request) -> int:
    text = request.query_params.get("first", "0")
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ArgumentError("the first line of a listing is a whole number")
    return int(text)


async def _start(_: Request) -> Response:
    return RedirectResponse("/files/")


async def _asset(request: Request) -> Response:
    name = request.path_params["path"]
    if name not in _ASSETS:
        raise HTTPException(404)
    path = _STATIC / name
    return _File(path, media_type=_ASSETS[name], stat_result=path.stat())


def application(folder: str | Path, *, hosts: tuple[str, ...] = (), token: str | None = None) -> ASGIApp:
    """Return the application (ASGI) that serves a folder, to run in another server.

    Parameters
    ----------
    folder
        The folder.
    hosts
        Names of the server besides those of loopback, as the header ``Host`` gives them.
    token
        Token that every request must have. None disables the check, which is safe on loopback only.

    Raises
    ------
    ArgumentError
        The path is not a folder, or a package is missing.
    """
    pages = _Pages(Folder(folder))
    routes = [
        Route("/", _start),
        Route("/static/{path:path}", _asset),
        Route("/files/{path:path}", pages.files),
        *(Route(f"/{name}/{{path:path}}", getattr(pages, name)) for name in ("keys", "draw", "table", "plot")),
    ]
    handlers: dict[Any, Any] = dict.fromkeys((HTTPException, SapwoodError, OSError, Exception), pages.failed)
    return Guard(Starlette(routes=routes, exception_handlers=handlers), LOOPBACK | set(hosts), token)


def serve(
    folder: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    started: Callable[[str], object] = print,
) -> None:
    """Serve a folder until interrupted.

    Parameters
    ----------
    folder
        The folder.
    host, port
        Address to listen on; port 0 takes a free port.
    token
        Token that every request must have. Beyond loopback, one is generated if none is given.
    started
        Called with the URL to open.

    Raises
    ------
    ArgumentError
        The path is not a folder, the token is too short, or a package is missing.
    StorageError
        The address cannot be used.
    """
    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,128}", token):
        raise ArgumentError("a token must have 16 to 128 letters, digits, '-' and '_'")
    Folder(folder)  # an error in the path comes before one in the address
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family, backlog=256)  # pyright: ignore[reportArgumentType]
    except OSError as error:
        raise StorageError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from None
    with listening:
        bound, port = listening.getsockname()[:2]
        if token is None and not ipaddress.ip_address(bound).is_loopback:
            token = secrets.token_urlsafe(24)
        names = _names(host, bound)
        app = application(folder, hosts=names, token=token)
        shown = names[0] if names else host
        started(f"http://{shown}:{port}/" + (f"?token={token}" if token else ""))
        settings = uvicorn.Config(
            app, http=Connection, ws="none", lifespan="off", log_level="warning", access_log=False, proxy_headers=False,
            server_header=False, limit_concurrency=_CONNECTIONS, timeout_keep_alive=10, timeout_graceful_shutdown=2,
            h11_max_incomplete_event_size=32768,
        )  # fmt: skip
        with suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listening])


def _names(host: str, bound: str) -> tuple[str, ...]:
    """Return the names of this server in URLs; the first is the one to show."""
    found = [f"[{bound}]" if ":" in bound else bound, f"[{host}]" if ":" in host else host]
    if ipaddress.ip_address(bound).is_unspecified:
        found = [socket.gethostname(), socket.getfqdn()]
        with suppress(OSError):
            found += [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return tuple(dict.fromkeys(found))
