"""Choose an executor by its name, or by the description of a site."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sapwood.errors import ArgumentError
from sapwood.storage.texts import read_text
from sapwood.train.data.dataset import parse_settings
from sapwood.train.execution import clusters
from sapwood.train.execution.executors import Executor, Processes, Threads


def executor_of(text: str, jobs: int, read_ahead: int = 1, options: Mapping[str, Any] | None = None) -> Executor:
    """Create an executor by name.

    Parameters
    ----------
    text
        One of:

        - ``"auto"``: threads; the run moves to processes if that is faster (see `sapwood.train.run`);
        - ``"threads"``, ``"processes"``;
        - ``"dask"``: a cluster on this machine;
        - ``"dask://host:port"``: a running scheduler (also ``tcp://`` and ``tls://``);
        - ``"slurm"``, ``"htcondor"``: batch jobs through dask-jobqueue.
    jobs
        Number of steps to process at the same time: threads, processes, or batch jobs.
    read_ahead
        For threads: number of further steps that are read at the same time.
    options
        For clusters: arguments of their classes, ``adapt`` (``{"minimum": 1, "maximum": 20}``): the number of
        workers then follows the work, instead of a fixed number of jobs, and ``patience``: seconds without any worker
        after which a run ends with an error (see `Dask`).

    Raises
    ------
    ArgumentError
        The executor is unknown, its package is not installed, or the options do not fit.
    """
    given = dict(options or {})
    clusters.check(given)
    if given and (text in ("auto", "threads", "processes") or "://" in text):
        raise ArgumentError(f"the executor {text} takes no options, such as {sorted(given)[0]!r}")
    if text in ("auto", "threads"):
        return Threads(jobs, read_ahead)
    if text == "processes":
        return Processes(jobs)
    scheme, _, rest = text.partition("://")
    if rest and scheme in ("dask", "tcp", "tls"):
        return clusters.Dask(f"{'tcp' if scheme == 'dask' else scheme}://{rest}")
    if text == "dask":
        return clusters.local(jobs, given)
    if text in clusters.QUEUES:
        return clusters.queued(text, jobs, given)
    known = "auto, threads, processes, dask, dask://HOST:PORT, slurm, htcondor"
    raise ArgumentError(f"unknown executor {text!r}; choose from {known}")


def load_site(path: str | Path) -> dict[str, Any]:
    """Load the description of a site: a JSON or YAML file with settings of `sapwood.train.run`.

    Raises
    ------
    ArgumentError
        The file cannot be read, or has unknown settings.
    """
    path = Path(path)
    try:
        settings = parse_settings(read_text(path), path)
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"site {path} cannot be read: {error}") from error
    known = {"executor", "jobs", "options", "memory", "step_size", "read_ahead", "catalogue"}
    names = settings.keys() if isinstance(settings, Mapping) else {repr(settings)}
    if unknown := [name for name in names if name not in known]:
        raise ArgumentError(f"site {path} has the unknown key {unknown[0]!r}; choose from {', '.join(sorted(known))}")
    for name in {"jobs", "read_ahead"} & settings.keys():
        if type(settings[name]) is not int:
            raise ArgumentError(f"site {path}: {name} must be a whole number, not {settings[name]!r}")
    if not isinstance(settings.get("options", {}), Mapping):
        raise ArgumentError(f"site {path}: options must be a dictionary, not {settings['options']!r}")
    return dict(settings)
