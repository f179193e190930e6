"""The engines that write and read the events of `sapwood lab event`, each in a process of its own (``python -m``).

All engines, including ROOT's program, write the same values, which the native module makes: four numbers and a
temperature, a histogram of 100 bins, and lists of about 600 tracks with 17 members.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sapwood import _native
from sapwood.errors import SapwoodError
from sapwood.lab.children.job import IMPORTED

Array = NDArray[Any]
Columns = Callable[[str], Array]
"""Events that were read: a function that returns the flat values of a column, a list or the histogram."""

FLOATS = (
    "px", "py", "pz", "random", "mass2", "bx", "by", "mean_charge", "xfirst", "xlast", "yfirst", "ylast", "zfirst",
    "zlast",
)  # fmt: skip
HEADER = ("run", "number", "date", "flag", "temperature")
TRACK = (*FLOATS, "charge", "npoint", "valid")
BANKS = ("EHDR", "EHIS", "TRAK")
BINS, CHUNK, RANDOM, HISTOGRAMS = 100, 500, 100, 20


@dataclass(frozen=True)
class Settings:
    """How events are written: codec and level, and the layout of the tracks.

    With `split` None, each member is a list. Otherwise tracks are objects, with a branch for each member (99) or in one
    branch (0), member by member or object by object.
    """

    codec: str = "zstd:5"
    split: int | None = None
    member_wise: bool = True

    def codec_and_level(self) -> tuple[str, int]:
        """Return the codec's name and the level of its library; 0 without a codec.

        ROOT and sapwood use half of the levels of the Zstandard library: level 5 is level 10 of the library.
        """
        name, _, level = self.codec.partition(":")
        return name, int(level or 0) * (2 if name == "zstd" else 1)


class Chunk:
    """Events: header columns, the histogram, offsets of the tracks, and a flat array for each of their members."""

    def __init__(self, start: int, stop: int) -> None:
        made, count = _native.lab_events(start, stop), stop - start
        self.offsets: Array = made["offsets"]
        self.header: dict[str, Array] = {
            "run": np.ones(count, np.int32),
            "number": np.arange(start, stop, dtype=np.int32),
            "date": np.full(count, 960312, np.int32),
            "flag": (np.arange(start, stop) % 7).astype(np.int32),
            "temperature": made["temperature"],
        }
        self.histogram: Array = made["histogram"].reshape(count, BINS)
        self.tracks: dict[str, Array] = dict(zip(FLOATS, made["floats"], strict=True))
        self.tracks |= {name: made[name] for name in ("charge", "npoint", "valid")}

    def columns(self) -> dict[str, Array]:
        """Return the values of all columns, flat."""
        return {**self.header, "histogram": self.histogram.reshape(-1), **self.tracks}


def chunks(events: int) -> Iterator[Chunk]:
    """Make the events."""
    for start in range(0, events, CHUNK):
        yield Chunk(start, min(start + CHUNK, events))


def bytes_of(events: int) -> int:
    """Return the bytes of this number of events in memory."""
    return events * (len(HEADER) * 4 + BINS * 4 + 4 + 600 * (4 * len(FLOATS) + 4 + 4 + 2))


def entries_at_random(events: int) -> list[int]:
    """Return entries from the whole file, the same for all engines."""
    return [place * 7919 % events for place in range(RANDOM)]


class Engine(ABC):
    """An engine, which writes events into a file and reads them."""

    needs: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    """Modules that it imports at first use; the import is not measured."""

    def refuses(self, settings: Settings) -> str | None:
        """Return why it cannot use the settings; None if it can."""
        return None

    def codec(self, settings: Settings) -> str:
        """Return the codec that it uses for the settings, with the level of the codec's library."""
        return ":".join(str(part) for part in settings.codec_and_level() if part)

    @abstractmethod
    def write(self, path: Path, events: int, settings: Settings) -> None:
        """Write all events."""

    @abstractmethod
    def read(self, path: Path) -> Iterator[Columns]:
        """Read all events, some at a time."""

    @abstractmethod
    def random(self, path: Path, entries: Iterable[int]) -> Iterator[Columns]:
        """Read single entries."""

    def verify(self, path: Path, events: int) -> None:
        """Compare every value that is read with the written value.

        Raises
        ------
        SapwoodError
            A value or the number of events differs.
        """
        entry = 0
        for columns in self.read(path):
            count = len(columns("number"))
            for name, wanted in Chunk(entry, entry + count).columns().items():
                if not np.array_equal(columns(name), wanted):
                    raise SapwoodError(f"{name} of entries {entry} to {entry + count} differs from what was written")
            entry += count
        if entry != events:
            raise SapwoodError(f"there are {entry} entries, not {events}")


