"""Python programs in processes of their own that do not import NumPy, Awkward, ROOT and other packages each time.

A server imports packages once. `Popen` is `subprocess.Popen`, except that the programs of Python are forks of that
server. They are children of this process, with their own arguments, environment, folder and streams, and they import
sapwood themselves. Tests of what is imported use `STARTS`.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import importlib.util
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PACKAGES = (
    "argparse", "asyncio", "concurrent.futures.process", "email.message", "http.client", "multiprocessing.context",
    "numpy", "numpy.ma", "awkward", "boost_histogram", "h5py", "hist", "pandas", "psutil", "pyarrow.parquet",
    "rich.progress", "uproot",
)  # fmt: skip
STARTS = subprocess.Popen
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl
_MOST = 1 << 20  # bytes of a request
_lock = threading.Lock()
_pythons = {sys.executable}
_PROGRAM = ("-m", "-c")
_QUIET = ["-W", "ignore"]


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process reads when it starts, and ROOT when it is imported."""
    return {
        name: text
        for name, text in environment.items()
        if name.startswith(("PYTHON", "LANG", "LC_", "LD_", "MALLOC", "ROOT"))
    }


_SETTINGS, _OWNER = _settings(os.environ), os.getpid()
_servers: dict[str, _Server] = {}


class Popen(subprocess.Popen[Any]):
    """`subprocess.Popen` that forks where it can."""

    def _execute_child(  # of the standard library, as in Python 3.10 to 3.14
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: bool, pass_fds: Any, cwd: Any, env: Any,
        startupinfo: Any, creationflags: Any, shell: bool, p2cread: int, p2cwrite: int, c2pread: int, c2pwrite: int,
        errread: int, errwrite: int, restore_signals: bool, gid: Any, gids: Any, uid: Any, umask: int,
        start_new_session: bool, *process_group: int,
    ) -> None:  # fmt: skip
        words = list(map(os.fsdecode, [args] if isinstance(args, (str, bytes, os.PathLike)) else args))
        special = executable or preexec_fn or shell or not close_fds or gid or gids or uid or umask != -1
        environment = {
            os.fsdecode(name): os.fsdecode(text) for name, text in (os.environ if env is None else env).items()
        }
        if special or process_group not in ((), (-1,)) or not _can_fork(words, environment):
            super()._execute_child(  # pyright: ignore[reportAttributeAccessIssue]
                args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell, p2cread,
                p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
                start_new_session, *process_group,
            )  # fmt: skip
            return
        ends = ((p2cread, p2cwrite), (c2pwrite, c2pread), (errwrite, errread))
        streams = {number: number if end == -1 else end for number, (end, _) in enumerate(ends)}
        request = {
            "words": words[1:],
            "environment": environment,
            "folder": str(Path(os.fsdecode(cwd or os.curdir)).absolute()),
            "session": start_new_session,
            "parent": os.getpid(),
        }
        self.pid = _server(words[0]).start(request, streams | {number: number for number in pass_fds})
        self._child_created = True
        null = getattr(self, "_devnull", None)
        for end in {theirs for theirs, ours in ends if ours != -1} | {null} - {None}:
            os.close(end)


@contextlib.contextmanager
def forking(*pythons: object) -> Iterator[None]:
    """Use `Popen` for all processes that this process starts: by this Python, and by others that are named."""
    _pythons.update(map(str, pythons))
    subprocess.Popen = Popen  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        subprocess.Popen = STARTS
        for python in list(_servers):
            _servers.pop(python).close()


def _can_fork(words: Sequence[str], environment: dict[str, str]) -> bool:
    """Return whether a command is a program of one of the Pythons, which start as the server did."""
    if sys.platform != "linux" or not words or words[0] not in _pythons:
        return False
    rest = words[3:] if words[1:3] == _QUIET else words[1:]
    if not rest or (rest[0] not in _PROGRAM and rest[0].startswith("-")) or (rest[0] in _PROGRAM and len(rest) < 2):
        return False
    return _settings(environment) == _SETTINGS and os.getpid() == _OWNER


