"""Files as one array of `dask_awkward`: the columns that a computation touches are read."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Any

import awkward as ak

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError
from sapwood.frames.partitions import Partition, Reading, key_of

try:
    import dask_awkward  # pyright: ignore[reportMissingImports]
    from dask.base import tokenize
    from dask_awkward.lib.io.columnar import ColumnProjectionMixin  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise ArgumentError("arrays of Dask need dask-awkward: pip install dask-awkward") from error


class Columns(ColumnProjectionMixin):  # pyright: ignore[reportUntypedBaseClass]
    """Reads partitions, and can be asked to read fewer columns."""

    behavior = None
    attrs = None
    use_optimization = True

    def __init__(self, reading: Reading, form: Foreign, report: bool | tuple[type[BaseException], ...] = False) -> None:
        self._reading = reading
        self.form = form
        self._report = report

    @property
    def return_report(self) -> bool:
        """Whether a report of each partition is returned beside its array."""
        return bool(self._report)

    def project_columns(self, columns: frozenset[str]) -> Columns:
        """Return what reads only these columns; of a record, ``"name.member"`` is one."""
        names = [
            name
            for name in self._reading.fields
            if name in columns or any(column.startswith(f"{name}.") for column in columns)
        ]
        form = ak.forms.RecordForm([self.form.content(name) for name in names], names, parameters=self.form.parameters)
        return Columns(self._reading.only(names), form, self._report)

    def __call__(self, partition: Partition) -> Foreign:
        """Read a partition."""
        if not self._report:
            return self._read(partition)[0]
        failures = self._report if isinstance(self._report, tuple) else (OSError,)
        began, clock = time.time_ns(), time.monotonic()
        try:
            array, counters = self._read(partition)
        except failures as error:
            return self._empty(), _account(partition, error=error, call_time=began)
        return array, _account(partition, duration=time.monotonic() - clock, counters=counters)

    def _read(self, partition: Partition) -> tuple[Foreign, dict[str, int]]:
        array, counters = self._reading.read(partition)
        return self._empty() if array is None else array, counters

    def _empty(self) -> Foreign:
        return ak.Array(self.form.length_zero_array(highlevel=False))


def _account(
    partition: Partition,
    *,
    duration: float | None = None,
    counters: dict[str, int] | None = None,
    call_time: int | None = None,
    error: BaseException | None = None,
) -> Foreign:
    performance = None
    if counters is not None:
        performance = {
            "num_requested_bytes": counters.get("bytes_requested", 0),
            "num_requests": counters.get("read_calls", 0),
            "num_requested_chunks": counters.get("baskets", 0),
        }
    return ak.Array(
        [
            {
                "call_time": call_time,
                "duration": duration,
                "performance_counters": performance,
                "args": list(key_of(partition)),
                "kwargs": [],
                "exception": None if error is None else _builtin_name(error),
                "message": None if error is None else str(error),
                "fqdn": None if error is None else socket.getfqdn(),
                "hostname": None if error is None else socket.gethostname(),
            }
        ]
    )


def _builtin_name(error: BaseException) -> str:
    """Return the name of the built-in class of an error: those of sapwood derive from one."""
    return next((kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"), "Exception")


def collection(
    reading: Reading, partitions: Sequence[Partition], form: Foreign, report: bool | tuple[type[BaseException], ...]
) -> Foreign:
    """Make the array; with reports, the array and its reports."""
    divisions: tuple[int, ...] | None = None
    # A partition that fails is empty where that is only reported.
    if not report and all(partition.pieces is None for partition in partitions):
        edges = [0]
        for partition in partitions:
            edges.append(edges[-1] + partition.stop - partition.start)
        divisions = tuple(edges)
    token: Any = tokenize([key_of(partition) for partition in partitions], sorted(reading.fields))
    return dask_awkward.from_map(
        Columns(reading, form, report), partitions, label="from-sapwood", token=token, divisions=divisions
    )
