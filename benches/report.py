"""Makes the tables and figures of docs/performance from the kept results."""

from __future__ import annotations

import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

TOP = Path(__file__).resolve().parent.parent
LABELS = {
    "root": "ROOT",
    "root-imt": "ROOT, implicit threads",
    "root-rdf": "RDataFrame, 1 thread",
    "root-rdf-2": "RDataFrame, 2 threads",
    "uproot": "uproot",
    "limit": "limit",
    "sapwood": "sapwood, 1 thread",
    "sapwood-2": "sapwood, 2 threads",
    "sapwood-4": "sapwood, 4 threads",
    "sapwood-8": "sapwood, 8 threads",
    "sapwood-iterate": "iterate, 1 thread",
    "sapwood-iterate-2": "iterate, 2 threads",
}
COLOURS = {"root": "#b0413e", "uproot": "#d9a441", "limit": "#9aa0a6", "sapwood": "#2e7d5b", "sapwood-2": "#7fc8a0"}
NAMES = {
    "root / sapwood": "ROOT ÷ ours",
    "root / sapwood-iterate": "ROOT ÷ iterate",
    "uproot / sapwood": "uproot ÷ ours",
    "sapwood / limit": "ours ÷ limit",
    "sapwood-iterate / limit": "iterate ÷ limit",
    "sapwood / sapwood-2": "1 ÷ 2 threads",
    "root-imt / sapwood-2": "ROOT, implicit threads ÷ ours, 2 threads",
    "root-imt / sapwood-iterate-2": "ROOT, implicit threads ÷ iterate, 2 threads",
    "sapwood / sapwood-iterate": "arrays ÷ iterate",
    "sapwood-2 / sapwood-4": "2 ÷ 4 threads",
    "sapwood-2 / sapwood-8": "2 ÷ 8 threads",
}
RATIOS = tuple(NAMES)[:6]
"""The rivals with a column of their own."""


def medians(workload: dict[str, Any], what: str = "wall") -> dict[str, float]:
    """Return the median wall or processor time of each rival that states it, in seconds."""
    stated = {rival: [run[what] for run in runs if what in run] for rival, runs in workload["runs"].items()}
    return {rival: statistics.median(times) for rival, times in stated.items() if times}


def ratio(times: dict[str, float], name: str) -> float | None:
    """Return the quotient of two medians, as "root / sapwood" names them."""
    above, below = name.split(" / ")
    return times[above] / times[below] if above in times and below in times else None


def verdicts(workload: dict[str, Any]) -> list[tuple[str, str, float | None, bool]]:
    """Return (ratio, bound, measured, met) for each target of a workload."""
    times = medians(workload)
    found = []
    for name, least in workload["targets"].items():
        value = ratio(times, name)
        found.append((name, f"≥ {least:g}", value, value is not None and value >= least))
    for name, most in workload.get("ceilings", {}).items():
        value = ratio(times, name)
        found.append((name, f"≤ {most:g}", value, value is not None and value <= most))
    if workload.get("memory"):
        passes = memories(workload)["sapwood-iterate"]
        growth = passes[-1] / passes[0]
        found.append(
            ("memory of iterate (MB)", f"≤ {workload['memory']:g}", passes[-1], passes[-1] <= workload["memory"])
        )
        found.append((f"pass {len(passes)} ÷ pass 1 in memory", "≤ 1.1", growth, growth <= 1.1))
    return found


def memories(workload: dict[str, Any]) -> dict[str, list[float]]:
    """Return the peak memory of each rival in Python above the process after its imports, after each pass, in MB."""
    stated = {rival: [run["memory"] for run in runs if "memory" in run] for rival, runs in workload["runs"].items()}
    return {
        rival: [statistics.median(values) / 1e6 for values in zip(*runs, strict=True)]
        for rival, runs in stated.items()
        if runs
    }


def printed(value: float, bound: float, met: bool, digits: int = 2) -> str:
    """Return a ratio. If it misses its bound, it has enough decimals to show that."""
    while not met and digits < 6 and float(f"{value:.{digits}f}") == bound:
        digits += 1
    return f"{value:.{digits}f}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def tables(result: dict[str, Any]) -> str:
    """Return the tables of times and of ratios, as Markdown."""
    rivals = [name for name in LABELS if any(name in workload["runs"] for workload in result["workloads"])]
    lines = [_row(["seconds", *(LABELS[name] for name in rivals)]), _row(["---", *["---:"] * len(rivals)])]
    for workload in result["workloads"]:
        times = medians(workload)
        lines.append(_row([workload["name"], *(f"{times[r]:.3f}" if r in times else "" for r in rivals)]))
    heads = ["ratio", *(NAMES[name] for name in RATIOS), "ROOT ÷ ours in processor time", "bounds"]
    lines += ["", _row(heads), _row(["---", *["---:"] * (len(heads) - 2), "---"])]
    for workload in result["workloads"]:
        times = medians(workload)
        cells = [f"{value:.2f}" if (value := ratio(times, name)) else "" for name in RATIOS]
        spent = ratio(medians(workload, "cpu"), RATIOS[0])
        cells.append(f"{spent:.2f}" if spent else "")
        held = []
        for name, bound, found, met in verdicts(workload):
            word = "met" if met else "no figure"
            if found is not None and not met:
                word = f"**missed** ({printed(found, float(bound.split()[1]), met)})"
            held.append(f"{NAMES.get(name, name)} {bound}: {word}")
        lines.append(_row([workload["name"], *cells, "; ".join(held)]))
    lines += where(result) + two_threads(result)
    takers = [name for name in rivals if any(name in memories(workload) for workload in result["workloads"])]
    heads = ["memory in MB, above the process after its imports", *(LABELS[name] for name in takers)]
    lines += ["", _row(heads), _row(["---", *["---:"] * len(takers)])]
    for workload in result["workloads"]:
        peaks = memories(workload)
        lines.append(_row([workload["name"], *(f"{peaks[r][-1]:.0f}" if r in peaks else "" for r in takers)]))
    return "\n".join(lines)


WHERE = ("storage", "decompression", "decoding")


