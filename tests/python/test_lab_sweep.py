"""`lab sweep` on a small tree: what it measures, and what it chooses."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import looks
from printed import example

import sapwood
from sapwood.cli import main
from sapwood.errors import ArgumentError
from sapwood.lab.advice.price import Price, parse_price
from sapwood.lab.children import engines
from sapwood.lab.studies import sweep
from sapwood.lab.studies.drawing import draw
from sapwood.lab.studies.study import Study
from sapwood.show.svg import HEIGHT, WIDTH
from sapwood.train import Summary


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "events.root"
    with sapwood.recreate(path) as made:
        made["T"] = {"x": np.arange(50_000) % 100, "y": np.random.default_rng(1).random(50_000)}
    return path


def test_the_study(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    command = [sys.executable, "-m", "sapwood", *example("lab", "sweep")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=file.parent)
    assert done.returncode == 0, done.stderr
    content = json.loads((folder / "sweep.json").read_text())
    runs = {(m["what"], m["engine"]): m["runs"][0] for m in content["measurements"]}
    tried = {f"{codec}, 10 MB, 32 kB" for codec in ("none", "zstd:5")}
    ways = ("", ", summary", ", 4 streams", ", 4 streams, summary")
    tried |= {f"zstd:5, 10 MB, 32 kB{more}, long" for more in ways}
    assert set(runs) == {(action, name) for action in ("write", "read") for name in tried}
    one, several = (runs["write", f"zstd:5, 10 MB, 32 kB{more}, long"] for more in ("", ", 4 streams"))
    assert several["bytes"] == pytest.approx(4 * one["bytes"], rel=0.01)
    assert one["bytes"] > 15e6  # two clusters, though the tree has far less
    assert (several["rss"] - one["rss"]) / 3 > 5e6  # a stream holds most of a cluster
    plain, packed = runs["write", "none, 10 MB, 32 kB"], runs["write", "zstd:5, 10 MB, 32 kB"]
    assert plain["bytes"] > 800_000 > packed["bytes"]
    assert plain["vsize"] >= plain["rss"] > 10e6
    assert runs["write", "zstd:5, 10 MB, 32 kB, summary, long"]["bytes"] > one["bytes"]
    assert {"Memory of a stream", "Summary record"} <= {table["title"] for table in content["tables"]}
    assert "Of 2 layouts the choice is " in content["findings"][0]
    assert "Peak resident memory [MB]" in (folder / "sweep.html").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["sweep.html", "sweep.json"]


@pytest.mark.alone
def test_generated_events_have_objects_to_split(tmp_path: Path) -> None:
    words: dict[str, Any] = {"codecs": ["zstd:1"], "clusters": ["2 MB"], "baskets": ["32 kB"], "streams": [1, 3]}
    study, written = sweep.run(None, tmp_path / "out", **words, rounds=1, quick=True)
    runs = {(m["what"], m["engine"]): m["runs"][0] for m in study.content["measurements"]}
    base = [f"zstd:1, 2 MB, 32 kB, split {level}" for level in (99, 0)]
    assert {name for _, name in runs} == {one + more for one in base for more in (", long", ", 3 streams, long")}
    titles = {table["title"]: table["rows"] for table in study.content["tables"]}
    assert len(titles["Memory of a stream"]) == 2 and "Summary record" not in titles
    # A cluster of 2 MB is what a stream holds, compressed or not, and not much more.
    one, three = (runs["write", base[0] + more]["rss"] for more in (", long", ", 3 streams, long"))
    assert 1e6 < (three - one) / 2 < 40e6
    assert "Memory of streams" in written["html"].read_text()
    assert looks(written["html"], tmp_path) > 50_000


def test_objects_are_written_member_wise_and_object_wise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def do(job: sweep._CellRun, action: str) -> dict[str, Any]:
        count = 90 if job.cell.layout().member_wise else 100
        for copy in job.copies():
            Path(copy).write_bytes(bytes(count))
        return {"user": count / 50 - 1, "system": 0.0, "wall": 1.0, "rss": 1, "vsize": 1}

    monkeypatch.setattr(sweep._CellRun, "do", do)
    source = tmp_path / "objects.root"
    engines.Sapwood().write(source, 20, engines.Settings("lz4:4", split=99))
    words: dict[str, Any] = {"codecs": ["none"], "clusters": ["2 MB"], "baskets": ["32 kB"], "streams": [1]}
    with pytest.raises(ArgumentError, match="it needs --split-level 0"):
        sweep.run(str(source), tmp_path / "out", **words, splits=[99], streaming=["object-wise"])
    words |= {"splits": [99, 0], "streaming": ["member-wise", "object-wise"]}
    study, _ = sweep.run(str(source), tmp_path / "out", **words, rounds=1, quick=True)
    base = "none, 2 MB, 32 kB, split "
    names = {m["engine"] for m in study.content["measurements"]}
    assert names == {base + more for more in ("99, long", "0, long", "0, object-wise, long")}
    (row,) = next(t["rows"] for t in study.content["tables"] if t["title"] == "Member-wise and object-wise")
    assert row == [f"{base}0, long", "100 B", "90 B", "−10.0 %", "1.00 s", "800 ms", "−20.0 %"]


def test_rewriting_changes_how_objects_are_streamed(tmp_path: Path) -> None:
    source, sizes = tmp_path / "objects.root", list[int]()
    engines.Sapwood().write(source, 20, engines.Settings("none", split=99))
    for way in ("member-wise", "object-wise"):
        new = tmp_path / f"{way}.root"
        assert main(["rewrite", str(source), "-o", str(new), "--split-level", "0", "--streaming", way]) == 0
        engines.Sapwood().verify(new, 20)
        sizes.append(new.stat().st_size)
    assert sizes[0] < 0.98 * sizes[1]


def test_each_stream_has_its_summary(file: Path, tmp_path: Path) -> None:
    cell = sweep.Cell("zstd:5", "10 MB", "32 kB", None, 2, summary=True)
    job = sweep._CellRun(cell, str(file), "T", 1000, str(tmp_path), 0)
    job.do(sweep.WRITE)
    for copy in job.copies():
        with sapwood.open(copy) as made:
            assert made["T"].num_entries == 1000
            assert (Summary.read(made).inputs, Summary.read(made).entries_read) == ([str(file)], 1000)


def test_the_version_of_root_is_recorded(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\nshift 10\nfor copy; do : > $copy; done\n"
        'echo \'{"user": 1, "system": 0, "wall": 1, "rss": 1, "vsize": 1}\'\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sweep, "compiled", lambda *_, **__: (program, None))
    monkeypatch.setattr(sweep, "root_version", lambda: "6.40.2")
    words: dict[str, Any] = {"codecs": ["none"], "clusters": ["10 MB"], "baskets": ["32 kB"], "streams": [1]}
    for names, recorded in ((["sapwood", "root"], {"root": "6.40.2"}), (["sapwood"], {})):
        study, _ = sweep.run(str(file), tmp_path / names[-1], names=names, **words, rounds=1)
        assert study.content["programs"] == recorded


@pytest.mark.oracle
@pytest.mark.usefixtures("rootsys")
def test_root_copies_the_same(tmp_path: Path) -> None:
    source = tmp_path / "source.root"
    engines.Sapwood().write(source, 600, engines.Settings("lz4:4", split=99))
    study = Study("sweep", {}, tmp_path)
    program, tried = sweep._root(study, tmp_path, f"{source}:T", {"splits": [99, 0]})
    assert study.content["left_out"] == {} and tried["splits"] == [99, 0]
    sizes: dict[tuple[int | None, str], int] = {}
    for split, way in ((None, "member-wise"), (99, "member-wise"), (0, "member-wise"), (0, "object-wise")):
        cell = sweep.Cell("zstd:5", "2 MB", "64 kB", split, 2, summary=True, engine="root", streaming=way)
        job = sweep._CellRun(cell, str(source), "T", 600, str(tmp_path), 0, str(program))
        assert {"user", "system", "vsize", "rss"} < set(job.do(sweep.WRITE))
        for copy in job.copies():
            engines.Sapwood().verify(Path(copy), 600)
            with sapwood.open(copy) as made:
                assert Summary.read(made).input_entries == [600] and Summary.read(made).inputs == [str(source)]
                assert {branch.compression for branch in made["T"].native.branches if branch.entries} == {505}
                assert bool(made["T"]["tracks"].branches) == (split != 0)
        sizes[split, way] = Path(copy).stat().st_size
        assert job.do(sweep.READ)["rss"] > 0
    assert sizes[0, "object-wise"] > 1.01 * sizes[0, "member-wise"]
    # The peak of virtual memory is of the copying, not of the interpreter's start: streams make a difference.
    peaks: list[int] = []
    for streams in (1, 4):
        cell = sweep.Cell("none", "20 MB", "32 kB", 0, streams, engine="root", long=True)
        job = sweep._CellRun(cell, str(source), "T", 1200, str(tmp_path), 0, str(program))
        peaks.append(job.do(sweep.WRITE)["vsize"])
    assert peaks[1] - peaks[0] > 3 * 10e6


def test_the_front() -> None:
    points = {"a": (1.0, 9.0), "b": (2.0, 3.0), "c": (3.0, 4.0), "d": (4.0, 1.0), "e": (4.0, 2.0), "f": (1.0, 10.0)}
    assert sweep.front(points) == ["a", "b", "d"]


def test_names_of_points_do_not_cross() -> None:
    names = [f"zstd:{level}, 30 MB, 32 kB, split 99" for level in range(9)]
    points = {name: (1.0 + 0.01 * place, 50.0 - 0.1 * place) for place, name in enumerate(names)}
    drawn = draw(sweep._plane("Memory and time", points, "s", "MB", names[0]))
    found = re.findall(r'class="small" x="([\d.]+)" y="([\d.]+)"( text-anchor="end")?>([^<]+)<', drawn)
    assert [name for *_, name in found] == names
    boxes: list[tuple[float, float, float, float]] = []
    for x, y, end, name in found:
        left = float(x) - 6 * len(name) * bool(end)
        boxes.append((left, float(y) - 9, left + 6 * len(name), float(y) + 2))
    circles = {(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', drawn)}
    for place, (left, top, right, bottom) in enumerate(boxes):
        assert left >= 78 and right <= WIDTH - 20 and top >= 0 and bottom <= HEIGHT - 58
        assert not any(left < x < right and top < y < bottom for x, y in circles)
        assert not any(left < r and x < right and top < b and y < bottom for x, y, r, b in boxes[:place])


def test_the_choice_follows_the_prices() -> None:
    costs = {
        "quick": {"write": 1.0, "read": 1.0, "size": 4e9, "memory": 1.0},
        "small": {"write": 3.0, "read": 2.0, "size": 1e9, "memory": 1.0},
    }
    assert sweep.choose(costs, Price()) == {"quick": 1.0, "small": 2.5}
    assert sweep.choose(costs, Price(write=0, read=1, size=1)) == {"small": 1.0, "quick": pytest.approx(5 / 3)}
    assert list(sweep.choose(costs, Price(read=100))) == ["quick", "small"]


def test_bytes_that_are_moved_cost_what_storage_gives() -> None:
    plain, packed = (0.1, 400e6), (1.0, 100e6)  # processor seconds, bytes
    for bandwidth, better in ((100e6, packed), (10e9, plain)):
        price = Price(bandwidth=bandwidth)
        assert min((plain, packed), key=lambda one: price.job(*one)) == better
    assert Price(latency=0.01).job(1.0, 0, 50) == pytest.approx(1.5)
    assert Price(memory=0.5).job(1.0, 0, 0, 2e9) == pytest.approx(2.0)


def _cells(folder: Path, times: dict[str, list[float]], sizes: dict[str, int], **price: float) -> Any:
    study = Study("sweep", {"price": dataclasses.asdict(Price(memory=0, latency=0, **price))}, folder)
    cells = [sweep.Cell(codec, "1 MB", "32 kB") for codec in times]
    for cell in cells:
        rows = [
            {"user": t, "system": 0.0, "wall": t, "rss": 1, "vsize": 1, "bytes": sizes[cell.codec], "calls": 1}
            for t in times[cell.codec]
        ]
        for action in (sweep.WRITE, sweep.READ):
            one = {"what": action, "engine": cell.name, "unit": "s", "values": times[cell.codec], "runs": rows}
            study.content["measurements"].append(one)
    return study, cells


def test_no_compression_is_not_chosen_for_warm_reading_alone(tmp_path: Path) -> None:
    times, sizes = {"none": [0.02] * 3, "zstd:5": [0.3] * 3}, {"none": 120_000_000, "zstd:5": 40_000_000}
    assert "the choice is zstd:5" in sweep._choice(*_cells(tmp_path / "a", times, sizes))[0]  # at 100 MB/s
    assert "the choice is none" in sweep._choice(*_cells(tmp_path / "b", times, sizes, bandwidth=5e9))[0]
    priced = _cells(tmp_path / "c", times, sizes, bandwidth=5e9, size=20.0)
    chosen, *_, prices, _ = sweep._choice(*priced)
    assert "20 s for a stored GB" in prices and "the choice is zstd:5" in chosen


def test_tables_and_choice_are_of_all_rounds(tmp_path: Path) -> None:
    times = {"none": [1.0, 1.0, 9.0], "lz4:4": [1.02, 1.02, 1.02], "zstd:5": [2.0, 2.0, 2.0]}
    study, cells = _cells(tmp_path, times, dict.fromkeys(times, 1))
    (layouts, *_) = sweep._tables(study, cells)
    assert [row[0].split(",")[0] for row in layouts["rows"]] == ["none", "lz4:4", "zstd:5"]
    assert layouts["rows"][0][1] == "1.00 s"
    chosen, ties, *_ = sweep._choice(study, cells)
    assert "the choice is none" in chosen and "as good (score 1.00): lz4:4, 1 MB, 32 kB (1.02)" in ties
    study.content["measurements"] = [one for one in study.content["measurements"] if "none" not in one["engine"]]
    assert not any("as good" in found for found in sweep._choice(study, cells[1:]))


def test_a_sweep_does_not_go_on_with_another_file(file: Path, tmp_path: Path) -> None:
    words: dict[str, Any] = {"codecs": ["none"], "clusters": ["10 MB"], "baskets": ["32 kB"], "streams": [1]}
    study, _ = sweep.run(str(file), tmp_path / "out", **words, rounds=1)
    again, _ = sweep.run(str(file), tmp_path / "out", **words, rounds=1)
    assert again.content["started"] == study.content["started"]
    with sapwood.recreate(file) as made:
        made["T"] = {"x": np.arange(50_000) % 7, "y": np.zeros(50_000)}
    with pytest.raises(ArgumentError, match=r"events\.root is not the file that .*sweep\.json was measured with"):
        sweep.run(str(file), tmp_path / "out", **words, rounds=1)


@pytest.mark.parametrize("dictionary", [True, False])
def test_root_and_split_levels(dictionary: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words: dict[str, Any] = {"codecs": ["none"], "clusters": ["1 MB"], "baskets": ["32 kB"], "splits": [99, 0]}
    program = tmp_path / "program"

    def do(job: Any, _: str) -> dict[str, float]:
        for copy in job.copies():
            Path(copy).touch()
        return {"user": 1.0, "system": 0.0, "wall": 1.0, "rss": 1, "vsize": 1}

    def compiled(folder: Path, name: str, **own: Any) -> tuple[Path | None, str | None]:
        if not own:
            return program, None
        assert "class Track" in (folder / own["dictionary"][0]).read_text()
        assert "#pragma link C++ class vector<Track>+;" in own["dictionary"][1].replace("std::", "")
        return (program, None) if dictionary else (None, "there is no rootcling")

    monkeypatch.setattr(sweep, "compiled", compiled)
    monkeypatch.setattr(sweep, "root_version", lambda: "6.40.2")
    monkeypatch.setattr(sweep._CellRun, "do", do)
    study, _ = sweep.run(None, tmp_path / "both", names=["sapwood", "root"], **words, streams=[1], rounds=1, quick=True)
    base, measured = "none, 1 MB, 32 kB", {one["engine"] for one in study.content["measurements"]}
    ours = {f"{base}, split {level}, long" for level in (99, 0)}
    if dictionary:
        assert measured == ours | {f"{name}, root" for name in ours} and not study.content["left_out"]
    else:
        assert measured == {*ours, f"{base}, long, root"}
        said = "ROOT has no dictionary of the classes: there is no rootcling"
        assert study.content["left_out"] == {"root, split levels": said}


@pytest.mark.parametrize(
    ("cluster", "long", "entries", "wanted"),
    [
        ("30 MB", False, 10_000, 500),  # the sample
        ("30 MB", True, 1_000_000, 120_000),  # 1 kB an entry, half of it when compressed
        ("30 MB", True, 50_000, 150_000),  # three times the tree
        ("2000", True, 10_000, 4000),
        ("100", True, 10_000, 500),
    ],
)
def test_long_jobs_fill_two_clusters(cluster: str, long: bool, entries: int, wanted: int) -> None:
    cell = sweep.Cell("zstd:5", cluster, "32 kB", long=long)
    assert sweep.entries_of(cell, entries, 1000 * entries, 500 * entries, 500) == wanted


def test_layouts_of_several_clusters_are_compared_on_the_same_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops: dict[str, int] = {}

    def do(job: Any, _: str) -> dict[str, float]:
        stops[job.cell.name] = job.stop
        for copy in job.copies():
            Path(copy).touch()
        return {"user": float(job.stop), "system": 0.0, "wall": 1.0, "rss": 1, "vsize": 1}

    monkeypatch.setattr(sweep._CellRun, "do", do)
    words: dict[str, Any] = {"codecs": ["none"], "clusters": ["1 MB", "20 MB"], "baskets": ["32 kB"], "splits": [99]}
    study, _ = sweep.run(None, tmp_path, **words, streams=[1], rounds=1, quick=True)
    assert len(stops) == 2 and len(set(stops.values())) == 1
    assert [row[-1] for row in study.content["tables"][0]["rows"]] == ["1.00", "1.00"]
    # The axis of processor time has no prices of storage and memory.
    points = study.content["figures"][0]["curves"][0]["points"]
    assert {point[0] for point in points} == {2.0 * stop for stop in stops.values()}


def test_wrong_words(file: Path, tmp_path: Path) -> None:
    price = parse_price("20ms", "1Gbit/s", ["read=2.5"])
    assert (price.read, price.latency, price.bandwidth) == (2.5, 0.02, 125e6)
    for wrong in ("read", "read=x", "read=nan", "size=-1", "size=inf"):
        with pytest.raises(ArgumentError, match="a name and a number"):
            parse_price(weights=[wrong])
    with pytest.raises(ArgumentError, match="unknown weight 'speed'; choose from write"):
        parse_price(weights=["speed=1"])
    with pytest.raises(ArgumentError, match="streams from 1 to 100"):
        sweep.run(str(file), tmp_path, streams=[0])
    with pytest.raises(ArgumentError, match="no objects to split"):
        sweep.run(str(file), tmp_path, splits=[0, 99])
    with sapwood.recreate(tmp_path / "empty.root") as made:
        made["T"] = {"x": np.zeros(0)}
    with pytest.raises(ArgumentError, match=r"empty\.root:T has no entries to copy"):
        sweep.run(str(tmp_path / "empty.root"), tmp_path)
    with pytest.raises(ArgumentError, match="a codec must be"):
        sweep.run(str(file), tmp_path, codecs=["zip"])
