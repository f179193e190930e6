"""Targets of files being written (paths, streams, URLs), and how files are completed."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import shutil
import stat
import tempfile
import threading
import time
import uuid
import warnings
import weakref
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NoReturn

from sapwood import _native
from sapwood.compression import Compression, code_of
from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    MissingFileError,
    MissingPackageError,
    SapwoodWarning,
    StorageError,
    UnsupportedError,
    check_kind,
    check_text,
    first_line,
    is_failure,
    stacklevel,
    storage_error,
    without_secrets,
)
from sapwood.storage.locate import is_url
from sapwood.storage.placing import forget, made_beside, put
from sapwood.storage.sources import local_path, user_path
from sapwood.storage.web import web_options

try:
    import fcntl
except ImportError:  # on Windows, an open file cannot be replaced
    fcntl = None

if TYPE_CHECKING:
    from typing_extensions import Self

    from sapwood.columns import Foreign
    from sapwood.files.directory import ReadOnlyDirectory


FORMATS = ("ttree", "rntuple")
"""Formats of tables."""


@dataclass(frozen=True)
class Settings:
    """Options for making a file."""

    compression: Compression | None
    title: str
    uuid_function: Callable[[], uuid.UUID]
    commit_every: str | int | None
    atomic: bool
    reproducible: bool
    index: bool
    format: str
    checksums: bool = False

    def table_format(self) -> str:
        """Return the format of assigned tables.

        Raises
        ------
        ArgumentError
            The format is unknown.
        """
        if self.format not in FORMATS:
            raise ArgumentError(f"format must be {' or '.join(map(repr, FORMATS))}, not {self.format!r}")
        return self.format

    def commit_bytes(self) -> int | None:
        """Return `commit_every` in the form that the native core takes.

        Raises
        ------
        ArgumentError
            The value is invalid.
        """
        every = self.commit_every
        if every == "cluster":
            return 0
        if every is None or (isinstance(every, int) and every > 0):
            return every
        raise ArgumentError(f"commit_every must be 'cluster', a positive number of bytes or None, not {every!r}")

    def identity(self) -> bytes:
        """Return the file's UUID."""
        if self.reproducible and self.uuid_function is uuid.uuid1:
            return uuid.UUID(int=0).bytes
        found = self.uuid_function()
        check_kind("the result of uuid_function", found, uuid.UUID, "a uuid.UUID")
        return found.bytes


def _bounded(stored: str) -> Any:
    """Return a callback of `fsspec` that ends a download with more bytes than are stored; 1 GiB if that is unknown."""
    from fsspec.callbacks import Callback

    most = int(stored) if stored.isdigit() else _WITHOUT_SIZE

    class Bounded(Callback):
        def call(self, hook_name: str | None = None, **_: object) -> None:
            """Raise an error if too much has arrived."""
            if self.value > most:
                known = "the stored size" if stored.isdigit() else "and the server states no size"
                raise OSError(f"more than {most} bytes arrive, {known}")

    return Bounded()