def where(result: dict[str, Any]) -> list[str]:
    """Return the table of sapwood's time on one thread: its parts, the system's share, the time left by the bound."""
    heads = ["seconds of sapwood, 1 thread", "all", *WHERE, "other", "of all in the system", "page faults"]
    heads.append("left by the bound for decoding and other")
    lines = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    for workload in result["workloads"]:
        for rival in ("sapwood", "sapwood-iterate"):
            runs = [run for run in workload["runs"].get(rival, []) if "where" in run]
            if not runs:
                continue
            wall = statistics.median(run["wall"] for run in runs)
            parts = [statistics.median(run["where"][part] for run in runs) for part in (*WHERE, "system")]
            name = workload["name"] + (", iterate" if rival != "sapwood" else "")
            cells = [wall, *parts[:3], wall - sum(parts[:3]), parts[3]]
            pages = statistics.median(run["where"]["pages"] for run in runs)
            held, root = workload["targets"].get(f"root / {rival}"), medians(workload).get("root")
            left = f"{root / held - parts[0] - parts[1]:.3f}" if held and root else ""
            lines.append(_row([name, *(f"{s:.3f}" for s in cells), f"{pages:,.0f}", left]))
    return ["", *lines] if len(lines) > 2 else []


def two_threads(result: dict[str, Any]) -> list[str]:
    """Return the table of what limits two threads: more processor time than one thread takes, or idle threads."""
    heads = ["two threads", "gain", "processor time ÷ that of one", "of it in the system", "of two processors idle"]
    heads.append("gain without idle processors")
    lines = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    for workload in result["workloads"]:
        wall, cpu = medians(workload), medians(workload, "cpu")
        for one in ("sapwood", "sapwood-iterate"):
            two = f"{one}-2"
            runs = [run["where"]["system"] for run in workload["runs"].get(two, []) if "where" in run]
            if one not in wall or not runs:
                continue
            name = workload["name"] + (", iterate" if one != "sapwood" else "")
            more, idle = cpu[two] / cpu[one], max(0.0, 1 - cpu[two] / (2 * wall[two]))
            system = statistics.median(runs) / cpu[two]
            cells = [f"{wall[one] / wall[two]:.2f}", f"{more:.2f}", f"{system:.0%}", f"{idle:.0%}"]
            lines.append(_row([name, *(cell.replace("%", " %") for cell in cells), f"{2 / more:.2f}"]))
    return ["", *lines] if len(lines) > 2 else []


def picture(result: dict[str, Any]) -> str:
    """Draw throughput of each rival as horizontal bars, one group a workload (SVG)."""
    left, right, bar, gap = 130, 640, 11, 14
    groups = []
    for workload in result["workloads"]:
        times = medians(workload)
        rates = {rival: workload["bytes_decompressed"] / times[rival] / 1e6 for rival in COLOURS if rival in times}
        groups.append((workload["name"], rates))
    top = max((rate for _, rates in groups for rate in rates.values()), default=1.0)
    parts, y = [], 34
    for name, rates in groups:
        parts.append(f'<text x="{left - 8}" y="{y + len(rates) * bar / 2 + 4}" text-anchor="end">{escape(name)}</text>')
        for rival, rate in rates.items():
            width = rate / top * (right - left)
            parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar - 2}" fill="{COLOURS[rival]}"/>')
            parts.append(f'<text x="{left + width + 4:.1f}" y="{y + bar - 3}" font-size="9">{rate:,.0f}</text>')
            y += bar
        y += gap
    legend, x = [], left
    for rival, colour in COLOURS.items():
        legend.append(f'<rect x="{x}" y="10" width="10" height="10" fill="{colour}"/>')
        legend.append(f'<text x="{x + 14}" y="19">{escape(LABELS[rival])}</text>')
        x += 34 + 7 * len(LABELS[rival])
    legend.append(f'<text x="{left}" y="{y + 8}">decompressed MB/s (more is better)</text>')
    body = "\n".join([*legend, *parts])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="720" height="{y + 20}" '
        f'font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def page(result: dict[str, Any], file: str) -> str:
    """Return docs/performance/reading.md."""
    host, software, settings = result["host"], result["software"], result["settings"]
    warnings = "\n".join(f"- {text}" for text in result["warnings"]) or "- none"
    return f"""# Reading whole files

Generated by `make bench` from [{file}](../../benches/results/{file}),
which holds every raw value.

Times are medians by the clock of {settings["rounds"]} interleaved rounds after one warm-up round, with a warm page
cache. Each read runs in a new process. Its time is from opening the first file to the last value, without the start of
Python or ROOT and without imports.
The values were compared first: {settings["compared"]}.

ROOT: a compiled `GetEntry` loop over all branches. uproot: `arrays()`. Limit: one thread reads every basket in file
order, decompresses it with the best codec library and swaps its bytes once, without interpreting anything. sapwood:
`arrays()` (for many files `concatenate`), and `iterate`.

![Throughput](reading.svg)

{tables(result)}

Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}. Python {host["python"]}, NumPy
{software["numpy"]}, Awkward {software["awkward"]}, uproot {software["uproot"]}, ROOT {software.get("root", "absent")},
sapwood {software["sapwood"]} at {software["commit"][:12]}.

Warnings:

{warnings}
"""


def summary(result: dict[str, Any]) -> str:
    """Return the README's table: the ratios alone, of workloads that have bounds."""
    shown = [name for name in RATIOS if "iterate" not in name]
    lines = [_row(["", *(NAMES[name] for name in shown)]), _row(["---", *["---:"] * len(shown)])]
    for workload in result["workloads"]:
        if not workload["targets"]:
            continue
        times = medians(workload)
        cells = [f"{value:.1f}" if (value := ratio(times, name)) else "" for name in shown]
        lines.append(_row([workload["name"], *cells]))
    return "\n".join(lines)


def pages(result: dict[str, Any], source: Path) -> dict[Path, str]:
    """Return the documents that show a result: two pages, and the README with a new table."""
    readme = TOP / "README.md"
    before, _, rest = readme.read_text().partition("<!-- bench -->\n")
    _, _, after = rest.partition("<!-- /bench -->")
    folder = TOP / "docs" / "performance"
    return {
        folder / "reading.md": page(result, source.name),
        folder / "reading.svg": picture(result),
        readme: f"{before}<!-- bench -->\n{summary(result)}\n<!-- /bench -->{after}",
    }


