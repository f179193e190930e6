"""Checkpoints: the progress of a run in one file, from which a killed run resumes."""

from __future__ import annotations

import mmap
import os
import stat
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sapwood.errors import ArgumentError, SapwoodWarning, StorageError, stacklevel, without_secrets
from sapwood.storage.placing import made_beside
from sapwood.storage.sources import real_path, user_path
from sapwood.train.data.dataset import Dataset, Source
from sapwood.train.execution.identity import digest, identity_of_task
from sapwood.train.execution.pickling import dump, loads
from sapwood.train.execution.signing import SIZE, is_signed, key_path, signature
from sapwood.train.task.tasks import described, task_name

_VERSION = 8
_MAGIC = b"sapwood checkpoint\n"
BEGIN = len(_MAGIC) + SIZE
"""Offset of the pickle, which follows the name of the format and the signature."""
_NAMED = 8  # maximum number of differences in an error


def identity_of(tasks: Sequence[Any], dataset: Dataset, settings: dict[str, Any]) -> dict[str, str]:
    """Return digests that identify a run: tasks with their options and code, files, and settings that shape results."""
    known = {"list of files": digest([(_name(source), source.dataset, source.ranges) for source in dataset.sources])}
    known["metadata"] = digest(dict(dataset.metadata))
    known["friends"] = digest(
        [
            (friend.name, friend.by, friend.dataset, [(_name(one), one.stat()) for one in friend.sources])
            for friend in dataset.friends
        ]
    )
    chosen = dataset.chosen
    if chosen is not None:
        of_files = [chosen.of_files.get(source) for source in dataset.sources]
        known["entry list"] = digest([sorted(map(str, chosen.datasets)), dict(chosen.numbers), of_files])
    known |= {f"settings {name}": digest(value) for name, value in settings.items()}
    for task in tasks:
        known |= {f"task {task_name(task)}: {part}": told for part, told in identity_of_task(task).items()}
    return known


def _name(source: Source) -> str:
    """Return the name of a source without secrets: the token in a URL may be another when the run is resumed."""
    return without_secrets(str(source))


def check_folder(folder: Path) -> None:
    """Check that a folder is writable, or that it could be created.

    Raises
    ------
    StorageError
        The path is a file, or there is no permission to write to it.
    """
    folder = real_path(user_path(folder))
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        raise StorageError(f"cannot write to {folder}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write to {folder}: no permission in {there}")


class Checkpoint:
    """One file, replaced as a whole at most every `every` seconds.

    It has a signature, made with a key of the user, and a pickle of the state, which holds results of any type. A
    pickle can run code when it is loaded, so the signature is verified first: a file of another user is never loaded.
    A file that another user owns or may write to is refused as well.
    """

    def __init__(self, path: str | Path, identity: dict[str, str], every: float = 30.0) -> None:
        self.path = Path(path)
        check_folder(self.path.parent)
        signature(b"")  # fail now, not at the first save, if the key cannot be used
        self.every = every
        self._identity = identity
        self._last = time.monotonic()

    def load(self) -> Any | None:
        """Return the saved state; None if the file does not exist.

        Raises
        ------
        ArgumentError
            The checkpoint belongs to another run.
        StorageError
            It cannot be read, does not have this user's signature, or another user owns it or may write to it.
        """
        try:
            # Opening a pipe would wait for a writer.
            number = os.open(self.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            try:
                self._check_owner(os.fstat(number))
                with os.fdopen(number, "rb", closefd=False) as file:
                    begin, content = file.read(BEGIN), file.read()
            finally:
                os.close(number)
        except FileNotFoundError:
            return None
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(f"checkpoint {self.path} cannot be read: {error}") from error
        if not begin.startswith(_MAGIC) or not is_signed(content, begin[len(_MAGIC) :]):
            raise StorageError(
                f"checkpoint {self.path} is not loaded: it is not signed with the key {key_path()}. It comes from "
                "another user, machine or version of sapwood, or it is damaged. Remove it to start again"
            )
        try:
            version, identity, state = loads(content)
        except Exception as error:
            why = "It may come from another version of sapwood or of a task. Remove it to start again"
            raise StorageError(f"checkpoint {self.path} cannot be read: {described(error)}. {why}") from error
        if version != _VERSION or identity != self._identity:
            told = {**identity, **self._identity}
            names = [name for name in told if identity.get(name) != self._identity.get(name)]
            raise self.refusal(names if version == _VERSION else ["version"])
        return state

    def _check_owner(self, about: os.stat_result) -> None:
        """Refuse a file that another user owns or may write to, and anything that is not a regular file.

        Raises
        ------
        StorageError
            Another user owns it, or may write to it, or it is a pipe, a device or a folder.
        """
        if not stat.S_ISREG(about.st_mode):
            raise StorageError(f"checkpoint {self.path} is not loaded: it is not a regular file")
        if not hasattr(os, "getuid"):
            return
        if about.st_uid != os.getuid():
            why = f"it belongs to user {about.st_uid}, and this process runs as user {os.getuid()}"
        elif about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            why = f"other users may write to it (mode {stat.S_IMODE(about.st_mode):o})"
        else:
            return
        raise StorageError(
            f"checkpoint {self.path} is not loaded: {why}. A checkpoint can run code: load only your own, with mode 600"
        )

    def refusal(self, names: Sequence[str]) -> ArgumentError:
        """Return an error with the differences from the run of the checkpoint."""
        listed = [*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
        return ArgumentError(
            f"checkpoint {self.path} belongs to another run ({', '.join(listed)} differ); remove it to start again"
        )

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._last >= self.every

    def save(self, state: object) -> None:
        """Replace the saved state. If the process is killed meanwhile, the file has either the old or the new state.

        Raises
        ------
        UnsendableError
            The state cannot be pickled.
        StorageError
            The file cannot be written.
        """
        beside: Path | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = made_beside(self.path, mode=0o600)
            with beside.open("w+b") as file:
                file.write(_MAGIC + bytes(SIZE))
                dump((_VERSION, self._identity, state), file)
                file.flush()
                with (
                    mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as written,
                    memoryview(written) as whole,
                    whole[BEGIN:] as content,
                ):
                    signed = signature(content)
                file.seek(len(_MAGIC))
                file.write(signed)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except OSError as error:
            raise StorageError(f"checkpoint {self.path} cannot be written: {error}") from error
        finally:
            if beside is not None:
                with suppress(OSError):  # the earlier error has more details
                    beside.unlink(missing_ok=True)
        self._last = time.monotonic()

    def remove(self) -> None:
        """Remove the file at the end of the run. A folder that became read-only does not cost the results."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            text = f"checkpoint {self.path} cannot be removed: {error}. Remove it before the run is started again"
            warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())
