"""A few files written to a server with faults; remote_writing.py does any number."""

from __future__ import annotations

from pathlib import Path

import pytest
import remote_writing

import sapwood
from sapwood.writing import output

pytest.importorskip("aiohttp", reason="needs aiohttp (an extra: remote)")


def test_no_file_is_lost_without_a_word(tmp_path: Path) -> None:
    assert remote_writing.check(tmp_path, 25) == 0


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
