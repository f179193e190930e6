"""How far reading over a network and work overlap: steps of a file on a slow line, with a task as long as the reading.

A server in this program delays each answer and divides its bandwidth among all requests. In each round, the file is
read step by step: first without a task, then with a task whose processor time for each step equals the time of reading
a step. Each reading is a process of its own, timed from opening the file. The ratio is the total time divided by the
longer of the two. With few clusters, opening the file and reading the first cluster, during which no task runs, are a
larger part of the time.

    benches/overlap.py [--clusters 24 96] [--latency 50] [--bandwidth 20] [--megabytes 36] [--rounds 5] [-o RESULT.json]
        [--keep]

With ``--keep`` the result goes to ``benches/results``, and `benches/report.py` makes its page.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "support")]

# Takes the URL, the entries of a step and the seconds of processor time that each step's task takes.
READER = """
import sys, time
import awkward, sapwood
url, step_size, task = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
begin = time.perf_counter()
with sapwood.open(url) as file:
    for _ in file["t"].iterate(step_size=step_size):
        end = time.thread_time() + task
        while time.thread_time() < end:
            pass
print(time.perf_counter() - begin)
"""
COLUMNS = 40


def serve(path: Path, latency: float, bandwidth: float, ready: Connection) -> None:
    """Serve a file until the process is ended."""
    from servers import Server

    server = Server({path.name: path.read_bytes()})
    server.latency, server.bandwidth = latency, bandwidth
    ready.send(server.url(path.name))
    server.serve_forever()


def write(path: Path, clusters: int, entries: int) -> None:
    """Write a tree of real numbers that zlib compresses to a third."""
    import numpy as np

    import sapwood

    chance = np.random.default_rng(1)
    with sapwood.recreate(path, compression=sapwood.ZLIB(1)) as file:
        tree = file.mktree("t", {f"x{number}": "float64" for number in range(COLUMNS)}, auto_flush=entries)
        for _ in range(clusters):
            tree.extend({f"x{number}": chance.normal(size=entries).round(3) for number in range(COLUMNS)})


def read(url: str, entries: int, task: float) -> float:
    """Return the seconds of a reading with a task."""
    command = [sys.executable, "-c", READER, url, str(entries), str(task)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(clusters: int, given: argparse.Namespace) -> dict[str, Any]:
    """Measure with this many clusters; each is a step."""
    entries = int(given.megabytes * 1e6 / (2.8 * COLUMNS) / clusters)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.root"
        write(path, clusters, entries)
        size = path.stat().st_size
        ready, tell = multiprocessing.Pipe()
        server = multiprocessing.Process(
            target=serve, args=(path, given.latency / 1000, given.bandwidth * 1e6, tell), daemon=True
        )
        server.start()
        url = ready.recv()
        rounds: list[dict[str, float]] = []
        for _ in range(given.rounds):
            reading = read(url, entries, 0.0)
            rounds.append({"reading": reading, "both": read(url, entries, reading / clusters)})
        server.terminate()
        server.join()
    ratios = [one["both"] / one["reading"] for one in rounds]
    alone = statistics.median(one["reading"] for one in rounds)
    print(
        f"{clusters} clusters, {size / 1e6:.1f} MB: reading alone {alone:.2f} s, "
        f"with a task as long {statistics.median(ratios):.3f} times ({min(ratios):.3f} to {max(ratios):.3f})",
        flush=True,
    )
    return {"clusters": clusters, "size": size, "ratio": statistics.median(ratios), "rounds": rounds}


def main() -> None:
    """Measure everything that was requested."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--clusters", type=int, nargs="*", default=[24, 96])
    arguments.add_argument("--latency", type=float, default=50, help="in milliseconds")
    arguments.add_argument("--bandwidth", type=float, default=20, help="MB/s")
    arguments.add_argument("--megabytes", type=float, default=36, help="approximate size of the file in MB")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("-o", "--output", type=Path)
    arguments.add_argument("--keep", action="store_true", help="keep the result in benches/results")
    given = arguments.parse_args()

    import host

    results = [measure(clusters, given) for clusters in given.clusters]
    settings = {
        "latency_ms": given.latency,
        "bandwidth_mb_s": given.bandwidth,
        "time": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
    }
    record = {**settings, "host": host.host(), "software": host.software(), "results": results}
    if given.output is not None:
        given.output.write_text(json.dumps(record, indent=1) + "\n")
    if given.keep:
        print(f"kept as {host.keep('overlap', record)}")


if __name__ == "__main__":
    main()
