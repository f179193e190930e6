"""Files written to a server with faults; remote_writing.py does any number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import remote_writing
import xrootd_servers

import sapwood
from sapwood.writing import output

pytest.importorskip("aiohttp", reason="needs aiohttp (pip install aiohttp)")


def test_no_file_is_lost_without_a_word(tmp_path: Path) -> None:
    assert remote_writing.check(tmp_path, 200) == 0
    assert list(tmp_path.iterdir()) == []


def test_no_object_of_s3_is_lost_without_a_word(tmp_path: Path) -> None:
    pytest.importorskip("s3fs", reason="needs s3fs (pip install s3fs)")
    assert remote_writing.check(tmp_path, 8, storage="s3") == 0


def test_no_file_of_xrootd_is_lost_without_a_word() -> None:
    pytest.importorskip("fsspec_xrootd", reason="needs fsspec-xrootd (pip install sapwood[xrootd])")
    xrootd_servers.program("xrootd")
    # In a process of its own: the client takes its settings from the environment once.
    script = str(Path(remote_writing.__file__))
    env = {**os.environ, "PYTHONPATH": str(Path(xrootd_servers.__file__).parent)}
    subprocess.run([sys.executable, script, "--storage", "root", "--count", "8"], check=True, env=env, timeout=250)


def test_a_file_of_xrootd_is_written_and_continued() -> None:
    pytest.importorskip("fsspec_xrootd", reason="needs fsspec-xrootd (pip install sapwood[xrootd])")
    with xrootd_servers.single({}, "all.export / r/w\n") as server:
        server.data.chmod(0o777)
        url = server.url("deep/down/a.root")
        with sapwood.recreate(url) as file:
            file["t"] = {"x": [1, 2, 3]}
        with sapwood.update(url) as file:
            file["text"] = "more"
        with sapwood.open(url) as file:
            assert file["t/x"].array().tolist() == [1, 2, 3]
            assert file["text"] == "more"


def test_a_part_that_was_kept_is_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "PAUSES", (0.0,))
    server = remote_writing.Server()
    server.faults = ["part"]
    with sapwood.recreate(f"{server.url}/a.root") as file:
        file["text"] = "all of it"
    with sapwood.open(server.files["/a.root"]) as file:
        assert file["text"] == "all of it"
    server.faults = ["part", "part"]
    with pytest.raises(sapwood.StorageError, match="bytes were sent"), sapwood.recreate(f"{server.url}/b.root") as file:
        file["text"] = "all of it"
    server.faults = ["403", "500"]
    with pytest.raises(sapwood.StorageError, match="403"), sapwood.recreate(f"{server.url}/c.root") as file:
        file["text"] = "refused"
    assert server.faults == ["500"]
    server.faults = ["no size"]
    file = sapwood.recreate(f"{server.url}/d.root")
    file["text"] = "there"
    with pytest.warns(sapwood.SapwoodWarning, match="its size cannot be confirmed"):
        file.close()
    server.end()


def test_a_storage_without_its_package_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(sapwood.errors.MissingPackageError, match=r"cannot write to gs://bucket/a\.root: .*gcsfs"):
        sapwood.recreate("gs://bucket/a.root")
