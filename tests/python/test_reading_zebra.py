"""ZEBRA and HBOOK files: those that a plain writer of the tests makes, and those that sapwood writes."""

from __future__ import annotations

import json
import pickle
import random
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from zebra_files import Writer, alfa, framed, read_fz, read_rz, read_structure, steering, with_fast_records

import sapwood
import sapwood.cli
import sapwood.train
from sapwood import _native
from sapwood.files.hbook import FzFile, collect

pytestmark = pytest.mark.usefixtures("forked_starts")
ROWS = 700


def blocks() -> list[tuple[str, int, list[dict[str, Any]]]]:
    chance = np.random.default_rng(3)
    counts = chance.integers(0, 6, ROWS)
    total = int(counts.sum())
    scalars = [
        {"name": "x", "kind": "R", "values": chance.normal(size=ROWS).astype(np.float32)},
        {"name": "D", "kind": "R", "bytes": 8, "values": chance.normal(size=ROWS)},
        {"name": "I", "kind": "I", "values": chance.integers(-99, 99, ROWS).astype(np.int32)},
        {"name": "SMALL", "kind": "I", "bits": 7, "range": (-60, 60), "values": chance.integers(-60, 60, ROWS)},
        {"name": "U", "kind": "U", "bits": 5, "values": chance.integers(0, 31, ROWS)},
        {"name": "L", "kind": "L", "values": chance.integers(0, 2, ROWS)},
        {"name": "K", "kind": "I", "bytes": 8, "values": chance.integers(-(2**60), 2**60, ROWS)},
        {"name": "TEXT", "kind": "C", "bytes": 12, "values": [f"row {i}" for i in range(ROWS)]},
        {"name": "M", "kind": "R", "dims": (2, 3), "values": chance.normal(size=6 * ROWS).astype(np.float32)},
    ]
    tracks = [
        {"name": "N", "kind": "I", "range": (0, 6), "counts": counts},
        {"name": "PT", "kind": "R", "index": 0, "values": chance.normal(size=total).astype(np.float32)},
        {"name": "XY", "kind": "R", "dims": (2,), "index": 0, "values": np.arange(2 * total).astype(np.float32)},
        {"name": "E8", "kind": "R", "bytes": 8, "index": 0, "values": chance.normal(size=total)},
    ]
    return [("SCALARS", ROWS, scalars), ("TRACKS", ROWS, tracks)]


def expected() -> dict[str, Any]:
    (_, _, scalars), (_, _, tracks) = blocks()
    found: dict[str, Any] = {}
    for column in scalars:
        values = column["values"]
        values = values if column["kind"] == "C" else np.asarray(values)
        found[column["name"]] = np.reshape(values, (ROWS, 3, 2)) if "dims" in column else values
    found["L"] = found["L"].astype(bool)
    counts = tracks[0]["counts"]
    found["N"] = counts
    for column in tracks[1:]:
        values = column["values"].reshape(-1, 2) if "dims" in column else column["values"]
        found[column["name"]] = ak.unflatten(values, counts)
    return found


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize(("record", "buffer", "gap"), [(1024, 1009, False), (1024, 64, True), (8192, 300, True)])
def test_column_wise_ntuples_are_tables(
    tmp_path: Path, order: str, wide: bool, record: int, buffer: int, gap: bool
) -> None:
    writer = Writer(order)
    path = tmp_path / "named.dat"  # formats are recognised by content
    path.write_bytes(writer.rz(writer.column_wise(10, "made here", blocks(), buffer), record, wide=wide, gap=gap))
    with sapwood.open(path) as file:
        assert file.classnames() == {"10;1": "CWNtuple"}
        table = file["10"]
        assert (table.title, table.num_entries) == ("made here", ROWS)
        wanted = expected()
        assert table.keys() == list(wanted)
        everything = table.arrays()
        for name, values in wanted.items():
            assert ak.to_list(everything[name]) == ak.to_list(values), name
            part = table[name].array(entry_start=123, entry_stop=457)
            assert ak.to_list(part) == ak.to_list(values[123:457]), name
        steps = list(table.iterate(["PT", "x", "N"], step_size=97))
        assert ak.to_list(ak.concatenate([step["PT"] for step in steps])) == ak.to_list(wanted["PT"])
        cut = table.arrays(["x", "PT"], cut="(N > 3) & (x < 0)")
        mask = (wanted["N"] > 3) & (wanted["x"] < 0)
        assert ak.to_list(cut["PT"]) == ak.to_list(wanted["PT"][mask])
        assert table["XY"].typename == "float[][2]"
        assert "SCALARS/M(2,3):R*4" in table["M"].title


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("record", [50, 64, 128])
@pytest.mark.parametrize("scattered", [False, True])
def test_directories_of_more_records_than_their_first_one_lists(
    order: str, wide: bool, record: int, scattered: bool
) -> None:
    writer = Writer(order)
    objects = writer.column_wise(10, "many buffers", blocks(), 12)
    data = writer.rz(objects, record, wide=wide, scattered=scattered)
    header = np.frombuffer(data, f"{order}u4")[record:]
    assert header[24] > record  # where the length of records stands
    with sapwood.open(data) as file:
        assert ak.to_list(file["10"]["PT"].array()) == ak.to_list(expected()["PT"])
    # The length that the directory states decides.
    at, count = int(header[24]), int(header[header[23] - 1])
    page = at // record
    number = 2 + page if not scattered else count + 2 - page
    changed = np.frombuffer(data, f"{order}u4").copy()
    assert changed[(number - 1) * record + at % record] == record
    changed[(number - 1) * record + at % record] += 1
    with pytest.raises(sapwood.CorruptError):
        sapwood.open(changed.tobytes())


