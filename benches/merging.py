"""Merging files: `sapwood merge` against ROOT's hadd, in one run.

There are four workloads:

- `small`: many small files with a tree;
- `large`: files of some 100 MB with a tree;
- `histograms`: files of 2,000 histograms;
- `recompress`: files of some 100 MB that both compress again with Zstandard at level 5 (`hadd -f505` and `sapwood merge
  --compression zstd:5` with one thread, and with two).

The inputs are links to a few distinct files. In the other workloads hadd keeps the compression of its first input
(`-ff`), so both copy baskets as they are stored. For comparison, `cat` copies the same inputs into one file (`copy`)
and flushes it to the disk (`flushed copy`): this is the time of reading and writing alone. The output of hadd is
flushed, too (`flushed hadd`), because that of sapwood always is.

Before the times, both merge a few inputs, and the values of the two outputs are compared; ROOT must read all entries of
both without a message, and the same number of bytes. After the times, the entries of the full outputs are compared.
Rounds take turns. Every merge is a process of its own, timed from its start to its end, after one round that warms up
the page cache.

    benches/merging.py PEERS --root PYTHON-WITH-ROOT [--rounds N] [--quick] [--keep]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import host

HERE = Path(__file__).resolve().parent
FILES = {"small": 1000, "large": 40, "histograms": 200, "recompress": 6}
QUICK = {"small": 300, "large": 10, "histograms": 50, "recompress": 2}
COMPARED = {"small": 3, "large": 3, "histograms": 3, "recompress": 1}
"""Inputs that are merged to compare values."""
TARGETS = {"small": 2.0, "large": 1.5, "histograms": 3.0, "recompress": 1.0}
TWO_THREADS = 1.8
"""How many times as fast two threads must compress as one."""
TREE = "esdTree"
HISTOGRAMS, DISTINCT = 2000, 8
MEMORY = 512_000_000

READ = """
import sys, ROOT
for path in sys.argv[2:]:
    file = ROOT.TFile(path)
    tree = file.Get(sys.argv[1])
    print(tree.GetEntries(), sum(tree.GetEntry(entry) for entry in range(tree.GetEntries())))
"""
ADDED = """
import sys, ROOT
a, b = (ROOT.TFile(path) for path in sys.argv[2:])
for key in a.GetListOfKeys():
    x, y = key.ReadObj(), b.Get(key.GetName())
    assert x.GetEntries() == y.GetEntries() and x.GetMean() == y.GetMean(), key.GetName()
    assert all(x.GetBinContent(i) == y.GetBinContent(i) for i in range(x.GetNcells())), key.GetName()
