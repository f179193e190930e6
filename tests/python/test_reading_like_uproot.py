"""Scripts for uproot run with the import changed, and print the same."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from reading_samples import write_sample

import sapwood

STANDARD = str(Path(__file__).parent.parent / "golden" / "objects" / "standard.root")

SCRIPTS = {
    "members of objects": """
with uproot.open(standard) as file:
    h = file["h2F"]
    print(isinstance(h, uproot.Model), h.classname, h.class_version, h.instance_version)
    print(h.member("fEntries"), h.member("fName"), h.member("nothing", none_if_missing=True), h.member("fXaxis").low)
    print(h.has_member("fEntries"), h.has_member("fEntries", all=False), h.member_names, h.base_names_versions)
    print([base.classname for base in h.bases], [base.classname for base in h.base("TH1", "TNamed")])
    print(h.is_instance("TH1"), h.is_instance("TH2"), h.is_instance("TAxis"), len(h.base("TAttLine")))
    print(h.all_members["fScalefactor"], h.base("TAttLine")[0].members, h.num_bytes)
    try:
        h.member("nothing")
    except KeyError:
        print("no such member")
    print(file["graph_errors"].members.keys(), file["graph_asymmetric"].values("x"))
    print(file["graph_asymmetric"].errors("low"), file["graph_asymmetric"].errors("high", "y"))
    print(file["list"][0].member("fTitle"), len(file["list"]), file["string"] + "!", file["parameterI"].value + 1)
    print(file["stack"].member("fHists")[1].name, file["multigraph"].member("fGraphs")[0].member("fNpoints"))
""",
    "histograms": """
import numpy as np
with uproot.open(standard) as file:
    for name in ("h1D", "h2F", "h3I", "labels"):
        h = file[name]
        print(h.name, h.title, h.kind, len(h.axes), h.axis(0).labels(flow=True), h.axis(-1).edges(flow=True).tolist())
        print([getattr(h, what)(flow=True).tolist() for what in ("values", "errors", "variances", "counts")])
        print(h.axis("x").low, h.axis(0).high, h.axis(0).width, h.axes[0].traits.discrete, h.axes[0].traits.circular)
        print(h.axis(0).intervals().tolist()[:2], h.axis(0).centers().tolist()[:2], h.axis(0).widths().tolist()[:2])
        print([np.asarray(part).tolist() for part in h.to_numpy(flow=True, dd=True)[0:1]], h.to_boost().axes.extent)
        print(repr(h.to_hist()), [tuple(map(str, axis[1])) for axis in h.axes], h == h, h.weighted)
""",
    "profiles": """
with uproot.open(standard) as file:
    for name in ("profile_s", "profile2_mean_weighted", "profile3_i"):
        h = file[name]
        print(h.name, h.kind, [axis.edges().tolist() for axis in h.axes], h.member("fErrorMode"), h.values().tolist())
        print([h.errors(flow=True, error_mode=mode).tolist() for mode in ("", "s", "i", "g", 1)])
        print(h.counts(flow=True).tolist(), h.variances(error_mode="").tolist())
""",
    "classes of the file": """
import sys
with uproot.open(standard) as file:
    print(file.streamer_of("h1D").name, file.classname_of("h1D"), file.title_of("graph"))
    print(file.file.streamers["TH1D"].keys(), "TAxis" in file.file.streamers)
    info = file.file.streamer_named("TAxis")
    print(info.name, info.class_version, info.member("fCheckSum"), [e.name for e in info.elements], info.typename)
    print([(e.typename, e.member("fType"), e.title, e.fType) for e in info.elements])
    print(file.file.streamers_named("TAxis")[0].class_version, file.file.streamer_named("TAxis", 1))
    print(sorted(file.file.streamer_dependencies("TAxis")))
    for classname in ("TAxis", "TGraphErrors"):
        file.file.show_streamers(classname, stream=sys.stdout)
""",
    "members of trees": """
tree = uproot.open(path)["events"]
print(tree.member("fEntries"), tree.member("fName"), tree.has_member("fBranches"), tree.class_version)
print([base.classname for base in tree.bases], tree.is_instance("TTree"), tree.is_instance("TNtuple"))
print(tree.all_members["fWeight"], tree.all_members["fLineColor"], len(tree.members["fLeaves"]))
for branch in tree.branches:
    print(branch.member("fName"), branch.member("fBasketSize"), branch.member("fLeaves")[0].member("fLen"))
    print(branch.all_members["fEntries"], branch.is_instance("TBranch"), branch.streamer, branch.class_version)
