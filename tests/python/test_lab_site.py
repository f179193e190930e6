"""`lab site` on small files: what is measured, what is compared, and what the findings say."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from browser import looks
from printed import example
from servers import Server, serving
from slurm_cluster import NODE, slurm_cluster, wait
from xrootd_servers import cluster, single

import sapwood
from sapwood.cli import main
from sapwood.errors import ArgumentError, SapwoodError, UnsupportedError
from sapwood.lab.children import job
from sapwood.lab.studies import event, predict, samples
from sapwood.lab.studies.drawing import draw_lines
from sapwood.lab.studies.samples import Kind
from sapwood.lab.studies.site import findings as site_findings
from sapwood.lab.studies.site import front as site_front
from sapwood.lab.studies.site import jobs as site_jobs
from sapwood.lab.studies.site import report as site_report
from sapwood.lab.studies.site import run as site_run
from sapwood.lab.studies.site import stock as site_stock
from sapwood.lab.studies.site.cases import ALL, AS_IS, FILES, TRAIN, TURN, Case
from sapwood.lab.studies.study import JobError, Step, Study

pytestmark = pytest.mark.usefixtures("forked_starts")
SMALL = {"esd": Kind(12, 20, 5, "Tracks"), "pythia": Kind(6, 30, 20, "fParticles")}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the study once, over little data."""
    folder = tmp_path_factory.mktemp("site")
    disks = [folder / name for name in ("disk1", "disk2")]
    for disk in disks:
        disk.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(samples, "KINDS", SMALL)
        patch.chdir(folder)
        assert main(example("lab", "site")) == 0
    assert not any(list(disk.iterdir()) for disk in disks)
    return folder / "results"


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


def test_there_are_no_half_jobs() -> None:
    figure: dict[str, Any] = {"title": "a", "x": "Jobs", "y": "b"}
    drawn = [draw_lines({**figure, "curves": [{"label": "c", "points": [[1, 1.0], [x, 2.0]]}]}) for x in (2, 2.5)]
    assert [">1.5</text>" in one.partition('class="frame"')[2].partition('text-anchor="end"')[0] for one in drawn] == [
        False,
        True,
    ]
    assert ">2</text>" in drawn[0] and ".0</text>" not in drawn[0].partition('class="frame"')[2].partition("end")[0]


def test_the_page_opens_in_a_browser(result: Path, tmp_path: Path) -> None:
    assert looks(result / "site.html", tmp_path) > 50_000


def _study(folder: Path, rates: dict[Case, dict[str, Any]]) -> tuple[Study, list[Case], dict[str, Any]]:
    study = Study("site", {"jobs": sorted({case.jobs for case in rates})}, folder)
    for case, figures in rates.items():
        run: dict[str, Any] = {"job": 1.0, "wall": 1.0, "events": 1000 * case.jobs, **figures}
        values = run.pop("values", None) or [run.pop("value")] * 3
        runs = [{"events_per_second": 10 * value, **run} for value in values]
        one = {"what": case.what, "engine": case.engine, "unit": "MB/s", "values": values, "runs": runs}
        study.content["measurements"].append(one)
    facts = {"files": 10, "file_bytes": 2.5e6, "events": 100, "stored": 2e6, "few": 1e5}
    facts |= {"least_bytes": 2.5e6, "most_bytes": 2.5e6}
    study.content["files"] = {"esd": dict.fromkeys((case.variant for case in rates), facts)}
    return study, list(rates), study.content["files"]


def _case(jobs: int, engine: str = "sapwood", variant: str = AS_IS) -> Case:
    return Case("esd", variant, ALL, engine, jobs)


def test_findings_follow_their_rules(tmp_path: Path) -> None:
    measured = {
        _case(1): {"value": 16.0, "user": 0.9, "decompression": 0.71, "open": 0.11, "storage": 0.1},
        _case(2): {"value": 30.4},
        _case(4): {"value": 31.0},
        _case(4, "raw"): {"value": 310.0},
        _case(1, "root"): {"value": 8.0},
        _case(1, variant="merged 10"): {"value": 24.0},
        _case(1, variant="tree alone"): {"value": 16.5},
    }
    found = " ".join(site_findings.findings(*_study(tmp_path, measured)))
    assert "CPU-bound: decompression takes 71 %; 2 jobs give 1.9 × the rate of 1" in found
    assert "more than 2 jobs gain nothing" in found
    assert "4 jobs take 10 % of what plain reading gives" in found
    # 1000 events in 10 files: 160 events a second are 625 ms a file, 240 in files of ten are 417.
    assert "each file costs 231 ms, 11 of them to open: merging 10 to 25.0 MB would gain 50 %" in found
    assert "esd, 1 job: sapwood reads 2.0 × the events of root" in found
    assert "merged 10 gains 50 %" in found and "tree alone" not in found


def test_variants_are_shown_by_their_gain_and_against_jobs_and_sizes(tmp_path: Path) -> None:
    measured = {
        _case(1): {"value": 16.0, "user": 0.9, "stored": 2e7},
        _case(4): {"value": 31.0},
        _case(1, variant="compressed none"): {"value": 20.0, "user": 0.5, "stored": 4e7},
        _case(1, variant="merged 10"): {"value": 24.0},
        **{_case(n, variant="disks 2"): {"value": 17.0 * n} for n in (1, 4)},
        **{_case(n, variant="copied before"): {"value": 9.0} for n in (1, 4)},
    }
    study, cases, known = _study(tmp_path, measured)
    known["esd"]["merged 10"] = {**known["esd"][AS_IS], "file_bytes": 25e6}
    tables = {table["title"]: table for table in site_report.tables_of(study, cases, known)}
    gains = [float(row[-1]) for row in tables["Variants"]["rows"]]
    assert gains == sorted(gains, reverse=True) and len(gains) == 6 == len(tables["Variants"]["keys"])
    head, rows = tables["Compression"]["head"], tables["Compression"]["rows"]
    columns = [dict(zip(head, row, strict=True)) for row in rows]
    assert [(one["Codec"], one["user"], one["MB/s"]) for one in columns] == [
        ("as is", "900 ms", "20"), ("none", "500 ms", "40")
    ]  # fmt: skip
    figures = {figure["title"]: figure for figure in site_report.figures_of(study, cases, known)}
    (sizes,) = figures["Rate against the size of files"]["curves"]
    assert [point[:2] for point in sizes["points"]] == [[2.5, 160.0], [25.0, 240.0]]
    disks = figures["esd, sapwood: several disks"]["curves"]
    assert [(one["label"], [point[:2] for point in one["points"]]) for one in disks] == [
        (AS_IS, [[1, 160.0], [4, 310.0]]), ("disks 2", [[1, 170.0], [4, 680.0]])
    ]  # fmt: skip
    assert "esd, sapwood: files copied before" in figures and "esd, sapwood: read-ahead" not in figures
    assert "log" not in figures["esd, all branches: MB/s"]


