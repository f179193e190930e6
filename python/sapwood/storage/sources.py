"""Sources that the native core can open: local paths, bytes, URLs, file systems of `fsspec`, objects that read."""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

from sapwood.errors import (
    ArgumentError,
    ArgumentTypeError,
    ChangedFileError,
    LimitError,
    MissingFileError,
    SapwoodError,
    StorageError,
    check_kind,
    is_failure,
    one_line,
    similar,
    storage_error,
    suggestion,
    warn_of_executors,
)
from sapwood.storage.web import web_options

if TYPE_CHECKING:
    from sapwood.columns import Foreign

T = TypeVar("T")

_SCHEME = r"(?i)([a-z][a-z0-9+.-]*)://"
# What links two URLs of `fsspec`; an address of version 6, as in `root://[::1]//file`, does not.
_LINK = r"::(?![^\[\]]*\])"
_LOCAL = frozenset({"file", "local"})
_XROOTD = frozenset({"root", "roots", "xroot", "xroots"})
_DAV = frozenset({"dav", "davs"})
_WITH_CERTIFICATE = frozenset({"https", "davs"})
_NATIVE = frozenset({"http", "https", "s3"}) | _XROOTD | _DAV
_FAMILIES = (_XROOTD, frozenset({"http", "https"}) | _DAV)
"""Protocols of which one may stand for the other."""

# Options for remote storage. Some may be given for a local file, too: one that uproot has, or that a program sets for
# all its files. All but `prior` change nothing there.
_FAR = frozenset(
    [
        "block_cache",
        "block_cache_size",
        "certificate",
        "deadline",
        "headers",
        "http_max_header_bytes",
        "http_max_ranges",
        "num_workers",
        "prefetch_size",
        "prior",
        "replicas",
        "retries",
        "timeout",
    ]
)
# Those that would do nothing where `fsspec` reads, and those that would do nothing there if its file system has one
# request at a time.
_NOT_IN_SYSTEMS = frozenset(
    ["block_cache", "block_cache_size", "certificate", "http_max_header_bytes", "http_max_ranges", "replicas"]
)
_NOT_ONE_BY_ONE = frozenset(["deadline", "num_workers", "prefetch_size", "retries", "timeout"])
_ALSO_LOCAL = frozenset(
    ["block_cache", "block_cache_size", "deadline", "http_max_header_bytes", "num_workers", "prior", "timeout"]
)
_PRIORS = (None, "auto", "memory", "disk")
# Classes by which uproot reads: they have no effect here.
_HANDLERS = frozenset(["file_handler", "handler", "http_handler", "object_handler", "s3_handler", "xrootd_handler"])
_BY_CLIENT: set[str] = set()
"""Servers of XRootD that accepted only the client of the project."""
_NO_CLIENT = "for X.509 proxies and Kerberos: pip install 'sapwood[xrootd]'"
_NO_PROXY = " (X.509 needs a proxy, X509_USER_PROXY; Kerberos needs a ticket, kinit)"
_S3 = frozenset(["key", "secret", "token", "anon", "endpoint_url", "client_kwargs"])


class Far(NamedTuple):
    """Options of the native core for remote storage."""

    timeout: float
    retries: int
    workers: int
    prefetch: int
    headers: Sequence[tuple[str, str]]
    header_bytes: int
    ranges: int
    keys: tuple[str, str, str | None, str] | None
    deadline: float | None
    blocks: tuple[str, int] | None
    user: tuple[str, str, int]
    certificate: str | None


_ENDING = 5.0
"""Maximum number of seconds for which the interpreter waits, when it ends, for reads of its objects."""


class _Reads:
    """The reads that threads of the native core are running in Python.

    After its end, Python ends threads that request its lock, by unwinding. This aborts the process if there are frames
    of Rust on the stack. So the interpreter waits for these reads before it ends, and refuses others.
    """

    def __init__(self) -> None:
        self._restart()
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._restart)

    def _restart(self) -> None:
        """Start without reads, as in a forked process, which does not have the threads of its parent."""
        self._changed = threading.Condition()
        self._running = 0
        self._ended = False

    def __enter__(self) -> None:
        with self._changed:
            if self._ended:
                raise OSError("the interpreter is ending")
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            some = self._running > 0
            self._changed.wait_for(lambda: self._running <= 0, timeout=_ENDING)
        if some:
            time.sleep(0.05)  # the threads are still to return from Python


