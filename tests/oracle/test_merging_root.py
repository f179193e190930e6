"""Merged, skimmed, slimmed and split files: ROOT reads them, and finds what its own hadd makes of the same inputs."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

import sapwood
import sapwood.tools
from sapwood.cli import main
from sapwood.compression import ZSTD
from sapwood.errors import ArgumentError
from sapwood.tools.checking import check
from sapwood.tools.difference import differences

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(900)]

WRITE = """
import sys, ROOT
for place, path in enumerate(sys.argv[1:]):
    file = ROOT.TFile(path, "RECREATE")
    ROOT.gInterpreter.Declare("struct Hit { float x; int n; };") if not place else None
    tree = ROOT.TTree("T", "a title")
    tree.SetAutoFlush(40)
    n, values = ROOT.std.vector("int")(), ROOT.std.vector("float")()
    from array import array
    i, count, many = array("i", [0]), array("i", [0]), array("d", [0.0] * 200)
    tree.Branch("i", i, "i/I")
    tree.Branch("count", count, "count/I")
    tree.Branch("many", many, "many[count]/D")
    tree.Branch("values", values)
    tree.Branch("h", ROOT.TNamed("name", "title"))
    for entry in range(100 + 10 * place):
        i[0] = 1000 * place + entry
        count[0] = (entry + 30 * place) % (5 + 60 * place)
        for k in range(count[0]):
            many[k] = entry + k
        values.clear()
        for k in range(entry % 4):
            values.push_back(k + place)
        tree.Fill()
    tree.BuildIndex("i")
    h = ROOT.TH1D("h", "", 10, 0, 1)
    h2 = ROOT.TH2F("h2", "", 4, 0, 1, 4, 0, 1)
    p = ROOT.TProfile("p", "", 4, 0, 1)
    random = ROOT.TRandom3(place + 1)
    for _ in range(100):
        h.Fill(random.Uniform(), 2.0)
        h2.Fill(random.Uniform(), random.Uniform())
        p.Fill(random.Uniform(), random.Uniform())
    xs = array("d", [10.0 * place + k for k in range(3 + place)])
    errors = [array("d", [k + 0.1 * x for x in xs]) for k in range(4)]
    ROOT.TGraph(len(xs), xs, xs).Write("g")
    ROOT.TGraph(1, array("d", [1.0]), array("d", [2.0])).Write("same")
    ROOT.TGraphErrors(len(xs), xs, xs, *errors[:2]).Write("ge")
    ROOT.TGraphAsymmErrors(len(xs), xs, xs, *errors).Write("ga")
    ROOT.TGraphBentErrors(len(xs), xs, xs, *errors, *errors).Write("gb")
    stack = ROOT.THStack("stack", "")
    for k in range(2):
        one = ROOT.TH1D(f"stacked{k}", "", 4, 0, 4)
        one.SetDirectory(0)
        one.Fill(k + place)
        stack.Add(one)
    stack.Write()
    events = ROOT.TEventList("events", "")
    chosen = ROOT.TEntryList("chosen", "", "T", f"/data/run{place // 2}.root")
    for k in range(5):
        events.Enter(k * (place + 2))
        chosen.Enter(k * k * (place + 1) * 9000)
    events.Write()
    chosen.Write()
    chain = ROOT.TEntryList("chain", "")
    for k in range(2):
        part = ROOT.TEntryList("part", "", "T", f"/data/part{k + place}.root")
        for entry in range(3000 * k, 3000 * k + 4000 + place):
            part.Enter(entry)
        chain.Add(part)
    chain.Write()
    ROOT.TParameter("double")("sum", 1.5 + place).Write()
    largest = ROOT.TParameter("int")("largest", 3 + place)
    largest.SetBit(largest.kMax)
    largest.Write()
    listed = ROOT.TList()
    inside = h.Clone("inside")
    inside.SetDirectory(0)
    listed.Add(inside)
    file.mkdir("d").cd()
    h2.Write()
    file.cd()
    listed.Write("list", ROOT.TObject.kSingleKey)
    listed.Clear()
    stack.GetHists().Clear()
    file.Write()
    file.Close()
"""

READ = """
import json, sys, ROOT
file = ROOT.TFile(sys.argv[1])
tree = file.Get("T")
rows = [[e.i, list(e.many)[: e.count], list(e.values), e.h.GetName()] for e in tree]
clusters, it = [], tree.GetClusterIterator(0)
while it.Next() < tree.GetEntries():
    clusters.append(it.GetNextEntry())