""",
    "a look around": """
with uproot.open(path) as file:
    print(file.keys(), file.classnames(cycle=False), len(file), "dir/deep" in file)
    for name, classname in file.iterclassnames(filter_classname="TTree"):
        print(name, classname, file[name].num_entries, file[name].title)
    print(file["dir"].keys(recursive=False), file["dir/deep"].path, file.key("events").fCycle)
""",
    "a selection": """
import awkward as ak
import numpy as np
events = uproot.open(f"{path}:events")
arrays = events.arrays(filter_name="/(jet_.*|f[48])/", entry_stop=500)
good = arrays[ak.num(arrays.jet_pt) >= 2]
mass = np.sqrt(2 * good.jet_pt[:, 0] * good.jet_pt[:, 1] * (np.cosh(good.f4) - 1))
print(len(good), ak.sum(np.log1p(np.abs(mass))), good.fields)
jets = events.arrays(["jet_pt", "jet_eta"], how="zip")
print(jets.jet.fields, ak.max(jets.jet.pt), str(jets.type))
""",
    "a loop": """
total, seen = 0, []
for arrays, report in uproot.iterate({path: "events"}, ["f8", "i4"], cut="flag", step_size=300, report=True):
    total += float(arrays.f8.to_numpy().sum())
    seen.append((report.tree_entry_start, report.tree_entry_stop, report.global_entry_start, len(arrays)))
print(total, seen)
print([len(x) for x in uproot.open(path)["events"].iterate("i4", step_size=400, library="np", how=tuple)])
""",
    "a data frame": """
frame = uproot.concatenate([f"{path}:events", f"{path}:events"], ["i4", "f4", "flag"], library="pd")
print(frame.describe().to_string(), frame.index[-1], frame.dtypes.to_dict())
print(uproot.open(path)["events"].arrays(["f4 + 1", "u8"], "i2 < 5", library="pd").to_string())
""",
    "what is missing": """
try:
    uproot.open(path)["evens"]
except KeyError as error:
    print(error.args != ())
try:
    uproot.open(path)["events"].arrays("nothing")
except uproot.KeyInFileError:
    print("no such branch")
try:
    uproot.open("nowhere.root")
except FileNotFoundError:
    print("no such file")
print(list(uproot.num_entries([f"{path}:events"])))
""",
    "branches": """
tree = uproot.open(path)["events"]
for name, branch in tree.items(filter_typename=["float*", "char*"]):
    print(name, branch.typename, branch.num_baskets, sum(branch.basket_entry_start_stop(1)), branch.compressed_bytes)
print(tree["f4"].array(library="np", entry_start=10, entry_stop=13), tree["word"].array()[:3].tolist())
print(tree.typenames(filter_name="jet*"), tree.keys(filter_branch=lambda b: "3" in b.name), tree["vec3"].array().type)
print({name: array.dtype for name, array in tree.arrays(["i1", "flag"], library="np").items()})
print([branch.name for branch in tree][:3], "f4" in tree, tree.get("nothing"), tree.common_entry_offsets()[:3])
""",
    "cursors": """
import struct
chunk = uproot.source.chunk.Chunk.wrap(None, b"\\x05hello\\xff\\x00\\x00\\x00\\x03abcname\\x00" + bytes(range(1, 40)))
cursor = uproot.source.cursor.Cursor(0)
print(cursor.string(chunk, {}), cursor.string(chunk, {}, move=False), cursor.bytestring(chunk, {}), cursor.index)
print(cursor.classname(chunk, {}), cursor, cursor.copy().index, cursor.displacement())
print(chunk.remainder(15, cursor, {})[:2])
print(cursor.field(chunk, struct.Struct(">H"), {}), cursor.fields(chunk, struct.Struct(">HB"), {}, move=False))
print(cursor.array(chunk, 3, uproot.AsDtype(">u2").from_dtype, {}), cursor.byte(chunk, {}), cursor.bytes(chunk, 2, {}))
print(cursor.double32(chunk, {}), cursor.float16(chunk, 12, {}), cursor.index)
cursor.move_to(19)
cursor.skip(2)
print(cursor.index, cursor.refs)
sized = uproot.source.chunk.Chunk.wrap(None, struct.pack(">IH", 0x40000002, 3) + b"after")
cursor = uproot.source.cursor.Cursor(0, origin=2, refs={1: "a", 2: "b"})
print(cursor, cursor.skip_over(sized, {}), cursor.index, cursor.displacement(uproot.source.cursor.Cursor(1)))
short = uproot.source.chunk.Chunk.wrap(None, b"\\x00\\x00\\x00\\x02hi")
print(uproot.source.cursor.Cursor(0).skip_over(short, {}))
""",
    "classes by name": """
