"""Clusters of Dask, on this machine or in a batch system, as executors of trains."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from importlib import import_module
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any

from sapwood.errors import ArgumentError, MissingPackageError, SapwoodError, SapwoodWarning, one_line, stacklevel
from sapwood.train.execution.executors import WorkerLostError, usable_cores
from sapwood.train.execution.preload import script
from sapwood.train.task.tasks import described

if TYPE_CHECKING:
    from sapwood.columns import Foreign


_WORD, _PATIENCE = 10.0, 300.0
"""Seconds after the loss of all workers until a warning is issued, and until the run ends."""
_FIRST_WORD = 60.0
"""Seconds without a first worker after which a warning is issued."""
_TRIES = 3
"""Number of times that the jobs of a batch system may end before their workers connect."""
_GAP = 30.0
"""Seconds without a look at the workers after which the time without them is counted from zero."""
_ASKED_AGAIN = 30.0
"""Seconds after which lost workers are requested again. Dask takes 15 s to detect a lost worker."""
_GONE = "the Dask scheduler is gone"


class Dask:
    """Workers of a Dask cluster, whose number may change.

    Parameters
    ----------
    client
        A `distributed.Client`, a cluster, or the address of a scheduler. A client that is given is left open.
    most
        Maximum number of workers of an adaptive cluster, which grows with the number of waiting calls.
    asked
        Number of requested workers.
    refused
        Error messages of the batch system for jobs that it refused.
    patience
        Seconds without any worker after which the run ends with an error. None: the value of Dask's setting
        ``distributed.scheduler.no-workers-timeout``, or else 300, and no limit for batch systems. The run always waits
        without a limit for the first worker, unless `patience` or the setting of Dask is given. With Slurm, the limit
        after the loss of all workers is also 300 if all nodes that its jobs could use are down or drained.
    """

    name = "dask"
    remote = True
    lease_seconds = 0.5

    def __init__(
        self, client: Foreign, *, name: str = "dask", owned: Foreign = None, most: int = 0, asked: int = 1,
        refused: Sequence[str] = (), patience: float | None = None,
    ) -> None:  # fmt: skip
        distributed = _distributed()
        _check_patience(patience)
        self.name = name
        self._given = _patience() if patience is None else patience
        own = None if name in QUEUES else _PATIENCE
        self._patience = own if self._given is None else self._given
        self._most = most
        self._asked = asked
        self._refused, self._known_refused = refused, 0
        self._owned = owned
        self.cores = usable_cores() if owned is not None and name == "dask" and not most else 0
        self._mine = not isinstance(client, distributed.Client)
        try:
            self._client = distributed.Client(client, set_as_default=False) if self._mine else client
        except OSError as error:
            raise SapwoodError(f"the Dask scheduler {client} cannot be reached: {one_line(error)}") from error
        self._calls: dict[str, Any] = {}
        self._keys: dict[Future[Any], str] = {}
        self._packed: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._prefix = f"sapwood-{os.getpid()}-{id(self):x}"
        self._slots = (0.0, 1, 1)
        self._seen: dict[str, None] = {}
        self._last = 0.0  # last time with a worker, by the monotonic clock; 0 before the first
        self._told = False  # whether the loss of all workers was reported
        self._had = 0  # maximum number of workers so far
        self._sent = 0.0  # last time that workers were requested again
        self._made = self._looked = self._counted = time.monotonic()
        self._ended = 0  # number of batch jobs that ended before their workers connected
        self._asked_nodes = -_ASKED_AGAIN  # last time that Slurm was asked for its nodes

    @property
    def adaptive(self) -> bool:
        """Whether the number of workers follows the work."""
        return self._most > 0

    def departed(self) -> list[str]:
        """Return the workers that were lost since the last call. Dask has given their work to others."""
        there = self._client.scheduler_info(n_workers=-1).get("workers", {})
        if not self._seen.keys() <= there.keys():
            # Ask again: the client's view of its scheduler may be incomplete for a moment.
            time.sleep(0.2)
            there = {**there, **self._client.scheduler_info(n_workers=-1).get("workers", {})}
        gone = [address for address in self._seen if address not in there]
        self._seen = dict.fromkeys(there)
        return [f"Dask worker {address} is gone" for address in gone]

    @property
    def per_process(self) -> int:
        """Maximum number of threads of a worker."""
        return self._workers()[1]

    @property
    def slots(self) -> int:
        """Number of threads of all workers; queried once a second, or ten times while requested workers are missing."""
        return self._workers()[0]

    @property
    def window(self) -> int:
        """One waiting call for each thread, or for each worker that an adaptive cluster may have."""
        return 2 * max(self.slots, self._most)

    def _workers(self) -> tuple[int, int]:
        when, slots, most = self._slots
        # A worker may start, take work and be lost within a second.
        if time.monotonic() - when > (1 if len(self._seen) >= self._asked else 0.1):
            if self._client.status in ("closing", "closed"):
                raise SapwoodError(_GONE)
            there = self._client.scheduler_info(n_workers=-1).get("workers", {})
            self._seen.update(dict.fromkeys(there))
            self._miss(len(there))
            self._replace_jobs([str(worker.get("name", "")) for worker in there.values()])
            found = [worker["nthreads"] for worker in there.values()]
            slots, most = max(sum(found), 1), max(found, default=1)
            self._slots = (time.monotonic(), slots, most)
        return slots, most

    def _miss(self, there: int) -> None:
        """Request lost workers of our own cluster again. Without any worker, warn and wait for a limited time.

        Before the first worker, wait without limit by default: jobs may be in a queue. If the batch system refuses all
        jobs, raise an error.
        """
        if len(self._refused) > self._known_refused:
            why = f"{self.name} does not take jobs of workers: {self._refused[-1]}"
            if not there and len(self._refused) >= self._asked:
                raise SapwoodError(why)
            if not self._known_refused:
                warnings.warn(why, SapwoodWarning, stacklevel())
            self._known_refused = len(self._refused)
        now, self._had = time.monotonic(), max(self._had, there)
        if self._owned is not None and not self._most and there < self._had and now - self._sent > _ASKED_AGAIN:
            self._sent = now
            self._owned.scale(**{"jobs" if self.name in QUEUES else "n": self._asked})
        if there or now - self._looked > _GAP:  # else a run begins, or the program was busy
            self._last, self._made, self._told = now, now, False
        self._looked = now
        if there:
            return
        away = now - (self._last if self._had else self._made)
        limit = self._patience if self._had else self._given
        if limit is None and self._had and away > _PATIENCE and now - self._asked_nodes > _ASKED_AGAIN:
            self._asked_nodes = now
            if self._slurm_says()[1]:
                limit = _PATIENCE
        state = f"all workers of {self.name} are gone" if self._had else f"{self.name} has no workers yet"
        if away > (_WORD if self._had else _FIRST_WORD) and not self._told:
            self._told = True
            hint = " (its jobs may wait in the queue, or fail: see their logs)" if self.name in QUEUES else ""
            until = "without a time limit" if limit is None else f"for {max(limit - away, 0):.0f} s more"
            text = f"{state}; the run waits {until} for {'others' if self._had else 'the first'}{hint}"
            text += self._slurm_says()[0]
            warnings.warn(text, SapwoodWarning, stacklevel())
        if limit is not None and away > limit:
            none = f"no {'other' if self._had else 'worker'} came within {limit:.0f} s"
            raise WorkerLostError(f"{state}, and {none}{self._slurm_says()[0]}")

    def _slurm_says(self) -> tuple[str, bool]:
        """Return the states of the jobs and of nodes that are not available, as the end of a message.

        Also return whether Slurm has none of the nodes that the jobs could use.
        """
        if self.name != "slurm":
            return "", False
        workers = dict(getattr(self._owned, "workers", {})).values()
        jobs = [str(job) for one in workers if (job := getattr(one, "job_id", None))]
        return _state_of_slurm(jobs)

    def _replace_jobs(self, there: Sequence[str]) -> None:
        """Submit Slurm jobs again if they ended before their workers connected: Dask would wait for these forever.

        Without any worker so far, raise an error if this happens repeatedly. `there` has the names of the workers.
        """
        now, cluster = time.monotonic(), self._owned
        if self.name != "slurm" or len(there) >= max(self._asked, self._most) or now - self._counted < _ASKED_AGAIN:
            return
        self._counted = now
        jobs = {str(name): getattr(job, "job_id", None) for name, job in dict(cluster.workers).items()}
        waiting = {name: job for name, job in jobs.items()
                   if job and not any(one == name or one.startswith(f"{name}-") for one in there)}  # fmt: skip
        known = _known_jobs() if waiting else None
        gone = [] if known is None else [name for name, job in waiting.items() if str(job) not in known]
        if not gone:
            return
        self._ended += len(gone)
        text = f"{self._ended} jobs of {self.name} ended before their workers connected; see the logs of these jobs"
        if not self._had and self._ended >= _TRIES * len(jobs):
            raise SapwoodError(text)
        if self._ended == len(gone):
            warnings.warn(f"{text}. They are submitted again", SapwoodWarning, stacklevel())

        def forget() -> None:
            for name in [one for one in cluster.workers if str(one) in gone]:
                del cluster.workers[name]
            cluster.scale(n=len(cluster.worker_spec))

        cluster.loop.add_callback(forget)

    def wait(self) -> None:
        """Wait until all requested workers have started and imported their modules."""
        self._client.wait_for_workers(self._asked)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Submit a call."""
        with self._lock:
            self._count += 1
            key = f"{self._prefix}-{self._count}"
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        theirs = self._client.submit(function, *map(self._shared, arguments), key=key, pure=False, retries=0)
        with self._lock:
            self._calls[key], self._keys[future] = theirs, key
        self._client.loop.add_callback(self._pass_on, theirs, future)
        return future

    def _shared(self, argument: Foreign) -> Foreign:
        """Send a large job to the workers once, not with each call."""
        from sapwood.train.execution.worker import Packed

        if not isinstance(argument, Packed) or argument.data is None or len(argument.data) < 1 << 20:
            return argument
        known = self._packed.get(argument.digest)
        if known is None or known.status != "finished":
            if not self._client.scheduler_info(n_workers=-1).get("workers", {}):
                return argument  # nobody can take it before the call
            try:
                known = self._client.scatter(argument, broadcast=True, hash=False)
            except (OSError, ValueError):  # the workers are gone again
                return argument
            self._packed[argument.digest] = known
        return known

    async def _pass_on(self, theirs: Foreign, future: Future[Any]) -> None:
        """Pass the answer of a call to its future. An answer that cannot be fetched does not delay the others."""
        distributed = _distributed()
        try:
            answer = await theirs
        except (distributed.KilledWorker, CancelledError, distributed.client.FutureCancelledError) as error:
            future.set_exception(WorkerLostError(f"a Dask worker was lost: {error}"))
        except distributed.comm.CommClosedError as error:
            future.set_exception(SapwoodError(f"{_GONE}: {error}"))
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is requested
            none = type(error).__name__ in ("NoValidWorkerError", "NoWorkerError")  # Dask's own time limit
            future.set_exception(WorkerLostError(f"Dask has no worker: {error}") if none else error)
        else:
            future.set_result(answer)
        finally:
            with self._lock:
                self._calls.pop(theirs.key, None)
                self._keys.pop(future, None)

    def runner(self, future: Future[Any]) -> str:
        """Return the worker that has a call, by its address; empty if none does."""
        key = self._keys.get(future)
        with contextlib.suppress(Exception):  # a scheduler that is gone is noticed elsewhere
            for worker, keys in self._client.processing().items():
                if key in keys:
                    return f"Dask worker {worker}"
        return ""

    def close(self) -> None:
        """Cancel unfinished calls; close the client and the cluster that this object owns."""
        with self._lock:
            waiting = list(self._calls.values())
        with contextlib.suppress(Exception):
            self._client.cancel(waiting, force=True)
        self._packed.clear()
        if self._mine:
            self._client.close()
        if self._owned is not None:
            self._owned.close()