def test_the_first_figure_has_what_was_measured_and_predicted_and_the_limits(tmp_path: Path) -> None:
    spent: dict[str, Any] = {"user": 0.5, "system": 0.3, "bytes": 2e7, "stored": 2e7, "open": 0.1}
    measured: dict[Case, dict[str, Any]] = {
        _case(1): {"value": 100.0, **spent},
        _case(2): {"values": [180.0, 190.0, 200.0], **spent, "user": 1.0, "system": 0.6, "bytes": 4e7},
        _case(1, "raw"): {"value": 30.0, **spent},
        _case(2, "raw"): {"value": 40.0, **spent},
    }
    study, cases, _ = _study(tmp_path, measured)
    study.content["host"]["cores_usable"] = 2
    (figure,) = site_front.front_figures(study, cases)
    assert figure["title"] == "esd, all branches, sapwood: measured, predicted and limits"
    real, model = figure["curves"]
    assert (real["label"], real["points"][1]) == ("measured", [2, 1900.0, 1800.0, 2000.0])
    assert model["of"] == "measured" and [count for count, _ in model["points"]] == [1, 2]
    assert model["points"][0][1] == pytest.approx(1000.0)  # one job is what the model is made of
    # 0.8 s of a processor for 1 000 events; plain reading gives 40 MB/s, of 20 kB an event.
    assert figure["marks"] == pytest.approx({"limit: processors": 2500.0, "limit: storage": 2000.0})
    assert "stroke-dasharray" in draw_lines(figure) and draw_lines(figure).count('class="c') == 2
    tiles = dict(site_front.tiles_of(study, cases))
    assert tiles["2\u2009000 events/s"] == "the limit of reading without a format; jobs reach 95 % of it"
    assert tiles["processors"] == "what limits jobs; jobs work 80 % of the time"
    (said,) = site_front.headline_of(study, cases)
    assert said.startswith(
        "Jobs of sapwood read at most 1\u2009900 events/s (2 jobs). The limit: processors; jobs work "
    )


def test_a_full_network_is_named(tmp_path: Path) -> None:
    plain = {"value": 100.0, "warnings": ["server-cache"]}
    measured = {_case(1): {"value": 50.0}, _case(4): {"value": 95.0}, _case(4, "raw"): plain}
    found = " ".join(site_findings.findings(*_study(tmp_path, measured)))
    assert "95 % of what plain reading gives; the network or the server is full: more jobs cannot gain" in found


def test_findings_say_where_rounds_disagree(tmp_path: Path) -> None:
    measured = {
        _case(1): {"values": [10.0, 12.0, 14.0], "user": 1.0},
        _case(2): {"values": [12.0, 24.0, 14.0]},
        _case(1, variant="merged 10"): {"values": [15.4, 10.7, 16.0]},
        _case(1, variant="compressed none"): {"values": [5.0, 6.0, 7.0]},
    }
    found = " ".join(site_findings.findings(*_study(tmp_path, measured)))
    assert "CPU-bound: the rest (Python) takes 100 %" in found
    assert "2 jobs give 1.2 × (1.0 to 2.0 by the round) the rate of 1 job; " in found
    assert "more than 1 to 2 jobs (by the round) gain nothing" in found
    assert "merged 10 differs by noise alone, 0.89 to 1.54 × by the round." in found
    assert "each file costs 0 ms to open: " in found  # of merging nothing is known
    assert "compressed none loses 50 %." in found
    single = site_findings.findings(
        *_study(tmp_path / "b", {_case(1): {"value": 3.0, "user": 1.0}, _case(1, "raw"): {"value": 6.0}})
    )[0]
    assert single.endswith("takes 100 %; 1 job takes 50 % of what plain reading gives.")


def test_ratios_are_those_of_the_tables(tmp_path: Path) -> None:
    """A study ended before all engines had all rounds; the sentence gave the ratio of other medians than the table."""
    measured = {_case(1): {"values": [43.4, 57.1, 59.1]}, _case(1, "root"): {"values": [61.8, 57.9]}}
    study, cases, known = _study(tmp_path, measured)
    said = next(text for text in site_findings.findings(study, cases, known) if "of root" in text)
    (row,) = site_report.tables_of(study, cases, known)[0]["rows"]
    ours, theirs = (float(cell.partition(", ")[2].removesuffix(" /s").replace("\u2009", "")) for cell in row[1:])
    assert f"{ours / theirs:.2f} ×" in said
    assert said.endswith("reads 0.95 × (0.70 to 0.99 in the 2 rounds that both have) the events of root.")
    # The sentences of a kept result follow from its measurements.
    assert said in site_findings.findings_of(study.content)


def test_what_opening_costs(tmp_path: Path) -> None:
    # A file takes 100 ms, 11 of them to open.
    measured = {_case(1): {"value": 100.0, "user": 1.0, "decompression": 0.71, "open": 0.11}}
    found = site_findings.findings(*_study(tmp_path, measured))
    assert found[1] == "esd: each file costs 11 ms to open: merging 10 to 25.0 MB would gain 11 %."


