"""The last queries of the ADL benchmark in DuckDB and Polars: Awkward's results, from the columns that they use."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import sapwood

BENCH = Path(__file__).resolve().parents[2] / "benches" / "frames.py"


@pytest.fixture(scope="module")
def bench() -> Any:
    for package in ("duckdb", "polars", "pyarrow"):
        pytest.importorskip(package, reason=f"needs {package} (pip install sapwood[frames])")
    spec = importlib.util.spec_from_file_location("frames_bench", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["tree", "ntuple"])
def test_queries_give_the_results_of_awkward_and_read_only_their_columns(tmp_path: Path, bench: Any, kind: str) -> None:
    data = bench.events(400)
    path = tmp_path / "events.root"
    if kind == "tree":
        path = bench.write(tmp_path, data, False)
    else:
        with sapwood.recreate(path) as file:
            file.mkrntuple("Events", data)
    expected = bench.reference(data)
    events = sapwood.dataset(f"{path}:Events")
    frames = bench.polars_queries(sapwood.scan_polars(f"{path}:Events"))
    for name, needs in bench.NEEDS.items():
        for run in (
            lambda name=name: bench.sql(events, bench.QUERIES[name]),
            lambda name=name: frames[name].collect().rows(),
        ):
            with sapwood.trace() as trace:
                found = run()
            assert [(float(value), count) for value, count in found] == expected[name], name
            assert len(found) > 10
            read = {one.rpartition(" of ")[2].partition(".")[0] for one in trace["branch"].tolist() if one}
            counters = {one for one in read if one in ("nMuon", "nElectron", "nJet")}
            assert read - counters == needs, name