with uproot.open(standard) as file:
    h = file["h1D"]
    print(isinstance(h, uproot.class_named("TH1F")), "TTree" in uproot.classes)
    print(isinstance(h, getattr(uproot.models.TH, uproot.classname_encode("TH1D", h.class_version))))
    print(uproot.has_class_named("TH2F"), uproot.has_class_named("Nothing"))
    print(uproot.model.classname_version("Model_A_v3"))
    print(file.classname_of("h1D", encoded=True, version=3), file.classname_of("h1D", encoded=True))
    print(file.key("h1D").classname(encoded=True), file.class_of("h1D") == uproot.classes["TH1D"])
    print(uproot.model.classname_regularize("vector < int >"))
print(uproot.open(path).class_of("events/f4") == uproot.models.TBranch.Model_TBranch)
""",
    "files of objects": """
import pickle
with uproot.open(standard) as file:
    h, info = file["h1D"], file.file.streamer_named("TH1D")
detached = h.file
print(isinstance(detached, uproot.reading.DetachedFile), isinstance(info.file, uproot.reading.DetachedFile))
for one in (detached, pickle.loads(pickle.dumps(h)).file, info.file):
    print(one.file_path, one.uuid, one.hex_uuid, one.root_version, one.root_version_tuple, one.is_64bit)
    print(one.fVersion, one.fCompress, one.fBEGIN, one.fEND, one.fUnits, one.fUUID)
print(info.file_uuid, h.values()[:3], hasattr(detached, "source"))
print(uproot.open(path, object_cache=None).file.object_cache)
""",
    "objects to be written": """
import numpy as np
made = uproot.to_writable(np.histogram([1.0, 2.0, 3.0], bins=3))
print(made.classname, made.values().tolist(), made.title, float(made.member("fEntries")), made.axis().edges().tolist())
make = uproot.writing.identify
axis = make.to_TAxis("xaxis", "title", 4, 0.0, 1.0)
print(axis.member("fNbins"), axis.edges().tolist())
""",
    "texts that are no expressions": """
tree = uproot.open(path)["events"]
for text in ("i4 +", "i4 i2", "(i4"):
    try:
        tree.arrays(text)
    except SyntaxError as error:
        print("not an expression")
key = tree["f4"].basket_key(0)
print(key.fNbytes, key.fObjlen, key.fKeylen, key.fCycle, key.fSeekKey)
""",
    "compressed bytes": """
import numpy as np
data = (np.arange(100_000) % 7).astype(">i4")
for setting in (uproot.ZLIB(4), uproot.LZMA(1), uproot.LZ4(4), uproot.ZSTD(5)):
    packed = uproot.compression.compress(data.tobytes(), setting)
    chunk, cursor, blocks = uproot.source.chunk.Chunk.wrap(None, np.frombuffer(packed, np.uint8)), uproot.Cursor(0), []
    found = uproot.compression.decompress(chunk, cursor, {}, len(packed), data.nbytes, blocks)
    print(found.raw_data.tobytes() == data.tobytes(), {name for name, _, _ in blocks})
    print(sum(size for _, _, size in blocks))
    print(sum(size for _, size, _ in blocks) < len(packed), setting.code_pair, setting.name)
for setting in (None, uproot.ZSTD(0), uproot.ZLIB(9)):
    print(uproot.compression.compress(b"short", setting))
""",
    "bytes of objects": """
import io
import numpy as np
with uproot.open(standard) as file:
    for name in ("h1D", "string"):
        key = file.key(name)
        chunk, cursor = key.get_uncompressed_chunk_cursor()
        print(cursor, len(chunk.raw_data), key.data_cursor.index, cursor.skip_over(chunk, {}))
        cursor.debug(chunk, limit_bytes=8)
