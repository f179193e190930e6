"""Checkpoints that this user did not write are never loaded."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import test_train_checkpoints
from test_train_checkpoints import Counts, make, stopped

import sapwood
from sapwood import train
from sapwood.train.execution import checkpoint as checkpoints
from sapwood.train.execution.checkpoint import Checkpoint
from sapwood.train.execution.signing import SIZE, key_path, signature

folder = test_train_checkpoints.folder


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


def signed(path: Path, state: object) -> None:
    content = pickle.dumps(state)
    path.write_bytes(checkpoints._MAGIC + signature(content) + content)


def renumbered(path: Path) -> None:
    """Give a checkpoint the version before the present one."""
    version, identity, state = pickle.loads(path.read_bytes()[checkpoints.BEGIN :])
    signed(path, (version - 1, identity, state))


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "a byte is missing": (lambda path: os.truncate(path, path.stat().st_size - 1), "is not signed with the key"),
    "half is missing": (lambda path: os.truncate(path, path.stat().st_size // 2), "is not signed with the key"),
    "empty": (lambda path: os.truncate(path, 0), "is not signed with the key"),
    "only its head": (lambda path: os.truncate(path, checkpoints.BEGIN), "is not signed with the key"),
    "another file": (lambda path: path.write_text("results"), "is not signed with the key"),
    "writable by others": (lambda path: path.chmod(0o666), "other users may write to it"),
    "of another user": (lambda path: os.chown(path, 12345, -1), "belongs to user 12345"),
    "of another version": (renumbered, r"belongs to another run \(version differ\)"),
    "not a triple": (lambda path: signed(path, 5), "cannot be read: TypeError.*Remove it"),
    "of a class that is gone": (
        lambda path: signed(path, Attack(Path("x"))) or path.write_bytes(broken(path)),
        "cannot be read: .*Remove it",
    ),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be read|not a regular file"),
}


def broken(path: Path) -> bytes:
    """Return a checkpoint with the name of a module that there is not."""
    content = path.read_bytes()[checkpoints.BEGIN :].replace(b"posix", b"nosix")
    return checkpoints._MAGIC + signature(content) + content


@pytest.mark.parametrize("change", REFUSED)
def test_a_run_with_a_checkpoint_that_is_not_its_own_is_refused(
    folder: Path, tmp_path: Path, key: Path, change: str
) -> None:
    """It is not changed, and nothing is computed."""
    if change == "of another user" and os.getuid() != 0:
        pytest.skip("only root can give a file away")
    state = tmp_path / "run.ck"
    stopped(Counts(), folder, state)
    make_it, message = REFUSED[change]
    make_it(state)
    before = state.is_file() and state.read_bytes()
    steps: list[int] = []
    with pytest.raises(sapwood.SapwoodError, match=message) as failed:
        train.run(Counts(), folder, checkpoint=state, progress=lambda progress: steps.append(progress.entries))
    assert str(state) in str(failed.value)
    assert not any(steps) and (state.is_file() and state.read_bytes()) == before


def test_a_checkpoint_of_another_data_set_is_refused(folder: Path, tmp_path: Path, key: Path) -> None:
    state, other = tmp_path / "run.ck", tmp_path / "other"
    stopped(Counts(), folder, state)
    other.mkdir()
    make(other / "a0.root", 0)
    for inputs in (other, [*sorted(map(str, folder.iterdir())), str(other / "a0.root")], sorted(folder.iterdir())[1:]):
        with pytest.raises(sapwood.ArgumentError, match=r"run\.ck belongs to another run \(list of files"):
            train.run(Counts(), inputs, checkpoint=state)
    whole = train.run(Counts(), folder, checkpoint=state, threads=1)
    assert whole.resumed > 0 and whole["counts"]["n"] == 4000