_reads = _Reads()


def _checked_size(size: object) -> int:
    """Return the size of a file that a stream or a file system reports.

    Raises
    ------
    OSError
        It is not a size.
    """
    if not hasattr(size, "__index__") or not 0 <= int(size) < 1 << 63:  # pyright: ignore[reportArgumentType]
        raise OSError(f"the size of the file is not known: {size!r} was reported")
    return int(size)  # pyright: ignore[reportArgumentType]


class FileLike:
    """Lets the native core read from an object with `read` and `seek`: one read at a time, at any offset."""

    def __init__(self, stream: Foreign, system: Foreign = None) -> None:
        """Measure the stream by seeking to its end; the file system of an archive closes it when it is forgotten."""
        self._stream = stream
        self._system = system
        self._lock = threading.Lock()
        self._process = os.getpid()
        # A forked process shares the position in the open file, and both would move it. Reads therefore name offsets.
        plain = type(stream) in (io.FileIO, io.BufferedReader) and isinstance(getattr(stream, "raw", stream), io.FileIO)
        self._number: int | None = stream.fileno() if plain else None
        with self._lock:
            stream.seek(0, os.SEEK_END)
            self.size = _checked_size(stream.tell())

    def read_ranges(self, ranges: Iterable[tuple[int, int]], limit: float | None = None) -> list[bytes]:
        """Read (offset, length) ranges; fewer bytes only at the end of the stream. There is no time limit."""
        del limit
        with _reads:
            return [self._read(offset, length) for offset, length in ranges]

    def _read(self, offset: int, length: int) -> bytes:
        if self._process != os.getpid():
            # A thread that is not here any more may have had it.
            self._lock, self._process = threading.Lock(), os.getpid()
        with self._lock:
            if self._number is None:
                self._stream.seek(offset)
            pieces = [self._some(offset, length)]
            missing = length - len(pieces[0])
            while missing > 0 and pieces[-1]:
                pieces.append(self._some(offset + length - missing, missing))
                missing -= len(pieces[-1])
        return b"".join(pieces)

    def _some(self, offset: int, most: int) -> bytes:
        if self._number is None:
            return self._stream.read(most)
        self._stream.fileno()  # fails where it is closed; its number may be another's by then
        return os.pread(self._number, most, offset)


class InFileSystem:
    """Lets the native core read a file of an asynchronous `fsspec` file system: many ranges at once."""

    def __init__(self, system: Foreign, path: str, limit: float) -> None:
        """Ask for the size, in this many seconds."""
        self._system = system
        self._path = path
        size = within(system, "_size", limit, path) if hasattr(system, "_size") else system.size(path)
        self.size = _checked_size(size)

    def read_ranges(self, ranges: Sequence[tuple[int, int]], limit: float | None = None) -> list[bytes]:
        """Read (offset, length) ranges, in this many seconds."""
        with _reads:
            return self._read(ranges, limit)

    def _read(self, ranges: Sequence[tuple[int, int]], limit: float | None) -> list[bytes]:
        starts = [offset for offset, _ in ranges]
        ends = [offset + length for offset, length in ranges]
        if limit is None or not hasattr(self._system, "_cat_ranges"):
            return self._system.cat_ranges([self._path] * len(starts), starts, ends, on_error="raise")
        return within(self._system, "_cat_ranges", limit, [self._path] * len(starts), starts, ends, on_error="raise")


def within(system: Foreign, name: str, limit: float | None, *arguments: object, **options: object) -> Foreign:
    """Call a method of an asynchronous file system of `fsspec`, for this many seconds at most.

    Raises
    ------
    TimeoutError
        The call took longer.
    """
    from fsspec.asyn import sync  # pyright: ignore[reportMissingTypeStubs]
    from fsspec.exceptions import FSTimeoutError  # pyright: ignore[reportMissingTypeStubs]

    try:
        found: Foreign = sync(system.loop, getattr(system, name), *arguments, timeout=limit, **options)
        return found
    except FSTimeoutError:
        raise TimeoutError(f"timeout: no data arrived in {limit:.3g} s") from None


