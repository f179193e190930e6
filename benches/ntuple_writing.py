"""Writing RNTuples from memory: sapwood against ROOT's parallel writer, in one run.

The data are those of writing.py: `flat`, 50 columns of floats, and `esd`, 30 columns of `std::vector<float>`.
Both write them with the same codec and level and the defaults of pages and clusters, with one thread and with two. ROOT
has a fill context for each thread; its time is that from the creation of the writer to its end, minus the time of the
same loop without Fill. The two outputs are read back and compared: the values of each column, sorted, because the
clusters of ROOT are in the order in which its threads finish. Rounds take turns. The fastest counts; the result has
all.

A run of everything is kept in results/, and as docs/performance/ntuple-writing.md.

Usage: ntuple_writing.py --root PYTHON-WITH-ROOT [--out RESULT.json] [--rounds N] [--quick] [--only LABEL...]
"""

from __future__ import annotations

import argparse
import datetime
import io
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import awkward as ak
import host
import numpy as np
import report
import writing

HERE = Path(__file__).resolve().parent
CODECS = {"none": 0, "zlib": 101, "lz4": 404, "zstd": 505}
LIBRARIES = ("-lCore", "-lRIO", "-lROOTNTuple", "-pthread")


def table(kind: str, path: Path) -> dict[str, Any]:
    """Read the raw columns, each as a field of its own."""
    found = writing.table(kind, path)
    if kind == "flat":
        return found
    return {name: found["j"][name] for name in found["j"].fields}


def child(kind: str, data: str, out: str, setting: str, threads: str) -> None:
    """Write with sapwood; report the time and the additional memory."""
    import psutil

    import sapwood
    from sapwood.compression import Compression

    sapwood.set_num_threads(int(threads))
    given = table(kind, Path(data))
    # Imports are not counted for any rival.
    with sapwood.recreate(io.BytesIO()) as file:
        file.mkrntuple("t", {name: one[:2] for name, one in given.items()})
    before = psutil.Process().memory_info().rss
    start = time.perf_counter()
    with sapwood.recreate(out, compression=Compression.from_code(int(setting))) as file:
        file.mkrntuple("t", given)
    seconds = time.perf_counter() - start
    peak = max(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(json.dumps({"seconds": seconds, "memory": peak * 1024 - before}))


def same(ours: Path, theirs: Path) -> bool:
    """Compare the values of two files, column by column."""
    import sapwood

    def values(path: Path, name: str) -> Any:
        return np.sort(np.asarray(ak.flatten(sapwood.open(path)["t"][name].array(), axis=None)))

    names = sapwood.open(ours)["t"].keys()
    return all(np.array_equal(values(ours, name), values(theirs, name)) for name in names)


def compiled(python: Path, folder: Path) -> Path:
    """Compile the program with ROOT."""
    find = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('ROOT').origin).parent)"
    root = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    program = folder / "root_ntuple_write"
    flags = [
        f"-I{root}/include",
        f"-L{root}/lib",
        f"-Wl,-rpath,{root}/lib",
        "-Wl,--unresolved-symbols=ignore-in-shared-libs",
    ]
    command = ["g++", "-O2", "-std=c++20", "-w", *flags, "-o", program, HERE / "root_ntuple_write.cpp", *LIBRARIES]
    subprocess.run(command, check=True)
    return program


def main() -> None:
    """Measure, compare, print, save."""
    if len(sys.argv) > 1 and sys.argv[1] == "child":
        child(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    at_first = host.host()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = compiled(options.root, folder)
        for kind in ("flat", "esd"):
            data = folder / f"{kind}.raw"
            writing.save(data, kind, options.quick)
            for codec, setting in CODECS.items():
                label = f"{kind}-{codec}"
                if options.only and not any(one in label for one in options.only):
                    continue
                files = {f"{rival}-{n}": folder / f"{rival}-{n}.root" for rival in ("sapwood", "root") for n in (1, 2)}
                commands: dict[str, list[Any]] = {}
                for rival, out in files.items():
                    start = [sys.executable, __file__, "child"] if rival.startswith("sapwood") else [program]
                    commands[rival] = [*start, kind, data, out, setting, rival[-1]]
                raw: dict[str, list[dict[str, Any]]] = {rival: [] for rival in commands}
                for _ in range(options.rounds):
                    for rival, command in commands.items():
                        files[rival].unlink(missing_ok=True)
                        raw[rival].append(writing.output(command, cwd=folder))
                for rival, file in files.items():
                    if not same(files["sapwood-1"], file):
                        raise SystemExit(f"{label}: sapwood-1 and {rival} wrote different values")
                best = {rival: min(one["seconds"] for one in many) for rival, many in raw.items()}
                sizes = {rival: file.stat().st_size for rival, file in files.items()}
                results.append({"label": label, "best": best, "raw": raw, "sizes": sizes})
                print(
                    f"{label:10} sapwood {best['sapwood-1']:.3f} s, two threads {best['sapwood-2']:.3f} s  "
                    f"ROOT / sapwood {best['root-1'] / best['sapwood-1']:.2f}, "
                    f"two threads {best['root-2'] / best['sapwood-2']:.2f}  "
                    f"size / ROOT {sizes['sapwood-2'] / sizes['root-2']:.3f}",
                    flush=True,
                )
    record = {"host": at_first, "software": host.software(), "rounds": options.rounds, "results": results}
    out = options.out
    if out is None and not (options.quick or options.only):
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
        out = HERE / "results" / f"ntuple-writing-{now}-{record['software']['commit'][:8]}.json"
        page = HERE.parent / "docs" / "performance" / "ntuple-writing.md"
        page.write_text(report.ntuple_writing_page(record, out.name))
    if out is not None:
        out.write_text(json.dumps(record, indent=1) + "\n")
        print(f"result: {out}")


if __name__ == "__main__":
    main()
