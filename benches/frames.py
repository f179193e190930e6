"""Lazy tables against Parquet: the ADL queries in DuckDB and Polars, skipping by the index, batches, the cache.

The same events are written as a TTree, as an RNTuple and as Parquet with the same codec. The results are compared with
those of Awkward Array before the times. Rivals take turns within one run; ratios are those of medians.
``python benches/frames.py [--events N] [--keep]``
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import mock

import awkward as ak
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import sapwood
from sapwood import train
from sapwood.lab import cold
from sapwood.table.cache import cache_in

HERE = Path(__file__).resolve().parent
CLUSTER = 20_000
_FILES = 12
"""Number of files for the measurement of batches."""
FORMS = {"plain": "TTree", "ntuple": "RNTuple"}
"""The files of the events, and their content."""


def events(count: int) -> dict[str, Any]:
    """Make events like those of NanoAOD: muons, electrons and jets, sorted by `event`."""
    rng = np.random.default_rng(1)
    found: dict[str, Any] = {
        "event": np.arange(count, dtype=np.int32),
        "MET_pt": rng.exponential(30, count).astype(np.float32),
        "MET_phi": rng.uniform(-np.pi, np.pi, count).astype(np.float32),
    }
    for kind, mean in (("Muon", 1.2), ("Electron", 0.8), ("Jet", 4.0)):
        counts = rng.poisson(mean, count)
        total = int(counts.sum())
        values = {
            "pt": rng.exponential(25, total) + 3, "eta": rng.normal(0, 1.5, total),
            "phi": rng.uniform(-np.pi, np.pi, total), "mass": rng.exponential(5, total),
        }  # fmt: skip
        for name, value in values.items():
            found[f"{kind}_{name}"] = ak.unflatten(value.astype(np.float32), counts)
        found[f"{kind}_charge"] = ak.unflatten(rng.choice(np.array([-1, 1], np.int32), total), counts)
    return found


def write(folder: Path, data: dict[str, Any], index: bool, form: str = "TTree") -> Path:
    """Write events; a tree has one counter for each kind of particle."""
    name = ("indexed" if index else "plain") if form == "TTree" else ("indexed-ntuple" if index else "ntuple")
    path = folder / f"{name}.root"
    with sapwood.recreate(path, compression=sapwood.ZSTD(3), index=index) as file:
        if form == "TTree":
            kinds = {name: str(ak.type(values).content) for name, values in data.items()}
            table = file.mktree(
                "Events", kinds, auto_flush=CLUSTER, counter_name=lambda name: "n" + name.partition("_")[0]
            )  # fmt: skip
        else:
            table = file.mkrntuple(
                "Events", {name: values[:0] for name, values in data.items()}, cluster_entries=CLUSTER
            )  # fmt: skip
        size = 5 * CLUSTER if form == "TTree" else CLUSTER
        for start in range(0, len(data["event"]), size):
            table.extend({name: values[start : start + size] for name, values in data.items()})
    return path


QUERIES = {
    "Q1": "SELECT round(MET_pt::DOUBLE / 2) AS bin, count(*) AS n FROM events GROUP BY bin ORDER BY bin",
    "Q2": """SELECT round(pt::DOUBLE / 5) AS bin, count(*) AS n FROM (SELECT unnest(Jet_pt) AS pt FROM events)
        GROUP BY bin ORDER BY bin""",
    "Q3": """SELECT round(pt::DOUBLE / 5) AS bin, count(*) AS n
        FROM (SELECT unnest(Jet_pt) AS pt, unnest(Jet_eta) AS eta FROM events)
        WHERE abs(eta) < 1 GROUP BY bin ORDER BY bin""",
    "Q4": """SELECT round(MET_pt::DOUBLE / 2) AS bin, count(*) AS n FROM events
        WHERE len(list_filter(Jet_pt, lambda x: x > 40)) > 1 GROUP BY bin ORDER BY bin""",
    "Q5": """WITH muons AS (
            SELECT event, MET_pt::DOUBLE AS MET_pt, unnest(range(len(Muon_pt))) AS i, unnest(Muon_pt)::DOUBLE AS pt,
                unnest(Muon_eta)::DOUBLE AS eta, unnest(Muon_phi)::DOUBLE AS phi, unnest(Muon_charge) AS charge
            FROM events WHERE len(Muon_pt) > 1)
        SELECT round(met / 2) AS bin, count(*) AS n FROM (
            SELECT a.event, any_value(a.MET_pt) AS met
            FROM muons a JOIN muons b ON a.event = b.event AND a.i < b.i AND a.charge != b.charge
            WHERE sqrt(2.0 * a.pt * b.pt * (cosh(a.eta - b.eta) - cos(a.phi - b.phi))) BETWEEN 60 AND 120
            GROUP BY a.event) GROUP BY bin ORDER BY bin""",
    "Q6": """WITH jets AS (
            SELECT event, unnest(range(len(Jet_pt))) AS i, unnest(Jet_pt)::DOUBLE AS pt, unnest(Jet_eta)::DOUBLE AS eta,
                unnest(Jet_phi)::DOUBLE AS phi, unnest(Jet_mass)::DOUBLE AS mass FROM events WHERE len(Jet_pt) > 2),
        vectors AS (
            SELECT event, i, pt * cos(phi) AS x, pt * sin(phi) AS y, pt * sinh(eta) AS z,
                sqrt((pt * cosh(eta)) ** 2 + mass ** 2) AS e FROM jets),
        sums AS (
            SELECT a.event, a.x + b.x + c.x AS x, a.y + b.y + c.y AS y, a.z + b.z + c.z AS z, a.e + b.e + c.e AS e
            FROM vectors a JOIN vectors b ON a.event = b.event AND a.i < b.i
                JOIN vectors c ON a.event = c.event AND b.i < c.i)
        SELECT round(pt / 5) AS bin, count(*) AS n FROM (
            SELECT arg_min(sqrt(x * x + y * y), abs(sqrt(e * e - x * x - y * y - z * z) - 172.5)) AS pt
            FROM sums GROUP BY event) GROUP BY bin ORDER BY bin""",
    "Q7": """WITH leptons AS (
            SELECT event, unnest(Muon_pt) AS pt, unnest(Muon_eta)::DOUBLE AS eta, unnest(Muon_phi)::DOUBLE AS phi
            FROM events
            UNION ALL
            SELECT event, unnest(Electron_pt), unnest(Electron_eta)::DOUBLE, unnest(Electron_phi)::DOUBLE FROM events),
        jets AS (
            SELECT event, unnest(Jet_pt)::DOUBLE AS pt, unnest(Jet_eta)::DOUBLE AS eta, unnest(Jet_phi)::DOUBLE AS phi
            FROM events)
        SELECT round(total / 5) AS bin, count(*) AS n FROM (
            SELECT event, sum(pt) AS total FROM jets j WHERE pt > 30 AND NOT EXISTS (
                SELECT 1 FROM leptons l WHERE l.event = j.event AND l.pt > 10
                    AND (l.eta - j.eta) ** 2 + atan2(sin(l.phi - j.phi), cos(l.phi - j.phi)) ** 2 < 0.16)
            GROUP BY event) GROUP BY bin ORDER BY bin""",
    "Q8": """WITH leptons AS (
            SELECT event, MET_pt::DOUBLE AS met, MET_phi::DOUBLE AS met_phi, 0 AS kind,
                unnest(range(len(Muon_pt))) AS i,
                unnest(Muon_pt)::DOUBLE AS pt, unnest(Muon_eta)::DOUBLE AS eta, unnest(Muon_phi)::DOUBLE AS phi,
                unnest(Muon_mass)::DOUBLE AS mass, unnest(Muon_charge) AS charge
            FROM events WHERE len(Muon_pt) + len(Electron_pt) > 2
            UNION ALL
            SELECT event, MET_pt::DOUBLE, MET_phi::DOUBLE, 1, unnest(range(len(Electron_pt))),
                unnest(Electron_pt)::DOUBLE,
                unnest(Electron_eta)::DOUBLE, unnest(Electron_phi)::DOUBLE, unnest(Electron_mass)::DOUBLE,
                unnest(Electron_charge)
            FROM events WHERE len(Muon_pt) + len(Electron_pt) > 2),
        vectors AS (
            SELECT *, pt * cos(phi) AS x, pt * sin(phi) AS y, pt * sinh(eta) AS z,
                sqrt((pt * cosh(eta)) ** 2 + mass ** 2) AS e FROM leptons),
        pairs AS (
            SELECT a.event, a.kind, arg_min([a.i, b.i], abs(sqrt(greatest((a.e + b.e) ** 2 - (a.x + b.x) ** 2
                - (a.y + b.y) ** 2 - (a.z + b.z) ** 2, 0)) - 91.2)) AS pair,
                min(abs(sqrt(greatest((a.e + b.e) ** 2 - (a.x + b.x) ** 2 - (a.y + b.y) ** 2 - (a.z + b.z) ** 2, 0))
                - 91.2)) AS far
            FROM vectors a JOIN vectors b
                ON a.event = b.event AND a.kind = b.kind AND a.i < b.i AND a.charge != b.charge
            GROUP BY a.event, a.kind),
        best AS (SELECT event, arg_min(kind, far) AS kind, arg_min(pair, far) AS pair FROM pairs GROUP BY event)
        SELECT round(mt / 5) AS bin, count(*) AS n FROM (
            SELECT l.event, arg_max(sqrt(2 * l.met * l.pt * (1 - cos(l.met_phi - l.phi))), l.pt) AS mt
            FROM leptons l JOIN best ON l.event = best.event
            WHERE NOT (l.kind = best.kind AND list_contains(best.pair, l.i))
            GROUP BY l.event) GROUP BY bin ORDER BY bin""",
}
"""The queries of the ADL benchmark, as histograms."""

_NEEDS = {
    "Q5": {"MET_pt", *(f"Muon_{name}" for name in ("pt", "eta", "phi", "charge"))},
    "Q6": {"Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass"},
    "Q7": {f"{kind}_{name}" for kind in ("Jet", "Muon", "Electron") for name in ("pt", "eta", "phi")},
    "Q8": {"MET_pt", "MET_phi"}
    | {f"{kind}_{name}" for kind in ("Muon", "Electron") for name in ("pt", "eta", "phi", "mass", "charge")},
}
NEEDS = {
    "Q1": {"MET_pt"},
    "Q2": {"Jet_pt"},
    "Q3": {"Jet_pt", "Jet_eta"},
    "Q4": {"MET_pt", "Jet_pt"},
} | {name: columns | {"event"} for name, columns in _NEEDS.items()}
"""The columns that these queries use."""


def _vectors(events: Any, kind: str) -> Any:
    pt, eta, phi, mass = (ak.values_astype(events[f"{kind}_{name}"], "f8") for name in ("pt", "eta", "phi", "mass"))
    return ak.zip({
        "pt": pt, "eta": eta, "phi": phi, "x": pt * np.cos(phi), "y": pt * np.sin(phi), "z": pt * np.sinh(eta),
        "e": np.sqrt((pt * np.cosh(eta)) ** 2 + mass**2),
    })  # fmt: skip


def _mass(*vectors: Any) -> Any:
    x, y, z, e = (sum(one[name] for one in vectors) for name in "xyze")
    return np.sqrt(np.maximum(e**2 - x**2 - y**2 - z**2, 0))


def _bins(values: Any, width: int = 5) -> list[tuple[float, int]]:
    bins, counts = np.unique(np.floor(np.asarray(values, np.float64) / width + 0.5), return_counts=True)
    return list(zip(bins.tolist(), counts.tolist(), strict=True))


def reference(events: Any) -> dict[str, list[tuple[float, int]]]:
    """Return what the queries give, computed with Awkward Array."""
    met, pt = np.asarray(events["MET_pt"]), events["Jet_pt"]
    found = {
        "Q1": _bins(met, 2),
        "Q2": _bins(ak.flatten(pt)),
        "Q3": _bins(ak.flatten(pt[abs(events["Jet_eta"]) < 1])),
        "Q4": _bins(met[ak.sum(pt > 40, axis=1) > 1], 2),
    }
    muons = _vectors(events, "Muon")
    muons["charge"] = events["Muon_charge"]
    a, b = ak.unzip(ak.combinations(muons, 2))
    mass = np.sqrt(2 * a.pt * b.pt * (np.cosh(a.eta - b.eta) - np.cos(a.phi - b.phi)))
    found["Q5"] = _bins(met[ak.any((a.charge != b.charge) & (mass >= 60) & (mass <= 120), axis=1)], 2)

    jets = _vectors(events, "Jet")
    a, b, c = ak.unzip(ak.combinations(jets[ak.num(jets) > 2], 3))
    best = ak.argmin(abs(_mass(a, b, c) - 172.5), axis=1, keepdims=True)
    found |= {"Q6": _bins(ak.flatten(np.sqrt((a.x + b.x + c.x) ** 2 + (a.y + b.y + c.y) ** 2)[best]))}

    leptons = ak.concatenate([_vectors(events, "Muon"), _vectors(events, "Electron")], axis=1)
    hard = jets[jets.pt > 30]
    jet, lepton = ak.unzip(ak.cartesian([hard, leptons[leptons.pt > 10]], nested=True))
    turn = jet.phi - lepton.phi
    near = (jet.eta - lepton.eta) ** 2 + np.arctan2(np.sin(turn), np.cos(turn)) ** 2 < 0.16
    good = hard[~ak.any(near, axis=2)]
    found["Q7"] = _bins(ak.sum(good.pt, axis=1)[ak.num(good) > 0])

    charges = [events["Muon_charge"], events["Electron_charge"]]
    leptons["charge"] = ak.concatenate(charges, axis=1)
    leptons["kind"] = ak.concatenate([ak.zeros_like(charges[0]), ak.ones_like(charges[1])], axis=1)
    leptons["place"] = ak.local_index(leptons.pt)
    some = ak.num(leptons) > 2
    a, b = ak.unzip(ak.combinations(leptons[some], 2))
    pairs = (a.kind == b.kind) & (a.charge != b.charge)
    a, b = a[pairs], b[pairs]
    best = ak.argmin(abs(_mass(a, b) - 91.2), axis=1, keepdims=True)
    a, b = ak.firsts(a[best]), ak.firsts(b[best])
    there = ~ak.is_none(a)
    others = leptons[some][there]
    others = others[(others.place != a[there].place) & (others.place != b[there].place)]
    lead = ak.firsts(others[ak.argmax(others.pt, axis=1, keepdims=True)])
    met, phi = (ak.values_astype(events[name], "f8")[some][there] for name in ("MET_pt", "MET_phi"))
    found["Q8"] = _bins(np.sqrt(2 * met * lead.pt * (1 - np.cos(phi - lead.phi))))
    return found


def _histogram(frame: pl.LazyFrame, value: str, width: float) -> pl.LazyFrame:
    places = (pl.col(value).cast(pl.Float64) / width + 0.5).floor().alias("bin")
    return frame.group_by(places).agg(n=pl.len()).sort("bin")


def _items(frame: pl.LazyFrame, kind: str, names: tuple[str, ...], *more: str) -> pl.LazyFrame:
    """Return a row for each particle of a kind: `event`, its place `i`, and numbers of it and of its event."""
    lists = [f"{kind}_{name}" for name in names]
    found = frame.select("event", *lists, *more, i=pl.int_ranges(pl.col(lists[0]).list.len()))
    wide = [pl.col(f"{kind}_{name}").cast(pl.Float64 if name != "charge" else pl.Int32).alias(name) for name in names]
    return (
        found.explode(*lists, "i")
        .drop_nulls()
        .select("event", "i", *wide, *(pl.col(one).cast(pl.Float64) for one in more))
    )


def _with_vectors(items: pl.LazyFrame) -> pl.LazyFrame:
    pt, eta, phi = pl.col("pt"), pl.col("eta"), pl.col("phi")
    return items.with_columns(
        x=pt * phi.cos(), y=pt * phi.sin(), z=pt * eta.sinh(), e=((pt * eta.cosh()) ** 2 + pl.col("mass") ** 2).sqrt()
    )


def _mass_of(x: pl.Expr, y: pl.Expr, z: pl.Expr, e: pl.Expr) -> pl.Expr:
    return pl.max_horizontal(e**2 - x**2 - y**2 - z**2, 0.0).sqrt()


def polars_queries(frame: pl.LazyFrame) -> dict[str, pl.LazyFrame]:
    """Return the same queries as frames of Polars."""
    jets = frame.select("Jet_pt", "Jet_eta").explode("Jet_pt", "Jet_eta").drop_nulls()
    two = pl.col("Jet_pt").list.eval((pl.element() > 40).cast(pl.Int32)).list.sum() > 1
    found = {
        "Q1": _histogram(frame.select("MET_pt"), "MET_pt", 2),
        "Q2": _histogram(frame.select(pl.col("Jet_pt").explode().drop_nulls()), "Jet_pt", 5),
        "Q3": _histogram(jets.filter(pl.col("Jet_eta").abs() < 1), "Jet_pt", 5),
        "Q4": _histogram(frame.filter(two).select("MET_pt"), "MET_pt", 2),
    }
    i, other = pl.col("i"), pl.col("i_b")
    muons = _items(frame, "Muon", ("pt", "eta", "phi", "charge"), "MET_pt")
    pairs = muons.join(muons.drop("MET_pt"), on="event", suffix="_b")
    pairs = pairs.filter((i < other) & (pl.col("charge") != pl.col("charge_b")))
    angles = (pl.col("eta") - pl.col("eta_b")).cosh() - (pl.col("phi") - pl.col("phi_b")).cos()
    near = (2 * pl.col("pt") * pl.col("pt_b") * angles).sqrt().is_between(60, 120)
    found["Q5"] = _histogram(pairs.filter(near).group_by("event").agg(pl.col("MET_pt").first()), "MET_pt", 2)

    vectors = _with_vectors(_items(frame, "Jet", ("pt", "eta", "phi", "mass"))).select("event", "i", *"xyze")
    pairs = vectors.join(vectors, on="event", suffix="_b").filter(i < other)
    pairs = pairs.select("event", other.alias("i"), *(pl.col(name) + pl.col(f"{name}_b") for name in "xyze"))
    triples = pairs.join(vectors, on="event", suffix="_b").filter(i < other)
    triples = triples.select("event", *(pl.col(name) + pl.col(f"{name}_b") for name in "xyze"))
    triples = triples.select(
        "event", pt=(pl.col("x") ** 2 + pl.col("y") ** 2).sqrt(), far=(_mass_of(*map(pl.col, "xyze")) - 172.5).abs()
    )
    best = triples.group_by("event").agg(pl.col("pt").get(pl.col("far").arg_min()))
    found["Q6"] = _histogram(best, "pt", 5)

    leptons = pl.concat([_items(frame, kind, ("pt", "eta", "phi")) for kind in ("Muon", "Electron")])
    hard = _items(frame, "Jet", ("pt", "eta", "phi")).filter(pl.col("pt") > 30)
    turn = pl.col("phi") - pl.col("phi_b")
    close = (pl.col("eta") - pl.col("eta_b")) ** 2 + pl.arctan2(turn.sin(), turn.cos()) ** 2 < 0.16
    met = hard.join(leptons.filter(pl.col("pt") > 10), on="event", suffix="_b").filter(close)
    good = hard.join(met.select("event", "i").unique(), on=["event", "i"], how="anti")
    found["Q7"] = _histogram(good.group_by("event").agg(pl.col("pt").sum()), "pt", 5)

    three = frame.filter(pl.col("Muon_pt").list.len() + pl.col("Electron_pt").list.len() > 2)
    own = [
        _items(three, kind, ("pt", "eta", "phi", "mass", "charge"), "MET_pt", "MET_phi").with_columns(
            kind=pl.lit(number)
        )
        for number, kind in enumerate(("Muon", "Electron"))
    ]
    leptons = _with_vectors(pl.concat(own))
    sides = leptons.select("event", "kind", "i", "charge", *"xyze")
    pairs = sides.join(sides, on=["event", "kind"], suffix="_b")
    pairs = pairs.filter((i < other) & (pl.col("charge") != pl.col("charge_b")))
    far = (_mass_of(*(pl.col(name) + pl.col(f"{name}_b") for name in "xyze")) - 91.2).abs()
    nearest = far.arg_min()
    best = pairs.group_by("event").agg(
        pl.col("kind").get(nearest).alias("best"), i.get(nearest).alias("one"), other.get(nearest).alias("two")
    )
    chosen = (pl.col("kind") == pl.col("best")) & ((i == pl.col("one")) | (i == pl.col("two")))
    rest = leptons.join(best, on="event").filter(~chosen)
    angle = (pl.col("MET_phi") - pl.col("phi")).cos()
    mt = (2 * pl.col("MET_pt") * pl.col("pt") * (1 - angle)).sqrt()
    found["Q8"] = _histogram(rest.group_by("event").agg(mt=mt.get(pl.col("pt").arg_max())), "mt", 5)
    return found


class Figures:
    """The figures of a run, each with the times from which it is computed."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.found: list[dict[str, Any]] = []
        self.costs: dict[str, dict[str, float]] = {}
        """Processor time of `iterate` and of batches, in nanoseconds an entry, by the form of the file."""

    def add(self, part: str, what: str, value: float, bound: float | None = None, **more: Any) -> None:
        """Keep a figure, whose bound is an upper one, or with ``least=True`` a lower one."""
        figure = {"part": part, "what": what, "value": value, "bound": bound, "least": False, **more}
        self.found.append(figure)
        print(f"{part}: {what}: {value:.3f}{_verdict(figure)}", flush=True)

    def ratio(
        self, part: str, what: str, times: Any, other: Any, bound: float | None, *, clock: str = "wall", **more: Any
    ) -> None:
        """Keep the ratio of the medians of two lists of times."""
        both = {kind: _median(times, kind) / _median(other, kind) for kind in ("wall", "processor")}
        self.add(part, what, both[clock], bound, clock=clock, both=both, times=times, other=other, **more)

    def pairs(
        self, what: str, works: Sequence[Callable[[], Any]], count: int, bound: float, files: Sequence[str] = ()
    ) -> None:
        """Keep the median ratio of pairs without and with an index, and its standard error.

        The order within the pairs takes turns. The system puts the files that are read to other places in memory
        before each pair, because the place can change times by two percent.
        """
        times: list[list[dict[str, float]]] = [[], []]
        for number in range(count):
            order = (0, 1) if number % 2 else (1, 0)
            for path in files:
                cold.drop(Path(path))
            for place in order if files else ():
                Path(files[place]).read_bytes()
            for place, (found,) in zip(order, timed(1, *(works[one] for one in order)), strict=True):
                times[place].append(found)
        ratios = {kind: [b[kind] / a[kind] for a, b in zip(*times, strict=True)] for kind in ("wall", "processor")}
        both = {kind: statistics.median(found) for kind, found in ratios.items()}
        self.add(
            "Index", what, both["processor"], bound, clock="processor", both=both, pairs=count, times=times[1],
            other=times[0], error=_error_of_median(ratios["processor"]),
        )  # fmt: skip