class Found(NamedTuple):
    """A source for the native core, its name, the settings for remote storage, and its address for other processes."""

    source: Any
    name: str
    far: Far | None = None
    address: str | None = None
    prior: str | None = None

    @property
    def label(self) -> str:
        """The name for messages: one that is not UTF-8 may look different there."""
        return self.name.encode(errors="replace").decode()

    def open(self) -> Any:
        """Open the native file.

        Raises
        ------
        StorageError
            It cannot be opened.
        """
        from sapwood import _native

        return self._through(lambda source: _native.open_file(source, self.label, self.far, self.prior))

    def storage(self) -> Foreign:
        """Open the file for ranges of its bytes.

        Raises
        ------
        StorageError
            It cannot be opened.
        """
        from sapwood import _native

        return self._through(lambda source: _native.Storage(source, self.label, self.far))

    def _through(self, make: Callable[[Any], T]) -> T:
        """Open the source; use the client of XRootD if the server refuses every login that sapwood supports."""
        server = self._server()
        try:
            if server in _BY_CLIENT:
                return make(self._client_file())
            try:
                return make(self.source)
            except PermissionError as error:
                from sapwood.storage import client

                if server is None or not client.may_admit(self.name, error):
                    raise
                source = self._client_file(error)
            made = make(source)
            _BY_CLIENT.add(server)
            return made
        except SapwoodError:
            raise
        except OSError as error:
            raise self.failed(error) from error

    def _server(self) -> str | None:
        """Return the scheme and the server of a URL of XRootD."""
        scheme = re.match(_SCHEME, self.name)
        if scheme is None or scheme[1].lower() not in _XROOTD or self.far is None or not isinstance(self.source, list):
            return None
        return self.name[: scheme.end()] + self.name[scheme.end() :].partition("/")[0]

    def _client_file(self, refused: OSError | None = None) -> Any:
        """Open the file with the client of the XRootD project.

        Raises
        ------
        OSError
            The client cannot open the file, or is not installed.
        """
        from sapwood.storage import client

        if refused is not None and not client.is_installed():
            raise PermissionError(f"{refused} ({_NO_CLIENT})") from None
        assert self.far is not None
        try:
            return client.ClientFile(self.name, min(self.far.timeout, self.far.deadline or self.far.timeout))
        except OSError as error:
            said = f"{self.name}: the client of XRootD: {error}"
            raise type(error)(said if refused is None else f"{refused}; {said.partition(': ')[2]}{_NO_PROXY}") from None

    def failed(self, error: OSError) -> StorageError:
        """Make the error for a source that cannot be opened."""
        alone = self.far is not None and self.far.keys is None and self.name.lower().startswith("s3://")
        refused = alone and re.search(r": 40[13]\b", str(error))
        hint = "no keys were sent (set key and secret, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)"
        return storage_error(self.label, error, f": {hint}" if refused else "")


def options_of(words: Iterable[str]) -> dict[str, Any]:
    """Parse options of `open` from strings ``name=value``. Values are parsed as JSON if possible, otherwise strings.

    Raises
    ------
    ArgumentError
        There is no ``=``.
    """
    import json

    options: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise ArgumentError(f"storage option {name!r} is not of the form name=value")
        try:
            options[name.strip()] = json.loads(value)
        except ValueError:
            options[name.strip()] = value
    return options


_ONE_SLASH = r"(?i)((?:file|https?|s3|x?roots?):/)(?=[^/])"


def plain_path(path: object) -> Foreign:
    """Turn a path object into a string, with the second slash that `pathlib` takes from URLs; leave the rest alone."""
    if isinstance(path, os.PathLike):
        return re.sub(_ONE_SLASH, r"\1/", os.fspath(path))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return path


# Options of other readers that choose how bytes are fetched or kept. They change no result, so they may be given.
_WITHOUT_EFFECT = frozenset(
    [
        "begin_chunk_size",
        "custom_classes",
        "decompression_executor",
        "interpretation_executor",
        "max_num_elements",
        "minimal_ttree_metadata",
        "num_fallback_workers",
        "use_threads",
    ]
)
FOR_ANY_FILE = frozenset(["checksums", "column_cache", "column_cache_size"])
"""Options that do not concern storage, so that local files have them, too."""
OPTIONS = _FAR | _S3 | _HANDLERS | _WITHOUT_EFFECT | FOR_ANY_FILE | {"array_cache"}
"""All options of `open` that do not depend on a file system of `fsspec`."""
_PAUSES = (0.0, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032)
"""Seconds to wait, one after another, when a file changes while it is opened."""