def test_what_bounds_an_engine_without_counters(tmp_path: Path) -> None:
    works = {_case(1, "root"): {"value": 8.0, "user": 0.8, "system": 0.1}, _case(2, "root"): {"value": 16.0}}
    waits = {_case(1, "root"): {"value": 8.0, "user": 0.1, "system": 0.1, "queued": 0.1}}
    found = site_findings.findings(*_study(tmp_path, works))[0]
    assert "CPU-bound: a processor works 90 % of the time; 2 jobs give 2.0 × the rate of 1" in found
    assert "storage-bound: 70 % of the time waits for it" in site_findings.findings(*_study(tmp_path / "b", waits))[0]


def test_storage_bound(tmp_path: Path) -> None:
    measured = {_case(1): {"value": 16.0, "user": 0.25, "system": 0.05, "decompression": 0.2}}
    assert "storage-bound: 70 % of the time waits for it" in site_findings.findings(*_study(tmp_path, measured))[0]


def test_what_bounds_by_its_share(tmp_path: Path) -> None:
    layers = {"user": 0.5, "system": 0.02, "open": 0.02, "decompression": 0.16, "decoding": 0.12, "task": 0.12}
    counts = {"user": 0.28, "system": 0.0, "queued": 0.24}
    cold, url = {"warnings": ["page-cache-not-dropped"]}, {"warnings": ["server-cache"]}
    for case, figures, words in (
        (
            _case(1),
            layers,
            "bound by storage and CPU: of storage, 48 % of the time waits for it; decompression takes 16 %.",
        ),
        (
            _case(1, "root"),
            counts,
            "bound by storage and CPU: of storage, 48 % of the time waits for it; a processor works 28 ",
        ),
        (
            _case(1),
            {"task": 0.90, "user": 0.35, "queued": 0.59},
            "CPU-bound: task takes 34 % (for 59 % of its time the job waits for a processor that others use)",
        ),
        (_case(1), {"task": 0.7, "user": 0.9, **cold}, "CPU-bound: task takes 70 %, with files that were in memory."),
        (_case(1), {"task": 0.7, "user": 0.9, **url}, "CPU-bound: task takes 70 %, with what servers had in memory."),
    ):
        found = site_findings.findings(*_study(tmp_path, {case: {"value": 8.0, **figures}}))[0]
        assert words in found, found


@pytest.mark.parametrize(
    "figures",
    [
        {"user": 0.9, "system": 0.1, "storage": 1.27, "waiting": 0.6, "open": 0.5, "decompression": 0.4},  # remote
        {"user": 0.2, "queued": 0.75, "storage": 0.8, "decompression": 0.15},  # local, on a full machine
        {"user": 0.3, "storage": 0.7, "decompression": 0.2, "task": 0.1},
        {"job": 2.0, "user": 3.0, "task": 2.0},
    ],
)
def test_the_parts_of_a_jobs_time_add_up_to_it(figures: dict[str, Any], tmp_path: Path) -> None:
    study, cases, known = _study(tmp_path, {_case(1): {"value": 8.0, **figures}})
    shares = site_jobs.layers(study, cases[0])
    assert sum(shares.values()) == pytest.approx(1.0) and min(shares.values()) >= -1e-9
    assert shares["waiting"] == pytest.approx(site_jobs.by_the_system(study, cases[0])["waiting"])
    found = site_findings.findings(study, cases, known)[0]
    waits = figures["user"] + figures.get("system", 0) + figures.get("queued", 0) < 0.34
    assert ("storage-bound" in found) is waits
    assert max(map(int, re.findall(r"(\d+) % of the time", found)), default=0) <= 100


def test_local_files_and_those_of_a_server_in_one_study(tmp_path: Path) -> None:
    for number in range(4):
        samples.make("pythia", tmp_path / f"{number}.root")
    with single({f"{number}.root": tmp_path / f"{number}.root" for number in (2, 3)}) as server:
        parts = [[str(tmp_path / f"{n}.root") for n in (0, 1)], [server.url(f"{n}.root") for n in (2, 3)]]
        files = [path for part in parts[::-1] for path in part]
        options: Any = {"names": ["sapwood", "raw"], "jobs": [1, 2], "rounds": 1, "quick": True}
        study, _ = site_run.run(tmp_path / "out", files=files, **options)
        remote = server.url("").partition("//")[2].partition("/")[0]
    found = {(m["what"], m["engine"]): m["runs"][0] for m in study.content["measurements"]}
    for data in ("local", f"root://{remote}"):
        assert found[f"{data}, as is, all branches, 2 jobs", "sapwood"]["events"] == 380
        assert found[f"{data}, as is, all branches, 2 jobs", "raw"]["bytes"] > 0
    assert found["local, tree alone, all branches, 1 job", "sapwood"]["events"] == 190  # variants are of local files
    (figure,) = (one for one in study.content["figures"] if "by storage" in one["title"] and "all" in one["title"])
    names = ["local", f"root://{remote}"]
    assert [curve["label"] for curve in figure["curves"]] == [*names, *(f"{name}, predicted" for name in names)]
    assert any(f"root://{remote} gives " in finding for finding in study.content["findings"])
    first = study.content["headline"]
    assert re.match(
        r"Measured once: Jobs of sapwood read at most [\d\u2009]+ events/s from local \(\d jobs?\); ", first
    )
    assert len(study.content["tiles"]) == 3 and "events/s" in study.content["tiles"][0][0]
    with pytest.raises(ArgumentError, match=r"3 jobs, .* need 3; there are 2 on local"):
        site_run.run(tmp_path / "none", files=files, jobs=[3], rounds=1)


def test_storages_have_the_names_that_they_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["root://far//a.root", "/disk1/a.root", "/disk1/b.root", "/disk2/a.root", "/other/a.root"]
    named = {"old disk": "/disk", "new disk": "/disk2/"}  # the longer start counts
    found = site_run.by_storage(files, named)
    assert list(found.items()) == [
        ("local", ["/other/a.root"]), ("old disk", ["/disk1/a.root", "/disk1/b.root"]),
        ("new disk", ["/disk2/a.root"]), ("root://far", ["root://far//a.root"]),
    ]  # fmt: skip
    assert list(site_run.by_storage(files[1:], {})) == [FILES]
    with pytest.raises(ArgumentError, match="no file lies on the storage 'tape': none begins with /tape/"):
        site_run.by_storage(files, {"tape": "/tape/"})
    assert main(["lab", "site", "-o", str(tmp_path), "--storage-name", "nothing"]) == 2
    assert "--storage-name takes NAME=START, not 'nothing'" in capsys.readouterr().err


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    path = tmp_path / "one.root"
    samples.make("pythia", path)
    with serving({f"{n}.root": path.read_bytes() for n in range(2)}) as running:
        yield running


