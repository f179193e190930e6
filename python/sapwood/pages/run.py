"""The report of a run as one HTML page that needs nothing but itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sized
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from sapwood.show.chart import Chart, Map, charts_of, is_histogram
from sapwood.show.html import document, escaped, machine_rows, path_cell, table, tiles
from sapwood.show.svg import ALONE, COLOURS, draw_chart, draw_map, draw_ratios, plain
from sapwood.show.units import bytes_text, count_text, noun, number_text, seconds_text, share_text
from sapwood.train import Run, TaskRecord

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_UNITS = {"threads": "thread", "processes": "process"}
_FILES_SHOWN = 20  # a longer list is folded
_ALONE = (
    ALONE + ".area{fill:currentColor;opacity:.13}.layer{fill:currentColor}.ink{color:#23201b}"
    ".one{stroke:#23201b;stroke-dasharray:4 4}"
)
"""The style of a plot that is saved as a file."""


class Drawn(NamedTuple):
    """A drawing of a run: the index of its task, a unique name, and the chart."""

    task: int
    name: str
    chart: Chart | Map


def drawings(run: Run) -> Iterator[Drawn]:
    """Return the drawings of all histograms of a run, in the order of the page. Names are fit for files."""
    taken: set[str] = set()
    for place, task in enumerate(run.tasks):
        for name, histogram in histograms_of(task.results):
            charts = charts_of(name, histogram, task.plots.get(name))
            for number, chart in enumerate(charts):
                which = f"_{number}" if len(charts) > 1 else ""
                parts = (re.sub(r"[^\w.+-]+|^[.]+", "_", text) or "_" for text in (task.name, name + which))
                file = base = "/".join(parts)
                more = 1
                while file.lower() in taken:
                    more += 1
                    file = f"{base}_{more}"
                taken.add(file.lower())
                yield Drawn(place, file, chart)


def histograms_of(results: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return all histograms among results and in dictionaries inside them, with their paths."""
    for name, value in results.items():
        if is_histogram(value):
            yield f"{prefix}{name}", value
        elif isinstance(value, Mapping):
            yield from histograms_of(value, f"{prefix}{name}/")


