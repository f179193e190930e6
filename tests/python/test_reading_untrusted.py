"""What a file's author chooses, and the reader did not: names, titles, formulas, members that contradict each other."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

import sapwood
import sapwood.storage.trace
from sapwood import tools, train
from sapwood.cli import main
from sapwood.pages.accesses import maps
from sapwood.show.safe import safe_line, safe_text
from sapwood.table.libraries import Result, library_of

pytestmark = pytest.mark.usefixtures("forked_starts")
GOLDEN = Path(__file__).parent.parent / "golden" / "objects"
STEERING = "\x1b]0;title\x07\x1b[31m\x9b2J\u202egpj.exe\u2066\r"


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """Write a file in which every name and title would steer a terminal."""
    path = tmp_path / "named.root"
    with uproot.recreate(path) as file:
        file.mktree(f"t{STEERING}", {f"b{STEERING}": "int32"}, title=f"title\n{STEERING}")
        file[f"t{STEERING}"].extend({f"b{STEERING}": np.arange(3, dtype=np.int32)})
        file[f"h{STEERING}"] = np.histogram([1.0])
    return path


def steers(text: str) -> bool:
    """Whether a terminal would do more with a text than show it."""
    return any(one in text for one in set(STEERING) - set("]0;title[31m2Jgpj.exe"))


def test_text_is_made_safe_and_ends_of_lines_are_kept_where_wanted() -> None:
    assert safe_line("a\x1b[0m\nb\u202e\x7f\ud800") == r"a\x1b[0m\nb\u202e\x7f\ud800"
    assert safe_text("a\nb\tc\r") == "a\nb\\tc\\r"
    assert safe_line("µ – 12\u2009345 日本 é") == "µ – 12\u2009345 日本 é"


@pytest.mark.parametrize(
    "words",
    [["ls"], ["ls", "-l"], ["ls", "--check"], ["show"], ["show", "-n", "2"], ["schema"], ["schema", "--cpp"],
     ["schema", "--python"], ["advise"]],
    ids=" ".join,
)  # fmt: skip
def test_commands_print_no_control_characters(named: Path, words: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "sapwood", *words, named], capture_output=True, check=False)
    assert done.returncode == 0
    assert not steers(done.stdout.decode()) and not steers(done.stderr.decode())


def run(*words: object) -> subprocess.CompletedProcess[bytes]:
    """Run a command."""
    return subprocess.run([sys.executable, "-m", "sapwood", *map(str, words)], capture_output=True, check=False)


def test_questions_have_no_control_characters(named: Path) -> None:
    before = named.read_bytes()
    command = [sys.executable, "-m", "sapwood", "rootrm", "-i", f"{named}:*"]
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.count(b"(y/n)") == 2 and not steers(done.stdout.decode())
    assert named.read_bytes() == before  # without an answer, nothing is deleted


def test_arguments_that_are_not_known_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """They may be names of files, listed by a pattern of the shell."""
    assert main(["man", STEERING]) == 2
    assert not steers(capsys.readouterr().err)


def test_a_trace_is_shown_without_control_characters(named: Path, tmp_path: Path) -> None:
    """Those are in the names of the file, the tree and the branch."""
    pytest.importorskip("pyarrow", reason="needs pyarrow (pip install sapwood[frames])")
    path, trace, page = named.with_name(f"f{STEERING}.root"), tmp_path / "t.parquet", tmp_path / "t.html"
    named.rename(path)
    recorded = run("trace", "-o", trace, "head", f"{path}:t{STEERING};1")
    shown = run("trace", "show", trace, "--output", page)
    for done in (recorded, shown):
        assert done.returncode == 0, done.stderr
        assert not steers(done.stdout.decode()) and not steers(done.stderr.decode())
    assert set(sapwood.storage.trace.Trace.load(trace)["branch"]) == {"", f"b{STEERING}"}
    assert rb"b\x1b]0;title" in shown.stdout


SAID = "\x1b]0;title\x07\x1b[31m\u202egpj.exe\u2066"
ANSWERS = {
    "reason": f"HTTP/1.1 503 {SAID}\r\nContent-Length: 0\r\n\r\n",
    "body": f"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\n{SAID}",
    "XML": f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n\r\n"
    f"<Error><Code>{SAID}</Code><Message>{SAID}</Message><Region>{SAID}</Region></Error>",
    "type": f"HTTP/1.1 200 OK\r\nContent-Type: {SAID}\r\nContent-Length: 4\r\n\r\nroot",
    "location": f"HTTP/1.1 302 Found\r\nLocation: http://{SAID}/{SAID}\r\nContent-Length: 0\r\n\r\n",
    "relative location": f"HTTP/1.1 302 Found\r\nLocation: /{SAID}\r\nContent-Length: 0\r\n\r\n",
    "range": f"HTTP/1.1 206 OK\r\nContent-Range: bytes {SAID}/9\r\nContent-Length: 4\r\n\r\nroot",
    "status": f"{SAID}\r\n\r\n",
    "later": f"HTTP/1.1 429 {SAID}\r\nRetry-After: {SAID}\r\nContent-Length: 0\r\n\r\n",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_texts_of_servers_reach_the_terminal_without_control_characters(answer: str) -> None:
    class Steering(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

        def do_GET(self) -> None:
            self.wfile.write(ANSWERS[answer].encode())
            self.close_connection = True

        def do_HEAD(self) -> None:
            self.do_GET()

    with ThreadingHTTPServer(("127.0.0.1", 0), Steering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/f.root"
        with pytest.raises(sapwood.SapwoodError) as caught:
            sapwood.open(url, retries=0, timeout=5)
        done = run("ls", url, "--storage", "retries=0", "--storage", "timeout=5")
        server.shutdown()
    # A program that does not expect the error prints it with all that led to it.
    printed = "".join(traceback.format_exception(caught.value))
    assert done.returncode == 1 and done.stderr.startswith(b"sapwood: ")
    for text in (printed, str(caught.value), done.stdout.decode(), done.stderr.decode()):
        assert not steers(text), repr(text)
    if answer == "XML":
        assert "title" in str(caught.value)


def test_json_has_the_names_as_they_are(named: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "sapwood", "ls", "--json", named], capture_output=True, check=True)
    assert f"h{STEERING}" in [key["name"] for key in json.loads(done.stdout)[0]["keys"]]


def test_errors_and_warnings_have_no_control_characters(named: Path) -> None:
    for kind in (sapwood.NotFoundError, sapwood.StorageError, sapwood.SapwoodWarning):
        assert not steers(str(kind(f"no {STEERING}")))
    with sapwood.open(named) as file, pytest.raises(sapwood.SapwoodError) as caught:
        file[f"t{STEERING}"].arrays(f"missing{STEERING}")
    assert not steers(str(caught.value))
    done = subprocess.run(
        [sys.executable, "-m", "sapwood", "ls", "missing\x1b[31m.root"], capture_output=True, check=False
    )
    assert done.returncode == 1 and not steers(done.stderr.decode())


def test_representations_have_no_control_characters(named: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sapwood.open(named) as file:
        tree = file[f"t{STEERING}"]
        tree.show()
        file.file.show_streamers()
        texts = [repr(one) for one in (file, tree, *tree.branches, file.key(f"h{STEERING}"), file[f"h{STEERING}"])]
    assert not any(map(steers, [*texts, capsys.readouterr().out]))


def test_a_listing_keeps_one_line_for_each_key(tmp_path: Path) -> None:
    path = tmp_path / "lines.root"
    with uproot.recreate(path) as file:
        file["a\nforged;1  TTree"] = "text"
    done = subprocess.run([sys.executable, "-m", "sapwood", "ls", path], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == 1


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Write the tree that the formulas work on."""
    path = tmp_path_factory.mktemp("aliases") / "a.root"
    with sapwood.recreate(path) as file:
        file["t"] = {"p": np.arange(100_000.0)}
    return sapwood.open(path)["t"]


