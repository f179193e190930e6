"""Places and processes that are not as they should be: pipes, odd names, forks, files without a list of keys."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood
from sapwood.errors import CorruptError
from sapwood.objects.matrix import TMatrixSparse, TMatrixSym


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Write a small file, not compressed."""
    path = tmp_path / "sample.root"
    with sapwood.recreate(path, compression=None) as file:
        file["t"] = {"x": np.arange(50, dtype=np.float32), "y": np.arange(100).reshape(50, 2)}
    return path


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.root"
    os.mkfifo(pipe)
    code = f"import sapwood; sapwood.open({str(pipe)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "StorageError" in done.stderr
    assert "not a regular file" in done.stderr


def test_a_name_that_is_not_utf8(sample: Path) -> None:
    odd = os.fsencode(sample.parent) + b"/caf\xe9.root"
    Path(os.fsdecode(odd)).write_bytes(sample.read_bytes())
    assert sapwood.open(Path(os.fsdecode(odd)))["t"].num_entries == 50
    done = subprocess.run([sys.executable, "-m", "sapwood", "ls", odd], capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, b"t;1")


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("a file, no folder")
    with pytest.raises(OSError, match=r"plain/x\.root|plain"):
        sapwood.recreate(tmp_path / "plain" / "x.root")
    with pytest.raises(IsADirectoryError, match=tmp_path.name):
        sapwood.recreate(tmp_path)


