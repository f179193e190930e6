"""The faults of other readers that were found."""

from __future__ import annotations

from faults import Fault

_NUMPY = "import numpy as np\n"

_ROWS = '''ROOT.gInterpreter.ProcessLine("""{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  int n = 2, value[2][2] = {{1, 2}, {3, 4}}; t.Branch("n", &n, "n/I"); t.Branch("value", value, "value[n][2]/I");
  t.Fill(); t.Write(); }""")
'''

_CHARACTERS = '''ROOT.gInterpreter.ProcessLine("""{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  char value[9]; t.Branch("value", value, "value/C");
  for (auto one : {"", "ab", "cd"}) { strcpy(value, one); t.Fill(); } t.Write(); }""")
'''

ROOT = [
    Fault(
        "ROOT",
        "the elements of `std::vector<std::array<int, 2>>` are not written",
        "`3 4`",
        r"^got (?!3 4)|the process ends",
        """import ROOT
ROOT.gInterpreter.GenerateDictionary("vector<array<int,2> >", "vector;array")
ROOT.gInterpreter.ProcessLine('''{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  std::vector<std::array<int, 2>> v{{3, 4}}; t.Branch("v", &v); t.Fill(); t.Write(); }''')
ROOT.gInterpreter.ProcessLine('''{ TFile f("a.root"); auto t = f.Get<TTree>("t");
  std::vector<std::array<int, 2>> *v = nullptr; t->SetBranchAddress("v", &v); t->GetEntry(0);
  std::cout << "got " << v->at(0)[0] << " " << v->at(0)[1] << std::endl; }''')
""",
        note="The branch is split. Its sub-branch `_M_elems` has counts and no bytes: no reader can read the values.",
    ),
    Fault(
        "ROOT",
        "`RDataFrame` gives half of a variable array of fixed arrays",
        "`[1, 2, 3, 4]`",
        r"^got \[1, 2\]$|the process ends",
        """import ROOT
print("got", [int(x) for x in ROOT.RDataFrame("t", "a.root").Take["ROOT::RVec<int>"]("value").GetValue()[0]])
""",
        root=_ROWS,
    ),
    Fault(
        "ROOT",
        "`TTreeReaderArray` gives half of a variable array of fixed arrays",
        "`[1, 2, 3, 4]`",
        r"^got \[1, 2\]$",
        """import ROOT
file = ROOT.TFile("a.root"); reader = ROOT.TTreeReader("t", file)
value = ROOT.TTreeReaderArray["int"](reader, "value")
reader.Next(); print("got", [int(x) for x in value])
""",
        root=_ROWS,
    ),
    Fault(
        "ROOT",
        "PyROOT's `tree.value` ends the process for a variable array of fixed arrays",
        "`[1, 2, 3, 4]`",
        r"the process ends|invalid_argument|stoi",
        """import ROOT
file = ROOT.TFile("a.root"); tree = file.Get("t")
tree.GetEntry(0); print("got", [int(x) for x in tree.value])
""",
        root=_ROWS,
    ),
    Fault(
        "ROOT",
        "PyROOT ends the process when code that `ProcessLine` runs gives a warning",
        "`Warning in <here>: some text`, and `got here`",
        r"the process ends.*PyErr_WarnExplicit",
        """import ROOT
ROOT.gInterpreter.ProcessLine('Warning("here", "some text");')
print("got here")
""",
        note="The handler of errors calls Python without its lock. Warnings of ROOT itself have the same effect, for "
        "example about a branch of `std::optional<float>`. `SetErrorHandler(DefaultErrorHandler)` avoids it.",
    ),
    *[
        Fault(
            "ROOT",
            f"the value of a branch of `{kind}` is not written",
            "`got 5`, or no branch",
            r"^got (?!5)|the process ends",
            f"""import ROOT
ROOT.gInterpreter.ProcessLine("SetErrorHandler(DefaultErrorHandler);")
ROOT.gInterpreter.ProcessLine('''{{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  {kind} v = 5.f; t.Branch("v", &v); t.Fill(); t.Write(); }}''')
ROOT.gInterpreter.ProcessLine('''{{ TFile f("a.root"); auto t = f.Get<TTree>("t");
  {kind} v = 1.f, *p = &v; t->SetBranchAddress("v", &p); t->GetEntry(0);
  std::cout << "got " << {shown} << std::endl; }}''')
""",
            note="Messages say that classes of the C++ library have no dictionary. In classes, ROOT writes whether "
            "there is a value, or which alternative it is, but not the value.",
        )
        for kind, shown in (
            ("std::optional<float>", "p->value_or(-1)"),
            ("std::variant<int, float>", "std::get<1>(*p)"),
        )
    ],
    Fault(
        "ROOT",
        "enumerations of 64 bits in containers are cut to 32 bits",
        "`1099511627776`",
        r"^got 0$",
        """import ROOT
ROOT.gInterpreter.Declare("enum Wide : long { wide = 1L << 40 }; struct W { std::vector<Wide> v; };")
ROOT.gInterpreter.GenerateDictionary("vector<Wide>", "vector")
ROOT.gInterpreter.ProcessLine('''{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  W w{{wide}}; auto *p = &w; t.Branch("w", &p, 32000, 0); t.Fill(); t.Write(); }''')
ROOT.gInterpreter.ProcessLine('''{ TFile f("a.root"); auto t = f.Get<TTree>("t");
  W *w = nullptr; t->SetBranchAddress("w", &w); t->GetEntry(0);
  std::cout << "got " << long(w->v.at(0)) << std::endl; }''')
""",
    ),
]