def _distributed() -> Foreign:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise MissingPackageError("Dask needs the package distributed: pip install sapwood[dask]") from error


def _patience() -> float | None:
    """Return Dask's limit for the wait for workers in seconds, None if there is none."""
    dask = import_module("dask")
    seconds = dask.config.get("distributed.scheduler.no-workers-timeout", None)
    return dask.utils.parse_timedelta(seconds) if seconds else None


_CALM: dict[str, Any] = {
    "logging.distributed": "warning",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "500ms",
}
"""Dask settings for less logging and rarer periodic tasks: with the defaults, eight idle workers used a third of a
core."""


@contextlib.contextmanager
def _calm() -> Generator[dict[str, Any]]:
    """Return the settings that the environment does not define, and pass them to processes started meanwhile."""
    words = {name: f"DASK_{name.upper().replace('.', '__').replace('-', '_')}" for name in _CALM}
    mine = {name: value for name, value in _CALM.items() if words[name] not in os.environ}
    os.environ.update({words[name]: str(value) for name, value in mine.items()})
    try:
        yield mine
    finally:
        for name in mine:
            del os.environ[words[name]]


@contextlib.contextmanager
def _handlers_kept() -> Generator[None]:
    """Keep the handlers of signals while dask-jobqueue is imported.

    It sets one for SIGINT that ends the program without the results so far. On other threads than the main one, that is
    an error.
    """
    here, own = threading.get_ident(), signal.signal

    def keep(number: Foreign, handler: Foreign) -> Foreign:
        return signal.getsignal(number) if threading.get_ident() == here else own(number, handler)

    signal.signal = keep
    try:
        yield
    finally:
        signal.signal = own


