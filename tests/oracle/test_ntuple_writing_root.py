"""sapwood writes RNTuples; ROOT and uproot read every value as it was given, with not one word of warning."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from ntuple_columns import NUMBERS, columns

import sapwood
from recipes import run
from sapwood.cli import main
from sapwood.tools.conversion import convert

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(600)]

ENTRIES = 200
N = range(ENTRIES)
CODECS = [None, sapwood.ZLIB(1), sapwood.LZMA(1), sapwood.LZ4(4), sapwood.ZSTD(5)]
TABLE: dict[str, Any] = {
    **columns(ENTRIES),
    "union": ak.Array([f"u{i}" if i % 3 else i / 2 for i in N]),
    "unions": ak.Array([[k if k % 2 else f"u{k}" for k in range(i % 4)] for i in N]),
    "late_option": ak.Array([None if i < ENTRIES // 2 else f"o{i}" for i in N]),
    "set": ak.Array([list(range(i % 4)) for i in N]),
}
TYPES = {"set": "set<int64_t>"}


def read(python: Path, *arguments: str) -> list[dict[str, Any]]:
    """Read RNTuples in a process with ROOT."""
    return [json.loads(line) for line in run(python, "ntuple_writing/read.py", *arguments).splitlines()]


def plain(value: Any) -> Any:
    """Tuples as ROOT prints them."""
    if isinstance(value, tuple):
        return {f"_{i}": plain(one) for i, one in enumerate(value)}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def entries(table: dict[str, Any]) -> list[dict[str, Any]]:
    columns = {name: plain(ak.to_list(values)) for name, values in table.items()}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_root_reads_all_types_codecs_and_sizes(tmp_path: Path, root_python: Path) -> None:
    sizes = [(1, 100), (64, 7), (1 << 20, None)]
    names = []
    for number, codec in enumerate(CODECS):
        for page, cluster in sizes:
            names.append(f"{tmp_path / f'{number}-{page}.root'}:n")
            with sapwood.recreate(names[-1][:-2], compression=codec) as file:
                file.mkrntuple("n", TABLE, field_types=TYPES, page_size=page, cluster_entries=cluster)
    variants = [f"variants:{name}:{field}" for name in names for field in ("union", "unions")]
    done = read(root_python, *names, *variants)
    want = entries({name: values for name, values in TABLE.items() if name not in ("union", "unions")})
    for name, found in zip(names, done, strict=False):
        # ROOT's text has nothing of variants.
        assert [{key: row[key] for key in want[0]} for row in found["entries"]] == want, name
        assert sum(found["clusters"]) == ENTRIES
    for job, found in zip(variants, done[len(names) :], strict=True):
        assert found == ak.to_list(TABLE[job.rpartition(":")[2]]), job


def test_uproot_reads_all_types(tmp_path: Path) -> None:
    for number, codec in enumerate(CODECS):
        for page, cluster in ((1, 100), (100, 90), (1 << 20, None)):
            path = tmp_path / f"{number}-{page}.root"
            with sapwood.recreate(path, compression=codec) as file:
                file.mkrntuple("n", TABLE, field_types=TYPES, page_size=page, cluster_entries=cluster)
            found = uproot.open(path)["n"].arrays()
            for name, values in TABLE.items():
                # uproot 5.7.7 counts the values of variants over all clusters.
                if cluster is None or "union" not in name:
                    assert ak.to_list(found[name]) == ak.to_list(values), (codec, page, name)


def test_root_reads_what_was_added(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        out = file.mkrntuple("n", {"x": "int32"}, cluster_entries=3)
        out.extend({"x": [1, 2, 3, 4]})
        out.add_fields({"y": "float64", "z": "var * int16", "a": ("int8", (2,))})
        out.extend({"x": [5], "y": [0.5], "z": [[7, 8]], "a": [[1, 2]]})
    with sapwood.update(path) as file:
        file["n"].extend({"x": [6], "y": [1.5], "z": [[9]], "a": [[3, 4]]})
    (found,) = read(root_python, f"{path}:n")
    assert found["entries"] == [
        *({"x": x, "y": 0, "z": [], "a": [0, 0]} for x in (1, 2, 3, 4)),
        {"x": 5, "y": 0.5, "z": [7, 8], "a": [1, 2]},
        {"x": 6, "y": 1.5, "z": [9], "a": [3, 4]},
    ]


def test_root_reads_unions_of_fields_that_were_added_late(tmp_path: Path, root_python: Path) -> None:
    values: dict[str, list[Any]] = {
        "int32": [0, 7], "?int32": [None, 7], "string": ["", "a"], "var * int8": [[], [1, 2]],
        "3 * int16": [[0] * 3, [1] * 3], "{a: int32, b: var * float32}": [{"a": 0, "b": []}, {"a": 1, "b": [0.5]}],
    }  # fmt: skip
    jobs, expected = [], []
    for number, (kind, (blank, value)) in enumerate(values.items()):
        one = ak.to_regular(ak.Array([value])) if kind == "3 * int16" else ak.Array([value])
        with sapwood.recreate(tmp_path / "a.root") as file:
            file.mkrntuple("n", {"x": "int32"}).extend({"x": [1, 2, 3]})
        for path in ("b.root", "c.root"):
            with sapwood.recreate(tmp_path / path) as file:
                out = file.mkrntuple("n", {"x": "int32"})
                out.extend({"x": [4, 5]})
                out.add_fields({"g1": kind})
                out.extend({"x": [6], "g1": one})
                out.add_fields({"g2": kind})
                out.extend({"x": [7], "g1": one, "g2": one})
        row = lambda x, *, g1=blank, g2=blank: {"x": x, "g1": g1, "g2": g2}  # noqa: E731
        late = [row(4), row(5), row(6, g1=value), row(7, g1=value, g2=value)]
        for order in ("abc", "bac", "bc"):
            path = tmp_path / f"all{number}{order}.root"
            with sapwood.recreate(path) as file:
                file.merge_rntuples("n", [sapwood.open(tmp_path / f"{one}.root")["n"] for one in order], unite=True)
            jobs.append(f"{path}:n")
            expected.append([e for one in order for e in ([row(1), row(2), row(3)] if one == "a" else late)])
    found = read(root_python, *jobs)
    assert [one["entries"] for one in found] == expected


def test_root_reads_members_that_were_added_to_records(tmp_path: Path, root_python: Path) -> None:
    path = tmp_path / "a.root"
    with sapwood.recreate(path) as file:
        out = file.mkrntuple("n", ak.Array([{"a": {"inner": {"z": 1.0}, "t": "u"}, "x": 5}] * 3))
        out.add_fields({"a.inner.more": "float64", "a.list": "var * int32", "y": "int16"})
        out.extend(ak.Array([{"a": {"inner": {"z": 2.0, "more": 7.5}, "t": "w", "list": [1, 2]}, "x": 6, "y": 1}]))
    (found,) = read(root_python, f"{path}:n")
    assert found["entries"] == [
        *[{"a": {"inner": {"z": 1, "more": 0}, "t": "u", "list": []}, "x": 5, "y": 0}] * 3,
        {"a": {"inner": {"z": 2, "more": 7.5}, "t": "w", "list": [1, 2]}, "x": 6, "y": 1},
    ]


def fields(path: Path, name: str) -> dict[str, tuple[str, str | None]]:
    """Return the type of each field by its path, and the path of what it shows."""
    with sapwood.open(path) as file:
        records = file[name].field_records

    def path_of(number: int) -> str:
        above = records[number].parent_field_id
        own = records[number].field_name
        return own if above == number else f"{path_of(above)}.{own}"

    sources = [record.source_field_id for record in records]
    return {
        path_of(i): (record.type_name, None if sources[i] is None else path_of(sources[i]))
        for i, record in enumerate(records)
    }


def test_root_takes_part_in_conversion_merging_and_attributes(tmp_path: Path, root_python: Path) -> None:
    lists = {f"{kind}_{letter}": ak.Array([[(i + k) % 100 for k in range((i * step) % 4)] for i in N])
             for step, letter in ((1, "b"), (2, "a")) for kind in ("int16", "float32", "float64")}  # fmt: skip
    tree: dict[str, Any] = {kind: TABLE[kind] for kind in NUMBERS if kind != "int8"}
    tree |= {name: ak.values_astype(values, name[:-2]) for name, values in lists.items()}
    tree |= {"text": [f"t{i}" for i in N], "row": np.arange(3 * ENTRIES, dtype=np.float32).reshape(ENTRIES, 3)}
    tree |= {"leaves": ak.Array({"p": np.arange(ENTRIES), "q": np.arange(ENTRIES) / 2})}
    counters = {name: f"n{name[-1]}" for name in lists}
    with sapwood.recreate(tmp_path / "tree.root") as file:
        file.mktree("t", tree, counter_name=lambda name: counters.get(name, f"n{name}"), records={"leaves": "leaves"})
    convert(f"{tmp_path}/tree.root", f"{tmp_path}/converted.root", name="t", table_format="rntuple", step_size="5 kB")
    for number in range(2):
        with sapwood.recreate(tmp_path / f"{number}.root", compression=CODECS[number + 3], index=True) as file:
            table = file.mkrntuple("n", {"x": "int32", "v": "var * float32"}, cluster_entries=70)
            quality = table.add_attribute_set("quality", {"good": "bool", "run": "int32", "note": "string"})
            table.extend({"x": np.arange(ENTRIES) + number, "v": TABLE["lists"]})
            quality.extend({"good": [True, False], "run": [5, 6], "note": ["é", ""]}, [(0, 90), (90, ENTRIES)])
    done = read(
        root_python,
        f"import:{tmp_path}/tree.root:t:{tmp_path}/imported.root",
        f"merge:{tmp_path}/merged.root:{tmp_path}/0.root:{tmp_path}/1.root",
        f"views:{tmp_path}/converted.root:t",
        f"views:{tmp_path}/imported.root:t",
        f"{tmp_path}/merged.root:n",
        f"attributes:{tmp_path}/0.root:n:quality",
        f"attributes:{tmp_path}/0.root:n:sapwood_index",
    )
    converted, imported, merged, attributes, index = done
    assert fields(tmp_path / "converted.root", "t") == fields(tmp_path / "imported.root", "t")
    assert converted == imported
    want = {name: ak.to_list(values) for name, values in tree.items() if name not in ("row", "leaves")}
    want |= {counter: ak.num(lists[name]).to_list() for name, counter in counters.items()}
    assert converted == want
    both = sapwood.open(tmp_path / "converted.root")["t"], sapwood.open(tmp_path / "imported.root")["t"]
    assert both[0].arrays().to_list() == both[1].arrays().to_list()
    assert [row["x"] for row in merged["entries"]] == [*N, *(i + 1 for i in N)]
    joined = sapwood.open(tmp_path / "merged.root")["n"].arrays()
    assert joined["v"].to_list() == 2 * TABLE["lists"].to_list()
    assert attributes == [
        [0, 90, {"good": True, "run": 5, "note": "é"}],
        [90, ENTRIES, {"good": False, "run": 6, "note": ""}],
    ]
    assert [(first, end) for first, end, _ in index] == [(i, min(i + 70, ENTRIES)) for i in range(0, ENTRIES, 70)]
    assert (index[1][2]["x%low"], index[1][2]["x%high"]) == (70, 139)
    assert [name for name in index[1][2] if name.startswith("v%")][:3] == ["v%low", "v%high", "v%count"]
    # Back to a tree: one counter for the lists that share one, and a branch for each part of a record.
    leaves = tree.pop("leaves")
    tree |= {f"leaves_{part}": leaves[part] for part in leaves.fields}
    convert(f"{tmp_path}/imported.root", f"{tmp_path}/back.root", name="t")
    back = sapwood.open(tmp_path / "back.root")["t"]
    assert back.list_counters == counters
    assert set(back.keys()) >= {*tree, "na", "nb"}
    for name in tree:
        assert back[name].array().to_list() == ak.to_list(tree[name]), name


def test_root_reads_skims_slims_splits_and_merges(
    tmp_path: Path, root_python: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = {name: values for name, values in TABLE.items() if name not in ("union", "unions")}
    for number, (codec, cluster) in enumerate([(None, 30), (sapwood.LZ4(4), 7), (sapwood.ZSTD(5), 1000)]):
        with sapwood.recreate(f"{number}.root", compression=codec) as file:
            file.mkrntuple("n", table, field_types=TYPES, cluster_entries=cluster, page_size=200)
    lines = [
        "copy 0.root:n whole.root", "copy 0.root:n codec.root --compression zlib:6",
        "copy 0.root:n skim.root --cut 'int32 % 2 == 0'", "copy 0.root:n slim.root --keep 'li*' --keep text",
        "copy 0.root:n more.root --keep int32 --define twice=2*int32 --start 5 --stop 9",
        "split 0.root:n part{}.root --entries 90", "merge all.root 0.root 1.root 2.root --no-progress",
        "merge again.root 0.root 1.root 2.root --compression zstd:5 --no-progress",
        "merge one.root 0.root 1.root 2.root --recluster --verify --no-progress",
        "merge jobs.root 0.root 1.root 2.root --jobs 2 --no-progress",
        "diff 0.root whole.root", "diff 0.root codec.root", "diff all.root again.root", "diff all.root jobs.root",
    ]  # fmt: skip
    for line in lines:
        assert main(shlex.split(line)) == 0, (line, capsys.readouterr().err)
    names = ["codec", "skim", "slim", "more", "part0", "part1", "part2", "all", "one"]
    done = dict(zip(names, read(root_python, *(f"{tmp_path}/{name}.root:n" for name in names)), strict=True))
    found = {name: one["entries"] for name, one in done.items()}
    rows = entries(table)
    even = [row for row in rows if row["int32"] % 2 == 0]
    assert 0 < len(even) < ENTRIES
    assert found["codec"] == rows == found["part0"] + found["part1"] + found["part2"]
    assert found["skim"] == even
    assert found["slim"] == [{name: row[name] for name in ("text", "lists")} for row in rows]
    assert found["more"] == [{"int32": row["int32"], "twice": 2 * row["int32"]} for row in rows[5:9]]
    assert found["all"] == found["one"] == 3 * rows
    assert done["codec"]["clusters"] == [20, *[30] * 6]
    assert done["all"]["clusters"] == sorted([*[30] * 6, 20, *[7] * 28, 4, 200])
    assert done["one"]["clusters"] == [3 * ENTRIES]