@pytest.mark.parametrize(
    "text",
    ["(" * 250 + "p" + ")" * 250, "-" * 20_000 + "p", "+".join(["p"] * 20_000), "p" * 100_000, "-" * 900 + "p"],
    ids=["parentheses", "signs", "a sum", "a long text", "a few signs"],
)
def test_a_formula_too_deep_or_long_is_refused(tree: Any, text: str) -> None:
    with pytest.raises((sapwood.LimitError, sapwood.ArgumentError), match=r"limit|nested"):
        tree.arrays("a", aliases={"a": text})


def test_a_chain_of_aliases_is_bounded(tree: Any) -> None:
    chain = {f"a{i}": f"a{i + 1} + 1" for i in range(5000)} | {"a5000": "p"}
    with pytest.raises(sapwood.LimitError, match="aliases"):
        tree.arrays("a0", aliases=chain)
    deep = {f"a{i}": "-" * 60 + f"a{i + 1}" for i in range(30)} | {"a30": "p"}
    with pytest.raises(sapwood.LimitError, match="nested operations"):
        tree.arrays("a0", aliases=deep)
    short = {f"a{i}": f"a{i + 1} + 1" for i in range(50)} | {"a50": "p"}
    assert tree.arrays("a0", aliases=short)["a0"][0] == 50


