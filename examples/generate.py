"""Generate proton collisions with Pythia 8 and write them as ROOT files with the layout of NanoAOD.

python examples/generate.py --output DIR [--events N] [--processes N]

Half of the files hold Z bosons that decay to muons, the others hard QCD scattering. There is no detector: muons and
jets are what Pythia made. Every file has its own fixed seed: the same events come out however many processes work.
"""

import argparse
import contextlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np

import sapwood

COMMON = ["Print:quiet = on", "Beams:eCM = 13000.", "Random:setSeed = on"]
SAMPLES = {
    "zmumu": ["WeakSingleBoson:ffbar2gmZ = on", "PhaseSpace:mHatMin = 50.", "23:onMode = off", "23:onIfMatch = 13 -13"],
    "qcd": ["HardQCD:all = on", "PhaseSpace:pTHatMin = 20."],
}
FILES_PER_SAMPLE = 2
SHARE = {"zmumu": 0.6, "qcd": 0.4}
CHUNK = 250  # events written at a time

MUON, NEUTRINOS = 13, (12, 14, 16)
MUON_MIN_PT, MUON_MAX_ETA = 3.0, 2.4  # GeV
JET_RADIUS, JET_MIN_PT, JET_MAX_ETA = 0.4, 20.0, 4.7
PARTICLE_MAX_ETA = 5.0

BRANCHES = {
    "run": "uint32",
    "luminosityBlock": "uint32",
    "event": "uint64",
    "genWeight": "float32",
    "Generator_id": "int32",  # Pythia's code of the hard process
    "Generator_scalePDF": "float32",  # GeV, factorisation scale of the hard process
    "MET_pt": "float32",
    "MET_phi": "float32",
    "Muon": "var * {pt: float32, eta: float32, phi: float32, mass: float32, charge: int32}",
    "Jet": "var * {pt: float32, eta: float32, phi: float32, mass: float32}",
    "GenPart": "var * {pt: float32, eta: float32, phi: float32, mass: float32, pdgId: int32, status: int32}",
}


def generate(path: Path, sample: str, number: int, events: int) -> int:
    """Generate one file and give the number of events in it."""
    import pythia8mc

    pythia = pythia8mc.Pythia("", False)
    for setting in [*COMMON, f"Random:seed = {1000 * list(SAMPLES).index(sample) + number}", *SAMPLES[sample]]:
        pythia.readString(setting)
    pythia.init()
    jets = pythia8mc.SlowJet(-1, JET_RADIUS, JET_MIN_PT, JET_MAX_ETA, 2, 1)  # anti-kT on visible particles
    with sapwood.recreate(path) as file:
        tree = file.mktree("Events", BRANCHES, title=f"Pythia 8, {sample}")
        for first in range(0, events, CHUNK):
            rows = []
            while len(rows) < min(CHUNK, events - first):
                if pythia.next():
                    rows.append(one_event(pythia, jets, number, first + len(rows)))
            tree.extend(columns(rows))
    return events


def one_event(pythia: Any, jets: Any, run: int, number: int) -> tuple:
    """Take what is written of one event out of Pythia: scalars, jets, stable particles."""
    stable = []
    missing_x = missing_y = 0.0
    for particle in pythia.event:
        if not particle.isFinal():
            continue
        code = particle.id()
        if abs(code) in NEUTRINOS:
            missing_x += particle.px()
            missing_y += particle.py()
            continue
        eta = particle.eta()
        if abs(eta) < PARTICLE_MAX_ETA:
            stable.append((particle.pT(), eta, particle.phi(), particle.m(), code))
    jets.analyze(pythia.event)
    found = [(jets.pT(i), jets.p(i).eta(), jets.phi(i), jets.m(i)) for i in range(jets.sizeJet())]
    info = pythia.infoPython()
    missing = (np.hypot(missing_x, missing_y), np.arctan2(missing_y, missing_x))
    return (run, 1 + number // 100, number, info.weight(), info.code(), info.QFac(), *missing), found, stable


def columns(rows: list[tuple]) -> dict:
    """Turn the events of a chunk into columns."""
    scalars, jets, stable = zip(*rows, strict=True)
    result = dict(zip(BRANCHES, np.array(scalars).T, strict=False))  # the scalars come first
    particle = records(stable, ("pt", "eta", "phi", "mass", "pdgId"))
    particle["status"] = ak.ones_like(particle.pdgId)
    muon = particle[(abs(particle.pdgId) == MUON) & (particle.pt > MUON_MIN_PT) & (abs(particle.eta) < MUON_MAX_ETA)]
    muon = muon[ak.argsort(muon.pt, ascending=False)]
    result["Muon"] = ak.zip(
        {name: muon[name] for name in ("pt", "eta", "phi", "mass")} | {"charge": -np.sign(muon.pdgId)}
    )
    result["Jet"] = records(jets, ("pt", "eta", "phi", "mass"))
    result["GenPart"] = particle
    return {name: cast(array, BRANCHES[name]) for name, array in result.items()}


def records(lists: Sequence[list[tuple]], fields: tuple[str, ...]) -> ak.Array:
    """Turn lists of tuples into an array of lists of records."""
    flat = np.array([item for one in lists for item in one]).reshape(-1, len(fields)).T
    counts = [len(one) for one in lists]
    return ak.zip({name: ak.unflatten(column, counts) for name, column in zip(fields, flat, strict=True)})


def cast(array: Any, kind: str) -> Any:
    """Give a column, or every field of a record, the type that BRANCHES names."""
    if "{" not in kind:
        return array.astype(kind)
    kinds = dict(field.split(": ") for field in kind.partition("{")[2].rstrip("}").split(", "))
    return ak.zip({name: ak.values_astype(array[name], to) for name, to in kinds.items()})


def quietly() -> None:
    """Send what libraries print (FastJet's banner) nowhere."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main() -> None:
    """Generate all files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder for the files; made where it is missing")
    parser.add_argument("--events", type=int, default=5000, help="events in all files together (default %(default)s)")
    parser.add_argument("--processes", type=int, default=min(os.cpu_count() or 1, 4), help="files made at a time")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    started = time.perf_counter()
    with ProcessPoolExecutor(arguments.processes, get_context("spawn"), quietly) as pool:
        jobs = {}
        for sample in SAMPLES:
            for number in range(1, FILES_PER_SAMPLE + 1):
                path = arguments.output / f"{sample}_{number}.root"
                events = round(arguments.events * SHARE[sample] / FILES_PER_SAMPLE)
                jobs[path] = pool.submit(generate, path, sample, number, events)
        for path, job in jobs.items():
            print(f"{path}: {job.result()} events, {path.stat().st_size / 1e6:.1f} MB", flush=True)
    print(f"generated in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
