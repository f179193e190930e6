"""The types of the page: three values each, and the code that writes and reads them with ROOT and with sapwood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Sapwood(NamedTuple):
    """The data that sapwood writes: the type, and the options of `mktree` or `mkrntuple`."""

    of: Any
    options: Mapping[str, Any] = {}


class Case(NamedTuple):
    """A type.

    ``$T``, ``$path`` and ``$given`` in a piece of C++ are the type, the path of the file and the three values.
    A text in place of the code that writes, or of the data that sapwood writes, is the reason why there is none.
    """

    name: str
    cpp: str
    given: str
    values: list[Any]
    tree: Sapwood | str = ""
    ntuple: Sapwood | str = ""
    root_tree: str = 'in_tree<$T>("$path", {$given})'
    root_ntuple: str = 'in_ntuple<$T>("$path", {$given})'
    read_tree: str = 'same_objects<$T>("$path", {$given})'
    """Empty: the leaves one by one."""
    read_ntuple: str = 'same_in_ntuple<$T>("$path", {$given})'
    near: float = 0
    """How far numbers of RNTuples may be from those given, because they are stored in few bits."""
    data: Any = None
    """The values for sapwood, if it takes them in another form."""

    def code(self, template: str, path: str) -> str:
        """Return a piece of C++ with the type, the path and the values filled in."""
        return template.replace("$T", self.cpp).replace("$path", path).replace("$given", self.given)

    def but(self, name: str, **fields: Any) -> Case:
        """Return this case under another name and with other fields."""
        return self._replace(name=name, **fields)


NO_LEAVES = "an RNTuple has no leaf lists; the field of a `struct` takes their place"
NO_COUNTED = "an RNTuple has no counted arrays; `std::vector` takes their place"
NO_CHARACTERS = "an RNTuple has no arrays of characters of any length; `std::string` takes their place"
NO_VALUE = "ROOT makes a branch, but does not write the values: it has no dictionary of the classes of the C++ library"
NO_FLOAT16 = "an RNTuple has no `Float16_t` in classes"
NOT_FIXED = "an RNTuple splits every object; see the row above"
PLAIN_ARRAY = "a field of an array is a `std::array`; see the row below"
NO_CLONES = "an RNTuple has no `TClonesArray`: ROOT has no field for classes that stream themselves"


def _leaf(leaves: str) -> dict[str, str]:
    return {"root_tree": f'in_leaf<$T>("$path", {{$given}}, "{leaves}")', "read_tree": ""}


def _counted(leaves: str, of: str) -> dict[str, str]:
    return {"root_tree": f'in_counted<{of}>("$path", {{$given}}, "{leaves}")', "read_tree": ""}


def _field(of: str, then: str) -> str:
    return (
        f'in_field<$T>("$path", {{$given}}, [] {{ auto field = std::make_unique<{of}>("value"); {then};'
        " return field; })"
    )


def _split(level: int, member_wise: bool = True) -> str:
    return f'in_tree<$T>("$path", {{$given}}, {level}, {str(member_wise).lower()})'


def _number(cpp: str, letter: str, low: str, high: str, values: list[Any], of: str) -> Case:
    given = f"{low}, {high}, 1"
    return Case(cpp, cpp, given, [*values, 1], Sapwood(of), Sapwood(of), **_leaf(f"value/{letter}"))


def _container(cpp: str, given: str, values: list[Any], of: str, **more: Any) -> Case:
    return Case(cpp, cpp, given, values, Sapwood(of), Sapwood(of), **more)


def _class(name: str, of: str, classes: Mapping[str, str], **options: Any) -> tuple[Sapwood, Sapwood]:
    """Return the code that writes objects of a class as a tree and as an RNTuple."""
    every = {"value": name, **classes}
    return Sapwood(of, {"classes": every, "records": "class", **options}), Sapwood(of, {"classes": every})


_TEXTS = ["", "aé", "x" * 300]
_GIVEN_TEXTS = '"", "a\\xc3\\xa9", std::string(300, \'x\')'
_PACKED = "0.5, -3, 7"
_ROWS = [[], [[1, 2]], [[3, 4], [5, 6]]]
_POINTS = [{"x": 1.5, "i": 2}, {"x": -1, "i": 3}, {"x": 0, "i": 4}]
_LISTS = [[], _POINTS[:1], _POINTS[1:]]
_POINT = "{x: float32, i: int32}"
_PATH_POINTS = '("$path", {{}, {{1.5f, 2}}, {{-1, 3}, {0, 4}}}'

_float = _number("float", "F", "-0.5f", "1e-40f", [-0.5, 9.99994610111476e-41], "float32")
_float16 = Case("Float16_t", "float", _PACKED, [0.5, -3, 7], Sapwood("Float16_t"), Sapwood("Float16_t"),
                root_ntuple=_field("ROOT::RField<float>", "field->SetTruncated(21)"), **_leaf("value/f"))  # fmt: skip
_double32 = Case("Double32_t", "double", _PACKED, [0.5, -3, 7], Sapwood("Double32_t"), Sapwood("Double32_t"),
                 root_ntuple='in_field<$T>("$path", {$given}, [] { return ROOT::RFieldBase::Create("value",'
                 ' "Double32_t").Unwrap(); })',
                 **_leaf("value/d"))  # fmt: skip


def _range(case: Case, letter: str, bits: int) -> Case:
    code = _field(f"ROOT::RField<{case.cpp}>", f"field->SetQuantized(-8, 8, {bits})")
    name = f"{case.name}[-8,8,{bits}]"
    return case.but(name, tree=Sapwood(name), ntuple=Sapwood(name), root_ntuple=code, near=0.01,
                    root_tree=f'in_leaf<$T>("$path", {{$given}}, "value/{letter}[-8,8,{bits}]")')  # fmt: skip


_point = Case("Point, split", "Point", "{1.5f, 2}, {-1, 3}, {0, 4}", _POINTS, *_class("Point", _POINT, {}))
_points = Case("std::vector<Point>, split", "std::vector<Point>", "{}, {{1.5f, 2}}, {{-1, 3}, {0, 4}}", _LISTS,
               *_class("Point", f"var * {_POINT}", {}))  # fmt: skip
_clones = Case("TClonesArray, split", "Hit", "", _LISTS, "sapwood writes no objects of `TObject`", NO_CLONES,
               root_tree=f"in_clones{_PATH_POINTS}, 99)", root_ntuple=NO_CLONES,
               read_tree=f"same_clones{_PATH_POINTS})")  # fmt: skip
_derived = Case(
    "class with a base, split", "Derived", "{{1}, 0.5f, {}}, {{2}, 1.5f, {3}}, {{3}, -1, {4, 5}}",
    [{"b": 1, "x": 0.5, "v": []}, {"b": 2, "x": 1.5, "v": [3]}, {"b": 3, "x": -1, "v": [4, 5]}],
    "sapwood writes no base classes", "sapwood writes no base classes",
)  # fmt: skip
_nested = Case(
    "class of classes, split", "Nested",
    "{1, {1.5f, 2}, {}}, {2, {-1, 3}, {{1.5f, 2}}}, {3, {0, 4}, {{-1, 3}, {0, 4}}}",
    [{"i": i + 1, "p": _POINTS[i], "points": _LISTS[i]} for i in range(3)],
    *_class("Nested", f"{{i: int32, p: {_POINT}, points: var * {_POINT}}}",
            {"value.p": "Point", "value.points": "Point"}),
)  # fmt: skip
_lorentz = Case(
    "TLorentzVector, split", "TLorentzVector", "{1, 2, 3, 4}, {0, 0, 0.5, 1}, {-1, 0, 0, 2}",
    [{"fX": x, "fY": y, "fZ": z, "fE": e} for x, y, z, e in ((1, 2, 3, 4), (0, 0, 0.5, 1), (-1, 0, 0, 2))],
    "sapwood writes no base classes", "sapwood writes no base classes",
)  # fmt: skip
_pairs = Case(
    "class with a map and a pair, split", "Pairs", "{1, {}, {1, 0.5f}}, {2, {{1, 0.5f}}, {2, 1.5f}}, {3, {}, {3, -1}}",
    [{"i": 1, "m": [], "one": [1, 0.5]}, {"i": 2, "m": [[1, 0.5]], "one": [2, 1.5]}, {"i": 3, "m": [], "one": [3, -1]}],
    *_class("Pairs", "{i: int32, m: map<int, float>, one: pair<int, float>}", {}),
    data=[{"i": 1, "m": {}, "one": {"first": 1, "second": 0.5}},
          {"i": 2, "m": {1: 0.5}, "one": {"first": 2, "second": 1.5}},
          {"i": 3, "m": {}, "one": {"first": 3, "second": -1.0}}],
)  # fmt: skip

CASES = [
    Case("bool", "bool", "true, false, true", [True, False, True], Sapwood("bool"), Sapwood("bool"),
         **_leaf("value/O")),
    _number("std::int8_t", "B", "-128", "127", [-128, 127], "int8"),
    _number("std::uint8_t", "b", "0", "255", [0, 255], "uint8"),
    _number("std::int16_t", "S", "-32768", "32767", [-32768, 32767], "int16"),
    _number("std::uint16_t", "s", "0", "65535", [0, 65535], "uint16"),
    _number("std::int32_t", "I", "-2147483647", "2147483647", [-(2**31) + 1, 2**31 - 1], "int32"),
    _number("std::uint32_t", "i", "0", "4294967295u", [0, 2**32 - 1], "uint32"),
    _number("std::int64_t", "L", "-9223372036854775807", "9223372036854775807", [-(2**63) + 1, 2**63 - 1], "int64"),
    _number("std::uint64_t", "l", "0", "18446744073709551615u", [0, 2**64 - 1], "uint64"),
    _number("Long_t", "G", "-9223372036854775807", "9223372036854775807", [-(2**63) + 1, 2**63 - 1], "Long_t"),
    _float,
    _number("double", "D", "0.1", "1e308", [0.1, 1e308], "float64"),
    _float16,
    _range(_float16, "f", 12),
    _double32,
    _range(_double32, "d", 12),
    Case("leaf list x/F:i/I", "Point", _point.given, _POINTS, Sapwood(_POINT, {"records": "leaves"}), NO_LEAVES,
         root_ntuple=NO_LEAVES, **_leaf("x/F:i/I")),
    Case("int[2][3]", "std::array<std::array<int, 3>, 2>", "{{{1, 2, 3}, {4, 5, 6}}}, {{{0, 0, 0}, {7, 8, 9}}}, {}",
         [[[1, 2, 3], [4, 5, 6]], [[0, 0, 0], [7, 8, 9]], [[0] * 3] * 2],
         Sapwood("2 * 3 * int32"), Sapwood("2 * 3 * int32"), **_leaf("value[2][3]/I")),
    Case("std::array<float, 3>", "std::array<float, 3>", "{1, 2, 3}, {4, 5, 6}, {7, 8, 9}",
         [[1, 2, 3], [4, 5, 6], [7, 8, 9]], Sapwood("3 * float32"), Sapwood("3 * float32"), read_tree=""),
    Case("float[n]", "std::vector<float>", "{}, {1.5f}, {2, 3, -1}", [[], [1.5], [2, 3, -1]],
         Sapwood("var * float32"), NO_COUNTED, root_ntuple=NO_COUNTED, **_counted("value[n]/F", "float")),
    Case("Double32_t[n], with [-8,8,12]", "std::vector<double>", "{}, {0.5}, {-3, 7}", [[], [0.5], [-3, 7]],
         Sapwood("var * Double32_t[-8,8,12]"), NO_COUNTED, root_ntuple=NO_COUNTED,
         **_counted("value[n]/d[-8,8,12]", "double")),
    Case("int[n][2]", "std::vector<std::array<int, 2>>", "{}, {{1, 2}}, {{3, 4}, {5, 6}}", _ROWS,
         Sapwood("var * 2 * int32"), NO_COUNTED, root_ntuple=NO_COUNTED,
         **_counted("value[n][2]/I", "std::array<int, 2>")),
    Case("char[]", "std::string", _GIVEN_TEXTS, _TEXTS, Sapwood("string"), NO_CHARACTERS,
         root_tree='in_characters("$path", {$given})', root_ntuple=NO_CHARACTERS,
         read_tree='same_texts("$path", {$given})'),
    Case("std::string", "std::string", _GIVEN_TEXTS, _TEXTS, Sapwood("std::string"), Sapwood("string")),
    Case("TString", "TString", '"", "a\\xc3\\xa9", TString(\'x\', 300)', _TEXTS, Sapwood("TString"),
         Sapwood("TString")),
    _container("std::vector<float>", "{}, {1.5f}, {2, 3, -1}", [[], [1.5], [2, 3, -1]], "vector<float>"),
    _container("std::vector<bool>", "{}, {true}, {false, true}", [[], [True], [False, True]], "vector<bool>"),
    _container("std::vector<std::string>", '{}, {""}, {"a", "bc"}', [[], [""], ["a", "bc"]], "vector<string>"),
    _container("std::vector<std::vector<int>>", "{}, {{}}, {{1}, {2, 3}}", [[], [[]], [[1], [2, 3]]],
               "vector<vector<int>>"),
    _container("std::vector<std::vector<std::vector<int>>>", "{}, {{}, {{}}}, {{{1}, {2, 3}}}",
               [[], [[], [[]]], [[[1], [2, 3]]]], "vector<vector<vector<int>>>"),
    Case("std::vector<std::array<int, 2>>", "std::vector<std::array<int, 2>>", "{}, {{1, 2}}, {{3, 4}, {5, 6}}", _ROWS,
         Sapwood("vector<array<int,2>>"), Sapwood("var * 2 * int32"),
         root_tree="ROOT makes a branch, but writes no bytes for the elements"),
    _container("ROOT::RVec<float>", "{}, {1.5f}, {2, 3, -1}", [[], [1.5], [2, 3, -1]], "ROOT::RVec<float>"),
    _container("std::deque<short>", "{}, {5}, {3, 1, 2}", [[], [5], [3, 1, 2]], "deque<short>"),
    _container("std::list<float>", "{}, {5}, {3, 1, 2}", [[], [5], [3, 1, 2]], "list<float>"),
    _container("std::forward_list<int>", "{}, {5}, {3, 1, 2}", [[], [5], [3, 1, 2]], "forward_list<int>"),
    _container("std::set<int>", "{}, {5}, {3, 1, 2}", [[], [5], [1, 2, 3]], "set<int>"),
    _container("std::multiset<double>", "{}, {5}, {3, 1, 1}", [[], [5], [1, 1, 3]], "multiset<double>"),
    _container("std::unordered_set<int>", "{}, {5}, {3, 1, 2}", [[], [5], [1, 2, 3]], "unordered_set<int>"),
    _container("std::vector<std::set<int>>", "{}, {{5}}, {{}, {3, 1}}", [[], [[5]], [[], [1, 3]]], "vector<set<int>>"),
    _container("std::map<int, float>", "{}, {{1, 0.5f}}, {{3, 1}, {2, 4}}", [[], [[1, 0.5]], [[2, 4], [3, 1]]],
               "map<int, float>"),
    _container("std::map<std::string, std::vector<int>>", '{}, {{"a", {}}}, {{"b", {1, 2}}}',
               [[], [["a", []]], [["b", [1, 2]]]], "map<string, vector<int>>"),
    _container("std::multimap<int, double>", "{}, {{1, 0.5}}, {{2, 1}, {2, 4}}", [[], [[1, 0.5]], [[2, 1], [2, 4]]],
               "multimap<int, double>", data=[[], [(1, 0.5)], [(2, 1.0), (2, 4.0)]]),
    _container("std::unordered_map<int, double>", "{}, {{1, 0.5}}, {{3, 1}, {2, 4}}",
               [[], [[1, 0.5]], [[2, 4], [3, 1]]], "unordered_map<int, double>"),
    Case("std::pair<int, float>", "std::pair<int, float>", "{1, 0.5f}, {2, 1.5f}, {3, -1}",
         [[1, 0.5], [2, 1.5], [3, -1]], Sapwood("pair<int, float>"), Sapwood("(int32, float32)")),
    _container("std::vector<std::pair<int, double>>", "{}, {{1, 0.5}}, {{2, 1}, {0, 4}}",
               [[], [[1, 0.5]], [[2, 1], [0, 4]]], "vector<pair<int, double>>",
               data=[[], [(1, 0.5)], [(2, 1.0), (0, 4.0)]]),
    Case("std::tuple<int, float, bool>", "std::tuple<int, float, bool>",
         "{1, 0.5f, true}, {2, 1.5f, false}, {3, -1, true}",
         [[1, 0.5, True], [2, 1.5, False], [3, -1, True]],
         Sapwood("tuple<int, float, bool>"), Sapwood("(int32, float32, bool)")),
    Case("std::optional<float>", "std::optional<float>", "0.5f, std::nullopt, 2.f", [0.5, None, 2],
         Sapwood("?float32"), Sapwood("?float32"), root_tree=NO_VALUE),
    Case("std::unique_ptr<int>", "std::optional<int>", "1, std::nullopt, 3", [1, None, 3],
         Sapwood("unique_ptr<int>"), Sapwood("unique_ptr<int>"),
         root_tree="ROOT makes branches of pointers to objects of classes only",
         root_ntuple='in_unique("$path", {$given})', read_ntuple='same_unique("$path", {$given})'),
    Case("std::variant<int, std::string>", "std::variant<int, std::string>", '1, "two", 3', [1, "two", 3],
         Sapwood("union[int32, string]"), Sapwood("union[int32, string]"), root_tree=NO_VALUE),
    Case("std::bitset<10>", "std::bitset<10>", "1, 1023, 512", [1, 1023, 512],
         Sapwood("bitset<10>"), Sapwood("bitset<10>")),
    Case("enum Colour", "Colour", "red, green, red", [0, 7, 0], Sapwood("Colour"), Sapwood("Colour")),
    Case("class with an enum, split", "Painted", "{red, 1}, {green, 2}, {red, 3}",
         [{"colour": 0, "i": 1}, {"colour": 7, "i": 2}, {"colour": 0, "i": 3}],
         "sapwood writes no enumerations", "sapwood writes no enumerations"),
    _point,
    _point.but("Point, unsplit", tree=_class("Point", _POINT, {}, split_level=0)[0], ntuple=NOT_FIXED,
               root_tree=_split(0), root_ntuple=NOT_FIXED),
    _point.but("Point, streamed field", tree="trees have no streamed fields",
               ntuple="sapwood writes no streamed fields",
               root_tree="trees have no streamed fields",
               root_ntuple='in_field<$T>("$path", {$given}, [] { return std::make_unique<ROOT::RStreamerField>("value",'
               ' "Point"); })'),
    _points,
    _points.but("std::vector<Point>, member-wise", ntuple=NOT_FIXED, root_tree=_split(0), root_ntuple=NOT_FIXED,
                tree=_class("Point", f"var * {_POINT}", {}, split_level=0)[0]),
    _points.but("std::vector<Point>, object-wise", ntuple=NOT_FIXED, root_tree=_split(0, False),
                root_ntuple=NOT_FIXED,
                tree=_class("Point", f"var * {_POINT}", {}, split_level=0, member_wise=False)[0]),
    _nested,
    _nested.but("class of classes, unsplit", ntuple=NOT_FIXED, root_tree=_split(0), root_ntuple=NOT_FIXED,
                tree=_nested.tree._replace(options={**_nested.tree.options, "split_level": 0})),
    _derived,
    _derived.but("class with a base, unsplit", ntuple=NOT_FIXED, root_tree=_split(0), root_ntuple=NOT_FIXED),
    Case("class with texts, split", "Texts", '{"", "", {}}, {"a", "b", {"c"}}, {"d", "", {"", "e"}}',
         [{"s": "", "t": "", "words": []}, {"s": "a", "t": "b", "words": ["c"]},
          {"s": "d", "t": "", "words": ["", "e"]}], "sapwood writes no `TString`", "sapwood writes no `TString`"),
    Case("class with a counted pointer, split", "Arrays",
         "arrays({}, 1, 2), arrays({1.5f}, 3, 4), arrays({2, 3}, 5, 6)",
         [{"n": 0, "counted": [], "fixed": [1, 2]}, {"n": 1, "counted": [1.5], "fixed": [3, 4]},
          {"n": 2, "counted": [2, 3], "fixed": [5, 6]}],
         "sapwood writes no counted pointers in classes", "sapwood writes no counted pointers in classes"),
    Case("class with packed numbers, split", "Packed", "{0.5f, 1, -3}, {-3, 2, 0.5}, {7, 0.5, 7}",
         [{"f": 0.5, "d": 1, "r": -3}, {"f": -3, "d": 2, "r": 0.5}, {"f": 7, "d": 0.5, "r": 7}],
         _class("Packed", "{f: Float16_t, d: Double32_t, r: Double32_t[-8,8,12]}", {})[0], NO_FLOAT16,
         root_ntuple=NO_FLOAT16),
    _pairs,
    _pairs.but("class with a map and a pair, unsplit", ntuple=NOT_FIXED, root_tree=_split(0), root_ntuple=NOT_FIXED,
               tree=_pairs.tree._replace(options={**_pairs.tree.options, "split_level": 0})),
    Case("class with a pointer, unsplit", "Owner", "owner(1), owner(2, 1.5f, 2), owner(3, 0, 4)",
         [{"i": 1, "p": None}, {"i": 2, "p": {"x": 1.5, "i": 2}}, {"i": 3, "p": {"x": 0, "i": 4}}],
         "sapwood writes no pointers", "sapwood writes no pointers", root_tree=_split(0)),
    Case("std::vector<Point *>, unsplit", "Point", "", _LISTS, "sapwood writes no pointers",
         "sapwood writes no pointers", root_tree=f"in_pointers{_PATH_POINTS}, 0)",
         read_tree=f"same_pointers{_PATH_POINTS})", root_ntuple="ROOT has no fields of raw pointers"),
    _clones,
    _clones.but("TClonesArray, unsplit", root_tree=f"in_clones{_PATH_POINTS}, 0)"),
    _lorentz,
    _lorentz.but("TLorentzVector, unsplit", ntuple=NOT_FIXED, root_tree=_split(0), root_ntuple=NOT_FIXED),
    Case("std::vector<TLorentzVector>, split", "std::vector<TLorentzVector>",
         "{}, {{1, 2, 3, 4}}, {{0, 0, 0.5, 1}, {-1, 0, 0, 2}}", [[], _lorentz.values[:1], _lorentz.values[1:]],
         "sapwood writes no base classes", "sapwood writes no base classes"),
]  # fmt: skip