@pytest.mark.parametrize("library", ["ak", "np"])
def test_a_formula_cannot_multiply_the_memory(tree: Any, library: str) -> None:
    with pytest.raises(sapwood.LimitError, match="a result of 10000000000 values"):
        tree.arrays("outer", aliases={"outer": "p[:, None] * p[None, :]"}, library=library)


@pytest.mark.parametrize("edges", [(np.nan, np.nan), (np.inf, -np.inf), (0.0, 0.0)])
def test_a_histogram_that_contradicts_itself_raises_an_error_with_its_place(
    tmp_path: Path, edges: tuple[float, float]
) -> None:
    path = tmp_path / "h.root"
    with uproot.recreate(path, compression=None) as file:
        file["histogram"] = np.histogram([0.5, 1.5], bins=4, range=(0, 2))
    data = path.read_bytes()
    path.write_bytes(data.replace(struct.pack(">idd", 4, 0.0, 2.0), struct.pack(">idd", 4, *edges)))
    histogram = sapwood.open(path)["histogram"]
    with pytest.raises(sapwood.UnsupportedError, match=r"TAxis in '/histogram;1' of .*h\.root: .* has no such axis"):
        histogram.to_boost()
    with pytest.raises(sapwood.CorruptError, match="do not fit together"):
        histogram.with_members({"fXaxis": histogram.member("fXaxis").with_members({"fXmin": None})}).to_numpy()
    with pytest.raises(TypeError, match="argument"):
        histogram.values(1, 2, 3)


@pytest.mark.parametrize("library", ["np", "ak", "pd", "pa", "pl"])
def test_two_branches_of_one_name(tmp_path: Path, library: str) -> None:
    """The first is read, with a warning; a branch by its place in the tree is always there."""
    package = {"pd": "pandas", "pa": "pyarrow", "pl": "polars"}.get(library, "numpy")
    pytest.importorskip(package, reason=f"needs {package} (pip install sapwood[frames])")
    path = tmp_path / "twice.root"
    with sapwood.recreate(path, compression=None) as file:
        file["t"] = {"aa": np.arange(3), "ab": np.arange(3) + 10, "c": np.arange(3) + 20}
    path.write_bytes(path.read_bytes().replace(b"\x02ab", b"\x02aa"))
    with sapwood.open(path) as file:
        tree = file["t"]
        assert tree.keys() == ["aa", "aa", "c"]
        with pytest.warns(sapwood.SapwoodWarning, match=r"1 branches have the same path as another one, .*: aa\n"):
            found = tree.arrays(library=library)
        assert len(tree.arrays(["aa", "c"], how=tuple, library=library)) == 2
        assert [list(np.asarray(branch.array(library=library))) for branch in tree.branches] == [
            [0, 1, 2], [10, 11, 12], [20, 21, 22]
        ]  # fmt: skip
        for name, first in (("aa", 0), ("c", 20)):
            assert list(np.asarray(found[name])) == [first, first + 1, first + 2]


def test_a_directory_without_an_identifier(tmp_path: Path) -> None:
    """Directories of version 1 have none."""
    path = tmp_path / "old.root"
    with sapwood.recreate(path, compression=None) as file:
        file["text"] = "text"
    data = bytearray(path.read_bytes())
    (name_bytes,) = struct.unpack_from(">I", data, 28)
    struct.pack_into(">h", data, 100 + name_bytes, 1)
    assert sapwood.open(bytes(data)).uuid.int == 0


