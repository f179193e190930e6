"""Objects other than directories and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sapwood.errors import CorruptError, LimitError, SapwoodWarning, UnsupportedError

if TYPE_CHECKING:
    from sapwood.columns import Foreign


def unreadable(key: Foreign) -> str | None:
    """Read the object of a key; return its unreadable parts and the reasons, or None."""
    import warnings

    from sapwood.objects.model import Model
    from sapwood.objects.standard import read_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SapwoodWarning)
        try:
            found = read_model(key)
        except (UnsupportedError, CorruptError, LimitError) as error:
            return str(error)
    parts = found.unreadable() if isinstance(found, Model) else []
    return "; ".join(f"{path or 'the object'}: {why}" for path, why in parts) or None
