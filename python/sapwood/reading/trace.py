"""A record of every access: which bytes were read, why, for how long, and what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ArgumentError, MissingFileError

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood.columns import Array, Column, Foreign

VERSION = "1"
"""The version of the format: it changes when a column changes its meaning or goes."""

TRACES = (".parquet", ".arrow", ".feather")
"""How the names of traces end."""

COLUMNS = {
    "cause": 'why: "header", "directory", "streamers", "object" (a tree\'s own record, a histogram), "basket" (when '
    'needed), "prefetch" (ahead of need), "miss" (far away, not fetched ahead); "decode" for a basket that was '
    'decompressed and decoded, "carried" for the rest of one that a step before had decompressed',
    "file": "the path or URL",
    "tree": "the tree; empty for a request",
    "branch": "the path of the branch; empty for a request",
    "basket": "the number of the basket in its branch; -1 for a request",
    "cluster": "the number of the cluster in which the basket begins; -1 for a request",
    "entry_start": "the first entry of the basket that was wanted; -1 for a request",
    "entry_stop": "the entry behind the last one that was wanted",
    "offset": "the first byte in the file",
    "length": "bytes in the file; 0 for what was carried",
    "request": "the number of the request; its ranges share it, each with a row of its own; 0 for a basket",
    "start_ns": "when it began, in nanoseconds since the trace began",
    "end_ns": "when it ended",
    "decompression_ns": "time of decompression",
    "decoding_ns": "time of decoding",
    "bytes_decompressed": "bytes of the basket after decompression",
    "bytes_used": "bytes of the wanted entries among these",
    "thread": "the number of the thread",
}
"""The columns of a trace. A row is a range of a request to storage, or a basket that was decoded."""

_TEXT = ("cause", "file", "tree", "branch")


class Trace:
    """What `trace` records; complete when its `with` block has ended.

    It is an Arrow stream, too: ``pyarrow.table(trace)``, ``polars.DataFrame(trace)``, DuckDB. The columns are those of
    `sapwood.reading.trace.COLUMNS`.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._columns: dict[str, Column] = {}
        self._running = False
        self.epoch_ns = 0
        """When it began, in nanoseconds since 1970."""

    def __enter__(self) -> Self:
        """Begin to record."""
        from sapwood import _native

        if self._path is not None:
            _writer(self._path)
        if not _native.start_trace():
            raise ArgumentError("a trace of this process is being recorded already")
        self._running = True
        return self

    def __exit__(self, *_: object) -> None:
        """End recording, and write the file if one was named."""
        from sapwood import _native

        stopped = _native.stop_trace()
        self._running = False
        if stopped is not None:
            self.epoch_ns, self._columns = stopped
        if self._path is not None:
            self.save(self._path)

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._numbers("offset")) if self._columns else 0

    def __getitem__(self, name: str) -> Array:
        """Give a column as a NumPy array; text as objects."""
        if name not in COLUMNS:
            raise ArgumentError(f"a trace has no column {name!r}, but {', '.join(COLUMNS)}")
        if not self._columns:
            return np.empty(0, dtype=object if name in _TEXT else np.int64)
        if name in _TEXT:
            _, offsets, data = self._columns[name]
            raw = data.tobytes()
            texts = [raw[a:b].decode() for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
            return np.array(texts, dtype=object)
        return self._numbers(name)

    def _numbers(self, name: str) -> Array:
        return self._columns[name][1]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Foreign:
        """Give it as an Arrow stream (a capsule)."""
        from sapwood import _native

        del requested_schema  # a wish only, by the Arrow PyCapsule interface
        if not self._columns:
            raise ArgumentError("the trace has not ended: its columns are there after the `with` block")
        return _native.arrow_stream(list(self._columns), list(self._columns.values()))

    def save(self, path: str | Path) -> None:
        """Write it as Parquet or as an Arrow file (by the ending: ``.parquet``, ``.arrow``); this needs PyArrow."""
        import pyarrow as pa

        table: Any = pa.table(self)
        about = {"sapwood.trace": VERSION, "sapwood.epoch_ns": str(self.epoch_ns)}
        _writer(Path(path))(table.replace_schema_metadata(about), str(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a trace from the file that `save` wrote.

        Raises
        ------
        ArgumentError
            It is no trace, or one of a version that this sapwood does not know.
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
            raise ArgumentError(f"{path} is no trace: {error}") from error
        about: dict[bytes, bytes] = table.schema.metadata or {}
        if about.get(b"sapwood.trace") != VERSION.encode() or not set(COLUMNS) <= set(table.column_names):
            raise ArgumentError(f"{path} is no trace of version {VERSION}")
        trace = cls()
        trace.epoch_ns = int(about.get(b"sapwood.epoch_ns", 0))
        trace._columns = {name: _column(table[name], name in _TEXT) for name in COLUMNS}
        return trace

    @classmethod
    def so_far(cls) -> Self | None:
        """Give what the trace that is being recorded in this process has so far; None if there is none."""
        from sapwood import _native

        found = _native.trace_so_far()
        if found is None:
            return None
        trace = cls()
        trace.epoch_ns, trace._columns = found
        return trace

    @property
    def is_request(self) -> Array:
        """Which rows are ranges of requests to storage."""
        return self["request"] > 0

    def layers(self) -> dict[str, int]:
        """Give the bytes at the four layers: each is what the counter of the same name counts.

        ``bytes_requested`` (asked): of the baskets that were decoded, in the file; ``bytes_read`` (served): of all
        requests to storage; ``bytes_decompressed``; ``bytes_used``: of the wanted entries. ``over_read`` is what was
        served for baskets and is in none that was asked for, ``records`` what was served for the file's own records:
        asked, over-read and records are together what was served, unless bytes were asked for more often than served.
        """
        requests, baskets = self.is_request, self["cause"] == "decode"
        lengths = self["length"]
        of_baskets = requests & np.isin(self["cause"], ("basket", "prefetch", "miss"))
        asked = int(lengths[baskets].sum())
        return {
            "bytes_requested": asked,
            "bytes_read": int(lengths[requests].sum()),
            "bytes_decompressed": int(self["bytes_decompressed"].sum()),
            "bytes_used": int(self["bytes_used"].sum()),
            "over_read": int(lengths[of_baskets].sum()) - asked,
            "records": int(lengths[requests & ~of_baskets].sum()),
        }

    def summary(self) -> str:
        """Sum up in a few lines: requests, bytes and time of each cause, and of decoding."""
        from sapwood.report.accesses import summary

        return summary(self)

    def __repr__(self) -> str:
        """Show how much there is."""
        state = "recording" if self._running else f"{len(self)} rows"
        return f"<Trace, {state}, at 0x{id(self):012x}>"


def trace(path: str | Path | None = None) -> Trace:
    """Record every access of this process to ROOT files, in a ``with`` block.

    >>> with sapwood.trace("trace.parquet") as trace:
    ...     sapwood.open("https://host/events.root:Events").arrays(["Muon_pt"])
    >>> print(trace.summary())

    Parameters
    ----------
    path
        Where to write it: Parquet, or an Arrow file (``.arrow``), which need PyArrow. Nowhere if None.

    Raises
    ------
    ArgumentError
        Another trace is being recorded, or the path has another ending.
    """
    return Trace(path)


def _column(column: Foreign, is_text: bool) -> Column:
    if not is_text:
        return ("number", np.ascontiguousarray(column.to_numpy(), np.int64))
    texts = [text.encode() for text in column.to_pylist()]
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts])]).astype(np.int64)
    return ("text", offsets, np.frombuffer(b"".join(texts), np.uint8))


def _reader(path: Path) -> Foreign:
    _writer(path)
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        return parquet.read_table
    import pyarrow.feather as feather

    return feather.read_table


def _writer(path: Path) -> Foreign:
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        return parquet.write_table
    if path.suffix in TRACES:
        import pyarrow.feather as feather

        return feather.write_feather
    raise ArgumentError(f"a trace is written as .parquet or .arrow, not as {path.name!r}")
