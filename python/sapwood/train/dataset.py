"""Which files a job reads, and in which steps."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.errors import ArgumentError, MissingFileError, NotFoundError
from sapwood.reading.locate import split_path
from sapwood.reading.steps import memory_size

if TYPE_CHECKING:
    from sapwood.columns import Foreign

StepSize = int | str

_TREES = {"TTree", "TNtuple", "TNtupleD", "TChain"}


def parse_size(text: str) -> int:
    """Turn ``"50 MB"`` (or kB, GB, kiB, MiB, ...) into bytes.

    Raises
    ------
    ArgumentError
        If it is not a positive number with such a unit.
    """
    try:
        size = memory_size(text)
    except TypeError:
        size = 0
    if size < 1:
        raise ArgumentError(f"{text!r} is not a size such as '50 MB' or '200 kB'")
    return size


def parse_step_size(text: str) -> StepSize:
    """Turn the text of a step size into a number of entries (``"5000"``), or leave it a size in bytes (``"50 MB"``).

    Raises
    ------
    ArgumentError
        If it is neither.
    """
    if re.fullmatch(r"\s*[0-9]+\s*", text) and int(text) > 0:
        return int(text)
    parse_size(text)
    return text


@dataclass(frozen=True)
class Source:
    """One tree in one file; `tree` is None for the only tree that the file has."""

    path: str
    tree: str | None = None

    def __str__(self) -> str:
        """Give ``file`` or ``file:tree``."""
        return self.path if self.tree is None else f"{self.path}:{self.tree}"

    @property
    def size(self) -> int | None:
        """Size of the file in bytes, None where it is not known before the file is opened."""
        try:
            return Path(self.path).stat().st_size
        except OSError:
            return None


@dataclass(frozen=True)
class Dataset:
    """The files of a job, in the order in which their results are joined."""

    sources: tuple[Source, ...]

    @staticmethod
    def of(inputs: Foreign, tree: str | None = None) -> Dataset:
        """Find the files that `inputs` stand for.

        Parameters
        ----------
        inputs
            One text or path, or several: a file, ``file.root:path/of/tree``, a pattern with ``*``, ``?`` and ``**``, a
            directory (all ``*.root`` in it and below), a text file ``list.txt`` or ``@list`` with one of these on a
            line (``#`` starts a comment; relative paths are meant from the list's own folder), or a URL. Files of a
            pattern or directory are sorted by name; all else stays in its order.
        tree
            Path of the tree inside files given without one.

        Raises
        ------
        ArgumentError
            If nothing is given, a pattern or directory holds no file, or the same tree would be read twice.
        MissingFileError
            If a file, directory or list is not there.
        """
        if isinstance(inputs, Dataset):
            return inputs
        given = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
        found = [Source(path, own or tree) for item in given for path, own in _expand(str(item), Path())]
        if not found:
            raise ArgumentError("no input files")
        seen: set[tuple[str, str | None]] = set()
        for source in found:
            identity = (source.path if _is_url(source.path) else str(Path(source.path).resolve()), source.tree)
            if identity in seen:
                raise ArgumentError(f"{source} is given twice; its entries would be counted twice")
            seen.add(identity)
        return Dataset(tuple(found))

    def __len__(self) -> int:
        """Give the number of files."""
        return len(self.sources)

    @property
    def bytes(self) -> int:
        """Sum of the sizes of the files whose size is known, in bytes."""
        return sum(source.size or 0 for source in self.sources)


def _is_url(text: str) -> bool:
    return "::" in text or re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def _split(text: str) -> tuple[str, str | None]:
    """Split ``file.root:path/of/tree`` into the file and the path inside it, which is None when there is none."""
    return (text, None) if Path(text).exists() else split_path(text)


def _expand(text: str, folder: Path) -> Iterator[tuple[str, str | None]]:
    if text.startswith("@"):
        yield from _listed(folder / text[1:])
        return
    name, tree = _split(text if _is_url(text) else str(folder / text))
    path = Path(name)
    if _is_url(name):
        yield name, tree
    elif path.is_dir():
        inside = sorted(file for file in path.rglob("*.root") if file.is_file())
        if not inside:
            raise ArgumentError(f"directory {name} has no *.root files")
        yield from ((str(file), tree) for file in inside)
    elif path.is_file():
        yield from _listed(path) if path.suffix == ".txt" and tree is None else [(name, tree)]
    elif glob.has_magic(name):
        matching = sorted(file for file in glob.glob(name, recursive=True) if Path(file).is_file())  # noqa: PTH207 - absolute patterns
        if not matching:
            raise ArgumentError(f"no file matches {name}")
        yield from ((file, tree) for file in matching)
    else:
        raise MissingFileError(f"no such file: {name}")


def _listed(path: Path) -> Iterator[tuple[str, str | None]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise MissingFileError(f"list of files {path} cannot be read: {error}") from error
    for line in lines:
        if text := line.partition("#")[0].strip():
            yield from _expand(text, path.parent)


def step_bounds(offsets: Iterable[int], entries_per_step: int, entry_stop: int) -> list[tuple[int, int]]:
    """Divide the entries of a tree into steps that follow its clusters.

    Parameters
    ----------
    offsets
        First entry of every cluster and the end of the last, rising, starting with 0.
    entries_per_step
        No step is longer. Clusters that fit are put together; a cluster that is longer is cut into equal parts.
    entry_stop
        Where to stop.

    Returns
    -------
    list[tuple[int, int]]
        First entry and end of every step.
    """
    bounds = [offset for offset in offsets if offset < entry_stop] + [entry_stop]
    steps: list[tuple[int, int]] = []
    start = 0
    for cluster_start, cluster_stop in pairwise(bounds):
        if cluster_stop - start <= entries_per_step:
            continue
        if cluster_start > start:
            steps.append((start, cluster_start))
            start = cluster_start
        length = cluster_stop - start
        if length > entries_per_step:
            parts = -(-length // entries_per_step)
            cuts = [cluster_start + length * part // parts for part in range(parts + 1)]
            steps += pairwise(cuts)
            start = cluster_stop
    if start < entry_stop:
        steps.append((start, entry_stop))
    return steps


def find_tree(file: Foreign, source: Source) -> tuple[Any, str]:
    """Give the tree of a file and its path inside it.

    Raises
    ------
    NotFoundError
        If the file has no such tree, or no tree.
    ArgumentError
        If it has several and none was asked for, or what was asked for is not a tree.
    """
    if source.tree is not None:
        found = file[source.tree]
        if not hasattr(found, "num_entries"):
            raise ArgumentError(f"{source} is not a tree")
        return found, source.tree
    names = sorted({key.rpartition(";")[0] for key, kind in file.classnames().items() if kind in _TREES})
    if not names:
        raise NotFoundError(f"{source.path} has no tree")
    if len(names) > 1:
        raise ArgumentError(f"{source.path} has several trees; name one with --tree: {', '.join(names)}")
    return file[names[0]], names[0]
