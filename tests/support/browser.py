"""A browser without a window, for looking at pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest


def _browser(folder: Path) -> list[str]:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("needs chromium (apt-get install chromium)")
    offline = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
    return [program, "--headless", "--no-sandbox", "--disable-gpu", *offline, f"--user-data-dir={folder / 'profile'}"]


def looks(page: Path, folder: Path, scheme: str = "light") -> int:
    """Draw a page in a browser, in a light or dark colour scheme. Return the size of the picture in bytes.

    The test is skipped where there is no browser.
    """
    picture = folder / "page.png"
    colours = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
    size = "--window-size=1280,2400"
    command = [*_browser(folder), "--hide-scrollbars", colours, size, f"--screenshot={picture}"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert picture.is_file(), done.stderr[-2000:]
    return picture.stat().st_size


def sheets(page: Path, folder: Path) -> int:
    """Have a browser print a page; gives the number of sheets of paper. The test is skipped where there is none."""
    paper = folder / "page.pdf"
    command = [*_browser(folder), "--no-pdf-header-footer", f"--print-to-pdf={paper}"]
    done = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert paper.is_file(), done.stderr[-2000:]
    return len(re.findall(rb"/Type\s*/Page\b", paper.read_bytes()))


def drawn(page: Path | str, folder: Path, milliseconds: int | None = None) -> str:
    """Run a page in a browser. Return its elements afterwards, as HTML. The test is skipped where there is no browser.

    A page that waits for a server gets `milliseconds` of virtual time.
    """
    waiting = [] if milliseconds is None else [f"--virtual-time-budget={milliseconds}"]
    command = [*_browser(folder), *waiting, "--dump-dom", page if isinstance(page, str) else page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
