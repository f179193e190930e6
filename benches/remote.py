"""Reading over a network with latency: sapwood, ROOT and uproot, over root:// and http://.

A proxy in this program forwards each piece after half the latency, in both directions, and counts requests, bytes and
latencies, for all rivals in the same way. It delays no connection and does not limit the bandwidth. Each reading is a
process of its own. Its time is from opening the file to having all values, without the modules and libraries that it
loads at first use. First, the values read over the network are compared with those in the file, and the bytes of the
requested baskets are counted. All other received bytes are over-read: the file's own records, gaps between baskets,
unused bytes, and the words of the protocol.

With ``--cluster-size`` the tree is first rewritten with such clusters: the smaller the clusters, the more the latency
matters.

    benches/remote.py FILE TREE [--cluster-size "1 MB"] [--latency 0 10 50 140] [--rivals-python PYTHON] [--rounds 3]
        [-o RESULT.json] [--keep]

Below 50 ms there is one round less, and a reading that takes over 20 seconds is not repeated. With ``--keep`` the
result goes to ``benches/results``, and `benches/report.py` makes its page.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests" / "support")]

from proxy import Proxy  # noqa: E402 - from there
from report import remote_table  # noqa: E402 - from there

NEAR = 50
"""Latencies below this one, in milliseconds, are measured in one round less."""
LONG = 20
"""Readings of more seconds are not repeated."""

# Each gets a small file and the URL, the tree's name, the branches (or none for all) and the ranges of entries
# (likewise), and prints seconds, processor time and entries. Before the timing it reads the small file, which loads
# everything that is loaded at first use; the time of this is a figure of its own.
TIMED = """
import json, os, sys, time
small, url, tree, branches, ranges = *sys.argv[1:4], json.loads(sys.argv[4]), json.loads(sys.argv[5])
{imports}
begin = time.perf_counter()
{load}
loading = time.perf_counter() - begin
begin, used = time.perf_counter(), time.process_time()
{work}
wall, cpu = time.perf_counter() - begin, time.process_time() - used
print(json.dumps(dict(wall=wall, cpu=cpu, loading=loading, entries=entries)))
sys.stdout.flush()
os._exit(0)  # clients of XRootD may hang when they end
"""
ROOT_LOAD = """
ROOT.gSystem.Load("libNetxNG")
file = ROOT.TFile.Open(small)
file.Get("t").GetEntry(0)
file.Close()
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
entries = 0
for first, last in ranges or [(0, t.GetEntries())]:
    for entry in range(first, last):
        t.GetEntry(entry)
        entries += 1
"""
TUNED = """
t.SetCacheSize(128 << 20)
for name in names:
    t.AddBranchToCache(name, True)
t.StopCacheLearningPhase()
"""
ARRAYS = """
t = uproot.open(url)[tree]
entries = 0
for first, last in ranges or [(None, None)]:
    entries += len(t.arrays(branches or None, entry_start=first, entry_stop=last))
"""


RANGES = """
if ranges:
    entries = len(sapwood.concatenate({url: {"object_path": tree, "steps": ranges}}, branches or None))
else:
    entries = len(sapwood.open(url)[tree].arrays(branches or None))
"""


def programs() -> dict[str, str]:
    """Return the program of each rival."""
    load = 'sapwood.open(small)["t"].arrays()'
    root = {"imports": "import ROOT", "load": ROOT_LOAD}
    return {
        "sapwood": TIMED.format(imports="import awkward, sapwood", load=load, work=RANGES),
        "uproot": TIMED.format(imports="import awkward, uproot", load=load.replace("sapwood", "uproot"), work=ARRAYS),
        "root": TIMED.format(**root, work=ROOT.format(cache="")),
        "root-tuned": TIMED.format(**root, work=ROOT.format(cache=TUNED)),
    }


class Choice(NamedTuple):
    """A choice of data: branches (none for all), and ranges of entries (none for all)."""

    branches: list[str]
    ranges: list[tuple[int, int]]


def choices(names: list[str], entries: int) -> dict[str, Choice]:
    """Return the choices, one for each row of the table. Sparse: a thousandth of the entries at each of five places."""
    starts = range(entries // 10, entries, entries // 5)
    return {
        "all": Choice([], []),
        "five": Choice(names[:: len(names) // 5][:5], []),
        "one": Choice([names[len(names) // 2]], []),
        "sparse": Choice([], [(start, start + entries // 1000) for start in starts]),
    }


def measure(rival: str, python: str, small: Path, url: str, tree: str, choice: Choice, limit: float) -> dict[str, Any]:
    """Run one rival in a process of its own."""
    # ROOT treats a file on this host as a local one by default.
    address = url + "?remote=1" if rival.startswith("root") else url
    command = [python, "-W", "ignore", "-c", programs()[rival], str(small), address, tree, *map(json.dumps, choice)]
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
    """Check that the values over the network equal those of the file."""
    import awkward as ak

    import sapwood

    with sapwood.open(file) as near, sapwood.open(url) as far:
        if not ak.array_equal(near[tree].arrays(), far[tree].arrays(), equal_nan=True):
            raise SystemExit("what came over the network is not what is in the file")


def asked(file: Path, tree: str, choice: Choice) -> int:
    """Return the bytes of the baskets that a choice needs, as they are in the file."""
    import sapwood

    with sapwood.trace() as trace:
        if choice.ranges:
            sapwood.concatenate({file: {"object_path": tree, "steps": choice.ranges}}, choice.branches or None)
        else:
            sapwood.open(file)[tree].arrays(choice.branches or None)
    # Two ranges may need the same basket.
    rows = trace["cause"] == "decode"
    return sum(dict(zip(trace["offset"][rows].tolist(), trace["length"][rows].tolist(), strict=True)).values())


def median(runs: list[dict[str, Any]], what: str) -> float:
    """Return the median of a figure over the runs."""
    return statistics.median(run[what] for run in runs if what in run)


def line(place: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    """Summarize the runs of a rival in a line of the table."""
    done = [run for run in runs if "wall" in run]
    words = f"{place['scheme']:5} {place['latency_ms']:4g} ms  {place['branches']:6} {place['rival']:11}"
    if not done:
        return f"{words}   {runs[0]['error']}"
    requests, size, over, latencies = (median(done, what) for what in ("requests", "bytes", "over_read", "latencies"))
    sums = f"{requests:6g} requests {size / 1e6:8.1f} MB, over-read {over / 1e6:6.1f} MB {latencies:4g} latencies"
    return f"{words} {median(done, 'wall'):8.2f} s {sums}"


def main() -> None:
    """Measure everything that was requested."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("tree")
    arguments.add_argument("--latency", type=float, nargs="*", default=[0, 10, 50, 140], help="in milliseconds")
    arguments.add_argument("--schemes", nargs="*", default=["root", "http"])
    arguments.add_argument(
        "--rivals-python", default=sys.executable, help="a Python with ROOT, and uproot, fsspec-xrootd and aiohttp"
    )
    arguments.add_argument("--rivals", nargs="*", default=["sapwood", "uproot", "root", "root-tuned"])
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--limit", type=float, default=300, help="seconds for a reading")
    arguments.add_argument("--cluster-size", help="entries, or compressed bytes ('1 MB')")
    arguments.add_argument("-o", "--output", type=Path)
    arguments.add_argument("--keep", action="store_true", help="keep the result in benches/results")
    given = arguments.parse_args()
    from sapwood.lab.advice.rewriting import Layout, parse_cluster, rewrite

    with tempfile.TemporaryDirectory() as folder:
        file: Path = given.file
        if given.cluster_size is not None:
            file = Path(folder) / file.name
            rewrite(given.file, file, Layout(auto_flush=parse_cluster(given.cluster_size)), tree=given.tree)
        compare(given, file)


