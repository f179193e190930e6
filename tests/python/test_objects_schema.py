"""The classes of files: `file.streamers` as uproot has it, and `sapwood schema` with its three forms."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import uproot

import sapwood
from sapwood.errors import CorruptError, LimitError, NotFoundError, SapwoodError, UnsupportedError
from sapwood.files.classes import open_streamers
from sapwood.schema import StreamerInfo, Streamers, dataclasses, headers

GOLDEN = Path(__file__).parent.parent / "golden" / "objects"
SHAPES = GOLDEN / "memberwise.root"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sapwood", "schema", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("name", ["standard", "memberwise"])
def test_streamers_as_in_uproot(name: str) -> None:
    with sapwood.open(GOLDEN / f"{name}.root") as mine, uproot.open(GOLDEN / f"{name}.root") as theirs:
        ours, others = mine.file.streamers, theirs.file.streamers
        assert set(ours) == set(others)
        compared = 0
        for classname, versions in others.items():
            assert set(ours[classname]) == set(versions)
            for version, other in versions.items():
                info = ours[classname][version]
                text, expected = io.StringIO(), io.StringIO()
                info.show(text)
                other.show(expected)
                assert text.getvalue() == expected.getvalue()
                assert (info.name, info.typename, info.class_version) == (other.name, other.typename, version)
                assert info.checksum == other.member("fCheckSum") == info.member("fCheckSum")
                assert [e.name for e in info.elements] == [e.name for e in other.elements]
                compared += 1
            assert mine.file.streamer_named(classname).class_version == max(versions)
            assert [i.class_version for i in mine.file.streamers_named(classname)] == [
                i.class_version for i in theirs.file.streamers_named(classname)
            ]
        assert compared > 20
        assert mine.file.streamer_named("Nothing") is None
        text = io.StringIO()
        mine.file.show_streamers(stream=text)
        assert text.getvalue().count("\n\n") == len(ours.infos()) - 1


def test_elements_say_what_they_are() -> None:
    with sapwood.open(SHAPES) as file:
        info = file.file.streamer_named("Numbers")
        assert isinstance(info, StreamerInfo)
        elements = {element.name: element for element in info.members}
        assert (elements["fGrid"].shape, elements["fGrid"].typename, elements["fGrid"].array_length) == (
            (2, 3),
            "short",
            6,
        )
        assert (elements["fSome"].count_name, elements["fSome"].typename) == ("fCount", "float*")
        assert elements["fBool"].member("fType") == elements["fBool"].fType == 18
        assert [base.base_version for base in file.file.streamer_named("Both").bases] == [2, 4]
        for thing in (info, elements["fGrid"]):
            with pytest.raises(NotFoundError, match="has no member 'fNothing'"):
                thing.member("fNothing")


def test_only_what_a_key_needs() -> None:
    whole = open_streamers(str(SHAPES))
    assert {"Both", "Left", "Right", "TObject", "Numbers"} <= set(whole)
    assert set(open_streamers(f"{SHAPES}:both")) == {"Both", "Left", "Right", "TObject", "TString"} & set(whole)
    # A pointer may lead to objects of classes that the class itself does not name.
    assert {"Pointers", "TNamed", "Both"} <= set(open_streamers(f"{SHAPES}:pointers"))
    # Of an object that cannot be read, the class; this one is not described.
    assert not open_streamers(f"{SHAPES}:secret")
    with pytest.raises(NotFoundError):
        open_streamers(f"{SHAPES}:nothing")


def test_the_command_shows_classes() -> None:
    done = run(f"{SHAPES}:both")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Both (v1, 0x" in done.stdout and ": Left (v2), Right (v4)\n" in done.stdout
    assert "    fRight: double (TStreamerBasicType)\n" in done.stdout
    heads = [line.partition(" ")[0] for line in done.stdout.splitlines() if line and line[0] != " "]
    assert heads[:3] == ["Both", "Left", "Right"] and "TObject" in heads[3:]  # the user's classes first
    missing = run(f"{SHAPES}:nothing")
    assert missing.returncode != 0 and missing.stderr.startswith("sapwood: ") and "nothing" in missing.stderr


def test_json_says_everything() -> None:
    done = run(SHAPES, "--json")
    classes: list[dict[str, Any]] = json.loads(done.stdout)
    with sapwood.open(SHAPES) as file:
        assert len(classes) == len(file.file.streamers.infos())
    [both] = [one for one in classes if one["name"] == "Both"]
    assert both["elements"][0] == {"kind": "Base", "name": "Left", "version": 2}
    assert both["elements"][2]["type"] == "int" and both["elements"][2]["code"] == 3


def test_dataclasses_take_the_members_of_models(tmp_path: Path) -> None:
    done = run(SHAPES, "--python", "-o", tmp_path / "classes.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    module = runpy.run_path(str(tmp_path / "classes.py"))
    with sapwood.open(SHAPES) as file:
        for name in ("Numbers", "Containers", "Pointers"):
            model = file[name.lower()]
            made = module[name](**{k: v for k, v in model.all_members.items() if not k.startswith("@")})
            assert {"fBits", "fUniqueID", *vars(made)} >= {member.lstrip("@") for member in model.all_members}
        both = module["Both"](fLeft=1, fBoth=2)
        assert (both.fRight, both.fLabel, isinstance(both, module["Left"])) == (0.0, "", True)


def test_headers_declare_all_classes_of_the_file(tmp_path: Path) -> None:
    done = run(SHAPES, "--cpp", "-o", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    header, links = ((tmp_path / "out" / name).read_text() for name in ("classes.h", "LinkDef.h"))
    assert "class Both : public Left, public Right {" in header
    assert "ClassDefOverride(Both, 1)" in header
    assert "float *fSome = nullptr; //[fCount]" in header
    assert "#include <TNamed.h>" in header and "class TNamed" not in header
    assert "#pragma link C++ class Both+;" in links
    assert run(SHAPES, "--cpp").stdout == header


def element(name: str, **members: Any) -> dict[str, Any]:
    basic = {
        "class": "TStreamerBasicType", "fName": name, "fTitle": "", "fType": 3, "fSize": 4, "fArrayLength": 0,
        "fArrayDim": 0, "fMaxIndex": [0] * 5, "fTypeName": "int", "fBaseVersion": 1, "fCountName": "",
        "fCountClass": "", "fCountVersion": 0, "fSTLtype": 0, "fCtype": 0,
    }  # fmt: skip
    return basic | members


@pytest.mark.parametrize("make", [headers, dataclasses])
@pytest.mark.parametrize(
    ("name", "one"),
    [
        ('A"""\nimport os', element("x")),
        ("A", element("x;\nint y")),
        ("A", element("x", fTypeName="int; int")),
        ("A", element("x", fTypeName='"')),
        ("A{};", element("x")),
    ],
)
def test_names_that_are_none_do_not_get_into_code(make: Any, name: str, one: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="is not a C"):
        make(Streamers([StreamerInfo(name, 1, 0, [one])]))