UPROOT = [
    Fault(
        "uproot",
        "an empty `std::map` that is stored object by object is an error",
        "`got [[]]`",
        r"need at least one array to concatenate",
        """import uproot
print("got", uproot.open("a.root:t")["value"].array().tolist())
""",
        make="""with sapwood.recreate("a.root") as file:
    file.mktree("t", {"value": "map<int, float>"}).extend({"value": [{}]})
""",
        note="`AsMap` joins the keys of no entries. ROOT reads the file.",
    ),
    Fault(
        "uproot",
        "a field `std::optional<std::variant<...>>` is an error",
        "`got [1, None, 'two']`",
        r"TypeError.*IndexedOptionArray",
        """import uproot
print("got", uproot.open("a.root")["t"]["value"].array().tolist())
""",
        make="""with sapwood.recreate("a.root") as file:
    file.mkrntuple("t", {"value": "?union[int32, string]"}).extend({"value": [1, None, "two"]})
""",
    ),
    Fault(
        "uproot",
        "an unknown feature flag of an RNTuple is not named",
        "an error that names the flag",
        r"outside expected range|DeserializationError",
        """import uproot
print("got", uproot.open("structure.feature_flag.root")["ntpl"].keys())
""",
        files=("structure.feature_flag.root",),
    ),
    Fault(
        "uproot",
        "`Float16_t` in a fixed array loses bits of its mantissa",
        "`got [0.0, 1.0, 2.0, 3.0]`",
        r"2\.0625",
        """import uproot
print("got", uproot.open("ndim.root")["tree"]["ArrD16"].array(entry_stop=1).tolist()[0][:4])
""",
        files=("ndim.root",),
        note="ROOT stores the exponent and 12 bits of the mantissa (`TBufferFile::ReadWithNbits`). So in the branches "
        "`ArrD16`, `SliD16`, `D16` of `ndim.root`, `ndim-slice.root`, `x-flat-tree.root`.",
    ),
    Fault(
        "uproot",
        "`Double32_t` with a range is off by the last bit",
        "`got 0`",
        r"^got [1-9]",
        """import uproot, ROOT
theirs = uproot.open("uproot-demo-double32.root:T")["fI10"].array().tolist()
tree = (file := ROOT.TFile("uproot-demo-double32.root")).Get("T")
root = [(tree.GetEntry(i), tree.GetLeaf("fI10").GetValue())[1] for i in range(tree.GetEntries())]
print("got", sum(a != b for a, b in zip(root, theirs)), "values other than ROOT's")
""",
        files=("uproot-demo-double32.root",),
        note="ROOT computes minimum + integer / factor, in that order (`TBufferFile::ReadWithFactor`). So in "
        "`uproot-demo-double32.root` (`d` and its members `fI4` to `fI32`), `uproot-double32-float16.root` (`array_*`, "
        "`double32_*`, `float16_*`, the last also in another precision) and `uproot-issue187.root` (members of "
        "`V0s` and `V0Hyper`).",
    ),
    Fault(
        "uproot",
        "members after a base class without members are shifted by a byte",
        "`got 1`",
        r"^got 16777216",
        """import uproot
print("got", uproot.open("tbase.root:tree")["d1"].array(library="np", entry_stop=1)[0].member("I32"))
""",
        files=("tbase.root",),
        note="ROOT and sapwood read `I32` of `d1` as 1, 2, ...",
    ),
    Fault(
        "uproot",
        "version and checksum of `ROOT::Math` vectors are read as members",
        "`got -24.909`",
        r"^got -3\.24",
        """import uproot
tree = uproot.open("uproot-issue-513.root")["TrkAnaNeg/trkana"]
print("got", tree["demc/_opos"].array(entry_stop=1)[0].fCoordinates.fX)
""",
        files=("uproot-issue-513.root",),
        note="Branches `_opos`, `_pos`, `_mom`.",
    ),
    Fault(
        "uproot",
        "`fBits` of objects that a `TRef` names has three numbers for each two objects",
        "as many numbers as ROOT",
        r"^got 165 numbers; ROOT 110",
        """import uproot, ROOT
bits = uproot.open("uproot-issue513.root:Delphes")["Track.fBits"].array(entry_stop=1)[0]
tree = (file := ROOT.TFile("uproot-issue513.root")).Get("Delphes")
print("got", len(bits), "numbers; ROOT", tree.Draw("Track.fBits", "", "goff", 1))
""",
        files=("uproot-issue513.root",),
        note="The number of the process after the bits of a referenced `TObject` is not a value. Branches `fBits` of "
        "`Track`, `EFlowTrack`, `EFlowPhoton`, `EFlowNeutralHadron`.",
    ),
]


