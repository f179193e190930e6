"""What cannot be read is named, with its place and the reason; what can be is not lost for it."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import warnings
from pathlib import Path

import awkward as ak
import pytest

import sapwood
from sapwood.errors import CorruptError, SapwoodWarning, UnsupportedError

GOLDEN = Path(__file__).parent.parent / "golden" / "objects"
HIDDEN = GOLDEN / "hidden.root"
WHY = "bytes follow what its streamer info says of Secret (version 2): its class has a streamer of its own"


def test_branches_whose_data_cannot_be_decoded() -> None:
    with sapwood.open(HIDDEN) as file:
        assert file.unreadable(entries=0) == {}
        found = file.unreadable(entries=None)
        # In the fifth entry, the longest, a pointer leads to an object that has a streamer of its own.
        assert list(found) == ["tree;1/secret", "tree;1/items", "tree;1/holder"]
        assert all(file.unreadable(entries=n) == found for n in (1, 4, 5))
        for where, why in found.items():
            branch = file[where]
            for part in (WHY, "class Secret", "at byte ", f"of branch {branch.name} of tree tree", str(HIDDEN)):
                assert part in why
        assert "member fSecret" in found["tree;1/holder"] and "entry 4" in found["tree;1/items"]
        assert file["tree"].unreadable(None) == {path.removeprefix("tree;1/"): why for path, why in found.items()}
        assert list(file["tree/secret"].unreadable()) == ["secret"] and file["tree/last"].unreadable() == {}
        assert file.file.unreadable() == found


def test_what_has_no_form_is_an_error_that_code_for_uproot_expects() -> None:
    objects = pytest.importorskip("uproot", reason="needs uproot (pip install --group test)").interpretation.objects
    with sapwood.open(HIDDEN) as file, pytest.raises(objects.CannotBeAwkward) as error:
        file["tree/items"].interpretation.awkward_form(None)
    assert isinstance(error.value, UnsupportedError) and "has no form" in str(error.value)


def test_branches_that_turn_out_unreadable_are_left_out_unless_named() -> None:
    with sapwood.open(HIDDEN) as file:
        tree = file["tree"]
        for read in (tree.arrays, lambda: next(tree.iterate()), lambda: sapwood.concatenate({HIDDEN: "tree"})):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = read()
            assert found.fields == ["number", "items", "holder", "last"]
            assert found[["number", "last"]].tolist() == [{"number": i, "last": i / 2} for i in range(6)]
            (said,) = [str(one.message) for one in caught if "branches" in str(one.message)]
            assert said.startswith("1 branches cannot be decoded and are left out") and WHY in said
            assert "branch secret of tree tree" in said
        for named in (
            lambda: tree.arrays(["number", "secret"]),
            lambda: tree.arrays(filter_name=["number", "secret"]),
            lambda: tree.arrays("number", cut="secret == 1"),
        ):
            with pytest.raises(UnsupportedError) as error:
                named()
            assert WHY in str(error.value) and "branch secret of tree tree" in str(error.value)
            assert "filter_branch=" in str(error.value) and "tree.unreadable(entries=None)" in str(error.value)
        with pytest.raises(UnsupportedError, match="branch secret of tree tree") as error:
            tree["secret"].array()
        assert "filter_branch" not in str(error.value)
        with pytest.raises(UnsupportedError, match="branch secret of tree tree"):
            tree.arrays(filter_name="se*")
        # As the message says:
        bad = tree.unreadable(entries=None)
        arrays = tree.arrays(filter_branch=lambda branch: branch.name not in bad)
        assert arrays.tolist() == [{"number": i, "last": i / 2} for i in range(6)]


def test_branches_with_fewer_entries_than_their_tree() -> None:
    with sapwood.open(GOLDEN.parent / "reading" / "short.root") as file:
        tree = file["tree"]
        assert tree["half"].array().tolist() == tree.arrays(entry_stop=4)["half"].tolist() == [0, 0.5, 1, 1.5]
        with pytest.warns(SapwoodWarning, match=r"entries 4 to 8 are in no basket.*branch half of tree tree"):
            assert tree.arrays().tolist() == [{"number": i} for i in range(8)]
        with pytest.raises(UnsupportedError, match="the branch has 4 entries"):
            tree.arrays(["half"])
        # All steps have the branches of the first.
        steps = tree.iterate(step_size=4)
        assert next(steps).fields == ["number", "half"]
        with pytest.raises(UnsupportedError, match="the branch has 4 entries") as error:
            next(steps)
        # How to go on, as the message says:
        assert "branch.name != 'half' from entry 4 of this tree" in str(error.value)
        rest = tree.arrays(filter_branch=lambda branch: branch.name != "half", entry_start=4)
        assert rest["number"].tolist() == [4, 5, 6, 7]


def test_members_that_cannot_be_decoded_are_passed_over() -> None:
    kept = {"fName": "kept", "fTitle": "readable"}
    holder = {"fName": "holder", "fTitle": "of a secret", "fBefore": 1, "fAfter": 2, "fLast": 4.5}
    holder |= {"fItems": [kept, {}, {"fString": "kept too"}], "fPointer": {}}
    with sapwood.open(HIDDEN) as file:
        tree = file["tree"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert tree["items"].array(entry_stop=4).tolist() == [[], [kept], [kept], [kept]]
        for _ in range(2):
            with pytest.warns(SapwoodWarning) as caught:
                assert tree["holder"].array().tolist() == [holder] * 6
            assert caught[0].filename == __file__
            for part in (WHY, "member fSecret of Holder", "class Secret", "at byte ", "branch holder of tree tree"):
                assert part in str(caught[0].message)
        with pytest.warns(SapwoodWarning, match="class Secret"):
            # Of the object that is passed over, only the class is known.
            assert tree["items"].array()[4].tolist() == [kept, {}]
        with pytest.warns(SapwoodWarning, match="member fSecret of Holder"):
            steps = list(tree.iterate(["holder"], step_size=4))
        assert [entry["holder"] for step in steps for entry in step.tolist()] == [holder] * 6
        # What is left out stays listed, with its place.
        assert "member fSecret" in file.unreadable()["tree;1/holder"]
        assert "at byte " in file.unreadable()["tree;1/holder"]
        assert file.unreadable(entries=0)["tree;1/holder"].startswith("member fSecret of Holder: ")
        with pytest.raises(UnsupportedError, match="class Secret"):
            tree["secret"].array()


def test_objects_that_cannot_be_read() -> None:
    with sapwood.open(GOLDEN / "memberwise.root") as file, warnings.catch_warnings():
        warnings.simplefilter("error")
        found = file.unreadable()
        assert list(found) == ["holder;1", "secret;1"]
        assert "class Secret is not described in the file" in found["secret;1"]
        for part in (".fItems[1]: ", ".fSecret: ", "at byte "):
            assert part in found["holder;1"]
        with pytest.warns(SapwoodWarning, match=r"parts of '/holder;1'"):
            holder = file["holder"]
        assert {path for path, _ in holder.unreadable()} <= {
            part.split(": ")[0] for part in found["holder;1"].split("; ")
        }
    with sapwood.open(GOLDEN / "standard.root") as file:
        assert file.unreadable() == {}


def test_damaged_trees_and_objects_are_named(tmp_path: Path) -> None:
    with sapwood.open(GOLDEN / "memberwise.root") as file:
        key = file.key("numbers")
        place = key.fSeekKey + key.fKeylen
    data = bytearray((GOLDEN / "memberwise.root").read_bytes())
    data[place : place + 20] = b"\xff" * 20
    with sapwood.open(bytes(data)) as file:
        found = file.unreadable()
        assert "numbers;1" in found and "numbers;1" in found["numbers;1"]
        with pytest.raises((CorruptError, UnsupportedError)) as caught:
            file["numbers"]
        assert str(caught.value) == found["numbers;1"]
    with sapwood.open(HIDDEN) as file:
        key = file.key("tree")
        place = key.fSeekKey + key.fKeylen
    data = bytearray(HIDDEN.read_bytes())
    data[place : place + 20] = b"\xff" * 20
    with sapwood.open(bytes(data)) as file:
        assert list(file.unreadable()) == ["tree;1"]


def test_the_command_line_marks_them() -> None:
    def listing(*options: str) -> str:
        command = [sys.executable, "-m", "sapwood", "ls", "--tree", *options, str(HIDDEN)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert "cannot be read" not in listing()
    lines = {line.split()[0]: line for line in listing("--check").splitlines()}
    for name, bad in {"number": False, "secret": True, "items": True, "holder": True, "last": False}.items():
        assert ("cannot be read: " in lines[name] and WHY in lines[name]) is bad
    (tree,) = json.loads(listing("--check", "--json"))[0]["keys"]
    assert [branch["readable"] for branch in tree["branches"]] == [True, False, False, False, True]


def test_trees_show_why() -> None:
    with sapwood.open(HIDDEN) as file:
        shown = io.StringIO()
        file["tree"].show(stream=shown)
        assert "Holder[fName: string" in shown.getvalue()


def test_a_member_that_only_some_objects_contradict_is_left_out_where_they_are_read(tmp_path: Path) -> None:
    """Only decoding shows it, so it depends on the range of entries. The warning says so."""
    path, entries, size = tmp_path / "f.root", 6, 56
    inner = [{"a": entry, "inner": {"k": 2 * entry, "v": [1, 2, 3]}} for entry in range(entries)]
    with sapwood.recreate(path, compression=None) as file:
        file.mktree("t", {"r": ak.Array(inner)}, records="class", split_level=0, lists="vector")
    with sapwood.open(path) as file:
        key = file["t"]["r"].basket_key(0)
    data = bytearray(path.read_bytes())
    # In entry 4, the vector has two items, so that 8 bytes of the object are left over.
    vector = key.fSeekKey + key.fKeylen + 4 * size + 22
    assert data[vector : vector + 4] == b"\x40\0\0\x1e"
    struct.pack_into(">IHI", data, vector, 0x4000_0016, 10, 2)
    path.write_bytes(data)
    with sapwood.open(path) as file:
        tree = file["t"]
        assert tree.arrays(entry_stop=4)["r"].fields == ["a", "inner"]
        for start, stop in ((0, entries), (4, 5), (3, entries)):
            with pytest.warns(
                sapwood.SapwoodWarning, match=r"a read of other entries may have this part \(in member inner"
            ):
                found = tree.arrays(entry_start=start, entry_stop=stop)
            assert found["r"].to_list() == [{"a": entry} for entry in range(start, stop)]
        assert "8 bytes follow what its streamer info says of RInner" in tree.unreadable(entries=None)["r"]