data = np.concatenate([np.full(3, 123, "u1"), (np.arange(12, dtype=">f4") * 1.1).view("u1"), np.full(2, 123, "u1")])
chunk, cursor = uproot.source.chunk.Chunk.wrap(None, data), uproot.Cursor(0)
for dtype in (None, ">f4", ">i2", "u1", ">f8"):
    for offset in (0, 3, 25):
        for limit in (None, 45, 20, 5):
            out = io.StringIO()
            cursor.debug(chunk, dtype=dtype, offset=offset, limit_bytes=limit, stream=out)
            print(dtype, offset, limit, out.getvalue())
print(uproot.classname_encode("a::b<c>", unknown=True))
""",
    "constants": """
for name in ("kZSTD", "kAnyP", "kSTL", "kStreamedMemberWise", "kIsOnHeap", "kStartBigFile", "kSTLunorderedmap"):
    print(name, int(getattr(uproot.const, name)))
print(uproot.const.rntuple_col_type_to_num_dict, uproot.const.rntuple_col_num_to_size_dict)
print(list(uproot.const.RNTupleFieldRole), uproot.const.RNTupleLocatorType.LARGE)
""",
    "files that end too early": """
import io, pathlib, tempfile
whole = pathlib.Path(path).read_bytes()
for data in (b"", b"roo", whole[:20], whole[:100], b"<html>" * 200):
    broken = pathlib.Path(tempfile.mkdtemp()) / "broken.root"
    broken.write_bytes(data)
    for source in (str(broken), io.BytesIO(data)):
        try:
            list(uproot.iterate({source: "events"})) if source is str(broken) else uproot.open({source: "events"})
        except (OSError, KeyError) as error:
            print("cannot be read")
        except ValueError:
            print("not ROOT")
    try:
        uproot.update(str(broken))
    except (OSError, NotImplementedError):
        print("cannot be updated")
    except ValueError:
        print("not ROOT")
""",
    "sources of objects": """
import io
for source in (uproot.FSSpecSource, uproot.MemmapSource):
    try:
        uproot.open(io.BytesIO(), handler=source)
    except TypeError:
        print("refused")
""",
    "libraries": """
import numpy as np
import pandas as pd
names = [("a", None), ("b", None)]
series = {"b": pd.Series([1.5, 2.5]), "a": pd.Series([1, 2])}
for how in (None, "outer", tuple, list, dict):
    print(str(uproot.interpretation.library.Pandas().group(series, names, how)))
    print(uproot.interpretation.library.NumPy().group({"a": np.arange(2), "b": np.zeros(2)}, names, tuple))
