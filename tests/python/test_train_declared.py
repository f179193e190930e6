"""Declared results of trains: histograms, sums, cut flows and variations without a `process`."""

from __future__ import annotations

import ast
import pickle
import time
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
from sapwood import train
from sapwood.errors import ArgumentError, SapwoodWarning
from sapwood.train import CutFlow, Declared, Hist, NMinusOne, Total


@pytest.fixture(scope="module")
def events() -> dict[str, Any]:
    random = np.random.default_rng(3)
    counts = random.poisson(2.0, 6_000)
    return {
        "met": random.exponential(30, 6_000).astype(np.float32),
        "w": random.uniform(0.5, 1.5, 6_000),
        "pt": ak.unflatten(random.exponential(40, int(counts.sum())).astype(np.float32), counts),
        "eta": ak.unflatten(random.normal(0, 2, int(counts.sum())), counts),
    }


@pytest.fixture(scope="module")
def file(events: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("declared") / "events.root"
    with sapwood.recreate(path) as target:
        tree = target.mktree("Events", {name: array[:0] for name, array in events.items()}, auto_flush=1_000)
        tree.extend(events)
    return path


AXIS = hist.axis.Regular(20, 0, 100)


class Python(train.Task):
    """The same in Python."""

    branches = ["met"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"met": hist.Hist(AXIS).fill(events.met)}


def declared() -> Declared:
    return Declared(
        {
            "met": Hist("met", AXIS, where="sum(pt > 30) >= 1"),
            "weighted": Hist("pt", AXIS, where="good", weight=["w", "2.0"]),
            "plane": Hist(["met", "count(pt)"], [AXIS, hist.axis.Integer(0, 6)]),
            "profile": Hist("met", AXIS, sample="sum(pt)"),
            "log": Hist("met", hist.axis.Regular(5, 1, 100, transform=hist.axis.transform.log)),
            "events": Total(),
            "energy": Total("met", "met > 10"),
            "flow": CutFlow({"jets": "count(pt) >= 2", "met": "met > 20"}),
            "n-1": NMinusOne(
                {"met": "met > 20", "jets": "count(pt) >= 2"},
                {"met": Hist("met", AXIS), "jets": Hist("count(pt)", hist.axis.Integer(0, 9))},
            ),
        },
        name="declared",
        aliases={"good": "abs(eta) < 1.5"},
        vary={"up": {"pt": "pt * 1.1"}, "wide": {"good": "abs(eta) < 2.5"}},
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_declared_results_are_filled_beside_a_task_of_python(file: Path, events: dict[str, Any], threads: int) -> None:
    outcome = train.run([declared(), Python()], str(file), threads=threads, step_size=1_500)
    found: Any = outcome["declared"]
    met, pt, eta, w = (events[name] for name in ("met", "pt", "eta", "w"))
    assert outcome["python"]["met"] == hist.Hist(AXIS).fill(met)
    for name, scale in [("nominal", 1.0), ("up", 1.1)]:
        varied = pt * scale if name == "up" else pt
        assert found["met"][name] == hist.Hist(AXIS).fill(met[ak.sum(varied > 30, axis=1) >= 1])
    assert set(found["met"]) == {"nominal", "up"}
    assert set(found["weighted"]) == {"nominal", "up", "wide"}
    for name, cut in [("nominal", 1.5), ("wide", 2.5)]:
        good = abs(eta) < cut
        theirs = hist.Hist(AXIS, storage=hist.storage.Weight())
        weights = ak.flatten(ak.broadcast_arrays(w * 2, pt)[0][good])
        theirs.fill(ak.flatten(pt[good]), weight=weights)
        np.testing.assert_allclose(found["weighted"][name].values(flow=True), theirs.values(flow=True), rtol=1e-9)
        np.testing.assert_allclose(found["weighted"][name].variances(flow=True), theirs.variances(flow=True), rtol=1e-9)
    assert (
        found["plane"]["nominal"]
        if isinstance(found["plane"], dict)
        else found["plane"] == hist.Hist(AXIS, hist.axis.Integer(0, 6)).fill(met, ak.num(pt))
    )
    profile = hist.Hist(AXIS, storage=hist.storage.Mean()).fill(met, sample=ak.sum(pt, axis=1))
    mine = found["profile"]["nominal"]
    np.testing.assert_allclose(mine.values(flow=True), profile.values(flow=True), rtol=1e-6)
    np.testing.assert_allclose(mine.variances(flow=True), profile.variances(flow=True), rtol=1e-6)
    assert found["log"] == hist.Hist(hist.axis.Regular(5, 1, 100, transform=hist.axis.transform.log)).fill(met)
    assert found["events"] == 6_000
    assert found["energy"] == pytest.approx(float(np.sum(met[met > 10], dtype=np.float64)))
    jets = ak.to_numpy(ak.num(pt) >= 2)
    flow = {"all": 6_000, "jets": int(jets.sum()), "met": int((jets & (met > 20)).sum())}
    assert {name: one["nominal"] if isinstance(one, dict) else one for name, one in found["flow"].items()} == flow
    one: Any = found["n-1"]["met"]
    one = one["nominal"] if isinstance(one, dict) else one
    assert one == hist.Hist(AXIS).fill(met[jets])


@pytest.mark.parametrize("beside", [False, True])
def test_a_histogram_has_variations_of_its_own(file: Path, events: dict[str, Any], beside: bool) -> None:
    """Filled while the file is read, and beside a task in Python."""
    own = {"up": {"met": "met + 5"}, "down": {"met": "met - 5"}}
    task = Declared(
        {"own": Hist("met", AXIS, vary=own), "met": Hist("met", AXIS), "pt": Hist("pt", AXIS, vary=own)},
        name="declared",
        vary={"up": {"met": "met * 2"}},
    )
    found: Any = train.run([task, *([Python()] if beside else [])], str(file))["declared"]
    met = events["met"]
    assert set(found["own"]) == {"nominal", "up", "down"}
    assert found["own"]["nominal"] == hist.Hist(AXIS).fill(met)
    assert found["own"]["up"] == hist.Hist(AXIS).fill(met + 5)
    assert found["own"]["down"] == hist.Hist(AXIS).fill(met - 5)
    assert set(found["met"]) == {"nominal", "up"}
    assert found["met"]["up"] == hist.Hist(AXIS).fill(met * 2)
    assert isinstance(found["pt"], hist.Hist)


class Columns(train.Task):
    """Asks for columns that the engine makes, and for one that it has not."""

    branches = {"met": "met", "ht": "sum(pt[pt > 30])", "near": "pt[abs(eta) < 1]", "packed": "pack(met, w)"}

    def process(self, events: Any) -> dict[str, Any]:
        return {name: events[name] for name in ("ht", "near", "packed")}


def test_a_task_of_python_gets_columns_of_the_engine_from_the_same_reading(
    file: Path, events: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sapwood.train.task import columns

    made: list[bool] = []
    by_engine = columns.exact_column

    def noted(*given: Any) -> Any:
        found = by_engine(*given)
        made.append(found is not None)
        return found

    monkeypatch.setattr(columns, "exact_column", noted)
    declared = Declared({"ht": Hist("sum(pt[pt > 30])", AXIS)}, name="declared")
    outcome = train.run([Columns(), declared], str(file), threads=2, step_size=6_000)
    assert sorted(made) == [False, True, True]
    found: Any = outcome["columns"]
    pt, eta = events["pt"], events["eta"]
    wanted = {
        "ht": ak.sum(pt[pt > 30], axis=1),
        "near": pt[abs(eta) < 1],
        "packed": columns.pack(events["met"], events["w"]),
    }
    for name, theirs in wanted.items():
        assert found[name].type == theirs.type
        assert ak.array_equal(found[name], theirs)
    assert outcome["declared"]["ht"] == hist.Hist(AXIS).fill(wanted["ht"])
    # The columns of both tasks are read once.
    assert [one.steps for one in outcome.files] == [1]


def test_each_text_is_understood_once_and_each_axis_asked_once(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty histograms in twenty variations cost what their thirty texts and axes cost."""
    from sapwood.train.account import record
    from sapwood.train.task import results

    calls = dict.fromkeys(["parse", "axis_of", "version"], 0)

    def counted(name: str, work: Any) -> Any:
        def call(*given: Any, **options: Any) -> Any:
            calls[name] += 1
            return work(*given, **options)

        return call

    monkeypatch.setattr(ast, "parse", counted("parse", ast.parse))
    monkeypatch.setattr(results, "axis_of", counted("axis_of", results.axis_of))
    monkeypatch.setattr(record.importlib.metadata, "version", counted("version", record.importlib.metadata.version))
    vary = {f"v{place}": {"pt": f"pt * {1 + place / 1000}"} for place in range(20)}
    every = {f"h{place}": Hist(f"sum(pt) + {place}", AXIS, where=f"met > {place}") for place in range(30)}
    for _ in range(2):
        found: Any = train.run([Declared(every, name="all", vary=vary)], str(file))["all"]
    assert len(found["h7"]) == 21
    assert calls["axis_of"] == 60
    assert calls["version"] <= 4
    # Each text for its names, and for the engine: in all variations the same.
    assert calls["parse"] <= 2 * 2 * (30 + 30 + 20)


def test_a_declared_task_is_sent_and_names_what_is_wrong(file: Path) -> None:
    sent = pickle.loads(pickle.dumps(declared()))
    assert train.run([sent], str(file))["declared"]["events"] == 6_000
    with pytest.raises(sapwood.SapwoodError, match=r"nothing"):
        train.run([Declared({"x": Hist("met + nothing", AXIS)})], str(file))
    with pytest.raises(sapwood.SapwoodError, match=r"\^"):
        train.run([Declared({"x": Hist("sum(met)", AXIS)})], str(file))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_declared_task_that_is_alone_fills_while_the_file_is_read(
    file: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = {"met": Hist("met", AXIS, where="sum(jet) > 50"), "jets": Hist("jet", AXIS), "n": Total(where="met > 20")}
    task = Declared(axes, name="alone", branches={"met": "met", "jet": "pt"}, vary={"up": {"jet": "jet * 1.1"}})
    beside = train.run([task, Python()], str(file), threads=threads, step_size=1_500)

    def process(self: Declared, events: Any) -> Any:
        raise AssertionError("columns came to Python")

    monkeypatch.setattr(Declared, "process", process)
    alone = train.run([task], str(file), threads=threads, step_size=1_500)
    assert alone["alone"] == beside["alone"]
    assert alone["alone"]["jets"]["up"].sum(flow=True) > 10_000
    assert alone["alone"]["n"] > 2_000


def test_a_declared_task_that_is_alone_says_where_an_expression_is_wrong(file: Path) -> None:
    with pytest.raises(sapwood.SapwoodError, match=r"\n    pt \+ combinations\(pt, 2\)\['0'\]\n    \^\n"):
        train.run([Declared({"x": Hist("pt + combinations(pt, 2)['0']", AXIS)})], str(file))
    log = hist.axis.Regular(5, 1, 100, transform=hist.axis.transform.log)
    found: Any = train.run([Declared({"x": Hist("met", log), "y": Hist("met", AXIS)}, name="d")], str(file))["d"]
    assert found["x"].sum(flow=True) == found["y"].sum(flow=True) == 6_000


@pytest.mark.parametrize("task", [Python, lambda: Declared({"met": Hist("met", AXIS)}, name="declared")])
def test_a_second_thread_adds_little_work_to_a_short_run(task: Any, tmp_path: Path) -> None:
    """Processor time, which other programs disturb less than that of the clock."""
    with sapwood.recreate(tmp_path / "short.root") as target:
        met = np.random.default_rng(4).exponential(30, 600_000).astype(np.float32)
        tree = target.mktree("Events", {"met": met[:0]}, auto_flush=100_000)
        tree.extend({"met": met})
    least = {1: float("inf"), 2: float("inf")}
    for _ in range(6):
        for threads in (1, 2):
            begun = time.process_time()
            train.run([task()], str(tmp_path / "short.root"), threads=threads)
            least[threads] = min(least[threads], time.process_time() - begun)
    assert least[2] < 1.5 * least[1] + 0.002, least


@pytest.mark.parametrize(
    ("results", "options", "message"),
    [
        ({"h": Hist("pt", AXIS)}, {"vary": {"nominal": {"pt": "pt * 2"}}}, "cannot be named 'nominal'"),
        ({"h": Hist("pt", AXIS, vary={"nominal": {"pt": "pt * 2"}})}, {}, "cannot be named 'nominal'"),
        ({"flow": CutFlow({"all": "met > 5", "hard": "met > 50"})}, {}, "a cut cannot be named 'all'"),
        ({"n": NMinusOne({"met": "met > 5"}, {"mett": Hist("met", AXIS)})}, {}, "'mett' is not named after a cut"),
        ({"h": "met"}, {}, "the result 'h' is not a Hist, Total, CutFlow or NMinusOne"),
        ({"h": Hist("met", AXIS, weight=2.5)}, {}, "2.5 is not an expression"),
    ],
)
def test_what_would_give_wrong_results_is_refused(results: Any, options: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Declared(results, name="declared", **options)


@pytest.mark.parametrize(
    "text",
    [
        "~" * 3_000 + "met", "-" * 100_000 + "1", "+".join(["met"] * 3_000), "\ud800", "a\0b", "(" * 300, "met >", "",
        "lambda: met", "nothing(met)",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["expression", "where", "alias", "variation", "cut"])
def test_texts_that_are_no_expressions_are_errors(file: Path, text: str, place: str) -> None:
    met = Hist("met", AXIS)
    with pytest.raises(sapwood.SapwoodError):
        match place:
            case "expression":
                task = Declared({"h": Hist(text, AXIS)})
            case "where":
                task = Declared({"h": met}, where=[text])
            case "alias":
                task = Declared({"h": Hist("given", AXIS)}, aliases={"given": text})
            case "variation":
                task = Declared({"h": met}, vary={"up": {"met": text}})
            case _:
                task = Declared({"h": CutFlow([text])})
        train.run([task], str(file), threads=1)


@pytest.mark.parametrize(
    "text", ["(met > 20) && (w > 1)", "np.sqrt(met) > 5", "get('met') > 20", "ak.sum(pt, axis=1) > 50"]
)
def test_declared_results_take_the_language_of_expressions(file: Path, text: str) -> None:
    found: Any = train.run([Declared({"h": Hist("met", AXIS, where=text)}, name="declared")], str(file))["declared"][
        "h"
    ]
    with sapwood.open(f"{file}:Events") as table:
        assert found == table.hist("met", AXIS, where=text)
    assert 100 < found.sum(flow=True) < 6_000


def test_a_variation_of_a_column_that_nothing_uses_is_named() -> None:
    with pytest.warns(SapwoodWarning, match="variation 'up' changes 'ptt', which no result uses; near it: pt"):
        Declared({"h": Hist("pt", AXIS)}, vary={"up": {"ptt": "pt * 2"}})


def test_an_alias_with_the_name_of_the_column_in_it_is_an_error(file: Path) -> None:
    task = Declared({"h": Hist("pt", AXIS)}, name="declared", aliases={"pt": "pt * 2"})
    with pytest.raises(train.TaskError, match="the alias 'pt' is defined by itself: pt → pt"):
        train.run([task], str(file), threads=1)


def test_a_variation_may_use_the_alias_that_it_changes(file: Path, events: dict[str, Any]) -> None:
    task = Declared(
        {"h": Hist("x", AXIS)},
        name="declared",
        aliases={"x": "y + 1", "y": "pt * 2"},
        vary={"up": {"y": "x * 3"}, "own": {"x": "x * 2"}},
    )
    found: Any = train.run([task], str(file), threads=1)["declared"]["h"]
    x = ak.flatten(events["pt"] * 2 + 1)
    assert found["nominal"] == hist.Hist(AXIS).fill(x)
    assert found["up"] == hist.Hist(AXIS).fill(x * 3 + 1)
    assert found["own"] == hist.Hist(AXIS).fill(x * 2)


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("cut", ["pt > 30", "pt[pt > 30] > 3"])
def test_events_are_not_counted_by_the_items_of_their_lists(file: Path, cut: str, beside: bool) -> None:
    for result in (CutFlow({"hard": cut}), Total(where=cut), Total(weight="pt"), CutFlow([], weight="pt")):
        task = Declared({"n": result}, name="declared")
        if beside:  # the other task continues
            failure = str(train.run([task, Python()], str(file), threads=1).account()["tasks"])
        else:
            with pytest.raises(train.TaskError) as raised:
                train.run([task], str(file), threads=1)
            failure = str(raised.value)
        assert "requires cuts and weights without lists" in failure
        assert "has lists" in failure


@pytest.mark.parametrize("beside", [False, True])
def test_a_variation_that_makes_lists_of_a_cut_of_events_is_refused(file: Path, beside: bool) -> None:
    for result in (CutFlow({"hard": "met > 30"}), Total(weight="met")):
        task = Declared({"n": result}, name="declared", vary={"by_items": {"met": "pt"}})
        tasks = [task, Python()] if beside else [task]
        if beside:
            failure = str(train.run(tasks, str(file), threads=1).account()["tasks"])
        else:
            with pytest.raises(train.TaskError) as raised:
                train.run(tasks, str(file), threads=1)
            failure = str(raised.value)
        assert "requires cuts and weights without lists" in failure
        assert "has lists" in failure