class Raw(Engine):
    """The plain arrays, one after the other: the upper limit for all formats."""

    def codec(self, settings: Settings) -> str:
        """Return none."""
        return "none"

    def write(self, path: Path, events: int, settings: Settings) -> None:
        """Write all events."""
        with path.open("wb") as file:
            for chunk in chunks(events):
                for array in (*chunk.columns().values(), chunk.offsets):
                    file.write(array.data)

    def read(self, path: Path) -> Iterator[Columns]:
        """Read all bytes; without a format there are no columns."""
        with path.open("rb", buffering=0) as file:
            block = bytearray(1 << 22)
            while file.readinto(block):
                pass
        return iter(())

    def random(self, path: Path, entries: Iterable[int]) -> Iterator[Columns]:
        """Read as many bytes as single entries have."""
        size, one = path.stat().st_size, bytes_of(1)
        with path.open("rb", buffering=0) as file:
            for entry in entries:
                file.seek(entry * one % size)
                file.read(one)
        return iter(())

    def verify(self, path: Path, events: int) -> None:
        """Compare the bytes."""
        with path.open("rb") as file:
            for chunk in chunks(events):
                for array in (*chunk.columns().values(), chunk.offsets):
                    if file.read(array.nbytes) != array.tobytes():
                        raise SapwoodError("the bytes differ from what was written")


class Sapwood(Engine):
    """sapwood."""

    imports = (*IMPORTED, "sapwood.writing.file", "sapwood.lab.advice.rewriting")

    def codec(self, settings: Settings) -> str:
        """Return the codec of the settings, with ROOT's level."""
        return settings.codec

    def write(self, path: Path, events: int, settings: Settings) -> None:
        """Write all events."""
        import awkward as ak

        import sapwood
        from sapwood.compression import parse_codec

        types: dict[str, Any] = {name: "float32" if name == "temperature" else "int32" for name in HEADER}
        types["histogram"] = ("float32", (BINS,))
        options: dict[str, Any] = {"counter_name": lambda _: "ntracks"}
        if settings.split is None:
            types |= {name: f"var * {_kind(name)}" for name in TRACK}
        else:
            types["tracks"] = _record_type()
            options = {"records": "class", "classes": {"tracks": "Track"}, "split_level": settings.split}
            options["member_wise"] = settings.member_wise
        with sapwood.recreate(path, compression=parse_codec(settings.codec)) as file:
            tree = file.mktree("T", types, **options)
            for chunk in chunks(events):
                tracks: dict[str, Any] = {n: _jagged(ak, chunk.offsets, values) for n, values in chunk.tracks.items()}
                if settings.split is not None:
                    tracks = {"tracks": _records(ak, chunk)}
                tree.extend({**chunk.header, "histogram": chunk.histogram, **tracks})

    def read(self, path: Path) -> Iterator[Columns]:
        """Read all events."""
        import sapwood

        yield from map(_of_awkward, sapwood.iterate(f"{path}:T", step_size="64 MB"))

    def random(self, path: Path, entries: Iterable[int]) -> Iterator[Columns]:
        """Read single entries."""
        import sapwood

        with sapwood.open(f"{path}:T") as tree:
            for entry in entries:
                yield _of_awkward(tree.arrays(entry_start=entry, entry_stop=entry + 1))