def _column(path: str, column: str, key: str) -> str:
    return f'import uproot\nprint("got", uproot.open("{path}")["{key}"]["{column}"].array(entry_stop=1).tolist())\n'


def _object(path: str, key: str) -> str:
    return f'import uproot\nprint("got", uproot.open("{path}")["{key}"])\n'


UPROOT += [
    Fault("uproot", title, expected, pattern, code, files=files)
    for title, expected, pattern, code, files in (
        ("`Double32_t` of 32 bits with a range is an error", "the values of ROOT and sapwood",
         r"OverflowError", _column("ndim.root", "ArrD32", "tree;1"), ("ndim.root",)),
        ("`Double32_t` in a flat tree is an error", "the values of ROOT and sapwood", r"_from_dtype",
         _column("x-flat-tree.root", "D32", "tree;1"), ("x-flat-tree.root",)),
        ("a leaf list whose leaves have different dimensions is an error", "a record of the leaves",
         r"different jaggedness", _column("pod-advanced.root", "orange", "orange;1"), ("pod-advanced.root",)),
        ("`std::bitset` in a class is an error", "the values of ROOT and sapwood", r"DeserializationError",
         _column("std-bitset.root", "evt", "tree;1"), ("std-bitset.root",)),
        ("a member of the same name as one of a base class is an error", "a record", r"occurs more than once",
         _column("tbase.root", "d2", "tree;1"), ("tbase.root",)),
        ("member-wise storage is refused", "the values of ROOT and sapwood", r"memberwise serialization",
         _column("std-map-split0.root", "evt", "tree;1"), ("std-map-split0.root",)),
        ("member-wise storage in objects is refused", "the object", r"memberwise serialization",
         _object("tgme.root", "gme;1"), ("tgme.root",)),
        ("a `TClonesArray` that bypasses streamers is an error", "the object", r"DeserializationError",
         _object("tclonesarray-with-streamerbypass.root", "clones;1"), ("tclonesarray-with-streamerbypass.root",)),
        ("a `RooPlot` is an error", "the object", r"DeserializationError",
         _object("uproot-issue-350.root", "frame_obs_x_singlechannel_55ec53337000;1"), ("uproot-issue-350.root",)),
        ("a `RooFitResult` is an error", "the object", r"DeserializationError",
         _object("uproot-issue49.root", "fitResult;1"), ("uproot-issue49.root",)),
        ("an object of a class with two vectors is an error", "the object", r"DeserializationError",
         _object("uproot-issue-586.root", "fail;1"), ("uproot-issue-586.root",)),
        ("two branches of one name are an error", "the list of branches, and their values", r"KeyInFileError",
         'import uproot\ntree = uproot.open("uproot-issue513.root")["Delphes"]\nfor name in tree.keys(): tree[name]\n',
         ("uproot-issue513.root",)),
    )
]  # fmt: skip


def _written(of: str, values: str, options: str) -> str:
    return (
        'with sapwood.recreate("a.root") as file:\n'
        f'    file.mktree("t", {{"value": "{of}"}}{options}).extend({{"value": {values}}})\n'
    )


_VALUE = 'import uproot\nprint("got", uproot.open("a.root:t")["value"].array().tolist())\n'

