"""Whether values that sapwood reads are those in ROOT's JSON form (TBufferJSON)."""

from __future__ import annotations

import math
import struct
from typing import Any

UNKNOWN = "?unknown?"
# What is no member: names of classes, and the unique id and bits of a TObject, which change in memory.
BOOK_KEEPING = {"_typename", "fUniqueID", "fBits", "fPID", "opt", "$pair"}


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


def difference(ours: Any, root: Any, depth: int = 0) -> str | None:
    """Give the first difference; a member that ROOT could not write raises CannotJudgeError."""
    if depth > 60:
        return None
    if root == UNKNOWN:
        raise CannotJudgeError("ROOT has no dictionary for it")
    if isinstance(root, dict):
        root = unwrapped(root)
    if isinstance(ours, dict) and isinstance(root, dict):
        return of_records(ours, root, depth)
    if isinstance(ours, tuple) and isinstance(root, dict):
        return difference(list(ours), [root.get("first"), root.get("second")], depth + 1)
    if isinstance(ours, (list, tuple)) and isinstance(root, str) and all(isinstance(item, int) for item in ours):
        text = bytes(item & 255 for item in ours).split(b"\0")[0].decode("latin-1")
        return None if text == root else f"{text[:60]!r}, ROOT has {root[:60]!r}"
    if isinstance(ours, (list, tuple)) and isinstance(root, list):
        if len(ours) != len(root):
            return f"{len(ours)} elements, ROOT has {len(root)}"
        for place, (a, b) in enumerate(zip(ours, root, strict=True)):
            found = difference(a, b, depth + 1)
            if found:
                return f"[{place}] {found}"
        return None
    return None if same(ours, root) else f"{str(ours)[:80]}, ROOT has {str(root)[:80]}"


def unwrapped(root: dict[str, Any]) -> Any:
    """Give what stands inside ROOT's collections, arrays and strings."""
    name = str(root.get("_typename", ""))
    if "arr" in root and name in ("TObjArray", "TList", "THashList", "TClonesArray", "TOrdCollection"):
        return root["arr"]
    if name.startswith("TArray") and set(root) <= {"_typename", "fN", "fArray"}:
        return root["fArray"]
    return root


def of_records(ours: dict[str, Any], root: dict[str, Any], depth: int) -> str | None:
    """Compare members by name."""
    if root.get("_typename") == "TRef":
        return difference(ours.get("ref"), root.get("fUniqueID"), depth + 1)
    if root.get("_typename") == "TRefArray":
        # ROOT gives the objects that it finds.
        ids = [item and item["fUniqueID"] for item in root["arr"]]
        if (ours["fName"] or "TRefArray") != root["name"] or ours["fSize"] != len(ids):
            return f"{str(ours)[:80]}, ROOT has {len(ids)} references called {root['name']!r}"
        return difference([i and ref for i, ref in zip(ids, ours["refs"], strict=True)], ids, depth + 1)
    missing = set(root) - BOOK_KEEPING - set(ours)
    if missing:
        return f"no member {sorted(missing)}, ROOT has {list(root)[:12]}"
    for name, value in ours.items():
        if name in BOOK_KEEPING:
            continue
        if name not in root:
            return f"member {name}, ROOT has {list(root)[:12]}"
        found = difference(value, root[name], depth + 1)
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
