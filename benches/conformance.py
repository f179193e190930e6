"""What sapwood, ROOT, uproot and jsroot read of the same files; `make conformance` writes docs/conformance.md.

    conformance.py --root .venv-oracle/bin/python --jsroot build/jsroot --files FOLDER --keep

Types: ROOT and sapwood write each type as a tree and as an RNTuple, a file each, and every reader's values are compared
with those that were written. Files: what each reader can read of real files, by the version of ROOT that wrote them:
columns (branches or fields) and objects, the first hundred entries. A reader that is not given is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "conformance.md"
SECONDS = 120.0
ENTRIES = 100
READERS = ("sapwood", "ROOT", "uproot", "jsroot")
TREES = ("TTree", "TNtuple", "TNtupleD")
NTUPLE = "ROOT::RNTuple"


class Case(NamedTuple):
    """A type: what C++ calls it, three values in C++, the same in Python, what sapwood calls it; empty: not written."""

    cpp: str
    given: str
    values: list[Any]
    tree: str = ""
    ntuple: str = ""


def _number(cpp: str, low: str, high: str, values: list[Any], name: str) -> Case:
    return Case(cpp, f"{low}, {high}, 1", [*values, 1], name, name)


CASES = [
    Case("bool", "true, false, true", [True, False, True], "bool", "bool"),
    _number("std::int8_t", "-128", "127", [-128, 127], "int8"),
    _number("std::uint8_t", "0", "255", [0, 255], "uint8"),
    _number("std::int16_t", "-32768", "32767", [-32768, 32767], "int16"),
    _number("std::uint16_t", "0", "65535", [0, 65535], "uint16"),
    _number("std::int32_t", "-2147483647", "2147483647", [-(2**31) + 1, 2**31 - 1], "int32"),
    _number("std::uint32_t", "0", "4294967295u", [0, 2**32 - 1], "uint32"),
    _number("std::int64_t", "-9223372036854775807", "9223372036854775807", [-(2**63) + 1, 2**63 - 1], "int64"),
    _number("std::uint64_t", "0", "18446744073709551615u", [0, 2**64 - 1], "uint64"),
    _number("float", "-0.5f", "1e-40f", [-0.5, 9.99994610111476e-41], "float32"),
    _number("double", "0.1", "1e308", [0.1, 1e308], "float64"),
    Case("std::string", '"", "a\\xc3\\xa9", std::string(300, \'x\')', ["", "aé", "x" * 300], "string", "string"),
    Case("std::vector<float>", "{}, {1.5f}, {2, 3, -1}", [[], [1.5], [2, 3, -1]], "var * float32", "var * float32"),
    Case("std::vector<bool>", "{}, {true}, {false, true}", [[], [True], [False, True]], "var * bool", "var * bool"),
    Case("std::vector<std::string>", '{}, {""}, {"a", "bc"}', [[], [""], ["a", "bc"]], "var * string", "var * string"),
    Case("std::vector<std::vector<int>>", "{}, {{}}, {{1}, {2, 3}}", [[], [[]], [[1], [2, 3]]],
         "var * var * int32", "var * var * int32"),
    Case("std::array<float, 3>", "{1, 2, 3}, {4, 5, 6}, {7, 8, 9}", [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
         "3 * float32", "3 * float32"),
    Case("std::vector<std::array<int, 2>>", "{}, {{1, 2}}, {{3, 4}, {5, 6}}", [[], [[1, 2]], [[3, 4], [5, 6]]],
         "var * 2 * int32", "var * 2 * int32"),
    Case("ROOT::RVec<float>", "{}, {1.5f}, {2, 3, -1}", [[], [1.5], [2, 3, -1]]),
    Case("std::set<int>", "{}, {5}, {3, 1, 2}", [[], [5], [1, 2, 3]], "set<int>", "set<int>"),
    Case("std::map<int, float>", "{}, {{1, 0.5f}}, {{3, 1}, {2, 4}}", [[], [[1, 0.5]], [[2, 4], [3, 1]]],
         "map<int, float>", "map<int, float>"),
    Case("std::map<std::string, std::vector<int>>", '{}, {{"a", {}}}, {{"b", {1, 2}}}',
         [[], [["a", []]], [["b", [1, 2]]]],
         "map<string, vector<int>>", "map<string, vector<int>>"),
    Case("std::pair<int, float>", "{1, 0.5f}, {2, 1.5f}, {3, -1}", [[1, 0.5], [2, 1.5], [3, -1]],
         "pair<int, float>", "(int32, float32)"),
    Case("std::tuple<int, float, bool>", "{1, 0.5f, true}, {2, 1.5f, false}, {3, -1, true}",
         [[1, 0.5, True], [2, 1.5, False], [3, -1, True]], "", "(int32, float32, bool)"),
    Case("std::optional<float>", "0.5f, std::nullopt, 2.f", [0.5, None, 2], "", "?float32"),
    Case("std::variant<int, std::string>", '1, "two", 3', [1, "two", 3], "", "union[int32, string]"),
    Case("std::bitset<10>", "1, 1023, 512", [1, 1023, 512]),
    Case("Point", "{1.5f, 2}, {-1, 3}, {0, 4}", [{"x": 1.5, "i": 2}, {"x": -1, "i": 3}, {"x": 0, "i": 4}],
         "{x: float32, i: int32}", "{x: float32, i: int32}"),
    Case("std::vector<Point>", "{}, {{1.5f, 2}}, {{-1, 3}, {0, 4}}",
         [[], [{"x": 1.5, "i": 2}], [{"x": -1, "i": 3}, {"x": 0, "i": 4}]],
         "var * {x: float32, i: int32}", "var * {x: float32, i: int32}"),
    Case("Colour", "red, green, red", [0, 7, 0]),
]  # fmt: skip

NO_BRANCH = ("std::optional", "std::variant")
"""Types of which ROOT makes no branch: it ends the process."""

HEADER = """#include <TFile.h>
#include <TTree.h>
#include <TBranch.h>
#include <TLeaf.h>
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <ROOT/RVec.hxx>
#include <ROOT/RDataFrame.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <algorithm>
#include <type_traits>
#include <array>
#include <bitset>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>
struct Point { float x = 0; int i = 0; };
enum Colour { red = 0, green = 7 };
"""
COMPILED = "vector<vector<int> >;vector<array<int,2> >;map<int,float>;map<string,vector<int> >;set<int>"
"""Containers that ROOT writes only with compiled dictionaries."""
WRITERS = """
template <class T> void in_tree(const char *path, std::vector<T> values) {
   TFile file(path, "RECREATE"); TTree tree("t", "t"); T value{}; tree.Branch("value", &value);
   for (T one : values) { value = one; tree.Fill(); }
   tree.Write();
}
template <class T> void in_ntuple(const char *path, std::vector<T> values) {
   auto model = ROOT::RNTupleModel::Create(); auto value = model->MakeField<T>("value");
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "t", path);
   for (T one : values) { *value = one; writer->Fill(); }
}
"""
READERS_OF_ROOT = """
int same_values = 0;
bool operator==(const Point &a, const Point &b) { return a.x == b.x && a.i == b.i; }
template <class A, class B> bool equal(const A &a, const B &b) {
   if constexpr (std::is_convertible_v<A, B> && !std::is_class_v<B>) return B(a) == b;
   else if constexpr (std::is_same_v<A, B>) return a == b;
   else if constexpr (std::is_constructible_v<B, A>) return B(a) == b;
   else return std::equal(a.begin(), a.end(), b.begin(), b.end());
}
template <class T> bool equal(const ROOT::RVec<T> &a, const ROOT::RVec<T> &b) {
   return std::equal(a.begin(), a.end(), b.begin(), b.end());
}
template <class T> struct Listed { using type = T; };
template <> struct Listed<std::int64_t> { using type = Long64_t; };
template <> struct Listed<std::uint64_t> { using type = ULong64_t; };
template <class T> struct Listed<std::vector<T>> { using type = ROOT::RVec<T>; };
template <class T, size_t N> struct Listed<std::array<T, N>> { using type = ROOT::RVec<T>; };
template <class T> struct IsPairs : std::false_type {};
template <class T, size_t N> struct IsPairs<std::vector<std::array<T, N>>> : std::true_type {};
// RDataFrame has no type for leaves of characters and dies on those of two lengths. Their addresses are set.
int same_texts(const char *path, std::vector<std::string> values) {
   TFile file(path); auto tree = file.Get<TTree>("t"); static char found[1000];
   tree->SetBranchAddress("value", found);
   if (tree->GetEntries() != Long64_t(values.size())) return 0;
   for (size_t i = 0; i < values.size(); i++) if (tree->GetEntry(i) <= 0 || values[i] != found) return 0;
   return 1;
}
template <class T> int same_rows(const char *path, std::vector<T> values) {
   TFile file(path); auto tree = file.Get<TTree>("t"); static typename T::value_type found[100]; int number = -1;
   auto count = tree->GetBranch("value")->GetLeaf("value")->GetLeafCount();
   tree->SetBranchAddress(count->GetBranch()->GetName(), &number);
   tree->SetBranchAddress("value", &found[0][0]);
   if (tree->GetEntries() != Long64_t(values.size())) return 0;
   for (size_t i = 0; i < values.size(); i++)
      if (tree->GetEntry(i) < 0 || number != int(values[i].size()) ||
          !std::equal(found, found + number, values[i].begin()))
         return 0;
   return 1;
}
bool is_leaf(const char *path) {
   TFile file(path); auto branch = file.Get<TTree>("t")->GetBranch("value");
   return branch->IsA() == TBranch::Class();
}
template <class T> int same_in_tree(const char *path, std::vector<T> values) {
   if constexpr (std::is_same_v<T, std::string>) if (is_leaf(path)) return same_texts(path, values);
   if constexpr (IsPairs<T>::value) if (is_leaf(path)) return same_rows(path, values);
   ROOT::RDataFrame frame("t", path);
   std::string kind = frame.GetColumnType("value");
   auto compare = [&](auto found) {
      if (found->size() != values.size()) return 0;
      for (size_t i = 0; i < values.size(); i++) if (!equal(found->at(i), T(values[i]))) return 0;
      return 1;
   };
   if constexpr (!std::is_same_v<typename Listed<T>::type, T>)
      if (kind.rfind("ROOT::VecOps", 0) == 0 || kind.find("Long64_t") != std::string::npos)
         return compare(frame.Take<typename Listed<T>::type>("value"));
   return compare(frame.Take<T>("value"));
}
template <class T> int same_in_ntuple(const char *path, std::vector<T> values) {
   auto reader = ROOT::RNTupleReader::Open("t", path);
   auto view = reader->GetView<T>("value");
   if (reader->GetNEntries() != values.size()) return 0;
   for (size_t i = 0; i < values.size(); i++) if (!equal(view(i), T(values[i]))) return 0;
   return 1;
}
"""


PARTS = [("first", "second"), ("key", "value"), ("0", "1"), ("_0", "_1"), ("0", "1", "2"), ("_0", "_1", "_2")]
"""What readers call the parts of a pair or tuple."""
SAME = "same"
"""What the reader says that compared the values by itself."""


def normal(value: Any, case: str = "") -> Any:
    """Return a value as lists, texts, numbers and members: readers give maps and pairs in their own forms."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bool):
        return int(value)
    if "bitset" in case and isinstance(value, list) and len(value) == 10:
        return sum(int(bit) << place for place, bit in enumerate(value))
    if isinstance(value, int):
        return value if abs(value) <= 2**53 else str(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, Mapping):
        members = {str(name): normal(one, case) for name, one in value.items() if name != "_typename"}
        for names in (
            ("first", "second"),
            ("key", "value"),
            ("0", "1"),
            ("_0", "_1"),
            ("0", "1", "2"),
            ("_0", "_1", "_2"),
        ):
            if members.keys() == set(names):
                return [members[name] for name in names]
        if members and all(name.startswith("value.") for name in members):
            # A split collection, member by member.
            rows = zip(*members.values(), strict=True)
            names = [name.removeprefix("value.") for name in members]
            return [normal(dict(zip(names, row, strict=True)), case) for row in rows]
        if "map" in case:
            return sorted(([_key(name), one] for name, one in members.items()), key=repr)
        return members
    if isinstance(value, list | tuple | set | frozenset):
        found = [normal(one, case) for one in value]
        pairs = "map" in case and all(isinstance(one, list) and len(one) == 2 for one in found)
        return sorted(found, key=repr) if pairs or "set<int" in case else found
    return value


