"""Kinds of tasks: with and without declared branches, with cuts, entry by entry, compiled."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import awkward as ak
import boost_histogram as bh
import hist
import muons
import numpy as np
import pytest
from muons import ENTRIES, FILES

from sapwood import train

folder, whole = muons.folder, muons.whole


class Undeclared(train.Task):
    """Does not say what it reads."""

    def process(self, events: Any) -> dict[str, Any]:
        hard = events[ak.any(events.Muon_pt > 50, axis=1)]
        return {"n": len(hard), "eta": float(ak.sum(hard.Muon_eta))}


class Declared(Undeclared):
    """The same, saying so."""

    branches = ["Muon_pt", "Muon_eta"]


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_undeclared_branches_are_found(folder: Path, executor: str) -> None:
    outcome = train.run([Undeclared(), Declared()], folder, executor=executor, threads=1, step_size=100)
    assert outcome["undeclared"] == outcome["declared"]
    assert set(outcome.tasks[0].columns) == {"Muon_pt", "Muon_eta"}
    alone = train.run(Undeclared(), folder, executor=executor, threads=1, step_size=100)
    declared = train.run(Declared(), folder, executor=executor, threads=1, step_size=100)
    # What it uses was found on the first entries, and is read as if it had been declared.
    assert alone.counters["baskets"] <= declared.counters["baskets"] + 10


def test_titles_are_those_of_the_users_class() -> None:
    from sapwood.train.task.tasks import task_title

    class Untitled(Declared):
        branches = ["Muon_pt"]

    class Wrapped:
        """What the user wrote.

        And more.
        """

        def process(self, events: Any) -> Any:
            return events

    assert task_title(Declared()) == "The same, saying so"
    assert task_title(Untitled()) == ""
    assert task_title(train.Processor(Wrapped())) == "What the user wrote"
    assert task_title(train.Streams({"few": (train.Output("few.root"), None, ["Muon_pt"])})) == ""


class Refills(train.Task):
    """Returns what it has made once, and fills on."""

    branches = ["event"]

    def __init__(self, name: str, made: Any, fill: Any, result: Any = None) -> None:
        self.name, self.made, self._fill = name, made, fill  # pyright: ignore[reportAttributeAccessIssue]
        self._result = result if result is not None else lambda made: {"r": made}

    def process(self, events: Any) -> Any:
        self._fill(self.made, len(events))
        return self._result(self.made)


def _fill_first(made: Any, number: int) -> None:
    made[0] += number


def _append(made: Any, number: int) -> None:
    made.append(number)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_what_is_filled_on_from_step_to_step_is_an_error(folder: Path, executor: str, ordered: bool) -> None:
    def fill(made: Any, number: int) -> None:
        made.fill(np.zeros(number))

    def add(made: Any, number: int) -> None:
        made.array[0] += number

    def count(made: Any, number: int) -> None:
        made["n"] += number

    tasks = [
        Refills("hist", hist.Hist.new.Reg(2, 0, 1).Double(), fill),
        Refills("boost", bh.Histogram(bh.axis.Regular(2, 0, 1)), fill),
        Refills("view", bh.Histogram(bh.axis.Regular(2, 0, 1)), fill, lambda made: {"r": train.Sum(made.view())}),
        Refills("sum", train.Sum(np.zeros(3)), add),
        Refills("array_of_sum", np.zeros(3), _fill_first, lambda made: {"r": {"s": train.Sum(made)}}),
        Refills("part", np.zeros(3), _fill_first, lambda made: {"r": made[:2]}),
        Refills("list", [], _append),
        Refills("dictionary", {"n": 0}, count, lambda made: made),
        Refills("two_names", None, lambda *_: None, lambda _: dict.fromkeys("ab", hist.Hist.new.Reg(2, 0, 1).Double())),
        Declared(),
    ]
    outcome = train.run(tasks, folder, executor=executor, threads=1, ordered=ordered, step_size=100)
    for task in outcome.tasks[:-1]:
        assert "was returned before" in task.failure, task.name
    assert outcome.tasks[-1].failure == ""


def test_what_does_not_change_may_be_returned_again(folder: Path) -> None:
    fixed = np.ones(2)
    fixed.flags.writeable = False
    constants = {"n": 100_000, "x": 0.5, "word": "GeV", "set": frozenset([1]), "none": None, "sum": train.Sum(fixed),
                 "ratio": Fraction(1, 3), "empty": [], "scalar": np.float64(2.5)}  # fmt: skip
    same = Refills("same", constants, lambda *_: None, lambda made: made)
    outcome = train.run(same, folder, threads=2, step_size=100)
    steps = outcome.steps
    assert outcome["same"]["n"] == 100_000 * steps and outcome["same"]["ratio"] == Fraction(steps, 3)
    assert outcome["same"]["sum"].tolist() == [steps, steps] and outcome["same"]["word"] == "GeV"


class Late(train.Task):
    """Looks at a branch only where tracing does not come."""

    def process(self, events: Any) -> dict[str, Any]:
        late = float(ak.sum(events.Muon_phi)) if events.event[0] >= 1000 else 0.0
        return {"n": len(events), "phi": late}


def test_branches_that_are_looked_at_late_are_read_then(folder: Path, whole: ak.Array) -> None:
    outcome = train.run(Late(), folder, step_size=100)
    assert outcome["late"]["phi"] == pytest.approx(
        float(ak.sum(ak.values_astype(whole.Muon_phi[1000:], "f8"))), rel=1e-5
    )
    assert set(outcome.tasks[0].columns) == {"event", "Muon_phi"}
    late, both = train.run([Late(), Phi()], folder, step_size=100).tasks  # it is there already
    assert set(late.columns) == {"event", "Muon_phi"} and both.columns_alone == ()


class Phi(train.Task):
    """Declares that branch."""

    branches = ["Muon_phi"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events.Muon_phi)}


class Cut(train.Task):
    """Sees only what passes."""

    branches = ["event"]
    cut = "nMuon >= 2"

    def process(self, events: Any) -> dict[str, Any]:
        return {"events": np.asarray(events.event)}


def test_cuts(folder: Path, whole: ak.Array) -> None:
    outcome = train.run(Cut(), folder, step_size=70)
    assert outcome["cut"]["events"].tolist() == whole.event[ak.num(whole.Muon_pt) >= 2].to_list()
    assert outcome.entries == FILES * ENTRIES

    class Lists(Cut):
        cut = "Muon_pt > 3"

    with pytest.raises(train.TaskError, match="does not give one value per entry"):
        train.run(Lists(), folder)


class PerEntry(train.EntryTask):
    """One entry after the other."""

    branches = {"muon.pt": "Muon_pt", "muon.charge": "Muon_charge", "event": "event"}

    def start(self) -> dict[str, Any]:
        return {"pairs": 0, "hardest": 0.0, "seen": []}

    def each(self, event: Any, results: dict[str, Any]) -> None:
        for place, first in enumerate(event.muon):
            for second in event.muon[place + 1 :]:
                results["pairs"] += first.charge != second.charge
        if event.event % 500 == 0:
            results["seen"].append(event.event)
        results["hardest"] += max((muon.pt for muon in event.muon), default=0.0)


def test_tasks_that_go_entry_by_entry(folder: Path, whole: ak.Array) -> None:
    found = train.run(PerEntry(), folder, step_size=70)["per_entry"]
    first, second = ak.unzip(ak.combinations(whole.Muon_charge, 2))
    assert found["pairs"] == ak.sum(first != second)
    assert found["seen"] == [0, 500, 1000, 1500]
    assert found["hardest"] == pytest.approx(float(ak.sum(ak.fill_none(ak.max(whole.Muon_pt, axis=1), 0))), rel=1e-4)


class Native(train.NativeTask):
    """A compiled loop."""

    branches = ["Muon_pt", "Muon_charge"]

    def start(self) -> dict[str, Any]:
        return {"spectrum": np.zeros(20), "charge": np.zeros(1, "i8")}

    @staticmethod
    def kernel(events: Any, spectrum: Any, charge: Any) -> None:
        for event in events:
            for place in range(len(event.Muon_pt)):
                spectrum[min(int(event.Muon_pt[place] / 10), 19)] += 1
                charge[0] += event.Muon_charge[place]


def test_native_tasks(folder: Path, whole: ak.Array) -> None:
    pytest.importorskip("numba", reason="needs Numba (pip install --group test)")
    found = train.run(Native(), folder, step_size=100)["native"]
    expected = np.bincount(np.minimum((np.asarray(ak.flatten(whole.Muon_pt)) / 10).astype(int), 19), minlength=20)
    assert found["spectrum"].tolist() == expected.tolist()
    assert found["charge"][0] == ak.sum(whole.Muon_charge)


class Plain(train.NativeTask):
    """A compiled loop over columns."""

    branches = ["event", "Muon_pt"]
    plain = True

    def start(self) -> dict[str, Any]:
        return {"spectrum": np.zeros(20), "hard": np.zeros(1, "i8")}

    @staticmethod
    def kernel(event: Any, pt: Any, spectrum: Any, hard: Any) -> None:
        for place in range(len(event)):
            for item in range(pt.offsets[place], pt.offsets[place + 1]):
                spectrum[min(int(pt.content[item] / 10), 19)] += 1
                hard[0] += event[place] if pt.content[item] > 50 else 0


def test_plain_kernels_take_columns_and_are_compiled_once(folder: Path, whole: ak.Array) -> None:
    pytest.importorskip("numba", reason="needs Numba (pip install --group test)")
    task = Plain()
    found = train.run(task, folder, step_size=100)["plain"]
    expected = np.bincount(np.minimum((np.asarray(ak.flatten(whole.Muon_pt)) / 10).astype(int), 19), minlength=20)
    assert found["spectrum"].tolist() == expected.tolist()
    assert found["hard"][0] == ak.sum(whole.event * ak.sum(whole.Muon_pt > 50, axis=1))
    again = Plain()
    assert train.run(again, folder, step_size=100)["plain"]["spectrum"].tolist() == expected.tolist()
    (signature,) = again._compiled.stats.cache_hits  # pyright: ignore[reportPrivateUsage]
    assert signature in task._compiled.signatures  # pyright: ignore[reportPrivateUsage]


NATIVE = """
import numpy as np
from sapwood.train import NativeTask