tree = uproot.open(path)["events"]
print(tree["i4"].array(library=uproot.interpretation.library.NumPy(), entry_stop=3), uproot.default_library)
options = {name: value for name, value in uproot.open.defaults.items() if name != "handler"}
print(uproot.open(path, **options)["events"].num_entries, "compression" in uproot.recreate.defaults)
""",
}


def test_objects_are_instances_of_classes_by_name(tmp_path: Path) -> None:
    tree = sapwood.open(write_sample(tmp_path))["events"]
    models: Any = sapwood.models
    assert isinstance(tree, sapwood.classes["TTree"])
    assert isinstance(tree["f4"], models.TBranch.Model_TBranch)
    assert not isinstance(tree["f4"], sapwood.classes["TTree"])
    key = tree["f4"].basket_key(0)
    assert (key.fName, key.fTitle, key.fClassName) == ("f4", "events", "TBasket")
    with sapwood.open(STANDARD) as file:
        h = file["h1D"]
        assert isinstance(h, sapwood.classes["TH1D"])
        assert isinstance(h, sapwood.classes["TH1"])
        assert isinstance(h, models.TH.Model_TH1D_v3)
        assert not isinstance(h, models.TH.Model_TH1D_v2)
        assert not isinstance("text", sapwood.classes["TH1D"])
        assert sapwood.behavior_of("TParameter<double>") is type(file["parameterD"])
    assert issubclass(models.TH.Model_TH1D_v3, sapwood.classes["TH1D"])
    assert set(sapwood.classes) >= {"TTree", "TH1D"}
    assert len(sapwood.classes) == len(list(sapwood.classes))
    assert repr(sapwood.classes["TH1D"]) == "<class 'Model_TH1D'>"
    with pytest.raises(sapwood.NotFoundError, match="there is no Python class for"):
        sapwood.class_named("Nothing")
    with pytest.raises(sapwood.NotFoundError, match="custom_classes"):
        sapwood.class_named("TH1D", custom_classes={})
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        models.TH.nothing  # noqa: B018


def test_branches_of_containers_are_described_like_in_uproot(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "nested.root") as file:
        file.mktree("t", {"v": "var * var * float64"}).extend({"v": [[[1.0]]]})
    for module in (sapwood, uproot):
        branch: Any = module.open(tmp_path / "nested.root")["t/v"]
        assert branch.member("fClassName") == "vector<vector<double> >"
        assert branch.streamer is None


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_script_runs_with_the_import_changed(name: str, tmp_path: Path) -> None:
    path = str(write_sample(tmp_path))

    def output(module: ModuleType) -> str:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(SCRIPTS[name], {"uproot": module, "path": path, "standard": STANDARD})
        return out.getvalue()

    assert output(sapwood) == output(uproot)


def test_errors_of_missing_keys_have_what_those_of_uproot_have(tmp_path: Path) -> None:
    path = str(tmp_path / "x.root")
    with sapwood.recreate(path) as file:
        file.mktree("t", {"x": "f8", "y": "f8"})
    for one in (sapwood.open(path), sapwood.open(path)["t"]):
        with pytest.raises(sapwood.KeyInFileError) as caught:
            one["nothing"]
        assert caught.value.key == "nothing"
        assert caught.value.file_path == path
        assert [name.partition(";")[0] for name in one.keys(recursive=True)] == list(caught.value.keys or ())
    assert caught.value.object_path == "/t;1"


def test_a_function_of_lists_refuses_two_values(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "x.root") as file:
        file.mktree("t", {"x": [1.0], "y": [2.0]})
    with pytest.raises(sapwood.ArgumentError, match=r"min takes.*minimum\(x, y\)"):
        sapwood.open(tmp_path / "x.root")["t"].arrays("min(x, y)")


def test_an_object_that_was_read_takes_the_name_of_its_key(tmp_path: Path) -> None:
    """Also after its file was closed."""
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["h"] = (np.array([1.0, 2.0]), np.array([0.0, 1.0, 3.0]), "a title")
    with sapwood.open(tmp_path / "a.root") as file:
        histogram = file["h"]
        histogram.all_members  # noqa: B018 - reads it
        with sapwood.recreate(tmp_path / "b.root") as out:
            out["there/new"] = histogram
            out["h"] = histogram
    with sapwood.update(tmp_path / "b.root") as out:
        out["later"] = histogram
    with sapwood.open(tmp_path / "b.root") as file:
        for name in ("there/new", "h", "later"):
            found = file[name]
            assert (found.name, found.title) == (name.rpartition("/")[2], "a title")
            assert found.values().tolist() == [1, 2]
            assert found.axis().edges().tolist() == [0, 1, 3]


def test_a_profile_keeps_its_sums_under_another_name(tmp_path: Path) -> None:
    """They are in the array of a base class of a base class."""
    profile = (
        pytest.importorskip("hist", reason="needs hist (pip install sapwood[run])")
        .Hist.new.Reg(2, 0, 2)
        .Mean()
        .fill([0.5, 1.5, 1.5], sample=[1, 2, 4])
    )
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["p"] = profile
    with sapwood.open(tmp_path / "a.root") as file, sapwood.recreate(tmp_path / "b.root") as out:
        out["q"] = file["p"]
        expected = file["p"].values().tolist()
    with sapwood.open(tmp_path / "b.root") as file:
        assert file["q"].name == "q"
        assert file["q"].values().tolist() == expected == [1, 3]


@pytest.mark.parametrize("dtype", ["datetime64[s]", "complex128", "float16"])
def test_types_that_no_branch_holds_are_type_errors(dtype: str, tmp_path: Path) -> None:
    """Scripts catch uproot's TypeError."""
    with sapwood.recreate(tmp_path / "a.root") as file:
        for kind in (dtype, np.zeros(2, dtype)):
            with pytest.raises(TypeError, match="no branch type holds") as error:
                file.mktree("t", {"x": kind})
            assert isinstance(error.value, sapwood.SapwoodError)


