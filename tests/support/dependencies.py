"""Check what sapwood is built from: ``python tests/support/dependencies.py`` prints what `deny.toml` forbids.

Licences, sources, wildcards and checksums of all crates, those for other systems included, by what `cargo metadata`
and the lock files say; the actions of workflows, which are named by their commit; and the Python packages that make and
try what is published: `packaging/*.txt` fixes each by its version and hashes, and the workflow of releases installs no
others. `make deny` looks for advisories and yanked versions as well.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ("Cargo.toml", "fuzz/Cargo.toml")
HASH = re.compile(r"[0-9a-f]{64}")
ACTION = re.compile(r"(?m)^\s*(?:-\s+)?uses:\s*(\S+)")
PINNED = re.compile(r"([\w.-]+)==([^\s;]+)(?: ; [^\\]+?)?((?: --hash=sha256:[0-9a-f]{64})+)")
TARGET = re.compile(r"(?m)^([^\s:#=.][^:=\n]*):(?!=)([^\n#]*)(?:##[^\n]*)?\n((?:\t[^\n]*\n)*)")
INSTALL = re.compile(r"\b(?:pip|npm|pipx|uv(?: pip)?|cargo) (?:install|wheel|download|sync)\b[^\n;&|]*")


def allowed(expression: str, licences: Collection[str]) -> bool:
    """Whether an SPDX expression can be met with these licences; ``/`` is an old way to write OR."""
    tokens = re.findall(r"[()]|[^\s()/]+|/", expression)

    def either() -> bool:
        met = both()
        while tokens and tokens[0] in ("OR", "/"):
            tokens.pop(0)
            met = both() or met
        return met

    def both() -> bool:
        met = single()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            met = single() and met
        return met

    def single() -> bool:
        token = tokens.pop(0) if tokens else ""
        if token == "(":
            met = either()
            return tokens[:1] == [")"] and tokens.pop(0) == ")" and met
        if tokens[:1] == ["WITH"]:
            token = " ".join([token, tokens.pop(0), tokens.pop(0) if tokens else ""])
        return token in licences

    return either() and not tokens


def faults(packages: Collection[Mapping[str, Any]], rules: Mapping[str, Any]) -> Iterator[str]:
    """Return what the rules forbid of packages as `cargo metadata` lists them; all come from one registry."""
    licences = rules["licenses"]
    sources = Counter(package["source"] for package in packages if (package["source"] or "").startswith("registry+"))
    registry = max(sources, key=sources.__getitem__, default=None)
    further = {one["crate"]: one["allow"] for one in licences.get("exceptions", ())}
    for package in packages:
        name = f"{package['name']} {package['version']}"
        source, licence = package["source"], package["license"]
        if source is None:
            if not Path(package["manifest_path"]).is_relative_to(ROOT):
                yield f"{name}: {package['manifest_path']} is not in the repository"
        elif source != registry:
            yield f"{name}: comes from {source}"
        if not allowed(licence or "", [*licences["allow"], *further.get(package["name"], ())]):
            yield f"{name}: the licence {licence!r} is not in deny.toml"
        if source is None:
            for needed in package["dependencies"]:
                if needed["req"] == "*" and not needed.get("path"):
                    yield f"{name}: any version of {needed['name']} would do"


def unpinned(lock: Mapping[str, Any]) -> Iterator[str]:
    """Return the packages of a lock file that have no checksum of what is downloaded."""
    for package in lock["package"]:
        if "source" in package and not HASH.fullmatch(package.get("checksum", "")):
            yield f"{package['name']} {package['version']}: no checksum in the lock file"


def movable(workflow: str) -> Iterator[str]:
    """Return the actions of a workflow that are not named by a commit: a tag can be moved to other code."""
    for action in ACTION.findall(workflow):
        if not action.startswith("./") and not re.fullmatch(r"[^@]+@[0-9a-f]{40}", action):
            yield f"{action}: not named by a commit"


def pins(text: str) -> dict[str, str]:
    """Return the names and versions of a list of Python packages, each of which has hashes.

    Raises
    ------
    ValueError
        A package has no version or no hash.
    """
    found: dict[str, str] = {}
    for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines():
        if line.strip() and not line.startswith("#"):
            pinned = PINNED.fullmatch(line.strip())
            if pinned is None:
                raise ValueError(f"{line.split(' --hash')[0]}: no version, or no hash of what is downloaded")
            found[re.sub(r"[-_.]+", "-", pinned[1]).lower()] = pinned[2]
    return found


def loose(workflow: str, makefile: str) -> Iterator[str]:
    """Return what a workflow installs, itself or through targets of the Makefile, and what no hash fixes."""
    targets = {
        name: (needs.split(), recipe) for names, needs, recipe in TARGET.findall(makefile) for name in names.split()
    }
    wanted = [name for words in re.findall(r"\bmake ((?:[\w-]+ ?)+)(?=\s|$)", workflow) for name in words.split()]
    texts, seen = [workflow], set[str]()
    while wanted:
        name = wanted.pop()
        if name not in seen and name in targets:
            seen.add(name)
            wanted += targets[name][0]
            texts.append(targets[name][1].replace("\\\n", " "))
    text = "\n".join(texts)
    for name, value in re.findall(r"(?m)^([A-Z]+) [:?]?= (.*)$", makefile):
        text = text.replace(f"$({name})", value)
    for install in INSTALL.findall(text):
        if not re.search(r"--require-hashes|--no-index|--locked", install):
            yield f"{install.strip()}: no hash fixes what is installed"


def main() -> None:
    """Check the workspace, the fuzz targets, the workflows and the lists of Python packages."""
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    found: list[str] = []
    count = 0
    for manifest in MANIFESTS:
        path = ROOT / manifest
        told = subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", path],
            check=True, stdout=subprocess.PIPE,
        )  # fmt: skip
        packages = json.loads(told.stdout)["packages"]
        count += len(packages)
        lock = tomllib.loads(path.with_suffix(".lock").read_text())
        found += [f"{manifest}: {fault}" for fault in (*faults(packages, rules), *unpinned(lock))]
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        found += [f"{path.relative_to(ROOT)}: {fault}" for fault in movable(path.read_text())]
    release = (ROOT / ".github" / "workflows" / "release.yml").read_text()
    found += [f"release.yml: {fault}" for fault in loose(release, (ROOT / "Makefile").read_text())]
    for path in sorted((ROOT / "packaging").glob("*.txt")):
        try:
            pins(path.read_text())
        except ValueError as error:
            found.append(f"{path.relative_to(ROOT)}: {error}")
    for fault in found:
        print(fault)
    if found:
        sys.exit(f"dependencies: {len(found)} faults")
    print(f"dependencies: {count} crates have allowed licences, sources and checksums")


if __name__ == "__main__":
    main()
