"""The frame of studies, and `lab event` on few events."""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from browser import looks, sheets
from printed import example

import sapwood
from sapwood.cli import main
from sapwood.cli.lab import COMMANDS
from sapwood.errors import ArgumentError, SapwoodError
from sapwood.lab import cold
from sapwood.lab.children import engines
from sapwood.lab.studies import beside, event, trend
from sapwood.lab.studies import study as study_module
from sapwood.lab.studies.drawing import colours, draw
from sapwood.lab.studies.export import to_prometheus
from sapwood.lab.studies.study import WARNINGS, Step, Study, compare, comparison_text, differs, judge, read, scratch
from sapwood.show.units import count_text

pytestmark = pytest.mark.usefixtures("forked_starts")
GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guide" / "laboratory.md"


def study(folder: Path, values: list[float], unit: str = "s", **settings: Any) -> Path:
    """Make a finished study with one measurement."""
    made, left = Study("toy", {"size": 3} | settings, folder), list(values)
    made.run([Step("work", "it", unit, lambda: {"value": left.pop(0), "more": 7})], len(values))
    figures = [
        {"kind": "bars", "title": "Bars", "engines": ["it"], "unit": "s", "label": "Time [s]",
         "groups": [["work <1>", {"it": [1.0, 0.5, 2.0]}]]},
        {"kind": "lines", "title": "Lines", "x": "Size [B]", "y": "Rate [MB/s]", "log": "xy", "marks": {"limit": 50.0},
         "curves": [{"label": "copy", "points": [[1e3, 10.0], [1e6, 40.0]]}]},
    ]  # fmt: skip
    table = {"title": "A table", "head": ["what", "time"], "rows": [["work", "1 s"]]}
    made.finish(tables=[table], figures=figures, findings=["All is well & good."])
    return made.path


def test_a_study_keeps_every_value(tmp_path: Path) -> None:
    content = read(study(tmp_path, [1.0, 3.0, 2.0]))
    (measured,) = content["measurements"]
    assert measured["values"] == [1.0, 3.0, 2.0] and measured["runs"] == [{"more": 7}] * 3
    assert content["complete"] and content["settings"] == {"size": 3}
    assert {"name", "processor", "cores_usable"} <= set(content["host"]) and "sapwood" in content["versions"]
    assert content["commit"] is None or re.fullmatch(r"[0-9a-f]{40}\+?", content["commit"])