def _error_of_median(values: Sequence[float]) -> float:
    """Return the standard error of a median, from the medians of 400 samples of the values (bootstrap)."""
    samples = np.random.default_rng(1).choice(values, (400, len(values)))
    return float(np.median(samples, axis=1).std())


def _median(times: Iterable[dict[str, float]], clock: str) -> float:
    return statistics.median(one[clock] for one in times)


def _met(figure: dict[str, Any]) -> bool:
    value, bound = figure["value"], figure["bound"]
    return bound is None or (value >= bound if figure["least"] else value <= bound)


def _verdict(figure: dict[str, Any]) -> str:
    if figure["bound"] is None:
        return ""
    sign = "≥" if figure["least"] else "≤"
    return f" ({sign} {figure['bound']:g}: {'met' if _met(figure) else 'missed'})"


def timed(repeats: int, *works: Callable[[], Any]) -> list[list[dict[str, float]]]:
    """Run functions in turn; return all times of each: wall time and processor time in seconds."""
    times: list[list[dict[str, float]]] = [[] for _ in works]
    for _ in range(repeats):
        for work, found in zip(works, times, strict=True):
            began, spent = time.perf_counter(), time.process_time()
            work()
            found.append({"wall": time.perf_counter() - began, "processor": time.process_time() - spent})
    return times


