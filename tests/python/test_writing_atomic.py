"""Atomic files leave nothing beside their path after an error, an interrupt, or a full storage, whenever it comes."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sapwood
from sapwood.errors import SapwoodWarning, StorageError
from sapwood.storage import placing
from sapwood.writing import file as files
from sapwood.writing import output

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
TRACED = {module.__file__ for module in (placing, files, output)}


def write(path: Path, *, new: bool = False, closing: bool = False, failing: bool = False) -> None:
    make = sapwood.create if new else sapwood.recreate
    if closing:
        file = make(path, atomic=True)
        file["new"] = "text"
        file.close()
        return
    with make(path, atomic=True) as file:
        file["new"] = "text"
        if failing:
            raise ZeroDivisionError


def beside(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "a.root")


class Interrupt:
    """Raises KeyboardInterrupt at one line of the modules that write files."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, frame: FrameType, event: str, _: object) -> Interrupt | None:
        if frame.f_code.co_filename not in TRACED or frame.f_code.co_name == "_remove_unfinished":
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # files that are not closed
@pytest.mark.parametrize("how", ["with", "closing", "failing", "new"])
def test_an_interrupt_at_any_line_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # which takes time
    options, old = {how: True} if how != "with" else {}, how != "new"
    before, count, locked = sys.gettrace(), 0, 0
    while True:
        folder = tmp_path / str(count)
        folder.mkdir()
        path = folder / "a.root"
        if old:
            with sapwood.recreate(path) as file:
                file["old"] = "text"
        interrupt = Interrupt(count)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sys.settrace(interrupt)
            try:
                with contextlib.suppress(ZeroDivisionError):
                    write(path, **options)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(before)
            gc.collect()
        output._remove_unfinished()  # as when Python ends
        locked += len(output._REPLACED)
        while output._REPLACED:
            output._unlock_replaced(next(iter(output._REPLACED)))
        assert beside(folder) == [], count
        keys = sapwood.open(path).keys() if path.exists() else []
        assert keys in (["old;1"] if old else [], ["new;1"]), count
        if interrupt.left >= 0:
            break
        count += 1
    assert keys == (["new;1"] if how != "failing" else ["old;1"] if old else [])
    assert count > 50
    assert locked < 5


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [FULL, MemoryError(), ValueError("odd"), KeyboardInterrupt(), SystemExit(1)], ids=repr
)
@pytest.mark.parametrize("place", ["fsync", "native.close", "native.abandon", "protect", "made", "checksums"])
@pytest.mark.parametrize("how", ["with", "closing", "failing"])
def test_an_error_of_any_step_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, place: str, error: BaseException
) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        file["old"] = "text"

    class Native:
        """The native file, with one failing function."""

        def __init__(self, *arguments: Any) -> None:
            self.inner = real(*arguments)
            if place == "made":
                raise error

        def __getattr__(self, name: str) -> Any:
            return failing(error) if f"native.{name}" == place else getattr(self.inner, name)

    real = sapwood._native.Output
    if place == "fsync":
        monkeypatch.setattr(os, "fsync", failing(error))
    elif place == "protect":
        monkeypatch.setattr(placing, "protect", failing(error))
    elif place == "checksums":
        monkeypatch.setattr(output, "OutputFile", failing(error))
    else:
        monkeypatch.setattr(sapwood._native, "Output", Native)
    kept = place == "protect" and error is FULL and how != "failing"
    reached = (place == "native.abandon") == (how == "failing") or place in ("made", "checksums")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        expected = (type(error), StorageError, ZeroDivisionError)
        with pytest.raises(expected) if reached or how == "failing" else contextlib.nullcontext() as raised:
            write(path, **({how: True} if how != "with" else {}))
        message = str(raised.value) if raised is not None else ""
        del raised
        gc.collect()
    monkeypatch.undo()
    left = beside(tmp_path)
    if kept:
        # It is complete and could not be moved.
        assert len(left) == 1 and f"; the new file is complete: {tmp_path / left[0]}" in message
        assert sapwood.open(tmp_path / left[0]).keys() == ["new;1"]
        output._remove_unfinished()
        assert beside(tmp_path) == left
        (tmp_path / left[0]).unlink()
    else:
        assert left == []
    write(path)  # nothing has a lock
    assert beside(tmp_path) == []


def test_a_file_that_cannot_be_moved_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    file = sapwood.recreate(path, atomic=True)
    file["new"] = "text"
    path.mkdir()
    with pytest.raises(StorageError, match=r"directory.*; the new file is complete: .*\.partial") as raised:
        file.close()
    (left,) = beside(tmp_path)
    assert str(tmp_path / left) in str(raised.value)
    assert sapwood.open(tmp_path / left).keys() == ["new;1"]


def test_a_file_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "unlink", failing(FULL))
    words = r"the temporary file .*\.partial cannot be removed: No space"
    with pytest.warns(SapwoodWarning, match=words), pytest.raises(ZeroDivisionError):
        write(tmp_path / "a.root", failing=True)
    monkeypatch.undo()
    assert len(beside(tmp_path)) == 1


FILLED = """
import gc, os, resource, signal, sys, numpy as np, sapwood
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
folder, how, values = sys.argv[1], sys.argv[2], np.random.default_rng(1).normal(size=4000)
path = os.path.join(folder, "a.root")
errors, kept = 0, []

def left(when):
    assert os.listdir(folder) == ["a.root"], (limit, kind, when, os.listdir(folder))

def write(file, kind):
    if kind == "text":
        file["new"] = "t" * 60_000
        return
    form = {"x": "float64"}
    table = file.mktree("t", form, auto_flush=4000) if kind == "ttree" else file.mkrntuple("t", form)
    for number in range(4):
        try:
            table.extend({"x": values})
            if kind == "rntuple" and number % 2:
                file.file.commit()
        except sapwood.StorageError as error:
            if "the file was discarded" in str(error):
                left("as soon as the error says so")
            raise

for kind in ("ttree", "rntuple", "text"):
    for limit in (50, 300, 1500, 5000, 33_000, 60_000, 62_000, 65_000, 90_000, 120_000, 128_200, 130_000, 140_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            if how == "with":
                with sapwood.recreate(path, compression=None, atomic=True) as file:
                    write(file, kind)
            else:
                file = sapwood.recreate(path, compression=None, atomic=True)
                try:
                    write(file, kind)
                finally:
                    if how == "closing":
                        file.close()
        except sapwood.StorageError as error:
            errors += 1
        else:
            if how == "dropped":
                file.close()
            kept.append(limit)
        file = None
        gc.collect()
        left("at the end")
        assert sapwood.open(path).keys() in (["old;1"], ["t;1"], ["new;1"])
print(errors, len(kept))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits")
@pytest.mark.parametrize("how", ["with", "closing", "dropped"])
def test_a_full_storage_leaves_nothing(tmp_path: Path, how: str) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["old"] = "text"
    words = [sys.executable, "-W", "ignore", "-c", FILLED, str(tmp_path), how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    errors, kept = map(int, done.stdout.split())
    assert errors > 20 and kept > 3