def test_without_own_classes_nothing_is_declared(tmp_path: Path) -> None:
    done = run(GOLDEN / "standard.root", "--cpp", "-o", tmp_path)
    assert done.returncode == 0 and "only classes of ROOT itself, which ROOT reads without a library" in done.stderr
    assert "\nclass " not in (tmp_path / "classes.h").read_text()
    assert '#pragma link C++ defined_in "classes.h";' in (tmp_path / "LinkDef.h").read_text()


def test_enumerations_in_maps_have_their_width() -> None:
    def half(name: str, typename: str, kind: int) -> dict[str, Any]:
        return element(name, fTypeName=typename, fType=kind)

    typename = "map<int,Narrow>"
    stl = element("m", **{"class": "TStreamerSTL"}, fTypeName=typename, fType=500, fSTLtype=4, fCtype=61)
    pair = StreamerInfo("pair<int,Narrow>", 1, 0, [half("first", "int", 3), half("second", "Narrow", 1)])
    whole = Streamers([StreamerInfo("A", 1, 0, [stl, element("n", fTypeName="Narrow")]), pair])
    header, links = headers(whole)
    assert "enum Narrow : char {};" in header and "   alignas(int) Narrow n{}; //\n" in header
    assert "class Narrow" not in header and "#pragma link C++ enum Narrow;" in links
    assert whole.reachable([typename]) == {"pair<int,Narrow>"}
    assert ("pair<int,Narrow>", 1) in whole.dependencies("A")