UPROOT += [
    Fault("uproot", "empty texts of a `/C` leaf shift the texts after them", "`got ['', 'ab', 'cd']`",
          r"IndexError|^got (?!\['', 'ab', 'cd)", _VALUE,
          root=_CHARACTERS, note="ROOT stores no byte for an empty text, not even its length, and reads it."),
    *[
    Fault("uproot", title, expected, pattern, _VALUE, make=_written(of, values, options), note=note)
    for title, expected, pattern, of, values, options, note in (
        ("`Double32_t` with a range in counted arrays gives other values", "`got [[], [0.5], [-3.0, 7.0]]`", r"e-4\d",
         "var * Double32_t[-8,8,12]", "[[], [0.5], [-3.0, 7.0]]", "", "The integers are read as floats."),
        ("a `std::vector` of pairs that is stored object by object is an error", "`got [[(1, 0.5)]]`",
         r"DeserializationError", "vector<pair<int, double>>", "[[{'first': 1, 'second': 0.5}]]", "", ""),
        ("a `std::vector` of objects in one branch is an error", "`got [[{'x': 1.5}, {'x': 2.5}]]`",
         r"wrong number of bytes", "var * {x: float32}", "[[{'x': 1.5}, {'x': 2.5}]]",
         ', records="class", split_level=0', "The result is the same with object-wise and member-wise storage."),
        *[(f"`std::{name}` is refused", "the values", r"cannot produce Awkward Arrays", of, values, "", "")
          for name, of, values in (("deque", "deque<short>", "[[1, 2]]"),
                                   ("forward_list", "forward_list<int>", "[[1, 2]]"),
                                   ("multiset", "multiset<double>", "[[1.0, 1.0]]"),
                                   ("unordered_set", "unordered_set<int>", "[[1]]"),
                                   ("multimap", "multimap<int, double>", "[[(1, 0.5)]]"),
                                   ("unordered_map", "unordered_map<int, double>", "[{1: 0.5}]"))],
    )],
]  # fmt: skip


def _table(kind: str, of: str, values: str) -> str:
    return (
        f'{_NUMPY}with sapwood.recreate("a.root") as file:\n'
        f'    file.{kind}("t", {{"value": "{of}"}}).extend({{"value": {values}}})\n'
    )


JSROOT = [
    Fault("jsroot", "negative 64-bit integers of trees are too large by 2³² if their lower 32 bits are below 2³¹",
          "`got -9223372036854775807n`", r"9223372032559808511", "a.root",
          _table("mktree", "int64", "np.array([-2**63 + 1])"),
          note="`ntoi8` complements these 32 bits as a signed number."),
    Fault("jsroot", "64-bit integers of RNTuples are rounded to 53 bits", "`got 9007199254740993n`",
          r"got 9007199254740992", "a.root", _table("mkrntuple", "int64", "np.array([2**53 + 1])")),
    Fault("jsroot", "texts of trees are not decoded as UTF-8", "`got 'é'`", r"Ã", "a.root",
          _table("mktree", "std::string", '["é"]'), note="Bytes over 127 become characters of Latin-1."),
    Fault("jsroot", "texts of RNTuples are not decoded as UTF-8", "`got 'é'`", r"^got (?!'é')", "a.root",
          _table("mkrntuple", "string", '["é"]'), note="Bytes over 127 become U+FF80 to U+FFFF."),
    Fault("jsroot", "nullable fields give numbers of values in place of values", "`got 0.5`, `got null`, `got 2`",
          r"got 1 / got 1 / got 2", "a.root", _table("mkrntuple", "?float32", "[0.5, None, 2.0]")),
    Fault("jsroot", "fields of `ROOT::RVec` give the ends of lists in place of lists", "`got [1.5]`, `got [2, 3]`",
          r"got 1 / got 3", "a.root",
          root='''ROOT.gInterpreter.ProcessLine("""{ auto model = ROOT::RNTupleModel::Create();
  auto value = model->MakeField<ROOT::RVec<float>>("value");
  auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "t", "a.root");
  *value = {1.5}; writer->Fill(); *value = {2, 3}; writer->Fill(); }""")
'''),
    Fault("jsroot", "branches of `ROOT::RVec` are refused", "`got [1.5]`", r"Fail to add branch", "a.root",
          root='''ROOT.gInterpreter.ProcessLine("""{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  ROOT::RVec<float> value{1.5f}; t.Branch("value", &value); t.Fill(); t.Write(); }""")
'''),
    Fault("jsroot", "records without a checksum of their class are refused", "`got { x: 1.5 }`", r"No columns found",
          "a.root", _table("mkrntuple", "{x: float32}", '[{"x": 1.5}]'),
          note="The checksum is optional in the format."),
    Fault("jsroot", "fields of enumerations are refused", "`got 7`", r"No columns found", "a.root",
          root='''ROOT.gInterpreter.Declare("enum Colour { red = 0, green = 7 };")
ROOT.gInterpreter.ProcessLine("""{ auto model = ROOT::RNTupleModel::Create();
  auto value = model->MakeField<Colour>("value");
  auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "t", "a.root");
  *value = green; writer->Fill(); }""")
'''),
    Fault("jsroot", "projected fields are refused", "values", r"No columns found",
          "projections.leaf.root ntpl Int32", files=("projections.leaf.root",)),
    Fault("jsroot", "an RNTuple without clusters is an error", "no entries", r"got .*Error",
          "structure.empty.root ntpl Int32", files=("structure.empty.root",)),
    Fault("jsroot", "`Float16_t` is refused", "`got 3`", r"Fail to add branch", "a.root",
          _table("mktree", "Float16_t", "[3.0]")),
    Fault("jsroot", "the branches of `join1.root` are an error", "values", r"TypeError", "join1.root j1 b10",
          files=("join1.root",)),
    Fault("jsroot", "an empty text of a `/C` leaf is replaced by the next text", "`got ''`, `got 'ab'`, `got 'cd'`",
          r"^got 'ab'", "a.root", root=_CHARACTERS),
    Fault("jsroot", "arrays of two dimensions in trees are flat", "`got [[1, 2], [3, 4]]`", r"\(4\) \[ 1, 2, 3, 4 \]",
          "a.root", _table("mktree", "2 * 2 * int32", "[[[1, 2], [3, 4]]]")),
    Fault("jsroot", "the vector of a split `TLorentzVector` is empty", "`fX: 1, fY: 2, fZ: 3` in `fP`",
          r"^got (?!.*fX: 1)", "a.root",
          root='''ROOT.gInterpreter.ProcessLine("""{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  TLorentzVector value(1, 2, 3, 4); t.Branch("value", &value); t.Fill(); t.Write(); }""")
'''),
    *[Fault("jsroot", f"`std::{name}` is refused", "values", r"Fail to add branch", "a.root",
            _table("mktree", of, values))
      for name, of, values in (("forward_list", "forward_list<int>", "[[1, 2]]"),
                               ("unordered_set", "unordered_set<int>", "[[1]]"),
                               ("unordered_map", "unordered_map<int, double>", "[{1: 0.5}]"))],
]  # fmt: skip

