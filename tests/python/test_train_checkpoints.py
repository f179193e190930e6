"""Checkpoints go on only with the same run; summaries say what part of the input went into a file."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from servers import Server

import sapwood
from sapwood import train
from sapwood.cli import main
from sapwood.errors import ArgumentError, SapwoodError, SapwoodWarning, StorageError
from sapwood.lab.advice.rewriting import Layout, rewrite
from sapwood.pages.output import summary as written_words
from sapwood.pages.output import write
from sapwood.pages.run import render
from sapwood.train import Output, Streams, Task
from sapwood.train.execution.checkpoint import Checkpoint
from sapwood.train.execution.identity import digest, identity_of_task
from sapwood.train.task.outputs import Summary, Writer
from sapwood.train.task.tasks import as_task

FILES, ENTRIES = 4, 1000


def make(path: Path, start: int, entries: int = ENTRIES, **options: Any) -> None:
    with sapwood.recreate(path, **options) as file:
        file.mktree("Events", {"x": np.arange(start, start + entries)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(FILES):
        make(folder / f"a{number}.root", number * ENTRIES)
    return folder


class Counts(Task):
    """Counts."""

    branches = ["x"]

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events), "sum": int(ak.sum(events.x))}


def stopped(task: Any, inputs: Any, state: Path, **options: Any) -> train.Run:
    """Run until the second step, or what was begun by then, and stop with a checkpoint."""
    steps: list[int] = []

    def stop(progress: train.Progress) -> None:
        steps.append(progress.entries)
        if len(steps) == 2:
            raise KeyboardInterrupt

    found = train.run(task, inputs, threads=1, read_ahead=0, checkpoint=state, progress=stop, **options)
    assert found.interrupted and state.exists()
    return found


def test_options_are_not_kept(folder: Path, tmp_path: Path) -> None:
    """Tokens are in them; whoever goes on has others."""
    state = tmp_path / "state"
    for token in ("first-token", "second-token"):
        described = {"name": "a", "files": str(folder), "options": {"headers": {"Authorization": token}}}
        if token == "first-token":
            stopped(Counts(), described, state, step_size=ENTRIES)
            assert b"a0.root" in state.read_bytes()
            assert b"first-token" not in state.read_bytes()
        else:
            run = train.run(Counts(), described, threads=1, checkpoint=state, step_size=ENTRIES)
            assert run.resumed > 0
            assert run["counts"]["n"] == FILES * ENTRIES


def with_cut(cut: str) -> Task:
    task = Counts()
    task.cut = cut
    return task


def stream(cut: str, name: str = "x", path: str = "s.root") -> Streams:
    return Streams({"s": (Output(path), cut, {name: "x"})})


class Helper:
    """Part of a task."""

    def __init__(self, bound: float) -> None:
        self.bound = bound


class Helped(Counts):
    """Keeps what is not plain."""

    name = "counts"

    def __init__(self, bound: float = 1.0, table: int = 0) -> None:
        self._helper = Helper(bound)
        self.table = np.arange(3) + table
        self.function = lambda x: x + bound

    def begin(self) -> None:
        self._made = self.prepared()

    def prepared(self) -> list[float]:
        self.also = object()
        return [self._helper.bound]


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "cut": (lambda: with_cut("x < 100000"), lambda: with_cut("x < 10"), "counts: cut differ"),
    "stream": (
        lambda: stream("x % 2 == 0"),
        lambda: stream("x % 10 == 0"),
        "streams: branches, ",
    ),
    "column": (lambda: stream("x % 2 == 0"), lambda: stream("x % 2 == 0", "y"), "streams: attribute _streams differ"),
    "output": (lambda: stream("x > 0"), lambda: stream("x > 0", path="t.root"), "streams: outputs differ"),
    "object": (Helped, lambda: Helped(2.0), "counts: attribute _helper, task counts: function differ"),
    "array": (Helped, lambda: Helped(table=1), "counts: table differ"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changed_tasks_are_refused(folder: Path, tmp_path: Path, change: str) -> None:
    first, second, message = CHANGES[change]
    state, out = tmp_path / "state", tmp_path / "out"
    before = stopped(first(), folder, state, output=out)
    with pytest.raises(ArgumentError, match=rf"belongs to another run \(task {message}"):
        train.run(second(), folder, checkpoint=state, output=out)
    again = train.run(first(), folder, checkpoint=state, output=out)
    assert again.resumed == before.entries >= 2 * ENTRIES and again.entries == FILES * ENTRIES and again.complete


def test_an_object_that_ran_goes_on(folder: Path, tmp_path: Path) -> None:
    task = Helped()
    stopped(task, folder, tmp_path / "state")
    assert task._made == [1.0]
    assert train.run(task, folder, checkpoint=tmp_path / "state")["counts"]["n"] == FILES * ENTRIES


class ProcessorABC:
    """Stands for that of coffea."""

    __module__ = "coffea.processor"


class Wrapped(ProcessorABC):
    """Has a cut that only its object knows."""

    def __init__(self, cut: float) -> None:
        self.cut = cut

    def process(self, events: Any) -> dict[str, Any]:
        return {}

    def postprocess(self, results: Any) -> Any:
        return results


def test_processors_of_coffea_are_told_apart_by_what_they_hold() -> None:
    assert identity_of_task(as_task(Wrapped(1))) == identity_of_task(as_task(Wrapped(1)))
    assert identity_of_task(as_task(Wrapped(1))) != identity_of_task(as_task(Wrapped(2)))


VALUES = """
import numpy as np, awkward as ak, pathlib, re, hist, functools, threading, enum
class Kind(enum.Enum):
    A = 1