def test_files_far_away(server: Server, tmp_path: Path) -> None:
    urls: Any = {"files": [server.url(f"{n}.root") for n in range(2)], "read_ahead": ["1 MB"]}
    study, _ = site_run.run(tmp_path / "out", names=["sapwood", "raw"], jobs=[1, 2], rounds=1, quick=True, **urls)
    assert "server-cache" in {warning["code"] for warning in study.content["warnings"]}
    assert "measured once" in study.content["findings"][-1]
    found = {(m["what"], m["engine"]): m["runs"][0] for m in study.content["measurements"]}
    assert found["files, as is, all branches, 2 jobs", "sapwood"]["events"] == 380
    assert found["files, as is, all branches, 1 job", "raw"]["bytes"] == len(server.files["0.root"])
    assert found["files, read ahead 1 MB, all branches, 1 job", "sapwood"]["events"] == 190
    assert found["files, read ahead 1 MB, all branches, 1 job", "raw"]["bytes"] == len(server.files["0.root"])
    # Copied before: all of the file is fetched.
    copied = found["files, copied before, all branches, 1 job", "sapwood"]
    assert copied["events"] == 190 and copied["bytes"] >= len(server.files["0.root"])
    assert {"direct", "direct random", "variants of files"} <= set(study.content["left_out"])
    with pytest.raises(SapwoodError, match="no such branch: 'none'"):
        site_run.run(
            tmp_path / "bad", files=[server.url("0.root")], names=["sapwood"], branches=["none"], jobs=[1], rounds=1
        )


