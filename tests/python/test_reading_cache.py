"""The cache of decoded columns: a second pass reads nothing of the file, and what is wrong in it is never used."""

from __future__ import annotations

import errno
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
from sapwood import cli, train
from sapwood.errors import ArgumentError, SapwoodWarning, StorageError
from sapwood.table import cache as cache_module
from sapwood.table.cache import ColumnCache, cache_in

ENTRIES, CLUSTER = 2000, 250
DATA: dict[str, Any] = {
    "x": np.arange(ENTRIES, dtype=np.float64),
    "flag": np.arange(ENTRIES) % 3 == 0,
    "pt": ak.unflatten(np.arange(ENTRIES * 3 // 2, dtype=np.float32), np.arange(ENTRIES) % 4),
    "name": ak.Array([f"entry {i}" for i in range(ENTRIES)]),
}
TYPES = {"x": "float64", "flag": "bool", "pt": "var * float32", "name": "string"}
FIELDS = len(TYPES) + 1  # with the counter of the lists


def write(path: Path, add: float = 0.0) -> Path:
    data = {**DATA, "x": DATA["x"] + add}
    with sapwood.recreate(path) as file:
        tree = file.mktree("t", TYPES, auto_flush=CLUSTER)
        for start in range(0, ENTRIES, CLUSTER):
            tree.extend({name: values[start : start + CLUSTER] for name, values in data.items()})
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("cache") / "t.root")


@pytest.fixture(autouse=True)
def no_other_objects() -> Iterator[None]:
    cache_in.cache_clear()
    yield
    cache_in.cache_clear()


def opened(path: Path, folder: Path, **options: Any) -> Any:
    return sapwood.open(f"{path}:t", column_cache=folder, **options)


def read(path: Path, folder: Path, **options: Any) -> tuple[list[Any], int]:
    """Return all entries, and how many bytes of the file were read for them."""
    with opened(path, folder, **options) as tree:
        before = tree.file.counters()["bytes_read"]
        return tree.arrays().to_list(), tree.file.counters()["bytes_read"] - before


def columns_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.column.arrow"))


@pytest.fixture(scope="module")
def wanted(path: Path) -> list[Any]:
    with sapwood.open(f"{path}:t") as tree:
        return tree.arrays().to_list()


def test_a_second_pass_reads_nothing_of_the_file(path: Path, tmp_path: Path, wanted: list[Any]) -> None:
    found, cost = read(path, tmp_path / "c")
    assert found == wanted
    assert cost > 0
    assert len(columns_in(tmp_path / "c")) == FIELDS
    assert read(path, tmp_path / "c") == (wanted, 0)


@pytest.mark.parametrize("library", ["ak", "np", "pa"])
def test_each_library_gets_the_same_types_and_values(path: Path, tmp_path: Path, library: str) -> None:
    with sapwood.open(f"{path}:t") as plain:
        wanted = [plain[name].array(library=library) for name in TYPES]
    for _ in range(2):
        with opened(path, tmp_path) as tree:
            for name, other in zip(TYPES, wanted, strict=True):
                mine = tree[name].array(library=library)
                assert type(mine) is type(other)
                assert getattr(mine, "dtype", None) == getattr(other, "dtype", None)
                assert str(getattr(mine, "type", "")) == str(getattr(other, "type", ""))
                assert as_list(mine) == as_list(other)


def as_list(array: Any) -> list[Any]:
    if isinstance(array, ak.Array):
        return array.to_list()
    return [one.tolist() if isinstance(one, np.ndarray) else one for one in array]


def test_steps_cuts_and_joined_files_are_kept(path: Path, tmp_path: Path, wanted: list[Any]) -> None:
    for number in range(2):
        with opened(path, tmp_path) as tree:
            before = tree.file.counters()["bytes_read"]
            steps = [one.to_list() for one in tree.iterate(["x", "pt"], "x > 900", step_size=300)]
            assert [one["x"] for step in steps for one in step] == [one["x"] for one in wanted if one["x"] > 900]
            assert (tree.file.counters()["bytes_read"] == before) is (number == 1)
    copy = write(tmp_path / "other.root", add=0.5)
    for _ in range(2):
        joined = sapwood.concatenate([f"{path}:t", f"{copy}:t"], ["x"], column_cache=tmp_path)
        assert joined["x"].to_list() == [*DATA["x"], *(DATA["x"] + 0.5)]


def test_what_is_missing_is_read_beside_what_is_there(path: Path, tmp_path: Path, wanted: list[Any]) -> None:
    with opened(path, tmp_path) as tree:
        tree.arrays(["x", "name"])
    assert len(columns_in(tmp_path)) == 2
    assert read(path, tmp_path)[0] == wanted
    assert len(columns_in(tmp_path)) == FIELDS


def test_cached_arrays_lie_in_the_mapped_file_and_may_be_changed(path: Path, tmp_path: Path) -> None:
    base: Any = None
    for _ in range(2):
        with opened(path, tmp_path) as tree:
            array = tree["x"].array(library="np")
            base = array
            while isinstance(base.base, np.ndarray):
                base = base.base
            array += 1
            np.testing.assert_array_equal(array, DATA["x"] + 1)
    import mmap

    owner = base.base.obj if isinstance(base.base, memoryview) else base.base
    assert isinstance(owner, mmap.mmap)


def test_an_rntuple_with_missing_values_and_records_comes_back(tmp_path: Path) -> None:
    data = ak.Array({"maybe": [1.5, None, 2.5], "many": [[{"a": 1, "b": [2.0]}], [], [{"a": 3, "b": []}]]})
    with sapwood.recreate(tmp_path / "n.root") as file:
        file.mkrntuple("t", data)
    for number in range(2):
        with opened(tmp_path / "n.root", tmp_path / "c") as table:
            table.explain()  # reads the lists of pages
            before = table.file.counters()["bytes_read"]
            assert table.arrays().to_list() == data.to_list()
            assert (table.file.counters()["bytes_read"] == before) is (number == 1)


def test_a_size_without_a_folder_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ArgumentError, match=r"column_cache_size is given, but no column_cache \(or SAPWOOD_COLUMN"):
        sapwood.open(path, column_cache_size="1 GB")
    # Who asks for no cache may give its size, and the folder may be set for the whole program.
    sapwood.open(path, column_cache=None, column_cache_size="1 GB").close()
    monkeypatch.setenv("SAPWOOD_COLUMN_CACHE", str(tmp_path))
    with sapwood.open(path, column_cache_size="1 GB") as file:
        assert file.file.column_cache is not None and file.file.column_cache.size == 10**9