def sql(source: Any, query: str) -> Any:
    connection = duckdb.connect()
    connection.register("events", source)
    return connection.execute(query).fetchall()


def used(work: Callable[[], Any]) -> tuple[int, set[str]]:
    """Return the bytes that some work requests, and the columns that it reads."""
    with sapwood.trace() as trace:
        work()
    read = {one.rpartition(" of ")[2].partition(".")[0] for one in trace["branch"].tolist() if one}
    return trace.layers()["bytes_requested"], read - {"nMuon", "nElectron", "nJet"}


def write_all(figures: Figures, folder: Path, data: dict[str, Any]) -> None:
    """Write all files of the events, and measure what the index costs."""
    for form in FORMS.values():
        plain, indexed = (lambda f=form, i=index: write(folder, data, i, f) for index in (False, True))
        timed(1, plain, indexed)
        figures.pairs(f"writing a {form} with an index ÷ without", (plain, indexed), 61, 1.03)
    table = pa.table({key: ak.to_arrow(values, extensionarray=False) for key, values in data.items()})
    pq.write_table(
        table, folder / "events.parquet", compression="zstd", compression_level=3, row_group_size=CLUSTER
    )  # fmt: skip


def rival_queries(path: Path) -> dict[str, pl.LazyFrame]:
    """Return the queries over polars-root.

    It reads with uproot, whose `array_cache` keeps the columns of an RNTuple in memory: without a change here, only the
    first round would read the file.
    """
    import polars_root
    import uproot

    with mock.patch.object(uproot, "open", partial(uproot.open, array_cache=None)):
        return polars_queries(polars_root.scan_root(str(path), "Events"))


