"""Run the blocks of docs/guide/gallery.md in an empty folder, and keep the pictures that they make."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = Path(__file__).resolve().parent / "guide" / "gallery.md"
SHELL = "import subprocess; subprocess.run({0!r}, shell=True, check=True)\n"


def main() -> None:
    """Make the pictures again."""
    blocks = re.findall(r"```(python|sh)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    lines = [code if kind == "python" else "".join(map(SHELL.format, code.splitlines())) for kind, code in blocks]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "blocks.py").write_text("\n".join(lines), encoding="utf-8")
        subprocess.run([sys.executable, "blocks.py"], cwd=folder, env={**os.environ, "PATH": path}, check=True)
        shutil.rmtree(PAGE.with_suffix(""), ignore_errors=True)
        shutil.copytree(Path(folder) / "gallery", PAGE.with_suffix(""))


if __name__ == "__main__":
    main()