def at_rest(look: Callable[[], T]) -> T:
    """Call a function that reads from a file; repeat the call if a writer commits to the file in the meantime.

    Raises
    ------
    ChangedFileError
        It is written to again and again.
    """
    for pause in (*_PAUSES, None):
        try:
            return look()
        except ChangedFileError:
            # Its writer has committed just now: the next look sees one commit.
            if pause is None:
                raise
            time.sleep(pause)
    raise AssertionError("the last look returns or raises")


def source_of(given: object, options: Mapping[str, Any]) -> Found:
    """Return a source for the native core, and whether to copy it first; see `_source_of`."""
    if isinstance(carried := getattr(given, "storage_options", None), Mapping) and not hasattr(given, "read"):
        given = str(given)
        # The options are for a remote file system; a local path has none.
        scheme = re.match(_SCHEME, given)
        options = options if scheme is None or scheme[1].lower() in _LOCAL else {**carried, **options}
    warn_of_executors(options.get("decompression_executor"), options.get("interpretation_executor"))
    options = {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT | FOR_ANY_FILE}
    prior = options.get("prior", "auto")
    if prior not in _PRIORS:
        raise ArgumentError(f"prior must be 'memory', 'disk', 'auto' or None, not {prior!r}")
    return _source_of(given, options)._replace(prior=prior)


def _source_of(given: object, options: Mapping[str, Any]) -> Found:
    """Return a source that the native core can open.

    Parameters
    ----------
    given
        A local path, a URL, bytes, an object with `read` and `seek`, or an open file of `fsspec`.
    options
        As in `open`.

    Raises
    ------
    TypeError
        Options are given for a local file.
    ArgumentError
        The path has an unsupported type, an option is unknown or invalid, or the URL needs `fsspec`, which is not
        installed.
    StorageError
        The URL cannot be opened.
    """
    path = plain_path(given)
    given_options = options
    options, through_fsspec = _without_handlers(options)
    if isinstance(path, str):
        scheme = re.match(_SCHEME, path)
        kind = scheme[1].lower() if scheme is not None else "file"
        linked = re.search(_LINK, path) is not None
        if linked or kind not in _LOCAL:
            known = _FAR | (_S3 if kind == "s3" else frozenset[str]())
            known -= frozenset[str]() if kind in _WITH_CERTIFICATE else {"certificate"}
            if kind in _NATIVE and not linked:
                native = not through_fsspec and options.keys() <= known
                if native and (found := _native(path, kind, options)) is not None:
                    return found
                path = _web_address(path)
                _refuse_unknown(path, re.sub("^dav", "http", kind), options, known)
            return _through_fsspec(path, options)
    in_system = hasattr(path, "fs") and hasattr(path, "path")
    if unknown := sorted(options.keys() - _ALSO_LOCAL - (_FAR if in_system else frozenset[str]())):
        if unknown[0] in _FAR | _S3:
            near = ": it is an option for remote files"
        else:
            near = suggestion(unknown[0], OPTIONS - _HANDLERS - _WITHOUT_EFFECT, 1)
        raise ArgumentTypeError(f"no such option for a local file: {', '.join(unknown)}{near}")
    if isinstance(path, str):
        local = local_path(path)
        # Another process may have another working directory.
        return Found(local, path, None, str(Path(local).absolute()))
    if isinstance(path, (bytes, bytearray, memoryview)):
        return Found(bytes(path), f"<{len(path)} bytes>")
    if callable(getattr(path, "read", None)) and callable(getattr(path, "seek", None)):
        # Only this class of uproot, in its own package or here, reads file objects.
        if isinstance(handler := given_options.get("handler"), type) and handler.__name__ != "ObjectSource":
            raise ArgumentTypeError(f"handler {handler.__name__} does not read objects with 'read' and 'seek'")
        return Found(FileLike(path), str(getattr(path, "name", None) or repr(path)))
    if in_system:
        name = str(getattr(path, "full_name", path.path))
        with _errors_of_system(name):
            return _in_system(path.fs, path.path, name, options)
    raise ArgumentError(
        "a file must be a path, a URL, bytes, an object with 'read' and 'seek', or a dict of one path to the path of "
        f"an object in it, not {path!r}"
    )


