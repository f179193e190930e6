"""Make objects to write from data frames. The functions have uproot's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, ArgumentTypeError
from sapwood.new import TGraph
from sapwood.writing.objects import NewObject, doubles

__all__ = ["as_TGraph"]

_SIDES = ("errors_low", "errors_high")


def as_TGraph(  # noqa: N802 - uproot's name
    df: Foreign,
    title: str = "",
    xAxisLabel: str = "",  # noqa: N803
    yAxisLabel: str = "",  # noqa: N803
    minY: float | None = None,  # noqa: N803
    maxY: float | None = None,  # noqa: N803
    lineColor: int = 602,  # noqa: N803
    lineStyle: int = 1,  # noqa: N803
    lineWidth: int = 1,  # noqa: N803
    markerColor: int = 1,  # noqa: N803
    markerStyle: int = 1,  # noqa: N803
    markerSize: float = 1.0,  # noqa: N803
) -> NewObject:
    """Make a graph from a data frame or a dict of arrays. `sapwood.new.TGraph` makes one from arrays.

    Parameters
    ----------
    df
        Columns ``x`` and ``y``. With ``x_errors`` and ``y_errors``, the result is a `TGraphErrors`; with
        ``x_errors_low``, ``x_errors_high``, ``y_errors_low`` and ``y_errors_high``, a `TGraphAsymmErrors`. Other
        columns are ignored.
    title, xAxisLabel, yAxisLabel
        The titles of the graph and of its axes.
    minY, maxY
        The displayed range of y; by default the range of the points and 10 % of it on either side.
    lineColor, lineStyle, lineWidth, markerColor, markerStyle, markerSize
        Drawing attributes, by ROOT's numbers.

    Raises
    ------
    ArgumentError
        ``x`` or ``y`` is missing, errors are given for only one of them, or errors of both kinds are given.
    """
    names = ("x", "y", *(f"{axis}_errors{side}" for axis in "xy" for side in ("", "_low", "_high")))
    if not isinstance(df, Mapping) and not hasattr(df, "columns"):
        raise ArgumentTypeError(f"a graph is made of a data frame or a dict of arrays, not of {df!r}")
    known = [str(name) for name in getattr(df, "columns", df)]
    given = {name: doubles(df[name], f"the column {name!r} of a graph") for name in known if name in names}
    if missing := [name for name in ("x", "y") if name not in given]:
        raise ArgumentError(f"a graph needs a column {missing[0]!r}; the data have {', '.join(known) or 'none'}")
    kinds = [
        names
        for names in (["x_errors", "y_errors"], [f"{axis}_{side}" for axis in "xy" for side in _SIDES])
        if any(name in given for name in names)
    ]
    if len(kinds) > 1 or any(name not in given for names in kinds for name in names):
        raise ArgumentError("errors are given as x_errors and y_errors, or as low and high errors of both x and y")
    errors: list[Foreign] = [None, None]
    if kinds and len(kinds[0]) == 2:
        errors = [given[name] for name in kinds[0]]
    elif kinds:
        errors = [tuple(given[f"{axis}_{side}"] for side in _SIDES) for axis in "xy"]
    made = TGraph(given["x"], given["y"], ex=errors[0], ey=errors[1], title=f"{title};{xAxisLabel};{yAxisLabel}")
    y = given["y"]
    margin = 0.1 * (y.max() - y.min()) if len(y) else 0.0
    shown = (y.min() - margin, y.max() + margin) if len(y) else (-1111.0, -1111.0)
    looks = {
        "fMinimum": shown[0] if minY is None else minY, "fMaximum": shown[1] if maxY is None else maxY,
        "fLineColor": lineColor, "fLineStyle": lineStyle, "fLineWidth": lineWidth,
        "fMarkerColor": markerColor, "fMarkerStyle": markerStyle, "fMarkerSize": markerSize,
    }  # fmt: skip
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in looks.items()}
    return replace(made, members=made.members | plain)
