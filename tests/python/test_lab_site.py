"""`lab site` on small files: what is measured, what is compared, and what the findings say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from browser import looks
from servers import Server, serving
from xrootd_servers import cluster, single

import sapwood
from sapwood.errors import ArgumentError, SapwoodError, UnsupportedError
from sapwood.lab import event, job, samples, site
from sapwood.lab.samples import Kind
from sapwood.lab.study import Study

SMALL = {"esd": Kind(12, 20, 5, "Tracks"), "pythia": Kind(6, 30, 20, "fParticles")}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the study once, over little data."""
    folder, other = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("disk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "KINDS", SMALL)
        options: Any = {"jobs": [1, 2], "per_job": 2, "merge": [2], "read_ahead": ["64 kB"], "rounds": 1, "quick": True}
        site.run(folder, names=["sapwood", "raw"], disks=[str(folder), str(other)], **options)
    assert list(other.iterdir()) == []
    return folder


def test_the_files_are_like_those_of_sites(tmp_path: Path) -> None:
    samples.make("pythia", tmp_path / "one.root")
    samples.make("pythia", tmp_path / "two.root", files=2, codec="none", alone=True)
    with sapwood.open(tmp_path / "one.root") as file:
        tree = file["T"]
        assert (len(tree.keys()), tree.num_entries, len(file.keys())) == (22, 190, 41)
        assert tree.compressed_bytes < tree.uncompressed_bytes
    with sapwood.open(tmp_path / "two.root") as file:
        assert file.keys() == ["T;1"] and file["T"].num_entries == 380
    assert (samples.KINDS["esd"].branches, samples.KINDS["esd"].events) == (406, 100)


def test_what_is_measured(result: Path) -> None:
    content = json.loads((result / "site.json").read_text())
    found = {(m["what"], m["engine"]): m["runs"][0] for m in content["measurements"]}
    one = found["esd, as is, all branches, 1 job", "sapwood"]
    assert one["events"] == 40 and one["bytes"] > 0 and one["decompression"] > 0
    assert one["open"] + one["decompression"] + one["decoding"] + one["task"] <= one["job"]
    assert found["esd, as is, all branches, 2 jobs", "sapwood"]["events"] == 80
    assert found["pythia, as is, all branches, 2 jobs", "sapwood"]["events"] == 120
    for variant in ("merged 2", "tree alone", "compressed none", "copied before", "disks 2"):
        assert found[f"esd, {variant}, all branches, 1 job", "sapwood"]["events"] == 40, variant
    assert found["esd, read ahead 64 kB, all branches, 1 job", "raw"]["bytes"] > 0
    sizes = content["files"]["esd"]
    assert sizes["merged 2"]["files"] == 1 and sizes["merged 2"]["events"] == 40
    assert sizes["compressed none"]["stored"] > sizes["as is"]["stored"] > sizes["as is"]["few"]
    assert found["esd, as is, all branches, 1 job", "raw"]["bytes"] == 2 * sizes["as is"]["file_bytes"]
    assert sorted(path.name for path in result.iterdir()) == ["site.html", "site.json"]


def test_the_page(result: Path) -> None:
    page = (result / "site.html").read_text()
    for words in ("Aggregate rate [MB/s]", "Jobs", "limit", "Events a second", "Share of a job", "Where time goes"):
        assert words in page, words


def test_the_page_opens_in_a_browser(result: Path, tmp_path: Path) -> None:
    assert looks(result / "site.html", tmp_path) > 50_000


def _study(folder: Path, rates: dict[site.Case, dict[str, float]]) -> tuple[Study, list[site.Case], dict[str, Any]]:
    study = Study("site", {}, folder)
    for case, figures in rates.items():
        run = {"job": 1.0, "wall": 1.0, "events_per_second": figures["value"] * 10, **figures}
        value = run.pop("value")
        one = {"what": case.what, "engine": case.engine, "unit": "MB/s", "values": [value], "runs": [run]}
        study.content["measurements"].append(one)
    facts = {"files": 10, "file_bytes": 2.5e6, "events": 100, "stored": 2e6, "few": 1e5}
    return study, list(rates), {"esd": dict.fromkeys((case.variant for case in rates), facts)}


def _case(jobs: int, engine: str = "sapwood", variant: str = site.AS_IS) -> site.Case:
    return site.Case("esd", variant, site.ALL, engine, jobs)


def test_findings_follow_their_rules(tmp_path: Path) -> None:
    measured = {
        _case(1): {"value": 16.0, "decompression": 0.71, "open": 0.11, "storage": 0.1},
        _case(2): {"value": 30.4},
        _case(4): {"value": 31.0},
        _case(4, "raw"): {"value": 310.0},
        _case(1, "root"): {"value": 8.0},
        _case(1, variant="merged 10"): {"value": 24.0},
        _case(1, variant="tree alone"): {"value": 16.5},
    }
    found = " ".join(site.findings(*_study(tmp_path, measured)))
    assert "CPU-bound: decompression takes 71 %; 2 jobs give 1.9 × the rate of 1" in found
    assert "from 2 on more jobs gain no more" in found
    assert "4 jobs take 10 % of what plain reading gives" in found
    # 1000 events in 10 files: 160 events a second are 625 ms a file, 240 in files of ten are 417.
    assert "each file costs 231 ms, 11 of them to open: merging 10 to 25.0 MB would gain 50 %" in found
    assert "2.0 × the events of root" in found
    assert "merged 10 gains 50 %" in found and "tree alone" not in found


def test_what_opening_costs(tmp_path: Path) -> None:
    # A file takes 100 ms, 11 of them to open.
    measured = {_case(1): {"value": 100.0, "decompression": 0.71, "open": 0.11}}
    found = site.findings(*_study(tmp_path, measured))
    assert found[1] == "esd: each file costs 11 ms to open: merging 10 to 25.0 MB would gain 11 %."


def test_what_bounds_an_engine_without_counters(tmp_path: Path) -> None:
    works = {_case(1, "root"): {"value": 8.0, "user": 0.8, "system": 0.1}, _case(2, "root"): {"value": 16.0}}
    waits = {_case(1, "root"): {"value": 8.0, "user": 0.1, "system": 0.1, "queued": 0.1}}
    found = site.findings(*_study(tmp_path, works))[0]
    assert "CPU-bound: a processor works 90 % of the time; 2 jobs give 2.0 × the rate of 1" in found
    assert "storage-bound: 70 % of the time waits for it" in site.findings(*_study(tmp_path / "b", waits))[0]


def test_storage_bound(tmp_path: Path) -> None:
    measured = {_case(1): {"value": 16.0, "storage": 0.3, "waiting": 0.4, "decompression": 0.2}}
    assert "storage-bound: 70 % of the time waits for it" in site.findings(*_study(tmp_path, measured))[0]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    path = tmp_path / "one.root"
    samples.make("pythia", path)
    with serving({f"{n}.root": path.read_bytes() for n in range(2)}) as running:
        yield running


def test_files_far_away(server: Server, tmp_path: Path) -> None:
    urls: Any = {"files": [server.url(f"{n}.root") for n in range(2)], "read_ahead": ["1 MB"]}
    study, _ = site.run(tmp_path / "out", names=["sapwood", "raw"], jobs=[1, 2], rounds=1, quick=True, **urls)
    found = {(m["what"], m["engine"]): m["runs"][0] for m in study.content["measurements"]}
    assert found["files, as is, all branches, 2 jobs", "sapwood"]["events"] == 380
    assert found["files, as is, all branches, 1 job", "raw"]["bytes"] == len(server.files["0.root"])
    assert found["files, read ahead 1 MB, all branches, 1 job", "sapwood"]["events"] == 190
    assert found["files, read ahead 1 MB, all branches, 1 job", "raw"]["bytes"] == len(server.files["0.root"])
    assert {"direct", "direct random", "other variants"} <= set(study.content["left_out"])
    with pytest.raises(SapwoodError, match="no such branch: 'none'"):
        site.run(
            tmp_path / "bad", files=[server.url("0.root")], names=["sapwood"], branches=["none"], jobs=[1], rounds=1
        )


def test_files_in_s3(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["bucket/one.root"] = server.files["0.root"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url("").rstrip("/"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options: Any = {"names": ["sapwood", "raw"], "jobs": [1], "rounds": 1, "quick": True}
    study, _ = site.run(tmp_path / "out", files=["s3://bucket/one.root"], **options)
    found = {m["engine"]: m["runs"][0] for m in study.content["measurements"]}
    assert found["sapwood"]["events"] == 190 and found["raw"]["bytes"] == len(server.files["0.root"])


@pytest.mark.parametrize("pool", [False, True], ids=["server", "redirector"])
def test_xrootd_servers(pool: bool, tmp_path: Path) -> None:
    paths = {f"{number}.root": tmp_path / f"{number}.root" for number in range(2)}
    for path in paths.values():
        samples.make("pythia", path)
    start: Any = (
        cluster({"a": {"0.root": paths["0.root"]}, "b": {"1.root": paths["1.root"]}}) if pool else single(paths)
    )
    with start as running:
        urls = [running.url(name) for name in paths]
        study, _ = site.run(tmp_path / "out", files=urls, names=["sapwood", "raw"], jobs=[1, 2], rounds=1, quick=True)
    found = {(m["what"], m["engine"]): m["runs"][0] for m in study.content["measurements"]}
    assert found["files, as is, all branches, 2 jobs", "sapwood"]["events"] == 380
    size = sum(path.stat().st_size for path in paths.values())
    assert found["files, as is, all branches, 2 jobs", "raw"]["bytes"] == size
    assert "bound" in study.content["findings"][0]


@pytest.mark.oracle
def test_root_as_the_engine_of_a_site(tmp_path: Path, root_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('ROOT').origin).parent)"
    root = subprocess.run([root_python, "-c", find], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setenv("ROOTSYS", root)
    samples.make("pythia", tmp_path / "one.root")
    with single({"one.root": tmp_path / "one.root"}) as server:
        study, _ = site.run(tmp_path / "out", files=[server.url("one.root")], names=["root"], jobs=[1], rounds=1)
    found = {m["engine"]: m["runs"][0] for m in study.content["measurements"]}
    assert found["root"]["events"] == 190
    assert study.content["findings"][0].startswith("files, all branches, root: ")
    assert "bound" in study.content["findings"][0]


def test_own_files(tmp_path: Path) -> None:
    for number in range(4):
        samples.make("pythia", tmp_path / f"{number}.root")
    words = ["lab", "site", str(tmp_path / "*.root"), "-o", tmp_path / "out", "--jobs", "1,2", "--engine", "sapwood"]
    command = [sys.executable, "-m", "sapwood", *map(str, words), "--merge", "2", "--rounds", "1", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "out" / "site.json").read_text())
    runs = {m["what"]: m["runs"][0] for m in content["measurements"] if m["engine"] == "sapwood"}
    assert runs["files, merged 2, all branches, 1 job"]["events"] == 380
    assert content["files"]["files"]["merged 2"]["files"] == 1
    assert runs["files, tree alone, all branches, 1 job"]["check"] == runs["files, as is, all branches, 1 job"]["check"]


def test_wrong_words(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no engine pickle"):
        site.run(tmp_path, names=["pickle"])
    with pytest.raises(ArgumentError, match="no folder"):
        site.run(tmp_path, disks=[str(tmp_path / "none")])
    with pytest.raises(ArgumentError, match="merges two files or more"):
        site.run(tmp_path, merge=[1])
    samples.make("pythia", tmp_path / "one.root")
    with pytest.raises(ArgumentError, match="2 jobs, each with files of its own"):
        site.run(tmp_path, files=[str(tmp_path / "one.root")], jobs=[2])
    with pytest.raises(ArgumentError, match="a job has 1 files: 2 of them"):
        site.run(tmp_path, files=[str(tmp_path / "one.root")], jobs=[1], merge=[2])
    command = [sys.executable, "-m", "sapwood", "lab", "site", "-o", str(tmp_path), "--jobs", "two"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "numbers with commas" in done.stderr


def test_engines_that_disagree_end_the_study() -> None:
    runner = site._Runner.__new__(site._Runner)
    runner._checks = {}
    runner._compare(_case(1), 10, 5.0)
    with pytest.raises(SapwoodError, match="root finds 10 events, sum 6; sapwood 10, 5"):
        runner._compare(_case(1, "root"), 10, 6.0)


@pytest.mark.oracle
def test_root_reads_the_same(tmp_path: Path, root_python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = "import importlib.util as u, pathlib; print(pathlib.Path(u.find_spec('ROOT').origin).parent)"
    root = subprocess.run([root_python, "-c", find], check=True, capture_output=True, text=True).stdout.strip()
    monkeypatch.setenv("ROOTSYS", root)
    program, reason = event.compiled(tmp_path, "site")
    assert program is not None, reason
    monkeypatch.setattr(samples, "KINDS", SMALL)
    study, _ = site.run(tmp_path / "out", names=["sapwood", "root"], jobs=[1], per_job=2, rounds=1, quick=True)
    found = {
        m["engine"]: m["runs"][0] for m in study.content["measurements"] if m["what"].startswith("esd, as is, all")
    }
    assert found["root"]["events"] == found["sapwood"]["events"]
    assert found["root"]["check"] == pytest.approx(found["sapwood"]["check"])


def test_what_cannot_be_written_anew_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedError("objects of Event are not written anew")

    monkeypatch.setattr(site, "rewrite", refuse)
    monkeypatch.setattr(
        site._Runner, "measure", lambda self, case: {"value": 1.0, "wall": 1.0, "events_per_second": 1.0}
    )
    samples.make("pythia", tmp_path / "one.root")
    study, _ = site.run(tmp_path / "out", files=[str(tmp_path / "one.root")], names=["sapwood"], jobs=[1], rounds=1)
    assert study.content["left_out"]["compressed zstd:5"] == "objects of Event are not written anew"
    assert "tree alone" not in study.content["left_out"]
    samples.make("pythia", tmp_path / "one.root")  # another file in its place
    with pytest.raises(ArgumentError, match=r"one\.root is not the file that .*site\.json was measured with"):
        site.run(tmp_path / "out", files=[str(tmp_path / "one.root")], names=["sapwood"], jobs=[1], rounds=1)


def test_only_numbers_are_histogrammed() -> None:
    took = job._Took()
    job._fill({"a": ak.Array(["x", "y"]), "b": ak.Array([[1.0], [2.0, 3.0]]), "c": ak.Array([{"x": 1}])}, took)
    assert took.check is None
    job._fill({"b": ak.Array([[[1.0]], [[2.0, 3.0]]])}, took)
    assert took.check == 6.0