@pytest.mark.parametrize("rounds", [0, -1])
def test_a_study_has_a_round(rounds: int, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="one round or more"):
        Study("any", {"rounds": rounds}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_study_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    said: list[str] = []

    def measure(name: str, *, fails: bool) -> dict[str, float]:
        said.append(name)
        if fails:
            raise KeyboardInterrupt
        return {"value": 1.0}

    def steps(*, fails: bool) -> list[Step]:
        return [
            Step("one", "a", "s", lambda: measure("one", fails=False)),
            Step("two", "a", "s", lambda: measure("two", fails=fails and len(said) > 2)),
        ]

    with pytest.raises(KeyboardInterrupt):
        Study("toy", {"n": (1,)}, tmp_path).run(steps(fails=True), 2)
    assert said == ["one", "two", "one", "two"]
    again = Study("toy", {"n": (1,)}, tmp_path)
    again.run(steps(fails=False), 2)
    assert said[4:] == ["two"]
    with pytest.raises(ArgumentError, match="other settings"):
        Study("toy", {"n": (2,)}, tmp_path)
    assert Study("toy", {"n": (2,)}, tmp_path, fresh=True).content["measurements"] == []


def test_a_study_does_not_go_on_with_other_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    step = [Step("one", "a", "s", lambda: {"value": 1.0})]

    def begin(left: str | None, version: str | None, load: float) -> Study:
        monkeypatch.setattr(study_module.os, "getloadavg", lambda: (load, 0.0, 0.0))
        made = Study("toy", {}, tmp_path)
        if left:
            made.leave_out(left, "it is not installed")
        if version:
            made.use("root", version)
        return made

    begin("b", "6.40.0", 5.0).run(step, 1)
    assert begin("b", "6.40.0", 1.0).content["load"] == 5.0
    again = begin("b", "6.40.0", 9.0)
    again.run(step, 2)
    assert again.content["load"] == 9.0 and list(again.content["left_out"]) == ["b"]
    for left, version, message in (
        (None, "6.40.0", "without b:"),
        ("c", "6.40.0", "without b; with c:"),
        ("b", "6.38.0", "with root 6.40.0:"),
    ):
        with pytest.raises(ArgumentError, match=message):
            begin(left, version, 0.0).run(step, 3)
    assert len(read(tmp_path / "toy.json")["measurements"][0]["values"]) == 2


def test_root_is_found_by_its_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, folder = tmp_path / "site" / "ROOT", tmp_path / "bin"
    (package / "include" / "ROOT").mkdir(parents=True)
    folder.mkdir()
    (package / "include" / "TTree.h").touch()
    numbers = (("MAJOR", 6), ("MINOR", 40), ("PATCH", 2))
    text = "".join(f"#define ROOT_VERSION_{name} {number}\n" for name, number in numbers)
    (package / "include" / "ROOT" / "RVersion.hxx").write_text(text)
    for name, said in (("root", ""), ("python3", f"echo {package / '__init__.py'}")):
        (folder / name).write_text(f"#!/bin/sh\n{said}\n")
        (folder / name).chmod(0o755)
    monkeypatch.delenv("ROOTSYS", raising=False)
    monkeypatch.setattr(event.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert event._root_prefix() is None and event.root_version() == ""
    monkeypatch.setenv("PATH", str(folder))
    assert event._root_prefix() == package and event.root_version() == "6.40.2"


def test_a_study_does_not_go_on_with_another_file(tmp_path: Path) -> None:
    file = tmp_path / "a.root"
    file.write_bytes(b"1234")
    Study("toy", {}, tmp_path / "out", inputs=[str(file)]).save()
    assert Study("toy", {}, tmp_path / "out", inputs=[str(file)]).content["inputs"][str(file)]["bytes"] == 4
    for replace in (lambda: file.write_bytes(b"12345"), lambda: os.utime(file, ns=(0, 1))):
        replace()
        with pytest.raises(ArgumentError, match=r"a\.root is not the file that .*toy\.json was measured with"):
            Study("toy", {}, tmp_path / "out", inputs=[str(file)])
        Study("toy", {}, tmp_path / "out", inputs=[str(file)], fresh=True).save()
    Study("toy", {}, tmp_path / "out", inputs=[str(file)])


def test_a_file_far_away_is_known_by_its_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(self: Path, **_: object) -> None:
        raise FileNotFoundError

    states: list[dict[str, Any]] = []
    for _ in range(2):
        with sapwood.recreate(tmp_path / "a.root") as file:
            file["x"] = "a text"
        with monkeypatch.context() as patch:
            patch.setattr(Path, "stat", without)
            states += [study_module._state(str(tmp_path / "a.root"))]
    assert set(states[0]) == {"uuid"} and states[0] != states[1]


@pytest.mark.parametrize(
    ("values", "more", "code"),
    [
        ([1.0, 1.3, 0.9], {}, "noisy"),
        ([0.011, 0.0111, 0.0112], {}, "too-short"),
        ([1.0, 1.0], {}, "few-rounds"),
        ([1.0, 1.0, 1.01], {"load": 9.0}, "loaded"),
        ([1.0, 1.0, 1.01], {"commit": "abc+"}, "changed-source"),
        ([1.0, 1.0, 1.01], {"warnings": ["page-cache-not-dropped"]}, "page-cache-not-dropped"),
        ([50.0, 51.0, 52.0], {"unit": "MB/s", "wall": 0.011}, "too-short"),
        ([50.0, 51.0, 52.0], {"unit": "MB/s", "wall": 0.5}, None),
        ([1.0, 1.1, 1.01], {}, None),
    ],
)
def test_each_warning(values: list[float], more: dict[str, Any], code: str | None) -> None:
    runs = [{name: more[name] for name in ("warnings", "wall") if name in more}] * len(values)
    content: dict[str, Any] = {"load": 0.1, "commit": "abc", "host": {"cores_usable": 2}}
    content["measurements"] = [{"what": "w", "engine": "e", "unit": more.get("unit", "s"), "values": values}]
    content["measurements"][0]["runs"] = runs
    found = judge(content | {name: value for name, value in more.items() if name != "warnings"})
    assert [warning["code"] for warning in found] == ([code] if code else [])
    assert all(warning["advice"] == WARNINGS[warning["code"]][1] for warning in found)


def test_the_guide_lists_the_warnings() -> None:
    rows = "".join(f"| `{code}` | {text} | {advice} |\n" for code, (text, advice) in WARNINGS.items())
    assert rows in GUIDE.read_text(encoding="utf-8")


def test_studies_are_compared(tmp_path: Path) -> None:
    first = study(tmp_path / "a", [1.0, 1.1, 1.2])
    second = study(tmp_path / "b", [2.0, 2.2, 2.4], extra=1)
    third = study(tmp_path / "c", [1.15, 1.25, 1.35])
    compared = compare([first, second, third])
    (row,) = compared["rows"]
    assert row["ratios"][1] == pytest.approx(2.0) and row["clear"] == [False, True, False]
    assert compared["other_settings"] == {"extra": [None, 1, None]} and compared["alike"] == [True, False, True]
    text = comparison_text(compared)
    assert " ~1.14" in text and " !2.00" in text
    assert text.startswith("Settings differ: extra: None | 1 | None\nRatios marked !")
    rounds = compare([first, study(tmp_path / "d", [2.0, 2.2, 2.4], rounds=5)])
    assert " 2.00" in comparison_text(rounds) and "!" not in comparison_text(rounds)
    with pytest.raises(ArgumentError, match="two studies or more"):
        compare([first])
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ArgumentError, match="not a study of sapwood lab"):
        compare([first, tmp_path / "x.json"])
    for part in ('"format_version": 99', '"format_version": 1', '"study": "toy"'):
        (tmp_path / "x.json").write_text(f'{{"format": "sapwood lab", {part}}}')
        with pytest.raises(ArgumentError, match=r"of format (99|None)|an incomplete study .* it lacks study, settings"):
            compare([first, tmp_path / "x.json"])


def test_noise_is_no_difference() -> None:
    chance = random.Random(3)
    pairs = [[[chance.gauss(10, 1) for _ in range(3)] for _ in range(2)] for _ in range(2000)]
    apart = sum(max(a) < min(b) or max(b) < min(a) for a, b in pairs)
    told = sum(differs(a, b) for a, b in pairs)
    assert apart > 150 and told < 40  # ranges alone are apart in a tenth of all cases
    assert differs([1.0, 1.01, 1.02], [1.2, 1.21, 1.22]) and not differs([1.0, 1.0, 1.0], [1.02, 1.02, 1.02])
    assert not differs([1.0], [9.0]) and not differs([1.0, 1.0], [9.0, 9.0])  # once or twice says nothing


def test_two_sites_are_compared(tmp_path: Path) -> None:
    def site(name: str, size: float) -> Path:
        path = study(tmp_path / name, [1.0, 1.01, 1.02], files=[f"/{name}/a.root"], disks=[f"/{name}"])
        content = json.loads(path.read_text())
        content["files"] = {"files": {"as is": {"events": 100, "file_bytes": size}}}
        path.write_text(json.dumps(content))
        return path

    here, there, other = site("here", 1e6), site("there", 1.001e6), site("other", 3e6)
    compared = compare([here, there, other])
    assert set(compared["other_settings"]) == {"files", "disks"}
    assert compared["alike"] == [True, True, False]  # the same events in files of another path, and other files


def test_findings_of_one_round_say_so(tmp_path: Path) -> None:
    for rounds, said in ((1, ["Measured once: A is 2 × B.", "All was measured once"]), (3, ["A is 2 × B."])):
        made = Study("toy", {"rounds": rounds}, tmp_path / str(rounds))
        made.run([Step("work", "it", "s", lambda: {"value": 1.0})], rounds)
        made.finish(tables=[], figures=[], findings=["A is 2 × B."])
        found = made.content["findings"]
        assert len(found) == len(said) and all(one.startswith(words) for one, words in zip(found, said, strict=True))


def test_studies_are_shown_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = study(tmp_path / "a", [1.0, 1.01, 0.99])
    made, left = Study("toy", {"size": 3}, tmp_path / "b", label="new", reference=first), [2.0, 2.01, 1.99]
    made.run([Step("work", "it", "s", lambda: {"value": left.pop(0)})], 3)
    made.finish(tables=[], figures=[], findings=["It is slower."])
    (ratios,) = made.content["tables"]
    assert ratios["title"] == "Beside the reference" and ratios["head"][-1].startswith("new to ")
    assert ratios["rows"] == [["work", "it", "1.00 s", "2.00 s", "2.00"]]
    assert ratios["keys"] == [["work", "it", 1.0, 2.0, 2.0]]
    assert "Beside the reference" in (tmp_path / "b" / "toy.html").read_text()
    with pytest.raises(ArgumentError, match="is a result of lab toy, not of lab other"):
        Study("other", {}, tmp_path / "c", reference=first)
    assert main(["lab", "compare", str(first), str(made.path), "-o", str(tmp_path / "d")]) == 0
    assert "2.00" in capsys.readouterr().out
    content = json.loads((tmp_path / "d" / "compare.json").read_text())
    assert content["headline"].startswith(
        "1 of 1 figures differ by more than noise. The largest difference: work, it: "
    )
    assert "new has 2.00 × the figure of " in content["headline"] and content["tables"][0]["rows"] == ratios["rows"]
    assert "Settings that differ" not in [table["title"] for table in content["tables"]]
    assert "<h2>Machines" in (tmp_path / "d" / "compare.html").read_text()


def test_studies_without_common_measurements(tmp_path: Path) -> None:
    paths: list[Path] = []
    for name in ("one", "two"):
        made = Study(
            "toy", {"files": [f"{name}{n}.root" for n in range(90)], "options": {}}, tmp_path / name, label=name
        )
        made.run([Step(name, "it", "s", lambda: {"value": 1.0})], 1)
        made.finish(tables=[], figures=[], findings=["."])
        paths.append(made.path)
    content = json.loads(beside.run(tmp_path / "out", paths)["json"].read_text())
    assert content["headline"] == "The studies have no measurement in common."
    settings, _, lacking = content["tables"]
    shown = "one0.root, one1.root, one2.root, one3.root, one4.root, one5.root, and 84 more"
    assert settings["rows"] == [["files", shown, shown.replace("one", "two")]]  # no list in Python's words
    assert lacking["rows"] == [["one", "it", "yes", "–"], ["two", "it", "–", "yes"]]


def test_machines_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, values in (("old", [1.0, 1.1, 1.2]), ("new", [2.0, 2.2, 2.4])):
        made = study(tmp_path / name, values, label=name, last_cache=len(name), engines=["it", name])
        made.rename(tmp_path / f"{name}.json")
    compared = compare(["old.json", "new.json"])
    assert set(compared["other_settings"]) == {"label", "engines"} and compared["alike"] == [True, True]
    text = comparison_text(compared)
    assert " 2.00" in text and "!" not in text and "label: old | new" in text
    assert re.search(r"^ +1: old.json +2: new.json +ratio 2$", text, re.MULTILINE)


def test_a_comparison_says_what_it_cannot_compare(tmp_path: Path) -> None:
    def stopped() -> dict[str, float]:
        raise KeyboardInterrupt

    first = study(tmp_path / "a", [1.0, 1.1, 1.6])
    half = Study("toy", {"size": 3}, tmp_path / "b")
    steps = [Step("work", "it", "s", lambda: {"value": 2.0}), Step("rest", "it", "s", stopped)]
    with pytest.raises(KeyboardInterrupt):
        half.run([steps[0], Step("more", "that", "s", lambda: {"value": 1.0}), steps[1]], 3)
    compared = compare([first, half.path])
    assert compared["complete"] == [True, False]
    assert compared["missing"] == [{"what": "more", "engine": "that", "in": [2]}]
    assert compared["warnings"][0][-1]["code"] == "noisy"
    text = comparison_text(compared)
    assert text.count("INCOMPLETE") == 1 and f"2: {half.path}, on {half.content['host']['name']}, commit " in text
    assert "only in 2: more, that\n" in text and "warning: noisy: work, it" in text
    assert "warning: few-rounds: work, it; more, that" in text
    other = Study("toy", {"size": 3}, tmp_path / "c")
    other.save()
    assert "No measurement is in all" in comparison_text(compare([first, other.path]))


def test_an_engine_has_one_colour() -> None:
    figures = (
        ["sapwood", "root", "hdf5"],
        ["root", "model"],
        ["sapwood, 4 threads", "raw"],
        ["model", "limit", "root"],
    )
    found = [colours(names) for names in figures]
    assert [list(one) for one in found] == list(figures)
    assert {one["root"] for one in found if "root" in one} == {found[0]["root"]}
    assert found[0]["sapwood"] == found[2]["sapwood, 4 threads"]
    assert all(len(set(one.values())) == len(one) for one in found)
    curves = [{"label": name, "points": [[1, 2.0], [2, 3.0]]} for name in figures[1]]
    drawn = draw({"kind": "lines", "title": "a", "x": "b", "y": "c", "curves": curves})
    assert drawn.count(f'class="c{found[0]["root"]}"') == 1


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    page = study(tmp_path, [1.0, 3.0, 2.0]).with_suffix(".html").read_text()
    assert not re.search(r"https?:|//[a-z]|<script|@import|<link|src=", page)
    for words in ("work &lt;1&gt;", "Time [s]", "Rate [MB/s]", "Size [B]", "limit", "All is well &amp; good.", "noisy"):
        assert words in page, words
    assert page.count("<svg") == 2


def test_the_page_begins_with_the_main_finding(tmp_path: Path) -> None:
    made = Study("toy", {"rounds": 3}, tmp_path, label="new disks")
    made.run([Step("work", "it", "s", lambda: {"value": 1.0})], 3)
    shares = [["1 job", {"waiting": 0.25, "task": 0.75}], ["2 jobs", {"waiting": 3.0, "task": 1.0}]]
    figure = {"kind": "shares", "title": "Time", "engines": ["waiting", "task"], "label": "Share [%]", "groups": shares}
    points = {"kind": "lines", "title": "Plane", "x": "a", "y": "b", "curves": [
        {"label": "all", "points": [[1, 2.0, 1.5, 2.5], [1.01, 2.0, 1.9, 2.1]], "dots": True, "names": ["<one>", "b"]},
    ]}  # fmt: skip
    table = {"title": "Rates, all", "head": ["what", "rate", "why"], "rows": [["a", "1 /s", "b, c"]], "words": [2]}
    made.finish(
        tables=[table], figures=[figure, points], findings=["It is fast.", "More."], tiles=[("9 /s", "at most")]
    )
    page = made.path.with_suffix(".html").read_text()
    head = page[: page.index("<h2>")]
    assert "new disks" in head and "It is fast." in head and "9 /s" in head and head.count("<svg") == 1
    assert page.count("It is fast.") == 1 and "&lt;one&gt;" in page and page.count('class="error"') == 2
    widths = [float(width) for width in re.findall(r'height="18" fill|width="([0-9.]+)" height="18"', page) if width]
    assert sum(widths[:2]) == pytest.approx(sum(widths[2:4]), abs=0.3) and widths[2] == pytest.approx(
        3 * widths[3], 0.01
    )
    saved = unquote(re.findall(r'download="rates-all.csv" href="data:text/csv;charset=utf-8,([^"]*)"', page)[0])
    assert saved == 'what,rate,why\na,1 /s,"b, c"\n'
    svg = unquote(re.findall(r'download="time.svg" href="data:image/svg[+]xml;charset=utf-8,([^"]*)"', page)[0])
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg" and "<style>" in svg


def test_a_budget_ends_a_study_after_its_first_round(tmp_path: Path) -> None:
    made = Study("toy", {"rounds": 3}, tmp_path, budget=0.0)
    made.run([Step(what, "it", "s", lambda: {"value": 1.0}) for what in "ab"], 3)
    made.finish(tables=[], figures=[], findings=[])
    content = read(made.path)
    assert [len(one["values"]) for one in content["measurements"]] == [1, 1]
    assert "budget" in {one["code"] for one in content["warnings"]}
    again = Study("toy", {"rounds": 3}, tmp_path)  # it goes on where the time ended
    again.run([Step(what, "it", "s", lambda: {"value": 1.0}) for what in "ab"], 3)
    again.finish(tables=[], figures=[], findings=[])
    assert "budget" not in {one["code"] for one in again.content["warnings"]}


def test_results_for_other_programs(tmp_path: Path) -> None:
    first = study(tmp_path / "a", [1.0, 3.0, 2.0])
    call = [sys.executable, "-m", "sapwood", "lab", "export", str(first)]
    both = [word for name in ("out.csv", "out.prom") for word in ("-o", str(tmp_path / name))]
    assert subprocess.run([*call, *both]).returncode == 0
    rows = (tmp_path / "out.csv").read_text().splitlines()
    assert rows[0] == "study,label,host,started,what,engine,unit,round,value"
    assert [row.split(",")[4:] for row in rows[1:]] == [
        ["work", "it", "s", n, v] for n, v in zip("123", ("1.0", "3.0", "2.0"), strict=True)
    ]
    lines = (tmp_path / "out.prom").read_text().splitlines()
    assert lines[1] == "# TYPE sapwood_lab gauge" and len(lines) == 3
    assert re.fullmatch(
        r'sapwood_lab\{study="toy",label="",host=".*",what="work",engine="it",unit="s"\} 2\.0', lines[2]
    )
    wrong = subprocess.run([*call, "-o", str(tmp_path / "out.txt")], capture_output=True, text=True)
    assert wrong.returncode == 2 and "exported to .csv or .prom" in wrong.stderr
    assert to_prometheus([{**read(first), "label": 'a "b"\\c'}]).count('label="a \\"b\\"\\\\c"') == 1


def test_a_trend_names_what_changed(tmp_path: Path) -> None:
    paths = [study(tmp_path / name, values) for name, values in (("a", [1.0, 1.01, 1.02]), ("b", [2.0, 2.01, 2.02]))]
    made, written = trend.run(tmp_path / "out", paths)
    change = "work, it: 1.99 × the first result, from 1.01 s to 2.01 s."
    count = "1 of 1 figures changed by more than noise."
    assert made.content["findings"] == [f"{count} The largest change: {change}", change]
    assert len(made.content["figures"][0]["curves"][0]["names"]) == 2
    assert made.content["tables"][0]["rows"][0][-1] == "1.99" and written["html"].exists()
    same, _ = trend.run(tmp_path / "same", [paths[0], paths[0]])
    assert same.content["headline"] == "No figure of 1 changed by more than noise."
    with pytest.raises(ArgumentError, match="two results or more"):
        trend.run(tmp_path / "one", paths[:1])


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run `lab event` by sapwood and plain bytes, once."""
    folder = tmp_path_factory.mktemp("event")
    words = example("lab", "event")
    assert example("lab") == words
    printed, told = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(told):
        patch.chdir(folder)
        assert main(words) == 0
    assert "[0/" in told.getvalue() and "write alone" in printed.getvalue()
    return folder / "results"


def test_lab_event(result: Path) -> None:
    content = json.loads((result / "event.json").read_text())
    measured = {(m["what"], m["engine"]): m for m in content["measurements"]}
    assert {what for what, engine in measured if engine == "sapwood"} >= {
        event.CREATE,
        event.WRITE,
        event.READ,
        event.RANDOM,
    }
    assert measured[event.WRITE, "sapwood"]["runs"][0]["bytes"] > 10e6
    assert measured[event.READ, "sapwood"]["runs"][0]["check"] == pytest.approx(engines.expected(500))
    assert measured[event.CREATE, "raw"]["runs"][0]["check"] == engines.Chunk(0, 500).offsets[-1]
    assert measured[event.COLD_RANDOM, "sapwood"]["runs"][0]["check"] == pytest.approx(
        engines.expected(500, engines.entries_at_random(500))
    )
    assert sorted(path.name for path in result.iterdir()) == ["event.html", "event.json"]
    assert "fill 20 histograms" in (result / "event.html").read_text()
    assert re.match(
        "Measured once: sapwood reads 500 events .* in .*s and makes and writes them in", content["headline"]
    )
    reading, writing, size = (value.rpartition(" ")[2] for value, _ in content["tiles"])
    assert (reading, size) == ("MB/s", "MB") and writing in ("MB/s", "–")
    assert content["figures"][0]["title"] == "Reading"


@pytest.mark.parametrize("command", ["compare", "trend", "export"])
def test_the_examples_work_as_printed(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = example("lab", command)
    for path in (Path(word) for word in words if word.endswith("/event.json")):
        study(path.parent, [1.0, 1.01, 1.02]).rename(path)
    assert main(words) == 0
    written = {"compare": set(), "trend": {"trend/trend.html", "trend/trend.json"}, "export": {"event.prom"}}
    assert all(Path(one).is_file() for one in written[command])


def test_results_are_printed_in_the_form_that_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (str(study(tmp_path / name, [at, at, at])) for name, at in (("a", 1.0), ("b", 2.0)))
    words = ["lab", "trend", first, second, "-o", str(tmp_path / "out"), "--label", "nightly"]
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["study"], content["label"]) == ("trend", "nightly")
    assert main([*words, "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith(",1.00 s,2.00 s,2.00")
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert "nightly · started" in (tmp_path / "out" / "trend.html").read_text()
    words = ["lab", "compare", first, second]
    assert main([*words, "--csv"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows == ["what,engine,unit,median 1,median 2,ratio 2,clear 2", "work,it,s,1.0,2.0,2.0,True"]
    changed = json.loads(Path(second).read_text())
    changed["warnings"] = []
    for path in (first, second):
        Path(path).write_text(json.dumps(changed))
    assert main([*words, "--fail-on-warning", "-q"]) == 0
    changed["warnings"] = [{"code": "loaded", "text": "", "where": "", "advice": ""}]
    Path(second).write_text(json.dumps(changed))
    assert main([*words, "--fail-on-warning", "-q"]) == 1
    assert capsys.readouterr() == ("", "")


def test_the_page_opens_in_a_browser(result: Path, tmp_path: Path) -> None:
    assert looks(result / "event.html", tmp_path) > 50_000


def test_a_study_that_is_told_to_end_leaves_no_files(tmp_path: Path) -> None:
    command = ["lab", "event", "-o", str(tmp_path), "--engine", "sapwood,raw", "--events", "5000"]
    with subprocess.Popen([sys.executable, "-m", "sapwood", *command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "[0/" in process.stderr.readline()
        assert any(path.name.startswith("event-") for path in tmp_path.iterdir())
        process.terminate()
        process.communicate()
    assert process.returncode == 143
    assert not any(path.is_dir() for path in tmp_path.iterdir())


def test_what_a_study_left_that_was_killed_goes(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom sapwood.lab.studies.study import scratch\n"
        "with scratch(sys.argv[1], 'toy') as made:\n"
        "    (made / 'large').touch()\n    print(made, flush=True)\n    time.sleep(60)"
    )
    (tmp_path / "toy-own").mkdir()  # the user's
    with subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with scratch(tmp_path, "toy") as other:
            assert left.is_dir() and other.is_dir() and other != left  # one that runs keeps its own
        process.kill()
        process.wait()
        assert (left / "large").exists()
        with scratch(tmp_path, "other"):
            assert left.is_dir()
        with scratch(tmp_path, "toy") as made:
            assert sorted(tmp_path.iterdir()) == sorted([made, tmp_path / "toy-own"])
    assert list(tmp_path.iterdir()) == [tmp_path / "toy-own"]


def test_a_study_that_was_killed_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["lab", "event", "-o", str(tmp_path), "--engine", "sapwood, raw", "--events", "1000", "--rounds", "2"]
    with subprocess.Popen([sys.executable, "-m", "sapwood", *command], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "[3/" not in process.stderr.readline():
            pass
        process.kill()
        process.communicate()
    before = read(tmp_path / "event.json")
    assert not before["complete"] and any(path.is_dir() for path in tmp_path.iterdir())
    assert main(command) == 0 and "[0/" not in capsys.readouterr().err
    after = read(tmp_path / "event.json")
    assert after["complete"] and after["started"] == before["started"]
    for old, new in zip(before["measurements"], after["measurements"], strict=True):
        assert new["values"][: len(old["values"])] == old["values"] and len(new["values"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["event.html", "event.json"]


SETTINGS = {
    "lists": engines.Settings("zstd:1"),
    "split": engines.Settings("zstd:1", 99),
    "member-wise": engines.Settings("zlib:1", 0),
    "object-wise": engines.Settings("none", 0, member_wise=False),
}


WRITTEN = [
    (name, how) for name, engine in engines.ENGINES.items() for how in SETTINGS if not engine().refuses(SETTINGS[how])
]


@pytest.mark.parametrize(("name", "how"), WRITTEN)
def test_engines_read_what_they_wrote(name: str, how: str, tmp_path: Path) -> None:
    engine, path, settings = engines.ENGINES[name](), tmp_path / "events.root", SETTINGS[how]
    if (reason := engines.missing(name)) is not None:
        pytest.skip(reason)
    engine.write(path, 600, settings)
    engine.verify(path, 600)
    with pytest.raises(SapwoodError):
        engine.verify(path, 1100)
    if name != "raw":
        assert engines.sum_of(engine.read(path)) == pytest.approx(engines.expected(600))
        some = engines.sum_of(engine.random(path, [3, 599, 510]))
        assert some == pytest.approx(engines.expected(600, [3, 599, 510]))


@pytest.mark.usefixtures("fresh_starts")
@pytest.mark.parametrize("name", engines.ENGINES)
def test_nothing_is_imported_while_an_engine_is_measured(name: str, tmp_path: Path) -> None:
    if (reason := engines.missing(name)) is not None:
        pytest.skip(reason)
    for action in ("write", "read", "random"):
        words = [name, action, str(tmp_path / f"{name}.root"), "500", engines.told(engines.Settings("zstd:1"))]
        command = [sys.executable, "-m", "sapwood.lab.children.engines", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["imported"] == [], action
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.root"]


@pytest.mark.alone
def test_objects_that_are_written_one_by_one_are_decoded_together(tmp_path: Path) -> None:
    took: list[float] = []
    for member_wise in (True, False):
        path = tmp_path / f"{member_wise}.root"
        engines.Sapwood().write(path, 500, engines.Settings("none", 0, member_wise))
        with sapwood.open(path) as file:
            tree, least = file["T"], 9.0
            for _ in range(7):
                before = time.process_time()
                tree.arrays(how=dict)
                least = min(least, time.process_time() - before)
            took.append(least)
    assert took[1] < 4 * took[0]  # one by one it is eight times as much


def test_no_events_are_not_all_of_them(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="events or more"):
        event.run(tmp_path, events=0)


def test_who_cannot_do_what() -> None:
    whole, each = SETTINGS["member-wise"], SETTINGS["object-wise"]
    refusing = {name for name, engine in engines.ENGINES.items() if engine().refuses(whole)}
    assert refusing == {"uproot", "parquet", "hdf5", "zebra", "zebra-rz"}
    assert {name for name, engine in engines.ENGINES.items() if engine().refuses(each)} == {
        "uproot", "parquet", "zebra", "zebra-rz",
    }  # fmt: skip
    assert engines.Parquet().refuses(engines.Settings("lzma:1")) == "it has no LZMA"
    assert engines.Hdf5().codec(engines.Settings("lzma:1")) == "zlib:1"
    equal = [
        engine().codec(engines.Settings("zstd:5")) for engine in (engines.Sapwood, engines.Uproot, engines.Parquet)
    ]
    assert equal == ["zstd:5", "zstd:10", "zstd:10"]  # of ROOT, of the library
    assert engines.Hdf5().codec(whole) == "zlib:1" and engines.Hdf5().codec(each) == "none"


def test_a_value_that_differs_is_found(tmp_path: Path) -> None:
    engine, path = engines.Sapwood(), tmp_path / "events.root"
    engine.write(path, 500, engines.Settings("none"))
    data = bytearray(path.read_bytes())
    value = engines.Chunk(0, 500).tracks["zlast"][777:781].astype(">f4").tobytes()
    assert data.count(value) == 1
    data[data.index(value) + 7] ^= 1
    path.write_bytes(data)
    with pytest.raises(SapwoodError, match="zlast of entries 0 to 500 differs"):
        engine.verify(path, 500)


def test_a_program_of_cernlib_takes_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # In its place stands one with the same arguments, which writes and reads the same format.
    monkeypatch.delenv(event.CERNLIB, raising=False)
    program = tmp_path / "cernlib-event"
    settings = engines.told(engines.Settings("none"))
    own = shlex.join([sys.executable, "-m", "sapwood.lab.children.engines", "zebra"])
    program.write_text(f'#!/bin/sh\nexec {own} "$@" {shlex.quote(settings)}\n')
    program.chmod(0o755)
    names = ["zebra", "cernlib"]
    made, _ = event.run(tmp_path / "without", names=names, events=500, rounds=1)
    lacking = "SAPWOOD_CERNLIB_EVENT names no program of CERNLIB, and cernlib-event is not on the PATH"
    assert made.content["left_out"] == {"cernlib": lacking}
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    made, written = event.run(tmp_path / "with", names=names, events=500, rounds=1)
    assert not made.content["left_out"]
    (reading,) = (table for table in json.loads(written["json"].read_text())["tables"] if table["title"] == "Reading")
    assert [row[0] for row in reading["rows"]] == names
    # Neither of them fills histograms.
    assert [figure["title"] for figure in made.content["figures"]] == ["Reading", "Writing", "Direct access"]
    (ratios,) = (table["rows"] for table in made.content["tables"] if table["title"] == "Ratios")
    assert [(row[0], row[-1]) for row in ratios if row[0] == "cernlib to zebra"] == [("cernlib to zebra", "1.00 ×")]
    # The variable goes before the PATH.
    monkeypatch.setenv(event.CERNLIB, str(tmp_path / "missing"))
    with pytest.raises(OSError, match="missing"):
        event.run(tmp_path / "missed", names=["cernlib"], events=500, rounds=1)


def test_engines_that_are_not_there_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "missing", lambda name: "h5py is not installed" if name == "hdf5" else None)
    monkeypatch.setattr(event, "compiled", lambda folder, **_: (None, "there is no C++ compiler"))
    monkeypatch.setattr(cold, "drop", lambda path: False)
    monkeypatch.setattr(event._Worker, "do", lambda self, action: {"value": 1.0, "check": 0.0, "bytes": 9})
    made, written = event.run(tmp_path, names=["hdf5", "root", "raw"], events=500, rounds=1)
    assert made.content["left_out"] == {"hdf5": "h5py is not installed", "root": "there is no C++ compiler"}
    assert "h5py is not installed" in written["html"].read_text()
    assert {"few-rounds", "page-cache-not-dropped"} <= {warning["code"] for warning in made.content["warnings"]}
    with pytest.raises(ArgumentError, match="unknown engine 'pickle'"):
        event.run(tmp_path, names=["pickle"])
    with pytest.raises(ArgumentError, match="none of the engines can run: there is no C"):
        event.run(tmp_path / "b", names=["root"])
    bad: list[dict[str, Any]] = [{"split_levels": [0, 100]}, {"streaming": ["backwards"]}]
    for wrong in bad:
        with pytest.raises(ArgumentError, match="split levels from 0 to 99"):
            event.run(tmp_path / "c", **wrong)
    for split in ([], [99]):
        with pytest.raises(ArgumentError, match="needs --split-level 0"):
            event.run(tmp_path / "c", streaming=["object-wise"], split_levels=split)


def test_a_page_of_many_rows_is_printed_on_two_sheets(tmp_path: Path) -> None:
    made = Study("toy", {}, tmp_path)
    made.run([Step("work", "it", "s", lambda: {"value": 1.0})], 1)
    groups = [[f"a measurement with a long name, number {place}", {"it": [1.0, 1.0, 1.0]}] for place in range(10)]
    figure = {"kind": "bars", "title": "Time", "engines": ["it"], "unit": "s", "label": "Time [s]", "groups": groups}
    rows = [[f"case {place}", "1.00 s", "2.00 s"] for place in range(40)]
    table = {"title": "Rates", "head": ["Case", "a", "b"], "rows": rows, "caption": "A word. " * 40, "printed": True}
    tables = [{**table, "title": f"Rates, part {place}"} for place in range(3)]
    findings = [f"Finding {place}: {'of several words ' * 15}." for place in range(8)]
    written = made.finish(tables=tables, figures=[figure] * 6, findings=findings, tiles=[("9 /s", "at most")] * 3)
    page = written["html"].read_text()
    assert re.search(r'<p class="paper">The first \d+ rows; the page on screen has all.</p>', page)
    assert page.count(">case 39<") == 3  # on screen
    assert sheets(written["html"], tmp_path) == 2


def test_paper_has_as_many_tables_as_fit_and_the_marked_ones_first(tmp_path: Path) -> None:
    made = Study("toy", {}, tmp_path)
    made.run([Step("work", "it", "s", lambda: {"value": 1.0})], 1)

    def table(name: str, rows: int, **more: bool) -> dict[str, Any]:
        return {"title": name, "head": ["Case", "a"], "rows": [[f"case {n}", "1 s"] for n in range(rows)], **more}

    tables = [table("first", 5), table("small", 5), table("large", 90), table("marked", 5, printed=True)]
    written = made.finish(tables=tables, figures=[], findings=["It is so."])
    page = written["html"].read_text()
    assert [re.search(f"<section class='(minor)?'><h2>{one}", page)[1] for one in ("first", "small", "marked")] == [
        None, None, None,
    ]  # fmt: skip
    many = [table(f"table {place}", 30) for place in range(9)]
    page = made.finish(tables=[*many, tables[3]], figures=[], findings=["It is so."])["html"].read_text()
    shown = re.findall(r"<section class=''><h2>(table \d|marked)", page)
    assert shown[0] == "table 0" and shown[-1] == "marked" and 2 < len(shown) < 6
    assert sheets(written["html"], tmp_path) == 2


def test_numbers_of_a_page_are_not_parted(tmp_path: Path) -> None:
    made = Study("toy", {}, tmp_path)
    page = made.finish(tables=[], figures=[], findings=[f"{count_text(12345)} events"])["html"].read_text()
    assert "12\u202f345 events" in page and "\u2009" not in page


def test_split_levels_and_codecs_in_one_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def do(self: event._Worker, action: str) -> dict[str, Any]:
        size = 900 if "uncompressed" in self.name else 300
        seconds = {"create": 1.0, "write": 2.0, "read": 3.0 - size / 1000}.get(action, 0.5)
        return {"value": seconds, "check": 0.0, "bytes": size + ("split 99" in self.name)}

    monkeypatch.setattr(engines, "missing", lambda name: None)
    monkeypatch.setattr(cold, "drop", lambda path: True)
    monkeypatch.setattr(event._Worker, "do", do)
    monkeypatch.setattr(event.math, "isclose", lambda *_, **__: True)
    words: Any = {"codecs": ["none", "zstd:5"], "split_levels": [0, 99], "rounds": 1}
    made, _ = event.run(tmp_path, names=["sapwood", "zebra", "raw"], events=500, **words)
    # Settings do not change plain bytes. ZEBRA has no objects to split.
    assert len({m["engine"] for m in made.content["measurements"]}) == 5
    assert list(made.content["left_out"]) == ["zebra"]
    # Each bar has a name of its own: its group, and the colour of its engine.
    reading = made.content["figures"][0]
    settings = [f"{codec}, split {split}" for split in (0, 99) for codec in ("uncompressed", "zstd:5")]
    assert [label for label, _ in reading["groups"]][:5] == [
        *(f"read sequentially: {one}" for one in settings), "read sequentially",
    ]  # fmt: skip
    assert reading["engines"] == ["sapwood", "raw"] and list(reading["groups"][4][1]) == ["raw"]
    assert not any("settings of raw" in finding for finding in made.content["findings"])
    table = made.content["tables"][0]
    assert (table["title"], table["head"]) == ("sapwood: split level and codec", ["Split", "uncompressed", "zstd:5"])
    assert [row[0] for row in table["rows"]] == ["0", "99"]
    assert table["rows"][1] == ["99", "2.10 s; 2.00 s; 901 B", "2.70 s; 2.00 s; 301 B"]
    assert made.content["headline"].startswith("Measured once: sapwood, uncompressed, split 0 reads 500 events")
    best = made.content["findings"][1]
    assert "uncompressed, split 0 reads quickest" in best and "zstd:5, split 0 has the smallest file" in best
    # Only objects in one branch can be written object by object.
    words = {"codecs": ["none"], "split_levels": [0, 99], "streaming": ["member-wise", "object-wise"], "rounds": 1}
    made, _ = event.run(tmp_path / "streamed", names=["sapwood"], events=500, **words)
    assert [row[0] for row in made.content["tables"][0]["rows"]] == ["0", "0, object-wise", "99"]


def test_one_name_for_one_thing_in_all_studies() -> None:
    actions: dict[str, dict[str, argparse.Action]] = {}
    for name, module in COMMANDS.items():
        own = argparse.ArgumentParser()
        module.add_arguments(own)
        actions[name] = {word: one for one in own._actions for word in one.option_strings if one.help != "==SUPPRESS=="}
    metavars: dict[str, set[Any]] = {}
    for options in actions.values():
        for word, one in options.items():
            if word.startswith("--") and word not in ("--output", "--label", "--engine"):
                metavars.setdefault(word, set()).add(one.metavar)
    assert [word for word, found in metavars.items() if len(found) > 1] == []
    kinds = {word: {type(one) for o in actions.values() if (one := o.get(word))} for word in metavars}
    assert [word for word, found in kinds.items() if len(found) > 1] == []
    every = {"--output", "--quiet", "--json", "--csv", "--label"}
    judged, measuring = {"--fail-on-warning"}, {"--quick", "--rounds", "--fresh", "--budget", "--reference"}
    for name, options in actions.items():
        wanted: set[str] = set() if name == "export" else set(every)
        wanted |= judged if name not in ("export", "monitor") else set()
        wanted |= measuring if name in ("event", "sweep", "machine", "site") else set()
        assert wanted <= set(options), name
        assert "-o" in options
    shared = {"--compression": "event sweep site", "--split-level": "event sweep", "--folder": "site machine"}
    assert all(word in actions[name] for word, names in shared.items() for name in names.split())


def test_findings_name_what_is_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = iter([1.0, 5.0, 3.0, 9.0, 1.0, 3.0] * 2)

    def do(self: event._Worker, action: str) -> dict[str, Any]:
        seconds = {"create": 1.0, "write": 3.0 if self.name == "sapwood" else 6.0, "fill": 2.0}.get(action)
        if action == "random":
            seconds = 1.2 if self.name == "sapwood" else 0.5
        return {"value": next(reads) if seconds is None else seconds, "check": 0.0, "bytes": 9}

    monkeypatch.setattr(engines, "missing", lambda name: None)
    monkeypatch.setattr(cold, "drop", lambda path: True)
    monkeypatch.setattr(event._Worker, "do", do)
    monkeypatch.setattr(event.math, "isclose", lambda *_, **__: True)
    made, _ = event.run(tmp_path, names=["sapwood", "uproot"], events=500, threads=2)
    told, rival = made.content["findings"][1:3]
    assert "; of the others uproot reads quickest, in " in made.content["headline"]
    assert told == "sapwood worked on 2 threads, the others on one."
    slow = "for 100 entries at random, for 100 entries at random, cold"
    assert rival == f"sapwood is slower than uproot {slow}, in each round."
    ((name, write, read, _, *random, size),) = next(t["rows"] for t in made.content["tables"] if t["title"] == "Ratios")
    assert (name, write, size) == ("uproot to sapwood", "2.50 ×", "1.00 ×")
    assert read.endswith(" by the round)") and random == ["0.42 ×", "0.42 ×"]
    tables = {table["title"]: [row[0] for row in table["rows"]] for table in made.content["tables"]}
    assert tables["Writing"] == tables["Reading"] == ["sapwood, 2 threads", "uproot"]
    if importlib.util.find_spec("boost_histogram"):
        assert tables["Filling"] == ["boost-histogram"]


@pytest.mark.usefixtures("fresh_starts")
@pytest.mark.parametrize("what", ["event", "simple", "train", "sweep"])
def test_nothing_is_imported_while_it_is_measured(what: str, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["T"] = {"x": range(100), "y": [[1.0], []] * 50}
    code = f"""
import importlib, sys
from pathlib import Path
from sapwood.lab.children import engines, job
from sapwood.lab.studies import sweep
what, folder = {what!r}, Path({str(tmp_path)!r})
own = {{"event": engines.Sapwood.imports, "sweep": (*job.IMPORTED, "sapwood.writing.file")}}
more = ("sapwood.train.execution.job",) * (what == "train")
for name in (*own.get(what, job.ENGINES["sapwood"][1]), *more):
    importlib.import_module(name)
before = set(sys.modules)
if what == "event":
    engine = engines.Sapwood()
    engine.write(folder / "b.root", 500, engines.Settings("zstd:1"))
    engines.sum_of(engine.read(folder / "b.root")), engines.sum_of(engine.random(folder / "b.root", [3]))
elif what == "sweep":
    one = sweep._CellRun(sweep.Cell("zstd:1", "1 MB", "32 kB"), str(folder / "a.root"), "T", 100, str(folder), 0)
    words = sweep.json.dumps(sweep.dataclasses.asdict(one))
    sweep.main(["write", words]), sweep.main(["read", words])
else:
    spec = {{"train": what == "train", "tasks": [0, 1], "files": [str(folder / "a.root")], "tree": "T"}}
    job.sapwood_job({{**spec, "branches": None, "read_ahead": None, "prior": False}}, job._Took())
print("new:", *(name for name in sorted(set(sys.modules) - before) if name.startswith(("sapwood", "numpy", "awkward"))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "new:", done.stdout


def test_writing_that_noise_hides_has_no_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def do(self: event._Worker, action: str) -> dict[str, Any]:
        return {"value": {"create": 1.0, "write": 0.9 if self.name == "raw" else 3.0}.get(action, 2.0), "bytes": 9}

    monkeypatch.setattr(engines, "missing", lambda name: None)
    monkeypatch.setattr(cold, "drop", lambda path: True)
    monkeypatch.setattr(event._Worker, "do", lambda self, action: {"check": 0.0, **do(self, action)})
    monkeypatch.setattr(event.math, "isclose", lambda *_, **__: True)
    made, _ = event.run(tmp_path, names=["sapwood", "raw"], events=500)
    rows = {row[0]: row[4:6] for row in made.content["tables"][0]["rows"]}
    assert rows["raw"] == ["–", "–"] and rows["sapwood"][0] == "2.00 s"
    values = {(m["what"], m["engine"]): m for m in made.content["measurements"]}
    values[event.WRITE, "sapwood"]["values"][1] = 0.5
    workers = [event._Worker(name, [], tmp_path, [], 1) for name in ("sapwood", "uproot")]
    made.content["measurements"] += [{**m, "engine": "uproot"} for m in made.content["measurements"][:6]]
    assert event._ratio(made, event.WRITE, "sapwood", "uproot") is None
    assert event._ratio(made, event.READ, "sapwood", "uproot") == (1.0, [1.0] * 3)
    assert event._findings(made, workers, 1) == []


def test_an_engine_that_reads_wrong_ends_the_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "drop", lambda path: True)
    monkeypatch.setattr(event._Worker, "do", lambda self, action: {"value": 1.0, "check": 1.0, "bytes": 9})
    with pytest.raises(SapwoodError, match="other values than were written"):
        event.run(tmp_path, names=["sapwood"], events=500, rounds=1)


def test_dropping_the_page_cache(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(4_000_000))
    if not cold.drop(path):
        pytest.skip("this file system keeps its pages, or cannot tell")
    path.read_bytes()
    with path.open("rb") as file:
        pages = cold._pages(file.fileno())
        assert pages is not None and sum(pages) > len(pages) / 2
        assert not cold._waits(file.fileno())
        # Fast storage may answer a read that does not wait: then the file is dropped again.
        waits = False
        for _ in range(10):
            assert cold.drop(path)
            assert not any(cold._pages(file.fileno()) or b"")  # looking has brought none back
            waits = waits or cold._waits(file.fileno())
        assert waits


def test_file_systems_of_servers_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my data" / "deep").mkdir(parents=True)
    spaced = str(tmp_path / "my data").replace(" ", "\\040")
    mounts = tmp_path / "mounts"
    line = "36 35 98:0 / {} rw,noatime master:1 - {} source rw\n"
    for kind, served in (("nfs4", True), ("lustre", True), ("fuse.cvmfs2", True), ("ext4", False), ("fuseblk", False)):
        mounts.write_text(line.format("/", "nfs") + line.format(spaced, kind))
        assert cold.served(tmp_path / "my data" / "deep", mounts) == (kind if served else None)
        assert cold.served(tmp_path, mounts)
    mounts.write_text(line.format("/", "ext4") + line.format("/", "nfs"))
    assert cold.served(tmp_path, mounts) and not cold.served(tmp_path, tmp_path / "none")
    monkeypatch.setattr(cold, "served", lambda folder: "nfs")
    monkeypatch.setattr(cold, "drop", lambda path: True)
    assert cold.forget([tmp_path / "a"]) == ["server-cache"] and cold.forget([]) == []


def test_what_refuses_to_forget_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    (tmp_path / "f").write_bytes(bytes(100))
    monkeypatch.setattr(cold.os, "fsync", refuse)
    assert not cold.drop(tmp_path / "f") and "page-cache-not-dropped" in cold.forget([tmp_path / "f"])


@pytest.mark.oracle
@pytest.mark.usefixtures("rootsys")
@pytest.mark.parametrize("how", SETTINGS)
def test_lab_event_with_root(how: str, tmp_path: Path) -> None:
    settings = SETTINGS[how]
    program, reason = event.compiled(tmp_path, dictionary=None if settings.split is None else event.TRACKS)
    assert program is not None, reason
    words = ["600", *event.root_words(settings)]
    worker = event._Worker("root", [str(program)], tmp_path / "root.root", words, 1)
    assert worker.do("create")["check"] == worker.do("write")["check"] == engines.Chunk(0, 600).offsets[-1]
    assert worker.do("read")["check"] == pytest.approx(engines.expected(600))
    assert worker.do("random")["check"] == pytest.approx(engines.expected(600, engines.entries_at_random(600)))
    assert worker.do("fill")["check"] == 600 * engines.Chunk(0, 1).offsets[-1]
    engines.Sapwood().verify(tmp_path / "root.root", 600)  # the events of both are the same
    engines.Sapwood().write(tmp_path / "ours.root", 600, settings)
    assert event._Worker("root", [str(program)], tmp_path / "ours.root", words, 1).do("verify")["check"] > 0
    damaged = event._Worker("root", [str(program)], tmp_path / "ours.root", ["601", *words[1:]], 1)
    with pytest.raises(SapwoodError, match="differs from what was written"):
        damaged.do("verify")
