"""Reading over a network with latency: sapwood, ROOT and uproot, over root:// and http://.

A proxy of our own stands between, which hands on each piece half the latency later, in both directions, and counts
requests and bytes; so all rivals are counted alike. It does not slow connecting down, nor does it limit bandwidth. Each
reading is a process of its own; its time is from opening the file to having all values, imports left out. First it is
seen to that what comes over the network equals what is in the file.

    benches/remote.py FILE TREE [--latency 0 10 50 140] [--root PYTHON] [--rounds 3] [-o RESULT.json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "python")]

PIECE = 1 << 20


class Proxy:
    """Stands between client and server; `requests` counts what asks for bytes, `taken` the bytes that came."""

    def __init__(self, port: int, latency: float) -> None:
        self.to, self.latency = port, latency
        self.requests = self.taken = self.connections = 0
        started = threading.Event()
        self.thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self.thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        async def main() -> None:
            server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=PIECE)
            self.port = server.sockets[0].getsockname()[1]
            self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
            started.set()
            await self.stop.wait()
            server.close()

        asyncio.run(main())

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.CancelledError):
            there, back = await asyncio.open_connection("127.0.0.1", self.to, limit=PIECE)
            await asyncio.gather(self._hand_on(reader, back, True), self._hand_on(there, writer, False))

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asks: bool) -> None:
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        count = self._counter()

        async def send() -> None:
            while True:
                due, piece = await queue.get()
                await asyncio.sleep(max(0.0, due - self.loop.time()))
                if not piece:
                    break
                writer.write(piece)
                await writer.drain()

        async def receive() -> None:
            with contextlib.suppress(OSError):
                while piece := await reader.read(PIECE):
                    queue.put_nowait((self.loop.time() + self.latency / 2, piece))
                    if asks:
                        count(piece)
                    else:
                        self.taken += len(piece)
            queue.put_nowait((self.loop.time() + self.latency / 2, b""))

        try:
            await asyncio.gather(send(), receive())
        finally:
            writer.close()

    def _counter(self) -> Any:
        """Count reads (kXR_read, kXR_readv, kXR_pgread) of XRootD, or requests of HTTP, in what a client sends."""
        buffer = bytearray()
        http: bool | None = None

        def count(piece: bytes) -> None:
            nonlocal http
            buffer.extend(piece)
            if http is None:
                http = not buffer.startswith(b"\0\0\0\0")
                if not http:
                    del buffer[:20]
            if http:
                self.requests += buffer.count(b"\r\n\r\n")
                del buffer[: max(0, len(buffer) - 3)]
                return
            while len(buffer) >= 24:
                length = 24 + int.from_bytes(buffer[20:24], "big")
                if len(buffer) < length:
                    break
                self.requests += int.from_bytes(buffer[2:4], "big") in {3013, 3025, 3030}
                del buffer[:length]

        return count

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.stop.set)
        self.thread.join()


# Each gets the URL, the tree's name and the branches (or none for all), and prints seconds, processor time and entries.
TIMED = """
import json, os, sys, time
url, tree, branches = sys.argv[1], sys.argv[2], sys.argv[3].split(",") if sys.argv[3] else None
{imports}
begin, used = time.perf_counter(), time.process_time()
{work}
print(json.dumps(dict(wall=time.perf_counter() - begin, cpu=time.process_time() - used, entries=entries)))
sys.stdout.flush()
os._exit(0)  # clients of XRootD may hang when they end
"""
ROOT = """
file = ROOT.TFile.Open(url)
t = file.Get(tree)
names = branches or [b.GetName() for b in t.GetListOfBranches()]
if branches:
    t.SetBranchStatus("*", False)
    for name in branches:
        t.SetBranchStatus(name, True)
{cache}
entries = t.GetEntries()
for entry in range(entries):
    t.GetEntry(entry)
"""
TUNED = """
t.SetCacheSize(128 << 20)
for name in names:
    t.AddBranchToCache(name, True)