def user_path(path: str | os.PathLike[str]) -> Path:
    """Return a local path with the home folder for ``~``; unlike `Path.expanduser`, also without a home folder.

    Raises
    ------
    ArgumentError
        No file can have this path.
    """
    text = os.fspath(path)
    try:
        valid = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        valid = False
    if not valid:
        raise ArgumentError(f"{text!r} is not the path of a file: it has characters that no path can have")
    return Path(os.path.expanduser(text))  # noqa: PTH111


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return a path without symbolic links; unlike `Path.resolve`, also if they form a loop."""
    return Path(os.path.realpath(path))


def local_path(path: str) -> str:
    """Return the path of a local file, given as such or as a URL: ``file:///folder/x.root``, ``file:x.root``."""
    plain = re.sub(_SCHEME, "", path)
    # A file may be called so.
    if plain is path and path.lower().startswith("file:") and not Path(path).exists():
        plain = path[len("file:") :]
    return str(user_path(plain))


def _without_handlers(options: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the other options, and whether it is left to `fsspec`."""
    for name in options.keys() & _HANDLERS:
        value = options[name]
        if not (value is None or isinstance(value, type) or (name == "handler" and value == "fsspec")):
            also = "'fsspec', " if name == "handler" else ""
            raise ArgumentTypeError(f"{name} is {also}None or a class of uproot, not {value!r}")
    others = {name: value for name, value in options.items() if name not in _HANDLERS}
    return others, options.get("handler") == "fsspec"


def _far(
    options: Mapping[str, Any],
    keys: tuple[str, str, str | None, str] | None = None,
    most_ranges: int = 1000,
    certificate: str | None = None,
) -> Far:
    def number(name: str, default: int, least: int) -> int:
        value = options.get(name)
        value = default if value is None else value
        if not hasattr(value, "__index__") or not least <= value < 1 << 31:
            raise ArgumentError(f"{name} must be a number of at least {least}, not {value!r}")
        return int(value)

    def seconds(name: str) -> float | None:
        value = options.get(name)
        try:
            return None if value is None else float(value)
        except (TypeError, ValueError, OverflowError):
            raise ArgumentError(f"{name} is a number of seconds, not {value!r}") from None

    headers = options.get("headers") or {}
    try:
        headers = dict(headers)
    except (TypeError, ValueError):
        raise ArgumentError(f"headers are a dict of names and values, not a {type(headers).__name__}") from None
    timeout = seconds("timeout")
    return Far(
        timeout=30.0 if timeout is None else timeout,
        retries=number("retries", 8, 0),
        workers=number("num_workers", 4, 1),
        prefetch=_size("prefetch_size", options.get("prefetch_size"), 128 << 20),
        headers=[(str(name), str(value)) for name, value in headers.items()],
        header_bytes=number("http_max_header_bytes", 7 << 10, 64),
        ranges=number("http_max_ranges", most_ranges, 1),
        keys=keys,
        deadline=seconds("deadline"),
        blocks=cache_of(options, "block_cache"),
        user=_user(),
        certificate=certificate,
    )


def cache_of(options: Mapping[str, Any], name: str) -> tuple[str, int] | None:
    """Return the folder of a cache and the bytes that it may hold, from an option or the environment; None: no cache.

    Raises
    ------
    ArgumentError
        The folder is not a path, the size is not a number of bytes, or there is a size and no folder.
    """
    variable = f"SAPWOOD_{name.upper()}"
    folder = options.get(name, os.environ.get(variable))
    if not folder:
        if name not in options and options.get(f"{name}_size") is not None:
            raise ArgumentError(f"{name}_size is given, but no {name} (or {variable}), the folder of the cache")
        return None
    if not isinstance(folder, (str, os.PathLike)):
        raise ArgumentError(f"{name} is the path of a folder, not {folder!r}")
    default = os.environ.get(f"{variable}_SIZE", "10 GB")
    size = f"{name}_size"
    return str(user_path(folder).absolute()), _size(size, options.get(size), default)


def _size(name: str, given: Any, default: int | str) -> int:
    from sapwood.show.units import memory_size

    try:
        size = memory_size(default if given is None else given)
    except (ArgumentError, TypeError) as error:
        raise ArgumentError(f"{name}: {error}") from None
    if size >= 1 << 63:
        raise ArgumentError(f"{name} must be a number of bytes, not {given!r}")
    return size


def _user() -> tuple[str, str, int]:
    """Return the names of the user and of its group, and its number, as the system has them."""
    number = os.geteuid()
    try:
        import grp
        import pwd

        return pwd.getpwuid(number).pw_name, grp.getgrgid(os.getegid()).gr_name, number
    except (ImportError, KeyError):
        # In a container, a user need not have a name.
        return str(number), str(os.getegid()), number


def _native(url: str, kind: str, options: Mapping[str, Any]) -> Found | None:
    keys = None
    urls = [url, *_replicas(url, kind, options.get("replicas"))]
    for one in urls:
        try:
            one.encode()
        except UnicodeEncodeError:
            raise ArgumentError(f"{one!r} is not a URL: write bytes that are not UTF-8 as %XX") from None
    if kind == "s3":
        if bool(options.get("key")) != bool(options.get("secret")):
            raise ArgumentError(f"{url}: `key` and `secret` must be given together; one is missing")
        if not options.get("anon"):
            keys = _keys(options)
            if keys is None and _has_profile():
                return None
        urls = [_s3_address(one, options) for one in urls]
    elif kind not in _XROOTD:
        # Only characters that no URL may have are quoted.
        urls = [quote(_web_address(one), safe="%/:=&?~#+!$,;'@()*[]") for one in urls]
    certificate = None
    if kind in _WITH_CERTIFICATE:
        from sapwood.storage.credentials import find_certificate

        certificate = find_certificate(options, kind)
    # No S3 server answers with several ranges: it would send the whole file.
    return Found(urls, url, _far(options, keys, 1 if kind == "s3" else 1000, certificate), url)


def _web_address(url: str) -> str:
    """Return the address by which a URL of WebDAV is read: ``davs:`` is ``https:``."""
    return re.sub(r"(?i)\Adav(s?)://", r"http\1://", url)


def _replicas(url: str, kind: str, given: Any) -> list[str]:
    """Check further URLs of a file: one that is of no use should not be noticed only when it is needed."""
    replicas: list[Any] = [given] if isinstance(given, str) else list(given) if isinstance(given, Iterable) else [given]
    if given is None:
        return []
    family = next((family for family in _FAMILIES if kind in family), frozenset({kind}))
    for one in replicas:
        scheme = re.match(_SCHEME, one) if isinstance(one, str) else None
        if scheme is None or scheme[1].lower() not in family:
            raise ArgumentError(f"{url}: `replicas` must be URLs of the same protocol, unlike {one!r}")
    return replicas


def _s3_option(options: Mapping[str, Any], name: str, *variables: str) -> str | None:
    inner = options.get("client_kwargs") or {}
    check_kind("client_kwargs", inner, Mapping, "a dict")
    found = options.get(name) or inner.get(name)
    check_kind(name, found, (str, type(None)), "a string")
    return found or next((os.environ[v] for v in variables if os.environ.get(v)), None)


def _region(options: Mapping[str, Any]) -> str:
    from sapwood.storage.credentials import find_region

    return _s3_option(options, "region_name") or find_region()


def _keys(options: Mapping[str, Any]) -> tuple[str, str, str | None, str] | None:
    from sapwood.storage.credentials import find_keys

    for name in ("key", "secret", "token"):
        if not isinstance(given := options.get(name), (str, type(None))):
            raise ArgumentTypeError(f"{name} is a string, not a {type(given).__name__}")  # it may be a secret
    found = find_keys(options)
    return None if found is None else (found.key, found.secret, found.token, _region(options))


def _has_profile() -> bool:
    from sapwood.storage.credentials import has_profile

    return has_profile()


def _s3_address(url: str, options: Mapping[str, Any]) -> str:
    bucket, _, key = url.split("://", 1)[1].partition("/")
    if not bucket or not key:
        raise ArgumentError(f"{url}: a file in S3 has the form s3://bucket/key")
    path = quote(key, safe="/-_.~")
    endpoint = _s3_option(options, "endpoint_url", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    if endpoint is not None:
        return f"{endpoint.rstrip('/')}/{bucket}/{path}"
    host = f"s3.{_region(options)}.amazonaws.com"
    return f"https://{host}/{bucket}/{path}" if "." in bucket else f"https://{bucket}.{host}/{path}"


def _refuse_unknown(url: str, kind: str, options: Mapping[str, Any], known: frozenset[str]) -> None:
    """Return the options that neither we have nor the file system of `fsspec`, which would take anything."""
    taken = set(known)
    why = ""
    try:
        import fsspec  # pyright: ignore[reportMissingTypeStubs]
        from fsspec.dircache import DirCache  # pyright: ignore[reportMissingTypeStubs]

        # The last constructor passes its `**kwargs` to the cache of listings; `fsspec` itself takes two options.
        taken |= _parameters(fsspec.get_filesystem_class(kind)) | _parameters(DirCache)
        taken |= {"skip_instance_cache", kind}
        if kind in {"http", "https"}:
            import inspect

            import aiohttp

            # The remaining options go to each request.
            session: Foreign = aiohttp.ClientSession
            taken |= inspect.signature(session._request).parameters.keys()
    except ImportError as error:
        why = f" (if fsspec has it: {error})"
    taken -= {"kwargs"}
    strange = sorted(options.keys() - taken)
    if strange:
        near = similar(strange[0], sorted(taken), 1)
        hint = f" (did you mean {near[0]!r}?)" if near else why
        raise ArgumentError(f"{url}: no such option: {', '.join(map(repr, strange))}{hint}")


def _parameters(made: Foreign) -> set[str]:
    """Return the names of the parameters of a class's constructors, inherited ones included."""
    import inspect

    every = (one for base in made.__mro__[:-1] for one in inspect.signature(base.__init__).parameters.values())
    # The name of `**storage_options` is none that is taken.
    return {one.name for one in every if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)} - {"self"}