@pytest.mark.parametrize(
    ("name", "members", "count"),
    [
        ("entry_lists.root:chosen", {"fN": -(1 << 31)}, len),
        ("entry_lists.root:chosen", {"fN": 4}, len),
        ("entry_lists.root:chosen", {"fN": 4}, lambda found: found.entries),
        ("entry_lists.root:chosen", {"fN": None}, len),
        ("entry_lists.root:chosen", {"fNBlocks": 1}, lambda found: found.entries),
        ("entry_lists.root:chosen", {"fNBlocks": 3}, lambda found: found.entries),
        ("entry_lists.root:events", {"fN": -(1 << 31)}, len),
        ("entry_lists.root:events", {"fN": 4}, lambda found: found.entries),
        ("entry_lists.root:events", {"fN": 2}, lambda found: found.entries),
        ("entry_lists.root:events", {"fSize": 2}, lambda found: found.entries),
        ("standard.root:graph", {"fNpoints": -1}, len),
        ("standard.root:sparse", {"fFilledBins": -1}, len),
        ("standard.root:sparse", {"fFilledBins": 1 << 40}, lambda found: found.coordinates),
        ("standard.root:sparse", {"fFilledBins": 1 << 40}, lambda found: found.contents),
        ("standard.root:vectorD", {"fNrows": -1}, len),
        ("standard.root:vectorD", {"fNrows": 2.5}, len),
    ],
)
def test_a_count_that_cannot_be_is_an_error_with_its_place(
    name: str, members: dict[str, Any], count: Callable[[Any], Any]
) -> None:
    filename, _, key = name.partition(":")
    found = sapwood.open(GOLDEN / filename)[key]
    with pytest.raises(sapwood.CorruptError, match=rf"{key};1.*{filename}"):
        count(found.with_members(members))


@pytest.mark.parametrize(
    ("place", "members"),
    [
        (0, {"fNPassed": 3}),
        (0, {"fN": 3}),
        (0, {"fPassing": False}),
        (0, {"fType": 0}),
        (0, {"fType": -1}),
        (0, {"fType": 2}),
        (0, {"fIndices": np.array([5, 1], np.uint16)}),
        (0, {"fIndices": np.array([5, 5], np.uint16)}),
        (0, {"fIndices": np.array([1, 64_000], np.uint16)}),
        (0, {"fIndices": np.array([1], np.uint16)}),
        (1, {"fNPassed": 2}),
        (1, {"fN": 3999}),
        (1, {"fPassing": False}),
        (1, {"fType": 1}),
        (1, {"fIndices": np.zeros(4000, np.uint16)}),
        (1, {"fIndices": np.full(3999, 1, np.uint16)}),
        (0, None),
    ],
)
def test_a_block_of_an_entry_list_that_contradicts_itself(place: int, members: dict[str, Any] | None) -> None:
    """The list has entries 1 and 5 in a block that lists them, and 70000 in a block with one bit per entry."""
    found = sapwood.open(GOLDEN / "entry_lists.root")["chosen"]
    assert found.entries.tolist() == [1, 5, 70_000]
    blocks = list(found.member("fBlocks"))
    blocks[place] = None if members is None else blocks[place].with_members(members)
    with pytest.raises(sapwood.CorruptError, match=r"chosen;1.*entry_lists.root"):
        _ = found.with_members({"fBlocks": blocks}).entries


def test_an_entry_list_of_too_many_entries_for_the_stored_bytes_is_counted_only() -> None:
    """Blocks that list what they leave out have no bytes for their entries."""
    found = sapwood.open(GOLDEN / "entry_lists.root")["chosen"]
    block = found.member("fBlocks")[0].with_members({"fPassing": False})
    count = 600 * (64_000 - 2)
    many = found.with_members({"fBlocks": [block] * 600, "fNBlocks": 600, "fN": count})
    assert len(many) == count
    with pytest.raises(sapwood.LimitError, match=f"{count} entries are too many for an array"):
        _ = many.entries
    few = found.with_members({"fBlocks": [block] * 2, "fNBlocks": 2, "fN": 2 * (64_000 - 2)}).entries
    assert few[:5].tolist() == [0, 2, 3, 4, 6] and few[-1] == 127_999 and len(few) == 2 * (64_000 - 2)


def test_parts_of_an_entry_list_that_contradict_it_are_errors() -> None:
    found = sapwood.open(GOLDEN / "entry_lists.root")["chosen"]
    parted = {"fBlocks": None, "fNBlocks": 0, "fLists": [found, found], "fN": 6}
    assert len(found.with_members(parted)) == 6
    for members in ({"fN": 7}, {"fLists": [found, found.member("fBlocks")[0]]}, {"fLists": [found, None]}):
        with pytest.raises(sapwood.CorruptError, match=r"chosen;1.*entry_lists.root"):
            _ = found.with_members(parted | members).parts
    for members in ({"fBlocks": found.member("fBlocks")}, {"fLists": [found.with_members(parted)]}):
        with pytest.raises(sapwood.UnsupportedError, match=r"chosen;1.*entry_lists.root"):
            _ = found.with_members(parted | members).parts


