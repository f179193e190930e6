"""Tables in plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sapwood.show.safe import safe_line


def layout(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> str:
    """Lay out rows in columns two spaces apart; columns in `right` are right-aligned."""
    if not rows:
        return ""
    flush = set(right)
    rows = [[safe_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "  ".join(
            cell.rjust(width) if column in flush else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n"