BOUND = 3
def helper(x, by={"a": 1}):
    return x < BOUND and x in {"one", "two", "three"}
class Slots:
    __slots__ = ("a",)
class Own:
    def __init__(self):
        self.lock, self.a, self.me = threading.Lock(), {"x", "y", "z"}, self
    def method(self):
        return [y for y in range(BOUND)]
slots = Slots(); slots.a = 2
VALUES = [None, 1.5, "a", {"b", "c", "d"}, np.arange(3), np.float32(2), ak.Array([[1], []]), pathlib.Path("a"),
    re.compile("a"), hist.Hist.new.Reg(3, 0, 1).Double(), functools.partial(helper, 1), functools.lru_cache(helper),
    helper, Own(), Own, lambda x: helper(x), slots, Own().method, len, Kind.A,
    np.array([1, None], dtype=object), ...]
"""


def test_digests_are_the_same_in_other_processes() -> None:
    program = (
        VALUES + "\nfrom sapwood.train.execution.identity import digest\nprint([digest(value) for value in VALUES])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, text=True, capture_output=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(found) == 1
    names: dict[str, Any] = {"__name__": "made_here"}
    exec(VALUES, names)
    before = [digest(value) for value in names["VALUES"]]
    assert len(set(before)) == len(before)
    names["BOUND"] = 4
    changed = [place for place, value in enumerate(names["VALUES"]) if digest(value) != before[place]]
    assert changed == [10, 11, 12, 13, 14, 15, 17]  # all that depends on it


TASKS = """
import time
from pathlib import Path
from near import CUT, GATE
from sapwood.train import Task
BOUND = 10**9

def chosen(x):
    return (x >= CUT) & (x < BOUND)

class Fill(Task):
    branches = ["x"]
    def process(self, events):
        limit = time.monotonic() + 60
        while events.x[0] >= 2000 and not GATE.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        return {"n": int(chosen(events.x).to_numpy().sum())}