def render(
    run: Run, unwritten: Mapping[str, str] | None = None, pictures: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """Write the page.

    Parameters
    ----------
    run
        The finished run.
    unwritten
        Histograms that ``results.root`` does not hold, with the reason.
    pictures
        For each drawing, by its name: its pictures as paths from the page, by format.

    Returns
    -------
    str
        HTML with its style, drawings and script inside. The page links to the pictures only; without its script, it has
        all but the links that save plots.
    """
    names = ", ".join(task.name for task in run.tasks)
    body = [_header(run), _tiles(run), _interrupted(run), _taken_off(run), _notice(run), _unwritten(unwritten or {})]
    figures: dict[int, list[str]] = {}
    for drawn in drawings(run):
        identity = f"t{drawn.task}-{len(figures.get(drawn.task, ()))}"
        files = (pictures or {}).get(drawn.name, {})
        figures.setdefault(drawn.task, []).append(figure(drawn.chart, identity, drawn.name, files))
    body += [_task(task, figures.get(place, [])) for place, task in enumerate(run.tasks)]
    body += [
        _cost(run),
        _accesses(run),
        _train(run),
        _scaling(run),
        _plan(run),
        _outputs(run),
        _files(run),
        _settings(run),
    ]
    footer = (
        f"Made by sapwood {escaped(run.versions.get('sapwood', ''))}. The numbers behind this page are in "
        "<code>results.json</code>, the histograms in <code>results.root</code>."
    )
    saving = (resources.files("sapwood.show") / "saving.js").read_text(encoding="utf-8")
    script = f"<script>const STYLE = {json.dumps(_ALONE)};\n{saving}</script>"
    return document(f"{names} – sapwood run", body, footer, script if figures else "")


def _plural(count: int, word: str) -> str:
    return f"{count_text(count)} {noun(count, word)}"


def _header(run: Run) -> str:
    tasks = ", ".join(f"<code>{escaped(task.name)}</code>" for task in run.tasks)
    when = run.started.replace("T", " ").replace("+00:00", " UTC")
    return (
        f"<header><h1>{_plural(len(run.tasks), 'task')} over {_plural(len(run.files), 'file')}</h1>"
        f"<p>{tasks} · started {escaped(when)} on {escaped(run.host['name'])}</p></header>"
    )


def _tiles(run: Run) -> str:
    counters = run.counters
    return tiles([
        (count_text(run.entries), "entries" + f", {count_text(run.resumed)} by an earlier run" * bool(run.resumed)),
        (count_text(run.rate), "entries per second"),
        (seconds_text(run.time_wall), f"with {_plural(run.settings['threads'], _UNITS.get(run.executor, 'job'))}"),
        (bytes_text(counters["bytes_read"]), f"read in {_plural(counters['read_calls'], 'call')}"),
        (bytes_text(counters["bytes_decompressed"]), "decompressed"),
        *_by_index(run),
        (bytes_text(run.memory_peak) if run.memory_peak else "–", "peak memory"),
    ])  # fmt: skip


def _by_index(run: Run) -> list[tuple[str, str]]:
    passed_over = run.entries_passed_over
    if not passed_over:
        return []
    return [(count_text(passed_over), f"entries skipped by an index ({share_text(passed_over, run.entries)})")]


def _notice(run: Run) -> str:
    if not run.skipped:
        return ""
    rows = [
        [path_cell(skipped.path), _range(skipped.entry_start, skipped.entry_stop), escaped(skipped.reason)]
        for skipped in run.skipped
    ]
    return (
        f'<div class="notice"><p><strong>{_plural(len(run.skipped), "part")} of the input could not be read and '
        f"were left out.</strong> Nothing of them is in the results. {_totals(run)}</p>"
        + table(["File", "Entries", "Reason"], rows, paths=(0,))
        + "</div>"
    )


def _totals(run: Run) -> str:
    totals = run.totals()
    words = (
        f"Of {_plural(totals['entries'], 'entry')} known, {count_text(totals['processed'])} were worked on, "
        f"{count_text(totals['left_out'])} left out"
    )
    if totals["not_reached"]:
        words += f", {count_text(totals['not_reached'])} not reached"
    if totals["files_not_reached"]:
        words += f", and {_plural(totals['files_not_reached'], 'file')} not yet looked at"
    if totals["files_left_out"]:
        words += f"; how many are in the {_plural(totals['files_left_out'], 'file')} left out is not known"
    return words + "."


def _interrupted(run: Run) -> str:
    if not run.interrupted:
        return ""
    return (
        '<div class="notice"><p><strong>The run was interrupted.</strong> '
        f"These are the results so far. {_totals(run)}</p></div>"
    )


def _taken_off(run: Run) -> str:
    return "".join(
        f'<div class="notice"><p><strong>Task <code>{escaped(task.name)}</code> was removed:</strong></p>'
        f"<pre>{escaped(task.failure)}</pre></div>"
        for task in run.tasks
        if task.failure
    )


def _unwritten(unwritten: Mapping[str, str]) -> str:
    if not unwritten:
        return ""
    rows = [[escaped(name), escaped(reason)] for name, reason in unwritten.items()]
    return (
        '<div class="notice"><p><strong>Not in <code>results.root</code></strong>, '
        "only in <code>results.json</code>:</p>" + table(["Histogram", "Reason"], rows) + "</div>"
    )


def _range(start: int | None, stop: int | None) -> str:
    return "all" if start is None or stop is None else f"{count_text(start)} to {count_text(stop)}"


def _task(task: TaskRecord, figures: list[str]) -> str:
    values = list(_values(task, task.results))
    title = escaped(task.title or task.name)
    about = f"Task <code>{escaped(task.name)}</code>"
    if task.options:
        about += ", with " + ", ".join(f"{escaped(name)} = {escaped(value)}" for name, value in task.options.items())
    listed = table(["Result", "Value"], values, numbers=(1,), classes="values") if values else ""
    why = "it was removed" if task.failure else "there were no entries"
    nothing = "" if figures or values else f"<p>No results: {why}.</p>"
    plots = f'<div class="plots">{"".join(figures)}</div>' if figures else ""
    return f"<section><h2>{title}</h2><p>{about}.</p>{plots}{listed}{nothing}</section>"


def _values(task: TaskRecord, results: Mapping[str, Any], prefix: str = "") -> Iterator[list[str]]:
    """List the results that are not drawn, also those in dictionaries."""
    for name, value in results.items():
        full = f"{prefix}{name}"
        if is_histogram(value):
            if not charts_of(full, value, task.plots.get(full)):
                yield [escaped(full), f"histogram of {len(value.axes)} axes"]
        elif isinstance(value, Mapping):
            yield from _values(task, value, f"{full}/")
        else:
            yield [escaped(full), escaped(_value(value))]


def _value(value: Foreign) -> str:
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, int) and value.bit_length() > 1000:
        return f"a whole number of {count_text(value.bit_length())} bits"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return number_text(value, 6) if isinstance(value, float) else count_text(value)
    if isinstance(value, Sized) and not isinstance(value, str):
        return f"{type(value).__name__} of {count_text(len(value))}"
    return str(value)


