"""Files that CERNLIB wrote, against the values that are known of them.

They are in ../shared/heritage (or SAPWOOD_HERITAGE); where they are missing, the tests say so.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest

import sapwood

FOLDER = Path(os.environ.get("SAPWOOD_HERITAGE", Path(__file__).parents[2].parent / "shared" / "heritage"))
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not FOLDER.is_dir(), reason=f"needs the files of CERNLIB in {FOLDER}"),
]


def known(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="latin-1"))


def each(name: str, part: str) -> list[str]:
    return list(known(name)[part]) if FOLDER.is_dir() else []


def sha(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


@pytest.mark.parametrize("number", each("h1.hbook", "histograms"))
def test_histograms_have_the_values_that_hbook_gives(number: str) -> None:
    about = known("h1.hbook")["histograms"][number]
    with sapwood.open(FOLDER / "h1.hbook") as file:
        found = file[number]
    expected, theirs = about["expected"], about["cernlib"]
    contents = expected.get("contents", theirs["contents"])
    assert found.classname == "TH1F"
    assert found.title == expected["title"]
    np.testing.assert_array_equal(found.values(flow=True), np.asarray(contents, np.float32))
    np.testing.assert_allclose(found.errors(), expected.get("error", theirs["error"]), rtol=1e-6)
    assert found.member("fEntries") == theirs["entries"]
    axis = found.axis()
    low, high = theirs["edges"][0], theirs["edges"][-1]
    np.testing.assert_allclose(axis.edges(), expected.get("edges", np.linspace(low, high, len(axis) + 1)), atol=1e-12)
    for member, name in (("fMaximum", "maximum"), ("fMinimum", "minimum")):
        assert found.member(member) == expected.get(name, -1111)
    assert found.member("fNormFactor") == expected.get("normalisation", 0)
    for member, name in (("fTsumw", "sum_w"), ("fTsumw2", "sum_w2"), ("fTsumwx", "sum_wx"), ("fTsumwx2", "sum_wx2")):
        if "stat" in expected:
            assert found.member(member) == expected["stat"][name]
    if "function" in expected:
        (graph,) = found.member("fFunctions")
        np.testing.assert_array_equal(graph.values(axis="y"), expected["function"])
    assert found.to_hist().values(flow=True).tolist() == [float(value) for value in np.asarray(contents, np.float32)]


@pytest.mark.parametrize("number", each("prof.hbook", "histograms"))
def test_profiles_have_the_values_that_hbook_gives(number: str) -> None:
    expected = known("prof.hbook")["histograms"][number]["expected"]
    theirs = known("prof.hbook")["histograms"][number]["cernlib"]
    with sapwood.open(FOLDER / "prof.hbook") as file:
        found = file[number]
    assert (found.classname, found.title) == ("TProfile", expected["title"])
    np.testing.assert_allclose(found.values(), theirs["contents"][1:-1], rtol=2e-6, atol=1e-9)
    np.testing.assert_allclose(found.errors(), theirs["error"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.member("fBinEntries")[1:-1], expected["sum_w"])
    np.testing.assert_allclose(found.member("fArray"), expected["sum_wy"], rtol=1e-6)
    assert found.member("fEntries") == theirs["entries"]
    assert found.error_mode == {"S": "s", "I": "i"}.get(expected["option"].strip(), "")


@pytest.mark.parametrize("number", each("rwn.hbook", "ntuples"))
def test_row_wise_ntuples_have_all_their_values(number: str) -> None:
    about = known("rwn.hbook")["ntuples"][number]
    with sapwood.open(FOLDER / "rwn.hbook") as file:
        table = file[number]
        assert (table.classname, table.title, table.num_entries) == ("RWNtuple", about["title"], about["rows"])
        assert table.keys() == about["columns"]
        columns = [table[name].array(library="np") for name in about["columns"]]
        assert sha(np.concatenate(columns)) == about["sha256_columns_float32_le"]
        for row, values in about["every_100th_row"].items():
            part = [
                table[n].array(library="np", entry_start=int(row) - 1, entry_stop=int(row))[0] for n in about["columns"]
            ]
            assert [float(value) for value in part] == values


@pytest.mark.parametrize("number", each("cwn.hbook", "ntuples"))
def test_column_wise_ntuples_have_all_their_values(number: str) -> None:
    about = known("cwn.hbook")["ntuples"][number]
    with sapwood.open(FOLDER / "cwn.hbook") as file:
        table = file[number]
        same_columns(table, about)


def same_columns(table: Any, about: dict[str, Any]) -> None:
    assert (table.classname, table.title, table.num_entries) == ("CWNtuple", about["title"], about["rows"])
    assert len(table) == len(about["columns"])
    for place, column in enumerate(about["columns"]):
        field = table[place]
        assert field.name == column["definition"].partition(":")[0].partition("(")[0].partition("[")[0]
        assert field.num_entries == column["rows_in_block"]
        values = field.array(entry_stop=field.num_entries)
        assert len(values) == column["rows_in_block"]
        size = column["bytes"]
        if column["type"] == "C":
            flat: Any = np.frombuffer(
                "".join(text.ljust(size) for text in ak.to_list(ak.flatten(values, axis=None))).encode("latin-1"),
                np.uint8,
            )
            assert len(flat) == size * column["values"]
        else:
            flat = ak.to_numpy(ak.flatten(values, axis=None))
            if column["type"] == "L":
                flat = flat.astype(np.int32)
            assert len(flat) == column["values"]
        assert sha(flat) == column["sha256_values_le"], field.title


def letters(found: Any) -> str:
    return "".join(
        letter * (len(data) // 4 if letter == "H" else len(data) * (2 if letter == "D" else 1))
        for letter, data in found
    )


def values(found: Any) -> list[Any]:
    out: list[Any] = []
    for letter, data in found:
        out += [data[i : i + 4] for i in range(0, len(data), 4)] if letter == "H" else data.tolist()
    return out


def same_bank(bank: Any, about: dict[str, Any]) -> None:
    assert (bank.name, bank.number) == (about["name"].rstrip(), about["number"])
    assert bank.structural == about["ns"] and len(bank.links) == about["nl"]
    assert bank.status & 0x3FFFF == about["status_bits"]
    assert [f"{word:08X}" for word in bank.io_words] == about["io_words"]
    if "types" in about:
        assert bank.kinds == about["types"].replace("S", "C")
        # Texts that are cut inside a word are compared whole.
        assert (
            values(bank.pieces) == pytest.approx(about["values"])
            if "H" not in about["types"]
            else values(bank.pieces) == about["values"]
        )
    elif "values_first10" in about:
        got = values(bank.pieces)
        assert got[:10] == about["values_first10"] and got[-5:] == about["values_last5"]


def same_links(banks: Any, bank: Any, about: dict[str, Any]) -> None:
    places = {-1: 0, -2: -1}
    links = [places.get(place, place + 1) for place in banks.native.links(bank.place)]
    # Without a table of addresses, only the order of the banks is known.
    assert about["next_and_links_and_up"] in (links, None)


@pytest.mark.parametrize("name", ["ev_XL.fz", "ev_XN.fz", "ev_N.fz", "ty_XL.fz", "ty_XN.fz"])
def test_fz_files_have_all_records_and_banks(name: str) -> None:
    records = known(f"{name[:2]}_XL.fz")["records"]
    with sapwood.open(FOLDER / name) as file:
        found = list(file)
    assert len(found) == len(records)
    for record, about in zip(found, records, strict=True):
        if "run_record" in about:
            assert record.kind == about["kind"].replace("ZEBRA ", "")
            # The number of records of the file depends on its mode.
            user = values(record.user_header)
            assert user == about["user_words"] or record.kind == "end of file"
            continue
        assert record.kind == ("event" if about["event_start"] else "continuation")
        assert letters(record.user_header) == about["user_header_types"]
        assert values(record.user_header) == about["user_header"]
        assert record.segments == [tuple(segment) for segment in about["segments"]]
        banks = record.banks
        assert banks is not None and len(banks) == about["banks"]
        if about["entry_bank"] is not None:
            assert banks.entry is not None and banks.entry.place + 1 == about["entry_bank"]
        for bank, one in zip(banks, about.get("bank_list", ()), strict=False):
            same_bank(bank, one)
            same_links(banks, bank, one)


def test_rz_files_have_all_keys_cycles_and_banks() -> None:
    about = known("kv_x.rz")
    with sapwood.open(FOLDER / "kv_x.rz") as file:
        for path, directory in about["directories"].items():
            here = file["/".join(path[2:].split("/")[1:])] if path.count("/") > 2 else file
            names = [
                name for name, kind in here.classnames(recursive=False, cycle=False).items() if kind == "RZDirectory"
            ]
            assert names == directory["subdirectories"]
            for key in directory["keys"]:
                name = ",".join(map(str, key["key"])).upper()
                found = here.key(f"{name};{key['cycle']}")
                assert found.fObjlen == 4 * key["words"]
                if "banks" not in key:
                    continue
                banks = here[f"{name};{key['cycle']}"]
                assert sorted((bank.name, bank.number) for bank in banks) == sorted(
                    (n.rstrip(), i) for n, i, *_ in key["banks"]
                )


def test_directories_have_their_histograms_in_all_cycles() -> None:
    about = known("dirs.hbook")["directories"]
    with sapwood.open(FOLDER / "dirs.hbook") as file:
        for path, directory in about.items():
            where = path[2:].partition("/")[2]
            here = file[where] if where else file
            if "subdirectories" in directory:
                kinds = here.classnames(recursive=False, cycle=False)
                assert [name for name, kind in kinds.items() if kind == "RZDirectory"] == directory["subdirectories"]
            for number, expected in directory.get("ids", {}).items():
                cycles = expected.get("cycles", {None: expected})
                for cycle, one in cycles.items():
                    name = number if cycle is None else f"{number};{cycle}"
                    if "contents" in one:
                        assert here[name].values().tolist() == one["contents"]


@pytest.mark.parametrize("name", ["var_1024.hbook", "var_4096.hbook"])
def test_record_lengths_change_no_value(name: str) -> None:
    about = known("var_1024.hbook")
    with sapwood.open(FOLDER / name) as file:
        for number, one in about["histograms"].items():
            found, expected = file[number], one["expected"]
            assert (found.title, found.member("fEntries")) == (expected["title"], expected["entries"])
            if found.classname == "TProfile":
                np.testing.assert_allclose(found.values(), expected["mean"], rtol=2e-6)
                np.testing.assert_allclose(found.errors(), expected["error"], rtol=1e-4)
                continue
            contents = expected["contents"] if found.classname == "TH1F" else np.transpose(expected["rows"])
            np.testing.assert_array_equal(found.values(flow=True), np.asarray(contents, np.float32))
            np.testing.assert_allclose(found.errors(), np.transpose(expected["error"]), rtol=1e-6)
        rows, columns = (about["ntuples"][number] for number in ("100", "200"))
        found = file["100"].arrays(library="np")
        assert sha(np.concatenate([found[column] for column in rows["columns"]])) == rows["sha256_columns_float32_le"]
        same_columns(file["200"], columns)


def test_a_name_without_a_cycle_is_the_newest_that_is_left() -> None:
    about = known("dirs.hbook")["directories"]["//DIRS/DEL"]
    with sapwood.open(FOLDER / "dirs.hbook") as file:
        here = file["DEL"]
        cycles: dict[str, list[int]] = {}
        for key in here.keys(recursive=False):
            number, cycle = key.split(";")
            cycles.setdefault(number, []).append(int(cycle))
            bins = np.arange(1, len(here[key].values()) + 1)
            assert here[key].values().tolist() == (100 * int(number) + 10 * int(cycle) + bins).tolist()
        assert {number: sorted(found, reverse=True) for number, found in cycles.items()} == about["ids_and_cycles"]
        many = file["MANY"]
        assert len(many.keys(recursive=False, cycle=False)) == 500
        for number in range(1, 501):
            found = many[str(number)]
            assert found.values().tolist() == [number, -number] and found.title == f"id{number:4d}"
