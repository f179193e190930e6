"""`lab machine` with short probes, and the scaling study on machines made up."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browser import drawn, looks
from printed import example

from sapwood import _native
from sapwood.cli import main
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.lab.children import probe
from sapwood.lab.studies import machine, scaling
from sapwood.lab.studies.study import Study, compare


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the study once, as shortly as can be."""
    folder = tmp_path_factory.mktemp("machine")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "QUICK_SECONDS", 0.002)
        patch.setattr(machine, "QUICK_SIZES", (16 << 10, 64 << 10))
        patch.setattr(machine, "last_cache", lambda: 1 << 20)
        patch.setattr(machine, "OPTIONS", {"opt-level 1": ["-Copt-level=1"], "opt-level 3": ["-Copt-level=3"]})
        patch.chdir(folder)
        with contextlib.redirect_stderr(io.StringIO()) as said:
            assert main(example("lab", "machine")) == 0
    assert "context switch, 8 processes" in said.getvalue()
    return folder


def test_every_probe_has_a_value(result: Path) -> None:
    content = json.loads((result / "results" / "machine.json").read_text())
    found = {m["what"]: m["values"][0] for m in content["measurements"] if m["engine"] == "sapwood"}
    wanted = [*machine.STREAM, *machine.SYSTEM.values(), *machine.KERNELS, "decoding", "read 16 KiB", "latency 64 KiB"]
    wanted += ["context switch, 2 processes, 16 KiB", "pipe bandwidth", "decompression lzma:6"]
    assert set(wanted) <= set(found)
    assert all(found[name] > 0 for name in wanted if not name.startswith(("signal, deliver", "context")))
    assert found[machine.SYSTEM["null call"]] < found[machine.SYSTEM["pipe"]] < found[machine.SYSTEM["shell"]]
    assert found["decompression lzma:6"] < found["decompression lz4:4"]
    if shutil.which("rustc"):
        assert {m["engine"] for m in content["measurements"]} == {"sapwood", "opt-level 1", "opt-level 3"}
        (table,) = (one for one in content["tables"] if one["title"] == "Compiler options")
        assert [row[1] for row in table["rows"]] == [*machine.KERNELS.values(), *["MB/s"] * 4]
    else:
        assert "compiler options" in content["left_out"]


def test_files_are_made_on_each_file_system(result: Path, tmp_path: Path) -> None:
    folders = machine._file_systems(tmp_path)
    assert folders["result"] == str(tmp_path)
    assert len({Path(one).stat().st_dev for one in folders.values()}) == len(folders)
    content = json.loads((result / "results" / "machine.json").read_text())
    found = {m["what"] for m in content["measurements"]}
    for one in machine._file_systems(result / "results"):
        assert {f"files of {size} KiB, {what}, {one}" for size in (0, 10) for what in ("create", "delete")} <= found


def test_the_page_opens_in_a_browser(result: Path, tmp_path: Path) -> None:
    assert looks(result / "results" / "machine.html", tmp_path) > 50_000


def test_the_page_and_the_store(result: Path) -> None:
    page = (result / "results" / "machine.html").read_text()
    for words in (
        "Bandwidth [MB/s]",
        "Latency [ns]",
        "Size of a block",
        "Working set [KiB]",
        "KiB</text>",
        "Compiler options",
    ):
        assert words in page or (words == "Compiler options" and not shutil.which("rustc")), words
    assert (result / "machines" / "here.json").read_text() == (result / "results" / "machine.json").read_text()
    assert sorted(path.name for path in (result / "results").iterdir()) == ["machine.html", "machine.json"]
    rows = compare([result / "results" / "machine.json", result / "machines" / "here.json"])["rows"]
    assert len(rows) > 40 and all(row["ratios"][1] == 1.0 for row in rows)


def test_a_process_of_the_probe_is_small() -> None:
    """A probe that forks starts from little memory, and from one thread."""
    code = (
        "import os, sys; from sapwood import _native; import sapwood.lab.children.probe; _native.lab_forget();"
        "print(len(os.listdir('/proc/self/task')), 'numpy' in sys.modules, "
        "_native.lab_probe('pipe', 0, 0, '.', 0.01)[0])"
    )
    if not Path("/proc/self/task").exists():
        pytest.skip("this system does not list a process's threads")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    threads, numpy, time = done.stdout.split()
    assert (threads, numpy) == ("1", "False") and 1 < float(time) < 1e5


def test_the_arrays_of_stream_leave_memory_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "last_cache", lambda: 480 << 20)
    for memory, array in ((64 << 30, 1920 << 20), (4 << 30, 512 << 20), (0, 1920 << 20)):
        monkeypatch.setattr(machine, "host", lambda memory=memory: {"memory": memory})
        assert machine.stream_array() == array


