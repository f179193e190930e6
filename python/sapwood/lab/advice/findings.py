"""Find the problems of files, from a closed list, and measure the gain of their remedies."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sapwood
from sapwood.compression import parse_codec
from sapwood.errors import ArgumentError
from sapwood.lab.advice.layout import FileLayout, TreeLayout, file_layout, plain_path
from sapwood.lab.advice.price import WORSE, Price
from sapwood.lab.advice.problems import FILES, LAYOUTS, MEMORY, SMALL_FILES, Problem, Used, huge_clusters, zstd
from sapwood.lab.advice.rewriting import MEMBER_WISE, Layout, parse_cluster
from sapwood.lab.advice.trials import (
    BranchCost,
    Trial,
    branch_costs,
    sample_end,
    try_layout,
    try_merging,
    try_rntuple,
)
from sapwood.lab.advice.usage import check_names, names_of, used_branches
from sapwood.lab.advice.values import VALUES, sampled
from sapwood.show.units import bytes_text
from sapwood.train.data.dataset import Dataset, Source, parse_size

SAMPLE = 32_000_000
"""Uncompressed bytes of the sample on which remedies are tried."""

PROBLEMS: tuple[Problem, ...] = (
    *LAYOUTS, *(problem for problem, _ in VALUES), *(problem for problem, _ in FILES), SMALL_FILES,
)  # fmt: skip
"""All problems, in the order of the findings."""

RNTUPLE = "rntuple"
"""The code of the comparison with an RNTuple; it is not a problem."""
_COSTS = 12
_SMALL, _FEWEST = 10e6, 4


@dataclass
class Finding:
    """A problem of a tree, in some of the files.

    `trial` is None if no remedy was tried. `note` has the reason, or a remark on the trial. `entries` is the number of
    entries of the tree in all of these files. `applied` is true if the remedy is part of the advised layout.
    """

    code: str
    tree: str
    files: list[str]
    detail: str
    remedy: str
    trial: Trial | None = None
    note: str = ""
    entries: int = 0
    applied: bool = True


@dataclass
class Advice:
    """The findings for files, the advised layout, and its gain on the sample.

    `costs` has the costs of the largest branches of each tree, by its path in the first file. `rntuple` compares the
    first tree with an RNTuple. Both are filled only on request.
    """

    files: list[str]
    trees: list[TreeLayout]
    findings: list[Finding]
    layout: Layout
    sample: int
    price: Price = field(default_factory=Price)
    costs: dict[str, list[BranchCost]] = field(default_factory=dict[str, list[BranchCost]])
    rntuple: Finding | None = None

    def tojson(self) -> dict[str, Any]:
        """Return everything in JSON types."""
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
        return {
            "format": "sapwood advice",
            "format_version": 2,
            "files": self.files,
            "trees": trees,
            "findings": [self._described(finding) for finding in self.findings],
            "costs": {path: [dataclasses.asdict(cost) for cost in costs] for path, costs in self.costs.items()},
            "rntuple": None if self.rntuple is None else self._described(self.rntuple),
            "layout": self.layout.described(),
            "sample": self.sample,
            "price": dataclasses.asdict(self.price),
        }

    def _described(self, finding: Finding) -> dict[str, Any]:
        shown = dataclasses.asdict(finding)
        if finding.trial is not None:
            trial = finding.trial
            shown["trial"] |= {"gain_time": trial.time, "gain_size": trial.size, "gain_calls": trial.calls}
            shown["trial"] |= {"gain_cost": trial.gain(self.price), "worse": trial.gain(self.price) <= -WORSE}
            shown["trial"] |= {"gain_seconds": trial.seconds(self.price, finding.entries)}
        return shown

    def seconds(self, finding: Finding) -> float:
        """Return the seconds that a remedy saves in one reading of all entries; 0 without a trial."""
        return finding.trial.seconds(self.price, finding.entries) if finding.trial is not None else 0.0

    @staticmethod
    def check_codes(codes: Sequence[str]) -> None:
        """Refuse unknown codes.

        Raises
        ------
        ArgumentError
            There is no such code.
        """
        known = {problem.code for problem in PROBLEMS} | {"any"}
        if wrong := [code for code in codes if code not in known]:
            raise ArgumentError(f"unknown problem {wrong[0]!r}; choose from {', '.join(sorted(known))}")

    def failing(self, codes: Sequence[str]) -> list[Finding]:
        """Return the findings of some codes; ``any`` is all."""
        return [finding for finding in self.findings if "any" in codes or finding.code in codes]


class _Advising:
    """Looks at files and tries remedies; see `advise`."""

    def __init__(
        self, files: Sequence[FileLayout], used: Used, sample: int, price: Price, tell: Callable[[str], None],
        *, trials: bool, memory: int, loss: float,
    ) -> None:  # fmt: skip
        self.files, self.sample, self.price, self.tell, self.trials = files, sample, price, tell, trials
        self.memory, self.loss = memory, loss
        self.layout, self.findings = Layout(), list[Finding]()
        found: set[str] = set()
        trees = [tree for file in files for tree in file.trees]
        self.names = {(tree.file, tree.tree): names_of(tree, used, found) for tree in trees}
        check_names(used or (), found, trees)

    def of_layouts(self) -> None:
        """Look for problems in the records."""
        for problem in LAYOUTS:
            look = huge_clusters(self.memory) if problem.code == "huge-clusters" else problem.look
            by_tree: dict[str, list[tuple[TreeLayout, str]]] = {}
            for file in self.files:
                for one in file.trees:
                    if one.is_rntuple and not problem.of_rntuples:
                        continue
                    detail = look(one, self.names[one.file, one.tree], file)
                    if detail is not None:
                        by_tree.setdefault(one.tree, []).append((one, detail))
            for path, having in by_tree.items():
                self._found(problem, path, having)

    def _found(self, problem: Problem, path: str, having: Sequence[tuple[TreeLayout, str]]) -> None:
        first, detail = having[0]
        finding = Finding(
            problem.code, path, [one.file for one, _ in having], detail, problem.remedy,
            entries=sum(one.entries for one, _ in having), applied=problem.applied,
        )  # fmt: skip
        names = self.names[first.file, first.tree]
        if self.sample and problem.change is not None and (self.trials or problem.is_one is not None):
            self.tell(f"trying a remedy for {problem.code}")
            self._try(finding, first, problem.change(Layout(), first, names), alone=problem.is_one is not None)
            if finding.trial and problem.change is not zstd and any(branch.mixed for branch in first.branches):
                finding.note = "branches have baskets of several codecs: using a single codec is part of the gain"
        self._keep(problem, finding, first)

    def _try(self, finding: Finding, where: TreeLayout, layout: Layout, *, alone: bool) -> None:
        finding.trial, finding.note = try_layout(
            where, layout, self.sample, self.names[where.file, where.tree], self.price,
            of_all=finding.code == "unused-branches", alone=alone,
        )  # fmt: skip

    def _keep(self, problem: Problem, finding: Finding, where: TreeLayout) -> None:
        if finding.trial is not None and problem.is_one is not None and not problem.is_one(finding.trial, self.price):
            return
        if finding.trial is None and not problem.named:
            return
        self.findings.append(finding)
        worse = finding.trial is not None and finding.trial.gain(self.price) <= -WORSE
        if problem.applied and problem.change is not None and not worse:
            self.layout = problem.change(self.layout, where, self.names[where.file, where.tree])

    def of_values(self) -> None:
        """Look for problems in the values of a sample: of each tree, in the first file that has entries of it."""
        trees: dict[str, TreeLayout] = {}
        entries: dict[str, int] = {}
        for file in self.files:
            for tree in file.trees:
                entries[tree.tree] = entries.get(tree.tree, 0) + tree.entries
                if tree.entries:
                    trees.setdefault(tree.tree, tree)
        if not self.sample:
            return
        for path, tree in trees.items():
            self.tell(f"reading a sample of {path}")
            stop, names = sample_end(tree, self.sample), self.names[tree.file, tree.tree]
            with sapwood.open({tree.file: None}) as file:
                sample = sampled(file[path], tree, stop, names)
            for problem, look in VALUES:
                shown = look(sample, self.loss)
                if shown is None:
                    continue
                finding = Finding(
                    problem.code, path, [tree.file], shown.detail, problem.remedy, entries=entries[path],
                    applied=problem.applied,
                )  # fmt: skip
                if problem.change is not None and (self.trials or problem.is_one is not None) and not tree.is_rntuple:
                    self.tell(f"trying a remedy for {problem.code}")
                    where = plain_path(path)
                    layout = Layout(unused={where: frozenset(shown.drop)}, changes={where: shown.changes})
                    self._try(finding, tree, layout, alone=True)
                self._keep(problem, finding, tree)

    def of_files(self) -> None:
        """Look for problems of single files."""
        for problem, look in FILES:
            having = [(file, detail) for file in self.files if (detail := look(file)) is not None]
            if having:
                paths = [file.path for file, _ in having]
                self.findings.append(
                    Finding(problem.code, "", paths, having[0][1], problem.remedy, applied=problem.applied)
                )

    def of_all(self, dataset: Dataset) -> None:
        """Look for files that are too small."""
        trees = [tree for file in self.files for tree in file.trees]
        for group in groups(dataset, trees):
            if (finding := self._small_files(group)) is not None:
                self.findings.append(finding)
                if self.sample and self.trials:
                    self.tell("trying larger files")
                    finding.trial, finding.note = try_merging(group)

    def _small_files(self, dataset: Dataset) -> Finding | None:
        known = {file.path: file for file in self.files}  # remote ones too
        sizes = [known[source.path].size for source in dataset.sources]
        if len(sizes) < _FEWEST or statistics.median(sizes) >= _SMALL:
            return None
        detail = f"{len(sizes)} files of {bytes_text(statistics.median(sizes))}, half of them smaller"
        entries = sum(tree.entries for source in dataset.sources for tree in known[source.path].trees)
        paths = [source.path for source in dataset.sources]
        return Finding(SMALL_FILES.code, "", paths, detail, SMALL_FILES.remedy, entries=entries)


def advise(
    inputs: Any,
    *,
    tree: str | None = None,
    used: Sequence[str] | None = None,
    sample: int = SAMPLE,
    trials: bool = True,
    price: Price = Price(),  # noqa: B008 (it is frozen)
    memory: int = MEMORY,
    loss: float = 0.0,
    costs: bool = False,
    rntuple: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Advice:
    """Find the problems of files, and try remedies on a sample of the first file that has them.

    Parameters
    ----------
    inputs
        What `sapwood.train.Dataset.of` takes.
    tree
        Only this tree or RNTuple; all of a file by default.
    used
        Names of the branches that are read, names of objects (all their members), or patterns such as ``mu*``. The
        counters of their lists are used too. A tree without any of these names is judged as if this were not given.
    sample
        Uncompressed bytes of a tree for trials of remedies and for problems of values; 0 for neither.
    trials
        Try all remedies; otherwise only those whose trial decides whether there is a problem.
    price
        The prices of storage, network and memory. A remedy that makes reading more expensive is reported, but it is
        not in the layout.
    memory
        Bytes that a job has for a cluster.
    loss
        Allowed relative change of floats, such as 0.001; 0 keeps their precision.
    costs
        Measure the costs of the largest branches.
    rntuple
        Measure the gain of an RNTuple, with the first tree.
    progress
        Called with a text at each step.

    Returns
    -------
    Advice
        The findings, in the order of `PROBLEMS`; none if there is no problem.

    Raises
    ------
    ArgumentError
        No tree has a branch of a name in `used`. For `Recorded` names: no tree has any of them.
    """
    if not 0 <= loss < 1:
        raise ArgumentError(f"a loss is a relative change from 0 to 1, such as 0.001, not {loss}")
    tell = progress or (lambda _: None)
    dataset = Dataset.of(inputs, tree)
    files: list[FileLayout] = []
    for source in dataset.sources:
        tell(f"looking at {source.path}")
        files.append(file_layout(source))
    advising = _Advising(files, used, sample, price, tell, trials=trials, memory=memory, loss=loss)
    advising.of_layouts()
    advising.of_values()
    advising.of_files()
    advising.of_all(dataset)
    trees = [tree for file in files for tree in file.trees]
    advice = Advice(
        [source.path for source in dataset.sources], trees, advising.findings, advising.layout, sample, price
    )
    having = [one for one in trees if one.entries]
    if costs and sample:
        for one in having:
            if one.tree not in advice.costs:
                tell(f"measuring the branches of {one.tree}")
                advice.costs[one.tree] = branch_costs(one, sample, _COSTS)
    trees_only = [one for one in having if not one.is_rntuple]
    if rntuple and sample and trees_only:
        tell("trying an RNTuple")
        first = trees_only[0]
        entries = sum(one.entries for one in trees_only if one.tree == first.tree)
        detail = f"a tree of {bytes_text(first.stored)}"
        remedy = "the same values as an RNTuple (`sapwood convert --format rntuple`)"
        trial, note = try_rntuple(first, sample, price)
        advice.rntuple = Finding(RNTUPLE, first.tree, [first.file], detail, remedy, trial, note, entries, applied=False)
    return advice


def groups(dataset: Dataset, trees: Sequence[TreeLayout]) -> list[Dataset]:
    """Group files that can be merged: files with the same trees and the same branches."""
    shapes: dict[str, set[tuple[str, ...]]] = {source.path: set() for source in dataset.sources}
    for tree in trees:
        if tree.entries:
            shapes[tree.file].add((tree.tree, *(f"{one.name} {one.typename}" for one in tree.branches)))
    found: dict[frozenset[tuple[str, ...]], list[Source]] = {}
    for source in dataset.sources:
        found.setdefault(frozenset(shapes[source.path]), []).append(source)
    return [Dataset(tuple(sources)) for sources in found.values()]


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
    streaming: str | None = None,
    drop: Sequence[str] = (),
) -> Layout | None:
    """Return the layout for the options of the command line; options override the advice.

    Return None if nothing is advised and no option changes the layout.

    Raises
    ------
    ArgumentError
        An option is invalid, or has no effect here.
    """
    if trace is not None and not advised:
        raise ArgumentError("a usage (--trace) applies only to --layout advised")
    used = None if trace is None else used_branches(trace)
    layout = Layout()
    if advised:
        advice = advise(inputs, tree=tree, used=used)
        helps = any(finding.applied for finding in advice.findings)
        if not (helps or compression or cluster_size or basket_size or drop or streaming or split_level is not None):
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
    if streaming is not None:
        changes["member_wise"] = streaming == MEMBER_WISE
    return dataclasses.replace(layout, **changes)