WRITING = {"none": 1.8, "zlib": 1.5, "lz4": 1.0, "zstd": 1.0, "lzma": 1.0}
"""How many times as fast as ROOT writing must be, by codec."""


def writing_row(entry: dict[str, Any], copying: float) -> list[str]:
    """Return the cells of one data set and codec; `copying` is the time of the same without compression."""
    best, sizes, label = entry["best"], entry["sizes"], entry["label"]
    rival = "uproot" if "uproot" in best else "root"
    codec = label.split("-")[1]
    alone = entry["limit"]["seconds"]
    figures = [
        (best[rival] / best["sapwood"], 10.0 if rival == "uproot" else WRITING[codec], False),
        (best["sapwood"] / best["sapwood-2"], 1.7, False),
        (best["sapwood"] / (1.25 * alone + copying), 1.0, True) if alone and codec != "none" else None,
        (sizes["sapwood"] / sizes[rival], 1.02, True) if rival == "root" else None,
    ]
    cells = [label, f"{best['sapwood']:.3f}", f"{best[rival]:.3f}" + (" (uproot)" if rival == "uproot" else "")]
    for figure in figures:
        if figure is None:
            cells.append("")
            continue
        value, bound, most = figure
        met = value <= bound if most else value >= bound
        text = printed(value, bound, met, 3 if bound == 1.02 else 2)
        cells.append(text if met else f"{text} (**missed**: {'≤' if most else '≥'} {bound:g})")
    memory = max(run["memory"] for run in entry["raw"]["sapwood"]) / 1e6
    return [*cells, f"{alone:.3f}" if alone else "", f"{memory:.0f}"]


def reading_back(results: list[dict[str, Any]]) -> str:
    """Return the section on the time that ROOT takes to read the files, if it was measured."""
    heads = ["s, read calls", "file of sapwood", "of ROOT", "ROOT's own ÷ ours"]
    rows = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    for entry in results:
        found = entry.get("read_by_root", {})
        if not found.get("root"):
            continue
        ours, own = (min(run["seconds"] for run in found[writer]) for writer in ("sapwood", "root"))
        calls, owns = (found[writer][0]["calls"] for writer in ("sapwood", "root"))
        words = [word for word, met in (("time", own >= ours), ("calls", calls <= owns)) if not met]
        verdict = f" (**missed**: {', '.join(words)})" if words else ""
        rows.append(_row([entry["label"], f"{ours:.3f}, {calls}", f"{own:.3f}, {owns}", f"{own / ours:.2f}{verdict}"]))
    if len(rows) == 2:
        return ""
    return "\n".join(
        [
            "",
            "## Read by ROOT",
            "",
            "ROOT reads every entry, with a tree cache of 30 MB; the fastest run counts. Bounds: no more time and no",
            "more calls than for ROOT's own file of the same data.",
            "",
            *rows,
            "",
        ]
    )


def writing_page(result: dict[str, Any], name: str) -> str:
    """Return the page on writing."""
    heads = ["s", "sapwood, 1 thread", "ROOT", "ROOT ÷ ours", "1 ÷ 2 threads"]
    heads += ["ours ÷ (1.25 × compressor + copy)", "size ÷ ROOT's", "compressor alone", "memory (MB)"]
    none = {e["label"].replace("-none", ""): e["best"]["sapwood"] for e in result["results"] if "-none" in e["label"]}
    rows = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    for entry in result["results"]:
        words = entry["label"].split("-")
        rows.append(_row(writing_row(entry, none.get("-".join([words[0], *words[2:]]), 0.0))))
    table = "\n".join(rows)
    back = reading_back(result["results"])
    host, software = result["host"], result["software"]
    return f"""# Writing from memory

Generated by `make bench-writing` from [{name}](../../benches/results/{name}),
which holds every raw value.

Times are those of the fastest of {result["rounds"]} interleaved rounds. Each run writes in a separate process. ROOT's
time does not include filling its objects. The written files were read back and compared first. The bounds are:

- as fast as ROOT: 1.8 times without compression, 1.5 times with zlib, no slower with the other codecs;
- files at most 2 % larger than ROOT's;
- two threads 1.7 times as fast as one;
- at most 1.25 times the time of the compressor alone (same library, level and bytes), plus that without compression;
- `wide`, which has 2,000 branches: 10 times as fast as uproot.

{table}
{back}
Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, sapwood {software.get("sapwood", "")} at {software["commit"][:12]}.
"""


def ntuple_writing_page(result: dict[str, Any], name: str) -> str:
    """Return the page on writing RNTuples."""
    heads = ["s", *(f"{who}, {n}" for n in ("1 thread", "2 threads") for who in ("sapwood", "ROOT"))]
    heads += ["ROOT ÷ ours, 1 thread", "2 threads", "size ÷ ROOT's"]
    rows = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    for entry in result["results"]:
        best, sizes = entry["best"], entry["sizes"]
        faster, size = best["root-2"] / best["sapwood-2"], sizes["sapwood-2"] / sizes["root-2"]
        cells = [f"{best[f'{who}-{n}']:.3f}" for n in (1, 2) for who in ("sapwood", "root")]
        cells += [
            f"{best['root-1'] / best['sapwood-1']:.2f}",
            printed(faster, 1.5, faster >= 1.5) + ("" if faster >= 1.5 else " (**missed**)"),
        ]
        cells += [printed(size, 1.01, size <= 1.01, 3) + ("" if size <= 1.01 else " (**missed**)")]
        rows.append(_row([entry["label"], *cells]))
    table = "\n".join(rows)
    host, software = result["host"], result["software"]
    return f"""# Writing RNTuples from memory

Generated by `make bench-ntuple-writing` from
[{name}](../../benches/results/{name}), which holds every raw value.

`flat` has 50 columns of floats, `esd` 30 columns of `std::vector<float>`. Both programs use their defaults for pages
and clusters. Times are those of the fastest of {result["rounds"]} interleaved rounds, each in a separate process. ROOT
writes with its parallel writer and a fill context for each thread; its time does not include filling the values. The
written files were read back and compared.
Bounds: 1.5 times as fast as ROOT with two threads, files at most 1 % larger.

{table}

Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, sapwood {software.get("sapwood", "")} at {software["commit"][:12]}.
"""


