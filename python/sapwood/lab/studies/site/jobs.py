"""The jobs of `sapwood lab site`: processes that read at the same time, and where their time goes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import SapwoodError
from sapwood.lab.children import job
from sapwood.lab.cold import forget
from sapwood.lab.studies.site.cases import (
    FEW,
    LIMITS,
    PRIOR,
    PROCESSOR,
    TASKS,
    TRAIN,
    TURN,
    Case,
    jobs_text,
)
from sapwood.lab.studies.site.stock import Stock
from sapwood.lab.studies.study import JobError, Study
from sapwood.threads import start_thread

if TYPE_CHECKING:
    from typing_extensions import Self


LAUNCH = "ssh -o BatchMode=yes {host}"
"""The command that starts a job on another host; the command of the job follows."""
_THREADS = {"SAPWOOD_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_SETTINGS = ["env", "--unset=SAPWOOD_BLOCK_CACHE", *(f"{name}={value}" for name, value in _THREADS.items())]
"""A prefix of that command, if the environment of this process does not reach it."""
_LOOK = 0.01  # seconds between two samples of jobs with threads
_SPANS = ("decompression", "decoding", "task")


class Runner:
    """Start jobs, send them the start signal at the same time, and add up their results."""

    def __init__(
        self, stock: Stock, engines: Mapping[str, Sequence[str]], sizes: Mapping[str, int], hosts: Sequence[str] = (),
        launch: str = LAUNCH,
    ) -> None:  # fmt: skip
        self._stock, self._engines, self._sizes = stock, engines, sizes
        self._launchers = [shlex.split(launch.replace("{host}", host)) for host in hosts] or [[]]
        self._elsewhere, self._able = bool(hosts), False
        self._checks: dict[tuple[str, str, str, int], tuple[str, int, float]] = {}

    def measure(self, case: Case) -> dict[str, Any]:
        """Run the jobs of a case once.

        Raises
        ------
        JobError
            A job failed. All jobs of the case have ended.
        SapwoodError
            The first job cannot start, or engines read different values.
        """
        together = {TRAIN: [range(TASKS)], TURN: [[number] for number in range(TASKS)]}.get(case.task, [[0]])
        runs = [self._together(case, tasks) for tasks in together]
        said, wall = [one for answers, _, _ in runs for one in answers], sum(took for _, took, _ in runs)
        figures = {name: sum(one.get(name) or 0.0 for one in said) for one in said for name in one}
        figures |= {"wall": wall, "job": figures["wall"] / case.jobs, "spread": figures.get("spread", 0.0) / len(said)}
        figures["events"] //= len(runs)  # each task read all of them
        if case.engine != "raw" and case.engine not in LIMITS:
            # In a tree with nested branches, engines do not have the same first branch.
            checked = self._stock.flat and all(one["check"] is not None for one in said)
            self._compare(case, int(figures["events"]), figures["check"] if checked else math.nan)
            figures["compared"] = checked
        facts = self._stock.facts(case.data, case.variant, case.jobs)
        if case.engine == "raw" or case.engine in LIMITS:
            moved = figures["bytes"]
            figures["events"] = moved / facts["file_bytes"] * facts["events"]
        else:
            moved = len(runs) * case.jobs * facts["files"] * facts["few" if case.task == FEW else "stored"]
        codes = {code for _, _, found in runs for code in found} | (
            {"server-cache"} if self._stock.far(case.data) else set()
        )
        warnings = [] if case.engine == PROCESSOR else sorted(codes)
        return {
            **figures,
            "stored": moved,
            "value": moved / wall / 1e6,
            "events_per_second": figures["events"] / wall,
            "warnings": warnings,
        }

    def _together(self, case: Case, tasks: Sequence[int]) -> tuple[list[dict[str, Any]], float, list[str]]:
        """Run the jobs once with their tasks; return results, the time, and warnings for files still in memory."""
        lists = self._stock.files(case.data, case.variant)[: case.jobs]
        with contextlib.ExitStack() as stack:
            running: list[Job] = []
            for place, files in enumerate(lists):
                launcher = self._launchers[place % len(self._launchers)]
                command = [*(_SETTINGS if launcher else ()), *self._engines[case.engine]]
                if launcher and Path(launcher[0]).name == "ssh":
                    command = [shlex.join(command)]  # for the shell of the host
                command = [*launcher, *command]
                running.append(Job(command, self._specification(case, files, tasks)))
                stack.callback(running[-1].end)
            ready = [words.split() for words in self._answers(case, running)]
            self._able = True
            # ROOT's jobs do not drop files from the page cache.
            kept = case.engine == "root" or any(words != [job.READY] for words in ready)
            warnings = ["page-cache-not-dropped"] * kept
            if not self._elsewhere:
                warnings = forget([Path(path) for files in lists for path in files if not job.far(path)])
            start = time.perf_counter()
            for one in running:
                one.say("go\n")
            with Watch([one.pid for one in running]) as watch:
                said = [json.loads(words) for words in self._answers(case, running)]
            for one, answer in zip(running, said, strict=True):
                if answer.pop("threads", False) and not self._elsewhere:
                    idle = answer["wall"] * watch.waiting(one.pid, start + answer["wall"])
                    answer["queued"] = max(answer["wall"] - answer["user"] - answer["system"] - idle, 0.0)
            return said, time.perf_counter() - start, warnings

    def _answers(self, case: Case, running: Sequence[Job]) -> list[str]:
        """Wait for the next line of all jobs.

        Raises
        ------
        JobError
            Some jobs failed. The others have answered.
        SapwoodError
            No job of this study has started yet.
        """
        answers, failures = list[str](), list[str]()
        for one in running:
            try:
                answers.append(one.answer())
            except JobError as error:
                failures.append(str(error))
        if not failures:
            return answers
        if not self._able:
            raise SapwoodError(f"a job failed ({case.what}, {case.engine}): {failures[0]}")
        raise JobError(f"{len(failures)} of {jobs_text(len(running))} failed: {'; '.join(dict.fromkeys(failures))}")

    def _specification(self, case: Case, files: Sequence[str], tasks: Sequence[int]) -> str:
        tree = self._stock.tree_of(case.variant)
        few = self._stock.few(case.data) if case.task == FEW else []
        ahead = self._sizes.get(case.variant.removeprefix("read ahead "))
        if case.engine == "root":
            cache = -1 if ahead is None else ahead
            return "\n".join([tree, str(cache), *map(str, tasks), "", *few, "", *files, "", ""])
        spec = {"engine": case.engine, "files": files, "tree": tree, "branches": few or None, "tasks": list(tasks)}
        spec |= {"train": case.task in (TRAIN, TURN), "read_ahead": ahead, "prior": case.variant == PRIOR}
        spec |= {"forget": self._elsewhere}  # only the reading host knows the content of its memory
        return json.dumps(spec) + "\n"

    def _compare(self, case: Case, events: int, check: float) -> None:
        """Check that all engines find the same events and sums in the same files."""
        key = case.data, case.variant, case.task, case.jobs
        engine, count, total = self._checks.setdefault(key, (case.engine, events, check))
        same = math.isclose(check, total, rel_tol=1e-6) or not (math.isfinite(check) and math.isfinite(total))
        if count != events or not same:
            raise SapwoodError(
                f"{case.what}: {case.engine} finds {events} events, sum {check:g}; {engine} {count}, {total:g}"
            )


class Watch:
    """A sampler of whether any thread of a process is ready to work.

    The system reports how long a single thread queued for a processor. The times of several threads cannot be added up:
    one may work while another queues, and the time of a thread that has ended is lost.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._seen: dict[int, list[tuple[float, bool]]] = {pid: [] for pid in pids}
        self._begin, self._over = time.perf_counter(), threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        start_thread(self._thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        took = 0.0
        while not self._over.wait(max(_LOOK, 50 * took)):  # the sampler must not disturb the jobs
            start, before = time.perf_counter(), time.thread_time()
            for pid, seen in self._seen.items():
                if (ready := _ready(pid)) is not None:
                    seen.append((start, ready))
            took = time.thread_time() - before  # processor time: waiting for a processor does not disturb the jobs

    def waiting(self, pid: int, end: float) -> float:
        """Return the fraction of the time in which no thread of a process was ready; 0 without a sample.

        Each sample counts for the time since the previous one: samples are rarer when processors are busy.
        """
        before, idle, whole = self._begin, 0.0, 0.0
        for when, ready in self._seen[pid]:
            if when < end:
                idle, whole, before = idle + (when - before) * (not ready), whole + when - before, when
        return idle / whole if whole else 0.0


def _ready(pid: int) -> bool | None:
    """Return whether a thread of a process works or queues for a processor; None if the system does not report it."""
    states: list[str] = []
    for path in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # the thread has just ended
            states.append(path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0])
    return "R" in states if states else None