"""


def test_helpers_and_constants_of_task_files_are_part_of_a_run(folder: Path, tmp_path: Path) -> None:
    near, tasks, state = tmp_path / "near.py", tmp_path / "tasks.py", tmp_path / "state"
    beside = f"from pathlib import Path\nGATE = Path({str(tmp_path / 'open')!r})\nCUT = "
    near.write_text(beside + "0\n")
    tasks.write_text(TASKS)
    words = [sys.executable, "-X", "faulthandler", "-m", "sapwood", "run", str(tasks), "-i", str(folder),
             "-o", str(tmp_path / "out"), "-j", "1", "--checkpoint", str(state), "--checkpoint-every", "0",
             "--step-size", "500", "-q"]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(words, env=environment) as first:
        limit = time.monotonic() + 60
        while not state.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL if state.exists() else signal.SIGABRT)  # the latter prints where it is
    kept = tmp_path / "kept"
    shutil.copy(state, kept)
    (tmp_path / "open").touch()
    for file, text in ((tasks, TASKS.replace("10**9", "0")), (near, beside + "5000\n")):
        before = file.read_text()
        file.write_text(text)
        found = subprocess.run(words, env=environment, text=True, capture_output=True, timeout=100)
        assert found.returncode != 0 and "belongs to another run (task fill: code differ)" in found.stderr
        file.write_text(before)
    assert state.read_bytes() == kept.read_bytes()
    subprocess.run(words, env=environment, check=True, timeout=100)
    account = json.loads((tmp_path / "out" / "results.json").read_text())
    assert account["results"]["fill"]["n"] == FILES * ENTRIES
    assert not state.exists()


def test_files_that_were_replaced_are_refused(folder: Path, tmp_path: Path) -> None:
    state, path = tmp_path / "state", folder / "a0.root"
    before = stopped(Counts(), folder, state)
    kept = state.read_bytes()
    shutil.copy2(path, tmp_path / "whole.root")
    make(path, 0, 500)
    with pytest.raises(ArgumentError, match=r"belongs to another run \(file .*a0\.root differ\)"):
        train.run(Counts(), folder, checkpoint=state)
    # One of the same size and time shows by its UUID.
    times = (tmp_path / "whole.root").stat()
    make(path, 0)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if path.stat().st_size == times.st_size:
        with pytest.raises(ArgumentError, match=r"\(file .*a0\.root differ\)"):
            train.run(Counts(), folder, checkpoint=state)
    # A copy of the same file is the same file.
    state.write_bytes(kept)
    shutil.copy(tmp_path / "whole.root", path)
    found = train.run(Counts(), folder, checkpoint=state)
    assert found.resumed == before.entries >= 2 * ENTRIES and found["counts"]["sum"] == sum(range(FILES * ENTRIES))


def test_reproducible_files_are_told_apart_by_their_time(folder: Path, tmp_path: Path) -> None:
    state, path = tmp_path / "state", folder / "a0.root"
    make(path, 0, reproducible=True)
    os.utime(path, ns=(1, 1))
    stopped(Counts(), folder, state)
    make(path, 1, reproducible=True)
    with pytest.raises(ArgumentError, match=r"\(file .*a0\.root differ\)"):
        train.run(Counts(), folder, checkpoint=state)


@pytest.mark.parametrize("reproducible", [True, False])
@pytest.mark.parametrize("moved", [True, False])
def test_a_replaced_file_of_the_same_size_and_time_is_refused(
    folder: Path, tmp_path: Path, reproducible: bool, moved: bool
) -> None:
    state, path = tmp_path / "state", folder / "a0.root"
    make(path, 0, reproducible=reproducible, compression=None)
    os.utime(path, ns=(1, 1))
    stopped(Counts(), folder, state)
    size = path.stat().st_size
    # Files that are not reproducible have their paths in them.
    other = tmp_path / "date" / "a0.root" if moved else path
    make(other, 1, reproducible=reproducible, compression=None)
    os.utime(other, ns=(1, 1))
    other.replace(path)
    assert path.stat().st_size == size and path.stat().st_mtime_ns == 1
    with pytest.raises(ArgumentError, match=r"\(file .*a0\.root differ\)"):
        train.run(Counts(), folder, checkpoint=state)
    # What was not replaced is read on, if its identifier tells that it is the same file.
    make(path, 1, compression=None)
    state.unlink()
    before = stopped(Counts(), folder, state)
    path.chmod(0o600)
    assert train.run(Counts(), folder, checkpoint=state).resumed == before.entries


def test_outputs_that_are_gone_are_an_error_at_once(folder: Path, tmp_path: Path) -> None:
    stopped(stream("x > 0"), folder, tmp_path / "state", output=tmp_path / "out")
    with pytest.raises(SapwoodError, match="does not exist: without this part"):
        train.run(stream("x > 0"), folder, checkpoint=tmp_path / "state", output=tmp_path / "other")


TASK_FILE = """
from sapwood.train import Task

class Count(Task):
    branches = ["x"]
    def process(self, events):
        return {"n": len(events)}