class Zebra(Engine):
    """ZEBRA's FZ format in exchange mode: a bank for the header, the histogram and each track of an event."""

    kind = "fz"
    record = 7200
    """Words of a physical record."""
    step = 20
    """Events that are read together: few enough for the processor's cache."""

    def refuses(self, settings: Settings) -> str | None:
        """Refuse objects: the format has only banks."""
        return "it has banks, not objects" if settings.split is not None else None

    def codec(self, settings: Settings) -> str:
        """Return no codec: ZEBRA does not compress."""
        return "none"

    def write(self, path: Path, events: int, settings: Settings) -> None:
        """Write all events."""
        shapes = [
            ("EHDR", ("I", 4), "F", len(HEADER), None),
            ("EHIS", None, "F", BINS, None),
            ("TRAK", ("F", len(FLOATS)), "I", len(TRACK), "TRKS"),
        ]
        writer = _native.ZebraWriter(path, self.kind, self.record, "EVNT", shapes)
        if self.kind == "fz":
            writer.start_run(1, [])
        number = 0
        for chunk in chunks(events):
            count = len(chunk.offsets) - 1
            header = _rows(chunk.header.values())
            tracks = _rows(chunk.tracks.values())
            parts = [(None, header), (None, chunk.histogram.reshape(-1).view(np.uint32)), (chunk.offsets, tracks)]
            writer.write(number, count, header.reshape(count, -1)[:, :2].reshape(-1), parts)
            number += count
        if self.kind == "fz":
            writer.end_run([])
        writer.close()

    def read(self, path: Path) -> Iterator[Columns]:
        """Read all events."""
        import sapwood

        with sapwood.open(path) as file:
            for banks in file.collect(BANKS, self.step):
                yield _of_banks(banks)

    def random(self, path: Path, entries: Iterable[int]) -> Iterator[Columns]:
        """Read single entries; a sequential file is read up to the last of them."""
        import sapwood

        wanted = set(entries)
        with sapwood.open(path) as file:
            for entry, banks in enumerate(file.collect(BANKS, 1)):
                if entry in wanted:
                    yield _of_banks(banks)
                if entry >= max(wanted):
                    return


class ZebraKeys(Zebra):
    """ZEBRA's RZ format: the same banks, read by key."""

    kind = "rz"
    record = 8192

    def read(self, path: Path) -> Iterator[Columns]:
        """Read all events."""
        import sapwood
        from sapwood.files.hbook import collect

        with sapwood.open(path) as file:
            keys = file.keys(cycle=False)
            for start in range(0, len(keys), self.step):
                yield _of_banks(collect(file, BANKS, keys[start : start + self.step]))

    def random(self, path: Path, entries: Iterable[int]) -> Iterator[Columns]:
        """Read single entries."""
        import sapwood
        from sapwood.files.hbook import collect

        with sapwood.open(path) as file:
            for entry in entries:
                yield _of_banks(collect(file, BANKS, [str(entry)]))


def _rows(columns: Iterable[Array]) -> Array:
    """Return the words of all rows, one after the other."""
    words = [values.astype(np.int32) if values.dtype == np.int16 else values for values in columns]
    return np.stack([column.view(np.uint32) for column in words], axis=1).reshape(-1)


def _of_banks(banks: Mapping[str, Any]) -> Columns:
    def column(name: str) -> Array:
        if name == "histogram":
            return banks["EHIS"].words.view(np.float32)
        bank, names = ("EHDR", HEADER) if name in HEADER else ("TRAK", TRACK)
        words = banks[bank].matrix(len(names))[:, names.index(name)]
        return words.view(np.float32 if name in FLOATS or name == "temperature" else np.int32)

    return column


class Uproot(Engine):
    """uproot."""

    needs = ("uproot",)
    imports = ("awkward", "numpy.ma")

    def refuses(self, settings: Settings) -> str | None:
        """Refuse objects in one branch."""
        return "it writes no objects in one branch" if settings.split == 0 else None

    def write(self, path: Path, events: int, settings: Settings) -> None:
        """Write all events."""
        import awkward as ak

        uproot: Any = importlib.import_module("uproot")

        kinds: dict[str, Any] = {name: np.dtype("f4" if name == "temperature" else "i4") for name in HEADER}
        kinds["histogram"] = np.dtype(("f4", (BINS,)))
        kinds["tracks"] = _record_type()
        name, level = settings.codec_and_level()
        setting = None if name == "none" else getattr(uproot, name.upper())(level)
        with uproot.recreate(path, compression=setting) as file:
            tree = file.mktree("T", kinds)
            for chunk in chunks(events):
                tree.extend({**chunk.header, "histogram": chunk.histogram, "tracks": _records(ak, chunk)})

    def read(self, path: Path) -> Iterator[Columns]:
        """Read all events."""
        uproot: Any = importlib.import_module("uproot")

        yield from map(_of_awkward, uproot.iterate(f"{path}:T", step_size="64 MB"))

    def random(self, path: Path, entries: Iterable[int]) -> Iterator[Columns]:
        """Read single entries."""
        uproot: Any = importlib.import_module("uproot")

        with uproot.open(f"{path}:T") as tree:
            for entry in entries:
                yield _of_awkward(tree.arrays(entry_start=entry, entry_stop=entry + 1))


