"""Import this module to register the classes with their own methods."""

from sapwood.objects import axis, basic, efficiency, entries, function, graph, histogram, matrix, roofit, sparse, table
from sapwood.objects.model import read_model

__all__ = [
    "axis",
    "basic",
    "efficiency",
    "entries",
    "function",
    "graph",
    "histogram",
    "matrix",
    "read_model",
    "roofit",
    "sparse",
    "table",
]
