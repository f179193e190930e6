"""Handles of files in other processes."""

from __future__ import annotations

import multiprocessing
from typing import Any

import awkward as ak

import sapwood


def _read(tree: Any, queue: Any) -> None:
    queue.put(int(ak.sum(tree["id"].array())))


def used_in_a_child(url: str, method: str) -> None:
    """Check that a handle that was in use works in a child, and afterwards in the parent."""
    context: Any = multiprocessing.get_context(method)
    with sapwood.open(url) as file:
        tree = file["t"]
        want = int(ak.sum(tree["id"].array()))
        queue = context.Queue()
        child = context.Process(target=_read, args=(tree, queue))
        child.start()
        assert queue.get(timeout=20) == want
        child.join(20)
        assert child.exitcode == 0
        assert int(ak.sum(tree["id"].array())) == want