def test_a_replaced_file_is_read_again(tmp_path: Path) -> None:
    file = write(tmp_path / "t.root")
    read(file, tmp_path / "c")
    state = file.stat()
    write(tmp_path / "new.root", add=7.0).replace(file)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))  # as a copy that keeps times does
    found, cost = read(file, tmp_path / "c")
    assert [one["x"] for one in found] == list(DATA["x"] + 7.0)
    assert cost > 0


def test_a_closed_file_gives_no_cached_columns(path: Path, tmp_path: Path) -> None:
    read(path, tmp_path)
    with opened(path, tmp_path) as tree:
        pass
    with pytest.raises(StorageError, match="closed"):
        tree.arrays()


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def _hollow(path: Path) -> None:
    """Zeros of the full length: room that was reserved and never written."""
    size = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, size)


def _other(path: Path) -> None:
    other = next(one for one in columns_in(path.parent) if one != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [_cut, _empty, _hollow, _other])
def test_a_damaged_column_is_noticed_and_read_from_the_file(
    path: Path, tmp_path: Path, wanted: list[Any], damage: Any
) -> None:
    read(path, tmp_path)
    damage(columns_in(tmp_path)[0])
    with pytest.warns(SapwoodWarning, match="cached column .* is damaged"):
        assert read(path, tmp_path)[0] == wanted
    assert read(path, tmp_path) == (wanted, 0)