NTUPLE = {
    "root-loop": "ROOT, `LoadEntry`",
    "root-bulk": "ROOT, `ReadBulk`",
    "uproot": "uproot",
    "limit": "limit",
    "sapwood": "sapwood, 1 thread",
    "sapwood-again": "again in one process",
    "sapwood-2": "2 threads",
    "sapwood-iterate": "iterate, 1 thread",
    "tree": "the tree, 1 thread",
}
NTUPLE_RATIOS = {
    "root / sapwood": "ROOT's faster way ÷ ours",
    "uproot / sapwood": "uproot ÷ ours",
    "sapwood / limit": "ours ÷ limit",
    "sapwood-iterate / sapwood": "iterate ÷ arrays",
    "sapwood / sapwood-2": "1 ÷ 2 threads",
    "tree / sapwood": "tree ÷ RNTuple",
}


def ntuple_table(result: dict[str, Any]) -> str:
    """Return the tables of times and of ratios of RNTuples."""
    rivals = [name for name in NTUPLE if any(name in workload["runs"] for workload in result["workloads"])]
    lines = [_row(["seconds", *(NTUPLE[name] for name in rivals)]), _row(["---", *["---:"] * len(rivals)])]
    for workload in result["workloads"]:
        times = medians(workload)
        lines.append(_row([workload["name"], *(f"{times[r]:.3f}" if r in times else "" for r in rivals)]))
    lines += ["", _row(["ratio", *NTUPLE_RATIOS.values()]), _row(["---", *["---:"] * len(NTUPLE_RATIOS)])]
    for workload in result["workloads"]:
        times = medians(workload)
        bounds = {name: (bound, met) for name, bound, _, met in verdicts(workload)}
        cells = []
        for name in NTUPLE_RATIOS:
            value = ratio(times, name)
            bound, met = bounds.get(name, ("", True))
            text = printed(value, float(bound.split()[1]) if bound else 0.0, met) if value else ""
            cells.append(text if met else f"{text} (**missed**: {bound})")
        lines.append(_row([workload["name"], *cells]))
    if shapes := result.get("shapes"):
        lines += ["", _row(["opened and read, one thread", "seconds", "at most"]), _row(["---", "---:", "---:"])]
        for shape in shapes:
            seconds = statistics.median(run["wall"] for run in shape["runs"])
            met = seconds <= shape["seconds"]
            shown = printed(seconds, shape["seconds"], met, 3) + ("" if met else " (**missed**)")
            lines.append(_row([shape["name"], shown, f"{shape['seconds']:g}"]))
    return "\n".join(lines)


def ntuple_page(result: dict[str, Any], name: str) -> str:
    """Return the page on reading RNTuples."""
    host, software = result["host"], result["software"]
    agreed = [workload["agreed"] for workload in result["workloads"]]
    pairs = sorted({pair for found in agreed for pair in found})
    compared = ", ".join(f"{pair} in {sum(found.get(pair, 0) for found in agreed)} fields" for pair in pairs)
    warnings = "\n".join(f"- {text}" for text in result["warnings"]) or "- none"
    return f"""# Reading RNTuples

Generated by `make bench-ntuple` from [{name}](../../benches/results/{name}),
which holds every raw value.

Times are medians by the clock of {result["settings"]["rounds"]} interleaved rounds after one warm-up round, with a warm
page cache. Each read runs in a new process. Its time is from opening the file to the last value, without the start of
Python or ROOT and without imports. ROOT's importer made the RNTuples from trees of the same data. The values were
compared first: {compared}.

ROOT reads all top-level fields, entry by entry (`LoadEntry`) or by clusters (`ReadBulk`); the ratio is that of the
faster method. Limit: one thread reads every page in file order and decompresses it with the best codec library. The
bounds are:

- 2.5 times as fast as ROOT;
- at most 1.25 times the limit with zstd (1.6 times for strings and short lists), 2.5 times without compression;
- two threads 1.8 times as fast as one;
- no slower than the tree;
- steps of 50 MB at most 1.3 times as long as `arrays`.

All these are first reads, with new memory. "Again in one process" is a second `arrays` after the result of the first
was deleted, and reuses its memory. It has no bound, and was measured for sapwood only.

{ntuple_table(result)}

Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, NumPy {software["numpy"]}, Awkward {software["awkward"]}, uproot {software["uproot"]},
sapwood {software["sapwood"]} at {software["commit"][:12]}.

Warnings:

{warnings}
"""