def _through_fsspec(url: str, options: Mapping[str, Any]) -> Found:
    ours = {name: options[name] for name in options if name in _FAR}
    with _errors_of_system(url):
        system, path = _system_of(url, options)
        return _in_system(system, path, url, ours, url)


@contextlib.contextmanager
def _errors_of_system(name: str) -> Generator[None]:
    """Raise sapwood's errors in place of those of a file system of `fsspec`.

    Raises
    ------
    MissingFileError, StorageError
        The file does not exist, or the system failed.
    """
    try:
        yield
    except SapwoodError:
        raise
    except FileNotFoundError as error:
        raise MissingFileError(f"{name}: {one_line(error)}") from None
    except BaseException as error:  # each kind of storage raises its own errors, such as `BadZipFile`
        if not is_failure(error):
            raise
        # Not as its cause, which may name the URL with a token.
        raise StorageError(f"{name}: {one_line(error)}") from None


_LISTING = 300.0
"""Seconds after which the listing of remote folders ends, without a deadline: a server may never end it."""
_DEEPEST, _MOST_FOLDERS = 64, 20_000
"""Maximum depth, and number, of folders that a pattern with ``**`` looks into: those of a server may have no end."""


def matching(pattern: str, options: Mapping[str, Any]) -> list[str]:
    """List the URLs that match a pattern (``*``, ``?``, ``[...]``, ``**`` in its path), sorted by name.

    Folders are listed by XRootD natively, else by `fsspec`: of S3 with `s3fs`, of a web server by links on its pages.

    Raises
    ------
    ArgumentError
        `fsspec` is not there.
    MissingFileError, StorageError
        A folder is not there, or cannot be listed.
    """
    scheme = re.match(_SCHEME, pattern)
    options, _ = _without_handlers(options)
    if scheme is not None and scheme[1].lower() in _XROOTD and re.search(_LINK, pattern) is None:
        far = _far(options)
        host, _, path = pattern[scheme.end() :].partition("/")
        path, mark, opaque = path.partition("?")
        behind = mark + opaque

        def list_folder(folder: str) -> list[tuple[str, bool]]:
            from sapwood import _native
            from sapwood.storage import client

            server = f"{scheme[0]}{host}"
            try:
                if server not in _BY_CLIENT:
                    return _native.list_folder(f"{server}/{folder or '/'}{behind}", far)
            except PermissionError as error:
                if not client.may_admit(server, error):
                    raise
                if not client.is_installed():
                    raise PermissionError(f"{error} ({_NO_CLIENT})") from None
            names = client.list_folder(server, f"/{folder.lstrip('/')}{behind}", far.timeout)
            _BY_CLIENT.add(server)
            return names

        try:
            return [f"{scheme[0]}{host}/{found}{behind}" for found in sorted(set(glob_of(path, list_folder)))]
        except FileNotFoundError as error:
            raise MissingFileError(str(error)) from None
        except OSError as error:
            raise StorageError(str(error)) from None
    try:
        with _errors_of_system(pattern):
            if scheme is not None and scheme[1].lower() == "s3" and _keys(options) is None and not _has_profile():
                options = {"anon": True} | options
            system, path = _system_of(pattern, options, lists=True)
            if getattr(system, "async_impl", False) and hasattr(system, "_glob"):
                deadline = _far(options).deadline
                listed = within(system, "_glob", _LISTING if deadline is None else deadline, path, detail=True)
            else:
                listed = system.glob(path, detail=True)
            found = [name for name, about in listed.items() if about.get("type") != "directory"]
            if wrong := [one for one in found if not isinstance(one, str) or "::" in one]:
                why = "it contains '::'" if isinstance(wrong[0], str) else "it is not a string"
                raise StorageError(f"{pattern}: the listed name {wrong[0]!r} cannot be part of a URL: {why}")
            # A name may have its scheme already. Protocols before it and the archive after it stay.
            parts = pattern.split("::")
            place = next((place for place, part in enumerate(parts) if "://" in part), len(parts) - 1)
            names = [system.unstrip_protocol(one) for one in sorted(found)]
            return ["::".join([*parts[:place], one, *parts[place + 1 :]]) for one in names]
    except MissingFileError:
        return []