def _key(name: str) -> Any:
    return int(name) if name.lstrip("-").isdigit() else name


def agrees(found: Any, case: Case) -> bool:
    """Whether what a reader found is what was written."""
    if found == SAME:
        return True
    wanted = [normal(value, case.cpp) for value in case.values]
    return isinstance(found, list) and [normal(value, case.cpp) for value in found] == wanted


# In the children: each answers requests of one line of JSON each.


def _tables(classnames: Mapping[str, str]) -> tuple[list[str], list[str]]:
    tables = [key for key, name in classnames.items() if name in (*TREES, NTUPLE)]
    folders = ("TDirectory", "TDirectoryFile")
    return tables, [key for key, name in classnames.items() if key not in tables and name not in folders]


class _Count(dict[str, int]):
    """How many things were read, and how many not; the first error."""

    def __init__(self) -> None:
        super().__init__(read=0, failed=0)
        self.reasons: dict[str, str] = {}

    def attempt(self, name: str, read: Callable[[], object]) -> None:
        try:
            read()
        except Exception as error:  # noqa: BLE001 - whatever a reader raises is its answer
            self.failed(name, f"{type(error).__name__}: {error}")
        else:
            self["read"] += 1

    def failed(self, name: str, why: str) -> None:
        self["failed"] += 1
        self.reasons[name] = " ".join(why.split())[:160]

    def answer(self) -> dict[str, Any]:
        return {**self, "reasons": self.reasons}


