"""Who writes and reads the events of `sapwood lab event`, each in a process of its own (``python -m``).

All engines make the same columns of the same chunks: four numbers and a temperature, a histogram of 100 bins, and lists
of about 600 tracks with 17 members. They come from NumPy's generator; ROOT's program has a compiled one of its own.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FLOATS = (
    "px", "py", "pz", "random", "mass2", "bx", "by", "mean_charge", "xfirst", "xlast", "yfirst", "ylast", "zfirst",
    "zlast",
)  # fmt: skip
HEADER = ("run", "number", "date", "flag", "temperature")
TRACK = (*FLOATS, "charge", "npoint", "valid")
BINS, CHUNK, RANDOM, HISTOGRAMS = 100, 500, 100, 20


class Chunk:
    """Some events: header columns, the histogram, offsets of the tracks, and a flat array for each of their members."""

    def __init__(self, start: int, stop: int) -> None:
        chance = np.random.default_rng(start)
        count = stop - start
        counts = chance.integers(580, 621, count)
        self.offsets: Array = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        tracks = int(self.offsets[-1])
        self.header: dict[str, Array] = {
            "run": np.ones(count, np.int32),
            "number": np.arange(start, stop, dtype=np.int32),
            "date": np.full(count, 960312, np.int32),
            "flag": (np.arange(start, stop) % 7).astype(np.int32),
            "temperature": 20 + chance.random(count, dtype=np.float32),
        }
        self.histogram: Array = chance.integers(0, 100, (count, BINS)).astype(np.float32)
        self.tracks: dict[str, Array] = {name: chance.random(tracks, dtype=np.float32) for name in FLOATS}
        bits = chance.integers(0, 1 << 30, tracks, dtype=np.int32)
        self.tracks["charge"] = bits % 3 - 1
        self.tracks["npoint"] = 40 + (bits >> 8) % 60
        self.tracks["valid"] = ((bits >> 20) & 1).astype(np.int16)


def chunks(events: int) -> Iterator[Chunk]:
    """Make the events."""
    for start in range(0, events, CHUNK):
        yield Chunk(start, min(start + CHUNK, events))


def bytes_of(events: int) -> int:
    """Give the bytes of that many events in memory."""
    return events * (len(HEADER) * 4 + BINS * 4 + 4 + 600 * (4 * len(FLOATS) + 4 + 4 + 2))


def entries_at_random(events: int) -> list[int]:
    """Choose entries all over the file, the same for all engines."""
    return [place * 7919 % events for place in range(RANDOM)]


class Raw:
    """The arrays as they are, one after the other: what no format can be faster than."""

    needs: tuple[str, ...] = ()

    def write(self, path: Path, events: int, codec: str) -> None:
        """Write all events."""
        with path.open("wb") as file:
            for chunk in chunks(events):
                for array in (*chunk.header.values(), chunk.histogram, chunk.offsets, *chunk.tracks.values()):
                    file.write(array.data)

    def read(self, path: Path) -> float:
        """Read all events; the sum of `px` of all tracks (of bytes without a format, 0)."""
        with path.open("rb", buffering=0) as file:
            block = bytearray(1 << 22)
            while file.readinto(block):
                pass
        return 0.0

    def random(self, path: Path, entries: list[int]) -> float:
        """Read single entries."""
        size, one = path.stat().st_size, bytes_of(1)
        with path.open("rb", buffering=0) as file:
            for entry in entries:
                file.seek(entry * one % size)
                file.read(one)
        return 0.0


class Sapwood(Raw):
    """sapwood."""

    needs = ()

    def write(self, path: Path, events: int, codec: str) -> None:
        """Write all events."""
        import awkward as ak

        import sapwood
        from sapwood.lab.rewriting import parse_codec

        types: dict[str, Any] = {name: "float32" if name == "temperature" else "int32" for name in HEADER}
        types["histogram"] = ("float32", (BINS,))
        types |= {name: f"var * {_kind(name)}" for name in TRACK}
        with sapwood.recreate(path, compression=parse_codec(codec)) as file:
            tree = file.mktree("T", types, counter_name=lambda _: "ntracks")
            for chunk in chunks(events):
                tracks = {name: _jagged(ak, chunk.offsets, values) for name, values in chunk.tracks.items()}
                tree.extend({**chunk.header, "histogram": chunk.histogram, **tracks})

    def read(self, path: Path) -> float:
        """Read all events."""
        import sapwood

        return sum(_sum(step.px) for step in sapwood.iterate(f"{path}:T", step_size="64 MB"))

    def random(self, path: Path, entries: list[int]) -> float:
        """Read single entries."""
        import sapwood

        with sapwood.open(f"{path}:T") as tree:
            return sum(_sum(tree.arrays(entry_start=entry, entry_stop=entry + 1).px) for entry in entries)


class Uproot(Raw):
    """uproot."""

    needs = ("uproot",)

    def write(self, path: Path, events: int, codec: str) -> None:
        """Write all events."""
        import awkward as ak

        uproot: Any = importlib.import_module("uproot")

        kinds: dict[str, Any] = {name: np.dtype("f4" if name == "temperature" else "i4") for name in HEADER}
        kinds["histogram"] = np.dtype(("f4", (BINS,)))
        kinds["tracks"] = "var * {" + ", ".join(f"{name}: {_kind(name)}" for name in TRACK) + "}"
        name, _, level = codec.partition(":")
        setting = None if name == "none" else getattr(uproot, name.upper())(int(level))
        with uproot.recreate(path, compression=setting) as file:
            tree = file.mktree("T", kinds)
            for chunk in chunks(events):
                tracks = ak.zip({n: _jagged(ak, chunk.offsets, values) for n, values in chunk.tracks.items()})
                tree.extend({**chunk.header, "histogram": chunk.histogram, "tracks": tracks})

    def read(self, path: Path) -> float:
        """Read all events."""
        uproot: Any = importlib.import_module("uproot")

        return sum(_sum(step.tracks_px) for step in uproot.iterate(f"{path}:T", step_size="64 MB"))

    def random(self, path: Path, entries: list[int]) -> float:
        """Read single entries."""
        uproot: Any = importlib.import_module("uproot")

        with uproot.open(f"{path}:T") as tree:
            return sum(_sum(tree.arrays(entry_start=entry, entry_stop=entry + 1).tracks_px) for entry in entries)


class Parquet(Raw):
    """Parquet by pyarrow, row groups of one chunk."""

    needs = ("pyarrow",)

    def write(self, path: Path, events: int, codec: str) -> None:
        """Write all events."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        name, _, level = codec.partition(":")
        name = {"zlib": "gzip", "lzma": "zstd"}.get(name, name)
        options: dict[str, Any] = {"compression": name}
        if name in ("zstd", "gzip"):
            options["compression_level"] = int(level)
        writer = None
        for chunk in chunks(events):
            columns: dict[str, Any] = dict(chunk.header)
            columns["histogram"] = pa.FixedSizeListArray.from_arrays(chunk.histogram.reshape(-1), BINS)
            offsets = pa.array(chunk.offsets.astype(np.int32))
            columns |= {n: pa.ListArray.from_arrays(offsets, pa.array(v)) for n, v in chunk.tracks.items()}
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=False, **options)
            writer.write_table(table)
        if writer is not None:
            writer.close()

    def read(self, path: Path) -> float:
        """Read all events."""
        import pyarrow.parquet as pq

        file, total = pq.ParquetFile(path), 0.0
        for group in range(file.num_row_groups):
            table = file.read_row_group(group, use_threads=False)
            total += float(table["px"].combine_chunks().flatten().to_numpy().sum(dtype=np.float64))
        return total

    def random(self, path: Path, entries: list[int]) -> float:
        """Read single entries."""
        import pyarrow.parquet as pq

        file, total = pq.ParquetFile(path), 0.0
        for entry in entries:
            table = file.read_row_group(entry // CHUNK, use_threads=False).slice(entry % CHUNK, 1)
            total += float(table["px"].combine_chunks().flatten().to_numpy().sum(dtype=np.float64))
        return total


class Hdf5(Raw):
    """HDF5 by h5py: flat arrays and offsets, chunked, gzip of level 1 where the codec is not none."""

    needs = ("h5py",)

    def write(self, path: Path, events: int, codec: str) -> None:
        """Write all events."""
        h5py: Any = importlib.import_module("h5py")

        options: dict[str, Any] = (
            {} if codec == "none" else {"compression": "gzip", "compression_opts": 1, "shuffle": True}
        )
        with h5py.File(path, "w") as file:
            for chunk in chunks(events):
                columns = {
                    **chunk.header,
                    "histogram": chunk.histogram,
                    "counts": np.diff(chunk.offsets),
                    **chunk.tracks,
                }
                for name, values in columns.items():
                    if name not in file:
                        rows = (min(len(values), 65536), *values.shape[1:])
                        limit = (None, *values.shape[1:])
                        file.create_dataset(name, data=values, maxshape=limit, chunks=rows, **options)
                    else:
                        known: Any = file[name]
                        known.resize(len(known) + len(values), axis=0)
                        known[-len(values) :] = values

    def read(self, path: Path) -> float:
        """Read all events."""
        h5py: Any = importlib.import_module("h5py")

        with h5py.File(path) as file:
            columns: dict[str, Any] = {name: file[name][:] for name in file}
        return float(columns["px"].sum(dtype=np.float64))

    def random(self, path: Path, entries: list[int]) -> float:
        """Read single entries."""
        h5py: Any = importlib.import_module("h5py")

        total = 0.0
        with h5py.File(path) as file:
            ends = np.concatenate([[0], np.cumsum(file["counts"][:])])
            for entry in entries:
                start, stop = int(ends[entry]), int(ends[entry + 1])
                read: dict[str, Any] = {name: file[name][start:stop] for name in TRACK}
                read |= {name: file[name][entry] for name in (*HEADER, "histogram")}
                total += float(read["px"].sum(dtype=np.float64))
        return total


ENGINES = {"sapwood": Sapwood, "uproot": Uproot, "parquet": Parquet, "hdf5": Hdf5, "raw": Raw}


def missing(engine: str) -> str | None:
    """Say which package an engine lacks, None where it can run."""
    lacking = [name for name in ENGINES[engine].needs if importlib.util.find_spec(name) is None]
    return f"{', '.join(lacking)} is not installed" if lacking else None


def _kind(name: str) -> str:
    return {"charge": "int32", "npoint": "int32", "valid": "int16"}.get(name, "float32")


def _jagged(ak: Any, offsets: Array, values: Array) -> Any:
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(values)))