def glob_of(pattern: str, list_folder: Callable[[str], list[tuple[str, bool]]]) -> Iterator[str]:
    """Return the paths that match a pattern, where a function lists names in a folder, and whether they are folders."""
    seen = 0

    def walk(folder: str, parts: Sequence[str], depth: int = 0) -> Iterator[str]:
        nonlocal seen
        part, rest = parts[0], parts[1:]
        if part != "**" and not has_magic(part):
            yield from walk(folder + part + "/", rest, depth) if rest else [folder + part]
            return
        seen += 1
        if depth > _DEEPEST or seen > _MOST_FOLDERS:
            raise LimitError(
                f"{pattern} looks into more than {_MOST_FOLDERS} folders, or deeper than {_DEEPEST}: name some of them"
            )
        for name, is_folder in list_folder(folder):
            if (part == "**" or fnmatchcase(name, part)) and (wrong := re.search(r"/|\?|::", name)):
                # The URL would name another file, maybe in another folder.
                raise StorageError(
                    f"{folder}: the listed name {name!r} cannot be part of a URL: it contains {wrong[0]!r}"
                )
            if part == "**" and is_folder:
                yield from walk(f"{folder}{name}/", parts, depth + 1)
            elif part == "**":
                yield from () if rest else [folder + name]
            elif fnmatchcase(name, part) and is_folder == bool(rest):
                yield from walk(f"{folder}{name}/", rest, depth + 1) if rest else [folder + name]
        if part == "**" and rest:
            yield from walk(folder, rest, depth)

    yield from walk("", pattern.split("/"))