def nested(order: str, wide: bool, depth: int) -> bytes:
    """Write a file of directories in each other, the deepest with a histogram."""
    writer, record = Writer(order), 128
    words = writer.one(7, "deep", (2, 0, 1), [0, 3, 4, 0])
    pages = [[0] * record]
    for level in range(depth + 1):
        inner = [(f"D{level}", level + 3)] if level < depth else []
        cycles: list[list[int]] = []
        if not inner:
            first, count = depth + 3, len(words)
            cycles = [[0, 0, first, 1 | 1 << 20, count, 0, 7] if wide else [0, 0, 1 | first << 16, count | 1 << 20]]
        pages.append(
            writer.directory(
                [level + 2], record, {(7, 0): 1} if cycles else {}, cycles, 0 if level else 4, wide=wide,
                directories=inner, name=f"D{level - 1}" if level else "TESTS", parent=level + 1 if level else 0,
            )
        )  # fmt: skip
    pages.append(words + [0] * (record - len(words)))
    return np.asarray(pages, np.uint32).astype(f"{order}u4").tobytes()


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("wide", [False, True])
def test_directories_lie_in_each_other(order: str, wide: bool) -> None:
    with sapwood.open(nested(order, wide, 12)) as file:
        path = "/".join(f"D{level}" for level in range(12))
        assert file.keys()[-1] == f"{path}/7;1" and len(file.keys()) == 13
        assert file[f"{path}/7"].values().tolist() == [3, 4]
    with (
        sapwood.open(nested(order, wide, 3000)) as file,
        pytest.raises(sapwood.LimitError, match="in more than 200 others"),
    ):
        file.keys()


def test_a_record_of_two_directories_is_an_error() -> None:
    words = np.frombuffer(nested(">", True, 2), ">u4").copy()
    inner = words[2 * 128 :]
    inner[int(inner[23]) - 1] = 2  # the list of records of D0: it takes that of D1
    inner[29] = 256
    inner[int(inner[23]) + 1] = 4
    with (
        sapwood.open(words.tobytes()) as file,
        pytest.raises(sapwood.CorruptError, match="record 4 is part of the directory in record"),
    ):
        file.keys()


def test_objects_that_a_file_ends_before_leave_others_readable() -> None:
    writer = Writer()
    objects = [((i, 0), writer.one(i, "t", (200, 0, 1), [i] * 202), False) for i in (1, 2, 3)]
    data = writer.rz(objects, 128)
    with sapwood.open(data[:-1600]) as file:
        assert file.keys() == ["1;1", "2;1", "3;1"]
        assert file["1"].values()[0] == 1
        with pytest.raises(sapwood.CorruptError, match="3;1"):
            file["3"]


@pytest.mark.parametrize("nx", [3, 300])
def test_the_class_of_a_large_histogram_is_that_of_a_small_one(nx: int) -> None:
    writer = Writer("<")
    cells = np.ones((nx + 2, 42), np.float32)
    objects = [((20, 0), writer.two(20, "two", (nx, 0, 1), (40, 0, 1), cells), False)]
    with sapwood.open(writer.rz(objects, gap=True)) as file:
        assert file.classnames() == {"20;1": "TH2F"}
        assert file["20"].values().shape == (nx, 40)


def test_everything_that_tables_have_works_for_ntuples(tmp_path: Path) -> None:
    writer = Writer()
    paths = [tmp_path / f"{i}.hbook" for i in range(2)]
    for path in paths:
        path.write_bytes(writer.rz(writer.column_wise(10, "twice", blocks(), 200)))
    joined = sapwood.concatenate([{path: "10"} for path in paths], ["PT", "N", "I"])
    wanted = expected()
    assert ak.to_list(joined["PT"]) == 2 * ak.to_list(wanted["PT"])
    with sapwood.open(paths[0]) as file:
        table = file["10"]
        assert not file.file.has_sets_or_maps
        pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
        assert pyarrow.table(table)["I"].to_pylist() == wanted["I"].tolist()
        again = pickle.loads(pickle.dumps(table))
        assert ak.array_equal(again["x"].array(), table["x"].array())
        assert "PT" in str(table.explain(["PT"])) or table.explain(["PT"]).requests
        out = tmp_path / "converted.root"
        with sapwood.recreate(out) as target:
            target["t"] = {name: table[name].array() for name in ("x", "PT", "D", "TEXT")}
        with sapwood.open(out) as back:
            assert ak.to_list(back["t"]["PT"].array()) == ak.to_list(wanted["PT"])


def test_rows_that_a_crash_left_are_found(tmp_path: Path) -> None:
    writer = Writer()
    path = tmp_path / "crash.hbook"
    path.write_bytes(writer.rz(writer.column_wise(10, "crash", blocks(), 64, lose_last=True)))
    with sapwood.open(path) as file:
        table = file["10"]
        wanted = expected()
        assert table.num_entries == 0  # of some columns not even one buffer was written
        for name in ("x", "PT", "TEXT", "N"):
            rows = table[name].num_entries
            assert 0 < rows < ROWS
            assert ak.to_list(table[name].array(entry_stop=rows)) == ak.to_list(wanted[name][:rows])


