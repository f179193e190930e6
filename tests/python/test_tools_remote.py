"""The tools take inputs by URL, and thousands of inputs with few open files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
from servers import serving

import sapwood
from sapwood.cli import main

N = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Write files with a tree or an RNTuple."""
    folder = tmp_path_factory.mktemp("remote")
    for place in (0, 1):
        data = {"n": np.arange(N, dtype=np.int32) + place, "x": np.arange(N) * 0.5}
        with sapwood.recreate(folder / f"tree{place}.root") as file:
            file.mktree("Events", data)
            file["h"] = np.histogram([0.5], 2, (0, 1))
        with sapwood.recreate(folder / f"ntuple{place}.root") as file:
            file.mkrntuple("Events", data)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("kind", ["tree", "ntuple"])
def test_inputs_by_url(
    kind: str,
    files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with serving(files) as server:
        one, two = (server.url(f"{kind}{place}.root") for place in (0, 1))
        (tmp_path / "list.txt").write_text(f"# two\n{one}\n{two}\n")
        for words in (
            ["ls", one],
            ["show", f"{one}:Events"],
            ["head", f"{one}:Events", "n", "-n", "2"],
            ["scan", f"{one}:Events", "--cut", "n > 57"],
            ["hist", f"{one}:Events", "x"],
            ["stats", f"{one}:Events"],
            ["check", one, "--deep"],
            ["diff", one, one],
            ["convert", f"{one}:Events", "out.parquet"],
            ["copy", f"{one}:Events", "copy.root", "--cut", "n > 57", "--storage", "timeout=20"],
            ["split", f"{one}:Events", "part{}.root", "--entries", "40"],
            ["recover", one, "saved.root"],
            ["merge", "all.root", "@list.txt", "--verify"],
        ):
            assert main(words) == 0, (words, capsys.readouterr().err)
        capsys.readouterr()
        assert main(["merge", "some.root", one, server.url("none.root"), two, "--skip-bad", "--json"]) == 3
        done = json.loads(capsys.readouterr().out)
    assert done["trees"] == {"Events": 2 * N} and list(done["skipped"]) == [server.url("none.root")]
    assert sapwood.open("copy.root")["Events"]["n"].array().tolist() == [58, 59]
    for name in ("all.root", "some.root"):
        n = sapwood.open(name)["Events"]["n"].array().tolist()
        assert n == [*range(N), *range(1, N + 1)]


MERGE = """
import resource, sys
from pathlib import Path
few = len(list(Path("/dev/fd").iterdir())) + 12
resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))
from sapwood.tools import merge
done = merge(sys.argv[1], "in/*.root", max_memory="20 MB")
memory = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]
print(done.trees["Events"], memory)
"""


@pytest.mark.parametrize(("kind", "count"), [("tree", 3000), ("ntuple", 1000), ("wide", 1000)])
def test_thousands_of_inputs_need_few_handles_and_little_memory(
    kind: str, count: int, files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    if kind == "wide":
        lists = ak.unflatten(np.arange(3.0 * N), np.full(N, 3))
        with sapwood.recreate(tmp_path / "wide0.root") as file:
            file.mktree("Events", {"n": np.arange(N, dtype=np.int32)} | {f"v{k}": lists for k in range(40)})
            file["h"] = np.histogram([0.5], 2, (0, 1))
        (tmp_path / "wide1.root").symlink_to("wide0.root")
    else:
        for place in (0, 1):
            (tmp_path / f"{kind}{place}.root").write_bytes(files[f"{kind}{place}.root"])
    for place in range(count):
        (tmp_path / "in" / f"{place:04d}.root").symlink_to(tmp_path / f"{kind}{place % 2}.root")
    done = subprocess.run(
        [sys.executable, "-c", MERGE, "all.root"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    entries, kilobytes = map(int, done.stdout.split())
    assert entries == count * N and kilobytes < 150_000
    with sapwood.open(tmp_path / "all.root") as file:
        total = sum(range(N)) + (sum(range(N)) if kind == "wide" else sum(range(1, N + 1)))
        assert int(file["Events"]["n"].array().to_numpy().astype(np.int64).sum()) == count // 2 * total
        if kind != "ntuple":
            assert file["h"].values().sum() == count
