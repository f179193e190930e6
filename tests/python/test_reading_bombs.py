"""Small files whose contents are large: no reading of a file below a megabyte takes 512 MiB."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import awkward as ak
import numpy as np
import pytest

import sapwood
import sapwood.new

pytest.importorskip("xxhash", reason="needs xxhash, to write right checksums (pip install xxhash)")

import crafted_ntuple
from crafted_ntuple import COLLECTION, INDEX64, INT32, LEAF, Crafted, ends, integers, make_column, make_field

MOST = 512 << 20
CHILD = """
import json, resource, sys, warnings
import sapwood

warnings.simplefilter("ignore")


def size(field):
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def outcome(path, code):
    try:
        with sapwood.open(path) as file:
            return str(eval(code, {"file": file}))
    except sapwood.SapwoodError as error:
        return type(error).__name__


plain, path, code = sys.argv[1:]
outcome(plain, code)
# Far above the bound: whatever goes beyond it is seen as memory, not as an allocation that fails.
limit = size("VmSize") + (8 << 30)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with open("/proc/self/clear_refs", "w") as peaks:
    peaks.write("5")
before = size("VmRSS")
found = outcome(path, code)
print(json.dumps([found, size("VmHWM") - before]))
"""


def write_histogram(kind: str) -> Callable[[Path, int], None]:
    """Return a function that writes an empty histogram of as many bytes as are given."""

    def write(path: Path, size: int) -> None:
        dtype = np.dtype({"C": np.int8, "D": np.float64}[kind])
        bins = size // dtype.itemsize
        with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
            file["h"] = sapwood.new.TH((np.zeros(bins, dtype), np.arange(bins + 1.0)), kind)

    return write


def write_text(path: Path, size: int) -> None:
    """Write a text of one letter."""
    with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
        file["text"] = "x" * size


def write_zeros(make: str) -> Callable[[Path, int], None]:
    """Return a function that writes as many bytes of zeros as are given, as a tree or an RNTuple."""

    def write(path: Path, size: int) -> None:
        options = {"basket_size": 15 << 20} if make == "mktree" else {}
        with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
            table = getattr(file, make)("t", {"x": "float64"}, **options)
            zeros = np.zeros(2 << 20)
            for _ in range(max(1, size // zeros.nbytes)):
                table.extend({"x": zeros[: size // 8]})

    return write


def write_flags(path: Path, size: int) -> None:
    """Write an RNTuple of as many bools as are given, 4,096 of them in each entry."""
    with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
        table = file.mkrntuple("n", {"x": np.zeros((0, 4096), bool)})
        flags = np.zeros((1024, 4096), bool)
        for _ in range(max(1, size // flags.nbytes)):
            table.extend({"x": flags[: max(1, size // 4096)]})


def convert_to(suffix: str) -> str:
    """Return code that converts the file."""
    return f"__import__('sapwood.tools').tools.convert(file.file_path, file.file_path + '.{suffix}')"


MERGE = "__import__('sapwood.tools.merging').tools.merging.merge(file.file_path + '.out', [file.file_path] * {})"


def write_histograms(count: int) -> Callable[[Path, int], None]:
    """Return a function that writes empty histograms, of `size` bytes together."""

    def write(path: Path, size: int) -> None:
        bins = size // 8 // count
        with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
            for i in range(count):
                file[f"h{i}"] = sapwood.new.TH((np.zeros(bins), np.linspace(0, 1, bins + 1)), "D")

    return write


def write_graph(path: Path, size: int) -> None:
    """Write a graph of `size` bytes."""
    with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
        file["g"] = sapwood.new.NewObject("TGraph", "", {"fX": np.zeros(size // 16), "fY": np.zeros(size // 16)})


def write_short_lists(path: Path, size: int) -> None:
    """Write an RNTuple of lists of no or one bool, of `size` bytes."""
    counts = np.tile([0, 1], size // 20)
    with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
        lists = ak.unflatten(np.zeros(len(counts) // 2, bool), counts)
        file.mkrntuple("n", {"x": "var * bool"}).extend({"x": lists})


def write_late(path: Path, size: int) -> None:
    """Write an RNTuple of many fields that were added after many clusters."""
    count, clusters = (size // 2000, 6000)
    crafted = Crafted(
        [make_field(i, LEAF, f"x{i}", "std::int64_t") for i in range(count)],
        [make_column(0x0A, 64, i, first=clusters) for i in range(count)],
        [(1, [])] * clusters,
    )
    crafted_ntuple.write(path, crafted)


def write_shown(path: Path, size: int) -> None:
    """Write an RNTuple of many fields that show one field in many clusters."""
    count, clusters = (size // 2000, 6000)
    crafted = Crafted(
        [make_field(0, LEAF, "x", "std::int32_t")]
        + [make_field(1 + i, LEAF, f"p{i}", "std::int32_t", source=0) for i in range(count)],
        [make_column(INT32, 32, 0)],
        [(1, [(i, [integers(7)])]) for i in range(clusters)],
        merge_pages=True,
        aliases=[(0, 1 + i) for i in range(count)],
    )
    crafted_ntuple.write(path, crafted)


def write_sizes(path: Path, size: int) -> None:
    """Write an RNTuple of many fields that show the sizes of one list."""
    count, page, kind = size // 4000, ends(*[0] * 8192), "ROOT::RNTupleCardinality<std::uint64_t>"
    fields = [make_field(0, COLLECTION, "x"), make_field(0, LEAF, "_0", "std::int32_t")]
    fields += [make_field(2 + i, LEAF, f"n{i}", kind, source=0) for i in range(count)]
    columns = [make_column(INDEX64, 64, 0), make_column(INT32, 32, 1)]
    clusters = [(64 * 8192, [(0, [page] * 64), (0, [])])]
    aliases = [(0, 2 + i) for i in range(count)]
    crafted_ntuple.write(path, Crafted(fields, columns, clusters, merge_pages=True, aliases=aliases))


def write_options(path: Path, size: int) -> None:
    """Write an RNTuple of many fields that show one field of optional values, all of which are missing."""
    count, page, kind = size // 4000, ends(*[0] * 8192), "std::optional<std::int32_t>"
    fields = [make_field(0, COLLECTION, "x", kind), make_field(0, LEAF, "_0", "std::int32_t")]
    aliases = list[tuple[int, int]]()
    for place in range(2, 2 + 2 * count, 2):
        fields.append(make_field(place, COLLECTION, f"x{place}", kind, source=0))
        fields.append(make_field(place, LEAF, "_0", "std::int32_t", source=1))
        aliases += [(0, place), (1, place + 1)]
    columns = [make_column(INDEX64, 64, 0), make_column(INT32, 32, 1)]
    clusters = [(64 * 8192, [(0, [page] * 64), (0, [])])]
    crafted_ntuple.write(path, Crafted(fields, columns, clusters, merge_pages=True, aliases=aliases))


TREE, NTUPLE = write_zeros("mktree"), write_zeros("mkrntuple")
MIB = 1 << 20


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "size", "code", "expected"),
    [
        (write_histogram("D"), 156 * MIB, "len(file['h'].values())", str(156 * MIB // 8)),
        (write_histogram("D"), 156 * MIB, "len(file['h'].to_numpy())", "2"),
        (write_histogram("D"), 156 * MIB, "file['h'].variances().sum()", "0.0"),
        (write_histogram("D"), 156 * MIB, "len(file['h'].to_boost().axes)", "1"),
        (write_histogram("D"), 200 * MIB, "file['h'].values()", "LimitError"),
        (write_histogram("C"), 30 * MIB, "len(file['h'].values())", str(30 * MIB)),
        (write_histogram("C"), 30 * MIB, "file['h'].to_numpy()", "LimitError"),
        (write_histogram("C"), 30 * MIB, "file['h'].variances()", "LimitError"),
        (write_histogram("C"), 30 * MIB, "file['h'].to_boost()", "LimitError"),
        (write_text, 150 * MIB, "len(file['text'])", str(150 * MIB)),
        (write_text, 200 * MIB, "len(file['text'])", "LimitError"),
        (TREE, 256 * MIB, "len(file['t']['x'].array())", str(256 * MIB // 8)),
        (TREE, 2048 * MIB, "file['t'].arrays()", "LimitError"),
        (TREE, 2048 * MIB, "file['t']['x'].array(library='np')", "LimitError"),
        (TREE, 2048 * MIB, "sum(len(step) for step in file['t'].iterate())", str(2048 * MIB // 8)),
        (NTUPLE, 256 * MIB, "len(file['t']['x'].array())", str(256 * MIB // 8)),
        (NTUPLE, 2048 * MIB, "file['t'].arrays()", "LimitError"),
        (write_late, 8_000_000, "len(file['n'].arrays())", "6000"),
        (write_late, 8_000_000, "len(file['n'].arrays(library='np'))", "4000"),
        (write_shown, 8_000_000, "file['n'].arrays()", "LimitError"),
        (write_sizes, 4_000_000, "file['n'].arrays()", "LimitError"),
        (write_sizes, 4_000_000, "file['n'].arrays(library='np')", "LimitError"),
        (write_sizes, 4_000_000, "sum(len(step) for step in file['n'].iterate())", str(64 * 8192)),
        (write_options, 4_000_000, "file['n'].arrays()", "LimitError"),
        (write_flags, 256 * MIB, convert_to("parquet"), str(256 * MIB // 4096)),
        (write_flags, 256 * MIB, convert_to("feather"), str(256 * MIB // 4096)),
        (write_short_lists, 80 * MIB, convert_to("h5"), str(80 * MIB // 20 * 2)),
        (write_histograms(6), 384 * MIB, MERGE.format(1), "LimitError"),
        (write_histograms(1), 144 * MIB, f"len({MERGE.format(3)}.inputs)", "3"),
        (write_graph, 30 * MIB, f"len({MERGE.format(3)}.inputs)", "3"),
        (write_graph, 64 * MIB, MERGE.format(3), "LimitError"),
    ],
    ids=[
        "histogram", "histogram with edges", "histogram with variances", "histogram of Boost",
        "histogram beyond the limit", "many bins", "many edges", "many variances", "many bins of Boost", "text",
        "text beyond the limit", "tree", "tree beyond the limit", "branch beyond the limit", "tree in steps", "RNTuple",
        "RNTuple beyond the limit", "late fields", "late fields in NumPy", "fields of one column", "sizes of one list",
        "sizes of one list in NumPy", "sizes of one list in steps", "optional values of one column",
        "bools in Parquet", "bools in Feather", "short lists in HDF5", "merged histograms",
        "one merged histogram", "merged graphs", "large merged graphs",
    ],
)  # fmt: skip
def test_a_small_file_takes_little_memory(
    tmp_path: Path, write: Callable[[Path, int], None], size: int, code: str, expected: str
) -> None:
    plain, bomb = tmp_path / "plain.root", tmp_path / "bomb.root"
    write(plain, 8000)
    write(bomb, size)
    assert bomb.stat().st_size < 1_000_000
    command = [sys.executable, "-c", CHILD, str(plain), str(bomb), code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found, growth = json.loads(done.stdout)
    assert found == expected
    assert growth < MOST, f"{growth >> 20} MiB"