def compare(given: argparse.Namespace, file: Path) -> None:
    """Measure all rivals on a file."""
    import host

    import sapwood

    with sapwood.open(file) as opened:
        tree = opened[given.tree]
        names = tree.keys()
        shape = {"branches": len(names), "entries": tree.num_entries, "clusters": tree.explain().clusters}
    rows = choices(names, shape["entries"])
    needed = {row: asked(file, given.tree, choice) for row, choice in rows.items()}
    results: list[dict[str, Any]] = []
    with servers(file, given.schemes) as ports, tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.root"
        with sapwood.recreate(small) as out:
            out.mktree("t", {"x": "float32", "j": "var * float32"}).extend({"x": [1.0], "j": [[2.0]]})
        for scheme, port in ports.items():
            slash = "//" if scheme == "root" else "/"
            agree(file, given.tree, f"{scheme}://127.0.0.1:{port}{slash}{file.name}")
            for latency in given.latency:
                for row, choice in rows.items():
                    runs: dict[str, list[dict[str, Any]]] = {rival: [] for rival in given.rivals}
                    for _ in range(max(given.rounds - (latency < NEAR), 1)):
                        for rival, found in runs.items():
                            # The wheels of ROOT have no client for HTTP.
                            if scheme == "http" and rival.startswith("root"):
                                continue
                            if found and found[-1].get("wall", LONG) >= LONG:
                                continue
                            proxy = Proxy(port, latency / 1000)
                            url = f"{scheme}://127.0.0.1:{proxy.port}{slash}{file.name}"
                            python = sys.executable if rival == "sapwood" else given.rivals_python
                            run = measure(rival, python, small, url, given.tree, choice, given.limit)
                            run |= {"requests": proxy.requests, "bytes": proxy.taken}
                            run |= {"over_read": proxy.taken - needed[row]}
                            run |= {"connections": proxy.connections, "latencies": proxy.round_trips}
                            found.append(run)
                            proxy.close()
                    for rival, found in runs.items():
                        if found:
                            place = {"scheme": scheme, "latency_ms": latency, "branches": row, "rival": rival}
                            results.append({**place, "runs": found})
                            print(line(place, found), flush=True)
    print(remote_table(results))
    for rival in given.rivals:
        runs = [run for result in results if result["rival"] == rival for run in result["runs"] if "wall" in run]
        if runs:
            print(f"{rival}: {median(runs, 'loading'):.2f} s to load what it needs at first use, not in these times")
    if given.output is not None or given.keep:
        record = {
            "file": file.name, "size": file.stat().st_size, "tree": given.tree, **shape,
            "cluster_size": given.cluster_size,
            "choices": {row: {**choice._asdict(), "asked": needed[row]} for row, choice in rows.items()},
            "rounds": given.rounds, "time": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
            "host": host.host(), "software": host.software(), "results": results,
        }  # fmt: skip
        if given.output is not None:
            given.output.write_text(json.dumps(record, indent=1) + "\n")
        if given.keep:
            size = (given.cluster_size or "").replace(" ", "").lower()
            print(f"kept as {host.keep(f'remote-{size}' if size else 'remote', record)}")


if __name__ == "__main__":
    main()