t.StopCacheLearningPhase()
"""
ARRAYS = "array = {package}.open(url)[tree].arrays(branches)\nentries = len(array)"


def programs() -> dict[str, str]:
    """Give what each rival runs."""
    root = "import ROOT"
    return {
        "sapwood": TIMED.format(imports="import awkward, sapwood", work=ARRAYS.format(package="sapwood")),
        "uproot": TIMED.format(imports="import awkward, uproot", work=ARRAYS.format(package="uproot")),
        "root": TIMED.format(imports=root, work=ROOT.format(cache="")),
        "root-tuned": TIMED.format(imports=root, work=ROOT.format(cache=TUNED)),
    }


def measure(rival: str, python: str, url: str, tree: str, branches: list[str], limit: float) -> dict[str, Any]:
    """Run one rival in a process of its own."""
    # ROOT takes a file on this host for a local one, unless it is told.
    address = url + "?remote=1" if rival.startswith("root") else url
    command = [python, "-W", "ignore", "-c", programs()[rival], address, tree, ",".join(branches)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {limit:g} s"}
    if done.returncode != 0 or not done.stdout.strip():
        return {"error": (done.stderr.strip().splitlines() or ["nothing"])[-1][-200:]}
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def servers(file: Path, schemes: list[str]) -> Iterator[dict[str, int]]:
    """Start a server for each scheme; gives their ports."""
    import tempfile

    from servers import nginx
    from xrootd_servers import single

    with contextlib.ExitStack() as stack:
        ports = {}
        if "root" in schemes:
            ports["root"] = stack.enter_context(single({file.name: file})).port
        if "http" in schemes:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ngx", dir="/tmp")))
            (home / "data").mkdir()
            (home / "data" / file.name).write_bytes(file.read_bytes())
            start = stack.enter_context(nginx(home / "data", home))
            ports["http"] = int(start.rsplit(":", 1)[1].strip("/"))
        yield ports


def agree(file: Path, tree: str, url: str) -> None:
    """See to it that the network changes nothing."""
    import awkward as ak

    import sapwood

    with sapwood.open(file) as near, sapwood.open(url) as far:
        if not ak.array_equal(near[tree].arrays(), far[tree].arrays(), equal_nan=True):
            raise SystemExit("what came over the network is not what is in the file")


def line(place: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    """Sum up the runs of a rival in a line of the table."""
    walls = [run["wall"] for run in runs if "wall" in run]
    wall = f"{statistics.median(walls):8.2f} s" if walls else f"  {runs[0]['error']}"
    words = f"{place['scheme']:5} {place['latency_ms']:4g} ms  {place['branches']:5} {place['rival']:11}"
    return f"{words} {wall} {runs[0]['requests']:6} requests {runs[0]['bytes'] / 1e6:8.1f} MB"


def main() -> None:
    """Measure everything that was asked for."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("tree")
    arguments.add_argument("--latency", type=float, nargs="*", default=[0, 10, 50, 140], help="in milliseconds")
    arguments.add_argument("--schemes", nargs="*", default=["root", "http"])
    arguments.add_argument("--root", default=sys.executable, help="a Python that has ROOT")
    arguments.add_argument("--rivals", nargs="*", default=["sapwood", "uproot", "root", "root-tuned"])
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--limit", type=float, default=300, help="seconds for a reading")
    arguments.add_argument("-o", "--output", type=Path)
    given = arguments.parse_args()

    import host

    import sapwood

    with sapwood.open(given.file) as opened:
        tree = opened[given.tree]
        names = tree.keys()
        shape = {"branches": len(names), "entries": tree.num_entries, "clusters": tree.explain().clusters}
    choices = {"all": [], "five": names[:: len(names) // 5][:5], "one": [names[len(names) // 2]]}
    results: list[dict[str, Any]] = []
    with servers(given.file, given.schemes) as ports:
        for scheme, port in ports.items():
            slash = "//" if scheme == "root" else "/"
            agree(given.file, given.tree, f"{scheme}://127.0.0.1:{port}{slash}{given.file.name}")
            for latency in given.latency:
                for choice, branches in choices.items():
                    runs: dict[str, list[dict[str, Any]]] = {rival: [] for rival in given.rivals}
                    for _ in range(given.rounds):
                        for rival, found in runs.items():
                            # The wheels of ROOT have no client for HTTP.
                            if (scheme == "http" and rival.startswith("root")) or (found and "error" in found[-1]):
                                continue
                            proxy = Proxy(port, latency / 1000)
                            url = f"{scheme}://127.0.0.1:{proxy.port}{slash}{given.file.name}"
                            python = given.root if rival.startswith("root") else sys.executable
                            run = measure(rival, python, url, given.tree, branches, given.limit)
                            run |= {"requests": proxy.requests, "bytes": proxy.taken, "connections": proxy.connections}
                            found.append(run)
                            proxy.close()
                    for rival, found in runs.items():
                        if found:
                            place = {"scheme": scheme, "latency_ms": latency, "branches": choice, "rival": rival}
                            results.append({**place, "runs": found})
                            print(line(place, found), flush=True)
    if given.output is not None:
        record = {
            "file": given.file.name, "size": given.file.stat().st_size, "tree": given.tree, **shape, "choices": choices,
            "rounds": given.rounds, "time": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
            "host": host.host(), "software": host.software(), "results": results,
        }  # fmt: skip
        given.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
