"""The frame of all studies: measurements, machine and warnings, in one JSON file that is written step by step."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from sapwood.errors import ArgumentError, SapwoodError
from sapwood.show.units import memory_size
from sapwood.storage.locate import local_target
from sapwood.storage.placing import opened, placed, placed_page
from sapwood.storage.texts import read_text
from sapwood.train.account.record import host, versions

if TYPE_CHECKING:
    from typing_extensions import Unpack

FORMAT, FORMAT_VERSION = "sapwood lab", 1

WARNINGS = {
    "noisy": (
        "values of one measurement differ by more than 15 % from their median",
        "stop other programs, use more rounds, compare medians",
    ),
    "too-short": (
        "the median is below 20 ms, where clock resolution and start-up matter",
        "use more events, or trust only ratios far from 1",
    ),
    "few-rounds": ("fewer than 3 values", "use three rounds or more before comparing"),
    "page-cache-not-dropped": (
        "a cold reading found part of its file in memory",
        "use a local file system, or write 3 to /proc/sys/vm/drop_caches as root between the runs",
    ),
    "server-cache": (
        "servers may have kept remote files in memory between the runs",
        "use files that were not read recently, more data than the server has memory, or one round",
    ),
    "loaded": (
        "the load of the machine was above half of its cores when the study started or resumed",
        "wait until the machine is idle",
    ),
    "failed-jobs": (
        "jobs failed, so measurements or rounds are missing",
        "find the cause in the messages of the jobs; the same command measures what is missing",
    ),
    "budget": (
        "the time budget ended before all rounds were measured",
        "allow more time, or measure less",
    ),
    "changed-source": (
        "sapwood's checkout differs from the recorded commit",
        "commit before you measure figures that you want to keep",
    ),
}
"""All warnings: code, meaning, and advice."""

NOISE = 0.1
"""Up to this relative difference between rounds, findings do not mention the rounds."""
_SPREAD, _SHORT, _ROUNDS, _NAMED = 0.15, 0.020, 3, 3
_LOCK = ".sapwood-lab"
"""The lock file in the folder of a running study."""
_CHOICE = frozenset({
    "rounds", "label", "last_cache", "engines", "jobs", "merge", "codecs", "clusters", "baskets", "splits", "streams",
    "summary", "read_ahead", "price",
})  # fmt: skip
"""Settings that choose what is measured, how often, and under which names. They do not change a single measurement.

