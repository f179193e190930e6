"""Write Dask arrays as ROOT files. The task that computes a partition also writes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sapwood.columns import Foreign
from sapwood.compression import LZ4, LZMA, ZLIB, ZSTD, Compression
from sapwood.errors import ArgumentError
from sapwood.storage.locate import is_url
from sapwood.writing.file import DEFAULT_COMPRESSION, recreate

__all__ = ["dask_write"]

_CODECS = {codec.__name__: codec for codec in (ZLIB, LZMA, LZ4, ZSTD)}


def dask_write(
    array: Foreign,
    destination: str | os.PathLike[str],
    compute: bool = True,
    storage_options: Mapping[str, object] | None = None,
    prefix: str | None = None,
    tree_name: str = "tree",
    title: str = "",
    compression: Compression | str | None = DEFAULT_COMPRESSION,
    compression_level: int = 1,
    **options: object,
) -> Foreign:
    """Write a `dask_awkward` array as trees, one file per partition.

    Parameters
    ----------
    array
        The array of records.
    destination
        The folder, or a URL.
    compute
        Write immediately. If false, return a `dask.delayed.Delayed` that writes when it is computed.
    storage_options
        The options of `sapwood.recreate`.
    prefix
        Files are named ``PREFIX-partN.root``, or ``partN.root`` without a prefix.
    tree_name, title
        Name and title of the trees.
    compression, compression_level
        As in `sapwood.recreate`, or the name of a codec (``"zlib"``) and its level.
    options
        As in `WritableDirectory.mktree`.

    Returns
    -------
    The paths of the files, once they are computed.

    Raises
    ------
    ArgumentError
        The codec is unknown, or the array is not a Dask array.
    """
    if isinstance(compression, str):
        codec = _CODECS.get(compression.upper())
        if codec is None:
            raise ArgumentError(f"unknown codec {compression!r}; choose from {', '.join(_CODECS)}")
        compression = codec(compression_level)
    if not hasattr(array, "to_delayed"):
        raise ArgumentError(f"dask_write takes an array of Dask, not {type(array).__name__}")
    from dask.delayed import delayed

    parts: Any = array.to_delayed()
    digits = len(str(len(parts) - 1))
    folder = os.fspath(destination).rstrip("/")
    paths = [
        f"{folder}/{'' if prefix is None else prefix + '-'}part{number:0{digits}}.root" for number in range(len(parts))
    ]
    if not is_url(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
    write: Any = delayed(_write_part, pure=False)
    made = {"compression": compression, **(storage_options or {})}
    tree = {"title": title, **options}
    found: Any = delayed(list)(
        [write(part, path, made, tree_name, tree) for part, path in zip(parts, paths, strict=True)]
    )
    return found.compute() if compute else found


def _write_part(part: Foreign, path: str, made: Mapping[str, Any], tree_name: str, tree: Mapping[str, Any]) -> str:
    with recreate(path, **made) as file:
        file.mktree(tree_name, part, **tree)
    return path