frame = ROOT.RDataFrame("T", sys.argv[1])
h = file.Get("h")
graphs = {}
for name in ("g", "same", "ge", "ga", "gb"):
    g = file.Get(name)
    sides = (g.GetErrorXlow, g.GetErrorXhigh, g.GetErrorYlow, g.GetErrorYhigh)
    graphs[name] = [[g.GetPointX(i), g.GetPointY(i), *(side(i) for side in sides)] for i in range(g.GetN())]
def entries(one):
    return one.GetFileName(), [one.GetEntry(i) for i in range(one.GetN())]
lists = {name: file.Get(name) for name in ("chosen", "chain")}
lists = {name: [one.GetN(), *map(entries, one.GetLists())] for name, one in lists.items()}
events = file.Get("events")
others = {"graphs": graphs, "lists": lists, "events": [events.GetEntry(i) for i in range(events.GetN())],
    "stack": [[one.GetBinContent(i) for i in range(6)] for one in file.Get("stack").GetHists()],
    "parameters": [file.Get(name).GetVal() for name in ("sum", "largest")]}
inside = file.Get("list").FindObject("inside")
print(json.dumps({"others": others, "rows": rows, "clusters": clusters,
    "maximum": int(tree.GetLeaf("count").GetMaximum()),
    "sum": frame.Sum("i").GetValue(), "h": [h.GetBinContent(i) for i in range(12)], "error": h.GetBinError(3),
    "entries": h.GetEntries(), "mean": h.GetMean(), "inside": inside.GetEntries(),
    "h2": file.Get("d/h2").Integral(), "p": [file.Get("p").GetBinContent(i) for i in range(6)],
    "compression": tree.GetBranch("i").GetCompressionSettings()}))
"""


def root(python: Path, script: str, *arguments: object) -> str:
    """Run a script in a process with ROOT, which must not warn of anything; return what it prints."""
    done = subprocess.run(
        [python, "-W", "ignore", "-c", script, *map(str, arguments)], capture_output=True, text=True, timeout=500
    )
    assert done.stderr[:2000] == ""
    assert done.returncode == 0
    return done.stdout


def read(python: Path, path: Path) -> dict[str, Any]:
    return json.loads(root(python, READ, path))


def test_root_reads_what_its_own_hadd_would_make(root_python: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{place}.root" for place in range(3)]
    root(root_python, WRITE, *paths)
    hadd = next((Path(root_python).parent.parent / "lib").glob("python3*/site-packages/ROOT/bin/hadd"))
    subprocess.run([hadd, "-v", "0", tmp_path / "theirs.root", *paths], check=True, capture_output=True, timeout=500)
    theirs = read(root_python, tmp_path / "theirs.root")
    done = sapwood.tools.merge(tmp_path / "ours.root", paths, verify=True)
    assert done.trees == {"T": 330} and done.indices == ["T"] and done.is_complete
    assert list(check(str(tmp_path / "ours.root"), deep=True)) == []
    ours = read(root_python, tmp_path / "ours.root")
    assert ours.pop("clusters")[-1] == theirs.pop("clusters")[-1] == 330
    assert ours.pop("p") == pytest.approx(theirs.pop("p"))
    assert ours == theirs
    sapwood.tools.merge(tmp_path / "zstd.root", paths, compression=ZSTD(5))
    again = read(root_python, tmp_path / "zstd.root")
    assert again["compression"] == 505
    assert {name: again[name] for name in ("rows", "sum", "maximum")} == {
        name: ours[name] for name in ("rows", "sum", "maximum")
    }
    assert list(differences(f"{tmp_path}/ours.root:T", f"{tmp_path}/zstd.root:T")) == []


COLUMNS = """
import json, sys, ROOT
for path in sys.argv[1:]:
    file = ROOT.TFile(path)
    tree = file.Get("T")
    plain = lambda v: v.GetName() if hasattr(v, "GetName") else list(v) if hasattr(v, "__len__") else v
    names = [branch.GetName() for branch in tree.GetListOfBranches()]
    columns = {name: [] for name in names}
    for entry in tree:
        for name in names:
            columns[name].append(plain(getattr(entry, name)))
    borders, it = [0], tree.GetClusterIterator(0)
    while it.Next() < tree.GetEntries():
        borders.append(it.GetNextEntry())
    found = tree.GetEntryWithIndex(1007) if tree.GetTreeIndex() else None
    print(json.dumps({"columns": columns, "borders": borders, "bytes": tree.GetZipBytes(), "found": found}))
