"""Files as one array of `dask_awkward` that only reads the columns that a computation uses."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Any

import awkward as ak
import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import CorruptError, MissingPackageError
from sapwood.frames.partitions import Partition, Reading, key_of
from sapwood.table.joining import as_form, exactly
from sapwood.table.schema import HasFields

try:
    from dask.base import tokenize
    from dask_awkward.lib.io.columnar import ColumnProjectionMixin
    from dask_awkward.lib.io.io import from_map
    from dask_awkward.lib.utils import buffer_keys_required_to_compute_shapes, trace_form_structure
except ImportError as error:
    raise MissingPackageError("arrays of Dask need dask-awkward: pip install dask-awkward") from error


class _Partitions:
    """Reads partitions, optionally with a report of each."""

    attrs = None
    behavior: Foreign = None

    def __init__(self, reading: Reading, form: Foreign, report: bool | tuple[type[BaseException], ...] = False) -> None:
        self._reading = reading
        self.form = form
        self._report = report

    @property
    def return_report(self) -> bool:
        """Whether a report of each partition is returned with its array."""
        return bool(self._report)

    def __call__(self, partition: Partition) -> Foreign:
        """Read a partition."""
        if not self._report:
            return self._read(partition)[0]
        failures = self._report if isinstance(self._report, tuple) else (OSError, CorruptError)
        began, clock = time.time_ns(), time.monotonic()
        try:
            array, counters = self._read(partition)
        except failures as error:
            return self._empty(), _account(partition, error=error, call_time=began)
        return array, _account(partition, duration=time.monotonic() - clock, counters=counters)

    def _read(self, partition: Partition) -> tuple[Foreign, dict[str, int]]:
        array, counters = self._reading.read(partition, self._entries)
        return self._empty() if array is None else array, counters

    def _entries(self, table: HasFields, start: int, stop: int) -> Foreign:
        return self._reading.of(table, start, stop)

    def _empty(self) -> Foreign:
        return ak.Array(self.form.length_zero_array(highlevel=False), behavior=self.behavior)


class Columns(_Partitions, ColumnProjectionMixin):  # pyright: ignore[reportUntypedBaseClass]
    """Reads partitions; supports column projection."""

    use_optimization = True

    def _entries(self, table: HasFields, start: int, stop: int) -> Foreign:
        array = super()._entries(table, start, stop)
        layout = as_form(array.layout, self.form, "", table.location)
        return array if layout is array.layout else ak.Array(layout)

    def project_columns(self, columns: frozenset[str]) -> Columns:
        """Return a reader of only these columns; ``"name.member"`` is a column of a record."""
        names = [
            name
            for name in self.form.fields
            if name in columns or any(column.startswith(f"{name}.") for column in columns)
        ]
        form = ak.forms.RecordForm([self.form.content(name) for name in names], names, parameters=self.form.parameters)
        return Columns(self._reading.only(names), form, self._report)


class Mapped(_Partitions):
    """Reads partitions whose arrays have another form than the tables.

    Parameters
    ----------
    reading
        The reader of the fields.
    form
        The form of the arrays.
    info
        The second result of a form mapping: it loads the buffers of arrays, and returns the fields that they need.
    report
        As in `sapwood.dask`.
    """

    def __init__(
        self, reading: Reading, form: Foreign, info: Foreign, report: bool | tuple[type[BaseException], ...] = False
    ) -> None:
        super().__init__(reading, form, report)
        self._info = info

    @property
    def behavior(self) -> Foreign:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The behavior of the arrays."""
        return self._info.behavior

    def mock(self) -> Foreign:
        """Return an array without data."""
        return ak.typetracer.typetracer_from_form(self.form, highlevel=True, behavior=self.behavior)

    def mock_empty(self, backend: str = "cpu") -> Foreign:
        """Return an array without entries."""
        return ak.to_backend(self._empty(), backend)

    def prepare_for_projection(self) -> tuple[Foreign, Foreign, Foreign]:
        """Return an array without data, the recorder of its use, and the state for `project`."""
        key = self._info.buffer_key
        array, notes = ak.typetracer.typetracer_with_report(
            self.form, highlevel=True, behavior=self.behavior, buffer_key=key
        )
        return array, notes, trace_form_structure(self.form, buffer_key=key)

    def necessary_columns(self, report: Foreign, state: Foreign) -> frozenset[str]:
        """Return the fields that are needed for the buffers whose use was recorded."""
        shapes = buffer_keys_required_to_compute_shapes(
            self._info.parse_buffer_key,
            report.shape_touched,
            state["form_key_to_parent_form_key"],
            state["form_key_to_buffer_keys"],
        )
        needed = self._info.keys_for_buffer_keys(frozenset({*report.data_touched, *shapes}))
        return frozenset(needed) & frozenset(self._reading.fields)

    def project(self, report: Foreign, state: Foreign) -> Mapped:
        """Return a reader of only the fields whose use was recorded."""
        return self.project_manually(self.necessary_columns(report, state))

    def project_manually(self, columns: frozenset[str]) -> Mapped:
        """Return a reader of only these fields."""
        names = [name for name in self._reading.fields if name in columns]
        return Mapped(self._reading.only(names), self.form, self._info, self._report)

    def _entries(self, table: HasFields, start: int, stop: int) -> Foreign:
        fields = frozenset(self._reading.fields)
        options: dict[str, Any] = {"ak_add_doc": self._reading.form.add_doc}
        buffers = self._info.load_buffers(table, fields, start, stop, None, None, options)
        found: dict[str, Any] = {}
        for key, dtype in self.form.expected_from_buffers(buffer_key=self._info.buffer_key).items():
            if frozenset(self._info.keys_for_buffer_keys(frozenset({key}))) <= fields:
                found[key] = buffers[key]
                if isinstance(found[key], np.ndarray) and found[key].dtype != dtype:
                    found[key] = exactly(found[key], dtype, key, table.location)
            else:
                found[key] = _untouched(dtype)
        return ak.from_buffers(self.form, stop - start, found, behavior=self.behavior, buffer_key=self._info.buffer_key)


def _untouched(dtype: Foreign) -> Foreign:
    """Return a placeholder for a buffer that no computation reads."""
    from awkward._nplikes.numpy import Numpy

    return ak.typetracer.PlaceholderArray(Numpy.instance(), (ak.typetracer.unknown_length,), dtype)


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
    reading: Reading,
    partitions: Sequence[Partition],
    form: Foreign,
    report: bool | tuple[type[BaseException], ...],
    form_mapping: Foreign = None,
) -> Foreign:
    """Make the array; with reports, the array and its reports."""
    divisions: tuple[int, ...] | None = None
    # A partition that fails is empty where that is only reported.
    if not report and all(partition.pieces is None for partition in partitions):
        edges = [0]
        for partition in partitions:
            edges.append(edges[-1] + partition.stop - partition.start)
        divisions = tuple(edges)
    # dask-awkward caches forms by token, so documentation and the treatment of errors must be part of it.
    token: Any = tokenize(
        [key_of(partition) for partition in partitions], sorted(reading.fields), form_mapping, form.to_json(), report
    )
    reader: Columns | Mapped = Columns(reading, form, report)
    if form_mapping is not None:
        mapped, info = form_mapping(form)
        reader = Mapped(reading, mapped, info, report)
    return from_map(reader, partitions, label="from-sapwood", token=token, divisions=divisions)