@pytest.mark.parametrize(("order", "width"), [(">", 2), ("<", 2), ("<", 1)])
@pytest.mark.parametrize("gap", [False, True])
def test_row_wise_ntuples_are_tables(tmp_path: Path, order: str, width: int, gap: bool) -> None:
    writer = Writer(order)
    rows = np.random.default_rng(1).normal(size=(1234, 3)).astype(np.float32)
    objects = writer.row_wise(7, "rows", ["X", "energy", "a b"], rows, 500, width=width)
    path = tmp_path / "rows.hbook"
    path.write_bytes(writer.rz(objects, 1024, width=width, gap=gap))
    with sapwood.open(path) as file:
        assert file.classnames() == {"7;1": "RWNtuple"}
        table = file["7"]
        assert table.keys() == ["X", "energy", "a b"]
        np.testing.assert_array_equal(np.stack(list(table.arrays(library="np").values()), axis=1), rows)
        np.testing.assert_array_equal(
            table["energy"].array(entry_start=160, entry_stop=700, library="np"), rows[160:700, 1]
        )


@pytest.mark.parametrize("bits", [32, 16, 8, 4])
@pytest.mark.parametrize("order", [">", "<"])
def test_histograms_of_two_dimensions(tmp_path: Path, bits: int, order: str) -> None:
    writer = Writer(order)
    cells = np.random.default_rng(2).integers(0, 14, (5, 7)).astype(np.float32)
    cells[0] = 0  # axes of labels have no underflow in boost-histogram
    squares = np.arange(15, dtype=np.float32).reshape(3, 5)
    words = writer.two(
        20, "two", (3, 0, 3), (5, -1, 1), cells, bits=bits, squares=squares, labels=["one", "two", "three"],
        projection=[0, 1, 2, 3, 4],
    )  # fmt: skip
    path = tmp_path / "two.hbook"
    path.write_bytes(writer.rz([((20, 0), words, False)]))
    with sapwood.open(path) as file:
        found = file["20"]
        assert file.classnames() == {"20;1": "TH2F"} and found.title == "two"
        np.testing.assert_array_equal(found.values(flow=True), cells)
        np.testing.assert_array_equal(found.variances(), squares)
        assert found.axis("x").labels() == ["one", "two", "three"]
        assert found.axis("y").edges().tolist() == pytest.approx([-1, -0.6, -0.2, 0.2, 0.6, 1])
        (projection,) = found.member("fFunctions")
        assert projection.name == "PROX" and projection.values(flow=True).tolist() == [0, 1, 2, 3, 4]
        assert found.to_hist().values().tolist() == cells[1:-1, 1:-1].tolist()


def test_histograms_in_cycles_and_negative_ids(tmp_path: Path) -> None:
    writer = Writer()
    objects = [((10, 0), writer.one(10, "a", (2, 0, 1), [0, i, 2, 0]), False) for i in (1, 5)]
    objects.append(((-3, 0), writer.one(-3, "b", (2, 0, 1), [0, -4, 9, 0]), False))
    path = tmp_path / "h.hbook"
    path.write_bytes(writer.rz(objects))
    with sapwood.open(path) as file:
        assert file.keys() == ["10;2", "10;1", "-3;1"]
        assert file["10"].values().tolist() == [5, 2] and file["10;1"].values().tolist() == [1, 2]
        assert file["-3"].errors().tolist() == [2, 3]  # of the absolute contents


SHAPES = [("EHDR", ("I", 1), "F", 2, None), ("TRAK", ("F", 2), "I", 3, "TRKS")]


def write(path: Path, kind: str, record: int, events: int = 50) -> tuple[np.ndarray[Any, Any], ...]:
    chance = np.random.default_rng(5)
    counts = chance.integers(0, 30, events)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    header = chance.integers(0, 2**32, (events, 2), dtype=np.uint32)
    tracks = chance.integers(0, 2**32, (int(offsets[-1]), 3), dtype=np.uint32)
    writer = _native.ZebraWriter(path, kind, record, "EVNT", SHAPES)
    if kind == "fz":
        writer.start_run(12, [7, -8])
    for start, stop in ((0, 20), (20, events)):
        here = offsets[start : stop + 1]
        top = np.arange(2 * start, 2 * stop, dtype=np.uint32)
        parts = [(None, header[start:stop].reshape(-1)), (here - here[0], tracks[here[0] : here[-1]].reshape(-1))]
        writer.write(start, stop - start, top, parts)
    if kind == "fz":
        writer.end_run([])
    writer.close()
    return offsets, header, tracks


def same(banks: dict[int, dict[str, Any]], entry: int, event: int, made: tuple[np.ndarray[Any, Any], ...]) -> None:
    offsets, header, tracks = made
    top = banks[entry]
    assert top["name"] == "EVNT" and top["data"] == [2 * event, 2 * event + 1]
    first, liste = (banks[link] for link in top["links"])
    assert first["name"] == "EHDR" and first["data"] == header[event].tolist() and first["io"] == 0x00A3
    assert first["up"] == entry and first["origin"] == entry - 1
    assert liste["name"] == "TRKS" and liste["up"] == entry and liste["origin"] == entry - 2
    where = next(address for address, bank in banks.items() if bank is liste)
    found = [banks[link] for link in liste["links"]]
    assert [bank["data"] for bank in found] == tracks[offsets[event] : offsets[event + 1]].tolist()
    assert all(bank["up"] == where and bank["origin"] == where - 1 - i for i, bank in enumerate(found))


