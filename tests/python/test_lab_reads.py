"""`sapwood trace root`: ROOT's reads of a file beside ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import sapwood
from sapwood.cli import main
from sapwood.lab.studies import reads
from sapwood.storage.trace import Trace


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events.root"
    with sapwood.recreate(path) as made:
        tree = made.mktree("T", {"x": "float64", "y": "float64"}, auto_flush=1000, basket_size=4000)
        tree.extend({"x": np.random.default_rng(1).random(4000), "y": np.random.default_rng(2).random(4000)})
    return path


def test_reads_of_root_stand_beside_ours(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "program"
    # It reads 10 and 30 bytes, the second of them before the first in the file.
    program.write_text("#!/bin/sh\necho $@ >> $0.words\necho 200 10 0 0 0.5\necho 100 30 7 1.0 0.25\necho 4000\n")
    program.chmod(0o755)
    monkeypatch.setattr(reads, "compiled", lambda *_, **__: (program, None))
    out = tmp_path / "out"
    assert main(["trace", "root", str(path), "-o", str(out), "--branch", "x", "--read-ahead", "0 MB, 1 MB"]) == 0
    assert (tmp_path / "program.words").read_text() == f"{path} T 0 x\n{path} T 1000000 x\n"
    names = ["ROOT without cache", "ROOT with 1 MB of cache"]
    shown = capsys.readouterr().out
    for name, cause in zip(names, ("basket", "prefetch"), strict=True):
        trace = Trace.load(out / f"{name.lower().replace(' ', '-')}.parquet")
        assert set(trace["cause"]) == {cause} and set(trace["file"]) == {str(path)}
        assert trace["entry_start"].tolist() == [0, 7]
        assert (trace["end_ns"] - trace["start_ns"]).tolist() == [500_000_000, 250_000_000]
        assert trace.order() == {
            "ranges": 2, "backward": 1, "gaps": 0, "gap_bytes": 0, "median_bytes": 20, "most_bytes": 30
        }  # fmt: skip
        assert f"{name}  " in shown or f"{name} " in shown
    ours = Trace.load(out / "sapwood.parquet")
    assert set(ours["branch"][~ours.is_request]) == {"x"}
    assert reads.entries_of(ours)[0] == 0
    page = (out / "reads.html").read_text()
    assert all(f"<strong>{name}</strong>" in page for name in ("sapwood", *names))
    assert sorted(one.name for one in out.iterdir() if one.suffix == ".parquet")[2] == "sapwood.parquet"


def test_what_is_asked_must_be_there(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sapwood.ArgumentError, match="z\\* matches no branch"):
        reads.run(str(path), tmp_path / "out", branches=["z*"])
    with pytest.raises(sapwood.ArgumentError, match="'much' is not the size of a cache"):
        reads.run(str(path), tmp_path / "out", caches=["much"])
    monkeypatch.setattr(reads, "compiled", lambda *_, **__: (None, "there is no C++ compiler"))
    with pytest.raises(sapwood.SapwoodError, match=r"cannot be traced: there is no C\+\+ compiler"):
        reads.run(str(path), tmp_path / "out")


WRITE = """
import sys, ROOT
ROOT.gSystem.SetBuildDir(sys.argv[2], True)
assert ROOT.gROOT.ProcessLine(".L " + sys.argv[2] + "/hits.h+") == 0
ROOT.fill(sys.argv[1])
"""
HITS = """
#include <TClonesArray.h>
#include <TFile.h>
#include <TTree.h>
struct Hit : TObject { float x = 0; ClassDef(Hit, 1) };
struct Event : TObject { int n = 0; TClonesArray *hits = new TClonesArray("Hit", 4); ClassDef(Event, 1) };
void fill(const char *path) {
   TFile file(path, "RECREATE"); file.SetCompressionLevel(0);
   TTree tree("T", "T"); auto event = new Event; tree.Branch("event.", &event, 32000, 99);
   for (int i = 0; i < 500; ++i) {
      event->n = i; event->hits->Clear();
      for (int k = 0; k < 40; ++k) static_cast<Hit *>(event->hits->ConstructedAt(k))->x = i + k;
      tree.Fill();
   }
   tree.Write();
}
"""


@pytest.mark.oracle
def test_the_members_of_split_lists_are_read_too(tmp_path: Path, root_python: Path) -> None:
    (tmp_path / "hits.h").write_text(HITS)
    path = tmp_path / "hits.root"
    subprocess.run([root_python, "-c", WRITE, path, tmp_path], check=True, capture_output=True, timeout=300)
    with sapwood.open(f"{path}:T") as tree:
        stored = sum(one.compressed_bytes for one in tree.values())
        assert tree["event./event.hits/event.hits.x"].num_entries == 500
    trace = reads._ours(str(path), "T", {"event."})
    assert trace["length"][trace.is_request].sum() > 0.9 * stored > 70_000


@pytest.mark.oracle
@pytest.mark.usefixtures("rootsys")
def test_root_reads_each_basket_without_its_cache(path: Path, tmp_path: Path) -> None:
    traces, written = reads.run(str(path), tmp_path / "out")
    with sapwood.open(f"{path}:T") as tree:
        branches = [tree["x"], tree["y"]]
        baskets = [
            (one.basket_seek(n), one.basket_key(n).fNbytes, one.basket_entry_start_stop(n)[0])
            for one in branches
            for n in range(one.num_baskets)
        ]
    found = traces["ROOT without cache"]
    read = list(zip(found["offset"].tolist(), found["length"].tolist(), found["entry_start"].tolist(), strict=True))
    assert sorted(read) == sorted(baskets) and len(baskets) > 8
    assert len(traces["ROOT with 30 MB of cache"]) < len(found)
    assert "ROOT without cache" in written["html"].read_text()
