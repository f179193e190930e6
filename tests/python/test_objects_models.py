"""Models of objects: members, bases, references, what is unreadable, and the words that uproot has for them."""

from __future__ import annotations

import gc
import json
import pickle
import struct
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from objects_expected import compare_members

import sapwood
from sapwood import Model, Unreadable
from sapwood.containers import STLMap, STLVector
from sapwood.errors import CorruptError, NotFoundError, SapwoodWarning, UnsupportedError
from sapwood.objects.histogram import TH1, Histogram

GOLDEN = Path(__file__).parent.parent / "golden" / "objects"


@pytest.fixture
def shapes() -> Iterator[sapwood.ReadOnlyDirectory]:
    with sapwood.open(GOLDEN / "memberwise.root") as file:
        yield file


@pytest.fixture
def standard() -> Iterator[sapwood.ReadOnlyDirectory]:
    with sapwood.open(GOLDEN / "standard.root") as file:
        yield file


@pytest.fixture
def holder(shapes: sapwood.ReadOnlyDirectory) -> Any:
    with pytest.warns(SapwoodWarning, match=r"3 parts of '/holder;1'"):
        return shapes["holder"]


def test_members_bases_and_class(shapes: sapwood.ReadOnlyDirectory) -> None:
    both = shapes["both"]
    assert isinstance(both, Model)
    assert (both.classname, both.class_version, both.instance_version) == ("Both", 1, 1)
    assert [base.classname for base in both.bases] == ["Left", "Right"]
    assert list(both.members) == ["fBoth"]
    assert list(both.all_members) == ["fLeft", "@fUniqueID", "@fBits", "fRight", "fLabel", "fBoth"]
    assert both.member("fRight") == both.all_members["fRight"] == both.base("Right")[0].member("fRight")
    assert both.has_member("fRight") and not both.has_member("fRight", all=False)
    assert both.member("nothing", none_if_missing=True) is None
    with pytest.raises(NotFoundError, match=r"Both has no member 'fright'; it has fLeft, .*, fRight, fLabel, fBoth"):
        both.member("fright")
    with pytest.raises(NotFoundError):
        both.member("fRight", all=False)
    assert both.is_instance("TObject") and both.is_instance("Both", "x") and not both.is_instance("TNamed")
    assert [base.classname for base in both.base("TObject", "Left")] == ["Left", "TObject"]
    assert repr(both).startswith("<Both (version 1) at 0x")
    assert both.num_bytes > 0 and both.unreadable() == []
    assert both.file is shapes.file.detached and both.parent.name() == "both"


def test_values_of_members(shapes: sapwood.ReadOnlyDirectory) -> None:
    found = shapes["numbers"].all_members
    assert found["fBool"] is True
    assert found["fULong64"] == 18000000000000000001
    assert found["fGrid"].tolist() == [[1, 2, 3], [4, 5, 6]] and found["fGrid"].dtype == np.int16
    assert found["fSome"].tolist() == [1.5, 2.5, 3.5] and found["fSome"].dtype == np.float32
    assert found["fEmpty"].shape == (0,)
    containers = shapes["containers"]
    assert isinstance(containers.member("fStrings"), STLVector)
    assert containers.member("fNested").tolist() == [[1, 2], [], [3]]
    words = containers.member("fWordMap")
    assert isinstance(words, STLMap)
    assert (list(words), words["a"], words.get("c"), len(words)) == (["a", "b"], 1, None, 2)
    several = containers.member("fMultimap")
    assert (several.items(), several[1]) == ([(1, 1), (1, 2), (2, 3)], 1)
    assert containers.member("fPair") == (4, 4.5)
    lefts = containers.member("fPointers")
    assert [None if one is None else one.classname for one in lefts] == ["Both", None, "Left"]


