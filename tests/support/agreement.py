"""Whether values that sapwood reads are those in ROOT's JSON form (TBufferJSON)."""

from __future__ import annotations

import math
import struct
from typing import Any

UNKNOWN = "?unknown?"
# What is no member: names of classes, and the unique id and bits of a TObject, which change in memory.
BOOK_KEEPING = {"_typename", "fUniqueID", "fBits", "fPID", "opt", "$pair"}

# The bits of a TObject that are its own: those of the class, and kIsReferenced; others say where it lies in memory.
OWN_BITS = 0xFFC010

COLLECTIONS = ("TObjArray", "TList", "THashList", "TClonesArray", "TOrdCollection", "TMap")


class CannotJudgeError(Exception):
    """ROOT gives no value to compare with."""


def numbered(tree: Any) -> Any:
    """Put each object in place of a reference to it (`$ref`): ROOT counts objects in the order in which they start."""
    seen: list[Any] = []

    def walk(value: Any) -> Any:
        if isinstance(value, list):
            return [walk(item) for item in value]
        if not isinstance(value, dict):
            return value
        if set(value) == {"$ref"}:
            return seen[value["$ref"]] if value["$ref"] < len(seen) else UNKNOWN
        whole: dict[str, Any] = {}
        if "$pair" not in value:
            seen.append(whole)
        for name, member in value.items():
            whole[name] = walk(member)
        return whole

    return walk(tree)


def difference(ours: Any, root: Any, above: tuple[Any, ...] = ()) -> str | None:
    """Return the first difference; a member that ROOT could not write raises CannotJudgeError."""
    if isinstance(root, str) and root == UNKNOWN:
        raise CannotJudgeError("ROOT has no dictionary for it")
    if ours is None and any(root is one for one in above):
        return None  # a pointer back to an object that it is part of
    if isinstance(root, dict):
        above = (*above, root)
        if root.get("_typename") in ("TObjArray", "TClonesArray") and isinstance(ours, list):
            ours = [item for item in ours if item is not None]  # ROOT's form leaves out its gaps
        root = unwrapped(root)
    if isinstance(ours, dict) and isinstance(root, dict):
        return of_records(ours, root, above)
    if isinstance(ours, tuple) and isinstance(root, dict):
        return difference(list(ours), [root.get("first"), root.get("second")], above)
    if isinstance(ours, (list, tuple)) and isinstance(root, str) and all(isinstance(item, int) for item in ours):
        text = bytes(item & 255 for item in ours).split(b"\0")[0].decode("latin-1")
        return None if text == root else f"{text[:60]!r}, ROOT has {root[:60]!r}"
    if isinstance(ours, (list, tuple)) and isinstance(root, list):
        if ours and isinstance(ours[0], tuple) and len(root) == 2 * len(ours):
            ours = [item for pair in ours for item in pair]  # a map in a map, as ROOT's form has it
        if len(ours) != len(root):
            return f"{len(ours)} elements, ROOT has {len(root)}"
        for place, (a, b) in enumerate(zip(ours, root, strict=True)):
            found = difference(a, b, above)
            if found:
                return f"[{place}] {found}"
        return None
    return None if same(ours, root) else f"{str(ours)[:80]}, ROOT has {str(root)[:80]}"


def unwrapped(root: dict[str, Any]) -> Any:
    """Return what stands inside ROOT's collections, arrays and strings."""
    name = str(root.get("_typename", ""))
    if "arr" in root and name in COLLECTIONS:
        return root["arr"]
    if name.startswith("TArray") and set(root) <= {"_typename", "fN", "fArray"}:
        return root["fArray"]
    return root