The last-level cache sets the size of STREAM's arrays, which by its rule differs between machines.
"""

_PLACES = frozenset({"files", "file", "disks", "folders"})
"""Settings that state the places of files."""

_PARTS = ("study", "settings", "host", "load", "commit", "versions", "complete", "left_out", "measurements", "warnings")
"""Parts that the file of a study needs for resuming or comparing it."""


class JobError(SapwoodError):
    """Jobs of one measurement failed. A study records it and goes on."""


@dataclass(frozen=True)
class Step:
    """One measurement. `run` measures it once and returns its figures, among them ``value`` in the unit.

    The other figures are kept with the value. Among them, ``warnings`` are codes of `WARNINGS`.
    """

    what: str
    engine: str
    unit: str
    run: Callable[[], Mapping[str, Any]]


class Frame(TypedDict, total=False):
    """The options of all studies that change no measurement.

    After `budget` seconds, no measurement of a second or later round starts. `label` describes the measurement.
    `reference` is another result of the same study for comparison.
    """

    budget: float | None
    label: str
    reference: str | os.PathLike[str] | None


class Study:
    """A new study, or an interrupted one that resumes.

    Parameters
    ----------
    name
        The name of the study and of its command.
    settings
        The settings. A study does not resume with other settings or on another machine.
    inputs
        The paths of the measured files. A study does not resume if one of them was replaced.
    folder
        The folder for ``NAME.json`` and ``NAME.html``.
    fresh
        Start again, and ignore an existing file.
    progress
        Called at each step with the number of finished steps, the number of all steps, and the text of the next step.
        During the preparation, both numbers are 0.
    **frame
        See `Frame`.

    Raises
    ------
    ArgumentError
        The folder has a study with other settings, input files, machine or versions; or there is no round.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        folder: str | os.PathLike[str],
        *,
        inputs: Sequence[str] = (),
        fresh: bool = False,
        progress: Callable[[int, int, str], None] | None = None,
        **frame: Unpack[Frame],
    ) -> None:
        if settings.get("rounds", 1) < 1:
            raise ArgumentError(f"a study takes one round or more, not {settings['rounds']}")
        self.path: Path = Path(local_target(folder)) / f"{name}.json"
        self._tell = progress or (lambda done, steps, text: None)
        load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
        self.content: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "study": name,
            "settings": dict(settings),
            "inputs": {path: _state(path) for path in inputs},
            "host": host(),
            "load": load,
            "commit": commit(),
            "versions": versions(("numpy", "awkward", "uproot", "pyarrow", "h5py", "boost-histogram")),
            "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "complete": False,
            "left_out": {},
            "programs": {},
            "measurements": [],
            "warnings": [],
            "findings": [],
            "tables": [],
            "figures": [],
        }
        self._before: dict[str, Any] | None = None
        if self.path.exists() and not fresh:
            self._resume(read(self.path))
        self.content["label"] = frame.get("label", "")
        self._budget = frame.get("budget")
        self._reference = frame.get("reference")
        if self._reference is not None and (kind := read(self._reference)["study"]) != name:
            raise ArgumentError(f"{self._reference} is a result of lab {kind}, not of lab {name}")
        self.path.parent.mkdir(parents=True, exist_ok=True)

    @classmethod
    def kept(cls, content: Mapping[str, Any]) -> Study:
        """Return the study of a result, to look at its measurements."""
        study = cls.__new__(cls)
        study.content = dict(content)
        return study

    def _resume(self, found: dict[str, Any]) -> None:
        for part in ("study", "settings", "host", "commit", "versions"):
            # Through JSON, which turns tuples into lists.
            if found[part] != json.loads(json.dumps(self.content[part])):
                raise ArgumentError(f"{self.path} has other {part}: choose another folder, or start again with --fresh")
        for path, state in self.content["inputs"].items():
            if found.get("inputs", {}).get(path) != state:
                raise ArgumentError(
                    f"{path} is not the file that {self.path} was measured with: it was replaced or changed; "
                    "choose another folder, or start again with --fresh"
                )
        # The engines are found again, and compared when the measurements resume.
        self._before = {"left_out": found["left_out"], "programs": found.get("programs", {})}
        self.content = {**found, "left_out": {}, "programs": {}, "load": max(found["load"], self.content["load"])}

    def tell(self, text: str) -> None:
        """Report a step of the preparation."""
        self._tell(0, 0, text)

    def leave_out(self, what: str, reason: str) -> None:
        """Record an engine, a variant or compiler options that are left out, and the reason. Call it before `run`."""
        self.content["left_out"][what] = reason

    def use(self, program: str, version: str) -> None:
        """Record the version of a program that is not a Python package."""
        self.content["programs"][program] = version

    def _same_engines(self) -> None:
        """Refuse to resume with other engines, or with another version of an engine."""
        if self._before is None or not self.content["measurements"]:
            return
        came, went = (
            sorted(set(one["left_out"]) - set(other["left_out"]))
            for one, other in ((self._before, self.content), (self.content, self._before))
        )
        known = self._before["programs"]
        other = [name for name, version in self.content["programs"].items() if known.get(name, version) != version]
        if came or went or other:
            raise ArgumentError(
                f"{self.path} was measured "
                + "; ".join(
                    [f"without {name}" for name in came]
                    + [f"with {name}" for name in went]
                    + [f"with {name} {known[name]}" for name in other]
                )
                + ": choose another folder, or start again with --fresh"
            )

    def run(self, steps: Sequence[Step], rounds: int) -> None:
        """Measure each step once a round, one after the other; skip existing values.

        A round of a step whose jobs fail has no value. ``failed`` in the content names it. A study that resumes
        measures it again.

        Raises
        ------
        JobError
            The jobs of all steps failed.
        """
        self._same_engines()
        self.content["failed"] = []
        kept = {(found["what"], found["engine"]): found for found in self.content["measurements"]}
        for step in steps:
            if (step.what, step.engine) not in kept:
                new: dict[str, Any] = {
                    "what": step.what,
                    "engine": step.engine,
                    "unit": step.unit,
                    "values": [],
                    "runs": [],
                }
                kept[step.what, step.engine] = new
                self.content["measurements"].append(new)
        begun = time.monotonic()
        self.content.pop("out_of_time", None)
        for turn in range(rounds):
            for place, step in enumerate(steps):
                found = kept[step.what, step.engine]
                if len(found["values"]) > turn:
                    continue
                if turn and self._budget is not None and time.monotonic() - begun > self._budget:
                    self.content["out_of_time"] = f"round {turn + 1} of {rounds}"
                    return
                text = f"{step.what}, {step.engine}" + (f", round {turn + 1} of {rounds}" if rounds > 1 else "")
                self._tell(turn * len(steps) + place, rounds * len(steps), text)
                try:
                    figures = dict(step.run())
                except JobError as error:
                    failure = {"what": step.what, "engine": step.engine, "round": turn + 1, "text": str(error)}
                    self.content["failed"].append(failure)
                    self.save()
                    continue
                found["values"].append(figures.pop("value"))
                found["runs"].append(figures)
                self.save()
        self._tell(rounds * len(steps), rounds * len(steps), "done")
        if self.content["failed"] and not any(found["values"] for found in kept.values()):
            raise JobError(self.content["failed"][0]["text"])

    def median(self, what: str, engine: str) -> float | None:
        """Return the median of a measurement; None if there is no value."""
        return medians(self.content).get((what, engine))

    def values(self, what: str, engine: str) -> list[float]:
        """Return all values of a measurement, in the order of the rounds."""
        for found in self.content["measurements"]:
            if (found["what"], found["engine"]) == (what, engine):
                return list(found["values"])
        return []

    def figures(self, what: str, engine: str, name: str) -> list[Any]:
        """Return another figure of a measurement, in the order of the rounds; None for a run without it."""
        for found in self.content["measurements"]:
            if (found["what"], found["engine"]) == (what, engine):
                return [run.get(name) for run in found["runs"]]
        return []

    def figure(self, what: str, engine: str, name: str) -> Any:
        """Return another figure of the last run; None if there is none."""
        return next(reversed(self.figures(what, engine, name)), None)

    def finish(
        self,
        *,
        tables: Sequence[Mapping[str, Any]],
        figures: Sequence[Mapping[str, Any]],
        findings: Sequence[str],
        tiles: Sequence[tuple[str, str]] = (),
    ) -> dict[str, Path]:
        """Add the warnings, and write the file and the page.

        The first finding is the headline, with the first figure next to it. `tiles` are pairs of a value and its
        meaning.
        """
        from sapwood.lab.studies.page import render

        said = [*findings]
        if said and self.content["settings"].get("rounds") == 1:
            said = [f"Measured once: {finding}" for finding in said]
            said.append("All was measured once: the noise of these figures is not known.")
        self.content |= {"tables": list(tables), "figures": list(figures), "findings": said}
        self.content |= {"headline": said[0] if said else "", "tiles": [list(tile) for tile in tiles]}
        self.content["warnings"] = judge(self.content)
        self.content["complete"] = True
        self.save()
        if self._reference is not None:
            from sapwood.lab.studies.ratios import names_of, ratio_table

            both = [self._reference, self.path]
            names = names_of([read(path) for path in both])
            self.content["tables"].insert(0, ratio_table(compare(both), names, "Beside the reference"))
            self.save()
        page = self.path.with_suffix(".html")
        with placed_page(page) as beside:
            beside.write_text(render(self.content), encoding="utf-8")
        return {"json": self.path, "html": page}

    def save(self) -> None:
        """Write the file, completely or not at all."""
        with placed(self.path) as beside:
            beside.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")