def test_a_flipped_bit_is_noticed(path: Path, tmp_path: Path, wanted: list[Any]) -> None:
    read(path, tmp_path)
    flipped = 0
    for one in columns_in(tmp_path):
        data = bytearray(one.read_bytes())
        marker = max(data.find(np.float64(1234).tobytes()), 0)
        if marker:
            data[marker + 5] ^= 1
            one.write_bytes(data)
            flipped += 1
    assert flipped == 1
    with pytest.warns(SapwoodWarning, match="checksum"):
        assert read(path, tmp_path)[0] == wanted


def test_a_column_that_is_rewritten_after_its_use_is_verified_again(
    path: Path, tmp_path: Path, wanted: list[Any]
) -> None:
    for cost in (True, False, False):
        found, read_bytes = read(path, tmp_path)
        assert found == wanted and bool(read_bytes) == cost
    for one in columns_in(tmp_path):
        data, number = bytearray(one.read_bytes()), one.stat().st_ino
        marker = data.find(np.float64(1234).tobytes())
        if marker >= 0:
            data[marker + 5] ^= 1
            time.sleep(0.02)  # more than a tick of the clock of the file system
            one.write_bytes(data)
            assert one.stat().st_ino == number
    with pytest.warns(SapwoodWarning, match="checksum"):
        assert read(path, tmp_path)[0] == wanted


def test_a_column_is_verified_once_also_if_the_time_of_its_use_is_set(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bool] = []
    stored = cache_module._stored  # pyright: ignore[reportPrivateUsage]

    def counted(*given: Any, verify: bool) -> Any:
        compared.append(verify)
        return stored(*given, verify=verify)

    monkeypatch.setattr(cache_module, "_stored", counted)
    monkeypatch.setattr(cache_module, "_FRESH", -1)
    for _ in range(3):
        read(path, tmp_path)
    assert compared == [True] * FIELDS + [False] * FIELDS


def test_a_changed_description_is_noticed(tmp_path: Path) -> None:
    points = ak.Array([[{"px": 1.5, "py": 2.0}], [], [{"px": 3.0, "py": 4.0}]])
    with sapwood.recreate(tmp_path / "t.root", format="rntuple") as file:
        file["t"] = {"points": points}
    with opened(tmp_path / "t.root", tmp_path) as table:
        table.arrays()
    (column,) = columns_in(tmp_path)
    data = column.read_bytes()
    assert b'"py"' in data
    column.write_bytes(data.replace(b'"py"', b'"pz"'))
    with opened(tmp_path / "t.root", tmp_path) as table, pytest.warns(SapwoodWarning, match="description"):
        assert table.arrays().points.tolist() == points.tolist()


def test_other_ranges_of_entries_are_found_in_it(path: Path, tmp_path: Path, wanted: list[Any]) -> None:
    """Steps are kept; then all entries, other steps, and a part of one are read from them."""
    with opened(path, tmp_path) as tree:
        for _ in tree.iterate(step_size=2 * CLUSTER):
            pass
        cost = tree.file.counters()["bytes_read"]
        assert tree.arrays().to_list() == wanted
        assert tree.arrays(entry_start=10, entry_stop=20).to_list() == wanted[10:20]
        assert [one for step in tree.iterate(step_size=333) for one in step.to_list()] == wanted
        assert tree.arrays(entry_start=7, entry_stop=7).to_list() == []
        assert tree.file.counters()["bytes_read"] == cost
    # What was read in one piece takes the place of smaller ones.
    with opened(path, tmp_path) as tree:
        columns_in(tmp_path)[0].unlink()
        tree.arrays()
    assert sum("-0-2000." in one.name for one in columns_in(tmp_path)) == 1
    assert len(columns_in(tmp_path)) == 4 * (FIELDS - 1) + 1