def of_records(ours: dict[str, Any], root: dict[str, Any], above: tuple[Any, ...]) -> str | None:
    """Compare members by name."""
    if root.get("_typename") == "TRef":
        return difference(ours.get("ref"), root.get("fUniqueID"), above)
    if root.get("_typename") == "TRefArray":
        # ROOT gives the objects that it finds.
        ids = [item and item["fUniqueID"] for item in root["arr"]]
        if (ours["fName"] or "TRefArray") != root["name"] or ours["fSize"] != len(ids):
            return f"{str(ours)[:80]}, ROOT has {len(ids)} references called {root['name']!r}"
        return difference([i and ref for i, ref in zip(ids, ours["refs"], strict=True)], ids, above)
    if root.get("_typename") == "TDatime":
        raise CannotJudgeError("ROOT's form of a TDatime has no members")
    missing = set(root) - BOOK_KEEPING - set(ours)
    if missing:
        return f"no member {sorted(missing)}, ROOT has {list(root)[:12]}"
    for name, value in ours.items():
        if name in BOOK_KEEPING:
            continue
        if name not in root:
            return f"member {name}, ROOT has {list(root)[:12]}"
        found = difference(value, root[name], above)
        if found:
            return f"{name}: {found}"
    return None


def same(ours: Any, root: Any) -> bool:
    """Compare two numbers or texts; ROOT writes NaN as null, infinity as a number too large, a float with 9 digits."""
    if isinstance(ours, float) and root is None:
        return math.isnan(ours)
    if isinstance(ours, (int, float)) and isinstance(root, (int, float)):
        if ours == root:
            return True
        if isinstance(ours, float) and abs(root) <= 3.5e38:
            return struct.pack("f", ours) == struct.pack("f", root) and single(ours)
        return False
    if isinstance(ours, str) and isinstance(root, str):
        return ours == root or ours.encode("utf-8", "surrogateescape").decode("latin-1") == root
    return ours is None and root is None


def single(value: float) -> bool:
    """Whether a double has the value of a float."""
    return struct.unpack("f", struct.pack("f", value))[0] == value


def part_difference(names: list[str], unordered: bool, ours: Any, root: Any) -> str | None:
    """Compare an entry of a branch (by its names from the top) with its place in the object of the top-level branch."""
    whole = root
    before, base = names[0].rstrip(".") + ".", False
    for name in (full.split("[")[0].rstrip(".") for full in names[1:]):
        root, base = step(root, name.removeprefix(before))
        before = name + "."
    if isinstance(ours, int) and isinstance(root, dict):
        root = unwrapped(root)
    if isinstance(ours, int) and isinstance(root, list):
        root = len(root)  # the branch of a split collection counts its elements
    if names[-1].endswith("fBits"):
        ours, root = (own_bits(value) for value in (ours, root))
    if unordered:
        ours, root = sorted(ours, key=str), sorted(root, key=str)
    return difference(ours, of_base(ours, root) if base else root, (whole,))


def own_bits(value: Any) -> Any:
    """Return the bits of one object or of several."""
    return [own_bits(item) for item in value] if isinstance(value, list) else value & OWN_BITS


def of_base(ours: Any, root: Any) -> Any:
    """Leave out what is not of the base: ROOT's form has the members of bases among the object's own."""
    if isinstance(ours, list) and isinstance(root, list) and len(ours) == len(root):
        return [of_base(a, b) for a, b in zip(ours, root, strict=True)]
    if not isinstance(root, dict):
        return root
    if isinstance(ours, dict):
        return {name: value for name, value in root.items() if name in ours}
    raise CannotJudgeError("ROOT's class has no such member")


def step(root: Any, name: str) -> tuple[Any, bool]:
    """Return a member, or that of all elements of a collection, and whether it is a base: the object itself."""
    if isinstance(root, dict):
        root = unwrapped(root)
    if isinstance(root, list):
        steps = [step(item, name) for item in root]
        return [item for item, _ in steps], any(base for _, base in steps)
    if not isinstance(root, dict):
        raise CannotJudgeError(f"no object for {name}")
    if name in root:
        return root[name], False
    head, _, rest = name.partition(".")
    if rest:
        return step(root.get(head, root), rest)
    return root, True
