"""Fixtures of the tests with ROOT."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from forks import forking


@pytest.fixture(scope="module", autouse=True)
def forked_roots(root_python: Path) -> Iterator[None]:
    """Start the programs of ROOT as forks of a process that has imported it."""
    with forking(root_python):
        yield
