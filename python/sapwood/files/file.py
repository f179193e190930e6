"""Open files for reading."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, StorageError
from sapwood.files.directory import ReadOnlyDirectory
from sapwood.files.handle import FileHandle
from sapwood.storage.locate import split_path
from sapwood.storage.sources import at_rest


def open(  # noqa: A001
    path: object,
    *,
    object_cache: MutableMapping[str, Any] | int | None = 100,
    array_cache: object = None,
    **options: object,
) -> Foreign:
    """Open a ROOT file for reading.

    Parameters
    ----------
    path
        The file: a local path or a URL, with or without the path of an object in it behind a colon
        (``"dir/file.root:folder/tree"``); a `pathlib.Path`, which is never split; bytes; an object with `read` and
        `seek`; or a dict of one of these to the object's path.
    object_cache
        How many objects read from the file are kept for the next time they are asked for (None or 0: none), or a
        mutable mapping in which they are.
    array_cache
        Where arrays of `arrays` and `array` are kept for the next time: a memory size like ``"100 MB"``, what was used
        last of each file; or a mutable mapping (`sapwood.LRUArrayCache`). None: nowhere. Whoever changes such an array
        in place changes what is kept.
    options
        For remote storage (``root://``, ``http://``, ``s3://``, ...): ``timeout`` (seconds in which something must
        come, 30), ``retries`` (8), ``num_workers`` (requests in flight for what is fetched ahead, 4), ``prefetch_size``
        (memory for that, "128 MiB"), ``replicas`` (further URLs of the same file, tried when one fails), ``deadline``
        (seconds that opening, or one reading, may take), ``block_cache`` (a folder in which blocks of files are kept
        for the next time; SAPWOOD_BLOCK_CACHE) and ``block_cache_size`` ("10 GB"; SAPWOOD_BLOCK_CACHE_SIZE),
        ``headers``, ``http_max_header_bytes`` and ``http_max_ranges`` (of a request); for ``s3://`` also ``key``,
        ``secret``, ``token``, ``anon``, ``endpoint_url`` and ``client_kwargs`` as `s3fs` has them. With other options,
        or ``handler="fsspec"``, a URL is read by its `fsspec` file system, which gets them. For any file:
        ``column_cache`` (a folder in which decoded columns are kept for the next time, for all processes;
        SAPWOOD_COLUMN_CACHE) and ``column_cache_size`` ("10 GB"; SAPWOOD_COLUMN_CACHE_SIZE); and ``prior``: copy the
        file whole before it is read, to ``"memory"`` or ``"disk"``; ``"auto"``, the default, where that pays (small
        remote files that are mostly wanted); None never. Those of uproot that steer its own threads and caches
        (``use_threads``, ...) may be given and have no effect.

    Returns
    -------
    The root directory (`ReadOnlyDirectory`), or the object whose path was given.

    Raises
    ------
    MissingFileError
        There is no such file.
    ChangedFileError
        It is written to again and again, so that no look at it shows one commit.
    StorageError
        The bytes are not available; the error's ``ledger`` has what was tried.
    CorruptError
        It is not a ROOT file, or a damaged one.
    NotFoundError
        The object is not in the file.
    """
    inside: str | None = None
    if isinstance(path, Mapping):
        if len(path) != 1:  # pyright: ignore[reportUnknownArgumentType]
            raise ArgumentError(f"a dict names one file and the object in it; this one has {len(path)} entries")  # pyright: ignore[reportUnknownArgumentType]
        ((path, inside),) = path.items()  # pyright: ignore[reportUnknownVariableType]
    elif isinstance(path, str):
        path, inside = split_path(path)
    return at_rest(lambda: _opened(path, inside, {"object_cache": object_cache, "array_cache": array_cache, **options}))


open.defaults = {  # pyright: ignore[reportFunctionMemberAccess]
    "handler": None,
    "max_num_elements": None,
    "num_workers": 4,
    "use_threads": True,
    "num_fallback_workers": 10,
    "begin_chunk_size": 403,
    "minimal_ttree_metadata": True,
    "http_max_header_bytes": 7168,
}
# Options as code for uproot changes and gives them; only some have an effect.


def _opened(path: object, inside: str | None, options: dict[str, Any]) -> Any:
    file = ReadOnlyFile(path, **options)
    try:
        return file.root_directory if inside is None else file.root_directory[inside]
    except StorageError as error:
        # Nobody gets the file to ask it.
        error.ledger = file.ledger()
        raise


class ReadOnlyFile(FileHandle):
    """An open file: what its header says. Objects are reached through `root_directory`.

    Parameters and errors are those of `open`, except that `path` names no object.
    """

    @property
    def root_directory(self) -> Any:
        """The directory at the top of the file; of an FZ file, its records (`sapwood.files.hbook.FzFile`)."""
        if hasattr(self.native, "reader"):
            from sapwood.files.hbook import FzFile

            return FzFile(self)
        return ReadOnlyDirectory(self.native.directory(), (), self, None)

    def unreadable(self, entries: int | None = 1) -> dict[str, str]:
        """Return what cannot be read: see `ReadOnlyDirectory.unreadable`."""
        return self.root_directory.unreadable(entries)
