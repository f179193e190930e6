"""Large entries, many keys, and storage that ends while a file is updated."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood


def test_an_entry_that_no_basket_holds(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    # Memory that nobody touches is not there.
    huge = np.zeros(150_000_000)
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", {"x": "var * float64"})
        tree.extend({"x": ak.Array([[1.0], [2.0, 3.0]])})
        layout = ak.contents.ListOffsetArray(ak.index.Index64([0, 5, len(huge)]), ak.contents.NumpyArray(huge))
        with pytest.raises(sapwood.LimitError, match=r"entry 1 has 1199999960 bytes, more than .*branch x, in tree t"):
            tree.extend({"x": ak.Array(layout)})
        tree.extend({"x": ak.Array([[4.0]])})
        file.mktree("u", {"x": "float64"}, basket_size=1 << 40).extend({"x": np.arange(10.0)})
    with sapwood.open(path) as file, uproot.open(path) as other:
        assert file["t/x"].array().tolist() == other["t/x"].array().tolist() == [[1], [2, 3], [4]]
        assert file["u/x"].array().tolist() == list(range(10))


@pytest.mark.alone
def test_many_keys_take_linear_time(tmp_path: Path) -> None:
    def write(keys: int) -> float:
        start = time.process_time()
        with sapwood.recreate(tmp_path / f"{keys}.root") as file:
            for i in range(keys):
                file[f"dir/key{i}"] = "x"
        return time.process_time() - start

    # Quadratic time is 100 times as long. One try can be slow on a loaded machine.
    assert any(write(30_000) < 30 * write(3000) for _ in range(3))
    with sapwood.open(tmp_path / "30000.root") as file:
        assert len(file["dir"].keys()) == 30_000
        assert str(file["dir/key29999"]) == "x"


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_storage_that_ends_during_an_update(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path, compression=None) as file:
        file.mktree("t", {"x": np.arange(10_000.0)}, auto_flush=5000)
    script = f"""
import resource, signal, numpy as np, sapwood
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
with sapwood.update({str(path)!r}) as file:
    tree = file["t"]
    try:
        while True:
            tree.extend({{"x": np.arange(tree.num_entries, tree.num_entries + 1000.0)}})
    except sapwood.StorageError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "entries of tree t are safe" in done.stdout
    safe = int(done.stdout.partition(" entries of tree t are safe")[0].split()[-1])
    assert 20_000 <= safe <= 37_000
    with sapwood.open(path) as file:
        assert np.array_equal(file["t/x"].array(library="np"), np.arange(safe))


def _remove(path: Path) -> None:
    path.unlink()


def _replace(path: Path) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(b"another file")
    other.replace(path)


@pytest.mark.parametrize(("harm", "word"), [(_remove, "removed"), (_replace, "replaced by another file")])
@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("update", [False, True])
def test_a_file_that_another_program_takes_away_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], None], word: str, make: str, update: bool
) -> None:
    path = tmp_path / "file.root"
    monkeypatch.chdir(tmp_path)
    if update:
        with sapwood.recreate("file.root") as file:
            getattr(file, make)("t", {"x": "int64"}).extend({"x": np.arange(1000)})
    file = sapwood.update("file.root") if update else sapwood.recreate("file.root")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the path stays that of the time of opening
    table = getattr(file, make)("u", {"x": "int64"})
    table.extend({"x": np.arange(1000)})
    file.commit()
    harm(path)
    table.extend({"x": np.arange(1000)})
    with pytest.raises(sapwood.StorageError, match=f"file.root: the file was {word} while it was being written"):
        file.close()


