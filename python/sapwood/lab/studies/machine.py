"""`sapwood lab machine`: the speed of memory, system and processor of a machine."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sapwood import _native
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.lab.children.probe import CODECS
from sapwood.lab.studies.study import Frame, Step, Study, read, scratch
from sapwood.show.units import binary_text, number_text, seconds_text, value_text
from sapwood.train.account.record import host

SECONDS, QUICK_SECONDS = 0.5, 0.12
QUICK_ARRAY = 128 << 20
"""Maximum bytes of each array of the compiled kernels: without optimisation they are slow."""
KILO, MEGA = 1 << 10, 1 << 20
SIZES = (4 * KILO, 16 * KILO, 64 * KILO, 256 * KILO, MEGA, 4 * MEGA, 16 * MEGA, 64 * MEGA, 256 * MEGA)
QUICK_SIZES = (16 * KILO, 256 * KILO, 4 * MEGA, 128 * MEGA)
STREAM = ("STREAM copy", "STREAM scale", "STREAM add", "STREAM triad")
KERNELS = {
    "integer": "M steps/s", "float": "M steps/s", "histogram filling": "M fills/s", "track finding": "events/s",
}  # fmt: skip
SYSTEM = {
    "null call": "null system call",
    "signal install": "signal, install a handler",
    "signal": "signal, deliver",
    "fork": "process, fork and exit",
    "exec": "process, fork and exec",
    "shell": "process, by a shell",
    "pipe": "pipe, there and back",
    "udp": "UDP, there and back",
    "tcp": "TCP, there and back",
    "rpc udp": "RPC over UDP",
    "rpc tcp": "RPC over TCP",
}
OPTIONS = {
    "opt-level 0": ["-Copt-level=0"], "opt-level 1": ["-Copt-level=1"], "opt-level 2": ["-Copt-level=2"],
    "opt-level 3": ["-Copt-level=3"], "native": ["-Copt-level=3", "-Ctarget-cpu=native"],
}  # fmt: skip
OURS = "sapwood"


@dataclass
class _Probe:
    """A process that measures several values in one run; the values are returned one after the other."""

    command: Sequence[str]
    names: Sequence[str]
    units: Sequence[str]
    engine: str = OURS
    _left: dict[int, float] = field(default_factory=dict[int, float])

    def steps(self) -> list[Step]:
        return [
            Step(name, self.engine, unit, lambda place=place: {"value": self._value(place)})
            for place, (name, unit) in enumerate(zip(self.names, self.units, strict=True))
        ]

    def _value(self, place: int) -> float:
        if place not in self._left:
            done = subprocess.run(
                self.command,
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "SAPWOOD_NUM_THREADS": "1"},
            )
            if done.returncode:
                last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
                raise SapwoodError(f"the probe of {self.names[place]} failed: {last}")
            self._left = dict(enumerate(json.loads(done.stdout)))
        return self._left.pop(place)


def run(
    folder: str | os.PathLike[str],
    *,
    folders: Sequence[str] = (),
    label: str = "",
    store: str | os.PathLike[str] | None = None,
    rounds: int = 3,
    quick: bool = False,
    fresh: bool = False,
    progress: Callable[[int, int, str], None] | None = None,
    budget: float | None = None,
    reference: str | os.PathLike[str] | None = None,
) -> tuple[Study, dict[str, Path]]:
    """Run the study.

    Parameters
    ----------
    folder
        The folder for the result.
    folders
        Folders in which files are created and removed, one for each file system to measure. Default: `folder`, the
        folder for temporary files, and memory, if they are different file systems.
    label
        The name of the machine and its settings in a store; the host name by default.
    store
        A folder of results of machines, for `sapwood lab scaling`. The result is copied there.
    rounds, quick, fresh, progress
        Number of rounds; shorter, with fewer sizes; start again; a function that is called at each step.

    Raises
    ------
    ArgumentError
        A folder does not exist, the label is not a file name, or the result is from another machine.
    SapwoodError
        A probe failed.
    """
    for one in folders:
        if not Path(one).is_dir():
            raise ArgumentError(f"the folder {one} does not exist")
    if label and Path(label).name != label:
        raise ArgumentError(f"a label must be the name of a file in the store, not {label!r}")
    last, array = last_cache(), stream_array()
    settings = {"label": label or _host_name(), "last_cache": last, "folders": list(folders), "rounds": rounds}
    frame: Frame = {"budget": budget, "reference": reference}
    study = Study("machine", {**settings, "quick": quick}, folder, fresh=fresh, progress=progress, **frame)
    study.content["caches"] = caches()
    with scratch(folder, "machine") as own:
        named = {one: one for one in folders} or _file_systems(folder)
        probes = _probes(named, str(own), array, quick=quick)
        probes += _compiled(study, own, min(array, QUICK_ARRAY) if quick else array, quick=quick)
        probes += _db12(study)
        study.run([step for probe in probes for step in probe.steps()], rounds)
    sizes = QUICK_SIZES if quick else SIZES
    written = study.finish(
        tables=_tables(study, sizes),
        figures=_figures(study, sizes),
        findings=_findings(study, sizes),
        tiles=_tiles(study, sizes),
    )
    if store is not None:
        written["store"] = _keep(study, Path(store), str(settings["label"]))
    return study, written


def _file_systems(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Return a folder on each file system of the result, of temporary files, and of memory.

    They are named by their purpose, not by their path: measurements then have the same names in all results.
    """
    found: dict[int, tuple[str, str]] = {}
    known = {"result": str(folder), "temporary files": tempfile.gettempdir(), "memory": "/dev/shm"}
    for name, one in known.items():
        if os.access(one, os.W_OK):
            found.setdefault(Path(one).stat().st_dev, (name, one))
    return dict(found.values())