class Job:
    """The process of a job, which answers line by line."""

    def __init__(self, command: Sequence[str], text: str) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by end)
        environment = {**os.environ, **_THREADS}
        environment.pop("SAPWOOD_BLOCK_CACHE", None)  # measures storage, not a block cache
        # In a session of its own, as batch systems start jobs: some systems share processors among sessions.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment,
            start_new_session=True,
        )  # fmt: skip
        self.say(text)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def say(self, text: str) -> None:
        """Send a message to the process."""
        with contextlib.suppress(BrokenPipeError):  # the missing answer reports the failure
            stream: Any = self._process.stdin
            stream.write(text)
            stream.flush()

    def answer(self) -> str:
        """Wait for the next line of the process.

        Raises
        ------
        JobError
            The process ended without a whole line.
        """
        stream: Any = self._process.stdout
        line = stream.readline()
        if line.endswith("\n"):
            return line
        code = self._process.wait()
        ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._errors.seek(0)
        said = self._errors.read().strip().splitlines()
        raise JobError(", ".join([ended] * (code < 0 or not said) + said[-1:]))

    def end(self) -> None:
        """End the process, whether it is done or not."""
        self._process.kill()
        with contextlib.suppress(BrokenPipeError):  # of unsent messages
            self._process.communicate()
        self._errors.close()


