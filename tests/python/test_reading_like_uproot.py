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

SCRIPTS = {
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
            exec(SCRIPTS[name], {"uproot": module, "path": path})
        return out.getvalue()

    assert output(sapwood) == output(uproot)