@pytest.mark.parametrize("record", [60, 900, 7200])
def test_fz_files_written_here_follow_the_rules_of_cernlib(tmp_path: Path, record: int) -> None:
    path = tmp_path / "made.fz"
    made = write(path, "fz", record)
    records = read_fz(path.read_bytes())
    assert records[0] == (1, [12, 7, 2**32 - 8]) and records[-2] == (1, [0])
    assert records[-1][1][0] == 2**32 - 1
    events = records[1:-2]
    assert len(events) == 50
    for event, (kind, words) in enumerate(events):
        assert kind == 2 and words[0] == 0x4640E400 and words[4:6] == [0, 0] and words[6] == 2 and words[9] == 2
        assert words[10:12] == [2, event] and len(words) == 14 + words[7]
        same(read_structure(words[14:], words[12:14]), words[8], event, made)
    with sapwood.open(path) as file:
        found = list(file)
        assert [record.kind for record in found] == ["start of run", *["event"] * 50, "end of run", "end of file"]
        assert found[3].run == 12 and found[3].banks.entry.name == "EVNT"
        assert len(found[3].banks["TRAK"]) == made[0][3] - made[0][2]
        banks = list(file.collect(["TRAK", "EHDR"], step_size=7))
        assert np.array_equal(np.concatenate([one["TRAK"].matrix(3) for one in banks]), made[2])
        assert np.array_equal(np.concatenate([one["EHDR"].matrix() for one in banks]), made[1])


def test_text_and_fortran_records_hold_the_same(tmp_path: Path) -> None:
    path = tmp_path / "made.fz"
    write(path, "fz", 900)
    raw = path.read_bytes()
    modes = {"exchange": framed(raw, 900), "alfa": alfa(raw)}
    with sapwood.open(path) as file:
        wanted = [(one.kind, one.run, len(one.banks or ())) for one in file]
        words = next(file.collect("TRAK", 100))["TRAK"].words
    for mode, data in modes.items():
        with sapwood.open(data) as file:
            assert file.mode == mode
            assert [(one.kind, one.run, len(one.banks or ())) for one in file] == wanted
            assert np.array_equal(next(file.collect("TRAK", 100))["TRAK"].words, words)
    changed = modes["alfa"].replace(b"U", b"V", 1)
    with sapwood.open(changed) as file, pytest.raises(sapwood.CorruptError):
        list(file)


