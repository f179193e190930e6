"""The trace of accesses, and what reading is said to cost."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
from servers import serving

import sapwood
from sapwood.cli import main
from sapwood.errors import without_secrets
from sapwood.lab.replay import replay
from sapwood.storage.trace import COLUMNS, VERSION, Trace

ENTRIES = 30_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "events.root"
    with sapwood.recreate(path, compression=sapwood.LZ4(1)) as out:
        types = {"x": "float64", "i": "int32", "jet": "var * float32"}
        # One basket of each branch in each cluster.
        tree = out.mktree("t", types, auto_flush=6000, basket_size=1 << 20)
        x = np.arange(ENTRIES, dtype=np.float64)
        jet = ak.unflatten(np.arange(2 * ENTRIES, dtype=np.float32), np.arange(ENTRIES) % 5)
        tree.extend({"x": x, "i": x.astype(np.int32), "jet": jet})
    return path


def test_a_trace_counts_backward_seeks_and_gaps(path: Path) -> None:
    traces: list[Trace] = []
    for starts in ((0, 12_000), (12_000, 0)):
        with sapwood.open(path) as file:
            tree = file["t"]
            with sapwood.trace() as trace:
                for start in starts:
                    tree.arrays("x", entry_start=start, entry_stop=start + 1)
        traces.append(trace)
    forward, back = traces
    ranges = sorted(zip(forward["offset"], forward["length"], forward["cause"], strict=True))
    first, second = [(offset, length) for offset, length, cause in ranges if cause != "decode"]
    gap = second[0] - sum(first)
    sizes = sorted([first[1], second[1]])
    found = {"ranges": 2, "backward": 0, "gaps": 1, "gap_bytes": gap}
    assert gap > 0 and forward.order() == found | {"median_bytes": sum(sizes) // 2, "most_bytes": sizes[1]}
    assert back.order() == found | {
        "backward": 1, "gaps": 0, "gap_bytes": 0, "median_bytes": sum(sizes) // 2, "most_bytes": sizes[1]
    }  # fmt: skip
    assert "2 ranges of " in back.summary() and "1 backward seeks, 0 gaps of 0 B in all" in back.summary()


def test_a_trace_has_every_access_and_adds_up(path: Path) -> None:
    before = sapwood.counters()
    with sapwood.trace() as trace, sapwood.open(path) as file:
        file["t"].arrays(["x", "jet"], entry_start=100, entry_stop=12_500)
    after = sapwood.counters()
    found = {name: after[name] - before[name] for name in after}
    requests = trace["cause"] != "decode"
    assert len(np.unique(trace["request"][requests])) == found["read_calls"]
    assert trace["length"][requests].sum() == found["bytes_read"]
    assert trace["bytes_decompressed"].sum() == found["bytes_decompressed"]
    assert (~requests).sum() == found["baskets"]
    assert list(dict.fromkeys(trace["cause"])) == ["header", "directory", "streamers", "object", "basket", "decode"]
    assert set(trace["file"]) == {str(path)}
    assert set(trace["branch"][~requests]) == {"x", "jet"}
    assert (trace["end_ns"] >= trace["start_ns"]).all()
    x = trace["branch"] == "x"
    assert trace["entry_start"][x].min() == 100
    assert trace["entry_stop"][x].max() == 12_500
    times = trace["decompression_ns"] + trace["decoding_ns"]
    assert (times <= trace["end_ns"] - trace["start_ns"]).all()
    assert "baskets of" in trace.summary()
    layers = trace.layers()
    for name in ("bytes_requested", "bytes_read", "bytes_decompressed", "bytes_used"):
        assert layers[name] == found[name], name
    assert layers["bytes_requested"] + layers["over_read"] + layers["records"] == layers["bytes_read"]
    assert layers["bytes_used"] < layers["bytes_decompressed"]
    clusters = trace["cluster"][~requests]
    assert set(clusters) == {0, 1, 2}
    assert (trace["entry_start"][~requests] >= 6000 * clusters).all()
    assert len(trace) == len(trace["offset"])


def test_a_trace_of_far_storage(path: Path) -> None:
    with serving({"events.root": path.read_bytes()}) as server:
        with sapwood.trace() as trace, sapwood.open(server.url("events.root")) as file:
            file["t"].arrays(["x", "jet"])
        asked = [(a, b - a) for _, ranges, _ in server.log for a, b in ranges]
    rows = trace["cause"] != "decode"
    traced = list(zip(trace["offset"][rows].tolist(), trace["length"][rows].tolist(), strict=True))
    assert sorted(traced) == sorted(asked)
    assert "prefetch" in trace["cause"]
    assert "miss" not in trace["cause"]


def test_a_trace_as_a_file(path: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    import pyarrow.feather
    import pyarrow.parquet

    for name, load in (("t.parquet", pyarrow.parquet.read_table), ("t.arrow", pyarrow.feather.read_table)):
        with sapwood.trace(tmp_path / name) as trace, sapwood.open(path) as file:
            file["t"].arrays()
        table = load(tmp_path / name)
        assert table.column_names == list(COLUMNS)
        assert table.num_rows == len(trace) > 10
        assert table.schema.metadata[b"sapwood.trace"] == VERSION.encode()
        assert table["offset"].to_pylist() == trace["offset"].tolist()
    assert pa.table(trace)["branch"].to_pylist() == trace["branch"].tolist()


def test_one_trace_at_a_time(tmp_path: Path) -> None:
    with sapwood.trace(), pytest.raises(sapwood.ArgumentError, match="already"), sapwood.trace():
        pass
    with pytest.raises(sapwood.ArgumentError, match=r"\.parquet or \.arrow"), sapwood.trace(tmp_path / "t.csv"):
        pass
    with sapwood.trace() as trace:
        assert len(trace) == 0
        with pytest.raises(sapwood.ArgumentError, match="no column"):
            trace["size"]


@pytest.mark.parametrize("far", [False, True])
def test_what_is_explained_is_what_happens(path: Path, far: bool) -> None:
    with serving({"events.root": path.read_bytes()}) as server:
        where = server.url("events.root") if far else path
        with sapwood.open(where, prior=None) as file:
            tree = file["t"]
            before = tree.file.counters()
            for branches, entries in ((None, (0, ENTRIES)), (["x"], (0, ENTRIES)), (["jet", "i"], (7000, 13_000))):
                plan = tree.explain(branches, entry_start=entries[0], entry_stop=entries[1])
                assert tree.file.counters() == before
                done = tree.explain(branches, entry_start=entries[0], entry_stop=entries[1], analyze=True)
                assert done.plan == plan.plan
                assert done.counters is not None
                assert done.counters["read_calls"] == plan.requests
                assert done.counters["bytes_requested"] == plan.bytes_asked
                assert done.counters["bytes_read"] == plan.bytes_planned
                assert done.counters["baskets"] == plan.baskets
                before = tree.file.counters()
            assert plan.clusters == 2
            assert plan.clusters_in_tree == 5
            assert plan.bytes_over == plan.bytes_planned - plan.bytes_asked >= 0
            assert "clusters   2 of 5" in str(plan)
            assert "served" in str(done)
            assert tree["x"].explain().baskets == 5


def test_the_command(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    import pyarrow.parquet

    out = tmp_path / "t.parquet"
    assert main(["trace", "-o", str(out), "ls", "--check", str(path)]) == 0
    printed = capsys.readouterr()
    assert "baskets of" in printed.err
    assert "4 branches" in printed.out
    assert pyarrow.parquet.read_table(out).num_rows > 5
    assert main(["trace"]) == 2
    assert "name a command to run" in capsys.readouterr().err
    with serving({"events.root": path.read_bytes()}) as server:
        assert main(["ls", server.url("events.root")]) == 0
    assert "TTree" in capsys.readouterr().out
    assert "sapwood.storage.trace" in sys.modules


@pytest.mark.parametrize("far", [False, True])
def test_bytes_add_up_in_steps_too(path: Path, far: bool) -> None:
    """What one step leaves of a basket is used by the next: it is decompressed once, and used once."""
    with serving({"events.root": path.read_bytes()}) as server:
        before = sapwood.counters()
        with sapwood.trace() as trace, sapwood.open(server.url("events.root") if far else path) as file:
            steps = sum(len(step) for step in file["t"].iterate(["x", "jet"], step_size=1000))
        after = sapwood.counters()
    assert steps == ENTRIES
    layers = trace.layers()
    for name in ("bytes_requested", "bytes_read", "bytes_decompressed", "bytes_used"):
        assert layers[name] == after[name] - before[name], name
    assert (trace["cause"] == "carried").sum() == 2 * 25
    # Lists are used with their offsets left out.
    assert 8 * ENTRIES + 4 * 2 * ENTRIES <= layers["bytes_used"] <= layers["bytes_decompressed"]


def test_a_trace_is_shown(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    for name in ("t.arrow", "t.parquet"):
        with sapwood.trace(tmp_path / name) as trace, sapwood.open(path) as file:
            file["t"].arrays()
        again = sapwood.storage.trace.Trace.load(tmp_path / name)
        assert all((again[column] == trace[column]).all() for column in COLUMNS)
        assert again.epoch_ns == trace.epoch_ns
    page = tmp_path / "page.html"
    assert main(["trace", "show", str(tmp_path / "t.parquet"), "--output", str(page)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(again.summary())
    for text in ("asked", "served", "decompressed", "used", "requests in flight over", "clusters 0 to 4"):
        assert text in shown
    # Baskets later in the file hold later entries: each of the letters of the branches goes down from left to right.
    lines = shown.split("downwards, against entries 0 to 30000\n")[1].splitlines()
    assert lines[12] == "  a jet, b x, c i, d njet"
    marked = [line.partition("|")[2].rstrip("|") for line in lines[:12]]
    assert marked[0].lstrip()[0] in "abcd"
    assert not marked[-1][:40].strip()
    assert not marked[0][20:].strip()
    assert {"a", " "} <= set("".join(marked)) <= set("abcd ")
    (jet,) = (line for line in shown.splitlines() if line.startswith("  jet "))
    assert jet.count("▆") + jet.count("▇") + jet.count("█") == 5
    html = page.read_text()
    for text in (
        "File offset against entry",
        "Requests over time",
        "Map of the file",
        "offset in the file [MB]",
        "time [s]",
    ):
        assert text in html
    assert "<script" not in html
    assert "http://" not in html
    with pytest.raises(sapwood.MissingFileError):
        sapwood.storage.trace.Trace.load(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"no")
    assert main(["trace", "show", str(tmp_path / "bad.parquet")]) == 2
    assert "is not a trace" in capsys.readouterr().err


def test_no_place_for_a_trace(tmp_path: Path, path: Path) -> None:
    """It is said before the work; what happens later loses nothing."""
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    with (
        pytest.raises(sapwood.MissingFileError, match=r"folder \S+ does not exist"),
        sapwood.trace(tmp_path / "no/t.parquet"),
    ):
        pytest.fail("it began")
    (tmp_path / "there").mkdir()
    trace = sapwood.trace(tmp_path / "there/t.parquet")
    with pytest.raises(sapwood.StorageError, match=r"cannot write \S+t\.parquet: the folder"), trace:
        sapwood.open(path)["t"]["x"].array()
        (tmp_path / "there").rename(tmp_path / "away")
    trace.save(tmp_path / "t.parquet")
    assert len(Trace.load(tmp_path / "t.parquet")) == len(trace) > 0


def test_no_entries_are_explained(path: Path) -> None:
    with sapwood.open(path) as file:
        for entries in (5, ENTRIES, 0):
            done = file["t"].explain(entry_start=entries, entry_stop=entries, analyze=True)
            assert (done.baskets, done.requests, done.ranges, done.clusters, done.bytes_asked) == (0, 0, 0, 0, 0)
            assert done.counters is not None
            assert done.counters["bytes_requested"] == 0


SECRET = "eyJhbGciOi.J9_x-Y%3D"


def test_secrets_are_not_passed_on(path: Path, tmp_path: Path) -> None:
    """Neither a trace, nor a page, nor an error with what it came from, nor a ledger has the token of a URL."""
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    with serving({"events.root": path.read_bytes()}) as server:
        url = server.url("events.root") + f"?authz=Bearer%20{SECRET}&a=1&X-Amz-Signature={SECRET}"
        file = tmp_path / "trace.parquet"
        with sapwood.trace(file), sapwood.open(url, retries=1, timeout=5, replicas=[url], prior=None) as opened:
            assert opened.file_path == url
            opened["t"].arrays(["x"])
            assert SECRET not in repr(opened)
            server.fault = lambda _number: "503"
            with pytest.raises(sapwood.StorageError) as failed:
                opened["t"].arrays(["i"])
            shown = [*traceback.format_exception(failed.value), *map(str, opened.ledger()), str(failed.value.ledger)]
        with pytest.raises(sapwood.StorageError) as failed:
            sapwood.open(url, retries=0)
        shown += traceback.format_exception(failed.value)
        server.fault = lambda _number: None
        with pytest.raises(sapwood.NotFoundError) as missing:
            sapwood.open({url: "nothing"})
        assert SECRET in url
        shown += traceback.format_exception(missing.value)
    assert main(["trace", "show", str(file), "--output", str(tmp_path / "page.html")]) == 0
    assert set(Trace.load(file)["file"]) == {server.url("events.root") + "?authz=***&a=1&X-Amz-Signature=***"}
    assert SECRET not in (tmp_path / "page.html").read_text()
    assert "authz=***" in "".join(shown)
    assert SECRET not in "".join(shown)
    with pytest.raises(sapwood.ArgumentError, match="--on"):
        replay(file)


def test_what_a_secret_is() -> None:
    for text, shown in {
        "https://h/f.root?authz=Bearer%20ab.c: 404": "https://h/f.root?authz=***: 404",
        "root://h//f?a=1&authz=Bearer a.b-c and": "root://h//f?a=1&authz=*** and",
        '<a href="https://h/f?x=1&amp;Signature=a%2Fb">': '<a href="https://h/f?x=1&amp;Signature=***">',
        "https://h/f?X-Amz-Credential=a/b/c&X-Amz-Date=2&z=3'": "https://h/f?X-Amz-Credential=***&X-Amz-Date=***&z=3'",
        "https://me:word@h:80/f, root://you@h//f": "https://me:***@h:80/f, root://you@h//f",
        "https://me:w@rd@h/f, http://me:w'rd@h/f": "https://me:***@h/f, http://me:***@h/f",
        "https://word@h/f and davs://word:@h/f": "https://***@h/f and davs://***:@h/f",
        "https://me:w&#x27;rd@h/f</td>": "https://me:***@h/f</td>",
        "http://h/f#access_token=ab&pwd=cd?": "http://h/f#access_token=***&pwd=***",
        "403: no Authorization: Bearer abcdefghijklmnop.q/r=": "403: no Authorization: Bearer ***",
        "Basic information": "Basic information",
        "/table/f.root?key=t;1&secret_key=a": "/table/f.root?key=t;1&secret_key=***",
        "tokens=3, (token=a), 1 < 2?": "tokens=3, (token=a), 1 < 2?",
    }.items():
        assert without_secrets(text) == shown