def test_the_checksum_tells_standard_arrays() -> None:
    grid = element("g", fType=23, fArrayLength=2, fArrayDim=1, fMaxIndex=[2, 0, 0, 0, 0])
    # As ROOT 6.40 has them for structures with such a member.
    for name, checksum, line in (
        ("nA::A", 2789036, "int g[2]{};"),
        ("nB::A", 1161792214, "std::array<int, 2> g{};"),
    ):
        assert f"   {line} //\n" in headers(Streamers([StreamerInfo(name, 1, checksum, [grid])]))[0]


def test_classes_behind_pointers_are_reachable() -> None:
    def base(name: str) -> dict[str, Any]:
        return element(name, **{"class": "TStreamerBase"}, fTypeName="BASE", fType=0)

    pointer = element("p", **{"class": "TStreamerObjectAnyPointer"}, fTypeName="const A*", fType=69)
    infos = {"A": [], "B": [base("A")], "C": [base("B")], "D": [pointer], "E": [base("D")]}
    streamers = Streamers(StreamerInfo(name, 1, 0, elements) for name, elements in infos.items())
    assert streamers.reachable(["D"]) == {"A", "B", "C", "D"}
    assert streamers.reachable(["E"]) == {"A", "B", "C", "D", "E"}
    assert streamers.reachable(["std::vector<B*>"]) == {"A", "B", "C"}
    assert streamers.reachable(["std::vector<B>"]) == {"A", "B"}


def test_comments_stay_comments() -> None:
    streamers = Streamers([StreamerInfo("A", 1, 0, [element("x", fTitle="a\nb \\"), element("y", fTitle="*/ '''")])])
    assert "   int x{}; //a b\n   int y{}; //*/ '''\n" in headers(streamers)[0]
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(dataclasses(streamers), namespace)
    assert namespace["A"](x=1).y == 0


def test_types_nested_too_deep_are_refused() -> None:
    deep = "a<" * 5000 + ">" * 5000
    streamers = Streamers([StreamerInfo("A", 1, 0, [element("x", fTypeName=deep, **{"class": "TStreamerObjectAny"})])])
    for use in (headers, lambda s: s.dependencies("A")):
        with pytest.raises(UnsupportedError, match="nests templates more than"):
            use(streamers)


def base(name: str) -> dict[str, Any]:
    return element(name, **{"class": "TStreamerBase", "fTypeName": "BASE", "fType": 0})


def held(name: str, typename: str) -> dict[str, Any]:
    return element(name, **{"class": "TStreamerObjectAny", "fTypeName": typename, "fType": 62})


def described(classes: dict[str, list[dict[str, Any]]]) -> Streamers:
    return Streamers([StreamerInfo(name, 1, 0, elements) for name, elements in classes.items()])


def imported(text: str) -> dict[str, Any]:
    """Run a module that `dataclasses` wrote, and return its names."""
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(compile(text, "classes.py", "exec"), namespace)
    return namespace


RTYPES = """#pragma once
#include <cstdint>
typedef double Double32_t;
typedef float Float16_t;
#define ClassDef(name, version) static int Class_Version() { return version; }
#define ClassDefOverride(name, version) static int Class_Version() { return version; }
"""


