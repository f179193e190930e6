"""Trials of remedies: write a sample of a tree in another layout, and read both."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import awkward as ak
import numpy as np

import sapwood
from sapwood.compression import ZSTD, Compression
from sapwood.errors import ArgumentError, one_line
from sapwood.lab.advice.layout import TreeLayout, file_layout, plain_path, readable
from sapwood.lab.advice.price import Price
from sapwood.lab.advice.rewriting import Cost, Layout, cost_of, read_once, recompress, rewrite, write_part
from sapwood.lab.wanted import requests_for
from sapwood.show.units import bytes_text
from sapwood.train.data.dataset import Dataset, Source
from sapwood.writing.collected import Collections, data_fields

if TYPE_CHECKING:
    from sapwood.columns import Foreign

FILES_MERGED = 8
"""Number of files that are merged to measure the gain of larger files."""
_WHOLE = 4
"""Up to this many samples, a tree whose values cannot be written is compressed again as a whole."""


@dataclass(frozen=True)
class Trial:
    """The costs of reading the sample before and after the remedy."""

    before: Cost
    after: Cost

    @property
    def time(self) -> float:
        """The ratio of processor time before to after."""
        return self.before.cpu / self.after.cpu if self.after.cpu else 1.0

    @property
    def size(self) -> float:
        """The ratio of stored bytes before to after."""
        return self.before.stored / self.after.stored if self.after.stored else 1.0

    @property
    def calls(self) -> float:
        """The ratio of requests to storage before to after."""
        return self.before.calls / self.after.calls if self.after.calls else 1.0

    def costs(self, price: Price) -> tuple[float, float]:
        """Return the cost of one reading of the sample, before and after."""
        before, after = (price.job(one.cpu, one.stored, one.calls) for one in (self.before, self.after))
        space = [price.size * one.stored / 1e9 for one in (self.before, self.after)]
        return price.read * before + space[0], price.read * after + space[1]

    def gain(self, price: Price) -> float:
        """Return the fraction of the cost that the remedy saves; negative if reading costs more."""
        before, after = self.costs(price)
        return 1 - after / before if before else 0.0

    def seconds(self, price: Price, entries: int) -> float:
        """Return the seconds that one reading of this many entries saves."""
        before, after = self.costs(price)
        return (before - after) * entries / max(1, self.before.entries)


@dataclass(frozen=True)
class BranchCost:
    """The cost of a top-level branch with its sub-branches: seconds for the sample, bytes for all entries."""

    name: str
    stored: int
    full: int
    baskets: int
    cpu: float


def try_layout(
    where: TreeLayout,
    layout: Layout,
    sample: int,
    used: Sequence[str] | None,
    price: Price,
    *,
    of_all: bool = False,
    alone: bool = False,
) -> tuple[Trial | None, str]:
    """Try a layout on the first entries of a tree; `of_all` also counts the stored bytes of unused branches.

    With `alone` it is compared with the same entries in the default layout: new clusters do not count as a gain.

    Returns
    -------
    tuple[Trial | None, str]
        The trial, or None and the reason.
    """
    names = None if used is None else set(used).__contains__
    with tempfile.TemporaryDirectory() as folder, near(where.file, folder) as file:
        tree = file[where.tree]
        stop = sample_end(where, sample)
        part = Path(folder) / "part.root"
        try:
            _write(tree, where, part, layout, stop)
        except sapwood.UnsupportedError as error:
            why = f"no remedy was tried: {one_line(error)}"
            codec = layout.only_codec(plain_path(where.tree))
            if isinstance(codec, EllipsisType) or where.full > _WHOLE * sample:
                return None, why
            stop, alone = where.entries, False
            with sapwood.recreate(part, compression=codec, commit_every=None) as new:
                recompress(new, "T", [file], codec, where.tree)
        # Unread branches cost space, but no time.
        of_size = None if of_all else names
        with contextlib.ExitStack() as stack:
            new, old = stack.enter_context(sapwood.open({str(part): None}))["T"], tree
            if alone:
                base = Path(folder) / "base.root"
                _write(tree, where, base, Layout(), stop)
                old = stack.enter_context(sapwood.open({str(base): None}))["T"]
            before, after = cost_of([old], 0, stop, names), cost_of([new], names=names)
            stored = cost_of([old], 0, stop, of_size).stored, cost_of([new], names=of_size).stored
            if not alone:
                before = _in_proportion(before, where, stop, names)
                stored = round(stored[0] * sampled_share(where, stop, of_size)), stored[1]
            if tree.file.is_far:  # both as planned for remote storage, because the sample itself is a local file
                calls = [_planned(one, stop, names, price) for one in (old, new)]
                before, after = (dataclasses.replace(c, calls=n) for c, n in zip((before, after), calls, strict=True))
    before, after = (dataclasses.replace(c, stored=s) for c, s in zip((before, after), stored, strict=True))
    return Trial(before, after), ""


def _write(tree: Foreign, where: TreeLayout, part: Path, layout: Layout, stop: int) -> None:
    """Write the first entries in another layout, as table ``T``."""
    if not where.is_rntuple:
        write_part(tree, part, layout, 0, stop)
        return
    write_rntuple(tree, part, _codec_of(layout, where), stop, layout.unused.get(plain_path(where.tree), frozenset()))


def write_rntuple(
    table: Foreign, path: Path, codec: Compression | None, stop: int, without: frozenset[str] = frozenset()
) -> None:
    """Write the first entries of a table as RNTuple ``T``, with the fields that `sapwood convert` writes."""
    names = data_fields(table, without)
    data = ak.zip(table.arrays(names, entry_stop=stop, how=dict), depth_limit=1)
    collections = Collections(data, {name: one for name, one in table.list_counters.items() if name in data.fields})
    with sapwood.recreate(path, compression=codec, commit_every=None) as file:
        file.mkrntuple("T", collections.fields(data), projections=collections.projections)


def _codec_of(layout: Layout, where: TreeLayout) -> Compression | None:
    """Return the codec for rewriting an RNTuple: the requested one, otherwise the codec of most bytes."""
    if not isinstance(wanted := layout.only_codec(plain_path(where.tree)), EllipsisType):
        return wanted
    most = max(where.branches, key=lambda branch: branch.stored, default=None)
    return most.compression if most is not None else ZSTD(5)


def near(file: str, folder: str) -> Any:
    """Open a file. Blocks of a remote file stay in a folder after the first reading.

    Later, measured readings then use local storage, like the readings of the remedy.
    """
    if re.match(r"(https?|s3|x?roots?)://", file):
        return sapwood.open({file: None}, block_cache=str(Path(folder) / "blocks"))
    return sapwood.open({file: None})


def _planned(tree: Any, stop: int, names: Callable[[str], bool] | None, price: Price) -> int:
    """Return the number of requests for reading from remote storage of these prices."""
    branches = [one.index for one in readable(tree) if names is None or names(one.name)]
    rows = tree.native.plan(branches, 0, min(stop, tree.num_entries))[0]
    return len(
        requests_for([(offset, length) for _, _, _, offset, length, _, _ in rows], price.latency, price.bandwidth)
    )


def sample_end(tree: TreeLayout, sample: int) -> int:
    """Return the end of the sample: the end of a cluster, if one is near."""
    if tree.full <= sample:
        return tree.entries
    wanted = max(1, tree.entries * sample // tree.full)
    end = int(tree.clusters[np.searchsorted(tree.clusters, wanted)])
    return end if end <= 2 * wanted else wanted


def sampled_share(where: TreeLayout, stop: int, names: Callable[[str], bool] | None = None) -> float:
    """Return the share of the sample in the bytes that are read for it: the last baskets also have later entries."""
    read, wanted = 0.0, 0.0
    for one in where.branches:
        if names is not None and not names(one.top if where.is_rntuple else one.name):
            continue
        first, last = one.offsets[: len(one.sizes)], one.offsets[1 : len(one.sizes) + 1]
        touched = first < stop
        read += float(one.sizes[touched].sum())
        inside = (np.minimum(last, stop) - first) / np.maximum(1, last - first)
        wanted += float((one.sizes * inside)[touched].sum())
    return wanted / read if read else 1.0


def _in_proportion(cost: Cost, where: TreeLayout, stop: int, names: Callable[[str], bool] | None = None) -> Cost:
    """Return the cost of the sample alone: its share of the bytes and of the time to read them."""
    share = sampled_share(where, stop, names)
    return dataclasses.replace(cost, stored=round(cost.stored * share), cpu=cost.cpu * share, wall=cost.wall * share)


def try_merging(dataset: Dataset) -> tuple[Trial | None, str]:
    """Measure the gain of larger files; returns the same as `try_layout`."""
    chosen = Dataset(dataset.sources[:FILES_MERGED])
    if any("://" in source.path for source in chosen.sources):
        return None, "merging was not tried: the files are remote, and a merged one here would be local"
    with tempfile.TemporaryDirectory() as folder:
        merged = Source(str(Path(folder) / "merged.root"), chosen.sources[0].tree)
        try:
            rewrite(chosen, merged.path, Layout(), tree=merged.tree, verify=False)
        except (sapwood.UnsupportedError, sapwood.NotFoundError, ArgumentError) as error:
            return None, f"merging was not tried: {one_line(error)}"
        return Trial(_opening(chosen.sources), _opening([merged])), ""


def _opening(sources: Sequence[Source]) -> Cost:
    """Measure opening files and reading their trees."""
    costs: list[Cost] = []
    for _ in range(3):
        before, wall, cpu = sapwood.counters(), time.perf_counter(), time.process_time()
        entries, stored = 0, 0
        for source in sources:
            layout = file_layout(source)
            stored += layout.size
            for one in layout.trees:
                with sapwood.open({source.path: None}) as file:
                    entries += read_once([file[one.tree]]).entries
        after = sapwood.counters()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        spent = {name: after[name] - before[name] for name in after}
        costs.append(Cost(entries, stored, cpu, wall, spent["read_calls"], spent["bytes_read"]))
    return sorted(costs, key=lambda cost: cost.cpu)[1]


def try_rntuple(where: TreeLayout, sample: int, price: Price) -> tuple[Trial | None, str]:
    """Measure the gain of an RNTuple with the same values and ZSTD level 5; returns the same as `try_layout`."""
    with tempfile.TemporaryDirectory() as folder, near(where.file, folder) as file:
        tree, stop = file[where.tree], sample_end(where, sample)
        part = Path(folder) / "part.root"
        try:
            write_rntuple(tree, part, ZSTD(5), stop)
        except (sapwood.UnsupportedError, ArgumentError) as error:
            return None, f"conversion was not tried: {one_line(error)}"
        with sapwood.open({str(part): None}) as written:
            before, after = _in_proportion(cost_of([tree], 0, stop), where, stop), cost_of([written["T"]])
            if tree.file.is_far:
                calls = [_planned(one, stop, None, price) for one in (tree, written["T"])]
                before, after = (dataclasses.replace(c, calls=n) for c, n in zip((before, after), calls, strict=True))
        return Trial(before, after), ""


def branch_costs(where: TreeLayout, sample: int, most: int) -> list[BranchCost]:
    """Return the costs of the branches with the most stored bytes; each is read alone, on the sample."""
    tops: dict[str, list[Any]] = {}
    for branch in where.branches:
        tops.setdefault(branch.top, []).append(branch)
    largest = sorted(tops.items(), key=lambda item: -sum(one.stored for one in item[1]))[:most]
    with tempfile.TemporaryDirectory() as folder, near(where.file, folder) as file:
        table, stop = file[where.tree], sample_end(where, sample)
        found: list[BranchCost] = []
        for name, parts in largest:
            wanted = {name} if where.is_rntuple else {one.name for one in parts}
            cost = _in_proportion(cost_of([table], 0, stop, wanted.__contains__), where, stop, wanted.__contains__)
            stored, full, baskets = (sum(getattr(one, what) for one in parts) for what in ("stored", "full", "baskets"))
            found.append(BranchCost(name, stored, full, baskets, cost.cpu))
        return found


def cost_row(one: BranchCost, all_stored: int) -> list[str]:
    """Return the cost of a branch as texts: name, stored bytes, share, compression factor, baskets, milliseconds."""
    return [
        one.name, bytes_text(one.stored), f"{100 * one.stored / max(1, all_stored):.1f} %",
        f"{one.full / max(1, one.stored):.2f}", str(one.baskets), f"{1e3 * one.cpu:.2f} ms",
    ]  # fmt: skip


COST_HEAD = ("Branch", "stored", "share", "compressed by", "baskets", "processor, on the sample")