def _with_uproot(library: Any, request: dict[str, Any]) -> Any:
    """Read with uproot or with sapwood, which has the same calls."""
    import awkward as ak

    with library.open(request["path"]) as file:
        if "cpp" in request:
            return [normal(value, request["cpp"]) for value in ak.to_list(file["t"]["value"].array())]
        found = _Count()
        names = file.classnames(recursive=True, cycle=True)
        tables, objects = _tables(names)
        for key in tables:
            table = file[key]
            for column in table.keys(recursive=names[key] != NTUPLE):
                field = table[column]
                leaf = not (getattr(field, "branches", None) or getattr(field, "is_group", False))
                if leaf:
                    found.attempt(f"{key} {column}", lambda field=field: field.array(entry_stop=ENTRIES))
        for key in objects:
            found.attempt(key, lambda key=key: file[key])
        return found.answer()


def _with_root(request: dict[str, Any]) -> Any:
    import ROOT

    if "cpp" in request:
        case, path = CASES[request["case"]], request["path"]
        ROOT.gInterpreter.ProcessLine("same_values = -1;")
        ROOT.gInterpreter.ProcessLine(
            f'same_values = same_in_{request["kind"]}<{case.cpp}>("{path}", {{{case.given}}});'
        )
        if ROOT.same_values < 0:
            raise OSError("not read")
        return SAME if ROOT.same_values else "other values"
    found = _Count()
    file = ROOT.TFile.Open(request["path"])

    def read(tree: Any, branch: Any) -> None:
        for entry in range(min(tree.GetEntries(), ENTRIES)):
            if branch.GetEntry(entry) < 0:
                raise OSError(f"entry {entry} cannot be read")

    def walk(directory: Any) -> None:
        for key in directory.GetListOfKeys():
            name = f"{key.GetName()};{key.GetCycle()}"
            if key.GetClassName() == NTUPLE:
                reader = ROOT.RNTupleReader.Open(key.GetName(), request["path"])
                rows = min(reader.GetNEntries(), ENTRIES)
                for field in reader.GetDescriptor().GetTopLevelFields():

                    def view(field: Any = field, reader: Any = reader, rows: int = rows) -> None:
                        one = reader.GetView["void"](field.GetFieldName())
                        for entry in range(rows):
                            one(entry)

                    found.attempt(f"{name} {field.GetFieldName()}", view)
                continue
            try:
                one = key.ReadObj()
            except Exception as error:  # noqa: BLE001 - as above
                found.failed(name, f"{type(error).__name__}: {error}")
                continue
            if not one:
                found.failed(name, "no object")
            elif one.InheritsFrom("TDirectory"):
                walk(one)
            elif one.InheritsFrom("TTree"):
                seen = set()
                for leaf in one.GetListOfLeaves():
                    branch = leaf.GetBranch()
                    if branch.GetFullName() not in seen:
                        seen.add(branch.GetFullName())
                        found.attempt(f"{name} {branch.GetFullName()}", lambda b=branch, t=one: read(t, b))
            else:
                found["read"] += 1

    walk(file)
    file.Close()
    return found.answer()