def merging_page(result: dict[str, Any], name: str) -> str:
    """Return the page on merging."""
    heads = ["", "files", "MB", "sapwood, s", "hadd, s", "hadd ÷ ours", "bound", "sapwood, MB", "hadd, MB"]
    heads += ["copy, s", "flushed copy, s", "flushed hadd, s"]
    rows = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    threads = ""
    for entry in result["results"]:
        times = medians(entry)
        peaks = {who: max(run["memory"] for run in runs) / 1e6 for who, runs in entry["runs"].items()}
        value = times["hadd"] / times["sapwood"]
        cells = [entry["label"], str(entry["files"]), f"{entry['bytes'] / 1e6:.0f}"]
        cells += [f"{times[who]:.2f}" for who in ("sapwood", "hadd")]
        met = value >= entry["target"]
        cells += [printed(value, entry["target"], met) + ("" if met else " (**missed**)"), f"≥ {entry['target']:g}"]
        over = "" if peaks["sapwood"] * 1e6 <= entry["memory"] else " (**missed**)"
        cells += [f"{peaks['sapwood']:.0f}{over}", f"{peaks['hadd']:.0f}"]
        cells += [f"{times[who]:.2f}" if who in times else "" for who in ("copy", "flushed copy", "flushed hadd")]
        rows.append(_row(cells))
        if "two threads" in times:
            gain = times["sapwood"] / times["two threads"]
            met = gain >= entry["two_threads"]
            shown = printed(gain, entry["two_threads"], met)
            threads = (
                f"\n`recompress` takes {times['two threads']:.2f} s with two threads: {shown} times as fast as with "
                f"one{'' if met else ' (**missed**)'}; the bound is {entry['two_threads']:g}.\n"
            )
    table = "\n".join(rows)
    host, software = result["host"], result["software"]
    sizes = "\nThe numbers of files are reduced (`--quick`).\n" if result["quick"] else ""
    return f"""# Merging files

Generated by `make bench-merging` from [{name}](../../benches/results/{name}),
which holds every raw value.

`sapwood merge` and ROOT's `hadd -ff` run in one process each; both copy baskets as they are stored. `recompress` is
`sapwood merge --compression zstd:5`, with one thread, and `hadd -f505`. `copy` is `cat` of the same inputs into one
file, `flushed copy` the same with a flush to the disk. Times are medians by the clock of {result["rounds"]} interleaved
rounds after one that warms up the page cache, from the start to the end of the process, imports included. Memory is
the peak of the process. `small` and `large` have an ESD-like tree, `histograms` has 2,000 histograms a file. The inputs
are links to a few distinct files. First, the values of both outputs were compared on a few inputs, and ROOT read both.
Sapwood flushes its output to the disk before it renames it; hadd does not, except for `flushed hadd`.
{sizes}
The bounds are the ratios of the table, and 512 MB of memory for these files. The memory for merging trees grows with
the number of their branches: [growth](growth.md#branches).

{table}
{threads}
Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, sapwood {software["sapwood"]} at {software["commit"][:12]}.
"""


GROWTH = {
    "files": ("files", "all files are links to one file with one branch of 10,000 entries"),
    "branches": ("branches", "10 entries each, one file; two such files are merged"),
    "entries": ("entries", "one branch of 8-bit integers, clusters of a million repeated; two such files are merged"),
    "jobs": ("jobs at once", "each reads 20 million entries {passes} times; the time until the last one ends"),
}


_NOISE = 1e6
"""Bytes of memory above which an exponent of the growth is computed."""


def _points(result: dict[str, Any], axis: str, operation: str) -> dict[int, tuple[float, float]]:
    """Return the median seconds and bytes of an operation at each point."""
    wanted = [one for one in result["results"] if (one["axis"], one["operation"]) == (axis, operation)]
    middle = {one["size"]: [statistics.median(run[what] for run in one["runs"]) for what in ("wall", "memory")]
              for one in wanted}  # fmt: skip
    return {size: (seconds, memory) for size, (seconds, memory) in middle.items()}