@contextlib.contextmanager
def scratch(folder: str | os.PathLike[str], study: str) -> Generator[Path]:
    """Return a new folder for the files of a study. It is removed at the end.

    Folders of killed studies are also removed: their locks are free.
    """
    for old in Path(folder).glob(f"{study}-*/{_LOCK}"):
        with contextlib.suppress(OSError), opened(old, "ab") as file:
            _lock(file.fileno())
            shutil.rmtree(old.parent)
    with tempfile.TemporaryDirectory(dir=folder, prefix=f"{study}-") as made, (Path(made) / _LOCK).open("w") as file:
        with contextlib.suppress(OSError):  # a file system without locks: the folder is not removed after a kill
            _lock(file.fileno())
        yield Path(made)


def _lock(file: int) -> None:
    """Take the lock of a file. It is released when the process ends.

    Raises
    ------
    OSError
        Another process has the lock, or the system has no locks.
    """
    try:
        import fcntl
    except ImportError:
        raise OSError from None
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _state(path: str) -> dict[str, Any]:
    """Return the identity of a file: size and time, or the UUID of a remote file."""
    with contextlib.suppress(OSError):
        about = Path(path).stat()
        return {"bytes": about.st_size, "time": about.st_mtime_ns}
    import sapwood

    with sapwood.open({path: None}) as file:
        return {"uuid": str(file.uuid)}


