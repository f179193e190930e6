"""Files in S3, on servers that are not ours: the same arrays as from a local file, for those who may read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from servers import S3_KEYS, s3

import sapwood

ENTRIES = 40_000
KEY, SECRET = S3_KEYS


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two files to a bucket, one of them in a folder whose name must be quoted."""
    data = tmp_path_factory.mktemp("s3")
    random = np.random.default_rng(3)
    columns: dict[str, Any] = {f"x{i}": random.normal(size=ENTRIES) for i in range(12)}
    columns |= {"id": np.arange(ENTRIES), "jet": ak.unflatten(random.normal(size=2 * ENTRIES), np.arange(ENTRIES) % 5)}
    types = dict.fromkeys(columns, "float64") | {"id": "int64", "jet": "var * float64"}
    for name in ("events.root", "a b/events-2.root"):
        path = data / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with sapwood.recreate(path, compression=sapwood.LZ4(1)) as out:
            out.mktree("t", types, auto_flush=ENTRIES // 8).extend(columns)
    return data


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION", "ENDPOINT_URL"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    yield


@pytest.mark.parametrize("server", ["rclone", "versitygw"])
def test_with_keys(server: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = sapwood.open(data / "bucket" / "events.root")["t"].arrays()
    with s3(server, data, tmp_path) as endpoint:
        options = {"key": KEY, "secret": SECRET, "endpoint_url": endpoint}
        with sapwood.open("s3://bucket/events.root", **options) as file:
            assert file.file.size == (data / "bucket" / "events.root").stat().st_size
            assert ak.array_equal(file["t"].arrays(), near)
            assert ak.array_equal(file["t"].arrays(["x3", "jet"], entry_start=9000), near[["x3", "jet"]][9000:])
            assert file.file.ledger() == []
        steps = sapwood.iterate("s3://bucket/a b/events-2.root:t", ["id", "jet"], step_size=7000, **options)
        assert ak.array_equal(ak.concatenate(list(steps)), near[["id", "jet"]])
        # As the tools of AWS know them.
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert ak.array_equal(sapwood.open("s3://bucket/events.root:t").arrays(["x1"]), near[["x1"]])
        with pytest.raises(sapwood.MissingFileError, match="404"):
            sapwood.open("s3://bucket/nothing.root")
        with pytest.raises(sapwood.StorageError, match="403"):
            sapwood.open("s3://bucket/events.root", **options | {"secret": "wrong"})
        with pytest.raises(sapwood.StorageError, match=r"400|403"):
            sapwood.open("s3://bucket/events.root", endpoint_url=endpoint, anon=True)


def test_anonymously(data: Path, tmp_path: Path) -> None:
    near = sapwood.open(data / "bucket" / "events.root")["t"].arrays(["jet"])
    with s3("rclone", data, tmp_path, anonymous=True) as endpoint:
        for options in ({"anon": True}, {}):
            with sapwood.open("s3://bucket/events.root:t", endpoint_url=endpoint, **options) as tree:
                assert ak.array_equal(tree.arrays(["jet"]), near)


def test_patterns(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("s3fs", reason="buckets are listed by s3fs (pip install s3fs)")
    with s3("rclone", data, tmp_path) as endpoint:
        options: dict[str, Any] = {"key": KEY, "secret": SECRET, "endpoint_url": endpoint}
        found = list(sapwood.num_entries("s3://bucket/**/*.root:t", **options))
        assert found == [(f"s3://bucket/{name}", "t", ENTRIES) for name in ("a b/events-2.root", "events.root")]