def native_mode(records: list[tuple[int, list[int]]], order: str = ">") -> bytes:
    """Write logical records as Fortran records of native mode: the pilot, then the banks in two parts."""
    texts = [int.from_bytes(name, "big") for name in (b"EVNT", b"EHDR", b"TRKS", b"TRAK")]
    turned = {word: int.from_bytes(word.to_bytes(4, "big"), "little") for word in texts if order == "<"}
    out = b""
    for kind, words in records:
        banks = words[7] if kind != 1 else 0
        cut = [len(words) - banks, len(words) - banks // 2, len(words)] if banks else [len(words)]
        for start, stop, of in zip([0, *cut], cut, [kind, 7, 8], strict=False):
            part = [turned.get(word, word) for word in words[start:stop]]
            record = np.array([stop - start, of, *part], f"{order}u4").tobytes()
            length = len(record).to_bytes(4, "big" if order == ">" else "little")
            out += length + record + length
    return out


@pytest.mark.parametrize("events", [50, 1500])
def test_banks_are_collected_wherever_records_and_reads_end(tmp_path: Path, events: int) -> None:
    path = tmp_path / "made.fz"
    offsets, _, tracks = write(path, "fz", 60 if events < 100 else 900, events)
    raw = path.read_bytes()
    records = read_fz(raw)
    files = {
        "one": raw,
        "native": native_mode(records),
        "little": native_mode(records, "<"),
        "framed": framed(raw, 60 if events < 100 else 900),
    }
    files |= {f"fast {length}": with_fast_records(records, length) for length in (30, 210, 3600)}
    for kind, data in files.items():
        with sapwood.open(data) as file:
            kinds = [record.kind for record in file]
            assert kinds == ["start of run", *["event"] * events, "end of run", "end of file"]
            found = [one["TRAK"] for one in file.collect("TRAK", 77)]
            assert np.array_equal(np.concatenate([one.matrix(3) for one in found]), tracks), kind
            counts = np.concatenate([np.diff(one.offsets) for one in found])
            assert np.array_equal(counts, np.diff(offsets)), kind


def test_events_know_their_run_in_every_mode(tmp_path: Path) -> None:
    path = tmp_path / "made.fz"
    write(path, "fz", 60, 20)
    begin, *events, _, end = read_fz(path.read_bytes())
    records = [
        record
        for run in (3, 1, 12)
        for record in [(1, [run, 5, run]), *events[:run], (1, [0, 2**32 - run])]
    ]  # fmt: skip
    assert begin[0] == 1
    files = {order: native_mode([*records, end], order) for order in "><"} | {
        "fast": with_fast_records([*records, end], 90)
    }
    for data in files.values():
        with sapwood.open(data) as file:
            found = list(file)
        assert [one.run for one in found if one.kind == "event"] == [3] * 3 + [1] + [12] * 12
        starts = [one.user_header[0][1].tolist() for one in found if one.kind == "start of run"]
        assert starts == [[5, 3], [5, 1], [5, 12]]
        assert [one.user_header[0][1].tolist() for one in found if one.kind == "end of run"] == [[-3], [-1], [-12]]
        assert found[-1].kind == "end of file"


@pytest.mark.parametrize("at", [20, 90, 151])
def test_an_event_that_its_writer_gave_up_is_left_out(tmp_path: Path, at: int) -> None:
    path = tmp_path / "made.fz"
    write(path, "fz", 60)
    records = np.frombuffer(path.read_bytes(), ">u4").reshape(-1, 60)
    while records[at, 6] != 0:  # a record that only continues one that began before it
        at += 1
    stop = np.array(steering(60, at, 8, 0, [], flags=1 << 31), ">u4")
    with sapwood.open(np.concatenate([records[:at], [stop], records[at + 40 :]]).tobytes()) as file:
        found = list(file)
        kinds = [record.kind for record in found]
        assert kinds.count("emergency stop") == 1 and 10 < kinds.count("event") < 50
        banks = list(file.collect("TRAK", 3))
        structures = [record.banks for record in found if record.banks is not None]
        assert sum(len(one["TRAK"].offsets) - 1 for one in banks) == len(structures)
        wanted = [track.data[1].tolist() for structure in structures for track in structure["TRAK"]]
        assert np.concatenate([one["TRAK"].matrix(3)[:, 2:] for one in banks]).view(np.int32).tolist() == wanted


@pytest.mark.parametrize("record", [128, 1024, 8192])
def test_rz_files_written_here_follow_the_rules_of_cernlib(tmp_path: Path, record: int) -> None:
    path = tmp_path / "made.rz"
    made = write(path, "rz", record)
    objects = read_rz(path.read_bytes(), record)
    assert list(objects) == [(event,) for event in range(50)]
    for (event,), words in objects.items():
        assert words[0] == 2 and len(words) == 5 + words[1]
        same(read_structure(words[5:], words[3:5]), words[2], event, made)
    with sapwood.open(path) as file:
        assert file.classnames(cycle=False) == {str(event): "Banks" for event in range(50)}
        assert file["17"].entry.links[0].data[0].view(np.uint32).tolist() == made[1][17, :1].tolist()
        banks = collect(file, ["TRAK"], ["3", "4"])["TRAK"]
        assert np.array_equal(banks.matrix(3), made[2][made[0][3] : made[0][5]])


def command(*words: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "sapwood", *map(str, words)], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("kind", ["cwn", "rwn"])
def test_commands_take_ntuples(tmp_path: Path, kind: str) -> None:
    writer, path = Writer(), tmp_path / "made.hbook"
    if kind == "cwn":
        wanted: dict[str, Any] = expected()
        path.write_bytes(writer.rz(writer.column_wise(10, "t", blocks(), 200)))
    else:
        rows = np.random.default_rng(1).normal(size=(1234, 3)).astype(np.float32)
        wanted = {name: rows[:, place] for place, name in enumerate(("x", "I", "PT"))}
        path.write_bytes(writer.rz(writer.row_wise(10, "t", list(wanted), rows, 500)))
    count = len(wanted["x"])
    shown = command("ls", path)
    assert shown.split() == [
        "10;1",
        "CWNtuple" if kind == "cwn" else "RWNtuple",
        *f"{count:,} entries".replace(",", " ").split(),
    ]
    (listed,) = json.loads(command("ls", "--tree", "--json", path))[0]["keys"]
    assert [field["name"] for field in listed["branches"]] == list(wanted)
    assert all(field["readable"] and field["baskets"] > 0 for field in listed["branches"])
    (entry,) = json.loads(command("show", "--json", "-n", 1, "--start", 7, f"{path}:10"))["shown"]
    assert entry["values"]["x"] == wanted["x"][7]
    for name in ("made.root", "made.parquet", "made.arrow"):
        command("convert", f"{path}:10", tmp_path / name, "--cut", "x > 0")
    mask = wanted["x"] > 0
    found = sapwood.open(f"{tmp_path / 'made.root'}:Events").arrays()
    assert ak.to_list(found["PT"]) == ak.to_list(wanted["PT"][mask])
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (pip install sapwood[frames])").read_table(
        tmp_path / "made.parquet"
    )
    assert parquet["PT"].to_pylist() == ak.to_list(wanted["PT"][mask])


class Sums(sapwood.train.Task):
    """Adds what it gets."""

    branches = ["x", "PT"]

    def process(self, events: Any) -> dict[str, float]:
        return {"entries": len(events), "x": float(ak.sum(events.x)), "PT": float(ak.sum(events.PT))}