class _Server:
    def __init__(self, python: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._socket, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
        command = [python, __file__, str(theirs.fileno())]
        environment = {name: text for name, text in os.environ.items() if name not in _settings(os.environ)} | _SETTINGS
        self._process = STARTS(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=environment)
        theirs.close()
        self._prctl = ctypes.CDLL(None, use_errno=True).prctl

    def start(self, request: dict[str, Any], streams: dict[int, int]) -> int:
        """Start a process with these file descriptors, by the number that they have there; return its id."""
        message = json.dumps({**request, "numbers": list(streams)}).encode()
        with _lock:
            # The process becomes a child of this one when the process between it and the server ends.
            self._prctl(_SUBREAPER, 1, 0, 0, 0)
            try:
                rights = array.array("i", streams.values())
                self._socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                answer = self._socket.recv(64)
            finally:
                self._prctl(_SUBREAPER, 0, 0, 0, 0)
        if not answer:
            raise ChildProcessError("the process that imports packages for tests has ended")
        return int(answer)

    def close(self) -> None:
        """End the server. The processes that it started go on."""
        self._socket.shutdown(socket.SHUT_RDWR)  # also the copies in processes that this one forked
        self._socket.close()
        self._process.wait(10)


def _server(python: str) -> _Server:
    """Return the server of a Python; start it, if this is the first request."""
    with _lock:
        if python not in _servers:
            _servers[python] = _Server(python)
        return _servers[python]


def _serve(requests: socket.socket) -> dict[str, Any]:
    """Fork for each request; return the request in each fork."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if importlib.util.find_spec("ROOT"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ROOT  # pyright: ignore[reportMissingImports]
        ROOT.gROOT.GetVersion(), ROOT.TFile, ROOT.TTree, ROOT.TH1D  # its interpreter starts
    else:
        for name in PACKAGES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        message, received, _, _ = socket.recv_fds(requests, _MOST, 64)
        if not message:
            os._exit(0)
        read, write = os.pipe()
        if (between := os.fork()) == 0:
            between = os.getpid()
            if started := os.fork():
                os.write(write, b"%d" % started)
                os._exit(0)
            request = json.loads(message)
            while os.getppid() == between:
                time.sleep(0.0005)
            if os.getppid() != request["parent"]:
                os._exit(1)  # who asked for it has ended
            # Where no number is in the way of another.
            above = max(128, *request["numbers"]) + 1
            high = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above) for number in received]
            os.closerange(3, above)
            for number, there in zip(request["numbers"], high, strict=True):
                os.dup2(there, number)
                os.close(there)
            requests.detach()
            return request
        os.waitpid(between, 0)
        requests.send(os.read(read, 64))
        for number in (*received, read, write):
            os.close(number)


def _run(request: dict[str, Any]) -> None:
    """Run the program of a request as Python does."""
    if request["session"]:
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    for name in os.environ.keys() - request["environment"].keys():
        del os.environ[name]
    os.environ.update(request["environment"])
    # The streams of the server know the kind of other files.
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old, mode = getattr(sys, name), "wb" if number else "rb"
        raw = io.FileIO(number, mode, closefd=False)
        buffer = raw if old.write_through and number else io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        lines = number == 2 or raw.isatty()
        stream = io.TextIOWrapper(
            buffer, old.encoding, old.errors, line_buffering=lines, write_through=old.write_through
        )
        stream.mode = mode[0]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    if "ROOT" in sys.modules:
        sys.modules["ROOT"].gSystem.ChangeDirectory(request["folder"])  # it remembers the folder
    words = request["words"]
    if words[:2] == _QUIET:
        warnings.simplefilter("ignore")
        words = words[2:]
    how, *rest = words
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    sys.argv = words if how not in _PROGRAM else [how, *rest[1:]]
    if how == "-m":
        sys.path[0] = request["folder"]
        runpy._run_module_as_main(rest[0])  # pyright: ignore[reportAttributeAccessIssue]
    elif how == "-c":
        sys.path[0] = ""
        exec(compile(rest[0], "<string>", "exec"), vars(main))
    else:
        sys.path[0] = str(Path(how).resolve().parent)
        main.__file__ = how
        exec(compile(Path(how).read_bytes(), how, "exec"), vars(main))


def _end(code: int) -> None:
    """End the process without taking the imported packages apart, which takes longer than the program."""
    threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    asked = _serve(socket.socket(fileno=int(sys.argv[1])))
    try:
        _run(asked)
    except SystemExit as ended:
        if asked["words"][0] != "-m" or not isinstance(ended.code, int | None):
            raise
        _end(ended.code or 0)