def test_a_directory_has_the_version_of_its_class_with_the_size_of_offsets(tmp_path: Path) -> None:
    """The offset 1000 in the version of a directory stands for 64-bit offsets."""
    with sapwood.recreate(tmp_path / "a.root") as file:
        file.mkdir("d")
    with sapwood.open(tmp_path / "a.root") as file:
        for directory in (file, file["d"]):
            assert directory.is_64bit == (directory.fVersion > 1000)


def test_a_copy_without_a_match_is_a_value_error_and_a_key_error(tmp_path: Path) -> None:
    """Uproot raises a ValueError; `NotFoundError` is a KeyError."""
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["x"] = "text"
    with sapwood.open(tmp_path / "a.root") as source, sapwood.recreate(tmp_path / "b.root") as out:
        for kind in (ValueError, KeyError):
            with pytest.raises(kind, match="passes the filters"):
                out.copy_from(source, filter_name="z*")


def test_a_new_object_takes_the_name_of_its_key(tmp_path: Path) -> None:
    """Whatever name it was made with."""
    made = sapwood.writing.identify.to_TObjString("text"), sapwood.writing.identify.to_TH1x(
        "h1", "title", np.array([0.0, 1.0, 2.0, 0.0]), 3, 3, 3, 1, 1, np.array([0.0, 1.0, 2.0, 0.0]),
        sapwood.writing.identify.to_TAxis("xaxis", "", 2, 0, 1),
    )  # fmt: skip
    with sapwood.recreate(tmp_path / "a.root") as file:
        file["text"], file["out"] = made
    with sapwood.open(tmp_path / "a.root") as file:
        assert (file["out"].name, file["out"].title) == ("out", "title")


def test_what_is_not_compressed_is_not_decompressed() -> None:
    chunk = sapwood.source.chunk.Chunk.wrap(None, b"ab" * 20)
    with pytest.raises(sapwood.CorruptError):
        sapwood.compression.decompress(chunk, sapwood.Cursor(0), {}, 40, 100)
    with pytest.raises(TypeError):
        sapwood.compression.compress(b"ab" * 20, 5)  # pyright: ignore[reportArgumentType]


def test_streamer_infos_walk_through_bases() -> None:
    with sapwood.open(STANDARD) as file:
        info: Any = file.file.streamer_named("TH1D")
        names = [element.name for element in info.walk_members(file.file.streamers)]
        assert info.base_names_versions == [("TH1", 8), ("TArrayD", 1)]
        assert (info.classname, info.is_instance("TNamed"), info.elements[0].is_instance("TStreamerBase")) == (
            "TStreamerInfo", True, True,
        )  # fmt: skip
    assert names[2:4] == ["fName", "fTitle"]
    assert {"fSumw2", "fNcells"} < set(names)
    with uproot.open(STANDARD) as file:
        theirs: Any = file.file.streamer_named("TH1")
        expected = [element.name for element in theirs.walk_members(file.file.streamers)]
    with sapwood.open(STANDARD) as file:
        mine = [element.name for element in file.file.streamer_named("TH1").walk_members(file.file.streamers)]
    assert mine == expected


def test_baskets_without_entries_are_passed_over(tmp_path: Path) -> None:
    path = str(tmp_path / "empty.root")
    with uproot.recreate(path) as file:
        tree = file.mktree("t", {"x": "float64", "n": "var * int32"})
        for count in (3, 0, 2, 0, 0, 1):
            tree.extend({"x": np.arange(float(count)), "n": ak.from_regular(np.zeros((count, 2), np.int32))})
    theirs: Any = uproot.open(path)["t"]
    mine = sapwood.open(path)["t"]
    assert theirs["x"].num_baskets == 6
    assert mine.arrays().tolist() == theirs.arrays().tolist()
    assert [part.x.tolist() for part in mine.iterate(step_size=2)] == [[0.0, 1.0], [2.0, 0.0], [1.0, 0.0]]