def test_trains_take_ntuples_by_their_names(tmp_path: Path) -> None:
    writer = Writer()
    rows = np.random.default_rng(1).normal(size=(1000, 2)).astype(np.float32)
    (tmp_path / "rows.hbook").write_bytes(writer.rz(writer.row_wise(20, "t", ["x", "PT"], rows, 300)))
    (tmp_path / "columns.hbook").write_bytes(writer.rz(writer.column_wise(10, "t", blocks(), 200)))
    outcome = sapwood.train.run(Sums(), f"{tmp_path}/rows.hbook:20", step_size=300)
    assert outcome["sums"] == {
        "entries": 1000, "x": pytest.approx(rows[:, 0].sum(), rel=1e-4), "PT": pytest.approx(rows[:, 1].sum(), rel=1e-4)
    }  # fmt: skip
    outcome = sapwood.train.run(Sums(), [f"{tmp_path}/columns.hbook:10"], step_size=97)
    assert outcome["sums"]["PT"] == pytest.approx(float(ak.sum(expected()["PT"])), rel=1e-4)


def test_a_directory_that_holds_itself_is_an_error(tmp_path: Path) -> None:
    writer = Writer()
    path = tmp_path / "ring.hbook"
    path.write_bytes(
        writer.rz([((1, 0), writer.one(1, "a", (2, 0, 1), [0, 1, 2, 0]), False)], directories=[("RING", 2)])
    )
    assert command("ls", path).split()[::2] == ["RING;1", "1;1"]
    with pytest.raises(sapwood.CorruptError, match="listed twice"), sapwood.open(path) as file:
        file.keys()
    done = subprocess.run(
        [sys.executable, "-m", "sapwood", "ls", "-R", path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "directory 'RING/RING' (byte 4096) is listed twice" in done.stderr


def test_the_records_of_sequential_files_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "made.fz", "fz", 900)
    lines = [line.split() for line in command("ls", tmp_path / "made.fz").splitlines()]
    assert lines[1:] == [
        ["start", "of", "run", "1"],
        ["event", "50"],
        ["end", "of", "run", "1"],
        ["end", "of", "file", "1"],
    ]


def test_rows_end_where_the_counts_of_an_unfinished_ntuple_rise_no_more(tmp_path: Path) -> None:
    writer = Writer()
    objects = writer.column_wise(10, "open", blocks(), 200)
    # The header that HBOOK writes first knows no rows, and the buffers behind it are padded.
    *_, last = writer.column_wise(10, "open", blocks(), 200, lose_last=True)
    path = tmp_path / "open.hbook"
    path.write_bytes(writer.rz([*objects[:-1], last]))
    with sapwood.open(path) as file:
        table, wanted = file["10"], expected()
        assert table["N"].num_entries == ROWS
        assert ak.to_list(table["PT"].array(entry_stop=ROWS)) == ak.to_list(wanted["PT"])


def test_an_older_cycle_has_the_rows_of_the_finished_ntuple(tmp_path: Path) -> None:
    writer = Writer()
    scalars = [("SCALARS", ROWS, blocks()[0][2])]  # no column counts, so that only a header knows the rows
    *buffers, finished = writer.column_wise(10, "old", scalars, 200)
    *_, begun = writer.column_wise(10, "old", scalars, 200, lose_last=True)
    path = tmp_path / "cycles.hbook"
    path.write_bytes(writer.rz([*buffers, begun, finished]))
    with sapwood.open(path) as file:
        assert file.keys() == ["10;2", "10;1"]
        assert (file["10;1"].num_entries, file["10;2"].num_entries) == (ROWS, ROWS)
        assert file["10;1"].arrays().to_list() == file["10;2"].arrays().to_list()
    # The newest cycle is of another ntuple: rows are what the full buffers hold.
    *_, other = writer.column_wise(10, "old", [("SCALARS", ROWS, scalars[0][2][:2])], 200)
    path.write_bytes(writer.rz([*buffers, begun, other]))
    with sapwood.open(path) as file:
        assert file["10;1"].num_entries > ROWS


def test_what_follows_the_banks_changes_no_data(tmp_path: Path) -> None:
    writer = Writer()
    table, count, entry, first, end, *banks = writer.structure(
        [{"name": "DATA", "io": [0x0002_0000], "data": [5, 6]}], 0
    )
    path = tmp_path / "dead.rz"
    # A dead region, which belongs to the banks, and words that belong to nothing.
    words = [table, count + 3, entry, first, end + 3, *banks, 3, 0, 0, 99, 99]
    path.write_bytes(writer.rz([((1, 0), words, False)], tags=("ONE", "TWO")))
    with sapwood.open(path) as file:
        assert file.classnames() == {"1,0;1": "Banks"}
        assert file["1,0"].entry.data.tolist() == [5, 6]
        assert collect(file, ["DATA"], ["1,0"] * 3)["DATA"].words.tolist() == [5, 6] * 3


def damaged(data: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 3, 20])):
        at = chance.randrange(len(changed)) & ~3
        changed[at : at + 4] = chance.choice(
            [b"\xff\xff\xff\xff", bytes(4), chance.randbytes(4), (chance.randrange(5000)).to_bytes(4, "big")]
        )
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.2 else changed)


def walk(data: bytes) -> None:
    with sapwood.open(data) as file:
        if isinstance(file, FzFile):
            for record in file:
                for bank in record.banks or ():
                    _ = bank.pieces, bank.links, bank.up
            return
        for name, kind in file.classnames().items():
            try:
                found = file[name]
                if kind.endswith("Ntuple"):
                    found.arrays()
            except (sapwood.SapwoodError, NotImplementedError):
                continue


