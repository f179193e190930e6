"""Who may access files that are written: temporary files, replaced files, and files with data of others."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sapwood
from sapwood import cli
from sapwood.errors import StorageError
from sapwood.lab.advice.rewriting import rewrite
from sapwood.storage import placing
from sapwood.storage.placing import claim, placed, protect
from sapwood.tools.merging import merge

DATA = {"x": np.arange(1000.0), "n": np.arange(1000)}
TOKEN = "0123456789abcdef"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs modes of files")


@pytest.fixture(autouse=True)
def usual_umask() -> Generator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return written(tmp_path / "source.root")


def written(path: Path, **options: Any) -> Path:
    with sapwood.recreate(path, **options) as file:
        file["t"] = DATA
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def run(*words: object) -> None:
    assert cli.main([str(word) for word in words]) == 0


def updated(_: Path, target: Path) -> None:
    with sapwood.update(target) as file:
        file["u"] = DATA


def placed_text(_: Path, target: Path) -> None:
    with placed(target) as beside:
        beside.write_text("text")


REPLACING: dict[str, Callable[[Path, Path], object]] = {
    "placed": placed_text,
    "recreate": lambda _, target: written(target),
    "atomic": lambda _, target: written(target, atomic=True),
    "update": updated,
    "rewrite": lambda source, target: rewrite([str(source)], str(target), None),
    "rewrite a tree": lambda source, target: rewrite([str(source)], str(target), None, tree="t"),
    "merge": lambda source, target: merge(target, [source], overwrite=True),
    "hadd -f": lambda source, target: run("hadd", "-f", target, source),
    "hadd -a": lambda source, target: run("hadd", "-a", target, source),
    "rootcp": lambda source, target: run("rootcp", "--recreate", f"{source}:t", target),
    "convert": lambda source, target: run("convert", source, target),
    "recover": lambda source, target: run("recover", source, target),
}


@pytest.mark.parametrize("name", REPLACING)
@pytest.mark.parametrize("allowed", [0o600, 0o660, 0o604])
def test_a_replaced_file_keeps_its_mode(name: str, allowed: int, source: Path, tmp_path: Path) -> None:
    target = written(tmp_path / "target.root")
    target.chmod(allowed)
    REPLACING[name](source, target)
    assert oct(mode(target)) == oct(allowed)
    if name not in ("update", "placed"):
        with sapwood.open(target) as file:
            assert file["Events" if name == "convert" else "t"].num_entries in (1000, 2000)
    assert {one.name for one in tmp_path.iterdir()} == {"source.root", "target.root"}


@pytest.mark.parametrize("name", [name for name in REPLACING if name not in ("update", "hadd -a")])
def test_a_new_file_follows_the_umask(name: str, source: Path, tmp_path: Path) -> None:
    os.umask(0o027)
    target = tmp_path / "target.root"
    REPLACING[name](source, target)
    assert oct(mode(target)) == "0o640"


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".jsonl", ".csv", ".h5"])
def test_a_replaced_table_of_another_format_keeps_its_mode(suffix: str, source: Path, tmp_path: Path) -> None:
    target = tmp_path / f"table{suffix}"
    target.touch(0o600)
    run("convert", source, target)
    assert oct(mode(target)) == "0o600" and target.stat().st_size > 1000


@pytest.mark.parametrize("allowed", [0o600, 0o640, 0o700])
def test_files_beside_have_the_access_rights_of_the_data(allowed: int, source: Path) -> None:
    beside = [Path(f"{source}.sapwood-{kind}") for kind in ("index", "checksums")]
    for _ in range(2):
        run("stats", source, "--index")
        run("check", source, "--write-checksums")
        source.chmod(allowed)
    assert [oct(mode(one)) for one in beside] == [oct(allowed & 0o666)] * 2
    written(source, atomic=True, index=True, checksums=True)
    assert [oct(mode(one)) for one in beside] == [oct(allowed & 0o666)] * 2


def test_cached_columns_have_the_access_rights_of_the_data(source: Path, tmp_path: Path) -> None:
    source.chmod(0o600)
    cache = tmp_path / "cache"
    cache.mkdir()
    with sapwood.open(source, column_cache=cache) as file:
        file["t"].arrays(library="np")
    assert {oct(mode(one)) for one in cache.glob("*.arrow")} == {"0o600"}


@pytest.mark.parametrize("name", ["placed", "atomic", "rewrite", "rewrite a tree", "convert"])
def test_only_its_user_can_read_a_file_before_it_replaces_a_private_one(
    name: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = written(tmp_path / "target.root")
    target.chmod(0o600)
    seen: list[str] = []
    replace = Path.replace

    def look(path: Path, to: Path) -> Path:
        seen.append(oct(mode(path)))
        return replace(path, to)

    monkeypatch.setattr(placing, "protect", lambda *_: None)
    monkeypatch.setattr(Path, "replace", look)
    REPLACING[name](source, target)
    assert seen == ["0o600"]


PLANTED = [name for name in REPLACING if name not in ("update", "recreate", "rootcp")]


@pytest.mark.parametrize("name", [*PLANTED, "index", "checksums"])
def test_a_link_with_the_name_of_a_temporary_file_is_not_followed(
    name: str, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = written(tmp_path / "target.root")
    victim = tmp_path / "victim"
    victim.write_text("victim")
    monkeypatch.setattr(secrets, "token_hex", lambda *_: TOKEN)
    kept = target.read_bytes()
    suffixes = ("", placing.INDEX, placing.CHECKSUMS)
    for one in (Path(f"{target}{suffix}") for suffix in suffixes):
        one.with_name(f"{one.name}.{TOKEN}.partial").symlink_to(victim)
        one.with_name(f".{one.stem}.{TOKEN}{one.suffix}").symlink_to(victim)
    operations: dict[str, Callable[[Path, Path], object]] = {
        **REPLACING,
        "index": lambda _, target: cli.main(["stats", str(target), "--index"]),
        "checksums": lambda _, target: cli.main(["check", str(target), "--write-checksums"]),
    }
    with contextlib.suppress(AssertionError, OSError):
        operations[name](source, target)
    assert victim.read_text() == "victim" and target.read_bytes() == kept
    assert not Path(f"{target}{placing.INDEX}").exists() and not Path(f"{target}{placing.CHECKSUMS}").exists()


def test_temporary_names_cannot_be_guessed(tmp_path: Path) -> None:
    with placed(tmp_path / "a.txt") as first, placed(tmp_path / "a.txt") as second:
        assert first != second and str(os.getpid()) not in first.name
        assert len(first.name) == len(".a.0123456789abcdef.txt")


def test_a_part_is_not_written_through_a_link(tmp_path: Path) -> None:
    victim, part = tmp_path / "victim", tmp_path / ".out.part0.root"
    victim.write_text("victim")
    part.symlink_to(victim)
    claim(part, 0o600)
    assert not part.is_symlink() and mode(part) == 0o600
    part.write_text("own")
    claim(part, 0o600)
    assert part.read_text() == "own" and victim.read_text() == "victim"
    os.link(part, tmp_path / "another name")
    claim(part, 0o600)
    assert part.read_text() == "" and (tmp_path / "another name").read_text() == "own"


def test_without_its_group_a_file_gives_no_rights_to_another_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    like, path = tmp_path / "like", tmp_path / "path"
    like.touch()
    like.chmod(0o664)
    path.touch(0o600)
    groups = {like.stat().st_gid, 12345}
    monkeypatch.setattr(os, "fchown", lambda *_: None)
    protect(path, like)
    assert oct(mode(path)) == "0o664"
    if os.getuid() != 0:
        pytest.skip("only root may give a file to any group")
    os.chown(like, -1, max(groups))
    protect(path, like)
    assert oct(mode(path)) == "0o644"
    like.chmod(0o640)
    protect(path, like)
    assert oct(mode(path)) == "0o600"


@pytest.mark.skipif(os.name == "nt" or os.getuid() != 0, reason="only root may give files to others")
def test_a_file_that_root_replaces_keeps_owner_and_group(source: Path, tmp_path: Path) -> None:
    target = written(tmp_path / "target.root")
    os.chown(target, 1234, 5678)
    target.chmod(0o640)
    written(target, atomic=True, index=True, checksums=True)
    for one in (target, Path(f"{target}{placing.INDEX}"), Path(f"{target}{placing.CHECKSUMS}")):
        assert (one.stat().st_uid, one.stat().st_gid, oct(mode(one))) == (1234, 5678, "0o640")


def acl(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


def test_access_control_lists_are_kept(source: Path, tmp_path: Path) -> None:
    target = written(tmp_path / "target.root")
    nobody = 0xFFFFFFFF
    # The user, user 1234, the group, the mask, others.
    listed = acl((1, 6, nobody), (2, 4, 1234), (4, 0, nobody), (16, 4, nobody), (32, 0, nobody))
    try:
        os.setxattr(target, "system.posix_acl_access", listed)
    except (AttributeError, OSError) as error:
        pytest.skip(f"no access control lists here: {error}")
    written(target, atomic=True, checksums=True)
    for one in (target, Path(f"{target}{placing.CHECKSUMS}")):
        assert os.getxattr(one, "system.posix_acl_access") == listed
    os.removexattr(target, "system.posix_acl_access")
    target.chmod(0o640)
    folder = acl((1, 7, nobody), (2, 7, 1234), (4, 7, nobody), (16, 7, nobody), (32, 5, nobody))
    os.setxattr(tmp_path, "system.posix_acl_default", folder)
    written(target, atomic=True)
    assert oct(mode(target)) == "0o640" and "system.posix_acl_access" not in os.listxattr(target)


_KILLED = """
import os, sys, sapwood
import numpy as np
file = sapwood.recreate(sys.argv[1], atomic=True)
file["t"] = {"x": np.arange(1000.0)}
file.file.commit()
os._exit(1)
"""


def test_the_file_of_a_killed_writer_can_be_recovered(tmp_path: Path) -> None:
    target = tmp_path / "target.root"
    subprocess.run([sys.executable, "-c", _KILLED, target], timeout=60, check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith("target.root.") and left.name.endswith(".partial")
    run("recover", left, target)
    with sapwood.open(target) as file:
        assert file["t/x"].array(library="np").tolist() == DATA["x"].tolist()


def test_two_atomic_writers_of_a_new_file_exclude_each_other(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root", atomic=True) as file:
        with pytest.raises(StorageError, match="already open for writing"):
            sapwood.recreate(tmp_path / "a.root", atomic=True)
        file["t"] = DATA
    assert {one.name for one in tmp_path.iterdir()} == {"a.root"}