def figure(chart: Chart | Map, identity: str, name: str = "", pictures: Mapping[str, str] | None = None) -> str:
    """Return a chart as HTML, with the control of its scale; `identity` is unique on the page.

    A chart with a `name` has links that save it under that name: those to `pictures`, and others added by a script.
    """
    draw: Any = draw_chart if isinstance(chart, Chart) else draw_map
    below = [chart.caption] if chart.caption else []
    legend = ""
    if isinstance(chart, Chart):
        curves = [(f"c{place % COLOURS}", curve) for place, curve in enumerate(chart.curves)]
        curves += [] if chart.data is None else [("ink", chart.data)]
        if any(curve.label for _, curve in curves):
            legend = (
                '<ul class="legend">'
                + "".join(
                    f'<li><i class="{colour}"></i>{escaped(plain(curve.label))} '
                    f"<small>{escaped(curve.summary)}</small></li>"
                    for colour, curve in curves
                )
                + "</ul>"
            )
        else:
            below += [curve.summary for curve in chart.curves if curve.summary]
    captions = draw_ratios(chart) if isinstance(chart, Chart) else ""
    captions += "".join(f'<p class="below">{escaped(text)}</p>' for text in below)
    title = f"<strong>{escaped(plain(chart.title))}</strong>"
    if name:
        file = escaped(name.replace("/", "-"))
        links = "".join(
            f'<a href="{quote(path)}" download="{file}.{kind}">{kind.upper()}</a>'
            for kind, path in (pictures or {}).items()
        )
        title += f'<span class="files" data-name="{file}">{links}</span>'
    if isinstance(chart, Chart) and chart.points:
        return f"<figure><figcaption>{title}{legend}</figcaption>{draw(chart, log=False)}{captions}</figure>"
    buttons = "".join(
        f'<input type="radio" name="{identity}" id="{identity}-{kind}" class="pick-{kind}"{" checked" * chosen}>'
        for kind, chosen in (("lin", not chart.log), ("log", chart.log))
    )
    labels = "".join(f'<label class="to-{kind}" for="{identity}-{kind}">{kind}</label>' for kind in ("lin", "log"))
    return (
        f'<figure>{buttons}<figcaption>{title}<span class="scale">{labels}</span>{legend}</figcaption>'
        f'<div class="lin">{draw(chart, log=False)}</div><div class="log">{draw(chart, log=True)}</div>'
        f"{captions}</figure>"
    )


def _cost(run: Run) -> str:
    counters = run.counters
    nano = 1e-9
    layers = [
        ("In calls to storage", counters["time_storage_ns"] * nano, "c5"),
        ("Decompressing", counters["time_decompression_ns"] * nano, "c1"),
        ("Decoding", counters["time_decoding_ns"] * nano, "c2"),
        *((f"Task {task.name}", task.time_cpu, "c0") for task in run.tasks),
        ("Joining results", run.time_merging, "c3"),
    ]
    known = sum(seconds for _, seconds, _ in layers)
    layers.append(("Everything else", max(0.0, run.time_cpu - known), "c7"))
    whole = sum(seconds for _, seconds, _ in layers)
    longest = max((seconds for _, seconds, _ in layers), default=0.0) or 1.0
    rows = "".join(
        f'<tr><td>{escaped(name)}</td><td class="n">{seconds_text(seconds)}</td>'
        f'<td class="n">{share_text(seconds, whole)}</td>'
        f'<td class="bar {colour}"><span style="width:{100 * seconds / longest:.1f}%"></span></td></tr>'
        for name, seconds, colour in layers
    )
    time = (
        '<div class="scroll"><table><tr><th>Time, summed over threads</th><th class="n">Time</th>'
        f'<th class="n">Share</th><th></th></tr>{rows}</table></div>'
    )
    sizes = [
        ["Size of the files", bytes_text(sum(file.size or 0 for file in run.files)), ""],
        ["Requested by the plan", bytes_text(counters["bytes_requested"]), ""],
        ["Read from storage", bytes_text(counters["bytes_read"]), _calls(counters)],
        ["Compressed baskets", bytes_text(counters["bytes_compressed"]), _plural(counters["baskets"], "basket")],
        ["Decompressed", bytes_text(counters["bytes_decompressed"]), _factor(counters)],
        ["Memory, at the start", bytes_text(run.memory_start), ""],
        ["Memory, at most", bytes_text(run.memory_peak), "resident, the whole process"],
    ]
    slots = run.settings["threads"] if run.executor == "threads" else run.slots
    busy = share_text(run.time_cpu - run.time_cpu_resumed, run.time_wall * slots)
    words = (
        f"{seconds_text(run.time_wall)} from start to end, {seconds_text(run.time_cpu)} of processor time: {busy} of "
        f"{_plural(slots, _UNITS.get(run.executor, 'job'))}. Threads waited {seconds_text(run.time_cpu_waiting)} for a "
        "processor. Storage, decompressing and decoding are timed by the "
        "clock on each thread, so that waiting for a processor counts; tasks by the processor time they used."
    )
    return (
        f"<section><h2>What the job cost</h2><p>{words}</p>{time}<h3>Bytes</h3>"
        + table(["Layer", "Size", ""], sizes, numbers=(1,), classes="values")
        + "</section>"
    )


