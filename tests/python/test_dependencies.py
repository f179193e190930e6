"""What `support/dependencies.py` refuses: licences, sources, wildcards and packages without a checksum."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

import dependencies
import pytest
from packaging.requirements import Requirement

RULES = {"licenses": {"allow": ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"],
                      "exceptions": [{"crate": "odd", "allow": ["NCSA"]}]}}  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "met"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only/MIT", True),
        ("MIT AND GPL-3.0-only", False),
        ("MIT AND ISC", True),
        ("(MIT OR GPL-3.0-only) AND ISC", True),
        ("(MIT OR ISC) AND GPL-3.0-only", False),
        ("GPL-3.0-only AND GPL-2.0-only OR MIT", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("Apache-2.0", False),
        ("(MIT", False),
        ("MIT MIT", False),
        ("", False),
    ],
)
def test_a_licence_expression_is_met_or_not(expression: str, met: bool) -> None:
    assert dependencies.allowed(expression, RULES["licenses"]["allow"]) is met


def package(**changed: Any) -> dict[str, Any]:
    manifest = str(dependencies.ROOT / "crates" / "a" / "Cargo.toml")
    return {"name": "a", "version": "1.0.0", "source": "registry+https://example.org/index", "license": "MIT",
            "dependencies": [], "manifest_path": manifest, **changed}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"license": None}, "the licence None is not in deny.toml"),
        ({"license": "NCSA"}, "the licence 'NCSA' is not in deny.toml"),
        ({"license": "NCSA", "name": "odd"}, None),
        ({"source": "git+https://example.org/a"}, "comes from git+https://example.org/a"),
        ({"source": None}, None),
        ({"source": None, "manifest_path": "/elsewhere/Cargo.toml"}, "is not in the repository"),
        ({"source": None, "dependencies": [{"name": "b", "req": "*"}]}, "any version of b would do"),
        ({"source": None, "dependencies": [{"name": "b", "req": "*", "path": "b"}]}, None),
    ],
)
def test_what_the_rules_forbid_is_found(changed: dict[str, Any], fault: str | None) -> None:
    found = list(dependencies.faults([package(**changed)], RULES))
    assert found == [] if fault is None else len(found) == 1 and fault in found[0]


def test_packages_of_another_registry_are_found() -> None:
    other = package(name="b", source="registry+https://example.org/other")
    found = list(dependencies.faults([package(), package(name="c"), other], RULES))
    assert found == ["b 1.0.0: comes from registry+https://example.org/other"]


def test_a_package_without_a_checksum_is_found() -> None:
    packages = [{"name": "own", "version": "1"}, package(checksum="0" * 64), package(name="b", checksum="0" * 63)]
    assert list(dependencies.unpinned({"package": packages})) == ["b 1.0.0: no checksum in the lock file"]


def test_the_conda_recipe_has_the_version_and_requirements_of_the_package() -> None:
    recipe = (dependencies.ROOT / "packaging" / "conda" / "recipe.yaml").read_text("utf-8")
    project = (dependencies.ROOT / "pyproject.toml").read_text("utf-8")
    cargo = (dependencies.ROOT / "Cargo.toml").read_text("utf-8")
    versions = [re.findall(r"^ *version *[:=] *\"?([\d.]+)", text, re.MULTILINE)[0] for text in (recipe, cargo)]
    assert versions[0] == versions[1]
    (needed,) = re.findall(r"^dependencies = \[(.*)\]$", project, re.MULTILINE)
    (python,) = re.findall(r'^requires-python = "(.*)"$', project, re.MULTILINE)
    wanted = {f"python{python}", *re.findall(r'"([^"]+)"', needed)}
    run = recipe.split("  run:\n")[1].split("tests:")[0]
    assert {line.replace(" ", "") for line in re.findall(r"- (.+)", run)} == wanted


def test_actions_that_can_be_replaced_by_other_code() -> None:
    commit = "actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8"
    steps = f"steps:\n  - uses: {commit} # v5.0.0\n  - uses: ./here\n  - name: a\n    uses: actions/checkout@v5\n"
    assert list(dependencies.movable(steps)) == ["actions/checkout@v5: not named by a commit"]


PACKAGING = dependencies.ROOT / "packaging"
GROUPS = dependencies.tomllib.loads((dependencies.ROOT / "pyproject.toml").read_text("utf-8"))


def requirements(group: str) -> list[Requirement]:
    """Return the requirements of a group of pyproject.toml, with those of the groups in it."""
    found: list[Requirement] = []
    for one in GROUPS["dependency-groups"][group]:
        found += requirements(one["include-group"]) if isinstance(one, dict) else [Requirement(one)]
    return found


def needed(requirement: Requirement, known: set[str]) -> set[str]:
    """Return the names of a package and of all that it needs, by what is installed here; extras are left out."""
    name = requirement.name.lower().replace("_", "-")
    if name in known:
        return set()
    found = {name}
    try:
        further = map(Requirement, metadata.requires(name) or [])
    except metadata.PackageNotFoundError:
        return found
    for one in further:
        if one.marker is None or one.marker.evaluate({"extra": ""}):
            found |= needed(one, known | found)
    return found


@pytest.mark.parametrize("group", ["wheels", "wheel", "conformance", "deny"])
def test_packages_fixed_by_hashes_are_those_of_the_group_and_all_that_they_need(group: str) -> None:
    pinned = dependencies.pins((PACKAGING / f"{group}.txt").read_text("utf-8"))
    for requirement in requirements(group):
        name = requirement.name.lower()
        assert requirement.specifier.contains(pinned[name], prereleases=True), f"{name} {pinned[name]}: `make pins`"
        assert needed(requirement, set()) <= set(pinned), "a package is missing: `make pins`"


def test_groups_fixed_by_hashes_have_the_requirements_of_the_package_and_its_builder() -> None:
    assert GROUPS["dependency-groups"]["wheel"] == GROUPS["project"]["dependencies"]
    assert set(GROUPS["build-system"]["requires"]) <= set(GROUPS["dependency-groups"]["wheels"])
    lists = re.findall(r"^PINNED := (.*)$", (dependencies.ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert lists[0].split() == ["wheels", "wheel", "conformance", "deny"]
    assert sorted(path.stem for path in PACKAGING.glob("*.txt")) == sorted(lists[0].split())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"numpy==2.4.0 --hash=sha256:{'0' * 64}", None),
        (f"numpy==2.4.0 ; a > '3' \\\n    --hash=sha256:{'0' * 64} \\\n    --hash=sha256:{'1' * 64}", None),
        ("numpy==2.4.0", "numpy==2.4.0: no version, or no hash"),
        (f"numpy>=2.4.0 --hash=sha256:{'0' * 64}", "numpy>=2.4.0: no version, or no hash"),
        (f"numpy==2.4.0 --hash=sha256:{'0' * 63}", "no hash"),
    ],
)
def test_a_python_package_without_a_version_or_hash_is_found(line: str, message: str | None) -> None:
    if message is None:
        assert dependencies.pins(f"# made by\n{line}\n") == {"numpy": "2.4.0"}
    else:
        with pytest.raises(ValueError, match=message):
            dependencies.pins(line)


def test_what_a_workflow_installs_without_a_hash_is_found() -> None:
    makefile = (
        "PIP := python -m pip install\nall: wheel ## all\n\techo\n"
        "wheel: $(VENV)/.ready ## a wheel\n\tmaturin build\n\tpip install --require-hashes -r a.txt\n"
        "$(VENV)/.ready: a.txt\n\t$(PIP) --group dev\nother:\n\tpip install b\n"
    )
    assert list(dependencies.loose("- run: make wheel A=b", makefile)) == [
        "pip install --group dev: no hash fixes what is installed"
    ]
    assert len(list(dependencies.loose("- run: make all", makefile))) == 1
    assert not list(dependencies.loose("- run: cargo install --locked a\n- run: pip install --no-index b", makefile))
    assert len(list(dependencies.loose("- run: npm install a@1.2.3 && pip install c", makefile))) == 2


def test_the_page_on_conformance_is_of_this_version() -> None:
    (page,) = re.findall(
        r"Versions: sapwood ([\d.]+),", (dependencies.ROOT / "docs" / "conformance.md").read_text("utf-8")
    )
    (version,) = re.findall(r"^version = \"(.*)\"", (dependencies.ROOT / "Cargo.toml").read_text("utf-8"), re.MULTILINE)
    assert page == version