def judge(content: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the warnings for the measurements, each with its advice."""
    found: list[tuple[str, str]] = []
    # "derived" marks values of another study, or values that were not measured.
    measurements = [one for one in content["measurements"] if not one.get("derived")]
    if measurements and content["load"] > content["host"]["cores_usable"] / 2:
        found.append(("loaded", f"load {content['load']:.1f} on {content['host']['cores_usable']} cores"))
    found += [
        ("failed-jobs", f"{one['what']}, {one['engine']}, round {one['round']}: {one['text']}")
        for one in content.get("failed", ())
    ]
    if content.get("out_of_time"):
        found.append(("budget", f"the study ended in {content['out_of_time']}"))
    if str(content["commit"]).endswith("+"):
        found.append(("changed-source", content["commit"]))
    for measured in measurements:
        name, values = f"{measured['what']}, {measured['engine']}", measured["values"]
        if not values:
            continue
        middle = statistics.median(values)
        spread = max(abs(value - middle) for value in values) / middle if middle else 0.0
        if len(values) < _ROUNDS:
            found.append(("few-rounds", name))
        elif spread > _SPREAD:
            found.append(("noisy", f"{name}: up to {100 * spread:.0f} %"))
        times = values if measured["unit"] == "s" else [run["wall"] for run in measured["runs"] if "wall" in run]
        if times and (time := statistics.median(times)) < _SHORT:
            found.append(("too-short", f"{name}: {1000 * time:.2g} ms"))
        said = {code for run in measured["runs"] for code in run.get("warnings", ())}
        found += [(code, name) for code in sorted(said)]
    by_code: dict[str, list[str]] = {}
    for code, where in found:
        by_code.setdefault(code, []).append(where)
    return [
        {"code": code, "text": WARNINGS[code][0], "where": _listed(where), "advice": WARNINGS[code][1]}
        for code, where in by_code.items()
    ]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return "; ".join(names[:_NAMED]) + (f"; and {more} more" if more > 0 else "")


def medians(content: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    """Return the median of each measurement of a study, by (what, engine)."""
    return {(m["what"], m["engine"]): statistics.median(m["values"]) for m in content["measurements"] if m["values"]}


def parse_cache(text: str) -> int:
    """Return the size of a cache in bytes; 0, of any unit, turns the cache off.

    Raises
    ------
    ArgumentError
        The text is not a size.
    """
    try:
        return memory_size(text)
    except TypeError as error:
        raise ArgumentError(f"{text!r} is not the size of a cache, such as '30 MB' or '0 MB'") from error


def ratio_text(ratio: float, rounds: Sequence[float], digits: int = 1) -> str:
    """Return a ratio of medians as text, with the range of single rounds if they differ by more than `NOISE`."""
    low, high = min(rounds), max(rounds)
    text = f"{ratio:.{digits}f} ×"
    if (1 - NOISE) * ratio <= low and high <= (1 + NOISE) * ratio:
        return text
    return f"{text} ({low:.{digits}f} to {high:.{digits}f} by the round)"


def clear(ratios: Sequence[float]) -> bool:
    """Return whether all rounds agree on the larger of two values."""
    return min(ratios) > 1 or max(ratios) < 1


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a study.

    Raises
    ------
    ArgumentError
        The file does not exist, or is not the result of a study.
    """
    try:
        content = json.loads(read_text(path))
    except FileNotFoundError:
        raise ArgumentError(f"the study {path} does not exist") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ArgumentError(f"{path} is not a study of sapwood lab")
    if (found := content.get("format_version")) != FORMAT_VERSION:
        raise ArgumentError(f"{path} is of format {found}; this version reads {FORMAT_VERSION}")
    if lacking := [part for part in _PARTS if part not in content]:
        raise ArgumentError(f"{path} is an incomplete study of sapwood lab: it lacks {', '.join(lacking)}")
    return content


def commit() -> str | None:
    """Return the commit of the running checkout, with ``+`` if it has changes; None for an installed package."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        if git("ls-files", Path(__file__).name):
            return git("rev-parse", "HEAD") + "+" * bool(git("status", "--porcelain", "--untracked-files=no"))
    return None


def compare(paths: Sequence[str | os.PathLike[str]]) -> dict[str, Any]:
    """Compare studies of one kind: the medians of their common measurements, and the ratios to the first study.

    - ``clear``: whether a difference passes the rule of `differs`
    - ``other_settings``: the settings that differ, with the value in each study
    - ``alike``: whether each study measured the same work as the first. Settings that only choose the measurements or
      places may differ, but then the files that were read must be alike.
    - ``missing``: the measurements that only some studies have, with the numbers of these studies, from 1

    Raises
    ------
    ArgumentError
        There are fewer than two studies, or they are of different kinds.
    """
    studies = [read(path) for path in paths]
    if len(studies) < 2:
        raise ArgumentError("a comparison takes two studies or more")
    kinds = {study["study"] for study in studies}
    if len(kinds) > 1:
        raise ArgumentError(f"studies of different kinds cannot be compared: {', '.join(sorted(kinds))}")
    first = studies[0]
    names = sorted({name for study in studies for name in study["settings"]})
    settings = {name: [study["settings"].get(name) for study in studies] for name in names}
    settings = {name: values for name, values in settings.items() if any(value != values[0] for value in values)}
    same_work = [values for name, values in settings.items() if name not in (*_CHOICE, *_PLACES)]
    facts = [_facts(study) for study in studies]
    named = [{(m["what"], m["engine"]): m for m in study["measurements"] if m["values"]} for study in studies]
    rows: list[dict[str, Any]] = []
    for key, measured in named[0].items():
        if not all(key in other for other in named):
            continue
        values = [other[key]["values"] for other in named]
        middles = [statistics.median(one) for one in values]
        rows.append(
            {
                "what": key[0],
                "engine": key[1],
                "unit": measured["unit"],
                "medians": middles,
                "ratios": [middle / middles[0] if middles[0] else None for middle in middles],
                "clear": [differs(values[0], one) for one in values],
            }
        )
    return {
        "study": first["study"],
        "files": [str(path) for path in paths],
        "hosts": [study["host"]["name"] for study in studies],
        "commits": [study["commit"] for study in studies],
        "complete": [study["complete"] for study in studies],
        # An incomplete study has no warnings yet.
        "warnings": [study["warnings"] if study["complete"] else judge(study) for study in studies],
        "other_settings": settings,
        "alike": [
            all(values[place] == values[0] for values in same_work) and _same_facts(facts[0], facts[place])
            for place in range(len(studies))
        ],
        "rows": rows,
        "missing": [
            {"what": key[0], "engine": key[1], "in": [place for place, one in enumerate(named, 1) if key in one]}
            for key in dict.fromkeys(key for one in named for key in one)
            if not all(key in one for one in named)
        ],
    }


def differs(first: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether two measurements differ by more than noise.

    Both need three values or more. Their ranges must not overlap. Their medians must differ by more than the sum of
    both ranges, and by more than 5 %. For two measurements of the same thing with three values each, the ranges alone
    do not overlap in 10 % of cases. This rule is wrong in about 1 %.
    """
    if min(len(first), len(other)) < _ROUNDS:
        return False
    middles = statistics.median(first), statistics.median(other)
    apart = abs(middles[0] - middles[1])
    ranges = max(first) - min(first) + max(other) - min(other)
    overlap = max(first) >= min(other) and max(other) >= min(first)
    return not overlap and apart > ranges and apart > NOISE / 2 * min(middles)


def _facts(study: Mapping[str, Any]) -> dict[str, float]:
    """Return the known facts of the files that a study read, without their names: number, sizes and entries."""
    facts = {
        f"{data} {name}": float(value)
        for data, variants in study.get("files", {}).items()
        for name, value in variants.get("as is", {}).items()
    }
    sizes = [state["bytes"] for state in study.get("inputs", {}).values() if "bytes" in state]
    return facts | ({"inputs": float(len(sizes)), "bytes": float(sum(sizes))} if sizes else {})


def _same_facts(first: Mapping[str, float], other: Mapping[str, float]) -> bool:
    """Return whether files agree to 1 % in the facts that both studies have."""
    return all(abs(first[name] - other[name]) <= 0.01 * abs(first[name]) for name in first.keys() & other.keys())


def comparison_text(compared: Mapping[str, Any]) -> str:
    """Return a comparison as lines of text; ``~`` marks ratios that are not clear, ``!`` other settings."""
    from sapwood.show.text import layout
    from sapwood.show.units import value_text

    count = len(compared["files"])
    head = ["", "", *(f"{place}: {Path(*Path(file).parts[-2:])}" for place, file in enumerate(compared["files"], 1))]
    head += [f"ratio {place + 1}" for place in range(1, count)]
    rows = [head]
    for row in compared["rows"]:
        ratios = [
            f"{'' if alike else '!'}{'' if clear else '~'}{ratio:.2f}" if ratio is not None else "–"
            for ratio, clear, alike in list(zip(row["ratios"], row["clear"], compared["alike"], strict=True))[1:]
        ]
        shown = [value_text(value, row["unit"]) for value in row["medians"]]
        rows.append([row["what"], row["engine"], *shown, *ratios])
    text = ""
    for name, values in compared["other_settings"].items():
        text += f"Settings differ: {name}: {' | '.join(map(str, values))}\n"
    if not all(compared["alike"]):
        text += "Ratios marked ! are between studies that did not measure the same.\n"
    text += "\n" * bool(text) + layout(rows, right=range(2, 2 * count + 1))
    if not compared["rows"]:
        text += "No measurement is in all of the studies.\n"
    for one in compared["missing"]:
        text += f"only in {', '.join(map(str, one['in']))}: {one['what']}, {one['engine']}\n"
    for place, file in enumerate(compared["files"]):
        state = "" if compared["complete"][place] else ", INCOMPLETE: interrupted or still running"
        commit = compared["commits"][place] or "an installed package"
        text += f"\n{place + 1}: {file}, on {compared['hosts'][place]}, commit {commit}{state}\n"
        text += "".join(f"   warning: {w['code']}: {w['where']}\n" for w in compared["warnings"][place])
    return text


def summary_text(content: Mapping[str, Any], written: Mapping[str, Path]) -> str:
    """Return a study as lines of text: tables, findings, warnings, and the paths of the result."""
    from sapwood.show.text import layout

    parts: list[str] = []
    for table in content["tables"]:
        rows = [table["head"], *table["rows"]]
        parts.append(f"{table['title']}\n{layout(rows, right=range(1, len(table['head'])))}")
    parts += [f"- {finding}\n" for finding in content["findings"]]
    parts += [f"left out: {engine} ({reason})\n" for engine, reason in content["left_out"].items()]
    parts += [f"warning: {w['code']}: {w['where']}; {w['advice']}\n" for w in content["warnings"]]
    return "\n".join(parts) + "\n" + "\n".join(str(path) for path in written.values()) + "\n"