class RemoteTarget:
    """The target of a URL. Its errors have no cause: an error of another package may contain a token of the URL."""

    def __init__(self, url: str, options: Mapping[str, object]) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise MissingPackageError(f"writing to {url} needs the package fsspec: pip install fsspec") from error
        self._url = url
        try:
            self._system, self._place = url_to_fs(url, **web_options(url, options))
        except ImportError as error:
            raise MissingPackageError(f"cannot write to {url}: {error}") from error
        except TypeError as error:
            raise ArgumentTypeError(f"cannot write to {url}: {first_line(error)}") from None
        except BaseException as error:  # noqa: BLE001 - each kind of storage raises its own errors
            self._refuse(error)
        if not self._place.strip("/"):
            raise ArgumentError(f"cannot write to {url}: it has no name of a file")
        self._fetched: dict[str, str] = {}
        self._unchanged: int | None = None
        """The time of the last change of the local copy, as long as nothing is written to it."""

    def exists(self) -> bool:
        """Return whether the file exists."""
        try:
            return bool(self._system.exists(self._place))
        except BaseException as error:  # noqa: BLE001 - each kind of storage raises its own errors
            self._refuse(error)

    def _refuse(self, error: BaseException) -> NoReturn:
        """Raise `StorageError` for an error of a storage; an interrupt goes on."""
        if not is_failure(error):
            raise error
        raise StorageError(f"cannot write to {self._url}: {first_line(error)}") from None

    def fetch(self) -> str:
        """Download the file to a local copy, which is uploaded later.

        Raises
        ------
        MissingFileError
            The file does not exist.
        StorageError
            The file cannot be downloaded.
        """
        path = self.temporary()
        self._fetched = self._version()
        try:
            try:
                self._system.get_file(self._place, path, callback=_bounded(self._fetched.get("size", "")))
            except NotImplementedError:
                with self._system.open(self._place, "rb") as theirs, Path(path).open("wb") as mine:
                    shutil.copyfileobj(theirs, mine, _PIECE)
            stored, size = self._fetched.get("size", ""), Path(path).stat().st_size
            if stored.isdigit() and int(stored) != size:
                raise OSError(f"{size} bytes were received, but {stored} bytes are stored")
        except BaseException as error:  # each kind of storage raises its own errors
            Path(path).unlink(missing_ok=True)
            if not is_failure(error):
                raise
            kind = MissingFileError if isinstance(error, FileNotFoundError) else StorageError
            raise kind(f"cannot fetch {self._url}: {first_line(error)}") from None
        # A time in the past, so that any later change is seen.
        os.utime(path, ns=(0, 0))
        self._unchanged = Path(path).stat().st_mtime_ns
        return path

    def temporary(self) -> str:
        """Make a local file that is uploaded later."""
        handle, path = tempfile.mkstemp(".root", "sapwood-")
        os.close(handle)
        return path

    def send(self, path: str) -> None:
        """Upload a local file with retries, compare the sizes, and remove the local file.

        A copy that `fetch` has made and that was not changed is not uploaded.

        Raises
        ------
        StorageError
            The upload failed, or another program has changed the file since `fetch`. The local file is kept.
        """
        if self._unchanged is not None and Path(path).stat().st_mtime_ns == self._unchanged:
            Path(path).unlink()
            return
        if self._fetched and (now := self._version()) and now != self._fetched:
            why = "another program has changed it since the update began"
            raise StorageError(f"cannot write to {self._url}: {why}; the file was kept as {path}")
        with contextlib.suppress(Exception):  # some storage has no folders
            self._system.makedirs(self._system._parent(self._place), exist_ok=True)
        for pause in (*PAUSES, None):
            try:
                self._put(path)
                self._compare(Path(path).stat().st_size)
                break
            except BaseException as error:  # each kind of storage raises its own errors
                if not is_failure(error):
                    raise
                if pause is None or not _passing(error):
                    why = f"{first_line(error)}; the file was kept as {path}"
                    raise StorageError(f"cannot write to {self._url}: {why}") from None
                time.sleep(pause)
        Path(path).unlink()

    def _version(self) -> dict[str, str]:
        """Return the properties that differ between versions of the file; empty if they are unknown."""
        try:
            self._system.invalidate_cache(self._system._parent(self._place))
            found = self._system.info(self._place)
        except Exception:  # noqa: BLE001 - each kind of storage raises its own errors
            return {}
        return {name: str(found[name]) for name in _OF_VERSION if name in found}

    def _put(self, path: str) -> None:
        """Upload a local file once."""
        # By default fsspec would POST.
        options = {"method": "put"} if self._url.startswith(("http://", "https://")) else {}
        try:
            self._system.put_file(path, self._place, **options)
        except NotImplementedError:  # XRootD, for one, has files that can be written, but no upload
            with Path(path).open("rb") as mine, self._system.open(self._place, "wb") as theirs:
                shutil.copyfileobj(mine, theirs, _PIECE)

    def _compare(self, size: int) -> None:
        """Compare the uploaded size with the size that the storage reports, if it does."""
        try:
            self._system.invalidate_cache(self._system._parent(self._place))
            found: int | None = self._system.info(self._place).get("size")
        except Exception as error:  # noqa: BLE001 - each kind of storage raises its own errors
            warnings.warn(
                f"{self._url} was written, but its size cannot be confirmed: {error}",
                SapwoodWarning,
                stacklevel=stacklevel(),
            )
            return
        if found is not None and found != size:
            raise OSError(f"{size} bytes were sent, but {found} bytes are stored")


_PIECE = 4 << 20
"""Number of bytes that are copied at once."""
_WITHOUT_SIZE = 1 << 30
"""Maximum number of bytes of a file whose size the server does not state."""
_OF_VERSION = ("ETag", "LastModified", "Last-Modified", "mtime", "created", "generation", "size")
"""Names by which file systems of fsspec report the version of a file."""