@pytest.mark.parametrize("kind", ["cwn", "rwn", "two", "fz", "rz"])
def test_damaged_files_give_errors_or_results(tmp_path: Path, kind: str) -> None:
    writer = Writer()
    if kind == "cwn":
        data = writer.rz(writer.column_wise(10, "t", blocks(), 300), 1024)
    elif kind == "rwn":
        rows = np.ones((300, 3), np.float32)
        data = writer.rz(writer.row_wise(7, "rows", ["X", "Y", "Z"], rows, 200))
    elif kind == "two":
        data = writer.rz([((2, 0), writer.two(2, "t", (3, 0, 3), (5, 0, 1), np.ones((5, 7)), labels=["a"]), False)])
    else:
        write(tmp_path / "made", kind, 900)
        data = (tmp_path / "made").read_bytes()
    errors = 0
    for seed in range(200):
        try:
            walk(damaged(data, seed))
        except sapwood.SapwoodError:
            errors += 1
    assert errors < 200


def test_labels_need_no_memory_for_bins_that_are_not_there(tmp_path: Path) -> None:
    writer = Writer(">")
    data = writer.rz([((2, 0), writer.two(2, "t", (3, 0, 3), (5, 0, 1), np.ones((5, 7)), labels=["a"]), False)])
    bins = struct.pack(">I2f", 3, 0, 3)
    assert data.count(bins) == 1
    path = tmp_path / "h.rz"
    path.write_bytes(data.replace(bins, struct.pack(">I2f", 1 << 26, 0, 3)))
    with sapwood.open(path) as file:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(sapwood.CorruptError):
            file["2"]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (100 << 10)


def test_errors_have_their_places(tmp_path: Path) -> None:
    write(tmp_path / "made.fz", "fz", 900)
    data = bytearray((tmp_path / "made.fz").read_bytes())
    data[3600:3604] = bytes(4)
    with (
        sapwood.open(bytes(data)) as file,
        pytest.raises(sapwood.CorruptError, match=r"expected a steering record.*at byte 3600"),
    ):
        list(file)
    with pytest.raises(sapwood.CorruptError):
        sapwood.open(b"neither ROOT nor ZEBRA" * 100)


