"""Objects whose pointers and members contradict what ROOT writes."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from crafted_objects import chain, nested, write

import sapwood
import sapwood.new
from sapwood.errors import CorruptError, LimitError, SapwoodError, UnsupportedError
from sapwood.objects import sparse
from sapwood.objects.model import to_json
from sapwood.tools.difference import differences
from sapwood.writing.objects import NewObject, to_object

OBJECTS = Path(__file__).parents[1] / "golden" / "objects"

LONG = """
import sys, sapwood
file = sapwood.open(sys.argv[1])
found = file["l"]
last = found[-1]
del found
for _ in range(5):
    last = last[0]
del last
with sapwood.recreate(sys.argv[1] + ".copy") as copy:
    copy["l"] = file["l"]
print(len(sapwood.open(sys.argv[1] + ".copy")["l"]))
"""


def test_objects_in_a_chain_of_pointers_of_any_length(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", chain(200_000, 1))
    done = subprocess.run([sys.executable, "-c", LONG, str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "200000\n"), done.stderr


def test_objects_that_several_pointers_share_are_visited_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.root", chain(60, 2))
    with sapwood.open(path) as file:
        found = file["l"]
        assert len(found) == 60
        last = found.to_dict()["@items"][-1]
        assert last["@items"][0] is last["@items"][1]
        assert len(json.dumps(to_json(found))) < 20_000
        with sapwood.recreate(tmp_path / "b.root") as copy:
            copy["l"] = found
    with sapwood.open(tmp_path / "b.root") as copy:
        assert len(copy["l"]) == 60


@pytest.mark.parametrize("payload", [chain(2000, 1), nested(190)], ids=["chain", "nested"])
def test_objects_nested_too_deep_for_python(tmp_path: Path, payload: bytes) -> None:
    with sapwood.open(write(tmp_path / "a.root", payload)) as file:
        found = file["l"][-1]
        for method in (found.to_dict, found.tojson, found.unreadable):
            try:
                method()
            except SapwoodError as error:
                assert isinstance(error, LimitError), error
                assert "a.root" in str(error)


def test_a_difference_deep_inside_is_found(tmp_path: Path) -> None:
    a, b = (str(write(tmp_path / f"{depth}.root", nested(depth))) for depth in (40, 41))
    assert not list(differences(a, a))
    assert [found.kind for found in differences(a, b)] == ["value"]


def made(classname: str, **members: Any) -> Any:
    return NewObject(classname, "", members).model


def test_a_graph_with_fewer_values_than_points() -> None:
    graph = made("TGraph", fNpoints=3, fX=np.arange(3.0), fY=np.arange(3.0))
    assert graph.values("y").tolist() == [0, 1, 2]
    short = graph.with_members({"fY": np.zeros(2)})
    with pytest.raises(CorruptError, match="3 points, but 2 values of fY"):
        short.values()
    errors = made("TGraphErrors", fNpoints=2, fX=np.zeros(2), fY=np.zeros(2), fEX=np.zeros(2), fEY=np.ones(2))
    with pytest.raises(CorruptError, match="fEY"):
        errors.with_members({"fEY": np.zeros(0)}).errors("low", "y")


def test_an_efficiency_of_histograms_with_different_bins() -> None:
    with sapwood.open(OBJECTS / "standard.root") as file:
        names = [name for name, kind in file.classnames(cycle=False).items() if kind == "TEfficiency"]
        efficiency = file[names[0]]
    other = NewObject(*_histogram(2)).model
    assert len(efficiency.values()) > 2
    with pytest.raises(CorruptError, match="histograms have"):
        efficiency.with_members({"fPassedHistogram": other}).values()


def _histogram(bins: int) -> tuple[str, str, dict[str, Any]]:
    title, (classname, members) = to_object(np.histogram([0.5], bins=bins, range=(0, 1)), "h")
    return classname, title, members


def test_squares_of_weights_for_some_bins_only() -> None:
    classname, title, members = _histogram(3)
    histogram = NewObject(classname, title, members | {"fSumw2": np.ones(5)}).model
    assert histogram.variances().tolist() == [1, 1, 1]
    with pytest.raises(CorruptError, match="4 values of fSumw2 for 5 cells"):
        histogram.with_members({"fSumw2": np.ones(4)}).variances()


def test_histograms_whose_axis_has_no_width(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, compression=None) as file:
        file["h"] = np.histogram(np.arange(8.0), bins=4, range=(0, 8))
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack(">idd", 4, 0, 8), struct.pack(">idd", 4, 8, 8)))
    with sapwood.open(path) as file:
        histogram = file["h"]
        assert histogram.values().tolist() == [2, 2, 2, 2]
        for convert in (histogram.to_boost, histogram.to_hist):
            with pytest.raises(UnsupportedError, match="boost-histogram has no such axis"):
                convert()


class _Chunk:
    """One filled bin in the second bin, one beyond the overflow."""

    def member(self, name: str) -> Any:
        return {"fSingleCoordinateSize": 1, "fCoordinates": np.array([2, 3], np.int8)}[name]


class _FewBins(sparse.THnSparse):
    _with_flow = (3,)  # pyright: ignore[reportIncompatibleMethodOverride]
    parent = None  # pyright: ignore[reportIncompatibleMethodOverride]
    ndim = 1  # pyright: ignore[reportIncompatibleMethodOverride]

    def __len__(self) -> int:
        return 2

    def _chunks(self) -> Any:
        return [_Chunk()]


def test_a_sparse_histogram_with_a_bin_beyond_its_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "place_of", lambda _: "histogram h")
    found = object.__new__(_FewBins)
    with pytest.raises(CorruptError, match="beyond the last bin"):
        _ = found.coordinates
    monkeypatch.setattr(_FewBins, "_with_flow", (4,))
    with pytest.raises(CorruptError, match="0 cells"):
        sparse.THn._dense(found, _Empty())  # pyright: ignore[reportArgumentType, reportPrivateUsage]


def test_coordinates_of_too_many_bins_for_the_stored_bytes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with sapwood.open(OBJECTS / "standard.root") as file:
        found = file[next(name for name, kind in file.classnames().items() if kind.startswith("THnSparse"))]
    assert found.coordinates.shape == (len(found), found.ndim)
    monkeypatch.setattr(sparse, "_FEW_CELLS", 0)
    monkeypatch.setattr(sparse, "_CELLS_PER_BYTE", 0)
    with pytest.raises(sapwood.LimitError, match=f"{len(found)} filled bins"):
        _ = found.coordinates


class _Empty:
    def _fresh(self, name: str) -> Any:
        return np.zeros(0)


def test_a_profile_with_arrays_of_different_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    with sapwood.open(OBJECTS / "standard.root") as file:
        found = file[next(name for name, kind in file.classnames().items() if kind == "TProfile")]
    monkeypatch.setattr(type(found), "_stored", lambda _: np.zeros(1))
    for use in (found.values, found.errors, found.to_boost, found.to_hist):
        with pytest.raises(CorruptError, match="1 sums for"):
            use()


def test_a_histogram_whose_axes_have_the_same_name(tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path, compression=None) as file:
        file["h"] = np.histogram2d(np.arange(8.0), np.arange(8.0), bins=2)
    path.write_bytes(path.read_bytes().replace(b"yaxis", b"xaxis"))
    with sapwood.open(path) as file:
        assert file["h"].to_boost().ndim == 2
        with pytest.raises(UnsupportedError, match="hist has no such axes"):
            file["h"].to_hist()
