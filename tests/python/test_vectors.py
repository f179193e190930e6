"""ROOT's vectors as records of the `vector` package."""

from __future__ import annotations

import awkward as ak
import pytest

import sapwood


def named(name: str, **fields: ak.Array) -> ak.Array:
    return ak.zip(fields, with_name=name, depth_limit=1)


def numbers(*values: float) -> ak.Array:
    return ak.Array(list(values))


def test_lorentz_vectors_in_lists_and_records() -> None:
    momentum = named("TVector3", fX=numbers(3.0, 0.0, 1.0), fY=numbers(4.0, 1.0, 0.0), fZ=numbers(0.0, 0.0, 2.0))
    flat = named("TLorentzVector", fP=momentum, fE=numbers(13.0, 2.0, 3.0))
    array = ak.Array({"id": [1, 2], "v": ak.unflatten(flat, [1, 2])})
    found = sapwood.as_vectors(array)
    assert found.id.to_list() == [1, 2]
    assert found.v.pt.to_list() == [[5.0], [1.0, 1.0]]
    assert found.v.mass.to_list() == [[12.0], [3.0**0.5, 2.0]]
    assert (found.v[1][0] + found.v[1][1]).E == 5.0


@pytest.mark.parametrize(
    ("kind", "fields", "wanted"),
    [
        ("PxPyPzE4D<double>", {"fX": 3.0, "fY": 4.0, "fZ": 0.0, "fT": 13.0}, {"pt": 5.0, "mass": 12.0}),
        ("PtEtaPhiM4D<float>", {"fPt": 2.0, "fEta": 0.0, "fPhi": 0.0, "fM": 1.5}, {"px": 2.0, "E": 2.5}),
        ("PtEtaPhiE4D<float>", {"fPt": 2.0, "fEta": 0.0, "fPhi": 0.0, "fE": 2.5}, {"px": 2.0, "mass": 1.5}),
        ("PxPyPzM4D<double>", {"fX": 2.0, "fY": 0.0, "fZ": 0.0, "fM": 1.5}, {"E": 2.5}),
        ("Cartesian3D<double>", {"fX": 3.0, "fY": 4.0, "fZ": 1.0}, {"rho": 5.0, "z": 1.0}),
        ("Cylindrical3D<double>", {"fRho": 5.0, "fZ": 1.0, "fPhi": 0.0}, {"x": 5.0, "z": 1.0}),
        ("CylindricalEta3D<double>", {"fRho": 5.0, "fEta": 0.0, "fPhi": 0.0}, {"x": 5.0, "z": 0.0}),
        ("Cartesian2D<double>", {"fX": 3.0, "fY": 4.0}, {"rho": 5.0}),
        ("Polar2D<double>", {"fR": 5.0, "fPhi": 0.0}, {"x": 5.0}),
    ],
)
def test_coordinates_of_root_math(kind: str, fields: dict[str, float], wanted: dict[str, float]) -> None:
    inner = named(f"ROOT::Math::{kind}", **{name: numbers(value) for name, value in fields.items()})
    outer = "ROOT::Math::LorentzVector" if kind.startswith("P") and "4D" in kind else "ROOT::Math::PositionVector"
    found = sapwood.as_vectors(named(f"{outer}<ROOT::Math::{kind}>", fCoordinates=inner))
    assert {name: float(getattr(found, name)[0]) for name in wanted} == pytest.approx(wanted)


def test_other_records_stay() -> None:
    array = ak.Array({"a": named("Track", fX=numbers(1.0)), "b": [[1, 2]]})
    assert ak.almost_equal(sapwood.as_vectors(array), array)
    polar = named("ROOT::Math::Polar3D<double>", fR=numbers(1.0), fTheta=numbers(1.0), fPhi=numbers(0.0))
    unknown = named("ROOT::Math::PositionVector3D<ROOT::Math::Polar3D<double>>", fCoordinates=polar)
    assert sapwood.as_vectors(unknown).fields == ["fCoordinates"]


def test_derived_classes_keep_their_members() -> None:
    momentum = named("TVector3", fX=numbers(3.0, 0.0), fY=numbers(4.0, 1.0), fZ=numbers(0.0, 0.0))
    track = named("Track", fP=momentum, fE=numbers(13.0, 2.0), charge=ak.Array([1, -1]), at=momentum)
    found = sapwood.as_vectors(track)
    assert found.fields == ["px", "py", "pz", "E", "charge", "at"]
    assert found.pt.to_list() == [5.0, 1.0] and found.charge.to_list() == [1, -1]
    assert found.at.rho.to_list() == [5.0, 1.0]
    assert (found[0] + found[1]).E == 15.0
    inner = named("ROOT::Math::PtEtaPhiM4D<double>", **{f"f{n}": numbers(0.0) for n in ("Pt", "Eta", "Phi", "M")})
    assert sapwood.as_vectors(named("Jet", fCoordinates=inner, btag=numbers(0.5))).btag.to_list() == [0.5]
    # A member named like a coordinate would become one.
    clash = named("Other", fP=momentum, fE=numbers(13.0, 2.0), mass=numbers(1.0, 2.0))
    assert sapwood.as_vectors(clash).fields == ["fP", "fE", "mass"]
    assert sapwood.as_vectors(named("Point", fX=numbers(1.0), fY=numbers(2.0))).fields == ["fX", "fY"]
