"""What many processes, threads and signals do to readers and writers, as often as asked.

    concurrency.py [--count 1000] [--opens 10000] [NAME...]

- writer: a process reads a file while another one commits to it: each reading is one commit, whole, or ends with
  ChangedFileError;
- fork, forkserver, spawn: a tree that is open is read in a new process of that kind, and still by its parent;
- threads: threads read one open tree at the same time;
- signals: a signal handler raises KeyboardInterrupt at any moment of a reading: the reading ends with that or with all
  values, and the next one is right;
- exit: an interpreter ends while remote reads are on their way: it ends with code 0 in a minute;
- opens: files are opened, read and closed; open files and resident memory stay as they are.

Prints a line for each with the number of rounds and of faults; exits with 1 if there are faults.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import http.server
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import sapwood

ROWS = 2000


def _make(path: Path) -> None:
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"x": "int64", "y": "float64"}, auto_flush=100)
        tree.extend({"x": np.arange(ROWS), "y": np.arange(ROWS) * 0.5})


def _right(tree: Any) -> bool:
    found = tree.arrays(library="np")
    return np.array_equal(found["x"], np.arange(ROWS)) and np.array_equal(found["y"], np.arange(ROWS) * 0.5)


WRITER = """
import itertools, sys
import numpy as np
import sapwood

for number in itertools.count():
    with sapwood.recreate(f"{sys.argv[1]}/growing{number}.root") as file:
        tree = file.mktree("t", {"x": "int64"}, auto_flush=50)
        for start in range(0, 2000, 50):
            tree.extend({"x": np.arange(start, start + 50)})
            if start == 0:
                print(number, flush=True)
"""


def writer(folder: Path, count: int) -> int:
    """Read what another process is writing: the first rows of all, as many as a commit has."""
    faults, changed, lengths = 0, 0, set[int]()
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    current = [int(process.stdout.readline())]
    drain = threading.Thread(target=lambda out: current.extend(map(int, out)), args=(process.stdout,), daemon=True)
    drain.start()
    for _ in range(count):
        try:
            with sapwood.open({folder / f"growing{current[-1]}.root": "t"}) as tree:
                found = tree["x"].array(library="np")
            faults += not np.array_equal(found, np.arange(len(found))) or len(found) % 50 != 0
            lengths.add(len(found))
        except sapwood.ChangedFileError:
            changed += 1  # what was open is no longer there, and the reader is told
        except sapwood.SapwoodError as error:
            print(f"  {type(error).__name__}: {error}"[:300], file=sys.stderr)
            faults += 1
    faults += process.poll() is not None
    process.kill()
    process.wait()
    drain.join()
    process.stdout.close()
    print(f"  {len(lengths)} different numbers of rows were seen; {changed} readings ended with ChangedFileError")
    return faults


def _waited(*processes: int) -> float:
    """Return for how many seconds threads of these processes could run, but got no processor."""
    waited = 0
    for process in processes:
        for schedule in Path(f"/proc/{process}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):  # the thread has ended
                waited += int(schedule.read_text().split()[1])
    return waited / 1e9


def _ends(wait: Callable[[float], bool], process: int | None) -> bool:
    """Whether a process ends in a minute, not counting the time in which others have the processors.

    It may wait for this process, which serves its file, so that the same holds for this one.
    """
    begin = time.monotonic() - _waited(os.getpid())
    while not wait(5):
        if process is None or time.monotonic() - begin - _waited(process, os.getpid()) > 60:
            return False
    return True


def _has_ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def started(kind: str, folder: Path, count: int) -> int:
    """Read an open tree in new processes; with fork the tree is inherited, otherwise pickled."""
    path = folder / "read.root"
    _make(path)
    context, faults = multiprocessing.get_context(kind), 0
    with sapwood.open({path: "t"}) as tree:
        _right(tree)  # the threads of the pool are there
        for _ in range(count):
            process = context.Process(target=_exit_with, args=(tree,))
            process.start()
            faults += not _right(tree)  # while the other one reads
            _ends(lambda seconds, process=process: process.join(seconds) or process.exitcode is not None, process.pid)
            if process.exitcode != 0:
                faults += 1
                process.kill()
    return faults


def _exit_with(tree: Any) -> None:
    sys.exit(0 if _right(tree) else 3)


def threads(folder: Path, count: int) -> int:
    """Read one open tree on eight threads."""
    path = folder / "threads.root"
    _make(path)
    with sapwood.open({path: "t"}) as tree, ThreadPoolExecutor(8) as pool:
        return sum(not one for one in pool.map(lambda _: _right(tree), range(count)))


def signals(folder: Path, count: int) -> int:
    """Interrupt readings at all moments."""
    path, faults = folder / "signals.root", 0
    _make(path)
    chance = np.random.default_rng(1)
    armed = False

    def interrupt(*_: object) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    with sapwood.open({path: "t"}) as tree:
        begin = time.perf_counter()
        _right(tree)
        took = time.perf_counter() - begin
        for _ in range(count):
            try:
                armed = True
                signal.setitimer(signal.ITIMER_REAL, max(1e-5, chance.uniform(0, 1.2 * took)))
                faults += not _right(tree)
                armed = False
            except KeyboardInterrupt:
                interrupted += 1
            except sapwood.SapwoodError as error:
                print(f"  {type(error).__name__}: {error}"[:300], file=sys.stderr)
                faults += 1
            armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            faults += not _right(tree)
    signal.signal(signal.SIGALRM, before)
    print(f"  {interrupted} readings were interrupted")
    return faults


EXIT = """
import sys, threading, time
import sapwood

