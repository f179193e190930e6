"""Open files for reading."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

from sapwood.errors import ArgumentError, CorruptError, CutOffError, StorageError
from sapwood.files.directory import ReadOnlyDirectory
from sapwood.files.handle import FileHandle
from sapwood.storage.locate import split_path
from sapwood.storage.sources import at_rest

if TYPE_CHECKING:
    from sapwood.columns import Foreign


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
        The file: a local path or a URL, optionally with the path of an object after a colon
        (``"dir/file.root:folder/tree"``); a `pathlib.Path`, which is never split; bytes; an object with `read` and
        `seek`; or a dict of one of these to the path of an object.
    object_cache
        Number of read objects to keep for later access (None or 0: none), or a mutable mapping that keeps them.
    array_cache
        Cache of the arrays of `arrays` and `array`: a memory size per file like ``"100 MB"``, which keeps the arrays
        used last, or a mutable mapping (`sapwood.LRUArrayCache`). None: no cache. Changing such an array in place also
        changes the cached copy.
    options
        For remote storage (``root://``, ``http://``, ``s3://``, ...):

        - ``timeout``: seconds within which data must arrive (30);
        - ``deadline``: seconds that opening, or one read, may take;
        - ``retries`` (8);
        - ``num_workers``: number of concurrent prefetch requests (4);
        - ``prefetch_size``: memory for prefetching ("128 MiB");
        - ``replicas``: other URLs of the same file, tried when one fails;
        - ``block_cache``: a folder that keeps blocks of files for later use (SAPWOOD_BLOCK_CACHE);
        - ``block_cache_size`` ("10 GB"; SAPWOOD_BLOCK_CACHE_SIZE);
        - ``headers``, ``http_max_header_bytes`` and ``http_max_ranges`` of a request;
        - for ``s3://`` also ``key``, ``secret``, ``token``, ``anon``, ``endpoint_url`` and ``client_kwargs``, as in
          `s3fs`.

        With other options, or ``handler="fsspec"``, a URL is read by its `fsspec` file system, which gets the options.

        For any file:

        - ``column_cache``: a folder that keeps decoded columns for later use by all processes (SAPWOOD_COLUMN_CACHE);
        - ``column_cache_size`` ("10 GB"; SAPWOOD_COLUMN_CACHE_SIZE);
        - ``checksums``: compare what is read with the checksums beside the file (``FILE.sapwood-checksums``), which
          `recreate` and ``sapwood check --write-checksums`` write. By default those of local files are used if they
          exist; True: also those of remote files, with a warning if there are none; False: none are used;
        - ``prior``: copy the whole file before reading, to ``"memory"`` or ``"disk"``; ``"auto"``, the default, copies
          small remote files of which most is read; None never copies.

        Options of uproot for its own threads and caches (``use_threads``, ...) are accepted without effect.

    Returns
    -------
    The root directory (`ReadOnlyDirectory`), or the object whose path was given.

    Raises
    ------
    MissingFileError
        The file does not exist.
    ChangedFileError
        The file is written to so often that no consistent commit can be read.
    StorageError
        The bytes are not available. The error's ``ledger`` lists the attempts.
    CorruptError
        The file is not a ROOT file, or is damaged.
    CutOffError
        The file was cut off so early that it has no keys. It is also an OSError.
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
# Options in the form in which code for uproot changes and passes them. Only some have an effect.


def _opened(path: object, inside: str | None, options: dict[str, Any]) -> Any:
    file = ReadOnlyFile(path, **options)
    try:
        root = _root_of(file)
        return root if inside is None else root[inside]
    except StorageError as error:
        # The caller never gets the file object.
        error.ledger = file.ledger()
        raise


def _root_of(file: ReadOnlyFile) -> Any:
    """Return the top directory of a file. One that was cut off before any key is refused, as by ROOT and uproot."""
    native = file.native
    if not hasattr(native, "end") or native.end <= native.size:
        return file.root_directory
    cut = f"the file was cut off: {native.size} of {native.end} bytes are left"
    try:
        found = native.directory()
    except CorruptError as error:
        raise CutOffError(f"{cut}: {error}") from error
    if found.recovered and not found.listing()[0]:
        raise CutOffError(f"{cut}, and no keys in them: the list of keys was lost\nin file {file.file_path}")
    return ReadOnlyDirectory(found, (), file, None)


class ReadOnlyFile(FileHandle):
    """An open file and the contents of its header. Objects are reached through `root_directory`.

    Parameters and errors are those of `open`, except that `path` names no object.
    """

    @property
    def root_directory(self) -> Any:
        """The top directory of the file; for an FZ file, its records (`sapwood.files.hbook.FzFile`)."""
        if hasattr(self.native, "reader"):
            from sapwood.files.hbook import FzFile

            return FzFile(self)
        return ReadOnlyDirectory(self.native.directory(), (), self, None)

    def unreadable(self, entries: int | None = 1) -> dict[str, str]:
        """Return the unreadable branches and objects: see `ReadOnlyDirectory.unreadable`."""
        return self.root_directory.unreadable(entries)