def layers(study: Study, case: Case) -> dict[str, float]:
    """Return the shares of a job's time in the last run, by `LAYERS`; they add up to 1.

    The system counts the time of a processor for the job, and the time in the queue for one. In the rest of the time,
    the job waited for storage. sapwood's counters only divide the processor time. Their spans also contain queueing,
    which is taken out in proportion. The uncovered part (Python, copies of the data) is ``other``.
    """
    system = by_the_system(study, case)
    works, active = system["processor"], system["processor"] + system["queue"]
    whole = (study.figure(case.what, case.engine, "job") or 0.0) * case.jobs or 1.0
    spans = {name: float(study.figure(case.what, case.engine, name) or 0.0) / whole for name in _SPANS}
    shares = {name: span * works / active if active else 0.0 for name, span in spans.items()}
    opening = float(study.figure(case.what, case.engine, "open") or 0.0) / whole
    shares = {"open": opening, **shares}
    most = sum(shares.values())
    if most > works:  # clocks differ a little, and decompression during the opening of a file counts twice
        shares = {name: share * works / most for name, share in shares.items()}
    rest = max(0.0, works - sum(shares.values()))
    return {"waiting": system["waiting"], "queue": system["queue"], **shares, "other": rest}


def by_the_system(study: Study, case: Case) -> dict[str, float]:
    """Return the shares of a job's time in the last run: working, in the queue for a processor, and waiting."""
    job_time, user, system, queued = (
        study.figure(case.what, case.engine, name) or 0.0 for name in ("job", "user", "system", "queued")
    )
    whole = job_time * case.jobs or 1.0
    processor = min((user + system) / whole, 1.0)
    queue = min(queued / whole, 1 - processor)
    return {"processor": processor, "queue": queue, "waiting": 1 - processor - queue}
