"""What is wrong with the layout of files, by a closed list of problems, and what a remedy gains."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import json
import re
import shlex
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import sapwood
from sapwood.compression import ZSTD
from sapwood.errors import ArgumentError, suggestion
from sapwood.lab.advice.layout import BranchLayout, TreeLayout, layouts_of, plain_path
from sapwood.lab.advice.price import WORSE, Price
from sapwood.lab.advice.rewriting import (
    Cost,
    Layout,
    cost_of,
    parse_cluster,
    parse_codec,
    read_once,
    rewrite,
    write_part,
)
from sapwood.lab.wanted import requests_for, wanted_of
from sapwood.show.safe import safe_line
from sapwood.show.units import bytes_text, count_text, seconds_text, share_text
from sapwood.storage.trace import TRACES, Trace
from sapwood.train.data.dataset import Dataset, Source, parse_size

SAMPLE = 32_000_000
"""Uncompressed bytes on which remedies are tried."""

FILES_MERGED = 8
"""Files that are merged to try what larger files gain."""

_BASKET = 4096
_BASKET_WANTED = 32_000
_CLUSTER = 300_000
_UNSPLIT = 100_000
_NAMED = 5


@dataclass(frozen=True)
class Problem:
    """One kind of problem: what it is, the rule by which it is found, and what helps."""

    code: str
    rule: str
    remedy: str
    look: Callable[[TreeLayout, Sequence[str] | None], str | None]
    """Gives the figures where a tree has the problem. The second argument are the branches in use, if that is known."""
    change: Callable[[Layout, TreeLayout, Sequence[str] | None], Layout]
    is_one: Callable[[Trial, Price], bool] | None = None
    """Tells by the trial of the remedy whether it is a problem, where its look cannot."""


@dataclass(frozen=True)
class Trial:
    """Reading a sample as it is and after the remedy."""

    before: Cost
    after: Cost

    @property
    def time(self) -> float:
        """Processor time before over that after."""
        return self.before.cpu / self.after.cpu if self.after.cpu else 1.0

    @property
    def size(self) -> float:
        """Stored bytes before over those after."""
        return self.before.stored / self.after.stored if self.after.stored else 1.0

    def costs(self, price: Price) -> tuple[float, float]:
        """Return what one reading of the sample costs, before and after."""
        before, after = (price.job(one.cpu, one.stored, one.calls) for one in (self.before, self.after))
        space = [price.size * one.stored / 1e9 for one in (self.before, self.after)]
        return price.read * before + space[0], price.read * after + space[1]

    def gain(self, price: Price) -> float:
        """Return the part of the cost that the remedy saves; negative where it makes reading dearer."""
        before, after = self.costs(price)
        return 1 - after / before if before else 0.0

    @property
    def calls(self) -> float:
        """Requests to storage before over those after."""
        return self.before.calls / self.after.calls if self.after.calls else 1.0


@dataclass
class Finding:
    """A problem of a tree, in some of the files; `trial` is None where no remedy was tried.

    `note` says why, or what a trial tells besides.
    """

    code: str
    tree: str
    files: list[str]
    detail: str
    remedy: str
    trial: Trial | None = None
    note: str = ""


@dataclass
class Advice:
    """What was found in files, the layout that is advised, and what it gains on the sample."""

    files: list[str]
    trees: list[TreeLayout]
    findings: list[Finding]
    layout: Layout
    sample: int
    price: Price = field(default_factory=Price)

    def tojson(self) -> dict[str, Any]:
        """Return all as JSON knows it."""
        trees = [
            {
                "file": tree.file,
                "tree": tree.tree,
                "entries": tree.entries,
                "branches": len(tree.branches),
                "baskets": tree.baskets,
                "clusters": len(tree.clusters) - 1,
                "stored": tree.stored,
                "uncompressed": tree.full,
                "pieces_of_a_cluster": tree.pieces(),
            }
            for tree in self.trees
        ]
        findings = [dataclasses.asdict(finding) for finding in self.findings]
        for shown, finding in zip(findings, self.findings, strict=True):
            if finding.trial is not None:
                trial = finding.trial
                shown["trial"] |= {"gain_time": trial.time, "gain_size": trial.size, "gain_calls": trial.calls}
                shown["trial"] |= {"gain_cost": trial.gain(self.price), "verdict": verdict(trial, self.price)}
        return {
            "format": "sapwood advice",
            "format_version": 1,
            "files": self.files,
            "trees": trees,
            "findings": findings,
            "layout": self.layout.described(),
            "sample": self.sample,
            "price": dataclasses.asdict(self.price),
        }


def _tiny_baskets(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    clusters = len(tree.clusters) - 1
    excess, small = 0, 0
    for branch in tree.branches:
        if branch.full and branch.full / branch.baskets < _BASKET:  # not of a file whose data were taken out
            excess += max(0, branch.baskets - max(clusters, -(-branch.full // _BASKET_WANTED)))
            small += 1
    if tree.baskets < 64 or 2 * excess < tree.baskets:
        return None
    mean = tree.full / tree.baskets
    return f"{count_text(tree.baskets)} baskets of {bytes_text(mean)} on average, small in {small} branches"


def _cluster_size(tree: TreeLayout) -> tuple[int, float, float]:
    """Return how many clusters there are, and the mean entries and stored bytes of one."""
    count = max(1, len(tree.clusters) - 1)
    return count, tree.entries / count, tree.stored / count


def _one_entry_clusters(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    count, entries, size = _cluster_size(tree)
    if count < 8 or entries >= 2 or size > 1e6:
        return None
    return f"{count_text(count)} clusters of {entries:.1f} entries and {bytes_text(size)}"


def _small_clusters(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    count, entries, size = _cluster_size(tree)
    if count < 8 or entries < 2 or size > _CLUSTER or tree.stored < _CLUSTER:
        return None
    return f"{count_text(count)} clusters of {bytes_text(size)} and {entries:.0f} entries"


def _unclustered(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    if tree.auto_flush != 0 or len(tree.clusters) > 2 or tree.baskets < 3 * len(tree.branches):
        return None
    cut = [branch.offsets[1:-1] for branch in tree.branches if branch.baskets > 1]
    if not cut:  # a tree without entries
        return None
    together = functools.reduce(np.intersect1d, cut)
    if 2 * len(together) >= min(map(len, cut)):  # fewer may be chance
        return None
    where = f"only at {count_text(len(together))} entries" if len(together) else "nowhere"
    return f"auto-flush was off: the baskets of {len(cut)} branches end {where} together"


def _scattered_clusters(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    count, pieces = len(tree.clusters) - 1, tree.pieces()
    if count < 2 or pieces <= 4:
        return None
    return f"each of {count_text(count)} clusters lies in {pieces:.0f} pieces of the file"


def _lzma_branches(tree: TreeLayout, used: Sequence[str] | None) -> list[BranchLayout]:
    return [branch for branch in tree.branches if branch.lzma and (used is None or branch.name in used)]


def _lzma(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    having = _lzma_branches(tree, used)
    slow = sum(branch.stored * branch.lzma for branch in having)
    hot = sum(branch.stored for branch in tree.branches if used is None or branch.name in used)
    if 10 * slow <= hot:
        return None
    return f"{share_text(slow, hot)} of the bytes that are read ({_listed([branch.name for branch in having])})"


def _uncompressed(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    plain = sum(branch.stored for branch in tree.branches if branch.compression is None)
    if plain < 1e6 or 2 * plain < tree.stored:
        return None
    return f"{share_text(plain, tree.stored)} of {bytes_text(tree.stored)} are stored as they are"


def _unused(tree: TreeLayout, used: Sequence[str] | None) -> list[str]:
    """Return the branches directly below the tree of which nothing is used: objects are copied as a whole."""
    if used is None:
        return []
    kept = {branch.top for branch in tree.branches if branch.name in used}
    return list(dict.fromkeys(branch.top for branch in tree.branches if branch.top not in kept))


def _unused_branches(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    names = set(_unused(tree, used))
    idle = [branch for branch in tree.branches if branch.top in names]
    size = sum(branch.stored for branch in idle)
    if not size or 4 * size < tree.stored:
        return None
    shown = _listed(sorted(names))
    return f"{len(idle)} of {len(tree.branches)} branches, {share_text(size, tree.stored)} of the bytes ({shown})"


def _unsplit_objects(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    whole = [branch for branch in tree.branches if branch.unsplit]
    size = sum(branch.stored for branch in whole)
    if size < _UNSPLIT or 5 * size < tree.stored:
        return None
    names = _listed([branch.name for branch in whole])
    return f"{share_text(size, tree.stored)} of the bytes are whole objects ({names}): no member can be read alone"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _none(tree: TreeLayout, used: Sequence[str] | None) -> str | None:
    return None


def _anew(layout: Layout, tree: TreeLayout, used: Sequence[str] | None) -> Layout:
    return layout


def _zstd(layout: Layout, tree: TreeLayout, used: Sequence[str] | None) -> Layout:
    slow = _lzma_branches(tree, used)
    slow += [branch for branch in tree.branches if branch.compression is None]
    path = plain_path(tree.tree)
    codecs = {**layout.codecs.get(path, {}), **{branch.name: ZSTD(5) for branch in slow}}
    return dataclasses.replace(layout, codecs={**layout.codecs, path: codecs})


def _split(layout: Layout, tree: TreeLayout, used: Sequence[str] | None) -> Layout:
    return dataclasses.replace(layout, split_level=99)


def _without_unused(layout: Layout, tree: TreeLayout, used: Sequence[str] | None) -> Layout:
    return dataclasses.replace(layout, unused={**layout.unused, plain_path(tree.tree): frozenset(_unused(tree, used))})


PROBLEMS = (
    Problem(
        "tiny-baskets",
        "64 baskets or more, and half of them only because baskets of less than 4 kB were closed within a cluster",
        "larger baskets, one a cluster for most branches",
        _tiny_baskets,
        _anew,
    ),
    Problem(
        "one-entry-clusters",
        "8 clusters or more, of less than 2 entries and 1 MB",
        "larger clusters (30 MB)",
        _one_entry_clusters,
        _anew,
    ),
    Problem(
        "small-clusters",
        "8 clusters or more, of 2 entries or more and less than 300 kB, in a tree of 300 kB or more",
        "larger clusters (30 MB)",
        _small_clusters,
        _anew,
    ),
    Problem(
        "unclustered",
        "auto-flush is 0, and of the ends of the longest baskets less than half are ends in all other branches of two "
        "baskets or more",
        "clusters (30 MB)",
        _unclustered,
        _anew,
    ),
    Problem(
        "scattered-clusters",
        "a cluster lies in more than 4 pieces of the file on average (ROOT itself makes up to 3)",
        "the baskets of a cluster next to each other",
        _scattered_clusters,
        _anew,
    ),
    Problem(
        "lzma",
        "more than 10 % of the bytes that are read (of all bytes, where no usage is given) are LZMA",
        "ZSTD, level 5, for these branches",
        _lzma,
        _zstd,
    ),
    Problem(
        "uncompressed",
        "1 MB or more, and half of all bytes, are uncompressed; in the trial ZSTD saves 10 % of them and 5 % of cost",
        "ZSTD, level 5, for these branches",
        _uncompressed,
        _zstd,
        lambda trial, price: trial.size >= 1.1 and trial.gain(price) >= WORSE,
    ),
    Problem(
        "unsplit-objects",
        "20 % of the bytes or more, and at least 100 kB, are objects in one branch each",
        "split level 99: a branch for each member",
        _unsplit_objects,
        _split,
    ),
    Problem(
        "unused-branches",
        "a usage is given, and 25 % of the bytes or more are of branches, or of objects, that it does not name",
        "a copy without them",
        _unused_branches,
        _without_unused,
    ),
    Problem(
        "small-files",
        "4 files or more with the same trees and branches, half of them smaller than 10 MB",
        "files merged",
        _none,  # a matter of all files together
        _anew,
    ),
)
_BY_CODE = {problem.code: problem for problem in PROBLEMS}


class Recorded(list[str]):
    """Names that a program noted: those of other files are no mistake, as they are in a list by hand.

    `trees` are the paths of the trees that it read; None where that is not known.
    """

    def __init__(self, names: Iterable[str] = (), trees: Iterable[str] | None = None) -> None:
        super().__init__(names)
        self.trees = None if trees is None else frozenset(map(plain_path, trees))


def used_branches(path: str | Path) -> list[str]:
    """Read which branches are used: a trace, ``results.json`` of `sapwood run`, or a text with a name on each line.

    What a trace or a result names is `Recorded`.

    Raises
    ------
    ArgumentError
        It is none of these.
    """
    if Path(path).suffix in TRACES:
        read = wanted_of(Trace.load(path))
        names = Recorded(sorted({name for wanted in read for name in wanted.branches}), {one.tree for one in read})
        if not names:
            raise ArgumentError(f"nothing was read in the trace {path}")
        return names
    text = Path(path).read_text(encoding="utf-8")
    if text.lstrip().startswith("{"):
        try:
            job = json.loads(text)["job"]
            names = sorted({name for task in job["tasks"] for name in task["columns"]})
            return Recorded(names, {file["tree"] for file in job["files"]})
        except (ValueError, KeyError, TypeError):
            raise ArgumentError(f"{path} is no results.json of sapwood run") from None
    names = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not names:
        raise ArgumentError(f"{path} names no branches")
    return names


def advise(
    inputs: Any,
    *,
    tree: str | None = None,
    used: Sequence[str] | None = None,
    sample: int = SAMPLE,
    trials: bool = True,
    price: Price = Price(),  # noqa: B008 (it is frozen)
    progress: Callable[[str], None] | None = None,
) -> Advice:
    """Find the problems of files, and try remedies on a sample of the first file that has them.

    Parameters
    ----------
    inputs
        What `sapwood.train.Dataset.of` takes.
    tree
        Only this tree; all trees of a file by default.
    used
        Names of the branches that are read, or of objects with all their members, or patterns such as ``mu*``. Those
        that count their lists are used too. A tree of which none is named is judged as if this were not given.
    sample
        Uncompressed bytes of a tree to try remedies on; 0 to try none.
    price
        What storage, network and memory cost. A remedy by which reading costs more is named, but is not in the layout.
    trials
        Try all remedies; else only those whose trial tells whether there is a problem.
    progress
        Is told in words what is being done.

    Returns
    -------
    Advice
        The findings, in the order of `PROBLEMS`; none where all is well.

    Raises
    ------
    ArgumentError
        A name in `used` is of no branch of any of the trees; of names that are `Recorded`: all of them are.
    """
    tell = progress or (lambda _: None)
    dataset = Dataset.of(inputs, tree)
    trees: list[TreeLayout] = []
    for source in dataset.sources:
        tell(f"looking at {source.path}")
        trees += layouts_of(source)
    found: set[str] = set()
    names_of = {(one.file, one.tree): _names_of(one, used, found) for one in trees}
    _check_names(used or (), found, trees)
    layout, findings = Layout(), []
    for problem in PROBLEMS:
        by_tree: dict[str, list[tuple[TreeLayout, str]]] = {}
        for one in trees:
            detail = problem.look(one, names_of[one.file, one.tree])
            if detail is not None:
                by_tree.setdefault(one.tree, []).append((one, detail))
        for path, having in by_tree.items():
            finding = Finding(problem.code, path, [one.file for one, _ in having], having[0][1], problem.remedy)
            first = having[0][0]
            names = names_of[first.file, first.tree]
            if sample and (trials or problem.is_one is not None):
                tell(f"trying a remedy for {problem.code}")
                _try(finding, first, problem.change(Layout(), first, names), sample, names, price)
                if finding.trial and problem.change is not _zstd and any(branch.mixed for branch in first.branches):
                    finding.note = "branches have baskets of several codecs: to have one is a part of the gain"
            if finding.trial is None or problem.is_one is None or problem.is_one(finding.trial, price):
                findings.append(finding)
                if finding.trial is None or finding.trial.gain(price) > -WORSE:
                    layout = problem.change(layout, first, names)
    for group in _groups(dataset, trees):
        if (finding := _small_files(group, trees)) is not None:
            findings.append(finding)
            if sample and trials:
                tell("trying larger files")
                _try_merging(finding, group)
    return Advice([source.path for source in dataset.sources], trees, findings, layout, sample, price)


def _names_of(tree: TreeLayout, used: Sequence[str] | None, found: set[str]) -> list[str] | None:
    """Return the names of the branches of a tree that are used, with those that count their lists; add what is `found`.

    A name is as `TTree.__getitem__` takes it: with the path of its object or without. An object means all its members.
    None where that is not known: of a tree of which nothing is named, too, for then the usage is of other trees.
    """
    elsewhere = isinstance(used, Recorded) and used.trees is not None and plain_path(tree.tree) not in used.trees
    if used is None or elsewhere:
        return None
    with sapwood.open({tree.file: None}) as file:
        branches = file[tree.tree]
        tops: list[Any] = []
        for name in used:
            if (branch := branches.find(name)) is not None:
                meant = [branch]
            else:
                meant = [branches[path] for path in fnmatch.filter(branches.keys(), name)]
            tops += meant
            found.update([name] * bool(meant))
        every = [one for branch in tops for one in (branch, *branch.descendants())]
        every += [branch.count_branch for branch in every if branch.count_branch is not None]
        return sorted({branch.name for branch in every}) or None


def _check_names(used: Sequence[str], found: set[str], trees: Sequence[TreeLayout]) -> None:
    unknown = [name for name in used if name not in found]
    if not unknown or (found and isinstance(used, Recorded)):
        return
    there = sorted({branch.name for tree in trees for branch in tree.branches})
    shown = [repr(name) + suggestion(name, there) for name in unknown[:5]]
    more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
    raise ArgumentError(f"named as used, but no branch of these trees: {', '.join(shown)}{more}")


def _try(
    finding: Finding, where: TreeLayout, layout: Layout, sample: int, used: Sequence[str] | None, price: Price
) -> None:
    names = None if used is None else set(used).__contains__
    with tempfile.TemporaryDirectory() as folder, _near(where.file, folder) as file:
        tree = file[where.tree]
        stop = _sample_end(where, sample)
        part = Path(folder) / "part.root"
        try:
            write_part(tree, part, layout, 0, stop)
        except sapwood.UnsupportedError as error:
            finding.note = f"no remedy was tried: {' '.join(str(error).split())}"
            return
        # What is not read costs no time, but space.
        of_size = names if finding.code != "unused-branches" else None
        with sapwood.open({str(part): None}) as written:
            before, after = cost_of([tree], 0, stop, names), cost_of([written["T"]], names=names)
            stored = cost_of([tree], 0, stop, of_size).stored, cost_of([written["T"]], names=of_size).stored
            if tree.file.is_far:  # both as they are planned for remote storage: the sample itself is a local file
                calls = [_planned(one, stop, names, price) for one in (tree, written["T"])]
                before, after = (dataclasses.replace(c, calls=n) for c, n in zip((before, after), calls, strict=True))
    before, after = (dataclasses.replace(c, stored=s) for c, s in zip((before, after), stored, strict=True))
    finding.trial = Trial(before, after)


def _near(file: str, folder: str) -> Any:
    """Open a file; a remote one so that its blocks stay in a folder after the first reading.

    So readings that are measured later come from local storage, as those of the remedy do.
    """
    if re.match(r"(https?|s3|x?roots?)://", file):
        return sapwood.open({file: None}, block_cache=str(Path(folder) / "blocks"))
    return sapwood.open({file: None})


def _planned(tree: Any, stop: int, names: Callable[[str], bool] | None, price: Price) -> int:
    """Return how many requests reading takes from remote storage of these prices."""
    branches = [
        one.index
        for one in tree.native.branches
        if one.has_data and one.type is not None and (names is None or names(one.name))
    ]
    rows = tree.native.plan(branches, 0, min(stop, tree.num_entries))[0]
    return len(
        requests_for([(offset, length) for _, _, _, offset, length, _, _ in rows], price.latency, price.bandwidth)
    )


def _sample_end(tree: TreeLayout, sample: int) -> int:
    """Return where the sample ends: at the end of a cluster, if one is near."""
    if tree.full <= sample:
        return tree.entries
    wanted = max(1, tree.entries * sample // tree.full)
    end = int(tree.clusters[np.searchsorted(tree.clusters, wanted)])
    return end if end <= 2 * wanted else wanted


def _groups(dataset: Dataset, trees: Sequence[TreeLayout]) -> list[Dataset]:
    """Put files together that can become one: those of the same trees with the same branches."""
    shapes: dict[str, set[tuple[str, ...]]] = {source.path: set() for source in dataset.sources}
    for tree in trees:
        if tree.entries:
            shapes[tree.file].add((tree.tree, *(f"{one.name} {one.typename}" for one in tree.branches)))
    groups: dict[frozenset[tuple[str, ...]], list[Source]] = {}
    for source in dataset.sources:
        groups.setdefault(frozenset(shapes[source.path]), []).append(source)
    return [Dataset(tuple(sources)) for sources in groups.values()]


def _small_files(dataset: Dataset, trees: Sequence[TreeLayout]) -> Finding | None:
    known = {tree.file: tree.file_size for tree in trees}  # remote ones too
    sizes = [known[source.path] for source in dataset.sources]
    if len(sizes) < 4 or statistics.median(sizes) >= 10e6:
        return None
    detail = f"{len(sizes)} files of {bytes_text(statistics.median(sizes))}, half of them smaller"
    return Finding("small-files", "", [s.path for s in dataset.sources], detail, _BY_CODE["small-files"].remedy)


def _try_merging(finding: Finding, dataset: Dataset) -> None:
    chosen = Dataset(dataset.sources[:FILES_MERGED])
    if any("://" in source.path for source in chosen.sources):
        finding.note = "merging was not tried: the files are remote, and a merged one here would be local"
        return
    with tempfile.TemporaryDirectory() as folder:
        merged = Source(str(Path(folder) / "merged.root"), chosen.sources[0].tree)
        try:
            rewrite(chosen, merged.path, Layout(), tree=merged.tree, verify=False)
        except (sapwood.UnsupportedError, ArgumentError) as error:
            finding.note = f"merging was not tried: {' '.join(str(error).split())}"
            return
        finding.trial = Trial(_opening(chosen.sources), _opening([merged]))


def _opening(sources: Sequence[Source]) -> Cost:
    """Measure opening files and reading their trees."""
    costs: list[Cost] = []
    for _ in range(3):
        before, wall, cpu = sapwood.counters(), time.perf_counter(), time.process_time()
        entries, stored = 0, 0
        for source in sources:
            layouts = layouts_of(source)
            stored += layouts[0].file_size
            for layout in layouts:
                with sapwood.open({source.path: None}) as file:
                    entries += read_once([file[layout.tree]]).entries
        after = sapwood.counters()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        spent = {name: after[name] - before[name] for name in after}
        costs.append(Cost(entries, stored, cpu, wall, spent["read_calls"], spent["bytes_read"]))
    return sorted(costs, key=lambda cost: cost.cpu)[1]


def advice_text(advice: Advice, *, tree: str | None = None, trace: str | Path | None = None) -> str:
    """Lay out advice as lines of text, with the command that applies it: of that tree and usage, if they were given."""
    lines: list[str] = []
    for one in advice.trees[:10]:
        counts = {
            ("entry", "entries"): one.entries,
            ("branch", "branches"): len(one.branches),
            ("basket", "baskets"): one.baskets,
            ("cluster", "clusters"): len(one.clusters) - 1,
        }
        words = ", ".join(f"{count_text(count)} {words[count != 1]}" for words, count in counts.items())
        lines.append(f"{one.file}:{one.tree}: {words}, {bytes_text(one.stored)} of {bytes_text(one.full)}")
    if len(advice.trees) > 10:
        lines.append(f"and {len(advice.trees) - 10} more trees")
    if not advice.findings:
        return "\n".join([*map(safe_line, lines), "", "No problem was found."]) + "\n"
    for finding in advice.findings:
        many = f" (in {len(finding.files)} files)" if len(finding.files) > 1 else ""
        lines += ["", f"{finding.code}{': ' if finding.tree else ''}{finding.tree}{many}"]
        lines += [f"  found    {finding.detail}", f"  remedy   {finding.remedy}"]
        if finding.trial is not None:
            lines.append(f"  measured {gain_text(finding.trial.before, finding.trial.after)}")
            lines.append(f"  verdict  {verdict(finding.trial, advice.price)}")
        if finding.note:
            lines.append(f"  {finding.note}")
    told = [("--tree", tree), ("--trace", trace)]
    words = "".join(f" {option} {shlex.quote(str(value))}" for option, value in told if value is not None)
    alike = len(_groups(Dataset(tuple(map(Source, advice.files))), advice.trees)) == 1
    which = "To apply" if alike else "To apply, to files with the same trees and branches at a time"
    lines += ["", f"{which}: sapwood rewrite FILE... --layout advised{words} --output NEW.root"]
    return "\n".join(map(safe_line, lines)) + "\n"


def verdict(trial: Trial, price: Price) -> str:
    """Return what the remedy does to the cost of reading."""
    before, after = trial.costs(price)
    gain = trial.gain(price)
    at = f"({seconds_text(before)} → {seconds_text(after)} a reading of the sample at {price.text()})"
    if gain <= -WORSE:
        return f"makes it worse: costs {-100 * gain:.0f} % more {at}; not advised"
    return (
        f"saves {100 * gain:.0f} % {at}" if gain >= WORSE else f"changes the cost by less than {100 * WORSE:.0f} % {at}"
    )


def gain_text(before: Cost, after: Cost) -> str:
    """Return what reading took before and after."""
    return (
        f"reading {seconds_text(before.cpu)} → {seconds_text(after.cpu)} of processor time, "
        f"{bytes_text(before.stored)} → {bytes_text(after.stored)}, "
        f"{count_text(before.calls)} → {count_text(after.calls)} requests"
    )


def chosen_layout(
    inputs: Any,
    *,
    advised: bool,
    tree: str | None = None,
    trace: str | Path | None = None,
    compression: str | None = None,
    cluster_size: str | None = None,
    basket_size: str | None = None,
    split_level: int | None = None,
    drop: Sequence[str] = (),
) -> Layout | None:
    """Make a layout of the words of the command line; those that are given go before what is advised.

    None where nothing is advised, and nothing else is wanted.

    Raises
    ------
    ArgumentError
        One of the words means nothing, or nothing here.
    """
    if trace is not None and not advised:
        raise ArgumentError("a usage (--trace) says something only to --layout advised")
    used = None if trace is None else used_branches(trace)
    layout = Layout()
    if advised:
        advice = advise(inputs, tree=tree, used=used)
        if not (advice.findings or compression or cluster_size or basket_size or drop or split_level is not None):
            return None
        layout = advice.layout
    changes: dict[str, Any] = {"drop": (*layout.drop, *drop)}
    if compression is not None:
        changes |= {"compression": parse_codec(compression), "codecs": {}}
    if cluster_size is not None:
        changes["auto_flush"] = parse_cluster(cluster_size)
    if basket_size is not None:
        changes["basket_size"] = parse_size(basket_size)
    if split_level is not None:
        if not 0 <= split_level <= 99:
            raise ArgumentError(f"split levels are from 0 to 99, not {split_level}")
        changes["split_level"] = split_level
    return dataclasses.replace(layout, **changes)


def rewriting_text(done: dict[str, Any]) -> str:
    """Lay out what `rewrite` gave as lines of text."""
    if done["copied"]:
        return f"{done['output']}: a copy of {done['inputs'][0]} as it is\n"
    before, after = Cost(**done["before"]), Cost(**done["after"])
    checked = "all values compared: equal" if done["verified"] else "not compared"
    objects = f", {len(done['objects'])} other objects" if done["objects"] else ""
    lost = "".join(f"{path}: {why}\n" for path, why in done["not_added"].items())
    return (
        f"{done['output']}: {', '.join(done['trees'])}, {count_text(after.entries)} entries{objects}; {checked}\n"
        f"{lost}"
        f"{gain_text(before, after)}\n"
    )