def _seconds(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"


def growth_check(result: dict[str, Any]) -> str:
    """Return the part on measured jobs and the predictions from one and two jobs."""
    check, cores = result["check"], result["host"]["cpus"]
    rows = [_row(["jobs at once", "measured, s", "predicted, s", "off by"]), _row(["---:"] * 4)]
    for count, one in check["times"].items():
        off = f"{100 * (one['predicted'] / one['measured'] - 1):+.0f} %".replace("-", "−")
        given = int(count) <= cores
        rows.append(_row([count, f"{one['measured']:.2f}", f"{one['predicted']:.2f}", "given" if given else off]))
    return (
        "### Prediction and measurement\n\n"
        f"If {cores} processors are independent, time does not grow up to {cores} jobs, and grows in proportion\n"
        f"for more. Two jobs did the work of {check['processor'][1]:.2f} jobs in the time of one. From this and the\n"
        "cost of one job, `sapwood lab predict` predicts the time of more jobs:\n\n" + "\n".join(rows)
    )


SITE_CORES = 1_000


def growth_site(result: dict[str, Any], trains: tuple[dict[str, Any], str] | None) -> str:
    """Return the part that extrapolates the curves to a site of 1,000 cores."""
    site, cores = result["site"], SITE_CORES
    job, curves = site["job"], site["curves"]
    files = {one: _points(result, "files", one) for one in ("open", "plan", "merge")}
    branches, jobs = _points(result, "branches", "merge"), _points(result, "jobs", "read")
    rows: list[list[str]] = []
    if most := files["plan"].get(100_000):
        measured = f"{most[0]:.1f} s, {most[1] / 1e6:.0f} MB in one process"
        alone = f"unless each job opens its 100 files itself: {files['open'][100][0]:.4f} s"
        rows.append(["planning 100,000 files", measured, f"all cores wait {most[0]:.1f} s, {alone}"])
    if (few := files["merge"].get(1_000)) and (two := branches.get(1_000)):
        measured = f"1,000 files of one branch: {few[0]:.2f} s, {few[1] / 1e6:.1f} MB"
        measured += f"; two files of 1,000 branches: {two[0]:.3f} s"
        carried = f"{few[0]:.2f} s with one branch, {cores / 2 * two[0]:.0f} s with 1,000 branches, on one core"
        rows.append(["merging the outputs of all jobs", measured, carried])
    alike = [run for one in result["results"] if one["axis"] == "jobs" for run in one["runs"] if "before" in run]
    if alike and jobs:
        base, own = statistics.median(run["before"] for run in alike), max(memory for _, memory in jobs.values())
        measured = f"{base / 1e6:.0f} MB of Python with its imports, at most {own / 1e6:.0f} MB for steps of 10 MB"
        carried = f"{cores * (base + own) / 1e9:.0f} GB on all cores"
        rows.append(["memory of a core", f"{measured}, with {min(jobs)} to {max(jobs)} jobs", carried])
    for kind in ("processes", "dask") if trains else ():
        record, name = trains or ({}, "")
        about, link = record["overhead"][kind], f"[result](../../benches/results/{name})"
        carried = (
            f"with steps of 1 s: {about['cpu ms'] / 10:.2f} % of the cores; if all of it were in the coordinating "
        )
        carried += f"process, this process would be busy for {about['ms'] * cores / 10:.0f} % of the time"
        measured = f"{about['ms']:.2f} ms, {about['cpu ms']:.2f} ms of the processor ({link})"
        rows.append([f"the engine for a step ({kind})", measured, carried])
    checked = "Only the prediction for jobs on one machine was checked (above)."
    checked = checked if result.get("check") else "Nothing here checks the prediction."
    table = [_row(["what", "measured", f"for {cores:,} cores"]), _row(["---"] * 3), *map(_row, rows)]
    heads = [
        _row(["jobs", *(f"storage of {int(rate) / 1000:g} GB/s" for rate in curves)]),
        _row(["---:"] * (1 + len(curves))),
    ]
    rates = [
        _row([count, *(f"{curve[count] / 1000:.2f} GB/s" for curve in curves.values())])
        for count in next(iter(curves.values()))
    ]
    return (
        f"## A site of {cores:,} cores\n\nThe table extrapolates the curves above to jobs on {cores:,} cores:\n\n"
        + "\n".join(table)
        + "\n\n"
        "The next table has the rates that `sapwood lab predict` gives for jobs that each read\n"
        f"{job['files']} files of {job['file']:.2f} MB with one million entries each. Measured here are\n"
        f"{job['open']:.2f} ms to open a file and {1e6 * job['decoding']:.1f} ns an entry. The rate of the storage\n"
        "and the independence of the cores are assumptions. Jobs share only the storage, which limits the largest\n"
        f"number of jobs in each column. {checked}\n\n" + "\n".join([*heads, *rates])
    )


def growth_page(result: dict[str, Any], name: str, trains: tuple[dict[str, Any], str] | None = None) -> str:
    """Return the page on growth; `trains` is a result with the cost of a step in the engine."""
    parts = []
    for axis, (word, about) in GROWTH.items():
        what = about.format(passes=result.get("passes", 1)).replace(" 1 times", "")
        found = {one: _points(result, axis, one) for one in ("open", "plan", "read", "merge")}
        found = {one: points for one, points in found.items() if points}
        sizes = sorted({size for points in found.values() for size in points})
        heads = [word, *(head for one in found for head in (f"{one}, s", "exponent", "MB", "exponent"))]
        rows = [_row(heads), _row(["---:"] * len(heads))]
        for size in sizes:
            cells = [f"{size:,}"]
            for points in found.values():
                if size not in points:
                    cells += ["not measured", "", "", ""]
                    continue
                seconds, memory = points[size]
                before = max((one for one in points if one < size), default=None)
                powers = ["", ""]
                if before is not None:
                    old_seconds, old_memory = points[before]
                    powers[0] = f"{math.log(seconds / old_seconds) / math.log(size / before):.2f}"
                    if min(memory, old_memory) > _NOISE:
                        powers[1] = f"{math.log(memory / old_memory) / math.log(size / before):.2f}"
                cells += [_seconds(seconds), powers[0], f"{memory / 1e6:.1f}", powers[1]]
            rows.append(_row(cells))
        parts.append(f"## {word.capitalize()}\n\n{what[0].upper()}{what[1:]}.\n\n" + "\n".join(rows))
    if result.get("check"):
        parts.append(growth_check(result))
    if result.get("site"):
        parts.append(growth_site(result, trains))
    host, software = result["host"], result["software"]
    body = "\n\n".join(parts)
    origin = ""
    if older := result.get("older"):
        of, by = older["host"], older["software"]["commit"][:12]
        axes = ", ".join(GROWTH[axis][0] for axis in older["axes"])
        origin = (
            f"\nThe curves of {axes} are from [{older['file']}](../../benches/results/{older['file']}): {of['cpu']},\n"
            f"{of['cpus']} CPUs, Linux {of['kernel']}, sapwood at {by}. Their times are medians of\n"
            f"{older['rounds']} rounds, or of one round if it takes over {older['budget'] / 10:g} s.\n"
        )
    return f"""# Growth

Generated by `make bench-growth` from [{name}](../../benches/results/{name}),
which holds every raw value.

This page shows how the time and memory of opening, planning, reading and merging grow with the number of files,
branches, entries and jobs. Each operation runs in a separate process with one thread; imports are not counted. Times
are medians of {result["rounds"]} rounds, or of one round if it takes over {result["budget"] / 10:g} s. Memory is the
growth of the peak of the process. Each exponent compares a point with the previous one: 1 is linear growth. Exponents
of memory are computed above 1 MB. Points that would take over {result["budget"]:g} s were not measured.
{origin}
Opening counts entries or lists branches. Planning is `explain` of all branches; for many files it is `merge` with
`dry_run`, which reads the keys and trees of all files. Reading is `arrays` of all branches; for many entries it is
`iterate` in steps of 10 MB.

{body}

Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, sapwood {software["sapwood"]} at {software["commit"][:12]}.
"""


def site_figure(result: dict[str, Any]) -> str:
    """Return the picture of the rates that jobs get from each storage."""
    from sapwood.lab.studies.page import figure_alone

    (figure,) = (one for one in result["figures"] if one["title"].startswith("all branches, sapwood: events, by"))
    return figure_alone(figure, legend=True)


def site_page(result: dict[str, Any], name: str) -> str:
    """Return the page on concurrent jobs on several storages."""
    from sapwood.lab.studies.site.findings import findings_of

    tables = {table["title"]: table for table in result["tables"]}
    rates = [table for title, table in tables.items() if title.endswith(", all branches")]
    shares = tables["Where time goes"]
    wanted = [row for row in shares["rows"] if ", as is, all branches" in row[0]]
    parts: list[str] = []
    for table in rates:
        head = ["jobs", *table["head"][1:]]
        parts += [f"### {table['title']}", "", _row(head), _row(["---:"] * len(head)), *map(_row, table["rows"]), ""]
    where = [_row(shares["head"]), _row(["---", *["---:"] * (len(shares["head"]) - 1)]), *map(_row, wanted)]
    # From the raw values, so that the sentences fit the tables.
    findings = [f"- {text}" for text in findings_of(result) if "as is" not in text and "to open" not in text]
    warnings = [f"- `{one['code']}`: {one['where']}" for one in result["warnings"]]
    host, facts = result["host"], next(iter(result["files"].values()))["as is"]
    lines, size = "\n".join, facts["file_bytes"] / 1e6
    return f"""# Many jobs on several storages

Generated by `make bench-site` from [{name}](../../benches/results/{name}), which holds every raw value. It is
the result of one [`sapwood lab site`](../guide/laboratory.md#lab-site) (`--quick`) over three storages, all on one
machine: files on the local disk, an XRootD server behind a proxy that adds 20 ms of latency, and a redirector with
three XRootD servers. Each job is a process on one thread that reads {facts["files"]} ESD-like files of {size:.1f} MB
with {facts["events"]:.0f} events each, all branches, and fills 20 histograms.

Before each run, the system was asked to drop local files from the page cache;
servers were not. The servers and the proxy take processor time from the jobs.

![Events a second against jobs, for each storage](site.svg)

## Rates

The tables have medians of MB/s of stored bytes, and of events a second. `raw` and `direct` read whole files without
decoding them; `processor` is the rate at which zlib decompresses data in memory.

{lines(parts)}
## Where time goes

{lines(where)}

## Findings

{lines(findings)}

## Warnings

{lines(warnings)}

Machine: {host["processor"]}, {host["cores_usable"]} CPUs, load {result["load"]:.1f} at the start.
sapwood {result["versions"]["sapwood"]} at {result["commit"][:12]}, ROOT {result["programs"].get("root", "–")}.
"""


def middle(runs: list[dict[str, Any]], what: str) -> float:
    """Return the median of one figure over the runs that have it."""
    return statistics.median(run[what] for run in runs if what in run)


def remote_runs(results: list[dict[str, Any]]) -> dict[tuple[str, float, str], dict[str, list[dict[str, Any]]]]:
    """Return the finished runs of each reader, by scheme, latency and choice of branches."""
    rows: dict[tuple[str, float, str], dict[str, list[dict[str, Any]]]] = {}
    for result in results:
        done = [run for run in result["runs"] if "wall" in run]
        place = (result["scheme"], result["latency_ms"], result["branches"])
        if done:
            rows.setdefault(place, {})[result["rival"]] = done
    return rows


def remote_table(results: list[dict[str, Any]]) -> str:
    """Return the table of a result of remote.py: median seconds, ratios to sapwood, requests, MB."""
    rivals = list(dict.fromkeys(result["rival"] for result in results))
    lines = [_row(["", "latency", "branches", *rivals]), _row(["---", "---:", "---", *["---:"] * len(rivals)])]
    for (scheme, latency, branches), found in remote_runs(results).items():
        cells: list[str] = []
        for rival in rivals:
            runs = found.get(rival)
            if runs is None:
                cells.append("–")
                continue
            wall, (size, over) = middle(runs, "wall"), (middle(runs, what) / 1e6 for what in ("bytes", "over_read"))
            beside = rival != "sapwood" and "sapwood" in found
            times = f" ({wall / middle(found['sapwood'], 'wall'):.1f} ×)" if beside else ""
            cells.append(f"{wall:.2f} s{times}; {middle(runs, 'requests'):g}; {size:.1f}, {over:.1f}")
        lines.append(_row([f"`{scheme}`", f"{latency:g} ms", branches, *cells]))
    return "\n".join(lines)


def latencies_table(results: list[dict[str, Any]], latency: float) -> str:
    """Return the table of how many latencies each reader waited for one after another."""
    rivals = list(dict.fromkeys(result["rival"] for result in results))
    lines = [_row(["", "branches", *rivals]), _row(["---", "---", *["---:"] * len(rivals)])]
    for (scheme, at, branches), found in remote_runs(results).items():
        if at == latency:
            cells = [f"{middle(found[rival], 'latencies'):g}" if rival in found else "–" for rival in rivals]
            lines.append(_row([f"`{scheme}`", branches, *cells]))
    return "\n".join(lines)


def _loading(results: list[dict[str, Any]]) -> str:
    """Return the time in which each reader loads modules and libraries at first use."""
    found: dict[str, list[float]] = {}
    for result in results:
        found.setdefault(result["rival"], []).extend(run["loading"] for run in result["runs"] if "loading" in run)
    return ", ".join(f"{rival} {statistics.median(times):.2f} s" for rival, times in found.items() if times)


def _repeated(results: list[dict[str, Any]]) -> str:
    """Return the least and the largest number of rounds of a result of remote.py."""
    counts = [len(result["runs"]) for result in results]
    return f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(max(counts))


def overlap_section(result: dict[str, Any], name: str) -> str:
    """Return the part of the page about remote files that a result of overlap.py makes."""
    head = ["clusters", "MB", "reading alone, s", "with the task, s", "ratio", "smallest, largest ratio"]
    rows = [_row(head), _row(["---:"] * len(head))]
    for one in result["results"]:
        ratios = [run["both"] / run["reading"] for run in one["rounds"]]
        rows.append(_row([
            str(one["clusters"]), f"{one['size'] / 1e6:.1f}",
            *(f"{middle(one['rounds'], what):.2f}" for what in ("reading", "both")),
            f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}, {max(ratios):.2f}",
        ]))  # fmt: skip
    host, software = result["host"], result["software"]
    return f"""## Overlap with work

A file is read over HTTP in steps of a cluster, with {result["latency_ms"]:g} ms of latency and
{result["bandwidth_mb_s"]:g} MB/s. For each step, a task takes as much processor time as reading the step took by the
clock. The ratio is the time of reading and task together, divided by the time of reading alone: medians of
{len(result["results"][0]["rounds"])} rounds of `benches/overlap.py` ([this result](../../benches/results/{name})). No
task runs while the file is opened and the first cluster is read.

{chr(10).join(rows)}

Load {host["load"]:.1f} at the start; sapwood at {software["commit"][:12]}.
"""


