"""Servers of XRootD that are killed or stopped in the middle of a read, and start again, or never."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import pytest
import xrootd_events
from xrootd_events import ENTRIES, slow
from xrootd_servers import Single, folder, single

import sapwood
from sapwood import train

path, local = xrootd_events.path, xrootd_events.local
own_surroundings = xrootd_events.own_surroundings

pytestmark = pytest.mark.slow

SHORT: dict[str, Any] = {"timeout": 2, "retries": 2, "prior": None}
PATIENT: dict[str, Any] = {"timeout": 20, "retries": 12, "prior": None}
WAYS: dict[str, Callable[[Any], Any]] = {
    "arrays": lambda tree: tree.arrays(["id", "x1", "jet"]),
    "iterate": lambda tree: ak.concatenate(list(tree.iterate(["id", "x1"], step_size=10_000))),
    "hist": lambda tree: tree.hist("x1", hist.axis.Regular(20, -3, 3)).values(flow=True).tolist(),
}


def opened(server: Single, **options: Any) -> Any:
    return slow(server.url("events.root"), **options)


@contextlib.contextmanager
def reading(tree: Any, way: str, server: Single) -> Iterator[Any]:
    """Begin to read from a server that does not answer, so that a request is under way within the block."""
    server.process.send(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(WAYS[way], tree)
        time.sleep(0.3)
        assert not future.done()
        yield future


def refused(future: Any, server: Single, began: float) -> sapwood.StorageError:
    """Return the error of a read, which ends within the time limits."""
    with pytest.raises(sapwood.StorageError) as failed:
        future.result(60)
    assert time.monotonic() - began < 25
    assert f"root://localhost:{server.port}//events.root" in str(failed.value)
    return failed.value


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_is_killed_ends_reads_in_an_error(path: Path, local: Any, way: str) -> None:
    with folder() as home:
        with single({"events.root": path}, home=home) as server:
            file = opened(server, **SHORT)
            tree = file["t"]
            with reading(tree, way, server) as future:
                began = time.monotonic()
                server.process.kill()
                refused(future, server, began)
            ledger = file.file.ledger()
            # Requests for later baskets may still be under way.
            assert any(one.reason and not one.again for one in ledger)
        if way == "arrays":
            # The same table goes on where the server has started again.
            with single({"events.root": path}, f"xrd.port {server.port}\n", home):
                assert ak.array_equal(tree.arrays(["x7"]), local[["x7"]])


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_starts_again_finishes_reads(path: Path, local: Any, way: str) -> None:
    with folder() as home:
        with single({"events.root": path}, home=home) as server:
            tree = opened(server, **PATIENT)["t"]
            reads = reading(tree, way, server)
            future = reads.__enter__()
            server.process.kill()
        try:
            with single({"events.root": path}, f"xrd.port {server.port}\n", home):
                found = future.result(60)
        finally:
            reads.__exit__(None, None, None)
    with sapwood.open(path) as near:
        expected = WAYS[way](near["t"])
    assert found == expected if way == "hist" else ak.array_equal(found, expected)


@pytest.mark.parametrize("how", ["longer", "later"])
def test_another_file_of_a_server_that_starts_again_is_noticed(path: Path, how: str) -> None:
    with folder() as home:
        with single({"events.root": path}, home=home) as server:
            tree = opened(server, **PATIENT)["t"]
            tree.arrays(["x0"], entry_stop=10)
        other = home / "other.root"
        other.write_bytes(path.read_bytes() + (b"more" if how == "longer" else b""))
        os.utime(other, (1, 1_700_000_000))
        with single({"events.root": other}, f"xrd.port {server.port}\n", home):
            with pytest.raises(sapwood.StorageError, match="changed") as failed:
                tree.arrays(["x7"])
            assert "events.root" in str(failed.value)


def test_a_server_that_pauses_finishes_reads_afterwards(path: Path, local: Any) -> None:
    with single({"events.root": path}) as server:
        tree = opened(server, **SHORT)["t"]
        with reading(tree, "arrays", server) as future:
            refused(future, server, time.monotonic())
        server.process.send(signal.SIGCONT)
        assert ak.array_equal(tree.arrays(["x7"]), local[["x7"]])
        with reading(tree, "iterate", server) as future:
            server.process.send(signal.SIGCONT)
            assert ak.array_equal(future.result(60), local[["id", "x1"]])


class Numbers(train.Task):
    """Takes all entries."""

    name = "numbers"
    branches = ["id"]
    server: Single | None = None
    """A server that is killed after the first step."""

    def process(self, events: Any) -> dict[str, Any]:
        found = {"n": len(events), "sum": int(ak.sum(events.id))}
        if Numbers.server is not None:
            Numbers.server.process.kill()
        return found


@pytest.mark.parametrize("skips", [False, True])
def test_a_train_lists_what_a_killed_server_did_not_deliver(path: Path, skips: bool, tmp_path: Path) -> None:
    with single({"events.root": path}) as server:
        dataset = train.Dataset.of(server.url("events.root"), "t", {**SHORT, "num_workers": 1, "prefetch_size": "1 MB"})
        options: dict[str, Any] = {"threads": 1, "read_ahead": 0, "step_size": 10_000, "skip_bad_files": skips}
        Numbers.server = server
        began = time.monotonic()
        try:
            if not skips:
                with pytest.raises(sapwood.SapwoodError, match=r"events\.root"):
                    train.run(Numbers(), dataset, checkpoint=tmp_path / "state", **options)
            else:
                outcome = train.run(Numbers(), dataset, **options)
                lost = sum(one.entry_stop - one.entry_start for one in outcome.skipped if one.entry_start is not None)
                found = outcome["numbers"]
                assert 0 < found["n"] == ENTRIES - lost < ENTRIES
                assert all("events.root" in one.path and one.reason for one in outcome.skipped)
                counters = outcome.account()["counters"]
                assert counters["failures"] > 0 and counters["retries"] > 0
        finally:
            Numbers.server = None
        assert time.monotonic() - began < 60
