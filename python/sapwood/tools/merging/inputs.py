"""The files to merge: their names, and opening each while the one before is merged."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sapwood
from sapwood import _native
from sapwood.compression import Compression
from sapwood.errors import ArgumentError, CorruptError, MissingFileError, SapwoodError
from sapwood.files.file import ReadOnlyFile
from sapwood.files.kinds import TREES, check_root
from sapwood.storage.locate import matches
from sapwood.storage.sources import at_rest, user_path
from sapwood.storage.texts import read_text
from sapwood.threads import start_thread
from sapwood.tools.merging.settings import Settings

if TYPE_CHECKING:
    from sapwood.columns import Foreign


def input_paths(
    inputs: Iterable[str | os.PathLike[str]] | str | os.PathLike[str], options: Mapping[str, Any] | None = None
) -> list[str]:
    """List the files that paths, patterns and ``@list`` files name, in order.

    Raises
    ------
    ArgumentError
        No file is given, or a pattern matches nothing.
    """
    found: list[str] = []
    for one in [inputs] if isinstance(inputs, (str, os.PathLike)) else inputs:
        text = os.fspath(one)
        if text.startswith("@"):
            try:
                lines = read_text(user_path(text[1:])).splitlines()
            except OSError as error:
                raise MissingFileError(f"cannot read the list {text[1:]}: {error.strerror}") from error
            except UnicodeDecodeError as error:
                raise ArgumentError(f"cannot read the list {text[1:]}: {error}") from None
            named = [line.strip() for line in lines]
            found += input_paths([line for line in named if line and not line.startswith("#")], options)
            continue
        matched = matches(text, options or {})
        if not matched:
            raise ArgumentError(f"no file matches {text}")
        found += matched
    if not found:
        raise ArgumentError("no input files")
    return found


def open_file(path: str, settings: Settings) -> Foreign:
    """Open a file with the options of the merge."""
    return sapwood.open({path: None}, **settings.options)


class Input:
    """A file to be merged, and the trees of its top directory that were read ahead, by the offsets of their keys."""

    def __init__(self, path: str, settings: Settings, ahead: Iterable[str] = ()) -> None:
        """Open the file; read the trees with the names `ahead`."""
        self.path = path
        self._opened = at_rest(lambda: ReadOnlyFile(path, **settings.options))
        self.native = check_root(self._opened.native, path)
        self.directory = top_of(path, self.native)
        self.trees: dict[int, _native.Tree] = {}
        names = frozenset(ahead)
        for place, (name, classname) in enumerate(zip(*self.directory.listing()[:2], strict=True) if names else ()):
            if name in names and classname in TREES:
                key = self.directory.key(place)
                # Errors are raised when the file is needed.
                with contextlib.suppress(SapwoodError, OSError):
                    self.trees[key.seek] = self.directory.tree(key)

    @property
    def compression(self) -> Compression | None:
        """The compression setting of the file."""
        return Compression.from_code(self.native.compression)

    @property
    def file(self) -> Foreign:
        """The file as `sapwood.open` returns it; used to decode tables."""
        return self._opened.root_directory

    def stamp(self) -> list[object]:
        """Return what changes if the file of a URL is replaced: its UUID, size, and version on the server."""
        return [self._opened.hex_uuid, self._opened.size, self.native.stored_version()]

    def close(self) -> None:
        """Close the file."""
        self._opened.close()


def top_of(path: str, native: _native.File) -> _native.Directory:
    """Return the top directory of a file.

    Raises
    ------
    CorruptError
        Its list of keys is lost, so keys may be missing.
    """
    top = native.directory()
    if top.recovered:
        raise CorruptError(f"{path}: the file was not closed, or was cut off; sapwood recover saves its intact parts")
    return top


def opened_ahead(
    paths: Sequence[str],
    settings: Settings,
    trees: Callable[[], Iterable[str]],
    begun: Iterable[Input | Exception] = (),
) -> Generator[tuple[str, Callable[[], Input]]]:
    """Yield each path, and a function that returns the open file or raises the error of opening it.

    A second thread opens the file after the yielded one, and reads the trees that `trees` names. `begun` holds the
    first files, which are open already, or their errors. They are closed at the end.
    """
    import queue
    import threading

    orders: queue.SimpleQueue[tuple[str, tuple[str, ...]] | None] = queue.SimpleQueue()
    done: queue.SimpleQueue[Input | Exception] = queue.SimpleQueue()
    known = iter(begun)

    def work() -> None:
        for path, ahead in iter(orders.get, None):
            try:
                done.put(next(known, None) or Input(path, settings, ahead))
            except Exception as error:  # noqa: BLE001 - raised where the file is merged
                done.put(error)

    def take() -> Input:
        found = done.get()
        if isinstance(found, Exception):
            raise found
        return found

    thread = threading.Thread(target=work, name="sapwood-merge-ahead", daemon=True)
    start_thread(thread)
    left = 0
    try:
        for place, path in enumerate(paths):
            for ahead in paths[place + left : place + 2]:
                orders.put((ahead, tuple(trees())))
                left += 1
            yield path, take
            left -= 1
    finally:
        orders.put(None)
        thread.join()
        for found in known:
            done.put(found)
        while not done.empty():
            found = done.get()
            if isinstance(found, Input):
                found.close()


def first_opened(paths: Sequence[str], settings: Settings) -> list[Input | Exception]:
    """Open the first readable file; return it after the errors of those before it."""
    begun: list[Input | Exception] = []
    for path in paths:
        try:
            begun.append(Input(path, settings))
        except (SapwoodError, OSError) as error:
            if not settings.skip_bad:
                raise
            begun.append(error)
        else:
            break
    return begun