def test_files_in_s3(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.files["bucket/one.root"] = server.files["0.root"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url("").rstrip("/"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    options: Any = {"names": ["sapwood", "raw"], "jobs": [1], "rounds": 1, "quick": True}
    study, _ = site_run.run(tmp_path / "out", files=["s3://bucket/one.root"], **options)
    found = {m["engine"]: m["runs"][0] for m in study.content["measurements"]}
    assert found["sapwood"]["events"] == 190 and found["raw"]["bytes"] == len(server.files["0.root"])


def test_a_pool_of_xrootd_servers(tmp_path: Path) -> None:
    paths = {f"{number}.root": tmp_path / f"{number}.root" for number in range(2)}
    for path in paths.values():
        samples.make("pythia", path)
    with cluster({"a": {"0.root": paths["0.root"]}, "b": {"1.root": paths["1.root"]}}) as running:
        urls = [running.url(name) for name in paths]
        study, _ = site_run.run(
            tmp_path / "out", files=urls, names=["sapwood", "raw"], jobs=[1, 2], rounds=1, quick=True
        )
    found = {(m["what"], m["engine"]): m["runs"][0] for m in study.content["measurements"]}
    assert found["files, as is, all branches, 2 jobs", "sapwood"]["events"] == 380
    size = sum(path.stat().st_size for path in paths.values())
    assert found["files, as is, all branches, 2 jobs", "raw"]["bytes"] == size
    assert "bound" in study.content["findings"][1]


@pytest.mark.oracle
@pytest.mark.usefixtures("rootsys")
def test_root_as_the_engine_of_a_site(tmp_path: Path) -> None:
    samples.make("pythia", tmp_path / "one.root")
    with single({"one.root": tmp_path / "one.root"}) as server:
        study, _ = site_run.run(tmp_path / "out", files=[server.url("one.root")], names=["root"], jobs=[1], rounds=1)
    found = {m["engine"]: m["runs"][0] for m in study.content["measurements"]}
    assert found["root"]["events"] == 190
    assert study.content["headline"].startswith("Measured once: Jobs of root read at most ")
    assert study.content["findings"][1].startswith("Measured once: files, all branches, root: ")
    assert "bound" in study.content["findings"][1]


def test_own_files(tmp_path: Path) -> None:
    for number in range(4):
        samples.make("pythia", tmp_path / f"{number}.root")
    words = ["lab", "site", str(tmp_path / "*.root"), "-o", tmp_path / "out", "--jobs", "1,2", "--engine", "sapwood"]
    assert main([*map(str, words), "--merge", "2", "--rounds", "1", "--quick"]) == 0
    content = json.loads((tmp_path / "out" / "site.json").read_text())
    runs = {m["what"]: m["runs"][0] for m in content["measurements"] if m["engine"] == "sapwood"}
    assert runs["files, merged 2, all branches, 1 job"]["events"] == 380
    assert content["files"]["files"]["merged 2"]["files"] == 1
    assert runs["files, tree alone, all branches, 1 job"]["check"] == runs["files, as is, all branches, 1 job"]["check"]


def test_given_files_a_job(tmp_path: Path) -> None:
    for number in range(3):
        samples.make("pythia", tmp_path / f"{number}.root")
    options: Any = {"files": [str(tmp_path)], "names": ["sapwood"], "per_job": 1, "rounds": 1, "quick": True}
    study, _ = site_run.run(tmp_path / "out", jobs=[2], merge=[], **options)
    assert study.content["settings"]["files_per_job"] == 1 and study.content["files"]["files"][AS_IS]["files"] == 1
    with pytest.raises(ArgumentError, match=r"4 jobs, .* need 4; there are 3: .* by --jobs or --files-per-job"):
        site_run.run(tmp_path / "none", jobs=[4], **options)


def test_values_that_are_no_numbers(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "nan.root") as file:
        file["T"] = {"x": np.full(1000, np.nan)}
    options: Any = {"files": [str(tmp_path / "nan.root")], "names": ["sapwood"], "jobs": [1], "rounds": 1}
    study, _ = site_run.run(tmp_path / "out", quick=True, **options)
    assert "NaN" not in study.path.read_text()
    assert study.content["measurements"][0]["runs"][0]["check"] == 0 and study.content["complete"]


def test_storage_that_has_no_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type(site_stock.shutil.disk_usage(tmp_path))
    monkeypatch.setattr(site_stock.shutil, "disk_usage", lambda _: usage(10**9, 10**9, 10_000))
    with pytest.raises(ArgumentError, match=r"10.0 kB left, and the files of esd, as is take 6\d\.\d MB: .* --jobs"):
        site_run.run(tmp_path / "out", names=["sapwood"], jobs=[2], rounds=1, quick=True)
    assert not any(path.is_dir() for path in (tmp_path / "out").iterdir())


def test_what_was_kept_of_files_far_away_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_BLOCK_CACHE", "/somewhere")
    command = [sys.executable, "-c", "import os; print(os.environ.get('SAPWOOD_BLOCK_CACHE'))"]
    one = site_jobs.Job(command, "")
    assert one.answer() == "None\n"
    one.end()


def test_plain_reading_first_has_findings_too(tmp_path: Path) -> None:
    measured = {
        _case(1, "raw"): {"value": 100.0},
        _case(2, "raw"): {"value": 100.0},
        _case(1): {"value": 16.0, "task": 0.7, "user": 0.9},
        _case(1, "root"): {"value": 8.0},
    }
    found = site_findings.findings(*_study(tmp_path, measured))
    assert (
        found[0]
        == "esd, all branches, sapwood: CPU-bound: task takes 70 %; 1 job takes 16 % of what plain reading gives."
    )
    assert "esd, 1 job: sapwood reads 2.0 × the events of root." in found


def test_branches_without_bytes(tmp_path: Path) -> None:
    measured = {_case(n): {"value": 0.0} for n in (1, 2)}
    study, cases, known = _study(tmp_path, measured)
    assert site_report.figures_of(study, cases, known) and site_report.tables_of(study, cases, known)


def test_files_that_differ(tmp_path: Path) -> None:
    for number, events in enumerate((0, 2_000, 40_000)):
        with sapwood.recreate(tmp_path / f"{number}.root") as file:
            file["T"] = {"x": np.random.default_rng(1).normal(size=events).astype(np.float32)}
    options: Any = {"names": ["sapwood", "raw"], "rounds": 1, "quick": True, "merge": [3]}
    paths = [str(tmp_path / f"{number}.root") for number in range(3)]
    study, _ = site_run.run(tmp_path / "one", files=paths, jobs=[1], **options)
    facts = study.content["files"]["files"][AS_IS]
    sizes = [(tmp_path / f"{number}.root").stat().st_size for number in range(3)]
    assert facts["events"] == 14_000 and facts["file_bytes"] == pytest.approx(sum(sizes) / 3)
    assert "3 files of " in (caption := study.content["tables"][0]["caption"])
    assert f"14\u2009000 events on average, from {sizes[0] / 1000:.3g} kB to {sizes[2] / 1000:.3g} kB" in caption
    (words,) = (finding for finding in study.content["findings"] if "each file costs" in finding)
    assert float(words.partition("would gain ")[2].partition(" %")[0]) >= 0
    assert predict.layers_of(study.content, "files")[1].events == 14_000
    with pytest.raises(ArgumentError, match="the first job have no entries"):
        site_run.run(tmp_path / "none", files=paths[:1], jobs=[1], names=["sapwood"], rounds=1)


def test_wrong_words(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="unknown engine 'pickle'"):
        site_run.run(tmp_path, names=["pickle"])
    with pytest.raises(ArgumentError, match="none does not exist"):
        site_run.run(tmp_path, disks=[str(tmp_path / "none")])
    with pytest.raises(ArgumentError, match="merges two files or more"):
        site_run.run(tmp_path, merge=[1])
    samples.make("pythia", tmp_path / "one.root")
    with pytest.raises(ArgumentError, match=r"2 jobs, each with files of its own.* fewer by --jobs"):
        site_run.run(tmp_path, files=[str(tmp_path / "one.root")], jobs=[2])
    with pytest.raises(ArgumentError, match="a job has 1 files: 2 of them"):
        site_run.run(tmp_path, files=[str(tmp_path / "one.root")], jobs=[1], merge=[2])
    command = [sys.executable, "-m", "sapwood", "lab", "site", "-o", str(tmp_path), "--jobs", "two"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "numbers with commas" in done.stderr


@pytest.mark.parametrize(("files", "most"), [(0, 8), (1, 1), (5, 5), (50, 8)])
def test_there_are_no_more_jobs_than_files(files: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_run.os, "cpu_count", lambda: 4)
    for quick in (False, True):
        jobs = site_run._default_jobs(files, quick=quick)
        assert (jobs[0], jobs[-1]) == (1, most) and len(set(jobs)) == len(jobs)


def test_engines_that_disagree_end_the_study() -> None:
    runner = site_jobs.Runner.__new__(site_jobs.Runner)
    runner._checks = {}
    runner._compare(_case(1), 10, 5.0)
    with pytest.raises(SapwoodError, match="root finds 10 events, sum 6; sapwood 10, 5"):
        runner._compare(_case(1, "root"), 10, 6.0)


def compiled(folder: Path) -> Path:
    """Compile the program of the study."""
    program, reason = event.compiled(folder, "site")
    assert program is not None, reason
    return program


@pytest.mark.oracle
@pytest.mark.usefixtures("rootsys")
def test_root_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(tmp_path)
    monkeypatch.setattr(samples, "KINDS", SMALL)
    study, _ = site_run.run(tmp_path / "out", names=["sapwood", "root"], jobs=[1], per_job=2, rounds=1, quick=True)
    found = {
        m["engine"]: m["runs"][0] for m in study.content["measurements"] if m["what"].startswith("esd, as is, all")
    }
    assert found["root"]["events"] == found["sapwood"]["events"]
    assert found["root"]["check"] == pytest.approx(found["sapwood"]["check"])
    commands = {"sapwood": [sys.executable, "-m", "sapwood.lab.children.job"], "root": [str(program)]}
    runner = site_jobs.Runner(site_stock.Stock([tmp_path], {}, None, [], 2, 1), commands, {})
    for task in (TRAIN, TURN):  # all of them read 40 events, and each task the same branches
        ours, theirs = (runner.measure(Case("esd", AS_IS, task, name, 1)) for name in commands)
        assert ours["events"] == theirs["events"] == 40
        assert ours["check"] == pytest.approx(theirs["check"]) and ours["check"] != 0


@pytest.mark.alone
@pytest.mark.oracle
@pytest.mark.usefixtures("rootsys")
def test_the_start_of_root_is_not_counted(tmp_path: Path) -> None:
    program = compiled(tmp_path)
    with sapwood.recreate(tmp_path / "one.root") as file:
        file.mktree("T", {f"x{place}": np.arange(5000.0) for place in range(20)})
    took: list[float] = []
    for count in (1, 60):
        files = [str(tmp_path / "one.root")] * count
        runner = site_jobs.Runner(
            site_stock.Stock([tmp_path], {FILES: files}, None, [], count, 1), {"root": [str(program)]}, {}
        )
        found = runner.measure(Case("files", AS_IS, ALL, "root", 1))
        took.append(found["user"] + found["system"])
    assert took[0] < 0.5 * took[1]


def test_what_cannot_be_written_again_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise UnsupportedError("objects of Event are not rewritten")

    monkeypatch.setattr(site_stock, "rewrite", refuse)
    monkeypatch.setattr(
        site_jobs.Runner,
        "measure",
        lambda self, case: {"value": 1.0, "wall": 1.0, "events": 1, "events_per_second": 1.0},
    )
    samples.make("pythia", tmp_path / "one.root")
    options: Any = {"files": [str(tmp_path / "one.root")], "names": ["sapwood"], "jobs": [1]}
    options["read_ahead"] = ["0 MB", "8 MB"]
    left = site_run.run(tmp_path / "out", **options)[0].content["left_out"]
    assert left["read ahead 8 MB"] == "the size is for raw, root: the others leave it to the system"
    assert left["read ahead 0 MB"] == "the size is for root: the others leave it to the system"
    assert left["compressed zstd:5"] == "objects of Event are not rewritten"
    assert "tree alone" not in left
    samples.make("pythia", tmp_path / "one.root")  # another file in its place
    with pytest.raises(ArgumentError, match=r"one\.root is not the file that .*site\.json was measured with"):
        site_run.run(tmp_path / "out", **options)


def test_engines_that_do_other_work_are_named_so(tmp_path: Path) -> None:
    for compared, words in (
        (True, "2.0 × the events of root."),
        (False, "2.0 × the events of root, but sums were not compared"),
    ):
        rates: dict[Case, Any] = {
            _case(1): {"value": 20.0, "compared": compared},
            _case(1, "root"): {"value": 10.0},
        }
        assert any(words in finding for finding in site_findings.findings(*_study(tmp_path, rates)))


def _stock(folder: Path) -> site_stock.Stock:
    paths = [folder / f"{number}.root" for number in range(2)]
    for path in paths:
        samples.make("pythia", path)
    return site_stock.Stock([folder], {FILES: list(map(str, paths))}, None, [], 1, 2)


ON_HOSTS = {"sapwood": [sys.executable, "-m", "sapwood.lab.children.job"]}


@pytest.mark.parametrize(
    ("launch", "words"),
    [
        (site_jobs.LAUNCH, "-o BatchMode=yes {host}"),
        ("srun --quiet --overlap --ntasks=1 --nodelist={host}", "--quiet --overlap --ntasks=1 --nodelist={host}"),
    ],
    ids=["ssh", "srun"],
)
def test_jobs_run_on_the_hosts_in_turn(
    launch: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "KINDS", SMALL)
    program = tmp_path / launch.split(maxsplit=1)[0]  # notes its words, and runs the command behind them here
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\nshift {len(words.split())}\nexec sh -c "$*"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    runner = site_jobs.Runner(_stock(tmp_path), ON_HOSTS, {}, ["near", "far"], launch)
    figures = runner.measure(Case(FILES, AS_IS, ALL, "sapwood", 2))
    assert figures["events"] == 2 * 30 and figures["queued"] >= 0 and "server-cache" not in figures["warnings"]
    said = sorted((tmp_path / "log").read_text().splitlines())
    for line, host in zip(said, ("far", "near"), strict=True):
        assert line.startswith(f"{words.format(host=host)} env --unset=SAPWOOD_BLOCK_CACHE SAPWOOD_NUM_THREADS=1 ")


def test_jobs_run_as_steps_of_a_slurm_allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "KINDS", SMALL)
    _stock(tmp_path)
    files = [str(tmp_path / f"{number}.root") for number in range(2)]
    words = ["lab", "site", "-o", str(tmp_path / "out"), *files, "--host", NODE, "--jobs", "1,2"]
    words += ["--launch", "srun --quiet --overlap --ntasks=1 --nodelist={host}", "--engine", "sapwood,raw", "--quick"]
    with slurm_cluster() as place:
        command = ["salloc", "--quiet", "--ntasks=2", "--overcommit", sys.executable, "-m", "sapwood", *words]
        done = subprocess.run([*command, "--rounds", "1"], capture_output=True, text=True, timeout=300)
        started = (place / "slurmd.log").read_text().count("launch task")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads((tmp_path / "out" / "site.json").read_text())
    assert {m["engine"] for m in result["measurements"]} >= {"sapwood", "raw"} and not result["left_out"]
    assert started >= sum(m["engine"] in ("sapwood", "raw") for m in result["measurements"])


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[str]:
    """Start an SSH server on this machine; gives the command that logs in, with {host} for the host."""
    server = shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}")
    if server is None or shutil.which("ssh") is None or os.getuid():
        pytest.skip("needs SSH (apt-get install openssh-client openssh-server), and to be root")
    place = tmp_path / "ssh"
    place.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place / name], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"ListenAddress": "127.0.0.1", "AuthorizedKeysFile": place / "user.pub", "PidFile": "none"}
    settings |= {"StrictModes": "no", "UsePAM": "no", "PermitRootLogin": "yes"}
    options = [f"-o{name}={value}" for name, value in settings.items()]
    Path("/run/sshd").mkdir(exist_ok=True)  # it demands this folder
    command = [server, "-D", "-e", "-f", "/dev/null", "-h", place / "host", "-p", str(port), *options]
    with (place / "log").open("wb") as log:
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait(lambda: b"listening on" in (place / "log").read_bytes())
        known = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        yield f"ssh -F none -o BatchMode=yes {known} -p {port} -i {place / 'user'} {{host}}"
    finally:
        running.terminate()
        running.wait(10)