_LEAST = 0.5
"""Seconds for which each query runs at least: the times of a few short runs vary by a third."""


def measure_queries(figures: Figures, folder: Path, data: dict[str, Any]) -> None:
    """Run the queries over all files: the results are Awkward's, from the columns that they need."""
    expected = reference(data)
    parquet = folder / "events.parquet"
    compared = pa.dataset.dataset(parquet)
    scanned = polars_queries(pl.scan_parquet(parquet))
    for file, form in FORMS.items():
        rival = rival_queries(folder / f"{file}.root") if find_spec("polars_root") else {}
        path = f"{folder / file}.root:Events"
        size = (folder / f"{file}.root").stat().st_size
        source, lazy = sapwood.dataset(path), polars_queries(sapwood.scan_polars(path))
        for name, query in QUERIES.items():
            works: dict[str, dict[str, Callable[[], Any]]] = {
                "DuckDB": {
                    "ours": lambda s=source, q=query: sql(s, q),
                    "Parquet": lambda q=query: sql(compared, q),
                },
                "Polars": {
                    "ours": lambda f=lazy[name]: f.collect().rows(),
                    "Parquet": lambda f=scanned[name]: f.collect().rows(),
                },
            }
            if rival:
                works["Polars"]["polars-root"] = lambda f=rival[name]: f.collect().rows()
            for engine, ways in works.items():
                for way, work in ways.items():
                    got = [(float(value), count) for value, count in work()]
                    if got != expected[name]:
                        raise AssertionError(f"{engine} over {way} {form}: {name} differs from Awkward's")
                read, names = used(ways["ours"])
                if names != NEEDS[name]:
                    raise AssertionError(f"{engine} over {form}: {name} reads {names}, but needs {NEEDS[name]}")
                rounds = max(figures.repeats, round(_LEAST / timed(1, ways["ours"])[0][0]["wall"]))
                times = dict(zip(ways, timed(rounds, *ways.values()), strict=True))
                figures.ratio(
                    f"{engine}, {form}", f"{name} ÷ Parquet", times["ours"], times["Parquet"], 1.3, share=read / size
                )
                if "polars-root" in times:
                    figures.ratio(
                        f"{engine}, {form}", f"{name} ÷ polars-root", times["ours"], times["polars-root"], 1.0
                    )


