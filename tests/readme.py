"""The README stays short, what it links to is there, and its Python examples run."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

LINES = 120
TOP = Path(__file__).resolve().parent.parent


def main() -> None:
    """Check the README."""
    text = (TOP / "README.md").read_text()
    assert text.count("\n") < LINES, f"README.md has {text.count(chr(10))} lines, not under {LINES}"
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    missing = [link for link in links if not (TOP / link).exists()]
    assert not missing, f"README.md links to {missing}"
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert examples, "README.md has no Python example"
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([sys.executable, "-c", "\n".join(examples)], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    print(f"readme passed: {text.count(chr(10))} lines, {len(links)} links, {len(examples)} examples run")


if __name__ == "__main__":
    main()
