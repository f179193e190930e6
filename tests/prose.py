"""Search docstrings, comments, messages and guides for the words that docs/style.md replaces."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
SUFFIXES = {".py", ".pyi", ".rs", ".md"}
FOLDERS = ("python", "crates", "docs", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")


def replaced_words() -> list[str]:
    """Return the left column of the table of words."""
    table = (TOP / "docs/style.md").read_text().split("## Words")[1].split("## Glossary")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)
    words = [row.strip() for row in rows if row.strip() not in ("instead of", "---")]
    assert len(words) > 10, "docs/style.md has no table of words"
    return words


def main() -> int:
    """Print each place where a replaced word stands; return the exit code."""
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, replaced_words())) + r")\b", re.IGNORECASE)
    listed = subprocess.run(["git", "ls-files", "--", *FOLDERS], cwd=TOP, capture_output=True, text=True, check=True)
    found = 0
    for name in listed.stdout.splitlines():
        path = TOP / name
        if path.suffix not in SUFFIXES or name == "docs/style.md" or not path.exists():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for match in pattern.finditer(line):
                print(f"{name}:{number}: {match[0]!r}: see docs/style.md")
                found += 1
    print(f"prose: {found} replaced words found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
