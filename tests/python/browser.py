"""A browser without a window, for looking at pages."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


def looks(page: Path, folder: Path) -> int:
    """Have a browser draw a page; gives the bytes of the picture. The test is skipped where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs chromium to open the page")
    picture = folder / "page.png"
    command = [
        program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1280,2400", f"--screenshot={picture}", page.as_uri(),
    ]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120)
    assert picture.is_file(), done.stderr[-2000:]
    return picture.stat().st_size