def tracing_section(result: dict[str, Any], name: str) -> str:
    """Return the part of the page about remote files that a result of tracing.py makes."""
    lines: list[str] = []
    for one in result["results"]:
        (low, on, high), (least, again, most) = one["ratios"]["on"], one["ratios"]["off again"]
        lines.append(
            f"- `{one['file']}`: with a trace {on:.3f} times as much as without one (half of the rounds between "
            f"{low:.3f} and\n  {high:.3f}), without one {again:.3f} times ({least:.3f} to {most:.3f}) as much as "
            f"without one again. The trace has\n  {one['rows']:,} rows."
        )
    return f"""## What a trace costs

Processor time of reading all of a tree from the local disk, medians of {result["rounds"]} rounds of
`benches/tracing.py` ([this result](../../benches/results/{name})):

{chr(10).join(lines)}
"""


def remote_page(
    result: tuple[dict[str, Any], str],
    small: tuple[dict[str, Any], str] | None,
    overlap: tuple[dict[str, Any], str] | None,
    tracing: tuple[dict[str, Any], str] | None,
) -> str:
    """Return the page on remote files, of results with their names."""
    main, name = result
    host, software = main["host"], main["software"]
    parts = [remote_table(main["results"])]
    if small is not None:
        again, where = small
        at = sorted({one["latency_ms"] for one in again["results"]})
        parts.append(
            f"The same with clusters of {again['cluster_size']}, which files for other uses often have, at\n"
            f"{', '.join(f'{latency:g}' for latency in at)} ms ({_repeated(again['results'])} rounds, "
            f"[this result](../../benches/results/{where})):\n\n{remote_table(again['results'])}"
        )
    latency = min((one["latency_ms"] for one in main["results"]), key=lambda one: abs(one - 50))
    parts.append(
        f"## Latencies one after another\n\nThe proxy counted these latencies at {latency:g} ms, including those "
        "of the connection:\n\n" + latencies_table(main["results"], latency)
    )
    parts.append("""\
- For few branches, `root://` takes four latencies: connecting; login, opening and the start of the file; the end of the
  file with the directory; the baskets. ROOT writes the record of the tree at the end of the file, and the length of the
  file is known only from the answer to opening it. Over HTTP, the end comes with the first answer.
- The over-read bytes are the start of the file and a guess of its end. Reading them saves requests.
- Without latency, the processors limit the reads of all branches and of sparse ranges: they decode, receive, and work
  for the server and the proxy.
- Sparse ranges are read by one plan (`"steps"`): each basket is requested once.
- ROOT's wheels do not read `http://`.""")
    if overlap is not None:
        parts.append(overlap_section(*overlap).rstrip())
    if tracing is not None:
        parts.append(tracing_section(*tracing).rstrip())
    body = "\n\n".join(parts)
    return f"""# Reading over a network

Generated by `make bench-remote` from [{name}](../../benches/results/{name}),
which holds every raw value.

The file has {main["size"] / 1e6:.0f} MB and a tree of {main["branches"]} branches and {main["clusters"]} clusters.
Four choices are read: all branches, five branches, one branch, and a thousandth of the entries of all branches at each
of five places (sparse).

- A proxy adds the latency. The proxy and the server share the processors with the readers.
- Each read runs in a separate process. Its time is from opening the file to having all values, without the time in
  which a library loads its parts at first use ({_loading(main["results"])}). All values were compared first.
- Each cell has the median seconds of {_repeated(main["results"])} rounds (in brackets, how many times as long as
  sapwood), the requests that read, the MB received, and how many of these were not requested (over-read).
- "root" is ROOT with its default cache, "root-tuned" ROOT with a cache of 128 MiB that knows all branches in advance.

{body}

Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, sapwood {software["sapwood"]} at {software["commit"][:12]}.
"""


