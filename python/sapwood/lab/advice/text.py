"""Advice, and the result of a rewrite, as lines of text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sapwood.lab.advice.findings import Advice, Finding, groups
from sapwood.lab.advice.price import WORSE, Price
from sapwood.lab.advice.rewriting import Cost
from sapwood.lab.advice.trials import COST_HEAD, Trial, cost_row
from sapwood.show.safe import safe_line
from sapwood.show.text import layout
from sapwood.show.units import bytes_text, count_text, seconds_text
from sapwood.train.data.dataset import Dataset, Source

_TREES = 10


def advice_text(advice: Advice, *, tree: str | None = None, trace: str | Path | None = None) -> str:
    """Return advice as lines of text, with the command that applies it, for the given tree and usage."""
    lines = list(tree_lines(advice))
    for path, costs in advice.costs.items():
        stored = next(one.stored for one in advice.trees if one.tree == path)
        rows = [list(COST_HEAD), *(cost_row(one, stored) for one in costs)]
        lines += ["", f"{path}: the largest branches", *layout(rows, right=range(1, len(COST_HEAD))).splitlines()]
    if advice.rntuple is not None:
        lines += ["", "RNTuple instead of a tree", *_finding_lines(advice, advice.rntuple)]
    if not advice.findings:
        return "\n".join([*map(safe_line, lines), "", "No problem was found."]) + "\n"
    for finding in advice.findings:
        many = f" (in {len(finding.files)} files)" if len(finding.files) > 1 else ""
        lines += ["", f"{finding.code}{': ' if finding.tree else ''}{finding.tree}{many}"]
        lines += _finding_lines(advice, finding)
    if any(finding.applied for finding in advice.findings):
        lines += ["", command(advice, tree=tree, trace=trace)]
    return "\n".join(map(safe_line, lines)) + "\n"


def tree_lines(advice: Advice) -> Iterator[str]:
    """Yield a line for each of the first trees."""
    for one in advice.trees[:_TREES]:
        counts = {
            ("entry", "entries"): one.entries,
            ("column", "columns") if one.is_rntuple else ("branch", "branches"): len(one.branches),
            ("page", "pages") if one.is_rntuple else ("basket", "baskets"): one.baskets,
            ("cluster", "clusters"): len(one.clusters) - 1,
        }
        words = ", ".join(f"{count_text(count)} {words[count != 1]}" for words, count in counts.items())
        yield f"{one.file}:{one.tree}: {words}, {bytes_text(one.stored)} of {bytes_text(one.full)}"
    if len(advice.trees) > _TREES:
        yield f"and {len(advice.trees) - _TREES} more trees"


def _finding_lines(advice: Advice, finding: Finding) -> Iterator[str]:
    yield f"  found    {finding.detail}"
    yield f"  remedy   {finding.remedy}"
    if finding.trial is not None:
        yield f"  measured {gain_text(finding.trial.before, finding.trial.after)}"
        yield f"  verdict  {verdict(finding.trial, advice.price)}"
        if (saved := advice.seconds(finding)) > 0:
            yield f"  saves    {seconds_text(saved)} of one reading of all {count_text(finding.entries)} entries"
    if finding.note:
        yield f"  {finding.note}"


def command(advice: Advice, *, tree: str | None = None, trace: str | Path | None = None) -> str:
    """Return the command that applies the advice."""
    told = [("--tree", tree), ("--trace", trace)]
    words = "".join(f" {option} {shlex.quote(str(value))}" for option, value in told if value is not None)
    alike = len(groups(Dataset(tuple(map(Source, advice.files))), advice.trees)) == 1
    which = "To apply" if alike else "To apply, to files with the same trees and branches at a time"
    return f"{which}: sapwood rewrite FILE... --layout advised{words} --output NEW.root"


def verdict(trial: Trial, price: Price) -> str:
    """Return the effect of the remedy on the cost of reading."""
    before, after = trial.costs(price)
    gain = trial.gain(price)
    at = f"({seconds_text(before)} → {seconds_text(after)} a reading of the sample at {price.text()})"
    if gain <= -WORSE:
        return f"makes it worse: costs {-100 * gain:.0f} % more {at}; not advised"
    return (
        f"saves {100 * gain:.0f} % {at}" if gain >= WORSE else f"changes the cost by less than {100 * WORSE:.0f} % {at}"
    )


def gain_text(before: Cost, after: Cost) -> str:
    """Return the costs of reading before and after."""
    return (
        f"reading {seconds_text(before.cpu)} → {seconds_text(after.cpu)} of processor time, "
        f"{bytes_text(before.stored)} → {bytes_text(after.stored)}, "
        f"{count_text(before.calls)} → {count_text(after.calls)} requests"
    )


def rewriting_text(done: dict[str, Any]) -> str:
    """Return the result of `rewrite` as lines of text."""
    if done["copied"]:
        return f"{done['output']}: a copy of {done['inputs'][0]} as it is\n"
    before, after = Cost(**done["before"]), Cost(**done["after"])
    checked = "all values compared: equal" if done["verified"] else "not compared"
    objects = f", {len(done['objects'])} other objects" if done["objects"] else ""
    lost = "".join(f"{path}: {why}\n" for path, why in done["not_added"].items())
    lost += "".join(
        f"{path}: compressed again with unchanged clusters, baskets and splitting: {why}\n"
        for path, why in done["recompressed"].items()
    )
    return (
        f"{done['output']}: {', '.join(done['trees'])}, {count_text(after.entries)} entries{objects}; {checked}\n"
        f"{lost}"
        f"{gain_text(before, after)}\n"
    )
