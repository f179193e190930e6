"""Settings of the documentation site: `make site` builds it into build/site, and fails on a link that leads nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

project = "sapwood"
copyright = "the sapwood developers"  # noqa: A001
extensions = ["myst_parser"]
exclude_patterns = ["*.py"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "sapwood"
html_copy_source = False
html_show_sphinx = False

_LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)(#[^)\s]*)?\)")


def name_files_outside(_: Any, page: str, source: list[str]) -> None:
    """Replace links to files outside docs by their names; a `FileNotFoundError` if one leads to no file."""
    here = (ROOT / "docs" / page).parent

    def shown(link: re.Match[str]) -> str:
        target = (here / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return link[0]
        if not target.exists():
            raise FileNotFoundError(f"{page}.md: the link to {link[2]} leads to no file")
        name = str(target.relative_to(ROOT))
        return f"`{name}`" if link[1].strip("`") == name else f"{link[1]} (`{name}`)"

    source[0] = _LINK.sub(shown, source[0])


def setup(app: Any) -> None:
    """Register what changes pages."""
    app.connect("source-read", name_files_outside)
