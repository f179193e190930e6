"""Files being written."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import EllipsisType

from sapwood import _native
from sapwood.columns import Foreign
from sapwood.compression import ZSTD, Compression, code_of
from sapwood.errors import ArgumentError, MissingFileError
from sapwood.storage.checksums import attach
from sapwood.storage.checksums import write as write_checksums
from sapwood.storage.locate import is_url
from sapwood.storage.sources import local_path, source_of
from sapwood.table.index import Zones, indexable, number_type
from sapwood.table.index import write as write_index
from sapwood.writing.directory import WritableDirectory
from sapwood.writing.ntuple import WritableNTuple
from sapwood.writing.output import ALSO_LOCAL, OutputFile, RemoteTarget, Settings, check_target, make, storage_errors
from sapwood.writing.tree import WritableTree

DEFAULT_COMPRESSION = ZSTD(5)
"""Default compression of files. Smaller and faster to read than zlib; readable by ROOT since 6.20 and by uproot."""


def create(
    file_path: str | os.PathLike[str] | Foreign,
    *,
    compression: Compression | None = DEFAULT_COMPRESSION,
    title: str = "",
    uuid_function: Callable[[], uuid.UUID] = uuid.uuid1,
    commit_every: str | int | None = "cluster",
    atomic: bool = False,
    reproducible: bool = False,
    index: bool = False,
    checksums: bool = False,
    format: str = "ttree",  # noqa: A002 - the word that users expect
    initial_directory_bytes: int | None = None,
    initial_streamers_bytes: int | None = None,
    **options: object,
) -> WritableDirectory:
    """Create a file for writing; raise `FileExistsError` if the file exists.

    Parameters, result and other errors are those of `recreate`.
    """
    del initial_directory_bytes, initial_streamers_bytes
    settings = Settings(compression, title, uuid_function, commit_every, atomic, reproducible, index, format, checksums)
    return WritableFile.of(make(file_path, settings, options, overwrite=False)).root_directory


def recreate(
    file_path: str | os.PathLike[str] | Foreign,
    *,
    compression: Compression | None = DEFAULT_COMPRESSION,
    title: str = "",
    uuid_function: Callable[[], uuid.UUID] = uuid.uuid1,
    commit_every: str | int | None = "cluster",
    atomic: bool = False,
    reproducible: bool = False,
    index: bool = False,
    checksums: bool = False,
    format: str = "ttree",  # noqa: A002 - the word that users expect
    initial_directory_bytes: int | None = None,
    initial_streamers_bytes: int | None = None,
    **options: object,
) -> WritableDirectory:
    """Create a file for writing, replacing an existing file.

    The index and the checksums beside a replaced file are removed when the new file is in its place.

    Parameters
    ----------
    file_path
        A local path, whose missing folders are created; a URL to which `fsspec` can write (``s3://``, ``memory://``,
        ...); or an object with `seek`, `write`, `truncate` and `flush`. A file for a URL is written to a temporary
        file and sent when it is closed. After an exception in a ``with`` block it is not sent.
    compression
        Default codec and level: `sapwood.ZSTD`, `LZ4`, `ZLIB`, `LZMA`, or None for no compression.
    title
        Title of the file.
    uuid_function
        Function that returns the UUID of the file.
    commit_every
        When written data become visible to readers, even if this process is killed: ``"cluster"``, after each cluster;
        a number, after the first cluster that ends at least this many bytes after the last commit; None, only when
        `commit` is called and when the file is closed.
    atomic
        Write to a temporary file in the same folder, and rename it when it is closed. If the `with` block ends with
        an exception, the storage is full, or the file is never closed, the file at the path does not change.
    reproducible
        Write the same bytes for the same input: the UUID is zero (unless `uuid_function` is given), and all dates are
        1995-01-01, the first that ROOT can store.
    index
        Collect minimum and maximum values of each cluster while writing, and write an index when the file is closed.
        Cuts then skip clusters that cannot pass (see `sapwood stats --index`). The index of a tree is a file next to
        this one; the index of an RNTuple is an attribute set in it. Only for local paths.
    checksums
        Write checksums of all records when the file is closed, to a file beside it (``FILE.sapwood-checksums``). They
        are computed from the bytes that are passed to the storage. Reading compares with them (see `open`). Only for
        local paths.
    format
        Format of assigned tables: ``"ttree"`` or ``"rntuple"``.
    initial_directory_bytes, initial_streamers_bytes
        Accepted without effect: sizes are known before anything is written.
    options
        Options of the `fsspec` file system of a URL.

    Returns
    -------
    WritableDirectory
        The root directory. The file is complete when it is closed: at the end of a `with` block (also after an
        exception), by `close`, or, unless it is `atomic`, when Python ends.

    Raises
    ------
    StorageError
        The storage is full or failed.
    """
    del initial_directory_bytes, initial_streamers_bytes
    settings = Settings(compression, title, uuid_function, commit_every, atomic, reproducible, index, format, checksums)
    return WritableFile.of(make(file_path, settings, options, overwrite=True)).root_directory


_OF_NEW_FILES = frozenset({"atomic", "index", "reproducible", "title", "uuid_function"})
"""Options of `recreate` that `update` has not."""


def update(
    file_path: str | os.PathLike[str],
    *,
    compression: Compression | EllipsisType | None = ...,
    commit_every: str | int | None = "cluster",
    checksums: bool | None = None,
    format: str = "ttree",  # noqa: A002 - the word that users expect
    **options: object,
) -> WritableDirectory:
    """Open a file written by ROOT, uproot or sapwood to add to it.

    Stored objects are not moved. New records go to the end of the file or into free segments.

    Parameters
    ----------
    file_path
        A local path or a URL. The file of a URL is downloaded, and uploaded when it is closed, except after an
        exception in a ``with`` block or if nothing was changed. If another program has changed it in the meantime,
        closing raises `StorageError`.
    compression
        Codec and level of new objects; default: those of the file.
    checksums
        Write checksums beside the file when it is closed, as `recreate` does. None: if the file has valid ones.
        Existing checksums are compared with the records that an update may rewrite, unless this is False.
    commit_every, format, options
        As for `recreate`.

    Raises
    ------
    ArgumentError
        An option is one for new files.
    MissingFileError
        The file does not exist.
    UnsupportedError
        The file was not closed, or was written by ROOT before version 4.
    CorruptError
        The file is not a ROOT file, is damaged, or a directory, the list of its keys, the class descriptions or the
        list of free segments differ from their checksums.
    """
    if not isinstance(file_path, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"update takes the path or URL of a file, not {file_path!r}")
    if options.keys() & _OF_NEW_FILES:
        names = ", ".join(sorted(options.keys() & _OF_NEW_FILES))
        hint = "; make the index of the updated file with sapwood stats --index" if "index" in options else ""
        raise ArgumentError(f"only new files take {names}: pass it to recreate or create{hint}")
    code = None if isinstance(compression, EllipsisType) else code_of(compression)
    settings = Settings(None, "", uuid.uuid1, commit_every, False, False, False, format)
    bytes_between = settings.commit_bytes()
    table_format = settings.table_format()
    path = file_path if isinstance(file_path, str) else str(Path(file_path))
    remote = beside = None
    if isinstance(file_path, str) and is_url(path) and not path.lower().startswith(("file://", "local://")):
        if checksums:
            raise ArgumentError(f"checksums need a local file, not {path!r}")
        remote = RemoteTarget(path, options)
        beside = remote.fetch()
    elif others := ", ".join(sorted(options.keys() - ALSO_LOCAL)):
        raise ArgumentError(f"only URLs take options of storage: {others}")
    else:
        path = local_path(path)
        with storage_errors(path):
            if not Path(path).exists():
                raise MissingFileError(f"{path} does not exist")
        check_target(path, regular=False)
    keeps = False

    def attached(file: _native.File) -> bool:
        """Attach the checksums beside the file, if they are valid; return whether the new file gets checksums."""
        nonlocal keeps
        if beside is None and checksums is not False:
            keeps = attach(file, source_of(Path(path), {}), {}) or bool(checksums)
        return keeps

    try:
        with storage_errors(path):
            offset = time.localtime().tm_gmtoff
            native = _native.Output.update(beside or path, code, offset, None, bytes_between, attached)
    except BaseException:
        if beside is not None:
            Path(beside).unlink(missing_ok=True)
        raise
    return WritableFile(native, path, beside, remote, table_format, checksums=keeps).root_directory


create.defaults = recreate.defaults = {  # pyright: ignore[reportFunctionMemberAccess]
    "compression": DEFAULT_COMPRESSION,
    "initial_directory_bytes": None,
    "initial_streamers_bytes": None,
    "uuid_function": uuid.uuid1,
}
# Options in the form in which code for uproot changes and passes them.


class WritableFile(OutputFile):
    """A file being written. Its objects are reached through `root_directory`."""

    @property
    def root_directory(self) -> WritableDirectory:
        """The top directory."""
        return WritableDirectory((), self, 0)

    def close(self) -> None:
        """Write the remaining entries, complete the file, and write the requested indexes and checksums.

        Raises
        ------
        StorageError
            The storage is full or failed. The message states how many entries are safe.
        """
        ends = not self.closed and os.getpid() == self._process
        try:
            if ends and self.index:
                for table in self.tables.values():
                    if isinstance(table, WritableNTuple):
                        table.write_index()
        finally:
            super().close()
        if ends and self.index:
            self._write_index()
        if ends and self.checksums and self.file_path is not None:
            write_checksums(self.file_path, self.native)

    def _write_index(self) -> None:
        trees = {place: one for place, one in self.tables.items() if isinstance(one, WritableTree)}
        known = {place: (one, zones) for place, one in trees.items() if (zones := one.zones()) is not None}
        if not known:
            return
        with self.read() as file:
            for (path, cycle), (tree, zones) in known.items():
                table = file[f"{'/'.join(path)};{cycle}"]
                # An interrupted call may have written entries without their ranges.
                if zones.edges[-1] == table.num_entries:
                    stored = indexable(table)
                    fields = {
                        name: one for name, one in zones.fields.items()
                        if name in stored and number_type(stored[name].type) == one.low.dtype
                    }  # fmt: skip
                    write_index(table, tree.with_others(Zones(zones.edges, fields), table, stored), self.native)
