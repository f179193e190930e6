"""Files that were cut off, whose keys are found again, and headers that are not as they should be."""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.files.file import ReadOnlyFile


def test_a_file_cut_off_says_so(tmp_path: Path) -> None:
    path = tmp_path / "cut.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1, 2, 3]}
    whole = path.read_bytes()
    # Behind the record of the directory, whose start is byte 100 and the length of its name in byte 28.
    (name_bytes,) = struct.unpack_from(">I", whole, 28)
    # There, `fSeekKeys` is the place of the list of keys.
    (version,) = struct.unpack_from(">H", whole, 100 + name_bytes)
    form, offset = (">Q", 34) if version > 1000 else (">I", 26)
    (seek,) = struct.unpack_from(form, whole, 100 + name_bytes + offset)
    path.write_bytes(whole[: seek + 10])
    with pytest.warns(sapwood.SapwoodWarning, match="keys of / was lost"):
        sapwood.open(path).close()
    listed = subprocess.run([sys.executable, "-m", "sapwood", "ls", str(path)], capture_output=True, text=True)
    assert "sapwood: warning: the list of keys of / was lost" in listed.stderr


@pytest.mark.parametrize("left", [0, 30, 150, 180, 300, 960])
def test_a_file_cut_off_before_its_keys_is_an_error_of_the_system(tmp_path: Path, left: int) -> None:
    path = tmp_path / "cut.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"x": np.random.default_rng(1).random(1000)}
    os.truncate(path, left)
    with pytest.raises(OSError, match="bytes") as raised:
        sapwood.open(path)
    assert isinstance(raised.value, sapwood.CutOffError)


@pytest.mark.filterwarnings("ignore:the list of keys:sapwood.SapwoodWarning")
def test_a_file_cut_off_is_not_skipped_as_one_without_the_tree(tmp_path: Path) -> None:
    for name in ("whole.root", "cut.root"):
        with sapwood.recreate(tmp_path / name) as file:
            file["t"] = {"x": np.random.default_rng(1).random(1000)}
    os.truncate(tmp_path / "cut.root", 4000)
    files = {str(tmp_path / "*.root"): "t"}
    for read in (sapwood.concatenate, lambda *given, **options: list(sapwood.iterate(*given, **options))):
        with pytest.raises(sapwood.CorruptError, match="the list of keys was lost"):
            read(files, "x", allow_missing=True)
    with pytest.raises(sapwood.CorruptError, match="the list of keys was lost"):
        list(sapwood.num_entries(files))


