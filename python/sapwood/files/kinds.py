"""The classes of objects in a file that are more than objects: directories, and tables of entries."""

from __future__ import annotations

DIRECTORIES = frozenset({"TDirectory", "TDirectoryFile"})

TREES = frozenset({"TTree", "TNtuple", "TNtupleD"})
"""Trees."""

TABLES = TREES
"""Tables of entries, of every kind."""