def _sum(lists: Any) -> float:
    import awkward as ak

    return float(np.asarray(ak.flatten(lists)).sum(dtype=np.float64))


def fill(events: int) -> float:
    """Fill 20 histograms of 100 bins with members of one chunk of tracks, over and over, on one thread."""
    import boost_histogram as bh

    chunk = Chunk(0, CHUNK)
    histograms = [bh.Histogram(bh.axis.Regular(100, 0, 1)) for _ in range(HISTOGRAMS)]
    for _ in range(0, events, CHUNK):
        for place, histogram in enumerate(histograms):
            histogram.fill(chunk.tracks[FLOATS[place % len(FLOATS)]])
    return float(histograms[3].sum(flow=True))


def expected(events: int, entries: Iterable[int] | None = None) -> float:
    """Give the sum that reading must find: of all events, or of some."""
    if entries is None:
        return sum(float(chunk.tracks["px"].sum(dtype=np.float64)) for chunk in chunks(events))
    total = 0.0
    for entry in entries:
        start = entry // CHUNK * CHUNK
        chunk = Chunk(start, min(start + CHUNK, events))
        place = entry - start
        total += float(chunk.tracks["px"][chunk.offsets[place] : chunk.offsets[place + 1]].sum(dtype=np.float64))
    return total


def main(words: list[str]) -> int:
    """Do one thing and print its figures: ENGINE ACTION FILE EVENTS CODEC."""
    name, action, path, count, codec = words
    engine, events = ENGINES[name](), int(count)
    own = ("awkward", "sapwood.reading.file", "sapwood.writing.file") if name == "sapwood" else ()
    for package in (*engine.needs, *own, *(("boost_histogram",) if action == "fill" else ())):
        importlib.import_module(package)  # which is not counted
    wall, cpu = time.perf_counter(), time.process_time()
    check = 0.0
    if action == "create":
        check = float(sum(chunk.offsets[-1] for chunk in chunks(events)))
    elif action == "write":
        engine.write(Path(path), events, codec)
    elif action == "read":
        check = engine.read(Path(path))
    elif action == "random":
        check = engine.random(Path(path), entries_at_random(events))
    elif action == "fill":
        check = fill(events)
    else:
        return 2
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"value": wall, "cpu": cpu, "check": check}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
