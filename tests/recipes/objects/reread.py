"""Run inside ROOT: read a file with the classes of a library, and say what ROOT reads.

reread.py FOLDER FILE RESULT [TREE]: FOLDER holds classes.h and libclasses.so; RESULT becomes {key: object as ROOT's
JSON} of all keys, or of the branches of one tree.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
import ROOT  # noqa: E402
from make import as_json, declare_json, trees_as_json  # noqa: E402


def main() -> None:
    """Read every key of the file, or one tree."""
    folder, path, result = map(Path, sys.argv[1:4])
    only = "".join(sys.argv[4:])
    ROOT.gErrorIgnoreLevel = ROOT.kError
    ROOT.gInterpreter.AddIncludePath(str(folder))
    if ROOT.gSystem.Load(str(folder / "libclasses.so")) != 0:
        raise RuntimeError(f"cannot load the library of {folder}")
    declare_json()
    result.write_text(json.dumps({**({} if only else as_json(path)), **trees_as_json(path, only)}))


if __name__ == "__main__":
    main()
