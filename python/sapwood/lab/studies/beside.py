"""A page that compares studies: medians, ratios, and differences between the settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from sapwood.lab.studies.page import setting_text
from sapwood.lab.studies.ratios import names_of, ordered, ratio_table
from sapwood.lab.studies.study import Study, compare, read

_BARS = 12
"""Maximum number of ratios in the figure: the largest clear ones."""


def run(folder: str | os.PathLike[str], paths: Sequence[str | os.PathLike[str]], *, label: str = "") -> dict[str, Path]:
    """Write the page and the JSON of a comparison.

    Parameters
    ----------
    folder
        The folder for the result.
    paths
        The studies; ratios are relative to the first.
    label
        A description for the head of the page.

    Raises
    ------
    ArgumentError
        There are fewer than two studies, or they are of different kinds.
    """
    compared, studies = compare(paths), [read(path) for path in paths]
    names = names_of(studies)
    settings = {"study": compared["study"], "files": [str(path) for path in paths]}
    study = Study("compare", settings, folder, fresh=True, label=label)
    rows_of = ordered(compared)
    clear = [row for row in rows_of if any(row["clear"][1:])]
    found = [
        f"{row['what']}, {row['engine']}: {name} has {ratio:.2f} × the figure of {names[0]}."
        for row in clear
        for name, ratio, sure in list(zip(names, row["ratios"], row["clear"], strict=True))[1:]
        if sure and ratio is not None
    ]
    most = f" The largest difference: {found[0]}" if found else ""
    count = f"{len(clear)} of {len(rows_of)} figures differ" if found else f"No figure of {len(rows_of)} differs"
    found.insert(0, f"{count} by more than noise.{most}" if rows_of else "The studies have no measurement in common.")
    if rows_of and not all(compared["alike"]):
        found.append("Ratios marked ! are between studies that did not measure the same.")
    groups = [
        [f"{row['what']}, {row['engine']}", {
            name: [round(ratio, 2)] * 3
            for name, ratio in list(zip(names, row["ratios"], strict=True))[1:]
            if ratio is not None
        }]
        for row in (clear or rows_of)[:_BARS]
    ]  # fmt: skip
    figure = {
        "kind": "bars", "title": "Ratios", "engines": names[1:], "unit": "×", "mark": 1.0,
        "label": f"Ratio to {names[0]}", "groups": groups,
        "caption": "" if clear else "None of them differs by more than noise.",
    }  # fmt: skip
    tables = [ratio_table(compared, names, f"lab {compared['study']}")] if rows_of else []
    rows = [[name, *map(setting_text, values)] for name, values in compared["other_settings"].items()]
    words = list(range(1, len(names) + 1))
    if rows:
        tables.append({"title": "Settings that differ", "head": ["Setting", *names], "rows": rows, "words": words})
    lacking = [
        [one["what"], one["engine"], *("yes" if place in one["in"] else "–" for place in words)]
        for one in compared["missing"]
    ]
    hosts = [
        [name, one["host"]["name"], one["host"]["processor"], str(one["host"]["cores_usable"]),
         str(one["commit"] or "–")[:12],
         "; ".join(warning["code"] for warning in warnings) or "–"]
        for name, one, warnings in zip(names, studies, compared["warnings"], strict=True)
    ]  # fmt: skip
    head = ["Study", "Machine", "Processor", "Cores", "Commit", "Warnings"]
    tables.append({"title": "Machines", "head": head, "rows": hosts, "words": [1, 2, 4, 5]})
    if lacking:
        tables.append({"title": "Measurements of some studies only", "head": ["What", "By", *names], "rows": lacking})
    tiles = [(str(len(clear)), f"of {len(rows_of)} figures differ by more than noise")]
    if clear:
        sure = [ratio for ratio, told in zip(clear[0]["ratios"], clear[0]["clear"], strict=True) if told and ratio]
        largest = max(sure, key=lambda ratio: max(ratio, 1 / ratio))
        tiles.append((f"{largest:.2f} ×", f"is the largest of these ratios: {clear[0]['what']}, {clear[0]['engine']}"))
    tiles.append((names[1] if len(names) == 2 else f"{len(names) - 1} studies", f"compared with {names[0]}"))
    return study.finish(tables=tables, figures=[figure] if groups else [], findings=found, tiles=tiles)
