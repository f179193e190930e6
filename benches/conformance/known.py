"""The faults of other readers that were found."""

from __future__ import annotations

from faults import Fault

_NUMPY = "import numpy as np\n"

_ROWS = '''ROOT.gInterpreter.ProcessLine("""{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  int n = 2, value[2][2] = {{1, 2}, {3, 4}}; t.Branch("n", &n, "n/I"); t.Branch("value", value, "value[n][2]/I");
  t.Fill(); t.Write(); }""")
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
        "`RDataFrame` ends the process for a variable array of fixed arrays",
        "`[1, 2, 3, 4]`",
        r"the process ends",
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
    *[
        Fault(
            "ROOT",
            f"a branch of `{kind}` ends the process",
            "a branch, or an error",
            r"the process ends",
            f"""import ROOT
ROOT.gInterpreter.ProcessLine('''{{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  {kind} v; t.Branch("v", &v); t.Fill(); t.Write(); }}''')
print("got", ROOT.TFile("a.root").Get("t").GetListOfBranches().GetSize(), "branches")
""",
        )
        for kind in ("std::optional<float>", "std::variant<int, float>")
    ],
    Fault(
        "ROOT",
        "the value of a `std::optional` in a class is not written",
        "`got 5`, or an error when the tree is written",
        r"^got 0",
        """import ROOT
ROOT.gInterpreter.Declare("#include <optional>\\nstruct M { int i = 1; std::optional<float> o; };")
ROOT.gInterpreter.ProcessLine('''{ TFile f("a.root", "RECREATE"); TTree t("t", "");
  M m{1, 5.f}; auto *p = &m; t.Branch("m", &p, 32000, 0); t.Fill(); t.Write(); }''')
ROOT.gInterpreter.ProcessLine('''{ TFile f("a.root"); auto t = f.Get<TTree>("t");
  M *m = nullptr; t->SetBranchAddress("m", &m); t->GetEntry(0);
  std::cout << "got " << m->o.value_or(-1) << std::endl; }''')
""",
        note="ROOT writes whether there is a value, and for `std::variant` which alternative, but not the value.",
    ),
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
    Fault(
        "ROOT",
        "a `std::vector` of objects with texts is freed wrongly if its class has no dictionary",
        "`got 1`",
        r"the process ends",
        """import ROOT
file = ROOT.TFile("a.root"); tree = file.Get("t")
for entry in range(tree.GetEntries()): tree.GetEntry(entry)
print("got", tree.GetEntries())
""",
        make="""with sapwood.recreate("a.root") as file:
    rich = [[{"e": 1.0, "w": "y" * 255}] * 3, [], [{"e": 2.0, "w": "abc"}] * 5] * 4
    file.mktree("t", {"rich": "var * {e: float64, w: string}"}, records="class", split_level=0).extend({"rich": rich})
""",
        note="Files that ROOT wrote have the same effect.",
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
        "`Float16_t` without a range loses bits of its mantissa",
        "`got [3.0]`",
        r"^got \[2\.0625\]",
        """import uproot
print("got", uproot.open("a.root:t")["value"].array().tolist())
""",
        make="""with sapwood.recreate("a.root") as file:
    file.mktree("t", {"value": "Float16_t"}).extend({"value": [3.0]})
""",
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
        "the values of ROOT and sapwood",
        r"^got",
        """import uproot
tree = uproot.open("uproot-issue-513.root")
print("got", tree.classnames())
""",
        files=("uproot-issue-513.root",),
        note="Branches `_opos`, `_pos`, `_mom`.",
    ),
    Fault(
        "uproot",
        "`fBits` of objects that a `TRef` names has three numbers for each object",
        "as many numbers as objects",
        r"^got True",
        """import uproot
tree = uproot.open("uproot-issue513.root:Delphes")
bits, ids = tree["Track.fBits"].array(), tree["Track.fUniqueID"].array()
import awkward as ak
print("got", bool(ak.any(ak.num(bits) == 3 * ak.num(ids))))
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
    Fault("jsroot", "texts of trees are not decoded as UTF-8", "`got é`", r"Ã", "a.root",
          _table("mktree", "std::string", '["é"]'), note="Bytes over 127 become characters of Latin-1."),
    Fault("jsroot", "texts of RNTuples are not decoded as UTF-8", "`got é`", "got (?!é)", "a.root",
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
    Fault("jsroot", "an RNTuple without clusters is an error", "no entries", r"TypeError",
          "structure.empty.root ntpl Int32", files=("structure.empty.root",)),
    Fault("jsroot", "`Float16_t` is refused", "`got 3`", r"Fail to add branch", "a.root",
          _table("mktree", "Float16_t", "[3.0]")),
    Fault("jsroot", "branches of trees that have a friend's index are an error", "values", r"TypeError|getFloat64",
          "join1.root j1 b10", files=("join1.root",)),
]  # fmt: skip

FAULTS = [*ROOT, *UPROOT, *JSROOT]

NOT_WRITTEN: list[tuple[str, str]] = []
"""Why types are not written: a pattern of what the writer says, and the reason."""
CAUSES: list[tuple[str, str]] = []
"""Why processes die: a pattern of where they do, and the cause."""
CRASHES = ""
"""What is known of crashes of ROOT for damaged files."""