def _same(path: Path, study: Study) -> bool:
    return read(path)["started"] == study.content["started"]


def _keep(study: Study, store: Path, label: str) -> Path:
    """Copy a result into a store. If another result has the label, append the next number to it."""
    store.mkdir(parents=True, exist_ok=True)
    names = itertools.chain([label], (f"{label}-{number}" for number in itertools.count(2)))
    free = (path for path in (store / f"{name}.json" for name in names) if not path.exists() or _same(path, study))
    kept = next(free)
    shutil.copyfile(study.path, kept)
    return kept


def caches() -> dict[str, int]:
    """Return the bytes of the data caches that the system reports, by level: ``L1``, ``L2``, ..."""
    found: dict[str, int] = {}
    for path in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError):
            level, kind, size = (
                (path / name).read_text(encoding="ascii").strip() for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                found[f"L{level}"] = int(size[:-1]) * {"K": KILO, "M": MEGA}.get(size[-1:], 1)
    return found


def last_cache() -> int:
    """Return the bytes of the largest cache that the system reports; 32 MiB if it reports none."""
    return max(caches().values(), default=32 * MEGA)


def stream_array() -> int:
    """Return the bytes of each of STREAM's three arrays: four times the last cache, at most an eighth of the memory.

    Virtual machines report the cache of their whole host, and may have little memory compared with it.
    """
    return min(4 * last_cache(), host()["memory"] // 8 or 4 * last_cache())


def _host_name() -> str:
    return str(host()["name"])


def _probe(
    name: str,
    names: Sequence[str],
    units: Sequence[str],
    seconds: float,
    size: int = 0,
    count: int = 0,
    folder: str = ".",
) -> _Probe:
    words = [name, str(size), str(count), folder, str(seconds)]
    return _Probe([sys.executable, "-m", "sapwood.lab.children.probe", *words], names, units)


def _probes(folders: Mapping[str, str], own: str, array: int, *, quick: bool) -> list[_Probe]:
    seconds = QUICK_SECONDS if quick else SECONDS
    probes = [_probe("stream", STREAM, ["MB/s"] * 4, 2 * seconds, size=array)]
    for size in QUICK_SIZES if quick else SIZES:
        units = {"read": "MB/s", "write": "MB/s", "copy": "MB/s", "latency": "ns"}
        probes += [_probe(name, [_sized(name, size)], [unit], seconds, size=size) for name, unit in units.items()]
    probes += [_probe(name, [text], ["µs"], seconds, folder=own) for name, text in SYSTEM.items()]
    for count in (2, 8):
        for size in (0, 16 * KILO, 64 * KILO):
            probes.append(_probe("switch", [_switch(count, size)], ["µs"], seconds, size=size, count=count))
    probes.append(_probe("pipe bandwidth", ["pipe bandwidth"], ["MB/s"], seconds))
    for name, folder in folders.items():
        for size in (0, 10 * KILO):
            names = [f"files of {size // KILO} KiB, {what}, {name}" for what in ("create", "delete")]
            probes.append(
                _probe("files", names, ["1/s"] * 2, seconds, size=size, count=500 if quick else 4000, folder=folder)
            )
    probes += [_probe(name, [name], [unit], seconds) for name, unit in KERNELS.items()]
    for codec in CODECS:
        if codec == "none":
            probes.append(_probe("reading none", ["decoding"], ["MB/s"], seconds, folder=own))
        else:
            probes.append(_probe(f"reading {codec}", [f"decompression {codec}"], ["MB/s"], seconds, folder=own))
    return probes


def _sized(name: str, size: int) -> str:
    return f"{name} {binary_text(size)}"


def _switch(count: int, size: int) -> str:
    return f"context switch, {count} processes, {size // KILO} KiB"


def _compiled(study: Study, own: Path, array: int, *, quick: bool) -> list[_Probe]:
    """Compile the kernels with each of the options, if there is a Rust compiler."""
    compiler = shutil.which("rustc")
    if compiler is None:
        study.leave_out("compiler options", "there is no Rust compiler (rustc)")
        return []
    for name, text in _native.lab_sources():
        (own / name).write_text(text, encoding="utf-8")
    probes: list[_Probe] = []
    for option, words in OPTIONS.items():
        study.tell(f"compiling the kernels with {option}")
        program = own / option.replace(" ", "-")
        command = [compiler, "--edition=2024", *words, "-o", str(program), str(own / "main.rs")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            line = (done.stderr.strip().splitlines() or ["no message"])[0]
            study.leave_out(option, f"cannot compile the kernels: {line}")
            continue
        seconds = QUICK_SECONDS if quick else SECONDS
        units = [*KERNELS.values(), *["MB/s"] * 4]
        probes.append(_Probe([str(program), str(seconds), str(array)], [*KERNELS, *STREAM], units, option))
    return probes


def _db12(study: Study) -> list[_Probe]:
    """Run DB12, if it is installed."""
    if importlib.util.find_spec("db12") is None:
        study.leave_out("DB12", "the package DB12 is not installed")
        return []
    return [_probe("db12", ["DB12"], ["DB12"], 0.0)]


def _rows(study: Study, whats: Sequence[str]) -> list[list[str]]:
    units = {(m["what"], m["engine"]): m["unit"] for m in study.content["measurements"]}
    found = [(what, study.median(what, OURS)) for what in whats]
    return [[what, value_text(value, units[what, OURS])] for what, value in found if value is not None]


def _named(study: Study, words: Sequence[str]) -> list[str]:
    names = [m["what"] for m in study.content["measurements"] if m["engine"] == OURS]
    return [name for name in names if name.startswith(tuple(words))]


def _tables(study: Study, sizes: Sequence[int]) -> list[dict[str, Any]]:
    def table(title: str, whats: Sequence[str], caption: str = "") -> dict[str, Any]:
        return {"title": title, "head": [title, "median"], "rows": _rows(study, whats), "caption": caption}

    blocks: list[list[str]] = []
    for size in sizes:
        values = [study.median(_sized(name, size), OURS) or 0.0 for name in ("read", "write", "copy", "latency")]
        blocks.append([_sized("", size).strip(), *(f"{value:.0f}" for value in values[:3]), number_text(values[3], 3)])
    memory = {
        "title": "Memory by size", "head": ["Block", "read MB/s", "write MB/s", "copy MB/s", "latency ns"],
        "rows": blocks,
        "caption": "One core. Latency is for loads in random order; each load waits for the one before.",
    }  # fmt: skip
    last, array = study.content["settings"]["last_cache"], stream_array()
    rule = "four times the last-level cache"
    if array < 4 * last:
        rule = f"an eighth of the memory, because four times the last-level cache of {binary_text(last)} does not fit"
    tables = [
        table(
            "STREAM",
            STREAM,
            f"Arrays of {binary_text(array // MEGA * MEGA)}, {rule}. One core, the best of many runs, MB of 10⁶ bytes.",
        ),
        memory,
        table(
            "System",
            [*SYSTEM.values(), *_named(study, ["context switch"]), "pipe bandwidth"],
            "One core; µs of one operation.",
        ),
        table("Files", _named(study, ["files"])),
        table("Computing", [*KERNELS, "decoding", *_named(study, ["decompression", "DB12"])]),
    ]
    options = [option for option in OPTIONS if study.median("integer", option) is not None]
    if options:
        rows = [
            [what, unit, *(number_text(study.median(what, option) or 0.0, 3) for option in options)]
            for what, unit in {**KERNELS, **dict.fromkeys(STREAM, "MB/s")}.items()
        ]
        caption = "Rates; the same source, compiled by rustc."
        tables.append(
            {"title": "Compiler options", "head": ["Kernel", "unit", *options], "rows": rows, "caption": caption}
        )
    return tables


def _figures(study: Study, sizes: Sequence[int]) -> list[dict[str, Any]]:
    values = {(m["what"], m["engine"]): m["values"] for m in study.content["measurements"]}

    def curve(name: str) -> dict[str, Any]:
        points = [[size, study.median(_sized(name, size), OURS) or 0.0] for size in sizes]
        return {"label": name, "points": points}

    def bars(title: str, names: Mapping[str, str], unit: str, label: str) -> dict[str, Any]:
        groups = [
            [text, {OURS: [study.median(what, OURS), min(values[what, OURS]), max(values[what, OURS])]}]
            for what, text in names.items()
        ]
        return {"kind": "bars", "title": title, "engines": [OURS], "unit": unit, "label": label, "groups": groups}

    borders = study.content.get("caches", {})
    sized = {"kind": "lines", "x": "Size of a block", "log": "xy", "binary": True, "borders": borders}
    bandwidth = {
        **sized,
        "title": "Bandwidth",
        "y": "Bandwidth [MB/s]",
        "curves": [curve(n) for n in ("read", "write", "copy")],
    }
    latency = {**sized, "title": "Latency", "y": "Latency [ns]", "curves": [curve("latency")]}
    switches = {
        "kind": "lines", "title": "Context switch", "x": "Working set [KiB]", "y": "Time [µs]",
        "curves": [
            {"label": f"{n} processes", "points": [[k, study.median(_switch(n, k * KILO), OURS)] for k in (0, 16, 64)]}
            for n in (2, 8)
        ],
    }  # fmt: skip
    short = {name: name.partition(" ")[2] for name in _named(study, ["decompression"])}
    figures = [
        bars("STREAM", {name: name.partition(" ")[2] for name in STREAM}, "MB/s", "Bandwidth [MB/s]"),
        bandwidth,
        latency,
        switches,
        bars("Processes", {SYSTEM[n]: SYSTEM[n] for n in ("fork", "exec", "shell")}, "µs", "Time [µs]"),
        bars(
            "Channels", {SYSTEM[n]: SYSTEM[n] for n in ("pipe", "udp", "tcp", "rpc udp", "rpc tcp")}, "µs", "Time [µs]"
        ),
        bars("Decompression", short, "MB/s", "Bytes decompressed [MB/s]"),
    ]
    options = [option for option in OPTIONS if study.median("integer", option) is not None]
    if "opt-level 3" in options:
        groups: list[list[Any]] = []
        for what in (*KERNELS, *STREAM):
            whole = study.median(what, "opt-level 3") or 1.0
            found = {option: values[what, option] for option in options}
            shown = {
                o: [(study.median(what, o) or 0.0) / whole, min(v) / whole, max(v) / whole] for o, v in found.items()
            }
            groups.append([what, shown])
        label = "Rate, opt-level 3 = 1"
        figures.append(
            {
                "kind": "bars",
                "title": "Compiler options",
                "engines": options,
                "unit": "",
                "label": label,
                "groups": groups,
            }
        )
    return figures


_BISTABLE = 0.2
"""Range of a probe divided by its median, above which findings state no difference."""


def _tiles(study: Study, sizes: Sequence[int]) -> list[tuple[str, str]]:
    """Return the bandwidth and the latency of memory, and the decompression rate of one core."""
    large = _sized("", max(sizes)).strip()

    def text(what: str, unit: str, scale: float = 1.0) -> str:
        value = study.median(what, OURS)
        return "–" if value is None else f"{number_text(value / scale, 3)} {unit}"

    return [
        (text("STREAM triad", "GB/s", 1000), "of memory, one core (STREAM triad)"),
        (text(f"latency {large}", "ns"), f"for a load from memory, in blocks of {large}"),
        (text("decompression zstd:5", "MB/s"), "of ZSTD, decompressed by one core"),
    ]


def _findings(study: Study, sizes: Sequence[int]) -> list[str]:
    def value(what: str) -> float:
        return study.median(what, OURS) or 0.0

    def times(what: str, base: str) -> str:
        return number_text(value(what) / value(base), 3) if value(base) else "–"

    def gigabyte(what: str) -> str:
        return seconds_text(1e3 / value(what)) if value(what) else "–"

    small, large = (_sized("", size).strip() for size in (min(sizes), max(sizes)))
    call, fork, program, shell = (SYSTEM[name] for name in ("null call", "fork", "exec", "shell"))
    memory = (
        f"One core gets {value('STREAM triad') / 1000:.1f} GB/s from memory (triad); it reads blocks of {small} "
        f"{times(f'read {small}', f'read {large}')} times as fast as blocks of {large}."
    )
    waits = [number_text(value(f"latency {size}"), 2) for size in (small, large)]
    latency = f"A load from memory takes {waits[0]} ns in blocks of {small}, {waits[1]} ns in blocks of {large}."
    processes = (
        f"Starting a process takes {value_text(value(fork), 'µs')}, as long as {times(fork, call)} system calls; with "
        f"a program in it {times(program, fork)} times as long, by a shell {times(shell, fork)} times."
    )

    values = {m["what"]: m["values"] for m in study.content["measurements"] if m["engine"] == OURS}

    def added(name: str) -> str:
        call, plain = SYSTEM[f"rpc {name}"], SYSTEM[name]
        more = value(call) - value(plain)
        spread = max(max(found) - min(found) for found in (values[call], values[plain]))
        if spread > _BISTABLE * value(plain):
            return f"an amount that cannot be told to {name.upper()} (one probe varies by {number_text(spread, 2)} µs)"
        if more <= max(spread, value(plain) / 20):  # a single round has no spread
            return f"nothing measurable to {name.upper()}"
        return f"{number_text(more, 2)} µs to {name.upper()}"

    codecs = (
        f"One core decompresses 1 GB of LZMA in {gigabyte('decompression lzma:6')}, of ZSTD in "
        f"{gigabyte('decompression zstd:5')}, and decodes it in {gigabyte('decoding')}."
    )
    found = [memory, latency, processes, f"RPC adds {added('udp')} and {added('tcp')}.", codecs]
    gains = [
        (study.median(what, "native") or 0.0) / base
        for what in KERNELS
        if (base := study.median(what, "opt-level 0") or 0.0)
    ]
    if gains:
        found.append(
            f"Compiled for this processor, the kernels run {min(gains):.1f} to {max(gains):.1f} times as fast as "
            "without optimisation."
        )
    return found