def _system_of(url: str, options: Mapping[str, Any], *, lists: bool = False) -> tuple[Foreign, str]:
    """Return the file system of `fsspec` for a URL, with the options that it may know, and the path there."""
    try:
        import fsspec  # pyright: ignore[reportMissingTypeStubs]
    except ImportError:
        raise ArgumentError(
            f"{url}: reading from a URL of this kind needs the package fsspec (pip install 'sapwood[remote]')"
        ) from None
    own = options.keys() - _FAR
    if options.keys() & _FAR and re.search(_LINK, url) is None:
        # Some mean the same to it, such as `timeout`.
        own |= options.keys() & _parameters(fsspec.get_filesystem_class(fsspec.core.split_protocol(url)[0]))
    theirs = {name: value for name, value in options.items() if name in own}
    if options.get("headers") and url.startswith(("http://", "https://")):
        theirs["headers"] = dict(options["headers"])
    return fsspec.core.url_to_fs(url, **web_options(url, theirs, lists=lists))


def _in_system(system: Foreign, path: str, name: str, options: Mapping[str, Any], address: str | None = None) -> Found:
    many = getattr(system, "async_impl", False)
    dropped = _NOT_IN_SYSTEMS if many else _NOT_IN_SYSTEMS | _NOT_ONE_BY_ONE
    dropped -= _parameters(type(system))
    if given := sorted(one for one in dropped if options.get(one) not in (None, (), [])):
        raise ArgumentError(
            f"{name}: {', '.join(given)} has no effect when fsspec's {type(system).__name__} reads the file"
        )
    far = _far(options)
    if many:
        limit = far.timeout if far.deadline is None else min(far.timeout, far.deadline)
        return Found(InFileSystem(system, path, limit), name, far, address)
    return Found(FileLike(system.open(path, "rb"), system), name, None, address)