def newest(pattern: str) -> tuple[dict[str, Any], str] | None:
    """Return the newest kept result whose name matches, with its name."""
    found = sorted((TOP / "benches" / "results").glob(pattern))
    return (json.loads(found[-1].read_text()), found[-1].name) if found else None


def kept_pages() -> dict[Path, str]:
    """Return all pages, from the newest kept results."""
    found: dict[Path, str] = {}
    results = TOP / "benches" / "results"
    if reading := sorted(results.glob("reading-*.json")):
        found |= pages(json.loads(reading[-1].read_text()), reading[-1])
    if writing := sorted(results.glob("writing-*.json")):
        text = writing_page(json.loads(writing[-1].read_text()), writing[-1].name)
        found[TOP / "docs" / "performance" / "writing.md"] = text
    if writing := sorted(results.glob("ntuple-writing-*.json")):
        text = ntuple_writing_page(json.loads(writing[-1].read_text()), writing[-1].name)
        found[TOP / "docs" / "performance" / "ntuple-writing.md"] = text
    if merging := sorted(results.glob("merging-*.json")):
        text = merging_page(json.loads(merging[-1].read_text()), merging[-1].name)
        found[TOP / "docs" / "performance" / "merging.md"] = text
    if growth := sorted(results.glob("growth-*.json")):
        text = growth_page(json.loads(growth[-1].read_text()), growth[-1].name, newest("trains-*.json"))
        found[TOP / "docs" / "performance" / "growth.md"] = text
    if site := sorted(results.glob("site-*.json")):
        kept = json.loads(site[-1].read_text())
        found[TOP / "docs" / "performance" / "site.md"] = site_page(kept, site[-1].name)
        found[TOP / "docs" / "performance" / "site.svg"] = site_figure(kept)
    if ntuple := sorted(results.glob("ntuple-2*.json")):
        text = ntuple_page(json.loads(ntuple[-1].read_text()), ntuple[-1].name)
        found[TOP / "docs" / "performance" / "ntuple.md"] = text
    if remote := newest("remote-2*.json"):
        text = remote_page(remote, newest("remote-1mb-*.json"), newest("overlap-*.json"), newest("tracing-*.json"))
        found[TOP / "docs" / "performance" / "remote.md"] = text
    return found


def main() -> int:
    """Write the documents from the newest kept results; --check only compares."""
    old = []
    for path, text in kept_pages().items():
        if not path.exists() or path.read_text() != text:
            old.append(str(path.relative_to(TOP)))
            if "--check" not in sys.argv:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    if "--check" in sys.argv and old:
        print(f"differs from the newest results: {', '.join(old)}; run benches/report.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