def _write_with_root(path: str, kind: str, case: Case) -> str:
    """Write a type as a tree or as an RNTuple; return the error, if any."""
    import ROOT

    ROOT.gInterpreter.ProcessLine(f'in_{kind}<{case.cpp}>("{path}", {{{case.given}}});')
    file = ROOT.TFile.Open(path) if Path(path).exists() else None
    if not file or not file.GetListOfKeys().Contains("t"):
        return "not written"
    return (
        ""
        if kind == "ntuple" or (file.Get("t").GetBranch("value") and file.Get("t").GetEntries() == 3)
        else "no branch"
    )


def child(reader: str, folder: str) -> None:
    """Answer the requests of the parent."""
    import warnings

    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    with Path(folder, f"{reader}.log").open("w+b") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        if reader == "ROOT":
            import ROOT

            ROOT.gROOT.SetBatch(True)
            ROOT.gEnv.SetValue("Root.Stacktrace", 0)  # takes a minute after a crash
            os.chdir(folder)
            ROOT.gInterpreter.Declare(HEADER + WRITERS + READERS_OF_ROOT)
            ROOT.gInterpreter.GenerateDictionary(COMPILED, "vector;array;map;set;string;utility")
            read: Callable[[dict[str, Any]], Any] = _with_root
        else:
            library = __import__(reader)
            read = lambda request: _with_uproot(library, request)  # noqa: E731
        for line in sys.stdin:
            request = json.loads(line)
            log.seek(0)
            log.truncate(0)
            try:
                if "write" in request:
                    answer = {"answer": _write_with_root(request["path"], request["write"], CASES[request["case"]])}
                else:
                    answer = {"answer": read(request)}
            except Exception as error:  # noqa: BLE001 - as above
                answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]}
            if reader == "ROOT":
                log.seek(0)
                said = [one for one in log.read().decode("utf-8", "replace").splitlines() if one.startswith("Error in")]
                answer["said"] = said[0][:160] if said else ""
            print(json.dumps(answer), file=answers, flush=True)