PAUSES = (0.1, 0.4, 1.6)
"""Seconds between attempts to upload a file."""


def _passing(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    if isinstance(error, (FileNotFoundError, PermissionError, NotImplementedError, TypeError, ValueError)):
        return False
    status = getattr(error, "status", None)
    return not isinstance(status, int) or status >= 500 or status in (408, 429)


WRITING: weakref.WeakValueDictionary[str, OutputFile] = weakref.WeakValueDictionary()
"""The files that this process is writing, by path."""


def _drop(
    native: _native.Output, path: str | None, beside: str | None, remote: RemoteTarget | None, process: int
) -> None:
    """Close a file that nothing refers to any more. An atomic file is discarded: nobody has declared it complete."""
    if os.getpid() != process or beside is None or remote is not None:
        _finish(native, path, beside, remote, process)
        return
    _abandon(native, beside)
    text = f"{path}: the new file was discarded, because it was not closed; the file at this path did not change"
    warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())


def _abandon(native: _native.Output, beside: str) -> None:
    """Remove a file that was written beside its path."""
    try:
        native.abandon()
    finally:
        _remove(beside)
        _unlock_replaced(beside)


def _remove(beside: str) -> None:
    """Remove a temporary file. One that cannot be removed is a warning, which does not hide an earlier error."""
    try:
        Path(beside).unlink(missing_ok=True)
    except OSError as error:
        text = f"the temporary file {beside} cannot be removed: {os.strerror(error.errno or 0)}"
        warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())
    _UNFINISHED.pop(beside, None)


_UNFINISHED: dict[str, int] = {}
"""The temporary paths that are to be moved or removed, and the process that does so."""


@atexit.register
def _remove_unfinished() -> None:
    """Remove what is left if an interrupt came between two steps."""
    for path, process in list(_UNFINISHED.items()):
        if process == os.getpid():
            with contextlib.suppress(OSError):
                Path(path).unlink(missing_ok=True)


def _finish(
    native: _native.Output, path: str | None, beside: str | None, remote: RemoteTarget | None, process: int
) -> None:
    """Close a file, and move it to its path if it was written beside it. Only the process that opened it does so."""
    if os.getpid() != process:
        return
    try:
        # Errors of the storage name a complete file that is kept.
        with _absent_after(beside):
            native.close()
            if beside is not None and remote is None:
                _flush(str(path), beside)
        if beside is not None:
            with _absent_after(beside, but=StorageError):
                if remote is not None:
                    remote.send(beside)
                else:
                    _move(beside, str(path))
            _UNFINISHED.pop(beside, None)
        if remote is None and beside is not None:
            forget(str(path))
    finally:
        _unlock_replaced(beside)


def _flush(path: str, beside: str) -> None:
    """Write a complete file to the disk before it is moved to its path.

    Raises
    ------
    StorageError
        The storage is full or failed.
    """
    try:
        with Path(beside).open("rb") as file:
            os.fsync(file.fileno())
    except OSError as error:
        raise storage_error(path, error) from error


def _move(beside: str, path: str) -> None:
    """Move a complete file to its path.

    Raises
    ------
    StorageError
        It cannot be moved. The message names the file.
    """
    try:
        if beside in _NEW:
            _place_new(beside, path)
        else:
            put(Path(beside), path)
    except TargetTakenError:
        raise
    except OSError as error:
        failed = storage_error(path, error)
        kept = f"; the new file is complete: {beside}" if os.path.lexists(beside) else ""
        raise type(failed)(f"{failed}{kept}") from error


_NEW: set[str] = set()
"""The temporary paths of files that must not replace a file."""


class TargetTakenError(StorageError, FileExistsError):
    """Another program has created the target of a new file. The file is complete at the path `kept`."""

    kept: str = ""


def _place_new(beside: str, path: str) -> None:
    """Move a file to a path that must not exist.

    Raises
    ------
    TargetTakenError
        It exists.
    """
    try:
        os.link(beside, path)
    except FileExistsError:
        pass
    except OSError:  # the file system has no hard links
        if not os.path.lexists(path):
            Path(beside).replace(path)
            return
    else:
        _remove(beside)
        return
    why = "another program created it in the meantime"
    taken = TargetTakenError(f"{path} already exists: {why}; the new file is {beside}")
    taken.kept = beside
    raise taken


