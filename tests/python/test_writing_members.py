"""Objects made of their members, read back by uproot."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import sapwood
from sapwood.errors import ArgumentError
from sapwood.new import NewObject
from sapwood.writing import identify


def _axis(name: str) -> Any:
    return identify.to_TAxis(name, f"about {name}", 2, 0.0, 2.0, np.array([0.0, 0.5, 2.0]))


def _written(path: Path, **made: Any) -> Any:
    with sapwood.recreate(path) as file:
        for name, one in made.items():
            file[name] = one
    return uproot.open(path)


def test_histograms_keep_their_members(tmp_path: Path) -> None:
    numbers = [float(n) for n in range(1, 20)]
    cells, none = np.arange(64, dtype=np.float32), np.array([])
    x, y, z = map(_axis, ("xaxis", "yaxis", "zaxis"))
    file = _written(
        tmp_path / "x.root",
        h1=identify.to_TH1x("h1", "title", cells[:4].astype(np.int16), *numbers[:5], none, x),
        h2=identify.to_TH2x("h2", "title", cells[:16], *numbers[:8], np.arange(16.0), x, y),
        h3=identify.to_TH3x("h3", "title", cells, *numbers[:12], none, x, y, z),
        p1=identify.to_TProfile("p1", "title", cells[:4], *numbers[:7], *3 * [np.arange(4.0)], x),
        p2=identify.to_TProfile2D("p2", "title", cells[:16], *numbers[:10], *3 * [np.arange(16.0)], x, y),
        p3=identify.to_TProfile3D("p3", "title", cells, *numbers[:14], *3 * [np.arange(64.0)], x, y, z),
    )
    classes = {"h1": "TH1S", "h2": "TH2F", "h3": "TH3F", "p1": "TProfile", "p2": "TProfile2D", "p3": "TProfile3D"}
    assert file.classnames(cycle=False) == classes
    for name in classes:
        assert file[name].member("fEntries") == 1.0
        assert file[name].member("fTsumwx2") == 5.0
        assert (file[name].title, file[name].axis(0).edges().tolist()) == ("title", [0.0, 0.5, 2.0])
    assert file["h1"].values(flow=True).tolist() == [0, 1, 2, 3]
    assert file["h2"].variances(flow=True)[1, 0] == 1.0
    assert file["h3"].member("fTsumwyz") == 12.0
    assert file["p3"].member("fTsumwt2") == 14.0
    assert list(file["p1"].member("fBinEntries")) == [0, 1, 2, 3]


def test_lists_of_strings(tmp_path: Path) -> None:
    strings = [identify.to_TObjString("one"), "two"]
    file = _written(tmp_path / "x.root", plain=identify.to_TList(strings), quick=identify.to_THashList(strings))
    assert file.classnames(cycle=False) == {"plain": "TList", "quick": "THashList"}
    assert [list(map(str, file[name])) for name in ("plain", "quick")] == [["one", "two"], ["one", "two"]]


def test_missing_members_are_named() -> None:
    with pytest.raises(ArgumentError, match="fSumw2, fXaxis, fYaxis"):
        identify.to_TH2x("h", "", np.zeros(16), *range(8))
    with pytest.raises(ArgumentError, match="12 members"):
        identify.to_TH2x("h", "", np.zeros(16), *range(12))


def test_files_are_named_by_file_urls(tmp_path: Path) -> None:
    url = f"file:{tmp_path}/new/x.root"
    with sapwood.recreate(url) as file:
        file["t"] = {"x": [1, 2]}
    with sapwood.update(url) as file:
        file["s"] = "text"
    assert (tmp_path / "new" / "x.root").exists()
    assert sapwood.open(url).keys(cycle=False) == ["t", "s"]
    assert sapwood.open({url: "t"}).num_entries == sapwood.open(f"{url}:t").num_entries == 2


def test_a_file_behind_a_url_is_updated(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    url = f"memory:/{tmp_path}/x.root"
    with sapwood.recreate(url) as file:
        file["a"] = "one"
    with pytest.raises(RuntimeError), sapwood.update(url) as file:
        file["lost"] = "two"
        raise RuntimeError
    assert sapwood.open(url).keys(cycle=False) == ["a"]
    with sapwood.update(url) as file:
        file["b"] = "two"
    found = sapwood.open(url)
    assert (str(found["a"]), str(found["b"])) == ("one", "two")
    with pytest.raises(FileNotFoundError):
        sapwood.update(f"memory:/{tmp_path}/absent.root")
    with pytest.raises(ArgumentError, match="only URLs"):
        sapwood.update(str(tmp_path / "x.root"), anon=True)


def test_a_file_behind_a_url_that_was_not_changed_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    url = f"memory:/{tmp_path}/x.root"
    with sapwood.recreate(url) as file:
        file["a"] = "one"
    sent = list[str]()
    put = type(fsspec.filesystem("memory")).put_file

    def put_file(system: Any, path: str, *rest: Any, **options: Any) -> None:
        sent.append(path)
        put(system, path, *rest, **options)

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "put_file", put_file)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with sapwood.update(url) as file:
        assert file.keys(cycle=False) == ["a"]
    assert not sent
    with sapwood.update(url) as file:
        del file["a"]
    assert len(sent) == 1
    assert sapwood.open(url).keys() == []
    assert not list(tmp_path.iterdir())


def test_a_file_behind_a_url_that_others_update_is_not_replaced(tmp_path: Path) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    url = f"memory:/{tmp_path}/x.root"
    with sapwood.recreate(url) as file:
        file["a"] = "one"
    first = sapwood.update(url)
    first["b"] = "two"
    with sapwood.update(url) as second:
        second["c"] = "three"
    with pytest.raises(sapwood.StorageError, match=r"another program has changed it.* kept as ") as error:
        first.close()
    assert sapwood.open(url).keys(cycle=False) == ["a", "c"]
    kept = Path(str(error.value).rpartition(" ")[2])
    assert sapwood.open(kept).keys(cycle=False) == ["a", "b"]
    kept.unlink()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"fMarkerSize": 1e300}, "1e300 does not fit into float32 .in member fMarkerSize of TAttMarker"),
        ({"fMarkerSize": 2**24 + 1}, "16777217 does not fit into float32"),
        ({"fMarkerColor": 70000}, "70000 does not fit into int16"),
        ({"fMinimum": 2**53 + 1}, "9007199254740993 does not fit into float64"),
        ({"fX": np.array([1, 2**53 + 1])}, "9007199254740993 does not fit into float64"),
        ({"fFunctions": 5}, "5 is not an object"),
    ],
)
def test_numbers_that_a_member_cannot_hold_are_refused(members: dict[str, Any], message: str, tmp_path: Path) -> None:
    graph = {"fX": np.array([1.0, 2.0]), "fY": np.array([3.0, 4.0]), **members}
    with sapwood.recreate(tmp_path / "x.root") as file, pytest.raises(ArgumentError, match=message):
        file["g"] = NewObject("TGraph", "title", graph)


def test_numbers_of_members_are_rounded_to_their_precision(tmp_path: Path) -> None:
    parts = {"fX": np.array([1, 2**60]), "fY": np.array([3.0, np.inf]), "fMarkerSize": 0.1, "fLineWidth": 2.0}
    file = _written(tmp_path / "x.root", g=NewObject("TGraph", "title", parts))
    assert file["g"].member("fMarkerSize") == np.float32(0.1)
    assert file["g"].values("x").tolist() == [1, 2**60]
    assert file["g"].values("y").tolist() == [3, np.inf]


def test_the_message_of_a_parameter_has_its_number(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "x.root") as file:
        with pytest.raises(ArgumentError, match=r"^1099511627776 does not fit into int32"):
            file["p"] = NewObject("TParameter<int>", "", {"fVal": 2**40})
        with pytest.raises(ArgumentError, match=r'^"a" is not a number'):
            file["p"] = NewObject("TParameter<int>", "", {"fVal": "a"})