def write_sorted(folder: Path, entries: int, form: str, index: bool) -> str:
    """Write entries in the order of `event`, in 100 clusters."""
    path, each = folder / f"sorted-{form}-{index}.root", entries // 100
    rng = np.random.default_rng(2)
    with sapwood.recreate(path, compression=sapwood.ZSTD(3), index=index) as file:
        table: Any = None
        for start in range(0, entries, each):
            counts = rng.poisson(4, each)
            chunk: dict[str, Any] = {
                "event": np.arange(start, start + each, dtype=np.int32),
                "MET_pt": rng.exponential(30, each).astype(np.float32),
                "Jet_pt": ak.unflatten(rng.exponential(25, int(counts.sum())).astype(np.float32), counts),
            }
            if table is None:
                empty = {name: values[:0] for name, values in chunk.items()}
                if form == "TTree":
                    table = file.mktree("Events", empty, auto_flush=each)
                else:
                    table = file.mkrntuple("Events", empty, cluster_entries=each)
            table.extend(chunk)
    return f"{path}:Events"


_UNSORTED = "MET_pt > 5"
"""A cut that passes in every cluster."""


class Selected(train.Task):
    """Takes the entries of a cut."""

    name = "selected"

    def __init__(self, cut: str, columns: list[str]) -> None:
        self.cut, self.branches = cut, columns

    def process(self, events: Any) -> Any:
        return {name: ak.to_list(events[name]) for name in self.branches}