class OutputFile:
    """A file being written, without its objects: its target, and how it is completed and closed."""

    def __init__(
        self,
        native: _native.Output,
        file_path: str | None,
        beside: str | None = None,
        remote: RemoteTarget | None = None,
        table_format: str = "ttree",
        *,
        index: bool = False,
        checksums: bool = False,
    ) -> None:
        """Wrap a file of the native core. `beside` is its temporary path, if it is not written in place."""
        self.index = index
        """Whether to write indexes of its trees when it is closed."""
        self.checksums = checksums
        """Whether to write checksums of its records when it is closed."""
        self.table_format = table_format
        """Format of assigned tables."""
        self.native = native
        self.tables: dict[tuple[tuple[str, ...], int], InOutputFile] = {}
        """Tables being written, by path and cycle."""
        self._file_path = file_path
        self._beside = beside
        # Buffered entries are written even if the file is never closed.
        self._process = os.getpid()
        self._remote = remote
        self._finalizer = weakref.finalize(self, _drop, native, file_path, beside, remote, self._process)
        self._changing = threading.RLock()
        if file_path is not None and remote is None:
            WRITING[os.path.realpath(file_path)] = self

    def __repr__(self) -> str:
        """Return a short description."""
        return without_secrets(f"<{type(self).__name__} {self._file_path!r}>")

    @property
    def file_path(self) -> str | None:
        """Path of the file, None for a stream."""
        return self._file_path

    @property
    def is_beside(self) -> bool:
        """Whether this process writes it beside its path, and moves it there when it is closed."""
        return self._beside is not None and self._process == os.getpid()

    @classmethod
    def of(cls, output: OutputFile) -> Self:
        """Take over an output. Only the new file closes it afterwards."""
        arguments = output.native, output._file_path, output._beside, output._remote, output.table_format
        new = cls(*arguments, index=output.index, checksums=output.checksums)
        output._finalizer.detach()
        return new

    @property
    def compression(self) -> Compression | None:
        """Codec and level of data written from this point. Can be set. Existing trees keep theirs."""
        return Compression.from_code(self.native.compression)

    @compression.setter
    def compression(self, value: Compression | None) -> None:
        self.native.compression = code_of(value)

    @property
    def fCompress(self) -> int:  # noqa: N802 - ROOT's name
        """The compression as ROOT's number."""
        return self.native.compression

    def commit(self) -> None:
        """Make everything written so far visible to readers, even if this process dies later.

        Buffered entries are written as a cluster.
        """
        self.check_open("write to")
        self.native.commit()

    @contextlib.contextmanager
    def changing(self) -> Generator[None]:
        """Exclude other threads while tables change.

        A forked process does not wait: it may lack the thread that has the lock, and the native core refuses its calls.
        """
        self.native.check_free()  # before the lock, which the thread that writes to a stream may hold
        with self._changing if os.getpid() == self._process else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def _absent_after_interrupts(self) -> Generator[None]:
        """Remove the temporary file if an interrupt comes between two steps."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, Exception) and self._beside is not None and os.getpid() == self._process:
                _remove(self._beside)
                _unlock_replaced(self._beside)
            raise

    def read(self) -> ReadOnlyDirectory:
        """Open the file as of its last commit.

        Raises
        ------
        UnsupportedError
            The file is a stream.
        """
        from sapwood.files.file import open as read

        path = self._file_path if self.closed else self._beside or self._file_path
        if path is None:
            raise UnsupportedError("a stream cannot be read while it is written")
        # A `Path` is not taken apart at a colon, and keeps its spaces.
        # Checksums beside the file, if there are any, are those of an earlier state.
        file = read(path if self._remote is not None and path == self._file_path else Path(path), checksums=False)
        if self.checksums and not self.closed:
            # Damaged records must not be read, be written again, and get new checksums.
            self.native.share_checksums(file.file.native)
        return file

    def close(self) -> None:
        """Write buffered entries and complete the file. Closing it again does nothing.

        Raises
        ------
        StorageError
            The storage is full or failed. The message states how many entries are safe.
        """
        with self.changing(), self._absent_after_interrupts():
            if self._finalizer.detach() is not None:
                _finish(self.native, self._file_path, self._beside, self._remote, self._process)

    def discard(self) -> None:
        """Close the file without what was written since its last commit.

        An atomic file, or the file of a URL, is removed; the file at its path does not change.

        Raises
        ------
        StorageError
            What was written could not be undone. The message states what is in the file.
        """
        with self.changing(), self._absent_after_interrupts():
            if self._finalizer.detach() is None or os.getpid() != self._process:
                return
            if self._beside is not None:
                _abandon(self.native, self._beside)
            else:
                self.native.roll_back()

    def leave(self, error: BaseException | None) -> None:
        """Close the file at the end of a `with` block.

        After an exception, an atomic file or the file of a URL is discarded. Any other file keeps the data written so
        far. An error while closing is a warning, so that it does not hide the exception of the block.
        """
        if error is None:
            self.close()
        elif self._beside is not None:
            self.discard()
        else:
            try:
                self.close()
            except StorageError as other:
                text = f"after the exception, the file could not be completed: {first_line(other)}"
                warnings.warn(text, SapwoodWarning, stacklevel=stacklevel())

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return not self._finalizer.alive

    def check_open(self, doing: str) -> None:
        """Raise an error if the file is closed.

        Raises
        ------
        ArgumentError
            The file is closed.
        """
        if self.closed:
            raise ArgumentError(f"cannot {doing} a closed file: {self._file_path}")

    def __enter__(self) -> Self:
        """Return itself; the end of the block closes the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, also after an exception."""
        self.leave(error)


def _of_fsspec(target: Foreign, options: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return the local path or URL of an `fsspec` file, and the options of its file system."""
    protocols = target.fs.protocol
    if {"file", "local"} & {protocols, *protocols}:
        return target.path, options
    return target.full_name, {**target.fs.storage_options, **options}