def test_jobs_run_by_ssh(ssh: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "KINDS", SMALL)
    # The shell on the host must not split the words of the command.
    job_there = ["env", "NAME=two words; false", *ON_HOSTS["sapwood"]]
    runner = site_jobs.Runner(_stock(tmp_path), {"sapwood": job_there}, {}, ["127.0.0.1"], ssh)
    assert runner.measure(_of_files(2))["events"] == 2 * 30


CRASHING = """
import json, os, signal, sys
from sapwood.lab.children import job
first = sys.stdin.readline()
if any(path.endswith("3.root") for path in json.loads(first)["files"]):
    print("ready", flush=True)
    sys.stdin.readline()
    print('{"half of an answer":', end="", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
lines = iter([first])
class Input:
    readline = staticmethod(lambda: next(lines, None) or sys.__stdin__.readline())
sys.stdin = Input()
sys.exit(job.main())
"""
"""A job that crashes while it reads one of the files."""


def test_jobs_that_crash_are_counted_and_the_study_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        samples.make("pythia", tmp_path / f"{number}.root")
    monkeypatch.setattr("sapwood.lab.studies.study.commit", lambda: None)
    known = site_run.engines_of

    def crashing(*arguments: Any) -> Any:
        found, able = known(*arguments)
        return {**found, "sapwood": [sys.executable, "-c", CRASHING]}, able

    words = ["lab", "site", str(tmp_path), "-o", str(tmp_path / "out"), "--quick", "--rounds", "2"]
    words += ["--jobs", "1,2", "--engine", "sapwood,raw"]
    with monkeypatch.context() as patch:
        patch.setattr(site_run, "engines_of", crashing)
        assert main(words) == 1
    said = capsys.readouterr().out
    content = json.loads((tmp_path / "out" / "site.json").read_text())
    assert content["complete"]
    failed = [one for one in content["failed"] if one["what"] == "files, as is, all branches, 2 jobs"]
    assert [(one["engine"], one["round"], one["text"]) for one in failed] == [
        ("sapwood", turn, "1 of 2 jobs failed: SIGSEGV") for turn in (1, 2)
    ]
    values = {(one["what"], one["engine"]): len(one["values"]) for one in content["measurements"]}
    assert values["files, as is, all branches, 2 jobs", "sapwood"] == 0
    assert values["files, as is, all branches, 1 job", "sapwood"] == 2
    assert values["files, as is, all branches, 2 jobs", "raw"] == 2
    (warning,) = (one for one in content["warnings"] if one["code"] == "failed-jobs")
    assert "2 jobs, sapwood, round 1: 1 of 2 jobs failed: SIGSEGV" in warning["where"]
    assert re.search(r"Jobs failed in \d+ runs, of: files, as is, all branches, 2 jobs, sapwood", said)
    tables = {one["title"]: one for one in content["tables"]}
    assert tables["Failed jobs"]["rows"][0][1:] == ["sapwood", "1", "1 of 2 jobs failed: SIGSEGV"]
    assert [row[:2] for row in tables["files, all branches"]["rows"]][1] == ["2", "–"]
    assert all(row[0] != "files, as is, all branches, 2 jobs" for row in tables["Where time goes"]["rows"])
    # The same command measures what is missing.
    assert main(words) == 0
    again = json.loads((tmp_path / "out" / "site.json").read_text())
    assert again["failed"] == [] and all(len(one["values"]) == 2 for one in again["measurements"])
    kept = {(one["what"], one["engine"]): one["values"] for one in again["measurements"]}
    for one in content["measurements"]:
        assert kept[one["what"], one["engine"]][: len(one["values"])] == one["values"]