def measure_cuts(figures: Figures, folder: Path, entries: int) -> None:
    """Measure a cut of one percent on a sorted field, and one that excludes nothing."""
    low = entries // 2 + entries // 250
    high, columns = low + entries // 100, ["MET_pt", "Jet_pt"]
    cut, where = f"(event >= {low}) & (event < {high})", f"WHERE event >= {low} AND event < {high}"

    def carried(path: str) -> Any:
        return train.run(Selected(cut, columns), path, threads=1)["selected"]

    def selected(path: str) -> pl.LazyFrame:
        return sapwood.scan_polars(path).filter(pl.col("event").is_between(low, high - 1)).select(columns)

    ways: dict[str, Callable[[str], Any]] = {
        "arrays": lambda path: ak.to_list(sapwood.open(path).arrays(columns, cut)),
        "DuckDB": lambda path: sorted(sql(sapwood.dataset(path), f"SELECT {', '.join(columns)} FROM events {where}")),
        "Polars": lambda path: selected(path).collect().rows(),
        "a train": carried,
    }
    for form in FORMS.values():
        plain, path = (write_sorted(folder, entries, form, index) for index in (False, True))
        for way, work in ways.items():
            if work(plain) != work(path):
                raise AssertionError(f"the index changes what {way} finds in a {form}")
            (whole, _), (part, _) = used(lambda w=work, p=plain: w(p)), used(lambda w=work, p=path: w(p))
            figures.add("Index", f"cut of 1 % in {way}, {form}: bytes ÷ without an index", part / whole, 0.03)
        works = [lambda p=one: sapwood.open(p).arrays(columns, _UNSORTED) for one in (plain, path)]
        files = [one.removesuffix(":Events") for one in (plain, path)]
        figures.pairs(f"cut that excludes nothing, {form} ÷ without an index", works, 600, 1.01, files)


