"""The folder that is served: it maps URLs to files and hides everything outside."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from sapwood.errors import ArgumentError, NotFoundError

ROOT_FILES = frozenset({".root"})
"""Suffixes of files that jsroot reads."""
TABLE_FILES = ROOT_FILES | {".rz", ".hbook"}
"""Suffixes of files whose keys are listed."""
TYPES = {
    **dict.fromkeys(TABLE_FILES | {".parquet", ".arrow"}, "application/octet-stream"),
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".json": "application/json",
    **dict.fromkeys((".txt", ".csv", ".md", ".log", ".yaml", ".yml"), "text/plain"),
}
"""The suffixes of files that are served, and their types. None of them is run as a script."""


class Item(NamedTuple):
    """One line of a listing."""

    name: str
    is_folder: bool
    size: int
    modified: float


class Folder:
    """A folder that is served.

    Parameters
    ----------
    path
        The folder.

    Raises
    ------
    ArgumentError
        The path is not a folder.
    """

    def __init__(self, path: str | Path) -> None:
        try:
            self.path = Path(os.path.realpath(path, strict=True))  # raises no RuntimeError for a loop of links
        except OSError as error:
            raise ArgumentError(f"cannot serve {path}: {error.strerror or error}") from None
        if not self.path.is_dir():
            raise ArgumentError(f"cannot serve {path}: it is not a folder")

    def find(self, name: str) -> Path:
        """Return the file or folder at a relative path of a URL.

        Links are followed as long as they stay in the folder. Hidden names are not served.

        Raises
        ------
        NotFoundError
            No file or folder is served under this path.
        """
        parts = name.removesuffix("/").split("/") if name else []
        try:
            if all(map(_is_shown, parts)) and "\\" not in name:
                found = self.path
                for part in parts:
                    found = (found / part).resolve(strict=True)
                    inside = found.relative_to(self.path)  # a link that leads out has no relative path
                    if not all(map(_is_shown, inside.parts)):
                        raise ValueError(name)
                if self._is_served(found):
                    return found
        except (OSError, ValueError, RuntimeError):
            pass
        raise NotFoundError(f"{name!r} does not exist in this folder")

    def items(self, folder: Path) -> list[Item]:
        """Return the listing of a folder: folders first, sorted by name."""
        found: list[Item] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    path = self.find(str(Path(entry.path).relative_to(self.path)))
                    about = path.stat()
                except (NotFoundError, OSError):
                    continue
                found.append(Item(entry.name, stat.S_ISDIR(about.st_mode), about.st_size, about.st_mtime))
        return sorted(found, key=lambda item: (not item.is_folder, item.name))

    def without_place(self, text: str) -> str:
        """Return a text without the path of the folder."""
        return text.replace(f"{self.path}{os.sep}", "").replace(str(self.path), ".")

    @staticmethod
    def _is_served(path: Path) -> bool:
        """Return whether a path is a folder, or a regular file of a known kind."""
        mode = path.stat().st_mode
        return stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and path.suffix.lower() in TYPES)


def _is_shown(name: str) -> bool:
    return bool(name) and not name.startswith(".") and name.isprintable()


def url_of(kind: str, name: str, /, **query: object) -> str:
    """Return the URL of a page about a relative path; parameters that are None or empty are left out."""
    words = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in query.items() if value not in (None, ""))
    return f"/{kind}/{quote(name)}{'?' if words else ''}{words}"