def test_pointers_to_one_object_are_one_object(shapes: sapwood.ReadOnlyDirectory) -> None:
    pointers = shapes["pointers"]
    assert pointers.member("fLeft") is pointers.member("fSame")
    first = shapes["cycle"]
    second = first.member("fNext")
    third = second.member("fNext")
    assert [node.member("fName") for node in (first, second, third)] == ["first", "second", "third"]
    assert third.member("fNext") is None
    assert third.member("fFirst") is second.member("fFirst") is first
    assert third.member("fAny") is second.member("fAny") is second
    with pytest.raises(UnsupportedError, match="contains itself"):
        first.to_dict()
    assert json.loads(json.dumps(first.tojson()))["fNext"]["fFirst"] == {"$ref": 0}


def test_dicts_and_json(shapes: sapwood.ReadOnlyDirectory, standard: sapwood.ReadOnlyDirectory) -> None:
    both = shapes["both"].to_dict()
    assert (both["fLeft"], both["fRight"], both["fLabel"], both["fBoth"]) == (11, 22.5, "right", 33)
    graph = standard["graph"].to_dict()
    assert isinstance(graph["fX"], np.ndarray) and graph["fFunctions"] is not None
    for name in standard.keys(cycle=False):
        json.dumps(standard[name].tojson() if isinstance(standard[name], Model) else str(standard[name]))


def test_what_cannot_be_read_is_seen(holder: Any) -> None:
    secret = holder.member("fSecret")
    assert (secret.classname, secret.reason is not None) == ("Secret", True)
    assert "class Secret is not described in the file" in secret.reason
    assert "not readable" in repr(secret)
    assert [where for where, _ in holder.unreadable()] == [".fSecret", ".fItems[1]", ".fPointer"]
    with pytest.raises(NotFoundError, match=r"no member 'fCode'.*not described"):
        secret.member("fCode")
    # The rest is there.
    assert holder.member("fItems")[0].classname == "TNamed"


