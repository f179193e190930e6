"""Writing trees from memory: sapwood against ROOT, uproot and the compressor alone, in one run.

The data are made with a fixed seed: `flat` (50 columns of floats), `esd` (30 jagged columns with one counter), `event`
(600 objects of 14 members an entry, split and not), `wide` (2,000 columns, against uproot). Each rival writes the same
values with the same codec and level; the outputs are read back and compared before any time is printed. The time of
ROOT is that from its first Fill to Close, minus the time of the same loop without Fill. Then ROOT reads all entries of
both files with its tree cache; the time and the number of calls are measured. Every writing is a process of its own.
Rounds take turns. The fastest counts; the result has all.

Usage: writing.py --root PYTHON-WITH-ROOT [--out RESULT.json] [--rounds N] [--quick]
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

HERE = Path(__file__).resolve().parent
CODECS = {"none": 0, "zlib": 101, "lz4": 404, "zstd": 505, "lzma": 207}
MEMBERS = ("px", "py", "pz", "e", "x", "y", "z", "t", "chi2", "dedx", "charge", "id", "status", "hits")

LOADED = "import ROOT; ROOT.gSystem.Load('{}');"
"""Code that a Python with ROOT runs before it calls one of the functions of root_write.cpp."""


def columns(kind: str, quick: bool) -> tuple[np.ndarray[Any, Any] | None, list[np.ndarray[Any, Any]]]:
    """Return the counts of lists, if there are any, and the columns."""
    rng = np.random.default_rng(7)
    rows = {"flat": 400_000, "esd": 40_000, "event": 1500, "wide": 5000}[kind] // (4 if quick else 1)
    number = {"flat": 50, "esd": 30, "event": len(MEMBERS), "wide": 2000}[kind]
    counts = None
    total = rows
    if kind in ("esd", "event"):
        counts = rng.poisson(12 if kind == "esd" else 600, rows).astype(np.int32)
        total = int(counts.sum())
    found: list[np.ndarray[Any, Any]] = []
    for i in range(number):
        # Like real data, neither noise nor constant: a few digits, with a spread that differs between columns.
        values = np.round(rng.gamma(2, 10, total), i % 4).astype(np.float32)
        found.append(np.floor(values) if kind == "event" and i >= 10 else values)
    return counts, found


def save(path: Path, kind: str, quick: bool) -> None:
    """Write the raw columns as root_write.cpp reads them."""
    counts, found = columns(kind, quick)
    rows = len(found[0]) if counts is None else len(counts)
    with path.open("wb") as file:
        file.write(np.array([rows, len(found)], np.int64).tobytes())
        if counts is not None:
            file.write(counts.tobytes())
        for values in found:
            file.write(values.tobytes())


def table(kind: str, path: Path) -> dict[str, Any]:
    """Read the raw columns as a table."""
    raw = path.read_bytes()
    rows, number = np.frombuffer(raw, np.int64, 2).tolist()
    at = 16
    counts = None
    if kind in ("esd", "event"):
        counts = np.frombuffer(raw, np.int32, rows, at)
        at += 4 * rows
    total = rows if counts is None else int(counts.sum())
    values = [np.frombuffer(raw, np.float32, total, at + 4 * total * i).copy() for i in range(number)]
    if counts is None:
        return {f"x{i}": one for i, one in enumerate(values)}
    offsets = ak.index.Index64(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))
    if kind == "event":
        values = [one.astype(np.int32) if i >= 10 else one for i, one in enumerate(values)]
    names = MEMBERS if kind == "event" else [f"x{i}" for i in range(number)]
    content = ak.contents.RecordArray([ak.contents.NumpyArray(one) for one in values], list(names))
    lists = ak.Array(ak.contents.ListOffsetArray(offsets, content))
    return {"tracks" if kind == "event" else "j": ak.with_name(lists, "Track") if kind == "event" else lists}


def write_with_sapwood(kind: str, data: Path, out: Path, setting: int, split: int, threads: int) -> dict[str, Any]:
    """Write; report the time and the additional memory."""
    import psutil

    import sapwood
    from sapwood.compression import Compression

    sapwood.set_num_threads(threads)
    given = table(kind, data)
    choices: dict[str, Any] = {"records": "class", "split_level": split} if kind == "event" else {}
    # Imports are not counted for any rival.
    with sapwood.recreate(io.BytesIO()) as file:
        file.mktree("t", {name: one[:2] for name, one in given.items()}, **choices)
    before = psutil.Process().memory_info().rss
    start, cpu = time.perf_counter(), time.process_time()
    with sapwood.recreate(out, compression=Compression.from_code(setting)) as file:
        file.mktree("t", given, **choices)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    peak = max(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    return {"seconds": seconds, "cpu": cpu, "memory": peak * 1024 - before}


def write_with_uproot(kind: str, data: Path, out: Path, setting: int) -> dict[str, Any]:
    """Write with uproot."""
    import uproot

    given = table(kind, data)
    with uproot.recreate(io.BytesIO()) as file:
        file.mktree("t", {"x": "float32"}).extend({"x": np.zeros(2, np.float32)})
    codec = {0: None, 1: uproot.ZLIB, 2: uproot.LZMA, 4: uproot.LZ4, 5: uproot.ZSTD}[setting // 100]
    start = time.perf_counter()
    with uproot.recreate(out, compression=codec(setting % 100) if codec else None) as file:
        tree = file.mktree(
            "t", {name: one.dtype if isinstance(one, np.ndarray) else one.type for name, one in given.items()}
        )
        tree.extend(given)
    return {"seconds": time.perf_counter() - start}


def same(kind: str, ours: Path, theirs: Path) -> bool:
    """Compare the contents of two files, read with sapwood."""
    import sapwood

    def read(path: Path) -> list[Any]:
        tree = sapwood.open(path)["t"]
        if kind != "event":
            names = [name for name in tree.keys() if name != "nj"]  # noqa: SIM118 - a tree iterates over branches
            return [ak.to_packed(tree[name].array()) for name in names]
        if len(tree.keys()) > 1:
            return [tree[f"tracks/tracks.{name}"].array() for name in MEMBERS]
        whole = tree["tracks"].array()
        return [whole[name] for name in MEMBERS]

    pairs = zip(read(ours), read(theirs), strict=True)
    return all(bool(ak.array_equal(a, b, check_parameters=False)) for a, b in pairs)


def child(arguments: list[str]) -> None:
    """Do one writing in this process."""
    rival, kind, data, out, setting, split, threads = arguments
    if rival == "sapwood":
        found = write_with_sapwood(kind, Path(data), Path(out), int(setting), int(split), int(threads))
    else:
        found = write_with_uproot(kind, Path(data), Path(out), int(setting))
    print(json.dumps(found))


def output(command: list[Any], **more: Any) -> dict[str, Any]:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True, **more)
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    """Measure, compare, print, save."""
    if len(sys.argv) > 1 and sys.argv[1] == "child":
        child(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    cargo = ["cargo", "build", "--release", "--quiet", "-p", "sapwood-root", "--example", "recompress"]
    subprocess.run(cargo, cwd=HERE.parent, check=True)
    recompress = HERE.parent / "target" / "release" / "examples" / "recompress"
    results: list[dict[str, Any]] = []
    at_first = host.host()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        macro = folder / "root_write.cpp"
        macro.write_text((HERE / "root_write.cpp").read_text())
        compile_it = f"import ROOT; ROOT.gROOT.ProcessLine('.L {macro}+O')"
        with_root = [*(options.root, "-W", "ignore", "-c"), LOADED.format(macro.with_name("root_write_cpp.so"))]
        subprocess.run([options.root, "-W", "ignore", "-c", compile_it], check=True, capture_output=True, cwd=folder)
        for kind, splits in (("flat", (0,)), ("esd", (0,)), ("event", (99, 0)), ("wide", (0,))):
            data = folder / f"{kind}.raw"
            save(data, kind, options.quick)
            for split in splits:
                for codec, setting in CODECS.items():
                    label = f"{kind}-{codec}" + (f"-split{split}" if kind == "event" else "")
                    if (options.only and not any(one in label for one in options.only)) or (
                        kind == "wide" and codec not in ("none", "zlib")
                    ):
                        continue
                    files = {rival: folder / f"{rival}.root" for rival in ("sapwood", "sapwood-2", "root", "uproot")}
                    commands: dict[str, list[Any]] = {}
                    for threads, rival in ((1, "sapwood"), (2, "sapwood-2")):
                        commands[rival] = [
                            *(sys.executable, __file__, "child", "sapwood", kind, data, files[rival]),
                            *(setting, split, threads),
                        ]
                    if kind == "wide":
                        commands["uproot"] = [
                            *(sys.executable, __file__, "child", "uproot", kind, data, files["uproot"], setting, 0, 1)
                        ]
                    else:
                        call = f'ROOT.root_write("{kind}", "{data}", "{files["root"]}", {setting}, {split})'
                        commands["root"] = [*with_root[:-1], f"{with_root[-1]} {call}"]
                    raw: dict[str, list[dict[str, Any]]] = {rival: [] for rival in commands}
                    for _ in range(options.rounds):
                        for rival, command in commands.items():
                            raw[rival].append(output(command, cwd=folder))
                    rival = "uproot" if kind == "wide" else "root"
                    if not same(kind, files["sapwood"], files[rival]) or not same(
                        kind, files["sapwood"], files["sapwood-2"]
                    ):
                        raise SystemExit(f"{label}: sapwood and {rival} wrote different values")
                    best = {rival: min(one["seconds"] for one in many) for rival, many in raw.items()}
                    limit = output([recompress, files["sapwood"], setting])
                    sizes = {rival: files[rival].stat().st_size for rival in commands}
                    readings: dict[str, list[dict[str, Any]]] = {"sapwood": [], "root": []}
                    for _ in range(options.rounds + 1 if rival == "root" else 0):
                        for writer, found in readings.items():
                            call = f'{with_root[-1]} ROOT.root_read_all("{files[writer]}")'
                            found.append(output([*with_root[:-1], call], cwd=folder))
                    entry = {"label": label, "best": best, "raw": raw, "limit": limit, "sizes": sizes}
                    entry["read_by_root"] = readings
                    results.append(entry)
                    memory = max(one["memory"] for one in raw["sapwood"]) / 1e6
                    ours = best["sapwood"]
                    parts = [
                        f"{label:22} sapwood {ours:.3f} s",
                        f"{rival} / sapwood {best[rival] / ours:.2f}",
                        f"one / two threads {ours / best['sapwood-2']:.2f}",
                        f"compressor alone {limit['seconds']:.3f} s",
                        f"size / {rival} {sizes['sapwood'] / sizes[rival]:.3f}",
                        f"memory {memory:.0f} MB",
                    ]
                    if rival == "root":
                        seconds = {writer: min(one["seconds"] for one in many) for writer, many in readings.items()}
                        calls = {writer: many[0]["calls"] for writer, many in readings.items()}
                        parts.append(f"ROOT reads it in {seconds['sapwood']:.3f} s, {calls['sapwood']} calls;")
                        parts.append(f"its own in {seconds['root']:.3f} s, {calls['root']} calls")
                    print("  ".join(parts), flush=True)
    record = {"host": at_first, "software": host.software(), "rounds": options.rounds, "results": results}
    out = options.out
    if out is None and not (options.quick or options.only):
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H%M")
        out = HERE / "results" / f"writing-{now}-{record['software']['commit'][:8]}.json"
    if out is not None:
        out.write_text(json.dumps(record, indent=1) + "\n")
        print(f"result: {out}; benches/report.py makes the page of it")


if __name__ == "__main__":
    main()