QUEUES = {"slurm": "SLURMCluster", "htcondor": "HTCondorCluster"}
"""Batch systems, and the class of dask-jobqueue for each."""


def check(options: Mapping[str, Any]) -> None:
    """Raise an `ArgumentError` if ``adapt`` or ``patience`` do not have the form that `executor_of` describes."""
    _check_adapt(options.get("adapt"))
    _check_patience(options.get("patience"))


def local(jobs: int, options: Mapping[str, Any]) -> Dask:
    """Start a cluster on this machine. The options are those of `executor_of`."""
    given = dict(options)
    _distributed()
    kind = import_module("distributed.deploy.subprocess").SubprocessCluster
    adapt, patience = given.pop("adapt", None), given.pop("patience", None)
    workers = {"n_workers": 0 if adapt else jobs, "threads_per_worker": 1}
    with _calm() as settings:
        # Unlike those of LocalCluster, these workers do not run the user's script again. They start with all
        # modules imported.
        about = {"dashboard": False, "config": settings, "preload": ["sapwood.train.execution.worker"]}
        about["preload_nanny"] = [script()]
        quiet: dict[str, Any] = {"dashboard_address": ":0", "host": "127.0.0.1", "worker_kwargs": about}
        # The last resort, if a process could not load the script: an idle scheduler ends by itself.
        quiet["scheduler_kwargs"] = {"preload": [script()], "idle_timeout": "1 hour"}
        cluster = _cluster(kind, workers | quiet | given)
    return _adapted(cluster, "dask", jobs, adapt, patience=patience)


