"""Lazy tables against Parquet: queries of the ADL benchmark in DuckDB and Polars, skipping by the index, batches.

The same events are written as ROOT trees and as Parquet with the same codec. Results are compared before times; the
times of both come by turns from one run, and ratios of medians are printed. ``python benches/frames.py [--events N]``
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

import sapwood
from sapwood.table.cache import cache_in

CLUSTER = 20_000


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


def write(folder: Path, data: dict[str, Any], index: bool) -> Path:
    """Write a tree; one name of counter a kind of particle."""
    path = folder / ("indexed.root" if index else "plain.root")
    kinds = {name: str(ak.type(values).content) for name, values in data.items()}
    with sapwood.recreate(path, compression=sapwood.ZSTD(3), index=index) as file:
        tree = file.mktree(
            "Events", kinds, auto_flush=CLUSTER, counter_name=lambda name: "n" + name.partition("_")[0]
        )  # fmt: skip
        for start in range(0, len(data["event"]), 5 * CLUSTER):
            tree.extend({name: values[start : start + 5 * CLUSTER] for name, values in data.items()})
    return path


QUERIES = {
    "Q1": "SELECT round(MET_pt / 2) AS bin, count(*) AS n FROM events GROUP BY bin ORDER BY bin",
    "Q2": """SELECT round(pt / 5) AS bin, count(*) AS n FROM (SELECT unnest(Jet_pt) AS pt FROM events)
        GROUP BY bin ORDER BY bin""",
    "Q3": """SELECT round(pt / 5) AS bin, count(*) AS n
        FROM (SELECT unnest(Jet_pt) AS pt, unnest(Jet_eta) AS eta FROM events)
        WHERE abs(eta) < 1 GROUP BY bin ORDER BY bin""",
    "Q4": """SELECT round(MET_pt / 2) AS bin, count(*) AS n FROM events
        WHERE len(list_filter(Jet_pt, lambda x: x > 40)) > 1 GROUP BY bin ORDER BY bin""",
    "Q5": """WITH muons AS (
            SELECT event, MET_pt, unnest(range(len(Muon_pt))) AS i, unnest(Muon_pt) AS pt, unnest(Muon_eta) AS eta,
                unnest(Muon_phi) AS phi, unnest(Muon_charge) AS charge FROM events WHERE len(Muon_pt) > 1)
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
    "Q6": {"Jet_pt", "Jet_eta", "Jet_phi", "Jet_mass"},
    "Q7": {f"{kind}_{name}" for kind in ("Jet", "Muon", "Electron") for name in ("pt", "eta", "phi")},
    "Q8": {"MET_pt", "MET_phi"}
    | {f"{kind}_{name}" for kind in ("Muon", "Electron") for name in ("pt", "eta", "phi", "mass", "charge")},
}
NEEDS = {name: columns | {"event"} for name, columns in _NEEDS.items()}
"""The columns that the last three of these queries use."""


def _vectors(events: Any, kind: str) -> Any:
    pt, eta, phi, mass = (ak.values_astype(events[f"{kind}_{name}"], "f8") for name in ("pt", "eta", "phi", "mass"))
    return ak.zip({
        "pt": pt, "eta": eta, "phi": phi, "x": pt * np.cos(phi), "y": pt * np.sin(phi), "z": pt * np.sinh(eta),
        "e": np.sqrt((pt * np.cosh(eta)) ** 2 + mass**2),
    })  # fmt: skip


def _mass(*vectors: Any) -> Any:
    x, y, z, e = (sum(one[name] for one in vectors) for name in "xyze")
    return np.sqrt(np.maximum(e**2 - x**2 - y**2 - z**2, 0))


def _bins(values: Any) -> list[tuple[float, int]]:
    bins, counts = np.unique(np.floor(np.asarray(values) / 5 + 0.5), return_counts=True)
    return list(zip(bins.tolist(), counts.tolist(), strict=True))


def reference(events: Any) -> dict[str, list[tuple[float, int]]]:
    """Return what the last three queries give, computed with Awkward Array."""
    jets = _vectors(events, "Jet")
    a, b, c = ak.unzip(ak.combinations(jets[ak.num(jets) > 2], 3))
    best = ak.argmin(abs(_mass(a, b, c) - 172.5), axis=1, keepdims=True)
    found = {"Q6": _bins(ak.flatten(np.sqrt((a.x + b.x + c.x) ** 2 + (a.y + b.y + c.y) ** 2)[best]))}

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


