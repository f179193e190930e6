"""The classes of objects in a file that are more than objects: directories, and tables of entries."""

from __future__ import annotations

DIRECTORIES = frozenset({"TDirectory", "TDirectoryFile", "RZDirectory"})

TREES = frozenset({"TTree", "TNtuple", "TNtupleD"})
"""Trees."""

HBOOK_NTUPLES = frozenset({"RWNtuple", "CWNtuple"})
"""Row-wise and column-wise ntuples of HBOOK."""

RNTUPLES = frozenset({"ROOT::RNTuple", "ROOT::Experimental::RNTuple"})
"""RNTuples. The experimental format is refused by name."""

TABLES = TREES | RNTUPLES | HBOOK_NTUPLES
"""Tables of entries, of every kind."""

BANKS = frozenset({"Banks", "Vector"})
"""What RZ files hold besides: banks of ZEBRA, and vectors of words."""

SUMMARY = "FileSummary"
"""The tree with one entry in which a train says what went into a file."""