def queued(text: str, jobs: int, options: Mapping[str, Any]) -> Dask:
    """Start a cluster whose workers are jobs of a batch system. The options are those of `executor_of`."""
    given = dict(options)
    try:
        with _handlers_kept():
            dask_jobqueue = import_module("dask_jobqueue")
    except ImportError as error:
        raise MissingPackageError(f"{text} needs the package dask-jobqueue: pip install sapwood[dask]") from error
    adapt, patience = given.pop("adapt", None), given.pop("patience", None)
    kind, refused = getattr(dask_jobqueue, QUEUES[text]), list[str]()
    if shutil.which(kind.job_cls.submit_command) is None:
        raise ArgumentError(f"{text} needs the command {kind.job_cls.submit_command}, which is not installed")
    cluster = _cluster(kind, {"job_cls": _telling(kind.job_cls, refused)} | given)
    if not adapt:
        cluster.scale(jobs=jobs)
    return _adapted(cluster, text, jobs, adapt, refused, patience)


_ADAPT = ("interval", "maximum", "maximum_jobs", "minimum", "minimum_jobs", "target_duration", "wait_count")


def _check_adapt(adapt: Foreign) -> None:
    if adapt is not None and not isinstance(adapt, Mapping):
        raise ArgumentError(f"adapt must be a dictionary such as {{'minimum': 0, 'maximum': 20}}, not {adapt!r}")
    if unknown := sorted(set(adapt or ()) - set(_ADAPT)):
        raise ArgumentError(f"adapt has the unknown key {unknown[0]!r}; choose from {', '.join(_ADAPT)}")


