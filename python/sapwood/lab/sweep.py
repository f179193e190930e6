"""`sapwood lab sweep`: copy a tree in many layouts, read each back, and choose."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sapwood
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.lab.layout import tree_paths
from sapwood.lab.rewriting import Layout, parse_cluster, parse_codec, read_once, write_part
from sapwood.lab.study import Step, Study
from sapwood.report.units import bytes_text, seconds_text
from sapwood.train.dataset import Dataset, parse_size

CODECS = ("none", "lz4:4", "zstd:1", "zstd:5", "zstd:9", "zlib:1", "zlib:6", "lzma:1", "lzma:6")
CLUSTERS = ("1 MB", "10 MB", "30 MB")
BASKETS = ("32 kB", "256 kB", "1 MB")
QUICK_CODECS = ("none", "lz4:4", "zstd:5", "zlib:1", "lzma:1")
SAMPLE, QUICK_SAMPLE = 200_000_000, 20_000_000
WEIGHTS = {"write": 1.0, "read": 1.0, "size": 1.0, "memory": 0.5}
WRITE, READ = "write", "read"


def run(
    source: str,
    folder: str | os.PathLike[str],
    *,
    tree: str | None = None,
    codecs: Sequence[str] = (),
    clusters: Sequence[str] = (),
    baskets: Sequence[str] = (),
    weights: Mapping[str, float] = WEIGHTS,
    rounds: int = 3,
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
) -> tuple[Study, dict[str, Path]]:
    """Run the study.

    Parameters
    ----------
    source
        A file, or ``FILE:TREE``.
    folder
        Where the result goes, and, until the end, the copies.
    tree
        The tree, for files with several.
    codecs, clusters, baskets
        What is tried, each with each, in the words of `sapwood rewrite`; the constants of this module by default.
    weights
        How much ``write`` and ``read`` (processor time), ``size`` and ``memory`` count in the choice.
    rounds, quick, fresh, progress
        How often; fewer layouts and entries; begin anew; who is told of each step.

    Raises
    ------
    ArgumentError
        One of the words means nothing, or there is not one tree.
    SapwoodError
        A copy failed.
    """
    unknown = set(weights) - set(WEIGHTS)
    if unknown:
        raise ArgumentError(f"there is no weight {min(unknown)}: {', '.join(WEIGHTS)}")
    (where,) = Dataset.of(source, tree).sources
    with sapwood.open({where.path: None}) as file:
        paths = tree_paths(file, where)
        if len(paths) > 1:
            raise ArgumentError(f"{where.path} has several trees; name one with --tree: {', '.join(paths)}")
        entries, size = file[paths[0]].num_entries, max(1, file[paths[0]].uncompressed_bytes)
    stop = min(entries, max(1, entries * (QUICK_SAMPLE if quick else SAMPLE) // size))
    tried = {
        "codecs": list(codecs or (QUICK_CODECS if quick else CODECS)),
        "clusters": list(clusters or (("10 MB",) if quick else CLUSTERS)),
        "baskets": list(baskets or (("32 kB", "1 MB") if quick else BASKETS)),
    }
    for codec, cluster, basket in itertools.product(*tried.values()):
        layout_of(codec, cluster, basket)
    settings = {"file": where.path, "tree": paths[0], "entries": stop, **tried, "weights": dict(weights)}
    study = Study("sweep", {**settings, "rounds": rounds, "quick": quick}, folder, fresh=fresh, progress=progress)
    names = [", ".join(words) for words in itertools.product(*tried.values())]
    with tempfile.TemporaryDirectory(dir=folder, prefix="sweep-") as scratch:
        steps: list[Step] = []
        for name in names:
            copy = Path(scratch) / f"{len(steps)}.root"
            steps += [_step(WRITE, name, [where.path, paths[0], str(copy), str(stop), name], copy)]
            steps += [_step(READ, name, [where.path, paths[0], str(copy), str(stop), name], copy)]
        study.run(steps, rounds)
    return study, study.finish(
        tables=[_table(study, names)], figures=_figures(study, names), findings=_choice(study, names)
    )


def parse_weights(words: Sequence[str]) -> dict[str, float]:
    """Read ``read=2`` and the like; what is not named keeps its weight.

    Raises
    ------
    ArgumentError
        It is no weight.
    """
    weights = dict(WEIGHTS)
    for word in words:
        name, _, value = word.partition("=")
        try:
            weights[name] = float(value)
        except ValueError:
            raise ArgumentError(f"a weight is a name and a number, such as read=2, not {word!r}") from None
    return weights


def layout_of(codec: str, cluster: str, basket: str) -> Layout:
    """Make a layout of three words."""
    return Layout(compression=parse_codec(codec), auto_flush=parse_cluster(cluster), basket_size=parse_size(basket))


def _step(action: str, name: str, words: Sequence[str], copy: Path) -> Step:
    def measure() -> dict[str, Any]:
        if action == READ and not copy.exists():  # of a study that goes on
            _in_process(WRITE, words)
        figures = _in_process(action, words)
        return {**figures, "value": figures["user"] + figures["system"], "bytes": copy.stat().st_size}

    return Step(action, name, "s", measure)


def _in_process(action: str, words: Sequence[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "sapwood.lab.sweep", action, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SapwoodError(
            f"{action} failed for {words[-1]}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    return json.loads(done.stdout)


def _figures_of(study: Study, name: str) -> dict[str, float]:
    """Give what a layout costs, by the names of the weights; memory is the larger of both processes."""
    memory = max(study.figure(action, name, "rss") or 0 for action in (WRITE, READ))
    return {
        "write": study.median(WRITE, name) or 0.0,
        "read": study.median(READ, name) or 0.0,
        "size": float(study.figure(WRITE, name, "bytes")),
        "memory": float(memory),
    }


def front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Give those that no other beats in both values, by the first value (the Pareto front)."""
    kept: list[str] = []
    for name in sorted(points, key=points.__getitem__):
        if not kept or points[name][1] < points[kept[-1]][1]:
            kept.append(name)
    return kept