def test_code_finds_classes_and_functions_in_uproots_modules(tmp_path: Path) -> None:
    from functools import singledispatch

    import sapwood.writing.identify as identify

    @singledispatch
    def kind(_: object) -> str:
        return "other"

    kind.register(sapwood.TBranch, lambda _: "branch")
    kind.register(sapwood.behaviors.TTree.TTree, lambda _: "tree")
    kind.register(sapwood.behaviors.TH1.Histogram, lambda _: "histogram")
    kind.register(sapwood.models.RNTuple.RField, lambda _: "field")
    axis = identify.to_TAxis("xaxis", "x", 2, 0.0, 2.0)
    sums, bins = [10.0, 10.0, 10.0, 1.0, 2.0], np.array([1, 2, 3, 4.0])
    with sapwood.writing.writable.recreate(tmp_path / "a.root") as file:
        file["h"] = sapwood.writing.to_TH1x("h", "title", bins.astype("f4"), *sums, bins, axis)
        file["t"] = {"x": [1, 2]}
        file.mkrntuple("n", {"x": [1, 2]})
    with sapwood.open(tmp_path / "a.root") as file:
        found = [kind(file[name]) for name in ("h", "t", "t/x", "n/x")]
        assert found == ["histogram", "tree", "branch", "field"]
        assert file["h"].classname == "TH1F" and file["h"].values(flow=True).tolist() == [1, 2, 3, 4]
    assert sapwood.pyroot.from_pyroot is sapwood.from_pyroot
    assert sapwood.writing.dask_write is sapwood.dask_write


def test_more_names_of_uproots_modules(tmp_path: Path) -> None:
    streamers, identify = sapwood.streamers, sapwood.writing.identify
    with sapwood.open(STANDARD) as file:
        info: Any = file.file.streamer_named("TH1D")
    assert isinstance(info, streamers.Model_TStreamerInfo) and isinstance(
        info.elements[0], streamers.Model_TStreamerBase
    )
    assert isinstance(info.elements[0], streamers.Model_TStreamerElement)
    assert not isinstance(info.elements[0], streamers.Model_TStreamerSTL)
    language = sapwood.language.python.PythonLanguage({"twice": lambda x: 2 * x})
    contents = identify.to_TArray(np.array([1, 2, 3, 4], ">f4"))
    assert (contents.dtype, contents.tolist()) == (np.float32, [1, 2, 3, 4])
    for wrong in (np.zeros((2, 2)), np.zeros(2, "u8")):
        with pytest.raises(ValueError, match="a TArray has one dimension of int8, int16, int32, float32, float64"):
            identify.to_TArray(wrong)
    axis = identify.to_TAxis("xaxis", "x", 2, 0.0, 2.0)
    with sapwood.recreate(tmp_path / "a.root") as out:
        out["h"] = identify.to_TH1x("h", "", contents, 10.0, 10.0, 10.0, 1.0, 2.0, None, axis)
        out["t"] = {"x": [1, 2]}
    with sapwood.open(tmp_path / "a.root") as file:
        assert file["h"].classname == "TH1F"
        assert file["t"].arrays("twice(x)", language=language)["twice(x)"].tolist() == [2, 4]


def test_executors_are_not_ignored_silently(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = str(tmp_path / "a.root")
    with sapwood.recreate(path) as file:
        file["t"] = {"x": [1, 2]}
    message = "ThreadPoolExecutor is not used: .* sapwood.set_num_threads sets their number"
    with ThreadPoolExecutor(1) as pool, sapwood.open(path) as file:
        tree: Any = file["t"]
        for read in (
            tree.arrays,
            tree["x"].array,
            lambda **given: list(tree.iterate(**given)),
            lambda **given: sapwood.concatenate({path: "t"}, **given),
            lambda **given: list(sapwood.iterate({path: "t"}, **given)),
            lambda **given: sapwood.open(path, **given),
        ):
            for name in ("decompression_executor", "interpretation_executor"):
                with pytest.warns(sapwood.SapwoodWarning, match=message):
                    read(**{name: pool})
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    read(**{name: uproot.source.futures.TrivialExecutor()})
                    read(**{name: sapwood.source.futures.TrivialExecutor()})


def test_a_program_puts_sapwood_in_the_place_of_uproot(tmp_path: Path) -> None:
    program = """
import sys
import sapwood
sys.modules["uproot"] = sapwood
import uproot
from uproot.behaviors.RNTuple import HasFields
with uproot.recreate("a.root") as file:
    file.mkrntuple("n", {"x": [1, 2]})
with uproot.open("a.root") as file:
    print(isinstance(file["n"], HasFields), file["n"]["x"].__class__.__name__)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True RField\n", "")
