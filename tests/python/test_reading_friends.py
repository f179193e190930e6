"""Friends: tables whose columns stand beside those of another one, in arrays, steps, expressions and cuts."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest

import sapwood
from sapwood.errors import ArgumentError, NotFoundError, SapwoodWarning
from sapwood.table.friends import FriendIndex

ENTRIES = 1000
ORDER = np.random.default_rng(3).permutation(ENTRIES)


def _write(path: Path, kind: str, name: str, data: dict[str, Any], **options: Any) -> None:
    with sapwood.recreate(path, **options) as file:
        make = file.mktree if kind == "tree" else file.mkrntuple
        table = make(name, {key: str(ak.type(ak.Array(value)).content) for key, value in data.items()})
        for start in range(0, len(data["event"]), 300):
            table.extend({key: value[start : start + 300] for key, value in data.items()})
            table.flush()


@pytest.fixture(scope="module", params=["tree", "ntuple"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    event = np.arange(ENTRIES, dtype=np.int64)
    jets = ak.unflatten(np.arange(2 * ENTRIES, dtype=np.float32), np.arange(ENTRIES) % 5)
    _write(folder / "main.root", request.param, "Events", {"event": event, "x": event * 0.5})
    beside = {"event": ORDER.astype(np.int64), "w": ORDER * 2.0, "jets": jets}
    _write(folder / "friend.root", request.param, "Weights", beside)
    _write(folder / "half.root", request.param, "Half", {"event": event[::2].copy(), "h": event[::2] * 3.0})
    return folder


@pytest.fixture
def table(folder: Path) -> Any:
    with sapwood.open(folder / "main.root") as file:
        yield file["Events"]


def test_entries_with_the_same_number_stand_side_by_side(folder: Path, table: Any) -> None:
    table.add_friend(f"{folder}/friend.root:Weights", on=())
    found = table.arrays(["x", "w", "Weights.jets", "Weights.event", "event"])
    assert found["w"].tolist() == (ORDER * 2.0).tolist()
    assert found["Weights.event"].tolist() == ORDER.tolist()
    assert found["event"].tolist() == list(range(ENTRIES))
    assert ak.num(found["Weights.jets"]).tolist() == (np.arange(ENTRIES) % 5).tolist()


def test_an_index_finds_the_entries_with_the_same_values(folder: Path, table: Any) -> None:
    table.add_friend(folder / "friend.root", "f", on="event")
    found = table.arrays(["x", "f.w"])
    assert found["f.w"].tolist() == (4 * found["x"]).tolist()
    assert str(found["f.w"].type) == f"{ENTRIES} * float64"


def test_an_entry_that_an_index_lacks_is_none(folder: Path, table: Any) -> None:
    table.add_friend(folder / "half.root", "half", on=["event"])
    found = table.arrays("h")["h"].tolist()
    assert found == [None if i % 2 else i * 3.0 for i in range(ENTRIES)]


@pytest.mark.parametrize("on", [(), "event"])
def test_steps_ranges_and_cuts_give_the_same_as_one_array(folder: Path, table: Any, on: Any) -> None:
    table.add_friend(folder / "friend.root", "f", on=on)
    wanted, cut = {"sum": "x + f.w", "lists": "jets + 1"}, "(f.w > 700) & (event >= 40)"
    whole = table.arrays(list(wanted), cut, aliases=wanted)
    w = ORDER * 2.0 if on == () else np.arange(ENTRIES) * 2.0
    kept = (w > 700) & (np.arange(ENTRIES) >= 40)
    assert whole["sum"].tolist() == (np.arange(ENTRIES) * 0.5 + w)[kept].tolist()
    steps = list(table.iterate(list(wanted), cut, aliases=wanted, step_size=77))
    assert len(steps) == 13
    assert ak.array_equal(ak.concatenate(steps), whole)
    part = table.arrays(["f.w", "x"], entry_start=310, entry_stop=333)
    assert part["f.w"].tolist() == w[310:333].tolist()


def test_only_the_parts_with_entries_that_are_needed_are_read(folder: Path, tmp_path: Path, table: Any) -> None:
    """Its clusters have 300 entries each; `event` is read whole, for the index."""
    event = np.arange(ENTRIES, dtype=np.int64)
    _write(tmp_path / "sorted.root", "tree", "t", {"event": event, "v": event + 0.5})

    def baskets(start: int, stop: int) -> int:
        with sapwood.trace() as trace:
            found = table.arrays("f.v", entry_start=start, entry_stop=stop)["f.v"]
        assert found.tolist() == (event[start:stop] + 0.5).tolist()
        return sum("v of" in one or one.startswith("v") for one in trace["branch"].tolist())

    table.add_friend(tmp_path / "sorted.root", "f", on="event")
    assert [baskets(350, 500), baskets(400, 600), baskets(250, 500), baskets(0, ENTRIES)] == [1, 0, 1, 2]
    assert table.arrays("f.v", entry_start=5, entry_stop=5)["f.v"].tolist() == []


def test_columns_of_friends_alone_can_be_read(folder: Path, table: Any) -> None:
    table.add_friend(folder / "friend.root", "f", on=())
    assert table.arrays("f.w", library="np")["f.w"].tolist() == (ORDER * 2.0).tolist()
    assert sum(len(step) for step in table.iterate("f.w", step_size=300)) == ENTRIES
    assert len(table.arrays("f.w", library="pd")) == ENTRIES


def test_several_tables_with_friends_are_read_as_one(folder: Path, table: Any) -> None:
    with sapwood.open(f"{folder}/main.root:Events") as other:
        for one in (table, other):
            one.add_friend(folder / "friend.root", "f", on="event")
            one.add_friend(folder / "half.root", "half", on="event")
        found = sapwood.concatenate([table, other], ["x", "f.w", "half.h"])
        assert found["f.w"].tolist() == 2 * (4 * table.arrays("x")["x"]).tolist()
        assert found["half.h"].tolist() == 2 * table.arrays("half.h")["half.h"].tolist()
        steps = list(sapwood.iterate([table, other], ["f.w"], step_size=400))
        assert ak.concatenate(steps)["f.w"].tolist() == found["f.w"].tolist()


def test_histograms_are_filled_with_columns_of_friends(folder: Path, table: Any) -> None:
    table.add_friend(folder / "friend.root", "f", on=())
    axis = hist.axis.Regular(10, 0, 2000)
    assert table.hist("f.w", axis).values().tolist() == [100] * 10


def test_a_friend_that_ends_too_early_is_an_error(folder: Path, table: Any) -> None:
    table.add_friend(folder / "half.root", "half", on=())
    assert table.arrays("h", entry_stop=500)["h"].tolist() == [i * 6.0 for i in range(500)]
    with pytest.raises(ArgumentError, match="friend 'half' has 500 entries; entry 500 is requested"):
        table.arrays("h", entry_stop=501)


def test_the_file_of_a_friend_is_opened_only_for_its_columns(tmp_path: Path, table: Any) -> None:
    table.add_friend(tmp_path / "missing.root", "gone")
    assert len(table.arrays(["x"], "x > 3")) == ENTRIES - 7
    with pytest.raises(sapwood.errors.StorageError, match="friend 'gone' cannot be opened"):
        table.arrays("gone.w")
    with pytest.raises(NotFoundError, match="friend 'gone' cannot be opened"):
        table.arrays("w")


def test_own_columns_go_before_those_of_friends(folder: Path, table: Any) -> None:
    table.add_friend(folder / "friend.root", "f", on=())
    table.add_friend(f"{folder}/half.root", "half", on="event")
    assert table.arrays("event")["event"].tolist() == list(range(ENTRIES))
    assert table.arrays(["a"], aliases={"a": "event - f.event"})["a"].tolist() == (np.arange(ENTRIES) - ORDER).tolist()
    with pytest.raises(NotFoundError, match="neither"):
        table.arrays("f.nothing")
    with pytest.raises(NotFoundError, match="neither"):
        table.arrays("x + nothing")


def test_the_index_of_a_cut_is_not_asked_for_columns_of_friends(folder: Path, tmp_path: Path) -> None:
    event = np.arange(ENTRIES, dtype=np.int64)
    with sapwood.recreate(tmp_path / "own.root", index=True) as file:
        tree = file.mktree("Events", {"event": "int64", "w": "float64"}, auto_flush=100)
        tree.extend({"event": event, "w": event * 0.0})
    with sapwood.open(f"{tmp_path}/own.root:Events") as own:
        own.add_friend(folder / "friend.root", "f", on=())
        assert own.arrays("event", "f.w >= 1000")["event"].tolist() == np.flatnonzero(ORDER >= 500).tolist()
        found = own.arrays(["event", "f.w"], "event >= 900")
        assert found["f.w"].tolist() == (ORDER * 2.0)[900:].tolist()
        skipped = own.explain(["event", "f.w"], "event >= 900")
        assert skipped.entries_skipped == 900
        assert skipped.friends["f"].pages


def test_pickled_tables_keep_their_friends(folder: Path, table: Any) -> None:
    table.add_friend(folder / "friend.root", "f", on="event")
    again = pickle.loads(pickle.dumps(table))
    assert again.arrays("f.w")["f.w"].tolist() == table.arrays("f.w")["f.w"].tolist()
    again.close()


def test_a_table_given_open_stays_open(folder: Path) -> None:
    with sapwood.open(f"{folder}/friend.root:Weights") as friend:
        with sapwood.open(f"{folder}/main.root:Events") as own:
            own.add_friend(friend, on=())
            assert list(own.friends) == ["Weights"]
            assert len(own.arrays("w")) == ENTRIES
        assert len(friend.arrays("w")) == ENTRIES


def test_entries_with_the_same_values_are_told(tmp_path: Path, folder: Path, table: Any) -> None:
    twice = np.repeat(np.arange(3, dtype=np.int64), 2)
    _write(tmp_path / "twice.root", "tree", "t", {"event": twice, "v": np.arange(6.0)})
    table.add_friend(tmp_path / "twice.root", "twice", on="event")
    with pytest.warns(SapwoodWarning, match="3 entries of friend twice have the same event"):
        assert table.arrays("v", entry_stop=4)["v"].tolist() == [0, 2, 4, None]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"on": "nothing"}, "no such .*: 'nothing'"), ({"on": "x"}, "'x' is neither a .* nor an alias")],
)
def test_an_index_that_cannot_be_used_is_an_error(folder: Path, table: Any, arguments: Any, message: str) -> None:
    table.add_friend(folder / "friend.root", "f", **arguments)
    with pytest.raises((ArgumentError, NotFoundError), match=message):
        table.arrays("f.w")


def test_a_friend_needs_a_name_and_is_another_table(folder: Path, table: Any) -> None:
    with pytest.raises(ArgumentError, match="needs a name"):
        table.add_friend(folder / "friend.root")
    with pytest.raises(ArgumentError, match="own friend"):
        table.add_friend(table)


def test_many_values_in_four_columns_are_not_taken_for_each_other() -> None:
    """65,536 values in each of four columns: their combinations do not fit into 64 bits."""
    columns = {name: np.arange(65536) for name in "abcd"}
    columns["c"][[0, 4]] = 4, 0

    def read(names: Any, start: int, stop: int) -> list[Any]:
        return [ak.Array(columns.get(name, np.arange(65536))[start:stop]) for name in names]

    index = FriendIndex("f", "abcd", [0, 65536], read)
    asked = [np.array(pair) for pair in ((0, 65533), (0, 6), (4, 0), (0, 1))]
    assert ak.Array(index.beside(asked, ["w"])["w"]).to_list() == [0, None]


def test_entries_whose_cut_is_missing_are_left_out(tmp_path: Path) -> None:
    """Of a nullable field, and of a friend that lacks the entry."""
    path = tmp_path / "nullable.root"
    values = ak.Array([1.0, None, 3.0, None, 5.0])
    with sapwood.recreate(path) as file:
        file.mkrntuple("t", {"x": np.arange(5), "opt": values})
        file["w"] = {"x": np.array([0, 4]), "w": np.array([10, 20])}
    with sapwood.open(path) as file:
        table, friend = file["t"], file["w"]
        assert table.arrays(["x"], "opt > 2")["x"].to_list() == [2, 4]
        assert table.arrays(["x"], "~(opt > 2)", library="np")["x"].tolist() == [0]
        assert [step["x"].to_list() for step in table.iterate(["x"], "opt > 2", step_size=3)] == [[2], [4]]
        table.add_friend(friend, "W", on=["x"])
        assert table.arrays(["x"], "W.w > 5")["x"].to_list() == [0, 4]


def test_keys_of_64_bits_with_and_without_sign(tmp_path: Path) -> None:
    signed = np.array([-1, -2, 5, 1 << 62], np.int64)
    unsigned = np.array([(1 << 64) - 1, (1 << 64) - 2, 5, 1 << 62, (1 << 62) + 1], np.uint64)
    for here, there in ((signed, unsigned), (unsigned, signed)):
        with sapwood.recreate(tmp_path / "a.root") as file:
            file["t"] = {"event": here}
        with sapwood.recreate(tmp_path / "b.root") as file:
            file["u"] = {"event": there, "w": np.arange(len(there))}
        with sapwood.open(tmp_path / "a.root") as file:
            tree = file["t"]
            tree.add_friend(f"{tmp_path / 'b.root'}:u", on="event", alias="U")
            known = {int(key): place for place, key in enumerate(there)}
            assert tree.arrays(["U.w"])["U.w"].to_list() == [known.get(int(key)) for key in here]


def test_a_key_with_missing_values_is_an_error(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["t"] = {"event": [1, 2]}
        file.mkrntuple("u", {"event": ak.Array([1, None]), "w": [1, 2]})
    with sapwood.open(tmp_path / "a.root") as file:
        tree = file["t"]
        tree.add_friend(file["u"], on="event", alias="U")
        with pytest.raises(sapwood.ArgumentError, match="one whole number per entry"):
            tree.arrays(["U.w"])


@pytest.mark.parametrize("kind", ["tree", "ntuple"])
def test_a_table_is_its_own_friend_by_its_path(kind: str, tmp_path: Path) -> None:
    data = {"event": np.arange(ENTRIES), "x": np.arange(ENTRIES) / 2}
    _write(tmp_path / "a.root", kind, "t", data)
    for on in (None, "event"):
        with sapwood.open(f"{tmp_path}/a.root:t") as table:
            table.add_friend(f"{tmp_path}/a.root:t", "me", on=on)
            assert table.arrays(["x", "me.x"], "me.x < 2").tolist() == [{"x": i / 2, "me.x": i / 2} for i in range(4)]
            with pytest.raises(NotFoundError, match=r"me\.me\.x"):
                table.arrays("me.me.x")
            with pytest.raises(NotFoundError, match="nowhere"):
                table.arrays("nowhere")
