"""Checks of every request, and headers of every answer."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response

from sapwood.tools.serving.views import error_page

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_COOKIE = "sapwood_token"
_LONGEST = 8192
"""Maximum bytes of a URL."""
_LARGEST = 32768
"""Maximum bytes of all headers."""
_RANGES = 256
"""Maximum ranges per request; jsroot asks for up to 200."""
_RANGE = re.compile(r"bytes=[ \t]*(?:\d{1,18}-\d{0,18}|-\d{1,18})(?:[ \t]*,[ \t]*(?:\d{1,18}-\d{0,18}|-\d{1,18}))*")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
POLICY = (
    "default-src 'none'; script-src 'self'{more}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY.format(more=""),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "private, no-cache",
}


class Guard:
    """Refuse requests that no browser of the user would send, before any page is made.

    Parameters
    ----------
    app
        Application that answers the accepted requests.
    hosts
        Names of this server, as the header ``Host`` may give them.
    token
        Token that a request must have; None if everyone on this machine may read.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str], token: str | None) -> None:
        self._app = app
        self._hosts = frozenset(host.lower() for host in hosts)
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._refusal(scope)
        await (self._app if answer is None else answer)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a refused request, or None for an accepted one."""
        headers = Headers(scope=scope)
        if scope["method"] not in ("GET", "HEAD"):
            return _refused(405, "This server only answers GET and HEAD.", {"allow": "GET, HEAD"})
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return _refused(413, "A request has no body here.")
        if len(scope["raw_path"] or b"") + len(scope["query_string"]) > _LONGEST:
            return _refused(414, "The URL is too long.")
        if sum(len(name) + len(value) for name, value in headers.raw) > _LARGEST:
            return _refused(431, "The headers are too large.")
        if not self._knows(headers.getlist("host")):
            return _refused(421, "The header Host does not name this server.")
        if headers.get("sec-fetch-site", "none") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return _refused(403, "Other sites cannot use what is served here.")
        ranges = headers.getlist("range")
        if len(ranges) > 1 or any(not _RANGE.fullmatch(text) for text in ranges):
            return _refused(400, "The header Range is not a list of ranges of bytes.")
        if ranges and ranges[0].count(",") >= _RANGES:
            return _refused(416, f"A request may have at most {_RANGES} ranges.")
        return self._without_token(scope, headers)

    def _knows(self, hosts: list[str]) -> bool:
        if len(hosts) != 1:
            return False
        match = re.fullmatch(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", hosts[0].lower())
        return match is not None and match[1] in self._hosts

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a request without the token.

        A token in the URL moves to a cookie, so that it does not stay in the browser's history.
        """
        if self._token is None:
            return None
        try:
            query = parse_qsl(scope["query_string"].decode("ascii"), keep_blank_values=True)
        except ValueError:
            return _refused(400, "The URL is not ASCII.")
        given = [value for name, value in query if name == "token"]
        if given:
            if len(given) > 1 or not self._is_token(given[0]):
                return _refused(401, "The token is wrong.")
            rest = urlencode([(name, value) for name, value in query if name != "token"])
            path = "/" + scope["raw_path"].decode("latin-1").lstrip("/")
            answer = RedirectResponse(path + ("?" if rest else "") + rest, 303)
            answer.set_cookie(_COOKIE, self._token, httponly=True, samesite="lax")
            return answer
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._is_token(bearer):
            return None
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(_COOKIE)
        except CookieError:
            cookie = None
        if cookie is not None and self._is_token(cookie.value):
            return None
        return _refused(401, "Open the URL that `sapwood serve` printed: it contains the token.")

    def _is_token(self, word: str) -> bool:
        return self._token is not None and secrets.compare_digest(word.encode(), self._token.encode())


def _refused(status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    return Response(error_page(status, text), status, headers, "text/html")