def test_an_entry_list_of_which_root_counted_too_few_has_all_its_entries() -> None:
    """ROOT does not count an entry that it adds to a block which lists its entries. Removals can make `fN` negative."""
    found = sapwood.open(GOLDEN / "entry_lists.root")["chosen"]
    for count in (2, -1):
        with pytest.warns(sapwood.SapwoodWarning, match=rf"3 entries are .* ROOT counted only {count} of them"):
            assert found.with_members({"fN": count}).entries.tolist() == [1, 5, 70_000]
        with pytest.warns(sapwood.SapwoodWarning, match="3 entries are stored"):
            assert len(found.with_members({"fN": count})) == 3


def test_an_axis_of_another_class_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "h.root"
    with sapwood.recreate(path, compression=None) as file:
        file["h"] = np.histogram([1.0])
    data = bytearray(path.read_bytes())
    place = data.index(b"\x05TAxis", data.index(b"fXaxis"))
    data[place : place + 6] = b"\x05TAxiz"
    path.write_bytes(data)
    with sapwood.open(path) as file:
        with pytest.warns(sapwood.SapwoodWarning, match="TAxiz"):
            found = file["h"]
        for use in (lambda: found.axes, lambda: len(found.axis()), found.to_hist, found.to_numpy):
            with pytest.raises(sapwood.CorruptError, match=r"TH1.* instead of an axis"):
                use()


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Write a small file whose tree claims 2**62 entries."""
    path = tmp_path / "endless.root"
    with sapwood.recreate(path, compression=None) as file:
        file["t"] = {"x": np.arange(12_345)}
    path.write_bytes(path.read_bytes().replace(struct.pack(">q", 12_345), struct.pack(">q", 2**62)))
    return path


@pytest.mark.parametrize("how", ["dask", "dask, numpy", "split", "run"])
def test_steps_of_a_tree_that_claims_too_many_entries_are_not_listed(endless: Path, tmp_path: Path, how: str) -> None:
    class Count(train.Task):
        branches = ["x"]

        def process(self, events: Any) -> dict[str, Any]:
            return {"n": len(events)}

    if how.startswith("dask"):
        pytest.importorskip("dask_awkward", reason="needs dask-awkward (pip install sapwood[dask])")
    with pytest.raises(sapwood.errors.LimitError, match=r"endless\.root.*: more than 1000000 steps"):
        if how == "run":
            train.run(Count(), f"{endless}:t", step_size=1000, threads=1)
        elif how == "split":
            tools.split(f"{endless}:t", str(tmp_path / "part{}.root"), entries=1000)
        else:
            sapwood.dask(f"{endless}:t", step_size=1000, library="np" if "numpy" in how else "ak")


def test_clusters_of_a_trace_are_not_mapped_beyond_a_limit() -> None:
    rows = np.zeros(
        2, [("cause", "U8"), ("file", "U8"), ("tree", "U8"), ("branch", "U8"), ("cluster", "i8"), ("length", "i8")]
    )
    rows["cause"], rows["cluster"] = "decode", [0, 1 << 40]
    with pytest.raises(sapwood.errors.LimitError, match="cluster 1099511627776"):
        maps(rows)  # pyright: ignore[reportArgumentType]


def test_lists_that_would_become_too_many_objects_are_refused(tmp_path: Path) -> None:
    count, path = 4_000_000, tmp_path / "a.root"
    with sapwood.recreate(path, compression=sapwood.ZSTD(5)) as file:
        lists = ak.Array(ak.contents.RegularArray(ak.contents.NumpyArray(np.zeros(count, np.int8)), 1))
        file.mkrntuple("n", {"x": "var * int8"}).extend({"x": ak.from_regular(lists)})
    assert path.stat().st_size < 1 << 20
    with sapwood.open({path: "n"}) as table:
        for read in (table.arrays, table["x"].array, lambda library: table.arrays(["x * 2"], library=library)):
            with pytest.raises(sapwood.LimitError, match=r"objects would take \d+ bytes, over 384 times"):
                read(library="np")
        assert len(table.arrays(entry_stop=100_000, library="np")["x"]) == 100_000
        assert len(table.arrays()) == count


def test_values_that_fields_share_count_for_each_of_their_arrays() -> None:
    values = np.zeros(1_000_000)
    shared = Result(("number", values))
    numpy = library_of("np")
    numpy.check([shared] * 50, 1000, "here")
    with pytest.raises(sapwood.LimitError, match=r"of the file: .*\nhere"):
        numpy.check([shared] * 51, 1000, "here")
    values.flags.writeable = False  # is copied
    with pytest.raises(sapwood.LimitError):
        numpy.check([shared] * 50, 1000, "here")
