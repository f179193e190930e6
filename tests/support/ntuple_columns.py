"""Columns of many types for the tests that write RNTuples."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np

NUMBERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool"]


def columns(entries: int) -> dict[str, Any]:
    """Make the columns."""
    n = range(entries)
    return {
        **{kind: (np.arange(entries) * 37 % 251 - 100 * (kind[0] == "i")).astype(kind) for kind in NUMBERS},
        "text": [f"sé{i}" * (i % 4) for i in n],
        "lists": ak.Array([[i + k / 4 for k in range(i % 5)] for i in n]),
        "deep": ak.Array([[[k] * (k + 1) for k in range(i % 3)] for i in n]),
        "texts": ak.Array([[str(k) for k in range(i % 3)] for i in n]),
        "array": np.arange(entries * 6, dtype=np.float32).reshape(entries, 2, 3),
        "record": ak.Array([{"a": i, "b": [i] * (i % 3)} for i in n]),
        "hits": ak.Array([[{"x": float(i), "inner": {"id": k}} for k in range(i % 4)] for i in n]),
        "option": ak.Array([None if i % 3 == 0 else i / 2 for i in n]),
        "options": ak.Array([[None if (i + k) % 3 == 0 else k for k in range(i % 4)] for i in n]),
        "tuple": ak.Array([(i, i / 2) for i in n]),
    }
