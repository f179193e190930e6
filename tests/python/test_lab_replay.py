"""Repeating the accesses of a trace: what the model says is what storage does."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
from servers import Server, serving

import sapwood
from sapwood.cli import main
from sapwood.lab.replay import (
    Changes,
    Model,
    Request,
    places_of,
    replay,
    requests_of,
    simulate,
    text_of,
)
from sapwood.show.units import parse_rate, parse_time
from sapwood.storage.trace import Trace

ENTRIES, CLUSTERS = 40_000, 8


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "events.root"
    random = np.random.default_rng(3)
    columns = {f"x{i}": random.normal(size=ENTRIES) for i in range(20)}
    columns["jet"] = ak.unflatten(random.normal(size=2 * ENTRIES), np.arange(ENTRIES) % 5)
    types = dict.fromkeys(columns, "float64") | {"jet": "var * float64"}
    with sapwood.recreate(path, compression=None) as out:
        out.mktree("t", types, auto_flush=ENTRIES // CLUSTERS).extend(columns)
    return path


@pytest.fixture
def server(path: Path) -> Iterator[Server]:
    with serving({"events.root": path.read_bytes()}) as server:
        yield server


@pytest.fixture
def traced(server: Server) -> Trace:
    """Read with little memory for what is fetched ahead, so that there are many requests."""
    server.latency = 0.02
    with sapwood.trace() as trace, sapwood.open(server.url("events.root"), prefetch_size="90 kB") as file:
        for _ in file["t"].iterate(["x1", "x7", "x13", "jet"], step_size=ENTRIES // CLUSTERS):
            time.sleep(0.01)
    return trace


def test_the_model_counts_latencies_and_bytes() -> None:
    def request(start: float, end: float, size: int) -> Request:
        return Request("f", [(0, size)], start, end, True)

    # Two beside each other, then one that waited for the first of them, then one that waited for all.
    requests = [request(0, 1, 100), request(0, 3, 100), request(1.5, 4, 200), request(5, 6, 100)]
    assert simulate(requests, Model(1.0)) == [(0, 1), (0, 1), (1, 2), (2, 3)]
    # Bytes share one line; latencies do not.
    assert simulate(requests, Model(1.0, 100)) == [(0, 2), (0, 3), (2, 5), (5, 7)]
    assert simulate(requests, Model(1.0, in_flight=1)) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert simulate(requests, Model(1.0, think=True)) == [(0, 1), (0, 1), (1.5, 2.5), (3.5, 4.5)]


@pytest.mark.alone
@pytest.mark.parametrize(("latency", "bandwidth"), [(0.05, None), (0.1, None), (0.03, 20e6)])
def test_the_model_is_what_a_server_does(
    traced: Trace, server: Server, latency: float, bandwidth: float | None
) -> None:
    server.latency, server.bandwidth = latency, bandwidth
    server.log.clear()
    done = replay(traced)
    guess = replay(traced, model=Model(latency, bandwidth))
    assert len(requests_of(traced)) == done["replay"]["requests"] == guess["replay"]["requests"] > 30
    for name in ("requests", "ranges", "asked", "served", "over_read"):
        assert done["replay"][name] == guess["replay"][name] == done["trace"][name]
    asked = sorted((a, b - a) for _, ranges, _ in server.log for a, b in ranges)
    traced_ranges = sorted(one for request in requests_of(traced) for one in request.ranges)
    # Opening asks for the first and the last bytes, too.
    assert len(asked) == len(traced_ranges) + 2
    assert set(traced_ranges) <= set(asked)
    # It never takes less than it is told to. What it takes by itself, and what else the machine does, comes on top: as
    # much as without latency.
    said = guess["replay"]["seconds"]
    tried: list[tuple[float, float]] = []
    while len(tried) < 3 and not (tried and tried[-1][0] <= 1.3 * said + 2 * tried[-1][1] + 0.2):
        server.latency, server.bandwidth = latency, bandwidth
        seconds = replay(traced)["replay"]["seconds"]
        server.latency, server.bandwidth = 0.0, None
        tried.append((seconds, replay(traced)["replay"]["seconds"]))
    seconds, own = tried[-1]
    assert 0.95 * said <= seconds <= 1.3 * said + 2 * own + 0.2, tried


@pytest.mark.alone
def test_on_a_local_file_and_with_pauses(traced: Trace, path: Path) -> None:
    near = replay(traced, on=str(path))
    assert near["replay"]["served"] == near["trace"]["served"]
    paused = replay(traced, on=str(path), limits=Model(think=True))
    assert paused["replay"]["seconds"] > near["replay"]["seconds"]


def test_what_if(traced: Trace, path: Path) -> None:
    def cost(**changes: object) -> dict[str, float]:
        return replay(traced, on=str(path), model=Model(0.05, 100e6), changes=Changes(**changes))["what_if"]  # type: ignore[arg-type]

    asked = traced.layers()["bytes_requested"]
    as_it_is = cost(branches=["x1", "x7", "x13", "jet"])
    assert as_it_is["asked"] == asked
    assert as_it_is["requests"] <= CLUSTERS + 5
    little = cost(prefetch_size="200 kB")
    assert little["asked"] == asked
    assert little["requests"] > as_it_is["requests"]
    assert little["seconds"] > as_it_is["seconds"]
    assert cost(branches=["x*"])["asked"] > 4 * cost(branches=["x1?"])["asked"] / 3 > 0
    merged = cost(merge_clusters=4)
    assert merged["asked"] == asked
    # A branch lies in one piece where it lay in four.
    assert merged["ranges"] < as_it_is["ranges"] / 2
    assert cost(layout="default")["requests"] <= as_it_is["requests"]
    with pytest.raises(sapwood.ArgumentError, match="no branch"):
        cost(branches=["nothing*"])


def _sparse(url: str) -> None:
    sapwood.concatenate({url: {"object_path": "t", "steps": [[0, 100], [18_000, 18_100], [39_900, 40_000]]}}, ["x1"])


def _mixed(url: str) -> None:
    """Read one branch whole, some in part, and one twice; steps cross baskets, of which one has the counter, too."""
    with sapwood.open(url, prior=None) as file:
        tree = file["t"]
        tree["x1"].array()
        tree.arrays(["x2", "x3"], entry_stop=100)
        tree["x1"].array()
        for _ in tree.iterate(["jet", "x4"], step_size=1700):
            pass


def _twice(url: str) -> None:
    for _ in range(2):
        _sparse(url)


@pytest.mark.parametrize(("read", "others"), [(_sparse, 3 + 3), (_mixed, 2 * CLUSTERS + CLUSTERS), (_twice, 6 + 3)])
def test_what_if_is_of_what_was_wanted(server: Server, read: Callable[[str], None], others: int) -> None:
    """Where nothing is changed in truth, what was wanted is what would be: by the model, and really."""
    with sapwood.trace() as trace:
        read(server.url("events.root"))
    unchanged = Changes(prefetch_size="128 MiB")
    done = replay(trace, model=Model(0.01, 100e6), changes=unchanged)
    really = replay(trace, changes=unchanged)
    assert done["what_if"]["asked"] == done["trace"]["asked"] > 0
    # Each file is opened once, and keeps baskets of which little is wanted.
    rows = ~trace.is_request
    distinct = dict(zip(trace["offset"][rows].tolist(), trace["length"][rows].tolist(), strict=True))
    assert 0 < sum(distinct.values()) <= really["what_if"]["asked"] <= done["trace"]["asked"]
    for cost in (done["what_if"], really["what_if"]):
        assert cost["served"] <= 1.1 * done["trace"]["served"]
    # Branches that were read keep their entries; of others those of all are meant.
    names = list(dict.fromkeys(trace["branch"][~trace.is_request]))
    same = replay(trace, model=Model(0.01, 100e6), changes=Changes(branches=names))["what_if"]
    assert same == done["what_if"]
    other = replay(trace, model=Model(0.01, 100e6), changes=Changes(branches=["x1", "x9"]))["what_if"]
    assert other["asked"] == others * int(trace["length"][trace["branch"] == "x1"].max())


def test_a_file_with_less_in_it(traced: Trace, tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "less.root", compression=None) as out:
        out["t"] = {name: np.zeros(10) for name in ("x1", "x7", "x13")}
    for model in (None, Model(0.01)):
        done = replay(traced, on=str(tmp_path / "less.root"), model=model, changes=Changes(branches=["x1"]))
        assert 80 < done["what_if"]["asked"] < 400
    with sapwood.trace() as sparse, sapwood.open(tmp_path / "less.root") as file:
        file["t"]["x1"].array(entry_start=5)
    with sapwood.recreate(tmp_path / "none.root") as out:
        out["t"] = {"x1": np.zeros(3)}
    for model in (None, Model(0.01)):
        done = replay(sparse, on=str(tmp_path / "none.root"), model=model, changes=Changes(branches=["x1"]))
        assert done["what_if"]["asked"] == 0


def test_what_if_it_is_really_read(traced: Trace, server: Server) -> None:
    server.log.clear()
    done = replay(traced, changes=Changes(branches=["x3"], prefetch_size="1 MB"))["what_if"]
    assert done["requests"] == len(server.log)
    assert done["asked"] < traced.layers()["bytes_requested"] / 3
    with pytest.raises(sapwood.ArgumentError, match="simulated"):
        replay(traced, changes=Changes(merge_clusters=2))


def test_files_of_equal_name(path: Path, tmp_path: Path) -> None:
    """Of several files those parts of the paths count in which they differ."""
    for folder in ("run1/a", "run2/a"):
        (tmp_path / "then" / folder).mkdir(parents=True)
        (tmp_path / "then" / folder / "AO2D.root").write_bytes(path.read_bytes())
    with sapwood.trace() as trace:
        for folder in ("run1/a", "run2/a"):
            with sapwood.open(tmp_path / "then" / folder / "AO2D.root") as file:
                file["t"]["x1"].array(entry_stop=1)
    (tmp_path / "then").rename(tmp_path / "now")
    with pytest.raises(sapwood.StorageError):
        replay(trace)
    assert (
        replay(trace, on=str(tmp_path / "now"))["replay"]["served"] == replay(trace, model=Model())["trace"]["served"]
    )
    for model in (None, Model(0.01)):
        (tmp_path / "now/run2/a/AO2D.root").rename(tmp_path / "away")
        with pytest.raises(sapwood.StorageError, match="run2/a/AO2D"):
            replay(trace, on=str(tmp_path / "now"), model=model, changes=Changes(branches=["x1"]))
        (tmp_path / "away").rename(tmp_path / "now/run2/a/AO2D.root")
    assert list(places_of(["/d/x/a.root", "/d/y/b.root"], "s3://b/").values()) == ["s3://b/a.root", "s3://b/b.root"]
    assert list(places_of(["/d/f.root", "/d/y/f.root"], "n").values()) == ["n/f.root", "n/y/f.root"]


def test_what_has_no_effect_is_refused(traced: Trace, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    file = path.with_name("refused.parquet")
    traced.save(file)
    for words, said in [
        (["--latency", "1ms", "--cluster-size", "5MB"], "--layout"),
        (["--latency", "1ms", "--in-flight", "0"], "1 or more"),
        (["--in-flight", "-1"], "1 or more"),
        (["--branch", "x1", "--think"], "--think"),
        (["--branch", "x1", "--on", str(path), "--prefetch-size", "1MB"], "--prefetch-size"),
        (["--merge-clusters", "0", "--latency", "1ms"], "1 or more"),
    ]:
        assert main(["replay", str(file), *words]) == 2
        assert said in capsys.readouterr().err
    with pytest.raises(sapwood.ArgumentError, match="no storage has"):
        Model(bandwidth=0)


def test_ctrl_c_ends_it(traced: Trace, server: Server) -> None:
    """What waits in flight, and what waits for that: the server would answer in a minute."""
    server.log.clear()
    server.fault = lambda number: "hang60" if number > 3 else None

    def interrupt() -> None:
        while server.busy < 1 or len(server.log) < 5:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    began = time.monotonic()
    # Whoever was started in the background is made to ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt, daemon=True)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            replay(traced)
    finally:
        thread.join(10)
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 20
    assert not any("sapwood-replay" in one.name for one in threading.enumerate())


def test_the_command(traced: Trace, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    file = tmp_path / "t.parquet"
    traced.save(file)
    assert main(["replay", str(file), "--latency", "140ms", "--bandwidth", "1Gbit/s"]) == 0
    assert "140 ms of latency, 125 MB/s" in capsys.readouterr().out
    words = ["replay", str(file), "--on", str(path), "--json", "--latency", "10ms", "--prefetch-size", "1MB"]
    assert main(words) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["trace"]["requests"] == len(requests_of(traced))
    assert done["changes"] == {"prefetch_size": "1MB"}
    assert main(["replay", str(file), "--latency", "soon"]) == 2
    assert "us, ms, s, m or h" in capsys.readouterr().err


def test_times_and_rates() -> None:
    assert [parse_time(text) for text in ("50ms", "0.14 s", "200us")] == pytest.approx([0.05, 0.14, 0.0002])
    assert [parse_rate(text) for text in ("100MB/s", "1 Gbit/s", "1MiB/s")] == [100e6, 125e6, 1 << 20]
    for text in ("fast", "100MB", "-1MB/s", "0B/s"):
        with pytest.raises(sapwood.ArgumentError):
            parse_rate(text)


def test_a_layout_gets_no_credit_for_planning_again(traced: Trace, path: Path) -> None:
    done = replay(traced, on=str(path), model=Model(0.05, 100e6), changes=Changes(layout="default"))
    assert {"planned", "what_if"} <= done.keys()
    unchanged = replay(traced, on=str(path), model=Model(0.05, 100e6), changes=Changes(prefetch_size=128 << 20))
    assert done["planned"] == unchanged["what_if"]
    assert "as it is, planned again" in text_of(done)
    assert "planned" not in replay(traced, on=str(path), model=Model(0.05, 100e6))
