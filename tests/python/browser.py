"""A browser without a window, for looking at pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def _browser(folder: Path) -> list[str]:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs chromium to open the page")
    return [program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"]


def looks(page: Path, folder: Path) -> int:
    """Have a browser draw a page; gives the bytes of the picture. The test is skipped where there is none."""
    picture = folder / "page.png"
    command = [*_browser(folder), "--hide-scrollbars", "--window-size=1280,2400", f"--screenshot={picture}"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert picture.is_file(), done.stderr[-2000:]
    return picture.stat().st_size


def drawn(page: Path | str, folder: Path, milliseconds: int | None = None) -> str:
    """Have a browser run a page; gives what its elements are then. The test is skipped where there is none.

    A page that waits for a server needs `milliseconds` of its own time at most.
    """
    waiting = [] if milliseconds is None else [f"--virtual-time-budget={milliseconds}"]
    command = [*_browser(folder), *waiting, "--dump-dom", page if isinstance(page, str) else page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