def _accesses(run: Run) -> str:
    """Show the requests to storage of all processes, and plots where a trace is being recorded."""
    from sapwood.pages.accesses import plots, section
    from sapwood.storage.trace import Trace

    trace = Trace.so_far()
    hint = "<p>Plots of each access are here when the run is traced: <code>sapwood trace run TASK.py ...</code></p>"
    return section(run.requests, run.layers(), plots(trace) if trace is not None and len(trace) else hint)


def _calls(counters: dict[str, int]) -> str:
    calls = counters["read_calls"]
    text = f"{_plural(calls, 'call')}, {bytes_text(counters['bytes_read'] / calls)} each" if calls else "no calls"
    # A resumed run may have started before these were counted.
    troubles = (("retries", "sent again"), ("failures", "failed"))
    return text + "".join(f", {count_text(n)} {what}" for name, what in troubles if (n := counters.get(name, 0)))


def _factor(counters: dict[str, int]) -> str:
    compressed = counters["bytes_compressed"]
    return f"{counters['bytes_decompressed'] / compressed:.2f} times the compressed size" if compressed else ""


def _train(run: Run) -> str:
    rows = [
        [
            escaped(task.name),
            str(len(task.columns)),
            str(len(task.columns_alone)),
            bytes_text(task.bytes_used),
            bytes_text(task.bytes_alone),
            seconds_text(task.time_cpu),
            seconds_text(task.time_wall),
            bytes_text(task.memory_peak) if task.memory_peak else "–",
            f"{count_text(run.entries / task.time_wall)}" if task.time_wall and not task.failure else "–",
        ]
        for task in run.tasks
    ]
    columns = {name for task in run.tasks for name in task.columns}
    head = ["Task", "Columns", "for it alone", "Decoded", "for it alone", "CPU", "Wall", "Memory", "Entries/s"]
    return (
        f"<section><h2>The train</h2><p>{_plural(len(columns), 'column')} read once for all tasks, in "
        f"{_plural(run.steps, 'step')}; reading took {seconds_text(run.time_reading)}, on threads of its own. "
        "Columns and bytes “for it alone” would not have been read without that task. Memory is by how much it grew in "
        "one step, where nothing else ran beside it.</p>" + table(head, rows, numbers=range(1, 9)) + "</section>"
    )


def _scaling(run: Run) -> str:
    rows = [
        [
            escaped(worker.name),
            count_text(worker.entries),
            str(worker.leases),
            seconds_text(worker.busy),
            seconds_text(worker.cpu),
            share_text(worker.cpu, worker.busy),
            bytes_text(worker.memory_peak) if worker.memory_peak else "–",
        ]
        for worker in run.workers
    ]
    busy = sum(worker.busy for worker in run.workers)
    trace = run.trace
    lost = trace.get("lost", [])
    words = (
        f"{_plural(len(rows), 'process')} worked on {_plural(trace.get('leases', 0), 'lease')} of steps (executor "
        f"<code>{escaped(run.executor)}</code>, {run.slots} at a time): on average "
        f"{number_text(busy / run.time_wall if run.time_wall else 0.0, 3)} were worked on at once. "
        f"{trace.get('stolen', 0)} were shared with idle workers, {trace.get('repeated', 0)} repeated because they "
        f"lagged, {trace.get('retried', 0)} steps tried again; workers were lost {_plural(len(lost), 'time')}."
    )
    if run.choice:
        words += f" {escaped(run.choice)}."
    silent = [f"silent for long: {text}" for text in trace.get("silent", [])]
    gone = "".join(f"<li>{escaped(reason)}</li>" for reason in [*lost, *silent])
    lists = f"<ul>{gone}</ul>" if gone else ""
    head = ["Worker", "Entries", "Leases", "Busy", "CPU", "of busy", "Memory"]
    workers = table(head, rows, numbers=range(1, 7))
    body = f"<p>{words}</p>{lists}{_rates(run)}{_by_workers(run)}<h3>Workers</h3>{workers}"
    return f"<section><h2>Scaling</h2>{body}</section>"