@pytest.mark.parametrize("kind", ["fz", "hbook"])
@pytest.mark.parametrize(
    "words",
    [
        ["check", "IN"], ["recover", "IN", "OUT"], ["merge", "OUT", "IN"], ["copy", "IN:10", "OUT"],
        ["show", "IN:7"], ["schema", "IN:7"], ["schema", "IN"], ["rootls", "IN"], ["hist", "IN"],
        ["stats", "IN:7"], ["diff", "IN:7", "IN:7"],
    ],
)  # fmt: skip
def test_commands_that_cannot_take_a_file_say_so(
    tmp_path: Path, kind: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"made.{kind}"
    if kind == "fz":
        write(path, "fz", 900)
    else:
        path.write_bytes(Writer().rz([((10, 0), Writer().one(10, "a", (2, 0, 1), [0, 1, 2, 0]), False)]))
    paths = {"IN": str(path), "OUT": str(tmp_path / "out.root")}
    given = [word.replace("IN", paths["IN"]).replace("OUT", paths["OUT"]) for word in words]
    assert sapwood.cli.main(given) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith("sapwood: ") and path.name in error
    assert not Path(paths["OUT"]).exists()


def test_numbers_of_root_files_are_refused() -> None:
    with sapwood.open(Path(__file__).parents[1] / "golden/zebra/hbook.rz") as file:
        key = file.key("30")
        for owner, names in [
            (file.file, ("fSeekFree", "fNbytesInfo", "nfree", "fUnits")),
            (file, ("fSeekKeys", "fVersion")),
            (key, ("fVersion", "fSeekPdir", "is_64bit")),
        ]:
            for name in names:
                with pytest.raises(sapwood.UnsupportedError, match=r"(?s)ZEBRA file has no records of ROOT.*hbook\.rz"):
                    getattr(owner, name)


@pytest.mark.parametrize("words", [["advise", "IN"], ["rewrite", "IN", "-o", "OUT"], ["hist", "IN"]])
def test_commands_for_trees_refuse_ntuples(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "made.hbook").write_bytes(Writer().rz(Writer().column_wise(10, "t", blocks(), 300)))
    paths = {"IN": f"{tmp_path / 'made.hbook'}:10", "OUT": str(tmp_path / "out.root")}
    assert sapwood.cli.main([paths.get(word, word) for word in words]) in (1, 2)
    error = capsys.readouterr().err
    assert error.startswith("sapwood: ") and re.search(r"made\.hbook(:10)? is an? ", error)
    assert not Path(paths["OUT"]).exists()


def test_histograms_of_files_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer, path = Writer(), tmp_path / "h.hbook"
    cells = np.zeros((5, 4), np.float32)
    cells[2, 1] = 7
    path.write_bytes(
        writer.rz(
            [
                ((1, 0), writer.one(1, "of one axis", (4, 0, 8), [1, 2, 0, 3, 4, 5]), False),
                ((2, 0), writer.two(2, "of two", (3, 0, 3), (2, 0, 1), cells, labels=["a", "b", "c"]), False),
            ]
        )
    )
    assert sapwood.cli.main(["hist", f"{path}:1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "of one axis" and [line.split()[-1] for line in lines[1:5]] == ["2", "0", "3", "4"]
    assert lines[-1] == "Entries 6  Mean 5  Std Dev 2.309  Underflow 1  Overflow 5"
    assert sapwood.cli.main(["show", f"{path}:1"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{path}:1: TH1F of one axis", *lines[1:]]
    assert sapwood.cli.main(["show", f"{path}:2"]) == 0
    assert f"sapwood hist {path}:2 -o FILE.png" in capsys.readouterr().out
    assert sapwood.cli.main(["show", f"{path}:1", "-n", "2"]) == 2
    assert "is not a table" in capsys.readouterr().err
    assert sapwood.cli.main(["hist", f"{path}:2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["edges"]) == 2 and np.sum(shown["values"]) == 7
    assert sapwood.cli.main(["hist", f"{path}:2"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == ["of two", f"c |{'':60}|", f"b |{'█' * 30}{'':30}|"]
    pytest.importorskip("mplhep", reason="needs mplhep (pip install --group test)")
    for number in "12":
        assert sapwood.cli.main(["hist", f"{path}:{number}", "-o", str(tmp_path / f"{number}.png")]) == 0
        assert (tmp_path / f"{number}.png").read_bytes().startswith(b"\x89PNG")
    assert sapwood.cli.main(["hist", f"{path}:1", "--cut", "x > 0"]) == 2


def test_buffers_that_many_keys_share_are_an_error() -> None:
    writer = Writer()
    column = {"name": "X", "kind": "R", "values": np.arange(50 * 1008, dtype=np.float32)}
    *buffers, header = writer.column_wise(10, "t", [("B", 50 * 1008, [column])])
    words = np.frombuffer(writer.rz([header, *buffers]), ">u4").copy()
    # The cycles of all buffers, which have 15 words before their content, lead to the first one.
    places = np.flatnonzero(words == (1009 + 15 | 1 << 20))
    assert len(places) == 50
    first = places[np.argmin(words[places - 1] >> 16)]
    words[places - 1], words[places - 3] = words[first - 1], words[first - 3]
    data = words.tobytes()[: 4096 * ((int(words[first - 1]) >> 16) + 2)]
    with sapwood.open(data) as file, pytest.raises(sapwood.CorruptError, match="they overlap"):
        file["10"].arrays()


@pytest.mark.parametrize("suffix", ["root", "jsonl"])
def test_banks_become_a_table(tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    offsets, header, tracks = write(tmp_path / "made.fz", "fz", 900, 30)
    out = tmp_path / f"out.{suffix}"
    assert sapwood.cli.main(["convert", str(tmp_path / "made.fz"), str(out)]) == 0
    if suffix == "root":
        assert sapwood.cli.main(["convert", str(out), str(tmp_path / "out.jsonl")]) == 0
        with sapwood.open(out) as file:
            assert file["Events"]["TRAK_1"].count_branch.name == file["Events"]["TRAK_2"].count_branch.name == "nTRAK"
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["EVNT"] for row in rows] == [[2 * event, 2 * event + 1] for event in range(30)]
    assert [row["EHDR_1"] for row in rows] == header[:, 0].view(np.int32).tolist()
    assert {row["run"] for row in rows} == {12}
    for row, start, stop in zip(rows, offsets, offsets[1:], strict=False):
        assert row["TRAK_number"] == list(range(1, stop - start + 1))
        assert row["TRAK_2"] == tracks[start:stop, 2].view(np.int32).tolist()
        floats = np.array(row["TRAK_1"], np.float32).reshape(-1, 2)
        assert np.array_equal(floats, tracks[start:stop, :2].view(np.float32), equal_nan=True)
    capsys.readouterr()


def test_banks_that_make_no_table_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "made.fz"
    write(made, "fz", 900, 25)
    first = made.read_bytes()
    monkeypatch.setitem(globals(), "SHAPES", [SHAPES[0], ("TRAK", ("I", 2), "F", 3, "TRKS")])
    write(made, "fz", 900, 25)
    made.write_bytes(first + made.read_bytes())
    given, out = str(made), str(tmp_path / "out.root")
    for words, said in [
        ([given, out], "TRAK are of the kinds FI and IF; choose others with --columns header EVNT EHDR TRKS"),
        ([given, out, "--columns", "NONE"], "made.fz has no bank NONE; there are: header, EVNT, EHDR, TRKS, TRAK"),
        ([given, out, "--cut", "run > 1"], "cuts need a ROOT or HBOOK file"),
        ([given, str(tmp_path / "out.fz")], "HBOOK and FZ files are read only"),
    ]:
        assert sapwood.cli.main(["convert", *words]) in (1, 2)
        assert said in capsys.readouterr().err
    assert sapwood.cli.main(["convert", given, out, "--columns", "E*"]) == 0
    with sapwood.open(out) as file:
        assert file["Events"].num_entries == 50 and "TRKS" not in file["Events"]
    made.write_bytes(Writer().rz([((10, 0), Writer().one(10, "a", (2, 0, 1), [0, 1, 2, 0]), False)]))
    assert sapwood.cli.main(["convert", given, out]) == 1
    assert "is not an FZ file" in capsys.readouterr().err