ALSO_LOCAL = frozenset({"auto_mkdir"})
"""Options that `fsspec` has for local files; the folders are always made."""


def make(target: Foreign, settings: Settings, options: Mapping[str, object], *, overwrite: bool) -> OutputFile:
    """Create a file for writing; see `sapwood.recreate`."""
    check_text("title", settings.title)
    if not callable(settings.uuid_function):
        raise ArgumentTypeError(f"uuid_function is a function, not {settings.uuid_function!r}")
    code, commit_bytes, table_format = code_of(settings.compression), settings.commit_bytes(), settings.table_format()
    if settings.index and not (isinstance(target, os.PathLike) or (isinstance(target, str) and not is_url(target))):
        raise ArgumentError(f"an index needs a local file, not {target!r}")
    if settings.checksums and not (isinstance(target, os.PathLike) or (isinstance(target, str) and not is_url(target))):
        raise ArgumentError(f"checksums need a local file, not {target!r}")
    path = remote = None
    if isinstance(target, str) and target.lower().startswith(("file:", "local://")):
        target = local_path(target)
    if hasattr(target, "fs") and hasattr(target, "full_name"):
        # An `fsspec` file that is not open yet knows the options of its file system.
        target, options = _of_fsspec(target, options)
    if isinstance(target, str) and is_url(target):
        path, remote = target, RemoteTarget(target, options)
        if not overwrite and remote.exists():
            raise FileExistsError(f"{without_secrets(str(path))} already exists")
    elif others := ", ".join(sorted(options.keys() - ALSO_LOCAL)):
        raise ArgumentError(f"only URLs take options of storage: {others}")
    elif isinstance(target, (str, os.PathLike)):
        path = target = str(user_path(target))
        with storage_errors(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        check_target(path, regular=settings.atomic)
        if (writer := WRITING.get(os.path.realpath(path))) is not None and not writer.closed:
            is_atomic = settings.atomic and writer.is_beside
            del writer
            gc.collect()  # closes unreferenced writers
            if is_atomic and os.path.realpath(path) in WRITING:
                raise StorageError(f"{path} is already open for writing; close the other writer first")
    elif not (hasattr(target, "seek") and hasattr(target, "write") and hasattr(target, "truncate")):
        raise TypeError(f"recreate takes a path or an object that can seek, not {target!r}")
    elif "a" in str(getattr(target, "mode", "")):
        raise ArgumentError("the stream was opened to append, so it writes at its end only: open it with mode 'wb'")
    elif settings.atomic:
        raise ArgumentError("atomic needs a path: other targets cannot be renamed")
    beside = None
    name = Path(path or "stream.root")
    if remote is not None:
        target = beside = remote.temporary()
    elif settings.atomic and path is not None:
        if not overwrite and Path(path).exists():
            raise FileExistsError(f"{path} already exists")
        path = os.path.realpath(path)  # a link stays one
        with storage_errors(path):
            target = beside = str(made_beside(path, note=lambda made: _UNFINISHED.update({str(made): os.getpid()})))
    try:
        with _absent_after(beside):
            if remote is None and path is not None and beside is not None:
                if overwrite:
                    _lock_replaced(path, beside)
                else:
                    _NEW.add(beside)
            with storage_errors(str(path or "")):
                native = _native.Output(
                    target,
                    # Without the folder, so that the bytes do not depend on it.
                    os.fsencode(name.name if settings.reproducible else name).decode(errors="replace"),
                    overwrite or beside is not None,
                    settings.title,
                    code,
                    settings.identity(),
                    0 if settings.reproducible else time.localtime().tm_gmtoff,
                    (1 << 22) | (1 << 17) if settings.reproducible else None,
                    commit_bytes,
                    beside is not None,
                )
            if path is not None and beside is None:
                forget(path)
            if settings.checksums and path is not None:
                native.keep_checksums()
            return OutputFile(
                native, path, beside, remote, table_format, index=settings.index, checksums=settings.checksums
            )
    except BaseException:
        _unlock_replaced(beside)
        raise


def check_target(path: str, *, regular: bool) -> None:
    """Refuse pipes and sockets, and also devices and folders if only a `regular` file may be there.

    Raises
    ------
    StorageError
        The target is refused.
    """
    with storage_errors(path):
        try:
            mode = Path(path).stat().st_mode
        except FileNotFoundError:
            return
    is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if is_pipe or (regular and not stat.S_ISREG(mode)):
        raise StorageError(f"{path}: not a regular file")


_REPLACED: dict[str, IO[bytes]] = {}
"""The files that atomic files will replace, open and locked, by the temporary paths."""


def _lock_replaced(path: str, beside: str) -> None:
    """Lock the file that an atomic file will replace, so that nobody adds to it in the meantime.

    Raises
    ------
    StorageError
        Another writer has it open.
    """
    while fcntl is not None:
        file = None
        try:
            file = Path(path).open("rb")  # noqa: SIM115 - closed when the atomic file is in its place
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):  # noqa: PTH116
                _REPLACED[beside] = file
                return
            file.close()  # another writer has just replaced it
        except BlockingIOError:
            if file is not None:
                file.close()
            raise StorageError(f"{path} is already open for writing; close the other writer first") from None
        except OSError:  # there is no file, or the file system has no locks
            if file is not None:
                file.close()
            return


