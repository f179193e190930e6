"""Check the order of dependencies: ``python tests/support/house.py`` prints what breaks it, and fails then.

Python: a file imports only from its own room or from rooms before it in `ROOMS`; imports for annotations and imports
inside functions count. No files import each other in a circle. Rust: a module of ``crates/root`` uses only modules of
layers before its own in `LAYERS`, or its own; the modules of a layer form no circle. Cargo refuses circles of crates.
The neutral rooms and layers contain no word of one storage format (`WORDS`). Of the names in `COMMON`, each belongs to
one type in each language.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "sapwood"
CRATE = ROOT / "crates" / "root" / "src"

ROOMS = [
    {"show.safe"},
    {
        "errors", "columns", "containers", "compression", "const", "ending", "exceptions", "garbage", "lazy", "locks",
        "naming", "threads", "_native",
    },
    {"show"},
    {"storage", "cache"}, {"source"}, {"table"}, {"objects", "schema", "interpretation"}, {"files"}, {"frames"},
    {"writing", "new", "vectors", "behaviors", "model", "models", "dynamic", "reading", "pyroot"},
    {"language", "streamers"}, {"sapwood"},
    {"train"}, {"lab"},
    {"tools", "pages"}, {"cli", "__main__"},
]  # fmt: skip
"""The rooms of the package, those of one set at one height; "sapwood" is the package's front page."""

LAYERS = [
    {"error", "types", "wire"}, {"compress", "array"}, {"streamer"}, {"file"}, {"table"}, {"read"}, {"expr"},
    {"tree", "ntuple", "zebra"}, {"output"},
]  # fmt: skip
"""The modules of ``crates/root``, those of one set at one height."""

_PYTHON = r"TTree|TBranch|RNTuple|[Bb]asket"
_RUST = r"TTree|[Bb]asket|[Bb]ranch|[Ll]eaf\b|N[Tt]uple|[Aa]nchor|[Ee]nvelope"
WORDS = {f"python/sapwood/{room}": _PYTHON for room in ("show", "storage", "table", "frames", "train")}
_NEUTRAL = ("wire", "compress", "array", "streamer", "file", "table", "read", "expr")
WORDS |= {f"crates/root/src/{module}": _RUST for module in _NEUTRAL}
"""Neutral rooms, and the words of storage formats that they do not contain."""

OF_CLASSES = {"streamer/builtin.rs", "streamer/special.rs", "file/kinds.rs"}
"""Files of neutral rooms that list ROOT's classes by name."""

PUBLIC = re.compile(r"basket_size|[\"']baskets?[\"']|baskets of|c\.baskets|\"fBasketSeek\"|\"TBasket\"")
"""Names that users know (options, counters), and names of ROOT's classes and members in code."""

COMMON = r"Part|Parts|Job|Reader|Place|Places|Layout|Layouts|Plan|Output"
"""Words that could name many things: a second type of such a name needs a longer one."""


def modules() -> dict[str, Path]:
    """Return all modules of the package by name."""
    found: dict[str, Path] = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(("sapwood", *path.relative_to(PACKAGE).with_suffix("").parts))
        found[name.removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Return the line and the module of each import of the package in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "sapwood":
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield node.lineno, inside if inside in known or inside == "sapwood._native" else str(node.module)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.partition(".")[0] == "sapwood")


def room(module: str) -> str:
    """Return the room of a module: the longest beginning of its name that has a place, or its first word."""
    _, _, inside = module.partition(".")
    places = [name for names in ROOMS for name in names if inside == name or inside.startswith(f"{name}.")]
    return max(places, key=len, default=inside.partition(".")[0]) or "sapwood"


def height(places: list[set[str]], name: str) -> int | None:
    """Return the place of a room or module in the order."""
    return next((number for number, names in enumerate(places) if name in names), None)


def wrong_imports() -> list[str]:
    """List imports of Python files that go up."""
    known, found = modules(), []
    for module, path in sorted(known.items()):
        mine = height(ROOMS, room(module))
        if mine is None:
            found.append(f"{path.relative_to(ROOT)}: the room {room(module)!r} has no place in ROOMS")
            continue
        for line, other in imports(path, known):
            theirs = height(ROOMS, room(other))
            if theirs is None or theirs > mine:
                found.append(f"{path.relative_to(ROOT)}:{line}: {room(module)} may not import {other}")
    return found


