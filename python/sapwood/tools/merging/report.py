"""The report of a merge that was done, or would be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from sapwood.show.units import counted


@dataclass
class Merged:
    """The result of a merge, or of a planned one with `dry_run`.

    - `inputs`: paths of the merged files.
    - `skipped`: paths of the skipped files, with the error of each.
    - `trees`: number of entries of each joined tree or RNTuple.
    - `ntuples`: paths of `trees` that are RNTuples.
    - `added`: number of histograms, graphs, lists or parameters in each sum.
    - `kept`: objects that differ between files; the first was taken.
    - `not_added`: objects that could not be added, with the reason. The policy for other objects was applied to them.
    - `indices`: trees whose index was left out.
    - `left_out`: what else of decoded trees was left out, with the reason.
    - `functions`: graphs whose fitted functions were left out.
    - `matched`: patterns of `only` and `drop` that matched a path.
    - `plan`: how trees would be written; empty if they were written.
    """

    output: str
    inputs: list[str] = field(default_factory=list[str])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    trees: dict[str, int] = field(default_factory=dict[str, int])
    ntuples: list[str] = field(default_factory=list[str])
    added: dict[str, int] = field(default_factory=dict[str, int])
    copied: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    not_added: dict[str, str] = field(default_factory=dict[str, str])
    indices: list[str] = field(default_factory=list[str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    functions: list[str] = field(default_factory=list[str])
    matched: list[str] = field(default_factory=list[str])
    plan: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    verified: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every part of the inputs was merged."""
        return not (self.skipped or self.not_added)

    def described(self) -> dict[str, Any]:
        """Return the report as a dictionary for JSON."""
        return asdict(self)

    def text(self) -> Iterator[str]:
        """Yield the report line by line."""
        for path, entries in self.trees.items():
            yield f"{'RNTuple' if path in self.ntuples else 'tree'} {path}: {counted(entries, 'entry')}"
        if self.added:
            yield f"{counted(len(self.added), 'object')} {'to add' if self.plan else 'added'}"
        if self.copied:
            yield f"{counted(len(self.copied), 'other object')} {'to copy' if self.plan else 'copied'}"
        for path in self.kept:
            yield f"{path}: differs between files; that of the first file was taken"
        for path, why in self.not_added.items():
            yield f"{path}: not added: {why}"
        for path in self.indices:
            yield f"{path}: its index is not valid for the joined tree and was left out"
        for what, why in self.left_out.items():
            yield f"{what}: left out: {why}"
        for path in self.functions:
            yield f"{path}: functions fitted to some of its points were left out"
        for path, why in self.skipped.items():
            yield f"skipped {path}: {why}"
        if self.verified:
            yield "verified: entries, values and sums are those of the inputs"
        files = f"{self.output}: {counted(len(self.inputs), 'file')}, {self.bytes_in} bytes in"
        yield (
            f"{files}; plan: {self.plan}; nothing was written" if self.plan else f"{files}, {self.bytes_out} bytes out"
        )
