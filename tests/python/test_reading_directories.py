"""Directories, keys, paths in files, and files as such; uproot says what is right."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uproot
from reading_samples import write_sample

import sapwood
from sapwood.errors import ArgumentError, CorruptError, MissingFileError, NotFoundError, StorageError
from sapwood.objects.dates import unpack_datetime
from sapwood.storage.locate import expand, split_path


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sample(tmp_path_factory.mktemp("directories"))


@pytest.mark.parametrize("recursive", [True, False])
@pytest.mark.parametrize("cycle", [True, False])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"filter_name": "again"},
        {"filter_name": "dir/*"},
        {"filter_name": "/D.*/i"},
        {"filter_name": ["events", lambda name: name.endswith("inner")]},
        {"filter_classname": "TTree"},
        {"filter_classname": "TH*", "filter_name": "*hist"},
        {"filter_name": "nothing"},
    ],
)
def test_listing_agrees_with_uproot(path: Path, recursive: bool, cycle: bool, filters: dict[str, Any]) -> None:
    with uproot.open(path) as theirs, sapwood.open(path) as mine:
        options = {"recursive": recursive, "cycle": cycle, **filters}
        assert mine.keys(**options) == theirs.keys(**options)
        assert list(mine.iterkeys(**options)) == theirs.keys(**options)
        assert mine.classnames(**options) == theirs.classnames(**options)
        assert list(mine.iterclassnames(**options)) == list(theirs.iterclassnames(**options))


def test_directory_is_a_mapping(path: Path) -> None:
    with uproot.open(path) as theirs, sapwood.open(path) as mine:
        assert len(mine) == len(theirs)
        assert list(mine) == list(theirs)
        assert mine["dir"].keys() == theirs["dir"].keys()
        assert mine["dir"].path == theirs["dir"].path == ("dir",)
        assert mine["dir/deep"].object_path == theirs["dir/deep"].object_path
        assert mine.object_path == theirs.object_path == "/"
        assert mine.file_path == theirs.file_path
        trees = mine.items(filter_classname="TTree")
        assert [name for name, _ in trees] == theirs.keys(filter_classname="TTree")
        assert all(isinstance(tree, sapwood.TTree) for _, tree in trees)
        assert [t.name for t in mine.values(filter_classname="TTree")] == ["events", "again", "inner"]
        assert list(mine.itervalues(filter_name="events")) == [mine["events"]]


@pytest.mark.parametrize(
    "where", ["events", "events;1", "dir", "dir/deep/inner", "dir;1/deep;1/inner;1", "/dir//hist", "again;2"]
)
def test_what_is_at_a_path(path: Path, where: str) -> None:
    with uproot.open(path) as theirs, sapwood.open(path) as mine:
        assert where in mine
        assert mine.classname_of(where) == theirs.key(where).fClassName
        assert mine.title_of(where) == theirs.key(where).fTitle
        key, other = mine.key(where), theirs.key(where)
        for name in ("fName", "fTitle", "fClassName", "fCycle", "fSeekKey", "fObjlen", "fNbytes", "fKeylen", "fDatime"):
            assert getattr(key, name) == getattr(other, name), name
        for name in ("object_path", "created_on", "is_compressed", "data_compressed_bytes", "data_uncompressed_bytes"):
            assert getattr(key, name) == getattr(other, name), name
        assert key.name(cycle=True) == other.name(cycle=True)
        assert (key.name(), key.title(), key.classname()) == (other.name(), other.title(), other.classname())


def test_cycles(path: Path) -> None:
    with sapwood.open(path) as file:
        assert [file[f"again;{c}"].num_entries for c in (1, 2, 3)] == [1, 2, 3]
        assert file["again"].num_entries == 3
        assert file["again;*"].num_entries == 3
        with pytest.raises(NotFoundError, match="again;7"):
            file["again;7"]


def test_paths_into_trees(path: Path) -> None:
    with sapwood.open(path) as file:
        assert file["events/jet_pt"].name == "jet_pt"
        assert file["dir/deep/inner/x"].array().tolist() == [0, 1, 2, 3, 4]
        assert file["events:f4"] is file["events"]["f4"]
        assert "events/f4" in file
        assert "events/nothing" not in file
        assert file.classname_of("events/f4") == "TBranch"
        assert file.title_of("events/vec3") == file["events"]["vec3"].title
        with pytest.raises(NotFoundError, match="a branch has no key"):
            file.key("events/f4")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("event", "near it: events"),
        ("dir/deep/iner", "there is: inner"),
        ("dir/nothing/inner", "'nothing' is not in '/dir/'"),
        ("dir/hist/x", "not a directory"),
        ("events/jet_pd", "no such branch: 'jet_pd'"),
    ],
)
def test_missing_names_say_what_is_there(path: Path, where: str, message: str) -> None:
    with sapwood.open(path) as file:
        assert where not in file
        with pytest.raises(KeyError) as error:
            file[where]
        assert isinstance(error.value, sapwood.KeyInFileError)
        assert message in str(error.value)
        assert str(path) in str(error.value)


def test_objects_are_kept_as_often_as_asked(path: Path) -> None:
    with sapwood.open(path) as file:
        assert file["events"] is file["events"]
        assert file["dir"]["deep"] is file["dir/deep"]
    with sapwood.open(path, object_cache=None) as file:
        assert file["events"] is not file["events"]
    with sapwood.open(path, object_cache=1) as file:
        first = file["events"]
        file["again"]
        assert len(file.file.object_cache) == 1
        assert file["events"] is not first


@pytest.mark.parametrize(
    "name",
    [
        "root_version",
        "root_version_tuple",
        "is_64bit",
        "hex_uuid",
        "uuid",
        "fVersion",
        "fCompress",
        "fBEGIN",
        "fEND",
        "file_path",
    ],
)
def test_header_agrees_with_uproot(path: Path, name: str) -> None:
    with uproot.open(path) as theirs, sapwood.open(path) as mine:
        assert getattr(mine.file, name) == getattr(theirs.file, name)
        assert mine.file.size == path.stat().st_size
        assert (mine.file.compression.code, repr(mine.file.compression)) == (101, "ZLIB(1)")
        assert (mine.created_on, mine.modified_on) == (theirs.created_on, theirs.modified_on)
        assert mine.cache_key == theirs.cache_key
        assert mine["events"].cache_key == theirs["events"].cache_key
        assert set(mine.file.streamers) == set(theirs.file.streamers)


def test_every_way_to_name_a_file(path: Path) -> None:
    contents = path.read_bytes()
    ways: list[Any] = [
        str(path), path, f"file://{path}", contents, bytearray(contents), io.BytesIO(contents), {str(path): None},
        {path: None},
    ]  # fmt: skip
    for way in ways:
        with sapwood.open(way) as file:
            assert file["events/i2"].array(entry_stop=3).tolist() == [0, 1, 2]
    objects: list[Any] = [
        f"{path}:dir/deep/inner",
        {str(path): "dir/deep/inner"},
        {path: "/dir/deep/inner;1"},
        {io.BytesIO(contents): "dir/deep/inner"},
    ]
    for way in objects:
        with sapwood.open(way) as tree:
            assert tree.name == "inner"
            assert len(tree["x"].array()) == 5
    with path.open("rb") as stream, sapwood.open(stream) as file:
        assert file.file_path == str(path)
        assert file["events"].num_entries == 1000


def test_urls_go_to_fsspec(path: Path) -> None:
    import fsspec

    with fsspec.open("memory://here/sample.root", "wb") as out:
        out.write(path.read_bytes())
    with sapwood.open("memory://here/sample.root:events", skip_instance_cache=True) as tree:
        assert tree.file.file_path == "memory://here/sample.root"
        assert tree["i2"].array(entry_start=400, entry_stop=403).tolist() == [400, 401, 402]
        assert len(sapwood.concatenate("memory://here/sample.root:events", "i4")) == 1000
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sapwood.open("memory://nowhere.root")
    with pytest.raises(StorageError, match="nosuch"):
        sapwood.open("nosuch://nowhere.root")


def test_what_names_no_file(path: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sapwood.open(tmp_path / "nowhere.root")
    with pytest.raises(MissingFileError):
        sapwood.open(f"{tmp_path}/nowhere.root:tree")
    with pytest.raises(ArgumentError, match="2 entries"):
        sapwood.open({path: "a", "b": "c"})
    with pytest.raises(ArgumentError, match="a file must be a path"):
        sapwood.open(12)
    with pytest.raises(StorageError):
        sapwood.open(tmp_path)
    bad = tmp_path / "bad.root"
    bad.write_bytes(b"not a ROOT file, whatever its name says" * 20)
    with pytest.raises(CorruptError, match=r"bad\.root"):
        sapwood.open(bad)


def test_a_path_object_is_never_split(path: Path, tmp_path: Path) -> None:
    odd = tmp_path / "odd.root:events"
    odd.write_bytes(path.read_bytes())
    with sapwood.open(odd) as file:
        assert "events" in file
    assert expand(odd, lambda _: False) == [(str(odd), None, None)]


def test_uproot_options_have_no_effect_and_others_are_refused(path: Path) -> None:
    with sapwood.open(path, num_workers=4, array_cache=None, timeout=10, handler=None) as file:
        assert file.file.options["num_workers"] == 4
    with pytest.raises(TypeError, match="num_worker"):
        sapwood.open(path, num_worker=4)


def test_closing(path: Path) -> None:
    with sapwood.open(path) as file:
        tree = file["events"]
        assert not file.closed
    assert file.closed
    assert tree.closed
    assert tree.num_entries == 1000
    for read in (tree["f4"].array, tree.arrays, lambda: file["dir"]):
        with pytest.raises(StorageError, match="closed"):
            read()


def test_pickling(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    with sapwood.open(path.name) as file:
        tree = file["events"]
        pickled = pickle.dumps([file, file["dir/deep"], tree, tree["f4"], file.file])
    monkeypatch.chdir(tmp_path)
    file, deep, tree, branch, _ = pickle.loads(pickled)
    assert deep.path == ("dir", "deep")
    assert branch.tree is tree
    assert branch is tree["f4"]
    assert tree.file is file.file
    assert len(branch.array()) == 1000
    with sapwood.open(io.BytesIO(path.read_bytes())) as loose, pytest.raises(TypeError, match="by its path"):
        pickle.dumps(loose)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("file.root", ("file.root", None)),
        ("file.root:tree", ("file.root", "tree")),
        ("dir/file.root:dir/tree;2", ("dir/file.root", "dir/tree;2")),
        ("file.root.1:tree", ("file.root.1", "tree")),
        ("FILE.ROOT: /dir//tree/ ", ("FILE.ROOT", "dir/tree")),
        (r"C:\data\file.root", (r"C:\data\file.root", None)),
        (r"C:\data\file.root:tree", (r"C:\data\file.root", "tree")),
        ("https://host:8080/file.root", ("https://host:8080/file.root", None)),
        ("https://user:word@host/file.root:a/b", ("https://user:word@host/file.root", "a/b")),
        ("root://host//store/file.root:Events", ("root://host//store/file.root", "Events")),
        ("simplecache::https://host/file.root:t", ("simplecache::https://host/file.root", "t")),
        ("zip://inner.root:t::https://host/all.zip", ("zip://inner.root::https://host/all.zip", "t")),
        ("file.dat:tree", ("file.dat:tree", None)),
        ("a.root:b.root:c", ("a.root:b.root", "c")),
    ],
)
def test_splitting_paths(given: str, expected: tuple[str, str | None]) -> None:
    assert split_path(given) == expected
    assert uproot._util.file_object_path_split(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [("lep.hbook:MUONS/20", ("lep.hbook", "MUONS/20")), ("lep.rz:-3;2", ("lep.rz", "-3;2"))],
)
def test_splitting_paths_in_files_that_uproot_has_not(given: str, expected: tuple[str, str]) -> None:
    assert split_path(given) == expected


@pytest.mark.parametrize(
    ("packed", "expected"),
    [
        (0, (1995, 1, 1, 0, 0, 0)),
        (28 << 26 | 4 << 22 | 16 << 17 | 18 << 12 | 22 << 6 | 7, (2023, 4, 16, 18, 22, 7)),
        (0xFFFFFFFF, (2058, 12, 31, 23, 59, 59)),
    ],
)
def test_dates(packed: int, expected: tuple[int, ...]) -> None:
    assert unpack_datetime(packed).timetuple()[:6] == expected


def test_import_needs_nothing_else() -> None:
    code = (
        "import sys, sapwood; sapwood.open; sapwood.iterate; sapwood.TTree\n"
        "heavy = {'awkward', 'pandas', 'pyarrow', 'polars', 'fsspec', 'uproot', 'concurrent.futures'}\n"
        "heavy &= set(sys.modules)\n"
        "raise SystemExit(f'imported: {heavy}' if heavy else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_names_with_slashes_in_them(tmp_path: Path) -> None:
    with sapwood.recreate(path := tmp_path / "names.root", compression=None) as file:
        file["folder/one_two"] = "inside"
        file["_top"] = "outside"
    # No writer here gives such names; others do.
    path.write_bytes(path.read_bytes().replace(b"one_two", b"one/two").replace(b"_top", b"/top"))
    with sapwood.open(path) as file:
        assert file.keys() == ["folder;1", "folder/one/two;1", "/top;1"]
        assert [str(file[name]) for name in file.keys()[1:]] == ["inside", "outside"]
        assert str(file["/top"]) == "outside"


def test_files_and_trees_in_notebooks(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "f.root") as file:
        file.mktree("t", {f"x{number}": [0, 1] for number in range(120)}, title="<b>bold</b>")
    with sapwood.open(tmp_path / "f.root") as file:
        page = file._repr_html_()
        assert "<td>t;1</td><td>TTree</td><td>&lt;b&gt;bold&lt;/b&gt;</td>" in page and "f.root" in page
        page = file["t"]._repr_html_()
        assert "t: 2 entries" in page and "<td>x0</td><td>int64_t</td><td>int64</td>" in page
        assert "100 of 120 are shown" in page and "x110" not in page