def circles_of(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the circles of a graph, each as the sorted names that can all be reached from each other."""
    reach: dict[str, set[str]] = {}
    for start, first in graph.items():
        seen: set[str] = set()
        todo = list(first)
        while todo:
            if (one := todo.pop()) not in seen:
                seen.add(one)
                todo += graph.get(one, ())
        reach[start] = seen
    circles = {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in graph if a in reach[a]}
    return sorted(map(sorted, circles))


def circles() -> list[str]:
    """List circles of Python files."""
    known = modules()
    graph = {m: {other for _, other in imports(path, known) if other in known} - {m} for m, path in known.items()}
    return [f"import circle: {', '.join(circle)}" for circle in circles_of(graph)]


def product(path: Path) -> str:
    """Return the code of a Rust file without comments and tests, with its lines where they were."""
    return re.sub(r"//[^\n]*", "", path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0])


def uses(code: str) -> Iterator[tuple[int, str]]:
    """Return the line and the module of each ``crate::module`` in Rust code, also in ``crate::{a::B, c}``."""
    for match in re.finditer(r"\bcrate::(?:(\w+)|\{)", code):
        line = code.count("\n", 0, match.start()) + 1
        if match[1]:
            yield line, match[1]
            continue
        depth, name = 1, ""
        for letter in code[match.end() :]:
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if depth == 0 or (depth == 1 and letter == ","):
                if first := re.match(r"\s*(\w+)", name):
                    yield line, first[1]
                name = ""
            else:
                name += letter
            if depth == 0:
                break


def wrong_uses() -> list[str]:
    """List uses of Rust modules that go up, and circles of modules."""
    found: list[str] = []
    graph: dict[str, set[str]] = {}
    for path in sorted(CRATE.rglob("*.rs")):
        name = path.relative_to(CRATE).parts[0].removesuffix(".rs")
        if name == "lib" or path.stem == "tests" or "tests" in path.parts:
            continue
        mine = height(LAYERS, name)
        if mine is None:
            found.append(f"{path.relative_to(ROOT)}: the module {name!r} has no place in LAYERS")
            continue
        for line, other in uses(product(path)):
            theirs = height(LAYERS, other)
            if theirs is None:
                continue  # a name that the crate exports, such as Error
            graph.setdefault(name, set()).update({other} - {name})
            if theirs > mine:
                found.append(f"{path.relative_to(ROOT)}:{line}: {name} may not use {other}")
    return found + [f"circle of modules: {', '.join(circle)}" for circle in circles_of(graph)]


def foreign_words() -> list[str]:
    """List words of one storage format in neutral rooms."""
    found: list[str] = []
    for folder, pattern in WORDS.items():
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT / folder).as_posix()
            if path.suffix not in (".py", ".rs") or path.stem == "tests" or f"{Path(folder).name}/{name}" in OF_CLASSES:
                continue
            for line, text in enumerate(path.read_text(encoding="utf-8").partition("#[cfg(test)]")[0].splitlines(), 1):
                words = re.findall(pattern, PUBLIC.sub("", text))
                found += [f"{path.relative_to(ROOT)}:{line}: the word {word!r} is of one format" for word in words]
    return found


def shared_names() -> list[str]:
    """List types that share one of the names in `COMMON`."""
    found: dict[tuple[str, str], list[str]] = {}
    kinds = {".rs": "struct|enum|trait|type", ".py": "class"}
    for folder in (ROOT / "crates", PACKAGE):
        for path in sorted(folder.rglob("*")):
            if path.suffix not in kinds or "target" in path.parts:
                continue
            definition = rf"^(?:pub(?:\([a-z]+\))? )?(?:{kinds[path.suffix]}) ({COMMON})\b"
            for name in re.findall(definition, path.read_text(encoding="utf-8"), re.MULTILINE):
                found.setdefault((path.suffix, name), []).append(str(path.relative_to(ROOT)))
    return [f"several types {name}: {', '.join(paths)}" for (_, name), paths in found.items() if len(paths) > 1]


if __name__ == "__main__":
    problems = [*wrong_imports(), *circles(), *wrong_uses(), *foreign_words(), *shared_names()]
    print("\n".join(problems) or "house: the order of dependencies holds")
    sys.exit(bool(problems))
