"""Values as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


def json_text(value: object, indent: int | None = None) -> str:
    """Return a value as JSON; floats that JSON does not have are texts: ``"nan"``, ``"inf"``, ``"-inf"``."""
    try:
        return json.dumps(value, indent=indent, default=str, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), indent=indent, default=str)


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