def test_an_atomic_writer_does_not_replace_a_file_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as slow:
        slow.mktree("t", {"x": "int64"}).extend({"x": np.arange(10)})
        with pytest.raises(sapwood.StorageError, match="already open for writing"):
            sapwood.recreate(path, atomic=True)
    assert sapwood.open(f"{path}:t").num_entries == 10


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("update", [False, True])
def test_a_file_that_is_truncated_before_more_is_written(tmp_path: Path, make: str, update: bool) -> None:
    path = tmp_path / "file.root"
    if update:
        with sapwood.recreate(path) as file:
            getattr(file, make)("t", {"x": "int64"}).extend({"x": np.arange(1000)})
    file = sapwood.update(path) if update else sapwood.recreate(path)
    table = getattr(file, make)("u", {"x": "int64"})
    table.extend({"x": np.arange(1000)})
    file.commit()
    os.truncate(path, 300)
    # What is written behind the end would make the file as long as before, with zeros in place of what was lost.
    table.extend({"x": np.random.default_rng(1).integers(1 << 60, size=1000)})
    said = r"file.root: the file was truncated while it was being written"
    with pytest.raises(sapwood.StorageError, match=said) as error:
        file.commit()
    assert "are safe" not in str(error.value)
    with contextlib.suppress(sapwood.StorageError):
        file.close()
    assert path.stat().st_size == 300


@pytest.mark.parametrize("make", ["mktree", "mkrntuple"])
@pytest.mark.parametrize("kind", ["Double32_t", "Double32_t[0,0,8]", "var * Double32_t"])
def test_a_number_too_large_for_the_stored_float_is_an_error(tmp_path: Path, make: str, kind: str) -> None:
    path = tmp_path / "file.root"
    values = [[1.5], [-np.inf, 3e38]] if kind.startswith("var") else [1.5, -np.inf]
    wrong = [[1.5], [1e300]] if kind.startswith("var") else [1.5, -1e300]
    with sapwood.recreate(path) as file:
        table = getattr(file, make)("t", {"x": kind})
        table.extend({"x": values})
        with pytest.raises(sapwood.ArgumentError, match=r"takes float32, which cannot hold -?1e\+300"):
            table.extend({"x": wrong})
    with sapwood.open(path) as file:
        assert len(file["t/x"].array()) == 2
        assert file["t/x"].array()[0] == values[0]


@pytest.mark.parametrize("data", [[[], [], []], np.zeros((3, 0)), np.zeros((3, 2, 0))], ids=["lists", "rows", "blocks"])
@pytest.mark.parametrize("kind", ["int32", "2 * int32"])
def test_entries_without_elements_are_not_dropped(tmp_path: Path, kind: str, data: object) -> None:
    with sapwood.recreate(tmp_path / "file.root") as file:
        tree = file.mktree("t", {"x": kind})
        with pytest.raises(sapwood.ArgumentError, match="branch 'x' takes"):
            tree.extend({"x": data})
        tree.extend({"x": []})
        assert tree.num_entries == 0


def test_atomic_files_replace_regular_files_only(tmp_path: Path) -> None:
    pipe, folder, link, target = (tmp_path / name for name in ("pipe", "folder", "link.root", "real.root"))
    os.mkfifo(pipe)
    folder.mkdir()
    link.symlink_to(target)
    for path in (pipe, folder):
        with pytest.raises(sapwood.StorageError, match="not a regular file"):
            sapwood.recreate(path, atomic=True)
    with pytest.raises(sapwood.StorageError, match="File name too long"):
        sapwood.recreate(tmp_path / ("n" * 250), atomic=True)
    with sapwood.recreate(link, atomic=True) as file:
        file["t"] = {"x": [1]}
    assert link.is_symlink()
    assert sapwood.open(target)["t/x"].array().tolist() == [1]
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "folder", "link.root", "real.root"}


def test_pipes_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    code = "import sapwood, sys; getattr(sapwood, sys.argv[1])(sys.argv[2])"
    for function in ("recreate", "update"):
        command = [sys.executable, "-c", code, function, str(tmp_path / "pipe")]
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert "StorageError" in found.stderr
        assert "not a regular file" in found.stderr


def test_a_file_that_an_atomic_one_will_replace_takes_no_other_writer(tmp_path: Path) -> None:
    path, new = tmp_path / "file.root", tmp_path / "new.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1]}
    with sapwood.recreate(path, atomic=True) as file:
        for open_again in (sapwood.update, sapwood.recreate):
            with pytest.raises(sapwood.StorageError, match="already open for writing"):
                open_again(path)
        with pytest.raises(sapwood.StorageError, match="already open for writing"):
            sapwood.recreate(path, atomic=True)
        file["t"] = {"x": [2]}
    with sapwood.update(path) as file:
        with pytest.raises(sapwood.StorageError, match="already open for writing"):
            sapwood.recreate(path, atomic=True)
        file["u"] = {"x": [3]}
    # A refused writer does not remove what the first one wrote.
    with sapwood.recreate(new, atomic=True) as file:
        with pytest.raises(sapwood.StorageError, match="already open for writing"):
            sapwood.recreate(new, atomic=True)
        file["t"] = {"x": [4]}
    assert [sapwood.open(path)[name]["x"].array().tolist() for name in "tu"] == [[2], [3]]
    assert sapwood.open(new)["t/x"].array().tolist() == [4]
    # An abandoned writer does not lock the file.
    with pytest.raises(KeyError), sapwood.recreate(path, atomic=True):
        raise KeyError
    with sapwood.update(path) as file:
        file["v"] = {"x": [5]}


