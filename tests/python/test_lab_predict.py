"""`lab predict`: queues whose answer is known, descriptions, and the comparison with a measurement."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browser import looks, sheets
from printed import example

from sapwood.errors import ArgumentError
from sapwood.lab.studies import gsi, predict
from sapwood.lab.studies.predict import Load, Site, Storage, simulate
from sapwood.lab.studies.site.cases import ALL, AS_IS, Case
from sapwood.lab.studies.study import Study

pytestmark = pytest.mark.usefixtures("forked_starts")
MB = 1e6


def test_one_job_takes_the_sum_of_its_costs() -> None:
    load = Load(files=3, file_bytes=10 * MB, events=10, piece=10 * MB, open=0.5, event=0.1)
    found = simulate(Site((1.0,), (Storage((100.0,)),)), load, 1)
    assert found.seconds == pytest.approx(3 * (0.1 + 0.5 + 1.0))
    assert found.megabytes == pytest.approx(30 / found.seconds) and found.events == pytest.approx(30 / found.seconds)
    assert found.full == pytest.approx({"storage": 0.3 / found.seconds, "processor": 4.5 / found.seconds})


def test_reading_ahead_hides_the_shorter_part() -> None:
    load = Load(files=1, file_bytes=100 * MB, events=100, piece=1 * MB, event=0.01, ahead=1)
    found = simulate(Site((1.0,), (Storage((100.0,)),)), load, 1)
    assert found.seconds == pytest.approx(1.0 + 0.01)  # the first piece is waited for


def test_jobs_share_what_there_is() -> None:
    load = Load(files=4, file_bytes=10 * MB, events=10, piece=10 * MB, event=0.1)
    two = Site((1.0, 2.0), (Storage((1e6,)),))
    rates = [simulate(two, load, jobs).events for jobs in (1, 2, 4)]
    assert rates[1] / rates[0] == pytest.approx(2.0, rel=1e-3) and rates[2] / rates[1] == pytest.approx(1.0, rel=1e-3)
    slower = Site((1.0, 1.4), (Storage((1e6,)),))
    assert simulate(slower, load, 2).events / rates[0] == pytest.approx(1.4, rel=1e-3)


def test_jobs_fall_out_of_step() -> None:
    # A piece takes 5 ms of storage, that has one line, and 10 ms of one of two processors: 200 a second at most.
    site = Site((1.0, 2.0), (Storage((200.0, 200.0)),))
    alike = Load(files=200, file_bytes=1 * MB, events=1, piece=1 * MB, event=0.01)
    differing = Load(files=200, file_bytes=1 * MB, events=1, piece=1 * MB, event=0.01, spread=0.2)
    assert simulate(site, alike, 4).events == pytest.approx(100, rel=0.01)  # four read, then four compute
    assert 150 < simulate(site, differing, 4).events < 200
    assert simulate(site, differing, 1).events == pytest.approx(simulate(site, alike, 1).events)


def test_a_disk_that_serves_two_jobs_moves_its_head() -> None:
    load = Load(files=5, file_bytes=10 * MB, events=1, piece=2 * MB)
    disk = Site((8.0,), (Storage((100.0,), access=0.02),))
    assert simulate(disk, load, 1).seconds == pytest.approx(0.5 + 0.02)
    assert simulate(disk, load, 2).seconds == pytest.approx(50 * (0.02 + 0.02))
    both = Site((8.0,), (Storage((100.0,), access=0.02),) * 2)
    assert simulate(both, load, 2).seconds == pytest.approx(0.5 + 0.02)


def test_the_network_is_shared() -> None:
    load = Load(files=1, file_bytes=10 * MB, events=1, piece=1 * MB)
    link = Site((8.0,), (Storage((1e6,)),) * 4, network=50 * MB, latency=0.001)
    found = simulate(link, load, 4)
    assert found.megabytes == pytest.approx(50, rel=0.03) and found.full["network"] > 0.95
    assert simulate(link, load, 1).seconds == pytest.approx(0.2 + 0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("site", "jobs", "full"),
    [
        (Site(tuple(map(float, range(1, 9))), (Storage((1e9,)),)), {1: 0.125, 4: 0.5, 8: 1.0, 16: 1.0}, "processor"),
        (Site((1e9,), (Storage((100.0, 200.0, 250.0, 240.0)),)), {1: 0.4, 2: 0.8, 3: 1.0, 4: 1.0, 9: 1.0}, "storage"),
        (Site((1e9,), (Storage((100.0,), access=0.01),)), {1: 1.0, 3: 1.0}, "storage"),
        (Site((1e9,), (Storage((1e9,)),), network=50 * MB), {1: 1.0}, "network"),
    ],
)
def test_stations_are_full_where_they_have_no_more_to_give(site: Site, jobs: dict[int, float], full: str) -> None:
    load = Load(files=2, file_bytes=10 * MB, events=100, piece=1 * MB, event=0.003)
    found = {count: simulate(site, load, count).full[full] for count in jobs}
    assert found == pytest.approx(jobs, rel=1e-3)


@pytest.mark.parametrize(
    ("storage", "jobs", "words"),
    [
        ([{"rate": 1e4}], [1, 2, 4], "nothing is full with 4 (processor is most, 50 %): more jobs may get more"),
        ([{"rate": 1e4}], [4, 8, 16], "more jobs hardly more; with 16, processor is "),
        ([{"curve": [10, 20, 30]}], [1, 2], "nothing is full with 2 (storage is most, "),
        ([{"rate": 1, "count": 3}], [1, 2], "nothing is full with 2"),  # the third has no job yet
        ([{"rate": 1, "count": 3}], [1, 3], "3 jobs get 3 MB/s, more jobs hardly more; with 3, storage is "),
        ([{"rate": 1}], [1, 4], "1 job gets 1 MB/s, more jobs hardly more; with 4, storage is "),
    ],
)
def test_more_jobs_gain_where_there_is_more(storage: list[Any], jobs: list[int], words: str, tmp_path: Path) -> None:
    given = {"cores": 8, "jobs": jobs, "storage": storage}
    given["job"] = {"files": 5, "file": 3.3, "events": 100, "decoding": 3, "spread": 0}
    (tmp_path / "site.json").write_text(json.dumps(given))
    study, _ = predict.run(tmp_path / "out", description=tmp_path / "site.json")
    assert words in study.content["findings"][0]


SITE = {
    "cores": 4, "jobs": [1, 2, 8], "storage": [{"rate": 50, "disks": 2, "access": 8, "count": 2}],
    "network": {"rate": 110, "latency": 0.2},
    "job": {"files": 5, "file": 10, "events": 100, "piece": 1, "ahead": 2, "open": 11, "decompression": 2, "task": 1},
}  # fmt: skip


def test_a_description() -> None:
    found, load, jobs = predict.parse(json.dumps(SITE), "site.json")
    assert found == Site((1.0, 2.0, 3.0, 4.0), (Storage((100.0,), 0.008),) * 2, 110 * MB, 0.0002)
    assert load == Load(5, 10 * MB, 100, 1 * MB, open=0.011, event=0.003, ahead=2, spread=0.1)
    assert jobs == [1, 2, 8]
    if sys.version_info >= (3, 11):
        text = "cores = 2\nprocessor = [1.0, 1.5]\n[[storage]]\ncurve = [80, 100]\n[job]\nfile = 3.3\nevents = 100\n"
        found, load, jobs = predict.parse(text, "site.toml")
        assert found == Site((1.0, 1.5), (Storage((80.0, 100.0)),)) and jobs == [1, 2, 4]
        assert (load.files, load.piece) == (10, 3.3 * MB)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"discs": 1}, "unknown setting 'discs'"),
        ({"cores": "two"}, "cores is a number up to 100000, not 'two'"),
        ({"storage": []}, "needs storage"),
        ({"storage": [{"rate": 0}]}, "rates above 0"),
        ({"storage": [{"access": 1}]}, "rate is a number, not None"),
        ({"jobs": [0]}, "jobs are numbers"),
        ({"cores": 1e12}, "cores is a number up to 100000"),
        ({"cores": math.nan}, "cores is a number up to 100000, not nan"),
        ({"storage": [{"rate": 1, "count": 1e9}]}, "count is a number up to 1000"),
        ({"jobs": [2000]}, "jobs are numbers"),
        ({"jobs": ["x"]}, "jobs is a number, not 'x'"),
        ({"processor": "x"}, "processor is a list of numbers"),
        ({"storage": [{"curve": [[1]]}]}, r"curve is a number, not \[1\]"),
        ({"storage": 3}, "storage is a list"),
        ({"job": {"file": 10, "events": -1}}, "events is a number, not -1"),
        ({"job": {"file": 1e9, "events": 1, "piece": 1}}, "100000 pieces"),
        ({"job": 7}, "a table of"),
        ({"network": {"rate": 0}}, "rate of a network is above 0"),
        ({"jobs": [1.7]}, "jobs is a whole number, not 1.7"),
        ({"cores": 2.5}, "cores is a whole number"),
        ({"job": {"files": 2.9, "file": 1, "events": 1}}, "files is a whole number"),
    ],
)
def test_wrong_descriptions(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        predict.parse(json.dumps(SITE | change), "site.json")


def _measured(folder: Path, rates: dict[int, float]) -> Path:
    """Make a result of lab site: 2 files of 10 MB and 100 events; 0.1 s storage, 0.02 opening, 0.28 s in all a file.

    Plain reading, of 500 MB/s, works a quarter of its time: storage alone would give 667 MB/s.
    """
    study = Study("site", {"jobs": list(rates)}, folder)
    for count, rate in rates.items():
        job = {
            "job": 0.56,
            "user": 0.3,
            "system": 0.06,
            "open": 0.04,
            "bytes": 20 * MB,
            "stored": 20 * MB,
            "events": 200,
        }
        plain = {"job": 0.04, "user": 0.0, "system": 0.01, "bytes": 20 * MB, "stored": 20 * MB, "events": 200}
        for engine, value in (("sapwood", rate), ("raw", 500.0 * min(count, 2)), ("processor", 100.0 * min(count, 2))):
            case = Case("esd", AS_IS, ALL, engine, count)
            one = {"what": case.what, "engine": engine, "unit": "MB/s", "values": [value]}
            one["runs"] = [plain if engine == "raw" else job]
            study.content["measurements"].append(one)
    facts = {"files": 2, "file_bytes": 11 * MB, "events": 100, "stored": 10 * MB, "few": 1.0}
    study.content |= {"files": {"esd": {AS_IS: facts}}, "complete": True}
    study.save()
    return study.path


def test_layers_of_a_measurement(tmp_path: Path) -> None:
    content = json.loads(_measured(tmp_path, {1: 36.0, 2: 70.0, 4: 72.0}).read_text())
    found, load, measured = predict.layers_of(content, "esd")
    assert found.processor == (1.0, 2.0, 2.0, 2.0)
    ((rates, _),) = [(store.rates, store.access) for store in found.storage]
    assert rates[:2] == pytest.approx((100.0, 200.0), rel=1e-3)  # each job has its own line
    assert rates[3] == pytest.approx(150.0, rel=0.05)  # of 1000 MB/s, which the processors' work hardly delays
    assert (load.files, load.file_bytes, load.open) == (2, 10 * MB, pytest.approx(0.02))
    assert load.event * 100 == pytest.approx(0.28 - 0.1 - 0.02)
    assert measured == {1: 36.0, 2: 70.0, 4: 72.0}
    assert simulate(found, load, 1).megabytes == pytest.approx(20 / 0.56)


def test_the_check(tmp_path: Path) -> None:
    path = _measured(tmp_path, {1: 36.0, 2: 70.0, 4: 72.0})
    study, written = predict.run(tmp_path / "out", check=path)
    rows = {row[0]: row for row in study.content["tables"][0]["rows"]}
    assert rows["2"][1:3] == ["71.4 MB/s", "70.0 MB/s"]
    assert "off by at most" in study.content["findings"][0]
    assert not any(warning["code"] in ("few-rounds", "loaded") for warning in study.content["warnings"])
    assert not any("other programs" in finding for finding in study.content["findings"])
    content = json.loads(path.read_text()) | {"warnings": [{"code": "loaded"}]}
    path.write_text(json.dumps(content))
    loaded, _ = predict.run(tmp_path / "loaded", check=path)
    assert "other programs ran" in loaded.content["findings"][1]
    assert "Aggregate rate [MB/s]" in written["html"].read_text()
    assert looks(written["html"], tmp_path) > 30_000


def test_one_job_checks_nothing(tmp_path: Path) -> None:
    study, _ = predict.run(tmp_path / "out", check=_measured(tmp_path, {1: 36.0}))
    assert study.content["findings"] == [
        "esd: only one job was measured, from which the costs come: there is nothing to check."
    ]


@pytest.mark.parametrize("lacking", [{}, {"stored": 0}])
def test_a_result_without_bytes_of_branches_is_refused(lacking: dict[str, int], tmp_path: Path) -> None:
    content = json.loads(_measured(tmp_path, {1: 36.0, 2: 70.0}).read_text())
    for measurement in content["measurements"]:
        measurement["runs"] = [{k: v for k, v in run.items() if k != "stored"} | lacking for run in measurement["runs"]]
    with pytest.raises(ArgumentError, match="bytes of branches"):
        predict.layers_of(content, "esd")


def test_a_prediction_is_made_again_from_its_result(tmp_path: Path) -> None:
    result = _measured(tmp_path / "site", {1: 36.0, 2: 70.0})
    bare = {name: value for name, value in SITE.items() if name != "job"}
    for number, (given, options) in enumerate(
        [(SITE, {}), (bare, {"costs": result}), (None, {"check": result}), (None, {"with_gsi": True})]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        if given is not None:
            (folder / "mine.json").write_text(json.dumps(given))
            options["description"] = folder / "mine.json"
        content = predict.run(folder, **options)[0].content
        expected = [
            m["values"][0] for m in content["measurements"] if m["engine"] == "predicted" and m["unit"] == "MB/s"
        ]
        again: list[float] = []
        for name, kept in json.loads((folder / "predict.json").read_text())["sites"].items():
            found, load, jobs = predict.parse(json.dumps(kept), name)
            again += [simulate(found, load, count).megabytes for count in jobs]
        assert again == pytest.approx(expected, rel=1e-6) and again
        page = (folder / "predict.html").read_text()
        assert "job, file</td>" in page and "processor" in page and " ms a file" in page


def test_jobs_are_dealt_to_hosts_that_share_storage_and_network(tmp_path: Path) -> None:
    load = Load(files=2, file_bytes=10 * MB, events=100, piece=1 * MB, event=0.01)
    disk = (Storage((1e6,)),)
    alone, pair = Site((1.0, 2.0), disk), Site((1.0, 2.0), disk, hosts=((1.0, 2.0), (1.0, 2.0)))
    for jobs, gain in ((1, 1.0), (2, 1.0), (4, 2.0), (8, 2.0)):
        one, two = (simulate(site, load, jobs) for site in (alone, pair))
        assert two.megabytes / one.megabytes == pytest.approx(gain, rel=0.01)
    assert set(two.full) == {"storage", "processor 1", "processor 2"} and two.full["processor 2"] > 0.95
    for shared in ({"storage": (Storage((15.0,)),)}, {"network": 15 * MB}):
        site = dataclasses.replace(pair, **shared)
        assert simulate(site, dataclasses.replace(load, ahead=20), 8).megabytes == pytest.approx(15, rel=0.1)

    bare = {name: value for name, value in SITE.items() if name != "cores"}
    given = bare | {"hosts": [{"cores": 4, "count": 2}, {"processor": [1, 1.5]}]}
    given["inputs"] = {"storage": "published", "storage.access": "measured", "job": "measured"}
    (tmp_path / "site.json").write_text(json.dumps(given | {"jobs": []}))
    content = predict.run(tmp_path / "out", description=tmp_path / "site.json")[0].content
    kept = content["sites"]["site.json"]
    found, _, jobs = predict.parse(json.dumps(kept), "site.json")
    four = (1.0, 2.0, 3.0, 4.0)
    assert found.hosts == (four, four, (1.0, 1.5)) and jobs == [1, 2, 4, 10, 20]
    rows = {row[0]: row[2] for row in content["tables"][-1]["rows"]}
    assert rows["storage 1, rate"] == "published" and rows["storage 1, access"] == rows["job, file"] == "measured"
    assert rows["hosts 1, cores"] == rows["network, rate"] == "assumed" and rows["jobs"] == ""
    assert content["findings"][-1] == "Inputs: 3 published, 9 measured, 5 assumed."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hosts": [{"cores": 2}]}, "with `hosts`, set `cores` and `processor`"),
        ({"hosts": 3, "cores": None}, "hosts is a list"),
        ({"hosts": [], "cores": None}, "one host or more"),
        ({"hosts": [{"cores": 0}], "cores": None}, "a host needs cores"),
        ({"inputs": {"storage": "guessed"}}, "published, measured or assumed, not 'guessed'"),
        ({"inputs": {"disks": "measured"}}, "unknown input 'disks'; choose from .*storage.rate"),
        ({"inputs": 3}, "inputs is a table"),
    ],
)
def test_wrong_hosts_and_inputs(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    given = {name: value for name, value in (SITE | change).items() if value is not None}
    (tmp_path / "site.json").write_text(json.dumps(given))
    with pytest.raises(ArgumentError, match=message):
        predict.run(tmp_path / "out", description=tmp_path / "site.json")


def test_a_new_file_takes_accesses_of_its_disk() -> None:
    load = Load(files=5, file_bytes=10 * MB, events=1, piece=2 * MB, accesses=3)
    disk = Site((8.0,), (Storage((100.0,), access=0.02),))
    assert simulate(disk, load, 1).seconds == pytest.approx(0.5 + 5 * 3 * 0.02)
    parsed = predict.parse(json.dumps({**SITE, "job": {"file": 10, "events": 1, "accesses": 3}}), "site.json")[1]
    assert parsed.accesses == 3


def test_the_figures_of_gsi(tmp_path: Path) -> None:
    study, written = predict.run(tmp_path, with_gsi=True)
    points, inputs, weights = study.content["tables"][:3]
    assert len(points["rows"]) == 27 and {row[2] for row in inputs["rows"]} == {"published", "assumed"}
    stated = {row[0]: row[1] for row in inputs["rows"] if row[2] == "published"}
    assert stated["cores"] == "8" and stated["one disk"] == "70 MB/s" and stated["network"] == "125 MB/s"
    assert {row[0] for row in inputs["rows"] if row[2] == "assumed"} == {
        "seek", "one turn of a disk", "read by a disk before it serves another job", "accesses to open a file",
        "disks of the remote servers",
    }  # fmt: skip
    solved = [one for one in gsi.solve(gsi.Inputs()) if one.point.is_clear]
    assert len(solved) == 21 and gsi.median_error(solved) < 0.15  # without a fitted parameter
    flat = {row[0]: row[1:3] for row in points["rows"] if "flattens" in row[0]}
    assert flat["Pythia, four disks: the curve flattens at"] == ["2 jobs a disk"] * 2 and len(flat) == 4
    fails = {row[0] for row in points["rows"] if abs(int(row[3].replace("−", "-").split()[0])) > 25}
    assert fails == {row[0] for row in points["rows"] if row[4]}  # each failure has its account
    assert all(int(text.split()[0]) < 30 for row in weights["rows"] for text in row[1:])
    assert "without a fitted parameter" in study.content["findings"][0]
    assert sum("The model fails for" in finding for finding in study.content["findings"]) == len(fails) - 4
    assert study.content["headline"].startswith("The median error is 14.") and len(study.content["tiles"]) == 3
    assert study.content["figures"][0]["title"] == "Predicted and published rates"
    drawn = dict(study.content["figures"][-1]["groups"])
    assert list(drawn) == [row[0] for row in points["rows"]]  # every point, counted or not
    assert sum("counted" in values for values in drawn.values()) == 21
    assert study.content["figures"][1]["marks"] == {"limit of four disks": 280, "limit of RAID, 8 MB": 180}
    assert looks(written["html"], tmp_path) > 50_000
    assert sheets(written["html"], tmp_path) == 2


def test_an_input_of_gsi_is_no_prediction() -> None:
    inputs = gsi.Inputs()
    model = gsi.Model(inputs)
    for event, rate in ((model.simple, inputs.simple.value), (model.train, inputs.train.value)):
        run = gsi.Run(model.local(model.raid), model.small_esd(event), 1)
        assert run.rate("events/s") == pytest.approx(rate, rel=0.02)  # so the processor time was taken from it
    assert not any(point.published in (535, 414) for point in gsi.points(inputs))


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "site.json").write_text(json.dumps({name: value for name, value in SITE.items() if name != "job"}))
    result = _measured(tmp_path / "results", {1: 36.0, 2: 70.0})

    def call(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "sapwood", "lab", "predict", *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    done = call(*example("lab", "predict")[2:])
    assert done.returncode == 0, done.stderr
    assert "Prediction" in done.stdout and "network" in done.stdout and "MB/s" in done.stdout
    content = json.loads((tmp_path / "prediction" / "predict.json").read_text())
    assert len(content["tiles"]) == 3 and content["tiles"][0][0].endswith("MB/s")
    assert call("-o", tmp_path / "out").returncode == 2
    (tmp_path / "own.json").write_text(json.dumps(SITE))
    for words, message in (
        ([tmp_path / "own.json", "--costs", result], "contradicts the measured costs"),
        (["--gsi", "--costs", tmp_path / "none"], "give its description, too"),
        (["--gsi", "--data", "esd"], "give one by --costs or --check"),
    ):
        done = call(*words, "-o", tmp_path / "out")
        assert done.returncode == 2 and message in done.stderr, done.stderr
    assert "not a finished result" in call("--check", tmp_path / "prediction" / "predict.json", "-o", tmp_path).stderr
    assert "cannot be read" in call(tmp_path / "none.json", "-o", tmp_path).stderr
