"""What `support/dependencies.py` refuses: licences, sources, wildcards and packages without a checksum."""

from __future__ import annotations

import re
from typing import Any

import dependencies
import pytest

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