tree = sapwood.open({sys.argv[1]: "t"})
thread = threading.Thread(target=lambda: tree.arrays(library="np"), daemon=True)
thread.start()
time.sleep(float(sys.argv[2]))
"""


class _Slow(http.server.BaseHTTPRequestHandler):
    """Serves one file in ranges, each after 50 ms."""

    protocol_version = "HTTP/1.1"
    data = b""

    def do_HEAD(self) -> None:
        self._send(b"", 0, len(self.data), 200)

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        start, stop = (int(asked[1]), min(int(asked[2]) + 1, len(self.data))) if asked else (0, len(self.data))
        time.sleep(0.05)
        self._send(self.data[start:stop], start, stop, 206 if asked else 200)

    def _send(self, body: bytes, start: int, stop: int, status: int) -> None:
        with contextlib.suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(self.data)}")
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that have ended."""


def at_exit(folder: Path, count: int) -> int:
    """End interpreters while their threads wait for a server."""
    path, faults = folder / "remote.root", 0
    _make(path)
    _Slow.data = path.read_bytes()
    server = _Server(("127.0.0.1", 0), _Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/remote.root"
    for number in range(count):
        command = [sys.executable, "-c", EXIT, url, str(0.01 * (number % 10))]
        with (folder / "errors").open("w+") as errors, subprocess.Popen(command, stderr=errors) as process:
            if not _ends(functools.partial(_has_ended, process), process.pid):
                process.kill()
                print("  the interpreter did not end", file=sys.stderr)
            elif process.returncode:
                errors.seek(0)
                print(f"  exit code {process.returncode}: {errors.read()[-300:]}", file=sys.stderr)
            faults += process.wait() != 0
    server.shutdown()
    server.server_close()
    return faults


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def opens(folder: Path, count: int) -> int:
    """Open, read and close; the handles must be as many as before, and memory may grow by 4 MB."""
    path = folder / "opens.root"
    _make(path)

    def once() -> bool:
        with sapwood.open({path: "t"}) as tree:
            return _right(tree)

    faults = sum(not once() for _ in range(count // 5))  # caches are filled by then
    gc.collect()
    handles, memory = _handles(), _resident()
    faults += sum(not once() for _ in range(count - count // 5))
    gc.collect()
    more, grown = _handles() - handles, _resident() - memory
    print(f"  {more} more handles, {grown / 1e6:.1f} MB more resident memory than after the first fifth")
    return faults + (more > 0) + (grown > 4_000_000)


CHECKS: dict[str, Callable[[Path, int], int]] = {
    "writer": writer,
    **{kind: functools.partial(started, kind) for kind in ("fork", "forkserver", "spawn")},
    "threads": threads,
    "signals": signals,
    "exit": at_exit,
    "opens": opens,
}


def main() -> int:
    """Do the checks that were named, or all."""
    parser = argparse.ArgumentParser(description="Readers and writers beside processes, threads and signals.")
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(CHECKS)} (default: all)")
    parser.add_argument("--count", type=int, default=1000, help="rounds of each (default %(default)s)")
    parser.add_argument("--opens", type=int, default=10000, help="rounds of opens (default %(default)s)")
    chosen = parser.parse_args()
    total = 0
    for name in chosen.names or CHECKS:
        count, begin = chosen.opens if name == "opens" else chosen.count, time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            faults = CHECKS[name](Path(folder), count)
        total += faults
        print(f"{name}: {count} rounds, {faults} faults, {time.monotonic() - begin:.0f} s", flush=True)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