def test_a_study_without_any_value_fails(tmp_path: Path) -> None:
    step = Step("a", "b", "s", lambda: {"value": 1.0})

    def fails() -> dict[str, Any]:
        raise JobError("1 of 2 jobs failed: exit code 3")

    study = Study("site", {}, tmp_path)
    study.run([step, replace(step, what="c", run=fails)], 1)
    assert [one["what"] for one in study.content["failed"]] == ["c"]
    with pytest.raises(JobError, match="1 of 2 jobs failed: exit code 3"):
        Study("event", {}, tmp_path).run([replace(step, run=fails)], 2)


def test_hosts_that_cannot_be_used_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "KINDS", SMALL)
    with pytest.raises(ArgumentError, match=r"name no \{host\}: 'ssh'"):
        site_run.run(tmp_path / "none", hosts=["a"], launch="ssh")
    with pytest.raises(ArgumentError, match=r"on hosts \(--host\) or on the workers of Dask"):
        site_run.run(tmp_path / "none", hosts=["a"], dask="tcp://127.0.0.1:1")
    with pytest.raises(SapwoodError, match="a job failed"):
        site_jobs.Runner(_stock(tmp_path), ON_HOSTS, {}, ["a"], "false {host}").measure(_of_files(1))


def _of_files(jobs: int) -> Case:
    return Case(FILES, AS_IS, ALL, "sapwood", jobs)


def test_jobs_run_on_the_workers_of_dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="needs distributed (pip install sapwood[dask])")
    monkeypatch.setattr(samples, "KINDS", SMALL)
    many = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(protocol="tcp", **many) as dask:
        hosts, launch = site_run.workers_of_dask(dask.scheduler_address)
        assert hosts == sorted(dask.scheduler_info["workers"])
        # Two jobs on a worker of one thread: a job that waits for the other must not hold it.
        runner = site_jobs.Runner(_stock(tmp_path), ON_HOSTS, {}, hosts, launch)
        assert runner.measure(_of_files(2))["events"] == 2 * 30
        broken = {"sapwood": [sys.executable, "-c", "raise SystemExit('there is no such thing')"]}
        with pytest.raises(SapwoodError, match=r"a job failed .*: there is no such thing"):
            site_jobs.Runner(_stock(tmp_path), broken, {}, hosts, launch).measure(_of_files(1))