def test_unreadable_refuses_to_be_used() -> None:
    one = Unreadable("class X: no streamer info (at byte 7)")
    uses: list[Any] = [
        len, list, bool, float, int, np.asarray,
        lambda it: it[0], lambda it: it.tolist(), lambda it: it(), lambda it: 1 in it,
        lambda it: it < 0, lambda it: 2 * it,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(UnsupportedError, match="class X: no streamer info"):
            use(one)
    assert repr(one) == "<unreadable: class X: no streamer info (at byte 7)>"
    assert isinstance(Unreadable("bytes", corrupt=True).error(), CorruptError)
    assert pickle.loads(pickle.dumps(one)).reason == one.reason


def test_members_that_are_missing_are_named_where_methods_use_them() -> None:
    with sapwood.open(GOLDEN / "standard.root") as file:
        poly, histogram = file["poly"], file["h1D"]
        vars(poly)["_members"]["fBins"] = None
        with pytest.raises(CorruptError, match="TH2Poly without its fBins"):
            poly.values()
        axis = histogram.axis()
        vars(axis)["_members"]["fNbins"] = Unreadable("fNbins: damaged", corrupt=True)
        for use in (axis.edges, histogram.values, lambda: len(axis), histogram.to_numpy):
            with pytest.raises(CorruptError, match="fNbins: damaged"):
                use()


def test_pickled_models_need_no_file(shapes: sapwood.ReadOnlyDirectory, standard: sapwood.ReadOnlyDirectory) -> None:
    again = pickle.loads(pickle.dumps(shapes["pointers"]))
    assert (again.classname, again.class_version, again.file.closed, again.parent) == ("Pointers", 2, True, None)
    assert again.member("fLeft") is again.member("fSame")
    first = pickle.loads(pickle.dumps(shapes["cycle"]))
    assert first.member("fNext").member("fFirst") is first
    h = standard["h2D_weighted"]
    copy = pickle.loads(pickle.dumps(h))
    assert type(copy) is type(h) and copy == h
    np.testing.assert_array_equal(copy.variances(flow=True), h.variances(flow=True))
    text = pickle.loads(pickle.dumps(standard["string"]))
    assert (str(text), text.classname) == ("a text with µ", "TObjString")


def test_a_derived_class_has_the_methods_of_its_base(standard: sapwood.ReadOnlyDirectory) -> None:
    h = standard["h1F"]
    assert isinstance(h, TH1) and isinstance(h, Histogram) and type(h) is not Model
    # TH1F derives from TH1, which derives from TNamed, TAttLine, TAttFill and TAttMarker.
    assert h.base(Histogram)[0].classname == "TH1"


def test_members_agree_with_uproot() -> None:
    """All members of all objects that uproot can read, bit for bit; arrays of several dimensions have a shape here."""
    compared = 0
    for name in ("standard", "memberwise", "objectwise"):
        with (
            sapwood.open(GOLDEN / f"{name}.root") as mine,
            uproot.open(GOLDEN / f"{name}.root") as theirs,
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            for key in theirs.keys(cycle=False):
                try:
                    found = theirs[key]
                except Exception:  # noqa: BLE001  # uproot cannot read it
                    continue
                if not isinstance(found, uproot.Model) or isinstance(found, uproot.model.UnknownClass):
                    continue
                compared += compare_members(mine[key], found)
    assert compared > 1000


def test_reading_says_where_a_file_is_damaged(tmp_path: Path) -> None:
    data = bytearray((GOLDEN / "memberwise.root").read_bytes())
    with sapwood.open(GOLDEN / "memberwise.root") as file:
        key = file.key("both")
        start = key.fSeekKey + key.fKeylen
    assert data[start : start + 2] == b"\x40\x00"
    data[start + 3] += 40  # the byte count of the object
    damaged = tmp_path / "damaged.root"
    damaged.write_bytes(data)
    with sapwood.open(damaged) as file, pytest.raises(CorruptError, match=r"Both.*both;1.*at byte"):
        file["both"]


def test_members_are_made_once_whatever_the_order(shapes: sapwood.ReadOnlyDirectory) -> None:
    file = shapes.file
    for first in ("member", "members", "bases", "pickle", "has_member", "all_members"):
        file.object_cache.clear()
        model = shapes["both"]
        if first == "member":
            found = model.member("fRight")
        elif first == "pickle":
            model = pickle.loads(pickle.dumps(model))
            found = model.member("fRight")
        else:
            _ = model.has_member("fRight") if first == "has_member" else getattr(model, first)
            found = model.member("fRight")
        base = model.base("Right")[0]
        assert found == base.members["fRight"] == model.all_members["fRight"]
        assert model.bases is model.bases and model.members is model.members and base in model.bases
        assert list(model.members) == model.member_names and next(iter(base.members)) == "fRight"


def test_threads_see_the_same_objects(standard: sapwood.ReadOnlyDirectory) -> None:
    for name in ("h3D", "graph_2d", "canvas"):
        standard.file.object_cache.clear()
        model = standard[name]
        members = list(model.all_members)
        for _ in range(20):
            standard.file.object_cache.clear()
            model = standard[name]
            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(model.member, members * 3))
                found += pool.map(lambda one: one.bases, [model] * 8)
            assert {id(one) for one in found if isinstance(one, (Model, list, np.ndarray))} == {
                id(one)
                for one in (*map(model.member, members), model.bases)
                if isinstance(one, (Model, list, np.ndarray))
            }


def test_objects_that_belong_to_others_outlive_them(shapes: sapwood.ReadOnlyDirectory) -> None:
    shapes.file.object_cache.clear()
    second = shapes["cycle"].member("fNext")
    gc.collect()
    first = second.member("fFirst")
    assert first.member("fName") == "first" and first.member("fNext").member("fName") == "second"
    assert second.member("fNext").member("fFirst") is first


def test_empty_arrays_are_not_many(tmp_path: Path) -> None:
    """A member that is said to be millions of variable arrays would take memory for each, though all are empty."""
    data = bytearray((GOLDEN / "plain.root").read_bytes())
    # The element of TH1::fBuffer: its length stands behind type and size, and is zero.
    at = data.index(b"\x07fBuffer") + len(b"\x07fBuffer")
    at += 1 + data[at]
    kind, size, length = struct.unpack(">iii", data[at : at + 12])
    assert (kind, size, length) == (48, 8, 0)
    data[at + 8 : at + 12] = struct.pack(">i", 0x00FF0000)
    with sapwood.open(bytes(data)) as file, pytest.warns(SapwoodWarning, match="fBuffer is declared as 16711680"):
        assert file["h1F"].unreadable()