def test_a_fork_reads_with_threads_of_its_own(sample: Path) -> None:
    code = (
        "import multiprocessing, sapwood\n"
        f"def count(_): return len(sapwood.open({str(sample)!r})['t'].arrays(library='np')['x'])\n"
        "print(count(0))\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "    print(pool.map_async(count, range(4)).get(30))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.split("\n")[:2] == ["50", "[50, 50, 50, 50]"], done.stderr


def test_an_open_file_of_python_in_a_fork(tmp_path: Path) -> None:
    """Both processes have one place in it, which neither may rely on."""
    path = tmp_path / "many.root"
    x = np.random.default_rng(3).normal(size=400_000)
    with sapwood.recreate(path, compression=None) as file:
        file.mktree("t", {"x": "float64"}, auto_flush=4000).extend({"x": x})
    code = f"""
import os, random, signal
import numpy as np, sapwood
stream = open({str(path)!r}, "rb")
want = sapwood.open({str(path)!r})["t"]["x"].array(library="np")
tree = sapwood.open(stream)["t"]
child = os.fork()
signal.alarm(60)
right = True
for _ in range(300):
    start = random.randrange(390_000)
    stop = start + 9000
    try:
        found = tree["x"].array(entry_start=start, entry_stop=stop, library="np")
        right &= np.array_equal(found, want[start:stop])
    except sapwood.SapwoodError:
        right = False
if child == 0:
    os._exit(0 if right else 1)
print(right, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=90, check=False)
    assert done.stdout.split() == ["True", "0"], done.stderr


def test_a_wrong_number_of_threads_is_named(sample: Path) -> None:
    command = [sys.executable, "-m", "sapwood", "show", f"{sample}:t", "-n", "1"]
    environment = {**os.environ, "SAPWOOD_NUM_THREADS": "many"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith('sapwood: SAPWOOD_NUM_THREADS is "many"')


def test_a_damaged_description_of_a_tree_loses_no_branch(sample: Path) -> None:
    good = sample.read_bytes()
    key = sapwood.open(sample).key("t")
    refused = 0
    for place in range(key.fSeekKey + key.fKeylen, key.fSeekKey + key.fNbytes, 3):
        bad = bytearray(good)
        bad[place] ^= 0xFF
        try:
            tree = sapwood.open(bytes(bad))["t"]
        except sapwood.SapwoodError:
            refused += 1
            continue
        assert len(tree) == 2, f"byte {place - key.fSeekKey}"
        for branch in tree:
            try:
                assert len(branch.array()) == 50 or tree.num_entries != 50, f"byte {place - key.fSeekKey}"
            except sapwood.SapwoodError:
                refused += 1
    assert refused > 50


def _with_counts(path: Path, lists: list[list[int]], counts: list[int]) -> None:
    """Write a tree of one branch of lists, whose counter branch contradicts it."""
    with sapwood.recreate(path, compression=None) as file:
        values = np.array([one for of in lists for one in of], np.int32)
        file.mktree("t", {"x": ak.unflatten(values, [len(of) for of in lists])}, counter_name=lambda _: "n")
    with sapwood.open(path) as file:
        key = file["t"]["n"].basket_key(0)
        assert file["t"]["n"].array().to_list() == [len(one) for one in lists]
    data = bytearray(path.read_bytes())
    struct.pack_into(f">{len(counts)}i", data, key.fSeekKey + key.fKeylen, *counts)
    path.write_bytes(data)


def test_a_counter_does_not_matter_where_baskets_have_the_lengths_themselves(tmp_path: Path) -> None:
    """A range without elements was an error, all entries were not."""
    lists = [[1, 2], [], [3, 4, 5], []]
    _with_counts(tmp_path / "f.root", lists, [2, 3, 1, 7])
    with sapwood.open(tmp_path / "f.root") as file:
        tree = file["t"]
        for start in range(5):
            for stop in range(start, 5):
                assert tree["x"].array(entry_start=start, entry_stop=stop).to_list() == lists[start:stop]
                found = tree.arrays(["n", "x"], entry_start=start, entry_stop=stop)
                assert found["x"].to_list() == lists[start:stop]
        for size in (1, 3):
            assert [one for step in tree.iterate(["x"], step_size=size) for one in step["x"].to_list()] == lists


def test_a_basket_without_bytes_has_no_elements_in_any_range(tmp_path: Path) -> None:
    counts = [0, 2, 0, 0]
    _with_counts(tmp_path / "f.root", [[], [], [], []], counts)
    with sapwood.open(tmp_path / "f.root") as file:
        tree = file["t"]
        for start in range(4):
            for stop in range(start + 1, 5):
                if any(counts[start:stop]):
                    with pytest.raises(sapwood.UnsupportedError, match="holds no bytes, where its counter says 2"):
                        tree["x"].array(entry_start=start, entry_stop=stop)
                else:
                    assert tree["x"].array(entry_start=start, entry_stop=stop).to_list() == [[]] * (stop - start)
        steps = tree.iterate(["x"], step_size=1)
        assert next(steps)["x"].to_list() == [[]]
        with pytest.raises(sapwood.UnsupportedError, match="holds no bytes"):
            next(steps)


def test_a_branch_with_fewer_entries_than_its_baskets_is_an_error(sample: Path) -> None:
    with sapwood.open(sample) as file:
        total = file["t"]["x"].member("fTotBytes")
    data = sample.read_bytes()
    # fEntries, fFirstEntry and fTotBytes of a branch.
    place = data.index(struct.pack(">3q", 50, 0, total))
    sample.write_bytes(data[:place] + struct.pack(">q", 20) + data[place + 8 :])
    with sapwood.open(sample) as file:
        tree = file["t"]
        for read in (tree["x"].array, lambda: tree.arrays(["x"]), lambda: tree["x"].array(entry_stop=10)):
            with pytest.raises(sapwood.CorruptError, match="its baskets have 50 entries, but the branch 20"):
                read()
        assert len(tree["y"].array()) == 50


@pytest.mark.alone
def test_many_records_without_a_list_of_keys(tmp_path: Path) -> None:
    def text(value: bytes) -> bytes:
        return bytes([len(value)]) + value

    path = tmp_path / "unclosed.root"
    with sapwood.recreate(path) as file:
        file["a"] = "text"
    data = bytearray(path.read_bytes())
    # `fSeekKeys` of the root directory, behind its own key, name and title and seven other numbers.
    (name_bytes,) = struct.unpack_from(">I", data, 28)
    struct.pack_into(">I", data, 100 + name_bytes + 26, 0)
    (end,) = struct.unpack_from(">I", data, 12)
    del data[end:]
    records = 30_000
    for i in range(records):
        strings = text(b"TObjString") + text(b"k%d" % i) + text(b"")
        size = 26 + len(strings)
        data += struct.pack(">IHIIHHII", size, 4, 0, 0, size, 1, len(data), 100) + strings
    before = time.process_time()
    with pytest.warns(sapwood.SapwoodWarning, match="30001 keys were found"):
        found = sapwood.open(bytes(data)).keys(recursive=False)
    assert len(found) == records + 1
    assert time.process_time() - before < 2


def _claiming(path: Path, entries: int) -> bytes:
    """Write a file with a tree, and return its bytes with another number of entries of the tree."""
    with sapwood.recreate(path, compression=None) as file:
        file["t"] = {"x": np.arange(12345)}
    data = bytearray(path.read_bytes())
    with sapwood.open(path) as file:
        place = data.index(struct.pack(">q", 12345), file.key("t").fSeekKey)
    struct.pack_into(">q", data, place, entries)
    return bytes(data)


@pytest.mark.parametrize("step_size", [1, 1000, "1 MB"])
def test_steps_through_more_entries_than_there_can_be(tmp_path: Path, step_size: int | str) -> None:
    """A tree that claims 2**63 - 1 entries gives its first step, or an error, at once and with little memory."""
    path = tmp_path / "f.root"
    path.write_bytes(_claiming(path, 2**63 - 1))
    script = """
import resource, sys
import sapwood
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
path, size = sys.argv[1], sys.argv[2]
size = int(size) if size.isdigit() else size
with sapwood.open(path) as file:
    assert file["t"].num_entries == 2**63 - 1
    for steps in (file["t"].iterate(step_size=size), sapwood.iterate({path: "t"}, step_size=size)):
        try:
            print(len(next(steps)))
        except sapwood.SapwoodError as error:
            print(type(error).__name__)
    try:
        file["t"].__arrow_c_stream__()
    except sapwood.SapwoodError as error:
        print(type(error).__name__)
"""
    command = [sys.executable, "-W", "ignore", "-c", script, str(path), str(step_size)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    if isinstance(step_size, int):
        assert done.stdout.split()[:2] == [str(step_size)] * 2


def test_expressions_without_fields_do_not_take_memory_for_entries_that_are_not_there(tmp_path: Path) -> None:
    for entries in (200_000_000, 2**63 - 1):
        tree = sapwood.open(_claiming(tmp_path / "f.root", entries))["t"]
        calls: list[Callable[[], object]] = [
            lambda tree=tree: tree.arrays(["1"]),
            lambda tree=tree: tree.arrays(["q"], aliases={"q": "2.5"}, library="np"),
            lambda tree=tree: list(tree.iterate(["1"], cut="0")),
            lambda tree=tree: list(tree.iterate(["1"], step_size="1 MB")),
        ]
        for call in calls:
            with pytest.raises(sapwood.LimitError, match=r"for \d+ entries takes over 402653184 bytes"):
                call()


class _Symmetric(TMatrixSym):
    """A matrix that was read from an object of some bytes."""

    def __init__(self, size: int, stored: int) -> None:
        numbers = size * (size + 1) // 2
        self._own = {"fNrows": size, "fNcols": size, "fElements": np.broadcast_to(np.float64(1), (numbers,))}
        self._stored = SimpleNamespace(fNbytes=stored)

    def __repr__(self) -> str:
        return "a matrix"

    parent = property(lambda self: self._stored)  # pyright: ignore[reportAssignmentType]

    def member(self, name: str, all: bool = True, none_if_missing: bool = False) -> Any:  # noqa: A002
        del all, none_if_missing
        return self._own[name]


def test_a_matrix_takes_memory_in_proportion_to_its_stored_bytes() -> None:
    small = _Symmetric(3, 100)
    small._own["fElements"] = np.arange(6.0)
    assert small.to_numpy().tolist() == [[0, 1, 2], [1, 3, 4], [2, 4, 5]]
    with pytest.raises(sapwood.LimitError, match="40960000 computed numbers are too many for 6265 stored"):
        _Symmetric(6400, 6265).to_numpy()
    with pytest.raises(sapwood.LimitError, match="40960000 computed numbers are too many for 6265 stored"):
        TMatrixSparse.to_numpy(_Symmetric(6400, 6265))  # pyright: ignore[reportArgumentType]


def test_a_key_in_the_header_has_no_object(tmp_path: Path) -> None:
    """An update rewrites the header, which is no object."""
    path = tmp_path / "header.root"
    with sapwood.recreate(path, compression=None) as file:
        file["note"] = "a text"
    data = bytearray(path.read_bytes())
    listed = data.rindex(b"\x0aTObjString\x04note") - 26  # the last key of that name is in the list of keys
    (place,) = struct.unpack_from(">I", data, listed + 18)
    assert data[place + 18 : place + 22] == data[listed + 18 : listed + 22]
    struct.pack_into(">I", data, listed + 18, 0)
    path.write_bytes(data)
    with sapwood.open(path) as file, pytest.raises(CorruptError, match="would be in the header of the file"):
        file["note"]
