"""A program that imports the modules of workers once, and forks each worker process from itself.

Importing takes most of the time of a worker's start, and the memory of the imported modules is shared. The client's own
process is never forked: other threads of it may hold locks, or use libraries that do not survive a fork.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import warnings
from importlib import import_module
from typing import NoReturn

_REQUEST, _ANSWER = struct.Struct("<cq"), struct.Struct("<q")
_IMPORT, _START, _END, _KILL = b"i", b"s", b"e", b"k"
_FAILED, _UNKNOWN = -(1 << 32), -(1 << 33)
"""Answers: the process could not be forked (the `errno` is added to this); there is no such process."""
_DYING = 0.05
"""Seconds for which a process that is about to end is left to do so, so that it has its own exit code."""
_STOPPED = 60.0
"""Seconds after which a program that does not answer is killed, such as one that was stopped by a signal."""
_CALM = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""Setting for OpenBLAS: its threads wait without a processor. By default they spin, for 0.1 s at NumPy's import."""
_ALSO = ("cloudpickle", "boost_histogram", "hist", "vector")
"""Modules that start no threads, and that tasks often use: imported once if the client has imported them."""


class Origin:
    """The program that forks workers. It is started with the first one, and again if it is lost. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._closing = False

    def prepare(self) -> None:
        """Start the program, and wait until it has imported the modules. If this fails, `start` tries it again."""
        with self._lock:
            try:
                self._ask(_IMPORT, 0)
            except OSError:
                self._drop()

    def start(self, descriptor: int) -> int:
        """Fork a worker that answers calls on a socket, and return its process id; wait for the imports if necessary.

        Raises
        ------
        OSError
            The worker could not be started.
        """
        with self._lock:
            try:
                pid = self._ask(_START, 0, descriptor)
            except ConnectionError:
                self._drop()
                pid = self._ask(_START, 0, descriptor)  # of a new program
        if pid < 0:
            raise OSError(pid - _FAILED, os.strerror(pid - _FAILED))
        return pid

    def end(self, pid: int, *, dying: bool) -> int | None:
        """End a worker, after a moment if it is `dying`; return its exit code (see `subprocess`; None: not known)."""
        with self._lock:
            if self._control is not None:
                try:
                    code = self._ask(_END if dying else _KILL, pid)
                except ConnectionError:
                    self._drop()
                else:
                    if code != _UNKNOWN:
                        return code
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # the program that forked it is gone
        return None

    def close(self) -> None:
        """End the program, even while it imports modules. Workers must be ended before."""
        self._closing = True
        if (process := self._process) is not None:
            process.kill()
        with self._lock:
            self._drop()

    def _ask(self, what: bytes, pid: int, *descriptors: int) -> int:
        """Send a request and return the answer; raise `ConnectionError` if the program is gone."""
        if self._closing:
            raise ConnectionAbortedError("no more workers are started")
        control = self._control = self._control or self._launch()
        socket.send_fds(control, [_REQUEST.pack(what, pid)], descriptors)
        control.settimeout(None if what == _START else _STOPPED)  # before the first start it imports modules
        try:
            answer = control.recv(_ANSWER.size, socket.MSG_WAITALL)
        except TimeoutError:
            raise ConnectionResetError("the program that forks workers does not answer") from None
        if len(answer) < _ANSWER.size:
            raise ConnectionResetError("the program that forks workers has ended")
        (found,) = _ANSWER.unpack(answer)
        return found

    def _launch(self) -> socket.socket:
        also = [name for name in _ALSO if name in sys.modules]
        start = "import gc; gc.disable(); from sapwood.train.execution.forking import serve; serve({}, {})"
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", start.format(theirs.fileno(), also)],
                    pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                    env=_CALM | os.environ | {"PYTHONPATH": _importable()},
                    start_new_session=True,  # Ctrl-C in a terminal is for the client
                )  # fmt: skip
        except OSError:
            ours.close()
            raise
        return ours

    def _drop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _importable() -> str:
    """Return a PYTHONPATH with which another process on this machine can import the same modules."""
    return os.pathsep.join(filter(None, sys.path))


def serve(descriptor: int, also: list[str]) -> NoReturn:
    """Fork and end workers on requests from a socket, until the client ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the client handles Ctrl-C
    import_module("sapwood.train.execution.worker")
    for name in also:
        with contextlib.suppress(Exception):
            import_module(name)
    gc.freeze()  # a collection in a worker would copy the memory that it shares with the others
    warnings.simplefilter("ignore", DeprecationWarning)  # of threads that a library has started and ends before a fork
    control = socket.socket(fileno=descriptor)
    codes: dict[int, int | None] = {}  # of the workers: None as long as they run
    while True:
        try:
            message, given, _, _ = socket.recv_fds(control, _REQUEST.size, 1)
            if len(message) < _REQUEST.size:
                break
            what, pid = _REQUEST.unpack(message)
            if what == _IMPORT:
                answer = 0
            elif what == _START:
                answer = _fork(control, given[0])
                if answer > 0:
                    codes[answer] = None
            elif codes.get(pid, 0) is None:
                answer = codes[pid] = _end(pid, _DYING if what == _END else 0)
            else:
                answer = codes.get(pid) or (0 if pid in codes else _UNKNOWN)
            control.sendall(_ANSWER.pack(answer))
        except OSError:
            break
    os._exit(0)


def _fork(control: socket.socket, descriptor: int) -> int:
    """Fork a worker that answers calls on a socket; return its process id."""
    try:
        pid = os.fork()
    except OSError as error:
        os.close(descriptor)
        return _FAILED + (error.errno or 0)
    if pid:
        os.close(descriptor)
        return pid
    try:
        control.close()
        os.setsid()
        gc.enable()
        if (random := sys.modules.get("numpy.random")) is not None:
            random.seed()  # otherwise all workers would have the same numbers
        import_module("sapwood.train.execution.worker").serve(descriptor)
    except BaseException:  # noqa: BLE001 - this must not return to the loop of the program
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(0)


def _end(pid: int, patience: float) -> int:
    """End a worker, if it does not end by itself within some seconds; return its exit code."""
    until = time.monotonic() + patience
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= until:
            break
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
