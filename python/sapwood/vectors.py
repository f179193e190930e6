"""Vectors of ROOT as records that the `vector` package gives arithmetic and coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import awkward as ak

# Class, or coordinates of a class of ROOT::Math: the record's name, and each field with where it is.
_CLASSES = {
    "TVector2": ("Vector2D", {"x": "fX", "y": "fY"}),
    "TVector3": ("Vector3D", {"x": "fX", "y": "fY", "z": "fZ"}),
    "TLorentzVector": ("Momentum4D", {"px": "fP.fX", "py": "fP.fY", "pz": "fP.fZ", "E": "fE"}),
}
_COORDINATES = {
    "Cartesian2D": ("Vector2D", {"x": "fX", "y": "fY"}),
    "Polar2D": ("Vector2D", {"rho": "fR", "phi": "fPhi"}),
    "Cartesian3D": ("Vector3D", {"x": "fX", "y": "fY", "z": "fZ"}),
    "Cylindrical3D": ("Vector3D", {"rho": "fRho", "phi": "fPhi", "z": "fZ"}),
    "CylindricalEta3D": ("Vector3D", {"rho": "fRho", "phi": "fPhi", "eta": "fEta"}),
    "PxPyPzE4D": ("Momentum4D", {"px": "fX", "py": "fY", "pz": "fZ", "E": "fT"}),
    "PxPyPzM4D": ("Momentum4D", {"px": "fX", "py": "fY", "pz": "fZ", "M": "fM"}),
    "PtEtaPhiE4D": ("Momentum4D", {"pt": "fPt", "phi": "fPhi", "eta": "fEta", "E": "fE"}),
    "PtEtaPhiM4D": ("Momentum4D", {"pt": "fPt", "phi": "fPhi", "eta": "fEta", "M": "fM"}),
}
# By which the `vector` package finds coordinates: fields of other meaning must not have these names.
_TAKEN = {
    "x", "y", "z", "t", "px", "py", "pz", "pt", "rho", "phi", "theta", "eta", "tau", "E", "e", "energy", "M", "m",
    "mass",
}  # fmt: skip


def as_vectors(array: ak.Array) -> ak.Array:
    """Return an array with its ROOT vectors as records of the `vector` package, wherever they stand.

    `TVector2`, `TVector3` and `TLorentzVector`, and the vectors of `ROOT::Math` in Cartesian, cylindrical and
    pt-eta-phi coordinates, become `Vector2D`, `Vector3D` or `Momentum4D` with the same numbers (momenta and energies
    in the file's own units). Everything else stays as it is, and no number is copied.

    Raises ImportError without the `vector` package.
    """
    import awkward as ak
    import vector

    vector.register_awkward()

    def replace(layout: Any, **_: object) -> Any:
        if not layout.is_record:
            return None
        name, places = _meaning(layout)
        if not places:
            return None
        contents = {field: _at(layout, place) for field, place in places.items()}
        used = {place.partition(".")[0] for place in places.values()}
        for field in layout.fields:
            if field not in used:
                contents[field] = ak.transform(replace, layout.content(field), highlevel=False)
        return ak.contents.RecordArray(
            list(contents.values()), list(contents), length=layout.length, parameters={"__record__": name}
        )

    found: Any = ak.transform(replace, array)
    return found


def _meaning(layout: Any) -> tuple[str, dict[str, str]]:
    """Return the record's name and where its coordinates are, or nothing."""
    classname = layout.parameter("__record__") or ""
    fields = layout.fields
    name, places = _CLASSES.get(classname, ("", {}))
    if fields[:2] == ["fP", "fE"] and _class_at(layout, "fP") == "TVector3":
        name, places = _CLASSES["TLorentzVector"]
    elif fields[:1] == ["fCoordinates"] and _class_at(layout, "fCoordinates").startswith("ROOT::Math::"):
        coordinates = _class_at(layout, "fCoordinates").removeprefix("ROOT::Math::").split("<")[0]
        name, inside = _COORDINATES.get(coordinates, ("", {}))
        places = {field: f"fCoordinates.{place}" for field, place in inside.items()}
    used = {place.partition(".")[0] for place in places.values()}
    return (name, places) if _TAKEN.isdisjoint(set(fields) - used) else ("", {})


def _class_at(layout: Any, field: str) -> str:
    return layout.content(field).parameter("__record__") or ""


def _at(layout: Any, place: str) -> Any:
    for part in place.split("."):
        layout = layout.content(part)
    return layout