def compiles(header: str, tmp_path: Path) -> None:
    """Let a compiler check a header."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++ (apt-get install g++)")
    (tmp_path / "Rtypes.h").write_text(RTYPES)
    (tmp_path / "classes.h").write_text(header)
    command = [
        "g++",
        "-std=c++17",
        "-fsyntax-only",
        "-w",
        "-I",
        str(tmp_path),
        "-x",
        "c++",
        str(tmp_path / "classes.h"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]


def test_classes_have_different_names_that_hide_none_of_the_module(tmp_path: Path) -> None:
    names = ["np", "list", "int32", "dataclass", "Any", "Mapping", "annotations", "str", "tuple"]
    names += ["Foo<int>", "Foo<int*>", "Foo_int", "Foo_int_2", "n::m", "n_m", "None", "match", "x_", "_x"]
    classes = {name: [element("a"), element("class_")] for name in names}
    classes["User"] = [held("one", "Foo<int*>"), held("two", "list"), held("three", "n::m")]
    module = imported(dataclasses(described(classes)))
    assert module["np"].__name__ == "numpy" and module["Foo_int"] is not module["Foo_int_2"]
    made = [one for one in module.values() if getattr(one, "__module__", "") == __name__ and hasattr(one, "a")]
    assert len({one.__name__ for one in made}) == len(made) == len(names)
    hints = module["User"].__annotations__
    assert (hints["one"], hints["two"], hints["three"]) == ("Foo_int_2 | None", "list_2 | None", "n_m | None")
    assert [module["x_"](a=1).a, module["_x"](a=2).a, module["None_"](a=3).a] == [1, 2, 3]
    compiles(
        headers(described({name: [element("a")] for name in ("np", "list", "Foo<int>", "Foo<int*>")}))[0], tmp_path
    )


@pytest.mark.parametrize("name", ["class", "int", "n::new", "A<", "1x", "a b", "A::"])
def test_names_that_cxx_cannot_declare_are_refused(name: str) -> None:
    with pytest.raises(SapwoodError, match=r"cannot be declared|is not a C"):
        headers(described({name: [element("a")]}))
    imported(dataclasses(described({name: [element("a"), element("class")]})))


def test_members_that_cxx_cannot_declare_are_refused() -> None:
    for elements, why in (([element("class")], "cannot be declared"), ([element("a")] * 2, "named a")):
        with pytest.raises(UnsupportedError, match=why):
            headers(described({"A": elements}))
        imported(dataclasses(described({"A": elements})))


def test_bases_that_python_cannot_order(tmp_path: Path) -> None:
    classes = {
        "C": [base("A"), base("B"), element("c")],
        "A": [element("a")],
        "B": [base("A"), element("b")],
    }
    module = imported(dataclasses(described(classes)))
    assert vars(module["C"](a=1, b=2, c=3)) == {"a": 1, "b": 2, "c": 3}
    compiles(headers(described(classes))[0], tmp_path)


def test_long_chains_of_classes(tmp_path: Path) -> None:
    names = [f"K{number}" for number in range(1500)]
    holding = {name: [held("m", inner)] for name, inner in itertools.pairwise(names)} | {names[-1]: [element("z")]}
    assert "class K1499:" in dataclasses(described(holding))
    compiles(headers(described(holding))[0], tmp_path)
    deriving = {name: [base(inner)] for name, inner in itertools.pairwise(names)} | {names[-1]: [element("z")]}
    header = headers(described(deriving))[0]
    assert header.index("class K1499 {") < header.index("class K0 : public K1 {")
    with pytest.raises(LimitError, match="derives from more than 100 others"):
        dataclasses(described(deriving))
    few = dict(list(deriving.items())[-80:])
    assert imported(dataclasses(described(few)))["K1420"](z=3).z == 3
    compiles(headers(described(few))[0], tmp_path)


@pytest.mark.parametrize("make", [headers, dataclasses])
def test_deep_scopes_take_no_longer_than_their_names(make: Any) -> None:
    def seconds(depth: int) -> float:
        scopes = ["::".join(f"S{number}" for number in range(one + 1)) for one in range(depth)]
        streamers = described({name: [element("z")] for name in scopes})
        began = time.process_time()
        with contextlib.suppress(LimitError):
            make(streamers)
        return time.process_time() - began

    assert seconds(600) < 3


def test_scopes_that_compilers_take(tmp_path: Path) -> None:
    scopes = ["::".join(f"S{number}" for number in range(one + 1)) for one in range(102)]
    compiles(headers(described({name: [element("z")] for name in scopes[:101]}))[0], tmp_path)
    with pytest.raises(LimitError, match="is inside more than 100"):
        headers(described({name: [element("z")] for name in scopes}))


def test_titles_are_comments(tmp_path: Path) -> None:
    titles = [
        "x\0y",
        "a\rb",
        "a\x0cb",
        "a\x1ab",
        "a\u2028b",
        "\ud800",
        "\u202e",
        "\\",
        "??/",
        '"' * 3,
        "'" * 3,
        "\\N{x}",
    ]
    streamers = described({"A": [element(f"x{place}", fTitle=title) for place, title in enumerate([*titles, "*/"])]})
    text = dataclasses(streamers)
    (tmp_path / "classes.py").write_text(text, encoding="utf-8")
    made = runpy.run_path(str(tmp_path / "classes.py"))["A"](x3=2)
    assert (made.x3, len(vars(made))) == (2, 13)
    header = headers(streamers)[0]
    assert all(letter == "\n" or letter.isprintable() for letter in text + header)
    compiles(header + "static_assert(sizeof(A) == 13 * sizeof(int));", tmp_path)


def test_types_nested_deeper_than_python_parses() -> None:
    deep = "vector<" * 49 + "A" + ">" * 49
    contained = element("x", fTypeName=deep, **{"class": "TStreamerSTL", "fType": 500})
    assert imported(dataclasses(described({"A": [contained]})))["A"]().x is None


def test_classes_that_hold_each_other_end() -> None:
    streamers = Streamers([StreamerInfo("A", 2, 0, [base("B")]), StreamerInfo("B", 2, 0, [base("A")])])
    assert sorted(streamers.dependencies("A")) == [("A", 2), ("B", 2)]
    with pytest.raises(CorruptError, match="is a part of itself"):
        headers(streamers)
    assert imported(dataclasses(streamers))["B"]().__class__.__name__ == "B"


@pytest.mark.parametrize("name", ["map<int>", "pair<int>", "std::map<>", "vector<>"])
def test_containers_that_lack_an_argument_have_no_python_type(name: str) -> None:
    contained = element("x", fTypeName=name, **{"class": "TStreamerSTL", "fType": 500})
    assert "class A" in dataclasses(Streamers([StreamerInfo("A", 1, 0, [contained])]))


def test_members_of_impossible_shapes_have_no_fixed_size() -> None:
    wrong = element("x", fArrayLength=6, fArrayDim=2, fMaxIndex=[-2, -3, 0, 0, 0], fType=23)
    with pytest.raises(UnsupportedError, match=r"A::x of shape \(-2, -3\)"):
        Streamers([StreamerInfo("A", 1, 0, [wrong])]).strided_members("A")
    base = element("A", **{"class": "TStreamerBase", "fTypeName": "BASE", "fType": 0})
    with pytest.raises(CorruptError, match="class A contains itself"):
        Streamers([StreamerInfo("A", 1, 0, [base])]).strided_members("A")
    names = [f"C{number}" for number in range(40)]

    def twice(name: str) -> list[dict[str, Any]]:
        return [element(one, fTypeName=name, fType=62, **{"class": "TStreamerObjectAny"}) for one in "ab"]

    nested = [StreamerInfo(name, 1, 0, twice(inner)) for name, inner in itertools.pairwise(names)]
    with pytest.raises(LimitError, match="more than 20000 members"):
        Streamers([*nested, StreamerInfo(names[-1], 1, 0, [element("x")])]).strided_members("C0")