def _unlock_replaced(beside: str | None) -> None:
    if beside is None:
        return
    _NEW.discard(beside)
    if (file := _REPLACED.pop(beside, None)) is not None:
        if fcntl is not None:
            # A forked child may still have the file open, and with it the lock.
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
        file.close()


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[None]:
    """Keep other writers away from a file while a file that will replace it is made from its content.

    Raises
    ------
    StorageError
        Another writer has it open.
    """
    real = os.path.realpath(path)
    place = f"{real}.{os.getpid()}-{threading.get_ident()}.replacing"
    _lock_replaced(real, place)
    try:
        yield
    finally:
        _unlock_replaced(place)


@contextlib.contextmanager
def _absent_after(path: str | None, but: type[Exception] | tuple[()] = ()) -> Generator[None]:
    """Remove a temporary file, if there is one, after an exception, `but` not after one that names it."""
    try:
        yield
    except but:
        _UNFINISHED.pop(str(path), None)
        raise
    except BaseException:
        if path is not None:
            _remove(path)
        raise


@contextlib.contextmanager
def storage_errors(path: str) -> Generator[None]:
    """Raise `StorageError` for a system error without its own class in Python."""
    try:
        yield
    except OSError as error:
        if type(error) is not OSError:
            raise
        raise storage_error(path, error) from error


class InOutputFile:
    """A directory or table of a file being written. Closing it closes the file."""

    def __init__(self, path: tuple[str, ...], file: OutputFile, number: int) -> None:
        """Refer to a directory or table by its number in the native core."""
        self._path = path
        self._file = file
        self._number = number

    @property
    def path(self) -> tuple[str, ...]:
        """Names of the directories down to this one, and its own name; empty for the root directory."""
        return self._path

    @property
    def file(self) -> OutputFile:
        """The file."""
        return self._file

    @property
    def file_path(self) -> str | None:
        """Path of the file."""
        return self.file.file_path

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self.file.closed

    def __enter__(self) -> Self:
        """Return itself; the end of the block closes the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file, also after an exception."""
        self.file.leave(error)
