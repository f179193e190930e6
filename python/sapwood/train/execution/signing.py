"""The key of a user: it signs files, to prove that they come from programs of this user."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from sapwood.errors import StorageError
from sapwood.storage.placing import made_beside
from sapwood.storage.sources import user_path

KEY_FILE = "SAPWOOD_CHECKPOINT_KEY"
"""The environment variable that names the file of the key."""

SIZE = hashlib.sha256().digest_size


def key_path() -> Path:
    """Return the path of the key: `$SAPWOOD_CHECKPOINT_KEY`, or a file in the user's state folder."""
    chosen = os.environ.get(KEY_FILE)
    if chosen:
        path = user_path(chosen)
    else:
        path = user_path(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "sapwood" / "checkpoint.key"
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise StorageError(
            f"there is no home folder for the key of checkpoints {path}. {KEY_FILE} can name another file"
        )
    return path


def signature(data: bytes | memoryview) -> bytes:
    """Return the signature of data with the key of this user; a missing key is created.

    Raises
    ------
    StorageError
        The key cannot be read or created, or another user could know it.
    """
    return hmac.new(_key(), data, hashlib.sha256).digest()


def is_signed(data: bytes | memoryview, signed: bytes) -> bool:
    """Return whether a signature matches this data and the key of this user.

    Raises
    ------
    StorageError
        The key cannot be read or created, or another user could know it.
    """
    return hmac.compare_digest(signature(data), signed)


def _key() -> bytes:
    path = key_path()
    try:
        try:
            return _read(path)
        except FileNotFoundError:
            _make(path)
            return _read(path)
    except (OSError, RuntimeError) as error:
        raise StorageError(
            f"cannot use the key of checkpoints {path}: {error}. {KEY_FILE} can name another file"
        ) from error


def _read(path: Path) -> bytes:
    # Opening a pipe would wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    number = os.open(path, flags)
    try:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise OSError("it is not a regular file")
        key = os.read(number, SIZE + 1)
    finally:
        os.close(number)
    if hasattr(os, "getuid"):
        if about.st_uid != os.getuid():
            raise PermissionError(f"it belongs to user {about.st_uid}, and this process runs as user {os.getuid()}")
        if about.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(f"other users may read or write it (mode {stat.S_IMODE(about.st_mode):o})")
    if len(key) != SIZE:
        raise OSError(f"it does not have {SIZE} bytes")
    return key


def _make(path: Path) -> None:
    """Create a key. If several processes create one at the same time, one succeeds and all use its key."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = made_beside(path, mode=0o600)
    try:
        with beside.open("wb") as file:
            file.write(secrets.token_bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        try:
            beside.rename(path) if os.name == "nt" else os.link(beside, path)
        except FileExistsError:
            return
    finally:
        with suppress(OSError):  # the earlier error has more details
            beside.unlink(missing_ok=True)