def timed(repeats: int, *works: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> list[float]:
    """Run pieces of work by turns; return the median time of each, in seconds."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, found in zip(works, times, strict=True):
            began = clock()
            work()
            found.append(clock() - began)
    return [statistics.median(found) for found in times]


def second_pass(folder: Path, repeats: int) -> tuple[float, float]:
    """Return the times of a second pass through the cache of columns, as a new process has it, and of `memcpy`."""
    path, entries = folder / "flat.root", 6_000_000
    normal = np.random.default_rng(1).normal(size=entries)
    with sapwood.recreate(path) as file:
        file.mktree("t", {"a": normal, "b": np.arange(entries, dtype=np.float64), "c": normal[::-1].copy()})

    def passed() -> dict[str, Any]:
        # Nothing is known of the cache: the checksums of all columns are compared.
        cache_in.cache_clear()
        with sapwood.open(f"{path}:t", column_cache=folder / "columns") as tree:
            return tree.arrays(library="np")

    plain = [column.copy() for column in passed().values()]
    assert all((one == other).all() for one, other in zip(passed().values(), plain, strict=True))
    cached, copied = timed(repeats, passed, lambda: [column.copy() for column in plain])
    return cached, copied


def sql(source: Any, query: str) -> Any:
    connection = duckdb.connect()
    connection.register("events", source)
    return connection.execute(query).fetchall()


def rival_frames(path: Path) -> dict[str, pl.LazyFrame]:
    """Return the queries over what polars-root makes of a file, if it is installed."""
    try:
        import polars_root
    except ImportError:
        print("polars-root is not installed: no comparison with it")
        return {}
    return polars_queries(polars_root.scan_root(str(path), "Events"))


def used(work: Callable[[], Any]) -> int:
    with sapwood.trace() as trace:
        work()
    return trace.layers()["bytes_requested"]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--events", type=int, default=400_000)
    arguments.add_argument("--repeats", type=int, default=5)
    chosen = arguments.parse_args()
    data = events(chosen.events)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = pa.table({key: ak.to_arrow(values, extensionarray=False) for key, values in data.items()})
        parquet = folder / "events.parquet"
        pq.write_table(table, parquet, compression="zstd", compression_level=3, row_group_size=CLUSTER)
        without, indexed = timed(
            5, lambda: write(folder, data, False), lambda: write(folder, data, True), clock=time.process_time
        )
        print(f"writing with an index: {indexed / without:.3f} of the processor time without")
        plain, path = f"{folder / 'plain.root'}:Events", f"{folder / 'indexed.root'}:Events"
        size = (folder / "plain.root").stat().st_size
        print(f"{chosen.events} events; ROOT {size / 1e6:.1f} MB, Parquet {parquet.stat().st_size / 1e6:.1f} MB")

        root, rival = sapwood.dataset(plain), pa.dataset.dataset(parquet)
        for name_of, query in QUERIES.items():
            assert sql(root, query) == sql(rival, query), name_of
            ours, theirs = timed(chosen.repeats, lambda q=query: sql(root, q), lambda q=query: sql(rival, q))
            share = used(lambda q=query: sql(root, q)) / size
            print(f"DuckDB {name_of}: {ours / theirs:.2f} of Parquet's time; {100 * share:.1f} % of the bytes read")
        lazy, scanned = polars_queries(sapwood.scan_polars(plain)), polars_queries(pl.scan_parquet(parquet))
        rival = rival_frames(folder / "plain.root")
        for name_of in lazy:
            works = [frames[name_of].collect for frames in (lazy, scanned, rival) if frames]
            assert all(work().equals(works[0]()) for work in works[1:]), name_of
            ours, theirs, *others = timed(chosen.repeats, *works)
            beside = "".join(f", {ours / one:.3f} of that of polars-root" for one in others)
            print(f"Polars {name_of}: {ours / theirs:.2f} of Parquet's time{beside}")

        low, high = chosen.events // 2, chosen.events // 2 + chosen.events // 100
        cut, columns = f"(event >= {low}) & (event < {high})", ["MET_pt", "Jet_pt", "Muon_pt"]
        where = f"WHERE event >= {low} AND event < {high}"
        ways: dict[str, Callable[[str], Any]] = {
            "arrays": lambda path: len(sapwood.open(path).arrays(columns, cut)),
            "DuckDB": lambda path: len(sql(sapwood.dataset(path), f"SELECT {', '.join(columns)} FROM events {where}")),
            "Polars": lambda path: len(
                sapwood.scan_polars(path).filter(pl.col("event").is_between(low, high - 1)).select(columns).collect()
            ),
        }
        for way, work in ways.items():
            assert work(plain) == work(path) == high - low
            whole, part = used(lambda w=work: w(plain)), used(lambda w=work: w(path))
            ours, theirs = timed(chosen.repeats, lambda w=work: w(path), lambda w=work: w(plain))
            print(f"1 % cut in {way}: {100 * part / whole:.1f} % of the bytes, {ours / theirs:.2f} of the time")
        unsorted = "MET_pt > 5"
        ours, theirs = timed(
            8 * chosen.repeats, lambda: sapwood.open(path).arrays(columns, unsorted),
            lambda: sapwood.open(plain).arrays(columns, unsorted), clock=time.process_time,
        )  # fmt: skip
        print(f"cut that excludes nothing: {ours / theirs:.3f} of the processor time without an index")

        names = ["MET_pt", "MET_phi", "event", "Jet_pt", "Jet_eta"]

        def stepped() -> int:
            return sum(len(array) for array in sapwood.iterate(plain, names, step_size="8 MB"))

        def batched(**options: Any) -> int:
            return sum(len(batch["event"]) for batch in sapwood.batches(plain, names, 8192, **options))

        assert stepped() == batched() == batched(shuffle=True)
        base, straight, shuffled, padded = timed(
            chosen.repeats, stepped, batched, lambda: batched(shuffle=True), lambda: batched(shuffle=True, pad=8)
        )
        print(
            f"batches at {base / straight:.2f} of iterate's rate; shuffled {base / shuffled:.2f}, "
            f"shuffled and padded {base / padded:.2f}"
        )
        cached, copied = second_pass(folder, chosen.repeats)
        print(f"second pass through the cache of columns: {copied / cached:.2f} of the speed of memcpy")


if __name__ == "__main__":
    main()