def test_why_no_engine_can_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_run, "compiled", lambda *_: (None, "there is no C++ compiler"))
    samples.make("pythia", tmp_path / "one.root")
    with pytest.raises(ArgumentError, match=r"none of the engines can run: root: there is no C\+\+ compiler"):
        site_run.run(tmp_path / "out", files=[str(tmp_path / "one.root")], names=["root"], jobs=[1], rounds=1)


def test_only_numbers_are_histogrammed() -> None:
    took = job._Took()
    job._fill({"a": ak.Array(["x", "y"]), "b": ak.Array([[1.0], [2.0, 3.0]]), "c": ak.Array([{"x": 1}])}, [0], took)
    assert took.check is None
    job._fill({"b": ak.Array([[[1.0]], [[2.0, 3.0]]])}, [0], took)
    assert took.check == 6.0


def test_every_value_is_counted() -> None:
    values = np.array([-np.inf, -200.1, -200.0, -199.9, -0.01, 0.0, 3.99, 4.0, 199.9, 200.0, np.inf])
    counts = job.counted(values)
    assert np.flatnonzero(counts).tolist() == [0, 1, 50, 51, 52, 100, 101]
    assert counts[counts > 0].tolist() == [2, 2, 1, 2, 1, 1, 2]
    assert job.counted(np.array([np.nan])).sum() == 1
    many = np.random.default_rng(1).uniform(-300, 300, 10_000)
    np.testing.assert_array_equal(job.counted(many)[1:-1], np.histogram(many, 100, (-200, 200))[0])


def test_each_task_of_a_train_has_its_own_branches() -> None:
    branches = {f"b{place:02d}": ak.Array([[float(place)]]) for place in range(50)}
    first = [job.Histograms(number).fill(list(branches), branches.__getitem__) for number in range(3)]
    assert [found["check"] for found in first] == [0.0, 20.0, 40.0]
    # The third has ten branches left, and begins with the first again.
    assert sum(bool((found["histogram10"] != first[0]["histogram0"]).any()) for found in first) == 2


def test_trains(result: Path) -> None:
    content = json.loads((result / "site.json").read_text())
    found = {(m["what"], m["engine"]): m["runs"][0] for m in content["measurements"]}
    train, turn = (found[f"esd, as is, {task}, 1 job", "sapwood"] for task in (TRAIN, TURN))
    assert train["events"] == turn["events"] == 40
    # In turn, each of the three reads all for itself.
    assert turn["bytes"] == pytest.approx(3 * train["bytes"], rel=0.01)
    assert train["decompression"] > 0 and train["task"] > 0
    assert found[f"esd, as is, {TRAIN}, 2 jobs", "sapwood"]["events"] == 80
    (table,) = (table for table in content["tables"] if table["title"] == "Simple task and train")
    assert [row[:3] for row in table["rows"]] == [["esd", "sapwood", "1"], ["esd", "sapwood", "2"]]
    assert float(table["rows"][0][6]) > 0 and table["rows"][1][6] == "–"  # with --quick, in turn by one job alone
    (figure,) = (one for one in content["figures"] if one["title"] == "esd, sapwood: simple task and train")
    assert [len(curve["points"]) for curve in figure["curves"]] == [2, 2, 1]
    limits = {one["title"]: one.get("marks") for one in content["figures"] if one["title"].endswith("MB/s")}
    # Of few branches a job reads so little that the limit of whole files would hide it.
    with_limit = {title for title, marks in limits.items() if marks}
    assert len(limits) == 4 and with_limit == {title for title in limits if "few branches" not in title}
    assert limits[f"esd, {TRAIN}: MB/s"] == limits[f"esd, {ALL}: MB/s"] != {}
    assert any(
        "a train of 3 tasks gets" in finding and "× of the 3 tasks in turn" in finding
        for finding in content["findings"]
    )


@pytest.mark.alone
def test_jobs_with_threads_wait_when_none_of_them_is_ready() -> None:
    # Two threads are ready at once, later none for a second; what the one that ends has queued nobody knows any more.
    text = """
import threading, time
def work():
    while time.thread_time() < 0.2: pass
print("ready", flush=True)
input()
begin = time.perf_counter()
one = threading.Thread(target=work)
one.start(); work(); one.join(); time.sleep(1)
print(time.perf_counter() - begin, flush=True)
"""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", text], **pipes) as process:
        process.stdout.readline()
        process.stdin.write("go\n")
        process.stdin.flush()
        start = time.perf_counter()
        with site_jobs.Watch([process.pid]) as watch:
            whole = float(process.stdout.readline())
    assert 0.7 < whole * watch.waiting(process.pid, start + whole) < 1.3
    assert watch.waiting(process.pid, 0.0) == 0.0


@pytest.mark.alone
def test_the_shares_of_jobs_with_threads(tmp_path: Path) -> None:
    for number in range(5):
        samples.make("esd", tmp_path / f"{number}.root")
    files = [str(tmp_path / f"{number}.root") for number in range(5)]
    stock = site_stock.Stock([tmp_path], {FILES: files}, None, [], 5, 1)
    runner = site_jobs.Runner(stock, {"sapwood": [sys.executable, "-m", "sapwood.lab.children.job"]}, {})
    for task in (ALL, TRAIN):  # a train works on a thread that ends with it
        found = runner.measure(Case("files", AS_IS, task, "sapwood", 1))
        assert found["queued"] >= 0 and found["user"] + found["system"] + found["queued"] <= 1.05 * found["job"], task


def test_what_a_train_gains(tmp_path: Path) -> None:
    train, turn = (Case("esd", AS_IS, task, "sapwood", 1) for task in (TRAIN, TURN))
    found = site_findings.findings(*_study(tmp_path, {train: {"value": 20.0}, turn: {"value": 8.0}}))
    assert found[1] == (
        "esd, sapwood, 1 job: a train of 3 tasks gets 200 events/s for each task, 2.5 × of the 3 tasks in turn."
    )