@pytest.mark.parametrize("there", [True, False])
def test_an_atomic_file_that_was_not_closed_is_discarded(tmp_path: Path, there: bool) -> None:
    """It may have been dropped by an exception before its `with` block, or instead of one."""
    path = tmp_path / "file.root"
    if there:
        with sapwood.recreate(path) as file:
            file["t"] = {"x": [1]}
    file = sapwood.recreate(path, atomic=True)
    file["t"] = {"x": [2]}
    with pytest.warns(sapwood.SapwoodWarning, match=r"file\.root: the new file was discarded"):
        del file
        gc.collect()
    assert sorted(tmp_path.iterdir()) == [path] * there
    with sapwood.recreate(path, atomic=True) as file:  # nobody has a lock
        file["t"] = {"x": [3]}
    assert sapwood.open(path)["t/x"].array().tolist() == [3]


def test_an_atomic_file_that_python_ends_with_is_discarded(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    script = f"import sapwood\nfile = sapwood.recreate({str(path)!r}, atomic=True)\nfile['t'] = {{'x': [2]}}\n"
    for more in ("", "raise KeyError"):
        done = subprocess.run([sys.executable, "-c", script + more], capture_output=True, text=True, check=False)
        assert done.returncode == bool(more)
        assert "the new file was discarded" in done.stderr
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
@pytest.mark.parametrize("stored", [True, False])
def test_threads_add_columns_and_entries_to_one_table(tmp_path: Path, kind: str, stored: bool) -> None:
    path = tmp_path / "file.root"
    file = sapwood.recreate(path)
    (file.mktree if kind == "ttree" else file.mkrntuple)("t", {"x": np.arange(10)})
    if stored:
        file.close()
        file = sapwood.update(path)
    together = threading.Barrier(4, timeout=60)

    def add(number: int) -> None:
        for step in range(5):
            together.wait()
            data = {f"y{one}": np.full(2, number) for one in range(step + 1)}
            file["t"].extend({"x": np.full(2, number), **data}, accept_new_fields=True)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(add, number) for number in range(4)]:
            done.result()
    file.close()
    with sapwood.open(path) as back:
        assert sorted(back["t"].keys()) == ["x", "y0", "y1", "y2", "y3", "y4"]
        for name in sorted(back["t"].keys()):
            values = back["t"][name].array().tolist()
            assert len(values) == 10 + 4 * 5 * 2
            first = 10 + 8 * int(name[1:] or 0)  # those before have the value 0
            assert sorted(values[first:]) == sorted(list(range(4)) * ((50 - first) // 4))


@pytest.mark.parametrize("stored", [True, False])
def test_threads_add_branches_to_one_tree(tmp_path: Path, stored: bool) -> None:
    """Each continues the description of the tree that the one before has written."""
    path = tmp_path / "file.root"
    file = sapwood.recreate(path)
    file.mktree("t", {"x": np.arange(10)})
    if stored:
        file.close()
        file = sapwood.update(path)
    with ThreadPoolExecutor(4) as pool:
        names = [f"b{number}" for number in range(20)]
        done = [pool.submit(file.add_branches, "t", {name: np.full(10, place)}) for place, name in enumerate(names)]
        counts = [pool.submit(lambda: file["t"].num_entries) for _ in range(20)]
        for one in done:
            one.result()
        assert {one.result() for one in counts} == {10}
    file.close()
    with sapwood.open(path) as back:
        assert sorted(back["t"].keys()) == sorted(["x", *names])
        for place, name in enumerate(names):
            assert back["t"][name].array().tolist() == [place] * 10