"""


def histograms(folder: Path) -> list[Path]:
    """Write files of histograms."""
    import hist
    import numpy as np

    import sapwood

    rng = np.random.default_rng(3)
    paths = [folder / f"histograms{place}.root" for place in range(DISTINCT)]
    for path in paths:
        with sapwood.recreate(path, compression=sapwood.ZLIB(1), commit_every=None) as file:
            for number in range(HISTOGRAMS):
                one = hist.Hist.new.Reg(100, -4, 4).Double()
                one.fill(rng.normal(size=50))
                file[f"h{number}"] = one
    return paths


def links(folder: Path, sources: list[Path], number: int) -> list[Path]:
    """Return `number` links to a few files."""
    folder.mkdir()
    paths = [folder / f"{place:04d}.root" for place in range(number)]
    for place, path in enumerate(paths):
        path.symlink_to(sources[place % len(sources)].resolve())
    return paths


WATCH = """
import json, resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = {"wall": time.perf_counter() - begin, "cpu": used.ru_utime + used.ru_stime}
print(json.dumps({"code": code, **seconds, "memory": used.ru_maxrss * 1024}))
"""
"""Runs a command from a small process: Linux counts the memory of the parent for a process that it starts."""


def run(command: list[str], output: Path, threads: int | None = None) -> dict[str, float]:
    """Merge in a process of its own; return its seconds, those of the processor, and its peak memory in bytes."""
    output.unlink(missing_ok=True)
    environment = {**os.environ, **({} if threads is None else {"SAPWOOD_NUM_THREADS": str(threads)})}
    done = subprocess.run(
        [sys.executable, "-S", "-c", WATCH, *command], capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode or (found := json.loads(done.stdout)).pop("code"):
        raise SystemExit(f"{' '.join(command[:6])} ... failed: {done.stderr}")
    return found


def same(root: Path, name: str, ours: Path, theirs: Path) -> None:
    """Compare the outputs of both, and have ROOT read them."""
    from sapwood.tools.difference import differences

    script = ADDED if name == "histograms" else READ
    command = [str(root), "-W", "ignore", "-c", script, TREE, str(ours), str(theirs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or done.stderr or len(set(lines)) > 1:
        raise SystemExit(f"{name}: ROOT does not read the same: {done.stdout}{done.stderr}")
    if name != "histograms":
        found = next(differences(f"{ours}:{TREE}", f"{theirs}:{TREE}"), None)
        if found is not None:
            raise SystemExit(f"{name}: the outputs differ: {found.text()}")


def main() -> None:
    """Compare, measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", type=Path, help="the folder with the reference files")
    parser.add_argument("--root", type=Path, required=True, help="an interpreter that has ROOT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="fewer files")
    parser.add_argument("--only", nargs="*", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--keep", action="store_true", help="write a result into benches/results")
    given = parser.parse_args()
    # Compiling the modules in every process would be a large part of the measured time.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    import sapwood

    hadd = next((given.root.parent.parent / "lib").glob("python3*/site-packages/ROOT/bin/hadd"))
    record: dict[str, Any] = {"host": host.host(), "software": host.software(), "rounds": given.rounds, "results": []}
    record["quick"] = given.quick
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = given.peers / "data"
        for label in given.only:
            number = (QUICK if given.quick else FILES)[label]
            sources = {
                "small": lambda: sorted((data / "esd-small").glob("*.root")),
                "large": lambda: [data / "esd-zlib.root"],
                "histograms": lambda: histograms(folder),
                "recompress": lambda: [data / "esd-zlib.root"],
            }[label]()
            paths = links(folder / label, sources, number)
            ours = [sys.executable, "-m", "sapwood", "merge", "--no-progress"]
            again = label == "recompress"
            outputs = {who: folder / f"{who}.root" for who in ("sapwood", "hadd")}
            commands = {
                "sapwood": [*ours, *(["--compression", "zstd:5"] if again else []), str(outputs["sapwood"])],
                "hadd": [str(hadd), "-v", "0", "-f505" if again else "-ff", str(outputs["hadd"])],
            }
            threads: dict[str, int] = {}
            copies: dict[str, Path] = {}
            if again:
                threads = {"sapwood": 1, "two threads": 2}
                copies = {"two threads": folder / "two.root"}
                commands["two threads"] = [*commands["sapwood"][:-1], str(copies["two threads"])]
            elif label != "histograms":
                place = folder / "copy.root"
                merging = " ".join([*commands["hadd"][:-1], str(place), '"$@"'])
                scripts = {
                    "copy": f'cat "$@" > {place}',
                    "flushed copy": f'cat "$@" > {place} && sync {place}',
                    "flushed hadd": f"{merging} && sync {place}",
                }
                copies = dict.fromkeys(scripts, place)
                commands |= {who: ["sh", "-c", script, "sh"] for who, script in scripts.items()}
            for who, place in outputs.items():
                run([*commands[who], *map(str, paths[: COMPARED[label]])], place, threads.get(who))
            same(given.root, label, outputs["sapwood"], outputs["hadd"])
            runs: dict[str, list[dict[str, float]]] = {who: [] for who in commands}
            for turn in range(given.rounds + 1):
                for who in sorted(commands, reverse=bool(turn % 2)):
                    place = copies.get(who) or outputs[who]
                    taken = run([*commands[who], *map(str, paths)], place, threads.get(who))
                    if who in copies:
                        place.unlink()
                    if turn:
                        runs[who].append(taken)
            if label != "histograms":
                entries = set()
                for path in outputs.values():
                    with sapwood.open(path) as file:
                        entries.add(file[TREE].num_entries)
                if len(entries) > 1:
                    raise SystemExit(f"{label}: the outputs have {entries} entries")
            size = sum(path.stat().st_size for path in paths)
            sizes = {who: path.stat().st_size for who, path in outputs.items()}
            for path in outputs.values():
                path.unlink()
            middle = {who: statistics.median(one["wall"] for one in many) for who, many in runs.items()}
            peak = {who: max(one["memory"] for one in many) for who, many in runs.items()}
            gain = middle["sapwood"] / middle.get("two threads", middle["sapwood"])
            entry = {"label": label, "files": number, "bytes": size, "sizes": sizes, "target": TARGETS[label]}
            entry |= {"two_threads": TWO_THREADS} if again else {}
            record["results"].append({**entry, "memory": MEMORY, "runs": runs})
            print(
                f"{label:10} {number} files, {size / 1e6:.0f} MB: sapwood {middle['sapwood']:.2f} s, "
                f"{peak['sapwood'] / 1e6:.0f} MB; hadd {middle['hadd']:.2f} s, {peak['hadd'] / 1e6:.0f} MB; "
                f"hadd / sapwood {middle['hadd'] / middle['sapwood']:.2f} (at least {TARGETS[label]:g})"
                + "".join(f"; {who} {middle[who]:.2f} s" for who in copies)
                + (f", one / two {gain:.2f} (at least {TWO_THREADS})" if again else ""),
                flush=True,
            )
    if given.keep:
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
        out = HERE / "results" / f"merging-{now}-{record['software']['commit'][:8]}.json"
        out.write_text(json.dumps(record, indent=1) + "\n")
        print(f"result: {out}; benches/report.py makes the page of it")


if __name__ == "__main__":
    main()