class Hard(NativeTask):
    branches = ["event"]
    least = 1000

    def start(self):
        return {"n": np.zeros(1, "i8")}

    def kernel(events, n, least):
        for event in events:
            n[0] += event.event >= least

class Undeclared(NativeTask):
    def start(self):
        return {"n": np.zeros(1, "i8")}

    def kernel(events, n):
        for event in events:
            n[0] += len(event.Muon_pt)
"""


def test_native_tasks_of_files_have_options_and_run_again_elsewhere(
    folder: Path, tmp_path: Path, whole: ak.Array
) -> None:
    pytest.importorskip("numba", reason="needs Numba (pip install --group test)")
    (tmp_path / "native.py").write_text(NATIVE)
    tasks = train.load_tasks(tmp_path / "native.py")
    train.set_options(tasks, ["hard.least=1500"])
    for executor in ("threads", "processes"):
        outcome = train.run(tasks, folder, step_size=250, threads=1, executor=executor)
        found = [int(outcome[name]["n"][0]) for name in ("hard", "undeclared")]
        assert found == [FILES * ENTRIES - 1500, ak.sum(ak.num(whole.Muon_pt))], executor


def test_packages_of_another_environment_are_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where ``PYTHONPATH`` names the packages of a software stack: they are not sent to workers by value."""
    from sapwood.train.execution.pickling import _own_modules
    from sapwood.train.task.tasks import is_foreign

    for folder, name in (("site-packages", "stack_package"), ("mine", "my_module")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.py").write_text("value = 1\n")
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    modules = [import_module("stack_package"), import_module("my_module")]
    _, sent = _own_modules([Declared()])
    assert [module in sent for module in modules] == [False, True]
    assert [is_foreign(str(module.__file__)) for module in modules] == [True, False]
