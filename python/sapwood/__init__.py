"""Reads and writes ROOT files at the speed of decompression.

>>> import sapwood
>>> tree = sapwood.open("events.root:Events")
>>> muons = tree.arrays(["Muon_pt", "Muon_eta"], entry_stop=100_000)

Start at `open`, `iterate` and `concatenate`; the names and their meanings are those of uproot, where it has them.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from sapwood.lazy import lazily

if TYPE_CHECKING:
    from sapwood import behaviors as behaviors
    from sapwood import cache as cache
    from sapwood import compression as compression
    from sapwood import const as const
    from sapwood import containers as containers
    from sapwood import dynamic as dynamic
    from sapwood import exceptions as exceptions
    from sapwood import interpretation as interpretation
    from sapwood import model as model
    from sapwood import models as models
    from sapwood import new as new
    from sapwood import pyroot as pyroot
    from sapwood import reading as reading
    from sapwood import source as source
    from sapwood import writing as writing
    from sapwood._native import (
        __version__,
        counters,
        kept_memory,
        num_threads,
        set_basket_cache,
        set_kept_memory,
        set_num_threads,
    )
    from sapwood.cache import LRUArrayCache, LRUCache
    from sapwood.compression import LZ4, LZMA, ZLIB, ZSTD
    from sapwood.containers import (
        AsArray,
        AsMap,
        AsPointer,
        AsRVec,
        AsSet,
        AsString,
        AsVector,
        STLMap,
        STLSet,
        STLVector,
    )
    from sapwood.errors import (
        ArgumentError,
        ChangedFileError,
        CorruptError,
        CutOffError,
        LimitError,
        MissingFileError,
        NotFoundError,
        SapwoodError,
        SapwoodWarning,
        StorageError,
        UnsupportedError,
    )
    from sapwood.errors import CorruptError as DeserializationError
    from sapwood.errors import NotFoundError as KeyInFileError
    from sapwood.files.directory import ReadOnlyDirectory, ReadOnlyKey
    from sapwood.files.file import ReadOnlyFile, open  # noqa: A004
    from sapwood.files.many import concatenate, iterate, num_entries
    from sapwood.files.ntuple import RField, RNTuple
    from sapwood.files.patching import patch_uproot
    from sapwood.files.tree import HasBranches, TBranch, TTree
    from sapwood.frames.batches import Batches, Sample, batches
    from sapwood.frames.dask import dask
    from sapwood.frames.dataset import dataset
    from sapwood.frames.polars import scan_polars
    from sapwood.frames.source import record_scans
    from sapwood.interpretation import (
        AsDouble32,
        AsDtype,
        AsDtypeInPlace,
        AsFloat16,
        AsGrouped,
        AsJagged,
        AsObjects,
        AsStridedObjects,
        AsStrings,
        register_interpretation,
        unregister_interpretation,
    )
    from sapwood.model import behavior_of, class_named, classes, has_class_named, reset_classes, unknown_classes
    from sapwood.naming import classname_decode, classname_encode
    from sapwood.objects.model import Model, Unreadable
    from sapwood.source.cursor import Cursor
    from sapwood.source.file import MemmapSource, MultithreadedFileSource
    from sapwood.source.fsspec import FSSpecSource
    from sapwood.source.futures import ThreadPoolExecutor, TrivialExecutor
    from sapwood.source.http import HTTPSource, MultithreadedHTTPSource
    from sapwood.source.object import ObjectSource
    from sapwood.source.xrootd import MultithreadedXRootDSource, XRootDSource
    from sapwood.storage.trace import Trace, trace
    from sapwood.table.filters import no_filter
    from sapwood.table.steps import Report
    from sapwood.vectors import as_vectors
    from sapwood.writing.dask import dask_write
    from sapwood.writing.directory import WritableDirectory
    from sapwood.writing.file import WritableFile, create, recreate, update
    from sapwood.writing.interpret import as_TGraph
    from sapwood.writing.pyroot import from_pyroot, to_pyroot, to_writable
    from sapwood.writing.tree import WritableBranch, WritableTree

__all__ = [
    "LZ4",
    "LZMA",
    "ZLIB",
    "ZSTD",
    "ArgumentError",
    "AsArray",
    "AsDouble32",
    "AsDtype",
    "AsDtypeInPlace",
    "AsFloat16",
    "AsGrouped",
    "AsJagged",
    "AsMap",
    "AsObjects",
    "AsPointer",
    "AsRVec",
    "AsSet",
    "AsStridedObjects",
    "AsString",
    "AsStrings",
    "AsVector",
    "Batches",
    "ChangedFileError",
    "CorruptError",
    "Cursor",
    "CutOffError",
    "DeserializationError",
    "FSSpecSource",
    "HTTPSource",
    "HasBranches",
    "KeyInFileError",
    "LRUArrayCache",
    "LRUCache",
    "LimitError",
    "MemmapSource",
    "MissingFileError",
    "Model",
    "MultithreadedFileSource",
    "MultithreadedHTTPSource",
    "MultithreadedXRootDSource",
    "NotFoundError",
    "ObjectSource",
    "RField",
    "RNTuple",
    "ReadOnlyDirectory",
    "ReadOnlyFile",
    "ReadOnlyKey",
    "Report",
    "STLMap",
    "STLSet",
    "STLVector",
    "Sample",
    "SapwoodError",
    "SapwoodWarning",
    "StorageError",
    "TBranch",
    "TTree",
    "ThreadPoolExecutor",
    "Trace",
    "TrivialExecutor",
    "Unreadable",
    "UnsupportedError",
    "WritableBranch",
    "WritableDirectory",
    "WritableFile",
    "WritableTree",
    "XRootDSource",
    "__version__",
    "as_TGraph",
    "as_vectors",
    "batches",
    "behavior_of",
    "class_named",
    "classes",
    "classname_decode",
    "classname_encode",
    "concatenate",
    "counters",
    "create",
    "dask",
    "dask_write",
    "dataset",
    "default_library",
    "from_pyroot",
    "has_class_named",
    "iterate",
    "kept_memory",
    "no_filter",
    "num_entries",
    "num_threads",
    "open",
    "patch_uproot",
    "record_scans",
    "recreate",
    "register_interpretation",
    "reset_classes",
    "scan_polars",
    "set_basket_cache",
    "set_kept_memory",
    "set_num_threads",
    "to_pyroot",
    "to_writable",
    "trace",
    "unknown_classes",
    "unregister_interpretation",
    "update",
]  # fmt: skip

default_library = "ak"
"""The default library of arrays. Setting it has no effect, as in uproot."""

# Where each public name lives. A module is imported when its name is first used: `import sapwood` itself is cheap.
__getattr__, __dir__ = lazily(
    globals(),
    {
        "sapwood._native": (
            "__version__",
            "counters",
            "kept_memory",
            "num_threads",
            "set_basket_cache",
            "set_kept_memory",
            "set_num_threads",
        ),
        "sapwood.cache": ("LRUArrayCache", "LRUCache"),
        "sapwood.compression": ("LZ4", "LZMA", "ZLIB", "ZSTD"),
        "sapwood.containers": (
            "AsArray",
            "AsMap",
            "AsPointer",
            "AsRVec",
            "AsSet",
            "AsString",
            "AsVector",
            "STLMap",
            "STLSet",
            "STLVector",
        ),
        "sapwood.errors": (
            "ArgumentError",
            "ChangedFileError",
            "CorruptError",
            "CutOffError",
            "LimitError",
            "MissingFileError",
            "NotFoundError",
            "SapwoodError",
            "SapwoodWarning",
            "StorageError",
            "UnsupportedError",
            "KeyInFileError=NotFoundError",
            "DeserializationError=CorruptError",
        ),
        "sapwood.interpretation": (
            "AsDouble32",
            "AsDtype",
            "AsDtypeInPlace",
            "AsFloat16",
            "AsGrouped",
            "AsJagged",
            "AsObjects",
            "AsStridedObjects",
            "AsStrings",
            "register_interpretation",
            "unregister_interpretation",
        ),
        "sapwood.model": (
            "behavior_of",
            "class_named",
            "classes",
            "has_class_named",
            "reset_classes",
            "unknown_classes",
        ),
        "sapwood.naming": ("classname_decode", "classname_encode"),
        "sapwood.frames.batches": ("Batches", "Sample", "batches"),
        "sapwood.frames.dask": ("dask",),
        "sapwood.frames.dataset": ("dataset",),
        "sapwood.frames.polars": ("scan_polars",),
        "sapwood.frames.source": ("record_scans",),
        "sapwood.objects.model": ("Model", "Unreadable"),
        "sapwood.files.many": ("concatenate", "iterate", "num_entries"),
        "sapwood.files.directory": ("ReadOnlyDirectory", "ReadOnlyKey"),
        "sapwood.files.file": ("ReadOnlyFile", "open"),
        "sapwood.table.filters": ("no_filter",),
        "sapwood.table.steps": ("Report",),
        "sapwood.source.cursor": ("Cursor",),
        "sapwood.source.file": ("MemmapSource", "MultithreadedFileSource"),
        "sapwood.source.fsspec": ("FSSpecSource",),
        "sapwood.source.futures": ("ThreadPoolExecutor", "TrivialExecutor"),
        "sapwood.source.http": ("HTTPSource", "MultithreadedHTTPSource"),
        "sapwood.source.object": ("ObjectSource",),
        "sapwood.source.xrootd": ("MultithreadedXRootDSource", "XRootDSource"),
        "sapwood.storage.trace": ("Trace", "trace"),
        "sapwood.files.ntuple": ("RField", "RNTuple"),
        "sapwood.files.patching": ("patch_uproot",),
        "sapwood.files.tree": ("HasBranches", "TBranch", "TTree"),
        "sapwood.vectors": ("as_vectors",),
        "sapwood.writing.dask": ("dask_write",),
        "sapwood.writing.directory": ("WritableDirectory",),
        "sapwood.writing.file": ("WritableFile", "create", "recreate", "update"),
        "sapwood.writing.interpret": ("as_TGraph",),
        "sapwood.writing.pyroot": ("from_pyroot", "to_pyroot", "to_writable"),
        "sapwood.writing.tree": ("WritableBranch", "WritableTree"),
    },
    modules=(
        "behaviors",
        "cache",
        "compression",
        "const",
        "containers",
        "dynamic",
        "exceptions",
        "interpretation",
        "language",
        "model",
        "models",
        "new",
        "pyroot",
        "reading",
        "source",
        "streamers",
        "writing",
    ),
)

if os.environ.get("SAPWOOD_PATCH_UPROOT"):
    import_module("sapwood.files.patching").patch_uproot()