"""


def test_root_opens_skims_slims_splits_and_reclustered_trees_without_a_warning(
    root_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    root(root_python, WRITE, "0.root", "1.root")
    lines = [
        "copy 1.root:T whole.root", "copy 1.root:T codec.root --compression lz4:4",
        "copy 1.root:T skim.root --drop h --cut 'count > 20'", "copy 1.root:T slim.root --keep i --keep values",
        "copy 1.root:T more.root --keep i --define twice=2*i --start 5 --stop 9",
        "split slim.root:T part{}.root --entries 50",
        *(f"copy {n}.root:T in{n}.root --drop h --cluster-size {40 + 5 * n} --compression {codec}"
          for n, codec in ((0, "none"), (1, "zlib:6"))),
        "merge all.root in0.root in1.root in0.root --recluster --compression zstd:5 --no-progress",
        "merge one.root 1.root --no-progress", "diff 1.root:T whole.root:T", "diff 1.root:T codec.root:T",
    ]  # fmt: skip
    monkeypatch.setattr("sapwood.tools.merging.rewriting._CLUSTER", 2_000)
    for line in lines:
        assert main(shlex.split(line)) == 0, (line, capsys.readouterr().err)
    names = ["1", "whole", "codec", "skim", "slim", "more", "part0", "part1", "part2", "in0", "in1", "all", "one"]
    paths = [f"{name}.root" for name in names]
    files = dict(zip(names, map(json.loads, root(root_python, COLUMNS, *paths).splitlines()), strict=True))
    found = {name: one["columns"] for name, one in files.items()}
    source = found["1"]
    assert found["whole"] == found["codec"] == found["one"] == source
    # The bytes of the entry that the index finds.
    indexed, without = files["1"]["found"], files["in1"]["found"]
    assert indexed > without > 0
    assert [files[name]["found"] for name in ("whole", "codec", "one", "all")] == [indexed, indexed, indexed, without]
    chosen = [n for n, count in enumerate(source["count"]) if count > 20]
    assert found["skim"] == {name: [source[name][n] for n in chosen] for name in source if name != "h"}
    assert found["slim"] == {name: source[name] for name in ("i", "values")}
    assert found["more"] == {"i": source["i"][5:9], "twice": [2 * i for i in source["i"][5:9]]}
    parts = [found[f"part{place}"] for place in range(3)]
    assert {name: [v for part in parts for v in part[name]] for name in found["slim"]} == found["slim"]
    slim = {name: values for name, values in source.items() if name != "h"}
    assert found["all"] == {name: found["in0"][name] + slim[name] + found["in0"][name] for name in slim}
    borders = files["all"]["borders"]
    assert borders[-1] == 310 and 3 < len(borders) < 30


PARAMETERS = """
import sys, ROOT
*paths, target = sys.argv[1:]
for place, path in enumerate(paths):
    file = ROOT.TFile(path, "RECREATE")
    for kind in ("bool", "int", "Long_t", "Long64_t", "float", "double"):
        for mode in "+*Mmfl":
            value = [3, 7, 5][place] if kind != "bool" else place == 1
            ROOT.TParameter[kind](f"{kind}{ord(mode)}", value, mode).Write()
    file.Close()
merger = ROOT.TFileMerger(False, False)
merger.OutputFile(target, "RECREATE")
for path in paths:
    merger.AddFile(path, False)
assert merger.Merge()
"""


def test_parameters_are_merged_as_hadd_does(tmp_path: Path, root_python: Path) -> None:
    paths = [str(tmp_path / f"{place}.root") for place in range(3)]
    root(root_python, PARAMETERS, *paths, tmp_path / "hadd.root")
    done = sapwood.tools.merge(tmp_path / "all.root", paths)
    assert not done.kept and done.is_complete
    with sapwood.open(tmp_path / "all.root") as ours, sapwood.open(tmp_path / "hadd.root") as theirs:
        values = [{key: (file[key].classname, file[key].value) for key in theirs} for file in (ours, theirs)]
    assert len(values[0]) == 36 and values[0] == values[1]


def test_a_key_without_a_name_is_refused_with_its_file(tmp_path: Path, root_python: Path) -> None:
    make = """
import sys, ROOT
file = ROOT.TFile(sys.argv[1], "RECREATE")
file.mkdir("d").cd()
ROOT.TNamed("", "title").Write()
file.Close()
"""
    root(root_python, make, tmp_path / "a.root")
    with pytest.raises(ArgumentError, match=r"a\.root: the key of a TNamed in d has no name"):
        sapwood.tools.merge(tmp_path / "all.root", [tmp_path / "a.root"])
