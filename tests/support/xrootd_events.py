"""The file that tests of XRootD read, and servers that have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_tree import write
from xrootd_servers import Cluster, Single, cluster, single

import sapwood

ENTRIES = 200_000
CLUSTERS = 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a tree of twenty clusters of 700 kB and seventeen branches."""
    path = tmp_path_factory.mktemp("far") / "events.root"
    compression = sapwood.LZ4(1)
    ids = np.arange(ENTRIES)
    write(path, ENTRIES, CLUSTERS, branches=15, seed=11, dtype="float32", compression=compression, id=ids)
    return path


@pytest.fixture(scope="module")
def local(path: Path) -> Any:
    with sapwood.open(path) as file:
        return file["t"].arrays()


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Single]:
    with single({"events.root": path, "sub/events.root": path}) as server:
        yield server


@pytest.fixture
def pool(path: Path) -> Iterator[Cluster]:
    holdings = {
        "srv1": {"both.root": path},
        "srv2": {"both.root": path},
        "srv3": {"only.root": path, "sub/deep.root": path},
    }
    with cluster(holdings) as started:
        yield started


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XrdSecPROTOCOL", "XrdSecSSSKT", "XrdSecsssKT", "BEARER_TOKEN", "BEARER_TOKEN_FILE", "X509_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


def slow(url: str, **options: Any) -> Any:
    """Open a file so that little of it is fetched ahead."""
    return sapwood.open(url, **({"prefetch_size": "1 MB", "num_workers": 2} | options))


def far(port: int, name: str) -> str:
    return f"root://127.0.0.1:{port}//{name}"