# In the parent.


class Reader:
    """A child process that reads with one library, started again when it has died."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name, self._command = name, command
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: dict[str, Any], seconds: float = SECONDS) -> dict[str, Any]:
        """Return the answer, or the error."""
        if self._process is None:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        self.close()
        return {"error": "the process died" if ready else f"no answer in {seconds:.0f} s"}

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # ROOT starts a debugger when it dies
            self._process.communicate()
            self._process = None


def _given(case: Case, of: str) -> Any:
    """Return values as sapwood takes them for a type."""
    import awkward as ak
    import numpy as np

    if of.isidentifier() and of != "string":
        return np.array(case.values, of)
    if "map" in case.cpp:
        return [dict(value) for value in case.values]
    if of.startswith("pair"):
        return ak.Array([{"first": first, "second": second} for first, second in case.values])
    if of.startswith("("):
        return ak.Array([tuple(value) for value in case.values])
    return ak.to_regular(ak.Array(case.values), axis=2) if "var * 2" in of else case.values


def write_with_sapwood(folder: Path) -> dict[str, str]:
    """Write each type as a tree and as an RNTuple; return the errors."""
    import sapwood

    errors: dict[str, str] = {}
    for number, case in enumerate(CASES):
        for kind in ("tree", "ntuple"):
            of = getattr(case, kind)
            if not of:
                errors[f"{kind} {number}"] = "not written from plain data"
                continue
            try:
                with sapwood.recreate(folder / f"sapwood-{kind}-{number}.root") as file:
                    options: Any = {"classes": {"value": "Point"}} if "Point" in of or "{" in of else {}
                    if options and kind == "tree":
                        options["records"] = "class"
                    made = (file.mktree if kind == "tree" else file.mkrntuple)("t", {"value": of}, **options)
                    made.extend({"value": _given(case, of)})
            except (sapwood.SapwoodError, TypeError) as error:
                errors[f"{kind} {number}"] = str(error)
    return errors


def types(readers: list[Reader], folder: Path) -> tuple[list[str], list[str]]:
    """Return the rows of the table of types, and what readers did not read."""
    root = next((one for one in readers if one.name == "ROOT"), None)
    unwritten = {"sapwood": write_with_sapwood(folder)}
    if root is not None:
        unwritten["ROOT"] = {}
        for number in range(len(CASES)):
            for kind in ("tree", "ntuple"):
                path = str(folder / f"ROOT-{kind}-{number}.root")
                if kind == "tree" and CASES[number].cpp.startswith(NO_BRANCH):
                    unwritten["ROOT"][f"{kind} {number}"] = "no branch"
                    continue
                got = root.ask({"path": path, "write": kind, "case": number})
                if got.get("answer") != "":
                    unwritten["ROOT"][f"{kind} {number}"] = str(got)
        root.close()
    rows, faults = [], []
    for number, case in enumerate(CASES):
        cells = []
        for kind in ("tree", "ntuple"):
            for writer in ("ROOT", "sapwood"):
                path = folder / f"{writer}-{kind}-{number}.root"
                if writer not in unwritten or f"{kind} {number}" in unwritten[writer] or not path.exists():
                    cells.append("–")
                    continue
                marks = []
                for reader in readers:
                    got = reader.ask({"path": str(path), "cpp": case.cpp, "case": number, "kind": kind})
                    right = "answer" in got and agrees(got["answer"], case)
                    if not right:
                        what = got["error"] if "error" in got else f"gives {json.dumps(got['answer'])[:120]}"
                        what = what.replace(f"{folder}/", "")
                        marks.append(f"{'error' if 'error' in got else 'other'}: {reader.name}")
                        name = "TTree" if kind == "tree" else "RNTuple"
                        faults.append(f"| `{case.cpp}` | {name} of {writer} | {reader.name} | {_cell(what)} |")
                cells.append("; ".join(marks) or "all")
        rows.append(f"| `{case.cpp}` | {' | '.join(cells)} |")
    return rows, faults


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_").replace("`", "'")


def _version(path: Path) -> str:
    number = int.from_bytes(path.read_bytes()[4:8], "big") % 1_000_000
    return f"{number // 10000}.{number // 100 % 100:02d}"


def files(readers: list[Reader], folders: list[Path]) -> tuple[list[str], list[str]]:
    """Return the rows of the table of files by the version of ROOT, and the files of which a reader read less."""
    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    number: Counter[str] = Counter()
    less: list[str] = []
    # Absolute, because the child with ROOT has another working directory.
    for path in sorted(path for folder in folders for path in folder.resolve().rglob("*.root")):
        version = _version(path)
        number[version] += 1
        failed: dict[str, str] = {}
        for reader in readers:
            got = reader.ask({"path": str(path)})
            answer = got.get("answer", {"read": 0, "failed": 0, "reasons": {"the file": got.get("error", "")}})
            count = counts[version][reader.name]
            count["read"] += answer["read"]
            count["failed"] += answer["failed"]
            count["whole"] += "answer" in got and not answer["failed"]
            if answer["reasons"]:
                name, why = next(iter(answer["reasons"].items()))
                failed[reader.name] = f"{answer['failed'] or 'all'}; {name}: {why.replace(f'{path.parent}/', '')}"
        less += [f"| `{path.name}` | {name} | {_cell(why)} |" for name, why in failed.items()]
    rows = []
    for version in sorted(counts, key=lambda text: [int(part) for part in text.split(".")]):
        cells = [f"{counts[version][one.name]['whole']} ({counts[version][one.name]['read']:,})" for one in readers]
        rows.append(f"| {version} | {number[version]} | {' | '.join(cells)} |")
    sums = [sum((counts[version][one.name] for version in counts), Counter[str]()) for one in readers]
    whole = [f"{one['whole']} ({one['read']:,})" for one in sums]
    rows.append(f"| all | {sum(number.values())} | {' | '.join(whole)} |")
    return rows, less


OF_TYPES = """## Types