def test_what_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match="probe none such is not available"):
        _native.lab_probe("none such", 0, 0, "", 0.0)
    with pytest.raises(ArgumentError, match="none does not exist"):
        machine.run(tmp_path, folders=[str(tmp_path / "none")])
    with pytest.raises(ArgumentError, match="name of a file"):
        machine.run(tmp_path, label="a/b")
    one = machine._probe("files", ["create", "delete"], ["1/s"] * 2, 0.0, folder=str(tmp_path / "none"))
    with pytest.raises(SapwoodError, match=r"the probe of create failed: .*No such file"):
        one.steps()[0].run()
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    study = Study("machine", {}, tmp_path)
    assert machine._compiled(study, tmp_path, 1 << 20, quick=True) == []
    assert study.content["left_out"] == {"compiler options": "there is no Rust compiler (rustc)"}


def test_db12_runs_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study("machine", {}, tmp_path)
    monkeypatch.setattr(machine.importlib.util, "find_spec", lambda name: None)
    assert machine._db12(study) == [] and study.content["left_out"] == {"DB12": "the package DB12 is not installed"}
    monkeypatch.undo()
    (tmp_path / "db12").mkdir()
    (tmp_path / "db12" / "__init__.py").write_text("def single_dirac_benchmark():\n    return {'NORM': 27.5}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    (one,) = machine._db12(study)
    (step,) = one.steps()
    assert (step.what, step.unit, step.run()["value"]) == ("DB12", "DB12", 27.5)


@pytest.mark.alone
def test_decoding_and_decompression_are_apart(tmp_path: Path) -> None:
    assert len(probe.reading("none", str(tmp_path), 0.0)) == 1
    packed, decoding = probe.reading("zlib:1", str(tmp_path), 0.0)
    assert 0 < packed < decoding


def _store(folder: Path, **machines: dict[str, float]) -> Path:
    for name, values in machines.items():
        study: Any = Study("machine", {"label": name}, folder / name)
        for what, value in values.items():
            unit = "ns" if what == "latency" else "MB/s"
            one = {"what": what, "engine": "sapwood", "unit": unit, "values": [value], "runs": [{}]}
            study.content["measurements"].append(one)
        study.save()
        (folder / "store").mkdir(exist_ok=True)
        study.path.replace(folder / "store" / f"{name}.json")
    return folder / "store"


def test_scaling(tmp_path: Path) -> None:
    store = _store(
        tmp_path,
        old={"track finding": 100.0, "integer": 10.0, "latency": 100.0, "triad": 5.0},
        new={"track finding": 300.0, "integer": 31.0, "latency": 50.0, "triad": 50.0},
        mid={"track finding": 200.0, "integer": 20.0, "latency": 50.0, "triad": 8.0},
    )
    study, written = scaling.run(store, tmp_path / "out", by="triad", label="farm")
    assert [value for value, _ in study.content["tiles"]][:2] == ["3", "integer"] and study.content["label"] == "farm"
    machines, follows = study.content["tables"]
    assert [row[0] for row in machines["rows"]] == ["new", "mid", "old"]
    assert [row[0] for row in follows["rows"]] == ["integer", "latency", "triad"]
    assert "follows “integer” most closely" in study.content["findings"][0]
    axes = [(one["x"], one["y"]) for one in study.content["figures"]]
    assert ("latency [1/ns]", "track finding [MB/s]") in axes
    assert "line through the origin" in written["html"].read_text()
    assert looks(written["html"], tmp_path) > 30_000
    speeds = tmp_path / "speeds.json"
    speeds.write_text(json.dumps({"old": 1, "new": 10, "mid": 1.6}))
    study, _ = scaling.run(store, tmp_path / "out", application=str(speeds))
    assert study.content["tables"][1]["rows"][0][:3] == ["triad", "0.2", "0.0 %"]
    assert study.content["figures"][0]["y"] == f"{speeds}, speed"


def test_the_example_of_scaling_works_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = _store(
        tmp_path,
        old={"track finding": 100.0, "STREAM triad": 5.0, "latency": 2.0},
        new={"track finding": 300.0, "STREAM triad": 7.0, "latency": 1.0},
    )
    store.rename(tmp_path / "machines")
    monkeypatch.chdir(tmp_path)
    assert main(example("lab", "scaling")) == 0
    assert Path("results/scaling.html").is_file()


def _ranks(folder: Path, **machines: dict[str, list[float]]) -> str:
    """Return the findings on machines with values by the round."""
    store = _store(folder, **{name: dict.fromkeys(values, 0.0) for name, values in machines.items()})
    for name, values in machines.items():
        content = json.loads((store / f"{name}.json").read_text())
        for measured in content["measurements"]:
            measured["values"] = values[measured["what"]]
        (store / f"{name}.json").write_text(json.dumps(content))
    return " ".join(scaling.run(store, folder / "out")[0].content["findings"])


def test_noise_ranks_no_benchmarks(tmp_path: Path) -> None:
    def machine(speed: float, **benchmarks: float) -> dict[str, list[float]]:
        rounds = {"track finding": speed, **benchmarks}
        return {what: [0.98 * value, value, 1.02 * value] for what, value in rounds.items()}

    one = machine(100.0, integer=10.0, triad=5.0)
    for other in (one, machine(103.0, integer=10.3, triad=4.9)):
        found = _ranks(tmp_path / str(other is one), old=one, new=other)
        assert "it cannot be said what they follow" in found and "integer" not in found
        tiles = json.loads((tmp_path / str(other is one) / "out" / "scaling.json").read_text())["tiles"]
        assert [value for value, _ in tiles] == ["2"]  # none says what they follow either
    new = machine(200.0, integer=20.0, triad=9.8, copy=6.0)
    found = _ranks(tmp_path / "other", old=one | machine(100.0, copy=5.0), new=new)
    assert "follows “integer” most closely" in found and ", and “copy” least" in found
    assert found.endswith("Within their noise these follow it as closely as “integer”: “triad”.")


def test_noise_is_no_finding(tmp_path: Path) -> None:
    def said(udp: list[float], rpc: list[float]) -> str:
        study: Any = Study("machine", {}, tmp_path)
        for name in machine.SYSTEM.values():
            values = {"UDP, there and back": udp, "RPC over UDP": rpc}.get(name, [10.0, 10.0, 10.0])
            one = {"what": name, "engine": "sapwood", "unit": "µs", "values": values, "runs": [{}] * 3}
            study.content["measurements"].append(one)
        return next(one for one in machine._findings(study, [1 << 14, 1 << 20]) if one.startswith("RPC"))

    assert (
        said([10.0, 10.1, 10.2], [9.9, 9.99, 10.0])
        == "RPC adds nothing measurable to UDP and nothing measurable to TCP."
    )
    assert "nothing measurable to UDP" in said([10.0, 10.0, 12.0], [11.0, 11.5, 11.5])  # within the spread
    assert "adds 1.5 µs to UDP" in said([10.0, 10.0, 10.2], [11.4, 11.5, 11.5])
    bistable = said([10.0, 21.0, 10.1], [22.0, 11.5, 11.6])
    assert bistable.startswith("RPC adds an amount that cannot be told to UDP (one probe varies by 11 µs)")


def test_a_store_keeps_every_result(tmp_path: Path) -> None:
    kept: list[Path] = []
    for number in range(3):
        study = Study("machine", {"label": "farm"}, tmp_path / str(number))
        study.content["started"] = f"2026-01-0{number + 1}"
        study.save()
        kept += [machine._keep(study, tmp_path / "store", "farm") for _ in range(2)]  # a study that goes on is one
    assert [path.name for path in kept[::2]] == ["farm.json", "farm-2.json", "farm-3.json"] and kept[::2] == kept[1::2]
    assert [json.loads(path.read_text())["started"][-1] for path in kept[::2]] == ["1", "2", "3"]


def test_tables_are_sorted_by_a_click(tmp_path: Path) -> None:
    store = _store(
        tmp_path,
        old={"track finding": 100.0, "latency": 9.0},
        new={"track finding": 300.0, "latency": 1000.0},
        mid={"track finding": 200.0, "latency": 50.0},
    )
    _, written = scaling.run(store, tmp_path / "out")
    page = written["html"].read_text()
    assert not re.search(r"https?:|@import|<link|src=", page)
    click = "document.querySelectorAll('table.sortable')[0].rows[0].cells[{}].click();"
    for clicks, order in (([2], "old mid new"), ([2, 2], "new mid old"), ([0], "mid new old")):
        clicked = tmp_path / "clicked.html"
        words = "".join(click.format(column) for column in clicks)
        clicked.write_text(page.replace("</body>", f"<script>{words}</script></body>"))
        table = drawn(clicked, tmp_path).partition('class="study sortable"')[2].partition("</table>")[0]
        rows = re.findall(r"<td><data value=\"(old|mid|new)\">", table)
        assert " ".join(rows) == order


def test_a_line_through_the_origin() -> None:
    one = scaling.line({"a": 2.0, "b": 4.0}, {"a": 1.0, "b": 1.0})
    assert one.slope == 3.0
    assert one.deviations == pytest.approx({"a": -1 / 3, "b": 1 / 3})
    assert one.spread == pytest.approx(1 / 3)


def test_wrong_stores(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="holds 0 results"):
        scaling.run(tmp_path, tmp_path / "out")
    store = _store(tmp_path, a={"track finding": 1.0}, b={"track finding": 2.0, "integer": 1.0})
    with pytest.raises(ArgumentError, match="benchmark 'integer' was not measured"):
        scaling.run(store, tmp_path / "out", by="integer")
    with pytest.raises(ArgumentError, match="a has no benchmark integer"):
        scaling.run(store, tmp_path / "out", application="integer")
    (tmp_path / "speeds.json").write_text('{"a": 1}')
    with pytest.raises(ArgumentError, match="is not a JSON object of speeds for a, b"):
        scaling.run(store, tmp_path / "out", application=str(tmp_path / "speeds.json"))