FAULTS = [*ROOT, *UPROOT, *JSROOT]

NOT_WRITTEN = [
    (r"^sapwood .*neither a NumPy", "sapwood does not write this type"),
    (r"^sapwood TTree .*missing values", "trees have no missing values"),
    (r"^sapwood TTree .*several types", "trees have no unions"),
    (r"RNTuples have no field type|(deque|list)<.*is not supp", "an RNTuple has no such field"),
    (r"cannot be stored natively", "ROOT stores classes with a streamer of their own in streamed fields only"),
    (r"unknown type: (float|Point)\*", "ROOT has no fields of raw pointers"),
    (r"^ROOT TTree enum", "`TTree::Branch` takes no enumeration; members of classes may be enumerations"),
]
"""The reasons why types are not written, by patterns of the writer's message."""
CAUSES = [
    (
        r"^ROOT .*call of no function",
        (
            "PyROOT asks an object of a class without a dictionary for its class, by a virtual function that such an "
            "object does not have (`Cppyy::GetActualClass`)"
        ),
    ),
    (
        r"(corrupted|double free|free\(\)|malloc\(\)|munmap_chunk)",
        "objects of classes or containers without a dictionary are read or freed wrongly, and damage the heap",
    ),
    (r"TEmulatedCollectionProxy::Shrink", "items of a container without a dictionary are freed wrongly"),
    (r"_M_default_append", "a container without a dictionary is given a wrong number of items"),
    (r"TBufferIO::MapObject", "a member is read into an object that was not made, of a class without a dictionary"),
    (r"ReadStdString", "texts are read into items that were not made, of a class without a dictionary"),
    (
        r"ReadStreamerLoop|ReadClassBuffer",
        "objects are read into items that were not made, of a class without a dictionary",
    ),
    (r"ReadLeaves function has not been configured", "a branch of an unknown class is fatal, in place of an error"),
    (r"Unsupported value type 18", "a container of `bool` without a dictionary is fatal, in place of an error"),
    (
        r"^jsroot .*died",
        "an error within a basket does not reach the promise of `treeProcess`: nobody can catch it, and Node.js ends",
    ),
]
"""The causes of the deaths of processes, by patterns of the place where they died."""
