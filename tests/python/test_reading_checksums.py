"""Checksums beside files: written on request, compared when records are read."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from servers import serving

import sapwood
from sapwood import SapwoodWarning, train
from sapwood.cli import main
from sapwood.errors import ArgumentError, ArgumentTypeError, CorruptError
from sapwood.storage.checksums import SUFFIX, beside, url_beside, write
from sapwood.tools import check, copy, merge, recover, write_checksums
from sapwood.tools.checking import RecordHead, records

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
N = 300


def events(start: int = 0, stop: int = N) -> dict[str, Any]:
    i = np.arange(start, stop)
    return {
        "i": i.astype(np.int32),
        "x": i * 0.5,
        "list": ak.unflatten(np.repeat(i, i % 3).astype(np.float32), i % 3),
        "text": ak.Array([f"text {one}" for one in i.tolist()]),
    }


def written(path: Path, *, checksums: bool = True, **options: Any) -> Path:
    """Write a file without compression: trees with several baskets, a directory, an object and an RNTuple."""
    with sapwood.recreate(path, compression=None, checksums=checksums, reproducible=True, **options) as file:
        tree = file.mktree("t", {name: column[:0] for name, column in events().items()})
        for start in range(0, N, 100):
            tree.extend(events(start, start + 100))
            tree.flush()
        file["folder/note"] = "a note"
        file["folder/h"] = np.histogram([1.0, 2.0, 2.5], bins=4)
        file.mkrntuple("n", {"q": np.arange(50)})
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "events.root")


def everything(path: Any, **options: Any) -> Any:
    """Read all values of a file."""
    with sapwood.open(path, **options) as file:
        values: list[Any] = [file["t"].arrays().to_list(), file["n"].arrays().to_list(), str(file["folder/note"])]
        values += [file["folder/h"].to_numpy()[0].tolist(), file.keys(), file.classnames()]
        titles = [(branch.name, branch.title) for branch in file["t"].branches]
        return [*values, titles, file["t"].title, file["folder/h"].title]


def places(path: Path) -> dict[str, tuple[int, int]]:
    """Return offset and length of the second basket of each branch."""
    with sapwood.open(path) as file:
        branches = file["t"].native.branches
        return {branch.name: (branch.basket_seeks[1], branch.basket_bytes[1]) for branch in branches}


def flip(path: Path, at: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= bit
    path.write_bytes(data)


def test_checksums_are_written_and_used(path: Path, tmp_path: Path) -> None:
    assert beside(path).name == f"events.root{SUFFIX}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in ({}, {"checksums": True}, {"checksums": False}):
            with sapwood.open(path, **options) as file:
                assert file.file.has_checksums is (options != {"checksums": False})
        whole = everything(path, checksums=True)
        assert whole == everything(path, checksums=False)
        assert pickle.loads(pickle.dumps(sapwood.open(path, checksums=True)["t"])).file.has_checksums
        # They go with the file, as copies of both.
        (tmp_path / "elsewhere").mkdir()
        for one in (path, beside(path)):
            shutil.copy(one, tmp_path / "elsewhere" / one.name)
        assert everything(tmp_path / "elsewhere" / path.name, checksums=True) == whole
    # What the writer collected is what the file has.
    collected = beside(path).read_bytes()
    assert write(path) == beside(path)
    assert beside(path).read_bytes() == collected
    with pytest.raises(ArgumentTypeError, match="checksums"):
        sapwood.open(path, checksums="yes")


@pytest.mark.parametrize("options", [{"atomic": True}, {"commit_every": None}, {"commit_every": 5000}])
def test_checksums_of_each_way_of_writing(tmp_path: Path, options: dict[str, Any]) -> None:
    path = written(tmp_path / "events.root", **options)
    collected = beside(path).read_bytes()
    assert everything(path, checksums=True) == everything(path, checksums=False)
    write(path)
    assert beside(path).read_bytes() == collected


def test_a_changed_byte_is_never_another_value(path: Path) -> None:
    whole, data = everything(path), path.read_bytes()
    outcomes: dict[str, int] = {"error": 0, "warned": 0, "same": 0}
    unnoticed = 0
    for at in range(0, len(data), 31):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                same = everything(path) == whole
                outcome = "same" if same else "warned"
                assert same or any("are not used" in str(one.message) for one in caught), at
            except sapwood.SapwoodError:
                outcome = "error"
            outcomes[outcome] += 1
            with contextlib.suppress(sapwood.SapwoodError):
                unnoticed += everything(path, checksums=False) != whole
    # Three tenths of this file are free. The pages of the RNTuple have checksums of their own; the values of the tree
    # have not.
    assert outcomes["error"] > 0.68 * len(data) / 31, outcomes
    assert unnoticed > 0.1 * len(data) / 31, unnoticed


def test_an_error_names_the_place(path: Path) -> None:
    seek, length = places(path)["x"]
    flip(path, seek + length - 3)
    with sapwood.open(path) as file:
        tree = file["t"]
        with pytest.raises(CorruptError, match="checksum") as caught:
            tree["x"].array()
        for word in ("events.root", "tree t", "branch x", f"at byte {seek}", "damaged, or was changed"):
            assert word in str(caught.value), caught.value
        # What is intact can be read.
        assert tree["x"].array(entry_stop=100).tolist() == events()["x"][:100].tolist()
        assert tree["i"].array().tolist() == list(range(N))
        with pytest.raises(CorruptError, match="checksum"):
            list(tree.iterate(["x"], step_size=50))
        with pytest.raises(CorruptError, match="checksum"):
            tree["x"].basket(1)
        with pytest.raises(CorruptError, match="checksum"):
            tree.arrays(["i"], "x > 3")
    with sapwood.open(path, checksums=False) as file:
        assert len(file["t"]["x"].array()) == N


def test_checksums_that_are_missing_or_of_another_file(path: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.root", checksums=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        everything(other)
    with pytest.warns(SapwoodWarning, match=r"other\.root\.sapwood-checksums are not used: the file does not exist"):
        everything(other, checksums=True)
    with sapwood.recreate(other, checksums=False) as file:
        file["t"] = events()
    shutil.copy(beside(path), beside(other))
    with pytest.warns(SapwoodWarning, match="are not used"):
        assert len(sapwood.open(other)["t"]["x"].array()) == N
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not sapwood.open(other, checksums=False).file.has_checksums
    with path.open("rb") as stream:
        for source in (path.read_bytes(), stream):
            with pytest.warns(SapwoodWarning, match="path or URL"):
                sapwood.open(source, checksums=True)
            assert not sapwood.open(source).file.has_checksums


def test_changes_of_the_file_are_noticed(path: Path) -> None:
    stale = beside(path).read_bytes()
    data = path.read_bytes()
    for change in (data + b"more", data[:-3], data[:70] + b"\0\0\0\1" + data[74:]):
        path.write_bytes(change)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                sapwood.open(path)
            except sapwood.SapwoodError:
                continue
            assert any("are not used" in str(one.message) for one in caught)
    path.write_bytes(data)
    with sapwood.update(path, checksums=False) as file:
        file["more"] = "text"
    assert beside(path).read_bytes() == stale
    with pytest.warns(SapwoodWarning, match="are not used"):
        everything(path)


def test_updates_keep_checksums(path: Path) -> None:
    seek, length = places(path)["x"]
    flip(path, seek + length - 3)
    with sapwood.update(path) as file:
        file["more"] = "text"
        file["folder/note"] = "another"
        del file["folder/h"]
        file["t"].extend(events(N, N + 50))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with sapwood.open(path) as file:
            assert file.file.has_checksums
            assert file["t"]["i"].array().tolist() == list(range(N + 50))
            assert file["more"] == "text"
            # Damage from before is not made good.
            with pytest.raises(CorruptError, match="checksum"):
                file["t"]["x"].array()
        flip(path, seek + length - 3)
        with sapwood.open(path) as file:
            assert file["t"]["x"].array().tolist() == [one * 0.5 for one in range(N + 50)]
    kept = beside(path).read_bytes()
    write(path)
    assert beside(path).read_bytes() == kept
    beside(path).unlink()
    with sapwood.update(path) as file:
        file["less"] = "text"
    assert not beside(path).exists()
    with sapwood.update(path, checksums=True) as file:
        file["least"] = "text"
    assert sapwood.open(path, checksums=True).file.has_checksums


def _changes() -> dict[str, Any]:
    """Return ways to change the file of `written`."""

    def write(file: Any) -> None:
        file["more"] = "text"

    def in_folder(file: Any) -> None:
        file["folder/more"] = "text"

    def delete(file: Any) -> None:
        del file["t"]

    def copied(file: Any) -> None:
        file["other"] = file["folder/h"]

    return {
        "write": write,
        "write in a directory": in_folder,
        "extend a tree": lambda file: file["t"].extend(events(N, N + 10)),
        "extend an RNTuple": lambda file: file["n"].extend({"q": [1]}),
        "add branches": lambda file: file.add_branches("t", {"more": np.arange(N)}),
        "copy": copied,
        "delete": delete,
        "commit": lambda file: file.commit(),
    }


@pytest.mark.parametrize("change", list(_changes()))
def test_no_update_hides_damage(path: Path, change: str) -> None:
    data, sums = path.read_bytes(), beside(path).read_bytes()
    with sapwood.open(path) as file:
        native = file.file.native
        heads = [head for head in records(native, native.begin, native.end) if isinstance(head, RecordHead)]
    each = {head.name if head.classname == "TBasket" else head.offset: head for head in heads if head.length > 0}
    refused = hidden = 0
    for number, head in enumerate(each.values()):
        # A bit near the end of the key, or of the object.
        place = head.offset + (head.key_bytes - 2 if number % 2 else head.length - 3)
        path.write_bytes(data)
        beside(path).write_bytes(sums)
        flip(path, place)
        damaged = path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with sapwood.update(path) as file:
                    _changes()[change](file)
            except CorruptError:
                refused += 1
                if change == "write":
                    assert path.read_bytes() == damaged and beside(path).read_bytes() == sums
            found = {one.code for one in check(str(path))}
        # What was deleted is not part of the file any more.
        kept = change != "delete" or head.classname not in ("TBasket", "TTree")
        hidden += kept and not found & {"checksum", "checksums-unused", "open"}
    assert refused >= 4 and hidden == 0


@pytest.mark.parametrize(
    ("name", "classname"), [("the key list", "TDirectory"), ("the streamer info", "TList"), ("free segments", "TFile")]
)
def test_a_refused_update_names_the_damaged_record(path: Path, name: str, classname: str) -> None:
    with sapwood.open(path) as file:
        native = file.file.native
        heads = [head for head in records(native, native.begin, native.end) if isinstance(head, RecordHead)]
    flip(path, [head for head in heads if head.classname == classname][-1].offset + 12)
    before = path.read_bytes()
    with pytest.raises(CorruptError, match=rf"checksum of .*{name}.* at byte \d+"):
        sapwood.update(path)
    assert path.read_bytes() == before
    with warnings.catch_warnings(), sapwood.update(path, checksums=False) as file:
        file["more"] = "text"


def test_targets_without_checksums(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="need a local file"):
        sapwood.recreate("memory://x.root", checksums=True)
    with pytest.raises(ArgumentError, match="need a local file"), (tmp_path / "stream").open("wb") as stream:
        sapwood.recreate(stream, checksums=True)
    with pytest.raises(ArgumentError, match="need a local file"):
        sapwood.update("memory://x.root", checksums=True)
    # Until the file is closed, there are none; an atomic file leaves those of the old one until then.
    with sapwood.recreate(path, checksums=True) as file:
        assert not beside(path).exists()
        file["a"] = "text"
    assert beside(path).exists()
    with sapwood.recreate(path, checksums=True, atomic=True) as file:
        assert sapwood.open(path).file.has_checksums
        file["b"] = "text"
    assert sapwood.open(path).file.has_checksums and sapwood.open(path)["b"] == "text"


def test_hostile_checksums_do_no_harm(path: Path) -> None:
    whole, stored = everything(path), beside(path).read_bytes()

    def hostile() -> Iterator[bytes]:
        yield from (b"", stored[:8], stored[:-1], stored + b"\0", os.urandom(5000), b"\xff" * 4000)
        for place in range(0, len(stored), 11):
            yield stored[:place] + bytes([stored[place] ^ 0x41]) + stored[place + 1 :]
        for count in (0, 1, 1 << 40, (1 << 64) - 1):
            yield stored[:16] + count.to_bytes(8, "little") + stored[24:]
        yield stored * (3 * path.stat().st_size // len(stored))

    for data in hostile():
        beside(path).write_bytes(data)
        with pytest.warns(SapwoodWarning, match="are not used"):
            assert everything(path) == whole
    beside(path).unlink()
    for make in (
        lambda: beside(path).mkdir(), lambda: os.mkfifo(beside(path)), lambda: beside(path).symlink_to(beside(path)),
        lambda: beside(path).symlink_to("/dev/zero"),
    ):  # fmt: skip
        make()
        with pytest.warns(SapwoodWarning, match="are not used"):
            assert everything(path) == whole
        beside(path).rmdir() if beside(path).is_dir() else beside(path).unlink()


def test_check_compares_and_writes(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {one.code for one in check(str(path), deep=True)} == {"checksums"}
    beside(path).unlink()
    assert list(check(str(path), deep=True)) == []
    assert main(["check", str(path), "--write-checksums"]) == 0
    assert f"checksums written: {beside(path)}" in capsys.readouterr().out
    assert write_checksums(path) == str(beside(path))
    seek, length = places(path)["x"]
    flip(path, seek + length - 3)
    (found,) = check(str(path), deep=True)
    assert (found.code, found.severity, found.byte) == ("checksum", "error", seek)
    before = beside(path).read_bytes()
    assert main(["check", str(path), "--write-checksums", "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["code"] == "checksum" and "no checksums written" in printed.err
    assert beside(path).read_bytes() == before
    with sapwood.update(path, checksums=False) as file:
        file["more"] = "text"
    assert {one.code for one in check(str(path))} == {"checksums-unused"}
    with pytest.raises(ArgumentError, match="local files only"):
        write_checksums("https://example.org/x.root")


def test_other_files_do_not_get_checksums_or_damage(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "out.root"
    merge(str(target), [str(path), str(path)])
    copy(f"{path}:t", str(tmp_path / "copied.root"))
    assert not beside(target).exists() and not beside(tmp_path / "copied.root").exists()
    target.unlink()
    seek, length = places(path)["x"]
    flip(path, seek + length - 3)
    with pytest.raises(CorruptError, match="checksum"):
        merge(str(target), [str(path), str(path)])
    assert not target.exists()
    report = recover(path, target)
    assert (report.trees["t"].entries, report.trees["t"].lost_entries) == (200, 100)
    with sapwood.open(target) as file:
        assert file["t"]["x"].array().tolist() == [one * 0.5 for one in (*range(100), *range(200, N))]


class Count(train.Task):
    """Counts entries."""

    branches = ("x",)

    def process(self, events: Any) -> dict[str, Any]:
        return {"n": len(events), "x": float(np.sum(np.asarray(events.x)))}


def test_trains_leave_out_damaged_steps(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.root"
    for suffix in ("", SUFFIX):
        shutil.copy(f"{path}{suffix}", f"{other}{suffix}")
    seek, length = places(path)["x"]
    flip(path, seek + length - 3)
    files = [f"{one}:t" for one in (path, other)]
    with pytest.raises(CorruptError, match="checksum"):
        train.run(Count(), files, threads=1)
    outcome = train.run(Count(), files, threads=1, skip_bad_files=True)
    assert {Path(one.path).name for one in outcome.skipped} == {"events.root"}
    assert all("checksum" in one.reason for one in outcome.skipped)


def test_remote_files_have_checksums_on_request(path: Path) -> None:
    name = beside(path).name
    with serving({path.name: path.read_bytes(), name: beside(path).read_bytes()}) as server:
        url = server.url(path.name)
        assert not sapwood.open(url).file.has_checksums
        assert not any("checksums" in line[0] for line in server.log)
        with sapwood.open(url, checksums=True) as file:
            assert file.file.has_checksums
            assert file["t"]["x"].array().tolist() == events()["x"].tolist()
        seek, length = places(path)["x"]
        flip(path, seek + length - 3)
        server.files[path.name] = path.read_bytes()
        with sapwood.open(url, checksums=True) as file, pytest.raises(CorruptError, match="checksum"):
            file["t"]["x"].array()
        server.files[name] = os.urandom(500)
        with pytest.warns(SapwoodWarning, match="are not used"):
            sapwood.open(url, checksums=True)
        del server.files[name]
        with pytest.warns(SapwoodWarning, match="are not used"):
            sapwood.open(url, checksums=True)


def test_the_checksums_of_a_url_are_before_its_question_mark() -> None:
    assert url_beside("https://host/x.root?a=b/c.root") == f"https://host/x.root{SUFFIX}?a=b/c.root"
    assert url_beside("root://host//x.root") == f"root://host//x.root{SUFFIX}"


@pytest.mark.parametrize("name", sorted(str(one.relative_to(GOLDEN)) for one in GOLDEN.rglob("*.root")))
def test_files_of_root_can_have_checksums(name: str, tmp_path: Path) -> None:
    path = tmp_path / "copy.root"
    shutil.copy(GOLDEN / name, path)
    try:
        write(path)
    except CorruptError:
        assert any(one.severity == "error" for one in check(str(GOLDEN / name)))
        return
    with warnings.catch_warnings(), sapwood.open(path, checksums=True) as file, sapwood.open(GOLDEN / name) as without:
        warnings.simplefilter("ignore")
        assert file.file.has_checksums
        count, faults = file.file.native.compare_checksums()
        assert count > 1 and not faults
        assert file.unreadable(None).keys() == without.unreadable(None).keys()


@pytest.mark.parametrize("command", ["rm", "mv", "rootcp", "rootcp from", "copy", "hadd -a"])
def test_no_command_hides_damage(path: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with sapwood.open(path) as file:
        native = file.file.native
        heads = [head for head in records(native, native.begin, native.end) if isinstance(head, RecordHead)]
    data, sums = path.read_bytes(), beside(path).read_bytes()
    other = written(path.with_name("other.root"), checksums=False)
    given, target = other.read_bytes(), path.with_name("target.root")
    call = {
        "rm": ["rm", f"{path}:folder/note"],
        "mv": ["mv", f"{path}:folder/h", f"{path}:moved"],
        "rootcp": ["rootcp", f"{other}:folder/h", f"{path}:copied"],
        "rootcp from": ["rootcp", f"{path}:t", str(other)],
        "copy": ["copy", f"{path}:t", str(target)],
        "hadd -a": ["hadd", "-a", str(path), str(other)],
    }[command]
    refused = 0
    for number, head in enumerate({head.offset: head for head in heads if head.length > 0}.values()):
        path.write_bytes(data)
        beside(path).write_bytes(sums)
        other.write_bytes(given)
        flip(path, head.offset + (head.key_bytes - 2 if number % 2 else head.length - 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = main(call)
        refused += code != 0
        errors = capsys.readouterr().err
        assert code == 0 or str(path) in errors, errors
        if command in ("rootcp from", "copy", "hadd -a") and code == 0:
            # What was read, or written again, is right.
            found = {"copy": target, "rootcp from": other, "hadd -a": path}[command]
            with sapwood.open(found) as file:
                rows = file["t"].arrays(list(events())).to_list()
                if command == "hadd -a":
                    assert file["n"].arrays()["q"].to_list() == [*range(50), *range(50)]
            assert rows == ak.zip(events(), depth_limit=1).to_list() * (2 if command == "hadd -a" else 1)
        if command != "hadd -a" or code != 0:
            deleted = (command, head.name) in {("rm", "note"), ("mv", "h")}
            assert deleted or {one.code for one in check(str(path))} & {"checksum", "checksums-unused", "open"}
        target.unlink(missing_ok=True)
    assert refused > 0
