"""Scripts for uproot run with the import changed, and print the same."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

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
}


@pytest.mark.parametrize("name", list(SCRIPTS))
def test_a_script_runs_with_the_import_changed(name: str, tmp_path: Path) -> None:
    path = str(write_sample(tmp_path))

    def output(module: ModuleType) -> str:
        out = io.StringIO()
        with redirect_stdout(out):
            exec(SCRIPTS[name], {"uproot": module, "path": path, "standard": STANDARD})
        return out.getvalue()

    assert output(sapwood) == output(uproot)