def measure_batches(figures: Figures, folder: Path) -> None:
    """Compare batches with `iterate`, after checking that each entry comes once an epoch.

    The dataset has one file many times, so that waiting for the first window is a small part, as in training.
    """
    names = ["MET_pt", "MET_phi", "event", "Jet_pt", "Jet_eta"]
    for file, form in FORMS.items():
        path = f"{folder / file}.root:Events"
        count = sapwood.open(path).num_entries
        paths = [path]
        for number in range(1, _FILES):
            link = folder / f"{file}-{number}.root"
            link.hardlink_to(folder / f"{file}.root")
            paths.append(f"{link}:Events")

        def stepped(paths: list[str] = paths) -> int:
            return sum(len(array) for array in sapwood.iterate(paths, names, step_size="8 MB"))

        def batched(paths: list[str] = paths, **options: Any) -> int:
            return sum(len(batch["event"]) for batch in sapwood.batches(paths, names, 8192, **options))

        modes: dict[str, dict[str, Any]] = {
            "in order": {}, "shuffled": {"shuffle": True}, "shuffled, padded": {"shuffle": True, "pad": 8}
        }  # fmt: skip
        for library in ("torch", "jax"):
            if find_spec(library):
                modes[f"shuffled, padded, {library}"] = {"shuffle": True, "pad": 8, "library": library}
        for what, options in modes.items():
            parts = [
                sapwood.batches(path, ["event"], 8192, rank=rank, world=3, **_of_flat(options)) for rank in range(3)
            ]
            seen = np.concatenate([np.asarray(batch["event"]) for part in parts for batch in part])
            if not np.array_equal(np.sort(seen), np.arange(count)):
                raise AssertionError(f"batches {what}: an entry is missing or comes twice")
        works = [stepped, *(lambda o=options, b=batched: b(**o) for options in modes.values())]
        base, *times = timed(figures.repeats, *works)
        for what, own in zip(modes, times, strict=True):
            # The rate is the inverse of the time.
            figures.ratio(
                "Batches", f"{what}, {form}: rate ÷ that of iterate", base, own, 0.9, least=True, clock="processor"
            )
        named = {"iterate": base} | dict(zip(modes, times, strict=True))
        figures.costs[form] = {what: 1e9 * _median(own, "processor") / (count * _FILES) for what, own in named.items()}
        # A loop that waits for an accelerator twice as long as reading takes.
        pause = 2 * statistics.median(one["wall"] for one in base) / (count * _FILES)
        loops = [lambda p=paths, w=pause: busy(sapwood.iterate(p, names, step_size="8 MB"), w)]
        loops += [
            lambda p=paths, o=options, w=pause: busy(sapwood.batches(p, names, 8192, **o), w)
            for options in modes.values()
        ]
        base, *times = timed(figures.repeats, *loops)
        for what, own in zip(modes, times, strict=True):
            figures.ratio(
                "Batches", f"{what}, {form}: rate in a busy loop ÷ that of iterate", base, own, 0.9, least=True,
                clock="wall",
            )  # fmt: skip


def busy(batches: Iterable[Any], pause: float) -> None:
    """Go through batches, with a pause for each entry. If a pause takes too long, the next one is shorter."""
    late = 0.0
    for batch in batches:
        pauses = len(batch["event"]) * pause - late
        begin = time.perf_counter()
        time.sleep(max(pauses, 0))
        late = time.perf_counter() - begin - pauses


def _of_flat(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "pad"}


def second_pass(figures: Figures, folder: Path) -> None:
    """Compare a second pass through the cache of columns, as a new process has it, with `memcpy`."""
    path, entries = folder / "flat.root", 6_000_000
    normal = np.random.default_rng(1).normal(size=entries)
    with sapwood.recreate(path) as file:
        file.mktree("t", {"a": normal, "b": np.arange(entries, dtype=np.float64), "c": normal[::-1].copy()})

    def passed() -> dict[str, Any]:
        # As in a new process, the checksums of all columns are verified.
        cache_in.cache_clear()
        with sapwood.open(f"{path}:t", column_cache=folder / "columns") as tree:
            return tree.arrays(library="np")

    plain = [column.copy() for column in passed().values()]
    assert all((one == other).all() for one, other in zip(passed().values(), plain, strict=True))
    cached, copied = timed(2 * figures.repeats, passed, lambda: [column.copy() for column in plain])
    figures.ratio("Cache", "second pass: speed ÷ that of memcpy", copied, cached, 0.5, least=True)


def costs(found: dict[str, dict[str, float]]) -> str:
    """Return the processor time of batches, as lines of a list."""
    lines = [
        f"- {form}: " + ", ".join(f"{what} {value:.0f} ns" for what, value in modes.items())
        for form, modes in found.items()
    ]
    return "\n".join(lines)


