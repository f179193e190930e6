"""`root://` through the XRootD project's own client, for logins that sapwood does not have itself: X.509, Kerberos.

The client runs in a process of its own (`client_child`), because two copies of its libraries cannot share a process,
and ROOT has one. The requests for ranges of bytes are those that sapwood plans for every other storage.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any, NamedTuple

from sapwood.errors import LimitError
from sapwood.threads import start_thread

_VARIABLES = ("X509_", "KRB5", "XRD", "XrdSec", "BEARER_TOKEN", "XDG_RUNTIME_DIR", "HOME")
"""Prefixes of environment variables that determine the identity or the behaviour of the client."""
_GRACE = 5.0
"""Seconds that a reply may take beyond the time limit that the client was given."""


def is_installed() -> bool:
    """Return whether the XRootD project's package for Python is installed."""
    return importlib.util.find_spec("XRootD") is not None


def may_admit(url: str, refused: OSError) -> bool:
    """Return whether a server that refused sapwood may accept the client.

    A refused login or a demand for signed requests is a reason to try. After a login with the user's name alone, a
    proxy or a ticket is one too, unless the URL names another user.
    """
    said = str(refused)
    if "login refused" in said or "SigVerErr" in said:
        return True
    number = os.geteuid()
    proxy = os.environ.get("X509_USER_PROXY", f"/tmp/x509up_u{number}")
    ticket = os.environ.get("KRB5CCNAME", f"FILE:/tmp/krb5cc_{number}").removeprefix("FILE:")
    return "@" not in url.partition("://")[2].partition("/")[0] and (Path(proxy).exists() or Path(ticket).exists())


class _Reply(NamedTuple):
    result: dict[str, Any]
    data: list[bytes]


class _Child:
    """A process with the client. Requests of several threads can be in flight at the same time."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
        # In a separate session, Ctrl-C does not reach the process, and its prompts do not reach the terminal.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sapwood.storage.client_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self._waiting: dict[int, Future[_Reply]] = {}
        self._numbers = itertools.count()
        # The garbage collector may close a file in a thread that sends another request.
        self._lock = threading.RLock()
        self.ended = False
        try:
            start_thread(threading.Thread(target=self._listen, daemon=True, name="sapwood-xrootd-client"))
        except LimitError:
            self._process.kill()
            raise

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def _listen(self) -> None:
        output = self._process.stdout
        assert output is not None
        with contextlib.suppress(OSError, ValueError):
            for line in output:
                told = json.loads(line)
                lengths = told.get("lengths", [])
                data = [output.read(length) for length in lengths]
                if [len(one) for one in data] != lengths:
                    break
                with self._lock:
                    future = self._waiting.pop(told["number"], None)
                if future is None:  # its caller has given up
                    continue
                if "error" in told:
                    kind = {"missing": FileNotFoundError, "expired": TimeoutError}.get(told["kind"], OSError)
                    future.set_exception(kind(told["error"]))
                else:
                    future.set_result(_Reply(told["result"], data))
        with self._lock:
            self.ended = True
            left, self._waiting = list(self._waiting.values()), {}
        output.close()
        for future in left:
            future.set_exception(ConnectionError("the process with the client of XRootD has ended"))

    def ask(self, verb: str, limit: float | None, **about: object) -> _Reply:
        """Send a request, and wait for the reply.

        Raises
        ------
        OSError
            The client reports an error, or the time is over (TimeoutError).
        """
        future: Future[_Reply] = Future()
        number = self.tell(verb, limit, future, **about)
        try:
            return future.result(None if limit is None else limit + _GRACE)
        except FutureTimeoutError:
            with self._lock:
                self._waiting.pop(number, None)
            raise TimeoutError(f"timeout: no data arrived in {limit:.3g} s") from None

    def tell(self, verb: str, limit: float | None, future: Future[_Reply] | None = None, **about: object) -> int:
        """Send a request, whose reply a future gets; return its number.

        Raises
        ------
        OSError
            The process has ended.
        """
        number = next(self._numbers)
        message = json.dumps({"number": number, "verb": verb, "limit": limit, **about}).encode() + b"\n"
        pipe = self._process.stdin
        assert pipe is not None
        with self._lock:
            if self.ended:
                raise ConnectionError("the process with the client of XRootD has ended")
            if future is not None:
                self._waiting[number] = future
            pipe.write(message)
            pipe.flush()
        return number

    def end(self) -> None:
        """End the process, which does so when its input ends."""
        pipe = self._process.stdin
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_children: dict[tuple[object, ...], _Child] = {}
_starting = threading.Lock()


def _child() -> _Child:
    """Return the process for the present environment; start it if there is none, or another process started it."""
    identity = sorted((name, value) for name, value in os.environ.items() if name.startswith(_VARIABLES))
    key = (os.getpid(), *identity)
    with _starting:
        child = _children.get(key)
        if child is not None and child.ended:
            child.end()
            child = None
        if child is None:
            child = _children[key] = _Child()
        return child


def _forget_after_fork() -> None:
    global _starting  # noqa: PLW0603  another thread may have held it
    _starting = threading.Lock()
    # Their pipes belong to the parent; without a reference to the process there is nothing to wait for.
    for child in _children.values():
        child._process.returncode = 0  # pyright: ignore[reportPrivateUsage]
    _children.clear()


def _end_all() -> None:
    for (process, *_), child in list(_children.items()):
        if process == os.getpid():
            child.end()


os.register_at_fork(after_in_child=_forget_after_fork)
atexit.register(_end_all)


class ClientFile:
    """Lets the native core read a file through the client: many ranges at once."""

    def __init__(self, url: str, limit: float) -> None:
        """Open the file.

        Raises
        ------
        OSError
            The client cannot open it.
        """
        self._url = url
        self._limit = limit
        self._lock = threading.Lock()
        self._opened: tuple[_Child, int] | None = None
        self._open(_child())

    def _open(self, child: _Child) -> tuple[_Child, int]:
        about = child.ask("open", self._limit, url=self._url).result
        found = about["size"], about["date"]
        if self._opened is None:
            self.size: int = about["size"]
            self._date: int = about["date"]
        elif found != (self.size, self._date):
            raise OSError(f"the file has changed: it had {self.size} bytes, and has {about['size']} now")
        self._opened = child, about["file"]
        weakref.finalize(self, _close, child, about["file"]).atexit = False
        return self._opened

    def read_ranges(self, ranges: Sequence[tuple[int, int]], limit: float | None = None) -> list[bytes]:
        """Read (offset, length) ranges, in this many seconds; fewer bytes only at the end of the file."""
        within = [(start, max(0, min(length, self.size - start))) for start, length in ranges]
        with self._lock:
            assert self._opened is not None
            child, number = self._opened
            present = _child()
            # It has ended, or this is a forked process.
            if child.ended or child is not present:
                child, number = self._open(present)
        return child.ask("read", limit, file=number, ranges=within).data


def _close(child: _Child, number: int) -> None:
    # A `RuntimeError`: the garbage collector has interrupted the writing of another request.
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        if not child.ended and child in _children.values():
            child.tell("close", 1.0, file=number)


def list_folder(server: str, folder: str, limit: float) -> list[tuple[str, bool]]:
    """List the names in a folder of a server (``root://host:port``), and whether each is a folder.

    Raises
    ------
    OSError
        It cannot be listed.
    """
    found = _child().ask("list", limit, server=server, folder=folder).result
    return [(name, is_folder) for name, is_folder in found["names"]]