def test_a_version_below_zero_is_that_of_a_small_file(tmp_path: Path) -> None:
    with sapwood.recreate(path := tmp_path / "small.root") as file:
        file["t"] = {"x": [1, 2, 3]}
    raw = bytearray(path.read_bytes())
    version = int.from_bytes(raw[4:8], "big")
    raw[4:8] = (version - 1_000_000).to_bytes(4, "big", signed=True)
    path.write_bytes(raw)
    with sapwood.open(path) as file:
        assert file.file.root_version_tuple == (version // 10000, version // 100 % 100, version % 100)
        assert file["t"]["x"].array().tolist() == [1, 2, 3]


def test_pages_of_rntuples_are_no_keys_of_a_file_without_a_list_of_keys(tmp_path: Path) -> None:
    path = tmp_path / "file.root"
    with sapwood.recreate(path) as file:
        file.mkrntuple("n", {"x": np.arange(100)})
    data = bytearray(path.read_bytes())
    names = struct.unpack_from(">i", data, 28)[0]
    data[100 + names + 26 : 100 + names + 30] = bytes(4)  # the place of the list
    path.write_bytes(data)
    with pytest.warns(sapwood.SapwoodWarning, match="keys of / was lost"):
        file = sapwood.open(path)
    with file:
        assert file.keys() == ["n;1"]
        assert file["n/x"].array().tolist() == list(range(100))


def test_an_empty_directory_without_a_list_of_keys_has_lost_nothing(tmp_path: Path) -> None:
    with sapwood.recreate(path := tmp_path / "empty.root") as file:
        file.mkdir("folder")
        file["word"] = "kept"
    with sapwood.open(path) as file:
        key = file.key("folder")
        place = key.fSeekKey + key.fKeylen
    raw = bytearray(path.read_bytes())
    assert raw[place + 26 : place + 30] != bytes(4), "fSeekKeys is behind a version, two dates, two lengths, two places"
    raw[place + 10 : place + 14] = raw[place + 26 : place + 30] = bytes(4)
    path.write_bytes(raw)
    with sapwood.open(path) as file:
        assert file.keys() == ["folder;1", "word;1"]
        assert file["folder"].keys() == []


def _write(path: Path, value: int) -> bytes:
    with sapwood.recreate(path, compression=None, reproducible=True) as file:
        file["t"] = {"x": np.full(1000, value), "y": np.full(1000, value)}
    return path.read_bytes()


@pytest.mark.parametrize("how", ["other values", "shorter"])
def test_a_file_overwritten_under_a_reader_is_noticed(tmp_path: Path, how: str) -> None:
    first, second = _write(tmp_path / "a.root", 1), _write(tmp_path / "b.root", 2)
    assert len(first) == len(second)
    path = tmp_path / "a.root"
    with sapwood.open(path) as file:
        tree = file["t"]
        assert tree["x"].array().tolist() == [1] * 1000
        before = path.stat()
        with path.open("r+b") as out:
            out.write(second)
            if how == "shorter":
                out.truncate(len(second) - 1)
        # Clocks of file systems may be coarse.
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        for read in (tree.arrays, tree["y"].array, lambda: next(iter(tree.iterate()))):
            with pytest.raises(sapwood.StorageError, match="changed while it was read"):
                read()
    with sapwood.open(path) as file:
        if how == "other values":
            assert file["t"]["y"].array().tolist() == [2] * 1000


@pytest.mark.parametrize("opened", [True, False])
def test_a_contradiction_in_a_file_that_grows_is_said_to_be_a_change(tmp_path: Path, *, opened: bool) -> None:
    """A writer that goes on with a file may have put something else where a deleted tree was."""
    data = _write(tmp_path / "a.root", 1)
    path = tmp_path / "a.root"
    with sapwood.open(path) as file:
        tree = file["t"] if opened else None
        with path.open("r+b") as out:
            out.seek(300)
            out.write(bytes(len(data) - 300) + b"more")
        with pytest.raises(sapwood.ChangedFileError, match="open it again"):
            (file["t"] if tree is None else tree["x"]).array()


def test_what_is_seen_while_a_writer_commits_is_one_commit(tmp_path: Path) -> None:
    """Each commit has the trees of one number, in the place of older ones that are deleted."""
    path = tmp_path / "live.root"
    program = f"""
import numpy as np, sapwood
for number in range(60):
    with sapwood.recreate({str(path)!r}) if number == 0 else sapwood.update({str(path)!r}) as file:
        for name in ("a", "b"):
            if number > 0:
                del file[name]
            file[name] = {{"x": np.full(1000 + number, number)}}
"""
    writer = subprocess.Popen([sys.executable, "-c", program])
    seen: set[int] = set()
    while writer.poll() is None or not seen:
        try:
            with sapwood.open(path) as file:
                names = file.keys(cycle=False)
                assert names in ([], ["a"], ["a", "b"], ["b"])
                for name in names:
                    values = file[name]["x"].array(library="np")
                    assert values.tolist() == [int(values[0])] * (1000 + int(values[0]))
                    seen.add(int(values[0]))
        except sapwood.MissingFileError:
            assert not seen
        except sapwood.ChangedFileError:
            continue
    assert writer.wait() == 0
    assert len(seen) > 1


def _overlaps(one: sapwood.ReadOnlyKey, place: int) -> bool:
    return one.fSeekKey <= place < one.fSeekKey + one.fNbytes


@pytest.mark.parametrize("inside", ["", "d/"])
def test_an_object_in_whose_place_there_is_another_one(tmp_path: Path, inside: str) -> None:
    path = tmp_path / "live.root"
    with sapwood.recreate(path, compression=None) as file:
        file[f"{inside}a"] = "one" * 1000
        file[f"{inside}z"] = "last"
    with sapwood.open(path) as file:
        place = file.key(f"{inside}a").fSeekKey
        with sapwood.update(path, compression=None) as writer:
            del writer[f"{inside}a"]
        with sapwood.update(path, compression=None) as writer:
            for number in range(10):
                writer[f"{inside}{number}"] = "two" * 990
        with sapwood.open(path) as again:
            assert any(_overlaps(again.key(f"{inside}{number}"), place) for number in range(10))
        with pytest.raises(sapwood.ChangedFileError, match="a;1 was removed or replaced"):
            _ = file[f"{inside}a"]
        assert file[f"{inside}z"] == "last"


@pytest.mark.parametrize("inside", ["", "d/"])
def test_a_tree_in_whose_place_there_is_another_one(tmp_path: Path, inside: str) -> None:
    """The tree is open when it is deleted, and its baskets are overwritten."""
    path = tmp_path / "live.root"
    with sapwood.recreate(path, compression=None) as file:
        file[f"{inside}a"] = {"x": np.full(3000, 1)}
        file[f"{inside}z"] = {"x": np.full(3000, 9)}
    with sapwood.open(path) as file:
        tree, other = file[f"{inside}a"], file[f"{inside}z"]
        with sapwood.update(path, compression=None) as writer:
            del writer[f"{inside}a"]
        with sapwood.update(path, compression=None) as writer:
            for number in range(5):
                writer[f"{inside}{number}"] = {"x": np.full(2900, 2)}
        with sapwood.open(path) as again:
            places = [again[f"{inside}{number}"]["x"].basket_seek(0) for number in range(5)]
            assert any(abs(place - tree["x"].basket_seek(0)) < 2900 * 8 for place in places)
        with pytest.raises(sapwood.ChangedFileError, match="a;1 was removed or replaced"):
            tree["x"].array()
        assert (other["x"].array(library="np") == 9).all()


@pytest.mark.parametrize("inside", ["", "d/"])
@pytest.mark.parametrize("kind", ["ttree", "rntuple"])
def test_a_table_to_which_a_writer_adds_entries_has_its_own(tmp_path: Path, kind: str, inside: str) -> None:
    path = tmp_path / "live.root"
    with sapwood.recreate(path, compression=None) as writer:
        make = writer.mktree if kind == "ttree" else writer.mkrntuple
        table = make(f"{inside}t", {"x": np.arange(300)})
        writer.commit()
        with sapwood.open(path) as file:
            own = file[f"{inside}t"]
            for number in range(20):
                table.extend({"x": np.arange(300)})
                writer[f"{inside}other{number}"] = "text"
                writer.commit()
                found = own["x"].array(library="np")
                assert np.array_equal(found, np.arange(300))
                own = file[f"{inside}t"] if number == 10 else own


def test_a_key_list_past_the_end_of_a_file_that_is_being_written(tmp_path: Path) -> None:
    """A writer has appended a key list, and the directory leads to it, after the size of the file was read."""
    path = tmp_path / "live.root"
    _write(path, 1)
    data = bytearray(path.read_bytes())
    begin, name = (int.from_bytes(data[at : at + 4], "big") for at in (8, 28))
    at = begin + name + 26  # fSeekKeys
    with ReadOnlyFile(path) as file:
        data[at : at + 4] = (len(data) + 100).to_bytes(4, "big")
        with path.open("r+b") as out:
            out.write(data + bytes(1000))
        with pytest.raises(sapwood.ChangedFileError, match="open it again"):
            _ = file.root_directory


def test_a_file_that_was_emptied_after_it_was_opened(tmp_path: Path) -> None:
    """A writer that recreates a file empties it first."""
    path = tmp_path / "live.root"
    _write(path, 1)
    with ReadOnlyFile(path) as file:
        path.write_bytes(b"")
        with pytest.raises(sapwood.ChangedFileError, match="open it again"):
            _ = file.root_directory


def test_a_local_file_that_changed_since_it_was_pickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.root"
    _write(path, 1)
    with sapwood.open(path) as file:
        handle = pickle.dumps(file["t"])
    assert pickle.loads(handle)["x"].array().tolist() == [1] * 1000
    before = path.stat()
    _write(path, 2)
    assert path.stat().st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(sapwood.StorageError, match="since it was opened"):
        pickle.loads(handle)
    # A writer goes on with it; a copy on another machine was made at another time.
    with path.open("ab") as out:
        out.write(b"more")
    assert pickle.loads(handle).num_entries == 1000
    os.truncate(path, before.st_size)
    monkeypatch.setattr("platform.node", lambda: "elsewhere")
    assert pickle.loads(handle).num_entries == 1000


def test_a_file_that_a_writer_goes_on_with_is_no_other(tmp_path: Path) -> None:
    """A reader keeps what it has opened, whether the file has grown since then or its header was written last."""
    path = tmp_path / "grows.root"
    with sapwood.recreate(path) as out:
        tree = out.mktree("t", {"x": "int64"}, auto_flush=1000)
        tree.extend({"x": np.arange(1000)})
        out.commit()
        with sapwood.open(path) as file:
            tree.extend({"x": np.arange(1000)})
            out.commit()
            assert file["t"]["x"].array().tolist() == list(range(1000))
        old_header = path.read_bytes()[:300]
        tree.extend({"x": np.arange(1000)})
        out.commit()
        new_header = path.read_bytes()[:300]
        with path.open("r+b") as raw:
            raw.write(old_header)
        with sapwood.open(path) as file:
            before = path.stat()
            with path.open("r+b") as raw:
                raw.write(new_header)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
            assert path.stat().st_size == before.st_size
            assert file["t"]["x"].array().tolist()[:2000] == [*range(1000), *range(1000)]