def table(found: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown: queries as one table, others one a line."""
    lines = ["| | by the clock | processor time | bound | bytes read |", "|---|---:|---:|---|---:|"]
    for one in found:
        both = one.get("both")
        cells = [f"{both['wall']:.2f}", f"{both['processor']:.2f}"] if both else [f"{one['value']:.4f}", ""]
        if one["bound"] in (1.01, 1.03) and both:
            cells = [f"{both['wall']:.3f}", f"{both['processor']:.3f}"]
        sign = "≥" if one["least"] else "≤"
        held = "" if one["bound"] is None else f"{sign} {one['bound']:g}" + ("" if _met(one) else ": **missed**")
        if one.get("clock") == "processor":
            held += " (processor)"
        share = f"{100 * one['share']:.1f} %" if "share" in one else ""
        lines.append(f"| {one['part']}: {one['what']} | {cells[0]} | {cells[1]} | {held} | {share} |")
    return "\n".join(lines)


def page(result: dict[str, Any], name: str) -> str:
    """Return docs/performance/frames.md."""
    host, software = result["host"], result["software"]
    others = ", ".join(f"{one} {version}" for one, version in result["engines"].items())
    indexes = [one for one in result["figures"] if "pairs" in one]
    pairs = " and ".join(str(one) for one in sorted({one["pairs"] for one in indexes}))
    errors = "\n".join(f"- {one['what']}: {one['value']:.4f} ± {one['error']:.4f}" for one in indexes)
    return f"""# Lazy tables

Generated by `make bench-frames` from [{name}](../../benches/results/{name}), which holds every raw value.

The data are {result["events"]:,} NanoAOD-like events as a TTree, an RNTuple and Parquet, with Zstandard at level 3 and
clusters (row groups) of {CLUSTER:,}. Q1 to Q8 are the queries of the ADL benchmarks, as histograms: SQL in DuckDB over
`sapwood.dataset`, and frames of Polars over `sapwood.scan_polars`. `bytes read` is the part of the ROOT file that was
requested. For Q8, Polars scans the file four times (also a Parquet file), and so reads each column twice. The cuts are
on {result["sorted"]:,} entries in 100 clusters.

The results were checked before the times were measured. All results were equal to those of Awkward Array, and the trace
showed that exactly the needed columns were read. The results of cuts were equal with and without an index. In each mode
of batches, the batches of three ranks together had each entry once.

Figures are ratios of medians of {result["repeats"]} or more rounds in one process, in which the programs take turns,
with a warm page cache. polars-root reads with uproot. Its cache of columns is switched off, because with it, later
rounds over an RNTuple read nothing. The cost of an index is the median ratio of {pairs} pairs of runs with and without
an index. Before each pair that reads, the two files leave the page cache and are read into it again, because the places
in memory change times by up to two percent.

{table(result["figures"])}

The ratios of processor time with and without an index, with their standard errors, are:

{errors}

The processor time of batches for each entry of five columns, of which two are lists, is:

{costs(result["costs"])}

Batches and `iterate` read {_FILES} files with the same content. A shuffled batch copies every number once more than
`iterate`, and takes its lists from random places in a window of eight clusters. Each list is one or two cache lines, so
the rate at which caches deliver lines from random places limits the copy. A padded batch writes more numbers than the
lists contain. Windows are mixed in the background: `in a busy loop` is the rate for a consumer that waits for an
accelerator, twice as long as `iterate` takes to read.

Machine: {host["cpu"]}, {host["cpus"]} CPUs, {host["memory"]}, Linux {host["kernel"]}, load {host["load"]:.1f} at the
start. Python {host["python"]}, sapwood {software["sapwood"]} at {software["commit"][:12]}, {others}.
"""


def main() -> int:
    """Measure, print the figures, and keep them."""
    import host

    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--events", type=int, default=400_000)
    arguments.add_argument("--sorted", type=int, default=2_000_000, help="entries of the sorted files")
    arguments.add_argument("--repeats", type=int, default=5)
    arguments.add_argument("--keep", action="store_true", help="keep the result, and write the page")
    chosen = arguments.parse_args()
    packages = [one for one in ("duckdb", "polars", "polars_root", "pyarrow", "torch", "jax") if find_spec(one)]
    result: dict[str, Any] = {
        "host": host.host(), "software": host.software(), "events": chosen.events, "sorted": chosen.sorted,
        "repeats": chosen.repeats, "engines": {one: metadata.version(one) for one in packages},
    }  # fmt: skip
    figures = Figures(chosen.repeats)
    data = events(chosen.events)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_all(figures, folder, data)
        measure_queries(figures, folder, data)
        measure_cuts(figures, folder, chosen.sorted)
        measure_batches(figures, folder)
        second_pass(figures, folder)
    result["figures"], result["costs"] = figures.found, figures.costs
    if chosen.keep:
        when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H%M")
        kept = HERE / "results" / f"frames-{when}-{result['software']['commit'][:8]}.json"
        kept.write_text(json.dumps(result, indent=1) + "\n")
        (HERE.parent / "docs" / "performance" / "frames.md").write_text(page(result, kept.name))
    print(table(figures.found))
    return 0 if all(map(_met, figures.found)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
