"""A record of every access: which bytes were read, why, for how long, and what became of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ArgumentError

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood.columns import Array, Column, Foreign

VERSION = "1"
"""The version of the format: it changes when a column changes its meaning or goes."""

COLUMNS = {
    "cause": 'why: "header", "directory", "streamers", "object" (a tree\'s own record, a histogram), "basket" (when '
    'needed), "prefetch" (ahead of need), "miss" (far away, not fetched ahead); "decode" for a basket that was decoded',
    "file": "the path or URL",
    "tree": "the tree; empty for a request",
    "branch": "the path of the branch; empty for a request",
    "basket": "the number of the basket in its branch; -1 for a request",
    "entry_start": "the first entry of the basket that was wanted; -1 for a request",
    "entry_stop": "the entry behind the last one that was wanted",
    "offset": "the first byte in the file",
    "length": "bytes in the file",
    "request": "the number of the request; its ranges share it, each with a row of its own; 0 for a basket",
    "start_ns": "when it began, in nanoseconds since the trace began",
    "end_ns": "when it ended",
    "decompression_ns": "time of decompression",
    "decoding_ns": "time of decoding",
    "bytes_decompressed": "bytes of the basket after decompression",
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

    def summary(self) -> str:
        """Sum up in a few lines: requests, bytes and time of each cause, and of decoding."""
        from sapwood.report.units import bytes_text, seconds_text

        causes, lengths = self["cause"], self["length"]
        spans = self["end_ns"] - self["start_ns"]
        lines = [f"{'cause':<10} {'requests':>9} {'ranges':>9} {'bytes':>10} {'time':>10}"]
        for cause in dict.fromkeys(causes.tolist()):
            rows = np.flatnonzero(causes == cause)
            if cause == "decode":
                continue
            _, firsts = np.unique(self["request"][rows], return_index=True)
            time = seconds_text(spans[rows][firsts].sum() / 1e9)
            size = bytes_text(int(lengths[rows].sum()))
            lines.append(f"{cause:<10} {len(firsts):>9} {len(rows):>9} {size:>10} {time:>10}")
        rows = causes == "decode"
        lines.append(
            f"{int(rows.sum())} baskets of {len(np.unique(self['branch'][rows]))} branches: "
            f"{bytes_text(int(lengths[rows].sum()))} in the file, "
            f"{bytes_text(int(self['bytes_decompressed'][rows].sum()))} decompressed in "
            f"{seconds_text(self['decompression_ns'][rows].sum() / 1e9)}, "
            f"decoded in {seconds_text(self['decoding_ns'][rows].sum() / 1e9)} (summed over threads)"
        )
        return "\n".join(lines) + "\n"

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


def _writer(path: Path) -> Foreign:
    if path.suffix == ".parquet":
        import pyarrow.parquet as parquet

        return parquet.write_table
    if path.suffix in (".arrow", ".feather"):
        import pyarrow.feather as feather

        return feather.write_feather
    raise ArgumentError(f"a trace is written as .parquet or .arrow, not as {path.name!r}")