Each type was written as a tree and as an RNTuple by ROOT and by sapwood, with three values. *all*: every reader gave
the values that were written; else the readers that gave an error or other values. A dash: the writer does not write
this type, or not from plain data.

| type | TTree, by ROOT | TTree, by sapwood | RNTuple, by ROOT | RNTuple, by sapwood |
|---|---|---|---|---|
"""
FAULTS = """
### The faults of other readers

Each can be repeated with the three values of the table.

**ROOT**

- A branch of `std::vector<std::array<int, 2>>` is written as a split collection without the bytes of its elements:
  `_M_elems` has counts and no values. No reader can read them.
- A variable array of fixed arrays (`value[n][2]/I`) is read correctly with `SetBranchAddress`, which is how this page
  reads it. With `RDataFrame` the process ends with a segmentation fault; `TTreeReaderArray<int>` returns only the
  first half of the values; `tree.value` in PyROOT ends the process (`std::stoi` of the counter's name). The same
  holds for files that ROOT wrote.

**uproot**

- An empty `std::map` that is stored object by object ends in `need at least one array to concatenate` (`AsMap` joins
  the keys of no entries). ROOT stores maps member by member where it writes them, and reads both.
- An RNTuple field `std::optional<std::variant<...>>` ends in a `TypeError` of Awkward Array.
- An RNTuple with an unknown feature flag ends in an error about bytes outside a chunk, not about the flag.

**jsroot**

- Negative 64-bit integers of trees are too large by 2³² if their lower 32 bits are below 2³¹ (`ntoi8` complements these
  as signed numbers). 64-bit integers of RNTuples are rounded to 53 bits.
- Texts are not decoded as UTF-8: bytes over 127 become characters of Latin-1 in trees, and U+FF80 to U+FFFF in
  RNTuples.
- RNTuple fields of `std::optional` give 1, 1, 2 for 0.5, nothing, 2; those of `ROOT::RVec` give the ends of the lists
  in place of the lists. Branches of `ROOT::RVec` are refused.
- RNTuple records without a checksum of their class, enumerations and projected fields are refused (`No columns
  found`). The checksum is optional in the format.
- An RNTuple without clusters ends in a `TypeError`.
"""
OF_FILES = f"""
## Files

Public files, by the version of ROOT in their headers. For each reader: files of which every column (first {ENTRIES}
entries) and every object was read without an error, and in brackets the columns and objects read. Values are not
compared here. Readers divide objects into columns in their own ways, so the numbers in brackets differ between them.
A process that died, or gave no answer in time, counts as a file that was not read; the causes were not examined.

"""


def page(names: list[str], versions: str, parts: tuple[list[str], list[str]], real: tuple[list[str], list[str]]) -> str:
    """Return the page."""
    rows, faults = parts
    by_version, less = real
    text = "# Conformance\n\n"
    text += f"Made by `make conformance`; do not edit. Readers: {versions}\n\n{OF_TYPES}"
    text += "\n".join(
        [*rows, "", "What the readers said:", "", "| type | file | reader | what came |", "|---|---|---|---|"]
    )
    text += "\n" + "\n".join(faults) + "\n" + FAULTS
    if by_version:
        head = [f"| ROOT | files | {' | '.join(names)} |", f"|---|---:|{'---:|' * len(names)}"]
        told = "Files of which a reader did not read everything: the number of things, and the first of them."
        text += OF_FILES + "\n".join(
            [*head, *by_version, "", told, "", "| file | reader | what |", "|---|---|---|", *less]
        )
        text += "\n"
    return text


def main() -> None:
    """Read everything and print or keep the page."""
    parser = argparse.ArgumentParser(description="Compare what readers read of the same files.")
    parser.add_argument("--root", metavar="PYTHON", help="a Python with ROOT and uproot")
    parser.add_argument("--jsroot", type=Path, help="a folder in which `npm install jsroot` was run")
    parser.add_argument(
        "--files", type=Path, action="append", default=[], metavar="FOLDER", help="public files; may be repeated"
    )
    parser.add_argument("--keep", action="store_true", help=f"write {PAGE.relative_to(TOP)}")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        commands = {"sapwood": [sys.executable, __file__, "--child", "sapwood", scratch]}
        if chosen.root:
            python = str(Path(chosen.root).absolute())
            commands |= {name: [python, __file__, "--child", name, scratch] for name in ("ROOT", "uproot")}
        if chosen.jsroot:
            script = chosen.jsroot / "conformance.mjs"
            script.write_text((TOP / "benches" / "conformance.mjs").read_text())
            commands["jsroot"] = ["node", str(script), str(ENTRIES)]
        readers = [Reader(name, commands[name]) for name in READERS if name in commands]
        with contextlib.ExitStack() as stack:
            for reader in readers:
                stack.callback(reader.close)
            parts = types(readers, folder)
            real = files(readers, chosen.files) if chosen.files else ([], [])
    names = [reader.name for reader in readers]
    told = ", ".join(f"{name} {_release(name, chosen)}" for name in names)
    text = page(names, f"{told}.", parts, real)
    if chosen.keep:
        PAGE.write_text(text)
    else:
        print(text)


def _release(name: str, chosen: argparse.Namespace) -> str:
    if name == "jsroot":
        return json.loads((chosen.jsroot / "node_modules" / "jsroot" / "package.json").read_text())["version"]
    python = sys.executable if name == "sapwood" else chosen.root
    code = (
        "import ROOT; print(ROOT.gROOT.GetVersion())" if name == "ROOT" else f"import {name}; print({name}.__version__)"
    )
    return subprocess.run([python, "-W", "ignore", "-c", code], capture_output=True, text=True).stdout.split()[-1]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3])
    else:
        main()
