"""A record of every access: the bytes, the cause, the time, and their use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sapwood.errors import ArgumentError, MissingFileError, SapwoodError, StorageError, without_secrets
from sapwood.show.units import bytes_text, seconds_text, share_text

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood.columns import Array, Column, Foreign

VERSION = "1"
"""The version of the format. It changes when a column changes its meaning or is removed."""

TRACES = (".parquet", ".arrow", ".feather")
"""Suffixes of the names of traces."""

COLUMNS = {
    "cause": 'why: "header", "directory", "streamers", "object" (a tree\'s own record, a histogram), "basket" (when '
    'needed), "prefetch" (ahead of need), "miss" (remote, not fetched ahead), "head" (beginnings of pages, to see '
    'their codec); "decode" for a page that was decompressed and decoded, "carried" for one that a step or a reading '
    "before had decompressed",
    "file": "the path or URL, without the tokens, signatures and passwords in it",
    "tree": "the tree; empty for a request",
    "branch": "the path of the branch; empty for a request",
    "basket": "the number of the page in its branch; -1 for a request",
    "cluster": "the number of the cluster in which the page begins; -1 for a request",
    "entry_start": "the first entry of the page that was wanted; -1 for a request. Of a read of ROOT, the entry at "
    "which it was made",
    "entry_stop": "the entry behind the last one that was wanted",
    "offset": "the first byte in the file",
    "length": "bytes in the file; 0 for a page that was carried over",
    "request": "the number of the request; its ranges share it, one row each; 0 for a page",
    "start_ns": "when it began, in nanoseconds since the trace began",
    "end_ns": "when it ended",
    "decompression_ns": "time of decompression",
    "decoding_ns": "time of decoding",
    "bytes_decompressed": "bytes of the page after decompression",
    "bytes_used": "bytes of the wanted entries among these",
    "thread": "the number of the thread",
}
"""The columns of a trace. A row is a range of a request to storage, or a page that was decoded."""

_TEXT = ("cause", "file", "tree", "branch")


_Recorded = tuple[int, "dict[str, Column]"]
"""When a process began to record, in nanoseconds since 1970, and the columns."""


class Trace:
    """The record of `trace`; complete when its `with` block has ended.

    It is an Arrow stream, too: ``pyarrow.table(trace)``, ``polars.DataFrame(trace)``, DuckDB. The columns are those of
    `sapwood.storage.trace.COLUMNS`.
    """

    _recording: ClassVar[Trace | None] = None

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._columns: dict[str, Column] = {}
        self._running = False
        self._others: dict[str, list[_Recorded]] = {}
        self.epoch_ns = 0
        """When it began, in nanoseconds since 1970."""

    def __enter__(self) -> Self:
        """Begin to record."""
        from sapwood import _native

        if self._path is not None:
            _writer(self._path)
            _check_folder(self._path.absolute().parent)
        if not _native.start_trace():
            raise ArgumentError("a trace of this process is being recorded already")
        self._running = True
        Trace._recording = self
        return self

    def __exit__(self, *_: object) -> None:
        """End recording, and write the file if one was named."""
        from sapwood import _native

        stopped = _native.stop_trace()
        self._running = False
        Trace._recording = None
        if stopped is not None:
            self._set(stopped, self._others)
        if self._path is not None:
            self.save(self._path)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._numbers("offset")) if self._columns else 0

    def __contains__(self, name: object) -> bool:
        """Whether there is a column of that name."""
        return name in COLUMNS

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the columns."""
        return iter(COLUMNS)

    def __getitem__(self, name: str) -> Array:
        """Return a column as a NumPy array; text as objects."""
        if name not in COLUMNS:
            raise ArgumentError(f"a trace has no column {name!r}; choose from {', '.join(COLUMNS)}")
        if not self._columns:
            return np.empty(0, dtype=object if name in _TEXT else np.int64)
        if name in _TEXT:
            return np.array(_texts(self._columns[name]), dtype=object)
        return self._numbers(name)

    def _numbers(self, name: str) -> Array:
        return self._columns[name][1]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Foreign:
        """Return it as an Arrow stream (a capsule)."""
        from sapwood import _native

        del requested_schema  # a wish only, by the Arrow PyCapsule interface
        if not self._columns:
            raise ArgumentError("the trace has not ended: read its columns after the `with` block")
        return _native.arrow_stream(list(self._columns), list(self._columns.values()))

    def save(self, path: str | Path) -> None:
        """Write the trace as Parquet (``.parquet``) or as an Arrow file (``.arrow``); this needs PyArrow."""
        import pyarrow as pa

        from sapwood.storage.placing import placed

        table: Any = pa.table(self)
        about = {"sapwood.trace": VERSION, "sapwood.epoch_ns": str(self.epoch_ns)}
        write = _writer(Path(path))
        try:
            with placed(path) as beside:
                write(table.replace_schema_metadata(about), str(beside))
        except SapwoodError:
            raise
        except OSError as error:
            raise StorageError(f"cannot write the trace {path}: {error}") from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a trace from the file that `save` wrote.

        Raises
        ------
        ArgumentError
            The file is not a trace, or has a version that this sapwood does not know.
        MissingFileError
            There is no such file.
        """
        path = Path(path)
        read = _reader(path)
        try:
            table: Any = read(str(path))
        except FileNotFoundError as error:
            raise MissingFileError(f"no such file: {path}") from error
        except (OSError, ValueError) as error:
            raise ArgumentError(f"{path} is not a trace: {error}") from error
        about: dict[bytes, bytes] = table.schema.metadata or {}
        if about.get(b"sapwood.trace") != VERSION.encode() or not set(COLUMNS) <= set(table.column_names):
            raise ArgumentError(f"{path} is not a trace of version {VERSION}")
        trace = cls()
        trace.epoch_ns = int(about.get(b"sapwood.epoch_ns", 0))
        trace._columns = {name: _column(table[name], name in _TEXT) for name in COLUMNS}
        return trace

    @classmethod
    def of_reads(cls, file: str, cause: str, numbers: Mapping[str, Array]) -> Self:
        """Make a trace of reads of a file that another program has recorded.

        `numbers` are ``offset``, ``length``, ``start_ns``, ``end_ns`` and others of `COLUMNS`; each read is a request.
        Missing columns are 0, or -1 if requests have no such value.
        """
        count, trace = len(numbers["offset"]), cls()
        none: dict[str, int] = dict.fromkeys(("basket", "cluster", "entry_start", "entry_stop"), -1)
        texts = {"cause": cause, "file": file, "tree": "", "branch": ""}
        filled = {"request": np.arange(1, count + 1), **numbers}
        for name in COLUMNS:
            if name in texts:
                trace._columns[name] = _text([texts[name]] * count)
            else:
                given = filled.get(name, np.full(count, none.get(name, 0)))
                trace._columns[name] = ("number", np.ascontiguousarray(given, np.int64))
        trace._columns["file"] = _without_secrets(trace._columns["file"])
        return trace

    @classmethod
    def so_far(cls) -> Self | None:
        """Return a copy of the trace that this process is recording, up to now; None if it records no trace."""
        from sapwood import _native

        found = _native.trace_so_far()
        if found is None:
            return None
        trace = cls()
        trace._set(found, {} if cls._recording is None else cls._recording._others)
        return trace

    @classmethod
    def running(cls) -> bool:
        """Return whether a trace is being recorded in this process."""
        return cls._recording is not None

    @classmethod
    def add(cls, process: str, epoch_ns: int, columns: dict[str, Column]) -> None:
        """Add the recording of another process to the trace that this process records, if there is one.

        Parameters
        ----------
        process
            A name of the other process. Its requests and threads get unique numbers.
        epoch_ns
            Start of its recording, in nanoseconds since 1970.
        columns
            Part of its rows, as columns with the names of `COLUMNS`; parts arrive in order.
        """
        if cls._recording is not None:
            cls._recording._others.setdefault(process, []).append((epoch_ns, columns))

    def _set(self, own: _Recorded, others: Mapping[str, Sequence[_Recorded]]) -> None:
        """Join the rows of this process and of others, with times since the start of this trace and unique numbers."""
        self.epoch_ns, self._columns = own
        parts: dict[str, list[Column]] = {name: [column] for name, column in self._columns.items()}
        for recorded in others.values():
            shifts = {name: max(int(part[1].max(initial=0)) for part in parts[name]) for name in ("request", "thread")}
            for epoch, columns in recorded:
                shifts |= dict.fromkeys(("start_ns", "end_ns"), epoch - self.epoch_ns)
                for name, column in columns.items():
                    parts[name].append(_shifted(column, shifts.get(name, 0), keep_zeros=name == "request"))
        self._columns = {name: columns[0] if len(columns) == 1 else _joined(columns) for name, columns in parts.items()}
        self._columns["file"] = _without_secrets(self._columns["file"])

    @property
    def is_request(self) -> Array:
        """A mask of the rows that are ranges of requests to storage."""
        return self["request"] > 0

    def requests(self) -> dict[str, dict[str, int]]:
        """Sum up the requests to storage by cause: ``requests``, their ``ranges``, ``bytes``, ``time_ns``.

        The time is that from sending to having all ranges, summed over requests that may have been under way at once.
        """
        causes, lengths, spans = self["cause"], self["length"], self["end_ns"] - self["start_ns"]
        found: dict[str, dict[str, int]] = {}
        for cause in dict.fromkeys(causes[self.is_request].tolist()):
            rows = np.flatnonzero(causes == cause)
            _, firsts = np.unique(self["request"][rows], return_index=True)
            found[cause] = {
                "requests": len(firsts),
                "ranges": len(rows),
                "bytes": int(lengths[rows].sum()),
                "time_ns": int(spans[rows][firsts].sum()),
            }
        return found

    def order(self) -> dict[str, int]:
        """Return the pattern of the requested ranges in their files, in the order of the requests.

        ``ranges``: their number. ``backward``, ``gaps``: the number of ranges that begin before and after the end of
        the previous range of the same file. ``gap_bytes``: total size of the gaps. ``median_bytes``, ``most_bytes``:
        median and largest size of a range.
        """
        rows = np.flatnonzero(self.is_request)
        rows = rows[np.lexsort((rows, self["start_ns"][rows]))]
        files, starts, sizes = self["file"][rows], self["offset"][rows], self["length"][rows]
        jumps: list[int] = []
        for file in dict.fromkeys(files.tolist()):
            mine = files == file
            jumps += (starts[mine][1:] - (starts[mine] + sizes[mine])[:-1]).tolist()
        forward = [jump for jump in jumps if jump > 0]
        return {
            "ranges": len(rows), "backward": sum(jump < 0 for jump in jumps), "gaps": len(forward),
            "gap_bytes": sum(forward), "median_bytes": int(np.median(sizes)) if len(sizes) else 0,
            "most_bytes": int(sizes.max(initial=0)),
        }  # fmt: skip

    def layers(self) -> dict[str, int]:
        """Return the bytes at the four layers, under the names of the counters (see `layers`)."""
        pages = self["cause"] == "decode"
        counted = {
            "bytes_requested": int(self["length"][pages].sum()),
            "bytes_read": int(self["length"][self.is_request].sum()),
            "bytes_decompressed": int(self["bytes_decompressed"].sum()),
            "bytes_used": int(self["bytes_used"].sum()),
        }
        return layers(counted, {cause: of["bytes"] for cause, of in self.requests().items()})

    def summary(self) -> str:
        """Sum up in a few lines: requests, bytes and time of each cause, and of decoding."""
        return _summary(self)

    def __repr__(self) -> str:
        """Show the number of rows."""
        state = "recording" if self._running else f"{len(self)} rows"
        return f"<Trace, {state}, at 0x{id(self):012x}>"


def layers(counters: Mapping[str, int], served: Mapping[str, int]) -> dict[str, int]:
    """Return bytes at four layers, from counters and from the bytes served for each cause.

    - ``bytes_requested``: stored bytes of the decoded pages.
    - ``bytes_read``: bytes of all requests to storage ("served").
    - ``bytes_decompressed``: bytes after decompression.
    - ``bytes_used``: bytes of the requested entries.
    - ``over_read``: bytes served for pages that are not in any requested page.
    - ``records``: bytes served for the file's own records and the heads of pages.

    Requested bytes, over-read and records add up to the served bytes, unless bytes were requested more often than
    served.
    """
    of_pages = sum(served.get(cause, 0) for cause in ("basket", "prefetch", "miss"))
    names = ("bytes_requested", "bytes_read", "bytes_decompressed", "bytes_used")
    return {name: counters[name] for name in names} | {
        "over_read": of_pages - counters["bytes_requested"],
        "records": sum(served.values()) - of_pages,
    }


def trace(path: str | Path | None = None) -> Trace:
    """Record every access of this process to ROOT files, in a ``with`` block.

    >>> with sapwood.trace("trace.parquet") as trace:
    ...     sapwood.open("https://host/events.root:Events").arrays(["Muon_pt"])
    >>> print(trace.summary())

    Parameters
    ----------
    path
        The file to write: Parquet, or an Arrow file (``.arrow``); both need PyArrow. None: no file.

    Raises
    ------
    ArgumentError
        Another trace is being recorded, or the path has another ending.
    StorageError
        When the block begins: the folder does not exist, or cannot be written to. When the block ends: the file cannot
        be written; the trace itself is complete, so that `save` can write it.
    """
    return Trace(path)


def _shifted(column: Column, by: int, *, keep_zeros: bool) -> Column:
    if column[0] != "number" or not by:
        return column
    values = column[1]
    return ("number", np.where(values == 0, 0, values + by) if keep_zeros else values + by)


def _joined(columns: Sequence[Column]) -> Column:
    """Join columns of one kind, one after the other."""
    if columns[0][0] == "number":
        return ("number", np.concatenate([column[1] for column in columns]))
    ends = np.cumsum([column[1][-1] for column in columns])
    starts = [0, *ends[:-1].tolist()]
    offsets = [column[1][1:] + start for column, start in zip(columns, starts, strict=True)]
    data = np.concatenate([column[2] for column in columns])
    return ("text", np.concatenate([np.zeros(1, np.int64), *offsets]), data)


def _without_secrets(column: Column) -> Column:
    """Remove secrets from the names of files, because traces are passed on."""
    if not np.isin(column[2], np.frombuffer(b"?@#;", np.uint8)).any():
        return column
    names: dict[str, str] = {}
    return _text([names.get(text) or names.setdefault(text, without_secrets(text)) for text in _texts(column)])


def _texts(column: Column) -> list[str]:
    _, offsets, data = column
    raw = data.tobytes()
    return [raw[a:b].decode() for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def _column(column: Foreign, is_text: bool) -> Column:
    return _text(column.to_pylist()) if is_text else ("number", np.ascontiguousarray(column.to_numpy(), np.int64))


def _text(given: Sequence[str]) -> Column:
    texts = [text.encode() for text in given]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return ("text", offsets, np.frombuffer(b"".join(texts), np.uint8))


def _reader(path: Path) -> Foreign:
    _writer(path)
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        return parquet.read_table
    import pyarrow.feather as feather

    return feather.read_table


def _check_folder(folder: Path) -> None:
    """Raise an error before the work, not after it, if its trace cannot be written."""
    if not folder.is_dir():
        raise MissingFileError(f"cannot write a trace: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write a trace: no permission to create files in {folder}")


def _writer(path: Path) -> Foreign:
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        return parquet.write_table
    if path.suffix in TRACES:
        import pyarrow.feather as feather

        return feather.write_feather
    raise ArgumentError(f"a trace is written as .parquet or .arrow, not as {path.name!r}")


def _summary(trace: Trace) -> str:
    """Sum up in a few lines: requests, bytes and time of each cause; bytes at four layers; decoding."""
    causes = trace["cause"]
    lines = [f"{'cause':<10} {'requests':>9} {'ranges':>9} {'bytes':>10} {'time':>10}"]
    for cause, requests, ranges, size, time in cause_rows(trace.requests()):
        lines.append(f"{cause:<10} {requests:>9} {ranges:>9} {size:>10} {time:>10}")
    rows = causes == "decode"
    lines.append(
        f"{int(rows.sum())} baskets of {len(np.unique(trace['branch'][rows]))} branches, decompressed in "
        f"{seconds_text(trace['decompression_ns'].sum() / 1e9)}, "
        f"decoded in {seconds_text(trace['decoding_ns'].sum() / 1e9)} (summed over threads)"
    )
    order = trace.order()
    lines.append(
        f"{order['ranges']} ranges of {bytes_text(order['median_bytes'])} (median), at most "
        f"{bytes_text(order['most_bytes'])}: {order['backward']} backward seeks, {order['gaps']} gaps of "
        f"{bytes_text(order['gap_bytes'])} in all"
    )
    layers = layer_rows(trace.layers())
    return "\n".join(lines) + "\n" + "".join(f"{name:<13} {size:>10}  {note}\n" for name, size, note in layers)


def cause_rows(requests: Mapping[str, Mapping[str, int]]) -> list[tuple[str, str, str, str, str]]:
    """Return the number, ranges, bytes and time of the requests of each cause."""
    return [
        (cause, str(of["requests"]), str(of["ranges"]), bytes_text(of["bytes"]), seconds_text(of["time_ns"] / 1e9))
        for cause, of in requests.items()
        if of["requests"]
    ]


def layer_rows(layers: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Return the bytes at the four layers (see `Trace.layers`), each in relation to the previous one."""
    asked, served = layers["bytes_requested"], layers["bytes_read"]
    unpacked, used = layers["bytes_decompressed"], layers["bytes_used"]
    over = layers["over_read"]
    between = f"{bytes_text(over)} between them" if over >= 0 else f"{bytes_text(-over)} of them not from storage again"
    return [
        ("asked", bytes_text(asked), "pages, as they are in the file"),
        ("served", bytes_text(served), f"these, {between}, {bytes_text(layers['records'])} of the file's own records"),
        ("decompressed", bytes_text(unpacked), f"{unpacked / asked:.2f} times what was asked" if asked else "nothing"),
        ("used", bytes_text(used), f"{share_text(used, unpacked)} of it: the wanted entries"),
    ]