class Parquet(Engine):
    """Parquet by pyarrow, row groups of one chunk."""

    needs = ("pyarrow",)

    def refuses(self, settings: Settings) -> str | None:
        """Refuse objects in one column, and LZMA."""
        if settings.split == 0:
            return "it always has a column for each member"
        return "it has no LZMA" if settings.codec.startswith("lzma") else None

    def write(self, path: Path, events: int, settings: Settings) -> None:
        """Write all events."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        name, level = settings.codec_and_level()
        options: dict[str, Any] = {"compression": {"zlib": "gzip"}.get(name, name)}
        if name in ("zstd", "zlib"):
            options["compression_level"] = level
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

    def read(self, path: Path) -> Iterator[Columns]:
        """Read all events."""
        import pyarrow.parquet as pq

        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            yield _of_arrow(file.read_row_group(group, use_threads=False))

    def random(self, path: Path, entries: Iterable[int]) -> Iterator[Columns]:
        """Read single entries."""
        import pyarrow.parquet as pq

        file = pq.ParquetFile(path)
        for entry in entries:
            yield _of_arrow(file.read_row_group(entry // CHUNK, use_threads=False).slice(entry % CHUNK, 1))


class Hdf5(Engine):
    """HDF5 by h5py: flat arrays and the lengths of lists, in chunks. Objects are elements of a compound type."""

    needs = ("h5py",)

    def refuses(self, settings: Settings) -> str | None:
        """Refuse objects member by member."""
        return "it writes objects one by one" if settings.split == 0 and settings.member_wise else None

    def codec(self, settings: Settings) -> str:
        """Return the codec; gzip if hdf5plugin is not installed or does not have the requested one."""
        name, level = settings.codec_and_level()
        if name in ("none", "zlib"):
            return super().codec(settings)
        has = name in ("zstd", "lz4") and importlib.util.find_spec("hdf5plugin") is not None
        return {"zstd": f"zstd:{level}", "lz4": "lz4"}[name] if has else "zlib:1"

    def _options(self, settings: Settings) -> dict[str, Any]:
        name, _, level = self.codec(settings).partition(":")
        if name == "none":
            return {}
        if name == "zlib":
            return {"compression": "gzip", "compression_opts": int(level)}
        plugin: Any = importlib.import_module("hdf5plugin")
        return dict(plugin.Zstd(clevel=int(level)) if name == "zstd" else plugin.LZ4())

    def write(self, path: Path, events: int, settings: Settings) -> None:
        """Write all events."""
        h5py: Any = importlib.import_module("h5py")

        options = self._options(settings)
        with h5py.File(path, "w") as file:
            for chunk in chunks(events):
                tracks: dict[str, Array] = chunk.tracks
                if settings.split == 0:
                    kinds = [(name, values.dtype) for name, values in chunk.tracks.items()]
                    tracks = {"tracks": np.rec.fromarrays(list(chunk.tracks.values()), dtype=kinds)}
                columns = {**chunk.header, "histogram": chunk.histogram, "counts": np.diff(chunk.offsets), **tracks}
                for name, values in columns.items():
                    if name not in file:
                        rows = (min(len(values), 65536), *values.shape[1:])
                        limit = (None, *values.shape[1:])
                        file.create_dataset(name, data=values, maxshape=limit, chunks=rows, **options)
                    else:
                        known: Any = file[name]
                        known.resize(len(known) + len(values), axis=0)
                        known[-len(values) :] = values

    def read(self, path: Path) -> Iterator[Columns]:
        """Read all events."""
        h5py: Any = self._module()

        with h5py.File(path) as file:
            yield self._flat({name: file[name][:] for name in file})

    def random(self, path: Path, entries: Iterable[int]) -> Iterator[Columns]:
        """Read single entries."""
        h5py: Any = self._module()

        with h5py.File(path) as file:
            ends = np.concatenate([[0], np.cumsum(file["counts"][:])])
            for entry in entries:
                start, stop = int(ends[entry]), int(ends[entry + 1])
                tracks = ("tracks",) if "tracks" in file else TRACK
                read: dict[str, Any] = {name: file[name][start:stop] for name in tracks}
                yield self._flat(read | {name: file[name][entry : entry + 1] for name in (*HEADER, "histogram")})

    @staticmethod
    def _module() -> Any:
        if importlib.util.find_spec("hdf5plugin") is not None:
            importlib.import_module("hdf5plugin")  # the import registers its codecs
        return importlib.import_module("h5py")

    @staticmethod
    def _flat(read: Mapping[str, Array]) -> Columns:
        return lambda name: (read[name] if name in read else read["tracks"][name]).reshape(-1)


ENGINES: dict[str, type[Engine]] = {
    "sapwood": Sapwood, "uproot": Uproot, "parquet": Parquet, "hdf5": Hdf5, "zebra": Zebra, "zebra-rz": ZebraKeys,
    "raw": Raw,
}  # fmt: skip


def missing(engine: str) -> str | None:
    """Return the missing packages of an engine as text; None if it can run."""
    lacking = [name for name in ENGINES[engine].needs if importlib.util.find_spec(name) is None]
    return f"{', '.join(lacking)} is not installed" if lacking else None


def _kind(name: str) -> str:
    return {"charge": "int32", "npoint": "int32", "valid": "int16"}.get(name, "float32")


def _record_type() -> str:
    return "var * {" + ", ".join(f"{name}: {_kind(name)}" for name in TRACK) + "}"


def _jagged(ak: Any, offsets: Array, values: Array) -> Any:
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), ak.contents.NumpyArray(values)))


def _records(ak: Any, chunk: Chunk) -> Any:
    """Return the tracks as lists of records, without a copy."""
    contents = [ak.contents.NumpyArray(values) for values in chunk.tracks.values()]
    records = ak.contents.RecordArray(contents, list(chunk.tracks))
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(chunk.offsets), records))


def _of_awkward(step: Any) -> Columns:
    """Find columns among the fields of a step; readers give the members of objects other names."""
    ak: Any = importlib.import_module("awkward")

    def column(name: str) -> Array:
        for one in (name, f"tracks_{name}", f"tracks.{name}"):
            if one in step.fields:
                return np.asarray(ak.flatten(step[one], axis=None))
        return np.asarray(ak.flatten(step["tracks"][name], axis=None))

    return column


def _of_arrow(table: Any) -> Columns:
    def column(name: str) -> Array:
        values = table[name].combine_chunks()
        return (values if name in HEADER else values.flatten()).to_numpy(zero_copy_only=False)

    return column


def sum_of(read: Iterable[Columns]) -> float:
    """Read, and return the sum of `px` of all tracks."""
    return sum(float(columns("px").sum(dtype=np.float64)) for columns in read)


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
    """Return the sum that reading must find, for all or for some events."""
    made = chunks(events) if entries is None else (Chunk(entry, entry + 1) for entry in entries)
    return sum_of(chunk.tracks.__getitem__ for chunk in made)


def main(words: list[str]) -> int:
    """Run one action and print its figures: ENGINE ACTION FILE EVENTS SETTINGS."""
    name, action, path, count, told = words
    engine, events, settings = ENGINES[name](), int(count), Settings(**json.loads(told))
    for package in (*engine.needs, *engine.imports, *(("boost_histogram",) if action == "fill" else ())):
        importlib.import_module(package)  # not measured
    if action in ("write", "read", "random"):
        _first_use(engine, Path(path), settings, action)
    modules, wall, cpu = set(sys.modules), time.perf_counter(), time.process_time()
    check = 0.0
    if action == "create":
        check = float(sum(chunk.offsets[-1] for chunk in chunks(events)))
    elif action == "write":
        engine.write(Path(path), events, settings)
    elif action == "read":
        check = sum_of(engine.read(Path(path)))
    elif action == "random":
        check = sum_of(engine.random(Path(path), entries_at_random(events)))
    elif action == "verify":
        engine.verify(Path(path), events)
    elif action == "fill":
        check = fill(events)
    else:
        return 2
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    imported = sorted(set(sys.modules) - modules)
    print(json.dumps({"value": wall, "cpu": cpu, "check": check, "imported": imported}))
    return 0


def _first_use(engine: Engine, path: Path, settings: Settings, action: str) -> None:
    """Write and read a few events in another file, unmeasured: libraries import and prepare a lot at first use."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        other = Path(folder) / path.name
        engine.write(other, RANDOM, settings)
        if action == "read":
            sum_of(engine.read(other))
        elif action == "random":
            sum_of(engine.random(other, [0, RANDOM - 1]))


def told(settings: Settings) -> str:
    """Return settings in the form that `main` takes."""
    return json.dumps(dataclasses.asdict(settings))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