"""


def test_where_nothing_can_be_written_nothing_is_run(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks.py").write_text(TASK_FILE)
    (tmp_path / "file").touch()
    command = ["run", str(tmp_path / "tasks.py"), "-i", str(folder), "--checkpoint", str(tmp_path / "state")]
    assert main([*command, "-o", str(tmp_path / "file")]) == 1
    assert f"{tmp_path}/file is not a folder" in capsys.readouterr().err
    with pytest.raises(SapwoodError, match="file is not a folder"):
        train.run(stream("x > 0"), folder, output=tmp_path / "file" / "below")
    with pytest.raises(SapwoodError, match="file is not a folder"):
        train.run(Counts(), folder, checkpoint=tmp_path / "file" / "state")


def test_a_checkpoint_stays_until_results_are_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tasks.py").write_text(TASK_FILE)
    state, out = tmp_path / "new" / "state", tmp_path / "out"
    command = ["run", str(tmp_path / "tasks.py"), "-i", str(folder), "-o", str(out), "--checkpoint", str(state)]
    command += ["--checkpoint-every", "0"]
    (out / "results.root").mkdir(parents=True)
    assert main(command) == 1
    assert "results cannot be written" in capsys.readouterr().err and state.exists()
    (out / "results.root").rmdir()
    assert main([*command, "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    assert account["resumed"] == account["entries"] and not state.exists()


# Luminosity


def described(files: list[Path], luminosity: float = 4.0) -> dict[str, Any]:
    return {"name": "d", "tree": "Events", "files": list(map(str, files)), "metadata": {"luminosity": luminosity}}


def summary(inputs: Any, out: Path, task: Any = None, **options: Any) -> Summary:
    train.run(task or stream("x % 2 == 0"), inputs, output=out, **{"threads": 1, **options})
    with sapwood.open(out / "s.root") as file:
        return Summary.read(file)


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_luminosity_of_a_part_of_the_entries(folder: Path, tmp_path: Path, executor: str) -> None:
    files = sorted(folder.iterdir())
    whole = summary(described(files), tmp_path, executor=executor)
    assert (whole.luminosity, whole.entries_read, whole.complete) == (4.0, FILES * ENTRIES, True)
    part = summary(described(files), tmp_path, executor=executor, entries=ENTRIES)
    assert (part.luminosity, part.entries_read) == (1.0, ENTRIES)
    half = summary(described(files), tmp_path, executor=executor, entries=ENTRIES // 2)
    assert (half.luminosity, half.entries_read) == (0.5, ENTRIES // 2)
    chosen = train.Dataset.of(described(files)).with_entries(range(10))
    listed = summary(chosen, tmp_path, executor=executor)
    assert (listed.luminosity, listed.entries_read, listed.entries_selected) == (0.01, 10, 5)
    assert listed.input_entries == [10, 0, 0, 0]
    two = [described(files[:2]), described(files[2:], 6.0) | {"name": "e"}]
    assert summary({one["name"]: one for one in two}, tmp_path, entries=ENTRIES).luminosity == 2.0


def test_luminosity_with_a_file_left_out(folder: Path, tmp_path: Path) -> None:
    files = sorted(folder.iterdir())
    catalogue = tmp_path / "known.sqlite"
    summary(described(files), tmp_path, catalogue=catalogue)
    stat = files[3].stat()
    files[3].write_bytes(b"no file of ROOT".ljust(stat.st_size))
    lost = summary(described(files), tmp_path, skip_bad_files=True)
    assert math.isnan(lost.luminosity) and not lost.complete and lost.entries_read == 3 * ENTRIES
    os.utime(files[3], ns=(stat.st_atime_ns, stat.st_mtime_ns))
    known = summary(described(files), tmp_path, skip_bad_files=True, catalogue=catalogue)
    assert (known.luminosity, known.complete) == (3.0, False)
    with sapwood.recreate(files[3]) as file:
        file.mktree("Events", {"other": np.arange(ENTRIES)})
    drifted = summary(described(files), tmp_path, drift="skip")
    assert (drifted.luminosity, drifted.complete) == (3.0, False)


class Half(Task):
    """Fails at the third file."""

    branches = ["x"]
    outputs = {"s": Output("s.root")}

    def process(self, events: Any) -> dict[str, Any]:
        if events.x[0] >= 2 * ENTRIES:
            raise RuntimeError("on purpose")
        return {"s": events}


def test_outputs_of_a_task_taken_off_say_that_they_are_not_whole(folder: Path, tmp_path: Path) -> None:
    other = stream("x % 2 == 0", path="whole.root")
    run = train.run([Half(), other], described(sorted(folder.iterdir())), output=tmp_path, threads=1)
    with sapwood.open(tmp_path / "s.root") as file:
        half = Summary.read(file)
        assert file["Events"].num_entries == 2 * ENTRIES
    assert (half.complete, half.entries_read, half.luminosity) == (False, 2 * ENTRIES, 2.0)
    assert half.input_entries == [ENTRIES, ENTRIES, 0, 0]
    with sapwood.open(tmp_path / "whole.root") as file:
        whole = Summary.read(file)
    assert (whole.complete, whole.entries_read, whole.luminosity) == (True, FILES * ENTRIES, 4.0)
    assert [about["complete"] for about in run.outputs.values()] == [False, True]
    words = written_words(run, {"root": Path("r"), "json": Path("j"), "html": Path("h")}).replace("\u2009", "")
    assert "s.root: 2000 entries, NOT WHOLE" in words and "whole.root: 2000 entries\n" in words
    page = render(run)
    assert page.count("<strong>no</strong>") == 1 and "<td>yes</td>" in page


class Two(Task):
    """Gives the first of two outputs what fits, and the second at the third file what does not."""

    branches = ["x"]
    outputs = {"a": Output("a.root"), "b": Output("b.root")}

    def process(self, events: Any) -> dict[str, Any]:
        late = events.x[0] >= 2 * ENTRIES
        return {"a": events[:10], "b": ak.zip({"y" if late else "x": events.x}), "n": len(events)}


def test_each_output_of_a_task_taken_off_counts_what_it_has(folder: Path, tmp_path: Path) -> None:
    run = train.run([Two(), Counts()], described(sorted(folder.iterdir())), output=tmp_path, threads=1)
    assert "the fields are y, but those of earlier rows x" in run.tasks[0].failure
    found: dict[str, Summary] = {}
    for name in "ab":
        with sapwood.open(tmp_path / f"{name}.root") as file:
            found[name] = Summary.read(file)
            assert file["Events"].num_entries == found[name].entries_selected
        about = run.outputs[str(tmp_path / f"{name}.root")]
        assert (about["entries"], about["entries_read"]) == (found[name].entries_selected, found[name].entries_read)
        assert not about["complete"]
    assert (found["a"].entries_selected, found["b"].entries_selected) == (30, 2 * ENTRIES)
    assert found["a"].input_entries == [ENTRIES, ENTRIES, ENTRIES, 0] and found["a"].luminosity == 3.0
    assert found["b"].input_entries == [ENTRIES, ENTRIES, 0, 0] and found["b"].luminosity == 2.0
    assert run["counts"]["n"] == FILES * ENTRIES


def test_a_step_that_was_joined_by_halves_is_not_done(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"output": tmp_path, "checkpoint": tmp_path / "state", "checkpoint_every": 0, "threads": 1}
    take = Writer.take

    def full(self: Writer, task: str, results: dict[str, Any], read: Any) -> None:
        if read.get(2):
            raise StorageError("no space left")
        take(self, task, results, read)

    with monkeypatch.context() as patch, pytest.raises(StorageError, match="no space left"):
        patch.setattr(Writer, "take", full)
        train.run([Counts(), stream("x >= 0")], folder, **options)
    whole = train.run([Counts(), stream("x >= 0")], folder, **options)
    assert whole.resumed == 2 * ENTRIES
    assert whole["counts"] == {"n": FILES * ENTRIES, "sum": sum(range(FILES * ENTRIES))}
    with sapwood.open(tmp_path / "s.root") as file:
        assert file["Events"].num_entries == Summary.read(file).entries_read == FILES * ENTRIES


def test_files_that_are_rewritten_into_one_have_one_summary(folder: Path, tmp_path: Path) -> None:
    files = sorted(folder.iterdir())
    both = [tmp_path / "a" / "s.root", tmp_path / "b" / "s.root"]
    first = summary(described(files[:2], 2.0), both[0].parent)
    second = summary(described(files[2:], 3.0), both[1].parent)
    done = rewrite(list(map(str, both)), tmp_path / "new.root", Layout())
    assert done["trees"] == ["Events", "FileSummary"] and done["before"]["entries"] == FILES * ENTRIES // 2
    with sapwood.open(tmp_path / "new.root") as file:
        assert file["FileSummary"].num_entries == 1
        joined = Summary.read(file)
    assert joined == Summary.joined([first, second])
    assert (joined.entries_read, joined.luminosity, len(joined.inputs)) == (FILES * ENTRIES, 5.0, FILES)
    # A tree that only has the name stays as it is.
    for path in both:
        with sapwood.recreate(path) as file:
            file.mktree("FileSummary", {"x": np.arange(3)})
    rewrite(list(map(str, both)), tmp_path / "other.root", Layout())
    with sapwood.open(tmp_path / "other.root") as file:
        assert file["FileSummary"]["x"].array().to_list() == [0, 1, 2, 0, 1, 2]


def test_the_page_says_what_was_there(folder: Path, tmp_path: Path) -> None:
    plain = render(train.run(Counts(), folder, threads=2, executor="processes"))
    assert "in the catalogue" not in plain and "of 2 processes" in plain and "of 2 threads" not in plain
    known = render(train.run(Counts(), folder, threads=1, catalogue=tmp_path / "known"))
    assert "the other files were in the catalogue" in known and "of 1 thread." in known


def test_a_folder_that_becomes_read_only_does_not_cost_the_results(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, unlink, done = tmp_path / "state", Path.unlink, list[train.Run]()

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        if path.parent == tmp_path:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        unlink(path, missing_ok=missing_ok)

    def end(run: train.Run) -> None:
        done.append(run)
        monkeypatch.setattr(Path, "unlink", refuse)

    with pytest.warns(SapwoodWarning, match="checkpoint .*state cannot be removed: .*Read-only file system"):
        found = train.run(Counts(), folder, step_size=100, checkpoint=state, checkpoint_every=0, done=end)
    assert found["counts"]["n"] == FILES * ENTRIES and done == [found]
    opened = os.open

    def refuse_new(path: Any, flags: int, *mode: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return opened(path, flags, *mode)

    monkeypatch.setattr(os, "open", refuse_new)
    with pytest.raises(StorageError, match=r"checkpoint .* cannot be written"):
        Checkpoint(state, {}).save({})
    monkeypatch.undo()


SECRET = "eyJhbGciOiJSUzI1NiJ9"


def test_what_a_train_writes_has_no_secrets(tmp_path: Path) -> None:
    make(tmp_path / "a.root", 0)
    server = Server({"a.root": (tmp_path / "a.root").read_bytes()})
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = server.url("a.root").replace("http://", f"http://user:{SECRET}@") + f"?authz={SECRET}&a=1"

    class Skim(Counts):
        outputs = {"some": Output("some.root")}

        def process(self, events: Any) -> dict[str, Any]:
            return {**super().process(events), "some": events[:1]}

    out = tmp_path / "out"
    options: dict[str, Any] = {"output": out, "catalogue": out / "catalogue", "tree": "Events", "step_size": 300}
    out.mkdir()
    state = tmp_path / "state"
    stopped(Skim(), [url], state, **options)
    assert SECRET.encode() not in state.read_bytes()
    # A resumed run may have another token.
    other = url.replace(f"authz={SECRET}", f"authz={SECRET[1:]}")
    found = train.run(
        Skim(),
        [other.replace(f":{SECRET}", f":{SECRET[::-1]}")],
        checkpoint=state,
        done=lambda run: write(run, out),
        **options,
    )
    assert found["skim"]["n"] == ENTRIES and found.resumed
    shown = f"{found!r} {found.files!r} {json.dumps(found.account())} {written_words(found, write(found, out))}"
    texts = [shown.encode(), *(path.read_bytes() for path in out.rglob("*") if path.is_file())]
    for secret in (SECRET[1:], SECRET[::-1]):
        assert not [text for text in texts if secret.encode() in text]
    with sapwood.open(out / "some.root") as file:
        assert Summary.read(file).inputs == [f"http://user:***@{server.place}/a.root?authz=***&a=1:Events"]
    server.shutdown()
    server.server_close()