def _known_jobs() -> dict[str, list[str]] | None:
    """Return this user's jobs that Slurm has not ended, by number: state, reason, partition; None without an answer."""
    lines = _ask_slurm("squeue", "--noheader", "--format=%A|%T|%r|%P", f"--user={os.geteuid()}")
    return None if lines is None else {job.strip(): rest for job, *rest in (line.split("|") for line in lines)}


def _ask_slurm(*words: str) -> list[str] | None:
    """Return the lines that a command of Slurm prints; None if it fails."""
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=20, check=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return [line for line in done.stdout.splitlines() if line.strip()]


_UNAVAILABLE = re.compile(r"(?!power).*(down|drain|fail|error|unknown|maint|inval|\*)")
"""Node states in which no job can start; an asterisk marks nodes that do not respond."""
_LISTED = 4
"""Maximum number of jobs and of nodes that an error names."""


def _state_of_slurm(jobs: Sequence[str]) -> tuple[str, bool]:
    """Return the states of jobs and of nodes that are not available, as the end of a message.

    Also return whether there is no other node in the partitions of the jobs that wait.
    """
    known = _known_jobs()
    if known is None:
        return "; Slurm does not answer", False
    said = [
        f"job {job} is {known[job][0].lower()} ({known[job][1]})"
        if len(known.get(job, ())) == 3
        else f"job {job} is not in the queue"
        for job in jobs[:_LISTED]
    ]
    partitions = {known[job][2] for job in jobs if len(known.get(job, ())) == 3}
    lines = _ask_slurm("sinfo", "--noheader", "--Node", "--format=%N|%T", *_of_partitions(partitions)) or []
    pairs = (line.strip().partition("|") for line in lines if "|" in line)
    nodes = {name: state for name, _, state in pairs}
    lost = [f"node {name} is {state}" for name, state in nodes.items() if _UNAVAILABLE.match(state)]
    more = f"{len(lost) - _LISTED} more nodes are not available"
    said += lost[:_LISTED] + [more] * (len(lost) > _LISTED)
    return "".join(f"; {one}" for one in said), bool(nodes) and len(lost) == len(nodes)


def _of_partitions(names: Collection[str]) -> list[str]:
    return [f"--partition={','.join(sorted(names))}"] if names else []


def _check_patience(patience: Foreign) -> None:
    if patience is not None and (isinstance(patience, bool) or not isinstance(patience, (int, float)) or patience < 0):
        raise ArgumentError(f"patience must be a number of seconds, not {patience!r}")


def _telling(kind: type[Any], refused: list[str]) -> type[Any]:
    """Return a job class that reports when the batch system refuses a job: Dask would only log that."""
    running = import_module("distributed").core.Status.running

    class Job(kind):
        async def start(self) -> None:
            try:
                await super().start()
            except Exception as error:  # noqa: BLE001 - commands of batch systems fail in many ways
                refused.append(" ".join(str(error).rpartition("stderr:\n")[2].split()) or described(error))
                self.status = running  # no job exists that must be ended

    return Job


def _adapted(
    cluster: Foreign, name: str, jobs: int, adapt: Mapping[str, Any] | None, refused: Sequence[str] = (),
    patience: float | None = None,
) -> Dask:  # fmt: skip
    """Return the executor of a cluster; with `adapt` its workers follow the work, up to `jobs` or its `maximum`."""
    if not adapt:
        return Dask(cluster, name=name, owned=cluster, asked=jobs, refused=refused, patience=patience)
    given = {} if adapt.keys() & {"maximum", "maximum_jobs"} else {"maximum": jobs}
    # With a full window of calls of `lease_seconds` each, this requests the maximum number of workers.
    given |= {"interval": "1s", "target_duration": f"{2 * Dask.lease_seconds}s", **adapt}
    cluster.adapt(**given)
    most = int(given.get("maximum") or given["maximum_jobs"])
    return Dask(cluster, name=name, owned=cluster, most=most, refused=refused, patience=patience)


def _cluster(kind: Callable[..., Any], options: Mapping[str, Any], attempts: int = 3) -> Foreign:
    try:
        return kind(**options)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{kind.__name__}: {error}") from error
    except RuntimeError as error:  # the scheduler does not start
        # Dask can read the file with the scheduler's address before the scheduler has written it.
        if attempts > 1 and isinstance(error.__cause__, JSONDecodeError):
            return _cluster(kind, options, attempts - 1)
        raise SapwoodError(f"{kind.__name__}: {error}") from error