def _by_workers(run: Run) -> str:
    """Set the rate beside how many steps were worked on at once, over the parts of the run."""
    parts: dict[int, list[tuple[float, float]]] = {}
    for rate, at_once in zip(run.rates, run.at_once, strict=True):
        parts.setdefault(round(at_once), []).append((rate, at_once))
    rows = []
    for number, found in sorted(parts.items()):
        rate, at_once = (sum(values) / len(found) for values in zip(*found, strict=True))
        each = count_text(rate / at_once) if number else "–"
        rows.append([str(number), share_text(len(found), len(run.rates)), count_text(rate), each])
    if not rows:
        return ""
    return "<h3>Rate by what was worked on at once</h3>" + table(
        ["At once", "of the time", "Entries/s", "for each"], rows, numbers=range(4)
    )


def _rates(run: Run) -> str:
    """Draw the rate over the time of the run."""
    most = max(run.rates, default=0.0)
    if not most:
        return ""
    width = 600 / len(run.rates)
    bars = "".join(
        f'<rect x="{place * width:.1f}" y="{100 - 100 * rate / most:.1f}" width="{width - 1:.1f}" '
        f'height="{100 * rate / most:.1f}"/>'
        for place, rate in enumerate(run.rates)
    )
    return (
        f"<figure><figcaption><strong>Entries per second over the run</strong> (at most {count_text(most)}, in "
        f"{seconds_text(run.time_wall)})</figcaption>"
        f'<svg viewBox="0 0 600 100" class="rates" role="img"><g fill="currentColor" opacity="0.6">{bars}</g></svg>'
        "</figure>"
    )


def _plan(run: Run) -> str:
    counters = run.counters
    stored = sum(file.bytes_stored for file in run.files)
    planned = sum(file.bytes_planned for file in run.files)
    rows = [
        ["Calls that looked at files", count_text(run.trace.get("looks", 0)),
         "the other files were in the catalogue" if run.settings.get("catalogue") else ""],
        ["Steps", count_text(run.steps), f"{count_text(run.entries / run.steps)} entries each" if run.steps else ""],
        ["Branches wanted, in the files", bytes_text(stored), "as stored"],
        ["The same, decompressed", bytes_text(planned), ""],
        ["Read", bytes_text(counters["bytes_read"]), share_text(counters["bytes_read"], stored) if stored else ""],
        ["Decompressed", bytes_text(counters["bytes_decompressed"]),
         share_text(counters["bytes_decompressed"], planned) if planned else ""],
    ]  # fmt: skip
    return (
        "<section><h2>The plan of reading</h2><p>What the plan wanted of the files, and what was read for it; more "
        "than all of it means that baskets were read for several steps.</p>"
        + table(["", "", ""], rows, numbers=(1,), classes="values")
        + "</section>"
    )


def _outputs(run: Run) -> str:
    rows = [
        [
            path_cell(path),
            escaped(about["task"]),
            count_text(about["entries"]),
            count_text(about["entries_read"]),
            bytes_text(about["bytes"]),
            "yes" if about["complete"] else "<strong>no</strong>",
        ]
        for path, about in run.outputs.items()
    ]
    if not rows:
        return ""
    files = table(["File", "Task", "Entries", "Of", "Size", "Whole"], rows, numbers=(2, 3, 4), paths=(0,))
    return f"<section><h2>Files written</h2>{files}</section>"


def _files(run: Run) -> str:
    rows = [
        [
            path_cell(file.path),
            escaped(file.tree),
            count_text(file.entries),
            count_text(file.processed),
            str(file.steps),
            bytes_text(file.size) if file.size is not None else "–",
        ]
        for file in run.files
    ]
    listed = table(["File", "Tree", "Entries", "Processed", "Steps", "Size"], rows, numbers=range(2, 6), paths=(0,))
    if len(rows) > _FILES_SHOWN:
        listed = f"<details><summary>{_plural(len(rows), 'file')}</summary>{listed}</details>"
    return f"<section><h2>Files</h2>{listed}</section>"


def _settings(run: Run) -> str:
    machine = [
        *machine_rows(run.host),
        *([escaped(name), escaped(version)] for name, version in run.versions.items()),
    ]
    settings = [
        [escaped(name), escaped("–" if value is None else value)]
        for name, value in run.settings.items()
        if name != "inputs"
    ]
    return (
        '<section><h2>How it was run</h2><div class="halves">'
        + table(["Host", ""], machine)
        + table(["Setting", ""], settings)
        + "</div></section>"
    )
