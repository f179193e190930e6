"""Pointers that lead in circles, and objects whose bytes are not what the file says of their class."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy
import polars
import pyarrow
import pytest

import sapwood
from sapwood.errors import SapwoodWarning, UnsupportedError

CONTRARY = Path(__file__).parent.parent / "golden" / "objects" / "contrary.root"
CYCLE = "a pointer refers back to an object that contains it"
OWN = "its class has a streamer of its own, or the file is damaged"


def streams() -> list[Any]:
    """Return what takes a tree as an Arrow stream."""
    return [pyarrow.table, polars.DataFrame]


def link(number: int, follows: Any = None, other: Any = None) -> dict[str, Any]:
    """Return a part of a chain."""
    return {"fNumber": number, "fNext": follows, "fOther": other}


def chains() -> list[dict[str, Any]]:
    """Return what is read of the chains: None where one leads back."""
    rest = link(10, link(20))
    return [link(0, rest), link(1, rest), link(2, rest, rest), link(3, rest)]


def test_pointers_that_lead_back_are_said_to_be_missing() -> None:
    with sapwood.open(CONTRARY) as file:
        for path, entries in (
            ("chains0/chain.", None),
            ("chains99/chain./chain.fNext", [c["fNext"] for c in chains()]),
        ):
            tree, branch = file[path].tree, file[path]
            for read in (branch.array, lambda branch=branch: branch.array(entry_start=3)):
                with pytest.warns(SapwoodWarning, match=CYCLE) as caught:
                    found = read().tolist()
                assert found == (entries or chains())[-len(found) :]
                assert "class Chain" in str(caught[0].message) and "at byte " in str(caught[0].message)
            with pytest.warns(SapwoodWarning, match=CYCLE):
                tree.arrays()
            (why,) = tree.unreadable(entries=None).values()
            assert CYCLE in why and "entry 1 of the basket" in why
            # Two pointers to one object are no circle.
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                branch.array(entry_start=2, entry_stop=3)


def test_objects_shorter_than_their_class_are_passed_over() -> None:
    with sapwood.open(CONTRARY) as file:
        tree = file["briefs0"]
        with pytest.warns(SapwoodWarning) as caught:
            found = tree.arrays()
        said = "\n".join(str(one.message) for one in caught)
        for part in (OWN, "branch brief of tree briefs0", "member fBrief of Around", "member fMany of Around"):
            assert part in said
        assert found.fields == ["around.", "number"] and found.number.tolist() == [0, 1, 2, 3]
        # The pointers of one entry to an object that is passed over are alike.
        assert found["around."].tolist() == [
            {"fBefore": i, "fBetween": 2, "fPointer": {} if i else None, "fSame": {} if i > 1 else None, "fLast": 3}
            for i in range(4)
        ]
        assert set(tree.unreadable(None)) == {"around.", "brief"}
        with pytest.raises(UnsupportedError, match=OWN):
            tree["brief"].array()
        split = file["briefs99"]
        with pytest.warns(SapwoodWarning, match=OWN):
            found = split.arrays()
        assert found["around.fBefore"].tolist() == found["number"].tolist() == [0, 1, 2, 3]
        assert "around.fBrief" not in found.fields and "around.fLast" in found.fields


def test_objects_under_keys_say_the_same() -> None:
    with sapwood.open(CONTRARY) as file:
        with pytest.raises(UnsupportedError, match=OWN):
            file["brief"]
        with pytest.warns(SapwoodWarning, match=OWN):
            around = file["around"]
        assert around.member("fBetween") == 2 and around.member("fLast") == 3


def test_arrow_streams_leave_out_what_arrays_leave_out() -> None:
    with sapwood.open(CONTRARY) as file:
        for make in streams():
            for name in ("briefs0", "briefs99"):
                with pytest.warns(SapwoodWarning, match=OWN):
                    table = make(file[name])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    fields = file[name].arrays().fields
                columns = table.column_names if make is pyarrow.table else table.columns
                assert list(columns) == fields
                assert list(table["number"].to_pylist() if make is pyarrow.table else table["number"]) == [0, 1, 2, 3]


def test_columns_of_several_classes_are_left_out_where_they_have_no_form() -> None:
    several = "items: a column of objects of several classes"
    with sapwood.open(CONTRARY.parent / "hidden.root") as file:
        tree = file["tree"]
        for make in (*streams(), lambda tree: tree.arrays(library="pl")):
            with pytest.warns(SapwoodWarning) as caught:
                found = make(tree)
            assert any(several in str(one.message) for one in caught)
            names = found.column_names if isinstance(found, pyarrow.Table) else found.columns
            assert list(names) == ["number", "holder", "last"] or list(names) == ["number", "last"]
            assert list(found["last"].to_pylist() if isinstance(found, pyarrow.Table) else found["last"]) == [
                i / 2 for i in range(6)
            ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(UnsupportedError, match=several):
                tree.arrays(["number", "items"], library="pl")
            with pytest.raises(UnsupportedError, match="objects of several classes"):
                tree["items"].array(library="pl")


def test_arrays_of_one_branch_that_another_counts() -> None:
    with sapwood.open(CONTRARY) as file:
        tree = file["counted"]
        floats = [[10 * i + j for j in range(i)] for i in range(4)]
        # ROOT took both arrays from the same place in memory.
        expected = [{"p": p, "q": numpy.array(p, numpy.float32).view(numpy.int32).tolist()} for p in floats]
        assert tree["pair"].array().tolist() == tree.arrays()["pair"].tolist() == expected
        assert tree["pair"].array(entry_start=2).tolist() == expected[2:]
        assert tree["pair"].typename == "struct {float p[]; int32_t q[];}"


def test_entries_may_be_whole_floats() -> None:
    with sapwood.open(CONTRARY) as file:
        tree = file["counted"]
        assert tree.arrays("n", entry_start=1.0, entry_stop=3e0)["n"].tolist() == [1, 2]
        assert tree["n"].array(entry_stop=-1e0).tolist() == [0, 1, 2]
        found = sapwood.concatenate({CONTRARY: "counted"}, "n", entry_start=2.0, entry_stop=3.0)
        assert found["n"].tolist() == [2]
        with pytest.raises(TypeError):
            tree.arrays("n", entry_start=1.5)