def test_lists_of_records_and_missing_values_are_joined(tmp_path: Path) -> None:
    numbers = np.arange(900)
    data = ak.Array(
        {
            "maybe": ak.mask(ak.Array(numbers), numbers % 3 > 0),
            "many": ak.unflatten(ak.zip({"a": numbers, "b": ak.unflatten(numbers, np.ones(900, int))}, depth_limit=1),
                                 np.full(300, 3)).to_list() * 3,
            "pair": np.stack([numbers, -numbers], axis=1),
        }
    )  # fmt: skip
    with sapwood.recreate(tmp_path / "n.root") as file:
        file.mkrntuple("t", data, cluster_entries=100)
    with opened(tmp_path / "n.root", tmp_path / "c") as table:
        for _ in table.iterate(step_size=100):
            pass
        cost = table.file.counters()["bytes_read"]
        assert table.arrays(entry_start=50, entry_stop=777).to_list() == data[50:777].to_list()
        assert table.file.counters()["bytes_read"] == cost


def test_datasets_frames_and_histograms_use_it(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    copy = write(tmp_path / "other.root", add=0.5)
    files = [f"{path}:t", f"{copy}:t"]

    def cost(work: Callable[[], Any]) -> tuple[Any, int]:
        with sapwood.trace() as trace:
            found = work()
        return found, trace.layers()["bytes_decompressed"]

    def filled() -> list[float]:
        with opened(path, tmp_path / "c") as tree:
            return tree.hist("x", hist.axis.Regular(10, 0, ENTRIES)).values().tolist()

    works: list[Callable[[], Any]] = [
        filled,
        lambda: sapwood.dataset(files, column_cache=tmp_path / "c").to_table(columns=["x", "pt"]).to_pylist(),
        lambda: [
            one["x"] for part in sapwood.iterate(files, ["x"], column_cache=tmp_path / "c") for one in part.to_list()
        ],
    ]
    for work in works:
        cost(work)
    for work in works:
        assert cost(work)[1] == 0
        cache_in.cache_clear()
    assert filled() == [ENTRIES / 10] * 10
    assert works[2]() == [*DATA["x"], *(DATA["x"] + 0.5)]
    with sapwood.open(f"{path}:t") as plain:
        assert works[1]()[:ENTRIES] == plain.arrays(["x", "pt"]).to_list()


class Sums(train.Task):
    """Sums two columns."""

    name = "sums"
    branches = ("x", "pt")

    def process(self, events: Any) -> Any:
        return {"x": float(np.sum(events["x"])), "pt": float(ak.sum(events["pt"])), "entries": len(events)}


@pytest.mark.parametrize("how", ["threads", "processes", "environment"])
def test_a_train_reads_memory_in_its_second_pass(
    path: Path, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "c"
    options = {"column_cache": str(folder)}
    if how == "environment":
        monkeypatch.setenv("SAPWOOD_COLUMN_CACHE", options.pop("column_cache"))
    inputs = {"data": {"files": [f"{path}:t"], "options": options}}
    executor = "processes" if how == "processes" else "threads"

    def run() -> tuple[Any, int]:
        outcome = train.run(Sums(), inputs, threads=2, step_size=2 * CLUSTER, executor=executor)
        return outcome["sums"], outcome.counters["bytes_decompressed"]

    first, read = run()
    assert read > 0
    assert columns_in(folder)
    cache_in.cache_clear()
    assert run() == (first, 0)
    assert first == {"x": ENTRIES * (ENTRIES - 1) / 2, "pt": float(ak.sum(DATA["pt"])), "entries": ENTRIES}
    # The file is replaced: its columns are not used, and those of the new one are kept.
    changed = write(tmp_path / "t.root", add=1.0)
    inputs["data"]["files"] = [f"{changed}:t"]
    for expected in (True, False):
        found, cost = run()
        assert found["x"] == first["x"] + ENTRIES
        assert (cost > 0) == expected
    write(changed, add=2.0)
    assert run()[0]["x"] == first["x"] + 2 * ENTRIES


def forked(work: Callable[[], None]) -> int:
    """Run work in another process, which ends with 0 where it went well; return the number of the process."""
    child = os.fork()
    if child == 0:
        done = 1
        try:
            warnings.simplefilter("error", SapwoodWarning)
            work()
            done = 0
        finally:
            os._exit(done)
    return child


def test_eight_processes_share_a_cache_that_is_too_small(path: Path, tmp_path: Path) -> None:
    size = 60_000

    def work() -> None:
        for _ in range(3):
            with opened(path, tmp_path, column_cache_size=size) as tree:
                for start in range(0, ENTRIES, 500):
                    found = tree.arrays(["x", "name"], entry_start=start, entry_stop=start + 500)
                    assert found["x"].to_list() == list(range(start, start + 500))
                    assert found["name"].to_list() == [f"entry {i}" for i in range(start, start + 500)]

    running = [forked(work) for _ in range(8)]
    assert [os.waitpid(one, 0)[1] for one in running] == [0] * 8
    assert 0 < sum(one.stat().st_size for one in columns_in(tmp_path)) <= size
    assert not list(tmp_path.glob("*.partial"))


def test_a_killed_writer_leaves_nothing_that_is_used(
    path: Path, tmp_path: Path, wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: os.kill(os.getpid(), signal.SIGKILL))  # pyright: ignore[reportUnknownLambdaType]
        _, status = os.waitpid(forked(lambda: opened(path, tmp_path).arrays()), 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert len(list(tmp_path.glob("*.partial"))) == 1
    assert not columns_in(tmp_path)
    assert read(path, tmp_path)[0] == wanted
    assert not list(tmp_path.glob("*.partial"))
    assert len(columns_in(tmp_path)) == FIELDS


@pytest.mark.parametrize("call", ["posix_fallocate", "write"])
def test_a_full_disk_is_one_warning_and_reading_goes_on(
    path: Path, tmp_path: Path, wanted: list[Any], monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if call == "write":
        real = cache_module.writer_of
        monkeypatch.setattr(
            cache_module, "writer_of", lambda *given: lambda file: full() if file else real(*given)(None)
        )
    else:
        monkeypatch.setattr(os, "posix_fallocate", full)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert read(path, tmp_path)[0] == wanted
        assert read(path, tmp_path)[0] == wanted
    assert [str(one.message).startswith("columns are not kept in the cache") for one in caught] == [True]
    assert not list(tmp_path.glob("*.arrow")) + list(tmp_path.glob("*.partial"))


def test_what_was_not_used_for_longest_goes_first(path: Path, tmp_path: Path) -> None:
    with opened(path, tmp_path) as tree:
        tree.arrays(["x"])
        (first,) = columns_in(tmp_path)
        tree.arrays(["pt"])
        (second,) = set(columns_in(tmp_path)) - {first}
        past = time.time() - 3600
        os.utime(first, (past, past))
        os.utime(second, (past + 60, past + 60))
        tree.arrays(["x"])  # it is used again, and so is the youngest
    room = first.stat().st_size + second.stat().st_size
    with opened(path, tmp_path, column_cache_size=room) as tree:
        tree.arrays(["flag"])
    left = columns_in(tmp_path)
    assert first in left
    assert second not in left


def test_a_column_larger_than_the_cache_is_not_kept(path: Path, tmp_path: Path, wanted: list[Any]) -> None:
    assert read(path, tmp_path, column_cache_size=1000)[0] == wanted
    assert not columns_in(tmp_path)


def test_the_command_shows_and_clears_it(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read(path, tmp_path)
    monkeypatch.setenv("SAPWOOD_COLUMN_CACHE", str(tmp_path))
    assert cli.main(["cache"]) == 0
    assert ": 5 columns, " in capsys.readouterr().out
    assert cli.main(["cache", str(tmp_path), "--clear"]) == 0
    assert "removed 5 columns" in capsys.readouterr().out
    assert not columns_in(tmp_path)
    for more in ([], ["--clear"]):
        assert cli.main(["cache", str(tmp_path / "misspelt"), *more]) == 1
        assert "misspelt does not exist" in capsys.readouterr().err
        assert cli.main(["cache", str(path.parent), *more]) == 2
        assert "is not a cache of columns: it has other files" in capsys.readouterr().err
    # A program that has not run yet will make this one.
    monkeypatch.setenv("SAPWOOD_COLUMN_CACHE", str(tmp_path / "new"))
    assert cli.main(["cache"]) == 0
    assert "0 columns, 0 B (the folder does not exist)" in capsys.readouterr().out
    monkeypatch.delenv("SAPWOOD_COLUMN_CACHE")
    assert cli.main(["cache"]) == 2
    with pytest.raises(ArgumentError, match="column_cache is the path of a folder"):
        sapwood.open(path, column_cache=7)


def test_clearing_leaves_what_a_writer_is_writing(tmp_path: Path) -> None:
    cache = ColumnCache(tmp_path, 1 << 20)
    writing, left = tmp_path / "a.partial", tmp_path / "b.partial"
    left.write_bytes(b"left")
    with writing.open("xb") as file:
        cache_module.hold(file)
        cache.clear()
        assert writing.exists()
    assert not left.exists()


def test_a_cache_whose_lock_is_kept_is_not_waited_for(
    path: Path, tmp_path: Path, wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped process may keep it."""
    import fcntl

    monkeypatch.setattr(cache_module, "_TURN", 0.2)
    (tmp_path / "c").mkdir()
    with (tmp_path / "c" / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.warns(
            SapwoodWarning, match="columns are not kept in the cache .*another process keeps .*lock locked"
        ):
            assert read(path, tmp_path / "c")[0] == wanted
        before = time.monotonic()
        assert read(path, tmp_path / "c")[0] == wanted  # without another attempt
        assert time.monotonic() - before < 0.2 * FIELDS
    assert not columns_in(tmp_path / "c")


def test_a_child_of_a_fork_does_not_keep_the_lock(tmp_path: Path) -> None:
    cache = ColumnCache(tmp_path, 1 << 20)
    with cache._locked():  # pyright: ignore[reportPrivateUsage]
        child = os.fork()
        if not child:
            time.sleep(100)
            os._exit(0)
    try:
        with (tmp_path / "lock").open("ab") as file:
            assert cache_module.hold(file)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_links_in_a_cache_are_not_followed(path: Path, tmp_path: Path, wanted: list[Any]) -> None:
    target = tmp_path / "target"
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "lock").symlink_to(target)
    with pytest.warns(SapwoodWarning, match="columns are not kept in the cache"):
        assert read(path, tmp_path / "c")[0] == wanted
    assert not target.exists()
    (tmp_path / "c" / "lock").unlink()
    assert read(path, tmp_path / "c")[0] == wanted
    for column in columns_in(tmp_path / "c"):
        column.unlink()
        column.symlink_to(column)  # a loop
    with pytest.warns(SapwoodWarning, match="the cached column .* is damaged"):
        assert read(path, tmp_path / "c")[0] == wanted
    assert read(path, tmp_path / "c")[1] == 0


def test_a_folder_that_cannot_be_listed_is_no_error(
    path: Path, tmp_path: Path, wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to another user, for example."""
    (tmp_path / "c").mkdir()

    def refuse(folder: object) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.warns(SapwoodWarning, match="columns are not kept in the cache .*Permission denied"):
        assert read(path, tmp_path / "c")[0] == wanted
