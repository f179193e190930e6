"""Checkpoints that this user did not write are never loaded."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sapwood
from sapwood.train.execution import checkpoint as checkpoints
from sapwood.train.execution.checkpoint import Checkpoint
from sapwood.train.execution.signing import SIZE, key_path, signature


class Attack:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state" / "key"
    monkeypatch.setenv("SAPWOOD_CHECKPOINT_KEY", str(path))
    return path


def loaded(path: Path) -> Any:
    return Checkpoint(path, {"a": "b"}).load()


def refused(path: Path, match: str = "is not signed with the key") -> None:
    with pytest.raises(sapwood.StorageError, match=match):
        loaded(path)


def test_a_pickle_in_place_of_a_checkpoint_runs_nothing(tmp_path: Path, key: Path) -> None:
    path, proof = tmp_path / "state.ck", tmp_path / "proof"
    content = pickle.dumps((checkpoints._VERSION, {"a": "b"}, Attack(proof)))
    begin = checkpoints._MAGIC
    for made in (content, begin + content, begin + bytes(SIZE) + content, begin + signature(b"") + content, begin, b""):
        path.write_bytes(made)
        refused(path)
    assert not proof.exists()
    path.write_bytes(begin + signature(content) + content)
    assert loaded(path) is None  # the attack works, were it signed
    assert proof.is_dir()


def test_a_checkpoint_with_a_flipped_bit_or_of_another_key_is_not_loaded(tmp_path: Path, key: Path) -> None:
    path = tmp_path / "state.ck"
    Checkpoint(path, {"a": "b"}).save([1, 2])
    assert loaded(path) == [1, 2]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    intact = path.read_bytes()
    for place in range(len(intact)):
        path.write_bytes(intact[:place] + bytes([intact[place] ^ 1]) + intact[place + 1 :])
        refused(path)
    path.write_bytes(intact)
    key.unlink()
    refused(path)


def test_the_key_is_made_once_and_for_its_user_alone(key: Path) -> None:
    code = "from sapwood.train.execution.signing import signature; print(signature(b'x').hex())"
    children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)]
    assert {child.communicate()[0].decode().strip() for child in children} == {signature(b"x").hex()}
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert [one.name for one in key.parent.iterdir()] == ["key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_may_read_or_write_is_not_used(tmp_path: Path, key: Path, mode: int) -> None:
    path = tmp_path / "state.ck"
    Checkpoint(path, {"a": "b"}).save([1, 2])
    key.chmod(mode)
    refused(path, "other users may read or write it")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_a_key_of_another_user_is_not_used(tmp_path: Path, key: Path) -> None:
    signature(b"")
    os.chown(key, 12345, -1)
    refused(tmp_path / "state.ck", "belongs to user 12345")


@pytest.mark.parametrize("size", [0, SIZE - 1, SIZE + 1])
def test_a_key_of_another_size_is_not_used(tmp_path: Path, key: Path, size: int) -> None:
    signature(b"")
    key.write_bytes(bytes(size))
    refused(tmp_path / "state.ck", f"does not have {SIZE} bytes")


def test_a_key_that_is_a_link_or_cannot_be_made_is_an_error_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(bytes(SIZE))
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for path in (tmp_path / "link", tmp_path / "file" / "key"):
        monkeypatch.setenv("SAPWOOD_CHECKPOINT_KEY", str(path))
        refused(tmp_path / "state.ck", "SAPWOOD_CHECKPOINT_KEY can name another file")


def test_the_key_stands_among_the_states_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SAPWOOD_CHECKPOINT_KEY")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert key_path() == tmp_path / "sapwood" / "checkpoint.key"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert key_path() == tmp_path / ".local" / "state" / "sapwood" / "checkpoint.key"


def test_pipes_and_devices_in_place_of_a_checkpoint_or_a_key_are_not_waited_for(tmp_path: Path, key: Path) -> None:
    path = tmp_path / "state.ck"
    os.mkfifo(path)
    refused(path, "not a regular file")
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(path, "not a regular file")
    path.unlink()
    key.parent.mkdir(exist_ok=True)
    key.unlink(missing_ok=True)
    os.mkfifo(key, 0o600)
    with pytest.raises(sapwood.StorageError, match="not a regular file"):
        Checkpoint(path, {"a": "b"})


def test_without_a_home_folder_the_key_has_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAPWOOD_CHECKPOINT_KEY", "~no_such_user/key")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sapwood.StorageError, match="there is no home folder"):
        Checkpoint(tmp_path / "state.ck", {"a": "b"})
    assert list(tmp_path.iterdir()) == []
