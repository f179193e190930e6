"""Sapwood against ROOT, uproot and the decompression limit, in one run.

The values are compared first. Then each round reads every workload with every rival in turn, each reading in a fresh
process; the first round warms up and does not count.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import host
import report
from workloads import WORKLOADS, Workload

HERE = Path(__file__).resolve().parent
# Members whose value in ROOT's memory is not the one in the file (TObject::fBits gains kNotDeleted when read).
NOT_IN_FILE = (".fBits",)


class DisagreementError(Exception):
    """Two rivals read different values."""


class Rivals:
    """How each rival is run; those not installed are left out and named."""

    def __init__(self, binaries: Path, root_read: Path) -> None:
        self.binaries = binaries
        self.root_read = root_read
        self.missing: list[str] = []
        engines: dict[str, Callable[[Workload, list[str]], dict[str, Any]]] = {}
        if self._have("root, root-imt", root_read):
            engines["root"] = lambda w, f: self.root("getentry", w, f)
            engines["root-imt"] = lambda w, f: self.root("imt", w, f)
        if self._have("root-rdf", binaries / "seedread"):
            for threads, suffix in ((1, ""), (2, "-2")):
                engines["root-rdf" + suffix] = lambda w, f, n=threads: self.data_frame(w, f, n)
        if importlib.util.find_spec("uproot"):
            engines["uproot"] = lambda w, f: self.python("uproot", "sums" if w.sums else "arrays", w, f, 1)
        else:
            self.missing.append("uproot")
        if self._have("limit", binaries / "limit"):
            engines["limit"] = self.limit
        if importlib.util.find_spec("sapwood"):
            for threads, suffix in ((1, ""), (2, "-2"), (4, "-4"), (8, "-8")):
                engines["sapwood" + suffix] = lambda w, f, n=threads: self.python(
                    "sapwood", "sums" if w.sums else "arrays", w, f, n
                )
            for threads, suffix in ((1, ""), (2, "-2")):
                engines["sapwood-iterate" + suffix] = lambda w, f, n=threads: self.python("sapwood", "iterate", w, f, n)
        else:
            self.missing.append("sapwood")
        self.engines = engines

    def _have(self, name: str, program: Path) -> bool:
        if not program.exists():
            self.missing.append(name)
        return program.exists()

    @staticmethod
    def _output(command: list[str], **environment: str) -> str:
        run = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
        if run.returncode != 0:
            raise RuntimeError(f"{' '.join(command[:6])} ... ended with {run.returncode}:\n{run.stderr[-2000:]}")
        return run.stdout

    def root(self, mode: str, workload: Workload, files: list[str], threads: int = 2) -> dict[str, Any]:
        """Read with ROOT; `sums` and `formulas` give {branch or expression: [count, sum]}."""
        names = workload.formulas if mode == "formulas" else workload.branches
        named = ["--", *names] if names else []
        command = [str(self.root_read), mode, workload.tree, *files, *named]
        return json.loads(self._output(command, NT=str(threads), RANGES=_ranges(workload)))

    def data_frame(self, workload: Workload, files: list[str], threads: int) -> dict[str, Any]:
        """Sum the branches with RDataFrame; its start-up (JIT apart) is counted, as the program gives it."""
        command = [str(self.binaries / "seedread"), files[0], workload.tree, "rdfsum", *workload.branches]
        words = self._output(command, NT=str(threads)).split()
        return {"wall": float(words[0]), "cpu": float(words[3])}

    def python(
        self,
        engine: str,
        mode: str,
        workload: Workload,
        files: list[str],
        threads: int,
        interpreter: str = sys.executable,
    ) -> dict[str, Any]:
        """Read with a Python library."""
        named = [word for branch in workload.branches for word in ("-b", branch)]
        how = ["--library", "ak" if mode == "digest" else workload.library, "--ranges", _ranges(workload)]
        how += ["--passes", str(workload.passes)]
        command = [interpreter, str(HERE / "reader.py"), engine, mode, workload.tree, *named, *how, *files]
        return json.loads(self._output(command, SAPWOOD_NUM_THREADS=str(threads)))

    def limit(self, workload: Workload, files: list[str]) -> dict[str, Any]:
        """Read and decompress every basket; file by file, the times added."""
        lines = [self._output([str(self.binaries / "limit"), file]) for file in files]
        return {
            "wall": sum(float(line.split()[0]) for line in lines),
            "bytes_decompressed": sum(float(re.search(r"out ([\d.]+) MB", line)[1]) * 1e6 for line in lines),
        }


def _ranges(workload: Workload) -> str:
    return ",".join(f"{start}:{stop}" for start, stop in workload.ranges)


def takes_part(engine: str, workload: Workload) -> bool:
    """Return whether a rival can do the same work on a workload."""
    if engine in ("sapwood-4", "sapwood-8"):
        return workload.threads
    if workload.passes > 1:
        return engine in ("sapwood-iterate", "sapwood-iterate-2")
    if workload.sums:
        return engine in ("root-rdf", "root-rdf-2", "uproot", "sapwood", "sapwood-2")
    if engine.startswith("root-rdf") or (engine == "uproot" and not workload.uproot):
        return False
    if engine == "limit":
        return not workload.branches and not workload.ranges
    return not workload.ranges or ("imt" not in engine and "iterate" not in engine)


def same(ours: dict[str, Any], theirs: dict[str, Any], who: str) -> int:
    """Check that two descriptions of the same branches agree bit for bit; give the number of branches."""
    if ours.keys() != theirs.keys():
        raise DisagreementError(f"branches differ from {who}'s: {sorted(ours.keys() ^ theirs.keys())[:10]}")
    wrong = [name for name in ours if ours[name]["digest"] != theirs[name]["digest"]]
    if wrong:
        raise DisagreementError(f"values differ from {who}'s in {len(wrong)} of {len(ours)} branches: {wrong[:10]}")
    return len(ours)


def same_sums(found: dict[str, Any], root: dict[str, list[float]]) -> int:
    """Compare counts and sums with those of ROOT; give the number of branches compared."""
    compared = 0
    for name, branch in found.items():
        if name not in root:
            raise DisagreementError(f"ROOT has no branch {name}")
        if name.endswith(NOT_IN_FILE):
            continue
        count, total = root[name]
        if count != branch["count"] or abs(total - branch["sum"]) > 1e-9 * max(1.0, branch["magnitude"]):
            raise DisagreementError(
                f"{name}: ROOT has {count} values of sum {total}, here {branch['count']} of {branch['sum']}"
            )
        compared += 1
    return compared


def compare(rivals: Rivals, workload: Workload, files: list[str]) -> dict[str, int]:
    """Compare the values that the rivals read."""
    if workload.passes > 1:
        return {}  # The same file is compared for the workload that reads it once.
    have = [e for e in ("sapwood", "uproot") if e in rivals.engines and takes_part(e, workload)]
    described = {engine: rivals.python(engine, "digest", workload, files, 2) for engine in have}
    agreed: dict[str, int] = {}
    if len(have) == 2:
        agreed["sapwood = uproot"] = same(described["sapwood"], described["uproot"], "uproot")
    if have and "root" in rivals.engines and workload.root_sums:
        agreed[f"{have[0]} = ROOT"] = same_sums(described[have[0]], rivals.root("sums", workload, files))
    if have and "root" in rivals.engines and workload.formulas:
        found = {formula: described[have[0]][place] for formula, place in workload.formulas.items()}
        agreed[f"{have[0]} = ROOT"] = same_sums(found, rivals.root("formulas", workload, files))
    return agreed


def spread(runs: list[dict[str, Any]]) -> float:
    """Return the interquartile range of the wall times over their median."""
    walls = [run["wall"] for run in runs]
    if len(walls) < 4:
        return (max(walls) - min(walls)) / statistics.median(walls)
    low, _, high = statistics.quantiles(walls, n=4)
    return (high - low) / statistics.median(walls)


def find_warnings(result: dict[str, Any]) -> list[str]:
    """Return the warnings that apply, of a closed list, each with advice."""
    found = []
    if result["host"]["load"] > 0.5:
        found.append(f"busy: the load was {result['host']['load']:.1f} at the start; run on an idle machine")
    if result["host"]["cpus"] < 2:
        found.append("one CPU: two threads cannot be faster here; give the process two")
    if result["software"]["changed_files"] != "0":
        found.append("changed: the checkout has uncommitted changes; commit before a result is kept")
    for workload in result["workloads"]:
        noisy = [f"{rival} {spread(runs):.0%}" for rival, runs in workload["runs"].items() if spread(runs) > 0.15]
        short = [rival for rival, seconds in report.medians(workload).items() if seconds < 0.03]
        if noisy:
            found.append(f"noisy: on {workload['name']} these varied: {', '.join(noisy)}; more rounds would help")
        if short:
            found.append(f"short: on {workload['name']} under 30 ms: {', '.join(short)}; use larger files")
    return found


def measure(rivals: Rivals, chosen: list[tuple[Workload, list[str]]], rounds: int) -> list[dict[str, Any]]:
    """Compare the values, then time everything."""
    measured = []
    for workload, files in chosen:
        print(f"{workload.name}: comparing values", flush=True)
        record = asdict(workload)
        record["agreed"] = compare(rivals, workload, files)
        record["files"] = len(files)
        record["bytes"] = sum(Path(file).stat().st_size for file in files)
        record["runs"] = {name: [] for name in rivals.engines if takes_part(name, workload)}
        measured.append(record)
        for name, count in record["agreed"].items():
            print(f"  {name} in {count} branches", flush=True)
    for turn in range(rounds + 1):
        print("warming up" if turn == 0 else f"round {turn} of {rounds}", flush=True)
        for (workload, files), record in zip(chosen, measured, strict=True):
            for name, runs in record["runs"].items():
                run = rivals.engines[name](workload, files)
                if turn:
                    runs.append(run)
    for record in measured:
        root = record["runs"].get("root") or record["runs"].get("limit")
        # All rivals of a workload decode the same values: their size is ROOT's count of uncompressed bytes.
        record["bytes_decompressed"] = (
            root[0].get("bytes", root[0].get("bytes_decompressed")) if root else record["bytes"]
        )
    return measured


def main() -> int:
    """Run as the command line says; the exit code is 1 when a target is missed and --strict is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    peers = HERE.parent / "build" / "peers"
    parser.add_argument("--peers", type=Path, default=peers, help="folder of the programs and files of `make peers`")
    parser.add_argument(
        "--data", type=Path, default=os.environ.get("SAPWOOD_PEERS_DATA"), help="folder of reference files"
    )
    parser.add_argument(
        "--bin", type=Path, default=os.environ.get("SAPWOOD_PEERS_BIN"), help="folder of seedgen and limit"
    )
    parser.add_argument("--quick", action="store_true", help="three workloads, two rounds; nothing is kept in docs/")
    parser.add_argument("--rounds", type=int, help="rounds that count (7, with --quick 2)")
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help="run only these workloads")
    parser.add_argument("--skip", nargs="+", metavar="RIVAL", default=[], help="leave out these rivals")
    parser.add_argument("--out", type=Path, help="file for the result (in benches/results/, with --quick in build/)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    args = parser.parse_args()

    data = args.data or args.peers / "data"
    rivals = Rivals(args.bin or args.peers / "bin", args.peers / "bin" / "root_read")
    if args.quick:
        rivals.engines.pop("root-imt", None)
    for name in args.skip:
        if not rivals.engines.pop(name, None):
            parser.error(f"no such rival: {name}; there are {', '.join(rivals.engines)}")
    for name in rivals.missing:
        print(f"NOT MEASURED: {name} (not found)")
    rounds = args.rounds or (2 if args.quick else 7)
    unknown = {*(args.only or [])} - {w.name for w in WORKLOADS}
    if unknown:
        parser.error(
            f"no such workload: {', '.join(sorted(unknown))}; there are {', '.join(w.name for w in WORKLOADS)}"
        )
    chosen = [w for w in WORKLOADS if (w.name in args.only if args.only else w.quick or not args.quick)]

    result: dict[str, Any] = {"format": 1, "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")}
    result["host"], result["software"] = host.host(), host.software()
    result["workloads"] = measure(rivals, [(w, [str(f) for f in w.files(data)]) for w in chosen], rounds)
    pairs = {name for workload in result["workloads"] for name in workload["agreed"]}
    compared = ", ".join(
        f"{pair} in {sum(w['agreed'].get(pair, 0) for w in result['workloads'])} branches" for pair in sorted(pairs)
    )
    result["settings"] = {
        "rounds": rounds,
        "quick": args.quick,
        "page_cache": "warm",
        "compared": compared or "nothing",
    }
    if versions := [runs[0]["version"] for w in result["workloads"] for r, runs in w["runs"].items() if r == "root"]:
        result["software"]["root"] = versions[0]
    result["warnings"] = find_warnings(result)

    print("\n" + report.tables(result) + "\n")
    for warning in result["warnings"]:
        print(f"warning: {warning}")
    name = f"reading-{result['date'][:16].replace(':', '')}-{result['software']['commit'][:8]}.json"
    kept = not (args.quick or args.only or args.skip)
    out = args.out or (HERE / "results" / name if kept else HERE.parent / "build" / "bench" / name)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"result: {out}")
    if kept:
        for path, text in report.pages(result, out).items():
            path.write_text(text)
    missed = [v for w in result["workloads"] for v in report.verdicts(w) if not v[3]]
    print(f"targets: {len(missed)} missed")
    return 1 if missed and args.strict else 0


if __name__ == "__main__":
    sys.exit(main())
