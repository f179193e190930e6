"""Merge ROOT files: trees joined by copying their baskets, histograms added, others handled by a chosen policy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import EllipsisType
from typing import Any

from sapwood.compression import Compression
from sapwood.errors import ArgumentError
from sapwood.show.units import memory_size
from sapwood.storage.locate import is_url, local_target
from sapwood.storage.sources import real_path, user_path
from sapwood.tools.merging.inputs import input_paths
from sapwood.tools.merging.merger import merge_files
from sapwood.tools.merging.parts import merge_in_parts
from sapwood.tools.merging.planning import plan_merge
from sapwood.tools.merging.report import Merged
from sapwood.tools.merging.settings import Others, Settings
from sapwood.tools.merging.verifying import verify_output

__all__ = ["Merged", "merge"]


def merge(
    output: str | os.PathLike[str],
    inputs: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
    *,
    compression: Compression | EllipsisType | None = ...,
    recluster: bool = False,
    others: Others = "first",
    only: Sequence[str] = (),
    drop: Sequence[str] = (),
    max_memory: str | int = "512 MB",
    jobs: int = 1,
    skip_bad: bool = False,
    dry_run: bool = False,
    verify: bool = False,
    resume: bool = False,
    trees: bool = True,
    union: bool = False,
    unmatched: bool = False,
    overwrite: bool = True,
    progress: Callable[[int, int, str], None] | None = None,
    options: Mapping[str, Any] | None = None,
) -> Merged:
    """Merge ROOT files into one.

    Trees of the same path are joined: their baskets are copied as they are stored. Histograms and profiles are added,
    including those inside lists, stacks and other objects. Points of graphs (`TGraph`, with errors of any kind) are
    appended; lists of entries (`TEntryList`, `TEventList`) are united; parameters (`TParameter`) are added, multiplied
    or chosen, according to their bits. Of other objects, the first is copied; see `others`. Histograms that cannot be
    added (`THn`, `THnSparse`, averages, efficiencies with weights) are named in `not_added`, also if they are equal.

    Parameters
    ----------
    output
        The new file. It is written next to its final path and renamed when the merge is complete.
    inputs
        Paths, URLs and patterns, in order; ``@list`` names a text file with one of these per line.
    compression
        Compress all baskets and pages again, without decoding them, and store objects with this codec. By default, they
        stay as they are.
    recluster
        Decode trees and RNTuples and write them again with clusters of 30 MB. Only for types that sapwood can write.
    others
        Policy for objects that cannot be added and differ between files: take the ``"first"``, write ``"all"`` as
        cycles of one name, or fail with an ``"error"``.
    only, drop
        Patterns of paths of objects to merge, and to leave out. A directory includes its whole content.
    max_memory
        Memory limit for objects. Trees need about 40 MB in addition to their lists of baskets.
    jobs
        Number of processes that merge parts of the inputs. The parts are joined at the end, so data are written twice.
    skip_bad
        Leave out unreadable files and list them in the result, instead of failing.
    dry_run
        Read only keys and descriptions; write nothing.
    verify
        Compare all values of the joined trees, and the sums of histograms, with the inputs. Of a `union`, the branches
        that each input has are compared.
    resume
        Merge in parts. An interrupted merge keeps its parts in the folder ``OUTPUT.parts`` and continues with them
        when it is run again.
    trees
        Merge trees and RNTuples. If false, they are left out.
    union
        If branches or fields differ, take those of all files. Entries of a file that lacks one get zeros, empty
        strings and empty lists; nullable fields of RNTuples are missing. Such trees are decoded and written again.
    unmatched
        Accept patterns of `only` and `drop` that match nothing. By default, they are an error.
    overwrite
        Replace an existing output. If false, it is an error, also if it appears during the merge.
    progress
        Called with the number of files done, the total number of files, and a path.
    options
        Options of `sapwood.open`.

    Returns
    -------
    Merged
        The merged, skipped and changed objects.

    Raises
    ------
    ArgumentError
        Branches differ between files, no file is given, the output is one of the inputs, or a pattern matches nothing.
    CorruptError
        A file is damaged, was not closed, or was cut off.
    UnsupportedError
        A tree cannot be copied without decoding.
    FileExistsError
        The output exists and `overwrite` is false.
    """
    try:
        limit = memory_size(max_memory)
    except (ArgumentError, TypeError) as error:
        raise ArgumentError(f"max_memory: {error}") from error
    output = local_target(output)
    settings = Settings(
        compression,
        others,
        tuple(only),
        tuple(drop),
        limit,
        skip_bad,
        trees,
        union,
        recluster,
        unmatched,
        dict(options or {}),
    )
    if not overwrite and Path(output).exists():
        raise FileExistsError(f"{output} already exists")
    if jobs < 1:
        raise ArgumentError(f"jobs must be at least 1, not {jobs}")
    paths = input_paths(inputs, settings.options)
    target = user_path(output)
    if any(not is_url(path) and real_path(path) == real_path(target) for path in paths):
        raise ArgumentError(f"{target} is one of the inputs")
    tell = progress or (lambda *_: None)
    if dry_run:
        return plan_merge(str(target), paths, settings)
    if (union or recluster) and (jobs > 1 or resume):
        raise ArgumentError("union and recluster use one process: they take no jobs or resume")
    if (jobs > 1 or resume) and len(paths) > 1:
        result = merge_in_parts(target, paths, settings, jobs, resume, tell, overwrite=overwrite)
    else:
        result = merge_files(target, paths, settings, tell, overwrite=overwrite)
    if verify:
        verify_output(result, settings)
        result.verified = True
    return result