def choose(costs: Mapping[str, Mapping[str, float]], weights: Mapping[str, float]) -> dict[str, float]:
    """Score layouts: the product of each cost over the least of all, to the power of its weight; 1 is best, sorted."""
    least = {what: min(cost[what] for cost in costs.values()) or 1e-9 for what in WEIGHTS}
    scores = {
        name: math.prod((max(cost[what], 1e-9) / least[what]) ** weights.get(what, 0.0) for what in WEIGHTS)
        for name, cost in costs.items()
    }
    return dict(sorted(scores.items(), key=lambda item: item[1]))


def _scores(study: Study, names: Sequence[str]) -> dict[str, float]:
    return choose({name: _figures_of(study, name) for name in names}, study.content["settings"]["weights"])


def _table(study: Study, names: Sequence[str]) -> dict[str, Any]:
    head = [
        "Codec, cluster, basket",
        "write user",
        "system",
        "elapsed",
        "vsize",
        "rss",
        "read user",
        "system",
        "elapsed",
    ]
    head += ["rss", "file", "score"]
    rows: list[list[str]] = []
    for name, score in _scores(study, names).items():
        row = [name]
        for action, memories in ((WRITE, ("vsize", "rss")), (READ, ("rss",))):
            row += [seconds_text(study.figure(action, name, what)) for what in ("user", "system", "wall")]
            row += [bytes_text(study.figure(action, name, what)) for what in memories]
        rows.append([*row, bytes_text(study.figure(WRITE, name, "bytes")), f"{score:.2f}"])
    caption = (
        "The last round, best first; vsize and rss are the peaks of the process. The score is explained in the guide."
    )
    return {"title": "Layouts", "head": head, "rows": rows, "caption": caption}


def _figures(study: Study, names: Sequence[str]) -> list[dict[str, Any]]:
    costs = {name: _figures_of(study, name) for name in names}
    both = {name: (cost["write"] + cost["read"], cost["memory"] / 1e6) for name, cost in costs.items()}
    size = {name: (cost["read"], cost["size"] / 1e6) for name, cost in costs.items()}
    return [
        _plane("Memory and time", both, "Processor time of writing and reading [s]", "Peak resident memory [MB]"),
        _plane("Size and time", size, "Processor time of reading [s]", "File size [MB]"),
    ]


def _plane(title: str, points: Mapping[str, tuple[float, float]], x: str, y: str) -> dict[str, Any]:
    best = front(points)
    curves = [
        {"label": "all layouts", "points": [list(points[name]) for name in points]},
        {"label": "no other is better in both", "points": [list(points[name]) for name in best]},
    ]
    caption = "On the front, from the left: " + "; ".join(best) + "."
    return {"kind": "lines", "points": True, "title": title, "x": x, "y": y, "curves": curves, "caption": caption}


def _choice(study: Study, names: Sequence[str]) -> list[str]:
    scores = _scores(study, names)
    best = next(iter(scores))
    cost = _figures_of(study, best)
    weights = ", ".join(f"{name} {weight:g}" for name, weight in study.content["settings"]["weights"].items())
    codec, cluster, basket = best.split(", ")
    chosen = (
        f"For the weights {weights} the choice is {best}: {seconds_text(cost['write'])} to write, "
        f"{seconds_text(cost['read'])} to read, {bytes_text(cost['size'])}, {bytes_text(cost['memory'])} of memory."
    )
    layout = f'--compression {codec} --cluster-size "{cluster}" --basket-size "{basket}"'
    return [chosen, f"To apply it: sapwood rewrite FILE -o NEW {layout}"]


def main(words: Sequence[str]) -> int:
    """Write or read one copy and print what it took: ACTION SOURCE TREE COPY STOP LAYOUT."""
    action, source, path, copy, stop, name = words
    import resource

    before, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    if action == WRITE:
        with sapwood.open({source: None}) as file:
            write_part(file[path], copy, layout_of(*name.split(", ")), 0, int(stop))
    else:
        with sapwood.open({copy: None}) as file:
            read_once([file["T"]])
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - wall
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii").splitlines() if status.exists() else []
    sizes = {
        key: int(value.split()[0]) * 1024 for key, _, value in (line.partition(":") for line in lines) if "kB" in value
    }
    figures = {"wall": wall, "user": after.ru_utime - before.ru_utime, "system": after.ru_stime - before.ru_stime}
    print(json.dumps(figures | {"vsize": sizes.get("VmPeak", 0), "rss": sizes.get("VmHWM", 0)}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
